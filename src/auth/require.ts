/**
 * Authorization by claims: by roles, by scopes, or by a function. Each is a dependency whose value is the
 * claims.
 *
 * Examples:
 *   requireRoles('admin', 'owner')                 any of these roles
 *   requireScopes('notes:read', 'notes:write')     all of these scopes (RFC 6750 §3.1)
 *   requireIf((claims, { req }) => claims.sub === req.pathParams['id'])
 *
 * The claims come from `BearerAuth()`, or from the source in the option `auth`. Both respond with 401 if
 * there are no claims. A missing role or scope gives 403.
 *
 * Claims are read strictly. The claim `roles` is an array of strings. The claim `scopes` is an array of
 * strings, or the claim `scope` is one string with spaces. All other forms grant nothing.
 */
import { BearerAuth, SCHEMES, audit, challenge, mistaken, named, noteGuard, wayOf } from './auth.ts';
import { Depends, provide } from '../routing/di.ts';
import { Forbidden, Unauthorized } from '../base/errors.ts';
import { given, isFunction, isTextList, readOptions, text } from '../base/options.ts';
import { isThenable } from '../base/promises.ts';
import type { AuthSource, PrincipalOf } from './auth.ts';
import type { DependencySource } from '../routing/di.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, Context, HttpRequest } from '../http/contracts.ts';
import type { SecurityLog } from '../http/security-log.ts';

/** `A`; an error text as a type if the value of `A` cannot be claims. */
type CheckedAuth<A> = A extends DependencySource
  ? PrincipalOf<A> extends object
    ? A
    : 'auth must give claims: an object such as BearerAuth() gives, or undefined without authentication'
  : 'auth must be the source of a dependency, such as BearerAuth(), without Depends( )';

/** `S`; an error text as a type if `S` is not a single scope. */
type CheckedScope<S> = S extends ''
  ? 'a scope is not empty'
  : S extends `${string} ${string}`
    ? 'a scope has no spaces: pass each as an argument of its own'
    : S;
type CheckedScopes<S extends readonly string[]> = { readonly [K in keyof S]: CheckedScope<S[K]> };

/**
 * Error texts as types, for invalid arguments. The last overload has them, because the compiler reports the
 * errors of the last overload.
 */
type WrongRoles<G extends readonly unknown[]> = {
  readonly [K in keyof G]: G[K] extends ''
    ? 'a role is not empty'
    : G[K] extends string
      ? G[K]
      : "a role is text; with another way in it is { roles: ['admin'], auth }: at least one role, and the source of a dependency that gives claims, without Depends( )";
};
type WrongScopes<G extends readonly unknown[]> = {
  readonly [K in keyof G]: G[K] extends string
    ? CheckedScope<G[K]>
    : "a scope is text; with another way in it is { scopes: ['read'], auth }: at least one scope, none with spaces, and the source of a dependency that gives claims, without Depends( )";
};

/** Options of {@link requireRoles} with a source of claims. */
export interface RoleRequirement<A> {
  /** Accepted roles: a client needs one of them. At least one must be listed. */
  readonly roles: readonly [string, ...string[]];
  /** Source of the claims: a dependency whose value is the claims, or undefined without authentication. */
  readonly auth: A & CheckedAuth<A>;
}

/** Options of {@link requireScopes} with a source of claims. */
export interface ScopeRequirement<A, S extends readonly string[] = readonly string[]> {
  /** Required scopes: a client needs all of them. At least one must be listed. */
  readonly scopes: S & CheckedScopes<S>;
  /** Source of the claims: a dependency whose value is the claims, or undefined without authentication. */
  readonly auth: A & CheckedAuth<A>;
}

/** Options of {@link requireIf}. */
export interface ConditionOptions {
  /** Detail of the response 403, which clients see. */
  readonly detail?: string | undefined;
}

/**
 * Creates a dependency with the claims of clients that have one of these roles. The response is 401 without a
 * valid token, and 403 without such a role.
 *
 * Roles come from the claim `roles`, an array of strings. They are compared exactly.
 *
 * @throws SvcError `E_AUTH` without roles, or for a role that is not a string
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
    const own = rolesOf(claims);
    return roles.some((role) => own.includes(role)) ? undefined : 'role';
  });
}

/**
 * Creates a dependency with the claims of clients that have all of these scopes. The response is 401 without
 * a valid token. Without the scopes it is 403 with `WWW-Authenticate: Bearer error="insufficient_scope",
 * scope="..."`, which names the required scopes (RFC 6750 §3).
 *
 * Scopes come from the claim `scopes`, an array of strings. If that claim is absent, they come from the claim
 * `scope`, one string with spaces.
 *
 * @throws SvcError `E_AUTH` without scopes, or for an invalid scope (RFC 6749 §3.3)
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
    const own = scopesOf(claims);
    return scopes.every((scope) => own.includes(scope)) ? undefined : 'scope';
  });
}

/**
 * Creates a dependency with the claims of clients for which `predicate` returns true. Otherwise the response
 * is 403, with `detail` for the client. The predicate gets the claims and the context of the request: path,
 * headers and state, but not the body. It may be asynchronous; its exceptions are passed on.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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
    (claims, context) => {
      // the overloads require a predicate that accepts the claims
      const answer = predicate(claims as never, context);
      return isThenable(answer)
        ? answer.then((isAllowed) => (isAllowed === true ? undefined : 'condition'))
        : answer === true
          ? undefined
          : 'condition';
    },
    detail,
  );
  predicates.set(source, predicate);
  noteGuard(source, requireIf);
  return source;
}

const predicates = new WeakMap<object, (...args: never[]) => unknown>();

/** Returns the predicate of a dependency that requireIf() has created, for `svc check`. @internal */
export function predicateOf(source: object): ((...args: never[]) => unknown) | undefined {
  return predicates.get(source);
}

/** Roles in claims that are not checked yet. Inherited members are ignored. */
function rolesOf(claims: object): readonly string[] {
  return textsOf(ownOf(claims, 'roles'));
}

/** Scopes in claims that are not checked yet. */
function scopesOf(claims: object): readonly string[] {
  if (Object.hasOwn(claims, 'scopes')) return textsOf(ownOf(claims, 'scopes'));
  const scope = ownOf(claims, 'scope');
  return typeof scope === 'string' ? scope.split(' ') : [];
}

function ownOf(claims: object, name: string): unknown {
  return Object.hasOwn(claims, name) ? (claims as Readonly<Record<string, unknown>>)[name] : undefined;
}

/** Returns a list of strings. A list with any other item counts as empty. */
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
  const isObject = typeof first === 'object' && first !== null;
  const read = isObject
    ? (readOptions(owner, first, {
        [what]: given<readonly unknown[]>('a list', Array.isArray),
        auth: AUTH,
      }) as { readonly auth?: DependencySource } & Readonly<Record<string, unknown>>)
    : {};
  const list = isObject
    ? (((read as Readonly<Record<string, unknown>>)[what] as readonly unknown[] | undefined) ?? [])
    : of;
  if (list.length === 0) mistaken(owner, `no ${what} are named`);
  for (const name of list)
    if (typeof name !== 'string' || !isName(name))
      mistaken(
        owner,
        `${typeof name === 'string' ? JSON.stringify(name) : typeof name} cannot be one of the ${what} of a token`,
      );
  return { list: Object.freeze([...list]) as readonly string[], auth: read.auth };
}

type Lack = 'role' | 'scope' | 'condition';

/**
 * Creates a dependency with the value of `auth`. It refuses clients for which `judge` returns what is
 * missing.
 */
function demand(
  name: string,
  auth: DependencySource | undefined,
  needs: { readonly roles: readonly string[]; readonly scopes: readonly string[] },
  judge: (claims: object, context: Context) => Awaitable<Lack | undefined>,
  detail: string = DETAIL,
): AuthSource<object> {
  const {
    bare,
    requirement: { isOptional: _, ...requirement },
    realm,
  } = wayOf(auth ?? BearerAuth());
  const scheme = SCHEMES[requirement.scheme];
  const absent = { headers: { 'WWW-Authenticate': challenge(scheme, { realm }) } };
  const scope = needs.scopes.length === 0 ? undefined : needs.scopes.join(' ');
  const forbidden = (
    by: string,
  ): { readonly code?: string; readonly headers?: Readonly<Record<string, string>> } =>
    scope === undefined
      ? {}
      : {
          // only access tokens have a challenge that names scopes (RFC 6750 §3, RFC 9449 §7.1)
          code: 'insufficient_scope',
          ...(scheme === SCHEMES.bearer
            ? {
                headers: { 'WWW-Authenticate': challenge(by, { realm, error: 'insufficient_scope', scope }) },
              }
            : {}),
        };
  const forBearer = forbidden(scheme),
    forDPoP = forbidden('DPoP');
  const decide = (lack: Lack | undefined, claims: object, req: HttpRequest, log: SecurityLog): object => {
    if (lack === undefined) return claims;
    log.refused('access_denied', req, { lacks: lack, sub: ownOf(claims, 'sub') });
    throw new Forbidden(detail, /^dpop /i.test(req.headers['authorization'] ?? '') ? forDPoP : forBearer);
  };
  return provide(
    {
      claims: Depends(bare),
      audit: Depends(audit, { scope: 'app' }),
      security: { ...requirement, ...needs },
    },
    named(name, (context: Context & { readonly claims: unknown; readonly audit: SecurityLog }) => {
      const { claims, req } = context;
      if (typeof claims !== 'object' || claims === null)
        throw new Unauthorized('Authentication is required', absent);
      const lack = judge(claims, context);
      return isThenable(lack)
        ? lack.then((settled) => decide(settled as Lack | undefined, claims, req, context.audit))
        : decide(lack, claims, req, context.audit);
    }),
  );
}

const DETAIL = 'This is not allowed with these credentials';
