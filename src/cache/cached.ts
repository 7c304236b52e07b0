/**
 * Functions whose results are cached. For each key, only one call of the function runs at a time, even if
 * many callers wait.
 *
 * Example:
 *   const getUser = cached(async (id: number) => db.fetchOne(sql, [id]), { ttlSeconds: 30 });
 *   await getUser(7)               reads the cache, or calls the function
 *   await getUser.delete(7)        removes the result, after a change of the user
 *
 * If a call with the same key is running, further calls wait for its result. Otherwise, the cached result is
 * returned, if there is one. A stale result is returned, too, and refreshed in the background.
 *
 * Two callers never get the same object, even if they share one call: each gets a structured clone. If the
 * cache fails, the failure is logged and counted, and the function is called.
 */
import { hash } from 'node:crypto';
import { asBuffer } from '../base/bytes.ts';
import { MemoryCache, fromBytes, toBytes } from './cache.ts';
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError, throwMistake } from '../base/errors.ts';
import { SingleFlight, type SharedCall, type Give } from './single-flight.ts';
import { createLogger, type Logger } from '../observability/log.ts';
import { bool, given, int, isFunction, number, readOptions, shown, optionalInt } from '../base/options.ts';
import { within } from '../base/promises.ts';
import type { Awaitable, CacheBackend } from './stores.ts';

/** Options of cached(). Times are in seconds and may have fractions. */
export interface CachedOptions<A extends readonly unknown[]> {
  /** Time in seconds for which a result is fresh, 0.001 ... 10 years. Default 60. */
  readonly ttlSeconds?: number | undefined;
  /**
   * Time in seconds for which a result is still returned after `ttlSeconds`, 0 ... 10 years. Each such result
   * is also refreshed in the background. Default 0: never.
   */
  readonly staleSeconds?: number | undefined;
  /**
   * Time in seconds for which this process throws an error of the function again without another call, 0 ...
   * 1 day. Default 0: errors are not cached.
   */
  readonly negativeTtlSeconds?: number | undefined;
  /**
   * Returns the cache key for the arguments of a call. Default: a key computed from the arguments, which must
   * be plain data. AbortSignals are ignored.
   */
  readonly key?: ((...args: A) => string) | undefined;
  /** Cache that stores the results. Default: a {@link MemoryCache} that only this function uses. */
  readonly backend?: CacheBackend | undefined;
  /**
   * Prefix of every key: letters, digits, `_`, `.`, `-`. Required with `backend`, because several functions
   * may share the backend. Change the name when the type of the results changes.
   */
  readonly name?: string | undefined;
  /** Maximum number of results in the function's own cache, 1 ... 10_000_000. Default 10_000. */
  readonly maxEntries?: number | undefined;
  /**
   * Gives callers the object that the function returned, instead of a clone. This is faster, but a change of
   * the object affects all callers. Default false.
   */
  readonly shareReferences?: boolean | undefined;
  /**
   * Maximum number of running calls whose results callers share, 1 ... 1_000_000. While that many calls run,
   * each further caller calls the function itself. Default 1_000.
   */
  readonly maxFlights?: number | undefined;
  /** Time limit of each operation of the backend in milliseconds, 1 ... 60_000. Default 1_000. */
  readonly backendTimeoutMs?: number | undefined;
  /** Logger for failures of the backend. */
  readonly log?: Logger | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** Statistics of a cached function. */
export interface CachedStats {
  /** Calls that returned a fresh result. */
  readonly hits: number;
  /** Calls that returned a stale result. */
  readonly staleHits: number;
  /** Calls that threw a cached error. */
  readonly negativeHits: number;
  /** Calls that waited for a running call with the same key. */
  readonly joined: number;
  /** Calls of the original function, including refreshes. */
  readonly calls: number;
  /** Failed calls of the original function. */
  readonly failures: number;
  /** Failed operations of the backend. */
  readonly backendFailures: number;
}

/** A function whose results are cached. */
export interface Cached<A extends readonly unknown[], R> {
  /**
   * Returns the cached result for these arguments, or calls the function. If an AbortSignal among the
   * arguments aborts, only this caller stops waiting. The function itself gets another signal, which aborts
   * when no caller waits any more. Rejects with the error of the function.
   *
   * @throws SvcError `E_CACHED_KEY` for arguments from which no key can be computed, `E_CACHE_VALUE` for a
   *   result without a structured clone
   */
  (...args: A): Promise<R>;
  /**
   * Deletes the result for these arguments. If a call with these arguments is still running, its result is
   * not stored. Returns whether a result was stored. Rejects if the backend fails.
   */
  delete(...args: A): Promise<boolean>;
  /** Deletes all results of the function. Rejects if the backend fails. */
  clear(): Promise<void>;
  /** Returns the statistics since the start. */
  stats(): CachedStats;
}

/**
 * Returns a function that caches the results of `fn`. `fn` may return promises.
 * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
 */
export function cached<A extends readonly unknown[], R>(
  fn: (...args: A) => R,
  options: CachedOptions<A> = {},
): Cached<A, Awaited<R>> {
  const calls = new CachedCalls<A, Awaited<R>>(fn as (...args: A) => Awaitable<Awaited<R>>, options);
  return Object.assign((...args: A) => calls.call(args), {
    delete: (...args: A) => calls.delete(args),
    clear: () => calls.clear(),
    stats: () => calls.stats(),
  });
}

const TEN_YEARS_SECONDS = 315_360_000;
const DAY_SECONDS = 86_400;
const MAX_FAILURES_KEPT = 1_000;
/** After a failed refresh, no further refresh is tried for this number of milliseconds. */
const REFRESH_PAUSE_MS = 1_000;
/** Minimum time in milliseconds between two log lines about one function. */
const LOG_PAUSE_MS = 60_000;

class CachedCalls<A extends readonly unknown[], R> {
  readonly #fn: (...args: A) => Awaitable<R>;
  readonly #options: ReturnType<typeof readCachedOptions<A>>;
  readonly #backend: CacheBackend;
  readonly #clock: Clock;
  #log: Logger | undefined;
  #quietUntilMs = -Infinity;
  /** Running calls of the function for which callers wait. */
  readonly #shared = new SingleFlight<R>();
  /** Running background refreshes. */
  readonly #refreshes = new SingleFlight<R>();
  /** Cached errors. They stay in this process, because a backend would not keep their class. */
  readonly #failures: MemoryCache;
  readonly #counts = {
    hits: 0,
    staleHits: 0,
    negativeHits: 0,
    joined: 0,
    calls: 0,
    failures: 0,
    backendFailures: 0,
  };

  constructor(fn: (...args: A) => Awaitable<R>, options: CachedOptions<A>) {
    const read = readCachedOptions(options);
    const { backend, maxEntries, shareReferences, clock, log } = read;
    this.#fn = fn;
    this.#options = read;
    this.#clock = clock ?? systemClock;
    this.#log = log;
    this.#backend = backend ?? new MemoryCache({ maxEntries, shareReferences, clock });
    this.#failures = new MemoryCache({ maxEntries: MAX_FAILURES_KEPT, shareReferences: true, clock });
  }

  call(args: A): Promise<R> {
    try {
      const key = this.#keyOf(args);
      const signal = args.find(isSignal);
      signal?.throwIfAborted();
      const call = this.#shared.get(key);
      if (call !== undefined) {
        this.#counts.joined++;
        return call.wait(signal);
      }
      const stored = this.#read(key);
      if (!(stored instanceof Promise)) {
        const kept = this.#judge(key, args, stored);
        if (kept !== undefined) return Promise.resolve(kept.value);
      }
      return this.#launch(key, args, stored instanceof Promise ? stored : undefined).wait(signal);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  async delete(args: A): Promise<boolean> {
    const key = this.#keyOf(args);
    await Promise.all([this.#shared.forget(key), this.#refreshes.forget(key)]);
    this.#failures.delete(key);
    return this.#inTime(this.#backend.delete(key));
  }

  async clear(): Promise<void> {
    this.#failures.clear();
    await Promise.all([this.#shared.forgetAll(), this.#refreshes.forgetAll()]);
    await this.#inTime(this.#backend.clear(this.#options.prefix));
  }

  stats(): CachedStats {
    return { ...this.#counts };
  }

  /** Returns the cache key for the arguments of a call. */
  #keyOf(args: A): string {
    if (this.#options.key !== undefined) {
      const key: unknown = this.#options.key(...args);
      if (typeof key !== 'string')
        throw new SvcError('E_CACHED_KEY', [
          `the function of the option "key" returned ${shown(key)}, but a string is needed`,
        ]);
      return this.#options.prefix + bounded(key);
    }
    try {
      return (
        this.#options.prefix +
        keyOfArguments(args.some(isSignal) ? args.filter((value) => !isSignal(value)) : args)
      );
    } catch (error) {
      // any other error comes from a getter in the arguments
      throw error instanceof NoKey ? new SvcError('E_CACHED_KEY', [error.message]) : error;
    }
  }

  // -- stored results --

  /** Reads a value from the backend. Returns undefined if the backend fails. Throws a mistake in the program. */
  #read(key: string): unknown {
    const failed = (error: unknown): undefined => {
      throwMistake(error);
      return this.#onBackendFailure('get', error);
    };
    try {
      const stored = this.#backend.get(key);
      return stored instanceof Promise ? this.#inTime(stored).catch(failed) : stored;
    } catch (error) {
      return failed(error);
    }
  }

  /**
   * Reads the result from a stored value, and refreshes a stale result in the background. Returns undefined
   * if cached() did not write the value.
   */
  #judge(key: string, args: A, stored: unknown): { readonly value: R } | undefined {
    if (stored === undefined) return undefined;
    const entry = readEntry<R>(stored);
    if (entry === undefined) return undefined;
    if (this.#options.staleMs === 0 || this.#clock.nowMs() < entry.freshUntilMs) {
      this.#counts.hits++;
      return entry;
    }
    this.#counts.staleHits++;
    this.#refresh(key, args);
    return entry;
  }

  #write(key: string, value: R): Promise<void> | undefined {
    const entry =
      this.#options.staleMs === 0 && value !== undefined && !Array.isArray(value)
        ? value
        : entryOf(value, this.#clock.nowMs() + this.#options.ttlMs);
    try {
      const written = this.#backend.set(key, entry, this.#options.ttlMs + this.#options.staleMs);
      if (!(written instanceof Promise)) return undefined;
      // the callers have the result before the write ends, so even a mistake in the program is only logged
      return this.#inTime(written).catch((error: unknown) => this.#onBackendFailure('set', error));
    } catch (error) {
      throwMistake(error);
      return this.#onBackendFailure('set', error);
    }
  }

  async #inTime<T>(pending: Awaitable<T>): Promise<T> {
    if (!(pending instanceof Promise)) return pending;
    return within(this.#clock, this.#options.backendTimeoutMs, pending, () => {
      throw new Error(`The backend of the cache did not respond within ${this.#options.backendTimeoutMs} ms`);
    });
  }

  #onBackendFailure(operation: string, error: unknown): undefined {
    this.#counts.backendFailures++;
    this.#report('cache_backend_failed', error, { operation, failures: this.#counts.backendFailures });
  }

  #report(event: string, error: unknown, fields: Record<string, unknown>): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs < this.#quietUntilMs) return;
    this.#quietUntilMs = nowMs + LOG_PAUSE_MS;
    (this.#log ??= createLogger({ clock: this.#clock })).error(event, error, {
      cache: this.#options.prefix.slice(0, -1),
      ...fields,
    });
  }

  // -- shared calls --

  /** Starts a shared call. Calls the function only if `lookup` gives no result. */
  #launch(key: string, args: A, lookup: Promise<unknown> | undefined): SharedCall<R> {
    return this.#shared.begin(key, abortFor(args), !this.#isFull(), async (call) => {
      if (lookup !== undefined) {
        const kept = this.#judge(key, args, await lookup);
        if (kept !== undefined) {
          // later callers find the result in the cache, and need not wait for this call
          this.#shared.release(call);
          return call.waiting > 1 ? this.#giver(kept.value) : () => kept.value;
        }
      }
      if (this.#options.negativeMs > 0) this.#throwKept(key);
      const refresh = this.#refreshes.get(key);
      return refresh === undefined ? this.#callFunction(this.#shared, key, args, call) : refresh.promise;
    });
  }

  #refresh(key: string, args: A): void {
    if (this.#refreshes.get(key) !== undefined || this.#isFull() || this.#failures.get(key) !== undefined)
      return;
    const call = this.#refreshes.begin(key, abortFor(args), true, (own) =>
      this.#callFunction(this.#refreshes, key, args, own),
    );
    call.promise.catch((error: unknown) => this.#report('cache_refresh_failed', error, {}));
  }

  #isFull(): boolean {
    return this.#shared.size + this.#refreshes.size >= this.#options.maxFlights;
  }

  async #callFunction(group: SingleFlight<R>, key: string, args: A, call: SharedCall<R>): Promise<Give<R>> {
    const { abort } = call;
    this.#counts.calls++;
    let value: R;
    try {
      // the signal of the shared call replaces the signals of its callers
      value = await this.#fn(
        ...(abort === undefined
          ? args
          : (args.map((each) => (isSignal(each) ? abort.signal : each)) as unknown as A)),
      );
    } catch (error) {
      this.#counts.failures++;
      const keptMs =
        this.#options.negativeMs > 0
          ? this.#options.negativeMs
          : group === this.#refreshes
            ? REFRESH_PAUSE_MS
            : 0;
      if (!call.isObsolete) this.#failures.set(key, { error }, keptMs);
      throw error;
    }
    const give = this.#giver(value);
    if (call.isObsolete) return give;
    this.#failures.delete(key);
    // until the result is written, new callers wait for this call
    call.writing = this.#write(key, value)?.finally(() => group.release(call));
    return give;
  }

  #throwKept(key: string): void {
    const kept = this.#failures.get(key) as { readonly error: unknown } | undefined;
    if (kept === undefined) return;
    this.#counts.negativeHits++;
    throw kept.error;
  }

  /** Returns a function that returns a new copy of `value` at each call. */
  #giver(value: R): Give<R> {
    if (
      this.#options.shareReferences ||
      value === null ||
      (typeof value !== 'object' && typeof value !== 'function' && typeof value !== 'symbol')
    )
      return () => value;
    let bytes: Uint8Array;
    try {
      // the clone is made now, before the first caller can change the result
      bytes = toBytes(value);
    } catch (error) {
      throw new SvcError('E_CACHE_VALUE', [], { cause: error });
    }
    return () => fromBytes(bytes) as R;
  }
}

function readCachedOptions<A extends readonly unknown[]>(options: CachedOptions<A>) {
  const { ttlSeconds, staleSeconds, negativeTtlSeconds, name, ...read } = readOptions('cached()', options, {
    ttlSeconds: number(60, 0.001, TEN_YEARS_SECONDS),
    staleSeconds: number(0, 0, TEN_YEARS_SECONDS),
    negativeTtlSeconds: number(0, 0, DAY_SECONDS),
    key: given<(...args: A) => string>('a function', isFunction),
    backend: given<CacheBackend>(
      'a CacheBackend',
      (value) => typeof (value as CacheBackend | null)?.get === 'function',
    ),
    name: given<string>(
      '1 … 64 letters, digits, "_", "." and "-"',
      (value) => typeof value === 'string' && /^[\w.-]{1,64}$/.test(value),
    ),
    maxEntries: optionalInt(1, 10_000_000),
    shareReferences: bool(false),
    maxFlights: int(1_000, 1, 1_000_000),
    backendTimeoutMs: int(1_000, 1, 60_000),
    log: given<Logger>(),
    clock: given<Clock>(),
  });
  const refuse = (option: string, need: string, found: string): never => {
    throw new SvcError('E_OPTION_RANGE', ['cached()', option, need, found]);
  };
  if (read.backend !== undefined && name === undefined)
    refuse(
      'name',
      'must be set if the option "backend" is set, because the name separates the entries of several functions in one backend',
      'undefined',
    );
  if (read.backend !== undefined && read.maxEntries !== undefined)
    refuse(
      'maxEntries',
      'must be omitted if the option "backend" is set, because maxEntries only limits the built-in cache in memory',
      'both',
    );
  return {
    ...read,
    prefix: name === undefined ? '' : `${name}:`,
    ttlMs: ttlSeconds * 1_000,
    staleMs: staleSeconds * 1_000,
    negativeMs: negativeTtlSeconds * 1_000,
  };
}

function isSignal(value: unknown): value is AbortSignal {
  return value instanceof AbortSignal;
}

/** Returns a controller in place of the signals in `args`, if there are any. */
function abortFor(args: readonly unknown[]): AbortController | undefined {
  return args.some(isSignal) ? new AbortController() : undefined;
}

/** Returns the stored form of a result that may become stale, is undefined, or is an array. */
function entryOf(value: unknown, freshUntilMs: number): readonly unknown[] {
  return value === undefined ? [freshUntilMs] : [freshUntilMs, value];
}

function readEntry<R>(stored: unknown): { readonly value: R; readonly freshUntilMs: number } | undefined {
  if (!Array.isArray(stored)) return { value: stored as R, freshUntilMs: 0 };
  const [freshUntilMs, value] = stored as unknown[];
  return typeof freshUntilMs === 'number' && stored.length <= 2
    ? { value: value as R, freshUntilMs }
    : undefined; // cached() does not store arrays of this form
}

/** Error for an argument from which no key can be computed. The message names the argument. */
class NoKey extends Error {}

/** Maximum length of a key in characters. A digest replaces a longer key. */
const LONGEST_KEY = 256;
/** Maximum number of nested levels in an argument. An argument that contains itself exceeds this limit. */
const DEEPEST = 32;

/**
 * Converts the arguments of a call to a cache key. For example, `(7, 'a', { y: 1, x: undefined })` becomes
 * `7,"a",{"x":u,"y":1}`. Different arguments have different keys.
 *
 * @throws NoKey for an argument that is not plain data, such as a function or a class instance
 */
function keyOfArguments(args: readonly unknown[]): string {
  if (args.length === 1 && typeof args[0] === 'number' && args[0] !== 0) return String(args[0]);
  return bounded(args.map((value, index) => textOf(value, () => `argument ${index + 1}`, 0)).join(','));
}

function bounded(key: string): string {
  // without JSON, hash() would treat all lone surrogates as one character, so different keys could become
  // equal
  return key.length <= LONGEST_KEY ? key : `#${hash('sha256', JSON.stringify(key), 'base64url')}`;
}

function textOf(value: unknown, where: () => string, depth: number): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'boolean':
      return String(value);
    case 'bigint':
      return `${value}n`;
    case 'undefined':
      return 'u';
    case 'object':
      return value === null ? 'null' : textOfObject(value, where, depth);
    default:
      throw new NoKey(`${where()} is a ${typeof value}, which cannot be part of a cache key`);
  }
}

function textOfObject(value: object, where: () => string, depth: number): string {
  if (depth >= DEEPEST) throw new NoKey(`${where()} is cyclic, or is nested deeper than ${DEEPEST} levels`);
  if (Array.isArray(value))
    return `[${Array.from(value, (item, index) => textOf(item, () => `${where()}[${index}]`, depth + 1)).join(',')}]`;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (value instanceof Date && prototype === Date.prototype) return `d${value.getTime()}`;
  if (value instanceof Uint8Array && (prototype === Uint8Array.prototype || prototype === Buffer.prototype))
    return `b"${asBuffer(value).toString('base64')}"`;
  if (prototype !== null && prototype !== Object.prototype)
    throw new NoKey(`${where()} is an instance of ${nameOf(prototype)}, which cannot be part of a cache key`);
  if (Object.getOwnPropertySymbols(value).length > 0)
    throw new NoKey(`${where()} has a member whose key is a symbol, which cannot be part of a cache key`);
  const members = Object.keys(value)
    .sort()
    .map(
      (name) =>
        `${JSON.stringify(name)}:${textOf((value as Record<string, unknown>)[name], () => `${where()}.${name}`, depth + 1)}`,
    );
  return `{${members.join(',')}}`;
}

function nameOf(prototype: unknown): string {
  const { constructor } = prototype as { constructor?: unknown };
  return typeof constructor === 'function' && constructor.name !== ''
    ? constructor.name
    : 'a class without a name';
}
