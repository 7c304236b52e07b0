/**
 * Access tokens from before a `revokeAll()`: refused at once where the option says so (ASVS 7.4.1), by a moment per subject
 * that is remembered for a few seconds.
 */
import { LruIndex } from '../lru.ts';
import type { Clock } from '../clock.ts';
import type { Awaitable } from '../http/contracts.ts';
import type { Claims } from '../jwt.ts';
import type { TokenStore } from './token-store.ts';

const TTL_MS = 5_000;
const MAX_SUBJECTS = 10_000;

/** Asks the store for each subject at most every five seconds. */
export class ValidAfterGate {
  readonly #store: TokenStore;
  readonly #clock: Clock;
  readonly #index = new LruIndex(MAX_SUBJECTS);
  /** By slot: the moment in microseconds, and until when it is believed, in milliseconds. */
  readonly #moments: number[] = [0];
  readonly #deadlines: number[] = [0];

  constructor(store: TokenStore, clock: Clock) {
    this.#store = store;
    this.#clock = clock;
  }

  /** Whether a token still counts. `iat` has whole seconds, so those of the same second as a revocation are refused, too. */
  allows({ sub, iat }: Claims): Awaitable<boolean> {
    const slot = this.#index.find(sub);
    if (slot !== 0 && this.#deadlines[slot]! > this.#clock.monotonicMs()) {
      this.#index.use(slot);
      return isAfter(iat, this.#moments[slot]!);
    }
    return this.#store.validAfter(sub).then((moment) => {
      this.remember(sub, moment);
      return isAfter(iat, this.#moments[this.#index.find(sub)]!);
    });
  }

  /** What this process knows itself. */
  remember(sub: string, moment: number): void {
    const known = this.#index.find(sub);
    const slot = known !== 0 ? known : this.#index.isFull ? this.#index.replaceOldest(sub) : this.#index.add(sub);
    this.#moments[slot] = known === 0 ? moment : Math.max(moment, this.#moments[slot]!); // a look-up from before a revocation must not undo it
    this.#deadlines[slot] = this.#clock.monotonicMs() + TTL_MS;
  }
}

function isAfter(iat: unknown, moment: number): boolean {
  return typeof iat === 'number' && iat * 1_000_000 > moment;
}
