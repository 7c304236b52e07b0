/**
 * Endpoints of a provider: options of the application first, then the provider's discovery document.
 *
 * The document is fetched on first use, by one fetch for all waiting logins. When it is an hour old, it is
 * fetched again in the background; until that succeeds, the old one is used. If the first fetch fails, the
 * next login tries again. With all endpoints given, or with `metadata`, nothing is fetched. Endpoints that a
 * provider on a public address names must be public, too (server-side request forgery).
 *
 * The discovery document of a provider (OpenID Connect Discovery §3, RFC 8414 §2) is reduced to the members a
 * client needs.
 */
import { ProviderFault } from './failure.ts';
import { jsonObject, withoutNulls } from './outbound.ts';
import { isWithinSite, issueOfUrl } from './addresses.ts';
import type { Clock } from '../../base/clock.ts';
import type { Outbound } from './outbound.ts';
import type { ResolvedProviderOptions } from './option-types.ts';

/** A URL of the provider for calls by the server. */
export interface Target {
  readonly url: string;
  /** Whether the host must be public: true for a URL that a provider on a public address named. */
  readonly isGuarded: boolean;
}

/** Endpoints of a provider. */
export interface Endpoints {
  /** Only browsers open this page. */
  readonly authorizeUrl: string;
  readonly token: Target;
  readonly userinfo: Target | undefined;
  readonly keys: Target | undefined;
  /** Only browsers open this page. */
  readonly endSessionUrl: string | undefined;
  readonly clientAuth: 'post' | 'basic' | 'private_key_jwt' | 'none';
  /** Whether every response must have `iss` (RFC 9207 §2.4). */
  readonly sendsIssuer: boolean;
}

const TTL_MS = 3_600_000;
const RETRY_MS = 60_000;

/** Finds and caches the endpoints of one provider. */
export class Discovery {
  readonly #options: ResolvedProviderOptions;
  readonly #outbound: Pick<Outbound, 'call'>;
  readonly #clock: Clock;
  #endpoints: Endpoints | undefined;
  #flight: Promise<Endpoints> | undefined;
  /** Time of the next fetch. */
  #refreshMs = Infinity;

  constructor(options: ResolvedProviderOptions, outbound: Pick<Outbound, 'call'>, clock: Clock) {
    this.#options = options;
    this.#outbound = outbound;
    this.#clock = clock;
    if (!needsDiscovery(options)) this.#endpoints = pinned(options);
  }

  /**
   * Returns the endpoints, fetched if necessary.
   * @throws ProviderFailure as Outbound.call(), and `provider_error` for an invalid document
   */
  endpoints(): Endpoints | Promise<Endpoints> {
    if (this.#endpoints !== undefined) {
      if (this.#clock.monotonicMs() >= this.#refreshMs) this.#refresh();
      return this.#endpoints;
    }
    this.#flight ??= this.#discover().finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  /**
   * Fetches the document in the background. After a failure the old document stays, and the next attempt is a
   * minute later.
   */
  #refresh(): void {
    this.#refreshMs = this.#clock.monotonicMs() + RETRY_MS;
    this.#discover().catch(() => undefined);
  }

  async #discover(): Promise<Endpoints> {
    // needsDiscovery() requires a discoveryUrl
    const answer = await this.#outbound.call({ method: 'GET', url: this.#options.discoveryUrl! });
    const metadata = readMetadata(withoutNulls(jsonObject('discovery', answer)), this.#options);
    if (typeof metadata === 'string')
      throw new ProviderFault('provider_error', `discovery_${metadata.replaceAll(' ', '_')}`);
    this.#endpoints = join(this.#options, metadata, !answer.isPrivate);
    this.#refreshMs = this.#clock.monotonicMs() + TTL_MS;
    return this.#endpoints;
  }
}

/** Whether an endpoint is missing that the document could name. */
function needsDiscovery(options: ResolvedProviderOptions): boolean {
  const { metadata, discoveryUrl } = options;
  return metadata === undefined && discoveryUrl !== undefined && missingEndpoint(options, {}) !== undefined;
}

/** Returns why the endpoints are not enough for a login; undefined if they are. */
export function missingEndpoint(
  options: ResolvedProviderOptions,
  named: Partial<Metadata>,
): string | undefined {
  const has = (name: keyof typeof ENDPOINTS): boolean => (options[name] ?? named[name]) !== undefined;
  if (!has('authorizeUrl') || !has('tokenUrl'))
    return 'the provider has neither an issuer to discover nor both authorizeUrl and tokenUrl';
  if (!options.usesOpenId)
    return has('userinfoUrl')
      ? undefined
      : 'it has neither an id_token (scope "openid") nor a userinfoUrl: nothing identifies the user';
  // with HS256, the client secret is the key
  return options.idTokenAlgorithms.includes('HS256') || options.jwks !== undefined || has('jwksUrl')
    ? undefined
    : 'the keys are neither given by jwks or jwksUrl nor named by the metadata';
}

/** Returns the endpoints from options. They may be private addresses, because the application named them. */
function pinned(options: ResolvedProviderOptions): Endpoints {
  const metadata =
    options.metadata === undefined ? { sendsIssuer: false } : readMetadata(options.metadata, options);
  // the constructor of OAuthProvider refuses invalid metadata
  return join(options, metadata as Metadata, false);
}

function join(options: ResolvedProviderOptions, metadata: Metadata, isGuarded: boolean): Endpoints {
  const target = (own: string | undefined, named: string | undefined): Target | undefined => {
    const url = own ?? named;
    return url === undefined ? undefined : { url, isGuarded: isGuarded && own === undefined };
  };
  if (missingEndpoint(options, metadata) !== undefined)
    throw new ProviderFault('provider_error', 'discovery_without_endpoints');
  return {
    authorizeUrl: (options.authorizeUrl ?? metadata.authorizeUrl)!,
    token: target(options.tokenUrl, metadata.tokenUrl)!,
    userinfo: target(options.userinfoUrl, metadata.userinfoUrl),
    keys: target(options.jwksUrl, metadata.jwksUrl),
    endSessionUrl: options.endSessionUrl ?? metadata.endSessionUrl,
    clientAuth: options.clientAuth ?? metadata.clientAuth ?? 'post',
    sendsIssuer: metadata.sendsIssuer,
  };
}

/** Metadata of a provider. */
interface Metadata extends Partial<Record<keyof typeof ENDPOINTS, string>> {
  /** Client authentication at the token endpoint: the first supported of `post` and `basic`. */
  readonly clientAuth?: 'post' | 'basic' | undefined;
  /** Whether every authorization response has `iss` (RFC 9207 §3). */
  readonly sendsIssuer: boolean;
}

/** Options that a document is checked against. */
type MetadataRules = Pick<ResolvedProviderOptions, 'issuer' | 'allowInsecure' | 'requireSameSite'>;

const ENDPOINTS = {
  authorizeUrl: 'authorization_endpoint',
  tokenUrl: 'token_endpoint',
  userinfoUrl: 'userinfo_endpoint',
  jwksUrl: 'jwks_uri',
  endSessionUrl: 'end_session_endpoint',
} as const;

/** Returns the metadata, or why they are invalid. The issuer is compared byte for byte (RFC 8414 §3.3). */
export function readMetadata(
  document: Readonly<Record<string, unknown>>,
  { issuer, allowInsecure, requireSameSite }: MetadataRules,
): Metadata | string {
  if (document['issuer'] !== issuer) return 'issuer is not the one configured';
  const urls: Partial<Record<keyof typeof ENDPOINTS, string>> = {};
  for (const [name, member] of Object.entries(ENDPOINTS) as [keyof typeof ENDPOINTS, string][]) {
    const url = document[member];
    if (url === undefined) continue;
    // issueOfUrl() refuses a value that is not a string
    const problem = issueOfUrl(url as string, allowInsecure);
    if (problem !== undefined) return `${member} ${problem}`;
    if (requireSameSite && !isWithinSite(new URL(url as string).hostname, new URL(String(issuer)).hostname))
      return `${member} is not within the issuer's site`;
    urls[name] = url as string;
  }
  return {
    ...urls,
    clientAuth: clientAuthOf(document['token_endpoint_auth_methods_supported']),
    sendsIssuer: document['authorization_response_iss_parameter_supported'] === true,
  };
}

/**
 * Returns the authentication method. Without a list it is HTTP Basic (OpenID Connect Discovery §3); a list
 * without `post` and `basic` gives undefined.
 */
function clientAuthOf(methods: unknown): 'post' | 'basic' | undefined {
  if (methods === undefined) return 'basic';
  if (!Array.isArray(methods)) return undefined;
  return methods.includes('client_secret_post')
    ? 'post'
    : methods.includes('client_secret_basic')
      ? 'basic'
      : undefined;
}
