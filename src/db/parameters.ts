/**
 * Checks the values for the placeholders of a statement. Refuses a value that the database would store as
 * another value or as NULL.
 *
 * A value of a wrong type, such as undefined, a plain object or a promise, causes an SvcError, because the
 * program is wrong. Wrong content, such as half a surrogate pair, an invalid Date or NaN, causes a DataError,
 * because the data is wrong.
 */
import { SvcError } from '../base/errors.ts';
import { DataError } from './errors.ts';
import { Bound, Json, Typed, bytesOf, type Params } from './values.ts';

/** Reason why a value cannot be bound to a placeholder. */
export interface Refusal {
  readonly problem: string;
  /** SQLSTATE of the DataError for wrong content. Undefined for a wrong type, which causes an SvcError. */
  readonly sqlstate?: DataState;
}

/** SQLSTATEs for wrong content: invalid text, a number out of range, an invalid date. */
export type DataState = '22021' | '22003' | '22007';

/**
 * Returns the reason why no database engine can bind the value. Returns undefined if an engine can bind it.
 */
export function parameterIssue(value: unknown): Refusal | undefined {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed()
        ? undefined
        : { problem: 'text with half a surrogate pair, which no encoding can store', sqlstate: '22021' };
    case 'number':
      return Number.isFinite(value)
        ? undefined
        : { problem: `${value}, which SQL cannot represent: write null`, sqlstate: '22003' };
    case 'bigint':
      return BigInt.asIntN(64, value) === value
        ? undefined
        : { problem: 'an integer that needs more than 64 bits: store it as text', sqlstate: '22003' };
    case 'boolean':
      return undefined;
    case 'undefined':
      return { problem: 'undefined: write null if that is meant' };
    case 'object':
      return objectIssue(value);
    default:
      return { problem: `a ${typeof value}` };
  }
}

function objectIssue(value: object | null): Refusal | undefined {
  if (value instanceof Date)
    return Number.isNaN(value.getTime()) ? { problem: 'an invalid Date', sqlstate: '22007' } : undefined;
  if (value === null || value instanceof Json || bytesOf(value) !== undefined) return undefined;
  if (value instanceof Typed)
    return { problem: `a value of the type "${value.type}", and the database has no option "types"` };
  if (value instanceof Bound)
    return { problem: 'a part of a statement: write it inside the sql template, and not among the values' };
  if (value instanceof Promise) return { problem: 'a promise: await it first' };
  if (Array.isArray(value))
    return { problem: 'an array: wrap it in json() to store it, or use sql.in() for a list of values' };
  const what = value.constructor === Object ? 'a plain object' : 'an object';
  return { problem: `${what}: wrap it in json() to store it` };
}

/** Takes up to `most` rows from an iterator. */
export function taken(source: Iterator<Params>, most: number): Params[] {
  const rows: Params[] = [];
  while (rows.length < most) {
    const next = source.next();
    if (next.done === true) break;
    rows.push(next.value);
  }
  return rows;
}

/** Position of a refused value, for the error. */
export interface ParameterPlace {
  /** Number of the placeholder, counted from 1. */
  readonly position: number;
  /** Number of the row, counted from 1. Undefined if the caller passed a single row. */
  readonly row?: number | undefined;
  readonly sql: string;
  /** Error number that MySQL reports for this kind of wrong content. */
  readonly errno?: number | undefined;
}

export function refuseParameter(
  { problem, sqlstate }: Refusal,
  { position, row, sql, errno }: ParameterPlace,
): never {
  const where = row === undefined ? `parameter ${position}` : `parameter ${position} of row ${row}`;
  if (sqlstate === undefined) throw new SvcError('E_DB_PARAMETER', [where, `found ${problem}`]);
  throw new DataError(`Cannot bind the value of ${where}: found ${problem}`, { sqlstate, errno, sql });
}

/** @throws SvcError `E_DB_PARAMETER_COUNT`. `given` is undefined for values that are not a list. */
export function refuseCount(needed: number, given: number | undefined, row?: number): never {
  throw new SvcError('E_DB_PARAMETER_COUNT', [needed, given, row]);
}

/**
 * Ends a source of rows. Ignores an error of return(), because the result or the error of the statement
 * matters more.
 */
export function endRows(rows: Iterator<Params>): void {
  try {
    rows.return?.();
  } catch {
    /* empty */
  }
}
