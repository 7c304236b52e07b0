/** Decoders of PostgreSQL types without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { arrayFromText, arrayText } from '../../../src/db/postgres/arrays.ts';
import {
  dateOf,
  instantFromText,
  instantOf,
  instantText,
  microsOf,
  timestampOf,
  utcFromText,
  utcOf,
} from '../../../src/db/postgres/dates.ts';
import { PostgresTypes, type FoundType } from '../../../src/db/postgres/types.ts';
import { VALUES } from '../../support/postgres-values.ts';
import { seeded } from '../../support/random.ts';

const TYPES = new PostgresTypes('auto');
const BY_NAME = new Map(
  Array.from({ length: 10_000 }, (_, oid) => TYPES.get(oid)).flatMap((type) =>
    type ? [[type.name, type]] : [],
  ),
);

/** Types whose values the server writes in another form than VALUES. */
const OTHER_FORM: readonly string[] = ['jsonpath', 'money', 'regtype', 'tsquery', 'tsvector', 'uuid'];

test('PostgreSQL types: each value is decoded from its text, also at an offset', () => {
  let count = 0;
  for (const [type, literal, value] of VALUES) {
    const decoder = BY_NAME.get(type);
    if (decoder === undefined || OTHER_FORM.includes(type)) continue;
    const text = literal.replaceAll("''", "'");
    assert.deepEqual(decoder.fromText(text), value, `${type} ${text}`);
    const bytes = Buffer.from(`-${text}-`);
    assert.deepEqual(decoder.decodeText(bytes, 1, bytes.length - 1), value, `${type} ${text}`);
    count++;
  }
  assert.ok(count > 130, String(count));
});

// 2024-03-10 02:30:00.5 is 763,353,000,500,000 microseconds after 2000-01-01, 2024-03-10 is 8,835 days after it
for (const [oid, hex, value, options] of [
  [16, '01', true, undefined],
  [16, '00', false, undefined],
  [20, '0020000000000001', 9_007_199_254_740_993n, undefined],
  [20, 'fffffffffffffffe', -2, undefined],
  [20, '0000000000000007', '7', ['string', 'date']],
  [20, '0000000000000007', 7n, ['bigint', 'date']],
  [21, 'fffe', -2, undefined],
  [23, 'fffffffe', -2, undefined],
  [26, 'fffffffe', 4_294_967_294, undefined],
  [701, '3ff8000000000000', 1.5, undefined],
  [1082, '00002283', '2024-03-10', undefined],
  [1114, '0002b643f86edb20', '2024-03-10T02:30:00.5', undefined],
  [1184, '0002b643f86edb20', new Date('2024-03-10T02:30:00.500Z'), undefined],
  [1184, '0002b643f86edb20', '2024-03-10T02:30:00.500000Z', ['auto', 'string']],
] as const)
  test(`PostgreSQL types: the bytes ${hex} of the type ${oid} are decoded to ${typeof value} ${String(value)}, at any offset`, () => {
    const [int8, timestamps] = options ?? ['auto', 'date'];
    const decode = new PostgresTypes(int8, timestamps).get(oid)!.decodeBinary;
    for (const before of ['', 'ff', 'ffffff']) {
      const bytes = Buffer.from(`${before}${hex}ffffff`, 'hex');
      const at = before.length / 2;
      assert.deepEqual(decode!(bytes, at, at + hex.length / 2), value);
    }
  });

test('PostgreSQL types: infinite dates and timestamps are text in the binary format', () => {
  for (const [high, low, expected] of [
    [0x7fff_ffff, 0xffff_ffff, 'infinity'],
    [-0x8000_0000, 0, '-infinity'],
  ] as const)
    for (const decode of [instantOf, timestampOf, utcOf]) assert.equal(decode(high, low), expected);
  assert.deepEqual([dateOf(0x7fff_ffff), dateOf(-0x8000_0000)], ['infinity', '-infinity']);
});

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

test('PostgreSQL types: a text that is not a timestamp is returned unchanged, and any other in UTC', () => {
  for (const text of ['infinity', '', 'yesterday', '10.03.2024 02:30:00 UTC'])
    assert.deepEqual([instantFromText(text), utcFromText(text)], [text, text]);
  for (const [zone, utc] of [
    ['+05:30', '2024-03-09T21:00:00.500000Z'],
    ['-05:30', '2024-03-10T08:00:00.500000Z'],
    ['+00:19:32', '2024-03-10T02:10:28.500000Z'],
    ['-07', '2024-03-10T09:30:00.500000Z'],
    ['+00', '2024-03-10T02:30:00.500000Z'],
  ] as const)
    assert.equal(utcFromText(`2024-03-10 02:30:00.5${zone}`), utc, zone);
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

/** Names and oids in pg_type: each type, and the type of its arrays (0: none is known). */
const PG_TYPE: readonly (readonly [name: string, oid: number, arrayOid: number])[] = [
  ['bool', 16, 1000],
  ['int2', 21, 1005],
  ['int4', 23, 1007],
  ['oid', 26, 1028],
  ['int8', 20, 1016],
  ['float4', 700, 1021],
  ['float8', 701, 1022],
  ['bytea', 17, 1001],
  ['date', 1082, 1182],
  ['timestamp', 1114, 1115],
  ['timestamptz', 1184, 1185],
  ['interval', 1186, 1187],
  ['json', 114, 199],
  ['jsonb', 3802, 3807],
  ['box', 603, 1020],
  ['char', 18, 1002],
  ['name', 19, 1003],
  ['text', 25, 1009],
  ['bpchar', 1042, 1014],
  ['varchar', 1043, 1015],
  ['numeric', 1700, 1231],
  ['uuid', 2950, 2951],
  ['xml', 142, 143],
  ['time', 1083, 1183],
  ['timetz', 1266, 1270],
  ['money', 790, 791],
  ['inet', 869, 1041],
  ['cidr', 650, 651],
  ['macaddr', 829, 1040],
  ['macaddr8', 774, 775],
  ['bit', 1560, 1561],
  ['varbit', 1562, 1563],
  ['tsvector', 3614, 3643],
  ['tsquery', 3615, 3645],
  ['point', 600, 1017],
  ['lseg', 601, 1018],
  ['path', 602, 1019],
  ['polygon', 604, 1027],
  ['line', 628, 629],
  ['circle', 718, 719],
  ['int4range', 3904, 3905],
  ['numrange', 3906, 3907],
  ['tsrange', 3908, 3909],
  ['tstzrange', 3910, 3911],
  ['daterange', 3912, 3913],
  ['int8range', 3926, 3927],
  ['jsonpath', 4072, 4073],
  ['record', 2249, 2287],
  ['cstring', 2275, 1263],
  ['regclass', 2205, 2210],
  ['regtype', 2206, 2211],
  ['regproc', 24, 1008],
  ['tid', 27, 1010],
  ['xid', 28, 1011],
  ['cid', 29, 1012],
  ['int2vector', 22, 1006],
  ['oidvector', 30, 1013],
  ['xid8', 5069, 271],
  ['pg_lsn', 3220, 3221],
  ['void', 2278, 0],
  ['unknown', 705, 0],
  ['refcursor', 1790, 2201],
];

test('PostgreSQL types: each built-in type has the name and the oids of pg_type', () => {
  for (const [name, oid, arrayOid] of PG_TYPE) {
    const type = TYPES.get(oid);
    assert.deepEqual([type?.name, type?.oid], [name, oid]);
    if (arrayOid === 0) continue;
    const list = TYPES.get(arrayOid);
    assert.deepEqual([list?.name, list?.oid, list?.element], [`${name}[]`, arrayOid, type]);
  }
  const known = Array.from({ length: 10_000 }, (_, oid) => TYPES.get(oid)).filter(
    (type) => type !== undefined,
  );
  assert.equal(known.length, PG_TYPE.length + PG_TYPE.filter(([, , arrayOid]) => arrayOid !== 0).length);
});

for (const [text, hex] of [
  ['\\x00ff', '00ff'],
  ['\\x', ''],
  ['ab', '6162'],
  ['a\\\\b', '615c62'],
  ['a\\012\\377', '610aff'],
  ['', ''],
] as const)
  test(`PostgreSQL types: the bytea ${JSON.stringify(text)} has the bytes ${hex}`, () => {
    const value = BY_NAME.get('bytea')!.fromText(text) as Uint8Array;
    assert.equal(Buffer.from(value).toString('hex'), hex);
  });

const OWN = 16_400;
const found = (oid: number, name: string, elementOid = 0): FoundType => ({
  oid,
  name,
  elementOid,
  elementName: elementOid === 0 ? undefined : 'money_amount',
  delimiter: ',',
  baseOid: 0,
});

test("PostgreSQL types: values of an application's type are parsed from text, also inside of arrays", () => {
  const parse = (text: unknown): unknown => ({ text });
  const encode = (): string => 'x';
  const types = new PostgresTypes(
    'auto',
    'date',
    new Map([
      ['money_amount', { parse, encode }],
      ['only_written', { parse: undefined, encode }],
    ]),
  );
  types.learn([
    found(OWN, 'money_amount'),
    found(OWN + 1, '_money_amount', OWN),
    found(OWN + 2, 'only_written'),
  ]);
  const own = types.get(OWN)!;
  const bytes = Buffer.from('-ab-');
  assert.deepEqual(own.fromText('ab'), { text: 'ab' });
  assert.deepEqual(own.decodeText(bytes, 1, 3), { text: 'ab' });
  assert.equal(own.encode, encode);
  assert.deepEqual(types.get(OWN + 1)!.fromText('{a,NULL,b}'), [{ text: 'a' }, null, { text: 'b' }]);
  assert.deepEqual([types.get(OWN + 2)!.fromText('ab'), types.get(OWN + 2)!.encode], ['ab', encode]);
});
