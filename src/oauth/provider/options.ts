/**
 * An identity provider as an application describes it: read once, checked whole, the client secret out of sight.
 */
import { readFileSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import { bool, given, int, isFunction, isRecord, oneOf, readOptions, text } from '../../base/options.ts';
import { isLoopback, isWithinSite, problemOfUrl, withoutNulls } from './outbound.ts';
import { standardUser, textOr } from './user-info.ts';
import type { Outbound } from './outbound.ts';
import type { MappedUser } from './user-info.ts';

/** Signatures that an id_token may be accepted with. Nothing symmetric, never `none` (RFC 8725 §3.1). */
export type IdTokenAlgorithm =
  'RS256' | 'RS384' | 'RS512' | 'PS256' | 'PS384' | 'PS512' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

/** What an {@link OAuthProvider} is made from. `undefined` means not given. */
export interface OAuthProviderOptions {
  /** Short name for routes, logs and metrics: `[a-z][a-z0-9-]*`, at most 32 characters. */
  readonly name: string;
  readonly clientId: string;
  /** From the environment. Needed unless `clientAuth` is `none`. */
  readonly clientSecret?: string | undefined;
  /**
   * How the token endpoint learns who we are: in the form, by HTTP Basic, or not (a public client, PKCE alone). Default: what
   * the provider's metadata name, `post` before `basic`; without metadata `post`.
   */
  readonly clientAuth?: 'post' | 'basic' | 'none' | undefined;
  /** The provider's name of itself, compared byte for byte. With `{tenantid}` in it, any GUID may stand there (see `tenants`). */
  readonly issuer?: string | undefined;
  /** Default: `issuer` + `/.well-known/openid-configuration`, read when an endpoint below is missing. */
  readonly discoveryUrl?: string | undefined;
  /** The discovery document itself (OpenID Connect Discovery §3, RFC 8414 §2): nothing is fetched at start-up. */
  readonly metadata?: Readonly<Record<string, unknown>> | undefined;
  /** The endpoints, each before what discovery says. */
  readonly authorizeUrl?: string | undefined;
  readonly tokenUrl?: string | undefined;
  readonly userinfoUrl?: string | undefined;
  readonly jwksUrl?: string | undefined;
  /** Where the user's e-mail addresses are listed in GitHub's form, `[{ email, primary, verified }]`. */
  readonly emailsUrl?: string | undefined;
  /** The keys themselves, `{ keys: [ ... ] }` (RFC 7517 §5): nothing is fetched to verify an id_token. */
  readonly jwks?: { readonly keys: readonly unknown[] } | undefined;
  /** Default `['openid', 'email', 'profile']` when there is an issuer or discovery, else none. `openid` brings nonce and id_token. */
  readonly scopes?: readonly string[] | undefined;
  /** Signatures accepted. Default `['RS256']`. */
  readonly idTokenAlgorithms?: readonly IdTokenAlgorithm[] | undefined;
  /** Tenants that may stand for `{tenantid}`, as lower-case GUIDs. Default: every tenant. */
  readonly tenants?: readonly string[] | undefined;
  /** Accepted values of `token_type`, in any case. Default `['bearer']`. */
  readonly tokenTypes?: readonly string[] | undefined;
  /** How the token endpoint answers. Default `json`; `form` is for providers older than RFC 6749. */
  readonly tokenAnswer?: 'json' | 'form' | undefined;
  /** Whether `email_verified` may be the text "true". Default false. */
  readonly acceptsTextVerified?: boolean | undefined;
  /**
   * Whether a name that nothing else tells may come from the form field `user`, which Sign in with Apple posts with a person's
   * first login and never again. The browser brings it: it is what people call themselves. Default false.
   */
  readonly acceptsPostedName?: boolean | undefined;
  /** Turns what the provider says into a user. Default: the standard claims. */
  readonly mapUser?: ((raw: Readonly<Record<string, unknown>>) => MappedUser) | undefined;
  /** Added to every authorization URL, for example `{ access_type: 'online' }`. `max_age`, in whole seconds, is enforced: the id_token's `auth_time` must be there, and not be older. */
  readonly authorizeParams?: Readonly<Record<string, string>> | undefined;
  /** Whether discovered endpoints must be at the issuer's host or below it. Default false. */
  readonly requireSameSite?: boolean | undefined;
  /** PEM file of the authorities that sign the provider's certificate, in place of those that Node.js knows. */
  readonly caFile?: string | undefined;
  /** Lets `http://` through to the loopback interface. Default false. */
  readonly allowInsecure?: boolean | undefined;
  /** For connecting, TLS, the first byte and the whole body each, 100 ... 60_000. Default 10_000. */
  readonly timeoutMs?: number | undefined;
  /** How far the clocks may differ when an id_token is judged, 0 ... 300. Default 60. */
  readonly leewaySeconds?: number | undefined;
}

/** Every option with its default in place. Holds the client secret. */
export interface ResolvedProviderOptions {
  readonly name: string;
  readonly clientId: string;
  readonly clientSecret: string | undefined;
  readonly clientAuth: 'post' | 'basic' | 'none' | undefined;
  readonly issuer: string | undefined;
  readonly discoveryUrl: string | undefined;
  readonly metadata: Readonly<Record<string, unknown>> | undefined;
  readonly authorizeUrl: string | undefined;
  readonly tokenUrl: string | undefined;
  readonly userinfoUrl: string | undefined;
  readonly jwksUrl: string | undefined;
  readonly emailsUrl: string | undefined;
  readonly jwks: { readonly keys: readonly unknown[] } | undefined;
  readonly scopes: readonly string[];
  readonly usesOpenId: boolean;
  readonly idTokenAlgorithms: readonly IdTokenAlgorithm[];
  readonly tenants: readonly string[] | undefined;
  readonly tokenTypes: readonly string[];
  readonly tokenAnswer: 'json' | 'form';
  readonly acceptsPostedName: boolean;
  readonly mapUser: (raw: Readonly<Record<string, unknown>>) => MappedUser;
  readonly authorizeParams: Readonly<Record<string, string>>;
  /** How long ago people may have proven who they are: `max_age` of `authorizeParams`. */
  readonly maxAgeSeconds: number | undefined;
  readonly requireSameSite: boolean;
  /** The text of `caFile`. */
  readonly ca: string | undefined;
  readonly allowInsecure: boolean;
  readonly timeoutMs: number;
  readonly leewaySeconds: number;
}

/** Parameters of an authorization URL that are ours alone. */
export const PROTOCOL_PARAMETERS: ReadonlySet<string> = new Set([
  'response_type',
  'response_mode',
  'client_id',
  'client_secret',
  'redirect_uri',
  'scope',
  'state',
  'nonce',
  'code_challenge',
  'code_challenge_method',
  'code_verifier',
  'request',
  'request_uri',
]);
/** In place of a tenant's id, in an issuer. */
export const TENANT = '{tenantid}';
export const GUID: RegExp = /^[\da-f]{8}-(?:[\da-f]{4}-){3}[\da-f]{12}$/;

const ID_TOKEN_ALGORITHMS: readonly string[] = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
] satisfies readonly IdTokenAlgorithm[];
const URLS = ['authorizeUrl', 'tokenUrl', 'userinfoUrl', 'jwksUrl', 'emailsUrl', 'discoveryUrl'] as const;
const WELL_KNOWN = '/.well-known/openid-configuration';

let settings: (provider: OAuthProvider) => ResolvedProviderOptions;

/** An identity provider: what it is called, where it is, and how it differs from the standard. Prints without its secret. */
export class OAuthProvider {
  readonly name: string;
  readonly clientId: string;
  readonly issuer: string | undefined;
  readonly scopes: readonly string[];
  readonly #options: ResolvedProviderOptions;

  static {
    settings = (provider) => provider.#options;
  }

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_OAUTH_PROVIDER` */
  constructor(options: OAuthProviderOptions) {
    this.#options = Object.freeze(read(options));
    this.name = this.#options.name;
    this.clientId = this.#options.clientId;
    this.issuer = this.#options.issuer;
    this.scopes = this.#options.scopes;
  }
}

/** Everything about a provider, its client secret too: for client.ts alone. */
export function settingsOf(provider: OAuthProvider): ResolvedProviderOptions {
  return settings(provider);
}

/** Answers calls to a provider in this process, in place of a connection. */
export type InProcess = Pick<Outbound, 'call' | 'close'>;

/** Providers that log anybody in as anybody, and how those are called that the application serves itself. */
const forDevelopment = new WeakMap<OAuthProvider, InProcess | undefined>();

/** Marks a provider as one that production must not have: for oauth/dev-provider/dev-provider.ts alone. */
export function markForDevelopment(provider: OAuthProvider, inProcess?: InProcess): OAuthProvider {
  forDevelopment.set(provider, inProcess);
  return provider;
}

/** How a provider is called that the application serves itself; undefined for every other. */
export function inProcessOf(provider: OAuthProvider): InProcess | undefined {
  return forDevelopment.get(provider);
}

/** Why a provider may not be had in production; undefined when it may. Known from what is given, before anything is discovered. */
export function problemInProduction(provider: OAuthProvider): string | undefined {
  if (forDevelopment.has(provider)) return 'is DevProvider, which logs anybody in as anybody';
  const { allowInsecure, issuer, ...urls } = settingsOf(provider);
  const isElsewhere = [issuer, ...URLS.map((name) => urls[name])].some(
    (url) => url !== undefined && !isLoopback(new URL(url.replace(TENANT, 'common')).hostname),
  );
  return allowInsecure && isElsewhere
    ? 'is on another machine, and has allowInsecure: what it names may lead to this machine without TLS'
    : undefined;
}

function read(options: OAuthProviderOptions): ResolvedProviderOptions {
  const url = given<string>('a URL', (value) => typeof value === 'string');
  const record = given<Readonly<Record<string, unknown>>>('an object', isRecord);
  const { caFile, acceptsTextVerified, ...values } = readOptions('OAuthProvider', options, {
    name: text(''),
    clientId: text(''),
    clientSecret: text(),
    clientAuth: given<'post' | 'basic' | 'none'>(
      'one of "post", "basic", "none"',
      (value) => value === 'post' || value === 'basic' || value === 'none',
    ),
    issuer: text(),
    discoveryUrl: url,
    metadata: record,
    authorizeUrl: url,
    tokenUrl: url,
    userinfoUrl: url,
    jwksUrl: url,
    emailsUrl: url,
    jwks: given<{ readonly keys: readonly unknown[] }>(
      'an object { keys: [ … ] }',
      (value) => isRecord(value) && Array.isArray(value['keys']),
    ),
    scopes: texts(),
    idTokenAlgorithms: given<readonly IdTokenAlgorithm[]>(
      `a list of ${ID_TOKEN_ALGORITHMS.join(', ')}`,
      isAlgorithmList,
    ),
    tenants: given<readonly string[]>(
      'a list of lower-case GUIDs',
      (value) => isTextList(value) && value.length > 0 && value.every((tenant) => GUID.test(tenant)),
    ),
    tokenTypes: texts(),
    tokenAnswer: oneOf(['json', 'form'], 'json'),
    acceptsTextVerified: bool(false),
    acceptsPostedName: bool(false),
    mapUser: given<(raw: Readonly<Record<string, unknown>>) => MappedUser>(
      'a function (raw) => user',
      isFunction,
    ),
    authorizeParams: given<Readonly<Record<string, string>>>(
      'an object of strings',
      (value) => isRecord(value) && Object.values(value).every((each) => typeof each === 'string'),
    ),
    requireSameSite: bool(false),
    caFile: text(),
    allowInsecure: bool(false),
    timeoutMs: int(10_000, 100, 60_000),
    leewaySeconds: int(60, 0, 300),
  });
  const issuer =
    values.issuer ?? issuerOf(values.discoveryUrl) ?? textOr(values.metadata?.['issuer'], undefined);
  const scopes = Object.freeze([
    ...(values.scopes ?? (issuer !== undefined ? ['openid', 'email', 'profile'] : [])),
  ]);
  const result: ResolvedProviderOptions = {
    ...values,
    issuer,
    scopes,
    metadata: values.metadata === undefined ? undefined : withoutNulls(values.metadata),
    usesOpenId: scopes.includes('openid'),
    discoveryUrl:
      values.discoveryUrl ?? (issuer === undefined ? undefined : issuer.replace(/\/$/, '') + WELL_KNOWN),
    idTokenAlgorithms: [...(values.idTokenAlgorithms ?? ['RS256'])],
    tokenTypes: (values.tokenTypes ?? ['bearer']).map((type) => type.toLowerCase()),
    mapUser: values.mapUser ?? ((raw) => standardUser(raw, acceptsTextVerified)),
    authorizeParams: { ...values.authorizeParams },
    maxAgeSeconds:
      values.authorizeParams?.['max_age'] === undefined
        ? undefined
        : Number(values.authorizeParams['max_age']),
    ca: caFile === undefined ? undefined : certificates(values.name, caFile),
  };
  const problem = problemOf(result);
  if (problem !== undefined) throw new SvcError('E_OAUTH_PROVIDER', [values.name, problem]);
  return result;
}

/** The first thing that cannot be right. */
function problemOf(given: ResolvedProviderOptions): string | undefined {
  if (!/^[a-z][a-z0-9-]{0,31}$/.test(given.name))
    return 'its name is not of the form [a-z][a-z0-9-]*, at most 32 characters';
  if (!isVisible(given.clientId)) return 'its clientId is empty, or has spaces or control characters';
  if (given.clientAuth === 'none' ? given.clientSecret !== undefined : !isVisible(given.clientSecret ?? '')) {
    return given.clientAuth === 'none'
      ? 'it has a clientSecret although clientAuth is "none"'
      : 'its clientSecret is empty, or has spaces or control characters';
  }
  return problemOfIssuer(given) ?? problemOfUrls(given) ?? problemOfParts(given);
}

function problemOfUrls(given: ResolvedProviderOptions): string | undefined {
  for (const name of URLS) {
    const problem =
      given[name] === undefined
        ? undefined
        : problemOfUrl(given[name].replace(TENANT, 'common'), given.allowInsecure);
    if (problem !== undefined) return `its ${name} ${problem}`;
  }
  return undefined;
}

function problemOfIssuer(given: ResolvedProviderOptions): string | undefined {
  const { issuer } = given;
  if (issuer === undefined) {
    if (given.discoveryUrl !== undefined)
      return `its issuer is missing: it can be derived only from a discoveryUrl that ends in ${WELL_KNOWN}`;
    return given.usesOpenId ? 'its scopes include "openid", which needs an issuer' : undefined;
  }
  const problem = problemOfUrl(issuer.replace(TENANT, 'common'), given.allowInsecure);
  if (problem !== undefined) return `its issuer ${problem}`;
  if (issuer.includes('?')) return 'its issuer has a query'; // RFC 8414 §2
  const metadata =
    given.metadata === undefined ? undefined : readMetadata(given.metadata, { ...given, issuer });
  if (typeof metadata === 'string') return `its metadata cannot be used: ${metadata}`;
  return given.tenants !== undefined && !issuer.includes(TENANT)
    ? `it has tenants, and an issuer without ${TENANT}`
    : undefined;
}

function problemOfParts(given: ResolvedProviderOptions): string | undefined {
  const taken = Object.entries(given.authorizeParams).find(
    ([name, value]) => PROTOCOL_PARAMETERS.has(name) && !(name === 'response_mode' && value === 'form_post'),
  )?.[0];
  if (taken !== undefined) return `its authorizeParams include "${taken}", which the login sets itself`;
  if (given.authorizeParams['max_age'] !== undefined && !/^\d{1,9}$/.test(given.authorizeParams['max_age']))
    return 'its authorizeParams have a max_age that is no whole number of seconds';
  const odd = given.scopes.find((scope) => !/^[\x21\x23-\x5b\x5d-\x7e]+$/.test(scope)); // RFC 6749 §3.3
  if (odd !== undefined) return 'its scopes include one with spaces, quotes or control characters';
  if (given.issuer !== undefined && given.metadata === undefined) return undefined; // discovery tells what is missing here
  const {
    authorization_endpoint: authorize,
    token_endpoint: token,
    userinfo_endpoint: userinfo,
    jwks_uri: keys,
  } = given.metadata ?? {};
  if ((given.authorizeUrl ?? authorize) === undefined || (given.tokenUrl ?? token) === undefined)
    return 'it has neither an issuer to discover nor both authorizeUrl and tokenUrl';
  if (given.usesOpenId)
    return given.jwks === undefined && (given.jwksUrl ?? keys) === undefined
      ? 'its keys are neither given by jwks or jwksUrl nor named by its metadata'
      : undefined;
  return (given.userinfoUrl ?? userinfo) === undefined
    ? 'it has neither an id_token (scope "openid") nor a userinfoUrl: nobody says who the user is'
    : undefined;
}

/** The issuer that a discovery URL belongs to (OpenID Connect Discovery §4). */
function issuerOf(discoveryUrl: string | undefined): string | undefined {
  return discoveryUrl?.endsWith(WELL_KNOWN) === true ? discoveryUrl.slice(0, -WELL_KNOWN.length) : undefined;
}

function certificates(name: string, file: string): string {
  try {
    const pem = readFileSync(file, 'utf8');
    new X509Certificate(pem); // the first one at least: a file without any would be ignored by TLS, and every call fail
    return pem;
  } catch (error) {
    throw new SvcError(
      'E_OAUTH_PROVIDER',
      [name, `its caFile "${file}" cannot be read as PEM certificates`],
      { cause: error },
    );
  }
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '');
}

function isAlgorithmList(value: unknown): boolean {
  return isTextList(value) && value.length > 0 && value.every((each) => ID_TOKEN_ALGORITHMS.includes(each));
}

function isVisible(value: string): boolean {
  return value !== '' && !/[\0-\x20\x7f]/.test(value);
}

function texts(): ReturnType<typeof given<readonly string[]>> {
  return given<readonly string[]>('a list of strings', isTextList);
}

/*
 * A provider's description of itself (OpenID Connect Discovery §3, RFC 8414 §2): JSON -> what a client needs of it.
 */

/** What was read. */
export interface Metadata {
  readonly authorizeUrl: string | undefined;
  readonly tokenUrl: string | undefined;
  readonly userinfoUrl: string | undefined;
  readonly jwksUrl: string | undefined;
  /** How the token endpoint authenticates clients: of what it supports, the first of `post` and `basic`. */
  readonly clientAuth: 'post' | 'basic' | undefined;
  /** Whether every authorization answer has `iss` (RFC 9207 §3). */
  readonly sendsIssuer: boolean;
}

/** How a description is judged. */
export interface MetadataRules {
  readonly issuer: string;
  readonly allowInsecure: boolean;
  readonly requireSameSite: boolean;
}

const ENDPOINTS = {
  authorizeUrl: 'authorization_endpoint',
  tokenUrl: 'token_endpoint',
  userinfoUrl: 'userinfo_endpoint',
  jwksUrl: 'jwks_uri',
} as const;

/** The metadata, or in a few words why they cannot be used. The issuer is compared byte for byte (RFC 8414 §3.3). */
export function readMetadata(
  document: Readonly<Record<string, unknown>>,
  { issuer, allowInsecure, requireSameSite }: MetadataRules,
): Metadata | string {
  if (document['issuer'] !== issuer) return 'issuer is not the one configured';
  const urls: Record<keyof typeof ENDPOINTS, string | undefined> = {
    authorizeUrl: undefined,
    tokenUrl: undefined,
    userinfoUrl: undefined,
    jwksUrl: undefined,
  };
  for (const [name, member] of Object.entries(ENDPOINTS) as [keyof typeof ENDPOINTS, string][]) {
    const url = document[member];
    if (url === undefined) continue;
    const problem = problemOfUrl(url as string, allowInsecure); // which refuses what is no string
    if (problem !== undefined) return `${member} ${problem}`;
    if (requireSameSite && !isWithinSite(new URL(url as string).hostname, new URL(issuer).hostname))
      return `${member} is not within the issuer's site`;
    urls[name] = url as string;
  }
  return {
    ...urls,
    clientAuth: clientAuthOf(document['token_endpoint_auth_methods_supported']),
    sendsIssuer: document['authorization_response_iss_parameter_supported'] === true,
  };
}

/** A list that is absent means HTTP Basic (OpenID Connect Discovery §3); one without either of the two leaves the choice open. */
function clientAuthOf(methods: unknown): 'post' | 'basic' | undefined {
  if (methods === undefined) return 'basic';
  if (!Array.isArray(methods)) return undefined;
  return methods.includes('client_secret_post')
    ? 'post'
    : methods.includes('client_secret_basic')
      ? 'basic'
      : undefined;
}
