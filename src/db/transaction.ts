/**
 * Transactions: a callback's handle, dead when the callback settles; inside it savepoints; and who may use which handle where.
 *
 * A context variable is entered for the callback only. By it a statement on the database itself, or on an outer handle, is
 * recognised inside the callback, where it would wait for its own transaction to end, or quietly not be part of it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { SvcError, errorAfter } from '../base/errors.ts';
import { atCaller } from './errors.ts';
import { endingLimit, limitOf, limitReached, type QueryOptions } from './limits.ts';
import { Session, type OpenStream, type Work } from './session.ts';
import type { Clock } from '../base/clock.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { Connection, Dialect, Isolation, Limit, Purpose, Row } from './driver.ts';

/** How a transaction is run. */
export interface TransactionOptions {
  /** At least this; the engine's default is used without it. SQLite is always serializable. */
  readonly isolation?: Isolation | undefined;
  /** Refuses writes, and lets an engine read beside its writers. Default false. */
  readonly readOnly?: boolean | undefined;
  /** How often the callback is run again after a serialization failure, a deadlock or a lock timeout, 0 ... 100. Default 0. */
  readonly retries?: number | undefined;
  /** Bounds the waiting and each statement; the callback itself is not interrupted. `timeoutMs` bounds its end, too, which has at least 5 seconds. */
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number | undefined;
}

/** One transaction, or the callback's part of one, that runs in a context. */
interface Scope {
  readonly root: object;
  readonly transaction: Transaction;
  readonly outer: Scope | undefined;
}

const scopes = new AsyncLocalStorage<Scope>();

/** Throws when one of the root's transactions is open in this context. @internal */
export function refuseInsideTransaction(root: object): void {
  if (innermost(root) !== undefined)
    throw new SvcError('E_DB_NESTED', ['the database itself', 'the statement would not be part of it']);
}

function innermost(root: object): Transaction | undefined {
  for (let scope = scopes.getStore(); scope !== undefined; scope = scope.outer) {
    if (scope.root === root && !scope.transaction.isOver) return scope.transaction;
  }
  return undefined;
}

/** How a transaction ends, one way or the other. @internal */
export type End = Pick<Connection, 'commit' | 'rollback'>;

/** What a transaction needs. @internal */
interface TransactionDeps {
  readonly root: object;
  readonly connection: Connection;
  readonly dialect: Dialect;
  readonly clock: Clock;
  readonly limit: Limit | undefined;
  /** `timeoutMs` of every statement that says none; 0 for none. */
  readonly statementTimeoutMs: number;
  readonly depth: number;
  readonly outer?: Transaction | undefined;
}

/** A transaction that is open, for as long as its callback runs. */
export class Transaction extends Session {
  readonly dialect: Dialect;
  readonly #deps: TransactionDeps;
  #isOver = false;
  #inFlight = 0;
  #idle: PromiseWithResolvers<void> | undefined;
  /** Settles when the nested transaction that runs now has ended. */
  #nested: Promise<void> | undefined;

  /** @internal */
  constructor(deps: TransactionDeps) {
    super();
    this.#deps = deps;
    this.dialect = deps.dialect;
  }

  /** Whether its callback has settled. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * A transaction inside this one, by a savepoint: when `fn` throws, only what it did is undone. While it runs, statements on
   * this handle wait. Inside `fn` use the handle it is given.
   *
   * @throws SvcError `E_DB_OVER`, `E_DB_NESTED`
   */
  transaction<T>(fn: (tx: Transaction) => Awaitable<T>, options?: QueryOptions): Promise<T> {
    return this.#enter(options, (_connection, limit) => this.#nest(fn, limit), 0);
  }

  /** @internal */
  run<T>(_purpose: Purpose, work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    return this.#enter(options, work);
  }

  /** @internal */
  whole<T>(work: Work<T>, options: QueryOptions | undefined): Promise<T> {
    return this.transaction((inner) => inner.run('statement', work, undefined), options);
  }

  /** @internal */
  async *batches(
    open: OpenStream,
    options: QueryOptions | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const rows = await this.#enter(options, (connection, limit) =>
      open(connection, limit)[Symbol.asyncIterator](),
    );
    let isDone = false;
    try {
      for (;;) {
        const next = await this.#enter(undefined, () => rows.next()); // between two batches it may end, and waits for nobody
        if (next.done === true) {
          isDone = true;
          return;
        }
        yield next.value;
      }
    } finally {
      if (!isDone) await rows.return?.();
    }
  }

  /** Runs the callback, then `commit` or `rollback`, and gives what it gave. @internal */
  async drive<T>(fn: (tx: Transaction) => Awaitable<T>, end: End): Promise<T> {
    let value: T;
    try {
      value = await scopes.run(
        { root: this.#deps.root, transaction: this, outer: scopes.getStore() },
        fn,
        this,
      );
    } catch (error) {
      await this.#settle();
      throw await undo(end, this.#ending(), error);
    }
    this.#isOver = true;
    if (this.#inFlight > 0) await this.#settle();
    try {
      const committing = end.commit(this.#ending());
      if (committing instanceof Promise) await committing;
    } catch (error) {
      throw await undo(end, this.#ending(), atCaller(error));
    }
    return value;
  }

  async #enter<T>(
    options: QueryOptions | undefined,
    work: Work<T>,
    defaultMs: number = this.#deps.statementTimeoutMs,
  ): Promise<T> {
    if (this.#isOver) throw atCaller(new SvcError('E_DB_OVER', []));
    this.#inFlight++;
    try {
      const { clock, connection, limit: outer } = this.#deps;
      const limit =
        options === undefined && outer === undefined && defaultMs === 0
          ? undefined
          : limitOf(options, defaultMs, clock, outer);
      while (this.#nested !== undefined) await this.#waitFor(this.#nested); // looked at again: whoever waited longer may have begun another
      const reached = limitReached(limit, clock);
      if (reached !== undefined) throw reached;
      const result = work(connection, limit);
      return result instanceof Promise ? await result : result;
    } catch (error) {
      throw atCaller(error);
    } finally {
      this.#inFlight--;
      if (this.#inFlight === 0) this.#idle?.resolve();
    }
  }

  #waitFor(nested: Promise<void>): Promise<void> {
    const inner = innermost(this.#deps.root);
    if (inner !== undefined && inner.#isInside(this))
      throw new SvcError('E_DB_NESTED', [
        'the handle of the outer transaction',
        'the statement would wait for it to end',
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
    try {
      await connection.savepoint(name, this.#ending());
      const inner = new Transaction({ ...this.#deps, limit, depth: depth + 1, outer: this });
      return await inner.drive(fn, {
        commit: (last) => connection.releaseSavepoint(name, last),
        rollback: (last) => connection.rollbackTo(name, last),
      });
    } finally {
      this.#nested = undefined;
      ended.resolve();
    }
  }

  #ending(): Limit | undefined {
    return endingLimit(this.#deps.limit, this.#deps.statementTimeoutMs, this.#deps.clock);
  }

  /** From now on it is dead; what was under way is waited for, whether somebody awaits it or not. */
  async #settle(): Promise<void> {
    this.#isOver = true;
    while (this.#inFlight > 0) {
      this.#idle = Promise.withResolvers();
      await this.#idle.promise;
    }
  }
}

/**
 * Rolls back because of `error`, and returns what is to be thrown: `error`, whose chain of causes ends with the failure of the rollback
 * where that fails. A connection that cannot roll back is not lent again. @internal
 */
export async function undo(
  end: Pick<End, 'rollback'>,
  limit: Limit | undefined,
  error: unknown,
): Promise<unknown> {
  try {
    await end.rollback(limit);
    return error;
  } catch (failure) {
    return errorAfter(error, failure);
  }
}
