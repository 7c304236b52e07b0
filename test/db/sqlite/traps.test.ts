/**
 * Cases in which node:sqlite or SQLite itself would fail silently: a test for each.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { pathToFileURL } from 'node:url';
import {
  ForeignKeyViolation,
  openDatabase,
  sql,
  Corrupt,
  DataError,
  DatabaseError,
  LockTimeout,
  PoolTimeout,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  SerializationFailure,
  StorageFailed,
  TransactionAborted,
  UniqueViolation,
  ConnectionLost,
} from '../../../src/db/index.ts';
import { SqliteConnection } from '../../../src/db/sqlite/connection.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { fault, refusedData } from '../../contract/database.ts';
import { ROOT } from '../../support/build.ts';
import { IS_OLDER_NODE } from '../../support/node-age.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { folder, run } from '../../support/run.ts';
import type { ChildProcess } from 'node:child_process';
import type { Database, DatabaseOptions } from '../../../src/db/index.ts';

/** Opens a database in memory, closed after the test. */
async function memory(t: TestContext, options?: DatabaseOptions): Promise<Database> {
  const db = await openDatabase('sqlite::memory:', options);
  t.after(() => db.close());
  return db;
}

/** Opens a database in a file of its own, closed after the test. */
async function inFile(
  t: TestContext,
  options?: DatabaseOptions,
): Promise<{ db: Database; path: string; url: string }> {
  const path = join(folder(t), 'data.db');
  const db = await openDatabase(`sqlite:${path}`, options);
  t.after(() => db.close());
  return { db, path, url: `sqlite:${path}` };
}

/** A statement that does not end within the time of a test. */
const ENDLESS = 'with recursive c (n) as (select 1 union all select n + 1 from c) select count(*) from c';

// ── values ──

test('SQLite returns the whole text when it contains a NUL character', async (t) => {
  const db = await memory(t);
  assert.equal(await db.scalar('select ?', ['a\0b']), 'a\0b');
  assert.deepEqual(await db.fetchOne('select ? as v', ['\0']), { v: '\0' });
});

test('SQLite stores booleans as the integers 1 and 0', async (t) => {
  const db = await memory(t);
  assert.deepEqual((await db.fetchArrays('select ?, typeof(?), ?', [true, true, false])).rows, [
    [1, 'integer', 0],
  ]);
});

test('SQLite stores whole numbers as integers, although node:sqlite would bind them as real numbers', async (t) => {
  const db = await memory(t);
  await db.script('create table t (a text, b, c real)');
  await db.execute('insert into t values (?, ?, ?)', [5, -7, 3]);
  assert.deepEqual(await db.fetchOne('select a, typeof(b) as b, typeof(c) as c from t'), {
    a: '5',
    b: 'integer',
    c: 'real',
  });
  assert.deepEqual((await db.fetchArrays('select ? / 2, typeof(?), typeof(?)', [5, 1.5, 1e300])).rows, [
    [2, 'real', 'real'],
  ]);
  assert.ok(Object.is(await db.scalar('select ?', [-0]), 0));
});

test('SQLite refuses a NUL in a statement or script, because SQLite would run only the part before the NUL', async (t) => {
  const db = await memory(t);
  for (const run of [
    () => db.execute('create table a (b) \0'),
    () => db.script('create table a (b);\0 create table c (d)'),
  ])
    await assert.rejects(run(), { code: 'E_DB_STATEMENT', message: /a NUL, which would end it/ });
  assert.equal(await db.scalar('select count(*) from sqlite_schema'), 0);
});

test('SQLite refuses undefined, which node:sqlite binds as NULL since Node.js 26.10', async (t) => {
  const db = await memory(t);
  await assert.rejects(db.scalar('select ?', [undefined as never]), fault('E_DB_PARAMETER'));
});

test('SQLite accepts a Date as the first value, although node:sqlite would use an object there as named parameters', async (t) => {
  const db = await memory(t);
  const at = new Date(Date.UTC(2024, 1, 29, 12, 0, 0, 5));
  assert.deepEqual((await db.fetchArrays('select ?, ?', [at, 5])).rows, [['2024-02-29T12:00:00.005Z', 5]]);
});

test('SQLite refuses fewer values than placeholders, although node:sqlite would bind NULL for the missing values', async (t) => {
  const db = await memory(t);
  await assert.rejects(db.scalar('select ?, ?', [1]), fault('E_DB_PARAMETER_COUNT'));
});

test('SQLite refuses a text that contains a second statement, although node:sqlite would silently ignore the second statement', async (t) => {
  const db = await memory(t);
  for (const text of [
    'select 1; drop table x',
    'select 1;;select 2',
    "select ';'; select 2",
    'select 1; /* x */ select 2',
  ])
    await assert.rejects(db.scalar(text), fault('E_DB_STATEMENT'));
  for (const text of ['select 1;', 'select 1; -- end', 'select 1 /* ; */;;', "select 'a;b'"])
    await db.scalar(text);
});

test('SQLite does not count ? or :name as a placeholder inside a string, a quoted name or a comment', async (t) => {
  const db = await memory(t);
  await db.execute('create table "odd?" ("a?b" text, [c?] text, `d?` text)');
  await db.execute('insert into "odd?" values (?, \'?\', /* ? */ ?) -- ?', ['x', 'y']);
  assert.deepEqual(
    await db.fetchOne('select "a?b", [c?], `d?` from "odd?" where "a?b" = ? and \'it\'\'s ?\' is not null', [
      'x',
    ]),
    { 'a?b': 'x', 'c?': '?', 'd?': 'y' },
  );
  for (const text of ['select ?1', 'select :name', 'select @name', 'select $name'])
    await assert.rejects(db.scalar(text, [1]), fault('E_DB_STATEMENT'));
  assert.equal(await db.scalar("select '{\"a\":5}' ->> '$.a'"), 5);
  await assert.rejects(db.scalar('select 1 -- \0', []), fault('E_DB_STATEMENT'));
});

test('SQLite treats CREATE TRIGGER with several statements in its body as one statement', async (t) => {
  const db = await memory(t);
  await db.script('create table t (a integer); create table log (a integer)');
  await db.execute(
    'create trigger copy after insert on t begin insert into log values (new.a); update log set a = case when a = 1 then 10 else a end; end',
  );
  await db.script(
    'create temp trigger again after delete on t begin delete from log; end; insert into t values (1)',
  );
  assert.equal(await db.scalar('select a from log'), 10);
});

test('after another connection has renamed columns, SQLite returns the current column names for SELECT *', async (t) => {
  if (IS_OLDER_NODE)
    return t.skip('node:sqlite counts the columns before SQLite compiles again: a new one is missing once');
  const { db, path } = await inFile(t);
  await db.script('create table t (a integer, b integer); insert into t values (1, 9007199254740993)');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  const read = async (): Promise<unknown[]> => [
    await db.fetchOne('select * from t'),
    ...(await db.fetchAll('select * from t where ?', [1])),
    ...(await db.fetchAll('update t set rowid = rowid returning *')),
  ];
  const changes: readonly (readonly [string, object])[] = [
    ['select 1', { a: 1, b: 9007199254740993n }],
    ['alter table t rename column a to z', { z: 1, b: 9007199254740993n }],
    ['alter table t add column c', { z: 1, b: 9007199254740993n, c: null }],
    ['alter table t drop column b', { z: 1, c: null }],
    [
      'drop table t; create table t (z, y); insert into t values (2, 9007199254740995)',
      { z: 2, y: 9007199254740995n },
    ],
  ];
  for (const [change, row] of changes) {
    other.exec(change);
    for (let round = 0; round < 2; round++) assert.deepEqual(await read(), [row, row, row], change);
    await db.execute('select * from t'); // running this statement must not hide the next change
  }
});

test('each method of a SQLite database returns integers beyond 2^53 exactly, although node:sqlite would throw', async (t) => {
  const db = await memory(t);
  await db.script(
    'create table t (id integer primary key, v integer); insert into t values (1, 5), (2, 9007199254740993), (3, -9223372036854775808)',
  );
  const expected = [5, 9007199254740993n, -9223372036854775808n];
  for (let round = 0; round < 2; round++) {
    assert.deepEqual(
      await Promise.all(
        [1, 2, 3].map(async (id) => (await db.fetchOne('select v from t where id = ?', [id]))!['v']),
      ),
      expected,
    );
    assert.deepEqual(
      await Promise.all(
        [1, 2, 3].map(async (id) => (await db.fetchOne('select * from t where id = ?', [id]))!['v']),
      ),
      expected,
    );
    assert.deepEqual(
      (await db.fetchAll('select v from t')).map(({ v }) => v),
      expected,
    );
    assert.deepEqual((await db.fetchArrays('select v from t')).rows.flat(), expected);
    assert.equal(await db.scalar('select v from t where id = 2'), 9007199254740993n);
    const streamed: unknown[] = [];
    for await (const { v } of db.stream('select v from t')) streamed.push(v);
    assert.deepEqual(streamed, expected);
  }
  assert.deepEqual(await db.execute('insert into t values (9007199254740995, 1)'), {
    affectedRows: 1,
    lastInsertId: 9007199254740995n,
  });
  assert.deepEqual(await db.execute('update t set v = 7 where id in (1, 9007199254740995)'), {
    affectedRows: 2,
    lastInsertId: undefined,
  }); // the connection still has the key of the last insert
  await db.executeMany('insert into t values (?, 1)', [[9007199254740996n], [9007199254740997n]]);
  assert.deepEqual(await db.fetchAll('update t set v = v + 1 where id = 2 returning v'), [
    { v: 9007199254740994n },
  ]);
  assert.equal(
    await db.scalar('with x as (select v from t where id = 2) select v from x'),
    9007199254740994n,
  );
});

test('with the option "int8", SQLite returns every integer as a bigint or as text', async (t) => {
  const wide = await memory(t, { int8: 'bigint' });
  assert.deepEqual(await wide.fetchOne("select 1 as a, 1.5 as b, 'x' as c"), { a: 1n, b: 1.5, c: 'x' });
  const text = await memory(t, { int8: 'string' });
  await text.execute('create table t (id integer primary key)');
  assert.deepEqual(await text.execute('insert into t values (5)'), { affectedRows: 1, lastInsertId: '5' });
  assert.deepEqual(await text.fetchAll('select id from t'), [{ id: '5' }]);
});

test('for a statement that changes no rows, SQLite does not return the number of rows of an earlier statement', async (t) => {
  const db = await memory(t);
  await db.script('create table t (id integer primary key, a integer unique)');
  await db.execute('insert into t (a) values (1), (2)');
  for (const text of [
    'create table other (a)',
    'select 1',
    'pragma user_version',
    'with x as (select 1) select * from x',
  ])
    assert.deepEqual(await db.execute(text), { affectedRows: 0, lastInsertId: undefined }, text);
  assert.deepEqual(await db.execute('insert or ignore into t (a) values (1)'), {
    affectedRows: 0,
    lastInsertId: undefined,
  });
  assert.equal(
    (await db.execute('with x as (select 5 as a) insert into t (a) select a from x')).affectedRows,
    1,
  );
  assert.equal((await db.execute('replace into t (id, a) values (1, 9)')).lastInsertId, 1);
  const upsert = 'insert into t (a) values (?) on conflict (a) do update set a = a';
  for (const a of [9, 10])
    assert.deepEqual(
      await db.execute(upsert, [a]),
      { affectedRows: 1, lastInsertId: undefined },
      'it may be the key of another row',
    );
  assert.equal(await db.executeMany(upsert, [[9], [11]]), 2);
  assert.equal(await db.scalar(`${upsert} returning id`, [9]), 1);
  assert.equal(
    (await db.execute('insert into t (a) values (12) on conflict (a) do nothing')).lastInsertId,
    await db.scalar('select id from t where a = 12'),
  );
});

test('for an insert into a table without rowid, SQLite returns no lastInsertId, even after an insert into another table', async (t) => {
  const db = await memory(t);
  for (const text of [
    'create table t (id integer primary key, a)',
    'create table w (k text primary key, a) without rowid',
    "attach ':memory:' as o",
    'create table o.w (k text primary key)',
  ])
    await db.execute(text);
  assert.equal((await db.execute('insert into t values (41, 1)')).lastInsertId, 41);
  const insert = 'insert into w (k, a) values (?, ?)';
  for (const k of ['a', 'b'])
    assert.deepEqual(await db.execute(insert, [k, 1]), { affectedRows: 1, lastInsertId: undefined });
  assert.deepEqual(await db.execute('replace into w select k, 2 from w'), {
    affectedRows: 2,
    lastInsertId: undefined,
  });
  assert.equal((await db.execute("insert into o.w values ('a')")).lastInsertId, 1, 'of another schema');
  assert.equal((await db.execute('insert into t values (42, 1)')).lastInsertId, 42);
  await db.execute('drop table w');
  await db.execute('create table w (k text primary key, a)');
  assert.equal((await db.execute(insert, ['a', 1])).lastInsertId, 1, 'it has one now');
  await db.execute('create trigger into_t after insert on w begin insert into t (a) values (new.a); end');
  assert.equal((await db.execute(insert, ['b', 1])).lastInsertId, 2, 'and what a trigger inserts is not it');
});

test('while a SQLite transaction streams the rows of a statement, it can run this statement a second time, and the stream returns all rows', async (t) => {
  const { db } = await inFile(t);
  await db.script('create table t (id integer primary key)');
  await db.insertMany(
    't',
    ['id'],
    Array.from({ length: 1_000 }, (_, id) => [id]),
  );
  const seen: unknown[] = [];
  await db.transaction(async (tx) => {
    for await (const { id } of tx.stream('select id from t order by id')) {
      if (seen.push(id) % 100 === 0) await tx.fetchAll('select id from t order by id');
    }
  });
  assert.deepEqual(
    seen,
    Array.from({ length: 1_000 }, (_, id) => id),
  );
});

test('SQLite returns the rows of each statement even if "statementCache" is 1', async (t) => {
  const db = await memory(t, { statementCache: 1 });
  for (let index = 0; index < 20; index++)
    assert.equal(await db.scalar(`select ${index % 3} + ?`, [1]), (index % 3) + 1);
  assert.equal(await db.scalar(`select length('${'x'.repeat(20_000)}')`), 20_000);
});

// ── settings ──

test('SQLite refuses double-quoted strings and writes to its schema table, and checks foreign keys by default', async (t) => {
  const { db } = await inFile(t);
  await db.script('create table t (a text)');
  await assert.rejects(db.scalar('select "nothing" from t'), DatabaseError);
  await db.script('pragma writable_schema = on');
  await assert.rejects(db.execute('delete from sqlite_schema'), DatabaseError);
  const settings = ['foreign_keys', 'trusted_schema', 'synchronous', 'journal_mode', 'busy_timeout'];
  assert.deepEqual(await Promise.all(settings.map((name) => db.scalar(`pragma ${name}`))), [
    1,
    0,
    2,
    'wal',
    0,
  ]);
  const { db: normal } = await inFile(t, { synchronous: 'normal' });
  assert.equal(await normal.scalar('pragma synchronous'), 1);
});

test('on SQLite, the database file, -wal and -shm can be read only by their owner', async (t) => {
  const { db, path } = await inFile(t);
  await db.execute('create table t (a)');
  for (const suffix of ['', '-wal', '-shm'])
    assert.equal(statSync(path + suffix).mode & 0o777, 0o600, suffix);
});

test('SQLite leaves no -wal file after it closes', async (t) => {
  const path = join(folder(t), 'data.db');
  {
    await using db = await openDatabase(`sqlite:${path}`);
    await db.execute('create table t (a)');
  }
  assert.deepEqual(readdirSync(join(path, '..')), ['data.db']);
});

test('when a SQLite file cannot be opened, the error gives the reason', async (t) => {
  const at = folder(t, {
    'text.db': 'this is no database, but it is long enough to be looked at as if it were one. '.repeat(20),
  });
  mkdirSync(join(at, 'folder'));
  const problems: readonly (readonly [string, DatabaseOptions, RegExp])[] = [
    [join(at, 'missing/data.db'), {}, /directory ".*" does not exist/],
    [join(at, 'folder'), {}, /the path is a directory/],
    [join(at, 'text.db'), {}, /the file is not a SQLite database/],
    [join(at, 'none.db'), { readOnly: true }, /the file does not exist/],
  ];
  for (const [path, options, problem] of problems) {
    await assert.rejects(
      openDatabase(`sqlite:${path}`, options),
      (error) =>
        (fault('E_DB_OPEN')(error) && problem.test((error as Error).message)) || assert.fail(String(error)),
    );
  }
  assert.ok(!readdirSync(at).includes('none.db'));
});

test(
  'openDatabase() throws E_DB_OPEN when the user may not write the SQLite file',
  { skip: process.getuid?.() === 0 && 'root may write everything' },
  async (t) => {
    const { db, path } = await inFile(t);
    await db.close();
    chmodSync(path, 0o400);
    await assert.rejects(openDatabase(`sqlite:${path}`), fault('E_DB_OPEN'));
  },
);

test(
  'when a SQLite file cannot be created, the error gives the reason, even if the user is root',
  { skip: process.platform !== 'linux' && 'there is no /proc' },
  async () => {
    await assert.rejects(
      openDatabase('sqlite:/proc/data.db'),
      (error) => fault('E_DB_OPEN')(error) && /process may not write/.test((error as Error).message),
    );
  },
);

test('while a SQLite file is missing, a read that needs a new connection fails; the read succeeds when the file is back', async (t) => {
  for (const readers of [0, 1]) {
    const { db, path } = await inFile(t, { readers });
    renameSync(path, `${path}.moved`);
    await assert.rejects(db.scalar('select 1', [], { longRead: true }));
    renameSync(`${path}.moved`, path);
    assert.equal(await db.scalar('select 1', [], { longRead: true }), 1);
    assert.equal(db.load.inUse, 0);
  }
});

test('SQLite with mode=ro refuses writes', async (t) => {
  const { db, url } = await inFile(t);
  await db.script('create table t (a); insert into t values (1)');
  await using reading = await openDatabase(`${url}?mode=ro`);
  assert.equal(await reading.scalar('select a from t'), 1);
  await assert.rejects(reading.execute('insert into t values (2)'), ReadOnly);
});

test('a SQLite database in memory refuses the options "readers" and "readOnly"', async () => {
  await assert.rejects(openDatabase('sqlite::memory:', { readers: 1 }), fault('E_DB_OPTION'));
  await assert.rejects(openDatabase('sqlite::memory:', { readOnly: true }), fault('E_DB_OPTION'));
});

// ── locks ──

test('SQLite waits for the lock of another connection without blocking the event loop, and throws LockTimeout if it waits too long', async (t) => {
  const clock = new ManualClock();
  const { db, path } = await inFile(t, { clock, busyTimeoutMs: 1_000 });
  await db.script('create table t (a)');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  other.exec('begin immediate');
  let turns = 0;
  const write = assert.rejects(
    db.execute('insert into t values (1)'),
    (error) =>
      error instanceof LockTimeout &&
      error.isRetryable &&
      error.sqlstate === '55P03' &&
      error.sql === 'insert into t values (1)',
  );
  for (; turns < 50; turns++) await clock.advance(25);
  await write;
  const second = db.transaction((tx) => tx.execute('insert into t values (2)'));
  await clock.advance(10);
  other.exec('commit');
  for (turns = 0; turns < 5; turns++) await clock.advance(25);
  await second;
  assert.equal(await db.scalar('select count(*) from t'), 1);
});

test('a write of several rows in SQLite that waits for a lock throws LockTimeout after busyTimeoutMs, or writes all rows', async (t) => {
  const path = join(folder(t), 'data.db');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  other.exec('create table t (a)');
  const clock = new ManualClock();
  const own = new DatabaseSync(path, { timeout: 0 });
  t.after(() => own.close());
  const options = {
    busyTimeoutMs: 1_000,
    statementCache: 10,
    int8: 'auto',
    slowStatementMs: 0,
    clock,
  } as const;
  const connection = new SqliteConnection(own, { ...options, log: undefined, onStatement: undefined });
  const write = (): Promise<number> =>
    connection.executeMany('insert into t values (?)', [[1], [2], [3]], undefined);
  other.exec('begin immediate');
  const refused = assert.rejects(write(), LockTimeout);
  for (let turn = 0; turn < 50; turn++) await clock.advance(25);
  await refused;
  const second = write();
  for (let turn = 0; turn < 10; turn++) await clock.advance(25);
  other.exec('commit');
  for (let turn = 0; turn < 5; turn++) await clock.advance(25);
  assert.equal(await second, 3);
  assert.equal(await connection.scalar('select count(*) from t', [], undefined), 3);
});

test('SQLite stops waiting for a lock when the signal of the call is aborted or its time limit is reached', async (t) => {
  const clock = new ManualClock();
  const { db, path } = await inFile(t, { clock });
  await db.script('create table t (a)');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  other.exec('begin immediate');
  const abort = new AbortController();
  const canceled = assert.rejects(
    db.execute('insert into t values (1)', [], { signal: abort.signal }),
    QueryCanceled,
  );
  await clock.advance(30);
  abort.abort();
  await canceled;
  const late = assert.rejects(db.execute('insert into t values (1)', [], { timeoutMs: 100 }), QueryTimeout);
  for (let turns = 0; turns < 10; turns++) await clock.advance(25);
  await late;
  other.exec('rollback');
  assert.equal((await db.execute('insert into t values (1)')).affectedRows, 1);
  assert.equal(clock.pending, 0);
});

test('a writing SQLite transaction takes the write lock when it begins, so its later statements do not wait for the lock', async (t) => {
  const { db, path } = await inFile(t);
  await db.script('create table t (a)');
  const other = new DatabaseSync(path);
  t.after(() => other.close());
  await db.transaction(async (tx) => {
    await tx.scalar('select count(*) from t');
    assert.throws(() => other.exec('begin immediate'), /locked/);
    await tx.execute('insert into t values (1)');
  });
});

test('transaction() with the option "retries" runs its callback again after a SerializationFailure, but not after another error', async (t) => {
  const { db } = await inFile(t);
  await db.script('create table t (a)');
  let runs = 0;
  const stale = (): Promise<number> =>
    db.transaction(
      (): number => {
        if (++runs < 3) throw new SerializationFailure('stale', { errno: 517 });
        return runs;
      },
      { retries: 2 },
    );
  assert.equal(await stale(), 3);
  runs = -5;
  await assert.rejects(stale(), SerializationFailure);
  assert.equal(runs, -2);
  let others = 0;
  await assert.rejects(
    db.transaction(
      () => {
        others++;
        throw new Error('without retries');
      },
      { retries: 5 },
    ),
    /without retries/,
  );
  assert.equal(others, 1);
});

test('SQLite gives the writing connection to callers in the order of their calls', async (t) => {
  const db = await memory(t);
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: 20 }, (_, index) =>
      db.transaction(async (tx) => {
        order.push(index);
        await tx.scalar('select 1');
      }),
    ),
  );
  assert.deepEqual(
    order,
    Array.from({ length: 20 }, (_, index) => index),
  );
});

test('SQLite limits how many callers wait for its connection, and how long each of them waits', async (t) => {
  const clock = new ManualClock();
  const db = await memory(t, { clock, pool: { maxWaiting: 2, acquireTimeoutMs: 500 } });
  const go = Promise.withResolvers<void>();
  const holder = db.transaction(() => go.promise);
  await new Promise(setImmediate);
  const abort = new AbortController();
  const waiting = [
    assert.rejects(
      db.scalar('select 1'),
      (error) =>
        error instanceof PoolTimeout &&
        error.message.endsWith(
          '; inside the callback of transaction(), run every statement on the transaction that the callback receives',
        ),
    ),
    assert.rejects(db.scalar('select 2', [], { signal: abort.signal }), QueryCanceled),
  ];
  await assert.rejects(
    db.scalar('select 3'),
    (error) => error instanceof PoolTimeout && /2 callers already wait/.test(error.message),
  );
  assert.deepEqual(db.load, { inUse: 1, idle: 0, waiting: 2 });
  abort.abort();
  await waiting[1];
  await clock.advance(500);
  await waiting[0];
  const last = db.scalar('select 4');
  go.resolve();
  await holder;
  assert.equal(await last, 4);
  assert.equal(clock.pending, 0);
  assert.deepEqual(db.load, { inUse: 0, idle: 1, waiting: 0 });
});

// ── transactions that SQLite ends itself ──

test('after SQLite itself has rolled a transaction back, later statements and the COMMIT of this transaction fail', async (t) => {
  const db = await memory(t);
  await db.script('create table t (a integer unique on conflict rollback)');
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.execute('insert into t values (1)');
      await assert.rejects(tx.execute('insert into t values (1)'), UniqueViolation);
      await assert.rejects(tx.execute('insert into t values (2)'), TransactionAborted);
    }),
    TransactionAborted,
  );
  await assert.rejects(
    db.transaction(async (tx) => {
      await tx.transaction(async (inner) => {
        await inner.execute('insert into t values (1)');
        await inner.execute('insert into t values (1)');
      });
    }),
    UniqueViolation,
  );
  assert.equal(await db.scalar('select count(*) from t'), 0);
});

test('when a deferred foreign key fails at COMMIT, SQLite rolls the transaction back, and the next transaction can begin', async (t) => {
  const db = await memory(t);
  await db.script(
    'create table p (id integer primary key); create table c (p integer references p (id) deferrable initially deferred)',
  );
  await assert.rejects(
    db.transaction((tx) => tx.execute('insert into c values (5)')),
    (error) => error instanceof DatabaseError && error.code === 'foreign_key',
  );
  assert.equal(await db.transaction((tx) => tx.scalar('select count(*) from c')), 0);
});

test('a SQLite error names the column that refuses a value in a STRICT table, and the violated unique index over an expression', async (t) => {
  const db = await memory(t);
  await db.script(
    "create table t (a integer, b text) strict; create unique index lower_b on t (lower(b)); insert into t values (1, 'x')",
  );
  await assert.rejects(
    db.execute('insert into t (a) values (?)', ['secret']),
    (error) =>
      error instanceof DataError &&
      error.table === 't' &&
      error.columns[0] === 'a' &&
      !error.message.includes('secret'),
  );
  await assert.rejects(
    db.execute('insert into t values (2, ?)', ['X']),
    (error) => error instanceof UniqueViolation && error.constraint === 'lower_b',
  );
});

// ── reader processes ──

test('when a statement in a SQLite reader process reaches its time limit, the process is ended, and the next read uses another process', async (t) => {
  const { db } = await inFile(t, { readers: 1 });
  await db.scalar('select 1', [], { longRead: true }); // the reader has started
  await assert.rejects(db.scalar(ENDLESS, [], { longRead: true, timeoutMs: 150 }), QueryTimeout);
  await db.scalar('select 1', [], { longRead: true });
  const abort = new AbortController();
  const canceled = assert.rejects(
    db.transaction(
      async (tx) => {
        const endless = tx.scalar(ENDLESS, [], { signal: abort.signal });
        setImmediate(() => abort.abort());
        await assert.rejects(endless, QueryCanceled);
        await tx.scalar('select 1');
      },
      { readOnly: true },
    ),
    ConnectionLost,
  );
  await canceled;
  assert.equal(await db.scalar('select 7', [], { longRead: true }), 7);
});

test('reads in SQLite reader processes do not block the event loop', async (t) => {
  const { db } = await inFile(t, { readers: 1 });
  await db.scalar('select 1', [], { longRead: true });
  const abort = new AbortController();
  const long = assert.rejects(
    db.scalar(ENDLESS, [], { longRead: true, signal: abort.signal }),
    QueryCanceled,
  );
  for (let index = 0; index < 100; index++) assert.equal(await db.scalar('select ?', [index]), index);
  abort.abort();
  await long;
});

test('SQLite reader processes refuse invalid values and writes, and return errors and integers beyond 2^53 to the caller', async (t) => {
  const { db } = await inFile(t, { readers: 1 });
  const read = { longRead: true };
  await assert.rejects(db.scalar('select ?', [NaN], read), refusedData('22003', /parameter 1: /));
  await assert.rejects(db.scalar('select ?', [undefined as never], read), fault('E_DB_PARAMETER'));
  await assert.rejects(db.scalar('select 1; select 2', [], read), fault('E_DB_STATEMENT'));
  await assert.rejects(
    db.scalar('nonsense', [], read),
    (error) => error instanceof DatabaseError && error.code === 'statement' && error.sql === 'nonsense',
  );
  await assert.rejects(db.execute('create table t (a)', [], read), ReadOnly);
  assert.deepEqual(await db.fetchAll('select 9007199254740993 as a, ? as b', [new Date(0)], read), [
    { a: 9007199254740993n, b: '1970-01-01T00:00:00.000Z' },
  ]);
  await db.transaction(
    async (tx) => {
      assert.deepEqual(await tx.transaction((inner) => inner.fetchOne('select 1 as a')), { a: 1 });
      await assert.rejects(
        tx.transaction((inner) => inner.script('create table t (a)')),
        ReadOnly,
      );
      await assert.rejects(tx.executeMany('create table t (a)', [[], []]), ReadOnly);
      const rows: unknown[] = [];
      for await (const row of tx.stream('select ? as a', [5])) rows.push(row);
      assert.deepEqual(rows, [{ a: 5 }]);
    },
    { readOnly: true },
  );
});

// ── operations ──

test('ping() of a SQLite database rejects after the database file was removed or replaced', async (t) => {
  const { db, path } = await inFile(t);
  await db.execute('create table t (a)');
  await db.ping();
  renameSync(path, `${path}.old`);
  await assert.rejects(
    db.ping(),
    (error) => error instanceof StorageFailed || error instanceof DatabaseError,
  );
  writeFileSync(path, readFileSync(`${path}.old`));
  await assert.rejects(db.ping(), DatabaseError);
});

test('a SQLite backup during an open transaction contains only committed rows', async (t) => {
  const { db, path } = await inFile(t);
  await db.script('create table t (a); insert into t values (1)');
  const copy = `${path}.copy`;
  writeFileSync(copy, 'an older copy');
  const begun = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const transaction = db.transaction(async (tx) => {
    await tx.execute('insert into t values (2)');
    begun.resolve();
    await go.promise;
  });
  await begun.promise;
  await db.backup(copy);
  go.resolve();
  await transaction;
  assert.equal(statSync(copy).mode & 0o777, 0o600);
  await using restored = await openDatabase(`sqlite:${copy}`);
  assert.deepEqual(await restored.fetchAll('select a from t'), [{ a: 1 }]);
  await assert.rejects(db.backup(join(path, 'no/such/place')), fault('E_DB_OPEN'));
  await assert.rejects(db.backup(copy, { signal: AbortSignal.abort() }), QueryCanceled);
  assert.deepEqual(
    readdirSync(join(path, '..')).filter((name) => name.endsWith('.partial')),
    [],
  );
  const other = await memory(t);
  await other.script('create table m (a); insert into m values (5)');
  await other.backup(`${path}.memory`);
  await using second = await openDatabase(`sqlite:${path}.memory`);
  assert.equal(await second.scalar('select a from m'), 5);
});

test('SQLite refuses a backup to the file of the database, whatever path leads to this file', async (t) => {
  const { db, path, url } = await inFile(t);
  await db.script('create table t (a)');
  symlinkSync(path, `${path}.link`);
  symlinkSync(path, `${path}.other.partial`);
  for (const name of [
    path,
    join(path, '..', '.', path.slice(path.lastIndexOf('/') + 1)),
    `${path}.link`,
    `${path}.other`,
    `${path}-wal`,
    `${path}-shm`,
  ])
    await assert.rejects(
      db.backup(name),
      (error) => fault('E_DB_OPEN')(error) && /open database/.test((error as Error).message),
    );
  await db.insertMany(
    't',
    ['a'],
    Array.from({ length: 5_000 }, () => ['x'.repeat(1_000)]),
  );
  await db.close();
  await using again = await openDatabase(url);
  assert.deepEqual(
    [await again.scalar('select count(*) from t'), await again.scalar('pragma integrity_check')],
    [5_000, 'ok'],
  );
});

test('a SQLite backup ignores the write-ahead log that a killed process left next to an older backup', async (t) => {
  const { db, path } = await inFile(t);
  await db.script('create table t (a); create table u (a)');
  const [copy, kept] = [`${path}.copy`, `${path}.kept`];
  await db.backup(copy);
  const older = await openDatabase(`sqlite:${copy}`);
  await older.insertMany(
    't',
    ['a'],
    Array.from({ length: 200 }, () => ['old'.repeat(300)]),
  );
  cpSync(`${copy}-wal`, kept);
  await older.close(); // closing removes the log
  cpSync(kept, `${copy}-wal`); // restores the log, as if the process had been killed
  await db.insertMany(
    'u',
    ['a'],
    Array.from({ length: 500 }, () => ['new'.repeat(200)]),
  );
  await db.backup(copy);
  await using restored = await openDatabase(`sqlite:${copy}`);
  assert.deepEqual(
    [
      await restored.scalar('select count(*) from t'),
      await restored.scalar('select count(*) from u'),
      await restored.scalar('pragma integrity_check'),
    ],
    [0, 500, 'ok'],
  );
});

test('when a SQLite file is damaged, a read throws Corrupt, unless openDatabase() has already thrown E_DB_OPEN', async (t) => {
  const { db, path, url } = await inFile(t);
  await db.script('create table t (a)');
  await db.insertMany(
    't',
    ['a'],
    Array.from({ length: 5_000 }, (_, index) => [`${index} ${'x'.repeat(100)}`]),
  );
  await db.close();
  const bytes = readFileSync(path);
  bytes.fill(0xff, 4096, bytes.length - 4096);
  writeFileSync(path, bytes);
  const damaged = await openDatabase(url).catch((error: unknown) => error);
  if (damaged instanceof Error) return void fault('E_DB_OPEN')(damaged);
  t.after(() => (damaged as Database).close());
  await assert.rejects(
    (damaged as Database).fetchAll('select * from t'),
    (error) => error instanceof Corrupt && error.sqlstate === 'XX001',
  );
});

test('after one caller has switched the check of foreign keys off, SQLite switches this check on again for the next caller', async (t) => {
  const { logger, events } = collectedLog();
  const db = await memory(t, { log: logger });
  await db.script(
    'create table parent (id integer primary key); create table child (id integer references parent (id))',
  );
  const orphan = (): Promise<unknown> => db.execute('insert into child values (1)');
  await db.execute('pragma foreign_keys = off');
  await assert.rejects(orphan(), ForeignKeyViolation);
  await db.script('pragma foreign_keys = off; insert into child values (2)');
  await assert.rejects(orphan(), ForeignKeyViolation);
  await db.scalar('pragma foreign_keys = 0');
  await assert.rejects(orphan(), ForeignKeyViolation);
  assert.equal(events.filter(({ event }) => event === 'foreign_keys_restored').length, 3);
  assert.equal(await db.scalar('select count(*) from child'), 1, 'its own script has none');
});

test('a SQLite statement that blocked the event loop is logged without its values', async (t) => {
  const { logger, events } = collectedLog();
  const db = await memory(t, { log: logger });
  await db.scalar(
    sql`with recursive c (n) as (select 1 union all select n + 1 from c where n < ${3_000_000}) select count(*) from c`,
  );
  const event = events.find(({ event: name }) => name === 'slow_statement');
  assert.ok(
    event !== undefined && (event['took_ms'] as number) > 50 && String(event['sql']).includes('n < ?'),
    JSON.stringify(events),
  );
});

test('SQLite closes within its time limit and logs a warning, even if a stream is unfinished and a callback never settles', async (t) => {
  const { logger, events } = collectedLog();
  for (const readers of [0, 1]) {
    const clock = new ManualClock();
    const { db, url } = await inFile(t, { clock, log: logger, readers });
    await db.script('create table t (a)');
    await db.insertMany(
      't',
      ['a'],
      Array.from({ length: 1_000 }, (_, index) => [index]),
    );
    await db.stream('select a from t').next();
    void db.transaction(async (tx) => {
      await tx.execute('delete from t');
      await new Promise(() => {
        /* never */
      });
    });
    const closing = db.close();
    await clock.advance(10_000);
    await closing;
    await using again = await openDatabase(url);
    assert.equal(await again.scalar('select count(*) from t'), 1_000);
  }
  assert.equal(events.filter(({ event }) => event === 'database_closed_in_use').length, 2);
});

test('when eight connections open a new SQLite file at the same time, all of them use WAL mode', async (t) => {
  const path = join(folder(t), 'data.db');
  const all = await Promise.all(Array.from({ length: 8 }, () => openDatabase(`sqlite:${path}`)));
  for (const db of all) assert.equal(await db.scalar('pragma journal_mode'), 'wal');
  await Promise.all(all.map((db) => db.close()));
  rmSync(path);
});

/** Returns the processes that this test starts. */
function startedProcesses(t: TestContext): readonly ChildProcess[] {
  const started: ChildProcess[] = [];
  const see = (message: unknown): void => void started.push((message as { process: ChildProcess }).process);
  subscribe('child_process', see);
  t.after(() => {
    unsubscribe('child_process', see);
  });
  return started;
}

test('a SQLite reader process ignores the signals that a terminal or a supervisor sends to all processes', async (t) => {
  const readers = startedProcesses(t);
  const { db } = await inFile(t, { readers: 1 });
  await db.scalar('select 1', [], { longRead: true });
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    assert.ok(readers[0]!.kill(signal));
    assert.equal(await db.scalar('select 7', [], { longRead: true }), 7, signal);
  }
  assert.equal(readers.length, 1);
});

test('close() of a SQLite database ends every reader process, even if one of them was killed before close()', async (t) => {
  const readers = startedProcesses(t);
  const { db, path } = await inFile(t, { readers: 2 });
  await db.execute('create table t (a)');
  await Promise.all([1, 2].map(() => db.fetchAll('select 1', [], { longRead: true })));
  const [first, second] = readers as [ChildProcess, ChildProcess];
  first.send = () => {
    // behaves like a process that was killed
    process.nextTick(() => first.emit('error', new Error('write EPIPE')));
    return false;
  };
  await db.close();
  assert.deepEqual([first.signalCode, second.exitCode, existsSync(`${path}-wal`)], ['SIGKILL', 0, false]);
});

test(
  'when a SQLite reader process cannot start, the read fails with the reason, and the database can still be closed',
  { skip: process.platform === 'win32' && 'no ulimit' },
  async (t) => {
    const program = `
    import { closeSync, openSync } from 'node:fs';
    import { openDatabase } from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/db/index.ts')).href)};
    const db = await openDatabase('sqlite:data.db', { readers: 1 });
    await db.execute('create table a (b int)');
    const read = () => db.transaction((tx) => tx.fetchAll('select * from a'), { readOnly: true });
    const taken = [];
    try { for (;;) taken.push(openSync('/dev/null')); } catch { /* none is left */ }
    const { name, cause } = await read().catch((error) => error);
    for (const each of taken) closeSync(each);
    console.log(name, cause.code, JSON.stringify(await read()));
    await db.close();
    console.log('closed', process.listenerCount('exit'));
  `;
    const { stdout, stderr } = await run(
      'sh',
      ['-c', 'ulimit -n 60 && exec "$@"', 'sh', process.execPath, '--input-type=module', '--eval', program],
      { cwd: folder(t) },
    );
    assert.equal(stdout, 'ConnectionLost EMFILE []\nclosed 0\n', stderr);
  },
);

test('a caller that waits for the connection keeps the process alive until its PoolTimeout', async (t) => {
  const path = folder(t, {
    'wait.ts': `import { openDatabase } from ${JSON.stringify(pathToFileURL(join(ROOT, 'src/db/index.ts')).href)};
const db = await openDatabase('sqlite:./data.db', { pool: { acquireTimeoutMs: 50 } });
const begun = Promise.withResolvers();
void db.transaction(() => { begun.resolve(); return new Promise(() => {}); });
await begun.promise;
await db.execute('create table t (a int)').catch(({ code }) => console.log(code));
`,
  });
  const { status, stdout } = await run(process.execPath, ['wait.ts'], { cwd: path });
  assert.deepEqual([status, stdout], [0, 'pool_timeout\n']);
});
