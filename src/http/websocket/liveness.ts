/**
 * Liveness of WebSockets: the timer that checks a peer, and pings that measure the round-trip time.
 *
 * The timer of a socket fires TICKS times within its shortest interval, and sockets send their pings at
 * different ticks. So not all sockets send a ping at the same time.
 */
import { Heartbeat } from '../streaming/heartbeat.ts';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Beating } from '../streaming/heartbeat.ts';

/** Number of checks of a socket within its shortest interval. */
const TICKS = 8;

/** Intervals of the sockets of a route. */
export interface LivenessOptions {
  readonly clock: Clock;
  /** Milliseconds between two pings; 0: no pings are sent. */
  readonly heartbeatMs: number;
  /** Milliseconds without a message after which a socket closes; 0: it stays open. */
  readonly idleTimeoutMs: number;
}

/** Returns the milliseconds between two timer calls; Infinity if both intervals are 0. */
function tickMs({ heartbeatMs, idleTimeoutMs }: LivenessOptions): number {
  return Math.min(heartbeatMs || Infinity, idleTimeoutMs || Infinity) / TICKS;
}

/** Starts the timer of a socket. Returns undefined if both intervals are 0. */
export function startBeats(options: LivenessOptions, socket: Beating): Heartbeat | undefined {
  const intervalMs = tickMs(options);
  return intervalMs === Infinity
    ? undefined
    : Heartbeat.of(options.clock, Math.max(1, intervalMs)).add(socket);
}

let lastPhase = 0;

/** Records when the peer has last shown that it is alive. */
export class PeerWatch {
  #isAlive = true;
  #isPinged = false;
  #quietTicks = 0;
  #beatTicks = (lastPhase = (lastPhase + 1) % TICKS);
  #taken = -1;

  /** Call it when the peer has sent bytes. */
  onBytes(): void {
    this.#isAlive = true;
  }

  /** Call it when the peer has sent a message. */
  onMessage(): void {
    this.#quietTicks = 0;
  }

  /**
   * Returns the result of one check. `idle`: no message for too long. `silent`: nothing was received since
   * the last check, so the peer must be pinged. `lost`: the peer did not respond to a ping, or has read none
   * of the bytes that wait for it. A missing response counts only if reading from the peer was not stopped
   * and no bytes wait for the peer.
   */
  beat(options: LivenessOptions, stream: Duplex, isRead: boolean): 'idle' | 'silent' | 'lost' | undefined {
    const { heartbeatMs, idleTimeoutMs } = options;
    const intervalMs = tickMs(options);
    if (idleTimeoutMs > 0 && ++this.#quietTicks * intervalMs > idleTimeoutMs) return 'idle';
    if (heartbeatMs === 0 || ++this.#beatTicks * intervalMs < heartbeatMs) return undefined;
    this.#beatTicks = 0;
    const taken = takenBytes(stream);
    const isStuck = taken !== -1 && taken === this.#taken;
    const isSilent = !this.#isAlive && this.#isPinged && isRead && taken === -1;
    this.#taken = taken;
    if (isStuck || isSilent) return 'lost';
    this.#isPinged = !this.#isAlive;
    this.#isAlive = false;
    return this.#isPinged ? 'silent' : undefined;
  }
}

/** Returns the number of written bytes that the system has accepted; -1 if it has accepted all of them. */
function takenBytes(stream: Duplex & { readonly bytesWritten?: number }): number {
  return stream.writableLength === 0 ? -1 : (stream.bytesWritten ?? 0) - stream.writableLength;
}

let lastPing = 0;

/** A ping that waits for its pong, which repeats the payload of the ping (RFC 6455 §5.5.3). */
export class RoundTrip {
  readonly payload: Buffer = Buffer.allocUnsafeSlow(4);
  readonly #sentMs: number;
  readonly #answer: PromiseWithResolvers<number | undefined> = Promise.withResolvers();

  /** `sentMs` is monotonic time. */
  constructor(sentMs: number) {
    this.payload.writeUInt32BE((lastPing = (lastPing + 1) >>> 0));
    this.#sentMs = sentMs;
  }

  /** Resolves with the milliseconds until the pong; with undefined if the socket closes before. */
  get durationMs(): Promise<number | undefined> {
    return this.#answer.promise;
  }

  /** Resolves `durationMs`. `nowMs`: time of the pong; undefined if there was none. */
  end(nowMs?: number): void {
    this.#answer.resolve(nowMs === undefined ? undefined : nowMs - this.#sentMs);
  }
}
