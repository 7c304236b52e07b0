import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Canceling } from '../../../src/db/wire/canceling.ts';
import { ConnectionLost, QueryTimeout } from '../../../src/db/errors.ts';

interface Watched {
  readonly clock: ManualClock;
  readonly canceling: Canceling;
  readonly reported: number[];
  readonly lost: Error[];
}

/** Watches a statement with a limit of 100 ms, and a server that receives `cancel`. */
function watched(cancel: () => Promise<void> = () => Promise.resolve()): Watched {
  const clock = new ManualClock(0);
  const reported: number[] = [];
  const lost: Error[] = [];
  const startedMs = clock.monotonicMs();
  const limit = { signal: undefined, deadlineMs: startedMs + 100, timeoutMs: 100 };
  const canceling = new Canceling(
    'select 1',
    limit,
    clock,
    () => {
      reported.push(clock.monotonicMs() - startedMs);
      return cancel();
    },
    (error) => void lost.push(error),
  );
  return { clock, canceling, reported, lost };
}

async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let left = ms; left > 0; left -= 50) {
    clock.advance(50);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test('while a statement does not end, the class Canceling repeats the cancellation at growing intervals, and then closes the connection', async () => {
  const { clock, canceling, reported, lost } = watched();
  canceling.begin();
  await pass(clock, 5_000);
  assert.ok(canceling.reached instanceof QueryTimeout);
  assert.deepEqual([reported, lost.length], [[100, 600, 1_600, 3_600], 0]);
  await pass(clock, 10_000);
  assert.ok(lost[0] instanceof ConnectionLost);
  assert.deepEqual([reported.length, lost.length], [4, 1]);
});

test('after a statement has ended, the class Canceling sends no cancellation, but end() waits for a cancellation that is being sent', async () => {
  let arrived: () => void = () => undefined;
  const { clock, canceling, reported, lost } = watched(
    () =>
      new Promise((resolve) => {
        arrived = resolve;
      }),
  );
  canceling.begin();
  await pass(clock, 150);
  let hasEnded = false;
  const ended = canceling.end().then(() => {
    hasEnded = true;
  });
  await pass(clock, 1_000);
  assert.equal(hasEnded, false);
  arrived();
  await ended;
  await pass(clock, 10_000);
  assert.deepEqual([reported, lost], [[100], []]);
});

test('when a statement ends after its first cancellation, the class Canceling sends no second cancellation', async () => {
  const { clock, canceling, reported, lost } = watched();
  canceling.begin();
  await pass(clock, 150);
  await canceling.end();
  await pass(clock, 10_000);
  assert.deepEqual([reported, lost, clock.pending], [[100], [], 0]);
});

test('when no cancellation can be sent to the server, the class Canceling closes the connection', async () => {
  const { clock, canceling, reported, lost } = watched(() => Promise.reject(new Error('no route')));
  canceling.begin();
  await pass(clock, 6_000);
  assert.equal(lost.length, 1);
  assert.equal(reported.length, 4);
  await canceling.end();
});

test('the class Canceling sends no cancellation for a queued statement before the server has started this statement', async () => {
  const { clock, canceling, reported } = watched();
  await pass(clock, 1_000);
  assert.deepEqual([reported, canceling.wasRequested], [[], false]);
  canceling.begin();
  assert.deepEqual([reported, canceling.wasRequested], [[1_000], true]);
  await canceling.end();
});
