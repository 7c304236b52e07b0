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
import type { Metadata, ProviderSettings } from './options.ts';

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
  readonly #settings: ProviderSettings;
  readonly #outbound: Pick<Outbound, 'call'>;
  #endpoints: Endpoints | undefined;
  #flight: Promise<Endpoints> | undefined;

  constructor(settings: ProviderSettings, outbound: Pick<Outbound, 'call'>) {
    this.#settings = settings;
    this.#outbound = outbound;
    if (!needsDiscovery(settings)) this.#endpoints = pinned(settings);
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
    const answer = await this.#outbound.call({ method: 'GET', url: this.#settings.discoveryUrl! }); // needsDiscovery() means that there is one
    const metadata = readMetadata(withoutNulls(jsonObject('discovery', answer)), {
      ...this.#settings,
      issuer: this.#settings.issuer!,
    });
    if (typeof metadata === 'string')
      throw new ProviderFailure('provider_error', `discovery_${metadata.replaceAll(' ', '_')}`);
    this.#endpoints = join(this.#settings, metadata, !answer.isPrivate);
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
}: ProviderSettings): boolean {
  if (metadata !== undefined || discoveryUrl === undefined) return false;
  return (
    authorizeUrl === undefined ||
    tokenUrl === undefined ||
    (usesOpenId ? jwks === undefined && jwksUrl === undefined : userinfoUrl === undefined)
  );
}

/** What the application itself says. Its own words are believed: a provider inside the site is named by a private address. */
function pinned(settings: ProviderSettings): Endpoints {
  const metadata =
    settings.metadata === undefined
      ? NOTHING
      : readMetadata(settings.metadata, { ...settings, issuer: settings.issuer! });
  return join(settings, metadata as Metadata, false); // the constructor of OAuthProvider has refused what cannot be read
}

const NOTHING: Metadata = {
  authorizeUrl: undefined,
  tokenUrl: undefined,
  userinfoUrl: undefined,
  jwksUrl: undefined,
  clientAuth: undefined,
  sendsIssuer: false,
};

function join(settings: ProviderSettings, metadata: Metadata, isGuarded: boolean): Endpoints {
  const target = (own: string | undefined, named: string | undefined): Target | undefined =>
    own !== undefined
      ? { url: own, isGuarded: false }
      : named !== undefined
        ? { url: named, isGuarded }
        : undefined;
  const authorizeUrl = settings.authorizeUrl ?? metadata.authorizeUrl;
  const token = target(settings.tokenUrl, metadata.tokenUrl);
  const keys = target(settings.jwksUrl, metadata.jwksUrl);
  const userinfo = target(settings.userinfoUrl, metadata.userinfoUrl);
  if (authorizeUrl === undefined || token === undefined)
    throw new ProviderFailure('provider_error', 'discovery_without_endpoints');
  if (settings.usesOpenId ? keys === undefined && settings.jwks === undefined : userinfo === undefined)
    throw new ProviderFailure('provider_error', 'discovery_without_endpoints');
  return {
    authorizeUrl,
    token,
    userinfo,
    keys,
    clientAuth: settings.clientAuth ?? metadata.clientAuth ?? 'post',
    sendsIssuer: metadata.sendsIssuer,
  };
}
