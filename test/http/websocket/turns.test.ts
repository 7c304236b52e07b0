/**
 * Inflating and deflating share the event loop with other work: measured in turns, not in milliseconds.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { describe, test } from 'node:test';
import { Svc } from 'svc';
import { deflateMessage } from '../../../src/http/websocket/deflate.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { ComputingClock } from '../../support/computing-clock.ts';
import { until } from '../../support/endings.ts';
import { RawClient } from '../../support/raw-http.ts';
import { loggedApp, messagesOf, openRaw, packet, portOf } from '../../support/raw-websocket.ts';
import { frame } from '../../support/ws-frames.ts';
import { turn } from '../../support/turn.ts';

const OFFER = 'permessage-deflate';
const compressed = (text: string, opcode = 1): Buffer =>
  frame({ rsv: 4, opcode, payload: deflateMessage(Buffer.from(text), 15, 9) });

/** Counts calls of the returned function: in total, and the maximum within one turn. */
function countTurns(): { readonly count: () => void; all: number; most: number } {
  let inTurn = 0;
  const counts = {
    all: 0,
    most: 0,
    count: (): void => {
      if (inTurn === 0) setImmediate(() => (inTurn = 0));
      counts.all++;
      counts.most = Math.max(counts.most, ++inTurn);
    },
  };
  return counts;
}

/** The module in a copy of its own, because sockets of other tests may still inflate messages. */
const { hasBudget, inThread, spend, whenBudget } = (await import(
  new URL('../../../src/http/websocket/turns.ts?own', import.meta.url).href
)) as typeof import('../../../src/http/websocket/turns.ts');

describe('WebSocket work in one turn of the event loop is limited by a budget', () => {
  test('if the budget for one turn of the event loop is spent, whenBudget() runs further work in later turns, in order', async () => {
    await turn();
    assert.ok(hasBudget());
    spend(2 ** 20);
    assert.equal(hasBudget(), false);
    const done: [name: string, turn: number][] = [];
    let now = 0;
    for (const name of ['a', 'b', 'c'])
      whenBudget(() => {
        done.push([name, now]);
        spend(2 ** 20);
      });
    for (now = 1; now <= 4; now++) await turn();
    assert.deepEqual(
      done.map(([name]) => name),
      ['a', 'b', 'c'],
    );
    assert.equal(new Set(done.map(([, at]) => at)).size, 3, 'one in each turn');
    await turn();
    assert.ok(hasBudget());
  });

  test('inThread() runs two jobs at a time, and starts the next job when one fails', async () => {
    const gates = Array.from({ length: 4 }, () => Promise.withResolvers<number>());
    const begun: number[] = [];
    const jobs = gates.map(({ promise }, index) =>
      inThread(() => {
        begun.push(index);
        return promise;
      }),
    );
    const ended = Promise.allSettled(jobs);
    await turn();
    assert.deepEqual(begun, [0, 1]);
    gates[1]!.reject(new Error('on purpose'));
    await turn();
    assert.deepEqual(begun, [0, 1, 2]);
    for (const [index, { resolve }] of gates.entries()) resolve(index);
    assert.deepEqual(
      (await ended).map((result) => (result.status === 'fulfilled' ? result.value : 'failed')),
      [0, 'failed', 2, 3],
    );
  });
});

describe('compressed messages', () => {
  for (const [what, bytes, most] of [
    ['1 MB', 1_000_000, 4],
    ['60 KB', 60_000, 24],
  ] as const)
    test(`small compressed messages that inflate to long messages are handled in order over many turns of the event loop (${what})`, async (t) => {
      const { app } = loggedApp();
      const counts = countTurns();
      app.websocket('/x', { compression: true }).onMessage((socket, message) => {
        counts.count();
        socket.send(String(message).slice(-3));
      });
      const port = await portOf(t, app);
      const raws = await Promise.all([1, 2, 3].map(() => openRaw(t, port, '/x', OFFER)));
      const messages = Array.from({ length: 30 }, (_, index) =>
        `${index}`.padStart(3, '.').padStart(bytes, '*'),
      );
      const sent = Buffer.concat([...messages.map((text) => compressed(text)), packet([], 1000)]);
      for (const raw of raws) raw.send(sent);
      for (const raw of raws)
        assert.deepEqual(messagesOf(await raw.ended()), [
          ...messages.map((text) => text.slice(-3)),
          'CLOSE 1000',
        ]);
      assert.equal(counts.all, 90);
      assert.ok(counts.most <= most, `${counts.most} messages in one turn`);
    });

  test('WebSocket messages that are inflated in a thread stay in order with short messages and pings', async (t) => {
    const { app } = loggedApp();
    const got: unknown[] = [];
    app
      .websocket('/x', { compression: { contextTakeover: true }, maxMessageBytes: 2 ** 24 })
      .onMessage((_socket, message) => void got.push(typeof message === 'string' ? message.length : message));
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    raw.send(
      Buffer.concat([
        frame({ payload: 'a' }),
        compressed('b'.repeat(9_000_000)),
        frame({ opcode: 9, payload: 'ping' }),
        compressed('c'.repeat(3_000_000)),
        frame({ payload: 'dd' }),
        packet([], 1000),
      ]),
    );
    assert.deepEqual((await raw.ended()).subarray(0, 6), Buffer.from('8a0470696e67', 'hex').subarray(0, 6));
    assert.deepEqual(got, [1, 9_000_000, 3_000_000, 2]);
  });

  for (const limit of [100_000, 4_000_000])
    test(`if a WebSocket message inflates to more than maxMessageBytes (${limit}), the WebSocket closes with 1009`, async (t) => {
      const { app } = loggedApp();
      app
        .websocket('/x', { compression: true, maxMessageBytes: limit })
        .onMessage((socket, message) => socket.send(`${message.length}`));
      const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
      raw.send(Buffer.concat([compressed('a'.repeat(limit)), compressed('a'.repeat(limit + 1))]));
      const [first, last, ...none] = messagesOf(await raw.ended());
      assert.equal(first, String(limit));
      assert.match(last!, /^CLOSE 1009 /);
      assert.deepEqual(none, []);
    });

  test('if a WebSocket message cannot be inflated in a thread, the WebSocket closes with 1007', async (t) => {
    const { app } = loggedApp();
    app.websocket('/x', { compression: true, maxMessageBytes: 2 ** 24 }).onMessage(() => undefined);
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    raw.send(frame({ rsv: 4, payload: Buffer.alloc(2_000_000, 0xff) }));
    assert.deepEqual(messagesOf(await raw.ended()), ['CLOSE 1007 a message cannot be inflated']);
  });

  test('if long compressed messages follow after the server has closed a WebSocket, the client receives only the close frame', async (t) => {
    const { app } = loggedApp();
    app
      .websocket('/x', { compression: true, maxMessageBytes: 2 ** 24 })
      .onMessage((socket) => socket.close(4000));
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    const long = compressed('b'.repeat(9_000_000));
    raw.send(Buffer.concat([frame({ payload: 'a' }), long, long, packet([], 4000)]));
    assert.deepEqual(messagesOf(await raw.ended()), ['CLOSE 4000']);
  });

  test('if a client leaves while its message is inflated, the WebSocket closes with 1006', async (t) => {
    const { app } = loggedApp();
    const closes: number[] = [];
    const open = Promise.withResolvers<void>();
    app
      .websocket('/x', { compression: true, maxMessageBytes: 2 ** 26 })
      .onOpen(() => open.resolve())
      .onMessage(() => undefined)
      .onClose((_socket, { code }) => void closes.push(code));
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    raw.send(compressed('b'.repeat(60_000_000)));
    await open.promise;
    raw.socket.resetAndDestroy();
    await until(() => closes.length === 1);
    assert.deepEqual(closes, [1006]);
    await until(() => app.operations.inFlight() === 0);
  });
});

describe('long WebSocket messages are deflated outside of the event loop', () => {
  test('while long WebSocket messages are deflated in a thread, the server answers other requests', async (t) => {
    const { app } = loggedApp();
    let handled = 0;
    app.websocket('/x', { compression: true }).onMessage((socket, message) => {
      handled++;
      socket.send(message);
    });
    app.get('/', () => String(handled));
    const port = await portOf(t, app);
    const count = 40;
    const zeros = compressed('0'.repeat(1_000_000));
    const raws = await Promise.all(Array.from({ length: 10 }, () => openRaw(t, port, '/x', OFFER)));
    await using other = await RawClient.open(port);
    const sent = Buffer.concat([...Array<Buffer>(count).fill(zeros), packet([], 1000)]);
    for (const raw of raws) raw.send(sent);
    await until(() => handled > 0);
    const answer = Number((await other.get('/').answer()).text());
    assert.ok(answer < (raws.length * count) / 4, `${answer} messages were handled first`);
    for (const raw of raws) {
      const messages = messagesOf(await raw.ended());
      assert.deepEqual([messages.length, messages.at(-1)], [count + 1, 'CLOSE 1000']);
      assert.ok(messages.slice(0, -1).every((message) => message.length === 1_000_000));
    }
  });

  for (const contextTakeover of [false, true])
    test(`long and short WebSocket messages are sent in order (contextTakeover: ${contextTakeover})`, async (t) => {
      const { app } = loggedApp();
      const texts = Array.from({ length: 12 }, (_, index) =>
        `${index} `.repeat([10, 1_000, 200_000][index % 3]!),
      );
      const noise = randomBytes(300_000); // no smaller when it is deflated
      app
        .websocket('/x', { compression: { contextTakeover }, maxBufferedBytes: 2 ** 24 })
        .onOpen((socket) => {
          for (const text of texts) socket.send(text);
          socket.send(noise);
          socket.send('last');
          socket.close(4000, 'done');
        });
      const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
      const bytes = raw.ended();
      await until(() => raw.unread > 0);
      raw.send(packet([], 4000, 'done'));
      assert.deepEqual(messagesOf(await bytes), [...texts, '300000 bytes', 'last', 'CLOSE 4000 done']);
    });

  test('while long WebSocket messages are deflated, they do not trigger slowConsumer, and drain() waits for them', async (t) => {
    const { app, lines } = loggedApp();
    const drained = Promise.withResolvers<number>();
    app
      .websocket('/x', { compression: true, maxBufferedBytes: 65_536, slowConsumer: 'disconnect' })
      .onOpen(async (socket) => {
        for (let index = 0; index < 5; index++) socket.send('x'.repeat(1_000_000));
        assert.ok(socket.bufferedAmount >= 5_000_000);
        await socket.drain();
        drained.resolve(socket.bufferedAmount);
        socket.close(4000);
      });
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    assert.ok((await drained.promise) < 65_536);
    raw.send(packet([], 4000));
    const messages = messagesOf(await raw.ended());
    assert.deepEqual([messages.length, messages.at(-1)], [6, 'CLOSE 4000']);
    assert.ok(lines().every(({ event }) => event !== 'websocket_slow_consumer'));
  });

  test('if a client leaves while long messages are deflated for it, the WebSocket closes with 1006', async (t) => {
    const { app } = loggedApp();
    const closes: number[] = [];
    const sent = Promise.withResolvers<void>();
    app
      .websocket('/x', { compression: true })
      .onOpen((socket) => {
        for (let index = 0; index < 5; index++) socket.send('x'.repeat(3_000_000));
        sent.resolve();
      })
      .onClose((_socket, { code }) => void closes.push(code));
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    await sent.promise;
    raw.socket.resetAndDestroy();
    await until(() => closes.length === 1);
    assert.deepEqual(closes, [1006]);
  });
});

test('a long message to a room is deflated once for all its sockets, and sent in order with other messages', async (t) => {
  const { app } = loggedApp();
  let joined = 0;
  app.websocket('/x', { compression: true }).onOpen((socket) => {
    socket.join('room');
    joined++;
  });
  const port = await portOf(t, app);
  const raws = await Promise.all([1, 2, 3, 4, 5].map(() => openRaw(t, port, '/x', OFFER)));
  const received = raws.map((raw) => {
    const chunks: Buffer[] = [];
    raw.socket.on('data', (chunk: Buffer) => void chunks.push(chunk));
    return chunks;
  });
  await until(() => joined === 5);
  const long = 'long '.repeat(100_000);
  for (const message of ['first', long, 'second', long]) app.rooms.broadcast('room', message);
  for (const [index, raw] of raws.entries()) {
    await until(() => messagesOf(Buffer.concat(received[index]!)).length === 4);
    raw.send(packet([], 1000));
    assert.deepEqual(messagesOf(await raw.ended()), ['first', long, 'second', long, 'CLOSE 1000']);
  }
});

test('while handlers of many messages in one packet compute, other work gets a turn of the event loop after each 10 ms', async () => {
  const clock = new ComputingClock();
  const app = new Svc({ logger: collectedLog().logger, clock });
  const MESSAGES = 200;
  const compute = (message: unknown): boolean => {
    clock.compute(4);
    return message === 'last';
  };
  const over = { done: (): void => undefined };
  app
    .websocket('/called', { allowMissingOrigin: true })
    .onMessage((_socket, message) => (compute(message) ? over.done() : undefined));
  app
    .websocket('/awaited', { allowMissingOrigin: true })
    .onMessage(async (_socket, message) => (compute(message) ? over.done() : undefined));
  app.websocket('/read', { allowMissingOrigin: true }, async (socket) => {
    for await (const message of socket) if (compute(message)) over.done();
  });
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  using _counting = clock.counting();
  try {
    for (const path of ['/called', '/awaited', '/read']) {
      const all = new Promise<void>((resolve) => {
        over.done = resolve;
      });
      await using client = await RawClient.open(server.port);
      client.send(
        `GET ${path} HTTP/1.1\r\nHost: a.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
          'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n',
      );
      assert.equal((await client.answer()).status, 101);
      clock.most = 0;
      client.send(packet([...Array.from({ length: MESSAGES }, () => 'x'), 'last']));
      await all;
      assert.ok(clock.most >= 1 && clock.most <= 5, `${path}: ${clock.most} messages in one turn`);
      client.socket.destroy();
    }
  } finally {
    await server.close();
  }
});
