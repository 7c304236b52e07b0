/**
 * A clock that moves only on demand, for tests of code that takes a `Clock`.
 */
import { sleepUntil } from './clock.ts';
import { nextTurn } from './promises.ts';
import type { Clock } from './clock.ts';

/** Default start: Monday, 2024-01-01T00:00:00Z. Tests need only a fixed moment. */
const START_MS = 1_704_067_200_000;

interface Timer {
  readonly dueMs: number;
  readonly fn: () => void;
}

/**
 * A clock whose time passes only when {@link ManualClock.advance} or {@link ManualClock.pass} is called. It
 * never sleeps, and its timers do not keep the process alive.
 */
export class ManualClock implements Clock {
  #wallMs: number;
  #elapsedMs = 0;
  readonly #timers = new Set<Timer>();

  /** `startMs`: milliseconds since the epoch. */
  constructor(startMs: number = START_MS) {
    this.#wallMs = startMs;
  }

  /** Number of waiting timers. 0 at the end of a test means that all were cleaned up. */
  get pending(): number {
    return this.#timers.size;
  }

  nowMs(): number {
    return this.#wallMs;
  }

  nowMicros(): number {
    return this.#wallMs * 1000;
  }

  monotonicMs(): number {
    return this.#elapsedMs;
  }

  after(ms: number, fn: () => void): Disposable {
    const timer = { dueMs: this.#elapsedMs + Math.max(0, ms), fn };
    this.#timers.add(timer);
    return { [Symbol.dispose]: () => void this.#timers.delete(timer) };
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return sleepUntil((done) => this.after(ms, done), signal);
  }

  /**
   * Moves the time by `ms` and fires due timers in order, each at its own time. After each timer, and at the
   * end, the event loop turns once. So code that waits for a timer runs, and may set new timers.
   */
  async advance(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms;
    for (let timer = this.#nextUntil(endMs); timer !== undefined; timer = this.#nextUntil(endMs)) {
      this.#timers.delete(timer);
      this.#moveTo(Math.max(this.#elapsedMs, timer.dueMs));
      timer.fn();
      await nextTurn();
    }
    this.#moveTo(Math.max(this.#elapsedMs, endMs));
    await nextTurn();
  }

  /**
   * Moves the time by `ms`, like {@link ManualClock.advance}. So code that calls pass() does not wait, and
   * its test need not move the clock.
   */
  pass(ms: number): Promise<void> {
    return this.advance(ms);
  }

  /** Sets the wall clock, as an administrator would. Neither timers nor monotonicMs() are affected. */
  setWallMs(epochMs: number): void {
    this.#wallMs = epochMs;
  }

  #moveTo(elapsedMs: number): void {
    this.#wallMs += elapsedMs - this.#elapsedMs;
    this.#elapsedMs = elapsedMs;
  }

  #nextUntil(endMs: number): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      // if several timers have the same time, the one that was set first is chosen, because a Set keeps the
      // order of its members
      if (timer.dueMs <= endMs && (next === undefined || timer.dueMs < next.dueMs)) next = timer;
    }
    return next;
  }
}
