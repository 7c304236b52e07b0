/**
 * Maps PostgreSQL's SQLSTATEs (appendix A of its manual) to error classes. Removes values from the messages.
 */
import {
  CheckViolation,
  ConnectionLost,
  ConstraintViolation,
  Corrupt,
  DataError,
  DatabaseError,
  Deadlock,
  DiskFull,
  ExclusionViolation,
  ForeignKeyViolation,
  LockTimeout,
  NotNullViolation,
  QueryCanceled,
  QueryTimeout,
  ReadOnly,
  SerializationFailure,
  StatementError,
  StorageFailed,
  TransactionAborted,
  UniqueViolation,
  type ErrorClass,
} from '../errors.ts';
import type { ErrorFields } from './messages.ts';

/** Error class for each SQLSTATE. A key is a whole SQLSTATE or its first two characters. */
const CLASSES: Readonly<Record<string, ErrorClass>> = {
  '08': ConnectionLost,
  '0A': StatementError,
  '22': DataError,
  '23': ConstraintViolation,
  '23001': ForeignKeyViolation,
  '23502': NotNullViolation,
  '23503': ForeignKeyViolation,
  '23505': UniqueViolation,
  '23514': CheckViolation,
  '23P01': ExclusionViolation,
  '44': CheckViolation,
  '25006': ReadOnly,
  '25P02': TransactionAborted,
  '26': StatementError,
  '2B': StatementError,
  '34': StatementError,
  '3B': StatementError,
  '3F': StatementError,
  '42': StatementError,
  '54': StatementError,
  '40001': SerializationFailure,
  '40P01': Deadlock,
  '40002': ConstraintViolation,
  '53100': DiskFull,
  '55P03': LockTimeout,
  '57014': QueryCanceled,
  '57P01': ConnectionLost,
  '57P02': ConnectionLost,
  '57P03': ConnectionLost,
  '57P05': ConnectionLost,
  '25P03': ConnectionLost,
  '58': StorageFailed,
  XX001: Corrupt,
  XX002: Corrupt,
};

/**
 * Matches SQLSTATEs of errors whose messages may quote a value, as in `invalid input syntax for type integer:
 * "secret"`.
 */
const QUOTES_VALUES = /^(?:22|58|42601|42602|42704|42883|42P01|42703|3F000|0A)/;

/** Matches names of encodings, which are not removed from a message about invalid bytes. */
const ENCODING = /^(?:UTF8|LATIN\d+|WIN\d+|SQL_ASCII|EUC_\w{2,3}|ISO_8859_\d|KOI8[RU])$/;

/** SQLSTATE that the server sends when the result columns of a prepared statement have changed. */
const CHANGED = '0A000';
/** SQLSTATEs of errors after which a statement may succeed if it is prepared again. */
const STALE: ReadonlySet<string> = new Set([CHANGED, '26000', '42P05']);

/**
 * C function of the server that reports changed result columns. Its name, which the server sends with the
 * error, distinguishes this error from others with the SQLSTATE 0A000.
 */
const FINDS_STALE = 'RevalidateCachedQuery';
/**
 * C function of the server that runs RAISE in PL/pgSQL. RAISE can report any SQLSTATE and message, so its
 * errors never mean that a prepared statement is outdated.
 */
const RAISES = 'exec_stmt_raise';
/**
 * Matches "statement timeout" in the languages of the server: English, German, French, Spanish, Italian,
 * Portuguese, Swedish, Russian and Polish.
 */
const STATEMENT_TIMEOUT =
  /statement timeout|Zeitüberschreitung|expiration du délai|tiempo de espera|timeout|tempo limite|tidsgräns|тайм-?аут|czasu oczekiwania/i;
/** Errors that are not caused by an outdated prepared statement, although their SQLSTATE may look so. */
const OTHERS = new WeakSet<DatabaseError>();

/** Matches messages of internal errors about a dropped object. The server never translates these messages. */
const DROPPED_OBJECT = /^(?:cache lookup failed for [\w ]+|could not open relation with OID) \d+/;
/** Matches messages about a missing object in any language, because the word OID is not translated. */
const DROPPED_OID = /\bOID \d+\b/;

/** SQLSTATEs of errors that the server reports when a parameter has a wrong type or value. */
const OF_TYPES: ReadonlySet<string> = new Set(['22003', '22007', '22008', '22P02', '42804', '42883']);

/**
 * Converts an error of the server. `sql` is the statement that failed, or undefined if no statement was
 * running.
 */
export function postgresError(fields: ErrorFields, sql: string | undefined): DatabaseError {
  const { sqlstate, position, constraint, table, routine } = fields;
  const Class = isTimeout(fields)
    ? QueryTimeout
    : (CLASSES[sqlstate] ?? CLASSES[sqlstate.slice(0, 2)] ?? DatabaseError);
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
export function isStalePlan(error: DatabaseError): boolean {
  return (
    error.sqlstate !== undefined && (STALE.has(error.sqlstate) || isOfDropped(error)) && !OTHERS.has(error)
  );
}

/**
 * Returns whether a statement failed because the database schema has changed. Then the prepared statements of
 * other connections are outdated, too.
 */
export function isOfChangedSchema(error: DatabaseError): boolean {
  return error.sqlstate === CHANGED || isOfDropped(error);
}

/**
 * Returns whether a statement failed because its plan refers to a dropped object, for example to a replaced
 * type.
 */
function isOfDropped({ sqlstate, message }: DatabaseError): boolean {
  if (sqlstate === 'XX000') return DROPPED_OBJECT.test(message);
  return sqlstate?.startsWith('42') === true && DROPPED_OID.test(message);
}

/**
 * Returns whether a statement may have failed because a column got a new type. Then the parameter types of
 * the prepared statement are outdated.
 */
export function isOfTypes({ sqlstate }: DatabaseError): boolean {
  return sqlstate !== undefined && OF_TYPES.has(sqlstate);
}

/**
 * Returns whether the server's statement_timeout ended the statement. A cancellation has the same SQLSTATE,
 * so the message is compared.
 */
function isTimeout({ sqlstate, message }: ErrorFields): boolean {
  return sqlstate === '57014' && STATEMENT_TIMEOUT.test(message);
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
    ? message.replace(/(:\s*|\bvalue )(["'])[\s\S]*\2/, '$1$2…$2').replace(/(: )0x[\da-fx ]+/i, '$10x…')
    : message;
  if (sql === undefined || !QUOTES_VALUES.test(sqlstate)) return cut;
  const known = [named.column, named.table, named.constraint, named.type, named.schema];
  for (const { 0: quoted, 1: text, index } of cut.matchAll(/"([^"]*)"/g)) {
    if (text === '…' || sql.includes(text!) || known.includes(text) || ENCODING.test(text!)) continue;
    // remove all text up to the last quotation mark, because the value may contain quotation marks
    return `${cut.slice(0, index)}"…"${cut.slice(Math.max(cut.lastIndexOf('"') + 1, index + quoted.length))}`;
  }
  return cut;
}

/** Matches a quoted name, in the quotation marks of the server's languages. */
const QUOTED_NAME = /["„“«「][^"“”»」]+["“”»」]/g;

/**
 * Returns the columns that violate a constraint, for example `a` and `b` for the DETAIL `Key (a, b)=(1, 2)
 * already exists.`. Returns undefined if the error does not name them.
 */
function columnsOf({ column, detail, sqlstate, message }: ErrorFields): readonly string[] | undefined {
  if (column !== undefined) return [column];
  const isReferenced = sqlstate === '23503' && (message.match(QUOTED_NAME)?.length ?? 0) > 2;
  if (isReferenced || sqlstate === '23001') return undefined;
  const list = sqlstate.startsWith('23') ? /^[^(]*\(([^()=]+)\)=\(/.exec(detail ?? '')?.[1] : undefined;
  return list?.split(', ').map((name) => name.replace(/^"(.*)"$/s, '$1').replaceAll('""', '"'));
}
