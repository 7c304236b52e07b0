/**
 * Bodies whose route gives them less time than the server does: node:http knows one `requestTimeout`, the longest of all.
 *
 * They are looked at together, once in a while, as node:http looks at connections: a timer for each would cost every upload.
 */
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../clock.ts';

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
