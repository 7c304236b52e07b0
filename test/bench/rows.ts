/**
 * Reading rows `as` a schema, as a multiple of reading plain rows. The table has nine columns, of which a
 * schema makes a boolean and a Date.
 */
import { openDatabase } from '../../src/db/index.ts';
import { Field, Schema, bool, datetime, float, int, str } from '../../src/schema/schema.ts';
import { argumentsOf, worker, working } from './harness.ts';
import type { Bench, Row } from './harness.ts';
import type { Dialect } from '../../src/db/index.ts';

const values = argumentsOf('side', 'url', 'count');
const BOUND = 1.6;
const ROWS = 2_000;

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

async function child(side: string): Promise<void> {
  const db = await openDatabase(values.url ?? 'sqlite::memory:');
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
  const count = Number(values.count);
  const text = 'select * from bench_item where id >= ? and id < ? order by id';
  const read = (from: number): Promise<unknown> =>
    side === 'svc'
      ? db.fetchAll(text, [from, from + count], { as: Item })
      : db.fetchAll(text, [from, from + count]);
  await working(async (ms) => {
    let calls = 0;
    const startedMs = performance.now();
    do await read(calls++ % (ROWS - count));
    while (performance.now() - startedMs < ms);
    return ((performance.now() - startedMs) * 1_000) / calls;
  });
}

const rows = (): readonly Row[] =>
  [1, 1_000].map((count) => ({
    name: `SQLite as a schema: rows: ${count}`,
    ...{ unit: 'µs', base: 'plain', bound: BOUND },
    start: (side, root) =>
      worker(root, 'rows.ts', { side, count }, { execArgv: ['--conditions=svc-source'] }),
  }));

export const bench: Bench = { packages: {}, rows };

if (import.meta.main) await child(values.side!);
