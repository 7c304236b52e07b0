import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sql } from '../../src/db/index.ts';
import { beginTexts } from '../../src/db/dialects.ts';
import { fault } from '../contract/database.ts';

test('the text of sql`…` has a ? for each value, in the order of the values, and contains nested fragments and quoted names', () => {
  const piece = sql`b = ${2} or c = ${'x'}`;
  const query = sql`select ${sql.identifier('t', 'a "quoted" name')} from t where a = ${1} and (${piece}) and d in (${sql.join([3, 4])})`;
  assert.equal(
    query.text('sqlite'),
    'select "t"."a ""quoted"" name" from t where a = ? and (b = ? or c = ?) and d in (?, ?)',
  );
  assert.equal(query.text('postgres'), query.text('sqlite'));
  assert.equal(sql`select ${sql.identifier('a`b')}`.text('mysql'), 'select `a``b`');
  assert.equal(sql`select ${sql.identifier('a')}`.text('mariadb'), 'select `a`');
  assert.deepEqual(query.params, [1, 2, 'x', 3, 4]);
});

test('sql.join() joins fragments with any separator, and joined fragments can contain other sql.join() calls', () => {
  const all = sql.join(
    [sql`a = ${1}`, sql`(${sql.join([sql`b = ${2}`, sql`c = ${3}`], sql` or `)})`],
    sql` and `,
  );
  assert.equal(sql`where ${all}`.text('sqlite'), 'where a = ? and (b = ? or c = ?)');
  assert.deepEqual(all.params, [1, 2, 3]);
  assert.equal(sql.join([1, sql`now()`], sql`, `).text('sqlite'), '?, now()');
});

test('sql`…` accepts 65,535 values in one statement', () => {
  const ids = Array.from({ length: 65_535 }, (_, id) => id);
  const query = sql`select * from t where id in (${sql.join(ids)})`;
  assert.deepEqual(query.params, ids);
  assert.equal(query.text('postgres').split('?').length, 65_536);
});

test('sql`…` returns the same text for a template literal with different values', () => {
  const of = (id: number): ReturnType<typeof sql> => sql`select ${id}`;
  assert.equal(of(1).text('sqlite'), of(2).text('sqlite'));
  assert.deepEqual([of(1).params, of(2).params], [[1], [2]]);
  assert.equal(sql`select 1`.text('sqlite'), 'select 1');
});

test('sql.join() refuses an empty list, because () is not valid SQL', () => {
  assert.throws(() => sql.join([]), fault('E_DB_JOIN'));
});

test('sql.identifier() refuses names that are invalid on every engine', () => {
  for (const name of [
    '',
    'a\0b',
    'half \ud800',
    'x'.repeat(64),
    'ä'.repeat(32),
    5 as never,
    undefined as never,
  ])
    assert.throws(() => sql.identifier(name), fault('E_DB_IDENTIFIER'));
  assert.throws(() => sql.identifier(), fault('E_DB_IDENTIFIER'));
  assert.equal(sql.identifier('x'.repeat(63)).text('sqlite').length, 65);
});

test('beginTexts() returns the statements that begin a transaction with the given options, for each dialect', () => {
  const plain = { isolation: undefined, isReadOnly: false };
  const strict = { isolation: 'serializable', isReadOnly: true } as const;
  assert.deepEqual(
    [beginTexts('sqlite', plain), beginTexts('sqlite', strict)],
    [['begin immediate'], ['begin deferred']],
  );
  assert.deepEqual(
    [beginTexts('postgres', plain), beginTexts('postgres', strict)],
    [['begin'], ['begin isolation level serializable read only']],
  );
  for (const dialect of ['mysql', 'mariadb'] as const) {
    assert.deepEqual(
      [beginTexts(dialect, plain), beginTexts(dialect, strict)],
      [
        ['start transaction'],
        ['set transaction isolation level serializable', 'start transaction read only'],
      ],
    );
  }
});
