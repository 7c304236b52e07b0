/**
 * Queue of callers that wait for a connection, first come, first served, each with a time limit. A caller
 * whose limit is reached leaves the queue at once, so the queue does not grow while a server is down.
 */
import { watchLimit } from './limits.ts';
import type { Clock } from '../base/clock.ts';
import type { Caller } from './errors.ts';
import type { Limit } from './driver.ts';

interface Waiter<T> {
  readonly resolve: (value: T) => void;
  readonly reject: (error: unknown) => void;
  /** Stack of the caller, for reports of connections that were not returned. */
  readonly caller: Caller | undefined;
  readonly expiresMs: number;
  watched: Disposable | undefined;
  before: Waiter<T> | undefined;
  after: Waiter<T> | undefined;
}

interface WaitersDeps {
  readonly clock: Clock;
  readonly timeoutMs: number;
  readonly timedOut: () => Error;
  /** Called when a caller leaves the queue because of its limit or the timeout. */
  readonly onLeave?: () => void;
}

/** Keeps the process alive, because a caller waits. */
const REF = { ref: true };

/** Queue of callers that wait for a connection. All callers have the same timeout, so one timer is enough. */
export class Waiters<T> {
  readonly #options: WaitersDeps;
  #first: Waiter<T> | undefined;
  #last: Waiter<T> | undefined;
  /** Number of waiting callers. Must not be set from outside. */
  size = 0;
  #timer: Disposable | undefined;

  constructor(options: WaitersDeps) {
    this.#options = options;
  }

  /**
   * Adds a caller to the queue. The promise rejects at the timeout or when the limit is reached, whichever
   * comes first.
   */
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
    this.#timer ??= clock.after(timeoutMs, this.#onTime, REF);
    const watched = watchLimit(limit, clock, (error) => this.#giveUp(waiter, error));
    if (this.#isIn(waiter)) waiter.watched = watched;
    return promise;
  }

  shift(): Waiter<T> | undefined {
    const waiter = this.#first;
    if (waiter !== undefined) this.#leave(waiter);
    return waiter;
  }

  rejectAll(error: () => unknown): void {
    for (let waiter = this.shift(); waiter !== undefined; waiter = this.shift()) waiter.reject(error());
  }

  readonly #onTime = (): void => {
    this.#timer = undefined;
    const { clock, timedOut } = this.#options;
    const nowMs = clock.monotonicMs();
    while (this.#first !== undefined && this.#first.expiresMs <= nowMs) {
      // leave the queue only after the error is created, so that the count in the error includes this caller
      this.#giveUp(this.#first, timedOut());
    }
    if (this.#first !== undefined)
      this.#timer = clock.after(Math.ceil(this.#first.expiresMs - nowMs), this.#onTime, REF);
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
    if (this.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }
}
