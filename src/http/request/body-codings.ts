/**
 * Content codings of request bodies (RFC 9110 §8.4): taken off while a body is read, where the application wants that.
 *
 * Some bytes can stand for very many (a bomb): what comes out is counted, against the limit of the body, and against what
 * went in. Codings on top of each other are refused, as nobody needs them.
 */
import * as zlib from 'node:zlib'; // as a whole: Node.js 20 links, and can say that it is too old
import { BadRequest, ClientDisconnected, HTTPException, PayloadTooLarge } from '../../base/errors.ts';
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
  gzip: { whole: zlib.gunzip, stream: zlib.createGunzip },
  deflate: { whole: zlib.inflate, stream: zlib.createInflate },
  br: { whole: zlib.brotliDecompress, stream: zlib.createBrotliDecompress },
  zstd: { whole: zlib.zstdDecompress, stream: zlib.createZstdDecompress },
};
const ACCEPTED = Object.keys(DECODERS).join(', ');

/** How many bytes one may become, and how many any body may. */
const MAX_RATIO = 100;
const FREE_BYTES = 1_048_576;
/** Of whole bodies without a limit. */
const MAX_WHOLE_BYTES = 10_000_000;
/**
 * Bytes behind the coded body are no part of it, and no reader would see them. Members of gzip may follow each other (RFC 1952 §2.2):
 * Node reads all of them, and refuses other bytes behind them unless they begin with a zero. How much the decoder has taken tells
 * of those. Of several zstd frames (RFC 8878 §3.1) Node 24 decodes the first alone, so that further ones are refused.
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

function mostOf(received: number): number {
  return Math.max(FREE_BYTES, received * MAX_RATIO);
}

function decodedTooLarge(): PayloadTooLarge {
  return new PayloadTooLarge('The request body becomes too large when its content coding is taken off');
}

function malformed(coding: BodyCoding): BadRequest {
  return new BadRequest(`The request body is not valid ${coding}`, { code: 'encoding' });
}
