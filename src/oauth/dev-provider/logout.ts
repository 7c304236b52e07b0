/**
 * Logout at DevProvider (OpenID Connect RP-Initiated Logout 1.0). It keeps no sessions: the endpoint asks, and sends the browser back.
 *
 *   id_token_hint, client_id, post_logout_redirect_uri checked -> page with a button, unless there is a hint -> back, with state
 */
import { badPage, loggedOutPage, logoutPage, pageHeaders } from './protocol.ts';
import type { DevResponse } from './protocol.ts';

/** The provider that a logout is for. */
interface LogoutDeps {
  readonly clientId: string;
  readonly issuer: string;
  /** Claims of an id_token of this provider, else undefined. */
  readonly claimsOf: (token: string) => Readonly<Record<string, unknown>> | undefined;
  readonly mayReturnTo: (url: string) => boolean;
}

const PARAMETERS = [
  'id_token_hint',
  'client_id',
  'post_logout_redirect_uri',
  'state',
  'logout_hint',
  'ui_locales',
];

/** Answers a logout request (§2). Mistakes are shown on a page, and never sent to the address that the request names. */
export function logoutAnswer(given: URLSearchParams, isForm: boolean, deps: LogoutDeps): DevResponse {
  if (new Set(given.keys()).size < given.size) return refused('A parameter is there more than once.');
  const hint = given.get('id_token_hint');
  const claims = hint === null ? undefined : deps.claimsOf(hint);
  if (hint !== null && (claims?.['iss'] !== deps.issuer || claims['aud'] !== deps.clientId))
    return refused('The id_token_hint is not an id_token of this provider for its client.');
  const clientId = given.get('client_id');
  if (clientId !== null && clientId !== deps.clientId) return refused('The client_id is unknown.');
  const to = given.get('post_logout_redirect_uri');
  if (to !== null && clientId === null && hint === null)
    return refused('A post_logout_redirect_uri needs an id_token_hint or a client_id.');
  if (to !== null && !deps.mayReturnTo(to))
    return refused('The post_logout_redirect_uri is not one of those registered with DevProvider.');
  if (hint === null && !(isForm && given.has('confirmed'))) {
    const parameters = Object.fromEntries([...given].filter(([name]) => PARAMETERS.includes(name)));
    const origin = new URL(to ?? deps.issuer).origin;
    return { status: 200, headers: pageHeaders([origin]), body: logoutPage('logout', parameters) };
  }
  if (to === null) return { status: 200, headers: pageHeaders([]), body: loggedOutPage() };
  const url = new URL(to);
  const state = given.get('state');
  if (state !== null) url.searchParams.set('state', state);
  return { status: 303, headers: { location: url.href, 'cache-control': 'no-store' }, body: '' };
}

function refused(problem: string): DevResponse {
  return badPage(problem, 'This logout cannot go on');
}
