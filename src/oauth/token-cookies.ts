/**
 * Cookie mode: tokens that no script can read. The access token is sent along with navigation from other sites (Lax), the
 * refresh token with requests of our own pages alone (Strict).
 */
import { hostCookie } from '../http/cookies.ts';
import type { Env } from '../config.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { LoginRow } from './token-store.ts';

const ACCESS = 'svc_access';
const REFRESH = 'svc_refresh';

/** What goes into the cookies. */
export interface IssuedTokens {
  readonly accessToken: string;
  readonly refreshToken: string;
  readonly login: LoginRow;
  readonly nowMicros: number;
}

/** Writes and reads the two cookies. */
export class TokenCookies {
  readonly #env: Env;
  readonly #accessTtlSeconds: number;

  constructor(env: Env, accessTtlSeconds: number) {
    this.#env = env;
    this.#accessTtlSeconds = accessTtlSeconds;
  }

  set(req: HttpRequest, response: HttpResponse, { accessToken, refreshToken, login, nowMicros }: IssuedTokens): void {
    const access = hostCookie(ACCESS, req, this.#env);
    const refresh = hostCookie(REFRESH, req, this.#env);
    const leftSeconds = Math.floor((login.absoluteExpiresAt - nowMicros) / 1_000_000);
    response.setCookie(access.name, accessToken, { path: '/', httpOnly: true, sameSite: 'lax', secure: access.secure, maxAgeSeconds: this.#accessTtlSeconds });
    response.setCookie(refresh.name, refreshToken, { path: '/', httpOnly: true, sameSite: 'strict', secure: refresh.secure, maxAgeSeconds: leftSeconds });
  }

  clear(req: HttpRequest, response: HttpResponse): void {
    for (const base of [ACCESS, REFRESH]) {
      const { name, secure } = hostCookie(base, req, this.#env);
      response.deleteCookie(name, { path: '/', secure });
    }
  }

  accessTokenOf(req: HttpRequest): string | undefined { return req.cookies[hostCookie(ACCESS, req, this.#env).name]; }

  refreshTokenOf(req: HttpRequest): string | undefined { return req.cookies[hostCookie(REFRESH, req, this.#env).name]; }
}
