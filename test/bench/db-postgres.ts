/**
 * PostgreSQL through `svc/db`, beside `pg` (with named statements) and `postgres`, each with ten connections, log-in by SCRAM.
 *
 *   node --conditions=svc-source test/bench/db-postgres.ts [--rounds=3] [--ms=700] [--bounds]
 *
 * Speed and CPU of the client for each operation, medians of fresh processes that take turns, on the server that POSTGRES_URL
 * names or on one of our own. Every safety is on; our rows are checked as theirs are. The bounds are those of DATABASES.md,
 * section e; with --bounds a miss ends with status 1. The clients come from the registry: REQUIRE_SCRATCH says whether they must.
 *
 *   one@n            select * from item where id = ?, by n callers at once
 *   1,000 rows       nine columns each
 *   executeMany      10,000 rows, an insert each, in one transaction; theirs row by row
 *   insertMany       10,000 rows; theirs by COPY with pg-copy-streams, or a list of values
 *   10 log-ins       a pool of ten connections, in a process that has made others, but none with a password of that spelling
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/db/index.ts';
import { PostgresServer } from '../support/postgres-server.ts';
import { scratch } from '../support/scratch.ts';
import type { TestContext } from 'node:test';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    ms: { type: 'string' },
    bounds: { type: 'boolean' },
    client: { type: 'string' },
    url: { type: 'string' },
    modules: { type: 'string' },
  },
});
const PACKAGES = { pg: '8.23.1', 'pg-copy-streams': '7.0.0', postgres: '3.4.9' };
const CLIENTS = ['pg named', 'postgres.js', 'svc'] as const;
type ClientName = (typeof CLIENTS)[number];
const CONNECTIONS = 10;

/** Least speed and most CPU beside `pg named`. */
const BOUNDS = {
  'one@1': [1.1, 0.75],
  'one@10': [1.5, 0.55],
  'one@64': [1.25, 0.7],
  '1,000 rows': [2.5, 0.4],
  'executeMany 10,000': [8, 0.05],
  'insertMany 10,000': [1, 0.7],
  '10 log-ins': [0, 0.5],
} as const;
type Workload = keyof typeof BOUNDS;
const WORKLOADS = Object.keys(BOUNDS) as Workload[];

type Values = readonly [number, string, number, Date];
const ROWS: readonly Values[] = Array.from({ length: 10_000 }, (_, index) => [
  index,
  `row number ${index}`,
  index / 3,
  new Date(1_704_067_200_000 + index * 1_000),
]);
const ONE = 'select * from bench_item where id = ';
const ALL = 'select * from bench_item where id <= 1000 order by id';
const INSERT = 'insert into bench_added (a, b, c, d) values ';
const SLEEP = 'select pg_sleep(0.02)';
/** Pools that are made, and those of them that are not counted: until then it is compiling that is measured. */
const POOLS = 80;
const FIRST_POOLS = 60;
/** Left out of passwords before they are hashed. */
const SOFT_HYPHEN = '%C2%AD';

interface Client {
  one(id: number): Promise<{ readonly email: string } | undefined>;
  all(): Promise<readonly unknown[]>;
  loop(): Promise<unknown>;
  bulk(): Promise<unknown>;
  clear(): Promise<unknown>;
  /** Takes so long that nobody else has the connection meanwhile. */
  sleep(): Promise<unknown>;
  end(): Promise<unknown>;
}

/** What is measured of one workload: operations a second, and µs of the client's CPU for each. */
interface Figures {
  readonly speed: number;
  readonly cpu: number;
}

// ── the clients ──

async function svcClient(url: string): Promise<Client> {
  const db = await openDatabase(url, { pool: { max: CONNECTIONS } });
  return {
    one: (id) => db.fetchOne(`${ONE}?`, [id]) as Promise<{ readonly email: string } | undefined>,
    all: () => db.fetchAll(ALL),
    loop: () => db.executeMany(`${INSERT}(?, ?, ?, ?)`, ROWS),
    bulk: () => db.insertMany('bench_added', ['a', 'b', 'c', 'd'], ROWS),
    clear: () => db.script('truncate bench_added'),
    sleep: () => db.fetchOne(SLEEP),
    end: () => db.close(),
  };
}

interface PgClient {
  query(query: unknown, params?: readonly unknown[]): Promise<{ readonly rows: never[] }>;
  release(): void;
}
interface PgPool extends PgClient {
  connect(): Promise<PgClient>;
  end(): Promise<void>;
}

async function pgClient(url: string, load: NodeJS.Require): Promise<Client> {
  const pool = new (load('pg') as { Pool: new (options: object) => PgPool }).Pool({
    connectionString: url,
    max: CONNECTIONS,
  });
  const copy = (load('pg-copy-streams') as { from(sql: string): unknown }).from;
  async function within(work: (client: PgClient) => Promise<void>): Promise<void> {
    const client = await pool.connect();
    try {
      await client.query('begin');
      await work(client);
      await client.query('commit');
    } finally {
      client.release();
    }
  }
  return {
    one: async (id) => (await pool.query({ name: 'one', text: `${ONE}$1`, values: [id] })).rows[0],
    all: async () => (await pool.query({ name: 'all', text: ALL })).rows,
    loop: () =>
      within(async (client) => {
        for (const row of ROWS)
          await client.query({ name: 'insert', text: `${INSERT}($1, $2, $3, $4)`, values: row });
      }),
    bulk: () =>
      within(async (client) => {
        const target = client.query(
          copy('copy bench_added (a, b, c, d) from stdin'),
        ) as unknown as NodeJS.WritableStream; // what pg-copy-streams makes of it
        await pipeline(Readable.from(lines()), target);
      }),
    clear: () => pool.query('truncate bench_added'),
    sleep: () => pool.query(SLEEP),
    end: () => pool.end(),
  };
}

function* lines(): Generator<string> {
  for (const [a, b, c, d] of ROWS) yield `${a}\t${b}\t${c}\t${d.toISOString()}\n`;
}

type PostgresSql = ((
  strings: TemplateStringsArray | readonly unknown[],
  ...values: readonly unknown[]
) => Promise<never[]>) & {
  begin(work: (tx: PostgresSql) => Promise<unknown>): Promise<unknown>;
  unsafe(text: string): Promise<unknown>;
  end(): Promise<void>;
};

async function postgresClient(url: string, load: NodeJS.Require): Promise<Client> {
  const tag = (load('postgres') as (url: string, options: object) => PostgresSql)(url, { max: CONNECTIONS });
  return {
    one: async (id) => (await tag`select * from bench_item where id = ${id}`)[0],
    all: () => tag`select * from bench_item where id <= 1000 order by id`,
    loop: () =>
      tag.begin((tx) =>
        Promise.all(
          ROWS.map(
            ([a, b, c, d]) => tx`insert into bench_added (a, b, c, d) values (${a}, ${b}, ${c}, ${d})`,
          ),
        ),
      ),
    bulk: () =>
      tag.begin(async (tx) => {
        for (let from = 0; from < ROWS.length; from += 1_000)
          await tx`insert into bench_added ${tx(
            ROWS.slice(from, from + 1_000).map(([a, b, c, d]) => ({ a, b, c, d })),
            'a',
            'b',
            'c',
            'd',
          )}`;
      }),
    clear: () => tag`truncate bench_added`,
    sleep: () => tag.unsafe(SLEEP),
    end: () => tag.end(),
  };
}

const MAKERS: Readonly<Record<ClientName, (url: string, load: NodeJS.Require) => Promise<Client>>> = {
  'pg named': pgClient,
  'postgres.js': postgresClient,
  svc: svcClient,
};

// ── one process ──

function cpuMicros(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

/** `callers` at once, for so long. */
async function driven(callers: number, ms: number, work: () => Promise<unknown>): Promise<Figures> {
  const [startMs, startCpu] = [performance.now(), cpuMicros()];
  let operations = 0;
  await Promise.all(
    Array.from({ length: callers }, async () => {
      do {
        await work();
        operations++;
      } while (performance.now() - startMs < ms);
    }),
  );
  return {
    speed: (operations / (performance.now() - startMs)) * 1_000,
    cpu: (cpuMicros() - startCpu) / operations,
  };
}

/** The best of three: what else the server does is in the others. */
async function batch(client: Client, work: () => Promise<unknown>): Promise<Figures> {
  const all: Figures[] = [];
  for (let round = 0; round < 3; round++) {
    await client.clear();
    all.push(await driven(1, 0, work));
  }
  return { speed: Math.max(...all.map(({ speed }) => speed)), cpu: Math.min(...all.map(({ cpu }) => cpu)) };
}

/** The CPU of making pools, each by a password that is spelled otherwise: nothing of it has been derived yet. */
async function logIns(name: ClientName, url: string, load: NodeJS.Require): Promise<Figures> {
  const spent: number[] = [];
  for (let index = 0; index < POOLS; index++) {
    const spelling = name === 'postgres.js' ? url : url.replace('@', `${SOFT_HYPHEN.repeat(index)}@`); // it knows no SASLprep, and derives anew each time
    const startCpu = cpuMicros();
    const client = await MAKERS[name](spelling, load);
    await Promise.all(Array.from({ length: CONNECTIONS }, () => client.sleep()));
    spent.push(cpuMicros() - startCpu);
    await client.end();
  }
  const counted = spent.slice(FIRST_POOLS).sort((a, b) => a - b);
  return { speed: 1, cpu: counted[counted.length >> 1]! }; // the server's pace is that of all
}

async function child(
  name: ClientName,
  url: string,
  modules: string,
  ms: number,
): Promise<Record<Workload, Figures>> {
  const load = createRequire(join(modules, 'package.json'));
  const client = await MAKERS[name](url, load);
  let last = 1;
  const one = async (): Promise<void> => {
    const id = 1 + (last = (last * 7 + 3) % 2_000);
    if ((await client.one(id))?.email !== `user${id}@example.test`) throw new Error(`${name}: another row`);
  };
  const all = async (): Promise<void> => {
    if ((await client.all()).length !== 1_000) throw new Error(`${name}: another number of rows`);
  };
  await driven(64, ms, one);
  await driven(1, ms / 2, one);
  const single = {
    'one@1': await driven(1, ms, one),
    'one@10': await driven(10, ms, one),
    'one@64': await driven(64, ms, one),
  };
  await driven(1, ms / 2, all);
  const many = {
    '1,000 rows': await driven(1, ms, all),
    'executeMany 10,000': await batch(client, client.loop),
    'insertMany 10,000': await batch(client, client.bulk),
  };
  await client.end();
  return { ...single, ...many, '10 log-ins': await logIns(name, url, load) };
}

// ── all of them ──

async function parent(url: string, modules: string): Promise<boolean> {
  await using db = await openDatabase(url);
  await db.script(`drop table if exists bench_item, bench_added;
    create table bench_item (id int primary key, name text, email text, age int, score float8, active bool, big int8, price numeric(10, 2), created timestamptz);
    create table bench_added (a int, b text, c float8, d timestamptz);
    insert into bench_item select i, 'name ' || i, 'user' || i || '@example.test', i % 90, i * 1.25, i % 2 = 0, 9007199254740000 + i, i * 1.01, timestamptz '2024-01-01' + i * interval '1 minute' from generate_series(1, 2000) i;
    analyze bench_item`);
  const samples = new Map<ClientName, Record<Workload, Figures>[]>(CLIENTS.map((name) => [name, []]));
  for (let round = 0; round < Number(values.rounds ?? 3); round++)
    for (const name of CLIENTS) samples.get(name)!.push(measure(name, url, modules));
  console.log('| speed × (CPU ×) beside pg named | postgres.js | svc | needed |\n|---|---|---|---|');
  let isMet = true;
  for (const what of WORKLOADS) {
    const median = (name: ClientName, part: keyof Figures): number => {
      const sorted = samples
        .get(name)!
        .map((figures) => figures[what][part])
        .sort((a, b) => a - b);
      return sorted[sorted.length >> 1]!;
    };
    const beside = (name: ClientName): readonly [number, number] => [
      median(name, 'speed') / median('pg named', 'speed'),
      median(name, 'cpu') / median('pg named', 'cpu'),
    ];
    const shown = ([speed, cpu]: readonly [number, number]): string =>
      `${speed.toFixed(2)} (${cpu.toFixed(2)})`;
    const [leastSpeed, mostCpu] = BOUNDS[what];
    const ours = beside('svc');
    const isGood = ours[0] >= leastSpeed && ours[1] <= mostCpu;
    isMet &&= isGood;
    console.log(
      `| ${what} | ${shown(beside('postgres.js'))} | ${shown(ours)} | ≥ ${leastSpeed} (≤ ${mostCpu})${isGood ? '' : ': MISSED'} |`,
    );
  }
  return isMet;
}

function measure(name: ClientName, url: string, modules: string): Record<Workload, Figures> {
  const { stdout, stderr } = spawnSync(
    process.execPath,
    [
      '--conditions=svc-source',
      fileURLToPath(import.meta.url),
      `--client=${name}`,
      `--url=${url}`,
      `--modules=${modules}`,
      `--ms=${values.ms ?? 700}`,
    ],
    { encoding: 'utf8', timeout: 240_000 },
  );
  const result = /RESULT (.*)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${name}: ${stderr}`);
  return JSON.parse(result) as Record<Workload, Figures>;
}

if (values.client === undefined) {
  const modules = scratch(
    { skip: (why: string) => console.log(`SKIPPED: ${why}`) } as unknown as TestContext,
    'bench-postgres',
    PACKAGES,
  ); // it asks a test for no more
  const ends: (() => void | Promise<void>)[] = [];
  try {
    const url =
      process.env['POSTGRES_URL'] ??
      (await PostgresServer.start({ after: (end) => void ends.push(end) })).url;
    if (modules !== undefined && !(await parent(url, modules)) && values.bounds === true)
      process.exitCode = 1;
  } finally {
    for (const end of ends) await end();
  }
} else {
  console.log(
    `RESULT ${JSON.stringify(await child(values.client as ClientName, values.url!, values.modules!, Number(values.ms)))}`,
  ); // the parent says them all
  process.exit();
}
