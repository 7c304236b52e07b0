/**
 * Options and events of a pool, the interface of its connections, and a function that recognizes temporary
 * errors.
 */
import { channel, type Channel } from 'node:diagnostics_channel';
import { ConnectionLost, DatabaseError, QueryTimeout } from '../errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Connection, Limit } from '../driver.ts';

/** Sizes and time limits of a pool. */
export interface ResolvedPoolOptions {
  readonly max: number;
  readonly min: number;
  readonly idleMs: number;
  readonly maxLifetimeMs: number;
  readonly acquireTimeoutMs: number;
  readonly maxWaiting: number;
  /** Milliseconds that one attempt to connect may take, including name resolution, TLS and login. */
  readonly connectTimeoutMs: number;
  /** Milliseconds that close() waits for pending work. */
  readonly closeMs: number;
  /**
   * Cleanup of a connection before another caller uses it: `transaction` only rolls back an open transaction,
   * and `full` also resets all session state.
   */
  readonly reset: 'transaction' | 'full';
  /**
   * Milliseconds after which a connection that is still lent is logged, with the stack of the caller that
   * acquired it. With 0, nothing is logged, and no stack has to be captured.
   */
  readonly leakAfterMs: number;
}

/** Dependencies of a pool. */
export interface PoolDeps<C extends PooledConnection> extends ResolvedPoolOptions {
  readonly connect: Connect<C>;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
  /** Returns a number from 0 to 1, as Math.random does. */
  readonly random?: (() => number) | undefined;
}

/**
 * Returns whether a later attempt to connect may succeed, although one has failed with this error. Returns
 * false for a permanent error, such as a wrong password, name or option.
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
  /** The pool opened a connection, the pool closed one, or one ended without the pool closing it. */
  | 'opened'
  | 'closed'
  | 'lost'
  /** An attempt to connect has failed. */
  | 'connect_failed'
  /** A caller waited too long, or was refused because too many callers already wait. */
  | 'timeout'
  | 'refused'
  /** A connection was returned with an open transaction or pending statements. */
  | 'left_open'
  /** A connection has been lent for longer than `leakAfterMs`. */
  | 'held_long';

/** Event of a pool, as subscribers of the channel receive it. */
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

/** A connection of a pool, with the states and methods that the pool uses. */
export interface PooledConnection extends Connection {
  /**
   * Whether the conversation has ended, or replies may no longer match requests. The pool then closes the
   * connection at once.
   */
  readonly isBroken: boolean;
  /**
   * Whether the connection must not be lent again, although it still works: retire() was called, or the
   * server became read-only although writes are required.
   */
  readonly isStale: boolean;
  /**
   * Whether there is no pending request and no open transaction. A caller must return the connection in this
   * state.
   */
  readonly isIdle: boolean;
  /**
   * Called once if the connection ends without a call of close() or destroy(), whether it is lent or idle.
   * The pool sets this function.
   */
  onLost: ((error: Error) => void) | undefined;
  /**
   * Sends a request and waits for its reply. If no reply arrives, rejects, and the connection is then broken.
   */
  ping(limit: Limit | undefined): Promise<void>;
  retire(): void;
  /** Resets all session state: `DISCARD ALL`, `COM_RESET_CONNECTION`. */
  reset(): Promise<void>;
  /**
   * Sends the protocol's last message, and waits until the socket is closed. Never rejects. May be called
   * again, and after destroy().
   */
  close(): Promise<void>;
  /** Closes the socket at once. Pending requests reject with ConnectionLost. May be called again. */
  destroy(): void;
}

/**
 * Opens a connection that is ready for statements. The limit covers the whole attempt, including name
 * resolution and handshakes.
 */
export type Connect<C extends PooledConnection> = (limit: Limit) => Promise<C>;
