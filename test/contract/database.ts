/**
 * What every database does, whichever driver is below it.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { SvcError, type FaultCode } from '../../src/errors.ts';
import { sql, json, DatabaseError, CheckViolation, ForeignKeyViolation, NotNullViolation, QueryCanceled, QueryTimeout, ReadOnly, StatementError, UniqueViolation } from '../../src/db/index.ts';
import type { Database, Session, Transaction } from '../../src/db/index.ts';

/** A database under test: without tables, closed after the test. */
export type OpenDatabase = (t: TestContext) => Promise<Database>;

/** The schema of these tests, in the words that all dialects share. */
const SCHEMA = `
  create table parent (id integer primary key, name varchar(100) not null unique);
  create table child (id integer primary key, parent integer not null references parent (id), rank_no integer check (rank_no < 100));
  create table item (id integer primary key, label text, amount integer);`;

/** An SvcError of this code. */
export function fault(code: FaultCode): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof SvcError, `expected ${code}, got ${String(error)}`);
    assert.equal(error.code, code);
    return true;
  };
}

/** Registers the contract's tests for one kind of database. */
export function databaseContract(name: string, open: OpenDatabase): void {
  function contract(does: string, run: (db: Database, t: TestContext) => Promise<void>): void {
    test(`${name} ${does}`, async (t) => {
      const db = await open(t);
      await db.script(SCHEMA);
      await run(db, t);
    });
  }
  const items = async (session: Session): Promise<unknown[]> => (await session.fetchAll<{ label: string }>('select label from item order by id')).map(({ label }) => label);
  const add = (session: Session, label: string): Promise<unknown> => session.execute('insert into item (label) values (?)', [label]);

  // ── verbs ──

  contract('tells affected rows and the last key of an insert', async (db) => {
    assert.deepEqual(await db.execute('insert into item (id, label) values (?, ?)', [7, 'a']), { affectedRows: 1, lastInsertId: 7 });
    assert.deepEqual(await db.execute('insert into item (label) values (?), (?)', ['b', 'c']), { affectedRows: 2, lastInsertId: 9 });
    assert.deepEqual(await db.execute('update item set amount = 1 where id > ?', [7]), { affectedRows: 2, lastInsertId: undefined });
    assert.deepEqual(await db.execute('delete from item where id = ?', [100]), { affectedRows: 0, lastInsertId: undefined });
    assert.deepEqual(await db.execute('create table another (id integer primary key)'), { affectedRows: 0, lastInsertId: undefined });
    assert.equal((await db.execute('select * from item')).affectedRows, 0);
  });

  contract('keeps what a statement wrote whose rows were read, all of them or only the first', async (db) => {
    assert.deepEqual(await db.fetchOne('insert into item (id, label) values (1, ?), (2, ?) returning id', ['a', 'b']), { id: 1 });
    assert.deepEqual(await db.fetchAll('insert into item (id, label) values (3, ?) returning id, label', ['c']), [{ id: 3, label: 'c' }]);
    assert.equal(await db.scalar('update item set amount = id returning amount'), 1);
    assert.equal(await db.scalar('select sum(amount) from item'), 6);
    await assert.rejects(db.fetchOne('insert into item (id) values (9), (1) returning id'), UniqueViolation);
    assert.equal(await db.scalar('select count(*) from item'), 3);
  });

  contract('gives rows as plain objects, and undefined where there is none', async (db) => {
    await db.insertMany('item', ['id', 'label', 'amount'], [[1, 'a', 10], [2, 'b', null]]);
    assert.deepEqual(await db.fetchAll('select id, label, amount from item order by id'), [{ id: 1, label: 'a', amount: 10 }, { id: 2, label: 'b', amount: null }]);
    assert.deepEqual(await db.fetchAll('select * from item where id = ?', [2]), [{ id: 2, label: 'b', amount: null }]);
    assert.deepEqual(await db.fetchOne('select * from item where id = ?', [1]), { id: 1, label: 'a', amount: 10 });
    assert.deepEqual(await db.fetchOne('select label from item where id = ?', [1]), { label: 'a' });
    assert.equal(await db.fetchOne('select * from item where id = ?', [3]), undefined);
    assert.deepEqual(await db.fetchAll('select * from item where id = ?', [3]), []);
    assert.equal(await db.scalar('select count(*) from item'), 2);
    assert.equal(await db.scalar('select label from item where id = 9'), undefined);
  });

  contract('gives lists with their columns where two columns share a name; in an object the last one counts', async (db) => {
    await db.insertMany('item', ['id', 'label'], [[1, 'a'], [2, 'b']]);
    const text = 'select a.label, b.label, 1 as __proto__ from item a, item b where a.id = 1 and b.id = 2';
    const { columns, rows } = await db.fetchArrays(text);
    assert.deepEqual(rows, [['a', 'b', 1]]);
    assert.deepEqual(columns.map((column) => column.name), ['label', 'label', '__proto__']);
    assert.deepEqual([columns[0]!.table, columns[0]!.type?.toLowerCase(), columns[2]!.table], ['item', 'text', undefined]);
    const row = (await db.fetchOne(text))!;
    assert.equal(row['label'], 'b');
    assert.deepEqual([Object.keys(row), Object.getPrototypeOf(row)], [['label', '__proto__'], Object.prototype]);
  });

  contract('gives columns by their present names when the table behind a * changes', async (db) => {
    await db.execute('insert into item (id, label) values (?, ?)', [1, 'a']);
    assert.deepEqual(Object.keys((await db.fetchOne('select * from item'))!), ['id', 'label', 'amount']);
    await db.fetchAll('select * from item');
    await db.script('alter table item rename column label to title; alter table item add column extra integer');
    assert.deepEqual(Object.keys((await db.fetchOne('select * from item'))!), ['id', 'title', 'amount', 'extra']);
    assert.deepEqual(Object.keys((await db.fetchAll('select * from item'))[0]!), ['id', 'title', 'amount', 'extra']);
  });

  contract('runs executeMany() and insertMany() for all rows or for none', async (db) => {
    assert.equal(await db.insertMany('item', ['id', 'label'], Array.from({ length: 3_000 }, (_, id) => [id, `label ${id}`])), 3_000);
    assert.equal(await db.executeMany('update item set amount = ? where id = ?', [[1, 0], [2, 1], [3, 99_999]]), 2);
    await assert.rejects(db.insertMany('parent', ['id', 'name'], [[1, 'a'], [2, 'b'], [3, 'a']]), UniqueViolation);
    assert.equal(await db.scalar('select count(*) from parent'), 0);
    await db.transaction(async (tx) => {
      await tx.execute('insert into parent (id, name) values (9, ?)', ['kept']);
      await assert.rejects(tx.insertMany('parent', ['id', 'name'], [[1, 'a'], [1, 'b']]), UniqueViolation);
    });
    assert.deepEqual(await db.fetchAll('select name from parent'), [{ name: 'kept' }]);
    assert.equal(await db.insertMany('item', ['id'], []), 0);
    await assert.rejects(db.insertMany('item', [], [[]]), fault('E_DB_STATEMENT'));
    await assert.rejects(db.insertMany('item', ['id', 'label'], [[70_000, 'a'], [70_001]]), (error) => fault('E_DB_PARAMETER_COUNT')(error) && /row 2/.test((error as Error).message));
    await assert.rejects(db.insertMany('item', ['id'], [[70_000], [NaN]]), (error) => fault('E_DB_PARAMETER')(error) && /parameter 1 of row 2/.test((error as Error).message));
  });

  contract('streams rows in order, in batches, and stops when the loop is left', async (db) => {
    await db.insertMany('item', ['id', 'label'], Array.from({ length: 1_000 }, (_, id) => [id, `${id}`]));
    const seen: number[] = [];
    for await (const { id } of db.stream<{ id: number }>('select id from item order by id')) seen.push(id);
    assert.deepEqual(seen, Array.from({ length: 1_000 }, (_, id) => id));
    for await (const { id } of db.stream<{ id: number }>(sql`select id from item where id >= ${500} order by id`)) {
      if (id === 502) break;
    }
    await db.execute('delete from item');
    for await (const _ of db.stream('select id from item')) assert.fail('there is no row');
    await db.transaction(async (tx) => {
      await tx.insertMany('item', ['id'], [[1], [2]]);
      const found: unknown[] = [];
      for await (const row of tx.stream('select id from item order by id')) found.push(row, await tx.scalar('select count(*) from item'));
      assert.deepEqual(found, [{ id: 1 }, 2, { id: 2 }, 2]);
    });
  });

  contract('keeps a slow stream from holding up those who write', async (db) => {
    await db.insertMany('item', ['id'], Array.from({ length: 1_000 }, (_, id) => [id]));
    let rows = 0;
    for await (const _ of db.stream('select id from item')) {
      if (++rows === 1) await db.execute('insert into item (id) values (5000)');
    }
    assert.equal(rows, 1_000);
    assert.equal(await db.scalar('select count(*) from item'), 1_001);
  });

  contract('ends a stream of a transaction with it, and refuses its next batch', async (db) => {
    await db.insertMany('item', ['id'], Array.from({ length: 1_000 }, (_, id) => [id]));
    const stream = await db.transaction(async (tx) => {
      const rows = tx.stream('select id from item');
      await rows.next();
      return rows;
    });
    await assert.rejects((async () => { for await (const _ of stream); })(), fault('E_DB_OVER'));
    await db.execute('delete from item');
  });

  contract('runs scripts of several statements, up to the first that fails', async (db) => {
    await db.script(`-- a comment; with a semicolon
      insert into item (id, label) values (1, 'a;b');
      /* another; one */ insert into item (id, label) values (2, 'c''d');;`);
    assert.deepEqual(await items(db), ['a;b', 'c\'d']);
    await assert.rejects(db.script('insert into item (id) values (3); nonsense; insert into item (id) values (4)'), StatementError);
    assert.equal(await db.scalar('select max(id) from item'), 3);
    await db.script('');
    await assert.rejects(db.script('insert into item (id) values (9); commit'), fault('E_DB_STATEMENT'));
    assert.equal(await db.scalar('select max(id) from item'), 3);
  });

  // ── templates ──

  contract('binds the values of a template, and composes pieces', async (db) => {
    await db.insertMany('item', ['id', 'label', 'amount'], [[1, 'a', 1], [2, 'b', 2], [3, 'c\' or 1=1 --', 3]]);
    assert.deepEqual(await db.fetchAll(sql`select id from item where label = ${'c\' or 1=1 --'}`), [{ id: 3 }]);
    const few = sql`amount < ${3}`;
    const rows = await db.fetchAll(sql`select ${sql.identifier('id')} from ${sql.identifier('item')} where ${few} and id in (${sql.join([1, 2, 3])}) order by ${sql.identifier('item', 'id')}`);
    assert.deepEqual(rows, [{ id: 1 }, { id: 2 }]);
    assert.equal(await db.scalar(sql`select count(*) from item where ${sql.join([few, sql`id = ${1}`], sql` and `)}`), 1);
    assert.deepEqual(await db.execute(sql`update item set amount = ${null} where id = ${1}`), { affectedRows: 1, lastInsertId: undefined });
    assert.deepEqual((await db.fetchArrays(sql`select amount from item where id = ${1}`)).rows, [[null]]);
    assert.deepEqual(await db.fetchOne(sql`select id from item where id = ${1}`, { timeoutMs: 60_000 }), { id: 1 });
  });

  // ── values ──

  contract('brings values back as they were', async (db) => {
    const through = (value: string | number | bigint | Uint8Array | null): Promise<unknown> => db.scalar('select ? as value', [value]);
    for (const value of ['', 'grüße 漢字 😀', 'line\r\nfeeds', '\'"`;--', null, 0, -1, 1.5, 1e300, 2 ** 53 - 1, -(2 ** 53 - 1)]) assert.equal(await through(value), value);
    assert.deepEqual(await through(new Uint8Array([0, 1, 255])), new Uint8Array([0, 1, 255]));
    for (const value of [2n ** 53n, -(2n ** 53n), 2n ** 53n + 1n, 2n ** 63n - 1n, -(2n ** 63n)]) assert.equal(await through(value), value);
    for (const value of [0n, 5n, 2n ** 53n - 1n]) assert.equal(await through(value), Number(value));
  });

  contract('refuses values that would arrive as something else, by their place', async (db) => {
    const circle: unknown[] = [];
    circle.push(circle);
    const values: unknown[] = [undefined, NaN, Infinity, { secret: 'hidden' }, ['secret'], new Map(), new Date(NaN), 'half \ud800', () => 'secret', Symbol('secret'), 2n ** 63n, Promise.resolve('secret'), new (class Secret { })()];
    for (const value of values) {
      await assert.rejects(db.fetchOne('select ?, ?', [1, value as never]), (error) => {
        assert.ok(fault('E_DB_PARAMETER')(error));
        assert.match((error as Error).message, /parameter 2/);
        assert.doesNotMatch((error as Error).message, /secret|hidden/);
        return true;
      });
    }
    for (const value of [undefined, () => 1, circle, 1n]) assert.throws(() => json(value), fault('E_DB_PARAMETER'));
    await assert.rejects(db.fetchOne('select ?', { a: 1 } as never), fault('E_DB_PARAMETER'));
    await assert.rejects(db.fetchOne(undefined as never), fault('E_DB_STATEMENT'));
    await assert.rejects(db.fetchOne({ text: 'select 1' } as never), fault('E_DB_STATEMENT'));
  });

  contract('refuses a number of values other than that of the placeholders', async (db) => {
    for (const params of [[], [1], [1, 2, 3]]) await assert.rejects(db.fetchOne('select ?, ?', params), fault('E_DB_PARAMETER_COUNT'));
    await assert.rejects(db.fetchOne('select \'?\', "id" from item -- ?', [1]), fault('E_DB_PARAMETER_COUNT'));
  });

  contract('stores what json() wraps as JSON text', async (db) => {
    await db.execute('insert into item (id, label) values (?, ?)', [1, json({ a: [1, null, 'x'] })]);
    assert.deepEqual(JSON.parse((await db.scalar<string>('select label from item'))!), { a: [1, null, 'x'] });
  });

  // ── errors ──

  contract('says which constraint was violated, with the statement and without its values', async (db) => {
    await db.execute('insert into parent (id, name) values (?, ?)', [1, 'taken']);
    const cases = [
      [UniqueViolation, 'unique', '23505', 'insert into parent (id, name) values (?, ?)', [2, 'taken']],
      [UniqueViolation, 'unique', '23505', 'insert into parent (id, name) values (?, ?)', [1, 'secret']],
      [NotNullViolation, 'not_null', '23502', 'insert into parent (id, name) values (?, ?)', [3, null]],
      [ForeignKeyViolation, 'foreign_key', '23503', 'insert into child (id, parent) values (?, ?)', [1, 987_654]],
      [CheckViolation, 'check', '23514', 'insert into child (id, parent, rank_no) values (?, ?, ?)', [1, 1, 987_654]],
    ] as const;
    for (const [Class, code, sqlstate, text, params] of cases) {
      await assert.rejects(db.execute(text, params), (error) => {
        assert.ok(error instanceof Class && error instanceof DatabaseError, String(error));
        assert.deepEqual([error.name, error.code, error.sqlstate, error.sql, error.isRetryable, typeof error.errno], [Class.name, code, sqlstate, text, false, 'number']);
        assert.doesNotMatch(`${error.message} ${JSON.stringify(error)}`, /taken|secret|987654/);
        return true;
      });
    }
    await assert.rejects(db.execute('insert into parent (id, name) values (2, ?)', ['taken']), (error) => {
      assert.deepEqual([(error as DatabaseError).table, (error as DatabaseError).columns], ['parent', ['name']]);
      return true;
    });
  });

  contract('says that a statement is wrong, and refuses what is none', async (db) => {
    for (const text of ['selec 1', 'select * from nowhere', 'select nothing from item']) await assert.rejects(db.fetchAll(text), StatementError);
    for (const text of ['', ' -- only a comment', 'select 1; drop table item', 'begin', 'COMMIT', '/* x */ rollback', 'savepoint a', 'release a']) await assert.rejects(db.execute(text), fault('E_DB_STATEMENT'));
    assert.equal(await db.scalar('select 1 ; -- and no more'), 1);
  });

  contract('lets the stack of an error begin at the caller', async (db) => {
    async function callerOfTheVerb(): Promise<void> { await db.execute('nonsense'); }
    const inTransaction = (): Promise<void> => db.transaction(async function callerInside(tx) { await tx.execute('nonsense'); });
    await assert.rejects(callerOfTheVerb(), (error) => /^StatementError: .*\n\s+at (?:async )?callerOfTheVerb /.test((error as Error).stack!) || assert.fail((error as Error).stack));
    await assert.rejects(inTransaction(), (error) => /^StatementError: .*\n\s+at (?:async )?(?:\w+\.)?callerInside /.test((error as Error).stack!) || assert.fail((error as Error).stack));
  });

  // ── limits ──

  contract('runs nothing for a signal that is aborted, or a time that is over', async (db) => {
    const reason = new Error('the client left');
    await assert.rejects(db.execute('insert into item (id) values (1)', [], { signal: AbortSignal.abort(reason) }), (error) => error instanceof QueryCanceled && error.cause === reason);
    await assert.rejects(db.transaction((tx) => add(tx, 'a'), { signal: AbortSignal.abort(reason) }), QueryCanceled);
    await assert.rejects(db.insertMany('item', ['id'], [[1]], { signal: AbortSignal.abort(reason) }), QueryCanceled);
    await assert.rejects((async () => { for await (const _ of db.stream('select 1', [], { signal: AbortSignal.abort(reason) })); })(), QueryCanceled);
    assert.deepEqual(await items(db), []);
    await db.execute('insert into item (id) values (1)', [], { timeoutMs: 60_000, signal: new AbortController().signal });
    await assert.rejects(db.execute('select 1', [], { timeout: 5 } as never), fault('E_OPTION_UNKNOWN'));
    await assert.rejects(db.execute('select 1', [], { timeoutMs: -1 }), fault('E_OPTION_RANGE'));
  });

  contract('ends a stream between two batches when its signal is aborted', async (db) => {
    await db.insertMany('item', ['id'], Array.from({ length: 2_000 }, (_, id) => [id]));
    const abort = new AbortController();
    const loop = db.transaction(async (tx) => {
      for await (const _ of tx.stream('select id from item', [], { signal: abort.signal })) abort.abort();
    });
    await assert.rejects(loop, QueryCanceled);
    assert.equal(await db.scalar('select count(*) from item'), 2_000);
  });

  // ── transactions ──

  contract('commits what a callback did, and gives what it returned', async (db) => {
    assert.equal(await db.transaction(async (tx) => { await add(tx, 'a'); return 5; }), 5);
    assert.deepEqual(await items(db), ['a']);
    assert.equal(await db.transaction(() => 'nothing'), 'nothing');
  });

  contract('rolls back when a callback throws, and passes its error on', async (db) => {
    const error = new Error('mine');
    await assert.rejects(db.transaction(async (tx) => { await add(tx, 'a'); throw error; }), error);
    await assert.rejects(db.transaction(() => { throw error; }), error);
    assert.deepEqual(await items(db), []);
    await add(db, 'b');
    assert.deepEqual(await items(db), ['b']);
  });

  contract('undoes a nested transaction alone, or with all', async (db) => {
    await db.transaction(async (tx) => {
      await add(tx, 'outer');
      await assert.rejects(tx.transaction(async (inner) => {
        await add(inner, 'undone');
        await inner.transaction((deepest) => add(deepest, 'undone too'));
        throw new Error('only this');
      }), /only this/);
      assert.equal(await tx.transaction(async (inner) => { await add(inner, 'inner'); return 'value'; }), 'value');
    });
    assert.deepEqual(await items(db), ['outer', 'inner']);
    await assert.rejects(db.transaction(async (tx) => { await tx.transaction((inner) => add(inner, 'gone')); throw new Error('all'); }), /all/);
    assert.deepEqual(await items(db), ['outer', 'inner']);
  });

  contract('goes on after a statement that failed inside a savepoint', async (db) => {
    await db.transaction(async (tx) => {
      await tx.execute('insert into parent (id, name) values (1, ?)', ['a']);
      await assert.rejects(tx.transaction((inner) => inner.execute('insert into parent (id, name) values (2, ?)', ['a'])), UniqueViolation);
      await tx.execute('insert into parent (id, name) values (2, ?)', ['b']);
    });
    assert.equal(await db.scalar('select count(*) from parent'), 2);
  });

  contract('runs nested transactions that were started together one after the other', async (db) => {
    await db.transaction(async (tx) => {
      const results = await Promise.allSettled([0, 1, 2, 3].map((index) => tx.transaction(async (inner) => {
        await add(inner, `${index}a`);
        await new Promise(setImmediate);
        if (index % 2 === 1) throw new Error('odd');
        await add(inner, `${index}b`);
      })));
      assert.deepEqual(results.map(({ status }) => status), ['fulfilled', 'rejected', 'fulfilled', 'rejected']);
    });
    assert.deepEqual(await items(db), ['0a', '0b', '2a', '2b']);
  });

  contract('lets statements of an outer transaction wait for a nested one', async (db) => {
    await db.transaction(async (tx) => {
      const nested = tx.transaction(async (inner) => {
        await add(inner, 'undone');
        await new Promise(setImmediate);
        throw new Error('undone');
      });
      const outside = add(tx, 'outside');
      await assert.rejects(nested, /undone/);
      await outside;
    });
    assert.deepEqual(await items(db), ['outside']);
  });

  contract('refuses the database itself inside its own transaction, and an outer handle inside an inner one', async (db) => {
    await db.transaction(async (tx) => {
      await assert.rejects(db.execute('select 1'), fault('E_DB_NESTED'));
      await assert.rejects(db.transaction(() => undefined), fault('E_DB_NESTED'));
      await assert.rejects(db.insertMany('item', ['id'], [[1]]), fault('E_DB_NESTED'));
      await assert.rejects((async () => { for await (const _ of db.stream('select 1')); })(), fault('E_DB_NESTED'));
      await assert.rejects(db.close(), fault('E_DB_NESTED'));
      await tx.transaction(async (inner) => {
        await assert.rejects(tx.execute('select 1'), fault('E_DB_NESTED'));
        await inner.transaction(() => assert.rejects(tx.transaction(() => undefined), fault('E_DB_NESTED')));
        assert.equal(await inner.scalar('select 1'), 1);
      });
      assert.equal(await tx.scalar('select 1'), 1);
    });
    assert.equal(await db.scalar('select 1'), 1);
  });

  contract('refuses a handle whose callback has settled, and frees the database for what outlives it', async (db) => {
    let kept: Transaction | undefined;
    let later: Promise<unknown> | undefined;
    const go = Promise.withResolvers<void>();
    await db.transaction((tx) => {
      kept = tx;
      later = go.promise.then(() => db.scalar('select 1')); // started inside, runs after it
    });
    assert.equal(kept!.isOver, true);
    await assert.rejects(kept!.execute('select 1'), fault('E_DB_OVER'));
    await assert.rejects(kept!.transaction(() => undefined), fault('E_DB_OVER'));
    go.resolve();
    assert.equal(await later, 1);
  });

  contract('waits for statements that nobody awaits before it commits or rolls back', async (db) => {
    await db.transaction((tx) => {
      void add(tx, 'a');
      void tx.transaction(async (inner) => { await new Promise(setImmediate); await add(inner, 'b'); });
    });
    assert.deepEqual(await items(db), ['a', 'b']);
    const all = db.transaction((tx) => Promise.all([tx.transaction(async (inner) => { await new Promise(setImmediate); await add(inner, 'c'); }), tx.execute('nonsense').catch(() => { throw new Error('first'); })]));
    await assert.rejects(all, /first/);
    assert.deepEqual(await items(db), ['a', 'b']);
  });

  contract('refuses writes in a read-only transaction, and only there', async (db) => {
    await add(db, 'a');
    await assert.rejects(db.transaction((tx) => add(tx, 'b'), { readOnly: true }), ReadOnly);
    assert.deepEqual(await db.transaction((tx) => items(tx), { readOnly: true }), ['a']);
    await db.transaction((tx) => add(tx, 'c'), { isolation: 'serializable' });
    assert.deepEqual(await items(db), ['a', 'c']);
    await assert.rejects(db.transaction(() => undefined, { isolation: 'chaos' as never }), fault('E_OPTION_RANGE'));
  });

  contract('shows nobody what is not committed, and lets nobody into a transaction', async (db) => {
    const begun = Promise.withResolvers<void>();
    const go = Promise.withResolvers<void>();
    const transaction = db.transaction(async (tx) => {
      await add(tx, 'inside');
      begun.resolve();
      await go.promise;
      throw new Error('undone');
    });
    await begun.promise;
    const outside = add(db, 'outside');
    const read = db.transaction((tx) => items(tx), { readOnly: true });
    go.resolve();
    await assert.rejects(transaction, /undone/);
    await outside;
    assert.ok(!(await read).includes('inside'));
    assert.deepEqual(await items(db), ['outside']);
  });

  contract('puts no row in the wrong place when transactions interleave', async (db) => {
    await db.script('create table nonce (id integer primary key, tx integer not null, step integer not null, value text not null)');
    await Promise.all(Array.from({ length: 300 }, (_, index) => db.transaction(async (tx) => {
      for (let step = 0; step < 3; step++) {
        const nonce = `${index}:${step}`;
        const { lastInsertId } = await tx.execute('insert into nonce (tx, step, value) values (?, ?, ?)', [index, step, nonce]);
        if (index % 7 === 0) await new Promise(setImmediate);
        assert.deepEqual(await tx.fetchOne('select tx, step, value from nonce where id = ?', [lastInsertId as number]), { tx: index, step, value: nonce });
      }
      if (index % 3 === 0) throw new Error('undone');
    }).catch((error: Error) => assert.equal(error.message, 'undone'))));
    const rows = await db.fetchAll<{ tx: number; n: number }>('select tx, count(*) as n from nonce group by tx');
    assert.equal(rows.length, 200);
    assert.ok(rows.every(({ tx, n }) => n === 3 && tx % 3 !== 0));
  });

  // ── life ──

  contract('answers a ping, finishes what is under way when closed, and refuses what comes', async (db) => {
    await db.ping();
    const under = [db.transaction(async (tx) => { await new Promise(setImmediate); await add(tx, 'a'); }), db.scalar('select 1')];
    const closing = db.close();
    await Promise.all(under);
    await assert.rejects(db.execute('select 1'), fault('E_DB_CLOSED'));
    await closing;
    await db.close();
    await assert.rejects(db.execute('select 1'), fault('E_DB_CLOSED'));
    await assert.rejects(db.ping(), fault('E_DB_CLOSED'));
    await assert.rejects((async () => { for await (const _ of db.stream('select 1')); })(), fault('E_DB_CLOSED'));
  });

  contract('is idle after all of that', async (db) => {
    await Promise.allSettled([db.execute('nonsense'), db.transaction(() => { throw new Error('x'); }), db.scalar('select 1', [], { longRead: true })]);
    assert.deepEqual([db.load.inUse, db.load.waiting], [0, 0]);
    await assert.rejects(db.scalar('select 1', [], { timeoutMs: 1, signal: AbortSignal.abort() }), (error) => error instanceof QueryCanceled && !(error instanceof QueryTimeout));
  });
}
