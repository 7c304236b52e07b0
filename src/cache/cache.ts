/**
 * Cache in the memory of the process. It evicts the least recently used entry, lets entries expire, and
 * limits their number and bytes.
 *
 * Strings, numbers, booleans and bigints are stored unchanged. Other values are stored as the bytes of a
 * structured clone. Each reader gets a new clone, so no caller can change the value of another.
 */
import { DefaultDeserializer, serialize } from 'node:v8';
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, readOptions } from '../base/options.ts';
import { LruMap } from './lru.ts';
import type { CacheBackend } from './stores.ts';

/** Options of {@link MemoryCache}. */
export interface MemoryCacheOptions {
  /** Maximum number of entries, 1 ... 10_000_000. Default 10_000. */
  readonly maxEntries?: number | undefined;
  /**
   * Maximum number of bytes, keys included, 1024 ... 2^40. A character counts as two bytes. Default 64 MiB.
   */
  readonly maxBytes?: number | undefined;
  /**
   * Returns the stored object itself instead of a clone. This is faster, but a change of the object affects
   * all readers. The size of an object counts as that of its structured clone, or as 1 KiB if it has none
   * (functions, handles). Default false.
   */
  readonly shareReferences?: boolean | undefined;
  readonly clock?: Clock | undefined;
}

/** Estimated memory of one entry in bytes, without its key and value. */
const ENTRY_BYTES = 200;
const UNKNOWN_BYTES = 1_024;

/** A stored value: the value itself, or its clone if callers could change it. */
interface Stored {
  readonly value: unknown;
  /** Estimated size of entry, key and value in bytes. */
  readonly size: number;
  readonly deadlineMs: number;
}

/** A {@link CacheBackend} in memory. */
export class MemoryCache implements CacheBackend {
  readonly #maxEntries: number;
  readonly #maxBytes: number;
  readonly #shareReferences: boolean;
  readonly #clock: Clock;
  readonly #entries = new LruMap<Stored>();
  #bytes = 0;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
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
  }

  /** Number of entries, including expired ones. */
  get size(): number {
    return this.#entries.size;
  }

  /** Estimated size of all entries in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  get(key: string): unknown {
    const stored = this.#entries.get(key);
    if (stored === undefined) return undefined;
    const { value, deadlineMs } = stored;
    if (this.#clock.monotonicMs() < deadlineMs) return value instanceof Clone ? value.read() : value;
    this.#remove(key);
    return undefined;
  }

  /**
   * Stores a value for `ttlMs`. It does not store `undefined`, a value larger than the cache, or a value with
   * a lifetime of zero or less.
   *
   * @throws SvcError `E_CACHE_VALUE` for a value without a structured clone, unless references are shared
   */
  set(key: string, value: unknown, ttlMs: number): void {
    const [kept, bytes] = this.#kept(value);
    const size = ENTRY_BYTES + 2 * key.length + bytes;
    if (value === undefined || !(ttlMs > 0) || size > this.#maxBytes) {
      this.#remove(key);
      return;
    }
    this.#bytes += size - (this.#entries.peek(key)?.size ?? 0);
    this.#entries.set(key, { value: kept, size, deadlineMs: this.#clock.monotonicMs() + ttlMs });
    // the new entry stays: it is the most recently used one, and not larger than the cache
    while (this.size > this.#maxEntries || this.#bytes > this.#maxBytes) this.#remove(this.#entries.oldest!);
  }

  delete(key: string): boolean {
    const stored = this.#remove(key);
    return stored !== undefined && this.#clock.monotonicMs() < stored.deadlineMs;
  }

  clear(prefix = ''): void {
    for (const key of this.#entries.keys()) if (key.startsWith(prefix)) this.#remove(key);
  }

  /** Returns the value or its clone, and the size in bytes. */
  #kept(value: unknown): [kept: unknown, bytes: number] {
    if (isPlain(value)) return [value, typeof value === 'string' ? 2 * value.length : 0];
    try {
      const clone = new Clone(value);
      return [this.#shareReferences ? value : clone, clone.size];
    } catch (error) {
      if (this.#shareReferences) return [value, UNKNOWN_BYTES];
      throw new SvcError('E_CACHE_VALUE', [], { cause: error });
    }
  }

  #remove(key: string): Stored | undefined {
    const stored = this.#entries.delete(key);
    this.#bytes -= stored?.size ?? 0;
    return stored;
  }
}

/** The bytes of a value's structured clone. */
class Clone {
  readonly #bytes: Uint8Array;

  constructor(value: unknown) {
    this.#bytes = toBytes(value);
  }

  get size(): number {
    return this.#bytes.length;
  }

  read(): unknown {
    return fromBytes(this.#bytes);
  }
}

/** Whether a value is immutable, so that it needs no clone. */
function isPlain(value: unknown): boolean {
  const type = typeof value;
  return type === 'object' ? value === null : type !== 'function' && type !== 'symbol';
}

/*
 * Converts values to the bytes of their structured clones (HTML Standard §2.7) and back, so that each reader
 * gets its own copy.
 *
 * node:v8 returns typed arrays and buffers as views of its input. Readers would then share memory, and
 * `.buffer` would expose other parts of the value. So these views are copied.
 */

/**
 * Returns the structured clone of a value as bytes.
 *
 * @throws Error for a value without a structured clone: functions, symbols, handles
 */
export function toBytes(value: unknown): Uint8Array {
  return serialize(value);
}

/** Returns a new value from bytes of {@link toBytes}. */
export function fromBytes(bytes: Uint8Array): unknown {
  const reader = new Reader(bytes);
  reader.readHeader();
  return reader.readValue();
}

class Reader extends DefaultDeserializer {
  /** Reads a typed array, a buffer or a DataView. node:v8 calls this method for each of them. */
  _readHostObject(): ArrayBufferView {
    const view = (
      DefaultDeserializer.prototype as unknown as { _readHostObject(): ArrayBufferView }
    )._readHostObject.call(this); // the types of Node lack this documented method
    if (Buffer.isBuffer(view)) return Buffer.from(view);
    return view instanceof DataView
      ? new DataView(view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength))
      : (view as Uint8Array).slice(); // every other view has slice(), which copies
  }
}
