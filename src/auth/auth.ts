/**
 * Bearer tokens as a dependency (RFC 6750): `me: Depends(BearerAuth())` gives the claims of the request's token.
 *
 *   Authorization: Bearer token -> readToken() -> schema -> verify() -> claims
 *
 * Only from the `Authorization` field: tokens in query strings end up in logs and histories, and other sites can send forms. Secrets
 * become keys when the application starts; a request costs one HMAC, however often its claims are read. require.ts checks the
 * claims.
 */
import { Depends, provide, viewOfDependency } from '../routing/di.ts';
import { LoginRequired, SESSION_SCHEME, SvcError, Unauthorized, withoutStack } from '../base/errors.ts';
import { InvalidToken, readToken, tokenChecks } from '../crypto/jwt.ts';
import { Keyring, authSecrets, weaknessOf } from '../crypto/keys.ts';
import { bool, given, isFunction, readOptions } from '../base/options.ts';
import { isSchemaClass, planOf } from '../schema/schema.ts';
import { isThenable } from '../base/promises.ts';
import { SecurityLog } from '../http/security-log.ts';
import { services, stateKey } from '../http/state.ts';
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

/** Options of a bearer token. `undefined` means not given. */
export interface BearerAuthOptions<C = unknown> extends TokenRequirements {
  /** Realm of the challenge in a 401. Printable ASCII without `"` and `\`. */
  readonly realm?: string | undefined;
  /** Schema of the claims: a token that does not match is refused. Without one the type `C` is not checked. */
  readonly schema?: SchemaClass<C & object> | undefined;
  /** Called for every otherwise valid token, for example to check that its subject may still log in. Only true accepts it; exceptions propagate. */
  readonly verify?: ((claims: Claims & C, context: Context) => Awaitable<boolean>) | undefined;
  /** Accepts a request without a token, with `undefined` for its claims. A refused token is never accepted. Default false. */
  readonly optional?: boolean | undefined;
}

/**
 * A dependency with the claims of a request's bearer token: `{ me: Depends(BearerAuth()) }`. The secret is the argument, else the
 * setting `authSecret`, which is then required at start-up.
 *
 * 401 without a token: `WWW-Authenticate: Bearer`. 401 with a refused one: `Bearer error="invalid_token"` for every reason (RFC 6750
 * §3.1). The reason is logged as `token_rejected` of the logger `svc_security`.
 *
 * `C`: further claims, as a type, `BearerAuth<{ tenant: string }>()`, or checked, `BearerAuth(undefined, { schema: Tenant })`.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`; `E_SECRET_WEAK`, `E_SECRET_FORM` for a secret in the argument
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

/** Shared by all calls without arguments, so that a token is verified once for each request. */
let usual: AuthSource<Claims | undefined> | undefined;

function bearerAuth(secret: Secrets | undefined, options: BearerAuthOptions): AuthSource<Claims | undefined> {
  const reader = new BearerReader(options);
  const ring = secret === undefined ? undefined : Keyring.of(secret);
  const keys = named('bearerKeys', ({ state }: Context) => new BearerKeys(state, ring, secret));
  const bare = provide(
    { keys: Depends(keys, { scope: 'app' }), secrets: ring === undefined ? ['authSecret'] : [] },
    named('BearerAuth', (context: Context & { readonly keys: BearerKeys }) =>
      reader.read(context, context.keys),
    ),
  );
  return wayIn('BearerAuth', {
    bare,
    requirement: {
      scheme: 'bearer',
      scopes: [],
      roles: [],
      ...(options.optional === true ? { isOptional: true } : {}),
    },
    scheme: SCHEMES.bearer,
    realm: options.realm,
  });
}

/** `typ` of the access tokens of a {@link TokenIssuer} (RFC 9068 §2.1). Other tokens signed with the same secret are not access tokens. */
export const ACCESS_TOKEN_TYPE = 'at+jwt';

/** Issues the access tokens of an application, of type `at+jwt`: finds them in a request, and may refuse a valid one. A plugin provides it. */
export interface TokenIssuer {
  /** The name of the key that it signs with. */
  readonly keyId: string;
  /** Token of a request without `Bearer` in `Authorization`: from a cookie, or another scheme. */
  tokenOf(req: HttpRequest): string | undefined;
  /** Whether an otherwise valid token is accepted from this request. */
  accepts(claims: Claims, req: HttpRequest): Awaitable<boolean>;
  /** Challenge of another accepted scheme, with the error if the request used that scheme. */
  challenge?(req: HttpRequest, error: 'invalid_token' | undefined): string;
  /** Further fields of a 401. */
  fields?(): Readonly<Record<string, string>>;
}

/** Where the issuer is found, for tokens that are signed with the secret of the application. */
export const tokenIssuer: StateKey<TokenIssuer> = stateKey('tokenIssuer');

/** Keys and services of the application for verification, made when it starts. */
class BearerKeys {
  readonly keyring: Keyring;
  readonly issuer: TokenIssuer | undefined;
  readonly audit: SecurityLog;
  readonly #services: Services;

  constructor(state: StateMap, own: Keyring | undefined, secret: Secrets | undefined) {
    const shared = state.get(services);
    const issuer = state.has(tokenIssuer) ? state.get(tokenIssuer) : undefined;
    this.issuer = own === undefined || own.current.id === issuer?.keyId ? issuer : undefined; // the issuer and the own keyring may have one key
    this.keyring = own ?? Keyring.of(authSecrets(shared.config));
    this.audit = SecurityLog.of(shared);
    this.#services = shared;
    // svc check tests secrets from the settings (SVC205)
    for (const problem of [secret ?? []].flat().map(weaknessOf))
      if (problem !== undefined) shared.log.warn('secret_weak', { owner: 'BearerAuth()', problem });
  }

  get nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

/** RFC 6750 §2.1; the scheme in any case (RFC 9110 §11.1). Repeated fields are joined with a comma, which no token contains. */
const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const SCHEME = /^bearer(?: |$)/i;

/** Reads the token of a request. */
class BearerReader {
  readonly #checks: TokenChecks;
  /** For tokens of an issuer. */
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

  /** The claims. @throws Unauthorized without a token, InvalidToken for one that is refused */
  read(context: Context, keys: BearerKeys): Awaitable<Claims | undefined> {
    const { req } = context;
    const field = req.headers['authorization'];
    const isBearer = field !== undefined && SCHEME.test(field);
    const token = isBearer ? CREDENTIALS.exec(field)?.[1] : keys.issuer?.tokenOf(req);
    if (token === undefined && !isBearer) {
      // RFC 6750 §3.1: no error code for a client without credentials, or with another scheme
      if (this.#isOptional) return undefined;
      const headers = this.#challenges(undefined, req, keys); // the issuer's exceptions keep their stack
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

  /** With the values that the schema converted. */
  #checked(claims: Claims): Claims | undefined {
    const result = this.#schema!.parseJson(claims); // only called if there is one
    return result.ok ? Object.assign(claims, result.value) : undefined;
  }

  #refusal(reason: TokenRefusal, req: HttpRequest, keys: BearerKeys): RefusedToken {
    keys.audit.refused('token_rejected', req, { reason });
    return new RefusedToken(reason, this.#challenges('invalid_token', req, keys));
  }

  /** The error belongs to the scheme that was used (RFC 9449 §7.1); the other challenge has none. */
  #challenges(error: 'invalid_token' | undefined, req: HttpRequest, { issuer }: BearerKeys): Challenge {
    const own = error === undefined ? this.#absent : this.#refused;
    const other = issuer?.challenge?.(req, error);
    if (other === undefined) return own;
    const bearer = SCHEME.test(req.headers['authorization'] ?? '') ? own : this.#absent;
    return { ...issuer?.fields?.(), 'WWW-Authenticate': `${bearer['WWW-Authenticate']}, ${other}` };
  }
}

type Challenge = Readonly<Record<string, string>> & { readonly 'WWW-Authenticate': string };

/** With the realm in its challenge. */
class RefusedToken extends InvalidToken {
  override readonly headers: Challenge;

  constructor(reason: TokenRefusal, headers: Challenge) {
    super(reason);
    this.headers = headers;
    this.name = 'InvalidToken';
  }
}

/*
 * Dependencies that authenticate a client share this part.
 *
 *   401  no credentials, or invalid ones                always with a challenge (RFC 9110 §11.6.1)
 *   403  valid credentials without the permission
 *
 * A request authenticates once for each such dependency. Guards that require more, such as a role, start from the result.
 */

/** Source of a dependency that returns the client: its claims, or a record of the application. */
export type AuthSource<P> = (context: Context) => Awaitable<P>;

/** Challenge of a response (RFC 9110 §11.3): `Bearer`, with its parameters. */
export function challenge(
  scheme: string,
  parameters: Readonly<Record<string, string | undefined>> = {},
): string {
  const written = Object.entries(parameters)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}="${value}"`);
  return written.length === 0 ? scheme : `${scheme} ${written.join(', ')}`;
}

/** Whether a text needs no escape in a quoted string: 1 to 200 printable ASCII characters. */
export function isRealm(value: unknown): boolean {
  return typeof value === 'string' && /^[\x20\x21\x23-\x5b\x5d-\x7e]{1,200}$/.test(value);
}

/** An authentication source of this package: its optional variant, and the challenge of its responses. */
interface Way {
  readonly bare: DependencySource;
  readonly requirement: SecurityRequirement;
  readonly scheme: string;
  readonly realm: string | undefined;
}

const WAYS = new WeakMap<object, Way>();

/** Registers an authentication source for documents, checks and guards. */
export function wayIn<P>(name: string, way: Way & { readonly bare: AuthSource<P> }): AuthSource<P> {
  const source = provide(
    { found: Depends(way.bare), security: way.requirement },
    named(name, ({ found }: { found: unknown }) => found as P),
  ); // the result of `bare`
  WAYS.set(source, way);
  return source;
}

/** Scheme, realm and source, for guards with further requirements. Sources of other packages count as `Bearer`. */
export function wayOf(source: DependencySource): Way {
  const own = WAYS.get(source);
  if (own !== undefined) return own;
  const [requirement = BEARER] = viewOfDependency(Depends(source)).security;
  return { bare: source, requirement, scheme: SCHEMES[requirement.scheme], realm: undefined };
}

const BEARER: SecurityRequirement = Object.freeze({ scheme: 'bearer', scopes: [], roles: [] });

/** `Bearer` is registered. RFC 9110 requires a challenge for the other schemes as well, and the registry has none for them. */
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

/** Throws the fault for a mistake in a declaration. */
export function mistaken(owner: string, problem: string): never {
  throw new SvcError('E_AUTH', [owner, problem]);
}

/** Type of an authenticated client. */
export type PrincipalOf<A> = A extends DependencySource ? NonNullable<Provided<A>> : never;

/*
 * Login by session: a dependency with a value that a login has stored in the session.
 *
 *   const USER = sessionKey<{ id: number }>('user');
 *   app.get('/account', { user: Depends(requireSession(USER)) }, ({ user }) => ...)
 *
 *   after login:   req.session.regenerate(); req.session.set(USER, { id })
 *   instead of 401, for pages:   app.exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 }))
 */

/**
 * A dependency with the session's value of a key. Without it LoginRequired: 401 with `WWW-Authenticate: Session`. Requires the
 * session middleware. Its value may be the `auth` of requireRoles() and the others, if it is an object.
 *
 * @throws SvcError `E_AUTH` for an invalid key
 */
export function requireSession<T>(key: SessionKey<T>): AuthSource<NonNullable<T>> {
  if (typeof key?.name !== 'string') mistaken('requireSession()', 'its key is not made by sessionKey()');
  const bare = named('requireSession', ({ req }: Context) => {
    const value = req.session.get(key);
    if (value === undefined || value === null) throw new LoginRequired();
    return value;
  });
  return wayIn('requireSession', {
    bare,
    requirement: { scheme: 'session', scopes: [], roles: [] },
    scheme: SCHEMES.session,
    realm: undefined,
  });
}
