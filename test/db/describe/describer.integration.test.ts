/**
 * Descriptions of statements: the engine prepares each one, and runs none.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openDatabase } from '../../../src/db/index.ts';
import { DatabaseDescriber } from '../../../src/db/describe/describer.ts';
import { onEveryDatabase } from '../../support/every-database.ts';
import { silencedProxy } from '../../support/silenced-proxy.ts';
import { postgresUrl, needsPostgres } from '../../support/postgres-database.ts';
import { inReverse } from '../../support/run.ts';
import type { Dialect } from '../../../src/db/driver.ts';

const KEY: Readonly<Record<Dialect, string>> = {
  sqlite: 'integer primary key',
  postgres: 'bigint generated always as identity primary key',
  mysql: 'bigint auto_increment primary key',
  mariadb: 'bigint auto_increment primary key',
};
const tablesOf = (dialect: Dialect): string => `
  create table author (id ${KEY[dialect]}, name varchar(100) not null, bio text);
  create table book (id ${KEY[dialect]}, title varchar(20) not null unique, author_id bigint not null, n int,
    price numeric(6,2) not null, foreign key (author_id) references author (id));
  create view shelf as select id, title from book`;

/** Opens a describer on a database with the tables above, in a session that only reads. */
async function described(url: string): Promise<DatabaseDescriber> {
  const options = { readOnly: true, pool: { max: 1 } };
  const more = { snakeCase: false, hash: 'hash', ownTypes: new Set<string>(), timeoutMs: 10_000 };
  return DatabaseDescriber.open(await openDatabase(url, options), more);
}

/** The dialect, where MySQL is described as MariaDB is. */
const familyOf = (dialect: Dialect): 'sqlite' | 'postgres' | 'mysql' =>
  dialect === 'mariadb' ? 'mysql' : dialect;

onEveryDatabase(
  'a described statement has its columns with their origin, their type and NULL',
  async (db, url) => {
    await db.script(tablesOf(db.dialect));
    await using describer = await described(url);
    const found = await describer.describeStatement(
      'select b.title, price as cost, n, n + 1 as more from book b where id = ?',
    );
    assert.equal(found.kind, 'described');
    const family = familyOf(db.dialect);
    const int = { kind: 'int' };
    assert.deepEqual(
      found.columns.map(({ name, table, column, isNullable }) => [name, table, column, isNullable]),
      [
        ['title', 'book', 'title', false],
        ['cost', 'book', 'price', false],
        ['n', 'book', 'n', true],
        ['more', undefined, undefined, undefined],
      ],
    );
    assert.deepEqual(
      found.columns.map(({ kind }) => kind),
      {
        sqlite: [{ kind: 'str' }, { kind: 'float' }, int, undefined],
        postgres: [
          { kind: 'str', options: { maxLength: 20 } },
          { kind: 'decimal', options: { digits: 6, places: 2 } },
          int,
          int,
        ],
        mysql: [
          { kind: 'str', options: { maxLength: 20 } },
          { kind: 'decimal', options: { digits: 6, places: 2 } },
          int,
          int,
        ],
      }[family],
    );
    assert.deepEqual(
      found.columns.map(({ type }) => type),
      {
        sqlite: ['varchar(20)', 'numeric(6,2)', 'INT', undefined],
        postgres: ['character varying(20)', 'numeric(6,2)', 'integer', 'integer'],
        mysql: ['varchar', 'decimal', 'int', 'bigint'],
      }[family],
    );
    assert.deepEqual(found.parameters, [
      family === 'postgres' ? { type: 'bigint', kind: int } : { type: undefined, kind: undefined },
    ]);
  },
);

onEveryDatabase('a describer has the tables with their keys', async (db, url) => {
  await db.script(tablesOf(db.dialect));
  await using describer = await described(url);
  assert.deepEqual(
    describer.tables.map(({ name, primaryKey, uniqueKeys, foreignKeys }) => ({
      name,
      primaryKey,
      uniqueKeys,
      foreignKeys,
    })),
    [
      { name: 'author', primaryKey: ['id'], uniqueKeys: [], foreignKeys: [] },
      {
        name: 'book',
        primaryKey: ['id'],
        uniqueKeys: [['title']],
        foreignKeys: [{ columns: ['author_id'], table: 'author', references: ['id'] }],
      },
    ],
  );
});

/** A statement with `|` before the mistake. Engines that are not listed accept it. */
type Mistake = readonly [statement: string, engines: readonly Dialect[]];
const ALL = ['sqlite', 'postgres', 'mysql', 'mariadb'] as const;
const MISTAKES: readonly Mistake[] = [
  ['select |nme from author', ALL],
  ['select n, |b.titel from book b where n = ?', ALL],
  ["select 'é😀', |nme from author where id = ?", ALL],
  ['select n from book where id = ? and n = ? and |nope = ?', ALL],
  ['|selec n from book', ALL],
  ['select n from book where n = 1 and |and n = 2', ALL],
  ['select n from |nope', ALL],
  ['select n from book where |nope(n) = 1', ALL],
  ['select |id from author join book on author_id = author.id', ALL],
  ['insert into book (|tile) values (?)', ALL],
  ['update book set |titel = ? where id = ?', ALL],
  ['select n from book where title |= 5', ['postgres']],
  ['select |title, count(*) from book', ['postgres', 'mysql']],
  ['select n from book b group by n order by |b.title', ['postgres', 'mysql']],
  ['select distinct n from book order by |title', ['postgres', 'mysql']],
];
onEveryDatabase(
  'a refused statement has a code and the place of its mistake, and the next one is described',
  async (db, url) => {
    await db.script(tablesOf(db.dialect));
    await using describer = await described(url);
    for (const [marked, engines] of MISTAKES) {
      const text = marked.replace('|', '');
      const found = await describer.describeStatement(text);
      if (!engines.includes(db.dialect)) assert.equal(found.kind, 'described', text);
      else {
        assert.equal(found.kind, 'refused', text);
        assert.equal(found.position, marked.indexOf('|'), `${text}: ${found.message}`);
        assert.match(found.code, /^[0-9A-Z]{5}$/);
      }
      assert.equal((await describer.describeStatement('select n from book where n = ?')).kind, 'described');
    }
  },
);

/** Statements that change rows, tables, settings or locks when they run. */
const CHANGES: readonly string[] = [
  'insert into author (name) values (?)',
  "insert into author (name) select 'x' from author",
  'update author set name = ?',
  'delete from author',
  'drop table book',
  'create table another (id int)',
  'alter table author add column more int',
  'pragma user_version = 7',
  'pragma foreign_keys = off',
  "attach '/nonexistent/folder/file.db' as other",
  "select nextval('author_id_seq')",
  'truncate table book',
  'select get_lock(?, 10)',
  'select pg_advisory_lock(1)',
  'set global max_connections = 7',
  'create role svc_describe_role',
  'create database svc_describe_database',
  'select sleep(3000), pg_sleep(3000)',
  "copy author from program 'touch /tmp/svc-describe'",
  'do 1',
  'kill 1',
  'call nope()',
];
onEveryDatabase('describing a statement runs nothing, whatever it would do', async (db, url) => {
  await db.script(`${tablesOf(db.dialect)}; insert into author (name) values ('Ada')`);
  await using describer = await described(url);
  const before = await contentOf(describer);
  for (const text of CHANGES) assert.notEqual((await describer.describeStatement(text)).kind, 'thrown', text);
  const after = await described(url);
  assert.deepEqual(await contentOf(after), before);
  await after[Symbol.asyncDispose]();
  assert.deepEqual(await db.fetchAll('select id, name from author'), [{ id: 1, name: 'Ada' }]);
  assert.equal((await db.execute("insert into author (name) values ('Bo')")).affectedRows, 1);
  assert.equal(await db.scalar('select max(id) from author'), 2);
});

async function contentOf({ tables }: DatabaseDescriber): Promise<unknown> {
  return tables;
}

/** Texts that are not one statement. */
const TEXTS: readonly string[] = [
  '',
  '-- only a comment',
  'select 1; select 2',
  'begin',
  'rollback',
  "select '",
  'select /* 1',
];
onEveryDatabase(
  'a text that is not one statement is refused, and the next statement is described',
  async (_, url) => {
    await using describer = await described(url);
    for (const text of TEXTS) {
      const found = await describer.describeStatement(text);
      assert.equal(found.kind, 'refused', `${text}: ${JSON.stringify(found)}`);
      assert.equal((await describer.describeStatement('select 1 -- ?')).kind, 'described');
    }
    for (const text of ['select a\0b', 'select \ud800'])
      assert.notEqual((await describer.describeStatement(text)).kind, 'untold', JSON.stringify(text));
  },
);

test('PostgreSQL: a statement on a table without rights for the schema is untold, not refused', async (t) => {
  if (!needsPostgres(t)) return;
  const scope = inReverse(t);
  const url = await postgresUrl(scope);
  const db = await openDatabase(url);
  scope.after(() => db.close());
  const role = `svc_describe_${process.pid}`;
  await db.script(`create role ${role} login; create schema ${role}; create table ${role}.secret (id int)`);
  scope.after(() => db.script(`drop schema ${role} cascade; drop role ${role}`));
  const asRole = new URL(url);
  asRole.searchParams.set('set.role', role);
  await db.script(`revoke all on schema ${role} from public`);
  await using describer = await described(asRole.href.replaceAll('+', '%20'));
  const found = await describer.describeStatement(`select id from ${role}.secret`);
  assert.equal(found.kind, 'untold');
});

onEveryDatabase(
  'a describer whose server stops answering has a failure, and later statements are untold at once',
  async (db, url, t) => {
    if (db.dialect === 'sqlite') return;
    const proxy = await silencedProxy({ after: (end) => t.after(end) }, url);
    const database = await openDatabase(proxy.url, {
      readOnly: true,
      pool: { max: 1 },
    });
    const more = { snakeCase: false, hash: '', ownTypes: new Set<string>(), timeoutMs: 300 };
    const describer = await DatabaseDescriber.open(database, more);
    t.after(() => describer[Symbol.asyncDispose]());
    assert.equal((await describer.describeStatement('select 1')).kind, 'described');
    assert.equal(describer.failure, undefined);
    proxy.silence();
    const found = await describer.describeStatement('select 2');
    assert.equal(found.kind, 'untold');
    assert.ok(describer.failure !== undefined);
    assert.deepEqual(await describer.describeStatement('select 3'), found);
    proxy.restore();
  },
);

/** A function that writes into a table, which in MariaDB cannot be rolled back. */
const WRITING: Readonly<Record<'postgres' | 'mysql', string>> = {
  postgres: `create table called (n int);
    create function f() returns int language plpgsql immutable as $$ begin insert into called values (1); return 1; end $$`,
  mysql: `create table called (n int) engine = MyISAM;
    create function f() returns int deterministic modifies sql data begin insert into called values (1); return 1; end`,
};
onEveryDatabase('describing a statement calls none of its functions', async (db, url) => {
  const family = familyOf(db.dialect);
  if (family === 'sqlite') return; // SQLite has no functions that write
  await db.script(`${tablesOf(db.dialect)}; ${WRITING[family]}`);
  await using describer = await described(url);
  for (const text of [
    'select f()',
    'select n from book where n = f()',
    'select n from book where n in (select f() from author) limit 1',
    'insert into called (n) values (f())',
    'insert into called (n) select f() from (select 1 as x) one',
    'update called set n = f()',
    'delete from called where n = f() or f() = 1',
    'select f() from (select f() as x) s group by f() order by f()',
  ])
    assert.equal((await describer.describeStatement(text)).kind, 'described', text);
  assert.equal(Number(await db.scalar('select count(*) from called')), 0);
});
