/**
 * Splits bytes into packets of the MySQL protocol, and defines constants of the protocol. Fields of a packet,
 * with their lengths in bytes:
 *   length:3  sequence:1  payload
 *
 * A payload of exactly 16,777,215 bytes continues in the next packet, which may be empty.
 *
 * Integers are little-endian. The sequence number starts at 0 for each command, and counts the packets of
 * both sides.
 *
 * A packet is passed to its handler as a range of the received chunk. It is copied only if it spans several
 * chunks.
 */
import { ProtocolViolation } from '../errors.ts';
import { FrameReader } from '../wire/bytes.ts';

/** Capability flags. A connection uses the flags that both sides have. */
export const CAPABILITY = {
  longPassword: 0x1,
  foundRows: 0x2,
  longFlag: 0x4,
  connectWithDb: 0x8,
  protocol41: 0x200,
  ssl: 0x800,
  transactions: 0x2000,
  secureConnection: 0x8000,
  multiResults: 0x2_0000,
  psMultiResults: 0x4_0000,
  pluginAuth: 0x8_0000,
  connectAttributes: 0x10_0000,
  pluginAuthLenenc: 0x20_0000,
  deprecateEof: 0x100_0000,
} as const;

/** Capability flags of MariaDB. They are a second 32-bit number of the greeting, where MySQL sends zeros. */
export const MARIADB = { extendedMetadata: 0x8, cacheMetadata: 0x10 } as const;

/** Codes of commands. The code is the first byte of a request. */
export const COMMAND = {
  quit: 0x01,
  query: 0x03,
  ping: 0x0e,
  stmtPrepare: 0x16,
  stmtExecute: 0x17,
  stmtSendLongData: 0x18,
  stmtClose: 0x19,
  stmtFetch: 0x1c,
  resetConnection: 0x1f,
} as const;

/** Flags of the session status, which is in each reply except an error. */
export const STATUS = {
  inTransaction: 0x1,
  autocommit: 0x2,
  moreResults: 0x8,
  cursorExists: 0x40,
  lastRowSent: 0x80,
  noBackslashEscapes: 0x200,
} as const;

/** Meanings of the first byte of the server's packets. */
export const REPLY = { ok: 0x00, moreData: 0x01, localInfile: 0xfb, eof: 0xfe, error: 0xff } as const;

/** Codes of the types of columns and parameters. */
export const TYPE = {
  decimal: 0,
  tiny: 1,
  short: 2,
  long: 3,
  float: 4,
  double: 5,
  null: 6,
  timestamp: 7,
  longlong: 8,
  int24: 9,
  date: 10,
  time: 11,
  datetime: 12,
  year: 13,
  newDate: 14,
  varchar: 15,
  bit: 16,
  vector: 242,
  json: 245,
  newDecimal: 246,
  enum: 247,
  set: 248,
  tinyBlob: 249,
  mediumBlob: 250,
  longBlob: 251,
  blob: 252,
  varString: 253,
  string: 254,
  geometry: 255,
} as const;

/** Most bytes of a packet. A payload of this size continues in the next packet. */
export const MAX_PAYLOAD = 0xff_ffff;
/** Maximum value of the server setting `max_allowed_packet` in bytes. */
export const MAX_PACKET_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 4;

/**
 * Handler of a payload, which is in `bytes` from `at` up to `end`. `sequence` is the number of the payload's
 * first packet. The reader overwrites the bytes later, so the handler must copy values that it keeps.
 */
export type OnPacket = (bytes: Buffer, at: number, end: number, sequence: number) => void;

/** Splits a byte stream into packets, and joins payloads that continue in several packets. */
export class PacketReader extends FrameReader {
  onPacket: OnPacket;
  /** Received parts of a payload that is not complete yet. */
  #chunks: Buffer[] = [];
  #chunksLength = 0;
  #sequence = 0;
  #firstSequence = 0;

  constructor(onPacket: OnPacket) {
    super(HEADER_BYTES);
    this.onPacket = onPacket;
  }

  override get hasPartial(): boolean {
    return super.hasPartial || this.#chunks.length > 0;
  }

  get sequence(): number {
    return this.#sequence;
  }

  override stop(): void {
    super.stop();
    this.#chunks = [];
  }

  protected totalOf(bytes: Buffer, at: number): number {
    const length = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16);
    if (this.#chunksLength + length > this.maxBytes)
      throw new ProtocolViolation(
        `the server sent a packet of more than ${this.maxBytes} bytes, which is the limit`,
      );
    return HEADER_BYTES + length;
  }

  protected onFrame(bytes: Buffer, at: number, end: number): void {
    const sequence = bytes[at + 3]!;
    const from = at + HEADER_BYTES;
    if (this.#chunks.length > 0 && sequence !== this.#sequence) throw wrongSequence(sequence, this.#sequence);
    this.#sequence = (sequence + 1) & 0xff;
    if (this.#chunks.length === 0) {
      if (end - from < MAX_PAYLOAD) {
        this.onPacket(bytes, from, end, sequence);
        return;
      }
      this.#firstSequence = sequence;
    }
    this.#chunks.push(Buffer.from(bytes.subarray(from, end)));
    this.#chunksLength += end - from;
    if (end - from === MAX_PAYLOAD) return;
    const whole = Buffer.concat(this.#chunks, this.#chunksLength);
    [this.#chunks, this.#chunksLength] = [[], 0];
    this.onPacket(whole, 0, whole.length, this.#firstSequence);
  }
}

export function wrongSequence(found: number, expected: number): ProtocolViolation {
  return new ProtocolViolation(`the server sent packet number ${found}, but ${expected} is expected`);
}
