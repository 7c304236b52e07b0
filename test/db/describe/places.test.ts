/** Places of mistakes in the text of a statement, from the messages of the engines. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { placeOf, quotedTokens } from '../../../src/db/describe/places.ts';
import { StatementError } from '../../../src/db/errors.ts';
import type { Dialect } from '../../../src/db/driver.ts';

for (const [dialect, text, message, rest] of [
  ['sqlite', 'select * form item', 'near "form": syntax error', 'form item'],
  ['sqlite', "select 'a", `unrecognized token: "'a"`, "'a"],
  ['sqlite', 'select nme from item', 'no such column: nme', 'nme from item'],
  ['sqlite', 'select "nme" from item', 'no such column: "nme" - should this be a string literal in single-quotes?', '"nme" from item'], // prettier-ignore
  ['sqlite', 'select i.nme from item i', 'no such column: i.nme', 'i.nme from item i'],
  ['sqlite', 'select id from itm', 'no such table: itm', 'itm'],
  ['sqlite', 'select foo(1)', 'no such function: foo', 'foo(1)'],
  ['sqlite', 'select id from a, b', 'ambiguous column name: id', 'id from a, b'],
  ['sqlite', 'insert into item (nme) values (1)', 'table item has no column named nme', 'nme) values (1)'],
  ['sqlite', 'select abs(1, 2)', 'wrong number of arguments to function abs()', 'abs(1, 2)'],
  // a column of a table, or an alias, counts only if there is no other place
  ['sqlite', 'select b.id, id from b', 'ambiguous column name: id', 'id from b'],
  ['sqlite', 'select 1 as x, x from item', 'no such column: x', 'x from item'],
  ['sqlite', 'select b.id from b', 'ambiguous column name: id', 'id from b'],
  ['sqlite', 'select 1 as x', 'no such column: x', 'x'],
  ['sqlite', "select 'nme', nme from item", 'no such column: nme', 'nme from item'],
  ['sqlite', 'select NME from item', 'no such column: nme', 'NME from item'],
  ['sqlite', 'select other from item', 'no such column: nme', undefined],
  ['sqlite', 'select 1', 'something else', undefined],
  ['mysql', 'select * form item', "You have an error near 'form item' at line 1", 'form item'],
  ['mysql', 'select * form item ', "You have an error near 'form item' at line 1", 'form item '],
  ['mysql', 'select 1 x y from item where a', "You have an error near 'y from item' at line 1", 'y from item where a'], // prettier-ignore
  ['mysql', 'select 1', "You have an error near 'other' at line 1", undefined],
  ['mysql', 'select nme from item', "Unknown column 'nme' in 'field list'", 'nme from item'],
  ['mysql', 'select i.nme from item i', "Unknown column 'i.nme' in 'SELECT'", 'i.nme from item i'],
  ['mysql', 'select id from itm', "Table 'shop.itm' doesn't exist", 'itm'],
  ['mariadb', 'select foo(1)', 'FUNCTION shop.foo does not exist', 'foo(1)'],
  ['mysql', 'select `nme` from item', "Unknown column 'nme' in 'field list'", '`nme` from item'],
] as readonly (readonly [Dialect, string, string, string | undefined])[])
  test(`placeOf() finds ${rest === undefined ? 'no place' : `"${rest}"`} in "${text}" on ${dialect}: ${message}`, () => {
    const place = placeOf(new StatementError(message, { sql: text }), text, dialect);
    assert.equal(place === undefined ? undefined : text.slice(place), rest);
  });

for (const [text, sent, position, rest] of [
  ['select nme', 'select nme', 8, 'nme'],
  ["select '😀', nme", "select '😀', nme", 13, 'nme'],
  ['select ?, nme', 'select $1, nme', 12, 'nme'],
  ['select ? + ?, nme', 'select $1 + $2, nme', 17, 'nme'],
  ['select a ?? b, nme', 'select a ? b, nme', 15, 'nme'],
  ['select 1', 'select 1', 99, ''],
] as const)
  test(`placeOf() converts the position ${position} of PostgreSQL in "${sent}" to a place in "${text}"`, () => {
    const error = new StatementError('no', { sql: sent, position });
    assert.equal(text.slice(placeOf(error, text, 'postgres')), rest);
  });

test('placeOf() finds no place if PostgreSQL reports no position', () => {
  assert.equal(placeOf(new StatementError('no', { sql: 'select 1' }), 'select 1', 'postgres'), undefined);
});

test('quotedTokens() returns every token that a syntax error of SQLite quotes', () => {
  const starts = (message: string): number[] => quotedTokens(message, 'a b a "a"').map(({ start }) => start);
  assert.deepEqual(starts('near "a": syntax error'), [0, 4]);
  assert.deepEqual(starts('near "c": syntax error'), []);
  assert.deepEqual(starts('no such column: a'), []);
});
