/**
 * SQLite through `svc/db`, beside bare node:sqlite statements, and better-sqlite3 where a folder has it. CPU per operation,
 * medians of fresh processes that take turns; WAL and synchronous=normal for all, so that the disk is not what is measured.
 *
 *   node --conditions=svc-source test/bench/db.ts [--rounds=5] [--better=<folder with node_modules/better-sqlite3>]
 *
 * Exits 1 when a ratio is below its bound (PERFORMANCE.md §5, DATABASES.md, section e: speed relative to bare statements).
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { openDatabase } from '../../src/db/index.ts';

const { values } = parseArgs({ options: { rounds: { type: 'string' }, better: { type: 'string' }, client: { type: 'string' } } });
const ONE = 'select id, name, flag, ratio, big, price, made from item where id = ?';
const ALL = 'select id, name, flag, ratio, big, price, made from item';
const INSERT = 'insert into added (name, amount, ratio) values (?, ?, ?)';
const SCHEMA = `create table item (id integer primary key, name text, flag integer, ratio real, big integer, price text, made text);
  with recursive n (i) as (select 0 union all select i + 1 from n where i < 999) insert into item select i, 'name ' || i, i % 2, i / 3.0, i * 1000, '1.10', '2024-02-29T12:00:00.000Z' from n;
  create table added (id integer primary key, name text, amount integer, ratio real)`;
const ROWS: readonly (readonly [string, number, number])[] = Array.from({ length: 10_000 }, (_, index) => [`name ${index}`, index, index / 3]);
const TEN = ROWS.slice(0, 10);
/** What each client does; how often; and the least speed of ours: relative to bare statements, then to better-sqlite3. */
const WORKLOADS = {
  'one row': { operations: 60_000, bare: 0.9, better: 0.75 }, '1000 rows': { operations: 300, bare: 1.15, better: 0 }, 'transaction of 10 inserts, each awaited': { operations: 6_000, bare: 0, better: 0 },
  'transaction of 10 inserts': { operations: 6_000, bare: 0, better: 0 },
  'executeMany 10,000': { operations: 24, bare: 0.95, better: 1.3 },
} as const;
type Name = keyof typeof WORKLOADS;

interface Bare { prepare(sql: string): { get(...values: unknown[]): unknown; all(): unknown; run(...values: unknown[]): unknown }; exec(sql: string): unknown }

function bareWork(db: Bare): Record<Name, (index: number) => unknown> {
  const [one, all, insert] = [db.prepare(ONE), db.prepare(ALL), db.prepare(INSERT)];
  const [begin, commit] = [db.prepare('begin immediate'), db.prepare('commit')];
  const within = (rows: typeof ROWS): void => {
    begin.run();
    for (const row of rows) insert.run(...row);
    commit.run();
  };
  return { 'one row': (index) => one.get(index % 1_000), '1000 rows': () => all.all(), 'transaction of 10 inserts, each awaited': () => within(TEN), 'transaction of 10 inserts': () => within(TEN), 'executeMany 10,000': () => within(ROWS) };
}

async function workOf(client: string, path: string): Promise<Record<Name, (index: number) => unknown>> {
  if (client === 'svc') {
    const db = await openDatabase(`sqlite:${path}`, { synchronous: 'normal' });
    return {
      'one row': (index) => db.fetchOne(ONE, [index % 1_000]), '1000 rows': () => db.fetchAll(ALL),
      'transaction of 10 inserts, each awaited': () => db.transaction(async (tx) => { for (const row of TEN) await tx.execute(INSERT, row); }),
      'transaction of 10 inserts': () => db.executeMany(INSERT, TEN),
      'executeMany 10,000': () => db.executeMany(INSERT, ROWS),
    };
  }
  const Better = client === 'better' ? createRequire(join(values.better!, 'package.json'))('better-sqlite3') as new (path: string) => Bare : undefined;
  const db: Bare = Better === undefined ? new DatabaseSync(path) as unknown as Bare : new Better(path);
  db.exec('pragma synchronous = normal');
  return bareWork(db);
}

async function child(client: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'svc-bench-'));
  try {
    const path = join(folder, 'data.db');
    const setUp = new DatabaseSync(path);
    setUp.exec(`pragma journal_mode = wal; ${SCHEMA}`);
    const work = await workOf(client, path);
    const result: Record<string, number> = {};
    for (const name of Object.keys(WORKLOADS) as Name[]) {
      const { operations } = WORKLOADS[name];
      for (let index = 0; index < operations / 4; index++) await work[name](index);
      const before = process.cpuUsage();
      if (client === 'svc') for (let index = 0; index < operations; index++) await work[name](index);
      else for (let index = 0; index < operations; index++) work[name](index);
      const { user, system } = process.cpuUsage(before);
      result[name] = (user + system) / operations;
    }
    console.log(`RESULT ${JSON.stringify(result)}`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function parent(): number {
  const clients = ['bare', 'svc', ...values.better === undefined ? [] : ['better']];
  const samples = new Map<string, Record<Name, number>[]>(clients.map((client) => [client, []]));
  for (let round = 0; round < Number(values.rounds ?? 5); round++) for (const client of clients) samples.get(client)!.push(measure(client));
  const median = (client: string, name: Name): number => samples.get(client)!.map((each) => each[name]).toSorted((left, right) => left - right)[samples.get(client)!.length >> 1]!;
  console.log('| | node:sqlite µs | svc µs | speed × | needed |' + (values.better === undefined ? '' : ' better-sqlite3 µs | speed × | needed |'));
  let isSlow = false;
  for (const name of Object.keys(WORKLOADS) as Name[]) {
    const bound = WORKLOADS[name];
    const cells = [median('bare', name), median('svc', name), median('bare', name) / median('svc', name), bound.bare];
    if (values.better !== undefined) cells.push(median('better', name), median('better', name) / median('svc', name), bound.better);
    isSlow ||= cells[2]! < bound.bare || cells[5] !== undefined && cells[5] < bound.better;
    console.log(`| ${name} | ${cells.map((cell) => cell.toFixed(2)).join(' | ')} |`);
  }
  return isSlow ? 1 : 0;
}

function measure(client: string): Record<Name, number> {
  const args = ['--conditions=svc-source', fileURLToPath(import.meta.url), `--client=${client}`, ...values.better === undefined ? [] : [`--better=${values.better}`]];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  const result = /RESULT (.*)/.exec(stdout)?.[1];
  if (result === undefined) throw new Error(`${client}: ${stderr}`);
  return JSON.parse(result) as Record<Name, number>;
}

if (values.client === undefined) process.exitCode = parent();
else await child(values.client);
