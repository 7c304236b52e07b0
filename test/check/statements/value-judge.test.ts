/** Values of declared inputs against columns: types, lengths and words. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { readProject } from '../../../src/check/reader/modules.ts';
import { CORE_RULES } from '../../../src/check/rules/rules.ts';
import { examineSources } from '../../../src/check/examine.ts';
import { DeclaredInputs } from '../../../src/check/values/inputs.ts';
import { project } from '../../support/run.ts';
import type { Svc } from 'svc';
import {
  compileType,
  int,
  literal,
  nullable,
  str,
  uuid,
  Field,
  date,
  planOf,
  Schema,
} from '../../../src/schema/schema.ts';
import { Outline } from '../../../src/check/statements/outline.ts';
import { judgeInsertion, judgeValues } from '../../../src/check/statements/value-judge.ts';
import { KNOWN } from '../../../src/check/values/value.ts';
import type { TypeNode } from '../../../src/schema/schema.ts';
import type { ColumnType, TableColumn, TableDescription } from '../../../src/db/tables.ts';

function column(name: string, type: ColumnType, more: Partial<TableColumn> = {}): TableColumn {
  return {
    name,
    type,
    isNullable: false,
    isGenerated: false,
    default: undefined,
    comment: undefined,
    ...more,
  };
}

const NOTE: TableDescription = {
  name: 'note',
  comment: undefined,
  primaryKey: ['id'],
  uniqueKeys: [],
  foreignKeys: [],
  hasInsertTrigger: false,
  columns: [
    column('id', { kind: 'int' }, { isGenerated: true }),
    column('title', { kind: 'str', options: { maxLength: 80 } }),
    column('key', { kind: 'uuid' }, { isNullable: true }),
    column('day', { kind: 'date' }, { default: 'now()' }),
    column('state', { kind: 'literal', values: ['open', 'done'] }),
  ],
};

class Inputs extends Schema {
  free = Field(str);
  short = Field(str, { maxLength: 80 });
  long = Field(str, { maxLength: 81 });
  shaped = Field(str, { pattern: /^[a-z]{1,9}$/ });
  maybe = Field(nullable(str), { maxLength: 200 });
  one = Field(literal('open'));
  some = Field(literal('open', 'all'));
  none = Field(literal('opne'));
}

function nodeOf(name: string): TypeNode {
  return planOf(Inputs).fields.find((field) => field.name === name)!.node;
}

/** Returns the rules of the problems of a statement with one value of a declared type. */
function rulesOf(sql: string, node: TypeNode): string[] {
  const outline = new Outline(sql, 'postgres');
  const value = { ...KNOWN, declared: { part: undefined, member: () => undefined, node } };
  return judgeValues(outline, [value], { tables: [NOTE], dialect: 'postgres' }).map(({ rule }) => rule);
}

test('a text that may be longer than its column is a problem where it is written (SVC416)', () => {
  const write = 'update note set title = ? where id = 1';
  for (const [name, rules] of [
    ['free', ['SVC416']],
    ['short', []],
    ['long', ['SVC416']],
    ['shaped', []],
    ['maybe', ['SVC416']],
  ] as const)
    assert.deepEqual(rulesOf(write, nodeOf(name)), rules, name);
  assert.deepEqual(rulesOf('select id from note where title = ?', nodeOf('free')), []);
  assert.deepEqual(rulesOf('insert into note (title, state) values (?, 1)', nodeOf('free')), ['SVC416']);
  assert.deepEqual(rulesOf('update note set title = upper(?) where id = 1', nodeOf('free')), []);
});

test('words that a column never holds are a problem unless some of them fit (SVC415)', () => {
  const read = 'select id from note n where n.state = ?';
  assert.deepEqual(rulesOf(read, nodeOf('one')), []);
  assert.deepEqual(rulesOf(read, nodeOf('some')), []);
  assert.deepEqual(rulesOf(read, nodeOf('none')), ['SVC415']);
});

test('values of a type that a column cannot hold are a problem (SVC415)', () => {
  for (const [sql, source, rules] of [
    ['select 1 from note where key = ?', int, ['SVC415']],
    ['select 1 from note where key = ?', uuid, []],
    ['select 1 from note where key = ?', str, []],
    ['select 1 from note where id = ?', uuid, ['SVC415']],
    ['select 1 from note where id = ?', str, []],
    ['select 1 from note where day >= ?', int, ['SVC415']],
    ['select 1 from note where day >= ?', date, []],
    ['select 1 from note where day = ? + 1', int, []],
    ['select 1 from note join chat on chat.id = ?', uuid, []],
  ] as const)
    assert.deepEqual(rulesOf(sql, compileType(source).node), rules, sql);
});

test('an insert needs a value for each column that is not null and has no default (SVC417)', () => {
  const absent = (sql: string, table: TableDescription = NOTE): string[] =>
    judgeInsertion(new Outline(sql, 'postgres'), [table]).map(({ message }) =>
      message.replace(/ of the table.*/, ''),
    );
  assert.deepEqual(absent('insert into note (key) values (?)'), [
    'the insert gives no value for "title", "state"',
  ]);
  assert.deepEqual(absent('insert into "note" ("title", "state") select 1, 2'), []);
  assert.deepEqual(absent('insert into note values (1, 2, 3, 4, 5)'), []);
  assert.deepEqual(absent('insert into other (key) values (?)'), []);
  assert.deepEqual(absent('insert into note (key) values (?)', { ...NOTE, hasInsertTrigger: true }), []);
});

test('a table of another schema, and one of two whose names differ in case, are not judged', () => {
  const insert = (name: string, tables: readonly TableDescription[] = [NOTE]): number =>
    judgeInsertion(new Outline(`insert into ${name} (key) values (?)`, 'postgres'), tables).length;
  assert.equal(insert('public.note'), 1);
  assert.equal(insert('shop.note'), 0);
  assert.equal(insert('"Note"', [NOTE, { ...NOTE, name: 'Note', columns: [] }]), 0);
  const outline = new Outline('update shop.note set title = ? where id = 1', 'postgres');
  assert.deepEqual(
    outline.tables.map(({ name, alias }) => [name, alias]),
    [['shop.note', 'note']],
  );
});

test('a text with a number fits a flag of MySQL, which is a small integer, and none of PostgreSQL (SVC415)', () => {
  const done = { ...NOTE, columns: [column('done', { kind: 'bool' })] };
  const rules = (dialect: 'mysql' | 'postgres', text: string): string[] => {
    const from = [{ text, node: { type: 'text' } }] as never; // the judge reads the kind of the node only
    const value = { texts: [[{ kind: 'literal', text, from } as const]] };
    const outline = new Outline('update note set done = ?', dialect);
    return judgeValues(outline, [value], { tables: [done], dialect }).map(({ rule }) => rule);
  };
  assert.deepEqual([rules('mysql', '7'), rules('postgres', '7')], [[], ['SVC415']]);
  assert.deepEqual([rules('mysql', 'later'), rules('postgres', 'yes')], [['SVC415'], []]);
});

test('an input that is NULL where it is empty keeps the length of its type, also through helpers (SVC416)', async (t) => {
  const cwd = project(t, {
    'app.ts': `import { Depends, Field, Schema, Svc, nullable, str } from 'svc';
import { db, sql, type Database } from 'svc/db';
export const app = new Svc();
class In extends Schema { title = Field(nullable(str), { default: null, maxLength: 2040 }); short = Field(nullable(str), { default: null, maxLength: 20 }); }
interface New { title: string | null }
const change = (db: Database, params: New) => db.execute(sql\`update note set title = \${params.title || null} where id = 3\`);
app.post('/', { db: Depends(db), body: In }, async ({ db, body }) => {
  await db.execute('update note set title = ? where id = 1', [body.title || null]);
  await db.execute('update note set title = ? where id = 2', [body.title ?? undefined]);
  const { title } = body;
  await change(db, { title });
  await db.execute('update note set title = ? where id = 4', [body.short || null]);
  await db.execute('update note set title = ? where id = 5', [body.title === 'x' ? body.title : null]);
});
`,
  });
  const file = join(cwd, 'app.ts');
  const { app } = (await import(pathToFileURL(file).href)) as { readonly app: Svc };
  const inputs = new DeclaredInputs(app.inspect().details);
  const { statements } = examineSources(readProject([file]), CORE_RULES, inputs);
  const found = statements.calls.flatMap((call) =>
    [...call.statements.values()].flatMap((each) => {
      const text = each.text('postgres');
      const about = { tables: [NOTE], dialect: 'postgres' } as const;
      return judgeValues(new Outline(text, 'postgres'), each.values ?? [], about).map(
        ({ rule }) => `${rule} ${/\d$/.exec(text.trim())?.[0]}`,
      );
    }),
  );
  assert.deepEqual(found.sort(), ['SVC416 1', 'SVC416 2', 'SVC416 3']);
});
