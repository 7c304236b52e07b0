/**
 * MariaDB and MySQL through `svc/db`, beside `mysql2` (its `execute`) and `mariadb`, each with ten connections.
 *
 *   node --conditions=svc-source test/bench/db-mysql.ts [--rounds=3] [--ms=700] [--bounds]
 *
 * Speed and CPU of the client for each operation, medians of fresh processes that take turns, on the server that MYSQL_URL or
 * MARIADB_URL names or on a MariaDB of our own. Every safety is on; our rows are checked as theirs are. The bounds are those of
 * DATABASES.md, section e; with --bounds a miss ends with status 1. The clients come from the registry: REQUIRE_SCRATCH says whether
 * they must.
 *
 *   one@n            select * from item where id = ?, by n callers at once
 *   1,000 rows       nine columns each
 *   executeMany      10,000 rows, an insert each, in one transaction; that of mysql2 waits for each, that of mariadb does not (query)
 *   insertMany       10,000 rows; that of mysql2 writes values into the text (`values ?`), that of mariadb is its `batch`
 */
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/db/index.ts';
import { MariaDbServer } from '../support/mariadb-server.ts';
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
const PACKAGES = { mysql2: '3.24.5', mariadb: '3.5.4' };
const CLIENTS = ['mysql2 execute', 'mariadb', 'svc'] as const;
type ClientName = (typeof CLIENTS)[number];
const CONNECTIONS = 10;

/** Least speed and most CPU beside `mysql2 execute`, and least speed beside `mariadb`. */
const BOUNDS = {
  'one@1': [1.1, 0.75, 0],
  'one@10': [1.25, 0.65, 0],
  'one@64': [1.4, 0.7, 0],
  '1,000 rows': [0.9, Infinity, 1.3],
  'executeMany 10,000': [7, 0.2, 1.3],
  'insertMany 10,000': [0.9, Infinity, 2.5],
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

interface Client {
  one(id: number): Promise<{ readonly email: string } | undefined>;
  all(): Promise<readonly unknown[]>;
  loop(): Promise<unknown>;
  bulk(): Promise<unknown>;
  clear(): Promise<unknown>;
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
  };
}

interface Address {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly socketPath: string | undefined;
}

function addressOf(url: string): Address {
  const { hostname, port, username, password, pathname, searchParams } = new URL(url);
  return {
    host: hostname,
    port: Number(port || 3306),
    user: decodeURIComponent(username),
    password: decodeURIComponent(password),
    database: pathname.slice(1),
    socketPath: searchParams.get('socket') ?? undefined,
  };
}

interface Theirs {
  execute(sql: string, params: readonly unknown[]): Promise<unknown>;
  query(sql: string, params?: readonly unknown[]): Promise<unknown>;
  beginTransaction(): Promise<void>;
  commit(): Promise<void>;
  release(): void;
}
interface TheirPool extends Theirs {
  getConnection(): Promise<Theirs>;
}

async function within(pool: TheirPool, work: (connection: Theirs) => Promise<unknown>): Promise<void> {
  const connection = await pool.getConnection();
  await connection.beginTransaction();
  await work(connection);
  await connection.commit();
  connection.release();
}

async function mysql2Client(url: string, load: NodeJS.Require): Promise<Client> {
  const pool = (load('mysql2/promise') as { createPool(options: object): TheirPool }).createPool({
    ...addressOf(url),
    connectionLimit: CONNECTIONS,
  });
  const rowsOf = async (answer: Promise<unknown>): Promise<never[]> => ((await answer) as never[][])[0]!;
  return {
    one: async (id) => (await rowsOf(pool.execute(`${ONE}?`, [id])))[0],
    all: () => rowsOf(pool.execute(ALL, [])),
    loop: () =>
      within(pool, async (connection) => {
        for (const row of ROWS) await connection.execute(`${INSERT}(?, ?, ?, ?)`, row);
      }),
    bulk: () =>
      within(pool, async (connection) => {
        for (let from = 0; from < ROWS.length; from += 1_000)
          await connection.query(`${INSERT}?`, [ROWS.slice(from, from + 1_000)]);
      }),
    clear: () => pool.query('truncate bench_added'),
  };
}

async function mariadbClient(url: string, load: NodeJS.Require): Promise<Client> {
  const pool = (load('mariadb') as { createPool(options: object): TheirPool }).createPool({
    ...addressOf(url),
    connectionLimit: CONNECTIONS,
    allowPublicKeyRetrieval: true,
  });
  return {
    one: async (id) => ((await pool.execute(`${ONE}?`, [id])) as never[])[0],
    all: () => pool.execute(ALL, []) as Promise<never[]>,
    loop: () =>
      within(pool, (connection) =>
        Promise.all(ROWS.map((row) => connection.query(`${INSERT}(?, ?, ?, ?)`, row))),
      ),
    bulk: () =>
      within(pool, (connection) =>
        (connection as unknown as { batch(sql: string, rows: readonly unknown[]): Promise<unknown> }).batch(
          `${INSERT}(?, ?, ?, ?)`,
          ROWS,
        ),
      ),
    clear: () => pool.query('truncate bench_added'),
  };
}

const MAKERS: Readonly<Record<ClientName, (url: string, load: NodeJS.Require) => Promise<Client>>> = {
  'mysql2 execute': mysql2Client,
  mariadb: mariadbClient,
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

async function child(
  name: ClientName,
  url: string,
  modules: string,
  ms: number,
): Promise<Record<Workload, Figures>> {
  const client = await MAKERS[name](url, createRequire(join(modules, 'package.json')));
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
  return {
    ...single,
    '1,000 rows': await driven(1, ms, all),
    'executeMany 10,000': await batch(client, client.loop),
    'insertMany 10,000': await batch(client, client.bulk),
  };
}

// ── all of them ──

async function parent(url: string, modules: string): Promise<boolean> {
  await using db = await openDatabase(url);
  await db.script(`drop table if exists bench_item, bench_added;
    create table bench_item (id int primary key, name varchar(100), email varchar(100), age int, score double, active bool, big bigint, price decimal(10, 2), created datetime);
    create table bench_added (a int, b varchar(100), c double, d datetime)`);
  await db.insertMany(
    'bench_item',
    ['id', 'name', 'email', 'age', 'score', 'active', 'big', 'price', 'created'],
    Array.from({ length: 2_000 }, (_, index) => {
      const id = index + 1;
      return [
        id,
        `name ${id}`,
        `user${id}@example.test`,
        id % 90,
        id * 1.25,
        id % 2 === 0,
        9_007_199_254_740_000 + id,
        (id * 1.01).toFixed(2),
        new Date(1_704_067_200_000 + id * 60_000),
      ];
    }),
  );
  const samples = new Map<ClientName, Record<Workload, Figures>[]>(CLIENTS.map((name) => [name, []]));
  for (let round = 0; round < Number(values.rounds ?? 3); round++)
    for (const name of CLIENTS) samples.get(name)!.push(measure(name, url, modules));
  console.log('| speed × (CPU ×) beside mysql2 execute | mariadb | svc | needed |\n|---|---|---|---|');
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
      median(name, 'speed') / median('mysql2 execute', 'speed'),
      median(name, 'cpu') / median('mysql2 execute', 'cpu'),
    ];
    const shown = ([speed, cpu]: readonly [number, number]): string =>
      `${speed.toFixed(2)} (${cpu.toFixed(2)})`;
    const [leastSpeed, mostCpu, leastBeside] = BOUNDS[what];
    const ours = beside('svc');
    const theirs = beside('mariadb');
    const isGood = ours[0] >= leastSpeed && ours[1] <= mostCpu && ours[0] / theirs[0] >= leastBeside;
    isMet &&= isGood;
    console.log(
      `| ${what} | ${shown(theirs)} | ${shown(ours)} | ≥ ${leastSpeed} (≤ ${mostCpu})${leastBeside === 0 ? '' : `, ≥ ${leastBeside} × mariadb`}${isGood ? '' : ': MISSED'} |`,
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
    'bench-mysql',
    PACKAGES,
  ); // it asks a test for no more
  const ends: (() => void | Promise<void>)[] = [];
  try {
    const url =
      process.env['MYSQL_URL'] ??
      process.env['MARIADB_URL'] ??
      (await MariaDbServer.start({ after: (end) => void ends.push(end) })).url;
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
