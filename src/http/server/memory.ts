/**
 * Handles a web-standard `Request` without a network connection, and returns a `Response`. Tests use this,
 * and platforms that call a function with a `Request`.
 */
import { EventEmitter } from 'node:events';
import { Readable, duplexPair } from 'node:stream';
import { asBuffer } from '../../base/bytes.ts';
import { promised } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { EndlessChunks, checkedChunk, discard, errorOfEnd, isChunks, iterate } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { hasNoContent, lengthOf } from '../response.ts';
import { asksForWebSocket } from '../websocket/handshake.ts';
import { SwitchingProtocols } from './websockets.ts';
import type { Duplex } from 'node:stream';
import type { Awaitable } from '../contracts.ts';
import type { Chunks, Endless } from '../chunks.ts';
import type { Incoming, Outgoing } from '../request/request.ts';
import type { HttpResponse } from '../response.ts';
import type { ServedApplication } from './server.ts';
import type { WebSocketConnection } from '../websocket/websocket.ts';

/** A web `Request` in the form of an incoming message of node:http. */
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
      /* Without a listener, an "error" event would end the process. The reader of the body gets the error. */
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

  /** Ends request and response. If `isFinished` is false, the client has disconnected. */
  close(isFinished: boolean): void {
    this.destroyed = true;
    this.writableFinished = isFinished;
    this.emit('close');
  }
}

/** Ends a request. Called when its response is complete or has failed. */
type Close = (isFinished: boolean, failure?: unknown) => Promise<void>;

/**
 * Handles a web `Request`. Resolves with the response after the clean-ups of the request. If the body is sent
 * in chunks, resolves earlier, and the clean-ups run after the body was read or cancelled. `prepare` is
 * called with the request before it is handled. With `onEnding`, neither the response nor the end of its body
 * waits for the clean-ups; `onEnding` is called with their promise.
 * @throws the reason of the request's signal when it is already aborted; the request is then not handled
 */
export async function answerInMemory(
  app: ServedApplication,
  request: Request,
  remoteAddress = '',
  prepare?: (req: TransportRequest) => void,
  onEnding?: (ending: Awaitable<void>) => void,
): Promise<Response> {
  request.signal.throwIfAborted();
  const outgoing = new MemoryOutgoing();
  const req = new TransportRequest(new MemoryIncoming(request, remoteAddress), outgoing, app.defaults);
  req.startedMs = app.clock.monotonicMs();
  prepare?.(req);
  const close: Close = async (isFinished, failure) => {
    if (outgoing.destroyed) return;
    req.failure = failure;
    outgoing.close(isFinished);
    if (!req.isAnswered) return;
    const ending = app.finish(req, isFinished ? undefined : (failure ?? new ClientDisconnected()));
    if (onEnding === undefined) await ending;
    else onEnding(ending);
  };
  request.signal.addEventListener('abort', () => void close(false), { once: true });
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
  // a response with the status 205 has no content (RFC 9110 §15.3.6), so its length is 0
  const length = status === 205 || (response.body === null && !isHead) ? 0 : lengthOf(response);
  if (length >= 0 && status !== 204 && status !== 304) headers.set('Content-Length', String(length));
  // the client disconnected while the handler ran
  if (outgoing.destroyed) await app.finish(req, new ClientDisconnected());
  const { body } = response;
  if (isChunks(body)) {
    if (!isEmpty)
      return new Response(streamOf(body, request.signal, close, app.endless), { status, headers });
    await discard(body);
  }
  await close(true);
  return new Response(isEmpty ? null : (body as string | Uint8Array<ArrayBuffer> | null), {
    status,
    headers,
  });
}

function headersOf(response: HttpResponse, app: ServedApplication, req: TransportRequest): Headers {
  const headers = new Headers();
  const fields = response.fields(app.securesCookies || req.scheme === 'https');
  for (let index = 0; index < fields.length; index += 2) headers.append(fields[index]!, fields[index + 1]!);
  headers.set(req.idField, req.id);
  return headers;
}

/** A WebSocket that was opened without a network connection. */
interface OpenedInMemory {
  readonly headers: Headers;
  readonly stream: Duplex;
  readonly socket: WebSocketConnection;
  /** Resolves when the WebSocket has closed, and all its handlers have ended; the clean-ups may still run. */
  readonly over: Promise<void>;
}

/**
 * Handles a WebSocket handshake. Returns the client's side of the opened WebSocket, or the response that
 * refuses it. `onEnding` is called with the promise of the clean-ups of the WebSocket.
 */
export async function upgradeInMemory(
  app: ServedApplication,
  request: Request,
  remoteAddress: string,
  onEnding: (ending: Awaitable<void>) => void,
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
      onEnding(app.finish(req, failure));
    },
  });
  // destroys the client later, so that it first receives the bytes that were already sent
  server.once('close', () => setImmediate(() => client.destroy()));
  client.once('close', () => server.destroy());
  socket.start(Buffer.alloc(0)); // the stream keeps received bytes until the client listens
  return { headers, stream: client, socket, over };
}

/**
 * Returns a web stream of the chunks. `over` is called when the stream ends. When `signal` aborts, or the
 * application stops, no more chunks are read, as if the client had disconnected.
 */
function streamOf(
  chunks: Chunks,
  signal: AbortSignal,
  over: Close,
  endless: Set<Endless> | undefined,
): ReadableStream<Uint8Array> {
  const iterator = iterate(chunks);
  const end = (): Promise<unknown> => promised(() => iterator.return?.());
  const isEndless = chunks instanceof EndlessChunks && chunks.isEndless;
  let output: ReadableStreamDefaultController<Uint8Array>;
  const running: Endless = {
    async finish(reason) {
      if (isEndless) await chunks.finish(reason);
      else {
        output.error(reason);
        void end();
      }
      await close(isEndless);
    },
  };
  const close: Close = (isFinished, failure) => {
    endless?.delete(running);
    return over(isFinished, failure);
  };
  endless?.add(running);
  return new ReadableStream<Uint8Array>(
    {
      start(controller) {
        output = controller;
        const abort = (): void => {
          controller.error(signal.reason);
          void end();
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
          const last = await errorOfEnd(() => iterator.return?.(), error);
          await close(false, last);
          controller.error(last);
        }
      },
      async cancel() {
        // not awaited first: a source that waits only ends when close() aborts the signal of the request
        const ending = end();
        await close(false);
        await ending;
      },
    },
    { highWaterMark: 1 },
  ); // highWaterMark 1: the source starts at once, as over a socket, and is then one chunk ahead of the client
}
