/**
 * Arrival of requests that are handled late, because the process is busy.
 *
 *   turn of the event loop  =  timers  poll (finds the sockets with data, then reads them)  setImmediate
 *
 * All requests that are read in one turn had arrived when the first of them was read, because the poll has
 * found their sockets before. How long bytes have waited before the poll is unknown: it is not counted,
 * because a request would seem to arrive earlier than it did.
 *
 * The turns are recorded by setImmediate(), only for a second after a caller has asked. The immediates are
 * unreferenced, so an idle process does not turn.
 */
import { nextTurn } from '../../base/promises.ts';
import type { Clock } from '../../base/clock.ts';
import type { TransportRequest } from '../request/request.ts';

/** Maximum difference in milliseconds between the arrival of a request and the time at which it was read. */
const MOST_MS = 250;
const WATCH_MS = 1_000;
/** Time limit of {@link Arrivals.readSockets} in milliseconds. */
const MOST_READING_MS = 100;
/** Number of recorded turns. Requests that were read earlier count as not delayed. */
const TURNS = 256;

interface ArrivalsDeps {
  readonly clock: Pick<Clock, 'monotonicMs'>;
  /** Calls `fn` once at the end of the turn. Replaced by tests. */
  readonly atTurnEnd?: (fn: () => void) => void;
}

/** Arrival times of the requests of one process. */
export class Arrivals {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #atTurnEnd: (fn: () => void) => void;
  /** Times at which the recorded turns ended, and at which each turn has read the first known request. */
  readonly #endsMs = new Float64Array(TURNS);
  readonly #firstsMs = new Float64Array(TURNS);
  /** Number of ended turns since the record began; -1 while nothing is recorded. */
  #count = -1;
  #untilMs = -Infinity;
  /** Number of calls of {@link of}. */
  #asked = 0;
  readonly #onTurnEnd = (): void => {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs >= this.#untilMs) {
      this.#count = -1;
      return;
    }
    this.#endsMs[this.#count % TURNS] = nowMs;
    this.#count++;
    this.#firstsMs[this.#count % TURNS] = Infinity;
    this.#atTurnEnd(this.#onTurnEnd);
  };

  constructor({ clock, atTurnEnd = (fn) => void setImmediate(fn).unref() }: ArrivalsDeps) {
    this.#clock = clock;
    this.#atTurnEnd = atTurnEnd;
  }

  /**
   * Returns the time in milliseconds of the monotonic clock at which the request had certainly arrived. A
   * request without a connection arrived when it was made.
   */
  of(req: TransportRequest): number {
    this.#asked++;
    this.#untilMs = this.#clock.monotonicMs() + WATCH_MS;
    if (this.#count === -1) {
      this.#count = 0;
      this.#atTurnEnd(this.#onTurnEnd);
    }
    return req.connection === undefined ? req.startedMs : this.#firstOfTurn(req.startedMs);
  }

  /**
   * Resolves after the requests that have arrived were read, as far as callers have asked for them. Ends after
   * two turns without such a request: the first of them may have accepted a connection.
   */
  async readSockets(): Promise<void> {
    const endMs = this.#clock.monotonicMs() + MOST_READING_MS;
    for (let quiet = 0; quiet < 2 && this.#clock.monotonicMs() < endMs; quiet++) {
      const asked = this.#asked;
      await nextTurn();
      if (this.#asked !== asked) quiet = -1;
    }
  }

  #firstOfTurn(readMs: number): number {
    const oldest = Math.max(0, this.#count - TURNS + 1);
    let index = this.#count;
    while (index > oldest && this.#endsMs[(index - 1) % TURNS]! > readMs) index--;
    if (index === oldest) return readMs; // the begin of this turn was not recorded
    const firstMs = Math.min(this.#firstsMs[index % TURNS]!, readMs);
    this.#firstsMs[index % TURNS] = firstMs;
    return Math.max(firstMs, readMs - MOST_MS);
  }
}
