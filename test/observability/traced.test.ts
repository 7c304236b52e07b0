import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import test from 'node:test';
import { traced } from '../../src/observability/traced.ts';
import type { TestContext } from 'node:test';
import type { Failable } from '../../src/observability/traced.ts';

/** A channel with a subscriber, and the events that it has received. */
function watched(t: TestContext): {
  readonly channel: ReturnType<typeof tracingChannel<unknown, object>>;
  readonly seen: string[];
} {
  const channel = tracingChannel<unknown, object>(`test:${t.name}`);
  const seen: string[] = [];
  const see =
    (name: string) =>
    ({ error }: Failable) =>
      void seen.push(error === undefined ? name : `${name} (${(error as Error).message})`);
  const subscribers = {
    start: see('start'),
    end: see('end'),
    asyncStart: see('asyncStart'),
    asyncEnd: see('asyncEnd'),
    error: see('error'),
  };
  channel.subscribe(subscribers);
  t.after(() => channel.unsubscribe(subscribers));
  return { channel, seen };
}

test('traced() publishes "start" and "end" around its callback, and returns the result of the callback', (t) => {
  const { channel, seen } = watched(t);
  assert.equal(
    traced(channel, {}, () => seen.push('work')),
    2,
  );
  assert.deepEqual(seen, ['start', 'work', 'end']);
});

test('traced() publishes the error that its callback throws, and rethrows this error', (t) => {
  const { channel, seen } = watched(t);
  assert.throws(
    () =>
      traced(channel, {}, () => {
        throw new Error('no');
      }),
    /no/,
  );
  assert.deepEqual(seen, ['start', 'error (no)', 'end (no)']);
});

test('if the callback returns a promise, traced() also publishes its settlement, and returns a promise with its value or error', async (t) => {
  const { channel, seen } = watched(t);
  assert.equal(await traced(channel, {}, async () => 5), 5);
  await assert.rejects(
    traced(channel, {}, () => Promise.reject(new Error('late'))),
    /late/,
  );
  assert.deepEqual(seen, [
    'start',
    'end',
    'asyncStart',
    'asyncEnd',
    'start',
    'end',
    'error (late)',
    'asyncStart (late)',
    'asyncEnd (late)',
  ]);
});

test('traced() treats an object whose only method is then() as a promise', async (t) => {
  const { channel, seen } = watched(t);
  const thenable = { then: (resolve: (value: number) => void) => resolve(7) };
  assert.equal(await (traced(channel, {}, () => thenable) as unknown as Promise<number>), 7);
  assert.deepEqual(seen, ['start', 'end', 'asyncStart', 'asyncEnd']);
});

test('an AsyncLocalStorage that is bound to the start channel of traced() has its value during the callback, also after an await', async (t) => {
  const { channel } = watched(t);
  const store = new AsyncLocalStorage<string>();
  channel.start.bindStore(store, (event) => (event as { name: string }).name);
  t.after(() => channel.start.unbindStore(store));
  const inner = (): Promise<string | undefined> =>
    traced(channel, { name: 'inner', error: undefined }, async () => {
      await Promise.resolve();
      return store.getStore();
    });
  const both = await traced(channel, { name: 'outer', error: undefined }, async () => [
    await inner(),
    store.getStore(),
  ]);
  assert.deepEqual(both, ['inner', 'outer']);
  assert.equal(store.getStore(), undefined);
});
