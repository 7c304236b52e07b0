/**
 * Many waits of one length with one timer: as each new one ends last, they stand in a row, and only the first has to be watched.
 *
 *   add → … → the oldest        the timer is set for that one; when it is gone, it is set anew as soon as it goes off
 *
 * A timer of the clock for each request costs two to four times as much (test/bench/resilience.ts), and most are never due.
 */
import type { Clock } from '../clock.ts';

/** One wait: a link of a ring that begins and ends at the one that is nobody's. */
export class Wait {
  /** @internal */
  previous: Wait = this;
  /** @internal */
  next: Wait = this;
  readonly dueMs: number;
  readonly onDue: () => void;

  constructor(dueMs: number, onDue: () => void) {
    this.dueMs = dueMs;
    this.onDue = onDue;
  }

  /** Ends it. Whether it was still waiting. */
  end(): boolean {
    if (this.next === this) return false;
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this.next = this;
    return true;
  }
}

/** Timers go off in whole milliseconds, and may so be early by a part of one. */
const EARLY_MS = 1;

/** Waits of `ms` milliseconds. */
export class Deadlines {
  readonly #ms: number;
  readonly #clock: Clock;
  readonly #ring: Wait = new Wait(Infinity, () => undefined);
  #isArmed = false;

  constructor(ms: number, clock: Clock) {
    this.#ms = ms;
    this.#clock = clock;
  }

  /** Calls `onDue` once, unless it is ended before. */
  add(onDue: () => void): Wait {
    const ring = this.#ring;
    const wait = new Wait(this.#clock.monotonicMs() + this.#ms, onDue);
    wait.next = ring;
    wait.previous = ring.previous;
    ring.previous.next = wait;
    ring.previous = wait;
    if (!this.#isArmed) this.#arm(this.#ms);
    return wait;
  }

  #arm(ms: number): void {
    this.#isArmed = true;
    this.#clock.after(ms, () => this.#onTimer());
  }

  #onTimer(): void {
    this.#isArmed = false;
    const nowMs = this.#clock.monotonicMs();
    let first = this.#ring.next;
    for (; first.dueMs <= nowMs + EARLY_MS; first = this.#ring.next) {
      first.end();
      first.onDue();
    }
    if (first !== this.#ring && !this.#isArmed) this.#arm(first.dueMs - nowMs);
  }
}
