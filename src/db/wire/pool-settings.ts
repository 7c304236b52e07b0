/**
 * Options, events and connection interface of a pool, and which errors are temporary.
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
  /** Milliseconds for one attempt to connect, including name resolution, TLS and login. */
  readonly connectTimeoutMs: number;
  /** Milliseconds that pending work has when the pool is closed. */
  readonly closeMs: number;
  /** Reset of a connection between two owners: roll back its transaction only, or reset all session state. */
  readonly reset: 'transaction' | 'full';
  /**
   * A connection that is borrowed for longer is reported with the stack of its owner; 0 turns this off, which
   * is cheaper.
   */
  readonly leakAfterMs: number;
}

/** Dependencies of a pool. */
export interface PoolDeps<C extends PooledConnection> extends ResolvedPoolOptions {
  readonly connect: Connect<C>;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
  /** Returns 0 ... 1, as Math.random does. */
  readonly random?: (() => number) | undefined;
}

/** Returns whether a later attempt may succeed. It cannot for a wrong password, name or option. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof QueryTimeout) return true;
  return error instanceof DatabaseError && /^(?:08|53|57|58)/.test(error.sqlstate ?? '');
}

/*
 * Events of a pool's connections, published on the channel `svc:db:pool` of node:diagnostics_channel and
 * counted in `svc_db_pool_events_total{database, event}`.
 */

/** The event names of `svc_db_pool_events_total`. */
export type PoolEventKind =
  /** A connection was opened, was closed by the pool, or ended by itself. */
  | 'opened'
  | 'closed'
  | 'lost'
  /** An attempt to connect has failed. */
  | 'connect_failed'
  /** A caller waited too long, or was refused because too many callers wait. */
  | 'timeout'
  | 'refused'
  /** A connection was returned with an open transaction or pending statements. */
  | 'left_open'
  /** A connection has been borrowed for longer than `leakAfterMs`. */
  | 'held_long';

/** An event as subscribers receive it. */
export interface PoolEvent {
  readonly kind: PoolEventKind;
  /** Name of the database's plugin; `database` without a name. */
  readonly database: string;
  /** The error, if the event has one. */
  readonly error: unknown;
}

/** @internal */
// Node's types do not type channels by name
export const poolEvents: Channel<unknown, PoolEvent> = channel('svc:db:pool') as Channel<unknown, PoolEvent>;

/*
 * The part of a connection that a pool uses: whether it is reusable, and how it ends.
 *
 *   isBroken   the conversation has ended or is out of step: closed at once, never lent again
 *   isStale    usable, but not to be lent again: its server became read-only although writes are required, or it was retired
 *   isIdle     no pending request and no open transaction: the state in which an owner must return it
 */

/** A connection that a pool keeps. */
export interface PooledConnection extends Connection {
  readonly isBroken: boolean;
  readonly isStale: boolean;
  readonly isIdle: boolean;
  /** Called once when the connection ends by itself, whether it is borrowed or not. Set by the pool. */
  onLost: ((error: Error) => void) | undefined;
  /** Sends a request and waits for its reply. Rejects when none arrives; the connection is broken then. */
  ping(limit: Limit | undefined): Promise<void>;
  retire(): void;
  /** Resets all session state: `DISCARD ALL`, `COM_RESET_CONNECTION`. */
  reset(): Promise<void>;
  /**
   * Sends the last message and waits until the socket is closed. Never rejects; may be called again, and
   * after destroy().
   */
  close(): Promise<void>;
  /** Closes the socket at once; pending requests reject with ConnectionLost. May be called again. */
  destroy(): void;
}

/**
 * Opens a connection that is ready for statements. The limit covers everything, including name resolution and
 * handshakes.
 */
export type Connect<C extends PooledConnection> = (limit: Limit) => Promise<C>;
