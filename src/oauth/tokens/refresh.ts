/**
 * The life of a refresh token: issued, rotated on every use, replayed for requests that overlap, revoked on theft.
 *
 *   rotate: one UPDATE decides who wins -> 25 ms for requests under way -> response to the socket -> delivery mark
 *   lose:   wait for the mark -> before it: the same successor, computed again; behind it: theft, the login ends
 *
 * A rotation is complete when its response has been handed to the socket. Until then the presented token leads to its
 * successor (`deliveredAt` null), so a crash before that moment loses nothing. One row a login, so a revocation cannot be
 * outrun; the successor is derived, so there is never a second one.
 */
import { pass } from '../../base/clock.ts';
import { isLive } from './store.ts';
import { OAuthError } from '../errors.ts';
import { hashOf } from './refresh-codec.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable, HttpRequest } from '../../http/contracts.ts';
import type { Audit } from '../audit.ts';
import type { RefreshToken, RefreshTokenCodec } from './refresh-codec.ts';
import type { LoginRow, RevokeReason, TokenStore } from './store.ts';

/** How refresh tokens behave. Times in microseconds but for `holdMs`. */
export interface RefreshPolicy {
  readonly idleTtl: number;
  readonly absoluteTtl: number;
  /** For how long after its answer a rotated token still leads to its successor, for answers lost on the way. */
  readonly grace: number;
  /** By how much the clocks of several hosts may differ. */
  readonly clockSkew: number;
  /** `coalesce`: requests that overlap get the same successor. `strict`: one gets it, the others are refused. */
  readonly concurrency: 'coalesce' | 'strict';
  /** How long an answer waits for requests that are on their way, in milliseconds. */
  readonly holdMs: number;
  /** By how much access tokens must be later than a revocation of everything to be told from those before it; 0 where nobody asks. */
  readonly apart: number;
}

/** What a login is made from. */
interface NewLogin {
  readonly sub: string;
  readonly provider: string;
  readonly subject: string;
  /** {@link LoginRow.providerSid}. Default null. */
  readonly providerSid?: string | null | undefined;
  readonly scopes: readonly string[];
  readonly claims: Readonly<Record<string, unknown>>;
  /** When the user began to log in: a revocation after it ends this login, too. */
  readonly startedAt: number;
  readonly userAgent: string | null;
  readonly ip: string | null;
  readonly keyThumbprint: string | null;
}

/** What the application may say when a login is used again. `false`: this user may not log in any more. */
export type RefreshVerdict =
  | boolean
  | { readonly scopes?: readonly string[]; readonly claims?: Readonly<Record<string, unknown>> }
  | undefined;

/** The login that is being refreshed, as the application's hook sees it. */
export type RefreshedLogin = Pick<LoginRow, 'id' | 'sub' | 'provider' | 'subject' | 'scopes' | 'claims'>;

/** A request to refresh. */
interface RefreshRequest {
  /** When its head was read, in microseconds. */
  readonly arrivedAt: number;
  /** Scopes for the access token; undefined for all that were granted. */
  readonly scopes: readonly string[] | undefined;
  /** The key that the request has proved to hold. */
  readonly keyThumbprint: string | null;
  /** For the audit trail. */
  readonly req: HttpRequest | undefined;
}

/** A login that has been admitted. */
interface Issued {
  readonly refreshToken: string;
  readonly login: LoginRow;
  /** When its first access token is made, in microseconds. */
  readonly issuedAt: number;
}

/** The result of a refresh, to be sent to the client. When it has gone out, {@link RefreshTokens.markDelivered} completes the rotation. */
export interface Refreshed {
  readonly refreshToken: string;
  /** Rotations of the login up to this refresh token. */
  readonly generation: number;
  /** When the response was ready for the socket, in microseconds: a request that arrives later is no longer an overlapping one. */
  readonly readyAt: number;
  readonly login: LoginRow;
  readonly scopes: readonly string[];
  readonly claims: Readonly<Record<string, unknown>>;
  /** From before the login was seen alive, in microseconds: what is revoked later is later than this. */
  readonly issuedAt: number;
}

interface RefreshContext {
  readonly request: RefreshRequest;
  /** {@link Refreshed.issuedAt} */
  readonly issuedAt: number;
  /** When it was known who has won, by the monotonic clock. */
  readonly knownAtMs: number;
}

/** In strict mode: a successor that was not delivered within this time belongs to a request that has died. */
const ABANDONED_AFTER = 5_000_000;
/** How long a request waits for the delivery mark of the one that has rotated its token, in milliseconds. Without a mark that process has died. */
const DELIVERY_WAIT_MS = 1_000;
const DELIVERY_POLL_MS = 10;

/** Issues, rotates and revokes. */
export class RefreshTokens {
  readonly #store: TokenStore;
  readonly #codec: RefreshTokenCodec;
  readonly #clock: Clock;
  readonly #audit: Audit;
  readonly #policy: RefreshPolicy;
  readonly #pause: (ms: number) => Promise<void>;
  readonly #onRefresh: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;

  /** `pause` lets time pass; for tests that look at it. */
  constructor(deps: {
    readonly store: TokenStore;
    readonly codec: RefreshTokenCodec;
    readonly clock: Clock;
    readonly audit: Audit;
    readonly policy: RefreshPolicy;
    readonly pause?: ((ms: number) => Promise<void>) | undefined;
    readonly onRefresh: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
  }) {
    this.#store = deps.store;
    this.#codec = deps.codec;
    this.#clock = deps.clock;
    this.#audit = deps.audit;
    this.#policy = deps.policy;
    this.#pause = deps.pause ?? ((ms) => pass(deps.clock, ms));
    this.#onRefresh = deps.onRefresh;
  }

  /** Stores a login and gives its first token. @throws OAuthError `access_denied` when everything of the subject was revoked meanwhile */
  async issue(login: NewLogin): Promise<Issued> {
    const token = this.#codec.first();
    const now = this.#clock.nowMicros();
    const absoluteExpiresAt = now + this.#policy.absoluteTtl;
    const { startedAt, providerSid = null, ...rest } = login;
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
      deliveredAt: now,
      idleExpiresAt: Math.min(now + this.#policy.idleTtl, absoluteExpiresAt),
      absoluteExpiresAt,
      revokedAt: null,
      revokeReason: null,
    };
    await this.#store.addLogin(row);
    const revokedAt = await this.#revokedBefore(row, startedAt); // it writes, then looks; revokeAll() does, too: one of them sees the other
    return {
      refreshToken: this.#codec.format(token),
      login: row,
      issuedAt: await this.#waitApart(row, startedAt, revokedAt),
    };
  }

  /** When everything of its subject was revoked last. @throws OAuthError `access_denied` when that was after the login had been begun */
  async #revokedBefore(row: LoginRow, startedAt: number): Promise<number> {
    const revokedAt = await this.#store.validAfter(row.sub);
    if (revokedAt + this.#policy.clockSkew < startedAt) return revokedAt;
    await this.#store.revoke(row.id, 'all', this.#clock.nowMicros());
    throw new OAuthError('access_denied', { reason: 'revoked_meanwhile' });
  }

  /** A login right behind a revocation waits until its access token cannot be taken for one from before it. */
  async #waitApart(row: LoginRow, startedAt: number, revokedAt: number): Promise<number> {
    const { apart } = this.#policy;
    const short = revokedAt + apart - row.createdAt;
    if (apart === 0 || short < 0 || short > 2 * apart) return row.createdAt; // beyond what clocks may differ by, one was set back: it would wait for hours
    await this.#pause(Math.floor(short / 1_000) + 2); // timers may be a millisecond early
    const issuedAt = this.#clock.nowMicros();
    await this.#revokedBefore(row, startedAt);
    if ((await this.#store.findLogin(row.id))?.revokedAt !== null)
      throw new OAuthError('access_denied', { reason: 'revoked_meanwhile' });
    return issuedAt;
  }

  /** The next token of a login. @throws OAuthError `invalid_grant`, `invalid_scope` */
  async refresh(token: RefreshToken, request: RefreshRequest): Promise<Refreshed> {
    if (request.scopes !== undefined) await this.#examine(token, request);
    const next = this.#codec.next(token);
    const now = this.#clock.nowMicros();
    const isWinner = await this.#store.rotate({
      id: token.id,
      generation: token.generation,
      currentHash: hashOf(token),
      nextHash: hashOf(next),
      keyThumbprint: request.keyThumbprint,
      now,
      idleExpiresAt: now + this.#policy.idleTtl,
    });
    const knownAtMs = this.#clock.monotonicMs(); // not `now`, which is from before the commit: a slow disk would use up the hold
    const row = await this.#living(token.id, request);
    const context = { request, issuedAt: now, knownAtMs };
    return isWinner ? this.#answer(next, row, 'rotated', context) : this.#replay(token, row, context);
  }

  /** Ends the login of a token, whichever of its generations it is (RFC 7009). Whether this call did. */
  async revoke(token: RefreshToken, req: HttpRequest | undefined): Promise<boolean> {
    const isEnded = await this.#store.revoke(token.id, 'logout', this.#clock.nowMicros());
    if (isEnded) this.#audit.tokenRevoked(req, token.id, 'logout');
    return isEnded;
  }

  /** What would have to be undone after a rotation is looked at before it. */
  async #examine(token: RefreshToken, request: RefreshRequest): Promise<void> {
    const row = await this.#store.findLogin(token.id);
    if (row === undefined) throw this.#refusal(request, 'unknown_login', token.id);
    if (
      token.generation === row.generation &&
      hashOf(token) === row.currentHash &&
      isLive(row, this.#clock.nowMicros())
    )
      this.#assertGranted(row, request); // of others it is told nothing
  }

  #assertGranted(row: LoginRow, { scopes, req }: RefreshRequest): void {
    if (scopes === undefined || scopes.every((scope) => row.scopes.includes(scope))) return;
    this.#audit.refreshRefused(req, 'scope', row.id);
    throw new OAuthError('invalid_scope');
  }

  /** Completes a rotation whose response has gone out. Whatever presents the token before it from now on ends the login. */
  async markDelivered({ login, generation, readyAt }: Refreshed): Promise<void> {
    await this.#store.markDelivered(login.id, generation, readyAt);
  }

  /** Ends a login whose code was used twice (RFC 6749 §4.1.2). */
  async endReused(req: HttpRequest | undefined, id: string): Promise<void> {
    const row = await this.#store.findLogin(id);
    if (row !== undefined && (await this.#end(row, 'reuse'))) this.#audit.reuseDetected(req, row);
  }

  /** Judges a token that has been rotated already, or never was one of this login. */
  async #replay(token: RefreshToken, found: LoginRow, context: RefreshContext): Promise<Refreshed> {
    const { request } = context;
    const row = await this.#whenDelivered(token, found, request);
    if (token.generation > row.generation) throw this.#refusal(request, 'ahead_of_store', row.id); // a restored backup, or a lost commit
    if (token.generation === row.generation) {
      // another key, or a valid tag around another secret: the keys of the ring have leaked
      throw this.#refusal(request, hashOf(token) === row.currentHash ? 'other_key' : 'wrong_secret', row.id);
    }
    if (token.generation < row.generation - 1) return this.#onReuse(row, request);
    if (hashOf(token) !== row.previousHash) throw this.#refusal(request, 'wrong_secret', row.id);
    const successor = this.#codec.nextThatHas(row.currentHash, token);
    if (successor === undefined) throw this.#refusal(request, 'key_has_left', row.id);
    const { grace, clockSkew, concurrency } = this.#policy;
    const isAbandoned =
      row.deliveredAt === null && request.arrivedAt > (row.rotatedAt ?? 0) + ABANDONED_AFTER;
    const overlaps = row.deliveredAt === null || request.arrivedAt < row.deliveredAt + clockSkew;
    if (concurrency === 'strict' && overlaps && !isAbandoned)
      throw this.#refusal(request, 'concurrent', row.id);
    if (!overlaps && !(request.arrivedAt < row.deliveredAt + grace + clockSkew))
      return this.#onReuse(row, request);
    // after reuse has been looked for: whoever has bound a stolen token must not be safe from its owner, who has another key
    if (row.keyThumbprint !== request.keyThumbprint) throw this.#refusal(request, 'other_key', row.id);
    this.#assertGranted(row, request);
    return this.#answer(successor, row, 'replayed', context);
  }

  /** The row of a login once the response to its last rotation has gone out; after a second without a mark, as it is: that process has died. */
  async #whenDelivered(token: RefreshToken, found: LoginRow, request: RefreshRequest): Promise<LoginRow> {
    const isPredecessor = found.generation === token.generation + 1 && hashOf(token) === found.previousHash;
    let row = found;
    for (let waitedMs = 0; isPredecessor && row.deliveredAt === null; waitedMs += DELIVERY_POLL_MS) {
      if (waitedMs >= DELIVERY_WAIT_MS) break;
      await this.#pause(DELIVERY_POLL_MS);
      row = await this.#living(token.id, request);
      // rotated again meanwhile: the mark is gone, and a request from within the hold overlapped for certain
      if (
        row.generation !== found.generation &&
        request.arrivedAt < (found.rotatedAt ?? 0) + this.#policy.holdMs * 1_000
      )
        throw this.#refusal(request, 'concurrent', row.id);
    }
    return row;
  }

  /** The row of a login that is neither revoked nor over. @throws OAuthError `invalid_grant` */
  async #living(id: string, request: RefreshRequest): Promise<LoginRow> {
    const row = await this.#store.findLogin(id);
    if (row === undefined) throw this.#refusal(request, 'unknown_login', id);
    if (isLive(row, this.#clock.nowMicros())) return row;
    throw this.#refusal(
      request,
      row.revokedAt === null ? 'expired' : `revoked_${row.revokeReason ?? 'before'}`,
      id,
    );
  }

  async #onReuse(row: LoginRow, request: RefreshRequest): Promise<never> {
    if (await this.#end(row, 'reuse')) this.#audit.reuseDetected(request.req, row);
    throw new OAuthError('invalid_grant', { reason: 'reuse' });
  }

  #end(row: LoginRow, reason: RevokeReason): Promise<boolean> {
    return this.#store.revoke(row.id, reason, this.#clock.nowMicros());
  }

  /** Waits until requests under way had their chance to come, then gives the answer. */
  async #answer(
    next: RefreshToken,
    row: LoginRow,
    how: 'rotated' | 'replayed',
    { request, issuedAt, knownAtMs }: RefreshContext,
  ): Promise<Refreshed> {
    const verdict = await this.#onRefresh?.({
      id: row.id,
      sub: row.sub,
      provider: row.provider,
      subject: row.subject,
      scopes: row.scopes,
      claims: row.claims,
    });
    if (verdict === false) {
      if (await this.#end(row, 'disabled'))
        this.#audit.tokenRevoked(request.req, row.id, 'disabled', row.sub);
      throw new OAuthError('invalid_grant', { reason: 'disabled' });
    }
    const { scopes = row.scopes, claims = row.claims } = typeof verdict === 'object' ? verdict : {};
    await this.#hold(knownAtMs);
    await this.#living(row.id, request); // it may have been revoked while it was held
    this.#audit.tokenRefreshed(request.req, row, how);
    return {
      issuedAt,
      generation: next.generation,
      readyAt: this.#clock.nowMicros(),
      refreshToken: this.#codec.format(next),
      login: row,
      scopes:
        request.scopes === undefined ? scopes : scopes.filter((scope) => request.scopes!.includes(scope)),
      claims,
    };
  }

  /** In two parts: when the event loop stood still, timers run before what waits on sockets is read; it is read before the second. */
  async #hold(sinceMs: number): Promise<void> {
    const { holdMs } = this.#policy;
    if (holdMs === 0) return;
    const leftMs = Math.ceil(holdMs - 1 - (this.#clock.monotonicMs() - sinceMs));
    if (leftMs > 0) await this.#pause(leftMs);
    await this.#pause(1);
  }

  #refusal(request: RefreshRequest, reason: string, id: string): OAuthError {
    this.#audit.refreshRefused(request.req, reason, id);
    return new OAuthError('invalid_grant', { reason });
  }
}
