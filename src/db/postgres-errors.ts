/**
 * PostgreSQL's SQLSTATEs (its manual, appendix A) → our errors. Messages say what was wrong, never with which value: details are
 * left out, and what the server quotes from input is cut.
 */
import {
  CheckViolation, ConnectionLost, ConstraintViolation, Corrupt, DataError, DatabaseError, Deadlock, DiskFull, ForeignKeyViolation, LockTimeout, NotNullViolation, QueryCanceled, ReadOnly,
  SerializationFailure, StatementError, StorageFailed, TransactionAborted, UniqueViolation, type DatabaseErrorDetails,
} from './db-errors.ts';
import type { ErrorFields } from './postgres-messages.ts';

type ErrorClass = new (message: string, details: DatabaseErrorDetails) => DatabaseError;

/** By the whole state first, then by its class, the first two characters. */
const CLASSES: Readonly<Record<string, ErrorClass>> = {
  '08': ConnectionLost,
  '0A': StatementError,
  '22': DataError,
  '23': ConstraintViolation, '23502': NotNullViolation, '23503': ForeignKeyViolation, '23505': UniqueViolation, '23514': CheckViolation, '44': CheckViolation,
  '25006': ReadOnly, '25P02': TransactionAborted,
  '26': StatementError, '2B': StatementError, '34': StatementError, '3B': StatementError, '3F': StatementError, '42': StatementError, '54': StatementError,
  '40001': SerializationFailure, '40P01': Deadlock, '40002': ConstraintViolation,
  '53100': DiskFull,
  '55P03': LockTimeout,
  '57014': QueryCanceled, '57P01': ConnectionLost, '57P02': ConnectionLost, '57P03': ConnectionLost, '57P05': ConnectionLost, '25P03': ConnectionLost,
  '58': StorageFailed, 'XX001': Corrupt, 'XX002': Corrupt,
};

/** Of named statements whose plan is no longer any good: prepared once more, they may run. */
const STALE: ReadonlySet<string> = new Set(['0A000', '26000', '42P05']);

/** The error of a statement, or of a connection when there was none. */
export function postgresError(fields: ErrorFields, sql: string | undefined): DatabaseError {
  const { sqlstate, message, position, constraint, table } = fields;
  const Class = CLASSES[sqlstate] ?? CLASSES[sqlstate.slice(0, 2)] ?? DatabaseError;
  return new Class(shownMessage(message, sqlstate), { sqlstate, sql, position, constraint, table, columns: columnsOf(fields) });
}

/** Whether a statement may run when it is prepared once more. */
export function isStalePlan({ sqlstate }: DatabaseError): boolean {
  return sqlstate !== undefined && STALE.has(sqlstate);
}

/** Whether the server ends the connection with this. */
export function isFatal({ severity }: ErrorFields): boolean {
  return severity === 'FATAL' || severity === 'PANIC';
}

/** `invalid input syntax for type integer: "secret"` without what is quoted; names of columns and constraints stay. */
function shownMessage(message: string, sqlstate: string): string {
  if (!sqlstate.startsWith('22')) return message;
  return message.replace(/(:\s*|\bvalue )(["'])[\s\S]*\2/, '$1$2…$2').replace(/(: )0x[\da-fx ]+/i, '$10x…');
}

/** The column that is NULL; of a key those in `Key (a, b)=(1, 2) already exists.`, if they are plain names. */
function columnsOf({ column, detail, sqlstate }: ErrorFields): readonly string[] | undefined {
  if (column !== undefined) return [column];
  const list = sqlstate.startsWith('23') ? /^[^(]*\(([^()=]+)\)=\(/.exec(detail ?? '')?.[1] : undefined;
  return list?.split(', ').map((name) => name.replace(/^"(.*)"$/s, '$1').replaceAll('""', '"'));
}
