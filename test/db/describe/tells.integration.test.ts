/**
 * The table of src/db/README.md about what each engine tells when it prepares a statement, measured by probes.
 *
 * A row is "known" if the engine tells the answer of each probe, "partly" if of some, and "unknown" if of none.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { openDatabase } from '../../../src/db/index.ts';
import { DatabaseDescriber } from '../../../src/db/describe/describer.ts';
import { ROOT } from '../../support/build.ts';
import { onEveryDatabase } from '../../support/every-database.ts';
import type { Dialect } from '../../../src/db/driver.ts';

type Description = Awaited<ReturnType<DatabaseDescriber['describeStatement']>>;
/** Whether the engine tells the answer. */
type Asks = (found: Description) => boolean;

const TABLES = `
  create table author (id bigint primary key, name varchar(100) not null, born date);
  create table book (id bigint primary key, title varchar(20) not null, author_id bigint not null, n int, price numeric(6,2));
  create view shelf as select id, title, n from book`;

const refuses: Asks = ({ kind }) => kind === 'refused';
const places: Asks = (found) => found.kind === 'refused' && found.position !== undefined;
const column =
  (asks: (column: (Description & { kind: 'described' })['columns'][number]) => boolean): Asks =>
  (found) =>
    found.kind === 'described' && found.columns.length > 0 && found.columns.every(asks);
const parameters: Asks = (found) =>
  found.kind === 'described' && found.parameters.every(({ type }) => type !== undefined);
const typed = column(({ kind }) => kind !== undefined);
const comes = column((each) => each.table === 'book' && each.column === 'title');
const mayBeNull = column(({ isNullable }) => isNullable === true);
const isNeverNull = column(({ isNullable }) => isNullable === false);

/** Rows of the table: their names, the answer, and the statements about which it is asked. */
const ROWS: readonly (readonly [row: string, asks: Asks, statements: readonly string[]])[] = [
  [
    'a syntax error',
    refuses,
    [
      'selec id from book',
      'select id form book where 1 = 1',
      'select id from book where',
      'update book n = 1',
    ],
  ],
  [
    'a table or column that does not exist',
    refuses,
    [
      'select id from books',
      'select titel from book',
      'insert into book (titel) values (?)',
      'update book set titel = ?',
      'select b.nme from author b',
    ],
  ],
  [
    'a function that does not exist',
    refuses,
    ['select nope(n) from book', 'select id from book where nope(?) = 1'],
  ],
  [
    'an ambiguous name',
    refuses,
    [
      'select id from book join author on author.id = author_id',
      'select n from book b join book c on b.id = c.id',
    ],
  ],
  [
    'another number of values than columns',
    refuses,
    [
      'insert into book (id, title) values (?)',
      'insert into book (id) values (?, ?)',
      'select 1 union select 1, 2',
    ],
  ],
  [
    'a column that is not grouped',
    refuses,
    ['select title, count(*) from book', 'select title, n from book group by n'],
  ],
  [
    'types that do not compare',
    refuses,
    [
      'select id from book where title = 5',
      'select id from author where born = 5',
      'select id from book where n = title',
    ],
  ],
  [
    'a wrong statement that changes tables',
    refuses,
    ['drop table nope', 'alter table nope add column x int', 'create index i on book (nope)'],
  ],
  [
    'the place of a mistake',
    places,
    [
      'select titel from book',
      'select id from books',
      'selec id from book',
      'select nope(n) from book',
      'insert into book (id, title) values (?)',
    ],
  ],
  [
    'types of parameters',
    parameters,
    [
      'select id from book where id = ?',
      'insert into book (id, title) values (?, ?)',
      'update book set n = n + ?',
    ],
  ],
  [
    'the type of a column of a table',
    typed,
    ['select title, price, n from book', 'select s.title from (select title from book) s'],
  ],
  [
    'the type of an expression',
    typed,
    ['select count(*) from book', 'select n + 1 from book', 'select max(price) from book'],
  ],
  [
    'the table from which a column comes',
    comes,
    [
      'select title from book',
      'select b.title as x from book b',
      'insert into book (id, title, author_id) values (1, ?, 2) returning title',
    ],
  ],
  [
    'the table of a column in subqueries and views',
    comes,
    [
      'select s.title from (select title from book) s',
      'with s as (select title from book) select title from s',
      'select title from shelf',
    ],
  ],
  [
    'that a column of a table may be NULL',
    mayBeNull,
    ['select n from book', 'select price, n from book where id = ?'],
  ],
  [
    'that a column of a table is never NULL',
    isNeverNull,
    ['select title from book', 'select author_id from book where n = ?'],
  ],
  [
    'that an outer join adds NULL',
    mayBeNull,
    ['select a.name from book b left join author a on a.id = b.author_id'],
  ],
];

const COLUMNS: Readonly<Record<Dialect, string>> = {
  sqlite: 'SQLite',
  postgres: 'PostgreSQL',
  mariadb: 'MariaDB',
  mysql: 'MySQL',
};

onEveryDatabase('the manual says what the engine tells when it prepares a statement', async (db, url) => {
  const expected = manual(COLUMNS[db.dialect]);
  await db.script(TABLES);
  const options = { snakeCase: false, hash: '', ownTypes: new Set<string>(), timeoutMs: 10_000 };
  await using describer = await DatabaseDescriber.open(await openDatabase(url, { readOnly: true }), options);
  const measured: string[] = [];
  for (const [row, asks, statements] of ROWS) {
    const answers: boolean[] = [];
    for (const text of statements) answers.push(asks(await describer.describeStatement(text)));
    const word = answers.every(Boolean) ? 'known' : answers.some(Boolean) ? 'partly' : 'unknown';
    measured.push(`${row}: ${word}`);
  }
  assert.deepEqual(expected, measured);
});

/** Returns the cells of a column of the table in the manual, each behind the name of its row. */
function manual(engine: string): readonly string[] {
  const text = readFileSync(join(ROOT, 'src/db/README.md'), 'utf8');
  const lines = /^\| prepared \|[\s\S]*?(?=\n\n)/m.exec(text)?.[0].split('\n') ?? [];
  const cells = lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
  const index = cells[0]?.indexOf(engine) ?? -1;
  return cells.slice(2).map((row) => `${row[0]}: ${row[index]}`);
}
