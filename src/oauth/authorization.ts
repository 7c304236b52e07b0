/**
 * The start of every flow at a provider: chooses the redirect URI, creates the state, and builds the address
 * of the provider's page.
 */
import { SvcError } from '../base/errors.ts';
import { OAuthError } from './errors.ts';
import { ProviderFault } from './provider/failure.ts';
import { PROTOCOL_PARAMETERS } from './provider/option-types.ts';
import { isScopes } from './plugin-options.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { LoginRequest, OnLogin } from './plugin-options.ts';
import type { Begun, BegunLogin, LoginStates } from './login-state.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { RedirectAllowlist } from './redirects.ts';

/** Parameters of a login, before `onLogin` has changed them. */
interface AskedLogin extends Omit<BegunLogin, 'provider' | 'scopes'> {
  /** Requested scopes. Undefined: the configured scopes of the provider. */
  readonly scopes: readonly string[] | undefined;
  /** Further parameters of the authorization URL. */
  readonly extra: Readonly<Record<string, string>>;
}

/** Dependencies of {@link Authorizations}. */
interface AuthorizationsDeps {
  readonly states: LoginStates;
  /** Allowed redirect URIs by provider. */
  readonly allowlists: ReadonlyMap<string, RedirectAllowlist>;
  readonly onLogin: OnLogin | undefined;
}

/** Starts logins and links at providers. */
export class Authorizations {
  readonly #deps: AuthorizationsDeps;

  constructor(deps: AuthorizationsDeps) {
    this.#deps = deps;
  }

  /**
   * Returns the redirect URI of a request. `given`: the values of its parameter `redirect_uri`.
   * @throws OAuthError `invalid_redirect_uri`
   */
  redirectUri(req: HttpRequest, provider: string, given: readonly string[]): string {
    const chosen =
      given.length > 1 || given[0] === ''
        ? undefined
        : this.#deps.allowlists.get(provider)?.choose(given[0], req.host);
    if (chosen === undefined) throw new OAuthError('invalid_redirect_uri');
    return chosen;
  }

  /**
   * Creates the state of a login. Returns the address of the provider's page, and the state for the browser's
   * cookie.
   * @throws OAuthError when discovery fails
   */
  async begin(
    req: HttpRequest,
    { provider, client }: ConnectedProvider,
    { scopes: fewer, extra, ...login }: AskedLogin,
  ): Promise<{ readonly url: string; readonly begun: Begun }> {
    const wish = checked(provider, await this.#deps.onLogin?.(provider.name, req));
    const scopes = wish.scopes ?? fewer;
    const begun = this.#deps.states.begin(req, { ...login, provider: provider.name, scopes: scopes ?? null });
    const url = await calling(() =>
      client.authorizationUrl({
        redirectUri: login.redirectUri,
        state: begun.state,
        challenge: begun.challenge,
        nonce: provider.scopes.includes('openid') ? begun.nonce : undefined,
        extra,
        params: wish.params,
        scopes,
      }),
    );
    return { url, begun };
  }
}

/** Checks the return value of `onLogin`. @throws SvcError `E_OAUTH_USER` */
function checked(provider: OAuthProvider, answer: LoginRequest | undefined): LoginRequest {
  if (answer === undefined) return {};
  const { params = {}, scopes } = answer;
  const taken = Object.entries(params).find(
    ([name, value]) => PROTOCOL_PARAMETERS.has(name) || name === 'max_age' || typeof value !== 'string',
  )?.[0];
  if (taken !== undefined)
    throw new SvcError('E_OAUTH_USER', [
      'onLogin',
      `the parameter "${taken}" is not text, or is reserved for the protocol`,
    ]);
  if (scopes !== undefined && !isScopes(scopes))
    throw new SvcError('E_OAUTH_USER', ['onLogin', 'the scopes are not a list of words']);
  const lacksOpenId = provider.scopes.includes('openid') && scopes?.includes('openid') === false;
  return { params, scopes: lacksOpenId ? ['openid', ...scopes] : scopes };
}

/** Calls the provider, and translates its failures into OAuth errors. */
export async function calling<T>(call: () => Awaitable<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof ProviderFault)) throw error;
    const headers = error.code === 'temporarily_unavailable' ? { 'Retry-After': '1' } : undefined;
    throw new OAuthError(error.code, { reason: error.reason, cause: error, headers });
  }
}
