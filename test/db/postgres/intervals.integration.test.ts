import assert from 'node:assert/strict';
import { test } from 'node:test';
import { intervalFromText } from '../../../src/db/postgres/intervals.ts';
import { postgresDatabase } from '../../support/postgres-database.ts';
import { seeded } from '../../support/random.ts';

for (const [text, iso] of [
  ['P1DT2H', 'P1DT2H'],
  ['00:00:00', 'PT0S'],
  ['0', 'PT0S'],
  ['@ 0', 'PT0S'],
  ['1 day 02:00:00', 'P1DT2H'],
  ['1 year -2 mons +3 days -04:05:06.5', 'P1Y-2M3DT-4H-5M-6.5S'],
  ['@ 1 year 2 mons 3 days 4 hours 5 mins 6.5 secs ago', 'P-1Y-2M-3DT-4H-5M-6.5S'],
  ['+1-2 -3 +4:05:06', 'P1Y2M-3DT4H5M6S'],
  ['-1-2', 'P-1Y-2M'],
  ['-3 4:05:06', 'P-3DT-4H-5M-6S'],
  ['no interval', 'no interval'],
] as const)
  test(`intervalFromText() returns "${iso}" for the text "${text}"`, () =>
    assert.equal(intervalFromText(text), iso));

test('PostgreSQL: an interval has the same value in every IntervalStyle, alone and in arrays', async (t) => {
  const db = await postgresDatabase(t, { statementCache: 0, pool: { max: 1 } });
  if (db === undefined) return;
  const random = seeded(7);
  const some = (below: number): number => (random(3) === 0 ? 0 : random(below) - Math.floor(below / 2));
  const texts = Array.from(
    { length: 300 },
    () =>
      `${some(40)} years ${some(24)} mons ${some(60)} days ${some(50)} hours ${some(120)} mins ${some(120)}.${random(10)}${random(1_000_000)} secs`,
  );
  const list = `{${texts.map((text) => `"${text}"`).join(',')}}`;
  await db.script('set intervalstyle = iso_8601; create table lasting (i interval)');
  await db.execute('insert into lasting select unnest(?::interval[])', [list]);
  const read = async (style: string): Promise<unknown> => {
    await db.script(`set intervalstyle = ${style}`);
    return db.fetchAll('select i, array[i] as list from lasting');
  };
  const iso = await read('iso_8601');
  for (const style of ['postgres', 'postgres_verbose', 'sql_standard'])
    assert.deepEqual(await read(style), iso, style);
});
