/**
 * Premature ends of requests and connections: bytes that the parser refuses, clients that leave, and
 * responses that are sent before their request is complete.
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

/** Error code of node:http for a request that was not received within its time limit. */
const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** Status by error code of the parser; 400 for all others. */
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

/** Sends an error response for bytes that the parser has refused, unless another response is being sent. */
export function onClientError(error: ParserError, socket: Socket, identity: RequestIdentity): void {
  const connection = connectionOf(socket);
  // the rest of a request that already has its response: its client would take an error response for that of
  // its next request
  if (connection.lingering?.complete === false && connection.waiting === 0) return socket.destroySoon();
  // no second head may be sent in the middle of a response, as in node:http
  const { current } = connection;
  if (current?.headersSent === true && isBehind(error, current) && socket.writable) {
    endWith(lastWhole(connection) ?? current, connection, socket);
    return;
  }
  if (!socket.writable || error.code === 'ECONNRESET' || current?.headersSent === true || isOfTls(error)) {
    socket.destroy();
    return;
  }
  if (current?.req.complete === true) {
    // malformed bytes after requests that are being handled: their responses are sent first, then the
    // connection ends
    endWith(lastWhole(connection) ?? current, connection, socket);
    return;
  }
  refuseSocket(socket, statusOf(error), identity);
}

/** The response to the last request that was received completely. */
function lastWhole({ newest, earlier }: Connection): SentMessage | undefined {
  return newest?.req.complete === true ? newest : earlier?.at(-1);
}

/** Ends the connection after this response. */
function endWith(answer: SentMessage, connection: Connection, socket: Socket): void {
  connection.hasSaidClose = true;
  connection.last = answer;
  // must be the first listener: node:http's own listener starts the next response
  if (answer.headersSent) answer.prependListener('finish', () => socket.destroySoon());
}

/**
 * Whether an error concerns bytes after a complete request: they came too late, or are malformed while the
 * current response has a known length. A response without a known length may be a stream that never ends, so
 * it is cut.
 */
function isBehind({ code = '' }: ParserError, answer: SentMessage): boolean {
  return answer.req.complete && (code === LATE || (code.startsWith('HPE_') && !answer.isStream));
}

/**
 * Whether an error is of TLS, for example because a client speaks HTTP to the port of TLS. Such a client
 * could not read a response.
 */
function isOfTls({ code = '' }: ParserError): boolean {
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO';
}

function statusOf({ code = '', reason }: ParserError): number {
  // with any other reason the version itself is valid, and the byte after it is wrong
  if (code === 'HPE_INVALID_VERSION' && reason === 'Invalid HTTP version') return 505;
  return STATUSES[code] ?? 400;
}

/** Sends a problem document as the last response of a connection. */
export function refuseSocket(socket: Socket, status: number, identity: RequestIdentity, fields = ''): void {
  const id = identity.fresh();
  const body = `{"type":"about:blank","title":"${statusTitle(status)}","status":${status},"request_id":"${id}"}`;
  socket.end(
    `HTTP/1.1 ${status} ${statusTitle(status)}\r\nContent-Type: ${PROBLEM_TYPE}\r\n${identity.field}: ${id}\r\n` +
      `Content-Length: ${body.length}\r\n${fields}Connection: close\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/*
 * A client that closes its side of the connection may have left, or may still read: the server cannot tell.
 *
 * If a response in chunks has begun, the connection is closed, because its next chunk may never come. If
 * there is no response yet, the signal of the request aborts. The response of its handler is sent
 * nevertheless.
 */

/**
 * Watches for the end of the client's side during a request that has no response yet. It is not watched
 * before, because a listener costs an idle connection memory. If that end came while the request waited for
 * an earlier one, the signal aborts now, when the handler can observe it.
 */
export function watchEnd(socket: Socket, connection: Connection, request: AnsweredRequest): void {
  if (socket.readableEnded) request.leave();
  if (connection.isWatched) return;
  connection.isWatched = true;
  socket.on('end', onEnd); // runs after the listener of node:http, which was added before
}

function onEnd(this: Socket): void {
  const { current } = connectionOf(this);
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent) return void this.destroy();
  current.request?.leave(); // requests after it have not begun: see watchEnd()
}

/*
 * Requests whose response is sent before they are complete: the rest of the body is read for a while, and
 * discarded. Then the next request is handled, or the connection is closed. To close it at once, with unread
 * bytes, would reset it, and the reset may destroy the response before the client reads it (RFC 9112 §9.6).
 */

/** Maximum time for reading the rest of an unwanted body, so that the client can read the response. */
const LINGER_MS = 5_000;

/** The requests of one server whose rest is being discarded. */
export class Lingering {
  readonly #clock: Clock;
  readonly #onOver: () => void;
  /** Number of requests whose rest is being read and discarded. */
  count = 0;

  /** `onOver` is called whenever the rest of a request has been read, or its connection has closed. */
  constructor(clock: Clock, onOver: () => void) {
    this.#clock = clock;
    this.#onOver = onOver;
  }

  /**
   * Discards the rest of a request once its response is sent. `onTaken` is called when the connection has
   * accepted all bytes of a last response. That response is not ended as usual, because node:http would then
   * close the connection at once.
   */
  begin(incoming: ReceivedMessage, outgoing: SentMessage, isLast: boolean, onTaken: () => void): void {
    const { socket } = incoming;
    if (!isLast && !incoming.awaitsContinue && keepsConnection(incoming)) {
      outgoing.once('finish', () => this.#linger(incoming, () => undefined));
      return;
    }
    const onWritten = (error?: Error | null): void => {
      Reflect.deleteProperty(outgoing, 'end');
      if ((error ?? null) !== null) return; // the response failed: "close" follows
      outgoing.isTaken = true;
      // node:http sends the final empty chunk in end()
      const isChunked = outgoing.isStream && !outgoing.endsWithConnection;
      this.#linger(incoming, () => (isChunked ? outgoing.end() : socket.destroySoon()));
      if (!isChunked) socket.end();
      onTaken();
    };
    outgoing.end = (chunk?: unknown, encoding?: unknown) => {
      const content = typeof chunk === 'string' || chunk instanceof Uint8Array ? chunk : '';
      outgoing.write(content, encoding === 'latin1' ? encoding : 'utf8', onWritten);
      // write() does not send the head if the content is empty
      outgoing.flushHeaders();
      // sends at once: refused bytes that follow could close the connection before the response is sent
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
