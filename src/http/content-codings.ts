/**
 * Content codings (RFC 9110 §8.4.1): encodes bytes synchronously, in the thread pool, or chunk by chunk.
 */
// a namespace import, because named imports do not link on Node.js 20, and then the message that it is too
// old could not be shown
import * as zlib from 'node:zlib';
import type { Transform } from 'node:stream';

/** Codings of compressed responses. */
export type ContentCoding = 'zstd' | 'br' | 'gzip';

interface CodingLevels {
  readonly zstd: number;
  readonly br: number;
  readonly gzip: number;
}

/** An encoder for one coding at one level. */
export interface Coder {
  /** Up to this number of bytes, compressing in this thread is faster than in the thread pool. */
  readonly syncBytes: number;
  now(bytes: Uint8Array): Buffer;
  later(bytes: Uint8Array, done: (error: Error | null, coded: Buffer) => void): void;
  /** Encoder for a body in chunks. Its windows are small, because many streams may run at once. */
  stream(): Transform;
  /** Flush mode for node:zlib that sends each chunk at once. */
  readonly flush: number;
}

/** Window size of a stream as a power of two: 256 KiB. */
const STREAM_WINDOW_BITS = 18;
/**
 * Up to these sizes, compressing in this thread takes less time than in the thread pool. 14 kB of gzip or br
 * take 65 µs instead of 105, and 56 kB of zstd 95 µs instead of 500 (test/bench/streams.ts).
 */
const SYNC_BYTES = 16_384;
const ZSTD_SYNC_BYTES = 65_536;

/** Makes the encoders of an application, one for each coding. */
export function codersOf(levels: CodingLevels): Readonly<Record<ContentCoding, Coder>> {
  const gzipOptions = { level: levels.gzip };
  const brotli = (bytes: number): object => ({
    params: {
      [zlib.constants.BROTLI_PARAM_QUALITY]: levels.br,
      [zlib.constants.BROTLI_PARAM_SIZE_HINT]: bytes,
    },
  });
  const zstd = { params: { [zlib.constants.ZSTD_c_compressionLevel]: levels.zstd } };
  return {
    gzip: {
      syncBytes: SYNC_BYTES,
      flush: zlib.constants.Z_SYNC_FLUSH,
      now: (bytes) => zlib.gzipSync(bytes, gzipOptions),
      later: (bytes, done) => zlib.gzip(bytes, gzipOptions, done),
      stream: () => zlib.createGzip({ ...gzipOptions, windowBits: 14, memLevel: 7 }),
    },
    br: {
      syncBytes: SYNC_BYTES,
      flush: zlib.constants.BROTLI_OPERATION_FLUSH,
      now: (bytes) => zlib.brotliCompressSync(bytes, brotli(bytes.length)),
      later: (bytes, done) => zlib.brotliCompress(bytes, brotli(bytes.length), done),
      stream: () =>
        zlib.createBrotliCompress({
          params: {
            [zlib.constants.BROTLI_PARAM_QUALITY]: levels.br,
            [zlib.constants.BROTLI_PARAM_LGWIN]: STREAM_WINDOW_BITS,
          },
        }),
    },
    zstd: {
      syncBytes: ZSTD_SYNC_BYTES,
      flush: zlib.constants.ZSTD_e_flush,
      now: (bytes) => zlib.zstdCompressSync(bytes, zstd),
      later: (bytes, done) => zlib.zstdCompress(bytes, zstd, done),
      stream: () =>
        zlib.createZstdCompress({
          params: { ...zstd.params, [zlib.constants.ZSTD_c_windowLog]: STREAM_WINDOW_BITS },
        }),
    },
  };
}

/*
 * Chooses the content coding that a client prefers (RFC 9110 §12.5.3), for example by `Accept-Encoding:
 * gzip;q=0.8, br, *;q=0`. The member `*` stands for every coding that is not named.
 */

/**
 * Syntax of one member of the field: a coding, then optionally its weight 0 ... 1 with at most three decimals
 * (RFC 9110 §12.4.2).
 */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*(?:;[ \t]*q=(?:(1(?:\.0{0,3})?)|0(?:\.(\d{0,3}))?)[ \t]*)?$/i;

/** Maximum number of members that are read. Further members of the field are ignored. */
const MAX_MEMBERS = 32;

/**
 * Returns the coding for the response, or undefined to send it uncompressed (identity). Of equal weights the
 * first of `offered` wins: it lists codings in lower case, the preferred one first. The result is undefined
 * as well if identity has a greater weight than every coding of `offered`.
 *
 * Without the field, or with an empty one, the result is undefined. Malformed members are ignored. Of two
 * members for one coding the first is used; `x-gzip` is `gzip` (RFC 9110 §8.4.1.3). If the client refuses
 * even `identity`, the response is sent uncompressed nevertheless: the RFC allows that, and the response is
 * more useful than a 406.
 */
export function negotiateEncoding<const C extends string>(
  header: string | undefined,
  offered: readonly C[],
): C | undefined {
  if (header === undefined || header === '' || offered.length === 0) return undefined;
  const weights = weightsOf(header);
  const others = weights.get('*') ?? 0;
  let best: C | undefined;
  let bestWeight = 0;
  for (const coding of offered) {
    const weight = weights.get(coding) ?? others;
    if (weight > bestWeight) [best, bestWeight] = [coding, weight];
  }
  return bestWeight >= (weights.get('identity') ?? 0) ? best : undefined;
}

/** Returns the weight of each coding in thousandths, by its name in lower case. */
function weightsOf(header: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const member of header.split(',', MAX_MEMBERS)) {
    const match = MEMBER.exec(member);
    if (match === null) continue;
    const [, name, one, decimals] = match as unknown as [string, string, string?, string?];
    const isFull = one !== undefined || !member.includes(';');
    const coding = name.toLowerCase() === 'x-gzip' ? 'gzip' : name.toLowerCase();
    if (!weights.has(coding)) weights.set(coding, isFull ? 1_000 : Number((decimals ?? '').padEnd(3, '0')));
  }
  return weights;
}
