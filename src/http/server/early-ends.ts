/**
 * Requests and connections that end early: the parser refuses bytes, the client leaves, or the response is
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

/** Responds to bytes that the parser has refused: with an error, unless another response is being sent. */
export function onClientError(error: ParserError, socket: Socket, identity: RequestIdentity): void {
  const connection = connectionOf(socket);
  // the bytes belong to a request that already has its response: the client would take an error response for
  // that of its next request
  if (connection.lingering?.complete === false && connection.waiting === 0) return socket.destroySoon();
  // as in node:http, no second head may be sent in the middle of a response
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
    // the bytes follow requests that are being handled: send their responses, then end the connection
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
  // must run before the listener of node:http, which starts the next response
  if (answer.headersSent) answer.prependListener('finish', () => socket.destroySoon());
}

/**
 * Whether `answer` may be sent to its end in spite of the error. Its request must be complete, and the bytes
 * after it late or malformed. If they are malformed, the response must have a known length, because a stream
 * might never end.
 */
function isBehind({ code = '' }: ParserError, answer: SentMessage): boolean {
  return answer.req.complete && (code === LATE || (code.startsWith('HPE_') && !answer.isStream));
}

/**
 * Whether an error comes from TLS, for example because a client sends plain HTTP to a TLS port. Such a client
 * could not read a response.
 */
function isOfTls({ code = '' }: ParserError): boolean {
  return code.startsWith('ERR_SSL_') || code.startsWith('ERR_TLS_') || code === 'EPROTO';
}

function statusOf({ code = '', reason }: ParserError): number {
  // for any other reason, the version is valid, and the byte after it is wrong
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
 * If a client closes its side of the connection, it may have left, or may still read; the server cannot know.
 *
 * If a response in chunks has begun, the connection is closed, because its next chunk may never come. If
 * there is no response yet, the signal of the request aborts. The response of its handler is sent
 * nevertheless.
 */

/**
 * Aborts the signal of a request without a response when the client closes its side. The listener is added
 * only now, because it would take memory of idle connections. If the client has closed its side already,
 * while the request waited for an earlier one, the signal aborts at once.
 */
export function watchEnd(socket: Socket, connection: Connection, request: AnsweredRequest): void {
  if (socket.readableEnded) request.leave();
  if (connection.isWatched) return;
  connection.isWatched = true;
  socket.on('end', onEnd); // called after the listener of node:http, which was added earlier
}

function onEnd(this: Socket): void {
  const { current } = connectionOf(this);
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent) return void this.destroy();
  current.request?.leave(); // later requests have not begun: see watchEnd()
}

/*
 * If the response is sent before its request is complete, the rest of the body is read for a while, and
 * discarded. Then the next request is handled, or the connection is closed. Closing a connection with unread
 * bytes resets it, and then the client may lose the response (RFC 9112 §9.6).
 */

/** Maximum time for reading the rest of a body that is discarded. */
const LINGER_MS = 5_000;

/** The requests of one server that have their response, and whose rest is being discarded. */
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
   * Discards the rest of a request when its response was sent. If the response is the last of the connection,
   * its end() is replaced, because node:http would then close the connection at once. `onTaken` is called
   * when the connection has accepted all bytes of a last response.
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
      // if the body is in chunks, end() of node:http sends the final empty chunk
      const isChunked = outgoing.isStream && !outgoing.endsWithConnection;
      this.#linger(incoming, () => (isChunked ? outgoing.end() : socket.destroySoon()));
      if (!isChunked) socket.end();
      onTaken();
    };
    outgoing.end = (chunk?: unknown, encoding?: unknown) => {
      const content = typeof chunk === 'string' || chunk instanceof Uint8Array ? chunk : '';
      outgoing.write(content, encoding === 'latin1' ? encoding : 'utf8', onWritten);
      // if the content is empty, write() does not send the head
      outgoing.flushHeaders();
      // sends at once, because bytes that the parser refuses could close the connection before
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
