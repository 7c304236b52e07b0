/**
 * A database client. Runs each statement on any connection of its pool, and all statements of a transaction
 * on one connection.
 */
import { randomInt } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import { ignore } from '../base/promises.ts';
import { given, readOptions } from '../base/options.ts';
import { DatabaseError, atCaller } from './errors.ts';
import { MAX_TIMEOUT_MS, limitOf, settledBy, sleepWithin, watchLimit, type QueryOptions } from './limits.ts';
import { Session, type Conversion, type OpenStream, type Work } from './session.ts';
import {
  Transaction,
  WRITING,
  readTransaction,
  refuseInsideTransaction,
  type TransactionOptions,
} from './transaction.ts';
import type { Clock } from '../base/clock.ts';
import type { DatabaseSpans } from './tracing.ts';
import type { Awaitable } from '../cache/stores.ts';
import type {
  BeginOptions,
  Connection,
  Dialect,
  Driver,
  DriverLoad,
  Limit,
  ListenOptions,
  Notified,
  Purpose,
  Row,
  RowBatches,
} from './driver.ts';

/** Longest milliseconds before the first retry of a transaction; doubles up to MAX_PAUSE_MS. */
const FIRST_PAUSE_MS = 5;
const MAX_PAUSE_MS = 1_000;

const NO_LIMIT: QueryOptions = { timeoutMs: 0 };
/** Milliseconds for a statement of a store, after the longest wait for a connection. */
const STORE_MS = 5_000;
/** Default of `acquireTimeoutMs`. */
export const ACQUIRE_MS = 5_000;

const UNCONVERTED: Conversion = { snakeCase: false, types: undefined };

/** Receives work that still runs after its limit. */
type Hold = (late: Promise<unknown>) => void;
/** Uses a borrowed connection. Passes work that still runs after its limit to `hold`. */
type Use<T> = (connection: Connection, limit: Limit | undefined, hold: Hold) => Awaitable<T>;

interface TransactionStart {
  readonly begin: BeginOptions;
  readonly limit: Limit | undefined;
  /** Default `timeoutMs` of each statement; 0 means no limit. */
  readonly statementTimeoutMs: number;
}

/** @internal */
interface DatabaseDeps {
  readonly clock: Clock;
  readonly statementTimeoutMs: number;
  readonly acquireTimeoutMs?: number | undefined;
  readonly conversion?: Conversion | undefined;
  readonly spans?: DatabaseSpans | undefined;
  readonly onWait?: ((seconds: number) => void) | undefined;
}

/** A database client. Create it with `openDatabase`, or with `DatabasePlugin` in an application. */
export class Database extends Session {
  readonly dialect: Dialect;
  /** @internal */
  readonly conversion: Conversion;
  readonly #driver: Driver;
  /** @internal */
  readonly clock: Clock;
  readonly #statementTimeoutMs: number;
  readonly #storeTimeoutMs: number;
  readonly #spans: DatabaseSpans | undefined;
  readonly #onWait: ((seconds: number) => void) | undefined;
  /**
   * Number of open transactions. While it is 0, statements need not check whether they run inside a
   * transaction.
   */
  #openTransactions = 0;

  /** @internal */
  constructor(
    driver: Driver,
    {
      clock,
      statementTimeoutMs,
      acquireTimeoutMs = ACQUIRE_MS,
      conversion = UNCONVERTED,
      spans,
      onWait,
    }: DatabaseDeps,
  ) {
    super();
    this.#driver = driver;
    this.dialect = driver.dialect;
    this.conversion = conversion;
    this.clock = clock;
    this.#statementTimeoutMs = statementTimeoutMs;
    this.#storeTimeoutMs = Math.min(acquireTimeoutMs + STORE_MS, MAX_TIMEOUT_MS);
    this.#spans = spans;
    this.#onWait = onWait;
  }

  /** Numbers of connections in use, of idle connections, and of callers that wait for a connection. */
  get load(): DriverLoad {
    return this.#driver.load;
  }

  /**
   * Limit for the statements of stores on which requests wait: a server that does not answer must hold none of them
   * for longer. It is longer than the wait for a connection, so that a busy pool is a PoolTimeout. @internal
   */
  get storeLimit(): QueryOptions {
    return { timeoutMs: this.#statementTimeoutMs === 0 ? this.#storeTimeoutMs : this.#statementTimeoutMs };
  }

  /**
   * Runs `fn` in a transaction. Commits when `fn` returns, and rolls back when it throws. Returns the result
   * of `fn`, or throws its error. All statements of the transaction must use the `tx` that `fn` receives.
   *
   * With the option `retries`, `fn` runs again after an error such as a deadlock. So `fn` must not have
   * effects outside the database that may happen only once, such as sending mail.
   *
   * @throws SvcError `E_DB_NESTED` when it is called inside a transaction of this database: call
   *   `tx.transaction()` instead
   */
  async transaction<T>(fn: (tx: Transaction) => Awaitable<T>, options?: TransactionOptions): Promise<T> {
    const { begin, retries, limits } = readTransaction(options);
    const limit = limitOf(limits, 0, this.clock);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#with(
          begin.isReadOnly ? 'read' : 'transaction',
          undefined,
          limit,
          (connection, _, hold) =>
            this.#transact((tx) => tx.surround(() => fn(tx)), connection, hold, {
              begin,
              limit,
              statementTimeoutMs: this.#statementTimeoutMs,
            }),
          (error) => error,
        );
      } catch (error) {
        if (attempt >= retries || !(error instanceof DatabaseError && error.isRetryable)) throw error;
        await this.#pause(attempt, limit);
      }
    }
  }

  /** Resolves when the database answers. Rejects when the database does not answer. */
  ping(options?: QueryOptions): Promise<void> {
    return this.#guarded(options, (limit) => this.#driver.ping(limit));
  }

  /**
   * Writes a consistent copy of the database to a file. The file appears under its name when the copy is
   * complete, and replaces an existing file. Meanwhile, other connections can read and write.
   *
   * @throws SvcError `E_DB_OPTION` for all engines but SQLite
   */
  backup(path: string, options?: QueryOptions): Promise<void> {
    return this.#guarded(options, (limit) => {
      if (this.#driver.backup === undefined)
        throw new SvcError('E_DB_OPTION', [
          `backup() works only with SQLite, not with ${this.dialect}: use the backup tools of the database server`,
        ]);
      return this.#driver.backup(path, limit);
    });
  }

  /**
   * Subscribes to a NOTIFY channel of PostgreSQL on a separate connection, until the subscription is disposed
   * of or the database closes. A lost connection is opened again. Notifications sent in the meantime never
   * arrive, so read the current state in `onReconnect`.
   *
   *   await using orders = await db.listen('orders', (payload) => { ... }, { onReconnect: () => readThemAll() });
   *
   * @throws SvcError `E_DB_OPTION` for an engine without LISTEN, `E_DB_IDENTIFIER` for an invalid channel
   *   name; ConnectionLost when the server cannot be reached
   */
  async listen(channel: string, notified: Notified, options: ListenOptions = {}): Promise<AsyncDisposable> {
    try {
      const read = readOptions('listen', options, {
        onReconnect: given<() => unknown>('a function', (value) => typeof value === 'function'),
      });
      if (this.#driver.listen === undefined)
        throw new SvcError('E_DB_OPTION', [
          `listen() works only with PostgreSQL, because ${this.dialect} has no LISTEN and NOTIFY`,
        ]);
      return await this.#driver.listen(channel, notified, read);
    } catch (error) {
      throw atCaller(error);
    }
  }

  /**
   * Refuses new statements, waits up to ten seconds for running ones, and closes all connections. Further
   * calls have no effect.
   */
  close(): Promise<void> {
    // the driver has a time limit of its own: `statementTimeoutMs` must not cut running statements off
    return this.#guarded(NO_LIMIT, () => {
      // inside a transaction, close() would wait forever for the end of that transaction
      refuseInsideTransaction(this);
      return this.#driver.close();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  run<T>(purpose: Purpose, work: Work<T>, options?: QueryOptions): Promise<T> {
    const lent = options?.longRead === true ? 'read' : purpose;
    return this.#with(lent, options, undefined, (connection, limit, hold) => {
      const result = work(connection, limit);
      return limit !== undefined && result instanceof Promise
        ? settledBy(result, limit, this.clock, hold)
        : result;
    });
  }

  /**
   * Runs `work` in a transaction. Opens no async context, so `work` may read the database itself, for example
   * for the rows that it writes.
   *
   * @internal
   */
  whole<T>(work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    return this.#with('transaction', options, undefined, (connection, limit, hold) =>
      this.#transact((tx) => tx.run('statement', work), connection, hold, {
        begin: WRITING,
        limit,
        statementTimeoutMs: 0, // `limit` already includes the default
      }),
    );
  }

  /** @internal */
  async *batches(open: OpenStream, options: QueryOptions | undefined): RowBatches {
    try {
      refuseInsideTransaction(this);
      const source = this.#spans === undefined ? this.#driver : this.#spans.source(this.#driver);
      const limit = this.#limit(options);
      yield* limit === undefined ? open(source, limit) : withinLimit(open(source, limit), limit, this.clock);
    } catch (error) {
      throw atCaller(error);
    }
  }

  async #transact<T>(
    fn: (tx: Transaction) => Awaitable<T>,
    connection: Connection,
    hold: Hold,
    { begin, ...limits }: TransactionStart,
  ): Promise<T> {
    const { dialect, conversion, clock } = this;
    const limit = limitOf(undefined, limits.statementTimeoutMs, clock, limits.limit);
    try {
      const beginning = connection.begin(begin, limit);
      if (beginning instanceof Promise) await settledBy(beginning, limit, clock, hold);
    } catch (error) {
      throw atCaller(error);
    }
    this.#openTransactions++;
    const tx = new Transaction({
      root: this,
      connection,
      dialect,
      conversion,
      clock,
      ...limits,
      depth: 0,
      begin,
    });
    try {
      return await tx.drive(fn, connection);
    } finally {
      this.#openTransactions--;
      if (tx.behind !== undefined) hold(tx.behind);
    }
  }

  /**
   * Lends a connection to `use`, and takes the connection back when `use` has settled. Work that still runs
   * after its limit is passed to `hold`, and keeps the connection until it ends. `outer` is the limit of the
   * transaction. It also limits the wait for the connection. `placed` sets the stack of an error of `use`.
   */
  async #with<T>(
    purpose: Purpose,
    options: QueryOptions | undefined,
    outer: Limit | undefined,
    use: Use<T>,
    placed: (error: unknown) => unknown = atCaller,
  ): Promise<T> {
    let connection: Connection | undefined;
    let late: Promise<unknown> | undefined;
    try {
      if (this.#openTransactions > 0) refuseInsideTransaction(this);
      const limit =
        options === undefined && this.#statementTimeoutMs === 0 ? outer : this.#limit(options, outer);
      const acquired = this.#driver.acquire(limit, purpose);
      connection = acquired instanceof Promise ? await this.#waited(acquired) : acquired;
      const lent = this.#spans === undefined ? connection : this.#spans.connection(connection);
      const result = use(lent, limit, (rest) => {
        late = rest;
      });
      return result instanceof Promise ? await result : result;
    } catch (error) {
      throw connection === undefined ? atCaller(error) : placed(error);
    } finally {
      if (late !== undefined) this.#releaseAfter(late, connection!);
      else if (connection !== undefined) this.#driver.release(connection);
    }
  }

  #releaseAfter(late: Promise<unknown>, connection: Connection): void {
    const release = (): void => this.#driver.release(connection);
    void late.then(release, release);
  }

  #limit(options: QueryOptions | undefined, outer?: Limit): Limit | undefined {
    return limitOf(options, this.#statementTimeoutMs, this.clock, outer);
  }

  async #waited(pending: Promise<Connection>): Promise<Connection> {
    const startedMs = this.clock.monotonicMs();
    try {
      return await pending;
    } finally {
      this.#onWait?.((this.clock.monotonicMs() - startedMs) / 1_000);
    }
  }

  async #guarded(
    options: QueryOptions | undefined,
    work: (limit: Limit | undefined) => Awaitable<void>,
  ): Promise<void> {
    try {
      const limit = this.#limit(options);
      const working = work(limit);
      if (working instanceof Promise) await settledBy(working, limit, this.clock, () => undefined);
    } catch (error) {
      throw atCaller(error);
    }
  }

  /** Sleeps for a random time, so that two transactions that collided retry at different moments. */
  async #pause(attempt: number, limit: Limit | undefined): Promise<void> {
    const longestMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
    await sleepWithin(longestMs - (randomInt(0, 1_000) / 2_000) * longestMs, limit, this.clock);
  }
}

/**
 * Yields the rows of `source` in batches until the limit. Then closes `source` without waiting, even if the
 * reader does not ask for the next batch.
 */
async function* withinLimit(source: AsyncIterable<readonly Row[]>, limit: Limit, clock: Clock): RowBatches {
  const rows = source[Symbol.asyncIterator]();
  let reached: DatabaseError | undefined;
  let isReading = false;
  let hasEnded = false;
  const leave = async (): Promise<void> => {
    if (hasEnded) return;
    hasEnded = true;
    await rows.return?.();
  };
  const watched = watchLimit(limit, clock, (error) => {
    reached = error;
    if (!isReading) leave().catch(ignore);
  });
  try {
    while (reached === undefined) {
      isReading = true;
      const next = await settledBy(rows.next(), limit, clock, () => void leave().catch(ignore));
      isReading = false;
      hasEnded ||= next.done === true;
      if (next.done === true) return;
      // a reader may keep the rows for ever, so it gets none after the limit
      if (reached === undefined) yield next.value;
    }
    throw reached;
  } finally {
    watched?.[Symbol.dispose]();
    await settledBy(leave(), limit, clock, ignore);
  }
}
