/**
 * Rules about SQL statements: each statement of the sources is described by the engine of its database, with the
 * schema of the migrations. See statements/judge.ts.
 */
import type { SourceRule } from '../sources.ts';

/** Rules about SQL statements, sorted by id. */
export const STATEMENT_RULES: readonly SourceRule[] = [
  {
    id: 'SVC411',
    severity: 'error',
    why: 'A statement that the database refuses fails for each request that sends it, with status 500',
    remedy: 'Correct the statement, or add the migration that it needs',
    wrong: "db.fetchAll('select nmae from artist')",
    right: "db.fetchAll('select name from artist')",
  },
  {
    id: 'SVC412',
    severity: 'error',
    why: 'A row without a column for each member of the class in "as" is refused with E_DB_ROW, so each response is a 500',
    remedy:
      'Select a column for each member, or declare a class with fewer members: Note.pick("id", "title")',
    wrong: "db.fetchAll('select id from note', [], { as: Note })",
    right: "db.fetchAll('select id, title from note', [], { as: Note })",
  },
  {
    id: 'SVC413',
    severity: 'error',
    why: 'A value of another type than the member in "as" is refused with E_DB_ROW, so each response is a 500',
    remedy: 'Declare the member with the type of the column, or convert the column in the statement',
    wrong: 'class Note extends Schema { id = Field(str); }  // id is an integer column',
    right: 'class Note extends Schema { id = Field(int); }',
  },
  {
    id: 'SVC414',
    severity: 'warning',
    why: 'A row with NULL in a member that is not nullable is refused with E_DB_ROW, and so are all rows of its result',
    remedy: 'Declare the member as nullable(…), write coalesce(…), or add "is not null" to the conditions',
    wrong: 'class Note extends Schema { text = Field(str); }  // the column text may be NULL',
    right: 'class Note extends Schema { text = Field(nullable(str)); }',
  },
  {
    id: 'SVC415',
    severity: 'error',
    why: 'A value of another type than its column is refused by a server. SQLite stores it as it is, or never finds a row by it',
    remedy: 'Pass a value of the type of the column',
    wrong: "db.execute('update note set state = ? where id = ?', ['opne', id])",
    right: "db.execute('update note set state = ? where id = ?', ['open', id])",
  },
  {
    id: 'SVC416',
    severity: 'warning',
    why: 'A server refuses a text that is longer than its column, and the response is a 500 instead of a 422',
    remedy: 'Limit the length of the input to the length of the column',
    wrong: 'title = Field(str)  // written to a varchar(80)',
    right: 'title = Field(str, { maxLength: 80 })',
  },
  {
    id: 'SVC417',
    severity: 'error',
    why: 'An insert without a value for a column that is not null and has no default always fails',
    remedy: 'Add the column to the insert, or give it a default in a migration',
    wrong: "db.execute('insert into note (text) values (?)', [text])  // title is not null",
    right: "db.execute('insert into note (title, text) values (?, ?)', [title, text])",
  },
  {
    id: 'SVC418',
    severity: 'warning',
    why: 'If several rows match, the database returns any one of them, and not always the same one',
    remedy: 'Compare the columns of a unique key, or add "order by" and "limit 1", or a unique index',
    wrong: "db.fetchOne('select * from account where name = ?', [name])",
    right: "db.fetchOne('select * from account where email = ?', [email])  // email is unique",
  },
  {
    id: 'SVC419',
    severity: 'warning',
    cwe: [213],
    sources: ['OWASP API3:2023 Broken Object Property Level Authorization'],
    why: 'A later migration adds a column, such as a hash of a password, and every client receives it',
    remedy:
      'Name the columns, read the rows with "as", or declare the schema of the response: response: list(Note)',
    wrong: "app.get('/notes', { db: Depends(db) }, ({ db }) => db.fetchAll('select * from note'))",
    right: "… db.fetchAll('select id, title from note')",
  },
  {
    id: 'SVC421',
    severity: 'error',
    why: 'Without a database, only the file of --statements says whether a statement fits the schema',
    remedy:
      'Describe the statements again: svc check <module> --statements <file> --database <url>, and commit the file',
    wrong: 'a new migration, and statements.lock as before',
    right: 'svc check src/app.ts --statements statements.lock --database "$URL" after each new migration',
  },
  {
    id: 'SVC422',
    severity: 'error',
    why: 'While a deployment runs, the previous release still sends its statements to the migrated database',
    remedy:
      'Deploy in two steps: first a release that no longer sends the statement, then the migration that removes what it needs',
    wrong: 'alter table note drop column title;  -- the previous release selects it',
    right: 'alter table note add column name text;  -- and drop title with a later release',
  },
  {
    id: 'SVC423',
    severity: 'warning',
    cwe: [1188, 276],
    sources: ['PostgreSQL: ALTER TABLE, Building Indexes Concurrently'],
    why: 'A default applies to each row that a statement inserts without the column, and to all rows that are there',
    remedy:
      'Give rights by a statement of their own, and let the default be the least: is_admin boolean not null default false',
    wrong: 'alter table person add column is_admin boolean not null default true;',
    right: 'alter table person add column is_admin boolean not null default false;',
  },
];
