/**
 * A database: the verbs of a session, each on a connection of its own, and transactions.
 */
import { randomInt } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, oneOf, readOptions } from '../base/options.ts';
import { DatabaseError, atCaller } from './errors.ts';
import { MAX_TIMEOUT_MS, endingLimit, limitOf, settledBy, sleepWithin, type QueryOptions } from './limits.ts';
import { Session, type Conversion, type OpenStream, type Work } from './session.ts';
import { TracedConnection, queries, tracedSource } from './tracing.ts';
import {
  Transaction,
  committedBy,
  refuseInsideTransaction,
  undo,
  type TransactionOptions,
} from './transaction.ts';
import type { Clock } from '../base/clock.ts';
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
} from './driver.ts';

/** The first pause before a transaction is run again; each further one is twice as long. */
const FIRST_PAUSE_MS = 5;
const MAX_PAUSE_MS = 1_000;

const WRITING: BeginOptions = { isolation: undefined, isReadOnly: false };

const UNCONVERTED: Conversion = { snakeCase: false, types: undefined };

/** How one transaction runs. */
interface TransactionPlan {
  readonly begin: BeginOptions;
  readonly retries: number;
  readonly limit: Limit | undefined;
}

const PLAIN: TransactionPlan = { begin: WRITING, retries: 0, limit: undefined };

/** What a database is made from, beside its driver. @internal */
interface DatabaseDeps {
  readonly clock: Clock;
  /** `timeoutMs` of every verb that says none; 0 for none. */
  readonly statementTimeoutMs: number;
  /** Default: no own types, and columns named as members. */
  readonly conversion?: Conversion | undefined;
  /** The name of the database in the events of its statements. Default `database`. */
  readonly name?: string | undefined;
  /** Called with the seconds that a caller has waited for a connection; not for callers that got one at once. */
  readonly onWait?: ((seconds: number) => void) | undefined;
}

/** A database that is open, or will be. `openDatabase` makes one; in an application `DatabasePlugin` does. */
export class Database extends Session {
  readonly dialect: Dialect;
  /** @internal */
  readonly conversion: Conversion;
  readonly #driver: Driver;
  readonly #clock: Clock;
  readonly #statementTimeoutMs: number;
  readonly #name: string;
  readonly #onWait: ((seconds: number) => void) | undefined;
  /** Without any, no statement can be inside one. */
  #openTransactions = 0;

  /** @internal */
  constructor(
    driver: Driver,
    { clock, statementTimeoutMs, conversion = UNCONVERTED, name = 'database', onWait }: DatabaseDeps,
  ) {
    super();
    this.#driver = driver;
    this.dialect = driver.dialect;
    this.conversion = conversion;
    this.#clock = clock;
    this.#statementTimeoutMs = statementTimeoutMs;
    this.#name = name;
    this.#onWait = onWait;
  }

  /** Connections in use, idle, and callers that wait for one. */
  get load(): DriverLoad {
    return this.#driver.load;
  }

  /**
   * Runs `fn` in a transaction: committed when it returns, rolled back when it throws, and its result or error passed on. All
   * statements go through the handle that `fn` is given. With `retries`, `fn` is run again from its start when the database
   * says that this may help; so it must do nothing outside the database that should not happen twice.
   *
   * @throws SvcError `E_DB_NESTED` inside a transaction of this database: use its handle's `transaction`
   */
  async transaction<T>(fn: (tx: Transaction) => Awaitable<T>, options?: TransactionOptions): Promise<T> {
    const { begin, retries, limit } = options === undefined ? PLAIN : transactionOf(options, this.#clock);
    for (let attempt = 0; ; attempt++) {
      try {
        return await this.#transact(fn, begin, limit);
      } catch (error) {
        if (attempt >= retries || !(error instanceof DatabaseError && error.isRetryable)) throw error;
        await this.#pause(attempt, limit);
      }
    }
  }

  /** Throws when the database does not answer. */
  ping(options?: QueryOptions): Promise<void> {
    return this.#guarded(options, (limit) => this.#driver.ping(limit));
  }

  /**
   * Writes a consistent copy of the database to a file, which appears under its name when it is complete and replaces one that
   * is there. Others read and write meanwhile.
   *
   * @throws SvcError `E_DB_OPTION` for an engine that has its own tools for this
   */
  backup(path: string, options?: QueryOptions): Promise<void> {
    return this.#guarded(options, (limit) => {
      if (this.#driver.backup === undefined)
        throw new SvcError('E_DB_OPTION', [
          `${this.dialect} has no backup() here: use the tools of the server`,
        ]);
      return this.#driver.backup(path, limit);
    });
  }

  /**
   * Hears of what is sent to a channel by NOTIFY, whoever sends it, on a connection of its own; until it is disposed of, or the
   * database closed. A lost connection is made again; what was sent meanwhile is lost, which `onReconnect` is for.
   *
   *   await using orders = await db.listen('orders', (payload) => { ... }, { onReconnect: () => readThemAll() });
   *
   * @throws SvcError `E_DB_OPTION` for an engine without it, `E_DB_IDENTIFIER`; ConnectionLost when it cannot be reached
   */
  async listen(channel: string, notified: Notified, options: ListenOptions = {}): Promise<AsyncDisposable> {
    try {
      const read = readOptions('listen', options, {
        onReconnect: given<() => unknown>('a function', (value) => typeof value === 'function'),
      });
      if (this.#driver.listen === undefined)
        throw new SvcError('E_DB_OPTION', [`${this.dialect} has no LISTEN and NOTIFY`]);
      return await this.#driver.listen(channel, notified, read);
    } catch (error) {
      throw atCaller(error);
    }
  }

  /** Waits for what is under way, refuses what comes, and closes. May be called again. */
  close(): Promise<void> {
    return this.#guarded(undefined, () => {
      refuseInsideTransaction(this); // it would wait for itself
      return this.#driver.close();
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal */
  async run<T>(purpose: Purpose, work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    let connection: Connection | undefined;
    let late: Promise<unknown> | undefined;
    try {
      if (this.#openTransactions > 0) refuseInsideTransaction(this);
      const limit =
        options === undefined && this.#statementTimeoutMs === 0
          ? undefined
          : limitOf(options, this.#statementTimeoutMs, this.#clock);
      const acquired = this.#driver.acquire(limit, options?.longRead === true ? 'read' : purpose);
      connection = acquired instanceof Promise ? await this.#waited(acquired) : acquired;
      const result = work(this.#traced(connection), limit);
      if (!(result instanceof Promise)) return result;
      if (limit === undefined) return await result;
      return await settledBy(result, limit, this.#clock, (rest) => {
        late = rest;
      });
    } catch (error) {
      throw atCaller(error);
    } finally {
      if (late !== undefined)
        this.#release(connection!, late); // it runs on one
      else if (connection !== undefined) this.#driver.release(connection);
    }
  }

  /** Without a handle, a callback and its context: a third less than `transaction()`. @internal */
  async whole<T>(work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    let limit: Limit | undefined;
    let connection: Connection | undefined;
    let late: Promise<unknown> | undefined;
    const onLate = (rest: Promise<unknown>): void => {
      late = rest;
    };
    try {
      limit =
        options === undefined && this.#statementTimeoutMs === 0
          ? undefined
          : limitOf(options, this.#statementTimeoutMs, this.#clock);
      connection = await this.#begin(WRITING, limit);
      const traced = this.#traced(connection);
      const working = work(traced, limit);
      const result =
        working instanceof Promise ? await settledBy(working, limit, this.#clock, onLate) : working;
      const committing = traced.commit(endingLimit(limit, 0, this.#clock));
      if (committing instanceof Promise) await committedBy(committing, limit, this.#clock, onLate);
      return result;
    } catch (error) {
      const thrown = atCaller(error);
      if (connection === undefined) throw thrown;
      const undone = this.#undone(this.#traced(connection), limit, late, thrown);
      if (late === undefined) throw await settledBy(undone, limit, this.#clock, onLate).catch(() => thrown);
      late = undone;
      throw thrown;
    } finally {
      if (connection !== undefined) this.#release(connection, late);
    }
  }

  /** @internal */
  async *batches(
    open: OpenStream,
    options: QueryOptions | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    try {
      refuseInsideTransaction(this);
      const source = queries.hasSubscribers
        ? tracedSource(this.#driver, this.dialect, this.#name)
        : this.#driver;
      const limit = limitOf(options, this.#statementTimeoutMs, this.#clock);
      yield* limit === undefined ? open(source, limit) : withinLimit(open(source, limit), limit, this.#clock);
    } catch (error) {
      throw atCaller(error);
    }
  }

  async #transact<T>(
    fn: (tx: Transaction) => Awaitable<T>,
    begin: BeginOptions,
    limit: Limit | undefined,
  ): Promise<T> {
    const connection = await this.#begin(
      begin,
      this.#statementTimeoutMs === 0
        ? limit
        : limitOf(undefined, this.#statementTimeoutMs, this.#clock, limit),
    );
    this.#openTransactions++;
    let tx: Transaction | undefined;
    try {
      const traced = this.#traced(connection);
      tx = new Transaction({
        root: this,
        connection: traced,
        dialect: this.dialect,
        conversion: this.conversion,
        clock: this.#clock,
        limit,
        statementTimeoutMs: this.#statementTimeoutMs,
        depth: 0,
      });
      return await tx.drive(fn, traced);
    } finally {
      this.#openTransactions--;
      this.#release(connection, tx?.behind);
    }
  }

  async #begin(begin: BeginOptions, limit: Limit | undefined): Promise<Connection> {
    let connection: Connection | undefined;
    let late: Promise<unknown> | undefined;
    try {
      if (this.#openTransactions > 0) refuseInsideTransaction(this);
      const acquired = this.#driver.acquire(limit, begin.isReadOnly ? 'read' : 'transaction');
      connection = acquired instanceof Promise ? await this.#waited(acquired) : acquired;
      const beginning = this.#traced(connection).begin(begin, limit);
      if (beginning instanceof Promise)
        await settledBy(beginning, limit, this.#clock, (rest) => {
          late = rest;
        });
      return connection;
    } catch (error) {
      if (connection !== undefined) this.#release(connection, late);
      throw atCaller(error);
    }
  }

  /** Gives a connection back; when its caller did not wait for what is `late`, as soon as that has settled. */
  #release(connection: Connection, late: Promise<unknown> | undefined): void {
    if (late === undefined) return this.#driver.release(connection);
    const release = (): void => this.#driver.release(connection);
    void late.then(release, release);
  }

  async #undone(
    connection: Connection,
    limit: Limit | undefined,
    late: Promise<unknown> | undefined,
    error: unknown,
  ): Promise<unknown> {
    await late?.catch(() => undefined); // its caller has been told
    return undo(connection, endingLimit(limit, 0, this.#clock), error);
  }

  async #waited(pending: Promise<Connection>): Promise<Connection> {
    const startedMs = this.#clock.monotonicMs();
    try {
      return await pending;
    } finally {
      this.#onWait?.((this.#clock.monotonicMs() - startedMs) / 1_000);
    }
  }

  /** The connection, or one that publishes its statements while `svc:db:query` has subscribers. */
  #traced(connection: Connection): Connection {
    return queries.hasSubscribers ? new TracedConnection(connection, this.dialect, this.#name) : connection;
  }

  async #guarded(
    options: QueryOptions | undefined,
    work: (limit: Limit | undefined) => Awaitable<void>,
  ): Promise<void> {
    try {
      const limit = limitOf(options, this.#statementTimeoutMs, this.#clock);
      const working = work(limit);
      if (working instanceof Promise) await settledBy(working, limit, this.#clock, () => undefined);
    } catch (error) {
      throw atCaller(error);
    }
  }

  /** Between half of the pause and all of it: two that met once do not meet again at the same moment. */
  async #pause(attempt: number, limit: Limit | undefined): Promise<void> {
    const longestMs = Math.min(MAX_PAUSE_MS, FIRST_PAUSE_MS * 2 ** attempt);
    await sleepWithin(longestMs - (randomInt(0, 1_000) / 2_000) * longestMs, limit, this.#clock);
  }
}

/** The rows of a source until its limit: its end is not waited for beyond that. */
async function* withinLimit(
  source: AsyncIterable<readonly Row[]>,
  limit: Limit,
  clock: Clock,
): AsyncGenerator<readonly Row[], void, undefined> {
  const rows = source[Symbol.asyncIterator]();
  let hasEnded = false;
  const within = <T>(work: Promise<T>): Promise<T> =>
    settledBy(work, limit, clock, () => {
      hasEnded = true; // its reader has left, and it ends by itself
      void rows.return?.().catch(() => undefined);
    });
  try {
    for (;;) {
      const next = await within(rows.next());
      hasEnded = next.done === true;
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    const leaving = hasEnded ? undefined : rows.return?.();
    if (leaving !== undefined) await settledBy(leaving, limit, clock, () => undefined);
  }
}

function transactionOf(options: TransactionOptions, clock: Clock): TransactionPlan {
  const { isolation, readOnly, retries, signal, timeoutMs } = readOptions('transaction', options, {
    isolation: oneOf<'' | NonNullable<TransactionOptions['isolation']>>(
      ['read committed', 'repeatable read', 'serializable'],
      '',
    ),
    readOnly: bool(false),
    retries: int(0, 0, 100),
    signal: given<AbortSignal>(),
    timeoutMs: int(0, 0, MAX_TIMEOUT_MS),
  });
  return {
    begin: { isolation: isolation === '' ? undefined : isolation, isReadOnly: readOnly },
    retries,
    limit: limitOf({ signal, timeoutMs }, 0, clock),
  };
}
