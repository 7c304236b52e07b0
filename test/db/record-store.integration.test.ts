import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  DatabaseRecordStore,
  openDatabase,
  StoreFull,
  UniqueViolation,
  type Database,
} from '../../src/db/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { recordStoreContract } from '../contract/record-store.ts';
import { ROOT } from '../support/build.ts';
import { mysqlDatabase } from '../support/mysql-database.ts';
import { postgresDatabase } from '../support/postgres-database.ts';
import { folder, start } from '../support/run.ts';

for (const [where, maxRecords] of [
  ['default limit', undefined],
  ['maxRecords: 12', 12],
] as const) {
  recordStoreContract(
    `DatabaseRecordStore on PostgreSQL (${where}) passes the contract tests for record stores`,
    async (t) => {
      const clock = new ManualClock();
      const db = await postgresDatabase(t);
      if (db === undefined) return undefined;
      const store = new DatabaseRecordStore(db, { clock, maxRecords });
      await store.createTable();
      return { store, pass: (ms) => clock.advance(ms) };
    },
  );
}

for (const [name, engine] of [
  ['MariaDB', 'mariadb'],
  ['MySQL', 'mysql'],
] as const) {
  for (const [where, maxRecords] of [
    ['default limit', undefined],
    ['maxRecords: 12', 12],
  ] as const) {
    recordStoreContract(
      `DatabaseRecordStore on ${name} (${where}) passes the contract tests for record stores`,
      async (t) => {
        const clock = new ManualClock();
        const db = await mysqlDatabase(t, engine);
        if (db === undefined) return undefined;
        const store = new DatabaseRecordStore(db, { clock, maxRecords });
        await store.createTable();
        return { store, pass: (ms) => clock.advance(ms) };
      },
    );
  }

  test(`DatabaseRecordStore on ${name} stores at most "maxRecords" records under concurrent writes, and distinguishes keys that differ only in a trailing space`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    const store = new DatabaseRecordStore(db, { maxRecords: 50 });
    await store.createTable();
    const all = await Promise.allSettled(
      Array.from({ length: 200 }, (_, index) =>
        store.add(index % 2 === 0 ? `${index}` : `${index - 1} `, 'x', 60_000),
      ),
    );
    assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 50);
    assert.ok(
      all.every((each) => (each.status === 'fulfilled' ? each.value : each.reason instanceof StoreFull)),
    );
    assert.equal(await db.scalar('select count(*) from svc_records'), 50);
  });

  test(`DatabaseRecordStore on ${name} can add a record even if another process deletes the expired record with the same key meanwhile`, async (t) => {
    const db = await mysqlDatabase(t, engine);
    if (db === undefined) return;
    const clock = new ManualClock();
    let swept = 0;
    const execute = async (...call: Parameters<Database['execute']>): Promise<unknown> => {
      try {
        return await db.execute(...call);
      } catch (error) {
        if (error instanceof UniqueViolation && swept++ === 0)
          await db.execute('delete from svc_records where deadline_ms <= ?', [clock.nowMs()]);
        throw error;
      }
    };
    const store = new DatabaseRecordStore(
      {
        dialect: db.dialect,
        execute,
        scalar: (...call: Parameters<Database['scalar']>) => db.scalar(...call),
      } as unknown as Database,
      { clock },
    );
    await store.createTable();
    assert.equal(await store.add('a', 'old', 1_000), true);
    clock.advance(2_000);
    assert.equal(await store.add('a', 'new', 1_000), true);
    assert.deepEqual([swept, await store.get('a')], [1, 'new']);
    assert.equal(await store.add('a', 'other', 1_000), false);
    assert.equal(await store.get('a'), 'new');
  });
}

test('DatabaseRecordStore on PostgreSQL stores at most "maxRecords" records under concurrent writes', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  const store = new DatabaseRecordStore(db, { maxRecords: 50 });
  await store.createTable();
  const all = await Promise.allSettled(
    Array.from({ length: 200 }, (_, index) => store.add(`${index}`, 'x', 60_000)),
  );
  assert.equal(all.filter(({ status }) => status === 'fulfilled').length, 50);
  assert.ok(all.every((each) => each.status === 'fulfilled' || each.reason instanceof StoreFull));
  assert.equal(await db.scalar('select count(*) from svc_records'), 50);
});

test('when six processes call add(), replace() or delete() of DatabaseRecordStore for one key at the same time, exactly one call succeeds', async (t) => {
  const at = folder(t);
  const url = `sqlite:${join(at, 'records.db')}`;
  await using db = await openDatabase(url);
  const store = new DatabaseRecordStore(db);
  await store.createTable();
  const keys = 40;
  for (let key = 0; key < keys; key++) await store.set(`swap ${key}`, 'old', 600_000);
  const children = Array.from({ length: 6 }, (_, id) =>
    start(t, process.execPath, [
      join(ROOT, 'test/support/record-store-child.ts'),
      url,
      String(id),
      String(keys),
    ]),
  );
  const ended = await Promise.all(children.map((child) => child.ended));
  const wins = { add: 0, replace: 0, delete: 0 };
  for (const { status, stdout, stderr } of ended) {
    assert.equal(status, 0, stderr);
    const won = JSON.parse(stdout) as typeof wins;
    for (const verb of ['add', 'replace', 'delete'] as const) wins[verb] += won[verb];
  }
  assert.deepEqual(wins, { add: keys, replace: keys, delete: keys });
});

test('in the transaction of a test, DatabaseRecordStore adds records to a PostgreSQL table that is nearly full', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  await new DatabaseRecordStore(db).createTable();
  await db.transaction(async (tx) => {
    const store = new DatabaseRecordStore({ database: tx as unknown as Database }, { maxRecords: 10 });
    for (let index = 0; index < 10; index++) assert.equal(await store.add(`key ${index}`, 'a', 60_000), true);
    await assert.rejects(async () => store.add('one more', 'a', 60_000), StoreFull);
  });
});
