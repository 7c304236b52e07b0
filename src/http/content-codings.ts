/**
 * Content codings (RFC 9110 §8.4.1): how each of them codes bytes, at once, apart from the event loop, or piece by piece.
 */
import * as zlib from 'node:zlib'; // as a whole: Node.js 20 links, and can say that it is too old
import type { Transform } from 'node:stream';

/** What answers are compressed with. */
export type ContentCoding = 'zstd' | 'br' | 'gzip';

/** How much effort each coding may make. */
interface CodingLevels {
  readonly zstd: number;
  readonly br: number;
  readonly gzip: number;
}

/** A coding at one level. */
export interface Coder {
  /** Up to so many bytes it takes less time than handing them to another thread would. */
  readonly syncBytes: number;
  now(bytes: Uint8Array): Buffer;
  later(bytes: Uint8Array, done: (error: Error | null, coded: Buffer) => void): void;
  /** For pieces; windows are small, as there may be many at a time. */
  stream(): Transform;
  /** What makes a stream give all that it has. */
  readonly flush: number;
}

/** Bits of the window of a stream: 256 KiB. */
const STREAM_WINDOW_BITS = 18;
/** Measured: at 14 kB gzip and br take 65 µs here and 105 µs elsewhere, zstd at 56 kB 95 and 500 (test/bench/streams.ts). */
const SYNC_BYTES = 16_384;
const ZSTD_SYNC_BYTES = 65_536;

/** Makes the coders of an application. */
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
 * Content codings: which of those on offer a client wants most (RFC 9110 §12.5.3).
 *
 *   Accept-Encoding: gzip;q=0.8, br, *;q=0          members with a weight 0 ... 1, three decimals; "*" is what is not named
 */

/** `coding [ ; q=weight ]`, white space around each part (RFC 9110 §12.4.2). Three decimals fit thousandths. */
const MEMBER =
  /^[ \t]*([!#$%&'*+\-.^_`|~0-9A-Za-z]+)[ \t]*(?:;[ \t]*q=(?:(1(?:\.0{0,3})?)|0(?:\.(\d{0,3}))?)[ \t]*)?$/i;

/** More members say nothing new: of a longer field the rest is not read. */
const MAX_MEMBERS = 32;

/**
 * The coding to answer with, or undefined for the content as it is. Of equal weights the first of `offered` wins, so that
 * comes in order of preference, in lower case; content as it is comes last unless `identity` has a greater weight.
 *
 * Without the field, or with an empty one, nothing is coded. A malformed member is as if it were not there; of two members
 * for one coding the first counts; `x-gzip` is `gzip` (§8.4.1.3). Who refuses even `identity` gets it nevertheless, where
 * nothing else fits: the RFC leaves that open, and an answer is worth more than a 406.
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

/** Weights in thousandths by coding in lower case. */
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
