/** Values as parameters of PostgreSQL, by the type of the parameter, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json, sql, typed } from '../../../src/db/index.ts';
import { DataError } from '../../../src/db/errors.ts';
import { OID, PostgresTypes } from '../../../src/db/postgres/types.ts';
import { needsTypes, textOf, writeParams } from '../../../src/db/postgres/values.ts';
import { MessageWriter } from '../../../src/db/postgres/writer.ts';
import { fault } from '../../contract/database.ts';
import type { Params } from '../../../src/db/index.ts';

/** First oid that a server gives to a type that is not built in. */
const FIRST_OWN = 16_384;
const BASES = [
  OID.bool,
  OID.bytea,
  OID.int8,
  OID.int2,
  OID.int4,
  OID.float8,
  OID.timestamp,
  OID.timestamptz,
  OID.date,
  OID.json,
] as const;
const INT4_LIST = 1007;
/** An oid of which the database has not been asked. */
const UNKNOWN = 99_999;

/** Types of a database with a domain over each of `BASES`, in this order. */
function types(): PostgresTypes {
  const known = new PostgresTypes('auto');
  known.learn(
    BASES.map((baseOid, index) => ({
      oid: FIRST_OWN + index,
      name: `domain${index}`,
      elementOid: 0,
      delimiter: ',',
      baseOid,
    })),
  );
  return known;
}

const domainOf = (base: number): number => FIRST_OWN + BASES.indexOf(base as never);

/** Returns the values of a Bind message: `[binary]`, text, or null. */
function bound(params: Params, oids: readonly number[] | undefined): ([hex: string] | string | null)[] {
  const writer = new MessageWriter();
  writer.beginBind('', '', params.length);
  writeParams(writer, params, oids, types(), 'select 1');
  writer.endBind(new Uint8Array(0));
  const bytes = writer.take();
  let at = 7; // type, length, and two empty names
  const int16 = (): number => bytes.readInt16BE((at += 2) - 2);
  const formats = Array.from({ length: int16() }, int16);
  assert.equal(int16(), params.length);
  return params.map((_, index) => {
    const length = bytes.readInt32BE(at);
    at += 4;
    if (length === -1) return null;
    const value = bytes.subarray(at, (at += length));
    return formats[index] === 1 ? [value.toString('hex')] : value.toString();
  });
}

const EPOCH = new Date(0);
const EPOCH_HEX = BigInt.asUintN(64, -946_684_800_000_000n).toString(16);

for (const [oid, value, expected] of [
  [OID.bool, true, ['01']],
  [OID.bool, false, ['00']],
  [OID.bool, 'yes', 'yes'],
  [OID.bool, 1, '1'],
  [OID.int2, 32_767, ['7fff']],
  [OID.int2, 32_768, '32768'],
  [OID.int2, -32_768, ['8000']],
  [OID.int2, -32_769, '-32769'],
  [OID.int2, 1.5, '1.5'],
  [OID.int2, '7', '7'],
  [OID.int4, 2_147_483_647, ['7fffffff']],
  [OID.int4, 2_147_483_648, '2147483648'],
  [OID.int4, -2_147_483_648, ['80000000']],
  [OID.int4, -2_147_483_649, '-2147483649'],
  [OID.int4, true, 'true'],
  [OID.int8, 5, ['0000000000000005']],
  [OID.int8, -1, ['ffffffffffffffff']],
  [OID.int8, Number.MAX_SAFE_INTEGER, ['001fffffffffffff']],
  [OID.int8, 2 ** 53, '9007199254740992'],
  [OID.int8, 2n ** 63n - 1n, ['7fffffffffffffff']],
  [OID.int8, -(2n ** 63n), ['8000000000000000']],
  [OID.int8, '5', '5'],
  [OID.float8, 1.5, ['3ff8000000000000']],
  [OID.float8, NaN, 'NaN'],
  [OID.float8, -Infinity, '-Infinity'],
  [OID.float8, '1.5', '1.5'],
  [OID.float4, 1.5, '1.5'],
  [OID.float4, Infinity, 'Infinity'],
  [OID.numeric, NaN, 'NaN'],
  [OID.numeric, 2n ** 64n, '18446744073709551616'],
  [OID.numeric, -0, '-0'],
  [OID.timestamp, EPOCH, [EPOCH_HEX]],
  [OID.timestamptz, EPOCH, [EPOCH_HEX]],
  [OID.timestamptz, 'now', 'now'],
  [OID.date, EPOCH, '1970-01-01'],
  [OID.bytea, Uint8Array.of(1, 255), ['01ff']],
  [OID.bytea, Uint8Array.of(1, 255).buffer, ['01ff']],
  [OID.bytea, new DataView(Uint8Array.of(9, 1, 255).buffer, 1), ['01ff']],
  [OID.bytea, '\\x01', '\\x01'],
  [OID.json, { a: [1, EPOCH] }, '{"a":[1,"1970-01-01T00:00:00.000Z"]}'],
  [OID.json, [1, 'a'], '[1,"a"]'],
  [OID.json, json(null), 'null'],
  [OID.json, EPOCH, '1970-01-01T00:00:00Z'],
  [INT4_LIST, [1, null, [2]], '{"1",NULL,{"2"}}'],
  [UNKNOWN, 5, '5'],
  [UNKNOWN, 'a', 'a'],
  [OID.int4, null, null],
] as const) {
  const shown = typeof value === 'bigint' ? `${value}n` : (JSON.stringify(value) ?? String(value));
  test(`PostgreSQL client: ${shown} is sent as ${Array.isArray(expected) ? 'binary' : 'text'} for a parameter of the type ${oid}, and of a domain over it`, () => {
    assert.deepEqual(bound([value as never], [oid]), [expected]);
    if (BASES.includes(oid as never)) assert.deepEqual(bound([value as never], [domainOf(oid)]), [expected]);
  });
}

test('PostgreSQL client: a value is sent as text if the type of its parameter is not known', () => {
  const values = [1, 1n, 'a', true, EPOCH, Uint8Array.of(255), json([1]), null, [1, [2]]];
  const expected = ['1', '1', 'a', 'true', '1970-01-01T00:00:00Z', '\\xff', '[1]', null, '{"1",{"2"}}'];
  for (const oids of [undefined, [], values.map(() => 0)])
    assert.deepEqual(bound(values, oids), expected, String(oids));
});

for (const [what, value, oid, error] of [
  ['undefined', undefined, OID.int4, fault('E_DB_PARAMETER')],
  ['an object', {}, OID.int4, fault('E_DB_PARAMETER')],
  ['a promise', Promise.resolve(1), OID.json, fault('E_DB_PARAMETER')],
  ['part of a statement', sql`1`, OID.int4, fault('E_DB_PARAMETER')],
  ['a value of typed()', typed('a', 1), OID.int4, fault('E_DB_PARAMETER')],
  ['a list for a parameter without a list type', [1], OID.int4, fault('E_DB_PARAMETER')],
  [
    'a value of typed() in an object',
    { a: typed('a', 1) },
    OID.json,
    /found an object or list with a value of typed\(\) or sql in it/,
  ],
  ['bytes for an integer', Uint8Array.of(1), OID.int4, /int4: write \?::bytea/],
  ['text with a NUL in a list', ['a', ['b\0']], INT4_LIST, { sqlstate: '22021' }],
  ['an invalid Date in a list', [new Date(NaN), 1], INT4_LIST, { sqlstate: '22007' }],
  ['an object in a list', [{}], INT4_LIST, fault('E_DB_PARAMETER')],
  ['undefined in a list', [[undefined]], INT4_LIST, fault('E_DB_PARAMETER')],
  ['NaN for an integer', NaN, OID.int4, { sqlstate: '22003' }],
  ['an integer of more than 64 bits', 2n ** 63n, OID.int8, { sqlstate: '22003' }],
  ['text with a NUL', 'a\0', OID.int4, { sqlstate: '22021' }],
  ['half a surrogate pair', '\ud800', OID.int4, { sqlstate: '22021' }],
  ['an invalid Date', new Date(NaN), OID.timestamptz, { sqlstate: '22007' }],
] as const) {
  test(`PostgreSQL client: ${what} is refused, and the error has the number of the parameter`, () => {
    const refused = (thrown: unknown): boolean => {
      const { message } = thrown as Error;
      assert.match(message, /parameter 2\b/);
      if (typeof error === 'function') return error(thrown);
      if (error instanceof RegExp) return error.test(message);
      return thrown instanceof DataError && thrown.sqlstate === error.sqlstate;
    };
    for (const type of BASES.includes(oid as never) ? [oid, domainOf(oid)] : [oid])
      assert.throws(() => bound([1, value as never], [OID.int4, type]), refused);
    assert.throws(
      () => textOf(value, 1, oid, types(), { sql: 'copy', row: 3 }),
      (thrown) => /parameter 2 of row 3/.test((thrown as Error).message),
    );
  });
}

test('PostgreSQL client: a value of COPY has the text of its column type, and of the base type of a domain', () => {
  for (const [value, oid, expected] of [
    [EPOCH, OID.date, '1970-01-01'],
    [EPOCH, OID.json, '"1970-01-01T00:00:00.000Z"'],
    [{ a: 1 }, OID.json, '{"a":1}'],
    [Uint8Array.of(1), OID.bytea, '\\x01'],
    [NaN, OID.float8, 'NaN'],
    [null, OID.int4, null],
  ] as const)
    for (const type of [oid, domainOf(oid)])
      assert.equal(textOf(value, 0, type, types(), { sql: 'copy', row: 1 }), expected);
});

test('needsTypes() returns true only for values whose text depends on the type of their parameter', () => {
  for (const [value, expected] of [
    [1, false],
    [NaN, true],
    [Infinity, true],
    [2n ** 63n - 1n, false],
    [2n ** 63n, true],
    [-(2n ** 63n), false],
    [-(2n ** 63n) - 1n, true],
    ['a', false],
    [true, false],
    [null, false],
    [undefined, false],
    [EPOCH, false],
    [json({}), false],
    [{}, true],
    [[], true],
    [Uint8Array.of(1), true],
  ] as const) {
    assert.equal(needsTypes([value as never]), expected, String(value));
    assert.equal(needsTypes(['a', value as never, null]), expected, String(value));
  }
  assert.equal(needsTypes([]), false);
});

test('PostgreSQL client: values of a type of the application are written by its function "encode", also inside of arrays', () => {
  const known = new PostgresTypes(
    'auto',
    'date',
    new Map([
      [
        'point3',
        { parse: undefined, encode: (value: unknown) => `(${(value as { x: number[] }).x.join(' ')})` },
      ],
      ['broken', { parse: undefined, encode: () => 7 }],
    ]),
  );
  const found = (oid: number, name: string, elementOid = 0) => ({
    oid,
    name,
    elementOid,
    elementName: name.slice(1),
    delimiter: ',',
    baseOid: 0,
  });
  known.learn([found(20_000, 'point3'), found(20_001, 'broken')]);
  known.learn([found(20_002, '_point3', 20_000), found(20_003, '_broken', 20_001)]);
  const place = { sql: 'select 1' };
  const text = (value: unknown, oid: number): string | null => textOf(value, 0, oid, known, place);
  assert.equal(text({ x: [1, 2] }, 20_000), '(1 2)');
  assert.equal(text('as it is', 20_000), 'as it is');
  assert.equal(text([{ x: [1, 2] }, null, 'b'], 20_002), '{"(1 2)",NULL,"b"}');
  for (const value of [{}, { x: 1 }])
    assert.throws(() => text(value, 20_000), {
      code: 'E_DB_PARAMETER',
      message: /a value of the type "point3", for which "encode" returns no text/,
    });
  assert.throws(() => text({}, 20_001), {
    code: 'E_DB_PARAMETER',
    message: /a value of the type "broken", for which "encode" returns no text/,
  });
});
