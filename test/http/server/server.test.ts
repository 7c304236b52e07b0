import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Duplex, PassThrough } from 'node:stream';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { ClientDisconnected, Unauthorized } from '../../../src/base/errors.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { HttpResponse, StreamingResponse } from '../../../src/http/response.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { USES_INTERNALS } from '../../../src/http/server/fast-path/internals.ts';
import { turn } from '../../support/turn.ts';
import { serve } from '../../support/serve.ts';
import type { SvcError } from '../../../src/base/errors.ts';
import type { Socket } from 'node:net';
import type { FormPart, HttpRequest } from '../../../src/http/contracts.ts';
import type { TransportRequest } from '../../../src/http/request/request.ts';

/** A connection whose client is the test: pushes its bytes, and records the server's, which count as taken after `done`. */
function inMemory(onSent: (bytes: Buffer, done: () => void) => void): Duplex {
  const same = (): Duplex => socket;
  const socket: Duplex = Object.assign(
    new Duplex({
      read() {
        /* pushed into */
      },
      write: (bytes: Buffer, _encoding, done) => onSent(bytes, done),
    }),
    {
      setTimeout: same,
      setNoDelay: same,
      setKeepAlive: same,
      destroySoon: () => socket.end(() => socket.destroy()),
    },
  );
  return socket;
}

/**
 * Number of timers of the clock for all idle connections. Without undocumented parts node:http has one for
 * each.
 */
const IDLE_TIMERS = USES_INTERNALS ? 1 : 0;

const gate = <T = void>(): PromiseWithResolvers<T> => Promise.withResolvers<T>();

test('HttpServer answers several requests over one connection', async () => {
  await using it = await serve((app) => app.get('/{n:int}', ({ params }) => ({ n: params.n })));
  for (const n of [1, 2, 3]) {
    const answer = await it.client.get(`/${n}`).answer();
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.json(), { n });
    assert.equal(answer.field('content-type'), 'application/json');
    assert.equal(answer.field('content-length'), '7');
    assert.equal(answer.field('transfer-encoding'), undefined);
    assert.match(answer.field('x-request-id')!, /^[0-9a-f]{32}$/);
  }
});

test('HttpServer leaves no listeners on the socket of a keep-alive connection, for every kind of request', async () => {
  const counts: number[] = [];
  await using it = await serve((app) => {
    app.get('/', ({ signal }) => String(signal.aborted));
    app.post('/', async ({ req }) => (await req.body()).length);
    app.get('/stream', () => new StreamingResponse(['a', 'b']));
  });
  const server = new HttpServer(it.app.application());
  server.node.on('request', (incoming) =>
    counts.push(
      incoming.socket.eventNames().reduce((sum, name) => sum + incoming.socket.listenerCount(name), 0),
    ),
  );
  const { port } = await server.listen({ port: 0 });
  await using client = await RawClient.open(port);
  for (let round = 0; round < 8; round++) {
    assert.equal((await client.get('/').answer()).status, 200);
    assert.equal((await client.get('/stream').answer()).text(), 'ab');
    assert.equal(
      (await client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc').answer()).text(),
      '3',
    );
  }
  assert.equal(counts.at(-1), counts[2]);
  await server.close(0);
});

test('if writing an error response to the socket throws, HttpServer closes the connection, and the process does not end', async () => {
  const { logger, events } = collectedLog();
  const server = new HttpServer(new Svc({ logger }).application());
  const failure = new Error('a file is gone');
  const fail = (): never => {
    throw failure;
  };
  const failing = (): Duplex =>
    Object.assign(Object.defineProperty(new PassThrough(), 'writable', { get: fail }), {
      write: fail,
      end: fail,
    });
  for (const event of ['clientError', 'connect', 'upgrade']) {
    const socket = failing();
    const given =
      event === 'clientError'
        ? [failure, socket]
        : [
            {
              socket,
              method: 'GET',
              url: '/',
              httpVersion: '1.1',
              httpVersionMajor: 1,
              httpVersionMinor: 1,
              headers: {},
              rawHeaders: [],
            },
            socket,
            Buffer.alloc(0),
          ];
    server.node.emit(event, ...given);
    assert.equal(socket.destroyed, true, event);
  }
  assert.deepEqual(
    events.filter(({ event }) => event === 'server_error').map(({ level }) => level),
    ['error', 'error', 'error'],
  );
});

test('HttpServer handles pipelined requests one after another, and answers in the order of the requests (RFC 9112 §9.3.2)', async () => {
  const first = gate();
  const steps: string[] = [];
  await using it = await serve((app) => {
    app.get('/slow', async () => {
      steps.push('slow begins');
      await first.promise;
      steps.push('slow ends');
      return 'slow';
    });
    app.post('/fast', async ({ req }) => {
      steps.push('fast');
      return `fast ${await req.text()}`;
    });
  });
  it.client
    .get('/slow')
    .send('POST /fast HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody')
    .get('/none')
    .get('/slow');
  while (it.app.operations.inFlight() < 4) await turn();
  first.resolve();
  assert.equal((await it.client.answer()).text(), 'slow');
  assert.equal((await it.client.answer()).text(), 'fast body');
  assert.equal((await it.client.answer()).status, 404);
  assert.equal((await it.client.answer()).text(), 'slow');
  assert.deepEqual(steps, ['slow begins', 'slow ends', 'fast', 'slow begins', 'slow ends']);
});

test('HttpServer calls the handler of a pipelined request only when the client has read the previous response', async () => {
  let made = 0;
  const page = 'x'.repeat(8_000_000); // more than the buffers of both sides take
  await using it = await serve((app) =>
    app.get('/', () => {
      made++;
      return page;
    }),
  );
  it.client.socket.pause();
  it.client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(10)); // at once: node:http reads no more while its response waits
  while (it.app.operations.inFlight() < 10) await turn();
  for (let turns = 0; turns < 20; turns++) await turn();
  assert.equal(made, 1);
  it.client.socket.resume();
  for (let count = 0; count < 10; count++) assert.equal((await it.client.answer()).body.length, page.length);
  assert.equal(made, 10);
});

test('if a client resets its connection, HttpServer drops its waiting pipelined requests, and no longer counts them as in flight', async () => {
  const outcomes: unknown[] = [];
  const ended = gate();
  await using it = await serve((app) =>
    app.use((req) => {
      (req as TransportRequest).afterwards((outcome) => {
        outcomes.push(outcome);
        ended.resolve();
      });
      return once(req.signal, 'abort').then(() => 'gone');
    }),
  );
  it.client.get('/1').get('/2').get('/3');
  while (it.app.operations.inFlight() < 3) await turn();
  it.client.socket.resetAndDestroy(); // the end of its side alone would leave it waiting for responses
  await ended.promise;
  while (it.app.operations.inFlight() > 0) await turn();
  assert.equal(outcomes.length, 1);
  assert.ok(outcomes[0] instanceof ClientDisconnected);
});

test('HttpServer.close() sends "Connection: close" only with the response to the last of several pipelined requests', async () => {
  const first = gate();
  await using it = await serve((app) =>
    app.get('/{n}', async ({ params }) => {
      if (params.n === '1') await first.promise;
      return params.n;
    }),
  );
  it.client.get('/1').get('/2');
  while (it.app.operations.inFlight() < 2) await turn();
  const closing = it.close();
  first.resolve();
  for (const [text, connection] of [
    ['1', 'keep-alive'],
    ['2', 'close'],
  ] as const) {
    const answer = await it.client.answer();
    assert.deepEqual([answer.text(), answer.field('connection')], [text, connection]);
  }
  await closing;
  assert.equal((await it.client.ended()).length, 0);
});

test('when a client sends CONNECT, HttpServer closes the connection, aborts the running request, and answers none of the pipelined requests', async () => {
  const clock = new ManualClock();
  const release = gate();
  const aborted: string[] = [];
  const app = new Svc({ clock });
  app.get('/{n}', async ({ params, signal }) => {
    signal.addEventListener('abort', () => aborted.push(params.n));
    if (params.n !== 'quick') await release.promise;
    return 'answer';
  });
  const server = new HttpServer(app.application());
  await server.listen({ port: 0 });
  let sent = '';
  const socket = inMemory((bytes, done) => {
    sent += bytes.toString('latin1');
    done();
  });
  server.node.emit('connection', socket);
  const ask = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;
  socket.push(ask('/1') + ask('/2') + ask('/quick') + ask('/3'));
  await turn();
  assert.equal(server.inFlight, 4);
  socket.push('CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n');
  await turn();
  await turn();
  assert.deepEqual([socket.destroyed, sent, aborted.toSorted()], [true, '', ['1']]); // an answer to it would be taken for that of the first
  release.resolve();
  await turn();
  assert.equal(server.inFlight, 0);
  assert.equal(await server.close(0), 0);
});

test('if a client sends CONNECT and does not read the response, HttpServer.close() still resolves', async () => {
  for (const deadlineMs of [1_000, 10_000]) {
    const clock = new ManualClock();
    const server = new HttpServer(new Svc({ clock }).application());
    const socket = inMemory(() => undefined); // the client never reads it
    server.adopt(socket as Socket);
    socket.push('CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n');
    await turn();
    const closed = server.close(deadlineMs);
    await clock.advance(deadlineMs);
    assert.equal(await closed, 0);
    assert.deepEqual([socket.destroyed, clock.pending], [true, 0]);
  }
});

test('HttpServer closes the connection if a client resets it after CONNECT, or sends CONNECT after a 400 response', async () => {
  const clock = new ManualClock();
  const server = new HttpServer(new Svc({ clock }).application());
  await server.listen({ port: 0 });
  const tunnel = 'CONNECT b:443 HTTP/1.1\r\nHost: b:443\r\n\r\n';
  const reset = inMemory(() => undefined);
  server.node.emit('connection', reset);
  reset.push(tunnel);
  await turn();
  reset.destroy(new Error('reset'));
  let sent = '';
  const answered = inMemory((bytes, done) => {
    sent += bytes.toString('latin1');
    done();
  });
  server.node.emit('connection', answered);
  answered.push('POST / HTTP/1.1\r\nContent-Length: 4\r\n\r\nab'); // no Host
  await turn();
  answered.push(`cd${tunnel}`);
  await turn();
  await turn();
  assert.deepEqual(sent.match(/HTTP\/1\.1 \d+/g), ['HTTP/1.1 400']);
  assert.deepEqual([reset.destroyed, answered.destroyed], [true, true]);
  assert.equal(await server.close(0), 0);
});

test('HttpServer answers HEAD with the same head as GET and no body', async () => {
  let ended = 0;
  await using it = await serve((app) => {
    app.get('/text', () => 'five!');
    app.get(
      '/stream',
      () =>
        new StreamingResponse({
          [Symbol.iterator]: () => ({
            next: () => ({ done: false, value: 'x' }),
            return: () => {
              ended++;
              return { done: true, value: undefined };
            },
          }),
        }),
    );
    app.get('/length', () => new StreamingResponse(['abc'], { contentLength: 3 }));
    app.get('/empty', () => new HttpResponse(null));
  });
  const text = await it.client.send('HEAD /text HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.equal(text.status, 200);
  assert.equal(text.field('content-length'), '5');
  const stream = await it.client.send('HEAD /stream HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.equal(stream.status, 200);
  assert.equal(stream.field('content-length'), undefined);
  assert.equal(ended, 1);
  assert.equal(
    (await it.client.send('HEAD /length HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).field('content-length'),
    '3',
  );
  assert.equal(
    (await it.client.send('HEAD /empty HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).field('content-length'),
    '0',
  );
  assert.equal((await it.client.send('HEAD /none HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).status, 404);
  assert.equal((await it.client.get('/text').answer()).text(), 'five!'); // nothing is left over of the five before
});

test('HttpServer answers an unknown path with 404, an unsupported method with 405 and Allow, and OPTIONS with 204 and Allow', async () => {
  await using it = await serve((app) =>
    app
      .get('/a', () => 'a')
      .post('/a', () => 'b')
      .delete('/{x}', () => 'c'),
  );
  const absent = await it.client.get('/a/b').answer();
  assert.equal(absent.status, 404);
  assert.equal(absent.field('content-type'), 'application/problem+json');
  const { request_id, ...problem } = absent.json();
  assert.deepEqual(problem, { type: 'about:blank', title: 'Not Found', status: 404 });
  assert.equal(request_id, absent.field('x-request-id'));
  const refused = await it.client.send('PUT /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n').answer();
  assert.equal(refused.status, 405);
  assert.equal(refused.field('allow'), 'GET, HEAD, POST, DELETE, OPTIONS');
  const options = await it.client.send('OPTIONS /a HTTP/1.1\r\nHost: a\r\n\r\n').answer();
  assert.equal(options.status, 204);
  assert.equal(options.field('allow'), 'GET, HEAD, POST, DELETE, OPTIONS');
  assert.equal(options.field('content-length'), undefined);
  const star = await it.client.send('OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n').answer();
  assert.equal(star.status, 204);
  assert.equal(star.field('allow'), 'GET, HEAD, POST, DELETE, OPTIONS');
});

test('HttpServer accepts a target in absolute form (RFC 9112 §3.2.2), and uses its host', async () => {
  await using it = await serve((app) =>
    app
      .get('/', ({ req }) => ['root', req.host, req.path, req.query.get('q')].join())
      .get('/a', ({ req }) => req.host),
  );
  assert.equal((await it.client.get('http://other.example:81/a').answer()).text(), 'other.example:81');
  assert.equal((await it.client.get('HTTP://other.example?q=1').answer()).text(), 'root,other.example,/,1');
  assert.equal((await it.client.get('http://other.example').answer()).text(), 'root,other.example,/,');
});

for (const [target, status] of [
  ['/%', 400],
  ['/%zz', 400],
  ['/a%2', 400],
  ['/%c3%28', 400],
  ['/%ff', 400],
  ['/%2e%2e/', 404],
  ['/%2e%2e/%2e%2e/etc/passwd', 404],
  ['//', 404],
  ['///', 404],
  ['/..', 200],
  ['/%00', 200],
  ['/%2F', 200],
  ['/?%', 404],
  ['/a?%zz', 200],
  ['/a#b', 400],
] as const) {
  test(`HttpServer answers 400 to an invalid request target, and routes every other target (target: ${target}, status: ${status})`, async () => {
    await using it = await serve((app) => app.get('/{x}', ({ params }) => params.x));
    assert.equal((await it.client.get(target).answer()).status, status);
  });
}

test('HttpServer accepts a path of 15,000 characters, and a path of 7,000 segments', async () => {
  await using it = await serve((app) =>
    app
      .get('/{x}', ({ params }) => String(params.x.length))
      .get('/{a}/{b:path}', ({ params }) => String(params.b.length)),
  );
  assert.equal((await it.client.get(`/${'a'.repeat(15_000)}`).answer()).text(), '15000');
  assert.equal((await it.client.get('/a'.repeat(7_000)).answer()).text(), '13997');
});

test('HttpServer answers an HTTP/1.0 request without Host, closes the connection afterwards, and does not use chunked coding', async () => {
  await using it = await serve((app) =>
    app.get('/', ({ req }) => `[${req.host}]`).get('/stream', () => new StreamingResponse(['a', 'b'])),
  );
  const answer = await it.client.send('GET / HTTP/1.0\r\n\r\n').answer();
  assert.equal(answer.text(), '[]');
  await it.client.ended();
  await using other = await RawClient.open(it.port);
  const stream = await other.send('GET /stream HTTP/1.0\r\n\r\n').answer();
  assert.equal(stream.field('transfer-encoding'), undefined);
  assert.equal(stream.text(), 'ab');
});

test('HttpServer sends Content-Length to HTTP/1.0 clients, and keeps a connection open if the client asks for it', async () => {
  await using it = await serve((app) =>
    app
      .get('/', () => 'café')
      .get('/json', () => [{ a: 1 }, 201])
      .get('/bytes', () => Buffer.from('ab')),
  );
  for (const [path, length] of [
    ['/', '5'],
    ['/json', '7'],
    ['/bytes', '2'],
    ['/nowhere', undefined],
    ['/', '5'],
  ] as const) {
    const answer = await it.client.send(`GET ${path} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n`).answer();
    assert.equal(answer.field('content-length'), length ?? String(answer.body.length), path);
    assert.equal(answer.field('connection'), 'keep-alive', path);
  }
  const last = await it.client.send('GET / HTTP/1.0\r\n\r\n').answer();
  assert.deepEqual(
    [last.field('content-length'), last.field('connection'), last.text()],
    ['5', 'close', 'café'],
  );
  await it.client.ended();
});

test('HttpServer sends 100 Continue when the handler first reads the body, and the connection stays usable', async () => {
  await using it = await serve((app) =>
    app
      .post('/', async ({ req }) => await req.text())
      .post('/stream', async ({ req }) => {
        let text = '';
        for await (const chunk of req.stream()) text += Buffer.from(chunk).toString();
        return text;
      }),
  );
  for (const path of ['/', '/stream']) {
    it.client.send(`POST ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\n\r\n`);
    assert.equal((await it.client.answer()).status, 100);
    assert.equal((await it.client.send('hi').answer()).text(), 'hi');
  }
});

test('HttpServer sends no 100 Continue before a response that does not need the body', async () => {
  await using it = await serve((app) =>
    app
      .post('/', () => 'unread')
      .post('/small', async ({ req }) => await req.text({ maxBytes: 1 }))
      .use((req, next) => {
        if (req.path === '/secret') throw new Unauthorized();
        return next();
      }),
  );
  for (const [path, status] of [
    ['/', 200],
    ['/small', 413],
    ['/none', 404],
    ['/secret', 401],
  ] as const) {
    await using client = await RawClient.open(it.port);
    const answer = await client
      .send(`POST ${path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n`)
      .answer();
    assert.equal(answer.status, status);
    assert.equal(answer.field('connection'), 'close'); // whether a body follows is not known
    assert.equal((await client.ended()).length, 0);
  }
});

test('HttpServer sends no 100 Continue to HTTP/1.0 clients (RFC 9110 §10.1.1), or if the body has already arrived', async () => {
  await using it = await serve((app) => app.post('/', async ({ req }) => await req.text()));
  assert.equal(
    (
      await it.client
        .send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n')
        .answer()
    ).status,
    200,
  );
  await using early = await RawClient.open(it.port);
  assert.equal(
    (
      await early.send('POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi').answer()
    ).text(),
    'hi',
  );
});

test('if no WebSocket route exists, HttpServer answers a request with Upgrade like any other request', async () => {
  for (const protocol of ['websocket', 'h2c']) {
    await using it = await serve((app) => app.get('/', () => 'plain'));
    const answer = await it.client.get('/', `Connection: Upgrade\r\nUpgrade: ${protocol}\r\n`).answer();
    assert.deepEqual([answer.status, answer.text()], [200, 'plain']);
  }
});

test('HttpServer accepts a valid X-Request-Id, and replaces an invalid one', async () => {
  await using it = await serve((app) => app.get('/', ({ req }) => req.id));
  const given = await it.client.get('/', 'X-Request-Id: trace:0.a_b-1/2+3=@\r\n').answer();
  assert.equal(given.field('x-request-id'), 'trace:0.a_b-1/2+3=@');
  assert.equal(given.text(), given.field('x-request-id'));
  for (const bad of ['', '"quoted"', 'has space', 'a\\b', '-first', 'x'.repeat(129), 'caf\xe9']) {
    const answer = await it.client.get('/', `X-Request-Id: ${bad}\r\n`).answer();
    assert.match(answer.field('x-request-id')!, /^[0-9a-f]{32}$/);
    assert.equal(answer.text(), answer.field('x-request-id'));
  }
  assert.equal(
    (await it.client.get('/none', 'X-Request-Id: mine\r\n').answer()).json()['request_id'],
    'mine',
  );
});

test('if an upstream response has an X-Request-Id, HttpServer still sends only its own request id', async () => {
  await using it = await serve((app) =>
    app.get('/', () => new Response('x', { headers: { 'x-request-id': 'upstream' } })),
  );
  const answer = await it.client.get('/', 'X-Request-Id: mine\r\n').answer();
  assert.deepEqual(answer.fields.get('x-request-id'), ['mine']);
});

// ── bodies of requests ──

test('HttpServer refuses a body with too large a Content-Length before the body arrives, and the connection stays usable', async () => {
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => (await req.body({ maxBytes: 10 })).length),
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n');
  assert.equal((await it.client.answer()).status, 413);
  it.client.send('12345678901').send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n1234567890');
  assert.equal((await it.client.answer()).text(), '10');
});

test('HttpServer refuses a chunked body at the first byte above the limit, and the connection stays usable', async () => {
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => (await req.body({ maxBytes: 10 })).length),
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n12345678\r\n');
  it.client.send('8\r\n12345678\r\n');
  assert.equal((await it.client.answer()).status, 413);
  it.client.send('0\r\n\r\n').get('/none');
  assert.equal((await it.client.answer()).status, 404);
});

test('if a client keeps sending a refused body, HttpServer disconnects the client after 5 seconds', async () => {
  const clock = new ManualClock();
  await using it = await serve((app) => app.post('/', () => 'no, thank you'), { clock });
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\nx');
  assert.equal((await it.client.answer()).status, 200);
  while (clock.pending === 0) await clock.advance(0);
  await clock.advance(5_000);
  await it.client.ended();
  assert.equal(clock.pending, 0);
});

test('when the rest of an unread body has arrived, HttpServer removes the time limit of the body, and the connection stays usable', async () => {
  const clock = new ManualClock();
  await using it = await serve((app) => app.post('/', () => 'no'), { clock });
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n');
  assert.equal((await it.client.answer()).status, 200);
  while (clock.pending < 1 + IDLE_TIMERS) await clock.advance(0);
  it.client.send('rest').get('/none');
  assert.equal((await it.client.answer()).status, 404);
  await clock.advance(5_000);
  assert.equal((await it.client.get('/none').answer()).status, 404);
  assert.equal(clock.pending, IDLE_TIMERS);
});

test('if a handler still reads the body after timeoutMs, HttpServer answers 503, completes the reading, and keeps the connection usable', async () => {
  const clock = new ManualClock();
  const read = gate<string>();
  await using it = await serve(
    (app) =>
      app.post('/', { timeoutMs: 100 }, async ({ req }) => {
        clock.after(0, () => undefined);
        read.resolve(await req.text());
        return 'late';
      }),
    { clock },
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n');
  while (clock.pending < 2) await turn(); // its own time, and what the handler left
  await clock.advance(100);
  assert.equal((await it.client.answer()).status, 503);
  it.client.send('rest').get('/none');
  assert.equal((await it.client.answer()).status, 404);
  assert.equal(await read.promise, 'rest');
  await clock.advance(5_000);
  assert.equal((await it.client.get('/none').answer()).status, 404);
  assert.equal(clock.pending, IDLE_TIMERS);
});

test('HttpServer lets a handler read the body of a GET request, and discards the body if the handler does not read it', async () => {
  await using it = await serve((app) => app.get('/read', ({ req }) => req.text()).get('/not', () => 'not'));
  assert.equal(
    (await it.client.send('GET /read HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody').answer()).text(),
    'body',
  );
  assert.equal(
    (await it.client.send('GET /not HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody').answer()).text(),
    'not',
  );
  assert.equal((await it.client.get('/read').answer()).text(), '');
});

test('if a handler leaves the stream of its body early, HttpServer keeps the connection usable', async () => {
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => {
      for await (const chunk of req.stream()) return String(chunk.length > 0);
      return 'none';
    }),
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n');
  assert.equal((await it.client.answer()).text(), 'true');
  it.client.send('4\r\nabcd\r\n0\r\n\r\n').get('/none');
  assert.equal((await it.client.answer()).status, 404);
});

test('if an upload is interrupted, HttpServer rejects reading the body with ClientDisconnected, and logs no error', async () => {
  const started = gate();
  const failed = gate<unknown>();
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => {
      started.resolve();
      try {
        return await req.body();
      } catch (error) {
        failed.resolve(error);
        throw error;
      }
    }),
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome');
  await started.promise;
  it.client.socket.destroy();
  assert.ok((await failed.promise) instanceof ClientDisconnected);
  await it.close();
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error'),
    [],
  );
});

for (const [how, read] of [
  ['body()', (req) => req.body()],
  [
    'stream()',
    async (req) => {
      for await (const chunk of req.stream()) assert.ok(chunk.length > 0);
    },
  ],
  ['form()', (req) => req.form()],
] as [string, (req: HttpRequest) => Promise<unknown>][]) {
  for (const [end, leave] of [
    ['the client has left', async (it) => void it.client.socket.destroy()],
    [
      'the time limit has passed',
      async (_, clock) => {
        while (clock.pending === 0) await clock.advance(0);
        await clock.advance(5_000);
      },
    ],
  ] as [string, (it: { client: RawClient }, clock: ManualClock) => Promise<void>][]) {
    test(`if a handler still reads the body after the response, the read rejects when the client leaves or a time limit passes (${how}: ${end})`, async () => {
      const clock = new ManualClock();
      const failed = gate<unknown>();
      await using it = await serve(
        (app) =>
          app
            .use((_req, next) => {
              void next();
              return 'answered before';
            })
            .post('/', async ({ req }) => {
              await read(req).catch(failed.resolve);
            }),
        { clock },
      );
      it.client.send(
        'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n--b\r\n',
      );
      assert.equal((await it.client.answer()).text(), 'answered before');
      await leave(it, clock);
      const error = await failed.promise;
      if (how === 'form()')
        assert.equal((error as SvcError).code, 'E_BODY_DISCARDED'); // it loads its parser first, and starts to read behind the response
      else assert.ok(error instanceof ClientDisconnected);
      await it.close(); // it waits for lingering connections, on a stopped clock
    });
  }
}

for (const [how, read] of [
  ['text()', (req) => req.text()],
  [
    'stream()',
    async (req) => {
      for await (const chunk of req.stream()) assert.ok(chunk.length > 0);
    },
  ],
  ['leadingFields()', (req) => req.leadingFields()],
] as [string, (req: HttpRequest) => Promise<unknown>][]) {
  for (const [what, body] of [
    ['whole', 'whole'],
    ['under way', 'who'],
  ]) {
    test(`if a handler starts to read the body after the response, the read rejects instead of returning an empty body (${how}, body ${what})`, async () => {
      const answered = gate();
      const failed = gate<unknown>();
      await using it = await serve((app) =>
        app
          .use((_req, next) => {
            void next();
            return 'answered before';
          })
          .post('/', async ({ req }) => {
            await answered.promise;
            failed.resolve(await read(req).catch((error: unknown) => error));
          }),
      );
      it.client.send(
        `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 5\r\n\r\n${body}`,
      );
      assert.equal((await it.client.answer()).text(), 'answered before');
      it.client.send('whole'.slice(body!.length)).get('/none');
      assert.equal((await it.client.answer()).text(), 'answered before');
      answered.resolve();
      assert.equal(((await failed.promise) as SvcError).code, 'E_BODY_DISCARDED');
    });
  }
}

test('if a handler reads the body after the response, HttpServer rejects the read, even if the handler has called leadingFields() before', async () => {
  const [ahead, answered] = [gate(), gate()];
  const failed = gate<unknown>();
  await using it = await serve((app) =>
    app
      .use(async (_req, next) => {
        void next();
        await ahead.promise;
        return 'answered before';
      })
      .post('/', async ({ req }) => {
        await req.leadingFields();
        ahead.resolve();
        await answered.promise;
        failed.resolve(await req.body().catch((error: unknown) => error));
      }),
  );
  const head = '--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n';
  it.client.send(
    `POST / HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: ${head.length + 4}\r\n\r\n${head}`,
  );
  assert.equal((await it.client.answer()).text(), 'answered before');
  it.client.send('rest').get('/none');
  assert.equal((await it.client.answer()).text(), 'answered before');
  answered.resolve();
  assert.equal(((await failed.promise) as SvcError).code, 'E_BODY_DISCARDED');
});

test('if a request has no body and a handler reads it after the response, HttpServer returns an empty body', async () => {
  const answered = gate();
  const late = gate<unknown>();
  await using it = await serve((app) =>
    app
      .use((_req, next) => {
        void next();
        return 'answered before';
      })
      .get('/', async ({ req }) => {
        await answered.promise;
        late.resolve(await req.text());
      }),
  );
  assert.equal((await it.client.get('/').answer()).text(), 'answered before');
  answered.resolve();
  assert.equal(await late.promise, '');
});

// ── clients that leave ──

test('when the client leaves during a response, HttpServer aborts the signal of the request and closes the source of the response', async () => {
  const outcome = gate<unknown>();
  const returned = gate();
  let reason: unknown;
  await using it = await serve((app) =>
    app.get('/', ({ req, signal }) => {
      signal.addEventListener('abort', () => {
        reason = signal.reason;
      });
      (req as TransportRequest).afterwards((how) => outcome.resolve(how));
      async function* source(): AsyncGenerator<string> {
        try {
          for (;;) {
            yield 'x'.repeat(10_000);
            await new Promise((resolve) => setImmediate(resolve));
          }
        } finally {
          returned.resolve();
        }
      }
      return new StreamingResponse(source());
    }),
  );
  it.client.get('/');
  await once(it.client.socket, 'data');
  it.client.socket.destroy();
  await returned.promise;
  assert.ok((await outcome.promise) instanceof ClientDisconnected);
  assert.ok(reason instanceof ClientDisconnected);
});

test('when the client leaves while the source of a response is waiting, HttpServer closes the source', async () => {
  const returned = gate();
  await using it = await serve((app) =>
    app.get(
      '/',
      () =>
        new StreamingResponse({
          [Symbol.asyncIterator]: () => {
            const pending = gate<IteratorResult<string>>();
            let isFirst = true;
            return {
              next: () => {
                const step = isFirst
                  ? Promise.resolve({ done: false as const, value: 'x' })
                  : pending.promise;
                isFirst = false;
                return step;
              },
              return: () => {
                returned.resolve();
                pending.resolve({ done: true, value: undefined });
                return pending.promise;
              },
            };
          },
        }),
    ),
  );
  it.client.get('/');
  await once(it.client.socket, 'data');
  it.client.socket.destroy();
  await returned.promise;
});

for (const [what, thrown] of [
  ['the reason', (reason: unknown) => reason],
  ['an error with that cause', (cause: unknown) => new Error('the statement was canceled', { cause })],
] as const)
  test(`if the source of a response throws because the signal of the request has aborted, HttpServer logs no error (${what})`, async () => {
    const ended = gate();
    await using it = await serve((app) =>
      app.get(
        '/',
        ({ signal }) =>
          new StreamingResponse(
            (async function* (): AsyncGenerator<string> {
              yield 'x';
              try {
                await it.app.clock.sleep(60_000, signal);
              } catch (error) {
                throw thrown(error);
              } finally {
                ended.resolve();
              }
            })(),
          ),
      ),
    );
    it.client.get('/');
    await once(it.client.socket, 'data');
    it.client.socket.destroy();
    await ended.promise;
    await it.close();
    assert.deepEqual(
      it.events.filter((event) => event['level'] === 'error'),
      [],
    );
  });

test('if a handler first reads the signal of its request after the client has left, the signal is already aborted', async () => {
  const started = gate();
  const aborted = gate<boolean>();
  const outcome = gate<unknown>();
  const returned = gate();
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => {
      (req as TransportRequest).afterwards((how) => outcome.resolve(how));
      started.resolve();
      await assert.rejects(req.body(), ClientDisconnected);
      await new Promise((resolve) => setImmediate(resolve));
      aborted.resolve(req.signal.aborted);
      return new StreamingResponse({
        [Symbol.asyncIterator]: () => ({
          next: () => Promise.reject(new Error('pulled')),
          return: async () => {
            returned.resolve();
            return { done: true as const, value: undefined };
          },
        }),
      });
    }),
  );
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n');
  await started.promise;
  it.client.socket.destroy();
  assert.equal(await aborted.promise, true);
  assert.ok((await outcome.promise) instanceof ClientDisconnected);
  await returned.promise;
});

test('HttpServer does not abort the signal of a request when the response is complete', async () => {
  const signals: AbortSignal[] = [];
  const outcomes: unknown[] = [];
  await using it = await serve((app) =>
    app
      .use((req, next) => {
        signals.push(req.signal);
        (req as TransportRequest).afterwards((outcome) => void outcomes.push(outcome));
        return next();
      })
      .get('/', () => 'x')
      .get('/stream', () => new StreamingResponse(['x']))
      .post('/', ({ req }) => req.text()),
  );
  await it.client.get('/').answer();
  await it.client.get('/stream').answer();
  await it.client.get('/none').answer();
  await it.client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx').answer();
  await it.client[Symbol.asyncDispose]();
  await it.close();
  assert.deepEqual(
    signals.map((signal) => signal.aborted),
    [false, false, false, false],
  );
  assert.deepEqual(outcomes, [undefined, undefined, undefined, undefined]);
});

// ── chunked responses ──

test('HttpServer reads the source of a response no faster than its client reads the response', async () => {
  let pulled = 0;
  const total = 1_000;
  await using it = await serve((app) =>
    app.get(
      '/',
      () =>
        new StreamingResponse(
          (function* (): Generator<Uint8Array> {
            for (; pulled < total; pulled++) yield Buffer.alloc(65_536);
          })(),
        ),
    ),
  );
  it.client.socket.pause();
  it.client.get('/');
  let before = -1;
  for (let still = 0; still < 20;) {
    // waits until no more bytes are sent, because the buffers of both sides are full
    await new Promise((resolve) => setImmediate(resolve));
    still = pulled > 0 && pulled === before ? still + 1 : 0;
    before = pulled;
  }
  assert.ok(pulled < total / 2, `pulled ${pulled} of ${total}`);
  it.client.socket.resume();
  const answer = await it.client.answer();
  assert.equal(answer.body.length, total * 65_536);
});

test('HttpServer sends strings and bytes of a stream, skips empty chunks, and accepts a declared length', async () => {
  await using it = await serve((app) => {
    app.get('/chunked', () => new StreamingResponse(['a', '', Buffer.from('b'), new Uint8Array(), 'é']));
    app.get('/length', () => new StreamingResponse(['ab', 'c'], { contentLength: 3 }));
    app.get('/web', () => new Response(new Blob(['blob']).stream()));
  });
  const chunked = await it.client.get('/chunked').answer();
  assert.equal(chunked.field('transfer-encoding'), 'chunked');
  assert.equal(chunked.text(), 'abé');
  const length = await it.client.get('/length').answer();
  assert.equal(length.field('content-length'), '3');
  assert.equal(length.text(), 'abc');
  assert.equal((await it.client.get('/web').answer()).text(), 'blob');
});

for (const [what, source, contentLength] of [
  [
    'fails',
    function* (): Generator<string> {
      yield 'head';
      throw new Error('source');
    },
    undefined,
  ],
  [
    'yields fewer bytes than declared',
    function* (): Generator<string> {
      yield 'head';
    },
    9,
  ],
  [
    'yields more bytes than declared',
    function* (): Generator<string> {
      yield 'head';
      yield 'HTTP/1.1 200 OK';
    },
    4,
  ],
  [
    'yields neither text nor bytes',
    function* (): Generator<string> {
      yield 'head';
      yield 5 as unknown as string;
    },
    undefined,
  ],
  [
    'fails when it is ended',
    () => {
      const values: unknown[] = ['head', 5];
      return {
        [Symbol.iterator]: () => ({
          next: () => ({ done: false as const, value: values.shift() as string }),
          return: () => {
            throw new Error('return');
          },
        }),
      };
    },
    undefined,
  ],
] as const) {
  test(`if the source of a response fails after the response head, HttpServer cuts the connection and logs the error once (the source ${what})`, async () => {
    const outcome = gate<unknown>();
    let isAborted = false;
    await using it = await serve((app) =>
      app.get('/', ({ req, signal }) => {
        signal.addEventListener('abort', () => {
          isAborted = true;
        });
        (req as TransportRequest).afterwards((how) => outcome.resolve(how));
        return new StreamingResponse(source(), { contentLength });
      }),
    );
    const bytes = await it.client.get('/').ended();
    assert.ok(!bytes.includes('\r\n0\r\n\r\n'), 'no last chunk');
    assert.equal(bytes.toString().split('HTTP/1.1').length, bytes.length === 0 ? 1 : 2);
    const how = await outcome.promise;
    assert.ok(
      how instanceof Error && !(how instanceof ClientDisconnected),
      'the failure itself is the outcome',
    );
    assert.equal(isAborted, false);
    assert.deepEqual(
      it.events.filter((event) => event['level'] === 'error').map((event) => event['event']),
      ['response_failed'],
    );
  });
}

test('HttpServer sends no content with 204, 205 and 304, and closes the sources of such responses', async () => {
  let ended = 0;
  await using it = await serve((app) => {
    app.get('/{status:int}', ({ params }) => new HttpResponse('body', { status: params.status }));
    app.get(
      '/stream',
      () =>
        new StreamingResponse(
          {
            [Symbol.asyncIterator]: () => ({
              next: () => Promise.reject(new Error('pulled')),
              return: () => {
                ended++;
                return Promise.resolve({ done: true, value: undefined });
              },
            }),
          },
          { status: 204 },
        ),
    );
  });
  assert.equal((await it.client.get('/204').answer()).field('content-length'), undefined);
  assert.equal((await it.client.get('/304').answer()).field('content-length'), undefined);
  assert.equal((await it.client.get('/205').answer()).field('content-length'), '0');
  assert.equal((await it.client.get('/stream').answer()).status, 204);
  assert.equal((await it.client.get('/200').answer()).text(), 'body');
  assert.equal(ended, 1);
});

test('HttpServer sends Content-Length 0 for an empty body of a GET response, whatever the option "contentLength" says', async () => {
  await using it = await serve((app) =>
    app.get('/', () => {
      const response = new HttpResponse(null);
      response.contentLength = 7;
      return response;
    }),
  );
  assert.equal((await it.client.get('/').answer()).field('content-length'), '0');
  assert.equal(
    (await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).field('content-length'),
    '7',
  );
});

test('if reading a whole body fails after the handler has returned, the process does not end', async () => {
  const unheard: unknown[] = [];
  const hear = (reason: unknown): void => void unheard.push(reason);
  process.prependListener('unhandledRejection', hear);
  try {
    await using it = await serve((app) => {
      for (const read of ['body', 'text', 'json', 'form'] as const) {
        app.post(`/${read}`, { maxBodyBytes: 10 }, ({ req }) => {
          void req[read]();
          throw new Unauthorized('log in first');
        });
      }
    });
    for (const read of ['body', 'text', 'json', 'form']) {
      for (const [type, body] of [
        ['application/json', '{"a": '],
        ['application/json', '"much longer than it may be"'],
        ['text/plain', '\xff'],
        ['application/x-www-form-urlencoded', 'a=much+longer+than+it+may+be'],
      ]) {
        await using client = await RawClient.open(it.port);
        const answer = await client
          .send(
            `POST /${read} HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\nContent-Length: ${body!.length}\r\n\r\n${body}`,
          )
          .answer();
        assert.equal(answer.status, 401, `${read} ${body}`);
      }
      const leaving = await RawClient.open(it.port);
      assert.equal(
        (
          await leaving
            .send(
              `POST /${read} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{`,
            )
            .answer()
        ).status,
        401,
      );
      await leaving[Symbol.asyncDispose]();
    }
  } finally {
    process.off('unhandledRejection', hear);
  }
  assert.deepEqual(unheard, []);
});

test('if reading a stream or a part of a body fails after the handler has returned, the process does not end', async () => {
  const readings: Readonly<Record<string, (req: HttpRequest) => unknown>> = {
    stream: (req) => void req.stream()[Symbol.asyncIterator]().next(),
    parts: (req) => void req.parts()[Symbol.asyncIterator]().next(),
    part: async (req) => void (await firstPart(req))[Symbol.asyncIterator]().next(),
    text: async (req) => void (await firstPart(req)).text(),
    leadingFields: (req) => void req.leadingFields(),
  };
  const unheard: unknown[] = [];
  const hear = (reason: unknown): void => void unheard.push(reason);
  process.prependListener('unhandledRejection', hear);
  try {
    await using it = await serve((app) => {
      for (const [name, read] of Object.entries(readings))
        app.post(`/${name}`, async ({ req }) => {
          await read(req);
          return 'left';
        });
    });
    for (const name of Object.keys(readings)) {
      for (const rest of [undefined, '\r\n--bX\r\n']) {
        const head = `POST /${name} HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: 1000\r\n\r\n`;
        const client = await RawClient.open(it.port);
        client.send(
          `${head}${name === 'stream' || name === 'parts' ? '' : '--b\r\nContent-Disposition: form-data; name="a"\r\n\r\n'}`,
        );
        assert.equal((await client.answer()).text(), 'left', name);
        if (rest !== undefined) client.send(rest.padEnd(1_000, 'x'));
        await client[Symbol.asyncDispose]();
      }
    }
  } finally {
    process.off('unhandledRejection', hear);
  }
  assert.deepEqual(unheard, []);
});

/** Returns the first part of a multipart body. */
async function firstPart(req: HttpRequest): Promise<FormPart> {
  const { value } = await req.parts()[Symbol.asyncIterator]().next();
  return value as FormPart; // it has been sent
}

test('if node:http refuses a response, HttpServer answers 500 once, and the connection stays usable', async () => {
  await using it = await serve((app) => {
    app.get('/field', () => {
      const response = new HttpResponse('x');
      response.headers.flat.push('X-Bad', 'a\r\nb');
      return response;
    });
    app.get('/body', () => {
      const response = new HttpResponse('x');
      (response as { body: unknown }).body = undefined;
      return response;
    });
  });
  for (const path of ['/field', '/body']) {
    const answer = await it.client.get(path).answer();
    assert.equal(answer.status, 500);
    assert.notEqual(answer.field('x-request-id'), undefined);
    assert.equal(it.events.at(-1)!['event'], 'response_refused');
  }
});

test('if node:http refuses a response to GET or HEAD, the client receives a complete 500 response', async () => {
  await using it = await serve((app) => {
    app.get('/text', () => new HttpResponse('x', { status: 201, headers: { Trailer: 'X-Sum' } }));
    app.get('/field', () => {
      const response = new HttpResponse('x');
      response.headers.flat.push('X-Bad', 'a\r\nb');
      return response;
    });
  });
  for (const [method, path] of [
    ['HEAD', '/text'],
    ['GET', '/field'],
    ['HEAD', '/field'],
  ] as const) {
    const { status, statusText } = await fetch(`http://127.0.0.1:${it.port}${path}`, { method });
    assert.deepEqual([status, statusText], [500, 'Internal Server Error'], `${method} ${path}`);
  }
});

// ── draining ──

test('HttpServer.close() completes requests in flight with Connection: close, and closes idle and new connections', async () => {
  const started = gate();
  const release = gate();
  await using it = await serve((app) =>
    app
      .get('/', () => 'idle')
      .get('/slow', async () => {
        started.resolve();
        await release.promise;
        return 'done';
      }),
  );
  await it.client.get('/').answer();
  await using fresh = await RawClient.open(it.port);
  await using partial = await RawClient.open(it.port);
  partial.send('GET / HTT');
  await using busy = await RawClient.open(it.port);
  busy.get('/slow');
  await started.promise;
  const closed = it.close();
  await it.client.ended(); // idle: at once
  await assert.rejects(RawClient.open(it.port), { code: 'ECONNREFUSED' });
  release.resolve();
  const answer = await busy.answer();
  assert.equal(answer.text(), 'done');
  assert.equal(answer.field('connection'), 'close');
  await closed;
  await Promise.all([fresh.ended(), partial.ended(), busy.ended()]);
});

test('HttpServer.close() resolves after the last response, and does not wait for the keep-alive time', async () => {
  const started = gate();
  const release = gate();
  await using it = await serve(
    (app) =>
      app.get(
        '/',
        () =>
          new StreamingResponse(
            (async function* (): AsyncGenerator<string> {
              yield 'head';
              started.resolve();
              await release.promise;
              yield 'tail';
            })(),
          ),
      ),
    { clock: new ManualClock() },
  );
  it.client.get('/');
  await started.promise;
  const closed = it.close();
  release.resolve();
  assert.equal((await it.client.answer()).text(), 'headtail');
  await closed;
});

test('HttpServer.close() answers a request that arrives directly after the end of the response in flight', async () => {
  const started = gate();
  const release = gate();
  const app = new Svc();
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (async function* (): AsyncGenerator<string> {
          yield 'head';
          started.resolve();
          await release.promise;
        })(),
      ),
  );
  app.get('/next', async () => {
    await new Promise((resolve) => {
      setImmediate(resolve);
    }); // answered later than the server, idle for a moment, looks again
    return 'next';
  });
  const server = new HttpServer(app.application());
  await server.listen({ port: 0 });
  const ask = (path: string): boolean => socket.push(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`);
  let sent = '';
  const same = (): Duplex => socket;
  const socket: Duplex = Object.assign(
    new Duplex({
      read() {
        /* pushed into */
      },
      write(bytes: Buffer, _encoding, done) {
        sent += bytes.toString('latin1');
        if (bytes.includes('0\r\n\r\n')) setImmediate(() => ask('/next')); // before whatever the server does then
        done();
      },
    }),
    { setTimeout: same, setNoDelay: same, setKeepAlive: same },
  );
  server.node.emit('connection', socket);
  ask('/');
  await started.promise;
  const closed = server.close(5_000, 5_000);
  await once(server.node, 'close'); // it has closed what was idle: this connection is none that it accepted
  release.resolve();
  assert.equal(await closed, 0);
  const [first, second] = sent.split(/(?<=0\r\n\r\n)/);
  assert.match(first!, /^HTTP\/1\.1 200 OK\r\n[^]*head/);
  assert.match(second!, /^HTTP\/1\.1 200 OK\r\n[^]*Connection: close\r\n[^]*next$/);
});

for (const [what, head, answer] of [
  ['a body', 'GET /', 'x'.repeat(100_000)],
  ['a head alone', 'HEAD /', 'x'],
  ['no content', 'GET /none', null],
] as const) {
  test(`HttpServer.close() waits until the client has read the response in flight (${what})`, async () => {
    const app = new Svc();
    app.get('/', () => answer);
    app.get('/none', { status: 204 }, () => answer);
    const server = new HttpServer(app.application());
    await server.listen({ port: 0 });
    const taken = gate();
    const socket = inMemory((_bytes, done) => void taken.promise.then(() => done()));
    server.node.emit('connection', socket);
    socket.push(`${head} HTTP/1.1\r\nHost: a\r\n\r\n`);
    await turn();
    assert.equal(server.inFlight, 1);
    const closed = server.close(5_000);
    assert.equal(socket.destroyed, false);
    server.closeIdle();
    assert.equal(socket.destroyed, false);
    const isGone = once(socket, 'close');
    taken.resolve();
    assert.equal(await closed, 0);
    await isGone; // it was the last
    assert.equal(server.inFlight, 0);
  });
}

for (const [what, isBefore] of [
  ['before close()', true],
  ['during close()', false],
] as const) {
  test(`HttpServer.close() reads the rest of a request body that was answered early, so the client receives the response (sent ${what})`, async () => {
    const clock = new ManualClock();
    const release = gate();
    const app = new Svc({ clock });
    app.post('/', { public: true }, async () => {
      await release.promise;
      return 'unread';
    });
    const server = new HttpServer(app.application());
    await server.listen({ port: 0 });
    const ask = (): Duplex => {
      const socket = inMemory((_bytes, done) => done());
      server.node.emit('connection', socket);
      socket.push('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab');
      return socket;
    };
    const [patient, endless] = [ask(), ask()];
    await turn();
    if (isBefore) release.resolve();
    await turn();
    let cut: number | undefined;
    const closed = server.close(60_000).then((count) => {
      cut = count;
    });
    release.resolve();
    await turn();
    await turn();
    assert.deepEqual(
      [server.inFlight, patient.destroyed, endless.destroyed, cut],
      [0, false, false, undefined],
    );
    patient.push('cd');
    await turn();
    await turn();
    assert.deepEqual([patient.destroyed, endless.destroyed, cut], [!isBefore, false, undefined]);
    await clock.advance(5_000);
    await closed;
    assert.deepEqual([patient.destroyed, endless.destroyed, cut], [true, true, 0]);
  });
}

test('HttpServer.close() interrupts requests that are unfinished at the deadline, returns their number, and aborts their signals', async () => {
  const clock = new ManualClock();
  const started = gate();
  const aborted = gate();
  await using it = await serve(
    (app) =>
      app.get('/', ({ signal }) => {
        signal.addEventListener('abort', () => aborted.resolve());
        started.resolve();
        return aborted.promise;
      }),
    { clock },
  );
  it.client.get('/');
  await started.promise;
  const closed = it.close();
  while (clock.pending === 0) await clock.advance(0);
  await clock.advance(1_000);
  await aborted.promise;
  await closed;
  assert.deepEqual(
    it.events.find((event) => event['event'] === 'drain_deadline_exceeded')?.['requests_cut'],
    1,
  );
  assert.equal(clock.pending, 0);
});

test('HttpServer.close() resolves with 0 if the server does not listen', async () => {
  const server = new HttpServer(new Svc().application());
  assert.equal(await server.close(1_000), 0);
});

test('HttpServer.listen() rejects with E_LISTEN if the address is in use, empty, or of another machine, and logs nothing', async () => {
  await using it = await serve(() => undefined);
  await assert.rejects(new HttpServer(it.app.application()).listen({ port: it.port }), {
    code: 'E_LISTEN',
    message: /in use/,
  });
  await assert.rejects(new HttpServer(it.app.application()).listen({ port: 0, host: '192.0.2.1' }), {
    code: 'E_LISTEN',
  });
  await assert.rejects(new HttpServer(it.app.application()).listen({ port: 0, host: '' }), {
    code: 'E_LISTEN',
    message: /the host is empty: name an address/,
  });
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error'),
    [],
  );
});

test('HttpServer.listen() returns a URL with an IPv6 address in brackets', async (t) => {
  const server = new HttpServer(new Svc().application());
  const address = await server.listen({ host: '::1', port: 0 }).catch(() => undefined);
  if (address === undefined) return t.skip('no IPv6 here');
  assert.equal(address.url, `http://[::1]:${address.port}`);
  await server.close(0);
});

test('if malformed bytes arrive while a response is being sent, HttpServer cuts the connection and sends no second response', async () => {
  const started = gate();
  await using it = await serve((app) =>
    app.get(
      '/',
      ({ signal }) =>
        new StreamingResponse(
          (async function* (): AsyncGenerator<string> {
            yield 'begun';
            started.resolve();
            await once(signal, 'abort');
          })(),
        ),
    ),
  );
  it.client.get('/');
  await started.promise;
  it.client.send('RUBBISH\r\n\r\n');
  const bytes = (await it.client.ended()).toString();
  assert.equal(bytes.split('HTTP/1.1').length, 2);
});

for (const [what, behind] of [
  ['the head of a request', 'GET /next HTTP/1.1\r\nHost: a\r\nX: '],
  ['the body of a request', 'POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc'],
  [
    'the body of a request that was answered early',
    'POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc',
  ],
] as const) {
  test(`if a pipelined request exceeds its time limit, HttpServer completes the streamed response to the previous request, and closes the connection (${what})`, async () => {
    const [begun, late] = [gate(), gate()];
    // long enough for the first request to arrive on a busy machine
    const app = new Svc({ requestTimeoutMs: 500, headersTimeoutMs: 400 });
    app.get(
      '/',
      () =>
        new StreamingResponse(
          (async function* () {
            yield 'begun ';
            begun.resolve();
            await late.promise;
            yield 'and ended';
          })(),
        ),
    );
    app.post('/read', async ({ req }) => (await req.body()).length).post('/early', () => 'early');
    const server = new HttpServer(app.application());
    const { port } = await server.listen({ port: 0 });
    await using _end = {
      [Symbol.asyncDispose]: async () => {
        await server.close(0);
      },
    };
    await using client = await RawClient.open(port);
    client.get('/');
    await begun.promise;
    server.node.once('clientError', () => late.resolve());
    client.send(behind);
    const answer = await client.answer();
    assert.equal(answer.text(), 'begun and ended');
    assert.equal(answer.isWhole, true);
    assert.equal((await client.ended()).toString(), '');
  });
}

test('if a request body becomes malformed after the response was sent, HttpServer sends no second response', async () => {
  await using it = await serve((app) => app.post('/', () => 'early'));
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n');
  assert.equal((await it.client.answer()).text(), 'early');
  it.client.send('RUBBISH\r\n');
  assert.equal((await it.client.ended()).toString(), '');
});

test('if the body of a pipelined request is malformed, HttpServer answers only the requests before it, and closes the connection', async () => {
  const [early, late] = [gate(), gate()];
  const app = new Svc();
  app
    .get('/late', async () => {
      await late.promise;
      return 'late';
    })
    .post('/early', async () => {
      await early.promise;
      return 'early';
    });
  const server = new HttpServer(app.application());
  await server.listen({ port: 0 });
  let sent = '';
  const socket = inMemory((chunk, done) => {
    sent += chunk.toString('latin1');
    done();
  });
  server.node.emit('connection', socket);
  socket.push(
    'GET /late HTTP/1.1\r\nHost: a\r\n\r\nPOST /early HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nRUBBISH\r\n',
  );
  await turn();
  early.resolve();
  await turn();
  late.resolve();
  for (let turns = 0; turns < 100 && server.inFlight > 0; turns++) await turn();
  assert.match(sent, /^HTTP\/1\.1 200 OK\r\n[^]*late$/);
  assert.equal(server.inFlight, 0);
  assert.equal(socket.destroyed, true);
  await server.close(0);
});

test('if one packet contains the rest of a request body, a valid request and malformed bytes, HttpServer answers the valid request', async () => {
  const release = gate();
  await using it = await serve((app) =>
    app
      .post('/early', () => 'early')
      .get('/late', async () => {
        await release.promise;
        return 'late';
      }),
  );
  it.client.send('POST /early HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc');
  assert.equal((await it.client.answer()).text(), 'early');
  it.client.send('defghiGET /late HTTP/1.1\r\nHost: a\r\n\r\nRUBBISH\r\n\r\n');
  while (it.app.operations.inFlight() === 0) await turn();
  release.resolve();
  assert.equal((await it.client.answer()).text(), 'late');
  assert.equal((await it.client.ended()).toString(), '');
  assert.equal(it.app.operations.inFlight(), 0);
});

for (const [what, bytes] of [
  ['rubbish', 'RUBBISH\r\n\r\n'],
  ['a body of rubbish', 'POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nRUBBISH\r\n'],
] as const) {
  test(`HttpServer answers all pipelined requests that arrived before malformed bytes (${what})`, async () => {
    const release = gate();
    const app = new Svc();
    app.get('/{n}', async ({ params }) => {
      if (params.n === '1') await release.promise;
      return `answer ${params.n}`;
    });
    const server = new HttpServer(app.application());
    await server.listen({ port: 0 });
    let sent = '';
    const socket = inMemory((chunk, done) => {
      sent += chunk.toString('latin1');
      done();
    });
    server.node.emit('connection', socket);
    socket.push(`GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n${bytes}`);
    await turn();
    release.resolve();
    await once(socket, 'close');
    assert.match(sent, /^HTTP\/1\.1 200 OK\r\n[^]*answer 1HTTP\/1\.1 200 OK\r\n[^]*answer 2$/);
    assert.equal(server.inFlight, 0);
    await server.close(0);
  });
}

test('if a client resets its connection during a request, HttpServer continues to serve other clients', async () => {
  await using it = await serve((app) => app.get('/', () => 'ok'));
  const socket = connect(it.port, '127.0.0.1');
  await once(socket, 'connect');
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc');
  socket.resetAndDestroy();
  assert.equal((await it.client.get('/').answer()).text(), 'ok');
});
