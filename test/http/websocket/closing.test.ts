import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BadRequest, Field, Forbidden, HTTPException, Schema, ValidationError, int } from 'svc';
import { ManualClock, TestClient } from 'svc/testing';
import { closeFor } from '../../../src/http/websocket/closing.ts';
import { gateOf, until } from '../../support/endings.ts';
import { loggedApp, messagesOf, openRaw, packet, portOf } from '../../support/raw-websocket.ts';
import { closing, frame } from '../../support/ws-frames.ts';
import type { Socket, Svc, WebSocketClose } from 'svc';
import type { TestContext } from 'node:test';

type Handler = (socket: Socket) => Promise<void>;

/** Returns the bytes that a client gets when it sends these bytes to a handler and answers the close frame. */
async function talk(t: TestContext, handler: Handler, bytes: Buffer): Promise<string[]> {
  const { app } = loggedApp();
  app.websocket('/x', handler);
  const raw = await openRaw(t, await portOf(t, app), '/x');
  raw.send(bytes);
  await until(() => raw.unread > 0);
  raw.send(frame({ opcode: 8, payload: closing(1000) }));
  return messagesOf(await raw.ended());
}

describe('a WebSocket handler may leave its for-await loop early', () => {
  test('if the for-await loop of a WebSocket throws an error, the WebSocket closes with 1011, and the error is logged once', async (t) => {
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

  test('if the for-await loop of a WebSocket throws an HTTP exception, the WebSocket closes with 1008 and the text of the exception', async (t) => {
    const got = await talk(
      t,
      async (socket) => {
        for await (const _ of socket) throw new Forbidden('not for you');
      },
      packet(['a']),
    );
    assert.deepEqual(got, ['CLOSE 1008 not for you']);
  });

  test('after a break in its for-await loop, a WebSocket stays open until the handler returns', async (t) => {
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

  test('after a break, a WebSocket handler may start a second for-await loop, and receives the messages that arrived since the break', async (t) => {
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

  test('if a WebSocket handler throws after a break in its for-await loop, the WebSocket closes with 1011', async (t) => {
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

  test('after an invalid message has ended a for-await loop, a WebSocket handler may start a second loop', async (t) => {
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

  test('a WebSocket iterator yields no more messages after return() was called on it', async (t) => {
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

test('if a for-await loop in an onOpen listener throws, the WebSocket closes with 1011', async (t) => {
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
  ['a code without a reason', closing(1001), 'CLOSE 1001'],
  ['nothing', Buffer.alloc(0), 'CLOSE 1005'],
] as const)
  test(`a WebSocket close frame is answered with an equal close frame (RFC 6455 §5.5.1): ${what}`, async (t) => {
    const { app } = loggedApp();
    app.websocket('/x').onMessage(() => undefined);
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(frame({ opcode: 8, payload }));
    assert.deepEqual(messagesOf(await raw.ended()), [expected]);
  });

describe('a WebSocket client may send messages and a close frame in one packet', () => {
  const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
  const CLOSED = 'CLOSE 4000 enough';
  const bytes = packet(['a', 'b', 'c'], 4000, 'enough');

  for (const [what, declare] of [
    [
      'asynchronous listener',
      (app: Svc) =>
        app.websocket('/x').onMessage(async (socket, message) => {
          await turn();
          assert.ok(socket.isOpen);
          assert.equal(socket.send(`re ${String(message)}`), true);
        }),
    ],
    [
      'listener behind a slow onOpen',
      (app: Svc) =>
        app
          .websocket('/x')
          .onOpen(turn)
          .onMessage((socket, message) => socket.sendJson(`re ${String(message)}`)),
    ],
    [
      'for-await loop',
      (app: Svc) =>
        app.websocket('/x', async (socket) => {
          await turn();
          for await (const message of socket) {
            await turn();
            socket.send(`re ${String(message)}`);
          }
        }),
    ],
    [
      'loop of its own that onOpen starts',
      (app: Svc) =>
        app.websocket('/x').onOpen((socket) => {
          void (async () => {
            for await (const message of socket) {
              await turn();
              socket.send(`re ${String(message)}`);
            }
          })();
        }),
    ],
    [
      'handler that replies behind its loop',
      (app: Svc) =>
        app.websocket('/x', async (socket) => {
          const all: unknown[] = [];
          for await (const message of socket) if (all.push(message) === 3) break;
          await turn();
          for (const message of all) socket.send(`re ${String(message)}`);
        }),
    ],
    [
      'onError listener that replies',
      (app: Svc) =>
        app
          .websocket('/x')
          .onMessage((_socket, message) => {
            throw new Error(`re ${String(message)}`);
          })
          .onError(async (socket, error) => {
            await turn();
            socket.send((error as Error).message);
          }),
    ],
  ] as const)
    test(`a client that sends messages and a close frame in one packet receives all replies before the close frame (${what})`, async (t) => {
      const { app } = loggedApp();
      declare(app);
      const raw = await openRaw(t, await portOf(t, app), '/x');
      raw.send(bytes);
      const got = messagesOf(await raw.ended()).map((text) => text.replaceAll('"', ''));
      assert.deepEqual(got, ['re a', 're b', 're c', CLOSED]);
    });

  test('a WebSocket client receives all replies before the close frame, even if they are larger than the buffer of the socket', async (t) => {
    const { app } = loggedApp();
    app
      .websocket('/x', { maxBufferedBytes: 2 ** 26 })
      .onMessage((socket, message) => socket.send(String(message).repeat(3_000_000)));
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(bytes);
    const got = messagesOf(await raw.ended());
    assert.deepEqual(
      got.map((text) => [text[0], text.length]),
      [...'abc'].map((letter): unknown[] => [letter, 3_000_000]).concat([['C', CLOSED.length]]),
    );
  });

  test('a WebSocket client receives its replies before the close frame, even if it has half-closed its connection', async (t) => {
    const { app } = loggedApp();
    const closes: WebSocketClose[] = [];
    app
      .websocket('/x')
      .onMessage(async (socket, message) => {
        await turn();
        socket.send(`re ${String(message)}`);
      })
      .onClose((_socket, close) => void closes.push(close));
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(bytes).socket.end();
    assert.deepEqual(messagesOf(await raw.ended()), ['re a', 're b', 're c', CLOSED]);
    assert.deepEqual(closes, [{ code: 4000, reason: 'enough', wasClean: true }]);
  });

  test('a WebSocket client receives its own close code, even if the handler throws or closes with another code', async (t) => {
    const { app } = loggedApp();
    app.websocket('/x').onMessage(async (socket, message) => {
      await turn();
      if (message === 'b') socket.close(4444, 'of the handler');
      assert.equal(socket.send(`re ${String(message)}`), message === 'a');
      if (message === 'b') throw new Error('on purpose');
    });
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(bytes);
    assert.deepEqual(messagesOf(await raw.ended()), ['re a', CLOSED]);
  });

  test('a running WebSocket handler does not delay the close frame if no message waits to be handled', async (t) => {
    const { app } = loggedApp();
    const gate = gateOf(t);
    app.websocket('/x', async (socket, { signal }) => {
      socket.send('open');
      await Promise.race([gate.promise, new Promise((resolve) => signal.addEventListener('abort', resolve))]);
    });
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(packet([], 4000, 'enough'));
    assert.deepEqual(messagesOf(await raw.ended()), ['open', CLOSED]);
  });

  test('after a close frame, a WebSocket waits at most closeTimeoutMs for the replies of its handler', async (t) => {
    const { app } = loggedApp();
    const clock = new ManualClock();
    const gate = gateOf(t);
    const sent: unknown[] = [];
    const closed = Promise.withResolvers<void>();
    app
      .websocket('/x', { closeTimeoutMs: 3_000 })
      .onMessage(async (socket, message) => {
        sent.push(socket.send(`at once ${String(message)}`));
        await gate.promise;
        sent.push([socket.isOpen, socket.send('late'), socket.sendJson('late')]);
      })
      .onClose(() => closed.resolve());
    const client = new TestClient(app, { clock });
    t.after(() => client.close());
    const socket = await client.websocket('/x');
    socket.send('a');
    const end = socket.close(4000, 'enough');
    assert.equal(await socket.receive(), 'at once a');
    clock.advance(2_999);
    assert.equal(await Promise.race([end, turn().then(turn)]), undefined);
    clock.advance(1);
    assert.deepEqual(await end, { code: 4000, reason: 'enough', wasClean: true });
    gate.resolve();
    await closed.promise;
    assert.deepEqual(sent, [true, [false, false, false]]);
  });

  test('if a WebSocket client leaves before the server sends a close frame, the close code of the client is reported', async (t) => {
    const { app } = loggedApp();
    const gate = gateOf(t);
    const handling = Promise.withResolvers<void>();
    const closed = Promise.withResolvers<WebSocketClose>();
    app
      .websocket('/x')
      .onMessage(() => {
        handling.resolve();
        return gate.promise;
      })
      .onClose((_socket, close) => closed.resolve(close));
    const raw = await openRaw(t, await portOf(t, app), '/x');
    raw.send(packet(['a'], 4000, 'enough'));
    await handling.promise;
    raw.socket.resetAndDestroy();
    gate.resolve();
    const { code, reason } = await closed.promise;
    assert.deepEqual([code, reason], [4000, 'enough']);
  });
});

test('if a WebSocket client sends a close frame and does not read, the client is disconnected after closeTimeoutMs', async (t) => {
  const { app } = loggedApp();
  const closed = Promise.withResolvers<void>();
  app
    .websocket('/x', { maxBufferedBytes: 2 ** 26, closeTimeoutMs: 50 })
    .onMessage((socket) => socket.send(Buffer.alloc(14_000_000)))
    .onClose(() => closed.resolve());
  const port = await portOf(t, app);
  const raw = await openRaw(t, port, '/x');
  raw.socket.pause();
  raw.send(packet(['a', 'b'], 1000));
  await closed.promise;
  await until(() => app.operations.inFlight() === 0);
});

test('send() and sendJson() of a WebSocket return true before the handler closes it, and false afterwards', async (t) => {
  const { app } = loggedApp();
  const sent: unknown[] = [];
  app.websocket('/x').onOpen((socket) => {
    sent.push(socket.send('a'), socket.sendJson('b'));
    socket.close();
    sent.push(socket.send('c'), socket.sendJson('d'), socket.send(Buffer.alloc(1)));
  });
  const raw = await openRaw(t, await portOf(t, app), '/x');
  await until(() => raw.unread > 0);
  raw.send(packet([], 1000));
  assert.deepEqual(messagesOf(await raw.ended()), ['a', '"b"', 'CLOSE 1000']);
  assert.deepEqual(sent, [true, true, false, false, false]);
});

test('if slowConsumer: "disconnect" closes a WebSocket, send() returns false', async (t) => {
  const { app } = loggedApp();
  const result = Promise.withResolvers<boolean[]>();
  app.websocket('/x', { maxBufferedBytes: 65_536, closeTimeoutMs: 50 }).onOpen((socket) => {
    const sent = [1, 2, 3, 4].map(() => socket.send(Buffer.alloc(20_000_000)));
    result.resolve(sent);
  });
  const raw = await openRaw(t, await portOf(t, app), '/x');
  raw.socket.pause();
  const sent = await result.promise;
  assert.equal(sent[0], true);
  assert.equal(sent.at(-1), false);
});

test('an error of a WebSocket handler gives the close code of its status, and a reason only below status 500', () => {
  const issue = { code: 'int', loc: ['message', 'n'], message: 'must be an integer' } as const;
  for (const [error, code, reason] of [
    [new BadRequest('no'), 1007, 'no'],
    [new ValidationError([issue, { ...issue, loc: ['message', 'm'] }]), 1007, 'message.n must be an integer'],
    [new HTTPException(415, 'text only'), 1003, 'text only'],
    [new Forbidden('not you'), 1008, 'not you'],
    [new HTTPException(499, 'late'), 1008, 'late'],
    [new HTTPException(500, 'secret'), 1011, ''],
    [new HTTPException(503, 'secret'), 1011, ''],
    [new Error('secret'), 1011, ''],
    [undefined, 1011, ''],
  ] as const)
    assert.deepEqual(closeFor(error), { code, reason }, String(error));
});
