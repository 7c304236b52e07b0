/**
 * Files of the docs page: the module that the package holds is made of them, and TypeScript checks the scripts. Their behaviour is
 * tested in a browser, by test/openapi/docs/browser.integration.test.ts; their values, here.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { PAGE } from '../../../src/openapi/docs/page.generated.ts';
import { ROOT } from '../../support/build.ts';
import { LIBRARY } from '../../support/openapi-documents.ts';
import { GENERATED, SCRIPTS, generatedPage } from '../../support/pages.ts';

test('page.generated.ts is what "npm run pages" makes of the files beside it', () => {
  assert.equal(readFileSync(GENERATED, 'utf8'), generatedPage(), 'run "npm run pages"');
});

test('the scripts of the page have no mistake that TypeScript finds', () => {
  const flags = '--ignoreConfig --allowJs --checkJs --noEmit --strict --noUnusedLocals --noImplicitAny false';
  const libraries = '--target esnext --module esnext --lib esnext,dom,dom.iterable --types';
  const { status, stdout } = spawnSync(
    process.execPath,
    [
      join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc'),
      ...`${flags} ${libraries}`.split(' '),
      '', // no package adds types
      ...SCRIPTS,
    ],
    { encoding: 'utf8' },
  );
  assert.equal(stdout, '');
  assert.equal(status, 0);
});

test('browsers get the script without comments, and nothing in it ends the element it stands in', () => {
  const [, script] = /<script nonce="\{\{nonce\}\}">([^]*?)<\/script>\n<\/head>/.exec(PAGE)!;
  assert.doesNotMatch(script!, /<\/script|<!--/i);
  assert.doesNotMatch(script!, /\/\*|^\s*\/\/|^[ \t]/m);
});

/** The text of one script. */
function scriptOf(name: string): string {
  return readFileSync(
    SCRIPTS.find((path) => path.endsWith(`${name}.js`))!,
    'utf8',
  );
}

/** The value that the form of an operation begins with. */
function sample(schema: object, openApi: object = {}): unknown {
  return JSON.parse(
    runInNewContext(`${scriptOf('sample')}; openApi = given; JSON.stringify(sample(schema) ?? null)`, {
      given: openApi,
      schema,
    }) as string,
  );
}

for (const [schema, value] of [
  [{ type: 'string' }, 'text'],
  [{ type: 'string', minLength: 6 }, 'textte'],
  [{ type: 'string', maxLength: 2 }, 'te'],
  [{ type: 'string', format: 'date' }, '2026-01-31'],
  [{ type: ['null', 'integer'], minimum: 5 }, 5],
  [{ type: 'integer', exclusiveMinimum: 10 }, 11],
  [{ type: 'number', maximum: -2 }, -2],
  [{ type: 'integer', multipleOf: 5, minimum: 7 }, 10],
  [{ type: 'boolean' }, true],
  [{ enum: ['a', 'b'] }, 'a'],
  [{ const: 7 }, 7],
  [{ default: 'd', example: 'e' }, 'e'],
  [{ examples: ['x'] }, 'x'],
  [{ type: 'array', items: { type: 'integer' }, minItems: 2 }, [1, 1]],
  [{ prefixItems: [{ const: 1 }, { type: 'string' }] }, [1, 'text']],
  [{ anyOf: [{ type: 'null' }, { type: 'boolean' }] }, true],
  [{ allOf: [{ properties: { a: { const: 1 } } }, { properties: { b: { const: 2 } } }] }, { a: 1, b: 2 }],
  [{ type: 'object', additionalProperties: { type: 'integer' } }, { name: 1 }],
  [{ properties: { id: { type: 'integer', readOnly: true }, x: {} } }, { x: 'text' }],
  [{ type: 'string', contentEncoding: 'base64' }, 'aGVsbG8='],
] as const) {
  test(`sample() begins with ${JSON.stringify(value)} for ${JSON.stringify(schema)}`, () =>
    assert.deepEqual(sample(schema), value));
}

test('sample() follows references, ends in schemas that hold themselves, and names the alternative it takes', () => {
  assert.deepEqual(sample({ $ref: '#/components/schemas/NewBook' }, LIBRARY), {
    title: 'Dune',
    genre: 'novel',
    author: { name: 'text', born: 1 },
    isbn: null,
    price: 12.5,
    labels: { name: 'text' },
    parts: [{ title: 'text', parts: [] }],
  });
  assert.deepEqual(sample({ $ref: '#/components/schemas/Event' }, LIBRARY), { kind: 'paid', cents: 1 });
  assert.equal(
    sample(
      { $ref: '#/components/schemas/loop' },
      { components: { schemas: { loop: { $ref: '#/components/schemas/loop' } } } },
    ),
    'text',
  );
});

/** JSON as it is shown. */
function shown(text: string): string {
  return runInNewContext(
    `const make = (tag, given, text) => text; ${scriptOf('try')}; ${scriptOf('answer')}; jsonNodes(given).join('')`,
    {
      given: text,
    },
  ) as string;
}

for (const text of [
  '{}',
  '[]',
  '{"a":[],"b":{}}',
  '[1,[2,{"c":null}],"x, {y}: [\\"z\\"]"]',
  '"just text"',
  '-1.5e+3',
  '{"":true,"\\u0041\\\\":false}',
]) {
  test(`jsonNodes() sets ${text} out as JSON.stringify() does`, () =>
    assert.equal(
      shown(text),
      text === '-1.5e+3' ? text : JSON.stringify(JSON.parse(text), undefined, 2).replace('"A', '"\\u0041'),
    ));
}

test('jsonNodes() keeps every digit, and text that is no JSON as it is', () => {
  assert.equal(
    shown('{"n":12345678901234567890.10,"e":1E400}'),
    '{\n  "n": 12345678901234567890.10,\n  "e": 1E400\n}',
  );
  assert.equal(shown('{"a":'), '{"a":');
});
