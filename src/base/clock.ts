/**
 * The clock: all code reads the time and sets timers through it. Tests pass a clock that they move
 * themselves.
 */
// imported, because a look-up of the global `performance` takes ten times as long as reading the time
import { performance } from 'node:perf_hooks';

/** Options of {@link Clock.after}. */
export interface TimerOptions {
  /** Whether the timer keeps the process alive. Default: false. */
  readonly ref?: boolean;
}

/** Source of time and timers. Times are in milliseconds unless the name says otherwise. */
export interface Clock {
  /** Milliseconds since the epoch. May jump when the system's clock is set. */
  nowMs(): number;
  /** Microseconds since the epoch. May jump when the system's clock is set. */
  nowMicros(): number;
  /**
   * Milliseconds, with fractions, since an arbitrary moment. Never runs backwards, so a difference is a
   * duration.
   */
  monotonicMs(): number;
  /**
   * Calls `fn` once after `ms`. Disposing the result cancels the call. By default the timer does not keep the
   * process alive.
   */
  after(ms: number, fn: () => void, options?: TimerOptions): Disposable;
  /** Resolves after `ms`. Rejects with the signal's reason when the signal aborts first. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /**
   * Waits for `ms`, for example before a request is repeated. Default: {@link sleep}. A ManualClock, the
   * clock for tests, does not wait: it moves its time forward by `ms`.
   */
  pass?(ms: number): Promise<void>;
}

/**
 * Waits for `ms` milliseconds. A ManualClock, the clock for tests, does not wait: it moves its time forward.
 */
export function pass(clock: Clock, ms: number): Promise<void> {
  return clock.pass?.(ms) ?? clock.sleep(ms);
}

/**
 * nowMicros() adds the monotonic time to `originMs`. If the sum differs from the wall clock by more than this
 * number of milliseconds, nowMicros() corrects `originMs`.
 */
const STEP_MS = 5;
/** Wall-clock time in milliseconds at which monotonic time was 0. */
let originMs = performance.timeOrigin;

/** Clock of the operating system. */
export const systemClock: Clock = Object.freeze({
  nowMs: () => Date.now(),
  nowMicros: () => {
    const sinceStartMs = performance.now();
    const wallMs = Date.now();
    // the two clocks diverge if the system clock was set, or if the machine was suspended
    if (Math.abs(wallMs - originMs - sinceStartMs) > STEP_MS) originMs = wallMs - sinceStartMs;
    return Math.round((originMs + sinceStartMs) * 1000);
  },
  // bound, not wrapped: a wrapper function would make each call a sixth slower, and each request makes two
  // calls
  monotonicMs: performance.now.bind(performance),
  after(ms: number, fn: () => void, options?: TimerOptions): Disposable {
    const timer = setTimeout(fn, ms);
    return options?.ref === true ? timer : timer.unref();
  },
  sleep: (ms: number, signal?: AbortSignal): Promise<void> =>
    sleepUntil((done) => setTimeout(done, ms), signal),
});

/**
 * The clock of an application, which a test client may replace. A program may keep this object: its methods
 * always use the present clock.
 */
export class ApplicationClock implements Clock {
  /** The present clock. */
  present: Clock;

  constructor(present: Clock) {
    this.present = present;
  }

  nowMs(): number {
    return this.present.nowMs();
  }

  nowMicros(): number {
    return this.present.nowMicros();
  }

  monotonicMs(): number {
    return this.present.monotonicMs();
  }

  after(ms: number, fn: () => void, options?: TimerOptions): Disposable {
    return this.present.after(ms, fn, options);
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return this.present.sleep(ms, signal);
  }

  pass(ms: number): Promise<void> {
    return pass(this.present, ms);
  }
}

/** Returns the clock that `clock` uses: the present one of an application, or `clock` itself. */
export function presentClock(clock: Clock): Clock {
  return clock instanceof ApplicationClock ? clock.present : clock;
}

/**
 * Starts a timer by calling `start`, and resolves when the timer fires. Rejects with the signal's reason when
 * the signal aborts first.
 */
export function sleepUntil(start: (done: () => void) => Disposable, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) return reject(signal.reason);
    const onAbort = (): void => {
      timer[Symbol.dispose]();
      reject(signal!.reason);
    };
    const timer = start(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    });
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}
