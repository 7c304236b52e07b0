import assert from 'node:assert/strict';
import { test } from 'node:test';
import { systemClock } from '../../src/base/clock.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';

test('systemClock returns the wall-clock time in milliseconds and in microseconds, and a monotonic time', () => {
  assert.ok(Math.abs(systemClock.nowMs() - Date.now()) < 1_000);
  assert.ok(Number.isInteger(systemClock.nowMicros()));
  assert.ok(Math.abs(systemClock.nowMicros() / 1_000 - systemClock.nowMs()) < 1_000);
  const before = systemClock.monotonicMs();
  assert.ok(systemClock.monotonicMs() >= before);
});

test('systemClock.after() calls its callback once, or not at all if the returned timer is disposed before', async () => {
  const calls: string[] = [];
  const cancelled = systemClock.after(0, () => calls.push('cancelled'));
  cancelled[Symbol.dispose]();
  systemClock.after(0, () => calls.push('called'));
  await systemClock.sleep(5);
  assert.deepEqual(calls, ['called']);
});

test('systemClock.sleep() rejects with the reason of its signal if the signal aborts before or during the sleep', async () => {
  const reason = new Error('enough');
  await assert.rejects(systemClock.sleep(60_000, AbortSignal.abort(reason)), reason);
  const controller = new AbortController();
  const sleep = systemClock.sleep(60_000, controller.signal);
  controller.abort(reason);
  await assert.rejects(sleep, reason);
  await systemClock.sleep(0, new AbortController().signal);
});

test('the time of a ManualClock changes only by advance()', async () => {
  const clock = new ManualClock(5_000);
  assert.deepEqual([clock.nowMs(), clock.nowMicros(), clock.monotonicMs()], [5_000, 5_000_000, 0]);
  await clock.advance(10);
  assert.deepEqual([clock.nowMs(), clock.nowMicros(), clock.monotonicMs()], [5_010, 5_010_000, 10]);
  assert.equal(new ManualClock().nowMs(), Date.UTC(2024, 0, 1));
});

test('ManualClock.advance() runs due timers in order, each at its own time, including timers that callbacks set meanwhile', async () => {
  const clock = new ManualClock();
  const calls: string[] = [];
  const note = (name: string) => (): void => {
    calls.push(`${name} ${clock.monotonicMs()}`);
  };
  clock.after(20, note('c'));
  clock.after(10, () => {
    note('a')();
    clock.after(5, note('b'));
  });
  clock.after(20, note('d'));
  clock.after(10, note('cancelled'))[Symbol.dispose]();
  clock.after(31, note('later'));
  await clock.advance(30);
  assert.deepEqual(calls, ['a 10', 'b 15', 'c 20', 'd 20']);
  assert.equal(clock.pending, 1);
  clock.after(-5, note('past'));
  await clock.advance(0);
  assert.deepEqual(calls.slice(4), ['past 30']);
});

test('ManualClock.advance() lets code that awaits a timer run before the next timer', async () => {
  const clock = new ManualClock();
  const calls: string[] = [];
  const worker = async (): Promise<void> => {
    for (let round = 0; round < 3; round++) {
      await clock.sleep(10);
      calls.push(`slept until ${clock.monotonicMs()}`);
    }
  };
  const done = worker();
  await clock.advance(30);
  await done;
  assert.deepEqual(calls, ['slept until 10', 'slept until 20', 'slept until 30']);
});

test('if its signal aborts, ManualClock.sleep() rejects with the reason and leaves no timer', async () => {
  const clock = new ManualClock();
  const reason = new Error('enough');
  await assert.rejects(clock.sleep(10, AbortSignal.abort(reason)), reason);
  const controller = new AbortController();
  const sleep = clock.sleep(10, controller.signal);
  assert.equal(clock.pending, 1);
  controller.abort(reason);
  await assert.rejects(sleep, reason);
  assert.equal(clock.pending, 0);
  const whole = clock.sleep(10, new AbortController().signal);
  await clock.advance(10);
  await whole;
});

test('ManualClock.setWallMs() changes the wall-clock time, but not the monotonic time', async () => {
  const clock = new ManualClock();
  let calls = 0;
  clock.after(10, () => calls++);
  clock.setWallMs(0);
  assert.deepEqual([clock.nowMs(), clock.monotonicMs(), calls], [0, 0, 0]);
  await clock.advance(10);
  assert.deepEqual([clock.nowMs(), clock.monotonicMs(), calls], [10, 10, 1]);
});

test('systemClock.nowMicros() is monotonic, but follows when the clock of the system is set', (t) => {
  const now = Date.now;
  t.after(() => {
    Date.now = now;
    systemClock.nowMicros();
  });
  let last = systemClock.nowMicros();
  for (let round = 0; round < 1_000; round++) {
    const next = systemClock.nowMicros();
    assert.ok(next >= last);
    last = next;
  }
  Date.now = () => now() + 3_600_000;
  assert.ok(Math.abs(systemClock.nowMicros() / 1_000 - now() - 3_600_000) < 1_000);
  Date.now = now;
  assert.ok(Math.abs(systemClock.nowMicros() / 1_000 - now()) < 1_000);
});
