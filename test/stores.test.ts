import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../src/manual-clock.ts';
import { HTTPException, SvcError } from '../src/errors.ts';
import { MemoryRateLimitStore, MemoryRecordStore, MemoryRoomBus, StoreFull } from '../src/stores.ts';
import { rateLimitStoreContract } from './contract/rate-limit-store.ts';
import { recordStoreContract } from './contract/record-store.ts';
import { roomBusContract } from './contract/room-bus.ts';
import { seeded } from './support/random.ts';

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

test('StoreFull is an answer 503', () => {
  const error = new StoreFull();
  assert.ok(error instanceof HTTPException);
  assert.equal(error.status, 503);
  assert.equal(error.name, 'StoreFull');
  assert.deepEqual(new StoreFull('later', { headers: { 'Retry-After': '5' } }).headers, { 'Retry-After': '5' });
});

test('MemoryRecordStore refuses a record with StoreFull while all it holds are live, and loses none', () => {
  const store = new MemoryRecordStore({ maxRecords: 3, clock: new ManualClock() });
  for (const key of ['a', 'b', 'c']) store.set(key, key, 1_000);
  assert.throws(() => store.set('d', 'd', 1_000), StoreFull);
  assert.throws(() => store.add('d', 'd', 1_000), StoreFull);
  assert.equal(store.add('a', 'x', 1_000), false);
  store.set('a', 'again', 1_000);
  assert.deepEqual(['a', 'b', 'c', 'd'].map((key) => store.get(key)), ['again', 'b', 'c', undefined]);
  store.delete('b');
  store.set('d', 'd', 1_000);
  assert.equal(store.get('d'), 'd');
});

test('MemoryRecordStore makes room of what has expired, wherever it stands', async () => {
  const clock = new ManualClock();
  const store = new MemoryRecordStore({ maxRecords: 4, clock });
  store.set('long', '', 10_000);
  store.set('short', '', 100);
  store.set('longer', '', 20_000);
  store.set('longest', '', Infinity);
  await clock.advance(100);
  store.set('new', '', 1_000);
  assert.deepEqual(['long', 'short', 'longer', 'longest', 'new'].map((key) => store.get(key)), ['', undefined, '', '', '']);
});

test('MemoryRecordStore sweeps two expired records with each write, never all at once', async () => {
  const clock = new ManualClock();
  const store = new MemoryRecordStore({ clock });
  for (let index = 0; index < 100; index++) store.set(`${index}`, '', 100);
  await clock.advance(100);
  assert.equal(store.size, 100);
  store.set('new', '', 1_000);
  assert.equal(store.size, 99);
});

test('MemoryRecordStore behaves as a plain Map with deadlines does, on generated operations', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const maxRecords = 1 + random(12);
    const store = new MemoryRecordStore({ maxRecords, clock });
    const reference = new Map<string, { value: string; deadlineMs: number }>();
    const live = (key: string): string | undefined => {
      for (const [other, { deadlineMs }] of reference) if (deadlineMs <= clock.monotonicMs()) reference.delete(other);
      return reference.get(key)?.value;
    };
    for (let step = 0; step < 400; step++) {
      const [key, value, ttlMs] = [`k${random(20)}`, `v${random(3)}`, random(300)];
      const known = live(key);
      const isFull = known === undefined && ttlMs > 0 && reference.size >= maxRecords;
      const write = (): void => { if (ttlMs > 0) reference.set(key, { value, deadlineMs: clock.monotonicMs() + ttlMs }); else reference.delete(key); };
      const operation = random(6);
      if (operation === 0) await clock.advance(random(100));
      else if (operation === 1) { assert.equal(store.delete(key), reference.delete(key)); }
      else if (operation === 2) {
        const expected = `v${random(3)}`;
        assert.equal(store.replace(key, expected, value, ttlMs), known === expected);
        if (known === expected) write();
      } else if (operation === 3) {
        if (isFull) assert.throws(() => store.add(key, value, ttlMs), StoreFull);
        else { assert.equal(store.add(key, value, ttlMs), known === undefined); if (known === undefined) write(); }
      } else if (operation === 4) {
        if (isFull) assert.throws(() => store.set(key, value, ttlMs), StoreFull);
        else { store.set(key, value, ttlMs); write(); }
      }
      assert.equal(store.get(key), live(key), `seed ${seed}, step ${step}`);
      assert.ok(store.size <= maxRecords);
    }
  }
});

test('the memory stores refuse unknown options and bounds out of range', () => {
  const code = (expected: string) => (error: unknown) => error instanceof SvcError && error.code === expected;
  assert.throws(() => new MemoryRecordStore({ maxRecords: 0 }), code('E_OPTION_RANGE'));
  assert.throws(() => new MemoryRateLimitStore({ maxBuckets: 1.5 }), code('E_OPTION_RANGE'));
  assert.throws(() => new MemoryRateLimitStore({ buckets: 1 } as object), code('E_OPTION_UNKNOWN'));
});

test('MemoryRecordStore and MemoryRateLimitStore take the time of the machine, when no clock is given', () => {
  const store = new MemoryRecordStore();
  store.set('a', 'b', 60_000);
  assert.equal(store.get('a'), 'b');
  assert.equal(new MemoryRateLimitStore().take('a', { limit: 2, periodMs: 1_000 }).remaining, 1);
});

test('MemoryRateLimitStore agrees with GCRA in whole numbers, on generated attempts', async () => {
  for (let seed = 1; seed <= 30; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const store = new MemoryRateLimitStore({ clock });
    const rule = { limit: 1 + random(1_000), periodMs: 1 + random(100_000) };
    // all in units of 1 / limit ms: one interval is periodMs, one period is limit * periodMs
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
      assert.deepEqual(store.take(key, rule, Number(cost)), {
        isAllowed,
        remaining: Number((period - used) / interval),
        retryAfterMs: isAllowed ? 0 : cost > limit ? rule.periodMs : ceil(after - now - period),
        resetMs: ceil(used),
      }, `seed ${seed}, step ${step}`);
    }
  }
});

test('MemoryRateLimitStore forgets the client longest unseen, when it has as many as it may', () => {
  const store = new MemoryRateLimitStore({ maxBuckets: 100, clock: new ManualClock() });
  const rule = { limit: 2, periodMs: 1_000 };
  for (let index = 0; index < 100; index++) store.take(`k${index}`, rule, 2);
  assert.equal(store.take('k0', rule).isAllowed, false); // seen: no longer the oldest
  store.take('new', rule);
  assert.equal(store.size, 100);
  assert.equal(store.take('k0', rule).isAllowed, false);
  assert.equal(store.take('k1', rule).isAllowed, true);
  assert.equal(store.take('k2', rule).isAllowed, true);
  assert.equal(store.take('k99', rule).isAllowed, false);
});

test('MemoryRateLimitStore remembers nobody for an attempt that was refused or only looked', () => {
  const store = new MemoryRateLimitStore({ clock: new ManualClock() });
  store.take('a', { limit: 1, periodMs: 1_000 }, 2);
  store.take('b', { limit: 1, periodMs: 1_000 }, 0);
  assert.equal(store.size, 0);
});

test('MemoryRoomBus serves every subscriber, and throws the first error afterwards', () => {
  const bus = new MemoryRoomBus();
  const got: number[] = [];
  bus.subscribe(() => { throw new Error('first'); });
  bus.subscribe(() => { throw new Error('second'); });
  bus.subscribe((_room, frame) => got.push(frame.length));
  assert.throws(() => bus.publish('r', new Uint8Array(3), false), { message: 'first' });
  assert.deepEqual(got, [3]);
});

test('MemoryRoomBus hands no frame to whoever left, or came, while it went out', () => {
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
