/** `app.mount()`: fetch handlers of other frameworks below a path. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Depends, RateLimitMiddleware, Svc, Unauthorized } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import type { FetchHandler, FetchMountOptions, SvcOptions } from '../../src/index.ts';

/** A handler that answers with the URL and the method of its request. */
const echo: FetchHandler = ({ method, url }) =>
  Response.json({ method, url: url.replace(/^https?:\/\/[^/]+/, '') });

function mounted(handler: FetchHandler, options: FetchMountOptions = {}, settings: SvcOptions = {}) {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, ...settings }).mount('/old', handler, options);
  return { app, events, client: new TestClient(app, { raiseErrors: false }) };
}

test('mount() passes all methods and all paths below the prefix to the handler, with the URL of the client', async () => {
  const { client } = mounted(echo);
  for (const path of ['/old', '/old/', '/old/a/b?x=1&x=2', '/old/a%2Fb%20c'])
    assert.deepEqual(await (await client.get(path)).json(), { method: 'GET', url: path });
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
    assert.deepEqual(await (await client.request(method, '/old/x')).json(), { method, url: '/old/x' });
  assert.equal((await client.request('HEAD', '/old/x')).status, 200);
  assert.equal((await client.get('/older')).status, 404);
  await client.close();
});

test('with stripPrefix, the URL of the handler has no prefix, also if the client has encoded it', async () => {
  const { client } = mounted(echo, { stripPrefix: true });
  for (const [path, url] of [
    ['/old', '/'],
    ['/old/', '/'],
    ['/old/a?x=1', '/a?x=1'],
    ['/%6Fld/old/a', '/old/a'],
  ] as const)
    assert.equal(((await (await client.get(path)).json()) as { url: string }).url, url);
  await client.close();
});

test('routes of the application come before a handler that is mounted at /', async () => {
  const app = new Svc().mount('/', echo).get('/new/{id:int}', ({ params }) => `new ${params.id}`);
  await using client = new TestClient(app);
  assert.equal(await (await client.get('/new/7')).text(), 'new 7');
  assert.deepEqual(await (await client.get('/new/x')).json(), { method: 'GET', url: '/new/x' });
  assert.deepEqual(await (await client.post('/new/7')).json(), { method: 'POST', url: '/new/7' });
});

test('a path whose segments the URL parser would resolve is 400, so that no layer judges another path', async (t) => {
  const { app } = mounted(echo);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  for (const path of [
    '/old/x/../../admin',
    '/old/%2e%2e/admin',
    '/old/.%2E/admin',
    '/old/a/./b',
    '/old/%2e',
  ]) {
    await using client = await RawClient.open(server.port);
    client.send(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`);
    assert.equal((await client.answer()).status, 400, path);
  }
});

test('a host that a URL cannot have is 400', async () => {
  const { client } = mounted(echo);
  const response = await client.get('/old/x', { headers: { host: '1.2.3.4.5' } });
  assert.equal(response.status, 400);
  assert.match(await response.text(), /The host of the request is not valid in a URL/);
  await client.close();
});

test('layers and dependencies run before the handler', async () => {
  let calls = 0;
  const guard = (): never => {
    throw new Unauthorized();
  };
  const app = new Svc()
    .use(async (_req, next) => {
      const response = await next();
      response.headers.set('x-layer', 'yes');
      return response;
    })
    .mount('/guarded', () => new Response(String(++calls)), { deps: { user: Depends(guard) } })
    .mount('/limited', () => new Response(String(++calls)), {
      use: [new RateLimitMiddleware({ perMinute: 1 })],
    });
  await using client = new TestClient(app);
  const refused = await client.get('/guarded/x');
  assert.deepEqual([refused.status, refused.headers.get('x-layer'), calls], [401, 'yes', 0]);
  assert.deepEqual(
    [(await client.get('/limited/a')).status, (await client.get('/limited/b')).status, calls],
    [200, 429, 1],
  );
});

test('the handler gets method, header fields and body of the request', async () => {
  const { client } = mounted(async (request) =>
    Response.json({
      type: request.headers.get('content-type'),
      own: request.headers.get('x-own'),
      hop: request.headers.get('te'),
      body: await request.json(),
    }),
  );
  const response = await client.post('/old', { json: { a: 1 }, headers: { 'x-own': 'yes', te: 'trailers' } });
  assert.deepEqual(await response.json(), {
    type: 'application/json',
    own: 'yes',
    hop: null,
    body: { a: 1 },
  });
  await client.close();
});

test('a body above maxBodyBytes is 413, even if the handler catches the error', async () => {
  const { client } = mounted(
    (request) =>
      request.text().then(
        (text) => new Response(text),
        () => new Response('caught', { status: 500 }),
      ),
    { maxBodyBytes: 10 },
  );
  assert.equal(await (await client.post('/old', { body: 'x'.repeat(10) })).text(), 'x'.repeat(10));
  assert.equal((await client.post('/old', { body: 'x'.repeat(11) })).status, 413);
  await client.close();
});

test('the handler reads the body while it arrives, and sends its response in parts', async (t) => {
  const { app } = mounted((request) => new Response(request.body));
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const sender = Promise.withResolvers<ReadableStreamDefaultController<Uint8Array>>();
  const body = new ReadableStream<Uint8Array>({ start: (controller) => sender.resolve(controller) });
  const controller = await sender.promise;
  controller.enqueue(Buffer.from('one'));
  const response = await fetch(`${server.url}/old`, { method: 'POST', body, duplex: 'half' });
  const reader = response.body!.getReader();
  assert.equal(Buffer.from((await reader.read()).value!).toString(), 'one');
  controller.enqueue(Buffer.from('two'));
  assert.equal(Buffer.from((await reader.read()).value!).toString(), 'two');
  controller.close();
  assert.equal((await reader.read()).done, true);
});

test('the signal of the handler aborts when the client leaves', async (t) => {
  const [arrived, aborted] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const { app } = mounted((request) => {
    request.signal.addEventListener('abort', () => aborted.resolve());
    arrived.resolve();
    return aborted.promise.then(() => new Response());
  });
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const client = await RawClient.open(server.port);
  client.send('GET /old HTTP/1.1\r\nHost: x\r\n\r\n');
  await arrived.promise;
  await client[Symbol.asyncDispose]();
  await aborted.promise;
});

test('status, header fields and each Set-Cookie of the handler reach the client', async () => {
  const { client } = mounted(() => {
    const headers = new Headers({ 'x-own': 'yes' });
    headers.append('set-cookie', 'a=1; Path=/');
    headers.append('set-cookie', 'b=2; HttpOnly');
    return new Response('teapot', { status: 418, headers });
  });
  const response = await client.get('/old');
  assert.deepEqual(
    [response.status, response.headers.get('x-own'), await response.text()],
    [418, 'yes', 'teapot'],
  );
  assert.deepEqual(response.headers.getSetCookie(), ['a=1; Path=/', 'b=2; HttpOnly']);
  await client.close();
});

for (const [what, handler] of [
  ['throws', () => Promise.reject(new Error('broken'))],
  ['returns no Response', () => 'text' as never],
] as const)
  test(`if the handler ${what}, the response is a 500, and the error is logged`, async () => {
    const { client, events } = mounted(handler);
    assert.equal((await client.get('/old')).status, 500);
    assert.equal(events.filter(({ event }) => event === 'unhandled_error').length, 1);
    await client.close();
  });

test('behind a trusted proxy, the URL and the field Host have the scheme and host of the client', async () => {
  const { app } = mounted(
    (request) => new Response(`${request.url} ${request.headers.get('host')}`),
    {},
    { trustProxy: 1, trustForwardedHost: true },
  );
  await using client = new TestClient(app, { baseUrl: 'http://internal.example' });
  const response = await client.get('/old/x', {
    headers: {
      'x-forwarded-for': '203.0.113.7',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'app.example',
    },
  });
  assert.equal(await response.text(), 'https://app.example/old/x app.example');
});

test('the OpenAPI document and the MCP tools leave a mounted handler out, and check() lists it once', () => {
  const app = new Svc().mount('/old', echo).get('/new', () => 'x');
  assert.deepEqual(Object.keys(app.openapi().paths ?? {}), ['/new']);
  assert.equal(app.mcpTools().length, 1);
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ subject }) => subject.includes('/old'))
      .map(({ rule, severity, subject }) => [rule, severity, subject]),
    [['SVC109', 'info', 'mount /old']],
  );
});

test('mount() refuses an invalid prefix, handler or option', () => {
  assert.throws(() => new Svc().mount('old', echo), { code: 'E_PATH_TEMPLATE' });
  assert.throws(() => new Svc().mount('/old', {} as never), { code: 'E_ROUTE_HANDLER' });
  assert.throws(() => new Svc().mount('/old', echo, { strip: true } as never), { code: 'E_ROUTE_SPEC' });
});
