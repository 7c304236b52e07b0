import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { Svc } from '../../../src/app/svc.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { CORSMiddleware } from '../../../src/http/middleware/cors.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { SecurityHeadersMiddleware } from '../../../src/http/middleware/security-headers.ts';
import { MemoryRateLimitStore } from '../../../src/cache/stores.ts';
import { ManualClock, TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { RateLimitOptions } from '../../../src/http/middleware/rate-limit.ts';
import type { RateLimitStore } from '../../../src/cache/stores.ts';

interface Setting {
  readonly app: Svc;
  readonly client: TestClient;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  /** Sends `count` requests one after another. Returns their statuses. */
  send(count: number, path?: string, ip?: string, method?: string): Promise<number[]>;
}

/** Makes an application with a rate limit, in which X-Forwarded-For identifies clients. */
function setting(options: RateLimitOptions, change: (app: Svc) => void = () => undefined): Setting {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const app = new Svc({ logger, trustProxy: 'loopback' })
    .use(new RateLimitMiddleware(options))
    .get('/', () => 'x')
    .get('/later', async () => 'x');
  change(app);
  const client = new TestClient(app, { clock, raiseErrors: false });
  return {
    app,
    client,
    clock,
    events,
    async send(count, path = '/', ip = '192.0.2.1', method = 'GET') {
      const statuses: number[] = [];
      for (let index = 0; index < count; index++)
        statuses.push((await client.request(method, path, { headers: { 'X-Forwarded-For': ip } })).status);
      return statuses;
    },
  };
}

const tally = (statuses: readonly number[], status: number): number =>
  statuses.filter((each) => each === status).length;

test('RateLimitMiddleware allows "perMinute" requests, and answers the next request with 429, Retry-After and a problem', async () => {
  const { client, send } = setting({ perMinute: 3 });
  await using _ = client;
  assert.deepEqual(await send(3), [200, 200, 200]);
  const response = await client.get('/', { headers: { 'X-Forwarded-For': '192.0.2.1' } });
  assert.equal(response.status, 429);
  assert.equal(response.headers.get('content-type'), 'application/problem+json');
  assert.equal(response.headers.get('retry-after'), '20');
  assert.equal(response.headers.get('ratelimit-policy'), '"default";q=3;w=60');
  assert.equal(response.headers.get('ratelimit'), '"default";r=0;t=20');
  const body = (await response.json()) as Record<string, unknown>;
  assert.deepEqual(
    [body['title'], body['status'], body['code'], body['request_id']],
    ['Too Many Requests', 429, 'rate_limited', response.headers.get('x-request-id')],
  );
});

test('RateLimitMiddleware sends a Retry-After of at least 1 second, also when the next request is allowed sooner', async () => {
  const { client, send } = setting({ perMinute: 60_000, burst: 1 });
  await using _ = client;
  await send(1);
  assert.equal(
    (await client.get('/', { headers: { 'X-Forwarded-For': '192.0.2.1' } })).headers.get('retry-after'),
    '1',
  );
});

test('RateLimitMiddleware does not allow two full bursts around the start of a minute', async () => {
  const { client, send, clock } = setting({ perMinute: 60 });
  await using _ = client;
  await clock.advance(59_900);
  assert.equal(tally(await send(60), 200), 60);
  await clock.advance(200);
  assert.equal(tally(await send(60), 429), 60);
  await clock.advance(900);
  assert.deepEqual(tally(await send(60), 200), 1);
});

test('with every tested limit, RateLimitMiddleware allows the next request of a client that has waited for the time in Retry-After', async () => {
  for (const perMinute of [1, 7, 13, 59, 61, 120, 999]) {
    const { client, send, clock } = setting({ perMinute });
    await using _ = client;
    await send(perMinute);
    for (let round = 0; round < 5; round++) {
      const refused = await client.get('/', { headers: { 'X-Forwarded-For': '192.0.2.1' } });
      if (refused.status === 200) continue;
      const seconds = Number(refused.headers.get('retry-after'));
      assert.ok(Number.isInteger(seconds) && seconds >= 1);
      await clock.advance(seconds * 1_000);
      assert.deepEqual(await send(1), [200], `${perMinute}`);
    }
  }
});

test('RateLimitMiddleware counts 200,000 addresses within its memory limit, and a limited client stays limited', async () => {
  const clock = new ManualClock();
  const store = new MemoryRateLimitStore({ clock, maxBuckets: 10_000 });
  const rule = { limit: 60, periodMs: 60_000 };
  let allowed = 0;
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  const heap = (): number => {
    collect();
    return process.memoryUsage().heapUsed + process.memoryUsage().arrayBuffers;
  };
  const flood = async (from: number, to: number): Promise<void> => {
    for (let index = from; index < to; index++) {
      store.take(`10.${index >> 16}.${(index >> 8) & 255}.${index & 255}`, rule);
      if (index % 100 === 0 && store.take('the limited one', rule).isAllowed) allowed++;
      if (index % 2_000 === 0) await clock.advance(100);
    }
  };
  await flood(0, 20_000);
  const before = heap();
  await flood(20_000, 200_000);
  assert.equal(store.size, 10_000);
  assert.ok(heap() - before < 1_000_000, `${heap() - before}`);
  assert.ok(allowed <= 60 + 10 + 1, `${allowed} of 2,000`); // the burst, and a refill of one a second for ten seconds
});

test('a client that invents many keys for one rate limit can reset neither its own count nor other limits', async () => {
  const { client, send } = setting({
    perMinute: 10,
    maxBuckets: 50,
    rules: [{ path: '/later', perMinute: 2, key: (req) => req.headers['x-key'] }],
  });
  await using _ = client;
  assert.deepEqual(await send(11), [...Array<number>(10).fill(200), 429]);
  for (let index = 0; index < 200; index++)
    assert.equal((await client.get('/later', { headers: { 'X-Key': `k${index}` } })).status, 200);
  assert.deepEqual(await send(1), [429]);
  for (let index = 0; index < 200; index++)
    assert.deepEqual(await send(1, '/', `2001:db8:0:${index.toString(16)}::1`), [200]);
  assert.deepEqual(await send(1), [429]);
});

test('the constructor of RateLimitMiddleware refuses an async function as "key", and a request whose key is a promise is answered with 500', async () => {
  assert.throws(() => new RateLimitMiddleware({ key: (async () => 'a') as never }), {
    code: 'E_OPTION_RANGE',
    message: /"key" needs a function of the request that returns text or undefined, not a promise/,
  });
  assert.throws(() => new RateLimitMiddleware({ rules: [{ path: '/', key: (async () => 'a') as never }] }), {
    code: 'E_OPTION_RANGE',
  });
  assert.throws(
    () => new Svc().get('/', { rateLimit: { perMinute: 1, key: (async () => 'a') as never } }, () => 'x'),
    { code: 'E_OPTION_RANGE' },
  );
  for (const key of [() => Promise.resolve('a'), () => Promise.reject(new Error('unhandled'))]) {
    const { client, events } = setting({ key: key as never });
    await using _ = client;
    assert.equal((await client.get('/')).status, 500);
    assert.match(JSON.stringify(events), /Cannot configure the limit .*default.*found a promise/);
  }
});

test('by default RateLimitMiddleware counts requests by the address of the peer, and ignores X-Forwarded-For', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger }).use(new RateLimitMiddleware({ perMinute: 2 })).get('/', () => 'x');
  await using client = new TestClient(app);
  const statuses: number[] = [];
  for (let index = 0; index < 4; index++)
    statuses.push((await client.get('/', { headers: { 'X-Forwarded-For': `192.0.2.${index}` } })).status);
  assert.deepEqual(statuses, [200, 200, 429, 429]);
});

test('RateLimitMiddleware behind a trusted proxy counts each client of the proxy separately', async () => {
  const { client, send } = setting({ perMinute: 1 });
  await using _ = client;
  assert.deepEqual(
    [...(await send(2, '/', '192.0.2.1')), ...(await send(2, '/', '192.0.2.2'))],
    [200, 429, 200, 429],
  );
});

test('RateLimitMiddleware counts IPv6 clients by their /64 network or by the configured prefix, and treats IPv4-mapped addresses as IPv4', async () => {
  const { client, send } = setting({ perMinute: 2 });
  await using _ = client;
  assert.deepEqual(
    [
      ...(await send(1, '/', '2001:db8::1')),
      ...(await send(1, '/', '2001:db8::ffff:1')),
      ...(await send(1, '/', '2001:db8::2')),
      ...(await send(1, '/', '2001:db8:0:1::1')),
    ],
    [200, 200, 429, 200],
  );
  assert.deepEqual(
    [
      ...(await send(1, '/', '::ffff:198.51.100.1')),
      ...(await send(1, '/', '198.51.100.1')),
      ...(await send(1, '/', '::ffff:c633:6401')),
    ],
    [200, 200, 429],
  );
  const { client: other, send: sendOther } = setting({ perMinute: 1, ipv6Prefix: 48 });
  await using _other = other;
  assert.deepEqual(
    [...(await sendOther(1, '/', '2001:db8::1')), ...(await sendOther(1, '/', '2001:db8:0:1::1'))],
    [200, 429],
  );
});

test('a 429 response has the CORS, security and request-id header fields of the outer middleware', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger })
    .use(new SecurityHeadersMiddleware())
    .use(new CORSMiddleware({ origins: ['https://a.example'] }))
    .use(new RateLimitMiddleware({ perMinute: 1 }))
    .get('/', () => 'x');
  await using client = new TestClient(app);
  const ask = (): Promise<Response> =>
    client.get('/', { headers: { Origin: 'https://a.example', 'X-Request-Id': 'req-1' } });
  await ask();
  const { status, headers } = await ask();
  assert.equal(status, 429);
  assert.equal(headers.get('access-control-allow-origin'), 'https://a.example');
  assert.equal(headers.get('x-content-type-options'), 'nosniff');
  assert.equal(headers.get('x-request-id'), 'req-1');
});

test('RateLimitMiddleware is not affected by jumps of the wall clock in either direction', async () => {
  const { client, send, clock } = setting({ perMinute: 2 });
  await using _ = client;
  await send(2);
  for (const jumpMs of [-86_400_000, 86_400_000]) {
    clock.setWallMs(clock.nowMs() + jumpMs);
    const refused = await client.get('/', { headers: { 'X-Forwarded-For': '192.0.2.1' } });
    assert.equal(refused.headers.get('retry-after'), '30');
  }
  await clock.advance(30_000);
  assert.deepEqual(await send(2), [200, 429]);
});

test('RateLimitMiddleware writes at most one audit event per client and minute', async () => {
  const { client, send, events, clock, app } = setting({ perMinute: 1 });
  await using _ = client;
  const audit = (): unknown[] =>
    events
      .filter(({ event, logger }) => event === 'excess_rate_limit_exceeded' && logger === 'svc_security')
      .map(({ ip }) => ip);
  await send(10);
  await send(10, '/nowhere', '192.0.2.9');
  assert.deepEqual(audit(), ['192.0.2.1', '192.0.2.9']);
  assert.match(app.metrics.render(), /^svc_rate_limited_total\{limit="default"\} 18$/m);
  await clock.advance(60_000);
  await send(3);
  assert.equal(audit().length, 3);
});

test('every response has the RateLimit header fields: 200, 404, 500, asynchronous responses and OPTIONS', async () => {
  const { client } = setting({ perMinute: 120, burst: 20 }, (app) =>
    app.get('/500', () => {
      throw new Error('boom');
    }),
  );
  await using _ = client;
  let remaining = 20;
  for (const [status, method, path] of [
    [200, 'GET', '/'],
    [200, 'GET', '/later'],
    [404, 'GET', '/nowhere'],
    [500, 'GET', '/500'],
    [405, 'POST', '/'],
    [204, 'OPTIONS', '/'],
    [400, 'GET', '/%zz'],
  ] as const) {
    const response = await client.request(method, path);
    assert.equal(response.status, status);
    assert.equal(response.headers.get('ratelimit-policy'), '"default";q=20;w=10');
    assert.equal(
      response.headers.get('ratelimit'),
      `"default";r=${--remaining};t=${Math.ceil((20 - remaining) / 2)}`,
    );
    assert.equal(response.headers.get('x-ratelimit-limit'), null);
    assert.equal(response.headers.get('retry-after'), null);
  }
});

test('if no request remains, the RateLimit field has the time until the next request is allowed, not until the full limit is available', async () => {
  const { client } = setting({ perMinute: 4 });
  await using _ = client;
  const reported: (string | null)[] = [];
  for (let index = 0; index < 4; index++) reported.push((await client.get('/')).headers.get('ratelimit'));
  assert.deepEqual(reported, [
    '"default";r=3;t=15',
    '"default";r=2;t=30',
    '"default";r=1;t=45',
    '"default";r=0;t=15',
  ]);
});

test('the option "legacyHeaders" adds the three X-RateLimit-* header fields', async () => {
  const { client, clock } = setting({
    perMinute: 2,
    legacyHeaders: true,
    rules: [{ path: '/later', perMinute: 1 }],
  });
  await using _ = client;
  for (const [path, status, limit, remaining, resetSeconds] of [
    ['/', 200, '2', '1', 30],
    ['/', 200, '2', '0', 60],
    ['/', 429, '2', '0', 60],
    ['/later', 200, '1', '0', 60],
  ] as const) {
    const response = await client.get(path);
    assert.equal(response.status, status);
    assert.deepEqual(
      ['limit', 'remaining', 'reset'].map((name) => response.headers.get(`x-ratelimit-${name}`)),
      [limit, remaining, String(clock.nowMs() / 1_000 + resetSeconds)],
    );
  }
});

test('a rate-limit rule replaces the default limit for its path and methods, and the most specific path wins', async () => {
  const { client, send } = setting(
    {
      perMinute: 4,
      rules: [
        { path: '/login', methods: ['POST'], perMinute: 1 },
        { path: '/files/{rest:path}', perMinute: 2 },
        { path: '/files/{name}', methods: ['GET'], perMinute: 3, name: 'file' },
      ],
    },
    (app) => {
      app
        .post('/login', () => 'x')
        .get('/login', () => 'x')
        .get('/files/{name}', () => 'x')
        .delete('/files/{name}', () => 'x')
        .get('/files/{a}/{b}', () => 'x');
    },
  );
  await using _ = client;
  assert.deepEqual(await send(3, '/login', '192.0.2.1', 'POST'), [200, 429, 429]);
  assert.deepEqual(await send(5, '/login'), [200, 200, 200, 200, 429]); // GET: the default
  assert.deepEqual(await send(1), [429]);
  assert.deepEqual(
    [
      ...(await send(2, '/files/a')),
      ...(await send(1, '/files/b', '192.0.2.1', 'HEAD')),
      ...(await send(1, '/files/c')),
    ],
    [200, 200, 200, 429],
  );
  assert.deepEqual(
    [
      ...(await send(1, '/files/a/b')),
      ...(await send(1, '/files/c', '192.0.2.1', 'DELETE')),
      ...(await send(1, '/files/%61/b')),
    ],
    [200, 200, 429],
  );
  const { headers } = await client.get('/files/a', { headers: { 'X-Forwarded-For': '198.51.100.1' } });
  assert.equal(headers.get('ratelimit-policy'), '"file";q=3;w=60');
  assert.equal(
    (await client.delete('/files/a', { headers: { 'X-Forwarded-For': '198.51.100.1' } })).headers.get(
      'ratelimit-policy',
    ),
    '"/files/{rest:path}";q=2;w=60',
  );
  assert.equal(
    (await client.post('/login', { headers: { 'X-Forwarded-For': '198.51.100.1' } })).headers.get(
      'ratelimit-policy',
    ),
    '"POST /login";q=1;w=60',
  );
});

test('the option "rateLimit" of a route replaces all rules and the default limit, or removes the limit if it is false', async () => {
  const { client, send, app } = setting(
    { perMinute: 3, rules: [{ path: '/strict', perMinute: 2 }] },
    (svc) => {
      svc.get('/strict', { rateLimit: { perMinute: 1 } }, ({ req }) => ({ limit: req.route!.rateLimit }));
      svc.get(
        '/keyed',
        { rateLimit: { perMinute: 60, burst: 1, key: (req) => req.headers['x-api-key'] } },
        () => 'x',
      );
      svc.get('/free', { rateLimit: false }, () => 'x');
    },
  );
  await using _ = client;
  assert.deepEqual(
    await (await client.get('/strict', { headers: { 'X-Forwarded-For': '198.51.100.9' } })).json(),
    { limit: { perMinute: 1 } },
  );
  assert.deepEqual(await send(2, '/strict'), [200, 429]);
  assert.deepEqual(await send(10, '/free'), Array(10).fill(200));
  assert.equal((await client.get('/free')).headers.get('ratelimit'), null);
  const keyed = async (key?: string): Promise<string | number> => {
    const response = await client.get('/keyed', key === undefined ? {} : { headers: { 'X-API-Key': key } });
    return response.status === 200 ? response.headers.get('ratelimit-policy')! : response.status;
  };
  assert.deepEqual(
    [await keyed('a'), await keyed('a'), await keyed('b'), await keyed(), await keyed()],
    ['"GET /keyed";q=1;w=1', 429, '"GET /keyed";q=1;w=1', '"GET /keyed";q=1;w=1', 429],
  );
  assert.equal(app.routes.find((route) => route.template === '/free')!.rateLimit, false);
  assert.equal(app.routes.find((route) => route.template === '/')!.rateLimit, undefined);
});

test('the name of the rate limit of a route with a non-ASCII path is percent-encoded in RateLimit-Policy', async () => {
  const { client } = setting({}, (app) => app.get('/café/{id}', { rateLimit: { perMinute: 5 } }, () => 'x'));
  await using _ = client;
  assert.equal(
    (await client.get('/caf%C3%A9/1')).headers.get('ratelimit-policy'),
    '"GET /caf%C3%A9/{id}";q=5;w=60',
  );
});

test('RateLimitMiddleware counts by the result of the function "key", and by address if the function returns undefined', async () => {
  const { client } = setting({ perMinute: 1, key: (req) => req.headers['x-user'] });
  await using _ = client;
  const ask = async (headers: Record<string, string>): Promise<number> =>
    (await client.get('/', { headers })).status;
  assert.deepEqual(
    [
      await ask({ 'X-User': 'a' }),
      await ask({ 'X-User': 'a' }),
      await ask({ 'X-User': 'b' }),
      await ask({}),
      await ask({}),
    ],
    [200, 429, 200, 200, 429],
  );
});

test('RateLimitMiddleware awaits only an asynchronous store, and applies "onStoreError" if the store fails', async () => {
  const clock = new ManualClock();
  const memory = new MemoryRateLimitStore({ clock });
  const later: RateLimitStore = { take: async (...args) => memory.take(...args) };
  const broken: RateLimitStore = {
    take: async () => {
      throw new Error('away');
    },
  };
  const seen: boolean[] = [];
  const { client: first } = setting({ perMinute: 2 }, (app) =>
    app.use((_req, next) => {
      const answer = next();
      seen.push(answer instanceof Promise);
      return answer;
    }),
  );
  await using _first = first;
  assert.equal((await first.get('/')).status, 200);
  assert.deepEqual(seen, [false]);
  const { client, send } = setting({ perMinute: 2, store: later });
  await using _ = client;
  assert.deepEqual(await send(3), [200, 200, 429]);
  const { client: open, send: sendOpen } = setting({ perMinute: 1, store: broken });
  await using _open = open;
  assert.deepEqual(await sendOpen(3), [200, 200, 200]);
  assert.equal((await open.get('/')).headers.get('ratelimit'), null);
  const { client: shut, send: sendShut } = setting({ perMinute: 1, store: broken, onStoreError: 'refuse' });
  await using _shut = shut;
  assert.deepEqual(await sendShut(2), [503, 503]);
});

test('if an application has two RateLimitMiddleware, the option "rateLimit" of a route replaces one limit, and rateLimit: false removes both limits', async () => {
  const { client, send } = setting({ perMinute: 5 }, (app) => {
    app.use(new RateLimitMiddleware({ name: 'user', perMinute: 2, key: (req) => req.headers['x-user'] }));
    app.get('/own', { rateLimit: { perMinute: 3 } }, () => 'x').get('/free', { rateLimit: false }, () => 'x');
  });
  await using _ = client;
  assert.deepEqual(await send(3), [200, 200, 429]);
  assert.equal(
    (await client.get('/', { headers: { 'X-Forwarded-For': '198.51.100.1' } })).headers.get(
      'ratelimit-policy',
    ),
    '"user";q=2;w=60, "default";q=5;w=60',
  );
  assert.equal(
    (await client.get('/own', { headers: { 'X-Forwarded-For': '198.51.100.2' } })).headers.get(
      'ratelimit-policy',
    ),
    '"user";q=2;w=60, "GET /own";q=3;w=60',
  );
  assert.deepEqual(await send(9, '/free'), Array(9).fill(200));
});

test('svc check reports the option "rateLimit" without RateLimitMiddleware, two limits with one name, and rules that match no route (SVC121)', () => {
  const messages = (app: Svc): string[] =>
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, severity, subject, message }) => `${rule} ${severity} ${subject}: ${message}`);
  const limited = (): Svc => new Svc().get('/login', { rateLimit: { perMinute: 5 } }, () => 'x');
  assert.deepEqual(messages(limited()), [
    'SVC121 error GET /login: rateLimit has no effect, because no RateLimitMiddleware is registered',
  ]);
  assert.deepEqual(messages(limited().use(new RateLimitMiddleware())), []);
  assert.deepEqual(
    messages(
      new Svc().get('/login', { rateLimit: { perMinute: 5 }, use: [new RateLimitMiddleware()] }, () => 'x'),
    ),
    [],
  );
  assert.deepEqual(messages(new Svc().get('/login', { rateLimit: false }, () => 'x')), []);
  assert.deepEqual(
    messages(
      limited()
        .use(new RateLimitMiddleware())
        .use(new RateLimitMiddleware({ perMinute: 5 })),
    ),
    [
      'SVC121 error middleware rate-limit: two instances of RateLimitMiddleware have the name "default", so response fields, metrics and a shared store mix up the two limits',
    ],
  );
  const rules = (...list: NonNullable<RateLimitOptions['rules']>): string[] =>
    messages(
      new Svc()
        .get('/login', () => 'x')
        .post('/files/{name}/parts/{id:int}', () => 'x')
        .get('/tree/{rest:path}', () => 'x')
        .use(new RateLimitMiddleware({ rules: list })),
    );
  assert.deepEqual(
    rules(
      { path: '/login' },
      { path: '/files/{rest:path}' },
      { path: '/files/{a}/parts/{b}' },
      { path: '/files/x/parts/{b}', methods: ['POST'] },
      { path: '/tree/a/b/c' },
      { path: '/{rest:path}' },
    ),
    [],
  );
  assert.deepEqual(rules({ path: '/logn' }), [
    'SVC121 warning middleware rate-limit: the rate limit rule "/logn" matches no route: did you mean "/login"?',
  ]);
  assert.deepEqual(rules({ path: '/login', methods: ['POST'] }), [
    'SVC121 warning middleware rate-limit: the rate limit rule "POST /login" has no effect: its path matches only routes with GET',
  ]);
  // a route of another method is no correction
  assert.deepEqual(rules({ path: '/logn', methods: ['POST'] }), [
    'SVC121 warning middleware rate-limit: the rate limit rule "POST /logn" matches no route',
  ]);
  assert.deepEqual(rules({ path: '/a/b/c/d/e' }, { path: '/files/{name}' }, { path: '/login/x' }).length, 3);
});

test('svc check reports rate limits in memory if several processes run, also if the memory store is set explicitly (SVC403)', () => {
  const found = (workers: number, options: RateLimitOptions): number =>
    new Svc({ config: { workers } })
      .use(new RateLimitMiddleware(options))
      .check()
      .findings.filter(({ rule }) => rule === 'SVC403').length;
  const store = new MemoryRateLimitStore();
  assert.deepEqual(
    [
      found(2, {}),
      found(2, { store }),
      found(1, {}),
      found(1, { store }),
      found(2, { store: { take: (...args) => store.take(...args) } }),
    ],
    [1, 1, 0, 0, 0],
  );
});

for (const [options, code] of [
  [{ perMin: 5 }, 'E_OPTION_UNKNOWN'],
  [{ perMinute: 0 }, 'E_OPTION_RANGE'],
  [{ perMinute: 1_000_001 }, 'E_OPTION_RANGE'],
  [{ burst: 0 }, 'E_OPTION_RANGE'],
  [{ burst: 1_000_001 }, 'E_OPTION_RANGE'],
  [{ key: 'ip' }, 'E_OPTION_RANGE'],
  [{ name: 'a b' }, 'E_OPTION_RANGE'],
  [{ rules: {} }, 'E_OPTION_RANGE'],
  [{ rules: [{ path: 'login' }] }, 'E_PATH_TEMPLATE'],
  [{ rules: [{}] }, 'E_PATH_TEMPLATE'],
  [{ rules: [{ path: '/', perMinutes: 5 }] }, 'E_OPTION_UNKNOWN'],
  [{ rules: [{ path: '/', methods: ['get'] }] }, 'E_OPTION_RANGE'],
  [{ rules: [{ path: '/', methods: [] }] }, 'E_OPTION_RANGE'],
  [{ rules: [{ path: '/', name: 'default' }] }, 'E_OPTION_RANGE'],
  [{ rules: [{ path: '/{a}' }, { path: '/{b}' }] }, 'E_OPTION_RANGE'],
  [
    {
      rules: [
        { path: '/', methods: ['GET'], name: 'a' },
        { path: '/', methods: ['GET'], name: 'b' },
      ],
    },
    'E_OPTION_RANGE',
  ],
  [{ rules: [{ path: '/', name: 'a:b' }] }, 'E_OPTION_RANGE'],
  [{ rules: [{ path: '/' }, { path: '/' }] }, 'E_OPTION_RANGE'],
] as const) {
  test(`RateLimitMiddleware refuses ${JSON.stringify(options)} (${code})`, () =>
    assert.throws(() => new RateLimitMiddleware(options as never), { name: 'SvcError', code }));
}

test('a route refuses an invalid value of the option "rateLimit"', () => {
  for (const rateLimit of [true, 5, null, { perMinute: 0 }, { perMinutes: 5 }, { perMinute: 5, key: 'ip' }]) {
    assert.throws(
      () => new Svc().get('/', { rateLimit } as never, (() => 'x') as never),
      (error) => error instanceof SvcError && error.code.startsWith('E_OPTION_'),
      JSON.stringify(rateLimit),
    );
  }
});
