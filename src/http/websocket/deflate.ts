/**
 * permessage-deflate (RFC 7692): negotiates it in the handshake, then converts whole messages to and from raw
 * DEFLATE.
 *
 * An example of the field:
 *
 *   Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits; server_max_window_bits=10, permessage-deflate
 *
 * Offers are tried in order. An offer with an unknown, repeated or out-of-range parameter is skipped (§7).
 *
 * Context takeover: messages may refer to earlier ones. A zlib stream for each connection would take 300 KB.
 * Instead, the last bytes that a side has sent, at most a window, are the dictionary for its next message.
 * The DEFLATE output is the same, and only the sent bytes are kept.
 */
import { promisify } from 'node:util';
import { constants, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib';
import { bool, int, readOptions } from '../../base/options.ts';
import { isToken } from '../headers.ts';
import { isThenable } from '../../base/promises.ts';
import { FrameReader } from './frames.ts';
import { hasBudget, inThread, spend, whenBudget } from './turns.ts';
import type { ZlibOptions } from 'node:zlib';
import type { Awaitable } from '../contracts.ts';
import type { FrameSink, Inflated } from './frames.ts';

/** How messages are compressed. An option that is `undefined` has its default. */
export interface WebSocketCompression {
  /** Compression level, 1 (fast) ... 9 (small). Default 3. */
  readonly level?: number | undefined;
  /** Minimum size of a compressed message in bytes, 1 ... 1_073_741_824. Default 1_024. */
  readonly thresholdBytes?: number | undefined;
  /**
   * Lets a message refer to earlier ones (context takeover): smaller messages, for up to 64 KiB of memory per
   * connection. Do not use it if messages contain secrets together with text of other users. Default false.
   */
  readonly contextTakeover?: boolean | undefined;
  /**
   * Size of the window as a power of two, 9 (512 bytes) ... 15 (32 KiB): how far back a message may refer.
   * Default 15.
   */
  readonly windowBits?: number | undefined;
}

/** Compression options with all values set. */
export type ResolvedCompressionOptions = {
  readonly [K in keyof Required<WebSocketCompression>]: NonNullable<WebSocketCompression[K]>;
};

/** Checks the options, and fills in defaults. @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readCompression(owner: string, options: WebSocketCompression): ResolvedCompressionOptions {
  return readOptions(owner, options, {
    level: int(3, 1, 9),
    thresholdBytes: int(1_024, 1, 2 ** 30),
    contextTakeover: bool(false),
    windowBits: int(15, LEAST_BITS, MOST_BITS),
  });
}

/** Parameters that client and server have agreed on. */
export interface DeflateAgreement {
  /** Window sizes of both sides as powers of two, and whether their context is kept between messages. */
  readonly serverBits: number;
  readonly serverTakesOver: boolean;
  readonly clientBits: number;
  readonly clientTakesOver: boolean;
  /** Value of `Sec-WebSocket-Extensions` in the response. */
  readonly field: string;
}

const NAME = 'permessage-deflate';
/**
 * Smallest window as a power of two. The RFC allows 8, but zlib has no raw window of 256 bytes: such an offer
 * is skipped.
 */
const LEAST_BITS = 9;
const MOST_BITS = 15;

/**
 * Returns the first acceptable offer of the field. Undefined if there is none; `malformed` for an invalid
 * list (RFC 6455 §9.1).
 */
export function negotiateDeflate(
  field: string,
  options: ResolvedCompressionOptions,
): DeflateAgreement | undefined | 'malformed' {
  const offers = parseExtensions(field);
  if (offers === undefined) return 'malformed';
  for (const { name, parameters } of offers) {
    const agreement = name === NAME ? accept(parameters, options) : undefined;
    if (agreement !== undefined) return agreement;
  }
  return undefined;
}

type Parameters = readonly (readonly [name: string, value: string | undefined])[];

function accept(parameters: Parameters, options: ResolvedCompressionOptions): DeflateAgreement | undefined {
  let serverBits = options.windowBits;
  let clientBits = MOST_BITS;
  let serverTakesOver = options.contextTakeover,
    clientTakesOver = options.contextTakeover;
  const seen = new Set<string>();
  for (const [name, value] of parameters) {
    if (seen.has(name)) return undefined;
    seen.add(name);
    if (name === 'server_no_context_takeover' && value === undefined) serverTakesOver = false;
    else if (name === 'client_no_context_takeover' && value === undefined) clientTakesOver = false;
    else if (name === 'server_max_window_bits' && isBits(value) && Number(value) >= LEAST_BITS)
      serverBits = Math.min(serverBits, Number(value));
    else if (name === 'client_max_window_bits' && (value === undefined || isBits(value)))
      clientBits = Math.min(options.windowBits, Number(value ?? MOST_BITS));
    else return undefined;
  }
  const field = [
    NAME,
    ...(serverTakesOver ? [] : ['server_no_context_takeover']),
    ...(clientTakesOver ? [] : ['client_no_context_takeover']),
    ...(serverBits < MOST_BITS || seen.has('server_max_window_bits')
      ? [`server_max_window_bits=${serverBits}`]
      : []),
    ...(clientBits < MOST_BITS ? [`client_max_window_bits=${clientBits}`] : []),
  ].join('; '); // allowed in the response only if the client has offered it (§7.1.2.2)
  return { serverBits, serverTakesOver, clientBits, clientTakesOver, field };
}

/** Whether a value is a window size, 8 ... 15 without a leading zero (§7.1.2). */
function isBits(value: string | undefined): boolean {
  return value !== undefined && /^(?:[89]|1[0-5])$/.test(value);
}

interface Extension {
  readonly name: string;
  readonly parameters: Parameters;
}

const PARAMETER = /[ \t]*;[ \t]*([^\s;,="]+)[ \t]*(?:=[ \t]*(?:([^\s;,="]+)|"((?:[^"\\]|\\.)*)"))?/y;
const EXTENSION = /[ \t]*([^\s;,="]+)/y;
const END = /[ \t]*(?:,|$)/y;

/** Parses `1#extension` (RFC 6455 §9.1); undefined if invalid. Empty members are skipped (RFC 9110 §5.6.1). */
export function parseExtensions(field: string): readonly Extension[] | undefined {
  const extensions: Extension[] = [];
  let at = 0;
  const match = (pattern: RegExp): RegExpExecArray | null => {
    pattern.lastIndex = at;
    const found = pattern.exec(field);
    if (found !== null) at = pattern.lastIndex;
    return found;
  };
  while (at < field.length) {
    if (match(END) !== null) continue;
    const name = match(EXTENSION)?.[1];
    if (name === undefined || !isToken(name)) return undefined;
    const parameters: [string, string | undefined][] = [];
    for (let found = match(PARAMETER); found !== null; found = match(PARAMETER)) {
      const value = found[2] ?? found[3]?.replace(/\\(.)/g, '$1');
      // a quoted value must be a token as well
      if (!isToken(found[1]!) || (value !== undefined && !isToken(value))) return undefined;
      parameters.push([found[1]!, value]);
    }
    if (match(END) === null) return undefined;
    extensions.push({ name, parameters });
  }
  return extensions;
}

// -- messages --

/** End of a compressed message, an empty block: the sender removes it, the receiver adds it (§7.2.1). */
const TAIL: Buffer = Buffer.of(0x00, 0x00, 0xff, 0xff);
/**
 * That end, and an empty last block: so a message that is cut within a block has no end, and is not mistaken
 * for a shorter message.
 */
const END_OF_MESSAGE: Buffer = Buffer.of(...TAIL, 0x01, 0x00, 0x00, 0xff, 0xff);
const NOTHING: Buffer = Buffer.alloc(0);
/** Maximum size of a message, in bytes, that is inflated in the event loop, which takes up to 4 ms. */
const SHORT_BYTES = 1_048_576;
/** Time to deflate a byte, relative to inflating one. */
const DEFLATE_COST = 8;
/** Size of the output buffer when a thread inflates, in bytes. */
const LONG_CHUNK_BYTES = 262_144;
const LEAST_CHUNK_BYTES = 1_024,
  MOST_CHUNK_BYTES = 65_536;
/**
 * Range of zlib's `memLevel`, its memory for finding repetitions. A message gets as much as its size can use.
 */
const LEAST_LEVEL = 1,
  MOST_LEVEL = 8;

/** Receiver of the frames of a socket that inflates messages. */
export interface InflatingSink extends FrameSink {
  /** Whether messages are still processed. */
  readonly isOpen: boolean;
  /**
   * Called with true when the inflation of a message must be awaited before reading on, and with false when
   * it has ended.
   */
  onInflating(isInflating: boolean): void;
}

/** Returns a frame reader that inflates messages; `ownsChunks` as in FrameReaderOptions. */
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
    void inflated.then(() => sink.onInflating(false)); // runs before the reader continues with the message
    return inflated;
  };
  return new FrameReader({ isMasked: true, maxMessageBytes, ownsChunks, inflate }, sink);
}

/** Returns the deflater of a socket. */
export function deflaterOf(
  { serverBits, serverTakesOver }: DeflateAgreement,
  { level }: ResolvedCompressionOptions,
): MessageDeflater {
  return new MessageDeflater(serverBits, level, serverTakesOver);
}

/** Deflates the messages that one side sends. */
export class MessageDeflater {
  readonly #bits: number;
  readonly #level: number;
  /** Earlier bytes to which a message may refer; undefined without context takeover. */
  #history: History | undefined;

  constructor(bits: number, level: number, takesOver: boolean) {
    this.#bits = bits;
    this.#level = level;
    if (takesOver) this.#history = new History(bits);
  }

  /**
   * Window size as a power of two. A receiver with this window can also inflate messages deflated for smaller
   * windows.
   */
  get bits(): number {
    return this.#bits;
  }

  /**
   * Deflates a message; undefined if it would not shrink. A message that may be dropped later must not refer
   * to others, and no other may refer to it: set `mayBeLost`.
   */
  deflate(bytes: Uint8Array, mayBeLost = false): Buffer | undefined {
    if (mayBeLost) this.forget();
    const dictionary = this.#history?.bytes ?? NOTHING;
    const deflated = deflateMessage(bytes, this.#bits, this.#level, dictionary);
    // a message that is sent uncompressed does not become part of the history
    if (deflated.length >= bytes.length) return undefined;
    if (!mayBeLost) this.#history?.add(bytes);
    return deflated;
  }

  /**
   * Deflates a long message in a thread, without reference to other messages; no other message refers to it.
   */
  deflateLong(bytes: Uint8Array): Promise<Buffer | undefined> {
    this.forget();
    return deflateInThread(bytes, this.#bits, this.#level);
  }

  /**
   * Call this after sending a message that was deflated elsewhere. The receiver's window has moved by its
   * length, which is unknown here, so the history is dropped.
   */
  forget(): void {
    this.#history?.clear();
  }
}

/** Deflates a message for a window of `bits`. */
export function deflateMessage(
  bytes: Uint8Array,
  bits: number,
  level: number,
  dictionary: Buffer = NOTHING,
): Buffer {
  // takes time of the turn's budget, so that messages to inflate wait for a later turn
  spend(DEFLATE_COST * bytes.length);
  return withoutTail(deflateRawSync(bytes, deflateOptions(bytes.length, bits, level, dictionary)));
}

/** Maximum size of a message in bytes that is deflated in the event loop, which takes up to 4 ms. */
export const SHORT_TO_DEFLATE_BYTES = 131_072;

const deflateRawInThread = promisify<Uint8Array, ZlibOptions, Buffer>(deflateRaw);

/**
 * Deflates a message in a thread, without reference to others; undefined if it would not shrink. Never
 * rejects: if memory is short, the message is sent uncompressed.
 */
export async function deflateInThread(
  bytes: Uint8Array,
  bits: number,
  level: number,
): Promise<Buffer | undefined> {
  try {
    const options = deflateOptions(bytes.length, bits, level, NOTHING);
    const deflated = withoutTail(await inThread(() => deflateRawInThread(bytes, options)));
    return deflated.length < bytes.length ? deflated : undefined;
  } catch {
    return undefined;
  }
}

function withoutTail(deflated: Buffer): Buffer {
  return deflated.subarray(0, deflated.length - TAIL.length);
}

function deflateOptions(length: number, bits: number, level: number, dictionary: Buffer): ZlibOptions {
  // the smallest window that covers the data: a larger one has no use, and up to 256 KB that must be cleared
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

/** Inflates the messages of the peer. */
export class MessageInflater {
  #history: History | undefined;

  constructor(bits: number, takesOver: boolean) {
    if (takesOver) this.#history = new History(bits);
  }

  /**
   * Inflates a message, or returns why that failed. The result never exceeds `maxBytes`, however short the
   * input.
   */
  inflate(bytes: Uint8Array, maxBytes: number): Inflated {
    if (bytes.length === 0) return NOTHING; // without data, a second flush of zlib yields nothing
    try {
      const options = this.#options(maxBytes, chunkFor(4 * bytes.length));
      return this.#took(inflateRawSync(inputOf(bytes), options), maxBytes);
    } catch (error) {
      return failureOf(error);
    }
  }

  /**
   * Inflates a message as {@link inflate} does, without blocking other work. Short messages are inflated at
   * once, or in a turn with budget; long ones in a thread. The caller must await the promise, which never
   * rejects, before the next message.
   */
  inflateInTurn(bytes: Uint8Array, maxBytes: number): Awaitable<Inflated> {
    if (bytes.length > SHORT_BYTES) return this.#inflateLong(bytes, maxBytes);
    if (hasBudget()) return this.#inflateShort(bytes, maxBytes);
    return new Promise((resolve) => whenBudget(() => resolve(this.#inflateShort(bytes, maxBytes))));
  }

  /** Inflates in the event loop, up to the size of a short message: few bytes may inflate to many. */
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
    // needed only for a limit of 0, which zlib does not accept as a limit
    if (inflated.length > maxBytes) return 'too big';
    this.#history?.add(inflated);
    return inflated;
  }
}

function inputOf(bytes: Uint8Array): Buffer {
  return Buffer.concat([bytes, END_OF_MESSAGE]);
}

function failureOf(error: unknown): Inflated {
  return (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? 'too big' : 'corrupt';
}

function chunkFor(bytes: number): number {
  return Math.min(MOST_CHUNK_BYTES, Math.max(LEAST_CHUNK_BYTES, bytes));
}

/** The last bytes that one side has sent, at most a window. */
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
