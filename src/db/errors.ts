/**
 * Error classes of all database engines. An error has the code of its class, the codes of the engine, the
 * statement, and often the names of the table, the columns and the constraint. Logs never show a bound value.
 *
 * After SerializationFailure, Deadlock or LockTimeout, run the transaction again. After ConstraintViolation,
 * DataError, ReadOnly or StatementError (except StalePlan), correct the statement or its values. DiskFull,
 * StorageFailed and Corrupt need an operator.
 */
import { OVERLOADS } from '../base/errors.ts';
import { ownFolders } from '../base/package-root.ts';
import type { DriverLoad } from './driver.ts';

/** `Retry-After` of the response to a request that got no connection. */
const RETRY_AFTER_SECONDS = 5;

/** Codes of the error classes, for a `switch` statement. They never change. */
export type DatabaseErrorCode =
  | 'database'
  | 'constraint'
  | 'unique'
  | 'foreign_key'
  | 'not_null'
  | 'check'
  | 'exclusion'
  | 'serialization'
  | 'deadlock'
  | 'lock_timeout'
  | 'canceled'
  | 'timeout'
  | 'pool_timeout'
  | 'statement'
  | 'data'
  | 'read_only'
  | 'connection_lost'
  | 'commit_unknown'
  | 'transaction_aborted'
  | 'disk_full'
  | 'storage'
  | 'corrupt';

const RETRYABLE: ReadonlySet<DatabaseErrorCode> = new Set(['serialization', 'deadlock', 'lock_timeout']);

export interface DatabaseErrorDetails {
  /**
   * SQLSTATE of ISO 9075, five characters. For an engine without SQLSTATEs, the code that PostgreSQL uses for
   * this error.
   */
  readonly sqlstate?: string | undefined;
  /** Error number of the engine. For SQLite, it is the extended result code. */
  readonly errno?: number | undefined;
  readonly constraint?: string | undefined;
  readonly table?: string | undefined;
  readonly columns?: readonly string[] | undefined;
  /** Statement with its placeholders, and without values. */
  readonly sql?: string | undefined;
  /** Position of the mistake in `sql`, in characters counted from 1. Only PostgreSQL reports a position. */
  readonly position?: number | undefined;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
  readonly where?: string | undefined;
  readonly cause?: unknown;
}

/** Class of the errors for a code of an engine. */
export type ErrorClass = new (message: string, details: DatabaseErrorDetails) => DatabaseError;

/**
 * A failure of the database or of the connection to it. Its `stack` begins where the application called the
 * database.
 */
export class DatabaseError extends Error {
  readonly code: DatabaseErrorCode = 'database';
  readonly sqlstate: string | undefined;
  readonly errno: number | undefined;
  readonly constraint: string | undefined;
  readonly table: string | undefined;
  readonly columns: readonly string[];
  readonly sql: string | undefined;
  /** Position of the mistake in `sql`, in characters counted from 1. */
  readonly position: number | undefined;

  readonly #details: DatabaseErrorDetails;

  constructor(message: string, details: DatabaseErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.name = new.target.name;
    this.sqlstate = details.sqlstate ?? USUAL_STATES.get(new.target);
    this.errno = details.errno;
    this.constraint = details.constraint;
    this.table = details.table;
    this.columns = details.columns ?? [];
    this.sql = details.sql;
    this.position = details.position;
    this.#details = details;
  }

  /**
   * Detail that PostgreSQL adds, for example the key that already exists. It may quote values, so neither
   * logs nor `inspect()` show it.
   */
  get detail(): string | undefined {
    return this.#details.detail;
  }

  /** Hint that PostgreSQL adds to the error. Logs do not show it. */
  get hint(): string | undefined {
    return this.#details.hint;
  }

  /**
   * Call stack inside PostgreSQL: the functions and statements that led to the error. It may quote values, so
   * neither logs nor `inspect()` show it.
   */
  get where(): string | undefined {
    return this.#details.where;
  }

  /** Whether the same transaction may succeed when it runs again. */
  get isRetryable(): boolean {
    return RETRYABLE.has(this.code);
  }
}

/**
 * Kinds of constraint. `constraint` stands for a trigger, and for a constraint whose kind the engine does not
 * report.
 */
export type ConstraintKind = 'unique' | 'foreign_key' | 'not_null' | 'check' | 'exclusion' | 'constraint';

/** A constraint of the database refused a row. */
export class ConstraintViolation extends DatabaseError {
  override readonly code: ConstraintKind = 'constraint';

  get kind(): ConstraintKind {
    return this.code;
  }
}
/**
 * A row with this key already exists. `columns` lists the columns of the key. For an index over expressions,
 * `columns` is empty and only `constraint` is set.
 */
export class UniqueViolation extends ConstraintViolation {
  override readonly code = 'unique';
}
/**
 * A foreign key refers to a row that does not exist, or a row cannot be deleted because other rows refer to
 * it. SQLite does not report the name of the constraint.
 */
export class ForeignKeyViolation extends ConstraintViolation {
  override readonly code = 'foreign_key';
}
/** A column that must not be null got no value. */
export class NotNullViolation extends ConstraintViolation {
  override readonly code = 'not_null';
}
/** A row breaks the condition of a `check` constraint. */
export class CheckViolation extends ConstraintViolation {
  override readonly code = 'check';
}
/**
 * The row conflicts with another row by an `exclude` constraint of PostgreSQL, for example two bookings that
 * overlap.
 */
export class ExclusionViolation extends ConstraintViolation {
  override readonly code = 'exclusion';
}

/** Another transaction changed rows that this transaction had read, so only one of the two can commit. */
export class SerializationFailure extends DatabaseError {
  override readonly code = 'serialization';
}
/** Two transactions waited for each other, so the engine aborted one of them. */
export class Deadlock extends DatabaseError {
  override readonly code = 'deadlock';
}
/**
 * Another connection held a lock for longer than the lock timeout. SQLite calls this "database is locked".
 */
export class LockTimeout extends DatabaseError {
  override readonly code = 'lock_timeout';
}

/** The caller's signal was aborted. `cause` is the reason of the signal. */
export class QueryCanceled extends DatabaseError {
  override readonly code = 'canceled';
}
/**
 * The statement reached a time limit: the option `timeoutMs`, or a limit of the server such as
 * statement_timeout.
 */
export class QueryTimeout extends DatabaseError {
  override readonly code = 'timeout';
}
/**
 * No connection became free in time, or too many callers already wait. If a connection could not be opened,
 * `cause` is the error of that attempt. Without an exception handler, the response to a request is 503 with `Retry-After`.
 */
export class PoolTimeout extends DatabaseError {
  override readonly code = 'pool_timeout';
  /** Load of the connection pool when the error was created. Undefined for an engine without a pool. */
  readonly load: DriverLoad | undefined;

  constructor(
    message: string,
    details: DatabaseErrorDetails & { readonly load?: DriverLoad | undefined } = {},
  ) {
    super(message, details);
    this.load = details.load;
    OVERLOADS.set(this, RETRY_AFTER_SECONDS);
  }
}

/** The statement is wrong: it has a syntax error, or a name that does not exist. */
export class StatementError extends DatabaseError {
  override readonly code = 'statement';
}
/** The schema changed after the statement was prepared. Running the statement again prepares it again. */
export class StalePlan extends StatementError {
  override get isRetryable(): boolean {
    return true;
  }
}
/**
 * A value is not valid, for example because it is too long for its column. Either the server refused it, or
 * this client refused to send it.
 */
export class DataError extends DatabaseError {
  override readonly code = 'data';
}
/** The statement writes, but its connection or transaction is read-only. */
export class ReadOnly extends DatabaseError {
  override readonly code = 'read_only';
}

/** The connection broke. The running statement may or may not have taken effect. */
export class ConnectionLost extends DatabaseError {
  override readonly code = 'connection_lost';
}
/**
 * The connection broke during COMMIT, so the commit may or may not have happened. Read the data to find out.
 * Such a transaction is never retried.
 */
export class CommitOutcomeUnknown extends DatabaseError {
  override readonly code = 'commit_unknown';
}
/**
 * The engine rolled the transaction back after an error, although the callback of the transaction caught the
 * error. None of the transaction's changes remain.
 */
export class TransactionAborted extends DatabaseError {
  override readonly code = 'transaction_aborted';
}

/** The disk is full, or a disk quota is used up. */
export class DiskFull extends DatabaseError {
  override readonly code = 'disk_full';
}
/** The file system failed to read or write. */
export class StorageFailed extends DatabaseError {
  override readonly code = 'storage';
}
/** The file is damaged, or is not a database. */
export class Corrupt extends DatabaseError {
  override readonly code = 'corrupt';
}

/** SQLSTATE of an error whose details have none. */
const USUAL_STATES: ReadonlyMap<unknown, string> = new Map<unknown, string>([
  [ConnectionLost, '08006'],
  [CommitOutcomeUnknown, '08007'],
  [TransactionAborted, '25P02'],
  [PoolTimeout, '53300'],
  [LockTimeout, '55P03'],
  [QueryCanceled, '57014'],
  [QueryTimeout, '57014'],
]);

/** Folders of this package. Frames from these folders are left out of error stacks. */
const OWN_FOLDERS: readonly string[] = ownFolders('db/');

/**
 * Makes the stack of an error begin where the application called the database method. Call atCaller() while
 * the application still awaits that method: later, V8 cannot find the application's stack frames.
 */
export function atCaller(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const here: { stack?: string } = {};
  Error.captureStackTrace(here, atCaller);
  const frames = foreign(here.stack!);
  // keep the original stack: without an `await`, the application's stack frames are missing here
  if (frames.length === 0) return error;
  Object.defineProperty(error, 'stack', {
    value: `${error.name}: ${error.message}\n${frames.join('\n')}`,
    configurable: true,
    writable: true,
  });
  return error;
}

/** Place of a call in the application. Capturing it is cheap: V8 formats a stack when it is read. */
export class Caller {
  readonly stack?: string;

  /** Stack frames outside of OWN_FOLDERS, one per line. */
  get frames(): string {
    return foreign(this.stack ?? '').join('\n');
  }
}

export function callerHere(): Caller {
  const caller = new Caller();
  Error.captureStackTrace(caller, callerHere);
  return caller;
}

function foreign(stack: string): string[] {
  return stack
    .split('\n')
    .slice(1)
    .filter(
      (frame) =>
        !OWN_FOLDERS.some((folder) => frame.includes(folder)) &&
        !frame.includes('node:sqlite') &&
        !/^\s+at new Promise|async_hooks|AsyncLocalStorage|processTicksAndRejections/.test(frame),
    );
}

/** The peer broke the protocol, so its next bytes have no meaning. The message never shows bytes. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation';
}

export function lostByProtocol(cause: unknown): ConnectionLost {
  const problem =
    cause instanceof ProtocolViolation ? cause.message : 'the server sent a value that cannot be read';
  return new ConnectionLost(`Protocol violation: ${problem}`, { sqlstate: '08P01', cause });
}
