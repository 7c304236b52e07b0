/**
 * Starts logins and account links at a provider: chooses the redirect URI, creates the login state, and
 * builds the URL of the provider's page.
 */
import { SvcError } from '../base/errors.ts';
import { OAuthError, redirectRefused } from './errors.ts';
import { ProviderFault } from '../auth/provider/failure.ts';
import { PROTOCOL_PARAMETERS } from './provider/option-types.ts';
import { extraOf, returnToOf, scopesOf } from './parameters.ts';
import { isScopes } from './plugin-options.ts';
import type { Awaitable, HttpRequest } from '../http/contracts.ts';
import type { LoginRequest, ReadOptions } from './plugin-options.ts';
import type { Begun, BegunLogin, LoginStates } from './login-state.ts';
import type { Parameters } from './parameters.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { RedirectAllowlist } from './redirects.ts';

interface LoginPurpose extends Pick<BegunLogin, 'keyThumbprint' | 'client' | 'link'> {
  /** All values of the parameter `redirect_uri`. More than one is refused. */
  readonly redirectUris: readonly string[];
}

interface AuthorizationsDeps {
  readonly states: LoginStates;
  /** Allowed redirect URIs, by the name of the provider. */
  readonly allowlists: ReadonlyMap<string, RedirectAllowlist>;
  readonly options: ReadOptions;
}

export class Authorizations {
  readonly #deps: AuthorizationsDeps;

  constructor(deps: AuthorizationsDeps) {
    this.#deps = deps;
  }

  /** Begins a login. The caller must call `begun.remember(response)`, which sets its cookie. */
  async begin(
    req: HttpRequest,
    { provider, client }: ConnectedProvider,
    parameter: Parameters,
    { redirectUris, ...purpose }: LoginPurpose,
  ): Promise<{ readonly url: string; readonly begun: Begun }> {
    const { states, allowlists, options } = this.#deps;
    const [given, ...others] = redirectUris;
    const redirectUri = allowlists.get(provider.name)?.choose(given, req.host);
    if (redirectUri === undefined || given === '' || others.length > 0)
      throw redirectRefused('redirect_uri', ...redirectUris);
    const returnTo = options.mode === 'cookie' ? returnToOf(parameter) : null;
    const extra = extraOf(parameter);
    const fewer = scopesOf(parameter('scope'), provider.scopes);
    const wish = checked(await options.onLogin?.(provider.name, req));
    const isOpenId = provider.scopes.includes('openid');
    const chosen = wish.scopes ?? fewer;
    // without the scope, the provider sends no id_token
    const scopes = isOpenId && chosen?.includes('openid') === false ? ['openid', ...chosen] : chosen;
    const begun = states.begin(req, {
      ...purpose,
      redirectUri,
      returnTo,
      provider: provider.name,
      scopes: scopes ?? null,
    });
    const url = await calling(() =>
      client.authorizationUrl({
        redirectUri,
        state: begun.state,
        challenge: begun.challenge,
        nonce: isOpenId ? begun.nonce : undefined,
        extra,
        params: wish.params,
        scopes,
      }),
    );
    return { url, begun };
  }
}

function checked(answer: LoginRequest | undefined): LoginRequest {
  if (answer === undefined) return {};
  const { params = {}, scopes } = answer;
  const problem = Object.entries(params)
    .map(([name, value]) => issueOfParameter(name, value))
    .find((issue) => issue !== undefined);
  if (problem !== undefined) throw new SvcError('E_OAUTH_USER', ['onLogin', problem]);
  if (scopes !== undefined && !isScopes(scopes))
    throw new SvcError('E_OAUTH_USER', [
      'onLogin',
      'the scopes must be a list of texts, each without spaces',
    ]);
  return { params, scopes };
}

function issueOfParameter(name: string, value: unknown): string | undefined {
  if (PROTOCOL_PARAMETERS.has(name)) return `the parameter "${name}" is one that the login sets itself`;
  if (name === 'max_age')
    return 'the parameter "max_age" is not verified for one login: set it in authorizeParams of the provider';
  return typeof value === 'string' ? undefined : `the parameter "${name}" is not text`;
}

export async function calling<T>(call: () => Awaitable<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof ProviderFault)) throw error;
    throw new OAuthError(error.code, { reason: error.reason, cause: error });
  }
}
