/**
 * Base classes for a connection to a database server, for any protocol. They run statements and end
 * transactions.
 */
import { checkLimit } from '../limits.ts';
import { timingOf, type StatementTiming, type TimingOptions } from '../slow-statements.ts';
import { allRows, commitError, firstRow, firstValue } from './conversation.ts';
import type { BeginOptions, ExecuteResult, Limit, Row, Table } from '../driver.ts';
import type { DatabaseError } from '../errors.ts';
import type { Params } from '../values.ts';
import type { ByteWriter } from './bytes.ts';
import type { Conversation, RowReader, RowsWanted, ServerExchange } from './conversation.ts';
import type { PooledConnection } from './pool-settings.ts';

/** Base class of connections. `E` is the type of a request and its reply. */
export abstract class ServerConnection<
  E extends ServerExchange<RowReader>,
  C extends Conversation<E, ByteWriter>,
  R extends ServerRunner<E, C>,
> implements PooledConnection {
  protected readonly conversation: C;
  protected readonly runner: R;
  /** Whether the server has become read-only, although writes are required. */
  protected isUnfit = false;
  protected isReadOnly = false;
  /** Whether the caller has begun a transaction and not yet ended it. */
  protected hasBegun = false;
  #isRetired = false;

  constructor(runner: R) {
    this.conversation = runner.conversation;
    this.runner = runner;
  }

  abstract get isInTransaction(): boolean;
  abstract get isIdle(): boolean;
  abstract fetchArrays(sql: string, params: Params, limit: Limit | undefined): Promise<Table>;
  abstract executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Promise<number>;
  abstract stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  abstract script(sql: string, limit: Limit | undefined): Promise<void>;
  abstract begin(options: BeginOptions, limit: Limit | undefined): Promise<void>;
  abstract rollback(limit?: Limit): Promise<void>;
  abstract savepoint(name: string, limit?: Limit): Promise<void>;
  abstract releaseSavepoint(name: string, limit?: Limit): Promise<void>;
  abstract rollbackTo(name: string, limit?: Limit): Promise<void>;
  abstract reset(): Promise<void>;
  /** Sends COMMIT, and throws when the server did not commit. */
  protected abstract sendCommit(limit: Limit | undefined): Promise<void>;
  /** Sends a request that the server answers without running SQL. */
  protected abstract sendPing(limit: Limit | undefined): Promise<unknown>;
  /** Returns the error for a statement after the server itself has ended the transaction. */
  protected abstract endedError(sql: string): DatabaseError;

  get isBroken(): boolean {
    return this.conversation.isEnded;
  }
  get isStale(): boolean {
    return this.isUnfit || this.#isRetired;
  }
  get onLost(): ((error: Error) => void) | undefined {
    return this.conversation.onLost;
  }
  set onLost(listener: ((error: Error) => void) | undefined) {
    this.conversation.onLost = listener;
  }

  execute(sql: string, params: Params, limit: Limit | undefined): Promise<ExecuteResult> {
    return this.run(sql, params, limit, 'none', result);
  }
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Promise<Row | undefined> {
    return this.run(sql, params, limit, 'first', firstRow);
  }
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Promise<Row[]> {
    return this.run(sql, params, limit, 'objects', allRows);
  }
  scalar(sql: string, params: Params, limit: Limit | undefined): Promise<unknown> {
    return this.run(sql, params, limit, 'firstList', firstValue);
  }

  commit(limit?: Limit): Promise<void> {
    return this.commitWork(limit, this.isReadOnly);
  }

  async ping(limit: Limit | undefined): Promise<void> {
    try {
      await this.sendPing(limit);
    } catch (error) {
      this.destroy();
      throw error;
    }
  }

  retire(): void {
    this.#isRetired = true;
  }
  close(): Promise<void> {
    return this.conversation.leave();
  }
  destroy(): void {
    this.conversation.destroy();
  }

  /**
   * Commits. If `onlyReads` is true, the outcome of the commit does not matter, so a lost connection or a time
   * limit is reported as such.
   */
  protected async commitWork(limit: Limit | undefined, onlyReads: boolean): Promise<void> {
    const wasEnded = this.hasEnded;
    const isSent = !this.isBroken;
    this.over();
    if (wasEnded) throw this.endedError('commit');
    try {
      await this.sendCommit(limit);
    } catch (error) {
      throw isSent && !onlyReads ? commitError(error, this.isBroken) : error;
    }
  }

  /** Whether the server itself has ended the transaction. */
  protected get hasEnded(): boolean {
    return this.hasBegun && !this.isInTransaction && this.conversation.isQuiet && !this.isBroken;
  }

  protected run<T>(
    sql: string,
    params: Params,
    limit: Limit | undefined,
    wanted: RowsWanted,
    answer: (exchange: E) => T,
  ): Promise<T> {
    return this.runner.run(sql, params, limit, wanted, answer);
  }

  /** Runs several requests, and records their time as the time of one statement. */
  protected timed<T>(sql: string, work: () => Promise<T>): Promise<T> {
    return this.runner.timing?.around(sql, work) ?? work();
  }

  protected over(): void {
    this.hasBegun = this.isReadOnly = false;
  }
}

function result({ affectedRows, lastInsertId }: ServerExchange<RowReader>): ExecuteResult {
  return { affectedRows, lastInsertId: lastInsertId === 0 ? undefined : lastInsertId };
}

interface Sent<E> {
  readonly exchange: E;
  readonly timing: StatementTiming | undefined;
  readonly startedMs: number;
}

export interface StatementRequest {
  readonly text: string;
  readonly params: Params;
  readonly wanted: RowsWanted;
  readonly limit: Limit | undefined;
}

/**
 * Runs the statements of one connection: decides when a request is written, records its time, and handles its
 * error.
 */
export abstract class ServerRunner<
  E extends ServerExchange<RowReader>,
  C extends Conversation<E, ByteWriter>,
> {
  readonly conversation: C;
  readonly timing: StatementTiming | undefined;
  readonly #options: TimingOptions;
  /** Resolves when the current request is completely written. Later requests wait for this promise. */
  protected writing: Promise<void> | undefined;

  constructor(conversation: C, options: TimingOptions) {
    this.conversation = conversation;
    this.timing = timingOf(options);
    this.#options = options;
  }

  /**
   * Runs one statement. `answer` converts the reply to the result. Rejects with the server's error, or with
   * an SvcError for a value that cannot be sent.
   */
  abstract run<T>(
    sql: string,
    params: Params,
    limit: Limit | undefined,
    wanted: RowsWanted,
    answer: (exchange: E) => T,
  ): Promise<T>;

  get isWriting(): boolean {
    return this.writing !== undefined;
  }

  /** Runs `work`, which writes one request in several steps. Other requests wait until `work` ends. */
  async exclusively<T>(work: () => Promise<T>): Promise<T> {
    const done = Promise.withResolvers<void>();
    this.writing = done.promise;
    try {
      return await work();
    } finally {
      this.writing = undefined;
      done.resolve();
    }
  }

  /**
   * Whether another request is being written, so that a new one must wait: `while (mustWait) await turn()`.
   * The loop is needed, because a third request may be written first.
   */
  get mustWait(): boolean {
    return this.writing !== undefined;
  }

  /** Resolves when no other request is being written. */
  turn(): Promise<void> {
    return this.writing ?? Promise.resolve();
  }

  check(text: string | undefined, limit: Limit | undefined): void {
    this.conversation.check(text);
    if (limit !== undefined) checkLimit(limit, this.#options.clock, text);
  }

  /**
   * Returns the result of a statement that was sent. After an error, `onceMore` runs the statement again, or
   * throws the error.
   */
  protected answered<T>(
    { exchange, timing, startedMs }: Sent<E>,
    answer: (exchange: E) => T,
    onceMore: (error: unknown) => Promise<E>,
  ): Promise<T> {
    return exchange.answered((ended, error) => {
      if (error !== undefined)
        return this.timed(exchange.sql, timing, startedMs, () => onceMore(error), answer);
      timing?.end(startedMs, exchange.sql);
      return answer(ended);
    });
  }

  /** Waits for `work`, converts its reply with `answer`, and records the time since the statement started. */
  protected async timed<T>(
    sql: string,
    timing: StatementTiming | undefined,
    startedMs: number,
    work: () => Promise<E>,
    answer: (exchange: E) => T,
  ): Promise<T> {
    try {
      return answer(await work());
    } finally {
      timing?.end(startedMs, sql);
    }
  }
}
