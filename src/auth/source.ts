/**
 * Ways in: what dependencies that find out who asks have in common.
 *
 *   401  nobody has been named, or not to our satisfaction    always with a challenge (RFC 9110 §11.6.1)
 *   403  somebody has been named, who may not do this
 *
 * What such a dependency finds is found once for a request, whoever asks: those that demand more of it start from there.
 */
import { SESSION_SCHEME, SvcError } from '../base/errors.ts';
import { Depends, provide, viewOfDependency } from '../routing/di.ts';
import { SecurityLog } from '../http/security-log.ts';
import { services } from '../http/state.ts';
import type { DependencySource, Provided } from '../routing/di.ts';
import type { Awaitable, Context, SecurityRequirement } from '../http/contracts.ts';

/** A source of a dependency that gives whoever asks: claims, or what the application knows of them. */
export type AuthSource<P> = (context: Context) => Awaitable<P>;

/** How the answer names a way in (RFC 9110 §11.3): `Bearer`, with its parameters. */
export function challenge(
  scheme: string,
  parameters: Readonly<Record<string, string | undefined>> = {},
): string {
  const written = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${value}"`);
  return written.length === 0 ? scheme : `${scheme} ${written.join(', ')}`;
}

/** What stands between the quotation marks of a challenge: no need to escape anything. */
export function isRealm(value: unknown): boolean {
  return typeof value === 'string' && /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(value);
}

/** A way in that this package knows: the same without its requirement, and the challenge of its answers. */
interface Way {
  readonly bare: DependencySource;
  readonly requirement: SecurityRequirement;
  readonly scheme: string;
  readonly realm: string | undefined;
}

const WAYS = new WeakMap<object, Way>();

/** Lets documents and checks see a way in, and others demand more of what it finds. */
export function wayIn<P>(name: string, way: Way & { readonly bare: AuthSource<P> }): AuthSource<P> {
  const source = provide(
    { found: Depends(way.bare), security: way.requirement },
    named(name, ({ found }: { found: unknown }) => found as P),
  ); // what `bare` gives
  WAYS.set(source, way);
  return source;
}

/** How more is demanded of whoever a way in has found. Ways of others have the challenges of `Bearer`. */
export function wayOf(source: DependencySource): Way {
  const own = WAYS.get(source);
  if (own !== undefined) return own;
  const [requirement = BEARER] = viewOfDependency(Depends(source)).security;
  return { bare: source, requirement, scheme: SCHEMES[requirement.scheme], realm: undefined };
}

const BEARER: SecurityRequirement = Object.freeze({ scheme: 'bearer', scopes: [], roles: [] });

/** `Bearer` is registered; for the others RFC 9110 asks for a challenge, and nobody has registered any. */
export const SCHEMES: Readonly<Record<SecurityRequirement['scheme'], string>> = {
  bearer: 'Bearer',
  session: SESSION_SCHEME,
  apiKey: 'ApiKey',
};

/** A function by another name: that by which findings and cycles call a dependency. */
export function named<F extends object>(name: string, fn: F): F {
  return Object.defineProperty(fn, 'name', { value: name });
}

/** The audit log of an application: made when it starts, for all that depend on it. No credential is ever in its lines. */
export function audit({ state }: Context): SecurityLog {
  return SecurityLog.of(state.get(services));
}

/** What a mistake in a declaration becomes. */
export function mistaken(owner: string, problem: string): never {
  throw new SvcError('E_AUTH', [owner, problem]);
}

/** What a source gives when it finds somebody. */
export type PrincipalOf<A> = A extends DependencySource ? NonNullable<Provided<A>> : never;
