/** Arrival of requests that a busy process handles late, with a manual clock and scripted turns of the event loop. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Arrivals } from '../../../src/http/server/arrivals.ts';
import type { TransportRequest } from '../../../src/http/request/request.ts';

/** Returns a request. The cast is safe: no other member is read. */
function requestOf(startedMs: number, connection: object | undefined): TransportRequest {
  return { startedMs, connection } as unknown as TransportRequest;
}

/** An event loop whose turns a test ends. */
function loop() {
  const clock = new ManualClock();
  let onEnd: (() => void) | undefined;
  const arrivals = new Arrivals({
    clock,
    atTurnEnd: (fn) => {
      onEnd = fn;
    },
  });
  return {
    clock,
    arrivals,
    passes: (ms: number): Promise<void> => clock.advance(ms),
    ends: (): void => {
      const run = onEnd;
      onEnd = undefined;
      run?.();
    },
    isWatching: (): boolean => onEnd !== undefined,
    /** Returns how long before `readMs` a request has arrived. */
    lagOf: (readMs = clock.monotonicMs()): number => readMs - arrivals.of(requestOf(readMs, {})),
  };
}

test('Arrivals: requests that a busy process reads in one turn have arrived with the first of them', async () => {
  const { lagOf, passes, ends } = loop();
  lagOf();
  ends();
  await passes(100);
  assert.equal(lagOf(), 0);
  await passes(30); // the handler of the first request
  assert.equal(lagOf(), 30);
  await passes(30);
  assert.equal(lagOf(), 60);
});

test('Arrivals: a request that arrives while the event loop is blocked has arrived when the next turn reads it', async () => {
  const { lagOf, passes, ends } = loop();
  lagOf();
  ends();
  assert.equal(lagOf(), 0);
  await passes(200); // a handler blocks the loop
  ends();
  assert.equal(lagOf(), 0);
});

test('Arrivals: a request has arrived at most 250 ms before it was read', async () => {
  const { lagOf, passes, ends } = loop();
  lagOf();
  ends();
  lagOf();
  await passes(10_000);
  assert.equal(lagOf(), 250);
});

test('Arrivals: a request whose handler begins some turns later belongs to the turn that has read it', async () => {
  const { arrivals, lagOf, passes, clock, ends } = loop();
  lagOf();
  ends();
  await passes(100);
  const firstMs = clock.monotonicMs();
  await passes(40);
  const secondMs = clock.monotonicMs();
  await passes(1);
  ends();
  await passes(5);
  assert.equal(lagOf(), 0);
  ends();
  assert.equal(arrivals.of(requestOf(firstMs, {})), firstMs);
  assert.equal(arrivals.of(requestOf(secondMs, {})), firstMs);
});

test('Arrivals: a request without a connection, or from before the record, has arrived when it was read', async () => {
  const { arrivals, lagOf, passes, clock, ends } = loop();
  await passes(50);
  assert.equal(lagOf(clock.monotonicMs() - 10), 0);
  assert.equal(lagOf(), 0, 'the turn in which the record begins may have begun before');
  ends();
  lagOf();
  await passes(50);
  const startedMs = clock.monotonicMs();
  assert.equal(arrivals.of(requestOf(startedMs, undefined)), startedMs);
  for (let turn = 0; turn < 300; turn++) ends();
  assert.equal(lagOf(startedMs), 0, 'the turn is no longer recorded');
});

test('Arrivals: turns are recorded for a second after the last request', async () => {
  const { lagOf, passes, ends, isWatching } = loop();
  assert.equal(isWatching(), false);
  lagOf();
  await passes(999);
  ends();
  assert.equal(isWatching(), true);
  lagOf();
  await passes(1_000);
  ends();
  assert.equal(isWatching(), false);
  lagOf();
  assert.equal(isWatching(), true);
});

test('Arrivals: readSockets() ends after two turns without a further request', async () => {
  const { arrivals, lagOf } = loop();
  let left = 5;
  const more = (): void => {
    lagOf();
    if (--left > 0) setImmediate(more);
  };
  more();
  await arrivals.readSockets();
  assert.equal(left, 0);
});
