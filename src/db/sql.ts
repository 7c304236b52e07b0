/**
 * SQL templates: each `${...}` becomes a bound value and never becomes part of the text. Templates can
 * contain other templates:
 *   const mine = sql`owner = ${user}`;
 *   db.fetchAll(sql`select * from note where ${sql.and(mine, sql.in(sql`id`, ids), since && sql`at > ${since}`)}`)
 *   db.execute(sql`update note set ${sql.set(patch, ['title', 'text'])} where id = ${id}`)
 */
import { SvcError } from '../base/errors.ts';
import { isObject, onePer, shown } from '../base/options.ts';
import { isMySql, quotedName } from './dialects.ts';
import { Bound, bytesOf, type Parameter } from './values.ts';
import type { Dialect } from './driver.ts';

/** Text of a statement, or a function that returns the text for a dialect. */
type Part = string | ((dialect: Dialect) => string);

/** A statement, or a fragment of a statement, with its values. Made by {@link sql}. */
export class Sql extends Bound {
  /** Texts in the order of the statement. Each `?` stands for one value of `params`. */
  readonly #parts: readonly Part[];
  readonly params: readonly Parameter[];

  /** @internal */
  constructor(parts: readonly Part[], params: readonly Parameter[]) {
    super();
    this.#parts = parts;
    this.params = params;
  }

  /** Returns the text for a dialect, with a `?` for every value. */
  text(dialect: Dialect): string {
    return this.#parts.length === 1 && typeof this.#parts[0] === 'string'
      ? this.#parts[0]
      : this.#parts.map((part) => (typeof part === 'string' ? part : part(dialect))).join('');
  }

  protected get maker(): string {
    return 'sql';
  }

  /** @internal */
  get parts(): readonly Part[] {
    return this.#parts;
  }
}

type Piece = Parameter | Sql;

/** A part of `sql.and()` or `sql.or()`. A part that is false, null or undefined is left out. */
export type SqlCondition = Sql | false | null | undefined;

/** Returns the text of a template that contains only values and no other templates. */
const textOf = onePer((strings: TemplateStringsArray) => strings.join('?'));

function template(strings: TemplateStringsArray, ...values: readonly Piece[]): Sql {
  if (!values.some((value) => value instanceof Sql))
    return new Sql([textOf(strings)], values as readonly Parameter[]);
  const parts: Part[] = [strings[0]!];
  const params: Parameter[] = [];
  values.forEach((value, index) => {
    append(parts, params, value);
    parts.push(strings[index + 1]!);
  });
  return new Sql(parts, params);
}

function append(parts: Part[], params: Parameter[], value: Piece): void {
  if (!(value instanceof Sql)) {
    parts.push('?');
    params.push(value);
    return;
  }
  // loops, because spreading a long list into push() overflows the stack
  for (const part of value.parts) parts.push(part);
  for (const param of value.params) params.push(param);
}

function identifier(...names: readonly string[]): Sql {
  // check the names now, so that the error's stack leads to the template
  for (const name of names) quotedName('sqlite', name);
  if (names.length === 0)
    throw new SvcError('E_DB_IDENTIFIER', ['sql.identifier() needs at least one name, found none']);
  return new Sql([(dialect) => names.map((name) => quotedName(dialect, name)).join('.')], []);
}

function join(values: Iterable<Piece>, separator: Sql = COMMA): Sql {
  const parts: Part[] = [];
  const params: Parameter[] = [];
  let isFirst = true;
  for (const value of values) {
    if (!isFirst) append(parts, params, separator);
    append(parts, params, value);
    isFirst = false;
  }
  if (isFirst) throw new SvcError('E_DB_JOIN', []);
  return new Sql(parts, params);
}

const COMMA = new Sql([', '], []);
const TRUE = new Sql(['1 = 1'], []);
const FALSE = new Sql(['1 = 0'], []);

function combine(name: 'and' | 'or', parts: readonly SqlCondition[]): Sql {
  const present = parts.filter((part) => part !== undefined && part !== null && part !== false);
  if (present.length === 0) return name === 'and' ? TRUE : FALSE;
  const terms = present.map((part) => sql`(${fragment(`sql.${name}()`, part)})`);
  return sql`(${join(terms, new Sql([` ${name} `], []))})`;
}

function isIn(tested: Sql, list: Iterable<Piece>): Sql {
  const left = fragment('sql.in()', tested);
  const values = [...listed('sql.in()', list)];
  if (values.length === 0) return FALSE;
  const known = values.filter((value) => value !== null);
  const isNull = sql`${left} is null`;
  if (known.length === 0) return isNull;
  const member = sql`${left} in (${join(known)})`;
  return known.length === values.length ? member : sql`(${member} or ${isNull})`;
}

function set(patch: object, columns: object): Sql {
  const pairs = columnsOf('sql.set()', columns);
  const given = pairs.flatMap(([member, column]) => {
    const value = memberOf(patch, member);
    return value === undefined ? [] : [sql`${identifier(column)} = ${value}`];
  });
  if (given.length === 0)
    refuse(
      'sql.set()',
      `there is nothing to update, the patch has none of ${pairs.map(([member]) => `"${member}"`).join(', ')}`,
    );
  return join(given);
}

function values(rows: Iterable<object>, columns?: object): Sql {
  const pairs = columns === undefined ? undefined : columnsOf(VALUES, columns);
  let width = pairs?.length;
  const lists: Sql[] = [];
  for (const row of listed(VALUES, rows)) {
    const list = pairs === undefined ? row : pairs.map(([member]) => memberOf(row, member));
    const pieces = completeRow(list, lists.length + 1, pairs);
    width ??= pieces.length;
    if (pieces.length !== width || width === 0)
      refuse(VALUES, `row ${lists.length + 1} has ${pieces.length} values, but the first row has ${width}`);
    lists.push(sql`(${join(pieces)})`);
  }
  if (lists.length === 0)
    refuse(VALUES, 'the list of rows is empty: run no statement then, or use insertMany()');
  const rendered = sql`values ${join(lists)}`;
  if (pairs === undefined) return rendered;
  return sql`(${join(pairs.map(([, column]) => identifier(column)))}) ${rendered}`;
}

const VALUES = 'sql.values()';

/** Returns the values of a row. Refuses a row that lacks a value. */
function completeRow(list: unknown, number: number, pairs: ColumnPairs | undefined): readonly Piece[] {
  if (!Array.isArray(list)) refuse(VALUES, `row ${number} is not an array, and the columns are missing`);
  const pieces = list as readonly (Piece | undefined)[];
  const absent = pieces.indexOf(undefined);
  if (absent >= 0) {
    const name = pairs === undefined ? `value ${absent + 1}` : `"${pairs[absent]![0]}"`;
    refuse(VALUES, `row ${number} has no ${name}: write null for NULL`);
  }
  return pieces as readonly Piece[];
}

function upsert(key: Iterable<string>, given: Iterable<string | Sql>): Sql {
  const [first, ...others] = [...listed('sql.upsert()', key)].map((name) => identifier(name));
  if (first === undefined) refuse('sql.upsert()', 'the list of key columns is empty');
  const changes = [...listed('sql.upsert()', given)];
  const assigned = (proposed: (name: Sql) => Sql): Sql =>
    join(
      changes.map((change) => {
        if (change instanceof Sql) return change;
        const name = identifier(change);
        return sql`${name} = ${proposed(name)}`;
      }),
    );
  const target = sql`on conflict (${join([first, ...others])})`;
  const isKept = changes.length === 0;
  const standard = isKept
    ? sql`${target} do nothing`
    : sql`${target} do update set ${assigned((name) => sql`excluded.${name}`)}`;
  // MySQL 8 and MariaDB both know values(); the row alias of MySQL is unknown to MariaDB
  const ofMySql = sql`on duplicate key update ${isKept ? sql`${first} = ${first}` : assigned((name) => sql`values(${name})`)}`;
  return new Sql([(dialect) => (isMySql(dialect) ? ofMySql : standard).text(dialect)], standard.params);
}

type ColumnPairs = readonly (readonly [member: string, column: string])[];

/** Returns pairs of a member of an object, and the column that gets its value. */
function columnsOf(owner: string, columns: object): ColumnPairs {
  const isList = Array.isArray(columns);
  const pairs = Object.entries<string>(isObject(columns) ? { ...columns } : {}).map(
    ([member, column]) => [isList ? column : member, column] as const,
  );
  if (pairs.length === 0) refuse(owner, `the list of columns is empty or missing, found ${shown(columns)}`);
  return pairs;
}

/** Returns an own member, because an inherited one such as `constructor` was not set by the caller. */
function memberOf(row: unknown, member: string): Piece | undefined {
  return isObject(row) && Object.hasOwn(row, member) ? (row as Record<string, Piece>)[member] : undefined;
}

/** Refuses text and bytes, because their characters or bytes would be taken for a list of values. */
function listed<T>(owner: string, list: Iterable<T>): Iterable<T> {
  const isList =
    isObject(list) && Symbol.iterator in list && !(list instanceof String) && bytesOf(list) === undefined;
  return isList ? list : refuse(owner, `it needs a list, found ${shown(list)}`);
}

function fragment(owner: string, part: unknown): Sql {
  return part instanceof Sql ? part : refuse(owner, `it needs an sql template, found ${shown(part)}`);
}

function refuse(owner: string, problem: string): never {
  throw new SvcError('E_DB_FRAGMENT', [owner, problem]);
}

/** Names of the members whose values can be bound. */
type BindableKey<T> = {
  [K in keyof T & string]-?: T[K] extends Piece | undefined ? K : never;
}[keyof T & string];
/** Columns for the members of `T`: a list of names, or an object such as `{ createdAt: 'created_at' }`. */
type ColumnsOf<T, K extends string = BindableKey<T>> = [K] extends [never]
  ? never
  : readonly K[] | { readonly [N in K]?: string };

/** Template tag for SQL, with functions for names, conditions, lists and rows. */
interface SqlTag {
  (strings: TemplateStringsArray, ...values: readonly Piece[]): Sql;
  /**
   * Returns a quoted table or column name. Several names are joined by dots: `"main"."users"`.
   *
   * @throws SvcError `E_DB_IDENTIFIER` for a name that is empty, longer than 63 bytes, or contains NUL
   */
  identifier(...names: readonly string[]): Sql;
  /**
   * Joins values or fragments of SQL by a separator. The default separator is a comma. {@link in} takes lists
   * that may be empty.
   *
   * @throws SvcError `E_DB_JOIN` when there are no values
   */
  join(values: Iterable<Piece>, separator?: Sql): Sql;
  /**
   * Joins conditions by `and`, in parentheses. Leaves out parts that are false, null or undefined, so that a
   * filter may be optional: `sql.and(sql`owner = ${user}`, name !== undefined && sql`name = ${name}`)`.
   * Without any part, the condition is true.
   *
   * @throws SvcError `E_DB_FRAGMENT` for a part of another type. An empty text or 0 is refused, too, because
   *   a filter by that value would silently be left out
   */
  and(...parts: readonly SqlCondition[]): Sql;
  /**
   * Joins conditions by `or`, in parentheses. Leaves out parts that are false, null or undefined. Without any
   * part, the condition is false.
   *
   * @throws SvcError `E_DB_FRAGMENT` for a part of another type
   */
  or(...parts: readonly SqlCondition[]): Sql;
  /**
   * Returns the condition that an expression is in a list: `sql.in(sql`id`, ids)`. An empty list gives false.
   * A null in the list matches NULL. Put an expression with operators in parentheses.
   *
   * @throws SvcError `E_DB_FRAGMENT` when the expression is not an sql template, or the list is text or
   *   bytes
   */
  in(expression: Sql, list: Iterable<Piece> & object): Sql;
  /**
   * Returns assignments for an update: `update t set ${sql.set(patch, ['name', 'email'])}`. Only the listed
   * members become columns, so a client cannot choose other columns. Leaves out members that are undefined;
   * null sets NULL. An object names columns that differ from their members: `{ createdAt: 'created_at' }`.
   *
   * @throws SvcError `E_DB_FRAGMENT` when no listed member has a value, and without columns;
   *   `E_DB_IDENTIFIER` for an invalid name
   */
  set<T extends object>(patch: T, columns: ColumnsOf<T>): Sql;
  /**
   * Returns the columns and rows of an insert: `insert into t ${sql.values(rows, ['name', 'email'])}`. Only
   * the listed members are written. Without columns, each row is a list of values. For many rows, use
   * `insertMany()`: a statement can have at most 65,535 values, or 32,766 in SQLite.
   *
   * @throws SvcError `E_DB_FRAGMENT` without rows, and for a row that lacks a value
   */
  values(rows: Iterable<readonly Piece[]>): Sql;
  values<T extends object>(rows: Iterable<T>, columns: ColumnsOf<T>): Sql;
  /**
   * Returns the end of an insert that changes the row with an equal key: `on conflict … do update`, or `on
   * duplicate key update` in MySQL and MariaDB. A name in `changes` gets the value of the insert; an sql
   * template is an assignment of its own, such as sql`hits = page.hits + 1`. Without changes, the present row
   * stays as it is.
   *
   * MySQL and MariaDB cannot name the key: a row that is equal in another unique key is changed, too.
   *
   * @throws SvcError `E_DB_FRAGMENT` without key columns or a list of changes, `E_DB_IDENTIFIER` for an
   *   invalid name
   */
  upsert(key: readonly string[], changes: readonly (string | Sql)[]): Sql;
}

/** Template tag for SQL statements with bound values. The opening comment of db/sql.ts has examples. */
export const sql: SqlTag = Object.freeze(
  Object.assign(template, {
    identifier,
    join,
    and: (...parts: readonly SqlCondition[]) => combine('and', parts),
    or: (...parts: readonly SqlCondition[]) => combine('or', parts),
    in: isIn,
    set,
    values,
    upsert,
  }),
);
