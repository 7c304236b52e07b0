/**
 * Builds the `order by` clause of a list, and the condition for the rows after a given row. For the order
 * `{ created_at: 'desc', id: 'asc' }` and a row with the values c and i, the condition is
 *   created_at <= c and ((created_at < c) or (created_at = c and id > i))
 * The first comparison, `created_at <= c`, lets the database use an index.
 *
 * Database engines sort NULL at different ends, so a column that may be NULL must have `nulls last`.
 */
import { SvcError } from '../../base/errors.ts';
import { shown } from '../../base/options.ts';
import { sql, type Sql } from '../sql.ts';
import type { Parameter } from '../values.ts';

/** Sort direction of a column. For a column that may be NULL, add `nulls last`. */
export type Direction = 'asc' | 'desc' | 'asc nulls last' | 'desc nulls last';

/**
 * Sort columns with their directions, the most important first. The last column must be a unique key, so that
 * the values of all sort columns identify one row.
 */
export type PageOrder = Readonly<Record<string, Direction>>;

/** Values of one row in the sort columns. */
export type Position = readonly (Parameter & (string | number | bigint | boolean | Uint8Array | null))[];

export interface OrderColumn {
  readonly name: string;
  readonly isAscending: boolean;
  readonly mayBeNull: boolean;
}

/** Alias of the caller's `select` in the generated SQL. */
const SOURCE = 'svc_page';

export function orderColumns(order: PageOrder): readonly OrderColumn[] {
  const columns = Object.entries(order).map(([name, direction]) => {
    const [, word, nulls] = /^(asc|desc)( nulls last)?$/.exec(String(direction)) ?? [];
    if (word === undefined)
      throw new SvcError('E_DB_PAGE', [
        `"${name}" has the direction ${shown(direction)}: use "asc" or "desc", or one of them with "nulls last"`,
      ]);
    sql.identifier(name); // throws for an invalid name now, and not only at the first query
    return { name, isAscending: word === 'asc', mayBeNull: nulls !== undefined };
  });
  if (columns.length === 0) throw new SvcError('E_DB_PAGE', ['"orderBy" must have at least one column']);
  return columns;
}

/** Returns `from (…) as svc_page`. The line break ends a `--` comment in the last line of `query`. */
export function fromSource(query: Sql): Sql {
  return sql`from (${query}
) as ${sql.identifier(SOURCE)}`;
}

/** Returns a column name with its table alias, such as `svc_page.id`. */
export function sourceColumn(name: string): Sql {
  return sql.identifier(SOURCE, name);
}

export function orderBy(columns: readonly OrderColumn[], isForward: boolean): Sql {
  const terms = columns.flatMap(({ name, isAscending, mayBeNull }) => {
    const column = sourceColumn(name);
    const term = isAscending === isForward ? sql`${column} asc` : sql`${column} desc`;
    if (!mayBeNull) return [term];
    const isNull = sql`case when ${column} is null then 1 else 0 end`;
    return [isForward ? sql`${isNull} asc` : sql`${isNull} desc`, term];
  });
  return sql`order by ${sql.join(terms)}`;
}

/** Returns the condition for the rows after a position, or before the position if `isForward` is false. */
export function beyond(columns: readonly OrderColumn[], position: Position, isForward: boolean): Sql {
  const ways = columns.map((column, index) => {
    const equal = columns.slice(0, index).map((earlier, at) => equals(earlier, position[at]!));
    return sql.and(...equal, past(column, position[index]!, isForward));
  });
  const any = sql.or(...ways);
  const [first] = columns;
  if (first!.mayBeNull || ways.length === 1) return any;
  const column = sourceColumn(first!.name);
  const bound =
    first!.isAscending === isForward ? sql`${column} >= ${position[0]!}` : sql`${column} <= ${position[0]!}`;
  return sql`${bound} and ${any}`;
}

function equals({ name }: OrderColumn, value: Position[number]): Sql {
  const column = sourceColumn(name);
  return value === null ? sql`${column} is null` : sql`${column} = ${value}`;
}

function past(
  { name, isAscending, mayBeNull }: OrderColumn,
  value: Position[number],
  isForward: boolean,
): Sql {
  const column = sourceColumn(name);
  if (value === null) return isForward ? sql`1 = 0` : sql`${column} is not null`;
  const compared = isAscending === isForward ? sql`${column} > ${value}` : sql`${column} < ${value}`;
  return mayBeNull && isForward ? sql`(${compared} or ${column} is null)` : compared;
}
