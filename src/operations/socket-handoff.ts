/**
 * Passes connections to child processes: the parent accepts each connection, and sends it unread to a child
 * that serves it.
 *
 * A connection waits in the parent until a child can take it. The child confirms the connection with the
 * message `took`. If the child exits before that, another child gets the connection, because nothing was read
 * from it.
 *
 * If no child takes a connection within 30 seconds, the parent responds with 503. The parent closes TLS
 * connections without a response, because it has no certificate. If a child has failed to start, connections
 * get the 503 at once.
 */
import { createServer } from 'node:net';
import { listenOn } from '../http/server/listen.ts';
import { HttpServer } from '../http/server/server.ts';
import { USUAL_IDENTITY } from '../http/request-id.ts';
import { AppState } from '../http/state.ts';
import type { Server, Socket } from 'node:net';
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { ListenOptions } from '../http/server/listen.ts';
import type { Address, Child } from './supervision.ts';

/** Maximum number of connections that wait for a child process. */
const MOST_WAITING = 4_096;
const WAIT_MS = 30_000;
/** Maximum number of unconfirmed connections. A child with this many gets no more. */
const MOST_ON_THEIR_WAY = 4;
/** Time in milliseconds to complete the parent's own 503 responses before it stops. */
const FAREWELL_MS = 1_000;

/** An accepted connection from which nothing was read yet. */
interface Waiting {
  readonly socket: Socket;
  readonly limit: Disposable;
}

interface HandoffDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Creates the 503 response to requests while no child serves. */
  readonly unavailablePage: (req: HttpRequest) => HttpResponse;
}

/** Accepts the connections of a port, and sends them to child processes. */
export class SocketHandoff {
  readonly #deps: HandoffDeps;
  readonly #own: HttpServer;
  #server: Server | undefined;
  #opened: { readonly key: string; readonly address: Promise<Address> } | undefined;
  /** Children with their unconfirmed connections. The one that waits longest is first. */
  readonly #children = new Map<Child, Map<number, Socket>>();
  /** Children that get no further connections, each with its unconfirmed connections. */
  readonly #leaving = new Map<Child, Map<number, Socket>>();
  readonly #waiting = new Set<Waiting>();
  #lastId = 0;
  #isUnavailable = false;
  #isShut = false;
  /** Whether the application serves TLS. If so, the parent cannot send 503, because it has no certificate. */
  #isSecure = false;

  constructor(deps: HandoffDeps) {
    const { clock, log } = deps;
    this.#deps = deps;
    this.#own = new HttpServer({
      defaults: { state: new AppState(), maxBodyBytes: Infinity, identity: USUAL_IDENTITY },
      clock,
      log,
      securesCookies: false,
      handle: (req) => deps.unavailablePage(req),
      finish: () => undefined,
      count: () => undefined,
    });
    this.#own.keepsAlive = false;
  }

  /** Number of connections that wait for a child. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Listens on an address. Stops listening on the address of an earlier call if it is different. */
  open(place: ListenOptions, isSecure = false): Promise<Address> {
    const key = JSON.stringify([place, isSecure]);
    if (this.#opened?.key === key) return this.#opened.address;
    const before = this.#opened;
    const address = this.#listen(place, isSecure);
    this.#opened = { key, address };
    address.catch(() => {
      if (this.#opened?.address === address) this.#opened = before;
    });
    return address;
  }

  async #listen(place: ListenOptions, isSecure: boolean): Promise<Address> {
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      socket.on('error', () => socket.destroy()); // a client may disconnect while its connection waits
      this.#wait(socket);
      this.#handOut();
    });
    const address = await listenOn(server, place, isSecure);
    server.on('error', (error) => this.#deps.log.error('server_error', error));
    this.#server?.close();
    this.#server = server;
    this.#isSecure = isSecure;
    if (this.#isShut) server.close();
    return address;
  }

  /** Begins to send connections to this child. */
  admit(child: Child): void {
    this.#children.set(child, new Map());
    this.#isUnavailable = false;
    this.#handOut();
  }

  /** Stops sending connections to this child. It may still confirm connections that were already sent. */
  dismiss(child: Child): void {
    const sent = this.#children.get(child);
    if (sent === undefined) return;
    this.#children.delete(child);
    this.#leaving.set(child, sent);
    if (this.#isShut) this.close(); // close() answers waiting connections with 503 if no other child is left
  }

  /** Called when a child confirms that it will read a connection. */
  onTaken(child: Child, id: number): void {
    const sent = this.#children.get(child) ?? this.#leaving.get(child);
    sent?.get(id)?.destroy(); // closes only the parent's handle of the socket; the child has its own
    sent?.delete(id);
    this.#handOut();
  }

  /** Called when a child has exited. Connections that it did not confirm wait for another child. */
  onGone(child: Child): void {
    const sent = this.#children.get(child) ?? this.#leaving.get(child);
    this.#children.delete(child);
    this.#leaving.delete(child);
    for (const socket of sent?.values() ?? []) this.#wait(socket);
    this.#handOut();
  }

  /** Sends 503 to all waiting and new connections until a child serves again. */
  answerUnavailable(): void {
    this.#isUnavailable = true;
    for (const waiting of this.#waiting) this.#answer(waiting);
  }

  /** Lets new connections wait again, because a child is starting. */
  expect(): void {
    this.#isUnavailable = false;
  }

  /** Stops listening. Waiting connections are still sent to children; without children, they get a 503. */
  close(): void {
    this.#isShut = true;
    this.#server?.close();
    if (this.#children.size === 0) this.answerUnavailable();
  }

  /** Stops listening. Resolves when the parent's own 503 responses are sent. */
  async farewell(): Promise<void> {
    this.close();
    this.answerUnavailable();
    await this.#own.close(FAREWELL_MS, FAREWELL_MS / 10);
  }

  #wait(socket: Socket): void {
    const waiting: Waiting = { socket, limit: this.#deps.clock.after(WAIT_MS, () => this.#answer(waiting)) };
    this.#waiting.add(waiting);
    if (this.#isUnavailable || this.#waiting.size > MOST_WAITING) this.#answer(waiting);
  }

  #answer(waiting: Waiting): void {
    this.#remove(waiting);
    if (this.#isSecure) waiting.socket.destroy();
    else if (!waiting.socket.destroyed) this.#own.adopt(waiting.socket);
  }

  #remove(waiting: Waiting): void {
    waiting.limit[Symbol.dispose]();
    this.#waiting.delete(waiting);
  }

  #handOut(): void {
    for (const waiting of this.#waiting) {
      if (waiting.socket.destroyed) {
        this.#remove(waiting);
        continue;
      }
      const child = this.#freest();
      if (child === undefined) return;
      this.#remove(waiting);
      const id = ++this.#lastId;
      // `sent` is defined, because #freest() only returns keys of #children
      const sent = this.#children.get(child)!;
      sent.set(id, waiting.socket);
      this.#children.delete(child); // adding the child again makes it the last one in the order
      this.#children.set(child, sent);
      child.send({ svc: 'socket', id }, waiting.socket);
    }
  }

  #freest(): Child | undefined {
    let best: Child | undefined;
    let fewest = MOST_ON_THEIR_WAY;
    for (const [child, sent] of this.#children) {
      if (sent.size < fewest && child.isConnected) [best, fewest] = [child, sent.size];
    }
    return best;
  }
}
