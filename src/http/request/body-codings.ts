/**
 * Content codings of request bodies (RFC 9110 §8.4): taken off while a body is read, where the application wants that.
 *
 * Some bytes can stand for very many (a bomb): what comes out is counted, against the limit of the body, and against what
 * went in. Codings on top of each other are refused, as nobody needs them.
 */
import {
  brotliDecompress,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createZstdDecompress,
  gunzip,
  inflate,
  zstdDecompress,
} from 'node:zlib';
import { BadRequest, ClientDisconnected, HTTPException, PayloadTooLarge } from '../../base/errors.ts';
import { joined } from './body-stream.ts';
import { writable } from '../chunks.ts';
import type { Transform } from 'node:stream';
import type { BodyReader } from './body-stream.ts';

/** What bodies may be coded with. */
export type BodyCoding = 'gzip' | 'deflate' | 'br' | 'zstd';

interface DecoderOptions {
  readonly rejectGarbageAfterEnd: boolean;
  readonly maxOutputLength?: number;
  readonly info?: boolean;
}
type Decoder = Transform & { readonly bytesWritten: number };
type Whole = (
  bytes: Uint8Array,
  options: DecoderOptions,
  done: (error: Error | null, decoded: Buffer) => void,
) => void;
/** What comes in place of a buffer with `info: true`, which the types do not know. */
interface Decoded {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

/** `deflate` is the zlib format (§8.4.1.2), and nothing else. */
const DECODERS: Readonly<
  Record<BodyCoding, { readonly whole: Whole; readonly stream: (options: DecoderOptions) => Decoder }>
> = {
  gzip: { whole: gunzip, stream: createGunzip },
  deflate: { whole: inflate, stream: createInflate },
  br: { whole: brotliDecompress, stream: createBrotliDecompress },
  zstd: { whole: zstdDecompress, stream: createZstdDecompress },
};
const ACCEPTED = Object.keys(DECODERS).join(', ');

/** How many bytes one may become, and how many any body may. */
const MAX_RATIO = 100;
const FREE_BYTES = 1_048_576;
/** Of whole bodies without a limit. */
const MAX_WHOLE_BYTES = 10_000_000;
/** Of zstd; each costs a call of its own, however short it is. */
const MAX_FRAMES = 1_000;
/**
 * What follows the coded body is no part of it, and nobody would see it. Not so gzip, of which several may stand one after the
 * other (RFC 1952 §2.2): Node reads them all, and refuses other bytes behind them by itself unless they begin with a zero. How
 * much the decoder has taken tells of those. Frames of zstd may follow each other, too (RFC 8878 §3.1): up to Node 24 its decoder
 * takes the next one for other bytes if both come in one piece, so each gets pieces of its own.
 */
function strictness(coding: BodyCoding): DecoderOptions {
  return { rejectGarbageAfterEnd: coding !== 'gzip' };
}

/**
 * The coding that a field Content-Encoding says; undefined for none. `isWanted`: whether codings are taken off at all.
 *
 * @throws HTTPException 415 with `Accept-Encoding`, which says what would do (RFC 9110 §15.5.16)
 */
export function bodyCodingOf(field: string, isWanted: boolean): BodyCoding | undefined {
  const name = field.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  const coding = name === 'x-gzip' ? 'gzip' : name;
  if (isWanted && Object.hasOwn(DECODERS, coding)) return coding as BodyCoding;
  throw new HTTPException(
    415,
    isWanted
      ? `The request body may be coded with one of ${ACCEPTED}`
      : 'The request body must not have a content coding',
    { headers: { 'Accept-Encoding': isWanted ? ACCEPTED : 'identity' } },
  );
}

/** Takes the coding off a whole body of which at most `maxBytes` may come. Fails with PayloadTooLarge, and BadRequest for what is malformed. */
export function decodeWhole(
  bytes: Uint8Array,
  coding: BodyCoding,
  maxBytes: number,
  reader: BodyReader,
): void {
  if (bytes.length === 0) return reader.onBody(bytes, undefined);
  const limit = Math.min(maxBytes === Infinity ? MAX_WHOLE_BYTES : maxBytes, mostOf(bytes.length));
  if (coding === 'zstd' && new ZstdFrames().endIn(bytes, 0) < bytes.length) {
    joined(decodedChunks(oneChunk(bytes), coding, limit)).then(
      (decoded) => reader.onBody(decoded, undefined),
      (error: unknown) => reader.onBody(undefined, error),
    );
    return;
  }
  DECODERS[coding].whole(
    bytes,
    { ...strictness(coding), info: true, maxOutputLength: Math.max(1, limit) },
    (error, decoded) => {
      const result = decoded as unknown as Decoded; // as `info` has it
      if (error === null && result.engine.bytesWritten < bytes.length)
        return reader.onBody(undefined, malformed(coding));
      if (error === null)
        return result.buffer.length > limit
          ? reader.onBody(undefined, decodedTooLarge())
          : reader.onBody(result.buffer, undefined);
      reader.onBody(
        undefined,
        (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE'
          ? decodedTooLarge()
          : malformed(coding),
      );
    },
  );
}

/** Takes the coding off a body as it arrives; errors as {@link decodeWhole}, and those of `coded`. */
export async function* decodedChunks(
  coded: AsyncIterable<Uint8Array>,
  coding: BodyCoding,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decoder = DECODERS[coding].stream(strictness(coding));
  const received = { bytes: 0 };
  let given = 0;
  void feed(coding === 'zstd' ? framesOf(coded) : coded, decoder, received);
  try {
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      given += chunk.length;
      if (given > maxBytes || given > mostOf(received.bytes)) throw decodedTooLarge();
      yield chunk;
    }
    if (decoder.bytesWritten < received.bytes) throw malformed(coding);
  } catch (error) {
    if (error instanceof HTTPException || error instanceof ClientDisconnected) throw error;
    if (received.bytes > 0) throw malformed(coding);
  }
}

/** Writes all there is, as fast as it is read. Never rejects: a failure ends the decoder. */
async function feed(
  coded: AsyncIterable<Uint8Array>,
  decoder: Transform,
  received: { bytes: number },
): Promise<void> {
  try {
    for await (const chunk of coded) {
      received.bytes += chunk.length;
      if (!decoder.write(chunk)) await writable(decoder);
      if (decoder.destroyed) return;
    }
    decoder.end();
  } catch (error) {
    decoder.destroy(error as Error); // errors of our own, or of node's streams
  }
}

async function* oneChunk(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes;
}

/** The same bytes in pieces of which none goes beyond the end of a frame. @throws BadRequest for too many frames */
async function* framesOf(coded: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  const frames = new ZstdFrames();
  let count = 0;
  for await (const chunk of coded) {
    for (let at = 0; at < chunk.length;) {
      const end = frames.endIn(chunk, at);
      if (end < chunk.length && ++count > MAX_FRAMES) throw malformed('zstd');
      yield chunk.subarray(at, end);
      at = end;
    }
  }
}

function mostOf(received: number): number {
  return Math.max(FREE_BYTES, received * MAX_RATIO);
}

function decodedTooLarge(): PayloadTooLarge {
  return new PayloadTooLarge('The request body becomes too large when its content coding is taken off');
}

function malformed(coding: BodyCoding): BadRequest {
  return new BadRequest(`The request body is not valid ${coding}`, { code: 'encoding' });
}

/*
 * Zstandard frames (RFC 8878 §3.1): bytes in, where each frame ends out. Nothing is decoded here.
 *
 *   frame     = FD2FB528  descriptor:1  [window:1] [dictionary:1,2,4] [size:1,2,4,8]  { block }  [checksum:4]
 *   block     = last:1 type:2 size:21 (3 bytes)  content        of type RLE one byte of content, whatever the size
 *   skippable = 184D2A5?  size:4  content                                        all numbers are little-endian
 *
 * Other bytes have no end: the decoder refuses them.
 */

const MAGIC = 0xfd2fb528;
const SKIPPABLE_MAGIC = 0x184d2a5;
const MAGIC_BYTES = 4,
  SIZE_BYTES = 4,
  BLOCK_BYTES = 3,
  CHECKSUM_BYTES = 4;
const SINGLE_SEGMENT = 0x20,
  CHECKSUM = 0x04,
  DICTIONARY = 0x03;
const DICTIONARY_BYTES = [0, 1, 2, 4] as const;
const CONTENT_SIZE_BYTES = [0, 2, 4, 8] as const;
const LAST = 1,
  RLE = 1;

/** Follows frames through chunks, however they are cut. */
export class ZstdFrames {
  /** Reads the number that comes next, and says what follows. */
  #read: (value: number) => void = this.#magic;
  #wanted = MAGIC_BYTES;
  #value = 0;
  #got = 0;
  /** Bytes that are not read. */
  #passing = 0;
  /** Whether the frame ends behind them. */
  #isEnding = false;
  #checksumBytes = 0;

  /** Where the frame ends whose next bytes are those at `start`: the index behind it, or the length of a chunk that it goes beyond. */
  endIn(chunk: Uint8Array, start: number): number {
    for (let at = start; at < chunk.length;) {
      if (this.#passing > 0) {
        const passed = Math.min(this.#passing, chunk.length - at);
        this.#passing -= passed;
        at += passed;
      } else {
        if (this.#read === this.#block && this.#got === 0) at = behindBlocks(chunk, at);
        if (at === chunk.length) break;
        this.#value |= chunk[at++]! << (8 * this.#got++);
        if (this.#got < this.#wanted) continue;
        const value = this.#value >>> 0; // four bytes have a sign until then
        this.#value = this.#got = 0;
        this.#read(value);
      }
      if (this.#passing > 0 || !this.#isEnding) continue;
      this.#isEnding = false;
      this.#expect(MAGIC_BYTES, this.#magic);
      return at;
    }
    return chunk.length;
  }

  #magic(value: number): void {
    if (value === MAGIC) this.#expect(1, this.#descriptor);
    else if (Math.floor(value / 16) === SKIPPABLE_MAGIC) this.#expect(SIZE_BYTES, this.#end);
    else this.#passing = Infinity;
  }

  #descriptor(value: number): void {
    const isSingle = (value & SINGLE_SEGMENT) !== 0;
    const sizeBytes = isSingle && value < 0x40 ? 1 : CONTENT_SIZE_BYTES[(value >> 6) & 3]!;
    this.#checksumBytes = (value & CHECKSUM) === 0 ? 0 : CHECKSUM_BYTES;
    this.#passing = (isSingle ? 0 : 1) + DICTIONARY_BYTES[value & DICTIONARY]! + sizeBytes;
    this.#expect(BLOCK_BYTES, this.#block);
  }

  #block(value: number): void {
    const content = contentOf(value);
    if ((value & LAST) !== 0) this.#end(content + this.#checksumBytes);
    else this.#passing = content;
  }

  /** So many bytes more. */
  #end(bytes: number): void {
    this.#passing = bytes;
    this.#isEnding = true;
  }

  #expect(bytes: number, read: (value: number) => void): void {
    this.#wanted = bytes;
    this.#read = read;
  }
}

/** Behind the blocks that stand in `chunk` whole, but for the last one of a frame: empty ones make millions of a body. */
function behindBlocks(chunk: Uint8Array, start: number): number {
  let at = start;
  while (at + BLOCK_BYTES <= chunk.length) {
    const head = chunk[at]! | (chunk[at + 1]! << 8) | (chunk[at + 2]! << 16);
    const end = at + BLOCK_BYTES + contentOf(head);
    if ((head & LAST) !== 0 || end > chunk.length) break;
    at = end;
  }
  return at;
}

function contentOf(blockHead: number): number {
  return ((blockHead >> 1) & 3) === RLE ? 1 : blockHead >> 3;
}
