/**
 * Prepares and opens a SQLite file: creates it for its owner only, opens it with safe settings, and detects a
 * file that replaced it.
 *
 *   journal_mode=WAL     readers and the writer do not block each other
 *   synchronous=FULL     a commit has reached the disk; `normal` may lose the last commits when the power fails
 *   foreign_keys=ON, trusted_schema=OFF, defensive: SQLite's advice against malicious files
 *   timeout 0            SQLite's busy handler would block the event loop
 *
 * Lock of a process that migrates a SQLite file without a transaction. It is an open transaction on an empty
 * file next to the database, `data.db-migrating`. The kernel releases it when the process ends, even if it is
 * killed.
 */
import { accessSync, closeSync, constants, openSync, statSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../../base/errors.ts';
import { isSqliteError, isBusy } from './errors.ts';
import type { DatabaseSync } from 'node:sqlite';

/** Mode of a new file: only its owner reads and writes it. SQLite gives -wal and -shm the same mode. */
const OWNER_ONLY = 0o600;

/** Options for opening a file. */
interface SqliteFileOptions {
  /** File path, or `:memory:`. */
  readonly path: string;
  readonly isReadOnly: boolean;
}

/** Identity of a file, whatever its path. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
}

/**
 * Makes the file if it does not exist. Throws with the reason when it cannot be used, because SQLite reports
 * only "unable to open", or nothing.
 */
export function prepareFile({ path, isReadOnly }: SqliteFileOptions): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) refuse(path, 'the path is a directory');
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    refuse(path, `there is no directory "${folder}"`);
  if (found === undefined && isReadOnly)
    refuse(path, 'the file does not exist, and readOnly does not create it');
  try {
    // not "wx", because another process may create it at the same moment SQLite would open the file for
    // reading, and fail at the first write
    if (found === undefined) closeSync(openSync(path, 'a', OWNER_ONLY));
    accessSync(path, isReadOnly ? constants.R_OK : constants.R_OK | constants.W_OK);
    if (!isReadOnly) accessSync(folder, constants.W_OK);
  } catch (error) {
    refuse(
      path,
      `this user may not ${isReadOnly ? 'read' : 'write'} the file or its directory (${(error as NodeJS.ErrnoException).code})`,
      error,
    );
  }
}

/** Opens the file, without applying settings. */
export async function openFile({ path, isReadOnly }: SqliteFileOptions): Promise<DatabaseSync> {
  // loaded only when needed: loading takes 10 ms
  const { DatabaseSync } = await import('node:sqlite');
  try {
    const db = new DatabaseSync(path, {
      readOnly: isReadOnly,
      timeout: 0,
      enableForeignKeyConstraints: true,
      enableDoubleQuotedStringLiterals: false,
      allowExtension: false,
    });
    db.enableDefensive(true);
    return db;
  } catch (error) {
    throw openIssue(path, error);
  }
}

/**
 * Returns an error with the reason why a file cannot be used. An error that already has one is returned
 * unchanged.
 */
export function openIssue(path: string, error: unknown): unknown {
  const cause = error instanceof Error && 'errno' in error ? error.errno : undefined;
  const code = isSqliteError(error) ? error.errcode : typeof cause === 'number' ? cause : undefined;
  if (code === undefined) return error;
  const problem =
    (code & 0xff) === 26
      ? 'it is no SQLite database'
      : (code & 0xff) === 11
        ? 'it is damaged'
        : `SQLite says: ${(error as Error).message}`;
  return new SvcError('E_DB_OPEN', [path, problem], { cause: error });
}

/** Returns the identity of the file at a path, to compare it later; undefined when there is none. */
export function identityOf(path: string): FileIdentity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? undefined : { device: found.dev, inode: found.ino };
}

function refuse(path: string, problem: string, cause?: unknown): never {
  throw new SvcError('E_DB_OPEN', [path, problem], cause === undefined ? {} : { cause });
}

const SUFFIX = '-migrating';

/**
 * Takes the lock of a database file until it is disposed of. Returns undefined when another process has it.
 */
export async function takeRunnerLock(path: string): Promise<Disposable | undefined> {
  const file = { path: path + SUFFIX, isReadOnly: false };
  prepareFile(file);
  const lock = await openFile(file);
  try {
    lock.exec('begin exclusive');
    return { [Symbol.dispose]: () => lock.close() };
  } catch (error) {
    lock.close();
    if (isSqliteError(error) && isBusy(error)) return undefined;
    throw error;
  }
}

/** Whether a process has the lock of a database file. Does not create the lock file. */
export async function hasRunner(path: string): Promise<boolean> {
  if (!existsSync(path + SUFFIX)) return false;
  const lock = await takeRunnerLock(path);
  lock?.[Symbol.dispose]();
  return lock === undefined;
}
