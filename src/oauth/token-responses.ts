/**
 * Token responses of the callback and of `/oauth/token`: as JSON, or in cookies.
 */
import { JSONResponse, RedirectResponse } from '../http/response.ts';
import type { Clock } from '../base/clock.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { AccessTokens, TokenUser } from './tokens/access.ts';
import type { TokenCookies } from './tokens/cookies.ts';
import type { DPoP } from './tokens/dpop.ts';
import type { LoginRow } from './tokens/store.ts';

/** A pair of tokens for a response. */
export interface IssuedPair {
  readonly login: LoginRow;
  readonly refreshToken: string;
  /** Subject, scopes and claims of the access token. */
  readonly user: TokenUser;
  /** Issue time of the access token, in microseconds. */
  readonly issuedAt: number;
}

/** Members of a response with tokens (RFC 6749 §5.1). */
export type TokenBody =
  | {
      readonly access_token: string;
      readonly token_type: 'Bearer' | 'DPoP';
      readonly refresh_token: string;
      /** Lifetime of the access token in seconds. */
      readonly expires_in: number;
      /** Scopes, separated by spaces. */
      readonly scope: string;
    }
  | { readonly token_type: 'Cookie'; readonly expires_in: number; readonly scope: string };

/** Creates token responses. */
export class TokenResponses {
  readonly #access: AccessTokens;
  readonly #cookies: TokenCookies | undefined;
  readonly #dpop: DPoP | undefined;
  readonly #clock: Clock;

  /** `cookies`: defined in cookie mode. `dpop`: defined unless the option is `off`. */
  constructor(deps: {
    readonly access: AccessTokens;
    readonly cookies: TokenCookies | undefined;
    readonly dpop: DPoP | undefined;
    readonly clock: Clock;
  }) {
    this.#access = deps.access;
    this.#cookies = deps.cookies;
    this.#dpop = deps.dpop;
    this.#clock = deps.clock;
  }

  /** Creates the response with a pair. In cookie mode `to`, a local path, makes it a redirect. */
  of(req: HttpRequest, pair: IssuedPair, to?: string): HttpResponse {
    if (this.#cookies !== undefined) {
      const body = this.#withoutTokens(pair);
      const response = to === undefined ? new JSONResponse(body) : new RedirectResponse(to, { status: 303 });
      this.body(req, pair, response);
      return response;
    }
    return new JSONResponse(
      this.body(req, pair, undefined),
      this.#dpop === undefined ? {} : { headers: { 'DPoP-Nonce': this.#dpop.nonce } },
    );
  }

  /**
   * Returns the members of a token response (RFC 6749 §5.1). In cookie mode, the tokens are put into cookies
   * of `response` instead.
   */
  body(req: HttpRequest, pair: IssuedPair, response: HttpResponse | undefined): TokenBody {
    const { login, refreshToken, user, issuedAt } = pair;
    const accessToken = this.#access.make(user, login.id, issuedAt, login.keyThumbprint);
    if (this.#cookies !== undefined && response !== undefined) {
      const nowMicros = this.#clock.nowMicros();
      this.#cookies.set(req, response, { accessToken, refreshToken, login, nowMicros });
      return this.#withoutTokens(pair);
    }
    return {
      access_token: accessToken,
      token_type: login.keyThumbprint === null ? 'Bearer' : 'DPoP',
      refresh_token: refreshToken,
      expires_in: this.#access.ttlSeconds,
      scope: user.scopes.join(' '),
    };
  }

  #withoutTokens({ user }: IssuedPair): TokenBody {
    return { token_type: 'Cookie', expires_in: this.#access.ttlSeconds, scope: user.scopes.join(' ') };
  }
}
