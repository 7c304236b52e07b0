/**
 * Replies of other forms than reply.ts has most of: bytes, web responses, and what is none.
 */
import { SvcError } from '../errors.ts';
import { formPieces } from './pull-pieces.ts';
import { BYTES_TYPE, HttpResponse, PreparedType, StreamingResponse } from './response.ts';

const BYTES = new PreparedType(BYTES_TYPE);

/** The response of bytes and web responses, undefined for instances of other classes. @throws SvcError `E_REPLY` for what people return by mistake, which would become `{}` */
export function unusualReply(value: object, status: number): HttpResponse | undefined {
  if (value instanceof Uint8Array) return new HttpResponse(value, BYTES.get(status));
  if (value instanceof Response) return fromWeb(value);
  const refuse = (what: string, remedy: string): never => { throw new SvcError('E_REPLY', [`it is ${what}: ${remedy}`]); };
  if (Symbol.asyncIterator in value || value instanceof ReadableStream || typeof (value as Iterator<unknown>).next === 'function') {
    return refuse('a stream or generator', 'wrap it in new StreamingResponse(…)');
  }
  if (value instanceof Map || value instanceof Set) return refuse(`a ${value.constructor.name}`, 'turn it into an object or array first');
  if (value instanceof ArrayBuffer) return refuse('an ArrayBuffer', 'wrap it in a Uint8Array');
  if (value instanceof Blob || value instanceof FormData || value instanceof URLSearchParams) return refuse(`a ${value.constructor.name}`, 'wrap it in new Response(…)');
  if (value instanceof Error) return refuse('an Error', 'throw it instead');
  return undefined;
}

/** Fields between a server and its next neighbour (RFC 9110 §7.6.1): what an upstream says there is not for our client. */
const HOP_BY_HOP = new Set(['connection', 'keep-alive', 'proxy-connection', 'te', 'trailer', 'transfer-encoding', 'upgrade']);

/** What Node makes of FormData. What another Node has made of it and fetch() has got is of another type. */
const FORM = /^multipart\/form-data; boundary=-+formdata-undici-/;

/** A web `Response` as ours; its body is streamed. What fetch() gave has been decoded, so its coding and length are no longer true. */
export function fromWeb(web: Response): HttpResponse {
  const { body, status } = web;
  const response = body === null ? new HttpResponse(null, { status }) : new StreamingResponse(web.type === 'default' && FORM.test(web.headers.get('content-type') ?? '') ? formPieces(body) : body, { status });
  response.headers.delete('Content-Type'); // its own, or none
  const isDecoded = web.type !== 'default' && web.headers.has('content-encoding');
  web.headers.forEach((value, name) => {
    if (HOP_BY_HOP.has(name) || (isDecoded && name === 'content-encoding')) return;
    if (name !== 'content-length') response.headers.append(name, value);
    else if (!isDecoded) response.contentLength = Number(value);
  });
  return response;
}
