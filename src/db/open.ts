/**
 * An address and options → a database.
 */
import { systemClock, type Clock } from '../clock.ts';
import { bool, given, int, oneOf, readOptions } from '../options.ts';
import { Database } from './database.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { ObservedDriver } from './observed-driver.ts';
import { SqliteDriver } from './sqlite.ts';
import { parseDatabaseUrl } from './url.ts';
import type { Logger } from '../log.ts';
import type { Driver, Int8 } from './driver.ts';

/** How long callers wait for a connection, and how many of them. */
export interface PoolOptions {
  /** 1 … 2_147_483_647. Default 5_000; then PoolTimeout. */
  readonly acquireTimeoutMs?: number | undefined;
  /** Callers that wait at most, 0 … 1_000_000; one more gets a PoolTimeout at once. Default 1_000. */
  readonly maxWaiting?: number | undefined;
}

/** How a database is opened. */
export interface DatabaseOptions {
  /** `auto`: integers are numbers, beyond 2^53 - 1 bigint. `bigint`, `string`: all integers of 64 bits are, and in SQLite all are. Default `auto`. */
  readonly int8?: Int8 | undefined;
  /** `timeoutMs` of every verb that says none, 0 … 2_147_483_647; 0, the default, is no limit. */
  readonly statementTimeoutMs?: number | undefined;
  /** Prepared statements kept for each connection, 1 … 10_000. Default 256. */
  readonly statementCache?: number | undefined;
  readonly pool?: PoolOptions | undefined;
  /** Opens the file for reading only; it must be there. Default false. */
  readonly readOnly?: boolean | undefined;
  /** `full`, the default: what is committed survives a power failure. `normal`: it survives a crash of the process only, and commits cost less. */
  readonly synchronous?: 'full' | 'normal' | undefined;
  /** How long to wait for the lock of another process, 0 … 2_147_483_647. Default 5_000; then LockTimeout. */
  readonly busyTimeoutMs?: number | undefined;
  /** Processes for long reads, read-only transactions and streams, 0 … 64. Default 0: those run in this one, beside the writing connection, and hold the loop. */
  readonly readers?: number | undefined;
  readonly clock?: Clock | undefined;
  /** Gets warnings: slow statements, transactions left open. */
  readonly log?: Logger | undefined;
}

const UNNAMED: DatabaseObserver = { name: 'database' };

/** A database that has a driver, and is not open yet. @internal */
export interface PreparedDatabase {
  readonly driver: Driver;
  readonly database: Database;
  readonly synchronous: 'full' | 'normal';
  readonly isInMemory: boolean;
}

/** Who counts what a database does. @internal */
export interface DatabaseObserver {
  /** Of the database, for those who watch its statements. */
  readonly name: string;
  /** Seconds, of each statement. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  /** Seconds, of each caller who did not get a connection at once. */
  readonly onWait?: ((seconds: number) => void) | undefined;
}

/** Reads address and options, and opens nothing. @internal */
export function prepareDatabase(url: string, options: DatabaseOptions, { name, onStatement, onWait }: DatabaseObserver = UNNAMED): PreparedDatabase {
  const address = parseDatabaseUrl(url);
  const read = readOptions('the database', options, {
    int8: oneOf(['auto', 'bigint', 'string'], 'auto'), statementTimeoutMs: int(0, 0, MAX_TIMEOUT_MS), statementCache: int(256, 1, 10_000), pool: given<PoolOptions>('an object', isObject),
    readOnly: bool(address.isReadOnly), synchronous: oneOf(['full', 'normal'], address.synchronous ?? 'full'), busyTimeoutMs: int(5_000, 0, MAX_TIMEOUT_MS), readers: int(0, 0, 64),
    clock: given<Clock>(), log: given<Logger>(),
  });
  const { acquireTimeoutMs, maxWaiting } = readOptions('the database\'s pool', read.pool ?? {}, { acquireTimeoutMs: int(5_000, 1, MAX_TIMEOUT_MS), maxWaiting: int(1_000, 0, 1_000_000) });
  const clock = read.clock ?? systemClock;
  const { int8, statementCache, readOnly: isReadOnly, synchronous, busyTimeoutMs, readers, log } = read;
  const sqlite = new SqliteDriver({ path: address.path, isReadOnly, synchronous, busyTimeoutMs, readers, int8, statementCache, acquireTimeoutMs, maxWaiting, clock, log, onStatement });
  const driver = new ObservedDriver(sqlite, { name, clock, onWait });
  return { driver, database: new Database(driver, { clock, statementTimeoutMs: read.statementTimeoutMs }), synchronous, isInMemory: address.path === ':memory:' };
}

/**
 * Opens a database. Close it at the end, or declare it by `await using`.
 *
 *   await using db = await openDatabase('sqlite:./data.db');
 *
 * @throws SvcError `E_DB_URL`, `E_DB_DRIVER`, `E_DB_OPEN`, `E_DB_OPTION`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
 */
export async function openDatabase(url: string, options: DatabaseOptions = {}): Promise<Database> {
  const { driver, database } = prepareDatabase(url, options);
  await driver.open();
  return database;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
