/** An identity provider. Its options are read and checked once, and the client secret is hidden. */
import { readFileSync } from 'node:fs';
import { X509Certificate } from 'node:crypto';
import { SvcError } from '../../base/errors.ts';
import {
  bool,
  given,
  int,
  isFunction,
  isRecord,
  oneOf,
  readOptions,
  text,
  withoutNulls,
} from '../../base/options.ts';
import { noteSecrets } from '../../base/used-secrets.ts';
import { isLoopback } from '../../auth/provider/addresses.ts';
import { clientAssertions } from './client-assertion.ts';
import { HASHES } from '../../crypto/jws.ts';
import { pemText } from '../../crypto/keys.ts';
import { issueOf } from './problems.ts';
import { GUID, TENANT, URLS, WELL_KNOWN } from './option-types.ts';
import { standardUser, textOr } from './user-info.ts';
import type { OptionKind } from '../../base/options.ts';
import type { Outbound } from '../../auth/provider/outbound.ts';
import type { ClientKey } from './client-assertion.ts';
import type {
  ClientSecretMaker,
  IdTokenAlgorithm,
  OAuthProviderOptions,
  ResolvedProviderOptions,
} from './option-types.ts';
import type { MappedUser } from './user-info.ts';

export type { ClientSecretMaker, IdTokenAlgorithm, OAuthProviderOptions, ResolvedProviderOptions };

// id_tokens are not signed with `Ed25519`, the newer name of `EdDSA`
const ID_TOKEN_ALGORITHMS = Object.keys(HASHES).filter((name) => name !== 'Ed25519');
/** Matches a host in the format of `URL.hostname`. */
const HOST = /^(?:[a-z\d_-]+(?:\.[a-z\d_-]+)*|\[[\da-f:]+\])$/;

let settings: (provider: OAuthProvider) => ResolvedProviderOptions;

/** An identity provider. A printed object does not show the client secret. */
export class OAuthProvider {
  readonly name: string;
  readonly clientId: string;
  readonly issuer: string | undefined;
  readonly scopes: readonly string[];
  readonly #options: ResolvedProviderOptions;

  static {
    settings = (provider) => provider.#options;
  }

  /**
   * @throws SvcError `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` for an invalid option, `E_OAUTH_PROVIDER` for
   * options that do not fit together
   */
  constructor(options: OAuthProviderOptions) {
    this.#options = Object.freeze(read(options));
    noteSecrets('the provider', this.#options.clientSecret);
    this.name = this.#options.name;
    this.clientId = this.#options.clientId;
    this.issuer = this.#options.issuer;
    this.scopes = this.#options.scopes;
  }
}

/**
 * Returns all options of a provider, including the client secret. Only client.ts and this file may use them.
 */
export function settingsOf(provider: OAuthProvider): ResolvedProviderOptions {
  return settings(provider);
}

/** Transport that handles requests to a provider within this process. */
export type InProcess = Pick<Outbound, 'call' | 'close'>;

/**
 * Development providers. The value is a transport within this process, or undefined if the provider is
 * reached over the network.
 */
const forDevelopment = new WeakMap<OAuthProvider, InProcess | undefined>();

/** Marks a provider as a development provider. Only dev-provider.ts calls this function. */
export function markForDevelopment(provider: OAuthProvider, inProcess?: InProcess): OAuthProvider {
  forDevelopment.set(provider, inProcess);
  return provider;
}

/**
 * Returns the transport within this process for a provider that this application serves; undefined for other
 * providers.
 */
export function inProcessOf(provider: OAuthProvider): InProcess | undefined {
  return forDevelopment.get(provider);
}

/** Returns why a provider must not be used in production; undefined if it may. */
export function issueInProduction(provider: OAuthProvider): string | undefined {
  if (forDevelopment.has(provider)) return 'is DevProvider, which accepts any user without a password';
  const { allowInsecure, issuer, ...urls } = settingsOf(provider);
  const isElsewhere = [issuer, ...URLS.map((name) => urls[name])].some(
    (url) => url !== undefined && !isLoopback(new URL(url.replace(TENANT, 'common')).hostname),
  );
  return allowInsecure !== false && isElsewhere
    ? 'is on another machine, and has allowInsecure: the addresses that it names may lead to this machine without TLS'
    : undefined;
}

const ALLOW_INSECURE: OptionKind<boolean | readonly string[]> = {
  fallback: false,
  needs: 'true, false or a list of hosts',
  accepts: (value) =>
    typeof value === 'boolean' || (isTextList(value) && value.every((host) => HOST.test(host))),
};

/**
 * Returns weaknesses of a provider's options, such as a missing nonce, as texts for findings of `svc check`.
 */
export function weaknessesOf(provider: OAuthProvider): string[] {
  const { usesNonce, usesPkce, usesOpenId, idTokenAlgorithms, clientIdName } = settingsOf(provider);
  return [
    ...(usesOpenId && !usesNonce
      ? ['has no nonce: a stolen id_token cannot be distinguished from a new one']
      : []),
    ...(usesPkce ? [] : ['has no PKCE: a code that was stolen can be used with the client secret']),
    ...(idTokenAlgorithms.includes('HS256')
      ? ['signs id_tokens with the client secret: a copy of it is enough to log in as any user']
      : []),
    ...(clientIdName === 'client_id' ? [] : [`calls client_id "${clientIdName}", which is not OAuth 2.0`]),
  ];
}

function read(options: OAuthProviderOptions): ResolvedProviderOptions {
  const url = given<string>('a URL', (value) => typeof value === 'string');
  const record = given<Readonly<Record<string, unknown>>>('an object', isRecord);
  const texts = given<readonly string[]>('a list of strings', isTextList);
  const { caFile, acceptsTextVerified, clientKey, ...values } = readOptions('OAuthProvider', options, {
    name: text(''),
    clientId: text(''),
    clientSecret: given<string | ClientSecretMaker>(
      'a string, or a function (nowSeconds) => string',
      (value) => typeof value === 'string' || isFunction(value),
    ),
    clientAuth: given<'post' | 'basic' | 'private_key_jwt' | 'none'>(
      'one of "post", "basic", "private_key_jwt", "none"',
      (value) => value === 'post' || value === 'basic' || value === 'private_key_jwt' || value === 'none',
    ),
    clientKey: given<ClientKey>(
      'an object { privateKey, keyId }',
      (value) =>
        isRecord(value) &&
        typeof value['privateKey'] === 'string' &&
        (value['keyId'] === undefined || typeof value['keyId'] === 'string'),
    ),
    issuer: text(),
    discoveryUrl: url,
    metadata: record,
    authorizeUrl: url,
    tokenUrl: url,
    userinfoUrl: url,
    jwksUrl: url,
    endSessionUrl: url,
    emailsUrl: url,
    jwks: given<{ readonly keys: readonly unknown[] }>(
      'an object { keys: [ … ] }',
      (value) => isRecord(value) && Array.isArray(value['keys']),
    ),
    scopes: texts,
    idTokenAlgorithms: given<readonly IdTokenAlgorithm[]>(
      `a list of ${ID_TOKEN_ALGORITHMS.join(', ')}`,
      (value) =>
        isTextList(value) && value.length > 0 && value.every((each) => ID_TOKEN_ALGORITHMS.includes(each)),
    ),
    tenants: given<readonly string[]>(
      'a list of lower-case GUIDs',
      (value) => isTextList(value) && value.length > 0 && value.every((tenant) => GUID.test(tenant)),
    ),
    tokenTypes: texts,
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
    usesNonce: bool(true),
    usesPkce: bool(true),
    clientIdName: text('client_id'),
    postLogoutName: text('post_logout_redirect_uri'),
    requireSameSite: bool(false),
    caFile: text(),
    allowInsecure: ALLOW_INSECURE,
    timeoutMs: int(10_000, 100, 60_000),
    leewaySeconds: int(60, 0, 300),
  });
  const issuer =
    values.issuer ?? issuerOf(values.discoveryUrl) ?? textOr(values.metadata?.['issuer'], undefined);
  const scopes = Object.freeze([
    ...(values.scopes ?? (issuer !== undefined ? ['openid', 'email', 'profile'] : [])),
  ]);
  const assertions = clientKey === undefined ? undefined : clientAssertions(clientKey);
  if (typeof assertions === 'string') throw new SvcError('E_OAUTH_PROVIDER', [values.name, assertions]);
  const result: ResolvedProviderOptions = {
    ...values,
    assertions,
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
  const problem = issueOf(result);
  if (problem !== undefined) throw new SvcError('E_OAUTH_PROVIDER', [values.name, problem]);
  return result;
}

/** Returns the issuer to which a discovery URL belongs (OpenID Connect Discovery §4). */
function issuerOf(discoveryUrl: string | undefined): string | undefined {
  return discoveryUrl?.endsWith(WELL_KNOWN) === true ? discoveryUrl.slice(0, -WELL_KNOWN.length) : undefined;
}

function certificates(name: string, file: string): string {
  try {
    const pem = pemText(readFileSync(file, 'utf8'));
    // throws if the file contains no certificate; TLS would accept the file, and then refuse every connection
    new X509Certificate(pem);
    return pem;
  } catch (error) {
    throw new SvcError(
      'E_OAUTH_PROVIDER',
      [name, `the caFile "${file}" cannot be read as PEM certificates`],
      { cause: error },
    );
  }
}

function isTextList(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'string' && each !== '');
}
