import assert from 'node:assert/strict';
import { stripTypeScriptTypes } from 'node:module';
import { test } from 'node:test';
import { Field, Schema, Svc, int, list, str } from 'svc';
import { clientText } from '../../../src/openapi/client/client.ts';
import { generatedApp, shop } from '../../support/openapi-app.ts';
import { HOSTILE, LIBRARY } from '../../support/openapi-documents.ts';

class Paid extends Schema {
  order = Field(int);
  tags = Field(list(str), { default: () => [] });
}
const signed = { body: Paid, headers: { xSignature: Field(str), xTry: Field(int, { optional: true }) } };

/** Returns the client of a document with one operation. */
function written(operation: object, components: object = {}): string {
  return clientText({
    openapi: '3.1.1',
    paths: { '/a': { get: { operationId: 'readA', ...operation } } },
    components,
  });
}

function answering(schema: object): object {
  return { responses: { 200: { description: '', content: { 'application/json': { schema } } } } };
}

test('clientText() writes identical API clients for equal OpenAPI documents', () => {
  assert.equal(clientText(generatedApp(3, 40).openapi()), clientText(generatedApp(3, 40).openapi()));
});

test('clientText() writes an API client without imports and without file: URLs', () => {
  const text = clientText(shop().openapi());
  assert.doesNotMatch(text, /^import |\brequire\(|\bimport\(|file:\/\/|'node:/m);
});

for (const [schema, type] of [
  [{ type: 'string', format: 'date-time' }, 'string'],
  [{ type: ['integer', 'null'] }, 'number | null'],
  [{ enum: ['a', 1, null] }, '"a" | 1 | null'],
  [{ const: true }, 'true'],
  [{}, 'unknown'],
  [{ type: 'array', items: { type: ['string', 'null'] } }, '(string | null)[]'],
  [{ type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }] }, '[string, number]'],
  [{ type: 'object', additionalProperties: { type: 'number' } }, 'Record<string, number>'],
  [{ oneOf: [{ $ref: '#/components/schemas/A' }, { type: 'null' }] }, 'A | null'],
  [{ type: 'string', allOf: [{ pattern: 'a' }, { pattern: 'b' }] }, 'string'],
  [{ allOf: [{ $ref: '#/components/schemas/A' }, { $ref: '#/components/schemas/B' }] }, 'A & B'],
  [{ $ref: '#/components/schemas/none' }, 'unknown'],
] as const) {
  test(`clientText() writes the TypeScript type ${type} for the schema ${JSON.stringify(schema)}`, () => {
    const text = written(answering(schema), { schemas: { A: { type: 'object' }, B: { type: 'object' } } });
    assert.ok(text.includes(`Promise<Success<200, ${type}>>`), text.match(/readA\(.*/)?.[0]);
  });
}

test('clientText() requires the input of an operation only if one of its parts is required, and gives an empty one no members', () => {
  const query = (required: boolean): object => ({
    name: 'a',
    in: 'query',
    required,
    schema: { type: 'string' },
  });
  for (const [operation, input] of [
    [{}, 'input?: Record<string, never>'],
    [{ parameters: [query(false)] }, 'input?: {'],
    [{ parameters: [query(true)] }, 'input: {'],
    [{ requestBody: { content: { 'application/json': { schema: {} } } } }, 'input?: {'],
    [{ requestBody: { required: true, content: { 'application/json': { schema: {} } } } }, 'input: {'],
  ] as const) {
    const text = written(operation);
    assert.ok(text.includes(`readA(${input}`), text.match(/readA\(.*/)?.[0]);
  }
});

test('clientText() omits readOnly members from request types, and keeps them in response types', () => {
  const schema = (name: string): object => ({
    type: 'object',
    properties: { id: { type: 'integer', readOnly: true }, [name]: { type: 'string' } },
  });
  const text = written(
    {
      requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/In' } } } },
      ...answering({ $ref: '#/components/schemas/Out' }),
    },
    { schemas: { In: schema('sent'), Out: schema('shown') } },
  );
  assert.match(text, /interface In \{\n {2}sent\?: string \| undefined;\n\}/);
  assert.match(text, /interface Out \{\n {2}id\?: number;\n {2}shown\?: string;\n\}/);
});

test('clientText() renames schemas whose names are reserved in TypeScript, and quotes operation ids that are not identifiers', () => {
  const schemas = {
    Response: { type: 'object' },
    'a b': { type: 'object' },
    a_b: { type: 'object' },
    7: {},
    class: {},
  };
  const text = written({ operationId: 'notes.list-all' }, { schemas });
  for (const name of ['ResponseSchema', 'a_b', 'a_bSchema', '_7', 'classSchema'])
    assert.match(text, new RegExp(`export type ${name} = `));
  assert.match(text, /^ {2}"notes\.list-all"\(/m);
  assert.match(written({ operationId: '__proto__' }), /^ {2}\['__proto__'\]: \{ method/m);
});

test('clientText() writes one type for all error responses with the same body', () => {
  const problem = { content: { 'application/problem+json': { schema: { type: 'object' } } } };
  const gone = { content: { 'application/json': { schema: { type: 'string' } } } };
  const text = written({ responses: { 204: {}, 400: problem, 410: gone, '4XX': problem, '5XX': problem } });
  assert.ok(
    text.includes(
      'Success<204, undefined> | Failure<Exclude<ErrorStatus, 410>, Record<string, unknown>> | Failure<410, string>',
    ),
    text.match(/readA\(.*/)?.[0],
  );
});

test('clientText() writes the type unknown for error responses whose content the document leaves open', () => {
  const text = written({ responses: { 204: {}, 404: {}, '4XX': {} } });
  assert.ok(
    text.includes('Success<204, undefined> | Failure<ClientErrorStatus, unknown>'),
    text.match(/readA\(.*/)?.[0],
  );
});

test('clientText() chooses the types of bodies without a schema, such as streams, texts and files, by their media type', () => {
  const type = (media: string): string | undefined =>
    /Success<200, (.*)>>;$/m.exec(written({ responses: { 200: { content: { [media]: {} } } } }))?.[1];
  assert.deepEqual(
    ['text/event-stream', 'application/x-ndjson', 'text/plain', 'image/png', '*/*', 'application/json'].map(
      type,
    ),
    ['AsyncIterable<ServerSentEvent>', 'AsyncIterable<unknown>', 'string', 'Blob', 'Response', 'unknown'],
  );
});

test('clientText() writes types for the requests of webhooks and callbacks, for use in the programs that receive them', () => {
  const app = new Svc({ openapi: { webhooks: { paid: { description: 'An order is paid', ...signed } } } });
  app.post(
    '/orders',
    { name: 'addOrder', callbacks: { 'paid-by': { url: '{$request.query.url}', body: Paid } } },
    () => null,
  );
  const text = clientText(app.openapi());
  assert.ok(
    text.includes(`/** Requests that the application sends, by name, for the code that receives them. */
export interface Webhooks {
  /** An order is paid */
  paid: {
    headers: {
      "x-signature": string;
      "x-try"?: number;
    };
    body: Paid;
  };
}
`),
    text,
  );
  assert.ok(
    text.includes(`export interface Callbacks {
  addOrder: {
    /** paid-by */
    "paid-by": {
      body: Paid;
    };
  };
}
`),
    text,
  );
  assert.match(text, /export interface Paid \{\n  order: number;\n  tags: string\[\];\n\}/);
  assert.doesNotMatch(clientText(new Svc().openapi()), /Webhooks|Callbacks/);
});

test('clientText() escapes text of the OpenAPI document that would end a comment or a string literal', () => {
  for (const document of [HOSTILE, LIBRARY, { paths: {} }, {}])
    assert.doesNotThrow(() => stripTypeScriptTypes(clientText(document)));
  const text = written({ summary: 'a */ alert(1) /* b', description: 'x\u2028*/ y' });
  assert.doesNotThrow(() => stripTypeScriptTypes(text));
  assert.doesNotMatch(text, /\*\/ alert/);
});

test('a generated client takes a Date for a parameter that is a date and time, and text for one in a body', () => {
  const at = { type: 'string', format: 'date-time' };
  const text = written({
    parameters: [
      { name: 'at', in: 'query', required: true, schema: at },
      { name: 'days', in: 'query', required: true, schema: { type: 'array', items: at } },
    ],
    requestBody: {
      required: true,
      content: {
        'application/json': { schema: { type: 'object', properties: { on: at }, required: ['on'] } },
      },
    },
  });
  assert.match(text, /at: string \| Date;/);
  assert.match(text, /days: readonly \(string \| Date\)\[\];/);
  assert.match(text, /on: string;/);
});
