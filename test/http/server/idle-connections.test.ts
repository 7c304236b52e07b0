import assert from 'node:assert/strict';
import { once } from 'node:events';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { serverOf } from '../../support/listening.ts';
import { RawClient } from '../../support/raw-http.ts';
import { USES_INTERNALS } from '../../../src/http/server/fast-path/internals.ts';
import type { Socket } from 'node:net';
import type { SvcOptions } from '../../../src/app/options.ts';
import type { RunningServer } from '../../../src/app/lifecycle.ts';

/**
 * Reason to skip: without undocumented parts each connection has a timer of node:http, which no test clock
 * moves.
 */
const skip = USES_INTERNALS ? false : 'SVC_NODE_INTERNALS=off';
/** The timeout that node:http announces, and the second that it adds. */
const LIMIT_MS = 6_000;
/** Interval between two checks of idle connections. */
const LOOK_MS = 1_000;
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';
const UPGRADE =
  'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';

type Served = { clock: ManualClock; server: RunningServer; sockets: readonly Socket[] } & AsyncDisposable;

async function serve(
  declare: (app: Svc) => void = (app) => void app.get('/', () => 'ok'),
  options: SvcOptions = {},
): Promise<Served> {
  const clock = new ManualClock(),
    app = new Svc({ clock, logger: collectedLog().logger, keepAliveTimeoutMs: 5_000, ...options });
  declare(app);
  const sockets: Socket[] = [];
  let server: RunningServer | undefined;
  const node = await serverOf(async () => {
    server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  });
  node.on('connection', (socket) => sockets.push(socket));
  return { clock, server: server!, sockets, [Symbol.asyncDispose]: () => server!.close() };
}

/** Moves the clock, and lets client and server read the bytes that wait in the kernel. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += LOOK_MS / 2)
    await clock.advance(Math.min(LOOK_MS / 2, ms - passed));
}

test(
  'HttpServer closes an idle connection one second after the announced keep-alive time, and not earlier',
  { skip },
  async () => {
    await using it = await serve();
    await using client = await RawClient.open(it.server.port);
    const answer = await client.send(GET).answer();
    assert.equal(answer.field('keep-alive'), 'timeout=5');
    for (let i = 0; i < 4; i++) {
      await pass(it.clock, LIMIT_MS - 1);
      assert.equal((await client.send(GET).answer()).status, 200);
    }
    await pass(it.clock, LIMIT_MS + LOOK_MS);
    assert.equal((await client.ended()).length, 0);
  },
);

for (const keepAliveTimeoutMs of [500, 1_000, 2_000, 5_000, 20_000])
  test(
    `HttpServer closes an idle connection at most a third of the idle time and two seconds late (keepAliveTimeoutMs: ${keepAliveTimeoutMs})`,
    { skip },
    async () => {
      const limitMs = keepAliveTimeoutMs + 1_000;
      await using it = await serve(undefined, { keepAliveTimeoutMs });
      await using client = await RawClient.open(it.server.port);
      await client.send(GET).answer();
      const [socket] = it.sockets;
      await pass(it.clock, limitMs - 1);
      assert.equal(socket!.destroyed, false);
      await pass(it.clock, 1 + Math.min(2_000, Math.ceil(limitMs / 3)));
      assert.equal(socket!.destroyed, true);
      assert.equal((await client.ended()).length, 0);
    },
  );

test('HttpServer does not count the time of a handler or a body as idle time', async () => {
  const isThere = Promise.withResolvers<void>(),
    gate = Promise.withResolvers<void>();
  await using it = await serve(
    (app) =>
      app
        .get('/', () => 'ok')
        .post('/', async ({ req }) => {
          isThere.resolve();
          await gate.promise;
          return await req.text();
        }),
    { requestTimeoutMs: 600_000 },
  );
  await using client = await RawClient.open(it.server.port);
  await client.send(GET).answer();
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n');
  await isThere.promise;
  await pass(it.clock, 3 * LIMIT_MS);
  gate.resolve();
  await pass(it.clock, 3 * LIMIT_MS);
  assert.equal((await client.send('hi').answer()).text(), 'hi');
});

test('HttpServer does not close a connection on which a request head is arriving', async () => {
  await using it = await serve();
  await using client = await RawClient.open(it.server.port);
  await client.send(GET).answer();
  await pass(it.clock, LIMIT_MS - LOOK_MS);
  const [socket] = it.sockets;
  const before = socket!.bytesRead;
  client.send(GET.slice(0, 10));
  while (socket!.bytesRead === before) await new Promise(setImmediate);
  await pass(it.clock, LIMIT_MS - LOOK_MS);
  assert.equal((await client.send(GET.slice(10)).answer()).status, 200);
});

test('HttpServer does not close an idle WebSocket', async () => {
  await using it = await serve((app) => {
    app.get('/', () => 'ok');
    app.websocket('/ws', { heartbeatMs: false, allowMissingOrigin: true }).onOpen(() => undefined);
  });
  await using client = await RawClient.open(it.server.port);
  await client.send(GET).answer();
  const upgraded = await client.send(UPGRADE).answer();
  assert.equal(upgraded.status, 101);
  const [socket] = it.sockets;
  await pass(it.clock, 3 * LIMIT_MS);
  assert.equal(socket!.destroyed, false);
});

test(
  'HttpServer starts its timer for idle connections after a response, and stops the timer when no connection is left',
  { skip },
  async () => {
    await using it = await serve();
    const before = it.clock.pending;
    await using client = await RawClient.open(it.server.port);
    await client.send(GET).answer();
    const [socket] = it.sockets;
    assert.equal(it.clock.pending, before + 1);
    const closed = once(socket!, 'close');
    await client[Symbol.asyncDispose]();
    await closed;
    assert.equal(it.clock.pending, before);
  },
);

test('above 80 % of maxConnections, HttpServer closes the connections that are idle longest, down to 75 %', async () => {
  await using it = await serve(undefined, { maxConnections: 20, keepAliveTimeoutMs: 600_000 });
  const clients: RawClient[] = [];
  const open = async (count: number): Promise<void> => {
    for (let left = count; left > 0; left--) {
      clients.push(await RawClient.open(it.server.port));
      assert.equal((await clients.at(-1)!.send(GET).answer()).status, 200);
    }
  };
  const openOnes = (): number[] => it.sockets.flatMap((socket, index) => (socket.destroyed ? [] : [index]));
  await open(16);
  await pass(it.clock, 5_000);
  assert.equal(openOnes().length, 16, 'exactly 80 %');
  assert.equal((await clients[0]!.send(GET).answer()).status, 200); // now the second one is idle longest
  await open(2);
  await pass(it.clock, 2 * LOOK_MS);
  assert.deepEqual(openOnes(), [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]);
  for (const index of [1, 2, 3]) assert.equal((await clients[index]!.ended()).length, 0);
  for (const client of clients) await client[Symbol.asyncDispose]();
});

test('HttpServer makes room by no connection that runs a request, has not sent one, is a WebSocket, or was idle for less than a second', async () => {
  const gate = Promise.withResolvers<string>();
  await using it = await serve(
    (app) => {
      app.get('/', () => 'ok').get('/slow', () => gate.promise);
      app.websocket('/ws', { heartbeatMs: false, allowMissingOrigin: true }).onOpen(() => undefined);
    },
    { maxConnections: 4, keepAliveTimeoutMs: 600_000, requestTimeoutMs: 600_000 },
  );
  const clients = await Promise.all(Array.from({ length: 5 }, () => RawClient.open(it.server.port)));
  const [waiting, slow, socket, fresh, surplus] = clients as [
    RawClient,
    RawClient,
    RawClient,
    RawClient,
    RawClient,
  ];
  for (const client of [slow, socket]) await client.send(GET).answer();
  slow.get('/slow');
  assert.equal((await socket.send(UPGRADE).answer()).status, 101);
  await it.clock.advance(LOOK_MS - 1);
  await fresh.send(GET).answer();
  await it.clock.advance(1);
  assert.deepEqual(
    it.sockets.map(({ destroyed }) => destroyed),
    [false, false, false, false, false],
  );
  await it.clock.advance(LOOK_MS);
  assert.equal((await fresh.ended()).length, 0);
  gate.resolve('at last');
  assert.equal((await slow.answer()).text(), 'at last');
  assert.equal((await waiting.send(GET).answer()).status, 200);
  assert.equal((await surplus.send(GET).answer()).status, 503);
  for (const client of clients) await client[Symbol.asyncDispose]();
});
