/**
 * Counts the iterations of PBKDF2. Import this module before the module that hashes passwords.
 */
import crypto from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';

/** Iterations of each hash, by the thread that computes it. */
export interface CountedHashes {
  readonly inThreadPool: readonly number[];
  readonly inEventLoop: readonly number[];
}

const started = { inThreadPool: [] as number[], inEventLoop: [] as number[] };
const { pbkdf2, pbkdf2Sync } = crypto;
crypto.pbkdf2 = (password, salt, iterations, ...rest) => {
  started.inThreadPool.push(iterations);
  pbkdf2(password, salt, iterations, ...rest);
};
crypto.pbkdf2Sync = (password, salt, iterations, ...rest) => {
  started.inEventLoop.push(iterations);
  return pbkdf2Sync(password, salt, iterations, ...rest);
};
syncBuiltinESMExports();

/** Returns the hashes that a call computes. */
export async function hashesOf(call: () => Promise<unknown>): Promise<CountedHashes> {
  const before = [started.inThreadPool.length, started.inEventLoop.length] as const;
  await call();
  return {
    inThreadPool: started.inThreadPool.slice(before[0]),
    inEventLoop: started.inEventLoop.slice(before[1]),
  };
}
