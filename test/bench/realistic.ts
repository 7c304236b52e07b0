/**
 * A realistic request on svc, Fastify and Hono, each with its usual middleware and plugins.
 *
 *   npm run build && node test/bench/realistic.ts [--rounds=2] [--slices=8]
 *
 * A browser's 13 fields and a session cookie: `GET /api/notes/7` passes security headers, CORS, a rate limit,
 * compression, a session and CSRF protection, reads one row of PostgreSQL and sends it through a schema. Then
 * the same with session and limit in Redis. Figures are the CPU of the server process per request, its ratio
 * to Fastify, and the 99th percentile of latency. The servers answer in turn, a second each. Needs wrk, the
 * programs of PostgreSQL and Redis, and the registry for the peers; what is missing is named and skipped.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { randomBytes } from 'node:crypto';
import { openDatabase } from '../../src/db/index.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import { RedisServer, redisProblem } from '../support/redis-server.ts';
import { scoped } from '../support/soak.ts';
import { argumentsOf, inTurn, installed, median, printHead, printRow } from './harness.ts';
import type { Worker } from './harness.ts';
import type { ChildProcess } from 'node:child_process';

const { rounds = '2', slices = '8' } = argumentsOf('rounds', 'slices');
const CONNECTIONS = 32;
const NOTES = 1_000;
const TICKS_PER_SECOND = 100; // unit of user and system time in /proc/PID/stat
const HERE = join(import.meta.dirname, 'realistic');
const PEERS = {
  '@fastify/compress': '^9',
  '@fastify/cookie': '^11',
  '@fastify/cors': '^11',
  '@fastify/csrf-protection': '^7',
  '@fastify/helmet': '^13',
  '@fastify/rate-limit': '^11',
  '@fastify/session': '^11',
  '@hono/node-server': '^2',
  '@hono/session': '^0.2',
  '@hono/zod-validator': '^0.9',
  'connect-redis': '^10',
  fastify: '^5',
  hono: '^4',
  'hono-rate-limiter': '^0.5',
  ioredis: '^6',
  pg: '^8',
  redis: '^6',
  zod: '^4',
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
const SIDES = ['fastify', 'svc', 'hono'] as const;
type Side = (typeof SIDES)[number];

const hasWrk = spawnSync('wrk', ['--version']).error === undefined;
const problem = hasWrk ? (postgresProblem() ?? redisProblem()) : 'there is no wrk on PATH';
const folder = problem === undefined ? installed('realistic', PEERS) : console.log(`SKIPPED: ${problem}`);
if (typeof folder === 'string') await scoped((scope) => compare(scope, folder));

async function compare(scope: Parameters<typeof PostgresServer.start>[0], peers: string): Promise<void> {
  const postgres = await PostgresServer.start(scope);
  const redis = await RedisServer.start(scope);
  await using db = await openDatabase(postgres.url);
  await db.execute(
    'create table bench_note (id int primary key, title text not null, body text not null, author text not null)',
  );
  await db.execute(
    `insert into bench_note select g, 'Note ' || g, repeat('lorem ipsum ', 20), 'Ada Lovelace' from generate_series(1, ${NOTES}) g`,
  );
  for (const side of ['fastify', 'hono']) copyFileSync(join(HERE, `${side}.mjs`), join(peers, `${side}.mjs`));
  const env = { ...process.env, POSTGRES_URL: postgres.url, BENCH_SECRET: randomBytes(32).toString('hex') };
  for (const [title, settings] of [
    ['in memory and cookies', {}],
    ['in Redis', { REDIS_URL: redis.url }],
  ] as const) {
    const latencies: Record<Side, number[]> = { fastify: [], svc: [], hono: [] };
    const start = (side: Side): Promise<Worker> =>
      served(join(side === 'svc' ? HERE : peers, `${side}.mjs`), { ...env, ...settings }, latencies[side]);
    const costs = await inTurn(SIDES, Number(rounds), start, Number(slices));
    printHead(`Session and rate limit ${title}`, 'CPU µs a request', '× Fastify', 'p99 ms');
    for (const side of SIDES)
      printRow(
        side,
        costs[side].median.toFixed(1),
        costs[side].ratio.toFixed(2),
        median(latencies[side]).toFixed(1),
      );
  }
}

/** Starts a server, logs in, and warms up. A slice loads it for a second, and adds to `latencies`. */
async function served(file: string, env: NodeJS.ProcessEnv, latencies: number[]): Promise<Worker> {
  const child = spawn(...pinned(0, process.execPath, [file]), { env, stdio: ['ignore', 'pipe', 'pipe'] });
  const exited = once(child, 'exit');
  const stop = (): Promise<unknown> => {
    child.kill('SIGKILL');
    return exited;
  };
  try {
    const url = `http://127.0.0.1:${await portOf(child)}`;
    const [cookie = ''] = (await fetch(`${url}/login`)).headers.getSetCookie();
    const fields = [...FIELDS, `Cookie: ${cookie.split(';')[0]}`];
    const answer = await fetch(`${url}/api/notes/7`, { headers: { cookie: cookie.split(';')[0]! } });
    const note = (await answer.json()) as { title?: unknown };
    if (note.title !== 'Note 7') throw new Error(`${file} answered ${answer.status}`);
    load(url, fields, 3);
    return { slice: () => cpuOfLoad(child, url, fields, latencies), stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Loads a server for a second. Returns its CPU time per request in microseconds. */
function cpuOfLoad(child: ChildProcess, url: string, fields: readonly string[], latencies: number[]): number {
  const before = ticksOf(child);
  const { requests, latencyMs } = load(url, fields, 1);
  latencies.push(latencyMs);
  return ((ticksOf(child) - before) / TICKS_PER_SECOND / requests) * 1e6;
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

function load(
  url: string,
  fields: readonly string[],
  seconds: number,
): { readonly requests: number; readonly latencyMs: number } {
  const options = ['-t1', `-c${CONNECTIONS}`, `-d${seconds}`, '--latency'];
  const headers = fields.flatMap((field) => ['-H', field]);
  const [program, args] = pinned(1, 'wrk', [...options, ...headers, `${url}/api/notes/7`]);
  const { stdout } = spawnSync(program, args, { encoding: 'utf8' });
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1]);
  const [, amount, unit] = /99%\s+([\d.]+)(us|ms|s)/.exec(stdout) ?? [];
  if (!(requests > 0) || stdout.includes('Non-2xx')) throw new Error(`wrk: ${stdout}`);
  return { requests, latencyMs: Number(amount) * { us: 0.001, ms: 1, s: 1_000 }[unit as 'us' | 'ms' | 's'] };
}

function ticksOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return Number(fields[11]) + Number(fields[12]); // fields of user and system time
}
