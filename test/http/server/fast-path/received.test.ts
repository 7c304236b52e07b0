import assert from 'node:assert/strict';
import { channel } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { test } from 'node:test';
import { Svc } from '../../../../src/app/svc.ts';
import { MESSAGES, USES_INTERNALS } from '../../../../src/http/server/fast-path/internals.ts';
import { collectedLog } from '../../../support/collected-log.ts';
import { RawClient } from '../../../support/raw-http.ts';
import { turn } from '../../../support/turn.ts';
import type { AddressInfo } from 'node:net';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';

/** Reason to skip tests of undocumented parts of Node; false if this process uses these parts. */
const skip = USES_INTERNALS ? false : 'SVC_NODE_INTERNALS=off';

/** An application on a free port; the loop's next turn is the only wait in it. */
async function serve(
  declare: (app: Svc) => void,
): Promise<{ port: number; events: Record<string, unknown>[] } & AsyncDisposable> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  declare(app);
  const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  return {
    port,
    events,
    async [Symbol.asyncDispose]() {
      await close();
    },
  };
}

const echo = (app: Svc): void => {
  app.post('/at-once', async ({ req }) => await req.text());
  app.post('/late', async ({ req }) => {
    for (let turns = 0; turns < 5; turns++) await turn();
    return await req.text();
  });
  app.post('/unread', () => 'not read');
};
const TEXT = 'grüße\r\n0\r\n';
const LENGTH = `POST /at-once HTTP/1.1\r\nHost: a\r\nContent-Length: ${Buffer.byteLength(TEXT)}\r\n\r\n${TEXT}`;
const CHUNKED = `POST /at-once HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n${TEXT.slice(0, 2)}\r\n${(Buffer.byteLength(TEXT) - 2).toString(16)}\r\n${TEXT.slice(2)}\r\n0\r\nTrailer: x\r\n\r\n`;

for (const [what, request] of [
  ['a length', LENGTH],
  ['chunked coding', CHUNKED],
] as const) {
  test(`HttpServer delivers the whole body of a request, wherever its bytes are split (body with ${what})`, async () => {
    await using it = await serve(echo);
    await using client = await RawClient.open(it.port);
    client.socket.setNoDelay(true);
    const bytes = Buffer.from(request);
    for (let at = 1; at < bytes.length; at++) {
      client.send(bytes.subarray(0, at));
      await turn();
      client.send(bytes.subarray(at));
      assert.equal((await client.answer()).text(), TEXT, `split at ${at}`);
    }
  });
}

test('HttpServer delivers the body of each pipelined request to the handler of that request', async () => {
  await using it = await serve(echo);
  await using client = await RawClient.open(it.port);
  client.send(
    Buffer.from(
      LENGTH + CHUNKED + LENGTH.replace('/at-once', '/late') + LENGTH.replace('/at-once', '/unread') + LENGTH,
    ),
  );
  const answers: string[] = [];
  for (let count = 0; count < 5; count++) answers.push((await client.answer()).text());
  assert.deepEqual(answers, [TEXT, TEXT, TEXT, 'not read', TEXT]);
});

test(
  'if several pipelined requests arrive in one packet, code that awaits the end of a body continues only after the whole packet is parsed',
  { skip },
  async () => {
    const seen: string[] = [];
    const server = createServer(
      { IncomingMessage: MESSAGES.IncomingMessage, requireHostHeader: false },
      (incoming, outgoing) => {
        const { url } = incoming;
        seen.push(`${url} begins`);
        const ended = Promise.withResolvers<void>();
        void ended.promise.then(() => {
          seen.push(`${url} ends`);
          outgoing.end(url);
        });
        incoming.handTo({
          take: (chunk) => void seen.push(`${url} has ${chunk.toString()}`),
          end: ended.resolve,
          lose: () => void seen.push(`${url} is lost`),
        });
      },
    );
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    await using client = await RawClient.open((server.address() as AddressInfo).port);
    client.send(
      ['/1', '/2'].map((path) => `POST ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc`).join(''),
    );
    const answers = [(await client.answer()).text(), (await client.answer()).text()];
    server.close();
    server.closeAllConnections();
    assert.deepEqual(answers, ['/1', '/2']);
    assert.deepEqual(seen, ['/1 begins', '/1 has abc', '/2 begins', '/2 has abc', '/1 ends', '/2 ends']);
  },
);

const HEAD = 'POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n';

for (const [what, sent, before, isHanded] of [
  ['has not arrived', [`${HEAD}\r\n`, 'abc'], () => undefined, true],
  ['has arrived in part', [`${HEAD}\r\na`, 'bc'], turn, false],
  ['has arrived completely', [`${HEAD}\r\nabc`], turn, false],
  ['is empty', [HEAD.replace('3', '0') + '\r\n'], turn, false],
  [
    'is read as a stream',
    [`${HEAD}\r\n`, 'abc'],
    (incoming: IncomingMessage) => void incoming.on('data', () => undefined),
    false,
  ],
  ['awaits "100 Continue"', [`${HEAD}Expect: 100-continue\r\n\r\n`, 'abc'], () => undefined, false],
] as const)
  test(
    `ReceivedMessage ${isHanded ? 'passes' : 'does not pass'} a body to its taker if the body ${what}`,
    { skip },
    async () => {
      const taken: string[] = [];
      const ended = Promise.withResolvers<void>();
      const began = Promise.withResolvers<boolean>();
      const listeners: number[] = [];
      const server = createServer({ IncomingMessage: MESSAGES.IncomingMessage, requireHostHeader: false });
      const onRequest = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
        const waiting = before(incoming);
        if (waiting !== undefined) await waiting;
        began.resolve(
          (incoming as InstanceType<typeof MESSAGES.IncomingMessage>).handTo({
            take: (chunk) => void taken.push(chunk.toString()),
            end: ended.resolve,
            lose: () => undefined,
          }),
        );
        listeners.push(incoming.listenerCount('data'), incoming.listenerCount('readable'));
        if (!isHanded) incoming.on('end', ended.resolve).resume();
        await ended.promise;
        outgoing.end('ok');
      };
      server.on('request', (incoming, outgoing) => void onRequest(incoming, outgoing));
      server.on('checkContinue', (incoming, outgoing: ServerResponse) => {
        (incoming as InstanceType<typeof MESSAGES.IncomingMessage>).awaitsContinue = true;
        void onRequest(incoming, outgoing);
        outgoing.writeContinue();
      });
      server.listen(0, '127.0.0.1');
      await once(server, 'listening');
      await using client = await RawClient.open((server.address() as AddressInfo).port);
      client.send(sent[0]);
      assert.equal(await began.promise, isHanded);
      if (sent.length > 1) client.send(sent[1]!);
      if (what.startsWith('awaits')) assert.equal((await client.answer()).status, 100);
      assert.equal((await client.answer()).text(), 'ok');
      server.close();
      server.closeAllConnections();
      assert.deepEqual(taken.join(''), isHanded ? 'abc' : '');
      assert.deepEqual(listeners, [what.endsWith('stream') ? 1 : 0, 0]);
    },
  );

test(
  'ReceivedMessage passes the whole body to its taker, even if the response ends first',
  { skip },
  async () => {
    const ended = Promise.withResolvers<string>();
    await using it = await bare((incoming) => {
      const chunks: string[] = [];
      (incoming as InstanceType<typeof MESSAGES.IncomingMessage>).handTo({
        take: (chunk) => void chunks.push(chunk.toString()),
        end: () => ended.resolve(chunks.join('')),
        lose: () => ended.resolve('lost'),
      });
    });
    assert.equal((await it.client.send(`${HEAD}\r\n`).answer()).text(), 'ok');
    it.client.send('abc');
    assert.equal(await ended.promise, 'abc');
  },
);

for (const [path, count] of [
  ['/at-once', 0],
  ['/late', 1],
] as const)
  test(
    `HttpServer reads the body of a request to ${path} with ${count} listeners for chunks`,
    { skip },
    async () => {
      const counted = Promise.withResolvers<number>();
      await using it = await serve((app) => {
        app.post(path, async ({ req }) => {
          if (path === '/late') for (let turns = 0; turns < 5; turns++) await turn();
          const text = req.text();
          counted.resolve(incomingOf.listenerCount('data'));
          return text;
        });
      });
      let incomingOf!: IncomingMessage;
      const start = channel('http.server.request.start');
      const onStart = (message: unknown): void => {
        incomingOf = (message as { request: IncomingMessage }).request;
      };
      start.subscribe(onStart);
      await using client = await RawClient.open(it.port);
      client.send(Buffer.from(LENGTH.replace('/at-once', path).slice(0, -4)));
      const found = await counted.promise;
      start.unsubscribe(onStart);
      client.send(Buffer.from(LENGTH.slice(-4)));
      assert.deepEqual([found, (await client.answer()).text()], [count, TEXT]);
    },
  );

test('if a part of a body arrived before the handler asks for the body, HttpServer still delivers the whole body', async () => {
  await using it = await serve(echo);
  await using client = await RawClient.open(it.port);
  for (const at of [LENGTH.length - 4, LENGTH.length]) {
    const bytes = Buffer.from(LENGTH.replace('/at-once', '/late'));
    client.send(bytes.subarray(0, at));
    for (let turns = 0; turns < 10; turns++) await turn();
    client.send(bytes.subarray(at));
    assert.equal((await client.answer()).text(), TEXT);
  }
});

test('if the client leaves during a body, HttpServer rejects reading the body', async () => {
  const left = Promise.withResolvers<unknown>();
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => {
      await req.body().catch((error: unknown) => {
        left.resolve(error);
      });
      return 'nobody reads this';
    }),
  );
  const client = await RawClient.open(it.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc');
  await turn();
  client.socket.destroy();
  assert.equal(((await left.promise) as Error).name, 'ClientDisconnected');
});

test('HttpServer reads and drops the rest of a refused body, so the connection stays usable', async () => {
  await using it = await serve((app) =>
    app.post('/', async ({ req }) => (await req.body({ maxBytes: 4 })).length),
  );
  await using client = await RawClient.open(it.port);
  for (const parts of [['abc', 'def', 'ghi'], ['abcdefghi']]) {
    client.send(`POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n`);
    for (const part of parts) client.send(`${part.length.toString(16)}\r\n${part}\r\n`);
    client.send('0\r\n\r\n');
    assert.equal((await client.answer()).status, 413);
  }
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc');
  assert.equal((await client.answer()).text(), '3');
});

/** Header fields that have no meaning for node:http. */
const FIVE = 'A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\nE: 1\r\n';

/** Starts a node:http server with these message classes, to compare what node:http itself sees. */
async function bare(
  onRequest: (incoming: IncomingMessage) => void,
): Promise<{ server: Server; client: RawClient } & AsyncDisposable> {
  const server = createServer(
    { IncomingMessage: MESSAGES.IncomingMessage, optimizeEmptyRequests: true, requireHostHeader: false },
    (incoming, outgoing) => {
      onRequest(incoming);
      outgoing.end('ok');
    },
  );
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  const client = await RawClient.open((server.address() as AddressInfo).port);
  return {
    server,
    client,
    async [Symbol.asyncDispose]() {
      await client[Symbol.asyncDispose]();
      await new Promise((resolve) => {
        server.close(resolve);
      });
    },
  };
}

test(
  '"headers" of ReceivedMessage contains at most content-length, as a sign for node:http that the request has a body',
  { skip },
  async () => {
    const seen: unknown[] = [];
    await using it = await bare((incoming) => {
      seen.push(Object.keys(incoming.headers), incoming.readableEnded);
    });
    for (const more of ['', FIVE]) {
      await it.client.send(`GET / HTTP/1.1\r\nHost: a\r\n${more}\r\n`).answer();
      await it.client.send(`POST / HTTP/1.1\r\nHost: a\r\n${more}CONTENT-LENGTH: 1\r\n\r\nx`).answer();
      await it.client
        .send(`POST / HTTP/1.1\r\nHost: a\r\n${more}transfer-encoding: chunked\r\n\r\n0\r\n\r\n`)
        .answer();
      assert.deepEqual(seen.splice(0), [[], true, ['content-length'], false, ['content-length'], false]);
    }
  },
);

test(
  '"headers" of ReceivedMessage has every header field if a diagnostics channel of node:http has a subscriber, or if Server.emit() is patched',
  { skip },
  async () => {
    const seen: unknown[] = [];
    await using it = await bare((incoming) => {
      seen.push(incoming.headers['traceparent']);
    });
    const subscriber = (message: unknown): void => {
      seen.push((message as { request: IncomingMessage }).request.headers['traceparent']);
    };
    const start = channel('http.server.request.start');
    start.subscribe(subscriber);
    await it.client.get('/', `${FIVE}traceparent: 1\r\n`).answer();
    start.unsubscribe(subscriber);
    await it.client.get('/', `${FIVE}traceparent: 2\r\n`).answer();
    const prototype = Object.getPrototypeOf(it.server) as Server;
    const { emit } = prototype;
    prototype.emit = function (this: Server, ...args: Parameters<Server['emit']>) {
      return emit.apply(this, args);
    } as Server['emit'];
    await it.client.get('/', `${FIVE}traceparent: 3\r\n`).answer();
    delete (prototype as { emit?: unknown }).emit;
    assert.deepEqual(seen, ['1', '1', undefined, '3']);
  },
);

test('ReceivedMessage passes the field Expect to node:http', async () => {
  await using it = await bare(() => undefined);
  it.client.send('POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n');
  assert.equal((await it.client.answer()).status, 100);
  assert.equal((await it.client.answer()).status, 200);
  it.client.send('xGET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n');
  assert.equal((await it.client.answer()).status, 417);
});
