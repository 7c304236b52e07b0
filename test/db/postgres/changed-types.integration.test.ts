/**
 * Statements that another connection has made outdated, by a column with a new type. Every method prepares
 * them again by itself.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatabaseError, openDatabase } from '../../../src/db/index.ts';
import { needsPostgres, postgresUrl } from '../../support/postgres-database.ts';
import { inReverse } from '../../support/run.ts';
import type { Database, Parameter, Params } from '../../../src/db/index.ts';

/** A change of the column `value`, and a value for it before and after the change. */
interface Change {
  readonly what: string;
  readonly before: string;
  readonly change: string;
  readonly old: Parameter;
  readonly new: unknown;
  /** Whether the server refuses the value because of its old type. */
  readonly inTransaction?: 'refused';
}

const ALTER = 'alter table item alter value type';
const CHANGES: readonly Change[] = [
  {
    what: 'an enum that was replaced',
    before: 'mood',
    change: `alter table item drop column value; drop type mood; create type mood as enum ('low', 'high');
      alter table item add column value mood`,
    old: 'low',
    new: 'high',
  },
  {
    what: 'an integer that is wider',
    before: 'integer',
    change: `${ALTER} bigint`,
    old: 1,
    new: 2 ** 32,
    inTransaction: 'refused',
  },
  {
    what: 'text that became JSON',
    before: 'text',
    change: `${ALTER} jsonb using null`,
    old: 'a',
    new: { a: 1 },
  },
  {
    what: 'text that became a list',
    before: 'text',
    change: `${ALTER} text[] using null`,
    old: 'a',
    new: ['b'],
  },
  {
    what: 'JSON that became a list',
    before: 'jsonb',
    change: `${ALTER} text[] using null`,
    old: [1] as unknown as Parameter,
    new: ['b'],
    inTransaction: 'refused',
  },
];

type Method = (db: Database, value: Parameter, count: number) => Promise<unknown>;

const INSERT = 'insert into item (value) values (?)';
const rowsOf = (value: Parameter, count: number): Params[] => Array.from({ length: count }, () => [value]);

function* generated(value: Parameter, count: number): Generator<Params, void, undefined> {
  yield* rowsOf(value, count);
}

async function* arriving(value: Parameter, count: number): AsyncGenerator<Params, void, undefined> {
  yield* rowsOf(value, count);
}

const METHODS: Readonly<Record<string, Method>> = {
  execute: (db, value) => db.execute(INSERT, [value]),
  'execute with a time limit': (db, value) => db.execute(INSERT, [value], { timeoutMs: 10_000 }),
  scalar: (db, value) => db.scalar(`${INSERT} returning 1`, [value]),
  stream: async (db, value) => {
    for await (const _ of db.stream(`${INSERT} returning 1`, [value])) continue;
  },
  'execute in a transaction': (db, value) => db.transaction((tx) => tx.execute(INSERT, [value])),
  executeMany: (db, value, count) => db.executeMany(INSERT, rowsOf(value, count)),
  'executeMany of a generator': (db, value, count) => db.executeMany(INSERT, generated(value, count)),
  'executeMany of rows that arrive': (db, value, count) => db.executeMany(INSERT, arriving(value, count)),
  insertMany: (db, value, count) => db.insertMany('item', ['value'], rowsOf(value, count)),
  'insertMany of a generator': (db, value, count) =>
    db.insertMany('item', ['value'], generated(value, count)),
  'insertMany into a view with a rule': (db, value, count) =>
    db.insertMany('items', ['value'], rowsOf(value, count)),
};

/** Database, a second one of the same schema, and their change of the column. */
interface Pair {
  readonly url: string;
  readonly other: Database;
}

for (const each of CHANGES)
  test(`PostgreSQL: every method writes at once after another connection has changed a column: ${each.what}`, async (t) => {
    if (!needsPostgres(t)) return;
    const scope = inReverse(t);
    const url = await postgresUrl(scope);
    const other = await openDatabase(url);
    scope.after(() => other.close());
    for (const [method, write] of Object.entries(METHODS))
      // 100 rows are copied, and 4,000 rows do not fit in the buffer of a request
      for (const count of /Many/.test(method) ? [1, 100, 4_000] : [1])
        await writesAfterChange({ url, other }, each, method, (db, value) => write(db, value, count), count);
  });

const VIEW = `create view items as select value from item;
  create rule put as on insert to items do instead insert into item (value) values (new.value);`;

async function writesAfterChange(
  { url, other }: Pair,
  { before, change, old, new: value, inTransaction }: Change,
  method: string,
  write: (db: Database, value: Parameter) => Promise<unknown>,
  count: number,
): Promise<void> {
  const place = `${method} of ${count}`;
  const stored = async (): Promise<number> =>
    Number(await other.scalar('select count(*) from item where value is not null'));
  await using db = await openDatabase(url, { pool: { max: 1 } });
  await other.script(
    `create type mood as enum ('low'); create table item (id serial, value ${before}); ${VIEW}`,
  );
  for (let use = 0; use < 3; use++) await write(db, old);
  await other.script(`drop view items; delete from item; ${change}; ${VIEW}`);
  if (method === 'execute in a transaction' && inTransaction === 'refused') {
    // the error may be the mistake of the caller, so that the transaction stays failed
    await assert.rejects(write(db, value as Parameter), DatabaseError, place);
    assert.equal(await stored(), 0, place);
  } else {
    await write(db, value as Parameter);
    assert.equal(await stored(), count, place);
  }
  await other.script('drop view items; drop table item; drop type mood');
}
