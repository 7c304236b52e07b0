/**
 * Stores in Redis that all processes share: a cache, a record store and rate limits. Each store adds a prefix
 * to its keys, and hashes long keys.
 *
 * RedisCache may lose values, and its clear() scans every key of the database.
 *
 * RedisRecordStore requires a server that evicts nothing (maxmemory-policy noeviction).
 *
 * RedisRateLimitStore uses the algorithm GCRA, as the store in memory does. A script runs it on the server
 * with the server's time, so limits are exact over all processes.
 */
import { createHash } from 'node:crypto';
import { fromBytes, toBytes } from '../../cache/cache.ts';
import { StoreFull } from '../../base/errors.ts';
import { int, oneOf, readOptions, type OptionKind } from '../../base/options.ts';
import { MAX_TIMEOUT_MS } from '../limits.ts';
import { RedisError } from './connection.ts';
import { RedisScript } from './redis.ts';
import type {
  CacheBackend,
  RateLimitResult,
  RateLimitRule,
  RateLimitStore,
  RecordStore,
} from '../../cache/stores.ts';
import type { RedisCommandOptions } from './command.ts';
import type { RedisValue } from './connection.ts';
import type { Redis, RedisArgument } from './redis.ts';

/** Common options of all stores in Redis. */
export interface RedisStoreOptions {
  /** Prefix of the store's keys, 1 ... 100 characters. Two stores on one server need different prefixes. */
  readonly prefix?: string | undefined;
  /**
   * Time limit of one call in milliseconds, 1 ... 2_147_483_647. Default 250 for caches and rate limits,
   * 1_000 for records.
   */
  readonly timeoutMs?: number | undefined;
}

/** Options of a {@link RedisCache}. */
export interface RedisCacheOptions extends RedisStoreOptions {
  /**
   * Encoding of values. `clone`, the default, stores every value that structuredClone() accepts. Use it only
   * if no other program can write to the server. `json` stores JSON, which other programs can read.
   */
  readonly encoding?: 'clone' | 'json' | undefined;
  /** Maximum size of a value in bytes, 1 ... 536_870_912. Larger values are not stored. Default 1 MiB. */
  readonly maxValueBytes?: number | undefined;
}

/**
 * Maximum length in bytes of a key that is stored unchanged. A longer key is replaced by its beginning and
 * its hash.
 */
const MAX_KEY_BYTES = 200;
/**
 * Maximum length in bytes of a key that RedisCache stores unchanged. The limit is high, because clear()
 * finds keys by a prefix, and a hashed key keeps only its beginning.
 */
const MAX_CACHE_KEY_BYTES = 2_000;
const MARK = '\0#';
/** Maximum time to live in milliseconds that the server accepts, about 300 years. */
const MAX_TTL_MS = 1e13;
/** Approximate number of keys that one SCAN reads. */
const SCAN_COUNT = 1_000;
const KEYS_AT_ONCE = 500;

/**
 * A cache that all processes share. The server may drop values at any time. A value that cannot be decoded
 * counts as missing.
 */
export class RedisCache implements CacheBackend {
  readonly #keys: Keyspace;
  readonly #isJson: boolean;
  readonly #maxValueBytes: number;

  /**
   * The default of `prefix` is `svc:cache:`.
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
   */
  constructor(redis: Redis, options: RedisCacheOptions = {}) {
    const { encoding, maxValueBytes, ...own } = readOptions('RedisCache', options, {
      ...kindsOf('svc:cache:', 250),
      encoding: oneOf(['clone', 'json'], 'clone'),
      maxValueBytes: int(1024 * 1024, 1, 512 * 1024 * 1024),
    });
    this.#keys = new Keyspace(redis, own, MAX_CACHE_KEY_BYTES);
    this.#isJson = encoding === 'json';
    this.#maxValueBytes = maxValueBytes;
  }

  async get(key: string): Promise<unknown> {
    const bytes = await this.#keys.command(['GET', this.#keys.of(key)], { asBytes: true });
    if (!(bytes instanceof Uint8Array)) return undefined;
    try {
      return this.#isJson ? JSON.parse(new TextDecoder().decode(bytes)) : fromBytes(bytes);
    } catch {
      return undefined; // a value that another program has written counts as missing
    }
  }

  async set(key: string, value: unknown, ttlMs: number): Promise<void> {
    const bytes =
      value === undefined ? undefined : this.#isJson ? Buffer.from(JSON.stringify(value)) : toBytes(value);
    if (bytes === undefined || bytes.length > this.#maxValueBytes || !(ttlMs > 0)) await this.delete(key);
    else await this.#keys.command(['SET', this.#keys.of(key), bytes, 'PX', lifeOf(ttlMs)]);
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#keys.command(['DEL', this.#keys.of(key)])) === 1;
  }

  /**
   * Removes the keys with a prefix. Scans every key of the database, about a thousand at a time, so that
   * other commands can run in between.
   */
  async clear(prefix: string = ''): Promise<void> {
    const timeoutMs = 10 * this.#keys.timeoutMs;
    const pattern = `${(this.#keys.prefix + prefix).replace(/[\\*?[\]]/g, '\\$&')}*`;
    let cursor = '0';
    do {
      const [next, keys] = (await this.#keys.command(
        ['SCAN', cursor, 'MATCH', pattern, 'COUNT', SCAN_COUNT],
        { timeoutMs, asBytes: true },
      )) as [Uint8Array, Uint8Array[]];
      cursor = Buffer.from(next).toString();
      for (let at = 0; at < keys.length; at += KEYS_AT_ONCE)
        await this.#keys.command(['UNLINK', ...keys.slice(at, at + KEYS_AT_ONCE)], { timeoutMs });
    } while (cursor !== '0');
  }
}

const REPLACE = new RedisScript(`if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if tonumber(ARGV[3]) > 0 then redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) else redis.call('DEL', KEYS[1]) end
return 1`);

/**
 * A record store that all processes share. Records stay until they expire, if the server evicts nothing. A
 * write throws StoreFull when the server is full.
 */
export class RedisRecordStore implements RecordStore {
  readonly #keys: Keyspace;

  /**
   * The default of `prefix` is `svc:record:`.
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
   */
  constructor(redis: Redis, options: RedisStoreOptions = {}) {
    const own = readOptions('RedisRecordStore', options, kindsOf('svc:record:', 1_000));
    this.#keys = new Keyspace(redis, own, MAX_KEY_BYTES);
  }

  async get(key: string): Promise<string | undefined> {
    // a string, because `asBytes` is not set
    return ((await this.#do(['GET', this.#keys.of(key)])) ?? undefined) as string | undefined;
  }

  async set(key: string, value: string, ttlMs: number): Promise<void> {
    const name = this.#keys.of(key);
    await this.#do(ttlMs > 0 ? ['SET', name, value, 'PX', lifeOf(ttlMs)] : ['DEL', name]);
  }

  async add(key: string, value: string, ttlMs: number): Promise<boolean> {
    return ttlMs > 0
      ? (await this.#do(['SET', this.#keys.of(key), value, 'NX', 'PX', lifeOf(ttlMs)])) === 'OK'
      : (await this.#do(['EXISTS', this.#keys.of(key)])) === 0;
  }

  async replace(key: string, expected: string, value: string, ttlMs: number): Promise<boolean> {
    const values = [expected, value, ttlMs > 0 ? lifeOf(ttlMs) : 0];
    return (await unlessFull(this.#keys.script(REPLACE, key, values))) === 1;
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#do(['DEL', this.#keys.of(key)])) === 1;
  }

  #do(parts: readonly (string | number)[]): Promise<RedisValue> {
    return unlessFull(this.#keys.command(parts));
  }
}

/**
 * The algorithm GCRA in Lua, as in MemoryRateLimitStore. Times are milliseconds with fractions. The key
 * stores the time at which the full limit is available again.
 */
const TAKE =
  new RedisScript(`local limit, period, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local used = math.max(0, tonumber(redis.call('GET', KEYS[1]) or '0') - now)
local interval, drift = period / limit, 0.001
local excess = used + cost * interval - period
local allowed = excess <= drift
local reset = used
if allowed then reset = used + cost * interval end
if allowed and cost > 0 then redis.call('SET', KEYS[1], string.format('%.17g', now + reset), 'PX', math.ceil(reset) + 1) end
local retry = 0
if not allowed then if cost > limit then retry = math.ceil(period) else retry = math.ceil(excess - drift) end end
return {allowed and 1 or 0, math.max(0, math.floor((period - reset + drift) / interval)), retry, math.max(0, math.ceil(reset - drift))}`);

/** Rate limits that all processes share. The server's clock measures the time. */
export class RedisRateLimitStore implements RateLimitStore {
  readonly #keys: Keyspace;

  /**
   * The default of `prefix` is `svc:rl:`.
   * @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value
   */
  constructor(redis: Redis, options: RedisStoreOptions = {}) {
    const own = readOptions('RedisRateLimitStore', options, kindsOf('svc:rl:', 250));
    this.#keys = new Keyspace(redis, own, MAX_KEY_BYTES);
  }

  async take(key: string, { limit, periodMs }: RateLimitRule, cost: number = 1): Promise<RateLimitResult> {
    const result = await this.#keys.script(TAKE, key, [limit, periodMs, cost]);
    const [allowed, remaining, retryAfterMs, resetMs] = result as [number, number, number, number];
    return { isAllowed: allowed === 1, remaining, retryAfterMs, resetMs };
  }
}

function kindsOf(
  prefix: string,
  timeoutMs: number,
): { readonly prefix: OptionKind<string>; readonly timeoutMs: OptionKind<number> } {
  return {
    prefix: {
      fallback: prefix,
      needs: '1 … 100 characters',
      accepts: (value: unknown) =>
        typeof value === 'string' && value.length > 0 && value.length <= 100 && value.isWellFormed(),
    },
    timeoutMs: int(timeoutMs, 1, MAX_TIMEOUT_MS),
  };
}

/** Keys of one store: their prefix and maximum length, and the time limit of the calls. */
class Keyspace {
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly #redis: Redis;
  readonly #maxKeyBytes: number;

  constructor(
    redis: Redis,
    { prefix, timeoutMs }: Pick<Keyspace, 'prefix' | 'timeoutMs'>,
    maxKeyBytes: number,
  ) {
    this.prefix = prefix;
    this.timeoutMs = timeoutMs;
    this.#redis = redis;
    this.#maxKeyBytes = maxKeyBytes;
  }

  of(key: string): string {
    return this.prefix + shortened(key, this.#maxKeyBytes);
  }

  command(parts: readonly RedisArgument[], options?: RedisCommandOptions): Promise<RedisValue> {
    return this.#redis.command(parts, { timeoutMs: this.timeoutMs, ...options });
  }

  script(script: RedisScript, key: string, values: readonly RedisArgument[]): Promise<RedisValue> {
    return this.#redis.script(script, [this.of(key)], values, { timeoutMs: this.timeoutMs });
  }
}

/**
 * Returns the key, or its beginning and its SHA-256 digest if it is too long or not well-formed text. A key
 * that contains MARK, the separator, is also hashed, so that two different keys never become equal.
 */
function shortened(key: string, maxBytes: number): string {
  if (
    key.isWellFormed() &&
    !key.includes(MARK) &&
    (key.length <= maxBytes / 3 || Buffer.byteLength(key) <= maxBytes)
  )
    return key;
  return `${key.slice(0, maxBytes / 4).toWellFormed()}${MARK}${createHash('sha256').update(key, 'utf16le').digest('base64url')}`;
}

function lifeOf(ttlMs: number): number {
  return Math.min(Math.ceil(ttlMs), MAX_TTL_MS);
}

/** Waits for a write. Throws StoreFull if the server has no memory left. */
async function unlessFull<T>(running: Promise<T>): Promise<T> {
  try {
    return await running;
  } catch (error) {
    if (error instanceof RedisError && error.reply === 'OOM')
      throw new StoreFull(undefined, { cause: error });
    throw error;
  }
}
