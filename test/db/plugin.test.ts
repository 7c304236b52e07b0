import assert from 'node:assert/strict';
import { existsSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Depends, Svc, type Plugin } from '../../src/index.ts';
import { DatabasePlugin, database, db, recordStoreMigration } from '../../src/db/index.ts';
import { SvcError } from '../../src/base/errors.ts';
import { TestClient } from '../../src/testing/index.ts';
import { createLogger } from '../../src/observability/log.ts';
import { fault } from '../contract/database.ts';
import { collectedLog } from '../support/collected-log.ts';
import { folder, write } from '../support/run.ts';
import type { Database } from '../../src/db/index.ts';

const quiet = { logger: createLogger({ level: 'silent' }) };

async function body(app: Svc, path: string): Promise<{ status: number; json: unknown }> {
  const response = await app.fetch(new Request(`http://localhost${path}`));
  return { status: response.status, json: await response.json() };
}

test('DatabasePlugin provides a typed database to handlers through Depends(db), and to the program as app.state.db', async () => {
  const app = new Svc({ env: 'test', ...quiet });
  app.register(new DatabasePlugin('sqlite::memory:'));
  app.onStartup(() => app.state.db.execute('create table note (id integer primary key, title text)'));
  app.get('/notes', { db: Depends(db) }, async ({ db: notes }) => {
    const handle: Database = notes;
    await handle.execute('insert into note (title) values (?)', ['a']);
    return handle.fetchAll('select id, title from note');
  });
  await app.startup();
  assert.deepEqual(await body(app, '/notes'), { status: 200, json: [{ id: 1, title: 'a' }] });
  const typed: Database = app.state.db;
  assert.equal(typed, app.state.get(db));
  await app.shutdown();
  assert.throws(() => app.state.db, fault('E_DB_CLOSED'));
});

test('the response to a request that gets no connection is 503 with Retry-After, and the log has the PoolTimeout', async () => {
  const { logger, events } = collectedLog();
  const app = new Svc({ env: 'test', logger });
  app.register(new DatabasePlugin('sqlite::memory:', { pool: { acquireTimeoutMs: 1 } }));
  app.get('/busy', { db: Depends(db) }, ({ db: held }) =>
    held.transaction(() => app.state.db.execute('select 1')),
  );
  app.get('/wrapped', {}, () =>
    app.state.db.execute('select 1').catch((cause: unknown) => {
      throw new Error('the notes cannot be read', { cause });
    }),
  );
  const begun = Promise.withResolvers<void>();
  const ended = Promise.withResolvers<void>();
  await app.startup();
  const holder = app.state.db.transaction(() => {
    begun.resolve();
    return ended.promise;
  });
  await begun.promise;
  for (const path of ['/wrapped', '/busy']) {
    const response = await app.fetch(new Request(`http://localhost${path}`));
    assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5'], path);
  }
  const failed = events.findLast(({ event }) => event === 'unhandled_error');
  assert.equal((failed?.['error'] as { code: string }).code, 'pool_timeout');
  ended.resolve();
  await holder;
  await app.shutdown();
});

test('app.state.db without a registered DatabasePlugin throws an error that names the plugin', () => {
  assert.throws(() => new Svc({ env: 'test', ...quiet }).state.db, fault('E_STATE_UNSET'));
});

test('app.state.db before the start of the application throws an error that says when it can be read', async () => {
  const app = new Svc({ env: 'test', ...quiet }).register(new DatabasePlugin('sqlite::memory:'));
  app.get('/', () => 'ok');
  assert.throws(() => app.state.db, {
    code: 'E_STATE_UNSET',
    message: /no code has set the state yet$/,
    remedy: /in a test, read it after the first request/,
  });
  await using client = new TestClient(app);
  await client.get('/');
  assert.equal(await app.state.db.scalar('select 1'), 1);
});

test('several DatabasePlugins with different names provide separate databases', async (t) => {
  const at = folder(t);
  const app = new Svc({ env: 'test', ...quiet });
  app
    .register(new DatabasePlugin(`sqlite:${join(at, 'main.db')}`))
    .register(new DatabasePlugin(`sqlite:${join(at, 'reports.db')}`, { name: 'reporting' }));
  app.register({ name: 'shop', register: (host) => host.migration('v1', recordStoreMigration()) });
  await app.startup();
  const reporting = app.state.get(database('reporting'));
  assert.notEqual(reporting, app.state.db);
  assert.equal(
    await app.state.db.scalar('select count(*) from sqlite_schema where name = ?', ['svc_records']),
    1,
  );
  assert.equal(
    await reporting.scalar('select count(*) from sqlite_schema where name = ?', ['svc_records']),
    0,
  );
  assert.deepEqual(Object.keys(((await body(app, '/readyz')).json as { checks: object }).checks).sort(), [
    'database',
    'reporting',
  ]);
  await app.shutdown();
});

test('DatabasePlugin opens its database before the start of plugins that were registered earlier, and closes it after their end', async (t) => {
  const order: string[] = [];
  const path = join(folder(t), 'data.db');
  const app = new Svc({ env: 'test', ...quiet });
  const user: Plugin = {
    name: 'user',
    register: () => undefined,
    startup: async () => {
      order.push(`start ${await app.state.db.scalar('select 1')}`);
    },
    shutdown: async () => {
      order.push(`stop ${await app.state.db.scalar('select 2')}`);
    },
  };
  app.register(user).register(new DatabasePlugin(`sqlite:${path}`));
  await app.startup();
  await app.shutdown();
  assert.deepEqual(order, ['start 1', 'stop 2']);
  assert.ok(!existsSync(`${path}-wal`));
});

test('GET /readyz answers 503 while the database is down', async (t) => {
  const path = join(folder(t), 'data.db');
  const app = new Svc({ env: 'test', ...quiet });
  app.register(new DatabasePlugin(`sqlite:${path}`));
  await app.startup();
  assert.equal((await body(app, '/readyz')).status, 200);
  renameSync(path, `${path}.moved`);
  const down = await body(app, '/readyz');
  assert.equal(down.status, 503);
  assert.equal((down.json as { checks: { database: { status: string } } }).checks.database.status, 'down');
  renameSync(`${path}.moved`, path);
  assert.equal((await body(app, '/readyz')).status, 200);
  await app.shutdown();
});

test('a DatabasePlugin without migrations logs nothing about the migrations that its database has', async (t) => {
  const at = folder(t, { 'sql/0001_notes.up.sql': 'create table note (id integer primary key);' });
  const { logger, events } = collectedLog();
  const app = new Svc({ env: 'production', logger });
  const url = `sqlite:${join(at, 'data.db')}`;
  app.register(new DatabasePlugin(url, { migrationDirectory: join(at, 'sql'), migrations: 'apply' }));
  app.register(new DatabasePlugin(url, { name: 'replica', readOnly: true }));
  await app.startup();
  await app.shutdown();
  assert.deepEqual(
    events.flatMap(({ event }) => (String(event).startsWith('migration_') ? [event] : [])),
    ['migration_applied'],
  );
});

for (const [name, expected] of [
  [undefined, 'applied'],
  ['stats', 'no such table: note'],
] as const)
  test(`DatabasePlugin ${name === undefined ? 'without a name' : 'with a name'} ${name === undefined ? 'applies' : 'does not apply'} the migrations in the folder "migrations" of the working directory`, async (t) => {
    const before = process.cwd();
    t.after(() => process.chdir(before));
    process.chdir(folder(t, { 'migrations/0001_note.up.sql': 'create table note (a text)' }));
    const plugin = new DatabasePlugin('sqlite:data.db', name === undefined ? {} : { name });
    const app = new Svc({ env: 'test', ...quiet }).register(plugin);
    t.after(() => app.shutdown());
    await app.startup();
    const found = await app.state
      .get(name === undefined ? db : database(name))
      .fetchAll('select * from note')
      .then(
        () => 'applied',
        (error: unknown) => (error as Error).message,
      );
    assert.equal(found, expected);
  });

test('in production, DatabasePlugin refuses to start while migrations are pending, unless the option migrations is "apply"', async (t) => {
  const at = folder(t);
  write(at, { 'sql/0001_notes.up.sql': 'create table note (id integer primary key);' });
  const url = `sqlite:${join(at, 'data.db')}`;
  const make = (options: ConstructorParameters<typeof DatabasePlugin>[1]): Svc => {
    const app = new Svc({ env: 'production', ...quiet });
    app.register(new DatabasePlugin(url, { migrationDirectory: join(at, 'sql'), ...options }));
    return app;
  };
  await assert.rejects(make({}).startup(), fault('E_MIGRATION_PENDING'));
  for (const [name, flag] of [
    ['stats', 'stats'],
    ['my stats', '"my stats"'],
  ] as const)
    await assert.rejects(make({ name }).startup(), {
      code: 'E_MIGRATION_PENDING',
      remedy: `Apply the migrations before the new version starts: svc migrate up <module> --database ${flag}; or set the option migrations: "apply" of the DatabasePlugin`,
    });
  write(at, { 'bad/0001_notes.up.sql': 'create tabel note (id integer);' });
  await assert.rejects(
    make({ name: 'stats', migrationDirectory: join(at, 'bad'), migrations: 'apply' }).startup(),
    { code: 'E_MIGRATION_FAILED', remedy: /svc migrate repair <module> --database stats$/ },
  );
  const ignoring = make({ migrations: 'ignore' });
  await ignoring.startup();
  await ignoring.shutdown();
  const applying = make({ migrations: 'apply' });
  await applying.startup();
  assert.equal(await applying.state.db.scalar('select count(*) from note'), 0);
  await applying.shutdown();
  const plugin = new DatabasePlugin(url, { migrationDirectory: join(at, 'sql') });
  const app = new Svc({ env: 'production', ...quiet });
  app.register(plugin);
  await app.startup();
  {
    await using open = await plugin.openMigrator();
    assert.deepEqual(
      (await open.migrator.status()).map(({ id, state }) => [id, state]),
      [['0001', 'applied']],
    );
  }
  await app.shutdown();
});

for (const [what, file, expected] of [
  ['an existing SQLite file', 'there.db', '0001 applied'],
  ['a missing SQLite file, which is not created', 'missing.db', '0001 pending'],
  ['a SQLite file in a missing folder', 'missing/data.db', 'E_DB_OPEN'],
  ['a database in memory', undefined, '0001 pending'],
] as const)
  test(`openMigrator({ onlyReads: true }) of DatabasePlugin opens ${what} (result: ${expected})`, async (t) => {
    const at = folder(t, { 'sql/0001_note.up.sql': 'create table note (a text)' });
    const openerOf = (name: string | undefined): DatabasePlugin => {
      const url = name === undefined ? 'sqlite::memory:' : `sqlite:${join(at, name)}`;
      const plugin = new DatabasePlugin(url, { migrationDirectory: join(at, 'sql') });
      new Svc({ env: 'production', ...quiet }).register(plugin).inspect();
      return plugin;
    };
    {
      await using open = await openerOf('there.db').openMigrator();
      await open.migrator.up();
    }
    const opening = openerOf(file).openMigrator({ onlyReads: true });
    if (expected === 'E_DB_OPEN') await assert.rejects(opening, fault(expected));
    else {
      await using open = await opening;
      const [found, ...more] = await open.migrator.status();
      assert.deepEqual([`${found!.id} ${found!.state}`, more], [expected, []]);
    }
    assert.equal(existsSync(join(at, file ?? 'missing.db')), file === 'there.db');
  });

test('DatabasePlugin refuses an invalid URL or option in its constructor, and a missing directory when it starts', async (t) => {
  assert.throws(() => new DatabasePlugin('sqlite:'), fault('E_DB_URL'));
  assert.throws(
    () => new DatabasePlugin('mysql://u:secret@h/d?tls=1'),
    (error) => fault('E_DB_URL')(error) && !(error as SvcError).message.includes('secret'),
  );
  assert.throws(
    () => new DatabasePlugin('sqlite::memory:', { sync: 'full' } as never),
    fault('E_OPTION_UNKNOWN'),
  );
  assert.throws(
    () => new DatabasePlugin('sqlite::memory:', { migrations: 'never' as never }),
    fault('E_OPTION_RANGE'),
  );
  const app = new Svc({ env: 'test', ...quiet });
  app.register(new DatabasePlugin(`sqlite:${join(folder(t), 'none/data.db')}`));
  await assert.rejects(app.startup(), fault('E_DB_OPEN'));
});

test('the production check of DatabasePlugin warns of a database in memory, and of commits that do not wait for the disk', (t) => {
  const rules = (url: string, env: 'production' | 'development', options = {}): string[] => {
    const app = new Svc({ env, ...quiet });
    app.register(new DatabasePlugin(url, options));
    return app
      .check()
      .findings.map(({ rule }) => rule)
      .filter((rule) => rule.startsWith('database/'));
  };
  const file = `sqlite:${join(folder(t), 'data.db')}`;
  assert.deepEqual(rules('sqlite::memory:', 'production'), ['database/memory']);
  assert.deepEqual(rules(file, 'production', { synchronous: 'normal' }), ['database/synchronous']);
  assert.deepEqual(rules(file, 'production'), []);
  assert.deepEqual(rules('sqlite::memory:', 'development'), []);
});

test("the production check of DatabasePlugin warns of a connection that does not verify the server's certificate", () => {
  for (const [url, expected] of [
    ['postgres://app@db.example/app', []],
    ['postgres://app@db.example/app?sslmode=verify-full', []],
    ['postgres://app@localhost/app', []],
    ['postgres://app@/app?host=/run/postgresql', []],
    ['postgres://app@db.example/app?sslmode=require', ['database/tls']],
    ['postgres://app@localhost,db.example/app?sslmode=disable', ['database/tls']],
  ] as const) {
    const app = new Svc({ env: 'production', ...quiet });
    app.register(new DatabasePlugin(url));
    assert.deepEqual(
      app
        .check()
        .findings.map(({ rule }) => rule)
        .filter((rule) => rule.startsWith('database/')),
      expected,
      url,
    );
  }
});
