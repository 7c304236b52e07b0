/**
 * API keys as a dependency: for programs, which have a key instead of a login.
 *
 *   client: Depends(APIKeyAuth({ keys: { billing: process.env.BILLING_KEY! } }))          gives 'billing'
 *   client: Depends(APIKeyAuth({ header: 'X-Key', verify: (key) => find(sha256(key)) }))  gives the result of verify()
 *
 * From a header or a cookie, never from the URL. Keys are stored as digests, and all are compared in constant time: neither a memory
 * dump nor the time of a response reveals one.
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

/** Options of API keys. `undefined` means not given. */
export interface APIKeyPlace {
  /** The header. Default `X-API-Key`, unless there is a `cookie`. */
  readonly header?: string | undefined;
  /** Cookie with the key. Browsers add it by themselves: protect state-changing routes by CSRFMiddleware. */
  readonly cookie?: string | undefined;
  /** Named in the challenge of a 401. Printable ASCII without `"` and `\`. */
  readonly realm?: string | undefined;
  /** Accepts a request without a key, with `undefined` for its client. A wrong key is never accepted. Default false. */
  readonly optional?: boolean | undefined;
}

/** Keys that are known when the application is declared. */
export interface KnownKeys<N extends string> extends APIKeyPlace {
  /** By the name of their client: its key, or several while it changes from one to another. 16 characters or more each, 1 ... 100 keys. */
  readonly keys: Readonly<Record<N, string | readonly string[]>>;
  readonly verify?: undefined;
}

/** Keys that are looked up. */
export interface LookedUpKeys<P> extends APIKeyPlace {
  /** Returns the owner of a key, undefined for an unknown key. Keep digests: look for `sha256(key)`, so that no copy of the table holds a key. */
  readonly verify: (key: string, context: Context) => Awaitable<P | undefined>;
  readonly keys?: undefined;
}

/**
 * Source of the owner of an API key. 401 without key or with a wrong one: `WWW-Authenticate: ApiKey`; a wrong one
 * also writes a line `key_rejected` of the logger `svc_security`.
 *
 * @throws SvcError `E_AUTH` for both or neither of `keys` and `verify`, of header and cookie, and for keys that are too short,
 * too many or given twice; `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
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
  const find = verify ?? finder(keys!); // the constructor requires one of them
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
/** Each request compares all of them. */
const MOST_KEYS = 100;

function isName(value: unknown): boolean {
  return typeof value === 'string' && isToken(value);
}

/** Looks through all keys, however early one fits. */
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
