import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { HTTPException, StoreFull, SvcError } from '../../src/base/errors.ts';
import { MemoryRateLimitStore, MemoryRecordStore, MemoryRoomBus } from '../../src/cache/stores.ts';
import { rateLimitStoreContract } from '../contract/rate-limit-store.ts';
import { recordStoreContract } from '../contract/record-store.ts';
import { roomBusContract } from '../contract/room-bus.ts';
import { seeded } from '../support/random.ts';

recordStoreContract('MemoryRecordStore', () => {
  const clock = new ManualClock();
  return { store: new MemoryRecordStore({ clock }), pass: (ms) => clock.advance(ms) };
});
rateLimitStoreContract('MemoryRateLimitStore', () => {
  const clock = new ManualClock();
  return { store: new MemoryRateLimitStore({ clock }), pass: (ms) => clock.advance(ms) };
});
roomBusContract('MemoryRoomBus', () => {
  const bus = new MemoryRoomBus();
  return { here: bus, there: bus, settle: () => undefined };
});

test('StoreFull is an HTTPException with status 503', () => {
  const error = new StoreFull();
  assert.ok(error instanceof HTTPException);
  assert.equal(error.status, 503);
  assert.equal(error.name, 'StoreFull');
  assert.deepEqual(new StoreFull('later', { headers: { 'Retry-After': '5' } }).headers, {
    'Retry-After': '5',
  });
});

test('when MemoryRecordStore is full of records that have not expired, it throws StoreFull for a new record, and keeps its records', () => {
  const store = new MemoryRecordStore({ maxRecords: 3, clock: new ManualClock() });
  for (const key of ['a', 'b', 'c']) store.set(key, key, 1_000);
  assert.throws(() => store.set('d', 'd', 1_000), StoreFull);
  assert.throws(() => store.add('d', 'd', 1_000), StoreFull);
  assert.equal(store.add('a', 'x', 1_000), false);
  store.set('a', 'again', 1_000);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => store.get(key)),
    ['again', 'b', 'c', undefined],
  );
  store.delete('b');
  store.set('d', 'd', 1_000);
  assert.equal(store.get('d'), 'd');
});

test('when MemoryRecordStore is full, it removes an expired record, even if records with longer lifetimes were stored before and after it', async () => {
  const clock = new ManualClock();
  const store = new MemoryRecordStore({ maxRecords: 4, clock });
  store.set('long', '', 10_000);
  store.set('short', '', 100);
  store.set('longer', '', 20_000);
  store.set('longest', '', Infinity);
  await clock.advance(100);
  store.set('new', '', 1_000);
  assert.deepEqual(
    ['long', 'short', 'longer', 'longest', 'new'].map((key) => store.get(key)),
    ['', undefined, '', '', ''],
  );
});

test('MemoryRecordStore removes at most two expired records with each write', async () => {
  const clock = new ManualClock();
  const store = new MemoryRecordStore({ clock });
  for (let index = 0; index < 100; index++) store.set(`${index}`, '', 100);
  await clock.advance(100);
  assert.equal(store.size, 100);
  store.set('new', '', 1_000);
  assert.equal(store.size, 99);
});

test('for generated operations, MemoryRecordStore gives the same results as a Map whose entries have deadlines', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const maxRecords = 1 + random(12);
    const store = new MemoryRecordStore({ maxRecords, clock });
    const reference = new Map<string, { value: string; deadlineMs: number }>();
    const live = (key: string): string | undefined => {
      for (const [other, { deadlineMs }] of reference)
        if (deadlineMs <= clock.monotonicMs()) reference.delete(other);
      return reference.get(key)?.value;
    };
    for (let step = 0; step < 400; step++) {
      const [key, value, ttlMs] = [`k${random(20)}`, `v${random(3)}`, random(300)];
      const known = live(key);
      const isFull = known === undefined && ttlMs > 0 && reference.size >= maxRecords;
      const write = (): void => {
        if (ttlMs > 0) reference.set(key, { value, deadlineMs: clock.monotonicMs() + ttlMs });
        else reference.delete(key);
      };
      const operation = random(6);
      if (operation === 0) await clock.advance(random(100));
      else if (operation === 1) {
        assert.equal(store.delete(key), reference.delete(key));
      } else if (operation === 2) {
        const expected = `v${random(3)}`;
        assert.equal(store.replace(key, expected, value, ttlMs), known === expected);
        if (known === expected) write();
      } else if (operation === 3) {
        if (isFull) assert.throws(() => store.add(key, value, ttlMs), StoreFull);
        else {
          assert.equal(store.add(key, value, ttlMs), known === undefined);
          if (known === undefined) write();
        }
      } else if (operation === 4) {
        if (isFull) assert.throws(() => store.set(key, value, ttlMs), StoreFull);
        else {
          store.set(key, value, ttlMs);
          write();
        }
      }
      assert.equal(store.get(key), live(key), `seed ${seed}, step ${step}`);
      assert.ok(store.size <= maxRecords);
    }
  }
});

test('MemoryRecordStore and MemoryRateLimitStore refuse unknown options and limits that are out of range', () => {
  const code = (expected: string) => (error: unknown) => error instanceof SvcError && error.code === expected;
  assert.throws(() => new MemoryRecordStore({ maxRecords: 0 }), code('E_OPTION_RANGE'));
  assert.throws(() => new MemoryRateLimitStore({ maxBuckets: 1.5 }), code('E_OPTION_RANGE'));
  assert.throws(() => new MemoryRateLimitStore({ buckets: 1 } as object), code('E_OPTION_UNKNOWN'));
});

test('MemoryRecordStore and MemoryRateLimitStore use the system clock when no clock is given', () => {
  const store = new MemoryRecordStore();
  store.set('a', 'b', 60_000);
  assert.equal(store.get('a'), 'b');
  assert.equal(new MemoryRateLimitStore().take('a', { limit: 2, periodMs: 1_000 }).remaining, 1);
});

test('for generated attempts, MemoryRateLimitStore gives the same results as the generic cell rate algorithm (GCRA) in whole numbers', async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const store = new MemoryRateLimitStore({ clock });
    const rule = { limit: 1 + random(1_000), periodMs: 1 + random(100_000) };
    // whole numbers in units of 1 / limit ms: one interval is periodMs, one period is limit * periodMs
    const [limit, interval] = [BigInt(rule.limit), BigInt(rule.periodMs)];
    const period = limit * interval;
    const arrival = new Map<string, bigint>();
    for (let step = 0; step < 500; step++) {
      if (random(3) === 0) await clock.advance(random(Math.ceil(rule.periodMs / rule.limit) * 3));
      const [key, cost] = [`k${random(3)}`, BigInt(random(4))];
      const now = BigInt(clock.monotonicMs()) * limit;
      const before = arrival.get(key) ?? 0n;
      const from = before > now ? before : now;
      const after = from + cost * interval;
      const isAllowed = after - now <= period;
      if (isAllowed) arrival.set(key, after);
      const used = (isAllowed ? after : from) - now;
      const ceil = (units: bigint): number => Number((units + limit - 1n) / limit);
      assert.deepEqual(
        store.take(key, rule, Number(cost)),
        {
          isAllowed,
          remaining: Number((period - used) / interval),
          retryAfterMs: isAllowed ? 0 : cost > limit ? rule.periodMs : ceil(after - now - period),
          resetMs: ceil(used),
        },
        `seed ${seed}, step ${step}`,
      );
    }
  }
});

test('when MemoryRateLimitStore is full, it evicts the bucket that will be the first to allow its full limit again', async () => {
  const clock = new ManualClock();
  const store = new MemoryRateLimitStore({ maxBuckets: 100, clock });
  const rule = { limit: 100, periodMs: 100_000 };
  for (let index = 0; index < 100; index++) store.take(`k${index}`, rule, index === 40 ? 1 : 50);
  store.take('new', rule);
  assert.equal(store.size, 100);
  assert.equal(store.take('k0', rule, 0).remaining, 50); // the oldest bucket is still stored
  assert.equal(store.take('k41', rule, 0).remaining, 50);
  await clock.advance(100_000);
  assert.equal(store.take('k40', rule).remaining, 99);
  // the buckets that can be evicted are unused, so a new bucket inherits no used attempts
  assert.equal(store.take('fresh', rule).remaining, 99);
  assert.equal(store.size, 100);
});

test('MemoryRateLimitStore still refuses a key that has reached its limit after many attempts with other keys', () => {
  const store = new MemoryRateLimitStore({ maxBuckets: 100, clock: new ManualClock() });
  const rule = { limit: 5, periodMs: 60_000 };
  store.take('victim', rule, 5);
  // a new key is accepted, however many there are
  for (let index = 0; index < 400; index++) assert.equal(store.take(`other ${index}`, rule).isAllowed, true);
  assert.equal(store.take('victim', rule).isAllowed, false);
});

test('while every bucket of MemoryRateLimitStore is used up, a new key gets only one attempt, even if other new keys make attempts, too', async () => {
  const clock = new ManualClock();
  const store = new MemoryRateLimitStore({ maxBuckets: 100, clock });
  const rule = { limit: 5, periodMs: 60_000 };
  for (let index = 0; index < 100; index++) store.take(`filler ${index}`, rule, 5);
  let allowed = 0;
  for (let turn = 0; turn < 90; turn++) {
    await clock.advance(1);
    if (store.take('account', rule).isAllowed) allowed++;
    assert.equal(store.take(`turn ${turn}`, rule).isAllowed, true);
  }
  assert.equal(allowed, 1);
});

test('while many new keys push each other out of MemoryRateLimitStore, a key that has reached its limit gets few further attempts', async () => {
  const clock = new ManualClock();
  const store = new MemoryRateLimitStore({ maxBuckets: 100, clock });
  const rule = { limit: 5, periodMs: 600_000 };
  store.take('victim', rule, 5);
  for (let index = 0; index < 1_000; index++) {
    await clock.advance(1);
    store.take(`filler ${index}`, rule);
  }
  let allowed = 0;
  for (let index = 0; index < 2_000; index++) {
    await clock.advance(1);
    store.take(`flood ${index}`, rule);
    if (store.take('victim', rule).isAllowed) allowed++;
  }
  assert.ok(allowed <= 2_000 / 100 + 1, `${allowed}`);
});

test('as long as there are at most maxBuckets keys, MemoryRateLimitStore gives the same results as a store that evicts nothing', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const [bounded, free] = [
      new MemoryRateLimitStore({ clock, maxBuckets: 12 }),
      new MemoryRateLimitStore({ clock }),
    ];
    const rule = { limit: 4, periodMs: 4_000 };
    for (let step = 0; step < 2_000; step++) {
      if (random(4) === 0) await clock.advance(random(400));
      const key = `k${random(12)}`;
      assert.deepEqual(bounded.take(key, rule), free.take(key, rule), `seed ${seed}, step ${step}`);
    }
    for (let step = 0; step < 200; step++) bounded.take(`flood ${random(1_000)}`, rule);
    assert.equal(bounded.size, 12);
  }
});

test('MemoryRateLimitStore stores no bucket for an attempt that is refused or has the cost 0', () => {
  const store = new MemoryRateLimitStore({ clock: new ManualClock() });
  store.take('a', { limit: 1, periodMs: 1_000 }, 2);
  store.take('b', { limit: 1, periodMs: 1_000 }, 0);
  assert.equal(store.size, 0);
});

test('MemoryRoomBus calls every subscriber even if one throws, and then throws the first error', () => {
  const bus = new MemoryRoomBus();
  const got: number[] = [];
  bus.subscribe(() => {
    throw new Error('first');
  });
  bus.subscribe(() => {
    throw new Error('second');
  });
  bus.subscribe((_room, frame) => got.push(frame.length));
  assert.throws(() => bus.publish('r', new Uint8Array(3), false), { message: 'first' });
  assert.deepEqual(got, [3]);
});

test('MemoryRoomBus does not deliver a frame to subscribers that join or leave during the delivery of this frame', () => {
  const bus = new MemoryRoomBus();
  const got: string[] = [];
  bus.subscribe(() => {
    second[Symbol.dispose]();
    bus.subscribe(() => got.push('third'));
  });
  const second = bus.subscribe(() => got.push('second'));
  bus.publish('r', new Uint8Array(0), true);
  assert.deepEqual(got, []);
  bus.publish('r', new Uint8Array(0), true);
  assert.deepEqual(got, ['third']);
});
