/**
 * What `/docs` costs: how long the page takes to be written, which happens once, and to be answered with, each time; how many
 * bytes each coding makes of it, at the levels that come into question.
 *
 *   node --conditions=svc-source test/bench/docs-page.ts        exits 1 when 500 operations are over 60 kB in br
 */
import { brotliCompressSync, constants, gzipSync, zstdCompressSync } from 'node:zlib';
import { pageParts } from '../../src/openapi/docs/page.ts';
import { readDocument } from '../../src/openapi/docs/document.ts';
import { LIBRARY, largeDocument } from '../support/openapi-documents.ts';

const CODINGS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  ...Object.fromEntries(
    [4, 5, 6, 9, 11].map((quality) => [
      `br ${quality}`,
      (bytes: Buffer) =>
        brotliCompressSync(bytes, {
          params: {
            [constants.BROTLI_PARAM_QUALITY]: quality,
            [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length,
          },
        }),
    ]),
  ),
  ...Object.fromEntries(
    [6, 9].map((level) => [`gzip ${level}`, (bytes: Buffer) => gzipSync(bytes, { level })]),
  ),
  ...Object.fromEntries(
    [3, 9].map((level) => [
      `zstd ${level}`,
      (bytes: Buffer) => zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } }),
    ]),
  ),
};

/** The median of five, in ms. */
function timed<T>(work: () => T): { readonly ms: number; readonly result: T } {
  const runs = Array.from({ length: 5 }, () => {
    const startMs = performance.now();
    const result = work();
    return { ms: performance.now() - startMs, result };
  }).sort((left, right) => left.ms - right.ms);
  return runs[2]!;
}

let isSmall = true;
for (const [name, document] of [
  ['13 operations', LIBRARY],
  ['500 operations', largeDocument(500)],
] as const) {
  const { ms, result } = timed(() =>
    Buffer.from(pageParts(readDocument(document), 'openapi.json').join('N'.repeat(24))),
  );
  console.log(`${name}: ${result.length} bytes, written in ${ms.toFixed(1)} ms`);
  for (const [coding, encode] of Object.entries(CODINGS)) {
    const coded = timed(() => encode(result).length);
    console.log(
      `  ${coding.padEnd(8)}${String(coded.result).padStart(7)} bytes in ${coded.ms.toFixed(1)} ms`,
    );
    if (coding === 'br 5' && coded.result > 60_000) isSmall = false;
  }
}
process.exitCode = isSmall ? 0 : 1;
