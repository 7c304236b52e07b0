/**
 * Connections of WebSockets under a server of another framework, when the application stops.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import { Svc, TextResponse } from 'svc';
import { ManualClock } from 'svc/testing';
import { collectedLog } from '../../support/collected-log.ts';
import { gateOf, soon, until } from '../../support/endings.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { HttpRequest, Next } from 'svc';
import type { IncomingMessage } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';

const HANDSHAKE =
  'Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n' +
  'Sec-WebSocket-Version: 13\r\nOrigin: http://a.example\r\n';
/** More bytes than the operating system accepts for a client that does not read. */
const LONG = 50_000_000;

describe('app.shutdown() closes the connections of WebSockets that another server has accepted', () => {
  for (const [what, path] of [
    ['a handshake that waits for a middleware', '/waits'],
    ['a refusal that the client does not read', '/refused'],
    ['an open WebSocket whose client does not answer the close frame', '/opened'],
  ] as const)
    test(what, async (t) => {
      const gate = gateOf(t);
      const clock = new ManualClock();
      const app = new Svc({ logger: collectedLog().logger, clock });
      let reached = false;
      app.use(async (_req: HttpRequest, next: Next) => {
        reached = true;
        if (path === '/waits') await gate.promise;
        return path === '/refused' ? new TextResponse('x'.repeat(LONG), { status: 403 }) : next();
      });
      app.websocket(path).onMessage(() => undefined);
      const { request, upgrade } = app.requestListener();
      const sockets: Socket[] = [];
      const server = createServer(request)
        .on('upgrade', upgrade)
        .on('connection', (socket: Socket) => void sockets.push(socket));
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const raw = await RawClient.open((server.address() as AddressInfo).port);
      t.after(async () => {
        await raw[Symbol.asyncDispose]();
        await new Promise((resolve) => server.close(resolve));
      });
      if (path === '/refused') raw.socket.pause();
      raw.get(path, HANDSHAKE);
      await until(() => reached && (path === '/waits' || (sockets[0]?.bytesWritten ?? 0) > 0));
      const closed = new Promise((resolve) => sockets[0]!.once('close', resolve));
      let isOver = false;
      const stopped = app.shutdown().then(() => (isOver = true));
      // an open WebSocket has a second to end
      await until(() => {
        void clock.advance(100);
        return isOver;
      });
      await stopped;
      await soon(closed, 'the end of the connection');
      assert.equal(sockets.length, 1);
    });
});

test('a client that resets its connection during a handshake of another server causes no uncaught error', async (t) => {
  const gate = gateOf(t);
  const app = new Svc({ logger: collectedLog().logger, clock: new ManualClock() });
  const closed = Promise.withResolvers<void>();
  app.use(async (_req: HttpRequest, next: Next) => {
    await gate.promise;
    return next();
  });
  app.websocket('/x').onMessage(() => undefined);
  const { request, upgrade } = app.requestListener();
  const begun = Promise.withResolvers<Socket>();
  const server = createServer(request).on(
    'upgrade',
    (incoming: IncomingMessage, socket: Socket, head: Buffer) => {
      upgrade(incoming, socket, head);
      socket.once('close', () => closed.resolve());
      begun.resolve(socket);
    },
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  const raw = await RawClient.open((server.address() as AddressInfo).port);
  raw.get('/x', HANDSHAKE);
  const socket = await begun.promise;
  socket.destroy(new Error('read ECONNRESET'));
  await soon(closed.promise, 'the end of the connection');
  gate.resolve();
  await app.shutdown();
  await raw[Symbol.asyncDispose]();
});
