/**
 * PostgreSQL protocol 3: bytes -> messages. Opens no socket, sets no timer; conversation.ts does.
 *
 *   message = type:1  length:4 (counts itself, not the type)  body
 *
 * A length is judged before a byte of its body is kept, and memory is taken for what has arrived, not for what was announced.
 * Messages are handed out as places in the chunk they came in: only one that lies in two chunks is copied. Chunks are lent: the
 * socket's buffer is read into again.
 */
import { ByteQueue } from '../../base/bytes.ts';
import { ProtocolViolation } from '../errors.ts';

/** What the server says, by the first byte of the message. */
export const SERVER = {
  authentication: 0x52,
  backendKeyData: 0x4b,
  bindComplete: 0x32,
  closeComplete: 0x33,
  commandComplete: 0x43,
  copyBoth: 0x57,
  copyData: 0x64,
  copyDone: 0x63,
  copyIn: 0x47,
  copyOut: 0x48,
  dataRow: 0x44,
  emptyQuery: 0x49,
  error: 0x45,
  negotiateVersion: 0x76,
  noData: 0x6e,
  notice: 0x4e,
  notification: 0x41,
  parameterDescription: 0x74,
  parameterStatus: 0x53,
  parseComplete: 0x31,
  portalSuspended: 0x73,
  readyForQuery: 0x5a,
  rowDescription: 0x54,
} as const;

/** Nobody needs more before the log-in is done, and until then nobody has proved who they are. */
export const MAX_LOGIN_BYTES: number = 64 * 1024;
/** What the server itself can make at most. */
export const MAX_MESSAGE_BYTES: number = 1024 ** 3;

const HEADER_BYTES = 5;
const LENGTH_BYTES = 4;

/** Told of each message: its type, and where its body begins and ends in `bytes`, which are the reader's: copy what is to stay. */
export type OnMessage = (type: number, bytes: Buffer, at: number, end: number) => void;

/** Cuts a stream of bytes into messages. */
export class MessageReader {
  readonly #onMessage: OnMessage;
  readonly #partial = new ByteQueue();
  /** Header and body of the message that waits for its rest; 0 while its header is not there. */
  #total = 0;
  #isStopped = false;
  /** The longest message that is taken, header not counted. {@link MAX_LOGIN_BYTES} at first. */
  maxBytes: number = MAX_LOGIN_BYTES;

  constructor(onMessage: OnMessage) {
    this.#onMessage = onMessage;
  }

  /** Whether part of a message waits for its rest. */
  get hasPartial(): boolean {
    return this.#partial.length > 0;
  }

  /** Takes bytes, and tells of every message that is complete by them. @throws ProtocolViolation */
  push(chunk: Buffer): void {
    let at = this.#partial.length > 0 ? this.#finish(chunk) : 0;
    while (!this.#isStopped && chunk.length - at >= HEADER_BYTES) {
      const end = at + this.#totalOf(chunk, at);
      if (end > chunk.length) break;
      this.#onMessage(chunk[at]!, chunk, at + HEADER_BYTES, end);
      at = end;
    }
    if (!this.#isStopped && at < chunk.length) this.#partial.pushCopy(chunk.subarray(at));
  }

  /** Tells of nothing any more, from the midst of a chunk on. */
  stop(): void {
    this.#isStopped = true;
    this.#partial.clear();
  }

  /** Gives the message that waits as many bytes as it lacks. Where the rest of the chunk begins. */
  #finish(chunk: Buffer): number {
    let at = 0;
    if (this.#partial.length < HEADER_BYTES) {
      at = Math.min(chunk.length, HEADER_BYTES - this.#partial.length);
      this.#partial.pushCopy(chunk.subarray(0, at));
    }
    const header = this.#partial.peek(HEADER_BYTES);
    if (header === undefined) return at;
    if (this.#total === 0) this.#total = this.#totalOf(asBuffer(header), 0);
    const lacking = Math.min(chunk.length - at, this.#total - this.#partial.length);
    this.#partial.pushCopy(chunk.subarray(at, at + lacking));
    if (this.#partial.length === this.#total) this.#emit();
    return at + lacking;
  }

  #emit(): void {
    const message = asBuffer(this.#partial.take(this.#total)!); // there are as many
    this.#total = 0;
    this.#onMessage(message[0]!, message, HEADER_BYTES, message.length);
  }

  #totalOf(bytes: Buffer, at: number): number {
    const length = bytes.readInt32BE(at + 1);
    if (length < LENGTH_BYTES)
      throw new ProtocolViolation(`a message of ${length} bytes, which is less than its length takes`);
    if (length > this.maxBytes)
      throw new ProtocolViolation(`a message of ${length} bytes, where ${this.maxBytes} are the most`);
    return length + 1;
  }
}

function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
