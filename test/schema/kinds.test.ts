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
