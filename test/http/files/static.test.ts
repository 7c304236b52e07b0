/**
 * Static files over sockets: responses, their fields, and hidden files.
 */
import assert from 'node:assert/strict';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { after } from 'node:test';
import { pathToFileURL } from 'node:url';
import { brotliCompressSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { Svc } from '../../../src/app/svc.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Router } from '../../../src/routing/route.ts';
import { isServed } from '../../../src/http/files/static-folder.ts';
import { Chromium, needsChromium } from '../../support/chromium.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { serve, type Serving } from '../../support/serve.ts';
import type { RawAnswer } from '../../support/raw-http.ts';
import type { StaticOptions } from '../../../src/http/files/static.ts';

const area = mkdtempSync(join(tmpdir(), 'svc-static-'));
after(() => rmSync(area, { recursive: true }));
const LONG_AGO = 784_111_777;
const root = join(area, 'public');
const big = Buffer.alloc(300_001, 'abcdefg');
const script = 'console.log("a script that is long enough to be worth it");\n'.repeat(20);

/** Writes a file that counts as old. */
function put(path: string, content: string | Uint8Array, seconds = LONG_AGO): string {
  const whole = join(area, path);
  mkdirSync(join(whole, '..'), { recursive: true });
  writeFileSync(whole, content);
  utimesSync(whole, seconds, seconds);
  return whole;
}
put('public/index.html', '<p>home');
put('public/hello.txt', 'hello');
put('public/big.bin', big);
put('public/docs/index.html', '<p>docs');
put('public/docs/café & co.txt', 'coffee');
put('public/empty/.keep', '');
put('public/.env', 'SECRET=1');
put('public/.git/config', 'secret');
put('public/.well-known/security.txt', 'Contact: mailto:a@a.example');
put('public/app.js', script);
put('public/app.js.br', brotliCompressSync(script));
put('public/app.js.gz', gzipSync(script));
put('public/app.js.zst', zstdCompressSync(script));
put('public/stale.css', 'new', LONG_AGO + 100);
put('public/stale.css.gz', gzipSync('old'));
put('public/only.txt.gz', gzipSync('x'));
put('public/100%.txt', 'percent');
put('public-secret/key.txt', 'secret');
put('secret.txt', 'secret');
symlinkSync('../secret.txt', join(root, 'out.txt'));
symlinkSync('../public-secret', join(root, 'out'));
symlinkSync('hello.txt', join(root, 'inside.txt'));
symlinkSync('.env', join(root, 'env.txt'));
symlinkSync('loop.txt', join(root, 'loop.txt'));
symlinkSync('../../secret.txt', join(root, 'docs', 'app.txt.gz'));
put('public/docs/app.txt', 'plain');

interface Site extends Serving {
  get(path: string, fields?: string): Promise<RawAnswer>;
}

async function site(
  options: StaticOptions = {},
  urlPath = '/static',
  declare: (app: Svc) => void = () => undefined,
  clock?: ManualClock,
): Promise<Site> {
  const serving = await serve(
    (app) => {
      app.mountStatic(urlPath, root, options);
      declare(app);
    },
    clock === undefined ? {} : { clock },
  );
  return { ...serving, get: (path, fields = '') => serving.client.get(path, fields).answer() };
}

test('mountStatic() serves files with media type, length, validators and a cache lifetime, for GET and HEAD', async () => {
  await using it = await site();
  for (let round = 0; round < 2; round++) {
    // the first request looks the file up, the second finds it in the cache
    const answer = await it.get('/static/hello.txt');
    assert.deepEqual(
      [
        answer.status,
        answer.text(),
        answer.field('content-type'),
        answer.field('content-length'),
        answer.field('cache-control'),
        answer.field('last-modified'),
        answer.field('accept-ranges'),
        answer.field('vary'),
      ],
      [
        200,
        'hello',
        'text/plain; charset=utf-8',
        '5',
        'max-age=0',
        'Sun, 06 Nov 1994 08:49:37 GMT',
        'bytes',
        undefined,
      ],
    );
    assert.match(answer.field('etag')!, /^"[0-9a-z-]+"$/);
    const head = await it.client.send('HEAD /static/hello.txt HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD');
    assert.deepEqual(
      [head.status, head.field('content-length'), head.field('etag')],
      [200, '5', answer.field('etag')],
    );
    const large = await it.get('/static/big.bin');
    assert.deepEqual(
      [large.status, large.body.equals(big), large.field('content-length')],
      [200, true, String(big.length)],
    );
    assert.equal(
      (await it.client.send('HEAD /static/big.bin HTTP/1.1\r\nHost: a\r\n\r\n').answer('HEAD')).field(
        'content-length',
      ),
      String(big.length),
    );
    assert.equal((await it.get('/static/docs/caf%C3%A9%20&%20co.txt')).text(), 'coffee');
    assert.equal((await it.get('/static/100%25.txt')).text(), 'percent');
    assert.equal((await it.get('/static/inside.txt')).text(), 'hello');
    assert.equal((await it.get('/static/hello.txt?v=1')).text(), 'hello');
  }
});

test('mountStatic() answers conditional requests with 304 or 412, and range requests with 206 or 416', async () => {
  await using it = await site();
  for (const [path, length] of [
    ['/static/hello.txt', 5],
    ['/static/big.bin', big.length],
  ] as const) {
    const etag = (await it.get(path)).field('etag')!;
    const same = await it.get(path, `If-None-Match: ${etag}\r\n`);
    assert.deepEqual(
      [
        same.status,
        same.field('etag'),
        same.field('cache-control'),
        same.field('content-type'),
        same.field('content-length'),
      ],
      [304, etag, 'max-age=0', undefined, undefined],
    );
    assert.equal((await it.get(path, 'If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n')).status, 304);
    assert.equal((await it.get(path, 'If-Match: "other"\r\n')).status, 412);
    const part = await it.get(path, `Range: bytes=1-3\r\nIf-Range: ${etag}\r\n`);
    assert.deepEqual(
      [part.status, part.field('content-range'), part.body.length],
      [206, `bytes 1-3/${length}`, 3],
    );
    const outside = await it.get(path, `Range: bytes=${length}-\r\n`);
    assert.deepEqual(
      [outside.status, outside.field('content-range'), outside.field('content-type')],
      [416, `bytes */${length}`, 'application/problem+json'],
    );
    assert.match(
      (await it.get(path, 'Range: bytes=0-0,2-2\r\n')).field('content-type')!,
      /^multipart\/byteranges; boundary=/,
    );
  }
});

test('mountStatic() answers methods other than GET and HEAD with 405 and Allow', async () => {
  await using it = await site();
  for (const path of ['/static/hello.txt', '/static/absent', '/static/', '/static']) {
    for (const method of ['POST', 'PUT', 'DELETE', 'PATCH']) {
      const answer = await it.client
        .send(`${method} ${path} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n`)
        .answer(method);
      assert.deepEqual([answer.status, answer.field('allow')], [405, 'GET, HEAD, OPTIONS']);
    }
  }
});

test('mountStatic() serves the index file of a folder, and redirects a folder path without a final slash to the path with a final slash', async () => {
  await using it = await site();
  assert.equal((await it.get('/static/')).text(), '<p>home');
  assert.equal((await it.get('/static/docs/')).text(), '<p>docs');
  for (const [path, location] of [
    ['/static', './static/'],
    ['/static/docs', './docs/'],
    ['/static/docs?a=1&b=//evil.example', './docs/?a=1&b=//evil.example'],
    ['/static/%64ocs', './%64ocs/'],
  ] as const) {
    const answer = await it.get(path);
    assert.deepEqual([answer.status, answer.field('location')], [301, location]);
    assert.equal(new URL(answer.field('location')!, `http://a.example${path}`).host, 'a.example');
  }
  for (const path of [
    '/static/empty',
    '/static/empty/',
    '/static/hello.txt/',
    '/static/docs/index.html/',
    '/static/absent',
    '/static/absent/',
  ])
    assert.equal((await it.get(path)).status, 404, path);
});

test('mountStatic() at the path "/" never redirects to another host', async () => {
  await using it = await site({}, '/');
  assert.equal((await it.get('/')).text(), '<p>home');
  assert.equal((await it.get('/docs')).field('location'), './docs/');
  for (const path of [
    '//evil.example',
    '//evil.example/',
    '//evil.example/..',
    '/%2fevil.example',
    '/%2F%2Fevil.example/',
    '/\\evil.example',
    '/%5cevil.example',
    '//docs',
    '/docs//',
    '//docs/',
    '/.//docs',
  ]) {
    const answer = await it.get(path);
    assert.deepEqual([answer.status, answer.field('location')], [404, undefined], path);
  }
});

test('mountStatic() hides, refuses or serves names that begin with a dot, depending on the option "dotfiles"', async () => {
  const hidden = [
    '/static/.env',
    '/static/.git/config',
    '/static/.git/',
    '/static/%2eenv',
    '/static/docs/.x',
    '/static/env.txt',
  ];
  await using ignoring = await site();
  for (const path of hidden) assert.equal((await ignoring.get(path)).status, 404, path);
  assert.equal((await ignoring.get('/static/.well-known/security.txt')).status, 200);
  await using denying = await site({ dotfiles: 'deny' });
  for (const path of hidden.slice(0, 5)) assert.equal((await denying.get(path)).status, 403, path);
  assert.equal((await denying.get('/static/env.txt')).status, 404);
  await using allowing = await site({ dotfiles: 'allow' });
  assert.equal((await allowing.get('/static/.env')).text(), 'SECRET=1');
  assert.equal((await allowing.get('/static/env.txt')).text(), 'SECRET=1');
});

test('mountStatic() serves no file outside its directory', async () => {
  await using it = await site();
  const paths = [
    '/static/../secret.txt',
    '/static/..',
    '/static/docs/../../secret.txt',
    '/static/%2e%2e/secret.txt',
    '/static/.%2e/secret.txt',
    '/static/..%2fsecret.txt',
    '/static/%2e%2e%2fsecret.txt',
    '/static/..%5csecret.txt',
    '/static/..\\secret.txt',
    '/static/%252e%252e/secret.txt',
    '/static/%252e%252e%252fsecret.txt',
    '/static/....//secret.txt',
    '/static/docs%2f..%2f..%2fsecret.txt',
    '/static/../public-secret/key.txt',
    '/static-secret/key.txt',
    '/static/../static/../secret.txt',
    `/static/${area}/secret.txt`,
    `/static/${encodeURIComponent(`${area}/secret.txt`)}`,
    '/static//etc/passwd',
    '/static/%2fetc/passwd',
    '/static/hello.txt%00',
    '/static/hello.txt%00.html',
    '/static/hello.txt/..',
    '/static/hello.txt/../../secret.txt',
    '/static/./hello.txt',
    '/static/docs/./index.html',
    '/static/hello.txt%20',
    '/static/hello.txt.',
    '/static/HELLO.TXT',
    '/static/out.txt',
    '/static/out/key.txt',
    '/static/out',
    '/static/out/',
    '/static/loop.txt',
    '/static/hello.txt::$DATA',
    '/static/file:/etc/passwd',
    '/static/~root/',
    `/static/${'../'.repeat(40)}etc/passwd`,
    `/static/${'a'.repeat(300)}`,
    `/static/${'a/'.repeat(3_000)}`,
    '/static/;/../secret.txt',
    '/static/..;/secret.txt',
    '/static/%e2%80%a5/secret.txt',
  ];
  for (const path of paths) {
    const answer = await it.get(path);
    assert.deepEqual([answer.status, answer.field('content-type')], [404, 'application/problem+json'], path);
    assert.ok(!answer.text().includes('secret'), path);
  }
  // overlong UTF-8, lone continuation bytes and incomplete escapes are not valid text
  for (const path of [
    '/static/%c0%ae%c0%ae/secret.txt',
    '/static/%c0%af',
    '/static/%e0%80%af',
    '/static/%f0%80%80%af',
    '/static/%80',
    '/static/%',
    '/static/%u002e',
    '/static/%zz',
    '/static/%ed%a0%80',
  ])
    assert.equal((await it.get(path)).status, 400, path);
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error'),
    [],
  );
});

test('mountStatic() follows links that lead out of its directory only if followSymlinks is true', async () => {
  await using it = await site({ followSymlinks: true });
  assert.equal((await it.get('/static/out.txt')).text(), 'secret');
  assert.equal((await it.get('/static/out/key.txt')).text(), 'secret');
  for (const path of ['/static/loop.txt', '/static/env.txt', '/static/../secret.txt'])
    assert.equal((await it.get(path)).status, 404, path);
});

test('isServed() refuses links out of the folder, dotfiles, and paths that differ from the file name in letter case or Unicode form', () => {
  const options = { followsSymlinks: true, allowsDotfiles: true };
  for (const [real, asked] of [
    ['/srv/p/Private/a', '/srv/p/private/a'],
    ['/srv/p/caf\u00e9', '/srv/p/cafe\u0301'],
    ['/srv/p/A', '/srv/p/a'],
  ] as const)
    assert.equal(isServed(real, asked, '/srv/p', options), false, real);
  for (const [real, root, expected] of [
    ['/srv/p-secret/a', '/srv/p', false],
    ['/srv/p/b', '/srv/p', true],
    ['/srv/p/.b', '/srv/p', false],
    ['/srv/p', '/srv/p', true],
    ['/b', '/', true],
  ] as const) {
    assert.equal(
      isServed(real, `${root}/asked`, root, { followsSymlinks: false, allowsDotfiles: false }),
      expected,
      real,
    );
  }
});

test('mountStatic() serves a precompressed file when the client accepts its content coding', async () => {
  await using it = await site();
  const plain = await it.get('/static/app.js');
  assert.deepEqual(
    [plain.text(), plain.field('content-encoding'), plain.field('vary')],
    [script, undefined, 'Accept-Encoding'],
  );
  const tags = new Set([plain.field('etag')]);
  for (const [accepted, coding, bytes] of [
    ['br', 'br', brotliCompressSync(script)],
    ['zstd', 'zstd', zstdCompressSync(script)],
    ['gzip', 'gzip', gzipSync(script)],
    ['gzip, br;q=0.5', 'gzip', undefined],
    ['x-gzip', 'gzip', undefined],
  ] as const) {
    const answer = await it.get('/static/app.js', `Accept-Encoding: ${accepted}\r\n`);
    assert.deepEqual(
      [answer.field('content-encoding'), answer.field('content-type'), answer.field('vary')],
      [coding, 'text/javascript; charset=utf-8', 'Accept-Encoding'],
    );
    if (bytes !== undefined) assert.ok(answer.body.equals(bytes));
    tags.add(answer.field('etag'));
    const same = await it.get(
      '/static/app.js',
      `Accept-Encoding: ${accepted}\r\nIf-None-Match: ${answer.field('etag')!}\r\n`,
    );
    assert.deepEqual(
      [same.status, same.field('vary'), same.field('content-encoding')],
      [304, 'Accept-Encoding', undefined],
    );
  }
  assert.equal(tags.size, 4, 'each form has a tag of its own');
  assert.equal(
    (await it.get('/static/app.js', 'Accept-Encoding: zstd, br, gzip\r\n')).field('content-encoding'),
    'br',
    'of equal weights the smallest',
  );
  const part = await it.get('/static/app.js', 'Accept-Encoding: br\r\nRange: bytes=0-3\r\n');
  assert.deepEqual(
    [
      part.status,
      part.field('content-encoding'),
      part.body.equals(brotliCompressSync(script).subarray(0, 4)),
    ],
    [206, 'br', true],
  );
  for (const accepted of ['identity', 'deflate', 'br;q=0', '*;q=0'])
    assert.equal(
      (await it.get('/static/app.js', `Accept-Encoding: ${accepted}\r\n`)).field('content-encoding'),
      undefined,
    );
  const stale = await it.get('/static/stale.css', 'Accept-Encoding: gzip\r\n');
  assert.deepEqual(
    [stale.text(), stale.field('content-encoding'), stale.field('vary')],
    ['new', undefined, undefined],
    'a form older than its file is not of it',
  );
  assert.equal(
    (await it.get('/static/docs/app.txt', 'Accept-Encoding: gzip\r\n')).text(),
    'plain',
    'nor one that is a link out of the directory',
  );
  assert.equal((await it.get('/static/only.txt', 'Accept-Encoding: gzip\r\n')).status, 404);
  assert.equal((await it.get('/static/app.js.gz')).field('content-type'), 'application/gzip');
  await using off = await site({ precompressed: false });
  const as = await off.get('/static/app.js', 'Accept-Encoding: br\r\n');
  assert.deepEqual([as.field('content-encoding'), as.field('vary')], [undefined, undefined]);
});

test('mountStatic() sends the configured Cache-Control lifetime for files', async () => {
  await using it = await site({ maxAgeSeconds: 31_536_000, immutable: true });
  assert.equal((await it.get('/static/hello.txt')).field('cache-control'), 'max-age=31536000, immutable');
});

const YEAR = 31_536_000;
const KEPT = 'max-age=31536000, immutable';
for (const [path, options, cacheControl] of [
  ['/', {}, 'max-age=0'],
  ['/index.html', {}, 'max-age=0'],
  ['/docs/', {}, 'max-age=0'],
  ['/docs/index.html', {}, 'max-age=0'],
  ['/orders/7', { fallback: 'index.html' }, 'max-age=0'],
  ['/orders/7', { fallback: 'docs/app.txt', index: [] }, 'max-age=0'],
  ['/docs/app.txt', { fallback: 'docs/app.txt', index: [] }, 'max-age=0'],
  ['/', { index: ['hello.txt'] }, 'max-age=0'],
  ['/orders/7', { fallback: 'app.js' }, 'max-age=0'],
  ['/big.bin', { fallback: 'index.html' }, KEPT],
  ['/app.js', { fallback: 'index.html' }, KEPT],
  ['/docs/app.txt', { fallback: 'app.txt' }, KEPT],
  ['/index.html', { index: [] }, KEPT],
  ['/orders/7', { fallback: 'index.html', immutable: false }, 'max-age=31536000'],
  ['/', { immutable: false }, 'max-age=31536000'],
] satisfies [string, StaticOptions, string][]) {
  const given = JSON.stringify(options);
  test(`a mount with immutable and ${given} sends ${path} with ${cacheControl}, compressed and with 304, too`, async () => {
    await using it = await site({ maxAgeSeconds: YEAR, immutable: true, ...options }, '/');
    const whole = await it.get(path);
    const coded = await it.get(path, 'Accept-Encoding: br\r\n');
    const known = await it.get(path, `If-None-Match: ${whole.field('etag')}\r\n`);
    assert.deepEqual(
      [whole, coded, known].map((answer) => [answer.status, answer.field('cache-control')]),
      [
        [200, cacheControl],
        [200, cacheControl],
        [304, cacheControl],
      ],
    );
  });
}

test('mountStatic() sends the fallback file of a single-page application for unknown paths', async () => {
  await using it = await site(
    { fallback: 'index.html' },
    '/',
    (app) => void app.get('/api/users', () => 'users'),
  );
  for (const path of ['/users/7', '/users', '/a/b/c/']) {
    const answer = await it.get(path);
    assert.deepEqual(
      [answer.status, answer.text(), answer.field('content-type')],
      [200, '<p>home', 'text/html; charset=utf-8'],
      path,
    );
  }
  assert.equal((await it.get('/api/users')).text(), 'users');
  for (const path of ['/absent.js', '/.env', '/.git/config', '/../x', '/a//b'])
    assert.equal((await it.get(path)).status, 404, path);
});

test('a route takes precedence over a static file with the same path, in any order of declaration', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger });
  app
    .get('/', () => 'mine')
    .mountStatic('/', root, { name: 'files' })
    .get('/hello.txt', () => 'my hello')
    .get('/docs/{page}', ({ params }) => `page ${params.page}`);
  app.includeRouter(new Router({ prefix: '/v1' }).mountStatic('/assets', pathToFileURL(root)));
  const ask = async (path: string): Promise<string> =>
    await (await app.fetch(new Request(`http://a.example${path}`))).text();
  assert.deepEqual(
    await Promise.all(
      ['/', '/hello.txt', '/docs/x', '/big.bin?', '/v1/assets/hello.txt', '/v1/assets/', '/inside.txt'].map(
        ask,
      ),
    ),
    ['mine', 'my hello', 'page x', big.toString(), 'hello', '<p>home', 'hello'],
  );
  assert.equal(app.urlFor('files', { file: 'docs/caf\u00e9.txt' }), '/docs/caf%C3%A9.txt');
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule)),
    [],
  );
  assert.deepEqual(
    app.routes
      .filter((route) => route.template.startsWith('/v1'))
      .map((route) => `${route.method} ${route.template}`),
    ['GET /v1/assets/{file:path}', 'GET /v1/assets/', 'GET /v1/assets'],
  );
});

test('if the directory of mountStatic() is missing, check() reports it and the application does not start', () => {
  for (const directory of [join(area, 'absent'), join(area, 'secret.txt')]) {
    const app = new Svc({ logger: collectedLog().logger }).mountStatic('/static', directory);
    const { ok, findings } = app.check();
    assert.deepEqual(
      [
        ok,
        findings
          .filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
          .map(({ rule, subject, place }) => [rule, subject, place?.file.endsWith('static.test.ts')]),
      ],
      [false, [['SVC107', 'GET /static/{file:path}', true]]],
    );
    assert.match(findings.find(({ rule }) => rule === 'SVC107')!.message, /^Cannot serve the directory/);
    assert.throws(() => app.compileAll(), { code: 'E_COMPILE' });
  }
  assert.equal(
    new SvcError('E_STATIC_DIRECTORY', ['/x', 'it is not a directory']).code,
    'E_STATIC_DIRECTORY',
  );
});

test('check() reports mounted directories that may expose private files (SVC213), and two directories at one path', () => {
  put('program/package.json', '{}');
  const exposed = new Svc({ logger: collectedLog().logger })
    .mountStatic('/a', join(area, 'program'))
    .mountStatic('/b', join(root, 'docs'), { dotfiles: 'allow', followSymlinks: true });
  assert.deepEqual(
    exposed
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, subject }) => `${rule} ${subject}`),
    ['SVC213 GET /a/{file:path}', 'SVC213 GET /b/{file:path}', 'SVC213 GET /b/{file:path}'],
  );
  const twice = new Svc({ logger: collectedLog().logger }).mountStatic('/a', root).mountStatic('/a', root);
  assert.deepEqual(
    twice
      .check()
      .findings.filter(({ severity }) => severity === 'error')
      .map(({ rule, subject }) => `${rule} ${subject}`),
    ['SVC102 GET /a/{file:path}'],
  );
});

test('mountStatic() refuses unknown or invalid options and paths', () => {
  const app = new Svc({ logger: collectedLog().logger });
  for (const options of [
    { index: ['a/b'] },
    { index: 'index.html' },
    { index: ['..'] },
    { fallback: '../x' },
    { fallback: 'docs/' },
    { dotfiles: 'hide' },
    { maxAgeSeconds: -1 },
  ] as object[]) {
    assert.throws(
      () => app.mountStatic('/x', root, options),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(options),
    );
  }
  assert.throws(() => app.mountStatic('/x', root, { maxAge: 1 } as object), { code: 'E_OPTION_UNKNOWN' });
  for (const path of ['x', '/x/', '/{'])
    assert.throws(() => app.mountStatic(path, root), { code: 'E_PATH_TEMPLATE' }, path);
});

for (const env of ['development', 'test'] as const) {
  test(`in the environment "${env}", mountStatic() sends a saved file at once`, async () => {
    const app = new Svc({ clock: new ManualClock(), env });
    app.mountStatic('/', root);
    await using client = new TestClient(app);
    for (const content of ['first', 'other', 'longer']) {
      const file = put('public/saved.txt', content, LONG_AGO + content.length + content.charCodeAt(0));
      assert.equal(await (await client.get('/saved.txt')).text(), content);
      if (content === 'longer') rmSync(file);
    }
    assert.equal((await client.get('/saved.txt')).status, 404);
  });
}

test('in production, mountStatic() notices changed, removed and new files within a second', async () => {
  const clock = new ManualClock();
  await using it = await site({}, '/static', undefined, clock);
  put('public/live.txt', 'first');
  const first = await it.get('/static/live.txt');
  assert.equal((await it.get('/static/late.txt')).status, 404);
  put('public/live.txt', 'other', LONG_AGO + 10);
  put('public/late.txt', 'late');
  assert.equal((await it.get('/static/late.txt')).text(), 'late', 'what is not there is not remembered');
  clock.advance(999);
  assert.equal((await it.get('/static/live.txt')).text(), 'first');
  clock.advance(1);
  const second = await it.get('/static/live.txt');
  assert.equal(second.text(), 'other');
  assert.notEqual(second.field('etag'), first.field('etag'));
  rmSync(join(root, 'live.txt'));
  clock.advance(1_000);
  assert.equal((await it.get('/static/live.txt')).status, 404);
});

test('mountStatic() reads a file again if it was modified less than a second before the first read, even if its size and date are unchanged', async () => {
  const clock = new ManualClock(LONG_AGO * 1_000 + 500);
  await using it = await site({}, '/static', undefined, clock);
  put('public/young.txt', 'first');
  const first = await it.get('/static/young.txt');
  assert.match(first.field('etag')!, /^W\//);
  put('public/young.txt', 'other'); // equal length and time
  clock.advance(5_000);
  const second = await it.get('/static/young.txt');
  assert.deepEqual([second.text(), second.field('etag')], ['other', first.field('etag')!.slice(2)]);
});

test('if a large file is replaced, mountStatic() sends the header fields of the new file', async () => {
  await using it = await site();
  put('public/moved.bin', big);
  const before = await it.get('/static/moved.bin');
  renameSync(put('next.bin', Buffer.alloc(200_000, 'x'), LONG_AGO + 50), join(root, 'moved.bin'));
  const after = await it.get('/static/moved.bin');
  assert.deepEqual(
    [after.status, after.isWhole, after.field('content-length'), after.field('last-modified')],
    [200, true, '200000', 'Sun, 06 Nov 1994 08:50:27 GMT'],
  );
  assert.notEqual(after.field('etag'), before.field('etag'));
  rmSync(join(root, 'moved.bin'));
  symlinkSync('../secret.txt', join(root, 'moved.bin'));
  assert.equal(
    (await it.get('/static/moved.bin')).status,
    404,
    'a link that has been put in its place is not followed',
  );
  rmSync(join(root, 'moved.bin'));
});

test('mountStatic() refuses a folder that has become a symbolic link since the last look-up, unless followSymlinks is true', async (t) => {
  await using it = await site();
  const open = new Svc({ logger: collectedLog().logger });
  open.mountStatic('/static', root, { followSymlinks: true });
  await open.startup();
  t.after(() => open.shutdown());
  const followed = async (path: string): Promise<number> => {
    const { status, body } = await open.fetch(new Request(`http://a.example${path}`));
    await body?.cancel(); // closes the file
    return status;
  };
  for (const [name, inside, outside] of [
    ['large.bin', Buffer.alloc(200_000, 'i'), Buffer.alloc(200_000, 'o')],
    ['small.txt', 'inside', 'outside'],
  ] as const) {
    put(`public/swapped/${name}`, inside);
    put(`elsewhere/${name}`, outside);
    const path = `/static/swapped/${name}`;
    const before = await it.get(path);
    assert.deepEqual([before.status, before.text()], [200, inside.toString()]);
    assert.equal(await followed(path), 200);
    renameSync(join(root, 'swapped'), join(root, 'swapped_before'));
    symlinkSync('../elsewhere', join(root, 'swapped'));
    const after = await it.get(path);
    assert.ok(!after.text().includes('o'.repeat(10)) && !after.text().startsWith('outside'), name);
    if (name === 'large.bin') assert.equal(after.status, 404);
    assert.equal(await followed(path), 200);
    rmSync(join(root, 'swapped'));
    rmSync(join(root, 'swapped_before'), { recursive: true });
    rmSync(join(area, 'elsewhere'), { recursive: true });
  }
});

test('mountStatic() answers 404 for a file that the process has no permission to read', async (t) => {
  await using it = await site();
  chmodSync(area, 0o755);
  chmodSync(put('public/locked.txt', 'x'), 0o000);
  mkdirSync(join(root, 'locked'), { mode: 0o700 });
  put('public/locked/x.txt', 'x');
  chmodSync(join(root, 'locked'), 0o000);
  t.after(() => rmSync(join(root, 'locked'), { recursive: true }));
  const isRoot = process.geteuid!() === 0;
  if (isRoot) process.seteuid!(65_534); // root may read everything
  try {
    for (const path of ['/static/locked.txt', '/static/locked/x.txt', '/static/locked', '/static/locked/'])
      assert.equal((await it.get(path)).status, 404, path);
    assert.equal((await it.get('/static/hello.txt')).status, 200);
  } finally {
    if (isRoot) process.seteuid!(0);
    chmodSync(join(root, 'locked'), 0o700);
  }
  assert.deepEqual(
    it.events.filter((event) => event['level'] === 'error'),
    [],
  );
});

test('mountStatic() looks up a file only once for many concurrent requests', async () => {
  await using it = await site();
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => it.app.fetch(new Request('http://a.example/static/hello.txt'))),
  );
  assert.deepEqual([...new Set(await Promise.all(answers.map((answer) => answer.text())))], ['hello']);
});

test('Chromium opens a page of a static folder, accepts precompressed files, revalidates, and fetches ranges', async (t) => {
  if (!needsChromium(t)) return;
  put(
    'public/site/index.html',
    '<!doctype html><title>site</title><link rel="stylesheet" href="site.css"><script type="module" src="../app2.js"></script><p>page',
  );
  put('public/site/site.css', 'p { color: rgb(1, 2, 3) }');
  put('public/app2.js', 'document.title = "script";');
  put('public/app2.js.br', brotliCompressSync('document.title = "coded";'));
  const seen: string[] = [];
  await using it = await site({}, '/', (app) =>
    app.use(async (req, next) => {
      const answer = await next();
      seen.push(`${answer.status} ${req.path}`);
      return answer;
    }),
  );
  const page = await (await Chromium.start(t)).visitor();
  const { url } = it;
  await page.open(`${url}/site?a=1`, `${url}/site/?a=1`);
  assert.deepEqual(await page.run('[document.title, getComputedStyle(document.querySelector("p")).color]'), [
    'coded',
    'rgb(1, 2, 3)',
  ]);
  assert.deepEqual(seen.filter((line) => !line.endsWith('favicon.ico')).toSorted(), [
    '200 /app2.js',
    '200 /site/',
    '200 /site/site.css',
    '301 /site',
  ]);
  seen.length = 0;
  await page.reload();
  assert.ok(seen.includes('304 /site/') && seen.includes('304 /app2.js'), seen.join());
  const fetched = await page.run<unknown[]>(`(async () => {
    const part = await fetch('/big.bin', { headers: { Range: 'bytes=7-13' } });
    const whole = await (await fetch('/big.bin')).arrayBuffer();
    return [part.status, await part.text(), part.headers.get('content-range'), whole.byteLength];
  })()`);
  assert.deepEqual(fetched, [206, 'abcdefg', `bytes 7-13/${big.length}`, big.length]);
});
