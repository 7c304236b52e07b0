/**
 * Rate limits in a RecordStore: all processes share the buckets.
 *
 *   read the bucket -> GCRA step -> write it if it is unchanged, else repeat
 *
 * A bucket is one number: the theoretical arrival time by the given clock. A refused attempt only reads.
 */
import { systemClock } from '../base/clock.ts';
import { given, readOptions } from '../base/options.ts';
import { takeFrom } from './stores.ts';
import type { Clock } from '../base/clock.ts';
import type { RateLimitResult, RateLimitRule, RateLimitStore, RecordStore } from './stores.ts';

/** Options of a {@link RecordRateLimitStore}, in addition to its records. */
export interface RecordRateLimitStoreOptions {
  /** Default: the machine's time. Hosts must agree on the time within the tolerance of a limit. */
  readonly clock?: Clock | undefined;
}

/** An attempt fails only if another one has succeeded in between. */
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
      // After the clock is set back, clients must not be locked out for longer than the bucket's period
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
