/**
 * Creates and opens a SQLite file: private to its owner, with fixed settings. Detects when another file
 * replaces it.
 *
 *   journal_mode=WAL     readers and the writer do not block each other
 *   synchronous=FULL     committed data has reached the disk; `normal` may lose the last commits on a power failure
 *   foreign_keys=ON, trusted_schema=OFF, defensive: SQLite's advice against manipulated files
 *   timeout 0            SQLite's busy handler would block the event loop
 */
import { accessSync, closeSync, constants, openSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { SvcError } from '../../base/errors.ts';
import { isSqliteError } from './errors.ts';
import type { DatabaseSync } from 'node:sqlite';

/** File mode: only the owner can read and write. SQLite gives the -wal and -shm files the same mode. */
const OWNER_ONLY = 0o600;

/** Options for opening a file. */
interface SqliteFileOptions {
  /** A path, or `:memory:`. */
  readonly path: string;
  readonly isReadOnly: boolean;
}

/** Identity of the file, independent of its name. */
export interface FileIdentity {
  readonly device: number;
  readonly inode: number;
}

/**
 * Creates the file if it is missing, or throws the reason why it cannot be used. SQLite itself only reports
 * "unable to open", or no reason.
 */
export function prepareFile({ path, isReadOnly }: SqliteFileOptions): void {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found?.isDirectory() === true) refuse(path, 'it is a directory');
  const folder = dirname(path);
  if (statSync(folder, { throwIfNoEntry: false })?.isDirectory() !== true)
    refuse(path, `the directory "${folder}" does not exist`);
  if (found === undefined && isReadOnly)
    refuse(path, 'the file does not exist, and opening it for reading does not create it');
  try {
    // without "wx", because another process may create it concurrently
    if (found === undefined) closeSync(openSync(path, 'a', OWNER_ONLY));
    // SQLite would open the file for reading and fail later
    accessSync(path, isReadOnly ? constants.R_OK : constants.R_OK | constants.W_OK);
    if (!isReadOnly) accessSync(folder, constants.W_OK);
  } catch (error) {
    refuse(
      path,
      `this user may not ${isReadOnly ? 'read' : 'write'} it or its directory (${(error as NodeJS.ErrnoException).code})`,
      error,
    );
  }
}

/** Opens the file without changing settings. */
export async function openFile({ path, isReadOnly }: SqliteFileOptions): Promise<DatabaseSync> {
  const { DatabaseSync } = await import('node:sqlite'); // loaded on demand, because it takes 10 ms
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

/** Returns the reason why a file cannot be used, as an error. Such an error is returned unchanged. */
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

/** Returns the identity of the file at a path; undefined when there is none. */
export function identityOf(path: string): FileIdentity | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? undefined : { device: found.dev, inode: found.ino };
}

function refuse(path: string, problem: string, cause?: unknown): never {
  throw new SvcError('E_DB_OPEN', [path, problem], cause === undefined ? {} : { cause });
}
