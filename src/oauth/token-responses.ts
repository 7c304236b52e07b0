/**
 * Token responses of the callback and of `/oauth/token`: as JSON, or in cookies.
 */
import { JSONResponse, RedirectResponse } from '../http/response.ts';
import type { Clock } from '../base/clock.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { AccessTokens, TokenUser } from './tokens/access.ts';
import type { TokenCookies } from './tokens/cookies.ts';
import type { DPoP } from './tokens/dpop.ts';
import type { Issued } from './tokens/refresh.ts';

/** A refresh token, and the content of the access token that is issued with it. */
export interface IssuedPair extends Issued {
  readonly user: TokenUser;
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

interface TokenResponsesDeps {
  readonly options: ReadOptions;
  readonly access: AccessTokens;
  readonly clock: Clock;
  readonly cookies: TokenCookies | undefined;
  readonly dpop: DPoP | undefined;
}

export class TokenResponses {
  readonly #deps: TokenResponsesDeps;

  constructor(deps: TokenResponsesDeps) {
    this.#deps = deps;
  }

  /** Creates a token response. In cookie mode, it redirects to the local path `to`, if given. */
  of(req: HttpRequest, pair: IssuedPair, to?: string): HttpResponse {
    const { cookies, dpop } = this.#deps;
    if (cookies !== undefined) {
      const body = this.#withoutTokens(pair);
      const response = to === undefined ? new JSONResponse(body) : new RedirectResponse(to, { status: 303 });
      this.body(req, pair, response);
      return response;
    }
    return new JSONResponse(
      this.body(req, pair, undefined),
      dpop === undefined ? {} : { headers: { 'DPoP-Nonce': dpop.nonce } },
    );
  }

  /**
   * Returns the members of a token response (RFC 6749 §5.1). In cookie mode, they contain no tokens: the
   * tokens are set as cookies on `response`.
   */
  body(req: HttpRequest, pair: IssuedPair, response: HttpResponse | undefined): TokenBody {
    const { access, clock, cookies, options } = this.#deps;
    const { login, refreshToken, user, issuedAt } = pair;
    const accessToken = access.make(user, login.id, issuedAt, login.keyThumbprint);
    if (cookies !== undefined && response !== undefined) {
      const nowMicros = clock.nowMicros();
      cookies.set(req, response, { accessToken, refreshToken, login, nowMicros });
      return this.#withoutTokens(pair);
    }
    return {
      access_token: accessToken,
      token_type: login.keyThumbprint === null ? 'Bearer' : 'DPoP',
      refresh_token: refreshToken,
      expires_in: options.accessTtlSeconds,
      scope: user.scopes.join(' '),
    };
  }

  #withoutTokens({ user }: IssuedPair): TokenBody {
    const { accessTtlSeconds } = this.#deps.options;
    return { token_type: 'Cookie', expires_in: accessTtlSeconds, scope: user.scopes.join(' ') };
  }
}
