/**
 * What a pool needs of a connection to a server, beside its statements: whether it can still be lent, and how it ends.
 *
 *   isBroken   the conversation is over, or nobody knows what the server will say next: closed at once, never lent again
 *   isStale    it works, but should not be lent again: its server only reads now where one that writes was asked for, or it was retired
 *   isIdle     nothing is under way, no transaction is open: what an owner must give back
 */
import type { Connection, Limit } from './driver.ts';

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
