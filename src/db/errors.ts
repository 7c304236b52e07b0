/**
 * What databases refuse, in one tree of classes for all of them. An error carries the code of its class, the engine's own
 * codes, what of table, columns and constraint the engine tells, and the statement; never a value that was bound.
 *
 *   DatabaseError - ConstraintViolation - UniqueViolation ForeignKeyViolation NotNullViolation CheckViolation ExclusionViolation
 *                 + SerializationFailure Deadlock LockTimeout             isRetryable: the same transaction may succeed again
 *                 + QueryCanceled QueryTimeout PoolTimeout                the caller, or we, had enough of waiting
 *                 + StatementError DataError ReadOnly                     the statement, or its values, can never work
 *                 + ConnectionLost CommitOutcomeUnknown TransactionAborted
 *                 \ DiskFull StorageFailed Corrupt                        an operator is needed
 */
import { ownFolders } from '../base/package-root.ts';
import type { DriverLoad } from './driver.ts';

/** A stable word for each class, to switch on. */
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

/** What is known about a failure beyond its message. */
export interface DatabaseErrorDetails {
  /** Five characters of ISO 9075; where the engine has none, those PostgreSQL would give. */
  readonly sqlstate?: string | undefined;
  /** The engine's own number; for SQLite the extended result code. */
  readonly errno?: number | undefined;
  readonly constraint?: string | undefined;
  readonly table?: string | undefined;
  readonly columns?: readonly string[] | undefined;
  /** The statement as it was sent: placeholders, no values. */
  readonly sql?: string | undefined;
  /** The character of `sql` where the mistake is, counted from 1; PostgreSQL tells it. */
  readonly position?: number | undefined;
  readonly detail?: string | undefined;
  readonly hint?: string | undefined;
  readonly where?: string | undefined;
  readonly cause?: unknown;
}

/** A failure that the database, or the way to it, is the reason of. Its `stack` begins where the verb was called. */
export class DatabaseError extends Error {
  readonly code: DatabaseErrorCode = 'database';
  readonly sqlstate: string | undefined;
  readonly errno: number | undefined;
  readonly constraint: string | undefined;
  readonly table: string | undefined;
  readonly columns: readonly string[];
  readonly sql: string | undefined;
  /** The character of `sql` where the mistake is, counted from 1. */
  readonly position: number | undefined;

  readonly #details: DatabaseErrorDetails;

  constructor(message: string, details: DatabaseErrorDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined);
    this.name = new.target.name;
    this.sqlstate = details.sqlstate;
    this.errno = details.errno;
    this.constraint = details.constraint;
    this.table = details.table;
    this.columns = details.columns ?? [];
    this.sql = details.sql;
    this.position = details.position;
    this.#details = details;
  }

  /** The detail that PostgreSQL adds, for example which key exists already. It may quote values, so that neither logs nor `inspect()` show it. */
  get detail(): string | undefined {
    return this.#details.detail;
  }

  /** The advice of PostgreSQL. Not shown by logs. */
  get hint(): string | undefined {
    return this.#details.hint;
  }

  /** The functions and statements of PostgreSQL in which it happened. It may quote values, so that neither logs nor `inspect()` show it. */
  get where(): string | undefined {
    return this.#details.where;
  }

  /** Whether the same transaction may succeed when it is run again. */
  get isRetryable(): boolean {
    return false;
  }
}

/** The kinds of constraint; `constraint` for a trigger, and for whatever an engine does not name. */
export type ConstraintKind = 'unique' | 'foreign_key' | 'not_null' | 'check' | 'exclusion' | 'constraint';

/** A constraint refuses a row. `kind`, `constraint`, `table` and `columns` say which one. */
export class ConstraintViolation extends DatabaseError {
  override readonly code: ConstraintKind = 'constraint';

  /** The kind of constraint. */
  get kind(): ConstraintKind {
    return this.code;
  }
}
/** There is such a row already: `columns`, or `constraint` for an index over expressions. */
export class UniqueViolation extends ConstraintViolation {
  override readonly code = 'unique';
}
/** The row that is pointed to is missing, or the row is still pointed to. SQLite does not say by which constraint. */
export class ForeignKeyViolation extends ConstraintViolation {
  override readonly code = 'foreign_key';
}
/** A column that must have a value has none. */
export class NotNullViolation extends ConstraintViolation {
  override readonly code = 'not_null';
}
/** A `check` is false. */
export class CheckViolation extends ConstraintViolation {
  override readonly code = 'check';
}
/** The row collides with another one by an `exclude` constraint of PostgreSQL, for example two bookings that overlap. */
export class ExclusionViolation extends ConstraintViolation {
  override readonly code = 'exclusion';
}

/** Another transaction changed what this one had read. */
export class SerializationFailure extends DatabaseError {
  override readonly code = 'serialization';
  override get isRetryable(): boolean {
    return true;
  }
}
/** Two transactions waited for one another, and this one was picked to end that. */
export class Deadlock extends DatabaseError {
  override readonly code = 'deadlock';
  override get isRetryable(): boolean {
    return true;
  }
}
/** Another connection held a lock for longer than we wait: SQLite's "database is locked". */
export class LockTimeout extends DatabaseError {
  override readonly code = 'lock_timeout';
  override get isRetryable(): boolean {
    return true;
  }
}

/** The caller's signal was aborted; `cause` is its reason. */
export class QueryCanceled extends DatabaseError {
  override readonly code = 'canceled';
}
/** A time limit was over: `timeoutMs`, or one that the server has of its own, as statement_timeout. */
export class QueryTimeout extends DatabaseError {
  override readonly code = 'timeout';
}
/** No connection became free in time, or too many callers wait already; `cause` is why none could be made, if that is so. */
export class PoolTimeout extends DatabaseError {
  override readonly code = 'pool_timeout';
  /** How busy the connections were at that moment, where several are kept. */
  readonly load: DriverLoad | undefined;

  constructor(
    message: string,
    details: DatabaseErrorDetails & { readonly load?: DriverLoad | undefined } = {},
  ) {
    super(message, details);
    this.load = details.load;
  }
}

/** The statement is wrong: syntax, or names that are not there. */
export class StatementError extends DatabaseError {
  override readonly code = 'statement';
}
/** The statement was right when it was prepared: what it is about has changed since. Run again, it is prepared behind that. */
export class StalePlan extends StatementError {
  override get isRetryable(): boolean {
    return true;
  }
}
/** A value does not fit its column, or an operation on it is not defined. */
export class DataError extends DatabaseError {
  override readonly code = 'data';
}
/** A write where only reading is possible. */
export class ReadOnly extends DatabaseError {
  override readonly code = 'read_only';
}

/** The connection broke. What it was doing may or may not have happened. */
export class ConnectionLost extends DatabaseError {
  override readonly code = 'connection_lost';
}
/** The connection broke during COMMIT: whether it took place can only be found out by looking. Never retried. */
export class CommitOutcomeUnknown extends DatabaseError {
  override readonly code = 'commit_unknown';
}
/** The engine has rolled the transaction back on its own, after an error that the callback caught: nothing of it remains. */
export class TransactionAborted extends DatabaseError {
  override readonly code = 'transaction_aborted';
}

/** No room on the disk, or the quota is used up. */
export class DiskFull extends DatabaseError {
  override readonly code = 'disk_full';
}
/** The file system failed to read or write. */
export class StorageFailed extends DatabaseError {
  override readonly code = 'storage';
}
/** The file is damaged, or is no database. */
export class Corrupt extends DatabaseError {
  override readonly code = 'corrupt';
}

/** Frames of this folder are left out of stacks: they do not help the reader. */
const OWN_FOLDERS: readonly string[] = ownFolders('db/');

/**
 * The error with a stack that begins at the caller of the verb. To be called where that caller still awaits: V8 then finds its
 * frames behind our `await`s.
 */
export function atCaller(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const here: { stack?: string } = {};
  Error.captureStackTrace(here, atCaller);
  const frames = foreign(here.stack!);
  if (frames.length === 0) return error; // the caller does not await: what there is, is better than nothing
  Object.defineProperty(error, 'stack', {
    value: `${error.name}: ${error.message}\n${frames.join('\n')}`,
    configurable: true,
    writable: true,
  });
  return error;
}

/** Who calls, kept cheaply: worked out only if somebody wants to know. */
export class Caller {
  readonly stack?: string;

  /** The frames outside of this folder, one a line. */
  get frames(): string {
    return foreign(this.stack ?? '').join('\n');
  }
}

/** Who calls the verb that is being run. */
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

/** The peer said what the protocol does not allow: nothing that comes after it can be understood. Never shows the bytes. */
export class ProtocolViolation extends Error {
  override readonly name = 'ProtocolViolation';
}
