/**
 * SQLite through `svc/db`, beside bare node:sqlite statements, and better-sqlite3 where a folder has it. CPU per operation,
 * medians of fresh processes that take turns, one workload and a file of its own for each.
 *
 *   node --conditions=svc-source test/bench/db.ts [--rounds=7] [--better=<folder with node_modules/better-sqlite3>]
 *
 * All three have the settings that `openDatabase` gives: WAL, synchronous=FULL, foreign keys, no busy timeout of SQLite's own.
 * Ours is opened as the plugin opens it: its statements are timed for the log and counted. Two sets of targets:
 *
 *   DATABASES.md, section e      in a file, beside bare statements, by the rows and statements of that section; as there,
 *                                each client's verb is an async function that is awaited.
 *   PERFORMANCE.md §5            beside better-sqlite3, "sync part": it has no asynchronous part to compare with, so what is
 *                                compared is what runs before our promise is made: acquire, statement, release, with every check and
 *                                look-up of values and text. Ten inserts as in §3.9, in memory, so that the disk's part, the same for
 *                                all, hides nothing: begin, ten execute, commit; and executeMany of ten rows, with its promise.
 *
 * Beside them, without a bound: the callback whose statements are awaited one by one, and commits that wait for the disk.
 *
 * Exits 1 when a ratio, speed relative to theirs, is below its bound.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { DatabaseMetrics } from '../../src/db/plugin.ts';
import { prepareDatabase } from '../../src/db/open.ts';
import { createLogger } from '../../src/index.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import type { Connection } from '../../src/db/driver.ts';

const { values } = parseArgs({
  options: {
    rounds: { type: 'string' },
    better: { type: 'string' },
    client: { type: 'string' },
    what: { type: 'string' },
  },
});

/** What each client does, how often, where; and the least speed of ours: beside bare statements, and beside better-sqlite3. */
const WORKLOADS = {
  'one row': { where: 'file', isAsync: true, operations: 60_000, bare: 0.9, better: 0 },
  'one row, select *': { where: 'file', isAsync: true, operations: 60_000, bare: 0.9, better: 0 },
  '1,000 rows': { where: 'file', isAsync: true, operations: 480, bare: 1.15, better: 0 },
  'executeMany 10,000': { where: 'file', isAsync: true, operations: 24, bare: 0.95, better: 1.3 },
  'one row, sync part': { where: 'file', isAsync: false, operations: 60_000, bare: 0, better: 0.75 },
  'ten inserts, sync part': { where: 'memory', isAsync: false, operations: 36_000, bare: 0, better: 1.3 },
  'ten inserts, executeMany': { where: 'memory', isAsync: false, operations: 36_000, bare: 0, better: 1.3 },
  'ten inserts, each awaited': { where: 'memory', isAsync: false, operations: 36_000, bare: 0, better: 0 },
  'ten inserts in a file, executeMany': {
    where: 'file',
    isAsync: false,
    operations: 960,
    bare: 0,
    better: 0,
  },
  'ten inserts in a file, each awaited': {
    where: 'file',
    isAsync: false,
    operations: 960,
    bare: 0,
    better: 0,
  },
} as const;
/** The table is emptied between them. */
const BATCHES = 24;
type Name = keyof typeof WORKLOADS;
type Work = (index: number) => unknown;

/** One client's work on one database: all of them, or those that are different there. */
interface Client {
  readonly work: Readonly<Record<Name, Work>>;
  /** Empties what was inserted, out of the measured time. */
  clear(): unknown;
}

const ONE = 'select id, name, email, age, score, active, big, price, created from item where id = ?';
const STAR = 'select * from item where id = ?';
const ALL = 'select * from item where id <= 1000 order by id';
const INSERT = 'insert into added (a, b, c, d) values (?, ?, ?, ?)';
const TENTH = 'insert into tenth (name, email, score) values (?, ?, ?)';
const CLEAR = 'delete from added; delete from tenth';
const SETTINGS =
  'pragma journal_mode = wal; pragma synchronous = full; pragma foreign_keys = on; pragma trusted_schema = off';
const SCHEMA = `create table item (id integer primary key, name text, email text, age int, score real, active int, big integer, price text, created text);
  with recursive n (i) as (select 1 union all select i + 1 from n where i < 2000)
  insert into item select i, 'name ' || i, 'user' || i || '@example.test', i % 90, i * 1.25, i % 2, 9007199254000 + i, '10.10', '2024-02-29T12:00:00.000Z' from n;
  create table added (a int, b text, c real, d text); create table tenth (id integer primary key, name text, email text, score real)`;
type Values = readonly [number, string, number, Date];
const ROWS: readonly Values[] = Array.from({ length: 10_000 }, (_, index) => [
  index,
  `row number ${index}`,
  index / 3,
  new Date(1_704_067_200_000 + index * 1_000),
]);
type Three = readonly [string, string, number];
const TEN: readonly Three[] = Array.from({ length: 10 }, () => ['x', 'y', 1]);

interface Bare {
  prepare(sql: string): {
    get(...values: unknown[]): unknown;
    all(): unknown;
    run(...values: unknown[]): unknown;
  };
  exec(sql: string): unknown;
}

function bareClient(db: Bare): Client {
  db.exec(SETTINGS);
  const [one, star, all, insert, tenth, begin, commit] = [
    db.prepare(ONE),
    db.prepare(STAR),
    db.prepare(ALL),
    db.prepare(INSERT),
    db.prepare(TENTH),
    db.prepare('begin immediate'),
    db.prepare('commit'),
  ];
  const many = (): void => {
    begin.run();
    for (const row of ROWS) insert.run(row[0], row[1], row[2], row[3].toISOString());
    commit.run();
  };
  const ten = (): void => {
    begin.run();
    for (const row of TEN) tenth.run(row[0], row[1], row[2]);
    commit.run();
  };
  return {
    work: {
      'one row': async (index) => one.get(1 + (index % 2_000)),
      'one row, select *': async (index) => star.get(1 + (index % 2_000)),
      '1,000 rows': async () => all.all(),
      'executeMany 10,000': async () => many(),
      'one row, sync part': (index) => one.get(1 + (index % 2_000)),
      'ten inserts, sync part': ten,
      'ten inserts, executeMany': ten,
      'ten inserts, each awaited': ten,
      'ten inserts in a file, executeMany': ten,
      'ten inserts in a file, each awaited': ten,
    },
    clear: () => db.exec(CLEAR),
  };
}

async function ourClient(path: string): Promise<Client> {
  const log = createLogger({ level: 'warn', sink: () => undefined }).child('database');
  const { statements } = DatabaseMetrics.of(createMetrics({ log }));
  const { driver, database: db } = await prepareDatabase(
    `sqlite:${path}`,
    { log },
    { name: 'database', onStatement: (seconds) => statements.observe(seconds, 'database') },
  ).open();
  if (path === ':memory:') await db.script(SCHEMA);
  const begin = { isolation: undefined, isReadOnly: false };
  const together = (): unknown => db.executeMany(TENTH, TEN);
  const awaited = (): unknown =>
    db.transaction(async (tx) => {
      for (const row of TEN) await tx.execute(TENTH, row);
    });
  return {
    work: {
      'one row': (index) => db.fetchOne(ONE, [1 + (index % 2_000)]),
      'one row, select *': (index) => db.fetchOne(STAR, [1 + (index % 2_000)]),
      '1,000 rows': () => db.fetchAll(ALL),
      'executeMany 10,000': () => db.executeMany(INSERT, ROWS),
      'ten inserts, executeMany': together,
      'ten inserts, each awaited': awaited,
      'ten inserts in a file, executeMany': together,
      'ten inserts in a file, each awaited': awaited,
      'one row, sync part': (index) => {
        const connection = driver.acquire(undefined, 'statement') as Connection; // at once: the connection is not shared
        connection.fetchOne(ONE, [1 + (index % 2_000)], undefined);
        driver.release(connection);
      },
      'ten inserts, sync part': () => {
        const connection = driver.acquire(undefined, 'transaction') as Connection;
        connection.begin(begin, undefined);
        for (const row of TEN) connection.execute(TENTH, row, undefined);
        connection.commit();
        driver.release(connection);
      },
    },
    clear: () => db.script(CLEAR),
  };
}

async function clientOf(name: string, path: string): Promise<Client> {
  if (name === 'svc') return ourClient(path);
  const Better =
    name === 'better'
      ? (createRequire(join(values.better!, 'package.json'))('better-sqlite3') as new (
          path: string,
          options: object,
        ) => Bare)
      : undefined;
  const db: Bare =
    Better === undefined
      ? (new DatabaseSync(path, { timeout: 0 }) as unknown as Bare)
      : new Better(path, { timeout: 0 });
  if (path === ':memory:') db.exec(SCHEMA);
  return bareClient(db);
}

/** One workload of one client on a fresh database, in a process that has done nothing else. */
async function child(name: string, what: Name): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  try {
    const path = WORKLOADS[what].where === 'memory' ? ':memory:' : join(folder, 'data.db');
    if (path !== ':memory:') new DatabaseSync(path).exec(`pragma journal_mode = wal; ${SCHEMA}`);
    console.log(`RESULT ${await measured(what, await clientOf(name, path), name === 'svc')}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** CPU µs an operation. */
async function measured(what: Name, { work, clear }: Client, isOurs: boolean): Promise<number> {
  const { operations } = WORKLOADS[what];
  const run = work[what];
  const isAwaited = WORKLOADS[what].isAsync || (isOurs && !what.endsWith('sync part'));
  let micros = 0;
  for (let batch = -BATCHES / 4; batch < BATCHES; batch++) {
    // the first quarter warms it up
    const before = process.cpuUsage();
    if (isAwaited) for (let index = 0; index < operations / BATCHES; index++) await run(index);
    else for (let index = 0; index < operations / BATCHES; index++) run(index);
    const { user, system } = process.cpuUsage(before);
    if (batch >= 0) micros += user + system;
    await clear();
  }
  return micros / operations;
}

function parent(): number {
  const others = ['bare', ...(values.better === undefined ? [] : ['better'])] as const;
  console.log(
    `| µs | svc |${others.map((client) => ` ${client === 'bare' ? 'node:sqlite' : 'better-sqlite3'} | speed × | needed |`).join('')}\n|---|---:|${'---:|---:|---:|'.repeat(others.length)}`,
  );
  let isSlow = false;
  for (const what of Object.keys(WORKLOADS) as Name[]) {
    const micros = medians(what, ['svc', ...others]);
    const ours = micros.get('svc')!;
    const cells = others.map((client) => {
      const [theirs, bound] = [micros.get(client)!, WORKLOADS[what][client as 'bare' | 'better']];
      isSlow ||= theirs / ours < bound;
      return `${theirs.toFixed(2)} | ${(theirs / ours).toFixed(2)} | ${bound === 0 ? '' : `≥ ${bound}`}`;
    });
    console.log(`| ${what} | ${ours.toFixed(2)} | ${cells.join(' | ')} |`);
  }
  return isSlow ? 1 : 0;
}

function medians(what: Name, clients: readonly string[]): Map<string, number> {
  const samples = new Map<string, number[]>(clients.map((client) => [client, []]));
  for (let round = 0; round < Number(values.rounds ?? 7); round++)
    for (const client of clients) samples.get(client)!.push(measure(client, what));
  return new Map(
    [...samples].map(([client, all]) => [
      client,
      all.toSorted((left, right) => left - right)[all.length >> 1]!,
    ]),
  );
}

function measure(client: string, what: Name): number {
  const args = [
    '--conditions=svc-source',
    fileURLToPath(import.meta.url),
    `--client=${client}`,
    `--what=${what}`,
    ...(values.better === undefined ? [] : [`--better=${values.better}`]),
  ];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const result = /RESULT (.*)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${client}: ${stderr}`);
  return Number(result);
}

if (values.client === undefined) process.exitCode = parent();
else await child(values.client, values.what as Name); // the parent names one of them
