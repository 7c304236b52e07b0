/**
 * The protocol of MySQL and MariaDB: what we say -> bytes, in one buffer that is kept (a new one for each flush costs 30-50 %).
 *
 *   writer.command(COMMAND.query); writer.text(sql); const reply = writer.end(); socket.write(writer.take())
 *
 * What was written of a packet that cannot be completed is undone by rewind() to where it began.
 */
import { MAX_PAYLOAD } from './wire.ts';
import { ByteWriter } from '../wire/bytes.ts';

const HEADER_BYTES = 4;
const FIRST_BYTES = 16 * 1024;
/** A length up to here is its own first byte. */
const MAX_SHORT_LENGTH = 250;
const TWO_32 = 2 ** 32;

/** Gathers packets. */
export class PacketWriter extends ByteWriter {
  /** Where the packet stands that is being written, and its number. */
  #packetAt = 0;
  #sequence = 0;
  /** Whether text that is an instant in UTC is bound as what the server takes for one. */
  hasTextInstants = false;

  constructor() {
    super(FIRST_BYTES);
  }

  /** How many bytes are the payload of the packet that is being written. */
  get payloadLength(): number {
    return this.at - this.#packetAt - HEADER_BYTES;
  }

  /** Begins a packet, by default the first of a command. */
  begin(sequence: number = 0): void {
    this.#packetAt = this.at;
    this.#sequence = sequence;
    this.ensure(HEADER_BYTES);
    this.at += HEADER_BYTES;
  }

  command(code: number): void {
    this.begin();
    this.byte(code);
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

  uint16(value: number): void {
    this.ensure(2);
    this.bytes.writeUInt16LE(value, this.at); // throws beyond 16 bits
    this.at += 2;
  }

  uint32(value: number): void {
    this.ensure(4);
    this.bytes.writeUInt32LE(value, this.at); // throws beyond 32 bits
    this.at += 4;
  }

  /** 64 bits out of two halves, the higher one with or without sign. */
  int64(high: number, low: number): void {
    this.ensure(8);
    const [bytes, at] = [this.bytes, this.at];
    bytes[at] = low;
    bytes[at + 1] = low >>> 8;
    bytes[at + 2] = low >>> 16;
    bytes[at + 3] = low >>> 24;
    bytes[at + 4] = high;
    bytes[at + 5] = high >>> 8;
    bytes[at + 6] = high >>> 16;
    bytes[at + 7] = high >>> 24;
    this.at += 8;
  }

  float64(value: number): void {
    this.ensure(8);
    this.bytes.writeDoubleLE(value, this.at);
    this.at += 8;
  }

  zeros(count: number): void {
    this.ensure(count);
    this.bytes.fill(0, this.at, (this.at += count));
  }

  /** Room for what is known only later, all zeros: where it is. See {@link set}. */
  reserve(count: number): number {
    this.zeros(count);
    return this.at - count;
  }

  /** Writes a byte where there is room for it. */
  set(at: number, value: number): void {
    this.bytes[at] = value;
  }

  /** Sets bits of a byte. */
  setBits(at: number, bits: number): void {
    this.bytes[at]! |= bits;
  }

  /** A length, as it stands before what has it. */
  lengthOf(value: number): void {
    if (value <= MAX_SHORT_LENGTH) this.byte(value);
    else if (value < 0x1_0000) {
      this.byte(0xfc);
      this.uint16(value);
    } else if (value < 0x100_0000) {
      this.byte(0xfd);
      this.byte(value & 0xff);
      this.uint16(value >>> 8);
    } else {
      this.byte(0xfe);
      this.int64(Math.floor(value / TWO_32), value >>> 0);
    }
  }

  /** Bytes with their length before them. */
  bytesLength(value: Uint8Array): void {
    this.lengthOf(value.length);
    this.raw(value);
  }

  /** Text with its length before it. */
  textLength(text: string): void {
    const { length } = text;
    if (3 * length > MAX_SHORT_LENGTH) {
      this.lengthOf(Buffer.byteLength(text));
      this.text(text);
      return;
    }
    this.ensure(1 + 3 * length);
    const at = this.at++;
    this.text(text);
    this.bytes[at] = this.at - at - 1;
  }

  /** Puts a header before each further piece, the last one first. */
  #divide(more: number): void {
    const from = this.#packetAt + HEADER_BYTES;
    const end = this.at;
    this.ensure(more * HEADER_BYTES);
    for (let part = more; part > 0; part--) {
      const start = from + part * MAX_PAYLOAD;
      this.bytes.copyWithin(start + part * HEADER_BYTES, start, Math.min(end, start + MAX_PAYLOAD));
    }
    for (let part = 0; part < more; part++)
      this.#header(this.#packetAt + part * (HEADER_BYTES + MAX_PAYLOAD), MAX_PAYLOAD, this.#sequence + part);
    this.at = end + more * HEADER_BYTES;
  }

  #header(at: number, length: number, sequence: number): void {
    const bytes = this.bytes;
    bytes[at] = length;
    bytes[at + 1] = length >>> 8;
    bytes[at + 2] = length >>> 16;
    bytes[at + 3] = sequence;
  }
}
