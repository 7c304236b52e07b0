/**
 * AsyncLocalStorage: a store that middleware enters holds in everything that belongs to the request.
 */
import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { test } from 'node:test';
import {
  BackgroundTasks,
  Depends,
  EventStreamResponse,
  NDJSONResponse,
  StreamingResponse,
  Svc,
} from '../../src/index.ts';
import type { HttpResponse } from '../../src/index.ts';

const store = new AsyncLocalStorage<string>();

/** Serves one route inside of `store.run('ctx', next)`, requests it over a socket and returns the response's text. */
async function textOf(t: { after(fn: () => unknown): void }, declare: (app: Svc) => void): Promise<string> {
  const app = new Svc();
  app.use((_req, next) => store.run('ctx', next));
  declare(app);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  return await (await fetch(`${server.url}/`)).text();
}

const found = (): string => `${store.getStore() ?? 'none'} `;

async function* texts(): AsyncGenerator<string> {
  for (let step = 0; step < 3; step++) {
    yield found();
    await new Promise(setImmediate);
  }
}

function* syncTexts(): Generator<string> {
  for (let step = 0; step < 3; step++) yield found();
}

const pulled = (): ReadableStream<string> => {
  let step = 0;
  return new ReadableStream<string>({
    pull(controller) {
      controller.enqueue(found());
      if (++step === 3) controller.close();
    },
  });
};

for (const [name, source] of [
  ['an async generator', texts],
  ['a generator', syncTexts],
  ['a web stream', pulled],
] as const)
  test(`a StreamingResponse reads its source in the async context of its request (source: ${name})`, async (t) => {
    const text = await textOf(t, (app) => app.get('/', () => new StreamingResponse(source())));
    assert.equal(text, 'ctx ctx ctx ');
  });

for (const [name, make] of [
  ['EventStreamResponse', () => new EventStreamResponse(texts())],
  ['NDJSONResponse', () => new NDJSONResponse(texts())],
] as const satisfies readonly (readonly [string, () => HttpResponse])[])
  test(`event streams and NDJSON responses read their source in the async context of their request (${name})`, async (t) => {
    const text = await textOf(t, (app) => app.get('/', make));
    assert.equal(text.match(/ctx/g)?.length, 3);
    assert.doesNotMatch(text, /none/);
  });

test('if the client disconnects, the finally block of a streaming generator runs in the async context of its request', async (t) => {
  const ended = Promise.withResolvers<string>();
  const app = new Svc();
  app.use((_req, next) => store.run('ctx', next));
  app.get(
    '/',
    () =>
      new StreamingResponse(
        (async function* () {
          try {
            for (;;) {
              yield 'x';
              await new Promise(setImmediate);
            }
          } finally {
            ended.resolve(found());
          }
        })(),
      ),
  );
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const response = await fetch(`${server.url}/`);
  await response.body?.cancel();
  assert.equal(await ended.promise, 'ctx ');
});

test('handlers, listeners and clean-ups of a WebSocket run in the async context of the handshake', async (t) => {
  const left = Promise.withResolvers<string>();
  const closed = Promise.withResolvers<string>();
  function* connection(): Generator<string, void> {
    try {
      yield found();
    } finally {
      left.resolve(found());
    }
  }
  const app = new Svc();
  app.use((_req, next) => store.run('ctx', next));
  app.websocket('/handler', { opened: Depends(connection) }, async (socket, { opened }) => {
    socket.send(`opened ${opened}`);
    for await (const message of socket) socket.send(`${String(message)} ${found()}`);
  });
  app
    .websocket('/listeners')
    .onOpen((socket) => socket.send(`opened ${found()}`))
    .onMessage((socket, message) => socket.send(`${String(message)} ${found()}`))
    .onClose(() => closed.resolve(found()));
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  for (const path of ['/handler', '/listeners']) {
    const headers = { origin: server.url };
    const socket = new WebSocket(`${server.url.replace('http', 'ws')}${path}`, { headers } as never); // an option of Node
    const texts: string[] = [];
    const received = Promise.withResolvers<void>();
    socket.onmessage = ({ data }) => {
      if (texts.push(String(data)) === 1) socket.send('first');
      else if (texts.length === 2) setImmediate(() => socket.send('second'));
      else received.resolve();
    };
    await received.promise;
    assert.deepEqual(texts, ['opened ctx ', 'first ctx ', 'second ctx ']);
    socket.close();
  }
  assert.deepEqual([await left.promise, await closed.promise], ['ctx ', 'ctx ']);
});

test('clean-ups with the scope "request" and background tasks run in the async context of their request', async (t) => {
  const steps: string[] = [];
  const over = Promise.withResolvers<void>();
  const resource = async function* (): AsyncGenerator<number> {
    yield 1;
    steps.push(`clean-up ${found()}`);
  };
  await textOf(t, (app) =>
    app.get(
      '/',
      { resource: Depends(resource, { scope: 'request' }), tasks: Depends(BackgroundTasks) },
      ({ tasks }) => {
        tasks.add(() => steps.push(`task ${found()}`));
        store.run('inner', () => tasks.add(() => steps.push(`task ${found()}`)));
        tasks.add(() => over.resolve());
        return 'done';
      },
    ),
  );
  await over.promise;
  assert.deepEqual(steps, ['clean-up ctx ', 'task ctx ', 'task inner ']);
});
