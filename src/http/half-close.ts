/**
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
import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../clock.ts';
import type { Connection } from './connection.ts';

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
export function allowHalfClose(server: Server, clock: Clock): (socket: Socket, connection: Connection) => void {
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true; // else node:http ends our side, too
  function onEnd(this: AnswerableSocket): void { onHalfClose(this, clock); }
  return (socket, connection) => {
    if (connection.isWatched) return;
    connection.isWatched = true;
    socket.on('end', onEnd); // behind that of node:http
  };
}

function onHalfClose(socket: AnswerableSocket, clock: Clock): void {
  const current = socket._httpMessage ?? undefined;
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent || socket.encrypted === true || current.req.httpVersionMinor === 0) socket.destroy();
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
