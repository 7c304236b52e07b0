/**
 * Connections between two requests: each is closed when its next one does not come for long.
 *
 * node:http says by `socket.setTimeout()`, after every answer and before every request, how long a connection may be silent;
 * a timer for each of them is a fourteenth of what a plain answer costs over sockets. Here that is noted, and one timer for
 * all connections of a server looks at them once in a while.
 */
import { connectionOf, NOT_WAITING } from './connection.ts';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../clock.ts';

/** The longest time between two looks, of which a connection may stay open one more than it should. */
const LOOK_MS = 1_000;
/** Looks within the time of a connection. */
const LOOKS = 6;

/** What stands in for the method of a socket. */
type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/** The idle connections of one server. */
export class IdleConnections {
  readonly #clock: Clock;
  /** Those that have waited once and are open. */
  readonly #sockets = new Set<Socket>();
  #lookMs = LOOK_MS;
  #looks = LOOKS;
  #timer: Disposable | undefined;
  #noteTimeout: NoteTimeout | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes over the time limit that a server has for what is idle. */
  watch(server: Server): void {
    const idle = this;
    // what node:http gives: a second more than it announces, so that a client that trusts that is on the safe side
    const limitMs = server.keepAliveTimeout + ((server as { readonly keepAliveTimeoutBuffer?: number }).keepAliveTimeoutBuffer ?? 1_000);
    this.#lookMs = Math.min(LOOK_MS, Math.ceil(limitMs / LOOKS));
    this.#looks = Math.ceil(limitMs / this.#lookMs);
    this.#noteTimeout = function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket { // one for all connections
      const connection = connectionOf(this);
      const isWaiting = connection.idleLooks !== NOT_WAITING;
      if (ms === limitMs && onTimeout === undefined) {
        connection.idleLooks = 0;
        if (!connection.isListed) idle.#list(this);
        return this;
      }
      connection.idleLooks = NOT_WAITING;
      return isWaiting && ms === 0 ? this : (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout); // others may set limits of their own
    };
  }

  /** A connection of the server has opened. */
  enter(socket: Socket): void {
    if (this.#noteTimeout !== undefined) socket.setTimeout = this.#noteTimeout;
  }

  /** It is gone. */
  leave(socket: Socket): void {
    if (!this.#sockets.delete(socket) || this.#sockets.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #list(socket: Socket): void {
    connectionOf(socket).isListed = true;
    this.#sockets.add(socket);
    this.#timer ??= this.#next();
  }

  #next(): Disposable { return this.#clock.after(this.#lookMs, () => this.#look()); }

  #look(): void {
    this.#timer = this.#next();
    for (const socket of this.#sockets) {
      const connection = connectionOf(socket);
      if (connection.idleLooks === NOT_WAITING) continue;
      const { bytesRead } = socket;
      if (bytesRead !== connection.bytesSeen) { // since the last look: it was not idle then, or a request has begun
        connection.bytesSeen = bytesRead;
        connection.idleLooks = 0;
      } else if (++connection.idleLooks >= this.#looks) socket.destroy();
    }
  }
}
