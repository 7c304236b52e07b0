import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc } from '../../src/app/svc.ts';
import { DatabasePlugin, database, db } from '../../src/db/plugin.ts';
import { openDatabase } from '../../src/db/open.ts';
import { ConnectionLost, PoolTimeout, type DatabaseError } from '../../src/db/errors.ts';
import { RedisError } from '../../src/db/redis/connection.ts';
import { DatabaseSpans } from '../../src/db/tracing.ts';
import { Depends, provide } from '../../src/routing/di.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { FakeTracer } from '../support/fake-tracer.ts';
import type { Database } from '../../src/db/database.ts';

async function traced(): Promise<{ readonly database: Database; readonly tracer: FakeTracer }> {
  const tracer = new FakeTracer();
  const database = await openDatabase('sqlite::memory:', { tracer });
  await database.script('create table note (id integer primary key, text text)');
  tracer.spans.length = 0;
  return { database, tracer };
}

test('each statement has a client span with the attributes of the conventions for databases, but not with its values', async () => {
  const { database, tracer } = await traced();
  await using _ = database;
  const select = '/* a\n comment */ -- another\n  select text from note where id = ?';
  await database.execute('insert into note (text) values (?)', ['hidden']);
  await database.fetchOne(select, [1]);
  await database.executeMany('insert into note (text) values (?)', [['a'], ['b']]);
  await assert.rejects(database.fetchAll('select nothing from nowhere'));
  for await (const _ of database.stream('select id from note')) {
    /* this stream is read to its end */
  }
  tracer.assertEnded();
  const attributes = {
    'db.system.name': 'sqlite',
    'db.namespace': ':memory:',
    'db.operation.name': 'SELECT',
    'db.query.text': select,
  };
  const [, second] = tracer.spans;
  assert.deepEqual(
    [second!.name, second!.kind, second!.attributes],
    ['SELECT :memory:', 'client', attributes],
  );
  const own = tracer.spans.filter(({ name }) => !/^(?:BEGIN|COMMIT)/.test(name));
  assert.deepEqual(
    own.map(({ name, attributes, errors }) => [name, attributes['error.type'], errors.length]),
    [
      ['INSERT :memory:', undefined, 0],
      ['SELECT :memory:', undefined, 0],
      ['INSERT :memory:', undefined, 0],
      ['SELECT :memory:', 'StatementError', 1],
      ['SELECT :memory:', undefined, 0],
    ],
  );
  assert.equal(own[3]!.attributes['db.response.status_code'], '1');
  assert.doesNotMatch(JSON.stringify(tracer.spans), /hidden/);
});

test('a tracer does not change how transactions, savepoints and streams behave', async () => {
  for (const tracer of [undefined, new FakeTracer()]) {
    await using database = await openDatabase('sqlite::memory:', { tracer });
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
    if (tracer === undefined) continue;
    tracer.assertEnded();
    const seen = tracer.spans.map(({ attributes }) =>
      String(attributes['db.query.text']).split(' ').slice(0, 2).join(' '),
    );
    for (const text of [
      'begin',
      'savepoint svc_1',
      'release svc_1',
      'rollback to',
      'select id',
      'commit',
      'rollback',
    ])
      assert.ok(seen.includes(text), `${text} of ${seen.join(', ')}`);
  }
});

test('the span of a stream ends once, also if the stream fails or its loop is left early', async () => {
  const { database, tracer } = await traced();
  await using _ = database;
  await database.script(
    'with recursive n (i) as (select 1 union all select i + 1 from n where i < 5000) insert into note (id) select i from n',
  );
  tracer.spans.length = 0;
  for await (const _ of database.stream('select id from note')) break;
  await assert.rejects(async () => {
    for await (const _ of database.stream('select id from nowhere')) assert.fail('no rows');
  });
  tracer.assertEnded();
  assert.deepEqual(
    tracer.spans.map(({ errors }) => errors.length),
    [0, 1],
  );
});

test('the span of a statement is below the span of the dependency or handler that runs it', async (t) => {
  const tracer = new FakeTracer();
  const app = new Svc({ logger: collectedLog().logger, tracer });
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
  tracer.spans.length = 0;
  await Promise.all([client.get('/a'), client.get('/b')]);
  const one = [
    'GET /{id}',
    '  dependency db',
    '  dependency account',
    '    SELECT :memory:',
    '  handler show',
    '    BEGIN :memory:',
    '    SELECT :memory:',
    '    COMMIT :memory:',
  ];
  assert.deepEqual(tracer.tree(), [...one, ...one]);
  tracer.assertEnded();
});

test('spans name the server of an address only if it is the only one, and have the code of the engine', async () => {
  const host = { host: 'db.example', port: 5_432 };
  const error = new ConnectionLost('lost', { sqlstate: '08006', errno: 2_013 });
  const found: unknown[] = [];
  for (const [system, namespace, hosts] of [
    ['postgres', 'shop', [host]],
    ['mariadb', undefined, [host]],
    ['mysql', 'shop', [host, host]],
    ['redis', '0', [{ host: '/run/redis.sock', port: 0 }]],
  ] as const) {
    const tracer = new FakeTracer();
    const codeOf = ({ errno }: DatabaseError): number | undefined => errno;
    const spans = new DatabaseSpans(tracer, { system, namespace, hosts, codeOf });
    await assert.rejects(
      spans.command('GET', () => Promise.reject(error)),
      error,
    );
    const [{ name, attributes }] = tracer.spans as [FakeTracer['spans'][0]];
    found.push([
      name,
      ...['db.system.name', 'db.namespace', 'server.address', 'server.port', 'db.response.status_code'].map(
        (key) => attributes[key],
      ),
    ]);
  }
  assert.deepEqual(found, [
    ['GET shop', 'postgresql', 'shop', 'db.example', 5_432, '2013'],
    ['GET db.example', 'mariadb', undefined, 'db.example', 5_432, '2013'],
    ['GET shop', 'mysql', 'shop', undefined, undefined, '2013'],
    ['GET 0', 'redis', '0', '/run/redis.sock', undefined, '2013'],
  ]);
});

test('the span of a failed command has no status code without a code of the engine, or for an error of another kind', async () => {
  for (const [error, code] of [
    [new ConnectionLost('lost', { sqlstate: '08006' }), '08006'],
    [new PoolTimeout('full', { sqlstate: '' }), ''],
    [new RedisError('WRONGTYPE', 'no'), undefined],
    [new TypeError('no'), undefined],
  ] as const) {
    const tracer = new FakeTracer();
    const codeOf = ({ sqlstate }: DatabaseError): string | undefined => sqlstate;
    const spans = new DatabaseSpans(tracer, { system: 'redis', namespace: '0', hosts: [], codeOf });
    await assert.rejects(
      spans.command('GET', () => Promise.reject(error)),
      error,
    );
    const [{ attributes, errors }] = tracer.spans as [FakeTracer['spans'][0]];
    assert.deepEqual([attributes['db.response.status_code'], errors.length], [code, 1]);
    assert.equal(Object.hasOwn(attributes, 'db.response.status_code'), code !== undefined);
  }
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
