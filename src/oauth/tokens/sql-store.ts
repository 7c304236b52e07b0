/**
 * Stores logins in a database ({@link TokenStore}), by single statements without transactions. If several
 * callers compete, the number of affected rows shows which one succeeded.
 *
 * A statement that fails with a retryable error is tried up to four times, with random pauses. If the
 * database does not respond, the error is `temporarily_unavailable`. It is not `invalid_grant`, after which
 * clients log their users out.
 */
import { randomInt } from 'node:crypto';
import { pass, presentClock, systemClock } from '../../base/clock.ts';
import { DatabaseError } from '../../db/errors.ts';
import { askStore } from '../single-use.ts';
import type { Clock } from '../../base/clock.ts';
import type { Database } from '../../db/database.ts';
import type { Dialect, Row } from '../../db/driver.ts';
import type { Parameter } from '../../db/values.ts';
import type { LoginRow, ProviderIdentity, ReadLogin, RevokeReason, Rotation, TokenStore } from './store.ts';

const ATTEMPTS = 4;
/** Maximum length of the first pause in milliseconds. The maximum doubles with each attempt. */
const PAUSE_MS = 20;

/** Columns of the table svc_oauth_login, by the members of {@link LoginRow}. */
const COLUMNS = {
  id: 'id',
  sub: 'sub',
  provider: 'provider',
  subject: 'subject',
  generation: 'gen',
  currentHash: 'cur_hash',
  previousHash: 'prev_hash',
  scopes: 'scopes',
  claims: 'claims',
  authenticatedAt: 'auth_time',
  createdAt: 'created_at',
  lastUsedAt: 'last_used_at',
  rotatedAt: 'rotated_at',
  deliveredAt: 'delivered_at',
  idleExpiresAt: 'idle_expires_at',
  absoluteExpiresAt: 'abs_expires_at',
  revokedAt: 'revoked_at',
  revokeReason: 'revoke_reason',
  userAgent: 'user_agent',
  ip: 'ip',
  keyThumbprint: 'cnf_jkt',
  providerSid: 'provider_sid',
} as const satisfies Record<keyof LoginRow, string>;
const LOGIN_COLUMNS = Object.values(COLUMNS).join(', ');
const INSERT = `INSERT INTO svc_oauth_login (${LOGIN_COLUMNS}) VALUES (${Object.keys(COLUMNS).fill('?').join(', ')})`;

/** SQL condition for a login that is neither revoked nor expired. */
const LIVE = 'revoked_at IS NULL AND idle_expires_at > ? AND abs_expires_at > ?';
/** SQL condition for a login that is later than the last revocation of its user. */
const VALID =
  'created_at > COALESCE((SELECT s.valid_after FROM svc_oauth_subject s WHERE s.sub = svc_oauth_login.sub), 0)';
/** Maximum number of logins that one statement looks up. */
const MAX_IDS = 256;

/** A clock as an SQL expression, in microseconds since the epoch, and its precision in microseconds. */
interface SqlTime {
  readonly sql: string;
  readonly precision: number;
}

/**
 * Clocks of the database engines. All processes read the same one: SQLite reads the clock of the host, and a
 * SQLite file is not shared between hosts.
 */
const CLOCKS: Readonly<Record<Dialect, SqlTime>> = {
  // SQLite counts milliseconds
  sqlite: { sql: "CAST(round(unixepoch('subsec') * 1000) AS INTEGER) * 1000", precision: 1_000 },
  // not now(), which is the time at which the transaction began
  postgres: { sql: 'CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)', precision: 1 },
  mysql: utcOfMySql(),
  mariadb: utcOfMySql(),
};

/** UTC has no hour that occurs twice. Replicas get the time of the source, also with SQL statements. */
function utcOfMySql(): SqlTime {
  return { sql: "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))", precision: 1 };
}

// MySQL and MariaDB evaluate assignments from left to right, so prev_hash must be set before cur_hash changes
const rotateSql = (time: string): string => `UPDATE svc_oauth_login
   SET gen = gen + 1, prev_hash = cur_hash, cur_hash = ?, rotated_at = ${time}, delivered_at = NULL, last_used_at = ?,
       idle_expires_at = CASE WHEN abs_expires_at < ? THEN abs_expires_at ELSE ? END
 WHERE id = ? AND gen = ? AND cur_hash = ? AND ${LIVE} AND cnf_jkt IS NULL`;

/** Like rotateSql(), for a client that has proved a DPoP key. Also binds the login to that key. */
const rotateBoundSql = (time: string): string =>
  rotateSql(time)
    .replace('SET gen', 'SET cnf_jkt = ?, gen')
    .replace('AND cnf_jkt IS NULL', 'AND (cnf_jkt IS NULL OR cnf_jkt = ?)');

type LoginRecord = Omit<LoginRow, 'sub' | 'scopes' | 'claims'> & {
  /** MySQL and MariaDB return this column as bytes. */
  readonly sub: string | Uint8Array;
  readonly scopes: string;
  readonly claims: string;
};

export class SqlTokenStore implements TokenStore {
  readonly #database: () => Database;
  readonly #clock: Clock;

  /** `database` is a function, because the database opens only when the application starts. */
  constructor(database: () => Database, clock: Clock) {
    this.#database = database;
    this.#clock = clock;
  }

  async addLogin(row: LoginRow): Promise<void> {
    const record = { ...row, scopes: row.scopes.join(' '), claims: JSON.stringify(row.claims) };
    await this.#execute(
      INSERT,
      (Object.keys(COLUMNS) as (keyof LoginRow)[]).map((name) => record[name]),
    );
  }

  async findLogin(id: string): Promise<LoginRow | undefined> {
    return (await this.#select('id = ?', [id]))[0];
  }

  async liveLogins(ids: readonly string[], now: number): Promise<readonly LoginRow[]> {
    const rows: LoginRow[] = [];
    for (let at = 0; at < ids.length; at += MAX_IDS) {
      const some = ids.slice(at, at + MAX_IDS);
      // powers of two, so that there are few statements for the database to prepare
      while (Math.log2(some.length) % 1 !== 0) some.push(some[0]!);
      const marks = some.map(() => '?').join(', ');
      rows.push(...(await this.#select(`id IN (${marks}) AND ${LIVE} AND ${VALID}`, [...some, now, now])));
    }
    return rows;
  }

  async readLogin(id: string): Promise<ReadLogin | undefined> {
    const { sql, precision } = this.#time();
    const [row] = await this.#rows(`${LOGIN_COLUMNS}, ${sql} AS read_at`, 'id = ?', [id]);
    return row && { login: loginOf(row), readAt: row['read_at'] as number, precision };
  }

  async rotate(rotation: Rotation): Promise<boolean> {
    const { id, generation, currentHash, nextHash, keyThumbprint, now, idleExpiresAt } = rotation;
    const params = [nextHash, now, idleExpiresAt, idleExpiresAt, id, generation, currentHash, now, now];
    const { sql } = this.#time();
    return keyThumbprint === null
      ? this.#hits(rotateSql(sql), params)
      : this.#hits(rotateBoundSql(sql), [keyThumbprint, ...params, keyThumbprint]);
  }

  async noteOverlap(id: string, generation: number): Promise<void> {
    await this.#execute(
      `UPDATE svc_oauth_login SET last_used_at = ${this.#time().sql} WHERE id = ? AND gen = ? AND delivered_at IS NULL`,
      [id, generation],
    );
  }

  async markDelivered(id: string, generation: number, readyAt: number): Promise<void> {
    await this.#execute(
      'UPDATE svc_oauth_login SET delivered_at = ? WHERE id = ? AND gen = ? AND (delivered_at IS NULL OR delivered_at > ?)',
      [readyAt, id, generation, readyAt],
    );
  }

  async revoke(id: string, reason: RevokeReason, now: number): Promise<boolean> {
    return this.#hits(
      'UPDATE svc_oauth_login SET revoked_at = ?, revoke_reason = ? WHERE id = ? AND revoked_at IS NULL',
      [now, reason, id],
    );
  }

  async revokeOf(sub: string, id: string, now: number): Promise<boolean> {
    return this.#hits(
      "UPDATE svc_oauth_login SET revoked_at = ?, revoke_reason = 'user' WHERE id = ? AND sub = ? AND revoked_at IS NULL",
      [now, id, sub],
    );
  }

  /** Ends each login by its own statement, which shows whether this call ended it. */
  async revokeIdentity(
    { provider, subject, providerSid }: ProviderIdentity,
    now: number,
  ): Promise<LoginRow[]> {
    const wanted = Object.entries({ subject, provider_sid: providerSid }).filter(
      ([, value]) => value !== undefined,
    );
    if (wanted.length === 0) return [];
    const rows = await this.#select(
      ['provider = ?', ...wanted.map(([column]) => `${column} = ?`), LIVE].join(' AND '),
      [provider, ...wanted.map(([, value]) => value!), now, now],
    );
    const ended: LoginRow[] = [];
    for (const row of rows) if (await this.revoke(row.id, 'provider', now)) ended.push(row);
    return ended;
  }

  /**
   * Stores the time of the revocation before it ends the logins. A login that starts at the same moment
   * either is ended here, or reads this time and ends itself.
   */
  async revokeAll(sub: string, now: number): Promise<number> {
    if (!(await this.#addSubject(sub, now)))
      await this.#execute('UPDATE svc_oauth_subject SET valid_after = ? WHERE sub = ? AND valid_after < ?', [
        now,
        sub,
        now,
      ]);
    return this.#execute(
      "UPDATE svc_oauth_login SET revoked_at = ?, revoke_reason = 'all' WHERE sub = ? AND revoked_at IS NULL",
      [now, sub],
    );
  }

  async validAfter(sub: string): Promise<number> {
    return Number(
      (await this.#run((database) =>
        database.scalar(
          'SELECT valid_after FROM svc_oauth_subject WHERE sub = ?',
          [sub],
          database.storeLimit,
        ),
      )) ?? 0,
    );
  }

  async listLogins(sub: string, now: number): Promise<readonly LoginRow[]> {
    return this.#select(`sub = ? AND ${LIVE} ORDER BY last_used_at DESC`, [sub, now, now]);
  }

  cleanUp(now: number, batch: number): Promise<number> {
    const { dialect } = this.#database();
    // MySQL and MariaDB do not allow LIMIT inside IN; SQLite and PostgreSQL do not allow it after DELETE
    return this.#execute(
      dialect === 'sqlite' || dialect === 'postgres'
        ? 'DELETE FROM svc_oauth_login WHERE id IN (SELECT id FROM svc_oauth_login WHERE abs_expires_at <= ? LIMIT ?)'
        : 'DELETE FROM svc_oauth_login WHERE abs_expires_at <= ? LIMIT ?',
      [now, batch],
    );
  }

  /** Adds a user to the table svc_oauth_subject. Returns false if the table already contains the user. */
  async #addSubject(sub: string, now: number): Promise<boolean> {
    const { dialect } = this.#database();
    return this.#hits(
      dialect === 'sqlite' || dialect === 'postgres'
        ? 'INSERT INTO svc_oauth_subject (sub, valid_after) VALUES (?, ?) ON CONFLICT (sub) DO NOTHING'
        : 'INSERT IGNORE INTO svc_oauth_subject (sub, valid_after) VALUES (?, ?)',
      [sub, now],
    );
  }

  /** Returns the clock of the database. A clock that the application has injected replaces this clock too. */
  #time(): SqlTime {
    return presentClock(this.#clock) === systemClock
      ? CLOCKS[this.#database().dialect]
      : { sql: String(Math.round(this.#clock.nowMicros())), precision: 0 };
  }

  async #select(where: string, params: readonly Parameter[]): Promise<LoginRow[]> {
    return (await this.#rows(LOGIN_COLUMNS, where, params)).map(loginOf);
  }

  #rows(columns: string, where: string, params: readonly Parameter[]): Promise<Row[]> {
    return this.#run((database) =>
      database.fetchAll(`SELECT ${columns} FROM svc_oauth_login WHERE ${where}`, params, database.storeLimit),
    );
  }

  async #hits(sql: string, params: readonly Parameter[]): Promise<boolean> {
    return (await this.#execute(sql, params)) === 1;
  }

  async #execute(sql: string, params: readonly Parameter[]): Promise<number> {
    return (await this.#run((database) => database.execute(sql, params, database.storeLimit))).affectedRows;
  }

  #run<T>(ask: (database: Database) => Promise<T>): Promise<T> {
    return askStore(async () => {
      for (let attempt = 1; ; attempt++) {
        try {
          return await ask(this.#database());
        } catch (error) {
          const isWorthwhile = error instanceof DatabaseError && error.isRetryable && attempt < ATTEMPTS;
          if (!isWorthwhile) throw error;
          await pass(this.#clock, 1 + randomInt(PAUSE_MS * 2 ** (attempt - 1)));
        }
      }
    });
  }
}

function loginOf(found: Row): LoginRow {
  const row = Object.fromEntries(
    Object.entries(COLUMNS).map(([name, column]) => [name, found[column]]),
  ) as unknown as LoginRecord;
  return {
    ...row,
    sub: typeof row.sub === 'string' ? row.sub : Buffer.from(row.sub).toString(),
    scopes: row.scopes === '' ? [] : row.scopes.split(' '),
    claims: JSON.parse(row.claims) as Record<string, unknown>, // addLogin() wrote this JSON
  };
}

/*
 * The tables of the plugin for each database engine.
 *
 * No statement uses the table `svc_oauth_state` any more. It remains, because an applied migration must not
 * change.
 *
 * Times are in microseconds since the epoch. User ids (`sub`) are compared byte for byte: a revocation for
 * "Alice" must not end the logins of "alice".
 */

/** Statements that create the tables, for each database engine. */
export const OAUTH_TABLES: Readonly<Record<Dialect, readonly string[]>> = {
  sqlite: tablesOf('TEXT', 'INTEGER', ' STRICT, WITHOUT ROWID', ''),
  postgres: tablesOf('TEXT COLLATE "C"', 'BIGINT', '', ' WHERE revoked_at IS NULL'),
  mysql: tablesOfMySql(),
  mariadb: tablesOfMySql(),
};

/** Statements that add columns and indexes for back-channel logout, for each database engine. */
export const PROVIDER_SESSIONS: typeof OAUTH_TABLES = {
  sqlite: sessionsOf(''),
  postgres: sessionsOf(' WHERE revoked_at IS NULL'),
  mysql: sessionsOfMySql(),
  mariadb: sessionsOfMySql(),
};

/** `live` ends the indexes that need only the logins that are not revoked. */
function tablesOf(sub: string, int: string, end: string, live: string): readonly string[] {
  return [
    `CREATE TABLE svc_oauth_login (
  id TEXT NOT NULL PRIMARY KEY, sub ${sub} NOT NULL, provider TEXT NOT NULL, subject TEXT NOT NULL,
  gen ${int} NOT NULL, cur_hash TEXT NOT NULL, prev_hash TEXT, scopes TEXT NOT NULL, claims TEXT NOT NULL,
  auth_time ${int} NOT NULL, created_at ${int} NOT NULL, last_used_at ${int} NOT NULL, rotated_at ${int}, delivered_at ${int},
  idle_expires_at ${int} NOT NULL, abs_expires_at ${int} NOT NULL, revoked_at ${int}, revoke_reason TEXT,
  user_agent TEXT, ip TEXT, cnf_jkt TEXT
)${end}`,
    `CREATE INDEX svc_oauth_login_sub ON svc_oauth_login (sub)${live}`,
    'CREATE INDEX svc_oauth_login_end ON svc_oauth_login (abs_expires_at)',
    `CREATE TABLE svc_oauth_state (
  state_hash TEXT NOT NULL PRIMARY KEY, browser_hash TEXT NOT NULL, provider TEXT NOT NULL, redirect_uri TEXT NOT NULL,
  return_to TEXT, nonce TEXT NOT NULL, created_at ${int} NOT NULL, expires_at ${int} NOT NULL
)${end}`,
    'CREATE INDEX svc_oauth_state_end ON svc_oauth_state (expires_at)',
    `CREATE TABLE svc_oauth_subject (sub ${sub} NOT NULL PRIMARY KEY, valid_after ${int} NOT NULL)${end}`,
  ];
}

function sessionsOf(live: string): readonly string[] {
  return [
    'ALTER TABLE svc_oauth_login ADD COLUMN provider_sid TEXT',
    `CREATE INDEX svc_oauth_login_identity ON svc_oauth_login (provider, subject)${live}`,
    `CREATE INDEX svc_oauth_login_sid ON svc_oauth_login (provider_sid)${live}`,
  ];
}

/** Each index contains only the first characters of its texts, because MySQL 5.6 limits keys to 767 bytes. */
function sessionsOfMySql(): readonly string[] {
  return [
    `ALTER TABLE svc_oauth_login ADD COLUMN provider_sid VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  ADD INDEX svc_oauth_login_identity (provider(32), subject(150)), ADD INDEX svc_oauth_login_sid (provider_sid(150))`,
  ];
}

function tablesOfMySql(): readonly string[] {
  const ascii = 'CHARACTER SET ascii COLLATE ascii_bin';
  const exact = 'CHARACTER SET utf8mb4 COLLATE utf8mb4_bin';
  // Bytes, because text collations ignore spaces at the end. 767 is the maximum length of a key in MySQL 5.6.
  const subject = 'VARBINARY(767)';
  return [
    `CREATE TABLE svc_oauth_login (
  id VARCHAR(32) ${ascii} NOT NULL PRIMARY KEY, sub ${subject} NOT NULL, provider VARCHAR(64) ${exact} NOT NULL, subject VARCHAR(255) ${exact} NOT NULL,
  gen BIGINT NOT NULL, cur_hash CHAR(64) ${ascii} NOT NULL, prev_hash CHAR(64) ${ascii}, scopes TEXT ${exact} NOT NULL, claims TEXT ${exact} NOT NULL,
  auth_time BIGINT NOT NULL, created_at BIGINT NOT NULL, last_used_at BIGINT NOT NULL, rotated_at BIGINT, delivered_at BIGINT,
  idle_expires_at BIGINT NOT NULL, abs_expires_at BIGINT NOT NULL, revoked_at BIGINT, revoke_reason VARCHAR(16) ${ascii},
  user_agent VARCHAR(255) ${exact}, ip VARCHAR(45) ${ascii}, cnf_jkt CHAR(43) ${ascii},
  INDEX svc_oauth_login_sub (sub, revoked_at), INDEX svc_oauth_login_end (abs_expires_at)
) ENGINE=InnoDB`,
    `CREATE TABLE svc_oauth_state (
  state_hash CHAR(64) ${ascii} NOT NULL PRIMARY KEY, browser_hash CHAR(64) ${ascii} NOT NULL, provider VARCHAR(64) ${exact} NOT NULL, redirect_uri TEXT ${exact} NOT NULL,
  return_to TEXT ${exact}, nonce VARCHAR(64) ${ascii} NOT NULL, created_at BIGINT NOT NULL, expires_at BIGINT NOT NULL,
  INDEX svc_oauth_state_end (expires_at)
) ENGINE=InnoDB`,
    `CREATE TABLE svc_oauth_subject (sub ${subject} NOT NULL PRIMARY KEY, valid_after BIGINT NOT NULL) ENGINE=InnoDB`,
  ];
}
