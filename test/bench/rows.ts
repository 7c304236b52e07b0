/**
 * Compares reading rows `as` a schema with reading plain rows, alternately in one process. Prints
 * microseconds, and the ratio of medians.
 *
 *   node --conditions=svc-source test/bench/rows.ts [--url=sqlite::memory:] [--rounds=400]
 *
 * The table has nine columns, of which a schema makes a boolean and a Date. Exits 1 when one row or 1,000
 * rows cost more than 1.6 times as much.
 */
import { openDatabase } from '../../src/db/index.ts';
import { Field, Schema, bool, datetime, float, int, str } from '../../src/schema/schema.ts';
import { argumentsOf, median } from './harness.ts';
import type { Dialect } from '../../src/db/index.ts';

const values = argumentsOf('url', 'rounds');
const MOST = 1.6;
const ROWS = 2_000;
/** Number of statements that are timed together. */
const TOGETHER = 50;

class Item extends Schema {
  id = Field(int);
  name = Field(str);
  email = Field(str);
  age = Field(int);
  score = Field(float);
  active = Field(bool);
  big = Field(int);
  price = Field(str);
  created = Field(datetime);
}
const COLUMNS = Object.keys(new Item({ id: 0, name: '', email: '', age: 0, score: 0, active: true, big: 0, price: '', created: new Date(0) })); // prettier-ignore
const mysql =
  'id int primary key, name varchar(80), email varchar(80), age int, score double, active tinyint(1), big bigint, price decimal(10, 2), created datetime(3)';
const TYPES: Readonly<Record<Dialect, string>> = {
  sqlite:
    'id integer primary key, name text, email text, age int, score real, active int, big integer, price text, created text',
  postgres:
    'id int primary key, name text, email text, age int, score float8, active bool, big int8, price numeric(10, 2), created timestamptz',
  mysql,
  mariadb: mysql,
};

await using db = await openDatabase(values.url ?? 'sqlite::memory:');
await db.script(`drop table if exists bench_item; create table bench_item (${TYPES[db.dialect]})`);
await db.insertMany(
  'bench_item',
  COLUMNS,
  Array.from({ length: ROWS }, (_, index) => [
    index,
    `name ${index}`,
    `user${index}@example.test`,
    index % 90,
    index * 1.25,
    index % 2 === 0,
    9_007_199_254_000 + index,
    (index * 1.01).toFixed(2),
    new Date(1_704_067_200_000 + index * 60_000),
  ]),
);

const ONE = 'select * from bench_item where id = ?';
const ALL = 'select * from bench_item where id < 1000 order by id';
const ratios = [
  await compared('one row', TOGETHER, (id) => db.fetchOne(ONE, [id]), (id) => db.fetchOne(ONE, [id], { as: Item })), // prettier-ignore
  await compared('1,000 rows', 1, () => db.fetchAll(ALL), () => db.fetchAll(ALL, [], { as: Item })), // prettier-ignore
];
await db.script('drop table bench_item');
if (Math.max(...ratios) > MOST) process.exitCode = 1;

type Work = (id: number) => Promise<unknown>;

async function compared(what: string, times: number, plain: Work, read: Work): Promise<number> {
  const rounds = Number(values.rounds ?? 400);
  const [plainMicros, readMicros]: [number[], number[]] = [[], []];
  for (let round = -rounds; round < rounds; round++) {
    // drop the first half, which warms up
    const pair = [await micros(plain, times), await micros(read, times)] as const;
    if (round < 0) continue;
    plainMicros.push(pair[0]);
    readMicros.push(pair[1]);
  }
  const [ours, theirs] = [median(readMicros), median(plainMicros)];
  console.log(`${what}: plain ${theirs.toFixed(1)} µs, as a schema ${ours.toFixed(1)} µs, ratio ${(ours / theirs).toFixed(2)}`); // prettier-ignore
  return ours / theirs;
}

async function micros(work: Work, times: number): Promise<number> {
  const startedMs = performance.now();
  for (let index = 0; index < times; index++) await work(index);
  return ((performance.now() - startedMs) * 1_000) / times;
}
