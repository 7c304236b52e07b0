/**
 * Where a provider's endpoints are: what the application says, then what the provider's own description says.
 *
 * The description is fetched when it is first needed, once for all who wait for it, and again in the background when it is an hour
 * old: until that has succeeded, what is known counts. A first fetch that fails is tried again by the next who needs it. With every endpoint given, or with `metadata`, nothing is fetched.
 * Endpoints that a provider on a public address has named itself must be public too (server-side request forgery).
 */
import { ProviderFault } from './failure.ts';
import { jsonObject, withoutNulls } from './json-answer.ts';
import { readMetadata } from './metadata.ts';
import type { Clock } from '../../base/clock.ts';
import type { Outbound } from './outbound.ts';
import type { Metadata } from './metadata.ts';
import type { ResolvedProviderOptions } from './options.ts';

/** An address to call. */
export interface Target {
  readonly url: string;
  /** Whether the provider named it, being public itself: then it must be public as well. */
  readonly isGuarded: boolean;
}

/** Where everything is. */
export interface Endpoints {
  /** Only ever opened by browsers. */
  readonly authorizeUrl: string;
  readonly token: Target;
  readonly userinfo: Target | undefined;
  readonly keys: Target | undefined;
  /** Only ever opened by browsers. */
  readonly endSessionUrl: string | undefined;
  readonly clientAuth: 'post' | 'basic' | 'private_key_jwt' | 'none';
  /** Whether an answer without `iss` is not this provider's (RFC 9207 §2.4). */
  readonly sendsIssuer: boolean;
}

const TTL_MS = 3_600_000;
const RETRY_MS = 60_000;

/** Finds the endpoints of one provider. */
export class Discovery {
  readonly #options: ResolvedProviderOptions;
  readonly #outbound: Pick<Outbound, 'call'>;
  #endpoints: Endpoints | undefined;
  #flight: Promise<Endpoints> | undefined;
  readonly #clock: Clock;
  /** When the description is fetched once more. */
  #refreshMs = Infinity;

  constructor(options: ResolvedProviderOptions, outbound: Pick<Outbound, 'call'>, clock: Clock) {
    this.#options = options;
    this.#outbound = outbound;
    this.#clock = clock;
    if (!needsDiscovery(options)) this.#endpoints = pinned(options);
  }

  /** The endpoints, found already or now. @throws ProviderFault as Outbound.call(), and `provider_error` for a description that cannot be used */
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

  /** Fetches the description in the background. A failure leaves what is known; the next attempt is a minute later. */
  #refresh(): void {
    this.#refreshMs = this.#clock.monotonicMs() + RETRY_MS;
    this.#discover().catch(() => undefined);
  }

  async #discover(): Promise<Endpoints> {
    const answer = await this.#outbound.call({ method: 'GET', url: this.#options.discoveryUrl! }); // needsDiscovery() means that there is one
    const metadata = readMetadata(withoutNulls(jsonObject('discovery', answer)), {
      ...this.#options,
      issuer: this.#options.issuer!,
    });
    if (typeof metadata === 'string')
      throw new ProviderFault('provider_error', `discovery_${metadata.replaceAll(' ', '_')}`);
    this.#endpoints = join(this.#options, metadata, !answer.isPrivate);
    this.#refreshMs = this.#clock.monotonicMs() + TTL_MS;
    return this.#endpoints;
  }
}

/** Whether an endpoint is missing that a description might name. */
function needsDiscovery({
  metadata,
  discoveryUrl,
  authorizeUrl,
  tokenUrl,
  userinfoUrl,
  jwksUrl,
  jwks,
  usesOpenId,
  idTokenAlgorithms,
}: ResolvedProviderOptions): boolean {
  if (metadata !== undefined || discoveryUrl === undefined) return false;
  return (
    authorizeUrl === undefined ||
    tokenUrl === undefined ||
    (usesOpenId
      ? !idTokenAlgorithms.includes('HS256') && jwks === undefined && jwksUrl === undefined
      : userinfoUrl === undefined)
  );
}

/** What the application itself says. Its own words are believed: a provider inside the site is named by a private address. */
function pinned(options: ResolvedProviderOptions): Endpoints {
  const metadata =
    options.metadata === undefined
      ? NOTHING
      : readMetadata(options.metadata, { ...options, issuer: options.issuer! });
  return join(options, metadata as Metadata, false); // the constructor of OAuthProvider has refused what cannot be read
}

const NOTHING: Metadata = {
  authorizeUrl: undefined,
  tokenUrl: undefined,
  userinfoUrl: undefined,
  jwksUrl: undefined,
  endSessionUrl: undefined,
  clientAuth: undefined,
  sendsIssuer: false,
};

function join(options: ResolvedProviderOptions, metadata: Metadata, isGuarded: boolean): Endpoints {
  const target = (own: string | undefined, named: string | undefined): Target | undefined =>
    own !== undefined
      ? { url: own, isGuarded: false }
      : named !== undefined
        ? { url: named, isGuarded }
        : undefined;
  const authorizeUrl = options.authorizeUrl ?? metadata.authorizeUrl;
  const token = target(options.tokenUrl, metadata.tokenUrl);
  const keys = target(options.jwksUrl, metadata.jwksUrl);
  const userinfo = target(options.userinfoUrl, metadata.userinfoUrl);
  if (authorizeUrl === undefined || token === undefined)
    throw new ProviderFault('provider_error', 'discovery_without_endpoints');
  const needsKeys = options.usesOpenId && !options.idTokenAlgorithms.includes('HS256'); // whose key is the client secret
  if (
    (needsKeys && keys === undefined && options.jwks === undefined) ||
    (!options.usesOpenId && userinfo === undefined)
  )
    throw new ProviderFault('provider_error', 'discovery_without_endpoints');
  return {
    authorizeUrl,
    token,
    userinfo,
    keys,
    endSessionUrl: options.endSessionUrl ?? metadata.endSessionUrl,
    clientAuth: options.clientAuth ?? metadata.clientAuth ?? 'post',
    sendsIssuer: metadata.sendsIssuer,
  };
}
