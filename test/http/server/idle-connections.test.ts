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

type Served = { clock: ManualClock; server: RunningServer; sockets: readonly Socket[] } & AsyncDisposable;

async function serve(
  declare: (app: Svc) => void = (app) => void app.get('/', () => 'ok'),
  options: SvcOptions = {},
): Promise<Served> {
  const clock = new ManualClock(),
    app = new Svc({ clock, logger: collectedLog().logger, ...options });
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
  const upgraded = await client
    .send(
      'GET /ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
    )
    .answer();
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
