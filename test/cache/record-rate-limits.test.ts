/**
 * Rate limits in a RecordStore: the contract of every RateLimitStore, in memory and in a database, and
 * concurrent attempts.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RecordRateLimitStore } from 'svc';
import { DatabaseRecordStore, openDatabase } from 'svc/db';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { MemoryRecordStore } from '../../src/cache/stores.ts';
import { rateLimitStoreContract } from '../contract/rate-limit-store.ts';

rateLimitStoreContract(
  'RecordRateLimitStore over MemoryRecordStore passes the contract tests for rate limit stores',
  () => {
    const clock = new ManualClock();
    return {
      store: new RecordRateLimitStore(new MemoryRecordStore({ clock }), { clock }),
      pass: (ms) => clock.advance(ms),
    };
  },
);

rateLimitStoreContract(
  'RecordRateLimitStore over a record store in SQLite passes the contract tests for rate limit stores',
  async () => {
    const clock = new ManualClock();
    const database = await openDatabase('sqlite::memory:');
    const records = new DatabaseRecordStore(database, { clock });
    await records.createTable();
    return {
      store: new RecordRateLimitStore(records, { clock }),
      pass: (ms) => clock.advance(ms),
      close: () => database.close(),
    };
  },
);

test('concurrent attempts at two RecordRateLimitStores with the same record store do not exceed the limit', async () => {
  const clock = new ManualClock();
  await using database = await openDatabase('sqlite::memory:');
  const records = new DatabaseRecordStore(database, { clock });
  await records.createTable();
  const stores = [1, 2].map(() => new RecordRateLimitStore(records, { clock }));
  const results = await Promise.all(
    Array.from({ length: 30 }, (_, index) => stores[index % 2]!.take('a', { limit: 20, periodMs: 60_000 })),
  );
  assert.equal(results.filter(({ isAllowed }) => isAllowed).length, 20);
});

test('if the clock is set back, RecordRateLimitStore refuses a client for at most one period', async () => {
  const clock = new ManualClock();
  const store = new RecordRateLimitStore(new MemoryRecordStore({ clock }), { clock });
  const rule = { limit: 1, periodMs: 1_000 };
  await store.take('a', rule);
  clock.setWallMs(clock.nowMs() - 86_400_000);
  assert.ok((await store.take('a', rule)).retryAfterMs <= 1_000);
});
