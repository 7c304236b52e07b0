import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { currentContext, ignore, lossInJson, untilAborted, within } from '../../src/base/promises.ts';

test('within() settles like the given promise if this promise settles in time, and leaves no timer running', async () => {
  const clock = new ManualClock();
  assert.equal(await within(clock, 10, Promise.resolve('value'), ignore), 'value');
  await assert.rejects(within(clock, 10, Promise.reject(new Error('failed')), ignore), /failed/);
  assert.equal(clock.pending, 0);
});

test('if the promise does not settle within the time limit, within() settles with the result or error of its callback', async () => {
  const clock = new ManualClock();
  const never = new Promise<string>(ignore);
  const late = within(clock, 10, never, () => 'late');
  await clock.advance(10);
  assert.equal(await late, 'late');
  const failed = within(clock, 10, never, () => {
    throw new Error('no answer');
  });
  failed.catch(ignore); // the promise rejects while the clock moves
  await clock.advance(10);
  await assert.rejects(failed, /no answer/);
  assert.equal(clock.pending, 0);
});

test('untilAborted() settles like the call, or rejects at once with the reason of the signal', async () => {
  const { signal } = new AbortController();
  assert.equal(await untilAborted(signal, () => Promise.resolve('value')), 'value');
  assert.equal(await untilAborted(undefined, () => Promise.resolve('value')), 'value');
  await assert.rejects(
    untilAborted(signal, () => Promise.reject(new Error('failed'))),
    /failed/,
  );
  const abort = new AbortController();
  const late = Promise.withResolvers<string>();
  const call = untilAborted(abort.signal, () => late.promise);
  const reason = new Error('enough');
  abort.abort(reason);
  late.reject(new Error('ignored'));
  await assert.rejects(call, reason);
  let calls = 0;
  await assert.rejects(
    untilAborted(abort.signal, () => Promise.resolve(calls++)),
    reason,
  );
  assert.equal(calls, 0);
});

test('currentContext() returns a function that runs callbacks in the captured AsyncLocalStorage context', () => {
  const store = new AsyncLocalStorage<string>();
  const run = store.run('captured', currentContext);
  const found = (suffix: string): string => `${store.getStore() ?? 'none'}${suffix}`;
  store.run('other', () => {
    assert.equal(run(found, '!'), 'captured!');
    assert.equal(found(''), 'other');
    const fail = (): never => {
      throw new Error('failed');
    };
    assert.throws(() => run(fail), /failed/);
    assert.equal(found(''), 'other');
  });
});

test('lossInJson() does not list the keys of arrays, because a long array has many', () => {
  const list = new Proxy([1, 2], {
    ownKeys: () => {
      throw new Error('listed');
    },
  });
  assert.equal(lossInJson(list), undefined);
  assert.match(lossInJson(new Float64Array(1)) ?? '', /^is an object of type Float64Array/);
  assert.match(lossInJson(new Map()) ?? '', /^is an object of type Map/);
});
