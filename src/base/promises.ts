/**
 * Helpers for values that must be awaited or converted before they are sent, for rejections that must not end
 * the process, for modules that are imported late, and for calls in an earlier async context
 * (AsyncLocalStorage).
 *
 * The promise for the content of a request rejects when the client disconnects or sends malformed data. If
 * the handler has already returned without awaiting the promise, this rejection must not end the process.
 */
import { AsyncResource } from 'node:async_hooks';
import { types } from 'node:util';
import type { Clock, TimerOptions } from './clock.ts';

/** Whether a value is a promise or another object with then(). */
export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
  );
}

/**
 * End of a message about a promise that was passed instead of its value. The caller puts the name of the
 * value in front.
 */
export const FORGOTTEN_AWAIT = 'is a promise: await it';

/**
 * Returns the end of a message about an object that JSON.stringify() writes as `{}` and whose class is
 * built-in or sets Symbol.toStringTag, such as a Map, a Set, an Error or a generator; or about a typed array, which
 * it writes as an object. Undefined for other objects.
 */
export function lossInJson(value: object): string | undefined {
  // first, because the keys of a long array or view are costly
  if (Array.isArray(value) || types.isBoxedPrimitive(value)) return undefined;
  const kind = Object.prototype.toString.call(value).slice('[object '.length, -1);
  if (ArrayBuffer.isView(value))
    return `is an object of type ${kind}, which JSON writes as an object: convert it to an array, or its bytes to a Uint8Array`;
  if (kind === 'Object' || Object.keys(value).length > 0) return undefined;
  return `is an object of type ${kind}, which JSON writes as {}: convert it to an object, an array or a text`;
}

/**
 * Calls `use` with a value: at once, or when the promise of the value resolves. Returns the result of `use`,
 * or a promise of it.
 */
export function whenReady<T, R>(value: T | Promise<T>, use: (value: T) => R | Promise<R>): R | Promise<R> {
  return isThenable(value) ? (value as Promise<T>).then(use) : use(value as T);
}

/**
 * Calls `read`, and returns a promise of its result, which rejects if `read` throws. A rejection that is
 * never awaited causes no `unhandledRejection` event.
 */
export function promised<T>(read: () => T | Promise<T>): Promise<T> {
  try {
    return handled(Promise.resolve(read()));
  } catch (error) {
    return handled(Promise.reject(error as Error));
  }
}

/** Returns the promise unchanged, but its rejection causes no `unhandledRejection` event any more. */
export function handled<T>(reading: Promise<T>): Promise<T> {
  reading.catch(ignore);
  return reading;
}

/**
 * Wraps an async generator. A call of next() that rejects before it is awaited causes no `unhandledRejection`
 * event.
 */
export class HandledSteps<T> implements AsyncGenerator<T, void, undefined> {
  readonly #steps: AsyncGenerator<T, void, undefined>;

  constructor(steps: AsyncGenerator<T, void, undefined>) {
    this.#steps = steps;
  }

  next(): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.next());
  }

  return(): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.return());
  }

  throw(error: unknown): Promise<IteratorResult<T, void>> {
    return handled(this.#steps.throw(error));
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return();
  }
}

/** Resolves in the next turn of the event loop, after the sockets were read. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

/** Returns the result of `pending`, or after `ms` that of `onLate`. Ignores a later rejection. */
export async function within<T, Late>(
  clock: Clock,
  ms: number,
  pending: Promise<T>,
  onLate: () => Late,
  options?: TimerOptions,
): Promise<T | Late> {
  const late = Promise.withResolvers<Late>();
  const timer = clock.after(ms, () => late.resolve(Promise.try(onLate)), options);
  try {
    return await Promise.race([pending, late.promise]);
  } finally {
    timer[Symbol.dispose]();
  }
}

/** Runs asynchronous work in the order of the calls. Each call waits until the one before has settled. */
export class Turns {
  #last: Promise<unknown> = Promise.resolve();

  take<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work);
    this.#last = done.catch(ignore);
    return done;
  }

  /** Resolves when the work of all calls so far has settled. */
  settled(): Promise<unknown> {
    return this.#last;
  }
}

/** Modules that an application of this process has declared. */
const wanted = new Set<LazyModule<unknown>>();

/**
 * A module that is imported when it is first needed, so that other programs start faster. An application that
 * declares its use imports it at the start: later, the process may have no free file descriptor.
 */
export class LazyModule<M> {
  readonly #read: () => Promise<M>;
  #loading: Promise<M> | undefined;
  /** The module; undefined until it is imported. */
  loaded: M | undefined;

  constructor(load: () => Promise<M>) {
    this.#read = load;
  }

  /** Imports the module once. After a failed import, the next call tries again. */
  load(): Promise<M> {
    return (this.#loading ??= this.#read().then(
      (module) => (this.loaded = module),
      (error: unknown) => {
        this.#loading = undefined;
        throw error;
      },
    ));
  }

  /** Makes {@link loadWanted} import this module. */
  want(): void {
    wanted.add(this);
  }
}

/** Imports all wanted modules of this process. Called at the start of an application. */
export async function loadWanted(): Promise<void> {
  await Promise.all([...wanted].map((module) => module.load()));
}

/**
 * Calls `start`, and returns its result. If `signal` aborts first, rejects at once with the reason of the
 * signal, and the result or error of the call is ignored. If the signal is already aborted, `start` is not
 * called.
 */
export async function untilAborted<T>(signal: AbortSignal | undefined, start: () => Promise<T>): Promise<T> {
  if (signal === undefined) return start();
  signal.throwIfAborted();
  const aborted = Promise.withResolvers<never>();
  const abort = (): void => aborted.reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  try {
    return await Promise.race([start(), aborted.promise]);
  } finally {
    signal.removeEventListener('abort', abort);
  }
}

/** A rejection handler that does nothing, for a promise whose error another handler reports. */
export function ignore(): void {
  /* empty */
}

/** Function that calls `fn` with `args` in an earlier async context, and returns its result. */
export type ContextRunner = <R, A extends unknown[]>(fn: (...args: A) => R, ...args: A) => R;

/**
 * Returns a function that calls other functions in the async context of this call. On Node 24,
 * AsyncLocalStorage.snapshot() would take 1.2 KiB more memory for each idle WebSocket
 * (test/bench/websocket.ts).
 */
export function currentContext(): ContextRunner {
  const scope = new AsyncResource('SVC');
  return (fn, ...args) => scope.runInAsyncScope(fn, undefined, ...args);
}
