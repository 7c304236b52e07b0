/**
 * Where a provider's endpoints are: what the application says, then what the provider's own description says.
 *
 * The description is fetched when it is first needed, once for all who wait for it, and stays for the life of the process; a
 * fetch that fails is tried again by the next who needs it. With every endpoint given, or with `metadata`, nothing is fetched.
 * Endpoints that a provider on a public address has named itself must be public too (server-side request forgery).
 */
import { ProviderFailure, jsonObject, withoutNulls } from './outbound.ts';
import { readMetadata } from './options.ts';
import type { Outbound } from './outbound.ts';
import type { Metadata, ResolvedProviderOptions } from './options.ts';

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
  readonly clientAuth: 'post' | 'basic' | 'none';
  /** Whether an answer without `iss` is not this provider's (RFC 9207 §2.4). */
  readonly sendsIssuer: boolean;
}

/** Finds the endpoints of one provider. */
export class Discovery {
  readonly #options: ResolvedProviderOptions;
  readonly #outbound: Pick<Outbound, 'call'>;
  #endpoints: Endpoints | undefined;
  #flight: Promise<Endpoints> | undefined;

  constructor(options: ResolvedProviderOptions, outbound: Pick<Outbound, 'call'>) {
    this.#options = options;
    this.#outbound = outbound;
    if (!needsDiscovery(options)) this.#endpoints = pinned(options);
  }

  /** The endpoints, found already or now. @throws ProviderFailure as Outbound.call(), and `provider_error` for a description that cannot be used */
  endpoints(): Endpoints | Promise<Endpoints> {
    if (this.#endpoints !== undefined) return this.#endpoints;
    this.#flight ??= this.#discover().finally(() => {
      this.#flight = undefined;
    });
    return this.#flight;
  }

  async #discover(): Promise<Endpoints> {
    const answer = await this.#outbound.call({ method: 'GET', url: this.#options.discoveryUrl! }); // needsDiscovery() means that there is one
    const metadata = readMetadata(withoutNulls(jsonObject('discovery', answer)), {
      ...this.#options,
      issuer: this.#options.issuer!,
    });
    if (typeof metadata === 'string')
      throw new ProviderFailure('provider_error', `discovery_${metadata.replaceAll(' ', '_')}`);
    this.#endpoints = join(this.#options, metadata, !answer.isPrivate);
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
}: ResolvedProviderOptions): boolean {
  if (metadata !== undefined || discoveryUrl === undefined) return false;
  return (
    authorizeUrl === undefined ||
    tokenUrl === undefined ||
    (usesOpenId ? jwks === undefined && jwksUrl === undefined : userinfoUrl === undefined)
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
    throw new ProviderFailure('provider_error', 'discovery_without_endpoints');
  if (options.usesOpenId ? keys === undefined && options.jwks === undefined : userinfo === undefined)
    throw new ProviderFailure('provider_error', 'discovery_without_endpoints');
  return {
    authorizeUrl,
    token,
    userinfo,
    keys,
    clientAuth: options.clientAuth ?? metadata.clientAuth ?? 'post',
    sendsIssuer: metadata.sendsIssuer,
  };
}
