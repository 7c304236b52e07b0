/**
 * PgBouncer in transaction mode in front of a private PostgreSQL server: each transaction may run in another
 * session, and there are fewer sessions than connections.
 *
 * PGBOUNCER_URL names a running PgBouncer, with a database that tests may empty: its name contains
 * `svc_test`. Otherwise the program is started if it is installed (`apt-get install pgbouncer`), and ends
 * with the process.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, chmodSync, chownSync, constants, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { account, freePort, isListening } from './own-server.ts';
import { PostgresServer, postgresProblem } from './postgres-server.ts';

const PROGRAMS = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer'];
const DATABASE = 'svc_test';
const START_MS = 10_000;
const SHELL = '"$@" & server=$!; cat > /dev/null; kill -KILL "$server" 2> /dev/null; wait "$server"';
/** Number of server sessions, less than the connections of a pool. */
const SESSIONS = 2;

function program(): string | undefined {
  return PROGRAMS.find((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

/** Returns why there is no PgBouncer, or undefined if there is one. */
export function pgbouncerProblem(): string | undefined {
  const named = process.env['PGBOUNCER_URL'];
  if (named !== undefined)
    return new URL(named).pathname.includes(DATABASE)
      ? undefined
      : `PGBOUNCER_URL names a database that must not be emptied: its name lacks "${DATABASE}"`;
  if (program() === undefined)
    return 'there is no PgBouncer: apt-get install pgbouncer, or name one by PGBOUNCER_URL';
  return postgresProblem();
}

let started: Promise<string> | undefined;
const ends: (() => void | Promise<void>)[] = [];
after(async () => {
  for (const end of ends.reverse()) await end();
});

/** Returns the address of the pooler that the tests of this process share. */
export function sharedPgbouncer(): Promise<string> {
  const named = process.env['PGBOUNCER_URL'];
  return (started ??= named === undefined ? start() : Promise.resolve(named));
}

async function start(): Promise<string> {
  const server = await PostgresServer.start({ after: (end) => void ends.push(end) });
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
  const child = spawn('/bin/sh', ['-c', SHELL, 'sh', program()!, settings], {
    ...as,
    cwd: server.folder,
    stdio: ['pipe', 'ignore', 'pipe'],
    env: { PATH: process.env['PATH'] ?? '' },
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-4_000);
  });
  ends.push(async () => {
    if (child.exitCode !== null) return;
    const ended = once(child, 'exit');
    child.stdin.end();
    await ended;
  });
  const endMs = systemClock.monotonicMs() + START_MS;
  while (!(await isListening(port))) {
    assert.ok(
      systemClock.monotonicMs() < endMs && child.exitCode === null,
      `PgBouncer does not start:\n${said}`,
    );
    await systemClock.sleep(10);
  }
  return `postgres://${username}:${password}@127.0.0.1:${port}/${DATABASE}`;
}
