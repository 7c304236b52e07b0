/**
 * The connections of a server: the state of each, the limits of their number, and their time limits.
 *
 * Connections up to maxConnections are served. A tenth more get 503 to their first request, unless it is a
 * probe, and are closed then. Further ones are closed without a response.
 *
 * Requests beyond maxInFlight get 503. Probes are served nevertheless, because an orchestrator restarts a
 * process whose probes fail, even if it is only busy. If more than maxPipelined requests of a connection
 * wait, one more is handled, and then the connection is closed. The client repeats the others on a new
 * connection (RFC 9112 §9.3.2).
 *
 * An idle connection is closed after keepAliveTimeoutMs. If a client does not read its response, the
 * connection is closed after sendTimeoutMs (see SlowReaders).
 */
import { allowHalfOpen, noteTimeouts } from './fast-path/internals.ts';
import { problem } from '../response.ts';
import type { IncomingMessage, Server } from 'node:http';
import type { Server as NetServer, Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { CounterMetric, HistogramSlot, MetricsRegistry } from '../../observability/metrics.ts';
import type { NoteTimeout, SentMessage } from './fast-path/internals.ts';
import type { Limits } from './options.ts';
import type { HeadVerdict } from './request-head.ts';
import type { HttpResponse } from '../response.ts';

/** Value of `idleLooks` while a request is handled, or before the first request. */
const NOT_WAITING = -1;

/**
 * A request that came before the response to the previous one was sent. It waits, because requests of a
 * connection are handled one after another (RFC 9112 §9.3.2). So if a client sends many requests and reads
 * nothing, the server holds only one response.
 */
interface DeferredRequest {
  readonly outgoing: SentMessage;
  readonly verdict: HeadVerdict | undefined;
}

/**
 * State of a connection. It is one object, so each request needs one look-up on the socket instead of ten.
 */
export class Connection {
  /**
   * Response to the newest request, until it was sent. Undefined for an idle connection, so that no request
   * stays in memory.
   */
  newest: SentMessage | undefined;
  /**
   * Whether `Connection: close` was sent, or will be. If so, later requests are not processed (RFC 9112
   * §9.6).
   */
  hasSaidClose = false;
  /** Whether the connection exceeds `maxConnections`. */
  isSurplus = false;
  isWatched = false;
  /** Number of requests received whose responses were not sent yet. */
  waiting = 0;
  /** Number of requests received. */
  requests = 0;
  /** Number of successive checks that found the connection idle, without a byte received in between. */
  idleLooks: number = NOT_WAITING;
  /** Number of bytes received at the last check that found the connection idle. */
  bytesSeen = -1;
  /** Responses before the newest one that were not sent yet. */
  earlier: SentMessage[] | undefined;
  /** The last response of the connection, if it is not the newest. */
  last: SentMessage | undefined;
  /** Requests that wait for their turn: see {@link DeferredRequest}. */
  deferred: DeferredRequest[] | undefined;
  /** A request whose response was sent while its body still arrives: see early-ends.ts. */
  lingering: IncomingMessage | undefined;

  /** The response that is being sent, or the next to be sent. */
  get current(): SentMessage | undefined {
    return this.earlier?.[0] ?? this.newest;
  }

  /** Registers a request by its response `outgoing`. */
  enter(outgoing: SentMessage): void {
    if (this.newest !== undefined) (this.earlier ??= []).push(this.newest);
    this.newest = outgoing;
    this.waiting++;
    this.requests++;
  }

  /** Removes a response that was sent, or will never be sent. */
  leave(outgoing: SentMessage): void {
    if (this.newest === outgoing) this.newest = undefined;
    // otherwise it is in `earlier`, because a newer response has come
    else this.earlier?.splice(this.earlier.indexOf(outgoing), 1);
    this.waiting--;
  }

  /**
   * Takes the next request that waits for its turn. Undefined if none waits, or no response can be sent any
   * more.
   */
  takeDeferred(socket: Socket): DeferredRequest | undefined {
    // the connection is closed, so onLost() withdraws the waiting requests
    if (!socket.writable) return undefined;
    return this.deferred?.shift();
  }

  /** Withdraws the request of this response. Returns whether it was waiting for its turn. */
  withdraw(outgoing: SentMessage): boolean {
    const index = this.deferred?.findIndex((deferred) => deferred.outgoing === outgoing) ?? -1;
    if (index !== -1) this.deferred!.splice(index, 1);
    return index !== -1;
  }

  /** Destroys every response that was not sent yet. */
  abandon(): void {
    this.newest?.destroy();
    this.earlier?.forEach((outgoing) => outgoing.destroy());
  }

  /**
   * Whether this response is the last one of the connection. Only the last one may have `Connection: close`:
   * after an earlier one, the requests that follow would get no responses.
   */
  endsWith(outgoing: SentMessage): boolean {
    if (this.newest !== outgoing && this.last !== outgoing) return false;
    this.hasSaidClose = true;
    return true;
  }
}

const CONNECTION: unique symbol = Symbol('connection');

/** Returns the connection over this socket. */
export function connectionOf(socket: Socket & { [CONNECTION]?: Connection }): Connection {
  return (socket[CONNECTION] ??= new Connection());
}

/** Dependencies of {@link Connections}. */
interface ConnectionsDeps {
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts connections, including refused ones; undefined if they are not counted. */
  readonly meter: ConnectionMeter | undefined;
  /** Called before the connection of a client that reads too slowly is closed. */
  onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void;
  /** Called for each response that was not sent completely when its connection closed. */
  onLost(outgoing: SentMessage): void;
  /** Called for a connection accepted by another process whose request head does not arrive in time. */
  onLateHead(socket: Socket): void;
}

const MOST_SPARE = 1_000;
/** Minimum time between two log lines about overload. */
const REPORT_PAUSE_MS = 60_000;
/** Value of `Retry-After` in responses with 503, in seconds. */
const RETRY_AFTER = '1';

/** Verdict for a request on a connection beyond `maxConnections`: 503, then the connection is closed. */
const SURPLUS: HeadVerdict = Object.freeze({
  status: 503,
  detail: 'The server has too many connections',
});
/** Verdict for a request beyond `maxInFlight`: 503, and the connection stays open. */
export const BUSY: HeadVerdict = Object.freeze({ status: 503, detail: 'The server has too many requests' });
/**
 * Verdict for a request beyond `maxInFlight` on a connection with too many pipelined requests: 503, then the
 * connection is closed.
 */
const BUSY_LAST: HeadVerdict = Object.freeze({ ...BUSY });
/**
 * Verdict for a request that is handled as the last of its connection: a probe on a connection beyond
 * `maxConnections`, or a request beyond `maxPipelined`.
 */
export const LAST: HeadVerdict = Object.freeze({ status: 0, detail: '' });

/** The response to a refused request. */
export function refusalOf({ status, detail }: HeadVerdict, id: string): HttpResponse {
  const response = problem(status, id, { detail });
  if (status === 503) response.headers.set('Retry-After', RETRY_AFTER);
  return response;
}

/** Maximum time between two checks of idle connections, in milliseconds. */
const LOOK_MS = 1_000;
/** Minimum number of checks within the time limit of an idle connection. */
const LOOKS = 6;

/** The connections of one server. */
export class Connections {
  readonly #deps: ConnectionsDeps;
  readonly #most: number;
  readonly #open = new Set<Socket>();
  readonly #slow: SlowReaders;
  #reportedMs = -Infinity;
  /** Interval at which one timer checks all idle connections. */
  #lookMs = LOOK_MS;
  #looks = LOOKS;
  #timer: Disposable | undefined;
  #noteTimeout: NoteTimeout | undefined;
  /** Connections that another process has accepted. Undefined if this process accepts connections itself. */
  #adopted: Map<Socket, HeadTime> | undefined;

  constructor(deps: ConnectionsDeps) {
    this.#deps = deps;
    this.#slow = new SlowReaders(deps.clock, deps.limits.sendTimeoutMs, deps.onSlowReader);
    const { maxConnections } = deps.limits;
    this.#most = maxConnections + Math.min(MOST_SPARE, Math.ceil(maxConnections / 10));
  }

  /**
   * Watches the connections of a server. `event`: the event with which the server reports new connections.
   */
  watch(server: Server, event: 'connection' | 'secureConnection'): void {
    const connections = this;
    function onClose(this: Socket): void {
      // one function for all connections of this server
      connections.#leave(this);
    }
    allowHalfOpen(server);
    this.#watchSilence(server);
    // node:http closes connections beyond this number before any work is done for them; connections that
    // another process has accepted are counted below
    server.maxConnections = this.#most;
    // the event is only logged here, because the meter counts it with a listener of its own
    server.on('drop', () => this.#report('maxConnections'));
    server.on(event, (socket: Socket) => {
      // the socket has been closed by another listener, or before another process passed it on, so no "close"
      // event will follow
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
    });
  }

  /** Returns the verdict for a new request if a limit is exceeded. `inFlight` includes the request. */
  judge(connection: Connection, inFlight: number): HeadVerdict | undefined {
    if (connection.isSurplus) return SURPLUS;
    const isLast = connection.waiting > this.#deps.limits.maxPipelined;
    if (inFlight > this.#deps.limits.maxInFlight) {
      this.#report('maxInFlight');
      return isLast ? BUSY_LAST : BUSY;
    }
    return isLast ? LAST : undefined;
  }

  /** Watches how fast the client of a connection reads. */
  watchReading(socket: Socket, outgoing?: SentMessage): void {
    this.#slow.watch(socket, outgoing);
  }

  /**
   * From now on, enforces the time limit for request heads on connections that another process has accepted.
   * node:http does not do that.
   */
  limitHeads(): void {
    this.#adopted ??= new Map();
  }

  /** Ends the checks of a connection that has become a WebSocket. */
  release(socket: Socket): void {
    this.#adopted?.delete(socket);
    this.#slow.forget(socket);
  }

  /**
   * Closes idle connections with `closeIdle`, the method of node:http. For node:http, a connection is idle as
   * soon as its response was written, even if the client has not received all of it. To keep such connections
   * open, their destroy() is replaced during the call.
   */
  closeIdle(closeIdle: () => void): void {
    const reading = [...this.#open].filter((socket) => connectionOf(socket).waiting > 0);
    for (const socket of reading) socket.destroy = () => socket;
    closeIdle();
    for (const socket of reading) Reflect.deleteProperty(socket, 'destroy');
    if (this.#adopted === undefined) return;
    for (const socket of this.#adopted.keys()) {
      const { waiting, requests, lingering } = connectionOf(socket);
      // `closeIdle` does not close connections that another process has accepted
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
    // node:http destroys a request only if it has no response; otherwise a reader of its body would wait
    // forever
    lingering?.destroy();
    this.#open.delete(socket);
    this.#adopted?.delete(socket);
    if (this.#open.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
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

  /**
   * Replaces the timers of node:http for idle connections by one timer for all, if Node's internals allow it.
   */
  #watchSilence(server: Server): void {
    // node:http waits a second longer than it announces in `Keep-Alive`, so that a client may use the
    // connection during the whole announced time
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
        // bytes have arrived since the last check, so the count begins anew
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

/** Start of the wait for a request head, on a connection accepted by another process. */
interface HeadTime {
  /** Number of requests and bytes received at the last check. */
  requests: number;
  bytes: number;
  /**
   * When the connection was opened, or the first byte of the head was received, in milliseconds. Infinity
   * between two requests.
   */
  sinceMs: number;
}

/** Number of checks of a slow reader within the time limit. */
const READING_LOOKS = 4;

/**
 * Maximum number of bytes in one write. The progress of a client can be observed only between two writes, so
 * they must be short.
 */
export const SLICE_BYTES = 131_072;

interface Reading {
  /** Number of bytes that the kernel had accepted at the last check; -1 if it had accepted all of them. */
  taken: number;
  sinceMs: number;
}

/**
 * Closes the connections of clients that read nothing for a while. Otherwise a client could make the server
 * keep a response, a file or a database cursor without limit, by reading nothing (slow-read attack).
 *
 * A connection is watched if the kernel did not accept its response at once. The client counts as slow if the
 * kernel has accepted no byte since the last check although bytes were waiting. A response that waits for an
 * earlier one, or for its source, is not slow.
 */
class SlowReaders {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onCut: ConnectionsDeps['onSlowReader'];
  readonly #readings = new Map<Socket, Reading>();
  #timer: Disposable | undefined;

  /**
   * A connection without progress is closed after `limitMs`, at most half as long later. `onCut` is called
   * before.
   */
  constructor(clock: Clock, limitMs: number, onCut: ConnectionsDeps['onSlowReader']) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onCut = onCut;
  }

  /** Watches a connection until no response is being sent on it. */
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

/** Number of written bytes that the kernel has accepted; -1 if it has accepted all of them. */
function takenOf({ bytesWritten, writableLength }: Socket): number {
  return writableLength === 0 ? -1 : bytesWritten - writableLength;
}

/*
 * Metrics of connections: how many are open, how many requests each had, and how many the server refused, by
 * reason.
 *
 * Names:
 *   svc_connections                         open connections, including idle ones
 *   svc_connection_requests                 histogram, counted when a connection closes; a value of 1
 *                                           means a client that does not reuse connections
 *   svc_connections_refused_total{reason}   malformed, overflow (head too large), timeout, tls,
 *                                           limit (too many connections)
 */

const REQUEST_BUCKETS = [0, 1, 2, 5, 10, 50, 100, 1_000, 10_000];

/** Reasons of refusals by the error code of node:http. All other codes are malformed heads or bodies. */
const REASONS: Readonly<Record<string, string | undefined>> = {
  HPE_HEADER_OVERFLOW: 'overflow',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'overflow',
  ERR_HTTP_REQUEST_TIMEOUT: 'timeout',
};
/** Error codes of connections that the client has closed, which are not refusals. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

/** Metrics of the connections of one application, over all its servers. */
export class ConnectionMeter {
  readonly #requests: HistogramSlot;
  readonly #refused: CounterMetric;
  #open = 0;

  /** @throws SvcError `E_METRIC` if a metric of that name exists */
  constructor(metrics: MetricsRegistry) {
    metrics.gauge('svc_connections', 'Open connections, including idle ones', () => this.#open);
    this.#requests = metrics
      .histogram(
        'svc_connection_requests',
        'Requests of a connection, counted when the connection closes',
        REQUEST_BUCKETS,
      )
      .slot();
    this.#refused = metrics.counter(
      'svc_connections_refused_total',
      'Connections that the server refused, or closed because of invalid data, by reason',
      ['reason'],
    );
  }

  get open(): number {
    return this.#open;
  }

  /** Counts the connections and requests that a server refuses from now on. */
  watch(server: NetServer): void {
    server.on('clientError', (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code)) this.#refused.add(1, REASONS[error.code ?? ''] ?? 'malformed');
    });
    server.on('tlsClientError', () => this.#refused.add(1, 'tls'));
    server.on('drop', () => this.refuse());
  }

  /** Counts a connection beyond the limit. */
  refuse(): void {
    this.#refused.add(1, 'limit');
  }

  /** Counts a connection that was opened. */
  enter(): void {
    this.#open++;
  }

  /** Counts a closed connection and the number of its requests. */
  leave(requests: number): void {
    this.#open--;
    this.#requests.observe(requests);
  }
}
