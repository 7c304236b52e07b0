/**
 * A SQLite file from the outside: made for its owner only, opened with the settings we promise, and told apart from a file
 * that was put in its place.
 *
 *   journal_mode=WAL     readers do not stop the writer, nor it them
 *   synchronous=FULL     what is committed has reached the disk; `normal` may lose the last commits when the power fails
 *   foreign_keys=ON, trusted_schema=OFF, defensive: SQLite's own advice against files that others have prepared
 *   timeout 0            its busy handler would sleep in the event loop
 *
 * A second file beside it is the lock of a process that migrates a SQLite file statement by statement, where the lock of a
 * transaction would not last. It is an open transaction on that empty file, `data.db-migrating`: the kernel ends it with the
 * process, and a process that was killed holds none.
 */
import { accessSync, closeSync, constants, openSync, statSync, existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../../base/errors.ts';
import { isSqliteError, isBusy } from './errors.ts';
import type { DatabaseSync } from 'node:sqlite';

/** A file of this mode is read and written by its owner; SQLite gives its -wal and -shm the same. */
const OWNER_ONLY = 0o600;

/** How a file is opened. */
interface SqliteFileOptions {
  /** A path, or `:memory:`. */
  readonly path: string;
  readonly isReadOnly: boolean;
}

/** Which file it is, however it is called. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
}

/** Makes the file if it is not there, or says why it cannot be used: SQLite's own reasons are "unable to open", or none at all. */
export function prepareFile({ path, isReadOnly }: SqliteFileOptions): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) refuse(path, 'it is a directory');
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    refuse(path, `there is no directory "${folder}"`);
  if (found === undefined && isReadOnly)
    refuse(path, 'there is no such file, and opened for reading it is not made');
  try {
    if (found === undefined) closeSync(openSync(path, 'a', OWNER_ONLY)); // not "wx": another process may be making it, too
    accessSync(path, isReadOnly ? constants.R_OK : constants.R_OK | constants.W_OK); // SQLite would open it for reading, and fail later
    if (!isReadOnly) accessSync(folder, constants.W_OK);
  } catch (error) {
    refuse(
      path,
      `this user may not ${isReadOnly ? 'read' : 'write'} it or its directory (${(error as NodeJS.ErrnoException).code})`,
      error,
    );
  }
}

/** Opens the file, without settings yet. */
export async function openFile({ path, isReadOnly }: SqliteFileOptions): Promise<DatabaseSync> {
  const { DatabaseSync } = await import('node:sqlite'); // 10 ms that a program without a database need not wait for
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

/** Why a file cannot be used, in words; errors that say so already come back as they are. */
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

/** The file behind a path, to be compared later; undefined when there is none. */
export function identityOf(path: string): FileIdentity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? undefined : { device: found.dev, inode: found.ino };
}

function refuse(path: string, problem: string, cause?: unknown): never {
  throw new SvcError('E_DB_OPEN', [path, problem], cause === undefined ? {} : { cause });
}

const SUFFIX = '-migrating';

/** Takes the lock of a database file until it is disposed of; returns undefined when another process has it. */
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

/** Whether a process has the lock of a database file. Makes no file. */
export async function hasRunner(path: string): Promise<boolean> {
  if (!existsSync(path + SUFFIX)) return false;
  const lock = await takeRunnerLock(path);
  lock?.[Symbol.dispose]();
  return lock === undefined;
}
