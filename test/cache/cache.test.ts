import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MemoryCache } from '../../src/cache/cache.ts';
import { SvcError } from '../../src/base/errors.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { cacheBackendContract } from '../contract/cache-backend.ts';
import { seeded } from '../support/random.ts';

cacheBackendContract('MemoryCache', () => {
  const clock = new ManualClock();
  return { cache: new MemoryCache({ clock }), pass: (ms) => clock.advance(ms) };
});

test('MemoryCache with maxEntries evicts the least recently used entry when it is full', () => {
  const cache = new MemoryCache({ maxEntries: 3, clock: new ManualClock() });
  for (const key of ['a', 'b', 'c']) cache.set(key, key, 1_000);
  cache.get('a');
  cache.set('b', 'B', 1_000);
  cache.set('d', 'd', 1_000);
  assert.deepEqual(
    ['a', 'b', 'c', 'd'].map((key) => cache.get(key)),
    ['a', 'B', undefined, 'd'],
  );
  assert.equal(cache.size, 3);
});

test('MemoryCache with maxBytes evicts the least recently used entries when it is full', () => {
  const cache = new MemoryCache({ maxBytes: 4_096, clock: new ManualClock() });
  for (const key of ['a', 'b', 'c', 'd']) cache.set(key, 'x'.repeat(400), 1_000);
  assert.equal(cache.size, 4);
  cache.set('e', 'x'.repeat(700), 1_000);
  assert.deepEqual(
    ['a', 'b', 'c', 'd', 'e'].map((key) => cache.get(key) !== undefined),
    [false, false, true, true, true],
  );
  assert.ok(cache.bytes <= 4_096);
  // larger than the whole cache: the value is not stored, and the old value is removed
  cache.set('c', 'x'.repeat(5_000), 1_000);
  assert.equal(cache.get('c'), undefined);
  assert.equal(cache.get('e'), 'x'.repeat(700));
  cache.set('huge', new Uint8Array(5_000), 1_000);
  assert.equal(cache.get('huge'), undefined);
  for (const key of ['d', 'e']) cache.delete(key);
  assert.equal(cache.bytes, 0);
});

test('MemoryCache stores and returns structured clones of values', () => {
  const cache = new MemoryCache({ clock: new ManualClock() });
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  for (const value of [
    new Date(5),
    new Map([['a', new Set([1])]]),
    /x/g,
    cycle,
    [undefined],
    new Uint8Array([1, 2]),
    5n,
  ]) {
    cache.set('value', value, 1_000);
    assert.deepEqual(cache.get('value'), value);
  }
});

test('MemoryCache copies the bytes of a typed array, so callers share no memory and get no bytes of other values', () => {
  const cache = new MemoryCache({ clock: new ManualClock() });
  cache.set(
    'value',
    {
      secret: 'kept beside',
      bytes: new Uint8Array([1]),
      buffer: Buffer.from('a'),
      list: new Float64Array([1]),
      view: new DataView(new ArrayBuffer(1)),
    },
    1_000,
  );
  for (let count = 0; count < 2; count++) {
    const got = cache.get('value') as {
      bytes: Uint8Array;
      buffer: Buffer;
      list: Float64Array;
      view: DataView;
    };
    assert.deepEqual([got.bytes[0], got.buffer[0], got.list[0], got.view.getInt8(0)], [1, 97, 1, 0]);
    assert.equal(got.buffer.constructor, Buffer);
    assert.deepEqual(
      [got.bytes.buffer.byteLength, got.list.buffer.byteLength, got.view.buffer.byteLength],
      [1, 8, 1],
    );
    got.bytes[0] = got.buffer[0] = got.list[0] = 9;
    got.view.setInt8(0, 9);
  }
});

test('MemoryCache refuses values that cannot be copied, and the error suggests the option "shareReferences"', () => {
  const cache = new MemoryCache({ clock: new ManualClock() });
  for (const value of [() => 1, { f: () => 1 }, Symbol('s')]) {
    assert.throws(
      () => cache.set('f', value, 1_000),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_CACHE_VALUE' &&
        error.remedy.includes('shareReferences'),
    );
  }
});

test('MemoryCache with shareReferences returns the stored object itself', () => {
  const cache = new MemoryCache({ shareReferences: true, clock: new ManualClock() });
  const [plain, handle] = [{ list: [1] }, { f: () => 1 }];
  cache.set('plain', plain, 1_000);
  cache.set('handle', handle, 1_000);
  assert.equal(cache.get('plain'), plain);
  assert.equal(cache.get('handle'), handle);
  assert.ok(cache.bytes > 1_024);
});

test('MemoryCache never expires an entry whose lifetime is Infinity', async () => {
  const clock = new ManualClock();
  const cache = new MemoryCache({ clock });
  cache.set('a', 1, Infinity);
  await clock.advance(1e12);
  assert.equal(cache.get('a'), 1);
});

test('MemoryCache reads the clock at most once a millisecond', async () => {
  const clock = new ManualClock();
  let reads = 0;
  const cache = new MemoryCache({
    clock: {
      ...bound(clock),
      monotonicMs: () => {
        reads++;
        return clock.monotonicMs();
      },
    },
  });
  cache.set('a', 1, 1_000);
  for (let count = 0; count < 100; count++) cache.get('a');
  assert.equal(reads, 1);
  await clock.advance(1);
  cache.get('a');
  assert.equal(reads, 2);
});

test('MemoryCache uses the system clock when no clock is given', () => {
  const cache = new MemoryCache();
  cache.set('a', 1, 60_000);
  assert.equal(cache.get('a'), 1);
});

test('for generated operations, MemoryCache gives the same results as a Map whose keys are kept in order of use', async () => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed);
    const clock = new ManualClock();
    const maxEntries = 1 + random(200);
    const cache = new MemoryCache({ maxEntries, clock });
    const reference = new Map<string, { value: unknown; deadlineMs: number }>(); // in order of use, the least recently used key first
    for (let step = 0; step < 3_000; step++) {
      const key = `k${random(300)}`;
      const known = reference.get(key);
      const isLive = known !== undefined && clock.monotonicMs() < known.deadlineMs;
      const operation = random(20);
      if (operation === 0 && step % 7 === 0) await clock.advance(random(100));
      else if (operation === 1) {
        assert.equal(cache.delete(key), isLive);
        reference.delete(key);
      } else if (operation === 2 && random(30) === 0) {
        const prefix = random(4) === 0 ? '' : `k${random(30)}`;
        cache.clear(prefix);
        for (const other of [...reference.keys()]) if (other.startsWith(prefix)) reference.delete(other);
      } else if (operation < 10) {
        const [value, ttlMs] = [random(2) === 0 ? step : { step }, 1 + random(500)];
        cache.set(key, value, ttlMs);
        reference.delete(key);
        if (reference.size >= maxEntries) reference.delete(reference.keys().next().value!);
        reference.set(key, { value, deadlineMs: clock.monotonicMs() + ttlMs });
      } else {
        assert.deepEqual(cache.get(key), isLive ? known.value : undefined, `seed ${seed}, step ${step}`);
        reference.delete(key);
        if (isLive) reference.set(key, known);
      }
      assert.equal(cache.size, reference.size);
    }
    for (const key of [...reference.keys()]) cache.delete(key);
    assert.equal(cache.bytes, 0);
  }
});

function bound(clock: ManualClock) {
  return {
    nowMs: () => clock.nowMs(),
    nowMicros: () => clock.nowMicros(),
    monotonicMs: () => clock.monotonicMs(),
    after: (ms: number, fn: () => void) => clock.after(ms, fn),
    sleep: (ms: number, signal?: AbortSignal) => clock.sleep(ms, signal),
  };
}
