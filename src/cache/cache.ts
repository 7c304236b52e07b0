/**
 * Cache in the memory of the process. Entries expire. If there are too many entries or bytes, the least
 * recently used entries are evicted.
 *
 * Each key has a slot number. Arrays contain the value, the expiry time and the size for each slot number.
 * Every operation is O(1), except clear().
 *
 * Strings, numbers, booleans and bigints are stored unchanged. Other values are stored as the bytes of a
 * structured clone. Each reader gets a new clone, so a caller cannot change the value that another caller
 * gets.
 */
import { DefaultDeserializer, serialize } from 'node:v8';
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, readOptions } from '../base/options.ts';
import { LruIndex } from './lru.ts';
import type { CacheBackend } from './stores.ts';

/** Options of {@link MemoryCache}. */
export interface MemoryCacheOptions {
  /** Maximum number of entries, 1 ... 10_000_000. Default 10_000. */
  readonly maxEntries?: number | undefined;
  /**
   * Maximum number of bytes, including keys, 1024 ... 2^40. A character counts as two bytes. Default 64 MiB.
   */
  readonly maxBytes?: number | undefined;
  /**
   * Whether get() returns the stored object itself. This is faster, but a change of the object affects all
   * readers. The size of the object is the size of its structured clone, or 1 KiB if it cannot be cloned.
   * Default false.
   */
  readonly shareReferences?: boolean | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** Estimated memory of an entry in bytes, without its key and value. */
const ENTRY_BYTES = 96;
const FIRST_SLOTS = 64;
const UNKNOWN_BYTES = 1_024;
/**
 * The clock is read at most once in this number of milliseconds, because reading it takes longer than a
 * look-up.
 */
const CLOCK_STALE_MS = 1;

/** A {@link CacheBackend} in memory. */
export class MemoryCache implements CacheBackend {
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #shareReferences: boolean;
  readonly #clock: Clock;
  #index: LruIndex;
  /** Value of each slot. Slot 0 is unused. */
  #values: unknown[] = [undefined];
  /**
   * Expiry time of each slot, negated if the value is an object. So get() needs only one comparison to find a
   * value that is valid and needs no clone (test/bench/parts.mjs --only='memory cache').
   */
  #deadlines: Float64Array = new Float64Array(FIRST_SLOTS);
  #sizes: Float64Array = new Float64Array(FIRST_SLOTS);
  #bytes = 0;
  /** Current time, or Infinity if the clock must be read again. */
  #knownMs = Infinity;

  /** @throws SvcError `E_OPTION_UNKNOWN` for an unknown option, `E_OPTION_RANGE` for an invalid value */
  constructor(options: MemoryCacheOptions = {}) {
    const { maxEntries, maxBytes, shareReferences, clock } = readOptions('MemoryCache', options, {
      maxEntries: int(10_000, 1, 10_000_000),
      maxBytes: int(64 * 1024 * 1024, 1_024, 2 ** 40),
      shareReferences: bool(false),
      clock: given<Clock>(),
    });
    this.#maxEntries = maxEntries;
    this.#maxBytes = maxBytes;
    this.#shareReferences = shareReferences;
    this.#clock = clock ?? systemClock;
    this.#index = new LruIndex(maxEntries);
  }

  /** Number of entries, including expired ones. */
  get size(): number {
    return this.#index.size;
  }

  /** Estimated size of all entries in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): unknown {
    const slot = this.#index.touch(key);
    if (slot === 0) return undefined;
    return this.#deadlines[slot]! > this.#knownMs ? this.#values[slot] : this.#read(slot);
  }

  /**
   * Stores a value for `ttlMs` milliseconds. Does not store `undefined`, a value larger than the cache, or a
   * value whose lifetime is zero or less.
   *
   * @throws SvcError `E_CACHE_VALUE` for a value without a structured clone, unless `shareReferences` is true
   */
  set(key: string, value: unknown, ttlMs: number): void {
    const kept = isPlain(value) ? value : this.#kept(value);
    const size = ENTRY_BYTES + 2 * key.length + sizeOf(kept);
    let slot = this.#index.find(key);
    if (value === undefined || !(ttlMs > 0) || size > this.#maxBytes) {
      if (slot !== 0) this.#remove(slot);
      return;
    }
    if (slot === 0) slot = this.#slotFor(key);
    else this.#index.use(slot);
    this.#bytes += size - this.#sizes[slot]!;
    this.#values[slot] = kept;
    this.#sizes[slot] = size;
    const deadlineMs = this.#now() + ttlMs;
    this.#deadlines[slot] = isPlain(kept) ? deadlineMs : -deadlineMs;
    // the loop ends before it evicts the new entry, which is the most recently used one and not larger than
    // the cache
    while (this.#bytes > this.#maxBytes) this.#remove(this.#index.oldest);
  }

  delete(key: string): boolean {
    const slot = this.#index.find(key);
    if (slot === 0) return false;
    const isLive = this.#now() < Math.abs(this.#deadlines[slot]!);
    this.#remove(slot);
    return isLive;
  }

  clear(prefix = ''): void {
    if (prefix === '') {
      this.#index = new LruIndex(this.#maxEntries);
      this.#values = [undefined];
      this.#deadlines = new Float64Array(FIRST_SLOTS);
      this.#sizes = new Float64Array(FIRST_SLOTS);
      this.#bytes = 0;
      return;
    }
    for (const [key, slot] of this.#index.entries()) {
      if (key.startsWith(prefix)) this.#remove(slot);
    }
  }

  /** Slow path of get(): the entry has expired, its value is an object, or the time is unknown. */
  #read(slot: number): unknown {
    if (Math.abs(this.#deadlines[slot]!) <= this.#now()) {
      this.#remove(slot);
      return undefined;
    }
    const value = this.#values[slot];
    return typeof value === 'object' ? readKept(value) : value;
  }

  #kept(value: unknown): unknown {
    try {
      const bytes = toBytes(value);
      return this.#shareReferences ? new Shared(value, bytes.length) : new Cloned(bytes);
    } catch (error) {
      if (this.#shareReferences) return new Shared(value, UNKNOWN_BYTES);
      throw new SvcError('E_CACHE_VALUE', [], { cause: error });
    }
  }

  #slotFor(key: string): number {
    // the new entry uses the slot of the oldest one
    if (this.#index.isFull) return this.#index.replaceOldest(key);
    const slot = this.#index.add(key);
    // push() extends the array, because V8 stores an array in a slower form after a write beyond its end
    if (slot === this.#values.length) this.#values.push(undefined);
    if (slot >= this.#sizes.length) {
      this.#deadlines = grown(this.#deadlines);
      this.#sizes = grown(this.#sizes);
    }
    return slot;
  }

  #remove(slot: number): void {
    this.#index.remove(slot);
    this.#bytes -= this.#sizes[slot]!;
    this.#sizes[slot] = 0;
    this.#values[slot] = undefined;
  }

  #now(): number {
    if (this.#knownMs === Infinity) {
      this.#knownMs = this.#clock.monotonicMs();
      this.#clock.after(CLOCK_STALE_MS, this.#forgetTime);
    }
    return this.#knownMs;
  }

  readonly #forgetTime = (): void => {
    this.#knownMs = Infinity;
  };
}

function grown(numbers: Float64Array): Float64Array {
  const larger = new Float64Array(2 * numbers.length);
  larger.set(numbers);
  return larger;
}

class Cloned {
  readonly bytes: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }
  get size(): number {
    return this.bytes.length;
  }
  read(): unknown {
    return fromBytes(this.bytes);
  }
}

function readKept(value: object | null): unknown {
  return value === null ? null : (value as Cloned | Shared).read();
}

/** An object that get() returns itself, without a clone. */
class Shared {
  readonly value: unknown;
  readonly size: number;
  constructor(value: unknown, size: number) {
    this.value = value;
    this.size = size;
  }
  read(): unknown {
    return this.value;
  }
}

/** Whether a value is immutable and so needs no clone. */
function isPlain(value: unknown): boolean {
  const type = typeof value;
  return type === 'object' ? value === null : type !== 'function' && type !== 'symbol';
}

function sizeOf(kept: unknown): number {
  if (typeof kept === 'object' && kept !== null) return (kept as Cloned | Shared).size;
  return typeof kept === 'string' ? 2 * kept.length : 0;
}

/**
 * Returns the structured clone (HTML §2.7) of a value as bytes.
 * @throws an Error for a value that has no structured clone, such as a function or symbol
 */
export function toBytes(value: unknown): Uint8Array {
  return serialize(value);
}

/** Returns a new value from bytes that {@link toBytes} returned. */
export function fromBytes(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  reader.readHeader();
  return reader.readValue();
}

class Reader extends DefaultDeserializer {
  /**
   * Reads a typed array, a buffer or a DataView, and copies it. Without the copy, all readers would share the
   * memory of the stored bytes.
   */
  _readHostObject(): ArrayBufferView {
    const view = (
      DefaultDeserializer.prototype as unknown as { _readHostObject(): ArrayBufferView }
    )._readHostObject.call(this); // the cast declares a documented method that the types of Node.js lack
    if (Buffer.isBuffer(view)) return Buffer.from(view);
    return view instanceof DataView
      ? new DataView(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))
      : (view as Uint8Array).slice(); // slice() copies the bytes; only DataView lacks this method
  }
}
