import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDocument } from '../../../src/openapi/docs/document.ts';
import { resolve } from '../../../src/openapi/reader.ts';
import { HOSTILE, LIBRARY, largeDocument } from '../../support/openapi-documents.ts';

test('readDocument() groups operations by their first tag in the order of the OpenAPI document, and puts untagged operations first', () => {
  const { sections, operationCount } = readDocument(LIBRARY);
  assert.deepEqual(
    sections.map(({ name, operations }) => [name, operations.map(({ method, path }) => `${method} ${path}`)]),
    [
      ['Operations', ['get /health']],
      [
        'books',
        [
          'get /books',
          'post /books',
          'get /books/{id}',
          'patch /books/{id}',
          'delete /books/{id}',
          'get /books/{id}/cover',
          'put /books/{id}/cover',
        ],
      ],
      ['readers', ['get /readers/me', 'get /readers/{name}/loans']],
      ['desk', ['get /desk/till', 'post /desk/till', 'get /desk/events']],
    ],
  );
  assert.equal(operationCount, 13);
  assert.equal(sections[1]!.description, 'Books on the shelves.');
});

test('readDocument() merges the parameters of a path with those of its operation, which take precedence', () => {
  const { sections } = readDocument({
    paths: {
      '/{a}': {
        parameters: [
          { name: 'a', in: 'path', required: true, description: 'path' },
          { $ref: '#/components/parameters/b' },
        ],
        get: {
          parameters: [
            { name: 'b', in: 'query', description: 'own' },
            { name: 'a', in: 'header' },
            { in: 'query' },
          ],
        },
      },
    },
    components: { parameters: { b: { name: 'b', in: 'query', description: 'shared' } } },
  });
  assert.deepEqual(
    sections[0]!.operations[0]!.parameters.map((parameter) => [
      parameter.in,
      parameter.name,
      parameter.description,
    ]),
    [
      ['path', 'a', 'path'],
      ['query', 'b', 'own'],
      ['header', 'a', undefined],
    ],
  );
});

test('readDocument() gives each operation, tag and schema a unique HTML id without spaces', () => {
  const { sections, schemas } = readDocument({
    paths: {
      '/a': {
        get: { operationId: 'same' },
        put: { operationId: 'same' },
        post: { operationId: 'a b' },
        delete: {},
        trace: { operationId: 'main' },
        head: { operationId: ':1' },
      },
    },
    components: { schemas: { A: {}, 'B C': {} } },
  });
  assert.deepEqual(
    sections[0]!.operations.map(({ id }) => id),
    ['same', 'same-2', 'a-b', 'delete-a', 'main-2', '-:1'],
  );
  assert.deepEqual(
    [...schemas.values()].map(({ id }) => id),
    ['schema-A', 'schema-B-C'],
  );
  const large = readDocument(largeDocument(500));
  assert.equal(large.operationCount, 500);
  const ids = [
    ...large.sections.flatMap(({ id, operations }) => [id, ...operations.map((operation) => operation.id)]),
    ...[...large.schemas.values()].map(({ id }) => id),
  ];
  assert.equal(new Set(ids).size, ids.length);
});

test('readDocument() ignores the summary of an operation if it only repeats the method and the path', () => {
  const { sections } = readDocument({
    paths: { '/a/{b}': { get: { summary: 'GET /a/{b}' }, put: { summary: 'Put it' } } },
  });
  assert.deepEqual(
    sections[0]!.operations.map(({ summary }) => summary),
    [undefined, 'Put it'],
  );
});

test('readDocument() returns the e-mail address of the contact, and the name of a licence without an address', () => {
  const read = (license: object, email: unknown): unknown[] => {
    const document = readDocument({ info: { license, contact: { email } } });
    return [document.license, document.email];
  };
  assert.deepEqual(read({ name: 'MIT', identifier: 'MIT' }, 'ada@example.com'), ['MIT', 'ada@example.com']);
  assert.deepEqual(read({ name: 'Apache 2', identifier: 'Apache-2.0' }, '"><script>'), [
    'Apache 2 (Apache-2.0)',
    undefined,
  ]);
  assert.deepEqual(read({ name: 'Own', url: 'https://a.example' }, 1), [undefined, undefined]);
});

test('readDocument() keeps links to http and https addresses, and removes links with other schemes', () => {
  assert.deepEqual(readDocument(LIBRARY).links, [['The librarians', 'https://library.example/contact']]);
  assert.deepEqual(
    readDocument(HOSTILE).links.map(([, url]) => url.slice(0, 21)),
    ['https://docs.example/'],
  );
});

test('readDocument() uses the security of an operation, or of the document if the operation declares none', () => {
  const of = (operation: object): unknown =>
    readDocument({ security: [{ a: ['x'] }], paths: { '/': { get: operation } } }).sections[0]!.operations[0]!
      .security;
  assert.deepEqual(of({}), [[['a', ['x']]]]);
  assert.deepEqual(of({ security: [] }), []);
  assert.deepEqual(of({ security: [{ b: [], c: ['y', 1] }, {}] }), [
    [
      ['b', []],
      ['c', ['y', '1']],
    ],
    [],
  ]);
});

test('readDocument() tolerates OpenAPI documents whose members are missing or have the wrong type', () => {
  for (const document of [
    {},
    { info: null, paths: [], tags: 5, servers: 'x', components: 7 },
    { paths: { '/': null, '/a': { get: 5, put: null, summary: 'x' }, '/b': { $ref: '#/paths/~1b' } } },
    { paths: { '/': { get: { parameters: 5, responses: [], requestBody: 'x', tags: [5], security: {} } } } },
    HOSTILE,
  ]) {
    assert.doesNotThrow(() => readDocument(document));
  }
  assert.equal(readDocument({}).title, 'Interface');
});

test('resolve() follows $ref only within the OpenAPI document, and returns undefined for inherited properties and cycles', () => {
  const root = {
    components: {
      schemas: {
        'a/b c': { type: 'string' },
        next: { $ref: '#/components/schemas/a~1b%20c' },
        loop: { $ref: '#/components/schemas/loop' },
      },
    },
  };
  assert.deepEqual(resolve(root, { $ref: '#/components/schemas/next' }), { type: 'string' });
  for (const $ref of [
    '#/components/schemas/loop',
    '#/components/schemas/none',
    '#/components/schemas/__proto__',
    '#/constructor',
    'https://other.example/#/x',
    '%',
    '#/%',
  ])
    assert.deepEqual(resolve(root, { $ref }), {}, $ref);
});

test('readDocument() puts webhooks into a separate section, does not count them as operations, and reads callbacks', () => {
  const body = { requestBody: { content: { 'application/json': { schema: { type: 'string' } } } } };
  const { sections, operationCount } = readDocument({
    paths: { '/a': { post: { callbacks: { paid: { '{$request.body#/url}': { put: body } }, none: 5 } } } },
    webhooks: { shipped: { post: { summary: 'It is on its way', ...body } } },
  });
  assert.equal(operationCount, 1);
  assert.deepEqual(
    sections.map(({ name, operations }) => [
      name,
      operations.map(({ path, isWebhook }) => [path, isWebhook]),
    ]),
    [
      ['Operations', [['/a', false]]],
      ['Webhooks', [['shipped', true]]],
    ],
  );
  assert.deepEqual(
    sections[0]!.operations[0]!.callbacks.map(({ name, method, expression }) => [name, method, expression]),
    [['paid', 'put', '{$request.body#/url}']],
  );
});
