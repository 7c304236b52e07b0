/**
 * Turns: so many may be taken at once, other callers wait in the order in which they came, for so long, and so many of them.
 */
import { PoolTimeout } from '../errors.ts';
import { Waiters } from '../waiters.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** How turns are given. */
interface FairLockDeps {
  /** The thing that is waited for, for messages: `the writing connection`. */
  readonly what: string;
  /** Added to the message when a turn does not come in time. */
  readonly hint?: string | undefined;
  readonly permits: number;
  readonly maxWaiting: number;
  readonly acquireTimeoutMs: number;
  readonly clock: Clock;
}

/** A queue for something that only so many can have. */
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
   * Takes a turn: at once without a promise, or when it comes.
   *
   * @throws PoolTimeout when too many wait, or it takes too long; the error of {@link close}; QueryCanceled, QueryTimeout
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

  /** Gives the turn to the caller that waits longest. */
  give(): void {
    const waiter = this.#waiters.shift();
    if (waiter !== undefined) return waiter.resolve();
    this.#waiters.end();
    this.#free++;
    if (this.inUse === 0) this.#drained?.resolve();
  }

  /** From now on `take` throws what `error` makes; callers that wait already get their turns. Resolves when all turns are given back. */
  async close(error: () => unknown): Promise<void> {
    this.#closed = error;
    if (this.inUse > 0) await (this.#drained ??= Promise.withResolvers()).promise;
  }
}

function timeout(problem: string): PoolTimeout {
  return new PoolTimeout(`No connection to the database: ${problem}`, { sqlstate: '53300' });
}
