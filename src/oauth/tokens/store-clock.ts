/**
 * The clock of the token store, as one process knows it. Arrivals and deliveries are compared by this clock,
 * because the clocks of hosts differ.
 *
 * Each read of a login also reads the clock, between two moments of the process's monotonic clock:
 *
 *   before the read        monotonic beforeMs
 *     the store reads      store's clock between readAt and readAt + precision
 *   the result is known    monotonic afterMs
 *
 * So the store's clock showed at most readAt + precision at beforeMs, and at least readAt at afterMs. A request
 * counts as having arrived as late as possible, and a response as ready as early as possible. So a slow read
 * can make a request that overlaps look late, but does not make a replay look early. If the clock of the
 * process lies between the bounds, the clocks agree as far as can be known: then it says when a request
 * arrived. A replay can then look early by the difference of the clocks, which is at most the duration of the
 * closest read.
 *
 * The closest bounds of all reads are used, because a busy process reads slowly. They grow by the drift of the
 * clocks. If a read contradicts them, a clock was set, and only this read counts.
 */
import type { Clock } from '../../base/clock.ts';
import type { ReadLogin } from './store.ts';

/** Microseconds by which two clocks drift apart in a millisecond at most: NTP changes the speed by 500 ppm. */
const DRIFT_PER_MS = 0.5;

/** Time of a store, in microseconds, for moments of the monotonic clock in milliseconds. */
export class StoreClock {
  readonly #clock: Pick<Clock, 'monotonicMs' | 'nowMicros'>;
  /** Bounds of the time of the store when the monotonic clock was 0. */
  #least = -Infinity;
  #most = Infinity;
  #sinceMs = 0;

  constructor(clock: Pick<Clock, 'monotonicMs' | 'nowMicros'>) {
    this.#clock = clock;
  }

  /** Takes the time of a read that began at `beforeMs` and has just ended. */
  note({ readAt, precision }: ReadLogin, beforeMs: number): void {
    const afterMs = this.#clock.monotonicMs();
    const [least, most] = [readAt - afterMs * 1_000, readAt + precision - beforeMs * 1_000];
    const drift = (afterMs - this.#sinceMs) * DRIFT_PER_MS;
    const isContradicted = least > this.#most + drift || most < this.#least - drift;
    this.#least = isContradicted ? least : Math.max(this.#least - drift, least);
    this.#most = isContradicted ? most : Math.min(this.#most + drift, most);
    this.#sinceMs = afterMs;
  }

  /** Returns the time at which a request arrived. */
  arrival(arrivedMs: number): number {
    const own = this.#clock.nowMicros() - this.#clock.monotonicMs() * 1_000;
    const agrees = own >= this.#least && own <= this.#most;
    return (agrees ? own : this.#most) + arrivedMs * 1_000;
  }

  /** Returns the time at which a response was ready. */
  delivery(readyMs: number): number {
    return Math.floor(this.#least + readyMs * 1_000);
  }
}
