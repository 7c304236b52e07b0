/**
 * A queue of received bytes, from which the decoders of all protocols read. This file also converts any
 * buffer or view to bytes, and the bytes in a value to text for JSON.
 *
 * Bytes within one chunk are returned without a copy. Small waiting chunks are collected in larger buffers,
 * so a peer that sends single bytes costs one byte of memory for each. Each byte is copied only a few times.
 */

// imported, because reading the global `Buffer` calls a getter, which takes longer
import { Buffer, isUtf8 } from 'node:buffer';
import { types } from 'node:util';

/**
 * Chunks up to this size are copied into one buffer, because a separate object for each chunk would take more
 * memory.
 */
const SMALL_BYTES = 512;
const GATHERED_BYTES = 4_096;
/** Consumed chunks are removed from the list when there are more than this number. */
const MAX_EMPTY_CHUNKS = 32;
const NONE = new Uint8Array(0);

/** An `ArrayBuffer` or `SharedArrayBuffer`, or a view of one: a `Buffer`, typed array or `DataView`. */
export type ByteSource = ArrayBufferLike | ArrayBufferView;

/**
 * Returns the bytes of a buffer or view, or undefined for other values. Shared memory is copied, because
 * other threads may change it.
 */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array && !types.isSharedArrayBuffer(value.buffer)) return value;
  if (types.isAnyArrayBuffer(value)) return bytesOf(new Uint8Array(value));
  if (!ArrayBuffer.isView(value)) return undefined;
  const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return types.isSharedArrayBuffer(value.buffer) ? new Uint8Array(bytes) : bytes;
}

/**
 * Whether a value is written as base64 in JSON: a Uint8Array, also one of another realm, unless its class has a method
 * toJSON() other than that of Buffer.
 */
export function isJsonBytes(value: unknown): value is Uint8Array {
  if (!types.isUint8Array(value)) return false;
  const { toJSON } = value as { readonly toJSON?: unknown };
  return toJSON === undefined || toJSON === Buffer.prototype.toJSON;
}

/**
 * Converts a value before JSON.stringify(): bytes become base64, and bigints decimal strings. JSON.stringify() itself
 * calls toJSON() of a Buffer first, which creates a list with each byte. `above` are the objects around the value.
 * @throws TypeError for a value that contains itself
 */
export function forJson(given: unknown, key: string = '', above: Set<object> = new Set()): unknown {
  const value = isJsonBytes(given) ? given : ownForm(given, key);
  if (isJsonBytes(value)) return asBuffer(value).toString('base64');
  if (typeof value === 'bigint') return value.toString();
  if (typeof value === 'function') return undefined;
  if (typeof value !== 'object' || value === null || isText(value)) return value;
  if (above.has(value)) throw new TypeError('The value contains itself');
  above.add(value);
  const copy = Array.isArray(value)
    ? Array.from(value, (member, index) => forJson(member, String(index), above))
    : Object.fromEntries(Object.entries(value).map(([name, member]) => [name, forJson(member, name, above)]));
  above.delete(value);
  return copy;
}

/** Returns the result of the method toJSON() of a value, or the value if it has no such method. */
function ownForm(value: unknown, key: string): unknown {
  if (value === null || !['object', 'function', 'bigint'].includes(typeof value)) return value;
  const { toJSON } = value as { readonly toJSON?: unknown };
  return typeof toJSON === 'function' ? toJSON.call(value, key) : value;
}

/** Whether JSON.stringify() writes an object as one text, without its members. */
function isText(value: object): boolean {
  return types.isBoxedPrimitive(value) || (JSON as RawJson).isRawJSON(value);
}

/** Not in the types of ECMAScript 2024. */
type RawJson = typeof JSON & { isRawJSON(value: unknown): boolean };

/**
 * A queue of bytes. Pushed chunks belong to the queue, and must not change afterwards. Returned bytes must
 * not change either, because they may share memory with later bytes.
 */
export class ByteQueue {
  readonly #chunks: Uint8Array[] = [];
  /** Index of the first chunk that contains waiting bytes. They begin at `#offset` in this chunk. */
  #head = 0;
  #offset = 0;
  #length = 0;
  /**
   * Buffer into which small chunks are copied while it has space. Its written part is the last chunk of the
   * queue. Empty if the last chunk was not copied.
   */
  #room: Uint8Array = NONE;
  /** Buffer into which peek() copies consecutive chunks. Its written part is the first chunk of the queue. */
  #straight: Uint8Array = NONE;

  /** Number of waiting bytes. */
  get length(): number {
    return this.#length;
  }

  push(chunk: Uint8Array): void {
    if (chunk.length === 0) return;
    if (this.#length > 0 && chunk.length <= SMALL_BYTES) this.#gather(chunk);
    else {
      this.#chunks.push(chunk);
      this.#room = NONE;
    }
    this.#length += chunk.length;
  }

  /** Adds a copy of bytes that the caller may change afterwards. */
  pushCopy(bytes: Uint8Array): void {
    const isGathered = this.#length > 0 && bytes.length <= SMALL_BYTES;
    this.push(isGathered ? bytes : Buffer.from(bytes));
  }

  /** Takes the next `count` bytes. Returns undefined while there are fewer. */
  take(count: number): Uint8Array | undefined {
    const bytes = this.#first(count) ?? (count <= this.#length ? this.#joined(count) : undefined);
    if (bytes !== undefined) this.#consume(count);
    return bytes;
  }

  /** Takes the waiting bytes of the first chunk without a copy. Returns undefined when no bytes wait. */
  takeChunk(): Uint8Array | undefined {
    const chunk = this.#chunks[this.#head];
    return chunk === undefined ? undefined : this.take(chunk.length - this.#offset);
  }

  /** Returns the next `count` bytes without taking them, or undefined while there are fewer. */
  peek(count: number): Uint8Array | undefined {
    const bytes = this.#first(count);
    if (bytes !== undefined || count > this.#length) return bytes;
    this.#straighten(count);
    return this.#first(count);
  }

  /** Drops the next `count` bytes. Returns false and drops nothing while there are fewer. */
  skip(count: number): boolean {
    if (count > this.#length) return false;
    this.#consume(count);
    return true;
  }

  /**
   * Returns the index of `byte`, counted from the next byte to take, or -1. Searches at most `max` bytes,
   * starting at index `from`.
   */
  indexOf(byte: number, from: number = 0, max: number = Infinity): number {
    const end = Math.min(this.#length, from + max);
    if (from >= end) return -1;
    let [index, start] = this.#chunkAt(from);
    for (; start < end; index++) {
      const chunk = this.#chunks[index]!;
      const skipped = index === this.#head ? this.#offset : 0;
      const found = chunk.indexOf(byte, skipped + Math.max(0, from - start));
      if (found >= 0) return start + found - skipped < end ? start + found - skipped : -1;
      start += chunk.length - skipped;
    }
    return -1;
  }

  clear(): void {
    this.#chunks.length = 0;
    this.#head = this.#offset = this.#length = 0;
    this.#room = this.#straight = NONE;
  }

  /**
   * Returns the next `count` bytes without a copy if they are in the first chunk, else undefined. Does not
   * take them.
   */
  #first(count: number): Uint8Array | undefined {
    if (count === 0) return NONE;
    const chunk = this.#chunks[this.#head];
    if (chunk === undefined || this.#offset + count > chunk.length) return undefined;
    return this.#offset === 0 && count === chunk.length
      ? chunk
      : chunk.subarray(this.#offset, this.#offset + count);
  }

  #joined(count: number): Uint8Array {
    const bytes = Buffer.allocUnsafeSlow(count);
    this.#copy(bytes, count);
    return bytes;
  }

  /** Copies the next `count` bytes, which must be available. */
  #copy(into: Uint8Array, count: number): void {
    let index = this.#head;
    let start = this.#offset;
    for (let done = 0; done < count; index++, start = 0) {
      const chunk = this.#chunks[index]!;
      const part = chunk.subarray(start, start + count - done);
      into.set(part, done);
      done += part.length;
    }
  }

  #consume(count: number): void {
    this.#length -= count;
    if (this.#length === 0) return this.clear();
    let left = this.#offset + count;
    while (left >= this.#chunks[this.#head]!.length) {
      left -= this.#chunks[this.#head]!.length;
      this.#chunks[this.#head++] = NONE; // releases the chunk's memory
      this.#straight = NONE;
    }
    this.#offset = left;
    if (this.#head > MAX_EMPTY_CHUNKS && 2 * this.#head > this.#chunks.length) {
      this.#chunks.splice(0, this.#head);
      this.#head = 0;
    }
  }

  /** Copies a small chunk into `#room` if it fits there, otherwise into a new buffer. */
  #gather(chunk: Uint8Array): void {
    const index = this.#chunks.length - 1;
    const last = this.#chunks[index]!;
    const start = last.byteOffset - this.#room.byteOffset;
    if (this.#room.length > 0 && start + last.length + chunk.length <= this.#room.length) {
      this.#room.set(chunk, start + last.length);
      this.#chunks[index] = this.#room.subarray(start, start + last.length + chunk.length);
      return;
    }
    this.#room = Buffer.allocUnsafeSlow(this.#room.length === 0 ? SMALL_BYTES : GATHERED_BYTES);
    this.#room.set(chunk);
    this.#chunks.push(this.#room.subarray(0, chunk.length));
  }

  /**
   * Joins later chunks to the first chunk, until the first chunk has `count` bytes. The new buffer has space
   * for `2 * count` bytes, so that a later call need not copy all bytes again.
   */
  #straighten(count: number): void {
    if (this.#offset + count > this.#straight.length) {
      const start = this.#chunks[this.#head]!.subarray(this.#offset);
      this.#straight = Buffer.allocUnsafeSlow(2 * count);
      this.#straight.set(start);
      this.#chunks[this.#head] = this.#straight.subarray(0, start.length);
      this.#offset = 0;
    }
    while (this.#chunks[this.#head]!.length - this.#offset < count) {
      const written = this.#chunks[this.#head]!.length;
      const next = this.#chunks[this.#head + 1]!; // defined, because at least `count` bytes are buffered
      const part = next.subarray(0, this.#straight.length - written);
      this.#straight.set(part, written);
      if (part.length < next.length) this.#chunks[this.#head + 1] = next.subarray(part.length);
      else this.#chunks[this.#head++] = NONE;
      this.#chunks[this.#head] = this.#straight.subarray(0, written + part.length);
    }
    if (this.#head === this.#chunks.length - 1) this.#room = this.#straight;
  }

  /**
   * Returns the chunk that contains the byte at index `at`, and the index of the chunk's first byte. Searches
   * from the nearer end.
   */
  #chunkAt(at: number): [index: number, start: number] {
    let index = this.#head;
    let start = 0;
    if (at > this.#length / 2) {
      index = this.#chunks.length;
      start = this.#length;
      while (start > at) start -= this.#chunks[--index]!.length - (index === this.#head ? this.#offset : 0);
      return [index, start];
    }
    for (;;) {
      const length = this.#chunks[index]!.length - (index === this.#head ? this.#offset : 0);
      if (start + length > at) return [index, start];
      start += length;
      index++;
    }
  }
}

/** Returns the bytes as a Buffer, without a copy. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Decodes UTF-8. Returns undefined if the bytes are not UTF-8. */
export function utf8Text(bytes: Buffer, start: number = 0, end: number = bytes.length): string | undefined {
  const text = bytes.toString('utf8', start, end);
  // toString() decodes invalid bytes to U+FFFD, so only a text with this character needs the check
  return text.includes('\ufffd') && !isUtf8(bytes.subarray(start, end)) ? undefined : text;
}
