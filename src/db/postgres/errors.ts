/**
 * PostgreSQL's SQLSTATEs (its manual, appendix A) -> our errors. Messages say what was wrong, never with which value: details are
 * left out, and what the server quotes from input is cut.
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
  type DatabaseErrorDetails,
} from '../errors.ts';
import type { ErrorFields } from './messages.ts';

type ErrorClass = new (message: string, details: DatabaseErrorDetails) => DatabaseError;

/** By the whole state first, then by its class, the first two characters. */
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

/** Whose messages may quote a value: of data, and of names that were looked up by value, as in `?::regclass` or set_config(?, ...). */
const QUOTES_VALUES = /^(?:22|58|42601|42602|42704|42883|42P01|42703|3F000|0A)/;

/** Encodings are named beside the bytes that they cannot have. */
const ENCODING = /^(?:UTF8|LATIN\d+|WIN\d+|SQL_ASCII|EUC_\w{2,3}|ISO_8859_\d|KOI8[RU])$/;

/** The result of a named statement has other columns than when it was prepared. */
const CHANGED = '0A000';
/** States of named statements whose plan is no longer any good: prepared once more, they may run. */
const STALE: ReadonlySet<string> = new Set([CHANGED, '26000', '42P05']);

/** Where PostgreSQL finds that: functions and features have the same state for what they do not do. */
const FINDS_STALE = 'RevalidateCachedQuery';
/** Where PL/pgSQL raises errors of any state, with any text. */
const RAISES = 'exec_stmt_raise';
/** "statement timeout" as servers say it in English, German, French, Spanish, Italian, Portuguese, Swedish, Russian and Polish. */
const STATEMENT_TIMEOUT =
  /statement timeout|Zeitüberschreitung|expiration du délai|tiempo de espera|timeout|tempo limite|tidsgräns|тайм-?аут|czasu oczekiwania/i;
/** Errors of a state that a stale plan has, and of somebody else. */
const OTHERS = new WeakSet<DatabaseError>();

/** Internal errors, never translated, about an object of the catalogs that a plan refers to and that was dropped. */
const DROPPED_OBJECT = /^(?:cache lookup failed for [\w ]+|could not open relation with OID) \d+/;
/** Checked errors about one: translated, but for the word. */
const DROPPED_OID = /\bOID \d+\b/;

/** What a value of another type is refused with, and a type that fits no column or operator. */
const OF_TYPES: ReadonlySet<string> = new Set(['22003', '22007', '22008', '22P02', '42804', '42883']);

/** The error of a statement, or of a connection when there was none. */
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

/** Whether a statement may run when it is prepared once more. */
export function isStalePlan(error: DatabaseError): boolean {
  return (
    error.sqlstate !== undefined && (STALE.has(error.sqlstate) || isOfDropped(error)) && !OTHERS.has(error)
  );
}

/** Whether the schema has changed under a prepared statement: then statements of other connections are as stale. */
export function isOfChangedSchema(error: DatabaseError): boolean {
  return error.sqlstate === CHANGED || isOfDropped(error);
}

/** Whether an object is gone that a plan refers to by its OID: a type that was replaced, for one. */
function isOfDropped({ sqlstate, message }: DatabaseError): boolean {
  if (sqlstate === 'XX000') return DROPPED_OBJECT.test(message);
  return sqlstate?.startsWith('42') === true && DROPPED_OID.test(message);
}

/** Whether a named statement may have been refused for the types that its parameters were given when it was prepared: columns may have others by now. */
export function isOfTypes({ sqlstate }: DatabaseError): boolean {
  return sqlstate !== undefined && OF_TYPES.has(sqlstate);
}

/** Whether a limit of the server's own has ended the statement: statement_timeout. A cancellation has the same state. */
function isTimeout({ sqlstate, message }: ErrorFields): boolean {
  return sqlstate === '57014' && STATEMENT_TIMEOUT.test(message);
}

/** Whether the server ends the connection with this. */
export function isFatal({ severity }: ErrorFields): boolean {
  return severity === 'FATAL' || severity === 'PANIC';
}

/** `invalid input syntax for type integer: "secret"` without what is quoted; names of columns and constraints stay, and what the statement has itself. */
function shownMessage({ message, sqlstate, ...named }: ErrorFields, sql: string | undefined): string {
  const cut = sqlstate.startsWith('22')
    ? message.replace(/(:\s*|\bvalue )(["'])[\s\S]*\2/, '$1$2…$2').replace(/(: )0x[\da-fx ]+/i, '$10x…')
    : message;
  if (sql === undefined || !QUOTES_VALUES.test(sqlstate)) return cut;
  const known = [named.column, named.table, named.constraint, named.type, named.schema];
  for (const { 0: quoted, 1: text, index } of cut.matchAll(/"([^"]*)"/g)) {
    if (text === '…' || sql.includes(text!) || known.includes(text) || ENCODING.test(text!)) continue;
    return `${cut.slice(0, index)}"…"${cut.slice(Math.max(cut.lastIndexOf('"') + 1, index + quoted.length))}`; // a value may have quotes, too
  }
  return cut;
}

/** A name in quotes, as messages have them in the server's languages. */
const QUOTED_NAME = /["„“«「][^"“”»」]+["“”»」]/g;

/**
 * The column that is NULL; of a key those in `Key (a, b)=(1, 2) already exists.`, if they are plain names. A row that is still referenced
 * (two tables in the message beside the constraint) has a key of the other table there.
 */
function columnsOf({ column, detail, sqlstate, message }: ErrorFields): readonly string[] | undefined {
  if (column !== undefined) return [column];
  const isReferenced = sqlstate === '23503' && (message.match(QUOTED_NAME)?.length ?? 0) > 2;
  if (isReferenced || sqlstate === '23001') return undefined;
  const list = sqlstate.startsWith('23') ? /^[^(]*\(([^()=]+)\)=\(/.exec(detail ?? '')?.[1] : undefined;
  return list?.split(', ').map((name) => name.replace(/^"(.*)"$/s, '$1').replaceAll('""', '"'));
}
