/**
 * Bearer tokens as a dependency (RFC 6750). In `me: Depends(BearerAuth())`, the value of `me` is the claims
 * of the request's token.
 *
 * The token is verified first, then the schema and verify() check the claims. Tokens are read only from the
 * header `Authorization`. A query string would put the token into logs and browser histories, and any site
 * can submit a form. A request costs one HMAC, however often its claims are read. require.ts checks roles and
 * scopes.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { Depends, provide, viewOfDependency } from '../routing/di.ts';
import { LoginRequired, SESSION_SCHEME, SvcError, Unauthorized, withoutStack } from '../base/errors.ts';
import { InvalidToken, readToken, tokenChecks } from '../crypto/jwt.ts';
import { Keyring, authSecrets, weaknessOf } from '../crypto/keys.ts';
import { bool, given, isFunction, readOptions, isObject } from '../base/options.ts';
import { isSchemaClass, planOf } from '../schema/schema.ts';
import { declaredHere } from '../base/findings.ts';
import { isThenable } from '../base/promises.ts';
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

/** Options of bearer tokens. An option that is `undefined` has its default. */
export interface BearerAuthOptions<C = unknown> extends TokenRequirements {
  /** Realm in the challenge of a 401. Printable ASCII without `"` and `\`. Default: none. */
  readonly realm?: string | undefined;
  /**
   * Schema of the claims. A token whose claims do not match is refused. Without a schema, nothing checks the
   * type `C`.
   */
  readonly schema?: SchemaClass<C & object> | undefined;
  /**
   * Called for each token that has passed all other checks, for example to test whether its subject may still
   * log in. The token is accepted only if it returns true. Exceptions are passed on.
   */
  readonly verify?: ((claims: Claims & C, context: Context) => Awaitable<boolean>) | undefined;
  /**
   * Accepts a request without a token; its claims are then `undefined`. An invalid token is always refused.
   * Default false.
   */
  readonly optional?: boolean | undefined;
}

/**
 * Creates a dependency whose value is the claims of a request's bearer token: `{ me: Depends(BearerAuth())
 * }`. Without the argument `secret`, it uses the setting `authSecret`, and the application does not start
 * without that setting.
 *
 * A request without a token gets the response 401 with `WWW-Authenticate: Bearer`. A refused token gets 401
 * with `Bearer error="invalid_token"`, whatever the reason (RFC 6750 §3.1). The reason is in the event
 * `token_rejected` of the logger `svc_security`.
 *
 * `C` is the type of further claims. In `BearerAuth<{ tenant: string }>()`, nothing checks them. In
 * `BearerAuth(undefined, { schema: Tenant })`, the schema checks them.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`; `E_SECRET_WEAK`, `E_SECRET_FORM` for a secret in the
 * argument
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

/** The source that all calls without arguments share, so that a request's token is verified only once. */
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
 * Value of the header field `typ` in the access tokens of a {@link TokenIssuer} (RFC 9068 §2.1). A token of
 * another type is not an access token, even if the same secret signed it.
 */
export const ACCESS_TOKEN_TYPE = 'at+jwt';

/**
 * Issuer of the application's access tokens, which have the type `at+jwt`. It finds tokens in requests, and
 * may refuse a valid token. A plugin provides it.
 */
export interface TokenIssuer {
  /** Id of the key that signs the issuer's tokens. */
  readonly keyId: string;
  /**
   * Returns the token of a request without `Authorization: Bearer`. The token may be in a cookie, or belong
   * to another scheme.
   */
  tokenOf(req: HttpRequest): string | undefined;
  /** Returns whether this request may use a token that has passed all other checks. */
  accepts(claims: Claims, req: HttpRequest): Awaitable<boolean>;
  /**
   * Returns the challenge of another scheme that this issuer accepts. `error` is set if the request used that
   * scheme.
   */
  challenge?(req: HttpRequest, error: 'invalid_token' | undefined): string;
  /** Returns additional header fields of a response 401. */
  fields?(): Readonly<Record<string, string>>;
}

/**
 * State key of the application's token issuer. BearerAuth() uses the issuer for tokens that are signed with
 * the application's secret.
 */
export const tokenIssuer: StateKey<TokenIssuer> = stateKey('tokenIssuer');

/** The keys and services of a BearerReader. They are created when the application starts. */
class BearerKeys {
  readonly keyring: Keyring;
  readonly issuer: TokenIssuer | undefined;
  readonly audit: SecurityLog;
  readonly #services: Services;

  constructor(state: StateMap, own: Keyring | undefined, secret: Secrets | undefined) {
    const shared = state.get(services);
    const issuer = state.has(tokenIssuer) ? state.get(tokenIssuer) : undefined;
    // an issuer whose tokens have another key is not responsible for these tokens
    this.issuer = own === undefined || own.current.id === issuer?.keyId ? issuer : undefined;
    this.keyring = own ?? Keyring.of(authSecrets(shared.config));
    this.audit = SecurityLog.of(shared);
    this.#services = shared;
    // svc check finds weak secrets only in the settings (SVC205), so a secret in the argument is checked here
    for (const problem of [secret ?? []].flat().map(weaknessOf))
      if (problem !== undefined) shared.log.warn('secret_weak', { owner: 'BearerAuth()', problem });
  }

  get nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

/**
 * Syntax of the credentials (RFC 6750 §2.1). The scheme is case-insensitive (RFC 9110 §11.1). Node.js joins
 * repeated header fields by a comma. A token contains no comma, so repeated fields are refused.
 */
const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const SCHEME = /^bearer(?: |$)/i;

/** Reads and verifies the token of a request. */
class BearerReader {
  readonly #checks: TokenChecks;
  /** Requirements for tokens of the application's token issuer. */
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
   * Returns the claims of a request.
   * @throws Unauthorized without a token, InvalidToken for a refused token
   */
  read(context: Context, keys: BearerKeys): Awaitable<Claims | undefined> {
    const { req } = context;
    const field = req.headers['authorization'];
    const isBearer = field !== undefined && SCHEME.test(field);
    const token = isBearer ? CREDENTIALS.exec(field)?.[1] : keys.issuer?.tokenOf(req);
    if (token === undefined && !isBearer) {
      // the challenge has no error code if the request has no bearer token (RFC 6750 §3.1)
      if (this.#isOptional) return undefined;
      // called outside of withoutStack(), so that exceptions of the issuer keep their stack
      const headers = this.#challenges(undefined, req, keys);
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

  /**
   * Returns the claims with the values that the schema has converted. Undefined if the claims do not match.
   */
  #checked(claims: Claims): Claims | undefined {
    const result = this.#schema!.parseJson(claims); // read() calls this method only if there is a schema
    return result.ok ? Object.assign(claims, result.value) : undefined;
  }

  #refusal(reason: TokenRefusal, req: HttpRequest, keys: BearerKeys): RefusedToken {
    keys.audit.refused('token_rejected', req, { reason });
    return new RefusedToken(reason, this.#challenges('invalid_token', req, keys));
  }

  /**
   * Returns the challenges of a response 401. Only the challenge of the scheme that the request used contains
   * the error (RFC 9449 §7.1).
   */
  #challenges(error: 'invalid_token' | undefined, req: HttpRequest, { issuer }: BearerKeys): Challenge {
    const own = error === undefined ? this.#absent : this.#refused;
    const other = issuer?.challenge?.(req, error);
    if (other === undefined) return own;
    const bearer = SCHEME.test(req.headers['authorization'] ?? '') ? own : this.#absent;
    return { ...issuer?.fields?.(), 'WWW-Authenticate': `${bearer['WWW-Authenticate']}, ${other}` };
  }
}

type Challenge = Readonly<Record<string, string>> & { readonly 'WWW-Authenticate': string };

/** Error for a refused token, with the challenge of this BearerAuth(). */
class RefusedToken extends InvalidToken {
  override readonly headers: Challenge;

  constructor(reason: TokenRefusal, headers: Challenge) {
    super(reason);
    this.headers = headers;
    this.name = 'InvalidToken';
  }
}

/*
 * Functions that all dependencies for authentication share.
 *
 * If credentials are missing or invalid, the response is 401, always with a challenge (RFC 9110 §11.6.1). If
 * valid credentials lack a permission, it is 403.
 *
 * Each source authenticates a request only once. Guards with further requirements, such as a role, use its
 * result.
 */

/**
 * Source of a dependency whose value is the authenticated client: its claims, or a record of the application.
 */
export type AuthSource<P> = (context: Context) => Awaitable<P>;

/** Returns a challenge, such as `Bearer error="invalid_token"` (RFC 9110 §11.3). */
export function challenge(
  scheme: string,
  parameters: Readonly<Record<string, string | undefined>> = {},
): string {
  const written = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${value}"`);
  return written.length === 0 ? scheme : `${scheme} ${written.join(', ')}`;
}

/**
 * Returns whether a text can be a realm: 1 to 200 printable ASCII characters that need no escape in a quoted
 * string.
 */
function isRealm(value: unknown): boolean {
  return typeof value === 'string' && /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(value);
}

/**
 * An authentication source: the dependency that returns the client, its security requirement for the OpenAPI
 * document, and the realm of its challenges.
 */
interface Way {
  readonly bare: DependencySource;
  readonly requirement: SecurityRequirement;
  readonly realm: string | undefined;
}

const WAYS = new WeakMap<object, Way>();

/** Creates an authentication source, and registers it, so that wayOf() finds it. */
function wayIn<P>(name: string, way: Way & { readonly bare: AuthSource<P> }): AuthSource<P> {
  const source = provide(
    { found: Depends(way.bare), security: way.requirement },
    named(name, ({ found }: { found: unknown }) => found as P),
  ); // `found` is the value of `bare`, which has the type P
  WAYS.set(source, way);
  return source;
}

/**
 * Returns the security requirement, the realm and the source of a dependency. A dependency that declares no
 * security counts as a bearer source.
 */
export function wayOf(source: DependencySource): Way {
  const own = WAYS.get(source);
  if (own !== undefined) return own;
  const [requirement = requirementOf('bearer')] = viewOfDependency(Depends(source)).security;
  return { bare: source, requirement, realm: undefined };
}

/** Returns the requirement that a scheme authenticates the client, whatever its roles and scopes. */
function requirementOf(scheme: SecurityRequirement['scheme'], isOptional = false): SecurityRequirement {
  return { scheme, scopes: [], roles: [], ...(isOptional ? { isOptional } : {}) };
}

/**
 * Names of the schemes in challenges. Only `Bearer` is a registered scheme, but every response 401 must have
 * a challenge (RFC 9110 §11.6.1).
 */
export const SCHEMES: Readonly<Record<SecurityRequirement['scheme'], string>> = {
  bearer: 'Bearer',
  session: SESSION_SCHEME,
  apiKey: 'ApiKey',
};

/** Sets the name of a function. Findings and errors show it as the name of the dependency. */
export function named<F extends object>(name: string, fn: F): F {
  return Object.defineProperty(fn, 'name', { value: name });
}

const calls = new WeakMap<object, Declared>();

/** Stores the place where the program called `by` to create a guard. Findings show this place. */
export function noteGuard(guard: object, by: (...args: never[]) => unknown): void {
  calls.set(guard, declaredHere(by));
}

/** Returns the place of the call that created a guard. `svc check` uses it. @internal */
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

/** Type of an authenticated client. */
export type PrincipalOf<A> = A extends DependencySource ? NonNullable<Provided<A>> : never;

/*
 * Login by session: a dependency whose value is in the session, where a login has stored it.
 *
 * Example:
 *   const USER = sessionKey<{ id: number }>('user');
 *   app.get('/account', { user: Depends(requireSession(USER)) }, ({ user }) => ...)
 *
 * A login stores the value:
 *   req.session.regenerate(); req.session.set(USER, { id })
 *
 * To redirect pages to the login instead of the response 401:
 *   app.exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 }))
 */

/**
 * Creates a dependency whose value is stored in the session under a key. If there is no value, it throws
 * LoginRequired: 401 with `WWW-Authenticate: Session`. It requires the session middleware. If the value is an
 * object, the dependency can be the option `auth` of requireRoles() and similar guards.
 *
 * @throws SvcError `E_AUTH` for an invalid key
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
 * API keys as a dependency, for programs that send a key instead of logging in.
 *
 * Examples:
 *   client: Depends(APIKeyAuth({ keys: { billing: process.env.BILLING_KEY! } }))          gives 'billing'
 *   client: Depends(APIKeyAuth({ header: 'X-Key', verify: (key) => find(sha256(key)) }))  gives the result of verify()
 *
 * The key is read from a header field or a cookie, never from the URL. Keys are stored as digests, so that a
 * memory dump shows no key. All digests are compared in constant time, so that response times reveal none.
 */

/** Options of API keys. An option that is `undefined` has its default. */
export interface APIKeyPlace {
  /** Name of the header field with the key. Default `X-API-Key`, unless `cookie` is set. */
  readonly header?: string | undefined;
  /**
   * Name of the cookie with the key. Browsers send cookies automatically, so CSRFMiddleware must protect
   * routes that change data.
   */
  readonly cookie?: string | undefined;
  /** Realm in the challenge of a 401. Printable ASCII without `"` and `\`. */
  readonly realm?: string | undefined;
  /**
   * Accepts a request without a key; the client is then `undefined`. A wrong key is always refused. Default
   * false.
   */
  readonly optional?: boolean | undefined;
}

/** Options for keys that are known when the application is declared. */
export interface KnownKeys<N extends string> extends APIKeyPlace {
  /**
   * Keys by the name of their client. A client can have several keys, for example while it replaces its key.
   * Each key has at least 16 characters. There are 1 ... 100 keys in total.
   */
  readonly keys: Readonly<Record<N, string | readonly string[]>>;
  readonly verify?: undefined;
}

/** Options for keys that a function of the application finds, for example in a database. */
export interface LookedUpKeys<P> extends APIKeyPlace {
  /**
   * Returns the owner of a key, or undefined for an unknown key. Store only digests and search for
   * `sha256(key)`, so that the table contains no key.
   */
  readonly verify: (key: string, context: Context) => Awaitable<P | undefined>;
  readonly keys?: undefined;
}

/**
 * Creates a dependency whose value is the owner of a request's API key. If the key is missing or wrong, the
 * response is 401 with `WWW-Authenticate: ApiKey`. For a wrong key, the logger `svc_security` also logs the
 * event `key_rejected`.
 *
 * @throws SvcError `E_AUTH` unless exactly one of `keys` and `verify` is set; for both `header` and `cookie`;
 * and for keys that are too short, too many or given twice; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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
  const find = verify ?? finder(keys!); // exactly one of keys and verify is defined, as checked above
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
      const settle = (client: unknown): unknown => {
        if (client !== undefined && client !== null) return client;
        context.audit.refused('key_rejected', req, { in: place.in });
        throw new Unauthorized('The API key is not known', refusal);
      };
      const client = find(key, context);
      return isThenable(client) ? client.then(settle) : settle(client);
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
/** Maximum number of keys. It is limited, because each request compares all of them. */
const MOST_KEYS = 100;

function isName(value: unknown): boolean {
  return typeof value === 'string' && isToken(value);
}

/**
 * Returns a function that finds the client of a key. The function always compares all keys, so its duration
 * reveals nothing about them.
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
      `${known.length} keys are given, and 1 … ${MOST_KEYS} are needed: look up more of them with verify`,
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
    mistaken(OWNER, `the key of "${name}" is ${key === undefined ? 'undefined' : 'no text'}`);
  if (key.length < LEAST_CHARACTERS)
    mistaken(OWNER, `the key of "${name}" has ${key.length} characters, and ${LEAST_CHARACTERS} are needed`);
  return key;
}

function digestOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
