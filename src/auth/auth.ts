/**
 * Bearer tokens as a dependency (RFC 6750): `me: Depends(BearerAuth())` gives the claims of the request's token.
 *
 *   Authorization: Bearer token -> readToken() -> schema -> verify() -> claims
 *
 * From the `Authorization` field only: tokens in query strings stand in logs and histories, those in forms can be sent by
 * other sites. Secrets become keys when the application starts; a request costs one HMAC, however often its claims are
 * asked for. See require.ts for what the claims must say.
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

/** Requirements for a bearer token beyond those for every token. `undefined` means not given. */
export interface BearerAuthOptions<C = unknown> extends TokenRequirements {
  /** Named in the challenge of a 401: what the token is for. Printable ASCII without `"` and `\`. */
  readonly realm?: string | undefined;
  /** The claims of your own, as a schema: a token whose claims do not fit is refused. Without one `C` is believed, not checked. */
  readonly schema?: SchemaClass<C & object> | undefined;
  /** Asked of every token that is otherwise in order, for example whether its subject may still log in. Anything but true refuses it; what is thrown is thrown. */
  readonly verify?: ((claims: Claims & C, context: Context) => Awaitable<boolean>) | undefined;
  /** Whether a request without token passes, with `undefined` for its claims. One with a token that is refused never does. Default false. */
  readonly optional?: boolean | undefined;
}

/**
 * A source of the claims of a request's bearer token: `{ me: Depends(BearerAuth()) }`. The secret is the argument, else the
 * setting `authSecret`, without which the application does not start.
 *
 * 401 without token: `WWW-Authenticate: Bearer`. 401 with one that is refused: `Bearer error="invalid_token"`, whatever is
 * wrong with it (RFC 6750 §3.1); why it is, says one line `token_rejected` of the logger `svc_security`.
 *
 * `C` is what you know of further claims: `BearerAuth<{ tenant: string }>()`, or checked: `BearerAuth(undefined, { schema: Tenant })`.
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

/** That without arguments is one for all, so that a token is verified once however many ask. */
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

/** `typ` of the access tokens of a {@link TokenIssuer} (RFC 9068 §2.1): another token that is signed with the same secret is none. */
export const ACCESS_TOKEN_TYPE = 'at+jwt';

/** Issues the access tokens of an application, of type `at+jwt`: finds them in a request, and may refuse a valid one. A plugin provides it. */
export interface TokenIssuer {
  /** The name of the key that it signs with. */
  readonly keyId: string;
  /** The token of a request that has no `Bearer` in `Authorization`: out of a cookie, or of another scheme. */
  tokenOf(req: HttpRequest): string | undefined;
  /** Whether a token that is otherwise in order still counts, as this request has brought it. */
  accepts(claims: Claims, req: HttpRequest): Awaitable<boolean>;
  /** The challenge of another scheme than `Bearer` that it takes tokens by; with the error, if there is one and the request has come by that scheme. */
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
    // svc check looks at secrets from the settings (SVC205)
    for (const problem of [secret ?? []].flat().map(weaknessOf))
      if (problem !== undefined) shared.log.warn('secret_weak', { owner: 'BearerAuth()', problem });
  }

  get nowSeconds(): number {
    return Math.floor(this.#services.clock.nowMs() / 1_000);
  }
}

/** RFC 6750 §2.1; whatever the case of the scheme (RFC 9110 §11.1). Fields that came twice are joined with a comma, which no token has. */
const CREDENTIALS = /^bearer +([\w.~+/-]+=*)$/i;
const SCHEME = /^bearer(?: |$)/i;

/** Reads the token of a request as its options say. */
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
      const headers = this.#challenges(undefined, req, keys); // the issuer's code: what that throws keeps its stack
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

  /** With the values that the schema made of them. */
  #checked(claims: Claims): Claims | undefined {
    const result = this.#schema!.parseJson(claims); // only asked where there is one
    return result.ok ? Object.assign(claims, result.value) : undefined;
  }

  #refusal(reason: TokenRefusal, req: HttpRequest, keys: BearerKeys): RefusedToken {
    keys.audit.refused('token_rejected', req, { reason });
    return new RefusedToken(reason, this.#challenges('invalid_token', req, keys));
  }

  /** An error belongs to the scheme that was tried (RFC 9449 §7.1); the other one is said to be there. */
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

/** Whether a text can stand in the quoted string of a challenge without an escape: 1 to 200 printable ASCII characters. */
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
  ); // the result of `bare`
  WAYS.set(source, way);
  return source;
}

/** Scheme, realm and source for guards that require more of a client. Sources of other packages count as `Bearer`. */
export function wayOf(source: DependencySource): Way {
  const own = WAYS.get(source);
  if (own !== undefined) return own;
  const [requirement = BEARER] = viewOfDependency(Depends(source)).security;
  return { bare: source, requirement, scheme: SCHEMES[requirement.scheme], realm: undefined };
}

const BEARER: SecurityRequirement = Object.freeze({ scheme: 'bearer', scopes: [], roles: [] });

/** `Bearer` is registered. RFC 9110 requires a challenge for the other schemes, too, and the registry has none for them. */
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
 * Logged in by session: a dependency that gives a value of the session, which a login has put there.
 *
 *   const USER = sessionKey<{ id: number }>('user');
 *   app.get('/account', { user: Depends(requireSession(USER)) }, ({ user }) => ...)
 *
 *   after login:   req.session.regenerate(); req.session.set(USER, { id })
 *   instead of 401, for pages:   app.exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 }))
 */

/**
 * A source of the value that the session has under a key. Without one, LoginRequired: 401 with `WWW-Authenticate: Session`.
 * Needs the session middleware. Its value may be the `auth` of requireRoles() and the others, if it is an object.
 *
 * @throws SvcError `E_AUTH` for what is no key
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
