/**
 * The protocol of MySQL and MariaDB: what we say -> bytes, in one buffer that is kept (a new one for each flush costs 30-50 %).
 *
 *   writer.command(COMMAND.query); writer.text(sql); const reply = writer.end(); socket.write(writer.take())
 *
 * What was written of a packet that cannot be completed is undone by rewind() to where it began.
 */
import { MAX_PAYLOAD } from './wire.ts';
import { ProtocolViolation } from '../errors.ts';

const HEADER_BYTES = 4;
const FIRST_BYTES = 16 * 1024;
/** A buffer that a large value has made larger is let go of. */
const KEPT_BYTES = 1024 * 1024;
const MAX_BYTES = 2 ** 31 - 1;
/** Text up to here is written character by character as long as it is ASCII: half the time of a call into Node. */
const SHORT_CHARACTERS = 24;
/** A length up to here is its own first byte. */
const MAX_SHORT_LENGTH = 250;
const TWO_32 = 2 ** 32;

/** Gathers packets. */
export class PacketWriter {
  #bytes: Buffer = Buffer.allocUnsafeSlow(FIRST_BYTES);
  #at = 0;
  /** Where the packet stands that is being written, and its number. */
  #packetAt = 0;
  #sequence = 0;

  /** How many bytes are written. */
  get length(): number {
    return this.#at;
  }
  /** How many of them are the payload of the packet that is being written. */
  get payloadLength(): number {
    return this.#at - this.#packetAt - HEADER_BYTES;
  }

  /** What is written, as a copy; then there is nothing. */
  take(): Buffer {
    const taken = Buffer.allocUnsafe(this.#at);
    this.#bytes.copy(taken, 0, 0, this.#at);
    this.clear();
    return taken;
  }

  /** Forgets what was written after there were `length` bytes. */
  rewind(length: number): void {
    this.#at = length;
  }

  clear(): void {
    this.#at = 0;
    if (this.#bytes.length > KEPT_BYTES) this.#bytes = Buffer.allocUnsafeSlow(FIRST_BYTES);
  }

  /** Begins a packet, by default the first of a command. */
  begin(sequence: number = 0): void {
    this.#packetAt = this.#at;
    this.#sequence = sequence;
    this.#ensure(HEADER_BYTES);
    this.#at += HEADER_BYTES;
  }

  command(code: number): void {
    this.begin();
    this.uint8(code);
  }

  /** Ends the packet, in as many as it takes. The number that the answer has. */
  end(): number {
    const length = this.payloadLength;
    const more = Math.floor(length / MAX_PAYLOAD);
    if (more > 0) this.#divide(more);
    this.#header(
      this.#packetAt + more * (HEADER_BYTES + MAX_PAYLOAD),
      length - more * MAX_PAYLOAD,
      this.#sequence + more,
    );
    return this.#sequence + more + 1;
  }

  uint8(value: number): void {
    this.#ensure(1);
    this.#bytes[this.#at++] = value;
  }

  uint16(value: number): void {
    this.#ensure(2);
    this.#bytes.writeUInt16LE(value, this.#at); // throws beyond 16 bits
    this.#at += 2;
  }

  uint32(value: number): void {
    this.#ensure(4);
    this.#bytes.writeUInt32LE(value, this.#at); // throws beyond 32 bits
    this.#at += 4;
  }

  /** 64 bits out of two halves, the higher one with or without sign. */
  int64(high: number, low: number): void {
    this.#ensure(8);
    const [bytes, at] = [this.#bytes, this.#at];
    bytes[at] = low;
    bytes[at + 1] = low >>> 8;
    bytes[at + 2] = low >>> 16;
    bytes[at + 3] = low >>> 24;
    bytes[at + 4] = high;
    bytes[at + 5] = high >>> 8;
    bytes[at + 6] = high >>> 16;
    bytes[at + 7] = high >>> 24;
    this.#at += 8;
  }

  float64(value: number): void {
    this.#ensure(8);
    this.#bytes.writeDoubleLE(value, this.#at);
    this.#at += 8;
  }

  zeros(count: number): void {
    this.#ensure(count);
    this.#bytes.fill(0, this.#at, (this.#at += count));
  }

  /** Room for what is known only later, all zeros: where it is. See {@link set}. */
  reserve(count: number): number {
    this.zeros(count);
    return this.#at - count;
  }

  /** Writes a byte where there is room for it. */
  set(at: number, value: number): void {
    this.#bytes[at] = value;
  }

  /** Sets bits of a byte. */
  setBits(at: number, bits: number): void {
    this.#bytes[at]! |= bits;
  }

  raw(bytes: Uint8Array): void {
    this.#ensure(bytes.length);
    this.#bytes.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  /** A length, as it stands before what has it. */
  lengthOf(value: number): void {
    if (value <= MAX_SHORT_LENGTH) this.uint8(value);
    else if (value < 0x1_0000) {
      this.uint8(0xfc);
      this.uint16(value);
    } else if (value < 0x100_0000) {
      this.uint8(0xfd);
      this.uint8(value & 0xff);
      this.uint16(value >>> 8);
    } else {
      this.uint8(0xfe);
      this.int64(Math.floor(value / TWO_32), value >>> 0);
    }
  }

  bytes(value: Uint8Array): void {
    this.lengthOf(value.length);
    this.raw(value);
  }

  /** Text to the end of the packet. */
  text(text: string): void {
    this.#ensure(3 * text.length); // no UTF-16 unit takes more
    if (text.length <= SHORT_CHARACTERS && this.#ascii(text)) return;
    this.#at += this.#bytes.write(text, this.#at, 'utf8');
  }

  /** Text with a NUL behind it, so none may be in it. */
  textNul(text: string): void {
    if (text.includes('\0')) throw new ProtocolViolation('text with a NUL');
    this.text(text);
    this.uint8(0);
  }

  /** Text with its length before it. */
  textLength(text: string): void {
    const { length } = text;
    if (3 * length > MAX_SHORT_LENGTH) {
      this.lengthOf(Buffer.byteLength(text));
      this.text(text);
      return;
    }
    this.#ensure(1 + 3 * length);
    const at = this.#at++;
    this.text(text);
    this.#bytes[at] = this.#at - at - 1;
  }

  #ascii(text: string): boolean {
    const bytes = this.#bytes;
    let at = this.#at;
    for (let index = 0; index < text.length; index++) {
      const code = text.charCodeAt(index);
      if (code > 0x7f) return false;
      bytes[at++] = code;
    }
    this.#at = at;
    return true;
  }

  /** Puts a header before each further piece, the last one first. */
  #divide(more: number): void {
    const from = this.#packetAt + HEADER_BYTES;
    const end = this.#at;
    this.#ensure(more * HEADER_BYTES);
    for (let part = more; part > 0; part--) {
      const start = from + part * MAX_PAYLOAD;
      this.#bytes.copyWithin(start + part * HEADER_BYTES, start, Math.min(end, start + MAX_PAYLOAD));
    }
    for (let part = 0; part < more; part++)
      this.#header(this.#packetAt + part * (HEADER_BYTES + MAX_PAYLOAD), MAX_PAYLOAD, this.#sequence + part);
    this.#at = end + more * HEADER_BYTES;
  }

  #header(at: number, length: number, sequence: number): void {
    const bytes = this.#bytes;
    bytes[at] = length;
    bytes[at + 1] = length >>> 8;
    bytes[at + 2] = length >>> 16;
    bytes[at + 3] = sequence;
  }

  #ensure(count: number): void {
    const needed = this.#at + count;
    if (needed <= this.#bytes.length) return;
    if (needed > MAX_BYTES)
      throw new ProtocolViolation(`packets of ${needed} bytes at once, where ${MAX_BYTES} are the most`);
    const larger = Buffer.allocUnsafeSlow(Math.min(MAX_BYTES, Math.max(needed, 2 * this.#bytes.length)));
    this.#bytes.copy(larger, 0, 0, this.#at);
    this.#bytes = larger;
  }
}
