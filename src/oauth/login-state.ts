/**
 * Login states: made when a login begins, bound to the browser that began it, taken once.
 *
 *   state     the name of a key and 32 random bytes, in the URL; its hash in the store
 *   secret    32 random bytes, in a cookie of this login alone; its hash in the store
 *   verifier  derived from the state and a key (login-state.ts): stored nowhere
 *
 * A state that comes back in another browser is left alone, so nobody can spoil somebody else's login.
 */
import { createHmac, hash, randomBytes } from 'node:crypto';
import { hostCookie } from '../http/cookies.ts';
import { OAuthError } from './errors.ts';
import { sessionKey } from '../http/session/middleware.ts';
import type { KeyObject } from 'node:crypto';
import type { Clock } from '../base/clock.ts';
import type { Env } from '../base/config.ts';
import type { Keyring } from '../crypto/keys.ts';
import type { HttpRequest, SessionKey } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { StateRow, TokenStore } from './tokens/store.ts';

/** What a login is begun with. */
export interface BegunLogin {
  readonly provider: string;
  readonly redirectUri: string;
  readonly returnTo: string | null;
}

/** What goes to the provider, and what the browser keeps. */
export interface Begun {
  readonly state: string;
  readonly challenge: string;
  readonly nonce: string;
  /** Adds the cookie of this login to the answer, and removes those of logins that are too many. */
  remember(response: HttpResponse): void;
}

/** A login that has come back. */
export interface ReturnedLogin {
  readonly row: StateRow;
  readonly verifier: string;
}

const COOKIE = 'svc_oauth_';
/** Logins that one browser may have under way: each of its tabs one. */
const MAX_PENDING = 8;
/** How many states that are not over the store holds, of all browsers; about, when several processes add to them. */
const MAX_STATES = 100_000;
/** How many go at once when there are so many. */
const DROPPED = 1_000;
/** For how long the number of states is believed, in microseconds. */
const COUNT_TTL = 1_000_000;

/** Begins logins and takes them back. */
export class LoginStates {
  readonly #store: TokenStore;
  readonly #clock: Clock;
  readonly #env: Env;
  readonly #keys: Keyring;
  /** In microseconds. */
  readonly #ttl: number;
  #counted = { states: 0, at: -Infinity };

  constructor(parts: {
    readonly store: TokenStore;
    readonly clock: Clock;
    readonly env: Env;
    /** For the verifiers. */ readonly keys: Keyring;
    readonly ttlSeconds: number;
  }) {
    this.#store = parts.store;
    this.#clock = parts.clock;
    this.#env = parts.env;
    this.#keys = parts.keys;
    this.#ttl = parts.ttlSeconds * 1_000_000;
  }

  /** Stores a new state. When there are too many, the oldest go: who floods the table shortens logins under way, and keeps nobody from a new one. */
  async begin(req: HttpRequest, login: BegunLogin): Promise<Begun> {
    const now = this.#clock.nowMicros();
    await this.#makeRoom(now);
    const { id, key } = this.#keys.current;
    const state = `${id}.${randomBytes(32).toString('base64url')}`;
    const secret = randomBytes(32).toString('base64url');
    const nonce = randomBytes(32).toString('base64url');
    const stateHash = hash('sha256', state, 'hex');
    await this.#store.addState({
      ...login,
      stateHash,
      browserHash: hash('sha256', secret, 'hex'),
      nonce,
      createdAt: now,
      expiresAt: now + this.#ttl,
    });
    const { name, secure } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#env);
    const options = { secure, path: '/', sameSite: 'lax', httpOnly: true } as const;
    return {
      state,
      nonce,
      challenge: challengeOf(verifierOf(state, key)),
      remember: (response) => {
        for (const old of this.#surplus(req)) response.deleteCookie(old, options);
        response.setCookie(name, `${(now / 1_000_000).toFixed(0)}.${secret}`, {
          ...options,
          maxAgeSeconds: this.#ttl / 1_000_000,
        });
      },
    };
  }

  /**
   * Takes a state out: of several requests that bring it, one goes on. @throws OAuthError `invalid_state`,
   * `state_browser_mismatch`
   */
  async take(req: HttpRequest, state: string, provider: string): Promise<ReturnedLogin> {
    const now = this.#clock.nowMicros();
    const stateHash = hash('sha256', state, 'hex');
    const secret = this.#secretOf(req, stateHash);
    const row =
      secret === undefined
        ? undefined
        : await this.#store.takeState(stateHash, hash('sha256', secret, 'hex'), provider, now);
    if (row !== undefined) {
      const key = this.#keys.find(state.slice(0, state.indexOf('.')))?.key;
      if (key === undefined) throw new OAuthError('invalid_state', { reason: 'key_has_left' });
      return { row, verifier: verifierOf(state, key) };
    }
    const other = await this.#store.findState(stateHash, now);
    if (other === undefined) throw new OAuthError('invalid_state', { reason: 'unknown_used_or_expired' });
    if (other.provider !== provider) throw new OAuthError('invalid_state', { reason: 'other_provider' });
    throw new OAuthError('state_browser_mismatch', {
      reason: secret === undefined ? 'no_cookie' : 'other_browser',
    });
  }

  /** Whether the browser has brought the cookie of this login. */
  isKnown(req: HttpRequest, state: string): boolean {
    return this.#secretOf(req, hash('sha256', state, 'hex')) !== undefined;
  }

  /** Removes the cookie of a login that has come back. */
  forget(req: HttpRequest, state: string, response: HttpResponse): void {
    const { name, secure } = hostCookie(COOKIE + hash('sha256', state, 'hex').slice(0, 8), req, this.#env);
    if (req.cookies[name] !== undefined) response.deleteCookie(name, { secure, path: '/' });
  }

  /** The browser's secret for a state, out of its cookie. */
  #secretOf(req: HttpRequest, stateHash: string): string | undefined {
    const { name } = hostCookie(COOKIE + stateHash.slice(0, 8), req, this.#env);
    return /^\d{1,12}\.([\w-]{43})$/.exec(req.cookies[name] ?? '')?.[1];
  }

  /** The names of the oldest login cookies, so that with the one to come there are {@link MAX_PENDING}. */
  #surplus(req: HttpRequest): string[] {
    const prefix = hostCookie(COOKIE, req, this.#env).name;
    const pending = Object.entries(req.cookies).filter(
      ([name]) => name.startsWith(prefix) && name.length === prefix.length + 8,
    );
    const ageOf = (value: string): number => Number.parseInt(value, 10) || 0; // ours begin with the time; what is none is the oldest
    return pending
      .sort(([, left], [, right]) => ageOf(left) - ageOf(right))
      .slice(0, Math.max(0, pending.length - MAX_PENDING + 1))
      .map(([name]) => name);
  }

  async #makeRoom(now: number): Promise<void> {
    if (now - this.#counted.at > COUNT_TTL)
      this.#counted = { states: await this.#store.countStates(now), at: now };
    if (this.#counted.states++ < MAX_STATES) return;
    this.#counted.states -= DROPPED; // before anything is waited for: of many logins that begin now, one makes room
    while ((await this.#store.cleanUp(now, DROPPED)) >= DROPPED); // those that are over would be taken for the oldest
    await this.#store.dropOldestStates(DROPPED);
  }
}

/** The application's subject of whoever has logged in; set by the callback where the session middleware is in use. */
export const currentUser: SessionKey<string> = sessionKey('svc_user');

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
