/**
 * How a pool is set up, and which of its failures may pass.
 */
import { ConnectionLost, DatabaseError, QueryTimeout } from './db-errors.ts';
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { PoolEventKind } from './pool-event.ts';
import type { Connect, PooledConnection } from './pooled-connection.ts';

/** How many connections there are, and for how long. */
export interface PoolSettings {
  readonly max: number;
  readonly min: number;
  readonly idleMs: number;
  readonly maxLifetimeMs: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
  /** For one connection to be made, names, TLS and log-in included. */
  readonly connectTimeoutMs: number;
  /** For what is under way when the pool is closed. */
  readonly closeMs: number;
  /** What is done to a connection before somebody else gets it: nothing but end its transaction, or undo all its settings. */
  readonly reset: 'transaction' | 'full';
  /** Loans that take longer are reported with their stack; 0 for none, which costs less. */
  readonly leakAfterMs: number;
}

/** What a pool is made from. */
export interface PoolSetup<C extends PooledConnection> extends PoolSettings {
  readonly connect: Connect<C>;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
  /** 0 … 1, as Math.random. */
  readonly random?: (() => number) | undefined;
}

/** Whether the same attempt may succeed later: not where a password, a name or an option is wrong. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof QueryTimeout) return true;
  return error instanceof DatabaseError && /^(?:08|53|57|58)/.test(error.sqlstate ?? '');
}
