/**
 * Dependencies that authenticate the client of a request: by bearer token (RFC 6750), by session, or by API
 * key. For example, `me: Depends(BearerAuth())` gives a handler the claims of the token in `me`.
 *
 * BearerAuth() ignores tokens in the query string, because URLs appear in logs. It ignores tokens in forms,
 * because a page of any site can submit a form. Roles and scopes are checked in require.ts.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Depends, provide, viewOfDependency } from '../routing/di.ts';
import { LoginRequired, SESSION_SCHEME, SvcError, Unauthorized, withoutStack } from '../base/errors.ts';
import { InvalidToken, readToken, tokenChecks } from '../crypto/jwt.ts';
import { Keyring, authSecrets, weaknessOf } from '../crypto/keys.ts';
import { bool, given, isFunction, readOptions, isObject } from '../base/options.ts';
import { isSchemaClass, planOf } from '../schema/schema.ts';
import { declaredHere } from '../base/findings.ts';
import { isThenable, whenReady } from '../base/promises.ts';
import { noteSecrets } from '../base/used-secrets.ts';
import { SecurityLog } from '../http/security-log.ts';
import { services, stateKey } from '../http/state.ts';
import { isToken } from '../http/headers.ts';
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
  /**
   * Returns the token from another place, such as a cookie. Called if the request has no `Authorization:
   * Bearer`.
   */
  tokenOf(req: HttpRequest): string | undefined;
  /**
   * Returns whether the token is valid for this request, for example not revoked. Called after all other
   * checks except `verify`.
   */
  accepts(claims: Claims, req: HttpRequest): Awaitable<boolean>;
  /**
   * Returns a `WWW-Authenticate` challenge for another scheme, such as DPoP. `error` is set if a token was
   * refused.
   */
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
    const claims = this.#schema === undefined ? found : this.#checked(found);
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

  /** Converts the claims by the schema. Returns undefined if they do not match. */
  #checked(claims: Claims): Claims | undefined {
    const result = this.#schema!.parseJson(claims);
    return result.ok ? Object.assign(claims, result.value) : undefined;
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

/** How a dependency authenticates a client. */
interface Way {
  readonly bare: DependencySource;
  readonly requirement: SecurityRequirement;
  readonly realm: string | undefined;
}

const WAYS = new WeakMap<object, Way>();

export function wayIn<P>(name: string, way: Way & { readonly bare: AuthSource<P> }): AuthSource<P> {
  const source = provide(
    { found: Depends(way.bare), security: way.requirement },
    // the cast is safe: `found` is the value of the dependency `way.bare`, which has the type P
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

/** Returns an OpenAPI security requirement without roles and scopes. */
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
  return wayIn('requireSession', {
    bare,
    requirement: requirementOf('session'),
    realm: undefined,
  });
}

/*
 * APIKeyAuth(): a dependency that authenticates programs by an API key.
 *
 * Examples:
 *   client: Depends(APIKeyAuth({ keys: { billing: process.env.BILLING_KEY! } }))          // 'billing'
 *   client: Depends(APIKeyAuth({ header: 'X-Key', verify: (key) => find(sha256(key)) }))  // result of find()
 *
 * An API key is read from a header field or a cookie, never from the URL. Listed keys are compared in
 * constant time, so that response times do not reveal a key.
 */

/**
 * Options of APIKeyAuth(), both with `keys` and with `verify`. An option that is `undefined` has its default.
 */
export interface APIKeyPlace {
  /** Name of the header field that contains the key. Default `X-API-Key`, unless `cookie` is set. */
  readonly header?: string | undefined;
  /**
   * Name of the cookie that contains the key. Browsers also send cookies with requests that other sites
   * cause. So use CSRFMiddleware for routes that change data.
   */
  readonly cookie?: string | undefined;
  /** Realm in the `WWW-Authenticate` challenge of a 401: printable ASCII without `"` and `\`. */
  readonly realm?: string | undefined;
  /**
   * Accepts a request without a key; the value of the dependency is then `undefined`. A wrong key is always
   * refused. Default false.
   */
  readonly optional?: boolean | undefined;
}

/** Options of APIKeyAuth() for keys that are listed in the program. */
export interface KnownKeys<N extends string> extends APIKeyPlace {
  /**
   * The keys of each client, by the name of the client. With two keys in a list, a client can change its key
   * without interruption. There are 1 ... 100 keys in total, each of at least 16 characters.
   */
  readonly keys: Readonly<Record<N, string | readonly string[]>>;
  readonly verify?: undefined;
}

/** Options of APIKeyAuth() for keys that a function looks up, for example in a database. */
export interface LookedUpKeys<P> extends APIKeyPlace {
  /**
   * Returns the client that owns the key, or undefined for an unknown key. In a database, store only the
   * digest `sha256(key)`, and look up the digest.
   */
  readonly verify: (key: string, context: Context) => Awaitable<P | undefined>;
  readonly keys?: undefined;
}

/**
 * Creates a dependency whose value is the client that owns the request's API key. If the key is missing or
 * wrong, the response is 401 with `WWW-Authenticate: ApiKey`. For a wrong key, the logger `svc_security`
 * writes the event `key_rejected`.
 *
 * @throws SvcError `E_AUTH` unless exactly one of `keys` and `verify` is set, when both `header` and `cookie`
 * are set, or when keys are too short, too many or repeated; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for an
 * invalid option
 */
export function APIKeyAuth<const N extends string>(
  options: KnownKeys<N> & { readonly optional: true },
): AuthSource<N | undefined>;
export function APIKeyAuth<const N extends string>(
  options: KnownKeys<N> & { readonly optional?: false | undefined },
): AuthSource<N>;
export function APIKeyAuth<P>(
  options: LookedUpKeys<P> & { readonly optional: true },
): AuthSource<NonNullable<P> | undefined>;
export function APIKeyAuth<P>(
  options: LookedUpKeys<P> & { readonly optional?: false | undefined },
): AuthSource<NonNullable<P>>;
export function APIKeyAuth(options: KnownKeys<string> | LookedUpKeys<unknown>): AuthSource<unknown> {
  const { header, cookie, realm, optional, keys, verify } = readOptions(OWNER, options, {
    header: given<string>('the name of a header', isName),
    cookie: given<string>('the name of a cookie', isName),
    realm: given<string>('printable ASCII without quotation marks', isRealm),
    optional: bool(false),
    keys: given<Readonly<Record<string, string | readonly string[]>>>(
      'an object with the keys of each client by its name',
      isObject,
    ),
    verify: given<LookedUpKeys<unknown>['verify']>('a function', isFunction),
  });
  if (header !== undefined && cookie !== undefined)
    mistaken(OWNER, 'header and cookie are both set: a key comes in one of them');
  if ((keys === undefined) === (verify === undefined))
    mistaken(OWNER, 'exactly one of keys and verify must be set');
  noteSecrets('APIKeyAuth', Object.values(keys ?? {}).flat());
  const find = verify ?? finder(keys!); // `keys` is defined, because either `keys` or `verify` is set
  const place =
    cookie === undefined
      ? ({ in: 'header', name: header ?? 'X-API-Key' } as const)
      : ({ in: 'cookie', name: cookie } as const);
  const field = place.name.toLowerCase();
  const refusal = { headers: Object.freeze({ 'WWW-Authenticate': challenge(SCHEMES.apiKey, { realm }) }) };
  const bare = provide(
    { audit: Depends(audit, { scope: 'app' }) },
    named('APIKeyAuth', (context: Context & { readonly audit: SecurityLog }) => {
      const { req } = context;
      const key = cookie === undefined ? req.headers[field] : req.cookies[cookie];
      if (key === undefined || key === '') {
        if (optional) return undefined;
        throw new Unauthorized('An API key is needed', refusal);
      }
      const accept = (client: unknown): unknown => {
        if (client !== undefined && client !== null) return client;
        context.audit.refused('key_rejected', req, { in: place.in });
        throw new Unauthorized('The API key is not known', refusal);
      };
      const client = find(key, context);
      return whenReady(client, accept);
    }),
  );
  noteGuard(bare, APIKeyAuth);
  return wayIn('APIKeyAuth', {
    bare,
    requirement: { ...requirementOf('apiKey', optional), credential: place },
    realm,
  });
}

const OWNER = 'APIKeyAuth()';
const LEAST_CHARACTERS = 16;
/** Maximum number of keys. The key of a request is compared with all of them. */
const MOST_KEYS = 100;

function isName(value: unknown): boolean {
  return typeof value === 'string' && isToken(value);
}

/**
 * Returns a function that finds the name of the client for a key. It always compares all keys, so that its
 * duration does not reveal which key matched.
 */
function finder(
  keys: Readonly<Record<string, string | readonly string[]>>,
): (key: string) => string | undefined {
  const known = Object.entries(keys).flatMap(([name, list]) =>
    [list].flat().map((key) => ({ name, digest: digestOf(checkedKey(name, key)) })),
  );
  if (known.length === 0 || known.length > MOST_KEYS)
    mistaken(
      OWNER,
      `${known.length} keys are given, but 1 … ${MOST_KEYS} are allowed: for more keys, use the option verify`,
    );
  if (new Set(known.map(({ digest }) => digest.toString('hex'))).size < known.length)
    mistaken(OWNER, 'a key is given twice');
  return (key) => {
    const digest = digestOf(key);
    let found: string | undefined;
    for (const candidate of known) if (timingSafeEqual(candidate.digest, digest)) found = candidate.name;
    return found;
  };
}

function checkedKey(name: string, key: unknown): string {
  if (typeof key !== 'string')
    mistaken(OWNER, `the key of "${name}" is ${key === undefined ? 'undefined' : 'not text'}`);
  if (key.length < LEAST_CHARACTERS)
    mistaken(
      OWNER,
      `the key of "${name}" has ${key.length} characters, but needs at least ${LEAST_CHARACTERS}`,
    );
  return key;
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
