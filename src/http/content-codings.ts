/**
 * Content codings (RFC 9110 §8.4.1): encodes bytes synchronously, in the thread pool, or chunk by chunk.
 */
// A namespace import, because node:zlib of Node.js 20 lacks some members. Named imports would fail before the
// program can report that this version of Node.js is too old.
import * as zlib from 'node:zlib';
import type { Transform } from 'node:stream';

/** Content codings in which responses are sent. */
export type ContentCoding = 'zstd' | 'br' | 'gzip';

interface CodingLevels {
  readonly zstd: number;
  readonly br: number;
  readonly gzip: number;
}

/** Compresses bodies with one content coding at one compression level. */
export interface Coder {
  /** Bodies up to this number of bytes are compressed faster in this thread than in the thread pool. */
  readonly syncBytes: number;
  now(bytes: Uint8Array): Buffer;
  later(bytes: Uint8Array, done: (error: Error | null, coded: Buffer) => void): void;
  /**
   * Returns an encoder for a body in chunks. Its window is small to save memory, because many streams may run
   * at once.
   */
  stream(): Transform;
  /** Flush mode of node:zlib with which the encoder outputs each chunk at once. */
  readonly flush: number;
}

/** Window of a streaming encoder, as a power of two: 256 KiB. */
const STREAM_WINDOW_BITS = 18;
/**
 * Bodies up to this number of bytes are compressed faster in this thread than in the thread pool. 14 kB of
 * gzip or br take 65 µs instead of 105, and 56 kB of zstd 95 µs instead of 500 (test/bench/streams.ts).
 */
const SYNC_BYTES = 16_384;
const ZSTD_SYNC_BYTES = 65_536;

/** Returns the encoders of an application by content coding, with the given compression levels. */
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
 * Chooses the content coding that a client prefers (RFC 9110 §12.5.3), for example from
 * `Accept-Encoding: gzip;q=0.8, br, *;q=0`. `*` stands for every coding that the field does not name.
 */

/**
 * Syntax of one list member of `Accept-Encoding`: a coding, then optionally its weight 0 ... 1 with at most
 * three decimals (RFC 9110 §12.4.2).
 */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*(?:;[ \t]*q=(?:(1(?:\.0{0,3})?)|0(?:\.(\d{0,3}))?)[ \t]*)?$/i;

/** Maximum number of list members that are read. Further members are ignored. */
const MAX_MEMBERS = 32;

/**
 * Returns the content coding for a response, or undefined for no coding (identity). `offered` lists codings
 * in lower case, the preferred one first. The coding with the greatest weight in `Accept-Encoding` wins, and
 * of equal weights the first in `offered`. If identity has a greater weight, the result is undefined.
 *
 * Without the field, or with an empty one, the result is undefined. Malformed members are ignored. If a
 * coding is named twice, the first weight counts. `x-gzip` means `gzip` (RFC 9110 §8.4.1.3). A client that
 * refuses even `identity` still gets an uncompressed response: the RFC allows it, and a 406 would be less
 * useful.
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

/** Returns the weight of each named coding in thousandths. The keys are in lower case. */
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
