/**
 * The transport without a network connection: takes a web `Request`, and returns a web `Response`. Uses the
 * request class and the pipeline of the server. For tests, and for platforms that call a function with a
 * `Request`.
 */
import { EventEmitter } from 'node:events';
import { Readable, duplexPair } from 'node:stream';
import { asBuffer } from '../../base/bytes.ts';
import { ignore } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { checkedChunk, discard, isChunks, iterate } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { hasNoContent, lengthOf } from '../response.ts';
import { asksForWebSocket } from '../websocket/handshake.ts';
import { SwitchingProtocols } from './websockets.ts';
import type { Duplex } from 'node:stream';
import type { Chunks } from '../chunks.ts';
import type { Incoming, Outgoing } from '../request/request.ts';
import type { HttpResponse } from '../response.ts';
import type { ServedApplication } from './server.ts';
import type { WebSocketConnection } from '../websocket/websocket.ts';

/** Receiving side of the transport, made from a web `Request`. */
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
    this.on('error', () => {
      /* without a listener an "error" event would end the process; the reader of the body gets the error */
    });
  }

  override _read(): void {
    if (this.#reader === undefined) this.push(null);
    else {
      this.#reader
        .read()
        .then(({ done, value }) => {
          if (done) this.complete = true;
          this.push(done ? null : asBuffer(value));
        })
        .catch(() => this.destroy(new ClientDisconnected()));
    }
  }
}

class MemoryOutgoing extends EventEmitter implements Outgoing {
  writableFinished = false;
  destroyed = false;

  /** Ends the exchange. `isFinished`: the response is complete; otherwise the client has left. */
  close(isFinished: boolean): void {
    this.destroyed = true;
    this.writableFinished = isFinished;
    this.emit('close');
  }
}

/** Ends a request. Called once its response is complete, or has failed. */
type Close = (isFinished: boolean, failure?: unknown) => Promise<void>;

/**
 * Handles a web request. The promise resolves when status and header fields are known. The callbacks of
 * `afterwards()` have run by then. But if the body is in chunks, they run when it was read or cancelled.
 * `prepare` is called with the request before it is handled.
 */
export async function answerInMemory(
  app: ServedApplication,
  request: Request,
  remoteAddress = '',
  prepare?: (req: TransportRequest) => void,
): Promise<Response> {
  const outgoing = new MemoryOutgoing();
  const req = new TransportRequest(new MemoryIncoming(request, remoteAddress), outgoing, app.defaults);
  req.startedMs = app.clock.monotonicMs();
  prepare?.(req);
  const close: Close = async (isFinished, failure) => {
    if (outgoing.destroyed) return;
    req.failure = failure;
    outgoing.close(isFinished);
    if (req.isAnswered) await app.finish(req, isFinished ? undefined : (failure ?? new ClientDisconnected()));
  };
  if (request.signal.aborted)
    void close(false); // a signal that was aborted before emits no event
  else request.signal.addEventListener('abort', () => void close(false), { once: true });
  return respond(app, request, req, outgoing, await app.handle(req), close);
}

async function respond(
  app: ServedApplication,
  request: Request,
  req: TransportRequest,
  outgoing: MemoryOutgoing,
  response: HttpResponse,
  close: Close,
): Promise<Response> {
  req.isAnswered = true;
  app.count(req, response, app.clock.monotonicMs() - req.startedMs);
  const headers = headersOf(response, app, req);
  const { status } = response;
  const isHead = req.method === 'HEAD';
  const isEmpty = isHead || hasNoContent(status);
  // 205 has no content, as over a socket (RFC 9110 §15.3.6)
  const length = status === 205 || (response.body === null && !isHead) ? 0 : lengthOf(response);
  if (length >= 0 && status !== 204 && status !== 304) headers.set('Content-Length', String(length));
  // the client has left while the handler ran
  if (outgoing.destroyed) await app.finish(req, new ClientDisconnected());
  const { body } = response;
  if (isChunks(body)) {
    if (!isEmpty) return new Response(streamOf(body, request.signal, close), { status, headers });
    await discard(body);
  }
  await close(true);
  return new Response(isEmpty ? null : (body as string | Uint8Array<ArrayBuffer> | null), {
    status,
    headers,
  }); // the cast is safe: chunks were handled above
}

/** The header fields of a response, as they are sent. */
function headersOf(response: HttpResponse, app: ServedApplication, req: TransportRequest): Headers {
  const headers = new Headers();
  const fields = response.fields(app.securesCookies || req.scheme === 'https');
  for (let index = 0; index < fields.length; index += 2) headers.append(fields[index]!, fields[index + 1]!);
  headers.set(req.idField, req.id);
  return headers;
}

/** An open WebSocket, from the side of its client. */
interface OpenedInMemory {
  readonly headers: Headers;
  readonly stream: Duplex;
  readonly socket: WebSocketConnection;
  /** Resolves when the socket has closed, and none of its handlers runs any more. */
  readonly over: Promise<void>;
}

/** Handles a WebSocket request: returns the client's end of an open one, or an ordinary response. */
export async function upgradeInMemory(
  app: ServedApplication,
  request: Request,
  remoteAddress = '',
): Promise<Response | OpenedInMemory> {
  const outgoing = new MemoryOutgoing();
  const incoming = new MemoryIncoming(request, remoteAddress);
  const req = new TransportRequest(incoming, outgoing, app.defaults);
  if (
    app.upgrade === undefined ||
    !asksForWebSocket({
      method: req.method,
      rawHeaders: incoming.rawHeaders,
      httpVersionMajor: 1,
      httpVersionMinor: 1,
    }) ||
    app.hasSocketAt?.(req.path) !== true
  )
    return answerInMemory(app, request, remoteAddress);
  req.startedMs = app.clock.monotonicMs();
  const end = async (isFinished: boolean, failure?: unknown): Promise<void> => {
    if (outgoing.destroyed) return;
    outgoing.close(isFinished);
    await app.finish(req, failure);
  };
  const response = await app.upgrade(req);
  if (!(response instanceof SwitchingProtocols)) return respond(app, request, req, outgoing, response, end);
  req.isAnswered = true;
  app.count(req, response, app.clock.monotonicMs() - req.startedMs);
  const headers = headersOf(response, app, req);
  const [server, client] = duplexPair();
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const socket = response.open(server, req, {
    onClosed: () => outgoing.close(false),
    onOver: (_socket, failure) => {
      resolve();
      void app.finish(req, failure);
    },
  });
  // in a later turn, so that the client first gets the bytes that were sent before
  server.once('close', () => setImmediate(() => client.destroy()));
  client.once('close', () => server.destroy());
  socket.start(Buffer.alloc(0)); // received bytes stay in the stream until the client listens
  return { headers, stream: client, socket, over };
}

/**
 * Converts chunks to a web stream. `close` is called with the outcome. If `signal` aborts, the source is
 * ended, as if the client had left.
 */
function streamOf(chunks: Chunks, signal: AbortSignal, close: Close): ReadableStream<Uint8Array> {
  const iterator = iterate(chunks);
  return new ReadableStream<Uint8Array>(
    {
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
            const chunk = checkedChunk(value);
            return controller.enqueue(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
          }
          await close(true);
          controller.close();
        } catch (error) {
          // `error` is reported below; an error of return() is ignored
          Promise.try(() => iterator.return?.()).catch(ignore);
          await close(false, error);
          controller.error(error);
        }
      },
      async cancel() {
        await iterator.return?.();
        await close(false);
      },
    },
    { highWaterMark: 0 },
  ); // 0: no chunk is pulled before the response is read
}
