/**
 * An address and options -> a database.
 */
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, oneOf, readOptions } from '../base/options.ts';
import { Database } from './database.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { ObservedDriver } from './observed-driver.ts';
import { poolEvents, type PoolEventKind } from './wire/pool-settings.ts';
import { isLocalHost, type SslMode } from './wire/server-options.ts';
import { SqliteDriver } from './sqlite/sqlite.ts';
import { MEMORY } from './sqlite/connection.ts';
import { parseDatabaseUrl, shownUrl, type DatabaseUrl, type SqliteUrl } from './url.ts';
import { atCaller } from './errors.ts';
import type { Logger } from '../observability/log.ts';
import type {
  Connection,
  Dialect,
  Driver,
  DriverLoad,
  Int8,
  Limit,
  ListenOptions,
  Notified,
  Purpose,
  Row,
} from './driver.ts';
import type { ResolvedPoolOptions } from './wire/pool-settings.ts';
import type { MySqlUrl } from './mysql/url.ts';
import type { PostgresUrl } from './postgres/url.ts';
import type { Awaitable } from '../cache/stores.ts';
import type { Params } from './values.ts';

const BUSY_MS = 5_000;
/** Half of what others keep: a server of MySQL has room for 16,382 statements of all its connections. */
const MYSQL_STATEMENTS = 128;
/** What is still under way when a database is closed has so long; then it is closed all the same. */
const CLOSE_MS = 10_000;

/** How many connections there are to a server, and how long callers wait for one. SQLite has one that writes, and heeds the last two only. */
export interface PoolOptions {
  /** Connections at most, 1 ... 10_000. Default 10. */
  readonly max?: number | undefined;
  /** Connections that are always kept, made in the background, 0 ... 10_000. Default 0. */
  readonly min?: number | undefined;
  /** How long those beyond `min` may be idle, 1 ... 86_400. Default 60. */
  readonly idleSeconds?: number | undefined;
  /** How old one becomes, give or take a tenth; it ends when nobody has it. 10 ... 604_800. Default 1_800. */
  readonly maxLifetimeSeconds?: number | undefined;
  /** What is done before a connection is lent to somebody else: a transaction that is open is rolled back; `full`: settings, temporary tables and all else are undone too, for a round trip each time. Default `transaction`. */
  readonly reset?: 'transaction' | 'full' | undefined;
  /** Reports, with its stack, whoever holds a connection for longer, 1 ... 86_400; 0 for nobody. Default 0; of a DatabasePlugin 30, but 0 in production. */
  readonly leakSeconds?: number | undefined;
  /** 1 ... 2_147_483_647. Default 5_000; then PoolTimeout. */
  readonly acquireTimeoutMs?: number | undefined;
  /** Callers that wait at most, 0 ... 1_000_000; one more gets a PoolTimeout at once. Default 1_000. */
  readonly maxWaiting?: number | undefined;
}

/** How a database is opened. */
export interface DatabaseOptions {
  /** `auto`: integers are numbers, beyond 2^53 - 1 bigint. `bigint`, `string`: all integers of 64 bits are, and in SQLite all are. Default `auto`. */
  readonly int8?: Int8 | undefined;
  /** `timeoutMs` of every verb that says none, inside of transactions, too, and of their begin and end, 0 ... 2_147_483_647; 0, the default, is no limit. */
  readonly statementTimeoutMs?: number | undefined;
  /** Prepared statements kept for each connection, 0 ... 10_000; 0, for poolers between, is for servers only. Default 256, and 128 for MySQL and MariaDB. */
  readonly statementCache?: number | undefined;
  readonly pool?: PoolOptions | undefined;
  /** Nothing is written: opens the file for reading only, which must be there; transactions on a server refuse writes. Default false. */
  readonly readOnly?: boolean | undefined;
  /** `full`, the default: what is committed survives a power failure. `normal`: it survives a crash of the process only, and commits cost less. */
  readonly synchronous?: 'full' | 'normal' | undefined;
  /** SQLite: how long to wait for the lock of another process, 0 ... 2_147_483_647. Default 5_000; then LockTimeout. */
  readonly busyTimeoutMs?: number | undefined;
  /** SQLite: processes for long reads, read-only transactions and streams, 0 ... 64. Default 0: those run in this one, beside the writing connection, and hold the loop. */
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
  /** How a server that is another machine is reached, if it need not prove that it is the right one. */
  readonly unproved: SslMode | undefined;
}

/** Who counts what a database does. @internal */
export interface DatabaseObserver {
  /** Of the database, for those who watch its statements. */
  readonly name: string;
  /** Seconds, of each statement. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  /** Seconds, of each caller who did not get a connection at once. */
  readonly onWait?: ((seconds: number) => void) | undefined;
  /** What befalls connections to a server. */
  readonly onPoolEvent?: ((kind: PoolEventKind) => void) | undefined;
}

/** Reads address and options, and opens nothing. @internal */
export function prepareDatabase(
  url: string,
  options: DatabaseOptions,
  observer: DatabaseObserver = UNNAMED,
): PreparedDatabase {
  const address = parseDatabaseUrl(url);
  const read = readDatabaseOptions(options, address);
  const { clock } = read;
  const inner =
    address.dialect === 'sqlite'
      ? sqliteDriver(address, read, observer)
      : address.dialect === 'postgres'
        ? postgresDriver(address, shownUrl(url), read, observer)
        : mySqlDriver(address, shownUrl(url), read, observer);
  const driver = new ObservedDriver(inner, { name: observer.name, clock, onWait: observer.onWait });
  return {
    driver,
    database: new Database(driver, { clock, statementTimeoutMs: read.statementTimeoutMs }),
    synchronous: read.synchronous,
    isInMemory: address.dialect === 'sqlite' && address.path === MEMORY,
    unproved: address.dialect === 'sqlite' ? undefined : unprovedMode(address),
  };
}

function unprovedMode({ hosts, tls: { mode } }: PostgresUrl | MySqlUrl): SslMode | undefined {
  return mode === 'verify-full' || hosts.every(({ host }) => isLocalHost(host)) ? undefined : mode;
}

function sqliteDriver({ path }: SqliteUrl, read: ReadOptions, { onStatement }: DatabaseObserver): Driver {
  const {
    int8,
    statementCache,
    readOnly: isReadOnly,
    synchronous,
    busyTimeoutMs,
    readers,
    clock,
    log,
    pool: { acquireTimeoutMs, maxWaiting },
  } = read;
  if (statementCache === 0)
    throw new SvcError('E_DB_OPTION', ['"statementCache" 0 is for poolers between a program and its server']);
  return new SqliteDriver({
    path,
    isReadOnly,
    synchronous,
    busyTimeoutMs,
    readers,
    int8,
    statementCache,
    acquireTimeoutMs,
    maxWaiting,
    clock,
    log,
    onStatement,
  });
}

/** Its modules are loaded when it is opened. */
function postgresDriver(
  address: PostgresUrl,
  shown: string,
  read: ReadOptions,
  observer: DatabaseObserver,
): Driver {
  refuseThoseOfSqlite(read, 'set.lock_timeout');
  const { int8, statementCache, readOnly, synchronous, clock, log, pool } = read;
  const { user, password, database, tls, hasPlainStartup, protocol, target } = address;
  if (readOnly && target === 'read-write')
    throw new SvcError('E_DB_OPTION', [
      '"readOnly" and target_session_attrs=read-write contradict each other',
    ]);
  const parameters = {
    ...address.parameters,
    ...(readOnly ? { default_transaction_read_only: 'on' } : {}),
    ...(synchronous === 'normal' ? { synchronous_commit: 'off' } : {}),
  };
  const session = {
    user,
    password,
    database,
    tls,
    parameters,
    hasPlainStartup,
    protocol,
    mustWrite: target === 'read-write',
    mustBePrimary: target === 'read-write' || target === 'primary',
    statementCache,
    int8,
    clock,
    log,
    onStatement: observer.onStatement,
  };
  return new DeferredDriver('postgres', async () => {
    const { PostgresDriver } = await import('./postgres/postgres.ts');
    return new PostgresDriver({
      address,
      shown,
      pool,
      session,
      clock,
      log,
      onPoolEvent: poolEventReporter(observer),
    });
  });
}

/** As above. */
function mySqlDriver(
  address: MySqlUrl,
  shown: string,
  read: ReadOptions,
  observer: DatabaseObserver,
): Driver {
  refuseThoseOfSqlite(read, 'set.innodb_lock_wait_timeout');
  const { int8, statementCache, readOnly, synchronous, clock, log, pool } = read;
  const {
    dialect,
    user,
    password,
    database,
    tls,
    plugins,
    serverPublicKey,
    allowsKeyRetrieval,
    applicationName,
    parameters,
    isStrict,
    pipelines,
    target,
  } = address;
  if (readOnly && target === 'read-write')
    throw new SvcError('E_DB_OPTION', [
      '"readOnly" and target_session_attrs=read-write contradict each other',
    ]);
  if (synchronous === 'normal')
    throw new SvcError('E_DB_OPTION', [
      '"synchronous" is for SQLite and PostgreSQL: here the server decides for all (innodb_flush_log_at_trx_commit)',
    ]);
  const session = {
    dialect,
    user,
    password,
    database,
    tls,
    plugins,
    serverPublicKey,
    allowsKeyRetrieval,
    applicationName,
    parameters,
    isStrict,
    pipelines,
    isReadOnly: readOnly,
    mustWrite: target === 'read-write',
    statementCache,
    values: { ...address.values, int8 },
    clock,
    log,
    onStatement: observer.onStatement,
  };
  return new DeferredDriver(dialect, async () => {
    const { MySqlDriver } = await import('./mysql/mysql.ts');
    return new MySqlDriver({
      address,
      shown,
      pool,
      session,
      clock,
      log,
      onPoolEvent: poolEventReporter(observer),
    });
  });
}

function refuseThoseOfSqlite({ readers, busyTimeoutMs }: ReadOptions, setting: string): void {
  if (readers > 0)
    throw new SvcError('E_DB_OPTION', ['"readers" are processes for SQLite, and a server has its own']);
  if (busyTimeoutMs !== BUSY_MS)
    throw new SvcError('E_DB_OPTION', [`"busyTimeoutMs" is for SQLite: write ${setting}=… into the address`]);
}

/** Counts what befalls connections, and tells whoever listens. */
function poolEventReporter({
  name,
  onPoolEvent,
}: DatabaseObserver): (kind: PoolEventKind, error?: unknown) => void {
  return (kind, error) => {
    onPoolEvent?.(kind);
    if (poolEvents.hasSubscribers) poolEvents.publish({ kind, database: name, error });
  };
}

/** Every option, checked. */
type ReadOptions = ReturnType<typeof readDatabaseOptions>;

// the address says what the options leave open
function readDatabaseOptions(options: DatabaseOptions, address: DatabaseUrl) {
  const isReadOnly = address.dialect === 'sqlite' && address.isReadOnly;
  const synchronous = address.dialect === 'sqlite' ? address.synchronous : undefined;
  const statementCache =
    address.dialect === 'sqlite'
      ? undefined
      : (address.statementCache ?? (address.dialect === 'postgres' ? undefined : MYSQL_STATEMENTS));
  const { pool, clock, ...read } = readOptions('the database', options, {
    int8: oneOf(['auto', 'bigint', 'string'], 'auto'),
    statementTimeoutMs: int(0, 0, MAX_TIMEOUT_MS),
    statementCache: int(statementCache ?? 256, 0, 10_000),
    pool: given<PoolOptions>('an object', isObject),
    readOnly: bool(isReadOnly),
    synchronous: oneOf(['full', 'normal'], synchronous ?? 'full'),
    busyTimeoutMs: int(BUSY_MS, 0, MAX_TIMEOUT_MS),
    readers: int(0, 0, 64),
    clock: given<Clock>(),
    log: given<Logger>(),
  });
  return { ...read, clock: clock ?? systemClock, pool: readPoolOptions(pool ?? {}) };
}

function readPoolOptions(options: PoolOptions): Omit<ResolvedPoolOptions, 'connectTimeoutMs'> {
  const { max, min, idleSeconds, maxLifetimeSeconds, reset, leakSeconds, acquireTimeoutMs, maxWaiting } =
    readOptions("the database's pool", options, {
      max: int(10, 1, 10_000),
      min: int(0, 0, 10_000),
      idleSeconds: int(60, 1, 86_400),
      maxLifetimeSeconds: int(1_800, 10, 604_800),
      reset: oneOf(['transaction', 'full'], 'transaction'),
      leakSeconds: int(0, 0, 86_400),
      acquireTimeoutMs: int(5_000, 1, MAX_TIMEOUT_MS),
      maxWaiting: int(1_000, 0, 1_000_000),
    });
  if (min > max) throw new SvcError('E_DB_OPTION', [`"pool.min" ${min} is more than "pool.max" ${max}`]);
  return {
    max,
    min,
    idleMs: idleSeconds * 1_000,
    maxLifetimeMs: maxLifetimeSeconds * 1_000,
    reset,
    leakAfterMs: leakSeconds * 1_000,
    acquireTimeoutMs,
    maxWaiting,
    closeMs: CLOSE_MS,
  };
}

/**
 * Opens a database. Close it at the end, or declare it by `await using`.
 *
 *   await using db = await openDatabase('sqlite:./data.db');
 *   await using db = await openDatabase('postgres://app:secret@db.example/shop');
 *
 * @throws SvcError `E_DB_URL`, `E_DB_OPEN`, `E_DB_OPTION`, `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
 */
export async function openDatabase(url: string, options: DatabaseOptions = {}): Promise<Database> {
  const { driver, database } = prepareDatabase(url, options);
  await driver.open();
  return database;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}

/*
 * A driver whose modules are loaded when it is opened: who uses SQLite loads nothing of the others.
 */

const NO_LOAD: DriverLoad = { inUse: 0, idle: 0, waiting: 0 };

/** See {@link Driver}. */
class DeferredDriver implements Driver {
  readonly dialect: Dialect;
  readonly #load: () => Promise<Driver>;
  #driver: Driver | undefined;

  constructor(dialect: Dialect, load: () => Promise<Driver>) {
    this.dialect = dialect;
    this.#load = load;
  }

  get load(): DriverLoad {
    return this.#driver?.load ?? NO_LOAD;
  }

  async open(): Promise<void> {
    const driver = await this.#load();
    await driver.open();
    this.#driver = driver;
  }

  acquire(purpose: Purpose, limit: Limit | undefined): Awaitable<Connection> {
    return this.#opened().acquire(purpose, limit);
  }
  release(connection: Connection): void {
    this.#opened().release(connection);
  }
  stream(sql: string, params: Params, limit: Limit | undefined): AsyncIterable<readonly Row[]> {
    return this.#opened().stream(sql, params, limit);
  }
  ping(limit: Limit | undefined): Awaitable<void> {
    return this.#opened().ping(limit);
  }

  listen(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable> {
    const driver = this.#opened();
    if (driver.listen === undefined) throw new SvcError('E_DB_OPTION', [`${this.dialect} has no LISTEN`]);
    return driver.listen(channel, notified, options);
  }

  async close(): Promise<void> {
    await this.#driver?.close();
  }

  #opened(): Driver {
    if (this.#driver === undefined) throw atCaller(new SvcError('E_DB_CLOSED', ['run a statement']));
    return this.#driver;
  }
}
