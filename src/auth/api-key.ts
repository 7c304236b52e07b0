/**
 * APIKeyAuth(): a dependency that authenticates programs by an API key.
 *
 *   client: Depends(APIKeyAuth({ keys: { billing: process.env.BILLING_KEY! } }))          // 'billing'
 *   client: Depends(APIKeyAuth({ header: 'X-Key', verify: (key) => find(sha256(key)) }))  // result of find()
 *
 * An API key is read from a header field or a cookie, never from the URL. Listed keys are compared in
 * constant time, so that response times do not reveal a key.
 */
import { hash, timingSafeEqual } from 'node:crypto';
import { Unauthorized } from '../base/errors.ts';
import { bool, given, isFunction, isObject, readOptions } from '../base/options.ts';
import { whenReady } from '../base/promises.ts';
import { noteSecrets } from '../base/used-secrets.ts';
import { isToken } from '../http/headers.ts';
import { Depends, provide } from '../routing/di.ts';
import {
  SCHEMES,
  audit,
  challenge,
  isRealm,
  mistaken,
  named,
  noteGuard,
  requirementOf,
  wayIn,
} from './auth.ts';
import type { Awaitable, Context } from '../http/contracts.ts';
import type { SecurityLog } from '../http/security-log.ts';
import type { AuthSource } from './auth.ts';

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
  /** Not together with `keys`. */
  readonly verify?: undefined;
}

/** Options of APIKeyAuth() for keys that a function looks up, for example in a database. */
export interface LookedUpKeys<P> extends APIKeyPlace {
  /**
   * Returns the client that owns the key, or undefined for an unknown key. In a database, store only the
   * digest `sha256(key)`, and look up the digest.
   */
  readonly verify: (key: string, context: Context) => Awaitable<P | undefined>;
  /** Not together with `verify`. */
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

/** Returns a function that finds a client. It compares all keys, so its duration reveals nothing. */
function finder(
  keys: Readonly<Record<string, string | readonly string[]>>,
): (key: string) => string | undefined {
  const known = Object.entries(keys).flatMap(([name, list]) =>
    [list].flat().map((key) => ({ name, digest: hash('sha256', checkedKey(name, key), 'buffer') })),
  );
  if (known.length === 0 || known.length > MOST_KEYS)
    mistaken(
      OWNER,
      `${known.length} keys are given, but 1 … ${MOST_KEYS} are allowed: for more keys, use the option verify`,
    );
  if (new Set(known.map(({ digest }) => digest.toString('hex'))).size < known.length)
    mistaken(OWNER, 'a key is given twice');
  return (key) => {
    const digest = hash('sha256', key, 'buffer');
    let found: string | undefined;
    for (const candidate of known) if (timingSafeEqual(candidate.digest, digest)) found = candidate.name;
    return found;
  };
}

function checkedKey(name: string, key: unknown): string {
  if (typeof key !== 'string')
    mistaken(OWNER, `the key of "${name}" is ${key === undefined ? 'undefined' : 'not text'}`);
  if (key === '')
    mistaken(
      OWNER,
      `the key of "${name}" is empty text: set the setting or environment variable that contains it`,
    );
  if (key.length < LEAST_CHARACTERS)
    mistaken(
      OWNER,
      `the key of "${name}" has ${key.length} characters, but needs at least ${LEAST_CHARACTERS}`,
    );
  return key;
}
