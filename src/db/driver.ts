/**
 * Interface of the drivers for SQLite, PostgreSQL and MySQL. A driver lends connections. A connection runs
 * the statements of the caller that borrowed it.
 *
 * A caller may start several statements on one connection without waiting. The connection runs them in the
 * order of the calls.
 *
 * A driver throws the errors of errors.ts. It sends the values of a statement separately, and never writes
 * them into the text of the statement.
 */
import type { Awaitable } from '../cache/stores.ts';
import type { Params } from './values.ts';

/** SQL dialect of a database engine. */
export type Dialect = 'sqlite' | 'postgres' | 'mysql' | 'mariadb';

/**
 * JavaScript type of timestamps in rows: a `Date`, which has no microseconds, or ISO 8601 text such as
 * `2024-02-29T12:00:00.123456Z`.
 */
export type Timestamps = 'date' | 'string';

/** JavaScript type of 64-bit integers in rows. See DatabaseOptions.int8. */
export type Int8 = 'auto' | 'bigint' | 'string';

/**
 * A value of a row. An object is a Date, bytes, parsed JSON, an array, or a value of a custom type (option
 * `types`). src/db/README.md lists the JavaScript type for each database type.
 */
export type SqlValue = null | string | number | bigint | boolean | object;

/**
 * Values of a row by column name. If two columns have one name, the row has only the value of the last one.
 * Use `fetchArrays` to read both.
 */
export type Row = Record<string, SqlValue>;

/** Result of a statement that writes. */
export interface ExecuteResult {
  /** Number of rows inserted, updated or deleted. */
  readonly affectedRows: number;
  /**
   * Key that the engine generated for an inserted row; undefined if it generated none. For several rows,
   * SQLite reports the last key, and MySQL the first. For PostgreSQL, and for an upsert in SQLite, use the
   * clause `returning`.
   */
  readonly lastInsertId: number | bigint | string | undefined;
}

/** A column of a result. */
export interface Column {
  readonly name: string;
  /** Table of the column; undefined for an expression. */
  readonly table: string | undefined;
  /** Declared type of the column, for example `varchar`, as the engine names it. */
  readonly type: string | undefined;
}

/** Type of a parameter or a column, in the terms of the engine. */
export interface EngineType {
  /** Name of the type, for example `numeric(6,2)`. */
  readonly name: string;
  /** PostgreSQL: oid and modifier of the type. */
  readonly oid?: number | undefined;
  readonly modifier?: number | undefined;
}

export interface PreparedColumn {
  readonly name: string;
  /** Undefined for an expression whose type the engine does not tell. */
  readonly type: EngineType | undefined;
  /** Table from which the column comes; undefined for an expression. */
  readonly table: string | undefined;
  /** Schema of the table. Undefined if the server finds the table without its schema. */
  readonly schema?: string | undefined;
  readonly column: string | undefined;
  /** Whether the column of the table may be NULL; undefined if the engine does not tell. */
  readonly isNullable: boolean | undefined;
}

/** Description of a statement that the engine has prepared and not run. */
export interface PreparedStatement {
  /** Type of each parameter; undefined if the engine does not tell. */
  readonly parameters: readonly (EngineType | undefined)[];
  readonly columns: readonly PreparedColumn[];
}

/** Rows as arrays of values. Two columns with one name, as in a join, keep separate values. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: unknown[][];
}

/** Abort signal and deadline of a call. */
export interface Limit {
  readonly signal: AbortSignal | undefined;
  /** Deadline in milliseconds by Clock.monotonicMs(). Infinity when there is no deadline. */
  readonly deadlineMs: number;
  /** Timeout of the caller in milliseconds, for error messages. */
  readonly timeoutMs: number;
}

/**
 * Isolation levels of transactions. An engine may use a stricter level than the requested one: SQLite is
 * always serializable.
 */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

export interface BeginOptions {
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
}

/** Purpose of a borrowed connection. For `read`, the driver may lend a connection that cannot write. */
export type Purpose = 'statement' | 'transaction' | 'read';

/** Rows that are read on demand, in batches. */
export type RowBatches = AsyncGenerator<readonly Row[], void, undefined>;

/** A connection to the database. Only one caller uses it at a time. */
export interface Connection {
  /** Whether a transaction is open on the connection, as the engine reports it. */
  readonly isInTransaction: boolean;
  /** Runs a statement. Returns the number of rows affected, and the key of the last inserted row. */
  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult>;
  /** Returns the first row, or undefined. */
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined>;
  /** Returns all rows. */
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]>;
  /** Returns all rows as arrays, and their columns. */
  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table>;
  /**
   * Returns the rows of each result, for a procedure that gives several results. Absent for engines without
   * such procedures.
   */
  fetchSets?(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[][]>;
  /** Returns the first value of the first row, or undefined when there is no row. */
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown>;
  /**
   * Runs the statement once for each list of values, inside the open transaction. Returns the number of rows
   * affected.
   */
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number>;
  /**
   * Inserts rows into a table. Absent if the engine has no faster way than `insert` statements. The caller
   * has already quoted the names.
   */
  insertMany?(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Awaitable<number>;
  /** Yields rows in batches, and reads each batch on demand. Leaving the loop early ends the statement. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Runs several statements without parameters, for migrations. Stops at the first statement that fails. */
  script(sql: string, limit: Limit | undefined): Awaitable<void>;
  /**
   * Prepares a statement and does not run it. Returns undefined for a statement that the engine cannot
   * prepare, and for one that it would run at once. Throws as the statement itself would.
   */
  describe?(sql: string, limit: Limit | undefined): Awaitable<PreparedStatement | undefined>;
  /** Begins a transaction. */
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void>;
  /**
   * Commits. Throws when the engine rolled back instead, even if it reported success. Throws
   * CommitOutcomeUnknown when the engine does not respond in time.
   */
  commit(limit?: Limit): Awaitable<void>;
  /** Rolls back. Does not throw when the transaction has already ended. */
  rollback(limit?: Limit): Awaitable<void>;
  /** Sets a savepoint. Its name has only letters, digits and underscores. */
  savepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Removes a savepoint, and keeps all changes that were made after it. */
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Undoes all changes that were made after the savepoint, and removes the savepoint. */
  rollbackTo(name: string, limit?: Limit): Awaitable<void>;
  /**
   * Makes the driver close this connection instead of lending it again. Use it when the session has settings
   * that other callers must not get. Absent for SQLite.
   */
  retire?(): void;
}

/**
 * Callback for a notification. It receives the payload, the channel, and the process ID of the server process
 * that sent it.
 */
export type Notified = (
  payload: string,
  notification: { readonly channel: string; readonly processId: number },
) => unknown;

/** Options of a subscription to a channel. */
export interface ListenOptions {
  /**
   * Called when a lost connection is open again. Notifications sent in the meantime never arrive, so read the
   * current state.
   */
  readonly onReconnect?: (() => unknown) | undefined;
}

/** Numbers of connections in use, of idle connections, and of callers that wait for a connection. */
export interface DriverLoad {
  readonly inUse: number;
  readonly idle: number;
  readonly waiting: number;
}

/** Manages the connections to one database. */
export interface Driver {
  readonly dialect: Dialect;
  readonly load: DriverLoad;
  /** Opens the database. Throws when it cannot be opened. Called once, before all other methods. */
  open(): Promise<void>;
  /**
   * Lends a connection. Callers get connections in the order of their calls.
   *
   * @throws PoolTimeout when no connection becomes free in time; QueryCanceled, QueryTimeout when the limit
   *   is reached first
   */
  acquire(limit: Limit | undefined, purpose: Purpose): Awaitable<Connection>;
  /** Takes a connection back. If a transaction is still open, rolls it back and logs a warning. */
  release(connection: Connection): void;
  /** Yields rows in batches. Uses a separate connection when a slow reader would block other callers. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Resolves when the database answers. Rejects when the database does not answer. */
  ping(limit: Limit | undefined): Awaitable<void>;
  /**
   * Writes a consistent copy of the database to a file, while other connections read and write. Absent for
   * engines that cannot do this.
   */
  backup?(path: string, limit: Limit | undefined): Promise<void>;
  /** Subscribes to a channel until the subscription is disposed of. Absent for engines without channels. */
  listen?(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable>;
  /**
   * Refuses new statements, waits for running ones, and closes all connections. Further calls have no effect.
   */
  close(): Promise<void>;
}
