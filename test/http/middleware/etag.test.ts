/**
 * Conditional GET for dynamic responses: tags, 304, and exceptions.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { ETagMiddleware } from '../../../src/http/middleware/etag.ts';
import { HttpResponse, JSONResponse, StreamingResponse, TextResponse } from '../../../src/http/response.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';

const THEN = 'Sun, 06 Nov 1994 08:49:37 GMT';
const app = new Svc({ logger: collectedLog().logger });
app.use(new ETagMiddleware({ maxBytes: 1_000 }));
app
  .get('/json', () => ({ a: 1 }))
  .get('/text', () => 'caf\u00e9')
  .get('/bytes', () => new TextEncoder().encode('caf\u00e9'))
  .get('/slow', async () => await Promise.resolve('caf\u00e9'));
app.get(
  '/own',
  () =>
    new TextResponse('x', {
      headers: { ETag: '"mine"', 'X-Own': '1', 'Content-Language': 'en', 'Last-Modified': THEN },
    }),
);
app.get('/dated', () => new StreamingResponse(['x'], { headers: { 'Last-Modified': THEN } }));
app
  .get('/cookie', () => new TextResponse('x').setCookie('a', 'b'))
  .get('/secret', () => new TextResponse('x', { headers: { 'Cache-Control': 'private, No-Store' } }));
app
  .get('/stream', () => new StreamingResponse(['x']))
  .get('/large', () => 'x'.repeat(1_001))
  .get('/created', () => new JSONResponse({}, { status: 201 }))
  .get('/nothing', () => new HttpResponse());
app.get('/none', () => null).post('/json', () => ({ a: 1 }));

async function ask(path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Response> {
  return app.fetch(new Request(`http://a.example${path}`, { headers, method }));
}

test('ETagMiddleware adds a weak ETag, computed from the content, to 200 responses of every kind', async () => {
  const tags = await Promise.all(
    ['/json', '/text', '/bytes', '/slow'].map(async (path) => (await ask(path)).headers.get('etag')!),
  );
  for (const tag of tags) assert.match(tag, /^W\/"[\w-]{22}"$/);
  assert.notEqual(tags[0], tags[1]);
  assert.deepEqual([tags[2], tags[3]], [tags[1], tags[1]]);
  assert.equal((await ask('/json', {}, 'HEAD')).headers.get('etag'), tags[0]);
  assert.equal(await (await ask('/text')).text(), 'caf\u00e9');
});

test('ETagMiddleware answers 304 when If-None-Match contains the ETag of the content', async () => {
  const etag = (await ask('/json')).headers.get('etag')!;
  for (const method of ['GET', 'HEAD']) {
    for (const condition of [etag, etag.slice(2), `"a", ${etag}`, '*']) {
      const same = await ask('/json', { 'if-none-match': condition }, method);
      assert.deepEqual(
        [
          same.status,
          await same.text(),
          same.headers.get('etag'),
          same.headers.get('content-type'),
          same.headers.get('content-length'),
        ],
        [304, '', etag, null, null],
      );
    }
    assert.equal((await ask('/json', { 'if-none-match': '"a"' }, method)).status, 200);
  }
  assert.equal((await ask('/json', { 'if-none-match': '*' }, 'POST')).status, 200);
});

test('ETagMiddleware preserves the ETag and Last-Modified that a handler has set, and compares conditions with them', async () => {
  const own = await ask('/own', { 'if-none-match': '"mine"' });
  assert.deepEqual(
    [own.status, own.headers.get('etag'), own.headers.get('x-own'), own.headers.get('content-language')],
    [304, '"mine"', '1', null],
  );
  assert.equal((await ask('/own', { 'if-none-match': '"other"' })).status, 200);
  assert.equal((await ask('/own', { 'if-modified-since': THEN })).status, 304);
  const dated = await ask('/dated', { 'if-modified-since': THEN });
  assert.deepEqual(
    [dated.status, dated.headers.get('last-modified'), dated.headers.get('etag')],
    [304, THEN, null],
  );
  assert.equal((await ask('/json', { 'if-modified-since': THEN })).status, 200);
});

test('ETagMiddleware adds no ETag to streams, large bodies, responses with cookies or no-store, and responses with a status other than 200', async () => {
  for (const path of [
    '/cookie',
    '/secret',
    '/stream',
    '/large',
    '/created',
    '/nothing',
    '/none',
    '/absent',
  ]) {
    const answer = await ask(path, { 'if-none-match': '*', 'if-modified-since': THEN });
    assert.equal(answer.headers.get('etag'), null, path);
    assert.equal(
      (await ask(path, { 'if-none-match': '"x"' })).status < 300 || path === '/absent',
      true,
      path,
    );
  }
  for (const path of ['/cookie', '/secret', '/stream', '/large'])
    assert.equal((await ask(path, { 'if-none-match': '*' })).status, 200, path);
});

test('if ETagMiddleware answers 304 instead of a stream, it closes the source of the stream', async () => {
  let hasEnded = false;
  const source = {
    [Symbol.iterator]: () => ({
      next: () => ({ done: false, value: 'x' }),
      return() {
        hasEnded = true;
        return { done: true, value: undefined };
      },
    }),
  } as Iterable<string>;
  const own = new Svc({ logger: collectedLog().logger })
    .use(new ETagMiddleware())
    .get('/', () => new StreamingResponse(source, { headers: { 'Last-Modified': THEN } }));
  const server = await own.run({ port: 0, handleSignals: false });
  await using client = await RawClient.open(server.port);
  assert.equal((await client.get('/', `If-Modified-Since: ${THEN}\r\n`).answer()).status, 304);
  assert.equal(hasEnded, true);
  await server.close();
});

test('ETagMiddleware in the option "use" of a route sends 304 without a body over a socket', async () => {
  const own = new Svc({ logger: collectedLog().logger });
  own.get('/tagged', { use: [new ETagMiddleware()] }, () => 'x').get('/plain', () => 'x');
  const server = await own.run({ port: 0, handleSignals: false });
  await using client = await RawClient.open(server.port);
  const etag = (await client.get('/tagged').answer()).field('etag')!;
  assert.deepEqual(
    [(await client.get('/tagged', `If-None-Match: ${etag}\r\n`).answer()).status, client.unread],
    [304, 0],
  );
  assert.equal((await client.get('/plain').answer()).field('etag'), undefined);
  await server.close();
});

test('ETagMiddleware refuses unknown options', () => {
  assert.throws(() => new ETagMiddleware({ maxBytes: -1 }), { code: 'E_OPTION_RANGE' });
  assert.throws(() => new ETagMiddleware({ weak: true } as object), { code: 'E_OPTION_UNKNOWN' });
});
