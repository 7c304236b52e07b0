/**
 * `timestamps=string`: timestamps with microseconds, on every engine that stores them.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { DataError, openDatabase } from '../../src/db/index.ts';
import { instantFromText, utcFromText, utcOf } from '../../src/db/postgres/dates.ts';
import { SERVERS } from '../support/every-database.ts';
import { needsPostgres, postgresUrl } from '../support/postgres-database.ts';
import { inReverse } from '../support/run.ts';
import type { Database } from '../../src/db/index.ts';

for (const { name, dialect, address } of SERVERS) {
  const type = dialect === 'postgres' ? 'timestamptz' : 'timestamp(6) null';
  const open = async (t: TestContext, query: string): Promise<Database | undefined> => {
    const scope = inReverse(t);
    const url = await address(t, scope, query);
    if (url === undefined) return undefined;
    const db = await openDatabase(url);
    scope.after(() => db.close());
    await db.script(`create table event (id integer primary key, at ${type})`);
    return db;
  };

  test(`${name} with timestamps=string returns timestamps as text with microseconds, and accepts such text as values`, async (t) => {
    const db = await open(t, 'timestamps=string');
    if (db === undefined) return;
    const instants = Array.from({ length: 23 }, (_, id) => `2024-02-29T12:00:00.1234${String(id + 10)}Z`);
    for (const [id, at] of instants.slice(0, 3).entries())
      await db.execute('insert into event (id, at) values (?, ?)', [id, at]);
    assert.equal(
      await db.insertMany(
        'event',
        ['id', 'at'],
        instants.slice(3).map((at, index) => [index + 3, at]),
      ),
      20,
    );
    for (let use = 0; use < 3; use++)
      assert.deepEqual(
        (await db.fetchAll('select at from event order by at')).map(({ at }) => at),
        instants,
      );
    assert.equal(await db.scalar('select id from event where at = ?', [instants[7]!]), 7);
    const read: unknown[] = [];
    for (let after = '2000-01-01T00:00:00Z'; ;) {
      const page = await db.fetchAll('select at from event where at > ? order by at limit 5', [after]);
      if (page.length === 0) break;
      read.push(...page.map(({ at }) => at));
      after = page.at(-1)!['at'] as string;
    }
    assert.deepEqual(read, instants);
    await db.execute('insert into event (id, at) values (?, ?), (?, ?)', [
      100,
      new Date('2024-03-10T02:30:00.500Z'),
      101,
      null,
    ]);
    assert.match(
      String(await db.scalar('select at from event where id = 100')),
      /^2024-03-10T02:30:00\.50*Z$/,
    );
    assert.equal(await db.scalar('select at from event where id = 101'), null);
  });

  test(`${name} with timestamps=string compares and stores text with an offset as the instant that it means`, async (t) => {
    const db = await open(t, 'timestamps=string');
    if (db === undefined) return;
    const at = '2024-02-29T23:30:00.123456Z';
    const texts = [
      at,
      '2024-03-01T01:30:00.123456+02:00',
      '2024-02-29T18:00:00.123456-05:30',
      '2024-02-29T23:30:00.123456+00:00',
      '2024-03-01 01:30:00.123456+02:00',
    ];
    await db.execute('insert into event (id, at) values (?, ?)', [1, at]);
    for (const text of texts) {
      assert.equal(await db.scalar('select id from event where at = ?', [text]), 1, text);
      assert.equal(await db.scalar('select id from event where at > ?', [text]), undefined, text);
      assert.equal(await db.scalar('select id from event where at < ?', [text]), undefined, text);
    }
    await db.insertMany(
      'event',
      ['id', 'at'],
      texts.map((text, index) => [index + 2, text]),
    );
    await db.executeMany(
      'insert into event (id, at) values (?, ?)',
      texts.map((text, index) => [index + 9, text]),
    );
    assert.equal(Number(await db.scalar('select count(*) from event where at = ?', [at])), 11);
    await assert.rejects(
      db.execute('insert into event (id, at) values (?, ?)', [99, '2024-02-30T23:30:00+02:00']),
      DataError,
    );
  });

  test(`${name} with timestamps=date returns timestamps as Date objects`, async (t) => {
    const db = await open(t, 'timestamps=date');
    if (db === undefined) return;
    await db.execute('insert into event (id, at) values (?, ?)', [1, '2024-02-29T12:00:00.123456']);
    assert.deepEqual(await db.scalar('select at from event'), new Date('2024-02-29T12:00:00.123Z'));
  });
}

test('PostgreSQL with timestamps=string returns timestamps in UTC, also in arrays, in sessions with another time zone, and outside the range of Date', async (t) => {
  if (!needsPostgres(t)) return;
  const scope = inReverse(t);
  const url = await postgresUrl(scope, '&timestamps=string&set.TimeZone=Asia/Kolkata');
  const db = await openDatabase(url);
  scope.after(() => db.close());
  for (const instant of [
    '2024-02-29T12:00:00.000001Z',
    '2024-02-29T23:59:59.900000Z',
    '1969-12-31T23:59:59.999999Z',
    '0044-03-15T00:00:00.000000Z BC',
    '294276-12-31T23:59:59.999999Z',
    'infinity',
    '-infinity',
  ])
    for (let use = 0; use < 3; use++) {
      assert.deepEqual(
        await db.fetchOne('select ?::timestamptz as one, array[?::timestamptz] as list', [instant, instant]),
        {
          one: instant,
          list: [instant],
        },
      );
    }
});

test('utcFromText() converts a timestamp to UTC with microseconds, and instantFromText() returns the same instant', () => {
  for (const [text, utc] of [
    ['2024-02-29 12:00:00.123456+00', '2024-02-29T12:00:00.123456Z'],
    ['2024-02-29 00:00:00.5+05:30', '2024-02-28T18:30:00.500000Z'],
    ['1883-11-18 12:03:58-00:01:15', '1883-11-18T12:05:13.000000Z'],
  ] as const) {
    assert.equal(utcFromText(text), utc);
    assert.equal((instantFromText(text) as Date).getTime(), Math.floor(new Date(utc).getTime()));
  }
  assert.equal(utcFromText('infinity'), 'infinity');
  assert.equal(utcOf(0, 1), '2000-01-01T00:00:00.000001Z');
  assert.equal(utcOf(-1, 2 ** 32 - 1), '1999-12-31T23:59:59.999999Z');
});
