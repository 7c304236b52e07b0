/**
 * Maps SQLite's result codes (sqlite.org/rescode.html) to error classes. The kind of a violated constraint
 * comes from the code, and its columns come from the message. Messages of SQLite never quote values.
 */
import { writtenTable } from '../dialects.ts';
import * as errors from '../errors.ts';

/**
 * Error class and SQLSTATE for each result code. The SQLSTATE is the one that PostgreSQL reports for such an
 * error.
 */
const CLASSES: Readonly<Record<number, readonly [errors.ErrorClass, sqlstate: string]>> = {
  1: [errors.StatementError, '42000'],
  5: [errors.LockTimeout, '55P03'],
  6: [errors.LockTimeout, '55P03'],
  517: [errors.SerializationFailure, '40001'],
  7: [errors.DatabaseError, '53200'],
  8: [errors.ReadOnly, '25006'],
  9: [errors.QueryCanceled, '57014'],
  10: [errors.StorageFailed, '58030'],
  14: [errors.StorageFailed, '58030'],
  11: [errors.Corrupt, 'XX001'],
  26: [errors.Corrupt, 'XX001'],
  13: [errors.DiskFull, '53100'],
  18: [errors.DataError, '22001'],
  20: [errors.DataError, '22000'],
  19: [errors.ConstraintViolation, '23000'],
  275: [errors.CheckViolation, '23514'],
  787: [errors.ForeignKeyViolation, '23503'],
  1299: [errors.NotNullViolation, '23502'],
  1555: [errors.UniqueViolation, '23505'],
  2067: [errors.UniqueViolation, '23505'],
  2579: [errors.UniqueViolation, '23505'],
  3091: [errors.DataError, '22000'],
  23: [errors.StatementError, '42501'],
  25: [errors.StatementError, '42000'],
};

/** Error that node:sqlite throws when SQLite itself fails. */
export interface SqliteError {
  readonly message: string;
  readonly errcode: number;
}

/** Returns whether SQLite reported the error, and not Node.js. */
export function isSqliteError(error: unknown): error is SqliteError & Error {
  return (
    error instanceof Error &&
    (error as { code?: unknown }).code === 'ERR_SQLITE_ERROR' &&
    typeof (error as { errcode?: unknown }).errcode === 'number'
  );
}

/**
 * Returns whether another connection holds the lock, so that a retry may help. After SQLITE_BUSY_SNAPSHOT
 * (517), only a new transaction may succeed.
 */
export function isBusy({ errcode }: SqliteError): boolean {
  return (errcode & 0xff) === 5 && errcode !== 517;
}

/** Converts an error of SQLite to a DatabaseError. Returns any other error unchanged. */
export function sqliteError(error: unknown, sql: string | undefined): unknown {
  if (!isSqliteError(error)) return error;
  const { message, errcode } = error;
  const [Class, sqlstate] = CLASSES[errcode] ?? CLASSES[errcode & 0xff] ?? [errors.DatabaseError, 'XX000'];
  return new Class(message, { errno: errcode, sqlstate, sql, ...placeOf(message, sql) });
}

/**
 * Finds the table, columns and constraint in a message such as `UNIQUE constraint failed: t.a, t.b` or
 * `cannot store TEXT value in INTEGER column t.a`.
 */
function placeOf(
  message: string,
  sql: string | undefined,
): Pick<errors.DatabaseErrorDetails, 'table' | 'columns' | 'constraint'> {
  const [, kind, what] =
    /^([A-Z ]+) constraint failed: (.+)$/s.exec(message) ??
    /^(cannot store) .* column (\S+)$/.exec(message) ??
    [];
  if (kind === undefined || what === undefined) return {};
  if (kind === 'CHECK') return { constraint: what, table: writtenTable(sql)?.table };
  const index = /^index '(.+)'$/.exec(what)?.[1];
  if (index !== undefined) return { constraint: index, table: writtenTable(sql)?.table };
  const names = what.split(', ').map((name) => name.split('.'));
  return { table: names[0]![0], columns: names.map((name) => name.slice(1).join('.')) };
}
