/**
 * The token store on PostgreSQL: its contract, and races of six processes. test/soak/oauth-races.ts runs longer.
 */
import { test } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { Migrator } from '../../../src/db/index.ts';
import { OAUTH_TABLES, PROVIDER_SESSIONS, SqlTokenStore } from '../../../src/oauth/tokens/sql-store.ts';
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
import { needsPostgres, postgresDatabase, postgresUrl } from '../../support/postgres-database.ts';
import { seeded } from '../../support/random.ts';
import { storeClock, tokenStoreContract } from './store.contract.ts';

tokenStoreContract('SqlTokenStore on PostgreSQL passes the contract tests for token stores', async (t) => {
  const database = await postgresDatabase(t);
  if (database === undefined) return undefined;
  await new Migrator(database, {
    contributed: [
      { plugin: 'oauth', id: 'oauth_logins', sql: OAUTH_TABLES },
      { plugin: 'oauth', id: 'oauth_provider_sessions', sql: PROVIDER_SESSIONS },
    ],
  }).up();
  return {
    store: new SqlTokenStore(() => database, storeClock()),
    live: new SqlTokenStore(() => database, systemClock),
  };
});

test('six processes that share one PostgreSQL database behave like one process in each refresh, replay and revocation, even after a crash', async (t) => {
  if (!needsPostgres(t)) return;
  const fleet = await Fleet.start(t, 6, await postgresUrl(t));
  for (const count of [2, 5, 20, 100]) await coalesced(fleet, count, 1);
  await strict(fleet, 20, 2);
  await revoked(fleet, 4, seeded(1));
  await begunBefore(fleet, 3, seeded(3));
  await takenOnce(fleet, 3);
  await replayed(fleet, 4);
  await killed(fleet, 2, seeded(2));
});

test('OAuth over HTTP with PostgreSQL: each refresh gets one new token, even after a crash of the server', async (t) => {
  if (!needsPostgres(t)) return;
  const sites = await Sites.start(t, 1, 'unlimited', await postgresUrl(t));
  await overHttp(sites, 20, 1);
  await killedOverHttp(sites, 1);
});
