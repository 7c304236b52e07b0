/**
 * PostgreSQL under transactions that interleave, connections that are cut, a server that is killed and restarted, and callers who
 * give up, for SOAK_SECONDS (default 60); each kind once at least, and in full when there is time:
 *
 *   10,000 interleaved transactions, 200 × pg_terminate_backend, 10 × kill -9 of the server, 5 restarts, 5,000 cancellations
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/postgres.ts
 */
import assert from 'node:assert/strict';
import { openDatabase } from '../../src/db/index.ts';
import { canceled, interleaved, restarted, terminated } from '../support/postgres-chaos.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { seeded } from '../support/random.ts';
import type { Random } from '../support/postgres-chaos.ts';

const problem = postgresProblem();
const isOurs = process.env['POSTGRES_URL'] === undefined; // nobody else's server is killed
if (problem !== undefined || !isOurs) {
  console.log(`SKIPPED: ${problem ?? 'POSTGRES_URL names a server that is not ours to kill'}`);
} else {
  await soak();
}

async function soak(): Promise<void> {
  const seconds = Number(process.env['SOAK_SECONDS'] ?? 60);
  const endMs = performance.now() + seconds * 1_000;
  const ends: (() => void | Promise<void>)[] = [];
  const part = seconds >= 60 ? 1 : 0.2;
  try {
    const server = await PostgresServer.start({ after: (end) => void ends.push(end) }, ['synchronous_commit = on']); // what was answered survives a kill
    for (let round = 0; round === 0 || performance.now() < endMs; round++) {
      for (const [name, run] of phases(server, part, seeded(round + 1))) {
        const startedMs = performance.now();
        const said = await run();
        console.log(`${name}: ${said}, in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
      }
    }
    console.log('ok');
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

function phases(server: PostgresServer, part: number, random: Random): readonly (readonly [string, () => Promise<string>])[] {
  const { url } = server;
  const times = (full: number): number => Math.max(1, Math.round(full * part));
  const back = async (how: 'kill' | 'stop', count: number): Promise<string> => {
    const { backMs, attempts } = await restarted(server, url, count, how, random);
    assert.ok(backMs <= 2_000, `back after ${backMs} ms`);
    assert.ok(attempts < 20, `${attempts} attempts in a second`);
    return `${count} times; back within ${Math.round(backMs)} ms, at most ${attempts} attempts in a second`;
  };
  return [
    ['interleaved', async () => {
        await using db = await openDatabase(url, { pool: { acquireTimeoutMs: 60_000 } });
      await interleaved(db, times(10_000), random);
      return `${times(10_000)} transactions`;
    }],
    ['pg_terminate_backend', async () => `${times(200)} times, ${await terminated(url, times(200), random)}`],
    ['kill -9', () => back('kill', times(10))],
    ['restart', () => back('stop', times(5))],
    ['cancel', async () => {
      const counts = await canceled(url, times(5_000), random);
      return `${counts.canceled} canceled, ${counts.answered} answered`;
    }],
  ];
}
