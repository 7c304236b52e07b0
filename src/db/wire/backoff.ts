/**
 * Computes the pauses between attempts to reach a server. All callers that wait for the server share one
 * back-off.
 *
 * The pauses after failures are 50, 100, 200, 400, 800, 900, 900, ... ms, each shortened by up to half at
 * random. After a failure or a broken connection, only one attempt runs at a time. Each success doubles the
 * maximum number of concurrent attempts.
 *
 * These pauses let callers notice within a second that the server is available again, and the server never
 * receives a burst of attempts.
 */

/** First pause in milliseconds. Each further pause is twice as long. */
const FIRST_MS = 50;
const MAX_MS = 900;

/** Counts failures and computes pauses. Reads no clock. */
export class Backoff {
  readonly #random: () => number;
  #failures = 0;
  #untilMs = -Infinity;
  #most = Infinity;

  /** `random` returns a number from 0 to 1, as Math.random does. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Number of consecutive failures. Concurrent attempts that fail count as one failure. */
  get failures(): number {
    return this.#failures;
  }

  /** Maximum number of concurrent attempts. */
  get most(): number {
    return this.#most;
  }

  /** Returns the milliseconds to wait before the next attempt. 0 means no wait. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#untilMs - nowMs);
  }

  /** Records that an attempt has failed. The attempt began at `startedMs`. */
  fail(startedMs: number, nowMs: number): void {
    // this attempt began before the pause after the last failure ended, so both count as one failure
    if (startedMs < this.#untilMs) return;
    const longestMs = Math.min(MAX_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures++;
    this.#most = 1;
    this.#untilMs = nowMs + longestMs * (1 - this.#random() / 2);
  }

  /**
   * Records that a connection broke. The server may be unreachable, so only one attempt at a time follows.
   */
  suspect(): void {
    this.#most = 1;
  }

  succeed(): void {
    this.#failures = 0;
    this.#untilMs = -Infinity;
    this.#most *= 2;
  }
}
