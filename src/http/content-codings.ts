/**
 * Content codings (RFC 9110 §8.4.1): how each of them codes bytes, at once, apart from the event loop, or piece by piece.
 */
import { brotliCompress, brotliCompressSync, constants, createBrotliCompress, createGzip, createZstdCompress, gzip, gzipSync, zstdCompress, zstdCompressSync } from 'node:zlib';
import type { Transform } from 'node:stream';

/** What answers are compressed with. */
export type ContentCoding = 'zstd' | 'br' | 'gzip';

/** How much effort each coding may make. */
export interface CodingLevels {
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
  const brotli = (bytes: number): object => ({ params: { [constants.BROTLI_PARAM_QUALITY]: levels.br, [constants.BROTLI_PARAM_SIZE_HINT]: bytes } });
  const zstd = { params: { [constants.ZSTD_c_compressionLevel]: levels.zstd } };
  return {
    gzip: {
      syncBytes: SYNC_BYTES, flush: constants.Z_SYNC_FLUSH, now: (bytes) => gzipSync(bytes, gzipOptions), later: (bytes, done) => gzip(bytes, gzipOptions, done),
      stream: () => createGzip({ ...gzipOptions, windowBits: 14, memLevel: 7 }),
    },
    br: {
      syncBytes: SYNC_BYTES, flush: constants.BROTLI_OPERATION_FLUSH, now: (bytes) => brotliCompressSync(bytes, brotli(bytes.length)), later: (bytes, done) => brotliCompress(bytes, brotli(bytes.length), done),
      stream: () => createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: levels.br, [constants.BROTLI_PARAM_LGWIN]: STREAM_WINDOW_BITS } }),
    },
    zstd: {
      syncBytes: ZSTD_SYNC_BYTES, flush: constants.ZSTD_e_flush, now: (bytes) => zstdCompressSync(bytes, zstd), later: (bytes, done) => zstdCompress(bytes, zstd, done),
      stream: () => createZstdCompress({ params: { ...zstd.params, [constants.ZSTD_c_windowLog]: STREAM_WINDOW_BITS } }),
    },
  };
}
