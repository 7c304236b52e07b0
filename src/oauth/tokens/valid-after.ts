/**
 * Access tokens from before a `revokeAll()`: refused at once where the option says so (ASVS 7.4.1), by a moment per subject
 * that is remembered for a few seconds.
 */
import { LruIndex } from '../../cache/lru.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable } from '../../http/contracts.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { TokenStore } from './store.ts';

const TTL_MS = 5_000;
const MAX_SUBJECTS = 10_000;
/** In microseconds: by how much the clocks of two processes of one machine differ at most, which is 5 ms each. */
const DRIFT = 10_000;

/** The claim by which a token says when it was made in microseconds; `iat` has whole seconds. */
export const EXACT_TIME = 'iat_us';

/** By how much a token must be later than a revocation to count, in microseconds; `clockSkew` as well. */
export function marginOf(clockSkew: number): number {
  return clockSkew + DRIFT;
}

/** Asks the store for each subject at most every five seconds. */
export class ValidAfterGate {
  readonly #store: TokenStore;
  readonly #clock: Clock;
  readonly #index = new LruIndex(MAX_SUBJECTS);
  /** By slot: the moment in microseconds, and until when it is believed, in milliseconds. */
  readonly #moments: number[] = [0];
  readonly #deadlines: number[] = [0];

  /** In microseconds. */
  readonly #margin: number;

  /** `clockSkew`: by how much the clocks of several hosts may differ, in microseconds. */
  constructor(store: TokenStore, clock: Clock, clockSkew: number) {
    this.#store = store;
    this.#clock = clock;
    this.#margin = marginOf(clockSkew);
  }

  /**
   * Whether a token still counts: one of this plugin to the microsecond. Of one that says its `iat` alone, such as those that
   * an application makes itself, the whole second of a revocation is refused.
   */
  allows(claims: Claims): Awaitable<boolean> {
    const { sub } = claims;
    const made = this.#madeAt(claims);
    const slot = this.#index.find(sub);
    if (slot !== 0 && this.#deadlines[slot]! > this.#clock.monotonicMs()) {
      this.#index.use(slot);
      return made > this.#moments[slot]!;
    }
    return this.#store.validAfter(sub).then((moment) => {
      this.remember(sub, moment);
      return made > this.#moments[this.#index.find(sub)]!;
    });
  }

  /** What this process knows itself. */
  remember(sub: string, moment: number): void {
    const known = this.#index.find(sub);
    const slot =
      known !== 0 ? known : this.#index.isFull ? this.#index.replaceOldest(sub) : this.#index.add(sub);
    this.#moments[slot] = known === 0 ? moment : Math.max(moment, this.#moments[slot]!); // a look-up from before a revocation must not undo it
    this.#deadlines[slot] = this.#clock.monotonicMs() + TTL_MS;
  }

  /** The earliest moment at which a token can have been made, in microseconds. */
  #madeAt(claims: Claims): number {
    const exact = (claims as Readonly<Record<string, unknown>>)[EXACT_TIME];
    const { iat } = claims;
    return typeof exact === 'number' ? exact - this.#margin : typeof iat === 'number' ? iat * 1_000_000 : 0;
  }
}
