import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ClientDisconnected } from '../../../src/base/errors.ts';
import { HttpResponse, StreamingResponse } from '../../../src/http/response.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { turn } from '../../support/turn.ts';
import type { TransportRequest } from '../../../src/http/request/request.ts';

const app = (): Svc => new Svc({ logger: collectedLog().logger, env: 'test' });
const get = (path: string, init: RequestInit = {}): Request =>
  new Request(`http://a.example:8080${path}`, init);

test('Svc.fetch() answers a web Request with a web Response of the application', async () => {
  const it = app().post('/{id:int}', async ({ req, params }) => ({
    id: params.id,
    q: req.query.get('q'),
    host: req.host,
    ip: req.ip,
    scheme: req.scheme,
    path: req.path,
    x: req.headers['x-a'],
    cookie: req.cookies['c'],
    body: await req.json(),
  }));
  const response = await it.fetch(
    get('/5?q=1', {
      method: 'POST',
      body: '{"a":1}',
      headers: { 'X-A': 'x', Cookie: 'c=d', 'Content-Type': 'application/json', 'X-Request-Id': 'mine' },
    }),
  );
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), {
    id: 5,
    q: '1',
    host: 'a.example:8080',
    ip: '',
    scheme: 'http',
    path: '/5',
    x: 'x',
    cookie: 'd',
    body: { a: 1 },
  });
  assert.equal(response.headers.get('x-request-id'), 'mine');
  assert.equal(
    response.headers.get('content-length'),
    String(
      JSON.stringify({
        id: 5,
        q: '1',
        host: 'a.example:8080',
        ip: '',
        scheme: 'http',
        path: '/5',
        x: 'x',
        cookie: 'd',
        body: { a: 1 },
      }).length,
    ),
  );
});

test('Svc.fetch() gives a handler an empty body if the request has none', async () => {
  const it = app()
    .get('/text', ({ req }) => req.text())
    .get('/stream', async ({ req }) => {
      let length = 0;
      for await (const chunk of req.stream()) length += chunk.length;
      return length;
    });
  assert.equal(await (await it.fetch(get('/text'))).text(), '');
  assert.equal(await (await it.fetch(get('/stream'))).json(), 0);
});

test('Svc.fetch() reads a body in chunks, including empty ones', async () => {
  const it = app().post('/', ({ req }) => req.text());
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const part of ['ab', '', 'c']) controller.enqueue(Buffer.from(part));
      controller.close();
    },
  });
  assert.equal(
    await (await it.fetch(get('/', { method: 'POST', body, duplex: 'half' } as RequestInit))).text(),
    'abc',
  );
});

for (const [what, body] of [
  [
    'fails',
    () =>
      new ReadableStream<Uint8Array>({
        pull() {
          throw new Error('source');
        },
      }),
  ],
  [
    'is text instead of bytes',
    () =>
      new ReadableStream<string>({
        start(controller) {
          controller.enqueue('text');
          controller.close();
        },
      }),
  ],
] as const) {
  test(`if the source of a request body fails or yields text, Svc.fetch() rejects reading with ClientDisconnected (the source ${what})`, async () => {
    const it = app().post('/', async ({ req }) => {
      await assert.rejects(req.text(), ClientDisconnected);
      return 'seen';
    });
    assert.equal(
      await (
        await it.fetch(get('/', { method: 'POST', body: body(), duplex: 'half' } as RequestInit))
      ).text(),
      'seen',
    );
  });
}

test('Svc.fetch() returns a null body for HEAD and for statuses without a body; HEAD keeps Content-Length', async () => {
  let ended = 0;
  const source = {
    [Symbol.asyncIterator]: () => ({
      next: () => Promise.reject(new Error('pulled')),
      return: async () => {
        ended++;
        return { done: true as const, value: undefined };
      },
    }),
  };
  const it = app()
    .get('/text', () => 'five!')
    .get('/{status:int}', ({ params }) => new HttpResponse('x', { status: params.status }))
    .get('/stream', () => new StreamingResponse(source));
  const head = await it.fetch(get('/text', { method: 'HEAD' }));
  assert.deepEqual([head.status, head.headers.get('content-length'), await head.text()], [200, '5', '']);
  assert.equal((await it.fetch(get('/stream', { method: 'HEAD' }))).headers.get('content-length'), null);
  assert.equal(ended, 1);
  for (const status of [204, 205, 304]) {
    const response = await it.fetch(get(`/${status}`));
    assert.deepEqual(
      [response.status, response.headers.get('content-length'), await response.text()],
      [status, status === 205 ? '0' : null, ''],
    );
  }
});

test('Svc.fetch() adds Secure to cookies of https requests, and returns each of several cookies separately', async () => {
  const it = app().get('/', () => new HttpResponse('x').setCookie('a', '1').setCookie('b', '2'));
  assert.deepEqual((await it.fetch(get('/'))).headers.getSetCookie(), [
    'a=1; Path=/; HttpOnly; SameSite=Lax',
    'b=2; Path=/; HttpOnly; SameSite=Lax',
  ]);
  assert.ok(
    (await it.fetch(new Request('https://a.example/'))).headers
      .getSetCookie()
      .every((cookie) => cookie.endsWith('; Secure')),
  );
});

test('Svc.fetch() calls the functions given to req.afterwards() before it resolves, or after the last chunk if the response is a stream', async () => {
  const order: unknown[] = [];
  const it = app()
    .use((req, next) => {
      (req as TransportRequest).afterwards((outcome) => void order.push(outcome));
      return next();
    })
    .get('/', () => 'x')
    .get('/stream', () => new StreamingResponse(['a', '', 'b']));
  await it.fetch(get('/'));
  assert.deepEqual(order, [undefined]);
  const response = await it.fetch(get('/stream'));
  assert.equal(order.length, 1);
  assert.equal(await response.text(), 'ab');
  assert.deepEqual(order, [undefined, undefined]);
});

test('when the reader of the response cancels, Svc.fetch() closes the source of the stream and aborts the signal of the request', async () => {
  const outcome = Promise.withResolvers<unknown>();
  let isEnded = false;
  let signal: AbortSignal | undefined;
  const it = app().get('/', ({ req }) => {
    signal = req.signal;
    (req as TransportRequest).afterwards((how) => outcome.resolve(how));
    return new StreamingResponse(
      (async function* () {
        try {
          for (;;) yield 'x';
        } finally {
          isEnded = true;
        }
      })(),
    );
  });
  const response = await it.fetch(get('/'));
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  assert.ok((await outcome.promise) instanceof ClientDisconnected);
  assert.ok(isEnded);
  assert.ok(signal!.aborted);
});

test('if the source of a stream fails, reading the response of Svc.fetch() rejects with the error, and the signal of the request does not abort', async () => {
  const failure = new Error('source');
  const outcome = Promise.withResolvers<unknown>();
  let signal: AbortSignal | undefined;
  const it = app().get('/', ({ req }) => {
    signal = req.signal;
    (req as TransportRequest).afterwards((how) => outcome.resolve(how));
    return new StreamingResponse(
      (function* () {
        yield 'x';
        throw failure;
      })(),
    );
  });
  await assert.rejects((await it.fetch(get('/'))).text(), (error) => error === failure);
  assert.equal(await outcome.promise, failure);
  assert.equal(signal!.aborted, false);
});

test('if a web Request is aborted, Svc.fetch() rejects at once with the reason, aborts the signal of the handler, and closes the source of its response', async () => {
  const controller = new AbortController();
  const reason = new Error('enough');
  const entered = Promise.withResolvers<void>();
  const rejected = Promise.withResolvers<void>();
  const returned = Promise.withResolvers<void>();
  const outcome = Promise.withResolvers<unknown>();
  const it = app().post('/', async ({ req }) => {
    (req as TransportRequest).afterwards((how) => outcome.resolve(how));
    const aborted = once(req.signal, 'abort');
    const body = assert.rejects(req.body(), ClientDisconnected);
    entered.resolve();
    await Promise.all([body, aborted, rejected.promise]);
    return new StreamingResponse({
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise<never>(() => undefined),
        return: async () => {
          returned.resolve();
          return { done: true as const, value: undefined };
        },
      }),
    });
  });
  const call = it.fetch(
    get('/', {
      method: 'POST',
      signal: controller.signal,
      body: new ReadableStream(),
      duplex: 'half',
    } as RequestInit),
  );
  await entered.promise;
  controller.abort(reason);
  await assert.rejects(call, reason);
  rejected.resolve();
  await returned.promise;
  assert.ok((await outcome.promise) instanceof ClientDisconnected);
});

test('Svc.fetch() of an aborted web Request rejects with the reason, and calls no handler', async () => {
  let calls = 0;
  const it = app().get('/', () => ++calls);
  await assert.rejects(it.fetch(get('/', { signal: AbortSignal.abort(new Error('too late')) })), /too late/);
  assert.equal(calls, 0);
  const controller = new AbortController();
  const during = app().get('/', () => ++calls);
  during.onStartup(() => controller.abort(new Error('while it starts')));
  await assert.rejects(during.fetch(get('/', { signal: controller.signal })), /while it starts/);
  await during.startup();
  assert.equal(calls, 0);
});

test('if a web Request is aborted while the source of the response is read, Svc.fetch() closes the source', async () => {
  const controller = new AbortController();
  const returned = Promise.withResolvers<void>();
  const it = app().get(
    '/',
    () =>
      new StreamingResponse(
        (async function* () {
          try {
            for (;;) {
              yield 'x';
              await new Promise((resolve) => setImmediate(resolve));
            }
          } finally {
            returned.resolve();
          }
        })(),
      ),
  );
  const reader = (await it.fetch(get('/', { signal: controller.signal }))).body!.getReader();
  await reader.read();
  controller.abort();
  await returned.promise;
  await assert.rejects(
    (async () => {
      while (!(await reader.read()).done);
    })(),
    { name: 'AbortError' },
  );
});

test('Svc.fetch() replaces an X-Request-Id that the handler has set', async () => {
  const it = app().get('/', () => new HttpResponse('x', { headers: { 'x-request-id': 'upstream' } }));
  assert.notEqual((await it.fetch(get('/'))).headers.get('x-request-id'), 'upstream');
});

test('the source of a streamed response starts when Svc.fetch() resolves, and stays one chunk ahead of the client', async () => {
  let started = 0;
  const it = app().get('/', () => {
    async function* chunks(): AsyncGenerator<string> {
      for (;;) {
        started++;
        yield 'x';
      }
    }
    return new StreamingResponse(chunks());
  });
  const response = await it.fetch(get('/'));
  assert.equal(started, 1);
  await turn();
  assert.equal(started, 1);
  const reader = response.body!.getReader();
  await reader.read();
  await turn();
  assert.equal(started, 2);
  await reader.cancel();
});
