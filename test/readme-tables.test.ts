/**
 * Tables of README.md that the sources say: commands, metrics, events of the log. UPDATE_API=1 writes them anew. And its contents.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';
import { unwrapped } from './support/unwrapped.ts';

const README = join(ROOT, 'README.md');
const SOURCES: readonly (readonly [file: string, text: string])[] = readdirSync(join(ROOT, 'src'), {
  recursive: true,
  encoding: 'utf8',
})
  .map((file) => file.replaceAll('\\', '/'))
  .filter(
    (file) => file.endsWith('.ts') && !file.startsWith('cli/starter/') && file !== 'check/explanations.ts', // files of new projects, and examples
  )
  .sort()
  .map((file) => [file, unwrapped(readFileSync(join(ROOT, 'src', file), 'utf8'))]);

/** Every match over all sources. */
function found(pattern: RegExp): { readonly file: string; readonly match: RegExpExecArray }[] {
  return SOURCES.flatMap(([file, text]) => [...text.matchAll(pattern)].map((match) => ({ file, match })));
}

function cell(text: string): string {
  return text.replaceAll("\\'", "'").replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

/** The commands, as their modules export them; that of completion is made of the others. */
async function commands(): Promise<string[]> {
  const files = SOURCES.map(([file]) => file).filter((file) => /^cli\/\w+\.ts$/.test(file));
  const exported = await Promise.all(
    files.map(async (file) =>
      Object.entries((await import(join(ROOT, 'src', file))) as Record<string, unknown>),
    ),
  );
  const all = exported
    .flat()
    .flatMap(([name, value]) =>
      /^\w+Command$/.test(name)
        ? [(typeof value === 'function' ? value(() => ({})) : value) as { usage: string; summary: string }]
        : [],
    );
  return [
    '| command | what |',
    '|---|---|',
    ...all.map(
      ({ usage, summary }) =>
        `| ${usage
          .split('\n')
          .map((line) => `\`${line.trim().replaceAll('|', '\\|')}\``)
          .join('<br>')} | ${cell(summary)} |`,
    ),
  ];
}

function metrics(): string[] {
  const rows = found(
    /(?<=\.|shared)([cC]ounter|gauge|histogram)\(\s*(?:[\w.]+,\s*)?'(svc_\w+)',\s*'((?:[^'\\]|\\.)*)'(?:[^;]*?\[('[^\]]*)\])?/g,
  ).map(
    ({ match: [, kind, name, help, labels] }) =>
      `| \`${name!}${labels === undefined || !/^'[a-z_]+'(?:, '[a-z_]+')*$/.test(labels) ? '' : `{${labels.replaceAll("'", '')}}`}\` | ${kind!.toLowerCase()} | ${cell(help!)} |`,
  );
  return ['| metric | kind | what |', '|---|---|---|', ...new Set(rows.sort())];
}

function events(): string[] {
  const said = new Map<string, { levels: Set<string>; files: Set<string> }>();
  const add = (event: string, level: string, file: string): void => {
    const one = said.get(event) ?? { levels: new Set(), files: new Set() };
    said.set(event, one);
    one.levels.add(level);
    one.files.add(file);
  };
  for (const {
    file,
    match: [, level, event],
  } of found(/\.(info|warn|error)\(\s*'([a-z]+(?:_[a-z]+)*)'/g))
    add(event!, level!, file);
  for (const {
    file,
    match: [, level, choice],
  } of found(/[lL]og\.(info|warn|error)\(([^'][^,\n]* \? '[^,\n]*),/g))
    for (const [, event] of choice!.matchAll(/[?:] '([a-z_]+)'/g)) add(event!, level!, file); // one of several
  for (const {
    file,
    match: [, event],
  } of found(/(?:audit|[lL]og)\??\.refused\('([a-z_]+)'/g))
    add(event!, 'warn', file); // SecurityLog
  for (const {
    file,
    match: [, event],
  } of found(/#report\('([a-z_]+)'/g))
    if (file === 'cache/cached.ts') add(event!, 'error', file);
  return [
    '| event | level | said by |',
    '|---|---|---|',
    ...[...said]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(
        ([event, { levels, files }]) =>
          `| \`${event}\` | ${[...levels].sort().join(', ')} | ${[...files].join(', ')} |`,
      ),
  ];
}

for (const [name, table, least] of [
  ['commands', commands, 8],
  ['metrics', metrics, 30],
  ['events', events, 40],
] as const) {
  test(`README.md has the table of ${name} that the sources say`, async () => {
    const rows = await table();
    const pattern = new RegExp(`(<!-- ${name} -->\n)([^]*?)(<!-- end of ${name} -->)`);
    if (process.env['UPDATE_API'] === '1')
      writeFileSync(
        README,
        readFileSync(README, 'utf8').replace(
          pattern,
          (_all, before: string, _old, after: string) => `${before}${rows.join('\n')}\n${after}`,
        ),
      );
    const there =
      pattern.exec(readFileSync(README, 'utf8'))?.[2] ??
      assert.fail(`README.md has lost the marks around ${name}`);
    assert.deepEqual(there.trim().split('\n'), rows, 'run this test with UPDATE_API=1');
    assert.ok(rows.length - 2 >= least, `${rows.length - 2} rows`);
  });
}

test('the contents of README.md lead to every section, and to no other', () => {
  const text = readFileSync(README, 'utf8').replace(/^```[^]*?^```/gm, '');
  const slugs = [...text.matchAll(/^## (.+)$/gm)].map(
    ([, title]) =>
      `#${title!
        .toLowerCase()
        .replace(/[^\w\- ]/g, '')
        .replaceAll(' ', '-')}`,
  );
  const [contents] = /^## Contents\n[^]*?(?=^## )/m.exec(text) ?? assert.fail('there are no contents');
  const linked = [...contents.matchAll(/\]\((#[^)]+)\)/g)].map(([, to]) => to!);
  assert.deepEqual([...linked].sort(), slugs.filter((slug) => slug !== '#contents').sort());
  for (const [, to] of text.matchAll(/\]\((#[^)]+)\)/g)) assert.ok(slugs.includes(to!), to);
});
