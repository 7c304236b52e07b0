/**
 * Every type of MariaDB and MySQL: decoded from binary and text, and encoded, in any time zone of the
 * process.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DataError, DatabaseError, StatementError, json, type Database } from '../../../src/db/index.ts';
import { refusedData } from '../../contract/database.ts';
import { mysqlDatabase, type Engine } from '../../support/mysql-database.ts';
import type { Parameter, Row } from '../../../src/db/index.ts';

const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);
const at = (text: string): Date => new Date(text);
/** Marks a column that is only read, because its value cannot be written back. */
const READ = Symbol('read only');

type Case = readonly [
  type: string,
  literal: string,
  value: unknown,
  written?: Parameter | typeof READ | undefined,
  only?: Engine,
];

/** A column type, a literal, the decoded value, and the value to write if it differs. */
const CASES: readonly Case[] = [
  ['tinyint', '-128', -128],
  ['tinyint', '127', 127],
  ['tinyint unsigned', '255', 255],
  ['tinyint(1)', '1', 1],
  ['boolean', 'false', 0, false],
  ['boolean', 'true', 1, true],
  ['smallint', '-32768', -32_768],
  ['smallint unsigned', '65535', 65_535],
  ['mediumint', '-8388608', -8_388_608],
  ['mediumint unsigned', '16777215', 16_777_215],
  ['int', '-2147483648', -2_147_483_648],
  ['int', '2147483647', 2_147_483_647],
  ['int unsigned', '4294967295', 4_294_967_295],
  ['int(7) zerofill', '42', 42],
  ['bigint', '0', 0],
  ['bigint', '-1', -1],
  ['bigint', '9007199254740991', 9_007_199_254_740_991],
  ['bigint', '9007199254740993', 9_007_199_254_740_993n],
  ['bigint', '-9223372036854775808', -(2n ** 63n)],
  ['bigint', '9223372036854775807', 2n ** 63n - 1n],
  ['bigint unsigned', '18446744073709551615', 2n ** 64n - 1n],
  ['bigint unsigned', '4294967296', 4_294_967_296],
  ['float', '1.1', 1.1],
  ['float', '-0.25', -0.25],
  ['float', '3e38', 3e38],
  ['float', '0.001', 0.001],
  ['double', '1.1', 1.1],
  ['double', '1e308', 1e308],
  ['double', '-2.2250738585072014e-308', -2.2250738585072014e-308],
  ['double', '0.1e0', 0.1],
  ['decimal(10,2)', '1.10', '1.10'],
  ['decimal(10,2)', '-99999999.99', '-99999999.99'],
  [
    'decimal(65,30)',
    '12345678901234567890123456789012345.123456789012345678901234567890',
    '12345678901234567890123456789012345.123456789012345678901234567890',
  ],
  ['decimal(5,0)', '0', '0'],
  ['bit(1)', "b'1'", true],
  ['bit(1)', "b'0'", false],
  ['bit(10)', "b'1000000011'", bytes(2, 3), READ],
  ['bit(64)', "b'1'", bytes(0, 0, 0, 0, 0, 0, 0, 1), READ],
  ['year', '2024', 2024],
  ['year', '1901', 1901],
  ['date', "'2024-03-10'", '2024-03-10'],
  ['date', "'1000-01-01'", '1000-01-01'],
  ['date', "'9999-12-31'", '9999-12-31'],
  ['datetime', "'2024-03-10 02:30:00'", '2024-03-10T02:30:00'],
  ['datetime(6)', "'2024-03-10 02:30:00.123456'", '2024-03-10T02:30:00.123456'],
  ['datetime(3)', "'2024-03-10 02:30:00.1'", '2024-03-10T02:30:00.100'],
  ['datetime(6)', "'2024-03-10 00:00:00'", '2024-03-10T00:00:00.000000'],
  ['timestamp null', "'2024-03-10 02:30:00'", at('2024-03-10T02:30:00Z')],
  ['timestamp(6) null', "'2024-11-03 01:30:00.123456'", at('2024-11-03T01:30:00.123Z'), READ],
  ['timestamp(3) null', "'1970-01-01 00:00:01.5'", at('1970-01-01T00:00:01.500Z')],
  ['timestamp null', "'2038-01-19 03:14:07'", at('2038-01-19T03:14:07Z')],
  ['time', "'12:34:56'", '12:34:56'],
  ['time(3)', "'12:34:56.789'", '12:34:56.789'],
  ['time(6)', "'-838:59:58.999999'", '-838:59:58.999999'],
  ['time', "'838:59:59'", '838:59:59'],
  ['time', "'00:00:00'", '00:00:00'],
  ['time(2)', "'-00:00:00.5'", '-00:00:00.50'],
  ['char(10)', "'grüße'", 'grüße'],
  ['varchar(100)', "''", ''],
  ['varchar(100)', "'漢字 😀 ''quoted'''", "漢字 😀 'quoted'"],
  ['varchar(100) character set latin1', "'grüße'", 'grüße'],
  ['tinytext', "'a'", 'a'],
  ['text', "'line\\nfeed'", 'line\nfeed'],
  ['mediumtext', "repeat('x', 300)", 'x'.repeat(300)],
  ['longtext', "repeat('ü', 70000)", 'ü'.repeat(70_000)],
  ['binary(4)', "x'00ff'", bytes(0, 255, 0, 0)],
  ['varbinary(10)', "x'00ff27'", bytes(0, 255, 39)],
  ['tinyblob', "x''", bytes()],
  ['blob', "x'5c27'", bytes(0x5c, 0x27)],
  ['mediumblob', "x'00'", bytes(0)],
  ['longblob', "repeat(x'ff', 251)", bytes(...Array.from({ length: 251 }, () => 255))],
  ["enum('small','large')", "'large'", 'large'],
  ["set('a','b','c')", "'a,c'", 'a,c'],
  [
    'json',
    '\'{"a": [1, null, "ü"], "b": 1.5}\'',
    { a: [1, null, 'ü'], b: 1.5 },
    json({ a: [1, null, 'ü'], b: 1.5 }),
  ],
  ['json', '\'"text"\'', 'text', json('text')],
  [
    'point',
    "ST_GeomFromText('POINT(1 2)')",
    bytes(0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x40),
    READ,
  ],
  [
    'uuid',
    "'6ccd780c-baba-1026-9564-5b8c656024db'",
    '6ccd780c-baba-1026-9564-5b8c656024db',
    undefined,
    'mariadb',
  ],
  ['inet6', "'2001:db8::1'", '2001:db8::1', undefined, 'mariadb'],
  ['inet4', "'192.0.2.1'", '192.0.2.1', undefined, 'mariadb'],
];

/** Cases that the server supports: MySQL 5.6 has no JSON. */
async function casesOf(db: Database): Promise<readonly Case[]> {
  const isOld = String(await db.scalar('select version()')).startsWith('5.6');
  return CASES.filter(
    ([type, , , , only]) => (only === undefined || only === db.dialect) && !(isOld && type === 'json'),
  );
}

/** Creates a table with a column for each case, filled by literals. */
async function filled(db: Database, cases: readonly Case[]): Promise<void> {
  await db.script(
    `create table every (${cases.map(([type], index) => `c${index} ${type}`).join(', ')}) charset utf8mb4`,
  );
  await db.script(`insert into every values (${cases.map(([, literal]) => literal).join(', ')})`);
}

function same(row: Record<string, unknown> | undefined, cases: readonly Case[], how: string): void {
  for (const [index, [type, literal, value]] of cases.entries())
    assert.deepEqual(row?.[`c${index}`], value, `${type} ${literal.slice(0, 60)} ${how}`);
}

for (const [name, engine] of [
  ['MariaDB', 'mariadb'],
  ['MySQL', 'mysql'],
] as const) {
  test(`${name}: each value is written and read unchanged, in the binary and the text format, whatever the time zone of the process`, async (t) => {
    assert.ok(
      CASES.length >= 60 && new Set(CASES.map(([type]) => type.replace(/\(.*/, ''))).size >= 36,
      String(CASES.length),
    );
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    const cases = await casesOf(db);
    await filled(db, cases);
    const before = process.env['TZ'];
    t.after(() => {
      if (before === undefined) delete process.env['TZ'];
      else process.env['TZ'] = before;
    });
    for (const zone of ['UTC', 'America/New_York', 'Asia/Kathmandu', 'Pacific/Apia']) {
      process.env['TZ'] = zone;
      for (let use = 0; use < 3; use++)
        same(await db.fetchOne('select * from every'), cases, `in binary, in ${zone}`);
      same(await db.fetchOne('select * from every where 1 = ?', [1]), cases, `in binary, in ${zone}`);
      await db.transaction(async (tx) => {
        await tx.execute("prepare as_text from 'select * from every'");
        // it cannot be prepared, so it is sent as text
        same(await tx.fetchOne('execute as_text'), cases, `as text, in ${zone}`);
        const { rows } = await tx.fetchArrays('execute as_text');
        assert.deepEqual(
          rows[0],
          cases.map(([, , value]) => value),
        );
      });
      const written = cases.flatMap(([, , value, other = value as Parameter], index) =>
        other === READ ? [] : [[`c${index}`, other] as const],
      );
      await db.execute(`create table copied like every`);
      await db.execute(
        `insert into copied (${written.map(([column]) => column).join(', ')}) values (${written.map(() => '?').join(', ')})`,
        written.map(([, value]) => value),
      );
      const names = new Set(written.map(([column]) => column));
      const row: Record<string, unknown> = (await db.fetchOne('select * from copied'))!;
      for (const [index, [type, literal, value]] of cases.entries())
        if (names.has(`c${index}`))
          assert.deepEqual(row[`c${index}`], value, `${type} ${literal.slice(0, 60)} written in ${zone}`);
      assert.equal(
        await db.insertMany(
          'copied',
          written.map(([column]) => column),
          Array.from({ length: 3 }, () => written.map(([, value]) => value)),
        ),
        3,
      );
      assert.deepEqual(await db.fetchAll('select distinct c0, c15, c20, c44, c47 from copied'), [
        { c0: row['c0'], c15: row['c15'], c20: row['c20'], c44: row['c44'], c47: row['c47'] },
      ]);
      await db.execute('drop table copied');
    }
  });

  test(`${name}: NULL in a column of any type is returned as null in the binary and the text format, and null is written as NULL`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    const cases = await casesOf(db);
    await filled(db, cases);
    await db.execute(
      `update every set ${cases.map((_, index) => `c${index} = ?`).join(', ')}`,
      cases.map(() => null),
    );
    const nulls = cases.map(() => null);
    assert.deepEqual((await db.fetchArrays('select * from every')).rows, [nulls]);
    await db.transaction(async (tx) => {
      await tx.execute("prepare as_text from 'select * from every'");
      assert.deepEqual((await tx.fetchArrays('execute as_text')).rows, [nulls]);
    });
  });

  test(`${name}: parameters of the URL and options of openDatabase() select the JavaScript types of returned values`, async (t) => {
    const setUp =
      "create table taste (flag tinyint(1), small tinyint(4), doc json, day date null, moment datetime null, stamp timestamp null, wide bigint); insert into taste values (1, 1, '[1]', '0000-00-00', '0000-00-00 00:00:00', '0000-00-00 00:00:00', 5)";
    const query = 'set.sql_mode=NO_ENGINE_SUBSTITUTION';
    for (const [options, settings, expected] of [
      [{}, query, { flag: 1, small: 1, doc: [1], day: null, moment: null, stamp: null, wide: 5 }],
      [
        { int8: 'bigint' },
        `${query}&zero_dates=string&tinyint1_is_boolean=1&json=text`,
        {
          flag: true,
          small: 1,
          doc: '[1]',
          day: '0000-00-00',
          moment: '0000-00-00T00:00:00',
          stamp: '0000-00-00T00:00:00',
          wide: 5n,
        },
      ],
      [
        { int8: 'string' },
        query,
        { flag: 1, small: 1, doc: [1], day: null, moment: null, stamp: null, wide: '5' },
      ],
    ] as const) {
      const db = await mysqlDatabase(t, engine, options, settings);
      if (db === undefined || (await casesOf(db)).every(([type]) => type !== 'json')) return;
      await db.script(setUp);
      assert.deepEqual(await db.fetchOne('select * from taste'), expected);
      await db.transaction(async (tx) => {
        await tx.execute("prepare as_text from 'select * from taste'");
        assert.deepEqual(await tx.fetchOne('execute as_text'), expected, 'as text');
      });
    }
  });

  test(`${name}: fetchArrays() returns the SQL type of each column, and the name of its table if the column belongs to one`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined || (await casesOf(db)).every(([type]) => type !== 'json')) return;
    await db.script(
      "create table told (a int unsigned, b varchar(10), c text, d longtext, e blob, f decimal(5,2), g enum('x'), h varbinary(3), i json, j mediumint, k bit(3))",
    );
    const { columns } = await db.fetchArrays('select t.*, 1 + 1 as sum from told t');
    assert.deepEqual(columns.map(({ type }) => type).slice(0, -1), [
      'int unsigned',
      'varchar',
      'text',
      'longtext',
      'blob',
      'decimal',
      'enum',
      'varbinary',
      'json',
      'mediumint',
      'bit',
    ]);
    assert.deepEqual(
      [columns[0]!.table, columns.at(-1)!.table, columns.at(-1)!.name],
      ['told', undefined, 'sum'],
    );
  });

  test(`${name}: a value that its column cannot store causes a DataError that does not contain the value, each time the statement runs`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    await db.script(
      'create table narrow (a tinyint, b int, c date, d varchar(3), e decimal(3,1), f datetime)',
    );
    for (const [column, value] of [
      ['a', 987],
      ['b', 'secret'],
      ['b', 2 ** 40],
      ['c', 'secret'],
      ['d', 'secret'],
      ['e', 'secret'],
      ['f', 'secret'],
      ['c', '0000-00-00'],
      ['c', '2024-02-30'],
    ] as const) {
      for (let use = 0; use < 3; use++)
        await assert.rejects(
          db.execute(`insert into narrow (${column}) values (?)`, [value]),
          (error) =>
            (error instanceof DataError && !/secret|987|2024/.test(error.message)) ||
            assert.fail(`${column} ${String(error)}`),
        );
    }
    for (const value of [new Date(Date.UTC(10_000, 0)), new Date(-1e14)])
      await assert.rejects(
        db.execute('insert into narrow (f) values (?)', [value]),
        refusedData('22007', /year/),
      );
  });

  test(`${name}: the error for a statement that fails because of its values, for example in an expression or in SET, does not contain the values`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    await db.script(
      'create table account (id int primary key, amount int unsigned); insert into account values (1, 5); create table part (a int) partition by list (a) (partition p0 values in (1, 2)); create table parent (a varchar(20) primary key) engine=innodb; create table child (a varchar(20), b int, unique key (b, a), foreign key (a) references parent (a) on update cascade) engine=innodb',
    );
    for (const [text, ...params] of [
      ['update account set amount = amount - ?', 777_001],
      ['select pow(?, ?)', 777_001, 777_001],
      ['select exp(length(?) + 777)', "sec'ret"],
      ['insert into part values (?)', 777_001],
      ['set time_zone = ?', "sec'ret"],
      ['set sql_mode = ?', "sec'ret"],
      ['select get_lock(?, 0)', 'secret'.repeat(40)],
      ["select updatexml('<a/>', concat('~', ?), 1)", "sec'ret("],
      ['set default_storage_engine = ?', 'secret'],
      ['set lc_messages = ?', 'secret'],
      ['set character_set_results = ?', 'secret'],
      ['set collation_connection = ?', 'secret'],
    ] as const) {
      const error = await db.fetchAll(text, params).then(
        () => undefined,
        (problem: unknown) => problem,
      );
      if (error === undefined && text.includes('get_lock')) continue; // servers before MySQL 5.7 accept it
      assert.ok(
        error instanceof DatabaseError && !/777_?001|sec|ret/.test(error.message),
        `${text}: ${String(error)}`,
      );
    }
    await assert.rejects(
      db.script(`create table ${'x'.repeat(65)} (a int)`),
      (error) => error instanceof StatementError && error.message.includes('xxx'),
    );
  });

  test(`${name}: a prepared statement encodes each value by its own type, even if earlier values of the statement had other types`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    const values = [
      5,
      'abc',
      1.5,
      null,
      new Date(0),
      2n ** 62n + 1n,
      true,
      2n ** 64n - 1n,
      -7,
      'ü',
      2 ** 53 - 1,
      0.1,
    ];
    const expected = (value: Parameter): unknown =>
      value === true ? 1 : value instanceof Date ? 'date' : value;
    const gives = (value: unknown): unknown =>
      typeof value === 'string' && value.startsWith('1970-01-01') ? 'date' : value;
    for (let round = 0; round < 3; round++) {
      const mixed = round === 1 ? values.toReversed() : values;
      for (const value of mixed)
        assert.deepEqual(
          gives(await db.scalar('select ? as value', [value])),
          expected(value),
          String(value),
        );
    }
    await db.script('create table mixed (id integer primary key auto_increment, value text)');
    for (let round = 0; round < 3; round++) {
      // multi-row statements, each run with other kinds of values
      const many = Array.from(
        { length: 1_100 },
        (_, index) => [values[(index * 7 + (index % (round + 2))) % values.length]!] as const,
      );
      assert.equal(await db.executeMany('insert into mixed (value) values (?)', many), many.length);
      const texts: Row[] = await db.fetchAll('select value from mixed order by id');
      assert.deepEqual(
        texts.map(({ value }) => gives(value)),
        many.map(([value]) =>
          value === null ? null : value instanceof Date ? 'date' : String(expected(value)),
        ),
      );
      await db.execute('delete from mixed');
    }
    const small = await mysqlDatabase(t, engine, { statementCache: 2 });
    await small!.script('create table mixed (id integer primary key auto_increment, value text)');
    for (let round = 0; round < 2; round++)
      assert.equal(
        await small!.executeMany(
          'insert into mixed (value) select ?',
          values.map((value) => [value]),
        ),
        values.length,
      ); // the server has more statements than the cache keeps
    assert.equal(
      await db.executeMany(
        'insert into mixed (value) select ?',
        values.map((value) => [value]),
      ),
      values.length,
    );
    const rows = await db.fetchAll('select value from mixed order by id');
    assert.deepEqual(
      rows.map(({ value }) => gives(value)),
      values.map((value) =>
        value === null ? null : value instanceof Date ? 'date' : String(expected(value)),
      ),
    );
  });
}
