/**
 * Reads and writes the frames of a protocol. A frame is a header, which contains a length, and a body.
 * FrameReader splits received bytes into frames, FieldReader reads the fields of a body, and ByteWriter
 * writes fields.
 *
 * The length of a frame is checked before any byte of its body is buffered. Memory is allocated only for
 * bytes that have arrived, even if the peer has announced more.
 */
import { ByteQueue, asBuffer } from '../../base/bytes.ts';
import { ProtocolViolation } from '../errors.ts';

/**
 * Maximum length of a frame in bytes before the login is complete, because the server is not authenticated
 * yet.
 */
const MAX_LOGIN_BYTES: number = 64 * 1024;
/** Maximum size in bytes of a buffer that is kept for reuse. */
const KEPT_BYTES = 1024 * 1024;
const MAX_BYTES = 2 ** 31 - 1;
/**
 * Maximum length of ASCII text that is written character by character. Calls into Node.js would make a large
 * insertMany() take 20 % more CPU time.
 */
const SHORT_CHARACTERS = 24;

/** Splits a byte stream into frames. A frame is copied only if it spans several chunks. */
export abstract class FrameReader {
  readonly #headerBytes: number;
  readonly #partial = new ByteQueue();
  #hasPartial = false;
  protected isStopped = false;
  /** Maximum length of a frame in bytes. Initially {@link MAX_LOGIN_BYTES}. */
  maxBytes: number = MAX_LOGIN_BYTES;

  constructor(headerBytes: number) {
    this.#headerBytes = headerBytes;
  }

  get hasPartial(): boolean {
    return this.#hasPartial;
  }

  /** Returns the length of a frame, including its header. @throws ProtocolViolation for an invalid length */
  protected abstract totalOf(bytes: Buffer, at: number): number;
  protected abstract onFrame(bytes: Buffer, at: number, end: number): void;

  /** Adds received bytes, and handles each complete frame. @throws ProtocolViolation */
  push(chunk: Buffer): void {
    let at = this.#hasPartial ? this.#finish(chunk) : 0;
    while (!this.isStopped && chunk.length - at >= this.#headerBytes) {
      const end = at + this.totalOf(chunk, at);
      if (end > chunk.length) break;
      this.onFrame(chunk, at, end);
      at = end;
    }
    if (!this.isStopped && at < chunk.length) {
      this.#partial.pushCopy(chunk.subarray(at));
      this.#hasPartial = true;
    }
  }

  stop(): void {
    this.isStopped = true;
    this.#hasPartial = false;
    this.#partial.clear();
  }

  /**
   * Adds the first bytes of the chunk to the buffered frame, and handles the frame if it is complete. Returns
   * the offset of the first byte after the frame.
   */
  #finish(chunk: Buffer): number {
    const partial = this.#partial;
    const at = Math.min(chunk.length, Math.max(0, this.#headerBytes - partial.length));
    partial.pushCopy(chunk.subarray(0, at));
    const header = partial.peek(this.#headerBytes);
    if (header === undefined) return at;
    const total = this.totalOf(asBuffer(header), 0);
    const end = at + Math.min(chunk.length - at, total - partial.length);
    partial.pushCopy(chunk.subarray(at, end));
    if (partial.length === total) {
      this.#hasPartial = false;
      this.onFrame(asBuffer(partial.take(total)!), 0, total);
    }
    return end;
  }
}

export class FieldReader {
  protected readonly source: Buffer;
  protected at: number;
  protected readonly end: number;

  constructor(source: Buffer, at: number, end: number) {
    this.source = source;
    this.at = at;
    this.end = end;
  }

  get left(): number {
    return this.end - this.at;
  }

  byte(): number {
    return this.source[this.take(1)]!;
  }

  /** Skips the next bytes and returns their offset. */
  protected take(count: number): number {
    const { at } = this;
    if (this.end - at < count) throw new ProtocolViolation('the server sent a truncated message');
    this.at = at + count;
    return at;
  }
}

/**
 * Writes frames into one reused buffer. A new buffer for each frame would cost 30-50 % of the encoding time.
 */
export class ByteWriter {
  readonly #firstBytes: number;
  protected bytes: Buffer;
  protected at = 0;

  constructor(firstBytes: number) {
    this.#firstBytes = firstBytes;
    this.bytes = Buffer.allocUnsafeSlow(firstBytes);
  }

  get length(): number {
    return this.at;
  }

  /** Returns a copy of the written bytes, and empties the buffer. */
  take(): Buffer {
    const taken = Buffer.allocUnsafe(this.at);
    this.bytes.copy(taken, 0, 0, this.at);
    this.clear();
    return taken;
  }

  /** Removes all written bytes after the first `length`. */
  rewind(length: number): void {
    this.at = length;
  }

  clear(): void {
    this.at = 0;
    if (this.bytes.length > KEPT_BYTES) this.bytes = Buffer.allocUnsafeSlow(this.#firstBytes);
  }

  byte(value: number): void {
    this.ensure(1);
    this.bytes[this.at++] = value;
  }

  raw(bytes: Uint8Array): void {
    this.ensure(bytes.length);
    this.bytes.set(bytes, this.at);
    this.at += bytes.length;
  }

  /** Writes text in UTF-8, with neither a length prefix nor a terminator. */
  text(text: string): void {
    const { length } = text;
    this.ensure(3 * length); // a UTF-16 unit takes at most three bytes in UTF-8
    if (length <= SHORT_CHARACTERS && this.#ascii(text)) return;
    this.at += this.bytes.write(text, this.at, 'utf8');
  }

  /** Writes text and a terminating NUL. */
  textNul(text: string): void {
    if (text.includes('\0')) throw new ProtocolViolation('the text to send contains a NUL');
    this.text(text);
    this.byte(0);
  }

  /** Enlarges the buffer if it has no room for `count` more bytes. */
  protected ensure(count: number): void {
    const needed = this.at + count;
    if (needed <= this.bytes.length) return;
    if (needed > MAX_BYTES)
      throw new ProtocolViolation(`the messages to send have ${needed} bytes; the limit is ${MAX_BYTES}`);
    const larger = Buffer.allocUnsafeSlow(Math.min(MAX_BYTES, Math.max(needed, 2 * this.bytes.length)));
    this.bytes.copy(larger, 0, 0, this.at);
    this.bytes = larger;
  }

  #ascii(text: string): boolean {
    const { bytes } = this;
    let { at } = this;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      bytes[at++] = code;
    }
    this.at = at;
    return true;
  }
}

export const TWO_32: number = 2 ** 32;
/** The texts 00 ... 99. */
export const TWO: readonly string[] = Array.from({ length: 100 }, (_, value) =>
  String(value).padStart(2, '0'),
);

/** Returns a number if it is exact, or else a bigint. */
export function wideFromText(text: string): number | bigint {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : BigInt(text);
}

export function utf8(bytes: Buffer, at: number, end: number): string {
  return shortAscii(bytes, at, end) ?? bytes.toString('utf8', at, end);
}

/** Decodes Latin-1 text, such as digits and other ASCII text. */
export function latin1(bytes: Buffer, at: number, end: number): string {
  return shortAscii(bytes, at, end) ?? bytes.toString('latin1', at, end);
}

const { fromCharCode } = String;
const MAX_ASCII = 0x7f;

/**
 * Decodes up to eight ASCII bytes. Returns undefined for more bytes, or if one of them is not ASCII. Without
 * this function, reading 50 rows takes 10 to 20 % more CPU time (plain rows of test/bench/rows.ts).
 */
export function shortAscii(b: Uint8Array, at: number, end: number): string | undefined {
  if (end - at > 8) return undefined;
  for (let index = at; index < end; index++) if (b[index]! > MAX_ASCII) return undefined;
  let i = at;
  switch (end - at) {
    case 0:
      return '';
    case 1:
      return fromCharCode(b[i]!);
    case 2:
      return fromCharCode(b[i++]!, b[i]!);
    case 3:
      return fromCharCode(b[i++]!, b[i++]!, b[i]!);
    case 4:
      return fromCharCode(b[i++]!, b[i++]!, b[i++]!, b[i]!);
    case 5:
      return fromCharCode(b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i]!);
    case 6:
      return fromCharCode(b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i]!);
    case 7:
      return fromCharCode(b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i]!);
    default:
      return fromCharCode(b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i++]!, b[i]!);
  }
}
