/**
 * A call that any number of callers wait for together.
 *
 *   begin -> wait, wait, wait -> a copy of the result, or the error, for each -> released, or when it is stored
 *
 * A caller who leaves does not end the call of the others; the last one does.
 */

/** Returns each caller's copy of the result. */
export type Give<R> = () => R;

/** One call with its callers. */
export class SharedCall<R> {
  readonly key: string;
  /** Signal of the first caller, which the function gets. */
  readonly abort: AbortController | undefined;
  /** Whether the result must not be stored: it may be outdated, or no caller waits. */
  isObsolete = false;
  /** While the result is on its way to where it is kept. */
  writing: Promise<void> | undefined;
  /** Settles once. */
  promise: Promise<Give<R>> = NEVER;
  #waiting = 0;
  readonly #release: (call: SharedCall<R>) => void;

  constructor(key: string, abort: AbortController | undefined, release: (call: SharedCall<R>) => void) {
    this.key = key;
    this.abort = abort;
    this.#release = release;
  }

  /** How many callers wait. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The caller's own copy. A signal ends this wait only; with the last wait the call ends. */
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

/** Calls by key, each there as long as it can be joined. */
export class SingleFlight<R> {
  readonly #calls = new Map<string, SharedCall<R>>();

  get size(): number {
    return this.#calls.size;
  }

  get(key: string): SharedCall<R> | undefined {
    return this.#calls.get(key);
  }

  /** Begins a call at once. Only a `joinable` one is found by its key. */
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
    call.promise.catch(() => undefined); // ignored when all callers have left
    return call;
  }

  /** Prevents further callers. A newer call under the same key stays. */
  readonly release = (call: SharedCall<R>): void => {
    if (this.#calls.get(call.key) === call) this.#calls.delete(call.key);
  };

  /** The result of a call under way is not kept, or has been by the time this resolves. */
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
