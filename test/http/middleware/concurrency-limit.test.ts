import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  CORSMiddleware,
  ConcurrencyLimitMiddleware,
  StreamingResponse,
  SessionMiddleware,
  Svc,
  TimeoutMiddleware,
} from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { EventLoopDelay } from '../../../src/observability/event-loop.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import type { ConcurrencyLimitOptions } from 'svc';

interface Site {
  readonly app: Svc;
  readonly client: TestClient;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  /** Names of the requests, in the order in which their handlers have begun. */
  readonly begun: string[];
  /** Lets the handler of the request `name` return. */
  answer(name: string): Promise<void>;
  /** Sends the request `name`. Returns the status of its response. */
  send(name: string, signal?: AbortSignal): Promise<void>;
  readonly statuses: Record<string, number>;
}

function site(options: ConcurrencyLimitOptions, change: (app: Svc) => void = () => undefined): Site {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const begun: string[] = [];
  const gates = new Map<string, PromiseWithResolvers<string>>();
  const app = new Svc({ logger });
  change(app);
  app
    .use(new ConcurrencyLimitMiddleware(options))
    .get('/sync', () => 'x')
    .get('/free', { meta: { loadShedding: false } }, () => 'x')
    .get('/{name}', ({ params }) => {
      begun.push(params.name);
      const gate = Promise.withResolvers<string>();
      gates.set(params.name, gate);
      return gate.promise;
    });
  const client = new TestClient(app, { clock, raiseErrors: false });
  const statuses: Record<string, number> = {};
  return {
    app,
    client,
    clock,
    events,
    begun,
    statuses,
    async answer(name) {
      gates.get(name)!.resolve(name);
      await turn();
    },
    async send(name, signal) {
      client.get(`/${name}`, { signal }).then(
        ({ status }) => {
          statuses[name] = status;
        },
        () => {
          statuses[name] = 0;
        },
      );
      await turn();
    },
  };
}

async function metrics(client: TestClient, prefix: string): Promise<string[]> {
  return (await (await client.get('/metrics')).text()).split('\n').filter((line) => line.startsWith(prefix));
}

test('ConcurrencyLimitMiddleware answers requests above "max" with 503, Retry-After and a problem, and accepts requests again when running requests have finished', async () => {
  const s = site({ max: 2, retryAfterSeconds: 7 });
  await using client = s.client;
  for (const name of ['a', 'b']) await s.send(name);
  const refused = await client.get('/c');
  const body = (await refused.json()) as Record<string, unknown>;
  assert.deepEqual(
    [refused.status, refused.headers.get('retry-after'), refused.headers.get('content-type'), body['code']],
    [503, '7', 'application/problem+json', 'overloaded'],
  );
  await s.answer('a');
  await s.send('d');
  assert.deepEqual([s.begun, s.statuses], [['a', 'b', 'd'], { a: 200 }]);
  assert.deepEqual(await metrics(client, 'svc_requests_shed_total{'), [
    'svc_requests_shed_total{reason="concurrency"} 1',
  ]);
  for (const name of ['b', 'd']) await s.answer(name);
});

test('ConcurrencyLimitMiddleware does not count exempt routes, health probes, /metrics or requests that are answered synchronously', async () => {
  const s = site({ max: 1 });
  await using client = s.client;
  for (let round = 0; round < 3; round++) assert.equal((await client.get('/sync')).status, 200);
  await s.send('a');
  assert.equal((await client.get('/sync')).status, 503);
  for (const path of ['/free', '/healthz', '/readyz', '/metrics'])
    assert.equal((await client.get(path)).status, 200, path);
  await s.answer('a');
});

test('ConcurrencyLimitMiddleware queues as many requests as the option "queue" allows, in order of arrival, and refuses requests when the queue is full', async () => {
  const s = site({ max: 1, queue: 2 });
  await using client = s.client;
  for (const name of ['a', 'b', 'c', 'd']) await s.send(name);
  assert.deepEqual([s.begun, s.statuses], [['a'], { d: 503 }]);
  assert.deepEqual(await metrics(client, 'svc_requests_queued '), ['svc_requests_queued 2']);
  await s.answer('a');
  await s.send('e');
  assert.deepEqual(s.begun, ['a', 'b']);
  for (const name of ['b', 'c', 'e']) await s.answer(name);
  assert.deepEqual([s.begun, s.statuses], [['a', 'b', 'c', 'e'], { a: 200, b: 200, c: 200, d: 503, e: 200 }]);
  assert.deepEqual(await metrics(client, 'svc_requests_queued '), ['svc_requests_queued 0']);
});

test('ConcurrencyLimitMiddleware refuses a request that has waited for maxQueueMs, and frees its place in the queue', async () => {
  const s = site({ max: 1, queue: 1, maxQueueMs: 500 });
  await using client = s.client;
  for (const name of ['a', 'b']) await s.send(name);
  await s.clock.advance(499 - 1);
  assert.deepEqual(s.statuses, {});
  await s.clock.advance(2);
  assert.deepEqual(s.statuses, { b: 503 });
  await s.send('c');
  await s.answer('a');
  assert.deepEqual(s.begun, ['a', 'c']);
  await s.answer('c');
  assert.deepEqual(await metrics(client, 'svc_requests_shed_total{'), [
    'svc_requests_shed_total{reason="queue_timeout"} 1',
  ]);
});

test('if the client of a waiting request leaves, ConcurrencyLimitMiddleware removes the request, and its handler never runs', async () => {
  const s = site({ max: 1, queue: 1 });
  await using client = s.client;
  await s.send('a');
  const abort = new AbortController();
  await s.send('b', abort.signal);
  await s.send('refused');
  abort.abort();
  await turn();
  await s.send('c');
  await s.answer('a');
  assert.deepEqual([s.begun, s.statuses['refused']], [['a', 'c'], 503]);
  await s.answer('c');
  assert.equal(s.events.filter(({ level }) => level === 'error').length, 0);
  assert.deepEqual(await metrics(client, 'svc_requests_queued '), ['svc_requests_queued 0']);
});

test('if a client closes its socket, ConcurrencyLimitMiddleware removes its waiting request', async () => {
  const { logger } = collectedLog();
  const gate = Promise.withResolvers<string>();
  const begun: string[] = [];
  const app = new Svc({ logger })
    .use(new ConcurrencyLimitMiddleware({ max: 1, queue: 5, maxQueueMs: 60_000 }))
    .get('/{name}', ({ params }) => {
      begun.push(params.name);
      return gate.promise;
    });
  await app.startup();
  const server = new HttpServer(app.application());
  const { port } = await server.listen({ port: 0 });
  const clients = await Promise.all(['a', 'b', 'c'].map(() => RawClient.open(port)));
  const queued = (): number => Number(/^svc_requests_queued (\d+)$/m.exec(app.metrics.render())![1]);
  for (const [index, name] of ['a', 'b', 'c'].entries()) {
    clients[index]!.get(`/${name}`);
    while (begun.length + queued() < index + 1) await turn();
  }
  clients[1]!.socket.destroy();
  while (queued() > 1) await turn();
  gate.resolve('x');
  assert.deepEqual(
    [(await clients[0]!.answer()).status, (await clients[2]!.answer()).status, begun],
    [200, 200, ['a', 'c']],
  );
  for (const client of clients) client.socket.destroy();
  assert.equal(await server.close(60_000), 0);
  await app.shutdown();
});

test('ConcurrencyLimitMiddleware counts a handler until it ends, even after its time limit has passed and its client has received a 503', async () => {
  for (const isOutside of [true, false]) {
    const s = site({ max: 1 }, (app) => {
      if (isOutside) app.use(new TimeoutMiddleware({ seconds: 1 }));
    });
    if (!isOutside) s.app.use(new TimeoutMiddleware({ seconds: 1 }));
    await using _ = s.client;
    await s.send('a');
    await s.clock.advance(1_000);
    await s.send('b');
    assert.deepEqual([s.statuses, s.begun], [{ a: 503, b: 503 }, ['a']]);
    await s.answer('a');
    await s.send('c');
    assert.deepEqual(s.begun, ['a', 'c']);
    await s.answer('c');
    assert.equal(s.statuses['c'], 200);
  }
});

test('ConcurrencyLimitMiddleware removes a waiting request when the time limit of the request has passed', async () => {
  const s = site(
    { max: 1, queue: 1, maxQueueMs: 60_000 },
    (app) => void app.use(new TimeoutMiddleware({ seconds: 1 })),
  );
  await using client = s.client;
  await s.send('a');
  await s.clock.advance(500);
  await s.send('b');
  await s.clock.advance(1_000);
  assert.deepEqual(s.statuses, { a: 503, b: 503 });
  await s.answer('a');
  assert.deepEqual(s.begun, ['a']);
  assert.deepEqual(await metrics(client, 'svc_requests_queued '), ['svc_requests_queued 0']);
});

test('ConcurrencyLimitMiddleware counts a streamed response only until its head is sent', async () => {
  const s = site(
    { max: 1 },
    (app) =>
      void app.get(
        '/stream',
        async () =>
          new StreamingResponse(
            (async function* () {
              yield 'x';
            })(),
          ),
      ),
  );
  await using client = s.client;
  const first = await client.get('/stream');
  assert.equal((await client.get('/stream')).status, 200);
  assert.equal(await first.text(), 'x');
});

test('while the event loop is delayed, ConcurrencyLimitMiddleware refuses all requests except health probes, unless maxEventLoopDelayMs is false', async () => {
  for (const [maxEventLoopDelayMs, expected] of [
    [200, [200, 503, 503, 200]],
    [undefined, [200, 503, 503, 200]],
    [false, [200, 200, 200, 200]],
  ] as const) {
    const s = site({ maxEventLoopDelayMs });
    const samples: number[] = [20];
    Object.defineProperty(EventLoopDelay.of(s.app.metrics), 'recentMs', {
      value: () => samples.at(-1)! - 20,
    });
    await using client = s.client;
    const statuses: number[] = [];
    for (const ms of [220, 221, 5_000, 30]) {
      samples.push(ms);
      statuses.push((await client.get('/sync')).status);
      assert.equal((await client.get('/healthz')).status, 200);
    }
    assert.deepEqual(statuses, expected);
    if (maxEventLoopDelayMs !== false)
      assert.deepEqual(
        s.events
          .filter(({ event }) => event === 'load_shed')
          .map(({ reason, requests }) => [reason, requests]),
        [['event_loop_delay', 1]],
      );
  }
});

test('ConcurrencyLimitMiddleware logs refused requests once a minute, with their number', async () => {
  const s = site({ max: 1 });
  await using client = s.client;
  await s.send('a');
  for (let round = 0; round < 5; round++) await client.get('/b');
  await s.clock.advance(60_000);
  await client.get('/b');
  assert.deepEqual(
    s.events.filter(({ event }) => event === 'load_shed').map(({ requests, running }) => [requests, running]),
    [
      [1, 1],
      [5, 1],
    ],
  );
  await s.answer('a');
});

test('a ConcurrencyLimitMiddleware of a route applies in addition to the one of the application, and both share one metric', async () => {
  const { logger } = collectedLog();
  const gate = Promise.withResolvers<string>();
  const app = new Svc({ logger })
    .use(new ConcurrencyLimitMiddleware({ max: 10 }))
    .get('/report', { use: [new ConcurrencyLimitMiddleware({ max: 1 })] }, () => gate.promise)
    .get('/', () => 'x');
  await using client = new TestClient(app);
  const first = client.get('/report');
  await turn();
  assert.deepEqual([(await client.get('/report')).status, (await client.get('/')).status], [503, 200]);
  gate.resolve('done');
  assert.equal((await first).status, 200);
  assert.deepEqual(await metrics(client, 'svc_requests_shed_total{'), [
    'svc_requests_shed_total{reason="concurrency"} 1',
  ]);
});

test('ConcurrencyLimitMiddleware refuses invalid options; check() reports its wrong position and its use by two applications (SVC121)', () => {
  for (const options of [
    { max: 0 },
    { max: 1.5 },
    { queue: -1 },
    { maxQueueMs: 0 },
    { maxEventLoopDelayMs: 0 },
    { maxEventLoopDelayMs: true },
    { retryAfterSeconds: 0 },
  ]) {
    assert.throws(
      () => new ConcurrencyLimitMiddleware(options as never),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(options),
    );
  }
  assert.throws(() => new ConcurrencyLimitMiddleware({ limit: 5 } as never), { code: 'E_OPTION_UNKNOWN' });
  const findings = (app: Svc): unknown[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity, subject }) => [severity, subject]);
  const layer = new ConcurrencyLimitMiddleware();
  assert.deepEqual(
    findings(
      new Svc({ authSecret: 'an example secret that is long enough 1' })
        .use(new SessionMiddleware())
        .use(layer),
    ),
    [['warning', 'middleware concurrency-limit']],
  );
  assert.deepEqual(findings(new Svc().use(layer)), [['error', 'middleware concurrency-limit']]);
  assert.deepEqual(
    findings(new Svc().use(new ConcurrencyLimitMiddleware()).use(new CORSMiddleware({ origins: '*' }))),
    [['error', 'middleware cors']],
  );
});

test('in generated sequences of requests, ConcurrencyLimitMiddleware never exceeds its limit and answers every waiting request', async () => {
  const below = seeded(100);
  const s = site({ max: 3, queue: 4, maxQueueMs: 50 });
  await using client = s.client;
  const aborts = new Map<string, AbortController>();
  const done = new Set<string>();
  let sent = 0;
  for (let step = 0; step < 600; step++) {
    const running = s.begun.filter((name) => !done.has(name));
    assert.ok(running.length <= 3, `${running.length} run`);
    const action = below(10);
    if (action < 5) {
      const name = `r${sent++}`;
      aborts.set(name, new AbortController());
      await s.send(name, aborts.get(name)!.signal);
    } else if (action < 8 && running.length > 0) {
      const name = running[below(running.length)]!;
      done.add(name);
      await s.answer(name);
    } else if (action === 8) {
      const waiting = [...aborts.keys()].filter(
        (name) => s.statuses[name] === undefined && !s.begun.includes(name),
      );
      if (waiting.length > 0) aborts.get(waiting[below(waiting.length)]!)!.abort();
      await turn();
    } else await s.clock.advance(below(30));
  }
  for (let round = 0; round < 10; round++)
    for (const name of s.begun.filter((each) => !done.has(each))) {
      done.add(name);
      await s.answer(name);
    }
  await s.clock.advance(100);
  assert.equal(Object.keys(s.statuses).length, sent);
  assert.deepEqual(await metrics(client, 'svc_requests_queued '), ['svc_requests_queued 0']);
  assert.equal((await client.get('/sync')).status, 200);
});
