/**
 * Refuses access tokens from before a `revokeAll()` (ASVS 7.4.1), with the option `enforceValidAfter`. The time of each subject is
 * cached for a few seconds.
 */
import { LruIndex } from '../../cache/lru.ts';
import type { Clock } from '../../base/clock.ts';
import type { Awaitable } from '../../http/contracts.ts';
import type { Claims } from '../../crypto/jwt.ts';
import type { TokenStore } from './store.ts';

const TTL_MS = 5_000;
const MAX_SUBJECTS = 10_000;
/** Maximum difference in microseconds between the clocks of two processes on one machine, 5 ms each. */
const DRIFT = 10_000;

/** Claim with the issue time in microseconds; `iat` has whole seconds. */
export const EXACT_TIME = 'iat_us';

/** Time in microseconds by which a token must be later than a revocation, including `clockSkew`. */
export function marginOf(clockSkew: number): number {
  return clockSkew + DRIFT;
}

/** Reads the store for each subject at most every five seconds. */
export class ValidAfterGate {
  readonly #store: TokenStore;
  readonly #clock: Clock;
  readonly #index = new LruIndex(MAX_SUBJECTS);
  /** By slot: the time in microseconds, and the expiry of the cache entry in milliseconds. */
  readonly #moments: number[] = [0];
  readonly #deadlines: number[] = [0];

  /** In microseconds. */
  readonly #margin: number;

  /** `clockSkew`: maximum difference between the clocks of several hosts, in microseconds. */
  constructor(store: TokenStore, clock: Clock, clockSkew: number) {
    this.#store = store;
    this.#clock = clock;
    this.#margin = marginOf(clockSkew);
  }

  /**
   * Whether a token is still valid. Tokens of this plugin are compared to the microsecond. Tokens with `iat` only, such as the
   * application's own, are refused for the whole second of a revocation.
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

  /** Records a revocation by this process. */
  remember(sub: string, moment: number): void {
    const known = this.#index.find(sub);
    const slot =
      known !== 0 ? known : this.#index.isFull ? this.#index.replaceOldest(sub) : this.#index.add(sub);
    this.#moments[slot] = known === 0 ? moment : Math.max(moment, this.#moments[slot]!); // an older look-up must not undo a revocation
    this.#deadlines[slot] = this.#clock.monotonicMs() + TTL_MS;
  }

  /** Earliest possible issue time of a token, in microseconds. */
  #madeAt(claims: Claims): number {
    const exact = (claims as Readonly<Record<string, unknown>>)[EXACT_TIME];
    const { iat } = claims;
    return typeof exact === 'number' ? exact - this.#margin : typeof iat === 'number' ? iat * 1_000_000 : 0;
  }
}
