import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { folder } from '../../support/run.ts';
import { seeded } from '../../support/random.ts';
import { copies, interleaved, killed, sixWriters } from '../../support/sqlite-durability.ts';

test('SQLite keeps every commit of six processes that write one file, and none twice', (t) =>
  sixWriters(t, 40));

test('SQLite keeps what was committed, and nothing of what was not, when its process is killed', (t) =>
  killed(t, 6, seeded(9)));

test('SQLite opens copies of file and log that were made at any moment with all that had been committed', (t) =>
  copies(t, 40, seeded(11)));

test('SQLite puts no row in the wrong place in 10,000 transactions that interleave', async (t) => {
  await using db = await openDatabase(`sqlite:${join(folder(t), 'data.db')}`, {
    synchronous: 'normal',
    pool: { acquireTimeoutMs: 60_000 },
  });
  await interleaved(db, 10_000, seeded(13));
});
