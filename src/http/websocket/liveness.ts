/**
 * Liveness of WebSockets: the timer that checks whether a client still responds, and pings that measure the
 * round-trip time.
 *
 * A timer checks each socket eight times during its heartbeat interval or idle timeout, whichever is shorter.
 * The pings of all sockets are spread over these checks.
 */
import { takenOf } from '../server/connections.ts';
import { Heartbeat } from '../streaming/heartbeat.ts';
import type { Duplex } from 'node:stream';
import type { Clock } from '../../base/clock.ts';
import type { Beating } from '../streaming/heartbeat.ts';

/** Number of checks of a socket during its heartbeat interval or its idle timeout, whichever is shorter. */
const TICKS = 8;

/** Clock and intervals for checking the sockets of a route. */
export interface LivenessOptions {
  readonly clock: Clock;
  /** Time in milliseconds between two pings; 0: no pings are sent. */
  readonly heartbeatMs: number;
  /**
   * Time in milliseconds without a message after which a socket is closed; 0: it is never closed for this
   * reason.
   */
  readonly idleTimeoutMs: number;
}

/** Returns the time between two checks, in milliseconds. Infinity if both intervals are 0. */
function tickMs({ heartbeatMs, idleTimeoutMs }: LivenessOptions): number {
  return Math.min(heartbeatMs || Infinity, idleTimeoutMs || Infinity) / TICKS;
}

/** Starts the checks of a socket. Returns undefined if both intervals are 0, so no checks are needed. */
export function startBeats(options: LivenessOptions, socket: Beating): Heartbeat | undefined {
  const intervalMs = tickMs(options);
  return intervalMs === Infinity
    ? undefined
    : Heartbeat.of(options.clock, Math.max(1, intervalMs)).add(socket);
}

let lastPhase = 0;

/** Records the activity of a client, and decides whether it still responds. */
export class PeerWatch {
  #isAlive = true;
  #isPinged = false;
  #quietTicks = 0;
  #beatTicks = (lastPhase = (lastPhase + 1) % TICKS);
  #taken = -1;

  /** Called when the client has sent bytes. */
  onBytes(): void {
    this.#isAlive = true;
  }

  /** Called when the client has sent a message. */
  onMessage(): void {
    this.#quietTicks = 0;
  }

  /**
   * Returns the result of one check:
   *   - idle: the client has sent no message within idleTimeoutMs
   *   - silent: the client has sent nothing since the last check, so the caller must send a ping
   *   - lost: the client has not responded to a ping, or reads none of the bytes that wait for it
   */
  beat(options: LivenessOptions, stream: Duplex, isRead: boolean): 'idle' | 'silent' | 'lost' | undefined {
    const { heartbeatMs, idleTimeoutMs } = options;
    const intervalMs = tickMs(options);
    if (idleTimeoutMs > 0 && ++this.#quietTicks * intervalMs > idleTimeoutMs) return 'idle';
    if (heartbeatMs === 0 || ++this.#beatTicks * intervalMs < heartbeatMs) return undefined;
    this.#beatTicks = 0;
    const taken = takenOf(stream);
    const isStuck = taken !== -1 && taken === this.#taken;
    // a missing response counts only if the server reads from the client, and no bytes wait for the client
    const isSilent = !this.#isAlive && this.#isPinged && isRead && taken === -1;
    this.#taken = taken;
    if (isStuck || isSilent) return 'lost';
    this.#isPinged = !this.#isAlive;
    this.#isAlive = false;
    return this.#isPinged ? 'silent' : undefined;
  }
}

let lastPing = 0;

/**
 * A ping, and the promise of its round-trip time. The pong has the same payload as the ping (RFC 6455
 * §5.5.3).
 */
export class RoundTrip {
  readonly payload: Buffer = Buffer.allocUnsafeSlow(4);
  readonly #sentMs: number;
  readonly #answer: PromiseWithResolvers<number | undefined> = Promise.withResolvers();

  /** `sentMs`: monotonic time at which the ping is sent. */
  constructor(sentMs: number) {
    this.payload.writeUInt32BE((lastPing = (lastPing + 1) >>> 0));
    this.#sentMs = sentMs;
  }

  /** Resolves with the milliseconds until the pong; undefined if the socket closes earlier. */
  get durationMs(): Promise<number | undefined> {
    return this.#answer.promise;
  }

  /** Resolves `durationMs`. `nowMs`: monotonic time of the pong. Omit it if there is no pong. */
  end(nowMs?: number): void {
    this.#answer.resolve(nowMs === undefined ? undefined : nowMs - this.#sentMs);
  }
}
