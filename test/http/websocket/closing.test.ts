import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Field, Forbidden, Schema, ValidationError, int } from 'svc';
import { LIMITED_SUITE, until } from '../../support/endings.ts';
import { loggedApp, messagesOf, openRaw, packet, portOf } from '../../support/raw-websocket.ts';
import { closing, frame } from '../../support/ws-frames.ts';
import type { Socket } from 'svc';
import type { TestContext } from 'node:test';

type Handler = (socket: Socket) => Promise<void>;

/** Returns what a client gets that sends these bytes to a handler and answers the close frame. */
async function talk(t: TestContext, handler: Handler, bytes: Buffer): Promise<string[]> {
  const { app } = loggedApp();
  app.websocket('/x', handler);
  const raw = await openRaw(t, await portOf(t, app), '/x');
  raw.send(bytes);
  await until(() => raw.unread > 0);
  raw.send(frame({ opcode: 8, payload: closing(1000) }));
  return messagesOf(await raw.ended());
}

describe('a handler that leaves its for-await loop', LIMITED_SUITE, () => {
  test('by an error closes with 1011, and its error is logged once', async (t) => {
    const { app, lines } = loggedApp();
    app.websocket('/x', async (socket) => {
      for await (const message of socket) throw new Error(`on purpose: ${String(message)}`);
    });
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(packet(['a']));
    await until(() => raw.unread > 0);
    raw.send(packet([], 1011));
    assert.deepEqual(messagesOf(await raw.ended()), ['CLOSE 1011']);
    assert.equal(lines().filter(({ event }) => event === 'unhandled_error').length, 1);
  });

  test('by an exception that is meant for clients closes with 1008 and its text', async (t) => {
    const got = await talk(
      t,
      async (socket) => {
        for await (const _ of socket) throw new Forbidden('not for you');
      },
      packet(['a']),
    );
    assert.deepEqual(got, ['CLOSE 1008 not for you']);
  });

  test('by break has the socket until it returns', async (t) => {
    const got = await talk(
      t,
      async (socket) => {
        for await (const _ of socket) break;
        assert.ok(socket.isOpen);
        await new Promise((resolve) => setImmediate(resolve));
        socket.send('behind the loop');
      },
      packet(['a']),
    );
    assert.deepEqual(got, ['behind the loop', 'CLOSE 1000']);
  });

  test('by break may iterate again, and gets what came meanwhile', async (t) => {
    const got = await talk(
      t,
      async (socket) => {
        for await (const first of socket) {
          socket.send(`first ${String(first)}`);
          break;
        }
        await new Promise((resolve) => setImmediate(resolve));
        for await (const message of socket) {
          socket.send(`then ${String(message)}`);
          if (message === 'c') return;
        }
      },
      packet(['a', 'b', 'c']),
    );
    assert.deepEqual(got, ['first a', 'then b', 'then c', 'CLOSE 1000']);
  });

  test('by break and fails behind it closes with 1011', async (t) => {
    const got = await talk(
      t,
      async (socket) => {
        for await (const _ of socket) break;
        throw new Error('on purpose');
      },
      packet(['a']),
    );
    assert.deepEqual(got, ['CLOSE 1011']);
  });

  test('by a message that does not fit may iterate again', async (t) => {
    class Say extends Schema {
      n = Field(int);
    }
    const { app } = loggedApp();
    app.websocket('/x', { message: Say }, async (socket) => {
      while (socket.isOpen)
        try {
          for await (const { n } of socket) socket.sendJson({ n });
        } catch (error) {
          socket.send((error as Error).constructor.name);
        }
    });
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(packet(['{"n":1}', '{"n":"x"}', '{"n":2}']));
    const replies = ['{"n":1}', ValidationError.name, '{"n":2}'];
    await until(() => raw.unread >= replies.reduce((sum, { length }) => sum + 2 + length, 0));
    raw.send(packet([], 1000));
    assert.deepEqual(messagesOf(await raw.ended()), [...replies, 'CLOSE 1000']);
  });

  test('gets no message from an iterator that it has left', async (t) => {
    const results: unknown[] = [];
    const got = await talk(
      t,
      async (socket) => {
        const iterator = socket[Symbol.asyncIterator]();
        results.push(await iterator.next());
        const waiting = iterator.next();
        results.push(await iterator.return!(), await waiting, await iterator.next());
      },
      packet(['a']),
    );
    assert.deepEqual(got, ['CLOSE 1000']);
    const done = { done: true, value: undefined };
    assert.deepEqual(results, [{ done: false, value: 'a' }, done, done, done]);
  });
});

test('the loop of an onOpen listener closes with 1011 by an error, and leaves the socket open by break', async (t) => {
  const { app } = loggedApp();
  app.websocket('/x').onOpen(async (socket) => {
    for await (const message of socket) {
      if (message === 'fail') throw new Error('on purpose');
      break;
    }
    socket.send('open');
  });
  const port = await portOf(t, app);
  const [failing, staying] = [await openRaw(t, port, '/x'), await openRaw(t, port, '/x')];
  failing.send(packet(['fail']));
  staying.send(packet(['stay']));
  await until(() => failing.unread > 0 && staying.unread >= 6);
  failing.send(packet([], 1011));
  staying.send(packet([], 4000, 'enough'));
  assert.deepEqual(messagesOf(await failing.ended()), ['CLOSE 1011']);
  assert.deepEqual(messagesOf(await staying.ended()), ['open', 'CLOSE 4000 enough']);
});

for (const [what, payload, expected] of [
  ['a code and a reason', closing(4321, 'enough 😀'), 'CLOSE 4321 enough 😀'],
  ['the longest reason', closing(1000, 'r'.repeat(123)), `CLOSE 1000 ${'r'.repeat(123)}`],
  ['a code alone', closing(1001), 'CLOSE 1001'],
  ['nothing', Buffer.alloc(0), 'CLOSE 1005'],
] as const)
  test(`a close frame with ${what} is echoed (RFC 6455 §5.5.1)`, async (t) => {
    const { app } = loggedApp();
    app.websocket('/x').onMessage(() => undefined);
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(frame({ opcode: 8, payload }));
    assert.deepEqual(messagesOf(await raw.ended()), [expected]);
  });
