import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  CommitOutcomeUnknown,
  ConnectionLost,
  Database,
  DatabaseError,
  Deadlock,
  LockTimeout,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  SerializationFailure,
  TransactionAborted,
  UniqueViolation,
  openDatabase,
  sql,
} from '../../src/db/index.ts';
import { prepareDatabase } from '../../src/db/open.ts';
import { atCaller } from '../../src/db/errors.ts';
import { createLogger } from '../../src/observability/log.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { fault } from '../contract/database.ts';
import { collectedLog } from '../support/collected-log.ts';
import { folder, run } from '../support/run.ts';
import { ROOT } from '../support/build.ts';
import type {
  Connection,
  DatabaseOptions,
  Driver,
  Transaction,
  TransactionOptions,
} from '../../src/db/index.ts';
import type { Limit } from '../../src/db/driver.ts';

async function memory(t: TestContext, options?: DatabaseOptions): Promise<Database> {
  const db = await openDatabase('sqlite::memory:', options);
  t.after(() => db.close());
  return db;
}

test('inside a transaction of one database, a transaction of another database can run', async (t) => {
  const [one, other] = [await memory(t), await memory(t)];
  await one.transaction(() =>
    other.transaction(async (tx) => {
      assert.equal(await tx.scalar('select 1'), 1);
      await assert.rejects(one.scalar('select 1'), fault('E_DB_NESTED'));
      await assert.rejects(other.scalar('select 1'), fault('E_DB_NESTED'));
    }),
  );
});

test('after a transaction has settled, a statement of its Transaction object rejects with E_DB_OVER, even in an event listener', async (t) => {
  const db = await memory(t);
  const events = new EventEmitter();
  let handle: Transaction | undefined;
  await db.transaction((tx) => {
    handle = tx;
  });
  const result = new Promise((resolve, reject) =>
    events.once('go', () => handle!.scalar('select 1').then(resolve, reject)),
  );
  events.emit('go');
  await assert.rejects(result, fault('E_DB_OVER'));
});

test('the options "signal" and "timeoutMs" of transaction() also apply to the statements inside the transaction', async (t) => {
  const clock = new ManualClock();
  const db = await memory(t, { clock });
  const abort = new AbortController();
  await assert.rejects(
    db.transaction(
      async (tx) => {
        await tx.scalar('select 1', [], { timeoutMs: 1_000, signal: new AbortController().signal });
        abort.abort();
        await tx.scalar('select 1', [], { timeoutMs: 50_000 });
      },
      { signal: abort.signal, timeoutMs: 10_000 },
    ),
    QueryCanceled,
  );
  await assert.rejects(
    db.transaction(
      async (tx) => {
        await clock.advance(600);
        await tx.scalar('select 1', [], { timeoutMs: 10_000 });
        await clock.advance(600);
        await tx.scalar('select 1', [], { timeoutMs: 10_000 });
      },
      { timeoutMs: 1_000 },
    ),
    (error) => error instanceof QueryTimeout && /1000 ms/.test(error.message),
  );
});

test('"statementTimeoutMs" limits each call that has no "timeoutMs" of its own', async (t) => {
  const clock = new ManualClock();
  const db = await memory(t, { clock, statementTimeoutMs: 200, pool: { acquireTimeoutMs: 60_000 } });
  const go = Promise.withResolvers<void>();
  const holder = db.transaction(() => go.promise);
  await new Promise(setImmediate);
  const waiting = [
    assert.rejects(db.scalar('select 1'), QueryTimeout),
    assert.rejects(db.insertMany('t', ['a'], []), QueryTimeout),
  ];
  const patient = db.scalar('select 2', [], { timeoutMs: 1_000 });
  await clock.advance(250);
  await Promise.all(waiting);
  go.resolve();
  await holder;
  assert.equal(await patient, 2);
});

test('each step of a transaction is limited by "statementTimeoutMs" and by the remaining time of the transaction, but a commit gets at least five seconds', async () => {
  const reported: [what: string, timeoutMs: number | undefined, hasSignal: boolean][] = [];
  const clock = new ManualClock();
  function telling(what: string, at: number) {
    return (...given: readonly unknown[]): void => {
      const limit = given[at] as Limit | undefined;
      reported.push([what, limit?.timeoutMs, limit?.signal !== undefined]);
    };
  }
  const connection = {
    isInTransaction: false,
    begin: telling('begin', 1),
    scalar: telling('statement', 2),
    savepoint: telling('savepoint', 1),
    releaseSavepoint: telling('release', 1),
    rollbackTo: telling('rollback to', 1),
    commit: telling('commit', 0),
    rollback: telling('rollback', 0),
  };
  const driver = {
    dialect: 'postgres',
    acquire: () => connection as unknown as Connection,
    release() {
      /* no connection is in use */
    },
  } as unknown as Driver;
  const limitsOf = async (
    statementTimeoutMs: number,
    fn: (tx: Transaction) => Promise<unknown>,
    options?: TransactionOptions,
  ): Promise<typeof reported> => {
    await new Database(driver, { clock, statementTimeoutMs })
      .transaction(fn, options)
      .catch((error: unknown) => assert.equal(error, 'undone'));
    return reported.splice(0);
  };
  const two = async (tx: Transaction): Promise<void> => {
    await tx.scalar('select 1');
    await tx.scalar('select 2', [], { timeoutMs: 50 });
  };
  assert.deepEqual(await limitsOf(0, two), [
    ['begin', undefined, false],
    ['statement', undefined, false],
    ['statement', 50, false],
    ['commit', undefined, false],
  ]);
  assert.deepEqual(await limitsOf(700, two), [
    ['begin', 700, false],
    ['statement', 700, false],
    ['statement', 50, false],
    ['commit', 700, false],
  ]);
  const nested = (tx: Transaction): Promise<void> =>
    tx.transaction(async (inner) => {
      await clock.advance(800);
      await inner.scalar('select 1');
    });
  assert.deepEqual(await limitsOf(700, nested), [
    ['begin', 700, false],
    ['savepoint', 700, false],
    ['statement', 700, false],
    ['release', 700, false],
    ['commit', 700, false],
  ]);
  const undone = (tx: Transaction): Promise<void> =>
    tx.transaction(() => {
      throw 'undone';
    });
  assert.deepEqual(await limitsOf(700, undone), [
    ['begin', 700, false],
    ['savepoint', 700, false],
    ['rollback to', 700, false],
    ['rollback', 700, false],
  ]);
  const { signal } = new AbortController();
  assert.deepEqual(
    await limitsOf(
      0,
      async (tx) => {
        await tx.scalar('select 1');
        await clock.advance(9_500);
      },
      { signal, timeoutMs: 10_000 },
    ),
    [
      ['begin', 10_000, true],
      ['statement', 10_000, true],
      ['commit', 5_000, false],
    ],
  );
  assert.deepEqual(await limitsOf(60_000, (tx) => tx.scalar('select 1'), { timeoutMs: 10_000 }), [
    ['begin', 10_000, false],
    ['statement', 10_000, false],
    ['commit', 10_000, false],
  ]);
  assert.deepEqual(await limitsOf(0, (tx) => tx.scalar('select 1'), { signal }), [
    ['begin', 0, true],
    ['statement', 0, true],
    ['commit', undefined, false],
  ]);
});

for (const [what, graceMs, run, cause, endings] of [
  ['a statement', 200, (tx, stuck) => tx.scalar(stuck, [], { timeoutMs: 50 }), undefined, ['rollback']],
  [
    'a statement in a nested transaction',
    200,
    (tx, stuck) => tx.transaction((inner) => inner.scalar(stuck, [], { timeoutMs: 50 })),
    undefined,
    ['rollback to', 'rollback'],
  ],
  [
    'a statement that is limited by its nested transaction',
    200,
    (tx, stuck) => tx.transaction((inner) => inner.scalar(stuck), { timeoutMs: 50 }),
    undefined,
    ['rollback to', 'rollback'],
  ],
  [
    'the callback of a nested transaction',
    400,
    (tx) => tx.transaction(() => new Promise(() => undefined), { timeoutMs: 50 }),
    'E_DB_STALLED',
    ['rollback to', 'rollback'],
  ],
] as readonly (readonly [
  string,
  number,
  (tx: Transaction, stuck: string) => Promise<unknown>,
  string | undefined,
  readonly string[],
])[])
  test(`${what} that does not settle rejects with QueryTimeout ${graceMs} ms after its time limit, and everything is rolled back`, async () => {
    const clock = new ManualClock();
    const reply = Promise.withResolvers<void>();
    const ended: string[] = [];
    const connection = {
      begin: () => undefined,
      scalar: () => reply.promise,
      savepoint: () => undefined,
      releaseSavepoint: () => assert.fail('the savepoint must not be released'),
      rollbackTo: async () => void ended.push('rollback to'),
      commit: () => assert.fail('the transaction must not be committed'),
      rollback: async () => void ended.push('rollback'),
    };
    const driver = {
      dialect: 'postgres',
      acquire: () => connection as unknown as Connection,
      release: () => undefined,
    } as unknown as Driver;
    const db = new Database(driver, { clock, statementTimeoutMs: 0 });
    const outcomes: unknown[] = [];
    const settled = db
      .transaction((tx) => run(tx, 'select 1'))
      .catch((error: unknown) => {
        outcomes.push(error);
      });
    await new Promise(setImmediate); // the statement or the nested transaction has begun
    await clock.advance(50 + graceMs - 1);
    assert.equal(outcomes.length, 0);
    await clock.advance(1);
    await settled;
    const [outcome] = outcomes;
    assert.ok(outcome instanceof QueryTimeout, String(outcome));
    assert.match(outcome.message, /50 ms/);
    assert.equal((outcome.cause as { code?: string } | undefined)?.code, cause);
    reply.resolve();
    for (let turns = 0; turns < 5; turns++) await new Promise(setImmediate);
    assert.deepEqual(ended, endings);
    assert.equal(clock.pending, 0);
  });

test('transaction() doubles its pause before each retry, and throws QueryTimeout at its time limit', async (t) => {
  const clock = new ManualClock();
  const db = await memory(t, { clock });
  const atMs: number[] = [];
  const failing = db.transaction(
    () => {
      atMs.push(clock.monotonicMs());
      throw new Deadlock('again');
    },
    { retries: 4 },
  );
  const settled = failing.catch((error: unknown) => error);
  for (let step = 0; step < 100; step++) await clock.advance(1);
  assert.ok((await settled) instanceof Deadlock);
  assert.equal(atMs.length, 5);
  atMs.slice(1).forEach((at, index) => {
    const pauseMs = at - atMs[index]!;
    assert.ok(pauseMs >= 2.5 * 2 ** index && pauseMs <= 5 * 2 ** index + 1, `pause ${index}: ${pauseMs} ms`);
  });
  const limited = assert.rejects(
    db.transaction(
      () => {
        throw new LockTimeout('busy');
      },
      { retries: 100, timeoutMs: 30 },
    ),
    QueryTimeout,
  );
  for (let step = 0; step < 100; step++) await clock.advance(1);
  await limited;
});

test('the property "isRetryable" is true for SerializationFailure, Deadlock and LockTimeout, and false for other database errors', () => {
  for (const Class of [SerializationFailure, Deadlock, LockTimeout])
    assert.equal(new Class('x').isRetryable, true);
  for (const Class of [
    DatabaseError,
    UniqueViolation,
    ConnectionLost,
    CommitOutcomeUnknown,
    TransactionAborted,
    PoolTimeout,
    QueryTimeout,
  ])
    assert.equal(new Class('x').isRetryable, false);
  const error = new CommitOutcomeUnknown('x', { cause: 1, constraint: 'c' });
  assert.deepEqual(
    [error.code, error.cause, error.constraint, error.columns, 'cause' in new Deadlock('x')],
    ['commit_unknown', 1, 'c', [], false],
  );
});

test('atCaller() returns a value unchanged if the value is not an Error', () => {
  assert.equal(atCaller('text'), 'text');
});

test('when a connection is released with an open transaction, the transaction is rolled back and a warning is logged', async (t) => {
  const { logger, events } = collectedLog();
  const { driver, database } = await prepareDatabase('sqlite::memory:', { log: logger }).open();
  t.after(() => driver.close());
  await database.script('create table t (a)');
  const connection = await driver.acquire(undefined, 'transaction');
  await connection.begin({ isolation: undefined, isReadOnly: false }, undefined);
  await connection.execute('insert into t values (1)', [], undefined);
  driver.release(connection);
  assert.equal(await database.scalar('select count(*) from t'), 0);
  assert.ok(events.some(({ event }) => event === 'transaction_left_open'));
});

test('close() closes a SQLite database even if the statement "pragma optimize" fails', async (t) => {
  const path = join(folder(t), 'data.db');
  const [one, other] = [
    await openDatabase(`sqlite:${path}`),
    await openDatabase(`sqlite:${path}`, { log: createLogger({ level: 'silent' }) }),
  ];
  await one.script('create table t (a); create index i on t (a)');
  await one.transaction(async (tx) => {
    await tx.execute('insert into t values (1)');
    await other.scalar('select count(*) from t');
    await other.close();
  });
  await assert.rejects(other.scalar('select 1'), fault('E_DB_CLOSED'));
  await one.close();
});

test('a program that does not close its database still ends, and prints no warning', async (t) => {
  const at = folder(t, {
    'program.ts': `import { openDatabase } from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/db/index.ts')).href)};
    const db = await openDatabase('sqlite:./data.db', { readers: 1 });
    console.log(await db.scalar('select 40 + ?', [2]), await db.scalar('select 7', [], { longRead: true }));`,
  });
  const { status, stdout, stderr } = await run(process.execPath, ['program.ts'], {
    cwd: at,
    env: { NODE_V8_COVERAGE: '' },
  });
  assert.deepEqual({ status, stdout, stderr }, { status: 0, stdout: '42 7\n', stderr: '' });
});

test('stream(), execute() and scalar() accept options as the argument after an sql template', async (t) => {
  const db = await memory(t);
  const rows: unknown[] = [];
  for await (const row of db.stream(sql`select ${1} as a union all select ${2}`, { timeoutMs: 10_000 }))
    rows.push(row);
  assert.deepEqual(rows, [{ a: 1 }, { a: 2 }]);
  assert.equal((await db.execute(sql`create table t (a)`, { timeoutMs: 10_000 })).affectedRows, 0);
  assert.equal(await db.scalar(sql`select ${5}`, { longRead: true }), 5);
});

test('when a rollback after an error fails as well, the error has the failure of the rollback as its cause', async () => {
  const fails = (what: string) => () => Promise.reject(new Error(`${what} failed`));
  const connection = {
    begin: () => undefined,
    savepoint: () => undefined,
    rollbackTo: fails('rollback to'),
    commit: fails('commit'),
    rollback: fails('rollback'),
    scalar: fails('statement'),
  };
  const driver = {
    dialect: 'postgres',
    acquire: () => connection as unknown as Connection,
    release: () => undefined,
  } as unknown as Driver;
  const db = new Database(driver, { clock: new ManualClock(), statementTimeoutMs: 0 });
  const causesOf = async (run: Promise<unknown>): Promise<string[]> => {
    const messages: string[] = [];
    const thrown = await run.then(
      () => assert.fail('the COMMIT must fail'),
      (error: unknown) => error,
    );
    for (let at = thrown; at instanceof Error; at = at.cause) messages.push(at.message);
    return messages;
  };
  const root = new Error('root');
  assert.deepEqual(
    await causesOf(
      db.transaction(() => {
        throw root;
      }),
    ),
    ['root', 'rollback failed'],
  );
  assert.deepEqual(await causesOf(db.transaction(() => 1)), ['commit failed', 'rollback failed']);
  let within: string[] = [];
  await causesOf(
    db.transaction(async (tx) => {
      within = await causesOf(tx.transaction((inner) => inner.scalar('select 1')));
      throw new Error('left');
    }),
  );
  assert.deepEqual(within, ['statement failed', 'rollback to failed']);
  const aggregate = await db
    .transaction(() => {
      throw 'undone';
    })
    .catch((error: unknown) => error as AggregateError);
  assert.equal((aggregate as AggregateError).errors[0], 'undone');
});

test('transaction() accepts options up to their limits, and refuses others', async (t) => {
  const db = await memory(t);
  const work = (): number => 7;
  for (const options of [{ retries: 0 }, { retries: 100 }, { timeoutMs: 2_147_483_647 }, { timeoutMs: 0 }])
    assert.equal(await db.transaction(work, options), 7);
  for (const options of [
    { retries: -1 },
    { retries: 101 },
    { retries: 1.5 },
    { timeoutMs: 2_147_483_648 },
    { timeoutMs: -1 },
    { isolation: 'read uncommitted' },
    { readOnly: 'yes' },
  ])
    await assert.rejects(
      db.transaction(work, options as TransactionOptions),
      fault('E_OPTION_RANGE'),
      JSON.stringify(options),
    );
  await assert.rejects(db.transaction(work, { retry: 1 } as never), fault('E_OPTION_UNKNOWN'));
});
