/**
 * What is too much: connections of a server, requests in flight, requests of one connection that wait for each other.
 *
 *   connections  1 ... maxConnections          served
 *                ... a tenth more              the first request is answered with 503, and the connection ends
 *                beyond                      closed without an answer
 *   in flight    beyond maxInFlight          503, but for probes: an orchestrator would restart what is merely busy
 *   idle         beyond keepAliveTimeoutMs   closed by IdleConnections
 *   pipelined    beyond maxPipelined         one more is answered, and the connection ends: a client sends the rest again (RFC 9112 §9.3.2)
 */
import { NOT_WAITING, connectionOf } from './connection.ts';
import { problem } from '../response.ts';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Connection } from './connection.ts';
import type { ConnectionMeter } from './connection-meter.ts';
import type { Limits } from './limits.ts';
import type { HeadVerdict } from './request-head.ts';
import type { HttpResponse } from '../response.ts';

/** What they are, and who is told. */
export interface ConnectionLimitsDeps {
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts the connections, those refused as well. */
  readonly meter: ConnectionMeter | undefined;
}

const MOST_SPARE = 1_000;
/** How often it is told that there is too much. */
const REPORT_PAUSE_MS = 60_000;
/** Seconds after which a client that was refused may try again. */
const RETRY_AFTER = '1';

/** Too many connections: this one ends with its answer. */
const SURPLUS: HeadVerdict = Object.freeze({ status: 503, detail: 'The server has too many connections' });
/** Too many requests: the connection stays. */
export const BUSY: HeadVerdict = Object.freeze({ status: 503, detail: 'The server has too many requests' });
/** Too many requests of one connection: served, as its last. */
const LAST_PIPELINED: HeadVerdict = Object.freeze({ status: 0, detail: '' });

/** The connections of one server. */
export class ConnectionLimits {
  readonly #deps: ConnectionLimitsDeps;
  readonly #most: number;
  readonly #idle: IdleConnections;
  #open = 0;
  #reportedMs = -Infinity;

  constructor(deps: ConnectionLimitsDeps) {
    this.#deps = deps;
    this.#idle = new IdleConnections(deps.clock);
    const { maxConnections } = deps.limits;
    this.#most = maxConnections + Math.min(MOST_SPARE, Math.ceil(maxConnections / 10));
  }

  /** Counts the connections of a server; `event` tells of the sockets that requests come over. */
  watch(server: Server, event: 'connection' | 'secureConnection'): void {
    const limits = this;
    function countAndDestroy(this: Socket, ...how: Parameters<Socket['_destroy']>): void {
      // one for all connections
      limits.#close(this);
      (Object.getPrototypeOf(this) as Socket)._destroy.apply(this, how);
    }
    this.#idle.watch(server);
    server.maxConnections = this.#most; // those beyond cost least; but it does not count what another process has accepted
    server.on('drop', () => this.#report('maxConnections')); // and counted by whoever counts connections
    server.on(event, (socket: Socket) => {
      if (socket.destroyed) return; // another listener was before us, or it was on its way from another process: nothing would tell of its end
      this.#open++;
      this.#deps.meter?.enter();
      this.#idle.enter(socket);
      socket._destroy = countAndDestroy; // a second listener of 'close' costs an idle connection 208 bytes: node:http adds one for each answer, and the room for three stays
      if (this.#open > this.#most) {
        this.#refuse();
        socket.destroy();
      } else if (this.#open > this.#deps.limits.maxConnections) {
        connectionOf(socket).isSurplus = true;
        this.#refuse();
      }
    });
  }

  /** Whether a request is too much that has come over this connection; `inFlight` counts it. */
  judge(connection: Connection, inFlight: number): HeadVerdict | undefined {
    if (connection.isSurplus) return SURPLUS;
    if (inFlight > this.#deps.limits.maxInFlight) {
      this.#report('maxInFlight');
      return BUSY;
    }
    return connection.waiting > this.#deps.limits.maxPipelined ? LAST_PIPELINED : undefined;
  }

  #close(socket: Socket): void {
    this.#open--;
    this.#idle.leave(socket);
    this.#deps.meter?.leave(connectionOf(socket).requests);
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
      connections: this.#open,
      problem: 'clients are refused with 503, or without an answer',
      remedy: `Add processes or machines, or raise the setting "${setting}" where this one has memory left`,
    });
  }
}

/** The answer to what is refused. */
export function refusalOf({ status, detail }: HeadVerdict, id: string): HttpResponse {
  const response = problem(status, id, { detail });
  if (status === 503) response.headers.set('Retry-After', RETRY_AFTER);
  return response;
}

/*
 * Connections between two requests: each is closed when its next one does not come for long.
 *
 * node:http says by `socket.setTimeout()`, after every answer and before every request, how long a connection may be silent;
 * a timer for each of them is a fourteenth of what a plain answer costs over sockets. Here that is noted, and one timer for
 * all connections of a server looks at them once in a while.
 */

/** The longest time between two looks, of which a connection may stay open one more than it should. */
const LOOK_MS = 1_000;
/** Looks within the time of a connection. */
const LOOKS = 6;

/** What stands in for the method of a socket. */
type NoteTimeout = (this: Socket, ms: number, onTimeout?: () => void) => Socket;

/** The idle connections of one server. */
class IdleConnections {
  readonly #clock: Clock;
  /** Those that have waited once and are open. */
  readonly #sockets = new Set<Socket>();
  #lookMs = LOOK_MS;
  #looks = LOOKS;
  #timer: Disposable | undefined;
  #noteTimeout: NoteTimeout | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Takes over the time limit that a server has for what is idle. */
  watch(server: Server): void {
    const idle = this;
    // what node:http gives: a second more than it announces, so that a client that trusts that is on the safe side
    const limitMs =
      server.keepAliveTimeout +
      ((server as { readonly keepAliveTimeoutBuffer?: number }).keepAliveTimeoutBuffer ?? 1_000);
    this.#lookMs = Math.min(LOOK_MS, Math.ceil(limitMs / LOOKS));
    this.#looks = Math.ceil(limitMs / this.#lookMs);
    this.#noteTimeout = function noteTimeout(this: Socket, ms: number, onTimeout?: () => void): Socket {
      // one for all connections
      const connection = connectionOf(this);
      const isWaiting = connection.idleLooks !== NOT_WAITING;
      if (ms === limitMs && onTimeout === undefined) {
        connection.idleLooks = 0;
        if (!connection.isListed) idle.#list(this);
        return this;
      }
      connection.idleLooks = NOT_WAITING;
      return isWaiting && ms === 0
        ? this
        : (Object.getPrototypeOf(this) as Socket).setTimeout.call(this, ms, onTimeout); // others may set limits of their own
    };
  }

  /** A connection of the server has opened. */
  enter(socket: Socket): void {
    if (this.#noteTimeout !== undefined) socket.setTimeout = this.#noteTimeout;
  }

  /** It is gone. */
  leave(socket: Socket): void {
    if (!this.#sockets.delete(socket) || this.#sockets.size > 0) return;
    this.#timer?.[Symbol.dispose]();
    this.#timer = undefined;
  }

  #list(socket: Socket): void {
    connectionOf(socket).isListed = true;
    this.#sockets.add(socket);
    this.#timer ??= this.#next();
  }

  #next(): Disposable {
    return this.#clock.after(this.#lookMs, () => this.#look());
  }

  #look(): void {
    this.#timer = this.#next();
    for (const socket of this.#sockets) {
      const connection = connectionOf(socket);
      if (connection.idleLooks === NOT_WAITING) continue;
      const { bytesRead } = socket;
      if (bytesRead !== connection.bytesSeen) {
        // since the last look: it was not idle then, or a request has begun
        connection.bytesSeen = bytesRead;
        connection.idleLooks = 0;
      } else if (++connection.idleLooks >= this.#looks) socket.destroy();
    }
  }
}
