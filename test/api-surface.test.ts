/**
 * What programs can import, name by name. UPDATE_API=1 writes api-surface.txt anew, and the table of error codes in
 * src/REFERENCE.md; read the difference before you commit it.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { test } from 'node:test';
import { FAULTS } from '../src/base/faults.ts';
import { ROOT } from './support/build.ts';

const UPDATES = process.env['UPDATE_API'] === '1';
const SURFACE = join(ROOT, 'test/api-surface.txt');
const REFERENCE = join(ROOT, 'src/REFERENCE.md');

interface Exported {
  readonly name: string;
  readonly isType: boolean;
  /** The file that it is exported from next, and its name there; undefined when it is declared here. */
  readonly from: { readonly file: string; readonly name: string } | undefined;
}

/** The entry points of package.json and their sources. */
function entryPoints(): [name: string, file: string][] {
  const { exports } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as {
    exports: Record<string, string | { 'svc-source': string }>;
  };
  return Object.entries(exports).flatMap(([path, entry]) =>
    typeof entry === 'string' ? [] : [[path.replace('.', 'svc'), join(ROOT, entry['svc-source'])]],
  );
}

/** `export { … } from`, `export { … }` and exported declarations. `export *` names nothing, so it has no place here. */
function exportsOf(file: string): Exported[] {
  const text = readFileSync(file, 'utf8');
  assert.doesNotMatch(text, /^export \*/m, `${file}: name what is exported`);
  const lists = [...text.matchAll(/^export (type )?\{([^}]*)\}(?: from '([^']+)')?/gm)].flatMap(
    ([, type, names, from]) =>
      names!
        .split(',')
        .map((name) => name.trim())
        .filter((name) => name !== '')
        .map((item): Exported => {
          const [, inlineType, here, alias] = /^(type )?([\w$]+)(?: as ([\w$]+))?$/.exec(item)!;
          return {
            name: alias ?? here!,
            isType: type !== undefined || inlineType !== undefined,
            from: from === undefined ? undefined : { file: resolve(dirname(file), from), name: here! },
          };
        }),
  );
  const declared = [
    ...text.matchAll(
      /^export (?:declare )?(?:abstract )?(?:async )?(class|function\*?|const|let|interface|type) ([\w$]+)/gm,
    ),
  ].map(([, kind, name]): Exported => ({
    name: name!,
    isType: kind === 'interface' || kind === 'type',
    from: undefined,
  }));
  return [...new Map([...lists, ...declared].map((each) => [`${each.name} ${each.isType}`, each])).values()]; // overloads once
}

function surface(): string[] {
  return entryPoints()
    .flatMap(([entry, file]) =>
      exportsOf(file).map(({ name, isType }) => `${entry} ${isType ? 'type' : 'value'} ${name}`),
    )
    .sort();
}

test('the entry points export what test/api-surface.txt says, no more and no less', () => {
  const actual = surface();
  if (UPDATES) writeFileSync(SURFACE, `${actual.join('\n')}\n`);
  const expected = readFileSync(SURFACE, 'utf8').trimEnd().split('\n');
  const difference = [
    ...expected.filter((line) => !actual.includes(line)).map((line) => `- ${line}`),
    ...actual.filter((line) => !expected.includes(line)).map((line) => `+ ${line}`),
  ];
  assert.equal(
    difference.length,
    0,
    `The public interface has changed. If that is meant, run this test with UPDATE_API=1.\n${difference.join('\n')}`,
  );
  assert.deepEqual(expected, [...expected].sort(), 'test/api-surface.txt is sorted');
});

for (const [entry, file] of entryPoints()) {
  test(`${entry} exports at run time the values that its source names`, async () => {
    const values = exportsOf(file)
      .filter(({ isType }) => !isType)
      .map(({ name }) => name);
    assert.deepEqual(Object.keys((await import(entry)) as object).sort(), values.sort());
  });

  test(`everything that ${entry} exports has a doc comment where it is declared`, () => {
    assert.deepEqual(
      exportsOf(file)
        .filter((each) => !isDocumented(file, each))
        .map(({ name }) => name),
      [],
    );
  });
}

function isDocumented(file: string, { name, from }: Exported): boolean {
  const text = readFileSync(file, 'utf8');
  if (from !== undefined)
    return isDocumented(
      from.file,
      exportsOf(from.file).find((each) => each.name === from.name) ??
        assert.fail(`${from.file} exports no ${from.name}`),
    );
  const imported = new RegExp(`^import (?:type )?\\{[^}]*\\b${name}\\b[^}]*\\} from '([^']+)'`, 'm').exec(
    text,
  );
  if (imported !== null)
    return isDocumented(resolve(dirname(file), imported[1]!), { name, isType: false, from: undefined });
  const declaration = new RegExp(
    `\\*/\\n(?:export )?(?:declare )?(?:abstract )?(?:async )?(?:class|function\\*?|const|let|interface|type) ${name.replace('$', '\\$')}\\b`,
  );
  return declaration.test(text);
}

// ── error codes ──

/** What a fault describes, its arguments in ‹angle quotes›, as its template in the source says. */
function whatOf(code: string): string {
  const { describe } = FAULTS[code as keyof typeof FAULTS];
  const template = /`(Cannot [^`]*)`|'(Cannot [^']*)'/.exec(String(describe));
  assert.ok(template !== null, `${code}: its description does not begin with "Cannot "`);
  return (template[1] ?? template[2]!)
    .replace(/\$\{(?:JSON\.stringify\()?(\w+)\)?\}/g, '‹$1›')
    .replace(/\$\{[^{}]*(?:\{[^}]*\}[^{}]*)*\}/g, '‹…›')
    .replace(/(?:‹…›)?\$\{.*$/, '‹…›');
}

function table(): string {
  const rows = Object.entries(FAULTS).map(
    ([code, { remedy }]) => `| \`${code}\` | ${cell(whatOf(code))} | ${cell(remedy)} |`,
  );
  return ['| code | what | remedy |', '|---|---|---|', ...rows].join('\n');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;');
}

const TABLE = /(<!-- error codes -->\n)([\s\S]*?)(\n<!-- end of error codes -->)/;

test('src/REFERENCE.md lists every error code with what it means and its remedy', () => {
  if (UPDATES)
    writeFileSync(
      REFERENCE,
      readFileSync(REFERENCE, 'utf8').replace(
        TABLE,
        (_all, before: string, _old, after: string) => before + table() + after,
      ),
    );
  const found = TABLE.exec(readFileSync(REFERENCE, 'utf8'))?.[2];
  assert.ok(found !== undefined, 'src/REFERENCE.md has lost the marks around its table of error codes');
  assert.deepEqual(found.split('\n'), table().split('\n'), 'run this test with UPDATE_API=1');
});

test('the table of faults is sorted, its messages say "Cannot …" without a full stop, its remedies neither', () => {
  const codes = Object.keys(FAULTS);
  assert.deepEqual(codes, [...codes].sort());
  for (const code of codes) {
    assert.match(whatOf(code), /^Cannot .*[^.]$/, code);
    assert.match(FAULTS[code as keyof typeof FAULTS].remedy, /^[A-Z].*[^.]$/, code);
  }
});

/** The text of every file below a folder whose name fits. */
function textOf(folder: string, name: RegExp, except: string): string {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => name.test(file) && file !== except)
    .map((file) => readFileSync(join(ROOT, folder, file), 'utf8'))
    .join('\n');
}

test('every error code is thrown somewhere in src', () => {
  const thrown = textOf('src', /\.ts$/, 'base/faults.ts');
  assert.deepEqual(
    Object.keys(FAULTS).filter((code) => !thrown.includes(`'${code}'`)),
    [],
  );
});

test('every error code is named in a test', () => {
  const named = textOf('test', /\.test\.ts$/, 'api-surface.test.ts');
  assert.deepEqual(
    Object.keys(FAULTS).filter((code) => !new RegExp(`\\b${code}\\b`).test(named)),
    [],
  );
});
