/**
 * SQLite under processes that race, are killed and interleave, for SOAK_SECONDS (default 60); 100 kills at
 * least.
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/sqlite.ts
 */
import { join } from 'node:path';
import { openDatabase } from '../../src/db/index.ts';
import { seeded } from '../support/random.ts';
import { patient } from '../support/patient.ts';
import { folder } from '../support/run.ts';
import { scoped, SECONDS } from '../support/soak.ts';
import { copies, interleaved, killed, sixWriters } from '../support/sqlite-durability.ts';

const endMs = performance.now() + SECONDS * 1_000;
let rounds = 0;
for (; rounds === 0 || performance.now() < endMs; rounds++)
  await scoped(async (scope) => {
    await killed(scope, 25, seeded(rounds));
    await sixWriters(scope, 100);
    await copies(scope, 100, seeded(1_000 + rounds));
    const url = `sqlite:${join(folder(scope), 'data.db')}`;
    await using db = await openDatabase(url, patient(url, { synchronous: 'normal' }));
    await interleaved(db, 10_000, seeded(2_000 + rounds));
  });
console.log(
  `ok: ${rounds} rounds, ${25 * rounds} kills, ${600 * rounds} transactions of six processes, ${10_000 * rounds} interleaved`,
);
