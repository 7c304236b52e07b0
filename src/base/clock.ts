/**
 * The clock: all code reads the time and sets timers through it. Tests pass a clock that they move
 * themselves.
 */
// a constant, because looking up the global costs ten times the reading
import { performance } from 'node:perf_hooks';

/** Times are in milliseconds unless the name says otherwise. */
export interface Clock {
  /** Milliseconds since the epoch. May jump when the system's clock is set. */
  nowMs(): number;
  /** Microseconds since the epoch. */
  nowMicros(): number;
  /** Milliseconds with fractions that never run backwards. The origin has no meaning. */
  monotonicMs(): number;
  /** Calls `fn` once after `ms`. Disposing cancels the call. The timer does not keep the process alive. */
  after(ms: number, fn: () => void): Disposable;
  /** Resolves after `ms`. Rejects with the signal's reason when the signal aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Waits for `ms` when waiting itself is the purpose. Default: {@link sleep}. A manual clock moves forward
   * by `ms` instead.
   */
  pass?(ms: number): Promise<void>;
}

/** Waits for some time by a clock. */
export function pass(clock: Clock, ms: number): Promise<void> {
  return clock.pass?.(ms) ?? clock.sleep(ms);
}

/** Microseconds by which the wall-clock time may differ from monotonic time before it is read again. */
const STEP_MS = 5;
/** Offset from monotonic time to wall-clock time in microseconds. */
let originMs = performance.timeOrigin;

/** The clock of the machine. */
export const systemClock: Clock = Object.freeze({
  nowMs: () => Date.now(),
  nowMicros: () => {
    const sinceStartMs = performance.now();
    const wallMs = Date.now();
    // The system's clock was set, or the machine slept, which monotonic time does not show
    if (Math.abs(wallMs - originMs - sinceStartMs) > STEP_MS) originMs = wallMs - sinceStartMs;
    return Math.round((originMs + sinceStartMs) * 1000);
  },
  // read twice for each request, and a wrapper function would add a sixth to its cost
  monotonicMs: performance.now.bind(performance),
  after(ms: number, fn: () => void): Disposable {
    const timer = setTimeout(fn, ms).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const onAbort = (): void => {
        clearTimeout(timer);
        reject(signal!.reason);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      }, ms);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  },
});
