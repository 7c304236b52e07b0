/**
 * Tables of PostgreSQL, MySQL and MariaDB from rows of their catalogues, and types of results.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readTables, typeReader, type ColumnType } from '../../src/db/tables.ts';
import type { Database } from '../../src/db/database.ts';
import type { Dialect, EngineType } from '../../src/db/driver.ts';

type CatalogueRow = Readonly<Record<string, unknown>>;

/** Returns a database whose catalogues have these rows, by a part of the query. */
function catalogue(dialect: Dialect, rows: Readonly<Record<string, readonly CatalogueRow[]>>): Database {
  const fetchAll = async (text: string): Promise<readonly CatalogueRow[]> =>
    Object.entries(rows).find(([part]) => text.includes(part))?.[1] ?? [];
  return { dialect, fetchAll } as unknown as Database;
}

// ── PostgreSQL ──

const TYPES: readonly CatalogueRow[] = [
  ...Object.entries({
    bool: 16,
    bytea: 17,
    int8: 20,
    int2: 21,
    int4: 23,
    text: 25,
    oid: 26,
    json: 114,
    float4: 700,
    float8: 701,
    bpchar: 1042,
    varchar: 1043,
    date: 1082,
    timestamp: 1114,
    timestamptz: 1184,
    numeric: 1700,
    uuid: 2950,
    jsonb: 3802,
    inet: 869,
    vector: 9_000,
  }).map(([name, oid]) => typeRow(oid, name)),
  typeRow(1009, '_text', { element: '25' }),
  typeRow(1015, '_varchar', { element: '1043' }),
  typeRow(9_001, 'mood', { kind: 'e', labels: ['sad', 'ok'] }),
  typeRow(9_002, 'empty', { kind: 'e' }),
  typeRow(9_003, 'cents', { kind: 'd', base: '1700', modifier: modifierOf(8, 2) }),
  typeRow(9_004, 'codes', { kind: 'd', base: '1015', modifier: 4 + 3, dimensions: 2 }),
  typeRow(9_005, 'name', { kind: 'd', base: '25', isRequired: true }),
];

function typeRow(oid: number, name: string, more: CatalogueRow = {}): CatalogueRow {
  const none = {
    kind: 'b',
    element: '0',
    base: '0',
    modifier: -1,
    dimensions: 0,
    isRequired: false,
    labels: [],
  };
  return { oid: String(oid), name, ...none, ...more };
}

/** Returns the modifier of `numeric(precision, scale)`, as PostgreSQL stores it. */
function modifierOf(precision: number, scale: number): number {
  return ((precision << 16) | (scale & 0x7ff)) + 4;
}

const postgresTypes = { 'from pg_type t': TYPES };

for (const [what, type, expected] of [
  ['boolean', { oid: 16 }, { kind: 'bool' }],
  ['bytea', { oid: 17 }, { kind: 'bytes' }],
  ['bigint', { oid: 20 }, { kind: 'int' }],
  ['smallint', { oid: 21 }, { kind: 'int' }],
  ['integer', { oid: 23 }, { kind: 'int' }],
  ['oid', { oid: 26 }, { kind: 'int' }],
  ['text', { oid: 25 }, { kind: 'str' }],
  ['inet', { oid: 869 }, { kind: 'str' }],
  ['json', { oid: 114 }, { kind: 'any' }],
  ['jsonb', { oid: 3802 }, { kind: 'any' }],
  ['real', { oid: 700 }, { kind: 'float' }],
  ['double precision', { oid: 701 }, { kind: 'float' }],
  ['date', { oid: 1082 }, { kind: 'date' }],
  ['timestamp', { oid: 1114 }, { kind: 'datetime' }],
  ['timestamptz', { oid: 1184 }, { kind: 'datetime' }],
  ['uuid', { oid: 2950 }, { kind: 'uuid' }],
  ['varchar', { oid: 1043 }, { kind: 'str', options: undefined }],
  ['varchar(1)', { oid: 1043, modifier: 4 + 1 }, { kind: 'str', options: { maxLength: 1 } }],
  ['char(3)', { oid: 1042, modifier: 4 + 3 }, { kind: 'str', options: { maxLength: 3 } }],
  ['numeric', { oid: 1700 }, { kind: 'decimal', options: { digits: 1_000, places: 500 } }],
  [
    'numeric(6,2)',
    { oid: 1700, modifier: modifierOf(6, 2) },
    { kind: 'decimal', options: { digits: 6, places: 2 } },
  ],
  [
    'numeric(1,0)',
    { oid: 1700, modifier: modifierOf(1, 0) },
    { kind: 'decimal', options: { digits: 1, places: 0 } },
  ],
  [
    'numeric(3,-2)',
    { oid: 1700, modifier: modifierOf(3, -2) },
    { kind: 'decimal', options: { digits: 5, places: 0 } },
  ],
  [
    'numeric(2,4)',
    { oid: 1700, modifier: modifierOf(2, 4) },
    { kind: 'decimal', options: { digits: 4, places: 4 } },
  ],
  [
    'numeric(1000,1000)',
    { oid: 1700, modifier: modifierOf(1_000, 1_000) },
    { kind: 'decimal', options: { digits: 1_000, places: 1_000 } },
  ],
  [
    'numeric(1000,-1000)',
    { oid: 1700, modifier: modifierOf(1_000, -1_000) },
    { kind: 'decimal', options: { digits: 2_000, places: 0 } },
  ],
  ['text[]', { oid: 1009 }, { kind: 'list', item: { kind: 'str' } }],
  [
    'varchar(2)[]',
    { oid: 1015, modifier: 4 + 2 },
    { kind: 'list', item: { kind: 'str', options: { maxLength: 2 } } },
  ],
  ['an enum', { oid: 9_001 }, { kind: 'literal', values: ['sad', 'ok'] }],
  ['an enum without labels', { oid: 9_002 }, { kind: 'str' }],
  ['a domain over numeric(8,2)', { oid: 9_003 }, { kind: 'decimal', options: { digits: 8, places: 2 } }],
  [
    'a domain over varchar(3)[][]',
    { oid: 9_004 },
    { kind: 'list', item: { kind: 'list', item: { kind: 'str', options: { maxLength: 3 } } } },
  ],
  ['a type of the application', { oid: 9_000 }, { kind: 'any' }],
  ['a type that the catalogue does not have', { oid: 9_999 }, undefined],
] as readonly (readonly [string, Omit<EngineType, 'name'>, ColumnType | undefined])[])
  test(`a result of PostgreSQL of the type ${what} has the type for rows`, async () => {
    const read = await typeReader(catalogue('postgres', postgresTypes), new Set(['vector']));
    assert.deepEqual(read({ name: what, ...type }), expected);
  });

test('columns of PostgreSQL have their default, their comment, their NULL and the choices of their checks', async () => {
  const column = (name: string, type: number, more: CatalogueRow = {}): CatalogueRow => ({
    table: 'person',
    tableComment: 'People',
    name,
    type: String(type),
    modifier: -1,
    dimensions: 0,
    isRequired: true,
    isGenerated: false,
    default: null,
    comment: null,
    keyPosition: 0,
    checks: [],
    ...more,
  });
  const rows = [
    column('b', 25, { keyPosition: 2 }),
    column('a', 20, { keyPosition: 1, default: "nextval('person_a_seq'::regclass)" }),
    column('state', 25, {
      default: "'it''s'::text",
      checks: ["(state = ANY (ARRAY['new'::text, 'it''s'::text]))"],
    }),
    column('code', 1043, {
      modifier: 9,
      checks: ["((code)::text = 'x'::text)"],
      default: "''::character varying",
    }),
    column('pair', 25, { checks: ["((pair = 'a'::text) OR (pair = 'b'::text))", "(pair <> ''::text)"] }),
    column('letter', 1042, { modifier: 5, checks: ["(letter = ANY (ARRAY['a'::bpchar, 'b'::bpchar]))"] }),
    column('age', 23, { isRequired: false, default: '7', comment: 'Years' }),
    column('twice', 23, { isRequired: false, isGenerated: true, default: '(age * 2)', comment: '' }),
    column('grid', 1009, { dimensions: 2 }),
    column('called', 9_005, { isRequired: false }),
  ];
  const database = catalogue('postgres', {
    'from pg_class c\n  join pg_attribute a': rows,
    ...postgresTypes,
  });
  const [person, ...more] = await readTables(database, new Set());
  assert.deepEqual(
    [person!.name, person!.comment, person!.primaryKey, more],
    ['person', 'People', ['a', 'b'], []],
  );
  assert.deepEqual(
    person!.columns.map(({ name, type, ...rest }) => [
      name,
      type.kind === 'literal' ? type.values : type.kind,
      rest.isNullable,
      rest.isGenerated,
      rest.default,
      rest.comment,
    ]),
    [
      ['b', 'str', false, false, undefined, undefined],
      ['a', 'int', false, true, undefined, undefined],
      ['state', ['new', "it's"], false, false, "'it''s'", undefined],
      ['code', ['x'], false, false, "''", undefined],
      ['pair', 'str', false, false, undefined, undefined],
      ['letter', 'str', false, false, undefined, undefined],
      ['age', 'int', true, false, '7', 'Years'],
      ['twice', 'int', true, true, undefined, undefined],
      ['grid', 'list', false, false, undefined, undefined],
      ['called', 'str', false, false, undefined, undefined],
    ],
  );
  assert.deepEqual(person!.columns[8]!.type, {
    kind: 'list',
    item: { kind: 'list', item: { kind: 'str' } },
  });
});

// ── MySQL and MariaDB ──

for (const [name, expected] of [
  ...['tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'year', 'int unsigned', 'bigint unsigned'].map(
    (each) => [each, { kind: 'int' }] as const,
  ),
  ...[
    'char',
    'varchar',
    'tinytext',
    'text',
    'mediumtext',
    'longtext',
    'set',
    'enum',
    'time',
    'inet4',
    'inet6',
  ].map((each) => [each, { kind: 'str' }] as const),
  ['date', { kind: 'date' }],
  ['datetime', { kind: 'datetime' }],
  ['timestamp', { kind: 'datetime' }],
  ['double', { kind: 'float' }],
  ['float', { kind: 'float' }],
  ['json', { kind: 'any' }],
  ['uuid', { kind: 'uuid' }],
  ['decimal', { kind: 'decimal', options: { digits: 1_000, places: 500 } }],
  ['blob', { kind: 'bytes' }],
  ['geometry', { kind: 'bytes' }],
  ['bit', undefined],
  ['null', undefined],
  ['point', { kind: 'any' }],
] as readonly (readonly [string, ColumnType | undefined])[])
  test(`a result of MySQL and MariaDB of the type ${name} has the type for rows`, async () => {
    for (const dialect of ['mysql', 'mariadb'] as const) {
      const read = await typeReader(catalogue(dialect, {}), new Set(['point']));
      assert.deepEqual(read({ name }), expected);
    }
  });

for (const [dialect, json, text, quoted] of [
  ['mysql', 'str', 'new', "'new'"],
  ['mariadb', 'any', "'new'", "'new'"],
] as const)
  test(`columns of ${dialect} have their default, their comment, their NULL and their type`, async () => {
    const column = (name: string, declared: string, more: CatalogueRow = {}): CatalogueRow => ({
      table: 'person',
      tableComment: '',
      name,
      type: declared.replace(/\W.*$/, ''),
      declared,
      digits: null,
      places: null,
      length: null,
      isNullable: 'NO',
      default: null,
      extra: '',
      comment: '',
      keyPosition: '0',
      ...more,
    });
    const rows = [
      column('b', 'char(3)', { length: 3n, keyPosition: 2n }),
      column('a', 'int', { digits: 10, keyPosition: '1', extra: 'auto_increment' }),
      column('state', "enum('new','it''s')", { default: text }),
      column('quote', 'varchar(9)', { length: '9', default: dialect === 'mysql' ? "it's" : "'it''s'" }),
      column('price', 'decimal(6,2)', { digits: 6, places: 2, default: '1.50' }),
      column('made', 'datetime', { default: 'current_timestamp()', extra: 'DEFAULT_GENERATED' }),
      column('twice', 'int', { digits: 10, default: '7', extra: 'VIRTUAL GENERATED', isNullable: 'YES' }),
      column('kept', 'int', { digits: 10, extra: 'STORED GENERATED' }),
      column('none', 'int', {
        digits: 10,
        isNullable: 'YES',
        default: dialect === 'mariadb' ? 'NULL' : null,
        comment: 'Nothing',
      }),
      column('yes', 'tinyint(1)', { digits: 3, default: '0' }),
      column('bits', 'bit(1)', { digits: 1 }),
      column('wide', 'bit(8)', { digits: 8 }),
      column('do`c', 'longtext'),
      column('spot', 'point'),
    ];
    const database = catalogue(dialect, {
      'from information_schema.columns c': rows,
      'from information_schema.check_constraints': [{ table: 'person', clause: 'json_valid(`do``c`)' }],
    });
    const [person] = await readTables(database, new Set(['point']));
    assert.deepEqual([person!.comment, person!.primaryKey], [undefined, ['a', 'b']]);
    assert.deepEqual(
      person!.columns.map((each) => [
        each.name,
        each.type,
        each.isNullable,
        each.isGenerated,
        each.default,
        each.comment,
      ]),
      [
        ['b', { kind: 'str', options: { maxLength: 3 } }, false, false, undefined, undefined],
        ['a', { kind: 'int' }, false, true, undefined, undefined],
        ['state', { kind: 'literal', values: ['new', "it's"] }, false, false, quoted, undefined],
        ['quote', { kind: 'str', options: { maxLength: 9 } }, false, false, "'it''s'", undefined],
        ['price', { kind: 'decimal', options: { digits: 6, places: 2 } }, false, false, '1.50', undefined],
        ['made', { kind: 'datetime' }, false, false, 'current_timestamp()', undefined],
        ['twice', { kind: 'int' }, true, true, undefined, undefined],
        ['kept', { kind: 'int' }, false, true, undefined, undefined],
        ['none', { kind: 'int' }, true, false, undefined, 'Nothing'],
        ['yes', { kind: 'bool' }, false, false, '0', undefined],
        ['bits', { kind: 'bool' }, false, false, undefined, undefined],
        ['wide', { kind: 'bytes' }, false, false, undefined, undefined],
        ['do`c', { kind: json }, false, false, undefined, undefined],
        ['spot', { kind: 'any' }, false, false, undefined, undefined],
      ],
    );
  });

// ── all engines ──

test('tables are sorted by name, have their keys, and do not contain the table of migrations', async () => {
  const column = (table: string): CatalogueRow => ({
    table,
    tableComment: null,
    name: 'id',
    type: '20',
    modifier: -1,
    dimensions: 0,
    isRequired: true,
    isGenerated: false,
    default: null,
    comment: null,
    keyPosition: 1,
    checks: [],
  });
  const key = (
    table: string,
    name: string,
    parts: readonly (string | null)[],
    target: string | null = null,
  ): CatalogueRow[] =>
    parts.map((each) => ({
      table,
      key: name,
      column: each,
      target,
      targetColumn: target === null ? null : `${each}_id`,
    }));
  const database = catalogue('postgres', {
    'from pg_class c\n  join pg_attribute a': ['b', 'svc_migrations', 'a', 'B'].map(column),
    'from pg_index x': [
      ...key('a', 'unique 1', ['x', 'y']),
      ...key('a', 'unique 2', ['z']),
      ...key('a', 'unique 3', ['x', null]),
      ...key('a', 'foreign 1', ['x', 'y'], 'b'),
      ...key('a', 'foreign 2', ['z'], 'a'),
      { table: 'b', key: 'trigger', column: null, target: null, targetColumn: null },
    ],
    ...postgresTypes,
  });
  const none = { uniqueKeys: [], foreignKeys: [], hasInsertTrigger: false };
  assert.deepEqual(
    (await readTables(database, new Set())).map(({ columns: _, comment: __, ...each }) => each),
    [
      { name: 'B', primaryKey: ['id'], ...none },
      {
        name: 'a',
        primaryKey: ['id'],
        uniqueKeys: [['x', 'y'], ['z']],
        foreignKeys: [
          { columns: ['x', 'y'], table: 'b', references: ['x_id', 'y_id'] },
          { columns: ['z'], table: 'a', references: ['z_id'] },
        ],
        hasInsertTrigger: false,
      },
      { name: 'b', primaryKey: ['id'], ...none, hasInsertTrigger: true },
    ],
  );
});
