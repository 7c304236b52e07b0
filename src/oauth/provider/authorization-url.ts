/**
 * The authorization URL of a login (RFC 6749 §4.1.1, RFC 7636 §4.3, OpenID Connect Core §3.1.2.1).
 */
import { splitQuery } from '../../http/path.ts';
import { PROTOCOL_PARAMETERS } from './option-types.ts';
import type { ResolvedProviderOptions } from './options.ts';

export interface AuthorizationRequest {
  readonly redirectUri: string;
  readonly state: string;
  /** PKCE challenge by the method S256 (RFC 7636 §4.2). */
  readonly challenge: string;
  /** Required if the scopes of the provider include `openid`. */
  readonly nonce: string | undefined;
  /** Scopes in place of the provider's; `openid` stays if those contain it. */
  readonly scopes?: readonly string[] | undefined;
  /**
   * Parameters from the client's request. Only those in {@link EXTRA_PARAMETERS} are used. A parameter in the
   * provider's URL takes precedence.
   */
  readonly extra?: Readonly<Record<string, string>> | undefined;
  /**
   * Query parameters that the application adds to the URL of this login. They take precedence over the option
   * `authorizeParams`.
   */
  readonly params?: Readonly<Record<string, string>> | undefined;
}

/** Parameters of a client's request that are sent to the provider (OpenID Connect Core §3.1.2.1). */
const EXTRA_PARAMETERS: readonly string[] = ['login_hint', 'prompt', 'max_age', 'ui_locales'];

/**
 * Builds the URL that starts a login. Keeps the query of `authorizeUrl`, and sets no parameter twice. If
 * `isServedHere` is true, this application serves the provider, so the URL gets the origin of the callback.
 */
export function authorizationUrlOf(
  authorizeUrl: string,
  options: ResolvedProviderOptions,
  isServedHere: boolean,
  { redirectUri, state, challenge, nonce, scopes, extra = {}, params = {} }: AuthorizationRequest,
): string {
  const { clientId, clientIdName, usesOpenId, usesNonce, usesPkce, authorizeParams } = options;
  if (usesOpenId && usesNonce && nonce === undefined)
    // a bug of this package: without a nonce, a replayed id_token would not be detected
    throw new TypeError('A login by OpenID Connect needs a nonce');
  const asked = (scopes ?? options.scopes).filter((scope) => scope !== 'openid');
  const scope = [...(usesOpenId ? ['openid'] : []), ...asked].join(' ');
  const [address, query] = splitQuery(
    isServedHere ? new URL(new URL(authorizeUrl).pathname, redirectUri).href : authorizeUrl,
  );
  const kept = query.split('&').filter((pair) => pair !== '' && !PROTOCOL_PARAMETERS.has(nameOf(pair)));
  const own = { ...authorizeParams, ...params };
  const fixed = new Set([...kept.map(nameOf), ...Object.keys(own)]);
  const ours = new URLSearchParams({
    response_type: 'code',
    [clientIdName]: clientId,
    redirect_uri: redirectUri,
    ...(scope === '' ? {} : { scope }),
    state,
    ...(usesPkce ? { code_challenge: challenge, code_challenge_method: 'S256' } : {}),
    ...(usesOpenId && usesNonce && nonce !== undefined ? { nonce } : {}),
    ...Object.fromEntries(
      Object.entries(own).filter(([name]) => !kept.some((pair) => nameOf(pair) === name)),
    ),
    ...Object.fromEntries(
      EXTRA_PARAMETERS.flatMap((name) =>
        Object.hasOwn(extra, name) && !fixed.has(name) ? [[name, extra[name]!]] : [],
      ),
    ),
  });
  // a space becomes %20, because some providers read + as a plus sign
  return `${address}?${[...kept, ours.toString().replaceAll('+', '%20')].join('&')}`;
}

function nameOf(pair: string): string {
  return new URLSearchParams(pair).keys().next().value ?? '';
}
