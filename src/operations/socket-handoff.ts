/**
 * Passes sockets to the processes of a supervised application: the parent accepts connections, and sends each
 * to a child that serves it.
 *
 * States of a connection:
 *   accept -> waiting (paused, unread) -> sent to the child with the fewest on their way -> took: our copy is closed
 *                     ^                                   |
 *                     \---- the child has died before ----/        a connection is unread until it is taken, so none is lost
 *
 * Without a child, connections wait at most 30 seconds. After that, or as soon as a reason is known, the
 * parent responds with 503, and closes TLS connections.
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

/** Maximum number of connections that wait for a child. */
const MOST_WAITING = 4_096;
const WAIT_MS = 30_000;
/**
 * Maximum number of connections that were sent to one child and not taken yet. A child that has this many is
 * busy, and gets no more.
 */
const MOST_ON_THEIR_WAY = 4;
/** Time in milliseconds for sending the parent's own responses when it stops. */
const FAREWELL_MS = 1_000;

/** A connection that no process has read from yet. */
interface Waiting {
  readonly socket: Socket;
  readonly limit: Disposable;
}

/** Creates the 503 response for the time without a child. */
type UnavailablePage = (req: HttpRequest) => HttpResponse;

/** One port, and the connections that were accepted on it. */
export class SocketHandoff {
  readonly #clock: Clock;
  readonly #log: Logger;
  readonly #unavailablePage: UnavailablePage;
  readonly #own: HttpServer;
  #server: Server | undefined;
  #opened: { readonly key: string; readonly address: Promise<Address> } | undefined;
  /**
   * Children that get connections, each with the connections that it has not taken yet. The child that got a
   * connection longest ago is first, and is preferred among equally busy ones.
   */
  readonly #children = new Map<Child, Map<number, Socket>>();
  /** Children that get no new connections, each with the connections that it has not taken yet. */
  readonly #leaving = new Map<Child, Map<number, Socket>>();
  readonly #waiting = new Set<Waiting>();
  #lastId = 0;
  #isUnavailable = false;
  #isShut = false;
  /** Whether clients use TLS. The parent has no certificate, so it cannot respond to such clients. */
  #isSecure = false;

  /** `unavailablePage`: creates the 503 for connections that have waited too long. */
  constructor({
    clock,
    log,
    unavailablePage,
  }: {
    readonly clock: Clock;
    readonly log: Logger;
    readonly unavailablePage: UnavailablePage;
  }) {
    this.#clock = clock;
    this.#log = log;
    this.#unavailablePage = unavailablePage;
    this.#own = new HttpServer({
      defaults: { state: new AppState(), maxBodyBytes: Infinity, identity: USUAL_IDENTITY },
      clock,
      log,
      securesCookies: false,
      handle: (req) => this.#unavailablePage(req),
      finish: () => undefined,
      count: () => undefined,
    });
    this.#own.keepsAlive = false;
  }

  /** Number of connections that were not sent to a child yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * Listens on an address, and stops listening on an earlier, different one.
   * @throws SvcError `E_LISTEN`
   */
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
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) =>
      this.#onConnection(socket),
    );
    const address = await listenOn(server, place, isSecure);
    server.on('error', (error) => this.#log.error('server_error', error));
    this.#server?.close();
    this.#server = server;
    this.#isSecure = isSecure;
    if (this.#isShut) server.close();
    return address;
  }

  /** From now on, sends connections to this child, too. */
  admit(child: Child): void {
    this.#children.set(child, new Map());
    this.#isUnavailable = false;
    this.#handOut();
  }

  /** Stops sending connections to the child. Connections that were sent can still be taken. */
  dismiss(child: Child): void {
    const sent = this.#children.get(child);
    if (sent === undefined) return;
    this.#children.delete(child);
    this.#leaving.set(child, sent);
    if (this.#isShut) this.close(); // if no child is left, the waiting connections get a 503
  }

  /** Called when the child has taken the connection, and will read it. */
  onTaken(child: Child, id: number): void {
    const sent = this.#children.get(child) ?? this.#leaving.get(child);
    sent?.get(id)?.destroy(); // closes only the parent's copy of the handle; the child has its own
    sent?.delete(id);
    this.#handOut();
  }

  /** Called when the child has exited. Connections that it had not taken wait for other children. */
  onGone(child: Child): void {
    const sent = this.#children.get(child) ?? this.#leaving.get(child);
    this.#children.delete(child);
    this.#leaving.delete(child);
    for (const socket of sent?.values() ?? []) this.#wait(socket);
    this.#handOut();
  }

  /** Responds with 503 to waiting and new connections, until a child is admitted. */
  answerUnavailable(): void {
    this.#isUnavailable = true;
    for (const waiting of this.#waiting) this.#answer(waiting);
  }

  /** Lets connections wait again, because a child is starting. */
  expect(): void {
    this.#isUnavailable = false;
  }

  /** Stops listening. Waiting connections are sent to children, or get a 503 if there are none. */
  close(): void {
    this.#isShut = true;
    this.#server?.close();
    if (this.#children.size === 0) this.answerUnavailable();
  }

  /** Resolves when the parent's own responses are sent. */
  async farewell(): Promise<void> {
    this.close();
    this.answerUnavailable();
    await this.#own.close(FAREWELL_MS, FAREWELL_MS / 10);
  }

  #onConnection(socket: Socket): void {
    socket.on('error', () => socket.destroy()); // a client may disconnect while it waits
    this.#wait(socket);
    this.#handOut();
  }

  #wait(socket: Socket): void {
    const waiting: Waiting = { socket, limit: this.#clock.after(WAIT_MS, () => this.#answer(waiting)) };
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
      const sent = this.#children.get(child)!; // defined, because #freest() returns only keys of #children
      sent.set(id, waiting.socket);
      this.#children.delete(child); // moves the child to the end of the order
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
