/**
 * Long bodies in slices: each is short enough to measure how far its client has read, and together they are the body. Also the bytes
 * that arrive when a body's source fails.
 */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { EventStreamResponse, NDJSONResponse, StreamingResponse, Svc, TextResponse } from 'svc';
import { slicesOf } from '../../../src/http/server/send.ts';
import { SLICE_BYTES } from '../../../src/http/server/connections.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { RawClient } from '../../support/raw-http.ts';

test('slicesOf() cuts generated texts and bytes into slices of limited size, which join to the original', () => {
  const random = seeded(31);
  const LETTERS = ['a', 'é', '語', '😀', '😀', '\ud83d', '\ude00'];
  for (let round = 0; round < 60; round++) {
    const letters = LETTERS.slice(0, 1 + random(LETTERS.length));
    let text = 'b'.repeat(random(3));
    while (text.length < SLICE_BYTES * 2) text += letters[random(letters.length)]!.repeat(1 + random(20_000));
    const whole = Buffer.from(text);
    for (const isAscii of letters.length === 1 ? [true, false] : [false]) {
      const slices = [...slicesOf(text, isAscii)].map((slice) => Buffer.from(slice as string));
      assert.ok(slices.length > 1 && slices.every(({ length }) => length > 0 && length <= SLICE_BYTES));
      assert.ok(Buffer.concat(slices).equals(whole)); // lone surrogates are U+FFFD in both
    }
    const slices = [...slicesOf(whole)] as Uint8Array[];
    assert.ok(slices.every(({ length }) => length > 0 && length <= SLICE_BYTES));
    assert.ok(Buffer.concat(slices).equals(whole));
  }
});

test('a long text is sent unchanged with Content-Length, whatever characters it contains', async () => {
  const texts = [
    'a'.repeat(SLICE_BYTES + 1),
    'é'.repeat(SLICE_BYTES),
    `a${'😀'.repeat(SLICE_BYTES)}`,
    `語\ud83d${'語'.repeat(SLICE_BYTES * 3)}`,
  ];
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/text/{index:int}', ({ params: { index } }) => texts[index]!);
  app.get('/json/{index:int}', ({ params: { index } }) => ({ text: texts[index]! }));
  const { url, close } = await app.run({ port: 0, handleSignals: false });
  try {
    for (const [index, text] of texts.entries()) {
      const response = await fetch(`${url}/text/${index}`);
      assert.equal(response.headers.get('content-length'), String(Buffer.byteLength(text)));
      assert.ok((await response.text()) === text.toWellFormed(), `text ${index}`);
      assert.deepEqual(await (await fetch(`${url}/json/${index}`)).json(), { text });
    }
  } finally {
    await close();
  }
});

test('header fields before a long text are sent as Latin-1, one byte per character', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  app.get('/', () => new TextResponse('é'.repeat(SLICE_BYTES), { headers: { 'X-Name': 'café' } }));
  const { url, close } = await app.run({ port: 0, handleSignals: false });
  try {
    const response = await fetch(url);
    assert.equal(response.headers.get('x-name'), 'café');
    assert.ok((await response.text()) === 'é'.repeat(SLICE_BYTES));
  } finally {
    await close();
  }
});

/** Content of the chunks, of which Node 26 makes one for each turn; `…` follows if the last one is missing. */
function dechunked(chunks: string): string {
  let text = '';
  for (let rest = chunks; rest !== '';) {
    const [head, size] = /^([\da-f]+)\r\n/.exec(rest) ?? assert.fail(`no chunk: ${rest}`);
    const end = head.length + Number.parseInt(size!, 16);
    assert.equal(rest.slice(end, end + 2), '\r\n');
    if (size === '0') return text;
    text += rest.slice(head.length, end);
    rest = rest.slice(end + 2);
  }
  return `${text}…`;
}

test('if the source of a stream fails directly after some chunks, the chunks are sent, and the response ends incomplete', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  async function* failing<T>(...values: T[]): AsyncGenerator<T> {
    yield* values;
    throw new Error('no more');
  }
  app
    .get('/texts', () => new StreamingResponse(failing('one', 'two')))
    .get('/values', () => new NDJSONResponse(failing({ a: 1 }, { a: 2 })));
  app.get(
    '/at-once',
    () =>
      new StreamingResponse(
        (function* () {
          yield 'one';
          throw new Error('no more');
        })(),
      ),
  );
  const server = await app.run({ port: 0, handleSignals: false });
  try {
    for (const [path, chunks] of [
      ['/texts', 'onetwo'],
      ['/values', '{"a":1}\n{"a":2}\n'],
      ['/at-once', 'one'],
    ] as const) {
      const client = await RawClient.open(server.port);
      const answer = String(await client.get(path).ended());
      assert.ok(answer.startsWith('HTTP/1.1 200 OK\r\n'), `${path}: ${answer}`);
      assert.equal(dechunked(answer.slice(answer.indexOf('\r\n\r\n') + 4)), `${chunks}…`);
    }
  } finally {
    await server.close();
  }
});

test('if an HTTP/1.0 response without Content-Length is interrupted, its connection is reset instead of closed normally (RFC 9112 §8)', async () => {
  const app = new Svc({ logger: collectedLog().logger });
  async function* giving(...values: (string | Error)[]): AsyncGenerator<string> {
    for (const value of values) {
      if (value instanceof Error) throw value;
      yield value;
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  app
    .get('/cut', () => new StreamingResponse(giving('one', 'two', new Error('no more'))))
    .get('/at-once', () => new StreamingResponse(giving(new Error('nothing at all'))));
  app
    .get('/whole', () => new StreamingResponse(giving('one', 'two')))
    .get('/counted', () => new StreamingResponse(giving('one', new Error('no more')), { contentLength: 6 }));
  const server = await app.run({ port: 0, handleSignals: false });
  const ask = async (target: string, version: string): Promise<[body: string, end: string]> => {
    const socket = connect(server.port, '127.0.0.1');
    const chunks: Buffer[] = [];
    let end = 'end';
    socket
      .on('data', (chunk) => chunks.push(chunk))
      .on('error', ({ code }: NodeJS.ErrnoException) => {
        end = code!;
      });
    socket.write(`GET ${target} HTTP/${version}\r\nHost: a\r\n\r\n`);
    await new Promise((resolve) => socket.once('close', resolve));
    const answer = Buffer.concat(chunks).toString();
    return [answer.slice(answer.indexOf('\r\n\r\n') + 4), end];
  };
  try {
    assert.deepEqual(await ask('/cut', '1.0'), ['onetwo', 'ECONNRESET']);
    assert.deepEqual(await ask('/whole', '1.0'), ['onetwo', 'end']);
    const [chunks, end] = await ask('/cut', '1.1');
    assert.deepEqual([dechunked(chunks), end], ['onetwo…', 'end']); // it says itself that it is not whole
    assert.deepEqual((await ask('/at-once', '1.0'))[1], 'end'); // 500
    assert.equal((await ask('/counted', '1.0'))[1], 'end');
  } finally {
    await server.close();
  }
});

test('if a closing server abandons an unfinished HTTP/1.0 response, it resets the connection', async () => {
  const clock = new ManualClock();
  const app = new Svc({ logger: collectedLog().logger, clock });
  const more = Promise.withResolvers<void>();
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (async function* () {
          yield 'one';
          await more.promise;
        })(),
      ),
  );
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  const socket = connect(server.port, '127.0.0.1');
  const ended = new Promise((resolve) =>
    socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code)).on('close', () => resolve('end')),
  );
  socket.write('GET / HTTP/1.0\r\n\r\n');
  await new Promise((resolve) => socket.once('data', resolve));
  let isClosed = false;
  void server.close().then(() => {
    isClosed = true;
  });
  while (!isClosed) await clock.advance(100);
  assert.equal(await ended, 'ECONNRESET');
  more.resolve();
});

/** A clock whose durations are the time that sources pretend to compute. */
class ComputingClock extends ManualClock {
  computedMs = 0;
  override monotonicMs(): number {
    return this.computedMs;
  }
}

test('while a source computes its chunks without a pause, other work gets a turn of the event loop after each 10 ms', async () => {
  const clock = new ComputingClock();
  const app = new Svc({ logger: collectedLog().logger, clock });
  let perTurn = 0;
  let most = 0;
  const compute = (): string => {
    clock.computedMs += 4;
    most = Math.max(most, ++perTurn);
    return 'x';
  };
  const CHUNKS = 200;
  function* texts(): Generator<string> {
    for (let index = 0; index < CHUNKS; index++) yield compute();
  }
  async function* later(): AsyncGenerator<string> {
    yield* texts();
  }
  app
    .get('/texts', () => new StreamingResponse(texts()))
    .get('/later', () => new StreamingResponse(later()))
    .get(
      '/readable',
      () => new StreamingResponse(Readable.from(later(), { objectMode: true, highWaterMark: 1 })),
    )
    .get('/web', () => new Response(ReadableStream.from(later()).pipeThrough(new TextEncoderStream())))
    .get('/values', () => new NDJSONResponse(texts()))
    .get('/events', () => new EventStreamResponse(texts()));
  const server = await app.run({ port: 0, handleSignals: false });
  let ticker: NodeJS.Immediate;
  const tick = (): void => {
    perTurn = 0;
    ticker = setImmediate(tick);
  };
  tick();
  try {
    for (const path of ['/texts', '/later', '/readable', '/web', '/values', '/events']) {
      most = 0;
      await (await fetch(`${server.url}${path}`)).text();
      assert.ok(most >= 1 && most <= 10, `${path}: ${most} chunks in one turn`); // web streams compute some ahead
    }
  } finally {
    clearImmediate(ticker!);
    await server.close();
  }
});
