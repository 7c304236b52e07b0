/**
 * State of an application or request: values under typed keys, which plugins and middleware set for other
 * code.
 *
 * This file also stores the functions that wrap handlers with dependencies.
 */
import { SvcError } from '../base/errors.ts';
import type { Awaitable, Context, HttpRequest, Services, Session, StateKey, StateMap } from './contracts.ts';

/**
 * Creates a key for values in a state. Error messages contain the name. Two keys with the same name are
 * different.
 */
export function stateKey<T>(name: string): StateKey<T> {
  const key = (context: Context): T => context.state.get(key as StateKey<T>);
  // defineProperty() is needed, because the name of a function is read-only
  return Object.defineProperty(key, 'name', { value: name }) as StateKey<T>;
}

/**
 * Key of the application's services: clock, log, metrics and settings. `Depends(services)` passes them to a
 * handler.
 */
export const services: StateKey<Services> = stateKey('services');

/** Key of the session, which the session middleware sets. `req.session` reads it. @internal */
export const SESSION: StateKey<Session> = stateKey('session');

/**
 * Key of the original request while an MCP tool runs. The call of the tool is a second request within the
 * process, but only the original request contains the DPoP proof (RFC 9449).
 * @internal
 */
export const CARRIER: StateKey<HttpRequest> = stateKey('carrier');

/**
 * Knows which logins live. A login plugin provides it, to end what names a login: sessions, WebSockets and
 * event streams. Without such a plugin, nothing here does any work.
 */
export interface LoginAuthority {
  /**
   * Returns whether a session with these values may be used. The result is false if the login that it names
   * has ended. Rejects with an HTTPException if that is unknown.
   */
  admits(values: ReadonlyMap<string, unknown>, req: HttpRequest): Awaitable<boolean>;
  /**
   * Calls `end` with a reason when a login by which this request was authenticated ends. Returns a function
   * that stops this; undefined if no login has authenticated the request.
   */
  watch(req: object, end: (reason: string) => void): (() => void) | undefined;
}

export const loginAuthority: StateKey<LoginAuthority> = stateKey('loginAuthority');

/** The part of a request that {@link endWithLogin} needs. */
type Watched = Pick<HttpRequest, 'state'> & { afterwards?(fn: () => Promise<void>): void };

/** Key of the time at which the access token of a request expires, in milliseconds since the epoch. */
export const TOKEN_END_MS: StateKey<number> = stateKey('tokenEnd');
/** Maximum time of a timer of Node.js in milliseconds. */
const MOST_TIMER_MS = 2_147_483_647;

/** Calls `end` when the login or the access token of a request ends, unless the request ends earlier. */
export function endWithLogin(req: Watched, end: (reason: string) => void): void {
  if (req.state.has(TOKEN_END_MS)) {
    const atMs = req.state.get(TOKEN_END_MS);
    const { clock } = req.state.get(services);
    const wait = (): Disposable => {
      const leftMs = atMs - clock.nowMs();
      return leftMs > MOST_TIMER_MS
        ? clock.after(MOST_TIMER_MS, () => (timer = wait()))
        : clock.after(Math.max(leftMs, 0), () => end('expired'));
    };
    let timer = wait();
    req.afterwards?.(async () => timer[Symbol.dispose]());
  }
  if (!req.state.has(loginAuthority)) return;
  const stop = req.state.get(loginAuthority).watch(req, end);
  if (stop !== undefined) req.afterwards?.(async () => stop());
}

/** State of an application. Each value is stored, or is returned by a function at each access. */
export class AppState implements StateMap {
  readonly #values = new Map<StateKey<unknown>, () => unknown>();

  get<T>(key: StateKey<T>): T {
    const read = this.#values.get(key);
    if (read === undefined) throw new SvcError('E_STATE_UNSET', [key.name]);
    return read() as T;
  }

  set<T>(key: StateKey<T>, value: T): void {
    this.#values.set(key, () => value);
  }

  /** Calls `read` each time the value of a key is needed. */
  provide<T>(key: StateKey<T>, read: () => T): void {
    this.#values.set(key, read);
  }

  has(key: StateKey<unknown>): boolean {
    return this.#values.has(key);
  }
}

const NO_KEY: StateKey<unknown> = stateKey('none');

/**
 * State of a request. Its values override the values of the application. The first value is stored without a
 * Map, because many requests have only one. A Map would take 1.4 % of the time of a request through five
 * middleware ("five middleware functions" of test/bench/http.ts).
 */
export class RequestState implements StateMap {
  readonly #app: StateMap;
  #firstKey = NO_KEY;
  #first: unknown;
  #others: Map<StateKey<unknown>, unknown> | undefined;

  constructor(app: StateMap) {
    this.#app = app;
  }

  get<T>(key: StateKey<T>): T {
    if (key === this.#firstKey) return this.#first as T;
    const others = this.#others;
    return others !== undefined && others.has(key) ? (others.get(key) as T) : this.#app.get(key);
  }

  set<T>(key: StateKey<T>, value: T): void {
    if (this.#firstKey === NO_KEY) this.#firstKey = key;
    if (this.#firstKey === key) this.#first = value;
    else (this.#others ??= new Map()).set(key, value);
  }

  has(key: StateKey<unknown>): boolean {
    return key === this.#firstKey || this.#others?.has(key) === true || this.#app.has(key);
  }
}

/**
 * Lifetime of the value of a dependency: until the response is sent (`request`), until the handler ends
 * (`handler`), or until the shutdown (`app`).
 */
export type Scope = 'request' | 'handler' | 'app';

/**
 * Wraps the execution of `work`, for example in a transaction that the dependency `value` provides. Returns
 * the result of `work`.
 */
export type Surround = (value: unknown, work: () => unknown) => unknown;

const SURROUNDS = new WeakMap<object, Surround>();

/**
 * Lets `surround` wrap the handler and all functions that need the dependency of the function or class
 * `source`, for example in a transaction. Returns `source`. The default scope of such a dependency is
 * `handler`, and it is resolved after all dependencies that do not need it.
 *
 * @internal
 */
export function withSurround<F extends object>(source: F, surround: Surround): F {
  SURROUNDS.set(source, surround);
  return source;
}

/**
 * Returns the function that withSurround() has set for a function or class; undefined if none is set.
 * @internal
 */
export function surroundOfSource(source: object): Surround | undefined {
  return SURROUNDS.get(source);
}
