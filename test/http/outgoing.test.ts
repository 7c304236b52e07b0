import assert from 'node:assert/strict';
import { ServerResponse } from 'node:http';
import { test } from 'node:test';
import { HttpResponse, StreamingResponse, Svc, reply } from 'svc';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';

/** An application on a free port, and one connection to it. */
async function serve(declare: (app: Svc) => void): Promise<{ client: RawClient; events: Record<string, unknown>[] } & AsyncDisposable> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  declare(app);
  const { port, close } = await app.run({ port: 0, handleSignals: false, drainSeconds: 1 });
  const client = await RawClient.open(port);
  return { client, events, async [Symbol.asyncDispose]() { await client[Symbol.asyncDispose](); await close(); } };
}

for (const [what, body, bytes] of [
  ['text in ASCII', 'plain', 'plain'], ['text in Latin-1', 'café', 'café'], ['other text', '☕ and 🍵', '☕ and 🍵'], ['a lone surrogate', 'a\ud800b', 'a\ufffdb'],
  ['bytes', Buffer.from('☕'), '☕'], ['control characters', '\0\x7f\r\n\r\n', '\0\x7f\r\n\r\n'],
] as const) {
  test(`SentMessage sends ${what} whole, with its length in bytes, also to a second request and with fields`, async () => {
    await using it = await serve((app) => app.get('/', () => body).get('/fields', () => reply(body, 201, { 'X-Other': 'one' })));
    for (const path of ['/', '/fields', '/']) {
      const answer = await it.client.get(path).answer();
      assert.equal(answer.text(), bytes);
      assert.equal(answer.field('content-length'), String(Buffer.byteLength(bytes)));
      assert.equal(answer.field('transfer-encoding'), undefined);
      assert.equal(answer.field('x-other'), path === '/fields' ? 'one' : undefined);
      assert.match(answer.field('x-request-id') ?? '', /^[\da-f-]{36}$/);
    }
  });
}

test('SentMessage sends the characters of a Content-Disposition as those of other fields, whatever node:http makes of them with a known length', async () => {
  const fields = { 'Content-Disposition': 'inline; filename="caf\xe9"', 'X-Other': 'caf\xe9' };
  await using it = await serve((app) => app.get('/', () => reply('text', 200, fields)));
  const answer = await it.client.get('/').answer();
  assert.equal(answer.field('content-disposition'), `inline; filename="${answer.field('x-other')!}"`);
  assert.equal(answer.text(), 'text');
});

for (const [what, body] of [
  ['text in ASCII', 'plain'], ['other text', 'café ☕'], ['JSON', { a: 'é' }], ['bytes', Buffer.from('é')], ['nothing', null], ['a long text', 'é'.repeat(100_000)],
  ['pieces of text', new StreamingResponse(['é', 'b'], { headers: {} })], ['pieces of text of known length', new StreamingResponse(['é', 'b'], { contentLength: 3 })],
] as const) {
  test(`Fields go out before ${what} as they were set: a character of Latin-1 is one byte`, async () => {
    await using it = await serve((app) => {
      app.use(async (_req, next) => {
        const response = await next();
        response.headers.set('X-Name', 'caf\xe9');
        return response;
      });
      app.get('/', () => body);
    });
    for (const version of ['1.1', '1.0']) {
      const answer = await it.client.send(`GET / HTTP/${version}\r\nHost: a.example\r\nConnection: keep-alive\r\n\r\n`).answer();
      assert.equal(answer.field('x-name'), 'caf\xe9', version);
      assert.ok(answer.isWhole);
      if (typeof body === 'string') assert.ok(answer.text() === body);
    }
  });
}

test('SentMessage whose fields node:http refuses becomes a 500 of the same connection, which serves on', async () => {
  await using it = await serve((app) => app.get('/', () => {
    const response = new HttpResponse('text');
    response.headers.flat.push('X-Broken', 'a\nb');
    return response;
  }).get('/good', () => 'good'));
  const answer = await it.client.get('/').answer();
  assert.equal(answer.status, 500);
  assert.equal(answer.field('x-broken'), undefined);
  assert.equal(answer.field('content-length'), '0');
  assert.equal((await it.client.get('/good').answer()).text(), 'good');
  assert.deepEqual(it.events.filter(({ level }) => level === 'error').map(({ event }) => event), ['response_refused']);
});

test('SentMessage asks for its head through writeHead(), where tools that patch it find the status', async (context) => {
  const { writeHead } = ServerResponse.prototype;
  const seen: number[] = [];
  ServerResponse.prototype.writeHead = function (this: ServerResponse, ...args: never[]) {
    seen.push(args[0]!);
    return Reflect.apply(writeHead, this, args) as ServerResponse;
  } as typeof writeHead;
  context.after(() => { ServerResponse.prototype.writeHead = writeHead; });
  await using it = await serve((app) => app.get('/', () => reply({ ok: true }, 202)));
  assert.equal((await it.client.get('/').answer()).status, 202);
  assert.deepEqual(seen, [202]);
});
test('SentMessage tells its events through emit() of ServerResponse, also where tools have patched it since', async (context) => {
  const { prototype } = ServerResponse;
  const { emit } = prototype;
  const seen: unknown[] = [];
  prototype.emit = function (this: ServerResponse, ...args: never[]) {
    seen.push(args[0]);
    return Reflect.apply(emit, this, args) as boolean;
  } as typeof emit;
  context.after(() => { Reflect.deleteProperty(prototype, 'emit'); });
  await using it = await serve((app) => app.get('/', () => 'ok'));
  assert.equal((await it.client.get('/').answer()).status, 200);
  assert.ok(seen.includes('finish'), String(seen));
});
