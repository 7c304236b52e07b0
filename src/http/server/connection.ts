/**
 * What a server remembers of a connection, in one object that each request looks up once: a field for each on the socket
 * would be looked up ten times.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';

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
  /** Whether its end is listened for: see allowHalfClose(). */
  isWatched = false;
  /** Requests that have come and whose answers have not gone. */
  waiting = 0;
  /** All requests that have come. */
  requests = 0;
  /** How often it has been seen waiting for its next request, without a byte in between: see connection-limits.ts. */
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
  return (socket[CONNECTION] ??= new Connection());
}

/*
 * Clients that have ended their side of a connection (FIN): some have left, some have only sent all that they will, and still
 * read. Both look the same, until one is written to: the system of a client that has left answers with a reset.
 *
 *   nothing to be answered     the connection ends: node:http sees to it
 *   the answer is all written  what is left of it goes out
 *   it has not begun           HTTP/1.1: "102 Processing", which clients pass over (RFC 9110 §15.2), tells them apart: the first
 *                              is answered with the reset, a later one meets it.
 *                              HTTP/1.0, TLS: the client has left. Neither can be asked, and proxies leave like this
 *   it comes in pieces         the client has left: the next piece may never come, so that nothing would tell
 */

/** A connection, and the answer that goes over it now. */
interface AnswerableSocket extends Socket {
  readonly encrypted?: boolean;
  readonly _httpMessage?: ServerResponse | null;
}

/** Between two questions whether a client is still there. */
const PROBE_MS = 1_000;

/**
 * Lets clients of a server end their side and still be answered. What it answers is to be called with the connection of each
 * request that is not answered at once: a listener costs an idle connection memory, so that those without one have none.
 */
export function allowHalfClose(
  server: Server,
  clock: Clock,
): (socket: Socket, connection: Connection) => void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true; // else node:http ends our side, too
  function onEnd(this: AnswerableSocket): void {
    onHalfClose(this, clock);
  }
  return (socket, connection) => {
    if (connection.isWatched) return;
    connection.isWatched = true;
    socket.on('end', onEnd); // behind that of node:http
  };
}

function onHalfClose(socket: AnswerableSocket, clock: Clock): void {
  const current = socket._httpMessage ?? undefined;
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent || socket.encrypted === true || current.req.httpVersionMinor === 0)
    socket.destroy();
  else watchClient(socket, clock);
}

/** Asks at once, when one that is near has had the time to reset, and then once in a while. */
function watchClient(socket: AnswerableSocket, clock: Clock): void {
  let timer: Disposable | undefined;
  const ask = (): void => {
    if (socket.destroyed) return;
    if (socket._httpMessage?.headersSent === false) socket._httpMessage.writeProcessing();
    timer = clock.after(PROBE_MS, ask);
  };
  socket.once('close', () => timer?.[Symbol.dispose]());
  socket._httpMessage?.writeProcessing();
  setImmediate(ask);
}
