/**
 * Lock of a process that migrates a SQLite file without a transaction. It is an open transaction on an empty
 * file next to the database, `data.db-migrating`. The kernel releases it when the process ends, even if it is
 * killed.
 */
import { existsSync } from 'node:fs';
import { isBusy, isSqliteError } from './errors.ts';
import { openFile, prepareFile } from './file.ts';

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
