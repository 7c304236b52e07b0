/**
 * An address and options -> a database.
 */
import { systemClock, type Clock } from '../base/clock.ts';
import { SvcError } from '../base/errors.ts';
import { bool, given, int, isRecord, oneOf, readOptions } from '../base/options.ts';
import { Database } from './database.ts';
import { MAX_TIMEOUT_MS } from './limits.ts';
import { readOwnTypes, type OwnType } from './own-types.ts';
import { poolEvents, type PoolEventKind } from './wire/pool-settings.ts';
import { isLocalHost, type SslMode } from './wire/server-options.ts';
import { SqliteDriver } from './sqlite/sqlite.ts';
import { MEMORY } from './sqlite/connection.ts';
import { parseDatabaseUrl, shownUrl, type DatabaseUrl, type SqliteUrl } from './url.ts';
import type { Logger } from '../observability/log.ts';
import type { Driver, Int8 } from './driver.ts';
import type { ResolvedPoolOptions } from './wire/pool-settings.ts';
import type { MySqlUrl } from './mysql/url.ts';
import type { PostgresUrl } from './postgres/url.ts';

const BUSY_MS = 5_000;
/** Half of what others keep: a server of MySQL has room for 16,382 statements of all its connections. */
const MYSQL_STATEMENTS = 128;
/** How long statements take that are not logged as slow: those of SQLite hold the event loop. */
const SQLITE_SLOW_MS = 50;
const SERVER_SLOW_MS = 1_000;
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
  /** A statement that takes longer is logged as `slow_statement`, 0 ... 2_147_483_647; 0 for none. Default 50 for SQLite, whose statements hold the event loop, and 1_000 for servers. */
  readonly slowStatementMs?: number | undefined;
  /** Prepared statements kept for each connection, 0 ... 10_000; 0, for poolers between, is for servers only. Default 256, and 128 for MySQL and MariaDB. */
  readonly statementCache?: number | undefined;
  /** Whether rows that are read `as` a schema have the column `created_at` for the member `createdAt`. A verb may say otherwise. Default false. */
  readonly snakeCase?: boolean | undefined;
  /**
   * Types by their names in the database: how their values are read, and written. `{ vector: { parse: JSON.parse, encode: JSON.stringify } }`.
   * In SQLite a type is that of a column, as declared. Not together with `readers`.
   */
  readonly types?: Readonly<Record<string, OwnType>> | undefined;
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

/** A database whose address and options are read, and that is not open yet. @internal */
export interface PreparedDatabase {
  readonly synchronous: 'full' | 'normal';
  readonly isInMemory: boolean;
  /** How a server that is another machine is reached, if it need not prove that it is the right one. */
  readonly unproved: SslMode | undefined;
  /** Loads the modules of its engine, and opens it. Once. */
  open(): Promise<OpenedDatabase>;
}

/** A database and the driver under it. @internal */
interface OpenedDatabase {
  readonly driver: Driver;
  readonly database: Database;
}

/** Who counts what a database does. @internal */
interface DatabaseObserver {
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
  const { clock, statementTimeoutMs, snakeCase, types, synchronous } = read;
  const conversion = { snakeCase, types };
  const { name, onWait } = observer;
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
        database: new Database(driver, { clock, statementTimeoutMs, conversion, name, onWait }),
      };
    },
  };
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
    throw new SvcError('E_DB_OPTION', ['"statementCache" 0 is for poolers between a program and its server']);
  if (read.types !== undefined && read.readers > 0)
    throw new SvcError('E_DB_OPTION', [
      '"types" are functions, which "readers" in other processes cannot have',
    ]);
  const { acquireTimeoutMs, maxWaiting } = pool;
  const driver = new SqliteDriver({ ...read, path, isReadOnly, acquireTimeoutMs, maxWaiting, onStatement });
  return () => driver;
}

/** Modules of an engine are loaded when it is opened. */
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
    throw new SvcError('E_DB_OPTION', ['"readers" are processes for SQLite, and a server has its own']);
  if (busyTimeoutMs !== BUSY_MS)
    throw new SvcError('E_DB_OPTION', [
      `"busyTimeoutMs" is for SQLite: write ${isPostgres ? 'set.lock_timeout' : 'set.innodb_lock_wait_timeout'}=… into the address`,
    ]);
  if (readOnly && mustWrite)
    throw new SvcError('E_DB_OPTION', [
      '"readOnly" and target_session_attrs=read-write contradict each other',
    ]);
  if (synchronous === 'normal' && !isPostgres)
    throw new SvcError('E_DB_OPTION', [
      '"synchronous" is for SQLite and PostgreSQL: here the server decides for all (innodb_flush_log_at_trx_commit)',
    ]);
  const common = { ...read, mustWrite, onStatement: observer.onStatement };
  const deps = { address, shown, pool, clock, log, onPoolEvent: poolEventReporter(observer) };
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
  return async () => new (await import('./postgres/postgres.ts')).PostgresDriver({ ...deps, session });
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
  });
  return {
    ...read,
    clock: clock ?? systemClock,
    types: types === undefined ? undefined : readOwnTypes(types, address.dialect),
    pool: readPoolOptions(pool ?? {}),
  };
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
  return (await prepareDatabase(url, options).open()).database;
}

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null;
}
