/**
 * Lock of a process that migrates a SQLite file statement by statement, where a transaction's lock would end
 * too early. The lock is an open transaction on an empty file, `data.db-migrating`. The kernel releases it
 * when the process ends or is killed.
 */
import { existsSync } from 'node:fs';
import { isBusy, isSqliteError } from './errors.ts';
import { openFile, prepareFile } from './file.ts';

const SUFFIX = '-migrating';

/**
 * Acquires the lock of a database file. Disposing the result releases it. Returns undefined when another
 * process holds it.
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

/** Returns whether a process holds the lock of a database file. Creates no file. */
export async function hasRunner(path: string): Promise<boolean> {
  if (!existsSync(path + SUFFIX)) return false;
  const lock = await takeRunnerLock(path);
  lock?.[Symbol.dispose]();
  return lock === undefined;
}
