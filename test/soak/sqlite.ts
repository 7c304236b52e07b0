/**
 * SQLite under processes that race, are killed and interleave, for SOAK_SECONDS (default 60); 100 kills at least.
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/sqlite.ts
 */
import { join } from 'node:path';
import { openDatabase } from '../../src/db/index.ts';
import { folder, type Scope } from '../support/run.ts';
import { seeded } from '../support/random.ts';
import { copies, interleaved, killed, sixWriters } from '../support/sqlite-durability.ts';

const seconds = Number(process.env['SOAK_SECONDS'] ?? 60);
const endMs = performance.now() + seconds * 1_000;
const cleanUps: (() => void | Promise<void>)[] = [];
const scope: Scope = { after: (fn) => void cleanUps.push(fn) };
let rounds = 0;
let kills = 0;
try {
  for (; rounds === 0 || performance.now() < endMs; rounds++) {
    await killed(scope, 25, seeded(rounds));
    kills += 25;
    await sixWriters(scope, 100);
    await copies(scope, 100, seeded(1_000 + rounds));
    await using db = await openDatabase(`sqlite:${join(folder(scope), 'data.db')}`, {
      synchronous: 'normal',
      pool: { acquireTimeoutMs: 60_000 },
    });
    await interleaved(db, 10_000, seeded(2_000 + rounds));
    while (cleanUps.length > 0) await cleanUps.pop()!();
  }
  console.log(
    `ok: ${rounds} rounds, ${kills} kills, ${600 * rounds} transactions of six processes, ${10_000 * rounds} interleaved`,
  );
} finally {
  while (cleanUps.length > 0) await cleanUps.pop()!();
}
