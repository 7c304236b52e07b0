import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readDocument } from '../../../src/openapi/docs/document.ts';
import { SchemaWriter, factsOf } from '../../../src/openapi/docs/schema.ts';
import { LIBRARY } from '../../support/openapi-documents.ts';

const document = readDocument(LIBRARY);
const writer = new SchemaWriter(document);

/** Returns the visible text of markup. */
function read(markup: { readonly text: string }): string {
  return markup.text
    .replace(/<(?:p|li|ul|h\d)\b[^>]*>/g, '\n')
    .replace(/<small>/g, ' ')
    .replace(/<[^>]*>/g, '')
    .replaceAll('&#34;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replace(/\n+/g, '\n')
    .trim();
}

for (const [schema, type] of [
  [undefined, 'any'],
  [true, 'any'],
  [false, 'never'],
  [{}, 'any'],
  [{ type: 'integer' }, 'integer'],
  [{ type: 'string', format: 'date-time' }, 'string date-time'],
  [{ type: ['string', 'null'] }, 'string | null'],
  [{ const: 'a' }, '"a"'],
  [{ enum: [1, 'b', null] }, '1 | "b" | null'],
  [{ type: 'array', items: { type: 'number' } }, 'array of number'],
  [{ type: 'array', items: { type: ['string', 'null'] } }, 'array of (string | null)'],
  [{ prefixItems: [{ type: 'number' }, { type: 'string' }] }, '[number, string]'],
  [{ anyOf: [{ type: 'null' }, { $ref: '#/components/schemas/Book' }, { type: 'null' }] }, 'Book | null'],
  [{ allOf: [{ $ref: '#/components/schemas/Book' }, { type: 'object' }] }, 'Book & object'],
  [{ type: 'object', additionalProperties: { type: 'integer' } }, 'map of integer'],
  [{ properties: {} }, 'object'],
  [{ type: 'string', format: 'binary' }, 'file'],
  [{ type: 'string', contentMediaType: 'image/png' }, 'file'],
  [{ type: 'string', contentEncoding: 'base64' }, 'string base64'],
  [{ $ref: '#/components/schemas/Nobody%20knows' }, 'Nobody knows'],
  [{ $ref: '#/components/schemas/%' }, '%'],
] as const) {
  test(`SchemaWriter.type() describes the JSON Schema ${JSON.stringify(schema)} as the type ${type}`, () =>
    assert.equal(read(writer.type(schema)), type));
}

for (const [schema, facts] of [
  [{ type: 'string', minLength: 1, maxLength: 1 }, '1 character'],
  [{ minLength: 2 }, 'at least 2 characters'],
  [{ maxItems: 1_000_000 }, 'up to 1,000,000 items'],
  [{ minimum: 1, maximum: 100 }, '1 … 100'],
  [{ exclusiveMinimum: 0, multipleOf: 0.01 }, '> 0 · multiple of 0.01'],
  [{ minimum: -9007199254740991, maximum: 9007199254740991 }, ''],
  [{ pattern: '<\\S>' }, 'pattern <\\S>'],
  [{ default: null, readOnly: true }, 'read only · default null'],
  [{ uniqueItems: true, minItems: 2 }, 'at least 2 items · unique items'],
  [{ type: 'string', format: 'email', maxLength: 254, pattern: '^x' }, ''],
  [{ type: 'string', format: 'uri', minLength: 9, maxLength: 8192 }, 'at least 9 characters'],
  [{ type: 'string', allOf: [{ pattern: 'a' }, { pattern: 'b' }] }, 'pattern a · pattern b'],
  [{ type: 'string', contentMediaType: 'image/png', maxLength: 2_500_000 }, 'up to 2.5 MB'],
  [{ type: 'string', format: 'binary', minLength: 1, maxLength: 800 }, '1 byte–800 bytes'],
  [
    { type: 'array', maxItems: 3, items: { type: 'string', minLength: 2 } },
    'up to 3 items\nEach item: at least 2 characters',
  ],
  [{ examples: ['x', 'y'] }, 'example "x"'],
  [{ example: 0 }, 'example 0'],
] as const) {
  test(`factsOf() describes the constraints of the JSON Schema ${JSON.stringify(schema)} as "${facts}"`, () =>
    assert.equal(read(factsOf(schema)), facts));
}

test('SchemaWriter.members() lists the members of an object with type and constraints, and links to referenced schemas', () => {
  const members = writer.members({ $ref: '#/components/schemas/NewBook' });
  assert.equal(
    read(members),
    'title string required\n1–200 characters · pattern \\S · example "Dune"\ngenre Genre required\nauthor Author\nisbn string | null\npattern ^[0-9-]{10,17}$ · default null\nprice number\n> 0 · multiple of 0.01 · example 12.5\nlabels map of string\nup to 10 properties\nparts array of Part\nup to 50 items',
  );
  assert.ok(members.text.includes('<a href="#schema-Genre">Genre</a>'));
});

test('SchemaWriter.members() lists the members of the items of an array, and only one level of a recursive schema', () => {
  assert.equal(
    read(writer.members({ type: 'array', items: { $ref: '#/components/schemas/Part' } })),
    'title string required\nparts array of Part',
  );
});

test('SchemaWriter.members() shows the allowed media types of file fields in a form', () => {
  const image = { type: 'string', contentMediaType: 'application/octet-stream', maxLength: 1000 };
  const form = {
    properties: { photo: image, note: { type: 'string' }, more: { type: 'array', items: image } },
  };
  const types = new Map([
    ['photo', 'image/png, image/jpeg'],
    ['more', 'image/*'],
    ['note', 'text/plain'],
  ]);
  assert.equal(
    read(writer.members(form, types)),
    'photo file\nimage/png, image/jpeg · up to 1 kB\nnote string\nmore array of file\nimage/*\nEach item: up to 1 kB',
  );
});

test('SchemaWriter.members() shows the alternatives of a union as a choice with the members of one, without links to them', () => {
  const choice = writer.members({ $ref: '#/components/schemas/Event' });
  const names = [...choice.text.matchAll(/<details name="([^"]+)"( open)?>/g)];
  assert.deepEqual(
    names.map(([, , open]) => open),
    [' open', undefined],
  );
  assert.equal(new Set(names.map(([, name]) => name)).size, 1);
  assert.doesNotMatch(choice.text, /#schema-(?:Paid|Borrowed)/);
  const again = writer.members({ $ref: '#/components/schemas/Event' });
  assert.notEqual(/name="[^"]+"/.exec(again.text)![0], /name="[^"]+"/.exec(choice.text)![0]);
  assert.equal(
    read(writer.members({ $ref: '#/components/schemas/Event' })),
    'One ofPaid kind paid\nkind "paid" required\ncents integer required\n≥ 0Borrowed kind borrowed\nkind "borrowed" required\nbook integer required\nat [number, number]',
  );
  assert.equal(
    read(
      writer.members({
        oneOf: [{ properties: { a: { type: 'string' } } }, { properties: { b: { type: 'integer' } } }],
      }),
    ),
    'One of\na string\nor\nb integer',
  );
});

test('SchemaWriter.members() merges the members of the schemas in an allOf', () => {
  assert.equal(
    read(writer.members({ $ref: '#/components/schemas/Loan' })),
    'All of Timestamps, and:\nbook Book required\ndue string date',
  );
});

test('SchemaWriter terminates for cyclic schemas and for schemas that are nested 5,000 levels deep', () => {
  const loop: Record<string, unknown> = { type: 'object' };
  loop['properties'] = { self: loop };
  assert.ok(writer.members(loop).text.length < 10_000);
  let deep: object = { type: 'string' };
  for (let depth = 0; depth < 5_000; depth++)
    deep = { type: 'array', items: { anyOf: [deep, { type: 'null' }] } };
  assert.match(read(writer.type(deep)), /^array of \(array of \(.*…/);
});

test('SchemaWriter.named() describes a schema without members by its type and constraints', () => {
  assert.equal(
    read(writer.named(document.schemas.get('Genre')!)),
    'Where it stands.\n"novel" | "poetry" | "science" | "history"',
  );
});
