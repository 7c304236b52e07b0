/**
 * What keeps processes from migrating one database at the same time.
 *
 *   SQLite       BEGIN IMMEDIATE: the transaction is the lock; without one a lock on a file beside it (sqlite/file.ts)
 *   PostgreSQL   an advisory lock inside the transaction; without one another, of the session
 *   MySQL, MariaDB   GET_LOCK, which is of the connection: statements that change tables commit by themselves, so a script that
 *                has any is noted as begun before it, and is unfinished when it fails after its first statement
 */
import { LockTimeout } from '../errors.ts';
import { createTable, readApplied, type Applied } from './state.ts';
import type { Clock } from '../../base/clock.ts';
import type { Connection, Dialect, Limit } from '../driver.ts';
import type { Script } from './source.ts';

/** Until the end of the transaction; the number is `svc_migr` in ASCII. One for the whole database, whatever schema. */
const POSTGRES_LOCK = 'select pg_advisory_xact_lock(8319946623122237298)';
/** Names of locks are of the whole server, and have 64 characters at most. */
const MYSQL_NAME = "concat('svc_migrations_', left(sha2(database(), 256), 32))";
/** What changes rows only, so that all of it is undone together. */
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

/** Held by the session that runs a migration without a transaction; the number after {@link POSTGRES_LOCK}. */
const POSTGRES_RUNNER = '8319946623122237299';
const POSTGRES_RUNS =
  "select count(*) from pg_locks where locktype = 'advisory' and granted and database = (select oid from pg_database where datname = current_database()) and (classid::bigint << 32) + objid::bigint = ";

/** How often the lock of a SQLite file is asked for: another process that looks at it has it for a moment. */
const RUNNER_TRIES = 50;

/**
 * Takes what {@link isRunning} looks at, where the lock of a transaction would not last: until it is disposed of, or the end of the process.
 * MySQL and MariaDB have GET_LOCK, which lasts.
 *
 * @throws LockTimeout when another process has it
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
  if (path === '') return undefined; // a database in memory has one process
  const { takeRunnerLock } = await import('../sqlite/file.ts');
  for (let tries = 0; tries < RUNNER_TRIES; tries++) {
    const lock = await takeRunnerLock(path);
    if (lock !== undefined) return { [Symbol.asyncDispose]: async () => lock[Symbol.dispose]() };
    await clock.sleep(1);
  }
  throw new LockTimeout('Another process is migrating this file', { sqlstate: '55P03' });
}

/** Gives it back: a pooler's session goes on. */
async function releasePostgresRunner(connection: Connection): Promise<void> {
  try {
    await connection.scalar(`select pg_advisory_unlock(${POSTGRES_RUNNER})`, [], undefined);
  } catch {
    // the session has ended, and its locks with it
  }
}

/** Whether a process is running a migration, by its lock. */
export async function isRunning(connection: Connection, dialect: Dialect): Promise<boolean> {
  if (dialect === 'postgres')
    return Number(await connection.scalar(`${POSTGRES_RUNS}${POSTGRES_RUNNER}`, [], undefined)) > 0;
  if (dialect !== 'sqlite')
    return Number(await connection.scalar(`select is_free_lock(${MYSQL_NAME})`, [], undefined)) === 0;
  const path = await fileOf(connection);
  return path !== '' && (await import('../sqlite/file.ts')).hasRunner(path);
}

/** The file of a SQLite database; empty for one in memory. */
async function fileOf(connection: Connection): Promise<string> {
  const file = await connection.scalar(
    "select file from pragma_database_list where name = 'main'",
    [],
    undefined,
  );
  return String(file ?? '');
}

/** Whether DDL ends the transaction around it. */
export function commitsByItself(dialect: Dialect): boolean {
  return dialect === 'mysql' || dialect === 'mariadb';
}

/** Whether all of a script is undone when one of its statements fails. */
export function isUndoneTogether(dialect: Dialect, { hasTransaction, statements }: Script): boolean {
  return (
    hasTransaction &&
    (!commitsByItself(dialect) || statements.every(({ words: [first = ''] }) => CHANGES_ROWS.has(first)))
  );
}

/** Runs `work` while nobody else is in here, if what was chosen `isStill` to be done; in a transaction if `hasTransaction`. Whether it was. */
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

/** Waits longer for the lock than statements do: another process's migration may take its time. */
async function begin(connection: Connection, limit: Limit): Promise<void> {
  for (;;) {
    try {
      return await connection.begin({ isolation: 'read committed', isReadOnly: false }, limit); // else nothing would be seen of what was committed while it waited
    } catch (error) {
      if (!(error instanceof LockTimeout)) throw error; // the limit ends the next attempt
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
    // the connection has ended, and its locks with it
  }
}
