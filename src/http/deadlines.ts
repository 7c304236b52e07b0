/**
 * Many waits of equal length with one timer. Each new wait ends last, so they form a queue, and only its head needs a timer.
 *
 *   add -> ... -> the oldest        has the timer; when it ends early, the timer is set again as soon as it fires
 *
 * A timer for each request costs two to four times as much, and most never fire.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';

/** One wait: a link of a ring around a sentinel. */
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

  /** Ends the wait. Returns whether it was still waiting. */
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

/*
 * Time limits of bodies on routes with less time than the server's: node:http knows only one `requestTimeout`, the longest.
 *
 * They are checked together periodically, as node:http checks connections: a timer for each would slow every upload.
 */

/** Interval of the checks. */
const LOOK_MS = 1_000;

/** The bodies under way of one server. */
export class BodyDeadlines {
  readonly #clock: Clock;
  readonly #onLate: (socket: Socket) => void;
  readonly #dueMs = new Map<IncomingMessage, number>();

  /** `onLate` is given the connection of a body that takes too long. */
  constructor(clock: Clock, onLate: (socket: Socket) => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  /** Watches a body until it is complete. */
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
