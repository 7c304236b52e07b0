import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../src/base/errors.ts';
import type { FaultCode } from '../../src/base/faults.ts';
import {
  bool,
  closest,
  given,
  int,
  number,
  oneOf,
  readGiven,
  readOptions,
  shown,
  text,
} from '../../src/base/options.ts';

const KINDS = {
  max: int(5, 1, 10),
  ratio: number(0.5, 0, 1),
  on: bool(false),
  name: text('x'),
  note: text(),
  mode: oneOf(['fast', 'safe'], 'safe'),
  fn: given<() => void>('a function', (value) => typeof value === 'function'),
  any: given<object>(),
};

function fault(code: FaultCode, pattern: RegExp) {
  return (error: unknown): boolean =>
    error instanceof SvcError && error.code === code && pattern.test(error.message);
}

test('readOptions() refuses options that are not an object', () => {
  for (const [options, found] of [
    [null, 'null'],
    [undefined, 'undefined'],
    ['max', 'a string of 3 characters'],
    [['max'], 'an array'],
    [() => 1, 'a function'],
  ] as const)
    assert.throws(
      () => readOptions('x', options as never, KINDS),
      fault('E_OPTION_RANGE', new RegExp(`option "options" needs an object, found ${found}$`)),
    );
});

test('readOptions() returns the fallback of each option that is not given', () => {
  const expected = {
    max: 5,
    ratio: 0.5,
    on: false,
    name: 'x',
    note: undefined,
    mode: 'safe',
    fn: undefined,
    any: undefined,
  };
  assert.deepEqual(readOptions('Thing', {}, KINDS), expected);
  assert.deepEqual(readOptions('Thing', { max: undefined, mode: undefined }, KINDS), expected);
});

test("readOptions() returns a new object with the given values, and does not change the caller's object", () => {
  const fn = (): void => {};
  const options = Object.freeze({
    max: 10,
    ratio: 1,
    on: true,
    name: '',
    note: 'n',
    mode: 'fast',
    fn,
    any: 1,
  });
  const values = readOptions('Thing', options, KINDS);
  assert.deepEqual(values, options);
  assert.notEqual(values, options);
});

test('readOptions() refuses an unknown option, and its error suggests the most similar name', () => {
  assert.throws(
    () => readOptions('Thing', { maxx: 1 }, KINDS),
    fault('E_OPTION_UNKNOWN', /"maxx": did you mean "max"\?/),
  );
  assert.throws(
    () => readOptions('Thing', { somethingElse: 1 }, KINDS),
    fault('E_OPTION_UNKNOWN', /"somethingElse"; the options are max, .*$/),
  );
  assert.throws(() => readOptions('Thing', { toString: 1 }, KINDS), fault('E_OPTION_UNKNOWN', /"toString"/));
});

for (const [option, value, needs] of [
  ['max', 0, 'an integer 1 … 10'],
  ['max', 11, 'an integer 1 … 10'],
  ['max', 1.5, 'an integer 1 … 10'],
  ['max', '5', 'an integer 1 … 10'],
  ['ratio', Number.NaN, 'a number 0 … 1'],
  ['ratio', -0.1, 'a number 0 … 1'],
  ['ratio', 2, 'a number 0 … 1'],
  ['on', 1, 'true or false'],
  ['name', 1, 'a string'],
  ['mode', 'slow', 'one of "fast", "safe"'],
  ['fn', {}, 'a function'],
] as const) {
  test(`readOptions() refuses the value ${JSON.stringify(value)} for the option ${option}, and its error says that the option needs ${needs}`, () => {
    assert.throws(
      () => readOptions('Thing', { [option]: value }, KINDS),
      fault('E_OPTION_RANGE', new RegExp(RegExp.escape(needs))),
    );
  });
}

test('shown() describes a value for an error message, and does not reveal the content of strings', () => {
  const values = ['secret', 'x', 5, true, null, undefined, 5n, [1], () => 1, Symbol('s'), {}];
  assert.deepEqual(values.map(shown), [
    'a string of 6 characters',
    'a string of 1 character',
    '5',
    'true',
    'null',
    'undefined',
    '5n',
    'an array',
    'a function',
    'a symbol',
    'an object',
  ]);
});

test('closest() returns the most similar candidate, or undefined if all candidates differ too much', () => {
  assert.equal(closest('perSecond', ['perMinute', 'max']), undefined);
  assert.equal(closest('perMinut', ['max', 'perMinute']), 'perMinute');
  assert.equal(closest('mxa', ['max']), 'max'); // two swapped neighbours count as one mistake
  assert.equal(closest('Timeout', ['timeout', 'timeouts']), 'timeout');
  assert.equal(closest('a', ['b']), 'b');
  assert.equal(closest('abc', ['xyz']), undefined);
  assert.equal(closest('abc', []), undefined);
});

test('readGiven() returns only the given options, without fallbacks, and refuses unknown options and invalid values', () => {
  const values = readGiven('Thing', { max: 3, note: undefined, fn: undefined, name: '' }, KINDS);
  assert.deepEqual(Object.keys(values), ['max', 'name']);
  assert.deepEqual(values, { max: 3, name: '' });
  assert.deepEqual(readGiven('Thing', {}, KINDS), {});
  assert.throws(
    () => readGiven('Thing', { maxx: 1 }, KINDS),
    fault('E_OPTION_UNKNOWN', /"maxx": did you mean "max"\?/),
  );
  assert.throws(
    () => readGiven('Thing', { toString: undefined }, KINDS),
    fault('E_OPTION_UNKNOWN', /"toString"/),
  );
  assert.throws(() => readGiven('Thing', { max: 11 }, KINDS), fault('E_OPTION_RANGE', /an integer 1 … 10/));
});
