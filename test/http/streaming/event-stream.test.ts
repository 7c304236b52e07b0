import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { EventBroadcast, EventStreamResponse, NDJSONResponse, Svc, lastEventId } from 'svc';
import { TestClient } from 'svc/testing';
import { encodeEvent } from '../../../src/http/streaming/event-stream.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Chromium, needsChromium } from '../../support/chromium.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { soon, until } from '../../support/endings.ts';
import { RawClient } from '../../support/raw-http.ts';
import { USES_INTERNALS } from '../../../src/http/server/fast-path/internals.ts';
import { turn } from '../../support/turn.ts';
import { serve } from '../../support/serve.ts';
import type { ServerSentEvent } from 'svc';

/** Reference parser of an event stream (WHATWG HTML §9.2.6). */
function dispatched(stream: string): { type: string; data: string; lastEventId: string }[] {
  const events: { type: string; data: string; lastEventId: string }[] = [];
  let [type, data, id] = ['', '', ''];
  for (const line of stream.split(/\r\n|\r|\n/)) {
    if (line === '') {
      if (data !== '')
        events.push({ type: type === '' ? 'message' : type, data: data.slice(0, -1), lastEventId: id });
      [type, data] = ['', ''];
      continue;
    }
    const [, field, value] = /^([^:]*)(?:: ?(.*))?$/s.exec(line)!;
    if (field === 'event') type = value ?? '';
    else if (field === 'data') data += `${value ?? ''}\n`;
    else if (field === 'id' && !(value ?? '').includes('\0')) id = value ?? '';
  }
  return events;
}

for (const [what, event, expected] of [
  ['text', 'hello', 'data: hello\n\n'],
  ['empty text', '', 'data: \n\n'],
  [
    'every property of an event',
    { event: 'price', id: '7', retryMs: 500, data: { tea: 3 } },
    'event: price\nid: 7\nretry: 500\ndata: {"tea":3}\n\n',
  ],
  ['lines, whatever ends them', { data: 'a\nb\r\nc\rd' }, 'data: a\ndata: b\ndata: c\ndata: d\n\n'],
  ['a last line break', 'a\n', 'data: a\ndata: \n\n'],
  [
    'data that looks like a field',
    'x\nid: 9\n\nevent: y',
    'data: x\ndata: id: 9\ndata: \ndata: event: y\n\n',
  ],
  ['null, false and 0 as JSON', { data: null }, 'data: null\n\n'],
  ['dates and bigints as JSON', { data: [new Date(0), 1n] }, 'data: ["1970-01-01T00:00:00.000Z","1"]\n\n'],
  ['only an id', { id: '' }, 'id: \n\n'],
  ['a leading space', ' x', 'data:  x\n\n'],
] as const) {
  test(`encodeEvent() writes an event in the text/event-stream format: ${what}`, () =>
    assert.equal(encodeEvent(event), expected));
}

for (const event of [
  null,
  5,
  {},
  { data: undefined },
  { event: 'a\nb' },
  { event: 'a\r' },
  { id: 'a\0' },
  { id: 'a\nid: b' },
  { id: 5 },
  { retryMs: -1 },
  { retryMs: 1.5 },
  { retryMs: '5' },
  { price: 3 },
]) {
  test(`encodeEvent() refuses an invalid event (E_EVENT): ${JSON.stringify(event)}`, () =>
    assert.throws(() => encodeEvent(event), { code: 'E_EVENT' }));
}

test('for generated texts, EventSource of a browser returns the data that was given to encodeEvent()', () => {
  for (let round = 0; round < 2_000; round++) {
    const data = Array.from(
      { length: round % 12 },
      () => ['a', '\n', '\r', ':', ' ', 'data', 'id: 1', '\0', 'é'][Math.floor(Math.random() * 9)]!,
    ).join('');
    const [event, ...more] = dispatched(encodeEvent({ event: 'e', id: '1', data }));
    assert.deepEqual(
      event,
      { type: 'e', data: data.replaceAll('\r\n', '\n').replaceAll('\r', '\n'), lastEventId: '1' },
      JSON.stringify(data),
    );
    assert.deepEqual(more, []);
  }
});

test('lastEventId() returns the header field Last-Event-ID decoded as UTF-8, or undefined if it is missing', () => {
  assert.equal(lastEventId({ headers: {} }), undefined);
  assert.equal(lastEventId({ headers: { 'last-event-id': '' } }), undefined);
  assert.equal(lastEventId({ headers: { 'last-event-id': 'a-1' } }), 'a-1');
  assert.equal(lastEventId({ headers: { 'last-event-id': Buffer.from('é→').toString('latin1') } }), 'é→');
});

test('EventStreamResponse sends its head immediately, and sends each event when the source yields it', async () => {
  const more = Promise.withResolvers<void>();
  await using it = await serve((app) =>
    app.get(
      '/',
      () =>
        new EventStreamResponse(
          (async function* (): AsyncGenerator<ServerSentEvent | string> {
            await more.promise;
            yield { event: 'a', data: 1 };
            yield 'b';
          })(),
          { retryMs: 700, headers: { 'X-Own': '1' } },
        ),
    ),
  );
  it.client.get('/');
  const [head] = (await once(it.client.socket, 'data')) as [Buffer];
  assert.match(head.toString(), /^HTTP\/1\.1 200 OK\r\n/);
  more.resolve();
  const answer = await it.client.answer();
  assert.equal(answer.field('content-type'), 'text/event-stream');
  assert.equal(answer.field('cache-control'), 'no-store, no-transform');
  assert.equal(answer.field('x-accel-buffering'), 'no');
  assert.equal(answer.field('x-own'), '1');
  assert.equal(answer.text(), 'retry: 700\n\nevent: a\ndata: 1\n\ndata: b\n\n');
});

test('all EventStreamResponse share one timer, which sends heartbeats to silent streams and stops with the last stream', async () => {
  const clock = new ManualClock();
  const sources = [0, 1].map(() => Promise.withResolvers<IteratorResult<string>>());
  await using it = await serve(
    (app) =>
      app.get(
        '/{n:int}',
        ({ params }) =>
          new EventStreamResponse(
            {
              [Symbol.asyncIterator]: () => ({
                next: () => sources[params.n]!.promise,
                return: async () => ({ done: true as const, value: undefined }),
              }),
            },
            { heartbeatSeconds: 10 },
          ),
      ),
    { clock, sendTimeoutMs: 3_600_000 },
  );
  await using other = await RawClient.open(it.port);
  const before = clock.pending;
  it.client.get('/0');
  other.get('/1');
  await Promise.all([once(it.client.socket, 'data'), once(other.socket, 'data')]);
  assert.equal(clock.pending - before, 2); // hearts, and slow readers
  for (let beat = 0; beat < 3; beat++) {
    const felt = Promise.all([once(it.client.socket, 'data'), once(other.socket, 'data')]);
    await clock.advance(10_000);
    await felt;
  }
  sources[0]!.resolve({ done: true, value: undefined });
  assert.equal((await it.client.answer()).text(), ':\n\n'.repeat(4));
  other.socket.destroy();
  while (clock.pending > before + 1) await turn(); // the timer of idle connections
});

test('EventStreamResponse sends an event that arrives during a heartbeat, and cuts the connection if its source fails', async () => {
  const clock = new ManualClock();
  const steps = [0, 1].map(() => Promise.withResolvers<IteratorResult<string>>());
  let at = 0;
  await using it = await serve(
    (app) =>
      app.get(
        '/',
        () =>
          new EventStreamResponse(
            { [Symbol.asyncIterator]: () => ({ next: () => steps[at++]!.promise }) },
            { heartbeatSeconds: 1 },
          ),
      ),
    { clock },
  );
  it.client.get('/');
  await once(it.client.socket, 'data');
  const beat = clock.advance(1_000);
  steps[0]!.resolve({ done: false, value: 'x' });
  await beat;
  steps[1]!.reject(new Error('source'));
  const bytes = (await it.client.ended()).toString();
  assert.ok(bytes.includes('data: x\n\n'));
  assert.ok(!bytes.endsWith('\r\n0\r\n\r\n'));
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error').map((event) => event['event']),
    ['response_failed'],
  );
});

test('EventStreamResponse closes its source when the client leaves, for HEAD, and when a middleware replaces the response', async () => {
  let ended = 0;
  const source = (): AsyncIterable<string> => ({
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise<never>(() => undefined),
      return: async () => {
        ended++;
        return { done: true as const, value: undefined };
      },
    }),
  });
  const clock = new ManualClock();
  await using it = await serve(
    (app) =>
      app
        .use(async (req, next) => {
          const answer = await next();
          return req.path === '/dropped' ? 'other' : answer;
        })
        .get('/', () => new EventStreamResponse(source()))
        .get('/dropped', () => new EventStreamResponse(source())),
    { clock },
  );
  assert.equal((await it.client.get('/dropped').answer()).text(), 'other');
  while (ended < 1) await turn();
  const head = await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.equal(head.field('content-type'), 'text/event-stream');
  assert.equal(head.field('content-length'), undefined);
  while (ended < 2) await turn();
  it.client.get('/');
  await once(it.client.socket, 'data');
  it.client.socket.destroy();
  while (ended < 3) await turn();
  while (clock.pending > 0) await turn();
});

test('an EventStreamResponse object can be returned for several requests, and keeps its options and header fields', async () => {
  const kept = new EventStreamResponse(['a'], { retryMs: 5, headers: { 'Cache-Control': 'no-cache' } });
  kept.setCookie('a', 'b');
  const app = new Svc().get('/', () => kept) as Svc;
  await using client = new TestClient(app);
  for (let round = 0; round < 2; round++) {
    const answer = await client.get('/');
    assert.equal(await answer.text(), 'retry: 5\n\ndata: a\n\n');
    assert.equal(answer.headers.get('cache-control'), 'no-cache');
    assert.equal(answer.headers.getSetCookie().length, 1);
  }
});

test('EventStreamResponse and EventBroadcast refuse options that are unknown or out of range', () => {
  assert.throws(() => new EventStreamResponse(5 as never), { code: 'E_STREAM' });
  assert.throws(() => new EventStreamResponse([], { heartbeatSeconds: 0 }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new EventStreamResponse([], { retryMs: -1 }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new EventStreamResponse([], { heartbeat: 1 } as object), { code: 'E_OPTION_UNKNOWN' });
  assert.throws(() => new EventBroadcast({ maxBufferedBytes: 1 }), { code: 'E_OPTION_RANGE' });
});

// ── broadcast ──

test('EventBroadcast sends missed events to a stream before new events, and close() ends all streams', async () => {
  const news = new EventBroadcast({ retryMs: 9 });
  await using it = await serve((app) =>
    app.get('/', ({ req }) => news.stream(lastEventId(req) === '1' ? [{ id: '2', data: 'missed' }] : [])),
  );
  await using other = await RawClient.open(it.port);
  it.client.get('/', 'Last-Event-ID: 1\r\n');
  other.get('/');
  await Promise.all([once(it.client.socket, 'data'), once(other.socket, 'data')]);
  assert.equal(news.size, 2);
  assert.equal(news.send({ id: '3', data: 'new' }), 2);
  news.close();
  assert.equal(news.size, 0);
  assert.equal((await it.client.answer()).text(), 'retry: 9\n\nid: 2\ndata: missed\n\nid: 3\ndata: new\n\n');
  assert.equal((await other.answer()).text(), 'retry: 9\n\nid: 3\ndata: new\n\n');
  assert.equal(news.send('nobody'), 0);
  it.client.get('/'); // over the same connection
  await once(it.client.socket, 'data');
  assert.equal(news.size, 1);
  it.client.socket.destroy();
  while (news.size > 0) await turn();
});

for (const listen of [true, false]) {
  const how = listen ? 'over a socket' : 'in memory';
  test(`EventBroadcast.close() ends the streams that were asked for before it, whether they are sent or not, ${how}`, async () => {
    const news = new EventBroadcast();
    const kept = news.stream(['kept']);
    const app = new Svc({ logger: collectedLog().logger });
    app.get('/after-stream', () => {
      const response = news.stream(['missed']);
      news.send('before');
      news.close();
      return response;
    });
    app.get('/while-waiting', async () => {
      const response = news.stream(['missed']);
      await turn();
      news.close();
      await turn();
      return response;
    });
    app.get('/in-middleware', { use: [closing] }, () => news.stream(['missed']));
    async function closing(_req: unknown, next: () => unknown): Promise<unknown> {
      const response = await next();
      news.close();
      return response;
    }
    app.get('/before-stream', () => {
      news.close();
      return news.stream(['missed']);
    });
    app.get('/kept', () => kept);
    await using client = new TestClient(app, { listen });
    const textOf = async (path: string): Promise<string> => await soon((await client.get(path)).text(), path);

    for (const path of ['/after-stream', '/while-waiting', '/in-middleware'])
      assert.equal(await textOf(path), ':\n\ndata: missed\n\n', path);
    assert.equal(await textOf('/kept'), ':\n\ndata: kept\n\n', 'made before close()');
    for (const path of ['/before-stream', '/kept']) {
      const open = await client.get(path);
      assert.equal(news.size, 1, path);
      news.send('later');
      news.close();
      assert.match(await soon(open.text(), path), /data: later/, path);
    }
  });
}

for (const [how, watch, chunks] of [
  [
    'a chunk of HTTP, written directly to the socket',
    () => watched(Socket.prototype),
    ['18\r\ndata: grüße\n\ndata: 2\n\n\r\n', '9\r\ndata: 3\n\n\r\n'],
  ],
  [
    'through node:http, if a tool has patched write() of ServerResponse',
    () => watched(ServerResponse.prototype),
    ['data: grüße\n\ndata: 2\n\n', 'data: 3\n\n'],
  ],
] as const) {
  const skip = how.startsWith('a chunk') && !USES_INTERNALS && 'only with the undocumented parts of Node';
  test(`EventBroadcast writes the events of one event-loop turn at once: ${how}`, { skip }, async () => {
    using written = watch();
    const news = new EventBroadcast();
    await using it = await serve((app) => app.get('/', () => news.stream()));
    let bytes = '';
    it.client.socket.on('data', (chunk: Buffer) => {
      bytes += chunk.toString();
    });
    it.client.get('/');
    await once(it.client.socket, 'data');
    news.send('grüße');
    news.send('2');
    await once(it.client.socket, 'data');
    news.send('3');
    await once(it.client.socket, 'data');
    news.close();
    while (!bytes.endsWith('0\r\n\r\n')) await turn();
    assert.equal(
      bytes.slice(bytes.indexOf('\r\n\r\n') + 4),
      '3\r\n:\n\n\r\n18\r\ndata: grüße\n\ndata: 2\n\n\r\n9\r\ndata: 3\n\n\r\n0\r\n\r\n',
    );
    assert.deepEqual(
      written.texts.filter((text) => text.includes('data: ')),
      chunks,
    );
  });
}

/** Patches write() of this class until disposed. Records the texts that it writes. */
function watched(prototype: ServerResponse | Socket): Disposable & { readonly texts: string[] } {
  const texts: string[] = [];
  const { write } = prototype;
  prototype.write = function patched(this: ServerResponse | Socket, ...given: unknown[]): boolean {
    texts.push(String(given[0]));
    return (write as (...all: unknown[]) => boolean).apply(this, given);
  };
  return {
    texts,
    [Symbol.dispose]() {
      prototype.write = write;
    },
  };
}

test('EventBroadcast sends HTTP/1.0 clients a body without chunked coding, and long texts unchanged', async () => {
  const news = new EventBroadcast();
  await using it = await serve((app) => app.get('/', () => news.stream()));
  it.client.send('GET / HTTP/1.0\r\n\r\n');
  await once(it.client.socket, 'data');
  const text = 'ü'.repeat(70_000);
  news.send('1');
  news.send(text);
  news.close();
  assert.equal((await it.client.answer()).text(), `:\n\ndata: 1\n\ndata: ${text}\n\n`);
});

test('a stream of EventBroadcast receives no event that was sent before the stream opened, even in the same turn of the event loop', async () => {
  const news = new EventBroadcast();
  const app = new Svc().get('/', () => news.stream()) as Svc;
  const read = async (): Promise<string> => (await app.fetch(new Request('http://a/'))).text();
  const first = read();
  while (news.size < 1) await turn();
  news.send('before');
  const second = read();
  while (news.size < 2) await Promise.resolve();
  news.send('behind');
  news.close();
  assert.deepEqual(
    [await first, await second],
    [':\n\ndata: before\n\ndata: behind\n\n', ':\n\ndata: behind\n\n'],
  );
  await app.shutdown();
});

test('EventBroadcast sends heartbeats only if no event was sent, and refuses more streams than maxStreams', async () => {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const news = new EventBroadcast({ heartbeatSeconds: 1, maxStreams: 1 });
  await using it = await serve((app) => app.get('/', () => news.stream()), {
    clock,
    logger,
    sendTimeoutMs: 3_600_000,
  });
  const before = clock.pending;
  it.client.get('/');
  await once(it.client.socket, 'data');
  await using other = await RawClient.open(it.port);
  const refused = await other.get('/').answer();
  assert.deepEqual([refused.status, refused.field('retry-after')], [503, '5']);
  assert.ok(!events.some(({ event }) => event === 'unhandled_error'));
  news.send('x');
  await clock.advance(1_000); // not after an event
  await clock.advance(1_000);
  news.close();
  assert.equal((await it.client.answer()).text(), ':\n\ndata: x\n\n:\n\n');
  await until(() => clock.pending <= before + 1); // the timer of heartbeats has ended, that of idle connections runs
});

test('EventBroadcast disconnects a client that does not read, and continues to send to the other clients', async () => {
  const news = new EventBroadcast({ maxBufferedBytes: 400_000 });
  await using it = await serve((app) => app.get('/', () => news.stream()));
  await using slow = await RawClient.open(it.port);
  it.client.get('/');
  slow.get('/');
  await Promise.all([once(it.client.socket, 'data'), once(slow.socket, 'data')]);
  slow.socket.pause();
  const closed = once(slow.socket, 'close');
  const text = 'x'.repeat(50_000);
  let sent = 0;
  for (; news.size === 2; sent++) {
    news.send(text);
    assert.ok(sent < 2_000, 'what waits for a client has a bound');
    while (it.client.unread < sent * 50_000 && news.size === 2) await turn();
  }
  assert.equal(news.size, 1);
  news.close();
  assert.ok((await it.client.answer()).isWhole);
  slow.socket.resume();
  await soon(closed, 'the end of the slow connection');
});

test('if a stream of EventBroadcast is read through app.fetch() and exceeds maxBufferedBytes, the stream ends', async () => {
  const news = new EventBroadcast({ maxBufferedBytes: 1_024 });
  const app = new Svc().get('/', () => news.stream()) as Svc;
  const reader = (await app.fetch(new Request('http://a/'))).body!.getReader();
  assert.equal(Buffer.from((await reader.read()).value!).toString(), ':\n\n');
  news.send('a');
  assert.equal(Buffer.from((await reader.read()).value!).toString(), 'data: a\n\n');
  const waiting = reader.read();
  news.send('b');
  assert.equal(Buffer.from((await waiting).value!).toString(), 'data: b\n\n');
  for (const size of [1, 0]) {
    // the first events become the chunk that is read ahead of the client, and the next ones wait
    for (let n = 0; n < (size === 1 ? 50 : 200); n++) news.send('0123456789');
    await turn();
    assert.equal(news.size, size);
  }
  while (!(await reader.read()).done); // it ends
  await app.shutdown();
});

for (const [how, accessLog] of [
  ['without', false],
  ['with', true],
] as const) {
  test(`a stopping server ends all event streams before its drain deadline, and the responses are complete (${how} an access log)`, async () => {
    const news = new EventBroadcast();
    let ended = 0;
    const it = await serve(
      (app) =>
        app
          .get('/all', () => news.stream())
          .get(
            '/own',
            () =>
              new EventStreamResponse({
                [Symbol.asyncIterator]: () => ({
                  next: () => new Promise<never>(() => undefined),
                  return: () => {
                    ended++;
                    return Promise.reject(new Error('return'));
                  },
                }),
              }),
          ),
      { accessLog },
    );
    await using other = await RawClient.open(it.port);
    it.client.get('/all');
    other.get('/own');
    await Promise.all([once(it.client.socket, 'data'), once(other.socket, 'data')]);
    await it.close();
    for (const client of [it.client, other]) assert.deepEqual([(await client.answer()).isWhole], [true]);
    assert.equal(ended, 1);
    assert.deepEqual(
      it.events.filter((event) => event['level'] === 'error' || event['event'] === 'drain_deadline_exceeded'),
      [],
    );
  });
}

// ── NDJSON ──

test('NDJSONResponse sends a line of JSON for each value of an iterable, async iterable or stream', async () => {
  for (const values of [
    [{ a: 1 }, 'x\ny', null, 1n, new Date(0)],
    (async function* () {
      yield* [{ a: 1 }, 'x\ny', null, 1n, new Date(0)];
    })(),
    ReadableStream.from([{ a: 1 }, 'x\ny', null, 1n, new Date(0)]),
  ]) {
    await using client = new TestClient(new Svc().get('/', () => new NDJSONResponse(values)) as Svc);
    const answer = await client.get('/');
    assert.equal(answer.headers.get('content-type'), 'application/x-ndjson');
    assert.equal(await answer.text(), '{"a":1}\n"x\\ny"\nnull\n"1"\n"1970-01-01T00:00:00.000Z"\n');
  }
});

test('NDJSONResponse answers 500 if its first value cannot be written as JSON, and cuts the connection if a later value cannot', async () => {
  await using it = await serve((app) =>
    app
      .get('/first', () => new NDJSONResponse([undefined]))
      .get('/later', () => new NDJSONResponse([1, () => 1])),
  );
  assert.equal((await it.client.get('/first').answer()).status, 500);
  assert.equal((await it.client.get('/later').answer()).isWhole, false);
  assert.throws(() => new NDJSONResponse(5 as never), { code: 'E_STREAM' });
});

// ── real clients ──

test('curl --no-buffer shows each event as soon as it is sent', async (t) => {
  const curl = await promisify(execFile)('curl', ['--version']).then(
    () => true,
    () => false,
  );
  if (!curl) return t.skip('there is no curl');
  const news = new EventBroadcast();
  await using it = await serve((app) => app.get('/', () => news.stream()));
  const child = execFile('curl', ['--no-buffer', '--silent', it.url]);
  const [first] = (await once(child.stdout!, 'data')) as [string];
  assert.equal(first, ':\n\n');
  const shown = once(child.stdout!, 'data');
  news.send({ data: 'now' });
  assert.deepEqual(await shown, ['data: now\n\n']);
  news.close();
  assert.deepEqual(await once(child, 'close'), [0, null]);
});

test('EventSource in Chromium receives events of every form, and reconnects with Last-Event-ID', async (t) => {
  if (!needsChromium(t)) return;
  const ids: (string | undefined)[] = [];
  await using it = await serve((app) =>
    app
      .get('/', () => 'page')
      .get('/events', ({ req }) => {
        ids.push(lastEventId(req));
        if (ids.length > 1) return new EventStreamResponse([{ event: 'done', data: 'x' }]);
        return new EventStreamResponse([
          { retryMs: 1, id: 'é-7', data: 'a\nb' },
          { event: 'price', data: { tea: 3 } },
        ]);
      }),
  );
  const page = await (await Chromium.start(t)).visitor();
  await page.open(it.url);
  const seen = await page.run<string[]>(`new Promise((resolve) => {
    const seen = []; const events = new EventSource('/events');
    events.onmessage = (event) => seen.push('message ' + event.data + ' ' + event.lastEventId);
    events.addEventListener('price', (event) => seen.push('price ' + event.data));
    events.addEventListener('done', () => { events.close(); resolve(seen); });
  })`);
  assert.deepEqual(seen, ['message a\nb é-7', 'price {"tea":3}']);
  assert.deepEqual(ids, [undefined, 'é-7']);
});
