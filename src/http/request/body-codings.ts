/**
 * Content codings of request bodies (RFC 9110 §8.4): decoded while the body is read, if the application
 * enables it.
 *
 * A few bytes can decode to very many (a decompression bomb). So the output is limited in two ways: by the
 * limit of the body, and by a ratio to the size of the input. Nested codings are refused.
 */
// a namespace import, because named imports do not link on Node.js 20, and then the message that it is too
// old could not be shown
import * as zlib from 'node:zlib';
import { BadRequest, ClientDisconnected, HTTPException, PayloadTooLarge } from '../../base/errors.ts';
import { writable } from '../chunks.ts';
import type { Transform } from 'node:stream';
import type { BodyReader } from './body-stream.ts';

/** Content codings that request bodies may have. */
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
/** Result of a zlib function with the option `info: true`, for which Node's types have no type. */
interface Decoded {
  readonly buffer: Buffer;
  readonly engine: { readonly bytesWritten: number };
}

/** Decoder functions by coding. `deflate` is the zlib format (RFC 9110 §8.4.1.2), not raw deflate. */
const DECODERS: Readonly<
  Record<BodyCoding, { readonly whole: Whole; readonly stream: (options: DecoderOptions) => Decoder }>
> = {
  gzip: { whole: zlib.gunzip, stream: zlib.createGunzip },
  deflate: { whole: zlib.inflate, stream: zlib.createInflate },
  br: { whole: zlib.brotliDecompress, stream: zlib.createBrotliDecompress },
  zstd: { whole: zlib.zstdDecompress, stream: zlib.createZstdDecompress },
};
const ACCEPTED = Object.keys(DECODERS).join(', ');

/** Maximum ratio of decoded to coded bytes. Bodies up to `FREE_BYTES` may exceed it. */
const MAX_RATIO = 100;
const FREE_BYTES = 1_048_576;
/** Limit of a decoded body if the caller sets none, in bytes. */
const MAX_WHOLE_BYTES = 10_000_000;
/**
 * Options that refuse bytes after the coded body. They are not set for gzip, because several gzip members may
 * follow each other (RFC 1952 §2.2), and Node decodes all of them. If the bytes after them begin with a zero,
 * Node ignores the bytes; decodeWhole() detects that by the number of bytes consumed. Of several zstd frames
 * (RFC 8878 §3.1), Node 24 decodes only the first, so further frames are refused.
 */
function strictness(coding: BodyCoding): DecoderOptions {
  return { rejectGarbageAfterEnd: coding !== 'gzip' };
}

/**
 * Parses a Content-Encoding field; undefined if the body has no coding. `isWanted`: whether codings are
 * enabled.
 *
 * @throws HTTPException 415 with `Accept-Encoding`, which names the supported codings (RFC 9110 §15.5.16)
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

/**
 * Decodes a whole body of at most `maxBytes`. Fails with PayloadTooLarge, or BadRequest for malformed data.
 */
export function decodeWhole(
  bytes: Uint8Array,
  coding: BodyCoding,
  maxBytes: number,
  reader: BodyReader,
): void {
  if (bytes.length === 0) return reader.onBody(bytes, undefined);
  const limit = Math.min(maxBytes === Infinity ? MAX_WHOLE_BYTES : maxBytes, mostOf(bytes.length));
  DECODERS[coding].whole(
    bytes,
    { ...strictness(coding), info: true, maxOutputLength: Math.max(1, limit) },
    (error, decoded) => {
      // the cast is safe: with the option `info` the result is an object
      const result = decoded as unknown as Decoded;
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

/** Decodes a body while it arrives. Throws the errors of {@link decodeWhole}, and errors of `coded`. */
export async function* decodedChunks(
  coded: AsyncIterable<Uint8Array>,
  coding: BodyCoding,
  maxBytes: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decoder = DECODERS[coding].stream(strictness(coding));
  const received = { bytes: 0 };
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
    if (error instanceof HTTPException || error instanceof ClientDisconnected) throw error;
    if (received.bytes > 0) throw malformed(coding);
  }
}

/**
 * Writes all chunks to the decoder, and waits whenever its buffer is full. Never rejects: an error destroys
 * the decoder, and so reaches its reader.
 */
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
    decoder.destroy(error as Error); // the cast is safe: only this module and Node's streams throw here
  }
}

function mostOf(received: number): number {
  return Math.max(FREE_BYTES, received * MAX_RATIO);
}

function decodedTooLarge(): PayloadTooLarge {
  return new PayloadTooLarge('The request body is too large after decoding its content coding');
}

function malformed(coding: BodyCoding): BadRequest {
  return new BadRequest(`The request body is not valid ${coding}`, { code: 'encoding' });
}
