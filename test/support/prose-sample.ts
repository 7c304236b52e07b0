/**
 * Prints comments, messages and test names for a reader who rates whether each is clear at first reading.
 *
 *   node test/support/prose-sample.ts [COMMIT]
 *
 * Draws 60 comments and 40 messages from `src`, and 40 test names from `test`. The hash of COMMIT (default:
 * HEAD) is the seed, so that the sample is not chosen by hand and can be repeated.
 */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { seeded } from './random.ts';
import { checkedFiles, scanSource } from './style.ts';
import type { Passage } from './style.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const SAMPLES: readonly (readonly [kind: Passage['kind'], folder: string, count: number])[] = [
  ['comment', 'src/', 60],
  ['message', 'src/', 40],
  ['test name', 'test/', 40],
];
/** Shorter passages are markers such as `@internal`, or frames of values such as `… returned …`. */
const FEWEST_WORDS = 3;
const SEED_DIGITS = 8;

const hash = execFileSync('git', ['rev-parse', process.argv[2] ?? 'HEAD'], { cwd: ROOT, encoding: 'utf8' });
const below = seeded(Number.parseInt(hash.slice(0, SEED_DIGITS), 16));

for (const [kind, folder, count] of SAMPLES) {
  const candidates = checkedFiles()
    .filter((file) => file.startsWith(folder) && file.endsWith('.ts'))
    .flatMap((file) => {
      const source = readFileSync(join(ROOT, file), 'utf8');
      return scanSource(source)
        .filter((passage) => passage.kind === kind && passage.isStart)
        .filter(({ text }) => text.split(/\s+/).filter((word) => /\p{L}/u.test(word)).length >= FEWEST_WORDS)
        .map(({ text, offset }) => ({
          place: `${file}:${source.slice(0, offset).split('\n').length}`,
          text: text.replace(/\s*\n[ *]*/g, ' ').trim(),
        }));
    });
  console.log(`\n${count} of ${candidates.length}: ${kind}s of ${folder}\n`);
  for (let number = 1; number <= count; number++) {
    const [{ place, text }] = candidates.splice(below(candidates.length), 1) as [(typeof candidates)[0]];
    console.log(`${number}. ${text}\n   ${place}`);
  }
}
