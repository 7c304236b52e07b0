/** Findings about SQL statements, with a schema in SQLite: exactly the marked lines of each program are found. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describerOf, judged, linesOf, marksOf, sourcesOf } from '../../support/statements.ts';

const HEAD =
  "import { Depends, Field, Schema, Svc, any, bool, date, float, int, list, literal, nullable, reply, str, uuid } from 'svc'; import { KeysetPages, db, sql } from 'svc/db'; const app = new Svc(); const used = { db: Depends(db) };\n";
const SCHEMA = `
create table account (id integer primary key, email text not null unique, name text);
create table note (
  id integer primary key,
  title text not null,
  text text,
  owner integer not null references account (id),
  state text not null default 'open' check (state in ('open', 'done')),
  score real not null default 0,
  created_at text not null default current_timestamp
);
create table member (account_id integer not null, note_id integer not null, role text not null, primary key (account_id, note_id));
create table tag (code text primary key, label text);
create view open_note as select id, title, text from note where text is not null;
`;

const PROGRAMS: Readonly<Record<string, string>> = {
  'unknown tables, columns and functions': `app.get('/', used, async ({ db }) => {
  await db.fetchAll('select nmae from account'); // SVC411
  await db.fetchAll('select name from acount'); // SVC411
  await db.fetchAll('select concatenate(name) from account'); // SVC411
  await db.fetchAll('select id from note join account on account.id = owner'); // SVC411
  await db.execute('update note set titel = ? where id = ?', ['a', 1]); // SVC411
  await db.insertMany('note', ['title', 'ownr'], [['a', 1]]); // SVC411
  await db.fetchAll(\`select id,
      titel -- SVC411
    from note\`);
  await db.fetchAll('select id from note where');  // SVC411
  await db.fetchAll('select title from note group by owner having count(*) > 1');
});`,
  'the number of values': `app.get('/', used, async ({ db, body }) => {
  await db.fetchAll('select id from note where id = ?', [1, 2]); // SVC411
  await db.fetchAll('select id from note where id = ? and title = ?', [1]); // SVC411
  await db.fetchAll('select id from note where id = ?'); // SVC411
  await db.fetchAll("select '?' from note where id = ? -- ?", [1]);
  await db.fetchAll('select id from note where id = ?', ids);
  const ids = await idsOf();
  await db.fetchAll('select id from note where id in (?, ?)', [...ids]);
  await db.executeMany('insert into note (title, owner) values (?, ?)', [['a', 1], ['b', 2]]);
  await db.executeMany('insert into note (title, owner) values (?, ?)', [['a', 1, 3]]); // SVC411
});`,
  'choices of which some are impossible together': `app.get('/', { ...used, query: { mine: Field(bool), sort: Field(str) } }, async ({ db, query }) => {
  const [table, column] = [query.mine ? 'note' : 'account', query.mine ? 'title' : 'email'];
  await db.fetchAll(\`select \${column} from \${table}\`);
  const sort = query.sort === 'a' ? 'title' : query.sort === 'b' ? 'creatd_at' : 'id'; // SVC411
  await db.fetchAll(\`select id from note order by \${sort}\`);
  await db.fetchAll(sql\`select id from note \${filterOf(query)}\`);
  await db.fetchAll(sql\`select nmae from account where id = \${idOf(query)}\`); // SVC411
});`,
  'rows of a class': `class Account extends Schema { id = Field(int); name = Field(nullable(str)); }
class Named extends Schema { id = Field(int); name = Field(str); nick = Field(str, { optional: true }); }
class Titled extends Schema { title = Field(int); score = Field(float); }
class Owner extends Schema { id = Field(int); owner = Field(Account); }
app.get('/', used, async ({ db }) => {
  await db.fetchAll('select id, name from account', [], { as: Account });
  await db.fetchAll('select id from account', [], { as: Account }); // SVC412
  await db.fetchAll('select id from account', [], { as: Account.pick('id') });
  await db.fetchAll(sql\`select id, name from account\`, { as: Named }); // SVC414
  await db.fetchAll(sql\`select id, name from account where name > \${'a'}\`, { as: Named });
  await db.fetchAll('select id, coalesce(name, email) as name from account', [], { as: Named });
  await db.fetchAll('select id, text as name from open_note', [], { as: Named });
  await db.fetchAll('with named as (select id, name from account where name is not null) select id, name from named', [], { as: Named });
  await db.fetchAll('select id, name from (select id, name from account where name is not null)', [], { as: Named });
  await db.fetchAll('select n.id, a.email as name from note n left join account a on a.id = n.owner', [], { as: Named });
  await db.fetchAll('select title, score from note', [], { as: Titled });
  await db.fetchAll('select score as title, score from note', [], { as: Titled });
  await db.fetchAll('select n.id, a.id as owner_id, a.name as owner_name from note n join account a on a.id = n.owner', [], { as: Owner });
  await db.fetchAll('select n.id, a.id as owner_id from note n join account a on a.id = n.owner', [], { as: Owner }); // SVC412
  await db.scalar('select count(*) from account', [], { as: int });
  await db.scalar('select code from tag where label = ?', ['a'], { as: str });
  await db.scalar('select label from tag where code = ?', ['a'], { as: str }); // SVC414
  await db.fetchAll('select id as created from note', [], { as: Created.pick('created') }); // SVC413
  for await (const each of db.stream('select id from account', [], { as: Account })) each; // SVC412
});
class Created extends Schema { created = Field(date); other = Field(str); }`,
  'conditions that a loop or a builder joins': `function builder(table: string) {
  let where = '';
  return {
    where(column: string) { where += (where === '' ? ' where ' : ' and ') + column + ' = 1'; return this; },
    run: (db: Session) => db.fetchAll('select id from ' + table + where),
  };
}
import type { Session } from 'svc/db';
app.get('/', used, async ({ db, query }) => {
  await builder('note').where('title').run(db);
  const given = { title: query.title, owner: query.owner };
  const conditions = Object.entries(given).map(([name]) => name + ' = ?');
  await db.fetchAll('select id from note where ' + conditions.join(' and '), Object.values(given));
  await db.fetchAll(sql\`select id from note where \${sql.and(...Object.entries(given).map(([name, value]) => sql\`\${sql.identifier(name)} = \${value}\`))}\`);
});`,
  'lists of columns': `class Account extends Schema { id = Field(int); email = Field(str); name = Field(nullable(str)); }
const NAMES = ['id', 'email', 'name'] as const;
app.get('/', used, async ({ db, query }) => {
  await db.fetchAll(sql\`select \${sql.join(NAMES.map((name) => sql.identifier(name)))} from account\`, { as: Account });
  await db.fetchAll(\`select \${NAMES.map((name) => 'a.' + name).join(', ')} from account a\`, [], { as: Account });
  await db.fetchAll(sql\`select \${sql.join(['id', 'nmae'].map((name) => sql.identifier(name)))} from account\`); // SVC411
  const columns = [sql\`id\`, sql\`email\`];
  if (query.all) columns.push(sql\`name\`);
  await db.fetchAll(sql\`select \${sql.join(columns)} from account\`, { as: Account });
  await db.execute(sql\`insert into account (\${sql.join(columns)}) values (\${1}, \${'a'}, \${'b'})\`);
  const others = [sql\`id\`];
  if (query.old) others.push(sql\`nmae\`); // SVC411
  await db.fetchAll(sql\`select \${sql.join(others)} from account\`);
});`,
  'rows with snakeCase': `class Note extends Schema { id = Field(int); createdAt = Field(str); }
app.get('/', used, async ({ db }) => {
  await db.fetchAll('select id, created_at from note', [], { as: Note, snakeCase: true });
  await db.fetchAll('select id, created_at from note', [], { as: Note }); // SVC412
});`,
  'values of another type': `app.get('/', used, async ({ db }) => {
  await db.execute('update note set state = ? where id = ?', ['opne', 1]); // SVC415
  await db.execute('update note set state = ? where id = ?', ['done', 1]);
  await db.execute(sql\`insert into note (title, owner, score) values (\${'a'}, \${1}, \${'high'})\`); // SVC415
  await db.fetchAll(sql\`select id from note where note.state = \${'gone'}\`); // SVC415
  await db.fetchAll('select id from note where id = ?', ['7']);
  await db.fetchAll("select id from note where title = ? or score > ?", ['a', 1.5]);
});`,
  inserts: `app.get('/', used, async ({ db, body }) => {
  await db.execute('insert into note (text) values (?)', ['a']); // SVC417
  await db.execute('insert into note (title, owner) values (?, ?)', ['a', 1]);
  await db.execute('insert into note (id, title, owner) select id, title, owner from note');
  await db.execute(sql\`insert into note \${sql.values([body], ['title', 'text'])}\`); // SVC417
  await db.insertMany('member', ['account_id', 'note_id'], [[1, 2]]); // SVC417
  await db.execute('insert into account default values');
});`,
  fetchOne: `app.get('/', used, async ({ db }) => {
  await db.fetchOne('select id from account where id = ?', [1]);
  await db.fetchOne('select id from account where email = ?', ['a']);
  await db.fetchOne('select id from account where name = ?', ['a']); // SVC418
  await db.fetchOne('select id from account where name = ? order by id', ['a']);
  await db.fetchOne('select id from account where name = ? limit 1', ['a']);
  await db.fetchOne('select count(*) as count from note where owner = ?', [1]);
  await db.fetchOne('select role from member where account_id = ? and note_id = ?', [1, 2]);
  await db.fetchOne('select role from member where account_id = ?', [1]); // SVC418
  await db.fetchOne('select role from member where account_id = ? and note_id > ?', [1, 2]);
  await db.fetchAll('select id from account where name = ?', ['a']);
});
app.post('/', used, async ({ db }) => {
  const taken = await db.fetchOne('select id from account where name = ?', ['a']);
  const other = await db.fetchOne('select id from account where name = ?', ['b']); // SVC418
  if (taken || (await db.fetchOne('select id from account where name = ?', ['c'])) !== undefined) return 'taken';
  return other === undefined ? 'free' : other.id;
});`,
  'select * into a reply': `class Note extends Schema { id = Field(int); title = Field(str); }
app.get('/a', used, ({ db }) => db.fetchAll('select * from note')); // SVC419
app.get('/b', used, async ({ db }) => reply(await db.fetchOne('select * from note where id = ?', [1]))); // SVC419
app.get('/c', { ...used, response: list(Note) }, ({ db }) => db.fetchAll('select * from note'));
app.get('/d', used, ({ db }) => db.fetchAll('select * from note', [], { as: Note }));
app.get('/e', used, async ({ db }) => (await db.fetchAll('select * from note')).map(({ id }) => ({ id })));
app.get('/f', used, ({ db }) => db.fetchAll('select id, title from note'));
app.get('/g', used, ({ db }) => db.fetchOne('select count(*) as count from note'));`,
  'texts for another engine': `import type { Database } from 'svc/db';
const isOfServer = (dialect: string) => dialect !== 'sqlite';
const lower = (dialect: string) => (dialect === 'postgres' ? sql\`title ilike 'a'\` : sql\`title like 'a'\`);
async function lock(database: Database) {
  if (database.dialect === 'sqlite') return;
  await database.execute('select id from note for update');
}
app.get('/', used, async ({ db }) => {
  await db.fetchAll(sql\`select id from note where \${lower(db.dialect)}\`);
  if (isOfServer(db.dialect)) await db.execute('select id from note for update');
  await lock(db);
  await db.execute('select id from note for update'); // SVC411
});`,
  'tables that the program itself makes': `app.get('/', used, async ({ db }) => {
  await db.execute("attach database 'archive.db' as archive");
  await db.execute('insert into archive.note select * from note');
  await db.execute('create temp table if not exists found (id integer)');
  await db.execute('insert into found select id from note');
  await db.execute('insert into fund select id from note'); // SVC411
});`,
  scripts: `app.get('/', used, async ({ db, query }) => {
  await db.script('delete from note; update note set titel = 1'); // SVC411
  await db.script(\`
    create table draft (id integer);
    create index draft_id on draft (id);
    insert into draft select id from note;
    -- delete from nte;
    insert into note (title) values ('a'); -- SVC417
    delete from nte; -- SVC411
    create trigger t after insert on note begin delete from nothing; end;
    select json('{}') -> '$' ? 1;\`);
  await db.transaction((tx) => tx.script('delete from note where nope = 1')); // SVC411
  await db.script('delete from ' + (query.all ? 'note' : 'nte'));
  await db.script(await textOf());
});`,
  pages: `const notes = new KeysetPages({ orderBy: { made_at: 'desc', id: 'asc' } });
class Note extends Schema { id = Field(int); title = Field(str); }
app.get('/n', { ...used, query: notes.query }, ({ db, query, req }) =>
  notes.fetch(db, sql\`select id, created_at from note\`, { query, req })); // SVC411
const good = new KeysetPages({ orderBy: { created_at: 'desc', id: 'asc' } });
app.get('/g', { ...used, query: good.query }, ({ db, query, req }) =>
  good.fetch(db, sql\`select id, created_at from note\`, { query, req }, { as: Note })); // SVC412`,
};

for (const [name, body] of Object.entries(PROGRAMS)) {
  test(`svc check judges the statements of a program by its schema: ${name}`, async (t) => {
    const files = { 'app.ts': HEAD + body };
    const found = await judged(sourcesOf(t, files), await describerOf(t, SCHEMA));
    assert.deepEqual(linesOf(found), marksOf(files), found.map(({ message }) => message).join('\n'));
  });
}

test('findings about statements point at the word, and name the nearest name', async (t) => {
  const files = {
    'app.ts': `${HEAD}app.get('/notes', used, ({ db }) => db.fetchAll('select id, titel from note'));\n`,
  };
  const [finding, ...more] = await judged(sourcesOf(t, files), await describerOf(t, SCHEMA));
  assert.deepEqual(more, []);
  assert.equal(finding?.place?.column, files['app.ts'].split('\n')[1]!.indexOf('titel') + 1);
  assert.equal(finding?.subject, 'GET /notes');
  assert.match(finding?.message ?? '', /^the database refuses the statement: no such column: titel/);
  assert.match(finding?.remedy ?? '', /^Write "title"/);
});

for (const [name, message, remedy] of [
  ['an update of PostgreSQL', 'column "titel" of relation "note" does not exist', 'Write "title"'],
  ['a select of PostgreSQL', 'column "titel" does not exist', 'Write "title"'],
  ['a table of PostgreSQL', 'relation "nots" does not exist', 'Write "note"'],
  ['an insert of SQLite', 'table note has no column named titel', 'Write "title"'],
] as const)
  test(`the remedy of SVC411 names the nearest column or table of the refused name: ${name}`, async (t) => {
    const files = {
      'app.ts': `${HEAD}app.post('/notes', used, ({ db }) => db.execute("update note set titel = ''"));\n`,
    };
    const describer = await describerOf(t, SCHEMA);
    const refusing = new Proxy(describer, {
      get: (target, key) =>
        key === 'describeStatement'
          ? async () => ({ kind: 'refused', message, code: '42703', position: undefined })
          : (Reflect.get(target, key, target) as unknown),
    });
    const [finding, ...more] = await judged(sourcesOf(t, files), refusing);
    assert.deepEqual(more, []);
    assert.ok(finding?.remedy.startsWith(remedy), finding?.remedy);
  });
