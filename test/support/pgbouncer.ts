/**
 * PgBouncer in transaction mode in front of a private PostgreSQL server: each transaction may run in another
 * session, and there are fewer sessions than connections.
 *
 * PGBOUNCER_URL names a running PgBouncer, with a database that tests may empty: its name contains
 * `svc_test`. Otherwise the program is started if it is installed (`apt-get install pgbouncer`), and ends
 * with the process.
 */
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { OwnServer, account, freePort, programOf } from './own-server.ts';
import { PostgresServer, postgresProblem } from './postgres-server.ts';
import { inReverse } from './run.ts';

const DATABASE = 'svc_test';
/** Number of server sessions, less than the connections of a pool. */
const SESSIONS = 2;

/** Returns why there is no PgBouncer, or undefined if there is one. */
export function pgbouncerProblem(): string | undefined {
  const named = process.env['PGBOUNCER_URL'];
  if (named !== undefined)
    return new URL(named).pathname.includes(DATABASE)
      ? undefined
      : `PGBOUNCER_URL names a database that must not be emptied: its name lacks "${DATABASE}"`;
  if (programOf('pgbouncer') === undefined)
    return 'there is no PgBouncer: apt-get install pgbouncer, or name one by PGBOUNCER_URL';
  return postgresProblem();
}

/** The tests of this process. */
const PROCESS = inReverse({ after });
let started: Promise<string> | undefined;

/** Returns the address of the pooler that the tests of this process share. */
export function sharedPgbouncer(): Promise<string> {
  const named = process.env['PGBOUNCER_URL'];
  return (started ??= named === undefined ? start() : Promise.resolve(named));
}

async function start(): Promise<string> {
  const server = await PostgresServer.start(PROCESS);
  const [as, port] = [account('PgBouncer', 'postgres'), await freePort()];
  const { username, password } = new URL(server.url);
  const file = (name: string, lines: readonly string[]): string => {
    const path = join(server.folder, name);
    writeFileSync(path, `${lines.join('\n')}\n`, { mode: 0o600 });
    if (as.uid !== undefined) chownSync(path, as.uid, as.gid!);
    return path;
  };
  chmodSync(server.folder, 0o700);
  const users = file('users.txt', [`"${username}" "${decodeURIComponent(password)}"`]);
  const settings = file('pgbouncer.ini', [
    '[databases]',
    `${DATABASE} = host=${server.folder} port=${server.port} dbname=postgres user=${username}`,
    '[pgbouncer]',
    'listen_addr = 127.0.0.1',
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = scram-sha-256',
    `auth_file = ${users}`,
    'pool_mode = transaction',
    `default_pool_size = ${SESSIONS}`,
    'max_client_conn = 200',
    'logfile =',
    `pidfile = ${join(server.folder, 'pgbouncer.pid')}`,
  ]);
  const pooler = new OwnServer(server.folder, port, {
    name: 'PgBouncer',
    command: [programOf('pgbouncer')!, settings],
    as,
    endsBy: 'KILL',
  });
  PROCESS.after(() => pooler.kill());
  await pooler.start();
  return `postgres://${username}:${password}@127.0.0.1:${port}/${DATABASE}`;
}
