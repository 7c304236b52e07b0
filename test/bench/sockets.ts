/**
 * CPU of the server process per request over sockets, kernel included. wrk sends the requests from another
 * core, and the servers answer in turn, a second each.
 *
 *   JSON, one parameter    the applications of http.ts
 *   file                   beside sirv
 *   realistic              a browser's 13 fields and a session cookie: `GET /api/notes/7` passes security headers, CORS, a rate
 *                          limit, compression, a session and CSRF protection, reads one row of PostgreSQL and sends it through a
 *                          schema; each framework with its usual middleware and plugins. Then with session and limit in Redis.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { openDatabase } from '../../src/db/index.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { RedisServer, redisProblem } from '../support/redis-server.ts';
import { argumentList } from './harness.ts';
import { bench as http, peersIn } from './http.ts';
import type { ChildProcess } from 'node:child_process';
import type { Bench, Row, Worker } from './harness.ts';
import type { Scope } from '../support/run.ts';

const CONNECTIONS = 32;
const NOTES = 1_000;
const TICKS_PER_SECOND = 100; // unit of user and system time in /proc/PID/stat
const PEERS = {
  ...http.packages,
  '@fastify/compress': '^9',
  '@fastify/cookie': '^11',
  '@fastify/cors': '^11',
  '@fastify/csrf-protection': '^7',
  '@fastify/helmet': '^13',
  '@fastify/rate-limit': '^11',
  '@fastify/session': '^11',
  '@hono/session': '^0.2',
  'connect-redis': '^10',
  'hono-rate-limiter': '^0.5',
  ioredis: '^6',
  pg: '^8',
  redis: '^6',
  sirv: '^3',
};
const FIELDS: readonly string[] = [
  'User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/156.0 Safari/537.36',
  'Accept: application/json, text/plain, */*',
  'Accept-Language: en-GB,en;q=0.9,de;q=0.8',
  'Accept-Encoding: identity',
  'Sec-Fetch-Site: same-origin',
  'Sec-Fetch-Mode: cors',
  'Sec-Fetch-Dest: empty',
  'Referer: http://127.0.0.1/app',
  'DNT: 1',
  'Cache-Control: no-cache',
  'Pragma: no-cache',
  'Origin: https://app.example',
];
const cleanUps: (() => unknown)[] = [];
const scope: Scope = { after: (fn) => void cleanUps.unshift(fn) };

/** Files that sirv and svc serve. */
const FILES = { 'short.txt': 1_024, 'long.txt': 1_048_576 };

async function rows(peers: string | undefined): Promise<readonly Row[]> {
  if (spawnSync('wrk', ['--version']).error !== undefined) return skipped('there is no wrk on PATH');
  if (peers === undefined) return [];
  const problem = postgresProblem() ?? redisProblem();
  const ofBrowser = problem === undefined ? await realistic(peers) : skipped(problem);
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  scope.after(() => rmSync(folder, { recursive: true }));
  for (const [name, bytes] of Object.entries(FILES)) writeFileSync(join(folder, name), 'x'.repeat(bytes));
  const given = { peers: peersIn(peers) };
  const json = { base: 'bare', others: ['fastify', 'hono', 'koa'], bound: 0.95 };
  const file = { base: 'sirv' };
  return [
    plain('JSON over sockets', '/json', given, json),
    plain('one parameter among 200 routes over sockets', '/api/v1/r100/12345', given, json),
    plain('file of 1 KiB', '/short.txt', { ...given, folder }, { ...file, bound: 0.3 }),
    plain('file of 1 MiB', '/long.txt', { ...given, folder }, { ...file, bound: 0.91 }),
    plain('file that the client has', '/short.txt', { ...given, folder }, { ...file, bound: 1.11 }, true),
    ...ofBrowser,
  ];
}

function skipped(problem: string): readonly Row[] {
  console.error(`SKIPPED: ${problem}`);
  return [];
}

const SLICES = { unit: 'µs', slices: 8 } as const;

function plain(
  name: string,
  path: string,
  given: Readonly<Record<string, string>>,
  compared: Pick<Row, 'base' | 'others' | 'bound'>,
  isKnown = false,
): Row {
  const start: Row['start'] = async (side, root) => {
    const program = [join(root, 'test/bench/http.ts'), ...argumentList({ ...given, side, listen: 1 })];
    const server = await listening(program, process.env);
    const url = `${server.url}${path}`;
    const etag = isKnown ? (await fetch(url)).headers.get('etag') : undefined;
    return loading(server, url, etag ? [`If-None-Match: ${etag}`] : []);
  };
  return { name, ...SLICES, ...compared, start };
}

/** Returns the rows of the realistic request, and starts the servers that it needs. */
async function realistic(peers: string): Promise<readonly Row[]> {
  const postgres = await PostgresServer.start(scope);
  const redis = await RedisServer.start(scope);
  await using db = await openDatabase(postgres.url);
  await db.execute(
    'create table bench_note (id int primary key, title text not null, body text not null, author text not null)',
  );
  await db.execute(
    `insert into bench_note select g, 'Note ' || g, repeat('lorem ipsum ', 20), 'Ada Lovelace' from generate_series(1, ${NOTES}) g`,
  );
  for (const side of ['fastify', 'hono'])
    copyFileSync(join(import.meta.dirname, 'realistic', `${side}.mjs`), join(peers, `${side}.mjs`));
  const env = { ...process.env, POSTGRES_URL: postgres.url, BENCH_SECRET: randomBytes(32).toString('hex') };
  const row = (name: string, settings: NodeJS.ProcessEnv): Row => ({
    name,
    ...SLICES,
    ...{ base: 'fastify', others: ['hono'], bound: 0.55 },
    start: (side, root) =>
      loggedIn(side === 'svc' ? join(root, 'test/bench/realistic/svc.mjs') : join(peers, `${side}.mjs`), { ...env, ...settings }), // prettier-ignore
  });
  return [
    row('realistic request, in memory', {}),
    row('realistic request, session and limit in Redis', { REDIS_URL: redis.url }),
  ];
}

export const bench: Bench = {
  packages: PEERS,
  rows,
  async close() {
    for (const cleanUp of cleanUps.splice(0)) await cleanUp();
  },
};

/** A server in its own process. */
interface Listening {
  readonly child: ChildProcess;
  readonly url: string;
  stop(): Promise<unknown>;
}

/** Starts a program that prints its port when it is ready. */
async function listening(program: readonly string[], env: NodeJS.ProcessEnv): Promise<Listening> {
  const child = spawn(...pinned(0, process.execPath, program), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit');
  const stop = (): Promise<unknown> => {
    child.kill('SIGKILL');
    return exited;
  };
  return { child, url: `http://127.0.0.1:${await portOf(child)}`, stop };
}

/** Starts a server, logs in, and checks its answer. */
async function loggedIn(file: string, env: NodeJS.ProcessEnv): Promise<Worker> {
  const server = await listening([file], env);
  const url = `${server.url}/api/notes/7`;
  const [cookie = ''] = (await fetch(`${server.url}/login`)).headers.getSetCookie();
  const pair = cookie.split(';')[0]!;
  const answer = await fetch(url, { headers: { cookie: pair } });
  const note = (await answer.json()) as { title?: unknown };
  if (note.title === 'Note 7') return loading(server, url, [...FIELDS, `Cookie: ${pair}`]);
  await server.stop();
  throw new Error(`${file} answered ${answer.status}`);
}

/** Warms a server up. A slice loads it for a second, and returns its CPU time per request in microseconds. */
function loading({ child, stop }: Listening, url: string, fields: readonly string[]): Worker {
  load(url, fields, 3);
  const slice = (): number => {
    const before = ticksOf(child);
    const requests = load(url, fields, 1);
    return ((ticksOf(child) - before) / TICKS_PER_SECOND / requests) * 1e6;
  };
  return { slice, stop };
}

/** Resolves to the port that a server prints when it is ready. */
async function portOf(child: ChildProcess): Promise<string> {
  let output = '';
  let errors = '';
  child.stderr!.on('data', (chunk) => (errors += chunk));
  for await (const chunk of child.stdout!) {
    output += String(chunk);
    const port = /READY (\d+)/.exec(output)?.[1];
    if (port !== undefined) {
      child.stdout!.resume();
      return port;
    }
  }
  throw new Error(`the server ended: ${errors}`);
}

/** Returns a command that runs on one core, so that the server and its load do not share a core. */
function pinned(core: number, program: string, args: readonly string[]): [string, readonly string[]] {
  const canPin = availableParallelism() > 1 && spawnSync('taskset', ['--version']).error === undefined;
  return canPin ? ['taskset', ['-c', String(core), program, ...args]] : [program, args];
}

/** Loads a server. Returns the number of responses. */
function load(url: string, fields: readonly string[], seconds: number): number {
  const options = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}`];
  const headers = fields.flatMap((field) => ['-H', field]);
  const [program, args] = pinned(1, 'wrk', [...options, ...headers, url]);
  const { stdout } = spawnSync(program, args, { encoding: 'utf8' });
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  if (!(requests > 0) || stdout.includes('Non-2xx')) throw new Error(`wrk: ${stdout}`);
  return requests;
}

function ticksOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[11]) + Number(fields[12]); // fields of user and system time
}
