import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SvcError } from '../../src/base/errors.ts';
import { MemoryCache } from '../../src/cache/cache.ts';
import { cached } from '../../src/cache/cached.ts';
import { createLogger } from '../../src/observability/log.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { ROOT } from '../support/build.ts';
import { seeded } from '../support/random.ts';
import { run } from '../support/run.ts';
import { turn } from '../support/turn.ts';
import type { CachedOptions } from '../../src/cache/cached.ts';
import type { Logger } from '../../src/observability/log.ts';
import type { CacheBackend } from '../../src/cache/stores.ts';

interface User {
  id: number;
  tags: string[];
}

/** Returns a function whose calls the test settles. */
function manual<A extends readonly unknown[], R>() {
  const calls: { args: A; resolve(value: R): void; reject(error: unknown): void }[] = [];
  const fn = (...args: A): Promise<R> => {
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    calls.push({ args, resolve, reject });
    return promise;
  };
  return { fn, calls };
}

/** A cache across a network: every result is a promise, and values are sent as JSON. */
class RemoteCache implements CacheBackend {
  readonly values: MemoryCache;
  failing: Error | undefined;
  /** Each operation waits for this promise. */
  gate: Promise<unknown> = Promise.resolve();
  readonly seen: string[] = [];
  constructor(clock: ManualClock) {
    this.values = new MemoryCache({ clock });
  }
  async #arrive(operation: string): Promise<void> {
    this.seen.push(operation);
    await this.gate;
    if (this.failing !== undefined) throw this.failing;
  }
  async get(key: string): Promise<unknown> {
    await this.#arrive(`get ${key}`);
    const text = this.values.get(key);
    return text === undefined ? undefined : JSON.parse(text as string);
  }
  async set(key: string, value: unknown, ttlMs: number): Promise<void> {
    await this.#arrive(`set ${key}`);
    this.values.set(key, JSON.stringify(value), ttlMs);
  }
  async delete(key: string): Promise<boolean> {
    await this.#arrive(`delete ${key}`);
    return this.values.delete(key);
  }
  async clear(prefix?: string): Promise<void> {
    await this.#arrive(`clear ${prefix}`);
    this.values.clear(prefix);
  }
}

function collected(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  return {
    log: createLogger({
      format: 'json',
      sink: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>),
    }),
    lines,
  };
}

test('cached() calls the function once for each key, and returns the result again until ttlSeconds have passed', async () => {
  const clock = new ManualClock();
  let calls = 0;
  const square = cached(
    (n: number) => {
      calls++;
      return n * n;
    },
    { ttlSeconds: 30, clock },
  );
  assert.deepEqual([await square(3), await square(3), await square(4)], [9, 9, 16]);
  assert.equal(calls, 2);
  await clock.advance(29_999);
  await square(3);
  assert.equal(calls, 2);
  await clock.advance(1);
  assert.equal(await square(3), 9);
  assert.equal(calls, 3);
  assert.deepEqual(square.stats(), {
    hits: 2,
    staleHits: 0,
    negativeHits: 0,
    joined: 0,
    calls: 3,
    failures: 0,
    backendFailures: 0,
  });
});

test('cached() stores at most 10,000 results, each for 60 seconds, by default', async () => {
  const clock = new ManualClock();
  let calls = 0;
  const count = cached(
    async (n: number) => {
      calls++;
      return n;
    },
    { clock },
  );
  await count(-1);
  await clock.advance(59_999);
  await count(-1);
  assert.equal(calls, 1);
  await clock.advance(1);
  await count(-1);
  assert.equal(calls, 2);
  for (let n = 0; n < 9_999; n++) await count(n);
  calls = 0;
  await count(-1);
  assert.equal(calls, 0);
  await count(10_000); // 10,000 is one key too many, so key 0, the least recently used, is evicted
  calls = 0;
  await count(-1);
  assert.equal(calls, 0);
  await count(0);
  assert.equal(calls, 1);
});

test('cached() without the option "clock" evicts results beyond maxEntries', async () => {
  let calls = 0;
  const count = cached(
    (n: number) => {
      calls++;
      return n;
    },
    { maxEntries: 1 },
  );
  for (const n of [1, 1, 2, 1]) await count(n);
  assert.equal(calls, 3);
});

test('cached() makes one call for concurrent callers with equal arguments, and gives each caller a separate copy of the result', async () => {
  const { fn, calls } = manual<[number], User>();
  const getUser = cached(fn, { clock: new ManualClock() });
  const waiting = [getUser(7), getUser(7), getUser(7), getUser(8)];
  await turn();
  assert.equal(calls.length, 2);
  const original = { id: 7, tags: ['a'] };
  calls[0]!.resolve(original);
  calls[1]!.resolve({ id: 8, tags: [] });
  const users = await Promise.all(
    waiting.map((each) =>
      each.then((user) => {
        const seen = structuredClone(user);
        user.tags.push('changed');
        return { user, seen };
      }),
    ),
  );
  assert.deepEqual(
    users.map(({ seen }) => seen),
    [
      { id: 7, tags: ['a'] },
      { id: 7, tags: ['a'] },
      { id: 7, tags: ['a'] },
      { id: 8, tags: [] },
    ],
  );
  assert.deepEqual(original.tags, ['a']);
  assert.equal(new Set(users.map(({ user }) => user)).size, 4);
  assert.deepEqual(await getUser(7), { id: 7, tags: ['a'] });
  assert.equal(getUser.stats().joined, 2);
});

test('cached() copies results that are bytes, so a change by one caller is invisible to other callers', async () => {
  const load = cached(
    () => ({
      bytes: new Uint8Array([1, 2]),
      buffer: Buffer.from('ab'),
      view: new DataView(new ArrayBuffer(1)),
      list: new Float64Array([1]),
    }),
    { clock: new ManualClock() },
  );
  for (const got of [...(await Promise.all([load(), load()])), await load()]) {
    assert.deepEqual([...got.bytes, ...got.buffer, got.view.getInt8(0), ...got.list], [1, 2, 97, 98, 0, 1]);
    got.bytes[0] = got.buffer[0] = got.list[0] = 9;
    got.view.setInt8(0, 9);
  }
});

test('cached() with shareReferences gives all callers the same object', async () => {
  class Handle {
    call(): string {
      return 'here';
    }
  }
  const handle = new Handle();
  const get = cached(() => handle, { shareReferences: true, clock: new ManualClock() });
  assert.deepEqual(
    (await Promise.all([get(), get()])).map((each) => each === handle),
    [true, true],
  );
  assert.equal((await get()).call(), 'here');
});

test('cached() caches every kind of result, including undefined, null and lists', async () => {
  for (const staleSeconds of [0, 10]) {
    for (const value of [
      undefined,
      null,
      '',
      0,
      false,
      5n,
      [],
      [1, 2],
      ['x'],
      [1],
      [undefined],
      { a: 1 },
      new Date(5),
      new Map([[1, 2]]),
    ]) {
      const clock = new ManualClock();
      let calls = 0;
      const get = cached(
        () => {
          calls++;
          return value;
        },
        { staleSeconds, clock },
      );
      for (let count = 0; count < 3; count++) assert.deepEqual(await get(), value);
      assert.equal(calls, 1);
    }
  }
});

test('the first call of cached() rejects if the result cannot be copied', async () => {
  for (const value of [{ f: () => 1 }, () => 1, Symbol('s')]) {
    await assert.rejects(cached(() => value, { clock: new ManualClock() })(), { code: 'E_CACHE_VALUE' });
  }
});

test('if a call of the function fails, cached() rejects all waiting callers with the error, and calls the function again for the next caller', async () => {
  const failure = new Error('down');
  const { fn, calls } = manual<[], string>();
  const load = cached(fn, { clock: new ManualClock() });
  const waiting = Promise.allSettled([load(), load()]);
  calls[0]!.reject(failure);
  for (const each of await waiting) assert.equal(each.status === 'rejected' && each.reason, failure);
  const again = load();
  calls[1]!.resolve('up');
  assert.equal(await again, 'up');
  assert.equal(load.stats().failures, 1);
  const thrower = cached(
    (): string => {
      throw failure;
    },
    { clock: new ManualClock() },
  );
  await assert.rejects(thrower(), failure);
});

test('cached() stores an error for negativeTtlSeconds, and does not call the function during this time', async () => {
  const clock = new ManualClock();
  class Missing extends Error {}
  let calls = 0;
  const load = cached(
    async (): Promise<string> => {
      if (calls++ === 0) throw new Missing();
      return 'there';
    },
    { negativeTtlSeconds: 5, clock },
  );
  await assert.rejects(load(), Missing);
  await clock.advance(4_999);
  await assert.rejects(load(), Missing);
  assert.deepEqual([calls, load.stats().negativeHits], [1, 1]);
  await clock.advance(1);
  assert.equal(await load(), 'there');
  assert.equal(await load(), 'there');
  assert.equal(calls, 2);
});

test('cached.delete() and clear() delete a cached error', async () => {
  for (const forget of ['delete', 'clear'] as const) {
    let calls = 0;
    const load = cached(
      (): string => {
        if (calls++ === 0) throw new Error('first');
        return 'there';
      },
      { negativeTtlSeconds: 60, clock: new ManualClock() },
    );
    await assert.rejects(load());
    await load[forget]();
    assert.equal(await load(), 'there');
  }
});

// ── stale results ──

test('cached() with staleSeconds returns a stale result at once, and calls the function once in the background to replace the result', async () => {
  const clock = new ManualClock();
  const { fn, calls } = manual<[], string>();
  const load = cached(fn, { ttlSeconds: 10, staleSeconds: 20, clock });
  const first = load();
  calls[0]!.resolve('one');
  assert.equal(await first, 'one');
  await clock.advance(9_999);
  assert.equal(await load(), 'one');
  assert.equal(calls.length, 1);
  await clock.advance(1);
  assert.deepEqual(await Promise.all([load(), load(), load()]), ['one', 'one', 'one']);
  assert.equal(calls.length, 2);
  calls[1]!.resolve('two');
  await turn();
  assert.equal(await load(), 'two');
  assert.deepEqual(load.stats(), {
    hits: 2,
    staleHits: 3,
    negativeHits: 0,
    joined: 0,
    calls: 2,
    failures: 0,
    backendFailures: 0,
  });
});

test('cached() waits for a new call if the result is older than ttlSeconds plus staleSeconds', async () => {
  const clock = new ManualClock();
  let calls = 0;
  const load = cached(() => ++calls, { ttlSeconds: 10, staleSeconds: 20, clock });
  assert.equal(await load(), 1);
  await clock.advance(30_000);
  assert.equal(await load(), 2);
});

test('if a result becomes too old to be returned as stale while its refresh runs, cached() waits for this refresh', async () => {
  const clock = new ManualClock();
  const { fn, calls } = manual<[], string>();
  const load = cached(fn, { ttlSeconds: 10, staleSeconds: 20, clock });
  const first = load();
  calls[0]!.resolve('one');
  await first;
  await clock.advance(29_999);
  assert.equal(await load(), 'one');
  await clock.advance(1);
  const waiting = Promise.all([load(), load()]);
  assert.equal(calls.length, 2);
  calls[1]!.resolve('two');
  assert.deepEqual(await waiting, ['two', 'two']);
});

test('if a refresh fails, cached() logs the error, returns the stale result, and tries again after one second', async () => {
  const clock = new ManualClock();
  const { log, lines } = collected();
  let calls = 0;
  const load = cached(
    async () => {
      if (calls++ === 1) throw new Error('down');
      return calls;
    },
    { ttlSeconds: 10, staleSeconds: 60, name: 'numbers', log, clock },
  );
  await load();
  await clock.advance(10_000);
  assert.equal(await load(), 1);
  await turn();
  assert.equal(await load(), 1);
  assert.equal(calls, 2);
  assert.deepEqual(
    lines.map(({ event, cache }) => [event, cache]),
    [['cache_refresh_failed', 'numbers']],
  );
  await clock.advance(1_000);
  assert.equal(await load(), 1);
  await turn();
  assert.deepEqual([await load(), calls], [3, 3]);
});

test('cached() returns a stale result to a caller with a signal, and an abort of this signal does not abort the refresh', async () => {
  const clock = new ManualClock();
  const { fn, calls } = manual<[AbortSignal], string>();
  const load = cached(fn, { ttlSeconds: 10, staleSeconds: 20, clock });
  const caller = new AbortController();
  const first = load(caller.signal);
  calls[0]!.resolve('one');
  await first;
  await clock.advance(10_000);
  assert.equal(await load(caller.signal), 'one');
  caller.abort();
  assert.equal(calls[1]!.args[0].aborted, false);
  calls[1]!.resolve('two');
  await turn();
  assert.equal(await load(new AbortController().signal), 'two');
});

// ── deleting ──

test('cached.delete() deletes only the result for the given arguments, and returns whether there was a result', async () => {
  let calls = 0;
  const load = cached(
    (n: number) => {
      calls++;
      return n;
    },
    { clock: new ManualClock() },
  );
  await load(1);
  await load(2);
  assert.deepEqual([await load.delete(1), await load.delete(1)], [true, false]);
  await load(1);
  await load(2);
  assert.equal(calls, 3);
});

test('the result of a call that runs during cached.delete() or clear() is not stored', async () => {
  for (const forget of ['delete', 'clear'] as const) {
    const { fn, calls } = manual<[], string>();
    const load = cached(fn, { clock: new ManualClock() });
    const before = load();
    await load[forget]();
    const after = load();
    assert.equal(calls.length, 2);
    calls[0]!.resolve('old');
    assert.equal(await before, 'old');
    const joined = load();
    calls[1]!.resolve('new');
    assert.deepEqual([await after, await joined, await load()], ['new', 'new', 'new']);
    assert.equal(calls.length, 2);
  }
});

test('the error of a call that runs during cached.delete() is not stored', async () => {
  const { fn, calls } = manual<[], string>();
  const load = cached(fn, { negativeTtlSeconds: 60, clock: new ManualClock() });
  const before = load();
  await load.delete();
  calls[0]!.reject(new Error('old'));
  await assert.rejects(before, /old/);
  const after = load();
  calls[1]!.resolve('new');
  assert.equal(await after, 'new');
});

test('if several cached functions share a backend, clear() of one function deletes only its own results', async () => {
  const backend = new MemoryCache({ clock: new ManualClock() });
  let calls = 0;
  const one = cached(() => ++calls, { backend, name: 'one' });
  const two = cached(() => ++calls, { backend, name: 'two' });
  assert.deepEqual([await one(), await two()], [1, 2]);
  await one.clear();
  assert.deepEqual([await one(), await two()], [3, 2]);
});

// ── backends ──

test('cached() calls the function once while an asynchronous backend is still reading or writing', async () => {
  const clock = new ManualClock();
  const backend = new RemoteCache(clock);
  const { fn, calls } = manual<[number], User>();
  const getUser = cached(fn, { backend, name: 'user', clock });
  const gate = Promise.withResolvers<void>();
  backend.gate = gate.promise;
  const early = [getUser(1), getUser(1)];
  await turn();
  assert.equal(calls.length, 0);
  gate.resolve();
  await turn();
  const writing = Promise.withResolvers<void>();
  backend.gate = writing.promise;
  calls[0]!.resolve({ id: 1, tags: [] });
  const users = await Promise.all(early);
  await turn();
  const late = await getUser(1); // the result is not written yet
  assert.equal(calls.length, 1);
  writing.resolve();
  await turn();
  users.push(late, ...(await Promise.all([getUser(1), getUser(1)])));
  assert.equal(calls.length, 1);
  assert.equal(new Set(users).size, 5);
  for (const user of users) assert.deepEqual(user, { id: 1, tags: [] });
  assert.deepEqual(backend.seen, ['get user:1', 'set user:1', 'get user:1']);
  assert.deepEqual(getUser.stats(), {
    hits: 1,
    staleHits: 0,
    negativeHits: 0,
    joined: 3,
    calls: 1,
    failures: 0,
    backendFailures: 0,
  });
});

test('cached() can store undefined and lists in a backend that supports only JSON', async () => {
  for (const value of [undefined, [1, 'a'], []]) {
    const clock = new ManualClock();
    let calls = 0;
    const load = cached(
      () => {
        calls++;
        return value;
      },
      { backend: new RemoteCache(clock), name: 'n', clock },
    );
    await load();
    await turn();
    assert.deepEqual(await load(), value);
    assert.equal(calls, 1);
  }
});

test('cached.delete() waits for a running write, so that no result is written afterwards', async () => {
  const clock = new ManualClock();
  const backend = new RemoteCache(clock);
  const load = cached(() => 'old', { backend, name: 'n', clock });
  const gate = Promise.withResolvers<void>();
  const first = load();
  await turn();
  assert.equal(await first, 'old');
  await turn();
  await load.clear();
  backend.seen.length = 0;
  const next = load();
  backend.gate = gate.promise;
  assert.equal(await next, 'old');
  const deleted = load.delete();
  await turn();
  assert.deepEqual(backend.seen, ['get n:', 'set n:']);
  gate.resolve();
  assert.equal(await deleted, true);
  assert.deepEqual(backend.seen, ['get n:', 'set n:', 'delete n:']);
});

test('if the backend fails, cached() calls the function, counts the failures, and logs at most one failure per minute', async () => {
  const clock = new ManualClock();
  const { log, lines } = collected();
  const backend = new RemoteCache(clock);
  backend.failing = new Error('connection refused');
  let calls = 0;
  const load = cached(() => ++calls, { backend, name: 'n', log, clock });
  assert.deepEqual([await load(), calls], [1, 1]);
  await turn();
  assert.deepEqual([await load(), calls], [2, 2]);
  await turn();
  assert.equal(load.stats().backendFailures, 4);
  assert.equal(lines.length, 1);
  assert.deepEqual(
    [lines[0]!['event'], lines[0]!['cache'], lines[0]!['operation']],
    ['cache_backend_failed', 'n', 'get'],
  );
  await clock.advance(60_000);
  await load();
  assert.equal(lines.length, 2);
  assert.equal(lines[1]!['failures'], 5);
  // a failed delete() leaves an old result in the cache, so its caller gets the error
  await assert.rejects(load.delete(), /connection refused/);
  await assert.rejects(load.clear(), /connection refused/);
});

test('if a mistake in the program makes the backend fail, cached() rejects and does not call the function', async () => {
  const { log, lines } = collected();
  const mistake = new SvcError('E_DB_NESTED', ['a statement']);
  const refuse = (): never => {
    throw mistake;
  };
  const refusing: CacheBackend = { get: refuse, set: refuse, delete: refuse, clear: refuse };
  const remote = new RemoteCache(new ManualClock());
  remote.failing = mistake;
  const writing: CacheBackend = { ...refusing, get: () => undefined };
  let calls = 0;
  for (const [backend, called] of [
    [refusing, 0],
    [remote, 0],
    [writing, 1],
  ] as const) {
    calls = 0;
    const load = cached(() => ++calls, { backend, name: 'n', log, clock: new ManualClock() });
    await assert.rejects(load(), mistake);
    assert.equal(calls, called);
  }
  assert.deepEqual(lines, []);
});

test('if a mistake in the program makes an asynchronous write fail, cached() returns the result, and logs the mistake', async () => {
  const { log, lines } = collected();
  const backend: CacheBackend = {
    get: () => undefined,
    set: () => Promise.reject(new SvcError('E_DB_NESTED', ['a statement'])),
    delete: () => false,
    clear: () => undefined,
  };
  const load = cached(() => 1, { backend, name: 'n', log, clock: new ManualClock() });
  assert.equal(await load(), 1);
  await turn();
  assert.deepEqual(
    lines.map(({ event, operation }) => [event, operation]),
    [['cache_backend_failed', 'set']],
  );
});

test('if the backend throws synchronously, cached() calls the function as if nothing were stored', async () => {
  const { log } = collected();
  const refuse = (): never => {
    throw new Error('broken');
  };
  const load = cached(() => 1, {
    backend: { get: refuse, set: refuse, delete: refuse, clear: refuse },
    name: 'n',
    log,
    clock: new ManualClock(),
  });
  assert.deepEqual([await load(), await load()], [1, 1]);
  assert.equal(load.stats().backendFailures, 4);
});

test('cached() waits at most backendTimeoutMs for a backend', async () => {
  const clock = new ManualClock();
  const { log, lines } = collected();
  const backend = new RemoteCache(clock);
  backend.gate = new Promise(() => {});
  let calls = 0;
  const load = cached(() => ++calls, { backend, name: 'n', backendTimeoutMs: 50, log, clock });
  const waiting = load();
  await clock.advance(49);
  assert.equal(calls, 0);
  await clock.advance(1);
  assert.equal(await waiting, 1);
  assert.equal(await load(), 1); // the write has not finished yet
  await clock.advance(50);
  assert.equal(load.stats().backendFailures, 2);
  void load();
  await clock.advance(50);
  assert.equal(calls, 2);
  assert.match(JSON.stringify(lines[0]), /did not respond within 50 ms/);
  const deleted = assert.rejects(load.delete(), /within 50 ms/);
  await clock.advance(200);
  await deleted;
  assert.equal(clock.pending, 0);
});

test('cached() ignores values in the backend that were not written by cached()', async () => {
  for (const stored of [['x', 1], [1, 2, 3], []]) {
    const backend = new MemoryCache({ clock: new ManualClock() });
    backend.set('n:', stored, 1_000);
    assert.equal(await cached(() => 'own', { backend, name: 'n' })(), 'own');
  }
});

// ── signals ──

test('if the AbortSignal of one caller aborts, cached() rejects that caller only, and the other callers still get the result', async () => {
  const { fn, calls } = manual<[number, AbortSignal?], string>();
  const load = cached(fn, { clock: new ManualClock() });
  const [one, two] = [new AbortController(), new AbortController()];
  const first = load(1, one.signal);
  const second = load(1, two.signal);
  assert.equal(calls.length, 1);
  assert.notEqual(calls[0]!.args[1], one.signal);
  one.abort(new Error('left'));
  await assert.rejects(first, /left/);
  assert.equal(calls[0]!.args[1]!.aborted, false);
  calls[0]!.resolve('done');
  assert.equal(await second, 'done');
  assert.equal(await load(1), 'done');
  assert.equal(calls.length, 1);
});

test('cached() aborts a call of the function when all of its callers have aborted, and the next caller starts a new call', async () => {
  const { fn, calls } = manual<[AbortSignal], string>();
  const load = cached(fn, { negativeTtlSeconds: 60, clock: new ManualClock() });
  const [one, two] = [new AbortController(), new AbortController()];
  const waiting = Promise.allSettled([load(one.signal), load(two.signal)]);
  one.abort();
  two.abort(new Error('both left'));
  assert.deepEqual(
    (await waiting).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  assert.match(String(calls[0]!.args[0].reason), /both left/);
  const next = load(new AbortController().signal);
  assert.equal(calls.length, 2);
  calls[0]!.reject(calls[0]!.args[0].reason);
  calls[1]!.resolve('second');
  assert.equal(await next, 'second');
});

test('cached() does not abort a call of the function while a caller without a signal waits for the call', async () => {
  const { fn, calls } = manual<[AbortSignal?], string>();
  const load = cached(fn, { clock: new ManualClock() });
  const one = new AbortController();
  const waiting = Promise.allSettled([load(one.signal), load()]);
  one.abort();
  assert.equal(calls[0]!.args[0]!.aborted, false);
  calls[0]!.resolve('done');
  assert.deepEqual(
    (await waiting).map(({ status }) => status),
    ['rejected', 'fulfilled'],
  );
});

test('cached() rejects a caller whose signal is already aborted, and does not call the function', async () => {
  const { fn, calls } = manual<[AbortSignal], string>();
  await assert.rejects(
    cached(fn, { clock: new ManualClock() })(AbortSignal.abort(new Error('gone'))),
    /gone/,
  );
  assert.equal(calls.length, 0);
});

test('cached() rejects a caller with the error of the function, also if the caller has a signal', async () => {
  const load = cached(
    (_signal: AbortSignal): string => {
      throw new Error('down');
    },
    { clock: new ManualClock() },
  );
  await assert.rejects(load(new AbortController().signal), /down/);
});

test('while "maxFlights" calls run, cached() does not share further calls between callers, and does not refresh stale results', async () => {
  const clock = new ManualClock();
  const { fn, calls } = manual<[number], number>();
  const load = cached(fn, { maxFlights: 1, ttlSeconds: 1, staleSeconds: 60, clock });
  const warm = load(5);
  calls.pop()!.resolve(5);
  await warm;
  await clock.advance(1_000);
  const waiting = [load(1), load(2), load(2), load(1)];
  assert.equal(await load(5), 5);
  assert.deepEqual(
    calls.map(({ args }) => args[0]),
    [1, 2, 2],
  );
  for (const { args, resolve } of calls) resolve(args[0]);
  assert.deepEqual(await Promise.all(waiting), [1, 2, 2, 1]);
});

// ── keys ──

test('cached() stores a result under the key that the option "key" returns', async () => {
  let calls = 0;
  const load = cached(
    (user: { id: number; call(): void }) => {
      calls++;
      return user.id;
    },
    { key: (user) => `${user.id}`, clock: new ManualClock() },
  );
  const call = (): void => undefined;
  await load({ id: 1, call });
  await load({ id: 1, call });
  assert.equal(calls, 1);
  assert.equal(await load.delete({ id: 1, call }), true);
  await assert.rejects(cached(() => 1, { key: () => 5 as unknown as string })(), {
    code: 'E_CACHED_KEY',
    message: /the function of the option "key" returned 5,/,
  });
  await assert.rejects(
    cached(() => 1, {
      key: () => {
        throw new RangeError('own');
      },
    })(),
    RangeError,
  );
});

test('cached() refuses arguments from which it cannot make a key, and the error suggests the option "key"', async () => {
  const load = cached((..._args: unknown[]) => 1, { clock: new ManualClock() });
  class Point {
    x = 1;
  }
  const cycle: { self?: unknown } = {};
  cycle.self = cycle;
  for (const [args, message] of [
    [[() => 1], /argument 1 is a function/],
    [[1, Symbol('s')], /argument 2 is a symbol/],
    [[{ a: [0, new Point()] }], /argument 1\.a\[1\] is an instance of Point/],
    [[cycle], /is cyclic, or is nested deeper than 32 levels/],
    [[new Map()], /an instance of Map/],
    [[{ [Symbol('s')]: 1 }], /whose key is a symbol/],
    [[Object.create({ inherited: 1 })], /an instance of Object/],
    [[Object.create(Object.create(null))], /a class without a name/],
  ] as const) {
    await assert.rejects(load(...args), { code: 'E_CACHED_KEY', message, remedy: /option "key"/ });
  }
  await assert.rejects(
    load({
      get a() {
        throw new RangeError('own');
      },
    }),
    RangeError,
  );
});

test('cached() gives different arguments different keys, and ignores the order of object members', async () => {
  let calls = 0;
  const load = cached((..._args: unknown[]) => ++calls, { clock: new ManualClock() });
  const different: unknown[][] = [
    [],
    [undefined],
    [null],
    [undefined, undefined],
    [0],
    [-0],
    [1],
    ['1'],
    [1n],
    ['1n'],
    [true],
    ['true'],
    [NaN],
    ['NaN'],
    [Infinity],
    [1, 2],
    ['1,2'],
    [[1, 2]],
    [[1], 2],
    ['u'],
    ['null'],
    [{}],
    [[]],
    [{ a: 1 }],
    [{ a: '1' }],
    [{ a: 1, b: undefined }],
    [{ 'a":1,"b': 1 }],
    [new Date(1)],
    ['d1'],
    [new Date(NaN)],
    [new Uint8Array([1])],
    ['b"AQ=="'],
    ['a', 'b'],
    ['a","b'],
    ['\ud800'],
    ['\ud801'],
    ['x'.repeat(300)],
    ['x'.repeat(301)],
    ['\ud800'.repeat(300)],
    ['\ud801'.repeat(300)],
    [new Uint8Array(300)],
    [['x'.repeat(300)]],
  ];
  const results = [];
  for (const args of different) results.push(await load(...args));
  assert.equal(new Set(results).size, different.length);
  for (const [index, args] of different.entries())
    assert.equal(await load(...structuredClone(args)), results[index], `arguments ${index}`);
  assert.equal(await load({ b: undefined, a: 1 }), await load({ a: 1, b: undefined }));
  assert.equal(await load(Buffer.from([1])), await load(new Uint8Array([1])));
  assert.equal(await load(Object.assign(Object.create(null), { a: 1 })), await load({ a: 1 }));
});

test('cached() gives two generated arguments the same key only if the arguments are equal', async () => {
  const load = cached((value: unknown) => JSON.stringify(value), {
    maxEntries: 100_000,
    clock: new ManualClock(),
  });
  const random = seeded(6);
  const make = (depth: number): unknown => {
    switch (random(depth > 2 ? 5 : 7)) {
      case 0:
        return random(3);
      case 1:
        return ['', 'a', '"', ',', '\\', '":', 'null', '1'][random(8)];
      case 2:
        return null;
      case 3:
        return random(2) === 0;
      case 4:
        return [];
      case 5:
        return Array.from({ length: random(3) }, () => make(depth + 1));
      default:
        return Object.fromEntries(
          Array.from({ length: random(3) }, () => [['a', 'b', '"', 'a":1'][random(4)], make(depth + 1)]),
        );
    }
  };
  const sorted = (value: unknown): unknown =>
    Array.isArray(value)
      ? value.map(sorted)
      : value === null || typeof value !== 'object'
        ? value
        : Object.fromEntries(
            Object.entries(value)
              .sort(([one], [two]) => (one < two ? -1 : 1))
              .map(([name, member]) => [name, sorted(member)]),
          );
  for (let count = 0; count < 5_000; count++) {
    const value = make(0);
    assert.equal(JSON.stringify(sorted(JSON.parse(await load(value)))), JSON.stringify(sorted(value)));
  }
});

test('cached() refuses options that are out of range, and a backend if no name is given', () => {
  const backend = new MemoryCache({ clock: new ManualClock() });
  for (const options of [
    { ttlSeconds: 0 },
    { staleSeconds: -1 },
    { backend },
    { backend, name: 'a:b' },
    { backend, name: 'a', maxEntries: 5 },
    { backend: {} },
    { key: 'id' },
    { maxEntries: 0 },
    { maxFlights: 0 },
  ]) {
    assert.throws(() => cached(() => 1, options as unknown as CachedOptions<[]>), { code: 'E_OPTION_RANGE' });
  }
  assert.throws(() => cached(() => 1, { ttl: 5 } as CachedOptions<[]>), {
    code: 'E_OPTION_UNKNOWN',
    message: /did you mean "ttlSeconds"/,
  });
});

test('cached() writes its log to standard error if no logger is given', async () => {
  const script = `
    import { cached } from './src/cache/cached.ts';
    const refuse = () => { throw new Error('broken'); };
    console.log(await cached(() => 1, { backend: { get: refuse, set: refuse, delete: refuse, clear: refuse }, name: 'n' })());`;
  const { status, stdout, stderr } = await run(process.execPath, ['--input-type=module', '-e', script], {
    cwd: ROOT,
  });
  assert.deepEqual([status, stdout], [0, '1\n']);
  assert.match(stderr, /^\{.*"event":"cache_backend_failed","cache":"n"/);
});

test('cached() returns a function with the parameter and result types of the given function', async () => {
  const getUser = cached(
    async (id: number, deep = false): Promise<User> => ({ id, tags: deep ? ['deep'] : [] }),
    { key: (id, deep) => `${id.toFixed()} ${deep}`, clock: new ManualClock() },
  );
  const user: User = await getUser(1, true);
  assert.deepEqual(user.tags, ['deep']);
  const flag: boolean = await getUser.delete(1, true);
  assert.equal(flag, true);
  // @ts-expect-error a text is not a number
  await getUser('1').catch(() => undefined);
  const plain: number = await cached((n: number) => n)(1);
  assert.equal(plain, 1);
});
