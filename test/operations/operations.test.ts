/** The endpoints `/healthz`, `/readyz` and `/metrics`, and the access to `/metrics`. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc, createLogger } from '../../src/index.ts';
import { ManualClock, TestClient } from '../../src/testing/index.ts';
import { isPrivatePeer } from '../../src/http/request/proxy.ts';
import type { Plugin, SvcOptions } from '../../src/index.ts';

type Probe = (signal: AbortSignal) => void | Promise<void>;

function application(
  options: SvcOptions = {},
  probes: Readonly<Record<string, Probe>> = {},
): { app: Svc; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    format: 'json',
    sink: (line) => {
      lines.push(JSON.parse(line) as Record<string, unknown>);
    },
  });
  const app = new Svc({ logger, env: 'test', ...options });
  const plugin: Plugin = {
    name: 'probing',
    register(host) {
      for (const [name, probe] of Object.entries(probes)) host.readiness(name, probe);
    },
  };
  app.register(plugin);
  return { app, lines };
}

test('GET /healthz answers 200 with the body {"status":"ok"} and forbids caching', async () => {
  await using client = new TestClient(application().app);
  const response = await client.get('/healthz');
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'application/json');
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.equal(await response.text(), '{"status":"ok"}');
});

test('GET /readyz answers 200 and lists every successful readiness probe as up', async () => {
  await using client = new TestClient(
    application({}, { database: () => undefined, queue: async () => undefined }).app,
  );
  const response = await client.get('/readyz');
  assert.equal(response.status, 200);
  const body = (await response.json()) as {
    status: string;
    checks: Record<string, { status: string; latency_ms: number }>;
  };
  assert.equal(body.status, 'ready');
  assert.deepEqual(Object.keys(body.checks), ['database', 'queue']);
  for (const check of Object.values(body.checks)) {
    assert.equal(check.status, 'up');
    assert.ok(Number.isInteger(check.latency_ms));
  }
});

test('GET /readyz reports how many milliseconds a readiness probe took, also when the probe fails', async () => {
  for (const status of ['up', 'down']) {
    const clock = new ManualClock();
    clock.advance(7_000); // the time before the probe does not count
    const { app } = application(
      { clock },
      {
        slow: () => {
          clock.advance(30.4);
          if (status === 'down') throw new Error('refused');
        },
      },
    );
    await using client = new TestClient(app);
    const { checks } = (await (await client.get('/readyz')).json()) as { checks: unknown };
    assert.deepEqual(checks, { slow: { status, latency_ms: 30 } });
  }
});

test('while a readiness probe fails, /readyz answers 503, and only the log shows the reason', async () => {
  const { app, lines } = application(
    {},
    {
      database: () => {
        throw new Error('password of svc@db was refused');
      },
      queue: () => undefined,
    },
  );
  await using client = new TestClient(app);
  const response = await client.get('/readyz');
  assert.equal(response.status, 503);
  const text = await response.text();
  assert.doesNotMatch(text, /refused/);
  const body = JSON.parse(text) as { status: string; checks: Record<string, { status: string }> };
  assert.equal(body.status, 'unready');
  assert.equal(body.checks['database']!.status, 'down');
  assert.equal(body.checks['queue']!.status, 'up');
  assert.equal(
    lines.filter((line) => line['event'] === 'probe_failed' && line['probe'] === 'database').length,
    1,
  );
});

test('if a readiness probe takes longer than 2 s, /readyz reports the probe as down and aborts the signal of the probe', async () => {
  const clock = new ManualClock();
  const entered = Promise.withResolvers<AbortSignal>();
  const { app } = application(
    { clock },
    {
      database: (signal) => {
        entered.resolve(signal);
        return new Promise(() => undefined);
      },
    },
  );
  await using client = new TestClient(app);
  const answer = client.get('/readyz');
  const signal = await entered.promise;
  await clock.advance(1_999);
  assert.equal(signal.aborted, false);
  await clock.advance(1);
  assert.equal((await answer).status, 503);
  assert.equal(signal.aborted, true);
});

test('concurrent requests to /readyz share one run of each readiness probe', async () => {
  let asked = 0;
  const gate = Promise.withResolvers<void>();
  const { app } = application(
    {},
    {
      database: () => {
        asked++;
        return gate.promise;
      },
    },
  );
  await using client = new TestClient(app);
  const answers = [client.get('/readyz'), client.get('/readyz'), client.get('/readyz')];
  await new Promise((resolve) => {
    setImmediate(resolve);
  });
  gate.resolve();
  for (const answer of answers) assert.equal((await answer).status, 200);
  assert.equal(asked, 1);
  await client.get('/readyz');
  assert.equal(asked, 2);
});

test('/readyz answers 503 as soon as the shutdown begins, while running requests continue', async () => {
  const { app } = application();
  const entered = Promise.withResolvers<void>();
  const gate = Promise.withResolvers<void>();
  app.get('/slow', async () => {
    entered.resolve();
    await gate.promise;
    return (await app.fetch(new Request('http://localhost/readyz'))).status;
  });
  const server = await app.run({ port: 0, handleSignals: false });
  const slow = fetch(`${server.url}/slow`);
  await entered.promise;
  const closing = server.close();
  gate.resolve();
  assert.equal(await (await slow).text(), '503');
  await closing;
});

test('/metrics reports the number and duration of requests by method, path template and status in Prometheus text format', async () => {
  const { app } = application();
  app.get('/users/{id:int}', ({ params }) => params);
  await using client = new TestClient(app);
  await client.get('/users/1');
  await client.get('/users/2');
  await client.post('/users/2');
  const response = await client.get('/metrics');
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  const text = await response.text();
  assert.match(text, /^svc_requests_total\{method="GET",route="\/users\/\{id:int\}",status="200"\} 2$/m);
  assert.match(text, /^svc_requests_total\{method="POST",route="",status="405"\} 1$/m);
  assert.match(
    text,
    /^svc_request_duration_seconds_bucket\{method="GET",route="\/users\/\{id:int\}",le="\+Inf"\} 2$/m,
  );
  assert.match(text, /^svc_request_duration_seconds_count\{method="GET",route="\/users\/\{id:int\}"\} 2$/m);
  assert.match(text, /^svc_uptime_seconds \d/m);
  assert.match(text, /^svc_errors_total 0$/m);
  assert.match(text, /^svc_requests_in_flight 0$/m);
});

test('/metrics counts requests with unknown methods and paths under the labels method="OTHER" and route=""', async () => {
  const { app } = application();
  await using client = new TestClient(app);
  for (let index = 0; index < 50; index++) await client.request(`MADE${index}`, `/nothing/${index}`);
  const text = await (await client.get('/metrics')).text();
  const series = text.split('\n').filter((line) => line.startsWith('svc_requests_total{'));
  assert.deepEqual(series, ['svc_requests_total{method="OTHER",route="",status="404"} 50']);
});

test('the metric svc_errors_total counts unhandled errors', async () => {
  const { app } = application();
  app.get('/', () => {
    throw new Error('boom');
  });
  await using client = new TestClient(app, { raiseErrors: false });
  await client.get('/');
  assert.match(await (await client.get('/metrics')).text(), /^svc_errors_total 1$/m);
});

test('in production, /metrics responds to loopback clients, and answers 403 to requests that come through a proxy', async () => {
  const { app } = application({ env: 'production' });
  await using client = new TestClient(app);
  assert.equal((await client.get('/metrics')).status, 200);
  assert.equal((await client.get('/metrics', { headers: { 'x-forwarded-for': '203.0.113.9' } })).status, 403);
  assert.equal((await client.get('/metrics', { headers: { forwarded: 'for=203.0.113.9' } })).status, 403);
});

test('isPrivatePeer() accepts loopback, private and link-local addresses of IPv4 and IPv6', () => {
  for (const address of [
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.1.1',
    '::1',
    'fd00::1',
    'fe80::1',
    '::ffff:10.0.0.1',
  ])
    assert.equal(isPrivatePeer(address), true, address);
  for (const address of [
    '203.0.113.9',
    '172.32.0.1',
    '11.0.0.1',
    '2001:db8::1',
    '::ffff:203.0.113.9',
    '',
    'localhost',
  ])
    assert.equal(isPrivatePeer(address), false, address);
});

test('if ops.metrics.auth is a string, requests to /metrics need this string as bearer token', async () => {
  const token = 'a-token-of-enough-length';
  await using client = new TestClient(application({ ops: { metrics: { auth: token } } }).app);
  const refused = await client.get('/metrics');
  assert.equal(refused.status, 401);
  assert.equal(refused.headers.get('www-authenticate'), 'Bearer');
  assert.equal((await client.get('/metrics', { headers: { authorization: 'Bearer wrong' } })).status, 401);
  assert.equal((await client.get('/metrics', { headers: { authorization: `Bearer ${token}` } })).status, 200);
});

test('if ops.metrics.auth is a function, /metrics answers 403 unless the function returns true', async () => {
  await using client = new TestClient(
    application({ ops: { metrics: { auth: async (req) => req.headers['x-scrape'] === 'yes' } } }).app,
  );
  assert.equal((await client.get('/metrics')).status, 403);
  assert.equal((await client.get('/metrics', { headers: { 'x-scrape': 'yes' } })).status, 200);
});

test('if ops.metrics.port is set, /metrics is available at this port and not at the port of the application', async () => {
  const { app, lines } = application({ ops: { metrics: { port: 0 } } });
  const server = await app.run({ port: 0, handleSignals: false });
  const { url } = lines.find((line) => line['event'] === 'listening' && line['what'] === 'metrics') as {
    url: string;
  };
  assert.equal((await fetch(`${server.url}/metrics`)).status, 404);
  assert.match(await (await fetch(`${url}/metrics`)).text(), /svc_event_loop_delay_seconds \d/);
  await server.close();
  await assert.rejects(fetch(`${url}/metrics`));
});

test('the option "ops" of Svc refuses unknown members and values out of range', () => {
  assert.throws(() => new Svc({ ops: { metrics: { auth: 'short' } } }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new Svc({ ops: { metrics: { prot: 1 } } as never }), {
    code: 'E_OPTION_UNKNOWN',
    message: /did you mean "port"/,
  });
});
