/**
 * Undocumented parts of Node that connections rely on: the last two rows of the table in messages.ts.
 */
import { USES_INTERNALS } from './messages.ts';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';

/** Called about the silence between two requests. */
export interface SilenceWatch {
  /** The silence before the next request begins. */
  begin(socket: Socket): void;
  /** It is over. Returns whether it had begun. */
  end(socket: Socket): boolean;
}

/** Stands in for the method of a socket. */
export type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/**
 * Takes over the time limit for silent connections. node:http sets it by `socket.setTimeout()` after every answer, and takes it
 * off before every request; what is returned notes that, in place of that method. Undefined where each connection keeps its timer.
 */
export function noteTimeouts(limitMs: number, watch: SilenceWatch): NoteTimeout | undefined {
  if (!USES_INTERNALS) return undefined;
  return function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
    // one for all connections
    if (ms === limitMs && onTimeout === undefined) {
      watch.begin(this);
      return this;
    }
    return watch.end(this) && ms === 0
      ? this
      : (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout); // others may set limits of their own
  };
}

/** Lets clients of a server end their side and still be answered. Elsewhere node:http ends our side, too. */
export function allowHalfOpen(server: Server): void {
  if (USES_INTERNALS) (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
}
