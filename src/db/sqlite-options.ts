/**
 * How a SQLite database is opened, read and checked by open.ts.
 */
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Int8 } from './driver.ts';

/** Where the data is kept in memory. */
export const MEMORY = ':memory:';

/** What a connection needs beside the open file. */
export interface SqliteConnectionOptions {
  readonly clock: Clock;
  /** Without one no statement is timed. */
  readonly log: Logger | undefined;
  /** Told in seconds how long each statement has run that is timed. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  readonly busyTimeoutMs: number;
  readonly statementCache: number;
  readonly int8: Int8;
}

/** How a SQLite database is opened; all of it checked by `openDatabase`. */
export interface SqliteOptions extends SqliteConnectionOptions {
  /** A path, or {@link MEMORY}. */
  readonly path: string;
  readonly isReadOnly: boolean;
  readonly synchronous: 'full' | 'normal';
  /** Processes that read; 0 for none. */
  readonly readers: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
}
