/**
 * Locks that keep several processes from migrating one database at the same time.
 *
 * In SQLite, a transaction that begins with BEGIN IMMEDIATE is itself the lock; a migration without a
 * transaction locks a file beside the database (sqlite/file.ts). In PostgreSQL, the lock is an advisory lock
 * of the transaction, or of the session for a migration without a transaction. In MySQL and MariaDB, it is
 * GET_LOCK of the connection.
 *
 * In MySQL and MariaDB, statements that change tables commit implicitly. A script with such statements is
 * recorded as begun before it runs. If the script fails after its first statement, its migration stays
 * unfinished.
 */
import { LockTimeout } from '../errors.ts';
import { createTable, readApplied, type Applied } from './state.ts';
import type { Clock } from '../../base/clock.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Script } from './source.ts';

/**
 * Takes an advisory lock for the whole database until the transaction ends. The lock does not depend on the
 * schema. The number is `svc_migr` in ASCII.
 */
const POSTGRES_LOCK = 'select pg_advisory_xact_lock(8319946623122237298)';
/** SQL for the name of the lock. Lock names apply to the whole server and have at most 64 characters. */
const MYSQL_NAME = "concat('svc_migrations_', left(sha2(database(), 256), 32))";
/** First words of statements that change only rows, so a rollback undoes all of them. */
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

/**
 * Number of the advisory lock that a session holds while it runs a migration without a transaction. It is one
 * more than the number of {@link POSTGRES_LOCK}.
 */
const POSTGRES_RUNNER = '8319946623122237299';
const POSTGRES_RUNS =
  "select count(*) from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) and (classid::bigint << 32) + objid::bigint = ";

/**
 * Number of attempts to lock a SQLite file. One attempt may fail because another process checks whether the
 * file is locked, and holds the lock itself for that moment.
 */
const RUNNER_TRIES = 50;

/**
 * Takes the lock that {@link isRunning} checks, for a migration without a transaction. The process holds it
 * until it disposes of the result or ends. On MySQL and MariaDB, it takes no lock, because the lock that
 * locked() takes already lasts that long.
 *
 * @throws LockTimeout when another process holds the lock
 */
export async function beginRunning(
  connection: Connection,
  dialect: Dialect,
  clock: Clock,
): Promise<AsyncDisposable | undefined> {
  if (dialect === 'postgres') {
    await connection.scalar(`select pg_try_advisory_lock(${POSTGRES_RUNNER})`, [], undefined);
    return { [Symbol.asyncDispose]: () => releasePostgresRunner(connection) };
  }
  const path = dialect === 'sqlite' ? await fileOf(connection) : '';
  if (path === '') return undefined; // a database in memory belongs to one process, so it needs no lock
  const { takeRunnerLock } = await import('../sqlite/file.ts');
  for (let tries = 0; tries < RUNNER_TRIES; tries++) {
    const lock = await takeRunnerLock(path);
    if (lock !== undefined) return { [Symbol.asyncDispose]: async () => lock[Symbol.dispose]() };
    await clock.sleep(1);
  }
  throw new LockTimeout('Another process is migrating this database file', { sqlstate: '55P03' });
}

/** Releases the lock explicitly, because a connection pooler may keep the session open. */
async function releasePostgresRunner(connection: Connection): Promise<void> {
  try {
    await connection.scalar(`select pg_advisory_unlock(${POSTGRES_RUNNER})`, [], undefined);
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
  const file = await connection.scalar(
    "select file from pragma_database_list where name = 'main'",
    [],
    undefined,
  );
  return String(file ?? '');
}

/** Returns whether statements that change tables commit the transaction around them. */
export function commitsByItself(dialect: Dialect): boolean {
  return dialect === 'mysql' || dialect === 'mariadb';
}

/** Returns whether a rollback undoes the whole script when one of its statements fails. */
export function isUndoneTogether(dialect: Dialect, { hasTransaction, statements }: Script): boolean {
  return (
    hasTransaction &&
    (!commitsByItself(dialect) || statements.every(({ words: [first = ''] }) => CHANGES_ROWS.has(first)))
  );
}

/**
 * Runs `work` while it holds the migration lock, in a transaction if `hasTransaction` is true. It first reads
 * the applied migrations under the lock, and passes them to `isStill`. If `isStill` returns false, `work`
 * does not run. Returns whether `work` ran.
 */
export async function locked(
  connection: Connection,
  dialect: Dialect,
  limit: Limit,
  hasTransaction: boolean,
  isStill: (rows: readonly Applied[]) => boolean,
  work: () => Promise<void>,
): Promise<boolean> {
  if (!commitsByItself(dialect))
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
    await releaseLock(connection);
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

/**
 * Begins a transaction. After the database's lock timeout, it tries again until `limit` is reached, because a
 * migration of another process may take longer.
 */
async function begin(connection: Connection, limit: Limit): Promise<void> {
  for (;;) {
    try {
      // "read committed", so that the transaction also sees rows that were committed while it waited
      return await connection.begin({ isolation: 'read committed', isReadOnly: false }, limit);
    } catch (error) {
      // try again after a lock timeout; when the limit is reached, the next attempt throws
      if (!(error instanceof LockTimeout)) throw error;
    }
  }
}

async function takeLock(connection: Connection, limit: Limit): Promise<void> {
  const seconds = Math.ceil(limit.timeoutMs / 1_000);
  if (Number(await connection.scalar(`select get_lock(${MYSQL_NAME}, ?)`, [seconds], limit)) !== 1)
    throw new LockTimeout(`Another process has been migrating this database for ${seconds} s`, {
      sqlstate: '55P03',
    });
}

async function releaseLock(connection: Connection): Promise<void> {
  try {
    await connection.scalar(`select release_lock(${MYSQL_NAME})`, [], undefined);
  } catch {
    // ignore the error: the connection has ended, so the server has released its locks
  }
}
