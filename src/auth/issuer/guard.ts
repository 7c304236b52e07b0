/**
 * IssuerAuth(): a dependency that accepts the access tokens of authorization servers, such as Keycloak or
 * Entra. The servers sign them by their private keys (RFC 9068); this application knows only the public keys.
 *
 * Example:
 *   const token = IssuerAuth({ issuer: 'https://login.example/realms/shop', audience: 'https://api.example' });
 *   app.get('/orders', { me: Depends(requireScopes({ scopes: ['orders:read'], auth: token })) }, list);
 *
 * reader.ts, which is imported at the start of the application, verifies the tokens.
 */
import { isRealm, mistaken, named, noteGuard, requirementOf, wayIn, wayOf } from '../auth.ts';
import { issueOfProxy, issueOfUrl } from '../provider/addresses.ts';
import { Depends, provide } from '../../routing/di.ts';
import {
  bool,
  given,
  int,
  isFunction,
  isObject,
  isRecord,
  isTextList,
  number,
  oneOf,
  own,
  readOptions,
  text,
} from '../../base/options.ts';
import { isSchemaClass } from '../../schema/schema.ts';
import { services } from '../../http/state.ts';
import type { AuthSource } from '../auth.ts';
import type { RecordStore } from '../../cache/stores.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { Context } from '../../http/contracts.ts';
import type { DependencySource } from '../../routing/di.ts';
import type { SchemaClass } from '../../schema/schema.ts';
import type {
  IssuerAlgorithm,
  IssuerAuthOptions,
  IssuerClaims,
  ReaderOptions,
  ResolvedIssuer,
  TrustedIssuer,
} from './options.ts';
import type { IssuerReader } from './reader.ts';

const OWNER = 'IssuerAuth()';
const ALGORITHMS: readonly IssuerAlgorithm[] = ['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA', 'Ed25519'];
/** Maximum number of issuers. An application that serves more tenants gives each its own guard. */
const MOST_ISSUERS = 100;

/**
 * Creates a dependency whose value is the claims of an access token of an authorization server:
 * `{ me: Depends(IssuerAuth({ issuer, audience })) }`.
 *
 * Without a token, the response is 401 with `WWW-Authenticate: Bearer`. A refused token gets `Bearer
 * error="invalid_token"`. The reason is only in the event `token_rejected` of the logger `svc_security`, and in
 * the metric `svc_auth_tokens_refused_total`. While no key of the issuer is known, the response is 503.
 *
 * A token that is bound to a key (`cnf.jkt`) must be sent as `Authorization: DPoP` with its proof (RFC 9449).
 *
 * @throws SvcError `E_AUTH` for an issuer that cannot be used or is given twice; `E_OPTION_UNKNOWN`,
 * `E_OPTION_RANGE` for an invalid option
 */
export function IssuerAuth<C = unknown>(
  issuers: TrustedIssuer | readonly TrustedIssuer[],
  options: IssuerAuthOptions<C> & { readonly optional: true },
): AuthSource<(IssuerClaims & C) | undefined>;
export function IssuerAuth<C = unknown>(
  issuers: TrustedIssuer | readonly TrustedIssuer[],
  options?: IssuerAuthOptions<C> & { readonly optional?: false | undefined },
): AuthSource<IssuerClaims & C>;
export function IssuerAuth(
  issuers: TrustedIssuer | readonly TrustedIssuer[],
  options: IssuerAuthOptions = {},
): AuthSource<IssuerClaims | undefined> {
  const trusted = readIssuers(issuers);
  const read = readReaderOptions(options);
  const readerOf = (issuers: readonly ResolvedIssuer[]): ReaderSource =>
    named('issuerReader', async function* ({ state }: Context) {
      const { openReader } = await import('./reader.ts');
      yield* openReader(issuers, read, state.get(services));
    });
  const readers = readerOf(trusted);
  const bare = provide(
    { reader: Depends(readers, { scope: 'app' }) },
    named('IssuerAuth', (context: Context & { readonly reader: IssuerReader }) =>
      context.reader.read(context),
    ),
  );
  noteGuard(bare, IssuerAuth);
  const source = wayIn('IssuerAuth', {
    bare,
    requirement: { ...requirementOf('bearer', read.optional), issuers: trusted.map(({ issuer }) => issuer) },
    realm: read.realm,
  });
  MADE.set(bare, { trusted, readers, readerOf });
  return source;
}

type ReaderSource = (context: Context) => AsyncGenerator<IssuerReader>;

/** How each guard was made. The keys of the map are the sources that verify tokens. */
const MADE = new WeakMap<
  object,
  {
    readonly trusted: readonly ResolvedIssuer[];
    readonly readers: ReaderSource;
    readonly readerOf: (issuers: readonly ResolvedIssuer[]) => ReaderSource;
  }
>();

/**
 * Returns the issuers that a source trusts; none if IssuerAuth() did not make it. `svc check` reads them.
 * @internal
 */
export function trustedBy(source: object): readonly ResolvedIssuer[] {
  return MADE.get(source)?.trusted ?? [];
}

/**
 * Returns an override for the test client, which gives a guard other keys: those in `keys`, by issuer. No keys
 * are fetched.
 *
 * @throws SvcError `E_AUTH` if IssuerAuth() did not create the guard, or it trusts none of the issuers
 * @internal
 */
export function withKeys(
  guard: DependencySource,
  keys: ReadonlyMap<string, readonly unknown[]>,
): readonly [source: unknown, replacement: (context: Context) => unknown] {
  const made = MADE.get(wayOf(guard).bare);
  if (made === undefined) mistaken('FakeIssuer', 'the guard is not made by IssuerAuth()');
  const { trusted, readers, readerOf } = made;
  const foreign = [...keys.keys()].find((name) => trusted.every(({ issuer }) => issuer !== name));
  if (foreign !== undefined) mistaken('FakeIssuer', `the guard does not trust the issuer "${foreign}"`);
  return [
    readers,
    readerOf(trusted.map((each) => ({ ...each, jwks: { keys: keys.get(each.issuer) ?? [] } }))),
  ];
}

const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';

function readIssuers(issuers: TrustedIssuer | readonly TrustedIssuer[]): readonly ResolvedIssuer[] {
  const trusted = [issuers].flat().map(readIssuer);
  if (trusted.length === 0 || trusted.length > MOST_ISSUERS)
    mistaken(OWNER, `${trusted.length} issuers are given, but 1 … ${MOST_ISSUERS} are allowed`);
  const twice = trusted.find(({ issuer }, index) =>
    trusted.slice(0, index).some((other) => other.issuer === issuer),
  );
  if (twice !== undefined) mistaken(OWNER, `the issuer "${twice.issuer}" is given twice`);
  return trusted;
}

function readIssuer(options: TrustedIssuer): ResolvedIssuer {
  const read = readOptions(OWNER, options, ISSUER);
  const { issuer, audience, jwksUri, algorithms, allowInsecure } = read;
  if (issuer === undefined || audience === undefined)
    mistaken(
      OWNER,
      `${issuer === undefined ? 'issuer' : 'audience'} is undefined: both issuer and audience are needed, such as the settings of the server`,
    );
  for (const [name, url] of Object.entries({ issuer, jwksUri })) {
    const problem = url === undefined ? undefined : issueOfUrl(url, allowInsecure);
    if (problem !== undefined) mistaken(OWNER, `${name} ${problem}`);
    if (url !== undefined && /[{}]/.test(url))
      mistaken(
        OWNER,
        `${name} has braces, but it is compared byte for byte: give a list, with one issuer for each tenant`,
      );
  }
  if (issuer.includes('?') && jwksUri === undefined && read.jwks === undefined)
    mistaken(
      OWNER,
      'issuer has a query, so it has no discovery document: give the URL of the keys by jwksUri',
    );
  const proxyIssue = read.proxy === undefined ? undefined : issueOfProxy(read.proxy);
  if (proxyIssue !== undefined) mistaken(OWNER, `proxy ${proxyIssue}`);
  return {
    ...read,
    issuer,
    audience: [audience].flat(),
    algorithms: [...(algorithms ?? ALGORITHMS)],
    requiredClaims: { ...read.requiredClaims },
    roles: rolesReader(read.roles),
  };
}

const ISSUER = {
  issuer: given<string>('the URL of an issuer', isText),
  audience: given<string | readonly string[]>(
    'a name, or a list of names, none empty',
    (value) => isText(value) || (isTextList(value) && value.length > 0 && value.every(isText)),
  ),
  jwksUri: text(),
  jwks: given<{ readonly keys: readonly unknown[] }>(
    'an object { keys: [ ... ] }',
    (value) => isRecord(value) && Array.isArray(value['keys']),
  ),
  algorithms: given<readonly IssuerAlgorithm[]>(
    `a list of algorithms: ${ALGORITHMS.join(', ')}`,
    (value) =>
      isTextList(value) &&
      value.length > 0 &&
      value.every((name) => (ALGORITHMS as readonly string[]).includes(name)),
  ),
  requireType: bool(true),
  audienceClaim: oneOf(['aud', 'client_id'], 'aud'),
  requiredClaims: given<Readonly<Record<string, string | number | boolean>>>(
    'an object of texts, numbers and booleans',
    (value) => isRecord(value) && Object.values(value).every((claim) => /^[snb]/.test(typeof claim)),
  ),
  roles: given<NonNullable<TrustedIssuer['roles']>>(
    'the name of a claim, a list of names, or a function',
    (value) => isText(value) || isTextList(value) || isFunction(value),
  ),
  allowPrivate: bool(false),
  allowInsecure: {
    fallback: false as boolean | readonly string[],
    needs: 'true, false or a list of hosts',
    accepts: (value: unknown) => typeof value === 'boolean' || isTextList(value),
  },
  ca: text(),
  // checked later, so that no error contains the password of the proxy
  proxy: given<string>('a URL', () => true),
};

function readReaderOptions(options: IssuerAuthOptions): ReaderOptions {
  return readOptions(OWNER, options, {
    realm: given<string>('printable ASCII without quotation marks', isRealm),
    schema: given<SchemaClass>('a class that extends Schema', isSchemaClass),
    verify: given<NonNullable<ReaderOptions['verify']>>('a function', isFunction),
    optional: bool(false),
    leewaySeconds: number(60, 0, 300),
    maxLength: int(16_384, 64, 65_536),
    records: given<RecordStore>('a RecordStore', isObject),
  });
}

/** Returns a function that reads the roles of a token: the lists of strings in the named claims. */
function rolesReader(roles: TrustedIssuer['roles'] = 'roles'): ResolvedIssuer['roles'] {
  if (typeof roles === 'function') return roles;
  const places = [roles].flat();
  return (claims) => places.flatMap((place) => textsAt(claims, place));
}

function textsAt(claims: Claims, place: string): readonly string[] {
  let value: unknown = claims;
  for (const name of Object.hasOwn(claims, place) ? [place] : place.split('.'))
    value = isRecord(value) ? own(value, name) : undefined;
  return isTextList(value) ? value : [];
}
