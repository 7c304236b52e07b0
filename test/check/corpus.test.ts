/**
 * The corpus of corpus.ts by itself: that it covers every rule, says what it expects, and holds applications. What a check finds in
 * them is another test's to say.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { Svc } from 'svc';
import { allCases, casesOf } from './corpus.ts';
import type { Case } from './corpus.ts';

/** Every rule of the catalogue that is not void. */
const RULES: readonly string[] = [
  '001',
  '101',
  '102',
  '103',
  '104',
  '105',
  '106',
  '107',
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

/** What they export, imported under their environment. */
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

test('sixty applications and more have a mistake, every rule has one, and every rule has one that comes close', () => {
  assert.ok(casesOf('corpus').length >= 60);
  const rulesOf = (kind: Case['kind']): string[] =>
    [...new Set(casesOf(kind).map(({ rule }) => String(rule)))].sort();
  assert.deepEqual(rulesOf('corpus'), RULES);
  assert.deepEqual(rulesOf('near'), RULES);
});

test('fifteen applications and more are clean and of a real size', () => {
  const clean = casesOf('clean');
  assert.ok(clean.length >= 15);
  for (const { file, rule } of clean) {
    assert.equal(rule, undefined, file);
    assert.ok(readFileSync(file, 'utf8').split('\n').length >= 40, file);
  }
});

test('a mistake is marked once, by the rule that the file is named after; what has none has no mark', () => {
  for (const { file, kind, marks, rule } of allCases()) {
    assert.deepEqual(
      marks.map((mark) => mark.rule),
      kind === 'corpus' ? [rule] : [],
      file,
    );
  }
});

test('a marked line is code, unless its rule has no line', () => {
  for (const { file, line } of casesOf('corpus')) {
    if (line === undefined) continue;
    const text = readFileSync(file, 'utf8').split('\n')[line - 1]!;
    assert.match(text, /^(?!\/\/).*\S \/\/ SVC\d{3}$/, file);
  }
});

test('conditions are written in the one form, and name files that are there', () => {
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

test('each exports an application, or throws where it says so; none listens, and none keeps the process alive', async () => {
  for (const each of allCases().filter(canLoad)) {
    if (each.imports === 'throws') {
      await assert.rejects(load(each), each.file);
      continue;
    }
    const { app } = await load(each);
    assert.equal(app instanceof Svc, each.hasApp, each.file);
  }
});

test('what is awaited is all that is not looked at yet', (t) => {
  const awaited = allCases().filter(({ awaits }) => !awaits.every((method) => method in Svc.prototype));
  for (const { name, awaits } of awaited) t.diagnostic(`${name} awaits ${awaits.join(', ')}`);
  assert.ok(awaited.length <= 6);
});
