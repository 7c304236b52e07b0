import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { Svc } from '../../src/app.ts';
import { FileResponse, attachment, mediaTypeOf } from '../../src/http/files.ts';
import { discard } from '../../src/http/pieces.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import type { Pieces } from '../../src/http/pieces.ts';

const directory = mkdtempSync(join(tmpdir(), 'svc-files-'));
after(() => rmSync(directory, { recursive: true }));
const big = Buffer.alloc(600_001, 'abcdefg');
const file = (name: string, content: string | Uint8Array): string => {
  const path = join(directory, name);
  writeFileSync(path, content);
  return path;
};
const hello = file('hello.txt', 'hello');
const GET = { method: 'GET', headers: {} };

async function serve(make: () => unknown): Promise<{ client: RawClient; events: Record<string, unknown>[] } & AsyncDisposable> {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger });
  app.get('/', make);
  const server = await app.run({ port: 0, handleSignals: false });
  const client = await RawClient.open(server.port);
  return { client, events, async [Symbol.asyncDispose]() { await client[Symbol.asyncDispose](); await server.close(); } };
}

test('FileResponse sends a file with its length and media type, and HEAD without it', async () => {
  await using it = await serve(() => new FileResponse(hello));
  const answer = await it.client.get('/').answer();
  assert.deepEqual([answer.status, answer.text(), answer.field('content-length'), answer.field('content-type')], [200, 'hello', '5', 'text/plain; charset=utf-8']);
  const head = await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  assert.deepEqual([head.status, head.field('content-length')], [200, '5']);
  assert.equal((await it.client.get('/').answer()).text(), 'hello');
});

test('FileResponse sends a file of several blocks, and an empty one', async () => {
  const path = file('big.bin', big);
  await using it = await serve(() => new FileResponse(path));
  assert.ok((await it.client.get('/').answer()).body.equals(big));
  const none = file('none.json', '');
  await using empty = await serve(() => new FileResponse(none));
  const answer = await empty.client.get('/').answer();
  assert.deepEqual([answer.status, answer.field('content-length'), answer.field('content-type')], [200, '0', 'application/json']);
});

test('FileResponse may be kept and returned for many requests, HEAD among them, also at once', async () => {
  const kept = new FileResponse(hello);
  await using it = await serve(() => kept);
  await it.client.send('HEAD / HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
  for (let round = 0; round < 3; round++) assert.equal((await it.client.get('/').answer()).text(), 'hello');
  it.client.get('/').get('/').get('/');
  for (let round = 0; round < 3; round++) assert.equal((await it.client.answer()).text(), 'hello');
});

test('FileResponse is 404 where there is no regular file', async () => {
  for (const path of [join(directory, 'absent'), join(hello, 'below'), directory, join(directory, 'x'.repeat(300)), '/dev/null']) {
    await assert.rejects(async () => await new FileResponse(path).settle(GET), { status: 404 });
  }
  await assert.rejects(async () => await new FileResponse('a\0b').settle(GET), { code: 'ERR_INVALID_ARG_VALUE' });
});

test('FileResponse looks a file up once for a request, however many layers it passes', async () => {
  const path = file('once.txt', 'once');
  const response = new FileResponse(path);
  const answer = await response.settle(GET);
  rmSync(path);
  assert.equal(await answer.settle(GET), answer);
  assert.equal(answer.contentLength, 4);
  await assert.rejects(async () => await response.settle(GET), { status: 404 });
});

test('FileResponse cuts the connection when its file is gone or shorter by the time it is sent', async () => {
  for (const spoil of [(path: string) => rmSync(path), (path: string) => truncateSync(path, 300_000)]) {
    const path = file('spoilt.bin', big);
    const { logger, events } = collectedLog();
    const app = new Svc({ logger });
    app.use(async (_req, next) => { const response = await next(); spoil(path); return response; });
    app.get('/', () => new FileResponse(path));
    const server = await app.run({ port: 0, handleSignals: false });
    await using client = await RawClient.open(server.port);
    const bytes = await client.get('/').ended();
    assert.ok(bytes.length < 400_000);
    assert.ok(events.some((event) => event['event'] === 'response_failed'));
    await server.close();
  }
});

test('FileResponse opens nothing when it is discarded', async () => {
  const path = file('discarded.txt', 'x');
  const response = new FileResponse(path);
  const answer = await response.settle(GET);
  rmSync(path);
  await discard(answer.body as Pieces);
});

test('FileResponse takes status, fields, media type and a name to save under', async () => {
  const response = new FileResponse(hello, { filename: '../up/b\u00e9"\r\n.csv', status: 203, headers: { 'X-A': '1' } });
  assert.equal(response.status, 203);
  assert.deepEqual([...response.headers], [['Content-Type', 'text/csv; charset=utf-8'], ['X-A', '1'], ['Content-Disposition', `attachment; filename="b____.csv"; filename*=UTF-8''b%C3%A9%22%0D%0A.csv`]]);
  assert.equal(new FileResponse(hello, { mediaType: 'a/b' }).headers.get('content-type'), 'a/b');
});

for (const [name, value] of [
  ['a.txt', 'attachment; filename="a.txt"'], ['a b.txt', 'attachment; filename="a b.txt"'], ['', 'attachment; filename=""'],
  ["it's (1)*.txt", `attachment; filename="it's (1)*.txt"`], ['100%41.txt', `attachment; filename="100_41.txt"; filename*=UTF-8''100%2541.txt`],
  ["é'(*).txt", `attachment; filename="_'(*).txt"; filename*=UTF-8''%C3%A9%27%28%2A%29.txt`], ['\ud800', `attachment; filename="_"; filename*=UTF-8''%EF%BF%BD`], ['a\\b"c', `attachment; filename="a_b_c"; filename*=UTF-8''a%5Cb%22c`],
] as const) {
  test(`attachment() writes ${JSON.stringify(name)} (RFC 6266, RFC 8187)`, () => assert.equal(attachment(name), value));
}

test('mediaTypeOf() goes by the extension, whatever its case', () => {
  assert.deepEqual(['a.HTML', 'a.b.json', '.txt', 'noext', 'a.constructor', 'a.'].map(mediaTypeOf), ['text/html; charset=utf-8', 'application/json', 'application/octet-stream', 'application/octet-stream', 'application/octet-stream', 'application/octet-stream']);
});
