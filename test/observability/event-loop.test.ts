import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventLoopDelay } from '../../src/observability/event-loop.ts';
import { createLogger } from '../../src/observability/log.ts';
import { createMetrics } from '../../src/observability/metrics.ts';
import { until } from '../support/endings.ts';
import type { DelayMonitor } from '../../src/observability/event-loop.ts';

const NS = 1e6;

/** A histogram with samples that the test sets. */
class WrittenMonitor implements DelayMonitor {
  samples: number[] = [];
  isEnabled = false;
  get count(): number {
    return this.samples.length;
  }
  get mean(): number {
    return (this.samples.reduce((sum, each) => sum + each, 0) / this.samples.length) * NS;
  }
  percentile(): number {
    return Math.max(...this.samples) * NS;
  }
  enable(): void {
    this.isEnabled = true;
  }
  disable(): void {
    this.isEnabled = false;
  }
  reset(): void {
    this.samples = [];
  }
}

function watched(): { delay: EventLoopDelay; monitor: WrittenMonitor; watch: Disposable } {
  const monitor = new WrittenMonitor();
  const delay = new EventLoopDelay(() => monitor);
  return { delay, monitor, watch: delay.watch() };
}

test('EventLoopDelay.recentMs() returns the mean delay of the latest 250 ms, without earlier samples', () => {
  const { delay, monitor } = watched();
  monitor.samples.push(20, 20);
  assert.equal(delay.recentMs(1_000), 0);
  monitor.samples.push(420, 220);
  assert.equal(delay.recentMs(1_200), 0); // still within the window
  assert.equal(delay.recentMs(1_250), 300);
  monitor.samples.push(20.5, 19);
  assert.equal(delay.recentMs(1_500), 0);
  assert.equal(delay.recentMs(2_000), 0); // without new samples the last mean is kept
});

test('EventLoopDelay.recentMs() returns the mean of new samples even after takePercentile() has reset the shared histogram', () => {
  const { delay, monitor } = watched();
  monitor.samples.push(20, 20, 20);
  delay.recentMs(0);
  assert.equal(delay.takePercentile(), 0);
  monitor.samples.push(120);
  assert.equal(delay.recentMs(300), 100);
  assert.equal(delay.takePercentile(), 0.1);
  assert.equal(delay.takePercentile(), 0);
});

test('EventLoopDelay stops measuring when the object from watch() is disposed', () => {
  const { delay, monitor, watch } = watched();
  monitor.samples.push(520);
  assert.equal(delay.recentMs(0), 500);
  watch[Symbol.dispose]();
  assert.deepEqual([delay.recentMs(0), delay.takePercentile(), monitor.isEnabled], [0, 0, false]);
});

test('EventLoopDelay.of() returns one shared instance for each metrics registry', () => {
  const [first, second] = [1, 2].map(() => createMetrics({ log: createLogger() }));
  assert.equal(EventLoopDelay.of(first!), EventLoopDelay.of(first!));
  assert.notEqual(EventLoopDelay.of(first!), EventLoopDelay.of(second!));
});

test('EventLoopDelay measures the delay of the event loop that synchronous work causes', async () => {
  const delay = new EventLoopDelay();
  using _watch = delay.watch();
  const wait = new Int32Array(new SharedArrayBuffer(4));
  let windowMs = 0; // each reading is in a window of its own
  await until(() => {
    Atomics.wait(wait, 0, 0, 150); // blocks the event loop once in each turn
    return delay.recentMs((windowMs += 250)) > 10;
  });
  await until(() => {
    Atomics.wait(wait, 0, 0, 150);
    return delay.takePercentile() > 0.1;
  });
});
