/**
 * State: typed values that one part of an application sets for other parts, for the whole application or for
 * one request.
 *
 * Scope: how long the value of a dependency lives, if `Depends()` does not say so.
 */
import { SvcError } from '../base/errors.ts';
import type { Context, HttpRequest, Services, Session, StateKey, StateMap } from './contracts.ts';

/** Creates a unique key: two keys with equal names are different. `name` appears in messages. */
export function stateKey<T>(name: string): StateKey<T> {
  const key = (context: Context): T => context.state.get(key as StateKey<T>);
  // defineProperty() can change the name of a function, assignment cannot
  return Object.defineProperty(key, 'name', { value: name }) as StateKey<T>;
}

/** Services of the application: clock, log, metrics, settings. `Depends(services)` passes them to a handler. */
export const services: StateKey<Services> = stateKey('services');

/** The session of a request, set by the session middleware and read by `req.session`. @internal */
export const SESSION: StateKey<Session> = stateKey('session');

/**
 * For a request that was made within the process, with the credentials of another request: that other
 * request. @internal
 */
export const CARRIER: StateKey<HttpRequest> = stateKey('carrier');

/** The state of an application: values set once, or read from their provider each time. */
export class AppState implements StateMap {
  readonly #values = new Map<StateKey<unknown>, () => unknown>();

  get<T>(key: StateKey<T>): T {
    const read = this.#values.get(key);
    if (read === undefined) throw new SvcError('E_STATE_UNSET', [key.name]);
    return read() as T; // set() and provide() accept only values of the key's type
  }

  set<T>(key: StateKey<T>, value: T): void {
    this.#values.set(key, () => value);
  }

  /** Registers `read` as the source of the key's value. */
  provide<T>(key: StateKey<T>, read: () => T): void {
    this.#values.set(key, read);
  }

  has(key: StateKey<unknown>): boolean {
    return this.#values.has(key);
  }
}

/** State of a request: its own values override the application's. */
export class RequestState implements StateMap {
  readonly #app: StateMap;
  readonly #own = new Map<StateKey<unknown>, unknown>();

  constructor(app: StateMap) {
    this.#app = app;
  }

  get<T>(key: StateKey<T>): T {
    // set() accepts only values of the key's type
    return this.#own.has(key) ? (this.#own.get(key) as T) : this.#app.get(key);
  }

  set<T>(key: StateKey<T>, value: T): void {
    this.#own.set(key, value);
  }

  has(key: StateKey<unknown>): boolean {
    return this.#own.has(key) || this.#app.has(key);
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
 * Gives a dependency source a scope of its own, and returns it. With `surround` the dependency runs the
 * handler and the functions that need it. It is then resolved after all dependencies that do not need it.
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
