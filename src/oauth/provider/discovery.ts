/**
 * Finds the endpoints of a provider. Options of the application take precedence over the provider's discovery
 * document (OpenID Connect Discovery §3, RFC 8414 §2).
 *
 * The discovery document is fetched on first use, and again every hour, in the background. If a fetch fails,
 * the old document stays in use; if there is none, the next login tries again. Nothing is fetched if the
 * options contain `metadata` or all endpoints.
 *
 * The endpoints of a provider with a public address must be public, too (server-side request forgery).
 */
import { ProviderFault } from '../../auth/provider/failure.ts';
import { withoutNulls } from '../../base/options.ts';
import { jsonObject } from '../../auth/provider/outbound.ts';
import { isWithinSite, issueOfUrl } from '../../auth/provider/addresses.ts';
import type { Clock } from '../../base/clock.ts';
import type { Outbound, Target } from '../../auth/provider/outbound.ts';
import type { ResolvedProviderOptions } from './option-types.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

export interface Endpoints {
  /** Page that only browsers open. */
  readonly authorizeUrl: string;
  readonly token: Target;
  readonly userinfo: Target | undefined;
  readonly keys: Target | undefined;
  /** Page that only browsers open. Undefined if the provider has none. */
  readonly endSessionUrl: string | undefined;
  readonly clientAuth: 'post' | 'basic' | 'private_key_jwt' | 'none';
  /** True if every authorization response must have the parameter `iss` (RFC 9207 §2.4). */
  readonly sendsIssuer: boolean;
}

const TTL_MS = 3_600_000;
const RETRY_MS = 60_000;

export class Discovery {
  readonly #options: ResolvedProviderOptions;
  readonly #outbound: Pick<Outbound, 'call'>;
  readonly #clock: Clock;
  #endpoints: Endpoints | undefined;
  #flight: Promise<Endpoints> | undefined;
  /** Monotonic time in milliseconds at which the document is fetched again. */
  #refreshMs = Infinity;

  constructor(options: ResolvedProviderOptions, outbound: Pick<Outbound, 'call'>, clock: Clock) {
    this.#options = options;
    this.#outbound = outbound;
    this.#clock = clock;
    if (!needsDiscovery(options)) this.#endpoints = pinned(options);
  }

  /**
   * Returns the endpoints. Fetches the discovery document if necessary.
   *
   * @throws ProviderFault `provider_error` for an invalid document, or an error of {@link Outbound.call}
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

  /** Fetches the document in the background. After a failure, the next try comes a minute later. */
  #refresh(): void {
    this.#refreshMs = this.#clock.monotonicMs() + RETRY_MS;
    this.#discover().catch(() => undefined);
  }

  async #discover(): Promise<Endpoints> {
    const answer = await this.#outbound.call({ method: 'GET', url: this.#options.discoveryUrl! });
    const metadata = readMetadata(withoutNulls(jsonObject('discovery', answer)), this.#options);
    if (typeof metadata === 'string')
      throw new ProviderFault('provider_error', `discovery_${metadata.replaceAll(' ', '_')}`);
    this.#endpoints = join(this.#options, metadata, !answer.isPrivate);
    this.#refreshMs = this.#clock.monotonicMs() + TTL_MS;
    return this.#endpoints;
  }
}

/** Returns whether the discovery document is needed, because the options lack an endpoint. */
function needsDiscovery(options: ResolvedProviderOptions): boolean {
  const { metadata, discoveryUrl } = options;
  return metadata === undefined && discoveryUrl !== undefined && missingEndpoint(options, {}) !== undefined;
}

/**
 * Returns a message if a login needs an endpoint or keys that neither `options` nor the provider's metadata
 * contain.
 */
export function missingEndpoint(
  options: ResolvedProviderOptions,
  named: Partial<Metadata>,
): string | undefined {
  const has = (name: keyof typeof ENDPOINTS): boolean => (options[name] ?? named[name]) !== undefined;
  if (!has('authorizeUrl') || !has('tokenUrl'))
    return 'the endpoints are missing: give an issuer, or both authorizeUrl and tokenUrl';
  if (!options.usesOpenId)
    return has('userinfoUrl')
      ? undefined
      : 'nothing identifies the user: give the scope "openid" for an id_token, or a userinfoUrl';
  // with HS256, the client secret is the key, so no key set is needed
  return options.idTokenAlgorithms.includes('HS256') || options.jwks !== undefined || has('jwksUrl')
    ? undefined
    : 'the keys of the provider are missing: give jwks, jwksUrl, or metadata with a jwks_uri';
}

/**
 * Returns the endpoints in the options. Their addresses may be private, because the application has chosen
 * them.
 */
function pinned(options: ResolvedProviderOptions): Endpoints {
  const metadata =
    options.metadata === undefined ? { sendsIssuer: false } : readMetadata(options.metadata, options);
  // readMetadata() returned an object, because OAuthProvider refuses invalid metadata
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

interface Metadata extends Partial<Record<keyof typeof ENDPOINTS, string>> {
  /** Client authentication at the token endpoint; undefined for neither `post` nor `basic`. */
  readonly clientAuth?: 'post' | 'basic' | undefined;
  /** True if every authorization response has the parameter `iss` (RFC 9207 §3). */
  readonly sendsIssuer: boolean;
}

/** Options that a discovery document must match. */
type MetadataRules = Pick<ResolvedProviderOptions, 'issuer' | 'allowInsecure' | 'requireSameSite'>;

const ENDPOINTS = {
  authorizeUrl: 'authorization_endpoint',
  tokenUrl: 'token_endpoint',
  userinfoUrl: 'userinfo_endpoint',
  jwksUrl: 'jwks_uri',
  endSessionUrl: 'end_session_endpoint',
} as const;

/**
 * Returns the endpoints and other members of a discovery document, or the reason why the document is invalid.
 * The issuer is compared byte for byte (RFC 8414 §3.3).
 */
export function readMetadata(
  document: JsonObject,
  { issuer, allowInsecure, requireSameSite }: MetadataRules,
): Metadata | string {
  if (document['issuer'] !== issuer) return 'issuer is not the one configured';
  const urls: Partial<Record<keyof typeof ENDPOINTS, string>> = {};
  for (const [name, member] of Object.entries(ENDPOINTS) as [keyof typeof ENDPOINTS, string][]) {
    const url = document[member];
    if (url === undefined) continue;
    // issueOfUrl() refuses values of any type except string
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

/** Returns the method to use; without a list, `basic` (OpenID Connect Discovery §3). */
function clientAuthOf(methods: unknown): 'post' | 'basic' | undefined {
  if (methods === undefined) return 'basic';
  if (!Array.isArray(methods)) return undefined;
  return methods.includes('client_secret_post')
    ? 'post'
    : methods.includes('client_secret_basic')
      ? 'basic'
      : undefined;
}
