/**
 * Computes the pauses between attempts to connect to a server that is unavailable. A pause is shorter than a
 * second, so callers soon notice that the server is available again. After a failure, only one attempt runs
 * at a time.
 */

/** First pause in milliseconds. Each further pause is twice as long. */
const FIRST_MS = 50;
const MAX_MS = 900;

export class Backoff {
  readonly #random: () => number;
  #failures = 0;
  #untilMs = -Infinity;
  #most = Infinity;

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
    if (startedMs < this.#untilMs) return;
    const longestMs = Math.min(MAX_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures++;
    this.#most = 1;
    this.#untilMs = nowMs + longestMs * (1 - this.#random() / 2);
  }

  /**
   * Records that a connection broke. The server may be unreachable, so only one attempt may run at a time.
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
