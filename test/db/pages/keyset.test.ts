/** Mistakes in lists of KeysetPages: the error names the columns and what to do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { KeysetPages, openDatabase, sql, type KeysetPagesOptions, type Sql } from '../../../src/db/index.ts';

const ROWS = sql`select * from entry`;

for (const [what, orderBy, query, message] of [
  [
    'two rows are equal in one column',
    { label: 'asc' },
    ROWS,
    /: two rows have equal values in the sort columns "label": add a unique column to "orderBy"$/,
  ],
  [
    'two rows are equal in all of several columns',
    { label: 'asc', stars: 'desc' },
    ROWS,
    /: two rows have equal values in the sort columns "label", "stars": add a unique column to "orderBy"$/,
  ],
  [
    'two rows are equal in a column of bytes',
    { bytes: 'asc' },
    ROWS,
    /: two rows have equal values in the sort columns "bytes": /,
  ],
  [
    'a column is NULL',
    { absent: 'asc', id: 'asc' },
    ROWS,
    /: the column "absent" is NULL in a row: write "asc nulls last" or "desc nulls last" for a column that may be NULL$/,
  ],
  [
    'a column has an infinite number',
    { wide: 'asc', id: 'asc' },
    ROWS,
    /: the sort column "wide" contains Infinity, but a cursor can contain only text, bytes, true, false and finite numbers$/,
  ],
] as readonly (readonly [string, KeysetPagesOptions['orderBy'], Sql, RegExp])[])
  test(`KeysetPages refuses a list if ${what}`, async () => {
    await using db = await openDatabase('sqlite::memory:');
    await db.script(`create table entry (id integer primary key, label text, stars integer, bytes blob, absent text, wide real);
      insert into entry values (1, 'a', 5, x'01', null, 9e999), (2, 'a', 5, x'01', null, 9e999), (3, 'b', 4, x'02', null, 9e999)`);
    const pages = new KeysetPages({ orderBy, secret: 'cursors-of-a-test-0123456789abcdef' });
    await assert.rejects(pages.fetch(db, query, { query: { size: 1, cursor: undefined } }), (error) => {
      assert.match((error as Error).message, message);
      return (error as { code?: string }).code === 'E_DB_PAGE';
    });
  });

test('KeysetPages accepts rows that differ only in the last sort column, and bytes that differ in one byte', async () => {
  await using db = await openDatabase('sqlite::memory:');
  await db.script(
    `create table entry (id integer primary key, bytes blob); insert into entry values (1, x'0101'), (2, x'0102'), (3, x'0102')`,
  );
  for (const orderBy of [{ bytes: 'asc', id: 'asc' }, { id: 'desc' }] as const) {
    const pages = new KeysetPages({ orderBy, secret: 'cursors-of-a-test-0123456789abcdef' });
    const found: unknown[] = [];
    for (let cursor: string | undefined, round = 0; round === 0 || cursor !== undefined; round++) {
      const page = await pages.fetch(db, ROWS, { query: { size: 1, cursor } });
      found.push(...page.items.map(({ id }) => id));
      cursor = page.next ?? undefined;
    }
    assert.deepEqual(found, 'bytes' in orderBy ? [1, 2, 3] : [3, 2, 1]);
  }
});
