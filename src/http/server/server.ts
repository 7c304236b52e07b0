/**
 * A node:http server with safe limits. It passes each request to the application, and sends the response.
 * close() waits until running requests end.
 *
 * Methods in the order of a request:
 *   - #onRequest: checks the head of a new request, and the number of requests
 *   - #start: passes the request to the application, when earlier requests of the connection have ended
 *   - #answer: sends the response
 *   - #finish: ends the request, and starts the next request of the connection
 */
import { Server as NetServer } from 'node:net';
import { http } from '../../base/node-http.ts';
import { ignore, nextTurn, within } from '../../base/promises.ts';
import { ClientDisconnected, serverStops } from '../../base/errors.ts';
import { BUSY, Connections, LAST, connectionOf, refusalOf } from './connections.ts';
import { Lingering, onClientError, refuseSocket, watchEnd } from './early-ends.ts';
import { HeadTexts, MESSAGES } from './fast-path/internals.ts';
import { listenOn } from './listen.ts';
import { judgeHead } from './request-head.ts';
import { USUAL_LIMITS } from './options.ts';
import { discard, isChunks } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { HttpResponse } from '../response.ts';
import { send, sendLast } from './send.ts';
import { OpenSockets } from './websockets.ts';
import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { ConnectionMeter } from './connection-meter.ts';
import type { Endless } from '../chunks.ts';
import type { Awaitable } from '../contracts.ts';
import type { ReceivedMessage, SentMessage } from './fast-path/internals.ts';
import type { ListenAddress, ListenOptions } from './listen.ts';
import type { Limits } from './options.ts';
import type { Outcome, RequestDefaults } from '../request/request.ts';
import type { HeadVerdict } from './request-head.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { Sending } from './send.ts';
import type { SecureTransport } from './tls.ts';

/** The part of an application that a server calls. */
export interface ServedApplication {
  readonly defaults: RequestDefaults;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether cookies get `Secure` even without TLS, unless they set it themselves. True in production. */
  readonly securesCookies: boolean;
  /** Limits for sizes and times. Default {@link USUAL_LIMITS}. */
  readonly limits?: Limits | undefined;
  /** The longest `requestTimeoutMs` of the routes; undefined if no route sets one. */
  readonly longestRequestMs?: number | undefined;
  /** Returns whether a request is a health check, which is handled even under overload. */
  isProbe?(req: TransportRequest): boolean;
  /** Work that the shutdown of the application ends, unless a server has ended it. */
  readonly endless?: Set<Endless>;
  /** Counts connections and their requests; undefined to count none. */
  readonly connections?: ConnectionMeter | undefined;
  /** Handles a request. Never throws, never rejects. */
  handle(req: TransportRequest): Awaitable<HttpResponse>;
  /** Returns whether the application has a WebSocket at a path. Not defined if the application has none. */
  hasSocketAt?(path: string): boolean;
  /**
   * Handles a WebSocket handshake: responds with 101, or refuses with another status. Never throws, never
   * rejects.
   */
  upgrade?(req: TransportRequest): Awaitable<HttpResponse>;
  /**
   * Ends a request by running its clean-ups. Returns a promise if one of them is asynchronous. Never throws,
   * never rejects.
   */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void>;
  /**
   * Counts a response just before it is sent. `durationMs` is the time from the start of the request to the
   * response.
   */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void;
  /** Counts a response that failed: node:http refused it, its body failed, or its client did not read. */
  countCut?(why: 'failed' | 'slow'): void;
}

/** Refusal of WebSocket handshakes while the server stops. */
const STOPPING: HeadVerdict = Object.freeze({ status: 503, detail: 'The server is about to stop' });
/** Time in milliseconds between two checks of node:http for connections that exceed a time limit. */
const CHECK_INTERVAL_MS = 1_000;
/**
 * Time in milliseconds that handlers have to end after their connections were closed, so that their clean-ups
 * run before other parts of the application stop.
 */
const LAST_WORDS_MS = 1_000;
/** Time in milliseconds after which a connection with a refused CONNECT is closed. */
const LINGER_MS = 5_000;

/** A server for one application: it listens, or receives connections from another process. */
export class HttpServer {
  readonly #app: ServedApplication;
  readonly #server: Server;
  readonly #secure: SecureTransport | undefined;
  readonly #limits: Limits;
  readonly #connections: Connections;
  /**
   * Whether this class must limit the time in which a body arrives, because node:http has only one limit for
   * all requests.
   */
  #limitsBodies: boolean;
  #inFlight = 0;
  /** Requests that are still arriving although their response was sent; created when it is first needed. */
  #lingering: Lingering | undefined;
  #isDraining = false;
  /** Closes all connections at once. Set by close(). */
  #endAll: (() => void) | undefined;
  /** Called when no request, unread body or WebSocket is left. Set by closeIdle(). */
  #whenIdle: (() => void) | undefined;
  /** Called during close() when all handlers have ended. */
  #whenHandled: (() => void) | undefined;
  /** Whether connections stay open after a response. */
  keepsAlive = true;
  /** Connections that another process accepted and passed on; undefined until there is one. */
  #adopted: Set<Socket> | undefined;
  /** Called when the last connection that another process accepted has closed. */
  #whenAlone: (() => void) | undefined;
  readonly #sending: Sending;
  /** Undefined until the first request for another protocol, such as WebSocket. */
  #sockets: OpenSockets | undefined;

  /** `secure` is the TLS transport; undefined for plain HTTP. */
  constructor(app: ServedApplication, secure?: SecureTransport) {
    const { clock, log, limits = USUAL_LIMITS, longestRequestMs } = app;
    this.#app = app;
    this.#limits = limits;
    this.#connections = new Connections({
      limits,
      clock,
      log,
      meter: app.connections,
      onSlowReader: (outgoing, socket) => this.#onSlowReader(outgoing, socket),
      onLost: (outgoing) => {
        const { request } = outgoing;
        if (request === undefined) return;
        // defined, because #onRequest() has set `connection`
        const isDeferred = (request as TransportRequest).connection!.withdraw(outgoing);
        // if neither is true, the handler still runs, and #answer() later finds the response closed
        if (isDeferred || request.isAnswered) this.#finish(outgoing);
      },
      onLateHead: (socket) => this.#onLate(socket),
    });
    this.#limitsBodies = longestRequestMs !== undefined;
    const server = this;
    this.#sending = {
      heads: new HeadTexts(app.defaults.identity, limits.keepAliveTimeoutMs),
      endless: new Set(),
      clock,
      securesCookies: app.securesCookies,
      watchReading: (socket, outgoing) => this.#connections.watchReading(socket, outgoing),
      onOver(this: SentMessage) {
        server.#finish(this); // `this` is the response: one function serves all responses
      },
    };
    this.#secure = secure;
    this.#server = this.#createServer(longestRequestMs ?? limits.requestTimeoutMs);
    app.connections?.watch(this.#server);
    this.#connections.watch(this.#server, this.isSecure ? 'secureConnection' : 'connection');
  }

  #createServer(requestTimeout: number): Server {
    const limits = this.#limits;
    const options: ServerOptions<typeof ReceivedMessage> = {
      ...MESSAGES,
      // the cast is needed, because the type of this option is a generic class
      ServerResponse: MESSAGES.ServerResponse as never,
      requestTimeout,
      // node:http does not allow headersTimeout to exceed requestTimeout
      headersTimeout: Math.min(limits.headersTimeoutMs, requestTimeout),
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, limits.headersTimeoutMs),
      maxHeaderSize: limits.maxHeaderBytes,
      optimizeEmptyRequests: true,
      // request-head.ts checks the Host field, because the 400 response of node:http would have no body
      requireHostHeader: false,
      // a request to upgrade to a protocol other than WebSocket is handled as an ordinary request (RFC 9110
      // §7.8)
      shouldUpgradeCallback: (incoming) =>
        this.#guard(incoming.socket, () => this.#webSockets().isAskedFor(incoming)) === true,
    };
    const listener = this.#onRequest.bind(this) as (...messages: never[]) => void as RequestListener;
    const server = this.#secure?.createServer(options, listener) ?? http.createServer(options, listener);
    // close() of node:http calls closeIdleConnections(), but the class Connections decides which connections
    // are idle
    const { closeIdleConnections } = server;
    server.closeIdleConnections = () => this.#connections.closeIdle(() => closeIdleConnections.call(server));
    // 0 means no limit: node:http would silently drop fields beyond a limit, so request-head.ts checks their
    // number
    server.maxHeadersCount = 0;
    this.#listenTo(server, listener);
    return server;
  }

  #listenTo(server: Server, listener: RequestListener): void {
    server.on('clientError', (error, socket) =>
      this.#guard(socket as Socket, () => onClientError(error, socket as Socket, this.#identity)),
    );
    server.on('connect', (incoming: IncomingMessage, stream) =>
      this.#guard(incoming.socket, () => this.#onConnect(incoming.socket, stream)),
    );
    server.on('upgrade', (incoming, socket, head) =>
      this.#guard(socket as Socket, () => this.#webSockets().onUpgrade(incoming, socket as Socket, head)),
    );
    server.on('checkExpectation', listener);
    server.on('checkContinue', (incoming: IncomingMessage, outgoing) => {
      continueLater(incoming as ReceivedMessage, outgoing);
      listener(incoming, outgoing);
    });
  }

  /** Number of requests whose response is not sent completely, or whose handler still runs. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether the server speaks TLS. */
  get isSecure(): boolean {
    return this.#secure !== undefined;
  }

  /** The node:http server, for tests and benchmarks that create their own sockets. @internal */
  get node(): Server {
    return this.#server;
  }

  /**
   * Begins to listen. Resolves with the address.
   * @throws SvcError `E_LISTEN` when the address cannot be opened
   */
  async listen(options: ListenOptions = {}): Promise<ListenAddress> {
    const address = await listenOn(this.#server, options, this.isSecure);
    this.#server.on('error', (error) => this.#app.log.error('server_error', error));
    return address;
  }

  /** Serves a connection that another process accepted. No bytes may have been read from it yet. */
  adopt(socket: Socket): void {
    if (this.#adopted === undefined) {
      this.#adopted = new Set();
      // needed, because node:http enforces its time limits only if its server listens
      this.#connections.limitHeads();
      this.#limitsBodies = true;
    }
    const adopted = this.#adopted.add(socket);
    socket.once('close', () => {
      adopted.delete(socket);
      if (adopted.size === 0) this.#whenAlone?.();
    });
    // `allowHalfOpen` is true, as for sockets that node:http accepts. With TLS it is false. If it were true,
    // the socket of a client that disconnects before the handshake would stay open until the time limit.
    socket.allowHalfOpen = !this.isSecure;
    this.#server.emit('connection', socket);
    if (!this.isSecure) socket.resume(); // with TLS, node:tls itself begins to read
  }

  /**
   * Stops accepting connections. Running requests have `deadlineMs` to end. Then their connections are
   * closed, and handlers have `lastWordsMs` more. Idle connections are closed at once, or after `graceMs` if
   * another process accepted them. Returns the number of requests that did not end in time.
   */
  async close(deadlineMs: number, graceMs = 0, lastWordsMs: number = LAST_WORDS_MS): Promise<number> {
    const adopted = this.#adopted;
    if (!this.#server.listening && adopted === undefined) return 0;
    this.#isDraining = true;
    const idle = Promise.withResolvers<void>();
    this.#endAll = () => {
      this.#sockets?.terminate();
      this.#connections.destroy();
      this.#secure?.closeAllConnections(); // also closes connections that are still in their TLS handshake
      idle.resolve();
    };
    // connections and requests that the operating system has already received are read first: the second turn
    // comes after a whole reading
    for (let turns = 0; turns < 2; turns++) await nextTurn();
    this.#finishEndless();
    this.#sockets?.goAway();
    const closed = adopted === undefined ? this.#refuseOthers() : this.#adoptedGone(adopted);
    let cut = 0;
    const deadline = this.#app.clock.after(deadlineMs, () => {
      cut = this.#inFlight;
      this.#endAll!();
    });
    const grace = this.#app.clock.after(graceMs, () => this.closeIdle());
    if (graceMs === 0 || adopted === undefined) this.closeIdle();
    try {
      await closed;
      this.closeIdle();
      await idle.promise;
      await Promise.all([this.#handled(lastWordsMs), this.#sockets?.ended(lastWordsMs)]);
    } finally {
      deadline[Symbol.dispose]();
      grace[Symbol.dispose]();
    }
    return cut;
  }

  /** Resolves when all handlers have ended, at the latest after `limitMs`. */
  async #handled(limitMs: number): Promise<void> {
    if (this.#inFlight === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenHandled = resolve;
    await within(this.#app.clock, limitMs, promise, ignore);
  }

  /** Called by close(): closes idle connections, and lets close() end as soon as no request is left. */
  closeIdle(): void {
    this.#server.closeIdleConnections();
    this.#whenIdle = this.#endAll;
    if (this.#isIdle) this.#whenIdle?.();
  }

  get #isIdle(): boolean {
    return (
      this.#inFlight === 0 &&
      (this.#lingering === undefined || this.#lingering.count === 0) &&
      (this.#sockets === undefined || this.#sockets.size === 0)
    );
  }

  /**
   * Stops accepting connections. Resolves when the last connection has closed. Calls close() of node:net,
   * because close() of node:http would also switch off the time limits of the remaining requests.
   */
  async #refuseOthers(): Promise<void> {
    await new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, resolve);
    });
    this.#server.close(); // all connections have closed, so node:http may switch off its time limits
  }

  /** close() of node:http does not wait for connections from another process. */
  async #adoptedGone(adopted: ReadonlySet<Socket>): Promise<void> {
    if (adopted.size > 0)
      await new Promise<void>((resolve) => {
        this.#whenAlone = resolve;
      });
    this.#server.close();
  }

  get #identity(): RequestIdentity {
    return this.#app.defaults.identity;
  }

  /** If the listener throws, the connection is closed, but the process does not end. */
  #guard<T>(socket: Socket, happen: () => T): T | undefined {
    try {
      return happen();
    } catch (error) {
      this.#app.log.error('server_error', error);
      socket.destroy();
      return undefined;
    }
  }

  /**
   * Refuses CONNECT. If earlier requests still wait for responses, the connection is closed: node:http has
   * dropped these responses, although they should be sent first (RFC 9110 §9.3.6).
   */
  #onConnect(socket: Socket, stream: Duplex): void {
    // node:http has removed its own listener, and an error without a listener would end the process
    socket.on('error', ignore);
    // if the CONNECT request has a body, Node 26 passes a stream that is not the socket
    if (stream !== socket) stream.on('error', ignore);
    const connection = connectionOf(socket);
    if (connection.waiting === 0 && !connection.hasSaidClose) {
      // node:http no longer limits the time of this socket
      const timer = this.#app.clock.after(LINGER_MS, () => socket.destroy());
      socket.once('close', () => timer[Symbol.dispose]());
      return refuseSocket(socket, 501, this.#identity);
    }
    connection.abandon();
    socket.destroy();
  }

  #onLate(socket: Socket): void {
    onClientError({ code: 'ERR_HTTP_REQUEST_TIMEOUT' }, socket, this.#identity);
  }

  #onRequest(incoming: ReceivedMessage, outgoing: SentMessage): void {
    const connection = connectionOf(incoming.socket);
    // an earlier response ends the connection, so this request must not be handled (RFC 9112 §9.6)
    if (connection.hasSaidClose) return void incoming.socket.pause();
    this.#inFlight++;
    connection.enter(outgoing);
    const req = new TransportRequest(incoming, outgoing, this.#app.defaults);
    outgoing.request = req;
    req.connection = connection;
    req.peer = connection.address;
    let verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
    // a health check is handled even under overload, but it may be the last request of its connection
    if (verdict?.status === 503 && this.#app.isProbe?.(req) === true)
      verdict = verdict === BUSY ? undefined : LAST;
    if (verdict !== undefined && verdict !== BUSY) connection.hasSaidClose = true;
    if (connection.waiting === 1) this.#start(req, incoming, outgoing, verdict);
    else (connection.deferred ??= []).push({ outgoing, verdict });
  }

  #start(
    req: TransportRequest,
    incoming: ReceivedMessage,
    outgoing: SentMessage,
    verdict: HeadVerdict | undefined,
  ): void {
    req.startedMs = this.#app.clock.monotonicMs();
    const response =
      verdict === undefined || verdict.status === 0 ? this.#app.handle(req) : refusalOf(verdict, req.id);
    if (this.#limitsBodies && !incoming.complete && !incoming.readableEnded) this.#limitBody(req, incoming);
    if (response instanceof HttpResponse) this.#answer(req, incoming, outgoing, response);
    else {
      watchEnd(incoming.socket, req.connection!, req); // defined, because #onRequest() has set it
      void response.then((ready) => this.#answer(req, incoming, outgoing, ready));
    }
  }

  #limitBody(req: TransportRequest, incoming: IncomingMessage): void {
    const limitMs = req.route?.requestTimeoutMs ?? this.#limits.requestTimeoutMs;
    // node:http already enforces this limit
    if (limitMs === this.#app.longestRequestMs && this.#adopted === undefined) return;
    const timer = this.#app.clock.after(limitMs, () => {
      if (!incoming.complete && !incoming.destroyed) this.#onLate(incoming.socket);
    });
    incoming.once('close', () => timer[Symbol.dispose]());
  }

  #answer(
    req: TransportRequest,
    incoming: ReceivedMessage,
    outgoing: SentMessage,
    response: HttpResponse,
  ): void {
    this.#app.count(req, response, this.#app.clock.monotonicMs() - req.startedMs);
    req.isAnswered = true;
    const connection = req.connection!; // defined, because #onRequest() has set it
    const isStream = typeof response.body !== 'string' && isChunks(response.body);
    if (isStream) watchEnd(incoming.socket, connection, req);
    if (outgoing.closed || (req.hasLeft && isStream)) return this.#drop(req, outgoing, response);
    try {
      const isLast =
        (this.#isDraining || !this.keepsAlive || connection.hasSaidClose) && connection.endsWith(outgoing);
      if (!incoming.complete && !incoming.readableEnded)
        (this.#lingering ??= new Lingering(this.#app.clock, () => this.#endWhenIdle())).begin(
          incoming,
          outgoing,
          isLast,
          () => this.#finish(outgoing),
        );
      const sending = send(outgoing, response, req, isLast, this.#sending);
      sending?.catch((error: unknown) => this.#onFailure(req, error));
      if (this.#isDraining) this.#finishEndless();
    } catch (error) {
      // usually node:http has refused a header field or the body
      this.#onFailure(req, error, 'response_refused');
      if (outgoing.headersSent) return void outgoing.destroy();
      outgoing.on('close', this.#sending.onOver);
      // removes the reason phrase of the refused response, which would be sent with the 500
      outgoing.statusMessage = '';
      outgoing.writeHead(500, ['Content-Length', '0', req.idField, req.id]).end();
    }
  }

  /**
   * Discards a response, because the client has disconnected. A stream is also discarded if the client has
   * only closed its side of the connection.
   */
  #drop(req: TransportRequest, outgoing: SentMessage, { body }: HttpResponse): void {
    if (isChunks(body)) discard(body).catch((error: unknown) => this.#onFailure(req, error));
    outgoing.destroy();
    this.#finish(outgoing);
  }

  /** Ends endless bodies such as event streams, because the server stops. */
  #finishEndless(): void {
    for (const chunks of this.#sending.endless) void chunks.finish(serverStops());
  }

  /** Handles a failed response: node:http has refused it, or its body has failed after the head was sent. */
  #onFailure(req: TransportRequest, error: unknown, event = 'response_failed'): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error(event, error, req.logFields());
  }

  #onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void {
    this.#app.countCut?.('slow');
    this.#app.log.warn('slow_reader_cut', {
      method: outgoing?.req.method,
      peer: socket.remoteAddress,
      request_id: outgoing?.request?.id,
    });
  }

  /** Ends the request of a response that has ended, completely or not, and starts the next request. */
  #finish(outgoing: SentMessage): void {
    const req = outgoing.request as TransportRequest | undefined;
    // the request has already ended: the response was complete before the whole request had arrived
    if (req === undefined) return;
    outgoing.request = undefined;
    const connection = req.connection!; // defined, because #onRequest() has set it
    connection.leave(outgoing);
    const incoming = outgoing.req as ReceivedMessage;
    if (!incoming.readableEnded) incoming.isLetGo = true; // node:http now discards the rest of the body
    void this.#app.finish(req, req.wasDelivered ? undefined : (req.failure ?? new ClientDisconnected()));
    if (req.late === undefined) this.#requestDone();
    // the handler still runs after its time limit, so the request counts as running until the handler ends
    else void req.late.then(() => this.#requestDone());
    if (connection.deferred === undefined) return;
    const next = connection.takeDeferred(incoming.socket);
    if (next === undefined) return;
    const { outgoing: later, verdict } = next;
    // the casts are safe: #onRequest() has stored the request, and MESSAGES contains its class
    this.#start(later.request as TransportRequest, later.req as ReceivedMessage, later, verdict);
  }

  #requestDone(): void {
    this.#inFlight--;
    if (!this.#isDraining) return;
    if (this.#inFlight === 0) this.#whenHandled?.();
    this.#endWhenIdle();
  }

  #endWhenIdle(): void {
    if (this.#isDraining && this.#isIdle)
      setImmediate(() => {
        // Checks again, because a new request may have arrived in the meantime.
        if (this.#isIdle) this.#whenIdle?.();
      });
  }

  #webSockets(): OpenSockets {
    return (this.#sockets ??= new OpenSockets(this.#app, {
      begin: (req, incoming) => this.#beginUpgrade(req, incoming),
      refuse: (req, incoming, response) =>
        this.#guard(incoming.socket, () => this.#refuseUpgrade(req, incoming, response)) ?? Promise.resolve(),
      accept: (socket) => this.#connections.release(socket),
      answered: () => this.#requestDone(),
      closed: () => this.#endWhenIdle(),
    }));
  }

  /** Counts a WebSocket handshake. Returns a response if it is refused before the application is called. */
  #beginUpgrade(req: TransportRequest, incoming: IncomingMessage): HttpResponse | undefined {
    const connection = connectionOf(incoming.socket);
    this.#inFlight++;
    connection.requests++;
    connection.idleTurn = 0; // a WebSocket is never idle
    req.connection = connection;
    req.peer = connection.address;
    req.startedMs = this.#app.clock.monotonicMs();
    const verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
    if (verdict !== undefined && verdict.status !== 0) return refusalOf(verdict, req.id);
    return this.#isDraining ? refusalOf(STOPPING, req.id) : undefined;
  }

  /** Sends an ordinary response to a WebSocket handshake, and ends the connection. */
  #refuseUpgrade(req: TransportRequest, incoming: IncomingMessage, response: HttpResponse): Promise<void> {
    const connection = req.connection!; // defined, because #beginUpgrade() has set it
    connection.hasSaidClose = true;
    connection.waiting++;
    return sendLast(incoming, response, req, this.#sending).catch((error: unknown) =>
      this.#onFailure(req, error),
    );
  }
}

/**
 * Sends "100 Continue" when the handler begins to read the body, so that waiting clients do not send an
 * unwanted body (RFC 9110 §10.1.1). Nothing is sent if the body has already arrived, or the response has
 * begun.
 */
function continueLater(incoming: ReceivedMessage, outgoing: ServerResponse): void {
  const sendContinue = (): void => {
    if (incoming.complete || outgoing.headersSent || outgoing.destroyed) return;
    incoming.awaitsContinue = false;
    outgoing.writeContinue();
  };
  incoming.awaitsContinue = true;
  incoming.onFirstRead = () => {
    incoming.onFirstRead = undefined;
    process.nextTick(sendContinue);
  };
}
