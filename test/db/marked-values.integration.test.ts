/**
 * Values of json(), typed() and sql inside lists, JSON documents and rows: they are stored as what they mean,
 * or refused with E_DB_PARAMETER, and never stored as `[object Object]`.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { json, openDatabase, sql, typed } from '../../src/db/index.ts';
import { fault } from '../contract/database.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import type { Database, Dialect, OwnType, Parameter } from '../../src/db/index.ts';

class Money {
  readonly cents: number;
  constructor(cents: number) {
    this.cents = cents;
  }
}

const MONEY: OwnType = { encode: ({ cents }: Money) => String(cents) };
const FIVE = typed('money_amount', new Money(5));

/** A value as a caller may write it in JavaScript, and what the engine stores; undefined if it refuses. */
interface Case {
  readonly what: string;
  readonly make: () => unknown;
  readonly stored?: Readonly<Partial<Record<Dialect, unknown>>>;
}

/** Columns `doc` (JSON) and `list` (a list of texts; only PostgreSQL has lists). */
const COLUMNS: Readonly<Record<Dialect, string>> = {
  sqlite: 'doc text, list text',
  postgres: 'doc jsonb, list text[]',
  mysql: 'doc json, list text',
  mariadb: 'doc json, list text',
};

const everywhere = (value: unknown): NonNullable<Case['stored']> => ({
  sqlite: value,
  postgres: value,
  mysql: value,
  mariadb: value,
});

const DOCUMENTS: readonly Case[] = [
  { what: 'json() in json()', make: () => json({ a: json([1]) }), stored: everywhere({ a: [1] }) },
  { what: 'json() in an object', make: () => ({ a: json([1]) }), stored: { postgres: { a: [1] } } },
  { what: 'json() in a list', make: () => [json({ a: 1 }), 2], stored: { postgres: [{ a: 1 }, 2] } },
  { what: 'typed() in json()', make: () => json([FIVE]) },
  { what: 'typed() in an object', make: () => ({ a: FIVE }) },
  { what: 'typed() in a list of objects', make: () => [{ a: FIVE }] },
  { what: 'sql in json()', make: () => json([sql`1`]) },
  { what: 'sql in an object', make: () => ({ a: sql`1` }) },
  { what: 'sql', make: () => sql`1` },
];

const LISTS: readonly Case[] = [
  { what: 'typed() in a list', make: () => [FIVE, null, 'b'], stored: { postgres: ['5', null, 'b'] } },
  { what: 'typed() in a nested list', make: () => [[FIVE], ['b']], stored: { postgres: [['5'], ['b']] } },
  { what: 'json() in a list', make: () => [json([1])], stored: { postgres: ['[1]'] } },
  { what: 'typed() of an unknown type in a list', make: () => [typed('unknown', 1)] },
  { what: 'sql in a list', make: () => [sql`1`] },
];

/** Ways to store a value in a column. */
const WAYS: Readonly<
  Record<string, (db: Database, column: string, make: () => unknown) => Promise<unknown>>
> = {
  execute: async (db, column, make) =>
    db.execute(`insert into marked (${column}) values (?)`, [make() as Parameter]),
  template: async (db, column, make) =>
    db.execute(sql`insert into marked (${sql.identifier(column)}) values (${make() as Parameter})`),
  executeMany: async (db, column, make) =>
    db.executeMany(`insert into marked (${column}) values (?)`, [[null], [make() as Parameter]]),
  insertMany: async (db, column, make) => db.insertMany('marked', [column], [[make() as Parameter]]),
  'insertMany of many rows': async (db, column, make) => {
    const row = [make() as Parameter];
    return db.insertMany(
      'marked',
      [column],
      Array.from({ length: 100 }, () => row),
    );
  },
};

async function checkCases(
  db: Database,
  column: string,
  cases: readonly Case[],
  isRefused: boolean,
): Promise<void> {
  for (const { what, make, stored } of cases)
    for (const [way, store] of Object.entries(WAYS)) {
      // an sql template joins another one, instead of binding it
      if (way === 'template' && what === 'sql') continue;
      const place = `${what}, ${way}`;
      await db.execute('delete from marked');
      if (isRefused || stored?.[db.dialect] === undefined) {
        await assert.rejects(store(db, column, make), fault('E_DB_PARAMETER'), place);
        assert.equal(Number(await db.scalar('select count(*) from marked')), 0, place);
        continue;
      }
      await store(db, column, make);
      const found = await db.scalar(`select ${column} from marked where ${column} is not null`);
      const value = column === 'doc' && typeof found === 'string' ? JSON.parse(found) : found;
      assert.deepEqual(value, stored[db.dialect], place);
    }
}

onEveryDatabase(
  'values of json(), typed() and sql inside other values are stored or refused',
  async (db, url) => {
    await db.script(`create table marked (${COLUMNS[db.dialect]})`);
    await using typing = await openDatabase(url, { types: { money_amount: MONEY } });
    await checkCases(typing, 'doc', DOCUMENTS, false);
    await checkCases(typing, 'list', LISTS, false);
    await checkCases(
      db,
      'list',
      LISTS.filter(({ what }) => what.startsWith('typed()')),
      true,
    );
  },
);

onEveryDatabase('a row that is not a list of values is refused', async (db, url) => {
  await db.script(`create table marked (${COLUMNS[db.dialect]})`);
  await using typing = await openDatabase(url, { types: { money_amount: MONEY } });
  for (const each of [db, typing])
    for (const row of [
      1,
      null,
      'x',
      FIVE,
      json([1]),
      { doc: 1 },
      new Uint8Array(1),
    ] as unknown as (readonly Parameter[])[]) {
      await assert.rejects(each.insertMany('marked', ['doc'], [row]), {
        code: 'E_DB_PARAMETER_COUNT',
        message: /of row 1: the number of placeholders is 1, but the values are not a list/,
      });
      await assert.rejects(
        each.executeMany('insert into marked (doc) values (?)', [row]),
        fault('E_DB_PARAMETER_COUNT'),
      );
    }
});

test('values of typed() and sql cannot be converted to text or JSON, and a value of json() is its JSON', () => {
  for (const value of [FIVE, sql`1`]) {
    assert.throws(() => `${value as unknown as string}`, fault('E_DB_PARAMETER'));
    assert.throws(() => String(value), fault('E_DB_PARAMETER'));
    assert.throws(() => JSON.stringify({ a: value }), fault('E_DB_PARAMETER'));
  }
  assert.equal(String(json([1])), '[1]');
  assert.equal(JSON.stringify({ a: json([1]) }), '{"a":[1]}');
});

onEveryDatabase('a row that is undefined rejects, and no row is stored', async (db) => {
  await db.script('create table item (id integer)');
  const rows = [[1], undefined, [2]] as unknown as (readonly Parameter[])[];
  for (const store of [
    () => db.executeMany('insert into item (id) values (?)', rows),
    () => db.insertMany('item', ['id'], rows),
  ]) {
    await assert.rejects(store());
    assert.equal(Number(await db.scalar('select count(*) from item')), 0);
  }
});
