/**
 * Sending: an HttpResponse onto node:http's ServerResponse, with one `writeHead` and one `end` where the body is known.
 *
 * Pieces are pulled one at a time and wait for the client (back-pressure). When the client leaves, their source is ended;
 * when the source fails after the head has gone, the connection is cut, so that the client sees a truncated answer.
 */
import { ClientDisconnected } from '../errors.ts';
import { FileBody } from './file-body.ts';
import { findField } from './headers.ts';
import type { ServerResponse } from 'node:http';
import type { RequestIdentity } from './request-id.ts';
import type { HttpResponse, Pieces } from './response.ts';

/** What is answered, as far as its answer depends on it. */
export interface SentTo {
  readonly method: string;
  readonly id: string;
  /** The field that tells it. */
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

/** Statuses whose answers have no content (RFC 9110 §6.4.1). */
const hasNoContent = (status: number): boolean => status === 204 || status === 304 || status === 205;

/**
 * Sends the answer. `isLast` says whether it is the connection's last one; `securesCookies` whether cookies that wait for it
 * get `Secure` even without TLS. A promise comes back for pieces only: it settles when they are sent, and rejects with what their
 * source threw.
 */
export function send(outgoing: ServerResponse, response: HttpResponse, req: SentTo, isLast: boolean, securesCookies: boolean): Promise<void> | undefined {
  const { status, body } = response;
  const isHead = req.method === 'HEAD';
  if (hasNoContent(status) || body === null) {
    const length = hasNoContent(status) ? (status === 205 ? 0 : -1) : isHead ? Math.max(0, response.contentLength) : 0;
    outgoing.writeHead(status, headOf(response, req, isLast, securesCookies, length));
    outgoing.end();
    return isPieces(body) ? discard(body) : undefined;
  }
  if (isPieces(body)) {
    outgoing.writeHead(status, headOf(response, req, isLast, securesCookies, response.contentLength));
    if (!isHead) return body instanceof FileBody && !outgoing.destroyed ? body.sendTo(outgoing) : sendPieces(outgoing, body);
    outgoing.end();
    return discard(body);
  }
  outgoing.writeHead(status, headOf(response, req, isLast, securesCookies, typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength));
  if (isHead) outgoing.end();
  else outgoing.end(body);
  return undefined;
}

/**
 * The fields as node:http takes them, in a copy: an answer may be sent more than once. Its request id is ours, whatever an
 * upstream has set; a `length` below 0 is not sent.
 */
function headOf(response: HttpResponse, req: SentTo, isLast: boolean, securesCookies: boolean, length: number): string[] {
  const { field: idField, name } = req.identity;
  const isSecure = response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
  let fields = response.fields(isSecure);
  if (findField(fields, name) !== undefined) {
    response.headers.delete(idField);
    fields = response.fields(isSecure);
  }
  let head: (string | number)[];
  if (fields.length === 2 && length >= 0) head = [fields[0]!, fields[1]!, idField, req.id, 'Content-Length', length]; // what most answers are: one allocation
  else {
    head = [...fields, idField, req.id];
    if (length >= 0) head.push('Content-Length', length);
  }
  if (isLast) head.push('Connection', 'close');
  return head as string[]; // the type has no numbers; node:http takes them
}

export function isPieces(body: HttpResponse['body']): body is Pieces {
  return typeof body === 'object' && body !== null && !(body instanceof Uint8Array);
}

/** Ends a source that nobody will read. */
export async function discard(pieces: Pieces): Promise<void> {
  if (Symbol.asyncIterator in pieces) await pieces[Symbol.asyncIterator]().return?.();
  else pieces[Symbol.iterator]().return?.();
}

async function sendPieces(outgoing: ServerResponse, pieces: Pieces): Promise<void> {
  if (outgoing.destroyed) return discard(pieces);
  // more than was announced would be read as the next answer, less would keep the client waiting
  outgoing.strictContentLength = true;
  const source = Symbol.asyncIterator in pieces ? pieces[Symbol.asyncIterator]() : pieces[Symbol.iterator]();
  let ending: Promise<unknown> | undefined;
  const end = (): void => {
    ending ??= Promise.try(() => source.return?.());
    ending.catch(() => undefined); // awaited below, unless the source never answers
  };
  outgoing.once('close', end); // at once, not with the next piece, which may never come
  try {
    for (let step = await source.next(); step.done !== true; step = await source.next()) {
      if (outgoing.destroyed) break;
      if (step.value.length !== 0 && !outgoing.write(step.value)) await writable(outgoing);
    }
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

/** How a source stops that listens to `req.signal`: no failure once the client has left. */
function isAbort(error: unknown): boolean {
  return error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError');
}

/** Resolves when more can be written, or when nothing can any more. */
function writable(outgoing: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      outgoing.off('drain', done).off('close', done);
      resolve();
    };
    outgoing.on('drain', done).on('close', done);
  });
}
