import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { takeRunnerLock } from '../../../src/db/sqlite/file.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { createLogger } from '../../../src/observability/log.ts';
import { isMigratable, labelOf, migrateAtStart } from '../../../src/db/migrations/start.ts';
import { Migrator } from '../../../src/db/migrations/migrations.ts';
import { openDatabase } from '../../../src/db/open.ts';
import { ROOT } from '../../support/build.ts';
import { folder, run, start, write } from '../../support/run.ts';
import type { Database } from '../../../src/db/database.ts';
import type { MigrationDone } from '../../../src/db/migrations/migrations.ts';
import type { ContributedMigration, MigrationSources } from '../../../src/db/migrations/source.ts';
import type { DatabaseOptions } from '../../../src/db/open.ts';
import type { TestContext } from 'node:test';

const NOTES = {
  '0001_create_notes.up.sql':
    "create table notes (id integer primary key, text text not null);\ninsert into notes (text) values ('first; of all');\n",
  '0001_create_notes.down.sql': 'drop table notes;\n',
  '0002_add_owner.up.sql':
    "-- a trigger, too\nalter table notes add column owner text;\ncreate trigger owned after insert on notes begin\n  update notes set owner = 'nobody' where id = new.id;\nend;\n",
  '0002_add_owner.down.sql': 'drop trigger owned;\nalter table notes drop column owner;\n',
  '0003_index.up.sql': 'create index notes_owner on notes (owner);\n',
};
const TOKENS: ContributedMigration = {
  plugin: 'oauth',
  id: '0001',
  sql: {
    sqlite: ['create table tokens (id text primary key)', 'create index tokens_id on tokens (id)'],
    postgres: [],
    mysql: [],
    mariadb: [],
  },
};

interface Under {
  readonly db: Database;
  readonly directory: string;
  readonly path: string;
  readonly migrator: Migrator;
}

async function open(
  t: TestContext,
  files: Readonly<Record<string, string>> = NOTES,
  { contributed, ...options }: DatabaseOptions & Pick<MigrationSources, 'contributed'> = {},
): Promise<Under> {
  const cwd = folder(
    t,
    Object.fromEntries(Object.entries(files).map(([name, text]) => [`migrations/${name}`, text])),
  );
  const [path, directory] = [join(cwd, 'data.db'), join(cwd, 'migrations')];
  const db = await openDatabase(`sqlite:///${path}`, options);
  t.after(() => db.close());
  return { db, directory, path, migrator: new Migrator(db, { directory, contributed }, { lockSeconds: 1 }) };
}

const ids = (done: readonly { readonly id: string }[]): string[] => done.map(({ id }) => id);
const states = async (migrator: Migrator): Promise<string[]> =>
  (await migrator.status()).map(({ id, state }) => `${id} ${state}`);
const tables = async (db: Database): Promise<unknown[]> =>
  (
    await db.fetchAll(
      "select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name",
    )
  ).map(({ name }) => name);

test('Migrator.up() applies each pending migration once, in order, and records its id, name, checksum and time', async (t) => {
  const clock = new ManualClock();
  const { db, directory } = await open(t);
  const seen: MigrationDone[] = [];
  const migrator = new Migrator(
    db,
    { directory, contributed: [TOKENS] },
    { clock, onDone: (done) => seen.push(done) },
  );
  assert.deepEqual(await states(migrator), [
    'oauth/0001 pending',
    '0001 pending',
    '0002 pending',
    '0003 pending',
  ]);
  assert.deepEqual(await tables(db), []); // status() and pending() write nothing
  const done = await migrator.up();
  assert.deepEqual(done, seen);
  assert.deepEqual(done[1], { direction: 'up', id: '0001', name: 'create_notes', durationMs: 0 });
  assert.deepEqual(ids(done), ['oauth/0001', '0001', '0002', '0003']);
  assert.deepEqual(await tables(db), ['notes', 'svc_migrations', 'tokens']);
  await db.execute("insert into notes (text) values ('second')");
  assert.deepEqual(await db.fetchAll('select text, owner from notes order by id'), [
    { text: 'first; of all', owner: null },
    { text: 'second', owner: 'nobody' },
  ]);
  const rows = await db.fetchAll('select * from svc_migrations order by id');
  assert.deepEqual(
    rows.map(({ id, name, applied_at: at }) => [id, name, at]),
    [
      ['0001', 'create_notes', '2024-01-01T00:00:00.000Z'],
      ['0002', 'add_owner', '2024-01-01T00:00:00.000Z'],
      ['0003', 'index', '2024-01-01T00:00:00.000Z'],
      ['oauth/0001', '0001', '2024-01-01T00:00:00.000Z'],
    ],
  );
  for (const { checksum } of rows) assert.match(String(checksum), /^[0-9a-f]{64}$/);
  assert.deepEqual(await migrator.up(), []);
  assert.deepEqual(await migrator.pending(), []);
  assert.deepEqual(await states(migrator), [
    'oauth/0001 applied',
    '0001 applied',
    '0002 applied',
    '0003 applied',
  ]);
  assert.equal((await migrator.status())[0]!.appliedAt, '2024-01-01T00:00:00.000Z');
});

test('Migrator.up({ to }) stops after the migration with the given id, and refuses an unknown id', async (t) => {
  const { migrator } = await open(t);
  assert.deepEqual(ids(await migrator.up({ to: '0002' })), ['0001', '0002']);
  assert.deepEqual(ids(await migrator.up({ to: '0001' })), []);
  assert.deepEqual(ids(await migrator.pending()), ['0003']);
  for (const to of ['0004', '0003_other', '3', ''])
    await assert.rejects(migrator.up({ to }), {
      code: 'E_MIGRATION_ORDER',
      message: `Cannot migrate to ${to}: neither a file nor a plugin has a migration with the id "${to}"; svc migrate status lists them`,
    });
});

test('Migrator.up({ to }) accepts each migration as svc migrate status prints it', async (t) => {
  const { db, directory } = await open(t);
  const migrator = new Migrator(db, { directory, contributed: [TOKENS] });
  for (const { id, name } of await migrator.status())
    assert.deepEqual(ids(await migrator.up({ to: labelOf({ id, name }) })), [id]);
  assert.deepEqual(await migrator.pending(), []);
});

test("Migrator.up() applies a plugin's new migration before the pending migrations from files", async (t) => {
  const { db, directory, migrator } = await open(t);
  await migrator.up({ to: '0001' });
  assert.deepEqual(ids(await new Migrator(db, { directory, contributed: [TOKENS] }).up()), [
    'oauth/0001',
    '0002',
    '0003',
  ]);
  assert.deepEqual(ids(await migrator.up()), []); // tables of a removed plugin stay
  assert.deepEqual((await states(migrator)).at(-1), 'oauth/0001 unknown');
});

test('Migrator.up() does nothing when there are no files and no plugins', async (t) => {
  const { db } = await open(t);
  assert.deepEqual(await new Migrator(db, {}).up(), []);
  assert.deepEqual(await tables(db), []);
});

test('Migrator.down() undoes the latest migrations from files, newest first, and does not undo migrations of plugins', async (t) => {
  const { db, directory, migrator } = await open(t, NOTES, { contributed: [TOKENS] });
  await migrator.up({ to: '0002' });
  assert.deepEqual(
    (await migrator.down()).map(({ direction, id }) => [direction, id]),
    [['down', '0002']],
  );
  assert.deepEqual(await states(migrator), [
    'oauth/0001 applied',
    '0001 applied',
    '0002 pending',
    '0003 pending',
  ]);
  await migrator.up({ to: '0002' });
  assert.deepEqual(ids(await migrator.down({ steps: 9 })), ['0002', '0001']);
  assert.deepEqual(await migrator.down(), []);
  assert.deepEqual(await tables(db), ['svc_migrations', 'tokens']);
  await migrator.up();
  await assert.rejects(migrator.down(), {
    code: 'E_MIGRATION_DOWN',
    message: /0003_index: the file 0003_index\.down\.sql does not exist/,
  });
  rmSync(join(directory, '0003_index.up.sql'));
  await assert.rejects(migrator.down(), {
    code: 'E_MIGRATION_DOWN',
    message: /0003_index: no file or plugin contains this migration/,
  });
  for (const steps of [0, 1.5]) await assert.rejects(migrator.down({ steps }), { code: 'E_OPTION_RANGE' });
});

test('when the file of an applied migration has changed, Migrator.up() refuses to run, and status() reports the migration as changed', async (t) => {
  const { directory, migrator } = await open(t);
  await migrator.up({ to: '0002' });
  write(directory, { '0001_create_notes.up.sql': `${NOTES['0001_create_notes.up.sql']}-- harmless\n` });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_CHANGED',
    message: /migrations\/0001_create_notes\.up\.sql has changed since it was applied at \d{4}-/,
    remedy: /svc migrate new/,
  });
  assert.deepEqual(await states(migrator), ['0001 changed', '0002 applied', '0003 pending']);
  // the down script is another file
  assert.deepEqual(ids(await migrator.down({ steps: 2 })), ['0002', '0001']);
  assert.equal((await migrator.up()).length, 3);
});

test('Migrator.up() refuses a pending migration whose number is lower than the number of an applied migration', async (t) => {
  const { directory, migrator } = await open(t, { '0001_a.up.sql': 'create table a (id);' });
  write(directory, { '0002_theirs.up.sql': 'create table theirs (id);' });
  await migrator.up();
  rmSync(join(directory, '0002_theirs.up.sql'));
  assert.deepEqual(await migrator.up(), []); // an older version of the application with a newer database
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 unknown']);
  rmSync(join(directory, '0001_a.up.sql'));
  write(directory, { '0001_b.up.sql': 'create table b (id);' });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_ORDER',
    message: /0001_b\.up\.sql: 0001 was applied as another file \(0001_a\)$/,
    remedy: /undo a migration that was applied under another number/,
  });
  assert.deepEqual((await migrator.status())[0]!.appliedAs, 'a');
  const {
    db,
    directory: second,
    migrator: other,
  } = await open(t, { '0001_a.up.sql': 'create table a (id);', '0002_b.up.sql': 'create table b (id);' });
  await other.up();
  await db.execute("update svc_migrations set id = '0003', name = 'theirs' where id = '0002'");
  await assert.rejects(other.up(), {
    code: 'E_MIGRATION_ORDER',
    message: new RegExp(`${second}/0002_b\\.up\\.sql: the later migration 0003_theirs is already applied`),
  });
});

// ── failures ──

test('when a migration fails, Migrator.up() reports file, line and statement, and the database keeps no change of this migration', async (t) => {
  const { db, directory, migrator } = await open(t, {
    '0001_a.up.sql': 'create table a (id);',
    '0002_b.up.sql': `create table b (id);\ninsert into b values (1);\n\ninsert into missing\n  values (${'1, '.repeat(40)}1);\n`,
    '0003_c.up.sql': 'create table c (id);',
  });
  await assert.rejects(
    migrator.up(),
    (error: { code?: string; message?: string; cause?: { code?: string } }) => {
      assert.equal(error.code, 'E_MIGRATION_FAILED');
      assert.match(
        error.message!,
        /migrations\/0002_b\.up\.sql: in line 4, "insert into missing values \(1, [^"]{40,70}…": no such table: missing; none of its changes remain in the database$/,
      );
      return error.cause?.code === 'statement';
    },
  );
  assert.deepEqual(await tables(db), ['a', 'svc_migrations']);
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 pending', '0003 pending']);
  write(directory, { '0002_b.up.sql': 'create table b (id);' });
  assert.deepEqual(ids(await migrator.up()), ['0002', '0003']);
});

test("when a statement of a plugin's migration fails, the error of Migrator.up() names the plugin", async (t) => {
  const { migrator } = await open(
    t,
    { '.keep': '' },
    {
      contributed: [
        {
          plugin: 'shop',
          id: 'v1',
          sql: { ...TOKENS.sql, sqlite: ['create table a (id)', 'create table a (id)'] },
        },
      ],
    },
  );
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message: /shop\/v1 of the plugin shop: in line 1, "create table a \(id\)": table a already exists/,
  });
});

test('Migrator.up() suggests the directive "no-transaction" for VACUUM, which cannot run in a transaction, and runs VACUUM with this directive', async (t) => {
  const { directory, migrator, db } = await open(t, { '0001_a.up.sql': 'vacuum;' });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message:
      /cannot VACUUM from within a transaction \(if the statement must not run inside a transaction, write "-- svc: no-transaction"/,
  });
  write(directory, {
    '0001_a.up.sql': '-- svc: no-transaction\ncreate table a (id);\nvacuum;',
    '0001_a.down.sql': '-- svc: no-transaction\nvacuum;\ndrop table a;',
  });
  assert.deepEqual(ids(await migrator.up()), ['0001']);
  assert.deepEqual(await states(migrator), ['0001 applied']);
  assert.deepEqual(ids(await migrator.down()), ['0001']);
  assert.deepEqual([await tables(db), await states(migrator)], [['svc_migrations'], ['0001 pending']]);
});

test('when a migration without a transaction fails after its first statement, Migrator reports this migration as unfinished', async (t) => {
  const { directory, db, migrator } = await open(t, {
    '0001_a.up.sql': '-- svc: no-transaction\ninsert into missing values (1);\ncreate table a (id);',
    '0001_a.down.sql': '-- svc: no-transaction\ndrop table missing;\nselect 1;',
  });
  await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED' });
  // the first statement failed, so nothing has changed
  assert.deepEqual(await states(migrator), ['0001 pending']);
  write(directory, {
    '0001_a.up.sql': '-- svc: no-transaction\ncreate table a (id);\ninsert into missing values (1);',
  });
  await assert.rejects(migrator.up(), { code: 'E_MIGRATION_FAILED' });
  assert.deepEqual(await states(migrator), ['0001 unfinished']);
  assert.equal((await migrator.status())[0]!.appliedAt, undefined);
  for (const again of [migrator.up(), migrator.down()])
    await assert.rejects(again, {
      code: 'E_MIGRATION_UNFINISHED',
      message: /0001_a runs without a transaction, and was started but not finished/,
      remedy: /svc migrate repair/,
    });
  await db.execute("insert into svc_migrations values ('gone/1', '1', '', null)");
  await db.execute("delete from svc_migrations where id = '0001'");
  assert.deepEqual(await states(migrator), ['0001 pending', 'gone/1 unfinished']);
  await assert.rejects(migrator.up(), { code: 'E_MIGRATION_UNFINISHED', message: /gone\/1 runs/ });
  await db.script('delete from svc_migrations; drop table a; create table missing (id)');
  assert.deepEqual(ids(await migrator.up()), ['0001']);
  await db.execute('drop table missing');
  await assert.rejects(migrator.down(), { code: 'E_MIGRATION_FAILED' });
  assert.deepEqual(await states(migrator), ['0001 applied']);
});

test('Migrator.up() waits while another process runs a migration without a transaction, and then applies its own pending migration', async (t) => {
  const clock = new ManualClock();
  const { directory, db, path } = await open(t, { '0001_a.up.sql': 'create table a (id);' });
  const migrator = new Migrator(db, { directory }, { clock });
  await migrator.up();
  await db.execute('update svc_migrations set applied_at = null');
  using _running = await takeRunnerLock(path);
  write(directory, { '0002_b.up.sql': 'create table b (id);' });
  const other = await openDatabase(`sqlite:///${join(directory, '../data.db')}`);
  t.after(() => other.close());
  const waiting = migrator.up();
  await clock.advance(1_000);
  await other.execute("update svc_migrations set applied_at = '2024-01-01T00:00:00.000Z'");
  await clock.advance(1_000);
  assert.deepEqual(ids(await waiting), ['0002']);
});

test('after Migrator.up() has waited for the migration lock, it checks which migrations other processes have recorded meanwhile', async (t) => {
  const { db, path, migrator } = await open(t, {
    '0001_a.up.sql': '-- svc: no-transaction\nselect 1;',
    '0002_b.up.sql': 'create table b (id);',
  });
  await migrator.up();
  await db.script('delete from svc_migrations; drop table b');
  new Migrator(db, {}, { lockSeconds: 3_600 });
  const other = await openDatabase(`sqlite:///${path}`);
  t.after(() => other.close());
  using _running = await takeRunnerLock(path);
  let waiting: Promise<MigrationDone[]> | undefined;
  const [first] = await migrator.status();
  const turns = async (count: number): Promise<void> => {
    for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setImmediate(resolve));
  };
  await other.transaction(async (tx) => {
    await tx.execute("insert into svc_migrations values (?, ?, 'other', null)", [first!.id, first!.name]);
    waiting = migrator.up(); // does not see the row yet, and waits for the lock
    await turns(5);
  });
  await turns(5);
  await other.execute("update svc_migrations set applied_at = '2024-01-01T00:00:00.000Z'");
  // the migrator has checked again under the lock
  await assert.rejects(waiting!, { code: 'E_MIGRATION_CHANGED' });
});

test('with the directive "no-foreign-keys", a migration can rebuild a referenced table, and foreign keys are checked before the commit', async (t) => {
  const rebuild = (where: string): string =>
    `-- svc: no-foreign-keys\ncreate table new_owners (id integer primary key, name text not null default '');\ninsert into new_owners (id) select id from owners${where};\ndrop table owners;\nalter table new_owners rename to owners;\n`;
  const { directory, db, migrator } = await open(t, {
    '0001_a.up.sql':
      'create table owners (id integer primary key);\ncreate table notes (id integer primary key, owner integer references owners (id) on delete cascade);\ninsert into owners values (1), (2);\ninsert into notes values (10, 1), (20, 2), (30, 2);',
    '0002_b.up.sql': rebuild(' where id = 1'),
  });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message:
      /0002_b\.up\.sql: foreign keys would refer to rows that do not exist \(tables: "notes"; number of rows: 2\)/,
  });
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 pending']);
  assert.equal(await db.scalar('pragma foreign_keys'), 1);
  write(directory, { '0002_b.up.sql': rebuild('') });
  assert.deepEqual(ids(await migrator.up()), ['0002']);
  assert.equal(await db.scalar('select count(*) from notes'), 3);
  assert.equal(await db.scalar('pragma foreign_keys'), 1);
  await assert.rejects(db.execute('insert into notes values (40, 9)'), { code: 'foreign_key' });
});

for (const [what, directives] of [
  ['below a block comment', '/* Copyright of us */\n-- svc: no-foreign-keys'],
  ['without a transaction', '-- svc: no-foreign-keys\n-- svc: no-transaction'],
] as const) {
  test(`a migration with the directive "no-foreign-keys" (${what}) can replace a table, and rows that refer to the table are kept`, async (t) => {
    const { db, migrator } = await open(t, {
      '0001_a.up.sql':
        'create table owners (id integer primary key);\ncreate table notes (id integer primary key, owner integer references owners (id) on delete cascade);\ninsert into owners values (1), (2);\ninsert into notes values (10, 1), (20, 2);',
      '0002_b.up.sql': `${directives}\ncreate table new_owners (id integer primary key, name text);\ninsert into new_owners (id) select id from owners;\ndrop table owners;\nalter table new_owners rename to owners;\n`,
    });
    await migrator.up();
    assert.equal(await db.scalar('select count(*) from notes'), 2);
    assert.equal(await db.scalar('pragma foreign_keys'), 1);
  });
}

test('when the commit of a migration is refused, the error of Migrator.up() names the migration', async (t) => {
  const { migrator } = await open(t, {
    '0001_a.up.sql':
      'create table owners (id integer primary key);\ncreate table notes (owner integer references owners (id) deferrable initially deferred);\ninsert into notes values (9);',
  });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message: /0001_a\.up\.sql: the transaction could not be committed: FOREIGN KEY/,
  });
  assert.deepEqual(await states(migrator), ['0001 pending']);
});

test('Migrator switches the check of foreign keys on again after a migration without a transaction has switched the check off', async (t) => {
  const { db, migrator } = await open(t, {
    '0001_a.up.sql':
      '-- svc: no-transaction\npragma foreign_keys = off;\ncreate table owners (id integer primary key);\ncreate table notes (owner integer references owners (id));',
  });
  await migrator.up();
  await assert.rejects(db.execute('insert into notes values (9)'), { code: 'foreign_key' });
});

test('a migration with "no-foreign-keys" and "no-transaction" is reported as unfinished if it leaves rows that refer to missing rows', async (t) => {
  const { db, migrator } = await open(t, {
    '0001_a.up.sql':
      'create table owners (id integer primary key);\ncreate table notes (id integer primary key, owner integer references owners (id));\ninsert into owners values (1);\ninsert into notes values (10, 1);',
    '0002_b.up.sql': '-- svc: no-foreign-keys\n-- svc: no-transaction\ndelete from owners;',
  });
  await assert.rejects(migrator.up(), {
    code: 'E_MIGRATION_FAILED',
    message:
      /0002_b\.up\.sql: foreign keys would refer to rows that do not exist \(tables: "notes"; number of rows: 1\)/,
  });
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 unfinished']);
  assert.equal(await db.scalar('pragma foreign_keys'), 1);
});

test("when the caller's signal is aborted, Migrator stops before the next migration", async (t) => {
  const abort = new AbortController();
  const { db, directory } = await open(t);
  const migrator = new Migrator(db, { directory }, { onDone: () => abort.abort(new Error('enough')) });
  await assert.rejects(migrator.up({ signal: abort.signal }), /enough/);
  assert.deepEqual(ids(await migrator.pending()), ['0002', '0003']);
  await assert.rejects(migrator.up({ signal: abort.signal }));
});

test('Migrator waits at most "lockSeconds" for the migration lock, and refuses unknown options', async (t) => {
  const { db, directory, path } = await open(t, NOTES, { busyTimeoutMs: 1 });
  for (const options of [{ lockSeconds: 0 }, { lockSeconds: 3_601 }, { lock: 1 }])
    assert.throws(() => new Migrator(db, {}, options as object), /lock/);
  const other = await openDatabase(`sqlite:///${path}`);
  t.after(() => other.close());
  await other.transaction(async (tx) => {
    await tx.execute('create table held (id)');
    await assert.rejects(new Migrator(db, { directory }, { lockSeconds: 1 }).up(), { code: 'timeout' });
  });
  assert.equal((await new Migrator(db, { directory }).up()).length, 3);
});

// ── several processes ──

const CHILD = `
import { Migrator } from './src/db/migrations/migrations.ts';
import { openDatabase } from './src/db/open.ts';
const [path, directory] = process.argv.slice(1);
await using db = await openDatabase('sqlite:///' + path);
const done = await new Migrator(db, { directory }, { onDone: ({ id }) => console.log('applied ' + id) }).up();
console.log('ended');
`;
const childArguments = (path: string, directory: string): string[] => [
  '--input-type=module',
  '-e',
  CHILD,
  path,
  directory,
];

test('when six processes migrate one SQLite file at the same time, each migration is applied once', async (t) => {
  const files: Record<string, string> = { '0001_log.up.sql': 'create table log (id text primary key);' };
  for (let number = 2; number <= 12; number++)
    files[`${String(number).padStart(4, '0')}_step.up.sql`] =
      `${number % 4 === 0 ? '-- svc: no-transaction\n' : ''}insert into log values ('${number}');\ncreate table t${number} (id);`;
  const { path, directory, migrator, db } = await open(t, files);
  const ended = await Promise.all(
    Array.from({ length: 6 }, () => run(process.execPath, childArguments(path, directory), { cwd: ROOT })),
  );
  for (const { status, stderr } of ended) assert.equal(status, 0, stderr);
  const applied = ended.flatMap(({ stdout }) => stdout.match(/applied \d{4}/g) ?? []).sort();
  assert.deepEqual(
    applied,
    Object.keys(files).map((file) => `applied ${file.slice(0, 4)}`),
  );
  assert.deepEqual(await migrator.pending(), []);
  assert.equal(await db.scalar('select count(*) from log'), 11);
});

test('when a migration without a transaction ends, Migrator.up() updates its row in svc_migrations, and does not delete this row', async (t) => {
  const { db, migrator } = await open(t, {
    '0001_a.up.sql': 'create table a (id);',
    '0002_b.up.sql': '-- svc: no-transaction\ncreate table b (id);',
  });
  assert.deepEqual(ids(await migrator.up({ to: '0001' })), ['0001']);
  await db.execute(
    "create trigger gone after delete on svc_migrations begin select raise(abort, 'a row has gone'); end",
  );
  assert.deepEqual(ids(await migrator.up()), ['0002']);
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 applied']);
});

test('when a process is killed during a migration, the database keeps no change of this migration, and the next process applies it', async (t) => {
  const long =
    'insert into b with recursive n (i) as (select 1 union all select i + 1 from n where i < 400000) select i from n;';
  const { path, directory, migrator, db } = await open(t, {
    '0001_a.up.sql': 'create table a (id);',
    '0002_b.up.sql': `create table b (id);\n${long}\n${long}\n${long}`,
    '0003_c.up.sql': 'create table c (id);',
  });
  const child = start(t, process.execPath, childArguments(path, directory), { cwd: ROOT });
  await child.printed(/applied 0001/); // the next migration has begun
  child.child.kill('SIGKILL');
  assert.equal((await child.ended).signal, 'SIGKILL');
  assert.deepEqual(await states(migrator), ['0001 applied', '0002 pending', '0003 pending']);
  assert.deepEqual(await tables(db), ['a', 'svc_migrations']);
  assert.deepEqual(ids(await migrator.up()), ['0002', '0003']);
  assert.equal(await db.scalar('select count(*) from b'), 1_200_000);
});

test('when a process is killed during a migration without a transaction, its lock is released, and the migration is reported as unfinished at once', async (t) => {
  const long =
    'insert into b with recursive n (i) as (select 1 union all select i + 1 from n where i < 3000000) select i from n;';
  const { path, directory, migrator } = await open(t, {
    '0001_a.up.sql': 'create table a (id);',
    '0002_b.up.sql': `-- svc: no-transaction\ncreate table b (id);\n${long}\n${long}`,
  });
  const child = start(t, process.execPath, childArguments(path, directory), { cwd: ROOT });
  await child.printed(/applied 0001/);
  let unfinished = await migrator.unfinished();
  while (unfinished === undefined) {
    await new Promise((resolve) => setImmediate(resolve));
    unfinished = await migrator.unfinished();
  }
  assert.equal(unfinished.isRunning, true);
  await assert.rejects(migrator.repair('pending'), { code: 'E_MIGRATION_UNFINISHED' });
  child.child.kill('SIGKILL');
  await child.ended;
  assert.equal((await migrator.unfinished())!.isRunning, false);
  await assert.rejects(migrator.up(), { code: 'E_MIGRATION_UNFINISHED' });
  assert.equal((await migrator.repair('pending'))!.id, '0002');
});

// ── at start-up ──

test('migrateAtStart() with the policy "check" refuses to start while migrations are pending, and lists them', async (t) => {
  const { db, directory, migrator } = await open(t);
  const lines: string[] = [];
  const log = createLogger({ format: 'json', sink: (line) => void lines.push(line) });
  const begin = (policy: 'check' | 'apply' | 'ignore'): Promise<void> =>
    migrateAtStart(db, { directory }, policy, { name: 'database', log });
  await begin('ignore');
  await migrator.up({ to: '0002' });
  await assert.rejects(begin('check'), {
    code: 'E_MIGRATION_PENDING',
    message: /the database "database" lacks migrations: 0003_index$/,
    remedy: /svc migrate up/,
  });
  await begin('apply');
  assert.deepEqual(
    lines.splice(0).map((line) => (JSON.parse(line) as { event: string; id: string }).event),
    ['migration_applied'],
  );
  await begin('check');
  writeFileSync(join(directory, '0002_add_owner.up.sql'), 'select 1;');
  rmSync(join(directory, '0003_index.up.sql'));
  await begin('check'); // logs both, and starts
  assert.deepEqual(
    lines.map((line) => {
      const { event, level, id } = JSON.parse(line) as Record<string, string>;
      return [level, event, id];
    }),
    [
      ['warn', 'migration_changed', '0002'],
      ['warn', 'migration_unknown', '0003'],
    ],
  );
  await db.execute("update svc_migrations set applied_at = null where id = '0001'");
  await assert.rejects(begin('check'), { code: 'E_MIGRATION_PENDING', message: /0001_create_notes/ });
});

test('isMigratable() is true only for a plugin with openMigrator(), and labelOf() returns a label such as "0001_a" for a migration', () => {
  assert.equal(isMigratable({ name: 'x', openMigrator: () => undefined }), true);
  assert.equal(isMigratable({ name: 'x' }), false);
  assert.deepEqual(
    [labelOf({ id: '0001', name: 'a' }), labelOf({ id: 'p/1', name: '1' })],
    ['0001_a', 'p/1'],
  );
});
