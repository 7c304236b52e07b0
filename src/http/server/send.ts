/**
 * Sends an HttpResponse with node:http.
 *
 * A large body, or a stream, is sent one chunk at a time, as fast as the client reads. When the client
 * disconnects, the stream is ended. If the stream fails after the head was sent, the connection is closed at
 * once, so that the client sees an incomplete response.
 */
// imported, because reading the global `Buffer` calls a getter, which takes longer
import { Buffer } from 'node:buffer';
import { isDisconnect } from '../../base/errors.ts';
import { systemClock } from '../../base/clock.ts';
import { ignore, nextTurn, within } from '../../base/promises.ts';
import { FileBody } from '../files/body.ts';
import { findField } from '../headers.ts';
import {
  EndlessChunks,
  LAST_WORDS_MS,
  checkedChunk,
  discard,
  errorOfEnd,
  isChunks,
  isPending,
  iterate,
  lengthError,
  writable,
} from '../chunks.ts';
import { hasNoContent } from '../response.ts';
import { SLICE_BYTES } from './connections.ts';
import { SentMessage } from './fast-path/internals.ts';
import { keepsConnection } from './request-head.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { HeadTexts } from './fast-path/internals.ts';
import type { Clock } from '../../base/clock.ts';
import type { Chunk, ChunkIterator, Chunks, Endless } from '../chunks.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';

/** The part of a request that determines how its response is sent. */
interface SentTo {
  readonly method: string;
  readonly id: string;
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

/** Settings and callbacks that all responses of a server share. */
export interface Sending {
  /** Clock that limits the time of a response in one turn of the event loop. */
  readonly clock: Clock;
  /** Whether cookies get `Secure` even without TLS, unless they set it themselves. True in production. */
  readonly securesCookies: boolean;
  /** Formats the status line and header fields of responses that are sent in one write. */
  readonly heads: HeadTexts;
  /** Event streams and other endless bodies that are being sent. They are ended when the server stops. */
  readonly endless: Set<Endless>;
  /**
   * Begins to check whether the client reads a response that the operating system has not accepted at once.
   */
  watchReading(socket: Socket, outgoing?: SentMessage): void;
  /** Called when a response has ended. */
  readonly onOver: (this: SentMessage) => void;
}

const UPGRADE_REQUIRED = 426;

/**
 * Sends a response. `isLast`: whether the connection ends with this response. For a large body or a stream,
 * returns a promise that resolves when the body is sent, and rejects if the stream fails.
 */
export function send(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
): Promise<void> | undefined {
  const { body } = response;
  if (hasNoContent(response.status) || body === null || (typeof body !== 'string' && isChunks(body)))
    return sendOther(outgoing, response, req, isLast, sending);
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  const isAscii = length === body.length;
  if (length > SLICE_BYTES || req.method === 'HEAD') {
    begin(outgoing, response, req, isLast, sending, length);
    if (req.method === 'HEAD') return void endEmpty(outgoing, sending);
    sending.watchReading(outgoing.req.socket, outgoing);
    return sendChunks(outgoing, slicesOf(body, isAscii), -1, sending);
  }
  const isText = typeof body === 'string' && !isLast && response.status !== UPGRADE_REQUIRED;
  if (isText && outgoing.takesText) {
    const isSecure = response.hasWaitingCookies && isSecured(response, req, sending);
    const head = sending.heads.of(response, req.id, isSecure, length);
    if (head !== '') {
      outgoing.writeText(response.status, head + body, isAscii, sending.onOver);
      if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
      return undefined;
    }
  }
  begin(outgoing, response, req, isLast, sending, length);
  // latin1 encodes ASCII to the same bytes as UTF-8, and is faster
  outgoing.end(body, isAscii ? 'latin1' : 'utf8');
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
  return undefined;
}

/**
 * Sends the head of a response, with request id and Content-Length. A negative `length` is not sent.
 * Content-Length follows the fields of the response: node:http would re-encode a Content-Disposition field
 * after Content-Length.
 *
 * A head with characters outside ASCII is sent alone, in Latin-1. Together with a text body, node:http would
 * encode the head in UTF-8.
 */
function begin(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
  length: number,
): void {
  // a 426 response has its own field Connection, so node:http would keep the connection open even if the
  // client wants to close it
  if (response.status === UPGRADE_REQUIRED && !keepsConnection(outgoing.req)) isLast = true;
  const { field: idField, name } = req.identity;
  const isSecure = isSecured(response, req, sending);
  let fields = response.fields(isSecure);
  if (findField(fields, name) !== undefined) {
    response.headers.delete(idField);
    fields = response.fields(isSecure);
  }
  const head = [...fields, idField, req.id];
  if (length >= 0) head.push('Content-Length', String(length));
  if (response.status === UPGRADE_REQUIRED)
    // Connection must name the field Upgrade (RFC 9110 §7.8)
    head.push('Connection', isLast ? 'Upgrade, close' : 'Upgrade');
  else if (isLast) head.push('Connection', 'close');
  outgoing.writeHead(response.status, head);
  outgoing.on('close', sending.onOver);
  if (!response.hasAsciiFields && response.body !== null) outgoing.write('', 'latin1');
}

/** Sends a response whose body is empty or a stream. */
function sendOther(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
): Promise<void> | undefined {
  const { status, body, contentLength } = response;
  const isHead = req.method === 'HEAD';
  if (!hasNoContent(status) && isChunks(body)) {
    outgoing.isStream = contentLength < 0;
    begin(outgoing, response, req, isLast, sending, contentLength);
    outgoing.endsWithConnection = contentLength < 0 && !isHead && !takesChunks(outgoing.req);
    if (!isHead) return sendStream(outgoing, body, contentLength, sending);
  } else {
    const length = hasNoContent(status) ? (status === 205 ? 0 : -1) : isHead ? Math.max(0, contentLength) : 0;
    begin(outgoing, response, req, isLast, sending, length);
  }
  endEmpty(outgoing, sending);
  return isChunks(body) ? discard(body) : undefined;
}

/** Returns whether a client understands chunked coding, by the rule that node:http also uses. */
function takesChunks({ httpVersionMinor, rawHeaders }: IncomingMessage): boolean {
  return httpVersionMinor > 0 || /\bchunked\b/i.test(findField(rawHeaders, 'te') ?? '');
}

/**
 * Ends a response without a body. The response may wait for an earlier one that the client does not read, so
 * slow reading is checked here, too.
 */
function endEmpty(outgoing: SentMessage, sending: Sending): void {
  outgoing.end();
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
}

/** Returns whether `Secure` is added to cookies that do not set it themselves. */
function isSecured(response: HttpResponse, req: SentTo, { securesCookies }: Sending): boolean {
  return response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
}

/**
 * Sends an ordinary response to a request that asked for another protocol. It is the last response of its
 * connection, because node:http no longer handles the connection. Resolves when the response has ended;
 * rejects if its body fails.
 */
export function sendLast(
  incoming: IncomingMessage,
  response: HttpResponse,
  req: SentTo,
  sending: Sending,
): Promise<void> {
  const { socket } = incoming;
  const outgoing = new SentMessage(incoming);
  const over = new Promise<void>((resolve) => outgoing.once('close', resolve));
  outgoing.assignSocket(socket);
  // node:http passes on "drain" and closes the socket only for connections that it handles, so both are done
  // here
  socket.on('drain', () => outgoing.emit('drain'));
  outgoing.once('finish', () => socket.destroySoon());
  return Promise.resolve(send(outgoing, response, req, true, sending)).then(() => over);
}

/** Sends a streamed body, after the head. Resolves when all chunks are sent; rejects if the stream fails. */
function sendStream(
  outgoing: SentMessage,
  body: Chunks,
  announced: number,
  sending: Sending,
): Promise<void> | undefined {
  if (!outgoing.destroyed) sending.watchReading(outgoing.req.socket, outgoing);
  if (body instanceof EndlessChunks) return sendEndless(outgoing, body, sending);
  if (!(body instanceof FileBody) || outgoing.destroyed)
    return sendChunks(outgoing, iterate(body), announced, sending);
  return body.sendTo(outgoing);
}

function sendEndless(
  outgoing: SentMessage,
  chunks: EndlessChunks,
  sending: Sending,
): Promise<void> | undefined {
  const running: Endless = {
    async finish(reason) {
      await chunks.finish(reason);
      if (outgoing.closed) return;
      const over = new Promise<void>((resolve) => outgoing.once('close', resolve));
      await within(systemClock, LAST_WORDS_MS, over, ignore); // the client may not read the rest
    },
  };
  sending.endless.add(running);
  outgoing.once('close', () => sending.endless.delete(running));
  const source = chunks[Symbol.asyncIterator]() as unknown as ChunkIterator;
  // false if the server of another framework has created the response
  const isOurs = 'writeShared' in outgoing;
  if (outgoing.destroyed || !isOurs || !chunks.attach(outgoing))
    return sendChunks(outgoing, source, -1, sending);
  outgoing.once('close', () => chunks.return());
  return undefined;
}

/**
 * Number of bytes that a response may send in one turn of the event loop. Without this limit, a stream that
 * always has data would block the process.
 */
const TURN_BYTES = 1_048_576;
/** Each chunk counts as this many bytes more than its size, because even a short write takes time. */
const CHUNK_COST = 64;
/** Time in milliseconds after which a response waits for the next turn, because its source may compute. */
const TURN_MS = 10;

/** Maximum length of a slice of text in UTF-16 units. Each unit becomes at most three bytes. */
const SLICE_CHARACTERS = Math.floor(SLICE_BYTES / 3);

/** Sends all chunks of a stream. `announced` is the Content-Length, or -1 if unknown. */
async function sendChunks(
  outgoing: ServerResponse,
  source: ChunkIterator,
  announced: number,
  { clock }: Sending,
): Promise<void> {
  let ending: Promise<unknown> | undefined;
  const end = (): void => {
    ending ??= Promise.try(() => source.return?.());
    ending.catch(ignore); // until `ending` is awaited, a rejection without a handler would end the process
  };
  if (outgoing.destroyed) {
    end();
    await ending;
    return;
  }
  // when the client disconnects, ends the stream at once, because the next chunk may never come
  outgoing.once('close', end);
  try {
    await writeAll(outgoing, source, announced, clock);
    outgoing.off('close', end);
    if (outgoing.destroyed) end();
    else outgoing.end();
  } catch (error) {
    if (outgoing.destroyed && isAbort(error)) return;
    end();
    // also waits until the bytes written so far are sent: a client that receives nothing may assume that the
    // request was not handled, and repeat it
    const last = await errorOfEnd(() => ending, error);
    outgoing.destroy();
    throw last;
  }
  await ending;
}

/** Writes all chunks of a stream. Waits before each write until the connection accepts more data. */
async function writeAll(
  outgoing: ServerResponse,
  source: ChunkIterator,
  announced: number,
  clock: Clock,
): Promise<void> {
  let sent = 0;
  for (let burst = 0, turnMs = clock.monotonicMs(); ;) {
    const next = source.next();
    const step = isPending(next) ? await next : next;
    if (outgoing.destroyed) return;
    if (step.done === true) break;
    const chunk = checkedChunk(step.value);
    if (announced >= 0) {
      sent += typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.length;
      // the client would read the additional bytes as the next response
      if (sent > announced) throw lengthError(announced, sent);
    }
    if (chunk.length > SLICE_BYTES) await writeSlices(outgoing, chunk);
    else if (chunk.length !== 0 && !outgoing.write(chunk)) await writable(outgoing);
    burst += chunk.length + CHUNK_COST;
    if (burst < TURN_BYTES && clock.monotonicMs() - turnMs < TURN_MS) continue;
    await nextTurn();
    burst = 0;
    turnMs = clock.monotonicMs();
  }
  if (sent < announced) throw lengthError(announced, sent); // the client would wait for more bytes
}

async function writeSlices(outgoing: ServerResponse, chunk: Chunk): Promise<void> {
  for (const slice of slicesOf(chunk)) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(slice)) await writable(outgoing);
  }
}

/**
 * Splits a chunk into slices that are small enough for one write. Text is not encoded here, because the
 * encoded text would double the memory while the client reads (test/bench/streams.ts --only=text). `isAscii`:
 * whether all characters are ASCII.
 */
export function* slicesOf(chunk: Chunk, isAscii = false): Generator<Chunk, void, undefined> {
  if (typeof chunk !== 'string') {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) yield chunk.subarray(at, at + SLICE_BYTES);
    return;
  }
  const most = isAscii ? SLICE_BYTES : SLICE_CHARACTERS;
  for (let at = 0, end: number; at < chunk.length; at = end) {
    end = at + most;
    // both halves of a surrogate pair must be in the same slice
    if (!isAscii && isHighSurrogate(chunk.charCodeAt(end - 1))) end--;
    yield chunk.slice(at, end);
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/**
 * Returns whether a stream has failed because `req.signal` aborted. If the client has disconnected, such an
 * error is not a failure.
 */
function isAbort(error: unknown): boolean {
  return isDisconnect(error) || (error instanceof Error && error.name === 'AbortError');
}
