/**
 * What the claims of a request must say: roles, scopes, or whatever a function finds. Each is a source that gives the claims.
 *
 *   requireRoles('admin', 'owner')                 any of them
 *   requireScopes('notes:read', 'notes:write')     all of them (RFC 6750 §3.1)
 *   requireIf((claims, { req }) => claims.sub === req.pathParams['id'])
 *
 * They stand on `BearerAuth()`, or on the way in that `auth` names: 401 is its business, 403 theirs. Claims are read strictly:
 * roles are an array of strings; scopes an array of strings, or `scope`, one text with spaces. Anything else grants nothing.
 */
import { BearerAuth, SCHEMES, audit, challenge, mistaken, named, wayOf } from './auth.ts';
import { Depends, provide } from '../routing/di.ts';
import { Forbidden, Unauthorized } from '../base/errors.ts';
import { given, isFunction, isTextList, readOptions, text } from '../base/options.ts';
import { isThenable } from '../base/promises.ts';
import type { AuthSource, PrincipalOf } from './auth.ts';
import type { DependencySource } from '../routing/di.ts';
import type { Claims } from '../crypto/jwt.ts';
import type { Awaitable, Context, HttpRequest } from '../http/contracts.ts';
import type { SecurityLog } from '../http/security-log.ts';

/** `A`, or a sentence where it gives nothing that could have claims. */
type CheckedAuth<A> = A extends DependencySource
  ? PrincipalOf<A> extends object
    ? A
    : 'auth must give claims: an object such as BearerAuth() gives, or undefined for nobody'
  : 'auth must be the source of a dependency, such as BearerAuth(), without Depends( )';

/** `S`, or a sentence where it is no single scope. */
type CheckedScope<S> = S extends ''
  ? 'a scope is not empty'
  : S extends `${string} ${string}`
    ? 'a scope has no spaces: pass each as an argument of its own'
    : S;
type CheckedScopes<S extends readonly string[]> = { readonly [K in keyof S]: CheckedScope<S[K]> };

/** Sentences for what fits neither form: the compiler shows those of the last overload. */
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

/** {@link requireRoles} with another way in. */
export interface RoleRequirement<A> {
  /** Any of them; at least one. */
  readonly roles: readonly [string, ...string[]];
  /** Who asks: the source of a dependency that gives claims, or undefined for nobody. */
  readonly auth: A & CheckedAuth<A>;
}

/** {@link requireScopes} with another way in. */
export interface ScopeRequirement<A, S extends readonly string[] = readonly string[]> {
  /** All of them; at least one. */
  readonly scopes: S & CheckedScopes<S>;
  /** Who asks: the source of a dependency that gives claims, or undefined for nobody. */
  readonly auth: A & CheckedAuth<A>;
}

/** What {@link requireIf} takes besides its predicate. */
export interface ConditionOptions {
  /** What a client that is refused may read. */
  readonly detail?: string | undefined;
}

/**
 * The claims of whoever has any of these roles. 401 without valid token, 403 without role.
 *
 * Roles are those of the claim `roles`, an array of strings. Roles and claims are compared exactly.
 *
 * @throws SvcError `E_AUTH` without roles, or for one that is no text
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
 * The claims of whoever has all of these scopes. 401 without valid token; 403 with `WWW-Authenticate: Bearer
 * error="insufficient_scope", scope="..."`, which names what is needed (RFC 6750 §3).
 *
 * Scopes are those of the claim `scopes`, an array of strings; where there is none, of the claim `scope`, one text.
 *
 * @throws SvcError `E_AUTH` without scopes, or for one that RFC 6749 §3.3 does not know
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
 * The claims of whoever `predicate` answers true for; for anything else 403, with `detail` for the client. It gets the claims
 * and the context of the request: its path, headers and state, not its body. It may be asynchronous; what it throws is thrown.
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
  if (typeof predicate !== 'function') mistaken(owner, 'its predicate is no function');
  const { detail, auth } = readOptions(owner, options, { detail: text(), auth: AUTH });
  return demand(
    'requireIf',
    auth,
    { roles: [], scopes: [] },
    (claims, context) => {
      const answer = predicate(claims as never, context); // the source gives what the predicate was typed with
      return isThenable(answer)
        ? answer.then((isAllowed) => (isAllowed === true ? undefined : 'condition'))
        : answer === true
          ? undefined
          : 'condition';
    },
    detail,
  );
}

/** The roles of claims that may say anything. An inherited member is nobody's claim. */
function rolesOf(claims: object): readonly string[] {
  return textsOf(ownOf(claims, 'roles'));
}

/** Their scopes. */
function scopesOf(claims: object): readonly string[] {
  if (Object.hasOwn(claims, 'scopes')) return textsOf(ownOf(claims, 'scopes'));
  const scope = ownOf(claims, 'scope');
  return typeof scope === 'string' ? scope.split(' ') : [];
}

function ownOf(claims: object, name: string): unknown {
  return Object.hasOwn(claims, name) ? (claims as Readonly<Record<string, unknown>>)[name] : undefined;
}

/** One item that is no string, and the whole is not what it should be. */
function textsOf(value: unknown): readonly string[] {
  return isTextList(value) ? value : [];
}

// -- declared --

/** A scope-token (RFC 6749 §3.3). */
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
        `${typeof name === 'string' ? JSON.stringify(name) : typeof name} is none of the ${what} that a token can have`,
      );
  return { list: Object.freeze([...list]) as readonly string[], auth: read.auth };
}

type Lack = 'role' | 'scope' | 'condition';

/** A source that gives what `auth` has found, if `judge` finds no lack in it. */
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
    scheme,
    realm,
  } = wayOf(auth ?? BearerAuth());
  const absent = { headers: { 'WWW-Authenticate': challenge(scheme, { realm }) } };
  const scope = needs.scopes.length === 0 ? undefined : needs.scopes.join(' ');
  const forbidden = (
    by: string,
  ): { readonly code?: string; readonly headers?: Readonly<Record<string, string>> } =>
    scope === undefined
      ? {}
      : {
          code: 'insufficient_scope', // the header is that of access tokens alone: RFC 6750 §3, RFC 9449 §7.1
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
        throw new Unauthorized('Nobody has been authenticated', absent);
      const lack = judge(claims, context);
      return isThenable(lack)
        ? lack.then((settled) => decide(settled as Lack | undefined, claims, req, context.audit))
        : decide(lack, claims, req, context.audit);
    }),
  );
}

const DETAIL = 'This is not allowed with these credentials';
