/**
 * Sending: an HttpResponse onto node:http's ServerResponse, with one `writeHead` and one `end` where the body is known.
 *
 * Bodies in chunks, and large ones, are pulled one chunk at a time and wait for the client (back-pressure). When the client leaves,
 * their source is ended; when the source fails after the head has gone, the connection is cut, so that the client sees a truncated answer.
 */
import { Buffer } from 'node:buffer'; // the global of that name is a getter, which is called for each answer
import { Writable } from 'node:stream';
import { http } from '../../base/node-http.ts';
import { systemClock } from '../../base/clock.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { ignore } from '../../base/promises.ts';
import { FileBody } from '../files/body.ts';
import { findField, httpDate } from '../headers.ts';
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
import { reset } from './fast-path/internals.ts';
import { keepsConnection } from './request-head.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { HeadTexts, SentMessage } from './fast-path/internals.ts';
import type { Chunk, ChunkIterator, Chunks } from '../chunks.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';

/** What is answered, as far as its answer depends on it. */
interface SentTo {
  readonly method: string;
  readonly id: string;
  /** The field that tells it. */
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

/** Settings of all responses of a server. */
export interface Sending {
  /** Whether cookies that wait for it get `Secure` even without TLS. */
  readonly securesCookies: boolean;
  /** Writes the heads of answers that are sent as one text. */
  readonly heads: HeadTexts;
  /** The streams that have no end of their own: for a server that stops. */
  readonly endless: Set<EndlessChunks>;
  /** Watches how fast a client takes what is not taken at once. */
  watchReading(socket: Socket, outgoing?: SentMessage): void;
  /** Called when nothing more goes out of an answer. */
  readonly onOver: (this: SentMessage) => void;
}

const UPGRADE_REQUIRED = 426;

/**
 * Sends the answer; `isLast` says whether it is the connection's last one. A promise comes back for chunks and large bodies: it
 * settles when they are sent, and rejects with what their source threw.
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
    outgoing.end(body, 'latin1'); // latin1 gives the bytes of UTF-8 here, and copies instead of converting
  else outgoing.end(body);
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
  return undefined;
}

/** Sends the head of an answer. node:http makes UTF-8 of it with a text behind it: characters of Latin-1, each of them one byte, go out before that. */
function begin(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
  length: number,
): void {
  if (response.status === UPGRADE_REQUIRED && !keepsConnection(outgoing.req)) isLast = true; // node:http leaves a connection open whose field `Connection` it is given, whatever the client said
  outgoing.writeHead(response.status, headOf(response, req, isLast, sending, length));
  outgoing.on('close', sending.onOver);
  if (!response.hasAsciiFields && response.body !== null) outgoing.write('', 'latin1');
}

/** Sends an answer without content, or with one in chunks. */
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

/** Whether a client takes chunked coding, as node:http sees it. */
function takesChunks({ httpVersionMinor, rawHeaders }: IncomingMessage): boolean {
  return httpVersionMinor > 0 || /\bchunked\b/i.test(findField(rawHeaders, 'te') ?? '');
}

/** Sends a long body in slices, and the head alone for HEAD. */
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

/** Ends an answer that is all head: behind an answer that its client has not taken yet it waits, too. */
function endEmpty(outgoing: SentMessage, sending: Sending): void {
  outgoing.end();
  if (outgoing.writableLength !== 0) sending.watchReading(outgoing.req.socket, outgoing);
}

/**
 * The fields as node:http takes them, in a copy: an answer may be sent more than once. Its request id is ours, whatever an
 * upstream has set; a `length` below 0 is not sent. It comes behind the other fields: node:http, once it knows the length, takes
 * the characters of Content-Disposition for bytes in UTF-8.
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
    head.push('Connection', isLast ? 'Upgrade, close' : 'Upgrade'); // it names its Upgrade (RFC 9110 §7.8)
  else if (isLast) head.push('Connection', 'close');
  return head;
}

/** Whether cookies that wait for it get `Secure`. */
function isSecured(response: HttpResponse, req: SentTo, { securesCookies }: Sending): boolean {
  return response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
}

/**
 * Sends the last answer of a connection that node:http has given up, as it has those that ask for another protocol. A body of
 * unknown length ends with the connection. Settles when the answer is over, and rejects with what its source threw.
 */
export function sendLast(
  socket: Socket,
  response: HttpResponse,
  req: SentTo,
  sending: Sending,
): Promise<void> {
  const { status, body, contentLength } = response;
  const hasContent = body !== null && !hasNoContent(status);
  const isCounted = hasContent && !isChunks(body);
  const length = isCounted
    ? Buffer.byteLength(body)
    : hasContent
      ? contentLength
      : status === 204 || status === 304
        ? -1
        : 0;
  const fields = headOf(response, req, true, sending, length);
  let head = `HTTP/1.1 ${status} ${http.STATUS_CODES[status] ?? 'unknown'}\r\nDate: ${httpDate(systemClock.nowMs())}\r\n`;
  for (let index = 0; index < fields.length; index += 2)
    head += `${fields[index]!}: ${fields[index + 1]!}\r\n`;
  socket.write(`${head}\r\n`, 'latin1');
  sending.watchReading(socket);
  const outgoing = new LastAnswer(socket, hasContent && length < 0);
  const over = new Promise<void>((resolve) => outgoing.once('close', resolve));
  outgoing.on('error', ignore); // "close" follows
  if (isCounted && length > SLICE_BYTES)
    return sendChunks(outgoing, slicesOf(body, length === body.length), -1).then(() => over);
  if (!isChunks(body)) outgoing.end(isCounted ? body : undefined);
  else if (!hasContent) {
    outgoing.end();
    return discard(body).then(() => over);
  } else if (body instanceof FileBody)
    return body.sendTo(outgoing as Writable as ServerResponse).then(() => over); // sendTo() uses methods that every stream has
  else return sendChunks(outgoing, iterate(body), contentLength).then(() => over);
  return over;
}

/** The body of the last answer of a connection. */
class LastAnswer extends Writable {
  readonly #socket: Socket;
  readonly #endsWithConnection: boolean;

  constructor(socket: Socket, endsWithConnection: boolean) {
    super({ decodeStrings: false });
    this.#socket = socket;
    this.#endsWithConnection = endsWithConnection;
    socket.once('close', () => this.destroy());
  }

  override _write(
    chunk: string | Uint8Array,
    encoding: BufferEncoding,
    done: (error?: Error | null) => void,
  ): void {
    this.#socket.write(chunk, encoding, done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.#endsWithConnection && !this.writableFinished) reset(this.#socket);
    this.#socket.destroy();
    done(error);
  }
}

/** Sends chunks behind their head. Settles when they are sent, and rejects with what their source threw. */
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
  const source = chunks[Symbol.asyncIterator]() as unknown as ChunkIterator; // itself, which is taken now
  const isOurs = 'writeShared' in outgoing; // and not a message of another server
  if (outgoing.destroyed || !isOurs || !chunks.attach(outgoing)) return sendChunks(outgoing, source, -1);
  outgoing.once('close', () => chunks.return());
  return undefined;
}

/** Bytes that are sent before others get a turn: a source that is always ready would keep the process to itself. */
const TURN_BYTES = 1_048_576;
/** The cost of a chunk besides its bytes. */
const CHUNK_COST = 64;

/** A character has up to three bytes, those of two units four. */
const SLICE_CHARACTERS = Math.floor(SLICE_BYTES / 3);

/** Sends what a source gives: `announced` bytes, or -1 where that is not known. */
async function sendChunks(
  outgoing: ServerResponse | Writable,
  source: ChunkIterator,
  announced: number,
): Promise<void> {
  let ending: Promise<unknown> | undefined;
  const end = (): void => {
    ending ??= Promise.try(() => source.return?.());
    ending.catch(ignore); // awaited below, unless the source never answers
  };
  if (outgoing.destroyed) {
    end();
    await ending;
    return;
  }
  outgoing.once('close', end); // at once, not with the next chunk, which may never come
  try {
    await writeAll(outgoing, source, announced);
    outgoing.off('close', end);
    if (outgoing.destroyed) end();
    else outgoing.end();
  } catch (error) {
    if (outgoing.destroyed && isAbort(error)) return;
    end();
    await nextTurn(); // output of this turn goes out at its end: a client that receives nothing would take the request for one that was never served
    outgoing.destroy();
    throw error;
  }
  await ending;
}

/** Writes every chunk, each when there is room for it. @throws SvcError `E_STREAM` for what is not a chunk, and for more or less than was announced */
async function writeAll(
  outgoing: ServerResponse | Writable,
  source: ChunkIterator,
  announced: number,
): Promise<void> {
  let sent = 0;
  for (let burst = 0; ;) {
    const next = source.next();
    const step = isPending(next) ? await next : next;
    if (outgoing.destroyed) return;
    if (step.done === true) break;
    const chunk = checkedChunk(step.value);
    if (announced >= 0) {
      sent += typeof chunk === 'string' ? Buffer.byteLength(chunk) : chunk.length;
      if (sent > announced) throw lengthError(announced, sent); // the rest would be read as the next answer
    }
    if (chunk.length > SLICE_BYTES) await writeSlices(outgoing, chunk);
    else if (chunk.length !== 0 && !outgoing.write(chunk)) await writable(outgoing);
    burst += chunk.length + CHUNK_COST;
    if (burst < TURN_BYTES) continue;
    burst = 0;
    await nextTurn();
  }
  if (sent < announced) throw lengthError(announced, sent); // the client would wait for the rest
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => void setImmediate(resolve));
}

async function writeSlices(outgoing: ServerResponse | Writable, chunk: Chunk): Promise<void> {
  for (const slice of slicesOf(chunk)) {
    if (outgoing.destroyed) return;
    if (!outgoing.write(slice)) await writable(outgoing);
  }
}

/**
 * In parts that may be written at once. Those of a text stay text, of which node:http makes bytes outside of V8's memory: all of them
 * in a buffer would take as much memory again for as long as the client reads, and have V8 mark its heap every few answers
 * (test/bench/streams.ts --only=long). `isAscii`: bytes are characters.
 */
export function* slicesOf(chunk: Chunk, isAscii = false): Generator<Chunk, void, undefined> {
  if (typeof chunk !== 'string') {
    for (let at = 0; at < chunk.length; at += SLICE_BYTES) yield chunk.subarray(at, at + SLICE_BYTES);
    return;
  }
  const most = isAscii ? SLICE_BYTES : SLICE_CHARACTERS;
  for (let at = 0, end: number; at < chunk.length; at = end) {
    end = at + most;
    if (!isAscii && isHighSurrogate(chunk.charCodeAt(end - 1))) end--; // the other half of the pair follows
    yield chunk.slice(at, end);
  }
}

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** How a source stops that listens to `req.signal`: no failure once the client has left. */
function isAbort(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError');
}
