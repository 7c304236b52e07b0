/**
 * Stores in Redis that all processes share: the contract of each interface, and behaviour that only Redis
 * has.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import { systemClock } from '../../../src/base/clock.ts';
import {
  MemoryRateLimitStore,
  Redis,
  RedisCache,
  RedisRateLimitStore,
  RedisRecordStore,
  RedisRoomBus,
  StoreFull,
} from '../../../src/db/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { cacheBackendContract } from '../../contract/cache-backend.ts';
import { fault } from '../../contract/database.ts';
import { rateLimitStoreContract } from '../../contract/rate-limit-store.ts';
import { recordStoreContract } from '../../contract/record-store.ts';
import { roomBusContract } from '../../contract/room-bus.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RedisServer, needsRedis, redisProblem, sharedRedis } from '../../support/redis-server.ts';
import { travel } from '../../support/redis-time.ts';

const problem = redisProblem();

/** Returns a client of an empty server. */
async function emptied(): Promise<Redis> {
  const redis = await new Redis((await sharedRedis()).url).open();
  await redis.command(['FLUSHALL']);
  return redis;
}

async function opened(t: TestContext): Promise<Redis> {
  const redis = await emptied();
  t.after(() => redis.close());
  return redis;
}

const until = async (isSo: () => boolean): Promise<void> => {
  while (!isSo()) await systemClock.sleep(2);
};

if (problem !== undefined)
  test(
    'RedisCache, RedisRecordStore, RedisRateLimitStore and RedisRoomBus pass the contract tests for their kinds of store',
    { skip: problem },
    () => undefined,
  );
else {
  for (const encoding of ['clone', 'json'] as const) {
    cacheBackendContract(`RedisCache (${encoding})`, async () => {
      const redis = await emptied();
      return {
        cache: new RedisCache(redis, { encoding, timeoutMs: 5_000 }),
        pass: (ms) => travel(redis, ms),
        close: () => redis.close(),
      };
    });
  }
  recordStoreContract('RedisRecordStore', async () => {
    const redis = await emptied();
    return {
      store: new RedisRecordStore(redis),
      pass: (ms) => travel(redis, ms),
      close: () => redis.close(),
    };
  });
  rateLimitStoreContract('RedisRateLimitStore', async () => {
    const redis = await emptied();
    return {
      store: new RedisRateLimitStore(redis, { timeoutMs: 5_000 }),
      pass: (ms) => travel(redis, ms),
      toleranceMs: 250,
      close: () => redis.close(),
    };
  });
  roomBusContract('RedisRoomBus', async () => {
    const [one, two] = [await emptied(), await emptied()];
    const [here, there] = [new RedisRoomBus(one), new RedisRoomBus(two)];
    return {
      here,
      there,
      settle: async () => {
        await Promise.all([here.settled(), there.settled()]);
        await Promise.all([one.ping(), two.ping()]); // earlier frames have arrived
        await systemClock.sleep(20); // subscribers on their way send no reply
      },
      close: async () => {
        await Promise.all([one.close(), two.close()]);
      },
    };
  });
}

test('RedisRateLimitStore makes the same decisions as MemoryRateLimitStore', async (t) => {
  if (!needsRedis(t)) return;
  const redis = await opened(t);
  const clock = new ManualClock();
  const [ours, reference, random] = [
    new RedisRateLimitStore(redis, { timeoutMs: 5_000 }),
    new MemoryRateLimitStore({ clock }),
    seeded(4),
  ];
  // one token in ten seconds, so the duration of the test is negligible
  const rule = { limit: 10, periodMs: 100_000 };
  for (let step = 0; step < 200; step++) {
    const cost = random(4);
    const [mine, theirs] = [await ours.take('k', rule, cost), reference.take('k', rule, cost)];
    assert.deepEqual([mine.isAllowed, mine.remaining], [theirs.isAllowed, theirs.remaining], `step ${step}`);
    assert.ok(
      Math.abs(mine.retryAfterMs - theirs.retryAfterMs) < 5_000 &&
        Math.abs(mine.resetMs - theirs.resetMs) < 5_000,
    );
    const ms = random(3) * 10_000;
    clock.advance(ms);
    await travel(redis, ms);
    if (step % 10 === 9) {
      // the duration of the test does not accumulate
      await travel(redis, 200_000);
      clock.advance(200_000);
    }
  }
});

test('RedisRateLimitStore allows exactly as many requests as the limit, however many clients call it at the same time', async (t) => {
  if (!needsRedis(t)) return;
  const clients = await Promise.all(Array.from({ length: 4 }, () => opened(t)));
  const stores = clients.map((redis) => new RedisRateLimitStore(redis, { timeoutMs: 5_000 }));
  const results = await Promise.all(
    Array.from({ length: 200 }, (_, index) =>
      stores[index % 4]!.take('crowd', { limit: 50, periodMs: 3_600_000 }),
    ),
  );
  assert.equal(results.filter(({ isAllowed }) => isAllowed).length, 50);
});

test('RedisRecordStore keeps long keys, and keys with lone surrogates, apart from all other keys', async (t) => {
  if (!needsRedis(t)) return;
  const redis = await opened(t);
  const store = new RedisRecordStore(redis);
  const long = 'x'.repeat(5_000);
  const keys = [
    long,
    `${long}y`,
    'x'.repeat(200),
    'x'.repeat(201),
    '\ud800',
    '\ud801',
    '\ufffd',
    'é'.repeat(100),
    'é'.repeat(101),
  ];
  for (const key of keys) assert.equal(await store.add(key, key.length.toString(), 60_000), true);
  for (const key of keys) assert.equal(await store.get(key), key.length.toString());
  const kept = (await redis.command(['KEYS', '*'])) as string[];
  assert.ok(kept.every((key) => Buffer.byteLength(key) < 300));
  for (const key of kept)
    assert.equal(
      await store.add(key.slice('svc:record:'.length), 'forged', 60_000),
      !key.includes('\0#') ? false : true,
      'one that looks like a digest is another',
    );
  for (const key of keys) assert.equal(await store.get(key), key.length.toString());
});

test('RedisCache stores structured clones, and reports a miss for a value that it cannot read', async (t) => {
  if (!needsRedis(t)) return;
  const redis = await opened(t);
  const cache = new RedisCache(redis, { timeoutMs: 5_000, maxValueBytes: 1_000 });
  const value = {
    at: new Date(5),
    list: new Map([[1, new Set(['a'])]]),
    bytes: Uint8Array.of(1, 2),
    big: 5n,
  };
  await cache.set('k', value, 60_000);
  assert.deepEqual(await cache.get('k'), value);
  await redis.command(['SET', 'svc:cache:k', 'not ours']);
  assert.equal(await cache.get('k'), undefined);
  await cache.set('k', 'x'.repeat(2_000), 60_000);
  assert.equal(await cache.get('k'), undefined, 'too large, and what was there is gone');
  const long = 'user:'.repeat(100);
  await cache.set(`${long}1`, 1, 60_000);
  await cache.clear(long);
  assert.equal(await cache.get(`${long}1`), undefined);
  await assert.rejects(async () => cache.set('f', () => 1, 1_000));
});

test('when the Redis server has no memory left, RedisRecordStore throws StoreFull and keeps existing records', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t, ['--maxmemory', '3mb', '--maxmemory-policy', 'noeviction']);
  await using redis = await new Redis(server.url).open();
  const store = new RedisRecordStore(redis, { timeoutMs: 5_000 });
  await store.set('first', 'kept', 60_000);
  const filled = (write: (count: number) => Promise<unknown>) =>
    assert.rejects(async () => {
      for (let count = 0; count < 100; count++) await write(count);
    }, StoreFull); // the server's own memory varies
  await filled((count) => store.add(`${count}`, 'x'.repeat(100_000), 60_000));
  await filled((count) => store.set(`more ${count}`, 'x'.repeat(10_000), 60_000));
  await filled(() => store.replace('first', 'kept', 'kept', 60_000));
  assert.equal(await store.get('first'), 'kept');
  assert.equal(await store.delete('first'), true);
});

test('while Redis is unavailable, RedisRoomBus delivers frames only in its own process, and afterwards to all processes again', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t);
  const { logger } = collectedLog();
  const [one, two] = await Promise.all([
    new Redis(server.url, { log: logger }).open(),
    new Redis(server.url, { log: logger }).open(),
  ]);
  t.after(() => Promise.all([one.close(), two.close()]));
  const [here, there] = [new RedisRoomBus(one), new RedisRoomBus(two)];
  let lost = 0;
  one.observe(
    {
      onEvent: (kind) => {
        if (kind === 'frames_lost') lost++;
      },
    },
    logger,
    undefined,
  );
  const got = { here: 0, there: 0 };
  using _a = here.subscribe(() => got.here++);
  using _b = there.subscribe(() => got.there++);
  await Promise.all([here.settled(), there.settled()]);
  here.publish('r', Uint8Array.of(1), false);
  await until(() => got.there === 1);
  await server.kill();
  await until(() => !one.isConnected);
  here.publish('r', Uint8Array.of(2), false);
  assert.equal(got.here, 2);
  await until(() => lost === 1);
  await server.start();
  await until(() => one.isConnected);
  // both have subscribed again
  while ((await one.publish('svc:rooms', 'not a frame').catch(() => 0)) < 2) await systemClock.sleep(5);
  here.publish('r', Uint8Array.of(3), false);
  await until(() => got.there === 2);
  assert.equal(got.here, 3);
});

test('RedisCache, RedisRecordStore, RedisRateLimitStore and RedisRoomBus refuse invalid options', () => {
  const redis = new Redis('redis://h');
  for (const make of [
    () => new RedisCache(redis, { ttl: 1 } as never),
    () => new RedisRecordStore(redis, { encoding: 'json' } as never),
    () => new RedisRateLimitStore(redis, { maxBuckets: 1 } as never),
    () => new RedisRoomBus(redis, { room: 'x' } as never),
  ])
    assert.throws(make, fault('E_OPTION_UNKNOWN'));
  for (const make of [
    () => new RedisCache(redis, { prefix: '' }),
    () => new RedisRecordStore(redis, { timeoutMs: 0 }),
    () => new RedisCache(redis, { encoding: 'xml' as never }),
  ])
    assert.throws(make, fault('E_OPTION_RANGE'));
});
