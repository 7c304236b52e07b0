import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import {
  BackgroundTasks,
  Depends,
  HTMLResponse,
  InternalError,
  NotFound,
  RedirectResponse,
  StreamingResponse,
  Svc,
  SvcError,
  TextResponse,
  createLogger,
} from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import type { FaultCode, SvcOptions } from 'svc';

/** Returns an application without log output. */
function quiet(options: SvcOptions = {}): Svc {
  return new Svc({ logger: createLogger({ level: 'silent' }), ...options });
}

interface Mirrored {
  readonly method: string;
  readonly target: string;
  readonly host: string;
  readonly type: string;
  readonly mine: string | null;
  readonly cookie: string | null;
  readonly body: string;
}

/** Returns an application whose responses contain the request. */
function mirror(): Svc {
  const app = quiet();
  app.route('/mirror', ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'], async ({ req }) => ({
    method: req.method,
    target: req.target,
    host: req.host,
    type: req.headers['content-type'] ?? null,
    mine: req.headers['x-mine'] ?? null,
    cookie: req.headers['cookie'] ?? null,
    body: await req.text(),
  }));
  return app;
}

function fault(code: FaultCode): (error: unknown) => boolean {
  return (error) => error instanceof SvcError && error.code === code;
}

test('TestClient refuses an application of another copy of svc, with a remedy', async () => {
  const { href } = new URL('../../src/app/svc.ts?copy', import.meta.url);
  const copy = (await import(href)) as { readonly Svc: typeof Svc };
  for (const app of [new copy.Svc(), { app: quiet() }])
    assert.throws(() => new TestClient(app as Svc), { code: 'E_APP_COPY', remedy: /npm ls svc/ });
});

for (const listen of [false, true]) {
  const how = listen ? 'over a socket' : 'in memory';

  test(`TestClient.fetch sends a request as the global fetch does, with the fields and cookies of the client (requests ${how})`, async () => {
    const app = mirror();
    app.get('/login', () => new RedirectResponse('/mirror').setCookie('sid', 'abc', { path: '/' }));
    await using client = new TestClient(app, { listen, headers: { 'x-mine': 'always' } });
    const { fetch } = client;
    const login = await fetch('/login');
    assert.equal(login.status, 307);
    const response = await fetch('/mirror?a=1', {
      method: 'PUT',
      body: 'text',
      headers: { 'x-mine': 'own' },
    });
    const mirrored = (await response.json()) as Mirrored;
    assert.deepEqual(
      [mirrored.method, mirrored.target, mirrored.body, mirrored.mine, mirrored.cookie],
      ['PUT', '/mirror?a=1', 'text', 'own', 'sid=abc'],
    );
    const again = (await (await fetch(new Request(new URL('/mirror', client.baseUrl)))).json()) as Mirrored;
    assert.deepEqual([again.method, again.mine], ['GET', 'always']);
    await assert.rejects(fetch('/mirror', { signal: AbortSignal.abort(new Error('enough')) }), /enough/);
  });

  test(`TestClient has a function for each HTTP method (requests ${how})`, async () => {
    await using client = new TestClient(mirror(), { listen });
    for (const method of ['get', 'post', 'put', 'patch', 'delete'] as const) {
      assert.equal(
        ((await (await client[method]('/mirror')).json()) as { method: string }).method,
        method.toUpperCase(),
      );
    }
    const head = await client.head('/mirror');
    assert.equal(head.status, 200);
    assert.equal(await head.text(), '');
    assert.equal((await client.options('/mirror')).headers.get('allow')?.includes('PATCH'), true);
    assert.equal((await client.request('PROPFIND', '/mirror')).status, 405);
  });

  test(`TestClient sends the query, the header fields and every kind of body of a request (${how})`, async () => {
    await using client = new TestClient(mirror(), { listen, headers: { 'X-Mine': 'client', accept: 'a/b' } });
    const sent = async (request: Parameters<TestClient['post']>[1], path = '/mirror'): Promise<Mirrored> =>
      (await (await client.post(path, request)).json()) as Mirrored;
    assert.equal(
      (await sent({ query: { a: 1, b: [true, 'x y'], c: [] } }, '/mirror?z=0')).target,
      '/mirror?z=0&a=1&b=true&b=x+y',
    );
    assert.equal((await sent({})).mine, 'client');
    assert.equal((await sent({ headers: { 'x-mine': 'request' } })).mine, 'request');
    const json = await sent({ json: { a: null } });
    assert.deepEqual([json.type, json.body], ['application/json', '{"a":null}']);
    assert.equal((await sent({ json: null })).body, 'null');
    assert.equal(
      (await sent({ json: {}, headers: { 'content-type': 'application/merge-patch+json' } })).type,
      'application/merge-patch+json',
    );
    const form = await sent({ form: { a: '1', b: ['2', 'ä&'] } });
    assert.match(form.type, /^application\/x-www-form-urlencoded/);
    assert.equal(form.body, 'a=1&b=2&b=%C3%A4%26');
    const multipart = new FormData();
    multipart.set('a', new Blob(['x']), 'a.txt');
    const parts = await sent({ form: multipart });
    assert.match(parts.type, /^multipart\/form-data; boundary=/);
    assert.match(parts.body, /filename="a\.txt"/);
    assert.equal((await sent({ body: 'text' })).body, 'text');
    assert.equal((await sent({ body: Buffer.from('bytes') })).body, 'bytes');
    assert.equal(
      (await sent({ body: ReadableStream.from([Buffer.from('pie'), Buffer.from('ces')]) })).body,
      'pieces',
    );
  });

  test(`TestClient returns the status, header fields and body of a response unchanged, and follows no redirects (${how})`, async () => {
    const app = quiet();
    app.get('/html', () => new HTMLResponse('<p>', { status: 203 }));
    app.get('/go', () => new RedirectResponse('/html'));
    app.get('/pieces', () => new StreamingResponse(['a', 'b', 'c']));
    app.get('/nothing', () => undefined);
    app.get('/missing', () => {
      throw new NotFound('gone');
    });
    await using client = new TestClient(app, { listen });
    const html = await client.get('/html');
    assert.deepEqual(
      [html.status, html.headers.get('content-type'), await html.text()],
      [203, 'text/html; charset=utf-8', '<p>'],
    );
    const redirect = await client.get('/go');
    assert.deepEqual([redirect.status, redirect.headers.get('location')], [307, '/html']);
    assert.equal(await (await client.get('/pieces')).text(), 'abc');
    assert.equal((await client.get('/nothing')).status, 204);
    assert.equal(((await (await client.get('/missing')).json()) as { detail: string }).detail, 'gone');
  });

  test(`TestClient rejects a request with the error that its handler throws, unless raiseErrors is false (${how})`, async () => {
    const failure = new Error('mine');
    const app = quiet();
    app.get('/fail', () => {
      throw failure;
    });
    app.get('/undefined', () => Promise.reject(undefined));
    app.get('/declared', () => {
      throw new InternalError('known');
    });
    await using raising = new TestClient(app, { listen });
    await using answering = new TestClient(app, { listen, raiseErrors: false });
    await assert.rejects(raising.get('/fail'), (error) => error === failure);
    await assert.rejects(raising.get('/undefined'), (error) => error === undefined);
    assert.equal((await raising.get('/declared')).status, 500);
    const response = await answering.get('/fail');
    assert.equal(response.status, 500);
    assert.doesNotMatch(await response.text(), /mine/);
  });

  test(`if several concurrent requests fail, TestClient rejects each request with the error of its handler (${how})`, async () => {
    const app = quiet();
    app.get('/fail/{n:int}', ({ params }) => {
      throw new Error(`number ${params.n}`);
    });
    app.get('/fine', () => 'fine');
    await using client = new TestClient(app, { listen });
    const results = await Promise.allSettled([
      client.get('/fail/1'),
      client.get('/fine'),
      client.get('/fail/2'),
    ]);
    assert.deepEqual(
      results.map((result) =>
        result.status === 'rejected' ? (result.reason as Error).message : result.value.status,
      ),
      ['number 1', 200, 'number 2'],
    );
  });

  test(`TestClient stores cookies and sends them with later requests, unless a request has its own Cookie field (${how})`, async () => {
    const app = mirror();
    app.get('/login', () => {
      const response = new TextResponse('in');
      response.setCookie('sid', 'abc', { path: '/' });
      return response;
    });
    await using client = new TestClient(app, { listen });
    const cookieSent = async (headers = {}): Promise<string | null> =>
      ((await (await client.get('/mirror', { headers })).json()) as { cookie: string | null }).cookie;
    assert.equal(await cookieSent(), null);
    await client.get('/login');
    assert.equal(client.cookies.get('sid'), 'abc');
    assert.equal(await cookieSent(), 'sid=abc');
    client.cookies.set('theme', 'dark');
    assert.equal(await cookieSent(), 'sid=abc; theme=dark');
    assert.equal(await cookieSent({ cookie: 'own=1' }), 'own=1');
    client.cookies.clear();
    assert.equal(await cookieSent(), null);
  });

  test(`if the signal in the options of a request aborts, the call rejects at once with its reason, and the signal of the handler aborts (${how})`, async () => {
    const app = quiet();
    const entered = Promise.withResolvers<void>();
    const left = Promise.withResolvers<unknown>();
    const release = Promise.withResolvers<void>();
    const steps: string[] = [];
    app.onShutdown(() => void steps.push('shutdown'));
    app.get('/wait', async ({ signal }) => {
      signal.addEventListener('abort', () => left.resolve(signal.reason));
      entered.resolve();
      await release.promise;
      steps.push('handler ends');
    });
    const client = new TestClient(app, { listen });
    const abort = new AbortController();
    const answer = client.get('/wait', { signal: abort.signal });
    await entered.promise;
    const reason = new Error('enough');
    abort.abort(reason);
    await assert.rejects(answer, reason);
    assert.equal(((await left.promise) as Error).name, 'ClientDisconnected');
    await assert.rejects(client.get('/wait', { signal: abort.signal }), reason);
    const closed = client.close();
    release.resolve();
    await closed;
    assert.deepEqual(steps, ['handler ends', 'shutdown']);
  });
}

test('TestClient starts the application at the first request, and shuts the application down when the client is closed', async () => {
  const events: string[] = [];
  const app = quiet();
  app.onStartup(() => {
    events.push('start');
  });
  app.onShutdown(() => {
    events.push('stop');
  });
  app.get('/', () => 'x');
  const client = new TestClient(app);
  assert.deepEqual(events, []);
  await Promise.all([client.get('/'), client.get('/')]);
  assert.deepEqual(events, ['start']);
  await client.close();
  assert.deepEqual(events, ['start', 'stop']);
});

test('if several clients use an application, the application runs until all of these clients are closed, in whatever order', async () => {
  for (const first of [0, 1]) {
    const events: string[] = [];
    const app = quiet();
    app.onShutdown(() => {
      events.push('stop');
    });
    app.get('/', () => 'x');
    const clients = [new TestClient(app), new TestClient(app)] as const;
    await clients[0].get('/'); // the other one sends nothing at all
    await clients[first]!.close();
    await clients[first]!.close(); // a second close() of the same client has no effect
    assert.deepEqual(events, []);
    await clients[1 - first]!.close();
    assert.deepEqual(events, ['stop']);
  }
});

test('a closed TestClient refuses requests', async () => {
  const app = quiet();
  app.get('/', () => 'x');
  const client = new TestClient(app);
  await client.get('/');
  await client.close();
  await assert.rejects(client.get('/'), /The test client is closed/);
});

test('if no client has used the application, TestClient.close() does not shut it down', async () => {
  const app = quiet();
  let stops = 0;
  app.onShutdown(() => {
    stops++;
  });
  await new TestClient(app).close();
  assert.equal(stops, 0);
});

test('if the application cannot start, TestClient rejects every request with the error of the start, and can still be closed', async () => {
  const app = quiet();
  app.onStartup(() => {
    throw new Error('no database');
  });
  await using client = new TestClient(app);
  await assert.rejects(client.get('/'), /no database/);
  await assert.rejects(client.get('/'), /no database/);
});

test('TestClient.close() waits for an application that is still starting', async () => {
  const events: string[] = [];
  const app = quiet();
  app.onStartup(async () => {
    await Promise.resolve();
    events.push('start');
  });
  app.onShutdown(() => {
    events.push('stop');
  });
  const client = new TestClient(app, { listen: true });
  const answer = client.get('/').then(
    () => 'answered',
    () => 'refused',
  );
  await client.close();
  assert.deepEqual(events, ['start', 'stop']);
  await answer;
});

test('with awaitTasks: false, a call returns with the response, and background tasks that sleep on a ManualClock end when the test moves it', async () => {
  const clock = new ManualClock();
  const app = quiet();
  const steps: string[] = [];
  const connection = async function* (): AsyncGenerator<string> {
    yield 'x';
    steps.push('clean-up');
  };
  app.post('/', { tasks: Depends(BackgroundTasks), connection: Depends(connection) }, ({ tasks }) => {
    tasks.add(async () => {
      await app.clock.sleep(1_000);
      steps.push('task');
    });
  });
  app.get('/stream', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(() => app.clock.sleep(1_000));
    return new StreamingResponse(['a', 'b']);
  });
  await using client = new TestClient(app, { clock, awaitTasks: false });
  assert.equal((await client.post('/')).status, 204);
  assert.deepEqual(steps, ['clean-up']);
  await clock.advance(999);
  assert.deepEqual(steps, ['clean-up']);
  await clock.advance(1);
  assert.deepEqual(steps, ['clean-up', 'task']);
  assert.equal(await (await client.get('/stream')).text(), 'ab');
  await clock.advance(1_000);
});

test('with awaitTasks: false, TestClient.close() waits for background tasks, and rejects with their errors', async () => {
  const clock = new ManualClock();
  const app = quiet();
  app.post('/', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(async () => {
      await app.clock.sleep(1_000);
      throw new Error('no mail');
    });
  });
  const [client, other] = [new TestClient(app, { clock, awaitTasks: false }), new TestClient(app)];
  await client.post('/');
  const closed = assert.rejects(client.close(), /no mail/);
  await clock.advance(1_000);
  await closed;
  await other.close();
});

test('with awaitTasks: false, TestClient.close() has no time limit for background tasks, although another client uses the application', async (t) => {
  const clock = new ManualClock();
  const app = quiet();
  app.post('/', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(async () => {
      await app.clock.sleep(60_000);
      throw new Error('no mail');
    });
  });
  const [client, other] = [new TestClient(app, { clock, awaitTasks: false }), new TestClient(app)];
  await client.post('/');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const closed = assert.rejects(client.close(), /no mail/);
  await setImmediate();
  t.mock.timers.tick(2_000); // more than the time that running handlers have
  await setImmediate();
  await clock.advance(60_000);
  await closed;
  await other.close();
});

for (const [how, call] of [
  ['post()', (client) => client.post('/')],
  ['fetch()', (client) => client.fetch('/', { method: 'POST' })],
] as readonly (readonly [string, (client: TestClient) => Promise<Response>])[])
  test(`TestClient.close() waits for a call of ${how} that still runs, and for the background tasks that its handler adds meanwhile`, async () => {
    for (const isStarted of [true, false]) {
      const clock = new ManualClock();
      const app = quiet();
      const goesOn = Promise.withResolvers<void>();
      const steps: string[] = [];
      app.get('/', () => 'x');
      app.post('/', { tasks: Depends(BackgroundTasks) }, async ({ tasks }) => {
        await goesOn.promise;
        steps.push('handler');
        tasks.add(async () => {
          await app.clock.sleep(1_000);
          steps.push('task');
          throw new Error('no mail');
        });
        return 'x';
      });
      const [client, other] = [new TestClient(app, { clock, awaitTasks: false }), new TestClient(app)];
      if (isStarted) await client.get('/');
      const response = call(client);
      const closed = assert.rejects(client.close(), /no mail/);
      await setImmediate();
      assert.deepEqual(steps, []);
      goesOn.resolve();
      assert.equal((await response).status, 200);
      await clock.advance(1_000);
      await closed;
      assert.deepEqual(steps, ['handler', 'task']);
      await other.close();
    }
  });

test('TestClient sets the option "env" of the application to "test", unless the application or the client specifies a value', async () => {
  assert.equal(await envOf(quiet()), 'test');
  assert.equal(await envOf(quiet({ env: 'production' })), 'production');
  assert.equal(await envOf(quiet({ config: { env: 'development' } })), 'development');
  assert.equal(await envOf(quiet({ env: 'development' }), { env: 'production' }), 'production');
});

async function envOf(app: Svc, options = {}): Promise<string> {
  app.get('/', () => app.env);
  await using client = new TestClient(app, options);
  return await (await client.get('/')).text();
}

test('TestClient gives its clock to the application, and uses the same clock for the expiry of cookies', async () => {
  const clock = new ManualClock();
  const app = quiet();
  app.get('/', () => {
    const response = new TextResponse(String(app.clock.nowMs()));
    response.setCookie('short', '1', { maxAgeSeconds: 60 });
    return response;
  });
  await using client = new TestClient(app, { clock });
  assert.equal(await (await client.get('/')).text(), String(clock.nowMs()));
  await clock.advance(59_999);
  assert.equal(client.cookies.get('short'), '1');
  await clock.advance(1);
  assert.equal(client.cookies.get('short'), undefined);
});

test('app.clock may be kept before TestClient replaces the clock, also by the logger of the application', async () => {
  const lines: string[] = [];
  const app: Svc = new Svc();
  const { clock: kept } = app;
  const logger = createLogger({ clock: kept, sink: (line) => void lines.push(line) });
  app.get('/', () => {
    logger.info('seen');
    return [kept.nowMs(), kept.nowMicros(), kept.monotonicMs()];
  });
  const clock = new ManualClock();
  await using client = new TestClient(app, { clock });
  await clock.advance(5_000);
  assert.deepEqual(await (await client.get('/')).json(), [
    clock.nowMs(),
    clock.nowMicros(),
    clock.monotonicMs(),
  ]);
  assert.ok(lines.join('').includes(new Date(clock.nowMs()).toISOString()), lines.join(''));
  const fired: string[] = [];
  using _timer = kept.after(1_000, () => void fired.push('after'));
  const slept = kept.sleep(1_000).then(() => fired.push('sleep'));
  await kept.pass!(1_000);
  await slept;
  assert.deepEqual([fired.toSorted(), app.clock === kept], [['after', 'sleep'], true]);
});

test('once the application is compiled, TestClient refuses a clock or environment that differs from that of the application', async () => {
  const app = quiet().compileAll();
  assert.throws(() => new TestClient(app, { clock: new ManualClock() }), fault('E_APP_FROZEN'));
  assert.throws(() => new TestClient(app, { env: 'development' }), fault('E_APP_FROZEN'));
  await new TestClient(app, { env: app.env, clock: app.clock }).close();
});

const COMPILING: Readonly<Record<string, (app: Svc) => unknown>> = {
  'openapi()': (app) => app.openapi(),
  'check()': (app) => app.check(),
  'urlFor()': (app) => app.urlFor('place'),
  routes: (app) => app.routes,
  'mcpTools()': (app) => app.mcpTools(),
  'mcpCall()': (app) => app.mcpCall('place', {}),
  'fetch()': (app) => app.fetch(new Request('http://localhost/')),
  'startup()': (app) => app.startup(),
};
for (const [name, use] of Object.entries(COMPILING))
  test(`a TestClient without options calls an application after ${name}, also in another environment than test`, async (t) => {
    const logger = createLogger({ level: 'silent' });
    const app = new Svc({ logger });
    app.get('/', { name: 'place', mcp: true }, () => 'here');
    assert.equal(app.env, 'production');
    await use(app);
    t.after(() => app.shutdown());
    await using client = new TestClient(app);
    assert.equal(await (await client.get('/')).text(), 'here');
  });

test('TestClient refuses unknown options and option values of a wrong type', () => {
  const refused = (options: object, code: FaultCode): void =>
    assert.throws(() => new TestClient(quiet(), options), fault(code));
  refused({ raiseError: false }, 'E_OPTION_UNKNOWN');
  refused({ listen: 'yes' }, 'E_OPTION_RANGE');
  refused({ env: 'staging' }, 'E_OPTION_RANGE');
  refused({ clock: null }, 'E_OPTION_RANGE');
});

for (const [name, value] of [
  ['host', 'evil.example'],
  ['Host', 'localhost'],
  ['sec-fetch-mode', 'navigate'],
] as const) {
  test(`a TestClient sends the header field ${name} as ${value}, or refuses the request with listen: true, where it would not arrive`, async () => {
    const app = quiet();
    let calls = 0;
    app.post('/seen', { public: 'test' }, ({ req }) => (calls++, req.headers[name.toLowerCase()]));
    const headers = { [name]: value };
    const refused = { name: 'TypeError', message: new RegExp(`"${name.toLowerCase()}".*without listen$`) };
    await using memory = new TestClient(app);
    await using listening = new TestClient(app, { listen: true });
    await using always = new TestClient(app, { listen: true, headers });
    assert.equal(await (await memory.post('/seen', { headers })).text(), value);
    assert.equal(await (await memory.fetch('/seen', { method: 'POST', headers })).text(), value);
    for (const call of [
      () => listening.post('/seen', { headers }),
      () => listening.fetch('/seen', { method: 'POST', headers }),
      () => listening.fetch(new Request(new URL('/seen', listening.baseUrl), { method: 'POST', headers })),
      () => always.post('/seen'),
    ])
      await assert.rejects(call, refused);
    assert.equal(calls, 2);
  });
}

test('a TestClient with listen: true sends header fields that fetch() would send itself, and the host of a WebSocket', async () => {
  const app = quiet();
  app.get('/seen', ({ req }) => [req.headers['host'], req.headers['sec-fetch-mode']]);
  const hosts: string[] = [];
  app.websocket(
    '/socket',
    { public: 'test', origins: () => true },
    (_socket, { req }) => void hosts.push(req.host),
  );
  await using client = new TestClient(app, { listen: true });
  await client.get('/seen');
  const { host } = new URL(client.baseUrl);
  const same = await client.get('/seen', { headers: { host, 'sec-fetch-mode': 'cors' } });
  assert.deepEqual(await same.json(), [host, 'cors']);
  await using _socket = await client.websocket('/socket', { headers: { host: 'shop.example' } });
  assert.deepEqual(hosts, ['shop.example']);
});

test('TestClient.baseUrl is http://localhost, the value of the option "baseUrl", or with listen: true the address of the application', async () => {
  await using memory = new TestClient(mirror());
  assert.equal(memory.baseUrl, 'http://localhost');
  await using named = new TestClient(mirror(), { baseUrl: 'https://shop.example' });
  assert.equal(((await (await named.get('/mirror')).json()) as { host: string }).host, 'shop.example');
  await using listening = new TestClient(mirror(), { listen: true });
  await listening.get('/mirror');
  assert.match(listening.baseUrl, /^http:\/\/127\.0\.0\.1:[1-9]\d*$/);
});

test('a TestClient with listen: true can be closed while a response body is unread', async () => {
  const app = quiet();
  app.get('/', () => 'x'.repeat(100_000));
  await using client = new TestClient(app, { listen: true });
  await client.get('/');
});

test('overrides of a TestClient replace dependencies for requests of this client only', async () => {
  const user = (): string => 'real';
  const greeting = async ({ state }: { state: unknown }): Promise<string> => `hello ${typeof state}`;
  const app = quiet();
  app.get(
    '/',
    { user: Depends(user), greeting: Depends(greeting) },
    (context) => `${context.user}, ${context.greeting}`,
  );
  await using plain = new TestClient(app);
  await using staged = new TestClient(app, { overrides: [[user, () => 'staged']] });
  assert.equal(await (await staged.get('/')).text(), 'staged, hello object');
  assert.equal(await (await plain.get('/')).text(), 'real, hello object');
  assert.equal(await (await app.fetch(new Request('http://localhost/'))).text(), 'real, hello object');
});

/** Returns an application whose background tasks and clean-ups fail. */
function failsBehind(): Svc {
  const app = quiet();
  const tasks = Depends(BackgroundTasks);
  function* connection(): Generator<string, void> {
    yield 'open';
    throw new Error('the clean-up failed');
  }
  app.get('/task', { tasks }, ({ tasks: given }) => {
    given.add(() => Promise.reject(new NotFound('the task failed'))); // no client gets it as a status
    return 'done';
  });
  app.get('/clean-up', { connection: Depends(connection) }, () => 'done');
  app.get('/both', { connection: Depends(connection), tasks }, ({ tasks: given }) => {
    given.add(() => {
      throw new Error('the task failed');
    });
    return 'done';
  });
  app.get('/stream', { connection: Depends(connection) }, () => new StreamingResponse(['a', 'b']));
  return app;
}

test('if a background task or clean-up of a request fails, TestClient rejects the request with the error', async () => {
  await using client = new TestClient(failsBehind());
  await assert.rejects(client.get('/task'), /the task failed/);
  await assert.rejects(client.get('/clean-up'), /the clean-up failed/);
  await assert.rejects(client.get('/both'), (error: Error) => {
    assert.equal(error.message, 'the task failed');
    assert.match((error.cause as Error).message, /the clean-up failed/);
    return true;
  });
});

test('if clean-ups fail after the response, TestClient.close() rejects with their error, or with one AggregateError for several', async () => {
  const client = new TestClient(failsBehind());
  assert.equal(await (await client.get('/stream')).text(), 'ab');
  await assert.rejects(client.close(), /the clean-up failed/);
  const other = new TestClient(failsBehind());
  for (let count = 0; count < 2; count++) await (await other.get('/stream')).text();
  await assert.rejects(other.close(), (error: AggregateError) => error.errors.length === 2);
});

test('if a background task fails, TestClient with listen: true rejects either the request or close() with the error', async () => {
  const client = new TestClient(failsBehind(), { listen: true });
  const said = await client.get('/task').then(
    () => undefined,
    (error: unknown) => error,
  );
  const atClose = await client.close().then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.deepEqual([said, atClose].filter((error) => error !== undefined).length, 1);
  assert.match(String(said ?? atClose), /the task failed/);
});

test('if the clean-up of a dependency of scope "app" fails, TestClient.close() rejects with its error', async () => {
  const app = quiet();
  function* pool(): Generator<string, void> {
    yield 'pool';
    throw new Error('the pool does not close');
  }
  app.get('/', { pool: Depends(pool, { scope: 'app' }) }, ({ pool: given }) => given);
  const client = new TestClient(app);
  assert.equal(await (await client.get('/')).text(), 'pool');
  await assert.rejects(client.close(), /the pool does not close/);
});

for (const options of [{}, { listen: true }]) {
  test(`TestClient.close() waits for the clean-ups of WebSockets, and rejects with their error (${JSON.stringify(options)})`, async () => {
    const app = quiet();
    const steps: string[] = [];
    async function* connection(): AsyncGenerator<string, void> {
      yield 'open';
      for (let turn = 0; turn < 20; turn++) await setImmediate();
      steps.push('cleaned up');
      throw new Error('the clean-up failed');
    }
    app.websocket('/', { connection: Depends(connection) }, async (socket) => {
      for await (const message of socket) socket.send(message);
    });
    const client = new TestClient(app, options);
    await client.websocket('/');
    await assert.rejects(client.close(), /the clean-up failed/);
    assert.deepEqual(steps, ['cleaned up']);
  });
}

test('with raiseErrors: false, errors of background tasks and clean-ups are only logged', async () => {
  await using client = new TestClient(failsBehind(), { raiseErrors: false });
  for (const path of ['/task', '/clean-up', '/both', '/stream'])
    assert.equal(
      (await client.get(path).then(async (response) => [response.status, await response.text()]))[0],
      200,
    );
});
