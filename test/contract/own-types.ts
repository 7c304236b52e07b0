/**
 * Types of a program's own: read and written by its functions on every engine.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { DataError, sql, typed } from '../../src/db/index.ts';
import { Field, Schema, any, int } from '../../src/schema/schema.ts';
import { fault } from './database.ts';
import type { Database, DatabaseOptions, Dialect, OwnType } from '../../src/db/index.ts';

/** A database with these options; undefined where it has been skipped. */
type OpenWith = (t: TestContext, options: DatabaseOptions) => Promise<Database | undefined>;

class Money {
  readonly cents: number;
  constructor(cents: number) {
    this.cents = cents;
  }
}

/** A type of each engine that a client knows as text or not at all, and how its text is read and written. */
interface Kind {
  readonly name: string;
  readonly column: string;
  readonly create: string;
  /** A placeholder for a value of it that is compared. */
  readonly placeholder: string;
  text(cents: number): string;
}

const decimal = (cents: number): string => (cents / 100).toFixed(2);
const OF_MYSQL: Kind = {
  name: 'decimal',
  column: 'decimal(12, 2)',
  create: '',
  placeholder: '?',
  text: decimal,
};
const KINDS: Readonly<Record<Dialect, Kind>> = {
  sqlite: {
    name: 'money_amount',
    column: 'Money_Amount(12)',
    create: '',
    placeholder: '?',
    text: (cents) => `EUR ${decimal(cents)}`,
  },
  postgres: {
    name: 'money_amount',
    column: 'money_amount',
    create: 'create type money_amount as (amount numeric, currency text);',
    placeholder: '?::money_amount',
    text: (cents) => `(${decimal(cents)},EUR)`,
  },
  mysql: OF_MYSQL,
  mariadb: OF_MYSQL,
};

function typesOf(dialect: Dialect): Record<string, OwnType> {
  const { name, text } = KINDS[dialect];
  return {
    [name]: {
      parse: (found: string) => {
        const cents = Math.round(Number(/-?\d+(?:\.\d+)?/.exec(found)![0]) * 100);
        if (cents < 0) throw new RangeError('a debt');
        return new Money(cents);
      },
      encode: ({ cents }: Money) => {
        if (!Number.isInteger(cents)) throw new RangeError('a fraction');
        return text(cents);
      },
    },
  };
}

/** Registers the tests for one kind of database. */
export function ownTypeContract(name: string, dialect: Dialect, open: OpenWith): void {
  const { name: type, column, create, placeholder, text } = KINDS[dialect];

  test(`${name} reads and writes values of a custom type with every method`, async (t) => {
    const db = await open(t, { types: typesOf(dialect) });
    if (db === undefined) return;
    await db.script(`${create} create table price (id integer primary key, amount ${column}, other integer)`);
    const money = (cents: number) => typed(type, new Money(cents));
    const insert = 'insert into price (id, amount) values (?, ?)';
    for (let use = 1; use <= 3; use++) await db.execute(insert, [use, money(use * 100 + 5)]);
    await db.execute(sql`insert into price (id, amount, other) values (${4}, ${typed(type, null)}, ${9})`);
    await db.executeMany(insert, [[5, money(505)], [6, null]]); // prettier-ignore
    await db.insertMany(
      'price',
      ['id', 'amount'],
      Array.from({ length: 200 }, (_, index) => [100 + index, money(index)]),
    );
    async function* more(): AsyncGenerator<readonly [number, ReturnType<typeof money>], void, undefined> {
      yield [7, money(707)];
    }
    await db.insertMany('price', ['id', 'amount'], more());
    const query = 'select id, amount, other from price where id < ? order by id';
    const amounts = [105, 205, 305, null, 505, null, 707];
    const expected = amounts.map((cents, index) => ({
      id: index + 1,
      amount: cents === null ? null : new Money(cents),
      other: index === 3 ? 9 : null,
    }));
    for (let use = 0; use < 3; use++) {
      assert.deepEqual(await db.fetchAll(query, [100]), expected);
      assert.deepEqual(await db.fetchOne(query, [100]), expected[0]);
      assert.deepEqual((await db.fetchArrays(query, [2])).rows, [[1, new Money(105), null]]);
      assert.deepEqual(await db.scalar('select amount from price where id = ?', [2]), new Money(205));
      assert.equal(await db.scalar('select amount from price where id = ?', [4]), null);
      assert.equal(
        await db.scalar(`select count(*) from price where amount = ${placeholder}`, [money(107)], {
          as: int,
        }),
        1,
      );
    }
    const streamed: unknown[] = [];
    for await (const row of db.stream(query, [100])) streamed.push(row);
    assert.deepEqual(streamed, expected);
    await db.transaction(async (tx) => {
      await tx.execute('update price set amount = ? where id = ?', [money(1), 1]);
      await tx.transaction((inner) => inner.executeMany(insert, [[8, money(808)]]));
      assert.deepEqual(await tx.scalar('select amount from price where id = 8'), new Money(808));
    });
    class Price extends Schema {
      id = Field(int);
      amount = Field(any);
    }
    const price = await db.fetchOne(query, [2], { as: Price });
    if (dialect !== 'sqlite') assert.deepEqual({ ...price }, { id: 1, amount: new Money(1) });
    assert.equal(await db.scalar('select count(*) from price', [], { as: int }), 208);
  });

  test(`${name}: if parse() or encode() of a custom type throws, the error names the type, and the database stays usable`, async (t) => {
    const db = await open(t, { types: typesOf(dialect), pool: { max: 1 } });
    if (db === undefined) return;
    await db.script(`${create} create table price (id integer primary key, amount ${column})`);
    await db.insertMany('price', ['id', 'amount'], [[1, text(100)], [2, text(-100)], [3, text(300)]]); // prettier-ignore
    const refused = (error: unknown): boolean =>
      error instanceof DataError &&
      error.message.includes(`"${type}"`) &&
      (error.cause as Error).message === 'a debt';
    for (let use = 0; use < 3; use++) {
      await assert.rejects(db.fetchAll('select * from price order by id'), refused);
      await assert.rejects(db.scalar('select amount from price where id = ?', [2]), refused);
      await assert.rejects(async () => {
        for await (const _ of db.stream('select * from price where id > ?', [0]));
      }, refused);
      await db.transaction(async (tx) => {
        await assert.rejects(tx.fetchOne('select amount from price where id = ?', [2]), refused);
        assert.deepEqual(await tx.scalar('select amount from price where id = ?', [3]), new Money(300));
      });
    }
    assert.deepEqual([db.load.inUse, db.load.waiting], [0, 0]);
    const insert = 'insert into price (id, amount) values (?, ?)';
    const parameter = fault('E_DB_PARAMETER');
    await assert.rejects(db.execute(insert, [9, typed(type, new Money(0.5))]), (error) => {
      assert.match((error as Error).message, /parameter 2/);
      assert.equal(((error as Error).cause as Error).message, 'a fraction');
      return parameter(error);
    });
    await assert.rejects(db.executeMany(insert, [[8, null], [9, typed(type, new Money(0.5))]]), /parameter 2 of row 2/); // prettier-ignore
    await assert.rejects(db.execute(insert, [9, typed(`${type}x`, 1)]), (error) => {
      assert.match((error as Error).message, new RegExp(`did you mean "${type}"`));
      return parameter(error);
    });
    assert.equal(await db.scalar('select count(*) from price', [], { as: int }), 3);
  });

  test(`${name} refuses invalid custom types, and refuses a value of a custom type that is not declared`, async (t) => {
    const bad: readonly (readonly [unknown, string])[] = [
      [{ [type]: {} }, 'E_DB_OPTION'],
      [{ [type]: 5 }, 'E_DB_OPTION'],
      [{ [type]: { parse: 'x' } }, 'E_OPTION_RANGE'],
      [{ [type]: { pars: String } }, 'E_OPTION_UNKNOWN'],
      [[], 'E_OPTION_RANGE'],
      ...(dialect === 'sqlite' ? [] : [[{ text: { parse: String } }, 'E_DB_OPTION'] as const]),
    ];
    for (const [types, code] of bad)
      await assert.rejects(
        open(t, { types: types as never }).then((db) => {
          if (db === undefined) throw Object.assign(new Error('skipped'), { code });
        }),
        { code },
      );
    const db = await open(t, {});
    if (db === undefined) return;
    await assert.rejects(db.scalar('select ?', [typed(type, 1)]), fault('E_DB_PARAMETER'));
    assert.equal(await db.scalar('select 1'), 1);
  });
}
