/** Values as parameters of MySQL and MariaDB, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json } from '../../../src/db/index.ts';
import { DataError } from '../../../src/db/errors.ts';
import { LARGE_BYTES, isLarge, largeBytesOf, writeParams } from '../../../src/db/mysql/values.ts';
import { TYPE } from '../../../src/db/mysql/wire.ts';
import { PacketWriter } from '../../../src/db/mysql/writer.ts';
import { fault } from '../../contract/database.ts';
import type { Json, Params } from '../../../src/db/index.ts';

const HEADER_BYTES = 4;
const UNSIGNED = 0x80;

interface Written {
  readonly isNull: readonly boolean[];
  /** Types, two bytes each. */
  readonly types: readonly (readonly [type: number, flags: number])[];
  readonly values: string;
}

/** Returns what writeParams() writes. */
function written(
  params: Params,
  { withoutLarge = false, hasTextInstants = false, kinds = undefined as never } = {},
): Written {
  const writer = new PacketWriter();
  writer.hasTextInstants = hasTextInstants;
  writer.begin();
  writeParams(writer, params, kinds, 'select ?', undefined, withoutLarge);
  writer.end();
  const bytes = writer.take();
  const nulls = HEADER_BYTES + ((params.length + 7) >> 3);
  assert.equal(bytes[nulls], 1);
  return {
    isNull: params.map((_, index) => ((bytes[HEADER_BYTES + (index >> 3)]! >> (index & 7)) & 1) === 1),
    types: params.map((_, index) => [bytes[nulls + 1 + 2 * index]!, bytes[nulls + 2 + 2 * index]!]),
    values: bytes.subarray(nulls + 1 + 2 * params.length).toString('hex'),
  };
}

for (const [what, make] of [
  ['text', (length: number) => 'x'.repeat(length)],
  ['a Buffer', (length: number) => Buffer.alloc(length)],
  ['an ArrayBuffer', (length: number) => new ArrayBuffer(length)],
  ['a part of an ArrayBuffer', (length: number) => new DataView(new ArrayBuffer(length + 9), 9)],
  ['a value of json()', (length: number) => json('x'.repeat(length - 2))],
] as const) {
  test(`MySQL client: ${what} is sent before its statement if it is longer than LARGE_BYTES`, () => {
    for (const extra of [-1, 0]) assert.equal(isLarge(make(LARGE_BYTES + extra)), false, String(extra));
    const value = make(LARGE_BYTES + 1);
    assert.equal(isLarge(value), true);
    const bytes = largeBytesOf(value as Json);
    assert.equal(bytes.length, LARGE_BYTES + 1);
    const isText = what === 'text' || what === 'a value of json()';
    const type = [isText ? TYPE.varString : TYPE.blob, 0];
    // the value itself is not written again, but its type is
    assert.deepEqual(written([1, value as never, null], { withoutLarge: true }), {
      isNull: [false, false, true],
      types: [[TYPE.longlong, 0], type, [TYPE.null, 0]],
      values: '0100000000000000',
    });
    const whole = written([value as never]);
    assert.deepEqual(whole.types, [type]);
    assert.equal(whole.values.length / 2, 4 + LARGE_BYTES + 1); // its length takes four bytes
  });
}

test('MySQL client: a value that is neither text nor bytes is never sent before its statement', () => {
  for (const value of [null, undefined, 0, 2 ** 53, 1n, true, new Date(0), {}, { length: 2 ** 30 }, []])
    assert.equal(isLarge(value), false, String(value));
});

for (const [value, type, hex] of [
  [0, TYPE.longlong, '0000000000000000'],
  [-1, TYPE.longlong, 'ffffffffffffffff'],
  [2 ** 31, TYPE.longlong, '0000008000000000'],
  [-(2 ** 40), TYPE.longlong, '0000000000ffffff'],
  [Number.MAX_SAFE_INTEGER, TYPE.longlong, 'ffffffffffff1f00'],
  [2 ** 53, TYPE.double, '0000000000004043'],
  [1.5, TYPE.double, '000000000000f83f'],
  [-0, TYPE.double, '0000000000000080'],
  [2n ** 63n - 1n, TYPE.longlong, 'ffffffffffffff7f'],
  [2n ** 63n, TYPE.longlong + 0x100, '0000000000000080'],
  [2n ** 64n - 1n, TYPE.longlong + 0x100, 'ffffffffffffffff'],
  [-(2n ** 63n), TYPE.longlong, '0000000000000080'],
  [2n ** 64n, TYPE.newDecimal, `14${Buffer.from('18446744073709551616').toString('hex')}`],
  [-(2n ** 63n) - 1n, TYPE.newDecimal, `14${Buffer.from('-9223372036854775809').toString('hex')}`],
  [10n ** 65n - 1n, TYPE.newDecimal, `41${'39'.repeat(65)}`],
  [1n - 10n ** 65n, TYPE.newDecimal, `422d${'39'.repeat(65)}`],
  [true, TYPE.tiny, '01'],
  [false, TYPE.tiny, '00'],
  ['ü', TYPE.varString, '02c3bc'],
  ['2024-02-29T12:00:00Z', TYPE.varString, `14${Buffer.from('2024-02-29T12:00:00Z').toString('hex')}`],
  [json({ a: 1 }), TYPE.varString, `07${Buffer.from('{"a":1}').toString('hex')}`],
  [Uint8Array.of(1, 255), TYPE.blob, '0201ff'],
  [new Date(Date.UTC(2024, 1, 29, 12, 30, 15, 5)), TYPE.datetime, '0be807021d0c1e0f88130000'],
] as const) {
  const shown = typeof value === 'bigint' ? `${value}n` : JSON.stringify(value);
  test(`MySQL client: ${Object.is(value, -0) ? '-0' : shown} is sent with the type ${type}`, () => {
    assert.deepEqual(written([value as never]), {
      isNull: [false],
      types: [[type & 0xff, type > 0xff ? UNSIGNED : 0]],
      values: hex,
    });
  });
}

test('MySQL client: NULL is a bit for each value, and has no bytes', () => {
  const values = Array.from({ length: 17 }, (_, index) => (index % 3 === 0 ? null : true));
  const { isNull, types, values: bytes } = written(values);
  assert.deepEqual(
    isNull,
    values.map((value) => value === null),
  );
  assert.deepEqual(
    types,
    values.map((value) => [value === null ? TYPE.null : TYPE.tiny, 0]),
  );
  assert.equal(bytes, '01'.repeat(11));
});

test('MySQL client: text of an instant is sent in UTC without its zone if the writer asks for it', () => {
  for (const [text, expected] of [
    ['2024-02-29T12:00:00Z', '2024-02-29T12:00:00'],
    ['2024-02-29 12:00:00.123456Z', '2024-02-29 12:00:00.123456'],
    ['2024-02-29T12:00:00+01:30', '2024-02-29T10:30:00'],
    ['2024-02-29 00:30:00.5+01:00', '2024-02-28T23:30:00.5'],
    ['2024-02-30T12:00:00+01:00', '2024-02-30T12:00:00+01:00'],
    ['2024-02-29T12:00:00', '2024-02-29T12:00:00'],
    ['2024-02-29', '2024-02-29'],
    ['fizZ', 'fizZ'],
    ['12:00:00', '12:00:00'],
    ['', ''],
  ] as const) {
    const { values } = written([text], { hasTextInstants: true });
    assert.equal(Buffer.from(values, 'hex').subarray(1).toString(), expected, text);
  }
});

for (const [what, value, sqlstate, errno] of [
  ['undefined', undefined, undefined, undefined],
  ['an object', {}, undefined, undefined],
  ['a function', () => 1, undefined, undefined],
  ['NaN', NaN, '22003', 1264],
  ['an integer of 66 digits', 10n ** 65n, '22003', 1264],
  ['a negative integer of 66 digits', -(10n ** 65n), '22003', 1264],
  ['half a surrogate pair', '\udc00', '22021', 1366],
  ['an invalid Date', new Date(NaN), '22007', 1292],
  ['a Date before the year 0', new Date(-62_167_219_200_001), '22007', 1292],
  ['a Date after the year 9999', new Date(253_402_300_800_000), '22007', 1292],
] as const) {
  test(`MySQL client: ${what} is refused, and the error has its position among the values`, () => {
    for (const [place, position] of [
      [undefined, /parameter 4\b/],
      [{ row: 1, perRow: 2 }, /parameter 2 of row 2/],
      [{ row: 7, perRow: 3 }, /parameter 1 of row 8/],
    ] as const)
      assert.throws(
        () => {
          const writer = new PacketWriter();
          writer.begin();
          writeParams(writer, [1, 2, 3, value as never], undefined, 'insert', place);
        },
        (error: unknown) => {
          assert.match((error as Error).message, position);
          return sqlstate === undefined
            ? fault('E_DB_PARAMETER')(error)
            : error instanceof DataError &&
                error.sqlstate === sqlstate &&
                error.errno === errno &&
                error.sql === 'insert';
        },
      );
  });
}

test('MySQL client: dates of the years 0 and 9999 are accepted', () => {
  for (const ms of [-62_167_219_200_000, 253_402_300_799_999])
    assert.equal(written([new Date(ms)]).types[0]![0], TYPE.datetime);
});
