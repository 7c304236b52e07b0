/** Column types of MySQL and MariaDB: their names, and their values in both formats of rows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BINARY_CHARSET, type WireColumn } from '../../../src/db/mysql/messages.ts';
import { ProtocolViolation } from '../../../src/db/errors.ts';
import { json } from '../../../src/db/index.ts';
import { RowPlan } from '../../../src/db/mysql/rows.ts';
import { fits, isFloat, kindsKey, pin, typeName } from '../../../src/db/mysql/types.ts';
import { TYPE } from '../../../src/db/mysql/wire.ts';
import type { MySqlValueOptions } from '../../../src/db/mysql/url.ts';

const UNSIGNED = 0x20;
const UTF8 = 45;

const nameOf = (type: number, changes: Partial<WireColumn> = {}): string =>
  typeName({ type, charset: UTF8, length: 0, extended: '', flags: 0, ...changes } as WireColumn);

for (const [type, name] of [
  [TYPE.tiny, 'tinyint'],
  [TYPE.short, 'smallint'],
  [TYPE.int24, 'mediumint'],
  [TYPE.long, 'int'],
  [TYPE.longlong, 'bigint'],
  [TYPE.decimal, 'decimal'],
  [TYPE.newDecimal, 'decimal'],
] as const)
  test(`typeName() returns "${name}" or "${name} unsigned" for the type ${type}`, () => {
    assert.deepEqual([nameOf(type), nameOf(type, { flags: UNSIGNED })], [name, `${name} unsigned`]);
  });

for (const [type, name] of [
  [TYPE.float, 'float'],
  [TYPE.double, 'double'],
  [TYPE.null, 'null'],
  [TYPE.timestamp, 'timestamp'],
  [TYPE.date, 'date'],
  [TYPE.newDate, 'date'],
  [TYPE.time, 'time'],
  [TYPE.datetime, 'datetime'],
  [TYPE.year, 'year'],
  [TYPE.bit, 'bit'],
  [TYPE.json, 'json'],
  [TYPE.enum, 'enum'],
  [TYPE.set, 'set'],
  [TYPE.geometry, 'geometry'],
  [TYPE.vector, 'vector'],
  [99, 'unknown'],
] as const)
  test(`typeName() returns "${name}" for the type ${type}, whatever its flags and charset are`, () => {
    for (const changes of [{}, { flags: UNSIGNED }, { charset: BINARY_CHARSET }])
      assert.equal(nameOf(type, changes), name);
  });

test('typeName() returns the name of a text or binary type by charset, flags and length', () => {
  for (const [type, changes, text, bytes] of [
    [TYPE.varchar, {}, 'varchar', 'varbinary'],
    [TYPE.varString, {}, 'varchar', 'varbinary'],
    [TYPE.string, {}, 'char', 'binary'],
    [TYPE.string, { flags: 0x100 }, 'enum', 'enum'],
    [TYPE.string, { flags: 0x800 }, 'set', 'set'],
    [TYPE.blob, { length: 4 * 0xff }, 'tinytext', 'tinyblob'],
    [TYPE.tinyBlob, { length: 4 * 0xff + 1 }, 'text', 'blob'],
    [TYPE.blob, { length: 4 * 0xffff }, 'text', 'blob'],
    [TYPE.mediumBlob, { length: 4 * 0xffff + 1 }, 'mediumtext', 'mediumblob'],
    [TYPE.blob, { length: 4 * 0xff_ffff }, 'mediumtext', 'mediumblob'],
    [TYPE.longBlob, { length: 4 * 0xff_ffff + 1 }, 'longtext', 'longblob'],
    [TYPE.blob, { length: 0xffff_ffff }, 'longtext', 'longblob'],
  ] as const)
    assert.deepEqual(
      [nameOf(type, changes), nameOf(type, { ...changes, charset: BINARY_CHARSET })],
      [text, bytes],
    );
});

test('typeName() returns the name that MariaDB sends for its own types', () => {
  assert.equal(nameOf(TYPE.string, { extended: 'uuid', charset: BINARY_CHARSET }), 'uuid');
});

// ── values ──

const OPTIONS: MySqlValueOptions = {
  int8: 'auto',
  zeroDates: 'null',
  hasBooleans: true,
  parsesJson: true,
  timestamps: 'date',
};
/** Types whose binary values have a fixed length, and so no length prefix. */
const FIXED: ReadonlySet<number> = new Set([
  TYPE.tiny,
  TYPE.short,
  TYPE.year,
  TYPE.int24,
  TYPE.long,
  TYPE.longlong,
  TYPE.float,
  TYPE.double,
]);
const LAST = 7;

const columnOf = (type: number, changes: Partial<WireColumn> = {}): WireColumn =>
  ({
    type,
    charset: UTF8,
    length: 11,
    extended: '',
    flags: 0,
    decimals: 0,
    name: 'a',
    ...changes,
  }) as WireColumn;

/** Reads a value in a row with an integer behind it, which follows only if the length of the value is right. */
function valueOf(
  column: WireColumn,
  bytes: Buffer,
  isText: boolean,
  options: Partial<MySqlValueOptions> = {},
): unknown {
  const plan = new RowPlan([column, columnOf(TYPE.short)], [], { ...OPTIONS, ...options }, isText);
  const prefix = isText || !FIXED.has(column.type) ? [bytes.length] : [];
  const row = Buffer.concat([
    Buffer.from(isText ? prefix : [0, 0, ...prefix]),
    bytes,
    isText ? Buffer.from(`\x01${LAST}`) : Buffer.from([LAST, 0]),
  ]);
  const [value, last] = plan.list(row, 0, row.length);
  assert.equal(last, LAST);
  return value;
}

const at = (text: string): Date => new Date(text);
const same = (text: string): string => Buffer.from(text).toString('hex');
const unsigned = { flags: UNSIGNED };
/** 2024-03-10 02:30:05.123456 as the fields of a binary value. */
const MOMENT = 'e807030a021e05' + '40e20100';
const ZERO = '00000000' + '00000000000000';

for (const [what, type, changes, binary, text, expected, options] of [
  ['TINYINT', TYPE.tiny, {}, '80', '-128', -128],
  ['TINYINT UNSIGNED', TYPE.tiny, unsigned, '80', '128', 128],
  ['BOOLEAN', TYPE.tiny, { length: 1 }, '00', '0', false],
  ['BOOLEAN', TYPE.tiny, { length: 1 }, '02', '2', true],
  ['BOOLEAN', TYPE.tiny, { length: 1 }, '02', '2', 2, { hasBooleans: false }],
  ['SMALLINT', TYPE.short, {}, '0080', '-32768', -32_768],
  ['SMALLINT UNSIGNED', TYPE.short, unsigned, '0080', '32768', 32_768],
  ['YEAR', TYPE.year, {}, 'e807', '2024', 2024],
  ['MEDIUMINT', TYPE.int24, {}, '000080ff', '-8388608', -8_388_608],
  ['INT', TYPE.long, {}, '00000080', '-2147483648', -2_147_483_648],
  ['INT UNSIGNED', TYPE.long, unsigned, '00000080', '2147483648', 2_147_483_648],
  ['BIGINT', TYPE.longlong, {}, 'ffffffffffffffff', '-1', -1],
  ['BIGINT', TYPE.longlong, {}, 'ffffffffffff1f00', '9007199254740991', 9_007_199_254_740_991],
  ['BIGINT', TYPE.longlong, {}, '0100000000002000', '9007199254740993', 9_007_199_254_740_993n],
  ['BIGINT', TYPE.longlong, {}, '0000000000000080', '-9223372036854775808', -(2n ** 63n)],
  ['BIGINT', TYPE.longlong, {}, '0700000000000000', '7', 7n, { int8: 'bigint' }],
  ['BIGINT', TYPE.longlong, {}, 'ffffffffffffffff', '-1', '-1', { int8: 'string' }],
  ['BIGINT UNSIGNED', TYPE.longlong, unsigned, '0000000001000000', '4294967296', 4_294_967_296],
  ['BIGINT UNSIGNED', TYPE.longlong, unsigned, 'ffffffffffffffff', '18446744073709551615', 2n ** 64n - 1n],
  [
    'BIGINT UNSIGNED',
    TYPE.longlong,
    unsigned,
    '0000000000000080',
    '9223372036854775808',
    2n ** 63n,
    { int8: 'bigint' },
  ],
  ['BIGINT ZEROFILL', TYPE.longlong, unsigned, '2a00000000000000', '0042', '42', { int8: 'string' }],
  ['BIGINT ZEROFILL', TYPE.longlong, unsigned, '0000000000000000', '000', '0', { int8: 'string' }],
  ['FLOAT', TYPE.float, {}, 'cdcc8c3f', '1.1', 1.1],
  ['FLOAT', TYPE.float, {}, '0000804b', '16777216', 16_777_216],
  ['FLOAT', TYPE.float, {}, '0100804b', '16777218', 16_777_218],
  ['FLOAT', TYPE.float, {}, 'ffff7f4b', '16777215', 16_777_215],
  ['FLOAT', TYPE.float, {}, 'db0f4940', '3.1415927', 3.141_592_7],
  ['FLOAT', TYPE.float, {}, '0000a0cb', '-20971520', -20_971_520],
  ['DOUBLE', TYPE.double, {}, '9a9999999999f13f', '1.1', 1.1],
  ['DECIMAL', TYPE.newDecimal, {}, same('-1.10'), '-1.10', '-1.10'],
  ['DECIMAL before MySQL 5.0', TYPE.decimal, {}, same('1.10'), '1.10', '1.10'],
  ['DATE', TYPE.date, {}, 'e807030a', '2024-03-10', '2024-03-10'],
  ['DATE', TYPE.newDate, {}, 'e903010a', '1001-01-10', '1001-01-10'],
  ['DATE', TYPE.date, {}, '', '0000-00-00', null],
  ['DATE', TYPE.date, {}, '00000000', '0000-00-00', null],
  ['DATE', TYPE.date, {}, '', '0000-00-00', '0000-00-00', { zeroDates: 'string' }],
  ['DATE without a day', TYPE.date, {}, 'e8070300', '2024-03-00', '2024-03-00'],
  ['DATETIME', TYPE.datetime, {}, 'e807030a', '2024-03-10 00:00:00', '2024-03-10T00:00:00'],
  ['DATETIME', TYPE.datetime, {}, 'e807030a021e05', '2024-03-10 02:30:05', '2024-03-10T02:30:05'],
  [
    'DATETIME(6)',
    TYPE.datetime,
    { decimals: 6 },
    MOMENT,
    '2024-03-10 02:30:05.123456',
    '2024-03-10T02:30:05.123456',
  ],
  [
    'DATETIME(3)',
    TYPE.datetime,
    { decimals: 3 },
    'e807030a021e05',
    '2024-03-10 02:30:05.000',
    '2024-03-10T02:30:05.000',
  ],
  [
    'DATETIME(2)',
    TYPE.datetime,
    { decimals: 2 },
    'e807030a',
    '2024-03-10 00:00:00.00',
    '2024-03-10T00:00:00.00',
  ],
  ['DATETIME', TYPE.datetime, {}, '', '0000-00-00 00:00:00', null],
  ['DATETIME(3)', TYPE.datetime, { decimals: 3 }, '', '0000-00-00 00:00:00.000', null],
  ['DATETIME', TYPE.datetime, {}, ZERO.slice(0, 14), '0000-00-00 00:00:00', null],
  [
    'DATETIME without a date',
    TYPE.datetime,
    {},
    '00000000010203',
    '0000-00-00 01:02:03',
    '0000-00-00T01:02:03',
  ],
  ['DATETIME', TYPE.datetime, {}, '', '0000-00-00 00:00:00', '0000-00-00T00:00:00', { zeroDates: 'string' }],
  ['TIMESTAMP', TYPE.timestamp, {}, 'e807030a', '2024-03-10 00:00:00', at('2024-03-10T00:00:00Z')],
  ['TIMESTAMP', TYPE.timestamp, {}, 'e807030a021e05', '2024-03-10 02:30:05', at('2024-03-10T02:30:05Z')],
  [
    'TIMESTAMP(6)',
    TYPE.timestamp,
    { decimals: 6 },
    MOMENT,
    '2024-03-10 02:30:05.123456',
    at('2024-03-10T02:30:05.123Z'),
  ],
  [
    'TIMESTAMP(1)',
    TYPE.timestamp,
    { decimals: 1 },
    'e807030a021e05a0860100',
    '2024-03-10 02:30:05.1',
    at('2024-03-10T02:30:05.100Z'),
  ],
  [
    'TIMESTAMP of the year 99',
    TYPE.timestamp,
    {},
    '6300030a021e05',
    '0099-03-10 02:30:05',
    at('0099-03-10T02:30:05Z'),
  ],
  [
    'TIMESTAMP of a leap day of the year 4',
    TYPE.timestamp,
    {},
    '0400021d',
    '0004-02-29 00:00:00',
    at('0004-02-29T00:00:00Z'),
  ],
  [
    'TIMESTAMP of the year 100',
    TYPE.timestamp,
    {},
    '64000101',
    '0100-01-01 00:00:00',
    at('0100-01-01T00:00:00Z'),
  ],
  [
    'TIMESTAMP(6)',
    TYPE.timestamp,
    { decimals: 6 },
    MOMENT,
    '2024-03-10 02:30:05.123456',
    '2024-03-10T02:30:05.123456Z',
    { timestamps: 'string' },
  ],
  ['TIMESTAMP', TYPE.timestamp, {}, '', '0000-00-00 00:00:00', null],
  ['TIMESTAMP', TYPE.timestamp, {}, ZERO, '0000-00-00 00:00:00', null],
  [
    'TIMESTAMP',
    TYPE.timestamp,
    {},
    '',
    '0000-00-00 00:00:00',
    '0000-00-00T00:00:00',
    { zeroDates: 'string' },
  ],
  ['TIMESTAMP without a month', TYPE.timestamp, {}, 'e8070001', '2024-00-01 00:00:00', '2024-00-01T00:00:00'],
  ['TIMESTAMP without a day', TYPE.timestamp, {}, 'e8070100', '2024-01-00 00:00:00', '2024-01-00T00:00:00'],
  [
    'TIMESTAMP of the year 0 with a month',
    TYPE.timestamp,
    {},
    '00000100',
    '0000-01-00 00:00:00',
    '0000-01-00T00:00:00',
  ],
  ['TIME', TYPE.time, {}, '', '00:00:00', '00:00:00'],
  ['TIME(2)', TYPE.time, { decimals: 2 }, '', '00:00:00.00', '00:00:00.00'],
  ['TIME', TYPE.time, {}, '00000000000c2238', '12:34:56', '12:34:56'],
  ['TIME', TYPE.time, {}, '00220000001' + '63b3b', '838:59:59', '838:59:59'],
  [
    'TIME(6)',
    TYPE.time,
    { decimals: 6 },
    '01220000001' + '63b3a3f420f00',
    '-838:59:58.999999',
    '-838:59:58.999999',
  ],
  [
    'TIME of a varying number of decimals',
    TYPE.time,
    { decimals: 39 },
    '0000000000010203' + '20a10700',
    '01:02:03.5',
    '01:02:03.5',
  ],
  [
    'TIME of a varying number of decimals',
    TYPE.time,
    { decimals: 39 },
    '0000000000010203',
    '01:02:03',
    '01:02:03',
  ],
  ['BIT(1)', TYPE.bit, { length: 1 }, '01', '\x01', true],
  ['BIT(1)', TYPE.bit, { length: 1 }, '00', '\0', false],
  ['BIT(16)', TYPE.bit, { length: 16 }, '0203', '\x02\x03', Uint8Array.of(2, 3)],
  ['GEOMETRY', TYPE.geometry, {}, '0001', '\0\x01', Uint8Array.of(0, 1)],
  ['VECTOR', TYPE.vector, {}, '0001', '\0\x01', Uint8Array.of(0, 1)],
  ['VARCHAR', TYPE.varString, {}, same('ü'), 'ü', 'ü'],
  ['VARBINARY', TYPE.varString, { charset: BINARY_CHARSET }, '00', '\0', Uint8Array.of(0)],
  ['TEXT', TYPE.blob, {}, same('ü'), 'ü', 'ü'],
  ['BLOB', TYPE.blob, { charset: BINARY_CHARSET }, '00', '\0', Uint8Array.of(0)],
  ['NULL', TYPE.null, { charset: BINARY_CHARSET }, same('x'), 'x', 'x'],
  ['JSON', TYPE.json, { charset: BINARY_CHARSET }, same('{"a":[1]}'), '{"a":[1]}', { a: [1] }],
  ['JSON of MariaDB', TYPE.blob, { extended: 'json' }, same('[1]'), '[1]', [1]],
  ['JSON', TYPE.json, { charset: BINARY_CHARSET }, same('[1]'), '[1]', '[1]', { parsesJson: false }],
  ...['uuid', 'inet4', 'inet6'].map(
    (extended) =>
      [
        `${extended} of MariaDB`,
        TYPE.string,
        { extended, charset: BINARY_CHARSET },
        same('a'),
        'a',
        'a',
      ] as const,
  ),
] as readonly (readonly [
  string,
  number,
  Partial<WireColumn>,
  string,
  string,
  unknown,
  Partial<MySqlValueOptions>?,
])[])
  test(`a ${what} of MySQL is read from both formats of rows: ${text.length < 30 ? JSON.stringify(text) : what}${options === undefined ? '' : ` (${JSON.stringify(options)})`}`, () => {
    const column = columnOf(type, changes);
    assert.deepEqual(valueOf(column, Buffer.from(binary, 'hex'), false, options), expected, 'binary');
    assert.deepEqual(valueOf(column, Buffer.from(text), true, options), expected, 'text');
  });

test('a FLOAT of MySQL is the shortest number with the same 32 bits', () => {
  const bytes = Buffer.alloc(4);
  for (const value of [0.1, 1 / 3, 1e-7, 123_456.79, 0.300_000_01, 1e-45, 3.402_823_5e38, -16_777_217]) {
    bytes.writeFloatLE(value);
    const read = valueOf(columnOf(TYPE.float), bytes, false) as number;
    assert.equal(Math.fround(read), Math.fround(value));
    const digits = String(read)
      .replace(/e.*|[-.]/g, '')
      .replace(/^0+|0+$/g, '');
    assert.ok(digits.length <= 9, digits);
    if (digits.length > 6 && !Number.isInteger(read))
      assert.notEqual(Math.fround(Number(read.toPrecision(digits.length - 1))), Math.fround(value));
  }
});

for (const [type, lengths, message] of [
  [TYPE.date, [0, 4, 7, 11], /a date value with an invalid length of/],
  [TYPE.datetime, [0, 4, 7, 11], /a date value with an invalid length of/],
  [TYPE.timestamp, [0, 4, 7, 11], /a date value with an invalid length of/],
  [TYPE.time, [0, 8, 12], /a time value with an invalid length of/],
] as const)
  test(`a binary value of the type ${type} of MySQL has one of the lengths ${lengths.join(', ')}`, () => {
    for (let length = 0; length < 14; length++) {
      const read = (): unknown => valueOf(columnOf(type), Buffer.alloc(length, 1), false);
      if ((lengths as readonly number[]).includes(length)) read();
      else assert.throws(read, (error) => error instanceof ProtocolViolation && message.test(error.message));
    }
  });

test('a date of MySQL after the year 9999 is refused', () => {
  const read = (hex: string): unknown => valueOf(columnOf(TYPE.date), Buffer.from(hex, 'hex'), false);
  assert.equal(read('0f270c1f'), '9999-12-31');
  assert.throws(() => read('10270101'), /a date with the year 10000; the last valid year is 9999/);
});

test('types of the application parse values of MySQL by name, also of unsigned columns, but never a NULL', () => {
  const parse = (value: unknown): unknown => ({ parsed: value });
  const types = new Map([
    ['int', { parse }],
    ['bigint unsigned', { parse }],
    ['date', { parse }],
  ]) as never;
  const read = (column: WireColumn, hex: string): unknown =>
    valueOf(column, Buffer.from(hex, 'hex'), false, { types });
  assert.deepEqual(read(columnOf(TYPE.long), '05000000'), { parsed: 5 });
  assert.deepEqual(read(columnOf(TYPE.long, unsigned), '05000000'), { parsed: 5 });
  assert.deepEqual(read(columnOf(TYPE.longlong, unsigned), '0500000000000000'), { parsed: 5 });
  assert.equal(read(columnOf(TYPE.longlong), '0500000000000000'), 5);
  assert.deepEqual(read(columnOf(TYPE.date), 'e807030a'), { parsed: '2024-03-10' });
  assert.equal(read(columnOf(TYPE.date), ''), null);
});

// ── kinds of values ──

/** Values by kind. Values of one kind have one type on the server. */
const KINDS: Readonly<Record<string, readonly unknown[]>> = {
  any: [null],
  integer: [0, -1, Number.MAX_SAFE_INTEGER, 2n ** 63n - 1n, -(2n ** 63n), true, false],
  wide: [2n ** 63n, 2n ** 64n - 1n],
  float: [1.5, -0, 2 ** 53, -(2 ** 53), NaN],
  text: ['a', '', json({})],
  bytes: [Uint8Array.of(1), new ArrayBuffer(1)],
  instant: [new Date(0)],
  decimal: [2n ** 64n, -(2n ** 63n) - 1n],
};

test('kindsKey() is equal only for values of one kind', () => {
  const keys = Object.values(KINDS).map((values) => [
    ...new Set(values.map((value) => kindsKey([value as never]))),
  ]);
  for (const [index, [kind]] of Object.entries(KINDS).entries()) assert.equal(keys[index]!.length, 1, kind);
  assert.equal(new Set(keys.flat()).size, keys.length);
  assert.equal(kindsKey([null, 1, 'a'] as never), keys[0]![0]! + keys[1]![0]! + keys[4]![0]!);
});

test('a prepared statement of MySQL accepts values of the kinds of its first execution, NULL, and integers for floats', () => {
  for (const [first, [one]] of Object.entries(KINDS))
    for (const [second, values] of Object.entries(KINDS))
      for (const value of values) {
        const kinds = new Uint8Array(2);
        pin(kinds, ['a', one as never]);
        const isExact = second === first || first === 'any' || second === 'any';
        const isNumber = first === 'float' && second === 'integer' && typeof value !== 'bigint';
        assert.equal(
          fits(kinds, ['b', value as never]),
          isExact || isNumber,
          `${first}, ${second} ${String(value)}`,
        );
      }
});

for (const [what, rows, widened] of [
  ['integers', [[1], [2]], false],
  ['integers and a fraction', [[1], [2.5], [3]], true],
  ['integers, NULL and a fraction', [[1], [null], [2.5]], true],
  ['fractions', [[1.5], [2.5]], true],
  ['a bigint and a fraction', [[1n], [2.5]], false],
  ['a boolean and a fraction', [[true], [2.5]], false],
  ['text and a fraction', [['a'], [2.5]], false],
] as const)
  test(`a multi-row insert of MySQL sends a column of ${what} ${widened ? 'only as floats' : 'with the types of its values'}`, () => {
    const params = rows.flatMap(([value]) => ['a', value, 7]);
    const kinds = new Uint8Array(params.length);
    pin(kinds, params as never, 3);
    const column = rows.map((_, row) => isFloat(kinds, 3 * row + 1));
    assert.deepEqual(
      column,
      rows.map(([value]) => widened || (typeof value === 'number' && !Number.isInteger(value))),
    );
    for (const row of rows.keys())
      assert.deepEqual([isFloat(kinds, 3 * row), isFloat(kinds, 3 * row + 2)], [false, false]);
  });
