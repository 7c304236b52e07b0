/**
 * node:http <-> the application: listens with safe limits, hands each request over, sends the answer, drains.
 *
 *   listen -> request -> handle(req) -> send -> afterwards(outcome)          close(): stop accepting, let what runs finish
 */
import { Server as NetServer } from 'node:net';
import { http } from '../../base/node-http.ts';
import { ignore } from '../../base/promises.ts';
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
  /** How much and how long; undefined: as usual. */
  readonly limits?: Limits | undefined;
  /** The longest `requestTimeoutMs` of its routes, where any has one of its own. */
  readonly longestRequestMs?: number | undefined;
  /** Whether a request is served however many there are. */
  isProbe?(req: TransportRequest): boolean;
  /** Counts connections and their requests; undefined where nobody does. */
  readonly connections?: ConnectionMeter | undefined;
  /** Answers. Never throws, never rejects. */
  handle(req: TransportRequest): Answer;
  /** Whether a WebSocket can be opened at a path; undefined where there are none. */
  hasSocketAt?(path: string): boolean;
  /** Answers a request that asks for one: with 101, or any other answer to refuse it. Never throws, never rejects. */
  upgrade?(req: TransportRequest): Answer;
  /** Runs what the request left for afterwards; a promise where that takes time. Never throws, never rejects. */
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void>;
  /** Told of every answer and how long it took to make, in milliseconds. */
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void;
  /** Told of an answer that was not sent whole: its source failed, or its client did not read. */
  countCut?(why: 'failed' | 'slow'): void;
}

/** What a server answers that is about to stop, where it cannot go on with a connection. */
const LEAVING: HeadVerdict = Object.freeze({ status: 503, detail: 'The server is about to stop' });
/** How often connections are looked at that take too long. */
const CHECK_INTERVAL_MS = 1_000;
/** How long handlers whose connections were cut may take to end, so that their clean-ups run before anything else stops. */
const LAST_WORDS_MS = 1_000;
/** How long a client that asks for a tunnel may take to end its side. */
const LINGER_MS = 5_000;

/** One listening socket and the requests that came over it. */
export class HttpServer {
  readonly #app: ServedApplication;
  readonly #server: Server;
  readonly #secure: SecureTransport | undefined;
  readonly #limits: Limits;
  readonly #connections: Connections;
  /** Undefined where node:http limits the time of all bodies. */
  #deadlines: BodyDeadlines | undefined;
  #inFlight = 0;
  /** Requests that are answered, and whose bodies still come. Made for the first. */
  #lingering: Lingering | undefined;
  #isDraining = false;
  #endAll: (() => void) | undefined;
  #whenIdle: (() => void) | undefined;
  /** Called when no handler runs any more, during close(). */
  #whenHandled: (() => void) | undefined;
  /** Whether a connection stays open for further requests. */
  keepsAlive = true;
  /** Connections that another process has accepted; undefined as long as there was none. */
  #adopted: Set<Socket> | undefined;
  #whenAlone: (() => void) | undefined;
  readonly #sending: Sending;
  /** Made when a request first asks for another protocol: most programs have none. */
  #sockets: OpenSockets | undefined;

  /** `secure` where it speaks TLS. */
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
        if (isDeferred || request.isAnswered) this.#closed(outgoing); // else #answer() finds it closed
      },
      onLateHead: (socket) => this.#onLate(socket),
    });
    if (longestRequestMs !== undefined)
      this.#deadlines = new BodyDeadlines(clock, (socket) => this.#onLate(socket));
    const server = this;
    this.#sending = {
      heads: new HeadTexts(limits.keepAliveTimeoutMs),
      endless: new Set(),
      securesCookies: app.securesCookies,
      watchReading: (socket, outgoing) => this.#connections.watchReading(socket, outgoing),
      onOver(this: SentMessage) {
        server.#closed(this); // one function for all answers
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
      ServerResponse: MESSAGES.ServerResponse as never, // the type asks for a class that is generic in its request
      requestTimeout,
      headersTimeout: Math.min(limits.headersTimeoutMs, requestTimeout), // node:http refuses a longer one
      keepAliveTimeout: limits.keepAliveTimeoutMs,
      connectionsCheckingInterval: Math.min(CHECK_INTERVAL_MS, limits.headersTimeoutMs),
      maxHeaderSize: limits.maxHeaderBytes,
      optimizeEmptyRequests: true,
      requireHostHeader: false, // node:http refuses without a body; see request-head.ts
      shouldUpgradeCallback: (incoming) =>
        this.#guard(incoming.socket, () => this.#openSockets().isAskedFor(incoming)) === true, // others are answered as they stand: nothing here speaks another protocol (RFC 9110 §7.8)
    };
    const listener = this.#onRequest.bind(this) as (...messages: never[]) => void as RequestListener; // MESSAGES makes all messages of this server
    const server = this.#secure?.createServer(options, listener) ?? http.createServer(options, listener);
    const { closeIdleConnections } = server;
    server.closeIdleConnections = () => this.#connections.closeIdle(() => closeIdleConnections.call(server));
    server.maxHeadersCount = 0; // beyond it node:http drops fields and says nothing; see request-head.ts
    server.on('clientError', (error, socket) =>
      this.#guard(socket as Socket, () => onClientError(error, socket as Socket, this.#identity)),
    );
    server.on('connect', (incoming: IncomingMessage, stream) =>
      this.#guard(incoming.socket, () => this.#onConnect(incoming.socket, stream)),
    );
    server.on('upgrade', (incoming, socket, head) =>
      this.#guard(socket as Socket, () => this.#openSockets().onUpgrade(incoming, socket as Socket, head)),
    );
    server.on('checkExpectation', listener);
    server.on('checkContinue', (incoming: IncomingMessage, outgoing) => {
      continueLater(incoming as ReceivedMessage, outgoing);
      listener(incoming, outgoing);
    });
    return server;
  }

  /** Requests that have come and are not answered yet; those whose client has left count while their handlers run. */
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
      this.#connections.limitHeads(); // node:http watches the time limits of a server that listens only
      this.#deadlines ??= new BodyDeadlines(this.#app.clock, (late) => this.#onLate(late));
    }
    const adopted = this.#adopted.add(socket);
    socket.once('close', () => {
      adopted.delete(socket);
      if (adopted.size === 0) this.#whenAlone?.();
    });
    socket.allowHalfOpen = !this.isSecure; // as node:http has those that it accepts itself, and node:https has not: a client that leaves before the handshake would stay until its time is over
    this.#server.emit('connection', socket);
    if (!this.isSecure) socket.resume(); // else node:tls reads it
  }

  /**
   * Stops accepting, answers what is in flight with `Connection: close`, and resolves when the last connection is gone and
   * the last handler has answered, or after `deadlineMs` without mercy: connections are cut, and handlers that still run have a
   * second more to end. Connections without a request are closed after `graceMs`, which counts for adopted ones only. Answers how
   * many requests were cut.
   */
  async close(deadlineMs: number, graceMs = 0): Promise<number> {
    const adopted = this.#adopted;
    if (!this.#server.listening && adopted === undefined) return 0;
    this.#isDraining = true;
    this.#finishEndless();
    this.#sockets?.goAway();
    const closed = adopted === undefined ? this.#refuseOthers() : this.#left(adopted);
    const idle = Promise.withResolvers<void>();
    this.#endAll = () => {
      this.#sockets?.terminate();
      this.#connections.destroy();
      this.#secure?.closeAllConnections(); // connections before the end of their TLS handshake
      idle.resolve();
    };
    let cut = 0;
    using _deadline = this.#app.clock.after(deadlineMs, () => {
      cut = this.#inFlight;
      this.#endAll!();
    });
    using _grace = this.#app.clock.after(graceMs, () => this.closeIdle());
    if (graceMs === 0 || adopted === undefined) this.closeIdle();
    await closed;
    this.closeIdle();
    await idle.promise;
    await Promise.all([this.#handled(), this.#sockets?.ended()]);
    return cut;
  }

  /** Resolves when no handler runs any more, or has had the time to end. */
  async #handled(): Promise<void> {
    if (this.#inFlight === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenHandled = resolve;
    using _limit = this.#app.clock.after(LAST_WORDS_MS, resolve);
    await promise;
  }

  /** During close(): ends the connections on which no request is being answered, and every other with its answer. */
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

  /** Accepts no further connection. Resolves when the last one is gone. close() of node:http would end its time limits, which hold for what still comes. */
  async #refuseOthers(): Promise<void> {
    await new Promise((resolve) => {
      NetServer.prototype.close.call(this.#server, resolve);
    });
    this.#server.close(); // and now they may end
  }

  /** Resolves when no adopted connection is left: node:http counts only those that it accepts itself. */
  async #left(adopted: ReadonlySet<Socket>): Promise<void> {
    if (adopted.size > 0)
      await new Promise<void>((resolve) => {
        this.#whenAlone = resolve;
      });
    this.#server.close();
  }

  get #identity(): RequestIdentity {
    return this.#app.defaults.identity;
  }

  /** What happens on a connection outside of a request. Where it fails, as the first of its kind may when the package has been replaced meanwhile, the connection ends, and not the process. */
  #guard<T>(socket: Socket, happen: () => T): T | undefined {
    try {
      return happen();
    } catch (error) {
      this.#app.log.error('server_error', error);
      socket.destroy();
      return undefined;
    }
  }

  /** A client that asks for a tunnel has to wait for its answers first (RFC 9110 §9.3.6): node:http has given up those that it has not had. */
  #onConnect(socket: Socket, stream: Duplex): void {
    socket.on('error', ignore); // "close" follows; node:http has taken its own listener away
    if (stream !== socket) stream.on('error', ignore); // where it has a body, Node 26 hands that over
    const connection = connectionOf(socket);
    if (connection.waiting === 0 && !connection.hasSaidClose) {
      const timer = this.#app.clock.after(LINGER_MS, () => socket.destroy()); // node:http does not look after it any more
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
    if (connection.hasSaidClose) return void incoming.socket.pause(); // sent behind our "Connection: close": not to be processed (RFC 9112 §9.6)
    this.#inFlight++;
    connection.enter(outgoing);
    const req = new TransportRequest(incoming, outgoing, this.#app.defaults);
    outgoing.request = req;
    req.connection = connection;
    let verdict =
      judgeHead(incoming, this.#limits.maxHeaderFields) ??
      this.#connections.judge(connection, this.#inFlight);
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
      deadlines.watch(incoming, req.startedMs + limitMs); // else node:http does
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
          () => this.#closed(outgoing),
        );
      const sending = send(outgoing, response, req, isLast, this.#sending);
      sending?.catch((error: unknown) => this.#onSourceFailure(req, error));
      if (this.#isDraining) this.#finishEndless();
    } catch (error) {
      // a field or body that node:http refuses
      this.#onRefused(req, error);
      if (outgoing.headersSent) return void outgoing.destroy();
      outgoing.on('close', this.#sending.onOver);
      outgoing.statusMessage = ''; // of the status that was to be sent
      outgoing.writeHead(500, ['Content-Length', '0', req.idField, req.id]).end();
    }
  }

  /** The client has left while the handler ran, or has ended its side and gets no chunks. */
  #drop(req: TransportRequest, outgoing: SentMessage, { body }: HttpResponse): void {
    if (isChunks(body)) discard(body).catch((error: unknown) => this.#onSourceFailure(req, error));
    outgoing.destroy();
    this.#closed(outgoing);
  }

  #onRefused(req: TransportRequest, error: unknown): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error('response_refused', error, req.logFields());
  }

  /** Streams without an end of their own would hold a server up that stops. */
  #finishEndless(): void {
    for (const chunks of this.#sending.endless) chunks.finish();
  }

  /** The source of a body failed after the head had gone out. */
  #onSourceFailure(req: TransportRequest, error: unknown): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error('response_failed', error, req.logFields());
  }

  /** The client takes nothing of its answer any more. */
  #onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void {
    this.#app.countCut?.('slow');
    this.#app.log.warn('slow_reader_cut', {
      method: outgoing?.req.method,
      peer: socket.remoteAddress,
      request_id: outgoing?.request?.id,
    });
  }

  /** Nothing more goes out of an answer. */
  #closed(outgoing: SentMessage): void {
    const req = outgoing.request as TransportRequest | undefined; // #onRequest() has set it
    if (req === undefined) return; // the response was the last of its connection, and the rest of the request has arrived meanwhile
    outgoing.request = undefined;
    const connection = req.connection!; // #onRequest() has set it, too
    connection.leave(outgoing);
    const incoming = outgoing.req as ReceivedMessage; // MESSAGES makes it
    if (!incoming.readableEnded) incoming.isLetGo = true; // node:http throws away what nothing reads
    void this.#app.finish(req, req.wasDelivered ? undefined : (req.failure ?? new ClientDisconnected()));
    if (req.late === undefined) this.#leave();
    else void req.late.then(() => this.#leave()); // its handler still runs
    if (connection.deferred === undefined) return;
    const next = connection.takeDeferred(incoming.socket);
    if (next === undefined) return;
    const { outgoing: later, verdict } = next;
    this.#start(later.request as TransportRequest, later.req as ReceivedMessage, later, verdict); // #onRequest() has set the request, MESSAGES makes the message
  }

  #leave(): void {
    this.#inFlight--;
    if (!this.#isDraining) return;
    if (this.#inFlight === 0) this.#whenHandled?.();
    this.#endWhenIdle();
  }

  #endWhenIdle(): void {
    if (this.#isDraining && this.#isIdle)
      setImmediate(() => {
        // what was sent is on its way by then
        if (this.#isIdle) this.#whenIdle?.(); // an answer that began before has no "Connection: close": its client may have sent the next request
      });
  }

  #openSockets(): OpenSockets {
    return (this.#sockets ??= new OpenSockets(this.#app, {
      begin: (req, incoming) => this.#beginUpgrade(req, incoming),
      refuse: (req, socket, response) =>
        this.#guard(socket, () => this.#refuseUpgrade(req, socket, response)) ?? Promise.resolve(),
      accept: (socket) => this.#connections.release(socket),
      answered: () => this.#leave(),
      closed: () => this.#endWhenIdle(),
    }));
  }

  /** A request that asks for a WebSocket. Answers what refuses it before the application sees it. */
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
    return this.#isDraining ? refusalOf(LEAVING, req.id) : undefined;
  }

  /** An ordinary answer, the last of its connection. */
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
 * "100 Continue" when the body is first asked for, unless it has come by then, and never before an answer that does without it: a
 * client that waits for it need not send what is not wanted (RFC 9110 §10.1.1).
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
