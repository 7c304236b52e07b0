import assert from 'node:assert/strict';
import { test } from 'node:test';
import { RequestIDMiddleware, Svc } from 'svc';
import { TestClient } from 'svc/testing';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import type { RequestIDOptions } from '../../src/http/request-id.ts';

const RANDOM_ID = /^[0-9a-f]{32}$/;

function site(options?: RequestIDOptions): { app: Svc; events: Record<string, unknown>[] } {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  if (options !== undefined) app.use(new RequestIDMiddleware(options));
  return {
    app: app
      .get('/', ({ req }) => req.id)
      .get('/fail', () => {
        throw new Error('x');
      }),
    events,
  };
}

test('X-Request-Id is taken from the request or generated, both without RequestIDMiddleware and with its defaults', async () => {
  for (const options of [undefined, {}]) {
    await using client = new TestClient(site(options).app);
    const given = await client.get('/', { headers: { 'X-Request-Id': 'abc-1' } });
    assert.deepEqual([given.headers.get('x-request-id'), await given.text()], ['abc-1', 'abc-1']);
    for (const bad of ['', 'a b', '<x>', 'a'.repeat(129), '-a'])
      assert.match(
        (await client.get('/', { headers: { 'X-Request-Id': bad } })).headers.get('x-request-id')!,
        RANDOM_ID,
        bad,
      );
  }
});

test('RequestIDMiddleware({ header }) reads and sends the given header field, and ignores X-Request-Id', async () => {
  await using client = new TestClient(site({ header: 'X-Correlation-Id' }).app, { raiseErrors: false });
  const answer = await client.get('/fail', {
    headers: { 'X-Correlation-Id': 'mine', 'X-Request-Id': 'other' },
  });
  const { request_id } = (await answer.json()) as { request_id: string };
  assert.deepEqual(
    [answer.status, answer.headers.get('x-correlation-id'), answer.headers.get('x-request-id'), request_id],
    [500, 'mine', null, 'mine'],
  );
});

test('if the header field of the request id is not X-Request-Id, TestClient still rejects with the error of the handler', async () => {
  await using client = new TestClient(site({ header: 'X-Correlation-Id' }).app);
  await assert.rejects(client.get('/fail'), /x/);
});

test('RequestIDMiddleware({ acceptIncoming: false }) ignores ids in requests and generates every id', async () => {
  await using client = new TestClient(site({ acceptIncoming: false }).app);
  assert.match(
    (await client.get('/', { headers: { 'X-Request-Id': 'abc-1' } })).headers.get('x-request-id')!,
    RANDOM_ID,
  );
});

test('RequestIDMiddleware({ generate }) calls the function for missing ids, and logs once if the function throws or returns an invalid id', async () => {
  let count = 0;
  await using client = new TestClient(site({ generate: () => `n${++count}` }).app);
  assert.equal((await client.get('/')).headers.get('x-request-id'), 'n1');
  assert.equal(
    (await client.get('/', { headers: { 'X-Request-Id': 'abc' } })).headers.get('x-request-id'),
    'abc',
  );
  for (const generate of [
    () => 'a\r\nb',
    () => {
      throw new Error('no');
    },
    () => 5 as never,
  ]) {
    const { app, events } = site({ generate });
    await using other = new TestClient(app);
    for (let round = 0; round < 3; round++)
      assert.match((await other.get('/')).headers.get('x-request-id')!, RANDOM_ID);
    assert.deepEqual(events.filter(({ event }) => event === 'request_id_invalid').length, 1);
  }
});

test('error responses that HttpServer sends before any middleware runs also have the header field of RequestIDMiddleware', async () => {
  await using client = new TestClient(
    site({ header: 'X-Trace', acceptIncoming: false, generate: () => 'made' }).app,
    { listen: true },
  );
  await client.get('/');
  const { port } = new URL(client.baseUrl);
  for (const bytes of [
    'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n',
    'NONSENSE\r\n\r\n',
    'GET / HTTP/1.1\r\nHost: a\r\nX-Trace: theirs\r\nConnection: close\r\n\r\n',
  ]) {
    await using raw = await RawClient.open(Number(port));
    assert.equal((await raw.send(bytes).answer()).field('x-trace'), 'made', bytes);
  }
});

test('RequestIDMiddleware refuses a field that has another meaning, such as Host; check() reports a second or misplaced RequestIDMiddleware', () => {
  for (const header of [
    '',
    'a b',
    'Authorization',
    'Connection',
    'Content-Disposition',
    'Content-Encoding',
    'Content-Length',
    'Content-Type',
    'Cookie',
    'Date',
    'ETag',
    'Expect',
    'Host',
    'keep-alive',
    'Location',
    'Retry-After',
    'set-cookie',
    'Trailer',
    'Transfer-Encoding',
    'Upgrade',
    'Vary',
  ])
    assert.throws(() => new RequestIDMiddleware({ header }), { code: 'E_OPTION_RANGE' }, header);
  for (const header of ['X-Request-Id', 'x-correlation-id', 'Request-Id'])
    new RequestIDMiddleware({ header });
  assert.throws(() => new RequestIDMiddleware({ name: 'x' } as never), { code: 'E_OPTION_UNKNOWN' });
  const findings = (app: Svc): unknown[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity, subject }) => [severity, subject]);
  assert.deepEqual(findings(site({}).app.use(new RequestIDMiddleware())), [
    ['error', 'middleware request-id'],
  ]);
  assert.deepEqual(findings(new Svc().get('/', { use: [new RequestIDMiddleware()] }, () => 1)), [
    ['error', 'GET /'],
  ]);
  assert.deepEqual(findings(site({}).app), []);
});
