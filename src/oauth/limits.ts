/**
 * Rate limits of the OAuth endpoints. All addresses of an IPv6 /64 network count as one client (RFC 6177 §2).
 * A second limit, ten times as high, applies to each /48 network, which is usually one site.
 */
import { RateLimiter } from '../http/middleware/rate-limiter.ts';
import { given, int, readOptions } from '../base/options.ts';
import type { OptionKind, Resolved } from '../base/options.ts';
import type { RateLimitStore } from '../cache/stores.ts';
import type { HttpRequest } from '../http/contracts.ts';

/** Rate limits in requests a minute. `false` disables a limit. */
export interface OAuthLimits {
  /** Logins that one client address starts. Default 20. */
  readonly login?: number | false | undefined;
  /** Callbacks from one client address. Default 20. */
  readonly callback?: number | false | undefined;
  /** Token refreshes of one login. A separate counter applies this limit to revocations, too. Default 60. */
  readonly token?: number | false | undefined;
  /** Invalid refresh tokens and logout tokens from one client address. Default 600. */
  readonly forged?: number | false | undefined;
  /**
   * Store of the counters: a store that all processes share, or `database` for the application's database.
   * Default: the memory of each process.
   */
  readonly store?: RateLimitStore | 'database' | undefined;
}

/** Prefix length of the IPv6 network that one site usually gets. */
export const SITE_BITS = 48;
const SITE_FACTOR = 10;
const MAX_PER_MINUTE = 1_000_000;

/** A rate limit for a client address, or for a login. */
class EndpointLimit {
  readonly #client: RateLimiter;
  readonly #site: RateLimiter;

  /** Without `store`, the counters are in the memory of this process. */
  constructor(name: string, perMinute: number, store: RateLimitStore | undefined) {
    this.#client = new RateLimiter({ name, perMinute, store });
    this.#site = new RateLimiter({
      name: `${name}-site`,
      perMinute: Math.min(MAX_PER_MINUTE, perMinute * SITE_FACTOR),
      ipv6Prefix: SITE_BITS,
      store,
    });
  }

  /** Counts a request of the login `key`. Without `key`, counts a request of the client's address. */
  async take(req: HttpRequest, key: string | undefined): Promise<void> {
    await this.#client.take(req, key);
    if (key === undefined && req.ip.includes(':')) await this.#site.take(req);
  }
}

export interface EndpointLimits extends Readonly<
  Record<Exclude<keyof OAuthLimits, 'store'>, EndpointLimit | undefined>
> {
  readonly revoke: EndpointLimit | undefined;
}

const LIMIT = (fallback: number): OptionKind<number | false> => ({
  fallback,
  needs: 'false or an integer 1 … 1000000',
  accepts: (value) => value === false || int(1, 1, MAX_PER_MINUTE).accepts(value),
});

export type ReadLimits = Resolved<OAuthLimits, Exclude<keyof OAuthLimits, 'store'>>;

export function readLimits(limits: OAuthLimits): ReadLimits {
  return readOptions('OAuthPlugin limits', limits, {
    login: LIMIT(20),
    callback: LIMIT(20),
    token: LIMIT(60),
    forged: LIMIT(600),
    store: given<RateLimitStore | 'database'>(
      'a RateLimitStore, or "database"',
      (value) =>
        value === 'database' || typeof (value as Partial<RateLimitStore> | null)?.take === 'function',
    ),
  });
}

export function limitsOf(read: ReadLimits, store: RateLimitStore | undefined): EndpointLimits {
  const limit = (name: string, perMinute: number | false): EndpointLimit | undefined =>
    perMinute === false ? undefined : new EndpointLimit(name, perMinute, store);
  return {
    login: limit('oauth-login', read.login),
    callback: limit('oauth-callback', read.callback),
    token: limit('oauth-token', read.token),
    revoke: limit('oauth-revoke', read.token),
    forged: limit('oauth-forged', read.forged),
  };
}
