/**
 * Logout that also logs the user out at the provider, and logout that the provider requests.
 *
 * - /oauth/logout ends the login, clears cookies and session, and redirects to the provider's page that ends
 *   the session there (OpenID Connect RP-Initiated Logout 1.0).
 * - POST /oauth/{provider}/backchannel-logout accepts a logout token from the provider, and ends the logins
 *   of the session or user that it names (OpenID Connect Back-Channel Logout 1.0).
 */
import { hash } from 'node:crypto';
import { HttpResponse, JSONResponse, RedirectResponse } from '../http/response.ts';
import { calling } from './authorization.ts';
import { OAuthError, invalidRequest, redirectRefused } from './errors.ts';
import { isLook, bodyParameters, parametersOf } from './parameters.ts';
import { assertOwnPage } from './guard.ts';
import { isLoopbackHost } from './redirects.ts';
import { hashOf } from './tokens/refresh-codec.ts';
import { isLive } from './tokens/store.ts';
import { assertSession } from './login-state.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { ConnectedProvider } from './provider/client.ts';
import type { RefreshToken } from './tokens/refresh-codec.ts';
import type { LoginRow } from './tokens/store.ts';

export class LogoutEndpoints {
  readonly #deps: EndpointDeps;

  constructor(deps: EndpointDeps) {
    this.#deps = deps;
  }

  /**
   * Handles `/oauth/logout`. Browsers are redirected to the provider. In JSON mode, the response has the
   * address of the provider's logout page as `logout_url`, or null if there is no such page.
   */
  async logout(req: HttpRequest): Promise<HttpResponse> {
    if (isLook(req)) return new HttpResponse(null, { status: 204 });
    const { guard, ownPages, audit, cookies, codec, store, refreshTokens, logins, options } = this.#deps;
    return guard.watched(req, async () => {
      const parameter = req.method === 'GET' ? parametersOf(req.query) : await bodyParameters(req);
      const to = this.#postLogoutUri(parameter('post_logout_redirect_uri'));
      const given = req.method === 'GET' ? undefined : parameter('refresh_token');
      if (given === undefined && cookies === undefined) throw invalidRequest('The refresh token is missing');
      // a page of another site must not log the user out
      if (cookies !== undefined) {
        assertOwnPage(req, ownPages, true, audit);
        assertSession(req);
      }
      const text = given ?? cookies?.refreshTokenOf(req);
      const token = text === undefined ? undefined : codec.parse(text);
      if (text !== undefined && token === undefined) await guard.take('forged', req);
      if (token !== undefined) await guard.take('revoke', req, token.id);
      const row = token === undefined ? undefined : await store.findLogin(token.id);
      if (token !== undefined) await refreshTokens.revoke(token, req);
      const url = token && row && (await this.#urlOf(req, token, row, to, parameter('state')));
      if (cookies === undefined) return new JSONResponse({ logout_url: url ?? null });
      const response = new RedirectResponse(url ?? to ?? options.afterLogin, { status: 303 });
      await logins.endSession(req);
      cookies.clear(req, response);
      return response;
    });
  }

  /** Handles a logout token (Back-Channel Logout 1.0 §2.5). Responds with 200 also without a login. */
  async backchannel(req: HttpRequest, { provider, client }: ConnectedProvider): Promise<HttpResponse> {
    const { guard, audit, ends, clock, used } = this.#deps;
    return guard.watched(req, async () => {
      const token = (await bodyParameters(req))('logout_token', MAX_TOKEN_CHARACTERS);
      if (token === undefined) throw invalidRequest('The parameter logout_token is missing');
      try {
        const { jti, validMs, ...identity } = await calling(() => client.verifyLogout(token));
        const use = hash('sha256', `${provider.name} ${jti}`, 'hex');
        const replayed = new OAuthError('provider_error', { reason: 'logout_token_replayed' });
        if (await used.isUsed('logout', use)) throw replayed;
        // the token is marked as used last: if the store fails before, the provider may send it again
        const ended = await ends.revokeIdentity({ provider: provider.name, ...identity }, clock.nowMicros());
        for (const { id, sub } of ended) audit.tokenRevoked(req, id, 'provider', sub);
        if (!(await used.use('logout', use, validMs))) throw replayed;
      } catch (error) {
        if (!(error instanceof OAuthError) || error.code !== 'provider_error') throw error;
        audit.warn('logout_refused', req, error.reason ?? error.code, provider.name);
        await guard.take('forged', req);
        throw invalidRequest('The logout token is not valid', { cause: error });
      }
      return new HttpResponse(null, { status: 200 });
    });
  }

  #postLogoutUri(given: string | undefined): string | undefined {
    const { postLogoutRedirectUris: uris = [] } = this.#deps.options;
    if (given === undefined) return uris.length === 1 ? uris[0] : undefined;
    if (uris.includes(given)) return given;
    throw redirectRefused('post_logout_redirect_uri', given);
  }

  /**
   * For development: returns the URL of `afterLogin` on this server. Undefined in production, if
   * `postLogoutRedirectUris` lists URLs, or if the Host field does not name the loopback interface.
   */
  #homeOf({ host }: HttpRequest): string | undefined {
    const { options, env } = this.#deps;
    return options.postLogoutRedirectUris?.length === 0 && env !== 'production' && isLoopbackHost(host)
      ? `http://${host}${options.afterLogin}`
      : undefined;
  }

  /**
   * Returns the URL of the provider's logout page; undefined if the provider has no such page, or cannot be
   * reached. `row` is the login before the logout. The URL contains the id_token only if the login lived, and
   * this is its current refresh token: the id_token may be that of a later login.
   */
  async #urlOf(
    req: HttpRequest,
    token: RefreshToken,
    row: LoginRow,
    given: string | undefined,
    state: string | undefined,
  ): Promise<string | undefined> {
    const { connected, providerTokens, clock } = this.#deps;
    const { sub, provider, subject } = row;
    const to = given ?? this.#homeOf(req);
    const isCurrent = isLive(row, clock.nowMicros()) && hashOf(token) === row.currentHash;
    try {
      return await connected.get(provider)?.client.logoutUrl(`${req.scheme}://${req.host}`, {
        idToken: isCurrent ? await providerTokens?.idTokenOf(sub, provider, subject) : undefined,
        to,
        state: to === undefined ? undefined : state,
      });
    } catch {
      // the login has already ended, so a failure of the provider does not matter
      return undefined;
    }
  }
}

const MAX_TOKEN_CHARACTERS = 16_384;
