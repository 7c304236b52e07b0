/**
 * node:http <-> the application: listens with safe limits, hands each request over, sends the answer, drains.
 *
 *   #onRequest    a request has arrived: judges its head and the load
 *   #start        its turn on the connection has come: handle(req)
 *   #answer       the response is there: count(), then send()
 *   #finish       the response is over: finish(req, outcome), then the next request of the connection
 *   close()       stops accepting, and lets what runs finish
 */
import { Server as NetServer } from 'node:net';
import { http } from '../../base/node-http.ts';
import { ignore, within } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { BodyDeadlines } from '../deadlines.ts';
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

/** What a server serves. */
export interface ServedApplication {
  readonly defaults: RequestDefaults;
  readonly clock: Clock;
  readonly log: Logger;
  /** Whether cookies are `Secure` even without TLS: in production. */
  readonly securesCookies: boolean;
  /** Limits of size and time. Default {@link USUAL_LIMITS}. */
  readonly limits?: Limits | undefined;
  /** The longest `requestTimeoutMs` of its routes, where any has one of its own. */
  readonly longestRequestMs?: number | undefined;
  /** Whether a request is a health probe, which is served even under overload. */
  isProbe?(req: TransportRequest): boolean;
  /** Counts connections and their requests; undefined where nobody does. */
  readonly connections?: ConnectionMeter | undefined;
  /** Answers. Never throws, never rejects. */
  handle(req: TransportRequest): Answer;
  /** Whether a WebSocket can be opened at a path; undefined where there are none. */
  hasSocketAt?(path: string): boolean;
  /** Answers a request for a WebSocket: with 101, or with another response that refuses it. Never throws, never rejects. */
  upgrade?(req: TransportRequest): Answer;
  /** Ends a request: runs its clean-ups. Returns a promise when there are any. Never throws, never rejects. */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void>;
  /** Counts a response just before it is sent. `durationMs`: how long it took to make. */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void;
  /** Counts a response that failed: node:http refused it, the source of its body failed, or its client did not read. */
  countCut?(why: 'failed' | 'slow'): void;
}

/** The answer to a request for a WebSocket while the server stops. */
const STOPPING: HeadVerdict = Object.freeze({ status: 503, detail: 'The server is about to stop' });
/** How often the server looks for connections that take too long. */
const CHECK_INTERVAL_MS = 1_000;
/** How long handlers whose connections were cut may take to end, so that their clean-ups run before anything else stops. */
const LAST_WORDS_MS = 1_000;
/** How long a client whose CONNECT was refused may take to close its side. */
const LINGER_MS = 5_000;

/** One listening socket and the requests that came over it. */
export class HttpServer {
  readonly #app: ServedApplication;
  readonly #server: Server;
  readonly #secure: SecureTransport | undefined;
  readonly #limits: Limits;
  readonly #connections: Connections;
  /** Undefined when node:http's own time limit fits all bodies. */
  #deadlines: BodyDeadlines | undefined;
  #inFlight = 0;
  /** Requests that have their response while their bodies still arrive. Created on first use. */
  #lingering: Lingering | undefined;
  #isDraining = false;
  /** Cuts everything. Set by close(). */
  #endAll: (() => void) | undefined;
  /** Called when no request runs any more. Set by closeIdle(). */
  #whenIdle: (() => void) | undefined;
  /** Called when no handler runs any more, during close(). */
  #whenHandled: (() => void) | undefined;
  /** Whether a connection stays open for further requests. */
  keepsAlive = true;
  /** Connections that another process has accepted; undefined as long as there was none. */
  #adopted: Set<Socket> | undefined;
  /** Called when the last adopted connection has closed. */
  #whenAlone: (() => void) | undefined;
  readonly #sending: Sending;
  /** Created when a request first asks for another protocol: most programs have no WebSockets. */
  #sockets: OpenSockets | undefined;

  /** `secure` is given for HTTPS. */
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
        const isDeferred = (request as TransportRequest).connection!.withdraw(outgoing); // #onRequest() has set it
        if (isDeferred || request.isAnswered) this.#finish(outgoing); // else its handler runs, and #answer() will find it closed
      },
      onLateHead: (socket) => this.#onLate(socket),
    });
    if (longestRequestMs !== undefined)
      this.#deadlines = new BodyDeadlines(clock, (socket) => this.#onLate(socket));
    const server = this;
    this.#sending = {
      heads: new HeadTexts(app.defaults.identity, limits.keepAliveTimeoutMs),
      endless: new Set(),
      securesCookies: app.securesCookies,
      watchReading: (socket, outgoing) => this.#connections.watchReading(socket, outgoing),
      onOver(this: SentMessage) {
        server.#finish(this); // one function for all answers
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
      ServerResponse: MESSAGES.ServerResponse as never, // its type wants a generic class
      requestTimeout,
      headersTimeout: Math.min(limits.headersTimeoutMs, requestTimeout), // node:http refuses a longer one
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, limits.headersTimeoutMs),
      maxHeaderSize: limits.maxHeaderBytes,
      optimizeEmptyRequests: true,
      requireHostHeader: false, // request-head.ts checks it: the refusal of node:http has no body
      // a request for any protocol but WebSocket is answered as an ordinary request (RFC 9110 §7.8)
      shouldUpgradeCallback: (incoming) =>
        this.#guard(incoming.socket, () => this.#webSockets().isAskedFor(incoming)) === true,
    };
    const listener = this.#onRequest.bind(this) as (...messages: never[]) => void as RequestListener; // MESSAGES makes all messages of this server
    const server = this.#secure?.createServer(options, listener) ?? http.createServer(options, listener);
    const { closeIdleConnections } = server; // close() of node:http calls it: Connections decides which are idle
    server.closeIdleConnections = () => this.#connections.closeIdle(() => closeIdleConnections.call(server));
    server.maxHeadersCount = 0; // beyond it node:http drops fields and says nothing; see request-head.ts
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

  /** Whether it speaks TLS. */
  get isSecure(): boolean {
    return this.#secure !== undefined;
  }

  /** The node:http server, for tests and benchmarks that bring their own sockets. @internal */
  get node(): Server {
    return this.#server;
  }

  /** Listens. Resolves with the address. @throws SvcError `E_LISTEN` */
  async listen(options: ListenOptions = {}): Promise<ListenAddress> {
    const address = await listenOn(this.#server, options, this.isSecure);
    this.#server.on('error', (error) => this.#app.log.error('server_error', error));
    return address;
  }

  /** Serves a connection that another process has accepted, and that nothing has read yet. */
  adopt(socket: Socket): void {
    if (this.#adopted === undefined) {
      this.#adopted = new Set();
      this.#connections.limitHeads(); // node:http holds its time limits only for a server that listens
      this.#deadlines ??= new BodyDeadlines(this.#app.clock, (late) => this.#onLate(late));
    }
    const adopted = this.#adopted.add(socket);
    socket.once('close', () => {
      adopted.delete(socket);
      if (adopted.size === 0) this.#whenAlone?.();
    });
    // as node:http sets it on sockets that it accepts. With TLS, a client that leaves before the handshake would stay until its time limit
    socket.allowHalfOpen = !this.isSecure;
    this.#server.emit('connection', socket);
    if (!this.isSecure) socket.resume(); // else node:tls reads it
  }

  /**
   * Stops accepting and gives the requests that run `deadlineMs` to end, with `Connection: close` in their responses. Then it
   * cuts their connections; handlers that still run have a second more to end. Idle connections close at once, adopted ones after
   * `graceMs`. Returns the number of requests that were cut.
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
      this.#secure?.closeAllConnections(); // connections before the end of their TLS handshake
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

  /** Resolves when no handler runs any more, or has had the time to end. */
  async #handled(): Promise<void> {
    if (this.#inFlight === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenHandled = resolve;
    await within(this.#app.clock, LAST_WORDS_MS, promise, ignore);
  }

  /** During close(): closes the connections that have no request, and lets close() end as soon as no request is left. */
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

  /** Accepts no further connection. Resolves when the last one is gone. close() of node:http would end its time limits, which the remaining requests need. */
  async #refuseOthers(): Promise<void> {
    await new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, resolve);
    });
    this.#server.close(); // and now they may end
  }

  /** Resolves when no adopted connection is left: node:http counts only connections that it accepts itself. */
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

  /** Runs a listener of a connection. When it throws, the connection ends, and the process goes on. */
  #guard<T>(socket: Socket, happen: () => T): T | undefined {
    try {
      return happen();
    } catch (error) {
      this.#app.log.error('server_error', error);
      socket.destroy();
      return undefined;
    }
  }

  /** Refuses CONNECT. Responses before it should go out first (RFC 9110 §9.3.6), but node:http has dropped them: then the connection ends. */
  #onConnect(socket: Socket, stream: Duplex): void {
    socket.on('error', ignore); // "close" follows; node:http has taken its own listener away
    if (stream !== socket) stream.on('error', ignore); // where it has a body, Node 26 hands that over
    const connection = connectionOf(socket);
    if (connection.waiting === 0 && !connection.hasSaidClose) {
      const timer = this.#app.clock.after(LINGER_MS, () => socket.destroy()); // node:http holds no time limit for it any more
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
    if (connection.hasSaidClose) return void incoming.socket.pause(); // it came after the decision to close: not to be processed (RFC 9112 §9.6)
    this.#inFlight++;
    connection.enter(outgoing);
    const req = new TransportRequest(incoming, outgoing, this.#app.defaults);
    outgoing.request = req;
    req.connection = connection;
    let verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
    // a probe is served in spite of overload; every verdict but BUSY also ends the connection
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
    if (this.#deadlines !== undefined && !incoming.complete && !incoming.readableEnded)
      this.#limitBody(req, incoming, this.#deadlines);
    if (response instanceof HttpResponse) this.#answer(req, incoming, outgoing, response);
    else {
      watchEnd(incoming.socket, req.connection!, req); // #onRequest() has set it
      const answer = (settled: HttpResponse): void => this.#answer(req, incoming, outgoing, settled);
      if (response instanceof LateAnswer) response.giveTo(answer);
      else void response.then(answer);
    }
  }

  #limitBody(req: TransportRequest, incoming: IncomingMessage, deadlines: BodyDeadlines): void {
    const limitMs = req.route?.requestTimeoutMs ?? this.#limits.requestTimeoutMs;
    if (limitMs !== this.#app.longestRequestMs || this.#adopted !== undefined)
      deadlines.watch(incoming, req.startedMs + limitMs); // else the limit of node:http fits
  }

  #answer(
    req: TransportRequest,
    incoming: ReceivedMessage,
    outgoing: SentMessage,
    response: HttpResponse,
  ): void {
    this.#app.count(req, response, this.#app.clock.monotonicMs() - req.startedMs);
    req.isAnswered = true;
    const connection = req.connection!; // #onRequest() has set it
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
      sending?.catch((error: unknown) => this.#onSourceFailure(req, error));
      if (this.#isDraining) this.#finishEndless();
    } catch (error) {
      // usually a header or body that node:http refuses
      this.#onRefused(req, error);
      if (outgoing.headersSent) return void outgoing.destroy();
      outgoing.on('close', this.#sending.onOver);
      outgoing.statusMessage = ''; // of the status that was to be sent
      outgoing.writeHead(500, ['Content-Length', '0', req.idField, req.id]).end();
    }
  }

  /** Sends nothing: the client has left while the handler ran, or has ended its side and the response is a stream. */
  #drop(req: TransportRequest, outgoing: SentMessage, { body }: HttpResponse): void {
    if (isChunks(body)) discard(body).catch((error: unknown) => this.#onSourceFailure(req, error));
    outgoing.destroy();
    this.#finish(outgoing);
  }

  #onRefused(req: TransportRequest, error: unknown): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error('response_refused', error, req.logFields());
  }

  /** Ends streams that have no end of their own: a server that stops would wait for them. */
  #finishEndless(): void {
    for (const chunks of this.#sending.endless) chunks.finish();
  }

  /** The source of a body failed after the head had gone out. */
  #onSourceFailure(req: TransportRequest, error: unknown): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error('response_failed', error, req.logFields());
  }

  /** The client has stopped reading its response. */
  #onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void {
    this.#app.countCut?.('slow');
    this.#app.log.warn('slow_reader_cut', {
      method: outgoing?.req.method,
      peer: socket.remoteAddress,
      request_id: outgoing?.request?.id,
    });
  }

  /** A response is over, sent or not: finishes its request, and starts the next one of its connection. */
  #finish(outgoing: SentMessage): void {
    const req = outgoing.request as TransportRequest | undefined; // #onRequest() has set it
    if (req === undefined) return; // finished before: the rest of its body has arrived behind the last response
    outgoing.request = undefined;
    const connection = req.connection!; // #onRequest() has set it, too
    connection.leave(outgoing);
    const incoming = outgoing.req as ReceivedMessage; // MESSAGES makes it
    if (!incoming.readableEnded) incoming.isLetGo = true; // node:http discards the rest of the body
    void this.#app.finish(req, req.wasDelivered ? undefined : (req.failure ?? new ClientDisconnected()));
    if (req.late === undefined) this.#requestDone();
    else void req.late.then(() => this.#requestDone()); // its handler still runs
    if (connection.deferred === undefined) return;
    const next = connection.takeDeferred(incoming.socket);
    if (next === undefined) return;
    const { outgoing: later, verdict } = next;
    this.#start(later.request as TransportRequest, later.req as ReceivedMessage, later, verdict); // #onRequest() has set the request, MESSAGES makes the message
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
        // the last bytes have left by now; a response that began before close() said nothing of closing, so another request may have come
        if (this.#isIdle) this.#whenIdle?.();
      });
  }

  #webSockets(): OpenSockets {
    return (this.#sockets ??= new OpenSockets(this.#app, {
      begin: (req, incoming) => this.#beginUpgrade(req, incoming),
      refuse: (req, socket, response) =>
        this.#guard(socket, () => this.#refuseUpgrade(req, socket, response)) ?? Promise.resolve(),
      accept: (socket) => this.#connections.release(socket),
      answered: () => this.#requestDone(),
      closed: () => this.#endWhenIdle(),
    }));
  }

  /** Registers a request for a WebSocket. Returns a response when it is refused before the application sees it. */
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

  /** Sends an ordinary response, the last of its connection. */
  #refuseUpgrade(req: TransportRequest, socket: Socket, response: HttpResponse): Promise<void> {
    const connection = req.connection!; // #beginUpgrade() has set it
    connection.hasSaidClose = true;
    connection.waiting++;
    return sendLast(socket, response, req, this.#sending).catch((error: unknown) =>
      this.#onSourceFailure(req, error),
    );
  }
}

/**
 * Sends "100 Continue" only when the handler first reads the body, and not when the body or a response is there already: a client
 * that waits for it need not send what is not wanted (RFC 9110 §10.1.1).
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
