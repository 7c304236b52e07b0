/**
 * MariaDB, or the MySQL that MYSQL_URL names, under transactions that interleave, connections that are cut, a
 * server that is killed and restarted, and callers who give up, for SOAK_SECONDS (default 60); each kind once
 * at least, and in full when there is time:
 *
 *   10,000 interleaved transactions, 200 × KILL CONNECTION, 10 × kill -9 of the server, 5 restarts, 5,000 cancellations (KILL QUERY)
 *
 * A server of MYSQL_URL or MARIADB_URL is not stopped. The test writes to its database, and its user must be
 * allowed to end its own connections.
 *
 *   SOAK_SECONDS=600 node --conditions=svc-source test/soak/mysql.ts
 */
import { MYSQL_KINDS } from '../support/mysql-chaos.ts';
import { MariaDbServer, mariadbProblem } from '../support/mariadb-server.ts';
import { soakServer } from '../support/server-soak.ts';
import { scoped, SECONDS } from '../support/soak.ts';

const { MYSQL_URL, MARIADB_URL } = process.env;
const ENDING = 'KILL CONNECTION';

if (MYSQL_URL !== undefined) await soakServer(MYSQL_URL, MYSQL_KINDS.mysql, ENDING, undefined, SECONDS);
else if (MARIADB_URL !== undefined)
  await soakServer(MARIADB_URL, MYSQL_KINDS.mariadb, ENDING, undefined, SECONDS);
else {
  const problem = mariadbProblem();
  if (problem !== undefined) console.log(`SKIPPED: ${problem}`);
  else
    await scoped(async (scope) => {
      const flags = ['--innodb-flush-log-at-trx-commit=2']; // committed transactions must survive a kill
      const server = await MariaDbServer.start(scope, flags);
      await soakServer(server.url, MYSQL_KINDS.mariadb, ENDING, server, SECONDS);
    });
}
