/**
 * Pauses between attempts to reach a server: they double, and all callers share them.
 *
 *   pause after failure 1, 2, 3, ...   50, 100, 200, 400, 800, 900, 900 ... ms, each shortened by up to half at random
 *   concurrent attempts                one after a failure or a broken connection; each success doubles the number
 *
 * Callers notice within a second that the server is back. The server receives few attempts before that, and
 * no burst after it.
 */

/** The first pause in milliseconds; each further one is twice as long. */
const FIRST_MS = 50;
const MAX_MS = 900;

/** Counts failures and computes pauses. Reads no clock. */
export class Backoff {
  readonly #random: () => number;
  #failures = 0;
  #untilMs = -Infinity;
  #most = Infinity;

  /** `random` returns 0 ... 1, as Math.random does. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Number of consecutive failures. Concurrent attempts count once. */
  get failures(): number {
    return this.#failures;
  }

  /** Maximum number of concurrent attempts. */
  get most(): number {
    return this.#most;
  }

  /** Returns the milliseconds to wait before the next attempt; 0 for none. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#untilMs - nowMs);
  }

  /** Records that an attempt that began at `startedMs` has failed. */
  fail(startedMs: number, nowMs: number): void {
    // the attempt began before the last counted failure, so it counts as the same failure
    if (startedMs < this.#untilMs) return;
    const longestMs = Math.min(MAX_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures++;
    this.#most = 1;
    this.#untilMs = nowMs + longestMs * (1 - this.#random() / 2);
  }

  /** Records that a connection ended early. The server may be gone, so only one attempt at a time follows. */
  suspect(): void {
    this.#most = 1;
  }

  /** Records that an attempt has succeeded. */
  succeed(): void {
    this.#failures = 0;
    this.#untilMs = -Infinity;
    this.#most *= 2;
  }
}
