/**
 * WebSockets of one server. node:http emits `upgrade` for a handshake, and the application returns a
 * response. With a 101, the WebSocket opens; any other response is sent with `Connection: close`.
 *
 * An open WebSocket keeps only the header fields of its request. The objects of node:http, which take several
 * KB, are released.
 */
import { currentContext, ignore, within } from '../../base/promises.ts';
import { ClientDisconnected } from '../../base/errors.ts';
import { connectionOf } from './connections.ts';
import { isNamed } from '../headers.ts';
import { TransportRequest, pathOf } from '../request/request.ts';
import { HttpResponse, Prepared } from '../response.ts';
import { endWithLogin } from '../state.ts';
import { CLOSE } from '../websocket/codes.ts';
import { acceptKey, asksForWebSocket } from '../websocket/handshake.ts';
import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { ContextRunner } from '../../base/promises.ts';
import type { Awaitable } from '../contracts.ts';
import type { Incoming, Outcome, Outgoing, RequestDefaults } from '../request/request.ts';
import type { SocketDeps, SocketHost } from '../websocket/handlers.ts';
import type { WebSocketConnection } from '../websocket/websocket.ts';
import type { DeflateAgreement, Handshake } from '../websocket/handshake.ts';

interface SocketApplication {
  readonly defaults: RequestDefaults;
  readonly clock: Clock;
  readonly securesCookies: boolean;
  hasSocketAt?(path: string): boolean;
  upgrade?(req: TransportRequest): Awaitable<HttpResponse>;
  finish(req: TransportRequest, outcome: Outcome): Awaitable<void>;
  count(req: TransportRequest, response: HttpResponse, durationMs: number): void;
}

/** The part of the server that its WebSockets need. */
interface UpgradeHost {
  /** Counts a handshake. Returns a response if it is refused before the application is called. */
  begin(req: TransportRequest, incoming: IncomingMessage): HttpResponse | undefined;
  /**
   * Sends an ordinary response to a handshake, and ends the connection. Resolves when the response has ended.
   */
  refuse(req: TransportRequest, incoming: IncomingMessage, response: HttpResponse): Promise<void>;
  /** Called when a handshake succeeds, and the connection becomes a WebSocket. */
  accept(socket: Socket): void;
  /** Called when a handshake is answered: its WebSocket is open, or another response was sent. */
  answered(): void;
  closed(): void;
}

/**
 * Texts that most handshakes contain. Open WebSockets keep their header fields, so these texts are shared
 * between them to save memory.
 */
const USUAL_TEXTS: ReadonlyMap<string, string> = new Map(
  [
    'Host',
    'Connection',
    'Upgrade',
    'websocket',
    'Sec-WebSocket-Version',
    '13',
    'Sec-WebSocket-Key',
    'Sec-WebSocket-Extensions',
    'Sec-WebSocket-Protocol',
    'Origin',
    'User-Agent',
    'Accept-Encoding',
    'Accept-Language',
    'Cache-Control',
    'no-cache',
    'Pragma',
    'Cookie',
    'Authorization',
    'permessage-deflate; client_max_window_bits',
    'gzip, deflate, br, zstd',
  ].map((text) => [text, text]),
);

/**
 * Request and response of a handshake, which exist as long as the WebSocket. They have no streams, because a
 * handshake has no body, and streams of node:http would take more memory than the rest of the WebSocket.
 */
class UpgradeExchange implements Outgoing {
  readonly url: string | undefined;
  readonly rawHeaders: readonly string[];
  readonly socket: Socket;
  writableFinished = false;
  destroyed = false;
  #listeners: (() => void)[] | undefined;
  // constants, because asksForWebSocket() has checked these properties of the request
  readonly method = 'GET';
  readonly httpVersionMinor = 1;
  readonly complete = true;
  readonly readableEnded = true;

  constructor({ url, rawHeaders, socket }: IncomingMessage) {
    this.url = url;
    this.rawHeaders = rawHeaders.map((text) => USUAL_TEXTS.get(text) ?? text);
    this.socket = socket;
  }

  /** Returns this object as a request without a body. */
  get incoming(): Incoming {
    return this as unknown as Incoming;
  }

  once(_event: 'close', listener: () => void): this {
    (this.#listeners ??= []).push(listener);
    return this;
  }

  close(isFinished: boolean): void {
    this.destroyed = true;
    this.writableFinished = isFinished;
    const listeners = this.#listeners;
    this.#listeners = undefined;
    listeners?.forEach((listener) => listener());
  }
}

/** Time in milliseconds that handlers have to end after their WebSockets were closed. */
const LAST_WORDS_MS = 1_000;
/** Number of freed bytes that the C library keeps, instead of returning them to the operating system. */
const KEPT_BYTES = 16_777_216;

/** The open WebSockets of one server, and the handshakes for new ones. */
export class OpenSockets {
  readonly #app: SocketApplication;
  readonly #host: UpgradeHost;
  readonly #open = new Map<WebSocketConnection, UpgradeExchange>();
  /** Connections whose handshake the application handles, or whose refusal is being sent. */
  readonly #pending = new Set<Socket>();
  #isClosing = false;
  #whenEmpty: (() => void) | undefined;
  readonly #socketHost: SocketHost<WebSocketConnection>;

  constructor(app: SocketApplication, host: UpgradeHost) {
    this.#app = app;
    this.#host = host;
    keepFreedMemory();
    this.#socketHost = {
      // defined, because #accept() has stored each WebSocket
      onClosed: (socket) => this.#open.get(socket)!.close(false),
      onOver: (socket, failure) => this.#over(socket, failure),
    };
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Returns whether node:http should emit `upgrade` for this request, and stop handling its connection. A
   * handshake that waits for an earlier request is handled as an ordinary request, so the result is false.
   */
  isAskedFor(incoming: IncomingMessage): boolean {
    return (
      asksForWebSocket(incoming) &&
      connectionOf(incoming.socket).waiting === 0 &&
      this.#app.hasSocketAt?.(pathOf(incoming.url ?? '/')) === true
    );
  }

  onUpgrade(incoming: IncomingMessage, socket: Socket, head: Buffer): void {
    socket.on('error', ignore); // the event "close" follows every error
    if (connectionOf(socket).hasSaidClose) return void socket.destroy();
    const outgoing = new UpgradeExchange(incoming);
    const req = new TransportRequest(outgoing.incoming, outgoing, this.#app.defaults);
    // upgrade() is defined: isAskedFor() has found a WebSocket at this path
    const response = this.#host.begin(req, incoming) ?? this.#app.upgrade!(req);
    const answer = (ready: HttpResponse): void => this.#answer(req, outgoing, incoming, head, ready);
    if (response instanceof HttpResponse) return answer(response);
    this.#pending.add(socket);
    void response.then((ready) => {
      this.#pending.delete(socket);
      answer(ready);
    });
  }

  goAway(): void {
    this.#isClosing = true;
    for (const socket of this.#open.keys())
      if (socket.isOpen) socket.close(CLOSE.goingAway, 'the server stops');
  }

  /** Resolves when all handlers of WebSockets have ended, at the latest after `limitMs`. */
  async ended(limitMs: number = LAST_WORDS_MS): Promise<void> {
    if (this.#open.size === 0) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#whenEmpty = resolve;
    await within(this.#app.clock, limitMs, promise, ignore);
  }

  /** Closes all WebSockets that are open now. Their handlers have LAST_WORDS_MS to end. */
  async finish(): Promise<void> {
    this.goAway();
    this.#isClosing = false; // a shutdown of the application may be followed by another start
    await this.ended();
    this.terminate();
  }

  /** Closes all connections at once. */
  terminate(): void {
    for (const socket of this.#open.keys()) socket.terminate();
    for (const socket of this.#pending) socket.destroy();
  }

  #answer(
    req: TransportRequest,
    outgoing: UpgradeExchange,
    incoming: IncomingMessage,
    head: Buffer,
    response: HttpResponse,
  ): void {
    const { socket } = incoming;
    this.#app.count(req, response, this.#app.clock.monotonicMs() - req.startedMs);
    req.isAnswered = true;
    if (socket.destroyed) this.#end(req, outgoing, new ClientDisconnected());
    else if (response instanceof SwitchingProtocols) this.#accept(req, outgoing, socket, head, response);
    else this.#refuse(req, outgoing, incoming, response);
  }

  #accept(
    req: TransportRequest,
    outgoing: UpgradeExchange,
    stream: Socket,
    head: Buffer,
    response: SwitchingProtocols,
  ): void {
    this.#host.accept(stream);
    stream.setTimeout(0);
    stream.write(headOf(response, req, this.#app.securesCookies || req.scheme === 'https'), 'latin1');
    const socket = response.open(stream, req, this.#socketHost);
    this.#open.set(socket, outgoing);
    socket.start(head);
    if (this.#isClosing) socket.close(CLOSE.goingAway, 'the server stops');
    this.#host.answered();
  }

  #refuse(
    req: TransportRequest,
    outgoing: UpgradeExchange,
    incoming: IncomingMessage,
    response: HttpResponse,
  ): void {
    const { socket } = incoming;
    this.#pending.add(socket); // recorded, because node:http no longer closes this connection itself
    socket.once('close', () => this.#pending.delete(socket));
    // discards received bytes, because the end of a connection is only noticed while it is read
    socket.resume();
    void this.#host
      .refuse(req, incoming, response)
      .then(() => this.#end(req, outgoing, socket.writableFinished ? undefined : new ClientDisconnected()));
  }

  #end(req: TransportRequest, outgoing: UpgradeExchange, outcome: unknown): void {
    if (outgoing.destroyed) return;
    outgoing.close(outcome === undefined);
    void this.#app.finish(req, req.failure ?? outcome);
    this.#host.answered();
  }

  #over(socket: WebSocketConnection, failure: unknown): void {
    this.#open.delete(socket);
    if (this.#open.size === 0) this.#whenEmpty?.();
    void this.#app.finish(socket.req, failure);
    this.#host.closed();
  }
}

/**
 * Lets glibc, the C library of most Linux systems, keep 16 MiB of freed memory. By default it returns freed
 * memory to the operating system. New memory then causes page faults, which take a tenth of the time of a
 * message of 4 KiB.
 *
 * glibc keeps freed memory up to twice the size of the largest block that was freed (mallopt(3)). So this
 * function allocates a large block, and frees it at once.
 */
function keepFreedMemory(): void {
  new ArrayBuffer(KEPT_BYTES / 2).transfer(0);
}

/** Parameters of a WebSocket on which client and server have agreed. */
export interface Agreement {
  readonly handshake: Handshake;
  /** Chosen subprotocol; empty if there is none. */
  readonly protocol: string;
  readonly deflate: DeflateAgreement | undefined;
}

/** Creates a WebSocket on the stream of a connection. */
export type OpenSocket = (stream: Duplex, deps: SocketDeps<WebSocketConnection>) => WebSocketConnection;

/**
 * Response 101 (Switching Protocols), after which the connection is a WebSocket (RFC 6455 §4.2.2). Middleware
 * may add header fields and cookies to it, or refuse the handshake with another response.
 */
export class SwitchingProtocols extends HttpResponse {
  readonly #agreement: Agreement;
  readonly #open: OpenSocket;
  readonly #context: unknown;
  /** Calls a function in the AsyncLocalStorage context in which the handshake was accepted. */
  readonly #enter: ContextRunner = currentContext();

  constructor(agreement: Agreement, open: OpenSocket, context: unknown) {
    const { handshake, protocol, deflate } = agreement;
    const fields = [
      'Upgrade',
      'websocket',
      'Connection',
      'Upgrade',
      'Sec-WebSocket-Accept',
      acceptKey(handshake.key),
    ];
    if (protocol !== '') fields.push('Sec-WebSocket-Protocol', protocol);
    if (deflate !== undefined) fields.push('Sec-WebSocket-Extensions', deflate.field);
    super(null, new Prepared(101, fields));
    this.#agreement = agreement;
    this.#open = open;
    this.#context = context;
  }

  /** Creates the WebSocket on the stream of its connection. It is closed when the login of its user ends. */
  open(stream: Duplex, req: TransportRequest, host: SocketHost<WebSocketConnection>): WebSocketConnection {
    const { protocol, deflate } = this.#agreement;
    const context = this.#context;
    const socket = this.#open(stream, { protocol, deflate, context, enter: this.#enter, req, host });
    endWithLogin(req, (reason) => socket.close(CLOSE.policyViolation, reason));
    return socket;
  }
}

/** Header fields that are not sent, because a 101 has no body and the connection becomes a WebSocket. */
const NOT_SENT = /^(?:content-length|content-type|transfer-encoding|keep-alive)$/i;

/** The text is sent in Latin-1. The fields were checked when they were set. */
function headOf(response: SwitchingProtocols, req: TransportRequest, isSecure: boolean): string {
  let text = 'HTTP/1.1 101 Switching Protocols\r\n';
  const fields = response.fields(isSecure);
  for (let index = 0; index < fields.length; index += 2) {
    const name = fields[index]!;
    if (!NOT_SENT.test(name) && !isNamed(name, req.identity.name))
      text += `${name}: ${fields[index + 1]!}\r\n`;
  }
  return `${text}${req.idField}: ${req.id}\r\n\r\n`;
}
