/**
 * Types of a connection pool: its options, its events, and its connections.
 */
import { channel, type Channel } from 'node:diagnostics_channel';
import { ConnectionLost, DatabaseError, QueryTimeout } from '../errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Connection, Limit } from '../driver.ts';

export interface ResolvedPoolOptions {
  readonly max: number;
  readonly min: number;
  readonly idleMs: number;
  readonly maxLifetimeMs: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
  /** Maximum duration in milliseconds of one attempt to connect, including name resolution, TLS and login. */
  readonly connectTimeoutMs: number;
  /** Milliseconds that close() waits for pending work. */
  readonly closeMs: number;
  /**
   * Cleanup of a connection before the next caller gets it: `transaction` rolls back an open transaction, and
   * `full` also resets all session state.
   */
  readonly reset: 'transaction' | 'full';
  /**
   * Milliseconds after which a connection that is still in use is logged, with the stack of its caller; 0
   * disables the log.
   */
  readonly leakAfterMs: number;
}

/** Options of a connection pool, and the objects that it uses. */
export interface PoolDeps<C extends PooledConnection> extends ResolvedPoolOptions {
  readonly connect: Connect<C>;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
  /** Returns a number from 0 to 1, as Math.random does. */
  readonly random?: (() => number) | undefined;
}

/**
 * Returns whether the error of an attempt to connect is temporary. A wrong password or database name, for
 * example, is permanent.
 */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof QueryTimeout) return true;
  return error instanceof DatabaseError && /^(?:08|53|57|58)/.test(error.sqlstate ?? '');
}

/*
 * Events of a pool's connections. They are published on the channel `svc:db:pool` of
 * node:diagnostics_channel, and counted in `svc_db_pool_events_total{database, event}`.
 */

/** Values of the label `event` of `svc_db_pool_events_total`. */
export type PoolEventKind =
  /** The pool opened a connection. */
  | 'opened'
  /** The pool closed a connection. */
  | 'closed'
  /** A connection ended without being closed by the pool. */
  | 'lost'
  /** An attempt to connect has failed. */
  | 'connect_failed'
  /** A caller waited too long for a connection. */
  | 'timeout'
  /** A caller was refused, because too many callers already wait. */
  | 'refused'
  /** A connection was returned with an open transaction or pending statements. */
  | 'left_open'
  /** A caller has held a connection for longer than `leakAfterMs`. */
  | 'held_long';

/** Event of a connection pool. Subscribers of the channel `svc:db:pool` get it. */
export interface PoolEvent {
  readonly kind: PoolEventKind;
  /** Name of the database's plugin, or `database` for a plugin that has no name of its own. */
  readonly database: string;
  /** Error that caused the event, if there is one. */
  readonly error: unknown;
}

/** @internal */
// the cast adds the type of the messages, which channel() does not declare
export const poolEvents: Channel<unknown, PoolEvent> = channel('svc:db:pool') as Channel<unknown, PoolEvent>;

export interface PooledConnection extends Connection {
  /** Whether the connection is unusable. The pool then closes it. */
  readonly isBroken: boolean;
  /**
   * Whether the pool must not lend the connection again, although it works. For example, the server has
   * become read-only, but writes are required.
   */
  readonly isStale: boolean;
  /**
   * Whether no request is pending and no transaction is open. A caller must return the connection in this
   * state.
   */
  readonly isIdle: boolean;
  /**
   * Called once if the connection ends although neither close() nor destroy() was called. The pool sets this
   * function.
   */
  onLost: ((error: Error) => void) | undefined;
  /**
   * Sends a request, and waits for the reply. If no reply arrives, rejects, and the connection becomes
   * unusable.
   */
  ping(limit: Limit | undefined): Promise<void>;
  retire(): void;
  /** Resets all session state, for example with `DISCARD ALL` or `COM_RESET_CONNECTION`. */
  reset(): Promise<void>;
  /**
   * Ends the session, and waits until the socket is closed. Never rejects. May be called again, and after
   * destroy().
   */
  close(): Promise<void>;
  /** Closes the socket at once. Pending requests reject with ConnectionLost. May be called again. */
  destroy(): void;
}

/**
 * Opens a connection that is ready for statements. `limit` covers the whole attempt, including name
 * resolution and login.
 */
export type Connect<C extends PooledConnection> = (limit: Limit) => Promise<C>;
