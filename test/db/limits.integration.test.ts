/**
 * Promises of the application that never settle: a row source, a callback, a loop over a stream. One table,
 * on every engine.
 *
 * At the limit of its call, each of them gives up its connection, its changes are undone, and the database
 * goes on. The pool has one connection, so every further statement needs the connection that was held.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  DatabasePlugin,
  QueryCanceled,
  QueryTimeout,
  Redis,
  UniqueViolation,
  openDatabase,
  transaction as requestTransaction,
} from '../../src/db/index.ts';
import { Depends, Svc } from '../../src/index.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { Migrator } from '../../src/db/migrations/migrations.ts';
import { fault } from '../contract/database.ts';
import { collectedLog } from '../support/collected-log.ts';
import { needsRedis, sharedRedis } from '../support/redis-server.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import { folder } from '../support/run.ts';
import { turn } from '../support/turn.ts';
import type { Database, QueryOptions, Transaction } from '../../src/db/index.ts';
import type { Params } from '../../src/db/values.ts';

const LIMIT_MS = 300;
/** Longest time after the limit in which a caller gets its error. */
const GRACE_MS = 400;
/** Number of rows that are written together, and one more. */
const MORE_THAN_A_CHUNK = 1_001;

/** An application whose promises do not settle. */
class Stalling {
  /** Resolves when the application has begun to wait. */
  readonly begun: PromiseWithResolvers<void> = Promise.withResolvers();
  isLeft = false;

  /** Returns a promise that never settles. */
  never(): Promise<never> {
    this.begun.resolve();
    return new Promise(() => undefined);
  }

  /** Rows whose source stalls after `count` rows. */
  rows(count: number, onReturn: () => unknown = () => undefined): AsyncIterable<Params> {
    let made = 0;
    return {
      [Symbol.asyncIterator]: () => ({
        next: () => (made < count ? Promise.resolve({ value: [++made] }) : this.never()),
        return: async () => {
          this.isLeft = true;
          await onReturn();
          return { done: true, value: undefined };
        },
      }),
    };
  }
}

interface Case {
  readonly name: string;
  run(db: Database, app: Stalling, limit: QueryOptions): Promise<unknown>;
  /** Whether return() of a source must be called. */
  readonly hasSource?: boolean;
  /** Error of the call. Default: the error of the limit. */
  readonly error?: (error: unknown) => boolean;
  /** Rows that the call has committed. Default 0. */
  readonly rows?: number;
}

const INSERT = 'insert into item (id) values (?)';

const CASES: readonly Case[] = [
  {
    name: 'next() of a source of insertMany(), before the first row',
    run: (db, app, limit) => db.insertMany('item', ['id'], app.rows(0), limit),
    hasSource: true,
  },
  {
    name: 'next() of a source of insertMany(), after rows were written',
    run: (db, app, limit) => db.insertMany('item', ['id'], app.rows(MORE_THAN_A_CHUNK), limit),
    hasSource: true,
  },
  {
    name: 'next() and return() of a source of insertMany()',
    run: (db, app, limit) =>
      db.insertMany(
        'item',
        ['id'],
        app.rows(2, () => app.never()),
        limit,
      ),
    hasSource: true,
  },
  {
    name: 'next() of a source of executeMany()',
    run: (db, app, limit) => db.executeMany(INSERT, app.rows(MORE_THAN_A_CHUNK), limit),
    hasSource: true,
  },
  {
    name: 'an async generator as the source of executeMany()',
    run: (db, app, limit) =>
      db.executeMany(
        INSERT,
        (async function* () {
          yield [1];
          yield [await app.never()];
        })(),
        limit,
      ),
  },
  {
    name: 'return() of a source whose row was refused',
    run: (db, app, limit) =>
      db.insertMany(
        'item',
        ['id'],
        (async function* () {
          try {
            yield [0];
            for (let id = 0; ; id++) yield [id];
          } finally {
            await app.never();
          }
        })(),
        limit,
      ),
    error: (error) => error instanceof UniqueViolation,
  },
  {
    name: 'the callback of transaction()',
    run: (db, app, limit) => db.transaction(() => app.never(), limit),
  },
  {
    name: 'the callback of transaction(), after a change',
    run: (db, app, limit) =>
      db.transaction(async (tx) => {
        await tx.execute(INSERT, [1]);
        await app.never();
      }, limit),
  },
  {
    name: 'a loop over stream() inside a transaction with the limit',
    run: (db, app, limit) =>
      db.transaction(async (tx) => {
        await tx.insertMany(
          'item',
          ['id'],
          Array.from({ length: 1_000 }, (_, id) => [id]),
        );
        for await (const _ of tx.stream('select id from item')) await app.never();
      }, limit),
  },
  {
    name: 'the callback of a transaction inside a transaction with the limit',
    run: (db, app, limit) => db.transaction((tx) => tx.transaction(() => app.never()), limit),
  },
  {
    name: 'a source of rows inside a transaction with the limit',
    run: (db, app, limit) => db.transaction((tx) => tx.insertMany('item', ['id'], app.rows(2)), limit),
    hasSource: true,
  },
  {
    name: 'the callback of a nested transaction with the limit, whose outer transaction goes on',
    run: (db, app, limit) =>
      db.transaction(async (tx) => {
        let inner: Transaction | undefined;
        await assert.rejects(
          tx.transaction(async (nested) => {
            inner = nested;
            await nested.execute(INSERT, [1]);
            await app.never();
          }, limit),
          ended,
        );
        await tx.execute(INSERT, [2]);
        await assert.rejects(inner!.execute(INSERT, [3]), fault('E_DB_OVER'));
      }),
    error: (error) => error === undefined,
    rows: 1,
  },
  {
    name: 'a source of rows with the limit, inside a transaction that goes on',
    run: (db, app, limit) =>
      db.transaction(async (tx) => {
        await assert.rejects(tx.insertMany('item', ['id'], app.rows(2), limit), ended);
        await tx.execute(INSERT, [9]);
      }),
    hasSource: true,
    error: (error) => error === undefined,
    rows: 1,
  },
];

/** Whether this is the error of a limit: of the time with its remedy, or of the signal with its reason. */
function ended(error: unknown): boolean {
  if (error instanceof QueryCanceled) return error.cause === REASON;
  assert.ok(error instanceof QueryTimeout, String(error));
  assert.match(error.message, new RegExp(`${LIMIT_MS} ms`));
  assert.ok(fault('E_DB_STALLED')(error.cause));
  assert.match((error.cause as { remedy: string }).remedy, /"timeoutMs".*"statementTimeoutMs"/);
  return true;
}

const REASON = new Error('The client has left');

/** Opens the database with one connection and a table, and checks afterwards that all of it is free. */
async function withOne(
  url: string,
  work: (db: Database, clock: ManualClock) => Promise<void>,
  statementTimeoutMs: number = 0,
): Promise<void> {
  const clock = new ManualClock();
  const db = await openDatabase(url, { clock, statementTimeoutMs, pool: { max: 1 } });
  await db.script('drop table if exists item; create table item (id integer primary key)');
  await work(db, clock);
  assert.equal(await db.scalar('select 1'), 1);
  assert.equal(db.load.inUse, 0);
  await db.close(); // without a move of the clock: no work is under way
}

async function assertGivenUp(db: Database, { name, rows = 0 }: Case): Promise<void> {
  assert.equal(await db.scalar('select count(*) from item'), rows, name);
  await db.execute(INSERT, [77]);
}

onEveryDatabase('a promise of the application that never settles ends at "timeoutMs"', async (_db, url) => {
  for (const each of CASES)
    await withOne(url, async (db, clock) => {
      const app = new Stalling();
      const outcome = each.run(db, app, { timeoutMs: LIMIT_MS }).then(
        () => undefined,
        (error: unknown) => error,
      );
      await app.begun.promise;
      await clock.advance(LIMIT_MS + GRACE_MS);
      assert.ok((each.error ?? ended)(await outcome), each.name);
      assert.equal(app.isLeft, each.hasSource === true, each.name);
      await assertGivenUp(db, each);
    });
});

onEveryDatabase('a promise of the application that never settles ends with "signal"', async (_db, url) => {
  for (const each of CASES)
    await withOne(url, async (db, clock) => {
      const app = new Stalling();
      const abort = new AbortController();
      const outcome = each.run(db, app, { signal: abort.signal }).then(
        () => undefined,
        (error: unknown) => error,
      );
      await app.begun.promise;
      abort.abort(REASON);
      await clock.advance(GRACE_MS);
      assert.ok((each.error ?? ended)(await outcome), each.name);
      await assertGivenUp(db, each);
    });
});

onEveryDatabase('"statementTimeoutMs" ends a source of rows without "timeoutMs"', async (_db, url) => {
  await withOne(
    url,
    async (db, clock) => {
      const app = new Stalling();
      const outcome = assert.rejects(db.insertMany('item', ['id'], app.rows(3)), ended);
      await app.begun.promise;
      await clock.advance(LIMIT_MS + GRACE_MS);
      await outcome;
      assert.equal(await db.scalar('select count(*) from item'), 0);
    },
    LIMIT_MS,
  );
});

onEveryDatabase('a callback that settles just after the limit is not committed', async (_db, url) => {
  await withOne(url, async (db) => {
    const abort = new AbortController();
    const late = db.transaction(
      async (tx) => {
        await tx.execute(INSERT, [1]);
        abort.abort(REASON);
      },
      { signal: abort.signal },
    );
    await assert.rejects(late, QueryCanceled);
    assert.equal(await db.scalar('select count(*) from item'), 0);
  });
});

onEveryDatabase('a source that never ends is stopped by the signal, in whatever form', async (_db, url) => {
  for (const isAsync of [false, true])
    await withOne(url, async (db, clock) => {
      const abort = new AbortController();
      let isLeft = false;
      let id = 0;
      const next = (): Params => {
        if (++id === 5_000) abort.abort(REASON);
        return [id];
      };
      function* endless(): Generator<Params, void, undefined> {
        try {
          for (;;) yield next();
        } finally {
          isLeft = true;
        }
      }
      async function* endlessLater(): AsyncGenerator<Params, void, undefined> {
        yield* endless();
      }
      const rows = isAsync ? endlessLater() : endless();
      await assert.rejects(db.insertMany('item', ['id'], rows, { signal: abort.signal }), QueryCanceled);
      assert.ok(isLeft);
      assert.equal(await db.scalar('select count(*) from item'), 0);
      await clock.advance(0);
    });
});

onEveryDatabase(
  'a loop over stream() that does not ask for the next row loses its connection at the limit',
  async (_db, url) => {
    for (const how of ['timeoutMs', 'signal', 'statementTimeoutMs'])
      await withOne(
        url,
        async (db, clock) => {
          const abort = new AbortController();
          const options = { timeoutMs: { timeoutMs: LIMIT_MS }, signal: { signal: abort.signal } }[how];
          await db.insertMany(
            'item',
            ['id'],
            Array.from({ length: 2_000 }, (_, id) => [id]),
            { timeoutMs: 0 },
          );
          const rows = db.stream('select id from item', [], options);
          await rows.next();
          assert.equal(db.load.inUse, 1);
          if (how === 'signal') abort.abort(REASON);
          await clock.advance(LIMIT_MS);
          assert.equal(await db.scalar('select count(*) from item', [], { timeoutMs: 0 }), 2_000);
          assert.equal(db.load.inUse, 0);
          const error = await exhausted(rows);
          assert.ok(how === 'signal' ? error instanceof QueryCanceled : error instanceof QueryTimeout, how);
        },
        how === 'statementTimeoutMs' ? LIMIT_MS : 0,
      );
  },
);

onEveryDatabase('"statementTimeoutMs" does not cut a migration off', async (blocker, url, t) => {
  await blocker.script('create table item (id integer primary key)');
  const clock = new ManualClock();
  const directory = folder(t, { '0001_wait.up.sql': 'alter table item add column name varchar(9);' });
  await using db = await openDatabase(url, { clock, statementTimeoutMs: LIMIT_MS });
  const migrator = new Migrator(db, { directory, contributed: [] }, { clock });
  const [holding, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holder = blocker.transaction(async (tx) => {
    await tx.execute(INSERT, [1]);
    holding.resolve();
    await go.promise;
  });
  await holding.promise;
  await db.ping(); // so that the time below is not the time of a login
  const applied = migrator.up();
  for (let turns = 0; turns < 50; turns++) await clock.advance(2 * LIMIT_MS);
  go.resolve();
  await holder;
  // on a server, the next login needs real time
  const isSqlite = db.dialect === 'sqlite';
  // SQLite tries again after a pause
  while (isSqlite && (await Promise.race([applied, turn()])) === undefined) await clock.advance(10);
  assert.equal((await applied).length, 1);
});

/** A handler of messages that never settles, and a promise for the second message that it gets. */
function stuckHandler(): { readonly handler: () => Promise<never>; readonly second: Promise<void> } {
  const second = Promise.withResolvers<void>();
  let count = 0;
  return {
    second: second.promise,
    handler: () => {
      if (++count === 2) second.resolve();
      return new Promise(() => undefined);
    },
  };
}

onEveryDatabase(
  'a handler of listen() that never settles delays neither messages nor close()',
  async (db) => {
    if (db.dialect !== 'postgres') return;
    const { handler, second } = stuckHandler();
    const listening = await db.listen('orders', handler);
    for (const payload of ['1', '2']) await db.execute('select pg_notify(?, ?)', ['orders', payload]);
    await second;
    await listening[Symbol.asyncDispose]();
  },
);

test('a handler of Redis.subscribe() that never settles delays neither messages nor close()', async (t) => {
  if (!needsRedis(t)) return;
  const redis = await new Redis((await sharedRedis()).url).open();
  const { handler, second } = stuckHandler();
  const subscription = await redis.subscribe('orders', handler);
  for (const payload of ['1', '2']) await redis.publish('orders', payload);
  await second;
  await subscription[Symbol.asyncDispose]();
  await redis.close();
});

onEveryDatabase(
  'the transaction of a request whose handler never settles ends at its limit',
  async (_db, url) => {
    const clock = new ManualClock();
    const { logger } = collectedLog();
    const app = new Svc({ clock, logger });
    const plugin = new DatabasePlugin(url, { pool: { max: 1 }, migrations: 'ignore' });
    app.register(plugin);
    const stuck = new Stalling();
    app.post('/items', { tx: Depends(requestTransaction({ timeoutMs: LIMIT_MS })) }, async ({ tx }) => {
      await tx.execute(INSERT, [1]);
      await stuck.never();
    });
    await app.startup();
    await plugin.database.script('create table item (id integer primary key)');
    void app.fetch(new Request('http://localhost/items', { method: 'POST' }));
    await stuck.begun.promise;
    await clock.advance(LIMIT_MS + GRACE_MS);
    assert.equal(await plugin.database.scalar('select count(*) from item'), 0);
    await plugin.shutdown();
  },
);

onEveryDatabase(
  'a client that leaves ends a transaction with the signal of its handler, and no error is logged',
  async (_db, url) => {
    const { logger, events } = collectedLog();
    const app = new Svc({ logger, env: 'test' });
    const plugin = new DatabasePlugin(url, { migrations: 'ignore' });
    app.register(plugin);
    const stuck = new Stalling();
    const status = Promise.withResolvers<number>();
    app.use(async (_req, next) => {
      const response = await next();
      status.resolve(response.status);
      return response;
    });
    app.get('/', ({ signal }) => plugin.database.transaction(() => stuck.never(), { signal }));
    await app.startup();
    const abort = new AbortController();
    const request = new Request('http://localhost/', { signal: abort.signal });
    const left = assert.rejects(app.fetch(request), { name: 'AbortError' });
    await stuck.begun.promise;
    abort.abort();
    await left;
    assert.equal(await status.promise, 400);
    await plugin.shutdown();
    assert.deepEqual(
      events.filter(({ level }) => level === 'error'),
      [],
    );
  },
);

/** Reads all rows. Returns the error of the stream. */
async function exhausted(rows: AsyncIterable<unknown>): Promise<unknown> {
  try {
    for await (const _ of rows);
    return undefined;
  } catch (error) {
    return error;
  }
}

onEveryDatabase('a late callback cannot use the transaction that its limit has ended', async (_db, url) => {
  await withOne(url, async (db, clock) => {
    const app = new Stalling();
    const go = Promise.withResolvers<void>();
    let late: Promise<unknown> | undefined;
    const outcome = assert.rejects(
      db.transaction(
        (tx) =>
          (late = (async () => {
            app.begun.resolve();
            await go.promise;
            await tx.execute(INSERT, [1]);
          })()),
        { timeoutMs: LIMIT_MS },
      ),
      ended,
    );
    await app.begun.promise;
    await clock.advance(LIMIT_MS + GRACE_MS);
    await outcome;
    go.resolve();
    await assert.rejects(late!, fault('E_DB_OVER'));
    assert.equal(await db.scalar('select count(*) from item'), 0);
  });
});

onEveryDatabase(
  'close() waits for a running transaction up to ten seconds, whatever "statementTimeoutMs" says',
  async (_db, url) => {
    const clock = new ManualClock();
    const db = await openDatabase(url, { clock, statementTimeoutMs: LIMIT_MS });
    await db.script('drop table if exists item; create table item (id integer primary key)');
    const go = Promise.withResolvers<void>();
    const begun = Promise.withResolvers<void>();
    const work = db.transaction(async (tx) => {
      begun.resolve();
      await go.promise;
      await tx.execute(INSERT, [1]);
    });
    await begun.promise;
    let isClosed = false;
    const closing = db.close().then(() => {
      isClosed = true;
    });
    await clock.advance(9_000);
    assert.ok(!isClosed);
    go.resolve();
    await work;
    await closing;
    await using again = await openDatabase(url);
    assert.equal(await again.scalar('select count(*) from item'), 1);
  },
);
