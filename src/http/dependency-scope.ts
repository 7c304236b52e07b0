/**
 * How long the value of a dependency lives where `Depends()` does not say so: a source may have a scope of its own.
 */

/** How long a dependency lives: see routing/di.ts. */
export type Scope = 'request' | 'handler' | 'app';

const SCOPES = new WeakMap<object, Scope>();

/** Gives a source a scope of its own, and returns it. @internal */
export function withScope<F extends object>(source: F, scope: Scope): F {
  SCOPES.set(source, scope);
  return source;
}

/** The scope of a source; undefined for one that has none of its own. @internal */
export function scopeOfSource(source: object): Scope | undefined {
  return SCOPES.get(source);
}
