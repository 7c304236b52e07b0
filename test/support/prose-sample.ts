/**
 * Prints comments, messages and test names for a reader who rates whether each is clear at first reading.
 *
 *   node test/support/prose-sample.ts [COMMIT]
 *
 * Draws 60 comments and 40 messages from `src`, and 40 test names from `test`. The hash of COMMIT (default:
 * HEAD) is the seed, so that the sample is not chosen by hand and can be repeated. Prints a comment with the
 * line of code that it describes, and a message with all its parts.
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

/** Returns the line of code that the comment at this offset describes: its own line, or the next one. */
function describedLine(source: string, offset: number): string {
  const lineStart = source.lastIndexOf('\n', offset) + 1;
  const [before, ...following] = source.slice(lineStart).split('\n');
  const isCode = (line: string): boolean => /^\s*(?![\s/*])./.test(line);
  const ownCode = before!.split(/\/\/|\/\*/)[0]!;
  const inside =
    source.slice(lineStart, offset).includes('//') || source.slice(lineStart, offset).includes('/*');
  return (inside && isCode(ownCode) ? ownCode : (following.find(isCode) ?? '')).trim();
}

/** Returns the text of a passage. Appends the further parts of a message that is joined with `+`. */
function wholeText(passages: readonly Passage[], index: number): string {
  const { kind, text } = passages[index]!;
  let whole = text;
  for (let next = index + 1; kind === 'message' && passages[next]?.isStart === false; next++)
    whole += passages[next]!.text;
  return whole.replace(/\s*\n[ *]*/g, ' ').trim();
}

for (const [kind, folder, count] of SAMPLES) {
  const candidates = checkedFiles()
    .filter((file) => file.startsWith(folder) && file.endsWith('.ts'))
    .flatMap((file) => {
      const source = readFileSync(join(ROOT, file), 'utf8');
      return scanSource(source).flatMap((passage, index, passages) => {
        if (passage.kind !== kind || !passage.isStart) return [];
        const text = wholeText(passages, index);
        if (text.split(/\s+/).filter((word) => /\p{L}/u.test(word)).length < FEWEST_WORDS) return [];
        const place = `${file}:${source.slice(0, passage.offset).split('\n').length}`;
        return [
          { place, text, code: kind === 'comment' && index > 0 ? describedLine(source, passage.offset) : '' },
        ];
      });
    });
  console.log(`\n${count} of ${candidates.length}: ${kind}s of ${folder}\n`);
  for (let number = 1; number <= count; number++) {
    const [{ place, text, code }] = candidates.splice(below(candidates.length), 1) as [
      (typeof candidates)[0],
    ];
    console.log(`${number}. ${text}\n   ${place}${code === '' ? '' : `   ${code}`}`);
  }
}
