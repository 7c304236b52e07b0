/**
 * `/openapi.json`: where it is served, who may read it, and how it is cached.
 */
import assert from 'node:assert/strict';
import test from 'node:test';
import { Svc, createLogger } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import type { SvcOptions } from '../../src/index.ts';

const make = (options: SvcOptions = {}): Svc =>
  new Svc({ logger: createLogger({ sink: () => undefined }), env: 'test', title: 'Shop', ...options }).get(
    '/x',
    () => 1,
  );

test('GET /openapi.json returns the OpenAPI document of the application as JSON', async () => {
  const app = make();
  await using client = new TestClient(app);
  const response = await client.get('/openapi.json');
  assert.deepEqual(
    [response.status, response.headers.get('content-type'), response.headers.get('cache-control')],
    [200, 'application/json', 'no-cache'],
  );
  const document = (await response.json()) as { info: { title: string }; paths: object };
  assert.deepEqual([document.info.title, Object.keys(document.paths)], ['Shop', ['/x']]);
  assert.deepEqual(document, JSON.parse(JSON.stringify(app.openapi())));
});

test('GET /openapi.json answers 304 if If-None-Match contains its entity tag, and otherwise always sends the same bytes', async () => {
  await using client = new TestClient(make());
  const first = await client.get('/openapi.json');
  const etag = first.headers.get('etag')!;
  const again = await client.get('/openapi.json', { headers: { 'If-None-Match': etag } });
  assert.deepEqual([again.status, again.headers.get('etag'), await again.text()], [304, etag, '']);
  const other = await client.get('/openapi.json', { headers: { 'If-None-Match': '"other"' } });
  assert.deepEqual([other.status, await other.text()], [200, await first.text()]);
  await using changed = new TestClient(make({ title: 'Other' }));
  assert.notEqual((await changed.get('/openapi.json')).headers.get('etag'), etag);
});

test('GET /openapi.json is available outside production unless enableDocs is false, and in production only if enableDocs is true', async () => {
  const cases: readonly (readonly [SvcOptions, number])[] = [
    [{ env: 'development' }, 200],
    [{ env: 'test' }, 200],
    [{ env: 'production' }, 404],
    [{ env: 'production', enableDocs: true }, 200],
    [{ env: 'test', enableDocs: false }, 404],
  ];
  for (const [options, status] of cases) {
    await using client = new TestClient(make(options));
    assert.equal((await client.get('/openapi.json')).status, status, JSON.stringify(options));
    assert.equal((await client.get('/healthz')).status, 200);
  }
});

test('the option "ops.docs.auth" restricts GET /openapi.json to requests with a token, or to requests that a function accepts', async () => {
  const token = 'a token for documents';
  await using client = new TestClient(make({ ops: { docs: { auth: token } } }));
  const refused = await client.get('/openapi.json');
  assert.deepEqual([refused.status, refused.headers.get('www-authenticate')], [401, 'Bearer']);
  assert.equal(
    (await client.get('/openapi.json', { headers: { Authorization: 'Bearer another one' } })).status,
    401,
  );
  assert.equal(
    (await client.get('/openapi.json', { headers: { Authorization: `Bearer ${token}` } })).status,
    200,
  );
  await using other = new TestClient(
    make({ ops: { docs: { auth: async (req) => req.headers['x-who'] === 'me' } } }),
  );
  assert.equal((await other.get('/openapi.json')).status, 403);
  assert.equal((await other.get('/openapi.json', { headers: { 'X-Who': 'me' } })).status, 200);
  assert.throws(() => make({ ops: { docs: { auth: 'short' } } }), { code: 'E_OPTION_RANGE' });
});

test("app.check() reports an application's own route /openapi.json unless enableDocs is false", async () => {
  assert.deepEqual(
    make()
      .get('/openapi.json', () => 'own')
      .check()
      .findings.filter(({ severity }) => severity === 'error')
      .map(({ rule, subject, remedy }) => [rule, subject, remedy]),
    [
      [
        'SVC102',
        'GET /openapi.json',
        'Give the route another path, or switch the document off with enableDocs: false',
      ],
    ],
  );
  await using client = new TestClient(make({ enableDocs: false }).get('/openapi.json', () => 'own'));
  assert.equal(await (await client.get('/openapi.json')).text(), 'own');
});
