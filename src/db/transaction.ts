/**
 * Transactions and nested transactions (savepoints). A `Transaction` is usable until its callback settles.
 *
 * An AsyncLocalStorage records the transactions that are open around a callback. Inside the callback, a
 * statement on the `Database` or on an outer `Transaction` fails with `E_DB_NESTED`. Without this check, the
 * statement would wait for its own transaction to end, or would silently not be part of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SvcError, errorAfter } from '../base/errors.ts';
import { bool, given, int, oneOf, readOptions } from '../base/options.ts';
import { CommitOutcomeUnknown, atCaller } from './errors.ts';
import {
  CALLBACK,
  MAX_TIMEOUT_MS,
  endingLimit,
  limitOf,
  limitReached,
  checkLimit,
  settledBy,
  type QueryOptions,
} from './limits.ts';
import { Session, type Conversion, type OpenStream, type Work } from './session.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { BeginOptions, Connection, Dialect, Isolation, Limit, Purpose, RowBatches } from './driver.ts';

/** Options of a transaction. */
export interface TransactionOptions {
  /**
   * Minimum isolation level: `read committed`, `repeatable read` or `serializable`. Default: the default level of
   * the engine. SQLite is always serializable.
   */
  readonly isolation?: Isolation | undefined;
  /**
   * Whether the transaction refuses writes. Then SQLite reads without waiting for the writing connection.
   * Default false.
   */
  readonly readOnly?: boolean | undefined;
  /**
   * Number of retries of the callback after a serialization failure, a deadlock or a lock timeout, 0 ... 100.
   * Default 0.
   */
  readonly retries?: number | undefined;
  /**
   * Signal and time limit for the wait for a connection, for each statement, and for the callback. If the
   * callback has not settled at the limit, the transaction is rolled back, and its handle refuses further
   * statements. A commit is not cut off: it gets at least 5 seconds.
   */
  readonly signal?: AbortSignal | undefined;
  /** Time limit in milliseconds, 0 ... 2_147_483_647; see `signal`. 0 means no limit. Default 0. */
  readonly timeoutMs?: number | undefined;
}

/** Isolation levels, the weakest first. */
export const LEVELS: readonly [Isolation, ...Isolation[]] = [
  'read committed',
  'repeatable read',
  'serializable',
];

/** How a transaction begins by default. */
export const WRITING: BeginOptions = { isolation: undefined, isReadOnly: false };

interface TransactionPlan {
  readonly begin: BeginOptions;
  readonly retries: number;
  readonly limits: QueryOptions | undefined;
}

const PLAIN: TransactionPlan = { begin: WRITING, retries: 0, limits: undefined };

/** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
export function readTransaction(options: TransactionOptions | undefined): TransactionPlan {
  if (options === undefined) return PLAIN;
  const { isolation, readOnly, retries, signal, timeoutMs } = readOptions('transaction', options, {
    isolation: oneOf<Isolation | ''>(LEVELS, ''),
    readOnly: bool(false),
    retries: int(0, 0, 100),
    signal: given<AbortSignal>(),
    timeoutMs: int(0, 0, MAX_TIMEOUT_MS),
  });
  return {
    begin: { isolation: isolation === '' ? undefined : isolation, isReadOnly: readOnly },
    retries,
    limits: { signal, timeoutMs },
  };
}

interface Scope {
  readonly root: object;
  readonly transaction: Transaction;
  readonly outer: Scope | undefined;
}

const scopes = new AsyncLocalStorage<Scope>();

/** Throws when a transaction of this database is open in the current async context. @internal */
export function refuseInsideTransaction(root: object): void {
  if (innermost(root) !== undefined)
    throw new SvcError('E_DB_NESTED', [
      'a statement that is run on the database object would not be part of the open transaction',
    ]);
}

function innermost(root: object): Transaction | undefined {
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) {
    if (scope.root === root && !scope.transaction.isOver) return scope.transaction;
  }
  return undefined;
}

type End = Pick<Connection, 'commit' | 'rollback'>;

interface TransactionDeps {
  readonly root: object;
  readonly connection: Connection;
  readonly dialect: Dialect;
  readonly conversion: Conversion;
  readonly clock: Clock;
  readonly limit: Limit | undefined;
  readonly statementTimeoutMs: number;
  readonly depth: number;
  /** How the outermost transaction began. */
  readonly begin: BeginOptions;
  readonly outer?: Transaction | undefined;
}

/** A transaction. It is usable until its callback settles. */
export class Transaction extends Session {
  readonly dialect: Dialect;
  /** @internal */
  readonly conversion: Conversion;
  /** @internal */
  readonly clock: Clock;
  readonly #deps: TransactionDeps;
  #isOver = false;
  #inFlight = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  #nested: Promise<void> | undefined;
  /** Number of statements that still run after their time limits. */
  #late = 0;
  /**
   * Promise for the end of a transaction that still runs after the caller's time limit; undefined for other
   * transactions. Never rejects.
   */
  #behind: Promise<unknown> | undefined;

  /** @internal */
  constructor(deps: TransactionDeps) {
    super();
    this.#deps = deps;
    this.dialect = deps.dialect;
    this.clock = deps.clock;
    this.conversion = deps.conversion;
  }

  /** Whether the callback has settled. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * Promise for the end of a transaction that still runs after the caller's time limit; undefined for other
   * transactions. Never rejects.
   *
   * @internal
   */
  get behind(): Promise<unknown> | undefined {
    return this.#behind;
  }

  /**
   * Runs a nested transaction with a savepoint. When `fn` throws, only the changes of the nested transaction
   * are undone. Inside `fn`, use the `tx` that `fn` receives. Statements of other code on the outer
   * transaction wait until the nested transaction has ended.
   *
   * `isolation` and `readOnly` cannot be stronger than those of the outermost transaction. `retries` has no effect,
   * because only the outermost transaction can be repeated.
   *
   * @throws SvcError `E_DB_OVER` when the callback of this transaction has settled, `E_DB_NESTED` when it is
   *   called inside a transaction that is nested in this transaction, `E_DB_OPTION` when the outermost transaction
   *   does not have the `isolation` or `readOnly`
   */
  async transaction<T>(fn: (tx: Transaction) => Awaitable<T>, options?: TransactionOptions): Promise<T> {
    const { begin, limits } = readTransaction(options);
    this.#requireBegun(begin);
    return this.#enter(limits, (_connection, limit) => this.#nest(fn, limit), 0, true);
  }

  /** Throws if a nested transaction asks for more than the outermost one has. */
  #requireBegun({ isolation, isReadOnly }: BeginOptions): void {
    const outer = this.#deps.begin;
    const has = (level: Isolation | undefined): number => (level === undefined ? -1 : LEVELS.indexOf(level));
    const missing =
      this.dialect !== 'sqlite' && has(isolation) > has(outer.isolation)
        ? `isolation: '${isolation!}'`
        : isReadOnly && !outer.isReadOnly
          ? 'readOnly: true'
          : undefined;
    if (missing !== undefined)
      throw new SvcError('E_DB_OPTION', [
        `a nested transaction is a savepoint, and cannot have ${missing}: begin the outermost transaction with it`,
      ]);
  }

  /** @internal */
  run<T>(_purpose: Purpose, work: Work<T>, options?: QueryOptions): Promise<T> {
    return this.#enter(options, work);
  }

  /** @internal */
  whole<T>(work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    return this.transaction((inner) => inner.run('statement', work), options);
  }

  /** @internal */
  async *batches(open: OpenStream, options: QueryOptions | undefined): RowBatches {
    let limit: Limit | undefined;
    const rows = await this.#enter(options, (connection, given) =>
      open(connection, (limit = given))[Symbol.asyncIterator](),
    );
    let isDone = false;
    try {
      for (;;) {
        // call #enter() for each batch, because the transaction may end between two batches
        const next = await this.#enter(undefined, () => this.#within(rows.next(), limit));
        if (next.done === true) {
          isDone = true;
          return;
        }
        yield next.value;
      }
    } finally {
      const leaving = isDone ? undefined : rows.return?.();
      if (leaving !== undefined) {
        if (this.#late > 0) this.#hold(leaving);
        else await this.#within(leaving, this.#callersEnding());
      }
    }
  }

  /** Runs `work` inside the transaction, where statements on the database itself are refused. @internal */
  surround<T>(work: () => T): T {
    return scopes.run({ root: this.#deps.root, transaction: this, outer: scopes.getStore() }, work);
  }

  /**
   * Runs the callback, then `commit` or `rollback`. Returns the callback's result. Rolls back without waiting
   * for a callback that has not settled at the limit.
   *
   * @internal
   */
  async drive<T>(fn: (tx: Transaction) => Awaitable<T>, end: End): Promise<T> {
    const { limit, clock } = this.#deps;
    let isLate = false;
    const onLate = (): void => {
      isLate = true;
    };
    let value: T;
    try {
      value = await (limit === undefined
        ? fn(this)
        : settledBy(Promise.resolve(fn(this)), limit, clock, onLate, CALLBACK));
    } catch (error) {
      throw await this.#undo(end, isLate, error);
    }
    this.#isOver = true;
    try {
      if (this.#inFlight > 0) await settledBy(this.#settle(), this.#callersEnding(), clock, onLate);
      const committing = end.commit(this.#ending());
      if (committing instanceof Promise) await this.#committed(committing);
    } catch (error) {
      throw await this.#undo(end, isLate, atCaller(error));
    }
    return value;
  }

  async #enter<T>(
    options: QueryOptions | undefined,
    work: Work<T>,
    defaultMs: number = this.#deps.statementTimeoutMs,
    isCallback: boolean = false,
  ): Promise<T> {
    if (this.#isOver) throw atCaller(new SvcError('E_DB_OVER', []));
    this.#inFlight++;
    try {
      const { clock, connection, limit: outer } = this.#deps;
      const limit = limitOf(options, defaultMs, clock, outer);
      while (this.#nested !== undefined)
        // wait in a loop: when one nested transaction ends, another waiting caller may begin the next one
        await settledBy(this.#waitFor(this.#nested), limit, clock, () => undefined);
      checkLimit(limit, clock);
      const result = work(connection, limit);
      if (!(result instanceof Promise)) return result;
      return await (isCallback ? result : this.#within(result, limit));
    } catch (error) {
      throw atCaller(error);
    } finally {
      this.#leave();
    }
  }

  #leave(): void {
    this.#inFlight--;
    if (this.#inFlight > 0) return;
    this.#idle?.resolve();
    this.#idle = undefined;
  }

  /**
   * Waits for `work` until the limit. If `work` takes longer, the connection stays in use until `work`
   * settles.
   */
  #within<T>(work: Promise<T>, limit: Limit | undefined): Promise<T> {
    return settledBy(work, limit, this.#deps.clock, (late) => this.#hold(late));
  }

  #hold(late: Promise<unknown>): void {
    this.#inFlight++;
    this.#late++;
    const settled = (): void => {
      this.#late--;
      this.#leave();
    };
    late.then(settled, settled);
  }

  #waitFor(nested: Promise<void>): Promise<void> {
    const inner = innermost(this.#deps.root);
    if (inner !== undefined && inner.#isInside(this))
      throw new SvcError('E_DB_NESTED', [
        'a statement on the outer transaction must wait until the inner transaction has ended',
      ]);
    return nested;
  }

  #isInside(other: Transaction): boolean {
    const { outer } = this.#deps;
    return outer !== undefined && (outer === other || outer.#isInside(other));
  }

  async #nest<T>(fn: (tx: Transaction) => Awaitable<T>, limit: Limit | undefined): Promise<T> {
    const { connection, depth } = this.#deps;
    const name = `svc_${depth + 1}`;
    const ended = Promise.withResolvers<void>();
    this.#nested = ended.promise;
    let inner: Transaction | undefined;
    try {
      const marking = connection.savepoint(name, this.#ending());
      if (marking instanceof Promise) await this.#within(marking, this.#callersEnding());
      inner = new Transaction({ ...this.#deps, limit, depth: depth + 1, outer: this });
      return await inner.drive((tx) => tx.surround(() => fn(tx)), {
        commit: (last) => connection.releaseSavepoint(name, last),
        rollback: (last) => connection.rollbackTo(name, last),
      });
    } finally {
      const over = (): void => {
        this.#nested = undefined;
        ended.resolve();
      };
      if (inner?.behind === undefined) over();
      else this.#hold(inner.behind.then(over));
    }
  }

  /** Returns the time limit of COMMIT or ROLLBACK on the server. */
  #ending(): Limit | undefined {
    return endingLimit(this.#deps.limit, this.#deps.statementTimeoutMs, this.#deps.clock);
  }

  /**
   * Returns the time limit of the caller's wait for COMMIT or ROLLBACK: the rest of the transaction's limit,
   * or extra time if none is left.
   */
  #callersEnding(): Limit | undefined {
    const { limit, clock } = this.#deps;
    return limitReached(limit, clock) === undefined ? this.#callersLimit() : this.#ending();
  }

  #callersLimit(): Limit | undefined {
    const { limit, statementTimeoutMs, clock } = this.#deps;
    return limitOf(undefined, statementTimeoutMs, clock, limit);
  }

  #committed(committing: Promise<void>): Promise<void> {
    const { clock, depth, begin } = this.#deps;
    const onLate = (late: Promise<unknown>): void => this.#hold(late);
    return depth === 0 && !begin.isReadOnly
      ? committedBy(committing, this.#callersEnding(), clock, onLate)
      : settledBy(committing, this.#callersEnding(), clock, onLate);
  }

  /**
   * Rolls back after the running statements have ended. At the caller's time limit, the wait ends, and the
   * rollback continues in the background. Returns the error to throw.
   */
  async #undo(end: End, isLate: boolean, error: unknown): Promise<unknown> {
    this.#isOver = true;
    const undone = this.#settle().then(() => undo(end, this.#ending(), error));
    if (isLate || this.#late > 0) {
      this.#behind = undone;
      return error;
    }
    return settledBy(undone, this.#callersLimit(), this.#deps.clock, (late) => {
      this.#behind = late;
    }).catch(() => error); // the original error matters more than a failed rollback
  }

  /** Refuses new statements, and waits until all running statements have ended. */
  async #settle(): Promise<void> {
    this.#isOver = true;
    while (this.#inFlight > 0) await (this.#idle ??= Promise.withResolvers()).promise;
  }
}

/** Waits for COMMIT until the limit. After the limit, throws CommitOutcomeUnknown. */
async function committedBy(
  committing: Promise<void>,
  limit: Limit | undefined,
  clock: Clock,
  onLate: (late: Promise<unknown>) => void,
): Promise<void> {
  let isLate = false;
  try {
    await settledBy(committing, limit, clock, (late) => {
      isLate = true;
      onLate(late);
    });
  } catch (cause) {
    if (!isLate) throw cause;
    throw new CommitOutcomeUnknown(
      'The server did not respond to COMMIT in time, so it is unknown whether the transaction was committed',
      { sql: 'commit', cause },
    );
  }
}

/**
 * Rolls back because of `error`, and returns `error`. If the rollback also fails, its error is added to the
 * causes of `error`.
 */
async function undo(end: Pick<End, 'rollback'>, limit: Limit | undefined, error: unknown): Promise<unknown> {
  try {
    await end.rollback(limit);
    return error;
  } catch (failure) {
    return errorAfter(error, failure);
  }
}
