/** JSON texts of tokens: valid values, and texts with a repeated name at each place. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseObject, parseValue } from '../../src/crypto/jwt-json.ts';

/** Each `#` stands for the name of a member; `"x": "y": 1`-like text in a string does not name a member. */
const SHAPES: readonly string[] = [
  '{#:1,"b":2,#:3}',
  '{#:[1,{"b":2}],"c":3,#:4}',
  '{"list":[{"b":1}],#:1,#:2}',
  '{"list":[1,2],"more":[[],{}],#:1,"x":[],#:2}',
  '{"b":{#:1,"c":[],#:2}}',
  '[{"b":1},[{#:1,#:2}]]',
  '{"a \\" b\\\\":1,#:"x:y",#:2}',
  '{ #\t:\n1 , # : 2 }',
];

test('parseValue() returns the value of a JSON text without repeated names, also when strings look like names', () => {
  for (const shape of SHAPES) {
    let count = 0;
    const text = shape.replaceAll('#', () => `"name${count++}"`);
    assert.deepEqual(parseValue(text), JSON.parse(text), text);
    const misleading = text.replace(/[}\]]$/, (end) =>
      end === '}' ? ',"text":"\\"a\\":1, \\"a\\" :2"}' : ',"\\"a\\":1"]',
    );
    assert.deepEqual(parseValue(misleading), JSON.parse(misleading), misleading);
  }
});

test('parseValue() returns undefined for a JSON text in which an object has two members of one name', () => {
  for (const shape of SHAPES)
    for (const names of [
      ['"a"', '"a"'],
      ['"a"', '"\\u0061"'],
      ['""', '""'],
    ] as const) {
      let count = 0;
      const text = shape.replaceAll('#', () => names[count++ % 2] ?? '');
      JSON.parse(text); // the text is valid JSON
      assert.equal(parseValue(text), undefined, text);
    }
});

test('parseValue() returns undefined for invalid JSON, the name __proto__, and more than 32 levels', () => {
  const nested = (levels: number, open: string, close: string): string =>
    open.repeat(levels) + '1' + close.repeat(levels);
  for (const text of ['', '{', '{"a":1,}', "{'a':1}", '{"__proto__":1}', '[{"b":{"__proto__":{}}}]'])
    assert.equal(parseValue(text), undefined, text);
  for (const [open, close] of [
    ['[', ']'],
    ['{"a":', '}'],
  ] as const) {
    assert.notEqual(parseValue(nested(32, open, close)), undefined);
    assert.equal(parseValue(nested(33, open, close)), undefined);
  }
  // the members beside a refused value do not hide it
  for (const refused of ['{"__proto__":1}', nested(32, '[', ']'), nested(32, '{"a":', '}')])
    for (const shape of [
      '[#,{"b":1}]',
      '[{"b":1},#]',
      '{"b":1,"c":#}',
      '{"b":#,"c":{"d":1}}',
      '[[#],{"b":1}]',
    ]) {
      const text = shape.replace('#', refused);
      assert.equal(parseValue(text), undefined, text);
    }
});

test('parseObject() returns objects only', () => {
  assert.deepEqual(parseObject('{"a":[1]}'), { a: [1] });
  for (const text of ['[1]', '1', 'null', '"a"', 'true']) assert.equal(parseObject(text), undefined, text);
});
