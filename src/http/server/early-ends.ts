/**
 * Requests that end too early: the parser refuses their bytes, the client disconnects, or the response is
 * sent before the request is complete.
 */
import { statusTitle } from '../../base/errors.ts';
import { connectionOf } from './connections.ts';
import { PROBLEM_TYPE } from '../response.ts';
import { keepsConnection } from './request-head.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Connection } from './connections.ts';
import type { AnsweredRequest, ReceivedMessage, SentMessage } from './fast-path/internals.ts';
import type { RequestIdentity } from '../request-id.ts';

/** Error code of node:http for a request that did not arrive within its time limit. */
const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Status of the response by error code of the parser. Other codes lead to 400. */
const STATUSES: Readonly<Record<string, number>> = {
  [LATE]: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
  HPE_PAUSED_H2_UPGRADE: 505,
};

interface ParserError {
  readonly message?: string;
  readonly code?: string;
  readonly reason?: string;
}

/** Handles bytes that the parser refused. Sends an error response, unless another response is being sent. */
export function onClientError(error: ParserError, socket: Socket, identity: RequestIdentity): void {
  const connection = connectionOf(socket);
  // the response to this request was already sent: an error response would look like the response to the next
  // request
  if (connection.lingering?.complete === false && connection.waiting === 0) return socket.destroySoon();
  const { current } = connection;
  // the response has begun: it is completed, and then the connection is closed without an error response
  if (current?.headersSent === true && isBehind(error, current) && socket.writable) {
    endWith(lastWhole(connection) ?? current, connection, socket);
    return;
  }
  if (!socket.writable || error.code === 'ECONNRESET' || current?.headersSent === true || isOfTls(error)) {
    socket.destroy();
    return;
  }
  if (current?.req.complete === true) {
    // the refused bytes follow requests that are still handled: their responses are sent, and then the
    // connection is closed
    endWith(lastWhole(connection) ?? current, connection, socket);
    return;
  }
  refuseSocket(socket, statusOf(error), identity);
}

/** Returns the response to the last request that arrived completely. */
function lastWhole({ newest, earlier }: Connection): SentMessage | undefined {
  return newest?.req.complete === true ? newest : earlier?.at(-1);
}

function endWith(answer: SentMessage, connection: Connection, socket: Socket): void {
  connection.hasSaidClose = true;
  connection.last = answer;
  // this listener must run before the listener of node:http, which starts the next response
  if (answer.headersSent) answer.prependListener('finish', () => socket.destroySoon());
}

/**
 * Returns whether the error belongs to a later request, so that `answer` can still be sent completely. After
 * malformed bytes, a streamed response is cut, because it may never end.
 */
function isBehind({ code = '' }: ParserError, answer: SentMessage): boolean {
  return answer.req.complete && (code === LATE || (code.startsWith('HPE_') && !answer.isStream));
}

/**
 * Returns whether an error comes from TLS, for example because a client sent plain HTTP to a TLS port. Such a
 * client cannot read a response.
 */
function isOfTls({ code = '' }: ParserError): boolean {
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO';
}

function statusOf({ code = '', reason }: ParserError): number {
  // with any other `reason`, the version is valid, but the byte after it is not
  if (code === 'HPE_INVALID_VERSION' && reason === 'Invalid HTTP version') return 505;
  return STATUSES[code] ?? 400;
}

/** Sends a problem document as the last response of a connection, without node:http. */
export function refuseSocket(socket: Socket, status: number, identity: RequestIdentity): void {
  const id = identity.fresh();
  const body = `{"type":"about:blank","title":"${statusTitle(status)}","status":${status},"request_id":"${id}"}`;
  socket.end(
    `HTTP/1.1 ${status} ${statusTitle(status)}\r\nContent-Type: ${PROBLEM_TYPE}\r\n${identity.field}: ${id}\r\n` +
      `Content-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/**
 * Watches whether the client closes its side of the connection. If no response has begun, the signal of the
 * request aborts, but the response is still sent. A response that has begun is cut, because its next chunk
 * may never come.
 */
export function watchEnd(socket: Socket, connection: Connection, request: AnsweredRequest): void {
  if (socket.readableEnded) request.leave();
  if (connection.isWatched) return;
  connection.isWatched = true;
  socket.on('end', onEnd);
}

function onEnd(this: Socket): void {
  const { current } = connectionOf(this);
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent) return void this.destroy();
  current.request?.leave(); // later requests have not begun; watchEnd() aborts their signals when they begin
}

/** Maximum time in milliseconds for discarding the rest of a body. */
const LINGER_MS = 5_000;

/**
 * Requests of one server that were still arriving when their responses were sent. The rest of the body is
 * discarded for a limited time. Closing a connection with unread bytes would reset it, and the client could
 * lose the response (RFC 9112 §9.6).
 */
export class Lingering {
  readonly #clock: Clock;
  readonly #onOver: () => void;
  /** Number of requests whose remaining bytes are being discarded. */
  count = 0;

  /** `onOver` is called when the rest of a request was discarded, or its connection closed. */
  constructor(clock: Clock, onOver: () => void) {
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /**
   * Discards the rest of a request after its response was sent. If the connection ends with the response,
   * end() of the response is replaced, because node:http would close the connection at once. `onTaken` is
   * then called when the operating system has accepted the whole response.
   */
  begin(incoming: ReceivedMessage, outgoing: SentMessage, isLast: boolean, onTaken: () => void): void {
    const { socket } = incoming;
    if (!isLast && !incoming.awaitsContinue && keepsConnection(incoming)) {
      outgoing.once('finish', () => this.#linger(incoming, () => undefined));
      return;
    }
    const { end } = outgoing;
    const onWritten = (error?: Error | null): void => {
      outgoing.end = end; // deleting the property would make every access to `outgoing` slow
      if ((error ?? null) !== null) return; // the response failed, so the event "close" follows
      outgoing.isTaken = true;
      // end() of node:http sends the final empty chunk of a chunked body
      const isChunked = outgoing.isStream && !outgoing.endsWithConnection;
      this.#linger(incoming, () => (isChunked ? outgoing.end() : socket.destroySoon()));
      // before node:http destroys it with an error, whose stack is a quarter of the cost of a refusal
      // (test/bench/http.ts --only=413)
      socket.prependOnceListener('close', () => incoming.destroy());
      if (!isChunked) socket.end();
      onTaken();
    };
    outgoing.end = (chunk?: unknown, encoding?: unknown) => {
      const content = typeof chunk === 'string' || chunk instanceof Uint8Array ? chunk : '';
      outgoing.write(content, encoding === 'latin1' ? encoding : 'utf8', onWritten);
      // write() with empty content does not send the head
      outgoing.flushHeaders();
      // sends the response now, because malformed bytes could close the connection before the next tick
      socket.uncork();
      return outgoing;
    };
  }

  #linger(incoming: ReceivedMessage, onOver: () => unknown): void {
    const { socket } = incoming;
    const connection = connectionOf(socket);
    const timer = this.#clock.after(LINGER_MS, () => socket.destroy());
    connection.lingering = incoming;
    this.count++;
    incoming.isLetGo = true;
    incoming.on('close', () => {
      timer[Symbol.dispose]();
      if (connection.lingering === incoming) connection.lingering = undefined;
      this.count--;
      if (!socket.destroyed) onOver();
      this.#onOver();
    });
    incoming.resume();
  }
}
