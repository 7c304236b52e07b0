import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../../src/base/errors.ts';
import { arrayFromText, arrayText } from '../../../src/db/postgres/arrays.ts';
import {
  dateOf,
  instantFromText,
  instantOf,
  instantText,
  microsOf,
  timestampOf,
} from '../../../src/db/postgres/dates.ts';
import { PostgresTypes } from '../../../src/db/postgres/types.ts';
import { DataError, json, type DatabaseError } from '../../../src/db/index.ts';
import { connected, withPostgres } from '../../support/postgres.ts';
import { seeded } from '../../support/random.ts';
import type { PostgresConnection } from '../../../src/db/postgres/connection.ts';

const bytes = (...values: number[]): Uint8Array => Uint8Array.from(values);
const at = (text: string): Date => new Date(text);
/** Marks a case that is only read, because its text is not the server's own form. */
const READ = Symbol('only read');

/** Type, server text and value. Each case is tested in both directions, except READ. */
const VALUES: readonly (readonly [type: string, text: string, value: unknown, only?: typeof READ])[] = [
  ['bool', 't', true],
  ['bool', 'f', false],
  ['int2', '0', 0],
  ['int2', '-32768', -32_768],
  ['int2', '32767', 32_767],
  ['int4', '0', 0],
  ['int4', '-1', -1],
  ['int4', '2147483647', 2_147_483_647],
  ['int4', '-2147483648', -2_147_483_648],
  ['int8', '0', 0],
  ['int8', '-1', -1],
  ['int8', '4294967296', 4_294_967_296],
  ['int8', '-4294967297', -4_294_967_297],
  ['int8', '9007199254740991', 9_007_199_254_740_991],
  ['int8', '-9007199254740991', -9_007_199_254_740_991],
  ['int8', '9007199254740992', 9_007_199_254_740_992n],
  ['int8', '9007199254740993', 9_007_199_254_740_993n],
  ['int8', '-9007199254740992', -9_007_199_254_740_992n],
  ['int8', '9223372036854775807', 2n ** 63n - 1n],
  ['int8', '-9223372036854775808', -(2n ** 63n)],
  ['oid', '0', 0],
  ['oid', '4294967295', 4_294_967_295],
  ['float4', '0', 0],
  ['float4', '1.1', 1.1],
  ['float4', '-0', -0],
  ['float4', '3.4028235e+38', 3.4028235e38],
  ['float4', '1e-45', 1e-45],
  ['float4', 'NaN', NaN],
  ['float4', 'Infinity', Infinity],
  ['float4', '-Infinity', -Infinity],
  ['float4', '16777216', 16_777_216],
  ['float8', '0', 0],
  ['float8', '-0', -0],
  ['float8', '1.1', 1.1],
  ['float8', '0.1', 0.1],
  ['float8', '1e300', 1e300],
  ['float8', '5e-324', 5e-324],
  ['float8', '1.7976931348623157e308', Number.MAX_VALUE],
  ['float8', 'NaN', NaN],
  ['float8', 'Infinity', Infinity],
  ['float8', '-Infinity', -Infinity],
  ['float8', '9007199254740993', 9_007_199_254_740_992],
  ['numeric', '0', '0'],
  ['numeric', '1.10', '1.10'],
  ['numeric', '-0.000000000000000000001', '-0.000000000000000000001'],
  ['numeric', '12345678901234567890123456789.5', '12345678901234567890123456789.5'],
  ['numeric', 'NaN', 'NaN'],
  ['numeric(10,2)', '1', '1.00'],
  ['numeric', 'Infinity', 'Infinity'],
  ['money', '1.50', '$1.50'],
  ['text', '', ''],
  ['text', 'grüße 漢字 😀', 'grüße 漢字 😀'],
  ['text', "a\\b\"c''d", 'a\\b"c\'d'],
  ['text', 'line\r\nfeeds\ttabs', 'line\r\nfeeds\ttabs'],
  ['text', 'x'.repeat(10_000), 'x'.repeat(10_000)],
  ['text', 'NULL', 'NULL'],
  ['varchar', 'abc', 'abc'],
  ['varchar(3)', 'abc', 'abc'],
  ['char(5)', 'abc', 'abc  '],
  ['"char"', 'x', 'x'],
  ['name', 'a_name', 'a_name'],
  ['bytea', '\\x', bytes()],
  ['bytea', '\\x00', bytes(0)],
  ['bytea', '\\x00ff5c27', bytes(0, 255, 0x5c, 0x27)],
  ['uuid', '00000000-0000-0000-0000-000000000000', '00000000-0000-0000-0000-000000000000'],
  ['uuid', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'],
  ['date', '2024-03-10', '2024-03-10'],
  ['date', '1999-12-31', '1999-12-31'],
  ['date', '2000-01-01', '2000-01-01'],
  ['date', '2000-02-29', '2000-02-29'],
  ['date', '1900-02-28', '1900-02-28'],
  ['date', '1970-01-01', '1970-01-01'],
  ['date', '0001-01-01', '0001-01-01'],
  ['date', '0001-12-31 BC', '0001-12-31 BC'],
  ['date', '0044-03-15 BC', '0044-03-15 BC'],
  ['date', '4713-01-01 BC', '4713-01-01 BC'],
  ['date', '9999-12-31', '9999-12-31'],
  ['date', '10000-01-01', '10000-01-01'],
  ['date', '5874897-12-31', '5874897-12-31'],
  ['date', 'infinity', 'infinity'],
  ['date', '-infinity', '-infinity'],
  ['timestamp', '2024-03-10 02:30:00.123456', '2024-03-10T02:30:00.123456'],
  ['timestamp', '2024-03-10 02:30:00', '2024-03-10T02:30:00'],
  ['timestamp', '2024-11-03 01:30:00.5', '2024-11-03T01:30:00.5'],
  ['timestamp', '1999-12-31 23:59:59.999999', '1999-12-31T23:59:59.999999'],
  ['timestamp', '1582-10-10 00:00:00.000001', '1582-10-10T00:00:00.000001'],
  ['timestamp', '0001-01-01 00:00:00', '0001-01-01T00:00:00'],
  ['timestamp', '0044-03-15 12:00:00 BC', '0044-03-15T12:00:00 BC'],
  ['timestamp', '4713-01-01 00:00:00 BC', '4713-01-01T00:00:00 BC'],
  ['timestamp', '294276-12-31 23:59:59.999999', '294276-12-31T23:59:59.999999'],
  ['timestamp', 'infinity', 'infinity'],
  ['timestamp', '-infinity', '-infinity'],
  ['timestamptz', '2024-03-10 02:30:00.123+00', at('2024-03-10T02:30:00.123Z')],
  ['timestamptz', '2024-03-10 02:30:00.123999+00', at('2024-03-10T02:30:00.123Z'), READ],
  ['timestamptz', '2024-03-10 02:30:00+05:30', at('2024-03-09T21:00:00Z')],
  ['timestamptz', '1969-12-31 23:59:59.9999+00', at('1969-12-31T23:59:59.999Z'), READ],
  ['timestamptz', '1970-01-01 00:00:00+00', at('1970-01-01T00:00:00Z')],
  ['timestamptz', '0001-01-01 00:00:00+00', at('0001-01-01T00:00:00Z')],
  ['timestamptz', '0099-06-15 00:00:00+00', at('0099-06-15T00:00:00Z')],
  ['timestamptz', '0044-03-15 12:00:00+00 BC', at('-000043-03-15T12:00:00Z')],
  ['timestamptz', '275760-09-13 00:00:00+00', new Date(8.64e15)],
  ['timestamptz', '294276-12-31 23:59:59+00', '294276-12-31T23:59:59+00'],
  ['timestamptz', 'infinity', 'infinity'],
  ['timestamptz', '-infinity', '-infinity'],
  ['time', '12:34:56.789', '12:34:56.789'],
  ['time', '24:00:00', '24:00:00'],
  ['time', '00:00:00.000001', '00:00:00.000001'],
  ['timetz', '12:34:56+02', '12:34:56+02'],
  ['interval', '1 day 2 hours', 'P1DT2H'],
  ['interval', '-1 year 3.5 seconds', 'P-1YT3.5S'],
  ['interval', '0', 'PT0S'],
  ['json', '{"a": [1, null, "x"]}', { a: [1, null, 'x'] }],
  ['json', '[]', []],
  ['json', '"text"', 'text', READ],
  ['json', 'null', null, READ],
  ['json', '1.5', 1.5],
  ['json', 'true', true],
  ['json', '{"__proto__": 1}', JSON.parse('{"__proto__": 1}')],
  ['jsonb', '{"a": {"b": "ü"}}', { a: { b: 'ü' } }],
  ['jsonb', '[1, [2, {"c": null}]]', [1, [2, { c: null }]]],
  ['jsonb', '{}', {}],
  ['jsonb', '-1', -1],
  ['int4[]', '{}', []],
  ['int4[]', '{1,-2,3}', [1, -2, 3]],
  ['int4[]', '{1,NULL}', [1, null]],
  [
    'int4[]',
    '{{1,2},{3,NULL}}',
    [
      [1, 2],
      [3, null],
    ],
  ],
  ['int4[]', '[0:1]={7,8}', [7, 8]],
  ['int2[]', '{1}', [1]],
  ['int8[]', '{1,9007199254740993}', [1, 9_007_199_254_740_993n]],
  ['float8[]', '{1.5,NaN,-Infinity}', [1.5, NaN, -Infinity]],
  ['float4[]', '{1.1}', [1.1]],
  ['numeric[]', '{1.10,NULL}', ['1.10', null]],
  ['bool[]', '{t,f,NULL}', [true, false, null]],
  [
    'text[]',
    '{a,"b c","",NULL,"NULL","x,y","{z}","q\\"r","s\\\\t"}',
    ['a', 'b c', '', null, 'NULL', 'x,y', '{z}', 'q"r', 's\\t'],
  ],
  [
    'text[]',
    '{{a,NULL},{"NULL",d}}',
    [
      ['a', null],
      ['NULL', 'd'],
    ],
  ],
  ['text[]', '{{{a}}}', [[['a']]]],
  ['varchar[]', '{ü}', ['ü']],
  ['uuid[]', '{00000000-0000-0000-0000-000000000001}', ['00000000-0000-0000-0000-000000000001']],
  ['date[]', '{2024-03-10,infinity,"0044-03-15 BC"}', ['2024-03-10', 'infinity', '0044-03-15 BC']],
  ['timestamp[]', '{"2024-03-10 02:30:00"}', ['2024-03-10T02:30:00']],
  ['timestamptz[]', '{"2024-03-10 02:30:00+00",NULL}', [at('2024-03-10T02:30:00Z'), null]],
  ['bytea[]', '{"\\\\x00ff",NULL}', [bytes(0, 255), null]],
  ['json[]', '{"{\\"a\\": 1}",NULL}', [{ a: 1 }, null]],
  ['jsonb[]', '{"[1]","{}"}', [[1], {}], READ],
  ['interval[]', '{"1 day"}', ['P1D']],
  ['box[]', '{(1,1),(0,0);(2,2),(1,1)}', ['(1,1),(0,0)', '(2,2),(1,1)']],
  ['inet', '192.168.0.1/24', '192.168.0.1/24'],
  ['cidr', '10.0.0.0/8', '10.0.0.0/8'],
  ['macaddr', '08:00:2b:01:02:03', '08:00:2b:01:02:03'],
  ['inet[]', '{::1}', ['::1']],
  ['bit(3)', '101', '101'],
  ['varbit', '10', '10'],
  ['bit', '1', '1'],
  ['xml', '<a/>', '<a/>'],
  ['tsvector', 'a b', "'a' 'b'"],
  ['tsquery', 'a & b', "'a' & 'b'"],
  ['point', '(1,2)', '(1,2)'],
  ['circle', '<(1,2),3>', '<(1,2),3>'],
  ['box', '(1,1),(0,0)', '(1,1),(0,0)'],
  ['path', '((0,0),(1,1))', '((0,0),(1,1))'],
  ['lseg', '[(0,0),(1,1)]', '[(0,0),(1,1)]'],
  ['int4range', '[1,5)', '[1,5)'],
  ['int8range', 'empty', 'empty'],
  ['numrange', '(,2.5]', '(,2.5]'],
  ['daterange', '[2024-01-01,2024-02-01)', '[2024-01-01,2024-02-01)'],
  ['int4multirange', '{[1,2),[5,6)}', '{[1,2),[5,6)}'],
  ['int4range[]', '{"[1,2)"}', ['[1,2)']],
  ['regclass', 'pg_class', 'pg_class'],
  ['regtype', 'int4', 'integer'],
  ['xid8', '1', '1'],
  ['pg_lsn', '0/1', '0/1'],
  ['jsonpath', '$.a', '$."a"'],
  ['int2vector', '1 2', '1 2'],
  ['svc_mood', 'happy', 'happy'],
  ['svc_mood[]', '{happy,NULL,"so so"}', ['happy', null, 'so so']],
  ['svc_pair', '(1,"a,b")', '(1,"a,b")'],
  ['svc_pair[]', '{"(1,x)"}', ['(1,x)']],
  ['svc_positive', '5', 5],
  ['svc_positive[]', '{5,NULL}', [5, null]],
  ['svc_list', '{1,2}', [1, 2]],
];

const SCHEMA = `create type pg_temp.svc_mood as enum ('happy', 'so so'); create type pg_temp.svc_pair as (a int, b text);
  create domain pg_temp.svc_positive as int check (value > 0); create domain pg_temp.svc_list as int[]; set search_path = pg_temp, public; set lc_monetary = 'C'`;

/** Compares a value in each protocol mode: unnamed, named, and prepared in binary. Distinguishes -0 and NaN. */
async function same(
  connection: PostgresConnection,
  sql: string,
  params: readonly unknown[],
  expected: unknown,
  what: string,
): Promise<void> {
  for (const use of ['first', 'second', 'third']) {
    const row = await connection.fetchOne(sql, params as never, undefined);
    assert.deepEqual(row, { value: expected }, `${what}, ${use} use`);
  }
}

withPostgres(
  'PostgreSQL types: each value is written and read unchanged, whatever the time zone of the process',
  async (t) => {
    assert.ok(VALUES.length >= 150, String(VALUES.length));
    const connection = await connected(t);
    await connection.script(SCHEMA, undefined);
    const before = process.env['TZ'];
    t.after(() => (before === undefined ? delete process.env['TZ'] : (process.env['TZ'] = before)));
    for (const zone of ['UTC', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Apia']) {
      process.env['TZ'] = zone;
      const isFirst = zone === 'UTC';
      for (const [type, text, value, only] of VALUES.filter(
        ([name]) => isFirst || /date|time|int4/.test(name),
      )) {
        await same(
          connection,
          `select '${type.startsWith('text') && !type.includes('[') ? text : text.replaceAll("''", "''")}'::${type} as value /* ${zone} */`,
          [],
          value,
          `${type} ${text} in ${zone}`,
        );
        if (only !== READ)
          await same(
            connection,
            `select ?::${type} as value /* ${zone} */`,
            [value],
            value,
            `${type} ${text} written in ${zone}`,
          );
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: when statementCache is 0, values are decoded from the text format',
  async (t) => {
    const connection = await connected(t, { statementCache: 0 });
    await connection.script(SCHEMA, undefined);
    for (const [type, text, value] of VALUES)
      await same(connection, `select '${text}'::${type} as value`, [], value, `${type} ${text}`);
    assert.equal(connection.isIdle, true);
  },
);

withPostgres(
  'PostgreSQL types: the option "int8" selects the JavaScript type of int8 values, alone and in lists',
  async (t) => {
    for (const [int8, expected] of [
      ['bigint', [5n, [5n]]],
      ['string', ['5', ['5']]],
      ['auto', [5, [5]]],
    ] as const) {
      const connection = await connected(t, { int8 });
      for (let use = 0; use < 3; use++)
        assert.deepEqual(
          Object.values(
            (await connection.fetchOne("select 5::int8 as a, '{5}'::int8[] as b", [], undefined))!,
          ),
          expected,
        );
    }
  },
);

withPostgres(
  'PostgreSQL types: a value that is invalid for its column is refused before it is sent, and the error has the position of the value',
  async (t) => {
    const connection = await connected(t);
    const circle: unknown[] = [];
    circle.push(circle);
    for (const [type, value] of [
      ['text', { a: 1 }],
      ['text', [1]],
      ['int', [1]],
      ['text', bytes(1)],
      ['int[]', [undefined]],
      ['int[]', [{ a: 1 }]],
      ['int[]', circle],
      ['json', circle],
      ['json', { a: 1n }],
      ['jsonb', Promise.resolve(1)],
      ['text', undefined],
      ['text', () => 1],
      ['text[]', [bytes(1)]],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select 1, ?::int, ?::${type} as value`, [1, value as never], undefined),
          (error) => {
            assert.ok(
              error instanceof SvcError && error.code === 'E_DB_PARAMETER',
              `${type}: ${String(error)}`,
            );
            assert.match(error.message, /parameter 2/);
            return true;
          },
        );
        assert.equal(connection.isIdle, true);
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: for a value that the server would refuse, the client throws a DataError with the SQLSTATE of the server, and does not send the value',
  async (t) => {
    const connection = await connected(t);
    const fromServer = async (sql: string): Promise<unknown> =>
      connection.scalar(sql, [], undefined).then(
        () => assert.fail(sql),
        ({ name, code, sqlstate }: DatabaseError) => ({ name, code, sqlstate }),
      );
    const text = await fromServer("select convert_from('\\xff', 'UTF8')");
    const range = await fromServer('select 9223372036854775808::int8');
    const date = await fromServer("select 'Invalid Date'::timestamptz");
    for (const [type, value, expected] of [
      ['text', 'secret\0', text],
      ['text', 'secret\ud800', text],
      ['text[]', ['a', 'secret\0'], text],
      ['text[]', [['secret\udc00'], ['a']], text],
      ['int', NaN, range],
      ['int', Infinity, range],
      ['int[]', [1, NaN], range],
      ['int8', 2n ** 63n, range],
      ['int8[]', [-(2n ** 63n) - 1n], range],
      ['timestamptz', new Date(NaN), date],
      ['date[]', [new Date(NaN)], date],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select 1, ?::int, ?::${type} as value`, [1, value as never], undefined),
          (error) => {
            assert.ok(error instanceof DataError, `${type}: ${String(error)}`);
            const { name, code, sqlstate, message, sql } = error;
            assert.deepEqual({ name, code, sqlstate }, expected);
            assert.match(message, /^Cannot bind the value of parameter 2: found [^\0]+$/);
            assert.doesNotMatch(message, /secret/);
            assert.equal(sql, `select 1, $1::int, $2::${type} as value`);
            return true;
          },
        );
        assert.equal(connection.isIdle, true);
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: a value outside the range of its type causes a DataError that does not contain the value, each time the statement runs',
  async (t) => {
    const connection = await connected(t);
    for (const [type, value] of [
      ['int4', 1.5],
      ['int4', 2 ** 31],
      ['int2', 40_000],
      ['int4', 'secret'],
      ['date', 'secret'],
      ['uuid', 'secret'],
      ['bool', 'secret'],
      ['int8', '99999999999999999999'],
      ['jsonb', '{secret'],
      ['timestamptz', 'secret'],
      ['int[]', '{secret'],
    ] as const) {
      for (let use = 0; use < 3; use++) {
        await assert.rejects(
          connection.fetchOne(`select ?::${type} as value`, [value], undefined),
          (error) => error instanceof DataError && !/secret|1\.5|40000|9999|2147483648/.test(error.message),
        );
      }
    }
  },
);

withPostgres(
  'PostgreSQL types: each value, including lists and objects, is encoded as the type of its parameter requires',
  async (t) => {
    const connection = await connected(t);
    const noon = at('2024-03-10T12:00:00.250Z');
    for (const [type, value, expected] of [
      ['text', 1.5, '1.5'],
      ['text', 5, '5'],
      ['text', 5n, '5'],
      ['text', true, 'true'],
      ['text', noon, '2024-03-10T12:00:00.25Z'],
      ['numeric', 0.1, '0.1'],
      ['numeric', 1e21, '1000000000000000000000'],
      ['numeric', 10n ** 30n, '1000000000000000000000000000000'],
      ['int4', '42', 42],
      ['int8', '42', 42],
      ['float8', 5n, 5],
      ['date', noon, '2024-03-10'],
      ['timestamp', noon, '2024-03-10T12:00:00.25'],
      ['timestamptz', noon, noon],
      ['json', json([1, { a: 2 }]), [1, { a: 2 }]],
      ['jsonb', json('x'), 'x'],
      ['text', json([1]), '[1]'],
      ['jsonb', [], []],
      ['bool', true, true],
      ['text[]', [1, true, noon], ['1', 'true', '2024-03-10T12:00:00.25Z']],
      ['timestamptz[]', [noon], [noon]],
      ['date[]', [noon], ['2024-03-10']],
      ['jsonb[]', [{ a: 1 }, json([2])], [{ a: 1 }, [2]]],
      ['bytea', Buffer.from([1]), bytes(1)],
      ['float8', -0, -0],
    ] as const)
      await same(connection, `select ?::${type} as value`, [value], expected, `${type} of ${String(value)}`);
  },
);

// ── without a server ──

test('PostgreSQL types: a date in the binary format is decoded to the day that Date computes, for successive and for random days', () => {
  const random = seeded(5);
  const days = [
    ...Array.from({ length: 3_000 }, (_, day) => day - 1_500),
    ...Array.from({ length: 5_000 }, () => random(5_000_000) - 730_000),
  ];
  for (const day of days) {
    const iso = new Date(Date.UTC(2000, 0, 1) + day * 86_400_000).toISOString();
    if (!iso.startsWith('-') && !iso.startsWith('+')) assert.equal(dateOf(day), iso.slice(0, 10));
    else if (iso.startsWith('+')) assert.equal(dateOf(day), iso.slice(1, -14).replace(/^0/, ''));
  }
});

test('PostgreSQL types: a timestamptz in the binary format is decoded to the same value as in the text format, and is encoded without loss', () => {
  const random = seeded(6);
  for (let run = 0; run < 5_000; run++) {
    const date = new Date(
      ((random(2 ** 31) * 2 ** 21 + random(2 ** 21)) * (random(2) === 0 ? 1 : -1)) % 8.64e15,
    );
    const [high, low] = microsOf(date);
    if (date.getTime() < -2.1e14) continue; // before PostgreSQL's first timestamp
    assert.deepEqual(instantOf(high, low), date);
    const text = instantText(date);
    assert.deepEqual(instantFromText(text.replace('T', ' ').replace('Z', '+00')), date, text);
    assert.equal(`${timestampOf(high, low)}`.replace(' BC', ''), text.replace('Z', '').replace(' BC', ''));
  }
});

test('PostgreSQL types: instantFromText() returns a text that is not a timestamp unchanged', () => {
  for (const text of ['infinity', '', 'yesterday', '10.03.2024 02:30:00 UTC'])
    assert.equal(instantFromText(text), text);
});

test('PostgreSQL types: any array has equal elements after it was encoded and decoded', () => {
  const random = seeded(8);
  const words = ['', 'a', 'NULL', 'null', '"', '\\', '{', '}', ',', ' ', 'ü', '\n', '{}', '\\"'];
  const list = (depth: number): unknown[] =>
    Array.from({ length: 1 + random(4) }, () =>
      depth > 0 && random(3) === 0 ? list(depth - 1) : random(5) === 0 ? null : words[random(words.length)]!,
    );
  for (let run = 0; run < 5_000; run++) {
    const value = list(3);
    assert.deepEqual(
      arrayFromText(
        arrayText(value, (element) => element as string | null, ','),
        (text) => text,
        ',',
      ),
      value,
    );
  }
});

test('PostgreSQL types: arrayFromText() returns a text that is not an array unchanged', () => {
  for (const text of [
    '',
    '{',
    '}',
    '{a',
    '{a,',
    '{"a',
    '{"a\\',
    '{a}b',
    '{{a}',
    'a',
    '[0:1]',
    '{'.repeat(100_000),
    `{${'{'.repeat(7)}a${'}'.repeat(7)}}`,
  ])
    assert.equal(
      arrayFromText(text, (element) => element, ','),
      text,
    );
});

withPostgres(
  'the oid, name, delimiter and array type of each built-in type are those of the server',
  async (t) => {
    const connection = await connected(t);
    const types = new PostgresTypes('auto');
    const rows = (await connection.fetchAll(
      `select oid::int4 as oid, typname as name, typarray::int4 as "array", typdelim::text as delimiter
     from pg_type where oid < 10000 and typelem = 0 or typname in ('point', 'lseg', 'line', 'name', 'int2vector', 'oidvector')`,
      [],
      undefined,
    )) as unknown as readonly { oid: number; name: string; array: number; delimiter: string }[];
    let known = 0;
    for (const { oid, name, array, delimiter } of rows) {
      const type = types.get(oid);
      if (type === undefined) continue;
      known++;
      assert.deepEqual([type.name, type.oid, type.delimiter], [name, oid, delimiter]);
      if (array !== 0) assert.equal(types.get(array)?.element?.oid, oid, name);
    }
    assert.ok(known > 55, `${known} types`);
  },
);
