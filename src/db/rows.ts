/**
 * Reads rows as instances of a schema, for the option `as`. Compiles one function per schema, engine and list
 * of columns.
 */
import { SvcError } from '../base/errors.ts';
import { onePer, shown, outOfRange } from '../base/options.ts';
import { classPlan, compileType } from '../schema/plan.ts';
import { columnCheck, rowReading, snakeCased, type RowReading } from '../schema/rows.ts';
import { FAIL, isSchemaClass } from '../schema/types.ts';
import { Run, type Check } from '../schema/validation-run.ts';
import type { Issue } from '../base/errors.ts';
import type { JsonText } from '../schema/nodes.ts';
import type { Infer, SchemaClass, TypeSource } from '../schema/types.ts';
import type { Dialect, Row, SqlValue } from './driver.ts';
import type { QueryOptions } from './limits.ts';

/** Options of a method that reads rows as instances of a schema. */
export interface RowOptions<T extends object = object> extends QueryOptions {
  /**
   * Schema class of the rows. Each row is validated and becomes an instance; a row that does not fit throws
   * `E_DB_ROW`.
   */
  readonly as: SchemaClass<T>;
  /**
   * Whether the member `createdAt` is read from the column `created_at`. Default: the option `snakeCase` of
   * the database, which is false by default.
   */
  readonly snakeCase?: boolean | undefined;
}

/** Options of `scalar()` with a type for its value. */
export interface ValueOptions<S extends TypeSource = TypeSource> extends QueryOptions {
  /**
   * Type of the value, for example `int`, `nullable(str)` or a schema class. A value that does not fit throws
   * `E_DB_ROW`.
   */
  readonly as: S;
}

/** Options of `fetchSets()` with a schema for the rows of each result. */
export interface SetOptions<S extends readonly SchemaClass[] = readonly SchemaClass[]> extends QueryOptions {
  /**
   * One schema class for each result, in the order of the results. A different number of results throws
   * `E_DB_ROW`.
   */
  readonly as: S;
  /** Whether the member `createdAt` is read from the column `created_at`, as in {@link RowOptions}. */
  readonly snakeCase?: boolean | undefined;
}

/** Types of the rows that `fetchSets()` returns, derived from the schemas in `as`. */
export type SetsOf<S extends readonly SchemaClass[]> = {
  -readonly [K in keyof S]: S[K] extends SchemaClass<infer T> ? T[] : never;
};

/** Options of any method that runs a statement. @internal */
export type VerbOptions = QueryOptions | RowOptions | ValueOptions | SetOptions;

/** Returns the options without `as` and `snakeCase`, or undefined when none are left. @internal */
export function limitsOf(options: VerbOptions): QueryOptions | undefined {
  for (const name in options) {
    if (name === 'as' || name === 'snakeCase') continue;
    const { as: _as, snakeCase: _snakeCase, ...limits } = options as RowOptions;
    return limits;
  }
  return undefined;
}

/**
 * Types for which text of each engine is parsed as JSON. SQLite has no JSON type. In MySQL and MariaDB, an
 * expression such as `coalesce(json_arrayagg(a), '[]')` is text. In PostgreSQL, the text of a `jsonb` string
 * such as `"[1,2]"` must not be parsed again.
 */
export const JSON_TEXT: Readonly<Record<Dialect, JsonText>> = {
  sqlite: 'all',
  mysql: 'structures',
  mariadb: 'structures',
  postgres: 'none',
};

/** Maximum number of compiled functions that are cached per schema. A full cache is emptied. */
const MAX_READINGS = 100;

interface Readings {
  readonly byColumns: Map<string, ColumnReading>;
  last: ColumnReading | undefined;
}

interface ColumnReading extends Pick<RowReading, 'check'> {
  readonly columns: readonly string[];
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
}

const readingsOf = onePer((_: SchemaClass): Readings => ({ byColumns: new Map(), last: undefined }));

export class RowDecoder<T extends object> {
  readonly #schema: SchemaClass<T>;
  readonly #dialect: Dialect;
  readonly #snakeCase: boolean;
  readonly #readings: Readings;
  #count = 0;

  constructor({ as, snakeCase }: RowOptions<T>, dialect: Dialect, usesSnakeCase: boolean) {
    if (!isSchemaClass(as))
      throw outOfRange('the statement', 'as', 'must be a class that extends Schema', shown(as as unknown));
    if (snakeCase !== undefined && typeof snakeCase !== 'boolean')
      throw outOfRange('the statement', 'snakeCase', 'must be true or false', shown(snakeCase));
    this.#schema = as;
    this.#dialect = dialect;
    this.#snakeCase = snakeCase ?? usesSnakeCase;
    this.#readings = readingsOf(as);
  }

  /** Replaces each row in the array with an instance, and returns the array. */
  all(rows: Row[]): T[] {
    if (rows.length === 0) return [];
    const { check } = this.#reading(rows[0]!);
    const run = new Run(false, false); // this validation stops at its first issue
    for (let index = 0; index < rows.length; index++)
      (rows as object[])[index] = this.#read(check, rows[index]!, run);
    return rows as object[] as T[];
  }

  one(row: Row): T {
    return this.#read(this.#reading(row).check, row, new Run(false, false));
  }

  #read(check: Check, row: Row, run: Run): T {
    this.#count++;
    const instance = check(row, run);
    if (instance !== FAIL) return instance as T;
    const { loc } = run.issues(undefined)[0]!;
    const problem = problemOf(run, `column "${String(loc[0])}"`, row, loc);
    throw new SvcError('E_DB_ROW', [`row ${this.#count}`, this.#schema.name, problem]);
  }

  #reading(row: Row): ColumnReading {
    const { last } = this.#readings;
    const isSame =
      last?.dialect === this.#dialect && last.snakeCase === this.#snakeCase && hasColumns(row, last.columns);
    return isSame ? last : this.#find(Object.keys(row));
  }

  #find(columns: readonly string[]): ColumnReading {
    const [dialect, snakeCase, readings] = [this.#dialect, this.#snakeCase, this.#readings];
    const key = [dialect, snakeCase, ...columns].join('\0');
    let reading = readings.byColumns.get(key);
    if (reading === undefined) {
      reading = { check: this.#compile(columns), columns, dialect, snakeCase };
      if (readings.byColumns.size >= MAX_READINGS) readings.byColumns.clear();
      readings.byColumns.set(key, reading);
    }
    return (readings.last = reading);
  }

  #compile(columns: readonly string[]): Check {
    const naming = { snakeCase: this.#snakeCase, jsonText: JSON_TEXT[this.#dialect] };
    const { check, missing, unknown } = rowReading(classPlan(this.#schema), columns, naming);
    if (missing.length > 0) throw this.#refused(`there is no column ${missingColumns(missing, columns)}`);
    if (unknown.length > 0) throw this.#refused(`no member has the column "${unknown[0]!}"`);
    return check;
  }

  #refused(problem: string): SvcError {
    return new SvcError('E_DB_ROW', ['rows', this.#schema.name, problem]);
  }
}

/**
 * Validates a value, and converts it to the type `source`.
 *
 * @throws SvcError `E_DB_ROW` when the value does not have the type; `E_SCHEMA_FIELD` when `source` is not a
 *   type
 */
export function valueAs<S extends TypeSource>(value: unknown, source: S, dialect: Dialect): Infer<S> {
  const run = new Run(false, false);
  const read = checkOf(source, dialect)(value, run);
  if (read !== FAIL) return read as Infer<S>;
  const { loc } = run.issues(undefined)[0]!;
  throw new SvcError('E_DB_ROW', [
    'the value',
    'a type',
    problemOf(run, 'it', { it: value as SqlValue }, ['it', ...loc]),
  ]);
}

const CHECKS = new WeakMap<object, Map<Dialect, Check>>();

function checkOf(source: TypeSource, dialect: Dialect): Check {
  const known = CHECKS.get(source)?.get(dialect);
  if (known !== undefined) return known;
  const { node } = compileType(source, 'of the option "as"'); // throws when `source` is not a type
  const check = columnCheck(node, JSON_TEXT[dialect]);
  CHECKS.set(source, new Map([...(CHECKS.get(source) ?? []), [dialect, check]]));
  return check;
}

function hasColumns(row: Row, columns: readonly string[]): boolean {
  let count = 0;
  for (const name in row) if (name !== columns[count++]) return false;
  return count === columns.length;
}

function missingColumns(missing: readonly string[], columns: readonly string[]): string {
  const names = missing.map((name) => `"${name}"`).join(', ');
  const snake = missing.map(snakeCased).find((name) => columns.includes(name));
  const hint = snake === undefined ? '' : ` (set snakeCase: true to use the column "${snake}")`;
  return `${names}, found ${columns.map((name) => `"${name}"`).join(', ')}${hint}`;
}

/**
 * Describes the first invalid value for an error message, with the number of further problems. Never shows
 * the value.
 */
function problemOf(run: Run, where: string, row: Row, path: Issue['loc']): string {
  const { message } = run.issues(undefined)[0]!;
  const place = path.slice(1).map((key) => `[${typeof key === 'number' ? key : JSON.stringify(key)}]`);
  const more = run.count === 1 ? '' : `, and ${run.count - 1} more problem${run.count === 2 ? '' : 's'}`;
  return `${where}${place.join('')} ${message}, found ${foundOf(valueAt(row, path))}${more}`;
}

function valueAt(row: Row, path: Issue['loc']): unknown {
  let value: unknown = row;
  for (const [depth, key] of path.entries()) {
    // parsing cannot fail, because the validation has already parsed this JSON text
    if (depth === 1 && typeof value === 'string') value = JSON.parse(value);
    value = (value as Readonly<Record<string | number, unknown>> | null | undefined)?.[key];
  }
  return value;
}

function foundOf(value: unknown): string {
  if (value === null) return 'NULL';
  if (value === undefined) return 'nothing';
  if (value instanceof Date) return 'a Date';
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  if (typeof value === 'bigint' || typeof value === 'number')
    return Number.isInteger(value) || typeof value === 'bigint' ? 'an integer' : 'a number';
  return shown(value);
}
