/** Options of databases for tests that measure no time. */
import type { DatabaseOptions } from '../../src/db/index.ts';

/** Long for a busy machine, and below the time limit of a test, so that a lock or a leak is named. */
const PATIENCE_MS = 120_000;

/**
 * Returns options with which a caller waits as long as a test takes: in SQLite for locks, in a pool for a
 * connection. Limits in `options` take precedence.
 */
export function patient(url: string, options: DatabaseOptions = {}): DatabaseOptions {
  return {
    ...(url.startsWith('sqlite:') ? { busyTimeoutMs: PATIENCE_MS } : {}),
    ...options,
    pool: { acquireTimeoutMs: PATIENCE_MS, maxWaiting: 100_000, ...options.pool },
  };
}
