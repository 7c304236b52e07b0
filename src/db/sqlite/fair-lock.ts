/**
 * Semaphore with a bounded queue. At most a fixed number of callers hold a permit at the same time. Other
 * callers wait in the order of their calls, with a time limit.
 */
import { PoolTimeout } from '../errors.ts';
import { Waiters } from '../waiters.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

interface FairLockDeps {
  /** Name of the resource in messages, for example `the writing connection`. */
  readonly what: string;
  /** Advice in the error message for a caller that has waited too long. */
  readonly hint?: string | undefined;
  readonly permits: number;
  readonly maxWaiting: number;
  readonly acquireTimeoutMs: number;
  readonly clock: Clock;
}

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
        timeout(
          `${what} did not become free within ${acquireTimeoutMs} ms, and ${this.waiting} waiting${hint}`,
        ),
    });
  }

  get waiting(): number {
    return this.#waiters.size;
  }
  get inUse(): number {
    return this.#deps.permits - this.#free;
  }

  /**
   * Takes a permit. Returns undefined if a permit is free. Otherwise returns a promise that resolves when the
   * caller gets a permit.
   *
   * @throws PoolTimeout when too many callers wait, or when the wait is too long; the error that was passed
   *   to {@link close}; QueryCanceled or QueryTimeout when `limit` is reached
   */
  take(limit: Limit | undefined): Promise<void> | undefined {
    if (this.#closed !== undefined) throw this.#closed();
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    const { what, maxWaiting } = this.#deps;
    if (this.waiting >= maxWaiting)
      throw timeout(`${this.waiting} callers already wait for ${what}, and "maxWaiting" allows no more`);
    return this.#waiters.add(limit, undefined);
  }

  /** Returns a permit. The caller that has waited longest gets it. */
  give(): void {
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve();
    this.#free++;
    if (this.inUse === 0) this.#drained?.resolve();
  }

  /**
   * Makes later calls of `take` throw `error()`. Callers that already wait still get their permits. Resolves
   * when all permits are returned.
   */
  async close(error: () => unknown): Promise<void> {
    this.#closed = error;
    if (this.inUse > 0) await (this.#drained ??= Promise.withResolvers()).promise;
  }
}

function timeout(problem: string): PoolTimeout {
  return new PoolTimeout(`No connection to the database: ${problem}`);
}
