/** The option `types` of a database, and values of typed(), without a database. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataError, typed } from '../../src/db/index.ts';
import { encodeRows, encodeTyped, readOwnTypes } from '../../src/db/own-types.ts';
import { SvcError } from '../../src/base/errors.ts';
import type { FaultCode } from '../../src/base/faults.ts';
import type { Dialect, OwnType } from '../../src/db/index.ts';

/** Matches an SvcError by its code and whole message. */
function exactly(code: FaultCode, message: string): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof SvcError, String(error));
    assert.deepEqual([error.code, error.message], [code, message]);
    return true;
  };
}

const KEPT_BY_MYSQL =
  'tinyint smallint mediumint int bigint varchar char tinytext text mediumtext longtext varbinary binary tinyblob blob mediumblob longblob null';
const KEPT: Readonly<Record<Dialect, string>> = {
  sqlite: '',
  postgres: 'bool int2 int4 int8 oid text varchar bpchar char name bytea void unknown regclass regtype',
  mysql: KEPT_BY_MYSQL,
  mariadb: KEPT_BY_MYSQL,
};
const ALL = [...new Set(Object.values(KEPT).flatMap((names) => names.split(' ').filter(Boolean)))];

for (const [dialect, kept] of Object.entries(KEPT) as [Dialect, string][])
  test(`the option "types" refuses the types that svc itself reads (${dialect})`, () => {
    for (const name of ALL)
      for (const given of [name, name.toUpperCase()]) {
        const read = (): unknown => readOwnTypes({ [given]: { parse: Number } }, dialect)?.has(name);
        if (kept.split(' ').includes(name))
          assert.throws(
            read,
            exactly(
              'E_DB_OPTION',
              `Cannot use an option or method of the database: "types.${given}" must be removed, because svc itself reads values of the type "${given}"`,
            ),
          );
        else assert.equal(read(), true, given);
      }
  });

for (const [what, type, code, message] of [
  [
    'null',
    null,
    'E_DB_OPTION',
    'Cannot use an option or method of the database: "types.a" must be an object with "parse", "encode" or both',
  ],
  [
    'an empty object',
    {},
    'E_DB_OPTION',
    'Cannot use an option or method of the database: "types.a" must have the function "parse", the function "encode" or both',
  ],
] as const)
  test(`the option "types" refuses ${what} as a type`, () => {
    assert.throws(() => readOwnTypes({ A: type as never }, 'postgres'), exactly(code, message));
  });

test('the option "types" refuses unknown keys and values that are not functions, and may be empty', () => {
  assert.throws(() => readOwnTypes({ a: { read: Number } as never }, 'mysql'), { code: 'E_OPTION_UNKNOWN' });
  for (const key of ['parse', 'encode'])
    assert.throws(() => readOwnTypes({ a: { [key]: 1 } as never }, 'mysql'), { code: 'E_OPTION_RANGE' });
  assert.equal(readOwnTypes({}, 'postgres'), undefined);
});

test('an error of "parse" becomes the cause of a DataError that names the type', () => {
  const cause = new Error('secret');
  const fails = (): never => {
    throw cause;
  };
  const parse = readOwnTypes({ Money: { parse: fails } }, 'sqlite')!.get('money')!.parse!;
  assert.throws(
    () => parse('1'),
    (error) =>
      error instanceof DataError &&
      error.cause === cause &&
      error.message === 'the function "parse" of the type "money" threw an error for a value',
  );
});

const cause = new Error('nope');
const TYPES: Record<string, OwnType> = {
  money: { encode: (value: number) => `${value} EUR` },
  bytes: { encode: (value: number) => new Uint8Array([value]) },
  wrong: { encode: ((value: unknown) => value) as never },
  fails: {
    encode: () => {
      throw cause;
    },
  },
  read: { parse: Number },
};
const read = readOwnTypes(TYPES, 'sqlite')!;

for (const [what, params, expected] of [
  ['text', [typed('Money', 3), 'a'], ['3 EUR', 'a']],
  ['bytes', [typed('bytes', 3)], [new Uint8Array([3])]],
  ['NULL', [typed('fails', null)], [null]],
  ['lists', [[typed('money', 1), [typed('money', 2)], 3]], [['1 EUR', ['2 EUR'], 3]]],
  ['a list of six levels', [[[[[[[typed('money', 1)]]]]]]], [[[[[[['1 EUR']]]]]]]],
] as const)
  test(`encodeTyped() encodes ${what}`, () => {
    assert.deepEqual(encodeTyped(params as never, read), expected);
  });

test('encodeTyped() returns the same list without values of typed(), and the same value of a seventh level', () => {
  for (const params of [[1, 'a', [2, null]], [], [[[[[[[[typed('money', 1)]]]]]]]]] as never[])
    assert.equal(encodeTyped(params, read), params);
  assert.equal(encodeTyped('no list' as never, read), 'no list');
});

for (const [type, value, problem, why] of [
  ['wrong', 1, 'the function "encode" of the type "wrong" must return text or bytes', undefined],
  ['wrong', undefined, 'the function "encode" of the type "wrong" must return text or bytes', undefined],
  ['fails', 1, 'the function "encode" of the type "fails" threw an error', cause],
  [
    'read',
    1,
    'the option "types" has no function "encode" for the type "read": did you mean "read"?',
    undefined,
  ],
  [
    'Mony',
    1,
    'the option "types" has no function "encode" for the type "Mony": did you mean "money"?',
    undefined,
  ],
  ['elsewhere', 1, 'the option "types" has no function "encode" for the type "elsewhere"', undefined],
] as const)
  test(`encodeTyped() refuses the value ${value} of the type "${type}", and names its place`, () => {
    const value2 = typed(type, value as never);
    for (const [run, place] of [
      [() => encodeTyped(['a', value2], read), 'parameter 2'],
      [() => encodeTyped(['a', value2], read, 7), 'parameter 2 of row 7'],
      [() => [...encodeRows([['a'], ['b', value2]], read)], 'parameter 2 of row 2'],
    ] as const)
      assert.throws(run, (error) => {
        assert.ok(exactly('E_DB_PARAMETER', `Cannot bind ${place}: ${problem}`)(error));
        assert.equal((error as Error).cause, why);
        return true;
      });
  });
