/**
 * Delay of the event loop: how late timers fire, because other work keeps the process busy.
 *
 * node:perf_hooks sets a timer every 20 ms, and records the actual intervals. An interval minus 20 ms is a
 * delay.
 *
 * The delay is measured while the application listens. The metric `svc_event_loop_delay_seconds` and load
 * shedding share one measurement.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { onePer } from '../base/options.ts';
import type { Metrics } from './metrics.ts';

const RESOLUTION_MS = 20;
/** Minimum time in milliseconds between two calculations of the mean. */
const WINDOW_MS = 250;
const NS_PER_MS = 1e6;

/** The members of a node:perf_hooks histogram that this file uses. @internal */
export interface DelayMonitor {
  readonly count: number;
  /** Mean in nanoseconds; NaN if nothing was measured yet. */
  readonly mean: number;
  percentile(percentile: number): number;
  enable(): unknown;
  disable(): unknown;
  reset(): void;
}

export class EventLoopDelay {
  /** Returns the measurement of the application that owns the metrics. */
  static readonly of: (metrics: Metrics) => EventLoopDelay = onePer(() => new EventLoopDelay());
  readonly #make: () => DelayMonitor;
  #monitor: DelayMonitor | undefined;
  #meanMs = 0;
  /**
   * Time of the last calculation of the mean. `#count` and `#sumNs` are the totals of the histogram at that
   * time.
   */
  #takenMs = -Infinity;
  #count = 0;
  #sumNs = 0;

  constructor(make: () => DelayMonitor = () => monitorEventLoopDelay({ resolution: RESOLUTION_MS })) {
    this.#make = make;
  }

  /** Begins to measure. Disposing the result ends the measurement, also for other callers of watch(). */
  watch(): Disposable {
    this.#monitor ??= this.#make();
    this.#monitor.enable();
    return {
      [Symbol.dispose]: () => {
        this.#monitor?.disable();
        this.#monitor = undefined;
        this.#meanMs = this.#count = this.#sumNs = 0;
      },
    };
  }

  /** Returns the 99th percentile of the delays since the last call, in seconds; 0 if nothing is measured. */
  takePercentile(): number {
    const monitor = this.#monitor;
    if (monitor === undefined || monitor.count === 0) return 0;
    const ms = monitor.percentile(99) / NS_PER_MS - RESOLUTION_MS;
    monitor.reset();
    return Math.max(0, ms) / 1_000;
  }

  /**
   * Returns the mean delay in milliseconds. It is recalculated if the last calculation is at least a quarter
   * of a second old.
   */
  recentMs(nowMs: number): number {
    if (nowMs - this.#takenMs >= WINDOW_MS) this.#take(nowMs);
    return this.#meanMs;
  }

  #take(nowMs: number): void {
    const monitor = this.#monitor;
    if (monitor === undefined) return;
    const { count } = monitor;
    const sumNs = count === 0 ? 0 : count * monitor.mean;
    // the count only falls when takePercentile() has reset the histogram
    if (count < this.#count) this.#count = this.#sumNs = 0;
    if (count > this.#count)
      this.#meanMs = Math.max(0, (sumNs - this.#sumNs) / (count - this.#count) / NS_PER_MS - RESOLUTION_MS);
    this.#takenMs = nowMs;
    this.#count = count;
    this.#sumNs = sumNs;
  }
}
