/**
 * Event-loop delay: how late timers fire because other work keeps the process busy.
 *
 * How it is measured:
 *   node:perf_hooks has a timer every 20 ms and records its intervals    interval - 20 ms = delay
 *
 * The delay is measured while the application listens. The metric and load shedding share one measurement.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Metrics } from './metrics.ts';

const RESOLUTION_MS = 20;
/** Minimum time in milliseconds over which a mean is taken. */
const WINDOW_MS = 250;
const NS_PER_MS = 1e6;

const delays = new WeakMap<Metrics, EventLoopDelay>();

/** The parts of a node:perf_hooks histogram that this file uses. @internal */
export interface DelayMonitor {
  readonly count: number;
  /** Nanoseconds; NaN without samples. */
  readonly mean: number;
  percentile(percentile: number): number;
  enable(): unknown;
  disable(): unknown;
  reset(): void;
}

/** Measures the delay of this process's event loop for one application. */
export class EventLoopDelay {
  readonly #make: () => DelayMonitor;
  #monitor: DelayMonitor | undefined;
  #meanMs = 0;
  /** Time of the last call of recentMs(), and the totals of the histogram at that time. */
  #takenMs = -Infinity;
  #count = 0;
  #sumNs = 0;

  constructor(make: () => DelayMonitor = () => monitorEventLoopDelay({ resolution: RESOLUTION_MS })) {
    this.#make = make;
  }

  /** Returns the measurement of the application that owns these metrics. */
  static of(metrics: Metrics): EventLoopDelay {
    let delay = delays.get(metrics);
    if (delay === undefined) delays.set(metrics, (delay = new EventLoopDelay()));
    return delay;
  }

  /** Starts measuring. Disposing the result stops the measurement for all users of it. */
  watch(): Disposable {
    this.#monitor ??= this.#make();
    this.#monitor.enable();
    return { [Symbol.dispose]: () => this.#end() };
  }

  /** Returns the 99th percentile since the last call, in seconds; 0 while not measuring. */
  takePercentile(): number {
    const monitor = this.#monitor;
    if (monitor === undefined || monitor.count === 0) return 0;
    const ms = monitor.percentile(99) / NS_PER_MS - RESOLUTION_MS;
    monitor.reset();
    return Math.max(0, ms) / 1_000;
  }

  /**
   * Returns the mean delay of the last quarter of a second, or of the time since the last call if that is
   * longer, in milliseconds.
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
    if (count < this.#count) this.#count = this.#sumNs = 0; // true after takePercentile() has reset the histogram
    if (count > this.#count)
      this.#meanMs = Math.max(0, (sumNs - this.#sumNs) / (count - this.#count) / NS_PER_MS - RESOLUTION_MS);
    this.#takenMs = nowMs;
    this.#count = count;
    this.#sumNs = sumNs;
  }

  #end(): void {
    this.#monitor?.disable();
    this.#monitor = undefined;
    this.#meanMs = this.#count = this.#sumNs = 0;
  }
}
