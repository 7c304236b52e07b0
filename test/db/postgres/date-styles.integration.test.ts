import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionLost } from '../../../src/db/index.ts';
import { postgresDatabase } from '../../support/postgres-database.ts';

test('PostgreSQL: a session that sets a DateStyle other than ISO is closed, and the error says how to write dates in other forms', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  for (const style of ['sql, mdy', 'postgres, dmy', 'german'])
    await assert.rejects(
      db.script(`set datestyle = ${style}`),
      (error) => error instanceof ConnectionLost && /DateStyle.*to_char\(\)/.test(error.message),
    );
  assert.equal(await db.scalar("select '2024-02-29'::date"), '2024-02-29');
});

test('PostgreSQL: in the DateStyle "ISO, DMY", dates are read with the day first and returned in ISO 8601', async (t) => {
  for (const statementCache of [0, 100]) {
    const db = await postgresDatabase(t, { statementCache, pool: { max: 1 } });
    if (db === undefined) return;
    await db.script('set datestyle = iso, dmy');
    for (let use = 0; use < 3; use++)
      assert.deepEqual(
        await db.fetchAll("select '29/02/2024'::date as day, '1/2/2024 10:00'::timestamp as here"),
        [{ day: '2024-02-29', here: '2024-02-01T10:00:00' }],
      );
  }
});
