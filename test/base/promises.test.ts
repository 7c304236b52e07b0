import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { currentContext, ignore, within } from '../../src/base/promises.ts';

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
