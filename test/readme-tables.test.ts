/**
 * Tables of the manuals that are made from the sources. UPDATE_API=1 writes them; `npm run docs` also
 * writes the tables of options.
 * Links between manuals lead somewhere.
 */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';
import { anchorOf, blocksOf } from './support/markdown.ts';
import { MANUAL_PATHS, manual, manuals } from './support/manuals.ts';
import {
  commandOptions,
  commandTable,
  events,
  findings,
  metrics,
  variables,
} from './support/reference/tables.ts';

for (const [name, path, table, least] of [
  ['commands', 'src/cli/README.md', commandTable, 8],
  ['command options', 'src/REFERENCE.md', commandOptions, 30],
  ['metrics', 'src/REFERENCE.md', metrics, 30],
  ['events', 'src/REFERENCE.md', events, 40],
  ['findings', 'src/REFERENCE.md', findings, 60],
  ['variables', 'src/REFERENCE.md', variables, 25],
] as const) {
  test(`the generated table of ${name} in ${path} is up to date with the sources`, async () => {
    const rows = await table();
    const pattern = new RegExp(`(<!-- ${name} -->\n)([^]*?)(<!-- end of ${name} -->)`);
    if (process.env['UPDATE_API'] === '1')
      writeFileSync(
        join(ROOT, path),
        manual(path).replace(
          pattern,
          (_all, before: string, _old, after: string) => `${before}${rows.join('\n')}\n${after}`,
        ),
      );
    const there = pattern.exec(manual(path))?.[2] ?? assert.fail(`${path} has lost the marks around ${name}`);
    assert.deepEqual(there.trim().split('\n'), rows, 'run this test with UPDATE_API=1');
    assert.ok(rows.length - 2 >= least, `${rows.length - 2} rows`);
  });
}

/** The anchors of a manual's headings. */
function anchorsOf(text: string): readonly string[] {
  return blocksOf(text).flatMap((block) => (block.kind === 'heading' ? [anchorOf(block.text)] : []));
}

function withoutCode(text: string): string {
  return blocksOf(text)
    .filter(({ kind }) => kind !== 'code' && kind !== 'html comment')
    .map((block) => block.text)
    .join('\n');
}

test('every link from a manual to a file or heading has an existing target', () => {
  for (const { path, text } of manuals()) {
    for (const [, to, anchor] of withoutCode(text).matchAll(/\]\((?![a-z]+:)([^)#]*)(?:#([^)]+))?\)/g)) {
      const target = to === '' ? path : posix.join(posix.dirname(path), to!);
      assert.ok(existsSync(join(ROOT, target)), `${path}: ${to}`);
      if (anchor !== undefined)
        assert.ok(anchorsOf(manual(target)).includes(anchor), `${path}: ${to}#${anchor}`);
    }
  }
});

test('README.md links to every manual', () => {
  const linked = [...manual('README.md').matchAll(/\]\(([^)#]+\.md)/g)].map(([, to]) => to!);
  assert.deepEqual(
    MANUAL_PATHS.filter((path) => path !== 'README.md' && !linked.includes(path)),
    [],
  );
});

/** Paragraphs, list items and table cells of a manual, without code. */
function passagesOf(text: string): string[] {
  return blocksOf(text).flatMap((block) => {
    if (block.kind === 'row') return block.text.split(/(?<!\\)\|/);
    return block.kind === 'prose' || block.kind === 'heading' ? [block.text] : [];
  });
}

/** Sentences, with a code span or a link as one word. */
function sentencesOf(passage: string): string[] {
  return passage
    .replace(/`[^`]*`/g, 'X')
    .replace(/\]\([^)]*\)/g, ']')
    .split(/(?<=[.!?:])\s+(?=[A-Z[*])/);
}

test('no sentence in a manual has more than 25 words', () => {
  const long = manuals()
    .filter(({ path }) => path !== 'src/REFERENCE.md') // it is generated
    .flatMap(({ path, text }) =>
      passagesOf(text.replace(/<!-- options of [^]*?<!-- end of options -->/g, ''))
        .flatMap(sentencesOf)
        .filter((sentence) => sentence.split(/\s+/).filter((word) => /\w/.test(word)).length > 25)
        .map((sentence) => `${path}: ${sentence}`),
    );
  assert.deepEqual(long, []);
});

test('README.md has at most 250 lines, and each question in README.md links to a section with code', () => {
  const readme = manual('README.md');
  assert.ok(readme.trimEnd().split('\n').length <= 250);
  const questions = [...readme.matchAll(/^\| [^|]*\? \| (.*#.*) \|$/gm)];
  assert.equal(questions.length, 41);
  for (const [row, answer] of questions) {
    const links = [...answer!.matchAll(/\[[^\]]*\]\(([^)#]+)#([^)]+)\)/g)];
    const hasCode = links.some(([, path, anchor]) => {
      const sections = manual(path!).split(/^(?=## )/m);
      const section = sections.find((text) => anchorsOf(text)[0] === anchor);
      return /^```\w+\n/m.test(section ?? '');
    });
    assert.ok(hasCode, row);
  }
});
