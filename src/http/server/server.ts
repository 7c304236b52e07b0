/**
 * Connects node:http with the application: listens with safe limits, passes each request to the application,
 * and sends the response. close() lets running requests end.
 *
 * Methods in the order of a request:
 *   #onRequest    called when a request has arrived: checks its head and the number of requests
 *   #start        called when all earlier requests of the connection have ended: calls handle(req)
 *   #answer       called with the response: calls count(), then send()
 *   #finish       called when the response has ended: calls finish(req, outcome), then starts the next request
 *   close()       accepts no more connections, and lets running requests end
 */
import { Server as NetServer } from 'node:net';
import { http } from '../../base/node-http.ts';
import { ignore, within } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { BUSY, Connections, LAST, connectionOf, refusalOf } from './connections.ts';
import { Lingering, onClientError, refuseSocket, watchEnd } from './early-ends.ts';
import { HeadTexts, MESSAGES } from './fast-path/internals.ts';
import { listenOn } from './listen.ts';
import { judgeHead } from './request-head.ts';
import { USUAL_LIMITS } from './options.ts';
import { discard, isChunks } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { HttpResponse, LateAnswer } from '../response.ts';
import { send, sendLast } from './send.ts';
import { OpenSockets } from './websockets.ts';
import type { IncomingMessage, RequestListener, Server, ServerOptions, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { ConnectionMeter } from './connections.ts';
import type { Awaitable } from '../contracts.ts';
import type { ReceivedMessage, SentMessage } from './fast-path/internals.ts';
import type { ListenAddress, ListenOptions } from './listen.ts';
import type { Answer } from '../response.ts';
import type { Limits } from './options.ts';
import type { Outcome, RequestDefaults } from '../request/request.ts';
import type { HeadVerdict } from './request-head.ts';
import type { RequestIdentity } from '../request-id.ts';
import type { Sending } from './send.ts';
import type { SecureTransport } from './tls.ts';

/** The application that a server serves. */
export interface ServedApplication {
  readonly defaults: RequestDefaults;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether cookies are `Secure` even without TLS: true in production. */
  readonly securesCookies: boolean;
  /** Limits of sizes and times. Default {@link USUAL_LIMITS}. */
  readonly limits?: Limits | undefined;
  /** The longest `requestTimeoutMs` of the routes; undefined if no route sets one. */
  readonly longestRequestMs?: number | undefined;
  /** Whether a request is a health probe, which is served even under overload. */
  isProbe?(req: TransportRequest): boolean;
  /** Counts connections and their requests; undefined if they are not counted. */
  readonly connections?: ConnectionMeter | undefined;
  /** Handles a request. Never throws, never rejects. */
  handle(req: TransportRequest): Answer;
  /** Whether a WebSocket can be opened at a path; undefined if the application has none. */
  hasSocketAt?(path: string): boolean;
  /**
   * Handles a request for a WebSocket: responds with 101, or refuses with another response. Never throws,
   * never rejects.
   */
  upgrade?(req: TransportRequest): Answer;
  /**
   * Ends a request: runs its clean-ups. Returns a promise if a clean-up is asynchronous. Never throws, never
   * rejects.
   */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void>;
  /**
   * Counts a response just before it is sent. `durationMs`: time from the request's start to the response.
   */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void;
  /** Counts a response that failed: node:http refused it, the source of its body failed, or its client did not read. */
  countCut?(why: 'failed' | 'slow'): void;
}

/** Response to a request for a WebSocket while the server stops. */
const STOPPING: HeadVerdict = Object.freeze({ status: 503, detail: 'The server is about to stop' });
/** Interval at which node:http checks for connections that exceed a time limit. */
const CHECK_INTERVAL_MS = 1_000;
/**
 * Time for handlers to end after their connections were closed, so that their clean-ups run before other
 * parts of the application stop.
 */
const LAST_WORDS_MS = 1_000;
/** Time within which a client must close its side after its CONNECT was refused. */
const LINGER_MS = 5_000;

/** One listening socket, and the requests received on it. */
export class HttpServer {
  readonly #app: ServedApplication;
  readonly #server: Server;
  readonly #secure: SecureTransport | undefined;
  readonly #limits: Limits;
  readonly #connections: Connections;
  /** Whether bodies may need a time limit other than that of node:http, which has only one. */
  #limitsBodies: boolean;
  #inFlight = 0;
  /** Requests whose response is sent while their bodies still arrive. Created on first use. */
  #lingering: Lingering | undefined;
  #isDraining = false;
  /** Ends all connections at once. Set by close(). */
  #endAll: (() => void) | undefined;
  /** Called when no request, body or WebSocket is left. Set by closeIdle(). */
  #whenIdle: (() => void) | undefined;
  /** Called during close() when no handler is running any more. */
  #whenHandled: (() => void) | undefined;
  /** Whether connections stay open for further requests. */
  keepsAlive = true;
  /** Connections that another process has accepted; undefined until there is one. */
  #adopted: Set<Socket> | undefined;
  /** Called when the last connection that another process has accepted is closed. */
  #whenAlone: (() => void) | undefined;
  readonly #sending: Sending;
  /** Created with the first request for another protocol, because most applications have no WebSockets. */
  #sockets: OpenSockets | undefined;

  /** `secure`: the TLS transport for HTTPS; undefined for HTTP. */
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
        // `connection` is defined: #onRequest() has set it
        const isDeferred = (request as TransportRequest).connection!.withdraw(outgoing);
        // if neither is true, the handler still runs, and #answer() will find the response closed
        if (isDeferred || request.isAnswered) this.#finish(outgoing);
      },
      onLateHead: (socket) => this.#onLate(socket),
    });
    this.#limitsBodies = longestRequestMs !== undefined;
    const server = this;
    this.#sending = {
      heads: new HeadTexts(app.defaults.identity, limits.keepAliveTimeoutMs),
      endless: new Set(),
      securesCookies: app.securesCookies,
      watchReading: (socket, outgoing) => this.#connections.watchReading(socket, outgoing),
      onOver(this: SentMessage) {
        server.#finish(this); // one function for all responses
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
      // the cast is needed because the option has the type of a generic class
      ServerResponse: MESSAGES.ServerResponse as never,
      requestTimeout,
      // node:http refuses a headersTimeout above requestTimeout
      headersTimeout: Math.min(limits.headersTimeoutMs, requestTimeout),
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, limits.headersTimeoutMs),
      maxHeaderSize: limits.maxHeaderBytes,
      optimizeEmptyRequests: true,
      // request-head.ts checks the Host, because the refusal by node:http would have no body
      requireHostHeader: false,
      // a request for a protocol other than WebSocket is handled as an ordinary request (RFC 9110 §7.8)
      shouldUpgradeCallback: (incoming) =>
        this.#guard(incoming.socket, () => this.#webSockets().isAskedFor(incoming)) === true,
    };
    // the cast is safe: MESSAGES defines the classes of all messages of this server
    const listener = this.#onRequest.bind(this) as (...messages: never[]) => void as RequestListener;
    const server = this.#secure?.createServer(options, listener) ?? http.createServer(options, listener);
    // close() of node:http calls this method; Connections decides which connections are idle
    const { closeIdleConnections } = server;
    server.closeIdleConnections = () => this.#connections.closeIdle(() => closeIdleConnections.call(server));
    // 0: no limit, because node:http would drop further fields silently; request-head.ts checks the number
    server.maxHeadersCount = 0;
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
    return server;
  }

  /** Requests that are not finished: their response is not fully sent, or their handler still runs. */
  get inFlight(): number {
    return this.#inFlight;
  }

  /** Whether the server uses TLS. */
  get isSecure(): boolean {
    return this.#secure !== undefined;
  }

  /** The node:http server, for tests and benchmarks that create their own sockets. @internal */
  get node(): Server {
    return this.#server;
  }

  /** Starts to listen. Resolves with the address. @throws SvcError `E_LISTEN` */
  async listen(options: ListenOptions = {}): Promise<ListenAddress> {
    const address = await listenOn(this.#server, options, this.isSecure);
    this.#server.on('error', (error) => this.#app.log.error('server_error', error));
    return address;
  }

  /** Serves a connection that another process has accepted, and from which nothing was read yet. */
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
    // node:http also sets this for the sockets that it accepts. It is not set with TLS, because the socket of
    // a client that leaves before the handshake would stay open until the time limit
    socket.allowHalfOpen = !this.isSecure;
    this.#server.emit('connection', socket);
    if (!this.isSecure) socket.resume(); // with TLS, node:tls starts the reading
  }

  /**
   * Stops accepting connections. Running requests have `deadlineMs` to end; their responses have `Connection:
   * close`. After that time their connections are closed, and handlers have one more second to end. Idle
   * connections are closed at once; if another process has accepted them, after `graceMs`. Returns the number
   * of requests that did not end in time.
   */
  async close(deadlineMs: number, graceMs = 0): Promise<number> {
    const adopted = this.#adopted;
    if (!this.#server.listening && adopted === undefined) return 0;
    this.#isDraining = true;
    this.#finishEndless();
    this.#sockets?.goAway();
    const closed = adopted === undefined ? this.#refuseOthers() : this.#adoptedGone(adopted);
    const idle = Promise.withResolvers<void>();
    this.#endAll = () => {
      this.#sockets?.terminate();
      this.#connections.destroy();
      this.#secure?.closeAllConnections(); // also closes connections whose TLS handshake is not complete
      idle.resolve();
    };
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
      await Promise.all([this.#handled(), this.#sockets?.ended()]);
    } finally {
      deadline[Symbol.dispose]();
      grace[Symbol.dispose]();
    }
    return cut;
  }

  /** Resolves when no handler is running any more, or the time for it has passed. */
  async #handled(): Promise<void> {
    if (this.#inFlight === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenHandled = resolve;
    await within(this.#app.clock, LAST_WORDS_MS, promise, ignore);
  }

  /** Used by close(): closes idle connections. close() ends as soon as no request is left. */
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
   * Stops accepting connections. Resolves when the last one has closed. Calls close() of node:net, because
   * close() of node:http would also end the time limits, which the remaining requests need.
   */
  async #refuseOthers(): Promise<void> {
    await new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, resolve);
    });
    this.#server.close(); // all connections have closed, so node:http may end its time limits
  }

  /**
   * Resolves when no connection is left that another process has accepted. close() of node:http does not wait
   * for them.
   */
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

  /** Runs a listener of a connection. If it throws, the connection is closed, and the process continues. */
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
   * Refuses CONNECT. If earlier requests wait for their responses, the connection is closed: the responses
   * should be sent first (RFC 9110 §9.3.6), but node:http has dropped them.
   */
  #onConnect(socket: Socket, stream: Duplex): void {
    // a listener is needed, because node:http has removed its own; "close" follows the error
    socket.on('error', ignore);
    // if the request has a body, the stream that Node 26 passes is not the socket
    if (stream !== socket) stream.on('error', ignore);
    const connection = connectionOf(socket);
    if (connection.waiting === 0 && !connection.hasSaidClose) {
      // a timer, because node:http no longer enforces a time limit for the socket
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
    // the response before this request closes the connection, so the request must not be processed (RFC 9112
    // §9.6)
    if (connection.hasSaidClose) return void incoming.socket.pause();
    this.#inFlight++;
    connection.enter(outgoing);
    const req = new TransportRequest(incoming, outgoing, this.#app.defaults);
    outgoing.request = req;
    req.connection = connection;
    let verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
    // a probe is handled in spite of overload. Every verdict except BUSY ends the connection
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
      watchEnd(incoming.socket, req.connection!, req); // `connection` is defined: #onRequest() has set it
      const answer = (settled: HttpResponse): void => this.#answer(req, incoming, outgoing, settled);
      if (response instanceof LateAnswer) response.giveTo(answer);
      else void response.then(answer);
    }
  }

  #limitBody(req: TransportRequest, incoming: IncomingMessage): void {
    const limitMs = req.route?.requestTimeoutMs ?? this.#limits.requestTimeoutMs;
    // node:http itself enforces this limit
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
    const connection = req.connection!; // `connection` is defined: #onRequest() has set it
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
      // the usual cause: node:http refuses a header field or the body
      this.#onFailure(req, error, 'response_refused');
      if (outgoing.headersSent) return void outgoing.destroy();
      outgoing.on('close', this.#sending.onOver);
      // removes the reason phrase of the first status, which would be sent with 500
      outgoing.statusMessage = '';
      outgoing.writeHead(500, ['Content-Length', '0', req.idField, req.id]).end();
    }
  }

  /**
   * Discards a response, because the client has left while the handler ran, or has closed its side and the
   * response is a stream.
   */
  #drop(req: TransportRequest, outgoing: SentMessage, { body }: HttpResponse): void {
    if (isChunks(body)) discard(body).catch((error: unknown) => this.#onFailure(req, error));
    outgoing.destroy();
    this.#finish(outgoing);
  }

  /** Ends streams that would not end by themselves, because the server is stopping. */
  #finishEndless(): void {
    for (const chunks of this.#sending.endless) chunks.finish();
  }

  /** Called when node:http refuses a response, or the source of its body fails after the head was sent. */
  #onFailure(req: TransportRequest, error: unknown, event = 'response_failed'): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error(event, error, req.logFields());
  }

  /** Called when a client has stopped reading its response. */
  #onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void {
    this.#app.countCut?.('slow');
    this.#app.log.warn('slow_reader_cut', {
      method: outgoing?.req.method,
      peer: socket.remoteAddress,
      request_id: outgoing?.request?.id,
    });
  }

  /**
   * Called when a response has ended, sent or not: finishes its request, and starts the next one of the
   * connection.
   */
  #finish(outgoing: SentMessage): void {
    // #onRequest() has set the request
    const req = outgoing.request as TransportRequest | undefined;
    // the request is finished already: it was finished before the rest of its body had arrived
    if (req === undefined) return;
    outgoing.request = undefined;
    const connection = req.connection!; // `connection` is defined: #onRequest() has set it as well
    connection.leave(outgoing);
    // the cast is safe: MESSAGES defines the class of all requests
    const incoming = outgoing.req as ReceivedMessage;
    if (!incoming.readableEnded) incoming.isLetGo = true; // because node:http discards the rest of the body
    void this.#app.finish(req, req.wasDelivered ? undefined : (req.failure ?? new ClientDisconnected()));
    if (req.late === undefined) this.#requestDone();
    // the time limit has passed, but the handler still runs, so wait until it ends
    else void req.late.then(() => this.#requestDone());
    if (connection.deferred === undefined) return;
    const next = connection.takeDeferred(incoming.socket);
    if (next === undefined) return;
    const { outgoing: later, verdict } = next;
    // the casts are safe: #onRequest() has set the request, and MESSAGES defines the class
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
        // Checks again, because another request may have come: a response that began before close() did not
        // announce the end of the connection.
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

  /**
   * Registers a request for a WebSocket. Returns a response if it is refused before the application is
   * called.
   */
  #beginUpgrade(req: TransportRequest, incoming: IncomingMessage): HttpResponse | undefined {
    const connection = connectionOf(incoming.socket);
    this.#inFlight++;
    connection.requests++;
    req.connection = connection;
    req.startedMs = this.#app.clock.monotonicMs();
    const verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
    if (verdict !== undefined && verdict.status !== 0) return refusalOf(verdict, req.id);
    return this.#isDraining ? refusalOf(STOPPING, req.id) : undefined;
  }

  /** Sends an ordinary response, which is the last of its connection. */
  #refuseUpgrade(req: TransportRequest, incoming: IncomingMessage, response: HttpResponse): Promise<void> {
    const connection = req.connection!; // #beginUpgrade() has set the connection
    connection.hasSaidClose = true;
    connection.waiting++;
    return sendLast(incoming, response, req, this.#sending).catch((error: unknown) =>
      this.#onFailure(req, error),
    );
  }
}

/**
 * Sends "100 Continue" when the handler first reads the body, unless the body has arrived or the response has
 * begun by then. So a client that waits for it does not send a body that no handler reads (RFC 9110 §10.1.1).
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
