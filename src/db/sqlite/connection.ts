/**
 * One connection to SQLite, in the thread that calls it. A statement runs at once and blocks the loop while it does; only
 * waiting for another process's lock is done beside it, by trying again.
 */
import { randomInt } from 'node:crypto';
import { LockTimeout, TransactionAborted } from '../errors.ts';
import { beginTexts } from '../dialects.ts';
import { limitReached, sleepWithin } from '../limits.ts';
import { isBusy, isSqliteError, sqliteError, type SqliteError } from './errors.ts';
import { BATCH_ROWS, SqliteStatements, type SqliteStatement } from './statement.ts';
import { scriptStatements } from '../script.ts';
import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Awaitable } from '../../cache/stores.ts';
import type { BeginOptions, Connection, ExecuteResult, Int8, Limit, Row, Table } from '../driver.ts';
import { timingOf, type StatementTiming, type TimingOptions } from '../slow-statements.ts';
import type { SqliteInput } from './values.ts';
import type { OwnTypes } from '../own-types.ts';
import type { Params } from '../values.ts';

/** SQLite's own pauses of its busy handler; the last one repeats. Each is shortened by up to half, so that waiters spread. */
const BUSY_PAUSES_MS: readonly number[] = [1, 2, 5, 10, 15, 20, 25];
/** Rows of executeMany() between two turns of the loop: some 2 ms. */
const MANY_ROWS = 4 * BATCH_ROWS;

/** What is done with a subject, and known before it: a function made for each statement is 2 % of ten inserts, by test/bench/candidate.mjs. */
type Step<T, Subject, Detail> = (subject: Subject, detail: Detail) => T;
/** What is done with a statement once its values are encoded. */
type Verb<T> = Step<T, SqliteStatement, readonly SqliteInput[]>;

const EXECUTE: Verb<ExecuteResult> = (statement, inputs) => statement.execute(inputs);
const FETCH_ONE: Verb<Row | undefined> = (statement, inputs) => statement.fetchOne(inputs);
const FETCH_ALL: Verb<Row[]> = (statement, inputs) => statement.fetchAll(inputs);
const FETCH_ARRAYS: Verb<Table> = (statement, inputs) => statement.fetchArrays(inputs);
const SCALAR: Verb<unknown> = (statement, inputs) => statement.scalar(inputs);
const CALL = <T>(work: () => T): T => work();

/** See {@link Connection}. */
export class SqliteConnection implements Connection {
  readonly #db: DatabaseSync;
  readonly #options: SqliteConnectionOptions;
  readonly #timing: StatementTiming | undefined;
  readonly #statements: SqliteStatements;
  readonly #controls = new Map<string, StatementSync>();
  /** Open cursors: they end with the transaction, else they would keep its snapshot. */
  readonly #streams = new Set<{ end(): void }>();
  #hasBegun = false;
  /** Something failed in this transaction: only with an error does SQLite roll one back by itself. */
  #hasFailed = false;
  /** By us, for a read-only transaction. */
  #refusesWrites = false;
  #mayHaveChanged = false;
  /** A statement that waits for a lock: those that come later wait for it. */
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

  async executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    const statement = this.#prepared(sql);
    const source = rows[Symbol.iterator]();
    let next: IteratorResult<Params, unknown> = source.next();
    let affectedRows = 0;
    let count = 0;
    try {
      while (next.done !== true) {
        const until = count + MANY_ROWS;
        const done = this.#attempt(sql, limit, () => {
          // tried again, it goes on with the row that failed
          for (; next.done !== true && count < until; next = source.next()) {
            affectedRows += statement.affect(statement.encode(next.value, count + 1));
            count++;
          }
        });
        if (done instanceof Promise) await done;
        if (count === until) await turn();
      }
    } finally {
      source.return?.();
    }
    return affectedRows;
  }

  async *stream(
    sql: string,
    params: Params,
    limit: Limit | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const statement = this.#try(sql, () => this.#statements.prepare(sql)); // one of its own: running a kept one again would end it
    const inputs = statement.encode(params);
    let batches = statement.batches(inputs);
    const cursor = { end: () => batches.return() };
    this.#streams.add(cursor);
    try {
      let next = await this.#attempt(sql, limit, () => {
        // may be tried again: from its start
        batches = statement.batches(inputs);
        return batches.next();
      });
      while (next.done !== true) {
        yield next.value;
        await turn(); // or a fast reader would keep everybody else from running
        const reached = limitReached(limit, this.#options.clock, sql);
        if (reached !== undefined) throw reached;
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

  /** Puts foreign keys on again that its owner has switched off: all callers share the connection. Returns whether they were off. */
  restoreForeignKeys(): boolean {
    if (!this.#mayHaveChanged) return false;
    this.#mayHaveChanged = false;
    return this.#try('pragma foreign_keys', () => {
      if (Object.values(this.#db.prepare('pragma foreign_keys').get() ?? {})[0] !== 0) return false;
      this.#db.exec('pragma foreign_keys = on');
      return true;
    });
  }

  /** A statement has run that changes the schema or a setting. */
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
    if (!this.#db.isTransaction) return; // SQLite has rolled all of it back
    return this.#attempt('rollback to', undefined, () => {
      this.#control(`rollback to ${name}`);
      this.#control(`release ${name}`);
    });
  }

  /** Ends what reads. The file is closed by whoever opened it. */
  end(): void {
    this.#endStreams();
  }

  #run<T>(sql: string, params: Params, limit: Limit | undefined, verb: Verb<T>): Awaitable<T> {
    const statement = this.#prepared(sql);
    const inputs = statement.encode(params);
    const result = this.#attemptOn(sql, limit, verb, statement, inputs);
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

  #attempt<T>(sql: string, limit: Limit | undefined, work: () => T): Awaitable<T> {
    return this.#attemptOn(sql, limit, CALL<T>, work, undefined);
  }

  /** Runs something once; for as long as another process holds the lock, again and again. */
  #attemptOn<T, Subject, Detail>(
    sql: string,
    limit: Limit | undefined,
    step: Step<T, Subject, Detail>,
    subject: Subject,
    detail: Detail,
  ): Awaitable<T> {
    if (this.#waiting !== undefined)
      return this.#waiting.then(() => this.#attemptOn(sql, limit, step, subject, detail));
    if (this.#hasFailed && this.#hasBegun && !this.#db.isTransaction)
      throw new TransactionAborted('SQLite has rolled the transaction back after an earlier error', {
        sqlstate: '25P02',
        sql,
      });
    if (limit !== undefined) {
      const reached = limitReached(limit, this.#options.clock, sql);
      if (reached !== undefined) throw reached;
    }
    const startedMs = this.#timing?.begin() ?? 0;
    try {
      return step(subject, detail);
    } catch (error) {
      this.#hasFailed = true;
      if (isSqliteError(error) && isBusy(error))
        return this.#waitFor(error, sql, limit, () => step(subject, detail));
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
          sqlstate: '55P03',
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

  /** Runs something that waits for no lock. */
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
    statement.get(); // run() would tell a key, which Node 26 refuses where it is no exact number
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

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Where the data is kept in memory. */
export const MEMORY = ':memory:';

/** What a connection needs beside the open file. */
interface SqliteConnectionOptions extends TimingOptions {
  readonly busyTimeoutMs: number;
  readonly statementCache: number;
  readonly int8: Int8;
  readonly types?: OwnTypes | undefined;
}

/** How a SQLite database is opened; all of it checked by `openDatabase`. */
export interface SqliteOptions extends SqliteConnectionOptions {
  /** A path, or {@link MEMORY}. */
  readonly path: string;
  readonly isReadOnly: boolean;
  readonly synchronous: 'full' | 'normal';
  /** Processes that read; 0 for none. */
  readonly readers: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
}
