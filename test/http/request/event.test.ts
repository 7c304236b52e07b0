import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import test from 'node:test';
import { inspect } from 'node:util';
import { Svc } from '../../../src/app/svc.ts';
import { Depends, provide } from '../../../src/routing/di.ts';
import { Forbidden } from '../../../src/base/errors.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { Field, Schema, str } from '../../../src/schema/schema.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { run } from '../../support/run.ts';
import type { TestContext } from 'node:test';
import type { DependencyEvent, HandlerEvent, RequestEvent } from '../../../src/http/request/event.ts';

type Phase = 'start' | 'end' | 'asyncStart' | 'asyncEnd' | 'error';
const PHASES: readonly Phase[] = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'];

/** Records every phase of a channel until the test ends. */
function hear(
  t: TestContext,
  channel: string,
  on: (phase: Phase, event: never) => void,
  phases: readonly Phase[] = PHASES,
): void {
  const subscribers = Object.fromEntries(
    phases.map((phase) => [phase, (event: object) => on(phase, event as never)]),
  ) as Record<Phase, (event: object) => void>;
  const tracing = tracingChannel<unknown, object>(channel);
  tracing.subscribe(subscribers);
  t.after(() => tracing.unsubscribe(subscribers));
}

function application(t: TestContext): {
  readonly app: Svc;
  readonly client: TestClient;
  readonly events: Record<string, unknown>[];
} {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  return { app, client, events };
}

test('the diagnostics channel svc:request publishes one event object per request, from the match of the route to the end of the response', async (t) => {
  const { app, client } = application(t);
  const seen: [Phase, unknown][] = [];
  const reported = new Set<object>();
  hear(t, 'svc:request', (phase, event: RequestEvent) => {
    reported.add(event);
    seen.push([
      phase,
      phase === 'start'
        ? [event.method, event.route, event.path, event.scheme, event.host, event.status, event.userAgent]
        : phase === 'asyncStart'
          ? [event.status, event.bytes, event.isDelivered]
          : event.isDelivered,
    ]);
  });
  app.get('/notes/{id:int}', async ({ params }) => ({ id: params.id }));
  await client.get('/notes/7?secret=1', { headers: { 'user-agent': 'x'.repeat(300) } });
  assert.deepEqual(seen, [
    ['start', ['GET', '/notes/{id:int}', '/notes/7', 'http', 'localhost', 0, 'x'.repeat(256)]],
    ['end', undefined],
    ['asyncStart', [200, 8, undefined]],
    ['asyncEnd', true],
  ]);
  assert.equal(reported.size, 1);
});

test('an event of the diagnostics channel svc:request has the ids of its request and a duration, but no query, header or body', async (t) => {
  const { app, client } = application(t);
  let event: RequestEvent | undefined;
  hear(
    t,
    'svc:request',
    (_, one: RequestEvent) => {
      event = one;
    },
    ['asyncEnd'],
  );
  app.get('/', () => 'x');
  const response = await client.get('/?code=hidden-1', {
    headers: {
      authorization: 'Bearer hidden-2',
      traceparent: '00-12345678901234567890123456789012-1234567890123456-01',
    },
  });
  assert.equal(event!.requestId, response.headers.get('x-request-id'));
  assert.deepEqual(
    [event!.trace.traceId, event!.trace.parentId, event!.trace.isSampled],
    ['12345678901234567890123456789012', '1234567890123456', true],
  );
  assert.ok(event!.durationMs >= 0);
  for (const shown of [inspect(event, { depth: 9, showHidden: true }), JSON.stringify(event)])
    assert.doesNotMatch(shown, /hidden/);
});

test('the diagnostics channel svc:request publishes only errors that no exception handler handles', async (t) => {
  const { app, client, events } = application(t);
  const seen: unknown[] = [];
  hear(t, 'svc:request', (phase, { route, status, error }: RequestEvent) => {
    if (phase === 'error') seen.push((error as Error).message);
    if (phase === 'asyncEnd') seen.push([route, status]);
  });
  app.get('/forbidden', () => {
    throw new Forbidden();
  });
  app.get('/broken', () => {
    throw new Error('mine');
  });
  await client.get('/nothing');
  await client.get('/forbidden');
  await client.get('/broken', {
    headers: { traceparent: '00-12345678901234567890123456789012-1234567890123456-01' },
  });
  assert.deepEqual(seen, [[undefined, 404], ['/forbidden', 403], 'mine', ['/broken', 500]]);
  assert.equal(
    events.find((line) => line['event'] === 'unhandled_error')!['trace_id'],
    '12345678901234567890123456789012',
  );
});

test('the diagnostics channel svc:request publishes an error that interrupts a response after its head, and publishes no error if the client leaves', async (t) => {
  const { app } = application(t);
  const ends: unknown[] = [];
  const [arrived, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  hear(t, 'svc:request', (phase, { isDelivered, error, bytes }: RequestEvent) => {
    if (phase === 'asyncEnd') ends.push([isDelivered, (error as Error | undefined)?.message, bytes]);
    if (phase === 'asyncEnd' && ends.length === 2) ended.resolve();
  });
  app.get(
    '/breaks',
    () =>
      new StreamingResponse(
        (function* () {
          yield 'x';
          throw new Error('source');
        })(),
      ),
  );
  app.get(
    '/waits',
    ({ signal }) =>
      new Promise((resolve) => {
        arrived.resolve();
        signal.addEventListener('abort', () => resolve('late'));
      }),
  );
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  await fetch(`${server.url}/breaks`)
    .then((response) => response.text())
    .catch(() => undefined);
  await using client = await RawClient.open(server.port);
  client.send('GET /waits HTTP/1.1\r\nHost: x\r\n\r\n');
  await arrived.promise;
  await client[Symbol.asyncDispose]();
  await ended.promise;
  assert.deepEqual(ends, [
    [false, 'source', 1],
    [false, undefined, 4],
  ]);
});

test('the diagnostics channels svc:dependency and svc:handler publish the start, end and errors of each dependency and handler, with the event of the request', async (t) => {
  const { app, client } = application(t);
  const seen: string[] = [];
  let request: RequestEvent | undefined;
  hear(
    t,
    'svc:request',
    (_, event: RequestEvent) => {
      request = event;
    },
    ['start'],
  );
  hear(t, 'svc:dependency', (phase, event: DependencyEvent) => {
    assert.equal(event.request, request);
    seen.push(
      `${event.name} ${event.scope} ${phase}${event.error === undefined ? '' : ` ${(event.error as Error).message}`}`,
    );
  });
  hear(t, 'svc:handler', (phase, event: HandlerEvent) => {
    assert.equal(event.request, request);
    seen.push(`${event.name} ${phase}`);
  });
  const settings = (): string => 'shared';
  async function* connection(): AsyncGenerator<string> {
    yield 'c';
  }
  const user = provide({ connection: Depends(connection) }, function user({ connection }) {
    return `u${connection}`;
  });
  const broken = (): never => {
    throw new Error('no');
  };
  app.get(
    '/me',
    { user: Depends(user, { scope: 'handler' }), settings: Depends(settings, { scope: 'app' }) },
    function me({ user, settings }) {
      return { user, settings };
    },
  );
  app.get('/broken', { broken: Depends(broken) }, function never() {
    return '';
  });
  app.get('/plain', function plain() {
    return '';
  });
  assert.deepEqual(await (await client.get('/me')).json(), { user: 'uc', settings: 'shared' });
  assert.deepEqual(seen, [
    'connection request start',
    'connection request end',
    'connection request asyncStart',
    'connection request asyncEnd',
    'user handler start',
    'user handler end',
    'me start',
    'me end',
  ]);
  seen.length = 0;
  assert.equal((await client.get('/broken')).status, 500);
  assert.equal((await client.get('/plain')).status, 200);
  assert.deepEqual(seen, [
    'broken request start',
    'broken request error no',
    'broken request end no',
    'plain start',
    'plain end',
  ]);
});

test('an AsyncLocalStorage bound to the start of svc:request has its value in dependencies and handlers, also after the body was read', async (t) => {
  const { app, client } = application(t);
  const store = new AsyncLocalStorage<string>();
  const { start } = tracingChannel<unknown, object>('svc:request');
  start.bindStore(store, (event) => (event as RequestEvent).requestId);
  t.after(() => start.unbindStore(store));
  class Note extends Schema {
    text = Field(str);
  }
  const seen: (string | undefined)[] = [];
  const dependency = (): string => String(store.getStore());
  app.post('/plain', { body: Note }, () => String(store.getStore())); // nothing of the application's runs before the body is read
  app.post('/raw', async ({ req }) => {
    await req.json();
    return String(store.getStore());
  });
  app.post(
    '/with',
    { body: Note, dependency: Depends(dependency) },
    ({ dependency }) => `${dependency} ${store.getStore()}`,
  );
  app.onStartup(() => {
    seen.push(store.getStore());
  });
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  await using raw = await RawClient.open(server.port);
  for (const path of ['/plain', '/raw', '/with']) {
    const [first, second] = ['{"text":', '"x"}'];
    raw.send(
      `POST ${path} HTTP/1.1\r\nHost: x\r\nX-Request-Id: id${path}\r\nContent-Type: application/json\r\nContent-Length: ${first.length + second.length}\r\n\r\n${first}`,
    );
    await new Promise((resolve) => setImmediate(resolve)); // the body arrives in its own turn
    raw.send(second);
    const { body } = await raw.answer();
    assert.equal(body.toString(), path === '/with' ? 'id/with id/with' : `id${path}`);
  }
  assert.deepEqual([seen, store.getStore()], [[undefined], undefined]);
  await client.close();
});

/** Imitates an OpenTelemetry instrumentation: a span for each start, its parent from a store, its end with the last event. */
class Spans {
  readonly finished: { readonly name: string; readonly id: number; readonly parent: number | undefined }[] =
    [];
  readonly #store = new AsyncLocalStorage<{ readonly id: number }>();
  #ids = 0;

  watch(t: TestContext, channel: string, nameOf: (event: never) => string): void {
    const tracing = tracingChannel<unknown, object>(channel);
    const spans = new WeakMap<
      object,
      { readonly name: string; readonly id: number; readonly parent: number | undefined }
    >();
    tracing.start.bindStore(this.#store, (event) => {
      const span = { name: nameOf(event as never), id: ++this.#ids, parent: this.#store.getStore()?.id };
      spans.set(event as object, span);
      return span;
    });
    const isRequest = channel === 'svc:request';
    const finish = (event: object): void => {
      const span = spans.get(event);
      if (span !== undefined && spans.delete(event)) this.finished.push(span);
    };
    hear(t, channel, (phase, event) => {
      if (phase === 'asyncEnd' || (phase === 'end' && !isRequest)) finish(event);
    });
    t.after(() => tracing.start.unbindStore(this.#store));
  }

  /** Returns the finished spans as a tree. */
  tree(parent?: number): object {
    return Object.fromEntries(
      this.finished.filter((span) => span.parent === parent).map(({ name, id }) => [name, this.tree(id)]),
    );
  }
}

test('a subscriber of the diagnostics channels can build a correct tree of OpenTelemetry spans for concurrent requests', async (t) => {
  const { app, client } = application(t);
  const spans = new Spans();
  spans.watch(t, 'svc:request', ({ method, path }: RequestEvent) => `${method} ${path}`);
  spans.watch(t, 'svc:dependency', ({ name, request }: DependencyEvent) => `${name} of ${request.path}`);
  spans.watch(t, 'svc:handler', ({ name, request }: HandlerEvent) => `${name} of ${request.path}`);
  const account = async (): Promise<string> => {
    await new Promise((resolve) => setImmediate(resolve));
    return 'a';
  };
  app.get('/shop/{id}', { account: Depends(account) }, async function show({ account }) {
    await new Promise((resolve) => setImmediate(resolve));
    return account;
  });
  await Promise.all(['1', '2', '3'].map((id) => client.get(`/shop/${id}`)));
  assert.deepEqual(
    spans.tree(),
    Object.fromEntries(
      ['1', '2', '3'].map((id) => [
        `GET /shop/${id}`,
        { [`account of /shop/${id}`]: {}, [`show of /shop/${id}`]: {} },
      ]),
    ),
  );
});

test('if a subscriber of a diagnostics channel throws, the request continues, and Node reports an uncaught exception', async () => {
  const program = `
    import { channel } from 'node:diagnostics_channel';
    import { Svc } from 'svc';
    import { TestClient } from 'svc/testing';
    const reported = [];
    process.on('uncaughtException', ({ message }) => reported.push(message));
    for (const name of ['request', 'handler', 'dependency']) for (const phase of ['start', 'end', 'asyncStart', 'asyncEnd']) channel(\`tracing:svc:\${name}:\${phase}\`).subscribe(() => { throw new Error(\`\${name} \${phase}\`); });
    const app = new Svc();
    app.get('/', async () => 'fine');
    const client = new TestClient(app);
    const response = await client.get('/');
    await client.close();
    await new Promise((resolve) => setImmediate(resolve));
    console.log(response.status, await response.text(), reported.sort().join());`;
  const { status, stdout, stderr } = await run(
    process.execPath,
    ['--conditions=svc-source', '--input-type=module', '--eval', program],
    { cwd: process.cwd() },
  );
  assert.equal(status, 0, stderr);
  assert.equal(
    stdout.trim(),
    '200 fine handler asyncEnd,handler asyncStart,handler end,handler start,request asyncEnd,request asyncStart,request end,request start',
  );
});

test('if no diagnostics channel has a subscriber, requests have no event object', async (t) => {
  const { app, client } = application(t);
  let event: unknown = 'not run';
  app.get('/', ({ req }) => {
    event = (req as unknown as { event: unknown }).event;
    return '';
  });
  await client.get('/');
  assert.equal(event, undefined);
});
