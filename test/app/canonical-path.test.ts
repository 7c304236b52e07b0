import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { CSRFMiddleware, Depends, Forbidden, Router, SessionMiddleware, Svc, str } from '../../src/index.ts';
import { TestClient } from '../../src/testing/index.ts';
import { seeded } from '../support/random.ts';
import type { HttpRequest, MountOptions } from '../../src/index.ts';

const AUTH_SECRET = 'of 32 bytes at least, for a test only';

/** Spellings of `/files/admin/secret.txt`. */
const SPELLINGS = [
  '/files/admin/secret.txt',
  '/files/%61dmin/secret.txt',
  '/%66%69les/%61%64%6d%69%6E/secret.txt',
  '/files/admin%2Fsecret.txt',
  '/files/%61dmin%2fsecret%2etxt',
];

async function folder(t: test.TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'svc-path-'));
  t.after(() => rm(directory, { recursive: true }));
  await mkdir(join(directory, 'admin'));
  await writeFile(join(directory, 'admin', 'secret.txt'), 'secret');
  await writeFile(join(directory, 'open.txt'), 'open');
  return directory;
}

for (const kind of ['files', 'route', 'wildcard route'] as const)
  test(`no spelling of a path passes a layer that compares req.path (${kind})`, async (t) => {
    const app = new Svc();
    app.use((req, next) => (req.path.startsWith('/files/admin/') ? ['no', 403] : next()));
    if (kind === 'files') app.mountStatic('/files', await folder(t));
    else if (kind === 'route') app.get('/files/admin/secret.txt', () => 'secret');
    else app.get('/files/{rest:path}', ({ params }) => (params.rest.includes('/') ? 'not found' : 'open'));
    await using client = new TestClient(app);
    for (const path of SPELLINGS) {
      const response = await client.get(path);
      assert.notEqual(await response.text(), 'secret', path);
    }
    assert.equal((await client.get('/files/%61dmin/secret.txt')).status, 403);
  });

const GUARDS: readonly (readonly [name: string, options: MountOptions])[] = [
  ['deps', { deps: { key: Depends(keyOf) } }],
  ['use', { use: [(req, next) => (req.headers['x-key'] === 'k' ? next() : ['no', 403])] }],
];
for (const [name, options] of GUARDS)
  for (const place of ['app', 'router'] as const)
    test(`mountStatic() runs its option "${name}" before each file is sent (${place})`, async (t) => {
      const app = new Svc();
      const router = new Router();
      (place === 'app' ? app : router).mountStatic('/files', await folder(t), options);
      if (place === 'router') app.includeRouter(router);
      await using client = new TestClient(app);
      for (const path of ['/files/open.txt', '/files/%6fpen.txt', '/files/admin/secret.txt']) {
        assert.equal((await client.get(path)).status, 403, path);
        assert.equal((await client.get(path, { headers: { 'x-key': 'k' } })).status, 200, path);
      }
      for (const path of ['/files', '/files/', '/files/none'])
        assert.equal((await client.get(path)).status, 403, path);
    });

function keyOf({ req }: { readonly req: HttpRequest }): string {
  if (req.headers['x-key'] !== 'k') throw new Forbidden();
  return 'k';
}

test('the redirect of a folder keeps the spelling of the request target', async (t) => {
  const directory = await folder(t);
  await mkdir(join(directory, 'a é'));
  await writeFile(join(directory, 'a é', 'index.html'), 'index');
  const app = new Svc().mountStatic('/files', directory);
  await using client = new TestClient(app);
  const response = await client.get('/files/%61%20%c3%a9?q=%2F');
  assert.equal(response.headers.get('location'), './%61%20%c3%a9/?q=%2F');
  assert.equal(await (await client.get('/files/a%20%C3%A9/?q=1')).text(), 'index');
});

test('a path with a malformed escape stays as received, and gets 400 (RFC 3986 §2.1)', async () => {
  const seen: string[] = [];
  const app = new Svc();
  app.use((req, next) => {
    seen.push(req.path);
    return next();
  });
  app.get('/{name}', ({ params }) => params.name);
  await using client = new TestClient(app);
  for (const path of ['/%zz', '/a%', '/%61%4', '/%ff'])
    assert.equal((await client.get(path)).status, 400, path);
  assert.deepEqual(seen, ['/%zz', '/a%', '/%61%4', '/%FF']);
});

test('CSRFMiddleware exempts each spelling of an exempt path, and no other path', async () => {
  const app = new Svc({ authSecret: AUTH_SECRET });
  app.use(new SessionMiddleware()).use(new CSRFMiddleware({ exempt: ['/hooks/in'] }));
  for (const path of ['/hooks/in', '/hooks/out']) app.post(path, { public: 'a test' }, () => 'ok');
  await using client = new TestClient(app);
  for (const [path, status] of [
    ['/hooks/in', 200],
    ['/%68ooks/%69n', 200],
    ['/hooks/out', 403],
    ['/hooks%2Fin', 403],
  ] as const)
    assert.equal(
      (await client.post(path, { headers: { 'sec-fetch-site': 'cross-site' } })).status,
      status,
      path,
    );
});

test('every text of Unicode scalar values survives from urlFor(), a query, a cookie and a form to the handler', async () => {
  const app = new Svc({ authSecret: AUTH_SECRET });
  app.get('/one/{text}', { name: 'one', response: str }, ({ params }) => params.text);
  app.get('/rest/{text:path}', { name: 'rest', response: str }, ({ params }) => params.text);
  app.get('/query', { response: str }, ({ req }) => req.query.get('text') ?? 'absent');
  app.get('/cookie', { response: str }, ({ req }) => req.cookies['text'] ?? 'absent');
  app.post(
    '/form',
    { public: 'a test', response: str },
    async ({ req }) => (await req.form()).get('text') ?? 'absent',
  );
  await using client = new TestClient(app);
  const below = seeded(20_261_129);
  const ranges = [
    [0x01, 0x7f],
    [0x80, 0x7ff],
    [0x800, 0xd7ff],
    [0xe000, 0xffff],
    [0x10000, 0x103ff],
    [0x10400, 0x10ffff],
  ] as const;
  const texts = ['𐌰', '\u{10000}', '\u{103ff}', '%2F', '/', '\\', '?#&=+ ;', '\ufeff', '%', '\u2028'];
  while (texts.length < 200)
    texts.push(
      Array.from({ length: 1 + below(5) }, () => {
        const [from, to] = ranges[below(ranges.length)] ?? ranges[0];
        return String.fromCodePoint(from + below(to - from + 1));
      }).join(''),
    );
  for (const text of texts) {
    const encoded = encodeURIComponent(text);
    const answers = [
      await client.get(app.urlFor('one', { text })),
      await client.get(app.urlFor('rest', { text })),
      await client.get(`/query?text=${encoded}`),
      await client.get('/cookie', { headers: { cookie: `text=${encoded}` } }),
      await client.post('/form', { body: new URLSearchParams({ text }) }),
    ];
    for (const answer of answers) assert.equal(await answer.json(), text);
  }
});
