/**
 * Kinds of SQLite statements: which statements read row by row, which run only once, and which insert reports a
 * key.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { openDatabase, type Database } from '../../../src/db/index.ts';
import { BATCH_ROWS } from '../../../src/db/sqlite/statement.ts';
import { folder } from '../../support/run.ts';

/** Opens a database with these tables, closed after the test. By default it is in memory. */
async function opened(t: TestContext, script: string, url: string = 'sqlite::memory:'): Promise<Database> {
  const db = await openDatabase(url);
  t.after(() => db.close());
  await db.script(script);
  return db;
}

const rowsOf = async (db: Database, text: string): Promise<unknown[]> => {
  const rows: unknown[] = [];
  for await (const row of db.stream(text)) rows.push(row);
  return rows;
};

/** Every way to read the rows of a statement. Each returns the first value of the first row. */
const READS: Readonly<Record<string, (db: Database, text: string) => Promise<unknown>>> = {
  fetchOne: async (db, text) => (await db.fetchOne(text))?.['v'],
  fetchAll: async (db, text) => (await db.fetchAll(text))[0]?.['v'],
  fetchArrays: async (db, text) => (await db.fetchArrays(text)).rows[0]?.[0],
  scalar: (db, text) => db.scalar(text),
  stream: async (db, text) => ((await rowsOf(db, text))[0] as { v: unknown } | undefined)?.v,
};

/** A table whose row after the first batch cannot be read. */
const DAMAGED = `create table entry (id integer primary key, v text);
  insert into entry
    with recursive c (n) as (select 1 union all select n + 1 from c where n <= ${BATCH_ROWS}) select n, n from c;
  update entry set v = 'no JSON' where id = ${BATCH_ROWS + 1}`;

for (const [kind, text] of [
  ['SELECT', 'select json(v) as v from entry order by id'],
  ['WITH that only reads', 'with e as (select * from entry) select json(v) as v from e order by id'],
] as const) {
  test(`SQLite reads the rows of ${kind} one after another, so an error in a later row does not affect earlier rows`, async (t) => {
    // a stream of a database in memory reads all rows at once
    const db = await opened(t, DAMAGED, `sqlite:${join(folder(t), 'data.db')}`);
    assert.deepEqual(await db.fetchOne(text), { v: '1' });
    assert.equal(await db.scalar(text), '1');
    const seen: unknown[] = [];
    await assert.rejects(async () => {
      for await (const { v } of db.stream(text)) seen.push(v);
    }, /malformed JSON/);
    assert.deepEqual(
      seen,
      Array.from({ length: BATCH_ROWS }, (_, index) => String(index + 1)),
    );
    await assert.rejects(db.fetchAll(text), /malformed JSON/);
    await assert.rejects(db.fetchArrays(text), /malformed JSON/);
  });
}

/** An integer that does not fit in a number. A statement that only reads would run again to read it. */
const WIDE = 9_007_199_254_740_993n;

for (const [kind, text] of [
  ['INSERT', `insert into entry (v) values (${WIDE}) returning v`],
  ['REPLACE', `replace into entry (v) values (${WIDE}) returning v`],
  ['UPDATE', 'update entry set v = v + 1 where id = 1 returning v'],
  ['DELETE', 'delete from entry where id = 2 returning v'],
  ['WITH and INSERT', `with x as (select ${WIDE} as v) insert into entry (v) select v from x returning v`],
  [
    'WITH and UPDATE',
    'with x as (select 1 as id) update entry set v = v + 1 where id in (select id from x) returning v',
  ],
  [
    'WITH and DELETE',
    'with x as (select 2 as id) delete from entry where id in (select id from x) returning v',
  ],
] as const) {
  test(`SQLite runs ${kind} with RETURNING only once, even if it returns an integer beyond 2^53`, async (t) => {
    for (const [method, read] of Object.entries(READS)) {
      const db = await opened(
        t,
        `create table entry (id integer primary key, v integer);
         create table change (id integer primary key);
         insert into entry values (1, ${WIDE - 1n}), (2, ${WIDE});
         create trigger i after insert on entry begin insert into change values (null); end;
         create trigger u after update on entry begin insert into change values (null); end;
         create trigger d after delete on entry begin insert into change values (null); end`,
      );
      assert.equal(await read(db, text), WIDE, method);
      assert.equal(await db.scalar('select count(*) from change'), 1, method);
    }
  });
}

const TABLES = `create table keyed (id integer primary key, a);
  create table plain (k integer primary key, a) without rowid;
  create view seen as select * from keyed;
  insert into keyed (id) values (40)`;
const INTO_KEYED = 'begin insert into keyed (id) values (90); end';
const INTO_PLAIN = 'begin insert into plain (k) values (90); end';

for (const [what, trigger, text, expected] of [
  ['a table with row keys', '', 'insert into keyed (id) values (50)', [1, 50]],
  ['a table without row keys', '', 'insert into plain (k) values (50)', [1, undefined]],
  [
    'a table with row keys, from one without',
    '',
    'insert into keyed (a) select k from plain',
    [0, undefined],
  ],
  [
    'a table without row keys, from one with',
    '',
    'insert into plain (k) select id from keyed',
    [1, undefined],
  ],
  [
    'a table without row keys whose value is read from a table with row keys',
    '',
    'insert into plain (k) values ((select max(id) from keyed))',
    [1, undefined],
  ],
  [
    'a table with row keys, and a trigger before it inserts into a table without them',
    `create trigger x before insert on keyed ${INTO_PLAIN}`,
    'insert into keyed (id) values (50)',
    [1, 50],
  ],
  [
    'a table with row keys, and a trigger after it inserts into a table without them',
    `create trigger x after insert on keyed ${INTO_PLAIN}`,
    'insert into keyed (id) values (50)',
    [1, 50],
  ],
  [
    'a table without row keys, and a trigger before it inserts into a table with them',
    `create trigger x before insert on plain ${INTO_KEYED}`,
    'insert into plain (k) values (50)',
    [1, undefined],
  ],
  [
    'a table without row keys, and a trigger after it inserts into a table with them',
    `create trigger x after insert on plain ${INTO_KEYED}`,
    'replace into plain (k) values (50)',
    [1, undefined],
  ],
  [
    'a view, and its trigger inserts into a table with row keys',
    `create trigger x instead of insert on seen ${INTO_KEYED}`,
    'insert into seen (id) values (50)',
    [0, undefined],
  ],
] as const) {
  test(`SQLite reports the number of rows and the key of an insert into ${what}`, async (t) => {
    const db = await opened(t, `${TABLES}; ${trigger}`);
    const [affectedRows, lastInsertId] = expected;
    for (let round = 0; round < 2; round++) {
      assert.deepEqual(await db.execute(text), { affectedRows, lastInsertId });
      await db.script('delete from keyed where id > 40; delete from plain');
    }
  });
}

test('SQLite reports the key of an insert into a virtual table, also if the connection opens the table for this insert', async (t) => {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  const first = await opened(t, 'create virtual table page using fts5(text)', url);
  await first.close();
  const db = await opened(t, '', url);
  for (const id of [7, 8])
    assert.deepEqual(await db.execute('insert into page (rowid, text) values (?, ?)', [id, 'a']), {
      affectedRows: 1,
      lastInsertId: id,
    });
});
