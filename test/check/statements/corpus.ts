/**
 * Statements that engines refuse, after public bug reports: each with the address of the report, and the word at which
 * the finding is. The tables are those of CORPUS_SCHEMA.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../../support/build.ts';

/** A wrong statement, with the text at which each engine has its finding. */
interface WrongStatement {
  readonly from: string;
  readonly sql: string;
  readonly at: string;
  /** Text for PostgreSQL, if it differs. Null if PostgreSQL prepares the statement. */
  readonly postgres?: string | null;
  /** Text for MariaDB and MySQL, if it differs. Null if they prepare the statement. */
  readonly mysql?: string | null;
  /** Text for MariaDB, if it differs from that for MySQL. */
  readonly mariadb?: string;
}

export const CORPUS_SCHEMA = `
create table note (id integer primary key, title varchar(80) not null, text text, owner integer not null, chat_id integer);
create table chat (id integer primary key, chat_id integer, name text, owner integer);
create table score (id integer primary key, player varchar(40) not null, points integer not null);
create table testing (id integer, value integer);
create table forecast (id integer, temperature real);
create table account (id integer primary key, email varchar(80) not null unique, nick varchar(80) not null unique, name text);
create table photo (id integer primary key, url text not null);
create table shape (id integer primary key, shape_id text, lat real, lon real, place integer, far real);
create table job (id integer primary key, state text not null, value integer);
create table link (chat_id integer not null, note_id integer not null, primary key (chat_id, note_id));
`;

export const WRONG_STATEMENTS: readonly WrongStatement[] = [
  {
    from: 'TryGhost/node-sqlite3#1014',
    sql: 'select * from note where title = test',
    at: 'test',
  },
  {
    from: 'WiseLibs/better-sqlite3#222',
    sql: 'select * from score where player = ? and guild = ?',
    at: 'guild',
  },
  {
    from: 'TryGhost/node-sqlite3#1688',
    sql: 'select length(n.title) as count, id from note as n left join chat as c on n.chat_id = c.id where count > ?',
    at: 'id from',
  },
  {
    from: '3s3s/opentrade#187',
    sql: 'select rowid as id, name from account where id = undefined',
    at: 'undefined',
    postgres: 'rowid',
    mysql: 'rowid',
  },
  {
    from: 'miguelgrinberg/flasky#428',
    sql: 'select account.id, account.about_me from account where account.name = ?',
    at: 'account.about_me',
  },
  {
    from: 'dogsheep/swarm-to-sqlite#8',
    sql: 'insert into photo (id, url, hasSticker) values (?, ?, ?)',
    at: 'hasSticker',
  },
  {
    from: 'sqldelight/sqldelight#3270',
    sql: 'select note.id from note join chat on chat.id = chat_id where note.id = ?',
    at: 'chat_id where',
  },
  {
    from: 'WordPress/sqlite-database-integration#228',
    sql: 'select n.title from chat as n1 join account as n2 on n2.id = n1.owner join note n on n.owner = n2.id order by name',
    at: 'name',
  },
  {
    from: 'pawelsalawa/sqlitestudio#4228',
    sql: 'select id, value from testing t1, testing t2 where t1.value = t2.value and t1.id != t2.id',
    at: 'id, value',
  },
  {
    from: 'ankane/dbx#25',
    sql: 'insert into forecast (id, temperature) values (?, ?) on conflict (id) do update set temperature = excluded.temperature',
    at: 'insert',
    postgres: null,
    mysql: 'conflict',
  },
  {
    from: 'yiisoft/db-sqlite#394',
    sql: 'insert into account (id, email, nick) values (?, ?, ?) on conflict (email, nick) do update set email = excluded.email',
    at: 'insert',
    postgres: null,
    mysql: 'conflict',
  },
  {
    from: 'coleifer/peewee#456',
    sql: 'select chat.id, count(note.id) from chat join note on note.chat_id = chat.id where count(note.id) > 0',
    at: 'select',
    postgres: 'count(note.id) > 0',
  },
  {
    from: 'tursodatabase/turso#2032',
    sql: 'select sum(min(value)) from job',
    at: 'select',
    postgres: 'min(value)',
  },
  { from: 'magfest/ubersystem#3406', sql: "select date_trunc('month', state) from job", at: 'date_trunc' },
  {
    from: 'requery/requery#614',
    sql: 'select n.id, n.title from note n union select * from account',
    at: 'select n.id',
    postgres: '* from account',
  },
  {
    from: 'tobimensch/termsql#7',
    sql: 'insert into shape values (?, ?, ?, ?, ?)',
    at: 'insert',
    postgres: null,
  },
  {
    from: 'Kitura/Swift-Kuery#20',
    sql: 'select * from job offset 2',
    at: '2',
    postgres: null,
    mariadb: 'select',
  },
  {
    from: 'rjwalters/vibesql#4491',
    sql: 'select id from job union select id + 100 from job order by value + 101',
    at: 'select id',
    postgres: 'value',
    mysql: 'value',
  },
  {
    from: 'drizzle-team/drizzle-orm#3075',
    sql: "select * from account where name ilike '%a%'",
    at: 'ilike',
    postgres: null,
  },
  {
    from: 'web2py/pydal#568',
    sql: 'select * from job where id = ? for update',
    at: 'for',
    postgres: null,
    mysql: null,
  },
  {
    from: 'frappe/frappe#35774',
    sql: 'update note inner join chat on chat.id = note.chat_id set text = chat.name',
    at: 'inner',
    mysql: null,
  },
  {
    from: 'gluesql/gluesql#1062',
    sql: 'select (select 1, 2) from job',
    at: 'select',
    postgres: '(select 1, 2)',
  },
  { from: 'korma/Korma#152', sql: 'select count(account.*) as count from account', at: '*', postgres: null },
  {
    from: 'Expensify/Bedrock#97',
    sql: 'select value from job order by value desc union all select value from job',
    at: 'select value',
    postgres: 'union',
    mysql: 'union',
  },
  {
    from: 'requery/requery#614',
    sql: 'select * from inner join chat on chat.id = ?',
    at: 'inner',
    postgres: 'join',
  },
  {
    from: 'frappe/books#667',
    sql: "insert into photo (created, url) values ('2023-06-20', 'a')",
    at: 'created',
  },
  {
    from: 'digitallyinduced/ihp#1035',
    sql: 'select note.id from note inner join chat on chat.id = note.chat_id where id in (?)',
    at: 'id in',
  },
  {
    from: 'kysely-org/kysely#1285',
    sql: 'select chat_id from link union select id, owner from note',
    at: 'select chat_id',
    postgres: 'id, owner',
  },
];

/** Beginning of a program whose requests use a database. It is one line. */
export const PROGRAM_HEAD =
  "import { Depends, Svc } from 'svc'; import { db, sql } from 'svc/db'; const app = new Svc(); const used = { db: Depends(db) };\n";

/** Returns a program that sends a statement with values that are not known, on its third line. */
export function programOf(sql: string): string {
  return `${PROGRAM_HEAD}app.get('/', used, async ({ db, values }) => {\n  await db.execute(${JSON.stringify(sql)}, values);\n});\n`;
}

/** Returns a program with the 28 queries of Chinook. */
export function chinookProgram(): string {
  const source = readFileSync(join(ROOT, 'test/db/chinook.integration.test.ts'), 'utf8');
  const from = source.indexOf('/** Filter of the search');
  const code = source.slice(from, source.indexOf('/** Decimals and sums are text'));
  const names = [...code.matchAll(/^ {2}'([^']+)': (\(|async|\(tx)/gm)].map(([, name]) => name!);
  const calls = names.map((name) =>
    new RegExp(`'${name}': (?:\\(tx|async)`).test(code)
      ? `  await db.transaction(WRITES['${name}']);`
      : `  await db.fetchAll(READS['${name}'](db.dialect));`,
  );
  const types =
    "import type { Dialect, Session, Sql } from 'svc/db'; const isMySql = (dialect: Dialect) => dialect === 'mysql';\n";
  return `${PROGRAM_HEAD}${types}${code}\napp.get('/', used, async ({ db }) => {\n${calls.join('\n')}\n});\n`;
}
