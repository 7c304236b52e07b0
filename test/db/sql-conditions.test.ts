/**
 * Conditions, lists, assignments and rows of `sql`: their text for each dialect, their refusals, and their
 * truth on SQLite, compared with three-valued logic in JavaScript.
 */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openDatabase, sql } from '../../src/db/index.ts';
import { fault } from '../contract/database.ts';
import { seeded } from '../support/random.ts';
import type { FaultCode } from '../../src/base/faults.ts';
import type { Dialect, Sql, SqlCondition } from '../../src/db/index.ts';

const DIALECTS: readonly Dialect[] = ['sqlite', 'postgres', 'mysql', 'mariadb'];

/** Builder, text for SQLite and PostgreSQL, text for MySQL and MariaDB, and values. */
const RENDERED: readonly (readonly [Sql, string, string, readonly unknown[]])[] = [
  [sql.and(), '1 = 1', '1 = 1', []],
  [sql.or(), '1 = 0', '1 = 0', []],
  [sql.and(undefined, null, false), '1 = 1', '1 = 1', []],
  [sql.or(undefined, null, false), '1 = 0', '1 = 0', []],
  [sql.and(sql`a = ${1}`), '((a = ?))', '((a = ?))', [1]],
  [
    sql.and(sql`a = ${1} or b = ${2}`, false, sql`c = ${3}`),
    '((a = ? or b = ?) and (c = ?))',
    '((a = ? or b = ?) and (c = ?))',
    [1, 2, 3],
  ],
  [sql`not ${sql.or(sql`a = ${1}`, sql`b`)}`, 'not ((a = ?) or (b))', 'not ((a = ?) or (b))', [1]],
  [sql.in(sql`a`, []), '1 = 0', '1 = 0', []],
  [sql.in(sql`a`, new Set(['x', 'y'])), 'a in (?, ?)', 'a in (?, ?)', ['x', 'y']],
  [sql.in(sql`a`, [1, null]), '(a in (?) or a is null)', '(a in (?) or a is null)', [1]],
  [sql.in(sql`a`, [null]), 'a is null', 'a is null', []],
  [
    sql.in(sql.identifier('t', 'a'), [1, sql`max(${2})`]),
    '"t"."a" in (?, max(?))',
    '`t`.`a` in (?, max(?))',
    [1, 2],
  ],
  [sql.set({ a: 1, b: null }, ['b', 'a']), '"b" = ?, "a" = ?', '`b` = ?, `a` = ?', [null, 1]],
  [
    sql.set({ a: undefined as number | undefined, hits: sql`hits + ${1}`, admin: true }, ['a', 'hits']),
    '"hits" = hits + ?',
    '`hits` = hits + ?',
    [1],
  ],
  [sql.set({ createdAt: 'x' }, { createdAt: 'created_at' }), '"created_at" = ?', '`created_at` = ?', ['x']],
  [sql.values([[1, 'x'], [2, sql`now()`]]), 'values (?, ?), (?, now())', 'values (?, ?), (?, now())', [1, 'x', 2]], // prettier-ignore
  [
    sql.values([{ id: 1, name: 'x', isAdmin: true }], ['id', 'name']),
    '("id", "name") values (?, ?)',
    '(`id`, `name`) values (?, ?)',
    [1, 'x'],
  ],
  [
    sql.values([{ id: 1, createdAt: null }], { id: 'id', createdAt: 'created_at' }),
    '("id", "created_at") values (?, ?)',
    '(`id`, `created_at`) values (?, ?)',
    [1, null],
  ],
  [
    sql.upsert(['a', 'b'], ['c', sql`hits = t.hits + ${1}`]),
    'on conflict ("a", "b") do update set "c" = excluded."c", hits = t.hits + ?',
    'on duplicate key update `c` = values(`c`), hits = t.hits + ?',
    [1],
  ],
  [sql.upsert(['a'], []), 'on conflict ("a") do nothing', 'on duplicate key update `a` = `a`', []],
];

test('the builders of sql render conditions, lists, assignments, rows and upserts for each dialect', () => {
  for (const [query, standard, ofMySql, params] of RENDERED) {
    for (const dialect of DIALECTS)
      assert.equal(query.text(dialect), dialect.startsWith('m') ? ofMySql : standard);
    assert.deepEqual(query.params, params);
    // each of them can be a part of another template
    assert.equal(sql`x ${query} y ${0}`.text('sqlite'), `x ${standard} y ?`);
    assert.deepEqual(sql`x ${query} y ${0}`.params, [...params, 0]);
  }
});

const REFUSED: readonly (readonly [string, FaultCode, () => unknown])[] = [
  ['a text as a condition', 'E_DB_FRAGMENT', () => sql.and('a = 1' as never)],
  ['an empty text as a condition', 'E_DB_FRAGMENT', () => sql.and('' as never, sql`a`)],
  ['0 as a condition', 'E_DB_FRAGMENT', () => sql.or(0 as never)],
  ['true as a condition', 'E_DB_FRAGMENT', () => sql.or(true as never)],
  ['a text as an expression', 'E_DB_FRAGMENT', () => sql.in('a' as never, [1])],
  ['a text as a list', 'E_DB_FRAGMENT', () => sql.in(sql`a`, 'abc' as never)],
  ['undefined as a list', 'E_DB_FRAGMENT', () => sql.in(sql`a`, undefined as never)],
  ['an empty patch', 'E_DB_FRAGMENT', () => sql.set({}, ['a'] as never)],
  ['a patch without a listed member', 'E_DB_FRAGMENT', () => sql.set({ b: 1, a: undefined }, ['a'] as never)],
  ['an inherited member', 'E_DB_FRAGMENT', () => sql.set(Object.create({ a: 1 }) as { a: number }, ['a'])],
  ['a patch that is null', 'E_DB_FRAGMENT', () => sql.set(null as never, ['a'] as never)],
  ['a patch without columns', 'E_DB_FRAGMENT', () => sql.set({ a: 1 }, [])],
  ['a patch with a text as columns', 'E_DB_FRAGMENT', () => sql.set({ a: 1 }, 'a' as never)],
  ['a patch with undefined columns', 'E_DB_FRAGMENT', () => sql.set({ a: 1 }, undefined as never)],
  ['a column with NUL', 'E_DB_IDENTIFIER', () => sql.set({ 'a\0': 1 }, ['a\0'])],
  ['no rows', 'E_DB_FRAGMENT', () => sql.values([])],
  ['no rows with columns', 'E_DB_FRAGMENT', () => sql.values([] as { a: number }[], ['a'])],
  ['empty rows', 'E_DB_FRAGMENT', () => sql.values([[]])],
  ['rows of different lengths', 'E_DB_FRAGMENT', () => sql.values([[1], [1, 2]])],
  ['a row without a listed member', 'E_DB_FRAGMENT', () => sql.values([{ a: 1 }, {}], ['a'] as never)],
  ['a value that is undefined', 'E_DB_FRAGMENT', () => sql.values([[1, undefined as never]])],
  ['objects without columns', 'E_DB_FRAGMENT', () => sql.values([{ a: 1 }] as never)],
  ['a text as rows', 'E_DB_FRAGMENT', () => sql.values('ab' as never)],
  ['bytes as a list', 'E_DB_FRAGMENT', () => sql.in(sql`a`, Buffer.from('abc'))],
  ['a String object as a list', 'E_DB_FRAGMENT', () => sql.in(sql`a`, new String('abc'))],
  ['a text as the key of an upsert', 'E_DB_FRAGMENT', () => sql.upsert('id' as never, ['a'])],
  ['a text as the changes of an upsert', 'E_DB_FRAGMENT', () => sql.upsert(['id'], 'ab' as never)],
  ['an upsert without a list of changes', 'E_DB_FRAGMENT', () => sql.upsert(['id'], undefined as never)],
  ['an upsert without a key', 'E_DB_FRAGMENT', () => sql.upsert([], ['a'])],
  ['an upsert of an invalid name', 'E_DB_IDENTIFIER', () => sql.upsert(['a'], [''])],
];

for (const [what, code, build] of REFUSED)
  test(`a builder of sql refuses ${what}`, () => {
    assert.throws(build, fault(code));
  });

/** A condition as SQL, and its value by three-valued logic: true, false, or null for unknown. */
interface Judged {
  readonly condition: Sql;
  readonly truth: boolean | null;
}

const ABSENT: readonly SqlCondition[] = [undefined, null, false];

type Value = number | null;
const isNot = (truth: boolean | null): boolean | null => (truth === null ? null : !truth);
const all = (truths: readonly (boolean | null)[]): boolean | null =>
  truths.includes(false) ? false : truths.includes(null) ? null : true;

/** Returns a random condition over the columns `a` and `b`, and its truth for the given values. */
function generated(
  random: (below: number) => number,
  row: Readonly<Record<'a' | 'b', Value>>,
  depth: number,
): Judged {
  const name = random(2) === 0 ? 'a' : 'b';
  const [column, value] = [sql.identifier(name), row[name]];
  const kind = depth === 0 ? random(2) : random(5);
  if (kind === 0) {
    const other = random(3);
    return { condition: sql`${column} = ${other}`, truth: value === null ? null : value === other };
  }
  if (kind === 1) {
    const list = Array.from({ length: random(4) }, (): Value => (random(4) === 0 ? null : random(3)));
    const isUnknown = value === null && list.length > 0 && !list.includes(null);
    return { condition: sql.in(column, list), truth: isUnknown ? null : list.includes(value) };
  }
  if (kind === 2) {
    const { condition, truth } = generated(random, row, depth - 1);
    return { condition: sql`not ${condition}`, truth: isNot(truth) };
  }
  const parts = Array.from({ length: random(4) }, () => generated(random, row, depth - 1));
  const given = parts.flatMap<SqlCondition>(({ condition }) =>
    random(3) === 0 ? [ABSENT[random(3)], condition] : [condition],
  );
  const truths = parts.map(({ truth }) => truth);
  return kind === 3
    ? { condition: sql.and(...given), truth: all(truths) }
    : { condition: sql.or(...given), truth: isNot(all(truths.map(isNot))) };
}

test('generated trees of sql.and(), sql.or(), sql.in() and not have the truth on SQLite that three-valued logic gives', () => {
  using database = new DatabaseSync(':memory:');
  const random = seeded(56);
  const seen = new Set<boolean | null>();
  for (let round = 0; round < 4_000; round++) {
    const value = (): Value => [null, 0, 1, 2][random(4)]!;
    const row = { a: value(), b: value() };
    const { condition, truth } = generated(random, row, 3);
    const query = sql`select case when ${condition} then 1 when not (${condition}) then 0 end as truth
      from (select ${row.a} as a, ${row.b} as b)`;
    const found = database.prepare(query.text('sqlite')).get(...(query.params as Value[]))!;
    assert.equal(found['truth'], truth === null ? null : Number(truth), query.text('sqlite'));
    seen.add(truth);
  }
  assert.equal(seen.size, 3);
});

test('a statement with more values than the engine allows is refused with the name of insertMany()', async () => {
  await using db = await openDatabase('sqlite::memory:');
  const ids = (count: number): number[] => Array.from({ length: count }, (_, id) => id);
  assert.equal(await db.scalar(sql`select 1 where ${sql.in(sql`32765`, ids(32_766))}`), 1);
  await assert.rejects(db.scalar(sql`select 1 where ${sql.in(sql`1`, ids(32_767))}`), (error) => {
    assert.ok(fault('E_DB_STATEMENT')(error));
    assert.match(String(error), /more than 32766 placeholders.*insertMany/);
    return true;
  });
});
