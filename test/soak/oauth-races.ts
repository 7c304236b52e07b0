/**
 * Refresh tokens under processes that race, revoke and are killed, for SOAK_SECONDS (default 60); each kind
 * twice at least, and from 60 on 50 times, revokeAll() 250 times, however long that takes (about five
 * minutes).
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/oauth-races.ts
 *
 * Asserted in each round: of 2, 5, 20 and 100 refreshes at once, in one process and in six, all get the same
 * successor, the login lives, and a replay afterwards is caught; nothing of a subject lives after
 * revokeAll(), neither 20 logins that are rotated all the time nor logins that come back meanwhile; the retry
 * after kill -9 between commit and answer gets the successor; an old token that six processes present at once
 * is one event; a state is given out once. By HTTP never two successors, and in at least nine rounds of ten
 * the login lives: a busy machine may hold up a request until others were answered.
 */
import assert from 'node:assert/strict';
import {
  Fleet,
  Sites,
  begunBefore,
  coalesced,
  killed,
  killedOverHttp,
  killedUnderLoad,
  overHttp,
  overlapping,
  replayed,
  revoked,
  strict,
  takenOnce,
} from '../support/oauth-races.ts';
import { seeded } from '../support/random.ts';
import { scoped, SECONDS } from '../support/soak.ts';

const ROUNDS = 2;
const LEAST_CYCLES = SECONDS < 60 ? 1 : 25;
const COUNTS: readonly number[] = [2, 5, 20, 100];
const totals = new Map<string, number>();
const add = (what: string, count: number): void => void totals.set(what, (totals.get(what) ?? 0) + count);

async function http(name: string, sites: Sites, counts: readonly number[], rounds: number): Promise<void> {
  for (const count of counts) {
    const races = await overHttp(sites, count, rounds);
    add(`${name}: ${count} at once, rounds`, races.rounds);
    add(`${name}: ${count} at once, login alive`, races.alive);
    add(`${name}: ${count} at once, replay afterwards caught`, races.caught);
    add(`${name}: ${count} at once, over the limit`, races.limited);
  }
}

await scoped(async (scope) => {
  const startedMs = performance.now();
  const [one, six] = [await Fleet.start(scope, 1), await Fleet.start(scope, 6)];
  const sites = {
    'http, 1 process': await Sites.start(scope, 1, 'unlimited'),
    'http, 6 processes': await Sites.start(scope, 6, 'unlimited'),
    'http, default limits': await Sites.start(scope, 1, 'limited'),
  };
  for (let cycle = 0; cycle < LEAST_CYCLES || performance.now() - startedMs < SECONDS * 1_000; cycle++) {
    const random = seeded(cycle);
    for (const count of COUNTS) {
      add(
        `1 process: ${count} at once, all with one successor, alive, replay caught`,
        await coalesced(one, count, ROUNDS),
      );
      add(
        `6 processes: ${count} at once, all with one successor, alive, replay caught`,
        await coalesced(six, count, ROUNDS),
      );
    }
    add('6 processes, strict: 20 at once, one successor, alive', await strict(six, 20, ROUNDS));
    add('rotations against revokeAll()', await revoked(six, 5 * ROUNDS, random));
    add('rounds of revokeAll() against 20 logins', 5 * ROUNDS);
    add('logins admitted, then ended by revokeAll()', await begunBefore(six, 2 * ROUNDS, random));
    add('states taken once', await takenOnce(six, 2 * ROUNDS));
    add('old tokens of six processes, one event each', await replayed(six, ROUNDS));
    for (const [name, of] of Object.entries(sites)) await http(name, of, COUNTS, ROUNDS);
    add('kill -9 between commit and answer', await killed(six, ROUNDS, random));
    add('kill -9 by HTTP', await killedOverHttp(sites['http, 1 process'], 1));
    const killedNow = await killedUnderLoad(sites['http, 6 processes'], 1, 10, random);
    add('kill -9 under load: refreshes in flight', killedNow.inFlight);
    add('kill -9 under load: logins lost', killedNow.lost);
    add('kill -9 under load: replays afterwards caught', killedNow.caught);
    const overlaps = await overlapping(sites['http, 6 processes'], 5, 2);
    add('pairs at two processes', overlaps.rounds);
    add('pairs at two processes: logins lost', overlaps.lost);
  }
  for (const [what, count] of totals) console.log(`${String(count).padStart(7)}  ${what}`);
  const total = (what: string): number => totals.get(what) ?? 0;
  assert.ok(
    total('kill -9 under load: logins lost') <=
      Math.ceil(total('kill -9 under load: refreshes in flight') / 500),
    'too many refreshes were lost by kill -9',
  );
  const sum = (end: string): number =>
    [...totals].reduce((total, [what, count]) => (what.endsWith(end) ? total + count : total), 0);
  assert.ok(
    sum('at once, login alive') >= 0.9 * sum('at once, rounds'),
    'too many logins ended although their refreshes overlapped',
  );
  console.log('ok');
});
process.exit(0);
