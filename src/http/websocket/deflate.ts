/**
 * permessage-deflate (RFC 7692): compresses whole messages as raw DEFLATE, and decompresses them. The
 * handshake negotiates the parameters.
 *
 * With context takeover, a message may refer to bytes of earlier messages. A zlib stream for each connection
 * would take 300 KB. Instead, only the last bytes that a side has sent are kept, as the dictionary for its
 * next message.
 */
import { promisify } from 'node:util';
import { constants, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib';
import { errorCode } from '../../base/errors.ts';
import { isThenable } from '../../base/promises.ts';
import { OPCODE } from './codes.ts';
import { encodeFrame } from './encode.ts';
import { FrameReader } from './frames.ts';
import { LEAST_BITS } from './handshake.ts';
import { hasBudget, inThread, spend, whenBudget } from './turns.ts';
import type { ZlibOptions } from 'node:zlib';
import type { Awaitable } from '../contracts.ts';
import type { FrameSink, Inflated } from './frames.ts';
import type { DeflateAgreement } from './handshake.ts';

/**
 * The empty DEFLATE block at the end of a compressed message. The sender removes it, and the receiver adds it
 * (RFC 7692 §7.2.1).
 */
const TAIL: Buffer = Buffer.of(0x00, 0x00, 0xff, 0xff);
/**
 * Bytes that are added to a message before it is inflated: TAIL, and an empty block that is marked as the
 * last one. Without a last block, zlib would accept a message that ends within a block.
 */
const END_OF_MESSAGE: Buffer = Buffer.of(...TAIL, 0x01, 0x00, 0x00, 0xff, 0xff);
const NOTHING: Buffer = Buffer.alloc(0);
/** Maximum size in bytes of a message that is inflated in the event loop, which takes up to 4 ms. */
const SHORT_BYTES = 1_048_576;
/** Time for deflating a byte, as a multiple of the time for inflating one. */
const DEFLATE_COST = 8;
/** Size in bytes of the output buffer for inflating in a thread. */
const LONG_CHUNK_BYTES = 262_144;
const LEAST_CHUNK_BYTES = 1_024,
  MOST_CHUNK_BYTES = 65_536;
/**
 * Range of zlib's option `memLevel`: its memory for finding repetitions. A longer message gets a higher
 * level.
 */
const LEAST_LEVEL = 1,
  MOST_LEVEL = 8;

/** Receives the messages of a reader that inflates them. */
export interface InflatingSink extends FrameSink {
  /** Whether the socket still accepts messages. If not, they are not inflated. */
  readonly isOpen: boolean;
  /**
   * Called with true when a message begins to be inflated, so that reading must wait, and with false when it
   * was inflated.
   */
  onInflating(isInflating: boolean): void;
}

/** Returns a frame reader that inflates compressed messages. `ownsChunks`: see the options of FrameReader. */
export function inflatingReader(
  { clientBits, clientTakesOver }: DeflateAgreement,
  maxMessageBytes: number,
  ownsChunks: boolean,
  sink: InflatingSink,
): FrameReader {
  const inflater = new MessageInflater(clientBits, clientTakesOver);
  const inflate = (bytes: Uint8Array, maxBytes: number): Awaitable<Inflated> => {
    if (!sink.isOpen) return NOTHING;
    const inflated = inflater.inflateInTurn(bytes, maxBytes);
    if (!isThenable(inflated)) return inflated;
    sink.onInflating(true);
    // registered before the callback of the reader, so it runs before the reader continues parsing
    void inflated.then(() => sink.onInflating(false));
    return inflated;
  };
  return new FrameReader({ isMasked: true, maxMessageBytes, ownsChunks, inflate }, sink);
}

export class MessageDeflater {
  /** Size of the negotiated window as a power of two. */
  readonly bits: number;
  readonly #level: number;
  /**
   * The bytes of earlier messages to which the next message may refer. Undefined without context takeover.
   */
  #history: History | undefined;

  constructor(bits: number, level: number, takesOver: boolean) {
    this.bits = bits;
    this.#level = level;
    if (takesOver) this.#history = new History(bits);
  }

  /**
   * Deflates a message. Returns undefined if that would not make it shorter. Set `mayBeLost` if the message
   * may be dropped later. Such a message refers to no earlier message, and no later message refers to it.
   */
  deflate(bytes: Uint8Array, mayBeLost = false): Buffer | undefined {
    if (mayBeLost) this.forget();
    const dictionary = this.#history?.bytes ?? NOTHING;
    const deflated = deflateMessage(bytes, this.bits, this.#level, dictionary);
    // the message will be sent uncompressed, so it does not become part of the compression history
    if (deflated.length >= bytes.length) return undefined;
    if (!mayBeLost) this.#history?.add(bytes);
    return deflated;
  }

  /** The message refers to no earlier message, and no later message refers to it. */
  deflateLong(bytes: Uint8Array): Promise<Buffer | undefined> {
    this.forget();
    return deflateInThread(bytes, this.bits, this.#level);
  }

  /**
   * Forgets the earlier messages. Call this when a compressed message is sent that this object has not
   * deflated.
   */
  forget(): void {
    this.#history?.clear();
  }
}

export function deflateMessage(
  bytes: Uint8Array,
  bits: number,
  level: number,
  dictionary: Buffer = NOTHING,
): Buffer {
  // deflating also takes time in the event loop, so it uses the budget of this turn (turns.ts)
  spend(DEFLATE_COST * bytes.length);
  return withoutTail(deflateRawSync(bytes, deflateOptions(bytes.length, bits, level, dictionary)));
}

/** Maximum size in bytes of a message that is deflated in the event loop, which takes up to 4 ms. */
export const SHORT_TO_DEFLATE_BYTES = 131_072;

const deflateRawInThread = promisify<Uint8Array, ZlibOptions, Buffer>(deflateRaw);

/**
 * Deflates a message in a thread, without reference to earlier messages. Resolves with undefined if that
 * would not make it shorter, or if memory is short. The message is then sent uncompressed. Never rejects.
 */
async function deflateInThread(bytes: Uint8Array, bits: number, level: number): Promise<Buffer | undefined> {
  try {
    const options = deflateOptions(bytes.length, bits, level, NOTHING);
    const deflated = withoutTail(await inThread(() => deflateRawInThread(bytes, options)));
    return deflated.length < bytes.length ? deflated : undefined;
  } catch {
    return undefined;
  }
}

/**
 * Frames of a message that is sent to several sockets. The message is encoded once. It is deflated once for
 * each window size that the sockets have negotiated.
 */
export class SharedFrames {
  readonly #opcode: number;
  readonly #payload: Buffer;
  #plain: Buffer | undefined;
  /** Deflated frames by window size and level. A frame is undefined if deflating does not make it shorter. */
  #deflated: Map<number, Buffer | undefined> | undefined;
  #deflatedLong: Map<number, Promise<Buffer>> | undefined;

  constructor(payload: Buffer, isText: boolean) {
    this.#opcode = isText ? OPCODE.text : OPCODE.binary;
    this.#payload = payload;
  }

  get plain(): Buffer {
    return (this.#plain ??= encodeFrame(this.#opcode, this.#payload));
  }

  /**
   * Deflates in a thread, once for all sockets. The frame is uncompressed if that is shorter. Never rejects.
   */
  deflatedLong(bits: number, level: number): Promise<Buffer> {
    const found = (this.#deflatedLong ??= new Map<number, Promise<Buffer>>());
    const key = (bits << 4) | level;
    let frame = found.get(key);
    if (frame === undefined) {
      frame = deflateInThread(this.#payload, bits, level).then((bytes) =>
        bytes === undefined ? this.plain : encodeFrame(this.#opcode, bytes, true),
      );
      found.set(key, frame);
    }
    return frame;
  }

  /** Refers to no earlier message. Returns undefined if deflating does not make the message shorter. */
  deflated(bits: number, level: number): Buffer | undefined {
    const deflated = (this.#deflated ??= new Map());
    const key = (bits << 4) | level;
    if (!deflated.has(key)) {
      const bytes = deflateMessage(this.#payload, bits, level);
      deflated.set(
        key,
        bytes.length < this.#payload.length ? encodeFrame(this.#opcode, bytes, true) : undefined,
      );
    }
    return deflated.get(key);
  }
}

function withoutTail(deflated: Buffer): Buffer {
  return deflated.subarray(0, deflated.length - TAIL.length);
}

function deflateOptions(length: number, bits: number, level: number, dictionary: Buffer): ZlibOptions {
  // uses the smallest window that contains the message and the earlier bytes in the dictionary, because zlib
  // clears up to 256 KB for a larger one
  const reach = Math.ceil(Math.log2(length + dictionary.length + 512));
  const windowBits = Math.max(LEAST_BITS, Math.min(bits, reach));
  const memLevel = Math.max(LEAST_LEVEL, Math.min(MOST_LEVEL, reach - 6));
  return {
    level,
    windowBits,
    memLevel,
    finishFlush: constants.Z_SYNC_FLUSH,
    chunkSize: chunkFor(length),
    ...(dictionary.length === 0 ? {} : { dictionary }),
  };
}

const inflateInThread = promisify<Buffer, ZlibOptions, Buffer>(inflateRaw);

export class MessageInflater {
  #history: History | undefined;

  constructor(bits: number, takesOver: boolean) {
    if (takesOver) this.#history = new History(bits);
  }

  /**
   * Returns the inflated message, or the reason why it cannot be inflated. The result never exceeds
   * `maxBytes`, although a short message may inflate to many bytes.
   */
  inflate(bytes: Uint8Array, maxBytes: number): Inflated {
    // an empty payload counts as an empty message, although zlib would refuse it
    if (bytes.length === 0) return NOTHING;
    try {
      const options = this.#options(maxBytes, chunkFor(4 * bytes.length));
      return this.#took(inflateRawSync(inputOf(bytes), options), maxBytes);
    } catch (error) {
      return failureOf(error);
    }
  }

  /**
   * Inflates a message like {@link inflate}, but does not block the event loop for long. A short message may
   * wait for a later turn of the event loop (turns.ts). A long message is inflated in a thread. Await a
   * returned promise before the next message; it never rejects.
   */
  inflateInTurn(bytes: Uint8Array, maxBytes: number): Awaitable<Inflated> {
    if (bytes.length > SHORT_BYTES) return this.#inflateLong(bytes, maxBytes);
    if (hasBudget()) return this.#inflateShort(bytes, maxBytes);
    return new Promise((resolve) => whenBudget(() => resolve(this.#inflateShort(bytes, maxBytes))));
  }

  /** If the result is longer than `SHORT_BYTES`, a thread inflates the message again. */
  #inflateShort(bytes: Uint8Array, maxBytes: number): Awaitable<Inflated> {
    const most = Math.min(maxBytes, SHORT_BYTES);
    const inflated = this.inflate(bytes, most);
    spend(bytes.length + (typeof inflated === 'string' ? most : inflated.length));
    return inflated === 'too big' && most < maxBytes ? this.#inflateLong(bytes, maxBytes) : inflated;
  }

  async #inflateLong(bytes: Uint8Array, maxBytes: number): Promise<Inflated> {
    try {
      const options = this.#options(maxBytes, LONG_CHUNK_BYTES);
      return this.#took(await inThread(() => inflateInThread(inputOf(bytes), options)), maxBytes);
    } catch (error) {
      return failureOf(error);
    }
  }

  #options(maxBytes: number, chunkSize: number): ZlibOptions {
    const dictionary = this.#history?.bytes ?? NOTHING;
    const maxOutputLength = Math.max(1, maxBytes);
    return { maxOutputLength, chunkSize, ...(dictionary.length === 0 ? {} : { dictionary }) };
  }

  #took(inflated: Buffer, maxBytes: number): Inflated {
    // this check is needed only for a `maxBytes` of 0, because zlib's own limit is at least 1
    if (inflated.length > maxBytes) return 'too big';
    this.#history?.add(inflated);
    return inflated;
  }
}

function inputOf(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, END_OF_MESSAGE]);
}

function failureOf(error: unknown): Inflated {
  return errorCode(error) === 'ERR_BUFFER_TOO_LARGE' ? 'too big' : 'corrupt';
}

function chunkFor(bytes: number): number {
  return Math.min(MOST_CHUNK_BYTES, Math.max(LEAST_CHUNK_BYTES, bytes));
}

/** The last bytes that one side has sent, up to the size of the window. */
class History {
  readonly #most: number;
  bytes: Buffer = NOTHING;

  constructor(bits: number) {
    this.#most = 1 << bits;
  }

  add(bytes: Uint8Array): void {
    const kept =
      bytes.length >= this.#most
        ? NOTHING
        : this.bytes.subarray(Math.max(0, this.bytes.length + bytes.length - this.#most));
    this.bytes = Buffer.concat([kept, bytes.subarray(Math.max(0, bytes.length - this.#most))]);
  }

  clear(): void {
    this.bytes = NOTHING;
  }
}
