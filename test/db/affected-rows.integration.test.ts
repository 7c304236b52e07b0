/** The number of rows affected, with and without the clause `returning`, on every engine. */
import assert from 'node:assert/strict';
import { onEveryDatabase } from '../support/every-database.ts';
import type { Dialect, Params } from '../../src/db/index.ts';

interface Case {
  readonly text: string;
  /** Rows of values for executeMany(). Without them, execute() runs the statement with no values. */
  readonly rows?: readonly Params[];
  readonly affected: number;
  /** Engines that have no such clause, although they have `returning` elsewhere. */
  readonly not?: readonly Dialect[];
}

const CASES: readonly Case[] = [
  { text: 'insert into item (id, n) values (1, 1), (2, 2), (3, 3)', affected: 3 },
  { text: 'insert into item (id, n) select id + 10, n from item', affected: 3 },
  {
    text: 'insert into item (id, n) values (?, ?)',
    rows: [
      [20, 20],
      [21, 21],
    ],
    affected: 2,
  },
  { text: 'update item set n = n + 1 where id < 3', affected: 2, not: ['mariadb'] },
  { text: 'update item set n = n + 1 where id = ?', rows: [[1], [2], [99]], affected: 2, not: ['mariadb'] },
  { text: 'delete from item where id = 99', affected: 0 },
  { text: 'delete from item where id = ?', rows: [[1], [98], [2]], affected: 2 },
  { text: 'delete from item where id = ?', rows: [[98], [99]], affected: 0 },
  { text: 'delete from item where id > 2', affected: 6 },
];

onEveryDatabase('execute() and executeMany() return the number of rows affected', async (db) => {
  await db.script('create table item (id integer primary key, n integer)');
  for (const clause of ['', ' returning id', ' returning id, n']) {
    if (clause !== '' && db.dialect === 'mysql') continue; // MySQL has no such clause
    for (const { text, rows, affected, not = [] } of CASES) {
      const whole = not.includes(db.dialect) ? text : `${text}${clause}`;
      const found =
        rows === undefined ? (await db.execute(whole)).affectedRows : await db.executeMany(whole, rows);
      assert.equal(found, affected, whole);
    }
    assert.deepEqual(await db.execute('select id from item'), { affectedRows: 0, lastInsertId: undefined });
    assert.equal(Number(await db.scalar('select count(*) from item')), 0);
  }
});

onEveryDatabase('reading through execute() affects no rows', async (db) => {
  await db.script('create table item (id integer primary key, n integer)');
  await db.execute('insert into item (id, n) values (1, 1), (2, 2)');
  const reading = ['select id from item', 'with listed as (select id from item) select id from listed'];
  for (const text of reading)
    for (let use = 0; use < 3; use++) assert.equal((await db.execute(text)).affectedRows, 0, text);
});
