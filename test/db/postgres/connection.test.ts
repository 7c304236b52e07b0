/** Methods of a connection to PostgreSQL on a fake server: the texts that they send, and their errors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TransactionAborted } from '../../../src/db/index.ts';
import { fault } from '../../contract/database.ts';
import { connectedToFake, type Result } from '../../support/fake-postgres.ts';

const INT8 = 20;
const TEXT = 25;
const NONE: Result = { columns: [], rows: [] };
const SAVEPOINTS: Readonly<Record<string, Result>> = {
  savepoint: { ...NONE, tag: 'SAVEPOINT' },
  release: { ...NONE, tag: 'RELEASE' },
  'rollback to': { ...NONE, tag: 'SAVEPOINT' },
};
const BEGIN = { isReadOnly: false, isolation: undefined } as const;

test('PostgreSQL client: savepoints are set, released and rolled back inside a transaction only', async (t) => {
  const { connection, texts } = await connectedToFake(t, SAVEPOINTS);
  await connection.rollbackTo('a');
  await connection.rollback();
  assert.deepEqual(texts, []);
  await connection.begin(BEGIN, undefined);
  await connection.savepoint('a');
  await connection.releaseSavepoint('a');
  await connection.savepoint('b');
  await connection.rollbackTo('b');
  await connection.commit();
  assert.deepEqual(texts.slice(1), [
    'savepoint a',
    'release savepoint a',
    'savepoint b',
    'rollback to savepoint b',
    'release savepoint b',
    'commit',
  ]);
});

test('PostgreSQL client: reset() rolls the transaction back, and forgets prepared statements', async (t) => {
  const { connection, texts, messages } = await connectedToFake(t, {
    ...SAVEPOINTS,
    discard: { ...NONE, tag: 'DISCARD ALL' },
    'select 1': { columns: [['one', TEXT]], rows: [['1']] },
  });
  await connection.scalar('select 1', [], undefined);
  await connection.begin(BEGIN, undefined);
  await connection.reset();
  assert.deepEqual(texts.slice(2), ['rollback', 'discard all']);
  assert.equal(connection.isInTransaction, false);
  messages.length = 0;
  await connection.scalar('select 1', [], undefined);
  assert.equal(messages.filter((type) => type === 'P').length, 1);
});

test('PostgreSQL client: commit() rejects if the server has rolled back instead', async (t) => {
  const { connection } = await connectedToFake(t, { commit: { ...NONE, tag: 'ROLLBACK' } });
  await connection.begin(BEGIN, undefined);
  await assert.rejects(connection.commit(), (error) => {
    assert.ok(error instanceof TransactionAborted);
    assert.deepEqual(
      [error.message, error.sqlstate, error.sql],
      ['PostgreSQL has rolled the transaction back after an earlier error', '25P02', 'commit'],
    );
    return true;
  });
});

test('PostgreSQL client: commit() rejects if a statement has already ended the transaction', async (t) => {
  const { connection, texts } = await connectedToFake(t, { 'call p': { ...NONE, tag: 'COMMIT' } });
  await connection.begin(BEGIN, undefined);
  await connection.script('call p()', undefined);
  texts.length = 0;
  await assert.rejects(connection.commit(), (error) => {
    assert.ok(error instanceof TransactionAborted);
    assert.deepEqual(
      [error.message, error.sqlstate, error.sql],
      [
        'The transaction had already ended before its COMMIT, for example because a statement ran COMMIT or ROLLBACK',
        '25P01',
        'commit',
      ],
    );
    return true;
  });
  assert.deepEqual(texts, []);
});

test('PostgreSQL client: a ping is an empty statement', async (t) => {
  const { connection, texts } = await connectedToFake(t, { '': NONE });
  await connection.ping(undefined);
  assert.deepEqual(texts, ['']);
});

// ── many rows ──

const UPDATE: Result = { columns: [], rows: [], tag: 'UPDATE 1', parameters: [INT8] };

for (const statementCache of [256, 0])
  test(`PostgreSQL client: executeMany() names the row of an invalid value, and no row is written (statement cache: ${statementCache})`, async (t) => {
    const { connection, messages } = await connectedToFake(
      t,
      { 'update note': UPDATE, 'select 1': { columns: [['one', TEXT]], rows: [['1']] } },
      statementCache,
    );
    for (const [rows, place] of [
      [[[{}], [1]], /parameter 1 of row 1\b/],
      [[[1], [{}]], /parameter 1 of row 2\b/],
      [[[1], [2], [{}]], /parameter 1 of row 3\b/],
    ] as const) {
      messages.length = 0;
      await assert.rejects(
        connection.executeMany('update note set id = ?', rows as never, undefined),
        (error) => {
          assert.ok(fault('E_DB_PARAMETER')(error));
          assert.match((error as Error).message, place);
          return true;
        },
      );
      assert.equal(await connection.scalar('select 1', [], undefined), '1');
      assert.equal(connection.isIdle, true);
    }
    await assert.rejects(
      connection.executeMany('update note set id = ?', [[1], [1, 2]], undefined),
      (error) => {
        assert.ok(fault('E_DB_PARAMETER_COUNT')(error));
        assert.match((error as Error).message, /row 2\b/);
        return true;
      },
    );
  });

for (const statementCache of [256, 0])
  test(`PostgreSQL client: two calls of executeMany() at the same time run one after the other (statement cache: ${statementCache})`, async (t) => {
    const { connection, texts } = await connectedToFake(
      t,
      {
        'update note': UPDATE,
        'update book': UPDATE,
        'select label': { columns: [['label', TEXT]], rows: [] },
      },
      statementCache,
    );
    const rows = Array.from({ length: 3 }, (_, index) => [index]);
    for (let round = 0; round < 3; round++) {
      texts.length = 0;
      const found = await Promise.all([
        connection.executeMany('update note set id = ?', rows, undefined),
        connection.executeMany('update book set id = ?', rows, undefined),
      ]);
      assert.deepEqual(found, [3, 3]);
      assert.deepEqual(
        texts.map((text) => text.slice(7, 11)),
        ['note', 'note', 'note', 'book', 'book', 'book'],
      );
    }
    assert.equal(await connection.executeMany('update note set id = ?', [], undefined), 0);
  });

// ── COPY ──

const COPYING: Readonly<Record<string, Result>> = {
  'select c.relkind': { columns: [['copies', 16]], rows: [['t']] },
  copy: { columns: [], rows: [], copy: 'in', tag: 'COPY 2' },
};

const INSERT: Result = { columns: [], rows: [], tag: 'INSERT 0 1', parameters: [INT8] };

for (const [count, isCopied] of [
  [2, false],
  [63, false],
  [64, true],
] as const)
  test(`PostgreSQL client: when the source of insertMany() throws after ${count} rows, its error is thrown, and the connection stays open`, async (t) => {
    const { connection, messages } = await connectedToFake(t, {
      'insert into': INSERT,
      ...COPYING,
      '': NONE,
    });
    const reason = new Error('no more rows');
    function* rows(): Generator<readonly number[]> {
      for (let index = 0; index < count; index++) yield [index];
      throw reason;
    }
    await assert.rejects(
      connection.insertMany('note', ['id'], rows(), undefined),
      (error) => error === reason,
    );
    await connection.ping(undefined);
    assert.equal(connection.isIdle, true);
    assert.deepEqual([messages.includes('f'), messages.includes('c')], [isCopied, false]);
  });

test('PostgreSQL client: insertMany() of many rows is one COPY, and a wrong value or number of values names its row', async (t) => {
  const { connection, messages, copied } = await connectedToFake(
    t,
    {
      'insert into': { ...INSERT, parameters: [INT8, TEXT] },
      ...COPYING,
      '': NONE,
    },
    0,
  );
  const rows: unknown[][] = Array.from({ length: 64 }, (_, index) => [index, 'a\tb']);
  rows[1] = [null, '\\\n\r'];
  assert.equal(await connection.insertMany('note', ['id', 'text'], rows as never, undefined), 2);
  assert.deepEqual(copied.join('').split('\n').slice(0, 3), ['0\ta\\tb', '\\N\t\\\\\\n\\r', '2\ta\\tb']);
  for (const [bad, code, place] of [
    [[{}, 'a'], 'E_DB_PARAMETER', /parameter 1 of row 64\b/],
    [[1], 'E_DB_PARAMETER_COUNT', /row 64\b/],
  ] as const) {
    messages.length = 0;
    await assert.rejects(
      connection.insertMany('note', ['id', 'text'], [...rows.slice(0, 63), bad] as never, undefined),
      (error) => {
        assert.ok(fault(code)(error));
        assert.match((error as Error).message, place);
        return true;
      },
    );
    assert.equal(messages.includes('f'), true);
    await connection.ping(undefined);
  }
});

test('PostgreSQL client: describe() returns the columns and the types of the parameters', async (t) => {
  const { connection } = await connectedToFake(t, {
    'select label': { columns: [['label', TEXT, 16_500]], rows: [], parameters: [INT8] },
    'select r.relname': {
      columns: [['a'], ['b'], ['c'], ['d'], ['e']],
      rows: [
        ['item', 'text', 'label', null, null],
        [null, 'bigint', null, null, null],
      ],
    },
    'update note': NONE,
  });
  const { columns, parameters } = await connection.describe('select label from item where id = ?', undefined);
  assert.deepEqual(
    columns.map(({ name, table, column, type }) => [name, table, column, type?.name]),
    [['label', 'item', 'label', 'text']],
  );
  assert.deepEqual(
    parameters.map((type) => type?.name),
    ['bigint'],
  );
  assert.deepEqual(await connection.describe('update note set id = 1', undefined), {
    columns: [],
    parameters: [],
  });
});

// ── streams ──

for (const [count, executions] of [
  [255, 1],
  [256, 1],
  [257, 2],
  [600, 3],
] as const)
  for (const isInside of [false, true])
    test(`PostgreSQL client: a stream of ${count} rows takes ${executions} batches of 256 ${isInside ? 'inside of a transaction' : 'in a transaction of its own'}`, async (t) => {
      const all = Array.from({ length: count }, (_, index) => [String(index)]);
      const { connection, texts, messages } = await connectedToFake(t, {
        'select label': { columns: [['label', TEXT]], rows: all },
      });
      if (isInside) await connection.begin(BEGIN, undefined);
      texts.length = messages.length = 0;
      const found: unknown[] = [];
      for await (const batch of connection.stream('select label', [], undefined)) {
        assert.ok(batch.length <= 256);
        found.push(...batch.map((row) => [row['label']]));
      }
      assert.deepEqual(found, all);
      assert.equal(messages.filter((type) => type === 'E').length, executions);
      assert.deepEqual(texts, isInside ? ['select label'] : ['begin', 'select label', 'commit']);
      assert.equal(connection.isInTransaction, isInside);
      if (isInside) await connection.rollback();
    });

test('PostgreSQL client: a stream that the caller leaves ends its transaction without further batches', async (t) => {
  const rows = Array.from({ length: 600 }, (_, index) => [String(index)]);
  const { connection, texts, messages } = await connectedToFake(t, {
    'select label': { columns: [['label', TEXT]], rows },
  });
  for await (const batch of connection.stream('select label', [], undefined)) {
    assert.equal(batch.length, 256);
    break;
  }
  assert.equal(messages.filter((type) => type === 'E').length, 1);
  assert.equal(texts.length, 3);
  assert.equal(connection.isInTransaction, false);
});
