/**
 * One-time codes that native clients and single-page applications exchange for tokens, so that no URL
 * contains a token.
 *
 * Steps of a login by a code:
 * 1. The client opens GET /oauth/login in the browser, with client_redirect_uri, client_state and
 *    code_challenge (S256 of its verifier).
 * 2. The callback stores the login for 60 seconds, and redirects to client_redirect_uri with a code.
 * 3. The client sends the code and its verifier to POST /oauth/token, and gets the tokens.
 *
 * PKCE protects the code: an attacker who intercepts it cannot exchange it without the verifier (RFC 7636 §1,
 * RFC 8252 §6). Without the verifier the attacker cannot end the login either: a request with a wrong
 * verifier changes nothing.
 *
 * A client may send its request twice by mistake. So a second request with the verifier gets an error, but
 * ends the login only if it comes later than 10 seconds after the first (RFC 6749 §4.1.2).
 */
import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRecord } from '../base/options.ts';
import { OAuthError } from './errors.ts';
import { challengeOf } from './login-state.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { EndpointDeps } from './endpoint-deps.ts';
import type { ClientLogin } from './login-state.ts';
import type { ReadOptions } from './plugin-options.ts';
import type { Parameters } from './parameters.ts';
import type { IssuedPair } from './token-responses.ts';
import type { TokenUser } from './tokens/access.ts';

/** A login whose code has not been exchanged yet. */
interface PendingLogin {
  readonly user: TokenUser;
  readonly provider: string;
  readonly subject: string;
  readonly providerSid: string | null;
  /** Start of the login in microseconds since the epoch. */
  readonly startedAt: number;
  readonly keyThumbprint: string | null;
  readonly client: ClientLogin;
}

/** Marks a one-time code as used. */
interface UsedCode {
  /** Id of the login that the code has started. Null while the login is not stored yet. */
  readonly usedBy: string | null;
  /** Time at which the login was stored, in milliseconds since the epoch. */
  readonly atMs: number;
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

/** Issues one-time codes, and exchanges them for tokens. */
export class ClientCodes {
  readonly #deps: EndpointDeps;

  constructor(deps: EndpointDeps) {
    this.#deps = deps;
  }

  /**
   * Stores a login, and returns the client's redirect URI with a code for the login.
   *
   * @throws OAuthError `temporarily_unavailable` when the record store fails
   */
  async issue(req: HttpRequest, login: PendingLogin): Promise<string> {
    const code = randomBytes(CODE_BYTES).toString('base64url');
    const { used, audit } = this.#deps;
    await used.keep('code', hash('sha256', code, 'hex'), JSON.stringify(login), TTL_MS);
    audit.codeIssued(req, login.provider, login.user.sub);
    return clientAddress(login.client, { code }, this.#deps.options);
  }

  /**
   * Exchanges a code for tokens. A second use of the code is refused, and ends the login unless it comes within
   * 10 seconds.
   *
   * @throws OAuthError `invalid_request` for a missing parameter, `invalid_grant` for an invalid code or
   * verifier, `invalid_dpop_proof` for an invalid proof
   */
  async exchange(req: HttpRequest, parameter: Parameters): Promise<IssuedPair> {
    const { used: records, refreshTokens, dpop, logins, clock } = this.#deps;
    const code = parameter('code');
    const verifier = parameter('code_verifier');
    const redirectUri = parameter('client_redirect_uri') ?? parameter('redirect_uri');
    if (code === undefined || verifier === undefined || redirectUri === undefined)
      throw new OAuthError('invalid_request', {
        description: 'The parameters code, code_verifier and client_redirect_uri are required',
      });
    const key = hash('sha256', code, 'hex');
    const text = CODE.test(code) ? await records.kept('code', key) : undefined;
    const login = text === undefined ? undefined : pendingOf(text);
    if (text === undefined || login === undefined) throw this.#refusal(req, 'code_unknown');
    // a wrong verifier does not use up the code, so an attacker without the verifier cannot prevent the login
    if (!VERIFIER.test(verifier) || !isSame(challengeOf(verifier), login.client.challenge ?? ''))
      throw this.#refusal(req, 'code_verifier');
    if (redirectUri !== login.client.redirectUri) throw this.#refusal(req, 'code_redirect_uri');
    if (login.used !== undefined) {
      const { usedBy, atMs } = login.used;
      if (usedBy === null || clock.nowMs() < atMs + TWICE_MS) throw this.#refusal(req, 'code_sent_twice');
      await refreshTokens.endReused(req, usedBy);
      throw this.#refusal(req, 'code_used');
    }
    const keyThumbprint = (await dpop?.keyOf(req, '')) ?? null;
    if (login.keyThumbprint !== null && login.keyThumbprint !== keyThumbprint)
      throw this.#refusal(req, 'other_key');
    const usedText = (usedBy: string | null): string =>
      JSON.stringify({ ...login, used: { usedBy, atMs: clock.nowMs() } satisfies UsedCode });
    const claimed = usedText(null);
    if (!(await records.change('code', key, text, claimed, USED_TTL_MS)))
      throw this.#refusal(req, 'code_sent_twice');
    const { user, provider, subject, providerSid, startedAt } = login;
    const pair = await logins.start(
      req,
      user,
      { provider, subject, providerSid, startedAt, keyThumbprint },
      { renewsSession: false },
    );
    await records.change('code', key, claimed, usedText(pair.login.id), USED_TTL_MS);
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

function pendingOf(text: string): (PendingLogin & { readonly used?: UsedCode }) | undefined {
  const value: unknown = JSON.parse(text);
  return isRecord(value) ? (value as unknown as PendingLogin & { readonly used?: UsedCode }) : undefined;
}

function isSame(left: string, right: string): boolean {
  return left.length === right.length && timingSafeEqual(Buffer.from(left), Buffer.from(right));
}
