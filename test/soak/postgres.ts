/**
 * PostgreSQL under transactions that interleave, connections that are cut, a server that is killed and
 * restarted, and callers who give up, for SOAK_SECONDS (default 60); each kind once at least, and in full
 * when there is time:
 *
 *   10,000 interleaved transactions, 200 × pg_terminate_backend, 10 × kill -9 of the server, 5 restarts, 5,000 cancellations
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/postgres.ts
 */
import { POSTGRES } from '../support/postgres-chaos.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { soakServer } from '../support/server-soak.ts';
import { scoped, SECONDS } from '../support/soak.ts';

const problem = postgresProblem();
const isOurs = process.env['POSTGRES_URL'] === undefined; // a server of POSTGRES_URL is not killed
if (problem !== undefined || !isOurs) {
  console.log(`SKIPPED: ${problem ?? 'POSTGRES_URL names a server that is not ours to kill'}`);
} else {
  await scoped(async (scope) => {
    // committed transactions must survive a kill
    const server = await PostgresServer.start(scope, ['synchronous_commit = on']);
    await soakServer(server.url, POSTGRES, 'pg_terminate_backend', server, SECONDS);
  });
}
