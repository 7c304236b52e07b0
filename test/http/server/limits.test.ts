import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { USUAL_LIMITS } from '../../../src/http/server/options.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import type { SvcOptions } from '../../../src/app/options.ts';
import type { RunningServer } from '../../../src/app/lifecycle.ts';

type Served = {
  app: Svc;
  server: RunningServer;
  events: readonly Record<string, unknown>[];
} & AsyncDisposable;

async function serve(declare: (app: Svc) => void, options: SvcOptions = {}): Promise<Served> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, ...options });
  declare(app);
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  return { app, server, events, [Symbol.asyncDispose]: () => server.close() };
}

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const POST = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n';

test('the limits of a server have the defaults that their doc comments state', () => {
  const source = readFileSync(new URL('../../../src/http/server/options.ts', import.meta.url), 'utf8');
  for (const [name, value] of Object.entries(USUAL_LIMITS)) {
    if (name === 'maxHeldBytes') continue; // depends on the heap
    const [comment = ''] = source.split(`readonly ${name}?:`)[0]!.split('/**').slice(-1);
    const [, stated] = /Default\s+(?:\*\s+)?([\d_]+)/.exec(comment) ?? assert.fail(`${name}: no default`);
    assert.equal(value, Number(stated!.replaceAll('_', '')), name);
  }
});

test('limits out of range are refused, both in the options of new Svc() and in its configuration', () => {
  for (const options of [
    { headersTimeoutMs: 9 },
    { requestTimeoutMs: 0 },
    { keepAliveTimeoutMs: Infinity },
    { sendTimeoutMs: 9 },
    { maxConnections: 0 },
    { maxInFlight: 1.5 },
    { maxPipelined: 10_001 },
    { maxHeaderBytes: 1_023 },
    { maxHeaderFields: 9 },
  ]) {
    assert.throws(() => new Svc(options), { code: 'E_OPTION_RANGE' });
    const [key] = Object.keys(options) as ['maxInFlight'];
    const app = new Svc();
    app.config.loadDict(options);
    assert.throws(() => app.application(), { code: 'E_CONFIG_CAST', message: new RegExp(`${key}.*SVC_`) });
    assert.equal(app.check().findings[0]?.rule, 'SVC401');
  }
});

test('new Svc() reads limits from environment variables, which take precedence over options', (t) => {
  process.env['SVC_MAX_IN_FLIGHT'] = '7';
  t.after(() => {
    delete process.env['SVC_MAX_IN_FLIGHT'];
  });
  assert.equal(new Svc({ maxInFlight: 9 }).application().limits.maxInFlight, 7);
});

test('new Svc() keeps idle connections open for 75 seconds, which is longer than common balancers do', () => {
  assert.equal(new Svc().application().limits.keepAliveTimeoutMs, 75_000);
  assert.equal(new Svc({ trustProxy: 'loopback' }).application().limits.keepAliveTimeoutMs, 75_000);
  assert.equal(
    new Svc({ trustProxy: 'loopback', keepAliveTimeoutMs: 1_000 }).application().limits.keepAliveTimeoutMs,
    1_000,
  );
});

test('HttpServer closes silent connections and answers slow heads with 408, while it serves other clients', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), { headersTimeoutMs: 60 });
  await using silent = await RawClient.open(it.server.port);
  await using slow = await RawClient.open(it.server.port);
  await using honest = await RawClient.open(it.server.port);
  slow.send('GET / HTTP/1.1\r\nHost: a\r\nX: ');
  assert.equal((await honest.send(GET).answer()).status, 200);
  assert.equal((await slow.answer()).status, 408);
  await slow.ended();
  await silent.ended();
});

test('HttpServer answers 408 if a body takes too long, and ends the handler', async () => {
  const failure = Promise.withResolvers<unknown>();
  await using it = await serve(
    (app) =>
      app.post('/', async ({ req }) => {
        try {
          return await req.text();
        } catch (error) {
          failure.resolve(error);
          throw error;
        }
      }),
    { requestTimeoutMs: 80, headersTimeoutMs: 40 },
  );
  await using client = await RawClient.open(it.server.port);
  const answer = await client.send(`${POST}abc`).answer();
  assert.equal(answer.status, 408);
  assert.equal(answer.json()['status'], 408);
  await client.ended();
  assert.equal(((await failure.promise) as Error).name, 'ClientDisconnected');
});

test('HttpServer.close() does not extend the time limits of requests that are still arriving', async () => {
  const reached = Promise.withResolvers<void>();
  await using it = await serve(
    (app) =>
      app.post('/', async ({ req }) => {
        reached.resolve();
        return req.text();
      }),
    { requestTimeoutMs: 300, headersTimeoutMs: 40 },
  );
  await using client = await RawClient.open(it.server.port);
  client.send(`${POST}abc`);
  await reached.promise;
  const closed = it.server.close();
  assert.equal((await client.answer()).status, 408);
  await client.ended();
  await closed;
  assert.equal(
    it.events.some(({ event }) => event === 'drain_deadline_exceeded'),
    false,
  );
});

test('HttpServer limits the time of a body by the option of its route, which may be shorter or longer than the default', async () => {
  const clock = new ManualClock();
  await using it = await serve(
    (app) => {
      app.post('/', async ({ req }) => req.text());
      app.post('/quick', { requestTimeoutMs: 1_000 }, async ({ req }) => req.text());
      app.post('/large', { requestTimeoutMs: 600_000 }, async ({ req }) => req.text());
    },
    { clock },
  );
  const [quick, usual, large] = (await Promise.all(
    ['/quick', '/', '/large'].map(async (path) =>
      (await RawClient.open(it.server.port)).send(POST.replace('/', path)),
    ),
  )) as [RawClient, RawClient, RawClient];
  while (it.app.operations.inFlight() < 3) await turn();
  await clock.advance(999);
  assert.equal(it.app.operations.inFlight(), 3);
  await clock.advance(1_001);
  assert.equal((await quick.answer()).status, 408);
  await clock.advance(29_000);
  assert.equal((await usual.answer()).status, 408);
  await clock.advance(500_000);
  assert.equal((await large.send('x'.repeat(100)).answer()).text().length, 100);
  await clock.advance(1_000);
  for (const client of [quick, usual, large]) await client[Symbol.asyncDispose]();
});

test('HttpServer closes a connection that is silent after its response', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), { keepAliveTimeoutMs: 10 });
  await using client = await RawClient.open(it.server.port);
  assert.equal((await client.send(GET).answer()).status, 200);
  assert.equal((await client.ended()).length, 0); // a second later: node:http adds one, so that a client that trusts the announced time is on the safe side
});

test('HttpServer answers heads that are too large, or have too many fields, with 431', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), {
    maxHeaderBytes: 2_048,
    maxHeaderFields: 10,
  });
  for (const [fields, status] of [
    ['x'.repeat(3_000), 431],
    ['a\r\n' + 'b: c\r\n'.repeat(9), 431],
    ['a\r\n' + 'b: c\r\n'.repeat(8), 200],
  ] as const) {
    await using client = await RawClient.open(it.server.port);
    assert.equal(
      (await client.send(`GET / HTTP/1.1\r\nHost: a\r\nA: ${fields.trimEnd()}\r\n\r\n`).answer()).status,
      status,
    );
  }
});

test('HttpServer refuses connections above maxConnections, and still serves the connections within the limit', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), { maxConnections: 10 });
  const within = await Promise.all(Array.from({ length: 10 }, () => RawClient.open(it.server.port)));
  for (const client of within) assert.equal((await client.send(GET).answer()).status, 200);
  await using surplus = await RawClient.open(it.server.port);
  await using beyond = await RawClient.open(it.server.port);
  assert.equal((await beyond.ended()).length, 0);
  const answer = await surplus.send(GET).answer();
  assert.equal(answer.status, 503);
  assert.equal(answer.field('retry-after'), '1');
  assert.equal(answer.field('connection'), 'close');
  await surplus.ended();
  for (const client of within) assert.equal((await client.send(GET).answer()).status, 200);
  assert.match(it.app.metrics.render(), /^svc_connections_refused_total\{reason="limit"\} 2$/m);
  assert.equal(
    it.events.filter((event) => event['event'] === 'overloaded' && event['setting'] === 'maxConnections')
      .length,
    1,
  );
  for (const client of within) await client[Symbol.asyncDispose]();
  for (;;) {
    // waits until the server has noticed that the clients have left
    await using again = await RawClient.open(it.server.port);
    if (
      (
        await again
          .send(GET)
          .answer()
          .catch(() => undefined)
      )?.status === 200
    )
      break;
  }
});

test('HttpServer answers a health probe on a connection above its limit with 200, and then closes that connection', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), { maxConnections: 20 });
  const within = await Promise.all(Array.from({ length: 20 }, () => RawClient.open(it.server.port)));
  for (const client of within) assert.equal((await client.send(GET).answer()).status, 200);
  for (const [path, status] of [
    ['/healthz', 200],
    ['/', 503],
    ['/readyz', 200],
  ] as const) {
    await using surplus = await RawClient.open(it.server.port);
    const answer = await surplus.get(path).get('/').answer();
    assert.deepEqual([path, answer.status, answer.field('connection')], [path, status, 'close']);
    assert.equal((await surplus.ended()).length, 0);
  }
  for (const client of within) await client[Symbol.asyncDispose]();
});

test('HttpServer answers requests above maxInFlight with 503, keeps their connections open, and still serves health probes', async () => {
  const release = Promise.withResolvers<void>();
  await using it = await serve(
    (app) =>
      app.get('/', async () => {
        await release.promise;
        return 'ok';
      }),
    { maxInFlight: 2 },
  );
  const busy = await Promise.all([1, 2].map(async () => (await RawClient.open(it.server.port)).send(GET)));
  while (it.app.operations.inFlight() < 2) await turn();
  await using client = await RawClient.open(it.server.port);
  for (let round = 0; round < 2; round++) {
    const answer = await client.send(GET).answer();
    assert.deepEqual(
      [answer.status, answer.field('retry-after'), answer.field('connection')],
      [503, '1', 'keep-alive'],
    );
  }
  assert.equal((await client.get('/healthz').answer()).status, 200);
  assert.equal((await client.get('/readyz').answer()).status, 200);
  release.resolve();
  for (const each of busy) assert.equal((await each.answer()).status, 200);
  assert.equal((await client.send(GET).answer()).status, 200);
  for (const each of busy) await each[Symbol.asyncDispose]();
});

for (const field of [
  'X-Request-Id: abcdef',
  'X-Padding-Of: 1',
  'x-transfer-id: gzip',
  'X-Content-Encoding: 5',
])
  test(`a JSON body is read although the field "${field}", whose name is as long as one that describes bodies, comes first`, async () => {
    await using it = await serve((app) => app.post('/', ({ req }) => req.json()));
    await using client = await RawClient.open(it.server.port);
    const head = `POST / HTTP/1.1\r\nHost: a\r\n${field}\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n`;
    const answer = await client.send(`${head}{"a":1}`).answer();
    assert.deepEqual([answer.status, String(answer.body)], [200, '{"a":1}']);
  });

test('if a client pipelines more than maxPipelined requests, HttpServer answers the running request and maxPipelined waiting requests, and closes the connection', async () => {
  const release = Promise.withResolvers<void>();
  let seen = 0;
  await using it = await serve(
    (app) =>
      app.get('/', async () => {
        seen++;
        await release.promise;
        return 'ok';
      }),
    { maxPipelined: 3 },
  );
  await using client = await RawClient.open(it.server.port);
  client.send(GET.repeat(2_000));
  while (it.app.operations.inFlight() < 4) await turn();
  client.send(GET.repeat(2_000)); // read no more
  await turn();
  release.resolve();
  for (let count = 1; count <= 4; count++)
    assert.equal((await client.answer()).field('connection'), count === 4 ? 'close' : 'keep-alive');
  assert.equal((await client.ended()).length, 0);
  assert.equal(seen, 4);
});

test('HttpServer applies maxPipelined also to requests that it refuses because of maxInFlight', async () => {
  const release = Promise.withResolvers<void>();
  await using it = await serve(
    (app) =>
      app.get('/', async () => {
        await release.promise;
        return 'ok';
      }),
    { maxInFlight: 1, maxPipelined: 3 },
  );
  await using client = await RawClient.open(it.server.port);
  client.send(GET.repeat(200));
  while (it.app.operations.inFlight() < 4) await turn();
  await turn();
  assert.equal(it.app.operations.inFlight(), 4);
  release.resolve();
  for (const [status, connection] of [
    [200, 'keep-alive'],
    [503, 'keep-alive'],
    [503, 'keep-alive'],
    [503, 'close'],
  ] as const) {
    const answer = await client.answer();
    assert.deepEqual([answer.status, answer.field('connection')], [status, connection]);
  }
  assert.equal((await client.ended()).length, 0);
});

test('HttpServer serves any number of pipelined requests if no more than maxPipelined wait at once', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'), { maxPipelined: 3 });
  await using client = await RawClient.open(it.server.port);
  for (let round = 0; round < 50; round++) {
    client.send(GET.repeat(3));
    for (let count = 0; count < 3; count++)
      assert.equal((await client.answer()).field('connection'), 'keep-alive');
  }
});

test('HttpServer counts a streamed response as in flight until it is sent', async () => {
  const release = Promise.withResolvers<void>();
  await using it = await serve(
    (app) =>
      app.get(
        '/',
        () =>
          new StreamingResponse(
            (async function* (): AsyncGenerator<string> {
              yield 'a';
              await release.promise;
            })(),
          ),
      ),
    { maxInFlight: 1 },
  );
  await using first = await RawClient.open(it.server.port);
  await using second = await RawClient.open(it.server.port);
  first.send(GET);
  while (first.unread === 0) await turn();
  assert.equal((await second.send(GET).answer()).status, 503);
  release.resolve();
  assert.equal((await first.answer()).text(), 'a');
});
