/**
 * How a pool is set up, and which of its failures may pass.
 */
import { channel, type Channel } from 'node:diagnostics_channel';
import { ConnectionLost, DatabaseError, QueryTimeout } from '../errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Connection, Limit } from '../driver.ts';

/** How many connections there are, and for how long. */
export interface ResolvedPoolOptions {
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
export interface PoolDeps<C extends PooledConnection> extends ResolvedPoolOptions {
  readonly connect: Connect<C>;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
  /** 0 ... 1, as Math.random. */
  readonly random?: (() => number) | undefined;
}

/** Whether the same attempt may succeed later: not where a password, a name or an option is wrong. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionLost || error instanceof QueryTimeout) return true;
  return error instanceof DatabaseError && /^(?:08|53|57|58)/.test(error.sqlstate ?? '');
}

/*
 * What befalls the connections of a pool, told on the channel `svc:db:pool` of node:diagnostics_channel and counted in
 * `svc_db_pool_events_total{database, event}`.
 */

/** The words of `svc_db_pool_events_total`. */
export type PoolEventKind =
  /** A connection was made; was closed by us; ended by itself. */
  | 'opened'
  | 'closed'
  | 'lost'
  /** An attempt to make one has failed. */
  | 'connect_failed'
  /** A caller waited too long, or was refused because too many wait. */
  | 'timeout'
  | 'refused'
  /** One was given back with its transaction open, or with statements under way. */
  | 'left_open'
  /** One has been lent for longer than `leakAfterMs`. */
  | 'held_long';

/** One of them, as subscribers get it. */
export interface PoolEvent {
  readonly kind: PoolEventKind;
  /** The name of the database's plugin; `database` for one that has no other. */
  readonly database: string;
  /** Why, where there is a reason. */
  readonly error: unknown;
}

/** @internal */
export const poolEvents: Channel<unknown, PoolEvent> = channel('svc:db:pool') as Channel<unknown, PoolEvent>; // the types of Node know no names

/*
 * What a pool needs of a connection to a server, beside its statements: whether it can still be lent, and how it ends.
 *
 *   isBroken   the conversation is over, or nobody knows what the server will say next: closed at once, never lent again
 *   isStale    it works, but should not be lent again: its server only reads now where one that writes was asked for, or it was retired
 *   isIdle     nothing is under way, no transaction is open: what an owner must give back
 */

/** A connection that a pool keeps. */
export interface PooledConnection extends Connection {
  readonly isBroken: boolean;
  readonly isStale: boolean;
  readonly isIdle: boolean;
  /** Told once, when the connection ends other than by close() or destroy(), whether somebody uses it or not. Set by the pool. */
  onLost: ((error: Error) => void) | undefined;
  /** Asks the server and waits for its answer. Rejects when none comes; the connection is broken then. */
  ping(limit: Limit | undefined): Promise<void>;
  retire(): void;
  /** Undoes whatever an owner may have set, beyond transactions: `DISCARD ALL`, `COM_RESET_CONNECTION`. */
  reset(): Promise<void>;
  /** Takes leave of the server and waits until the socket is closed. Never rejects; may be called again, and after destroy(). */
  close(): Promise<void>;
  /** Closes the socket at once; what is under way rejects with ConnectionLost. May be called again. */
  destroy(): void;
}

/** Makes a connection that is ready for statements; the limit bounds all of it, names and handshakes included. */
export type Connect<C extends PooledConnection> = (limit: Limit) => Promise<C>;
