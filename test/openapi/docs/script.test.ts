/**
 * Files of the docs page: the generated module matches them, and TypeScript checks the scripts. This file
 * also tests values that the scripts compute; test/openapi/docs/browser.integration.test.ts tests the
 * behaviour in a browser.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { runInNewContext } from 'node:vm';
import { PAGE } from '../../../src/openapi/docs/page.generated.ts';
import { compileType } from '../../../src/schema/schema.ts';
import { JsonSchemas } from '../../../src/schema/json-schema.ts';
import { ROOT } from '../../support/build.ts';
import { LIBRARY } from '../../support/openapi-documents.ts';
import { Random, describe, realise } from '../../support/schema-reference.ts';
import { GENERATED, SCRIPTS, generatedPage } from '../../support/pages.ts';

test('page.generated.ts is exactly the text that "npm run pages" generates', () => {
  assert.equal(readFileSync(GENERATED, 'utf8'), generatedPage(), 'run "npm run pages"');
});

test('the browser scripts of the page /docs pass the type check of TypeScript', () => {
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

test('the script element of the page /docs contains no comments, and no text that would end the element', () => {
  const [, script] = /<script nonce="\{\{nonce\}\}">([^]*?)<\/script>\n<\/head>/.exec(PAGE)!;
  assert.doesNotMatch(script!, /<\/script|<!--/i);
  assert.doesNotMatch(script!, /\/\*|^\s*\/\/|^[ \t]/m);
});

/** Returns the text of one script. */
function scriptOf(name: string): string {
  return readFileSync(
    SCRIPTS.find((path) => path.endsWith(`${name}.js`))!,
    'utf8',
  );
}

/** Returns the initial value in the form of an operation. */
function sample(schema: object, openApi: object = {}): unknown {
  return JSON.parse(
    runInNewContext(
      `${scriptOf('sample')}; ${scriptOf('pattern')}; openApi = given; JSON.stringify(sample(schema) ?? null)`,
      {
        given: openApi,
        schema,
      },
    ) as string,
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
  [
    {
      type: 'string',
      contentEncoding: 'base64',
      maxLength: 4,
      anyOf: [{ maxLength: 0 }, { pattern: '==$' }],
    },
    'aA==',
  ],
  [
    { type: 'string', contentEncoding: 'base64', minLength: 12, anyOf: [{ pattern: '[^=]$' }] },
    'aGVsaGVsaGVs',
  ],
  [{ type: 'string', pattern: '^[A-Z]{2}-\\d{4}$' }, 'AB-1234'],
  [{ type: 'string', pattern: '^(?:v\\d+|latest)$', minLength: 7 }, 'v123456'],
  [{ type: 'string', pattern: '^(?=.*\\d)[a-z\\d]{3,}$', maxLength: 3 }, 'a2s'],
  [{ type: 'string', pattern: 'z$', minLength: 3, maxLength: 3 }, 'aaz'],
  [{ type: 'string', pattern: '^\\p{Lu}[^a-z]?\\x41\\u{42}$' }, 'AAB'],
  [{ type: 'string', allOf: [{ pattern: '^[ab]' }, { pattern: '\\d$' }], maxLength: 2 }, 'a1'],
  [{ type: 'string', pattern: '(' }, 'text'],
  [{ type: 'string', format: 'email', maxLength: 8 }, 'a@b.c'],
  [{ type: 'integer', multipleOf: 0.4, minimum: 1 }, 2],
  [{ type: 'number', exclusiveMinimum: 0, exclusiveMaximum: 0.5 }, 0.25],
  [{ type: 'array', items: { enum: ['a', 'b'] }, minItems: 2, uniqueItems: true }, ['a', 'b']],
  [{ type: 'array', items: { type: 'boolean' }, minItems: 2, uniqueItems: true }, [true, false]],
  [{ type: 'array', items: { type: 'string' }, minItems: 2, uniqueItems: true }, ['text', 'text2']],
  [
    { type: 'object', additionalProperties: { const: 1 }, minProperties: 2 },
    { name: 1, name2: 1 },
  ],
] as const) {
  test(`sample() returns the example value ${JSON.stringify(value)} for the JSON Schema ${JSON.stringify(schema)}`, () =>
    assert.deepEqual(sample(schema), value));
}

test('sample() resolves $ref, terminates for recursive schemas, and sets the discriminator of the alternative that it chooses', () => {
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

/** Minimum length of a text by format. With a smaller maximum no value is valid. */
const SHORTEST = { date: 10, 'date-time': 20, uuid: 36, email: 5, ipv4: 7 };

/** Whether a nested schema has no valid value. */
function isImpossible(text: string): boolean {
  return [...text.matchAll(/"maxLength":(\d+),"(?:format":"([\w-]+)|pattern)"/g)].some(
    ([, length, format]) =>
      Number(length) < (format === undefined ? 1 : (SHORTEST[format as keyof typeof SHORTEST] ?? 0)),
  );
}

for (const seed of [1, 2, 3]) {
  test(`sample() returns example values that the validators accept, for types that are generated from the seed ${seed}`, () => {
    const random = new Random(seed);
    let checked = 0;
    for (let round = 0; round < 200; round++) {
      const type = compileType(realise(describe(random, 3, true)));
      const schemas = new JsonSchemas({ isOpenApi: true });
      const schema = schemas.type(type.node, 'input');
      const document = { components: { schemas: schemas.components() } };
      if (isImpossible(JSON.stringify([schema, document]))) continue;
      checked++;
      const value = sample(schema, document);
      const result = type.parseJson(value);
      assert.ok(result.ok, JSON.stringify([schema, document, value, result]));
    }
    assert.ok(checked > 150, `${checked} types`);
  });
}

test('sample() returns valid base64 for each pair of minLength and maxLength of a bytes field', () => {
  for (let minLength = 0; minLength <= 13; minLength++) {
    for (let maxLength = Math.max(1, minLength); maxLength <= 14; maxLength++) {
      const type = compileType(realise({ kind: 'bytes', minLength, maxLength }));
      const schemas = new JsonSchemas({ isOpenApi: true });
      const schema = schemas.type(type.node, 'input');
      const value = sample(schema, { components: { schemas: schemas.components() } });
      assert.ok(type.parseJson(value).ok, JSON.stringify([minLength, maxLength, value]));
    }
  }
});

/** Returns a request as code. */
function code(language: string, request: object): string {
  const context = `const stored = () => null, base = () => 'http://a.example/v1/', chosenProofs = () => proofs`;
  const scripts = `${context}; ${scriptOf('code')}; const jsonOf = (text) => { try { return JSON.parse(text); } catch { return undefined; } }`;
  const given = {
    method: 'GET',
    url: 'http://a.example/v1/x',
    headers: [],
    cookies: [],
    inputs: { path: {}, query: {}, header: {}, cookie: {} },
    operation: {},
    ...request,
  };
  return runInNewContext(`${scripts}; LANGUAGES[language](given)`, {
    given,
    language,
    proofs: [['bearer', {}]],
    File,
  }) as string;
}

const POST = {
  method: 'POST',
  headers: [
    ['Content-Type', 'application/json'],
    ['X-It', "it's"],
  ],
  body: { type: 'application/json', text: '{"a-b":[1,true,null],"text":"x\\ny"}' },
  inputs: { path: { id: 5 }, query: {}, header: { 'x-it': "it's" }, cookie: {} },
  operation: { operationId: 'things.add' },
};

for (const [language, expected] of [
  [
    'curl',
    `curl -X POST 'http://a.example/v1/x' \\\n  -H 'Content-Type: application/json' \\\n  -H 'X-It: it'\\''s' \\\n  --data-raw '{"a-b":[1,true,null],"text":"x\\ny"}'`,
  ],
  [
    'fetch',
    `const response = await fetch('http://a.example/v1/x', {\n  method: 'POST',\n  headers: { 'Content-Type': 'application/json', 'X-It': "it's" },\n  body: JSON.stringify({ 'a-b': [1, true, null], text: "x\\ny" }),\n});\nconsole.log(response.status, await response.text());`,
  ],
  [
    'Python',
    `import requests\n\nresponse = requests.request(\n    "POST",\n    "http://a.example/v1/x",\n    headers={\n        "X-It": "it's",\n    },\n    json={\n        "a-b": [\n            1,\n            True,\n            None,\n        ],\n        "text": "x\\ny",\n    },\n)\nprint(response.status_code, response.text)`,
  ],
  [
    'Generated client',
    `import { createClient, unwrap } from './api.ts';\n\nconst api = createClient({ baseUrl: 'http://a.example/v1', auth: { bearer: () => credential } });\nconst data = await unwrap(api['things.add']({\n  params: { id: 5 },\n  headers: { 'x-it': "it's" },\n  body: { 'a-b': [1, true, null], text: "x\\ny" },\n}));`,
  ],
] as const) {
  test(`the page /docs shows a request as code for ${language}`, () =>
    assert.equal(code(language, POST), expected));
}

test('the code that the page /docs shows for a multipart form includes the files', () => {
  const body = {
    isMultipart: true,
    parts: [
      ['note', 'a'],
      ['file', new File(['x'], 'a.png')],
    ],
    input: { note: 'a', file: new File(['x'], 'a.png') },
  };
  const request = { method: 'PUT', body, operation: { operationId: 'put' } };
  assert.match(code('curl', request), /--form-string 'note=a' .*\n.*-F 'file=@a\.png'/);
  assert.match(
    code('fetch', request),
    /^const form = new FormData\(\);\nform\.append\('note', 'a'\);\nform\.append\('file', file\);\n[^]*body: form,/,
  );
  assert.match(
    code('Python', request),
    /data=\[\("note", "a"\)\],\n {4}files=\[\("file", open\("a\.png", "rb"\)\)\]/,
  );
  assert.match(code('Generated client', request), /api\.put\(\{ form: \{ note: 'a', file: file \} \}\)/);
});

/** Returns JSON as the page shows it. */
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
  test(`jsonNodes() indents the JSON text ${text} by two spaces, and keeps the notation of its numbers and strings`, () =>
    assert.equal(
      shown(text),
      text === '-1.5e+3' ? text : JSON.stringify(JSON.parse(text), undefined, 2).replace('"A', '"\\u0041'),
    ));
}

test('jsonNodes() keeps all digits of numbers, and does not change text that is not JSON', () => {
  assert.equal(
    shown('{"n":12345678901234567890.10,"e":1E400}'),
    '{\n  "n": 12345678901234567890.10,\n  "e": 1E400\n}',
  );
  assert.equal(shown('{"a":'), '{"a":');
});
