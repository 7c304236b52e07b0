/**
 * The data of the plugin: logins, and from when on a subject's tokens count. A contract, and its implementation
 * in memory for development; sql-store.ts keeps it in a database.
 *
 * Each method decides atomically by itself: none needs a transaction around it. Times are microseconds since the epoch.
 */

/** Why a login has ended before its time. */
export type RevokeReason = 'reuse' | 'logout' | 'all' | 'user' | 'disabled' | 'provider';

/** One login: one row, however often its refresh token is rotated. */
export interface LoginRow {
  /** Random; a part of the refresh token, and what `listSessions` shows. */
  readonly id: string;
  /** The application's subject. */
  readonly sub: string;
  readonly provider: string;
  /** The provider's subject. */
  readonly subject: string;
  /** The provider's id of its session (claim `sid` of the id_token), for back-channel logout. */
  readonly providerSid: string | null;
  /** How often the refresh token has been rotated. */
  readonly generation: number;
  /** Hex SHA-256 of the current refresh secret, and of the one before it. */
  readonly currentHash: string;
  readonly previousHash: string | null;
  readonly scopes: readonly string[];
  /** Further claims of its access tokens. */
  readonly claims: Readonly<Record<string, unknown>>;
  readonly authenticatedAt: number;
  readonly createdAt: number;
  readonly lastUsedAt: number;
  readonly rotatedAt: number | null;
  /** When the response with the current refresh token was handed to the socket; null before that. */
  readonly deliveredAt: number | null;
  readonly idleExpiresAt: number;
  readonly absoluteExpiresAt: number;
  readonly revokedAt: number | null;
  readonly revokeReason: RevokeReason | null;
  readonly userAgent: string | null;
  readonly ip: string | null;
  /** The thumbprint of the key that its tokens are bound to (RFC 9449). */
  readonly keyThumbprint: string | null;
}

/** One rotation: what must be so, and what is so afterwards. */
export interface Rotation {
  readonly id: string;
  readonly generation: number;
  readonly currentHash: string;
  readonly nextHash: string;
  /** The key that was proved: the login is bound to it afterwards, and not to another before. Null: it is bound to none. */
  readonly keyThumbprint: string | null;
  readonly now: number;
  /** The idle end, unless the absolute end comes first. */
  readonly idleExpiresAt: number;
}

/** A user of a provider, a session there, or both. */
export interface ProviderIdentity {
  readonly provider: string;
  readonly subject?: string | undefined;
  readonly providerSid?: string | undefined;
}

/** What the plugin keeps. */
export interface TokenStore {
  addLogin(row: LoginRow): Promise<void>;
  findLogin(id: string): Promise<LoginRow | undefined>;
  /** Rotates a live login that is still as presented, and binds it to the key that was proved. Whether it did: of several that try, one gets `true`. */
  rotate(rotation: Rotation): Promise<boolean>;
  /** The response with the token of this generation has been handed to the socket at `now`. Of several marks the earliest stays. */
  markDelivered(id: string, generation: number, now: number): Promise<void>;
  /** Whether this call ended it. */
  revoke(id: string, reason: RevokeReason, now: number): Promise<boolean>;
  /** As `revoke`, if it is a login of that subject. */
  revokeOf(sub: string, id: string, now: number): Promise<boolean>;
  /** Ends the logins of an identity at a provider, of one session there if it is named. Returns those it has ended; none where neither user nor session is named. */
  revokeIdentity(identity: ProviderIdentity, now: number): Promise<readonly LoginRow[]>;
  /** Ends every login of a subject, and every login that is under way. Answers how many it has ended. */
  revokeAll(sub: string, now: number): Promise<number>;
  /** The moment before which nothing of this subject counts; 0 when there is none. */
  validAfter(sub: string): Promise<number>;
  /** The logins of a subject that are not over, the latest used first. */
  listLogins(sub: string, now: number): Promise<readonly LoginRow[]>;
  /** Removes logins that are over, at most so many. Returns how many. Revoked logins stay until their absolute end. */
  cleanUp(now: number, batch: number): Promise<number>;
}

/** A {@link TokenStore} of one process, forgotten with it: for development and tests. */
export class MemoryTokenStore implements TokenStore {
  readonly #logins = new Map<string, LoginRow>();
  readonly #validAfter = new Map<string, number>();

  async addLogin(row: LoginRow): Promise<void> {
    this.#logins.set(row.id, row);
  }

  async findLogin(id: string): Promise<LoginRow | undefined> {
    return this.#logins.get(id);
  }

  async rotate({
    id,
    generation,
    currentHash,
    nextHash,
    keyThumbprint,
    now,
    idleExpiresAt,
  }: Rotation): Promise<boolean> {
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
      rotatedAt: now,
      deliveredAt: null,
      lastUsedAt: now,
      idleExpiresAt: Math.min(row.absoluteExpiresAt, idleExpiresAt),
    });
    return true;
  }

  async markDelivered(id: string, generation: number, now: number): Promise<void> {
    const row = this.#logins.get(id);
    if (row?.generation === generation && (row.deliveredAt === null || row.deliveredAt > now))
      this.#logins.set(id, { ...row, deliveredAt: now });
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

/** Whether a login is neither revoked nor over. */
export function isLive(row: LoginRow, now: number): boolean {
  return row.revokedAt === null && row.idleExpiresAt > now && row.absoluteExpiresAt > now;
}
