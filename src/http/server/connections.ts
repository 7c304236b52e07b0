/**
 * The connections of a server: their state, their maximum number, and their time limits.
 *
 * Beyond maxConnections, up to a tenth more connections are accepted. Each gets 503 for its first request,
 * and is then closed. All further connections are closed without a response.
 *
 * Requests beyond maxInFlight get 503. Health checks are handled nevertheless, because an orchestrator would
 * restart a busy process that fails them.
 *
 * If more than maxPipelined requests wait on a connection, the server handles one more and closes the
 * connection. The client repeats unanswered requests on a new connection (RFC 9112 §9.3.2).
 *
 * An idle connection is closed after keepAliveTimeoutMs. Above 80 % of maxConnections, the connections that are
 * idle longest are closed earlier, down to 75 %. If a client does not read its response, its connection is
 * closed after sendTimeoutMs.
 */
import { allowHalfOpen, noteTimeouts } from './fast-path/internals.ts';
import { problem } from '../response.ts';
import type { IncomingMessage, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { ConnectionMeter } from './connection-meter.ts';
import type { NoteTimeout, SentMessage } from './fast-path/internals.ts';
import type { Limits } from './options.ts';
import type { HeadVerdict } from './request-head.ts';
import type { HttpResponse } from '../response.ts';

/** Value of `idleLooks` while the connection is not idle. */
const NOT_WAITING = -1;
/** Number of times that a connection of this process has become idle. */
let idleTurns = 0;

/**
 * A request that arrived before the response to the previous request was sent. It is handled after that
 * response (RFC 9112 §9.3.2).
 */
interface DeferredRequest {
  readonly outgoing: SentMessage;
  readonly verdict: HeadVerdict | undefined;
}

/** State of one connection. */
export class Connection {
  /** Address of the client. Kept, because a closed socket no longer knows it. */
  readonly address: string | undefined;
  /** Response to the newest request; undefined after it was sent. */
  newest: SentMessage | undefined;
  /**
   * Whether `Connection: close` was sent, or will be. Later requests are then not handled (RFC 9112 §9.6).
   */
  hasSaidClose = false;
  /** Whether this connection exceeds `maxConnections`. */
  isSurplus = false;
  isWatched = false;
  /** Number of received requests whose responses are not sent yet. */
  waiting = 0;
  /** Number of received requests. */
  requests = 0;
  /** Number of consecutive checks at which the connection was idle and had received no new byte. */
  idleLooks: number = NOT_WAITING;
  /** Position in the order in which connections became idle; 0 while the connection is not idle. */
  idleTurn = 0;
  /** Number of bytes received at the last check that found the connection idle. */
  bytesSeen = -1;
  /** Unsent responses to earlier requests, in the order of the requests. */
  earlier: SentMessage[] | undefined;
  /** Response after which the connection is closed. Requests that arrived later get no response. */
  last: SentMessage | undefined;
  /** Requests that wait until earlier responses are sent. */
  deferred: DeferredRequest[] | undefined;
  /** A request that is still arriving, although its response was already sent. */
  lingering: IncomingMessage | undefined;

  constructor(address: string | undefined) {
    this.address = address;
  }

  /** The response that is being sent, or that will be sent next. */
  get current(): SentMessage | undefined {
    return this.earlier?.[0] ?? this.newest;
  }

  /** Registers the response to a new request. */
  enter(outgoing: SentMessage): void {
    if (this.newest !== undefined) (this.earlier ??= []).push(this.newest);
    this.newest = outgoing;
    this.idleTurn = 0;
    this.waiting++;
    this.requests++;
  }

  /** Removes a response that was sent, or that can no longer be sent. */
  leave(outgoing: SentMessage): void {
    if (this.newest === outgoing) this.newest = undefined;
    // a response that is not the newest is in `earlier`
    else this.earlier?.splice(this.earlier.indexOf(outgoing), 1);
    if (--this.waiting === 0) this.idleTurn = ++idleTurns;
  }

  /**
   * Removes and returns the next waiting request. Returns undefined if none waits, or if no response can be
   * sent any more.
   */
  takeDeferred(socket: Socket): DeferredRequest | undefined {
    // the connection is closed, so onLost() removes the waiting requests
    if (!socket.writable) return undefined;
    return this.deferred?.shift();
  }

  /** Removes the waiting request of this response. Returns whether there was one. */
  withdraw(outgoing: SentMessage): boolean {
    const index = this.deferred?.findIndex((deferred) => deferred.outgoing === outgoing) ?? -1;
    if (index !== -1) this.deferred!.splice(index, 1);
    return index !== -1;
  }

  /** Destroys all responses that are not sent yet. */
  abandon(): void {
    this.newest?.destroy();
    this.earlier?.forEach((outgoing) => outgoing.destroy());
  }

  /**
   * Returns whether a response is the last one of its connection. Only the last response has `Connection:
   * close`.
   */
  endsWith(outgoing: SentMessage): boolean {
    if (this.newest !== outgoing && this.last !== outgoing) return false;
    this.hasSaidClose = true;
    return true;
  }
}

const CONNECTION: unique symbol = Symbol('connection');

export function connectionOf(socket: Socket & { [CONNECTION]?: Connection }): Connection {
  return (socket[CONNECTION] ??= new Connection(socket.remoteAddress));
}

interface ConnectionsDeps {
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts connections, including refused ones; undefined if they are not counted. */
  readonly meter: ConnectionMeter | undefined;
  /** Called before the connection of a client that does not read is closed. */
  onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void;
  /** Called for each response that was not sent completely before its connection closed. */
  onLost(outgoing: SentMessage): void;
  /** Called when a request head arrives too late on a connection that another process accepted. */
  onLateHead(socket: Socket): void;
}

const MOST_SPARE = 1_000;
/** Minimum time in milliseconds between two log lines about overload. */
const REPORT_PAUSE_MS = 60_000;
const RETRY_AFTER = '1';

/** Refusal of requests on a connection beyond `maxConnections`: 503, then the connection is closed. */
const SURPLUS: HeadVerdict = Object.freeze({
  status: 503,
  detail: 'The server has too many connections',
});
/** Refusal of requests beyond `maxInFlight`: 503; the connection stays open. */
export const BUSY: HeadVerdict = Object.freeze({ status: 503, detail: 'The server has too many requests' });
/** Refusal beyond `maxInFlight` with too many waiting requests; then the connection is closed. */
const BUSY_LAST: HeadVerdict = Object.freeze({ ...BUSY });
/**
 * Means that a request is handled, but as the last one of its connection. This is the case for a health check
 * on a connection beyond `maxConnections`, and for the first request beyond `maxPipelined`.
 */
export const LAST: HeadVerdict = Object.freeze({ status: 0, detail: '' });

/** Returns the response to a refused request. */
export function refusalOf({ status, detail }: HeadVerdict, id: string): HttpResponse {
  const response = problem(status, id, { detail });
  if (status === 503) response.headers.set('Retry-After', RETRY_AFTER);
  return response;
}

/** Maximum time in milliseconds between two checks of idle connections. */
const LOOK_MS = 1_000;
/** Minimum number of checks before an idle connection is closed. */
const LOOKS = 6;
/** Minimum time in milliseconds for which a connection was idle if it is closed to make room. */
const ROOM_MS = 1_000;
/** Shares of `maxConnections` above which idle connections are closed, and down to which. */
const CROWDED_SHARE = 0.8;
const ROOMY_SHARE = 0.75;

/** Watches and limits all connections of one server. */
export class Connections {
  readonly #deps: ConnectionsDeps;
  readonly #most: number;
  readonly #open = new Set<Socket>();
  readonly #slow: SlowReaders;
  #reportedMs = -Infinity;
  /** Time in milliseconds between two checks of all idle connections. */
  #lookMs = LOOK_MS;
  #looks = LOOKS;
  #timer: Disposable | undefined;
  #roomTimer: Disposable | undefined;
  #noteTimeout: NoteTimeout | undefined;
  /** Connections that another process accepted and passed on; undefined if this process itself listens. */
  #adopted: Map<Socket, HeadTime> | undefined;

  constructor(deps: ConnectionsDeps) {
    this.#deps = deps;
    this.#slow = new SlowReaders(deps.clock, deps.limits.sendTimeoutMs, deps.onSlowReader);
    const { maxConnections } = deps.limits;
    this.#most = maxConnections + Math.min(MOST_SPARE, Math.ceil(maxConnections / 10));
  }

  /** Begins to watch the connections of a server. The server emits `event` for each new connection. */
  watch(server: Server, event: 'connection' | 'secureConnection'): void {
    const connections = this;
    function onClose(this: Socket): void {
      // `this` is the socket: one function serves all connections of this server
      connections.#leave(this);
    }
    allowHalfOpen(server);
    this.#watchSilence(server);
    // node:http itself closes connections beyond this number, but it does not count connections that another
    // process accepted
    server.maxConnections = this.#most;
    // only logs the overload: ConnectionMeter counts these connections in its own listener
    server.on('drop', () => this.#report('maxConnections'));
    server.on(event, (socket: Socket) => {
      // the socket is already closed, so no "close" event follows
      if (socket.destroyed) return;
      this.#open.add(socket);
      this.#deps.meter?.enter();
      if (this.#noteTimeout !== undefined) socket.setTimeout = this.#noteTimeout;
      socket.on('close', onClose);
      if (this.#adopted !== undefined) {
        this.#adopted.set(socket, { requests: 0, bytes: 0, sinceMs: this.#deps.clock.monotonicMs() });
        this.#timer ??= this.#next();
      }
      if (this.#open.size > this.#most) {
        this.#refuse();
        socket.destroy();
      } else if (this.#open.size > this.#deps.limits.maxConnections) {
        connectionOf(socket).isSurplus = true;
        this.#refuse();
      }
      this.#watchRoom();
    });
  }

  /**
   * Returns undefined if a new request exceeds no limit. Otherwise returns a refusal, or {@link LAST} if the
   * request is handled as the last one of its connection. `inFlight` is the number of running requests,
   * including the new one.
   */
  judge(connection: Connection, inFlight: number): HeadVerdict | undefined {
    if (connection.isSurplus) return SURPLUS;
    const isLast = connection.waiting > this.#deps.limits.maxPipelined;
    if (inFlight > this.#deps.limits.maxInFlight) {
      this.#report('maxInFlight');
      return isLast ? BUSY_LAST : BUSY;
    }
    return isLast ? LAST : undefined;
  }

  /** Begins to check that the client of a connection reads its response. */
  watchReading(socket: Socket, outgoing?: SentMessage): void {
    this.#slow.watch(socket, outgoing);
  }

  /** node:http does not limit the request heads of connections that another process accepted. */
  limitHeads(): void {
    this.#adopted ??= new Map();
  }

  /** Stops all checks of a connection that became a WebSocket. */
  release(socket: Socket): void {
    this.#adopted?.delete(socket);
    this.#slow.forget(socket);
  }

  /**
   * Closes idle connections with `closeIdle`, a function of node:http. `closeIdle` would also close
   * connections that are still sending a response, so destroy() of their sockets does nothing during the
   * call.
   */
  closeIdle(closeIdle: () => void): void {
    const reading = [...this.#open].filter((socket) => connectionOf(socket).waiting > 0);
    for (const socket of reading) socket.destroy = () => socket;
    closeIdle();
    for (const socket of reading) Reflect.deleteProperty(socket, 'destroy');
    if (this.#adopted === undefined) return;
    for (const socket of this.#adopted.keys()) {
      const { waiting, requests, lingering } = connectionOf(socket);
      // closed here, because `closeIdle` ignores connections that another process accepted
      if (waiting === 0 && requests > 0 && lingering === undefined) socket.destroy();
    }
  }

  /** Closes all connections at once. */
  destroy(): void {
    for (const socket of this.#open) {
      connectionOf(socket).abandon();
      socket.destroy();
    }
  }

  #leave(socket: Socket): void {
    const { requests, lingering, newest, earlier } = connectionOf(socket);
    this.#slow.forget(socket);
    this.#deps.meter?.leave(requests);
    if (newest !== undefined)
      for (const outgoing of [...(earlier ?? []), newest]) this.#deps.onLost(outgoing);
    // node:http does not destroy a request after its response was sent, and a reader of the body would wait
    // forever
    lingering?.destroy();
    this.#open.delete(socket);
    this.#adopted?.delete(socket);
    if (this.#open.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#roomTimer?.[Symbol.dispose]();
    this.#timer = this.#roomTimer = undefined;
  }

  /** Closes idle connections soon if too many connections are open, and checks again until there is room. */
  #watchRoom(): void {
    const crowded = Math.ceil(this.#deps.limits.maxConnections * CROWDED_SHARE);
    if (this.#open.size <= crowded || this.#roomTimer !== undefined) return;
    const lastTurn = idleTurns;
    this.#roomTimer = this.#deps.clock.after(ROOM_MS, () => {
      this.#roomTimer = undefined;
      this.#makeRoom(lastTurn);
      this.#watchRoom();
    });
  }

  /** Closes the connections that are idle longest, if they became idle no later than at `lastTurn`. */
  #makeRoom(lastTurn: number): void {
    const surplus = this.#open.size - Math.ceil(this.#deps.limits.maxConnections * ROOMY_SHARE);
    [...this.#open]
      .filter((socket) => {
        const { idleTurn, lingering } = connectionOf(socket);
        return idleTurn > 0 && idleTurn <= lastTurn && lingering === undefined;
      })
      .sort((a, b) => connectionOf(a).idleTurn - connectionOf(b).idleTurn)
      .slice(0, Math.max(0, surplus))
      .forEach((socket) => socket.destroy());
  }

  #refuse(): void {
    this.#deps.meter?.refuse();
    this.#report('maxConnections');
  }

  #report(setting: 'maxConnections' | 'maxInFlight'): void {
    const nowMs = this.#deps.clock.monotonicMs();
    if (nowMs - this.#reportedMs < REPORT_PAUSE_MS) return;
    this.#reportedMs = nowMs;
    this.#deps.log.warn('overloaded', {
      setting,
      limit: this.#deps.limits[setting],
      connections: this.#open.size,
      problem: 'further clients get 503, or their connections are closed',
      remedy: `Add processes or machines, or raise the setting "${setting}" if this machine has memory left`,
    });
  }

  /** Replaces the idle timers of node:http by one for all connections, if internals of Node may be used. */
  #watchSilence(server: Server): void {
    // node:http waits a second longer than `Keep-Alive` announces, so that clients can use the whole
    // announced time
    const limitMs =
      server.keepAliveTimeout +
      ((server as { readonly keepAliveTimeoutBuffer?: number }).keepAliveTimeoutBuffer ?? 1_000);
    this.#lookMs = Math.min(LOOK_MS, Math.ceil(limitMs / LOOKS));
    this.#looks = Math.ceil(limitMs / this.#lookMs);
    this.#noteTimeout = noteTimeouts(limitMs, {
      begin: (socket) => {
        connectionOf(socket).idleLooks = 0;
        if (this.#open.has(socket)) this.#timer ??= this.#next();
      },
      end: (socket) => {
        const connection = connectionOf(socket);
        const hasBegun = connection.idleLooks !== NOT_WAITING;
        connection.idleLooks = NOT_WAITING;
        return hasBegun;
      },
    });
  }

  #next(): Disposable {
    return this.#deps.clock.after(this.#lookMs, () => this.#look());
  }

  #look(): void {
    this.#timer = this.#next();
    for (const socket of this.#open) {
      const connection = connectionOf(socket);
      if (connection.idleLooks === NOT_WAITING) continue;
      const { bytesRead } = socket;
      if (bytesRead !== connection.bytesSeen) {
        // bytes have arrived since the last check, so the idle time begins again
        connection.bytesSeen = bytesRead;
        connection.idleLooks = 0;
      } else if (++connection.idleLooks >= this.#looks) socket.destroy();
    }
    if (this.#adopted !== undefined) this.#lookAtHeads(this.#adopted);
  }

  #lookAtHeads(adopted: ReadonlyMap<Socket, HeadTime>): void {
    const nowMs = this.#deps.clock.monotonicMs();
    for (const [socket, head] of adopted) {
      const { waiting, requests } = connectionOf(socket);
      const { bytesRead } = socket;
      if (waiting > 0 || requests !== head.requests) {
        Object.assign(head, { requests, bytes: bytesRead, sinceMs: Infinity } satisfies HeadTime);
      } else {
        if (bytesRead !== head.bytes) head.sinceMs = Math.min(head.sinceMs, nowMs);
        if (nowMs - head.sinceMs >= this.#deps.limits.headersTimeoutMs) this.#deps.onLateHead(socket);
      }
    }
  }
}

/** State of a connection that another process accepted, while the server waits for a request head. */
interface HeadTime {
  /** Number of requests received until the last check. */
  requests: number;
  /** Number of bytes received until the last check. */
  bytes: number;
  /**
   * Time in milliseconds at which the connection was opened, or the first byte of the head arrived. Infinity
   * between requests.
   */
  sinceMs: number;
}

/** Number of times within `sendTimeoutMs` that the server checks whether a client reads. */
const READING_LOOKS = 4;

/**
 * Maximum number of bytes in one write. Writes are short, because progress of the client is only visible
 * between two writes.
 */
export const SLICE_BYTES = 131_072;

interface Reading {
  /** Number of bytes that the system had accepted at the last check; -1 if it had accepted all. */
  taken: number;
  sinceMs: number;
}

/**
 * Closes connections whose client does not read. Without this, such a client could make the server keep a
 * response, a file or a database cursor forever (slow-read attack).
 *
 * A connection is checked if the operating system does not accept its response at once. The client is slow if
 * no further byte is accepted for `sendTimeoutMs`. Waiting for an earlier response, or for data of the
 * handler, does not count.
 */
class SlowReaders {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onCut: ConnectionsDeps['onSlowReader'];
  readonly #readings = new Map<Socket, Reading>();
  #timer: Disposable | undefined;

  /**
   * Closes a connection after `limitMs` without progress, or up to half of `limitMs` later. `onCut` is called
   * first.
   */
  constructor(clock: Clock, limitMs: number, onCut: ConnectionsDeps['onSlowReader']) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onCut = onCut;
  }

  /** Checks a connection until all its responses are sent. */
  watch(socket: Socket, outgoing?: SentMessage): void {
    if (socket.destroyed || this.#readings.has(socket)) return;
    outgoing?.once('close', () => {
      if (connectionOf(socket).waiting === 0) this.forget(socket);
    });
    this.#readings.set(socket, { taken: takenOf(socket), sinceMs: this.#clock.monotonicMs() });
    this.#timer ??= this.#nextLook();
  }

  forget(socket: Socket): void {
    if (!this.#readings.delete(socket) || this.#readings.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #nextLook(): Disposable {
    return this.#clock.after(this.#limitMs / READING_LOOKS, () => {
      this.#timer = this.#nextLook();
      this.#look();
    });
  }

  #look(): void {
    const nowMs = this.#clock.monotonicMs();
    for (const [socket, reading] of this.#readings) {
      const taken = takenOf(socket);
      const { waiting, current } = connectionOf(socket);
      if (taken === -1 && waiting === 0) this.forget(socket);
      else if (taken === -1 || taken !== reading.taken) {
        reading.taken = taken;
        reading.sinceMs = nowMs;
      } else if (nowMs - reading.sinceMs >= this.#limitMs) {
        this.#onCut(current, socket);
        current?.destroy();
        socket.destroy();
      }
    }
  }
}

/** Returns how many bytes the operating system has accepted. Returns -1 if it has accepted all of them. */
export function takenOf({
  bytesWritten = 0,
  writableLength,
}: Duplex & { readonly bytesWritten?: number }): number {
  return writableLength === 0 ? -1 : bytesWritten - writableLength;
}
