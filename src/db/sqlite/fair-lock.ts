/**
 * Turns: so many may be taken at once, the others wait in the order in which they came, for so long, and so many of them.
 */
import { PoolTimeout, type DatabaseError } from '../errors.ts';
import { watchLimit } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';

/** How turns are given. */
interface FairLockDeps {
  /** What is waited for, for messages: `the writing connection`. */
  readonly what: string;
  readonly permits: number;
  readonly maxWaiting: number;
  readonly acquireTimeoutMs: number;
  readonly clock: Clock;
}

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
  readonly timers: (Disposable | undefined)[];
  next: Waiter | undefined;
  isGone: boolean;
}

/** A queue for something that only so many can have. */
export class FairLock {
  readonly #options: FairLockDeps;
  #free: number;
  #waiting = 0;
  /** Those who gave up stay linked until it would be their turn. */
  #first: Waiter | undefined;
  #last: Waiter | undefined;
  #closed: (() => unknown) | undefined;
  #drained: PromiseWithResolvers<void> | undefined;

  constructor(options: FairLockDeps) {
    this.#options = options;
    this.#free = options.permits;
  }

  get waiting(): number {
    return this.#waiting;
  }
  get inUse(): number {
    return this.#options.permits - this.#free;
  }

  /**
   * Takes a turn: at once without a promise, or when it comes.
   *
   * @throws PoolTimeout when too many wait, or it takes too long; what `close` was told; QueryCanceled, QueryTimeout
   */
  take(limit: Limit | undefined): Promise<void> | undefined {
    if (this.#closed !== undefined) throw this.#closed();
    if (this.#free > 0) {
      this.#free--;
      return undefined;
    }
    const { what, maxWaiting } = this.#options;
    if (this.#waiting >= maxWaiting) throw this.#timeout(`${this.#waiting} callers wait for ${what} already`);
    return this.#wait(limit);
  }

  /** Gives the turn to whoever waits longest. */
  give(): void {
    for (let waiter = this.#shift(); waiter !== undefined; waiter = this.#shift()) {
      if (waiter.isGone) continue;
      this.#leave(waiter);
      waiter.resolve();
      return;
    }
    this.#free++;
    if (this.#free === this.#options.permits) this.#drained?.resolve();
  }

  /** From now on `take` throws what `error` makes; those who wait already get their turns. Resolves when all turns are given back. */
  async close(error: () => unknown): Promise<void> {
    this.#closed = error;
    if (this.#free === this.#options.permits) return;
    this.#drained ??= Promise.withResolvers();
    await this.#drained.promise;
  }

  async #wait(limit: Limit | undefined): Promise<void> {
    const { what, acquireTimeoutMs, clock } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const waiter: Waiter = { resolve, reject, timers: [], next: undefined, isGone: false };
    const giveUp = (error: DatabaseError): void => {
      this.#leave(waiter);
      reject(error);
    };
    if (this.#last === undefined) this.#first = this.#last = waiter;
    else this.#last = this.#last.next = waiter;
    this.#waiting++;
    waiter.timers.push(
      clock.after(acquireTimeoutMs, () =>
        giveUp(
          this.#timeout(`${what} was not free within ${acquireTimeoutMs} ms, ${this.#waiting} callers wait`),
        ),
      ),
    );
    waiter.timers.push(watchLimit(limit, clock, giveUp));
    await promise;
  }

  #leave(waiter: Waiter): void {
    waiter.isGone = true;
    this.#waiting--;
    for (const timer of waiter.timers) timer?.[Symbol.dispose]();
  }

  #shift(): Waiter | undefined {
    const waiter = this.#first;
    this.#first = waiter?.next;
    if (this.#first === undefined) this.#last = undefined;
    return waiter;
  }

  #timeout(problem: string): PoolTimeout {
    return new PoolTimeout(`No connection to the database: ${problem}`, { sqlstate: '53300' });
  }
}
