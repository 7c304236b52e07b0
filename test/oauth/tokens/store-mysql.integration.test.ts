/**
 * The token store on MariaDB and MySQL: its contract, and races of six processes. test/soak/oauth-races.ts runs longer.
 */
import { test } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { Migrator } from '../../../src/db/index.ts';
import { OAUTH_TABLES, PROVIDER_SESSIONS, SqlTokenStore } from '../../../src/oauth/tokens/sql-store.ts';
import { mysqlDatabase, mysqlUrl, needsEngine } from '../../support/mysql-database.ts';
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
import { seeded } from '../../support/random.ts';
import { storeClock, tokenStoreContract } from './store.contract.ts';

for (const [name, engine] of [
  ['MariaDB', 'mariadb'],
  ['MySQL', 'mysql'],
] as const) {
  tokenStoreContract(`SqlTokenStore on ${name}`, async (t) => {
    const database = await mysqlDatabase(t, engine);
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

  test(`six processes that share one ${name} database behave like one process in each refresh, replay and revocation, even after a crash`, async (t) => {
    if (!needsEngine(t, engine)) return;
    const fleet = await Fleet.start(t, 6, await mysqlUrl(t, engine));
    for (const count of [2, 5, 20, 100]) await coalesced(fleet, count, 1);
    await strict(fleet, 20, 2);
    await revoked(fleet, 4, seeded(1));
    await begunBefore(fleet, 3, seeded(3));
    await takenOnce(fleet, 3);
    await replayed(fleet, 4);
    await killed(fleet, 2, seeded(2));
  });

  test(`OAuth over HTTP with ${name}: each refresh gets one new token, even after a crash of the server`, async (t) => {
    if (!needsEngine(t, engine)) return;
    const sites = await Sites.start(t, 1, 'unlimited', await mysqlUrl(t, engine));
    await overHttp(sites, 20, 1);
    await killedOverHttp(sites, 1);
  });
}
