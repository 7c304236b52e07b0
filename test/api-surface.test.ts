/**
 * Compares the exports of all entry points with api-surface.txt. UPDATE_API=1 rewrites that file and the
 * table of error codes in src/REFERENCE.md; read the difference before you commit it.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { FAULTS } from '../src/base/faults.ts';
import { ROOT } from './support/build.ts';
import { declarationOf, entryPoints, exportsOf } from './support/reference/exports.ts';
import { errorCodes, messageOf } from './support/reference/tables.ts';
import type { Exported } from './support/reference/exports.ts';

const UPDATES = process.env['UPDATE_API'] === '1';
const SURFACE = join(ROOT, 'test/api-surface.txt');
const REFERENCE = join(ROOT, 'src/REFERENCE.md');

function surface(): string[] {
  return entryPoints()
    .flatMap(([entry, file]) =>
      exportsOf(file).map(({ name, isType }) => `${entry} ${isType ? 'type' : 'value'} ${name}`),
    )
    .sort();
}

test('the public modules export exactly the names listed in test/api-surface.txt', () => {
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
  test(`${entry} exports, at run time, exactly the values that its source file exports`, async () => {
    const values = exportsOf(file)
      .filter(({ isType }) => !isType)
      .map(({ name }) => name);
    assert.deepEqual(Object.keys((await import(entry)) as object).sort(), values.sort());
  });

  test(`every export of ${entry} has a doc comment at its declaration`, () => {
    assert.deepEqual(
      exportsOf(file)
        .filter((each) => !isDocumented(file, each))
        .map(({ name }) => name),
      [],
    );
  });
}

function isDocumented(file: string, exported: Exported): boolean {
  const { file: source, name } = declarationOf(file, exported);
  const declaration = new RegExp(
    `\\*/\\n(?:export )?(?:declare )?(?:abstract )?(?:async )?(?:class|function\\*?|const|let|interface|type) ${name.replace('$', '\\$')}\\b`,
  );
  return declaration.test(readFileSync(source, 'utf8'));
}

// ── error codes ──

const TABLE = /(<!-- error codes -->\n)([\s\S]*?)(\n<!-- end of error codes -->)/;

test('src/REFERENCE.md lists every error code with its meaning and its remedy', () => {
  if (UPDATES)
    writeFileSync(
      REFERENCE,
      readFileSync(REFERENCE, 'utf8').replace(
        TABLE,
        (_all, before: string, _old, after: string) => before + errorCodes().join('\n') + after,
      ),
    );
  const found = TABLE.exec(readFileSync(REFERENCE, 'utf8'))?.[2];
  assert.ok(found !== undefined, 'src/REFERENCE.md has lost the marks around its table of error codes');
  assert.deepEqual(found.split('\n'), errorCodes(), 'run this test with UPDATE_API=1');
});

test('the error codes of svc are sorted, their messages begin with "Cannot …", and no message or remedy ends with a full stop', () => {
  const codes = Object.keys(FAULTS);
  assert.deepEqual(codes, [...codes].sort());
  for (const code of codes) {
    assert.match(messageOf(code), /^Cannot .*[^.]$/, code);
    assert.match(FAULTS[code as keyof typeof FAULTS].remedy, /^[A-Z].*[^.]$/, code);
  }
});

/** Returns the text of every file in a folder whose name matches. */
function textOf(folder: string, name: RegExp, except: string): string {
  return readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' })
    .filter((file) => name.test(file) && file !== except)
    .map((file) => readFileSync(join(ROOT, folder, file), 'utf8'))
    .join('\n');
}

test('every error code of svc is used somewhere in src', () => {
  const thrown = textOf('src', /\.ts$/, 'base/faults.ts');
  assert.deepEqual(
    Object.keys(FAULTS).filter((code) => !thrown.includes(`'${code}'`)),
    [],
  );
});

test('every error code of svc is named in a test', () => {
  const named = textOf('test', /\.test\.ts$/, 'api-surface.test.ts');
  assert.deepEqual(
    Object.keys(FAULTS).filter((code) => !new RegExp(`\\b${code}\\b`).test(named)),
    [],
  );
});
