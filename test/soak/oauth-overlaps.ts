/**
 * Soak of overlapping refreshes: clients send one refresh token several times at once, to one, two and three
 * processes, on SQLite, PostgreSQL and MariaDB. Takes about SOAK_SECONDS (default 60).
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/oauth-overlaps.ts
 *
 * Asserts for each round that there are never two successors, and that a sequential replay ends the login.
 * Prints how many logins of honest clients were lost: a request that is read after the response to another one
 * counts as a replay. Two hosts whose clocks differ by 200 ms give the same results as hosts with equal clocks.
 */
import assert from 'node:assert/strict';
import { Sites, overlapping, skewed } from '../support/oauth-races.ts';
import { MariaDbServer, mariadbProblem } from '../support/mariadb-server.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { scoped, SECONDS } from '../support/soak.ts';
import type { Scope } from '../support/run.ts';

/** Share of the rounds of a soak of 600 seconds. */
const SHARE = Math.min(1, SECONDS / 600);
/** `connections`: whether the connections of the clients are already open. Node.js accepts one in each turn. */
const RACES = ([50, 5] as const).flatMap((count) =>
  [3, 2, 1].flatMap((processes) =>
    (['open', 'new'] as const).map((connections) => ({ count, processes, connections })),
  ),
);
const ROUNDS = { 50: 40, 5: 80 };
const { MARIADB_URL, POSTGRES_URL } = process.env;
const only = process.argv[2];
const ENGINES: Readonly<Record<string, (scope: Scope) => Promise<string | undefined>>> = {
  SQLite: async () => undefined,
  PostgreSQL: async (scope) => POSTGRES_URL ?? (await PostgresServer.start(scope)).url,
  MariaDB: async (scope) => MARIADB_URL ?? (await MariaDbServer.start(scope)).url,
};
const PROBLEMS: Readonly<Record<string, () => string | undefined>> = {
  PostgreSQL: postgresProblem,
  MariaDB: mariadbProblem,
};

for (const [engine, start] of Object.entries(ENGINES)) {
  if (only !== undefined && only !== engine) continue;
  const problem = PROBLEMS[engine]?.();
  if (problem !== undefined) {
    console.log(`SKIPPED: ${problem}`);
    continue;
  }
  await scoped(async (scope) => {
    const url = await start(scope);
    for (const { count, processes, connections } of RACES)
      await scoped(async (inner) => {
        const sites = await Sites.start(inner, processes, 'no limits', url);
        await overlapping(sites, 1, count, connections); // the first requests of a process are slow
        const rounds = Math.ceil(ROUNDS[count] * SHARE);
        const { lost, caught } = await overlapping(sites, rounds, count, connections);
        assert.equal(lost + caught, rounds);
        console.log(
          `${engine}: ${count} at once, ${processes} processes, ${connections} connections: ${lost} of ${rounds} logins lost, ${caught} replays caught`,
        );
      });
    for (const clockSkewMs of [0, 200])
      await scoped(async (inner) => {
        const sites = await Sites.start(inner, 2, 'no limits', url, { offsetsMs: [0, -200], clockSkewMs });
        const { rounds, refused, accepted } = await skewed(sites, Math.ceil(30 * SHARE));
        console.log(
          `${engine}: clocks differ by 200 ms, clockSkewMs ${clockSkewMs}: ${refused} of ${rounds} pairs refused, ${accepted} replays accepted`,
        );
        assert.equal(accepted, 0);
      });
  });
}
console.log('ok');
process.exit(0);
