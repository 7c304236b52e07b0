/**
 * A running call whose result several callers share.
 *
 * Steps of a call:
 *   begin -> wait, wait, wait -> a copy of the result or the error for each -> released (later, if it is stored)
 *
 * When a caller stops waiting, the call continues for the others; when the last one stops, the call is
 * aborted.
 */

/** Returns a copy of the result for one caller. */
export type Give<R> = () => R;

/** A running call and its callers. */
export class SharedCall<R> {
  readonly key: string;
  /** Signal that the function gets. It aborts when the last caller has left. */
  readonly abort: AbortController | undefined;
  /** Whether the result must not be stored: it may be outdated, or no caller waits. */
  isObsolete = false;
  /** Resolves when the result is stored. */
  writing: Promise<void> | undefined;
  /** Settles once, when the call settles. */
  promise: Promise<Give<R>> = NEVER;
  #waiting = 0;
  readonly #release: (call: SharedCall<R>) => void;

  constructor(key: string, abort: AbortController | undefined, release: (call: SharedCall<R>) => void) {
    this.key = key;
    this.abort = abort;
    this.#release = release;
  }

  /** Number of waiting callers. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Waits for a copy of the result. If the caller's signal aborts, only this wait ends; when the last wait
   * has ended, the call is aborted.
   */
  wait(signal: AbortSignal | undefined): Promise<R> {
    this.#waiting++;
    if (signal === undefined) return this.promise.then((give) => give());
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const leave = (): void => {
      reject(signal.reason);
      if (--this.#waiting > 0) return;
      this.isObsolete = true;
      this.#release(this);
      this.abort?.abort(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    void this.promise
      .then((give) => resolve(give()))
      .catch(reject)
      .finally(() => signal.removeEventListener('abort', leave));
    return promise;
  }
}

const NEVER: Promise<never> = new Promise(() => {
  /* placeholder until the call has started */
});

/** Running calls by key. A call is listed as long as callers can join it. */
export class SingleFlight<R> {
  readonly #calls = new Map<string, SharedCall<R>>();

  get size(): number {
    return this.#calls.size;
  }

  get(key: string): SharedCall<R> | undefined {
    return this.#calls.get(key);
  }

  /** Starts a call at once. Only a `joinable` call can be found by its key. */
  begin(
    key: string,
    abort: AbortController | undefined,
    joinable: boolean,
    run: (call: SharedCall<R>) => Promise<Give<R>>,
  ): SharedCall<R> {
    const call = new SharedCall<R>(key, abort, this.release);
    if (joinable) this.#calls.set(key, call);
    call.promise = run(call).finally(() => {
      if (call.writing === undefined) this.release(call);
    });
    // without a listener, a rejection would end the process if all callers have left
    call.promise.catch(() => undefined);
    return call;
  }

  /** Removes a call, so that no more callers join it. A newer call with the same key stays. */
  readonly release = (call: SharedCall<R>): void => {
    if (this.#calls.get(call.key) === call) this.#calls.delete(call.key);
  };

  /** Discards the result of a running call. Resolves when a write of it that is in progress has completed. */
  async forget(key: string): Promise<void> {
    const call = this.#calls.get(key);
    if (call === undefined) return;
    call.isObsolete = true;
    this.#calls.delete(key);
    await call.writing;
  }

  async forgetAll(): Promise<void> {
    await Promise.all([...this.#calls.keys()].map((key) => this.forget(key)));
  }
}
