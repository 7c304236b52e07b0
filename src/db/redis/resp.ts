/**
 * RESP, the protocol of Redis and Valkey, in versions 2 and 3. Encodes commands and decodes replies.
 *
 * The first byte of a reply is its type. In both versions, the types are `+` simple string, `-` error, `:`
 * integer, `$` bulk string and `*` array. In version 3, there are also `_` null, `#` boolean, `,` double, `(`
 * big number, `!` bulk error, `=` verbatim string, `%` map, `~` set, `>` push and `|` attribute.
 *
 * Every length is checked before its value is buffered. Memory is allocated only for received bytes, not for
 * an announced length.
 */
import { ByteQueue, asBuffer } from '../../base/bytes.ts';
import { ProtocolViolation } from '../errors.ts';

/** An error in a reply. It may also be an element of an array or map. */
export class RespError {
  /** First word of the error, such as `ERR`, `WRONGTYPE` or `NOAUTH`. */
  readonly kind: string;
  readonly message: string;

  constructor(text: string) {
    this.message = text;
    this.kind = /^[A-Z][A-Z0-9]*(?= |$)/.exec(text)?.[0] ?? 'ERR';
  }
}

/**
 * A value of a reply. The bytes of a bulk string may share memory with the received chunk, so copy a value
 * that must be kept.
 */
export type RespValue =
  string | Buffer | number | bigint | boolean | null | RespError | RespValue[] | Map<RespValue, RespValue>;

/** Called for each complete message. `isPush` is true for a message that is not a reply to a command. */
type OnReply = (value: RespValue, isPush: boolean) => void;

interface RespLimits {
  /** Maximum size of one reply in bytes, including all nested values. */
  readonly maxReplyBytes: number;
}

/** A reply of the server is longer than `maxReplyBytes`. */
export class ReplyTooLarge extends ProtocolViolation {}

/** Maximum length of a line in bytes. Lines contain simple strings, errors, numbers and lengths. */
const MAX_LINE_BYTES = 64 * 1024;
const MAX_DEPTH = 32;
const MAX_ELEMENTS = 1_000_000;
const MAX_LENGTH_DIGITS = 10;
const MAX_NUMBER_DIGITS = 20;
const MAX_BIG_DIGITS = 10_000;
const LF = 0x0a;
const CRLF_BYTES = 2;

/** A list or map whose elements have not all arrived. */
interface Frame {
  readonly type: string;
  left: number;
  readonly items: RespValue[];
}

export class RespReader {
  readonly #onReply: OnReply;
  readonly #limits: RespLimits;
  readonly #bytes = new ByteQueue();
  readonly #frames: Frame[] = [];
  #bulk: { readonly type: string; readonly length: number } | undefined;
  /** Number of buffered bytes that are known to contain no line feed. */
  #looked = 0;
  #replyBytes = 0;
  #isStopped = false;

  constructor(onReply: OnReply, limits: RespLimits) {
    this.#onReply = onReply;
    this.#limits = limits;
  }

  get hasPartial(): boolean {
    return this.#bytes.length > 0 || this.#frames.length > 0 || this.#bulk !== undefined;
  }

  /** Takes bytes, and calls the handler for each complete reply. @throws ProtocolViolation */
  push(chunk: Uint8Array): void {
    this.#bytes.push(chunk);
    while (!this.#isStopped && (this.#bulk === undefined ? this.#line() : this.#body(this.#bulk)));
  }

  stop(): void {
    this.#isStopped = true;
    this.#bytes.clear();
  }

  #line(): boolean {
    const end = this.#bytes.indexOf(LF, this.#looked, MAX_LINE_BYTES + 1 - this.#looked);
    if (end === -1) {
      this.#looked = this.#bytes.length;
      if (this.#looked > MAX_LINE_BYTES)
        throw new ProtocolViolation(`the server sent a line of more than ${MAX_LINE_BYTES} bytes`);
      return false;
    }
    this.#looked = 0;
    const line = asBuffer(this.#bytes.take(end + 1)!);
    if (end < 2 || line[end - 1] !== 0x0d)
      throw new ProtocolViolation('the server sent a line without CRLF at its end');
    this.#count(end + 1);
    this.#onLine(String.fromCharCode(line[0]!), line.toString('utf8', 1, end - 1));
    return true;
  }

  #onLine(type: string, text: string): void {
    switch (type) {
      case '+':
        return this.#value(text);
      case '-':
        return this.#value(new RespError(text));
      case ':':
        return this.#value(integerOf(text));
      case ',':
        return this.#value(doubleOf(text));
      case '(':
        return this.#value(bigOf(text));
      case '#':
        return this.#value(booleanOf(text));
      case '_':
        if (text !== '') throw new ProtocolViolation('the server sent a null reply that has content');
        return this.#value(null);
      case '$':
      case '!':
      case '=':
        return this.#beginBulk(type, text);
      case '*':
      case '~':
      case '%':
      case '>':
      case '|':
        return this.#beginAggregate(type, text);
      default:
        throw new ProtocolViolation('the server sent a value of an unknown type');
    }
  }

  #beginBulk(type: string, text: string): void {
    const length = lengthOf(text, type === '$');
    if (length === -1) return this.#value(null);
    if (length > this.#limits.maxReplyBytes)
      throw new ReplyTooLarge(
        `the server sent a string of ${length} bytes; the limit is ${this.#limits.maxReplyBytes}`,
      );
    this.#bulk = { type, length };
  }

  #body({ type, length }: { readonly type: string; readonly length: number }): boolean {
    const bytes = this.#bytes.take(length + CRLF_BYTES);
    if (bytes === undefined) return false;
    if (bytes[length] !== 0x0d || bytes[length + 1] !== LF)
      throw new ProtocolViolation('the server sent a string that is longer than announced');
    this.#bulk = undefined;
    this.#count(length + CRLF_BYTES);
    const body = asBuffer(bytes).subarray(0, length);
    if (type === '!') this.#value(new RespError(body.toString()));
    else if (type === '=') this.#value(verbatimOf(body));
    else this.#value(body);
    return true;
  }

  #beginAggregate(type: string, text: string): void {
    const count = lengthOf(text, type === '*');
    if (count === -1) return this.#value(null);
    if (count > MAX_ELEMENTS)
      throw new ProtocolViolation(
        `the server sent a list of ${count} elements; the limit is ${MAX_ELEMENTS}`,
      );
    if (type === '>' && (this.#frames.length > 0 || count === 0))
      throw new ProtocolViolation('the server sent a push message that is empty or inside a reply');
    if (this.#frames.length >= MAX_DEPTH)
      throw new ProtocolViolation(`the server sent lists nested deeper than ${MAX_DEPTH} levels`);
    this.#frames.push({ type, left: type === '%' || type === '|' ? 2 * count : count, items: [] });
    if (count === 0) this.#close();
  }

  /**
   * Adds a value to the innermost list that is incomplete. If there is none, the value is a complete reply.
   */
  #value(value: RespValue): void {
    const frame = this.#frames.at(-1);
    if (frame === undefined) return this.#emit(value, false);
    frame.items.push(value);
    if (--frame.left === 0) this.#close();
  }

  #close(): void {
    const { type, items } = this.#frames.pop()!;
    if (type === '|') return; // an attribute describes the next value, and is ignored
    if (type === '>') return this.#emit(items, true);
    this.#value(type === '%' ? mapOf(items) : items);
  }

  #emit(value: RespValue, isPush: boolean): void {
    this.#replyBytes = 0;
    this.#onReply(value, isPush);
  }

  #count(bytes: number): void {
    this.#replyBytes += bytes;
    if (this.#replyBytes > this.#limits.maxReplyBytes + MAX_LINE_BYTES)
      throw new ReplyTooLarge(`the server sent a reply of more than ${this.#limits.maxReplyBytes} bytes`);
  }
}

export type RespArgument = string | Uint8Array | number | bigint;

/** Encodes commands as arrays of bulk strings. */
export class RespWriter {
  #text = '';
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  /** Approximate number of buffered bytes. */
  get length(): number {
    return this.#partBytes + this.#text.length;
  }

  /** Appends one command, whose arguments are already validated. */
  command(parts: readonly RespArgument[]): void {
    let text = `*${parts.length}\r\n`;
    for (const part of parts) {
      if (typeof part === 'object') {
        this.#text += `${text}$${part.length}\r\n`;
        this.#flushText();
        this.#parts.push(part);
        this.#partBytes += part.length;
        text = '\r\n';
      } else {
        const word = typeof part === 'string' ? part : String(part);
        text += `$${Buffer.byteLength(word)}\r\n${word}\r\n`;
      }
    }
    this.#text += text;
  }

  /** Returns the buffered bytes and empties the buffer. */
  take(): Buffer {
    if (this.#parts.length === 0) {
      const bytes = Buffer.from(this.#text);
      this.#text = '';
      return bytes;
    }
    this.#flushText();
    const bytes = Buffer.concat(this.#parts);
    this.#parts = [];
    this.#partBytes = 0;
    return bytes;
  }

  clear(): void {
    this.#text = '';
    this.#parts = [];
    this.#partBytes = 0;
  }

  #flushText(): void {
    if (this.#text === '') return;
    const bytes = Buffer.from(this.#text);
    this.#parts.push(bytes);
    this.#partBytes += bytes.length;
    this.#text = '';
  }
}

function lengthOf(text: string, mayBeNull: boolean): number {
  if (mayBeNull && text === '-1') return -1;
  if (text.length > MAX_LENGTH_DIGITS || !/^\d+$/.test(text))
    throw new ProtocolViolation('the server sent a value with an invalid length');
  return Number(text);
}

function integerOf(text: string): number | bigint {
  if (text.length > MAX_NUMBER_DIGITS || !/^[+-]?\d+$/.test(text))
    throw new ProtocolViolation('the server sent an invalid integer');
  const number = Number(text);
  return Number.isSafeInteger(number) ? number + 0 : BigInt(text.replace('+', ''));
}

function doubleOf(text: string): number {
  if (text === 'inf') return Infinity;
  if (text === '-inf') return -Infinity;
  if (text === 'nan' || text === '-nan') return NaN;
  if (!/^[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?$/.test(text))
    throw new ProtocolViolation('the server sent an invalid number');
  return Number(text);
}

function bigOf(text: string): bigint {
  if (text.length > MAX_BIG_DIGITS || !/^[+-]?\d+$/.test(text))
    throw new ProtocolViolation('the server sent an invalid big number');
  return BigInt(text.replace('+', ''));
}

function booleanOf(text: string): boolean {
  if (text !== 't' && text !== 'f') throw new ProtocolViolation('the server sent an invalid boolean');
  return text === 't';
}

/** Removes the format prefix of a verbatim string, such as `txt:`. */
function verbatimOf(body: Buffer): Buffer {
  if (body.length < 4 || body[3] !== 0x3a)
    throw new ProtocolViolation('the server sent a verbatim string without the name of its format');
  return body.subarray(4);
}

function mapOf(items: readonly RespValue[]): Map<RespValue, RespValue> {
  const map = new Map<RespValue, RespValue>();
  for (let index = 0; index < items.length; index += 2) {
    const key = items[index]!;
    map.set(Buffer.isBuffer(key) ? key.toString() : key, items[index + 1]!);
  }
  return map;
}
