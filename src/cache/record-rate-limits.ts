/**
 * Rate limits in a RecordStore, so that all processes share the counters (buckets).
 *
 * Steps of an attempt:
 *   read the bucket -> GCRA step -> write it if it is unchanged, else repeat
 *
 * A bucket is one number: the theoretical arrival time (TAT) of the generic cell rate algorithm, by the given
 * clock. A refused attempt only reads.
 */
import { systemClock } from '../base/clock.ts';
import { given, readOptions } from '../base/options.ts';
import { takeFrom } from './stores.ts';
import type { Clock } from '../base/clock.ts';
import type { RateLimitResult, RateLimitRule, RateLimitStore, RecordStore } from './stores.ts';

/** Options of a {@link RecordRateLimitStore}, in addition to its records. */
export interface RecordRateLimitStoreOptions {
  /**
   * Clock of the buckets. Default: the clock of the system. The clocks of all hosts must agree within the
   * tolerance of a limit.
   */
  readonly clock?: Clock | undefined;
}

/**
 * Maximum number of attempts to write a bucket. An attempt fails only if another process has changed the
 * bucket in between.
 */
const ATTEMPTS = 100;

/** A {@link RateLimitStore} over any {@link RecordStore}: `new RecordRateLimitStore(new DatabaseRecordStore(db))`. */
export class RecordRateLimitStore implements RateLimitStore {
  readonly #records: RecordStore;
  readonly #clock: Clock;

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
  constructor(records: RecordStore, options: RecordRateLimitStoreOptions = {}) {
    const { clock } = readOptions('RecordRateLimitStore', options, { clock: given<Clock>() });
    this.#records = records;
    this.#clock = clock ?? systemClock;
  }

  async take(key: string, rule: RateLimitRule, cost = 1): Promise<RateLimitResult> {
    const bucket = `limit ${key}`;
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const known = await this.#records.get(bucket);
      const nowMs = this.#clock.nowMs();
      // limited, so that clients are not locked out for longer than one period after the clock was set back
      const fromMs = Math.min(Math.max(nowMs, Number(known ?? 0)), nowMs + rule.periodMs);
      const result = takeFrom(fromMs - nowMs, rule, cost);
      if (!result.isAllowed || cost === 0) return result;
      const arrivalMs = String(fromMs + (cost * rule.periodMs) / rule.limit);
      const isWritten =
        known === undefined
          ? await this.#records.add(bucket, arrivalMs, result.resetMs)
          : await this.#records.replace(bucket, known, arrivalMs, result.resetMs);
      if (isWritten) return result;
    }
    throw new Error(
      `A rate limit could not be counted: other requests changed its bucket during ${ATTEMPTS} attempts`,
    );
  }
}
