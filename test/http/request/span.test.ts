import assert from 'node:assert/strict';
import { request as requestHttp } from 'node:http';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { Forbidden } from '../../../src/base/errors.ts';
import { traceHeaders } from '../../../src/http/request-id.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { Depends, provide } from '../../../src/routing/di.ts';
import { Field, Schema, str } from '../../../src/schema/schema.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeTracer } from '../../support/fake-tracer.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { TestContext } from 'node:test';
import type { RunningServer } from '../../../src/app/lifecycle.ts';
import type { SvcOptions } from '../../../src/app/options.ts';
import type { TraceContext } from '../../../src/http/request-id.ts';

const TRACE = '12345678901234567890123456789012';
const CALLER = '1234567890123456';
const PARENT = `00-${TRACE}-${CALLER}-01`;

interface Site {
  readonly app: Svc;
  readonly client: TestClient;
  readonly tracer: FakeTracer;
  readonly events: Record<string, unknown>[];
}

function application(t: TestContext, options: SvcOptions = {}): Site {
  const { logger, events } = collectedLog();
  const tracer = new FakeTracer();
  const app = new Svc({ logger, tracer, ...options });
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  return { app, client, tracer, events };
}

async function served(t: TestContext, app: Svc): Promise<RunningServer> {
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  return server;
}

/** Resolves when the first `count` spans have ended. */
async function ended(tracer: FakeTracer, count: number): Promise<void> {
  while (tracer.spans.length < count || tracer.spans.some((span) => !span.isEnded))
    await new Promise((resolve) => setImmediate(resolve));
}

test('a request has one server span with the name and the attributes of the conventions for HTTP', async (t) => {
  const { app, tracer } = application(t);
  app.get('/notes/{id:int}', ({ params }) => ({ id: params.id }));
  const { url, port } = await served(t, app);
  const headers = { 'user-agent': 'x'.repeat(300) };
  await (await fetch(`${url}/notes/7?page=2&token=hidden&code=hidden`, { headers })).text();
  await ended(tracer, 2);
  assert.deepEqual(tracer.tree(), ['GET /notes/{id:int}', '  handler']);
  const { kind, attributes } = tracer.span('GET /notes/{id:int}');
  assert.deepEqual(
    [kind, attributes],
    [
      'server',
      {
        'http.request.method': 'GET',
        'http.route': '/notes/{id:int}',
        'url.path': '/notes/7',
        'url.query': 'page=2&token=[redacted]&code=[redacted]',
        'url.scheme': 'http',
        'server.address': '127.0.0.1',
        'server.port': port,
        'client.address': '127.0.0.1',
        'network.protocol.version': '1.1',
        'user_agent.original': 'x'.repeat(256),
        'http.response.status_code': 200,
      },
    ],
  );
});

test('a span does not show the path of a route whose parameter is a secret, and names no invented methods or paths', async (t) => {
  const { app, client, tracer } = application(t);
  app.get('/reset/{token}', () => '');
  await client.get('/reset/hidden');
  await client.get('/nothing/here');
  await client.request('PROPFIND', '/nothing');
  const spans = tracer.spans.filter((span) => span.kind === 'server');
  assert.deepEqual(
    spans.map(({ name, attributes }) => [
      name,
      attributes['http.request.method'],
      attributes['http.request.method_original'],
      attributes['http.route'],
      attributes['url.path'],
      attributes['http.response.status_code'],
    ]),
    [
      ['GET /reset/{token}', 'GET', undefined, '/reset/{token}', '/reset/{token}', 200],
      ['GET', 'GET', undefined, undefined, '/nothing/here', 404],
      ['HTTP', '_OTHER', 'PROPFIND', undefined, '/nothing', 404],
    ],
  );
  tracer.assertEnded();
});

test('req.trace and log lines have the ids of the exported span: with traceparent in the trace of the caller, otherwise in a new trace', async (t) => {
  const { app, tracer, events } = application(t, { accessLog: true });
  const traces: TraceContext[] = [];
  app.get('/', ({ req }) => {
    traces.push(req.trace);
    throw new Error('mine');
  });
  const { url } = await served(t, app);
  const sent: Record<string, string>[] = [
    {},
    { traceparent: PARENT, tracestate: 'foo=1' },
    { traceparent: `00-${TRACE}-${CALLER}-00` },
    { traceparent: `00-${TRACE}-${CALLER}-1`, tracestate: 'foo=1' },
  ];
  for (const headers of sent) await (await fetch(url, { headers })).text();
  await ended(tracer, 8);
  const spans = tracer.spans.filter((span) => span.kind === 'server');
  assert.deepEqual(
    spans.map(({ traceId, parentId, isSampled, state }) => [traceId === TRACE, parentId, isSampled, state]),
    [
      [false, undefined, true, ''],
      [true, CALLER, true, 'foo=1'],
      [true, CALLER, false, ''],
      [false, undefined, true, ''],
    ],
  );
  for (const [at, { traceId, spanId, parentId, isSampled, state }] of spans.entries()) {
    const { inject: _, ...context } = traces[at]!;
    assert.deepEqual(context, { traceId, spanId, parentId, isSampled, state });
    for (const name of ['unhandled_error', 'request']) {
      const line = events.filter(({ event }) => event === name)[at]!;
      assert.deepEqual([line['trace_id'], line['span_id']], [traceId, spanId]);
    }
  }
});

test('traceHeaders() sends the active span of the tracer, or after it the span of the request', async (t) => {
  const { app, client, tracer } = application(t);
  let later: Record<string, string> = {};
  app.get('/', function show({ req }) {
    later = traceHeaders(req, CALLER);
    return traceHeaders(req);
  });
  const { traceparent } = (await (await client.get('/', { headers: { traceparent: PARENT } })).json()) as {
    traceparent: string;
  };
  assert.equal(traceparent, `00-${TRACE}-${tracer.span('handler show').spanId}-01`);
  assert.equal(later['traceparent'], PARENT);
  const trace = { traceId: TRACE, parentId: undefined, spanId: CALLER, isSampled: true, state: 'foo=1' };
  assert.deepEqual(traceHeaders({ trace: { ...trace, inject: () => ({}) } }), {
    traceparent: PARENT,
    tracestate: 'foo=1',
  });
});

test('the span of a request fails with unhandled errors and with statuses from 500, but not with refusals', async (t) => {
  const { app, client, tracer } = application(t);
  class Handled extends Error {}
  app.exceptionHandler(Handled, () => ['handled', 503]);
  app.get('/forbidden', () => {
    throw new Forbidden();
  });
  app.get('/handled', () => {
    throw new Handled();
  });
  app.get('/broken', () => {
    throw new TypeError('mine: Bearer abcdefghijk');
  });
  for (const path of ['/none', '/forbidden', '/handled', '/broken']) await client.get(path);
  await client.post('/broken');
  const spans = tracer.spans.filter((span) => span.kind === 'server');
  assert.deepEqual(
    spans.map(({ attributes, errors }) => [
      attributes['http.response.status_code'],
      attributes['error.type'],
      ...errors.map((error) => error?.message),
    ]),
    [
      [404, undefined],
      [403, undefined],
      [503, '503', undefined],
      [500, 'TypeError', 'mine: Bearer [redacted]'],
      [405, undefined],
    ],
  );
  tracer.assertEnded();
});

test('a span of a request ends once: after HEAD, a stream, a broken stream, a client that leaves, and a time limit', async (t) => {
  const { app, tracer, events } = application(t);
  const arrived = Promise.withResolvers<void>();
  const late = Promise.withResolvers<string>();
  app.get(
    '/stream',
    () =>
      new StreamingResponse(
        (async function* () {
          for (const part of ['a', 'b']) {
            yield part;
            await new Promise((resolve) => setImmediate(resolve));
            tracer.start(`after ${part}`, { kind: 'internal', attributes: {} }).end();
          }
        })(),
      ),
  );
  app.get(
    '/breaks',
    () =>
      new StreamingResponse(
        (function* () {
          yield 'x';
          throw new RangeError('source');
        })(),
      ),
  );
  app.get('/waits', ({ signal }) => {
    arrived.resolve();
    return new Promise((resolve) => signal.addEventListener('abort', () => resolve('late')));
  });
  app.get('/slow', { timeoutMs: 1 }, () => late.promise);
  const { url, port } = await served(t, app);
  await fetch(`${url}/stream`, { method: 'HEAD' });
  await (await fetch(`${url}/stream`)).text();
  await fetch(`${url}/breaks`)
    .then((response) => response.text())
    .catch(() => undefined);
  await using client = await RawClient.open(port);
  client.send('GET /waits HTTP/1.1\r\nHost: x\r\n\r\n');
  await arrived.promise;
  await client[Symbol.asyncDispose]();
  assert.equal((await fetch(`${url}/slow`)).status, 503);
  late.reject(new Error('late'));
  await ended(tracer, 12);
  while (!events.some(({ error }) => (error as Error | undefined)?.message === 'late'))
    await new Promise((resolve) => setImmediate(resolve));
  assert.equal(
    events.some(({ event }) => event === 'tracer_failed'),
    false,
  );
  const outcome = (name: string, at = 0): unknown[] => {
    const { attributes } = tracer.spans.filter((span) => span.name === name)[at]!;
    return [attributes['http.response.status_code'], attributes['error.type'], attributes['svc.aborted']];
  };
  assert.deepEqual(outcome('HEAD /stream'), [200, undefined, undefined]);
  assert.deepEqual(outcome('GET /stream'), [200, undefined, undefined]);
  assert.deepEqual(outcome('GET /breaks'), [200, 'RangeError', true]);
  assert.deepEqual(outcome('GET /waits'), [200, undefined, true]);
  assert.equal(outcome('GET /slow')[0], 503);
  // the body of a stream runs within the span of its request
  const stream = tracer.span('GET /stream');
  for (const part of ['a', 'b']) assert.equal(tracer.span(`after ${part}`).traceId, stream.traceId);
});

test('dependencies and handlers have spans below the span of their request, also for concurrent requests and after the body was read', async (t) => {
  const { app, client, tracer } = application(t);
  class Note extends Schema {
    text = Field(str);
  }
  const settings = (): string => 'shared';
  async function* connection(): AsyncGenerator<string> {
    await new Promise((resolve) => setImmediate(resolve));
    yield 'c';
  }
  const user = provide({ connection: Depends(connection) }, function user({ connection }) {
    return `u${connection}`;
  });
  const broken = (): never => {
    throw new RangeError('no');
  };
  app.post(
    '/me',
    { body: Note, user: Depends(user, { scope: 'handler' }), settings: Depends(settings, { scope: 'app' }) },
    async function me({ user, settings }) {
      await new Promise((resolve) => setImmediate(resolve));
      tracer.start('own', { kind: 'internal', attributes: {} }).end();
      return { user, settings };
    },
  );
  app.get('/broken', { broken: Depends(broken) }, () => '');
  const post = (): Promise<unknown> => client.post('/me', { json: { text: 'x' } });
  await Promise.all([post(), post()]);
  const one = ['POST /me', '  dependency connection', '  dependency user', '  handler me', '    own'];
  assert.deepEqual(tracer.tree(), [...one, ...one]);
  await client.get('/broken');
  const { attributes, errors } = tracer.span('dependency broken');
  assert.deepEqual([attributes['error.type'], errors.length], ['RangeError', 1]);
  assert.equal(tracer.span('handler me').attributes['code.function.name'], 'me');
  tracer.assertEnded();
});

test('a request of app.fetch() joins the active span, and a pipelined request does not join the span before it', async (t) => {
  const { app, tracer } = application(t);
  app.get('/inner', () => '');
  app.get('/outer', async () => (await app.fetch(new Request('http://localhost/inner'))).text());
  const { port } = await served(t, app);
  await using client = await RawClient.open(port);
  client.send('GET /outer HTTP/1.1\r\nHost: x\r\n\r\nGET /inner HTTP/1.1\r\nHost: x\r\n\r\n');
  await client.answer();
  await client.answer();
  await ended(tracer, 6);
  assert.deepEqual(tracer.tree(), [
    'GET /outer',
    '  handler',
    '    GET /inner',
    '      handler',
    'GET /inner',
    '  handler',
  ]);
});

test('a tracer that throws or makes no span changes no response', async (t) => {
  for (const start of [
    () => undefined,
    () => {
      throw new Error('no');
    },
  ]) {
    const { logger } = collectedLog();
    const app = new Svc({ logger, tracer: { start, inject: () => ({}) } });
    app.get('/', ({ req }) => req.trace.traceId.length);
    const client = new TestClient(app);
    t.after(() => client.close());
    assert.equal(await (await client.get('/', { headers: { traceparent: PARENT } })).json(), 32);
  }
});

test('without a tracer, requests have no span', async (t) => {
  const { app, client } = application(t, { tracer: undefined });
  let span: unknown = 'not run';
  app.get('/', ({ req }) => {
    span = (req as unknown as { span: unknown }).span;
    return '';
  });
  await client.get('/');
  assert.equal(span, undefined);
});

test('a request inside another server, by app.requestListener(), has a span', async (t) => {
  const { app, tracer } = application(t);
  app.get('/', () => '');
  const { createServer } = await import('node:http');
  const listeners = await app.requestListener();
  const outer = createServer(listeners.request);
  await new Promise<void>((resolve) => outer.listen(0, '127.0.0.1', resolve));
  t.after(() => outer.close());
  const { port } = outer.address() as { port: number };
  await new Promise<void>((resolve) => {
    requestHttp({ port, host: '127.0.0.1', headers: { traceparent: PARENT } }, (response) =>
      response.resume().once('end', resolve),
    ).end();
  });
  await ended(tracer, 2);
  assert.equal(tracer.span('GET /').parentId, CALLER);
});

test('spans have no signatures of signed URLs, and no credentials that a user agent contains', async (t) => {
  const { app, client, tracer } = application(t);
  app.get('/file', () => 'x');
  await client.get('/file?sig=abcdef&X-Amz-Signature=abcdef&X-Goog-Signature=abcdef&AWSAccessKeyId=abcdef', {
    headers: { 'user-agent': 'tool Bearer abcdefghijklmnopqrst' },
  });
  const { attributes } = tracer.span('GET /file');
  assert.doesNotMatch(JSON.stringify(attributes), /abcdef/);
});
