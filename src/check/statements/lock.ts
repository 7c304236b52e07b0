/**
 * File of `svc check --statements`: what databases say about the statements of the sources, so that later runs need no
 * database. One line an entry, sorted, so that changes of two branches merge:
 *
 *   database  ["main", dialect, snakeCase, hash of the migrations]
 *   migration ["main", id, name, checksum]
 *   table     ["main", name, { key, columns, … }]
 *   statement ["main", text, hash of the migrations, [types of the values], [[name, type, nullable, table, column], …]]
 */
import type { Described, DescribedColumn, Description } from '../../db/describe/describer.ts';
import type { Dialect } from '../../db/driver.ts';
import type { ColumnType, TableColumn, TableDescription } from '../../db/tables.ts';
import type { StatementDescriber } from './statement.ts';

/** A migration, as a lock file names it. */
export interface LockedMigration {
  readonly id: string;
  readonly name: string;
  readonly checksum: string;
}

/** Statements, tables and migrations of one database in a lock file. */
export interface LockedDatabase {
  readonly name: string;
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
  /** Hash of the migrations. */
  readonly hash: string;
  readonly migrations: readonly LockedMigration[];
  readonly tables: readonly TableDescription[];
  /** Statements by their text. */
  readonly statements: ReadonlyMap<string, LockedStatement>;
}

/** A statement with the hash of the migrations for which it was described. */
export interface LockedStatement {
  readonly hash: string;
  readonly described: Described;
}

const TITLE =
  '# SQL statements, and what their databases say about them. Written by "svc check --statements": do not edit.';
const DIALECTS: ReadonlySet<string> = new Set(['sqlite', 'postgres', 'mysql', 'mariadb'] satisfies Dialect[]);
const CHECKSUM_CHARACTERS = 16;

/** Whether a text is a lock file, and not another kind of file. */
export function isLock(text: string): boolean {
  return text.startsWith(TITLE);
}

/** Returns the text of a lock file. Equal databases give equal texts. */
export function writeLock(databases: Iterable<LockedDatabase>): string {
  const lines = [...databases].flatMap(
    ({ name, dialect, snakeCase, hash, migrations, tables, statements }) => [
      line('database', [name, dialect, snakeCase, hash]),
      ...migrations.map(({ id, name: title, checksum }) => line('migration', [name, id, title, checksum])),
      ...tables.map((table) => line('table', [name, table.name, packedTable(table)])),
      ...[...statements].map(([text, each]) =>
        line('statement', [name, text, each.hash, ...packed(each.described)]),
      ),
    ],
  );
  return `${[TITLE, ...lines.sort((one, other) => (one < other ? -1 : 1))].join('\n')}\n`;
}

function line(kind: string, fields: readonly unknown[]): string {
  return `${kind} ${JSON.stringify(fields)}`;
}

/** Returns the fields of a statement. Absent fields at the end of a column are left out. */
function packed({ parameters, columns }: Described): readonly unknown[] {
  return [
    parameters.map(({ type, kind }) => trimmed([type, packedType(kind)])),
    columns.map(({ name, type, isNullable, table, column, kind }) =>
      trimmed([name, type, isNullable, table, column, packedType(kind)]),
    ),
  ];
}

function trimmed(fields: readonly unknown[]): readonly unknown[] {
  const last = fields.findLastIndex((field) => field !== undefined);
  return fields.slice(0, last + 1).map((field) => field ?? null);
}

function packedType(type: ColumnType | undefined): ColumnType | string | undefined {
  return type !== undefined && Object.values(type).filter((value) => value !== undefined).length === 1
    ? type.kind
    : type;
}

function packedTable({ primaryKey, uniqueKeys, columns, hasInsertTrigger }: TableDescription): object {
  return {
    key: primaryKey,
    ...(uniqueKeys.length > 0 && { unique: uniqueKeys }),
    ...(hasInsertTrigger && { trigger: true }),
    columns: columns.map((column) =>
      trimmed([
        column.name,
        packedType(column.type),
        column.isNullable ? 'null' : column.isGenerated ? 'generated' : undefined,
        column.default,
      ]),
    ),
  };
}

/**
 * Reads a lock file.
 *
 * @throws Error with the number of the line that is not valid
 */
export function readLock(text: string): LockedDatabase[] {
  const databases = new Map<string, Mutable>();
  text.split('\n').forEach((each, index) => {
    if (each === '' || each.startsWith('#')) return;
    try {
      readLine(each, databases);
    } catch (error) {
      throw new Error(`line ${index + 1} is not valid: ${(error as Error).message}`, { cause: error });
    }
  });
  return [...databases.values()];
}

interface Mutable extends LockedDatabase {
  readonly migrations: LockedMigration[];
  readonly tables: TableDescription[];
  readonly statements: Map<string, LockedStatement>;
}

// the lines are sorted, so the line of a database comes before its other lines
function readLine(text: string, databases: Map<string, Mutable>): void {
  const space = text.indexOf(' ');
  const kind = text.slice(0, space);
  const fields: unknown = JSON.parse(text.slice(space + 1));
  if (!Array.isArray(fields)) throw new Error('a list is needed');
  const [name, first, second, third, fourth] = fields as unknown[];
  if (typeof name !== 'string' || typeof first !== 'string') throw new Error('a name is needed');
  if (kind === 'database') {
    if (!DIALECTS.has(first)) throw new Error(`"${first}" is not a database engine`);
    const dialect = first as Dialect; // the set has exactly the dialects
    const own = { name, dialect, snakeCase: second === true, hash: String(third) };
    databases.set(name, { ...own, migrations: [], tables: [], statements: new Map() });
    return;
  }
  const database = databases.get(name);
  if (database === undefined) throw new Error(`there is no line of the database "${name}" before it`);
  if (kind === 'migration')
    database.migrations.push({ id: first, name: String(second), checksum: String(third) });
  else if (kind === 'table') database.tables.push(unpackedTable(first, second));
  else if (kind === 'statement')
    database.statements.set(first, { hash: String(second), described: unpacked(third, fourth) });
  else throw new Error(`"${kind}" is not a kind of line`);
}

function lists(value: unknown): readonly (readonly unknown[])[] {
  if (!Array.isArray(value) || !value.every(Array.isArray)) throw new Error('a list of lists is needed');
  return value;
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

function typeOf(value: unknown): ColumnType | undefined {
  if (value === undefined || value === null) return undefined;
  // the file is written by this module; a type that is not known is judged by no rule
  return (typeof value === 'string' ? { kind: value } : value) as ColumnType;
}

function unpacked(parameters: unknown, columns: unknown): Described {
  return {
    kind: 'described',
    parameters: lists(parameters).map(([type, kind]) => ({ type: textOf(type), kind: typeOf(kind) })),
    columns: lists(columns).map(([name, type, isNullable, table, column, kind]): DescribedColumn => ({
      name: String(name),
      type: textOf(type),
      kind: typeOf(kind),
      table: textOf(table),
      column: textOf(column),
      isNullable: typeof isNullable === 'boolean' ? isNullable : undefined,
    })),
  };
}

function unpackedTable(name: string, packedFields: unknown): TableDescription {
  const { key, unique = [], trigger, columns } = packedFields as Readonly<Record<string, unknown>>;
  return {
    name,
    comment: undefined,
    primaryKey: lists([key])[0]!.map(String),
    uniqueKeys: lists(unique).map((each) => each.map(String)),
    foreignKeys: [],
    hasInsertTrigger: trigger === true,
    columns: lists(columns).map(([column, type, state, fallback]): TableColumn => ({
      name: String(column),
      type: typeOf(type) ?? { kind: 'any' },
      isNullable: state === 'null',
      isGenerated: state === 'generated',
      default: textOf(fallback),
      comment: undefined,
    })),
  };
}

/** Returns the migrations of a database as a lock file names them. */
export function lockedMigrations(migrations: readonly LockedMigration[]): LockedMigration[] {
  return migrations.map(({ id, name, checksum }) => ({
    id,
    name,
    checksum: checksum.slice(0, CHECKSUM_CHARACTERS),
  }));
}

/** Returns words for the first difference between the migrations of a lock file and those of the application. */
export function differenceOf(
  locked: readonly LockedMigration[],
  present: readonly LockedMigration[],
): string | undefined {
  const labelOf = ({ id, name }: LockedMigration): string => (id.includes('/') ? id : `${id}_${name}`);
  for (const migration of present) {
    const known = locked.find(({ id }) => id === migration.id);
    if (known === undefined) return `the migration ${labelOf(migration)} was added`;
    if (known.checksum !== migration.checksum || known.name !== migration.name)
      return `the migration ${labelOf(migration)} was changed`;
  }
  const gone = locked.find(({ id }) => !present.some((migration) => migration.id === id));
  return gone === undefined ? undefined : `the migration ${labelOf(gone)} was removed`;
}

/** Returns what a lock file says of a database that is not there. `hash` is the hash of the present migrations. */
export function lockDescriber(
  { dialect, snakeCase, tables, statements }: LockedDatabase,
  hash: string,
): StatementDescriber {
  const describeStatement = (text: string): Promise<Description> => {
    const found = statements.get(text);
    return Promise.resolve(
      found?.hash === hash
        ? found.described
        : { kind: 'untold', reason: found === undefined ? 'absent' : 'stale' },
    );
  };
  return { dialect, snakeCase, tables, hash, isLocked: true, describeStatement };
}
