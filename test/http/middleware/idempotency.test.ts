import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  APIKeyAuth,
  BearerAuth,
  CORSMiddleware,
  CSRFMiddleware,
  Depends,
  IdempotencyMiddleware,
  MemoryRecordStore,
  SessionMiddleware,
  StreamingResponse,
  Svc,
  TimeoutMiddleware,
  createToken,
  reply,
  Field,
  Router,
  Unauthorized,
  provide,
  str,
} from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { turn } from '../../support/turn.ts';
import type { Awaitable, HttpRequest, IdempotencyOptions, Middleware, RecordStore } from 'svc';
import type { TestRequest } from '../../../src/testing/index.ts';

const SECRET = 'an example secret that is long enough 1';

interface Site {
  readonly app: Svc;
  readonly client: TestClient;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  /** Paths of the handlers that have run, in order. */
  readonly calls: string[];
  /** Sends a request with an idempotency key, by default `"k"`. */
  send(path: string, request?: TestRequest, key?: string): Promise<Response>;
}

/** Makes an application with these handlers by path, and records each call. */
function site(
  options: IdempotencyOptions,
  handlers: Readonly<Record<string, (req: HttpRequest, call: number) => unknown>>,
  layers: readonly Middleware[] = [],
): Site {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const calls: string[] = [];
  const app = new Svc({ logger, authSecret: SECRET });
  for (const layer of layers) app.use(layer);
  app.use(new IdempotencyMiddleware(options));
  for (const [path, handler] of Object.entries(handlers)) {
    app.route(path, ['POST', 'PUT', 'PATCH', 'GET'], { public: true }, ({ req }) => {
      calls.push(`${req.method} ${req.path}`);
      return handler(req, calls.length);
    });
  }
  const client = new TestClient(app, { clock, raiseErrors: false });
  return {
    app,
    client,
    clock,
    events,
    calls,
    send: (path, request = {}, key = '"k"') =>
      client.post(path, { json: {}, ...request, headers: { 'Idempotency-Key': key, ...request.headers } }),
  };
}

const codeOf = async (response: Response): Promise<unknown> => [
  response.status,
  ((await response.json()) as Record<string, unknown>)['code'],
];

test('IdempotencyMiddleware runs the handler once, and answers a repeated request with the first response, marked as replayed', async () => {
  const s = site(
    {},
    { '/orders': (_req, call) => reply({ call }, 201, { Location: `/orders/${call}`, 'X-Kept': 'yes' }) },
  );
  await using _ = s.client;
  const first = await s.send('/orders', { json: { item: 'tea' } });
  const again = await s.send('/orders', { json: { item: 'tea' } });
  for (const answer of [first, again])
    assert.deepEqual(
      [
        answer.status,
        answer.headers.get('location'),
        answer.headers.get('x-kept'),
        answer.headers.get('content-type'),
        await answer.json(),
      ],
      [201, '/orders/1', 'yes', 'application/json', { call: 1 }],
    );
  assert.deepEqual(
    [first.headers.get('idempotency-replayed'), again.headers.get('idempotency-replayed')],
    [null, 'true'],
  );
  assert.notEqual(first.headers.get('x-request-id'), again.headers.get('x-request-id'));
  assert.deepEqual(s.calls, ['POST /orders']);
  const metrics = await (await s.client.get('/metrics')).text();
  assert.match(metrics, /svc_idempotent_requests_total\{fate="executed"\} 1\n/);
  assert.match(metrics, /svc_idempotent_requests_total\{fate="replayed"\} 1\n/);
});

test('behind IdempotencyMiddleware, a handler can still read the whole body with every method of the request', async () => {
  const s = site(
    {},
    {
      '/json': async (req) => req.json(),
      '/text': async (req) => req.text(),
      '/bytes': async (req) => (await req.body()).length,
      '/form': async (req) => (await req.form()).get('a'),
      '/stream': async (req) => {
        let text = '';
        for await (const chunk of req.stream()) text += Buffer.from(chunk).toString();
        return text;
      },
      '/parts': async (req) => {
        const names: string[] = [];
        for await (const part of req.parts()) names.push(part.name);
        return names.join();
      },
    },
  );
  await using _ = s.client;
  assert.deepEqual(await (await s.send('/json', { json: { a: 1 } })).json(), { a: 1 });
  assert.equal(await (await s.send('/text', { json: { a: 1 } })).text(), '{"a":1}');
  assert.equal(await (await s.send('/bytes', { json: { a: 1 } })).text(), '7');
  assert.equal(await (await s.send('/form', { json: undefined, form: { a: 'x' } })).text(), 'x');
  const form = new FormData();
  form.set('a', 'multi');
  for (const [path, text] of [
    ['/form', 'multi'],
    ['/parts', 'a'],
  ] as const)
    assert.equal(await (await s.send(path, { json: undefined, form }, '"m"')).text(), text);
  for (const body of ['streamed', ''])
    assert.equal(await (await s.send('/stream', { json: undefined, body }, `"s${body}"`)).text(), body);
});

test('IdempotencyMiddleware replays bytes, empty bodies and redirects, but no cookies', async () => {
  const s = site(
    {},
    {
      '/bytes': () => Buffer.from([0, 255, 128]),
      '/empty': () => undefined,
      '/gone': () => reply(null, 303, { Location: '/x' }),
      '/cookie': () => reply('ok', 200, { 'Set-Cookie': 'a=b' }),
    },
  );
  await using _ = s.client;
  for (const [path, status] of [
    ['/bytes', 200],
    ['/empty', 204],
    ['/gone', 303],
  ] as const) {
    const [first, again] = [await s.send(path), await s.send(path)];
    assert.deepEqual([again.status, again.headers.get('location')], [status, first.headers.get('location')]);
    assert.deepEqual(await again.bytes(), await first.bytes());
  }
  const headers = { Authorization: 'Bearer x' };
  assert.deepEqual(
    [
      (await s.send('/cookie', { headers })).headers.getSetCookie(),
      (await s.send('/cookie', { headers })).headers.getSetCookie(),
    ],
    [['a=b'], []],
  );
  assert.equal(s.calls.length, 4);
});

test('IdempotencyMiddleware answers 422 when a key is reused with another body, content type or target', async () => {
  const s = site({}, { '/orders/{id}': () => 'x' });
  await using _ = s.client;
  await s.send('/orders/1', { json: { a: 1 } });
  for (const [path, request] of [
    ['/orders/1', { json: { a: 2 } }],
    ['/orders/2', { json: { a: 1 } }],
    ['/orders/1?x', { json: { a: 1 } }],
    ['/orders/1', { json: undefined, body: '{"a":1}', headers: { 'Content-Type': 'text/plain' } }],
  ] as const) {
    assert.deepEqual(await codeOf(await s.send(path, request)), [422, 'idempotency_key_reused'], path);
  }
  assert.equal(s.calls.length, 1);
});

test('IdempotencyMiddleware distinguishes equal keys of different methods, routes and clients', async () => {
  const s = site({}, { '/a': () => 'x', '/b': () => 'x' });
  await using _ = s.client;
  const headers = { 'Idempotency-Key': '"k"' };
  for (const [method, path, more] of [
    ['POST', '/a', {}],
    ['PATCH', '/a', {}],
    ['POST', '/b', {}],
    ['POST', '/a', { Authorization: 'Bearer 1' }],
    ['POST', '/a', { Authorization: 'Bearer 2' }],
    ['POST', '/a', { Cookie: 'sid=1' }],
    ['POST', '/a', { Cookie: 'sid=2' }],
  ] as const) {
    for (const isReplayed of [null, 'true'])
      assert.equal(
        (await s.client.request(method, path, { json: {}, headers: { ...headers, ...more } })).headers.get(
          'idempotency-replayed',
        ),
        isReplayed,
        `${method} ${path} ${JSON.stringify(more)}`,
      );
  }
  assert.equal(s.calls.length, 7);
});

test('IdempotencyMiddleware identifies clients without credentials and cookies by their IPv4 address or IPv6 network', async () => {
  const s = site({}, { '/': () => 'x' });
  const app = new Svc({ trustProxy: 'loopback' })
    .use(new IdempotencyMiddleware())
    .post('/', { public: true }, () => 'x');
  await using client = new TestClient(app);
  const replayed = async (ip: string): Promise<string | null> =>
    (await client.post('/', { headers: { 'Idempotency-Key': 'k', 'X-Forwarded-For': ip } })).headers.get(
      'idempotency-replayed',
    );
  assert.deepEqual(
    [
      await replayed('192.0.2.1'),
      await replayed('192.0.2.2'),
      await replayed('192.0.2.1'),
      await replayed('2001:db8::1'),
      await replayed('2001:db8::2'),
      await replayed('2001:db8:0:1::1'),
    ],
    [null, null, 'true', null, 'true', null],
  );
  await s.client.close();
});

test('IdempotencyMiddleware identifies a client by the result of the option "principal", or by its credentials if the result is undefined', async () => {
  const s = site({ principal: async (req) => req.headers['x-user'] }, { '/': () => 'x' });
  await using _ = s.client;
  const replayed = async (headers: Record<string, string>): Promise<string | null> =>
    (await s.send('/', { headers })).headers.get('idempotency-replayed');
  assert.deepEqual(
    [
      await replayed({ 'X-User': 'ada', Authorization: 'Bearer old' }),
      await replayed({ 'X-User': 'ada', Authorization: 'Bearer new' }),
      await replayed({ 'X-User': 'eve', Authorization: 'Bearer new' }),
    ],
    [null, 'true', null],
  );
  assert.deepEqual(
    [await replayed({ Authorization: 'ada' }), await replayed({ Authorization: 'ada' })],
    [null, 'true'],
  );
  const wrong = site({ principal: () => 5 as never }, { '/': () => 'x' });
  assert.equal((await wrong.send('/')).status, 500);
  assert.equal(wrong.calls.length, 0);
  await wrong.client.close();
});

test('IdempotencyMiddleware identifies a client by the session or API key that a route requires, and ignores other cookies', async () => {
  const app = new Svc({ authSecret: SECRET })
    .use(new SessionMiddleware({ store: new MemoryRecordStore() }))
    .use(new IdempotencyMiddleware())
    .post('/login', { public: true }, ({ req }) => req.session.set('user', 'x'))
    .post('/pay', { public: true }, ({ req }) => ({ user: req.session.get('user') ?? null }))
    .post(
      '/key',
      { client: Depends(APIKeyAuth({ keys: { one: 'key-number-one-0001', two: 'key-number-two-0002' } })) },
      ({ client }) => String(client),
    );
  const key = { 'Idempotency-Key': 'k' };
  const cookies: string[] = [];
  for (let round = 0; round < 2; round++) {
    await using client = new TestClient(app);
    cookies.push((await client.post('/login')).headers.getSetCookie()[0]!.split(';')[0]!);
  }
  await using client = new TestClient(app);
  const replayed = async (path: string, headers: Record<string, string>): Promise<string | null> =>
    (await client.post(path, { headers: { ...key, ...headers } })).headers.get('idempotency-replayed');
  const [one, two] = cookies as [string, string];
  assert.deepEqual(
    [
      await replayed('/pay', { Cookie: one }),
      await replayed('/pay', { Cookie: `${one}; track=2` }),
      await replayed('/pay', { Cookie: two }),
    ],
    [null, 'true', null],
  );
  const apiKey = (value: string): Record<string, string> => ({ 'X-API-Key': value });
  assert.deepEqual(
    [
      await replayed('/key', apiKey('key-number-one-0001')),
      await replayed('/key', { ...apiKey('key-number-one-0001'), Cookie: 'a=b' }),
      await replayed('/key', apiKey('key-number-two-0002')),
    ],
    [null, 'true', null],
  );
});

test('if the record of another request expires between add() and get(), IdempotencyMiddleware claims the key once more', async () => {
  for (const [refusals, status] of [
    [1, 200],
    [2, 409],
  ] as const) {
    const inner = new MemoryRecordStore();
    let refused = 0;
    const store: RecordStore = {
      add: (...record) => refused++ >= refusals && inner.add(...record),
      get: (key) => inner.get(key),
      set: (...record) => inner.set(...record),
      replace: (...record) => inner.replace(...record),
      delete: (key) => inner.delete(key),
    };
    const s = site({ store }, { '/': () => 'done' });
    await using _ = s.client;
    assert.deepEqual([(await s.send('/')).status, s.calls.length], [status, status === 200 ? 1 : 0]);
  }
});

test('if a hundred equal requests arrive at once, IdempotencyMiddleware runs one, and answers all others with 409 and Retry-After', async () => {
  const gate = Promise.withResolvers<unknown>();
  const s = site(
    {},
    {
      '/': async () => {
        await gate.promise;
        return 'done';
      },
    },
  );
  await using _ = s.client;
  const first = s.send('/');
  const others = await Promise.all(Array.from({ length: 99 }, () => s.send('/')));
  for (const other of others) assert.deepEqual([other.status, other.headers.get('retry-after')], [409, '1']);
  assert.deepEqual(await codeOf(others[0]!), [409, 'idempotency_in_progress']);
  assert.deepEqual(await codeOf(await s.send('/', { json: { other: 1 } })), [422, 'idempotency_key_reused']);
  gate.resolve(undefined);
  assert.equal((await first).status, 200);
  assert.deepEqual([(await s.send('/')).headers.get('idempotency-replayed'), s.calls.length], ['true', 1]);
});

test('IdempotencyMiddleware runs a repeated request again after an exception, a 5xx response or a status that asks for a retry', async () => {
  const s = site(
    {},
    {
      '/thrown': (_req, call) => {
        if (call === 1) throw new Error('x');
        return 'ok';
      },
      '/status/{status:int}': (req, call) =>
        call === 1 ? reply('no', Number(req.pathParams['status'])) : 'ok',
    },
  );
  await using _ = s.client;
  for (const [path, first, second] of [
    ['/thrown', 500, 200],
    ['/status/503', 503, 200],
    ['/status/429', 429, 200],
    ['/status/401', 401, 200],
    ['/status/400', 400, 400],
    ['/status/404', 404, 404],
    ['/status/409', 409, 409],
  ] as const) {
    s.calls.length = 0;
    assert.deepEqual(
      [(await s.send(path, {}, `"${path}"`)).status, (await s.send(path, {}, `"${path}"`)).status],
      [first, second],
      path,
    );
  }
});

test('IdempotencyMiddleware ignores a request without a key, or refuses it if a key is required', async () => {
  const s = site({}, { '/': () => 'x' });
  await using _ = s.client;
  for (let round = 0; round < 2; round++) assert.equal((await s.client.post('/')).status, 200);
  assert.equal(s.calls.length, 2);
  const strict = site({ required: true, header: 'X-Once' }, { '/': () => 'x' });
  await using client = strict.client;
  assert.deepEqual(await codeOf(await client.post('/')), [400, 'idempotency_key_absent']);
  assert.equal((await client.get('/')).status, 200);
  assert.equal((await client.post('/nothing')).status, 404);
  assert.equal((await client.post('/', { headers: { 'X-Once': '"a"' } })).status, 200);
});

test('IdempotencyMiddleware refuses a key that is empty or too long, and a request with two keys', async () => {
  const s = site({}, { '/': () => 'x' });
  await using _ = s.client;
  for (const key of ['""', '"a', `"${'k'.repeat(256)}"`, '"a", "b"', 'a b', 'k'.repeat(9_000)])
    assert.deepEqual(
      await codeOf(await s.send('/', {}, key)),
      [400, 'idempotency_key_malformed'],
      key.slice(0, 20),
    );
  assert.deepEqual(
    [
      (await s.send('/', {}, 'same')).status,
      (await s.send('/', {}, '"same"')).headers.get('idempotency-replayed'),
      s.calls.length,
    ],
    [200, 'true', 1],
  );
});

test('IdempotencyMiddleware ignores methods and routes that its options exclude', async () => {
  const s = site({ methods: ['PUT'] }, { '/': () => 'x' });
  s.app.put('/free', { public: true, meta: { idempotency: false } }, () => 'y');
  await using _ = s.client;
  const replayed = async (method: string, path: string): Promise<string | null> =>
    (await s.client.request(method, path, { headers: { 'Idempotency-Key': '"k"' } })).headers.get(
      'idempotency-replayed',
    );
  for (const [method, path, expected] of [
    ['PUT', '/', 'true'],
    ['POST', '/', null],
    ['GET', '/', null],
    ['PUT', '/free', null],
  ] as const) {
    await replayed(method, path);
    assert.equal(await replayed(method, path), expected, `${method} ${path}`);
  }
});

test('if a body with an idempotency key exceeds maxBodyBytes, IdempotencyMiddleware answers 413 before the handler runs', async () => {
  const s = site({ maxBodyBytes: 10 }, { '/': async (req) => (await req.text()).length });
  await using _ = s.client;
  assert.equal((await s.send('/', { json: { long: 'text' } })).status, 413);
  assert.equal((await s.client.post('/', { json: { long: 'text' } })).status, 200);
  assert.equal(s.calls.length, 1);
});

test('if the first response was a stream or too large to store, IdempotencyMiddleware answers a repeated request with 409', async () => {
  const s = site(
    { maxAnswerBytes: 100 },
    { '/large': () => 'x'.repeat(200), '/stream': () => new StreamingResponse(['a', 'b'], { status: 201 }) },
  );
  await using _ = s.client;
  for (const [path, text] of [
    ['/large', 'x'.repeat(200)],
    ['/stream', 'ab'],
  ] as const) {
    assert.equal(await (await s.send(path)).text(), text);
    assert.deepEqual(await codeOf(await s.send(path)), [409, 'idempotency_answer_lost']);
  }
  assert.equal(s.calls.length, 2);
});

test('IdempotencyMiddleware stores a response for ttlSeconds, and reserves the key while the handler runs', async () => {
  const gate = Promise.withResolvers<unknown>();
  const s = site(
    { ttlSeconds: 100, leaseSeconds: 3 },
    {
      '/': async () => {
        await gate.promise;
        return 'x';
      },
    },
  );
  await using _ = s.client;
  const first = s.send('/');
  await turn();
  for (let second = 0; second < 20; second++) await s.clock.advance(1_000);
  assert.equal((await s.send('/')).status, 409);
  gate.resolve(undefined);
  await first;
  assert.equal(s.clock.pending, 0);
  await s.clock.advance(99_000);
  assert.equal((await s.send('/')).headers.get('idempotency-replayed'), 'true');
  await s.clock.advance(1_000);
  assert.equal((await s.send('/')).headers.get('idempotency-replayed'), null);
  assert.equal(s.calls.length, 2);
});

test('if an idempotency lease has expired, another process runs the request, and the first process does not overwrite the new record', async () => {
  const clock = new ManualClock();
  const store = new MemoryRecordStore({ clock });
  const gate = Promise.withResolvers<string>();
  const paused = site({ store }, { '/': () => gate.promise }); // its clock stands still, as that of a process that is stopped
  const other = site({ store }, { '/': () => 'second' });
  await using _ = paused.client;
  const first = paused.send('/');
  await turn();
  assert.equal((await other.send('/')).status, 409);
  await clock.advance(30_000);
  assert.equal(await (await other.send('/')).text(), 'second');
  gate.resolve('first');
  assert.equal(await (await first).text(), 'first');
  assert.equal(await (await other.send('/')).text(), 'second');
  assert.equal(paused.events.filter(({ event }) => event === 'idempotency_lease_lost').length, 1);
  await other.client.close();
});

test('a handler continues when its client leaves, and a repeated request gets its response', async () => {
  const gate = Promise.withResolvers<string>();
  const s = site({}, { '/': () => gate.promise });
  await using _ = s.client;
  const abort = new AbortController();
  const first = s.send('/', { signal: abort.signal }).catch(() => undefined);
  await turn();
  abort.abort();
  await turn();
  gate.resolve('x');
  await first;
  await turn();
  const again = await s.send('/');
  assert.deepEqual(
    [await again.text(), again.headers.get('idempotency-replayed'), s.calls.length],
    ['x', 'true', 1],
  );
});

test('if a request exceeds its time limit, repeated requests get 409 until the handler ends, and then the response of the handler', async () => {
  for (const where of ['outside', 'inside']) {
    const gate = Promise.withResolvers<string>();
    const limit = new TimeoutMiddleware({ seconds: 1 });
    const s = site({ leaseSeconds: 3 }, { '/': () => gate.promise }, where === 'outside' ? [limit] : []);
    if (where === 'inside') s.app.use(limit);
    await using _ = s.client;
    const first = s.send('/');
    await turn();
    await s.clock.advance(1_000);
    assert.equal((await first).status, 503);
    for (let second = 0; second < 10; second++) await s.clock.advance(1_000);
    assert.deepEqual(await codeOf(await s.send('/')), [409, 'idempotency_in_progress'], where);
    gate.resolve('done');
    for (let round = 0; round < 5; round++) await turn();
    const again = await s.send('/');
    assert.deepEqual([again.status, await again.text(), s.calls.length], [200, 'done', 1], where);
    await s.clock.advance(3_000); // the limits' own timers
    assert.equal(s.clock.pending, 0, where);
  }
});

/** A store in memory whose methods fail on demand. */
class FailingStore implements RecordStore {
  readonly failing = new Set<string>();
  readonly #inner = new MemoryRecordStore();
  #do<T>(verb: string, run: () => T): T {
    if (this.failing.has(verb)) throw new Error(`no ${verb}`);
    return run();
  }
  get(key: string): Awaitable<string | undefined> {
    return this.#do('get', () => this.#inner.get(key));
  }
  set(key: string, value: string, ttlMs: number): Awaitable<void> {
    return this.#do('set', () => this.#inner.set(key, value, ttlMs));
  }
  add(key: string, value: string, ttlMs: number): Awaitable<boolean> {
    return this.#do('add', () => this.#inner.add(key, value, ttlMs));
  }
  replace(key: string, expected: string, value: string, ttlMs: number): Awaitable<boolean> {
    return this.#do('replace', () => this.#inner.replace(key, expected, value, ttlMs));
  }
  delete(key: string): Awaitable<boolean> {
    return this.#do('delete', () => this.#inner.delete(key));
  }
}

test('if the store of IdempotencyMiddleware fails before the handler runs, the handler does not run; if it fails afterwards, the response is sent', async () => {
  const store = new FailingStore();
  const s = site(
    { store, leaseSeconds: 3 },
    {
      '/': async (_req, call) => {
        if (call === 1) await s.clock.advance(1_000);
        return 'x';
      },
    },
  );
  await using _ = s.client;
  store.failing.add('add');
  assert.equal((await s.send('/')).status, 500);
  assert.equal(s.calls.length, 0);
  store.failing.clear();
  store.failing.add('replace');
  assert.equal((await s.send('/')).status, 200);
  assert.deepEqual(
    s.events.filter(({ event }) => event === 'idempotency_store_failed').map(({ status }) => status),
    [undefined, 200],
  );
  assert.equal((await s.send('/')).status, 409); // until the lease ends
});

test('if the store of IdempotencyMiddleware is full, new keys get 503, and known keys still get their stored response', async () => {
  const s = site({ store: new MemoryRecordStore({ maxRecords: 3 }) }, { '/': () => 'x' });
  await using _ = s.client;
  const statuses: number[] = [];
  for (let index = 0; index < 50; index++)
    statuses.push((await s.send('/', {}, `"${'k'.repeat(200)}${index}"`)).status);
  assert.deepEqual(
    [statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 503).length],
    [3, 47],
  );
  assert.equal((await s.send('/', {}, `"${'k'.repeat(200)}0"`)).headers.get('idempotency-replayed'), 'true');
  assert.equal(s.calls.length, 3);
});

test('if the stored record of a request cannot be read, IdempotencyMiddleware does not run the request again', async () => {
  const store = new MemoryRecordStore();
  const keys: string[] = [];
  const spy: RecordStore = {
    get: (key) => store.get(key),
    set: (...args) => store.set(...args),
    add: (key, ...rest) => {
      keys.push(key);
      return store.add(key, ...rest);
    },
    replace: (...args) => store.replace(...args),
    delete: (key) => store.delete(key),
  };
  const s = site({ store: spy }, { '/': () => 'x' });
  await using _ = s.client;
  await s.send('/', { headers: { Authorization: 'Bearer secret-token' } }, '"my-key"');
  assert.ok(!keys[0]!.includes('my-key') && !keys[0]!.includes('secret'));
  store.set(keys[0]!, '{"from":"another version"}', 10_000);
  assert.deepEqual(
    await codeOf(await s.send('/', { headers: { Authorization: 'Bearer secret-token' } }, '"my-key"')),
    [409, 'idempotency_answer_lost'],
  );
});

test('svc check reports IdempotencyMiddleware in a wrong position, on a single route, or without the option "principal" (SVC121)', () => {
  const findings = (app: Svc): unknown[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity, subject }) => [severity, subject]);
  const app = (): Svc => new Svc({ authSecret: SECRET, env: 'test' });
  const once = (): IdempotencyMiddleware => new IdempotencyMiddleware({ principal: () => 'x' });
  const mine = 'middleware idempotency';
  assert.deepEqual(findings(app().use(once())), []);
  assert.deepEqual(findings(app().use(once()).use(new SessionMiddleware())), [['error', mine]]);
  assert.deepEqual(findings(app().use(new SessionMiddleware()).use(once()).use(new CSRFMiddleware())), [
    ['error', mine],
  ]);
  assert.deepEqual(
    findings(
      app()
        .use(once())
        .use({ kind: 'compression', handle: (_req, next) => next() }),
    ),
    [['warning', mine]],
  );
  assert.deepEqual(
    findings(
      app()
        .use(once())
        .use(new CORSMiddleware({ origins: '*' })),
    ),
    [['error', 'middleware cors']],
  );
  const inMemory = (workers: number, options: object): string[] =>
    new Svc({ authSecret: SECRET, config: { workers } })
      .use(new IdempotencyMiddleware({ principal: () => 'x', ...options }))
      .check()
      .findings.filter(({ rule }) => rule === 'SVC403')
      .map(({ subject }) => subject);
  const memory = new MemoryRecordStore();
  const elsewhere = Object.fromEntries(
    (['get', 'set', 'add', 'replace', 'delete'] as const).map((name) => [name, () => undefined]),
  ); // another class: its values are unknown
  assert.deepEqual(
    [
      inMemory(2, {}),
      inMemory(1, {}),
      inMemory(2, { store: memory }),
      inMemory(1, { store: memory }),
      inMemory(2, { store: elsewhere }),
    ],
    [[mine], [], [mine], [], []],
  );
  const routes = (made: Svc): Svc =>
    made
      .post('/open', { public: true }, () => 1)
      .get('/read', () => 1)
      .post('/out', { public: true, meta: { idempotency: false } }, () => 1)
      .post('/keyed', { security: { scheme: 'bearer', scopes: [], roles: [] } }, () => 1);
  assert.deepEqual(findings(routes(app().use(new IdempotencyMiddleware()))), [['warning', 'POST /open']]);
  assert.deepEqual(findings(routes(app().use(once()))), []);
  assert.deepEqual(
    findings(
      app()
        .post('/a', { public: true, use: [new IdempotencyMiddleware()] }, () => 1)
        .post('/b', { public: true }, () => 1),
    ),
    [['warning', 'POST /a']],
  );
  const shared = once();
  app().use(shared).check();
  assert.deepEqual(findings(app().use(shared)), [['error', mine]]);
});

test('IdempotencyMiddleware refuses options out of range', () => {
  for (const options of [
    { header: 'a b' },
    { ttlSeconds: 0 },
    { principal: 'x' },
    { store: {} },
    { methods: [] },
    { methods: ['post'] },
    { maxBodyBytes: -1 },
    { maxAnswerBytes: 1e9 },
    { leaseSeconds: 0 },
    { required: 1 },
  ]) {
    assert.throws(
      () => new IdempotencyMiddleware(options as never),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(options),
    );
  }
  assert.throws(() => new IdempotencyMiddleware({ ttl: 5 } as never), { code: 'E_OPTION_UNKNOWN' });
});

test('in generated sequences of requests, the handler runs once for every idempotency key, and repeated requests get its response', async () => {
  const below = seeded(409);
  const gates: { readonly open: () => void }[] = [];
  const s = site(
    { leaseSeconds: 3 },
    {
      '/': async (req) => {
        const { promise, resolve } = Promise.withResolvers<undefined>();
        gates.push({ open: () => resolve(undefined) });
        const text = await req.text();
        await promise;
        return text;
      },
    },
  );
  await using _ = s.client;
  const bodies = ['a', 'b'];
  const executed = new Map<string, string>();
  const pending: Promise<void>[] = [];
  for (let step = 0; step < 500; step++) {
    if (below(3) > 0) {
      const [key, body] = [`"k${below(40)}"`, bodies[below(12) === 0 ? 1 : 0]!];
      pending.push(
        s.send('/', { json: undefined, body }, key).then(async (answer) => {
          if (answer.status !== 200)
            return assert.ok(answer.status === 409 || answer.status === 422, String(answer.status));
          assert.equal(await answer.text(), body);
          if (answer.headers.get('idempotency-replayed') === null) {
            assert.ok(!executed.has(key), `${key} was executed twice`);
            executed.set(key, body);
          } else assert.equal(executed.get(key), body);
        }),
      );
      await turn();
    } else if (gates.length > 0) gates.splice(below(gates.length), 1)[0]!.open();
    else await s.clock.advance(1_000);
  }
  while (gates.length > 0) gates.pop()!.open();
  await Promise.all(pending);
  assert.equal(s.calls.length, executed.size);
  assert.ok(executed.size > 20);
});

test('IdempotencyMiddleware sends a stored response only if the guards of the route still accept the request', async () => {
  const clock = new ManualClock();
  const app = new Svc({ authSecret: SECRET, env: 'test' });
  const calls: string[] = [];
  const allowed = new Set(['ada']);
  app.use(new IdempotencyMiddleware());
  const guard = BearerAuth(undefined, { verify: ({ sub }) => allowed.has(sub) });
  app.post('/pay', { me: Depends(guard) }, ({ me }) => {
    calls.push(me.sub);
    return 'paid';
  });
  await using client = new TestClient(app, { clock });
  const token = createToken('ada', SECRET, { expiresInSeconds: 60, clock });
  const send = async (): Promise<readonly [number, string | null]> => {
    const { status, headers } = await client.post('/pay', {
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': '"k"' },
    });
    return [status, headers.get('idempotency-replayed')];
  };
  assert.deepEqual(await send(), [200, null]);
  assert.deepEqual(await send(), [200, 'true']);
  allowed.clear();
  assert.deepEqual(await send(), [401, null]);
  allowed.add('ada');
  assert.deepEqual(await send(), [200, 'true']);
  await clock.advance(60_000);
  assert.deepEqual(await send(), [401, null]);
  assert.deepEqual(calls, ['ada']);
});

test('IdempotencyMiddleware sends no stored response if an input of a guard is missing', async () => {
  const team = provide({ headers: { xTeamKey: Field(str) } }, ({ headers }) => {
    if (headers.xTeamKey !== 'red') throw new Unauthorized();
  });
  const orders = new Router({ deps: { guard: Depends(team) } });
  orders.post('/orders', () => 'ordered');
  const app = new Svc({ env: 'test' });
  app.use(new IdempotencyMiddleware());
  app.includeRouter(orders);
  await using client = new TestClient(app);
  const statusWith = async (headers: Record<string, string>): Promise<number> =>
    (await client.post('/orders', { headers: { 'idempotency-key': '"k"', ...headers } })).status;
  assert.equal(await statusWith({ 'x-team-key': 'red' }), 200);
  assert.equal(await statusWith({}), 400);
  assert.equal(await statusWith({ 'x-team-key': 'blue' }), 401);
  assert.equal(await statusWith({ 'x-team-key': 'red' }), 200);
});
