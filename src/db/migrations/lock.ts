/**
 * Locks that keep several processes from migrating one database at the same time.
 *
 * In SQLite, a transaction that begins with BEGIN IMMEDIATE is itself the lock. In PostgreSQL, each
 * transaction takes an advisory lock. In MySQL and MariaDB, the connection calls GET_LOCK.
 *
 * A migration without a transaction needs a lock that lasts longer. In SQLite, it locks a file beside the
 * database (sqlite/file.ts). In PostgreSQL, it takes an advisory lock of the session.
 *
 * In MySQL and MariaDB, statements that change tables commit implicitly. A script with such statements is
 * recorded as begun before it runs. If any statement but the first fails, the migration stays recorded as
 * begun. So does a first statement that may leave changes although it fails ({@link remainsOf}).
 */
import { isMySql } from '../dialects.ts';
import { LockTimeout } from '../errors.ts';
import { tokensOf } from '../lexer.ts';
import { createTable, readApplied, type Applied } from './state.ts';
import type { Clock } from '../../base/clock.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Script } from './source.ts';

/** Advisory lock of the database, until the transaction ends: `svc_migr` in ASCII. */
const POSTGRES_LOCK = 'select pg_advisory_xact_lock(8319946623122237298)';
/** Name of the lock. All databases of a server share such names, of at most 64 characters. */
const MYSQL_NAME = "concat('svc_migrations_', left(sha2(database(), 256), 32))";
/** First words of statements that a rollback can undo. Statements that change tables commit implicitly. */
const CHANGES_ROWS: ReadonlySet<string> = new Set([
  'insert',
  'update',
  'delete',
  'replace',
  'select',
  'with',
  'set',
  'do',
]);

/** Statements that may leave changes when they fail outside of a transaction. */
interface Leftover {
  /** Matches the words and commas of the statement, in lower case, without quoted text and comments. */
  readonly statement: RegExp;
  /** Objects or rows that may remain, and how to find them. */
  readonly remains: string;
}

const OF_PROCEDURE =
  'the procedure may have committed changes before it failed: compare the rows with what it writes';
const POSTGRES_LEFTOVERS: readonly Leftover[] = [
  {
    statement: /^(?:create|drop|reindex)\b.* concurrently\b/,
    remains:
      'an invalid index may remain, which slows writes down and serves no query: look for it with "select indexrelid::regclass from pg_index where not indisvalid", and remove it with "drop index concurrently if exists …"',
  },
  {
    statement: /^alter table\b.* detach partition .*\bconcurrently\b/,
    remains:
      'the partition may be half detached (pg_inherits.inhdetachpending): complete it with "alter table … detach partition … finalize"',
  },
  { statement: /^(?:call|do)\b/, remains: OF_PROCEDURE },
];
const MYSQL_LEFTOVERS: readonly Leftover[] = [
  { statement: /^(?:call|begin)\b/, remains: OF_PROCEDURE },
  {
    statement: /^drop\b(?:.*,| (?:database|schema)\b)/,
    remains: 'some of the objects may be gone: compare the tables with the list of the statement',
  },
];

/** Number of the advisory lock that a session holds while it runs a migration without a transaction. */
const POSTGRES_RUNNER = '8319946623122237299';
const POSTGRES_RUNS =
  "select count(*) from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) and (classid::bigint << 32) + objid::bigint = ";

/**
 * Maximum number of attempts to take the lock of a runner, a millisecond apart. Another process may hold the
 * lock for a moment, while it checks the lock or finishes its migration.
 */
const RUNNER_TRIES = 50;

/**
 * Takes the lock that {@link isRunning} checks, for a migration without a transaction. The lock lasts until
 * the result is disposed of or the process ends. Takes no lock in MySQL and MariaDB, where locked() already
 * holds one.
 */
export async function beginRunning(
  connection: Connection,
  dialect: Dialect,
  clock: Clock,
): Promise<AsyncDisposable | undefined> {
  const path = dialect === 'sqlite' ? await fileOf(connection) : '';
  // MySQL and MariaDB already hold a lock; a SQLite database in memory has only one process
  if (path === '' && dialect !== 'postgres') return undefined;
  for (let tries = 0; tries < RUNNER_TRIES; tries++) {
    const lock = path === '' ? await takePostgresRunner(connection) : await takeFileRunner(path);
    if (lock !== undefined) return lock;
    await clock.sleep(1);
  }
  // no migration runs, because locked() has checked that: a connection pooler keeps a session with the lock
  if (dialect === 'postgres') return undefined;
  throw new LockTimeout(
    'Another process is migrating the database file: try again when that process has finished',
  );
}

async function takeFileRunner(path: string): Promise<AsyncDisposable | undefined> {
  const lock = await (await import('../sqlite/file.ts')).takeRunnerLock(path);
  return lock === undefined ? undefined : { [Symbol.asyncDispose]: async () => lock[Symbol.dispose]() };
}

async function takePostgresRunner(connection: Connection): Promise<AsyncDisposable | undefined> {
  const isTaken = await connection.scalar(`select pg_try_advisory_lock(${POSTGRES_RUNNER})`, [], undefined);
  // the lock must be released, because a connection pooler may keep the session open
  const unlock = `select pg_advisory_unlock(${POSTGRES_RUNNER})`;
  return isTaken === true ? { [Symbol.asyncDispose]: () => release(connection, unlock) } : undefined;
}

async function release(connection: Connection, unlock: string): Promise<void> {
  try {
    await connection.scalar(unlock, [], undefined);
  } catch {
    // ignore the error: the session has ended, so the server has released its locks
  }
}

/** Returns whether a process holds the lock of a running migration. */
export async function isRunning(connection: Connection, dialect: Dialect): Promise<boolean> {
  if (dialect === 'postgres')
    return Number(await connection.scalar(`${POSTGRES_RUNS}${POSTGRES_RUNNER}`, [], undefined)) > 0;
  if (dialect !== 'sqlite')
    return Number(await connection.scalar(`select is_free_lock(${MYSQL_NAME})`, [], undefined)) === 0;
  const path = await fileOf(connection);
  return path !== '' && (await import('../sqlite/file.ts')).hasRunner(path);
}

async function fileOf(connection: Connection): Promise<string> {
  const text = "select file from pragma_database_list where name = 'main'";
  return String((await connection.scalar(text, [], undefined)) ?? '');
}

/** Returns whether a rollback undoes the whole script if one of its statements fails. */
export function isUndoneTogether(dialect: Dialect, { hasTransaction, statements }: Script): boolean {
  return (
    hasTransaction &&
    (!isMySql(dialect) || statements.every(({ words: [first = ''] }) => CHANGES_ROWS.has(first)))
  );
}

/**
 * Returns what may remain in the database when a single statement fails outside of a transaction. Returns
 * undefined for a statement that the engine undoes as a whole.
 */
export function remainsOf(dialect: Dialect, text: string): string | undefined {
  if (dialect === 'sqlite') return undefined;
  const words = tokensOf(text, dialect)
    .filter(({ kind, text }) => kind === 'word' || text === ',')
    .map(({ text }) => text.toLowerCase())
    .join(' ');
  const leftovers = isMySql(dialect) ? MYSQL_LEFTOVERS : POSTGRES_LEFTOVERS;
  return leftovers.find(({ statement }) => statement.test(words))?.remains;
}

/**
 * Takes the migration lock, and passes the applied migrations to `isStill`. If `isStill` returns true, runs
 * `work`. Returns whether `work` ran. `work` runs in a transaction, except in MySQL and MariaDB if
 * `hasTransaction` is false.
 */
export async function locked(
  connection: Connection,
  dialect: Dialect,
  limit: Limit,
  hasTransaction: boolean,
  isStill: (rows: readonly Applied[]) => boolean,
  work: () => Promise<void>,
): Promise<boolean> {
  if (!isMySql(dialect))
    return inTransaction(connection, limit, async () => {
      if (dialect === 'postgres') await connection.execute(POSTGRES_LOCK, [], limit);
      await connection.script(createTable(dialect), undefined);
      return isWanted(connection, dialect, isStill, work);
    });
  await takeLock(connection, limit);
  try {
    await connection.script(createTable(dialect), undefined);
    const checked = (): Promise<boolean> => isWanted(connection, dialect, isStill, work);
    return hasTransaction ? await inTransaction(connection, limit, checked) : await checked();
  } finally {
    await release(connection, `select release_lock(${MYSQL_NAME})`);
  }
}

async function isWanted(
  connection: Connection,
  dialect: Dialect,
  isStill: (rows: readonly Applied[]) => boolean,
  work: () => Promise<void>,
): Promise<boolean> {
  const isSo = isStill(await readApplied(connection, dialect));
  if (isSo) await work();
  return isSo;
}

async function inTransaction<T>(connection: Connection, limit: Limit, work: () => Promise<T>): Promise<T> {
  await begin(connection, limit);
  try {
    const result = await work();
    await connection.commit();
    return result;
  } catch (error) {
    await connection.rollback();
    throw error;
  }
}

/** Begins a transaction. Waits for a lock until `limit`: a migration of another process may take long. */
async function begin(connection: Connection, limit: Limit): Promise<void> {
  for (;;) {
    try {
      // "read committed", so that the transaction also sees rows that were committed while it waited for the
      // lock
      return await connection.begin({ isolation: 'read committed', isReadOnly: false }, limit);
    } catch (error) {
      // after a lock timeout, try again; at the time limit, begin() of the connection throws another error
      if (!(error instanceof LockTimeout)) throw error;
    }
  }
}

async function takeLock(connection: Connection, limit: Limit): Promise<void> {
  const seconds = Math.ceil(limit.timeoutMs / 1_000);
  if (Number(await connection.scalar(`select get_lock(${MYSQL_NAME}, ?)`, [seconds], limit)) !== 1)
    throw new LockTimeout(
      `Another process has been migrating the database for ${seconds} s: try again when that process has finished`,
    );
}
