/**
 * Reads the tables of a database, and describes them in the same way for every engine. `svc migrate types`
 * writes classes from the descriptions (row-classes.ts).
 *
 * The type of a column is the type that `as` needs for the values that the driver returns. For example, the
 * `numeric` of SQLite is a float, and the one of PostgreSQL a decimal.
 *
 * Views, virtual tables, partitions, tables of extensions, and tables of other schemas are left out.
 */
import { tokensOf } from './lexer.ts';
import { readKeys, type TableKeys } from './table-keys.ts';
import type { Database } from './database.ts';
import type { Dialect, EngineType } from './driver.ts';

/** A type of the module `svc`, with its options. `stored` is any value that SQLite can store. */
export type ColumnType =
  | {
      readonly kind:
        | 'any'
        | 'bool'
        | 'bytes'
        | 'date'
        | 'datetime'
        | 'decimal'
        | 'float'
        | 'int'
        | 'str'
        | 'stored'
        | 'uuid';
      readonly options?: Readonly<Record<string, number>> | undefined;
    }
  | { readonly kind: 'literal'; readonly values: readonly string[] }
  | { readonly kind: 'list'; readonly item: ColumnType };

export interface TableColumn {
  readonly name: string;
  readonly type: ColumnType;
  readonly isNullable: boolean;
  /** Whether the database makes the value: a key that counts up, or a computed column. */
  readonly isGenerated: boolean;
  /** Default as SQL text. */
  readonly default: string | undefined;
  readonly comment: string | undefined;
}

/** A table, with its columns in the order of their declaration. */
export interface TableDescription extends TableKeys {
  readonly name: string;
  readonly comment: string | undefined;
  readonly primaryKey: readonly string[];
  readonly columns: readonly TableColumn[];
}

/** A row of a catalogue: a column, with the properties of its table. */
interface Found extends TableColumn {
  readonly table: string;
  readonly tableComment: string | undefined;
  /** Position in the primary key, from 1. 0 for a column outside of the key. */
  readonly keyPosition: number;
}

/** Properties of a column that the catalogues of all engines have. */
interface CatalogueColumn {
  readonly table: string;
  readonly name: string;
  readonly type: string;
  readonly default: string | null;
}

interface CommentedColumn extends CatalogueColumn {
  readonly tableComment: string | null;
  readonly comment: string | null;
}

const OWN_TABLE = 'svc_migrations';

/**
 * Returns the tables of a database, sorted by name. `ownTypes` are the lower-case names of types that the
 * application itself parses: their values may be anything.
 */
export async function readTables(
  database: Database,
  ownTypes: ReadonlySet<string>,
): Promise<TableDescription[]> {
  const found = await READERS[database.dialect](database, ownTypes);
  const keysOf = await readKeys(database);
  const tables = Map.groupBy(
    found.filter(({ table }) => table !== OWN_TABLE),
    ({ table }) => table,
  );
  return [...tables]
    .map(([name, columns]) => ({
      name,
      comment: columns[0]!.tableComment,
      primaryKey: columns
        .filter(({ keyPosition }) => keyPosition > 0)
        .sort((one, other) => one.keyPosition - other.keyPosition)
        .map((column) => column.name),
      ...keysOf(name),
      columns,
    }))
    .sort((one, other) => (one.name < other.name ? -1 : 1)); // not by locale, which differs between machines
}

/** Returns the type for `as` of a type of the engine; undefined if it may be any. */
export type ReadType = (type: EngineType) => ColumnType | undefined;

/** Returns a function for the types of results, as {@link readTables} has for the types of tables. */
export async function typeReader(database: Database, ownTypes: ReadonlySet<string>): Promise<ReadType> {
  switch (database.dialect) {
    case 'sqlite':
      return ({ name }) => sqliteType(name, ownTypes);
    case 'postgres': {
      const types = await readPostgresTypes(database);
      return ({ oid, modifier = NO_MODIFIER }) =>
        types.has(String(oid))
          ? postgresType({ type: String(oid), modifier, dimensions: 0 }, types, ownTypes)
          : undefined;
    }
    default:
      return ({ name }) => mySqlResultType(name.replace(' unsigned', ''), ownTypes);
  }
}

type ReadColumns = (database: Database, ownTypes: ReadonlySet<string>) => Promise<Found[]>;

const READERS: Readonly<Record<Dialect, ReadColumns>> = {
  sqlite: readSqlite,
  postgres: readPostgres,
  mysql: readMySql,
  mariadb: readMySql,
};

const presentText = (text: string | null): string | undefined =>
  text === null || text === '' ? undefined : text;

// -- SQLite --

interface SqliteColumn extends CatalogueColumn {
  readonly sql: string;
  readonly isRequired: number;
  readonly keyPosition: number;
  readonly keyColumns: number;
  readonly keyIndexes: number;
  readonly hidden: number;
}

// a column with `hidden` 2 or 3 is computed; 1 is a hidden column of a virtual table
const SQLITE_COLUMNS = `
  select t.name as "table", m.sql, c.name, c.type, c."notnull" as isRequired, c.dflt_value as "default",
    c.pk as keyPosition, c.hidden, (select count(*) from pragma_table_xinfo(t.name) where pk > 0) as keyColumns,
    (select count(*) from pragma_index_list(t.name) where origin = 'pk') as keyIndexes
  from pragma_table_list as t
  join sqlite_master as m on m.type = 'table' and m.name = t.name
  join pragma_table_xinfo(t.name) as c
  where t.schema = 'main' and t.type = 'table' and t.name not like 'sqlite\\_%' escape '\\' and c.hidden <> 1
  order by t.name, c.cid`;

async function readSqlite(database: Database, ownTypes: ReadonlySet<string>): Promise<Found[]> {
  const rows = (await database.fetchAll(SQLITE_COLUMNS)) as unknown as SqliteColumn[];
  const choices = new Map<string, ReadonlyMap<string, readonly string[]>>();
  return rows.map((row) => {
    const { table, sql, name, keyPosition } = row;
    if (!choices.has(table)) choices.set(table, choicesIn(sql));
    // the only integer column of a key without an index is the number of the row
    const isRowId =
      keyPosition > 0 && row.keyColumns === 1 && row.keyIndexes === 0 && /^integer$/i.test(row.type);
    const type = sqliteType(row.type, ownTypes);
    const values = type.kind === 'str' ? choices.get(table)!.get(name.toLowerCase()) : undefined;
    return {
      table,
      tableComment: undefined,
      name,
      type: values === undefined ? type : { kind: 'literal', values },
      // SQLite allows NULL in a key, which no schema means
      isNullable: Number(row.isRequired) === 0 && keyPosition === 0,
      isGenerated: isRowId || row.hidden > 1,
      default: /^null$/i.test(row.default ?? '') ? undefined : presentText(row.default),
      comment: undefined,
      keyPosition,
    };
  });
}

const SQLITE_TYPES: Readonly<Record<string, ColumnType['kind']>> = {
  '': 'stored',
  any: 'stored',
  bool: 'bool',
  boolean: 'bool',
  date: 'date',
  datetime: 'datetime',
  timestamp: 'datetime',
  timestamptz: 'datetime',
  time: 'str',
  uuid: 'uuid',
  json: 'any',
  jsonb: 'any',
  decimal: 'float',
  numeric: 'float',
};

/** Returns the type of a column. Type names without a meaning here follow the affinity rules of SQLite. */
function sqliteType(declared: string, ownTypes: ReadonlySet<string>): ColumnType {
  const name = declared
    .toLowerCase()
    .replace(/\s*generated always$/, '')
    .replace(/\(.*$/, '')
    .trim();
  const [first] = name.split(' ', 1) as [string];
  if (ownTypes.has(name)) return { kind: 'any' };
  const known = Object.hasOwn(SQLITE_TYPES, first) ? SQLITE_TYPES[first] : undefined;
  if (known !== undefined) return { kind: known } as ColumnType;
  if (name.includes('int')) return { kind: 'int' };
  if (/char|clob|text/.test(name)) return { kind: 'str' };
  if (name.includes('blob')) return { kind: 'bytes' };
  return { kind: /real|floa|doub/.test(name) ? 'float' : 'stored' };
}

/**
 * Returns the values that `check (column in ('a', 'b'))` allows, by the lower-case name of the column. A
 * collation may make other spellings equal to these values, so a table with one has no choices.
 */
function choicesIn(sql: string): ReadonlyMap<string, readonly string[]> {
  const tokens = tokensOf(sql, 'sqlite').map(({ text }) => text);
  const choices = new Map<string, readonly string[]>();
  if (tokens.some((token) => token.toLowerCase() === 'collate')) return choices;
  for (const [index, token] of tokens.entries()) {
    if (token.toLowerCase() !== 'check' || tokens[index + 1] !== '(') continue;
    let depth = 0;
    const end = tokens.findIndex((each, at) => {
      if (at > index) depth += each === '(' ? 1 : each === ')' ? -1 : 0;
      return at > index && depth === 0;
    });
    const choice = choiceOf(tokens.slice(index + 1, end));
    if (choice !== undefined) choices.set(choice.column.toLowerCase(), choice.values);
  }
  return choices;
}

// -- checks of SQLite and PostgreSQL --

/** Tokens that change nothing in `state in ('a', 'b')`, which PostgreSQL writes as `= any (array['a', 'b'])`. */
const MEANINGLESS: ReadonlySet<string> = new Set(['(', ')', '[', ']', 'any', 'array']);

/** Returns the column and the values of a condition such as `state in ('a', 'b')`; undefined for any other. */
function choiceOf(
  condition: readonly string[],
): { readonly column: string; readonly values: readonly string[] } | undefined {
  const [column, verb, ...rest] = condition.filter((token) => !MEANINGLESS.has(token.toLowerCase()));
  if (column === undefined || verb === undefined || !/^(?:in|=)$/i.test(verb) || rest.length % 2 === 0)
    return undefined;
  const isList = rest.every((token, index) => (index % 2 === 0 ? token.startsWith("'") : token === ','));
  return isList
    ? { column: unquoted(column), values: rest.filter((_, index) => index % 2 === 0).map(unquoted) }
    : undefined;
}

/** Returns the text of a literal or of a quoted name. */
function unquoted(token: string): string {
  const [quote] = token;
  if (quote === undefined || !/['"`[]/.test(quote)) return token;
  return token.slice(1, -1).replaceAll(quote + quote, quote);
}

// -- PostgreSQL --

interface PostgresColumn
  extends CommentedColumn, Pick<CatalogueType, 'modifier' | 'dimensions' | 'isRequired'> {
  readonly isGenerated: boolean;
  readonly keyPosition: number;
  readonly checks: readonly string[];
}

// `deptype` 'e' marks a table of an extension, such as spatial_ref_sys
const POSTGRES_COLUMNS = `
  select c.relname::text as "table", obj_description(c.oid, 'pg_class') as "tableComment", a.attname::text as name,
    a.atttypid::text as type, a.atttypmod as modifier, a.attndims::int as dimensions, a.attnotnull as "isRequired",
    pg_get_expr(d.adbin, d.adrelid) as "default", col_description(c.oid, a.attnum) as comment,
    a.attidentity <> '' or a.attgenerated <> '' as "isGenerated",
    coalesce(array_position(k.conkey, a.attnum), 0) as "keyPosition",
    array(select pg_get_expr(v.conbin, v.conrelid) from pg_constraint v
      where v.conrelid = c.oid and v.contype = 'c' and v.convalidated and v.conkey = array[a.attnum] order by v.conname) as checks
  from pg_class c
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
  left join pg_constraint k on k.conrelid = c.oid and k.contype = 'p'
  where c.relnamespace = to_regnamespace(quote_ident(current_schema())) and c.relkind in ('r', 'p') and not c.relispartition
    and not exists (select from pg_depend e where e.classid = 'pg_class'::regclass and e.objid = c.oid and e.deptype = 'e')
  order by c.relname, a.attnum`;

interface CatalogueType {
  readonly oid: string;
  readonly name: string;
  readonly kind: string;
  /** Oid of the element type of an array, else '0'. */
  readonly element: string;
  /** Oid of the base type of a domain, else '0'. */
  readonly base: string;
  readonly modifier: number;
  readonly dimensions: number;
  readonly isRequired: boolean;
  readonly labels: readonly string[];
}

const POSTGRES_TYPES = `
  select t.oid::text as oid, t.typname::text as name, t.typtype::text as kind, t.typbasetype::text as base, t.typtypmod as modifier,
    t.typndims::int as dimensions, t.typnotnull as "isRequired",
    case when t.typcategory = 'A' then t.typelem::text else '0' end as element,
    array(select e.enumlabel::text from pg_enum e where e.enumtypid = t.oid order by e.enumsortorder) as labels
  from pg_type t`;

async function readPostgresTypes(database: Database): Promise<ReadonlyMap<string, CatalogueType>> {
  const types = (await database.fetchAll(POSTGRES_TYPES)) as unknown as CatalogueType[];
  return new Map(types.map((type) => [type.oid, type]));
}

async function readPostgres(database: Database, ownTypes: ReadonlySet<string>): Promise<Found[]> {
  const rows = (await database.fetchAll(POSTGRES_COLUMNS)) as unknown as PostgresColumn[];
  const byOid = await readPostgresTypes(database);
  return rows.map((row) => {
    const isSerial = /^nextval\('/.test(row.default ?? '');
    const type = postgresType(row, byOid, ownTypes);
    return {
      table: row.table,
      tableComment: presentText(row.tableComment),
      name: row.name,
      type: chosen(type, row, byOid),
      isNullable: !row.isRequired && byOid.get(row.type)?.isRequired !== true,
      isGenerated: row.isGenerated || isSerial,
      default: isSerial || row.isGenerated ? undefined : presentText(row.default)?.replace(CAST, '$1'),
      comment: presentText(row.comment),
      keyPosition: row.keyPosition,
    };
  });
}

/** A literal with a cast, as PostgreSQL writes the default of a column. */
const CAST = /^('(?:[^']|'')*')::[\w ."()[\]]+$/;

/** Text types that compare exactly. A `char(n)` ignores spaces at its end. */
const EXACT_TEXTS: readonly string[] = ['text', 'varchar'];

/** Returns the values that a check allows for a column of text, or else its type. */
function chosen(
  type: ColumnType,
  row: PostgresColumn,
  types: ReadonlyMap<string, CatalogueType>,
): ColumnType {
  if (!EXACT_TEXTS.includes(types.get(row.type)?.name ?? '')) return type;
  for (const check of row.checks) {
    const condition = check.replaceAll(/::(?:text|character varying)(?:\[\])?/g, '');
    const choice = choiceOf(tokensOf(condition, 'postgres').map(({ text }) => text));
    if (choice !== undefined) return { kind: 'literal', values: choice.values };
  }
  return type;
}

const POSTGRES_KINDS: Readonly<Record<string, Exclude<ColumnType['kind'], 'literal' | 'list'>>> = {
  bool: 'bool',
  bytea: 'bytes',
  date: 'date',
  float4: 'float',
  float8: 'float',
  int2: 'int',
  int4: 'int',
  int8: 'int',
  oid: 'int',
  json: 'any',
  jsonb: 'any',
  timestamp: 'datetime',
  timestamptz: 'datetime',
  uuid: 'uuid',
};
/** Modifier of a type without one, such as `varchar` and `numeric`. */
const NO_MODIFIER = -1;
/** Most digits that the type `decimal` allows: for a number without a precision. */
const UNLIMITED_NUMERIC = { digits: 1_000, places: 500 };

function postgresType(
  { type: oid, modifier, dimensions }: Pick<PostgresColumn, 'type' | 'modifier' | 'dimensions'>,
  types: ReadonlyMap<string, CatalogueType>,
  ownTypes: ReadonlySet<string>,
): ColumnType {
  const { name, kind, element, base, labels, ...domain } = types.get(oid)!; // the catalogue has every type
  if (kind === 'd')
    return postgresType(
      { type: base, modifier: domain.modifier, dimensions: domain.dimensions },
      types,
      ownTypes,
    );
  if (ownTypes.has(name)) return { kind: 'any' };
  if (element !== '0') {
    let list = postgresType({ type: element, modifier, dimensions: 0 }, types, ownTypes);
    for (let level = 0; level < Math.max(1, dimensions); level++) list = { kind: 'list', item: list };
    return list;
  }
  if (kind === 'e' && labels.length > 0) return { kind: 'literal', values: labels };
  if (name === 'numeric') return { kind: 'decimal', options: numericOptions(modifier) };
  if (name === 'varchar' || name === 'bpchar')
    return { kind: 'str', options: modifier === NO_MODIFIER ? undefined : { maxLength: modifier - 4 } };
  return { kind: POSTGRES_KINDS[name] ?? 'str' };
}

/** Returns the options of a `numeric`. Its modifier has the precision, and the scale as 11 bits with a sign. */
function numericOptions(modifier: number): Readonly<Record<string, number>> {
  if (modifier === NO_MODIFIER) return UNLIMITED_NUMERIC;
  const precision = (modifier - 4) >> 16;
  const scale = (((modifier - 4) & 0x7ff) ^ 0x400) - 0x400;
  return { digits: Math.max(precision, scale, precision - scale), places: Math.max(scale, 0) };
}

// -- MySQL and MariaDB --

interface MySqlColumn extends CommentedColumn {
  readonly declared: string;
  readonly digits: number | bigint | string | null;
  readonly places: number | bigint | string | null;
  readonly length: number | bigint | string | null;
  readonly isNullable: string;
  readonly extra: string;
  readonly keyPosition: number | bigint | string;
}

const MYSQL_COLUMNS = `
  select c.table_name as \`table\`, t.table_comment as tableComment, c.column_name as name, c.data_type as type,
    c.column_type as declared, c.numeric_precision as digits, c.numeric_scale as places,
    c.character_maximum_length as length, c.is_nullable as isNullable, c.column_default as \`default\`,
    c.extra as extra, c.column_comment as comment, coalesce(k.seq_in_index, 0) as keyPosition
  from information_schema.columns c
  join information_schema.tables t on t.table_schema = c.table_schema and t.table_name = c.table_name
  left join information_schema.statistics k on k.table_schema = c.table_schema and k.table_name = c.table_name
    and k.index_name = 'PRIMARY' and k.column_name = c.column_name
  where c.table_schema = database() and t.table_type in ('BASE TABLE', 'SYSTEM VERSIONED')
  order by c.table_name, c.ordinal_position`;

// MariaDB stores JSON in a text column with this check
const MARIADB_JSON = `
  select table_name as \`table\`, check_clause as clause from information_schema.check_constraints
  where constraint_schema = database() and check_clause like 'json_valid(%)'`;

async function readMySql(database: Database, ownTypes: ReadonlySet<string>): Promise<Found[]> {
  const isMariaDb = database.dialect === 'mariadb';
  const rows = (await database.fetchAll(MYSQL_COLUMNS)) as unknown as MySqlColumn[];
  const checks = isMariaDb ? await database.fetchAll(MARIADB_JSON) : [];
  const json = new Set(checks.map(({ table, clause }) => `${String(table)} ${String(clause)}`));
  return rows.map((row) => {
    const isJson = json.has(`${row.table} json_valid(\`${row.name.replaceAll('`', '``')}\`)`);
    const isGenerated = /auto_increment|(?:virtual|stored|persistent) generated/i.test(row.extra);
    return {
      table: row.table,
      tableComment: presentText(row.tableComment),
      name: row.name,
      type: isJson ? { kind: 'any' } : mySqlType(row, ownTypes),
      isNullable: row.isNullable === 'YES',
      isGenerated,
      default: isGenerated ? undefined : mySqlDefault(row, isMariaDb),
      comment: presentText(row.comment),
      keyPosition: Number(row.keyPosition),
    };
  });
}

const MYSQL_KINDS: Readonly<Record<string, Exclude<ColumnType['kind'], 'literal' | 'list'>>> = {
  ...Object.fromEntries(
    ['tinyint', 'smallint', 'mediumint', 'int', 'bigint', 'year'].map((name) => [name, 'int' as const]),
  ),
  ...Object.fromEntries(
    ['char', 'varchar', 'tinytext', 'text', 'mediumtext', 'longtext', 'set', 'time', 'inet4', 'inet6'].map(
      (name) => [name, 'str' as const],
    ),
  ),
  date: 'date',
  datetime: 'datetime',
  timestamp: 'datetime',
  double: 'float',
  float: 'float',
  json: 'any',
  uuid: 'uuid',
};

function mySqlType(row: MySqlColumn, ownTypes: ReadonlySet<string>): ColumnType {
  const { declared, length, digits, places } = row;
  const type = row.type.toLowerCase();
  if (ownTypes.has(type)) return { kind: 'any' };
  if (/^(?:tinyint\(1\)|bit\(1\))$/i.test(declared)) return { kind: 'bool' };
  switch (type) {
    case 'enum':
      return {
        kind: 'literal',
        values: [...declared.matchAll(/'((?:[^']|'')*)'/g)].map(([text]) => unquoted(text)),
      };
    case 'decimal':
      return { kind: 'decimal', options: { digits: Number(digits), places: Number(places) } };
    case 'char':
    case 'varchar':
      return { kind: 'str', options: { maxLength: Number(length) } };
    default:
      // values of other types, such as blob, bit(8) and point, are bytes
      return { kind: MYSQL_KINDS[type] ?? 'bytes' };
  }
}

/** Returns the type of a result. The server describes neither the values of an enum nor the digits of a decimal. */
function mySqlResultType(name: string, ownTypes: ReadonlySet<string>): ColumnType | undefined {
  if (ownTypes.has(name)) return { kind: 'any' };
  if (name === 'decimal') return { kind: 'decimal', options: UNLIMITED_NUMERIC };
  if (name === 'enum') return { kind: 'str' };
  return name === 'null' || name === 'bit' ? undefined : { kind: MYSQL_KINDS[name] ?? 'bytes' };
}

/** Returns the default as SQL text. MySQL itself returns a constant without its quotes. */
function mySqlDefault(row: MySqlColumn, isMariaDb: boolean): string | undefined {
  const { default: text, extra } = row;
  if (text === null || (isMariaDb && text === 'NULL')) return undefined;
  const isQuotedText = isMariaDb || /default_generated/i.test(extra) || row.digits !== null;
  return isQuotedText ? text : `'${text.replaceAll("'", "''")}'`;
}
