/**
 * PostgreSQL through the public API: the contract of every database, and the features that only PostgreSQL
 * has.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { test } from 'node:test';
import { Svc, systemClock } from '../../../src/index.ts';
import {
  ConnectionLost,
  DatabasePlugin,
  Migrator,
  PoolTimeout,
  QueryTimeout,
  ReadOnly,
  StatementError,
  openDatabase,
  sql,
} from '../../../src/db/index.ts';
import { ManualClock, TestClient } from '../../../src/testing/index.ts';
import { databaseContract, fault } from '../../contract/database.ts';
import { ownTypeContract } from '../../contract/own-types.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { failedConnects, refusedBeside } from '../../support/failed-connects.ts';
import { POSTGRES } from '../../support/postgres-chaos.ts';
import { needsPostgres, postgresDatabase, postgresUrl } from '../../support/postgres-database.ts';
import { PostgresServer } from '../../support/postgres-server.ts';
import { seeded } from '../../support/random.ts';
import { canceled, interleaved, restarted, terminated } from '../../support/server-chaos.ts';
import { ROOT } from '../../support/build.ts';
import { folder, inReverse, run } from '../../support/run.ts';
import type { Database, PoolEvent, Transaction } from '../../../src/db/index.ts';

databaseContract('PostgreSQL', (t) => postgresDatabase(t));
databaseContract(
  'PostgreSQL without a statement cache and with reset: "full" passes the contract tests for databases',
  (t) => postgresDatabase(t, { statementCache: 0, pool: { max: 3, reset: 'full' } }),
  { knowsTypes: false },
);

ownTypeContract('PostgreSQL', 'postgres', (t, options) => postgresDatabase(t, options));
ownTypeContract('PostgreSQL (statementCache: 0)', 'postgres', (t, options) =>
  postgresDatabase(t, { ...options, statementCache: 0 }),
);

// ── the pool, as the server sees it ──

test('PostgreSQL pool: the open transaction of a returned connection is rolled back before another caller gets the connection', async (t) => {
  const { logger, events } = collectedLog();
  const db = await postgresDatabase(t, { pool: { max: 1, leakSeconds: 30 }, log: logger });
  if (db === undefined) return;
  await db.execute('create table left_open (id integer)');
  await db.run(
    'statement',
    async (connection) => {
      // sets up state that the public methods cannot create
      await connection.begin({ isolation: undefined, isReadOnly: false }, undefined);
      await connection.execute('insert into left_open values (1)', [], undefined);
    },
    undefined,
  );
  assert.equal(await db.scalar('select count(*) from left_open'), 0);
  const warning = events.find(({ event }) => event === 'connection_left_in_use');
  assert.match(String(warning?.['acquired']), /postgres\.integration\.test\.ts/);
});

test('PostgreSQL pool: at most "max" connections are opened, and a caller that waits too long gets an error', async (t) => {
  const clock = new ManualClock();
  const db = await postgresDatabase(t, { clock, pool: { max: 2, acquireTimeoutMs: 200 } });
  if (db === undefined) return;
  const pids = await Promise.all(Array.from({ length: 50 }, () => db.scalar('select pg_backend_pid()')));
  assert.ok(new Set(pids).size <= 2);
  const refused = await refusedBeside(db, clock, 200);
  assert.deepEqual([refused.load?.inUse, refused.load?.waiting], [2, 1]);
});

test('PostgreSQL pool: connections that ended while they were idle are replaced, and callers get no error', async (t) => {
  if (!needsPostgres(t)) return;
  const url = await postgresUrl(t, '&application_name=svc_idle');
  await using db = await openDatabase(url, { pool: { max: 3 } });
  const [together, begun] = [Promise.withResolvers<void>(), [1, 2, 3]];
  await Promise.all(
    [1, 2, 3].map(() =>
      db.transaction(() => {
        begun.pop();
        if (begun.length === 0) together.resolve();
        return together.promise;
      }),
    ),
  );
  assert.equal(db.load.idle, 3);
  const seen: unknown[] = [];
  const note = (event: unknown): void => void seen.push((event as PoolEvent).kind);
  subscribe('svc:db:pool', note);
  await using admin = await openDatabase(url.replace('svc_idle', 'svc_admin'));
  await admin.execute(
    "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'svc_idle'",
  );
  while (db.load.idle > 0) await systemClock.sleep(5);
  unsubscribe('svc:db:pool', note);
  assert.deepEqual(seen.filter((kind) => kind === 'lost').length, 3);
  assert.equal(await db.scalar('select 1'), 1);
});

test('PostgreSQL pool: with target_session_attrs=read-write, connections are closed when their server no longer accepts writes', async (t) => {
  if (!needsPostgres(t)) return;
  await using db = await openDatabase(await postgresUrl(t, '&target_session_attrs=read-write'), {
    pool: { max: 1 },
  });
  await db.execute('create table item (id integer)');
  const before = await db.scalar('select pg_backend_pid()');
  await assert.rejects(
    db.transaction((tx) => tx.execute('insert into item values (1)'), { readOnly: true }),
    ReadOnly,
  );
  assert.equal(await db.scalar('select pg_backend_pid()'), before, 'it was asked for');
  await db.execute('set default_transaction_read_only = on'); // simulates a failover for this connection
  // some versions report the change before the error
  await assert.rejects(db.execute('insert into item values (1)'), ReadOnly).catch(() => undefined);
  await db.execute('insert into item values (2)');
  assert.notEqual(await db.scalar('select pg_backend_pid()'), before);
});

test('PostgreSQL pool: if the URL lists several servers, the first available server that matches target_session_attrs is used', async (t) => {
  if (!needsPostgres(t)) return;
  const [reading, writing] = await Promise.all([
    PostgresServer.start(t, ['default_transaction_read_only = on']),
    PostgresServer.start(t),
  ]);
  const hosts = `127.0.0.1:1,127.0.0.1:${reading.port},127.0.0.1:${writing.port}`;
  const portFor = async (target: string): Promise<number> => {
    await using db = await openDatabase(
      `${writing.url.replace(`127.0.0.1:${writing.port}`, hosts)}?target_session_attrs=${target}`,
    );
    return Number(await db.scalar("select current_setting('port')"));
  };
  assert.deepEqual(
    [await portFor('any'), await portFor('read-write'), await portFor('read-only'), await portFor('primary')],
    [reading.port, writing.port, reading.port, reading.port],
  );
  await assert.rejects(
    openDatabase(`${reading.url}?target_session_attrs=read-write`, { clock: failedConnects(t) }),
    (error) => fault('E_DB_OPEN')(error) && /is read-only/.test((error as Error).message),
  );
  await reading.kill();
  assert.equal(await portFor('any'), writing.port);
});

test('openDatabase() reports why a PostgreSQL server cannot be used, and the message does not contain the password', async (t) => {
  if (!needsPostgres(t)) return;
  const url = new URL(await postgresUrl(t));
  const refused = (change: (url: URL) => void, options = {}) => {
    const other = new URL(url);
    change(other);
    return assert.rejects(
      openDatabase(other.href, options),
      (error) => !(error as Error).message.includes('hunter2') && fault('E_DB_OPEN')(error),
    );
  };
  if (process.env['POSTGRES_URL'] === undefined)
    await refused((other) => {
      other.password = 'hunter2';
    });
  await refused((other) => {
    other.pathname = '/there_is_none';
  });
  await refused(
    (other) => {
      other.port = '1';
      other.password = 'hunter2';
    },
    { clock: failedConnects(t) },
  );
});

test('when the option "readOnly" is set, PostgreSQL refuses writes in every transaction', async (t) => {
  const db = await postgresDatabase(t, { readOnly: true });
  if (db !== undefined) await assert.rejects(db.execute('create table item (id integer)'), ReadOnly);
});

// ── features of PostgreSQL only ──

test('db.listen() receives notifications from other sessions, even after its connection was ended', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  const received: string[] = [];
  let reconnects = 0;
  const until = async (isSo: () => boolean): Promise<void> => {
    while (!isSo()) await systemClock.sleep(2);
  };
  const listening = await db.listen(
    'Orders "1"',
    (payload, { channel }) => received.push(`${channel}: ${payload}`),
    { onReconnect: () => reconnects++ },
  );
  await db.execute('select pg_notify(?, ?)', ['Orders "1"', 'one']);
  await db
    .transaction(async (tx) => {
      await tx.execute('select pg_notify(?, ?)', ['Orders "1"', 'never']);
      throw new Error('rolled back');
    })
    .catch(() => undefined);
  await until(() => received.length === 1);
  const pid = await db.scalar(
    "select pid from pg_stat_activity where query like 'listen %' and datname = current_database() order by backend_start desc limit 1",
  );
  await db.execute('select pg_terminate_backend(?)', [Number(pid)]);
  await until(() => reconnects === 1);
  await db.execute('select pg_notify(?, ?)', ['Orders "1"', 'two']);
  await until(() => received.length === 2);
  assert.deepEqual(received, ['Orders "1": one', 'Orders "1": two']);
  await listening[Symbol.asyncDispose]();
  await assert.rejects(
    db.listen('', () => undefined),
    fault('E_DB_IDENTIFIER'),
  );
  await assert.rejects(
    db.listen('a', () => undefined, { onreconnect: () => 1 } as never),
    fault('E_OPTION_UNKNOWN'),
  );
});

test('after ALTER TABLE, a prepared statement fails in at most one transaction of each PostgreSQL connection, and the error is retryable', async (t) => {
  if (!needsPostgres(t)) return;
  const scope = inReverse(t);
  const url = await postgresUrl(scope);
  const [db, other] = [await openDatabase(url, { pool: { max: 3 } }), await openDatabase(url)];
  scope.after(() => Promise.all([db.close(), other.close()]));
  await other.script(
    "create table item (id integer primary key, label text); insert into item values (1, 'a')",
  );
  const [read, insert] = [
    'select * from item where id = ?',
    'insert into item (id, label) values (?, ?) on conflict (id) do nothing returning *',
  ];
  const columns = async (tx: Database | Transaction): Promise<number> =>
    Object.keys((await tx.fetchOne(read, [1]))!).length;
  const onAll = async <T>(work: (tx: Transaction) => Promise<T>): Promise<T[]> => {
    // each transaction has its own connection
    const begun = Promise.withResolvers<void>();
    let count = 0;
    return Promise.all(
      [1, 2, 3].map(() =>
        db.transaction(async (tx) => {
          if (++count === 3) begun.resolve();
          await begun.promise;
          return work(tx);
        }),
      ),
    );
  };
  let added = 0;
  const changed = async (): Promise<void> => {
    await onAll(async (tx) => {
      for (let use = 0; use < 3; use++) await columns(tx).then(() => tx.executeMany(insert, [[1, 'a']]));
    });
    await other.script(`alter table item add column c${++added} integer`);
  };

  await changed();
  assert.deepEqual(await onAll(columns), [3, 3, 3]);
  await changed();
  const streamed = async (): Promise<number> => {
    for await (const row of db.stream(read, [1])) return Object.keys(row).length;
    return 0;
  };
  assert.deepEqual(await Promise.all([streamed(), streamed(), streamed()]), [4, 4, 4]);
  await changed();
  const second = (retries: number): Promise<unknown> =>
    db.transaction(async (tx) => [await tx.scalar('show transaction_isolation'), await columns(tx)], {
      isolation: 'repeatable read',
      retries,
    });
  await assert.rejects(
    second(0),
    (error) => error instanceof StatementError && error.isRetryable && error.sqlstate === '0A000',
  );
  assert.deepEqual(
    await onAll(async (tx) => {
      await tx.scalar('select 1');
      return columns(tx);
    }),
    [5, 5, 5],
    'all have heard of it',
  );
  await changed();
  assert.deepEqual(
    await Promise.all([second(1), second(1), second(1)]),
    [1, 2, 3].map(() => ['repeatable read', 6]),
  );
  await changed();
  for (const id of [2, 3, 4]) assert.equal(await db.executeMany(insert, [[id, 'b']]), 1);
});

test('a PostgreSQL statement that reaches its time limit is ended on the server', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  await assert.rejects(db.execute('select pg_sleep(61)', [], { timeoutMs: 50 }), QueryTimeout); // other tests sleep for 60 s on the same server
  assert.equal(
    await db.scalar(
      "select count(*) from pg_stat_activity where query like 'select pg_sleep(61)%' and state = 'active' and pid <> pg_backend_pid()",
    ),
    0,
  );
});

// ── migrations ──

test('when six Migrators start together, each PostgreSQL migration is applied once, and can be rolled back', async (t) => {
  if (!needsPostgres(t)) return;
  const directory = folder(t, {
    '0001_notes.up.sql':
      'create table note (id integer primary key, title text);\ninsert into note values (1, $$a;b$$);',
    '0001_notes.down.sql': 'drop table note;',
    '0002_index.up.sql': '-- svc: no-transaction\ncreate index concurrently note_title on note (title);',
    '0002_index.down.sql': 'drop index note_title;',
    '0003_function.up.sql':
      'create function one() returns integer language plpgsql as $body$ begin return 1; end; $body$;',
    '0003_function.down.sql': 'drop function one();',
  });
  const scope = inReverse(t); // drop the schema after the databases are closed
  const url = await postgresUrl(scope);
  const databases = await Promise.all(
    Array.from({ length: 6 }, () => openDatabase(url, { pool: { max: 2 } })),
  );
  scope.after(() => Promise.all(databases.map((each) => each.close())));
  const done = await Promise.all(databases.map((db) => new Migrator(db, { directory }).up()));
  assert.deepEqual(
    done
      .flat()
      .map(({ id }) => id)
      .sort(),
    ['0001', '0002', '0003'],
  );
  const [db] = databases;
  assert.deepEqual(
    [await db!.scalar('select title from note'), await db!.scalar('select one()')],
    ['a;b', 1],
  );
  assert.deepEqual(
    (await new Migrator(db!, { directory }).status()).map(({ state }) => state),
    ['applied', 'applied', 'applied'],
  );
  assert.equal((await new Migrator(db!, { directory }).down({ steps: 3 })).length, 3);
  assert.equal(await db!.scalar("select 1 where to_regclass('note') is not null"), undefined);
});

test('search_path is restored after a PostgreSQL migration that changes it, as scripts of pg_dump do', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  const path = await db.scalar('show search_path');
  const schema = await db.scalar('select current_schema()');
  const empty = "select pg_catalog.set_config('search_path', '', false);";
  const directory = folder(t, {
    '0001_dump.up.sql': `${empty}\ncreate table ${schema}.first (id integer);`,
    '0001_dump.down.sql': `${empty}\ndrop table ${schema}.first;`,
    '0002_bare.up.sql': `-- svc: no-transaction\n${empty}\ncreate index concurrently on ${schema}.first (id);`,
    '0002_bare.down.sql': 'select 1;',
    '0003_next.up.sql': 'create table second (id integer);',
    '0003_next.down.sql': 'drop table second;',
  });
  const migrator = new Migrator(db, { directory });
  assert.deepEqual(
    (await migrator.up()).map(({ id }) => id),
    ['0001', '0002', '0003'],
  );
  assert.deepEqual(
    [
      await db.scalar("select to_regclass('first') is not null and to_regclass('second') is not null"),
      await db.scalar('show search_path'),
    ],
    [true, path],
  );
  assert.equal((await migrator.down({ steps: 3 })).length, 3);
});

test('settings that a PostgreSQL migration changes are reset on its connection afterwards, even if the migration fails', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  const settings = (): Promise<unknown> =>
    db.fetchOne("select current_setting('search_path') as path, current_setting('row_security') as security");
  const before = await settings();
  const set = "select pg_catalog.set_config('search_path', '', false);\nset row_security = off;";
  const directory = folder(t, {
    '0001_a.up.sql': set,
    '0002_b.up.sql': `-- svc: no-transaction\n${set}\nselect 1 / 0;`,
  });
  await assert.rejects(new Migrator(db, { directory }).up(), {
    code: 'E_MIGRATION_FAILED',
    message: /0002_b\.up\.sql: in line 4/,
  });
  assert.deepEqual(await settings(), before);
  assert.equal(
    (
      await new Migrator(db, { directory: folder(t, { '0001_a.up.sql': set }) }, { lockSeconds: 1 }).status()
    )[0]?.state,
    'applied',
  );
});

test('settings that a PostgreSQL migration changes do not apply to the next migration', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  const directory = folder(t, {
    '0001_a.up.sql': "set svc.seen = 'a';\ncreate temporary table note (id integer);",
    '0002_b.up.sql':
      "create table note (id integer);\ninsert into note select 1 where current_setting('svc.seen', true) = 'a';\ninsert into note values (2);",
  });
  assert.equal((await new Migrator(db, { directory }).up()).length, 2);
  assert.deepEqual(await db.fetchAll('select id from note'), [{ id: 2 }]);
});

test('after a PostgreSQL migration that defines its own set_config(), the next migration still has the original search_path', async (t) => {
  const db = await postgresDatabase(t, { pool: { max: 1 } });
  if (db === undefined) return;
  const schema = await db.scalar('select current_schema()');
  const directory = folder(t, {
    '0001_a.up.sql': `create function ${schema}.set_config(text, text, boolean) returns text language sql as 'select $2';\ncreate schema ${schema}_b;\nset search_path = ${schema}_b, ${schema}, pg_catalog;`,
    '0002_b.up.sql': 'create table here (id integer);',
  });
  await new Migrator(db, { directory })
    .up()
    .finally(() => db.script(`drop schema if exists ${schema}_b cascade`));
  assert.equal(await db.scalar('select to_regclass(?) is not null', [`${schema}.here`]), true);
});

test('when a PostgreSQL migration cannot be committed, it stays pending, and the error names its file', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  for (const [text, said] of [
    [
      'create table note (id integer primary key);\ncreate table page (note integer references note deferrable initially deferred);\ninsert into page values (5);',
      /foreign key/,
    ],
    ['set transaction read only;', /read-only/],
  ] as const) {
    const migrator = new Migrator(db, { directory: folder(t, { '0001_note.up.sql': text }) });
    await assert.rejects(
      migrator.up(),
      (error) =>
        fault('E_MIGRATION_FAILED')(error) &&
        /0001_note\.up\.sql: the transaction could not be committed/.test((error as Error).message) &&
        said.test((error as Error).message),
    );
    assert.equal((await migrator.status())[0]?.state, 'pending');
  }
});

test('when a PostgreSQL migration fails, it has no effect, and the error has the line of the failed statement', async (t) => {
  const db = await postgresDatabase(t);
  if (db === undefined) return;
  const directory = folder(t, {
    '0001_half.up.sql': 'create table half (id integer);\nselect nonsense from half;',
  });
  await assert.rejects(
    new Migrator(db, { directory }).up(),
    (error) => fault('E_MIGRATION_FAILED')(error) && /line 2/.test((error as Error).message),
  );
  assert.equal(await db.scalar("select 1 where to_regclass('half') is not null"), undefined);
});

test('the migrator of DatabasePlugin.openMigrator({ onlyReads: true }) does not write to PostgreSQL', async (t) => {
  if (!needsPostgres(t)) return;
  const url = await postgresUrl(t);
  const directory = folder(t, { '0001_notes.up.sql': 'create table note (id integer)' });
  const app = new Svc({ logger: collectedLog().logger, config: { env: 'test' } });
  const plugin = new DatabasePlugin(url, { migrationDirectory: directory });
  app.register(plugin);
  app.check(); // compiling the application registers its plugins
  await using open = await plugin.openMigrator({ onlyReads: true });
  assert.deepEqual(
    (await open.migrator.status()).map(({ state }) => state),
    ['pending'],
  );
  await assert.rejects(open.migrator.up(), ReadOnly);
  await using db = await openDatabase(url);
  assert.equal(await db.scalar('select count(*) from pg_tables where schemaname = current_schema()'), 0);
});

test('DatabasePlugin.openMigrator({ onlyReads: true }) accepts a URL with target_session_attrs=read-write', async (t) => {
  if (!needsPostgres(t)) return;
  const directory = folder(t, { '0001_notes.up.sql': 'create table note (id integer)' });
  const app = new Svc({ logger: collectedLog().logger, config: { env: 'test' } });
  const url = `${await postgresUrl(t)}?target_session_attrs=read-write`;
  const plugin = new DatabasePlugin(url, { migrationDirectory: directory });
  app.register(plugin);
  app.check(); // compiling the application registers its plugins
  await using open = await plugin.openMigrator({ onlyReads: true });
  assert.deepEqual(
    (await open.migrator.status()).map(({ state }) => state),
    ['pending'],
  );
});

// ── in an application ──

test('opening a SQLite database loads no PostgreSQL module except the URL parser', async () => {
  const program = `import { registerHooks } from 'node:module';
    registerHooks({ load(url, context, next) { const file = url.split('/src/db/').at(-1); if (/postgres|pool/.test(file)) console.log(file); return next(url, context); } });
    const { openDatabase } = await import('svc/db');
    await (await openDatabase('sqlite::memory:')).close();`;
  const { status, stdout, stderr } = await run(
    process.execPath,
    ['--conditions=svc-source', '--input-type=module', '-e', program],
    { cwd: ROOT },
  );
  assert.equal(status, 0, stderr);
  assert.deepEqual(stdout.trim().split('\n'), ['wire/pool-settings.ts', 'postgres/url.ts']);
});

test('DatabasePlugin lets handlers query PostgreSQL, answers 503 at /readyz while the server is stopped, and exports metrics', async (t) => {
  if (!needsPostgres(t)) return;
  const server = await PostgresServer.start(t);
  const app = new Svc({ logger: collectedLog().logger, config: { env: 'test' } });
  app.register(new DatabasePlugin(server.url, { pool: { acquireTimeoutMs: 300 } }));
  app.get('/two', () => app.state.db.scalar(sql`select ${1}::int + 1`));
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  assert.equal(await (await client.get('/two')).text(), '2');
  assert.equal((await client.get('/readyz')).status, 200);
  await server.stop();
  assert.equal((await client.get('/readyz')).status, 503);
  await server.start();
  while ((await client.get('/two')).status !== 200) await systemClock.sleep(20);
  const metrics = await (await client.get('/metrics')).text();
  for (const line of [
    /svc_db_connections_idle 1/,
    /svc_db_pool_events_total\{database="database",event="lost"\} \d/,
    /svc_db_statement_seconds_count\{database="database"\} \d/,
  ])
    assert.match(metrics, line);
});

// ── short versions of test/soak/postgres.ts ──

test('concurrent PostgreSQL transactions see only their own rows', async (t) => {
  const db = await postgresDatabase(t);
  if (db !== undefined) await interleaved(db, POSTGRES, 500, seeded(1));
});

test('after PostgreSQL connections were closed and the server was killed, each committed row exists exactly once', async (t) => {
  if (!needsPostgres(t)) return;
  // acknowledged data survives a kill
  const server = await PostgresServer.start(t, ['synchronous_commit = on']);
  await terminated(server.url, POSTGRES, 10, seeded(2));
  const outage = await restarted(server, server.url, POSTGRES, 1, 'kill', seeded(3));
  assert.ok(outage.attempts < 20, JSON.stringify(outage));
});

test('when callers abort at random times, PostgreSQL connections stay usable', async (t) => {
  if (needsPostgres(t)) await canceled(await postgresUrl(t), POSTGRES, 300, seeded(4));
});

test('when the PostgreSQL server was stopped, a statement throws ConnectionLost', async (t) => {
  if (!needsPostgres(t)) return;
  const server = await PostgresServer.start(t);
  await using db = await openDatabase(server.url, { clock: failedConnects(t) });
  const running = assert.rejects(db.execute('select pg_sleep(60)'), ConnectionLost);
  await systemClock.sleep(50);
  await server.kill();
  await running;
  await assert.rejects(
    db.scalar('select 1'),
    (error) => error instanceof PoolTimeout && error.cause instanceof ConnectionLost,
  );
});
