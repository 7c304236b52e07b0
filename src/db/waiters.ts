/**
 * Callers that wait for a connection, first come, first served, each for so long. Whoever gives up leaves the queue at once:
 * a server that is down for hours leaves nothing behind here.
 */
import { watchLimit } from './limits.ts';
import type { Clock } from '../base/clock.ts';
import type { Caller } from './errors.ts';
import type { Limit } from './driver.ts';

/** One of those who wait. */
interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
  /** Where it waits, for reports. */
  readonly caller: Caller | undefined;
  readonly expiresMs: number;
  watched: Disposable | undefined;
  before: Waiter<T> | undefined;
  after: Waiter<T> | undefined;
}

/** What is thrown at those who wait too long, and how long that is. */
interface WaitersDeps {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly timedOut: () => Error;
  /** Told whenever somebody has given up. */
  readonly onLeave?: () => void;
}

/** The queue. One timer is enough for it, since all wait equally long. */
export class Waiters<T> {
  readonly #options: WaitersDeps;
  #first: Waiter<T> | undefined;
  #last: Waiter<T> | undefined;
  /** How many wait. Read only. */
  size = 0;
  #timer: Disposable | undefined;

  constructor(options: WaitersDeps) {
    this.#options = options;
  }

  /** Joins the queue. Rejects when the time is over or the limit is reached, whichever comes first. */
  add(limit: Limit | undefined, caller: Caller | undefined): Promise<T> {
    const { clock, timeoutMs } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const waiter: Waiter<T> = {
      resolve,
      reject,
      caller,
      expiresMs: clock.monotonicMs() + timeoutMs,
      watched: undefined,
      before: this.#last,
      after: undefined,
    };
    if (this.#last === undefined) this.#first = waiter;
    else this.#last.after = waiter;
    this.#last = waiter;
    this.size++;
    this.#timer ??= clock.after(timeoutMs, this.#onTime);
    const watched = watchLimit(limit, clock, (error) => this.#giveUp(waiter, error));
    if (this.#isIn(waiter)) waiter.watched = watched;
    return promise;
  }

  /** Takes out whoever has waited longest. */
  shift(): Waiter<T> | undefined {
    const waiter = this.#first;
    if (waiter !== undefined) this.#leave(waiter);
    return waiter;
  }

  /** Sends all of them away. */
  rejectAll(error: () => unknown): void {
    for (let waiter = this.shift(); waiter !== undefined; waiter = this.shift()) waiter.reject(error());
  }

  /** Nobody will wait any more. The timer is left alone until then: setting it anew for each caller would cost more. */
  end(): void {
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  readonly #onTime = (): void => {
    this.#timer = undefined;
    const { clock, timedOut } = this.#options;
    const nowMs = clock.monotonicMs();
    while (this.#first !== undefined && this.#first.expiresMs <= nowMs) {
      this.#giveUp(this.#first, timedOut()); // told while it is still counted among those who wait
    }
    if (this.#first !== undefined)
      this.#timer = clock.after(Math.ceil(this.#first.expiresMs - nowMs), this.#onTime);
  };

  #giveUp(waiter: Waiter<T>, error: Error): void {
    this.#leave(waiter);
    waiter.reject(error);
    this.#options.onLeave?.();
  }

  #isIn(waiter: Waiter<T>): boolean {
    return waiter.before !== undefined || this.#first === waiter;
  }

  #leave(waiter: Waiter<T>): void {
    if (!this.#isIn(waiter)) return;
    const { before, after } = waiter;
    if (before === undefined) this.#first = after;
    else before.after = after;
    if (after === undefined) this.#last = before;
    else after.before = before;
    waiter.before = waiter.after = undefined;
    this.size--;
    waiter.watched?.[Symbol.dispose]();
  }
}
