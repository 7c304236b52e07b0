/**
 * A call whose result several callers share.
 *
 *   begin -> wait, wait, wait -> a copy of the result or the error for each -> released (later, if it is stored)
 *
 * A caller that leaves does not end the call of the others; the last one does.
 */

/** Returns the copy of the result for one caller. */
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
  /** Settles with the call, once. */
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
   * Waits for the caller's own copy. Its signal ends this wait only; the end of the last wait ends the call.
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
    call.promise.catch(() => undefined); // the error is ignored when all callers have left
    return call;
  }

  /** Lets no more callers join. A newer call with the same key stays listed. */
  readonly release = (call: SharedCall<R>): void => {
    if (this.#calls.get(call.key) === call) this.#calls.delete(call.key);
  };

  /**
   * Discards the result of a running call. When this resolves, a write that was in progress has completed.
   */
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
