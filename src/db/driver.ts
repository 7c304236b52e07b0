/**
 * Interface between the database and its engines: a driver lends connections, and a connection runs
 * statements for one owner.
 *
 *   Database, Transaction -> Driver.acquire() -> Connection -> the engine
 *                           Driver.release() <-
 *
 * A result that may be available at once is `Awaitable`: SQLite answers without a promise, a server always
 * with one. An owner may start several statements; the connection runs them in the order of the calls. All
 * errors are classes of errors.ts. The driver checks and encodes values, because only it knows the types. It
 * never writes a value into the text of a statement.
 */
import type { Awaitable } from '../cache/stores.ts';
import type { Params } from './values.ts';

/** SQL dialect of the engine. */
export type Dialect = 'sqlite' | 'postgres' | 'mysql' | 'mariadb';

/**
 * Form of timestamps in rows: a `Date`, which drops microseconds, or ISO 8601 text in UTC with all digits,
 * `2024-02-29T12:00:00.123456Z`.
 */
export type Timestamps = 'date' | 'string';

/** Form of integers wider than 53 bits in rows: see DatabaseOptions.int8. */
export type Int8 = 'auto' | 'bigint' | 'string';

/**
 * A value of a row. The manual lists the form of each database type. Objects are Dates, bytes, parsed JSON,
 * arrays, and results of the option `types`.
 */
export type SqlValue = null | string | number | bigint | boolean | object;

/** A row by column name. When two columns share a name, the last one counts; `fetchArrays` keeps both. */
export type Row = Record<string, SqlValue>;

/** Effect of a statement that writes. */
export interface ExecuteResult {
  /** Rows inserted, updated or deleted; 0 for any other statement. */
  readonly affectedRows: number;
  /**
   * Key of the last row that an `insert` added to a table with an integer key; undefined when no row was
   * added. It is also undefined for an upsert in SQLite: use `returning` there.
   */
  readonly lastInsertId: number | bigint | string | undefined;
}

/** A column of a result. */
export interface Column {
  readonly name: string;
  /** Table of the column; undefined for an expression. */
  readonly table: string | undefined;
  /** Declared type, in the spelling of the engine. */
  readonly type: string | undefined;
}

/** Rows as arrays of values, for joins whose columns share names. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: unknown[][];
}

/** Abort signal and deadline of a call. */
export interface Limit {
  readonly signal: AbortSignal | undefined;
  /** Deadline by Clock.monotonicMs(); Infinity without one. */
  readonly deadlineMs: number;
  /** Timeout as the caller gave it, for messages. */
  readonly timeoutMs: number;
}

/**
 * Isolation levels. `read uncommitted` is left out on purpose. An engine may isolate more than was asked:
 * SQLite is always serializable.
 */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** Options that begin a transaction. */
export interface BeginOptions {
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
}

/**
 * Use of a connection. `read` stands for a statement or transaction that only reads; a connection that cannot
 * write is enough for it.
 */
export type Purpose = 'statement' | 'transaction' | 'read';

/** A connection to the engine. It has one owner at a time. */
export interface Connection {
  /** Whether a transaction is open, as reported by the engine. */
  readonly isInTransaction: boolean;
  /** Runs a statement and returns its effect. */
  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult>;
  /** Returns the first row, or undefined. */
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined>;
  /** Returns all rows. */
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]>;
  /** Returns all rows as arrays, and their columns. */
  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table>;
  /**
   * Returns every result of a statement that may give several. Absent for engines without such statements.
   */
  fetchSets?(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[][]>;
  /** Returns the first value of the first row; undefined when there is no row. */
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown>;
  /** Runs one statement for each row of values inside the open transaction, and returns the rows affected. */
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number>;
  /**
   * Inserts rows into one table. Present when the engine has a way that is faster than `insert`. Names are
   * already quoted.
   */
  insertMany?(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Awaitable<number>;
  /** Yields rows in batches, read on demand. Leaving the loop early ends the statement. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Runs several statements without parameters, for migrations. Stops at the first that fails. */
  script(sql: string, limit: Limit | undefined): Awaitable<void>;
  /** Begins a transaction. */
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void>;
  /**
   * Commits. Throws when the engine did not commit, even if it reported success. Throws CommitOutcomeUnknown
   * when the engine answers neither COMMIT within the limit nor the cancel request.
   */
  commit(limit?: Limit): Awaitable<void>;
  /** Rolls back. Never throws for a transaction that has already ended. */
  rollback(limit?: Limit): Awaitable<void>;
  /** Sets a savepoint. The library chooses the name: letters, digits and underscores. */
  savepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Removes a savepoint, and keeps what happened after it. */
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Undoes everything after the savepoint, and removes the savepoint. */
  rollbackTo(name: string, limit?: Limit): Awaitable<void>;
  /**
   * Prevents further use of the connection by others, because its session has settings that they should not
   * get. Absent for an engine with a single connection.
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
   * Called after a lost connection is restored. Notifications sent in between are lost, so read the current
   * state.
   */
  readonly onReconnect?: (() => unknown) | undefined;
}

/** Load of a driver. */
export interface DriverLoad {
  readonly inUse: number;
  readonly idle: number;
  readonly waiting: number;
}

/** A driver of one engine: manages the connections to one database. */
export interface Driver {
  readonly dialect: Dialect;
  readonly load: DriverLoad;
  /**
   * Opens the database, so that the first statement does not have to. Reports a mistake in the address.
   * Called once.
   */
  open(): Promise<void>;
  /** Lends a connection, in the order of the calls. @throws PoolTimeout, QueryCanceled, QueryTimeout */
  acquire(limit: Limit | undefined, purpose: Purpose): Awaitable<Connection>;
  /**
   * Takes a connection back. A transaction that is still open is rolled back and logged, so the next owner
   * gets an idle connection.
   */
  release(connection: Connection): void;
  /** Yields rows in batches. Uses a separate connection where a slow reader would block other callers. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Resolves when the database answers, and throws when it does not. */
  ping(limit: Limit | undefined): Awaitable<void>;
  /**
   * Writes a consistent copy to a file, while other connections read and write. Absent for engines that
   * cannot.
   */
  backup?(path: string, limit: Limit | undefined): Promise<void>;
  /** Subscribes to a channel until the subscription is disposed of. Absent for engines that cannot. */
  listen?(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable>;
  /** Refuses new statements, waits for running ones, and closes. Further calls have no effect. */
  close(): Promise<void>;
}
