/** A connection to SQLite in a reader process: its methods do what those of a connection in this process do. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import { ConnectionLost, DatabaseError, openDatabase } from '../../../src/db/index.ts';
import { SqliteReads } from '../../../src/db/sqlite/reader.ts';
import { folder } from '../../support/run.ts';
import type { SqliteOptions } from '../../../src/db/sqlite/connection.ts';

const READ = { isolation: undefined, isReadOnly: true };
const refused = (error: unknown): boolean => error instanceof DatabaseError;

test('a SQLite reader process reads in each way, and sets, releases and undoes savepoints', async (t) => {
  const path = join(folder(t), 'data.db');
  {
    await using db = await openDatabase(`sqlite:${path}`);
    await db.script("create table note (id integer, text text); insert into note values (1, 'a'), (2, 'b')");
  }
  const limits = { busyTimeoutMs: 1_000, statementCache: 10, acquireTimeoutMs: 1_000, maxWaiting: 0 };
  const options = { path, readers: 1, int8: 'auto', clock: systemClock, ...limits };
  const reads = new SqliteReads(options as unknown as SqliteOptions);
  const reader = await reads.acquire(undefined);
  const text = 'select id, text from note where id >= ? order by id';
  const rows = [
    { id: 1, text: 'a' },
    { id: 2, text: 'b' },
  ];
  assert.deepEqual(await reader.fetchAll(text, [1], undefined), rows);
  assert.deepEqual(await reader.fetchOne(text, [2], undefined), rows[1]);
  assert.deepEqual((await reader.fetchArrays(text, [2], undefined)).rows, [[2, 'b']]);
  assert.equal(await reader.scalar(text, [2], undefined), 2);
  assert.equal((await reader.execute(text, [1], undefined)).affectedRows, 0);
  assert.equal(await reader.executeMany(text, [[1], [2]], undefined), 0);
  const streamed: unknown[] = [];
  for await (const batch of reader.stream(text, [1], undefined)) streamed.push(...batch);
  assert.deepEqual(streamed, rows);
  await reader.script('select 1; select 2', undefined);

  assert.equal(reader.isInTransaction, false);
  for (const end of ['commit', 'rollback'] as const) {
    await reader.begin(READ, undefined);
    assert.equal(reader.isInTransaction, true);
    await assert.rejects(async () => reader.begin(READ, undefined), refused);
    await reader.savepoint('a');
    await reader.savepoint('b');
    await reader.rollbackTo('b');
    await assert.rejects(async () => reader.releaseSavepoint('b'), refused);
    await reader.releaseSavepoint('a');
    await assert.rejects(async () => reader.releaseSavepoint('a'), refused);
    await reader[end]();
    assert.equal(reader.isInTransaction, false);
    await assert.rejects(async () => reader.savepoint('1'), refused);
  }

  await reads.close();
  await reads.close();
  await reader.rollback();
  await reader.rollbackTo('a');
  await assert.rejects(async () => reader.scalar('select 1', [], undefined), ConnectionLost);
});
