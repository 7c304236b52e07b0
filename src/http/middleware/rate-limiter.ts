/**
 * Rate limits: how often a client may do something. RateLimitMiddleware and handlers use this module.
 *
 * Use in a handler:
 *   const logins = new RateLimiter({ name: 'login', perMinute: 5 });
 *   await logins.take(req, email); // 429 for the sixth login with this email within a minute
 *
 * A rate limiter counts by the generic cell rate algorithm (cache/stores.ts), with the monotonic clock.
 * Without a shared store, each process counts in its own memory, so n processes allow n times as many
 * requests.
 */
import { sharedCounter } from '../../observability/metrics.ts';
import { createHash } from 'node:crypto';
import { types } from 'node:util';
import { throwMistake, TooManyRequests, unavailable, withoutStack } from '../../base/errors.ts';
import { given, int, oneOf, readOptions, shown, text, optionalInt, outOfRange } from '../../base/options.ts';
import { MemoryRateLimitStore } from '../../cache/stores.ts';
import { clientOf } from '../request/proxy.ts';
import { isThenable, whenReady } from '../../base/promises.ts';
import { services } from '../state.ts';
import { presentClock } from '../../base/clock.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Counter } from '../../observability/metrics.ts';
import type { OptionKind } from '../../base/options.ts';
import type { RateLimitResult, RateLimitRule, RateLimitStore } from '../../cache/stores.ts';
import type { Awaitable, HttpRequest, RateLimitKey, RouteRateLimit, Services } from '../contracts.ts';

/**
 * Options of {@link RateLimiter} and of RateLimitMiddleware. An option that is `undefined` has its
 * default.
 */
export interface RateLimitStoreOptions {
  /** Store of the counters. Default: the memory of this process. */
  readonly store?: RateLimitStore | undefined;
  /**
   * Maximum number of clients that are counted in memory for each limit, 1 ... 10_000_000. Default 10_000,
   * about 1 MB. Beyond the maximum, the least active client is evicted.
   */
  readonly maxBuckets?: number | undefined;
  /**
   * Treatment of requests while the store fails: `allow` accepts them, `refuse` sends 503. Default `allow`.
   */
  readonly onStoreError?: 'allow' | 'refuse' | undefined;
  /**
   * Number of address bits that identify an IPv6 client, 32 ... 128. Default 64, the usual network of one
   * client.
   */
  readonly ipv6Prefix?: number | undefined;
}

/** Options of {@link RateLimiter}. */
export interface RateLimiterOptions extends RateLimitStoreOptions {
  /**
   * Name of the limit in response fields, metrics and log events, and prefix of its keys in the store.
   * Letters, digits, `_`, `-`, `.`.
   */
  readonly name: string;
  /** Calls per minute, 1 ... 1_000_000. Default 120. */
  readonly perMinute?: number | undefined;
  /** Number of calls that are allowed at once, 1 ... 1_000_000. Default: `perMinute`. */
  readonly burst?: number | undefined;
}

const MINUTE_MS = 60_000;
/**
 * Maximum length of a key in characters. A longer key is replaced by its hash, so that every key takes little
 * memory.
 */
const MAX_KEY_LENGTH = 128;

export const PER_MINUTE: OptionKind<number> = int(120, 1, 1_000_000);
export const BURST: OptionKind<number | undefined> = optionalInt(1, 1_000_000);
export const KEY: OptionKind<RateLimitKey | undefined> = given<RateLimitKey>(
  'a function of the request that returns text or undefined, not a promise',
  (value) => typeof value === 'function' && !types.isAsyncFunction(value),
);
export const STORE_OPTIONS: {
  readonly store: OptionKind<RateLimitStore | undefined>;
  readonly maxBuckets: OptionKind<number>;
  readonly onStoreError: OptionKind<'allow' | 'refuse'>;
  readonly ipv6Prefix: OptionKind<number>;
} = {
  store: given<RateLimitStore>(
    'a RateLimitStore',
    (value) => typeof (value as Partial<RateLimitStore> | null)?.take === 'function',
  ),
  maxBuckets: int(10_000, 1, 10_000_000),
  onStoreError: oneOf(['allow', 'refuse'], 'allow'),
  ipv6Prefix: int(64, 32, 128),
};

/** Rate limiter for handlers. For example, it limits logins by account, or mails by recipient. */
export class RateLimiter {
  readonly #limit: Limit;
  readonly #gate: Gate;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: RateLimiterOptions) {
    const { name, perMinute, burst, ...store } = readOptions('RateLimiter', options, {
      name: text(),
      perMinute: PER_MINUTE,
      burst: BURST,
      ...STORE_OPTIONS,
    });
    this.#limit = new Limit({ name: checkedName('RateLimiter', name ?? ''), perMinute, burst });
    this.#gate = new Gate(store);
  }

  /**
   * Counts a call against `key`, by default the address of the client. The call counts as `cost` calls,
   * default 1. With a cost of 0, the quota is only read. Returns the remaining quota; undefined while the
   * store fails. A refused call is not counted, so it does not extend the time that the client must wait.
   *
   * @throws TooManyRequests if the quota is used up; HTTPException 503 if the store fails and `onStoreError`
   *   is `refuse`
   */
  take(req: HttpRequest, key?: string, cost = 1): Awaitable<RateLimitResult | undefined> {
    if (!Number.isSafeInteger(cost) || cost < 0)
      throw outOfRange('RateLimiter.take()', 'cost', 'must be an integer of 0 or more', shown(cost));
    this.#gate.attach(req.state.get(services));
    return whenReady(this.#gate.take(this.#limit, req, key, cost), (result) => {
      if (result?.isAllowed === false) throw this.#limit.refusal(result);
      return result;
    });
  }
}

/** One named limit with its response fields (draft-ietf-httpapi-ratelimit-headers-10). @internal */
export class Limit {
  readonly name: string;
  readonly rule: RateLimitRule;
  /** Prefix of the limit's keys in the store. Limits that share a store have different prefixes. */
  readonly prefix: string;
  readonly #key: RateLimitKey | undefined;
  readonly #intervalMs: number;
  readonly #policy: string;
  readonly #item: string;
  readonly #epochMs: (() => number) | undefined;

  /**
   * `epochMs` returns the time for the older fields `X-RateLimit-…`. Without `epochMs`, these fields are not
   * sent. Only one limit of a store may have an empty `prefix`.
   */
  constructor(given: {
    readonly name: string;
    readonly perMinute: number;
    readonly burst?: number | undefined;
    readonly key?: RateLimitKey | undefined;
    readonly prefix?: string | undefined;
    readonly epochMs?: (() => number) | undefined;
  }) {
    const { name, perMinute, burst = perMinute, key, prefix = `${name} `, epochMs } = given;
    this.name = name;
    this.#key = key;
    this.#intervalMs = MINUTE_MS / perMinute;
    this.rule = Object.freeze({ limit: burst, periodMs: burst * this.#intervalMs });
    this.prefix = prefix;
    const quoted = `"${name.replace(/["\\]/g, '\\$&')}"`;
    this.#policy = `${quoted};q=${burst};w=${Math.ceil(this.rule.periodMs / 1_000)}`;
    this.#item = `${quoted};r=`;
    this.#epochMs = epochMs;
  }

  /** Returns the key by which a request is counted. Undefined means the client's address. */
  keyOf(req: HttpRequest): string | undefined {
    const key: unknown = this.#key?.(req);
    if (isThenable(key)) {
      // without this handler, a rejection of the promise would end the process
      key.then(undefined, () => undefined);
      throw outOfRange(
        `the limit "${this.name}"`,
        'key',
        'must be a function that returns text or undefined at once, not a promise',
        'a promise',
      );
    }
    return typeof key === 'string' ? key : undefined;
  }

  /** Returns the key in the store: `key`, or the hash of a long key, with the prefix of this limit. */
  bucket(key: string): string {
    return (
      this.prefix + (key.length > MAX_KEY_LENGTH ? createHash('sha256').update(key).digest('base64url') : key)
    );
  }

  /** Adds the `RateLimit` fields of a counted request to a flat list of names and values. */
  addFields(fields: string[], result: RateLimitResult): void {
    const { remaining, resetMs } = result;
    // time until the next request is allowed if no quota is left, otherwise until the whole quota is
    // available
    const waitMs = !result.isAllowed
      ? result.retryAfterMs
      : remaining > 0
        ? resetMs
        : resetMs - this.rule.periodMs + this.#intervalMs;
    fields.push(
      'RateLimit-Policy',
      this.#policy,
      'RateLimit',
      `${this.#item}${remaining};t=${secondsOf(waitMs)}`,
    );
    if (this.#epochMs === undefined) return;
    fields.push(
      'X-RateLimit-Limit',
      String(this.rule.limit),
      'X-RateLimit-Remaining',
      String(remaining),
      'X-RateLimit-Reset',
      String(secondsOf(this.#epochMs() + resetMs)),
    );
  }

  refusal(result: RateLimitResult): TooManyRequests {
    const seconds = Math.max(1, secondsOf(result.retryAfterMs));
    const fields = ['Retry-After', String(seconds)];
    this.addFields(fields, result);
    const headers: Record<string, string> = {};
    for (let index = 0; index < fields.length; index += 2) headers[fields[index]!] = fields[index + 1]!;
    return withoutStack(
      () =>
        new TooManyRequests(`Too many requests: try again in ${seconds} second${seconds === 1 ? '' : 's'}`, {
          code: 'rate_limited',
          headers,
        }),
    );
  }
}

function secondsOf(ms: number): number {
  return Math.max(0, Math.ceil(ms / 1_000));
}

/** Counts requests in the store, and logs refused ones. Several limits may share one instance. @internal */
export class Gate {
  readonly #options: GateOptions;
  #services: Services | undefined;
  #deps: GateDeps | undefined;

  constructor(options: GateOptions) {
    this.#options = options;
  }

  /** If the clock is not the clock of the previous call, the counters in memory start again at zero. */
  attach(services: Services): void {
    const clock = presentClock(services.clock);
    if (services === this.#services && clock === this.#deps?.clock) return;
    const { clock: before, memories, reported } = this.#deps ?? {};
    const isSame = clock === before;
    this.#services = services;
    this.#deps = {
      clock,
      log: services.log.child('svc_security'),
      refusals: sharedCounter(
        services.metrics,
        'svc_rate_limited_total',
        'Requests refused because their client had sent too many requests, by limit',
        ['limit'],
      ),
      memories: isSame ? memories! : new Map(),
      reported: isSame
        ? reported!
        : new MemoryRateLimitStore({ maxBuckets: this.#options.maxBuckets, clock }),
    };
  }

  /**
   * Counts a request. Returns undefined if the store fails and `onStoreError` is `allow`.
   * @throws HTTPException 503 if the store fails and `onStoreError` is `refuse`
   */
  take(
    limit: Limit,
    req: HttpRequest,
    key: string | undefined,
    cost: number,
  ): Awaitable<RateLimitResult | undefined> {
    const store = this.#options.store ?? this.#memoryOf(limit);
    const bucket = limit.bucket(typeof key === 'string' ? key : clientOf(req.ip, this.#options.ipv6Prefix));
    try {
      const result = store.take(bucket, limit.rule, cost);
      if (!isThenable(result)) return result.isAllowed ? result : this.#refused(limit, req, bucket, result);
      return result.then(
        (ready) => (ready.isAllowed ? ready : this.#refused(limit, req, bucket, ready)),
        (error: unknown) => this.#failed(error),
      );
    } catch (error) {
      return this.#failed(error);
    }
  }

  /** Each limit has its own store, so that invented keys cannot evict the keys of other limits. */
  #memoryOf({ prefix }: Limit): RateLimitStore {
    const { memories, clock } = this.#deps!; // `#deps` is defined: attach() has set it
    let memory = memories.get(prefix);
    if (memory === undefined)
      memories.set(
        prefix,
        (memory = new MemoryRateLimitStore({ maxBuckets: this.#options.maxBuckets, clock })),
      );
    return memory;
  }

  #refused(limit: Limit, req: HttpRequest, bucket: string, result: RateLimitResult): RateLimitResult {
    const { log, refusals, reported } = this.#deps!;
    refusals.add(1, limit.name);
    const isFirst = reported.take(bucket, {
      limit: 1,
      periodMs: Math.max(MINUTE_MS, limit.rule.periodMs),
    }).isAllowed;
    if (isFirst) {
      log.warn('excess_rate_limit_exceeded', {
        limit: limit.name,
        ip: req.ip,
        // the log has only a hash, because a key may be an account or a secret
        key_digest: createHash('sha256').update(bucket).digest('hex').slice(0, 16),
        method: req.method,
        route: req.route?.template,
        request_id: req.id,
        retry_after_ms: result.retryAfterMs,
      });
    }
    return result;
  }

  #failed(error: unknown): undefined {
    throwMistake(error);
    const { log, reported } = this.#deps!;
    const { onStoreError } = this.#options;
    if (reported.take(STORE_FAILED, { limit: 1, periodMs: MINUTE_MS }).isAllowed)
      log.error('rate_limit_store_failed', error, {
        requests: onStoreError === 'refuse' ? 'refused' : 'allowed',
      });
    if (onStoreError === 'refuse')
      throw unavailable('The rate limit of this request cannot be checked at the moment; try again later', 1);
    return undefined;
  }
}

/** {@link RateLimitStoreOptions} after their defaults were applied. */
interface GateOptions {
  readonly store: RateLimitStore | undefined;
  readonly maxBuckets: number;
  readonly onStoreError: 'allow' | 'refuse';
  readonly ipv6Prefix: number;
}

interface GateDeps {
  readonly clock: Clock;
  /** The in-memory stores, by the prefix of their limit. Unused if the option `store` is set. */
  readonly memories: Map<string, RateLimitStore>;
  readonly log: Logger;
  readonly refusals: Counter;
  /**
   * Keys of refused clients that were logged recently. Each key is logged at most once a minute, or once in
   * the period of its limit if that is longer.
   */
  readonly reported: MemoryRateLimitStore;
}

/**
 * Key under which `reported` counts failures of the store, so that they are logged at most once a minute. The
 * line feed distinguishes this key from keys of clients.
 */
const STORE_FAILED = '\nstore';

/** The error message names `owner`, for example `RateLimiter`. */
export function checkedName(owner: string, name: string): string {
  if (!/^[\w.-]{1,64}$/.test(name))
    throw outOfRange(owner, 'name', 'must consist of 1 to 64 letters, digits, "_", "-" or "."', shown(name));
  return name;
}

/** `subject` is the name of the route in error messages. */
export function readRouteRateLimit(subject: string, given: RouteRateLimit): RouteRateLimit {
  return Object.freeze(
    readOptions(`rateLimit of ${subject}`, given, { perMinute: PER_MINUTE, burst: BURST, key: KEY }),
  );
}
