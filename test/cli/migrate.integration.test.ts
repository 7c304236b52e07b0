/**
 * `svc migrate` and `svc check --live`, run as their users run them: bin/svc.js and the built package, in a folder of their own.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { openDatabase } from '../../src/db/index.ts';
import { BIN, ROOT, build } from '../support/build.ts';
import { project, run, start, svc, write } from '../support/run.ts';
import type { Ended, RunOptions } from '../support/run.ts';

before(build);

/**
 * An application with two database plugins, a plugin that contributes migrations, and a startup hook that
 * must not run.
 */
const APP = `
import { Svc } from 'svc';
import { Migrator, openDatabase } from 'svc/db';
const database = (name, directory) => {
  let host;
  return {
    name,
    register: (given) => { host = given; },
    openMigrator: async () => {
      const db = await openDatabase('sqlite:./' + name + '.db');
      return { migrator: new Migrator(db, { directory, contributed: host.migrations }), [Symbol.asyncDispose]: () => db.close() };
    },
  };
};
export const app = new Svc({ config: { pageSize: 1 } });
app.register(database('database', process.env.FOLDER ?? 'migrations'));
if (process.env.SECOND) app.register(database(process.env.SECOND, 'second'));
app.register({ name: 'shop', register: (host) => host.migration('v1', { sqlite: ['create table shop (id)'], postgres: [], mysql: [], mariadb: [] }) });
app.onStartup(() => console.log('HOOK'));
if (process.env.STARTS) await app.run({ port: 0 });
export const none = new Svc();
export const two = new Svc();
two.register(database('one', 'migrations')).register(database('other', 'second'));
export const one = new Svc();
one.register(database('reports', 'migrations'));
`;
const FILES = {
  'app.ts': `// @ts-nocheck\n${APP}`,
  'migrations/0001_notes.up.sql': 'create table notes (id);',
  'migrations/0001_notes.down.sql': 'drop table notes;',
  'migrations/0002_owner.up.sql': 'alter table notes add column owner;',
  'migrations/0002_owner.down.sql': 'alter table notes drop column owner;',
  'second/0001_a.up.sql': 'create table a (id);',
};

test('svc migrate up, down and status apply, undo and list migrations without starting the application', async (t) => {
  const cwd = project(t, FILES);
  const status = await svc(['migrate', 'status', 'app.ts'], { cwd });
  assert.deepEqual(
    [status.status, status.stdout],
    [1, 'pending     shop/v1\npending     0001_notes\npending     0002_owner\n'],
  );
  const first = await svc(['migrate', 'up', 'app.ts:app', '--to', '0001'], { cwd });
  assert.equal(first.status, 0, first.stderr);
  assert.match(first.stdout, /^applied {2}shop\/v1 {2}\d+ ms\napplied {2}0001_notes {2}\d+ ms\n$/);
  assert.match((await svc(['migrate', 'up', 'app'], { cwd })).stdout, /^applied {2}0002_owner {2}\d+ ms\n$/);
  assert.equal((await svc(['migrate', 'up', 'app.ts'], { cwd })).stdout, 'Nothing to apply\n');
  const done = await svc(['migrate', 'status', 'app.ts'], { cwd });
  assert.equal(done.status, 0);
  assert.match(done.stdout, /^applied {5}shop\/v1 {5}\d{4}-[^\n]+Z\napplied {5}0001_notes {2}/);
  assert.match(
    (await svc(['migrate', 'down', 'app.ts', '--steps', '2'], { cwd })).stdout,
    /^undone {3}0002_owner {2}\d+ ms\nundone {3}0001_notes {2}\d+ ms\n$/,
  );
  assert.equal((await svc(['migrate', 'down', 'app.ts'], { cwd })).stdout, 'Nothing to undo\n');
  for (const { stdout, stderr } of [status, first, done]) assert.doesNotMatch(stdout + stderr, /HOOK/);
});

test('in production, svc migrate works even for an application that does not compile', async (t) => {
  const files = {
    ...FILES,
    'app.ts': `${FILES['app.ts']}\napp.get('/a', () => 1);\napp.get('/a', () => 2);\n`,
  };
  const { status, stderr } = await svc(['migrate', 'up', 'app.ts'], {
    cwd: project(t, files),
    env: { SVC_ENV: 'production' },
  });
  assert.equal(status, 0, stderr);
});

test('svc migrate uses the database named by --database, or else the database named "database", or else the only database', async (t) => {
  const cwd = project(t, FILES);
  assert.match(
    (await svc(['migrate', 'up', 'app.ts', '--database', 'other'], { cwd, env: { SECOND: 'other' } })).stdout,
    /0001_a/,
  );
  assert.match(
    (await svc(['migrate', 'up', 'app.ts'], { cwd, env: { SECOND: 'other' } })).stdout,
    /0002_owner/,
  );
  assert.match((await svc(['migrate', 'up', 'app.ts:one'], { cwd })).stdout, /0002_owner/);
  assert.deepEqual(
    readdirSync(cwd).filter((file) => file.endsWith('.db')),
    ['database.db', 'other.db', 'reports.db'],
  );
  for (const [args, message] of [
    [['app.ts:none'], /Cannot migrate: the application has no database/],
    [
      ['app.ts:two'],
      /the application has several databases, and --database names none of them: "one", "other"/,
    ],
    [['app.ts', '--database', 'x'], /the application has no database "x", only "database"/],
  ] as const) {
    const { status, stderr } = await svc(['migrate', 'up', ...args], { cwd });
    assert.equal(status, 1);
    assert.match(stderr, message); // E_MIGRATION_TARGET
    assert.match(stderr, /Register a DatabasePlugin/);
  }
});

test('if a migration fails, svc migrate prints the remedy and the name of the file, and ends with status 1', async (t) => {
  const cwd = project(t, { ...FILES, 'migrations/0003_bad.up.sql': 'create table notes (id);' });
  const { status, stdout, stderr } = await svc(['migrate', 'up', 'app.ts'], { cwd });
  assert.deepEqual([status, stdout], [1, '']);
  assert.match(
    stderr,
    /^svc: Cannot run migrations\/0003_bad\.up\.sql: in line 1, "create table notes \(id\)": table notes already exists; none of its changes remain in the database\n {5}Correct the statement/,
  );
  const absent = await svc(['migrate', 'status', 'app.ts'], { cwd, env: { FOLDER: 'absent' } });
  assert.equal(absent.status, 1);
  assert.match(absent.stderr, /Cannot read the migrations in "absent": the folder does not exist/);
});

test('svc migrate ends with status 3 if the module calls run() at import, and does not start the application', async (t) => {
  const { status, stderr } = await svc(['migrate', 'up', 'app.ts'], {
    cwd: project(t, FILES),
    env: { STARTS: '1' },
  });
  assert.equal(status, 3);
  assert.match(stderr, /Cannot start the application while a command such as svc check inspects it/);
});

test('svc migrate does not start an application that calls run() at import, even if the application has its own bundled copy of svc', async (t) => {
  const copy = (path: string): string => JSON.stringify(pathToFileURL(join(ROOT, 'src', path)).href);
  const program = FILES['app.ts']
    .replace("from 'svc'", `from ${copy('index.ts')}`)
    .replace("from 'svc/db'", `from ${copy('db/index.ts')}`);
  const { status, stderr } = await svc(['migrate', 'up', 'app.ts'], {
    cwd: project(t, { ...FILES, 'app.ts': program }),
    env: { STARTS: '1' },
  });
  assert.equal(status, 3);
  assert.match(stderr, /Cannot start the application while a command such as svc check inspects it/);
});

test('svc migrate seed runs all seed files each time, but refuses if migrations are pending, and in production without --in-production', async (t) => {
  const app = `// @ts-nocheck
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:./data.db'));
app.register(new DatabasePlugin('sqlite:./other.db', { name: 'other' }));
`;
  const cwd = project(t, {
    'app.ts': app,
    'migrations/0001_notes.up.sql': 'create table notes (id);',
    'seeds/1_notes.sql': 'insert into notes values (1);',
  });
  const seed = (env: Record<string, string>, ...args: readonly string[]): Promise<Ended> =>
    svc(['migrate', 'seed', 'app.ts', ...args], { cwd, env });
  const refused = await seed({});
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /in production.*\n.*--in-production/s);
  const early = await seed({ SVC_ENV: 'development' });
  assert.equal(early.status, 1);
  assert.match(
    early.stderr,
    /some migrations are not applied yet, so run "svc migrate up <module>" first: 0001_notes/,
  );
  assert.equal((await svc(['migrate', 'up', 'app.ts'], { cwd })).status, 0);
  for (const [env, args] of [
    [{ SVC_ENV: 'development' }, []],
    [{ SVC_ENV: 'test' }, []],
    [{}, ['--in-production']],
  ] as const) {
    const done = await seed(env, ...args);
    assert.deepEqual(
      [done.status, /^seeded {3}1_notes\.sql {2}\d+ ms\n$/.test(done.stdout)],
      [0, true],
      done.stderr,
    );
  }
  const db = await openDatabase(`sqlite:${join(cwd, 'data.db')}`);
  t.after(() => db.close());
  assert.equal(await db.scalar('select count(*) from notes'), 3);
  const other = await seed({ SVC_ENV: 'development' }, '--database', 'other');
  assert.match(other.stderr, /has no folder of seed files/);
});

test('svc migrate status in another folder than that of the project names the folder of the migrations', async (t) => {
  const cwd = project(t, {
    'shop/app.ts': `import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc({ env: 'development' });
app.register(new DatabasePlugin('sqlite::memory:'));`,
    'shop/migrations/0001_notes.up.sql': 'create table notes (id);',
  });
  const { status, stdout } = await svc(['migrate', 'status', 'shop/app.ts'], { cwd });
  assert.equal(status, 0);
  assert.equal(
    stdout,
    `There are no migrations. Without migrationDirectory, their folder is ${join(realpathSync(cwd), 'migrations')}\n`,
  );
});

test('svc migrate status lists the migrations of a replica as applied, and svc check --live reports them for the primary only', async (t) => {
  const cwd = project(t, {
    'app.ts': `import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc({ env: 'development' });
app.register(new DatabasePlugin('sqlite:./data.db'));
app.register(new DatabasePlugin('sqlite:./data.db', { name: 'replica', readOnly: true }));`,
    'migrations/0001_notes.up.sql': 'create table notes (id);',
  });
  assert.equal((await svc(['migrate', 'up', 'app.ts'], { cwd })).status, 0);
  const own = await svc(['migrate', 'status', 'app.ts'], { cwd });
  const replica = await svc(['migrate', 'status', 'app.ts', '--database', 'replica'], { cwd });
  assert.deepEqual(
    [replica.status, replica.stdout, replica.stderr],
    [
      0,
      `The application has no migrations for the database "replica". It has those of another plugin or application:\n${own.stdout}`,
      '',
    ],
  );
  assert.match(own.stdout, /^applied {5}0001_notes {2}\S+\n$/);
  const database = await openDatabase(`sqlite:${join(cwd, 'data.db')}`);
  await database.execute('update svc_migrations set applied_at = null');
  await database.close();
  const { stdout } = await svc(['check', 'app.ts', '--live', '--only', 'SVC402', '--format', 'json'], {
    cwd,
  });
  const { findings } = JSON.parse(stdout) as { findings: { subject: string }[] };
  assert.deepEqual(
    findings.map(({ subject }) => subject),
    ['database database'], // the database that the command in the remedy migrates
  );
});

for (const scheme of ['postgres', 'mysql']) {
  test(`if a ${scheme} server cannot be reached, svc migrate and svc check --live print the connection error once`, async (t) => {
    const cwd = project(t, {
      'app.ts': `import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('${scheme}://a:b@127.0.0.1:1/x', { pool: { acquireTimeoutMs: 1_000 } }));`,
    });
    for (const verb of ['up', 'down', 'status', 'repair']) {
      const { status, stdout, stderr } = await svc(['migrate', verb, 'app.ts'], { cwd });
      assert.deepEqual([status, stdout], [1, '']);
      assert.match(
        stderr,
        /^svc: Cannot open the database "[^"]+": 127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\)\n {5}Correct the address.*\n$/,
      );
    }
    const { stdout, stderr } = await svc(['check', 'app.ts', '--live', '--format', 'json'], { cwd });
    assert.equal(`${stdout}${stderr}`.split('cannot be reached').length - 1, 1, `${stdout}${stderr}`);
  });
}

test('svc migrate new creates numbered .up.sql and .down.sql files for a migration, without loading the application', async (t) => {
  const cwd = project(t, {});
  const first = await svc(['migrate', 'new', 'Create users'], { cwd });
  assert.deepEqual(
    [first.status, first.stdout],
    [0, 'migrations/0001_create_users.up.sql\nmigrations/0001_create_users.down.sql\n'],
  );
  assert.match(readFileSync(join(cwd, 'migrations/0001_create_users.up.sql'), 'utf8'), /^-- /);
  assert.match(
    (await svc(['migrate', 'new', 'add-age'], { cwd })).stdout,
    /^migrations\/0002_add_age\.up\.sql\n/,
  );
  assert.match(
    (await svc(['migrate', 'new', ' Drop  the_AGE '], { cwd })).stdout,
    /^migrations\/0003_drop_the_age\.up\.sql\n/,
  );
  assert.match(
    (await svc(['migrate', 'new', 'x', '--directory', 'db/changes'], { cwd })).stdout,
    /^db\/changes\/0001_x\.up\.sql\n/,
  );
  assert.equal(existsSync(join(cwd, 'db/changes/0001_x.down.sql')), true);
  const again = await svc(['migrate', 'new', 'create users'], { cwd });
  assert.equal(again.status, 2);
  assert.match(
    again.stderr,
    /migrate new needs an unused name: migrations\/0001_create_users\.up\.sql already exists/,
  );
  assert.equal(existsSync(join(cwd, 'migrations/0004_create_users.up.sql')), false);
  write(cwd, { file: '' });
  const refused = await svc(['migrate', 'new', 'x', '--directory', 'file/inside'], { cwd });
  assert.equal(refused.status, 1);
  assert.match(refused.stderr, /file\/inside": the folder cannot be read \(ENOTDIR\)/);
  const unwritable = await svc(['migrate', 'new', 'x'.repeat(300)], { cwd });
  assert.equal(unwritable.status, 1);
  assert.match(
    unwritable.stderr,
    /migrations": the files of the new migration cannot be written \(ENAMETOOLONG\)/,
  );
});

for (const [args, message] of [
  [['migrate'], /migrate needs a subcommand: up, down, status, repair, seed, types, new/],
  [['migrate', 'upp', 'app.ts'], /unknown subcommand "upp" of svc migrate: did you mean "up"\?/],
  [['migrate', 'sideways'], /unknown subcommand "sideways" of svc migrate: the subcommands are up/],
  [['migrate', 'up'], /migrate needs a module/],
  [['migrate', 'up', 'a.ts', 'b.ts'], /migrate takes one module, but found a second argument "b\.ts"/],
  [['migrate', 'new'], /migrate new needs a name/],
  [['migrate', 'new', 'a', 'b'], /migrate new takes one name, but found a second argument "b"/],
  [['migrate', 'new', '-_-'], /option|letters/],
  [['migrate', 'new', '___'], /migrate new needs a name of letters a-z, .*, found "___"$/m],
  [['migrate', 'new', ''], /migrate new needs a name of letters a-z, .*, found ""$/m],
  [
    ['migrate', 'new', '../x'],
    /migrate new needs a name of .*, found "\.\.\/x"\. Choose the folder with --directory$/m,
  ],
  [['migrate', 'new', 'a\\b'], /found "a\\b"\. Choose the folder with --directory$/m],
  [['migrate', 'new', '0002_x.up.sql'], /migrate new needs a name of .*, found "0002_x\.up\.sql"$/m],
  [['migrate', 'new', 'größe'], /migrate new needs a name of .*, found "größe"$/m],
  [['migrate', 'down', 'a.ts', '--steps', '0'], /--steps needs a number from 1 to 9999, found "0"/],
] as const) {
  test(`"svc ${args.join(' ')}" ends with status 2, because its arguments are invalid`, async () => {
    const { status, stderr } = await svc(args);
    assert.equal(status, 2);
    assert.match(stderr, message);
  });
}

test('svc migrate repair lists an unfinished migration, or records the outcome of the migration if --as is given', async (t) => {
  const cwd = project(t, {
    ...FILES,
    'migrations/0002_owner.up.sql':
      '-- svc: no-transaction\nalter table notes add column owner;\ninsert into\n  missing values (1);',
  });
  const repair = (...args: readonly string[]): Promise<Ended> =>
    svc(['migrate', 'repair', 'app.ts', ...args], { cwd });
  const none = await repair();
  assert.deepEqual([none.status, none.stdout], [0, 'No migration is unfinished\n']);
  assert.equal((await svc(['migrate', 'up', 'app.ts'], { cwd })).status, 1);
  const shown = await repair();
  assert.equal(shown.status, 1);
  assert.match(
    shown.stdout,
    /^unfinished migration: 0002_owner\n {2}line 2: alter table notes add column owner\n {2}line 3: insert into missing values \(1\)\nFind out which .*--as pending.*--as applied\.\n$/,
  );
  const wrong = await repair('--as', 'done');
  assert.deepEqual([wrong.status, /--as must be "applied" or "pending"/.test(wrong.stderr)], [2, true]);
  const done = await repair('--as', 'applied');
  assert.deepEqual([done.status, done.stdout], [0, 'applied     0002_owner\n']);
  assert.equal((await svc(['migrate', 'status', 'app.ts'], { cwd })).status, 0);
});

test('svc check --live reports pending, changed and unfinished migrations, and a database that it cannot open (SVC402)', async (t) => {
  const cwd = project(t, FILES);
  const live = async (env: RunOptions['env'] = {}): Promise<string[]> => {
    const { status, stdout, stderr } = await svc(
      ['check', 'app.ts', '--live', '--format', 'json', '--skip', 'SVC404,SVC503'],
      { cwd, env },
    );
    const { findings } = JSON.parse(stdout) as {
      findings: { rule: string; subject: string; message: string }[];
    };
    assert.equal(status, findings.length === 0 ? 0 : 1, stderr);
    return findings.map(({ rule, subject, message }) => `${rule} ${subject}: ${message}`);
  };
  assert.deepEqual(
    await live(),
    ['0001_notes', '0002_owner', 'shop/v1']
      .map((name) => `SVC402 database database: ${name} has not been applied`)
      .sort((left, right) => order(left) - order(right)),
  );
  assert.equal((await svc(['check', 'app.ts', '--skip', 'SVC404'], { cwd })).status, 0); // without --live, no database is queried
  await svc(['migrate', 'up', 'app.ts'], { cwd });
  assert.deepEqual(await live(), []);
  write(cwd, { 'migrations/0002_owner.up.sql': 'select 1;' });
  assert.deepEqual(await live(), ['SVC402 database database: 0002_owner has changed since it was applied']);
  assert.match(
    (await live({ FOLDER: 'absent' }))[0]!,
    /^SVC402 database database: the migrations cannot be read: .*the folder does not exist/,
  );
  assert.match(
    (await live({ SECOND: 'no/such' })).join(),
    /SVC402 database no\/such: the database cannot be opened: .*E_DB_OPEN|Cannot open/,
  );
  write(cwd, { 'migrations/0002_owner.up.sql': FILES['migrations/0002_owner.up.sql'] });
  assert.deepEqual(await live(), []);
});

/** Findings of one rule and subject keep the order in which they were found. */
function order(finding: string): number {
  return ['shop/v1', '0001_notes', '0002_owner'].findIndex((name) => finding.includes(name));
}

const NOTES = {
  'app.ts':
    "import { Depends, Svc } from 'svc';\nimport { DatabasePlugin, db } from 'svc/db';\nexport const app = new Svc();\napp.register(new DatabasePlugin('sqlite:./data.db'));\n" +
    "app.register({ name: 'shop', register: (host) => host.migration('v1', { sqlite: ['create table shop (id)'], postgres: [], mysql: [], mariadb: [] }) });\n" +
    "app.get('/notes', { db: Depends(db) }, ({ db }) => db.fetchAll('select id from notes'));\n",
  'migrations/0001_notes.up.sql': 'create table notes (id);\ninsert into notes values (7);',
  'migrations/0001_notes.down.sql': 'drop table notes;',
};

test('in production, an application with DatabasePlugin starts only after svc migrate up has applied all migrations', async (t) => {
  const cwd = project(t, NOTES);
  const options = { cwd, env: { SVC_ENV: 'production', SVC_PORT: '0' } };
  const refused = await svc(['run', 'app.ts'], options);
  assert.equal(refused.status, 1);
  assert.match(
    refused.stderr,
    /Cannot start: the database "database" lacks migrations: shop\/v1, 0001_notes\n {5}Apply the migrations before/,
  ); // E_MIGRATION_PENDING
  const pending = await svc(['check', 'app.ts', '--live', '--skip', 'SVC404'], options);
  assert.equal(pending.status, 1);
  assert.match(
    pending.stdout,
    /SVC402 {2}database database {2}app\.ts:\d+:5\n {6}shop\/v1 has not been applied/,
  );
  assert.equal((await svc(['migrate', 'up', 'app.ts'], options)).status, 0);
  assert.equal((await svc(['check', 'app.ts', '--live', '--skip', 'SVC404'], options)).status, 0);
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts'], options);
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  assert.deepEqual(await (await fetch(`${url!}/notes`)).json(), [{ id: 7 }]);
});

test('the remedies for pending migrations of a named database name --database, and svc migrate up and status mention it', async (t) => {
  const cwd = project(t, {
    'app.ts':
      "import { Svc } from 'svc';\nimport { DatabasePlugin } from 'svc/db';\n" +
      "export const app = new Svc();\napp.register(new DatabasePlugin('sqlite:./notes.db'));\n" +
      "app.register(new DatabasePlugin('sqlite:./stats.db', { name: 'stats', migrationDirectory: 'stats' }));\n" +
      "app.register(new DatabasePlugin('sqlite:./notes.db', { name: 'replica', readOnly: true }));\n",
    'migrations/0001_notes.up.sql': 'create table notes (id);',
    'stats/0001_visits.up.sql': 'create table visits (id);',
  });
  const options = { cwd, env: { SVC_ENV: 'production', SVC_PORT: '0' } };
  const command = 'svc migrate up <module> --database stats';
  const up = await svc(['migrate', 'up', 'app.ts'], options);
  assert.deepEqual([up.status, up.stderr], [0, `The database "stats" has migrations, too: ${command}\n`]);
  const refused = await svc(['run', 'app.ts'], options);
  assert.match(
    refused.stderr,
    new RegExp(`the database "stats" lacks migrations: 0001_visits\\n.*${command}`),
  );
  const live = await svc(['check', 'app.ts', '--live', '--skip', 'SVC404'], options);
  assert.match(live.stdout, new RegExp(`0001_visits has not been applied\\n[^]*fix: .*${command}`));
  const status = await svc(['migrate', 'status', 'app.ts'], options);
  assert.match(status.stderr, /"stats" has migrations, too: svc migrate status <module> --database stats\n$/);
  const named = await svc(['migrate', 'up', 'app.ts', '--database', 'stats'], options);
  assert.deepEqual([named.status, named.stderr], [0, '']);
  assert.match(named.stdout, /applied {2}0001_visits/);
});

test('outside production, an application with DatabasePlugin applies its migrations at start, and logs each migration', async (t) => {
  const server = start(t, process.execPath, [BIN, 'run', 'app.ts'], {
    cwd: project(t, NOTES),
    env: { SVC_ENV: 'development', SVC_PORT: '0' },
  });
  const [, url] = await server.printed(/"event":"listening","url":"([^"]+)"/);
  assert.equal(
    server.count(/"event":"migration_applied","database":"database","id":"(?:shop\/v1|0001)"/g),
    2,
  );
  assert.deepEqual(await (await fetch(`${url!}/notes`)).json(), [{ id: 7 }]);
});

const TYPED_APP = `
import { Svc, Depends, list } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
import { Note } from './rows.ts';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:./data.db', { snakeCase: true }));
app.get('/notes', { db: Depends(db), response: list(Note) }, ({ db }) => db.fetchAll('select * from note', [], { as: Note }));
`;
const TYPED = {
  'src/app.ts': TYPED_APP,
  'src/rows.ts': '',
  'src/first.ts': TYPED_APP.replace(/^import .*rows.*$/m, 'const Note = any;')
    .replace('list }', 'list, any }')
    .replace(', [], { as: Note }', ''),
  'src/strict.ts': `
import { Note } from './rows.ts';
export const note: Note = Note.parse({ id: 1, createdAt: '2026-01-01T00:00:00Z', state: 'new', body: null });
export const parts: [number, Date, 'new' | 'done', string | null] = [note.id, note.createdAt, note.state, note.body];
// @ts-expect-error the column may be NULL
export const length: number = note.body.length;
// @ts-expect-error there is no such column
export const title: string = note.title;
export class Draft extends Note.pick('body').partial() {}
export const body: string | null | undefined = new Draft({}).body;
`,
  'migrations/0001_note.up.sql':
    "create table note (id integer primary key, created_at datetime not null, state text not null check (state in ('new', 'done')), body text);",
};

test('svc migrate types writes row classes that compile, and svc check reports them after a new migration (SVC406)', async (t) => {
  const cwd = project(t, TYPED);
  const types = (...args: string[]): Promise<Ended> => svc(['migrate', 'types', ...args], { cwd });
  const first = await types('src/first.ts', '--output', 'src/rows.ts');
  assert.deepEqual([first.status, first.stdout], [0, 'src/rows.ts has 1 class\n'], first.stderr);
  assert.equal(existsSync(join(cwd, 'data.db')), false);
  const text = readFileSync(join(cwd, 'src/rows.ts'), 'utf8');
  assert.match(text, /^ {2}createdAt = Field\(datetime\);\n {2}state = Field\(literal\('new', 'done'\)\);$/m);
  assert.equal((await types('src/app.ts')).stdout, text);
  assert.equal((await types('src/app.ts', '--output', 'src/rows.ts')).stdout, 'src/rows.ts is up to date\n');
  const flags =
    '--ignoreConfig --noEmit --strict --exactOptionalPropertyTypes --noUnusedLocals --target es2023 --module nodenext --types node --allowImportingTsExtensions --skipLibCheck';
  const compiled = await run(
    process.execPath,
    [
      join(ROOT, 'node_modules/typescript/bin/tsc'),
      ...flags.split(' '),
      '--typeRoots',
      join(ROOT, 'node_modules/@types'),
      'src/strict.ts',
    ],
    { cwd },
  );
  assert.equal(compiled.status, 0, compiled.stdout);
  const check = async (): Promise<string> =>
    (await svc(['check', 'src/app.ts', '--only', 'SVC406', '--fail-level', 'warning'], { cwd })).stdout;
  assert.doesNotMatch(await check(), /SVC406/);
  write(cwd, { 'migrations/0002_more.up.sql': 'alter table note rename column body to text;' });
  assert.match(
    await check(),
    /SVC406 {2}module rows\.ts {2}src\/rows\.ts:1:1\n +the row classes were written for other migrations of the database "database"/,
  );
  assert.equal((await types('src/app.ts', '--output', 'src/rows.ts')).status, 0);
  assert.match(readFileSync(join(cwd, 'src/rows.ts'), 'utf8'), /^ {2}text = Field\(nullable\(str\)\);$/m);
  assert.doesNotMatch(await check(), /SVC406/);
});

test('svc migrate types writes no classes for tables of plugins', async (t) => {
  const cwd = project(t, {
    ...TYPED,
    'src/app.ts': `
import { Svc } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
export const app = new Svc();
app.register(new DatabasePlugin('sqlite:./data.db'));
app.register(new OAuthPlugin({ storeProviderTokens: true }));
`,
  });
  const { status, stdout, stderr } = await svc(['migrate', 'types', 'src/app.ts'], { cwd });
  assert.equal(status, 0, stderr);
  assert.deepEqual(stdout.match(/export class \w+/g), ['export class Note']);
});

test('svc migrate types refuses files of others, plugins of others and databases without tables', async (t) => {
  const cwd = project(t, { ...FILES, ...TYPED, 'src/rows.ts': 'export const Note = 1;', 'empty/a.ts': '' });
  const refused = async (...args: string[]): Promise<string> => {
    const { status, stderr } = await svc(['migrate', 'types', ...args], { cwd });
    assert.notEqual(status, 0);
    return stderr;
  };
  assert.match(
    await refused('src/first.ts', '--output', 'src/rows.ts'),
    /the file "src\/rows\.ts" of --output was not written by this command: name another file/,
  );
  assert.equal(readFileSync(join(cwd, 'src/rows.ts'), 'utf8'), 'export const Note = 1;');
  assert.match(await refused('app.ts'), /Cannot migrate: the plugin "database" cannot describe its tables/);
  rmSync(join(cwd, 'migrations'), { recursive: true });
  assert.match(await refused('src/first.ts'), /Cannot migrate: the migrations of "database" make no table/);
  assert.match(
    await refused('src/first.ts', '--database', 'postgres://127.0.0.1:1/none'),
    /E_DB_|cannot|Cannot/,
  );
});
