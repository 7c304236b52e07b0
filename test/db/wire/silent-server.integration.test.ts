/**
 * Servers that fall silent during a session: callers settle at their limits, and the connections are closed
 * later.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  QueryCanceled,
  QueryTimeout,
  openDatabase,
  type Database,
  type DatabaseOptions,
} from '../../../src/db/index.ts';
import { SERVERS } from '../../support/every-database.ts';
import { inReverse } from '../../support/run.ts';
import { silencedProxy, type SilencedProxy } from '../../support/silenced-proxy.ts';

const LIMIT = { timeoutMs: 300 };

interface Silenced extends SilencedProxy {
  readonly db: Database;
}

/** An idle connection that was cut just now may be lent once more before its end is noticed. */
async function answered(db: Database): Promise<unknown> {
  for (let attempt = 0; ; attempt++) {
    try {
      return await db.scalar('select 2');
    } catch (error) {
      if (attempt === 3 || !(error instanceof ConnectionLost)) throw error;
    }
  }
}

for (const { name, address } of SERVERS) {
  const silent = (
    what: string,
    run: (silenced: Silenced) => Promise<void>,
    options: DatabaseOptions = {},
  ): void => {
    test(`after a ${name} server has stopped answering, ${what}`, async (t) => {
      const scope = inReverse(t);
      const url = await address(t, scope);
      if (url === undefined) return;
      const proxy = await silencedProxy(scope, url);
      const db = await openDatabase(proxy.url, { ...options, pool: { max: 3, ...options.pool } });
      scope.after(async () => {
        proxy.restore();
        await db.close();
      });
      await db.script('create table item (id int primary key)');
      await Promise.all([1, 2, 3].map(() => db.scalar('select 1')));
      await run({ ...proxy, db });
      proxy.restore();
      assert.equal(await answered(db), 2, 'it works again');
      assert.equal(db.load.inUse, 0);
    });
  };

  silent('each database method rejects at its timeoutMs', async ({ db, silence }) => {
    silence();
    await assert.rejects(db.scalar('select 2', [], LIMIT), QueryTimeout);
    await assert.rejects(db.execute('insert into item values (1)', [], LIMIT), QueryTimeout);
    await assert.rejects(db.executeMany('insert into item values (?)', [[1], [2]], LIMIT), QueryTimeout);
  });

  silent('each database method rejects when its signal is aborted', async ({ db, silence }) => {
    silence();
    await assert.rejects(db.fetchAll('select 2', [], { signal: AbortSignal.timeout(100) }), QueryCanceled);
    await assert.rejects(db.script('select 2', { signal: AbortSignal.timeout(100) }), QueryCanceled);
  });

  silent(
    'a stream rejects at its timeoutMs, whether it waits for its first rows or for later ones',
    async ({ db, silence }) => {
      await db.insertMany(
        'item',
        ['id'],
        Array.from({ length: 2_000 }, (_, id) => [id]),
      );
      const rows = db.stream('select id from item', [], LIMIT);
      await rows.next();
      silence();
      await assert.rejects(
        (async () => {
          for await (const row of rows) void row;
        })(),
        QueryTimeout,
      );
      await assert.rejects(db.stream('select id from item', [], LIMIT).next(), QueryTimeout);
    },
  );

  silent(
    'a statement of a transaction rejects at its time limit, and the transaction rejects as well',
    async ({ db, silence }) => {
      await assert.rejects(
        db.transaction(async (tx) => {
          await tx.scalar('select 1');
          silence();
          await tx.scalar('select 2', [], LIMIT);
        }),
        QueryTimeout,
      );
    },
  );

  silent('a stream of a transaction rejects at its time limit', async ({ db, silence }) => {
    await assert.rejects(
      db.transaction(async (tx) => {
        silence();
        for await (const row of tx.stream('select 2', [], LIMIT)) void row;
      }),
      QueryTimeout,
    );
  });

  silent(
    'a nested transaction rejects at its time limit, and the outer transaction rejects as well',
    async ({ db, silence }) => {
      await assert.rejects(
        db.transaction(async (tx) => {
          await tx.transaction(async (inner) => {
            silence();
            await inner.scalar('select 2', [], LIMIT);
          });
        }),
        QueryTimeout,
      );
      await assert.rejects(
        db.transaction(async (tx) => {
          await tx.transaction(() => undefined);
        }, LIMIT),
        QueryTimeout,
      );
    },
  );

  silent(
    'if the callback of a transaction fails, the transaction rejects with the error of the callback at its time limit',
    async ({ db, silence }) => {
      await assert.rejects(
        db.transaction(async (tx) => {
          await tx.scalar('select 1');
          silence();
          throw new RangeError('mine');
        }, LIMIT),
        RangeError,
      );
    },
  );

  silent(
    'the outcome of a COMMIT is unknown when its transaction reaches the time limit',
    async ({ db, silence }) => {
      const committing = db.transaction(async (tx) => {
        await tx.execute('insert into item values (5)');
        silence();
      }, LIMIT);
      await assert.rejects(committing, CommitOutcomeUnknown);
      await committing.catch(({ code, cause }: CommitOutcomeUnknown) => {
        assert.equal(code, 'commit_unknown');
        assert.ok(cause instanceof QueryTimeout);
      });
    },
  );

  silent(
    'the COMMIT of a transaction that only reads rejects with QueryTimeout at its time limit',
    async ({ db, silence }) => {
      const committing = db.transaction(
        async (tx) => {
          await tx.scalar('select 1');
          silence();
        },
        { ...LIMIT, readOnly: true },
      );
      await assert.rejects(committing, QueryTimeout);
    },
  );

  silent(
    'the outcome of a COMMIT is unknown when the signal of its transaction is aborted',
    async ({ db, silence }) => {
      await assert.rejects(
        db.transaction(
          async (tx) => {
            await tx.execute('insert into item values (5)');
            silence();
          },
          { signal: AbortSignal.timeout(500) },
        ),
        CommitOutcomeUnknown,
      );
    },
  );

  silent(
    'statements, BEGIN, COMMIT and ping() reject after statementTimeoutMs',
    async ({ db, silence }) => {
      const committing = db.transaction(async (tx) => {
        await tx.execute('insert into item values (5)');
        silence();
      });
      await assert.rejects(committing, CommitOutcomeUnknown);
      await assert.rejects(
        db.transaction(() => undefined),
        QueryTimeout,
      );
      await assert.rejects(db.scalar('select 1'), QueryTimeout);
      await assert.rejects(db.ping(), QueryTimeout);
    },
    { statementTimeoutMs: 500 },
  );
}
