/**
 * When a server that could not be reached may be tried again: pauses that double, the same for all who want it.
 *
 *   failure 1, 2, 3, ...     50, 100, 200, 400, 800, 900, 900 ... ms, each shortened by up to half at random
 *   while it fails         one attempt at a time, and also once connections have broken; each success doubles how many there may be
 *
 * So a server that returns is found within a second, and meets neither a storm before nor a herd after.
 */

/** The first pause; each further one is twice as long. */
const FIRST_MS = 50;
const MAX_MS = 900;

/** Counts failures and says when to go on. Reads no clock. */
export class Backoff {
  readonly #random: () => number;
  #failures = 0;
  #untilMs = -Infinity;
  #most = Infinity;

  /** `random` gives 0 ... 1, as Math.random does. */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** How often in a row it has failed; attempts that were under way together count once. */
  get failures(): number {
    return this.#failures;
  }

  /** How many attempts may be under way at once. */
  get most(): number {
    return this.#most;
  }

  /** How long to wait before the next attempt; 0 for not at all. */
  waitMs(nowMs: number): number {
    return Math.max(0, this.#untilMs - nowMs);
  }

  /** An attempt that began at `startedMs` has failed. */
  fail(startedMs: number, nowMs: number): void {
    if (startedMs < this.#untilMs) return; // it began before another one failed, which has been counted
    const longestMs = Math.min(MAX_MS, FIRST_MS * 2 ** this.#failures);
    this.#failures++;
    this.#most = 1;
    this.#untilMs = nowMs + longestMs * (1 - this.#random() / 2);
  }

  /** Something has ended that should have lasted: the server may be gone, so one attempt shall find out. */
  suspect(): void {
    this.#most = 1;
  }

  /** An attempt has succeeded. */
  succeed(): void {
    this.#failures = 0;
    this.#untilMs = -Infinity;
    this.#most *= 2;
  }
}
