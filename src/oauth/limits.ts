/**
 * Rate limits of the endpoints. By address an IPv6 client is its /64 network (RFC 6177 §2), and all of one /48, which is what
 * one site gets, have ten times the limit together: addresses that rotate within it do not help.
 */
import { RateLimiter } from '../http/middleware/rate-limiter.ts';
import { given, readOptions } from '../base/options.ts';
import type { OptionKind } from '../base/options.ts';
import type { RateLimitStore } from '../cache/stores.ts';
import type { HttpRequest } from '../http/contracts.ts';

/** How often clients may come, each a minute. `false` switches one off. */
export interface OAuthLimits {
  /** Logins begun, by address. Default 20. */
  readonly login?: number | false | undefined;
  /** Callbacks, by address. Default 20. */
  readonly callback?: number | false | undefined;
  /** Refreshes, and as many revocations, by login. Default 60. */
  readonly token?: number | false | undefined;
  /** Texts that are no refresh token of ours, by address. Default 600. */
  readonly forged?: number | false | undefined;
  /** Where requests are counted: a store that processes share, or `database`, that of the plugin. Default: in the memory of each process. */
  readonly store?: RateLimitStore | 'database' | undefined;
}

/** The leading bits of one site's IPv6 addresses. */
export const SITE_BITS = 48;
const SITE_FACTOR = 10;
const MAX_PER_MINUTE = 1_000_000;

/** One limit, by address or by a key. */
class EndpointLimit {
  readonly #client: RateLimiter;
  readonly #site: RateLimiter;

  /** `store`: undefined is the memory of this process. */
  constructor(name: string, perMinute: number, store: RateLimitStore | undefined) {
    this.#client = new RateLimiter({ name, perMinute, store });
    this.#site = new RateLimiter({
      name: `${name}-site`,
      perMinute: Math.min(MAX_PER_MINUTE, perMinute * SITE_FACTOR),
      ipv6Prefix: SITE_BITS,
      store,
    });
  }

  /** Counts a request against `key`, by default its address. @throws TooManyRequests */
  async take(req: HttpRequest, key: string | undefined): Promise<void> {
    await this.#client.take(req, key);
    if (key === undefined && req.ip.includes(':')) await this.#site.take(req);
  }
}

/** The limits of the endpoints; undefined where one is off. */
export interface EndpointLimits {
  readonly login: EndpointLimit | undefined;
  readonly callback: EndpointLimit | undefined;
  /** By login. */
  readonly token: EndpointLimit | undefined;
  /** By login. */
  readonly revoke: EndpointLimit | undefined;
  /** By address, for text that is not a refresh token of ours. */
  readonly forged: EndpointLimit | undefined;
}

const isLimit = (value: unknown): boolean =>
  value === false ||
  (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= MAX_PER_MINUTE);

const LIMIT = (fallback: number): OptionKind<number | false> => ({
  fallback,
  needs: 'false or an integer 1 … 1000000',
  accepts: isLimit,
});

/** Limits as they were read. */
export interface ReadLimits {
  readonly login: number | false;
  readonly callback: number | false;
  readonly token: number | false;
  readonly forged: number | false;
  readonly store: RateLimitStore | 'database' | undefined;
}

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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

/** The limits of the endpoints. */
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
