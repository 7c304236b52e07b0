/**
 * Interface between the database and its engines: a driver lends connections, and a connection runs
 * statements for the caller that borrowed it.
 *
 * A method whose result may be available at once returns an `Awaitable`: SQLite returns the result itself,
 * and a server always returns a promise. A caller may start several statements; the connection runs them in
 * the order of the calls. All errors have classes of errors.ts. The driver checks and encodes values, because
 * only the driver knows the types of its database. It never writes a value into the text of a statement.
 */
import type { Awaitable } from '../cache/stores.ts';
import type { Params } from './values.ts';

/** SQL dialect of the engine. */
export type Dialect = 'sqlite' | 'postgres' | 'mysql' | 'mariadb';

/**
 * Form of timestamps in rows: a `Date`, which has no microseconds, or ISO 8601 text in UTC with all digits,
 * `2024-02-29T12:00:00.123456Z`.
 */
export type Timestamps = 'date' | 'string';

/** Form of integers wider than 53 bits in rows. See DatabaseOptions.int8. */
export type Int8 = 'auto' | 'bigint' | 'string';

/**
 * A value of a row. src/db/README.md lists the form of each database type. Objects are Dates, bytes, parsed
 * JSON, arrays, and results of the option `types`.
 */
export type SqlValue = null | string | number | bigint | boolean | object;

/**
 * A row by column name. When two columns share a name, the row has the value of the last one; `fetchArrays`
 * returns both.
 */
export type Row = Record<string, SqlValue>;

/** Result of a statement that writes. */
export interface ExecuteResult {
  /** Rows inserted, updated or deleted; 0 for any other statement. */
  readonly affectedRows: number;
  /**
   * Key of the last row that an `insert` added to a table with an integer key; undefined when no row was
   * added. It is also undefined for an upsert in SQLite: use the clause `returning` there.
   */
  readonly lastInsertId: number | bigint | string | undefined;
}

/** A column of a result. */
export interface Column {
  readonly name: string;
  /** Table of the column; undefined for an expression. */
  readonly table: string | undefined;
  /** Declared type of the column, as the engine spells it. */
  readonly type: string | undefined;
}

/** Rows as arrays of values. In an array, columns that share a name, as in a join, keep separate values. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: unknown[][];
}

/** Abort signal and deadline of a call. */
export interface Limit {
  readonly signal: AbortSignal | undefined;
  /** Deadline in milliseconds by Clock.monotonicMs(). Infinity when there is no deadline. */
  readonly deadlineMs: number;
  /** Timeout in milliseconds as the caller gave it, for messages. */
  readonly timeoutMs: number;
}

/**
 * Isolation levels. `read uncommitted` is left out on purpose. An engine may use a stricter level than the
 * requested one: SQLite is always serializable.
 */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** Options for the start of a transaction. */
export interface BeginOptions {
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
}

/**
 * Purpose for which a caller needs a connection. For `read`, the driver may lend a connection that cannot
 * write, because the statement or transaction only reads.
 */
export type Purpose = 'statement' | 'transaction' | 'read';

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
   * Returns every result of a statement that may give several results. Absent for engines without such
   * statements.
   */
  fetchSets?(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[][]>;
  /** Returns the first value of the first row, or undefined when there is no row. */
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown>;
  /**
   * Runs one statement for each row of values inside the open transaction. Returns the number of rows
   * affected.
   */
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number>;
  /**
   * Inserts rows into one table. Present when the engine has a faster way than `insert` statements. The names
   * are already quoted.
   */
  insertMany?(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Awaitable<number>;
  /**
   * Yields rows in batches, which are read on demand. When the reader leaves its loop early, the statement
   * ends.
   */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Runs several statements without parameters, for migrations. Stops at the first statement that fails. */
  script(sql: string, limit: Limit | undefined): Awaitable<void>;
  /** Begins a transaction. */
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void>;
  /**
   * Commits. Throws when the engine did not commit, even if the engine reported success. Throws
   * CommitOutcomeUnknown when the engine responds neither to COMMIT within the limit nor to the request to
   * cancel it.
   */
  commit(limit?: Limit): Awaitable<void>;
  /** Rolls back. Does not throw when the transaction has already ended. */
  rollback(limit?: Limit): Awaitable<void>;
  /** Sets a savepoint. Its name, which the library chooses, has only letters, digits and underscores. */
  savepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Removes a savepoint, and keeps all changes that were made after it. */
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Undoes all changes that were made after the savepoint, and removes the savepoint. */
  rollbackTo(name: string, limit?: Limit): Awaitable<void>;
  /**
   * Makes the driver close this connection instead of lending it again, because its session has settings that
   * other callers must not get. Absent for an engine with a single connection.
   */
  retire?(): void;
}

/** Callback for a notification: its payload, its channel, and the server process that sent it. */
export type Notified = (
  payload: string,
  notification: { readonly channel: string; readonly processId: number },
) => unknown;

/** Options of a channel subscription. */
export interface ListenOptions {
  /**
   * Called when a lost connection is open again. Notifications sent while it was lost never arrive, so read
   * the current state.
   */
  readonly onReconnect?: (() => unknown) | undefined;
}

/** Number of connections and waiting callers of a driver. */
export interface DriverLoad {
  readonly inUse: number;
  readonly idle: number;
  readonly waiting: number;
}

/** Manages the connections to one database. */
export interface Driver {
  readonly dialect: Dialect;
  readonly load: DriverLoad;
  /**
   * Opens the database in advance, so that the first statement does not wait for it. Throws when the address
   * is wrong. Called once.
   */
  open(): Promise<void>;
  /**
   * Lends a connection to each caller, in the order of the calls.
   * @throws PoolTimeout when no connection becomes free in time; QueryCanceled, QueryTimeout when the limit
   *   is reached first
   */
  acquire(limit: Limit | undefined, purpose: Purpose): Awaitable<Connection>;
  /**
   * Takes a connection back. Rolls back and logs a transaction that is still open, so the next caller gets a
   * connection without a transaction.
   */
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
