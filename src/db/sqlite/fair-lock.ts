/**
 * Semaphore with a bounded queue: a limited number of callers hold a permit. Other callers wait in the order
 * of their calls, with a time limit.
 */
import { PoolTimeout } from '../errors.ts';
import { Waiters } from '../waiters.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** Options of a lock. */
interface FairLockDeps {
  /** Name of the resource, for messages: `the writing connection`. */
  readonly what: string;
  /** Text added to the message when a caller waited too long. */
  readonly hint?: string | undefined;
  readonly permits: number;
  readonly maxWaiting: number;
  readonly acquireTimeoutMs: number;
  readonly clock: Clock;
}

/** Lends a limited number of permits, first come, first served. */
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
   * Takes a permit. Returns undefined when one is free, else a promise that resolves when one becomes free.
   *
   * @throws PoolTimeout when too many callers wait, or the wait is too long; the error of {@link close};
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

  /** Returns a permit: the caller that has waited longest gets it. */
  give(): void {
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve();
    this.#waiters.end();
    this.#free++;
    if (this.inUse === 0) this.#drained?.resolve();
  }

  /**
   * Makes later calls of `take` throw the error; callers that already wait still get their permits. Resolves
   * when all permits are returned.
   */
  async close(error: () => unknown): Promise<void> {
    this.#closed = error;
    if (this.inUse > 0) await (this.#drained ??= Promise.withResolvers()).promise;
  }
}

function timeout(problem: string): PoolTimeout {
  return new PoolTimeout(`No connection to the database: ${problem}`, { sqlstate: '53300' });
}
