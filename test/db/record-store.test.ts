/**
 * The record store on SQLite, and its statements for the servers.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import {
  DataError,
  Database,
  DatabaseError,
  DatabasePlugin,
  DatabaseRecordStore,
  Deadlock,
  PoolTimeout,
  openDatabase,
  recordStoreMigration,
  StoreFull,
  UniqueViolation,
} from '../../src/db/index.ts';
import { SessionMiddleware, Svc, sessionKey } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { recordStoreContract } from '../contract/record-store.ts';
import { fault } from '../contract/database.ts';
import { folder } from '../support/run.ts';
import type { Dialect, Driver, Limit } from '../../src/db/driver.ts';
import type { Params } from '../../src/db/values.ts';

/** Longer than all pauses between two attempts. */
const PAUSES_MS = 1_000;

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

/** Statements that SQLite does not have, and the value that they return. */
const OF_SERVERS = /get_lock|release_lock|pg_advisory_xact_lock/;

interface Served {
  readonly db: Database;
  /** Statements so far, without values. */
  readonly statements: string[];
  /** Errors of the next statements that match. */
  readonly failures: (readonly [pattern: RegExp, error: Error])[];
}

/** A database of SQLite that takes the statements for a server, as one connection to the server would. */
async function served(t: TestContext, dialect: Dialect): Promise<Served> {
  const inner = await openDatabase('sqlite::memory:');
  t.after(() => inner.close());
  const statements: string[] = [];
  const failures: Served['failures'] = [];
  const run = async <T>(sql: string, of: (sql: string) => Promise<T>, otherwise: T): Promise<T> => {
    statements.push(sql);
    const at = failures.findIndex(([pattern]) => pattern.test(sql));
    if (at !== -1) throw failures.splice(at, 1)[0]![1];
    if (OF_SERVERS.test(sql)) return otherwise;
    return await of(
      sql
        .replace(' for update skip locked', '')
        .replace(/, index `[^`]+` \(deadline_ms\)\) engine = InnoDB$/, ')')
        .replace(
          /^delete from (.+?) (where .* limit \?)$/,
          'delete from $1 where record_key in (select record_key from $1 $2)',
        ),
    );
  };
  const connection = {
    dialect,
    execute: (sql: string, params?: Params) =>
      run(sql, (text) => inner.execute(text, params), { affectedRows: 1, lastInsertId: undefined }),
    scalar: (sql: string, params?: Params) => run(sql, (text) => inner.scalar(text, params), 1),
  };
  const db = {
    ...connection,
    transaction: async (body: (tx: typeof connection) => Promise<unknown>, options: unknown) => {
      statements.push(`begin ${JSON.stringify(options)}`);
      const result = await body(connection);
      statements.push('commit');
      return result;
    },
    run: (_role: string, body: (on: typeof connection, limit: undefined) => Promise<unknown>) =>
      body(connection, undefined),
  } as unknown as Database;
  return { db, statements, failures };
}

const SERVERS = ['postgres', 'mysql', 'mariadb'] as const;

for (const dialect of SERVERS)
  for (const maxRecords of [undefined, 12])
    recordStoreContract(
      `DatabaseRecordStore with the statements for ${dialect} (maxRecords: ${maxRecords}) passes the contract tests for record stores`,
      async (t) => {
        const clock = new ManualClock();
        const { db } = await served(t, dialect);
        const store = new DatabaseRecordStore(db, { clock, maxRecords });
        await store.createTable();
        return { store, pass: (ms) => clock.advance(ms) };
      },
    );

for (const [dialect, around] of [
  ['postgres', [/^begin .*read committed/, /pg_advisory_xact_lock/, /^insert/, /^commit$/]],
  ['mysql', [/get_lock\(.*, 2\)/, /^select 1/, /^select count/, /^insert/, /release_lock/]],
  ['mariadb', [/get_lock\(.*, 2\)/, /^select 1/, /^select count/, /^insert/, /release_lock/]],
] as const)
  test(`a nearly full DatabaseRecordStore on ${dialect} counts and inserts while it holds a lock`, async (t) => {
    const { db, statements, failures } = await served(t, dialect);
    const store = new DatabaseRecordStore(db, { maxRecords: 2 });
    await store.createTable();
    await store.add('a', 'a', 60_000);
    const seen = (): string[] => statements.splice(0).slice(-around.length);
    const matches = (found: readonly string[], patterns: readonly RegExp[]): void => {
      assert.equal(found.length, patterns.length, found.join('\n'));
      for (const [index, pattern] of patterns.entries()) assert.match(found[index]!, pattern);
    };
    matches(seen(), around);
    failures.push([/^insert/, new DatabaseError('on purpose')]);
    await assert.rejects(store.add('b', 'b', 60_000), /on purpose/);
    if (dialect !== 'postgres') assert.match(statements.at(-1)!, /release_lock/);
    assert.equal(await store.add('b', 'b', 60_000), true);
    statements.length = 0;
    await assert.rejects(store.add('c', 'c', 60_000), StoreFull);
    const last = statements.findLastIndex((sql) => /count/.test(sql));
    assert.equal(
      statements.slice(last).some((sql) => /^insert into \S+ .*values/.test(sql)),
      false,
    );
    assert.equal(await store.add('a', 'x', 60_000), false);
    assert.deepEqual([await store.get('a'), await store.get('c')], ['a', undefined]);
  });

for (const [statementTimeoutMs, expected] of [
  [0, 10_000],
  [700, 700],
] as const)
  test(`a statement of DatabaseRecordStore has a limit of ${expected} ms if statementTimeoutMs is ${statementTimeoutMs}, so a server that does not answer holds no request`, async () => {
    for (const dialect of ['sqlite', ...SERVERS] as const) {
      const limits = new Map<string, number | undefined>();
      const noted =
        <T>(value: T) =>
        (sql: string, _params: Params, limit: Limit | undefined) => {
          limits.set(sql, limit?.timeoutMs);
          return Promise.resolve(value);
        };
      const connection = {
        execute: noted({ affectedRows: 1, lastInsertId: undefined }),
        scalar: noted(0),
      };
      const driver = { dialect, acquire: () => connection, release: () => undefined } as unknown as Driver;
      const db = new Database(driver, { clock: new ManualClock(), statementTimeoutMs });
      const store = new DatabaseRecordStore(db);
      await store.get('a');
      await store.set('a', 'a', 1_000);
      await store.add('a', 'a', 1_000);
      await store.replace('a', 'a', 'b', 1_000);
      await store.delete('a');
      const counts = [...limits.keys()].filter((sql) => sql.startsWith('select count'));
      assert.equal(counts.length, 1);
      limits.delete(counts[0]!); // the count of a large table may take longer
      assert.equal(limits.size, 6);
      assert.deepEqual([...new Set(limits.values())], [expected]);
    }
  });

test('while no connection is free, each caller of DatabaseRecordStore gets a PoolTimeout after acquireTimeoutMs', async () => {
  for (const acquireTimeoutMs of [100, 5_000, 8_000]) {
    const clock = new ManualClock();
    await using db = await openDatabase('sqlite::memory:', { clock, pool: { acquireTimeoutMs } });
    const store = new DatabaseRecordStore(db);
    await store.createTable();
    const held = Promise.withResolvers<void>();
    const holding = db.transaction(() => held.promise);
    const outcomes: unknown[] = [];
    const calls: Promise<unknown>[] = [];
    for (let call = 0; call < 4; call++) {
      calls.push(store.get('a').catch((error: unknown) => outcomes.push(error)));
      await clock.advance(7);
    }
    await clock.advance(acquireTimeoutMs);
    await Promise.all(calls);
    assert.deepEqual(
      outcomes.map((error) => error instanceof PoolTimeout || error),
      [true, true, true, true],
    );
    held.resolve();
    await holding;
  }
});

for (const [dialect, attempts] of [
  ['sqlite', 1],
  ['postgres', 5],
  ['mysql', 5],
  ['mariadb', 5],
] as const)
  test(`DatabaseRecordStore on ${dialect} makes ${attempts} attempts to write after a deadlock, and one after another error`, async (t) => {
    const clock = new ManualClock();
    const { db, statements, failures } = await served(t, dialect);
    const store = new DatabaseRecordStore(db, { clock });
    await store.createTable();
    const writes = async (errors: readonly Error[]): Promise<[isSet: boolean, attempts: number]> => {
      failures.push(...errors.map((error) => [/^update .*where record_key = \?$/, error] as const));
      statements.length = 0;
      let isOver = false;
      const written = store
        .set('a', 'a', 1_000_000)
        .then(
          () => true,
          () => false,
        )
        .finally(() => (isOver = true));
      while (!isOver) await clock.advance(PAUSES_MS);
      failures.length = 0;
      return [await written, statements.filter((sql) => sql.startsWith('update')).length];
    };
    const deadlocks = Array.from({ length: attempts }, () => new Deadlock('on purpose'));
    assert.deepEqual(await writes(deadlocks), [false, attempts]);
    assert.deepEqual(await writes(deadlocks.slice(1)), [true, attempts]);
    assert.deepEqual(await writes([new DatabaseError('on purpose')]), [false, 1]);
    assert.deepEqual(await writes([new TypeError('on purpose')]), [false, 1]);
  });

for (const dialect of ['mysql', 'mariadb'] as const)
  test(`DatabaseRecordStore on ${dialect} adds a record although another process deletes the expired one between two statements`, async (t) => {
    const clock = new ManualClock();
    const { db, statements, failures } = await served(t, dialect);
    const store = new DatabaseRecordStore(db, { clock });
    await store.createTable();
    const exists = new UniqueViolation('on purpose');
    for (const [violations, isAdded, inserts] of [
      [1, true, 2],
      [4, true, 5],
      [5, false, 5],
    ] as const) {
      statements.length = 0;
      failures.push(...Array.from({ length: violations }, () => [/^insert/, exists] as const));
      assert.equal(await store.add(`key ${violations}`, 'x', 1_000), isAdded);
      assert.equal(statements.filter((sql) => sql.startsWith('insert')).length, inserts);
      assert.equal(failures.length, 0);
    }
  });

test('DatabaseRecordStore stores text on SQLite and bytes on a server, and refuses text that is not valid Unicode', async (t) => {
  for (const dialect of ['sqlite', ...SERVERS] as const) {
    const { db } = await served(t, dialect);
    const store = new DatabaseRecordStore(db);
    await store.createTable();
    const typeOf = async (text: string): Promise<unknown> => {
      await store.set('key', text, 60_000);
      return db.scalar('select typeof(record_value) from svc_records');
    };
    const expected = dialect === 'sqlite' ? 'text' : 'blob';
    assert.deepEqual([await typeOf('grüße'), await typeOf('')], [expected, expected], dialect);
    assert.equal(await store.get('key'), '');
    await assert.rejects(store.set('key', '\ud800', 60_000), DataError, dialect);
  }
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

test('recordStoreMigration() returns the statements that applications have already run', () => {
  const mysql =
    'create table `t` (record_key varbinary(700) not null primary key, record_value longblob not null, ' +
    'deadline_ms bigint not null, index `t_deadline` (deadline_ms)) engine = InnoDB';
  const of = (type: string): readonly string[] => [
    `create table "t" (record_key ${type} not null primary key, record_value ${type} not null, deadline_ms bigint not null)`,
    'create index "t_deadline" on "t" (deadline_ms)',
  ];
  assert.deepEqual(recordStoreMigration('t'), {
    sqlite: of('text'),
    postgres: of('bytea'),
    mysql: [mysql],
    mariadb: [mysql],
  });
});

for (const dialect of ['sqlite', ...SERVERS] as const)
  test(`DatabaseRecordStore.createTable() creates the table and its index once (${dialect})`, async (t) => {
    const { db, statements } = await served(t, dialect);
    const store = new DatabaseRecordStore(db, { table: 'a b' });
    await store.createTable();
    await store.set('a', 'a', 60_000);
    await store.createTable();
    assert.equal(await store.get('a'), 'a');
    const names = await db.scalar(
      "select group_concat(name, ', ' order by name) from sqlite_master where name like 'a b%'",
    );
    const isMySql = dialect === 'mysql' || dialect === 'mariadb'; // their table has its index
    assert.equal(names, isMySql ? 'a b' : 'a b, a b_deadline');
    assert.equal(statements.filter((sql) => sql.startsWith('create')).length, isMySql ? 2 : 4);
  });

for (const [ttlMs, isKept] of [
  [-1, false],
  [0, false],
  [Number.NaN, false],
  [0.5, true],
  [1, true],
] as const)
  test(`a DatabaseRecordStore ${isKept ? 'keeps' : 'does not keep'} a record whose time to live is ${ttlMs} ms`, async (t) => {
    const { db, store, clock } = await made(t, 10);
    const count = (): Promise<unknown> => db.scalar('select count(*) from svc_records');
    const kept = isKept ? 'new' : undefined;
    await store.set('set', 'new', ttlMs);
    assert.equal(await store.get('set'), kept);
    assert.equal(await store.add('add', 'new', ttlMs), true);
    assert.equal(await store.get('add'), kept);
    assert.equal(await count(), isKept ? 2 : 0);
    for (const key of ['set', 'replace']) await store.set(key, 'old', 60_000);
    await store.set('set', 'new', ttlMs);
    assert.equal(await store.replace('replace', 'old', 'new', ttlMs), true);
    assert.deepEqual([await store.get('set'), await store.get('replace')], [kept, kept]);
    await clock.advance(1);
    for (const key of ['set', 'add', 'replace']) assert.equal(await store.get(key), undefined);
  });

for (const dialect of ['sqlite', ...SERVERS] as const)
  test(`if two calls of DatabaseRecordStore.set() write a new record at once, the record has the later value (${dialect})`, async (t) => {
    const { db } = await served(t, dialect);
    const store = new DatabaseRecordStore(db);
    await store.createTable();
    await Promise.all(['first', 'second'].map((value) => store.set('a', value, 60_000)));
    assert.equal(await store.get('a'), 'second');
  });

test('DatabaseRecordStore counts its records when a 16th of the remaining room is used, and sweeps in every 16th write', async (t) => {
  const { db, statements } = await served(t, 'postgres');
  const store = new DatabaseRecordStore(db, { maxRecords: 320 });
  await store.createTable();
  statements.length = 0;
  const writesWith = { count: [] as number[], sweep: [] as number[] };
  for (let write = 1; write <= 64; write++) {
    if (write % 2 === 0) await store.set(`${write}`, 'x', 60_000);
    else await store.add(`${write}`, 'x', 60_000);
    const seen = statements.splice(0);
    if (seen.some((sql) => /^select count/.test(sql))) writesWith.count.push(write);
    if (/^delete .* for update skip locked\)$/.test(seen.at(-1)!)) writesWith.sweep.push(write);
  }
  // (320 - 0) / 16 = 20, (320 - 20) / 16 = 18.75, (320 - 38) / 16 = 17.6, (320 - 55) / 16 = 16.6
  assert.deepEqual(writesWith, { count: [1, 21, 39, 56], sweep: [16, 32, 48, 64] });
});

test('before DatabaseRecordStore counts its records, it deletes all expired ones, in larger and larger statements', async (t) => {
  const { db, statements } = await served(t, 'mysql');
  const sizes: unknown[] = [];
  const execute = (sql: string, params: readonly unknown[] = []): Promise<unknown> => {
    if (sql.startsWith('delete')) sizes.push(params.at(-1));
    return db.execute(sql, params as Params);
  };
  const store = new DatabaseRecordStore({ ...db, execute } as unknown as Database, { maxRecords: 10_000 });
  await store.createTable();
  await db.execute(
    'insert into svc_records with recursive n(i) as (select 1 union all select i + 1 from n where i < ?) select i, i, 0 from n',
    [256 + 1_024 + 4_096 + 1],
  );
  assert.equal(await store.add('a', 'a', 60_000), true);
  assert.deepEqual(sizes, [256, 1_024, 4_096, 4_096]);
  assert.ok(statements.includes('delete from `svc_records` where deadline_ms <= ? limit ?'));
  assert.equal(await db.scalar('select count(*) from svc_records'), 1);
});

test('DatabaseRecordStore refuses an unknown option, and values of "maxRecords" that are out of range', async (t) => {
  const { db } = await served(t, 'sqlite');
  for (const maxRecords of [0, 1_000_000_001, 1.5])
    assert.throws(() => new DatabaseRecordStore(db, { maxRecords }), {
      code: 'E_OPTION_RANGE',
      message: /DatabaseRecordStore/,
    });
  for (const maxRecords of [1, 1_000_000_000]) assert.ok(new DatabaseRecordStore(db, { maxRecords }));
});
