/**
 * Inflating and deflating share the event loop with other work: counted in turns, not in milliseconds.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { deflateMessage } from '../../../src/http/websocket/deflate.ts';
import { LIMITED_SUITE, until } from '../../support/endings.ts';
import { loggedApp, messagesOf, openRaw, packet, portOf } from '../../support/raw-websocket.ts';
import { frame } from '../../support/ws-frames.ts';

const OFFER = 'permessage-deflate';
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const compressed = (text: string, opcode = 1): Buffer =>
  frame({ rsv: 4, opcode, payload: deflateMessage(Buffer.from(text), 15, 9) });

/** Counts calls of the function that it returns: all of them, and the most within one turn. */
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

/** A copy of the module of its own: sockets of other tests may still inflate. */
const { hasBudget, inThread, spend, whenBudget } = (await import(
  new URL('../../../src/http/websocket/turns.ts?own', import.meta.url).href
)) as typeof import('../../../src/http/websocket/turns.ts');

describe('the budget of a turn', LIMITED_SUITE, () => {
  test('lets work wait for later turns, in order, and overtakes none', async () => {
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

  test('runs two jobs in threads at a time, and gives the place of one that fails to the next', async () => {
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

describe('compressed messages', LIMITED_SUITE, () => {
  for (const [what, bytes, most] of [
    ['1 MB', 1_000_000, 4],
    ['60 KB', 60_000, 24],
  ] as const)
    test(`bombs: few bytes that inflate to ${what} are handled over many turns, in order`, async (t) => {
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

  test('that are long are inflated in a thread, in order with others, and a ping is answered behind them', async (t) => {
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
    test(`above maxMessageBytes of ${limit} close with 1009`, async (t) => {
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

  test('that cannot be inflated in a thread close with 1007', async (t) => {
    const { app } = loggedApp();
    app.websocket('/x', { compression: true, maxMessageBytes: 2 ** 24 }).onMessage(() => undefined);
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    raw.send(frame({ rsv: 4, payload: Buffer.alloc(2_000_000, 0xff) }));
    assert.deepEqual(messagesOf(await raw.ended()), ['CLOSE 1007 a message cannot be inflated']);
  });

  test('are not inflated behind the close frame of the server', async (t) => {
    const { app } = loggedApp();
    app
      .websocket('/x', { compression: true, maxMessageBytes: 2 ** 24 })
      .onMessage((socket) => socket.close(4000));
    const raw = await openRaw(t, await portOf(t, app), '/x', OFFER);
    const long = compressed('b'.repeat(9_000_000));
    raw.send(Buffer.concat([frame({ payload: 'a' }), long, long, packet([], 4000)]));
    assert.deepEqual(messagesOf(await raw.ended()), ['CLOSE 4000']);
  });

  test('are read no further while one is inflated, and a peer that leaves meanwhile ends the socket', async (t) => {
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
