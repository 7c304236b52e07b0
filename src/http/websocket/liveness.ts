/**
 * Liveness of WebSockets: the timer that checks a peer, and pings that measure the round trip.
 *
 * The timer of a socket beats TICKS times in its shortest interval, and the sockets begin at different beats. So pings of many
 * sockets do not fall together.
 */
import { Heartbeat } from '../streaming/heartbeat.ts';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Beating } from '../streaming/heartbeat.ts';

/** Beats in the shortest interval of a socket. */
const TICKS = 8;

/** Intervals of the sockets of a route. */
export interface LivenessTerms {
  readonly clock: Clock;
  /** Milliseconds between two pings; 0: no pings. */
  readonly heartbeatMs: number;
  /** Milliseconds without a message after which a socket closes; 0: it stays open. */
  readonly idleTimeoutMs: number;
}

/** Returns the milliseconds between two beats; Infinity without intervals. */
export function tickMs({ heartbeatMs, idleTimeoutMs }: LivenessTerms): number {
  return Math.min(heartbeatMs || Infinity, idleTimeoutMs || Infinity) / TICKS;
}

/** Starts the beats of a socket. Returns undefined without intervals. */
export function startBeats(terms: LivenessTerms, socket: Beating): Heartbeat | undefined {
  const intervalMs = tickMs(terms);
  return intervalMs === Infinity ? undefined : Heartbeat.of(terms.clock, Math.max(1, intervalMs)).add(socket);
}

let lastPhase = 0;

/** Returns the beat that the next socket begins at. */
export function nextPhase(): number {
  return (lastPhase = (lastPhase + 1) % TICKS);
}

/** Returns the bytes of a stream that the system has taken; -1 when none wait. */
export function takenBytes(stream: Duplex & { readonly bytesWritten?: number }): number {
  return stream.writableLength === 0 ? -1 : (stream.bytesWritten ?? 0) - stream.writableLength;
}

let lastPing = 0;

/** A ping that waits for its pong, which has the payload of the ping (RFC 6455 §5.5.3). */
export class RoundTrip {
  readonly payload: Buffer = Buffer.allocUnsafeSlow(4);
  readonly #sentMs: number;
  readonly #answer: PromiseWithResolvers<number | undefined> = Promise.withResolvers();

  /** `sentMs` is monotonic time. */
  constructor(sentMs: number) {
    this.payload.writeUInt32BE((lastPing = (lastPing + 1) >>> 0));
    this.#sentMs = sentMs;
  }

  /** Milliseconds up to the pong; undefined when the socket has closed before. */
  get durationMs(): Promise<number | undefined> {
    return this.#answer.promise;
  }

  /** Ends the wait: at the time of the pong, or without one. */
  end(nowMs?: number): void {
    this.#answer.resolve(nowMs === undefined ? undefined : nowMs - this.#sentMs);
  }
}
