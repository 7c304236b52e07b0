import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import {
  DatabasePlugin,
  DatabaseRecordStore,
  openDatabase,
  recordStoreMigration,
  StoreFull,
  UniqueViolation,
  type Database,
} from '../../src/db/index.ts';
import { SessionMiddleware, Svc, sessionKey } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { recordStoreContract } from '../contract/record-store.ts';
import { fault } from '../contract/database.ts';
import { ROOT } from '../support/build.ts';
import { mysqlDatabase } from '../support/mysql-database.ts';
import { postgresDatabase } from '../support/postgres-database.ts';
import { folder, start } from '../support/run.ts';

for (const [where, maxRecords] of [
  ['default limit', undefined],
  ['maxRecords: 12', 12],
] as const) {
  recordStoreContract(
    `DatabaseRecordStore on SQLite (${where}) passes the contract tests for record stores`,
    async () => {
      const clock = new ManualClock();
      const db = await openDatabase('sqlite::memory:');
      const store = new DatabaseRecordStore(db, { clock, maxRecords });
      await store.createTable();
      return { store, pass: (ms) => clock.advance(ms), close: () => db.close() };
    },
  );
}

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

async function made(
  t: TestContext,
  maxRecords: number,
): Promise<{ db: Database; store: DatabaseRecordStore; clock: ManualClock }> {
  const clock = new ManualClock();
  const db = await openDatabase('sqlite::memory:');
  t.after(() => db.close());
  const store = new DatabaseRecordStore(db, { clock, maxRecords });
  await store.createTable();
  return { db, store, clock };
}

test('DatabaseRecordStore throws StoreFull when it is full and no record has expired, and deletes none of its records', async (t) => {
  const { store, clock } = await made(t, 3);
  for (const key of ['a', 'b', 'c']) await store.set(key, key, 1_000);
  await assert.rejects(store.set('d', 'd', 1_000), StoreFull);
  await assert.rejects(store.add('d', 'd', 1_000), StoreFull);
  assert.equal(await store.add('a', 'x', 1_000), false);
  await store.set('a', 'again', 5_000);
  assert.deepEqual(await Promise.all(['a', 'b', 'c', 'd'].map((key) => store.get(key))), [
    'again',
    'b',
    'c',
    undefined,
  ]);
  assert.equal(await store.delete('b'), true);
  assert.equal(await store.add('d', 'd', 1_000), true);
  await clock.advance(2_000);
  assert.equal(await store.add('e', 'e', 1_000), true, 'what has expired makes room');
  assert.deepEqual(await Promise.all(['a', 'c', 'd', 'e'].map((key) => store.get(key))), [
    'again',
    undefined,
    undefined,
    'e',
  ]);
});

test('DatabaseRecordStore with maxRecords: 500 stores 500 of 600 records, and throws StoreFull for the other 100', async (t) => {
  const { db, store } = await made(t, 500);
  let refused = 0;
  for (let index = 0; index < 600; index++)
    await store.add(`${index}`, 'x', 10_000).catch((error: unknown) => {
      assert.ok(error instanceof StoreFull);
      refused++;
    });
  assert.deepEqual([await db.scalar('select count(*) from svc_records'), refused], [500, 100]);
});

test('DatabaseRecordStore deletes expired records while it writes other records', async (t) => {
  const { db, store, clock } = await made(t, 10_000);
  for (let index = 0; index < 700; index++) await store.add(`old ${index}`, 'x', 1_000);
  await clock.advance(1_000);
  for (let index = 0; index < 48; index++) await store.set('new', `${index}`, 1_000);
  assert.equal(await db.scalar('select count(*) from svc_records'), 1);
});

test('DatabaseRecordStore does not store a record whose time to live is 0', async (t) => {
  const { store } = await made(t, 10);
  assert.equal(await store.add('a', 'a', 0), true);
  assert.equal(await store.get('a'), undefined);
  await store.set('a', 'a', 1_000);
  assert.equal(await store.add('a', 'b', 0), false);
  assert.equal(await store.replace('a', 'a', 'b', 0), true);
  assert.equal(await store.get('a'), undefined);
});

test('DatabaseRecordStore with a DatabasePlugin adds its migration, and works again after a restart of the application', async (t) => {
  const plugin = new DatabasePlugin(`sqlite:${join(folder(t), 'data.db')}`, { name: 'records' });
  const app = new Svc({ env: 'test', authSecret: 'a secret for this test, of 32 bytes or more' });
  app.register(plugin);
  app.use(new SessionMiddleware({ store: new DatabaseRecordStore(plugin, { table: 'sessions' }) }));
  new DatabaseRecordStore(plugin, { table: 'sessions' }); // shares the migration
  const count = sessionKey<number>('count');
  app.get('/', ({ req: { session } }) => {
    session.set(count, (session.get(count) ?? 0) + 1);
    return session.get(count);
  });
  let cookie: string | undefined;
  for (const expected of [1, 2]) {
    await using client = new TestClient(app);
    const reply = await client.get('/', cookie === undefined ? {} : { headers: { cookie } });
    assert.equal(await reply.json(), expected);
    cookie ??= reply.headers.getSetCookie()[0]!.split(';')[0]!;
    assert.equal(await plugin.database.scalar('select count(*) from sessions'), 1);
    const id = await plugin.database.scalar('select id from svc_migrations');
    assert.equal(id, 'records/sessions');
  }
});

test('recordStoreMigration() returns statements for every engine, and quotes the name of the table', () => {
  const migration = recordStoreMigration('my "records"');
  assert.deepEqual(Object.keys(migration), ['sqlite', 'postgres', 'mysql', 'mariadb']);
  assert.match(migration.sqlite[0]!, /^create table "my ""records"""/);
  assert.match(migration.mysql[0]!, /^create table `my "records"` .*varbinary/);
  assert.throws(() => recordStoreMigration(''), fault('E_DB_IDENTIFIER'));
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
