/**
 * Stateless functions of DevProvider: metadata, checks of requests, responses, pages, and logout (OpenID
 * Connect RP-Initiated Logout 1.0).
 */
import { hash } from 'node:crypto';
import { escapeHtml } from '../../http/response.ts';
import { pageOf, policyOf } from '../failure-page.ts';
import type { DevAlgorithm } from './keys.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

/** A user that a developer can choose in order to log in. */
export interface DevUser {
  /** Id of the user at the provider. */
  readonly sub: string;
  /** Name to show. */
  readonly name?: string | undefined;
  /** Email address. */
  readonly email?: string | undefined;
  /** Whether `email` is verified. Default true. */
  readonly emailVerified?: boolean | undefined;
  /** URL of a picture. */
  readonly picture?: string | undefined;
  /** Additional claims in user info and id_token, such as `acr`. `auth_time` replaces the time of the login. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
}

/** A request for `DevProvider.handle()`. */
export interface DevRequest {
  /** HTTP method of the request. */
  readonly method: string;
  /** Path below the issuer, for example `/authorize`. */
  readonly path: string;
  /** Query without the question mark. */
  readonly query: string;
  /** Headers by lower-case name. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Text of the body. */
  readonly body: string;
  /**
   * Origin of the request, for example `http://localhost:8000`. Paths in `redirectUris` are relative to it.
   */
  readonly origin?: string | undefined;
}

/** A response of `DevProvider.handle()`. Header names are lower-case. */
export interface DevResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Claims that each scope gives (OpenID Connect Core §5.4). */
const PROFILES: Readonly<Record<string, readonly string[]>> = {
  email: ['email', 'email_verified'],
  profile: ['name', 'picture'],
};

/**
 * Returns the discovery document (OpenID Connect Discovery §3, RFC 8414 §2, RFC 9207 §3). The URLs of the
 * endpoints begin with `url`.
 */
export function metadataOf(issuer: string, algorithm: DevAlgorithm, url: string): JsonObject {
  return {
    issuer,
    authorization_endpoint: `${url}/authorize`,
    token_endpoint: `${url}/token`,
    userinfo_endpoint: `${url}/userinfo`,
    jwks_uri: `${url}/jwks`,
    end_session_endpoint: `${url}/logout`,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code'],
    subject_types_supported: ['public'],
    id_token_signing_alg_values_supported: [algorithm],
    token_endpoint_auth_methods_supported: ['client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    scopes_supported: ['openid', 'email', 'profile'],
    authorization_response_iss_parameter_supported: true,
    request_uri_parameter_supported: false,
  };
}

/** Returns the error code of an authorization request (RFC 6749 §4.1.2.1, RFC 7636 §4.4.1). */
export function authorizationError(
  given: URLSearchParams,
  one: (name: string) => string | undefined,
): string | undefined {
  if (new Set(given.keys()).size < given.size) return 'invalid_request';
  if (given.has('request')) return 'request_not_supported';
  if (given.has('request_uri')) return 'request_uri_not_supported';
  if (!given.has('response_type') || (given.get('response_mode') ?? 'query') !== 'query')
    return 'invalid_request';
  if (given.get('response_type') !== 'code') return 'unsupported_response_type';
  return one('code_challenge_method') === 'S256' && /^[\w-]{43}$/.test(one('code_challenge') ?? '')
    ? undefined
    : 'invalid_request';
}

/** Returns the claims of a user for these scopes (OpenID Connect Core §5.4). */
export function claimsOf(
  { sub, name, email, emailVerified = true, picture, claims }: DevUser,
  scopes: readonly string[],
): Record<string, unknown> {
  const all: JsonObject = {
    name,
    picture,
    email,
    email_verified: email === undefined ? undefined : emailVerified,
  };
  const allowed = scopes.flatMap((scope) => (Object.hasOwn(PROFILES, scope) ? PROFILES[scope]! : []));
  return {
    ...claims,
    ...Object.fromEntries(
      allowed.filter((claim) => all[claim] !== undefined).map((claim) => [claim, all[claim]]),
    ),
    sub,
  };
}

export function badPage(problem: string, title = 'This login cannot go on'): DevResponse {
  return { status: 400, headers: pageHeaders([]), body: page(title, `<p>${escapeHtml(problem)}</p>`) };
}

/** Returns whether a list contains a URL. A path in the list is relative to `origin`. */
export function isRegistered(entries: readonly string[], url: string, origin: string | undefined): boolean {
  return entries.some((entry) =>
    entry.startsWith('/') ? origin !== undefined && url === origin + entry : url === entry,
  );
}

/** Returns the problem of a URL that is not registered, with the URL and the registered ones. */
export function unregistered(
  parameter: 'redirect_uri' | 'post_logout_redirect_uri',
  sent: string | undefined,
  registered: readonly string[],
): string {
  const option = parameter === 'redirect_uri' ? 'redirectUris' : 'postLogoutRedirectUris';
  return `The ${parameter} is ${sent ?? 'absent, or occurs more than once'}. The option ${option} of DevProvider has ${registered.join(', ') || 'no entry'}.`;
}

export function tokenError(
  error: string,
  status: number = 400,
  headers: Readonly<Record<string, string>> = {},
): DevResponse {
  return json(status, { error }, { 'cache-control': 'no-store', pragma: 'no-cache', ...headers });
}

/** Returns a JSON response. */
export function json(
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): DevResponse {
  return {
    status,
    headers: { 'content-type': 'application/json', 'x-content-type-options': 'nosniff', ...headers },
    body: JSON.stringify(body),
  };
}

const STYLE =
  'body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:4rem auto;padding:0 1rem;color:#1b1b1b;background:#fff;overflow-wrap:anywhere}' +
  'button{display:block;width:100%;margin:.5rem 0;padding:.75rem 1rem;font:inherit;text-align:left;color:inherit;' +
  'background:#f2f4f7;border:1px solid #667085;border-radius:.5rem;cursor:pointer}' +
  'button:hover,button:focus-visible{background:#dde7f7;outline:2px solid #1d4ed8}small{display:block;color:#475467}' +
  '@media(prefers-color-scheme:dark){body{color:#f2f4f7;background:#16181d}button{background:#262a33;border-color:#98a2b3}button:hover,button:focus-visible{background:#1e3a6e;outline-color:#93c5fd}small{color:#d0d5dd}}';
const STYLE_HASH = hash('sha256', STYLE, 'base64');

/**
 * Returns the headers of a page. Its Content Security Policy allows forms to this origin, with redirects to
 * `formOrigins`. If `formOrigins` is empty, the policy allows no forms.
 */
export function pageHeaders(formOrigins: readonly string[]): Record<string, string> {
  const targets = formOrigins.length === 0 ? "'none'" : ["'self'", ...formOrigins].join(' ');
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policyOf(`style-src 'sha256-${STYLE_HASH}'`, targets),
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'x-content-type-options': 'nosniff',
    'x-frame-options': 'DENY',
  };
}

/** Returns the page on which a developer chooses a user, with the request's parameters. */
export function pickerPage(
  action: string,
  parameters: Readonly<Record<string, string>>,
  users: readonly DevUser[],
): string {
  const buttons = users.map(
    ({ sub, name, email }) =>
      `<button name="user" value="${escapeHtml(sub)}">${escapeHtml(name ?? sub)}<small>${escapeHtml(email ?? sub)}</small></button>`,
  );
  return page(
    'Choose who to be',
    `<p>This stands in for an identity provider during development. It asks for no password.</p>
<form method="post" action="${escapeHtml(action)}">
${hiddenFields(parameters)}
${buttons.join('\n')}
<button name="deny" value="1">Cancel the login</button>
</form>`,
  );
}

/**
 * Returns the page that asks whether to log out. Its form also contains the parameters of the logout request.
 */
function logoutPage(action: string, parameters: Readonly<Record<string, string>>): string {
  return page(
    'Log out at the provider?',
    `<form method="post" action="${escapeHtml(action)}">
${hiddenFields(parameters)}
<button name="confirmed" value="1">Log out</button>
</form>`,
  );
}

function hiddenFields(parameters: Readonly<Record<string, string>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `<input type="hidden" name="${escapeHtml(name)}" value="${escapeHtml(value)}">`)
    .join('\n');
}

function page(title: string, body: string): string {
  return pageOf(title, `<style>${STYLE}</style>`, body);
}

/**
 * A login for which a user was chosen. It is stored under its authorization code and, after the exchange of
 * the code, also under its access token.
 */
export interface Grant {
  readonly user: DevUser;
  readonly redirectUri: string;
  readonly challenge: string;
  readonly nonce: string | undefined;
  readonly scopes: readonly string[];
  readonly authTime: number;
  readonly expiresMs: number;
  /**
   * The access token, after the exchange of the code. A second exchange deletes the token (RFC 6749 §4.1.2).
   */
  accessToken: string | undefined;
}

interface LogoutDeps {
  readonly clientId: string;
  readonly issuer: string;
  /** Returns the claims of an id_token, or undefined if this provider has not signed it. */
  readonly claimsOf: (token: string) => JsonObject | undefined;
  /** The option `postLogoutRedirectUris`. */
  readonly registered: readonly string[];
  /** Origin of the request, for registered paths. */
  readonly origin: string | undefined;
}

/** Parameters of a logout request without a hint that its confirmation needs. */
const PARAMETERS = ['client_id', 'post_logout_redirect_uri', 'state'];

/** Handles a logout request (RP-Initiated Logout 1.0 §2). An invalid one redirects nowhere. */
export function logoutAnswer(given: URLSearchParams, isForm: boolean, deps: LogoutDeps): DevResponse {
  if (new Set(given.keys()).size < given.size) return refused('A parameter occurs more than once.');
  const hint = given.get('id_token_hint');
  const claims = hint === null ? undefined : deps.claimsOf(hint);
  if (hint !== null && (claims?.['iss'] !== deps.issuer || claims['aud'] !== deps.clientId))
    return refused('The id_token_hint is not an id_token of this provider for its client.');
  const clientId = given.get('client_id');
  if (clientId !== null && clientId !== deps.clientId) return refused('The client_id is unknown.');
  const to = given.get('post_logout_redirect_uri');
  if (to !== null && clientId === null && hint === null)
    return refused('A post_logout_redirect_uri needs an id_token_hint or a client_id.');
  if (to !== null && !isRegistered(deps.registered, to, deps.origin))
    return refused(unregistered('post_logout_redirect_uri', to, deps.registered));
  if (hint === null && !(isForm && given.has('confirmed'))) {
    const parameters = Object.fromEntries([...given].filter(([name]) => PARAMETERS.includes(name)));
    const origin = new URL(to ?? deps.issuer).origin;
    return { status: 200, headers: pageHeaders([origin]), body: logoutPage('logout', parameters) };
  }
  if (to === null) {
    const body = page('You are logged out at the provider', '<p>You may close this page.</p>');
    return { status: 200, headers: pageHeaders([]), body };
  }
  const url = new URL(to);
  const state = given.get('state');
  if (state !== null) url.searchParams.set('state', state);
  return { status: 303, headers: { location: url.href, 'cache-control': 'no-store' }, body: '' };
}

function refused(problem: string): DevResponse {
  return badPage(problem, 'This logout cannot go on');
}
