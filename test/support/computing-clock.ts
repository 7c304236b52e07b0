/**
 * A clock for sources that pretend to compute, and a count of what they make in one turn of the event loop.
 */
import { ManualClock } from '../../src/base/manual-clock.ts';

/** A clock whose durations are the time that sources pretend to compute. */
export class ComputingClock extends ManualClock {
  /** Number of items that were computed in this turn of the event loop. */
  #inTurn = 0;
  #ms = 0;
  #ticker: NodeJS.Immediate | undefined;
  /** Largest number of items that were computed in one turn of the event loop. */
  most = 0;

  override monotonicMs(): number {
    return this.#ms;
  }

  /** Counts an item that takes this time. */
  compute(ms: number): void {
    this.#ms += ms;
    this.most = Math.max(this.most, ++this.#inTurn);
  }

  /** Counts the turns of the event loop until the result is disposed of. */
  counting(): Disposable {
    const tick = (): void => {
      this.#inTurn = 0;
      this.#ticker = setImmediate(tick);
    };
    tick();
    return { [Symbol.dispose]: () => clearImmediate(this.#ticker) };
  }
}
