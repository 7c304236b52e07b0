/** One connection to SQLite: transactions that cannot begin. */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { ReadOnly, StatementError } from '../../../src/db/index.ts';
import { SqliteConnection } from '../../../src/db/sqlite/connection.ts';

const READS = { isReadOnly: true, isolation: undefined } as const;

test('a read-only transaction that cannot begin leaves the connection writable', async (t) => {
  const db = new DatabaseSync(':memory:');
  t.after(() => db.close());
  const connection = new SqliteConnection(db, {
    clock: new ManualClock(),
    log: undefined,
    slowStatementMs: 0,
    busyTimeoutMs: 0,
    statementCache: 8,
    int8: 'auto',
  });
  await connection.script('create table note (id integer)', undefined);
  db.exec('begin');
  await assert.rejects(async () => connection.begin(READS, undefined), StatementError);
  db.exec('rollback');
  await connection.execute('insert into note values (1)', [], undefined);
  await connection.begin(READS, undefined);
  await assert.rejects(
    async () => connection.execute('insert into note values (2)', [], undefined),
    ReadOnly,
  );
  connection.rollback();
  await connection.execute('insert into note values (3)', [], undefined);
  assert.deepEqual(await connection.fetchAll('select id from note', [], undefined), [{ id: 1 }, { id: 3 }]);
});
