import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createReadStream, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { connect as connectTls } from 'node:tls';
import { CORSMiddleware, HttpResponse, StreamingResponse, Svc, reply } from 'svc';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { FIRST } from '../../support/certificates.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import { serve } from '../../support/serve.ts';
import type { TLSSocket } from 'node:tls';

const metric = (app: Svc, name: string): number =>
  Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(app.metrics.render())?.[1] ?? 0);

/** Sources that never yield a second chunk, and record their end: iterables, web streams and Node streams. */
const pending = (
  first: string | undefined,
  onEnd: () => void,
): readonly (readonly [what: string, source: () => ConstructorParameters<typeof StreamingResponse>[0]])[] => [
  [
    'an iterator',
    () => {
      const steps: Promise<IteratorResult<string>>[] =
        first === undefined ? [] : [Promise.resolve({ done: false, value: first })];
      return {
        [Symbol.asyncIterator]: () => ({
          next: () => steps.shift() ?? new Promise<never>(() => undefined),
          return: () => {
            onEnd();
            return Promise.resolve({ done: true as const, value: undefined });
          },
        }),
      };
    },
  ],
  [
    'a web stream',
    () =>
      new ReadableStream<string>({
        start(controller) {
          if (first !== undefined) controller.enqueue(first);
        },
        cancel: onEnd,
      }),
  ],
  [
    'a Node stream',
    () => {
      const stream = new Readable({
        read() {
          /* the source yields no second chunk */
        },
        destroy(error, done) {
          onEnd();
          done(error);
        },
      });
      if (first !== undefined) stream.push(first);
      return stream;
    },
  ],
];

for (const first of ['x', undefined]) {
  for (const [index, what] of ['an iterator', 'a web stream', 'a Node stream'].entries()) {
    test(`if a client leaves while a chunk of a response is awaited, the source of the response is closed (${what}, ${first === undefined ? 'first' : 'next'} chunk)`, async () => {
      const [entered, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      await using it = await serve((app) =>
        app.get('/', () => {
          entered.resolve();
          return new StreamingResponse(pending(first, () => ended.resolve())[index]![1]());
        }),
      );
      it.client.get('/');
      await (first === undefined ? entered.promise.then(turn) : once(it.client.socket, 'data'));
      it.client.socket.destroy();
      await ended.promise;
      while (metric(it.app, 'svc_requests_in_flight') !== 0) await turn(); // the request is over
      assert.deepEqual(
        it.events.filter((event) => event['level'] === 'error'),
        [],
      );
    });
  }
}

for (const [what, source] of [
  [
    'throws at once',
    () =>
      (function* (): Generator<string> {
        throw new Error('source');
      })(),
  ],
  [
    'rejects',
    () =>
      (async function* (): AsyncGenerator<string> {
        await turn();
        throw new Error('source');
      })(),
  ],
  [
    'rejects after empty pieces',
    () =>
      (async function* (): AsyncGenerator<string | Uint8Array> {
        yield '';
        yield new Uint8Array();
        throw new Error('source');
      })(),
  ],
  [
    'is a web stream that errors',
    () =>
      new ReadableStream({
        start(controller) {
          controller.error(new Error('source'));
        },
      }),
  ],
  [
    'is a web Response that errors',
    () =>
      new Response(
        new ReadableStream({
          start(controller) {
            controller.error(new Error('source'));
          },
        }),
      ),
  ],
  ['is a file that does not exist', () => createReadStream('/nothing/here')],
  ['yields an object', () => [{ a: 1 } as unknown as string]],
  [
    'yields a number',
    () =>
      (async function* () {
        yield 5 as unknown as string;
      })(),
  ],
] as const) {
  test(`if the source of a stream fails before its first byte, the client receives a 500 with the header fields of all middleware (the source ${what})`, async () => {
    await using it = await serve((app) =>
      app
        .use(new CORSMiddleware({ origins: ['https://app.example'] }))
        .get('/', () => {
          const given = source();
          return given instanceof Response ? given : new StreamingResponse(given);
        })
        .get('/with-status', () =>
          reply(
            new StreamingResponse(
              (function* (): Generator<string> {
                throw new Error('source');
              })(),
            ),
            201,
          ),
        ),
    );
    const answer = await it.client.get('/', 'Origin: https://app.example\r\n').answer();
    assert.equal(answer.status, 500);
    assert.equal(answer.field('content-type'), 'application/problem+json');
    assert.equal(answer.field('access-control-allow-origin'), 'https://app.example');
    assert.deepEqual(
      it.events.filter((event) => event['level'] === 'error').map((event) => event['event']),
      ['unhandled_error'],
    );
    assert.equal(metric(it.app, 'svc_errors_total'), 1);
    assert.equal((await it.client.get('/with-status').answer()).status, 500); // over the same connection
  });
}

test('if the source of a stream fails before its first byte, the exception handler for the class of its error is called', async () => {
  class Busy extends Error {}
  await using it = await serve((app) =>
    app
      .exceptionHandler(Busy, () => reply({ busy: true }, 503))
      .get(
        '/',
        () =>
          new StreamingResponse(
            (function* (): Generator<string> {
              throw new Busy();
            })(),
          ),
      ),
  );
  const answer = await it.client.get('/').answer();
  assert.deepEqual([answer.status, answer.json()], [503, { busy: true }]);
});

test('if a web Response with FormData is not read, because of HEAD or a client that leaves, the process does not end', async () => {
  const form = (): Response => {
    const data = new FormData();
    data.set('a', 'b');
    data.set('file', new Blob([Buffer.alloc(3_000_000)]));
    return new Response(data);
  };
  const shared = form();
  await using it = await serve((app) => app.get('/', form).get('/shared', () => shared));
  for (let n = 0; n < 3; n++)
    assert.equal((await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).status, 200);
  await using leaving = await RawClient.open(it.port);
  leaving.get('/');
  await once(leaving.socket, 'data');
  leaving.socket.destroy();
  const whole = await it.client.get('/').answer();
  assert.ok(whole.isWhole && whole.body.length > 3_000_000);
  assert.deepEqual(
    [(await it.client.get('/shared').answer()).status, (await it.client.get('/shared').answer()).status],
    [200, 500],
  );
  while (metric(it.app, 'svc_requests_in_flight') !== 0) await turn();
  for (let n = 0; n < 50; n++) await turn(); // an unhandled rejection fails the test
});

test('svc_errors_total counts an error that occurs after the response head', async () => {
  await using it = await serve((app) =>
    app.get(
      '/',
      () =>
        new StreamingResponse(
          (function* (): Generator<string> {
            yield 'head';
            throw new Error('source');
          })(),
        ),
    ),
  );
  const bytes = await it.client.get('/').ended();
  assert.match(bytes.toString(), /^HTTP\/1\.1 200 /);
  assert.ok(!bytes.includes('\r\n0\r\n'), 'no last chunk');
  assert.equal(metric(it.app, 'svc_errors_total'), 1);
});

for (const [what, chunks, contentLength] of [
  ['a first chunk that is too long', ['abcdef'], 4],
  ['no chunk', [], 4],
  ['only empty chunks', ['', ''], 1],
] as const) {
  test(`if a stream is empty or its first chunk exceeds its contentLength, the response is a 500 with E_STREAM (the stream yields ${what})`, async () => {
    await using it = await serve((app) =>
      app.get('/', () => new StreamingResponse(chunks, { contentLength })),
    );
    assert.equal((await it.client.get('/').answer()).status, 500);
    assert.equal((it.events.at(-1)!['error'] as { code: string }).code, 'E_STREAM');
  });
}

test('"contentLength" of a StreamingResponse counts bytes and not characters, and may be 0', async () => {
  await using it = await serve((app) =>
    app
      .get('/', () => new StreamingResponse(['é', 'ü'], { contentLength: 4 }))
      .get('/none', () => new StreamingResponse([], { contentLength: 0 })),
  );
  assert.equal((await it.client.get('/').answer()).text(), 'éü');
  assert.equal((await it.client.get('/none').answer()).field('content-length'), '0');
});

test('if a middleware replaces a response, the source of the replaced response is closed', async () => {
  const ended = Promise.withResolvers<void>();
  await using it = await serve((app) =>
    app
      .use(async (_req, next) => {
        await next();
        return ['no', 403];
      })
      .get(
        '/',
        () =>
          new StreamingResponse(
            (function* (): Generator<string> {
              try {
                yield 'a';
              } finally {
                ended.resolve();
              }
            })(),
          ),
      ),
  );
  assert.equal((await it.client.get('/').answer()).status, 403);
  await ended.promise;
});

test('a stream whose source yields without ever waiting does not block other requests', async () => {
  let isOver = false;
  await using it = await serve((app) =>
    app
      .get(
        '/endless',
        () =>
          new StreamingResponse(
            (function* (): Generator<string> {
              for (let n = 0; n < 3_000_000 && !isOver; n++) yield '';
              yield 'end';
            })(),
          ),
      )
      .get('/', () => {
        isOver = true;
        return 'ok';
      }),
  );
  await using other = await RawClient.open(it.port);
  other.get('/endless');
  assert.equal((await it.client.get('/').answer()).text(), 'ok');
  assert.equal((await other.answer()).text(), 'end');
  assert.ok(isOver);
});

test('a StreamingResponse of a locked web stream causes a 500, and a StreamingResponse of a Node stream in object mode is sent', async () => {
  const locked = new Blob(['x']).stream();
  locked.getReader();
  await using it = await serve((app) =>
    app
      .get('/locked', () => new StreamingResponse(locked))
      .get('/objects', () => new StreamingResponse(Readable.from(['a', 'b']))),
  );
  assert.equal((await it.client.get('/locked').answer()).status, 500);
  assert.equal((await it.client.get('/objects').answer()).text(), 'ab');
});

// ── slow readers ──

const BIG = 'x'.repeat(30_000_000);
for (const [what, body] of [
  ['a large string', () => BIG],
  ['a large Buffer', () => Buffer.from(BIG)],
  [
    'endless pieces',
    () =>
      new StreamingResponse(
        (function* (): Generator<string> {
          for (;;) yield 'x'.repeat(10_000);
        })(),
      ),
  ],
  ['one huge piece', () => new StreamingResponse([BIG])],
] as const) {
  test(`if a client reads nothing for sendTimeoutMs, the client is disconnected, logged and counted (response: ${what})`, async () => {
    const clock = new ManualClock();
    await using it = await serve((app) => app.get('/', body), { clock, sendTimeoutMs: 8_000 });
    it.client.get('/');
    await once(it.client.socket, 'data');
    it.client.socket.pause();
    const closed = once(it.client.socket, 'close');
    for (let moved = 0; moved < 30_000 && metric(it.app, 'svc_slow_readers_total') === 0; moved += 1_000) {
      for (let turns = 0; turns < 20; turns++) await turn(); // the buffers of both sides fill
      await clock.advance(1_000);
    }
    assert.equal(metric(it.app, 'svc_slow_readers_total'), 1);
    it.client.socket.resume();
    await closed;
    assert.equal(it.events.filter((event) => event['event'] === 'slow_reader_cut').length, 1);
    assert.equal(metric(it.app, 'svc_errors_total'), 0);
    while (clock.pending > 0) await turn(); // nothing is left to look at
  });
}

test('over TLS, a client that reads no byte is disconnected, and a client that reads slowly is not', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'svc-send-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(cert, FIRST.cert);
  writeFileSync(key, FIRST.key);
  const clock = new ManualClock();
  const app = new Svc({ logger: collectedLog().logger, clock, sendTimeoutMs: 10_000 });
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (function* (): Generator<Uint8Array> {
          for (let n = 0; n < 400; n++) yield Buffer.alloc(100_000);
        })(),
        { contentLength: 40_000_000 },
      ),
  );
  const { port, close } = await app.run({
    port: 0,
    handleSignals: false,
    drainSeconds: 1,
    tls: { cert, key },
  });
  const open = async (): Promise<TLSSocket> => {
    const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false });
    await once(socket, 'secureConnect');
    socket.write('GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
    return socket;
  };
  let taken = 0;
  for await (const chunk of (await open()) as AsyncIterable<Buffer>) {
    taken += chunk.length;
    await clock.advance(chunk.length / 1_000);
  }
  assert.ok(taken > 40_000_000);
  assert.equal(metric(app, 'svc_slow_readers_total'), 0);
  const stuck = (await open()).on('error', () => undefined);
  await once(stuck, 'data');
  stuck.pause();
  for (let moved = 0; moved < 40_000 && metric(app, 'svc_slow_readers_total') === 0; moved += 1_000) {
    for (let turns = 0; turns < 20; turns++) await turn();
    await clock.advance(1_000);
  }
  assert.equal(metric(app, 'svc_slow_readers_total'), 1);
  stuck.destroy();
  await close();
});

for (const [what, count, make] of [
  ['text', 200, () => 'x'.repeat(100_000)],
  ['a stream', 200, () => new StreamingResponse(['x'.repeat(100_000)])],
  [
    'no body',
    1_500,
    () => new HttpResponse(null, { status: 204, headers: { 'X-Long': 'x'.repeat(10_000) } }),
  ],
] as const)
  test(`if a client pipelines requests and reads nothing, the client is disconnected, whichever response is blocked (responses with ${what})`, async () => {
    const clock = new ManualClock();
    await using it = await serve((app) => app.get('/', make), {
      clock,
      sendTimeoutMs: 8_000,
      maxPipelined: 10_000,
    });
    it.client.socket.pause();
    for (let n = 0; n < count; n++) it.client.get('/');
    for (let moved = 0; moved < 40_000 && metric(it.app, 'svc_slow_readers_total') === 0; moved += 1_000) {
      for (let turns = 0; turns < 20; turns++) await turn();
      await clock.advance(1_000);
    }
    assert.equal(metric(it.app, 'svc_slow_readers_total'), 1);
  });

test('a response is not interrupted if its client reads slowly or its source is silent', async () => {
  const clock = new ManualClock();
  const total = 60_000_000;
  const more = Promise.withResolvers<void>();
  await using it = await serve(
    (app) => {
      app.get(
        '/slow',
        () =>
          new StreamingResponse(
            (function* (): Generator<Uint8Array> {
              for (let n = 0; n < 600; n++) yield Buffer.alloc(100_000);
            })(),
            { contentLength: total },
          ),
      );
      app.get(
        '/silent',
        () =>
          new StreamingResponse(
            (async function* (): AsyncGenerator<string> {
              yield 'a';
              await more.promise;
              yield 'b';
            })(),
          ),
      );
    },
    { clock, sendTimeoutMs: 10_000 },
  );
  it.client.get('/silent');
  await once(it.client.socket, 'data');
  const slow = connect(it.port, '127.0.0.1');
  slow.write('GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n');
  let taken = 0;
  for await (const chunk of slow as AsyncIterable<Buffer>) {
    taken += chunk.length;
    await clock.advance(chunk.length / 1_000); // a megabyte a second: the buffers between the two hold some seconds
  }
  assert.ok(taken > total);
  assert.ok(clock.monotonicMs() > 50_000);
  more.resolve();
  assert.equal((await it.client.answer()).text(), 'ab');
  assert.equal(metric(it.app, 'svc_slow_readers_total'), 0);
});

test('a response has exactly one X-Request-Id, even if the handler sets this field and header fields whose names have the same length', async () => {
  await using it = await serve((app) =>
    app.get(
      '/',
      () =>
        new HttpResponse('x', {
          headers: {
            'Content-Type': 'a/b',
            'X-Requested-A': '1',
            'x-REQUEST-id': 'mine',
            'X-Powered-Bye': '2',
          },
        }),
    ),
  );
  const answer = await it.client.get('/', 'X-Request-Id: theirs\r\n').answer();
  assert.deepEqual(answer.fields.get('x-request-id'), ['theirs']);
  assert.deepEqual(
    [answer.field('content-type'), answer.field('x-requested-a'), answer.field('x-powered-bye')],
    ['a/b', '1', '2'],
  );
});

for (const [what, make, status] of [
  ['text', (headers) => new HttpResponse('x', { headers }), 200],
  ['a stream', (headers) => new StreamingResponse(['x'], { headers }), 200],
  ['no body', (headers) => new HttpResponse(null, { headers, status: 204 }), 204],
] as readonly (readonly [string, (headers: Record<string, string>) => HttpResponse, number])[])
  for (const hasCookie of [true, false])
    test(`a response has exactly one X-Request-Id if the handler sets this field (with ${what}${hasCookie ? ' and a cookie' : ''})`, async () => {
      await using it = await serve((app) =>
        app.get('/', () => {
          const response = make({ 'x-request-ID': 'mine', 'X-Other': '1' });
          if (hasCookie) response.setCookie('a', 'b');
          return response;
        }),
      );
      const answer = await it.client.get('/', 'X-Request-Id: theirs\r\n').answer();
      assert.equal(answer.status, status);
      assert.deepEqual(answer.fields.get('x-request-id'), ['theirs']);
      assert.equal(answer.field('x-other'), '1');
      assert.equal(answer.field('set-cookie')?.startsWith('a=b') === true, hasCookie);
    });
