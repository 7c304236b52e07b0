/** Times of a store whose clock differs from the clock of the process. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { StoreClock } from '../../../src/oauth/tokens/store-clock.ts';
import { seeded } from '../../support/random.ts';
import type { ReadLogin } from '../../../src/oauth/tokens/store.ts';

const START_MS = 1_767_225_600_000;
/** Returns a read at this time of the store. The cast is safe: the login is not read. */
const read = (readAt: number, precision = 0): ReadLogin =>
  ({ readAt, precision }) as Partial<ReadLogin> as ReadLogin;

test('StoreClock: an arrival is never too early and a delivery never too late, for any difference of the clocks that is longer than a read', async () => {
  const random = seeded(55);
  for (let round = 0; round < 500; round++) {
    const skewMs = (random(2) === 0 ? -1 : 1) * (101 + random(5_000));
    const clock = new ManualClock(START_MS);
    const store = (): number => (START_MS + skewMs) * 1_000 + clock.monotonicMs() * 1_000;
    const times = new StoreClock(clock);
    for (let step = 0; step < 5; step++) {
      const arrivedMs = clock.monotonicMs();
      const arrivedAt = store();
      const beforeMs = clock.monotonicMs();
      await clock.advance(random(50));
      const precision = random(2) * 1_000;
      const found = read(precision === 0 ? store() : Math.floor(store() / 1_000) * 1_000, precision);
      await clock.advance(random(50));
      times.note(found, beforeMs);
      assert.ok(times.arrival(arrivedMs) >= arrivedAt);
      assert.ok(times.delivery(clock.monotonicMs()) <= store());
      await clock.advance(random(400));
    }
  }
});

test('StoreClock: the clock of the process says when a request arrived if it agrees with the store, however slow the read is', async () => {
  const clock = new ManualClock(START_MS);
  const times = new StoreClock(clock);
  const arrivedAt = clock.nowMicros();
  await clock.advance(60);
  const found = read(clock.nowMicros());
  await clock.advance(60);
  times.note(found, 0);
  assert.equal(times.arrival(0), arrivedAt);
  assert.equal(times.delivery(120), arrivedAt + 60_000);
});

test('StoreClock: a slow read does not widen the bounds that a quick read has set, except by the drift of the clocks', async () => {
  const clock = new ManualClock(START_MS);
  const times = new StoreClock(clock);
  const store = (): number => clock.nowMicros() + 5_000_000;
  times.note(read(store()), 0);
  await clock.advance(1_000);
  const found = read(store());
  await clock.advance(1_000);
  times.note(found, 500);
  assert.equal(times.arrival(2_000), store() + 1_000);
  assert.equal(times.delivery(2_000), store() - 1_000);
});

test('StoreClock: a read that contradicts the earlier ones replaces them, because a clock was set', async () => {
  const clock = new ManualClock(START_MS);
  const times = new StoreClock(clock);
  times.note(read(clock.nowMicros() + 5_000_000), 0);
  await clock.advance(10);
  times.note(read(clock.nowMicros() - 5_000_000), 10);
  assert.equal(times.arrival(10), clock.nowMicros() - 5_000_000);
  await clock.advance(10);
  times.note(read(clock.nowMicros() + 9_000_000), 20);
  assert.equal(times.delivery(20), clock.nowMicros() + 9_000_000);
});

for (const [what, second, arrival, delivery] of [
  ['touches the latest possible time', read(1_000, 500), 1_000, 1_000],
  ['is later than possible', read(1_001, 500), 1_501, 1_001],
  ['touches the earliest possible time', read(500, 500), 1_000, 1_000],
  ['is earlier than possible', read(499, 500), 999, 499],
] as const)
  test(`StoreClock: a read that ${what} ${what.startsWith('touches') ? 'agrees with' : 'replaces'} the earlier one`, () => {
    // the clock of the process agrees with no read
    const times = new StoreClock({ monotonicMs: () => 0, nowMicros: () => 1e15 });
    times.note(read(1_000), 0);
    times.note(second, 0);
    assert.deepEqual([times.arrival(0), times.delivery(0)], [arrival, delivery]);
  });

for (const [what, readAt, arrival, delivery] of [
  ['later', 1_400, 1_500, 1_400],
  ['earlier', -200, 600, 500],
] as const)
  test(`StoreClock: a read that is ${what} by no more than the clocks may have drifted agrees with an earlier one`, () => {
    let nowMs = 0;
    const times = new StoreClock({ monotonicMs: () => nowMs, nowMicros: () => 1e15 });
    times.note(read(1_000), 0);
    nowMs = 1_000; // 500 microseconds of drift
    times.note(read(1_000_000 + readAt, 800), nowMs);
    assert.deepEqual([times.arrival(0), times.delivery(0)], [arrival, delivery]);
  });
