/**
 * The table of kinds: each scalar kind in each source, and the kinds that contain others.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import test from 'node:test';
import {
  Field,
  Schema,
  bool,
  bytes,
  compileType,
  date,
  datetime,
  decimal,
  fieldsOf,
  float,
  int,
  lazy,
  list,
  literal,
  nullable,
  str,
  tuple,
  union,
  uuid,
} from '../../src/schema/schema.ts';
import { JsonSchemas } from '../../src/schema/json-schema.ts';
import { checkOf, kindNamed, serializerOf } from '../../src/schema/kinds.ts';
import { planOf } from '../../src/schema/plan.ts';
import { columnCheck, rowReading } from '../../src/schema/rows.ts';
import { Run } from '../../src/schema/validation-run.ts';
import type { TypeSource } from '../../src/schema/schema.ts';

/** Types whose values a JSON document, a text, a column and a reply can hold. */
const SCALARS: readonly (readonly [type: TypeSource, value: unknown, inSchema: string])[] = [
  [str, 'text', 'string'],
  [int, 7, 'integer'],
  [float, 2.5, 'number'],
  [decimal, '-12.50', 'string'],
  [bool, true, 'boolean'],
  [datetime, new Date('2026-01-31T09:30:00Z'), 'string'],
  [date, '2026-01-31', 'string'],
  [uuid, '00000000-0000-4000-8000-000000000000', 'string'],
  [bytes, new Uint8Array([1, 2, 3]), 'string'],
  [literal(1, 2), 1, 'number'],
];

const run = (): Run => new Run(false, false);

for (const [type, value, inSchema] of SCALARS) {
  const { node } = compileType(type);
  test(`the kind "${node.kind}" reads from each source the value that a reply writes`, () => {
    const written = serializerOf(node).toValue(value);
    assert.ok(written.ok);
    assert.deepEqual(checkOf(node, 'json')(written.value, run()), value);
    assert.deepEqual(checkOf(node, 'text')(String(written.value), run()), value);
    assert.deepEqual(checkOf(node, 'part')(written.value, run()), value);
    assert.deepEqual(columnCheck(node, 'none')(value, run()), value);
    assert.equal(new JsonSchemas().type(node, 'output')['type'], inSchema);
  });
}

test('no module of the schemas but the table of kinds has a switch over the kinds of types', () => {
  const folder = new URL('../../src/schema/', import.meta.url);
  const found = readdirSync(folder).flatMap((file) =>
    [...readFileSync(new URL(file, folder), 'utf8').matchAll(/switch \((?:node|shape|given)\.kind\)/g)].map(
      () => file,
    ),
  );
  assert.deepEqual(found, []);
  assert.equal(kindNamed('int').inner, undefined);
});

test('a list in a query takes a repeated name, also if the list is nullable and lazy', () => {
  const query = fieldsOf({ ids: Field(nullable(lazy(() => list(int)))) });
  const read = (ids: string | readonly string[]): unknown => query.parseText({ ids });
  assert.deepEqual(read(['1', '2']), { ok: true, value: { ids: [1, 2] } });
  assert.deepEqual(read('1'), { ok: true, value: { ids: [1] } });
  assert.deepEqual(read(''), { ok: true, value: { ids: null } });
});

test('a tuple in a column is an array or JSON text, with the forms that engines use', () => {
  const check = columnCheck(compileType(tuple(bool, nullable(datetime))).node, 'structures');
  const at = new Date('2026-01-31T09:30:00Z');
  assert.deepEqual(check('[1,"2026-01-31 09:30:00"]', run()), [true, at]);
  assert.deepEqual(check([0, null], run()), [false, null]);
});

test('NULL in a column is null if the type of an optional member allows null, else undefined', () => {
  class Item extends Schema {
    plain = Field(int, { optional: true });
    maybe = Field(nullable(int), { optional: true });
    either = Field(union(int, nullable(str)), { optional: true });
    one = Field(literal('a', null), { optional: true });
  }
  const columns = ['plain', 'maybe', 'either', 'one'];
  const { check } = rowReading(planOf(Item), columns, { snakeCase: false, jsonText: 'structures' });
  const row = Object.fromEntries(columns.map((name) => [name, null]));
  assert.deepEqual({ ...(check(row, run()) as Item) }, { ...row, plain: undefined });
});

/** Returns the codes of the issues of a value in JSON; empty if it is valid and stays unchanged. */
function codesOf(field: unknown, value: unknown): string[] {
  const result = fieldsOf({ x: field }).parseJson({ x: value });
  if (!result.ok) return result.issues.map(({ code }) => code);
  assert.equal((result.value as { x: unknown }).x, value);
  return [];
}

test('a decimal is text with at most the declared digits and places; numbers and other forms are refused', () => {
  const money = Field(decimal, { digits: 5, places: 2 });
  const good = ['0', '-0.5', '999.99', '-999', '1.5', '1.50'];
  const bad = [
    '1000',
    '0.999',
    '1.',
    '.5',
    '+1',
    '01',
    '1e3',
    '',
    ' 1',
    '1 ',
    'NaN',
    '-',
    '9'.repeat(5_000),
    '1\n',
  ];
  for (const text of good) assert.deepEqual(codesOf(money, text), [], text);
  for (const text of bad) assert.deepEqual(codesOf(money, text), ['format'], text);
  for (const other of [1, 1.5, true, null, ['1'], {}]) assert.deepEqual(codesOf(money, other), ['type']);
  const cases: [field: unknown, good: string[], bad: string[]][] = [
    [Field(decimal), ['9999999999999999.99'], ['10000000000000000', '0.001']],
    [Field(decimal, { digits: 3, places: 3 }), ['0.999', '-0'], ['1', '0.9999']],
    [Field(decimal, { digits: 4, places: 3 }), ['9.999'], ['10']],
    [Field(decimal, { digits: 1, places: 0 }), ['9'], ['10', '9.1']],
    [Field(decimal, { digits: 1_000, places: 0 }), ['9'.repeat(1_000)], ['9'.repeat(1_001), '0.0']],
  ];
  for (const [field, fits, exceeds] of cases) {
    const { pattern, type } = new JsonSchemas().field(fieldsOf({ x: field }).fields[0]!, 'input');
    assert.equal(type, 'string');
    for (const text of [...fits, ...exceeds]) {
      assert.deepEqual(codesOf(field, text), fits.includes(text) ? [] : ['format'], text);
      assert.equal(new RegExp(pattern as string, 'u').test(text), fits.includes(text), text);
    }
  }
  assert.throws(
    () => fieldsOf({ x: Field(decimal, { digits: 2, places: 3 }) }),
    /its places \(3\) exceed its digits/,
  );
  for (const options of [{ digits: 0 }, { digits: 1_001 }, { places: -1 }, { places: 1.5 }])
    assert.throws(() => fieldsOf({ x: Field(decimal, options) }), { code: 'E_OPTION_RANGE' });
  const refused = fieldsOf({ x: money }).parseJson({ x: 1 });
  assert.equal(
    refused.ok || refused.issues[0]!.message,
    'must be a decimal number as text, with at most 3 digits before the point and 2 after it',
  );
});

test('a decimal in a column is text or an integer, and a reply must be text', () => {
  const { node } = compileType(decimal);
  const column = columnCheck(node, 'none');
  assert.deepEqual(
    ['1.50', 7, 7n].map((value) => column(value, run())),
    ['1.50', '7', '7'],
  );
  for (const lossy of [1.5, 2 ** 60, NaN, '1.505']) assert.equal(typeof column(lossy, run()), 'symbol');
  assert.deepEqual(serializerOf(node).toJson('1.50'), { ok: true, value: '"1.50"' });
  assert.equal(serializerOf(node).toJson(1.5).ok, false);
});

test('a text with "trim" loses white space at both ends before its other options apply', () => {
  const name = Field(str, { trim: true, minLength: 2, maxLength: 4, pattern: '^[^ ]' });
  const read = (text: string): unknown => {
    const result = fieldsOf({ x: name }).parseJson({ x: text }, undefined, true);
    return result.ok ? result.value.x : result.issues.map(({ code }) => code);
  };
  assert.deepEqual(['  ab \n', '\u00a0abcd\ufeff', '  a  ', '     ', ' abcde '].map(read), [
    'ab',
    'abcd',
    ['min_length'],
    ['min_length'],
    ['max_length'],
  ]);
  class Person extends Schema {
    name = Field(str, { trim: true, maxLength: 2 });
    tags = Field(list(str, { trim: true, minLength: 1 }), { unique: true, default: () => [] });
    mail = Field(str, { trim: true, email: true, optional: true });
  }
  const person = Person.parse({ name: ' ab ', tags: [' a', 'b '], mail: ' a@example.com ' });
  assert.deepEqual({ ...person }, { name: 'ab', tags: ['a', 'b'], mail: 'a@example.com' });
  assert.equal(Person.accepts({ name: ' a ' }), true);
  assert.equal(Person.accepts({ name: ' abc ' }), false);
  assert.equal(Person.accepts({ name: 'a', tags: ['a', ' a'] }), false);
  assert.deepEqual(planOf(Person).parseText(new URLSearchParams('name=%20ab%20')), {
    ok: true,
    value: Person.parse({ name: 'ab' }),
  });
  assert.deepEqual(serializerOf(compileType(Person).node).toJson({ name: ' a ' }), {
    ok: true,
    value: '{"name":"a","tags":[]}',
  });
  assert.deepEqual(new JsonSchemas().field(fieldsOf({ x: name }).fields[0]!, 'input'), {
    type: 'string',
    minLength: 2,
    maxLength: 4,
    pattern: '^[^ ]',
  });
});
