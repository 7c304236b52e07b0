/**
 * What is too much: connections of a server, requests in flight, requests of one connection that wait for each other.
 *
 *   connections  1 … maxConnections          served
 *                … a tenth more              the first request is answered with 503, and the connection ends
 *                beyond                      closed without an answer
 *   in flight    beyond maxInFlight          503, but for probes: an orchestrator would restart what is merely busy
 *   idle         beyond keepAliveTimeoutMs   closed: see idle-connections.ts
 *   pipelined    beyond maxPipelined         one more is answered, and the connection ends: a client sends the rest again (RFC 9112 §9.3.2)
 */
import { connectionOf } from './connection.ts';
import { IdleConnections } from './idle-connections.ts';
import { problem } from './problem.ts';
import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Connection } from './connection.ts';
import type { ConnectionMeter } from './connection-meter.ts';
import type { Limits } from './limits.ts';
import type { HeadVerdict } from './request-head.ts';
import type { HttpResponse } from './response.ts';

/** What they are, and who is told. */
export interface LimitParts {
  readonly limits: Limits;
  readonly clock: Clock;
  readonly log: Logger;
  /** Counts the connections, those refused as well. */
  readonly meter: ConnectionMeter | undefined;
}

const MOST_SPARE = 1_000;
/** How often it is told that there is too much. */
const TELL_MS = 60_000;
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
  readonly #parts: LimitParts;
  readonly #most: number;
  readonly #idle: IdleConnections;
  #open = 0;
  #toldMs = -Infinity;

  constructor(parts: LimitParts) {
    this.#parts = parts;
    this.#idle = new IdleConnections(parts.clock);
    const { maxConnections } = parts.limits;
    this.#most = maxConnections + Math.min(MOST_SPARE, Math.ceil(maxConnections / 10));
  }

  /** Counts the connections of a server; `event` tells of the sockets that requests come over. */
  watch(server: Server, event: 'connection' | 'secureConnection'): void {
    const limits = this;
    function countAndDestroy(this: Socket, ...how: Parameters<Socket['_destroy']>): void { // one for all connections
      limits.#close(this);
      (Object.getPrototypeOf(this) as Socket)._destroy.apply(this, how);
    }
    this.#idle.watch(server);
    server.maxConnections = this.#most; // those beyond cost least; but it does not count what another process has accepted
    server.on('drop', () => this.#tell('maxConnections')); // and counted by whoever counts connections
    server.on(event, (socket: Socket) => {
      if (socket.destroyed) return; // another listener was before us, or it was on its way from another process: nothing would tell of its end
      this.#open++;
      this.#parts.meter?.enter();
      this.#idle.enter(socket);
      socket._destroy = countAndDestroy; // a second listener of 'close' costs an idle connection 208 bytes: node:http adds one for each answer, and the room for three stays
      if (this.#open > this.#most) {
        this.#refuse();
        socket.destroy();
      } else if (this.#open > this.#parts.limits.maxConnections) {
        connectionOf(socket).isSurplus = true;
        this.#refuse();
      }
    });
  }

  /** Whether a request is too much that has come over this connection; `inFlight` counts it. */
  judge(connection: Connection, inFlight: number): HeadVerdict | undefined {
    if (connection.isSurplus) return SURPLUS;
    if (inFlight > this.#parts.limits.maxInFlight) {
      this.#tell('maxInFlight');
      return BUSY;
    }
    return connection.waiting > this.#parts.limits.maxPipelined ? LAST_PIPELINED : undefined;
  }

  #close(socket: Socket): void {
    this.#open--;
    this.#idle.leave(socket);
    this.#parts.meter?.leave(connectionOf(socket).requests);
  }

  #refuse(): void {
    this.#parts.meter?.refuse();
    this.#tell('maxConnections');
  }

  #tell(setting: 'maxConnections' | 'maxInFlight'): void {
    const nowMs = this.#parts.clock.monotonicMs();
    if (nowMs - this.#toldMs < TELL_MS) return;
    this.#toldMs = nowMs;
    this.#parts.log.warn('overloaded', { setting, limit: this.#parts.limits[setting], connections: this.#open, problem: 'clients are refused with 503, or without an answer', remedy: `Add processes or machines, or raise the setting "${setting}" where this one has memory left` });
  }
}

/** The answer to what is refused. */
export function refusalOf({ status, detail }: HeadVerdict, id: string): HttpResponse {
  const response = problem(status, id, { detail });
  if (status === 503) response.headers.set('Retry-After', RETRY_AFTER);
  return response;
}
