import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Forbidden, InternalError, Svc, createLogger } from 'svc';
import { TestClient } from 'svc/testing';
import { gateOf } from '../support/endings.ts';
import { turn } from '../support/turn.ts';
import type { TestContext } from 'node:test';

const failure = new Error('on purpose');
const isFailure = (error: unknown): boolean => error === failure;
const fail = async (): Promise<never> => {
  await turn();
  throw failure;
};

/** Returns an application whose WebSocket handlers fail. */
function failing(): Svc {
  const app = new Svc({ logger: createLogger({ level: 'silent' }) });
  app.websocket('/open').onOpen(fail);
  app.websocket('/message').onMessage((socket) => {
    socket.send('before');
    throw failure;
  });
  app.websocket('/close').onClose(fail);
  app
    .websocket('/error')
    .onMessage(() => {
      throw new Error('first');
    })
    .onError(fail);
  app.websocket('/handler', fail);
  app.websocket('/loop', async (socket) => {
    for await (const message of socket) if (message === 'fail') throw failure;
  });
  app.websocket('/forbidden', () => Promise.reject(new Forbidden('not for you')));
  app.websocket('/declared', () => Promise.reject(new InternalError('known')));
  return app;
}

for (const listen of [false, true])
  describe(`TestClient with listen: ${listen} reports errors of WebSocket handlers`, () => {
    const raising = (t: TestContext, app = failing()): TestClient => {
      const client = new TestClient(app, { listen });
      t.after(() => client.close().catch(() => undefined));
      return client;
    };

    for (const path of ['/open', '/message', '/error', '/handler', '/loop'])
      test(`if a WebSocket handler throws, receive(), closed and close() of the socket of TestClient reject with the error (route ${path})`, async (t) => {
        const client = raising(t);
        for (const call of ['receive', 'closed', 'close'] as const) {
          const socket = await client.websocket(path);
          socket.send('fail');
          if (path === '/message') assert.equal(await socket.receive(), 'before', 'messages come first');
          if (call === 'receive') await assert.rejects(socket.receive(), isFailure);
          await assert.rejects(call === 'close' ? socket.close() : socket.closed, isFailure);
          await assert.rejects(socket.receive(), isFailure);
          await socket[Symbol.asyncDispose]();
        }
        await client.close(); // throws nothing, because the test has received every error
      });

    test('if a WebSocket handler throws, a for-await loop over the socket of TestClient throws the error of the handler', async (t) => {
      const socket = await raising(t).websocket('/message');
      socket.send('a');
      const got: unknown[] = [];
      await assert.rejects(async () => {
        for await (const message of socket) got.push(message);
      }, isFailure);
      assert.deepEqual(got, ['before']);
    });

    test('if no call on a socket of TestClient has thrown the error of its WebSocket handler, disposing the socket throws the error', async (t) => {
      const client = raising(t);
      await assert.rejects(async () => {
        await using socket = await client.websocket('/loop');
        socket.send('fail');
      }, isFailure);
      await client.close();
    });

    test('if no call on a socket of TestClient has thrown the error of its WebSocket handler, TestClient.close() rejects with the error', async (t) => {
      const app = failing();
      const failed = Promise.withResolvers<void>();
      app.websocket('/unasked').onMessage(() => {
        failed.resolve();
        throw failure;
      });
      const client = raising(t, app);
      (await client.websocket('/unasked')).send('fail');
      await failed.promise;
      await assert.rejects(client.close(), isFailure);
    });

    test('if onClose throws, the next close() of the socket or of TestClient rejects with the error', async (t) => {
      const client = raising(t);
      const socket = await client.websocket('/close');
      await assert.rejects(async () => {
        await socket.close();
        await client.close();
      }, isFailure);
    });

    test('TestClient.close() does not wait for a WebSocket handler that never ends', async (t) => {
      const app = failing();
      const gate = gateOf(t);
      app.websocket('/endless', () => gate.promise);
      const client = raising(t, app);
      await client.websocket('/endless');
      await client.close();
    });

    test('a socket of TestClient reports the close code 1008 for an HTTP exception with a status below 500, and 1011 for any other error', async (t) => {
      const client = raising(t);
      assert.equal((await (await client.websocket('/forbidden')).closed).code, 1008);
      assert.equal((await (await client.websocket('/declared')).closed).code, 1011);
      await client.close();
    });

    test('if the handlers of several WebSockets throw, each socket of TestClient reports the error of its own handler', async (t) => {
      const app = failing();
      app.websocket('/fail/{n:int}', (_socket, { params }) =>
        Promise.reject(new Error(`number ${params.n}`)),
      );
      const client = raising(t, app);
      app.websocket('/fine').onMessage(() => undefined);
      const paths = ['/fail/1', '/fine', '/fail/2'];
      const sockets = await Promise.all(paths.map((path) => client.websocket(path)));
      const results = await Promise.allSettled([
        sockets[0]!.closed,
        sockets[1]!.close(4000),
        sockets[2]!.closed,
      ]);
      assert.deepEqual(
        results.map((result) =>
          result.status === 'rejected' ? (result.reason as Error).message : result.value.code,
        ),
        ['number 1', 4000, 'number 2'],
      );
    });

    test('with raiseErrors: false, TestClient does not rethrow errors of WebSocket handlers', async () => {
      await using client = new TestClient(failing(), { listen, raiseErrors: false });
      for (const path of ['/open', '/message', '/error', '/handler']) {
        const socket = await client.websocket(path);
        socket.send('fail');
        assert.equal((await socket.closed).code, 1011, path);
      }
      await (await client.websocket('/close')).close();
    });
  });
