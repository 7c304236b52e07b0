/**
 * Many waits of one length with one timer: as each new one ends last, they stand in a row, and only the first has to be watched.
 *
 *   add -> ... -> the oldest        the timer is set for that one; when it is gone, it is set anew as soon as it goes off
 *
 * A timer of the clock for each request costs two to four times as much, and most are never due.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';

/** One wait: a link of a ring that begins and ends at the one that is nobody's. */
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

/*
 * Bodies whose route gives them less time than the server does: node:http knows one `requestTimeout`, the longest of all.
 *
 * They are looked at together, once in a while, as node:http looks at connections: a timer for each would cost every upload.
 */

/** How often they are looked at. */
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

  /** Watches a body that has not come whole, until then. */
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
