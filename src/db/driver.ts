/**
 * What every database is to the rest: a driver that lends connections, and a connection that runs statements for one owner.
 *
 *   Database, Transaction -> Driver.acquire() -> Connection -> the engine
 *                           Driver.release() <-
 *
 * Whatever may finish at once is `Awaitable`: SQLite answers without a promise, a server never does. An owner may have several
 * statements under way; a connection runs them in the order in which they came. Errors are those of errors.ts; values are
 * checked and encoded by the driver, which alone knows the types, and never written into the text.
 */
import type { Awaitable } from '../cache/stores.ts';
import type { Params } from './values.ts';

/** The SQL that is spoken. */
export type Dialect = 'sqlite' | 'postgres' | 'mysql' | 'mariadb';

/** How instants arrive: as a `Date`, which cuts microseconds, or as ISO 8601 in UTC with all digits, `2024-02-29T12:00:00.123456Z`. */
export type Timestamps = 'date' | 'string';

/** How integers wider than 53 bits arrive: see DatabaseOptions.int8. */
export type Int8 = 'auto' | 'bigint' | 'string';

/** A value of a row: which of them a type comes as is in the manual. Objects are Dates, bytes, parsed JSON, lists, and what a type of your own makes. */
export type SqlValue = null | string | number | bigint | boolean | object;

/** A row by column name. Of two columns of one name the last counts; `fetchArrays` keeps both. */
export type Row = Record<string, SqlValue>;

/** What a writing statement did. */
export interface ExecuteResult {
  /** Rows inserted, updated or deleted; 0 for any other statement. */
  readonly affectedRows: number;
  /** The key that an `insert` into a table with an integer key made last; undefined when it inserted nothing. Undefined, too, for an upsert of SQLite, where `returning` tells it. */
  readonly lastInsertId: number | bigint | string | undefined;
}

/** A column of a result. */
export interface Column {
  readonly name: string;
  /** The table it comes from, if it is a column of a table. */
  readonly table: string | undefined;
  /** The type it was declared with, as the engine spells it. */
  readonly type: string | undefined;
}

/** Rows as lists of values, for joins whose columns share names. */
export interface Table {
  readonly columns: readonly Column[];
  readonly rows: unknown[][];
}

/** How long a caller waits, and until when. */
export interface Limit {
  readonly signal: AbortSignal | undefined;
  /** By Clock.monotonicMs(); Infinity without one. */
  readonly deadlineMs: number;
  /** As the caller said it, for messages. */
  readonly timeoutMs: number;
}

/** `read uncommitted` is missing on purpose. An engine may give more than was asked for: SQLite is always serializable. */
export type Isolation = 'read committed' | 'repeatable read' | 'serializable';

/** How a transaction begins. */
export interface BeginOptions {
  readonly isolation: Isolation | undefined;
  readonly isReadOnly: boolean;
}

/** What a connection is wanted for. For `read`, a statement or a transaction, it need not be one that can write. */
export type Purpose = 'statement' | 'transaction' | 'read';

/** A conversation with the engine, one owner at a time. */
export interface Connection {
  /** Whether a transaction is open, as the engine says, not as we remember. */
  readonly isInTransaction: boolean;
  execute(sql: string, params: Params, limit: Limit | undefined): Awaitable<ExecuteResult>;
  fetchOne(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row | undefined>;
  fetchAll(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[]>;
  fetchArrays(sql: string, params: Params, limit: Limit | undefined): Awaitable<Table>;
  /** All results of a statement that may have several, where the engine has such. */
  fetchSets?(sql: string, params: Params, limit: Limit | undefined): Awaitable<Row[][]>;
  /** The first value of the first row; undefined when there is no row. */
  scalar(sql: string, params: Params, limit: Limit | undefined): Awaitable<unknown>;
  /** One statement for many rows, all inside the transaction that is open: the rows affected. */
  executeMany(sql: string, rows: Iterable<Params>, limit: Limit | undefined): Awaitable<number>;
  /** Inserts rows into one table, when the engine has a faster way than `insert`. Names are quoted already. */
  insertMany?(
    table: string,
    columns: readonly string[],
    rows: Iterable<Params>,
    limit: Limit | undefined,
  ): Awaitable<number>;
  /** Rows in batches, read as they are asked for. Leaving the loop early ends the statement. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Several statements without parameters, for migrations. Stops at the first that fails. */
  script(sql: string, limit: Limit | undefined): Awaitable<void>;
  begin(options: BeginOptions, limit: Limit | undefined): Awaitable<void>;
  /** Throws when the engine did not commit, whatever it answered; CommitOutcomeUnknown where it does not answer within the limit, nor when it is told to end. */
  commit(limit?: Limit): Awaitable<void>;
  /** Never throws for a transaction that has ended already. */
  rollback(limit?: Limit): Awaitable<void>;
  /** Marks a point inside the transaction; names are ours: letters, digits, underscores. */
  savepoint(name: string, limit?: Limit): Awaitable<void>;
  releaseSavepoint(name: string, limit?: Limit): Awaitable<void>;
  /** Undoes what came after the point, and forgets the point. */
  rollbackTo(name: string, limit?: Limit): Awaitable<void>;
  /** Keeps it from being lent again: its session has settings that no other owner should have. Where there is more than one. */
  retire?(): void;
}

/** What a channel has brought: what was sent, and from which process of the server. */
export type Notified = (
  payload: string,
  notification: { readonly channel: string; readonly processId: number },
) => unknown;

/** How a channel is listened to. */
export interface ListenOptions {
  /** Told when the connection was lost and is there again: what was sent in between is lost, so look at what there is. */
  readonly onReconnect?: (() => unknown) | undefined;
}

/** How busy a driver is. */
export interface DriverLoad {
  readonly inUse: number;
  readonly idle: number;
  readonly waiting: number;
}

/** One database, with as many connections as it thinks right. */
export interface Driver {
  readonly dialect: Dialect;
  readonly load: DriverLoad;
  /** Opens it, so that the first statement need not; a mistake in the address shows here. Once. */
  open(): Promise<void>;
  /** Lends a connection, first come, first served. @throws PoolTimeout, QueryCanceled, QueryTimeout */
  acquire(limit: Limit | undefined, purpose: Purpose): Awaitable<Connection>;
  /** Takes it back. A transaction that is still open is rolled back, and logged: the next owner gets an idle connection. */
  release(connection: Connection): void;
  /** Rows in batches, by a connection of its own where others would have to wait for a slow reader. */
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]>;
  /** Throws when the database does not answer. */
  ping(limit: Limit | undefined): Awaitable<void>;
  /** Writes a consistent copy to a file, while others read and write. Where the engine can. */
  backup?(path: string, limit: Limit | undefined): Promise<void>;
  /** Hears of what is sent to a channel, until it is disposed of. Where the engine can. */
  listen?(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable>;
  /** Waits for what is under way, refuses what comes, and closes. May be called again. */
  close(): Promise<void>;
}
