/**
 * The tables of every engine as classes: a row of each type of column is read with the class of its table.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { Svc } from '../../src/index.ts';
import { DatabasePlugin } from '../../src/db/index.ts';
import { readTables, type TableDescription } from '../../src/db/tables.ts';
import { sourceOf, writeRowClasses } from '../../src/db/row-classes.ts';
import { ROOT } from '../support/build.ts';
import { onEveryDatabase } from '../support/every-database.ts';
import { folder, write } from '../support/run.ts';
import type { TestContext } from 'node:test';
import type { Database } from '../../src/db/index.ts';
import type { Dialect } from '../../src/db/driver.ts';
import type { SchemaClass } from '../../src/schema/types.ts';

const source = { database: 'database', snakeCase: false, hash: '0123456789abcdef' };

/** Writes the classes of all tables, and imports them. */
async function imported(
  t: TestContext,
  db: Database,
  tables: readonly TableDescription[],
): Promise<Readonly<Record<string, SchemaClass>>> {
  const text = writeRowClasses({ ...source, dialect: db.dialect, tables });
  assert.equal(text, writeRowClasses({ ...source, dialect: db.dialect, tables }));
  assert.deepEqual(sourceOf(text), { database: 'database', dialect: db.dialect, hash: source.hash });
  const index = pathToFileURL(join(ROOT, 'src/index.ts')).href;
  const cwd = folder(t, { 'rows.ts': text.replace("from 'svc'", `from '${index}'`) });
  return (await import(pathToFileURL(join(cwd, 'rows.ts')).href)) as Readonly<Record<string, SchemaClass>>;
}

/** A column: its type in the engine, the type in the class, a value as SQL text, and the value that is read. */
type Case = readonly [declared: string, field: string, sql: string, read: unknown];

const MOMENT = new Date('2026-02-28T12:30:00.500Z');
const ID = '5f0c7c52-8f0e-4f7e-9f6d-2b6f0a3b1c4d';
const COMMON: readonly Case[] = [
  ['smallint', 'int', '7', 7],
  ['bigint', 'int', '9007199254740991', 9_007_199_254_740_991],
  ['double precision', 'float', '1.5', 1.5],
  ['boolean', 'bool', 'true', true],
  ['text', 'str', "'it''s'", "it's"],
  ['date', 'date', "'2026-02-28'", '2026-02-28'],
];
const MYSQL: readonly Case[] = [
  ...COMMON,
  ['int unsigned', 'int', '4294967295', 4_294_967_295],
  ['year', 'int', '2026', 2026],
  ['float', 'float', '0.25', 0.25],
  ['decimal(6,2)', 'decimal, { digits: 6, places: 2 }', '1234.50', '1234.50'],
  ['decimal(5)', 'decimal, { digits: 5, places: 0 }', '12345', '12345'],
  ['char(3)', 'str, { maxLength: 3 }', "'abc'", 'abc'],
  ['varchar(5)', 'str, { maxLength: 5 }', "'abcde'", 'abcde'],
  ['longtext', 'str', "'long'", 'long'],
  ["enum('a','it''s')", "literal('a', 'it\\'s')", "'it''s'", "it's"],
  ["set('a','b')", 'str', "'a,b'", 'a,b'],
  ['datetime(3)', 'datetime', "'2026-02-28 12:30:00.5'", MOMENT],
  ['timestamp(3)', 'datetime', "'2026-02-28 12:30:00.5'", MOMENT],
  ['time', 'str', "'12:30:00'", '12:30:00'],
  ['json', 'any', `'{"a": [1]}'`, { a: [1] }],
  ['blob', 'bytes', "x'01ff'", new Uint8Array([1, 255])],
  ['varbinary(4)', 'bytes', "x'01'", new Uint8Array([1])],
  ['bit(1)', 'bool', "b'1'", true],
  ['bit(8)', 'bytes', "b'101'", new Uint8Array([5])],
];
const CASES: Readonly<Record<Dialect, readonly Case[]>> = {
  sqlite: [
    ...COMMON,
    ['integer', 'int', '-5', -5],
    ['real', 'float', '0.25', 0.25],
    ['numeric(6,2)', 'float', '1234.5', 1234.5],
    ['varchar(5)', 'str', "'longer than five'", 'longer than five'],
    ['blob', 'bytes', "x'01ff'", new Uint8Array([1, 255])],
    ['datetime', 'datetime', "'2026-02-28T12:30:00.500Z'", MOMENT],
    ['timestamp', 'datetime', "'2026-02-28 12:30:00.500'", MOMENT],
    ['time', 'str', "'12:30:00'", '12:30:00'],
    ['uuid', 'uuid', `'${ID}'`, ID],
    ['json', 'any', `'{"a": [1]}'`, { a: [1] }],
    ['', 'union(str, float, bytes)', "'1'", '1'],
    ['money', 'union(str, float, bytes)', '2.5', 2.5],
    ["text check (x in ('a', 'it''s'))", "literal('a', 'it\\'s')", "'it''s'", "it's"],
    ["text check (x in ('a') or x = 'b')", 'str', "'b'", 'b'],
    ["text collate nocase check (x in ('a'))", 'str', "'A'", 'A'],
    ["text /* check (x in ('a')) */", 'str', "'b'", 'b'],
  ],
  postgres: [
    ...COMMON,
    ['integer', 'int', '-5', -5],
    ['oid', 'int', '5', 5],
    ['real', 'float', '0.25', 0.25],
    ['numeric(6,2)', 'decimal, { digits: 6, places: 2 }', '1234.5', '1234.50'],
    ['numeric(3,-2)', 'decimal, { digits: 5, places: 0 }', '12345', '12300'],
    ['numeric(2,4)', 'decimal, { digits: 4, places: 4 }', '0.0012', '0.0012'],
    [
      'numeric',
      'decimal, { digits: 1000, places: 500 }',
      '123456789012345678901.5',
      '123456789012345678901.5',
    ],
    ['varchar(5)', 'str, { maxLength: 5 }', "'abcde'", 'abcde'],
    ['varchar', 'str', "'a'", 'a'],
    ['char(3)', 'str, { maxLength: 3 }', "'a'", 'a  '],
    ['timestamptz', 'datetime', "'2026-02-28 13:30:00.5+01'", MOMENT],
    ['timestamp', 'datetime', "'2026-02-28 12:30:00.5'", MOMENT],
    ['time', 'str', "'12:30:00'", '12:30:00'],
    ['interval', 'str', "'1 day'", 'P1D'],
    ['uuid', 'uuid', `'${ID}'`, ID],
    ['jsonb', 'any', `'{"a": [1]}'`, { a: [1] }],
    ['json', 'any', `'"1"'`, '1'],
    ['bytea', 'bytes', "'\\x01ff'", new Uint8Array([1, 255])],
    ['inet', 'str', "'10.0.0.1'", '10.0.0.1'],
    ['int4range', 'str', "'[1,3)'", '[1,3)'],
    ['text[]', 'list(str)', "'{a,b}'", ['a', 'b']],
    ['varchar(2)[]', 'list(str, { maxLength: 2 })', "'{ab}'", ['ab']],
    ['numeric(4,1)[][]', 'list(list(decimal, { digits: 4, places: 1 }))', "'{{1.5}}'", [['1.5']]],
    ['mood', "literal('sad', 'it\\'s')", "'it''s'", "it's"],
    ['mood[]', "list(literal('sad', 'it\\'s'))", "'{sad}'", ['sad']],
    ['cents', 'decimal, { digits: 8, places: 2 }', '1.5', '1.50'],
    ["text check (x in ('a', 'it''s'))", "literal('a', 'it\\'s')", "'it''s'", "it's"],
    ["varchar(9) check (x in ('a', 'b'))", "literal('a', 'b')", "'b'", 'b'],
    ["text check (x in ('a') or x = 'b')", 'str', "'b'", 'b'],
    ["text check (lower(x) in ('a'))", 'str', "'A'", 'A'],
  ],
  mysql: MYSQL,
  mariadb: [...MYSQL, ['uuid', 'uuid', `'${ID}'`, ID], ['inet6', 'str', "'::1'", '::1']],
};
const BEFORE: Partial<Readonly<Record<Dialect, string>>> = {
  postgres: "create type mood as enum ('sad', 'it''s'); create domain cents as numeric(8,2);",
};

onEveryDatabase(
  'rows with a column of each type are read with the class of their table',
  async (db, _, t) => {
    const cases = CASES[db.dialect];
    await db.script(
      (BEFORE[db.dialect] ?? '') +
        cases
          .map(([declared, , sql], index) => {
            const type = declared.replaceAll(/\bx\b(?!')/g, `c${index}`);
            const table = `t${String(index).padStart(2, '0')}`;
            return `create table ${table} (id int not null primary key, c${index} ${type} null, d${index} ${type.replaceAll(`c${index}`, `d${index}`)} not null);
          insert into ${table} values (1, null, ${sql}), (2, ${sql}, ${sql});`;
          })
          .join('\n'),
    );
    const tables = await readTables(db, new Set());
    const text = writeRowClasses({ ...source, dialect: db.dialect, tables });
    const classes = await imported(t, db, tables);
    for (const [index, [declared, field, , read]] of cases.entries()) {
      const name = String(index).padStart(2, '0');
      const [type, options = ''] = field.split(/(?=, \{[^)]*$)/) as [string, string?];
      assert.ok(text.includes(`  c${index} = Field(nullable(${type})${options});`), `${declared}:\n${text}`);
      assert.ok(text.includes(`  d${index} = Field(${field});`), `${declared}:\n${text}`);
      const rows = await db.fetchAll(`select * from t${name} order by id`, [], { as: classes[`T${name}`]! });
      const members = rows.map((row) => ({ ...(row as Record<string, unknown>) }));
      assert.deepEqual(
        members,
        [
          { id: 1, [`c${index}`]: null, [`d${index}`]: read },
          { id: 2, [`c${index}`]: read, [`d${index}`]: read },
        ],
        declared,
      );
    }
  },
);

const DETAILS: Readonly<Record<'sqlite' | 'postgres' | 'mysql', string>> = {
  sqlite: `create table svc_migrations (id text);
    create table person (id integer primary key, state text not null default 'new', born date default null, age int default 7, twice int as (age * 2));
    create table pair (b text, a text, primary key (a, b)) without rowid;
    create table loose (code text primary key);
    create view everyone as select * from person;
    create virtual table words using fts5(word);`,
  postgres: `create table svc_migrations (id text);
    create table person (id int generated always as identity primary key, state text not null default 'new', born date default null, age int default 7, twice int generated always as (age * 2) stored);
    comment on table person is 'People. */ And pets'; comment on column person.born is 'Day of birth';
    create table pair (b text, a text, n serial, primary key (a, b));
    create table loose (code text primary key) partition by list (code);
    create table loose_a partition of loose for values in ('a');
    create view everyone as select * from person; create schema other; create table other.secret (id int);`,
  mysql: `create table svc_migrations (id int);
    create table person (id int auto_increment primary key, state varchar(9) not null default 'new', born date default null comment 'Day of birth', age int default 7, twice int as (age * 2)) comment 'People. */ And pets';
    create table pair (b char(1), a char(1), primary key (a, b));
    create table loose (code char(1) primary key);
    create view everyone as select * from person;`,
};

onEveryDatabase(
  'a table is described with its key, its defaults, its computed columns and its comments',
  async (db) => {
    const { dialect } = db;
    const [isSqlite, isPostgres] = [dialect === 'sqlite', dialect === 'postgres'];
    await db.script(DETAILS[dialect === 'mariadb' ? 'mysql' : dialect]);
    const tables = await readTables(db, new Set());
    assert.deepEqual(
      tables.map(({ name, primaryKey }) => [name, primaryKey]),
      [
        ['loose', ['code']],
        ['pair', ['a', 'b']],
        ['person', ['id']],
      ],
    );
    const [loose, pair, person] = tables as [TableDescription, TableDescription, TableDescription];
    // SQLite allows NULL in a key that is not an integer, which no schema means
    assert.deepEqual(
      loose.columns.map(({ isNullable }) => isNullable),
      [false],
    );
    assert.deepEqual(
      pair.columns.map(({ name, isNullable, isGenerated }) => [name, isNullable, isGenerated]),
      [['b', false, false], ['a', false, false], ...(isPostgres ? [['n', false, true]] : [])],
    );
    assert.equal(person.comment, isSqlite ? undefined : 'People. */ And pets');
    assert.deepEqual(
      person.columns.map((column) => [
        column.name,
        column.isNullable,
        column.isGenerated,
        column.default,
        column.comment,
      ]),
      [
        ['id', false, true, undefined, undefined],
        ['state', false, false, "'new'", undefined],
        ['born', true, false, undefined, isSqlite ? undefined : 'Day of birth'],
        ['age', true, false, '7', undefined],
        ['twice', true, true, undefined, undefined],
      ],
    );
  },
);

onEveryDatabase('values of types that the application parses have the type any', async (db) => {
  const type = db.dialect === 'sqlite' ? 'vector(3)' : 'point';
  await db.script(`create table place (id int primary key, spot ${type} not null)`);
  const [place] = await readTables(db, new Set(['vector', 'point']));
  assert.deepEqual(place!.columns[1]!.type, { kind: 'any' });
});

onEveryDatabase(
  'tables are read only from a server whose migrations equal the files, and nothing is changed',
  async (db, url, t) => {
    const cwd = folder(t, { '0001_note.up.sql': 'create table note (id int not null primary key);' });
    const plugin = new DatabasePlugin(url, { migrationDirectory: cwd, snakeCase: true });
    new Svc({ env: 'test' }).register(plugin).inspect();
    const hash = plugin.migrationHash(db.dialect);
    const names = async (): Promise<string[]> => (await readTables(db, new Set())).map(({ name }) => name);
    if (db.dialect === 'sqlite') {
      const { tables, ...rest } = await plugin.migratedTables();
      assert.deepEqual(rest, { database: 'database', dialect: 'sqlite', snakeCase: true, hash });
      assert.deepEqual([tables.map(({ name }) => name), await names()], [['note'], []]);
      return;
    }
    await assert.rejects(plugin.migratedTables(), {
      code: 'E_MIGRATION_DIFFERS',
      message: /its migrations differ from those of the application: 0001_note is pending$/,
      remedy: /svc migrate up/,
    });
    assert.deepEqual(await names(), []);
    assert.equal(await recordTables(db), 0);
    await using open = await plugin.openMigrator();
    await open.migrator.up();
    assert.deepEqual(
      (await plugin.migratedTables()).tables.map(({ name }) => name),
      ['note'],
    );
    // the address may be given: the plugin itself has another database
    const other = new DatabasePlugin('sqlite::memory:', { migrationDirectory: cwd });
    new Svc({ env: 'test' }).register(other).inspect();
    assert.equal((await other.migratedTables(url)).dialect, db.dialect);
    write(cwd, {
      '0001_note.up.sql': 'create table note (id bigint);',
      '0002_b.up.sql': 'create table b (id int);',
    });
    await assert.rejects(plugin.migratedTables(), {
      message: /: 0001_note is changed, 0002_b is pending$/,
    });
    assert.notEqual(plugin.migrationHash(db.dialect), hash);
  },
);

/** Returns the number of tables that record migrations. */
async function recordTables(db: Database): Promise<unknown> {
  const where = db.dialect === 'postgres' ? 'current_schema()' : 'database()';
  return db.scalar(
    `select count(*) from information_schema.tables where table_schema = ${where} and table_name = 'svc_migrations'`,
  );
}
