/** settling(): the time limit for loading and starting an application. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { settling } from '../../src/cli/command.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';

test('settling() prints once, after 5 seconds, that a promise has not settled, and rejects at its deadline', async (t) => {
  const clock = new ManualClock();
  const written: unknown[] = [];
  t.mock.method(process.stderr, 'write', (text: unknown) => written.push(text) > 0);
  const pending = settling(
    new Promise(() => undefined),
    'src/app.ts',
    () => 'a top-level await',
    30_000,
    clock,
  );
  clock.advance(4_999);
  assert.deepEqual(written, []);
  clock.advance(1);
  assert.deepEqual(written, [
    'svc: still waiting for src/app.ts after 5 seconds: a top-level await has not ended\n',
  ]);
  clock.advance(25_000);
  await assert.rejects(pending, { code: 'E_LOAD' });
  assert.deepEqual([written.length, clock.pending], [1, 0]);
});

test('settling() prints nothing and starts no timer if the promise is already settled', async () => {
  const clock = new ManualClock();
  assert.equal(await settling(Promise.resolve(7), 'src/app.ts', () => 'a startup hook', undefined, clock), 7);
  assert.equal(clock.pending, 0);
});
