/**
 * Maps PostgreSQL's SQLSTATEs (appendix A of its manual) to error classes. Removes values from the messages.
 */
import * as errors from '../errors.ts';
import type { ErrorFields } from './messages.ts';

/** Error class for each SQLSTATE. A key is a whole SQLSTATE or its first two characters. */
const CLASSES: Readonly<Record<string, errors.ErrorClass>> = {
  '08': errors.ConnectionLost,
  '0A': errors.StatementError,
  '22': errors.DataError,
  '23': errors.ConstraintViolation,
  '23001': errors.ForeignKeyViolation,
  '23502': errors.NotNullViolation,
  '23503': errors.ForeignKeyViolation,
  '23505': errors.UniqueViolation,
  '23514': errors.CheckViolation,
  '23P01': errors.ExclusionViolation,
  '44': errors.CheckViolation,
  '25006': errors.ReadOnly,
  '25P02': errors.TransactionAborted,
  '26': errors.StatementError,
  '2B': errors.StatementError,
  '34': errors.StatementError,
  '3B': errors.StatementError,
  '3F': errors.StatementError,
  '42': errors.StatementError,
  '54': errors.StatementError,
  '40001': errors.SerializationFailure,
  '40P01': errors.Deadlock,
  '40002': errors.ConstraintViolation,
  '53100': errors.DiskFull,
  '55P03': errors.LockTimeout,
  '57014': errors.QueryCanceled,
  '57P01': errors.ConnectionLost,
  '57P02': errors.ConnectionLost,
  '57P03': errors.ConnectionLost,
  '57P04': errors.ConnectionLost,
  '57P05': errors.ConnectionLost,
  '25P03': errors.ConnectionLost,
  '25P04': errors.ConnectionLost,
  '58': errors.StorageFailed,
  XX001: errors.Corrupt,
  XX002: errors.Corrupt,
};

/** Matches SQLSTATEs of errors whose messages may quote a value. */
const QUOTES_VALUES = /^(?:22|58|42601|42602|42704|42883|42P01|42703|3F000|0A)/;

/** Matches names of encodings, which are not removed from a message about invalid bytes. */
const ENCODING = /^(?:UTF8|LATIN\d+|WIN\d+|SQL_ASCII|EUC_\w{2,3}|ISO_8859_\d|KOI8[RU])$/;

/** SQLSTATE that the server sends when the result columns of a prepared statement have changed. */
const CHANGED = '0A000';
/** SQLSTATEs of errors after which a statement may succeed if it is prepared again. */
const STALE: ReadonlySet<string> = new Set([CHANGED, '26000', '42P05']);

/** C function of the server whose name tells changed result columns from other 0A000 errors. */
const FINDS_STALE = 'RevalidateCachedQuery';
/** C function of RAISE, whose errors never mean that a prepared statement is outdated. */
const RAISES = 'exec_stmt_raise';
/** Matches "statement timeout" in the languages of the server. */
const STATEMENT_TIMEOUT =
  /timeout|Zeitüberschreitung|expiration du délai|délai écoulé|tiempo de espera|tempo limite|tidsgräns|тайм-?аут|czasu oczekiwania|タイムアウト|시간 초과|超时|逾時/i;
/** Errors that are not caused by an outdated prepared statement, although their SQLSTATE may look so. */
const OTHERS = new WeakSet<errors.DatabaseError>();

/** Matches messages of internal errors about a dropped object. The server never translates these messages. */
const DROPPED_OBJECT = /^(?:cache lookup failed for [\w ]+|could not open relation with OID) \d+/;
/** Matches messages about a missing object in any language, because the word OID is not translated. */
const DROPPED_OID = /\bOID \d+\b/;

/** SQLSTATEs of errors that the server reports when a parameter has a wrong type or value. */
const OF_TYPES: ReadonlySet<string> = new Set(['22003', '22007', '22008', '22P02', '42804', '42883']);

export function postgresError(fields: ErrorFields, sql: string | undefined): errors.DatabaseError {
  const { sqlstate, position, constraint, table, routine } = fields;
  // a cancellation has the same SQLSTATE as a timeout
  const isTimeout = sqlstate === '57014' && STATEMENT_TIMEOUT.test(fields.message);
  const Class = isTimeout
    ? errors.QueryTimeout
    : (CLASSES[sqlstate] ?? CLASSES[sqlstate.slice(0, 2)] ?? errors.DatabaseError);
  const error = new Class(shownMessage(fields, sql), {
    sqlstate,
    sql,
    position,
    constraint,
    table,
    columns: columnsOf(fields),
    detail: fields.detail,
    hint: fields.hint,
    where: fields.where,
  });
  if (routine === RAISES || (sqlstate === '0A000' && routine !== undefined && routine !== FINDS_STALE))
    OTHERS.add(error);
  return error;
}

/** Returns whether the statement that failed may succeed after it is prepared again. */
export function isStalePlan(error: errors.DatabaseError): boolean {
  return (
    error.sqlstate !== undefined && (STALE.has(error.sqlstate) || isOfDropped(error)) && !OTHERS.has(error)
  );
}

/** Returns whether the schema has changed, so that statements of other connections are outdated too. */
export function isOfChangedSchema(error: errors.DatabaseError): boolean {
  return error.sqlstate === CHANGED || isOfDropped(error);
}

/** Returns whether a plan refers to a dropped object, for example to a replaced type. */
function isOfDropped({ sqlstate, message }: errors.DatabaseError): boolean {
  if (sqlstate === 'XX000') return DROPPED_OBJECT.test(message);
  return sqlstate?.startsWith('42') === true && DROPPED_OID.test(message);
}

/** Returns whether a column may have a new type, so that the parameter types are outdated. */
export function isOfTypes({ sqlstate }: errors.DatabaseError): boolean {
  return sqlstate !== undefined && OF_TYPES.has(sqlstate);
}

/** Returns whether the server ends the connection with this error. */
export function isFatal({ severity }: ErrorFields): boolean {
  return severity === 'FATAL' || severity === 'PANIC';
}

/**
 * Returns the message without values: `invalid input syntax for type integer: "secret"` ends with `"…"`
 * instead. Names of columns and constraints are not removed, nor is text that the statement contains.
 */
function shownMessage({ message, sqlstate, ...named }: ErrorFields, sql: string | undefined): string {
  const cut = sqlstate.startsWith('22')
    ? withoutValue(message).replace(/(: )0x[\da-fx ]+/i, '$10x…')
    : message;
  if (sql === undefined || !QUOTES_VALUES.test(sqlstate)) return cut;
  const known = [named.column, named.table, named.constraint, named.type, named.schema];
  const [quoting, rest] = dividedAfterLast(CLOSING_MARKS, cut);
  let names = 0;
  for (const { 0: quoted, index } of quoting.matchAll(QUOTED_NAME)) {
    const text = quoted.slice(1, -1).trim(); // French has spaces inside of the quotation marks
    const isName = sql.includes(text) || known.includes(text) || ENCODING.test(text);
    if (isName && ++names <= MAX_NAMES) continue;
    // remove all text up to the last quotation mark, because the value may contain quotation marks
    return `${quoting.slice(0, index + 1)}…${quoting.slice(-1)}${rest}`;
  }
  return cut;
}

/** Removes the value after a colon or the word "value". */
function withoutValue(message: string): string {
  const [quoting, rest] = dividedAfterLast(`${CLOSING_MARKS}'`, message);
  return quoting.replace(QUOTED_VALUE, '$1$2…$3') + rest;
}

/**
 * Divides a message after the last of the closing marks. A search for quoted text takes linear time in the
 * first part: every opening mark has a closing mark, so no search runs to the end in vain.
 */
function dividedAfterLast(marks: string, message: string): readonly [quoting: string, rest: string] {
  const end = Math.max(...Array.from(marks, (mark) => message.lastIndexOf(mark))) + 1;
  return [message.slice(0, end), message.slice(end)];
}

/** Closing quotation marks of names in the server's languages. */
const CLOSING_MARKS = '"“”«»」';
/** Matches a value in the quotation marks of the server's languages: "a", »a«, « a ». */
const QUOTED_VALUE = /(:\s*|\bvalue )(["'„“«»「])[\s\S]*(["'“”«»」])/;
/** Matches a quoted name, in the quotation marks of the server's languages. */
const QUOTED_NAME = /["„“«»「][^"“”«»」]*["“”«»」]/g;
/** Maximum number of quoted names that a message keeps. A longer list is a value. */
const MAX_NAMES = 16;

/**
 * Returns the columns that violate a constraint, for example `a` and `b` for the DETAIL `Key (a, b)=(1, 2)
 * already exists.`. Returns undefined if the error does not name them.
 */
function columnsOf({ column, detail, sqlstate, message }: ErrorFields): readonly string[] | undefined {
  if (column !== undefined) return [column];
  const [quoting] = dividedAfterLast(CLOSING_MARKS, message);
  const isReferenced = sqlstate === '23503' && (quoting.match(QUOTED_NAME)?.length ?? 0) > 2;
  if (isReferenced || sqlstate === '23001') return undefined;
  const list = sqlstate.startsWith('23') ? /^[^(]*\(([^()=]+)\)=\(/.exec(detail ?? '')?.[1] : undefined;
  return list?.split(', ').map((name) => name.replace(/^"(.*)"$/s, '$1').replaceAll('""', '"'));
}
