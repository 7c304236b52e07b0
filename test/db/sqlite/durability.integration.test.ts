import { join } from 'node:path';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { patient } from '../../support/patient.ts';
import { folder } from '../../support/run.ts';
import { seeded } from '../../support/random.ts';
import { copies, interleaved, killed, sixWriters } from '../../support/sqlite-durability.ts';

test('when six processes write one SQLite file, every commit is kept exactly once', (t) => sixWriters(t, 40));

test('when the process of a SQLite database is killed, committed data is kept and uncommitted data is not', (t) =>
  killed(t, 6, seeded(9)));

test('when the SQLite file and its log are copied at any moment, all data committed by then can be recovered from the copies', (t) =>
  copies(t, 40, seeded(11)));

test('when 10,000 SQLite transactions are interleaved, each statement runs in its own transaction', async (t) => {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  await using db = await openDatabase(url, patient(url, { synchronous: 'normal' }));
  await interleaved(db, 10_000, seeded(13));
});
