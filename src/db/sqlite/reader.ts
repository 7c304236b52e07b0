/**
 * A connection to a SQLite file that reads in a separate process. JavaScript cannot interrupt SQLite, so the
 * process is killed when a limit is reached. A worker thread would not help: Worker.terminate() waits until
 * the running statement ends.
 */
import { fork, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { programBeside } from '../../base/package-root.ts';
import * as errors from '../errors.ts';
import { watchLimit } from '../limits.ts';
import { checkedStatement } from '../placeholders.ts';
import { encodeParams, rowOf } from './values.ts';
import { openFile } from './file.ts';
import { SqliteConnection } from './connection.ts';
import { FairLock } from './fair-lock.ts';
import type { DatabaseSync } from 'node:sqlite';
import type { Clock } from '../../base/clock.ts';
import type {
  BeginOptions,
  Connection,
  DriverLoad,
  ExecuteResult,
  Limit,
  Row,
  RowBatches,
  Table,
} from '../driver.ts';
import type { SqliteOptions } from './connection.ts';
import type { Params } from '../values.ts';
import type { DatabaseErrorDetails } from '../errors.ts';

/**
 * Returns the path of the program that a reader process runs. Returns undefined in a bundle, which does not
 * contain this program.
 */
export function readerProcess(): string | undefined {
  const program = programBeside(import.meta.url, 'reader-process');
  return program === undefined ? undefined : fileURLToPath(program);
}

interface Asked {
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** A {@link Connection} whose statements run in a reader process. */
class SqliteReader implements Connection {
  readonly #process: ChildProcess;
  readonly #clock: Clock;
  readonly #asked = new Map<number, Asked>();
  readonly #kill = (): void => {
    this.#process.kill('SIGKILL');
  };
  #lastId = 0;
  #broken: Error | undefined;
  #isInTransaction = false;

  private constructor(child: ChildProcess, clock: Clock) {
    this.#process = child;
    this.#clock = clock;
    this.#keepAlive(false);
    // kill the reader when this process exits, because a reader in the middle of a statement cannot notice
    // the exit
    process.on('exit', this.#kill);
    child.on('message', (reply: ReaderReply) => this.#onReply(reply));
    child.on('error', (error) =>
      this.#break(new errors.ConnectionLost('The SQLite reader process failed', { cause: error })),
    );
    child.on('exit', () => {
      process.off('exit', this.#kill);
      this.#break(new errors.ConnectionLost('The SQLite reader process ended unexpectedly'));
    });
  }

  /** Starts a reader process. Resolves when the process has opened the file. */
  static async start({
    path,
    busyTimeoutMs,
    statementCache,
    int8,
    clock,
  }: SqliteOptions): Promise<SqliteReader> {
    const child = fork(readerProcess()!, {
      serialization: 'advanced',
      execArgv: [],
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    });
    if (child.pid === undefined) {
      // fork() failed, for example because no file descriptors are free: the event "error" follows
      const [cause] = await once(child, 'error');
      throw new errors.ConnectionLost('The SQLite reader process cannot be started', { cause });
    }
    const reader = new SqliteReader(child, clock);
    try {
      const options: ReaderOptions = { path, busyTimeoutMs, statementCache, int8 };
      await reader.#ask('open', undefined, options);
      return reader;
    } catch (error) {
      await reader.close();
      throw error;
    }
  }

  get connection(): this {
    return this;
  }
  get isBroken(): boolean {
    return this.#broken !== undefined;
  }
  get isInTransaction(): boolean {
    return this.#isInTransaction;
  }

  execute(sql: string, params: Params, limit: Limit | undefined): Promise<ExecuteResult> {
    return this.#statement('execute', sql, params, limit);
  }

  fetchOne(sql: string, params: Params, limit: Limit | undefined): Promise<Row | undefined> {
    return this.#statement('fetchOne', sql, params, limit);
  }

  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Promise<Table> {
    return this.#statement('fetchArrays', sql, params, limit);
  }

  scalar(sql: string, params: Params, limit: Limit | undefined): Promise<unknown> {
    return this.#statement('scalar', sql, params, limit);
  }

  /** Fetches rows as arrays, which pass between processes faster than objects, and converts them here. */
  async fetchAll(sql: string, params: Params, limit: Limit | undefined): Promise<Row[]> {
    const { columns, rows } = await this.fetchArrays(sql, params, limit);
    const names = columns.map(({ name }) => name);
    // 'auto', because the reader process has already converted the integers
    return rows.map((values) => rowOf(names, values, 'auto'));
  }

  async executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    let affectedRows = 0;
    for (const row of rows) affectedRows += (await this.execute(sql, row, limit)).affectedRows;
    return affectedRows;
  }

  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    const stream = await this.#statement<number>('stream', sql, params, limit);
    try {
      for (;;) {
        const rows = await this.#ask<Row[] | undefined>('next', limit, sql, stream);
        if (rows === undefined) return;
        yield rows;
      }
    } finally {
      if (!this.isBroken) await this.#ask('end', undefined, sql, stream);
    }
  }

  script(sql: string, limit: Limit | undefined): Promise<void> {
    return this.#ask('script', limit, sql);
  }

  async begin(options: BeginOptions, limit: Limit | undefined): Promise<void> {
    await this.#ask('begin', limit, options);
    this.#isInTransaction = true;
  }

  async commit(): Promise<void> {
    await this.#ask('commit', undefined);
    this.#isInTransaction = false;
  }

  async rollback(): Promise<void> {
    if (!this.isBroken) await this.#ask('rollback', undefined);
    this.#isInTransaction = false;
  }

  savepoint(name: string): Promise<void> {
    return this.#ask('savepoint', undefined, name);
  }

  releaseSavepoint(name: string): Promise<void> {
    return this.#ask('releaseSavepoint', undefined, name);
  }

  async rollbackTo(name: string): Promise<void> {
    if (!this.isBroken) await this.#ask('rollbackTo', undefined, name);
  }

  async close(): Promise<void> {
    // do not use once(): it would reject on an "error" event, which an ended process may emit
    const ended =
      this.#process.exitCode === null && this.#process.signalCode === null
        ? new Promise((resolve) => this.#process.once('exit', resolve))
        : undefined;
    if (!this.isBroken)
      await this.#ask('close', undefined).catch(() => {
        /* ignore the error: the process exits when it is disconnected below */
      });
    this.#broken ??= new errors.ConnectionLost('The SQLite reader process is closed');
    this.#process.ref();
    if (this.#process.connected) this.#process.disconnect();
    await ended;
  }

  #keepAlive(isWanted: boolean): void {
    if (isWanted) this.#process.channel?.ref();
    else {
      this.#process.unref();
      this.#process.channel?.unref();
    }
  }

  async #statement<T>(verb: string, sql: string, params: Params, limit: Limit | undefined): Promise<T> {
    const inputs = encodeParams(params, checkedStatement(sql, 'sqlite'));
    return this.#ask<T>(verb, limit, sql, inputs);
  }

  /** Sends a request to the process. If the first of `args` is text, errors contain it as the SQL text. */
  async #ask<T>(verb: string, limit: Limit | undefined, ...args: readonly unknown[]): Promise<T> {
    if (this.#broken !== undefined) throw this.#broken;
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#asked.set(id, { resolve, reject });
    this.#keepAlive(true);
    const sql = typeof args[0] === 'string' ? args[0] : undefined;
    const watched = watchLimit(limit, this.#clock, (error) => this.#break(error), sql);
    if (this.#broken === undefined) this.#process.send({ id, verb, args } satisfies ReaderRequest);
    try {
      return await promise;
    } catch (error) {
      throw error instanceof errors.DatabaseError
        ? error
        : new errors.DatabaseError('The SQLite reader process failed', { cause: error, sql });
    } finally {
      watched?.[Symbol.dispose]();
    }
  }

  #onReply(reply: ReaderReply): void {
    const asked = this.#asked.get(reply.id);
    if (asked === undefined) return;
    this.#asked.delete(reply.id);
    // only an open request keeps this program running
    if (this.#asked.size === 0) this.#keepAlive(false);
    if (reply.error === undefined) asked.resolve(reply.value as never);
    else asked.reject(revive(reply.error));
  }

  /** Kills the process, and rejects all its requests. Further calls have no effect. */
  #break(error: Error): void {
    if (this.#broken !== undefined) return;
    this.#broken =
      error instanceof errors.ConnectionLost
        ? error
        : new errors.ConnectionLost(
            'The SQLite reader process was ended, because an earlier statement exceeded its time limit or was canceled',
            { cause: error },
          );
    for (const asked of this.#asked.values()) asked.reject(error);
    this.#asked.clear();
    this.#kill();
  }
}

function revive({ name, message, details }: NonNullable<ReaderReply['error']>): Error {
  const Class =
    (errors as unknown as Record<string, typeof errors.DatabaseError | undefined>)[name] ??
    errors.DatabaseError;
  return new Class(message, details);
}

const MAX_IN_PROCESS = 8;

interface Reading {
  readonly connection: SqliteConnection | SqliteReader;
  readonly isBroken: boolean;
  close(): Promise<void> | void;
}

/**
 * Lends connections that only read: for long reads, read-only transactions and streams. By default, the
 * connections are in this process. With the option `readers`, they are in other processes, where a read does
 * not block the event loop and can be canceled.
 *
 * Connections are opened on demand. If several connections are idle, the one that was returned last is lent.
 */
export class SqliteReads {
  readonly #options: SqliteOptions;
  readonly #lock: FairLock;
  readonly #idle: Reading[] = [];
  readonly #inUse = new Map<Connection, Reading>();

  constructor(options: SqliteOptions) {
    const { clock, acquireTimeoutMs, maxWaiting, readers } = options;
    this.#options = options;
    this.#lock = new FairLock({
      what: 'a reading connection',
      permits: readers === 0 ? MAX_IN_PROCESS : readers,
      maxWaiting,
      acquireTimeoutMs,
      clock,
    });
  }

  get load(): DriverLoad {
    return { inUse: this.#lock.inUse, idle: this.#idle.length, waiting: this.#lock.waiting };
  }

  async acquire(limit: Limit | undefined): Promise<Connection> {
    await this.#lock.take(limit);
    try {
      const reading = this.#idle.pop() ?? (await this.#open());
      this.#inUse.set(reading.connection, reading);
      return reading.connection;
    } catch (error) {
      this.#lock.give();
      throw error;
    }
  }

  release(connection: Connection): void {
    const reading = this.#inUse.get(connection);
    if (reading === undefined) return;
    this.#inUse.delete(connection);
    if (reading.isBroken || connection.isInTransaction) void reading.close();
    else this.#idle.push(reading);
    this.#lock.give();
  }

  /** Refuses further calls of acquire() with `error()`. Resolves when all connections are returned. */
  drain(error: () => unknown): Promise<void> {
    return this.#lock.close(error);
  }

  /** Closes all connections, including those in use. */
  async close(): Promise<void> {
    for (const reading of [...this.#idle.splice(0), ...this.#inUse.values()]) await reading.close();
    this.#inUse.clear();
  }

  async #open(): Promise<Reading> {
    if (this.#options.readers > 0) return SqliteReader.start(this.#options);
    const db: DatabaseSync = await openFile({ path: this.#options.path, isReadOnly: true });
    db.exec('pragma trusted_schema = off');
    const connection = new SqliteConnection(db, this.#options);
    return {
      connection,
      isBroken: false,
      close: () => {
        connection.end();
        db.close();
      },
    };
  }
}

export type ReaderOptions = Pick<SqliteOptions, 'path' | 'busyTimeoutMs' | 'statementCache' | 'int8'>;

/**
 * A request to a reader process, which replies to its requests in order. All values must be accepted by
 * structuredClone().
 */
export interface ReaderRequest {
  readonly id: number;
  /** Name of a method of {@link SqliteConnection}, or of a handler in reader-process.ts. */
  readonly verb: string;
  readonly args: readonly unknown[];
}

export interface ReaderReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?:
    { readonly name: string; readonly message: string; readonly details: DatabaseErrorDetails } | undefined;
}
