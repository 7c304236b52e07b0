/**
 * The life of a refresh token: issued, rotated on every use, replayed to those who raced, revoked on theft.
 *
 *   rotate: one UPDATE decides who wins -> 25 ms for those who were on their way -> delivery mark -> answer
 *   lose:   the row tells whether it was the same moment (the same successor is computed again) or theft (the login ends)
 *
 * One row a login, so a revocation cannot be outrun; the successor is derived, so nobody ever gets a second one. What a
 * crash leaves behind is a successor that nobody has: the old token still leads to it (`deliveredAt` null).
 */
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
export interface NewLogin {
  readonly sub: string;
  readonly provider: string;
  readonly subject: string;
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
export interface RefreshRequest {
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
export interface Issued {
  readonly refreshToken: string;
  readonly login: LoginRow;
  /** When its first access token is made, in microseconds. */
  readonly issuedAt: number;
}

/** What a refresh gives. */
export interface Refreshed {
  readonly refreshToken: string;
  readonly login: LoginRow;
  readonly scopes: readonly string[];
  readonly claims: Readonly<Record<string, unknown>>;
  /** From before the login was seen alive, in microseconds: what is revoked later is later than this. */
  readonly issuedAt: number;
}

/** A successor that nobody was given within this time belongs to a request that has died, in strict mode too. */
const ABANDONED_AFTER = 5_000_000;

/** Issues, rotates and revokes. */
export class RefreshTokens {
  readonly #store: TokenStore;
  readonly #codec: RefreshTokenCodec;
  readonly #clock: Clock;
  readonly #audit: Audit;
  readonly #policy: RefreshPolicy;
  readonly #onRefresh: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;

  constructor(parts: {
    readonly store: TokenStore;
    readonly codec: RefreshTokenCodec;
    readonly clock: Clock;
    readonly audit: Audit;
    readonly policy: RefreshPolicy;
    readonly onRefresh: ((login: RefreshedLogin) => Awaitable<RefreshVerdict>) | undefined;
  }) {
    this.#store = parts.store;
    this.#codec = parts.codec;
    this.#clock = parts.clock;
    this.#audit = parts.audit;
    this.#policy = parts.policy;
    this.#onRefresh = parts.onRefresh;
  }

  /** Stores a login and gives its first token. @throws OAuthError `access_denied` when everything of the subject was revoked meanwhile */
  async issue(login: NewLogin): Promise<Issued> {
    const token = this.#codec.first();
    const now = this.#clock.nowMicros();
    const absoluteExpiresAt = now + this.#policy.absoluteTtl;
    const { startedAt, ...rest } = login;
    const row: LoginRow = {
      ...rest,
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
    await this.#clock.sleep(Math.floor(short / 1_000) + 2); // timers may be a millisecond early
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
    const row = await this.#store.findLogin(token.id);
    if (row === undefined) throw this.#refusal(request, 'unknown_login', token.id);
    if (!isLive(row, now))
      throw this.#refusal(
        request,
        row.revokedAt === null ? 'expired' : `revoked_${row.revokeReason ?? 'before'}`,
        token.id,
      );
    return isWinner
      ? this.#answer(next, row, 'rotated', request, now)
      : this.#replay(token, row, request, now);
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

  /** The token has been rotated already, or never was this login's. */
  async #replay(
    token: RefreshToken,
    row: LoginRow,
    request: RefreshRequest,
    now: number,
  ): Promise<Refreshed> {
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
    return this.#answer(successor, row, 'replayed', request, now);
  }

  async #onReuse(row: LoginRow, request: RefreshRequest): Promise<never> {
    if (await this.#end(row, 'reuse')) this.#audit.reuseDetected(request.req, row);
    throw new OAuthError('invalid_grant', { reason: 'reuse' });
  }

  #end(row: LoginRow, reason: RevokeReason): Promise<boolean> {
    return this.#store.revoke(row.id, reason, this.#clock.nowMicros());
  }

  /** Nobody is answered before the mark, and nobody before those who were on their way had their chance to come. */
  async #answer(
    next: RefreshToken,
    row: LoginRow,
    how: 'rotated' | 'replayed',
    request: RefreshRequest,
    issuedAt: number,
  ): Promise<Refreshed> {
    const knownAtMs = this.#clock.monotonicMs(); // not `rotatedAt`, which is from before the commit: a slow disk would use up the hold
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
    await this.#store.markDelivered(row.id, next.generation, this.#clock.nowMicros());
    const ended = (await this.#store.findLogin(row.id))?.revokeReason;
    if (ended !== null) throw this.#refusal(request, `revoked_${ended ?? 'before'}`, row.id); // while it was held
    this.#audit.tokenRefreshed(request.req, row, how);
    return {
      issuedAt,
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
    if (leftMs > 0) await this.#clock.sleep(leftMs);
    await this.#clock.sleep(1);
  }

  #refusal(request: RefreshRequest, reason: string, id: string): OAuthError {
    this.#audit.refreshRefused(request.req, reason, id);
    return new OAuthError('invalid_grant', { reason });
  }
}
