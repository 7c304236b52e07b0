/**
 * Content codings (RFC 9110 §8.4.1): compresses response bodies, and chooses the coding that a client
 * prefers.
 */
// A namespace import, because node:zlib of Node.js 20 lacks zstd. Named imports would fail before the program
// can report that this version of Node.js is too old.
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
  /** Returns an encoder for a body in chunks. Its window is small, because many encoders may run at once. */
  stream(): Transform;
  /** Flush mode of node:zlib that makes the encoder of `stream()` output each chunk at once. */
  readonly flush: number;
}

/** Window size of streaming encoders as a power of two: 2^18 bytes are 256 KiB. */
const STREAM_WINDOW_BITS = 18;
/**
 * Bodies up to this number of bytes are compressed in this thread: 14 kB take 65 µs with gzip or br, but 105
 * µs in the thread pool (test/bench/streams.ts).
 */
const SYNC_BYTES = 16_384;
/**
 * With zstd, bodies up to this number of bytes are compressed in this thread: 56 kB take 95 µs, but 500 µs in
 * the thread pool.
 */
const ZSTD_SYNC_BYTES = 65_536;

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

/**
 * A list member of `Accept-Encoding`, such as `gzip;q=0.8`. The weight is optional: 0 ... 1 with at most
 * three decimals (RFC 9110 §12.4.2).
 */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*(?:;[ \t]*q=(?:(1(?:\.0{0,3})?)|0(?:\.(\d{0,3}))?)[ \t]*)?$/i;

/** Maximum number of list members that are read from `Accept-Encoding`. */
const MAX_MEMBERS = 32;

/**
 * Returns the content coding for a response, or undefined to send it uncompressed. `offered` lists codings in
 * lower case, the preferred one first. The coding with the greatest weight in `Accept-Encoding` wins. If
 * several codings have this weight, the first in `offered` wins.
 *
 * Malformed members of `Accept-Encoding` are ignored. `x-gzip` means `gzip` (RFC 9110 §8.4.1.3). A client
 * that refuses every coding, even `identity`, still gets an uncompressed response: the RFC allows it, and a
 * 406 would be less useful.
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

/** Returns the weight of each coding in `Accept-Encoding`, in thousandths. Coding names are in lower case. */
function weightsOf(header: string): ReadonlyMap<string, number> {
  const weights = new Map<string, number>();
  for (const member of header.split(',', MAX_MEMBERS)) {
    const match = MEMBER.exec(member);
    if (match === null) continue;
    const [, name = '', one, decimals] = match;
    const isFull = one !== undefined || !member.includes(';');
    const coding = name.toLowerCase() === 'x-gzip' ? 'gzip' : name.toLowerCase();
    if (!weights.has(coding)) weights.set(coding, isFull ? 1_000 : Number((decimals ?? '').padEnd(3, '0')));
  }
  return weights;
}
