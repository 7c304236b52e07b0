/**
 * The connections of a server: what is remembered of each, what is too much, and which take too long.
 *
 *   connections  1 ... maxConnections        served
 *                ... a tenth more            the first request is answered with 503, a probe as ever, and the connection ends
 *                beyond                      closed without an answer
 *   in flight    beyond maxInFlight          503, but for probes: an orchestrator would restart what is merely busy
 *   pipelined    up to maxPipelined          handled one after another
 *                one more                    handled, and the connection ends: a client sends the rest again (RFC 9112 §9.3.2)
 *   silent       beyond keepAliveTimeoutMs   closed
 *   reading      nothing for sendTimeoutMs   closed: see SlowReaders
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

/** In place of a number of looks: a request is being answered, or none has come yet. */
const NOT_WAITING = -1;

/**
 * A request that came before the response to the one before had gone. Requests of a connection are handled one after another (RFC 9112
 * §9.3.2): a client that pipelines many and reads nothing holds one response, and the head of a response is written in its turn.
 */
interface DeferredRequest {
  readonly outgoing: SentMessage;
  readonly verdict: HeadVerdict | undefined;
}

/** A connection, in one object that each request looks up once: a field for each on the socket would be looked up ten times. */
export class Connection {
  /** The answer to the newest of its requests, until that has gone: an idle connection keeps nothing of them. */
  newest: SentMessage | undefined;
  /** Whether its end has been announced to the client: what it sends behind is not processed (RFC 9112 §9.6). */
  hasSaidClose = false;
  /** Whether it is one too many. */
  isSurplus = false;
  /** Whether its end is listened for: see watchEnd(). */
  isWatched = false;
  /** Requests that have come and whose answers have not gone. */
  waiting = 0;
  /** All requests that have come. */
  requests = 0;
  /** How often it has been seen waiting for its next request, without a byte in between. */
  idleLooks: number = NOT_WAITING;
  /** The bytes that it had brought when it was last seen waiting. */
  bytesSeen = -1;
  /** The answers before the newest one, where there were some: on the prototype, for most connections never have any. */
  declare earlier: SentMessage[] | undefined;
  /** The last answer, where it is not the newest; on the prototype, too. */
  declare last: SentMessage | undefined;
  /** Requests that wait for their turn: see {@link DeferredRequest}. On the prototype, too. */
  declare deferred: DeferredRequest[] | undefined;
  /** A request that has had its answer, and of which the rest may still come: see early-ends.ts. */
  declare lingering: IncomingMessage | undefined;

  static {
    this.prototype.earlier = undefined;
    this.prototype.last = undefined;
    this.prototype.deferred = undefined;
    this.prototype.lingering = undefined;
  }

  /** The answer that goes over it now. */
  get current(): SentMessage | undefined {
    return this.earlier?.[0] ?? this.newest;
  }

  /** A request has come, and this will answer it. */
  enter(outgoing: SentMessage): void {
    if (this.newest !== undefined) (this.earlier ??= []).push(this.newest);
    this.newest = outgoing;
    this.waiting++;
    this.requests++;
  }

  /** An answer has gone, or never will. */
  leave(outgoing: SentMessage): void {
    if (this.newest === outgoing) this.newest = undefined;
    else this.earlier?.splice(this.earlier.indexOf(outgoing), 1); // the response was the newest once
    this.waiting--;
  }

  /** Takes the next request that waits for its turn; undefined where none does, and where no response can be sent any more. */
  takeDeferred(socket: Socket): DeferredRequest | undefined {
    if (!socket.writable) return undefined; // onLost() withdraws them
    return this.deferred?.shift();
  }

  /** Withdraws the request of this response. Returns whether it waited for its turn. */
  withdraw(outgoing: SentMessage): boolean {
    const index = this.deferred?.findIndex((deferred) => deferred.outgoing === outgoing) ?? -1;
    if (index !== -1) this.deferred!.splice(index, 1);
    return index !== -1;
  }

  /** Ends every answer that has not gone. */
  abandon(): void {
    this.newest?.destroy();
    this.earlier?.forEach((outgoing) => outgoing.destroy());
  }

  /** Whether this answer is the last one: "Connection: close" on an earlier one would leave those pipelined behind it unanswered. */
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

/** The parts that {@link Connections} is made with. */
interface ConnectionsDeps {
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts the connections, those refused as well. */
  readonly meter: ConnectionMeter | undefined;
  /** Called before a client is cut that takes nothing of this answer any more. */
  onSlowReader(outgoing: SentMessage | undefined, socket: Socket): void;
  /** Called for an answer that has not gone when its connection is. */
  onLost(outgoing: SentMessage): void;
  /** Called for a connection that another process has accepted, and that has not brought a request in its time. */
  onLateHead(socket: Socket): void;
}

const MOST_SPARE = 1_000;
/** The pause between two reports that there is too much. */
const REPORT_PAUSE_MS = 60_000;
/** Seconds after which a client that was refused may try again. */
const RETRY_AFTER = '1';

/** Too many connections: this one ends with its answer. */
const SURPLUS: HeadVerdict = Object.freeze({
  status: 503,
  detail: 'The server has too many connections',
});
/** Too many requests: the connection stays. */
export const BUSY: HeadVerdict = Object.freeze({ status: 503, detail: 'The server has too many requests' });
/** Too many requests, this one of a connection of which too many wait: the connection ends with its answer. */
const BUSY_LAST: HeadVerdict = Object.freeze({ ...BUSY });
/** Served, as the last request of its connection: a probe over a connection too many, and one request too many of a connection. */
export const LAST: HeadVerdict = Object.freeze({ status: 0, detail: '' });

/** The answer to what is refused. */
export function refusalOf({ status, detail }: HeadVerdict, id: string): HttpResponse {
  const response = problem(status, id, { detail });
  if (status === 503) response.headers.set('Retry-After', RETRY_AFTER);
  return response;
}

/** The longest time between two looks at silent connections, of which one may stay open one more than it should. */
const LOOK_MS = 1_000;
/** Looks within the time of a connection. */
const LOOKS = 6;

/** The connections of one server. */
export class Connections {
  readonly #deps: ConnectionsDeps;
  readonly #most: number;
  readonly #open = new Set<Socket>();
  readonly #slow: SlowReaders;
  #reportedMs = -Infinity;
  /** One timer looks at all silent connections once in a while. */
  #lookMs = LOOK_MS;
  #looks = LOOKS;
  #timer: Disposable | undefined;
  #noteTimeout: NoteTimeout | undefined;
  /** Connections that another process has accepted; undefined where this one accepts its own. */
  #adopted: Map<Socket, HeadTime> | undefined;

  constructor(deps: ConnectionsDeps) {
    this.#deps = deps;
    this.#slow = new SlowReaders(deps.clock, deps.limits.sendTimeoutMs, deps.onSlowReader);
    const { maxConnections } = deps.limits;
    this.#most = maxConnections + Math.min(MOST_SPARE, Math.ceil(maxConnections / 10));
  }

  /** Counts the connections of a server; `event` brings the sockets that requests come over. */
  watch(server: Server, event: 'connection' | 'secureConnection'): void {
    const connections = this;
    function onClose(this: Socket): void {
      // one for all connections
      connections.#leave(this);
    }
    allowHalfOpen(server);
    this.#watchSilence(server);
    server.maxConnections = this.#most; // refused connections cost least; but it does not count what another process has accepted
    server.on('drop', () => this.#report('maxConnections')); // and counted by the meter
    server.on(event, (socket: Socket) => {
      if (socket.destroyed) return; // by another listener, or on its way from another process: its end would not be noticed
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

  /** Whether a request is too much that has come over this connection; `inFlight` counts it. */
  judge(connection: Connection, inFlight: number): HeadVerdict | undefined {
    if (connection.isSurplus) return SURPLUS;
    const isLast = connection.waiting > this.#deps.limits.maxPipelined;
    if (inFlight > this.#deps.limits.maxInFlight) {
      this.#report('maxInFlight');
      return isLast ? BUSY_LAST : BUSY;
    }
    return isLast ? LAST : undefined;
  }

  /** Watches how fast a client takes an answer that is under way. */
  watchReading(socket: Socket, outgoing?: SentMessage): void {
    this.#slow.watch(socket, outgoing);
  }

  /** Limits the time for heads from now on, as node:http does on connections that it accepts itself. */
  limitHeads(): void {
    this.#adopted ??= new Map();
  }

  /** A connection has become a WebSocket, and is no longer judged here. */
  release(socket: Socket): void {
    this.#adopted?.delete(socket);
    this.#slow.forget(socket);
  }

  /**
   * Closes silent connections by `closeIdle`, which is node:http's way, and spares what that gets wrong: a connection is silent
   * for it as soon as its answer has been written, whatever of that its client has yet to take.
   */
  closeIdle(closeIdle: () => void): void {
    const reading = [...this.#open].filter((socket) => connectionOf(socket).waiting > 0);
    for (const socket of reading) socket.destroy = () => socket;
    closeIdle();
    for (const socket of reading) Reflect.deleteProperty(socket, 'destroy');
    if (this.#adopted === undefined) return;
    for (const socket of this.#adopted.keys()) {
      const { waiting, requests, lingering } = connectionOf(socket);
      if (waiting === 0 && requests > 0 && lingering === undefined) socket.destroy(); // node:http does not know them
    }
  }

  /** Cuts everything off. */
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
    lingering?.destroy(); // node:http does so for requests without an answer only: its reader would wait for ever
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
      problem: 'clients are refused with 503, or without an answer',
      remedy: `Add processes or machines, or raise the setting "${setting}" where this one has memory left`,
    });
  }

  /** Takes over the time limit that a server has for silent connections, where that is cheaper than its timers. */
  #watchSilence(server: Server): void {
    // the time that node:http gives: a second more than it announces, so that a client that trusts that is on the safe side
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
        // since the last look: it was not silent then, or a request has begun
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

/** How long a connection that another process has accepted takes for a head. */
interface HeadTime {
  /** Requests and bytes that it had brought at the last look. */
  requests: number;
  bytes: number;
  /** When the head began, or the connection; Infinity between two requests. */
  sinceMs: number;
}

/** The times that each slow reader is looked at within its limit. */
const READING_LOOKS = 4;

/** The most bytes that are written at once: how far a client is within a longer write could not be seen. */
export const SLICE_BYTES = 131_072;

/** How far a client is. */
interface Reading {
  /** Bytes that its side had taken at the last look; -1 when nothing waited for it. */
  taken: number;
  sinceMs: number;
}

/**
 * Clients that take nothing of an answer for a while lose their connection. Otherwise a client that asks for much and reads nothing
 * holds an answer, a file or a database's cursor for as long as it likes (the slow-read attack).
 *
 * Watched are connections whose answers the kernel did not take at once. Progress is what it has taken of the socket's writes
 * since the last look. An answer that waits behind another one, or for its source, is not slow.
 */
class SlowReaders {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #onCut: ConnectionsDeps['onSlowReader'];
  readonly #readings = new Map<Socket, Reading>();
  #timer: Disposable | undefined;

  /** `limitMs`: without progress for so long, and at most half as long again, a connection is cut; `onCut` is called before. */
  constructor(clock: Clock, limitMs: number, onCut: ConnectionsDeps['onSlowReader']) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#onCut = onCut;
  }

  /** Watches a connection until nothing is under way on it, at the end of `outgoing` or later. */
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

/** Returns the bytes that the kernel has taken of everything that was written to the connection; -1 when nothing waits there. */
function takenOf({ bytesWritten, writableLength }: Socket): number {
  return writableLength === 0 ? -1 : bytesWritten - writableLength;
}

/*
 * Connections in numbers: how many are open, how many requests each brought, and which the server refused.
 *
 *   svc_connections                              open now: idle ones too
 *   svc_connection_requests                      a histogram, counted when a connection closes: one request each is a client without keep-alive
 *   svc_connections_refused_total{reason}        malformed, overflow (head too large), timeout, tls, limit (too many connections)
 */

const REQUEST_BUCKETS = [0, 1, 2, 5, 10, 50, 100, 1_000, 10_000];

/** Why a connection was refused, by the code of the error that node:http gives. Others are mistakes in a head or a body. */
const REASONS: Readonly<Record<string, string | undefined>> = {
  HPE_HEADER_OVERFLOW: 'overflow',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: 'overflow',
  ERR_HTTP_REQUEST_TIMEOUT: 'timeout',
};
/** The client's end, not ours. */
const GONE: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE']);

/** The connections of one application, over all its servers. */
export class ConnectionMeter {
  readonly #requests: HistogramSlot;
  readonly #refused: CounterMetric;
  #open = 0;

  /** @throws SvcError `E_METRIC` where the names are taken */
  constructor(metrics: MetricsRegistry) {
    metrics.gauge('svc_connections', 'Connections that are open, idle ones too', () => this.#open);
    this.#requests = metrics
      .histogram(
        'svc_connection_requests',
        'Requests that a connection has brought, counted when it closes',
        REQUEST_BUCKETS,
      )
      .slot();
    this.#refused = metrics.counter(
      'svc_connections_refused_total',
      'Connections that the server would not have, or ended for what came over them',
      ['reason'],
    );
  }

  get open(): number {
    return this.#open;
  }

  /** Counts what a server would not have, from now on. */
  watch(server: NetServer): void {
    server.on('clientError', (error: NodeJS.ErrnoException) => {
      if (!GONE.has(error.code)) this.#refused.add(1, REASONS[error.code ?? ''] ?? 'malformed');
    });
    server.on('tlsClientError', () => this.#refused.add(1, 'tls'));
    server.on('drop', () => this.refuse());
  }

  /** A connection is one too many. */
  refuse(): void {
    this.#refused.add(1, 'limit');
  }

  /** A connection has come that requests may come over. */
  enter(): void {
    this.#open++;
  }

  /** Counts a closed connection and the number of its requests. */
  leave(requests: number): void {
    this.#open--;
    this.#requests.observe(requests);
  }
}
