/**
 * The clock: the only reader of the time and the only setter of timers. Tests hand in one that they move themselves.
 */
import { performance } from 'node:perf_hooks'; // the global of that name is looked up for each reading: a tenth of its cost

/** Times are in milliseconds unless the name says otherwise. */
export interface Clock {
  /** Milliseconds since the epoch. May jump when the system's clock is set. */
  nowMs(): number;
  /** Microseconds since the epoch. */
  nowMicros(): number;
  /** Milliseconds, with fractions, that never run backwards; the origin means nothing. */
  monotonicMs(): number;
  /** Calls `fn` once after `ms`; disposing cancels. Never keeps the process alive by itself. */
  after(ms: number, fn: () => void): Disposable;
  /** Resolves after `ms`; rejects with the signal's reason when it is aborted first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** Lets `ms` pass where a pause is an end in itself, and no timer of a test. Default: {@link sleep}; a clock that is moved by hand moves. */
  pass?(ms: number): Promise<void>;
}

/** Lets time pass by a clock. */
export function pass(clock: Clock, ms: number): Promise<void> {
  return clock.pass?.(ms) ?? clock.sleep(ms);
}

/** Beyond it, wall and monotonic time have parted. */
const STEP_MS = 5;
/** Offset from monotonic time to wall-clock microseconds. */
let originMs = performance.timeOrigin;

/** The machine's time. */
export const systemClock: Clock = Object.freeze({
  nowMs: () => Date.now(),
  nowMicros: () => {
    const sinceStartMs = performance.now();
    const wallMs = Date.now();
    // the system's clock was set, or the machine slept, which monotonic time does not show
    if (Math.abs(wallMs - originMs - sinceStartMs) > STEP_MS) originMs = wallMs - sinceStartMs;
    return Math.round((originMs + sinceStartMs) * 1000);
  },
  monotonicMs: performance.now.bind(performance), // read twice for each request: a wrapper function would cost a sixth of it
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
