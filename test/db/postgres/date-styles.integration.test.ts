import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isoFromStyle } from '../../../src/db/postgres/date-styles.ts';
import { postgresDatabase } from '../../support/postgres-database.ts';
import { seeded } from '../../support/random.ts';

for (const [text, style, expected] of [
  ['1997-12-17 07:37:16-08', 'ISO, MDY', '1997-12-17 07:37:16-08'],
  ['12/17/1997 07:37:16.25 UTC', 'SQL, MDY', '1997-12-17 07:37:16.25+00'],
  ['17/12/1997 07:37:16+0530', 'SQL, DMY', '1997-12-17 07:37:16+0530'],
  ['17.12.1997', 'German, MDY', '1997-12-17'],
  ['17.12.0044 BC', 'German, DMY', '0044-12-17 BC'],
  ['Wed Dec 17 07:37:16 1997', 'Postgres, MDY', '1997-12-17 07:37:16'],
  ['Wed 17 Dec 07:37:16 1997 +03', 'Postgres, DMY', '1997-12-17 07:37:16+03'],
  ['05-06-1997', 'Postgres, DMY', '1997-06-05'],
  ['05-06-1997', 'Postgres, MDY', '1997-05-06'],
  ['Wed Dec 17 07:37:16 1997 PST', 'Postgres, MDY', 'Wed Dec 17 07:37:16 1997 PST'],
  ['infinity', 'SQL, DMY', 'infinity'],
] as const)
  test(`isoFromStyle() returns "${expected}" for "${text}" in the DateStyle ${style}`, () =>
    assert.equal(isoFromStyle(text, style), expected));

test('PostgreSQL: a date or time has the same value in every DateStyle, alone and in arrays, in the text and the binary format', async (t) => {
  for (const statementCache of [0, 100]) {
    const db = await postgresDatabase(t, { statementCache, pool: { max: 1 } });
    if (db === undefined) return;
    const random = seeded(11);
    const texts = Array.from({ length: 300 }, () => {
      const part = (from: number, count: number): string => String(from + random(count)).padStart(2, '0');
      const year = String(1 + random(4_000)).padStart(4, '0');
      return `${year}-${part(1, 12)}-${part(1, 28)} ${part(0, 24)}:${part(0, 60)}:${part(0, 60)}.${String(random(1_000_000)).padStart(6, '0')}${random(8) === 0 ? ' BC' : ''}`;
    });
    const list = `{${texts.map((text) => `"${text}"`).join(',')}}`;
    await db.script('create table moment (id serial primary key, at timestamptz, here timestamp, day date)');
    await db.execute('insert into moment (at, here, day) select x, x, x from unnest(?::timestamp[]) as x', [
      list,
    ]);
    const read = async (style: string): Promise<unknown> => {
      await db.script(`set datestyle = ${style}`);
      return db.fetchAll(
        'select at, here, day, array[at] as ats, array[here] as heres, array[day] as days from moment order by id',
      );
    };
    const iso = await read('iso, mdy');
    for (const style of [
      'sql, mdy',
      'sql, dmy',
      'postgres, mdy',
      'postgres, dmy',
      'german, dmy',
      'german, mdy',
    ])
      assert.deepEqual(await read(style), iso, `${style}, ${statementCache}`);
  }
});
