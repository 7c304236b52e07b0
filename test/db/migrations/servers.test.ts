/**
 * Migrations of PostgreSQL, MySQL and MariaDB on a fake connection: the order of locks, records and statements.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { Database } from '../../../src/db/database.ts';
import { ConnectionLost, DatabaseError, LockTimeout } from '../../../src/db/errors.ts';
import { Migrator } from '../../../src/db/migrations/migrations.ts';
import { folder } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { Connection, Dialect, Driver } from '../../../src/db/driver.ts';

const MYSQL_LOCK = "concat('svc_migrations_', left(sha2(database(), 256), 32))";

/** Short names of the texts that the migrator itself sends. */
const NAMES: Readonly<Record<string, string>> = {
  "select 1 where to_regclass('svc_migrations') is not null": 'table?',
  "select 1 from information_schema.tables where table_schema = database() and table_name = 'svc_migrations'":
    'table?',
  'select id, name, checksum, applied_at from svc_migrations order by id': 'rows?',
  'create table if not exists svc_migrations (id text not null primary key, name text not null, checksum text not null, applied_at text)':
    'create',
  'create table if not exists svc_migrations (id varchar(190) character set utf8mb4 collate utf8mb4_bin not null primary key, name text not null, checksum text not null, applied_at text)':
    'create',
  'update svc_migrations set name = ?, checksum = ?, applied_at = ? where id = ?': 'update',
  'insert into svc_migrations (name, checksum, applied_at, id) values (?, ?, ?, ?)': 'insert',
  'delete from svc_migrations where id = ?': 'delete',
  "select pg_catalog.current_setting('search_path')": 'home?',
  'select database()': 'home?',
  "select pg_catalog.set_config('search_path', ?, false)": 'go home',
  'use `my``app`': 'go home',
  'set autocommit = 1': 'autocommit',
  'select pg_advisory_xact_lock(8319946623122237298)': 'lock',
  [`select get_lock(${MYSQL_LOCK}, ?)`]: 'lock',
  [`select release_lock(${MYSQL_LOCK})`]: 'unlock',
  [`select is_free_lock(${MYSQL_LOCK})`]: 'runs?',
  'select pg_try_advisory_lock(8319946623122237299)': 'run',
  'select pg_advisory_unlock(8319946623122237299)': 'end run',
  "select count(*) from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) and (classid::bigint << 32) + objid::bigint = 8319946623122237299":
    'runs?',
};

/** State of a fake server, and the calls that it has received. */
class FakeServer {
  readonly calls: string[] = [];
  home: string | null;
  rows: { id: string; name: string; checksum: string; applied_at: string | null }[] = [];
  hasTable = false;
  isInTransaction = false;
  isLocked = false;
  hasRunner = false;
  /** Errors of the next calls of begin(). */
  readonly beginErrors: Error[] = [];
  /** Called with the text of each statement of a migration. */
  onStatement: (text: string) => void = () => undefined;

  constructor(home: string | null) {
    this.home = home;
  }

  get isStale(): boolean {
    return false;
  }

  scalar(text: string, params: readonly unknown[]): unknown {
    const name = this.#note(text);
    switch (name) {
      case 'table?':
        return this.hasTable ? 1 : undefined;
      case 'home?':
        return this.home;
      case 'lock':
        this.timeouts.push(params);
        return this.isLocked ? 0 : 1;
      case 'run':
        return !this.hasRunner;
      case 'runs?':
        return text.startsWith('select is_free_lock') ? Number(!this.hasRunner) : Number(this.hasRunner);
      default:
        return 1;
    }
  }
  readonly timeouts: (readonly unknown[])[] = [];

  execute(text: string, params: readonly unknown[]): { affectedRows: number } {
    const name = this.#note(text);
    const [label, checksum, appliedAt, id] = params as [string, string, string | null, string];
    if (name === 'go home') this.home = String(params[0]);
    if (name === 'delete') this.rows = this.rows.filter((row) => row.id !== params[0]);
    if (name === 'insert') this.rows.push({ id, name: label, checksum, applied_at: appliedAt });
    if (name !== 'update') return { affectedRows: 1 };
    const row = this.rows.find((each) => each.id === id);
    if (row !== undefined) Object.assign(row, { name: label, checksum, applied_at: appliedAt });
    return { affectedRows: row === undefined ? 0 : 1 };
  }

  fetchAll(text: string): unknown[] {
    return this.#note(text) === 'rows?' ? [...this.rows] : [];
  }

  script(text: string): void {
    const name = this.#note(text);
    if (name === 'create') this.hasTable = true;
    else if (name === 'go home') this.home = 'my`app';
    else if (name === text) this.onStatement(text);
  }

  begin({ isolation, isReadOnly }: { isolation: string; isReadOnly: boolean }): void {
    this.calls.push(`begin ${isolation}${isReadOnly ? ' read only' : ''}`);
    const error = this.beginErrors.shift();
    if (error !== undefined) throw error;
    this.isInTransaction = true;
  }

  commit(): void {
    this.calls.push('commit');
    this.isInTransaction = false;
  }

  rollback(): void {
    this.calls.push('rollback');
    this.isInTransaction = false;
  }

  retire(): void {
    this.calls.push('retire');
  }

  #note(text: string): string {
    const name = NAMES[text] ?? text;
    this.calls.push(name);
    return name;
  }
}

interface Under {
  readonly server: FakeServer;
  readonly migrator: Migrator;
  readonly clock: ManualClock;
}

function bench(
  t: TestContext,
  dialect: Dialect,
  files: Readonly<Record<string, string>>,
  home: string | null = dialect === 'postgres' ? '"$user", public' : 'my`app',
): Under {
  const server = new FakeServer(home);
  const clock = new ManualClock();
  const driver = {
    dialect,
    acquire: () => server as unknown as Connection,
    release: () => undefined,
  } as unknown as Driver;
  const database = new Database(driver, { clock, statementTimeoutMs: 0 });
  const directory = folder(t, files);
  return { server, migrator: new Migrator(database, { directory }, { clock, lockSeconds: 7 }), clock };
}

/** Calls before the migration is chosen, for a database without the table of migrations. */
const CHOOSE = ['table?'];
/** Calls after the last migration. */
const NO_MORE = ['table?', 'rows?'];
const BEGIN = 'begin read committed';
const CHECK = ['create', 'table?', 'rows?'];

for (const [what, dialect, files, home, expected] of [
  [
    'of PostgreSQL runs in the transaction that records it',
    'postgres',
    { '0001_a.up.sql': 'create table a (b int); insert into a values (1)' },
    undefined,
    [
      BEGIN,
      'lock',
      ...CHECK,
      'home?',
      'retire',
      'create table a (b int)',
      'retire',
      'insert into a values (1)',
      'home?',
      'update',
      'insert',
      'commit',
    ],
  ],
  [
    'of PostgreSQL restores the search path before it is recorded',
    'postgres',
    { '0001_a.up.sql': 'leave home' },
    undefined,
    [
      BEGIN,
      'lock',
      ...CHECK,
      'home?',
      'retire',
      'leave home',
      'home?',
      'go home',
      'update',
      'insert',
      'commit',
    ],
  ],
  [
    'of PostgreSQL without a transaction is recorded as begun, and holds a lock of the session',
    'postgres',
    { '0001_a.up.sql': '-- svc: no-transaction\nvacuum' },
    undefined,
    [
      BEGIN,
      'lock',
      ...CHECK,
      'run',
      'update',
      'insert',
      'commit',
      'home?',
      'retire',
      'vacuum',
      'home?',
      'update',
      'end run',
    ],
  ],
  ...(['mysql', 'mariadb'] as const).flatMap(
    (dialect) =>
      [
        [
          `of ${dialect} that only writes rows runs in a transaction`,
          dialect,
          { '0001_a.up.sql': 'insert into a values (1)' },
          undefined,
          [
            'lock',
            'create',
            BEGIN,
            'table?',
            'rows?',
            'home?',
            'retire',
            'insert into a values (1)',
            'home?',
            'update',
            'insert',
            'commit',
            'unlock',
          ],
        ],
        [
          `of ${dialect} that changes tables is recorded as begun, and selects its database again`,
          dialect,
          { '0001_a.up.sql': 'create table a (b int); leave home' },
          undefined,
          [
            'lock',
            ...CHECK,
            'update',
            'insert',
            'home?',
            'retire',
            'create table a (b int)',
            'retire',
            'leave home',
            'autocommit',
            'home?',
            'go home',
            'update',
            'unlock',
          ],
        ],
        [
          `of ${dialect} without a selected database selects none`,
          dialect,
          { '0001_a.up.sql': 'create table x.a (b int)' },
          null,
          [
            'lock',
            ...CHECK,
            'update',
            'insert',
            'home?',
            'retire',
            'create table x.a (b int)',
            'autocommit',
            'update',
            'unlock',
          ],
        ],
      ] as const,
  ),
] as readonly (readonly [
  string,
  Dialect,
  Readonly<Record<string, string>>,
  string | null | undefined,
  readonly string[],
])[])
  test(`a migration ${what}`, async (t) => {
    const { server, migrator } = bench(t, dialect, files, home);
    const before = server.home;
    server.onStatement = (text) => {
      if (text === 'leave home') server.home = 'elsewhere';
    };
    assert.deepEqual(
      (await migrator.up()).map(({ id }) => id),
      ['0001'],
    );
    assert.deepEqual(server.calls, [...CHOOSE, ...expected, ...NO_MORE]);
    assert.deepEqual(
      server.rows.map(({ id, name, applied_at: at }) => [id, name, at]),
      [['0001', 'a', '2024-01-01T00:00:00.000Z']],
    );
    assert.deepEqual([server.home, server.isInTransaction], [before, false]);
    assert.deepEqual(
      server.timeouts,
      dialect === 'postgres' ? [] : [[7]],
      'GET_LOCK waits for "lockSeconds"',
    );
  });

for (const [what, dialect, files, error, kept, message] of [
  [
    'the first statement of PostgreSQL',
    'postgres',
    'fail; select 1',
    undefined,
    [],
    /none of its changes remain/,
  ],
  [
    'the second statement of PostgreSQL',
    'postgres',
    'select 1; fail',
    undefined,
    [],
    /none of its changes remain/,
  ],
  [
    'the first statement of PostgreSQL without a transaction',
    'postgres',
    '-- svc: no-transaction\nfail; vacuum',
    undefined,
    [],
    /none of its changes remain/,
  ],
  [
    'the second statement of PostgreSQL without a transaction',
    'postgres',
    '-- svc: no-transaction\nvacuum; fail',
    undefined,
    ['0001'],
    /the changes of earlier statements remain, and the migration is unfinished$/,
  ],
  [
    'the first statement of MySQL',
    'mysql',
    'alter fail; select 1',
    undefined,
    [],
    /none of its changes remain/,
  ],
  [
    'the second statement of MySQL',
    'mysql',
    'create table a (b int); alter fail',
    undefined,
    ['0001'],
    /the changes of earlier statements remain, and the migration is unfinished$/,
  ],
  [
    'a statement for rows of MySQL',
    'mysql',
    'insert into a values (1); update fail',
    undefined,
    [],
    /none of its changes remain/,
  ],
  [
    'a first statement of MySQL that may leave changes',
    'mysql',
    'drop table fail, b',
    undefined,
    ['0001'],
    /the migration is unfinished; some of the objects may be gone/,
  ],
  [
    'the connection in the first statement of MySQL',
    'mysql',
    'alter fail',
    new ConnectionLost('lost'),
    ['0001'],
    /the migration is unfinished; the connection broke, so the server may have run the statement/,
  ],
] as readonly (readonly [string, Dialect, string, Error | undefined, readonly string[], RegExp])[])
  test(`when ${what} fails, the error says what remains, and the migration is ${kept.length === 0 ? 'pending' : 'unfinished'}`, async (t) => {
    const { server, migrator } = bench(t, dialect, { '0001_a.up.sql': files });
    const cause = error ?? new DatabaseError('no such thing', {});
    let whole: FakeServer['rows'] = [];
    server.onStatement = (text) => {
      if (text.includes('fail')) throw cause;
    };
    // a rollback undoes the records of the transaction
    const begin = server.begin.bind(server);
    server.begin = (options) => {
      begin(options);
      whole = [...server.rows];
    };
    const rollback = server.rollback.bind(server);
    server.rollback = () => {
      rollback();
      server.rows = whole;
    };
    await assert.rejects(migrator.up(), (found) => {
      assert.ok(found instanceof SvcError && found.code === 'E_MIGRATION_FAILED');
      assert.match(found.message, message);
      assert.equal(found.cause, cause);
      return true;
    });
    assert.deepEqual(
      server.rows.map(({ id, applied_at: at }) => [id, at]),
      kept.map((id) => [id, null]),
    );
    const last = server.calls.at(-1);
    if (dialect === 'mysql') assert.equal(last, 'unlock');
    assert.equal(server.calls.includes('run'), server.calls.includes('end run'));
  });

test('a migration of MySQL fails with LockTimeout while another process holds the lock, and releases nothing', async (t) => {
  const { server, migrator } = bench(t, 'mysql', { '0001_a.up.sql': 'create table a (b int)' });
  server.isLocked = true;
  await assert.rejects(
    migrator.up(),
    (error) => error instanceof LockTimeout && /has been migrating the database for 7 s/.test(error.message),
  );
  assert.deepEqual(server.calls, [...CHOOSE, 'lock']);
});

for (const dialect of ['postgres', 'mysql'] as const)
  test(`a migration of ${dialect} begins its transaction again after a lock timeout, and fails after other errors`, async (t) => {
    const { server, migrator } = bench(t, dialect, { '0001_a.up.sql': 'insert into a values (1)' });
    const lost = new ConnectionLost('lost');
    server.beginErrors.push(new LockTimeout('busy'), new LockTimeout('busy'));
    assert.equal((await migrator.up()).length, 1);
    assert.equal(server.calls.filter((call) => call === BEGIN).length, 3);
    server.rows = [];
    server.beginErrors.push(lost);
    await assert.rejects(migrator.up(), (error) => error === lost);
  });

test('a migration of PostgreSQL without a transaction runs although a pooler keeps a session with its lock', async (t) => {
  const { server, migrator, clock } = bench(t, 'postgres', {
    '0001_a.up.sql': '-- svc: no-transaction\nvacuum',
  });
  server.hasRunner = true;
  const applying = migrator.up();
  for (let tries = 0; tries < 60; tries++) await clock.advance(1);
  assert.equal((await applying).length, 1);
  assert.equal(server.calls.filter((call) => call === 'run').length, 50);
  assert.ok(!server.calls.includes('end run'));
});

for (const dialect of ['postgres', 'mysql', 'mariadb'] as const)
  test(`unfinished(), repair() and down() of ${dialect} know whether a process still runs the migration`, async (t) => {
    const { server, migrator } = bench(t, dialect, {
      '0001_a.up.sql': 'create table a (b int)',
      '0001_a.down.sql': 'drop table a',
    });
    assert.equal(await migrator.unfinished(), undefined);
    await migrator.up();
    assert.equal(await migrator.unfinished(), undefined);
    server.rows[0]!.applied_at = null;
    for (const isRunning of [true, false]) {
      server.hasRunner = isRunning;
      const { statements, ...found } = (await migrator.unfinished())!;
      assert.deepEqual(found, { id: '0001', name: 'a', isRunning });
      assert.deepEqual(
        statements.map(({ text, line }) => [text, line]),
        [['create table a (b int)', 1]],
      );
      if (isRunning) await assert.rejects(migrator.repair('applied'), { code: 'E_MIGRATION_UNFINISHED' });
    }
    assert.deepEqual(await migrator.repair('applied'), {
      id: '0001',
      name: 'a',
      state: 'applied',
      appliedAt: undefined,
    });
    assert.equal((await migrator.status())[0]!.state, 'applied');
    assert.equal(await migrator.repair('pending'), undefined);
    assert.deepEqual(
      (await migrator.down()).map(({ id, direction }) => [id, direction]),
      [['0001', 'down']],
    );
    assert.deepEqual(server.rows, []);
    assert.ok(server.calls.includes('drop table a'));
  });
