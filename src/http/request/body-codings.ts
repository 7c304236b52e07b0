/**
 * Content codings of request bodies (RFC 9110 §8.4). If the application enables them, bodies are decoded
 * while they are read.
 *
 * A small body can decode to a huge one (a decompression bomb). So two limits apply to the decoded size: the
 * limit for bodies, and a maximum ratio to the received size.
 */
// A namespace import, because node:zlib of Node.js 20 has no zstd functions. Named imports of them would fail
// before the program can report that this version of Node.js is too old.
import * as zlib from 'node:zlib';
import { ByteQueue } from '../../base/bytes.ts';
import { BadRequest, HTTPException, PayloadTooLarge } from '../../base/errors.ts';
import { writable } from '../chunks.ts';
import type { Transform } from 'node:stream';
import type { Awaitable } from '../contracts.ts';

/** Number of bytes of a compressed body that were read, and the error that ended the reading, if any. */
interface Received {
  bytes: number;
  error?: unknown;
}

/** Content codings that are decoded in request bodies. */
export type BodyCoding = 'gzip' | 'deflate' | 'br' | 'zstd';

interface DecoderOptions {
  readonly rejectGarbageAfterEnd: boolean;
}
type Decoder = Transform & { readonly bytesWritten: number };

/**
 * Functions of node:zlib for each coding. `deflate` means the zlib format (RFC 9110 §8.4.1.2), not raw
 * deflate.
 */
const DECODERS: Readonly<Record<BodyCoding, (options: DecoderOptions) => Decoder>> = {
  gzip: zlib.createGunzip,
  deflate: zlib.createInflate,
  br: zlib.createBrotliDecompress,
  zstd: zlib.createZstdDecompress,
};
const ACCEPTED = Object.keys(DECODERS).join(', ');

/** Maximum ratio of the decoded to the coded size, for bodies that decode to more than `FREE_BYTES`. */
const MAX_RATIO = 100;
const FREE_BYTES = 1_048_576;
/** Maximum decoded size in bytes if the caller sets no limit. */
const MAX_WHOLE_BYTES = 10_000_000;
/**
 * Returns zlib options that refuse extra bytes after a compressed body. Bodies of several zstd frames (RFC
 * 8878 §3.1) are refused, too, because Node 24 decodes only the first frame.
 *
 * For gzip, `rejectGarbageAfterEnd` is off, because a gzip body may have several members (RFC 1952 §2.2). The
 * decoder then ignores extra bytes that begin with a zero. So callers must check that the decoder has read
 * all bytes.
 */
function strictness(coding: BodyCoding): DecoderOptions {
  return { rejectGarbageAfterEnd: coding !== 'gzip' };
}

/** Returns undefined for `identity`. `isWanted`: whether the application decodes request bodies. */
export function bodyCodingOf(field: string, isWanted: boolean): BodyCoding | undefined {
  const name = field.trim().toLowerCase();
  if (name === 'identity' || name === '') return undefined;
  const coding = name === 'x-gzip' ? 'gzip' : name;
  if (isWanted && Object.hasOwn(DECODERS, coding)) return coding as BodyCoding;
  throw new HTTPException(
    415,
    isWanted
      ? `The Content-Encoding of the request body must be one of ${ACCEPTED}`
      : 'The request body must not have a Content-Encoding',
    { headers: { 'Accept-Encoding': isWanted ? ACCEPTED : 'identity' } },
  );
}

/** `onDecoded` gets the size of each decoded part, to count it; an exception of it ends the decoding. */
export function decodeWhole(
  bytes: Uint8Array,
  coding: BodyCoding,
  maxBytes: number,
  onDecoded: (bytes: number) => void,
): Awaitable<Uint8Array> {
  if (bytes.length === 0) return bytes;
  const limit = Math.min(maxBytes === Infinity ? MAX_WHOLE_BYTES : maxBytes, mostOf(bytes.length));
  const decoder = DECODERS[coding](strictness(coding));
  const parts = new ByteQueue();
  return new Promise((resolve, reject) => {
    const fail = (error: unknown): void => {
      decoder.destroy();
      reject(error);
    };
    decoder.on('data', (part: Buffer) => {
      parts.push(part);
      if (parts.length > limit) return fail(decodedTooLarge());
      try {
        onDecoded(part.length);
      } catch (error) {
        fail(error);
      }
    });
    decoder.on('error', () => reject(malformed(coding)));
    decoder.on('end', () => {
      if (decoder.bytesWritten < bytes.length) reject(malformed(coding));
      else resolve(parts.take(parts.length)!); // defined: the queue contains this number of bytes
    });
    decoder.end(bytes);
  });
}

/** Yields the decoded chunks of a body while it arrives. */
export async function* decodedChunks(
  coded: AsyncIterable<Uint8Array>,
  coding: BodyCoding,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decoder = DECODERS[coding](strictness(coding));
  const received: Received = { bytes: 0 };
  let given = 0;
  void feed(coded, decoder, received);
  try {
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      given += chunk.length;
      if (given > maxBytes || given > mostOf(received.bytes)) throw decodedTooLarge();
      yield chunk;
    }
    if (decoder.bytesWritten < received.bytes) throw malformed(coding);
  } catch (error) {
    if (error === received.error || error instanceof HTTPException) throw error;
    // an empty body is valid, although the decoder fails
    if (received.bytes > 0) throw malformed(coding);
  }
}

/**
 * Writes all chunks to the decoder, and waits whenever its buffer is full. Never rejects: an error destroys
 * the decoder, so reading from the decoder fails with this error.
 */
async function feed(coded: AsyncIterable<Uint8Array>, decoder: Transform, received: Received): Promise<void> {
  try {
    for await (const chunk of coded) {
      received.bytes += chunk.length;
      if (!decoder.write(chunk)) await writable(decoder);
      if (decoder.destroyed) return;
    }
    decoder.end();
  } catch (error) {
    // if the decoder is already destroyed, the decoder has failed, not the reading of the body
    if (!decoder.destroyed) received.error = error;
    decoder.destroy(error as Error);
  }
}

function mostOf(received: number): number {
  return Math.max(FREE_BYTES, received * MAX_RATIO);
}

function decodedTooLarge(): PayloadTooLarge {
  return new PayloadTooLarge('The request body is too large after decoding');
}

function malformed(coding: BodyCoding): BadRequest {
  return new BadRequest(`The request body is not valid ${coding}`, { code: 'encoding' });
}
