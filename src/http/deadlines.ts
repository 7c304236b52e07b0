/**
 * Many timeouts of equal length with one timer. They end in the order in which they were added, so they form
 * a queue, and only the first of the queue needs a timer.
 *
 * The queue:
 *   add -> ... -> the oldest        has the timer; when it ends early, the timer is set again as soon as it fires
 *
 * A timer for each request would cost two to four times as much, although most timeouts are ended before they
 * fire.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';

/** One timeout: an entry of a doubly linked ring that begins with a sentinel. */
class Wait {
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

  /** Ends the timeout. Returns false if it has ended before. */
  end(): boolean {
    if (this.next === this) return false;
    this.previous.next = this.next;
    this.next.previous = this.previous;
    this.previous = this.next = this;
    return true;
  }
}

/** Timers fire in whole milliseconds, so they may be early by a fraction of one. */
const EARLY_MS = 1;

/** A queue of timeouts of `ms` milliseconds. */
export class Deadlines {
  readonly #ms: number;
  readonly #clock: Clock;
  readonly #ring: Wait = new Wait(Infinity, () => undefined);
  #isArmed = false;

  constructor(ms: number, clock: Clock) {
    this.#ms = ms;
    this.#clock = clock;
  }

  /** Starts a timeout. Calls `onDue` once, unless the returned timeout is ended before. */
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

/*
 * Time limits for receiving a body, on routes whose limit is shorter than the server's: node:http has only
 * one `requestTimeout`, which is the longest of all.
 *
 * One timer checks all bodies periodically, as node:http checks connections: a timer for each body would slow
 * every upload.
 */

/** Interval of the checks in milliseconds. */
const LOOK_MS = 1_000;

/** The bodies that one server is receiving. */
export class BodyDeadlines {
  readonly #clock: Clock;
  readonly #onLate: (socket: Socket) => void;
  readonly #dueMs = new Map<IncomingMessage, number>();

  /** `onLate` is given the connection of a body that takes too long. */
  constructor(clock: Clock, onLate: (socket: Socket) => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  /** Watches a body until it is complete. `dueMs`: time of the monotonic clock when it is late. */
  watch(incoming: IncomingMessage, dueMs: number): void {
    if (this.#dueMs.size === 0) this.#clock.after(LOOK_MS, () => this.#look());
    this.#dueMs.set(incoming, dueMs);
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [incoming, dueMs] of this.#dueMs) {
      if (!incoming.complete && !incoming.destroyed && nowMs < dueMs) continue;
      this.#dueMs.delete(incoming);
      if (!incoming.complete && !incoming.destroyed) this.#onLate(incoming.socket);
    }
    if (this.#dueMs.size > 0) this.#clock.after(LOOK_MS, () => this.#look());
  }
}
