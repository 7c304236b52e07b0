import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import test from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { DatabasePlugin, database, db } from '../../src/db/plugin.ts';
import { openDatabase } from '../../src/db/open.ts';
import { Depends, provide } from '../../src/routing/di.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { TestContext } from 'node:test';
import type { QueryEvent } from '../../src/db/tracing.ts';

/** Subscribes to a channel until the test ends. */
function subscribe(t: TestContext, channel: string, on: (phase: string, event: never) => void): void {
  const subscribers = Object.fromEntries(
    ['start', 'end', 'asyncStart', 'asyncEnd', 'error'].map((phase) => [
      phase,
      (event: object) => on(phase, event as never),
    ]),
  ) as unknown as Parameters<ReturnType<typeof tracingChannel<unknown, object>>['subscribe']>[0];
  const tracing = tracingChannel<unknown, object>(channel);
  tracing.subscribe(subscribers);
  t.after(() => tracing.unsubscribe(subscribers));
}

test('the diagnostics channel svc:db:query publishes each statement and each failure, but not the values of the statement', async (t) => {
  await using database = await openDatabase('sqlite::memory:');
  await database.script('create table note (id integer primary key, text text)');
  const seen: unknown[] = [];
  subscribe(t, 'svc:db:query', (phase, { system, database: name, text, operation, error }: QueryEvent) => {
    if (phase === 'start') seen.push([system, name, text, operation]);
    if (phase === 'error') seen.push((error as { code?: string }).code);
  });
  await database.execute('insert into note (text) values (?)', ['hidden']);
  await database.fetchOne('/* a\n comment */ -- another\n  select text from note where id = ?', [1]);
  await database.executeMany('insert into note (text) values (?)', [['a'], ['b']]);
  await assert.rejects(database.fetchAll('select nothing from nowhere'));
  for await (const _ of database.stream('select id from note')) {
    /* this stream is read to its end */
  }
  assert.deepEqual(
    seen.filter((entry) => !Array.isArray(entry) || !['BEGIN', 'COMMIT'].includes(entry[3] as string)),
    [
      ['sqlite', 'database', 'insert into note (text) values (?)', 'INSERT'],
      ['sqlite', 'database', '/* a\n comment */ -- another\n  select text from note where id = ?', 'SELECT'],
      ['sqlite', 'database', 'insert into note (text) values (?)', 'INSERT'],
      ['sqlite', 'database', 'select nothing from nowhere', 'SELECT'],
      seen.find((entry) => typeof entry === 'string'),
      ['sqlite', 'database', 'select id from note', 'SELECT'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(seen), /hidden/);
});

test('the diagnostics channel svc:db:query publishes transactions, savepoints and streams, and subscribers do not change how these behave', async (t) => {
  for (const isWatched of [false, true]) {
    await using database = await openDatabase('sqlite::memory:');
    const seen: string[] = [];
    if (isWatched)
      subscribe(t, 'svc:db:query', (phase, { text }: QueryEvent) => {
        if (phase === 'end') seen.push(text.split(' ').slice(0, 2).join(' '));
      });
    await database.script('create table note (id integer primary key, text text)');
    const ids = await database.transaction(async (tx) => {
      await tx.insertMany('note', ['text'], [['a'], ['b'], ['c']]);
      await assert.rejects(
        tx.transaction(async (inner) => {
          await inner.execute('delete from note');
          throw new Error('undone');
        }),
        /undone/,
      );
      await tx.transaction((inner) => inner.execute('delete from note where text = ?', ['c']));
      const read: unknown[] = [];
      for await (const { id } of tx.stream('select id from note order by id')) {
        read.push(id);
        if (read.length === 2) break;
      }
      return [
        read,
        await tx.scalar('select count(*) from note'),
        (await tx.fetchArrays('select text from note')).rows.length,
      ];
    });
    await assert.rejects(
      database.transaction(async (tx) => {
        await tx.execute('delete from note');
        throw new Error('rolled back');
      }),
      /rolled back/,
    );
    assert.deepEqual(
      [ids, await database.scalar('select count(*) from note'), database.load.inUse],
      [[[1, 2], 2, 2], 2, 0],
    );
    for (const text of isWatched
      ? ['begin', 'savepoint svc_1', 'release svc_1', 'rollback to', 'select id', 'commit', 'rollback']
      : [])
      assert.ok(seen.includes(text), `${text} of ${seen.join(', ')}`);
  }
});

test('the diagnostics channel svc:db:query publishes the end of a stream, even if the stream fails or its loop is left early', async (t) => {
  await using database = await openDatabase('sqlite::memory:');
  await database.script(
    'create table note (id integer primary key); with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000) insert into note select i from n',
  );
  const phases: string[] = [];
  subscribe(t, 'svc:db:query', (phase, { text }: QueryEvent) => {
    if (text.startsWith('select id')) phases.push(phase);
  });
  for await (const _ of database.stream('select id from note')) break;
  await assert.rejects(async () => {
    for await (const _ of database.stream('select id from nowhere')) assert.fail('no rows');
  });
  await new Promise((resolve) => setImmediate(resolve));
  const streams = phases
    .join(' ')
    .split('start')
    .filter((part) => part !== '')
    .map((part) => part.trim());
  assert.ok(
    streams.some((part) => part === 'end asyncStart asyncEnd'),
    phases.join(),
  );
  assert.ok(
    streams.some((part) => part.includes('error') && part.endsWith('asyncEnd')),
    phases.join(),
  );
});

test('statements on the diagnostics channel svc:db:query are published in the async context that a subscriber of svc:request has set', async (t) => {
  const app = new Svc({ logger: collectedLog().logger });
  app.register(new DatabasePlugin('sqlite::memory:'));
  const store = new AsyncLocalStorage<string>();
  const { start } = tracingChannel<unknown, object>('svc:request');
  start.bindStore(store, (event) => (event as { path: string }).path);
  t.after(() => start.unbindStore(store));
  const seen: unknown[] = [];
  subscribe(t, 'svc:db:query', (phase, { text, database }: QueryEvent) => {
    if (phase === 'start' && /^select \d$/.test(text)) seen.push([store.getStore(), database, text]);
  });
  app.get('/{id}', { db: Depends(db) }, async ({ db, params }) => {
    await new Promise((resolve) => setImmediate(resolve));
    return db.scalar(`select ${params.id === 'a' ? 1 : 2}`);
  });
  const client = new TestClient(app);
  t.after(() => client.close());
  await Promise.all([client.get('/a'), client.get('/b')]);
  assert.deepEqual(seen.toSorted(), [
    ['/a', 'database', 'select 1'],
    ['/b', 'database', 'select 2'],
  ]);
});

test('if subscribers nest spans as OpenTelemetry does, the span of a statement is inside the span of the dependency or handler that ran it', async (t) => {
  const app = new Svc({ logger: collectedLog().logger });
  app.register(new DatabasePlugin('sqlite::memory:'));
  const client = new TestClient(app);
  t.after(() => client.close());
  const account = provide({ db: Depends(db) }, function account({ db }) {
    return db.scalar('select 1');
  });
  app.get('/{id}', { account: Depends(account), db: Depends(db) }, async function show({ db }) {
    await new Promise((resolve) => setImmediate(resolve));
    return db.transaction((tx) => tx.scalar('select 2'));
  });
  await client.get('/warm'); // the start of the application has ended
  const store = new AsyncLocalStorage<string>();
  const paths: string[] = [];
  for (const [channel, nameOf] of [
    ['svc:request', ({ path }: { path: string }) => path],
    ['svc:dependency', ({ name }: { name: string }) => name],
    ['svc:handler', ({ name }: { name: string }) => name],
    ['svc:db:query', ({ text }: { text: string }) => text],
  ] as const) {
    const { start } = tracingChannel<unknown, object>(channel);
    start.bindStore(store, (event) => {
      const path = `${store.getStore() ?? ''} > ${nameOf(event as never)}`;
      paths.push(path);
      return path;
    });
    t.after(() => start.unbindStore(store));
  }
  await Promise.all([client.get('/a'), client.get('/b')]);
  const below = (id: string): string[] =>
    paths.filter((path) => path.startsWith(` > /${id}`)).map((path) => path.slice(` > /${id}`.length));
  for (const id of ['a', 'b'])
    assert.deepEqual(below(id), [
      '',
      ' > db',
      ' > account',
      ' > account > select 1',
      ' > show',
      ' > show > begin',
      ' > show > select 2',
      ' > show > commit',
    ]);
  assert.equal(paths.length, 16);
});

test('the metrics of a database count its connections, the waiting callers, their waiting time, and the statements', async (t) => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  app.register(new DatabasePlugin('sqlite::memory:'));
  app.register(new DatabasePlugin('sqlite::memory:', { name: 'reporting' }));
  t.after(() => app.shutdown());
  const value = (line: string): number =>
    Number(
      app.metrics
        .render()
        .split('\n')
        .find((candidate) => candidate.startsWith(`${line} `))
        ?.slice(line.length + 1),
    );
  app.compileAll();
  assert.equal(value('svc_db_connections_idle'), 0);
  await app.startup();
  assert.deepEqual(
    [value('svc_db_connections_in_use'), value('svc_db_connections_idle'), value('svc_db_waiting')],
    [0, 2, 0],
  );
  assert.deepEqual(
    await app.state.db.transaction(() => [
      value('svc_db_connections_in_use'),
      value('svc_db_connections_idle'),
    ]),
    [1, 1],
  );
  const release = Promise.withResolvers<void>();
  const first = app.state.db.transaction(() => release.promise);
  const second = app.state.db.transaction(async (tx) => {
    await tx.execute('create table x (id integer)');
  });
  assert.equal(value('svc_db_waiting'), 1);
  release.resolve();
  await Promise.all([first, second]);
  assert.equal(value('svc_db_wait_seconds_count{database="database"}'), 1);
  const before = value('svc_db_statement_seconds_count{database="reporting"}');
  await app.state.get(database('reporting')).fetchAll('select 1');
  assert.equal(value('svc_db_statement_seconds_count{database="reporting"}'), before + 1);
  await app.shutdown();
  assert.equal(value('svc_db_connections_idle'), 0);
});
