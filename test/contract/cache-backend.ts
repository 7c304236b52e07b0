/**
 * Contract of every CacheBackend.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Awaitable, CacheBackend } from '../../src/cache/stores.ts';

/** A cache under test, empty, and how to let its time pass. */
export interface CacheBackendUnderTest {
  readonly cache: CacheBackend;
  pass(ms: number): Awaitable<void>;
  close?(): Awaitable<void>;
}

/** Registers the contract's tests for one implementation. */
export function cacheBackendContract(name: string, make: () => Awaitable<CacheBackendUnderTest>): void {
  function contract(does: string, run: (under: CacheBackendUnderTest) => Promise<void>): void {
    test(`${name}: ${does}`, async () => {
      const under = await make();
      try {
        await run(under);
      } finally {
        await under.close?.();
      }
    });
  }

  contract('CacheBackend.get() returns undefined for an absent key', async ({ cache }) => {
    assert.equal(await cache.get('none'), undefined);
    assert.equal(await cache.delete('none'), false);
  });

  contract('CacheBackend.get() returns the JSON value that set() stored', async ({ cache }) => {
    const values = ['', 'text', 0, -1.5, true, false, null, [1, [2]], { a: { b: ['c'] } }];
    for (const [index, value] of values.entries()) {
      await cache.set(`value ${index}`, value, 1_000);
      assert.deepEqual(await cache.get(`value ${index}`), value);
    }
  });

  contract('CacheBackend.set() replaces an earlier value of the same key', async ({ cache }) => {
    await cache.set('over', { a: 1 }, 1_000);
    await cache.set('over', 'b', 1_000);
    assert.equal(await cache.get('over'), 'b');
  });

  contract('CacheBackend deletes an entry when its time to live has ended', async ({ cache, pass }) => {
    await cache.set('ttl', 'a', 1_000);
    await pass(900);
    assert.equal(await cache.get('ttl'), 'a');
    await pass(200);
    assert.equal(await cache.get('ttl'), undefined);
    assert.equal(await cache.delete('ttl'), false);
  });

  contract(
    'CacheBackend.set() deletes the entry of the key when the value is undefined or the time to live is 0',
    async ({ cache }) => {
      await cache.set('nothing', 1, 1_000);
      await cache.set('nothing', undefined, 1_000);
      assert.equal(await cache.get('nothing'), undefined);
      await cache.set('nothing', 1, 1_000);
      await cache.set('nothing', 2, 0);
      assert.equal(await cache.get('nothing'), undefined);
    },
  );

  contract('CacheBackend.delete() deletes an entry and returns true', async ({ cache }) => {
    await cache.set('delete', 1, 1_000);
    assert.equal(await cache.delete('delete'), true);
    assert.equal(await cache.get('delete'), undefined);
  });

  contract(
    'CacheBackend.clear() deletes all keys that begin with the given prefix, or all keys if no prefix is given',
    async ({ cache }) => {
      for (const key of ['user:1', 'user:2', 'user*', 'page:1']) await cache.set(key, 1, 1_000);
      await cache.clear('user:');
      assert.deepEqual(
        [
          await cache.get('user:1'),
          await cache.get('user:2'),
          await cache.get('user*'),
          await cache.get('page:1'),
        ],
        [undefined, undefined, 1, 1],
      );
      await cache.clear('user*');
      assert.deepEqual([await cache.get('user*'), await cache.get('page:1')], [undefined, 1]);
      await cache.clear();
      assert.equal(await cache.get('page:1'), undefined);
    },
  );

  contract(
    'when one caller changes an object from CacheBackend, other callers do not see the change',
    async ({ cache }) => {
      const value = { list: [1] };
      await cache.set('own', value, 1_000);
      value.list.push(2);
      const first = (await cache.get('own')) as { list: number[] };
      first.list.push(3);
      assert.deepEqual(await cache.get('own'), { list: [1] });
    },
  );
}
