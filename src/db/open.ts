/**
 * Opens a database from its address and options.
 */
import { basename } from 'node:path';
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, isObject, isRecord, oneOf, readOptions } from '../base/options.ts';
import { ACQUIRE_MS, Database } from './database.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { guardedTracer, type Tracer } from '../observability/tracer.ts';
import { readOwnTypes, type OwnType } from './own-types.ts';
import { poolEvents, type PoolEventKind } from './wire/pool-settings.ts';
import { isLocalHost, type SslMode } from './wire/server-url.ts';
import { DatabaseSpans, type TracedDatabase } from './tracing.ts';
import { SqliteDriver } from './sqlite/sqlite.ts';
import { MEMORY } from './sqlite/connection.ts';
import { parseDatabaseUrl, shownUrl, type DatabaseUrl, type SqliteUrl } from './url.ts';
import type { DatabaseError } from './errors.ts';
import type { Logger } from '../observability/log.ts';
import type { Driver, Int8 } from './driver.ts';
import type { ResolvedPoolOptions } from './wire/pool-settings.ts';
import type { MySqlUrl } from './mysql/url.ts';
import type { PostgresUrl } from './postgres/url.ts';

const BUSY_MS = 5_000;
/** Default `statementCache` for MySQL, whose servers keep 16,382 statements over all connections. */
const MYSQL_STATEMENTS = 128;
/** Default `slowStatementMs` for SQLite, whose statements block the event loop. */
const SQLITE_SLOW_MS = 50;
const SERVER_SLOW_MS = 1_000;
/** Time in milliseconds that close() waits for running statements. Then the database closes in any case. */
const CLOSE_MS = 10_000;

/**
 * Options of a server's connection pool. SQLite, with its single writing connection, uses only
 * `acquireTimeoutMs` and `maxWaiting`.
 */
export interface PoolOptions {
  /** Maximum number of connections, 1 ... 10_000. Default 10. */
  readonly max?: number | undefined;
  /** Number of connections that the pool opens in advance and keeps open, 0 ... 10_000. Default 0. */
  readonly min?: number | undefined;
  /**
   * Seconds after which the pool closes an idle connection, 1 ... 86_400. It keeps `min` connections open.
   * Default 60.
   */
  readonly idleSeconds?: number | undefined;
  /**
   * Lifetime of a connection in seconds, 10 ... 604_800. It varies at random by up to a tenth. A connection
   * in use is closed after its caller returns it. Default 1_800.
   */
  readonly maxLifetimeSeconds?: number | undefined;
  /**
   * Cleanup of a connection before the next caller gets it. `transaction` rolls back an open transaction.
   * `full` also resets settings, temporary tables and all other session state, in another round trip to the
   * server. Default `transaction`.
   */
  readonly reset?: 'transaction' | 'full' | undefined;
  /**
   * Seconds after which a connection that is still in use is logged, with the stack of its caller, 1 ...
   * 86_400; 0 disables the log. Default 0. With a DatabasePlugin the default is 30, or 0 in production.
   */
  readonly leakSeconds?: number | undefined;
  /**
   * Milliseconds that a caller waits for a connection before it gets a PoolTimeout, 1 ... 2_147_483_647.
   * Default 5_000.
   */
  readonly acquireTimeoutMs?: number | undefined;
  /**
   * Maximum number of waiting callers, 0 ... 1_000_000. Any further caller gets a PoolTimeout at once.
   * Default 1_000.
   */
  readonly maxWaiting?: number | undefined;
}

/** Options of a database. */
export interface DatabaseOptions {
  /**
   * JavaScript type of 64-bit integers in rows, and in SQLite of all integers. `auto` gives a number, or a
   * bigint beyond 2^53 - 1. `bigint` and `string` always give that type. Default `auto`.
   */
  readonly int8?: Int8 | undefined;
  /**
   * Default `timeoutMs` of every method, 0 ... 2_147_483_647. It also applies to statements inside
   * transactions, and to their BEGIN, COMMIT and ROLLBACK. 0 means no limit: if the server vanishes, a statement
   * waits until TCP reports this, which takes many minutes. Statements of stores in the database, such as for
   * sessions and logins, then have a limit of `acquireTimeoutMs` of the pool and 5 seconds. Default 0.
   */
  readonly statementTimeoutMs?: number | undefined;
  /**
   * Milliseconds after which a statement is logged as `slow_statement`, without its values, 0 ... 2_147_483_647;
   * 0 disables the log. Default 50 for SQLite, whose statements block the event loop, and 1_000 for all other engines.
   */
  readonly slowStatementMs?: number | undefined;
  /**
   * Maximum number of prepared statements per connection, 0 ... 10_000. Use 0 for a server behind a
   * connection pooler; SQLite refuses 0. Default 256; 128 for MySQL and MariaDB.
   */
  readonly statementCache?: number | undefined;
  /**
   * Whether a schema member such as `createdAt` is read from the column `created_at`. Applies to rows that
   * are read with the option `as`. A call may override it. Default false.
   */
  readonly snakeCase?: boolean | undefined;
  /**
   * Functions that read and write values of custom types, by the name of the type in the database: `{ vector:
   * { parse: JSON.parse, encode: JSON.stringify } }`. In SQLite, the name is the declared type of a column.
   * Cannot be combined with `readers`.
   */
  readonly types?: Readonly<Record<string, OwnType>> | undefined;
  /** Limits of the connection pool. */
  readonly pool?: PoolOptions | undefined;
  /**
   * Whether the database can only be read. A SQLite file must then exist. A server refuses writes in all
   * transactions. Default false.
   */
  readonly readOnly?: boolean | undefined;
  /**
   * Durability of commits in SQLite and PostgreSQL. With `full`, a commit survives a power failure. With
   * `normal`, the last commits may then be lost, but a commit takes less time. Default `full`.
   */
  readonly synchronous?: 'full' | 'normal' | undefined;
  /**
   * SQLite: milliseconds that a statement waits for the lock of another process, 0 ... 2_147_483_647. After
   * this time, the statement fails with LockTimeout. Default 5_000.
   */
  readonly busyTimeoutMs?: number | undefined;
  /**
   * SQLite: number of extra processes for long reads, read-only transactions and streams, 0 ... 64. With 0,
   * these run in this process and block the event loop. Default 0.
   */
  readonly readers?: number | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
  /** Logger for warnings, for example about slow statements. */
  readonly log?: Logger | undefined;
  /** Makes a span for each statement. Default: none; with a DatabasePlugin, the tracer of the application. */
  readonly tracer?: Tracer | undefined;
}

const UNNAMED: DatabaseObserver = { name: 'database' };

/** A database that is not open yet. Its address and options are valid. @internal */
export interface PreparedDatabase {
  readonly synchronous: 'full' | 'normal';
  readonly isInMemory: boolean;
  /**
   * SSL mode of the connection, if it leaves the identity of a remote server unverified; otherwise undefined.
   */
  readonly unproved: SslMode | undefined;
  /** Loads the modules of the database engine, and opens the database. Called once. */
  open(): Promise<OpenedDatabase>;
}

/** @internal */
interface OpenedDatabase {
  readonly driver: Driver;
  readonly database: Database;
}

interface DatabaseObserver {
  readonly name: string;
  /**
   * True for a command such as `svc migrate`, which itself prints why a server cannot be reached, and how long
   * each migration takes. The pool then logs nothing, and no statement is logged as slow.
   */
  readonly isCommand?: boolean | undefined;
  /** Called after each statement with its duration in seconds. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  /**
   * Called after a caller has waited for a connection, with the wait in seconds. Not called when a connection
   * is free at once.
   */
  readonly onWait?: ((seconds: number) => void) | undefined;
  readonly onPoolEvent?: ((kind: PoolEventKind) => void) | undefined;
}

/** Validates address and options without opening the database. @internal */
export function prepareDatabase(
  url: string,
  options: DatabaseOptions,
  observer: DatabaseObserver = UNNAMED,
): PreparedDatabase {
  const address = parseDatabaseUrl(url);
  const settings = readDatabaseOptions(options, address);
  const read = observer.isCommand === true ? { ...settings, slowStatementMs: 0 } : settings;
  const { clock, log, tracer, statementTimeoutMs, snakeCase, types, synchronous } = read;
  const conversion = { snakeCase, types };
  const { onWait } = observer;
  const spans =
    tracer === undefined ? undefined : new DatabaseSpans(guardedTracer(tracer, log), tracedDatabase(address));
  const makeDriver =
    address.dialect === 'sqlite'
      ? sqliteDriver(address, read, observer)
      : serverDriver(address, shownUrl(url), read, observer);
  return {
    synchronous,
    isInMemory: address.dialect === 'sqlite' && address.path === MEMORY,
    unproved: address.dialect === 'sqlite' ? undefined : unprovedMode(address),
    open: async () => {
      const driver = await makeDriver();
      await driver.open();
      return {
        driver,
        database: new Database(driver, {
          clock,
          statementTimeoutMs,
          acquireTimeoutMs: read.pool.acquireTimeoutMs,
          conversion,
          spans,
          onWait,
        }),
      };
    },
  };
}

function tracedDatabase(address: DatabaseUrl): TracedDatabase {
  const { dialect: system } = address;
  const codeOf = ({ sqlstate, errno }: DatabaseError): string | number | undefined =>
    system === 'postgres' ? sqlstate : errno;
  if (address.dialect === 'sqlite') return { system, namespace: basename(address.path), hosts: [], codeOf };
  return { system, namespace: address.database || undefined, hosts: address.hosts, codeOf };
}

function unprovedMode({ hosts, tls: { mode } }: PostgresUrl | MySqlUrl): SslMode | undefined {
  return mode === 'verify-full' || hosts.every(({ host }) => isLocalHost(host)) ? undefined : mode;
}

function sqliteDriver(
  { path }: SqliteUrl,
  { readOnly: isReadOnly, pool, ...read }: ReadOptions,
  { onStatement }: DatabaseObserver,
): () => Driver {
  if (read.statementCache === 0)
    throw new SvcError('E_DB_OPTION', [
      '"statementCache": 0 is for a connection pooler in front of a server, and SQLite has no server: remove the option',
    ]);
  if (read.types !== undefined && read.readers > 0)
    throw new SvcError('E_DB_OPTION', [
      '"types" contains functions, which cannot be sent to the reader processes of the option "readers": remove one of the two options',
    ]);
  const { acquireTimeoutMs, maxWaiting } = pool;
  const driver = new SqliteDriver({ ...read, path, isReadOnly, acquireTimeoutMs, maxWaiting, onStatement });
  return () => driver;
}

function serverDriver(
  address: PostgresUrl | MySqlUrl,
  shown: string,
  { readers, busyTimeoutMs, readOnly, synchronous, pool, int8, ...read }: ReadOptions,
  observer: DatabaseObserver,
): () => Promise<Driver> {
  const { clock, log } = read;
  const isPostgres = address.dialect === 'postgres';
  const mustWrite = address.target === 'read-write';
  if (readers > 0)
    throw new SvcError('E_DB_OPTION', [
      '"readers" is only for a file of SQLite: remove the option for a database server',
    ]);
  if (busyTimeoutMs !== BUSY_MS)
    throw new SvcError('E_DB_OPTION', [
      `"busyTimeoutMs" is only for SQLite: remove the option, and write ${isPostgres ? 'set.lock_timeout' : 'set.innodb_lock_wait_timeout'}=… into the address`,
    ]);
  if (readOnly && mustWrite)
    throw new SvcError('E_DB_OPTION', [
      '"readOnly" and target_session_attrs=read-write contradict each other: remove one of them',
    ]);
  if (synchronous === 'normal' && !isPostgres)
    throw new SvcError('E_DB_OPTION', [
      '"synchronous" is for SQLite and PostgreSQL: remove the option, because on this server the setting innodb_flush_log_at_trx_commit controls durability',
    ]);
  const common = { ...read, mustWrite, onStatement: observer.onStatement };
  const deps = {
    address,
    shown,
    pool,
    clock,
    log: observer.isCommand === true ? undefined : log,
    onPoolEvent: poolEventReporter(observer),
  };
  if (!isPostgres) {
    const session = {
      ...address,
      ...common,
      isReadOnly: readOnly,
      values: { ...address.values, int8, types: read.types },
    };
    return async () => (await import('./mysql/connect.ts')).mySqlDriver({ ...deps, session });
  }
  const session = {
    ...address,
    ...common,
    int8,
    mustBePrimary: mustWrite || address.target === 'primary',
    parameters: {
      ...address.parameters,
      ...(readOnly ? { default_transaction_read_only: 'on' } : {}),
      ...(synchronous === 'normal' ? { synchronous_commit: 'off' } : {}),
    },
  };
  return async () => new (await import('./postgres/connect.ts')).PostgresDriver({ ...deps, session });
}

function poolEventReporter({
  name,
  onPoolEvent,
}: DatabaseObserver): (kind: PoolEventKind, error?: unknown) => void {
  return (kind, error) => {
    onPoolEvent?.(kind);
    if (poolEvents.hasSubscribers) poolEvents.publish({ kind, database: name, error });
  };
}

type ReadOptions = ReturnType<typeof readDatabaseOptions>;

// the address may set defaults of options: `sqlite:./data.db?mode=ro` sets `readOnly`
function readDatabaseOptions(options: DatabaseOptions, address: DatabaseUrl) {
  const isReadOnly = address.dialect === 'sqlite' && address.isReadOnly;
  const synchronous = address.dialect === 'sqlite' ? address.synchronous : undefined;
  const statementCache =
    address.dialect === 'sqlite'
      ? undefined
      : (address.statementCache ?? (address.dialect === 'postgres' ? undefined : MYSQL_STATEMENTS));
  const { pool, clock, types, ...read } = readOptions('the database', options, {
    int8: oneOf(['auto', 'bigint', 'string'], 'auto'),
    statementTimeoutMs: int(0, 0, MAX_TIMEOUT_MS),
    slowStatementMs: int(address.dialect === 'sqlite' ? SQLITE_SLOW_MS : SERVER_SLOW_MS, 0, MAX_TIMEOUT_MS),
    statementCache: int(statementCache ?? 256, 0, 10_000),
    snakeCase: bool(false),
    types: given<Readonly<Record<string, OwnType>>>('an object of types', isRecord),
    pool: given<PoolOptions>('an object', isObject),
    readOnly: bool(isReadOnly),
    synchronous: oneOf(['full', 'normal'], synchronous ?? 'full'),
    busyTimeoutMs: int(BUSY_MS, 0, MAX_TIMEOUT_MS),
    readers: int(0, 0, 64),
    clock: given<Clock>(),
    log: given<Logger>(),
    tracer: given<Tracer>('a tracer', isObject),
  });
  return {
    ...read,
    clock: clock ?? systemClock,
    types: types === undefined ? undefined : readOwnTypes(types, address.dialect),
    pool: readPoolOptions(pool ?? {}),
  };
}

function readPoolOptions(options: PoolOptions): Omit<ResolvedPoolOptions, 'connectTimeoutMs'> {
  const { idleSeconds, maxLifetimeSeconds, leakSeconds, ...read } = readOptions(
    "the database's pool",
    options,
    {
      max: int(10, 1, 10_000),
      min: int(0, 0, 10_000),
      idleSeconds: int(60, 1, 86_400),
      maxLifetimeSeconds: int(1_800, 10, 604_800),
      reset: oneOf(['transaction', 'full'], 'transaction'),
      leakSeconds: int(0, 0, 86_400),
      acquireTimeoutMs: int(ACQUIRE_MS, 1, MAX_TIMEOUT_MS),
      maxWaiting: int(1_000, 0, 1_000_000),
    },
  );
  if (read.min > read.max)
    throw new SvcError('E_DB_OPTION', [`"pool.min" (${read.min}) must not exceed "pool.max" (${read.max})`]);
  return {
    ...read,
    idleMs: idleSeconds * 1_000,
    maxLifetimeMs: maxLifetimeSeconds * 1_000,
    leakAfterMs: leakSeconds * 1_000,
    closeMs: CLOSE_MS,
  };
}

/** Opens the database of the plugin `name` for a command of svc. @internal */
export async function openForCommand(url: string, options: DatabaseOptions, name: string): Promise<Database> {
  return (await prepareDatabase(url, options, { name, isCommand: true }).open()).database;
}

/**
 * Opens a database. Call `close()` at the end, or declare it with `await using`.
 *
 *   await using db = await openDatabase('sqlite:./data.db');
 *   await using db = await openDatabase('postgres://app:secret@db.example/shop');
 *
 * @throws SvcError `E_DB_URL` for an invalid address, `E_DB_OPEN` when the database cannot be opened,
 *   `E_DB_OPTION` for an option that the engine does not support, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` for
 *   other invalid options
 */
export async function openDatabase(url: string, options: DatabaseOptions = {}): Promise<Database> {
  return (await prepareDatabase(url, options).open()).database;
}
