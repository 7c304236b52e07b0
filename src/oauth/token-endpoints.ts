/**
 * Handlers of `/oauth/token` and `/oauth/revoke`, and the logout that a route of the application can call.
 *
 * `/oauth/token` exchanges a refresh token for new tokens. Overlapping requests get the same new tokens.
 * `/oauth/revoke` ends the login of a refresh token.
 */
import { HttpResponse } from '../http/response.ts';
import { OAuthError, invalidRequest } from './errors.ts';
import { assertOwnPage, pageIssue } from './guard.ts';
import { bodyParameters } from './parameters.ts';
import { assertSession } from './login-state.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { TransportRequest } from '../http/request/request.ts';
import type { ClientCodes } from './client-codes.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { RefreshToken } from './tokens/refresh-codec.ts';
import type { Refreshed } from './tokens/refresh.ts';

export class TokenEndpoints {
  readonly #deps: EndpointDeps;
  readonly #codes: ClientCodes | undefined;

  /** `codes` is defined if the option `nativeRedirects` is set. */
  constructor(deps: EndpointDeps, codes: ClientCodes | undefined) {
    this.#deps = deps;
    this.#codes = codes;
  }

  /** Handles `POST /oauth/token`. In cookie mode, the cookie is sufficient. */
  token(req: HttpRequest): Promise<HttpResponse> {
    return this.#deps.guard.watched(req, async () => {
      const arrivedMs = this.#deps.arrivals.of(req as TransportRequest);
      const parameter = await bodyParameters(req);
      const grantType = parameter('grant_type');
      if (grantType === 'authorization_code' && this.#codes !== undefined) {
        await this.#deps.guard.take('callback', req);
        return this.#deps.responses.of(req, await this.#codes.exchange(req, parameter));
      }
      if (grantType !== undefined && grantType !== 'refresh_token')
        throw new OAuthError('unsupported_grant_type');
      const scopes = parameter('scope')
        ?.split(' ')
        .filter((scope) => scope !== '');
      const { token } = await this.#presented(req, parameter('refresh_token'));
      if (token === undefined) {
        this.#deps.audit.refreshRefused(req, 'forged');
        throw new OAuthError('invalid_grant', { reason: 'forged' });
      }
      await this.#deps.guard.take('token', req, token.id);
      const keyThumbprint = (await this.#deps.dpop?.keyOf(req, token.id)) ?? null;
      const refreshed = await this.#deps.refreshTokens.refresh(token, {
        arrivedMs,
        scopes,
        keyThumbprint,
        req,
      });
      const { login, refreshToken } = refreshed;
      this.#completeWhenSent(req, refreshed);
      const user = { sub: login.sub, scopes: refreshed.scopes, claims: refreshed.claims };
      return this.#deps.responses.of(req, { login, refreshToken, user, issuedAt: refreshed.issuedAt });
    });
  }

  /**
   * Handles `POST /oauth/revoke` with a refresh token (RFC 7009). Responds with 200 even if there was nothing
   * to revoke. In cookie mode, a page of this origin may omit the refresh token; then the login of the
   * session ends, and the cookies and the session are deleted.
   */
  revoke(req: HttpRequest): Promise<HttpResponse> {
    return this.#deps.guard.watched(req, async () => {
      const parameter = await bodyParameters(req);
      const given = parameter('token') ?? parameter('refresh_token');
      const response = new HttpResponse(null, { status: 200 });
      if (given === undefined && this.#isOwnPageWithoutToken(req)) {
        await this.#forget(req, response);
        return response;
      }
      const { token, isCookie } = await this.#presented(req, given);
      if (isCookie) assertSession(req);
      if (token !== undefined) {
        // revocations have their own limit, which an attacker cannot use up by refreshes with an old token
        await this.#deps.guard.take('revoke', req, token.id);
        await this.#deps.refreshTokens.revoke(token, req);
      }
      // the cookies are deleted only if the token came from a cookie
      if (isCookie) await this.#forget(req, response);
      return response;
    });
  }

  /**
   * Logs out for a route of the application: ends the logins of the refresh cookie and of the session, and
   * deletes the cookies and the session. Returns whether a login has ended.
   */
  logout(req: HttpRequest, response: HttpResponse): Promise<boolean> {
    return this.#deps.guard.watched(req, async () => {
      const { cookies, codec, refreshTokens } = this.#deps;
      assertSession(req);
      const text = cookies?.refreshTokenOf(req);
      const token = text === undefined ? undefined : codec.parse(text);
      const isEnded = token !== undefined && (await refreshTokens.revoke(token, req));
      return (await this.#forget(req, response)) || isEnded;
    });
  }

  /** Returns the refresh token, if it is valid, and whether it came from the cookie. */
  async #presented(
    req: HttpRequest,
    given: string | undefined,
  ): Promise<{ readonly token: RefreshToken | undefined; readonly isCookie: boolean }> {
    const { cookies, codec } = this.#deps;
    const text = given ?? cookies?.refreshTokenOf(req);
    if (text === undefined)
      throw invalidRequest(
        cookies === undefined
          ? 'The refresh token is missing'
          : 'The refresh token is missing: neither the request body nor a cookie contains a refresh token',
      );
    const isCookie = given === undefined;
    // In cookie mode, a page of another site must not refresh or revoke, because the browser adds the cookie.
    // Such a page must not send a refresh token of its own either, because that would log the user in as
    // another user.
    if (cookies !== undefined) assertOwnPage(req, this.#deps.ownPages, isCookie, this.#deps.audit);
    const token = codec.parse(text);
    if (token === undefined) await this.#deps.guard.take('forged', req);
    return { token, isCookie };
  }

  #isOwnPageWithoutToken(req: HttpRequest): boolean {
    const { cookies } = this.#deps;
    return (
      cookies !== undefined &&
      cookies.refreshTokenOf(req) === undefined &&
      pageIssue(req, this.#deps.ownPages, true) === undefined
    );
  }

  /** Deletes the token cookies and the session of a browser. Returns whether the session's login has ended. */
  async #forget(req: HttpRequest, response: HttpResponse): Promise<boolean> {
    const isEnded = await this.#deps.logins.endSession(req);
    this.#deps.cookies?.clear(req, response);
    return isEnded;
  }

  /** Completes the rotation after the response was sent: a client may retry before. */
  #completeWhenSent(req: HttpRequest, refreshed: Refreshed): void {
    const { late, afterwards } = req as TransportRequest;
    if (late !== undefined) return; // a time limit has passed, so the client already has an error response
    afterwards.call(req, async (outcome) => {
      if (outcome !== undefined) return; // the response was not sent completely, so the client may retry
      await this.#deps.refreshTokens
        .markDelivered(refreshed)
        .catch((error: unknown) => this.#deps.guard.noteStore(req, error));
    });
  }
}
