/**
 * Interfaces for data that outlives a request, and their implementations in memory.
 *
 * A CacheBackend may lose values at any time. A RecordStore keeps each record until it expires, for example a
 * session. A RateLimitStore counts the requests of each client; a full store evicts clients. A RoomBus sends
 * WebSocket frames to all processes, and stores nothing.
 */
import { systemClock } from '../base/clock.ts';
import { StoreFull } from '../base/errors.ts';
import { given, int, isObject, readOptions } from '../base/options.ts';
import type { Clock } from '../base/clock.ts';

/** A value, or a promise of a value. */
export type Awaitable<T> = T | Promise<T>;

/**
 * Store of values that may be lost at any time. If an operation fails, the caller treats the value as
 * missing.
 */
export interface CacheBackend {
  /** Returns a value, or `undefined` if there is none or it has expired. */
  get(key: string): Awaitable<unknown>;
  /** Stores a value for `ttlMs` milliseconds. */
  set(key: string, value: unknown, ttlMs: number): Awaitable<void>;
  /** Deletes a value. Returns whether there was one. */
  delete(key: string): Awaitable<boolean>;
  /** Deletes every key with this prefix, or all keys without a prefix. */
  clear(prefix?: string): Awaitable<void>;
}

/**
 * Store of records, each of which is kept until it expires or is deleted. A full store throws {@link
 * StoreFull}, and never drops a record that has not expired.
 */
export interface RecordStore {
  /** Returns a record, or undefined if there is none or it has expired. */
  get(key: string): Awaitable<string | undefined>;
  /** Writes a record, and replaces an existing one. If `ttlMs` is zero or less, the record is deleted. */
  set(key: string, value: string, ttlMs: number): Awaitable<void>;
  /**
   * Writes a record if none exists. Returns whether it was written. If several processes try at once, only
   * one gets `true`.
   */
  add(key: string, value: string, ttlMs: number): Awaitable<boolean>;
  /** Writes a record only if its current value equals `expected`. Returns whether it was written. */
  replace(key: string, expected: string, value: string, ttlMs: number): Awaitable<boolean>;
  /**
   * Deletes a record. Returns whether there was one. If several processes try at once, only one gets `true`.
   */
  delete(key: string): Awaitable<boolean>;
}

/**
 * Limit of a token bucket: `limit` attempts at once. An empty bucket is full again after `periodMs`
 * milliseconds.
 */
export interface RateLimitRule {
  readonly limit: number;
  readonly periodMs: number;
}

/**
 * Result of {@link RateLimitStore.take}, an attempt to take tokens from a bucket. Times are whole
 * milliseconds, rounded up.
 */
export interface RateLimitResult {
  readonly isAllowed: boolean;
  /** Number of attempts with the cost 1 that would be allowed now. */
  readonly remaining: number;
  /** Time until an attempt with the same cost would be allowed. It is 0 if this attempt was allowed. */
  readonly retryAfterMs: number;
  /** Time until the bucket is full again. */
  readonly resetMs: number;
}

/** Store of token buckets. A refused attempt takes nothing from its bucket. */
export interface RateLimitStore {
  /**
   * Takes `cost` tokens (default 1) from the bucket of `key`. A cost of 0 only reads the bucket. A cost above
   * the limit is never allowed, and its `retryAfterMs` is one period.
   */
  take(key: string, rule: RateLimitRule, cost?: number): Awaitable<RateLimitResult>;
}

/**
 * Sends WebSocket frames to the members of a room, in all processes. The room with an empty name is for messages
 * between parts of the framework.
 */
export interface RoomBus {
  /**
   * Sends a frame to every subscriber in every process, including this one. The caller must not change the
   * frame afterwards.
   */
  publish(room: string, frame: Uint8Array, isText: boolean): void;
  /**
   * Calls `fn` for each frame of every room until the subscription is disposed of. Frames of one publisher
   * arrive in order.
   */
  subscribe(fn: RoomSubscriber): Disposable;
  /**
   * Resolves when all existing subscriptions are active. An application waits for this before it serves
   * requests. Also resolves if the bus is unreachable: the subscriptions then become active later.
   */
  settled?(): Promise<void>;
}

/** Function that receives each frame of every room. */
export type RoomSubscriber = (room: string, frame: Uint8Array, isText: boolean) => void;

/** Options of {@link MemoryRecordStore}. */
export interface MemoryRecordStoreOptions {
  /**
   * Maximum number of records, 1 ... 100_000_000. Expired records count until they are removed. Default
   * 100_000.
   */
  readonly maxRecords?: number | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** Maximum number of expired records that one write removes. The limit keeps each write short. */
const SWEPT_PER_WRITE = 2;

interface StoredRecord extends Timed {
  value: string;
}

/**
 * {@link RecordStore} in the memory of one process. Expired records are removed before the store reports that
 * it is full.
 */
export class MemoryRecordStore implements RecordStore {
  readonly #maxRecords: number;
  readonly #clock: Clock;
  readonly #records = new ExpiryHeap<StoredRecord>();

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: MemoryRecordStoreOptions = {}) {
    const { maxRecords, clock } = readOptions('MemoryRecordStore', options, {
      maxRecords: int(100_000, 1, 100_000_000),
      clock: given<Clock>(),
    });
    this.#maxRecords = maxRecords;
    this.#clock = clock ?? systemClock;
  }

  /** Number of records, including expired ones. */
  get size(): number {
    return this.#records.size;
  }

  get(key: string): string | undefined {
    return this.#live(key, this.#clock.monotonicMs())?.value;
  }

  set(key: string, value: string, ttlMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    this.#sweep(nowMs);
    const known = this.#live(key, nowMs);
    if (known === undefined) this.#insert(key, value, nowMs, ttlMs);
    else this.#write(known, value, nowMs, ttlMs);
  }

  add(key: string, value: string, ttlMs: number): boolean {
    const nowMs = this.#clock.monotonicMs();
    this.#sweep(nowMs);
    if (this.#live(key, nowMs) !== undefined) return false;
    this.#insert(key, value, nowMs, ttlMs);
    return true;
  }

  replace(key: string, expected: string, value: string, ttlMs: number): boolean {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#live(key, nowMs);
    if (known?.value !== expected) return false;
    this.#write(known, value, nowMs, ttlMs);
    return true;
  }

  delete(key: string): boolean {
    const known = this.#live(key, this.#clock.monotonicMs());
    if (known === undefined) return false;
    this.#records.remove(known);
    return true;
  }

  #live(key: string, nowMs: number): StoredRecord | undefined {
    const known = this.#records.get(key);
    if (known === undefined || nowMs < known.timeMs) return known;
    this.#records.remove(known);
    return undefined;
  }

  #insert(key: string, value: string, nowMs: number, ttlMs: number): void {
    if (!(ttlMs > 0)) return;
    // a full store contains no expired record, because #sweep() has just removed at least one if there was
    // any
    if (this.#records.size >= this.#maxRecords) throw new StoreFull();
    this.#records.add({ key, value, timeMs: nowMs + ttlMs, place: -1 });
  }

  #write(record: StoredRecord, value: string, nowMs: number, ttlMs: number): void {
    if (!(ttlMs > 0)) return this.#records.remove(record);
    record.value = value;
    this.#records.move(record, nowMs + ttlMs);
  }

  #sweep(nowMs: number): void {
    for (let count = 0; count < SWEPT_PER_WRITE; count++) {
      const { first } = this.#records;
      if (first === undefined || nowMs < first.timeMs) return;
      this.#records.remove(first);
    }
  }
}

/** Options of {@link MemoryRateLimitStore}. */
export interface MemoryRateLimitStoreOptions {
  /**
   * Maximum number of buckets, 1 ... 10_000_000. A full store evicts the bucket that will be full of tokens
   * first. Default 10_000, about 1 MB.
   */
  readonly maxBuckets?: number | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** Tolerance in milliseconds for rounding errors. An attempt a microsecond too early is still allowed. */
const DRIFT_MS = 0.001;

/**
 * {@link RateLimitStore} in the memory of one process, by the generic cell rate algorithm (GCRA, ITU-T
 * I.371). A bucket is one number, the theoretical arrival time: the time at which the bucket is full again.
 * Unlike with fixed windows, a client cannot use the limits of two windows in a short time.
 *
 * When the store is full, a new bucket replaces the bucket that will be full of tokens first. The new bucket
 * starts with as few tokens as the old bucket had, but with at least one, as in "Space-Saving" (Metwally,
 * Agrawal and El Abbadi, 2005). So an attacker who makes the store evict buckets gains only one attempt.
 */
export class MemoryRateLimitStore implements RateLimitStore {
  readonly #clock: Clock;
  readonly #maxBuckets: number;
  readonly #buckets = new ExpiryHeap<Timed>();

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: MemoryRateLimitStoreOptions = {}) {
    const { maxBuckets, clock } = readOptions('MemoryRateLimitStore', options, {
      maxBuckets: int(10_000, 1, 10_000_000),
      clock: given<Clock>(),
    });
    this.#maxBuckets = maxBuckets;
    this.#clock = clock ?? systemClock;
  }

  /** Number of stored buckets. */
  get size(): number {
    return this.#buckets.size;
  }

  take(key: string, rule: RateLimitRule, cost = 1): RateLimitResult {
    const buckets = this.#buckets;
    const nowMs = this.#clock.monotonicMs();
    const bucket = buckets.get(key);
    const evicted = bucket === undefined && buckets.size >= this.#maxBuckets ? buckets.first : undefined;
    const fromMs = Math.max(
      nowMs,
      bucket?.timeMs ?? (evicted === undefined ? nowMs : inherited(evicted.timeMs, nowMs, rule, cost)),
    );
    const result = takeFrom(fromMs - nowMs, rule, cost);
    if (!result.isAllowed || cost === 0) return result;
    const arrivalMs = fromMs + (cost * rule.periodMs) / rule.limit;
    if (bucket !== undefined) buckets.move(bucket, arrivalMs);
    else {
      if (evicted !== undefined) buckets.remove(evicted);
      buckets.add({ key, timeMs: arrivalMs, place: -1 });
    }
    return result;
  }
}

/**
 * Returns the theoretical arrival time (GCRA) of a new bucket that replaces an evicted one. The time is
 * limited so that the new bucket allows one attempt.
 */
function inherited(
  earliestMs: number,
  nowMs: number,
  { limit, periodMs }: RateLimitRule,
  cost: number,
): number {
  return Math.min(earliestMs, nowMs + periodMs - (Math.max(1, cost) * periodMs) / limit);
}

/**
 * Computes the result of one attempt by the generic cell rate algorithm (GCRA). `usedMs` is the time from now
 * until the theoretical arrival time, or 0 for a new bucket.
 */
function takeFrom(usedMs: number, { limit, periodMs }: RateLimitRule, cost: number): RateLimitResult {
  const intervalMs = periodMs / limit;
  const excessMs = usedMs + cost * intervalMs - periodMs;
  const isAllowed = excessMs <= DRIFT_MS;
  const resetMs = isAllowed ? usedMs + cost * intervalMs : usedMs;
  return {
    isAllowed,
    remaining: Math.max(0, Math.floor((periodMs - resetMs + DRIFT_MS) / intervalMs)),
    retryAfterMs: isAllowed ? 0 : cost > limit ? periodMs : Math.ceil(excessMs - DRIFT_MS),
    resetMs: Math.max(0, Math.ceil(resetMs - DRIFT_MS)),
  };
}

/** {@link RoomBus} of one process. publish() calls every subscriber before it returns. */
export class MemoryRoomBus implements RoomBus {
  /**
   * Current subscribers. The set is replaced and never changed, so that a running publish() ignores new
   * subscribers.
   */
  #subscribers: ReadonlySet<{ readonly fn: RoomSubscriber }> = new Set();

  /** If a subscriber throws, the other subscribers are still called. Then the first exception is thrown. */
  publish(room: string, frame: Uint8Array, isText: boolean): void {
    const errors: unknown[] = [];
    for (const subscriber of this.#subscribers) {
      if (!this.#subscribers.has(subscriber)) continue; // the subscriber unsubscribed during this publication
      try {
        subscriber.fn(room, frame, isText);
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors[0];
  }

  subscribe(fn: RoomSubscriber): Disposable {
    const subscriber = { fn }; // not `fn` itself, because one function may subscribe twice
    this.#subscribers = new Set([...this.#subscribers, subscriber]);
    return {
      [Symbol.dispose]: () => {
        this.#subscribers = new Set([...this.#subscribers].filter((other) => other !== subscriber));
      },
    };
  }
}

/** Parses the text of a record as a JSON object. Returns an empty object for any other text. */
export function recordMembers(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return isObject(value) ? (value as Readonly<Record<string, unknown>>) : {};
  } catch {
    return {};
  }
}

/**
 * An entry of an {@link ExpiryHeap}. `timeMs` is the time at which a record expires, or at which a bucket is
 * full again.
 */
interface Timed {
  readonly key: string;
  timeMs: number;
  /** Index of the entry in the array of the heap. */
  place: number;
}

/**
 * Entries by key, in a binary heap with the earliest time first. A look-up takes O(1), and a write O(log n).
 */
export class ExpiryHeap<T extends Timed> {
  readonly #entries = new Map<string, T>();
  readonly #heap: T[] = [];

  get size(): number {
    return this.#heap.length;
  }

  /** The entry with the earliest time. */
  get first(): T | undefined {
    return this.#heap[0];
  }

  get(key: string): T | undefined {
    return this.#entries.get(key);
  }

  add(entry: T): void {
    this.#entries.set(entry.key, entry);
    this.#put(entry, this.#heap.length);
    this.#rise(entry);
  }

  move(entry: T, timeMs: number): void {
    entry.timeMs = timeMs;
    this.#rise(entry);
    this.#sink(entry);
  }

  remove(entry: T): void {
    this.#entries.delete(entry.key);
    const last = this.#heap.pop()!; // the heap is not empty, because it contains the entry to remove
    if (last === entry) return;
    this.#put(last, entry.place);
    this.move(last, last.timeMs);
  }

  #rise(entry: T): void {
    while (entry.place > 0) {
      const parent = this.#heap[(entry.place - 1) >> 1]!;
      if (parent.timeMs <= entry.timeMs) return;
      this.#swap(parent, entry);
    }
  }

  /** Moves an entry down in the heap, below entries with an earlier or equal time. */
  #sink(entry: T): void {
    for (;;) {
      const left = this.#heap[2 * entry.place + 1];
      const right = this.#heap[2 * entry.place + 2];
      const earlier = right !== undefined && right.timeMs < left!.timeMs ? right : left;
      if (earlier === undefined || earlier.timeMs > entry.timeMs) return;
      this.#swap(entry, earlier);
    }
  }

  #swap(upper: T, lower: T): void {
    const { place } = lower;
    this.#put(lower, upper.place);
    this.#put(upper, place);
  }

  #put(entry: T, place: number): void {
    this.#heap[place] = entry;
    entry.place = place;
  }
}

/** Options of a {@link RecordRateLimitStore}. */
export interface RecordRateLimitStoreOptions {
  /**
   * Clock for the buckets. The clocks of all machines that share the store must agree. Default: the clock of
   * the operating system.
   */
  readonly clock?: Clock | undefined;
}

/**
 * Maximum number of tries to write a bucket. A try fails only if another process has changed the bucket since
 * it was read.
 */
const ATTEMPTS = 100;

/**
 * A {@link RateLimitStore} that stores its buckets in a {@link RecordStore}, for example in a database: `new
 * RecordRateLimitStore(new DatabaseRecordStore(plugin))`. All processes that share the store share the buckets.
 */
export class RecordRateLimitStore implements RateLimitStore {
  readonly #records: RecordStore;
  readonly #clock: Clock;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(records: RecordStore, options: RecordRateLimitStoreOptions = {}) {
    const { clock } = readOptions('RecordRateLimitStore', options, { clock: given<Clock>() });
    this.#records = records;
    this.#clock = clock ?? systemClock;
  }

  async take(key: string, rule: RateLimitRule, cost = 1): Promise<RateLimitResult> {
    const bucket = `limit ${key}`;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const known = await this.#records.get(bucket);
      const nowMs = this.#clock.nowMs();
      // the stored time may be far ahead if the clock was set back; with this limit, a client waits at most
      // one period
      const fromMs = Math.min(Math.max(nowMs, Number(known ?? 0)), nowMs + rule.periodMs);
      const result = takeFrom(fromMs - nowMs, rule, cost);
      if (!result.isAllowed || cost === 0) return result;
      const arrivalMs = String(fromMs + (cost * rule.periodMs) / rule.limit);
      const isWritten =
        known === undefined
          ? await this.#records.add(bucket, arrivalMs, result.resetMs)
          : await this.#records.replace(bucket, known, arrivalMs, result.resetMs);
      if (isWritten) return result;
    }
    throw new Error(
      `Cannot count a request for a rate limit: other requests changed the stored count during each of ${ATTEMPTS} attempts to write`,
    );
  }
}
