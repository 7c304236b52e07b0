/**
 * `svc check` on the SQL statements of a project with SQLite: a renamed column is found at the word in the statement,
 * and the files of --statements and --baseline are written and read.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import { BIN, build } from '../support/build.ts';
import { manual } from '../support/manuals.ts';
import { project, run, write } from '../support/run.ts';
import type { TestContext } from 'node:test';

before(build);

const APP = `import { Depends, Field, Schema, Svc, int, list, str } from 'svc';
import { DatabasePlugin, db, sql } from 'svc/db';

class Note extends Schema {
  id = Field(int);
  title = Field(str);
}
export const app = new Svc({ title: 'Notes' });
app.register(new DatabasePlugin('sqlite:./data.db'));
app.get('/notes', { db: Depends(db), response: list(Note), public: 'notes are public' }, ({ db }) =>
  db.fetchAll(sql\`select id, title
    from note\`, { as: Note }));
app.get('/tables', { db: Depends(db), response: list(str), public: 'names are public' }, async ({ db }) => {
  const rows = await db.fetchAll(\`select * from \${await tableOf()}\`);
  return rows.map(({ title }) => String(title));
});
async function tableOf() {
  return String(Date.now());
}
`;
const FIRST = 'create table note (id integer primary key, title text not null);';
const RENAME = 'alter table note rename column title to heading;';

/** Runs the command, and returns its status and the lines of its report. */
async function check(
  cwd: string,
  ...args: readonly string[]
): Promise<{ status: number | null; lines: string[] }> {
  const { status, stdout, stderr } = await run(
    process.execPath,
    [BIN, 'check', 'app.ts', '--only', 'SVC4*', '--skip', 'SVC404', ...args],
    {
      cwd,
      env: { SVC_AUTH_SECRET: 'a'.repeat(40) },
    },
  );
  assert.equal(stderr, '');
  return { status, lines: stdout.split('\n') };
}

function projectOf(t: TestContext): string {
  return project(t, { 'app.ts': APP, 'migrations/0001_notes.up.sql': FIRST });
}

test('svc check finds a column that a migration renamed, at its word in the statement, and creates no database', async (t) => {
  const cwd = projectOf(t);
  assert.equal((await check(cwd)).status, 0);
  write(cwd, { 'migrations/0002_heading.up.sql': RENAME });
  const { status, lines } = await check(cwd);
  assert.equal(status, 1);
  const found = lines.find((line) => line.includes('SVC411'));
  assert.match(found ?? '', /SVC411 {2}GET \/notes {2}app\.ts:11:30$/);
  for (const text of ['src/db/README.md', 'src/check/README.md'].map(manual)) {
    const shown = /^ *SVC411 {2}GET [^]*?(?=\n *```)/m.exec(text)![0].replace('src/notes.ts', 'app.ts');
    assert.ok(
      lines
        .map((line) => line.trim())
        .join('\n')
        .includes(shown.replace(/^ +/gm, '')),
      shown,
    );
  }
  assert.equal(existsSync(join(cwd, 'data.db')), false);
  writeFileSync(join(cwd, 'app.ts'), APP.replace('select id, title', 'select id, heading as title'));
  assert.equal((await check(cwd)).status, 0);
});

test('svc check --live judges statements on the tables of the opened database, also on tables that no migration makes', async (t) => {
  const cwd = project(t, {
    'app.ts': APP.replace("'sqlite:./data.db'", "'sqlite:./data.db', { migrations: 'ignore' }"),
  });
  const database = new DatabaseSync(join(cwd, 'data.db'));
  database.exec(`${FIRST} insert into note (title) values ('first')`);
  assert.deepEqual((await check(cwd)).status, 0); // nothing is known of the table
  assert.equal((await check(cwd, '--live')).status, 0);
  database.exec(RENAME);
  const { status, lines } = await check(cwd, '--live');
  assert.equal(status, 1);
  const at = lines.findIndex((line) => line.startsWith('  SVC411'));
  assert.match(lines[at]!, /^ {2}SVC411 {2}GET \/notes {2}app\.ts:11:\d+$/);
  assert.match(lines[at + 1]!, /no such column: title/);
  assert.deepEqual(database.prepare('select count(*) as count from note').get()?.['count'], 1);
  database.close();
});

test('svc check --live judges statements on the tables of another application, whose migrations it does not have', async (t) => {
  const cwd = projectOf(t);
  const migrated = await run(process.execPath, [BIN, 'migrate', 'up', 'app.ts'], {
    cwd,
    env: { SVC_AUTH_SECRET: 'a'.repeat(40) },
  });
  assert.equal(migrated.status, 0, migrated.stderr);
  rmSync(join(cwd, 'migrations'), { recursive: true });
  write(cwd, { 'app.ts': APP.replace("'sqlite:./data.db'", "'sqlite:./data.db', { migrations: 'ignore' }") });
  const { status, lines } = await check(cwd, '--live');
  assert.equal(status, 0, lines.join('\n'));
  const database = new DatabaseSync(join(cwd, 'data.db'));
  database.exec(RENAME);
  database.close();
  const renamed = await check(cwd, '--live');
  assert.ok(renamed.lines.some((line) => line.startsWith('  SVC411')));
});

test('svc check --live judges statements by the migrations if there is no file of SQLite, or it is no database', async (t) => {
  const cwd = projectOf(t);
  write(cwd, { 'app.ts': APP.replace("'sqlite:./data.db'", "'sqlite:./data.db', { migrations: 'ignore' }") });
  assert.equal((await check(cwd, '--live')).lines.filter((line) => /^ {2}SVC411/.test(line)).length, 0);
  assert.equal(existsSync(join(cwd, 'data.db')), false);
  write(cwd, { 'migrations/0002_rename.up.sql': RENAME });
  for (const text of [undefined, 'no database '.repeat(100)]) {
    if (text !== undefined) write(cwd, { 'data.db': text });
    const { lines } = await check(cwd, '--live');
    assert.ok(
      lines.some((line) => line.startsWith('  SVC411')),
      lines.join('\n'),
    );
  }
});

test('svc check --live judges statements by the migrations while the database lacks some of them', async (t) => {
  const cwd = projectOf(t);
  const { status, lines } = await check(cwd, '--live');
  assert.equal(status, 1);
  assert.deepEqual(
    lines.filter((line) => /^ {2}SVC/.test(line)).map((line) => line.slice(2, 8)),
    ['SVC402'],
  );
  assert.equal(existsSync(join(cwd, 'data.db')), false);
  write(cwd, { 'migrations/0002_rename.up.sql': RENAME });
  const renamed = await check(cwd, '--live');
  assert.ok(renamed.lines.some((line) => line.startsWith('  SVC411')));
});

test('a comment above the statement allows a finding inside of it', async (t) => {
  const cwd = projectOf(t);
  write(cwd, {
    'migrations/0002_heading.up.sql': RENAME,
    'app.ts': APP.replace(
      '  db.fetchAll(sql',
      '  // svc-allow SVC411: the view of the next release has the column\n  db.fetchAll(sql',
    ),
  });
  assert.equal((await check(cwd)).status, 0);
});

test('svc check counts the statements that are not known, and lists them with --verbose', async (t) => {
  const cwd = projectOf(t);
  const { lines } = await check(cwd);
  assert.match(lines.join('\n'), /1 statement \(not judged: 1\)/);
  assert.doesNotMatch(lines.join('\n'), /is not known/);
  const { lines: verbose } = await check(cwd, '--verbose');
  assert.ok(verbose.includes('  the statement at app.ts:14:34 is not known'), verbose.join('\n'));
});

test('svc check of an application for a server says how to judge its statements, without a finding', async (t) => {
  const cwd = projectOf(t);
  write(cwd, { 'app.ts': APP.replace('sqlite:./data.db', 'postgres://user@localhost/notes') });
  const { status, lines } = await check(cwd, '--fail-level', 'info');
  assert.equal(status, 0, lines.join('\n'));
  assert.match(lines.join('\n'), /0 statements \(not judged: 2\)/);
  assert.match(
    lines.join('\n'),
    /^note: 1 SQL statement not judged: name a server by --scratch-database or --database, or a file .* --statements$/m,
  );
});

test('svc check --statements writes a file that --baseline of the next release compares with its migrations', async (t) => {
  const cwd = projectOf(t);
  assert.equal((await check(cwd, '--statements', 'statements.lock')).status, 0);
  const text = readFileSync(join(cwd, 'statements.lock'), 'utf8');
  assert.match(text, /^statement \["database","select id, title\\n {4}from note",/m);
  assert.equal((await check(cwd, '--statements', 'statements.lock')).status, 0);
  assert.equal(readFileSync(join(cwd, 'statements.lock'), 'utf8'), text);
  write(cwd, {
    'previous.lock': text,
    'migrations/0002_heading.up.sql': `-- a comment\n${RENAME}`,
    'app.ts': APP.replace('select id, title', 'select id, heading as title'),
  });
  const { status, lines } = await check(cwd, '--baseline', 'previous.lock');
  assert.equal(status, 1);
  assert.match(
    lines.find((line) => line.includes('SVC422')) ?? '',
    /SVC422 {2}database database {2}migrations\/0002_heading\.up\.sql:2:1$/,
  );
});

test('svc check refuses statements for a server without --database and without lines of --statements', async (t) => {
  const cwd = project(t, {
    'app.ts': APP.replace('sqlite:./data.db', 'postgres://app@localhost/shop'),
    'migrations/0001_notes.up.sql': FIRST,
  });
  const { status, lines } = await check(cwd, '--statements', 'statements.lock');
  assert.equal(status, 1);
  assert.match(
    lines.join('\n'),
    /SVC421 {2}database database {2}statements\.lock:1:1\n.*1 statement cannot be checked/,
  );
  assert.equal(existsSync(join(cwd, 'statements.lock')), false);
  assert.equal((await check(cwd)).status, 0, 'without --statements, no file is asked for');
});

test('svc check refuses a file of --statements or --baseline with another content (status 2)', async (t) => {
  const cwd = projectOf(t);
  write(cwd, { 'other.lock': 'lock', 'other.json': '{"a":1}' });
  for (const [args, problem] of [
    [
      ['--statements', 'other.lock'],
      /--statements "other\.lock": svc check --statements has not written the file/,
    ],
    [['--baseline', 'other.json'], /--baseline "other\.json": the file is not an OpenAPI document/],
    [['--baseline', 'absent.lock'], /--baseline "absent\.lock": the file cannot be read: ENOENT/],
  ] as const) {
    const { status, stderr } = await run(process.execPath, [BIN, 'check', 'app.ts', ...args], { cwd });
    assert.equal(status, 2);
    assert.match(stderr, problem);
  }
});

test('svc check reads from a migration for a server to whom rows belong, without a server', async (t) => {
  const cwd = project(t, {
    'app.ts': `import { BearerAuth, Depends, Svc } from 'svc';
import { DatabasePlugin, db } from 'svc/db';
export const app = new Svc();
app.register(new DatabasePlugin('postgres://app@localhost/shop'));
const known = { me: Depends(BearerAuth()), db: Depends(db) };
app.get('/me', known, ({ me, db }) => db.fetchOne('select name from keeper where id = ?', [me.sub]));
app.get('/pets/{id:int}', known, ({ db, params }) => db.fetchOne('select name from pet where id = ?', [params.id]));
`,
    'migrations/0001_pets.up.sql': `create table keeper (id uuid primary key, name text);
create table pet (id int primary key, keeper_id uuid references keeper, name text);`,
  });
  const { stdout } = await run(process.execPath, [BIN, 'check', 'app.ts', '--only', 'SVC640'], { cwd });
  assert.match(stdout, /SVC640 {2}GET \/pets\/\{id:int\} {2}app\.ts:7:/);
  assert.match(stdout, /"keeper_id" refers to the table "keeper"/);
});

test('svc check says why a module cannot be imported, whatever rules are selected', async (t) => {
  const cwd = project(t, { 'app.ts': "throw new Error('no key');" });
  const { status, stdout } = await run(process.execPath, [BIN, 'check', 'app.ts', '--only', 'SVC411'], {
    cwd,
  });
  assert.equal(status, 3);
  assert.match(stdout, /SVC001[^]*no key/);
});
