import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleepOf } from 'node:timers/promises';
import {
  BackgroundTasks,
  CORSMiddleware,
  ClientDisconnected,
  Depends,
  RequestTimeout,
  StreamingResponse,
  Svc,
  TimeoutMiddleware,
} from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { HttpServer } from '../../../src/http/server/server.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import type { HttpRequest } from 'svc';

interface Site {
  readonly app: Svc;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  /** The promise that handlers wait for. */
  readonly gate: PromiseWithResolvers<unknown>;
}

function site(): Site {
  const { logger, events } = collectedLog();
  return { app: new Svc({ logger }), clock: new ManualClock(), events, gate: Promise.withResolvers() };
}

const clientOf = ({ app, clock }: Site): TestClient => new TestClient(app, { clock, raiseErrors: false });
const metric = async (client: TestClient, name: string): Promise<string[]> =>
  (await (await client.get('/metrics')).text()).split('\n').filter((line) => line.startsWith(name));

test('TimeoutMiddleware answers 503 with Retry-After and a problem when its time limit passes, and does not change faster responses', async () => {
  const s = site();
  s.app
    .use(new TimeoutMiddleware({ seconds: 5 }))
    .get('/slow', () => s.gate.promise)
    .get('/fast', () => 'sync')
    .get('/soon', async () => 'async');
  await using client = clientOf(s);
  assert.equal(await (await client.get('/fast')).text(), 'sync');
  assert.equal(await (await client.get('/soon')).text(), 'async');
  const slow = client.get('/slow');
  await turn();
  await s.clock.advance(4_990);
  await s.clock.advance(10);
  const answer = await slow;
  const body = (await answer.json()) as Record<string, unknown>;
  assert.deepEqual(
    [
      answer.status,
      answer.headers.get('retry-after'),
      answer.headers.get('content-type'),
      body['code'],
      body['detail'],
    ],
    [503, '5', 'application/problem+json', 'timeout', 'The server did not finish the request within 5000 ms'],
  );
  assert.deepEqual(await metric(client, 'svc_request_timeouts_total'), [
    'svc_request_timeouts_total{route="/slow"} 1',
  ]);
  s.gate.resolve('late');
  await turn();
  assert.deepEqual(
    s.events
      .filter(({ level }) => level === 'error')
      .map(({ event, route, status }) => [event, route, status]),
    [['unhandled_error', '/slow', 503]],
  );
});

test('when the time limit passes, TimeoutMiddleware aborts the signal of the request with RequestTimeout, and discards the late result of the handler', async () => {
  const s = site();
  const reasons: unknown[] = [];
  s.app
    .use(new TimeoutMiddleware({ seconds: 1 }))
    .get('/sleep', ({ signal }) =>
      s.clock.sleep(10_000, signal).catch((error: unknown) => {
        reasons.push(error);
        throw error;
      }),
    )
    .get('/node', async ({ signal }) => {
      await sleepOf(60_000, undefined, { signal }).catch((error: Error) => {
        reasons.push(error.cause);
        throw error;
      });
    })
    .get('/caused', ({ signal }) =>
      s.clock.sleep(10_000, signal).catch((cause: unknown) => {
        reasons.push(cause);
        throw new Error('the statement was canceled', { cause });
      }),
    )
    .get('/later', async ({ req }) => {
      await s.gate.promise;
      reasons.push(req.signal.reason);
      throw new Error('unrelated');
    });
  await using client = clientOf(s);
  const answers = ['/sleep', '/node', '/caused', '/later'].map((path) => client.get(path));
  await turn();
  await s.clock.advance(1_000);
  for (const answer of answers) assert.equal((await answer).status, 503);
  s.gate.resolve(undefined);
  await turn();
  assert.equal(reasons.length, 4);
  for (const reason of reasons) assert.ok(reason instanceof RequestTimeout && reason.status === 503);
  const lines = s.events
    .filter(({ event }) => event === 'unhandled_error')
    .map((line) => [line['route'], line['status']]);
  assert.deepEqual(lines, [
    ['/sleep', 503],
    ['/node', 503],
    ['/caused', 503],
    ['/later', 503],
    ['/later', 500],
  ]); // the last one would otherwise be lost
});

test('the option "timeoutMs" of a route sets its time limit, with or without TimeoutMiddleware; the value false removes the limit', async () => {
  for (const hasMiddleware of [true, false]) {
    const s = site();
    if (hasMiddleware) s.app.use(new TimeoutMiddleware({ seconds: 5 }));
    s.app
      .get('/short', { timeoutMs: 100 }, () => s.gate.promise)
      .get('/long', { timeoutMs: 60_000 }, () => s.gate.promise)
      .get('/free', { timeoutMs: false }, () => s.gate.promise)
      .get('/own', { use: [new TimeoutMiddleware({ seconds: 2 })] }, () => s.gate.promise)
      .get('/both', { timeoutMs: 300, use: [new TimeoutMiddleware({ seconds: 2 })] }, () => s.gate.promise);
    await using client = clientOf(s);
    const statuses: Record<string, number> = {};
    const pending = ['/short', '/long', '/free', '/own', '/both'].map((path) =>
      client.get(path).then(({ status }) => {
        statuses[path] = status;
      }),
    );
    await turn();
    await s.clock.advance(100);
    assert.deepEqual(statuses, { '/short': 503 });
    await s.clock.advance(200);
    assert.deepEqual(statuses, { '/short': 503, '/both': 503 });
    await s.clock.advance(1_700);
    assert.deepEqual(statuses, { '/short': 503, '/both': 503, '/own': 503 });
    await s.clock.advance(50_000);
    assert.deepEqual(statuses, { '/short': 503, '/both': 503, '/own': 503 });
    s.gate.resolve('done');
    await Promise.all(pending);
    assert.deepEqual(statuses, { '/short': 503, '/both': 503, '/own': 503, '/long': 200, '/free': 200 });
    assert.equal(s.app.routes.find(({ template }) => template === '/short')!.timeoutMs, 100);
  }
});

test('the option "timeoutMs" of a route must be an integer from 1 to 86_400_000 or false', () => {
  for (const timeoutMs of [0, -1, 1.5, 86_400_001, '5', true, null])
    assert.throws(
      () => new Svc().get('/', { timeoutMs: timeoutMs as never }, () => 1),
      { code: 'E_OPTION_RANGE' },
      String(timeoutMs),
    );
  for (const seconds of [0, -1, 86_401, '5', Number.NaN])
    assert.throws(
      () => new TimeoutMiddleware({ seconds: seconds as never }),
      { code: 'E_OPTION_RANGE' },
      String(seconds),
    );
  assert.throws(() => new TimeoutMiddleware({ second: 5 } as never), { code: 'E_OPTION_UNKNOWN' });
});

test('when the time limit passes, generators of dependencies receive RequestTimeout, and when the handler ends, its background tasks do not run', async () => {
  const s = site();
  const reported: string[] = [];
  const told2 = (name: string, error: unknown): void =>
    void reported.push(`${name} ${error instanceof RequestTimeout ? 'timeout' : String(error)}`);
  function* transaction(): Generator<string> {
    try {
      yield 'tx';
      reported.push('commit');
    } catch (error) {
      told2('rollback', error);
      throw error;
    }
  }
  async function* resource(): AsyncGenerator<string> {
    try {
      yield 'r';
      reported.push('closed well');
    } catch (error) {
      told2('closed', error);
    }
  }
  s.app.get(
    '/',
    {
      timeoutMs: 50,
      tx: Depends(transaction, { scope: 'handler' }),
      r: Depends(resource),
      tasks: Depends(BackgroundTasks),
    },
    async ({ tasks }) => {
      tasks.add(() => reported.push('task'));
      await s.gate.promise;
      reported.push('handler');
      return new StreamingResponse(
        (function* (): Generator<string> {
          yield 'x';
        })(),
      );
    },
  );
  await using client = clientOf(s);
  const answer = client.get('/');
  await turn();
  await s.clock.advance(50);
  assert.equal((await answer).status, 503);
  assert.deepEqual(reported, []);
  s.gate.resolve(undefined);
  await turn();
  assert.deepEqual(reported, ['handler', 'rollback timeout', 'closed timeout']);
  assert.deepEqual(await metric(client, 'svc_background_waiting'), ['svc_background_waiting 0']);
});

test('if a handler returns a stream after its time limit, the stream is closed, and an error during closing is logged', async () => {
  const s = site();
  let ended = 0;
  const chunks = (fails: boolean): AsyncIterable<string> => ({
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ done: false, value: 'x' }),
      return: async () => {
        ended++;
        if (fails) throw new Error('broken');
        return { done: true, value: undefined };
      },
    }),
  });
  s.app.get('/{fails:int}', { timeoutMs: 10 }, async ({ params }) => {
    await s.gate.promise;
    return new StreamingResponse(chunks(params.fails === 1));
  });
  await using client = clientOf(s);
  const answers = [client.get('/0'), client.get('/1')];
  await turn();
  await s.clock.advance(10);
  for (const answer of answers) assert.equal((await answer).status, 503);
  s.gate.resolve(undefined);
  await turn();
  assert.deepEqual([ended, s.events.filter(({ event }) => event === 'response_failed').length], [2, 1]);
});

test('if the time limit passes while a body or a dependency is awaited, the handler does not start', async () => {
  const s = site();
  let calls = 0;
  s.app.post('/', { timeoutMs: 20, slow: Depends(() => s.gate.promise) }, () => {
    calls++;
  });
  await using client = clientOf(s);
  const answer = client.post('/');
  await turn();
  await s.clock.advance(20);
  assert.equal((await answer).status, 503);
  s.gate.resolve(1);
  await turn();
  assert.equal(calls, 0);
});

test('if the time limit passes in a middleware around a handler, the handler does not start', async () => {
  const s = site();
  let calls = 0;
  s.app
    .use(new TimeoutMiddleware({ seconds: 1 }))
    .use(async (_req, next) => {
      await s.gate.promise;
      return next();
    })
    .get('/', () => {
      calls++;
    });
  await using client = clientOf(s);
  const answer = client.get('/');
  await turn();
  await s.clock.advance(1_000);
  assert.equal((await answer).status, 503);
  s.gate.resolve(1);
  await turn();
  assert.equal(calls, 0);
  assert.equal(s.events.filter(({ event }) => event === 'unhandled_error').length, 1);
});

test('TimeoutMiddleware does not interrupt a stream that has begun', async () => {
  const s = site();
  s.app.use(new TimeoutMiddleware({ seconds: 1 })).get(
    '/',
    () =>
      new StreamingResponse(
        (async function* () {
          yield 'a';
          await s.gate.promise;
          yield 'b';
        })(),
      ),
  );
  await using client = clientOf(s);
  const text = (await client.get('/')).text();
  await s.clock.advance(60_000);
  s.gate.resolve(undefined);
  assert.equal(await text, 'ab');
});

test('an exception handler for RequestTimeout is called once, and its response passes through outer middleware', async () => {
  const s = site();
  let calls = 0;
  s.app
    .use(new CORSMiddleware({ origins: '*' }))
    .use(new TimeoutMiddleware({ seconds: 1 }))
    .exceptionHandler(RequestTimeout, (error: RequestTimeout) => {
      calls++;
      return [`slow: ${error.code}`, 504];
    })
    .get('/', ({ signal }) => s.clock.sleep(10_000, signal));
  await using client = clientOf(s);
  const answer = client.get('/', { headers: { Origin: 'https://a.example' } });
  await turn();
  await s.clock.advance(1_000);
  assert.deepEqual(
    [
      (await answer).status,
      await (await answer).text(),
      (await answer).headers.get('access-control-allow-origin'),
    ],
    [504, 'slow: timeout', '*'],
  );
  await turn();
  assert.equal(calls, 1);
});

test('if a client leaves before the time limit, the signal of the request aborts with ClientDisconnected', async () => {
  const s = site();
  let request: HttpRequest | undefined;
  s.app.use(new TimeoutMiddleware({ seconds: 1 })).get('/', ({ req }) => {
    request = req;
    assert.ok(!req.signal.aborted);
    return s.gate.promise;
  });
  await using client = clientOf(s);
  const abort = new AbortController();
  const answer = client.get('/', { signal: abort.signal }).catch(() => undefined);
  await turn();
  abort.abort();
  await s.clock.advance(1_000);
  assert.ok(request!.signal.reason instanceof ClientDisconnected);
  s.gate.resolve('x');
  await answer;
});

test('a connection stays open after a timeout, and HttpServer.close() waits for the handler that still runs', async () => {
  const s = site();
  s.app.withEnvironment({ clock: s.clock });
  s.app.get('/', { timeoutMs: 30 }, () => s.gate.promise).get('/next', () => 'next');
  await s.app.startup();
  const server = new HttpServer(s.app.application());
  const { port } = await server.listen({ port: 0 });
  await using raw = await RawClient.open(port);
  raw.get('/');
  while (server.inFlight === 0) await turn();
  await s.clock.advance(30);
  assert.equal((await raw.answer()).status, 503);
  assert.equal((await raw.get('/next').answer()).text(), 'next');
  assert.equal(server.inFlight, 1);
  let isClosed = false;
  const closing = server.close(60_000).then((cut) => {
    isClosed = true;
    return cut;
  });
  for (let round = 0; round < 5; round++) await turn();
  assert.equal(isClosed, false);
  s.gate.resolve('late');
  assert.equal(await closing, 0);
  await s.app.shutdown();
});

test('one TimeoutMiddleware object cannot be used by two applications', () => {
  const layer = new TimeoutMiddleware();
  const [first, second] = [new Svc().use(layer), new Svc().use(layer)];
  assert.deepEqual(
    first!.check().findings.filter(({ rule }) => rule === 'SVC121'),
    [],
  );
  assert.deepEqual(
    second!
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ subject, severity }) => [subject, severity]),
    [['middleware timeout', 'error']],
  );
});
