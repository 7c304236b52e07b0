/**
 * Migrations that commit statement by statement and fail or stop midway, on every engine.
 */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { Migrator, openDatabase, type Database } from '../../../src/db/index.ts';
import { systemClock } from '../../../src/base/clock.ts';
import { ENGINES, SERVERS, type TestedEngine } from '../../support/every-database.ts';
import { folder, inReverse, type Scope } from '../../support/run.ts';

/** A test that waits in vain for the lock reaches its time limit. */
const LOCK_SECONDS = 3_600;

interface Opened {
  readonly db: Database;
  readonly directory: string;
  readonly migrator: Migrator;
  readonly url: string;
  readonly scope: Scope;
}

async function open(t: TestContext, { address }: TestedEngine, second: string): Promise<Opened | undefined> {
  const scope = inReverse(t);
  const url = await address(t, scope);
  if (url === undefined) return undefined;
  const db = await openDatabase(url);
  scope.after(() => db.close());
  const directory = folder(scope, {
    '0001_half.up.sql': `-- svc: no-transaction\ncreate table half (id integer);\n${second};\n`,
    '0002_more.up.sql': 'create table more (id integer)',
  });
  return {
    db,
    directory,
    url,
    scope,
    migrator: new Migrator(db, { directory }, { lockSeconds: LOCK_SECONDS }),
  };
}

const states = async (migrator: Migrator): Promise<string[]> =>
  (await migrator.status()).map(({ id, state }) => `${id} ${state}`);

for (const engine of ENGINES) {
  test(`${engine.name}: repair() records an unfinished migration as pending after it was undone by hand, and as applied after it was completed by hand`, async (t) => {
    const opened = await open(t, engine, 'insert into missing values (1)');
    if (opened === undefined) return;
    const { db, migrator, directory } = opened;
    assert.equal(await migrator.unfinished(), undefined);
    assert.equal(await migrator.repair('applied'), undefined);
    await assert.rejects(migrator.up(), {
      code: 'E_MIGRATION_FAILED',
      message: /in line 3.*; the changes of earlier statements remain, and the migration is unfinished$/,
    });
    const unfinished = await migrator.unfinished();
    assert.deepEqual(
      [
        unfinished!.id,
        unfinished!.name,
        unfinished!.isRunning,
        unfinished!.statements.map(({ line }) => line),
      ],
      ['0001', 'half', false, [2, 3]],
    );
    await db.script('drop table half');
    assert.equal((await migrator.repair('pending'))!.id, '0001');
    assert.deepEqual(await states(migrator), ['0001 pending', '0002 pending']);
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED' });
    assert.equal((await migrator.repair('applied'))!.state, 'applied');
    assert.deepEqual(await states(migrator), ['0001 applied', '0002 pending']);
    assert.deepEqual(
      (await migrator.up()).map(({ id }) => id),
      ['0002'],
    );
    writeFileSync(
      join(directory, '0003_gone.up.sql'),
      '-- svc: no-transaction\ncreate table gone (id integer); insert into missing values (1)',
    );
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED' });
    rmSync(join(directory, '0003_gone.up.sql'));
    assert.deepEqual((await migrator.unfinished())!.statements, []);
    await migrator.repair('pending');
    assert.deepEqual(await states(migrator), ['0001 applied', '0002 applied']);
  });
}

for (const engine of ENGINES) {
  test(`${engine.name}: after a migration has failed in the middle, further calls of Migrator.up() and down() report it as unfinished, without waiting for the lock`, async (t) => {
    const opened = await open(t, engine, 'insert into missing values (1)');
    if (opened === undefined) return;
    const { migrator } = opened;
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED' });
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_UNFINISHED' });
    await assert.rejects(migrator.down(), { code: 'E_MIGRATION_UNFINISHED' });
  });
}

for (const engine of SERVERS) {
  test(`${engine.name}: while another process runs a migration, Migrator waits, and repair() refuses to change the state of the migration`, async (t) => {
    const opened = await open(
      t,
      engine,
      engine.dialect === 'postgres' ? 'select pg_sleep(1)' : 'select sleep(1)',
    );
    if (opened === undefined) return;
    const { migrator, directory, url, scope } = opened;
    const other = await openDatabase(url);
    scope.after(() => other.close());
    const running = migrator.up({ to: '0001' });
    const second = new Migrator(other, { directory }, { lockSeconds: LOCK_SECONDS });
    while ((await states(second))[0] !== '0001 unfinished')
      await new Promise((resolve) => setImmediate(resolve));
    assert.equal((await second.unfinished())!.isRunning, true);
    await assert.rejects(second.repair('applied'), { code: 'E_MIGRATION_UNFINISHED' });
    assert.deepEqual(
      (await second.up()).map(({ id }) => id),
      ['0002'],
    );
    assert.deepEqual(
      (await running).map(({ id }) => id),
      ['0001'],
    );
  });
}

test('PostgreSQL: when a migration in a transaction fails, it stays pending, and the error says that none of its changes remain', async (t) => {
  const opened = await open(t, SERVERS[0], 'select 1');
  if (opened === undefined) return;
  const { directory, migrator } = opened;
  writeFileSync(
    join(directory, '0001_half.up.sql'),
    'create table half (id integer); insert into missing values (1)',
  );
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message: /; none of its changes remain in the database$/,
  });
  assert.deepEqual(await states(migrator), ['0001 pending', '0002 pending']);
});

/** First statements that fail, with what they leave, and what the message says about it. */
const LEAVING: readonly {
  readonly name: string;
  readonly before: string;
  readonly statement: string;
  readonly message: RegExp;
  readonly leftover: string;
}[] = [
  {
    name: 'create unique index concurrently',
    before: 'create table note (title text); insert into note values (1), (1)',
    statement: '/* fast */ CREATE UNIQUE INDEX\nCONCURRENTLY note_title ON note (title)',
    message:
      /could not create unique index.*; the migration is unfinished; an invalid index may remain.*drop index concurrently if exists/,
    leftover: 'select count(*) from pg_index where not indisvalid',
  },
  {
    name: 'reindex (verbose) table concurrently',
    before:
      'create table note (title int); create function one_of(int) returns int immutable language sql return 1 / $1; create index note_title on note (one_of(title)); insert into note values (1); create or replace function one_of(int) returns int immutable language sql return 1 / ($1 - 1)',
    statement: 'reindex (verbose) table concurrently note',
    message: /division by zero.*; the migration is unfinished; an invalid index may remain/,
    leftover: "select count(*) from pg_class where relname like 'note_title_ccnew%'",
  },
  {
    name: 'do with a commit',
    before: 'create table note (title int)',
    statement: 'do $$ begin insert into note values (1); commit; perform 1 / 0; end $$',
    message: /division by zero.*; the migration is unfinished; the procedure may have committed changes/,
    leftover: 'select count(*) from note',
  },
  {
    name: 'call of a procedure with a commit',
    before:
      'create table note (title int); create procedure fill() language plpgsql as $$ begin insert into note values (1); commit; perform 1 / 0; end $$',
    statement: 'call fill()',
    message: /division by zero.*; the migration is unfinished; the procedure may have committed changes/,
    leftover: 'select count(*) from note',
  },
];

for (const { name, before, statement, message, leftover } of LEAVING) {
  test(`PostgreSQL: a migration without a transaction is unfinished after its first statement has failed and left changes (${name})`, async (t) => {
    const opened = await open(t, SERVERS[0], 'select 1');
    if (opened === undefined) return;
    const { db, directory, migrator } = opened;
    await db.script(before);
    writeFileSync(join(directory, '0001_half.up.sql'), `-- svc: no-transaction\n${statement};`);
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED', message });
    assert.equal(Number(await db.scalar(leftover)), 1);
    assert.deepEqual(await states(migrator), ['0001 unfinished', '0002 pending']);
    await assert.rejects(migrator.up(), { code: 'E_MIGRATION_UNFINISHED' });
  });
}

test('PostgreSQL: the hint about a statement that may leave changes follows the outcome, if it is not the first one', async (t) => {
  const opened = await open(t, SERVERS[0], 'create unique index concurrently half_id on half (missing)');
  if (opened === undefined) return;
  await assert.rejects(opened.migrator.up(), {
    message:
      /changes of earlier statements remain, and the migration is unfinished; an invalid index may remain/,
  });
});

test('PostgreSQL: if the connection breaks during the first statement of a migration without a transaction, the migration is unfinished', async (t) => {
  const opened = await open(t, SERVERS[0], 'select 1');
  if (opened === undefined) return;
  const { directory, migrator } = opened;
  const text = 'select pg_terminate_backend(pg_backend_pid())';
  writeFileSync(join(directory, '0001_half.up.sql'), `-- svc: no-transaction\n${text};`);
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message: /; the migration is unfinished; the connection broke, so the server may have run the statement/,
  });
  assert.deepEqual(await states(migrator), ['0001 unfinished', '0002 pending']);
});

for (const engine of SERVERS.filter(({ dialect }) => dialect !== 'postgres')) {
  test(`${engine.name}: a migration is unfinished after its first statement, a call of a procedure, has failed and left changes`, async (t) => {
    const opened = await open(t, engine, 'select 1');
    if (opened === undefined) return;
    const { db, directory, migrator } = opened;
    await db.script(
      'create table note (title int); create procedure fill() begin insert into note values (1); insert into missing values (1); end',
    );
    writeFileSync(join(directory, '0001_half.up.sql'), 'call fill();');
    await assert.rejects(migrator.up(), {
      code: 'E_MIGRATION_FAILED',
      message: /; the migration is unfinished; the procedure may have committed changes/,
    });
    assert.equal(Number(await db.scalar('select count(*) from note')), 1);
    assert.deepEqual(await states(migrator), ['0001 unfinished', '0002 pending']);
  });
}

for (const [name, isReleased] of [
  ['waits for the lock of an earlier migration that is just ending', true],
  ['runs, although a session that a connection pooler keeps holds the lock', false],
] as const) {
  test(`PostgreSQL: a migration without a transaction ${name}`, async (t) => {
    const runner = '8319946623122237299';
    const countLocks = `select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid() and (classid::bigint << 32) + objid::bigint = ${runner}`;
    const opened = await open(t, SERVERS[0], `insert into half ${countLocks}`);
    if (opened === undefined) return;
    const { db, directory, url } = opened;
    await using other = await openDatabase(url, { pool: { max: 1 } });
    await other.scalar(`select pg_advisory_lock(${runner})`);
    const sleep = async (): Promise<void> => {
      if (isReleased) await other.scalar(`select pg_advisory_unlock(${runner})`);
    };
    await new Migrator(db, { directory }, { clock: { ...systemClock, sleep } }).up({ to: '0001' });
    assert.equal(await db.scalar('select id from half'), isReleased ? 1 : 0);
  });
}
