/**
 * The protocol of MySQL and MariaDB: bytes -> packets, and the numbers that both sides speak in. Opens no socket, sets no timer;
 * conversation.ts does.
 *
 *   packet = length:3  sequence:1  payload          16,777,215 bytes of payload: the next packet goes on with it, if only with none
 *
 * All integers begin with their last byte. The sequence begins anew with each command and counts packets of both sides: whoever is
 * told of a packet looks whether it is the next. Packets are handed out as places in the chunk they came in: only what lies in two is copied.
 * Chunks are lent: the socket's buffer is read into again.
 */
import { ProtocolViolation } from '../errors.ts';
import { FrameReader } from '../wire/bytes.ts';

/** What either side can do; what both can do is spoken. */
export const CAPABILITY = {
  longPassword: 0x1,
  foundRows: 0x2,
  longFlag: 0x4,
  connectWithDb: 0x8,
  localFiles: 0x80,
  protocol41: 0x200,
  ssl: 0x800,
  transactions: 0x2000,
  secureConnection: 0x8000,
  multiStatements: 0x1_0000,
  multiResults: 0x2_0000,
  psMultiResults: 0x4_0000,
  pluginAuth: 0x8_0000,
  connectAttributes: 0x10_0000,
  pluginAuthLenenc: 0x20_0000,
  deprecateEof: 0x100_0000,
} as const;

/** What MariaDB can do beyond that: a second word of flags, which it and its clients put where MySQL has nothing. */
export const MARIADB = { stmtBulkOperations: 0x4, extendedMetadata: 0x8, cacheMetadata: 0x10 } as const;

/** What the connection is told to do: the first byte of our packets. */
export const COMMAND = {
  quit: 0x01,
  query: 0x03,
  ping: 0x0e,
  stmtPrepare: 0x16,
  stmtExecute: 0x17,
  stmtSendLongData: 0x18,
  stmtClose: 0x19,
  stmtReset: 0x1a,
  stmtFetch: 0x1c,
  resetConnection: 0x1f,
  stmtBulkExecute: 0xfa,
} as const;

/** The state of the session, as each answer that is no error tells it. */
export const STATUS = {
  inTransaction: 0x1,
  autocommit: 0x2,
  moreResults: 0x8,
  cursorExists: 0x40,
  lastRowSent: 0x80,
  noBackslashEscapes: 0x200,
} as const;

/** The first byte of what the server says. */
export const REPLY = { ok: 0x00, moreData: 0x01, localInfile: 0xfb, eof: 0xfe, error: 0xff } as const;

/** Column types, and those of parameters. */
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

/** The most that fits into one packet; with exactly so much, another one follows. */
export const MAX_PAYLOAD = 0xff_ffff;
/** What `max_allowed_packet` can be at most. */
export const MAX_PACKET_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 4;

/** Told of each payload: where it begins and ends in `bytes`, which are the reader's: copy what is to stay. And its number, of several the first. */
export type OnPacket = (bytes: Buffer, at: number, end: number, sequence: number) => void;

/** Cuts a stream of bytes into packets, and puts together one that lies in several. */
export class PacketReader extends FrameReader {
  /** Gets each packet. */
  onPacket: OnPacket;
  /** Payloads of a packet that goes on. */
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

  /** The number that comes after that of the last packet. */
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
      throw new ProtocolViolation(`a packet of more than ${this.maxBytes} bytes, which are the most`);
    return HEADER_BYTES + length;
  }

  protected onFrame(bytes: Buffer, at: number, end: number): void {
    const sequence = bytes[at + 3]!; // the caller has looked
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

/** What to throw for a packet that is not the next one. */
export function wrongSequence(found: number, expected: number): ProtocolViolation {
  return new ProtocolViolation(`packet number ${found}, where ${expected} is the next`);
}
