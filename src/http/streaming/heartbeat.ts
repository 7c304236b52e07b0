/**
 * Heartbeats keep idle streams open. One timer serves all streams that have the same clock and interval.
 */
import { onePer } from '../../base/options.ts';
import type { Clock } from '../../base/clock.ts';

/** A stream, such as an event stream, that gets a heartbeat. */
export interface Beating {
  /** Called once in each interval, for example to send a comment. */
  beat(): void;
}

/** All timers, by clock and interval in milliseconds. A timer is deleted when its last stream is removed. */
const heartsOf = onePer((_: Clock) => new Map<number, Heartbeat>());

/** A timer that calls beat() of all its streams in each interval. */
export class Heartbeat {
  readonly #clock: Clock;
  readonly #intervalMs: number;
  readonly #streams = new Set<Beating>();
  #timer: Disposable | undefined;

  private constructor(clock: Clock, intervalMs: number) {
    this.#clock = clock;
    this.#intervalMs = intervalMs;
  }

  /** Calls `stream.beat()` in each interval from now on. Returns a function that ends this. */
  static join(clock: Clock, intervalMs: number, stream: Beating): () => void {
    const heart = Heartbeat.of(clock, intervalMs).add(stream);
    return () => heart.remove(stream);
  }

  /** Returns the timer for a clock and interval. Use {@link add} and {@link remove} for its streams. */
  static of(clock: Clock, intervalMs: number): Heartbeat {
    const hearts = heartsOf(clock);
    let heart = hearts.get(intervalMs);
    if (heart === undefined) hearts.set(intervalMs, (heart = new Heartbeat(clock, intervalMs)));
    return heart;
  }

  add(stream: Beating): this {
    this.#streams.add(stream);
    this.#timer ??= this.#next();
    return this;
  }

  remove(stream: Beating): void {
    if (!this.#streams.delete(stream) || this.#streams.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
    const hearts = heartsOf(this.#clock);
    if (hearts.get(this.#intervalMs) === this) hearts.delete(this.#intervalMs);
  }

  #next(): Disposable {
    return this.#clock.after(this.#intervalMs, () => {
      this.#timer = this.#next();
      for (const stream of this.#streams) stream.beat();
    });
  }
}
