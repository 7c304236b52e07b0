/**
 * State: typed values that one part of an application sets for other parts, for the whole application or for
 * one request.
 *
 * Also: the scope of a dependency source, if `Depends()` does not name one.
 */
import { SvcError } from '../base/errors.ts';
import type { Context, HttpRequest, Services, Session, StateKey, StateMap } from './contracts.ts';

/** Creates a unique key: two keys with equal names are different. `name` appears in messages. */
export function stateKey<T>(name: string): StateKey<T> {
  const key = (context: Context): T => context.state.get(key as StateKey<T>);
  // by defineProperty(), because the name of a function cannot be assigned
  return Object.defineProperty(key, 'name', { value: name }) as StateKey<T>;
}

/** Services of the application: clock, log, metrics, settings. `Depends(services)` passes them to a handler. */
export const services: StateKey<Services> = stateKey('services');

/** The session of a request, set by the session middleware and read by `req.session`. @internal */
export const SESSION: StateKey<Session> = stateKey('session');

/**
 * In the state of a request that the process makes itself, with the credentials of another request: that
 * other request. @internal
 */
export const CARRIER: StateKey<HttpRequest> = stateKey('carrier');

/** The state of an application: values that were set, or that a function provides at each access. */
export class AppState implements StateMap {
  readonly #values = new Map<StateKey<unknown>, () => unknown>();

  get<T>(key: StateKey<T>): T {
    const read = this.#values.get(key);
    if (read === undefined) throw new SvcError('E_STATE_UNSET', [key.name]);
    return read() as T; // the cast is safe: set() and provide() accept only values of the key's type
  }

  set<T>(key: StateKey<T>, value: T): void {
    this.#values.set(key, () => value);
  }

  /** Makes `read` provide the value of the key at each access. */
  provide<T>(key: StateKey<T>, read: () => T): void {
    this.#values.set(key, read);
  }

  has(key: StateKey<unknown>): boolean {
    return this.#values.has(key);
  }
}

/** Stands for the absence of a key, because no caller can have it. */
const NO_KEY: StateKey<unknown> = stateKey('none');

/**
 * State of a request. Its own values override those of the application. The first value is stored without a
 * Map, because many requests have only one value. A Map would add 1.4 % to the time of a request through five
 * middleware that read it (`mw5` of test/bench/http.ts).
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
    if (key === this.#firstKey) return this.#first as T; // set() accepts only values of the key's type
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

/** How long the value of a dependency lives: see routing/di.ts. */
export type Scope = 'request' | 'handler' | 'app';

/**
 * Runs `work` with the value of a surrounding dependency, for example inside a transaction, and returns its
 * result.
 */
export type Surround = (value: unknown, work: () => unknown) => unknown;

const SCOPES = new WeakMap<object, Scope>();
const SURROUNDS = new WeakMap<object, Surround>();

/**
 * Gives a dependency source a scope of its own, and returns the source. With `surround`, the dependency runs
 * the handler and all functions that need the dependency. So it is resolved after all dependencies that do
 * not need it.
 *
 * @internal
 */
export function withScope<F extends object>(source: F, scope: Scope, surround?: Surround): F {
  SCOPES.set(source, scope);
  if (surround !== undefined) SURROUNDS.set(source, surround);
  return source;
}

/** Returns the `surround` function of a dependency source, if it has one. @internal */
export function surroundOfSource(source: object): Surround | undefined {
  return SURROUNDS.get(source);
}

/** Returns the scope that a dependency source has of its own; undefined if it has none. @internal */
export function scopeOfSource(source: object): Scope | undefined {
  return SCOPES.get(source);
}
