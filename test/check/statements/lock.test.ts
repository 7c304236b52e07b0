/** The file of `svc check --statements`: its form, its stale lines, and the statements of a previous release. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { judgeStatements } from '../../../src/check/statements/databases.ts';
import { isLock, readLock, writeLock } from '../../../src/check/statements/lock.ts';
import { describerOf, linesOf, sourcesOf } from '../../support/statements.ts';
import type { TestContext } from 'node:test';
import type { SourceReport } from '../../../src/check/examine.ts';
import type { StatementFiles } from '../../../src/check/statements/databases.ts';
import type { Describer } from '../../../src/db/describe/describer.ts';
import type { MigrationStamp } from '../../../src/db/migrations/source.ts';

const APP = `import { Depends, Field, Schema, Svc, int, str } from 'svc'; import { db, sql } from 'svc/db'; const app = new Svc();
class Note extends Schema { id = Field(int); title = Field(str); }
app.get('/', { db: Depends(db) }, async ({ db }) => {
  await db.fetchAll('select id, title from note', [], { as: Note });
  await db.fetchAll(sql\`select id, coalesce(text, '"') as text
    from note where id = \${1}\`);
  await db.execute('insert into note (title, state) values (?, ?)', ['a', 'open']);
});
`;
const TABLE = `create table note (id integer primary key, title varchar(80) not null, text text, state text check (state in ('open', 'done')), code integer default 7);
create unique index titles on note (title);`;

/** A migration for messages; its text is `sql`. */
function migration(id: string, name: string, sql: string): MigrationStamp {
  const statements = [{ text: sql, words: [], line: 1 }] as unknown as MigrationStamp['up']['statements'];
  const up = { origin: `${id}_${name}.up.sql`, statements, hasTransaction: true, hasForeignKeys: true };
  return {
    id,
    name,
    checksum: Buffer.from(sql).toString('hex').padEnd(64, '0').slice(-64),
    isContributed: false,
    up,
  };
}

const FIRST = migration('0001', 'notes', TABLE);

/** Judges a program with the migrations of a plugin. Without `open`, there is no database. */
async function run(
  sources: SourceReport,
  migrations: readonly MigrationStamp[],
  { open, ...files }: StatementFiles & { readonly open?: Describer },
): Promise<Awaited<ReturnType<typeof judgeStatements>>> {
  const hash = migrations.length === 1 ? '0123456789abcdef' : 'fedcba9876543210';
  const plugin = {
    name: 'database',
    register: () => undefined,
    openMigrator: () => Promise.reject(new Error('no')),
    migrationsFor: () => migrations,
    migrationHash: () => hash,
  };
  const describers = new Map(open === undefined ? [] : [['database', open]]);
  return judgeStatements({ plugins: [plugin] }, sources, CORE_RULES, describers, files);
}

const empty = { file: '/statements.lock', text: '' };

async function lockOf(t: TestContext): Promise<{ readonly file: string; readonly text: string }> {
  const { lock, findings } = await run(sourcesOf(t, { 'app.ts': APP }), [FIRST], {
    open: await describerOf(t, TABLE),
    lock: empty,
  });
  assert.deepEqual(findings, []);
  return { file: empty.file, text: lock! };
}

test('the file of --statements has one line for each statement, and the same statements give the same text', async (t) => {
  const { text } = await lockOf(t);
  assert.ok(isLock(text));
  assert.equal((await lockOf(t)).text, text);
  const lines = text.split('\n').filter((line) => line.startsWith('statement '));
  assert.equal(lines.length, 3);
  assert.deepEqual(lines, lines.toSorted());
  assert.match(lines[1]!, /"0123456789abcdef",\[\[\]\],\[\["id","INTEGER",false,"note","id","int"\]/);
  assert.equal(writeLock(readLock(text)), text);
});

test('without a database, statements are judged by the file of --statements', async (t) => {
  const lock = await lockOf(t);
  const same = await run(sourcesOf(t, { 'app.ts': APP }), [FIRST], { lock });
  assert.deepEqual(same.findings, []);
  assert.equal(same.lock, lock.text);
  assert.equal(same.scope.described, 3);
  const changed = APP.replace('title = Field(str)', 'titel = Field(str)')
    .replace("['a', 'open']", "['a', 'opne']")
    .replace('where id =', 'where code =');
  const { findings } = await run(sourcesOf(t, { 'app.ts': changed }), [FIRST], { lock });
  assert.deepEqual(linesOf(findings), ['SVC412 app.ts:4', 'SVC415 app.ts:7', 'SVC421 app.ts:5']);
});

test('without a database, a file that is missing, empty or of another database is a finding, and is not written', async (t) => {
  const sources = sourcesOf(t, { 'app.ts': APP });
  const other = (await lockOf(t)).text.replaceAll('["database"', '["other"');
  for (const [text, words] of [
    ['', 'the file is missing or empty'],
    [writeLock([]), 'the file has no line of the database'],
    [other, 'the file has no line of the database'],
  ] as const) {
    const { findings, lock } = await run(sources, [FIRST], { lock: { ...empty, text } });
    assert.deepEqual(
      findings.map(({ rule, severity, message }) => [rule, severity, message]),
      [['SVC421', 'error', `3 statements cannot be checked: ${words}, and no --database is named`]],
    );
    assert.equal(lock, text);
  }
  const none = await run(sourcesOf(t, { 'app.ts': 'export {};' }), [FIRST], { lock: empty });
  assert.deepEqual(none.findings, []);
});

test('a stale line of the file of --statements names the migration that was added, changed or removed', async (t) => {
  const lock = await lockOf(t);
  const sources = sourcesOf(t, { 'app.ts': APP });
  const second = migration('0002', 'tags', 'create table tag (name text)');
  for (const [migrations, words] of [
    [[FIRST, second], 'the migration 0002_tags was added'],
    [[migration('0001', 'notes', `${TABLE} `), second], 'the migration 0001_notes was changed'],
    [[second, second], 'the migration 0002_tags was added'],
  ] as const) {
    const { findings } = await run(sources, migrations, { lock });
    assert.deepEqual(
      findings.map(({ rule, message, place }) => [rule, message, place?.line]),
      [['SVC421', `3 of 3 lines of the database are stale: ${words}`, 4]],
    );
  }
});

test('statements of the previous release that the present schema refuses are findings that name the migration', async (t) => {
  const previous = await lockOf(t);
  const sources = sourcesOf(t, { 'app.ts': APP });
  const judge = async (sql: string): Promise<string[]> => {
    const open = await describerOf(t, `${TABLE}\n${sql};`);
    const { findings } = await run(
      sourcesOf(t, { 'app.ts': 'export {};' }),
      [FIRST, migration('0002', 'change', sql)],
      { open, previous },
    );
    return findings.map(({ rule, message }) => `${rule} ${message}`);
  };
  assert.equal(sources.statements.calls.length, 3);
  assert.deepEqual(await judge('alter table note add column extra text'), []);
  assert.match(
    (await judge('alter table note rename column text to body')).join('\n'),
    /^SVC422 the migration 0002_change breaks a statement of the previous release: no such column: text[^\n]*$/,
  );
  assert.match(
    (
      await judge(
        'drop table note; create table note (id integer primary key, title text not null, text text, state text, owner integer not null)',
      )
    ).join('\n'),
    /^SVC422 [^\n]*no value for "owner"[^\n]*insert into note[^\n]*$/,
  );
});

test('a file of --statements with an invalid line is refused with the number of the line', async (t) => {
  const { text } = await lockOf(t);
  assert.throws(() => readLock(text.replace('"sqlite"', '"oracle"')), /line 2 .*"oracle"/);
  assert.throws(() => readLock(`${text}statement 7\n`), /line 8 /);
  assert.equal(isLock('{"openapi":"3.1.0","paths":{}}'), false);
});
