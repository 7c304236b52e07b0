/**
 * Rows -> instances of a schema, for the option `as`. How rows are read is compiled once for each schema, engine and list of columns.
 */
import { SvcError } from '../base/errors.ts';
import { isObject, shown } from '../base/options.ts';
import { classPlan, compileType } from '../schema/plan.ts';
import { columnCheck } from '../schema/column-values.ts';
import { rowReading, snakeCased, type RowReading } from '../schema/rows.ts';
import { FAIL, isSchemaClass } from '../schema/types.ts';
import { Run, type Check } from '../schema/validation-run.ts';
import type { Issue } from '../base/errors.ts';
import type { Infer, SchemaClass, TypeSource } from '../schema/types.ts';
import type { Dialect, Row, SqlValue } from './driver.ts';
import type { QueryOptions } from './limits.ts';

/** The options of a verb whose rows are read as a schema. */
export interface RowOptions<T extends object = object> extends QueryOptions {
  /** Rows are validated instances of this class, a subclass of `Schema`. A row that does not fit is `E_DB_ROW`. */
  readonly as: SchemaClass<T>;
  /** Whether the column `created_at` is the member `createdAt`. Default: as the database says, which is false by default. */
  readonly snakeCase?: boolean | undefined;
}

/** The options of `scalar()` whose value is read as a type. */
export interface ValueOptions<S extends TypeSource = TypeSource> extends QueryOptions {
  /** The value is one of this type: `int`, `nullable(str)`, a class. A value that does not fit is `E_DB_ROW`. */
  readonly as: S;
}

/** The options of a verb, whatever it makes of rows. @internal */
export type VerbOptions = QueryOptions | RowOptions | ValueOptions;

/** Whether rows, or a value, are to be read as a schema. @internal */
export function hasSchema(options: VerbOptions | undefined): options is RowOptions | ValueOptions {
  return isObject(options) && 'as' in options;
}

/** The options without those of reading rows; undefined when there are no others. @internal */
export function limitsOf(options: VerbOptions): QueryOptions | undefined {
  const { as: _as, snakeCase: _snakeCase, ...limits } = options as RowOptions;
  for (const _name in limits) return limits;
  return undefined;
}

/** Lists of columns that are remembered for one schema: then they are compiled again. */
const MAX_READINGS = 100;

/** The readings of one schema. */
interface Readings {
  readonly byColumns: Map<string, ColumnReading>;
  last: ColumnReading | undefined;
}

interface ColumnReading extends Pick<RowReading, 'check'> {
  readonly columns: readonly string[];
  readonly dialect: Dialect;
  readonly snakeCase: boolean;
}

const READINGS = new WeakMap<SchemaClass, Readings>();

/** Reads rows as instances of a schema. `T`: of that. */
export class RowDecoder<T extends object> {
  readonly #schema: SchemaClass<T>;
  readonly #dialect: Dialect;
  readonly #snakeCase: boolean;
  readonly #readings: Readings;
  /** Rows so far. */
  #count = 0;

  /** @throws SvcError `E_OPTION_RANGE` for what is not a schema, or not true or false */
  constructor({ as, snakeCase }: RowOptions<T>, dialect: Dialect, usesSnakeCase: boolean) {
    if (!isSchemaClass(as))
      throw new SvcError('E_OPTION_RANGE', [
        'the statement',
        'as',
        'a class that extends Schema',
        shown(as as unknown),
      ]);
    if (snakeCase !== undefined && typeof snakeCase !== 'boolean')
      throw new SvcError('E_OPTION_RANGE', ['the statement', 'snakeCase', 'true or false', shown(snakeCase)]);
    this.#schema = as;
    this.#dialect = dialect;
    this.#snakeCase = snakeCase ?? usesSnakeCase;
    this.#readings = readingsOf(as);
  }

  /** An instance for each row, in the place of the row. @throws SvcError `E_DB_ROW` */
  all(rows: Row[]): T[] {
    if (rows.length === 0) return [];
    const { check } = this.#reading(rows[0]!);
    const run = new Run(false, false); // the first problem ends it
    for (let index = 0; index < rows.length; index++)
      (rows as object[])[index] = this.#read(check, rows[index]!, run);
    return rows as object[] as T[]; // each was replaced
  }

  /** An instance for a row. @throws SvcError `E_DB_ROW` */
  one(row: Row): T {
    return this.#read(this.#reading(row).check, row, new Run(false, false));
  }

  #read(check: Check, row: Row, run: Run): T {
    this.#count++;
    const instance = check(row, run);
    if (instance !== FAIL) return instance as T; // the plan of its class has built it
    const { loc } = run.issues(undefined)[0]!; // it has failed
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
    const naming = { snakeCase: this.#snakeCase, parsesText: this.#dialect === 'sqlite' };
    const { check, missing, unknown } = rowReading(classPlan(this.#schema), columns, naming);
    if (missing.length > 0) throw this.#refused(`there is no column ${missingColumns(missing, columns)}`);
    if (unknown.length > 0) throw this.#refused(`no member has the column "${unknown[0]!}"`);
    return check;
  }

  #refused(problem: string): SvcError {
    return new SvcError('E_DB_ROW', ['rows', this.#schema.name, problem]);
  }
}

/** Reads a value as a type. @throws SvcError `E_DB_ROW`; `E_SCHEMA_FIELD` for what is not a type */
export function valueAs<S extends TypeSource>(value: unknown, source: S, dialect: Dialect): Infer<S> {
  const run = new Run(false, false);
  const read = checkOf(source, dialect)(value, run);
  if (read !== FAIL) return read as Infer<S>; // as the check has found
  const { loc } = run.issues(undefined)[0]!; // it has failed
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
  const { node } = compileType(source, 'of the option "as"'); // refuses what is not a type
  const check = columnCheck(node, dialect === 'sqlite');
  CHECKS.set(source, new Map([...(CHECKS.get(source) ?? []), [dialect, check]]));
  return check;
}

function readingsOf(schema: SchemaClass): Readings {
  let readings = READINGS.get(schema);
  if (readings === undefined) READINGS.set(schema, (readings = { byColumns: new Map(), last: undefined }));
  return readings;
}

function hasColumns(row: Row, columns: readonly string[]): boolean {
  let count = 0;
  for (const name in row) if (name !== columns[count++]) return false;
  return count === columns.length;
}

/** The first of them, and the column that was perhaps meant. */
function missingColumns(missing: readonly string[], columns: readonly string[]): string {
  const names = missing.map((name) => `"${name}"`).join(', ');
  const snake = missing.map(snakeCased).find((name) => columns.includes(name));
  const hint = snake === undefined ? '' : ` ("${snake}" would do with snakeCase: true)`;
  return `${names}, found ${columns.map((name) => `"${name}"`).join(', ')}${hint}`;
}

/** A sentence on the first value that does not fit, and how many more there are. Never shows a value. */
function problemOf(run: Run, where: string, row: Row, path: Issue['loc']): string {
  const { message } = run.issues(undefined)[0]!; // its caller has seen one
  const place = path.slice(1).map((key) => `[${typeof key === 'number' ? key : JSON.stringify(key)}]`);
  const more = run.count === 1 ? '' : `, and ${run.count - 1} more problem${run.count === 2 ? '' : 's'}`;
  return `${where}${place.join('')} ${message}, found ${foundOf(valueAt(row, path))}${more}`;
}

function valueAt(row: Row, path: Issue['loc']): unknown {
  let value: unknown = row;
  for (const [depth, key] of path.entries()) {
    if (depth === 1 && typeof value === 'string') value = JSON.parse(value); // it has been read before
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
