/**
 * A SQLite connection in the calling thread. A statement runs synchronously and blocks the event loop. Only
 * the wait for a lock of another process is asynchronous.
 */
import { randomInt } from 'node:crypto';
import { SharedTurns, nextTurn } from '../../base/promises.ts';
import { LockTimeout, TransactionAborted } from '../errors.ts';
import { beginTexts } from '../dialects.ts';
import { checkLimit, sleepWithin } from '../limits.ts';
import { endRows } from '../parameters.ts';
import { isBusy, isSqliteError, sqliteError, type SqliteError } from './errors.ts';
import { BATCH_ROWS, SqliteStatements, type SqliteStatement } from './statement.ts';
import { scriptStatements } from '../script.ts';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Awaitable } from '../../cache/stores.ts';
import type {
  BeginOptions,
  Connection,
  ExecuteResult,
  Int8,
  Limit,
  PreparedStatement,
  Row,
  RowBatches,
  Table,
} from '../driver.ts';
import { timingOf, type StatementTiming, type TimingOptions } from '../slow-statements.ts';
import type { SqliteInput } from './values.ts';
import type { OwnTypes } from '../own-types.ts';
import type { Params } from '../values.ts';

/**
 * Milliseconds between attempts while another process holds the lock, as in SQLite's own busy handler. The
 * last pause repeats. Each pause is shortened by up to half at random, so that waiting processes do not retry
 * together.
 */
const BUSY_PAUSES_MS: readonly number[] = [1, 2, 5, 10, 15, 20, 25];
/**
 * Number of rows that executeMany() writes between two turns of the event loop. Writing them takes about 2
 * ms.
 */
const MANY_ROWS = 4 * BATCH_ROWS;

type Verb<T> = (statement: SqliteStatement, inputs: readonly SqliteInput[]) => T;

const EXECUTE: Verb<ExecuteResult> = (statement, inputs) => statement.execute(inputs);
const FETCH_ONE: Verb<Row | undefined> = (statement, inputs) => statement.fetchOne(inputs);
const FETCH_ALL: Verb<Row[]> = (statement, inputs) => statement.fetchAll(inputs);
const FETCH_ARRAYS: Verb<Table> = (statement, inputs) => statement.fetchArrays(inputs);
const SCALAR: Verb<unknown> = (statement, inputs) => statement.scalar(inputs);

export class SqliteConnection implements Connection {
  readonly #db: DatabaseSync;
  readonly #options: SqliteConnectionOptions;
  readonly #timing: StatementTiming | undefined;
  readonly #statements: SqliteStatements;
  readonly #controls = new Map<string, StatementSync>();
  /**
   * Open streams. They end with the transaction, because an open stream would keep the transaction's
   * snapshot.
   */
  readonly #streams = new Set<{ end(): void }>();
  #hasBegun = false;
  /**
   * Whether a statement of this transaction has failed. Only then may SQLite have rolled the transaction back
   * itself.
   */
  #hasFailed = false;
  /** Whether `pragma query_only` is on, for a read-only transaction. */
  #refusesWrites = false;
  #mayHaveChanged = false;
  /** Pending while a statement waits for a lock. Later statements wait for this promise. */
  #waiting: Promise<unknown> | undefined;

  constructor(db: DatabaseSync, options: SqliteConnectionOptions) {
    this.#db = db;
    this.#options = options;
    this.#timing = timingOf(options);
    this.#statements = new SqliteStatements(db, options.statementCache, options.int8, options.types);
  }

  get isInTransaction(): boolean {
    return this.#db.isTransaction;
  }

  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult> {
    return this.#run(sql, params, limit, EXECUTE);
  }

  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined> {
    return this.#run(sql, params, limit, FETCH_ONE);
  }

  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]> {
    return this.#run(sql, params, limit, FETCH_ALL);
  }

  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table> {
    return this.#run(sql, params, limit, FETCH_ARRAYS);
  }

  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown> {
    return this.#run(sql, params, limit, SCALAR);
  }

  describe(sql: string): PreparedStatement | undefined {
    return this.#try(sql, () => this.#statements.describe(sql));
  }

  async executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    const statement = this.#prepared(sql);
    const source = rows[Symbol.iterator]();
    let next: IteratorResult<Params, unknown> = source.next();
    let affectedRows = 0;
    let count = 0;
    const turns = new SharedTurns(this.#options.clock);
    try {
      while (next.done !== true) {
        const until = count + MANY_ROWS;
        const done = this.#attempt(sql, limit, () => {
          // a retry after a lock error continues with the row that failed, because `next` still contains it
          // and writes it even if the wait for the lock took the whole turn
          while (next.done !== true) {
            affectedRows += statement.affect(statement.encode(next.value, count + 1));
            count++;
            next = source.next();
            if (count === until || turns.isSpent) break;
          }
        });
        if (done instanceof Promise) await done;
        if (count === until || turns.isSpent) await turns.next();
      }
    } finally {
      endRows(source);
    }
    return affectedRows;
  }

  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    // do not use a cached statement: another call could run it, which would end this stream
    const statement = this.#try(sql, () => this.#statements.prepare(sql));
    const inputs = statement.encode(params);
    let batches = statement.batches(inputs);
    const cursor = { end: () => batches.return() };
    this.#streams.add(cursor);
    try {
      let next = await this.#attempt(sql, limit, () => {
        // a retry after a lock error starts again at the first row, because no row was returned yet
        batches = statement.batches(inputs);
        return batches.next();
      });
      while (next.done !== true) {
        yield next.value;
        await nextTurn(); // give other events a turn, because a fast reader would block the event loop
        checkLimit(limit, this.#options.clock, sql);
        const startedMs = this.#timing?.begin() ?? 0;
        next = this.#try(sql, () => batches.next());
        this.#timing?.end(startedMs, sql);
      }
    } finally {
      this.#streams.delete(cursor);
      cursor.end();
    }
  }

  async script(sql: string, limit: Limit | undefined): Promise<void> {
    for (const text of scriptStatements(sql, 'sqlite'))
      await this.#attempt(text, limit, () => this.#db.exec(text));
    this.#onOther();
  }

  /**
   * Switches foreign keys on if the previous caller has switched them off, because all callers share the
   * connection. Returns whether they were off.
   */
  restoreForeignKeys(): boolean {
    if (!this.#mayHaveChanged) return false;
    this.#mayHaveChanged = false;
    return this.#try('pragma foreign_keys', () => {
      if (Object.values(this.#db.prepare('pragma foreign_keys').get() ?? {})[0] !== 0) return false;
      this.#db.exec('pragma foreign_keys = on');
      return true;
    });
  }

  /** Clears the statement cache after a statement that may have changed the schema or a setting. */
  #onOther(): void {
    this.#statements.clear();
    this.#mayHaveChanged = true;
  }

  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void> {
    const [text] = beginTexts('sqlite', options);
    return this.#attempt(text!, limit, () => {
      if (options.isReadOnly) this.#refuseWrites(true);
      try {
        this.#control(text!);
      } catch (error) {
        if (options.isReadOnly) this.#refuseWrites(false);
        throw error;
      }
      this.#hasBegun = true;
      this.#hasFailed = false;
    });
  }

  commit(): Awaitable<void> {
    this.#endStreams();
    return this.#attempt('commit', undefined, () => {
      this.#control('commit');
      this.#end();
    });
  }

  rollback(): void {
    this.#endStreams();
    try {
      if (this.#db.isTransaction) this.#try('rollback', () => this.#control('rollback'));
    } finally {
      this.#end();
    }
  }

  savepoint(name: string): Awaitable<void> {
    return this.#attempt('savepoint', undefined, () => this.#control(`savepoint ${name}`));
  }

  releaseSavepoint(name: string): Awaitable<void> {
    return this.#attempt('release', undefined, () => this.#control(`release ${name}`));
  }

  rollbackTo(name: string): Awaitable<void> {
    if (!this.#db.isTransaction) return; // SQLite has already rolled everything back
    return this.#attempt('rollback to', undefined, () => {
      this.#control(`rollback to ${name}`);
      this.#control(`release ${name}`);
    });
  }

  /** Ends open streams. Does not close the file. */
  end(): void {
    this.#endStreams();
  }

  #run<T>(sql: string, params: Params, limit: Limit | undefined, verb: Verb<T>): Awaitable<T> {
    const statement = this.#prepared(sql);
    const inputs = statement.encode(params);
    const result = this.#attempt(sql, limit, () => verb(statement, inputs));
    if (statement.scanned.kind === 'other') this.#onOther();
    return result;
  }

  #prepared(sql: string): SqliteStatement {
    try {
      return this.#statements.get(sql);
    } catch (error) {
      throw sqliteError(error, sql);
    }
  }

  /** Runs `work`, and retries it while another process holds the lock. */
  #attempt<T>(sql: string, limit: Limit | undefined, work: () => T): Awaitable<T> {
    if (this.#waiting !== undefined) return this.#waiting.then(() => this.#attempt(sql, limit, work));
    if (this.#hasFailed && this.#hasBegun && !this.#db.isTransaction)
      throw new TransactionAborted('SQLite has rolled the transaction back after an earlier error', { sql });
    checkLimit(limit, this.#options.clock, sql);
    const startedMs = this.#timing?.begin() ?? 0;
    try {
      return work();
    } catch (error) {
      this.#hasFailed = true;
      if (isSqliteError(error) && isBusy(error)) return this.#waitFor(error, sql, limit, work);
      throw sqliteError(error, sql);
    } finally {
      this.#timing?.end(startedMs, sql);
    }
  }

  async #waitFor<T>(failure: SqliteError, sql: string, limit: Limit | undefined, work: () => T): Promise<T> {
    const gone = Promise.withResolvers<void>();
    this.#waiting = gone.promise;
    try {
      return await this.#again(failure, sql, limit, work);
    } finally {
      this.#waiting = undefined;
      gone.resolve();
    }
  }

  async #again<T>(failure: SqliteError, sql: string, limit: Limit | undefined, work: () => T): Promise<T> {
    const { clock, busyTimeoutMs } = this.#options;
    const deadlineMs = clock.monotonicMs() + busyTimeoutMs;
    for (let attempt = 0; ; attempt++) {
      const leftMs = deadlineMs - clock.monotonicMs();
      if (leftMs <= 0) {
        throw new LockTimeout(`The database was locked by another connection for ${busyTimeoutMs} ms`, {
          errno: failure.errcode,
          sql,
        });
      }
      const pauseMs = BUSY_PAUSES_MS[Math.min(attempt, BUSY_PAUSES_MS.length - 1)]!;
      await sleepWithin(Math.min(leftMs, pauseMs - (randomInt(0, 500) / 1_000) * pauseMs), limit, clock, sql);
      try {
        return work();
      } catch (error) {
        this.#hasFailed = true;
        if (!isSqliteError(error) || !isBusy(error)) throw sqliteError(error, sql);
      }
    }
  }

  #try<T>(sql: string, work: () => T): T {
    try {
      return work();
    } catch (error) {
      this.#hasFailed = true;
      throw sqliteError(error, sql);
    }
  }

  #control(text: string): void {
    let statement = this.#controls.get(text);
    if (statement === undefined) this.#controls.set(text, (statement = this.#db.prepare(text)));
    // do not use run(): it reads the key of the last insert, and Node 26 throws when the key does not fit in
    // a number; nor get(): Node 24 ignores errors that arrive after the first row
    statement.all();
  }

  #end(): void {
    this.#hasBegun = this.#hasFailed = false;
    if (this.#refusesWrites) this.#refuseWrites(false);
  }

  #refuseWrites(isOn: boolean): void {
    this.#control(`pragma query_only = ${isOn ? 1 : 0}`);
    this.#refusesWrites = isOn;
  }

  #endStreams(): void {
    if (this.#streams.size === 0) return;
    for (const stream of this.#streams) stream.end();
    this.#streams.clear();
  }
}

/** `path` of a database in memory. */
export const MEMORY = ':memory:';

interface SqliteConnectionOptions extends TimingOptions {
  readonly busyTimeoutMs: number;
  readonly statementCache: number;
  readonly int8: Int8;
  readonly types?: OwnTypes | undefined;
}

/** Options of a SQLite database, validated by `openDatabase`. */
export interface SqliteOptions extends SqliteConnectionOptions {
  /** File path, or {@link MEMORY}. */
  readonly path: string;
  readonly isReadOnly: boolean;
  readonly synchronous: 'full' | 'normal';
  /** Number of processes that run long reads. */
  readonly readers: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
}
