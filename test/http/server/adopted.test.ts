/**
 * Connections accepted by another process: node:http does not limit their time, and does not know which are idle.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { turn } from '../../support/turn.ts';
import type { AddressInfo, Socket } from 'node:net';

const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

type Adopting = {
  clock: ManualClock;
  server: HttpServer;
  sockets: Socket[];
  open(): Promise<RawClient>;
} & AsyncDisposable;

/** Starts a server that does not listen, but adopts every connection of another port. */
async function adopting(
  declare: (app: Svc) => void = (app) => void app.get('/', () => 'ok'),
): Promise<Adopting> {
  const clock = new ManualClock();
  const app = new Svc({
    clock,
    logger: collectedLog().logger,
    headersTimeoutMs: 4_000,
    requestTimeoutMs: 8_000,
  });
  declare(app);
  const server = new HttpServer(app.application());
  const sockets: Socket[] = [];
  const acceptor = createServer({ pauseOnConnect: true }, (socket) => {
    sockets.push(socket);
    server.adopt(socket);
  });
  acceptor.listen(0, '127.0.0.1');
  await once(acceptor, 'listening');
  const { port } = acceptor.address() as AddressInfo;
  return {
    clock,
    server,
    sockets,
    open: () => RawClient.open(port),
    async [Symbol.asyncDispose]() {
      acceptor.close();
      for (const socket of sockets) socket.destroy();
      await server.close(0);
    },
  };
}

/** Moves the clock in steps of the interval at which a server checks its connections. */
async function pass(clock: ManualClock, ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 500) {
    await turn();
    await clock.advance(500);
  }
}

test('HttpServer.adopt() limits the time until the first request head of a connection is complete, and answers a late head with 408', async () => {
  await using it = await adopting();
  await using silent = await it.open();
  await using half = await it.open();
  await using used = await it.open();
  assert.equal((await used.send(GET).answer()).status, 200);
  await pass(it.clock, 1_000); // one check, before the next head begins
  const before = it.sockets[2]!.bytesRead;
  half.send(GET.slice(0, 10));
  used.send(GET.slice(0, 10));
  while (it.sockets[2]!.bytesRead === before) await turn();
  await pass(it.clock, 2_000);
  assert.deepEqual(
    it.sockets.map(({ destroyed }) => destroyed),
    [false, false, false],
  );
  await pass(it.clock, 3_000);
  for (const client of [silent, half, used]) {
    assert.equal((await client.answer()).status, 408);
    await client.ended();
  }
});

test('HttpServer.adopt() limits the time of a request body, which may be longer than the time limit of a request head', async () => {
  await using it = await adopting((app) => app.post('/', async ({ req }) => await req.text()));
  await using client = await it.open();
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc');
  while (it.server.inFlight === 0) await turn();
  await pass(it.clock, 7_000);
  assert.equal(it.server.inFlight, 1);
  await pass(it.clock, 3_000);
  assert.equal((await client.answer()).status, 408);
});

test('HttpServer.close() closes connections received by HttpServer.adopt(): idle connections at once, busy connections after their response', async () => {
  const [begun, release] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  await using it = await adopting((app) =>
    app
      .get('/', () => 'ok')
      .get('/late', async () => {
        begun.resolve();
        await release.promise;
        return 'late';
      }),
  );
  await using idle = await it.open();
  await using busy = await it.open();
  assert.equal((await idle.send(GET).answer()).status, 200);
  busy.get('/late');
  await begun.promise;
  const closed = it.server.close(60_000);
  assert.equal((await idle.ended()).length, 0);
  release.resolve();
  const answer = await busy.answer();
  assert.deepEqual([answer.text(), answer.field('connection')], ['late', 'close']);
  assert.equal(await closed, 0);
});
