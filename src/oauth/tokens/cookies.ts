/**
 * Cookie mode: tokens in cookies that scripts cannot read. Browsers send the access token even when the user
 * follows a link from another site (SameSite=Lax). They send the refresh token only with requests from pages
 * of this site (SameSite=Strict).
 */
import { hostCookie } from '../../http/cookies.ts';
import type { Env } from '../../base/config.ts';
import type { HttpRequest } from '../../http/contracts.ts';
import type { CookieOptions } from '../../http/cookies.ts';
import type { HttpResponse } from '../../http/response.ts';
import type { LoginRow } from './store.ts';

const ACCESS = 'svc_access';
const REFRESH = 'svc_refresh';
const SAME_SITE = { [ACCESS]: 'lax', [REFRESH]: 'strict' } as const;

interface IssuedTokens {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly login: LoginRow;
  readonly nowMicros: number;
}

export class TokenCookies {
  readonly #env: Env;
  readonly #accessTtlSeconds: number;

  constructor(env: Env, accessTtlSeconds: number) {
    this.#env = env;
    this.#accessTtlSeconds = accessTtlSeconds;
  }

  set(req: HttpRequest, response: HttpResponse, tokens: IssuedTokens): void {
    const { accessToken, refreshToken, login, nowMicros } = tokens;
    const refreshTtlSeconds = Math.floor((login.absoluteExpiresAt - nowMicros) / 1_000_000);
    response.setCookie(...this.#cookie(req, ACCESS, accessToken, this.#accessTtlSeconds));
    response.setCookie(...this.#cookie(req, REFRESH, refreshToken, refreshTtlSeconds));
  }

  clear(req: HttpRequest, response: HttpResponse): void {
    for (const base of [ACCESS, REFRESH] as const) response.setCookie(...this.#cookie(req, base, '', 0));
  }

  accessTokenOf(req: HttpRequest): string | undefined {
    return req.cookies[hostCookie(ACCESS, req, this.#env).name];
  }

  refreshTokenOf(req: HttpRequest): string | undefined {
    return req.cookies[hostCookie(REFRESH, req, this.#env).name];
  }

  /** Returns the arguments of setCookie() for a token. */
  #cookie(
    req: HttpRequest,
    base: keyof typeof SAME_SITE,
    value: string,
    maxAgeSeconds: number,
  ): [name: string, value: string, options: CookieOptions] {
    const { name, secure } = hostCookie(base, req, this.#env);
    return [name, value, { sameSite: SAME_SITE[base], secure, maxAgeSeconds }];
  }
}
