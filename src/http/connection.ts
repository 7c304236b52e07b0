/**
 * What a server remembers of a connection, in one object that each request looks up once: a field for each on the socket
 * would be looked up ten times.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** In place of a number of looks: a request is being answered, or none has come yet. */
export const NOT_WAITING = -1;

/** A connection as far as its requests depend on each other. */
export class Connection {
  /** The answer to the newest of its requests, until that has gone: an idle connection keeps nothing of them. */
  newest: ServerResponse | undefined;
  /** Whether the client has been told that this is the end: what it sends behind is not processed (RFC 9112 §9.6). */
  hasSaidClose = false;
  /** Whether it is one too many. */
  isSurplus = false;
  /** Whether its end is listened for: see half-close.ts. */
  isWatched = false;
  /** Requests that have come and whose answers have not gone. */
  waiting = 0;
  /** All requests that have come. */
  requests = 0;
  /** How often it has been seen waiting for its next request, without a byte in between: see idle-connections.ts. */
  idleLooks: number = NOT_WAITING;
  /** What it had brought when it was last seen waiting. */
  bytesSeen = -1;
  /** Whether it is among those that are looked at. */
  isListed = false;
  /** The answers before the newest one, where there were some: on the prototype, for most connections never have any. */
  declare earlier: ServerResponse[] | undefined;
  /** A request that has had its answer, and of which the rest may still come; on the prototype, too. */
  declare lingering: IncomingMessage | undefined;
  /** How its socket ends when what was sent has gone; and whether it is to end behind what lingers. See lingering.ts. */
  declare closeSoon: ((this: Socket) => void) | undefined;
  declare endsWithLingering: boolean;

  static {
    this.prototype.earlier = undefined;
    this.prototype.lingering = undefined;
    this.prototype.closeSoon = undefined;
    this.prototype.endsWithLingering = false;
  }

  /** A request has come, and this will answer it. */
  enter(outgoing: ServerResponse): void {
    if (this.newest !== undefined) (this.earlier ??= []).push(this.newest);
    this.newest = outgoing;
    this.waiting++;
    this.requests++;
  }

  /** An answer has gone, or never will. */
  leave(outgoing: ServerResponse): void {
    if (this.newest === outgoing) this.newest = undefined;
    else this.earlier?.splice(this.earlier.indexOf(outgoing), 1); // it was the newest once
    this.waiting--;
  }

  /** Ends every answer that has not gone: of a connection that node:http has given up, and with it those that wait for their turn. */
  abandon(): void {
    this.newest?.destroy();
    this.earlier?.forEach((outgoing) => outgoing.destroy());
  }

  /** Whether this answer is the last one: "Connection: close" on an earlier one would leave those pipelined behind it unanswered. */
  endsWith(outgoing: ServerResponse): boolean {
    if (this.newest !== outgoing) return false;
    this.hasSaidClose = true;
    return true;
  }
}

const CONNECTION: unique symbol = Symbol('connection');

/** What is remembered of the connection over this socket. */
export function connectionOf(socket: Socket & { [CONNECTION]?: Connection }): Connection {
  return socket[CONNECTION] ??= new Connection();
}
