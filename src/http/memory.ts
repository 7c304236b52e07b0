/**
 * The transport without a socket: a web `Request` in, a web `Response` out, through the same request class and pipeline.
 * For tests, and for runtimes that speak fetch.
 */
import { EventEmitter } from 'node:events';
import { Readable } from 'node:stream';
import { ClientDisconnected } from '../errors.ts';
import { checkedPiece, discard, ignore, isPieces, iterate } from './pieces.ts';
import { TransportRequest } from './request.ts';
import type { Pieces } from './pieces.ts';
import type { Incoming, Outgoing } from './request.ts';
import type { HttpResponse } from './response.ts';
import type { ServedApplication } from './server.ts';

/** A received message made from a web `Request`. */
class MemoryIncoming extends Readable implements Incoming {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly socket: { readonly remoteAddress: string; readonly encrypted: boolean };
  complete = false;
  readonly #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;

  constructor(request: Request, remoteAddress: string) {
    super();
    const url = new URL(request.url);
    const rawHeaders: string[] = request.headers.has('host') ? [] : ['host', url.host];
    request.headers.forEach((value, name) => rawHeaders.push(name, value));
    this.method = request.method;
    this.url = url.pathname + url.search;
    this.rawHeaders = rawHeaders;
    this.socket = { remoteAddress, encrypted: url.protocol === 'https:' };
    this.#reader = request.body?.getReader();
    this.complete = this.#reader === undefined;
    request.signal.addEventListener('abort', () => this.destroy(new ClientDisconnected()), { once: true });
    this.on('error', () => { /* told to whoever reads; nobody else is interested */ });
  }

  override _read(): void {
    if (this.#reader === undefined) this.push(null);
    else {
      this.#reader.read().then(({ done, value }) => {
        if (done) this.complete = true;
        this.push(done ? null : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
      }).catch(() => this.destroy(new ClientDisconnected()));
    }
  }
}

class MemoryOutgoing extends EventEmitter implements Outgoing {
  writableFinished = false;
  destroyed = false;

  /** The answer is complete, or nobody wants it any more. */
  close(isFinished: boolean): void {
    this.destroyed = true;
    this.writableFinished = isFinished;
    this.emit('close');
  }
}

/** Told how an answer ended: whole, or not, and why if it was not the client. */
type Close = (isFinished: boolean, failure?: unknown) => Promise<void>;

/**
 * Answers a web request. The promise resolves with the head; what the request left for afterwards has run by then, unless
 * the body comes in pieces: then it runs when they are read, or cancelled.
 */
export async function answerInMemory(app: ServedApplication, request: Request, remoteAddress = ''): Promise<Response> {
  const outgoing = new MemoryOutgoing();
  const req = new TransportRequest(new MemoryIncoming(request, remoteAddress), outgoing, app.defaults);
  req.startedMs = app.clock.monotonicMs();
  const close: Close = async (isFinished, failure) => {
    if (outgoing.destroyed) return;
    req.failure = failure;
    outgoing.close(isFinished);
    if (req.isAnswered) await app.finish(req, isFinished ? undefined : failure ?? new ClientDisconnected());
  };
  request.signal.addEventListener('abort', () => void close(false), { once: true });
  const response = await app.handle(req);
  req.isAnswered = true;
  app.count(req, response, app.clock.monotonicMs() - req.startedMs);
  const headers = new Headers();
  const fields = response.fields(app.securesCookies || req.scheme === 'https');
  for (let index = 0; index < fields.length; index += 2) headers.append(fields[index]!, fields[index + 1]!);
  headers.set(req.idField, req.id);
  const { status } = response;
  const isEmpty = req.method === 'HEAD' || status === 204 || status === 205 || status === 304;
  const length = lengthOf(response, req.method === 'HEAD');
  if (length >= 0 && status !== 204 && status !== 304) headers.set('Content-Length', String(length));
  if (outgoing.destroyed) await app.finish(req, new ClientDisconnected()); // it left while the handler ran
  const { body } = response;
  if (isPieces(body)) {
    if (!isEmpty) return new Response(streamOf(body, request.signal, close), { status, headers });
    await discard(body);
  }
  await close(true);
  return new Response(isEmpty ? null : body as string | Uint8Array<ArrayBuffer> | null, { status, headers }); // pieces have left above
}

function lengthOf(response: HttpResponse, isHead: boolean): number {
  const { body } = response;
  if (body === null) return isHead ? Math.max(0, response.contentLength) : 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  return isPieces(body) ? response.contentLength : body.byteLength;
}

/** Pieces as a web stream; `close` is told how it ended. Aborting ends the source, as a client that leaves does. */
function streamOf(pieces: Pieces, signal: AbortSignal, close: Close): ReadableStream<Uint8Array> {
  const iterator = iterate(pieces);
  return new ReadableStream<Uint8Array>({
    start(controller) {
      const abort = (): void => {
        controller.error(signal.reason);
        Promise.try(() => iterator.return?.()).catch(ignore);
      };
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort, { once: true });
    },
    async pull(controller) {
      try {
        const { done, value } = await iterator.next();
        if (done !== true) {
          const piece = checkedPiece(value);
          return controller.enqueue(typeof piece === 'string' ? Buffer.from(piece) : piece);
        }
        await close(true);
        controller.close();
      } catch (error) {
        Promise.try(() => iterator.return?.()).catch(ignore); // `error` is the one to tell
        await close(false, error);
        controller.error(error);
      }
    },
    async cancel() {
      await iterator.return?.();
      await close(false);
    },
  }, { highWaterMark: 0 }); // nothing is pulled, and no file opened, for an answer that nobody reads
}
