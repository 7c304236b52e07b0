/** Statements that the sources send: their texts, by the type of the receiver. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readProject } from '../../../src/check/reader/modules.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { DeclaredInputs } from '../../../src/check/values/inputs.ts';
import { project } from '../../support/run.ts';
import { sourcesOf, textsOf } from '../../support/statements.ts';
import type { Svc } from 'svc';

const HEAD =
  "import { Depends, Field, Schema, Svc, int, literal, str } from 'svc'; import { KeysetPages, OffsetPages, database, db, openDatabase, sql, transaction } from 'svc/db'; const app = new Svc(); const used = { db: Depends(db) };\n";

/** Programs with the statements that they send, in the order of the evaluation. `?` stands for an unknown text. */
const PROGRAMS: Readonly<Record<string, readonly [body: string, ...texts: string[]]>> = {
  'each verb of a database': [
    `app.get('/', used, async ({ db }) => {
  await db.fetchAll('select 1');
  await db.fetchOne('select 2');
  await db.fetchArrays('select 3');
  await db.scalar('select 4');
  await db.execute('delete from a');
  await db.executeMany('insert into a values (?)', [[1]]);
  await db.insertMany('main.a', ['b', 'c'], [[1, 2]]);
  for await (const row of db.stream('select 5')) row;
});`,
    'select 1',
    'select 2',
    'select 3',
    'select 4',
    'delete from a',
    'insert into a values (?)',
    'insert into "main"."a" ("b", "c") values (?, ?)',
    'select 5',
  ],
  'a transaction, a request transaction, and functions that take a session': [
    `import type { Session } from 'svc/db';
const remove = (session: Session, id: number) => session.execute('delete from a where id = ?', [id]);
app.get('/', used, ({ db }) => db.transaction(async (tx) => { await tx.execute('delete from b'); await remove(tx, 1); }));
app.get('/t', { tx: Depends(transaction) }, ({ tx }) => tx.execute('delete from c'));
export const job = (session: Session) => session.scalar('select 1');`,
    'delete from b',
    'delete from a where id = ?',
    'delete from c',
    'select 1',
  ],
  'constants, and texts that other modules export': [
    `const COLUMNS = 'id, ' + 'name';
const QUERIES = { all: \`select \${COLUMNS} from a\` } as const;
app.get('/', used, ({ db }) => db.fetchAll(QUERIES.all));`,
    'select id, name from a',
  ],
  'each choice of a condition, of a table and of a declared input': [
    `const SORTS = { name: 'name', newest: 'id desc' };
app.get('/', { ...used, query: { down: Field(str) } }, ({ db, query }) =>
  db.fetchAll(\`select * from a order by \${query.down === 'y' ? SORTS.name : SORTS.newest}\`));`,
    'select * from a order by name',
    'select * from a order by id desc',
  ],
  'templates with templates, and functions of sql': [
    `app.get('/', { ...used, query: { name: Field(str, { optional: true }), ids: Field(str) } }, async ({ db, query, body }) => {
  const named = query.name !== undefined && sql\`name = \${query.name}\`;
  await db.fetchAll(sql\`select * from a where \${sql.and(sql\`b = \${1}\`, named, sql.in(sql\`id\`, query.ids))}\`);
  await db.execute(sql\`update a set \${sql.set(body, ['name', 'text'])} where id = \${2}\`);
  await db.execute(sql\`insert into a \${sql.values([{ name: 1, text: 2 }], { name: 'name', text: 'note_text' })} \${sql.upsert(['name'], ['note_text'])}\`);
  await db.fetchAll(sql\`select \${sql.identifier('a', 'b')}, \${sql.join([1, 2])} from a\`);
});`,
    'select * from a where ((b = ?) and (name = ?) and (id in (?)))',
    'update a set "name" = ?, "text" = ? where id = ?',
    'insert into a ("name", "note_text") values (?, ?) on conflict ("name") do update set "note_text" = excluded."note_text"',
    'select "a"."b", ?, ? from a',
  ],
  pages: [
    `const notes = new KeysetPages({ orderBy: { at: 'desc', id: 'asc' } });
const tags = new OffsetPages({ orderBy: { name: 'asc' } });
app.get('/n', { ...used, query: notes.query }, ({ db, query, req }) => notes.fetch(db, sql\`select id, at from a\`, { query, req }));
app.get('/t', { ...used, query: tags.query }, ({ db, query, req }) => tags.fetch(db, sql\`select name from b\`, { query, req }));`,
    'select svc_page.* from (select id, at from a\n) as svc_page order by svc_page."at", svc_page."id"',
    'select svc_page.* from (select name from b\n) as svc_page order by svc_page."name"',
  ],
  'a text of which a part is not known': [
    `app.get('/', used, async ({ db }) => {
  await db.fetchAll(\`select * from \${await tableOf()}\`);
  let text = 'select 1';
  for (const each of await parts()) text += each;
  await db.fetchAll(text);
  const columns = ['a'];
  columns.push('b');
  await db.fetchAll('select ' + columns.join(', '));
  await db.fetchAll('SELECT 1'.toLowerCase());
  await db.fetchAll('select a, '.slice(0, 8));
});`,
    ...['?', '?', '?', '?', '?'],
  ],
  'no other package, and no method of the program': [
    `import pg from 'pg';
class Store { execute(text: string) { return text; } }
const pool = new pg.Pool();
app.get('/', async () => { await pool.query('select 1'); new Store().execute('select 2'); cache.execute('flush'); });`,
  ],
};

for (const [name, [body, ...texts]] of Object.entries(PROGRAMS)) {
  test(`svc check finds the statements of a program: ${name}`, (t) => {
    assert.deepEqual([...textsOf(sourcesOf(t, { 'app.ts': HEAD + body }))].sort(), texts.sort());
  });
}

test('a statement has the places of its pieces in the sources, also in escaped texts and in other modules', (t) => {
  const files = {
    'app.ts': `${HEAD}import { COLUMNS } from './columns.ts';
app.get('/', used, async ({ db }) => {
  await db.fetchAll(\`select \${COLUMNS}
    from note where a = 1\`);
  await db.fetchAll('select \\'\\u{41}\\' as a, title from note');
});`,
    'columns.ts': "export const COLUMNS =\n  'id, name';\n",
  };
  const { statements } = sourcesOf(t, files);
  const all = statements.calls.flatMap((call) => [...call.statements.values()]);
  const placed = (word: string): (string | number)[] => {
    const found = all.find((statement) => statement.text('sqlite').includes(word))!;
    const { file, line, column } = found.placeAt(found.text('sqlite').indexOf(word), 'sqlite');
    return [file.slice(file.lastIndexOf('/') + 1), line, column];
  };
  assert.deepEqual(placed('name'), ['columns.ts', 2, 8]);
  assert.deepEqual(placed('note where'), ['app.ts', 5, 10]);
  assert.deepEqual(placed('title'), ['app.ts', 6, 46]);
});

test('the name of a database decides to which plugin a statement belongs', (t) => {
  const { statements } = sourcesOf(t, {
    'app.ts': `${HEAD}
app.get('/', { main: Depends(db), other: Depends(database('stats')) }, async ({ main, other }) => {
  await main.scalar('select 1');
  await other.scalar('select 2');
  const file = await openDatabase('sqlite:x.db');
  await file.scalar('select 3');
});`,
  });
  assert.deepEqual(
    statements.calls.map(({ database: name }) => name),
    ['database', 'stats', undefined],
  );
});

test('the values of a literal input choose the members of a table of texts', async (t) => {
  const cwd = project(t, {
    'app.ts': `${HEAD.replace('const app', 'export const app')}const SORTS = { name: 'name', id: 'id', at: 'at' };
const query = { sort: Field(literal('name', 'at')) };
app.get('/', { ...used, query }, ({ db, query }) => db.fetchAll('select 1 order by ' + SORTS[query.sort]));`,
  });
  const file = join(cwd, 'app.ts');
  const { app } = (await import(pathToFileURL(file).href)) as { readonly app: Svc };
  const inputs = new DeclaredInputs(app.inspect().details);
  assert.deepEqual(textsOf(examineSources(readProject([file]), CORE_RULES, inputs)), [
    'select 1 order by name',
    'select 1 order by at',
  ]);
});
