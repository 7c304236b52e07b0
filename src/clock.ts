/**
 * The clock: the only reader of the time and the only setter of timers. Tests hand in one that they move themselves.
 */

/** Times are milliseconds unless the name says more. */
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
}

/** The machine's time. */
export const systemClock: Clock = Object.freeze({
  nowMs: () => Date.now(),
  nowMicros: () => Math.round((performance.timeOrigin + performance.now()) * 1000),
  monotonicMs: () => performance.now(),
  after(ms: number, fn: () => void): Disposable {
    const timer = setTimeout(fn, ms).unref();
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  },
  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) return reject(signal.reason);
      const onAbort = (): void => { clearTimeout(timer); reject(signal!.reason); };
      const timer = setTimeout(() => { signal?.removeEventListener('abort', onAbort); resolve(); }, ms);
      signal?.addEventListener('abort', onAbort, { once: true });
    });
  },
});
