/**
 * Cookie mode: tokens in cookies that scripts cannot read. Browsers send the access token even when the user
 * follows a link from another site (SameSite=Lax). They send the refresh token only with requests from pages
 * of this site (SameSite=Strict).
 */
import { hostCookie } from '../../http/cookies.ts';
import type { Env } from '../../base/config.ts';
import type { HttpRequest } from '../../http/contracts.ts';
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

  set(
    req: HttpRequest,
    response: HttpResponse,
    { accessToken, refreshToken, login, nowMicros }: IssuedTokens,
  ): void {
    this.#write(ACCESS, accessToken, this.#accessTtlSeconds, req, response);
    this.#write(
      REFRESH,
      refreshToken,
      Math.floor((login.absoluteExpiresAt - nowMicros) / 1_000_000),
      req,
      response,
    );
  }

  clear(req: HttpRequest, response: HttpResponse): void {
    for (const base of [ACCESS, REFRESH] as const) this.#write(base, '', 0, req, response);
  }

  accessTokenOf(req: HttpRequest): string | undefined {
    return req.cookies[hostCookie(ACCESS, req, this.#env).name];
  }

  refreshTokenOf(req: HttpRequest): string | undefined {
    return req.cookies[hostCookie(REFRESH, req, this.#env).name];
  }

  #write(
    base: keyof typeof SAME_SITE,
    value: string,
    maxAgeSeconds: number,
    req: HttpRequest,
    response: HttpResponse,
  ): void {
    const { name, secure } = hostCookie(base, req, this.#env);
    response.setCookie(name, value, {
      path: '/',
      httpOnly: true,
      sameSite: SAME_SITE[base],
      secure,
      maxAgeSeconds,
    });
  }
}
