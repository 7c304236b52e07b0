import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { systemClock } from '../../../src/base/clock.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { ProviderFault, word } from '../../../src/auth/provider/failure.ts';
import { Outbound, tracedCall } from '../../../src/auth/provider/outbound.ts';
import { FakeProvider } from '../../oauth/support/fake-provider.ts';
import { AUTHORITY_PEM } from '../../oauth/support/tls.ts';
import { FakeTracer } from '../../support/fake-tracer.ts';
import type { ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { OutboundAnswer } from '../../../src/auth/provider/outbound.ts';
import type { Tracer } from '../../../src/observability/tracer.ts';

type OutboundDeps = ConstructorParameters<typeof Outbound>[0];
type Resolve = NonNullable<OutboundDeps['resolve']>;

const MAX_ANSWER_BYTES = 1_048_576;
const TRACEPARENT = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;

function outbound(deps: Partial<OutboundDeps> = {}): Outbound {
  return new Outbound({ clock: systemClock, timeoutMs: 10_000, ...deps });
}

const failure =
  (code: string, reason: string | RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof ProviderFault, String(error));
    assert.equal(error.code, code);
    if (typeof reason === 'string') assert.equal(error.reason, reason);
    else assert.match(error.reason, reason);
    return true;
  };

/** Makes a call whose clock passes the time limit when `reached` resolves. */
async function timeOut(
  clock: ManualClock,
  call: Promise<unknown>,
  reached: Promise<unknown>,
  stage: string,
): Promise<void> {
  const refused = assert.rejects(call, failure('provider_timeout', stage));
  await reached;
  await clock.advance(9_999);
  assert.equal(clock.pending, 1, `${stage} has all its time`);
  await clock.advance(1);
  await refused;
  assert.equal(clock.pending, 0);
}

/** Starts a server that handles each socket by the given function. */
async function rawServer(
  serve: (socket: Socket) => void,
): Promise<{ port: number; accepted: Promise<Socket>; closed: Promise<void> } & AsyncDisposable> {
  const server = createServer();
  const gone = Promise.withResolvers<void>();
  const accepted = Promise.withResolvers<Socket>();
  const sockets = new Set<Socket>();
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined).on('close', () => gone.resolve());
    serve(socket);
    accepted.resolve(socket);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    accepted: accepted.promise,
    closed: gone.promise,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

test('Outbound.call() sends the request, asks for JSON without content encoding, and returns status, media type and body', async () => {
  await using fake = await FakeProvider.start();
  const calls = outbound();
  fake.failNext('token', {
    status: 418,
    headers: { 'content-type': 'Application/JSON; charset=utf-8' },
    body: '{"a":1}',
  });
  const answer = await calls.call({
    method: 'POST',
    url: `${fake.url}/token?x=1`,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'code=1',
  });
  assert.deepEqual(
    { ...answer, body: answer.body.toString() },
    { status: 418, mediaType: 'application/json', body: '{"a":1}', isPrivate: true },
  );
  const [{ method, url, headers, form }] = fake.requests as [(typeof fake.requests)[number]];
  assert.deepEqual([method, url, form.get('code')], ['POST', '/token?x=1', '1']);
  assert.deepEqual(
    [headers['accept'], headers['accept-encoding'], headers['user-agent'], headers['connection']],
    ['application/json', 'identity', 'svc', 'close'],
  );
  fake.failNext('other', { headers: { 'content-type': '', 'content-encoding': 'Identity' }, body: '' });
  assert.equal((await calls.call({ method: 'GET', url: fake.url })).mediaType, '');
  await fake.left();
  assert.deepEqual(calls.load, { running: 0, waiting: 0 });
});

for (const [what, injected, expected] of [
  ['with traceparent', { traceparent: TRACEPARENT }, TRACEPARENT],
  [
    'with tracestate and baggage, too',
    { traceparent: TRACEPARENT, tracestate: 'a=1', baggage: 'b=2' },
    TRACEPARENT,
  ],
  ['of another format', { b3: '0' }, undefined],
  ['that is empty', {}, undefined],
] as const)
  for (const isTraced of [true, false])
    test(`tracedCall() sends the provider only "traceparent" of a trace context ${what} (span: ${isTraced})`, async () => {
      await using fake = await FakeProvider.start();
      const spans = new FakeTracer();
      const tracer: Tracer = {
        start: (name, start) => (isTraced ? spans.start(name, start) : undefined),
        inject: () => injected,
      };
      const call = { method: 'GET', url: fake.url, headers: { authorization: 'Bearer x' } } as const;
      const calls = outbound();
      await tracedCall(tracer, call, (traced) => calls.call(traced));
      const { headers } = fake.requests[0]!;
      assert.deepEqual(
        ['authorization', 'traceparent', 'tracestate', 'baggage', 'b3'].map((name) => headers[name]),
        ['Bearer x', expected, undefined, undefined, undefined],
      );
      assert.deepEqual(
        spans.spans.map(({ kind }) => kind),
        isTraced ? ['client'] : [],
      );
      spans.assertEnded();
    });

test('Outbound.call() accepts a response of 1 MiB and refuses a longer one, with and without Content-Length', async () => {
  await using fake = await FakeProvider.start();
  const calls = outbound();
  fake.failNext('other', { body: Buffer.alloc(MAX_ANSWER_BYTES) });
  assert.equal((await calls.call({ method: 'GET', url: fake.url })).body.length, MAX_ANSWER_BYTES);
  fake.failNext('other', { body: Buffer.alloc(MAX_ANSWER_BYTES + 1) });
  await assert.rejects(calls.call({ method: 'GET', url: fake.url }), failure('provider_error', 'too_large'));
  fake.failNext('other', { body: Buffer.alloc(10 * MAX_ANSWER_BYTES) });
  await assert.rejects(calls.call({ method: 'GET', url: fake.url }), failure('provider_error', 'too_large'));
  await fake.left();
});

test('Outbound.call() stops reading an endless chunked response at the size limit', async () => {
  await using fake = await FakeProvider.start();
  let sent = 0;
  fake.failNext('other', {
    answer(response) {
      response.writeHead(200, { 'content-type': 'application/json' });
      const more = (): void => {
        while (!response.destroyed && response.write(Buffer.alloc(16_384))) sent += 16_384;
        sent += 16_384;
      };
      response.on('drain', more).on('error', () => undefined);
      more();
    },
  });
  await assert.rejects(
    outbound().call({ method: 'GET', url: fake.url }),
    failure('provider_error', 'too_large'),
  );
  await fake.left();
  assert.ok(sent < 16 * MAX_ANSWER_BYTES, `${sent} bytes were sent`);
});

test('Outbound.call() refuses a response with a content encoding before it reads the body (gzip bomb)', async () => {
  await using fake = await FakeProvider.start();
  fake.failNext('other', {
    headers: { 'content-encoding': 'gzip' },
    body: gzipSync(Buffer.alloc(50_000_000)),
  });
  await assert.rejects(
    outbound().call({ method: 'GET', url: fake.url }),
    failure('provider_error', 'encoded'),
  );
  await fake.left();
});

test('Outbound.call() times out if the connection is not established within 10 s', async () => {
  const clock = new ManualClock();
  const asked = Promise.withResolvers<void>();
  const calls = outbound({ clock, resolve: () => asked.resolve() });
  await timeOut(
    clock,
    calls.call({ method: 'GET', url: 'https://provider.test/' }),
    asked.promise,
    'connect',
  );
});

test('Outbound.call() times out if the TLS handshake takes 10 s, and destroys the socket', async () => {
  const clock = new ManualClock();
  await using server = await rawServer(() => undefined);
  const hello = server.accepted.then((socket) => once(socket, 'data'));
  await timeOut(
    clock,
    outbound({ clock }).call({ method: 'GET', url: `https://127.0.0.1:${server.port}/` }),
    hello,
    'tls',
  );
  await server.closed;
});

test('Outbound.call() times out if no final response begins within 10 s, despite interim responses, and destroys the socket', async () => {
  const clock = new ManualClock();
  await using server = await rawServer(() => undefined);
  const asked = server.accepted.then(async (socket) => {
    await once(socket, 'data');
    socket.write('HTTP/1.1 102 Processing\r\n\r\n');
  });
  await timeOut(
    clock,
    outbound({ clock }).call({ method: 'GET', url: `http://127.0.0.1:${server.port}/` }),
    asked,
    'first_byte',
  );
  await server.closed;
});

test('Outbound.call() times out if the body is not complete within 10 s, and destroys the socket', async () => {
  const clock = new ManualClock();
  await using server = await rawServer(() => undefined);
  const call = outbound({ clock }).call({ method: 'GET', url: `http://127.0.0.1:${server.port}/` });
  const refused = assert.rejects(call, failure('provider_timeout', 'body'));
  const socket = await server.accepted;
  await once(socket, 'data');
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n');
  while (clock.pending === 0) await new Promise((resolve) => setImmediate(resolve));
  for (let second = 0; second < 25; second++) {
    socket.write('x');
    await clock.advance(1_000);
  }
  await refused;
  await server.closed;
  assert.equal(clock.pending, 0);
});

test('Outbound.call() follows no redirect', async () => {
  await using fake = await FakeProvider.start();
  await using thief = await FakeProvider.start();
  for (const status of [301, 302, 303, 307, 308]) {
    fake.failNext('token', { status, headers: { location: `${thief.url}/token` } });
    assert.equal(
      (await outbound().call({ method: 'POST', url: `${fake.url}/token`, body: 'client_secret=s' })).status,
      status,
    );
  }
  assert.equal(thief.count(), 0);
});

test('if the server is unreachable or ends the connection, the error of Outbound.call() names the failed step and the system error code', async () => {
  const closed = await rawServer(() => undefined);
  await closed[Symbol.asyncDispose]();
  await assert.rejects(
    outbound().call({ method: 'GET', url: `http://127.0.0.1:${closed.port}/` }),
    failure('provider_error', 'connect_ECONNREFUSED'),
  );
  await using hangsUp = await rawServer((socket) => void socket.once('data', () => socket.destroy()));
  await assert.rejects(
    outbound().call({ method: 'GET', url: `http://127.0.0.1:${hangsUp.port}/` }),
    failure('provider_error', 'first_byte_ECONNRESET'),
  );
  await using half = await rawServer(
    (socket) =>
      void socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf')),
  );
  await assert.rejects(
    outbound().call({ method: 'GET', url: `http://127.0.0.1:${half.port}/` }),
    failure('provider_error', /^body_(?:closed|ECONNRESET)$/),
  );
  await using noHttp = await rawServer(
    (socket) => void socket.once('data', () => socket.end('SSH-2.0-x\r\n')),
  );
  await assert.rejects(
    outbound().call({ method: 'GET', url: `http://127.0.0.1:${noHttp.port}/` }),
    failure('provider_error', /^first_byte_HPE_/),
  );
  await using upgrades = await rawServer(
    (socket) =>
      void socket.once('data', () =>
        socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n'),
      ),
  );
  await assert.rejects(
    outbound().call({ method: 'GET', url: `http://127.0.0.1:${upgrades.port}/` }),
    failure('provider_error', /^first_byte_/),
  );
  const names = outbound({
    resolve: (_host, done) => done(Object.assign(new Error('no such name'), { code: 'ENOTFOUND' }), []),
  });
  await assert.rejects(
    names.call({ method: 'GET', url: 'https://provider.test/' }),
    failure('provider_error', 'connect_ENOTFOUND'),
  );
  await assert.rejects(
    outbound({ resolve: (_host, done) => done(null, []) }).call({
      method: 'GET',
      url: 'https://provider.test/',
    }),
    failure('provider_error', 'no_address'),
  );
});

test('Outbound.call() fails if the headers of a response are too large', async () => {
  await using fake = await FakeProvider.start();
  fake.failNext('other', { headers: { 'x-long': 'x'.repeat(20_000) } });
  await assert.rejects(
    outbound().call({ method: 'GET', url: fake.url }),
    failure('provider_error', /^first_byte_HPE_HEADER_OVERFLOW/),
  );
  await fake.left();
});

test('if the signal of a request aborts, Outbound.call() rejects with the reason of the signal and destroys the socket', async () => {
  await using fake = await FakeProvider.start();
  const calls = outbound();
  await assert.rejects(
    calls.call({ method: 'GET', url: fake.url, signal: AbortSignal.abort('early') }),
    (reason) => reason === 'early',
  );
  assert.equal(fake.count(), 0);
  const leaving = new AbortController();
  fake.failNext('other', { until: new Promise(() => undefined) });
  const call = assert.rejects(
    calls.call({ method: 'GET', url: fake.url, signal: leaving.signal }),
    (reason) => reason === 'left',
  );
  await fake.arrived(1);
  leaving.abort('left');
  await call;
  await fake.left();
  assert.deepEqual(calls.load, { running: 0, waiting: 0 });
});

test('Outbound.call() resolves a host name once, and connects to the address that it has checked', async () => {
  await using fake = await FakeProvider.start();
  let asked = 0;
  const resolve: Resolve = (_host, done) =>
    done(null, [{ address: asked++ === 0 ? '127.0.0.1' : '10.0.0.1', family: 4 }]);
  assert.equal(
    (await outbound({ resolve }).call({ method: 'GET', url: `http://provider.test:${fake.port}/` })).status,
    200,
  );
  assert.equal(asked, 1);
  assert.equal(fake.requests[0]?.headers['host'], `provider.test:${fake.port}`);
});

test('Outbound.call() with an address check refuses a host name if any of its addresses is private', async () => {
  await using fake = await FakeProvider.start();
  for (const addresses of [
    ['127.0.0.1'],
    ['93.184.215.14', '127.0.0.1'],
    ['::1'],
    ['::ffff:10.0.0.1'],
    ['169.254.169.254'],
  ]) {
    let asked = 0;
    const resolve: Resolve = (_host, done) => {
      asked++;
      done(
        null,
        addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
      );
    };
    await assert.rejects(
      outbound({ resolve }).call({
        method: 'GET',
        url: `http://provider.test:${fake.port}/`,
        isGuarded: true,
      }),
      failure('provider_error', 'private_address'),
    );
    assert.equal(asked, 1);
  }
  for (const host of [
    '127.0.0.1',
    '[::1]',
    '0x7f.1',
    '2130706433',
    '[::ffff:127.0.0.1]',
    '169.254.169.254',
  ]) {
    await assert.rejects(
      outbound().call({ method: 'GET', url: `http://${host}:${fake.port}/`, isGuarded: true }),
      failure('provider_error', 'private_address'),
    );
  }
  assert.equal(fake.sockets.size + fake.count(), 0);
});

test('Outbound.call() connects to the first address of a host name if autoSelectFamily of Node.js is off', async () => {
  await using fake = await FakeProvider.start();
  const { getDefaultAutoSelectFamily, setDefaultAutoSelectFamily } = await import('node:net');
  const before = getDefaultAutoSelectFamily();
  setDefaultAutoSelectFamily(false);
  try {
    const resolve: Resolve = (_host, done) =>
      done(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '10.0.0.1', family: 4 },
      ]);
    assert.equal(
      (await outbound({ resolve }).call({ method: 'GET', url: `http://provider.test:${fake.port}/` })).status,
      200,
    );
  } finally {
    setDefaultAutoSelectFamily(before);
  }
});

test('Outbound.call() verifies certificates even if NODE_TLS_REJECT_UNAUTHORIZED is 0, and trusts the configured certificate authorities', async () => {
  await using fake = await FakeProvider.start({ isTls: true });
  const before = process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
  const resolve: Resolve = (_host, done) => done(null, [{ address: '127.0.0.1', family: 4 }]);
  process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = '0';
  try {
    await assert.rejects(
      outbound().call({ method: 'GET', url: `${fake.url}/jwks` }),
      failure(
        'provider_error',
        /^tls_(?:UNABLE_TO_VERIFY_LEAF_SIGNATURE|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_GET_ISSUER_CERT_LOCALLY)$/,
      ),
    );
    await assert.rejects(
      outbound({ ca: AUTHORITY_PEM, resolve }).call({
        method: 'GET',
        url: `https://other.test:${fake.port}/jwks`,
      }),
      failure('provider_error', 'tls_ERR_TLS_CERT_ALTNAME_INVALID'),
    );
    assert.equal(fake.count(), 0);
    assert.equal(
      (await outbound({ ca: AUTHORITY_PEM }).call({ method: 'GET', url: `${fake.url}/jwks` })).status,
      200,
    );
    assert.equal(
      (
        await outbound({ ca: AUTHORITY_PEM, resolve }).call({
          method: 'GET',
          url: `https://provider.test:${fake.port}/jwks`,
        })
      ).status,
      200,
    );
  } finally {
    if (before === undefined) delete process.env['NODE_TLS_REJECT_UNAUTHORIZED'];
    else process.env['NODE_TLS_REJECT_UNAUTHORIZED'] = before;
  }
});

test('Outbound runs 16 calls at once, queues 64 more, and refuses further calls with temporarily_unavailable', async () => {
  await using fake = await FakeProvider.start();
  const calls = outbound();
  const go = Promise.withResolvers<void>();
  for (let index = 0; index < 16; index++) fake.failNext('other', { until: go.promise });
  const under: Promise<OutboundAnswer>[] = [];
  for (let index = 0; index < 80; index++) under.push(calls.call({ method: 'GET', url: fake.url }));
  assert.deepEqual(calls.load, { running: 16, waiting: 64 });
  await assert.rejects(
    calls.call({ method: 'GET', url: fake.url }),
    failure('temporarily_unavailable', 'queue_full'),
  );
  await fake.arrived(16);
  assert.ok(fake.sockets.size <= 16);
  go.resolve();
  assert.deepEqual(new Set((await Promise.all(under)).map(({ status }) => status)), new Set([200]));
  assert.equal(fake.count(), 80);
  assert.deepEqual(calls.load, { running: 0, waiting: 0 });
});

test('if a call waits in the queue longer than timeoutMs, Outbound fails with temporarily_unavailable', async () => {
  await using fake = await FakeProvider.start();
  const stages: number[] = [];
  class Noting extends ManualClock {
    override after(ms: number, fn: () => void): Disposable {
      stages.push(this.monotonicMs());
      return super.after(ms, fn);
    }
  }
  const clock = new Noting();
  const calls = outbound({ clock });
  const responses: ServerResponse[] = [];
  for (let index = 0; index < 16; index++)
    fake.failNext('other', { answer: (response) => void responses.push(response) });
  const running = Array.from({ length: 16 }, () => calls.call({ method: 'GET', url: fake.url }));
  const waiting = assert.rejects(
    calls.call({ method: 'GET', url: fake.url }),
    failure('temporarily_unavailable', 'queue_timeout'),
  );
  await fake.arrived(16);
  await clock.advance(9_999);
  for (const response of responses) response.writeHead(200, { 'content-length': '2' }).write('{');
  while (stages.filter((ms) => ms === 9_999).length < 16)
    await new Promise((resolve) => setImmediate(resolve)); // now every call waits for its body
  await clock.advance(1);
  await waiting;
  for (const response of responses) response.end('}');
  assert.deepEqual(new Set((await Promise.all(running)).map(({ status }) => status)), new Set([200]));
  assert.equal(clock.pending, 0);
});

test('Outbound removes a call from the queue when the signal of that call aborts', async () => {
  const calls = outbound({ resolve: () => undefined });
  const running = Array.from({ length: 16 }, () =>
    assert.rejects(calls.call({ method: 'GET', url: 'https://provider.test/' }), ProviderFault),
  );
  const leaving = new AbortController();
  const left = assert.rejects(
    calls.call({ method: 'GET', url: 'https://provider.test/', signal: leaving.signal }),
    (reason) => reason === 'left',
  );
  assert.deepEqual(calls.load, { running: 16, waiting: 1 });
  leaving.abort('left');
  await left;
  assert.deepEqual(calls.load, { running: 16, waiting: 0 });
  calls.close();
  await Promise.all(running);
});

test('Outbound.close() ends the running and queued calls, and later calls are refused', async () => {
  await using fake = await FakeProvider.start();
  const calls = outbound();
  for (let index = 0; index < 16; index++) fake.failNext('other', { until: new Promise(() => undefined) });
  const closed = failure('temporarily_unavailable', 'closed');
  const under = Array.from({ length: 18 }, () =>
    assert.rejects(calls.call({ method: 'GET', url: fake.url }), closed),
  );
  await fake.arrived(16);
  calls.close();
  await Promise.all(under);
  await fake.left();
  assert.deepEqual(calls.load, { running: 0, waiting: 0 });
  await assert.rejects(calls.call({ method: 'GET', url: fake.url }), closed);
});

test('ProviderFault keeps its cause, shortens its reason to 120 characters, and replaces control and non-ASCII characters with "?"', () => {
  const cause = new Error('why');
  assert.equal(new ProviderFault('provider_error', 'a', { cause }).cause, cause);
  assert.ok(!('cause' in new ProviderFault('provider_error', 'a', { providerCode: 'x' })));
  const failed = new ProviderFault('provider_error', `a\r\nb\u001b[31m${'x'.repeat(1_000)}`);
  assert.equal(failed.reason.length, 120);
  assert.match(failed.reason, /^a\?\?b\?\[31mx+$/);
  assert.equal(failed.name, 'ProviderFault');
  assert.equal(word('é b', 10), '??b');
});

for (const [url, full, address, port] of [
  ['https://login.example/token?code=secret', 'https://login.example/token', 'login.example', 443],
  ['http://login.example/', 'http://login.example/', 'login.example', 80],
  ['https://login.example:8443/a', 'https://login.example:8443/a', 'login.example', 8_443],
] as const)
  test(`tracedCall() gives its span the address of the server and the URL without a query (${url})`, async () => {
    const tracer = new FakeTracer();
    await tracedCall(tracer, { method: 'GET', url }, async () => ({ status: 204 }) as never);
    assert.deepEqual(
      tracer.spans.map(({ name, kind, attributes }) => [name, kind, attributes]),
      [
        [
          'GET',
          'client',
          {
            'http.request.method': 'GET',
            'url.full': full,
            'server.address': address,
            'server.port': port,
            'http.response.status_code': 204,
          },
        ],
      ],
    );
  });
