/**
 * Findings that follow from what an engine says about a statement that it accepts, on each engine: the lines of the
 * programs that are marked, and no other line. `// SVC416 servers` is a mark for all engines but
 * SQLite, `// SVC415 postgres` for PostgreSQL.
 */
import assert from 'node:assert/strict';
import { describerOn, judged, linesOf, marksOf, sourcesOf } from '../../support/statements.ts';
import {
  Field,
  Schema,
  any,
  bool,
  bytes,
  date,
  datetime,
  decimal,
  float,
  int,
  str,
  uuid,
} from '../../../src/schema/schema.ts';
import { onEveryDatabase } from '../../support/every-database.ts';
import type { Dialect } from '../../../src/db/driver.ts';

const TIMES: Readonly<Record<Dialect, string>> = {
  sqlite: 'text',
  postgres: 'timestamptz',
  mysql: 'datetime',
  mariadb: 'datetime',
};
const KEYS: Readonly<Record<Dialect, string>> = {
  sqlite: 'integer primary key',
  postgres: 'integer generated always as identity primary key',
  mysql: 'integer auto_increment primary key',
  mariadb: 'integer auto_increment primary key',
};
const schemaOf = (dialect: Dialect): string => `
create table account (id ${KEYS[dialect]}, email varchar(80) not null unique, name varchar(20));
create table note (
  id ${KEYS[dialect]},
  title varchar(20) not null,
  body text,
  owner integer not null references account (id),
  state varchar(10) not null default 'open',
  stars integer not null default 0,
  rate double precision,
  made ${TIMES[dialect]}
);
create table member (account_id integer not null, note_id integer not null, role varchar(9) not null, primary key (account_id, note_id));
create view titled as select id, title, body from note where body is not null;
`;

const HEAD =
  "import { Depends, Field, Schema, Svc, bool, date, datetime, float, int, list, nullable, reply, str, uuid } from 'svc'; import { KeysetPages, db, sql } from 'svc/db'; const app = new Svc(); const used = { db: Depends(db) };\n";

const PROGRAMS: Readonly<Record<string, string>> = {
  rows: `class Account extends Schema { id = Field(int); email = Field(str); name = Field(nullable(str)); }
class Named extends Schema { id = Field(int); name = Field(str); }
class Note extends Schema { id = Field(int); title = Field(str); stars = Field(int); }
class Headed extends Schema { id = Field(int); heading = Field(str); }
class Owner extends Schema { id = Field(int); account = Field(Named); }
class Odd extends Schema { id = Field(uuid); }
class Timed extends Schema { made = Field(nullable(datetime)); }
class Rated extends Schema { rate = Field(float); }
class Flagged extends Schema { title = Field(bool); }
class Bodied extends Schema { body = Field(int); }
app.get('/', used, async ({ db }) => {
  await db.fetchAll('select id, email, name from account', [], { as: Account });
  await db.fetchAll('select id, email from account', [], { as: Account }); // SVC412
  await db.fetchOne('select a.id, a.email as mail, a.name from account a where a.id = ?', [1], { as: Account }); // SVC412
  await db.fetchAll('select id, title as heading from note', [], { as: Headed });
  await db.fetchAll('select id, title from note', [], { as: Headed }); // SVC412
  await db.fetchAll('select n.id, n.title, count(*) as stars from note n group by n.id, n.title', [], { as: Note });
  await db.fetchAll('select n.id, n.title, count(*) as number from note n group by n.id, n.title', [], { as: Note }); // SVC412
  await db.fetchAll('select n.id, a.id as account_id, a.email as account_name from note n join account a on a.id = n.owner', [], { as: Owner });
  await db.fetchAll('select n.id, a.id as account_id from note n join account a on a.id = n.owner', [], { as: Owner }); // SVC412
  await db.fetchAll('select id from note', [], { as: Odd }); // SVC413
  await db.fetchAll('select title as id from note', [], { as: Odd });
  await db.fetchAll('select stars as title from note', [], { as: Flagged });
  await db.fetchAll('select made from note', [], { as: Timed });
  await db.fetchAll('select stars as made from note', [], { as: Timed }); // SVC413
  await db.fetchAll('select count(*) as made from note', [], { as: Timed }); // SVC413 servers
  await db.fetchAll('select title as rate from note', [], { as: Rated });
  await db.fetchAll('select rate from note', [], { as: Rated }); // SVC414
  await db.fetchAll('select rate from note where rate is not null', [], { as: Rated });
  await db.fetchAll('select coalesce(rate, 0) as rate from note', [], { as: Rated });
  await db.fetchAll('select id, name from account', [], { as: Named }); // SVC414
  await db.fetchAll('select a.id, a.name from account a join note n on n.owner = a.id where n.stars > ?', [1], { as: Named }); // SVC414
  await db.fetchAll("select id, coalesce(name, 'none') as name from account", [], { as: Named });
  await db.fetchAll('select id, name from account where name is not null', [], { as: Named });
  await db.fetchAll("select id, name from account where name like ?", ['a%'], { as: Named });
  await db.fetchAll('select id, body as name from titled', [], { as: Named });
  await db.fetchAll('select id, name from (select id, name from account where name is not null) as x', [], { as: Named });
  await db.fetchAll('select email as id, name from account where name > ?', ['a'], { as: Named });
  await db.scalar('select count(*) from note', [], { as: int });
  await db.scalar('select max(stars) from note', [], { as: nullable(int) });
  await db.scalar('select stars from note where id = ?', [1], { as: date }); // SVC413
  for await (const each of db.stream('select id from account', [], { as: Named })) each; // SVC412
});`,
  values: `class Body extends Schema { title = Field(str); short = Field(str, { maxLength: 20 }); key = Field(uuid); on = Field(bool); stars = Field(int); made = Field(datetime); }
app.post('/', { ...used, body: Body }, async ({ db, body }) => {
  await db.execute('update note set stars = ? where id = ?', ['many', 1]); // SVC415
  await db.execute('update note set stars = ? where id = ?', ['7', 1]);
  await db.execute(sql\`insert into note (title, owner, rate) values (\${'a'}, \${1}, \${'high'})\`); // SVC415
  await db.fetchAll(sql\`select id from note where note.stars = \${'x'}\`); // SVC415
  await db.fetchAll(sql\`select id from note n where n.stars >= \${'x'} and n.id = \${1}\`); // SVC415
  await db.fetchAll('select id from note where made > ?', [7]); // SVC415 servers
  await db.fetchAll('select id from note where stars + ? > rate', ['many']); // SVC415 postgres
  await db.fetchAll('select id from note where stars in (?, ?)', [1, 'two']); // SVC415 postgres
  await db.fetchAll('select id from note limit ?', ['ten']); // SVC415 postgres
  await db.fetchAll('select id from note where stars = ?', [1.5]); // SVC415 postgres
  await db.execute('update note set stars = ? where id = ?', [true, 1]); // SVC415 postgres
  await db.execute('update note set rate = ?, stars = ? where id = ?', ['NaN', ' 7 ', 1]);
  await db.execute('update note set title = ? where id = ?', [5, 1]);
  await db.execute('update note set title = ? where id = ?', ['a title of more than 20 characters', 1]); // SVC416 servers
  await db.execute('update note set body = ? where id = ?', ['a title of more than 20 characters', 1]);
  await db.execute('insert into note (title, owner) values (?, ?)', ['a title', 1]);
  await db.execute('insert into note (title, body) values (?, ?)', ['a', 'b']); // SVC417
  await db.execute('insert into account (name) values (?)', ['a']); // SVC417
  await db.insertMany('member', ['account_id', 'note_id'], [[1, 2]]); // SVC417
  await db.insertMany('member', ['account_id', 'note_id', 'role'], [[1, 2, 'a']]);
  await db.execute('insert into account (email) select title from note');
  await db.execute('insert into note (body) select name from account'); // SVC417
  await db.execute(sql\`insert into note \${sql.values([{ title: 'a', stars: 1 }], ['title', 'stars'])}\`); // SVC417
});`,
  'one row': `app.get('/', used, async ({ db }) => {
  await db.fetchOne('select id from account where id = ?', [1]);
  await db.fetchOne('select id from account where email = ?', ['a']);
  await db.fetchOne('select id from account where name = ?', ['a']); // SVC418
  await db.fetchOne('select a.id from account a where a.name = ?', ['a']); // SVC418
  await db.fetchOne('select id from account where name = ? order by id limit 1', ['a']);
  await db.fetchOne('select max(id) as id from account where name = ?', ['a']);
  await db.fetchOne('select role from member where account_id = ? and note_id = ?', [1, 2]);
  await db.fetchOne('select role from member where note_id = ?', [1]); // SVC418
});`,
  stars: `app.get('/a', used, ({ db }) => db.fetchAll('select * from account')); // SVC419
app.get('/b', used, async ({ db }) => reply(await db.fetchOne('select a.* from account a where id = ?', [1]))); // SVC419
app.get('/c', used, ({ db }) => db.fetchAll('select count(*) as number from account'));
app.get('/d', used, async ({ db }) => (await db.fetchAll('select * from account')).length);`,
};

onEveryDatabase('svc check finds the statements that are accepted and fail later', async (db, _url, t) => {
  await db.script(schemaOf(db.dialect));
  const describer = await describerOn(db);
  for (const [name, body] of Object.entries(PROGRAMS)) {
    const text = HEAD + body;
    const others =
      db.dialect === 'postgres' ? [] : db.dialect === 'sqlite' ? ['servers', 'postgres'] : ['postgres'];
    const marked = text.replace(/ (\/\/ SVC\d+) (\w+)$/gm, (_, mark: string, engines: string) =>
      others.includes(engines) ? '' : ` ${mark}`,
    );
    const files = { 'app.ts': text };
    const found = await judged(sourcesOf(t, files), describer);
    const messages = found.map(({ message, place }) => `${place?.line}: ${message}`).join('\n');
    assert.deepEqual(linesOf(found), marksOf({ 'app.ts': marked }), `${name}\n${messages}`);
  }
});

/** Types of columns, and expressions, each with a value. */
const COLUMNS: Readonly<Record<'sqlite' | 'postgres' | 'mysql', Readonly<Record<string, string>>>> = {
  sqlite: {
    integer: '1',
    boolean: '1',
    'decimal(9,2)': '3',
    real: '1.5',
    text: "'x'",
    'varchar(9)': "'1'",
    date: "'2024-01-01'",
    datetime: "'2024-01-01T10:00:00Z'",
    blob: "x'01'",
    json: "'{}'",
  },
  postgres: {
    int: '1',
    bigint: '9007199254740993',
    'numeric(9,2)': '1.50',
    numeric: '3',
    real: '1.5',
    boolean: 'true',
    text: "'1'",
    'char(4)': "'true'",
    date: "'2024-01-01'",
    timestamptz: 'now()',
    uuid: 'gen_random_uuid()',
    bytea: "'x'",
    jsonb: "'7'",
    'int[]': "'{1}'",
    interval: "'1 day'",
  },
  mysql: {
    int: '1',
    'bigint unsigned': '1',
    'tinyint(1)': '1',
    'decimal(9,0)': '3',
    'decimal(9,2)': '1.5',
    double: '2',
    'bit(1)': "b'1'",
    text: "'1'",
    date: "'2024-01-01'",
    datetime: 'now()',
    time: "'10:00'",
    year: '2024',
    'binary(16)': "'x'",
    json: "'{}'",
    "enum('1','b')": "'1'",
  },
};
const EXPRESSIONS = [
  'count(*)',
  'sum(c0)',
  'avg(c0)',
  'max(c0) > 1',
  'max(c0) * 1.5',
  'coalesce(max(c0), 7)',
  "'x'",
  '1.5',
];
const KINDS = { str, int, float, decimal, bool, datetime, date, uuid, bytes, any };

onEveryDatabase('svc check has no finding about a type of rows that the class reads', async (db, _url, t) => {
  const columns = Object.entries(COLUMNS[db.dialect === 'mariadb' ? 'mysql' : db.dialect]);
  await db.script(
    `create table t (${columns.map(([type], index) => `c${index} ${type} not null`).join(', ')})`,
  );
  await db.script(`insert into t values (${columns.map(([, value]) => value).join(', ')})`);
  const read = [...columns.map((_, index) => `c${index}`), ...EXPRESSIONS].flatMap((expression) =>
    Object.entries(KINDS).map(([name, kind]) => ({ name, kind, sql: `select ${expression} as x from t` })),
  );
  const lines = read.map(
    ({ name, sql }) => `await db.fetchAll(${JSON.stringify(sql)}, [], { as: Row_${name} });`,
  );
  const classes = Object.keys(KINDS).map(
    (name) => `class Row_${name} extends Schema { x = Field(${name}); }`,
  );
  const program = `import { ${Object.keys(KINDS).join(', ')}, Depends, Field, Schema, Svc } from 'svc'; import { db } from 'svc/db'; const app = new Svc(); ${classes.join(' ')}
app.get('/', { db: Depends(db) }, async ({ db }) => {
${lines.join('\n')}
});`;
  const found = await judged(sourcesOf(t, { 'app.ts': program }), await describerOn(db));
  assert.ok(found.length > 20, `${found.length} findings`);
  for (const { message, place } of found) {
    const { sql, kind } = read[place!.line - 3]!;
    class Row extends Schema {
      x = Field(kind);
    }
    await assert.rejects(db.fetchAll(sql, [], { as: Row }), { code: 'E_DB_ROW' }, `${sql}: ${message}`);
  }
});
