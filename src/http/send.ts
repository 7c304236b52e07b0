/**
 * Sending: an HttpResponse onto node:http's ServerResponse, with one `writeHead` and one `end` where the body is known.
 *
 * Pieces are pulled one at a time and wait for the client (back-pressure). When the client leaves, their source is ended;
 * when the source fails after the head has gone, the connection is cut, so that the client sees a truncated answer.
 */
import { ClientDisconnected } from '../errors.ts';
import { FileBody } from './file-body.ts';
import { findField } from './headers.ts';
import { EndlessPieces, checkedPiece, discard, ignore, isPending, isPieces, iterate, lengthError } from './pieces.ts';
import { hasNoContent } from './response.ts';
import type { ServerResponse } from 'node:http';
import type { SentMessage } from './outgoing.ts';
import type { Piece, PieceIterator } from './pieces.ts';
import type { RequestIdentity } from './request-id.ts';
import type { HttpResponse } from './response.ts';
import type { SlowReaders } from './slow-readers.ts';

/** What is answered, as far as its answer depends on it. */
export interface SentTo {
  readonly method: string;
  readonly id: string;
  /** The field that tells it. */
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

/** What holds for every answer of a server. */
export interface Sending {
  /** Whether cookies that wait for it get `Secure` even without TLS. */
  readonly securesCookies: boolean;
  /** Watches the answers that are not taken at once. */
  readonly slow: SlowReaders;
  /** The streams that have no end of their own: for a server that stops. */
  readonly endless: Set<EndlessPieces>;
}

const UPGRADE_REQUIRED = 426;

/** The most bytes that are written at once: what a client has taken of more than that could not be told. */
const SLICE_BYTES = 131_072;

/**
 * Sends the answer; `isLast` says whether it is the connection's last one. A promise comes back for pieces and large bodies: it settles when they are sent, and rejects with what
 * their source threw.
 */
export function send(outgoing: SentMessage, response: HttpResponse, req: SentTo, isLast: boolean, sending: Sending): Promise<void> | undefined {
  const { status, body } = response;
  const isHead = req.method === 'HEAD';
  if (hasNoContent(status) || body === null) {
    const length = hasNoContent(status) ? (status === 205 ? 0 : -1) : isHead ? Math.max(0, response.contentLength) : 0;
    outgoing.writeHead(status, headOf(response, req, isLast, sending, length));
    outgoing.end();
    return isPieces(body) ? discard(body) : undefined;
  }
  if (isPieces(body)) {
    outgoing.writeHead(status, headOf(response, req, isLast, sending, response.contentLength));
    if (isHead) outgoing.end();
    else if (body instanceof EndlessPieces) return sendEndless(outgoing, body, sending, req.id);
    else if (!(body instanceof FileBody) || outgoing.destroyed) return sendPieces(outgoing, iterate(body), response.contentLength, sending.slow, req.id);
    else {
      sending.slow.watch(outgoing, req.id);
      return body.sendTo(outgoing);
    }
    return discard(body);
  }
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  if (isHead || length > SLICE_BYTES) {
    outgoing.writeHead(status, headOf(response, req, isLast, sending, length));
    if (!isHead) return sendPieces(outgoing, [body].values(), length, sending.slow, req.id);
    outgoing.end();
    return undefined;
  }
  const isAscii = length === body.length && response.isAsMade;
  const head = headOf(response, req, isLast, sending, -1);
  if (isDisposed(head)) sendCounted(outgoing, status, head, body, length);
  else outgoing.sendWhole(status, head, body, isAscii);
  if (outgoing.writableLength !== 0) sending.slow.watch(outgoing, req.id);
  return undefined;
}

/**
 * The fields as node:http takes them, in a copy: an answer may be sent more than once. Its request id is ours, whatever an
 * upstream has set; a `length` below 0 is not sent.
 */
function headOf(response: HttpResponse, req: SentTo, isLast: boolean, { securesCookies }: Sending, length: number): string[] {
  const { field: idField, name } = req.identity;
  const isSecure = response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
  let fields = response.fields(isSecure);
  if (findField(fields, name) !== undefined) {
    response.headers.delete(idField);
    fields = response.fields(isSecure);
  }
  let head: (string | number)[];
  if (fields.length === 2 && length < 0) head = [fields[0]!, fields[1]!, idField, req.id]; // what most answers are: one allocation
  else {
    head = [...fields, idField, req.id];
    if (length >= 0) head.push('Content-Length', length);
  }
  if (response.status === UPGRADE_REQUIRED) head.push('Connection', isLast ? 'Upgrade, close' : 'Upgrade'); // it names its Upgrade (RFC 9110 §7.8)
  else if (isLast) head.push('Connection', 'close');
  return head as string[]; // the type has no numbers; node:http takes them
}

/** Whether it names a file: node:http, once it knows the length, takes the characters of that field for bytes in UTF-8. */
function isDisposed(head: readonly string[]): boolean {
  return findField(head, 'content-disposition') !== undefined;
}

/** The length comes last, when the other fields have been written. */
function sendCounted(outgoing: ServerResponse, status: number, head: string[], body: string | Uint8Array, length: number): void {
  head.push('Content-Length', String(length));
  outgoing.writeHead(status, head);
  outgoing.end(body);
}

function sendEndless(outgoing: ServerResponse, pieces: EndlessPieces, { endless, slow }: Sending, id: string): Promise<void> | undefined {
  endless.add(pieces);
  outgoing.once('close', () => endless.delete(pieces));
  const source = pieces[Symbol.asyncIterator]() as unknown as PieceIterator; // itself, which is taken now
  if (outgoing.destroyed || !pieces.attach(outgoing)) return sendPieces(outgoing, source, -1, slow, id);
  slow.watch(outgoing, id);
  outgoing.once('close', () => pieces.return());
  return undefined;
}

/** Bytes that are sent before others get a turn: a source that is always ready would keep the process to itself. */
const TURN_BYTES = 1_048_576;
/** What a piece counts for besides its bytes. */
const PIECE_COST = 64;

async function sendPieces(outgoing: ServerResponse, source: PieceIterator, announced: number, slow: SlowReaders, id: string): Promise<void> {
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
  slow.watch(outgoing, id);
  outgoing.once('close', end); // at once, not with the next piece, which may never come
  try {
    await writeAll(outgoing, source, announced);
    outgoing.off('close', end);
    if (outgoing.destroyed) end();
    else outgoing.end();
  } catch (error) {
    if (outgoing.destroyed && isAbort(error)) return;
    end();
    outgoing.destroy();
    throw error;
  }
  await ending;
}

/** Every piece, each when there is room for it. @throws SvcError `E_STREAM` for what is no piece, and for more or less than was announced */
async function writeAll(outgoing: ServerResponse, source: PieceIterator, announced: number): Promise<void> {
  let sent = 0;
  for (let burst = 0; ;) {
    const next = source.next();
    const step = isPending(next) ? await next : next;
    if (outgoing.destroyed) return;
    if (step.done === true) break;
    const piece = checkedPiece(step.value);
    if (announced >= 0) {
      sent += typeof piece === 'string' ? Buffer.byteLength(piece) : piece.length;
      if (sent > announced) throw lengthError(announced, sent); // the rest would be read as the next answer
    }
    if (piece.length > SLICE_BYTES) await writeSlices(outgoing, piece);
    else if (piece.length !== 0 && !outgoing.write(piece)) await writable(outgoing);
    burst += piece.length + PIECE_COST;
    if (burst < TURN_BYTES) continue;
    burst = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (sent < announced) throw lengthError(announced, sent); // the client would wait for the rest
}

async function writeSlices(outgoing: ServerResponse, piece: Piece): Promise<void> {
  const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece;
  for (let at = 0; at < bytes.length && !outgoing.destroyed; at += SLICE_BYTES) {
    if (!outgoing.write(bytes.subarray(at, at + SLICE_BYTES))) await writable(outgoing);
  }
}

/** How a source stops that listens to `req.signal`: no failure once the client has left. */
function isAbort(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError');
}

/** Resolves when more can be written, or when nothing can any more. */
function writable(outgoing: ServerResponse): Promise<void> {
  if (outgoing.destroyed) return Promise.resolve(); // "close" may have been told already
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off('drain', done).off('close', done);
      resolve();
    };
    outgoing.on('drain', done).on('close', done);
  });
}
