import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { StreamingResponse } from '../../../src/http/response.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { USES_INTERNALS } from '../../../src/http/server/fast-path/internals.ts';
import type { Socket } from 'node:net';

/**
 * Reason to skip: without `httpAllowHalfOpen` node:http closes the server's side of a half-closed connection,
 * too.
 */
const skip = USES_INTERNALS ? false : 'SVC_NODE_INTERNALS=off';

/** An application whose handlers wait until they are released. */
async function serve(): Promise<
  { port: number; entered(): Promise<AbortSignal>; release(): void } & AsyncDisposable
> {
  const signals = Promise.withResolvers<AbortSignal>();
  const gate = Promise.withResolvers<void>();
  const app = new Svc({ logger: collectedLog().logger })
    .get('/', async ({ signal }) => {
      signals.resolve(signal);
      await Promise.race([gate.promise, once(signal, 'abort')]);
      return 'done';
    })
    .get(
      '/pieces',
      ({ signal }) =>
        new StreamingResponse(
          (async function* (): AsyncGenerator<string> {
            yield 'begun';
            signals.resolve(signal);
            await once(signal, 'abort');
          })(),
        ),
    );
  const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  return { port, entered: () => signals.promise, release: gate.resolve, [Symbol.asyncDispose]: close };
}

async function open(port: number): Promise<Socket> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  await once(socket, 'connect');
  return socket;
}

const get = (path: string, version = '1.1'): string => `GET ${path} HTTP/${version}\r\nHost: a\r\n\r\n`;

test(
  'if a client half-closes its connection, HttpServer aborts the signal of the request and still sends the response',
  { skip },
  async () => {
    await using it = await serve();
    await using client = await RawClient.open(it.port);
    client.send(get('/')).socket.end();
    const signal = await it.entered();
    const answer = await client.answer();
    assert.deepEqual([answer.status, answer.text(), signal.aborted], [200, 'done', true]);
    await client.ended();
  },
);

test('if a client has half-closed its connection and would get a chunked response, HttpServer cuts the connection', async () => {
  const [entered, gate] = [Promise.withResolvers<AbortSignal>(), Promise.withResolvers<void>()];
  const app = new Svc({ logger: collectedLog().logger }).get('/', async ({ signal }) => {
    entered.resolve(signal);
    await gate.promise;
    return new StreamingResponse(['one', 'two']);
  });
  const server = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  await using _server = { [Symbol.asyncDispose]: server.close };
  await using client = await RawClient.open(server.port);
  client.send(get('/')).socket.end();
  const signal = await entered.promise;
  if (!signal.aborted) await once(signal, 'abort');
  gate.resolve();
  assert.equal((await client.ended()).length, 0);
});

test(
  'HttpServer answers all requests that a client has pipelined before it half-closes the connection',
  { skip },
  async () => {
    await using it = await serve();
    await using client = await RawClient.open(it.port);
    client.send(get('/') + get('/none') + get('/')).socket.end();
    await it.entered();
    assert.deepEqual(
      [(await client.answer()).status, (await client.answer()).status, (await client.answer()).status],
      [200, 404, 200],
    );
    await client.ended();
  },
);

test('HttpServer aborts the signal of a request when the client leaves before or during the response', async () => {
  for (const path of ['/', '/pieces']) {
    await using it = await serve();
    const socket = await open(it.port);
    socket.write(get(path));
    const signal = await it.entered();
    socket.destroy();
    if (!signal.aborted) await once(signal, 'abort');
  }
});

test('if an HTTP/1.0 client half-closes its connection, HttpServer aborts the signal of the request', async () => {
  await using it = await serve();
  const socket = await open(it.port);
  socket.write(get('/', '1.0'));
  const signal = await it.entered();
  socket.end();
  if (!signal.aborted) await once(signal, 'abort');
  socket.destroy();
});

test('if a client half-closes a connection before its first request or after a response, HttpServer closes the connection', async () => {
  await using it = await serve();
  await using silent = await RawClient.open(it.port);
  await using used = await RawClient.open(it.port);
  assert.equal((await used.send(get('/none')).answer()).status, 404);
  for (const client of [silent, used]) {
    client.socket.end();
    assert.equal((await client.ended()).length, 0);
  }
});

test('if a client half-closes its connection during the body and still reads, HttpServer answers 400 or 405', async () => {
  await using it = await serve();
  await using client = await RawClient.open(it.port);
  client.send('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc').socket.end();
  assert.ok([400, 405].includes((await client.answer()).status));
  await client.ended();
});
