/** `app.requestListener()` under servers of other frameworks, and `app.fetch` without `this`. */
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { createServer, request as requestHttp } from 'node:http';
import { test } from 'node:test';
import {
  BackgroundTasks,
  Depends,
  EventBroadcast,
  Field,
  Schema,
  StreamingResponse,
  Svc,
  int,
  str,
} from '../../src/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { SvcError } from '../../src/base/errors.ts';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';

class Person extends Schema {
  name = Field(str, { minLength: 1 });
  age = Field(int, { ge: 0 });
}

/** Serves an application under a server of node:http; `around` stands for the other framework. Returns its URL. */
async function embed(
  t: TestContext,
  app: Svc,
  around: (listener: RequestListener) => RequestListener = (listener) => listener,
): Promise<string> {
  const { request, upgrade } = app.requestListener();
  const server = createServer(around(request)).on('upgrade', upgrade);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await app.shutdown();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

test('requestListener() serves the routes of an application, and starts the application at the first request', async (t) => {
  const steps: string[] = [];
  const app = new Svc().onStartup(() => void steps.push('start')).onShutdown(() => void steps.push('stop'));
  app.get('/json', () => ({ ok: true }));
  app.get('/text/{id:int}', ({ params }) => `text ${params.id}`);
  app.post('/people', { body: Person }, ({ body }) => [{ name: body.name }, 201]);
  app.post('/raw', async ({ req }) => ((await req.body()) as Uint8Array).length);
  app.get('/fails', () => {
    throw new Error('broken');
  });
  const url = await embed(t, app);
  assert.deepEqual(steps, []);
  const [first, second] = await Promise.all([fetch(`${url}/json`), fetch(`${url}/json?again`)]);
  assert.deepEqual([await first.json(), await second.json()], [{ ok: true }, { ok: true }]);
  assert.match(first.headers.get('x-request-id')!, /^[0-9a-f]{32}$/);
  assert.deepEqual(steps, ['start']);
  assert.equal(await (await fetch(`${url}/text/7`)).text(), 'text 7');
  const post = (path: string, body: string): Promise<Response> =>
    fetch(url + path, { method: 'POST', body, headers: { 'Content-Type': 'application/json' } });
  const created = await post('/people', '{"name":"Ada","age":36}');
  assert.deepEqual([created.status, await created.json()], [201, { name: 'Ada' }]);
  assert.equal((await post('/people', '{"name":""}')).status, 400);
  assert.equal(await (await post('/raw', 'x'.repeat(300_000))).text(), '300000');
  assert.equal((await fetch(`${url}/fails`)).status, 500);
  assert.equal((await fetch(`${url}/missing`)).status, 404);
  const head = await fetch(`${url}/json`, { method: 'HEAD' });
  assert.deepEqual([head.status, head.headers.get('content-length')], [200, '11']);
  await app.shutdown();
  assert.deepEqual(steps, ['start', 'stop']);
});

test('requestListener() sends streams and server-sent events, and runs background tasks', async (t) => {
  const steps: string[] = [];
  const over = Promise.withResolvers<void>();
  const events = new EventBroadcast();
  const app = new Svc();
  app.get('/stream', () => new StreamingResponse(['a', 'b', 'c']));
  app.get('/events', () => events.stream());
  app.get('/tasks', { tasks: Depends(BackgroundTasks) }, ({ tasks }) => {
    tasks.add(() => {
      steps.push('task');
      over.resolve();
    });
    return 'done';
  });
  const url = await embed(t, app);
  assert.equal(await (await fetch(`${url}/stream`)).text(), 'abc');
  assert.equal(await (await fetch(`${url}/tasks`)).text(), 'done');
  await over.promise;
  assert.deepEqual(steps, ['task']);
  const stream = await fetch(`${url}/events`);
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  while (!text.includes('data: 1')) {
    events.send({ data: 1 });
    text += (await reader.read()).value ?? assert.fail('the stream has ended');
  }
  await reader.cancel();
});

test('if a background task reads the body after the response, requestListener() rejects the read with E_BODY_DISCARDED', async (t) => {
  const failed = Promise.withResolvers<unknown>();
  const app = new Svc();
  app.post('/', { tasks: Depends(BackgroundTasks) }, ({ tasks, req }) => {
    tasks.add(async () => failed.resolve(await req.text().catch((error: unknown) => error)));
    return 'done';
  });
  const url = await embed(t, app);
  assert.equal(await (await fetch(url, { method: 'POST', body: 'body' })).text(), 'done');
  assert.equal(((await failed.promise) as SvcError).code, 'E_BODY_DISCARDED');
});

test('requestListener() runs handlers in the AsyncLocalStorage context of the framework that calls the listener', async (t) => {
  const storage = new AsyncLocalStorage<string>();
  const app = new Svc();
  app.get('/', () => storage.getStore() ?? 'none');
  app.post('/', { body: Person }, () => storage.getStore() ?? 'none');
  const url = await embed(
    t,
    app,
    (listener) => (incoming, outgoing) => storage.run('outer', () => listener(incoming, outgoing)),
  );
  assert.equal(await (await fetch(url)).text(), 'outer');
  const headers = { 'Content-Type': 'application/json' };
  const posted = await fetch(url, { method: 'POST', body: '{"name":"Ada","age":1}', headers });
  assert.equal(await posted.text(), 'outer');
});

test('if the client disconnects, requestListener() aborts the signal of the request', async (t) => {
  const left = Promise.withResolvers<unknown>();
  const begun = Promise.withResolvers<void>();
  const app = new Svc();
  app.get('/', async ({ req }) => {
    const { signal } = req;
    signal.addEventListener('abort', () => left.resolve(signal.reason));
    begun.resolve();
    await left.promise;
    return 'late';
  });
  const url = await embed(t, app);
  const outgoing = requestHttp(url).on('error', () => undefined);
  outgoing.end();
  await begun.promise;
  outgoing.destroy();
  assert.equal(((await left.promise) as Error).name, 'ClientDisconnected');
});

test('app.upgrade opens WebSockets on the server of another framework, and answers other upgrade requests with 404', async (t) => {
  const app = new Svc();
  app.websocket('/echo').onMessage((socket, message) => socket.send(`echo ${String(message)}`));
  const url = await embed(t, app);
  const origin = new URL(url).origin;
  const socket = new WebSocket(`${url.replace('http', 'ws')}/echo`, { headers: { origin } } as never);
  const reply = await new Promise((resolve, reject) => {
    socket.addEventListener('open', () => socket.send('hello'));
    socket.addEventListener('message', ({ data }) => resolve(data));
    socket.addEventListener('error', () => reject(new Error('refused')));
  });
  assert.equal(reply, 'echo hello');
  socket.close();
  const refused = await new Promise<IncomingMessage>((resolve, reject) =>
    requestHttp(`${url}/missing`, { headers: { connection: 'Upgrade', upgrade: 'websocket' } })
      .on('response', resolve)
      .on('error', reject)
      .end(),
  );
  refused.resume();
  assert.equal(refused.statusCode, 404);
});

test('requestListener() answers 503 if the application cannot start, and tries to start it again at the next request', async (t) => {
  const { logger, events } = collectedLog();
  let isBroken = true;
  const app = new Svc({ logger })
    .get('/', () => 'up')
    .onStartup(() => {
      if (isBroken) throw new Error('no database');
    });
  const url = await embed(t, app);
  const response = await fetch(url);
  assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '5']);
  assert.ok(events.some(({ event }) => event === 'startup_failed'));
  isBroken = false;
  assert.equal(await (await fetch(url)).text(), 'up');
});

test('if another framework mounts requestListener() below a path, the application gets only the rest of the path', async (t) => {
  const app = new Svc().get('/users', () => 'users');
  const url = await embed(t, app, (listener) => (incoming: IncomingMessage, outgoing: ServerResponse) => {
    if (!incoming.url!.startsWith('/api')) return void outgoing.end('other');
    incoming.url = incoming.url!.slice('/api'.length);
    return listener(incoming, outgoing as never);
  });
  assert.equal(await (await fetch(`${url}/api/users`)).text(), 'users');
  assert.equal(await (await fetch(`${url}/users`)).text(), 'other');
});

test('app.fetch can be passed and called as a plain function, without the application as "this"', async (t) => {
  const app = new Svc().get('/', () => 'hello');
  t.after(() => app.shutdown());
  const { fetch: handle } = app;
  assert.equal(await (await handle(new Request('http://localhost/'))).text(), 'hello');
});

test('under another server, req.ip stays the address of a client that has left', async (t) => {
  const [arrived, left] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const app = new Svc({ logger: collectedLog().logger }).get('/', async ({ req, signal }) => {
    arrived.resolve();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    setImmediate(() => left.resolve(req.ip));
    return '';
  });
  const request = requestHttp(await embed(t, app)).on('error', () => undefined);
  request.end();
  await arrived.promise;
  request.destroy();
  assert.equal(await left.promise, '127.0.0.1');
});
