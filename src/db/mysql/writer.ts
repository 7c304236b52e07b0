/**
 * Encodes packets for MySQL and MariaDB in one reused buffer. Example:
 *   writer.command(COMMAND.query); writer.text(sql); const reply = writer.end(); socket.write(writer.take())
 *
 * rewind() removes a partial packet that cannot be completed.
 */
import { MAX_PAYLOAD } from './wire.ts';
import { ByteWriter, TWO_32 } from '../wire/bytes.ts';

const HEADER_BYTES = 4;
const FIRST_BYTES = 16 * 1024;
const MAX_SHORT_LENGTH = 250;

export class PacketWriter extends ByteWriter {
  #packetAt = 0;
  #sequence = 0;
  /** Whether text such as `2024-02-29T12:00:00Z` is sent without its `Z`. */
  hasTextInstants = false;

  constructor() {
    super(FIRST_BYTES);
  }

  /** Number of payload bytes in the current packet. */
  get payloadLength(): number {
    return this.at - this.#packetAt - HEADER_BYTES;
  }

  /** Begins a packet. By default it is the first packet of a command. */
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

  /** Ends the packet, or several if it is long. Returns the sequence number of the reply. */
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
    this.at = this.bytes.writeUInt16LE(value, this.at);
  }

  uint32(value: number): void {
    this.ensure(4);
    this.at = this.bytes.writeUInt32LE(value, this.at);
  }

  /** Writes 64 bits from two halves. The higher half may be signed or unsigned. */
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
    this.at = this.bytes.writeDoubleLE(value, this.at);
  }

  zeros(count: number): void {
    this.ensure(count);
    this.bytes.fill(0, this.at, (this.at += count));
  }

  /** Writes `count` zero bytes, which {@link set} can change later. Returns the offset of these bytes. */
  reserve(count: number): number {
    this.zeros(count);
    return this.at - count;
  }

  set(at: number, value: number): void {
    this.bytes[at] = value;
  }

  setBits(at: number, bits: number): void {
    this.bytes[at]! |= bits;
  }

  /** Writes a length prefix. */
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

  /** Writes bytes with a length prefix. */
  bytesLength(value: Uint8Array): void {
    this.lengthOf(value.length);
    this.raw(value);
  }

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

  /** Splits a long payload into packets, by inserting `more` packet headers. */
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
