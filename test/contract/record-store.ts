/**
 * Contract of every RecordStore.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import type { Awaitable, RecordStore } from '../../src/cache/stores.ts';

/** A store under test, empty, and how to let its time pass. */
export interface RecordStoreUnderTest {
  readonly store: RecordStore;
  pass(ms: number): Awaitable<void>;
  close?(): Awaitable<void>;
}

/** Registers the contract's tests for one implementation. Keys differ from test to test, so one server may serve all. */
export function recordStoreContract(
  name: string,
  make: (t: TestContext) => Awaitable<RecordStoreUnderTest | undefined>,
): void {
  function contract(does: string, run: (under: RecordStoreUnderTest) => Promise<void>): void {
    test(`${name}: ${does}`, async (t) => {
      const under = await make(t);
      if (under === undefined) return; // skipped
      try {
        await run(under);
      } finally {
        await under.close?.();
      }
    });
  }

  contract('RecordStore.get() returns undefined for an absent key', async ({ store }) => {
    assert.equal(await store.get('none'), undefined);
    assert.equal(await store.delete('none'), false);
    assert.equal(await store.replace('none', '', 'b', 1_000), false);
  });

  contract('RecordStore.get() returns the value that set() wrote last', async ({ store }) => {
    await store.set('set', 'a', 1_000);
    assert.equal(await store.get('set'), 'a');
    await store.set('set', 'b', 1_000);
    assert.equal(await store.get('set'), 'b');
  });

  contract(
    'RecordStore returns empty text, NUL, line feeds and characters such as emojis unchanged',
    async ({ store }) => {
      for (const text of ['', 'a\0b\r\nc', 'grüße 漢字 😀']) {
        await store.set(`text ${text}`, text, 1_000);
        assert.equal(await store.get(`text ${text}`), text);
      }
    },
  );

  contract(
    'RecordStore.get() returns a record until its time to live has ended, and undefined afterwards',
    async ({ store, pass }) => {
      await store.set('ttl', 'a', 1_000);
      await pass(900);
      assert.equal(await store.get('ttl'), 'a');
      await pass(200);
      assert.equal(await store.get('ttl'), undefined);
      assert.equal(await store.delete('ttl'), false);
    },
  );

  contract(
    'each write to a RecordStore starts the time to live of the record again',
    async ({ store, pass }) => {
      await store.set('anew', 'a', 1_000);
      await pass(900);
      await store.set('anew', 'b', 1_000);
      await pass(900);
      assert.equal(await store.replace('anew', 'b', 'c', 1_000), true);
      await pass(900);
      assert.equal(await store.get('anew'), 'c');
      await store.set('anew', 'd', 100);
      await pass(200);
      assert.equal(await store.get('anew'), undefined);
    },
  );

  contract('RecordStore.set() with the time to live 0 deletes the record', async ({ store }) => {
    await store.set('zero', 'a', 1_000);
    await store.set('zero', 'b', 0);
    assert.equal(await store.get('zero'), undefined);
  });

  contract(
    'when several callers call RecordStore.add() at the same time, exactly one call succeeds',
    async ({ store }) => {
      const wins = await Promise.all(
        Array.from({ length: 10 }, (_, index) => store.add('add', `${index}`, 1_000)),
      );
      assert.equal(wins.filter(Boolean).length, 1);
      assert.equal(await store.get('add'), `${wins.indexOf(true)}`);
    },
  );

  contract('after a record has expired, RecordStore.add() succeeds again', async ({ store, pass }) => {
    assert.equal(await store.add('again', 'a', 1_000), true);
    await pass(1_100);
    assert.equal(await store.replace('again', 'a', 'b', 1_000), false);
    assert.equal(await store.add('again', 'b', 1_000), true);
    assert.equal(await store.get('again'), 'b');
  });

  contract(
    'RecordStore.replace() replaces only the expected value, so exactly one of several calls at the same time succeeds',
    async ({ store }) => {
      await store.set('swap', 'a', 1_000);
      assert.equal(await store.replace('swap', 'x', 'b', 1_000), false);
      assert.equal(await store.get('swap'), 'a');
      const wins = await Promise.all(
        Array.from({ length: 10 }, (_, index) => store.replace('swap', 'a', `${index}`, 1_000)),
      );
      assert.equal(wins.filter(Boolean).length, 1);
      assert.equal(await store.get('swap'), `${wins.indexOf(true)}`);
    },
  );

  contract(
    'when several callers call RecordStore.delete() at the same time, exactly one call succeeds',
    async ({ store }) => {
      await store.set('delete', 'a', 1_000);
      const wins = await Promise.all([
        store.delete('delete'),
        store.delete('delete'),
        store.delete('delete'),
      ]);
      assert.equal(wins.filter(Boolean).length, 1);
      assert.equal(await store.get('delete'), undefined);
    },
  );

  contract('RecordStore stores each key separately, even keys such as "__proto__"', async ({ store }) => {
    for (const key of ['__proto__', 'constructor', 'toString', 'a:b', 'a'])
      assert.equal(await store.add(key, key, 1_000), true);
    for (const key of ['__proto__', 'constructor', 'toString', 'a:b', 'a'])
      assert.equal(await store.get(key), key);
  });
}
