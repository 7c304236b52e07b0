/**
 * Early ends of responses that wait with the signal of their request: the signal aborts, the source ends,
 * then the dependencies of the request are cleaned up, and only then the shutdown hooks run.
 */
import assert from 'node:assert/strict';
import { EventEmitter, on, once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import {
  CompressionMiddleware,
  Depends,
  EventBroadcast,
  EventStreamResponse,
  StreamingResponse,
  Svc,
} from '../../../src/index.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { TOKEN_END_MS } from '../../../src/http/state.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { turn } from '../../support/turn.ts';
import type { AddressInfo } from 'node:net';

const TOKEN_MS = 60_000;
const LEFT = 'ClientDisconnected: The client closed the connection';
const STOPS = 'Unavailable: The server stops';

/** Responses whose source waits for an event. */
class Waiting {
  readonly news = new EventEmitter();
  readonly clock = new ManualClock();
  readonly app = new Svc({ clock: this.clock, logger: collectedLog().logger, accessLog: true });
  readonly steps: string[] = [];

  constructor() {
    const { app, news, steps } = this;
    const kept = Depends(async function* () {
      try {
        yield 1;
      } finally {
        steps.push('dependency');
      }
    });
    const source = async function* (signal: AbortSignal): AsyncGenerator<string> {
      signal.addEventListener('abort', () => steps.push(String(signal.reason)));
      try {
        yield 'first';
        for await (const [text] of on(news, 'event', { signal })) yield String(text);
      } finally {
        await turn(); // the end takes time
        steps.push('source');
      }
    };
    app.use(new CompressionMiddleware());
    app.get('/events', { kept, public: true }, ({ signal }) => new EventStreamResponse(source(signal)));
    app.get('/token', { kept, public: true }, ({ signal, state }) => {
      state.set(TOKEN_END_MS, this.clock.nowMs() + TOKEN_MS);
      return new EventStreamResponse(source(signal));
    });
    app.get('/chunks', { kept, public: true }, ({ signal }) => new StreamingResponse(source(signal)));
    app.get('/broadcast', { kept, public: true }, ({ signal }) => {
      signal.addEventListener('abort', () => steps.push(String(signal.reason)));
      return new EventBroadcast().stream(['first']);
    });
    app.websocket('/socket', { kept, public: true, allowMissingOrigin: true }, async (socket, { req }) => {
      try {
        for await (const text of source(req.signal)) socket.send(text);
      } catch (error) {
        if (!req.signal.aborted) throw error;
      }
    });
    app.onShutdown(() => void steps.push(`hook, ${news.listenerCount('event')} listeners`));
  }

  /** Waits until a source waits. */
  async waits(): Promise<void> {
    while (this.news.listenerCount('event') === 0) await turn();
  }

  /** Waits until a step is reached. */
  async reached(step: string): Promise<void> {
    while (!this.steps.includes(step)) await turn();
  }
}

type Ask = (path: string, init?: RequestInit) => Promise<Response>;

/** Requests a path, and waits until its source waits. Returns the reader of the response. */
async function begin(
  it: Waiting,
  ask: Ask,
  path: string,
  init?: RequestInit,
): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const reader = (await ask(path, init)).body!.getReader();
  for (let text = ''; !text.includes('first');)
    text += Buffer.from((await reader.read()).value!).toString('latin1');
  reader.read().catch(() => undefined);
  if (path !== '/broadcast') await it.waits();
  return reader;
}

/** Ends `work` that may wait for a time limit. */
async function beyondLimits(it: Waiting, work: Promise<unknown>): Promise<void> {
  let isOver = false;
  const over = work.finally(() => (isOver = true));
  while (!isOver) {
    await turn();
    await it.clock.advance(1_000);
  }
  await over;
}

async function embedded(it: Waiting): Promise<{ url: string; ask: Ask; close(): Promise<void> }> {
  const { request, upgrade } = it.app.requestListener();
  const server = createServer(request).on('upgrade', upgrade).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return {
    url,
    ask: (path, init) => fetch(url + path, init),
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

const UNCODED = { headers: { 'accept-encoding': 'identity' } };

/** Ways of ending, each with the reason for event streams and the reason for other streams; '' if it does not apply. */
const WAYS: Readonly<
  Record<string, readonly [string, string, (it: Waiting, path: string) => Promise<void>]>
> = {
  'the client of app.run() leaves': [
    LEFT,
    LEFT,
    async (it, path) => {
      const { url, close } = await it.app.run({ port: 0, handleSignals: false });
      const abort = new AbortController();
      await begin(it, (at, init) => fetch(url + at, init), path, { ...UNCODED, signal: abort.signal });
      abort.abort();
      await it.reached('dependency');
      await close();
    },
  ],
  'the server of app.run() closes': [
    STOPS,
    LEFT,
    async (it, path) => {
      const { url, close } = await it.app.run({ port: 0, handleSignals: false });
      await begin(it, (at, init) => fetch(url + at, init), path, UNCODED);
      await beyondLimits(it, close());
    },
  ],
  'the server of app.run() closes during a compressed response': [
    STOPS,
    '',
    async (it, path) => {
      const { url, close } = await it.app.run({ port: 0, handleSignals: false });
      await begin(it, (at, init) => fetch(url + at, init), path);
      await beyondLimits(it, close());
    },
  ],
  'the client of another server leaves': [
    LEFT,
    LEFT,
    async (it, path) => {
      await using stack = new AsyncDisposableStack();
      const server = stack.adopt(await embedded(it), (own) => own.close());
      const abort = new AbortController();
      await begin(it, server.ask, path, { ...UNCODED, signal: abort.signal });
      abort.abort();
      await it.reached('dependency');
      await it.app.shutdown();
    },
  ],
  'app.shutdown() below another server': [
    STOPS,
    '',
    async (it, path) => {
      await using stack = new AsyncDisposableStack();
      const server = stack.adopt(await embedded(it), (own) => own.close());
      await begin(it, server.ask, path, UNCODED);
      await it.app.shutdown();
    },
  ],
  'the reader of app.fetch() cancels': [
    LEFT,
    LEFT,
    async (it, path) => {
      const reader = await begin(it, (at) => it.app.fetch(new Request(`http://a${at}`)), path);
      await reader.cancel();
      await it.app.shutdown();
    },
  ],
  'app.shutdown() after app.fetch()': [
    STOPS,
    LEFT,
    async (it, path) => {
      await begin(it, (at) => it.app.fetch(new Request(`http://a${at}`)), path);
      await it.app.shutdown();
    },
  ],
  'a TestClient closes': [
    STOPS,
    LEFT,
    async (it, path) => {
      const client = new TestClient(it.app);
      await begin(it, (at) => client.get(at), path);
      await client.close();
    },
  ],
  'a TestClient with listen closes': [
    STOPS,
    LEFT,
    async (it, path) => {
      const client = new TestClient(it.app, { listen: true });
      await begin(it, (at) => client.get(at), path);
      await beyondLimits(it, client.close());
    },
  ],
};

/** Opens a WebSocket, and waits until its handler waits. */
async function openSocket(it: Waiting, url: string): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/socket`);
  await it.waits();
  return socket;
}

const SOCKET_WAYS: Readonly<Record<string, (it: Waiting) => Promise<void>>> = {
  'the client of app.run() leaves': async (it) => {
    const { url, close } = await it.app.run({ port: 0, handleSignals: false });
    (await openSocket(it, url)).close();
    await it.reached('dependency');
    await close();
  },
  'the server of app.run() closes': async (it) => {
    const { url, close } = await it.app.run({ port: 0, handleSignals: false });
    await openSocket(it, url);
    await close();
  },
  'app.shutdown() below another server': async (it) => {
    await using stack = new AsyncDisposableStack();
    const server = stack.adopt(await embedded(it), (own) => own.close());
    await openSocket(it, server.url);
    await it.app.shutdown();
  },
  'a TestClient closes': async (it) => {
    const client = new TestClient(it.app);
    await client.websocket('/socket');
    await it.waits();
    await client.close();
  },
  'a TestClient with listen closes': async (it) => {
    const client = new TestClient(it.app, { listen: true });
    await client.websocket('/socket');
    await it.waits();
    await client.close();
  },
};

for (const [way, end] of Object.entries(SOCKET_WAYS))
  test(`${way}: the signal of a WebSocket aborts, its handler ends, then the dependency, then the shutdown hooks run`, async () => {
    const it = new Waiting();
    await end(it);
    assert.deepEqual(it.steps, [LEFT, 'source', 'dependency', 'hook, 0 listeners']);
  });

test('an event stream ends with its token: the signal aborts with Unauthorized, and the source ends', async () => {
  const it = new Waiting();
  await using client = new TestClient(it.app);
  const reader = await begin(it, (at) => client.get(at), '/token');
  await it.clock.advance(TOKEN_MS);
  while (!(await reader.read()).done);
  assert.deepEqual(it.steps, ['Unauthorized: The login has ended', 'source', 'dependency']);
});

for (const [way, [ofEvents, ofChunks, end]] of Object.entries(WAYS))
  for (const [path, reason, hasSource] of [
    ['/events', ofEvents, true],
    ['/broadcast', ofEvents, false],
    ['/chunks', ofChunks, true],
  ] as const) {
    if (reason === '') continue;
    test(`${way}: the signal of ${path} aborts, the source ends, then the dependency, then the shutdown hooks run`, async () => {
      const it = new Waiting();
      await end(it, path);
      assert.deepEqual(it.steps, [
        reason,
        ...(hasSource ? ['source'] : []),
        'dependency',
        'hook, 0 listeners',
      ]);
    });
  }
