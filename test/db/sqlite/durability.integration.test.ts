import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { folder } from '../../support/run.ts';
import { seeded } from '../../support/random.ts';
import { copies, interleaved, killed, sixWriters } from '../../support/sqlite-durability.ts';

test('SQLite keeps every commit of six processes that write one file, each exactly once', (t) =>
  sixWriters(t, 40));

test('SQLite keeps committed data and no uncommitted data when its process is killed', (t) =>
  killed(t, 6, seeded(9)));

test('SQLite recovers all committed data from copies of its file and log that were made at any moment', (t) =>
  copies(t, 40, seeded(11)));

test('SQLite writes every row in the right place in 10,000 interleaved transactions', async (t) => {
  await using db = await openDatabase(`sqlite:${join(folder(t), 'data.db')}`, {
    synchronous: 'normal',
    pool: { acquireTimeoutMs: 60_000 },
  });
  await interleaved(db, 10_000, seeded(13));
});
