/**
 * Issues, rotates and revokes refresh tokens. Each use of a token replaces it by a new token (rotation).
 * Overlapping requests get the same new token. A later use of the old token means that it was stolen, so the
 * login ends.
 *
 * If several requests send one refresh token, an UPDATE in the database decides which request replaces the
 * token. The response to this request waits 25 ms. Requests that arrive in this time get the same new token.
 * While they keep arriving, at any process, the response waits longer. A request after the grace time ends the
 * login.
 *
 * Overlap and grace are judged by one clock, that of the store: see store-clock.ts.
 *
 * After a refresh, the old token still gives the new token until the database stores that the response was
 * sent. So a crash of the server ends no login.
 */
import { pass } from '../../base/clock.ts';
import { isLive, isPending } from './store.ts';
import { OAuthError, accessDenied } from '../errors.ts';
import { hashOf } from './refresh-codec.ts';
import { StoreClock } from './store-clock.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable, HttpRequest } from '../../http/contracts.ts';
import type { Audit } from '../audit.ts';
import type { RefreshToken, RefreshTokenCodec } from './refresh-codec.ts';
import type { LoginEnds, LoginRow, LoginStore, RevokeReason } from './store.ts';

/** Settings of refresh tokens. Times are in microseconds, except `holdMs`. */
interface RefreshPolicy {
  readonly idleTtl: number;
  readonly absoluteTtl: number;
  /**
   * Time after the response in which the old token still gives the new one, because the response can be lost.
   */
  readonly grace: number;
  /** Maximum difference between the clocks of several hosts, for logins that begin after a revocation. */
  readonly clockSkew: number;
  /**
   * `coalesce`: all overlapping requests get the same new token. `strict`: only one of them gets it; the
   * others are refused.
   */
  readonly concurrency: 'coalesce' | 'strict';
  /** Time in milliseconds for which a response waits for overlapping requests. */
  readonly holdMs: number;
  /**
   * Minimum time between the last `revokeAll()` and the issue of a valid access token. 0 without the option
   * `enforceValidAfter`.
   */
  readonly apart: number;
}

/** How, and when, a user was identified. */
export interface LoginOrigin extends Pick<LoginRow, 'provider' | 'subject' | 'keyThumbprint'> {
  /** Session id at the provider. Default null. */
  readonly providerSid?: string | null | undefined;
  /** Start of the login in microseconds since the epoch. A revocation after this time ends the login. */
  readonly startedAt: number;
}

interface NewLogin extends LoginOrigin, Pick<LoginRow, 'sub' | 'scopes' | 'claims' | 'userAgent' | 'ip'> {
  /**
   * Time in microseconds in which activate() must issue the first tokens, for a login by a one-time code.
   * Undefined if the tokens are issued at once.
   */
  readonly activeWithin?: number | undefined;
}

/**
 * Result of `onRefresh`. `false` ends the login. An object contains scopes and claims for the new access
 * token.
 */
export type RefreshVerdict =
  | boolean
  | { readonly scopes?: readonly string[]; readonly claims?: Readonly<Record<string, unknown>> }
  | undefined;

/** The login that is refreshed, as `onRefresh` receives it. */
export type RefreshedLogin = Pick<LoginRow, 'id' | 'sub' | 'provider' | 'subject' | 'scopes' | 'claims'>;

interface RefreshRequest {
  /** Monotonic time in milliseconds at which the request arrived. */
  readonly arrivedMs: number;
  readonly scopes: readonly string[] | undefined;
  /** Thumbprint of the key that the request proved by DPoP; null without a proof. */
  readonly keyThumbprint: string | null;
  /** The HTTP request, for the audit log. */
  readonly req: HttpRequest | undefined;
}

/** A login with its first or next refresh token. */
export interface Issued {
  readonly refreshToken: string;
  readonly login: LoginRow;
  /** Issue time of the access token, in microseconds since the epoch. */
  readonly issuedAt: number;
}

/** Result of a refresh. After the response was sent, markDelivered() completes the rotation. */
export interface Refreshed extends Omit<Issued, 'issuedAt'>, Pick<LoginRow, 'scopes' | 'claims'> {
  /** Number of rotations that led to this refresh token. */
  readonly generation: number;
  /**
   * Time at which the response was ready, by the clock of the store in microseconds. A request that arrives
   * later does not overlap with this refresh. It is not the time at which the response was sent, because a
   * client may have the response before the server knows that. Undefined if the store has an earlier time.
   */
  readonly readyAt: number | undefined;
  /**
   * Issue time of the access token in microseconds since the epoch, taken before the login was read from the
   * store. So a revocation that this read has missed is later than the token, and makes it invalid.
   */
  readonly issuedAt: number;
}

interface RefreshContext {
  readonly request: RefreshRequest;
  readonly issuedAt: number;
  /** Monotonic time in milliseconds at which the rotation was stored. */
  readonly knownAtMs: number;
}

/**
 * Time in microseconds after which a new token that was not sent may be issued again with `concurrency:
 * 'strict'`. The process that created it has probably ended.
 */
const ABANDONED_AFTER = 5_000_000;
/**
 * Time in milliseconds for which a request waits until the response of another request was sent. After that,
 * the process of the other request has probably ended.
 */
const DELIVERY_WAIT_MS = 1_000;
/** Maximum time in milliseconds by which overlapping requests make a response wait longer than `holdMs`. */
const MOST_HOLD_MS = 250;
const DELIVERY_POLL_MS = 10;

interface RefreshTokensDeps {
  readonly store: LoginStore;
  readonly ends: LoginEnds;
  readonly codec: RefreshTokenCodec;
  readonly clock: Clock;
  readonly audit: Audit;
  readonly policy: RefreshPolicy;
  /** Resolves after the sockets were read. */
  readonly readSockets?: (() => Promise<void>) | undefined;
  /** Waits for some milliseconds. Default: a timer of the clock. */
  readonly pause?: ((ms: number) => Promise<void>) | undefined;
  readonly onRefresh: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
}

export class RefreshTokens {
  readonly #deps: RefreshTokensDeps;
  readonly #pause: (ms: number) => Promise<void>;
  /** Monotonic times in milliseconds at which this process has called noteOverlap(), by the id of the login. */
  readonly #notedMs = new Map<string, number>();
  readonly #storeClock: StoreClock;

  constructor(deps: RefreshTokensDeps) {
    this.#deps = deps;
    this.#storeClock = new StoreClock(deps.clock);
    this.#pause = deps.pause ?? ((ms) => pass(deps.clock, ms));
  }

  /**
   * Stores a login, and returns its first refresh token.
   *
   * @throws OAuthError `access_denied` when the user's logins were revoked after the start of this login
   */
  async issue(login: NewLogin): Promise<Issued> {
    const token = this.#deps.codec.first();
    const now = this.#deps.clock.nowMicros();
    const absoluteExpiresAt = now + this.#deps.policy.absoluteTtl;
    const { startedAt, providerSid = null, activeWithin, ...rest } = login;
    const row: LoginRow = {
      ...rest,
      providerSid,
      id: token.id,
      generation: 0,
      currentHash: hashOf(token),
      previousHash: null,
      authenticatedAt: now,
      createdAt: now,
      lastUsedAt: now,
      rotatedAt: null,
      deliveredAt: activeWithin === undefined ? now : null,
      idleExpiresAt: Math.min(now + (activeWithin ?? this.#deps.policy.idleTtl), absoluteExpiresAt),
      absoluteExpiresAt,
      revokedAt: null,
      revokeReason: null,
    };
    await this.#deps.store.addLogin(row);
    // call this after addLogin(): an earlier revokeAll() is found here, and a later one ends the stored login
    const revokedAt = await this.#revokedBefore(row, startedAt);
    return {
      refreshToken: this.#deps.codec.format(token),
      login: row,
      issuedAt: await this.#waitApart(row, startedAt, revokedAt),
    };
  }

  /**
   * Issues the first tokens of a login that was stored with `activeWithin`. If several requests do, the
   * database decides which one gets them. Returns the reason if another request has them, or if the login is
   * bound to another key.
   */
  async activate(
    id: string,
    keyThumbprint: string | null,
  ): Promise<Issued | 'code_sent_twice' | 'other_key'> {
    const { store, codec, clock, policy } = this.#deps;
    const now = clock.nowMicros();
    const token = { ...codec.first(), id, generation: 1 };
    const pending = await store.findLogin(id);
    const isFirst =
      pending !== undefined &&
      (await store.rotate({
        id,
        generation: 0,
        currentHash: pending.currentHash,
        nextHash: hashOf(token),
        keyThumbprint,
        now,
        idleExpiresAt: now + policy.idleTtl,
      }));
    const login = await store.findLogin(id);
    if (login === undefined || !isLive(login, now)) throw accessDenied('code_login_ended');
    if (!isFirst) return isPending(login) ? 'other_key' : 'code_sent_twice';
    return { refreshToken: codec.format(token), login, issuedAt: now };
  }

  /** Returns the time of the user's last `revokeAll()`. */
  async #revokedBefore(row: LoginRow, startedAt: number): Promise<number> {
    const revokedAt = await this.#deps.store.validAfter(row.sub);
    if (revokedAt + this.#deps.policy.clockSkew < startedAt) return revokedAt;
    await this.#deps.ends.revoke(row.id, 'all', this.#deps.clock.nowMicros());
    throw accessDenied('revoked_meanwhile');
  }

  /**
   * Waits until a new access token is later than the last revocation, even if clocks differ. Returns the
   * issue time of the token in microseconds since the epoch.
   */
  async #waitApart(row: LoginRow, startedAt: number, revokedAt: number): Promise<number> {
    const { apart } = this.#deps.policy;
    const short = revokedAt + apart - row.createdAt;
    // no wait is necessary, or a clock was set back
    if (apart === 0 || short < 0 || short > 2 * apart) return row.createdAt;
    await this.#pause(Math.floor(short / 1_000) + 2); // timers may fire a millisecond early
    const issuedAt = this.#deps.clock.nowMicros();
    await this.#revokedBefore(row, startedAt);
    if ((await this.#deps.store.findLogin(row.id))?.revokedAt !== null)
      throw accessDenied('revoked_meanwhile');
    return issuedAt;
  }

  /**
   * Rotates a refresh token.
   * @throws OAuthError `invalid_grant` when the token or its login is not valid, `invalid_scope` for scopes
   * that were not granted
   */
  async refresh(token: RefreshToken, request: RefreshRequest): Promise<Refreshed> {
    if (request.scopes !== undefined) await this.#examine(token, request);
    const next = this.#deps.codec.next(token);
    const now = this.#deps.clock.nowMicros();
    const isWinner = await this.#deps.store.rotate({
      id: token.id,
      generation: token.generation,
      currentHash: hashOf(token),
      nextHash: hashOf(next),
      keyThumbprint: request.keyThumbprint,
      now,
      idleExpiresAt: now + this.#deps.policy.idleTtl,
    });
    // #answer() waits 25 ms from this time, not from `now`, because a slow disk may have delayed the commit
    const knownAtMs = this.#deps.clock.monotonicMs();
    const row = await this.#living(token.id, request);
    const context = { request, issuedAt: now, knownAtMs };
    return isWinner ? this.#answer(next, row, 'rotated', context) : this.#replay(token, row, context);
  }

  /**
   * Ends the login of a token, even if the token was replaced (RFC 7009). Returns whether this call ended the
   * login.
   */
  async revoke(token: Pick<RefreshToken, 'id'>, req: HttpRequest | undefined): Promise<boolean> {
    const isEnded = await this.#deps.ends.revoke(token.id, 'logout', this.#deps.clock.nowMicros());
    if (isEnded) this.#deps.audit.tokenRevoked(req, token.id, 'logout');
    return isEnded;
  }

  /** Checks the requested scopes before the rotation, which cannot be undone. */
  async #examine(token: RefreshToken, request: RefreshRequest): Promise<void> {
    const row = await this.#deps.store.findLogin(token.id);
    if (row === undefined) throw this.#refusal(request, 'unknown_login', token.id);
    if (
      token.generation === row.generation &&
      hashOf(token) === row.currentHash &&
      isLive(row, this.#deps.clock.nowMicros())
    )
      // checked only for the current token of a valid login, because the response reveals which scopes were
      // granted
      this.#assertGranted(row, request);
  }

  #assertGranted(row: LoginRow, { scopes, req }: RefreshRequest): void {
    if (scopes === undefined || scopes.every((scope) => row.scopes.includes(scope))) return;
    this.#deps.audit.refreshRefused(req, 'scope', row.id);
    throw new OAuthError('invalid_scope');
  }

  /** Completes a rotation. After the grace time, a request with the old token ends the login. */
  async markDelivered({ login, generation, readyAt }: Refreshed): Promise<void> {
    if (readyAt !== undefined) await this.#deps.store.markDelivered(login.id, generation, readyAt);
  }

  /** Ends a login whose one-time code was used twice (RFC 6749 §4.1.2). */
  async endReused(req: HttpRequest | undefined, id: string): Promise<void> {
    const row = await this.#deps.store.findLogin(id);
    if (row !== undefined && (await this.#end(row, 'reuse'))) this.#deps.audit.reuseDetected(req, row);
  }

  /**
   * Handles a token that this request could not rotate. Another request has rotated it, or it does not match
   * the stored login.
   */
  async #replay(token: RefreshToken, found: LoginRow, context: RefreshContext): Promise<Refreshed> {
    const { request } = context;
    const row = await this.#whenDelivered(token, found, request);
    const arrivedAt = this.#storeClock.arrival(request.arrivedMs);
    // the database does not know this token: it was restored from a backup, or has lost a commit
    if (token.generation > row.generation) throw this.#refusal(request, 'ahead_of_store', row.id);
    if (token.generation === row.generation) {
      // a wrong secret with a valid tag means that keys of the keyring have leaked
      throw this.#refusal(request, hashOf(token) === row.currentHash ? 'other_key' : 'wrong_secret', row.id);
    }
    if (token.generation < row.generation - 1) return this.#onReuse(row, request);
    if (hashOf(token) !== row.previousHash) throw this.#refusal(request, 'wrong_secret', row.id);
    const successor = this.#deps.codec.nextThatHas(row.currentHash, token);
    if (successor === undefined) throw this.#refusal(request, 'key_has_left', row.id);
    const { grace, concurrency } = this.#deps.policy;
    const isAbandoned = row.deliveredAt === null && arrivedAt > (row.rotatedAt ?? 0) + ABANDONED_AFTER;
    const overlaps = row.deliveredAt === null || arrivedAt < row.deliveredAt;
    if (concurrency === 'strict' && overlaps && !isAbandoned)
      throw this.#refusal(request, 'concurrent', row.id);
    if (!overlaps && !(arrivedAt < row.deliveredAt + grace)) return this.#onReuse(row, request);
    // check the key last: if a thief has bound the login to his own key, a request by the user must still
    // count as reuse
    if (row.keyThumbprint !== request.keyThumbprint) throw this.#refusal(request, 'other_key', row.id);
    this.#assertGranted(row, request);
    return this.#answer(successor, row, 'replayed', context);
  }

  /**
   * Waits at most a second until the response of the last rotation was sent. Returns the current state of the
   * login.
   */
  async #whenDelivered(token: RefreshToken, found: LoginRow, request: RefreshRequest): Promise<LoginRow> {
    const { generation, previousHash, rotatedAt } = found;
    const isPredecessor = generation === token.generation + 1 && hashOf(token) === previousHash;
    let row = found;
    if (isPredecessor && row.deliveredAt === null) await this.#noteOverlap(row);
    for (let waitedMs = 0; isPredecessor && row.deliveredAt === null; waitedMs += DELIVERY_POLL_MS) {
      if (waitedMs >= DELIVERY_WAIT_MS) break;
      await this.#pause(DELIVERY_POLL_MS);
      row = await this.#living(token.id, request);
      // The refresh token was replaced again during the wait. This request arrived before the response to the
      // first replacement, so it is refused, but does not count as reuse.
      const arrivedAt = this.#storeClock.arrival(request.arrivedMs);
      if (row.generation !== generation && arrivedAt < (rotatedAt ?? 0) + this.#deps.policy.holdMs * 1_000)
        throw this.#refusal(request, 'concurrent', row.id);
    }
    return row;
  }

  /**
   * Returns a login that is neither revoked nor expired.
   * @throws OAuthError `invalid_grant` when the login has ended, or never existed
   */
  async #living(id: string, request: RefreshRequest): Promise<LoginRow> {
    const { clock, store } = this.#deps;
    const beforeMs = clock.monotonicMs();
    const found = await store.readLogin(id);
    if (found === undefined) throw this.#refusal(request, 'unknown_login', id);
    this.#storeClock.note(found, beforeMs);
    const row = found.login;
    if (isLive(row, clock.nowMicros())) return row;
    throw this.#refusal(
      request,
      row.revokedAt === null ? 'expired' : `revoked_${row.revokeReason ?? 'before'}`,
      id,
    );
  }

  async #onReuse(row: LoginRow, request: RefreshRequest): Promise<never> {
    if (await this.#end(row, 'reuse')) this.#deps.audit.reuseDetected(request.req, row);
    throw new OAuthError('invalid_grant', { reason: 'reuse' });
  }

  #end(row: LoginRow, reason: RevokeReason): Promise<boolean> {
    return this.#deps.ends.revoke(row.id, reason, this.#deps.clock.nowMicros());
  }

  /** Calls `onRefresh`, waits for overlapping requests, and returns the result of the refresh. */
  async #answer(
    next: RefreshToken,
    row: LoginRow,
    how: 'rotated' | 'replayed',
    { request, issuedAt, knownAtMs }: RefreshContext,
  ): Promise<Refreshed> {
    const verdict = await this.#deps.onRefresh?.({
      id: row.id,
      sub: row.sub,
      provider: row.provider,
      subject: row.subject,
      scopes: row.scopes,
      claims: row.claims,
    });
    if (verdict === false) {
      if (await this.#end(row, 'disabled'))
        this.#deps.audit.tokenRevoked(request.req, row.id, 'disabled', row.sub);
      throw new OAuthError('invalid_grant', { reason: 'disabled' });
    }
    const { scopes = row.scopes, claims = row.claims } = typeof verdict === 'object' ? verdict : {};
    await this.#hold(knownAtMs);
    // the login may have been revoked during the wait
    const current = await this.#whenQuiet(row, request, issuedAt);
    await this.#deps.readSockets?.();
    this.#deps.audit.tokenRefreshed(request.req, row, how);
    const isMarked = current.generation === next.generation && current.deliveredAt !== null;
    return {
      issuedAt,
      generation: next.generation,
      readyAt: isMarked ? undefined : this.#storeClock.delivery(this.#deps.clock.monotonicMs()),
      refreshToken: this.#deps.codec.format(next),
      login: row,
      scopes:
        request.scopes === undefined ? scopes : scopes.filter((scope) => request.scopes!.includes(scope)),
      claims,
    };
  }

  /**
   * Waits until no further request has presented the previous token for half of `holdMs`, at any process.
   * `issuedAt` is the time that the rotation has stored. Returns the current state of the login.
   */
  async #whenQuiet({ id }: LoginRow, request: RefreshRequest, issuedAt: number): Promise<LoginRow> {
    const quietMs = this.#deps.policy.holdMs / 2;
    for (let waitedMs = 0; ; waitedMs += quietMs) {
      const row = await this.#living(id, request);
      const nowAt = this.#storeClock.delivery(this.#deps.clock.monotonicMs());
      const isQuiet = row.lastUsedAt === issuedAt || nowAt - row.lastUsedAt >= quietMs * 1_000;
      if (isQuiet || row.deliveredAt !== null || waitedMs >= MOST_HOLD_MS) return row;
      await this.#pause(quietMs);
    }
  }

  /** Lets the response to the rotation wait for requests that follow this one. Seldom writes. */
  async #noteOverlap({ id, generation }: LoginRow): Promise<void> {
    const nowMs = this.#deps.clock.monotonicMs();
    const spanMs = this.#deps.policy.holdMs / 4;
    // a Map returns its keys in the order in which they were set
    for (const [oldest, notedMs] of this.#notedMs) {
      if (nowMs - notedMs < spanMs) break;
      this.#notedMs.delete(oldest);
    }
    if (this.#notedMs.has(id)) return;
    this.#notedMs.set(id, nowMs);
    await this.#deps.store.noteOverlap(id, generation);
  }

  /**
   * Waits until `holdMs` after `sinceMs`, and then one millisecond more. If the event loop was blocked, the
   * second wait lets Node.js read the requests that have arrived meanwhile.
   */
  async #hold(sinceMs: number): Promise<void> {
    const { holdMs } = this.#deps.policy;
    if (holdMs === 0) return;
    const leftMs = Math.ceil(holdMs - 1 - (this.#deps.clock.monotonicMs() - sinceMs));
    if (leftMs > 0) await this.#pause(leftMs);
    await this.#pause(1);
  }

  #refusal(request: RefreshRequest, reason: string, id: string): OAuthError {
    this.#deps.audit.refreshRefused(request.req, reason, id);
    return new OAuthError('invalid_grant', { reason });
  }
}
