/**
 * Validates UTF-8 that arrives in parts (RFC 3629 §4). Invalid text is refused immediately, which RFC 6455
 * §8.1 allows before the message has ended.
 *
 * isUtf8() of node:buffer checks complete characters. A character that is divided between two parts is
 * checked byte by byte.
 */
import { isUtf8 } from 'node:buffer';

/** Validates one text, part by part. */
export class Utf8Check {
  /** Number of bytes that are missing in the last character. */
  #missing = 0;
  /** Lower limit of the next continuation byte; `#most` is the upper limit. */
  #least = 0x80;
  #most = 0xbf;

  /** Whether the last character of the text is complete. */
  get isComplete(): boolean {
    return this.#missing === 0;
  }

  /** Checks the next part. Returns false if the text is invalid; then the object must not be used again. */
  push(bytes: Uint8Array): boolean {
    let at = 0;
    for (; at < bytes.length && this.#missing > 0; at++) if (!this.#continue(bytes[at]!)) return false;
    const whole = endOfWhole(bytes, at);
    if (whole > at && !isUtf8(at === 0 && whole === bytes.length ? bytes : bytes.subarray(at, whole)))
      return false;
    for (let tail = whole; tail < bytes.length; tail++)
      if (!(tail === whole ? this.#begin(bytes[tail]!) : this.#continue(bytes[tail]!))) return false;
    return true;
  }

  /**
   * Checks the first byte of a character with several bytes (table 3-7 of Unicode). Refuses forms longer than
   * necessary, surrogates and code points above U+10FFFF.
   */
  #begin(byte: number): boolean {
    if (byte < 0xc2 || byte > 0xf4) return false;
    this.#missing = byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3;
    this.#least = byte === 0xe0 ? 0xa0 : byte === 0xf0 ? 0x90 : 0x80;
    this.#most = byte === 0xed ? 0x9f : byte === 0xf4 ? 0x8f : 0xbf;
    return true;
  }

  #continue(byte: number): boolean {
    if (byte < this.#least || byte > this.#most) return false;
    this.#missing--;
    this.#least = 0x80;
    this.#most = 0xbf;
    return true;
  }
}

/** Returns the offset of an incomplete character at the end of the bytes, or their length. */
function endOfWhole(bytes: Uint8Array, from: number): number {
  const end = bytes.length;
  for (let back = 1; back <= 3 && end - back >= from; back++) {
    const byte = bytes[end - back]!;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2) ? end - back : end;
  }
  return end;
}
