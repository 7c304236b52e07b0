import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { readShare } from '../../../src/http/middleware/access-log.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { TestContext } from 'node:test';
import type { SvcOptions } from '../../../src/app/options.ts';

function application(
  t: TestContext,
  options: SvcOptions = {},
): {
  readonly app: Svc;
  readonly client: TestClient;
  readonly lines: () => Record<string, unknown>[];
  readonly clock: ManualClock;
} {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const app = new Svc({ logger, clock, accessLog: true, ...options });
  const client = new TestClient(app, { raiseErrors: false });
  t.after(() => client.close());
  return { app, client, clock, lines: () => events.filter((line) => line['logger'] === 'svc_access') };
}

test('the access log has one line for each request, and the line omits the query string', async (t) => {
  const { app, client, clock, lines } = application(t);
  app.get('/notes/{id}', async () => {
    await clock.advance(12.345);
    return { a: 'é' };
  });
  await client.get('/notes/7?text=hidden', {
    headers: {
      'user-agent': `agent ${'x'.repeat(300)}`,
      'x-request-id': 'id-1',
      traceparent: '00-12345678901234567890123456789012-1234567890123456-01',
    },
  });
  const [{ time, ...line }, ...others] = lines() as [Record<string, unknown>];
  assert.equal(typeof time, 'string');
  assert.deepEqual(line, {
    level: 'info',
    logger: 'svc_access',
    event: 'request',
    method: 'GET',
    route: '/notes/{id}',
    request_id: 'id-1',
    trace_id: '12345678901234567890123456789012',
    path: '/notes/7',
    status: 200,
    duration_ms: 12.35,
    bytes: 10,
    ip: '127.0.0.1',
    user_agent: `agent ${'x'.repeat(250)}`,
  });
  assert.deepEqual(others, []);
});

test('the access log has lines for unknown routes and failures, but not for health probes', async (t) => {
  const { app, client, lines } = application(t);
  app.get('/broken', () => {
    throw new Error('mine');
  });
  app.get('/head', () => 'text');
  for (const path of ['/healthz', '/readyz', '/metrics', '/nothing', '/broken']) await client.get(path);
  await client.head('/head');
  assert.deepEqual(
    lines().map(({ path, status, route, bytes }) => [path, status, route, (bytes as number) > 0]),
    [
      ['/nothing', 404, undefined, true],
      ['/broken', 500, '/broken', true],
      ['/head', 200, '/head', false],
    ],
  );
});

test('the access log shows no secrets in paths, neither in parameters named like a secret nor in other segments', async (t) => {
  const { app, client, lines } = application(t);
  app.get('/reset/{token}', () => '');
  app.get('/users/{id}', () => '');
  await client.get('/reset/abcdef');
  await client.get('/users/svcrt_abcdefghij');
  assert.deepEqual(
    lines().map(({ path }) => path),
    ['/reset/{token}', '/users/[refresh token]'],
  );
});

test('a request cannot add a forged line to the access log', async (t) => {
  const { app, lines } = application(t);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  await using client = await RawClient.open(server.port);
  client.send('GET /x%0a{"event":"forged"}\x7f HTTP/1.1\r\nHost: x\r\nUser-Agent: a"\tb\xff\r\n\r\n');
  await client.answer();
  await using other = await RawClient.open(server.port);
  other.send('GET /y HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n');
  await other.answer();
  assert.deepEqual(lines().at(-1)!['status'], 400);
  assert.deepEqual([lines().at(-1)!['path'], lines().length <= 2], ['/y', true]);
});

test('the access log shows the address of a client that left, and marks its response', async (t) => {
  const { app, lines } = application(t);
  const [arrived, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  app.get(
    '/slow',
    ({ signal }) =>
      new Promise((resolve) => {
        arrived.resolve();
        signal.addEventListener('abort', () => {
          resolve('');
          setImmediate(left.resolve);
        });
      }),
  );
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const client = await RawClient.open(server.port);
  client.send('GET /slow HTTP/1.1\r\nHost: x\r\n\r\n');
  await arrived.promise;
  await client[Symbol.asyncDispose]();
  await left.promise;
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    lines().map(({ path, aborted, ip }) => [path, aborted, ip]),
    [['/slow', true, '127.0.0.1']],
  );
});

test('with accessLog: 0.25, the access log has a line for every fourth request, and for every response with status 500', async (t) => {
  const { app, client, lines } = application(t, { accessLog: 0.25 });
  app.get('/ok', () => '');
  app.get('/broken', () => {
    throw new Error('mine');
  });
  for (let index = 0; index < 12; index++) await client.get('/ok');
  assert.equal(lines().length, 3);
  for (let index = 0; index < 3; index++) await client.get('/broken');
  assert.equal(lines().length, 6);
});

test('with accessLog: 0.5, every second call of an MCP tool declared with app.tool() gets a line in the access log', async (t) => {
  const { app, lines } = application(t, { accessLog: 0.5 });
  app.tool('add', {}, () => 1);
  for (let index = 0; index < 10; index++) await app.mcpCall('add');
  assert.equal(lines().length, 5);
});

test('there is no access log unless the setting accessLog enables it', async (t) => {
  for (const accessLog of [undefined, false, 0]) {
    const { app, client, lines } = application(t, { accessLog });
    app.get('/', () => '');
    await client.get('/');
    assert.deepEqual(lines(), []);
  }
});

test('the setting accessLog accepts true, false or a share from 0 to 1, also as text, and nothing else', () => {
  for (const [value, share] of [
    [true, 1],
    [false, 0],
    [0.5, 0.5],
    ['true', 1],
    ['ON', 1],
    ['no', 0],
    ['1', 1],
    ['0', 0],
    ['0.01', 0.01],
    ['.5', 0.5],
  ] as const)
    assert.equal(readShare(value), share, String(value));
  for (const value of [
    '',
    'maybe',
    '2',
    '1.5',
    '-1',
    '1e-2',
    'NaN',
    2,
    -0.1,
    Number.NaN,
    Infinity,
    null,
    undefined,
    {},
  ])
    assert.equal(readShare(value), undefined, String(value));
  assert.throws(() => new Svc({ accessLog: 2 }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new Svc({ config: { accessLog: 'maybe' } }), { code: 'E_CONFIG_CAST' });
  assert.throws(() => new Svc({ config: { accessLog: {} } }), { code: 'E_CONFIG_CAST' });
  assert.equal(new Svc().config.loadDict({ accessLog: '0.5' }).get('accessLog'), '0.5');
});
