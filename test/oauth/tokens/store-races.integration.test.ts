/**
 * Races for the refresh tokens of one SQLite database. test/soak/oauth-races.ts runs longer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Fleet,
  Sites,
  coalesced,
  killedOverHttp,
  killedUnderLoad,
  overHttp,
  overlapping,
  strict,
} from '../../support/oauth-races.ts';
import { seeded } from '../../support/random.ts';

test('OAuth in one process with one SQLite database: simultaneous refreshes with one token get the same new token', async (t) => {
  const fleet = await Fleet.start(t, 1);
  for (const count of [2, 5, 20, 100]) await coalesced(fleet, count, 1);
  await strict(fleet, 20, 1);
});

test('OAuth over HTTP: each refresh gets one new token, even after a crash of the server, and the rate limit of token requests applies', async (t) => {
  const [limited, unlimited] = await Promise.all([
    Sites.start(t, 1, 'limited'),
    Sites.start(t, 1, 'unlimited'),
  ]);
  const { alive, answered } = await overHttp(unlimited, 20, 1);
  assert.ok(alive === 0 || answered === 20, `${answered} of 20`); // a busy machine may hold up a request until the others were answered
  const over = (await overHttp(limited, 100, 1)).limited;
  assert.ok(over > 0 && over <= 40, `${over} of 100 were over the limit of 60 a minute`);
  await killedOverHttp(unlimited, 1);
});

test('OAuth: if a process is killed while it handles refreshes, at most one response is lost, and the replay of a refreshed token is detected', async (t) => {
  const sites = await Sites.start(t, 2, 'no limits');
  const { inFlight, lost, caught } = await killedUnderLoad(sites, 1, 6, seeded(7));
  assert.ok(lost <= 1, `${lost} of ${inFlight}`); // one response may be cut on its way to the client
  assert.equal(lost + caught, 6);
});

test('OAuth: if two processes refresh one token at the same time, the login remains valid, and a later replay of the token is detected', async (t) => {
  const sites = await Sites.start(t, 2, 'no limits');
  const { lost, caught } = await overlapping(sites, 10, 2);
  assert.equal(lost + caught, 10, 'a busy machine may hold up a request until the other was answered');
});
