/** Responses whose stream or generator was read before: a 500 with a code, where an empty 200 would hide the mistake. */
import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import test from 'node:test';
import {
  EventStreamResponse,
  HttpResponse,
  NDJSONResponse,
  StreamingResponse,
  Svc,
  reply,
} from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';

type Source = Readable | ReadableStream<string> | Iterable<string> | AsyncIterable<string>;

function* generated(): Generator<string> {
  yield 'a';
}
async function* generatedLater(): AsyncGenerator<string> {
  yield 'a';
}
const webStream = (): ReadableStream<string> => ReadableStream.from(['a']) as ReadableStream<string>;

/** Sources that can be read once. */
const ONCE: Readonly<Record<string, () => Source>> = {
  'a web stream': webStream,
  'a Readable': () => Readable.from(['a']),
  'a PassThrough': () => new PassThrough({ objectMode: true }).end('a'),
  'a generator': generated,
  'an async generator': generatedLater,
  'an iterator of an array': () => ['a'].values(),
  'an iterator helper': () => ['a'].values().map((item) => item),
};
const RESPONSES: Readonly<Record<string, (source: Source) => unknown>> = {
  StreamingResponse: (source) => new StreamingResponse(source),
  'StreamingResponse in a reply': (source) => reply(new StreamingResponse(source), 201),
  NDJSONResponse: (source) => new NDJSONResponse(source),
  EventStreamResponse: (source) => new EventStreamResponse(source),
  HttpResponse: (source) => new HttpResponse(source as Iterable<string>),
};

/** Returns whether a request gets the chunk "a", and the code of the logged error if not. */
async function outcome(handler: () => unknown, requests = 1): Promise<unknown> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env: 'test' }).get('/', handler);
  await using client = new TestClient(app, { raiseErrors: false });
  for (let left = requests; left > 1; left--) await (await client.get('/')).text();
  const response = await client.get('/');
  if (response.status < 300) return (await response.text()).includes('a') ? 'sent' : 'empty';
  const codes = events
    .filter(({ event }) => event === 'unhandled_error')
    .map(({ error }) => (error as { code?: unknown }).code);
  return [response.status, ...codes];
}

for (const [name, respond] of Object.entries(RESPONSES))
  test(`${name} of a stream or generator that an earlier response has read is a 500 with E_STREAM`, async () => {
    for (const [what, make] of Object.entries(ONCE)) {
      assert.equal(await outcome(() => respond(make())), 'sent', what);
      const kept = make();
      assert.deepEqual(await outcome(() => respond(kept), 2), [500, 'E_STREAM'], what);
      const response = respond(make());
      assert.deepEqual(await outcome(() => response, 2), [500, 'E_STREAM'], `a kept response of ${what}`);
    }
    for (const source of [['a'], new Set(['a'])] as const)
      assert.equal(await outcome(() => respond(source), 2), 'sent', 'it can be read again');
  });

test('a StreamingResponse of a stream that the program has read, cancelled or destroyed is a 500 with E_STREAM', async () => {
  const cases: Readonly<Record<string, () => Promise<Source> | Source>> = {
    'a web stream that was read': async () => {
      const stream = webStream();
      for await (const _ of stream) void _;
      return stream;
    },
    'a web stream that was cancelled': async () => {
      const stream = webStream();
      await stream.cancel();
      return stream;
    },
    'a Readable that was read': async () => {
      const stream = Readable.from(['a']);
      await text(stream);
      return stream;
    },
    'a Readable that was destroyed': () => Readable.from(['a']).destroy(),
    'the body of a Response that was read': async () => {
      const response = new Response('a');
      await response.text();
      return response.body as unknown as ReadableStream<string>;
    },
  };
  for (const [what, make] of Object.entries(cases))
    assert.deepEqual(await outcome(async () => new StreamingResponse(await make())), [500, 'E_STREAM'], what);
});

test('a StreamingResponse of an empty source, or of the rest of a stream, is sent', async () => {
  async function* nothing(): AsyncGenerator<string> {
    /* no chunk */
  }
  const closed = new ReadableStream<string>({ start: (controller) => controller.close() });
  for (const source of [[], nothing(), Readable.from([]), closed, new PassThrough().end()])
    assert.equal(await outcome(() => new StreamingResponse(source as Source)), 'empty');
  assert.equal(
    await outcome(async () => {
      const stream = ReadableStream.from(['head', 'a']) as ReadableStream<string>;
      const reader = stream.getReader();
      await reader.read();
      reader.releaseLock();
      return new StreamingResponse(stream);
    }),
    'sent',
  );
});

test('a StreamingResponse of a stream that has failed is a 500 with the error of the stream', async () => {
  const failure = new Error('the disk is full');
  const failed = new ReadableStream<string>({ start: (controller) => controller.error(failure) });
  const destroyed = Readable.from(['a']).on('error', () => undefined);
  destroyed.destroy(failure);
  for (const source of [failed, destroyed]) {
    await using client = new TestClient(
      new Svc({ env: 'test', logger: collectedLog().logger }).get('/', () => new StreamingResponse(source)),
    );
    await assert.rejects(client.get('/'), failure);
  }
});
