/** Maps error numbers of MySQL and MariaDB to error classes. Removes data values from error messages. */
import { writtenTable } from '../dialects.ts';
import * as errors from '../errors.ts';
import type { ErrorFields } from './messages.ts';

/** Error class by error number, with the SQLSTATE of PostgreSQL if MySQL's own is too general. */
const BY_NUMBER: ReadonlyMap<number, readonly [errors.ErrorClass, sqlstate: string | undefined]> = new Map([
  ...numbers([1022, 1062, 1169, 1586, 1859], errors.UniqueViolation, '23505'),
  ...numbers([1216, 1217, 1451, 1452, 1761, 1762], errors.ForeignKeyViolation, '23503'),
  ...numbers([1048, 1263, 1364, 1566], errors.NotNullViolation, '23502'),
  ...numbers([3819, 4025], errors.CheckViolation, '23514'),
  ...numbers([1213, 1614, 3101], errors.Deadlock, '40001'),
  ...numbers([1020], errors.SerializationFailure, '40001'),
  ...numbers([1205, 3572, 3058], errors.LockTimeout, '55P03'),
  ...numbers([1290, 1792, 1836, 3100], errors.ReadOnly, '25006'),
  ...numbers([1317], errors.QueryCanceled, '57014'),
  ...numbers([1969, 3024], errors.QueryTimeout, '57014'),
  ...numbers([1040, 1203, 1226, 3032], errors.DatabaseError, '53300'),
  ...numbers([1129], errors.DatabaseError, '28000'),
  ...numbers([1820, 1862], errors.DatabaseError, '28000'),
  ...numbers(
    [1053, 1077, 1079, 1080, 1152, 1158, 1159, 1160, 1161, 1184, 1927, 2006, 2013, 4031],
    errors.ConnectionLost,
    '08006',
  ),
  ...numbers([1153, 1301], errors.DataError, '54000'),
  ...numbers([1461, 1037, 1038, 1041], errors.DatabaseError, '53200'),
  ...numbers([1021, 1114, 1030], errors.DiskFull, '53100'),
  ...numbers([1016, 1024, 1026, 1296], errors.StorageFailed, '58030'),
  ...numbers([1034, 1035, 1194, 1195, 1712], errors.Corrupt, 'XX001'),
  ...numbers(
    [1264, 1265, 1292, 1366, 1367, 1406, 1411, 1416, 1441, 1525, 1690, 3140, 3141, 3143, 3156, 3988, 4078],
    errors.DataError,
  ),
  ...numbers([1046, 1049, 1054, 1064, 1065, 1146, 1149, 1210, 1227, 1295, 1305, 1318], errors.StatementError),
]);

function numbers(
  list: readonly number[],
  Class: errors.ErrorClass,
  sqlstate?: string,
): (readonly [number, readonly [errors.ErrorClass, string | undefined]])[] {
  return list.map((errno) => [errno, [Class, sqlstate]]);
}

/** Error classes by the first two characters of the SQLSTATE, for errors that are not in BY_NUMBER. */
const BY_CLASS: Readonly<Record<string, errors.ErrorClass>> = {
  '08': errors.ConnectionLost,
  '0A': errors.StatementError,
  '22': errors.DataError,
  '23': errors.ConstraintViolation,
  '21': errors.StatementError,
  '34': errors.StatementError,
  '3D': errors.StatementError,
  '42': errors.StatementError,
  '70': errors.QueryCanceled,
};

export function mysqlError(
  { errno, sqlstate, message }: ErrorFields,
  sql: string | undefined,
): errors.DatabaseError {
  const [Class = BY_CLASS[sqlstate.slice(0, 2)] ?? errors.DatabaseError, state = sqlstate || undefined] =
    BY_NUMBER.get(errno) ?? [];
  return new Class(shownMessage(errno, message, sql), {
    errno,
    sqlstate: state,
    sql,
    ...namesIn(errno, message, sql),
  });
}

/** Returns whether a prepared statement may succeed after it is prepared again. */
export function isStaleStatement({ errno, sql }: errors.DatabaseError): boolean {
  return errno === 1615 || errno === 1243 || (errno === 3988 && ALL_OR_NOTHING.test(sql ?? ''));
}
/** Matches statements that change nothing when they fail. A failed CALL may have changed rows. */
const ALL_OR_NOTHING = /^\s*(?:insert|replace|update|delete|select|with)\b/i;
/** Returns whether the server cannot prepare this kind of statement (error 1295). */
export function isUnpreparable({ errno }: errors.DatabaseError): boolean {
  return errno === 1295;
}
/** Returns whether the server's limit of prepared statements is reached (error 1461). */
export function isOutOfStatements({ errno }: errors.DatabaseError): boolean {
  return errno === 1461;
}
/** Returns whether the whole server is read-only, and not just the transaction (errors 1290, 1836). */
export function isOfReadingServer({ errno }: errors.DatabaseError): boolean {
  return errno === 1290 || errno === 1836;
}
/** Returns whether the server ends the connection with this error, such as 1927 or 4031. */
export function isFatal({ errno }: errors.DatabaseError): boolean {
  return errno !== undefined && FATAL.has(errno);
}

const FATAL: ReadonlySet<number> = new Set([
  1053, 1079, 1080, 1152, 1153, 1158, 1159, 1160, 1161, 1184, 1927, 4031,
]);

/**
 * Numbers of errors whose messages may quote a value, such as the name of a time zone. Quoted text is removed
 * from the message, unless it is part of the statement.
 */
const QUOTES_VALUES: ReadonlySet<number> = new Set([
  1059, 1105, 1115, 1273, 1286, 1298, 1300, 1649, 1690, 3854, 4163,
]);

/**
 * Returns the message without values: `Duplicate entry 'secret' for key 'name'` becomes `Duplicate entry '…'
 * for key 'name'`. Names of columns and keys are not removed.
 */
function shownMessage(errno: number, message: string, sql: string | undefined): string {
  if (QUOTES_VALUES.has(errno))
    return message.replace(/'([\s\S]*)'/, (quoted, text: string) =>
      sql?.includes(text) === true ? quoted : "'…'",
    );
  switch (errno) {
    case 1062:
    case 1586:
      return withoutTextBetween("entry '", "' for key", message);
    case 1231:
      return message.replace(/\bvalue of '[\s\S]*'/, "value of '…'");
    case 1761:
    case 1762:
      return withoutTextBetween("record '", "' would lead", message);
    case 1526:
      return message.replace(/\bvalue [\s\S]*/, 'value …');
    default:
      return message.replace(/\b(value:?|function [\w.]+:) (["'])[\s\S]*\2/i, '$1 $2…$2');
  }
}

/** Removes the text from the first `before` up to the last `after`. Takes linear time, unlike a pattern. */
function withoutTextBetween(before: string, after: string, message: string): string {
  const start = message.indexOf(before) + before.length;
  const end = message.lastIndexOf(after);
  return message.includes(before) && end >= start
    ? `${message.slice(0, start)}…${message.slice(end)}`
    : message;
}

/** Maximum length of a message in which names are searched. MySQL and MariaDB send at most 512 bytes. */
const MAX_LENGTH = 2_048;

type Names = Pick<errors.DatabaseErrorDetails, 'table' | 'columns' | 'constraint'>;

/** Returns the names in a message. A longer message has none, because the patterns take quadratic time. */
function namesIn(errno: number, message: string, sql: string | undefined): Names {
  if (message.length > MAX_LENGTH) return {};
  switch (errno) {
    case 1062:
    case 1586:
      return keyIn(message, sql);
    case 1048:
    case 1364:
    case 1263:
      return { table: writtenTable(sql)?.table, columns: one(/'((?:[^']|'')+)'/.exec(message)?.[1]) };
    case 1451:
    case 1452: {
      const [, table, constraint, columns] =
        /`((?:[^`]|``)+)`, CONSTRAINT `((?:[^`]|``)+)` FOREIGN KEY \(([^)]*)\)/.exec(message) ?? [];
      return { table, constraint, columns: columns?.split(', ').map((name) => name.replaceAll('`', '')) };
    }
    case 3819:
      return { table: writtenTable(sql)?.table, constraint: /'((?:[^']|'')+)'/.exec(message)?.[1] };
    case 4025: {
      const [, constraint, table] =
        /CONSTRAINT `((?:[^`]|``)+)` failed for `[^`]*`\.`((?:[^`]|``)+)`/.exec(message) ?? [];
      return { table: table ?? writtenTable(sql)?.table, constraint };
    }
    default:
      return {};
  }
}

/** Returns the table and the key in a message: `table.key`, or `key` in MariaDB and older MySQL. */
function keyIn(message: string, sql: string | undefined): Names {
  const key = /for key '((?:[^']|'')*)'$/.exec(message)?.[1];
  const dot = key?.indexOf('.') ?? -1;
  // without a dot, the message names only the key, and the table is read from the statement
  return dot === -1
    ? { table: writtenTable(sql)?.table, constraint: key }
    : { table: key!.slice(0, dot), constraint: key!.slice(dot + 1) };
}

function one(name: string | undefined): readonly string[] | undefined {
  return name === undefined ? undefined : [name];
}
