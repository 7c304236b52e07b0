import assert from 'node:assert/strict';
import { test } from 'node:test';
import { postgresDatabase } from '../../support/postgres-database.ts';
import { seeded } from '../../support/random.ts';

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
