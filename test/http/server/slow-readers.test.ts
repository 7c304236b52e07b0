import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { Duplex } from 'node:stream';
import test from 'node:test';
import { StreamingResponse, Svc } from 'svc';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { serverOf } from '../../support/listening.ts';
import { turn } from '../../support/turn.ts';
import type { RunningServer } from '../../../src/app/lifecycle.ts';

const LIMIT_MS = 8_000;
/** A text that is much longer than the kernel's buffer of a connection. */
const BIG = 'x'.repeat(16_000_000);
const SLICE = 'x'.repeat(65_536);
const GET = 'GET / HTTP/1.1\r\nHost: a\r\n\r\n';

type Served = {
  app: Svc;
  clock: ManualClock;
  server: RunningServer;
  events: Record<string, unknown>[];
  connect(socket: Duplex): void;
} & AsyncDisposable;

async function serve(answer: () => unknown): Promise<Served> {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const app = new Svc({ clock, logger, sendTimeoutMs: LIMIT_MS }).get('/', answer as () => string);
  let server: RunningServer | undefined;
  const node = await serverOf(async () => {
    server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  });
  return {
    app,
    clock,
    events,
    server: server!, // run() has made it
    connect: (socket) => void node.emit('connection', socket),
    [Symbol.asyncDispose]: () => server!.close(),
  };
}

const cuts = ({ events }: Served): unknown[] => events.filter(({ event }) => event === 'slow_reader_cut');

/** A connection whose writes complete only when allow() is called. */
function stepwise(): Duplex & { allow: (() => void) | undefined; bytesWritten: number } {
  const socket: Duplex & { allow: (() => void) | undefined; bytesWritten: number } = Object.assign(
    new Duplex({
      read: () => undefined,
      write(bytes: Buffer, _encoding, done: () => void) {
        socket.bytesWritten += bytes.length;
        socket.allow = done;
      },
    }),
    {
      bytesWritten: 0,
      allow: undefined,
      setTimeout: () => socket,
      setNoDelay: () => socket,
      remoteAddress: '192.0.2.1',
    },
  );
  socket.push(GET);
  socket.resume();
  return socket;
}

test('HttpServer disconnects a client that reads nothing within the time limit, but not a client that reads one chunk within each time limit', async () => {
  await using it = await serve(
    () =>
      new StreamingResponse(
        (function* () {
          for (;;) yield SLICE;
        })(),
      ),
  );
  const socket = stepwise();
  it.connect(socket);
  while (socket.allow === undefined) await turn();
  for (let round = 0; round < 10; round++) {
    await it.clock.advance(LIMIT_MS - 1_000);
    const { allow } = socket;
    socket.allow = undefined;
    allow!();
    while (socket.allow === undefined) await turn();
  }
  assert.deepEqual(cuts(it), []);
  await it.clock.advance(LIMIT_MS + LIMIT_MS / 2);
  assert.equal(cuts(it).length, 1);
  assert.equal(socket.destroyed, true);
});

test('if a client never reads its response, HttpServer disconnects the client, logs the request, and stops the timer for unread responses', async () => {
  await using it = await serve(() => BIG);
  const client = connect(it.server.port, '127.0.0.1');
  client.pause();
  client.write('GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: slow-1\r\n\r\n');
  const before = it.clock.pending;
  while (it.clock.pending === before) await turn(); // the socket is watched
  const closed = once(
    client.on('error', () => undefined),
    'close',
  );
  for (let waited = 0; waited < 60 && cuts(it).length === 0; waited++) {
    await turn();
    await it.clock.advance(1_000);
  }
  const [cut] = cuts(it) as Record<string, unknown>[];
  assert.deepEqual([cut?.['request_id'], cut?.['method'], cut?.['peer']], ['slow-1', 'GET', '127.0.0.1']);
  client.resume();
  await closed;
  while (it.clock.pending > before) await turn();
});

test('for 80 clients that never read, HttpServer buffers only a limited part of their long responses', async () => {
  await using it = await serve(
    () =>
      new StreamingResponse(
        (function* () {
          for (let count = 0; count < 16_000_000 / SLICE.length; count++) yield Buffer.from(SLICE);
        })(),
      ),
  );
  const before = process.memoryUsage().arrayBuffers;
  const clients = Array.from({ length: 80 }, () => {
    const client = connect(it.server.port, '127.0.0.1');
    client.on('error', () => undefined).pause();
    client.write(GET);
    return client;
  });
  const inFlight = (): number => it.app.operations.inFlight();
  while (inFlight() < clients.length) await turn();
  for (let quiet = 0, last = -1; quiet < 200; quiet++) {
    // waits until no more bytes are sent, because the buffers of the kernel are full
    await turn();
    const { arrayBuffers } = process.memoryUsage();
    if (arrayBuffers !== last) quiet = 0;
    last = arrayBuffers;
  }
  const held = process.memoryUsage().arrayBuffers - before;
  assert.ok(held < 80 * 1_000_000, `${held} bytes are held`); // 1,280 MB are to be sent
  const closed = Promise.all(clients.map((client) => once(client, 'close')));
  for (let waited = 0; waited < 60 && inFlight() > 0; waited++) {
    await it.clock.advance(1_000);
    await turn();
  }
  assert.equal(cuts(it).length, clients.length);
  for (const client of clients) client.destroy();
  await closed;
});
