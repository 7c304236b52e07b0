/**
 * API keys as a dependency: for programs, which have a key instead of logging in.
 *
 * Examples:
 *   client: Depends(APIKeyAuth({ keys: { billing: process.env.BILLING_KEY! } }))          gives 'billing'
 *   client: Depends(APIKeyAuth({ header: 'X-Key', verify: (key) => find(sha256(key)) }))  gives the result of verify()
 *
 * The key is read from a header field or a cookie, never from the URL. Keys are stored as digests, and all
 * are compared in constant time, so that neither a memory dump nor response times reveal a key.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { SCHEMES, audit, challenge, isRealm, mistaken, named, wayIn } from './auth.ts';
import { Depends, provide } from '../routing/di.ts';
import { Unauthorized } from '../base/errors.ts';
import { bool, given, isFunction, isObject, readOptions } from '../base/options.ts';
import { isToken } from '../http/headers.ts';
import { isThenable } from '../base/promises.ts';
import type { AuthSource } from './auth.ts';
import type { Awaitable, Context } from '../http/contracts.ts';
import type { SecurityLog } from '../http/security-log.ts';

/** Options of API keys. An option that is `undefined` has its default. */
export interface APIKeyPlace {
  /** Name of the header field with the key. Default `X-API-Key`, unless `cookie` is set. */
  readonly header?: string | undefined;
  /**
   * Name of the cookie with the key. Browsers send cookies by themselves: protect state-changing routes by
   * CSRFMiddleware.
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
   * The keys by the name of their client. A client has several keys while it changes from one to another.
   * Each has 16 characters or more; 1 ... 100 keys in all.
   */
  readonly keys: Readonly<Record<N, string | readonly string[]>>;
  readonly verify?: undefined;
}

/** Options for keys that a function of the application looks up, for example in a database. */
export interface LookedUpKeys<P> extends APIKeyPlace {
  /**
   * Returns the owner of a key, or undefined for an unknown key. Store only digests, and search for
   * `sha256(key)`, so that no copy of the table contains a key.
   */
  readonly verify: (key: string, context: Context) => Awaitable<P | undefined>;
  readonly keys?: undefined;
}

/**
 * Creates a dependency with the owner of a request's API key. Without a key, or with a wrong one, the
 * response is 401 with `WWW-Authenticate: ApiKey`. A wrong key is also logged as event `key_rejected` of the
 * logger `svc_security`.
 *
 * @throws SvcError `E_AUTH` for both or neither of `keys` and `verify`, of header and cookie, and for keys
 * that are too short, too many or given twice; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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
      'an object: keys by the name of their client',
      isObject,
    ),
    verify: given<LookedUpKeys<unknown>['verify']>('a function', isFunction),
  });
  if (header !== undefined && cookie !== undefined)
    mistaken(OWNER, 'a key stands in a header or in a cookie, not in both');
  if ((keys === undefined) === (verify === undefined))
    mistaken(OWNER, 'it needs either keys or verify, and not both');
  const find = verify ?? finder(keys!); // one of the two is defined, as checked above
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
  return wayIn('APIKeyAuth', {
    bare,
    requirement: {
      scheme: 'apiKey',
      scopes: [],
      roles: [],
      credential: place,
      ...(optional ? { isOptional: true } : {}),
    },
    scheme: SCHEMES.apiKey,
    realm,
  });
}

const OWNER = 'APIKeyAuth()';
const LEAST_CHARACTERS = 16;
/** Maximum number of keys, because each request compares all of them. */
const MOST_KEYS = 100;

function isName(value: unknown): boolean {
  return typeof value === 'string' && isToken(value);
}

/**
 * Returns a function that finds the client of a key. It always compares all keys, so that its time reveals
 * nothing.
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
