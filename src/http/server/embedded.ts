/**
 * Serves an application within a node:http server that other code has created, such as another framework
 * (`app.requestListener()`).
 *
 * Only documented parts of node:http are used, because the other server creates the request and response
 * objects.
 */
import { ClientDisconnected } from '../../base/errors.ts';
import { discard, isChunks } from '../chunks.ts';
import { TransportRequest } from '../request/request.ts';
import { HttpResponse } from '../response.ts';
import { refusalOf } from './connections.ts';
import { refuseSocket } from './early-ends.ts';
import { HeadTexts } from './fast-path/internals.ts';
import { USUAL_LIMITS } from './options.ts';
import { judgeHead } from './request-head.ts';
import { send, sendLast } from './send.ts';
import { OpenSockets } from './websockets.ts';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { ReceivedMessage, SentMessage } from './fast-path/internals.ts';
import type { Sending } from './send.ts';
import type { ServedApplication } from './server.ts';

/** Handles requests and WebSocket handshakes that another server has received. */
export class EmbeddedListener {
  readonly #app: ServedApplication;
  readonly #maxHeaderFields: number;
  readonly #sending: Sending;
  readonly #sockets: OpenSockets;

  constructor(app: ServedApplication) {
    const { limits = USUAL_LIMITS } = app;
    this.#app = app;
    this.#maxHeaderFields = limits.maxHeaderFields;
    const finish = (outgoing: SentMessage): void => this.#finish(outgoing);
    this.#sending = {
      heads: new HeadTexts(app.defaults.identity, limits.keepAliveTimeoutMs),
      endless: app.endless ?? new Set(),
      clock: app.clock,
      securesCookies: app.securesCookies,
      watchReading: () => undefined, // the other server closes connections whose clients do not read
      onOver(this: SentMessage) {
        finish(this);
      },
    };
    this.#sockets = new OpenSockets(app, {
      begin: (req, incoming) => this.#begin(req, incoming),
      refuse: (req, incoming, response) =>
        Promise.try(() => sendLast(incoming, response, req, this.#sending)).catch((error: unknown) => {
          this.#onFailure(req, error);
          incoming.socket.destroy();
        }),
      accept: () => undefined,
      answered: () => undefined,
      closed: () => undefined,
    });
    app.endless?.add({ finish: () => this.#sockets.finish() });
  }

  /** Listener for the event `request`. */
  request(incoming: IncomingMessage, response: ServerResponse): void {
    const outgoing = response as SentMessage;
    const req = new TransportRequest(incoming, outgoing, this.#app.defaults);
    outgoing.request = req;
    const answer = this.#begin(req, incoming) ?? this.#app.handle(req);
    if (answer instanceof HttpResponse) this.#answer(req, outgoing, answer);
    else void answer.then((ready) => this.#answer(req, outgoing, ready));
  }

  /** Listener for the event `upgrade`. Responds with 404 if the application has no WebSocket at the path. */
  upgrade(incoming: IncomingMessage, stream: Duplex, head: Buffer): void {
    const socket = stream as Socket;
    if (this.#sockets.isAskedFor(incoming)) return this.#sockets.onUpgrade(incoming, socket, head);
    socket.on('error', () => socket.destroy());
    refuseSocket(socket, 404, this.#app.defaults.identity);
  }

  #begin(req: TransportRequest, incoming: IncomingMessage): HttpResponse | undefined {
    req.startedMs = this.#app.clock.monotonicMs();
    req.peer = incoming.socket.remoteAddress;
    const verdict = judgeHead(incoming, this.#maxHeaderFields);
    return verdict === undefined || verdict.status === 0 ? undefined : refusalOf(verdict, req.id);
  }

  #answer(req: TransportRequest, outgoing: SentMessage, response: HttpResponse): void {
    this.#app.count(req, response, this.#app.clock.monotonicMs() - req.startedMs);
    req.isAnswered = true;
    if (outgoing.destroyed) {
      if (isChunks(response.body))
        discard(response.body).catch((error: unknown) => this.#onFailure(req, error));
      return this.#finish(outgoing);
    }
    try {
      send(outgoing, response, req, false, this.#sending)?.catch((error: unknown) =>
        this.#onFailure(req, error),
      );
    } catch (error) {
      // node:http has refused a header field or the body
      this.#onFailure(req, error, 'response_refused');
      outgoing.destroy();
    }
  }

  #finish(outgoing: SentMessage): void {
    const req = outgoing.request as TransportRequest | undefined;
    if (req === undefined) return;
    outgoing.request = undefined;
    // the cast is needed to set `isLetGo`, which a request of another server does not have
    const incoming = outgoing.req as ReceivedMessage;
    if (!incoming.readableEnded) incoming.isLetGo = true; // node:http now discards the rest of the body
    void this.#app.finish(req, req.wasDelivered ? undefined : (req.failure ?? new ClientDisconnected()));
  }

  #onFailure(req: TransportRequest, error: unknown, event = 'response_failed'): void {
    req.failure = error;
    this.#app.countCut?.('failed');
    this.#app.log.error(event, error, req.logFields());
  }
}
