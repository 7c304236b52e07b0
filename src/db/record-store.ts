/**
 * Stores records in a database table that several processes share. If two processes change one record at
 * once, conditions in the SQL statements decide which change succeeds.
 *
 * The method `set` runs an `update`, and an `insert` if the key does not exist. `add` runs an `insert ... on
 * conflict`, or two statements in MySQL, and overwrites only an expired record. `replace` runs an `update`
 * with the expected value as a condition.
 *
 * A record expires by the clock of each process, not by the clock of the database. So its lifetime may be
 * wrong by the difference between the clocks of two machines.
 */
import { randomInt } from 'node:crypto';
import { asBuffer } from '../base/bytes.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { StoreFull } from '../base/errors.ts';
import { given, int, readOptions, text } from '../base/options.ts';
import { DatabaseError, UniqueViolation } from './errors.ts';
import { isMySql, quotedName } from './dialects.ts';
import { Transaction } from './transaction.ts';
import { DatabasePlugin } from './plugin.ts';
import type { RecordStore } from '../cache/stores.ts';
import type { Database } from './database.ts';
import type { Dialect } from './driver.ts';
import type { Parameter, Params } from './values.ts';

/** Options of a {@link DatabaseRecordStore}. */
export interface DatabaseRecordStoreOptions {
  /** Name of the table. {@link recordStoreMigration} or createTable() creates it. Default `svc_records`. */
  readonly table?: string | undefined;
  /**
   * Maximum number of records, including expired ones that are not deleted yet, 1 ... 1_000_000_000. Default
   * 1_000_000. The limit is exact while at most 16 processes write.
   */
  readonly maxRecords?: number | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

const TABLE = 'svc_records';
/** Number of writes between two deletions of expired records. */
const WRITES_PER_SWEEP = 16;
/** Maximum number of expired records that a write deletes, which takes about a millisecond. */
const SWEPT_AT_ONCE = 256;
/**
 * Maximum number of expired records that a statement of a count deletes. PostgreSQL finds the records of each
 * statement by scanning the index entries of all deleted ones, so a few large statements are faster.
 */
const MOST_SWEPT_AT_ONCE = 4_096;
/**
 * A process may insert one 16th of the remaining capacity, and must then count the records again. So up to 16
 * processes together stay within the limit.
 */
const PROCESSES = 16;
/** Maximum number of attempts to run a statement that fails because of a conflict. */
const ATTEMPTS = 5;
const PAUSE_MS = 5;
/**
 * SQL expression for the name of a lock in MySQL, unique for each table of each database. It contains a hash,
 * because MySQL limits the name to 64 characters.
 */
const LOCK_NAME = "concat('svc_records_', left(sha2(concat(database(), '.', ?), 256), 40))";

/**
 * Returns the migration that creates the table of a {@link DatabaseRecordStore}, for a plugin that calls
 * `host.migration()`. A store with a DatabasePlugin adds it by itself.
 */
export function recordStoreMigration(table: string = TABLE): Readonly<Record<Dialect, readonly string[]>> {
  const of = (dialect: Dialect, types: readonly [key: string, value: string]): readonly string[] => {
    const [name, index] = [quotedName(dialect, table), quotedName(dialect, `${table}_deadline`)];
    return [
      `create table ${name} (record_key ${types[0]} not null primary key, record_value ${types[1]} not null, deadline_ms bigint not null)`,
      `create index ${index} on ${name} (deadline_ms)`,
    ];
  };
  const [name, index] = [quotedName('mysql', table), quotedName('mysql', `${table}_deadline`)];
  const mysql = [
    `create table ${name} (record_key varbinary(700) not null primary key, record_value longblob not null, deadline_ms bigint not null, index ${index} (deadline_ms)) engine = InnoDB`,
  ];
  return {
    sqlite: of('sqlite', ['text', 'text']),
    postgres: of('postgres', ['bytea', 'bytea']),
    mysql,
    mariadb: mysql,
  };
}

/**
 * Stores records in a database table that several processes share. When the table is full, an insert throws
 * StoreFull, and no live record is dropped.
 */
export class DatabaseRecordStore implements RecordStore {
  readonly #source: Database | { readonly database: Database };
  readonly #clock: Clock;
  readonly #table: string;
  readonly #maxRecords: number;
  /** Number of inserts that are allowed before the records must be counted again. */
  #headroom = 0;
  #counting: Promise<void> | undefined;
  readonly #adding = new Set<Promise<unknown>>();
  #writes = 0;
  /** Statements for the dialect of the database. A test client may replace it by one of another dialect. */
  readonly #statements = new Map<Dialect, Statements>();

  /**
   * Takes an open database, or the plugin of an application. A plugin gets the migration that creates the table.
   * Create such a store where the application is built, so that `svc migrate up` knows the migration.
   *
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value,
   *   `E_DB_IDENTIFIER` for an invalid table name
   */
  constructor(source: Database | { readonly database: Database }, options: DatabaseRecordStoreOptions = {}) {
    const { table, maxRecords, clock } = readOptions('DatabaseRecordStore', options, {
      table: text(TABLE),
      maxRecords: int(1_000_000, 1, 1_000_000_000),
      clock: given<Clock>(),
    });
    const migration = recordStoreMigration(table);
    if (source instanceof DatabasePlugin) source.addMigration(table, migration);
    this.#source = source;
    this.#clock = clock ?? systemClock;
    this.#table = table;
    this.#maxRecords = maxRecords;
  }

  get #db(): Database {
    return 'database' in this.#source ? this.#source.database : this.#source;
  }

  get #sql(): Statements {
    const { dialect } = this.#db;
    const known = this.#statements.get(dialect);
    if (known !== undefined) return known;
    const made = statements(quotedName(dialect, this.#table), dialect);
    this.#statements.set(dialect, made);
    return made;
  }

  /** Creates the table if it does not exist, for programs without migrations. */
  async createTable(): Promise<void> {
    const [table, index] = recordStoreMigration(this.#table)[this.#db.dialect];
    await this.#db.execute(table!.replace('create table', 'create table if not exists'));
    if (index !== undefined)
      await this.#db.execute(index.replace('create index', 'create index if not exists'));
  }

  async get(key: string): Promise<string | undefined> {
    const { storeLimit } = this.#db;
    const found = await this.#db.scalar(this.#sql.get, [this.#stored(key), this.#now()], storeLimit);
    return found instanceof Uint8Array ? asBuffer(found).toString() : (found as string | undefined);
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    if (!(ttlMs > 0))
      return void (await this.#execute(this.#sql.delete, [this.#stored(key), Number.MIN_SAFE_INTEGER]));
    const deadlineMs = this.#now() + Math.ceil(ttlMs);
    if ((await this.#execute(this.#sql.set, [this.#stored(value), deadlineMs, this.#stored(key)])) === 0)
      await this.#insert(key, value, deadlineMs, true);
    await this.#sweep();
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    if (!(ttlMs > 0)) return (await this.get(key)) === undefined;
    const isAdded = await this.#insert(key, value, this.#now() + Math.ceil(ttlMs), false);
    await this.#sweep();
    return isAdded;
  }

  async replace(key: string, expected: string, value: string, ttlMs: number): Promise<boolean> {
    const nowMs = this.#now();
    // a lifetime of 0 or less means that the record expires at once
    const deadlineMs = ttlMs > 0 ? nowMs + Math.ceil(ttlMs) : nowMs;
    return (
      (await this.#execute(this.#sql.replace, [
        this.#stored(value),
        deadlineMs,
        this.#stored(key),
        this.#stored(expected),
        nowMs,
      ])) === 1
    );
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#execute(this.#sql.delete, [this.#stored(key), this.#now()])) === 1;
  }

  /**
   * Inserts a record, and returns whether it was written. With `overwrites`, replaces a live record that
   * another process has just inserted with the same key.
   */
  async #insert(key: string, value: string, deadlineMs: number, overwrites: boolean): Promise<boolean> {
    const expiredMs = overwrites ? Number.MAX_SAFE_INTEGER : this.#now();
    const added: Added = [this.#stored(key), this.#stored(value), deadlineMs, expiredMs];
    if (this.#headroom <= 0) await (this.#counting ??= this.#count());
    if (this.#headroom > 0) {
      this.#headroom--;
      return (await this.#add(added)) === 1;
    }
    // wait for running inserts, because the count would miss them
    await Promise.allSettled(this.#adding);
    const affectedRows = await this.#addBelow(added);
    if (affectedRows === 0 && (await this.get(key)) === undefined) throw new StoreFull();
    return affectedRows === 1;
  }

  /**
   * Inserts a record if the table has fewer than `maxRecords` records. On a server, a lock makes concurrent
   * writers take turns, so that each writer counts the records of the others.
   */
  async #addBelow(added: Added): Promise<number> {
    if (isMySql(this.#db.dialect)) return this.#addBelowInMySql(added);
    const [key, value, deadlineMs, expiredMs] = added;
    const params = [key, value, deadlineMs, this.#maxRecords, key, expiredMs];
    if (this.#db.dialect !== 'postgres')
      return (await this.#db.execute(this.#sql.addBelow, params, this.#db.storeLimit)).affectedRows;
    return this.#db.transaction(
      async (tx) => {
        await tx.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
          `svc_records ${this.#table}`,
        ]);
        return (await tx.execute(this.#sql.addBelow, params)).affectedRows;
      },
      // in the transaction of a test, a savepoint has the level of the transaction
      { ...(this.#db instanceof Transaction ? {} : { isolation: 'read committed' }), ...this.#db.storeLimit },
    );
  }

  /**
   * Implements #addBelow() for MySQL. A lock of MySQL belongs to a connection, so all statements run on one
   * connection.
   */
  async #addBelowInMySql(added: Added): Promise<number> {
    return this.#db.run(
      'statement',
      async (connection, limit) => {
        // if the lock is not free within 2 seconds, insert anyway: the table may then exceed its limit by a
        // few records
        await connection.scalar(`select get_lock(${LOCK_NAME}, 2)`, [this.#table], limit);
        try {
          const isThere = async (): Promise<boolean> =>
            (await connection.scalar(this.#sql.exists, [added[0]], limit)) !== undefined;
          const count = async (): Promise<number> =>
            Number(await connection.scalar(this.#sql.count, [], limit));
          if (!(await isThere()) && (await count()) >= this.#maxRecords) return 0;
          const execute = async (sql: string, values: Params): Promise<number> =>
            (await connection.execute(sql, values, limit)).affectedRows;
          return await insertOrUpdate(this.#sql, added, execute, isThere);
        } finally {
          await connection.scalar(`select release_lock(${LOCK_NAME})`, [this.#table], undefined);
        }
      },
      this.#db.storeLimit,
    );
  }

  /**
   * Converts a text to the value to store. SQLite stores text. Servers store bytes, because text in
   * PostgreSQL cannot contain NUL, and MySQL ignores spaces at the end of text.
   */
  #stored(text: string): Parameter {
    return this.#db.dialect !== 'sqlite' && text.isWellFormed() ? Buffer.from(text) : text;
  }

  /**
   * Runs a statement, and returns the number of rows affected. On a server, repeats it after an error such as
   * a deadlock.
   */
  async #execute(sql: string, params: Params): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#db.execute(sql, params, this.#db.storeLimit)).affectedRows;
      } catch (error) {
        if (
          !(error instanceof DatabaseError && error.isRetryable) ||
          this.#db.dialect === 'sqlite' ||
          attempt === ATTEMPTS
        )
          throw error;
        await this.#clock.sleep(1 + randomInt(PAUSE_MS * 2 ** attempt));
      }
    }
  }

  async #add(added: Added): Promise<number> {
    const isThere = async (): Promise<boolean> =>
      (await this.#db.scalar(this.#sql.exists, [added[0]], this.#db.storeLimit)) !== undefined;
    const adding = isMySql(this.#db.dialect)
      ? insertOrUpdate(this.#sql, added, (sql, values) => this.#execute(sql, values), isThere)
      : this.#execute(this.#sql.add, added);
    this.#adding.add(adding);
    try {
      return await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  /** Counts the records, and allows inserts for one 16th of the remaining capacity. */
  async #count(): Promise<void> {
    try {
      // delete expired records first, so that only live ones count
      for (let most = SWEPT_AT_ONCE; (await this.#sweepSome(most)) === most;)
        most = Math.min(4 * most, MOST_SWEPT_AT_ONCE);
      const underWay = this.#adding.size;
      // without the limit of stores, because a large table takes longer
      const count = Number(await this.#db.scalar(this.#sql.count));
      this.#headroom = Math.floor((this.#maxRecords - count - underWay) / PROCESSES);
    } finally {
      this.#counting = undefined;
    }
  }

  async #sweep(): Promise<void> {
    if (++this.#writes % WRITES_PER_SWEEP === 0) await this.#sweepSome(SWEPT_AT_ONCE);
  }

  async #sweepSome(most: number): Promise<number> {
    return this.#execute(this.#sql.sweep, [this.#now(), most]);
  }

  #now(): number {
    return Math.floor(this.#clock.nowMs());
  }
}

type Statements = ReturnType<typeof statements>;
type Added = readonly [key: Parameter, value: Parameter, deadlineMs: number, expiredMs: number];

/**
 * Inserts a record, or overwrites an expired record with the same key, by two statements: MySQL and MariaDB
 * cannot do this in one. Tries again if another process deletes the expired record in between.
 */
async function insertOrUpdate(
  sql: Statements,
  [key, value, deadlineMs, expiredMs]: Added,
  execute: (sql: string, params: Params) => Promise<number>,
  isThere: () => Promise<boolean>,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await execute(sql.insert, [key, value, deadlineMs]);
    } catch (error) {
      if (!(error instanceof UniqueViolation)) throw error;
      const affectedRows = await execute(sql.update, [value, deadlineMs, key, expiredMs]);
      if (affectedRows > 0 || attempt === ATTEMPTS || (await isThere())) return affectedRows;
    }
  }
}

function statements(table: string, dialect: Dialect) {
  const overwrite = `on conflict (record_key) do update set record_value = excluded.record_value, deadline_ms = excluded.deadline_ms where ${table}.deadline_ms <= ?`;
  const insert = `insert into ${table} (record_key, record_value, deadline_ms) values (?, ?, ?)`;
  const unlessSwept = dialect === 'postgres' ? ' for update skip locked' : '';
  return {
    get: `select record_value from ${table} where record_key = ? and deadline_ms > ?`,
    set: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ?`,
    add: `${insert} ${overwrite}`,
    addBelow: `insert into ${table} (record_key, record_value, deadline_ms) select ?, ?, ? where (select count(*) from ${table}) < ? or exists (select 1 from ${table} where record_key = ?) ${overwrite}`,
    replace: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ? and record_value = ? and deadline_ms > ?`,
    delete: `delete from ${table} where record_key = ? and deadline_ms > ?`,
    sweep: isMySql(dialect)
      ? `delete from ${table} where deadline_ms <= ? limit ?`
      : `delete from ${table} where record_key in (select record_key from ${table} where deadline_ms <= ? limit ?${unlessSwept})`,
    count: `select count(*) from ${table}`,
    exists: `select 1 from ${table} where record_key = ?`,
    insert,
    update: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ? and deadline_ms <= ?`,
  };
}
