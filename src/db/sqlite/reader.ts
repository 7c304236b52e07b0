/**
 * A reading connection in a process of its own, seen from the process that asks. SQLite cannot be interrupted from JavaScript:
 * when a limit is reached the process is killed, and the connection with it. A thread would not do: Worker.terminate() waits
 * for as long as a statement runs, and so would the program's end.
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
  Int8,
  Limit,
  Row,
  Table,
} from '../driver.ts';
import type { SqliteOptions } from './connection.ts';
import type { Params } from '../values.ts';
import type { DatabaseErrorDetails } from '../errors.ts';
import type { SqliteInput } from './values.ts';

/** The program of reader processes; undefined in a bundle, which has no such file beside it. */
export function readerProcess(): string | undefined {
  const program = programBeside(import.meta.url, 'reader-process');
  return program === undefined ? undefined : fileURLToPath(program);
}

interface Asked {
  readonly resolve: (value: never) => void;
  readonly reject: (error: unknown) => void;
}

/** See {@link Connection}. */
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
    process.on('exit', this.#kill); // in the midst of a statement it would not see that nobody waits for it
    child.on('message', (reply: ReaderReply) => this.#onReply(reply));
    child.on('error', (error) =>
      this.#break(
        new errors.ConnectionLost('The reader process failed', { sqlstate: '08006', cause: error }),
      ),
    );
    child.on('exit', () => {
      process.off('exit', this.#kill);
      this.#break(new errors.ConnectionLost('The reader process ended', { sqlstate: '08006' }));
    });
  }

  /** Starts the process; resolves when it has opened the file. */
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
      // no descriptors are left, for example: it tells why in a moment, and never that it has ended
      const [cause] = await once(child, 'error');
      throw new errors.ConnectionLost('The reader process cannot be started', { sqlstate: '08006', cause });
    }
    const reader = new SqliteReader(child, clock);
    try {
      await reader.#ask('open', undefined, { data: { path, busyTimeoutMs, statementCache, int8 } });
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

  async execute(sql: string, params: Params, limit: Limit | undefined): Promise<ExecuteResult> {
    return this.#statement('execute', sql, params, limit);
  }

  async fetchOne(sql: string, params: Params, limit: Limit | undefined): Promise<Row | undefined> {
    return this.#statement('fetchOne', sql, params, limit);
  }

  async fetchArrays(sql: string, params: Params, limit: Limit | undefined): Promise<Table> {
    return this.#statement('fetchArrays', sql, params, limit);
  }

  async scalar(sql: string, params: Params, limit: Limit | undefined): Promise<unknown> {
    return this.#statement('scalar', sql, params, limit);
  }

  /** Lists cross in less time than objects. */
  async fetchAll(sql: string, params: Params, limit: Limit | undefined): Promise<Row[]> {
    const { columns, rows } = await this.fetchArrays(sql, params, limit);
    const names = columns.map(({ name }) => name);
    return rows.map((values) => rowOf(names, values, 'auto')); // its process has decoded them
  }

  async executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number> {
    let affectedRows = 0;
    for (const row of rows) affectedRows += (await this.execute(sql, row, limit)).affectedRows;
    return affectedRows;
  }

  async *stream(
    sql: string,
    params: Params,
    limit: Limit | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const inputs = encodeParams(params, checkedStatement(sql, 'sqlite').placeholders);
    const stream = await this.#ask<number>('stream', limit, { sql, inputs });
    try {
      for (;;) {
        const rows = await this.#ask<Row[] | undefined>('next', limit, { sql, stream });
        if (rows === undefined) return;
        yield rows;
      }
    } finally {
      if (!this.isBroken) await this.#ask('end', undefined, { stream });
    }
  }

  async script(sql: string, limit: Limit | undefined): Promise<void> {
    await this.#ask('script', limit, { sql });
  }

  async begin(options: BeginOptions, limit: Limit | undefined): Promise<void> {
    await this.#ask('begin', limit, { begin: options });
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

  async savepoint(name: string): Promise<void> {
    await this.#ask('savepoint', undefined, { sql: name });
  }

  async releaseSavepoint(name: string): Promise<void> {
    await this.#ask('releaseSavepoint', undefined, { sql: name });
  }

  async rollbackTo(name: string): Promise<void> {
    if (!this.isBroken) await this.#ask('rollbackTo', undefined, { sql: name });
  }

  /** Lets the process close the file, and ends it. */
  async close(): Promise<void> {
    const ended =
      this.#process.exitCode === null && this.#process.signalCode === null
        ? new Promise((resolve) => this.#process.once('exit', resolve))
        : undefined; // once() rejects where it is gone before we know
    if (!this.isBroken)
      await this.#ask('close', undefined).catch(() => {
        /* it ends anyway */
      });
    this.#broken ??= new errors.ConnectionLost('The reader process was ended', { sqlstate: '08006' });
    if (ended === undefined) return;
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

  #statement<T>(verb: ReaderVerb, sql: string, params: Params, limit: Limit | undefined): Promise<T> {
    return this.#ask<T>(verb, limit, {
      sql,
      inputs: encodeParams(params, checkedStatement(sql, 'sqlite').placeholders),
    });
  }

  async #ask<T>(
    verb: ReaderVerb,
    limit: Limit | undefined,
    rest: Omit<ReaderRequest, 'id' | 'verb'> = {},
  ): Promise<T> {
    if (this.#broken !== undefined) throw this.#broken;
    const id = ++this.#lastId;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    this.#asked.set(id, { resolve, reject });
    this.#keepAlive(true);
    const watched = watchLimit(limit, this.#clock, (error) => this.#break(error), rest.sql);
    if (this.#broken === undefined) this.#process.send({ id, verb, ...rest } satisfies ReaderRequest);
    try {
      return await promise;
    } catch (error) {
      throw error instanceof errors.DatabaseError
        ? error
        : new errors.DatabaseError('The reader process failed', { cause: error, sql: rest.sql });
    } finally {
      watched?.[Symbol.dispose]();
    }
  }

  #onReply(reply: ReaderReply): void {
    const asked = this.#asked.get(reply.id);
    if (asked === undefined) return;
    this.#asked.delete(reply.id);
    if (this.#asked.size === 0) this.#keepAlive(false); // only while something is asked must it keep the program
    if (reply.error === undefined)
      asked.resolve(reply.value as never); // what each verb answers, reader-process.ts says
    else asked.reject(revive(reply.error));
  }

  /** The first reason counts; whoever waits for this process gets it. */
  #break(error: Error): void {
    if (this.#broken !== undefined) return;
    this.#broken =
      error instanceof errors.ConnectionLost
        ? error
        : new errors.ConnectionLost('The reader process was ended when a statement took too long', {
            sqlstate: '08006',
            cause: error,
          });
    for (const asked of this.#asked.values()) asked.reject(error);
    this.#asked.clear();
    this.#kill();
  }
}

/** The error that the process had, as its class. */
function revive({ name, message, details }: NonNullable<ReaderReply['error']>): Error {
  const Class =
    (errors as unknown as Record<string, typeof errors.DatabaseError | undefined>)[name] ??
    errors.DatabaseError; // the module's classes, by their names
  return new Class(message, details);
}

/*
 * Connections of a SQLite file that only read: for long reads, read-only transactions and streams. Each sees the file as it is
 * when it begins to read, whatever is written meanwhile. In this process, or with `readers` in processes of their own, where a read
 * does not hold the loop, and can be ended.
 */

/** Reading connections in this process, at most. */
const MAX_IN_PROCESS = 8;

/** A connection and how to end it. */
interface Reading {
  readonly connection: SqliteConnection | SqliteReader;
  readonly isBroken: boolean;
  close(): Promise<void> | void;
}

/** Lends them, opening them as they are needed, the last one used first. */
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

  /** Refuses what comes by `error`; resolves when all are given back. */
  drain(error: () => unknown): Promise<void> {
    return this.#lock.close(error);
  }

  /** Closes all, those that are still lent too. */
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

/*
 * What a program and its reader processes say to one another. Everything survives a structured clone.
 */

/** What a reader is asked to do; the answers are in the order of the questions. */
type ReaderVerb =
  | 'open'
  | 'execute'
  | 'fetchOne'
  | 'fetchArrays'
  | 'scalar'
  | 'stream'
  | 'next'
  | 'end'
  | 'script'
  | 'begin'
  | 'commit'
  | 'rollback'
  | 'savepoint'
  | 'releaseSavepoint'
  | 'rollbackTo'
  | 'close';

/** How a reader is started. */
interface ReaderData {
  readonly path: string;
  readonly busyTimeoutMs: number;
  readonly statementCache: number;
  readonly int8: Int8;
}

/** A question. */
export interface ReaderRequest {
  readonly id: number;
  readonly verb: ReaderVerb;
  /** The statement, or the name of a savepoint. */
  readonly sql?: string | undefined;
  readonly inputs?: readonly SqliteInput[] | undefined;
  /** The number of a stream that is open. */
  readonly stream?: number | undefined;
  readonly begin?: BeginOptions | undefined;
  /** For `open`. */
  readonly data?: ReaderData | undefined;
}

/** Its answer. */
export interface ReaderReply {
  readonly id: number;
  readonly value?: unknown;
  readonly error?:
    { readonly name: string; readonly message: string; readonly details: DatabaseErrorDetails } | undefined;
}
