/**
 * Soak of refresh tokens: processes refresh and revoke them concurrently, and are killed. Takes SOAK_SECONDS
 * (default 60). Each kind of round runs at least twice; from 60 seconds on, at least 50 times, and
 * revokeAll() 250 times, even if that takes about five minutes.
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/oauth-races.ts
 *
 * Each round asserts one of these:
 *
 *   2, 5, 20 or 100 concurrent refreshes, in one process or six, get the same successor. The login stays
 *   valid, and a later replay ends it.
 *   After revokeAll(), a subject has no valid login: neither of 20 that are rotated all the time, nor of
 *   those that start meanwhile.
 *   After kill -9 between commit and response, a retry gets the successor.
 *   An old token that six processes present at once causes one event.
 *   A state can be used once.
 *   Over HTTP there are never two successors. The login stays valid in nine rounds of ten or more: a busy
 *   machine may delay a request until the others have their responses.
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
      const what = `${count} at once, all with one successor, alive, replay caught`;
      add(`1 process: ${what}`, await coalesced(one, count, ROUNDS));
      add(`6 processes: ${what}`, await coalesced(six, count, ROUNDS));
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
