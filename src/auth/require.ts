/**
 * Guards: dependencies that authorize a client by roles, scopes, or a function. Their value is the claims of
 * the client.
 *
 * Examples:
 *   requireRoles('admin', 'owner')                 any of these roles
 *   requireScopes('notes:read', 'notes:write')     all of these scopes (RFC 6750 §3.1)
 *   requireIf((claims, { req }) => claims.sub === req.pathParams['id'])
 *
 * A guard gets the claims from BearerAuth(), or from the dependency in its option `auth`. If the client is
 * not authenticated, the response is 401. If a role or scope is missing, the response is 403.
 *
 * Roles are in the claim `roles`, an array of strings. Scopes are in the claim `scopes`, an array of strings,
 * or else in the claim `scope`, one string with spaces. A claim of another type is ignored.
 */
import { BearerAuth, SCHEMES, audit, challenge, mistaken, named, noteGuard, wayOf } from './auth.ts';
import { Depends, provide } from '../routing/di.ts';
import { Forbidden, Unauthorized, type HTTPExceptionOptions } from '../base/errors.ts';
import { given, isFunction, isObject, isTextList, own, readOptions, text } from '../base/options.ts';
import { whenReady } from '../base/promises.ts';
import type { AuthSource, PrincipalOf } from './auth.ts';
import type { DependencySource } from '../routing/di.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, Context, HttpRequest } from '../http/contracts.ts';
import type { SecurityLog } from '../http/security-log.ts';

/**
 * `A` if this dependency returns an object, such as claims; otherwise an error text for the compiler to show.
 */
type CheckedAuth<A> = A extends DependencySource
  ? PrincipalOf<A> extends object
    ? A
    : 'auth must give claims: an object such as BearerAuth() gives, or undefined without authentication'
  : 'auth must be the source of a dependency, such as BearerAuth(), without Depends( )';

/** `S` if this text is a valid scope; otherwise an error text for the compiler to show. */
type CheckedScope<S> = S extends ''
  ? 'a scope is not empty'
  : S extends `${string} ${string}`
    ? 'a scope has no spaces: pass each scope as a separate argument'
    : S;
type CheckedScopes<S extends readonly string[]> = { readonly [K in keyof S]: CheckedScope<S[K]> };

/**
 * Replaces the type of each invalid argument by an error text. Only the last overload uses this type, because
 * the compiler reports only the errors of that overload.
 */
type WrongRoles<G extends readonly unknown[]> = {
  readonly [K in keyof G]: G[K] extends ''
    ? 'a role is not empty'
    : G[K] extends string
      ? G[K]
      : "a role is text; for other claims than those of BearerAuth(), pass { roles: ['admin'], auth }: auth is a source without Depends( )";
};
type WrongScopes<G extends readonly unknown[]> = {
  readonly [K in keyof G]: G[K] extends string
    ? CheckedScope<G[K]>
    : "a scope is text; for other claims than those of BearerAuth(), pass { scopes: ['read'], auth }: auth is a source without Depends( )";
};

/** Argument of {@link requireRoles} when the claims do not come from BearerAuth(). */
export interface RoleRequirement<A> {
  /** Accepted roles. A client needs at least one of them. The list must not be empty. */
  readonly roles: readonly [string, ...string[]];
  /** Dependency whose value is the claims, or undefined if the client is not authenticated. */
  readonly auth: A & CheckedAuth<A>;
}

/** Argument of {@link requireScopes} when the claims do not come from BearerAuth(). */
export interface ScopeRequirement<A, S extends readonly string[] = readonly string[]> {
  /** Required scopes. A client needs all of them. The list must not be empty. */
  readonly scopes: S & CheckedScopes<S>;
  /** Dependency whose value is the claims, or undefined if the client is not authenticated. */
  readonly auth: A & CheckedAuth<A>;
}

/** Options of {@link requireIf}, besides `auth`. */
export interface ConditionOptions {
  /** Text for the client in the response 403. */
  readonly detail?: string | undefined;
}

/**
 * Creates a dependency that accepts only clients with at least one of these roles. The value of the
 * dependency is the claims. Without a valid token, the response is 401. Without such a role, the response is
 * 403.
 *
 * The client's roles are in the claim `roles`, an array of strings. Upper and lower case differ.
 *
 * @throws SvcError `E_AUTH` when no role is given, or a role is not a string or empty
 */
export function requireRoles<A extends DependencySource>(
  requirement: RoleRequirement<A>,
): AuthSource<PrincipalOf<A>>;
export function requireRoles(...roles: readonly [string, ...string[]]): AuthSource<Claims>;
export function requireRoles<const G extends readonly [unknown, ...unknown[]]>(
  ...roles: WrongRoles<G>
): AuthSource<Claims>;
export function requireRoles(...of: readonly unknown[]): AuthSource<object> {
  const owner = 'requireRoles()';
  const { list: roles, auth } = readNames(owner, 'roles', of, (role) => role !== '');
  return demand('requireRoles', auth, { roles, scopes: [] }, (claims) => {
    const held = textsOf(own(claims, 'roles'));
    return roles.some((role) => held.includes(role)) ? undefined : 'role';
  });
}

/**
 * Creates a dependency that accepts only clients with all of these scopes. The value of the dependency is the
 * claims. Without a valid token, the response is 401. If a scope is missing, the response is 403 with
 * `WWW-Authenticate: Bearer error="insufficient_scope", scope="..."`, which lists the required scopes (RFC
 * 6750 §3).
 *
 * The client's scopes are in the claim `scopes`, an array of strings, or else in the claim `scope`, one
 * string with spaces.
 *
 * @throws SvcError `E_AUTH` when no scope is given, or a scope has an invalid form (RFC 6749 §3.3)
 */
export function requireScopes<A extends DependencySource, const S extends readonly string[]>(
  requirement: ScopeRequirement<A, S>,
): AuthSource<PrincipalOf<A>>;
export function requireScopes<const S extends readonly [string, ...string[]]>(
  ...scopes: CheckedScopes<S>
): AuthSource<Claims>;
export function requireScopes<const G extends readonly [unknown, ...unknown[]]>(
  ...scopes: WrongScopes<G>
): AuthSource<Claims>;
export function requireScopes(...of: readonly unknown[]): AuthSource<object> {
  const { list: scopes, auth } = readNames('requireScopes()', 'scopes', of, (scope) => SCOPE.test(scope));
  return demand('requireScopes', auth, { roles: [], scopes }, (claims) => {
    const held = scopesOf(claims);
    return scopes.every((scope) => held.includes(scope)) ? undefined : 'scope';
  });
}

/**
 * Creates a dependency that accepts only clients for which `predicate` returns true. The value of the
 * dependency is the claims. The response to other clients is 403 with `detail`.
 *
 * The predicate receives the claims and the context of the request, without the body. It may be asynchronous;
 * its exceptions are not caught.
 *
 * @throws SvcError `E_AUTH` when the predicate is not a function, `E_OPTION_UNKNOWN` for an unknown option,
 * `E_OPTION_RANGE` for a value that is not allowed
 */
export function requireIf<A extends DependencySource>(
  predicate: (claims: PrincipalOf<A>, context: Context) => Awaitable<boolean>,
  options: ConditionOptions & { readonly auth: A & CheckedAuth<A> },
): AuthSource<PrincipalOf<A>>;
export function requireIf<C = unknown>(
  predicate: (claims: Claims & C, context: Context) => Awaitable<boolean>,
  options?: ConditionOptions,
): AuthSource<Claims & C>;
export function requireIf(
  predicate: (claims: never, context: Context) => Awaitable<boolean>,
  options: ConditionOptions & { readonly auth?: DependencySource } = {},
): AuthSource<object> {
  const owner = 'requireIf()';
  if (typeof predicate !== 'function') mistaken(owner, 'the predicate is not a function');
  const { detail, auth } = readOptions(owner, options, { detail: text(), auth: AUTH });
  const source = demand(
    'requireIf',
    auth,
    { roles: [], scopes: [] },
    (claims, context) =>
      whenReady(predicate(claims as never, context), (isAllowed) =>
        isAllowed === true ? undefined : 'condition',
      ),
    detail,
  );
  predicates.set(source, predicate);
  noteGuard(source, requireIf);
  return source;
}

const predicates = new WeakMap<object, (...args: never[]) => unknown>();

/**
 * Returns the predicate of a guard that requireIf() created. `svc check` reads it.
 * @internal
 */
export function predicateOf(source: object): ((...args: never[]) => unknown) | undefined {
  return predicates.get(source);
}

function scopesOf(claims: Claims): readonly string[] {
  if (Object.hasOwn(claims, 'scopes')) return textsOf(claims['scopes']);
  const scope = own(claims, 'scope');
  return typeof scope === 'string' ? scope.split(' ') : [];
}

function textsOf(value: unknown): readonly string[] {
  return isTextList(value) ? value : [];
}

/** Syntax of a scope (RFC 6749 §3.3). */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+$/;
const AUTH = given<DependencySource>('the source of a dependency, such as BearerAuth()', isFunction);

function readNames(
  owner: string,
  what: 'roles' | 'scopes',
  of: readonly unknown[],
  isName: (name: string) => boolean,
): { readonly list: readonly string[]; readonly auth: DependencySource | undefined } {
  const [first] = of;
  const read: Readonly<Record<string, unknown>> = isObject(first)
    ? readOptions(owner, first, { [what]: given<readonly unknown[]>('a list', Array.isArray), auth: AUTH })
    : { [what]: of };
  const list = (read[what] ?? []) as readonly unknown[];
  if (list.length === 0) mistaken(owner, `no ${what} are named`);
  for (const name of list)
    if (typeof name !== 'string' || !isName(name))
      mistaken(
        owner,
        `${typeof name === 'string' ? JSON.stringify(name) : typeof name} cannot be one of the ${what} of a token`,
      );
  const auth = read['auth'] as DependencySource | undefined;
  return { list: Object.freeze([...list]) as readonly string[], auth };
}

type Lack = 'role' | 'scope' | 'condition';

/** Creates a guard. `judge` returns the kind of permission that a client lacks, if any. */
function demand(
  name: string,
  auth: DependencySource | undefined,
  needs: { readonly roles: readonly string[]; readonly scopes: readonly string[] },
  judge: (claims: Claims, context: Context) => Awaitable<Lack | undefined>,
  detail: string = DETAIL,
): AuthSource<object> {
  const { bare, requirement: asked, realm } = wayOf(auth ?? BearerAuth());
  const { isOptional: _, ...requirement } = asked;
  const scheme = SCHEMES[requirement.scheme];
  const absent = { headers: { 'WWW-Authenticate': challenge(scheme, { realm }) } };
  const scope = needs.scopes.length === 0 ? undefined : needs.scopes.join(' ');
  const code = 'insufficient_scope';
  const forbidden = (by: string): HTTPExceptionOptions => {
    if (scope === undefined) return {};
    // only the challenges for access tokens list the required scopes (RFC 6750 §3, RFC 9449 §7.1)
    if (scheme !== SCHEMES.bearer) return { code };
    return { code, headers: { 'WWW-Authenticate': challenge(by, { realm, error: code, scope }) } };
  };
  const forBearer = forbidden(scheme);
  const forDPoP = forbidden('DPoP');
  const decide = (lack: Lack | undefined, claims: Claims, req: HttpRequest, log: SecurityLog): object => {
    if (lack === undefined) return claims;
    log.refused('access_denied', req, { lacks: lack, sub: own(claims, 'sub') });
    throw new Forbidden(detail, /^dpop /i.test(req.headers['authorization'] ?? '') ? forDPoP : forBearer);
  };
  return provide(
    {
      claims: Depends(bare),
      audit: Depends(audit, { scope: 'app' }),
      security: { ...requirement, ...needs },
    },
    named(name, (context: Context & { readonly claims: unknown; readonly audit: SecurityLog }) => {
      const { req } = context;
      if (!isObject(context.claims)) throw new Unauthorized('Authentication is required', absent);
      const claims = context.claims as Claims; // each member is unknown, also in the claims of other guards
      return whenReady(judge(claims, context), (lack) => decide(lack, claims, req, context.audit));
    }),
  );
}

const DETAIL = 'This is not allowed with these credentials';
