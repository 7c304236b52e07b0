/**
 * The token store on servers: its contract, and races of six processes. test/soak/oauth-races.ts runs longer.
 */
import { test } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { SqlTokenStore } from '../../../src/oauth/tokens/sql-store.ts';
import { ENGINES, SERVERS } from '../../support/every-database.ts';
import {
  Fleet,
  Sites,
  begunBefore,
  coalesced,
  killed,
  killedOverHttp,
  overHttp,
  replayed,
  revoked,
  strict,
  takenOnce,
} from '../../support/oauth-races.ts';
import { oauthDatabase } from '../../support/oauth-tokens.ts';
import { seeded } from '../../support/random.ts';
import { inReverse } from '../../support/run.ts';
import { storeClock, tokenStoreContract } from './store.contract.ts';

for (const { name, address } of SERVERS) {
  tokenStoreContract(`SqlTokenStore on ${name} passes the contract tests for token stores`, async (t) => {
    const scope = inReverse(t);
    const url = await address(t, scope);
    if (url === undefined) return undefined;
    const database = await oauthDatabase(url);
    scope.after(() => database.close());
    return {
      store: new SqlTokenStore(() => database, storeClock()),
      live: new SqlTokenStore(() => database, systemClock),
    };
  });

  test(`OAuth over HTTP with ${name}: each refresh gets one new token, even after a crash of the server`, async (t) => {
    const url = await address(t, t);
    if (url === undefined) return;
    const sites = await Sites.start(t, 1, 'unlimited', url);
    await overHttp(sites, 20, 1);
    await killedOverHttp(sites, 1);
  });
}

for (const { name, address } of ENGINES)
  test(`six processes that share one ${name} database behave like one process in each refresh, replay and revocation, even after a crash`, async (t) => {
    const url = await address(t, t);
    if (url === undefined) return;
    const fleet = await Fleet.start(t, 6, url);
    for (const count of [2, 5, 20, 100]) await coalesced(fleet, count, 1);
    await strict(fleet, 20, 2);
    await revoked(fleet, 4, seeded(1));
    await begunBefore(fleet, 3, seeded(3));
    await takenOnce(fleet, 3);
    await replayed(fleet, 4);
    await killed(fleet, 2, seeded(2));
  });
