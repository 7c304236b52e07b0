/**
 * Contract of every RateLimitStore.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Awaitable, RateLimitStore } from '../../src/cache/stores.ts';

/** A store under test, empty, and how to let its time pass. */
export interface RateLimitStoreUnderTest {
  readonly store: RateLimitStore;
  pass(ms: number): Awaitable<void>;
  /** How much later than asked for the store may be, for those that live elsewhere. Default 0. */
  readonly toleranceMs?: number;
  close?(): Awaitable<void>;
}

const RULE = { limit: 5, periodMs: 10_000 };

/** Registers the contract's tests for one implementation. */
export function rateLimitStoreContract(name: string, make: () => Awaitable<RateLimitStoreUnderTest>): void {
  function contract(
    does: string,
    run: (
      under: RateLimitStoreUnderTest,
      isNear: (actual: number, expected: number) => void,
    ) => Promise<void>,
  ): void {
    test(`${name}: ${does}`, async () => {
      const under = await make();
      const { toleranceMs = 0 } = under;
      try {
        await run(under, (actual, expected) =>
          assert.ok(
            Math.abs(actual - expected) <= toleranceMs,
            `${actual} is not ${expected} ± ${toleranceMs}`,
          ),
        );
      } finally {
        await under.close?.();
      }
    });
  }

  contract(
    'RateLimitStore.take() allows attempts up to the limit without a pause, and refuses the next attempt',
    async ({ store }, isNear) => {
      for (let left = 4; left >= 0; left--) {
        const result = await store.take('burst', RULE);
        assert.equal(result.isAllowed, true);
        assert.equal(result.remaining, left);
        assert.equal(result.retryAfterMs, 0);
        isNear(result.resetMs, (5 - left) * 2_000);
      }
      const refused = await store.take('burst', RULE);
      assert.equal(refused.isAllowed, false);
      assert.equal(refused.remaining, 0);
      isNear(refused.retryAfterMs, 2_000);
      isNear(refused.resetMs, 10_000);
    },
  );

  contract(
    'when "retryAfterMs" of a refusal has passed, RateLimitStore.take() allows one attempt, but not a second one at once',
    async ({ store, pass, toleranceMs = 0 }) => {
      for (let count = 0; count < 5; count++) await store.take('again', RULE);
      const { retryAfterMs } = await store.take('again', RULE);
      await pass(retryAfterMs + toleranceMs);
      assert.equal((await store.take('again', RULE)).isAllowed, true);
      assert.equal((await store.take('again', RULE)).isAllowed, false);
    },
  );

  contract(
    'when RateLimitStore.take() refuses an attempt, the attempt does not count against the limit',
    async ({ store }, isNear) => {
      for (let count = 0; count < 20; count++) await store.take('refused', RULE);
      isNear((await store.take('refused', RULE)).retryAfterMs, 2_000);
    },
  );

  contract(
    'when "resetMs" has passed, RateLimitStore again allows the full number of attempts',
    async ({ store, pass, toleranceMs = 0 }) => {
      let resetMs = 0;
      for (let count = 0; count < 3; count++) ({ resetMs } = await store.take('reset', RULE));
      await pass(resetMs + toleranceMs);
      assert.equal((await store.take('reset', RULE)).remaining, 4);
    },
  );

  contract(
    'RateLimitStore.take() counts the whole cost of an allowed attempt, and counts nothing for a refused attempt',
    async ({ store }, isNear) => {
      assert.equal((await store.take('cost', RULE, 3)).remaining, 2);
      const refused = await store.take('cost', RULE, 3);
      assert.equal(refused.isAllowed, false);
      assert.equal(refused.remaining, 2);
      isNear(refused.retryAfterMs, 2_000);
      assert.equal((await store.take('cost', RULE, 2)).remaining, 0);
    },
  );

  contract(
    'RateLimitStore.take() with the cost 0 returns the state of a key and does not change it',
    async ({ store }) => {
      for (let count = 0; count < 3; count++)
        assert.deepEqual(await store.take('look', RULE, 0), {
          isAllowed: true,
          remaining: 5,
          retryAfterMs: 0,
          resetMs: 0,
        });
      await store.take('look', RULE);
      assert.equal((await store.take('look', RULE, 0)).remaining, 4);
    },
  );

  contract('RateLimitStore.take() always refuses a cost above the limit', async ({ store, pass }) => {
    const refused = await store.take('too much', RULE, 6);
    assert.deepEqual([refused.isAllowed, refused.remaining, refused.retryAfterMs], [false, 5, 10_000]);
    await pass(10_000);
    assert.equal((await store.take('too much', RULE, 6)).isAllowed, false);
  });

  contract('RateLimitStore counts each key separately', async ({ store }) => {
    await store.take('one', RULE, 5);
    assert.equal((await store.take('two', RULE)).remaining, 4);
  });

  contract(
    'RateLimitStore returns times in whole milliseconds, and allows the full limit even if the period is not a multiple of the limit',
    async ({ store }) => {
      const rule = { limit: 7, periodMs: 1_000_000 };
      for (let count = 0; count < 7; count++) {
        const result = await store.take('sevenths', rule);
        assert.equal(result.isAllowed, true, `attempt ${count + 1} of 7`);
        assert.ok(Number.isInteger(result.resetMs));
      }
      const refused = await store.take('sevenths', rule);
      assert.equal(refused.isAllowed, false);
      assert.ok(Number.isInteger(refused.retryAfterMs));
    },
  );
}
