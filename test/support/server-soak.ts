/**
 * Runs rounds of server-chaos.ts for test/soak/postgres.ts and test/soak/mysql.ts: each kind at least once,
 * and in full if there is time.
 */
import assert from 'node:assert/strict';
import { openDatabase } from '../../src/db/index.ts';
import { patient } from './patient.ts';
import { seeded } from './random.ts';
import {
  canceled,
  interleaved,
  restarted,
  terminated,
  type Random,
  type Restartable,
  type ServerKind,
} from './server-chaos.ts';

/** Seconds that are enough to run everything in full. */
const FULL_SECONDS = 60;
/** Fraction of rounds in a short run. */
const PART = 0.2;

/** Runs rounds until `seconds` are over. `server`: a server that may be stopped. */
export async function soakServer(
  url: string,
  kind: ServerKind,
  ending: string,
  server: Restartable | undefined,
  seconds: number,
): Promise<void> {
  const endMs = performance.now() + seconds * 1_000;
  const part = seconds >= FULL_SECONDS ? 1 : PART;
  for (let round = 0; round === 0 || performance.now() < endMs; round++) {
    for (const [name, run] of phases(url, kind, ending, server, part, seeded(round + 1))) {
      const startedMs = performance.now();
      const said = await run();
      console.log(`${name}: ${said}, in ${((performance.now() - startedMs) / 1_000).toFixed(1)} s`);
    }
  }
  console.log('ok');
}

type Phase = readonly [name: string, run: () => Promise<string>];

function phases(
  url: string,
  kind: ServerKind,
  ending: string,
  server: Restartable | undefined,
  part: number,
  random: Random,
): readonly Phase[] {
  const times = (full: number): number => Math.max(1, Math.round(full * part));
  const back = async (from: Restartable, how: 'kill' | 'stop', count: number): Promise<string> => {
    const { backMs, attempts, unknown } = await restarted(from, url, kind, count, how, random);
    assert.ok(backMs <= 2_000, `back after ${backMs} ms`);
    assert.ok(attempts < 20, `${attempts} failed attempts in a second`);
    return `${count} times; back within ${Math.round(backMs)} ms, at most ${attempts} failed attempts in a second, ${unknown} transactions of unknown outcome`;
  };
  const outages: readonly Phase[] =
    server === undefined
      ? []
      : [
          ['kill -9', () => back(server, 'kill', times(10))],
          ['restart', () => back(server, 'stop', times(5))],
        ];
  return [
    [
      'interleaved',
      async () => {
        await using db = await openDatabase(url, patient(url));
        await interleaved(db, kind, times(10_000), random);
        return `${times(10_000)} transactions`;
      },
    ],
    [ending, async () => `${times(200)} times, ${await terminated(url, kind, times(200), random)}`],
    ...outages,
    [
      'cancel',
      async () => {
        const counts = await canceled(url, kind, times(5_000), random);
        return `${counts.canceled} canceled, ${counts.answered} answered`;
      },
    ],
  ];
}
