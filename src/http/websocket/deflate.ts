/**
 * permessage-deflate (RFC 7692): negotiated with the handshake, then whole messages <-> raw DEFLATE.
 *
 *   Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits; server_max_window_bits=10, permessage-deflate
 *
 * Offers are tried in order; one that has a parameter which is unknown, doubled or out of range is not acceptable (§7).
 *
 * Context takeover without a stream for each connection, which would hold 300 KB: what either side has said last, at most a
 * window of it, is the dictionary of the next message. That is the same DEFLATE history, and takes what was said at most.
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

/** How messages are compressed. `undefined` means not given. */
export interface WebSocketCompression {
  /** 1 (fast) ... 9 (small). Default 3. */
  readonly level?: number | undefined;
  /** Shorter messages are sent as they are, 1 ... 1_073_741_824 bytes. Default 1_024. */
  readonly thresholdBytes?: number | undefined;
  /** Whether a message may refer to those before it: smaller, for up to 64 KiB a connection, and not for secrets beside what others may write. Default false. */
  readonly contextTakeover?: boolean | undefined;
  /** How far back it may refer: 9 (512 bytes) ... 15 (32 KiB). Default 15. */
  readonly windowBits?: number | undefined;
}

/** The options read. */
export type ResolvedCompressionOptions = {
  readonly [K in keyof Required<WebSocketCompression>]: NonNullable<WebSocketCompression[K]>;
};

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readCompression(owner: string, options: WebSocketCompression): ResolvedCompressionOptions {
  return readOptions(owner, options, {
    level: int(3, 1, 9),
    thresholdBytes: int(1_024, 1, 2 ** 30),
    contextTakeover: bool(false),
    windowBits: int(15, LEAST_BITS, MOST_BITS),
  });
}

/** What both sides have agreed upon. */
export interface DeflateAgreement {
  /** The windows, as bits; and whether they are kept from message to message. */
  readonly serverBits: number;
  readonly serverTakesOver: boolean;
  readonly clientBits: number;
  readonly clientTakesOver: boolean;
  /** For `Sec-WebSocket-Extensions` of the answer. */
  readonly field: string;
}

const NAME = 'permessage-deflate';
/** 8 is allowed by the RFC, but zlib has no raw window of 256 bytes: such an offer is not accepted. */
const LEAST_BITS = 9;
const MOST_BITS = 15;

/** The first acceptable offer of the field, or undefined where there is none; `malformed`: it is no list of extensions (RFC 6455 §9.1). */
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
  ].join('; '); // only where it was offered (§7.1.2.2)
  return { serverBits, serverTakesOver, clientBits, clientTakesOver, field };
}

/** 8 ... 15, without a zero in front (§7.1.2). */
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

/** `1#extension` (RFC 6455 §9.1); undefined for what is none. Empty members of a list are passed over (RFC 9110 §5.6.1). */
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
      if (!isToken(found[1]!) || (value !== undefined && !isToken(value))) return undefined; // quoted or not, it is a token
      parameters.push([found[1]!, value]);
    }
    if (match(END) === null) return undefined;
    extensions.push({ name, parameters });
  }
  return extensions;
}

// -- messages --

/** What a sender takes off the end of a message, and a receiver puts there (§7.2.1): an empty block. */
const TAIL: Buffer = Buffer.of(0x00, 0x00, 0xff, 0xff);
/** The same and a last block, also empty: what breaks off within a block then has no end, and is not taken for less than it was. */
const END_OF_MESSAGE: Buffer = Buffer.of(...TAIL, 0x01, 0x00, 0x00, 0xff, 0xff);
const NOTHING: Buffer = Buffer.alloc(0);
/** Longest message that is inflated on the event loop, which takes up to 4 ms. */
const SHORT_BYTES = 1_048_576;
/** Time that a byte takes to deflate, in bytes that are inflated. */
const DEFLATE_COST = 8;
/** Memory that a thread inflates into before it asks for more. */
const LONG_CHUNK_BYTES = 262_144;
const LEAST_CHUNK_BYTES = 1_024,
  MOST_CHUNK_BYTES = 65_536;
/** Memory for the search of repetitions, as zlib's `memLevel` has it: as much as a message of that size can use. */
const LEAST_LEVEL = 1,
  MOST_LEVEL = 8;

/** Socket that a reader inflates for. */
export interface InflatingSink extends FrameSink {
  /** Whether messages are of use. */
  readonly isOpen: boolean;
  /** A message is inflated, and nothing may be read; or no more. */
  onInflating(isInflating: boolean): void;
}

/** Returns the reader of a socket that inflates; `ownsChunks` as in the options of a reader. */
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
    void inflated.then(() => sink.onInflating(false)); // before the reader goes on with the message
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
  /** Undefined where each message stands alone. */
  #history: History | undefined;

  constructor(bits: number, level: number, takesOver: boolean) {
    this.#bits = bits;
    this.#level = level;
    if (takesOver) this.#history = new History(bits);
  }

  /** The window, as bits: what one of fewer bits has deflated, a receiver with this one can inflate. */
  get bits(): number {
    return this.#bits;
  }

  /** A message deflated; undefined where that would make it no smaller. One that may be left out later stands alone, and nothing refers to it. */
  deflate(bytes: Uint8Array, mayBeLost = false): Buffer | undefined {
    if (mayBeLost) this.forget();
    const dictionary = this.#history?.bytes ?? NOTHING;
    const deflated = deflateMessage(bytes, this.#bits, this.#level, dictionary);
    if (deflated.length >= bytes.length) return undefined; // sent as it is, it is no part of the history
    if (!mayBeLost) this.#history?.add(bytes);
    return deflated;
  }

  /** Deflates a long message in a thread: it stands alone, and nothing refers to it or to messages before it. */
  deflateLong(bytes: Uint8Array): Promise<Buffer | undefined> {
    this.forget();
    return deflateInThread(bytes, this.#bits, this.#level);
  }

  /** Something that stands alone was sent: what was said before it is farther back by its length, which nobody knows here. */
  forget(): void {
    this.#history?.clear();
  }
}

/** A message deflated for a window of `bits`. */
export function deflateMessage(
  bytes: Uint8Array,
  bits: number,
  level: number,
  dictionary: Buffer = NOTHING,
): Buffer {
  spend(DEFLATE_COST * bytes.length); // messages to be inflated wait for a later turn
  return withoutTail(deflateRawSync(bytes, deflateOptions(bytes.length, bits, level, dictionary)));
}

/** Longest message that is deflated on the event loop, which takes up to 4 ms. */
export const SHORT_TO_DEFLATE_BYTES = 131_072;

const deflateRawInThread = promisify<Uint8Array, ZlibOptions, Buffer>(deflateRaw);

/** A message that stands alone, deflated in a thread; undefined where that would make it no smaller. Never rejects: without memory the message is sent as it is. */
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
  const reach = Math.ceil(Math.log2(length + dictionary.length + 512)); // a larger window has nothing to refer to, and 256 KB to be cleared
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

/** Inflates the messages that the other side sends. */
export class MessageInflater {
  #history: History | undefined;

  constructor(bits: number, takesOver: boolean) {
    if (takesOver) this.#history = new History(bits);
  }

  /** A message inflated, or why it is not: never more than `maxBytes`, however little has come. */
  inflate(bytes: Uint8Array, maxBytes: number): Inflated {
    if (bytes.length === 0) return NOTHING; // a second flush without data between gives nothing at all
    try {
      const options = this.#options(maxBytes, chunkFor(4 * bytes.length));
      return this.#took(inflateRawSync(inputOf(bytes), options), maxBytes);
    } catch (error) {
      return failureOf(error);
    }
  }

  /**
   * Inflates as {@link inflate} does, without holding other work of the process up: short messages at once, or when a turn has
   * budget for them; long ones in a thread. The next message must wait for the promise, which never rejects.
   */
  inflateInTurn(bytes: Uint8Array, maxBytes: number): Awaitable<Inflated> {
    if (bytes.length > SHORT_BYTES) return this.#inflateLong(bytes, maxBytes);
    if (hasBudget()) return this.#inflateShort(bytes, maxBytes);
    return new Promise((resolve) => whenBudget(() => resolve(this.#inflateShort(bytes, maxBytes))));
  }

  /** Inflates at once up to the length of a short message. Few bytes may inflate to many. */
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
    if (inflated.length > maxBytes) return 'too big'; // only with a limit of 0, which zlib does not accept
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

/** The end of what was said: as much as a window holds. */
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
