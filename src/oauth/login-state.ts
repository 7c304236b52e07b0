/**
 * Login states: made when a login begins, kept by the browser that began it, used once.
 *
 *   state     key id, second, 32 random bytes, tag: in the URL. The tag tells states of ours from invented ones without a look-up
 *   cookie    what the login was begun with, sealed (AES-256-GCM) for this state alone; one cookie a login
 *   verifier  derived from the state and a key, as is the nonce: stored nowhere
 *
 * Nothing is stored when a login begins, so a flood of logins evicts none. The callback records that a state was used. A state
 * that comes back in another browser is left alone, so it still works in its own.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { isRecord } from '../base/options.ts';
import { hostCookie } from '../http/cookies.ts';
import { ProtectedValues } from '../http/session/cookie.ts';
import { OAuthError } from './errors.ts';
import { sessionKey } from '../http/session/middleware.ts';
import type { KeyObject } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { HttpRequest, SessionKey } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { SingleUse } from './single-use.ts';

/** The user who is about to link another identity. */
export interface LinkingUser {
  readonly sub: string;
  /** The login of the user's access token; null where a session says who it is. */
  readonly loginId: string | null;
}

/** The client that gets a code at the end of a login, in place of tokens. */
export interface ClientLogin {
  readonly redirectUri: string;
  /** S256 of the client's verifier (RFC 7636 §4.2). */
  readonly challenge: string;
  /** Sent back as it is. */
  readonly state: string | null;
}

/** What a login is begun with. */
export interface BegunLogin {
  readonly provider: string;
  readonly redirectUri: string;
  /** Where the browser goes afterwards, in cookie mode; a local path. */
  readonly returnTo: string | null;
  /** Scopes of the provider that were asked for, where not those it is configured with. */
  readonly scopes: readonly string[] | null;
  /** The key that its tokens are bound to from the start (RFC 9449 §10). */
  readonly keyThumbprint: string | null;
  /** Null: the callback answers the browser. */
  readonly client: ClientLogin | null;
  /** Null: it is a login. */
  readonly link: LinkingUser | null;
}

/** What goes to the provider, and what the browser keeps. */
export interface Begun {
  readonly state: string;
  readonly challenge: string;
  readonly nonce: string;
  /** Adds the cookie of this login to the response, and removes those of logins that are too many. */
  remember(response: HttpResponse): void;
}

/** A login that has come back. */
export interface ReturnedLogin {
  readonly login: BegunLogin;
  /** When it was begun, in microseconds. */
  readonly startedAt: number;
  readonly verifier: string;
  readonly nonce: string;
}

/** The content of the cookie of a login. */
interface SealedLogin extends BegunLogin {
  readonly startedAt: number;
}

const COOKIE = 'svc_oauth_';
/** Logins that one browser may have under way: each of its tabs one. */
const MAX_PENDING = 8;
/** Characters of all cookies of logins under way: a request head has 16 KiB for everything. */
const MAX_PENDING_CHARACTERS = 6_144;
const RANDOM_BYTES = 32;
const TAG_BYTES = 16;
const STATE = /^([\w-]{1,64})\.([0-9a-z]{1,10})\.[\w-]{43}\.([\w-]{22})$/;
/** Used states are remembered this much longer than they are valid, for clocks that differ. */
const MARGIN_MS = 60_000;

/** Begins logins and takes them back. */
export class LoginStates {
  readonly #used: SingleUse;
  readonly #clock: Clock;
  readonly #env: Env;
  readonly #keys: Keyring;
  readonly #cookies: ProtectedValues;
  readonly #ttlSeconds: number;

  constructor(deps: {
    readonly used: SingleUse;
    readonly clock: Clock;
    readonly env: Env;
    /** The keys of the application: keys for tags, verifiers and cookies are derived from them. */
    readonly keys: Keyring;
    readonly ttlSeconds: number;
  }) {
    this.#used = deps.used;
    this.#clock = deps.clock;
    this.#env = deps.env;
    this.#keys = deps.keys.derive('svc-oauth-pkce');
    this.#cookies = new ProtectedValues(deps.keys, 'svc-oauth-login', 'sealed');
    this.#ttlSeconds = deps.ttlSeconds;
  }

  /** Makes a state. */
  begin(req: HttpRequest, login: BegunLogin): Begun {
    const startedAt = this.#clock.nowMicros();
    const issuedSeconds = Math.floor(startedAt / 1_000_000);
    const { id, key } = this.#keys.current;
    const untagged = `${id}.${issuedSeconds.toString(36)}.${randomBytes(RANDOM_BYTES).toString('base64url')}`;
    const state = `${untagged}.${tagOf(untagged, key).toString('base64url')}`;
    const stateHash = hash('sha256', state, 'hex');
    const { name, secure } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#env);
    const options = { secure, path: '/', sameSite: 'lax', httpOnly: true } as const;
    const sealed = this.#cookies.write(stateHash, JSON.stringify({ ...login, startedAt }), {
      issuedSeconds,
      expiresSeconds: issuedSeconds + this.#ttlSeconds,
    });
    return {
      state,
      nonce: nonceOf(state, key),
      challenge: challengeOf(verifierOf(state, key)),
      remember: (response) => {
        for (const old of this.#surplus(req, sealed.length)) response.deleteCookie(old, options);
        response.setCookie(name, sealed, { ...options, maxAgeSeconds: this.#ttlSeconds });
      },
    };
  }

  /** Uses a state up: of several requests that bring it, one goes on. @throws OAuthError `invalid_state`, `state_browser_mismatch` */
  async take(req: HttpRequest, state: string, provider: string): Promise<ReturnedLogin> {
    const key = this.#keyOf(state);
    const stateHash = hash('sha256', state, 'hex');
    const opened = this.#open(req, stateHash);
    if (typeof opened === 'string') {
      if (await this.#used.isUsed('state', stateHash)) throw invalid('used');
      throw new OAuthError('state_browser_mismatch', { reason: opened });
    }
    const { startedAt, ...login } = opened;
    if (login.provider !== provider) throw invalid('other_provider');
    if (!(await this.#used.use('state', stateHash, this.#ttlSeconds * 1_000 + MARGIN_MS)))
      throw invalid('used');
    return { login, startedAt, verifier: verifierOf(state, key), nonce: nonceOf(state, key) };
  }

  /** Returns whether the browser has sent the cookie of this login. */
  isKnown(req: HttpRequest, state: string): boolean {
    return typeof this.#open(req, hash('sha256', state, 'hex')) !== 'string';
  }

  /** Removes the cookie of a login that has come back. */
  forget(req: HttpRequest, state: string, response: HttpResponse): void {
    const { name, secure } = hostCookie(COOKIE + hash('sha256', state, 'hex').slice(0, 8), req, this.#env);
    if (req.cookies[name] !== undefined) response.deleteCookie(name, { secure, path: '/' });
  }

  /** The key that has made a state. @throws OAuthError `invalid_state` for one that is not of ours, or too old */
  #keyOf(state: string): KeyObject {
    const parts = STATE.exec(state);
    if (parts === null) throw invalid('unknown');
    const [, id, seconds, tag] = parts as unknown as [string, string, string, string];
    const key = this.#keys.find(id)?.key;
    if (key === undefined) throw invalid('key_has_left');
    const expected = tagOf(state.slice(0, -tag.length - 1), key).toString('base64url');
    if (!timingSafeEqual(Buffer.from(expected), Buffer.from(tag))) throw invalid('unknown');
    if (this.#clock.nowMs() >= (parseInt(seconds, 36) + this.#ttlSeconds) * 1_000) throw invalid('expired');
    return key;
  }

  /** The login in the cookie of a state, or why there is none. */
  #open(req: HttpRequest, stateHash: string): SealedLogin | 'no_cookie' | 'other_browser' {
    const { name } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#env);
    const text = req.cookies[name];
    if (text === undefined) return 'no_cookie';
    const read = this.#cookies.read(stateHash, text, this.#clock.nowMs() / 1_000);
    if (read.kind === 'refused') return 'other_browser';
    const login: unknown = JSON.parse(read.payload); // written by begin(), and authentic
    return isRecord(login) ? (login as unknown as SealedLogin) : 'other_browser';
  }

  /** The names of the oldest login cookies, so that with the one to come there are neither too many nor too long ones. */
  #surplus(req: HttpRequest, length: number): string[] {
    const prefix = hostCookie(COOKIE, req, this.#env).name;
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

/** When a sealed value was made; 0, the oldest, for text that is none. */
function issuedOf(sealed: string): number {
  return Number.parseInt(sealed.split('.', 3)[2] ?? '', 10) || 0;
}

function invalid(reason: string): OAuthError {
  return new OAuthError('invalid_state', { reason });
}

/** The application's subject of the user who has logged in; set by the callback where the session middleware is in use. */
export const currentUser: SessionKey<string> = sessionKey('svc_user');

function tagOf(untagged: string, key: KeyObject): Buffer {
  return createHmac('sha256', key)
    .update('svc-oauth-state\0')
    .update(untagged)
    .digest()
    .subarray(0, TAG_BYTES);
}

/** The nonce of a login by OpenID Connect (Core §3.1.2.1): 43 characters. */
function nonceOf(state: string, key: KeyObject): string {
  return createHmac('sha256', key).update('svc-oidc-nonce\0').update(state).digest('base64url');
}

/*
 * Proof key for code exchange (RFC 7636), method S256 on every flow. The verifier is never stored: it is derived from the
 * state and a key of the server, so that neither a copy of the database nor the state alone gives it.
 */

/** The verifier that belongs to a state (§4.1): 43 characters. */
export function verifierOf(state: string, key: KeyObject): string {
  return createHmac('sha256', key).update('svc-pkce-verifier\0').update(state).digest('base64url');
}

/** The challenge of a verifier (§4.2), method S256: 43 characters. */
export function challengeOf(verifier: string): string {
  return hash('sha256', verifier, 'base64url');
}
