/**
 * Sending: an HttpResponse onto node:http's ServerResponse, with one `writeHead` and one `end` where the body is known. One in pieces,
 * or a large one, goes on in send-chunks.ts.
 */
import { Buffer } from 'node:buffer'; // the global of that name is a getter, which is called for each answer
import { findField } from '../headers.ts';
import { discard, isChunks } from '../chunks.ts';
import { hasNoContent } from '../response.ts';
import { sendChunks, sendStream, slicesOf } from './send-chunks.ts';
import { SLICE_BYTES } from './slow-readers.ts';
import type { ServerResponse } from 'node:http';
import type { SentMessage } from './fast-path/outgoing.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { HttpResponse } from '../response.ts';
import type { Sending } from './send-chunks.ts';

/** What is answered, as far as its answer depends on it. */
export interface SentTo {
  readonly method: string;
  readonly id: string;
  /** The field that tells it. */
  readonly identity: Pick<RequestIdentity, 'field' | 'name'>;
  readonly scheme: 'http' | 'https';
}

const UPGRADE_REQUIRED = 426;

/**
 * Sends the answer; `isLast` says whether it is the connection's last one. A promise comes back for pieces and large bodies: it settles when they are sent, and rejects with what
 * their source threw.
 */
export function send(
  outgoing: SentMessage,
  response: HttpResponse,
  req: SentTo,
  isLast: boolean,
  sending: Sending,
): Promise<void> | undefined {
  const { status, body } = response;
  const isHead = req.method === 'HEAD';
  if (status === UPGRADE_REQUIRED && !outgoing.shouldKeepAlive) isLast = true; // node:http leaves a connection open whose field `Connection` it is given, whatever the client said
  if (hasNoContent(status) || body === null) {
    const length = hasNoContent(status)
      ? status === 205
        ? 0
        : -1
      : isHead
        ? Math.max(0, response.contentLength)
        : 0;
    outgoing.writeHead(status, headOf(response, req, isLast, sending, length));
    endEmpty(outgoing, req.id, sending);
    return isChunks(body) ? discard(body) : undefined;
  }
  if (isChunks(body)) {
    begin(outgoing, response, headOf(response, req, isLast, sending, response.contentLength));
    if (response.contentLength < 0 && !outgoing.chunkedEncoding) outgoing.endsWithConnection = !isHead;
    if (!isHead) return sendStream(outgoing, body, response.contentLength, sending, req.id);
    endEmpty(outgoing, req.id, sending);
    return discard(body);
  }
  const length = typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength;
  if (isHead || length > SLICE_BYTES) {
    begin(outgoing, response, headOf(response, req, isLast, sending, length));
    if (!isHead)
      return sendChunks(outgoing, slicesOf(body, length === body.length), -1, sending.slow, req.id);
    endEmpty(outgoing, req.id, sending);
    return undefined;
  }
  const isAscii = length === body.length;
  if (typeof body === 'string' && !isLast && status !== UPGRADE_REQUIRED && outgoing.takesText) {
    const head = sending.heads.of(response, req.identity, req.id, isSecured(response, req, sending), length);
    if (head !== '') {
      outgoing.writeText(status, head + body, isAscii);
      sending.slow.watchSent(outgoing, req.id);
      return undefined;
    }
  }
  const head = headOf(response, req, isLast, sending, -1);
  if (!outgoing.useChunkedEncodingByDefault || isDisposed(head) || !response.hasAsciiFields)
    sendCounted(outgoing, response, head, body, length);
  else outgoing.sendWhole(status, head, body, isAscii);
  sending.slow.watchSent(outgoing, req.id);
  return undefined;
}

/** Ends an answer that is all head: behind an answer that its client has not taken yet it waits, too. */
function endEmpty(outgoing: SentMessage, id: string, { slow }: Sending): void {
  outgoing.end();
  slow.watchSent(outgoing, id);
}

/**
 * The fields as node:http takes them, in a copy: an answer may be sent more than once. Its request id is ours, whatever an
 * upstream has set; a `length` below 0 is not sent.
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
  const head: (string | number)[] = [...fields, idField, req.id];
  if (length >= 0) head.push('Content-Length', length);
  if (response.status === UPGRADE_REQUIRED)
    head.push('Connection', isLast ? 'Upgrade, close' : 'Upgrade'); // it names its Upgrade (RFC 9110 §7.8)
  else if (isLast) head.push('Connection', 'close');
  return head as string[]; // the type has no numbers; node:http takes them
}

/** Whether cookies that wait for it get `Secure`. */
function isSecured(response: HttpResponse, req: SentTo, { securesCookies }: Sending): boolean {
  return response.hasWaitingCookies && (securesCookies || req.scheme === 'https');
}

/** Sends the head of an answer with content. node:http makes UTF-8 of it with a text behind it: characters of Latin-1, each of them one byte, go out before that. */
function begin(outgoing: ServerResponse, response: HttpResponse, head: string[]): void {
  outgoing.writeHead(response.status, head);
  if (!response.hasAsciiFields) outgoing.write('', 'latin1');
}

/** Whether it names a file: node:http, once it knows the length, takes the characters of that field for bytes in UTF-8. */
function isDisposed(head: readonly string[]): boolean {
  return findField(head, 'content-disposition') !== undefined;
}

/** The length comes last, when the other fields have been written. To HTTP/1.0 node:http sends none by itself, and ends the connection for want of it. */
function sendCounted(
  outgoing: ServerResponse,
  response: HttpResponse,
  head: string[],
  body: string | Uint8Array,
  length: number,
): void {
  head.push('Content-Length', String(length));
  begin(outgoing, response, head);
  outgoing.end(body);
}
