/**
 * One-time codes that native clients and single-page applications exchange for tokens, so that no URL
 * contains a token.
 *
 * Steps of a login by a code:
 * 1. The client opens GET /oauth/login in the browser, with client_redirect_uri, client_state and
 *    code_challenge (S256 of its verifier).
 * 2. The callback stores the login, and redirects to client_redirect_uri with a code for 60 seconds.
 * 3. The client sends the code and its verifier to POST /oauth/token, and gets the tokens.
 *
 * The login is a row of the token store from step 2, so what ends logins ends it before step 3 too.
 *
 * PKCE protects the code: an attacker who intercepts it cannot exchange it without the verifier (RFC 7636 §1,
 * RFC 8252 §6). Without the verifier the attacker cannot end the login either: a request with a wrong
 * verifier changes nothing.
 *
 * A client may send its request twice by mistake. So a second request with the verifier gets an error, but
 * ends the login only if it comes later than 10 seconds after the first (RFC 6749 §4.1.2).
 */
import { hash, randomBytes } from 'node:crypto';
import { isRecord } from '../base/options.ts';
import { isSameSecret } from '../crypto/keys.ts';
import { OAuthError, invalidRequest } from './errors.ts';
import { challengeOf } from './login-state.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { ClientLogin } from './login-state.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { Parameters } from './parameters.ts';
import type { IssuedPair } from './token-responses.ts';
import type { LoginOrigin } from './tokens/refresh.ts';
import type { TokenUser } from './tokens/access.ts';

interface CodeLogin {
  readonly loginId: string;
  readonly client: ClientLogin;
  /** Time of the exchange in milliseconds since the epoch. Undefined before. */
  readonly usedAtMs?: number | undefined;
}

const CODE_BYTES = 32;
const TTL_MS = 60_000;
/** Time in milliseconds for which an exchanged code is remembered, so that a later use ends the login. */
const USED_TTL_MS = 600_000;
/** Time in milliseconds after an exchange in which a second request counts as sent twice by the client. */
const TWICE_MS = 10_000;
const CODE = /^[\w-]{43}$/;
/** Syntax of a PKCE verifier (RFC 7636 §4.1). */
const VERIFIER = /^[\w.~-]{43,128}$/;

export class ClientCodes {
  readonly #deps: EndpointDeps;

  constructor(deps: EndpointDeps) {
    this.#deps = deps;
  }

  /**
   * Stores a login, and returns the client's redirect URI with a code for the login.
   *
   * @throws OAuthError `temporarily_unavailable` when the record store fails, `access_denied` when the user's
   * logins were revoked meanwhile
   */
  async issue(req: HttpRequest, user: TokenUser, how: LoginOrigin, client: ClientLogin): Promise<string> {
    const code = randomBytes(CODE_BYTES).toString('base64url');
    const { used, audit, logins } = this.#deps;
    const login: CodeLogin = { loginId: await logins.prepare(req, user, how, TTL_MS), client };
    await used.keep('code', hash('sha256', code, 'hex'), JSON.stringify(login), TTL_MS);
    audit.info('code_issued', req, { provider: how.provider, sub: user.sub });
    return clientAddress(client, { code }, this.#deps.options);
  }

  /** Exchanges a code. A second use is refused, and after 10 seconds ends the login. */
  async exchange(req: HttpRequest, parameter: Parameters): Promise<IssuedPair> {
    const { used: records, refreshTokens, dpop, logins, clock } = this.#deps;
    const code = parameter('code');
    const verifier = parameter('code_verifier');
    const redirectUri = parameter('client_redirect_uri') ?? parameter('redirect_uri');
    if (code === undefined || verifier === undefined || redirectUri === undefined)
      throw invalidRequest('The parameters code, code_verifier and client_redirect_uri are required');
    const key = hash('sha256', code, 'hex');
    const text = CODE.test(code) ? await records.kept('code', key) : undefined;
    const login = text === undefined ? undefined : loginIn(text);
    if (text === undefined || login === undefined) throw this.#refusal(req, 'code_unknown');
    // a wrong verifier does not use up the code, so an attacker without the verifier cannot prevent the login
    if (!VERIFIER.test(verifier) || !isSameSecret(challengeOf(verifier), login.client.challenge ?? ''))
      throw this.#refusal(req, 'code_verifier');
    if (redirectUri !== login.client.redirectUri) throw this.#refusal(req, 'code_redirect_uri');
    if (login.usedAtMs !== undefined) {
      if (clock.nowMs() < login.usedAtMs + TWICE_MS) throw this.#refusal(req, 'code_sent_twice');
      await refreshTokens.endReused(req, login.loginId);
      throw this.#refusal(req, 'code_used');
    }
    const keyThumbprint = (await dpop?.keyOf(req, '')) ?? null;
    const pair = await logins.activate(req, login.loginId, keyThumbprint);
    if (typeof pair === 'string') throw this.#refusal(req, pair);
    const usedText = JSON.stringify({ ...login, usedAtMs: clock.nowMs() } satisfies CodeLogin);
    await records.change('code', key, text, usedText, USED_TTL_MS);
    return pair;
  }

  #refusal(req: HttpRequest, reason: string): OAuthError {
    this.#deps.audit.refreshRefused(req, reason);
    return new OAuthError('invalid_grant', {
      reason,
      description: 'The code is no longer valid: log in again',
    });
  }
}

/** Returns the client's redirect URI with `parameters`, the client's own `state`, and `iss` (RFC 9207). */
export function clientAddress(
  { redirectUri, state }: ClientLogin,
  parameters: Readonly<Record<string, string>>,
  { issuer }: Pick<ReadOptions, 'issuer'>,
): string {
  const query = new URLSearchParams({
    ...parameters,
    ...(state === null ? {} : { state }),
    ...(issuer === undefined ? {} : { iss: issuer }),
  });
  return `${redirectUri}${redirectUri.includes('?') ? '&' : '?'}${query}`;
}

function loginIn(text: string): CodeLogin | undefined {
  const value: unknown = JSON.parse(text);
  return isRecord(value) && typeof value['loginId'] === 'string'
    ? (value as unknown as CodeLogin)
    : undefined;
}
