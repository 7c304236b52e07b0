/**
 * Variables of the environment that sources read (SVC401): misspelt ones, and those that nothing sets.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { absentVariables } from '../../../src/check/rules/variables.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { readProject } from '../../../src/check/reader/modules.ts';
import { Sources } from '../../../src/check/sources.ts';
import { folder } from '../../support/run.ts';
import type { TestContext } from 'node:test';

function found(t: TestContext, files: Readonly<Record<string, string>>): string[] {
  const cwd = folder(t, files);
  return examineSources(readProject([join(cwd, 'app.ts')]), CORE_RULES)
    .findings.filter(({ rule }) => rule === 'SVC401')
    .map(({ severity, place, message }) => `${severity} ${place!.line}: ${message}`);
}

test('svc check warns of an environment variable whose name looks like a misspelt name from a .env file (SVC401)', (t) => {
  const files = {
    'app.ts':
      "const a = process.env['TEST_SMPT_PORT'] ?? '';\nconst b = process.env.TEST_SMTP_HOST;\nconst c = process.env.TEST_SMTP_USERS ?? '';\n",
    '.env.example': 'TEST_SMTP_HOST=localhost\n# TEST_SMTP_PORT=25\nexport TEST_SMTP_USER=a\n',
  };
  assert.deepEqual(found(t, files), [
    'warning 1: process.env.TEST_SMPT_PORT is not set: did you mean TEST_SMTP_PORT, which is set?',
  ]);
});

test('svc check warns of an environment variable that is read without a check or default and is not in a .env file, by a note if there is no such file (SVC401)', (t) => {
  const files = {
    'app.ts': [
      "export const a = process.env['TEST_BASE']!;",
      'export const b = `${process.env.TEST_HOST}/x`;',
      "export const c = process.env.TEST_C ?? 'x';",
      'if (process.env.TEST_D) console.log(process.env.TEST_D + 1);',
      'export const e = process.env.TEST_E;',
      "export const f = required(process.env['TEST_F']);",
      'export const { TEST_G } = process.env;',
      'export const h = Number(process.env.TEST_H) || 1;',
      "export const i = process.env.TEST_I?.split(',');",
    ].join('\n'),
  };
  assert.deepEqual(found(t, files), [
    'info 1: nothing sets the environment variable TEST_BASE, and the code reads it without a default',
    'info 2: nothing sets the environment variable TEST_HOST, and the code reads it without a default',
  ]);
  const lines = found(t, { ...files, '.env.example': 'TEST_BASE=x\n' }).map((text) => text.slice(0, 9));
  assert.deepEqual(lines, ['warning 2']);
});

test('svc check does not warn of environment variables that are validated by parse() or safeParse() of a schema (SVC401)', (t) => {
  const files = {
    'app.ts': [
      'const read = { host: process.env.TEST_SCHEMA_HOST as string };',
      'export const settings = schema.safeParse(read);',
      'export const others = schema.parse({ port: process.env.TEST_SCHEMA_PORT as string });',
      'export const plain = { name: process.env.TEST_SCHEMA_NAME as string };',
    ].join('\n'),
    '.env.example': 'TEST_OTHER=1\n',
  };
  assert.deepEqual(
    found(t, files).map((text) => text.slice(0, 9)),
    ['warning 4'],
  );
});

test('svc check does not warn of environment variables that code reads only on a condition, such as without DATABASE_URL (SVC401)', (t) => {
  const files = {
    'app.ts': [
      'export const a = process.env.TEST_DB_URL ?? `postgres://${process.env.TEST_DB_HOST}/x`;',
      'export const b = process.env.TEST_DB_URL ? process.env.TEST_DB_URL : urlOf(process.env.TEST_DB_NAME!);',
      "if (process.env.TEST_MAIL === 'smtp') mail(process.env.TEST_SMTP!);",
      'function address() {',
      '  if (process.env.TEST_DB_URL) return process.env.TEST_DB_URL;',
      '  return `postgres://${process.env.TEST_DB_USER}@x`;',
      '}',
      'export const c = process.env.TEST_DB_URL || assembled();',
      'function assembled() { return `postgres://${process.env.TEST_DB_PORT}`; }',
      'export const d = new Client({ url: process.env.TEST_DB_URL, host: process.env.TEST_DB_SERVER });',
      'if (!process.env.TEST_KEY) throw new Error("no key");',
      'export const e = `${process.env.TEST_CERTAIN}/x`;',
    ].join('\n'),
    '.env.example': 'TEST_DB_URL=x\n',
  };
  assert.deepEqual(found(t, files), [
    'warning 12: nothing sets the environment variable TEST_CERTAIN, and the code reads it without a default',
  ]);
});

test('svc check does not warn of environment variables that a platform sets, or a Dockerfile or compose.yaml (SVC401)', (t) => {
  const names = [
    'RAILWAY_PUBLIC_DOMAIN',
    'DYNO',
    'GAE_VERSION',
    'WEBSITE_HOSTNAME',
    'POD_NAME',
    'OTEL_SERVICE_NAME',
  ];
  const ours = ['TEST_OF_IMAGE', 'TEST_OF_COMPOSE', 'TEST_OF_BOTH'];
  const files = {
    'app.ts': [...names, ...ours].map((name) => `use(\`\${process.env.${name}}\`);`).join('\n'),
    Dockerfile: 'FROM node:24\nENV TEST_OF_IMAGE=1\n',
    'compose.yaml': 'environment:\n  - TEST_OF_COMPOSE\n  TEST_OF_BOTH: x\n',
  };
  assert.deepEqual(found(t, files), []);
  assert.equal(found(t, { 'app.ts': files['app.ts'] }).length, ours.length);
});

test('absentVariables() returns the variables that the message of an error names, or the nearest ones that its file takes for granted', (t) => {
  const cwd = folder(t, {
    'app.ts': [
      "import { names } from './settings.ts';",
      'export const level = process.env.TEST_LEVEL ?? names;',
      'export const url = new URL(process.env.TEST_URL!);',
      'export const list = process.env.TEST_LIST!.split();',
      'export const key = required(process.env.TESTKEY);',
      "export const other = process.env.TEST_ADDRESS ?? '';",
    ].join('\n'),
    'settings.ts': "export const names = ['TEST_OF_SCHEMA'];\nexport const all = names.map(String);\n",
  });
  const file = join(cwd, 'app.ts');
  const sources = new Sources(readProject([file]));
  const absent = (message: string, line?: number): string[] =>
    absentVariables(sources, message, line === undefined ? undefined : { file, line, column: 1 });
  assert.deepEqual(absent('Invalid URL', 3), ['TEST_URL']);
  assert.deepEqual(absent('Cannot read properties of undefined', 4), ['TEST_LIST']);
  assert.deepEqual(absent('TESTKEY is needed', 5), ['TESTKEY']);
  assert.deepEqual(absent('[{"path":["TEST_OF_SCHEMA"]}]', 3), ['TEST_OF_SCHEMA']);
  assert.deepEqual(absent('the address is empty: set SVC_TEST_ADDRESS', 6), ['TEST_ADDRESS']);
  const inSettings = { file: join(cwd, 'settings.ts'), line: 2, column: 1 };
  assert.deepEqual(absentVariables(sources, 'the address is empty: set SVC_TEST_ADDRESS', inSettings), [
    'SVC_TEST_ADDRESS',
  ]);
  assert.deepEqual(absent('TEST_ELSEWHERE and ERR_INVALID_URL', undefined), []);
});
