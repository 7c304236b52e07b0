/**
 * Dependencies that authenticate the client of a request by bearer token (RFC 6750) or session. For example,
 * `me: Depends(BearerAuth())` gives a handler the claims of the token in `me`.
 *
 * BearerAuth() ignores tokens in the query string, because URLs appear in logs. It ignores tokens in forms,
 * because a page of any site can submit a form. Roles and scopes are checked in require.ts.
 */
import { Depends, provide, viewOfDependency } from '../routing/di.ts';
import { LoginRequired, SESSION_SCHEME, SvcError, Unauthorized, withoutStack } from '../base/errors.ts';
import { InvalidToken, readToken, tokenChecks } from '../crypto/jwt.ts';
import { Keyring, authSecrets, weaknessOf } from '../crypto/keys.ts';
import { bool, given, isFunction, readOptions } from '../base/options.ts';
import { isSchemaClass, planOf } from '../schema/schema.ts';
import { declaredHere } from '../base/findings.ts';
import { isThenable } from '../base/promises.ts';
import { noteSecrets } from '../base/used-secrets.ts';
import { SecurityLog } from '../http/security-log.ts';
import { services, stateKey } from '../http/state.ts';
import type { Declared, Place } from '../base/findings.ts';
import type { Claims, TokenChecks, TokenRefusal, TokenRequirements } from '../crypto/jwt.ts';
import type { Secrets } from '../crypto/keys.ts';
import type { SchemaClass, SchemaPlan } from '../schema/schema.ts';
import type {
  Awaitable,
  Context,
  HttpRequest,
  SecurityRequirement,
  Services,
  SessionKey,
  StateKey,
  StateMap,
} from '../http/contracts.ts';
import type { DependencySource, Provided } from '../routing/di.ts';

/** Options of BearerAuth(). An option that is `undefined` has its default. */
export interface BearerAuthOptions<C = unknown> extends TokenRequirements {
  /** Realm in the `WWW-Authenticate` header of a 401: printable ASCII without `"` and `\`. Default: none. */
  readonly realm?: string | undefined;
  /**
   * Schema for the claims. A token whose claims do not match is refused. Without a schema, additional claims
   * are not checked.
   */
  readonly schema?: SchemaClass<C & object> | undefined;
  /**
   * Called for a token that has passed all other checks, for example to look up whether the user may still
   * log in. The token is accepted only if the function returns true. Exceptions of the function are not
   * caught.
   */
  readonly verify?: ((claims: Claims & C, context: Context) => Awaitable<boolean>) | undefined;
  /**
   * Accepts a request without a token; the value of the dependency is then `undefined`. An invalid token is
   * always refused. Default false.
   */
  readonly optional?: boolean | undefined;
}

/**
 * Creates a dependency whose value is the claims of a request's bearer token:
 * `{ me: Depends(BearerAuth()) }`. Without `secret`, tokens are verified with the setting `authSecret`. If
 * that setting is missing too, the application does not start.
 *
 * Without a token, the response is 401 with `WWW-Authenticate: Bearer`. For every refused token, the
 * challenge is `Bearer error="invalid_token"` (RFC 6750 §3.1). Only the event `token_rejected` of the logger
 * `svc_security` has the reason.
 *
 * `C` is the type of additional claims. `BearerAuth<{ tenant: string }>()` does not check them at run time.
 * `BearerAuth(undefined, { schema: Tenant })` checks them by the schema.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for an invalid option; `E_SECRET_WEAK`,
 * `E_SECRET_FORM` when the argument `secret` is too short or malformed
 */
export function BearerAuth<C = unknown>(
  secret: Secrets | undefined,
  options: BearerAuthOptions<C> & { readonly optional: true },
): AuthSource<(Claims & C) | undefined>;
export function BearerAuth<C = unknown>(
  secret?: Secrets,
  options?: BearerAuthOptions<C> & { readonly optional?: false | undefined },
): AuthSource<Claims & C>;
export function BearerAuth(secret?: Secrets, options?: BearerAuthOptions): AuthSource<Claims | undefined> {
  if (secret === undefined && options === undefined) return (usual ??= bearerAuth(undefined, {}));
  return bearerAuth(secret, options ?? {});
}

/**
 * Result of BearerAuth() without arguments. All such calls share it, so that a token is verified only once
 * for each request.
 */
let usual: AuthSource<Claims | undefined> | undefined;

function bearerAuth(secret: Secrets | undefined, options: BearerAuthOptions): AuthSource<Claims | undefined> {
  const reader = new BearerReader(options);
  const ring = secret === undefined ? undefined : Keyring.of(secret);
  noteSecrets('BearerAuth', secret);
  const keys = named('bearerKeys', ({ state }: Context) => new BearerKeys(state, ring, secret));
  const bare = provide(
    { keys: Depends(keys, { scope: 'app' }), secrets: ring === undefined ? ['authSecret'] : [] },
    named('BearerAuth', (context: Context & { readonly keys: BearerKeys }) =>
      reader.read(context, context.keys),
    ),
  );
  return wayIn('BearerAuth', {
    bare,
    requirement: requirementOf('bearer', options.optional),
    realm: options.realm,
  });
}

/**
 * Header parameter `typ` of the access tokens of a {@link TokenIssuer} (RFC 9068 §2.1). A token of another
 * type is not accepted as an access token, even if the same secret signed it.
 */
export const ACCESS_TOKEN_TYPE = 'at+jwt';

/**
 * Issuer of the application's access tokens, provided by a plugin. BearerAuth() calls tokenOf() for a request
 * without `Authorization: Bearer`, and accepts() for each valid token.
 */
export interface TokenIssuer {
  /** Id of the key that signs the access tokens. */
  readonly keyId: string;
  /** Returns the token from another place, such as a cookie, if there is no `Bearer` token. */
  tokenOf(req: HttpRequest): string | undefined;
  /** Returns whether the token is valid, for example not revoked. Called before `verify`. */
  accepts(claims: Claims, req: HttpRequest): Awaitable<boolean>;
  /** Returns a challenge for another scheme, such as DPoP. `error`: a token was refused. */
  challenge?(req: HttpRequest, error: 'invalid_token' | undefined): string;
  /** Returns additional header fields for each response with status 401. */
  fields?(): Readonly<Record<string, string>>;
}

/**
 * Key of the {@link TokenIssuer} in the application's state. `BearerAuth(secret)` ignores an issuer that
 * signs with another secret.
 */
export const tokenIssuer: StateKey<TokenIssuer> = stateKey('tokenIssuer');

/** Keys, token issuer and security log for the bearer tokens of one application. */
class BearerKeys {
  readonly keyring: Keyring;
  readonly issuer: TokenIssuer | undefined;
  readonly audit: SecurityLog;
  readonly #services: Services;

  constructor(state: StateMap, own: Keyring | undefined, secret: Secrets | undefined) {
    const shared = state.get(services);
    const issuer = state.has(tokenIssuer) ? state.get(tokenIssuer) : undefined;
    // ignore an issuer that signs with another key than `own`, because the tokens of that issuer are refused
    this.issuer = own === undefined || own.current.id === issuer?.keyId ? issuer : undefined;
    this.keyring = own ?? Keyring.of(authSecrets(shared.config));
    this.audit = SecurityLog.of(shared);
    this.#services = shared;
    // `svc check` finds weak secrets only in settings, so a secret in the code is checked here
    for (const problem of [secret ?? []].flat().map(weaknessOf))
      if (problem !== undefined) shared.log.warn('secret_weak', { owner: 'BearerAuth()', problem });
  }

  get nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

/**
 * Syntax of `Authorization` with a bearer token (RFC 6750 §2.1). Repeated fields do not match, because they
 * are joined by a comma, which no token contains.
 */
const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const SCHEME = /^bearer(?: |$)/i;

class BearerReader {
  readonly #checks: TokenChecks;
  /** Checks for the tokens of a {@link TokenIssuer}. By default, they require the type `at+jwt`. */
  readonly #issuedChecks: TokenChecks;
  readonly #schema: SchemaPlan | undefined;
  readonly #verify: BearerAuthOptions['verify'];
  readonly #isOptional: boolean;
  readonly #absent: Challenge;
  readonly #refused: Challenge;

  constructor({ realm, schema, verify, optional, ...requirements }: BearerAuthOptions) {
    const owner = 'BearerAuth()';
    this.#checks = tokenChecks(owner, requirements);
    this.#issuedChecks = tokenChecks(owner, {
      ...requirements,
      type: requirements.type ?? ACCESS_TOKEN_TYPE,
    });
    const read = readOptions(
      owner,
      { realm, schema, verify, optional },
      {
        realm: given<string>('printable ASCII without quotation marks', isRealm),
        optional: bool(false),
        schema: given<SchemaClass>('a class that extends Schema', isSchemaClass),
        verify: given<NonNullable<BearerAuthOptions['verify']>>('a function', isFunction),
      },
    );
    this.#schema = read.schema === undefined ? undefined : planOf(read.schema);
    this.#verify = read.verify;
    this.#isOptional = read.optional;
    this.#absent = Object.freeze({ 'WWW-Authenticate': challenge(SCHEMES.bearer, { realm }) });
    this.#refused = Object.freeze({
      'WWW-Authenticate': challenge(SCHEMES.bearer, { realm, error: 'invalid_token' }),
    });
  }

  /**
   * Returns the verified claims of the request's token; undefined if there is no token and the option
   * `optional` is set.
   *
   * @throws Unauthorized when there is no token, InvalidToken when the token is refused
   */
  read(context: Context, keys: BearerKeys): Awaitable<Claims | undefined> {
    const { req } = context;
    const field = req.headers['authorization'];
    const isBearer = field !== undefined && SCHEME.test(field);
    const token = isBearer ? CREDENTIALS.exec(field)?.[1] : keys.issuer?.tokenOf(req);
    if (token === undefined && !isBearer) {
      if (this.#isOptional) return undefined;
      // called outside withoutStack(), so that an error in #challenges() has a stack trace
      const headers = this.#challenges(undefined, req, keys); // no error code (RFC 6750 §3.1)
      throw withoutStack(() => new Unauthorized('An access token is needed', { headers }));
    }
    const checks = keys.issuer === undefined ? this.#checks : this.#issuedChecks;
    const found = readToken(keys.keyring, token, checks, keys.nowSeconds);
    if (typeof found === 'string') throw this.#refusal(found, req, keys);
    const read = this.#schema?.parseJson(found);
    const claims = read === undefined ? found : read.ok ? Object.assign(found, read.value) : undefined;
    if (claims === undefined) throw this.#refusal('schema', req, keys);
    const standing = keys.issuer?.accepts(claims, req) ?? true;
    if (isThenable(standing)) return standing.then((counts) => this.#verified(counts, claims, context, keys));
    return this.#verified(standing, claims, context, keys);
  }

  #verified(counts: boolean, claims: Claims, context: Context, keys: BearerKeys): Awaitable<Claims> {
    const { req } = context;
    if (!counts) throw this.#refusal('revoked', req, keys);
    const answer = this.#verify?.(claims, context);
    if (this.#verify === undefined || answer === true) return claims;
    if (!isThenable(answer)) throw this.#refusal('verify', req, keys);
    return answer.then((isAccepted) => {
      if (isAccepted === true) return claims;
      throw this.#refusal('verify', req, keys);
    });
  }

  #refusal(reason: TokenRefusal, req: HttpRequest, keys: BearerKeys): RefusedToken {
    keys.audit.refused('token_rejected', req, { reason });
    return new RefusedToken(reason, this.#challenges('invalid_token', req, keys));
  }

  /**
   * Returns the header fields of a 401 response. Only the challenge for the scheme of the request contains
   * `error` (RFC 9449 §7.1).
   */
  #challenges(error: 'invalid_token' | undefined, req: HttpRequest, { issuer }: BearerKeys): Challenge {
    const own = error === undefined ? this.#absent : this.#refused;
    const other = issuer?.challenge?.(req, error);
    if (other === undefined) return own;
    const bearer = SCHEME.test(req.headers['authorization'] ?? '') ? own : this.#absent;
    return { ...issuer?.fields?.(), 'WWW-Authenticate': `${bearer['WWW-Authenticate']}, ${other}` };
  }
}

export type Challenge = Readonly<Record<string, string>> & { readonly 'WWW-Authenticate': string };

/** InvalidToken with the `WWW-Authenticate` challenges of the guard that refused the token. */
export class RefusedToken extends InvalidToken {
  override readonly headers: Challenge;

  constructor(reason: TokenRefusal, headers: Challenge) {
    super(reason);
    this.headers = headers;
    this.name = 'InvalidToken';
  }
}

/*
 * Types and functions that BearerAuth(), requireSession(), APIKeyAuth() and the guards of require.ts share.
 *
 * If credentials are missing or invalid, the response is 401 with a challenge (RFC 9110 §11.6.1). If valid
 * credentials lack a permission, the response is 403.
 */

/** Function for Depends() that returns the authenticated client, for example the claims of a token. */
export type AuthSource<P> = (context: Context) => Awaitable<P>;

/** Returns a challenge for `WWW-Authenticate`, such as `Bearer error="invalid_token"` (RFC 9110 §11.3). */
export function challenge(
  scheme: string,
  parameters: Readonly<Record<string, string | undefined>> = {},
): string {
  const written = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${value}"`);
  return written.length === 0 ? scheme : `${scheme} ${written.join(', ')}`;
}

/** Returns whether a value is 1 ... 200 printable ASCII characters without `"` and `\`. */
export function isRealm(value: unknown): boolean {
  return typeof value === 'string' && /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(value);
}

interface Way {
  readonly bare: DependencySource;
  readonly requirement: SecurityRequirement;
  readonly realm: string | undefined;
}

const WAYS = new WeakMap<object, Way>();

export function wayIn<P>(name: string, way: Way & { readonly bare: AuthSource<P> }): AuthSource<P> {
  const source = provide(
    { found: Depends(way.bare), security: way.requirement },
    named(name, ({ found }: { found: unknown }) => found as P),
  );
  WAYS.set(source, way);
  return source;
}

/**
 * Returns how a dependency authenticates a client. Without a declared `security`, a bearer token is assumed.
 */
export function wayOf(source: DependencySource): Way {
  const own = WAYS.get(source);
  if (own !== undefined) return own;
  const [requirement = requirementOf('bearer')] = viewOfDependency(Depends(source)).security;
  return { bare: source, requirement, realm: undefined };
}

export function requirementOf(
  scheme: SecurityRequirement['scheme'],
  isOptional = false,
): SecurityRequirement {
  return { scheme, scopes: [], roles: [], ...(isOptional ? { isOptional } : {}) };
}

/**
 * Authentication schemes in `WWW-Authenticate`. Sessions and API keys have no registered scheme, but every
 * 401 needs a challenge (RFC 9110 §11.6.1).
 */
export const SCHEMES: Readonly<Record<SecurityRequirement['scheme'], string>> = {
  bearer: 'Bearer',
  session: SESSION_SCHEME,
  apiKey: 'ApiKey',
};

/** Sets the name of a function that is used as a dependency. Error messages show this name. */
export function named<F extends object>(name: string, fn: F): F {
  return Object.defineProperty(fn, 'name', { value: name });
}

const calls = new WeakMap<object, Declared>();

/** Stores the file and line where the program called `by`, the function that created the guard. */
export function noteGuard(guard: object, by: (...args: never[]) => unknown): void {
  calls.set(guard, declaredHere(by));
}

/** Returns the file and line where the program created a guard. `svc check` shows them. @internal */
export function placeOfGuard(guard: object): Place | undefined {
  return calls.get(guard)?.place;
}

/** Returns the security log of the application. Callers must not log credentials. */
export function audit({ state }: Context): SecurityLog {
  return SecurityLog.of(state.get(services));
}

export function mistaken(owner: string, problem: string): never {
  throw new SvcError('E_AUTH', [owner, problem]);
}

/** Type of the client that an authentication dependency returns, without undefined and null. */
export type PrincipalOf<A> = A extends DependencySource ? NonNullable<Provided<A>> : never;

/*
 * requireSession(): a dependency whose value is the user that a login has stored in the session.
 *
 * Example:
 *   const USER = sessionKey<{ id: number }>('user');
 *   app.get('/account', { user: Depends(requireSession(USER)) }, ({ user }) => ...)
 *
 * A login stores the value: req.session.regenerate(); req.session.set(USER, { id })
 * To redirect a browser to the login page instead of the response 401:
 *   app.exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 }))
 */

/**
 * Creates a dependency whose value is the session's value for `key`. If the session has no such value, the
 * dependency throws LoginRequired (401). SessionMiddleware must be installed.
 *
 * If the value is an object, requireRoles() and other guards accept this dependency as option `auth`.
 *
 * @throws SvcError `E_AUTH` if sessionKey() did not create the key
 */
export function requireSession<T>(key: SessionKey<T>): AuthSource<NonNullable<T>> {
  if (typeof key?.name !== 'string') mistaken('requireSession()', 'the key is not made by sessionKey()');
  const bare = named('requireSession', ({ req }: Context) => {
    const value = req.session.get(key);
    if (value === undefined || value === null) throw new LoginRequired();
    return value;
  });
  return wayIn('requireSession', { bare, requirement: requirementOf('session'), realm: undefined });
}
