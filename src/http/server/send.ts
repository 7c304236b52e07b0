/**
 * Sends an HttpResponse over node:http's ServerResponse: with one `writeHead` and one `end` if the length of
 * the body is known.
 *
 * Bodies in chunks, and large ones, are sent one chunk at a time, as fast as the client reads
 * (back-pressure). When the client leaves, their source is ended. If the source fails after the head was
 * sent, the connection is closed at once, so that the client sees an incomplete response.
 */
// imported, because the global `Buffer` is a getter, which would be called for every response
import { Buffer } from 'node:buffer';
import { ClientDisconnected } from '../../base/errors.ts';
import { ignore } from '../../base/promises.ts';
import { FileBody } from '../files/body.ts';
import { findField } from '../headers.ts';
import {
  EndlessChunks,
  checkedChunk,
  discard,
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
import type { Chunk, ChunkIterator, Chunks } from '../chunks.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';

/** Members of a request that its response depends on. */
interface SentTo {
  readonly method: string;
  readonly id: string;
  /** Name of the response field with the request id. */
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

/** Settings for all responses of a server. */
export interface Sending {
  /** Whether cookies whose `Secure` is not decided get it even without TLS. True in production. */
  readonly securesCookies: boolean;
  /** Formats the heads of responses that are sent as one text. */
  readonly heads: HeadTexts;
  /** Streams that do not end by themselves. They are ended when the server stops. */
  readonly endless: Set<EndlessChunks>;
  /** Watches how fast a client reads a response that the kernel did not accept at once. */
  watchReading(socket: Socket, outgoing?: SentMessage): void;
  /** Called when a response has ended. */
  readonly onOver: (this: SentMessage) => void;
}

const UPGRADE_REQUIRED = 426;

/**
 * Sends a response. `isLast`: whether it is the last of its connection. Returns a promise if the body is
 * large or in chunks. It resolves when the body is sent, and rejects with the error of its source.
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
  if (length > SLICE_BYTES || req.method === 'HEAD')
    return sendLong(outgoing, response, body, length, req, isLast, sending);
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
  if (isAscii)
    // for ASCII, latin1 gives the same bytes as UTF-8, and needs no conversion
    outgoing.end(body, 'latin1');
  else outgoing.end(body);
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
  return undefined;
}

/**
 * Sends the head of a response. If the head has characters beyond ASCII, it is sent at once, encoded in
 * Latin-1. Together with a text body, node:http would encode it in UTF-8.
 */
function begin(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
  length: number,
): void {
  // this response has a field `Connection`, so node:http keeps the connection open even if the client has
  // asked to close it
  if (response.status === UPGRADE_REQUIRED && !keepsConnection(outgoing.req)) isLast = true;
  outgoing.writeHead(response.status, headOf(response, req, isLast, sending, length));
  outgoing.on('close', sending.onOver);
  if (!response.hasAsciiFields && response.body !== null) outgoing.write('', 'latin1');
}

/** Sends a response without content, or with content in chunks. */
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

/** Whether a client understands chunked coding, by the rule of node:http. */
function takesChunks({ httpVersionMinor, rawHeaders }: IncomingMessage): boolean {
  return httpVersionMinor > 0 || /\bchunked\b/i.test(findField(rawHeaders, 'te') ?? '');
}

/** Sends a long body in slices; for HEAD, only the head. */
function sendLong(
  outgoing: SentMessage,
  response: HttpResponse,
  body: string | Uint8Array,
  length: number,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
): Promise<void> | undefined {
  begin(outgoing, response, req, isLast, sending, length);
  if (req.method === 'HEAD') return void endEmpty(outgoing, sending);
  sending.watchReading(outgoing.req.socket, outgoing);
  return sendChunks(outgoing, slicesOf(body, length === body.length), -1);
}

/**
 * Ends a response that has only a head. It is watched as well, because it may wait after an earlier response
 * that the client does not read.
 */
function endEmpty(outgoing: SentMessage, sending: Sending): void {
  outgoing.end();
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
}

/**
 * The header fields for node:http, in a new list, because a response may be sent more than once. The request
 * id replaces one that an upstream server has set. A negative `length` is not sent. Content-Length must be
 * the last field: after it, node:http would convert the characters of Content-Disposition, as if they were
 * bytes in UTF-8.
 */
function headOf(
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
  length: number,
): string[] {
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
    // a response with Upgrade must name it here (RFC 9110 §7.8)
    head.push('Connection', isLast ? 'Upgrade, close' : 'Upgrade');
  else if (isLast) head.push('Connection', 'close');
  return head;
}

/** Whether cookies whose `Secure` is not decided get it. */
function isSecured(response: HttpResponse, req: SentTo, { securesCookies }: Sending): boolean {
  return response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
}

/**
 * Sends the last response of a connection that node:http no longer handles, because a request has asked for
 * another protocol. Resolves when the response has ended, and rejects with the error of its source.
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
  // for connections that node:http handles, it does both itself
  socket.on('drain', () => outgoing.emit('drain'));
  outgoing.once('finish', () => socket.destroySoon());
  return Promise.resolve(send(outgoing, response, req, true, sending)).then(() => over);
}

/**
 * Sends a body in chunks, after the head. Resolves when it is sent, and rejects with the error of its source.
 */
function sendStream(
  outgoing: SentMessage,
  body: Chunks,
  announced: number,
  sending: Sending,
): Promise<void> | undefined {
  if (!outgoing.destroyed) sending.watchReading(outgoing.req.socket, outgoing);
  if (body instanceof EndlessChunks) return sendEndless(outgoing, body, sending);
  if (!(body instanceof FileBody) || outgoing.destroyed)
    return sendChunks(outgoing, iterate(body), announced);
  return body.sendTo(outgoing);
}

function sendEndless(
  outgoing: SentMessage,
  chunks: EndlessChunks,
  { endless }: Sending,
): Promise<void> | undefined {
  endless.add(chunks);
  outgoing.once('close', () => endless.delete(chunks));
  // the cast is safe: the iterator is the source itself, which this call marks as read
  const source = chunks[Symbol.asyncIterator]() as unknown as ChunkIterator;
  const isOurs = 'writeShared' in outgoing; // false if another server has created the message
  if (outgoing.destroyed || !isOurs || !chunks.attach(outgoing)) return sendChunks(outgoing, source, -1);
  outgoing.once('close', () => chunks.return());
  return undefined;
}

/**
 * Number of bytes that one response sends before other work may run. Without this pause, a source that always
 * has data would block the process.
 */
const TURN_BYTES = 1_048_576;
/** Cost of a chunk in addition to its bytes, in bytes. */
const CHUNK_COST = 64;

/** Length of a slice of text in UTF-16 units, each of which becomes at most three bytes. */
const SLICE_CHARACTERS = Math.floor(SLICE_BYTES / 3);

/** Sends the chunks of a source. `announced`: its Content-Length, or -1 if unknown. */
async function sendChunks(outgoing: ServerResponse, source: ChunkIterator, announced: number): Promise<void> {
  let ending: Promise<unknown> | undefined;
  const end = (): void => {
    ending ??= Promise.try(() => source.return?.());
    ending.catch(ignore); // the rejection is handled below; without this line it would end the process before
  };
  if (outgoing.destroyed) {
    end();
    await ending;
    return;
  }
  outgoing.once('close', end); // ends the source at once, because its next chunk may never come
  try {
    await writeAll(outgoing, source, announced);
    outgoing.off('close', end);
    if (outgoing.destroyed) end();
    else outgoing.end();
  } catch (error) {
    if (outgoing.destroyed && isAbort(error)) return;
    end();
    // waits until the output of this turn was sent: if a client receives nothing, it assumes that the request
    // was not handled
    await nextTurn();
    outgoing.destroy();
    throw error;
  }
  await ending;
}

/**
 * Writes every chunk. Before each, waits until the stream accepts more data.
 * @throws SvcError `E_STREAM` for a value that is not a chunk, and if the total differs from `announced`
 */
async function writeAll(outgoing: ServerResponse, source: ChunkIterator, announced: number): Promise<void> {
  let sent = 0;
  for (let burst = 0; ;) {
    const next = source.next();
    const step = isPending(next) ? await next : next;
    if (outgoing.destroyed) return;
    if (step.done === true) break;
    const chunk = checkedChunk(step.value);
    if (announced >= 0) {
      sent += typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.length;
      // the client would read the excess bytes as its next response
      if (sent > announced) throw lengthError(announced, sent);
    }
    if (chunk.length > SLICE_BYTES) await writeSlices(outgoing, chunk);
    else if (chunk.length !== 0 && !outgoing.write(chunk)) await writable(outgoing);
    burst += chunk.length + CHUNK_COST;
    if (burst < TURN_BYTES) continue;
    burst = 0;
    await nextTurn();
  }
  if (sent < announced) throw lengthError(announced, sent); // the client would wait for the missing bytes
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

async function writeSlices(outgoing: ServerResponse, chunk: Chunk): Promise<void> {
  for (const slice of slicesOf(chunk)) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(slice)) await writable(outgoing);
  }
}

/**
 * Splits a chunk into slices that may be written at once. Slices of a text stay text, which node:http encodes
 * when it writes them. Encoding the whole text at once would need as much memory again while the client
 * reads, and cause more garbage collection (test/bench/streams.ts --only=long). `isAscii`: whether all
 * characters are ASCII.
 */
export function* slicesOf(chunk: Chunk, isAscii = false): Generator<Chunk, void, undefined> {
  if (typeof chunk !== 'string') {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) yield chunk.subarray(at, at + SLICE_BYTES);
    return;
  }
  const most = isAscii ? SLICE_BYTES : SLICE_CHARACTERS;
  for (let at = 0, end: number; at < chunk.length; at = end) {
    end = at + most;
    // keeps the two halves of a surrogate pair together
    if (!isAscii && isHighSurrogate(chunk.charCodeAt(end - 1))) end--;
    yield chunk.slice(at, end);
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/**
 * Whether an error is the reaction of a source to `req.signal`. If the client has left, such an error is no
 * failure.
 */
function isAbort(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError');
}
