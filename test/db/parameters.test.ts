/** Values that no engine can bind: the problem says what was found, and what to write instead. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json, sql, typed } from '../../src/db/index.ts';
import { parameterIssue } from '../../src/db/parameters.ts';

class Money {
  readonly cents = 1;
}

for (const [what, value, problem, sqlstate] of [
  [
    'half a surrogate pair',
    'a\ud800',
    'text with half a surrogate pair, which no encoding can store',
    '22021',
  ],
  ['NaN', NaN, 'NaN, which SQL cannot represent: write null', '22003'],
  ['Infinity', -Infinity, '-Infinity, which SQL cannot represent: write null', '22003'],
  ['2^63', 2n ** 63n, 'an integer that needs more than 64 bits: store it as text', '22003'],
  ['-2^63 - 1', -(2n ** 63n) - 1n, 'an integer that needs more than 64 bits: store it as text', '22003'],
  ['an invalid Date', new Date(NaN), 'an invalid Date', '22007'],
  ['undefined', undefined, 'undefined: write null if that is meant', undefined],
  ['a symbol', Symbol('a'), 'a symbol', undefined],
  ['a function', () => 1, 'a function', undefined],
  [
    'a value of typed()',
    typed('money', 1),
    'a value of the type "money", and the database has no option "types"',
    undefined,
  ],
  [
    'a part of a statement',
    sql`1`,
    'a part of a statement: write it inside the sql template, and not among the values',
    undefined,
  ],
  ['a promise', Promise.resolve(1), 'a promise: await it first', undefined],
  [
    'an array',
    [1],
    'an array: wrap it in json() to store it, or use sql.in() for a list of values',
    undefined,
  ],
  ['a plain object', {}, 'a plain object: wrap it in json() to store it', undefined],
  ['an object of a class', new Money(), 'an object: wrap it in json() to store it', undefined],
] as const)
  test(`parameterIssue() refuses ${what}`, () => {
    const found = parameterIssue(value);
    assert.deepEqual([found?.problem, found?.sqlstate], [problem, sqlstate]);
  });

test('parameterIssue() accepts the values that an engine can bind', () => {
  for (const value of [
    '',
    'a😀',
    0,
    -0,
    Number.MAX_VALUE,
    2n ** 63n - 1n,
    -(2n ** 63n),
    true,
    null,
    new Date(0),
    Uint8Array.of(1),
    new ArrayBuffer(1),
    json({}),
  ])
    assert.equal(parameterIssue(value), undefined, String(value));
});
