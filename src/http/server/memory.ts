/**
 * The transport without a socket: a web `Request` in, a web `Response` out, through the same request class and pipeline.
 * For tests, and for runtimes that speak fetch.
 */
import { EventEmitter } from 'node:events';
import { Readable, duplexPair } from 'node:stream';
import { ignore } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { checkedChunk, discard, isChunks, iterate } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { asksForWebSocket } from '../websocket/handshake.ts';
import { SwitchingProtocols } from './websockets.ts';
import type { Duplex } from 'node:stream';
import type { Chunks } from '../chunks.ts';
import type { Incoming, Outgoing } from '../request/request.ts';
import type { HttpResponse } from '../response.ts';
import type { ServedApplication } from './server.ts';
import type { WebSocketConnection } from '../websocket/websocket.ts';

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
    this.on('error', () => {
      /* told to whoever reads; nobody else is interested */
    });
  }

  override _read(): void {
    if (this.#reader === undefined) this.push(null);
    else {
      this.#reader
        .read()
        .then(({ done, value }) => {
          if (done) this.complete = true;
          this.push(done ? null : Buffer.from(value.buffer, value.byteOffset, value.byteLength));
        })
        .catch(() => this.destroy(new ClientDisconnected()));
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
 * the body comes in pieces: then it runs when they are read, or cancelled. `prepare` sees the request before anybody else.
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
    void close(false); // an abort before this line has no event any more
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
  const headers = new Headers();
  const fields = response.fields(app.securesCookies || req.scheme === 'https');
  for (let index = 0; index < fields.length; index += 2) headers.append(fields[index]!, fields[index + 1]!);
  headers.set(req.idField, req.id);
  const { status } = response;
  const isEmpty = req.method === 'HEAD' || status === 204 || status === 205 || status === 304;
  const length = status === 205 ? 0 : lengthOf(response, req.method === 'HEAD'); // as sockets have it (RFC 9110 §15.3.6)
  if (length >= 0 && status !== 204 && status !== 304) headers.set('Content-Length', String(length));
  if (outgoing.destroyed) await app.finish(req, new ClientDisconnected()); // it left while the handler ran
  const { body } = response;
  if (isChunks(body)) {
    if (!isEmpty) return new Response(streamOf(body, request.signal, close), { status, headers });
    await discard(body);
  }
  await close(true);
  return new Response(isEmpty ? null : (body as string | Uint8Array<ArrayBuffer> | null), {
    status,
    headers,
  }); // pieces have left above
}

/** A WebSocket that is open, as its client has it. */
interface OpenedInMemory {
  readonly headers: Headers;
  readonly stream: Duplex;
  readonly socket: WebSocketConnection;
  /** Resolves when the socket has closed and none of its handlers runs. */
  readonly over: Promise<void>;
}

/** Answers a request that asks for a WebSocket: with the client's end of an open one, or an ordinary answer. */
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
  const headers = new Headers();
  const fields = response.fields(app.securesCookies || req.scheme === 'https');
  for (let index = 0; index < fields.length; index += 2) headers.append(fields[index]!, fields[index + 1]!);
  headers.set(req.idField, req.id);
  const [server, client] = duplexPair();
  const { promise: over, resolve } = Promise.withResolvers<void>();
  const socket = response.open(server, req, {
    onClosed: () => outgoing.close(false),
    onOver: (_socket, failure) => {
      resolve();
      void app.finish(req, failure);
    },
  });
  server.once('close', () => setImmediate(() => client.destroy())); // behind what was sent before
  client.once('close', () => server.destroy());
  socket.start(Buffer.alloc(0)); // what it sends waits in the stream until the client listens
  return { headers, stream: client, socket, over };
}

function lengthOf(response: HttpResponse, isHead: boolean): number {
  const { body } = response;
  if (body === null) return isHead ? Math.max(0, response.contentLength) : 0;
  if (typeof body === 'string') return Buffer.byteLength(body);
  return isChunks(body) ? response.contentLength : body.byteLength;
}

/** Pieces as a web stream; `close` is told how it ended. Aborting ends the source, as a client that leaves does. */
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
          Promise.try(() => iterator.return?.()).catch(ignore); // `error` is the one to tell
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
  ); // nothing is pulled, and no file opened, for an answer that nobody reads
}
