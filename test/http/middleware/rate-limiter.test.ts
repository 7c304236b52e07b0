import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { HTTPException, SvcError, TooManyRequests } from '../../../src/base/errors.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { RateLimiter } from '../../../src/http/middleware/rate-limiter.ts';
import { MemoryRateLimitStore } from '../../../src/cache/stores.ts';
import { ManualClock, TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { RateLimiterOptions } from '../../../src/http/middleware/rate-limiter.ts';
import type { RateLimitStore } from '../../../src/cache/stores.ts';

/** Makes an application that limits logins by account. Returns its log, too. */
function login(
  options: Partial<RateLimiterOptions> = {},
  behind: Partial<ConstructorParameters<typeof Svc>[0]> = {},
): {
  client: TestClient;
  clock: ManualClock;
  app: Svc;
  events: Record<string, unknown>[];
  limiter: RateLimiter;
} {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const limiter = new RateLimiter({ name: 'login', perMinute: 5, ...options });
  const app = new Svc({ logger, trustProxy: 'loopback', ...behind });
  app.post('/login', async ({ req }) => {
    const { account } = (await req.json()) as { account?: string };
    const left = await limiter.take(req, account);
    return { left: left?.remaining };
  });
  return { client: new TestClient(app, { clock, raiseErrors: false }), clock, app, events, limiter };
}

const from = (address: string, account?: string): { headers: Record<string, string>; json: unknown } => ({
  headers: { 'X-Forwarded-For': address },
  json: { account },
});

test('RateLimiter with the account as key stops attempts that come from changing addresses, and does not affect other accounts', async () => {
  const { client } = login();
  await using _ = client;
  const statuses: number[] = [];
  for (let index = 0; index < 8; index++)
    statuses.push((await client.post('/login', from(`192.0.2.${index}`, 'ada'))).status);
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
  assert.deepEqual(await (await client.post('/login', from('192.0.2.1', 'grace'))).json(), { left: 4 });
});

test('RateLimiter does not count refused attempts, so even 500 attempts do not lengthen the time until the next attempt is allowed', async () => {
  const { client, clock } = login();
  await using _ = client;
  for (let index = 0; index < 500; index++) await client.post('/login', from('192.0.2.1', 'ada'));
  const refused = await client.post('/login', from('192.0.2.1', 'ada'));
  assert.equal(refused.headers.get('retry-after'), '12');
  await clock.advance(12_000);
  assert.equal((await client.post('/login', from('203.0.113.1', 'ada'))).status, 200);
});

test('if RateLimiter refuses a request behind RateLimitMiddleware, the response has one problem body, and its RateLimit fields list both limits', async () => {
  const { client, app } = login();
  app.use(new RateLimitMiddleware({ perMinute: 100 }));
  await using _ = client;
  for (let index = 0; index < 5; index++) await client.post('/login', from('192.0.2.1', 'ada'));
  const refused = await client.post('/login', from('192.0.2.1', 'ada'));
  assert.equal(refused.headers.get('ratelimit-policy'), '"login";q=5;w=60, "default";q=100;w=60');
  assert.equal(refused.headers.get('ratelimit'), '"login";r=0;t=12, "default";r=94;t=4');
  const { request_id: _id, ...problem } = (await refused.json()) as Record<string, unknown>;
  assert.deepEqual(problem, {
    type: 'about:blank',
    title: 'Too Many Requests',
    status: 429,
    detail: 'Too many requests: try again in 12 seconds',
    code: 'rate_limited',
  });
});

test('several RateLimiters can share one store, and each counts separately', async () => {
  const clock = new ManualClock();
  const store = new MemoryRateLimitStore({ clock });
  const limits = [
    new RateLimiter({ name: 'token', perMinute: 1, store }),
    new RateLimiter({ name: 'revoke', perMinute: 2, store }),
  ];
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/{index:int}', async ({ req, params }) => {
    await limits[params.index]!.take(req, 'family');
  });
  await using client = new TestClient(app, { clock });
  const statuses: number[] = [];
  for (const index of [0, 0, 1, 1, 1]) statuses.push((await client.get(`/${index}`)).status);
  assert.deepEqual(statuses, [204, 429, 204, 204, 429]);
  assert.equal(store.size, 2);
});

test('without a key, RateLimiter.take() counts by address, and subtracts the given cost, which may be 0', async () => {
  const { logger } = collectedLog();
  const limiter = new RateLimiter({ name: 'mail', perMinute: 10, burst: 3 });
  const app = new Svc({ logger, trustProxy: 'loopback' }).get('/{cost:int}', async ({ req, params }) => ({
    left: (await limiter.take(req, undefined, params.cost))?.remaining,
  }));
  await using client = new TestClient(app, { clock: new ManualClock(), raiseErrors: false });
  const ask = async (cost: number, address = '192.0.2.1'): Promise<unknown> => {
    const response = await client.get(`/${cost}`, { headers: { 'X-Forwarded-For': address } });
    return response.status === 200 ? ((await response.json()) as { left: number }).left : response.status;
  };
  assert.deepEqual(
    [await ask(0), await ask(2), await ask(0), await ask(2), await ask(1), await ask(0), await ask(1)],
    [3, 1, 1, 429, 0, 0, 429],
  );
  assert.equal(await ask(1, '2001:db8::1'), 2);
  assert.equal(await ask(1, '2001:db8::2'), 1);
  assert.equal(await ask(4, '192.0.2.7'), 429);
  assert.equal(await ask(-1, '192.0.2.8'), 500);
});

test('RateLimiter.take() refuses a cost that is not a whole number (E_OPTION_RANGE)', () => {
  const limiter = new RateLimiter({ name: 'x' });
  for (const cost of [-1, 0.5, Number.NaN, Infinity])
    assert.throws(() => limiter.take({} as never, 'k', cost), { code: 'E_OPTION_RANGE' });
});

test('RateLimiter writes one audit event per key and window, and the event does not contain the key', async () => {
  const { client, clock, events, app } = login();
  await using _ = client;
  const hammer = async (account: string, times: number): Promise<void> => {
    for (let index = 0; index < times; index++) await client.post('/login', from('192.0.2.1', account));
  };
  await hammer('ada@secret.example', 20);
  await hammer('grace@secret.example', 7);
  const audit = (): Record<string, unknown>[] =>
    events.filter(({ event }) => event === 'excess_rate_limit_exceeded');
  assert.equal(audit().length, 2);
  const [{ logger, level, limit, ip, route, method, retry_after_ms, key_digest }] = audit() as [
    Record<string, unknown>,
  ];
  assert.deepEqual(
    [logger, level, limit, ip, route, method, retry_after_ms],
    ['svc_security', 'warn', 'login', '192.0.2.1', '/login', 'POST', 12_000],
  );
  assert.match(key_digest as string, /^[0-9a-f]{16}$/);
  assert.ok(!JSON.stringify(events).includes('secret.example'));
  assert.match(app.metrics.render(), /^svc_rate_limited_total\{limit="login"\} 17$/m);
  await clock.advance(30_000);
  await hammer('ada@secret.example', 10);
  assert.equal(audit().length, 2);
  await clock.advance(30_000);
  await hammer('ada@secret.example', 10);
  assert.equal(audit().length, 3);
});

for (const [how, take] of [
  [
    'throws',
    () => {
      throw new Error('store is away');
    },
  ],
  ['rejects', () => Promise.reject(new Error('store is away'))],
] as const) {
  test(`if the store of RateLimiter fails, "onStoreError" decides whether requests are allowed or get 503, and the failure is logged once a minute (the store ${how})`, async () => {
    for (const onStoreError of ['allow', 'refuse'] as const) {
      const { client, events, clock } = login({ store: { take }, onStoreError });
      await using _ = client;
      const statuses: number[] = [];
      for (let index = 0; index < 10; index++)
        statuses.push((await client.post('/login', from('192.0.2.1', 'ada'))).status);
      assert.deepEqual(new Set(statuses), new Set([onStoreError === 'allow' ? 200 : 503]));
      assert.equal(events.filter(({ event }) => event === 'rate_limit_store_failed').length, 1);
      await clock.advance(60_000);
      const later = await client.post('/login', from('192.0.2.1', 'ada'));
      assert.equal(later.headers.get('retry-after'), onStoreError === 'allow' ? null : '1');
      assert.equal(events.filter(({ event }) => event === 'rate_limit_store_failed').length, 2);
      assert.ok(!events.some(({ event }) => event === 'unhandled_error'));
    }
  });
}

test('if a mistake in the program makes the store of RateLimiter fail, requests get 500 with every "onStoreError", and the mistake is logged', async () => {
  const mistake = new SvcError('E_DB_NESTED', ['a statement']);
  const takes: readonly RateLimitStore['take'][] = [
    () => {
      throw mistake;
    },
    () => Promise.reject(mistake),
  ];
  for (const onStoreError of ['allow', 'refuse'] as const) {
    for (const take of takes) {
      const { client, events } = login({ store: { take }, onStoreError });
      await using _ = client;
      for (let index = 0; index < 2; index++)
        assert.equal((await client.post('/login', from('192.0.2.1', 'ada'))).status, 500);
      assert.deepEqual(
        events.filter(({ level }) => level === 'error').map(({ event }) => event),
        ['unhandled_error', 'unhandled_error'],
      );
    }
  }
});

test('RateLimiter awaits an asynchronous store', async () => {
  const clock = new ManualClock();
  const memory = new MemoryRateLimitStore({ clock });
  const store: RateLimitStore = { take: async (...args) => memory.take(...args) };
  const { client } = login({ store, perMinute: 1 });
  await using _ = client;
  assert.equal((await client.post('/login', from('192.0.2.1', 'ada'))).status, 200);
  assert.equal((await client.post('/login', from('192.0.2.1', 'ada'))).status, 429);
});

test('RateLimiter builds store keys of limited length from keys of any length', async () => {
  const keys: string[] = [];
  const { client } = login({
    store: {
      take: (key) => {
        keys.push(key);
        return { isAllowed: true, remaining: 1, retryAfterMs: 0, resetMs: 0 };
      },
    },
  });
  await using _ = client;
  for (const account of ['a', 'b'.repeat(128), 'c'.repeat(129), 'c'.repeat(130), 'd'.repeat(100_000)])
    await client.post('/login', from('192.0.2.1', account));
  assert.deepEqual(
    keys.map((key) => key.length),
    [7, 134, 49, 49, 49],
  );
  assert.equal(new Set(keys).size, 5);
});

test('an exception handler can replace the response to a request that RateLimiter refuses', async () => {
  const { client, app } = login({ perMinute: 1 });
  app.exceptionHandler(TooManyRequests, (error) => [`wait ${error.headers!['Retry-After']}`, 429]);
  await using _ = client;
  await client.post('/login', from('192.0.2.1', 'ada'));
  assert.equal(await (await client.post('/login', from('192.0.2.1', 'ada'))).text(), 'wait 60');
  assert.ok(new TooManyRequests() instanceof HTTPException);
});

test('if two applications use one RateLimiter, it counts their requests together', async () => {
  const limiter = new RateLimiter({ name: 'both', perMinute: 2 });
  const clock = new ManualClock();
  const apps = [0, 1].map(() =>
    new Svc({ logger: collectedLog().logger }).get('/', async ({ req }) => {
      await limiter.take(req);
    }),
  );
  const clients = apps.map((app) => new TestClient(app, { clock }));
  assert.deepEqual(
    [
      (await clients[0]!.get('/')).status,
      (await clients[1]!.get('/')).status,
      (await clients[0]!.get('/')).status,
    ],
    [204, 204, 429],
  );
  for (const client of clients) await client.close();
});

for (const options of [
  {},
  { name: '' },
  { name: 'a b' },
  { name: 'a:b' },
  { name: 'x'.repeat(65) },
  { name: 'x', perMinute: 0 },
  { name: 'x', burst: 0 },
  { name: 'x', burst: 1.5 },
  { name: 'x', burst: 1_000_001 },
  { name: 'x', perMinute: 1_000_001 },
  { name: 'x', maxBuckets: 0 },
  { name: 'x', store: {} },
  { name: 'x', onStoreError: 'ignore' },
  { name: 'x', ipv6Prefix: 31 },
  { name: 'x', perminute: 5 },
]) {
  test(`RateLimiter refuses ${JSON.stringify(options)}`, () =>
    assert.throws(() => new RateLimiter(options as never), { name: 'SvcError', code: /^E_OPTION_/ }));
}
