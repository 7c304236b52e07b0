/**
 * Login states: values of the parameter `state`. A login creates one when it starts, and the callback accepts
 * it once, from the same browser.
 *
 * The data of a login that has started:
 * - The state is in the URL. It consists of a key id, its creation time, 32 random bytes, and a MAC, which
 *   proves that this application has created the state.
 * - A cookie for each login contains the parameters of the login, encrypted by AES-256-GCM.
 * - The PKCE verifier and the nonce are derived from the state and a key, and stored nowhere.
 *
 * The server stores nothing when a login starts. The callback stores that a state was used.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRecord } from '../base/options.ts';
import { hostCookie } from '../http/cookies.ts';
import { SESSION } from '../http/state.ts';
import { ProtectedValues } from '../crypto/protected-values.ts';
import { OAuthError } from './errors.ts';
import { sessionKey } from '../http/session/middleware.ts';
import type { KeyObject } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { HttpRequest, SessionKey } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { SingleUse } from './single-use.ts';

/** The user who adds another identity. */
export interface LinkingUser {
  readonly sub: string;
  /** Id of the login that the user's access token or session names. */
  readonly loginId: string;
  /** Whether the request had a session of the user. */
  readonly hasSession: boolean;
}

/**
 * A native client. At the end of a login it gets a code instead of tokens; at the end of a link, the name of
 * the provider.
 */
export interface ClientLogin {
  readonly redirectUri: string;
  /** PKCE challenge of the client (RFC 7636 §4.2). Null for a link, which ends without a code. */
  readonly challenge: string | null;
  /** Value of the parameter `client_state`. The client gets it back with the code. */
  readonly state: string | null;
}

/** Parameters of a login that has started. */
export interface BegunLogin {
  readonly provider: string;
  readonly redirectUri: string;
  /** In cookie mode: local path to open after the login. */
  readonly returnTo: string | null;
  /** Scopes to request from the provider. Null: the scopes in the provider's options. */
  readonly scopes: readonly string[] | null;
  /** Thumbprint of the DPoP key to which all tokens of the login are bound (RFC 9449 §10). Null: no key. */
  readonly keyThumbprint: string | null;
  /** The native client that started the login. Null if there is none. */
  readonly client: ClientLogin | null;
  /** The user who links another identity. Null if this is a login. */
  readonly link: LinkingUser | null;
}

/** A started login: values for the authorization URL, and a function that sets the cookie. */
export interface Begun {
  readonly state: string;
  readonly challenge: string;
  readonly nonce: string;
  /** Sets the cookie of this login. If there are too many login cookies, deletes the oldest. */
  remember(response: HttpResponse): void;
}

/** A login whose state the callback has accepted. */
export interface ReturnedLogin {
  readonly login: BegunLogin;
  /** Time at which the login started, in microseconds since the epoch. */
  readonly startedAt: number;
  readonly verifier: string;
  readonly nonce: string;
}

interface SealedLogin extends BegunLogin {
  readonly startedAt: number;
}

const COOKIE = 'svc_oauth_';
/** Maximum number of unfinished logins in one browser, for example in several tabs. */
const MAX_PENDING = 8;
/** Maximum characters of all login cookies; the headers of a request may have 16 KiB. */
const MAX_PENDING_CHARACTERS = 6_144;
const RANDOM_BYTES = 32;
const TAG_BYTES = 16;
const STATE = /^([\w-]{1,64})\.([0-9a-z]{1,10})\.[\w-]{43}\.([\w-]{22})$/;
/** Milliseconds for which a used state is remembered after its expiry, as clocks differ. */
const MARGIN_MS = 60_000;

interface LoginStatesDeps {
  readonly used: SingleUse;
  readonly clock: Clock;
  readonly env: Env;
  /** Keys of the application. The keys for states, PKCE verifiers and cookies are derived from them. */
  readonly keys: Keyring;
  readonly ttlSeconds: number;
}

/** Creates login states, and verifies them at the callback. */
export class LoginStates {
  readonly #deps: LoginStatesDeps;
  readonly #keys: Keyring;
  readonly #cookies: ProtectedValues;

  constructor(deps: LoginStatesDeps) {
    this.#deps = deps;
    this.#keys = deps.keys.derive('svc-oauth-pkce');
    this.#cookies = new ProtectedValues(deps.keys, 'svc-oauth-login', 'sealed');
  }

  begin(req: HttpRequest, login: BegunLogin): Begun {
    const startedAt = this.#deps.clock.nowMicros();
    const issuedSeconds = Math.floor(startedAt / 1_000_000);
    const { id, key } = this.#keys.current;
    const untagged = `${id}.${issuedSeconds.toString(36)}.${randomBytes(RANDOM_BYTES).toString('base64url')}`;
    const state = `${untagged}.${tagOf(untagged, key).toString('base64url')}`;
    const stateHash = hash('sha256', state, 'hex');
    const { name, secure } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#deps.env);
    const options = { secure, path: '/', sameSite: 'lax', httpOnly: true } as const;
    const sealed = this.#cookies.write(stateHash, JSON.stringify({ ...login, startedAt }), {
      issuedSeconds,
      expiresSeconds: issuedSeconds + this.#deps.ttlSeconds,
    });
    return {
      state,
      nonce: nonceOf(state, key),
      challenge: challengeOf(verifierOf(state, key)),
      remember: (response) => {
        for (const old of this.#surplus(req, sealed.length)) response.deleteCookie(old, options);
        response.setCookie(name, sealed, { ...options, maxAgeSeconds: this.#deps.ttlSeconds });
      },
    };
  }

  /** Marks a state as used, and returns its login. If several requests send the state, only one succeeds. */
  async take(req: HttpRequest, state: string, provider: string): Promise<ReturnedLogin> {
    const key = this.#keyOf(state);
    const stateHash = hash('sha256', state, 'hex');
    const opened = this.#open(req, stateHash);
    if (typeof opened === 'string') {
      if (await this.#deps.used.isUsed('state', stateHash)) throw invalid('used');
      throw new OAuthError('state_browser_mismatch', { reason: opened });
    }
    const { startedAt, ...login } = opened;
    if (login.provider !== provider) throw invalid('other_provider');
    if (!(await this.#deps.used.use('state', stateHash, this.#deps.ttlSeconds * 1_000 + MARGIN_MS)))
      throw invalid('used');
    return { login, startedAt, verifier: verifierOf(state, key), nonce: nonceOf(state, key) };
  }

  isKnown(req: HttpRequest, state: string): boolean {
    return typeof this.#open(req, hash('sha256', state, 'hex')) !== 'string';
  }

  forget(req: HttpRequest, state: string, response: HttpResponse): void {
    const { name, secure } = hostCookie(
      COOKIE + hash('sha256', state, 'hex').slice(0, 8),
      req,
      this.#deps.env,
    );
    if (req.cookies[name] !== undefined) response.deleteCookie(name, { secure, path: '/' });
  }

  /** Verifies the MAC and the age of a state. Returns the key of the MAC. */
  #keyOf(state: string): KeyObject {
    const parts = STATE.exec(state);
    if (parts === null) throw invalid('unknown');
    const [, id = '', seconds = '', tag = ''] = parts;
    const key = this.#keys.find(id)?.key;
    if (key === undefined) throw invalid('key_has_left');
    const expected = tagOf(state.slice(0, -tag.length - 1), key).toString('base64url');
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(tag))) throw invalid('unknown');
    if (this.#deps.clock.nowMs() >= (parseInt(seconds, 36) + this.#deps.ttlSeconds) * 1_000)
      throw invalid('expired');
    return key;
  }

  #open(req: HttpRequest, stateHash: string): SealedLogin | 'no_cookie' | 'other_browser' {
    const { name } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#deps.env);
    const text = req.cookies[name];
    if (text === undefined) return 'no_cookie';
    const read = this.#cookies.read(stateHash, text, this.#deps.clock.nowMs() / 1_000);
    if (read.kind === 'refused') return 'other_browser';
    // the cookie is authentic, so begin() wrote this JSON
    const login: unknown = JSON.parse(read.payload);
    return isRecord(login) ? (login as unknown as SealedLogin) : 'other_browser';
  }

  /** Returns the names of the oldest login cookies, if there are too many or they are too long. */
  #surplus(req: HttpRequest, length: number): string[] {
    const prefix = hostCookie(COOKIE, req, this.#deps.env).name;
    const pending = Object.entries(req.cookies)
      .filter(([name]) => name.startsWith(prefix) && name.length === prefix.length + 8)
      .sort(([, left], [, right]) => issuedOf(left) - issuedOf(right));
    let characters = pending.reduce((sum, [, value]) => sum + value.length, length);
    const surplus: string[] = [];
    for (const [name, value] of pending) {
      if (pending.length - surplus.length < MAX_PENDING && characters <= MAX_PENDING_CHARACTERS) break;
      surplus.push(name);
      characters -= value.length;
    }
    return surplus;
  }
}

/** Returns when a cookie was created, in seconds since the epoch; 0 for any other text. */
function issuedOf(sealed: string): number {
  return Number.parseInt(sealed.split('.', 3)[2] ?? '', 10) || 0;
}

function invalid(reason: string): OAuthError {
  return new OAuthError('invalid_state', { reason });
}

/** Session key for the id (`sub`) of the logged-in user. A login sets it if SessionMiddleware is in use. */
export const currentUser: SessionKey<string> = sessionKey('svc_user');

/** A login, as its session names it. */
export interface SessionLogin {
  /** Id of the login, as in `listSessions()` and in the claim `sid` of its access tokens. */
  readonly id: string;
  /** Time at which the user was authenticated, in milliseconds since the epoch. A refresh does not change it. */
  readonly at: number;
}

/** Session key for the login of the session. Only a login sets it, together with {@link currentUser}. */
export const currentLogin: SessionKey<SessionLogin> = sessionKey('svc_login');

/**
 * Throws if the store of the sessions fails. Called before an endpoint uses up a state, or begins or ends a login,
 * so that the client may repeat the request.
 */
export function assertSession(req: HttpRequest): void {
  if (req.state.has(SESSION)) void req.session.isNew;
}

/** Returns the user of the request's session and the login that it names; undefined without such a session. */
export function sessionLoginOf(
  req: HttpRequest,
): { readonly sub: string; readonly loginId: string } | undefined {
  if (!req.state.has(SESSION)) return undefined;
  const sub = req.session.get(currentUser);
  const login = req.session.get(currentLogin);
  return sub === undefined || login === undefined ? undefined : { sub, loginId: login.id };
}

function tagOf(untagged: string, key: KeyObject): Buffer {
  return createHmac('sha256', key)
    .update('svc-oauth-state\0')
    .update(untagged)
    .digest()
    .subarray(0, TAG_BYTES);
}

/** Derives the nonce of an OpenID Connect login from its state (Core §3.1.2.1). */
function nonceOf(state: string, key: KeyObject): string {
  return createHmac('sha256', key).update('svc-oidc-nonce\0').update(state).digest('base64url');
}

export function verifierOf(state: string, key: KeyObject): string {
  return createHmac('sha256', key).update('svc-pkce-verifier\0').update(state).digest('base64url');
}

export function challengeOf(verifier: string): string {
  return hash('sha256', verifier, 'base64url');
}
