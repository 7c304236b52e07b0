/**
 * Prepares and opens a SQLite file. Creates it with access only for its owner, opens it with safe settings,
 * and detects when another file has replaced it. Settings of each connection:
 *   journal_mode=WAL     readers and the writer do not block each other
 *   synchronous=FULL     a commit has reached the disk; `normal` may lose the last commits when the power fails
 *   foreign_keys=ON, trusted_schema=OFF, defensive: SQLite's advice against malicious files
 *   timeout=0            no waiting inside SQLite, whose busy handler would block the event loop
 *
 * This module also contains the lock for migrations without a transaction. The lock is an open transaction on
 * an empty file next to the database, `data.db-migrating`. The kernel releases the lock when the process
 * ends, even if the process is killed.
 */
import { accessSync, closeSync, constants, openSync, statSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError, errorCode } from '../../base/errors.ts';
import { isSqliteError, isBusy } from './errors.ts';
import type { DatabaseSync } from 'node:sqlite';

/**
 * Mode of a new file, which only its owner can read and write. SQLite gives the -wal and -shm files the same
 * mode.
 */
const OWNER_ONLY = 0o600;

interface SqliteFileOptions {
  /** Path of the file, or `:memory:`. */
  readonly path: string;
  readonly isReadOnly: boolean;
}

/** Identity of a file. It stays the same when the file is renamed. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
}

/**
 * Creates the file if it does not exist. If the file cannot be used, throws an error with the reason, because
 * SQLite's own message is often only "unable to open".
 */
export function prepareFile({ path, isReadOnly }: SqliteFileOptions): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) refuse(path, 'the path is a directory');
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    refuse(path, `the directory "${folder}" does not exist`);
  if (found === undefined && isReadOnly)
    refuse(path, 'the file does not exist, and the option "readOnly" prevents its creation');
  try {
    // not the flag "wx", because another process may create the file at the same moment
    if (found === undefined) closeSync(openSync(path, 'a', OWNER_ONLY));
    // without this check, SQLite would open a write-protected file for reading, and fail at the first write
    accessSync(path, isReadOnly ? constants.R_OK : constants.R_OK | constants.W_OK);
    if (!isReadOnly) accessSync(folder, constants.W_OK);
  } catch (error) {
    refuse(
      path,
      `the user of the process may not ${isReadOnly ? 'read' : 'write'} the file or its directory (${errorCode(error)})`,
      error,
    );
  }
}

/** Opens the file. The caller applies settings such as `journal_mode`. */
export async function openFile({ path, isReadOnly }: SqliteFileOptions): Promise<DatabaseSync> {
  // load this module only when it is needed, because loading takes 10 ms
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

/** Converts an error of SQLite to `E_DB_OPEN` with a reason. Returns any other error unchanged. */
export function openIssue(path: string, error: unknown): unknown {
  const cause = error instanceof Error && 'errno' in error ? error.errno : undefined;
  const code = isSqliteError(error) ? error.errcode : typeof cause === 'number' ? cause : undefined;
  if (code === undefined) return error;
  const problem =
    (code & 0xff) === 26
      ? 'the file is not a SQLite database'
      : (code & 0xff) === 11
        ? 'the file is damaged'
        : `SQLite reports: ${(error as Error).message}`;
  return new SvcError('E_DB_OPEN', [path, problem], { cause: error });
}

export function identityOf(path: string): FileIdentity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? undefined : { device: found.dev, inode: found.ino };
}

function refuse(path: string, problem: string, cause?: unknown): never {
  throw new SvcError('E_DB_OPEN', [path, problem], cause === undefined ? {} : { cause });
}

const SUFFIX = '-migrating';

/**
 * Takes the migration lock of a database file. The lock lasts until the result is disposed of. Returns
 * undefined when another process holds the lock.
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

/** Returns whether a process holds the migration lock of a database file. Does not create the lock file. */
export async function hasRunner(path: string): Promise<boolean> {
  if (!existsSync(path + SUFFIX)) return false;
  const lock = await takeRunnerLock(path);
  lock?.[Symbol.dispose]();
  return lock === undefined;
}
