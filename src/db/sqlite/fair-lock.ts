/**
 * A fair lock: a limited number of holders. Further callers wait in order, up to a number and a time.
 */
import { PoolTimeout } from '../errors.ts';
import { Waiters } from '../waiters.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** Options of a lock. */
interface FairLockDeps {
  /** Name of the resource in messages: `the writing connection`. */
  readonly what: string;
  /** Text that is added to the message of a timeout. */
  readonly hint?: string | undefined;
  readonly permits: number;
  readonly maxWaiting: number;
  readonly acquireTimeoutMs: number;
  readonly clock: Clock;
}

/** A queue for a resource with a limited number of holders. */
export class FairLock {
  readonly #deps: FairLockDeps;
  readonly #waiters: Waiters<void>;
  #free: number;
  #closed: (() => unknown) | undefined;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(deps: FairLockDeps) {
    const { what, hint = '', permits, acquireTimeoutMs, clock } = deps;
    this.#deps = deps;
    this.#free = permits;
    this.#waiters = new Waiters({
      clock,
      timeoutMs: acquireTimeoutMs,
      timedOut: () =>
        timeout(`${what} was not free within ${acquireTimeoutMs} ms, ${this.waiting} callers wait${hint}`),
    });
  }

  get waiting(): number {
    return this.#waiters.size;
  }
  get inUse(): number {
    return this.#deps.permits - this.#free;
  }

  /**
   * Acquires the lock: returns undefined at once if it is free, else a promise.
   *
   * @throws PoolTimeout when too many callers wait, or the wait takes too long; the error of {@link close};
   * QueryCanceled, QueryTimeout
   */
  take(limit: Limit | undefined): Promise<void> | undefined {
    if (this.#closed !== undefined) throw this.#closed();
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    const { what, maxWaiting } = this.#deps;
    if (this.waiting >= maxWaiting) throw timeout(`${this.waiting} callers wait for ${what} already`);
    return this.#waiters.add(limit, undefined);
  }

  /** Passes the lock to the caller that has waited longest. */
  give(): void {
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve();
    this.#waiters.end();
    this.#free++;
    if (this.inUse === 0) this.#drained?.resolve();
  }

  /**
   * Lets later calls of `take` throw the result of `error`. Waiting callers still get the lock. Resolves when
   * all holders have released it.
   */
  async close(error: () => unknown): Promise<void> {
    this.#closed = error;
    if (this.inUse > 0) await (this.#drained ??= Promise.withResolvers()).promise;
  }
}

function timeout(problem: string): PoolTimeout {
  return new PoolTimeout(`No connection to the database: ${problem}`, { sqlstate: '53300' });
}
