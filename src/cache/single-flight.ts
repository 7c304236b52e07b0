/**
 * Running calls whose results several callers share. Each caller gets a copy of the result, or the error. If
 * one caller stops waiting, the call continues for the other callers. If no caller waits any more, the call
 * is aborted. Further callers can join until the result is stored.
 */

/** Function that returns a copy of the result for one caller. */
export type Give<R> = () => R;

/** A running call and its callers. */
export class SharedCall<R> {
  readonly key: string;
  /** Controller that aborts the call when no caller waits any more. */
  readonly abort: AbortController | undefined;
  /** True if the result must not be stored, because its key was deleted or no caller waits. */
  isObsolete = false;
  /** Resolves when the result is stored. Undefined until the write begins. */
  writing: Promise<void> | undefined;
  /** Resolves when the call has ended, to a function that returns a copy of the result for each caller. */
  promise: Promise<Give<R>> = NEVER;
  #waiting = 0;
  readonly #release: (call: SharedCall<R>) => void;

  constructor(key: string, abort: AbortController | undefined, release: (call: SharedCall<R>) => void) {
    this.key = key;
    this.abort = abort;
    this.#release = release;
  }

  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Waits for a copy of the result. If `signal` aborts, this caller stops waiting. If no other caller waits,
   * the call is aborted, too.
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

/** A promise that never settles. SingleFlight.begin() replaces it when the call starts. */
const NEVER: Promise<never> = new Promise(() => {
  /* empty */
});

/** Running calls by key. A call is removed when no further caller can join it. */
export class SingleFlight<R> {
  readonly #calls = new Map<string, SharedCall<R>>();

  get size(): number {
    return this.#calls.size;
  }

  get(key: string): SharedCall<R> | undefined {
    return this.#calls.get(key);
  }

  /** Starts a call. If `joinable` is true, other callers can join the call. */
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
    // prevents an unhandled rejection when no caller waits
    call.promise.catch(() => undefined);
    return call;
  }

  /** Removes a call, so that no further caller joins it. Does not remove a newer call with the same key. */
  readonly release = (call: SharedCall<R>): void => {
    if (this.#calls.get(call.key) === call) this.#calls.delete(call.key);
  };

  /**
   * Discards the result of a running call. If the result is already being stored, resolves when that is
   * complete.
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
