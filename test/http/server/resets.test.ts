/**
 * Clients that reset the connection after the whole request has arrived, and before the handler reads its body.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { ClientDisconnected, Field, Schema, Svc, str } from '../../../src/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { HttpRequest } from '../../../src/index.ts';

class Note extends Schema {
  text = Field(str);
}

const JSON_TYPE = 'application/json';
const URLENCODED = 'application/x-www-form-urlencoded';
const MULTIPART = 'multipart/form-data; boundary=b';
const PARTS = '--b\r\nContent-Disposition: form-data; name="text"\r\n\r\nwhole\r\n--b--\r\n';

async function joined(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = [];
  for await (const chunk of chunks) all.push(chunk);
  return Buffer.concat(all).toString();
}

async function partsOf(req: HttpRequest): Promise<string> {
  let text = '';
  for await (const part of req.parts()) text += await part.text();
  return text;
}

/** Resolves when the client of a request has left. */
async function left(req: HttpRequest): Promise<void> {
  if (!req.signal.aborted) await once(req.signal, 'abort');
  assert.ok(req.signal.reason instanceof ClientDisconnected);
}

/** Sends a request with `body`, and resets the connection as soon as the route has begun. */
async function sent(
  app: Svc,
  begun: Promise<void>,
  type: string,
  body: string,
  encoding: string,
): Promise<void> {
  const server = await app.run({ port: 0, handleSignals: false });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  const content = encoding === 'chunked' ? `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n` : body;
  const framing = encoding === 'chunked' ? 'Transfer-Encoding: chunked' : `Content-Length: ${body.length}`;
  socket.write(`POST / HTTP/1.1\r\nHost: a\r\nContent-Type: ${type}\r\n${framing}\r\n\r\n${content}`);
  await begun;
  socket.resetAndDestroy();
  await server.close();
}

const READERS: readonly (readonly [
  how: string,
  type: string,
  body: string,
  expected: unknown,
  read: (req: HttpRequest) => Promise<unknown>,
])[] = [
  ['json()', JSON_TYPE, '{"text":"whole"}', { text: 'whole' }, (req) => req.json()],
  ['text()', JSON_TYPE, 'whole', 'whole', (req) => req.text()],
  ['body()', JSON_TYPE, 'whole', 'whole', async (req) => Buffer.from(await req.body()).toString()],
  ['stream()', JSON_TYPE, 'whole', 'whole', (req) => joined(req.stream())],
  ['form(), urlencoded', URLENCODED, 'text=whole', 'whole', async (req) => (await req.form()).get('text')],
  ['form(), multipart', MULTIPART, PARTS, 'whole', async (req) => (await req.form()).get('text')],
  ['parts()', MULTIPART, PARTS, 'whole', partsOf],
  [
    'leadingFields(), then form()',
    MULTIPART,
    PARTS,
    ['whole', 'whole'],
    async (req) => [(await req.leadingFields()).get('text'), (await req.form()).get('text')],
  ],
];

for (const encoding of ['length', 'chunked'])
  for (const [how, type, body, expected, read] of READERS)
    test(`a body that arrived completely can be read after the client has reset the connection (${how}, ${encoding})`, async () => {
      const begun = Promise.withResolvers<void>();
      const result = Promise.withResolvers<unknown>();
      const app = new Svc({ logger: collectedLog().logger });
      app.post('/', async ({ req }) => {
        setImmediate(begun.resolve);
        await left(req);
        result.resolve(read(req));
        return await result.promise.then(() => 'read');
      });
      await sent(app, begun.promise, type, body, encoding);
      assert.deepEqual(await result.promise, expected);
    });

for (const [what, type, body] of [
  ['body', JSON_TYPE, '{"text":"whole"}'],
  ['form', URLENCODED, 'text=whole'],
  ['form', MULTIPART, PARTS],
] as const)
  test(`a declared ${what} of type ${type} that arrived completely is validated after the client has reset the connection during a middleware`, async () => {
    const begun = Promise.withResolvers<void>();
    const result = Promise.withResolvers<unknown>();
    const app = new Svc({ logger: collectedLog().logger });
    app.use(async (req, next) => {
      setImmediate(begun.resolve);
      await left(req);
      const response = await next();
      result.reject(new Error(`the handler was not called: ${response.status}`));
      return response;
    });
    if (what === 'body') app.post('/', { body: Note }, (context) => result.resolve(context.body.text));
    else app.post('/', { form: Note }, (context) => result.resolve(context.form.text));
    await sent(app, begun.promise, type, body, 'length');
    assert.equal(await result.promise, 'whole');
  });

test('a stream whose reading has begun yields the bytes that had arrived before the client reset the connection', async () => {
  const begun = Promise.withResolvers<void>();
  const result = Promise.withResolvers<string>();
  const app = new Svc({ logger: collectedLog().logger });
  app.post('/', async ({ req }) => {
    let text = '';
    try {
      for await (const chunk of req.stream()) {
        text += Buffer.from(chunk).toString();
        if (text.length > 3) continue;
        begun.resolve();
        await left(req);
      }
      result.resolve(text);
    } catch (error) {
      result.reject(error);
    }
    return 'read';
  });
  const server = await app.run({ port: 0, handleSignals: false });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write(
    'POST / HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n',
  );
  socket.write('3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n');
  await begun.promise;
  socket.resetAndDestroy();
  await server.close();
  assert.equal(await result.promise, 'abcdef');
});

test('a body that had not arrived completely is lost when the client resets the connection', async () => {
  const begun = Promise.withResolvers<void>();
  const failed = Promise.withResolvers<unknown>();
  const app = new Svc({ logger: collectedLog().logger });
  app.post('/', async ({ req }) => {
    setImmediate(begun.resolve);
    await left(req);
    await req.text().catch(failed.resolve);
  });
  const server = await app.run({ port: 0, handleSignals: false });
  const socket = connect(Number(new URL(server.url).port), '127.0.0.1');
  socket.on('error', () => undefined);
  socket.write('POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf');
  await begun.promise;
  socket.resetAndDestroy();
  await server.close();
  assert.ok((await failed.promise) instanceof ClientDisconnected);
});
