/**
 * Redis as a plugin of an application: start, readiness, metrics, and an unavailable server.
 */
import assert from 'node:assert/strict';
import { test, type TestContext } from 'node:test';
import {
  Depends,
  IdempotencyMiddleware,
  RateLimitMiddleware,
  SessionMiddleware,
  Svc,
  cached,
  systemClock,
} from '../../../src/index.ts';
import {
  Redis,
  RedisCache,
  RedisPlugin,
  RedisRateLimitStore,
  RedisRecordStore,
  RedisRoomBus,
  redis,
} from '../../../src/db/index.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { fault } from '../../contract/database.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RedisServer, needsRedis } from '../../support/redis-server.ts';
import type { RedisPluginOptions } from '../../../src/db/index.ts';

const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';

function site(
  t: TestContext,
  url: string,
  {
    plugin = {},
    build = () => undefined,
    env = 'test',
  }: {
    plugin?: RedisPluginOptions;
    build?: (app: Svc, plugin: RedisPlugin) => void;
    env?: 'test' | 'production';
  } = {},
) {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env, authSecret: SECRET });
  const own = new RedisPlugin(url, plugin);
  app.register(own);
  build(app, own);
  const client = new TestClient(app, { raiseErrors: false, env, clock: systemClock });
  t.after(() => client.close());
  return { app, client, events, plugin: own };
}

test('RedisPlugin provides its client to handlers, adds a check to /readyz, and exports metrics', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t);
  const { client, events } = site(t, server.url, {
    build: (app) =>
      app.get('/count', { redis: Depends(redis) }, ({ redis: own }) => own.command(['INCR', 'count'])),
  });
  assert.equal(await (await client.get('/count')).text(), '1');
  const { status, checks } = (await (await client.get('/readyz')).json()) as {
    status: string;
    checks: Record<string, { status: string }>;
  };
  assert.deepEqual([status, checks['redis']?.status], ['ready', 'up']);
  await server.kill();
  assert.equal((await client.get('/readyz')).status, 503);
  assert.equal((await client.get('/count')).status, 500);
  await server.start();
  while ((await client.get('/readyz')).status !== 200) await systemClock.sleep(10);
  assert.equal(await (await client.get('/count')).text(), '1', 'a server without files has forgotten');
  const metrics = await (await client.get('/metrics')).text();
  for (const line of [
    /svc_redis_command_seconds_count\{redis="redis"\} \d/,
    /svc_redis_events_total\{redis="redis",event="lost"\} 1/,
    /svc_redis_events_total\{redis="redis",event="connected"\} 2/,
    /svc_redis_disconnected 0/,
    /svc_redis_pending 0/,
  ])
    assert.match(metrics, line);
  for (const event of ['redis_opened', 'redis_not_reached', 'redis_reached_again'])
    assert.equal(events.filter((line) => line['event'] === event).length, 1, event);
});

test('as soon as an application with RedisRoomBus has started, it receives messages for its rooms from other processes', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t);
  await using other = new Redis(server.url);
  await other.open();
  const elsewhere = new RedisRoomBus(other);
  const plugin = new RedisPlugin(server.url);
  const app = new Svc({
    logger: collectedLog().logger,
    env: 'test',
    roomBus: new RedisRoomBus(plugin.client),
  });
  app.register(plugin);
  t.after(() => app.shutdown());
  await app.startup();
  const received = Promise.withResolvers<string>();
  app.rooms.join('tea', { deliver: (message) => received.resolve(message.payload.toString()) });
  // the format of Rooms: sender, then text
  elsewhere.publish('tea', Buffer.from(`${'o'.repeat(12)}hello`), true);
  assert.equal(await received.promise, 'hello');
});

test('while the Redis server is unreachable, an application starts only with the option "startsWithout"', async (t) => {
  const away = 'redis://127.0.0.1:1/0?connect_timeout=1';
  const strict = site(t, away);
  await assert.rejects(strict.app.startup(), fault('E_REDIS_OPEN'));
  const lenient = site(t, away, {
    plugin: { startsWithout: true },
    build: (app) => app.get('/', () => 'here'),
  });
  assert.equal(await (await lenient.client.get('/')).text(), 'here');
  assert.equal((await lenient.client.get('/readyz')).status, 503);
});

test('while Redis is unavailable, caches report misses, rate limits follow "onStoreError", and requests with sessions or idempotency keys fail within seconds', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t);
  let calls = 0;
  const { client } = site(t, server.url, {
    build: (app, { client: own }) => {
      const value = cached(async () => ++calls, {
        ttlSeconds: 60,
        backend: new RedisCache(own),
        name: 'test',
        key: () => 'k',
      });
      app.use(
        new RateLimitMiddleware({
          perMinute: 3,
          rules: [{ path: '/limited', perMinute: 3 }],
          store: new RedisRateLimitStore(own),
        }),
      );
      app.get('/cached', { rateLimit: false }, () => value());
      app.get('/limited', () => 'in');
    },
  });
  const other = site(t, server.url, {
    build: (app, { client: own }) => {
      app.use(new SessionMiddleware({ store: new RedisRecordStore(own, { prefix: 'session:' }) }));
      app.use(new IdempotencyMiddleware({ store: new RedisRecordStore(own, { prefix: 'idem:' }) }));
      app.get('/session', ({ req }) => {
        req.session.set('a', 1);
        return 'kept';
      });
      app.post('/once', () => ({ calls: ++calls }));
    },
  });
  const strict = site(t, server.url, {
    build: (app, { client: own }) => {
      app.use(
        new RateLimitMiddleware({
          perMinute: 1_000,
          onStoreError: 'refuse',
          store: new RedisRateLimitStore(own),
        }),
      );
      app.get('/', () => 'in');
    },
  });
  await strict.client.get('/'); // connects to Redis, which may take longer than the rate limit waits
  assert.equal((await strict.client.get('/')).status, 200);
  assert.deepEqual(
    [await (await client.get('/cached')).text(), await (await client.get('/cached')).text()],
    ['1', '1'],
  );
  assert.deepEqual(
    [
      (await client.get('/limited')).status,
      (await client.get('/limited')).status,
      (await client.get('/limited')).status,
      (await client.get('/limited')).status,
    ],
    [200, 200, 200, 429],
  );
  assert.equal((await other.client.get('/session')).status, 200);
  const repeat = { headers: { 'idempotency-key': 'one' }, json: {} };
  const first = await (await other.client.post('/once', repeat)).text();
  assert.equal(await (await other.client.post('/once', repeat)).text(), first);
  for (const how of ['pause', 'kill'] as const) {
    await server[how]();
    const before = calls;
    assert.equal((await client.get('/cached')).status, 200);
    assert.equal(calls, before + 1, 'a miss');
    assert.equal((await client.get('/limited')).status, 200, 'allowed blindly');
    assert.equal((await strict.client.get('/')).status, 503, 'refused blindly');
    assert.equal((await other.client.get('/session')).status, 503);
    const executed = calls;
    assert.ok(
      [500, 503].includes(
        (await other.client.post('/once', { headers: { 'idempotency-key': how }, json: {} })).status,
      ),
    );
    assert.equal(calls, executed, 'what could not be noted is not executed');
  }
});

test('in production, app.check() reports a RedisPlugin that connects to a remote server without TLS', () => {
  const rules = (url: string): string[] => {
    const app = new Svc({ logger: collectedLog().logger, env: 'production', authSecret: SECRET });
    app.register(new RedisPlugin(url));
    return app
      .check()
      .findings.filter(({ rule }) => rule !== 'SVC404')
      .map(({ rule, message }) => `${rule} ${message}`);
  };
  assert.deepEqual(
    rules('redis://:x@cache.example/0').filter((line) => line.startsWith('redis/')),
    ['redis/tls the connection to Redis has no TLS, because the address begins with redis://'],
  );
  for (const url of ['rediss://cache.example', 'redis://127.0.0.1', 'redis+unix:///run/redis.sock'])
    assert.deepEqual(
      rules(url).filter((line) => line.startsWith('redis/')),
      [],
    );
});

test('when the Redis server is configured to evict keys, RedisPlugin logs a warning with the eviction policy', async (t) => {
  if (!needsRedis(t)) return;
  const server = await RedisServer.start(t, ['--maxmemory', '10mb', '--maxmemory-policy', 'allkeys-lru']);
  const { client, events, plugin } = site(t, server.url, {
    plugin: { name: 'cache' },
    build: (app, own) => app.get('/', { cache: Depends(own.key) }, ({ cache }) => cache.command(['PING'])),
  });
  assert.equal(await (await client.get('/')).text(), 'PONG');
  assert.deepEqual(
    [plugin.name, events.filter(({ event }) => event === 'redis_evicts').map(({ policy }) => policy)],
    ['cache', ['allkeys-lru']],
  );
});
