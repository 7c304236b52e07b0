/**
 * What never becomes a request: bytes that the parser refuses, and CONNECT. Answered on the socket, which ends with it.
 */
import { statusTitle } from '../../base/errors.ts';
import { connectionOf } from './connection.ts';
import { PROBLEM_TYPE } from '../response.ts';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Connection } from './connection.ts';
import type { RequestIdentity } from '../request-id.ts';

/** How node:http says that the rest of a request has not come in its time. */
const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** What the parser says, where that is not 400. */
const STATUSES: Readonly<Record<string, number>> = {
  [LATE]: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
  HPE_PAUSED_H2_UPGRADE: 505,
};

/** An error as node:http's parser tells of it. */
export interface ParserError {
  readonly message?: string;
  readonly code?: string;
  readonly reason?: string;
}

/** The answer that goes over a connection now. */
interface CurrentAnswer extends ServerResponse {
  /** Whether node:http ends the connection behind it. */
  _last?: boolean;
}

/** Answers what the parser has refused, unless an answer is under way. */
export function onClientError(error: ParserError, socket: Socket, identity: RequestIdentity): void {
  const connection = connectionOf(socket);
  if (connection.lingering?.complete === false && connection.waiting === 0) return socket.destroySoon(); // what is refused is the rest of a request that has had its answer: who has sent it would take a second one for that of the next
  // as node:http does itself: an answer that is under way must not get a second head in its middle
  const current = (socket as Socket & { _httpMessage?: CurrentAnswer | null })._httpMessage;
  if (current?.headersSent === true && isBehind(error, current) && socket.writable) {
    endWith(lastWhole(connection) ?? current, connection);
    return;
  }
  if (!socket.writable || error.code === 'ECONNRESET' || current?.headersSent === true || isOfTls(error)) {
    socket.destroy();
    return;
  }
  if (current?.req?.complete === true) {
    // rubbish behind requests that are being answered: their answers come first, and are the last
    endWith(lastWhole(connection) ?? current, connection);
    return;
  }
  refuseSocket(socket, statusOf(error), identity);
}

/** The answer to the last request that has come whole. */
function lastWhole({ newest, earlier }: Connection): CurrentAnswer | undefined {
  return newest?.req.complete === true ? newest : earlier?.at(-1);
}

/** The connection ends behind it. */
function endWith(answer: CurrentAnswer, connection: Connection): void {
  connection.hasSaidClose = true;
  if (answer.headersSent) answer._last = true;
  else answer.shouldKeepAlive = false;
}

/**
 * Whether it is about what came behind a request that has come whole: too late, or rubbish where the answer ends by itself: its
 * length is told. Of a stream nobody knows when that will be.
 */
function isBehind({ code = '' }: ParserError, answer: CurrentAnswer): boolean {
  return (
    answer.req?.complete === true && (code === LATE || (code.startsWith('HPE_') && !answer.chunkedEncoding))
  );
}

/** No handshake, no words that the client could read: HTTP on a port for TLS, for example. */
function isOfTls({ code = '' }: ParserError): boolean {
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO';
}

function statusOf({ code = '', reason }: ParserError): number {
  if (code === 'HPE_INVALID_VERSION' && reason === 'Invalid HTTP version') return 505; // else it is what stands behind the version
  return STATUSES[code] ?? 400;
}

/** A problem as the last answer of a connection. */
export function refuseSocket(socket: Socket, status: number, identity: RequestIdentity, fields = ''): void {
  const id = identity.fresh();
  const body = `{"type":"about:blank","title":"${statusTitle(status)}","status":${status},"request_id":"${id}"}`;
  socket.end(
    `HTTP/1.1 ${status} ${statusTitle(status)}\r\nContent-Type: ${PROBLEM_TYPE}\r\n${identity.field}: ${id}\r\n` +
      `Content-Length: ${body.length}\r\n${fields}Connection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}
