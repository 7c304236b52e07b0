/**
 * Tables of the manuals that are made from the sources: commands, metrics, log events. UPDATE_API=1 writes them.
 * Links between manuals lead somewhere.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { test } from 'node:test';
import { ROOT } from './support/build.ts';
import { MANUAL_PATHS, manual, manuals } from './support/manuals.ts';
import { unwrapped } from './support/unwrapped.ts';

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

for (const [name, path, table, least] of [
  ['commands', 'src/cli/README.md', commands, 8],
  ['metrics', 'src/REFERENCE.md', metrics, 30],
  ['events', 'src/REFERENCE.md', events, 40],
] as const) {
  test(`${path} has the table of ${name} that the sources give`, async () => {
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

/** The anchors of a manual's headings, as GitHub makes them. */
function anchorsOf(text: string): readonly string[] {
  return [...withoutCode(text).matchAll(/^#{1,4} (.+)$/gm)].map(([, title]) =>
    title!
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  );
}

function withoutCode(text: string): string {
  return text.replace(/^```[^]*?^```/gm, '');
}

test('every link of a manual to a file or a heading leads to it', () => {
  for (const { path, text } of manuals()) {
    for (const [, to, anchor] of withoutCode(text).matchAll(/\]\((?![a-z]+:)([^)#]*)(?:#([^)]+))?\)/g)) {
      const target = to === '' ? path : posix.join(posix.dirname(path), to!);
      assert.ok(existsSync(join(ROOT, target)), `${path}: ${to}`);
      if (anchor !== undefined)
        assert.ok(anchorsOf(manual(target)).includes(anchor), `${path}: ${to}#${anchor}`);
    }
  }
});

test('README.md links every manual', () => {
  const linked = [...manual('README.md').matchAll(/\]\(([^)#]+\.md)/g)].map(([, to]) => to!);
  assert.deepEqual(
    MANUAL_PATHS.filter((path) => path !== 'README.md' && !linked.includes(path)),
    [],
  );
});
