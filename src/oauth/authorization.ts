/**
 * The beginning of every way to a provider: a redirect URI that is allowed, a state, the address of the provider's page.
 */
import { OAuthError } from './errors.ts';
import { ProviderFailure } from './provider/failure.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { Begun, BegunLogin, LoginStates } from './login-state.ts';
import type { ProviderClient } from './provider/client.ts';
import type { OAuthProvider } from './provider/presets.ts';
import type { RedirectAllowlist } from './redirects.ts';

/** A provider and the client that talks to it. */
export interface ConnectedProvider {
  readonly provider: OAuthProvider;
  /** A new one each time the application starts. */
  client: ProviderClient;
}

/** A login as it is asked for. */
export interface AskedLogin extends Omit<BegunLogin, 'provider' | 'scopes'> {
  /** Undefined: those that the provider is configured with. */
  readonly scopes: readonly string[] | undefined;
  /** Further parameters of the authorization URL. */
  readonly extra: Readonly<Record<string, string>>;
}

/** Begins logins at providers. */
export class Authorizations {
  readonly #states: LoginStates;
  readonly #allowlistOf: (provider: string) => RedirectAllowlist;

  constructor(states: LoginStates, allowlistOf: (provider: string) => RedirectAllowlist) {
    this.#states = states;
    this.#allowlistOf = allowlistOf;
  }

  /** The redirect URI of a request that names these. @throws OAuthError `invalid_redirect_uri` */
  redirectUri(req: HttpRequest, provider: string, given: readonly string[]): string {
    const chosen =
      given.length > 1 || given[0] === ''
        ? undefined
        : this.#allowlistOf(provider).choose(given[0], req.host);
    if (chosen === undefined) throw new OAuthError('invalid_redirect_uri');
    return chosen;
  }

  /** The address of the provider's page, and what the browser has to keep. @throws OAuthError when the provider has to be discovered and cannot be */
  async begin(
    req: HttpRequest,
    { provider, client }: ConnectedProvider,
    { scopes, extra, ...login }: AskedLogin,
  ): Promise<{ readonly url: string; readonly begun: Begun }> {
    const begun = this.#states.begin(req, { ...login, provider: provider.name, scopes: scopes ?? null });
    const url = await calling(() =>
      client.authorizationUrl({
        redirectUri: login.redirectUri,
        state: begun.state,
        challenge: begun.challenge,
        nonce: provider.scopes.includes('openid') ? begun.nonce : undefined,
        extra,
        scopes,
      }),
    );
    return { url, begun };
  }
}

/** A call to the provider: what goes wrong there has a code of ours. */
export async function calling<T>(call: () => Awaitable<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof ProviderFailure)) throw error;
    const headers = error.code === 'temporarily_unavailable' ? { 'Retry-After': '1' } : undefined;
    throw new OAuthError(error.code, { reason: error.reason, cause: error, headers });
  }
}
