/**
 * How cost grows with size, ours beside bare node:http: no row may have a knee.
 *
 *   routes        10 → 10,000     ms to build, MiB of heap, ms to the first answer, CPU ns of a request to the last route
 *   layers        0 → 50          CPU ns of a request, and what each asynchronous middleware adds
 *   connections   10 → 10,000     KiB of memory for each that is idle after one exchange
 *   workers       1 → 2           CPU µs of a request in all processes together, and requests a second
 *   rows          1 → 100,000     CPU ns of a row of nine columns that fetchAll(), stream() and executeMany() read and write
 *
 *   npm run build && node test/bench/growth.ts [--parts=routes,layers] [--rounds=3]
 *
 * Routes and layers go through in-memory streams, as in http.ts; every figure is the median of fresh processes. The number of
 * connections is bounded by the open files that the system allows. Rows are those of SQLite, and of PostgreSQL and MariaDB: the
 * servers that POSTGRES_URL and MARIADB_URL name, or of our own where their programs are. Those of fetchAll() cost twice as much when
 * 100,000 are held at once: a loop that only makes such objects goes from 180 to 770 ns, by the collector, and stream() stays level.
 *
 * Of layers there are two rows each: 64 requests that are all begun before the first is answered, as in http.ts, and one at a time, as
 * a server reads them from its sockets. What a layer leaves for its way back is some 750 bytes, and 64 requests through 50 layers
 * leave more than a processor's nearest memory holds: a layer is dearer at 50 than at 5 then, and cheaper one at a time. It is so of
 * every chain of promises: `bare, two promises` is one with as many of them as ours has, and nothing else.
 */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Svc, stateKey } from 'svc';
import { openDatabase } from 'svc/db';
import { inject, serverOf } from '../support/inject.ts';
import { MariaDbServer, mariadbProblem } from '../support/mariadb-server.ts';
import { PostgresServer, postgresProblem } from '../support/postgres-server.ts';
import type { ChildProcess } from 'node:child_process';
import type { Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { HttpRequest, Next } from 'svc';

const SELF = fileURLToPath(import.meta.url);
const { values } = parseArgs({
  options: {
    parts: { type: 'string' },
    rounds: { type: 'string', default: '3' },
    child: { type: 'string' },
    side: { type: 'string', default: 'svc' },
    size: { type: 'string', default: '0' },
    port: { type: 'string' },
    url: { type: 'string' },
    together: { type: 'string' },
  },
});
const size = Number(values.size);
const SIDES = ['bare', 'svc'] as const;
const SIZES = {
  routes: [10, 100, 1_000, 10_000],
  layers: [0, 5, 20, 50],
  connections: [10, 1_000, 10_000],
  workers: [1, 2],
  rows: [1, 10, 100, 1_000, 10_000, 100_000],
} as const;
type Part = keyof typeof SIZES;

// ── what is measured, each in a process of its own ──

interface Sample {
  readonly buildMs?: number;
  readonly heapMiB?: number;
  readonly firstMs?: number;
  readonly ns?: number;
  readonly readNs?: number;
  readonly streamNs?: number;
  readonly writeNs?: number;
}
const request = (path: string): Buffer => Buffer.from(`GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
const layer = stateKey<{ count: number }>('layers');

async function routes(): Promise<Sample> {
  const startedMs = performance.now();
  let server: Server;
  if (values.side === 'svc') {
    const app = new Svc();
    for (let index = 0; index < size; index++) app.get(`/api/v1/r${index}/{id}`, ({ params }) => params);
    server = await serverOf(() => app.run({ port: 0, handleSignals: false }));
  } else {
    const table = new Map(Array.from({ length: size }, (_, index) => [`r${index}`, 'id']));
    server = createServer((req, res) => {
      const parts = req.url!.split('/');
      const body = JSON.stringify({ [table.get(parts[3]!)!]: parts[4] });
      res
        .writeHead(200, ['Content-Type', 'application/json', 'Content-Length', String(body.length)])
        .end(body);
    });
  }
  const buildMs = performance.now() - startedMs;
  const heapMiB = process.memoryUsage().heapUsed / 1_048_576;
  const path = request(`/api/v1/r${size - 1}/12345`);
  const askedMs = performance.now();
  let firstMs = 0;
  server.once('request', (_, res: NodeJS.EventEmitter) =>
    res.once('finish', () => {
      firstMs = performance.now() - askedMs;
    }),
  );
  const ns = await inject(server, path, 200);
  return { buildMs, heapMiB, firstMs, ns };
}

async function layers(): Promise<Sample> {
  const together = Number(values.together);
  if (values.side === 'svc') {
    const app = new Svc();
    const use = Array.from({ length: size }, (_, index) => async ({ state }: HttpRequest, next: Next) => {
      if (index === 0) state.set(layer, { count: 0 });
      state.get(layer).count++;
      return await next();
    });
    app.get('/', { use }, ({ req }) => ({ n: size === 0 ? 0 : req.state.get(layer).count }));
    return {
      ns: await inject(await serverOf(() => app.run({ port: 0, handleSignals: false })), request('/'), 200, {
        together,
      }),
    };
  }
  const own = Array.from(
    { length: size },
    () =>
      async (context: { n: number }, next: () => Promise<void>): Promise<void> => {
        context.n++;
        await next();
      },
  );
  const once = (context: { n: number }, at: number, last: () => Promise<void>): Promise<void> =>
    at === own.length ? last() : own[at]!(context, () => run(context, at + 1, last));
  const twice: typeof once = (context, at, last) =>
    once(context, at, last).then(
      () => void context,
      () => void context,
    );
  const run = values.side === 'twice' ? twice : once;
  const server = createServer((_, res) => {
    const context = { n: 0 };
    void run(context, 0, async () => {
      const body = JSON.stringify(context);
      res
        .writeHead(200, ['Content-Type', 'application/json', 'Content-Length', String(body.length)])
        .end(body);
    });
  });
  return { ns: await inject(server, request('/'), 200, { together }) };
}

const TABLE =
  'create table growth_row (id int primary key, name varchar(80), email varchar(80), age int, score double precision, active int, big bigint, price decimal(10, 2), created timestamp)';
const INSERT = 'insert into growth_row values (?, ?, ?, ?, ?, ?, ?, ?, ?)';
/** Rows that each figure is taken from, and statements at most. */
const ROWS = 400_000;
const MOST_READS = 10_000;
const MOST_WRITES = 400;

/** As many rows as `size`, in one statement each time. */
async function rows(): Promise<Sample> {
  await using db = await openDatabase(values.url!, { pool: { max: 1 } });
  await db.script(`drop table if exists growth_row; ${TABLE}`);
  const all = Array.from(
    { length: size },
    (_, id) =>
      [
        id,
        `name ${id}`,
        `user${id}@example.test`,
        id % 90,
        id * 1.25,
        id % 2,
        9_007_199_254_000 + id,
        '10.10',
        new Date(1_704_067_200_000 + id * 1_000),
      ] as const,
  );
  const cpuOf = async (
    times: number,
    work: () => Promise<unknown>,
    between?: () => Promise<unknown>,
  ): Promise<number> => {
    let micros = 0;
    for (let time = -Math.ceil(times / 4); time < times; time++) {
      // the first quarter warms it up
      await between?.();
      const before = process.cpuUsage();
      await work();
      const { user, system } = process.cpuUsage(before);
      if (time >= 0) micros += user + system;
    }
    return (micros * 1_000) / times / size;
  };
  const writeNs = await cpuOf(
    Math.min(MOST_WRITES, Math.ceil(ROWS / size)),
    () => db.executeMany(INSERT, all),
    () => db.execute('delete from growth_row'),
  );
  let last = -1;
  const reads = Math.min(MOST_READS, Math.ceil(ROWS / size));
  const readNs = await cpuOf(reads, () => db.fetchAll('select * from growth_row'));
  const streamNs = await cpuOf(reads, async () => {
    for await (const row of db.stream<{ id: number }>('select * from growth_row')) last = row.id;
  });
  if (last !== size - 1) throw new Error(`the last row is ${last}`);
  await db.script('drop table growth_row');
  return { readNs, streamNs, writeNs };
}

/** A server over sockets: tells its port, then answers each line with what it takes. */
async function listen(): Promise<void> {
  let port: number;
  if (values.side === 'svc') {
    const app = new Svc();
    app.get('/', () => ({ ok: true }));
    port = (
      await app.run({
        port: Number(values.port ?? 0),
        handleSignals: false,
        ...(size > 1 ? { workers: size } : {}),
      })
    ).port;
  } else {
    const server = createServer((_, res) => {
      res.writeHead(200, ['Content-Type', 'application/json', 'Content-Length', '11']).end('{"ok":true}');
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  }
  console.log(`PORT ${port}`);
}

/** Opens connections, one exchange on each, and keeps them; or keeps each of a few busy for two seconds. */
async function clients(isBusy: boolean): Promise<void> {
  const line = request('/');
  let answers = 0;
  const open = async (): Promise<Socket> => {
    const socket = connect(Number(values.port), '127.0.0.1');
    socket.write(line);
    await once(socket, 'data');
    return socket;
  };
  const sockets: Socket[] = [];
  while (sockets.length < size)
    sockets.push(...(await Promise.all(Array.from({ length: Math.min(100, size - sockets.length) }, open))));
  if (isBusy) {
    for (const socket of sockets) {
      socket
        .on('data', () => {
          answers++;
          socket.write(line);
        })
        .write(line);
    }
    await new Promise((resolve) => setTimeout(resolve, 500));
    answers = 0;
    console.log('BUSY');
    await new Promise((resolve) => setTimeout(resolve, 2_000));
  }
  console.log(`DONE ${answers}`);
  setTimeout(() => undefined, 60_000);
}

// ── the parent ──

function sampled(part: Part, side: string, count: number, more: readonly string[]): Sample {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [SELF, `--child=${part}`, `--side=${side}`, `--size=${count}`, ...more],
    { encoding: 'utf8' },
  );
  const result = /RESULT (.*)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${part}, ${side}, ${count}: ${stderr}`);
  return JSON.parse(result) as Sample;
}

const started = new Set<ChildProcess>();
function start(args: readonly string[]): { readonly pid: number; line(pattern: RegExp): Promise<string> } {
  const child = spawn(process.execPath, [SELF, ...args], { stdio: ['ignore', 'pipe', 'ignore'] });
  started.add(child);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    pid: child.pid!,
    async line(pattern) {
      for (;;) {
        const { value, done } = await lines.next();
        if (done === true) throw new Error(`${args.join(' ')} has ended`);
        const found = pattern.exec(value as string);
        if (found !== null) return found[1] ?? '';
      }
    },
  };
}
function endAll(): void {
  for (const child of started) child.kill('SIGKILL');
  started.clear();
}

const rssKiB = (pid: number): number =>
  Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))![1]);
/** Of a process and its children, in seconds. */
function cpuSeconds(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /, '')
    .split(' ');
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8')
    .split(' ')
    .filter((child) => child.trim() !== '');
  return (
    (Number(fields[11]) + Number(fields[12])) / 100 +
    children.reduce((sum, child) => sum + cpuSeconds(Number(child)), 0)
  );
}

async function connectionsOf(side: string, count: number): Promise<number> {
  const server = start(['--child=listen', `--side=${side}`]);
  const port = await server.line(/PORT (\d+)/);
  await start(['--child=idle', '--size=50', `--port=${port}`]).line(/DONE/); // what the first ones cost is not theirs
  const before = rssKiB(server.pid);
  await start(['--child=idle', `--size=${count}`, `--port=${port}`]).line(/DONE/);
  await new Promise((resolve) => setTimeout(resolve, 1_000));
  const each = (rssKiB(server.pid) - before) / count;
  endAll();
  return each;
}

async function workersOf(count: number): Promise<{ readonly us: number; readonly rate: number }> {
  const server = start(['--child=listen', '--side=svc', `--size=${count}`, '--port=18431']);
  const port = count === 1 ? await server.line(/PORT (\d+)/) : '18431';
  if (count > 1) await new Promise((resolve) => setTimeout(resolve, 3_000)); // the parent of workers does not come back from run()
  const busy = start(['--child=busy', '--size=32', `--port=${port}`]);
  await busy.line(/BUSY/);
  const before = cpuSeconds(server.pid);
  const answers = Number(await busy.line(/DONE (\d+)/));
  const us = ((cpuSeconds(server.pid) - before) * 1e6) / answers;
  endAll();
  return { us, rate: answers / 2 };
}

const middle = (samples: readonly number[]): number =>
  samples.toSorted((left, right) => left - right)[samples.length >> 1]!;
const ROUNDS = Number(values.rounds);
function medians(part: Part, side: string, count: number, more: readonly string[] = []): Required<Sample> {
  const samples = Array.from({ length: ROUNDS }, () => sampled(part, side, count, more));
  const of = (what: keyof Sample): number => middle(samples.map((sample) => sample[what] ?? NaN));
  return {
    buildMs: of('buildMs'),
    heapMiB: of('heapMiB'),
    firstMs: of('firstMs'),
    ns: of('ns'),
    readNs: of('readNs'),
    streamNs: of('streamNs'),
    writeNs: of('writeNs'),
  };
}

/** The databases that are there, for as long as `work` takes. */
async function withDatabases(work: (name: string, url: string) => void): Promise<void> {
  const ends: (() => void | Promise<void>)[] = [];
  const scope = { after: (end: () => void | Promise<void>) => void ends.push(end) };
  const folder = mkdtempSync(join(tmpdir(), 'svc-growth-'));
  try {
    work('SQLite', `sqlite:${join(folder, 'data.db')}`);
    const named = { PostgreSQL: process.env['POSTGRES_URL'], MariaDB: process.env['MARIADB_URL'] };
    if (postgresProblem() === undefined)
      work('PostgreSQL', named.PostgreSQL ?? (await PostgresServer.start(scope)).url);
    if (mariadbProblem() === undefined)
      work('MariaDB', named.MariaDB ?? (await MariaDbServer.start(scope)).url);
  } finally {
    for (const end of ends.reverse()) await end();
    rmSync(folder, { recursive: true, force: true });
  }
}

function heading(title: string, sizes: readonly number[]): void {
  console.log(
    `\n### ${title}, ${process.version}\n\n| | ${sizes.map((count) => count.toLocaleString('en')).join(' | ')} |\n|---|${sizes.map(() => '---:').join('|')}|`,
  );
}

const CHAINS = (
  [
    ['bare', 'bare'],
    ['bare, two promises', 'twice'],
    ['svc', 'svc'],
  ] as const
).flatMap(
  ([name, side]) =>
    [
      [name, side, 64],
      [`${name}, one at a time`, side, 1],
    ] as const,
);

const PARTS: Readonly<Record<Part, () => void | Promise<void>>> = {
  routes() {
    heading(
      'Routes: ms to build, MiB of heap, ms to the first answer, CPU ns of a request to the last',
      SIZES.routes,
    );
    for (const side of SIDES)
      console.log(
        `| ${side} | ${SIZES.routes
          .map((count) => medians('routes', side, count))
          .map(
            ({ buildMs, heapMiB, firstMs, ns }) =>
              `${buildMs.toFixed(0)} ms, ${heapMiB.toFixed(1)} MiB, ${firstMs.toFixed(1)} ms, ${ns.toFixed(0)} ns`,
          )
          .join(' | ')} |`,
      );
  },
  layers() {
    heading('Asynchronous middleware: CPU ns of a request', SIZES.layers);
    for (const [name, side, together] of CHAINS) {
      let least = 0;
      console.log(
        `| ${name} | ${SIZES.layers
          .map((count) => {
            const { ns } = medians('layers', side, count, [`--together=${together}`]);
            if (count === 0) least = ns;
            return count === 0
              ? ns.toFixed(0)
              : `${ns.toFixed(0)} (+${((ns - least) / count).toFixed(0)} each)`;
          })
          .join(' | ')} |`,
      );
    }
  },
  async connections() {
    heading('Idle connections: KiB each', SIZES.connections);
    for (const side of SIDES) {
      const cells: string[] = [];
      for (const count of SIZES.connections) cells.push((await connectionsOf(side, count)).toFixed(1));
      console.log(`| ${side} | ${cells.join(' | ')} |`);
    }
  },
  async workers() {
    heading(
      'Worker processes, load from the same machine: CPU µs of a request, requests a second',
      SIZES.workers,
    );
    const cells: string[] = [];
    for (const count of SIZES.workers) {
      const { us, rate } = await workersOf(count);
      cells.push(`${us.toFixed(1)} µs, ${rate.toFixed(0)}`);
    }
    console.log(`| svc | ${cells.join(' | ')} |`);
  },
  async rows() {
    heading('Rows of one statement: CPU ns of each that is read, streamed, written', SIZES.rows);
    await withDatabases((name, url) => {
      const cells = SIZES.rows
        .map((count) => medians('rows', name, count, [`--url=${url}`]))
        .map(
          ({ readNs, streamNs, writeNs }) =>
            `${readNs.toFixed(0)}, ${streamNs.toFixed(0)}, ${writeNs.toFixed(0)}`,
        );
      console.log(`| ${name} | ${cells.join(' | ')} |`);
    });
  },
};

switch (values.child) {
  case undefined:
    try {
      for (const part of (values.parts?.split(',') ?? Object.keys(PARTS)) as Part[]) await PARTS[part]();
    } finally {
      endAll();
    }
    break;
  case 'listen':
    await listen();
    break;
  case 'idle':
  case 'busy':
    await clients(values.child === 'busy');
    break;
  default:
    console.log(
      `RESULT ${JSON.stringify(await (values.child === 'routes' ? routes() : values.child === 'rows' ? rows() : layers()))}`,
    );
    process.exit(0);
}
