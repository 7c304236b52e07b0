/**
 * Text of a few bytes: shortAscii() beside the methods of Buffer, which it goes back to beyond eight.
 *
 *   node --conditions=svc-source test/bench/short-text.ts
 */
import { shortAscii } from '../../src/db/wire/bytes.ts';

const ROUNDS = 8;
const TEXTS = 100_000;

/** Methods that Node has, and its manual has not. */
interface Slices {
  utf8Slice(at: number, end: number): string;
  latin1Slice(at: number, end: number): string;
}

type Way = (bytes: Buffer, at: number, end: number) => string;

const WAYS: Readonly<Record<string, Way>> = {
  'toString()': (bytes, at, end) => bytes.toString('utf8', at, end),
  utf8Slice: (bytes, at, end) => (bytes as unknown as Slices).utf8Slice(at, end),
  latin1Slice: (bytes, at, end) => (bytes as unknown as Slices).latin1Slice(at, end),
  shortAscii: (bytes, at, end) =>
    shortAscii(bytes, at, end) ?? (bytes as unknown as Slices).utf8Slice(at, end),
};

const bytes = Buffer.alloc(64 * 1024, 'abcdefghijklmnopqrstuvwxyz');
console.log(`ns for each text | ${Object.keys(WAYS).join(' | ')}`);
for (const length of [1, 2, 4, 6, 8, 9, 20]) {
  const figures = Object.values(WAYS).map((way) => {
    let best = Infinity;
    for (let round = 0; round < ROUNDS; round++) {
      const kept: string[] = [];
      const startMs = performance.now();
      for (let index = 0; index < TEXTS; index++) {
        const at = (index * 37) % 60_000;
        kept.push(way(bytes, at, at + length));
        if (kept.length === 1_000) kept.length = 0;
      }
      best = Math.min(best, ((performance.now() - startMs) * 1e6) / TEXTS);
    }
    return best.toFixed(0);
  });
  console.log(`${length} characters | ${figures.join(' | ')}`);
}
