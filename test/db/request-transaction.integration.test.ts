/**
 * `Depends(transaction)` on every engine: commits before the response is sent, and rolls back after every
 * error.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BackgroundTasks, Depends, Forbidden, Router, Svc, provide } from '../../src/index.ts';
import {
  ConstraintViolation,
  DatabasePlugin,
  ReadOnly,
  conflictOn,
  db as database,
  openDatabase,
  transaction,
  type Database,
  type Transaction,
  type TransactionOptions,
} from '../../src/db/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { fault } from '../contract/database.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import { folder } from '../support/run.ts';
import type { FaultCode } from '../../src/base/faults.ts';

const INSERT = 'insert into note (id, parent) values (?, ?)';
const SCHEMA = 'create table note (id integer primary key, parent integer)';

/** Returns an application with its own database at the address. */
function appAt(url: string): Svc {
  const app = new Svc();
  app.register(new DatabasePlugin(url, { migrations: 'ignore' }));
  return app;
}

const ids = async (db: Database): Promise<unknown[]> =>
  (await db.fetchAll('select id from note order by id')).map(({ id }) => id);

onEveryDatabase(
  'a transaction of a request is committed by a reply of any status, and rolled back by any error',
  async (db, url) => {
    await db.script(SCHEMA);
    const app = appAt(url);
    const add = provide(
      { tx: Depends(transaction) },
      ({ tx }) =>
        (id: number) =>
          tx.execute(INSERT, [id, null]),
    );
    const spec = { tx: Depends(transaction), add: Depends(add) };
    type Given = { tx: Transaction; add: (id: number) => Promise<unknown> };
    const ends: Readonly<Record<string, (given: Given) => unknown>> = {
      ok: () => ({}),
      status: () => [{}, 409],
      exception: () => {
        throw new Forbidden('no');
      },
      error: () => {
        throw new RangeError('no');
      },
      rejected: ({ tx }) => tx.execute('insert into nowhere (id) values (1)'),
      reply: () =>
        Promise.resolve({
          cycle: 1n,
          get self() {
            throw new RangeError('no');
          },
        }),
    };
    for (const [path, end] of Object.entries(ends)) {
      app.post(`/${path}`, spec, async ({ tx, add }: Given) => {
        await tx.execute(INSERT, [1, null]);
        await add(2);
        await tx.transaction((inner) => inner.execute(INSERT, [3, null]));
        return end({ tx, add });
      });
    }
    await using client = new TestClient(app, { raiseErrors: false });
    for (const [path, status, kept] of [
      ['ok', 200, true],
      ['status', 409, true],
      ['exception', 403, false],
      ['error', 500, false],
      ['rejected', 500, false],
      ['reply', 500, false],
    ] as const) {
      assert.equal((await client.post(`/${path}`)).status, status);
      assert.deepEqual(await ids(db), kept ? [1, 2, 3] : [], path);
      await db.execute('delete from note');
    }
  },
);

onEveryDatabase(
  'a nested transaction that fails inside a handler is rolled back alone, and the request can still commit',
  async (db, url) => {
    await db.script(SCHEMA);
    const app = appAt(url);
    app.post('/', { tx: Depends(transaction) }, async ({ tx }) => {
      await tx.execute(INSERT, [1, null]);
      await tx
        .transaction(async (inner) => {
          await inner.execute(INSERT, [2, null]);
          throw new RangeError('inner');
        })
        .catch(() => undefined);
      return {};
    });
    await using client = new TestClient(app);
    assert.equal((await client.post('/')).status, 200);
    assert.deepEqual(await ids(db), [1]);
  },
);

onEveryDatabase('if the COMMIT of a request fails, its error determines the response', async (db, url) => {
  // these engines check no constraint at COMMIT
  if (db.dialect === 'mysql' || db.dialect === 'mariadb') return;
  await db.script(
    'create table note (id integer primary key, parent integer references note (id) deferrable initially deferred)',
  );
  const app = appAt(url);
  app.exceptionHandler(ConstraintViolation, conflictOn());
  app.post('/', { tx: Depends(transaction) }, async ({ tx }) => {
    await tx.execute(INSERT, [1, 99]);
    return {};
  });
  await using client = new TestClient(app);
  const response = await client.post('/');
  assert.equal(response.status, 422);
  assert.equal(((await response.json()) as { code: string }).code, 'foreign_key');
  assert.deepEqual(await ids(db), []);
});

onEveryDatabase('transaction() applies its options; equal options share a transaction', async (db, url) => {
  await db.script(SCHEMA);
  const app = appAt(url);
  const reading = transaction({ readOnly: true });
  assert.equal(reading, transaction({ readOnly: true, timeoutMs: undefined }));
  app.post('/read', { tx: Depends(reading) }, async ({ tx }) => {
    await assert.rejects(tx.execute(INSERT, [1, null]), ReadOnly);
    return {};
  });
  const serializable = transaction({ isolation: 'serializable', timeoutMs: 10_000 });
  app.get('/isolation', { a: Depends(serializable), b: Depends(serializable) }, async ({ a, b }) => ({
    isOne: a === b,
    level: db.dialect === 'postgres' ? await a.scalar('show transaction_isolation') : 'serializable',
  }));
  await using client = new TestClient(app, { raiseErrors: false });
  const { status } = await client.post('/read');
  // a handler that catches a statement error on PostgreSQL gets TransactionAborted at the end
  assert.equal(status, db.dialect === 'postgres' ? 500 : 200);
  assert.deepEqual(await (await client.get('/isolation')).json(), { isOne: true, level: 'serializable' });
  assert.deepEqual(await ids(db), []);
});

test('transaction({ database }) uses the database with the given name, and transaction() refuses an unknown isolation level', async (t) => {
  const app = new Svc();
  app.register(new DatabasePlugin('sqlite::memory:'));
  app.register(new DatabasePlugin(`sqlite:${folder(t)}/other.db`, { name: 'other' }));
  app.get(
    '/',
    { tx: Depends(transaction({ database: 'other' })), main: Depends(transaction) },
    async ({ tx, main }) => {
      await tx.script('create table there (id integer)');
      await main.script('create table here (id integer)');
      return {};
    },
  );
  assert.throws(() => transaction({ isolation: 'chaos' as never }), { code: 'E_OPTION_RANGE' });
  await using client = new TestClient(app);
  assert.equal((await client.get('/')).status, 200);
});

test('when the transaction of a request cannot begin, the response has status 500, and the handler is not called', async () => {
  const app = new Svc();
  app.register(new DatabasePlugin('sqlite::memory:', { pool: { acquireTimeoutMs: 20 } }));
  let calls = 0;
  app.get('/', { tx: Depends(transaction) }, () => {
    calls++;
    return {};
  });
  await using client = new TestClient(app, { raiseErrors: false });
  assert.equal((await client.get('/')).status, 200);
  await app.state.db.transaction(async () => {
    assert.equal((await client.get('/')).status, 500);
  });
  assert.equal(calls, 1);
});

onEveryDatabase(
  'inside the transaction of a request, statements outside this transaction throw E_DB_NESTED, and succeed after it',
  async (_db, url) => {
    const app = appAt(url);
    const refused = { code: 'E_DB_NESTED' };
    const direct = (): Promise<unknown> => app.state.db.scalar('select 1');
    const needing = provide({ tx: Depends(transaction) }, async () => {
      await assert.rejects(direct(), refused);
      return 'needing';
    });
    const indirect = provide({ needing: Depends(needing) }, async () => {
      await assert.rejects(direct(), refused);
      return 'indirect';
    });
    const steps: string[] = [];
    const generator = provide({ tx: Depends(transaction) }, async function* ({ tx }) {
      await assert.rejects(direct(), refused);
      steps.push('entered');
      yield tx.scalar('select 2');
      await assert.rejects(direct(), refused);
      steps.push('left');
    });
    const after = Promise.withResolvers<unknown>();
    app.get(
      '/',
      {
        indirect: Depends(indirect),
        tx: Depends(transaction),
        generator: Depends(generator, { scope: 'handler' }),
        tasks: Depends(BackgroundTasks),
      },
      async ({ indirect, tx, tasks, generator }) => {
        await assert.rejects(direct(), refused);
        assert.equal(generator, 2);
        await assert.rejects(
          app.state.db.transaction(() => undefined),
          refused,
        );
        await tx.transaction((inner) => inner.scalar('select 1'));
        tasks.add(() => {
          after.resolve(direct());
        });
        return { indirect, one: await tx.scalar('select 1') };
      },
    );
    await using client = new TestClient(app);
    assert.deepEqual(await (await client.get('/')).json(), { indirect: 'indirect', one: 1 });
    assert.equal(await after.promise, 1);
    assert.deepEqual(steps, ['entered', 'left']);
    assert.equal(await direct(), 1);
  },
);

onEveryDatabase(
  'the transaction of a request begins after the dependencies that do not need it are resolved',
  async (_db, url) => {
    const app = appAt(url);
    const user = async (): Promise<unknown> => {
      await app.state.db.scalar('select 1'); // the next statement is a turn later
      return app.state.db.scalar('select 2');
    };
    const router = new Router({ deps: { outer: Depends(transaction) } });
    const handler = ({ tx, user }: { tx: Transaction; user: unknown }): object => ({
      user,
      isOver: tx.isOver,
    });
    app.get('/before', { user: Depends(user), tx: Depends(transaction) }, handler);
    app.get('/after', { tx: Depends(transaction), user: Depends(user) }, handler);
    router.get('/router', { user: Depends(user) }, ({ outer, user }) => handler({ tx: outer, user }));
    app.includeRouter(router);
    await using client = new TestClient(app);
    for (const path of ['/before', '/after', '/router'])
      assert.deepEqual(await (await client.get(path)).json(), { user: 2, isOver: false }, path);
  },
);

test('when a dependency uses the transaction of the request, its code after "yield" runs before the transaction ends', async () => {
  const app = new Svc();
  app.register(new DatabasePlugin('sqlite::memory:'));
  const order: string[] = [];
  const unit = provide({ tx: Depends(transaction) }, function* ({ tx }) {
    yield tx;
    order.push(tx.isOver ? 'after the end' : 'before the end');
  });
  assert.equal(Depends(unit).scope, 'handler');
  assert.equal(Depends(unit, { scope: 'request' }).scope, 'request');
  app.get('/', { tx: Depends(unit) }, () => ({}));
  await using client = new TestClient(app);
  assert.equal((await client.get('/')).status, 200);
  assert.deepEqual(order, ['before the end']);
});

onEveryDatabase(
  'with a transaction in place of the database, all transactions of requests are savepoints in it',
  async (_db, url) => {
    const app = appAt(url);
    app.post('/ok', { tx: Depends(transaction) }, async ({ tx }) => {
      await tx.execute(INSERT, [1, null]);
      return {};
    });
    app.post('/undone', { tx: Depends(transaction({ isolation: 'serializable' })) }, async ({ tx }) => {
      await tx.execute(INSERT, [2, null]);
      throw new Forbidden('no');
    });
    app.post('/retried', { db: Depends(database) }, async ({ db }) => {
      await db.transaction((tx) => tx.execute(INSERT, [3, null]), { isolation: 'serializable', retries: 2 });
      return {};
    });
    await using db = await openDatabase(url);
    await db.script(SCHEMA);
    const undone = new Error('undone');
    const test = db.transaction(
      async (tx) => {
        await using client = new TestClient(app, { overrides: [[database, () => tx]] });
        const statuses = [];
        for (const path of ['/ok', '/undone', '/retried']) statuses.push((await client.post(path)).status);
        assert.deepEqual(statuses, [200, 403, 200]);
        assert.deepEqual(await tx.fetchAll('select id from note order by id'), [{ id: 1 }, { id: 3 }]);
        throw undone;
      },
      { isolation: 'serializable' },
    );
    await assert.rejects(test, undone);
    assert.deepEqual(await ids(db), []);
  },
);

onEveryDatabase(
  'a nested transaction is refused if it asks for more than the outermost transaction has',
  async (db) => {
    const level = db.dialect === 'sqlite' ? undefined : 'E_DB_OPTION';
    const cases: readonly (readonly [TransactionOptions, TransactionOptions, FaultCode | undefined])[] = [
      [{}, { isolation: 'read committed' }, level],
      [{}, { readOnly: true }, 'E_DB_OPTION'],
      [{}, { retries: 3 }, undefined],
      [{}, { isolated: true } as never, 'E_OPTION_UNKNOWN'],
      [{ isolation: 'repeatable read' }, { isolation: 'read committed' }, undefined],
      [{ isolation: 'repeatable read' }, { isolation: 'repeatable read' }, undefined],
      [{ isolation: 'repeatable read' }, { isolation: 'serializable' }, level],
      [{ readOnly: true }, { readOnly: true }, undefined],
    ];
    for (const [outer, options, code] of cases)
      await db.transaction(async (tx) => {
        const nested = tx.transaction(
          (inner) => inner.transaction((innermost) => innermost.scalar('select 1'), options),
          {},
        );
        if (code === undefined) assert.equal(await nested, 1, JSON.stringify([outer, options]));
        else await assert.rejects(nested, fault(code));
      }, outer);
  },
);
