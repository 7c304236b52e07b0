/**
 * Interface of the store of logins, and an implementation in memory, for development. sql-store.ts implements
 * the interface in a database.
 *
 * Each method of the store is atomic, so callers need no transaction. Times are in microseconds since the
 * epoch.
 */
import type { Clock } from '../../base/clock.ts';

export type RevokeReason = 'reuse' | 'logout' | 'all' | 'user' | 'disabled' | 'provider';

/** A login. Each rotation of its refresh token changes this row. */
export interface LoginRow {
  /** Random id of the login. The refresh token contains it, and `listSessions` returns it. */
  readonly id: string;
  /** The application's id of the user. */
  readonly sub: string;
  readonly provider: string;
  /** Id of the user at the provider. */
  readonly subject: string;
  /** Session id at the provider (claim `sid` of the id_token), for back-channel logout. */
  readonly providerSid: string | null;
  /** Number of rotations of the refresh token. */
  readonly generation: number;
  /**
   * SHA-256 in hexadecimal of the secret in the current refresh token. `previousHash` is the hash of the
   * previous token.
   */
  readonly currentHash: string;
  readonly previousHash: string | null;
  readonly scopes: readonly string[];
  /** Additional claims of the access tokens. */
  readonly claims: Readonly<Record<string, unknown>>;
  readonly authenticatedAt: number;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  /** Time of the last rotation, by the clock of the store. */
  readonly rotatedAt: number | null;
  /**
   * Time at which the response with the current refresh token was ready, by the clock of the store. Null
   * until the response was sent.
   */
  readonly deliveredAt: number | null;
  readonly idleExpiresAt: number;
  readonly absoluteExpiresAt: number;
  readonly revokedAt: number | null;
  readonly revokeReason: RevokeReason | null;
  readonly userAgent: string | null;
  readonly ip: string | null;
  /** Thumbprint of the key to which the tokens are bound (RFC 9449); null if they are not bound. */
  readonly keyThumbprint: string | null;
}

/** A login, and the time at which it was read. */
export interface ReadLogin {
  readonly login: LoginRow;
  /** Time of the read by the clock of the store, rounded down to its `precision`, in microseconds. */
  readonly readAt: number;
  readonly precision: number;
}

/** Rotation of a refresh token: the expected state of the login, and its new state. */
export interface Rotation extends Pick<LoginRow, 'id' | 'generation' | 'currentHash'> {
  readonly nextHash: string;
  /**
   * Thumbprint of the key that the request proved. The rotation binds the login to this key, and fails if the
   * login has another key. If null, the rotation fails for a login with a key.
   */
  readonly keyThumbprint: string | null;
  readonly now: number;
  /** New idle expiry of the login, limited by its absolute expiry. */
  readonly idleExpiresAt: number;
}

/** Selects logins by the user at a provider, by a session of the user there, or by both. */
export interface ProviderIdentity {
  readonly provider: string;
  readonly subject?: string | undefined;
  readonly providerSid?: string | undefined;
}

/** The methods of a {@link TokenStore} that end logins. */
export interface LoginEnds {
  /** Ends a login. Returns whether this call ended it. */
  revoke(id: string, reason: RevokeReason, now: number): Promise<boolean>;
  /** Ends a login if it belongs to this user. Returns whether this call ended it. */
  revokeOf(sub: string, id: string, now: number): Promise<boolean>;
  /**
   * Ends the logins of a user or a session at a provider, and returns them. If neither is given, ends no
   * login.
   */
  revokeIdentity(identity: ProviderIdentity, now: number): Promise<readonly LoginRow[]>;
  /**
   * Ends every login of a user, including logins that are just starting. Returns the number of ended logins.
   */
  revokeAll(sub: string, now: number): Promise<number>;
}

/**
 * Stores the logins of the plugin, and the time of each user's last `revokeAll()`. A store has one clock for
 * all processes.
 */
export interface LoginStore {
  addLogin(row: LoginRow): Promise<void>;
  findLogin(id: string): Promise<LoginRow | undefined>;
  /** Returns a login, and the time of the store's clock. */
  readLogin(id: string): Promise<ReadLogin | undefined>;
  /**
   * Returns those of the logins that live: neither revoked nor expired, and not older than the last
   * `revokeAll()` of their user.
   */
  liveLogins(ids: readonly string[], now: number): Promise<readonly LoginRow[]>;
  /**
   * Rotates the refresh token if the login is valid and in the expected state. Binds the login to the proved
   * key. If several callers compete, only one call returns true.
   */
  rotate(rotation: Rotation): Promise<boolean>;
  /**
   * Called when a further request presents the previous token, before the delivery. Stores the time of the
   * store's clock as `lastUsedAt`.
   */
  noteOverlap(id: string, generation: number): Promise<void>;
  /**
   * Called after the response with the token of this generation was sent. Stores the time of the store's
   * clock at which the response was ready. Repeated calls keep the earliest time.
   */
  markDelivered(id: string, generation: number, readyAt: number): Promise<void>;
  /**
   * Returns the time before which logins and tokens of a user are invalid. Returns 0 if there was no
   * revocation.
   */
  validAfter(sub: string): Promise<number>;
  /** Returns the valid logins of a user, most recently used first. */
  listLogins(sub: string, now: number): Promise<readonly LoginRow[]>;
  /**
   * Deletes at most `batch` logins after their absolute expiry. Returns the number of deleted logins. Revoked
   * logins are kept until then, so that the reuse of their tokens is detected.
   */
  cleanUp(now: number, batch: number): Promise<number>;
}

export interface TokenStore extends LoginStore, LoginEnds {}

/** {@link TokenStore} in the memory of one process, for development and tests. */
export class MemoryTokenStore implements TokenStore {
  readonly #logins = new Map<string, LoginRow>();
  readonly #validAfter = new Map<string, number>();
  readonly #clock: Pick<Clock, 'nowMicros'>;

  constructor(clock: Pick<Clock, 'nowMicros'>) {
    this.#clock = clock;
  }

  async addLogin(row: LoginRow): Promise<void> {
    this.#logins.set(row.id, row);
  }

  async findLogin(id: string): Promise<LoginRow | undefined> {
    return this.#logins.get(id);
  }

  async liveLogins(ids: readonly string[], now: number): Promise<readonly LoginRow[]> {
    return ids
      .map((id) => this.#logins.get(id))
      .filter((row) => row !== undefined)
      .filter((row) => isLive(row, now) && row.createdAt > (this.#validAfter.get(row.sub) ?? 0));
  }

  async readLogin(id: string): Promise<ReadLogin | undefined> {
    const login = this.#logins.get(id);
    return login && { login, readAt: this.#clock.nowMicros(), precision: 0 };
  }

  async rotate(rotation: Rotation): Promise<boolean> {
    const { id, generation, currentHash, nextHash, keyThumbprint, now, idleExpiresAt } = rotation;
    const row = this.#logins.get(id);
    if (
      row === undefined ||
      row.generation !== generation ||
      row.currentHash !== currentHash ||
      !isLive(row, now)
    )
      return false;
    if (row.keyThumbprint !== null && row.keyThumbprint !== keyThumbprint) return false;
    this.#logins.set(id, {
      ...row,
      generation: generation + 1,
      previousHash: row.currentHash,
      currentHash: nextHash,
      keyThumbprint,
      rotatedAt: this.#clock.nowMicros(),
      deliveredAt: null,
      lastUsedAt: now,
      idleExpiresAt: Math.min(row.absoluteExpiresAt, idleExpiresAt),
    });
    return true;
  }

  async noteOverlap(id: string, generation: number): Promise<void> {
    const row = this.#logins.get(id);
    if (row?.generation === generation && row.deliveredAt === null)
      this.#logins.set(id, { ...row, lastUsedAt: this.#clock.nowMicros() });
  }

  async markDelivered(id: string, generation: number, readyAt: number): Promise<void> {
    const row = this.#logins.get(id);
    if (row?.generation === generation && (row.deliveredAt === null || row.deliveredAt > readyAt))
      this.#logins.set(id, { ...row, deliveredAt: readyAt });
  }

  async revoke(id: string, reason: RevokeReason, now: number): Promise<boolean> {
    const row = this.#logins.get(id);
    if (row === undefined || row.revokedAt !== null) return false;
    this.#logins.set(id, { ...row, revokedAt: now, revokeReason: reason });
    return true;
  }

  async revokeOf(sub: string, id: string, now: number): Promise<boolean> {
    return this.#logins.get(id)?.sub === sub && (await this.revoke(id, 'user', now));
  }

  async revokeIdentity(
    { provider, subject, providerSid }: ProviderIdentity,
    now: number,
  ): Promise<LoginRow[]> {
    const ended: LoginRow[] = [];
    if (subject === undefined && providerSid === undefined) return ended;
    for (const row of [...this.#logins.values()])
      if (
        row.provider === provider &&
        (subject === undefined || row.subject === subject) &&
        (providerSid === undefined || row.providerSid === providerSid) &&
        isLive(row, now) &&
        (await this.revoke(row.id, 'provider', now))
      )
        ended.push(row);
    return ended;
  }

  async revokeAll(sub: string, now: number): Promise<number> {
    this.#validAfter.set(sub, Math.max(now, this.#validAfter.get(sub) ?? 0));
    let ended = 0;
    for (const row of [...this.#logins.values()])
      if (row.sub === sub && (await this.revoke(row.id, 'all', now))) ended++;
    return ended;
  }

  async validAfter(sub: string): Promise<number> {
    return this.#validAfter.get(sub) ?? 0;
  }

  async listLogins(sub: string, now: number): Promise<readonly LoginRow[]> {
    return [...this.#logins.values()]
      .filter((row) => row.sub === sub && isLive(row, now))
      .sort((left, right) => right.lastUsedAt - left.lastUsedAt);
  }

  async cleanUp(now: number, batch: number): Promise<number> {
    const logins = [...this.#logins.values()].filter((row) => row.absoluteExpiresAt <= now).slice(0, batch);
    for (const row of logins) this.#logins.delete(row.id);
    return logins.length;
  }
}

/** Returns whether the tokens of a login by a one-time code were not issued yet. */
export function isPending({ generation, deliveredAt }: LoginRow): boolean {
  return generation === 0 && deliveredAt === null;
}

export function isLive(row: LoginRow, now: number): boolean {
  return row.revokedAt === null && row.idleExpiresAt > now && row.absoluteExpiresAt > now;
}
