/**
 * How requests and connections end before their time: bytes that the parser refuses, clients that leave, and answers that are sent
 * before their request is whole.
 */
import { statusTitle } from '../../base/errors.ts';
import { connectionOf } from './connections.ts';
import { Deadlines } from '../deadlines.ts';
import { PROBLEM_TYPE } from '../response.ts';
import { keepsConnection } from './request-head.ts';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Connection } from './connections.ts';
import type { AnsweredRequest, ReceivedMessage, SentMessage } from './fast-path/internals.ts';
import type { RequestIdentity } from '../request-id.ts';

/** The code by which node:http says that the rest of a request has not come in its time. */
const LATE = 'ERR_HTTP_REQUEST_TIMEOUT';
/** The status for a code of the parser, where that is not 400. */
const STATUSES: Readonly<Record<string, number>> = {
  [LATE]: 408,
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 413,
  HPE_HEADER_OVERFLOW: 431,
  HPE_PAUSED_H2_UPGRADE: 505,
};

/** An error as node:http's parser reports it. */
interface ParserError {
  readonly message?: string;
  readonly code?: string;
  readonly reason?: string;
}

/** Answers what the parser has refused, unless an answer is under way. */
export function onClientError(error: ParserError, socket: Socket, identity: RequestIdentity): void {
  const connection = connectionOf(socket);
  if (connection.lingering?.complete === false && connection.waiting === 0) return socket.destroySoon(); // the rest of a request that has had its answer is refused: its sender would take a second one for that of the next
  // as node:http does itself: an answer that is under way must not get a second head in its middle
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
    // rubbish behind requests that are being answered: their answers come first, and are the last
    endWith(lastWhole(connection) ?? current, connection, socket);
    return;
  }
  refuseSocket(socket, statusOf(error), identity);
}

/** The answer to the last request that has come whole. */
function lastWhole({ newest, earlier }: Connection): SentMessage | undefined {
  return newest?.req.complete === true ? newest : earlier?.at(-1);
}

/** The connection ends behind it. */
function endWith(answer: SentMessage, connection: Connection, socket: Socket): void {
  connection.hasSaidClose = true;
  connection.last = answer;
  if (answer.headersSent) answer.prependListener('finish', () => socket.destroySoon()); // before node:http gives the next one its turn
}

/**
 * Whether an error is about what came behind a request that has come whole: too late, or rubbish where the answer ends by itself,
 * for it has a length. A stream may end at any time.
 */
function isBehind({ code = '' }: ParserError, answer: SentMessage): boolean {
  return answer.req.complete && (code === LATE || (code.startsWith('HPE_') && !answer.isStream));
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

/*
 * A client that ends its side of the connection, and may have left: both look the same.
 *
 *   a response in chunks has begun     the connection is cut: the next chunk may never come
 *   there is no response yet           the signal of the request aborts; the handler's response is still sent, because the
 *                                      client may have ended its side only
 */

/**
 * Watches for the end of a client's side, for a request that is not answered at once: a listener costs an idle connection memory. Where
 * that end came while the request waited behind another, its signal aborts now: its handler listens by then.
 */
export function watchEnd(socket: Socket, connection: Connection, request: AnsweredRequest): void {
  if (socket.readableEnded) request.leave();
  if (connection.isWatched) return;
  connection.isWatched = true;
  socket.on('end', onEnd); // behind that of node:http
}

function onEnd(this: Socket): void {
  const { current } = connectionOf(this);
  if (current === undefined || current.writableEnded) return;
  if (current.headersSent) return void this.destroy();
  current.request?.leave(); // requests behind it have not begun: see watchEnd()
}

/*
 * Requests that have had their answer before they were whole: the rest of each is read for a while and thrown away, and then cut
 * off. A connection that is closed with bytes unread is reset, and the reset may overtake the answer (RFC 9112 §9.6).
 *
 *   answer sent -> rest of the body -> next request, or the end where the answer was the last of its connection
 */

/** For how long the rest of an unwanted body is read, so that its sender gets to see the answer. */
const LINGER_MS = 5_000;

/** The lingering requests of one server. */
export class Lingering {
  readonly #deadlines: Deadlines;
  readonly #onOver: () => void;
  /** How many there are. */
  count = 0;

  /** `onOver` is called when one is over. */
  constructor(clock: Clock, onOver: () => void) {
    this.#deadlines = new Deadlines(LINGER_MS, clock);
    this.#onOver = onOver;
  }

  /**
   * Has the rest of its request read behind an answer. `onTaken` is called when the connection has taken all of an answer that is its
   * last: that is not ended, as node:http would end the connection with it.
   */
  begin(incoming: ReceivedMessage, outgoing: SentMessage, isLast: boolean, onTaken: () => void): void {
    const { socket } = incoming;
    if (!isLast && !incoming.awaitsContinue && keepsConnection(incoming)) {
      outgoing.once('finish', () => this.#linger(incoming, () => undefined));
      return;
    }
    const onWritten = (error?: Error | null): void => {
      Reflect.deleteProperty(outgoing, 'end');
      if ((error ?? null) !== null) return; // "close" follows
      outgoing.isTaken = true;
      const isChunked = outgoing.isStream && !outgoing.endsWithConnection; // node:http sends the last chunk at its end
      this.#linger(incoming, () => (isChunked ? outgoing.end() : socket.destroySoon()));
      if (!isChunked) socket.end();
      onTaken();
    };
    outgoing.end = (chunk?: unknown, encoding?: unknown) => {
      const content = typeof chunk === 'string' || chunk instanceof Uint8Array ? chunk : '';
      outgoing.write(content, encoding === 'latin1' ? encoding : 'utf8', onWritten);
      outgoing.flushHeaders(); // write() has not, where there is no content
      socket.uncork(); // bytes behind it that are refused may end the connection in this turn
      return outgoing;
    };
  }

  #linger(incoming: ReceivedMessage, onOver: () => unknown): void {
    const { socket } = incoming;
    const connection = connectionOf(socket);
    const wait = this.#deadlines.add(() => socket.destroy());
    connection.lingering = incoming;
    this.count++;
    incoming.isLetGo = true;
    incoming.on('close', () => {
      wait.end();
      if (connection.lingering === incoming) connection.lingering = undefined;
      this.count--;
      if (!socket.destroyed) onOver();
      this.#onOver();
    });
    incoming.resume();
  }
}
