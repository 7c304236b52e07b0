/**
 * Form of the cases in corpus.ts: every rule has cases, marks and headers are valid, and modules export applications.
 * findings.integration.test.ts runs `svc check` over them.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { stripTypeScriptTypes } from 'node:module';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Svc } from 'svc';
import { fileOfPlace } from '../../src/base/findings.ts';
import { CORE_RULES } from '../../src/check/rules/rules.ts';
import { examineSources } from '../../src/check/examine.ts';
import { readProject } from '../../src/check/reader/modules.ts';
import { folder } from '../support/run.ts';
import { allCases, casesOf } from './corpus.ts';
import type { Case } from './corpus.ts';

/** Rules that need a case in corpus/ and one in near/. */
const RULES: readonly string[] = [
  '001',
  '101',
  '102',
  '103',
  '104',
  '105',
  '106',
  '107',
  '109',
  '111',
  '112',
  '113',
  '114',
  '121',
  '123',
  '201',
  '202',
  '203',
  '204',
  '205',
  '206',
  '207',
  '208',
  '209',
  '210',
  '211',
  '212',
  '213',
  '214',
  '219',
  '220',
  '301',
  '302',
  '303',
  '304',
  '305',
  '306',
  '401',
  '402',
  '403',
  '404',
  '501',
  '502',
  '503',
].map((digits) => `SVC${digits}`);

/** Imports a case in its environment and returns the exports of the module. */
async function load({ file, env }: Case): Promise<Readonly<Record<string, unknown>>> {
  const before = { ...process.env };
  for (const name of Object.keys(process.env)) if (name.startsWith('SVC_')) delete process.env[name];
  Object.assign(process.env, env);
  try {
    return (await import(pathToFileURL(file).href)) as Readonly<Record<string, unknown>>;
  } finally {
    for (const name of Object.keys(env)) delete process.env[name];
    Object.assign(process.env, before);
  }
}

const canLoad = ({ awaits, imports }: Case): boolean =>
  (imports === 'well' || imports === 'throws') && awaits.every((method) => method in Svc.prototype);

test('each check rule has an example with a mistake in test/check/corpus, and a similar example without the mistake in test/check/near', () => {
  assert.ok(casesOf('corpus').length >= 60);
  const rulesOf = (kind: Case['kind']): string[] =>
    [...new Set(casesOf(kind).map(({ rule }) => String(rule)))].sort();
  assert.deepEqual(rulesOf('corpus'), RULES);
  assert.deepEqual(rulesOf('near'), RULES);
});

test('the folder test/check/clean has at least 15 applications with at least 40 lines each', () => {
  const clean = casesOf('clean');
  assert.ok(clean.length >= 15);
  for (const { file, rule } of clean) {
    assert.equal(rule, undefined, file);
    assert.ok(readFileSync(file, 'utf8').split('\n').length >= 40, file);
  }
});

test('each example in test/check/corpus marks one line with the check rule in its file name, and examples in "near" and "clean" mark none', () => {
  for (const { file, kind, marks, rule } of allCases()) {
    assert.deepEqual(
      marks.map((mark) => mark.rule),
      kind === 'corpus' ? [rule] : [],
      file,
    );
  }
});

test('in test/check/corpus, the comment that marks an expected finding stands at the end of a line of code', () => {
  for (const { file, line } of casesOf('corpus')) {
    if (line === undefined) continue;
    const text = readFileSync(file, 'utf8').split('\n')[line - 1]!;
    assert.match(text, /^(?!\/\/).*\S \/\/ SVC\d{3}$/, file);
  }
});

test('each header comment of an example in test/check has a known key, and every file that a header names exists', () => {
  for (const { file, args, files, imports } of allCases()) {
    assert.ok(['well', 'throws', 'listens', 'stays-open', 'slowly'].includes(imports), file);
    for (const path of [
      ...args.filter((arg) => arg.endsWith('.json')),
      ...Object.values(files).filter((path) => path !== ''),
    ])
      assert.ok(existsSync(path), `${file}: ${path}`);
    const comments = readFileSync(file, 'utf8')
      .split('\n')
      .filter((line) => /^\/\/ \w+:/.test(line));
    for (const line of comments)
      assert.match(line, /^\/\/ (?:env|args|files|imports|export|awaits): \S/, file);
  }
});

test('each example in test/check exports an application, unless its header says that the import throws', async () => {
  for (const each of allCases().filter(canLoad)) {
    if (each.imports === 'throws') {
      await assert.rejects(load(each), each.file);
      continue;
    }
    const { app } = await load(each);
    assert.equal(app instanceof Svc, each.hasApp, each.file);
  }
});

test('at most six examples in test/check are skipped because they use a method that class Svc does not have', (t) => {
  const awaited = allCases().filter(({ awaits }) => !awaits.every((method) => method in Svc.prototype));
  for (const { name, awaits } of awaited) t.diagnostic(`${name} awaits ${awaits.join(', ')}`);
  assert.ok(awaited.length <= 6);
});

test('for each example in test/check, the rules for source code report the same findings in TypeScript and in JavaScript', (t) => {
  const texts = allCases().map(
    ({ kind, name, file }) => [`${kind}-${name}`, readFileSync(file, 'utf8')] as const,
  );
  const inJavaScript = texts.map(
    ([name, text]) => [`${name}.js`, stripTypeScriptTypes(text, { mode: 'strip' })] as const,
  );
  const found = (files: readonly (readonly [string, string])[]): string[] => {
    const cwd = folder(t, Object.fromEntries(files));
    const { findings } = examineSources(readProject(files.map(([name]) => join(cwd, name))), CORE_RULES);
    return findings.map(
      ({ rule, place }) => `${rule} ${basename(fileOfPlace(place!)).replace(/\.[jt]s$/, '')}:${place!.line}`,
    );
  };
  const inTypeScript = found(texts.map(([name, text]) => [`${name}.ts`, text]));
  assert.ok(inTypeScript.length > 20, `${inTypeScript.length}`);
  assert.deepEqual(found(inJavaScript), inTypeScript);
});
