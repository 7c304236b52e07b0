import assert from 'node:assert/strict';
import test from 'node:test';
import { inspect } from 'node:util';
import { Field, fieldsOf, float, int, list, literal, nullable, str, uuid } from '../../src/schema/schema.ts';
import { checkOf, COMPILERS } from '../../src/schema/kinds.ts';
import { Plain, Run } from '../../src/schema/validation-run.ts';

const VALUES: readonly unknown[] = [
  undefined,
  null,
  true,
  false,
  '',
  'a',
  'admin',
  'x'.repeat(20),
  '😀'.repeat(6),
  '😀'.repeat(11),
  '\ud800',
  'x'.repeat(20) + '\udc00',
  'ada@example.com',
  'ada@localhost',
  `${'a'.repeat(250)}@b.cd`,
  0,
  -0,
  1,
  2,
  2.5,
  -1,
  150,
  151,
  2 ** 53,
  NaN,
  Infinity,
  -Infinity,
  Number.MAX_VALUE,
  7n,
  [],
  ['a'],
  {},
  new Date(0),
];
const FIELDS = {
  text: Field(str),
  bounded: Field(str, { minLength: 2, maxLength: 20 }),
  email: Field(str, { email: true }),
  short: Field(str, { format: 'email', maxLength: 10 }),
  host: Field(str, { format: 'hostname' }),
  pattern: Field(str, { pattern: '^a' }),
  integer: Field(int),
  age: Field(int, { ge: 0, le: 150 }),
  above: Field(int, { gt: 1 }),
  even: Field(int, { multipleOf: 2 }),
  number: Field(float),
  share: Field(float, { ge: 0, le: 1 }),
  flag: Field(Boolean),
  role: Field(literal('admin', 1, true, null)),
  many: Field(literal('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', 'i')),
  id: Field(uuid),
  texts: Field(list(str)),
  maybe: Field(nullable(str)),
};

test('if Plain.accepts(), the fast check of a type, accepts a value, the full check returns this value unchanged', () => {
  for (const { name, node } of fieldsOf(FIELDS).fields) {
    const plain = COMPILERS.json.plain(node),
      check = checkOf(node, 'json');
    for (const value of VALUES) {
      if (plain.accepts(value, false))
        assert.ok(Object.is(check(value, new Run(false, false)), value), `${name} ${inspect(value)}`);
      assert.equal(Plain.nothing.accepts(value, false), false);
    }
  }
});

test('Plain.accepts() accepts a typical value of a text, e-mail, number, boolean or literal field', () => {
  const examples: Readonly<Record<string, unknown>> = {
    text: 'a',
    bounded: 'admin',
    email: 'ada@example.com',
    integer: -1,
    age: 150,
    number: 2.5,
    share: 0,
    flag: false,
    role: 'admin',
  };
  for (const { name, node } of fieldsOf(FIELDS).fields) {
    if (name in examples) assert.ok(COMPILERS.json.plain(node).accepts(examples[name], false), name);
  }
});
