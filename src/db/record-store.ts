/**
 * A RecordStore in a database: records of all the processes that use it, decided by single statements.
 *
 *   set       insert ... on conflict update                    add       the same, where the one that is there has expired
 *   replace   update ... where value = expected                delete    delete ... where it is live
 *
 * MySQL and MariaDB have no such insert, so there it is two statements: whoever inserts has won, else whoever updates what has expired.
 *
 * Times are those of the clock that is handed in, not of the database: one on each machine, so they must agree to within what
 * a record's life may be off by. Expired records leave with later writes, some at a time.
 */
import { randomInt } from 'node:crypto';
import { systemClock, type Clock } from '../base/clock.ts';
import { StoreFull } from '../base/errors.ts';
import { given, int, readOptions, text } from '../base/options.ts';
import { DatabaseError, UniqueViolation } from './errors.ts';
import { quotedName } from './dialects.ts';
import type { RecordStore } from '../cache/stores.ts';
import type { Database } from './database.ts';
import type { Dialect } from './driver.ts';
import type { Parameter, Params } from './values.ts';

/** What a {@link DatabaseRecordStore} is made from, beside its database. */
export interface DatabaseRecordStoreOptions {
  /** The table, made by {@link recordStoreMigration} or createTable(). Default `svc_records`. */
  readonly table?: string | undefined;
  /** Records kept at most, live or not yet swept, 1 ... 1_000_000_000. Default 1_000_000. Up to 16 processes hold it together. */
  readonly maxRecords?: number | undefined;
  readonly clock?: Clock | undefined;
}

const TABLE = 'svc_records';
/** One write in so many sweeps. */
const WRITES_PER_SWEEP = 16;
/** Records swept at once: a millisecond or so. */
const SWEPT_AT_ONCE = 256;
/** So many processes may insert beside each other, after each has counted, without passing the limit together. */
const PROCESSES = 16;
/** How often what met others is tried; pauses are up to twice as long each time. */
const ATTEMPTS = 5;
const PAUSE_MS = 5;
/** One for each table of each database; names have 64 characters at most. */
const LOCK_NAME = "concat('svc_records_', left(sha2(concat(database(), '.', ?), 256), 40))";

/** The table of a {@link DatabaseRecordStore}, for `host.migration()` or a migration of one's own. */
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

/** Records of every process that opens the same table. Full means StoreFull, never silent loss. */
export class DatabaseRecordStore implements RecordStore {
  readonly #db: Database;
  readonly #clock: Clock;
  readonly #table: string;
  readonly #maxRecords: number;
  readonly #isMySql: boolean;
  /** Inserts before the records are counted again. */
  #headroom = 0;
  #counting: Promise<void> | undefined;
  readonly #adding = new Set<Promise<unknown>>();
  #writes = 0;
  readonly #sql: Readonly<Record<Text, string>>;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_DB_IDENTIFIER` */
  constructor(db: Database, options: DatabaseRecordStoreOptions = {}) {
    const { table, maxRecords, clock } = readOptions('DatabaseRecordStore', options, {
      table: text(TABLE),
      maxRecords: int(1_000_000, 1, 1_000_000_000),
      clock: given<Clock>(),
    });
    this.#db = db;
    this.#clock = clock ?? systemClock;
    this.#table = table;
    this.#maxRecords = maxRecords;
    this.#isMySql = db.dialect === 'mysql' || db.dialect === 'mariadb';
    this.#sql = statements(quotedName(db.dialect, table), db.dialect);
  }

  /** Makes the table if it is not there: for programs that have no migrations. */
  async createTable(): Promise<void> {
    const [table, index] = recordStoreMigration(this.#table)[this.#db.dialect];
    await this.#db.execute(table!.replace('create table', 'create table if not exists'));
    if (index !== undefined)
      await this.#db.execute(index.replace('create index', 'create index if not exists'));
  }

  async get(key: string): Promise<string | undefined> {
    const found = await this.#db.scalar(this.#sql.get, [this.#stored(key), this.#now()]);
    return found instanceof Uint8Array
      ? Buffer.from(found.buffer, found.byteOffset, found.byteLength).toString()
      : (found as string | undefined); // the column is text, or bytes
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
    const deadlineMs = ttlMs > 0 ? nowMs + Math.ceil(ttlMs) : nowMs; // without time to live it has expired
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

  /** Whether it was written. With `overwrites` a live record of that key, which another process has just made, is. */
  async #insert(key: string, value: string, deadlineMs: number, overwrites: boolean): Promise<boolean> {
    const expiredMs = overwrites ? Number.MAX_SAFE_INTEGER : this.#now();
    if (this.#headroom <= 0) await (this.#counting ??= this.#count());
    if (this.#headroom > 0) {
      this.#headroom--;
      return (await this.#add([this.#stored(key), this.#stored(value), deadlineMs, expiredMs])) === 1;
    }
    await Promise.allSettled(this.#adding); // they are not counted before they are there
    const affectedRows = await this.#addBelow([
      this.#stored(key),
      this.#stored(value),
      deadlineMs,
      this.#maxRecords,
      this.#stored(key),
      expiredMs,
    ]);
    if (affectedRows === 0 && (await this.get(key)) === undefined) throw new StoreFull();
    return affectedRows === 1;
  }

  /** Where others write beside it each would count the same, so there they do it one after the other. */
  async #addBelow(params: Params): Promise<number> {
    if (this.#isMySql) return this.#addBelowInMySql(params);
    if (this.#db.dialect !== 'postgres')
      return (await this.#db.execute(this.#sql.addBelow, params)).affectedRows;
    return this.#db.transaction(
      async (tx) => {
        await tx.execute('select pg_advisory_xact_lock(hashtextextended(?, 0))', [
          `svc_records ${this.#table}`,
        ]);
        return (await tx.execute(this.#sql.addBelow, params)).affectedRows;
      },
      { isolation: 'read committed' },
    );
  }

  /** The lock is of the connection, and so are its statements. */
  async #addBelowInMySql([key, value, deadlineMs, most, , expiredMs]: Params): Promise<number> {
    const params = [key!, value!, deadlineMs!, expiredMs!]; // as #insert() puts them together
    return this.#db.run(
      'statement',
      async (connection, limit) => {
        await connection.scalar(`select get_lock(${LOCK_NAME}, 10)`, [this.#table], limit); // without it there may be a few too many
        try {
          const isThere = async (): Promise<boolean> =>
            (await connection.scalar(this.#sql.exists, [key!], limit)) !== undefined;
          if (
            !(await isThere()) &&
            Number(await connection.scalar(this.#sql.count, [], limit)) >= Number(most)
          )
            return 0;
          return await insertOrUpdate(
            this.#sql,
            params,
            async (sql, values) => (await connection.execute(sql, values, limit)).affectedRows,
            isThere,
          );
        } finally {
          await connection.scalar(`select release_lock(${LOCK_NAME})`, [this.#table], undefined);
        }
      },
      undefined,
    );
  }

  /** PostgreSQL's text has no NUL, and MySQL's ends with no space: there texts are kept as their bytes. What has no bytes is refused where it is bound. */
  #stored(text: string): Parameter {
    return this.#db.dialect !== 'sqlite' && text.isWellFormed() ? Buffer.from(text) : text;
  }

  /** The rows affected. What the engine asks to try again is tried again. */
  async #execute(sql: string, params: Params): Promise<number> {
    for (let attempt = 1; ; attempt++) {
      try {
        return (await this.#db.execute(sql, params)).affectedRows;
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

  async #add(params: Params): Promise<number> {
    const isThere = async (): Promise<boolean> =>
      (await this.#db.scalar(this.#sql.exists, [params[0]!])) !== undefined;
    const adding = this.#isMySql
      ? insertOrUpdate(this.#sql, params, (sql, values) => this.#execute(sql, values), isThere)
      : this.#execute(this.#sql.add, params);
    this.#adding.add(adding);
    try {
      return await adding;
    } finally {
      this.#adding.delete(adding);
    }
  }

  /**
   * Counting costs as much as there are records: the next count is due when a sixteenth of the room may be used up. One count is
   * enough for all who wait for it, and what is being written counts as if it were there.
   */
  async #count(): Promise<void> {
    try {
      while ((await this.#sweepSome()) === SWEPT_AT_ONCE); // full means full of live records
      const underWay = this.#adding.size;
      const count = Number(await this.#db.scalar(this.#sql.count)); // there is always a row
      this.#headroom = Math.floor((this.#maxRecords - count - underWay) / PROCESSES);
    } finally {
      this.#counting = undefined;
    }
  }

  async #sweep(): Promise<void> {
    if (++this.#writes % WRITES_PER_SWEEP === 0) await this.#sweepSome();
  }

  async #sweepSome(): Promise<number> {
    return this.#execute(this.#sql.sweep, [this.#now(), SWEPT_AT_ONCE]);
  }

  #now(): number {
    return Math.floor(this.#clock.nowMs());
  }
}

type Text =
  | 'get'
  | 'set'
  | 'add'
  | 'addBelow'
  | 'replace'
  | 'delete'
  | 'sweep'
  | 'count'
  | 'exists'
  | 'insert'
  | 'update';

/**
 * Whoever inserts has won; else whoever updates what has expired. Where that has been swept or deleted in between, there is room again
 * to insert. `params`: key, value, deadline, and when it has expired.
 */
async function insertOrUpdate(
  sql: Readonly<Record<Text, string>>,
  [key, value, deadlineMs, expiredMs]: Params,
  execute: (sql: string, params: Params) => Promise<number>,
  isThere: () => Promise<boolean>,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await execute(sql.insert, [key!, value!, deadlineMs!]);
    } catch (error) {
      if (!(error instanceof UniqueViolation)) throw error;
      const affectedRows = await execute(sql.update, [value!, deadlineMs!, key!, expiredMs!]);
      if (affectedRows > 0 || attempt === ATTEMPTS || (await isThere())) return affectedRows;
    }
  }
}

function statements(table: string, dialect: Dialect): Readonly<Record<Text, string>> {
  const overwrite = `on conflict (record_key) do update set record_value = excluded.record_value, deadline_ms = excluded.deadline_ms where ${table}.deadline_ms <= ?`;
  const insert = `insert into ${table} (record_key, record_value, deadline_ms) values (?, ?, ?)`;
  const unlessSwept = dialect === 'postgres' ? ' for update skip locked' : ''; // leaves out what somebody else is just sweeping
  return {
    get: `select record_value from ${table} where record_key = ? and deadline_ms > ?`,
    set: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ?`,
    add: `${insert} ${overwrite}`,
    addBelow: `insert into ${table} (record_key, record_value, deadline_ms) select ?, ?, ? where (select count(*) from ${table}) < ? or exists (select 1 from ${table} where record_key = ?) ${overwrite}`,
    replace: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ? and record_value = ? and deadline_ms > ?`,
    delete: `delete from ${table} where record_key = ? and deadline_ms > ?`,
    sweep:
      dialect === 'mysql' || dialect === 'mariadb'
        ? `delete from ${table} where deadline_ms <= ? limit ?`
        : `delete from ${table} where record_key in (select record_key from ${table} where deadline_ms <= ? limit ?${unlessSwept})`,
    count: `select count(*) from ${table}`,
    exists: `select 1 from ${table} where record_key = ?`,
    insert,
    update: `update ${table} set record_value = ?, deadline_ms = ? where record_key = ? and deadline_ms <= ?`,
  };
}
