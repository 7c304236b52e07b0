/**
 * `/docs` as an application serves it: header fields, codings, nonces, tokens.
 * test/openapi/docs/browser.integration.test.ts tests the page in a browser.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import {
  CSRFMiddleware,
  CompressionMiddleware,
  SecurityHeadersMiddleware,
  SessionMiddleware,
  Svc,
} from 'svc';
import { TestClient } from 'svc/testing';
import { DocsPage, pageParts } from '../../../src/openapi/docs/page.ts';
import { readDocument } from '../../../src/openapi/docs/document.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { HOSTILE, largeDocument } from '../../support/openapi-documents.ts';
import type { SvcOptions } from 'svc';

const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';

function make(options: SvcOptions = {}): Svc {
  return new Svc({ authSecret: SECRET, env: 'test', logger: collectedLog().logger, ...options }).get(
    '/books',
    { public: true, summary: 'List books' },
    () => [],
  );
}

/** Returns the nonces in the policy of a response and in the elements of its page. */
function noncesOf(
  response: Response,
  page: string,
): { readonly policy: Set<string>; readonly elements: Set<string>; readonly bare: number } {
  return {
    policy: new Set(
      [...response.headers.get('content-security-policy')!.matchAll(/'nonce-([^']+)'/g)].map(
        ([, nonce]) => nonce!,
      ),
    ),
    elements: new Set([...page.matchAll(/<(?:script|style) nonce="([^"]+)">/g)].map(([, nonce]) => nonce!)),
    bare: [...page.matchAll(/<(?:script|style)(?! nonce=)[\s>]/g)].length,
  };
}

test('the Content-Security-Policy of GET /docs allows only scripts and styles with a nonce, and each response has a new nonce', async () => {
  await using client = new TestClient(make());
  const seen = new Set<string>();
  for (let round = 0; round < 3; round++) {
    const response = await client.get('/docs');
    const { policy, elements, bare } = noncesOf(response, await response.text());
    assert.deepEqual([policy.size, elements, bare], [1, policy, 0]);
    const [nonce] = policy;
    assert.equal(Buffer.from(nonce!, 'base64').length, 16);
    seen.add(nonce!);
    assert.equal(
      response.headers.get('content-security-policy')!.replaceAll(nonce!, 'N'),
      "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src 'nonce-N'; style-src 'nonce-N'; img-src data: blob:; connect-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'",
    );
  }
  assert.equal(seen.size, 3);
});

test('with SecurityHeadersMiddleware, GET /docs keeps its own Content-Security-Policy, and gets the headers that it lacks', async () => {
  await using client = new TestClient(make().use(new SecurityHeadersMiddleware()));
  const response = await client.get('/docs');
  const { policy, elements } = noncesOf(response, await response.text());
  assert.deepEqual(policy, elements);
  assert.match(response.headers.get('content-security-policy')!, /^default-src 'none'/);
  assert.ok(response.headers.has('permissions-policy'));
});

test('the headers of GET /docs forbid caching, framing and content sniffing, and suppress the Referer header', async () => {
  await using client = new TestClient(make());
  const { headers } = await client.get('/docs');
  for (const [name, value] of [
    ['cache-control', 'no-store'],
    ['x-frame-options', 'DENY'],
    ['x-content-type-options', 'nosniff'],
    ['referrer-policy', 'no-referrer'],
    ['cross-origin-opener-policy', 'same-origin'],
    ['cross-origin-resource-policy', 'same-origin'],
    ['content-type', 'text/html; charset=utf-8'],
  ] as const) {
    assert.equal(headers.get(name), value);
  }
});

/** Returns the content coding and the size of a response, and its decoded page. */
async function coded(
  app: Svc,
  accepted: string,
): Promise<{
  readonly coding: string | null;
  readonly vary: string | null;
  readonly size: number;
  readonly page: string;
}> {
  const response = await app.fetch(
    new Request('http://localhost/docs', { headers: { 'Accept-Encoding': accepted } }),
  );
  const bytes = Buffer.from(await response.arrayBuffer());
  const coding = response.headers.get('content-encoding');
  const page = coding === 'br' ? brotliDecompressSync(bytes) : coding === 'gzip' ? gunzipSync(bytes) : bytes;
  return { coding, vary: response.headers.get('vary'), size: bytes.length, page: page.toString() };
}

test('GET /docs is compressed with br or gzip according to Accept-Encoding, with and without CompressionMiddleware', async (t) => {
  for (const app of [make(), make().use(new CompressionMiddleware())]) {
    t.after(() => app.shutdown());
    for (const [accepted, expected] of [
      ['gzip, br', 'br'],
      ['gzip', 'gzip'],
      ['gzip;q=0', null],
      ['br;q=0', null],
    ] as const) {
      const { coding, vary, page } = await coded(app, accepted);
      assert.deepEqual([coding, vary], [expected, 'Accept-Encoding'], accepted);
      assert.ok(page.startsWith('<!doctype html>') && page.endsWith('</html>\n'));
    }
  }
});

test('GET /docs sends at most 24 kB for a document without operations, and at most 60 kB for 500 operations', async (t) => {
  for (const [document, most] of [
    [largeDocument(0), 24_000],
    [largeDocument(500), 60_000],
  ] as const) {
    const page = new DocsPage(() => document);
    const app = new Svc({ enableDocs: false }).get('/docs', { public: true }, ({ req }) => page.respond(req));
    t.after(() => app.shutdown());
    for (const accepted of ['br', 'gzip']) {
      const { coding, size } = await coded(app, accepted);
      assert.equal(coding, accepted);
      assert.ok(size <= most, `${coding}: ${size} bytes`);
    }
  }
});

test('if the application uses CSRFMiddleware, HEAD /docs returns a CSRF token in the header X-CSRF-Token', async () => {
  await using plain = new TestClient(make());
  const bare = await plain.request('HEAD', '/docs');
  assert.deepEqual([bare.status, bare.headers.get('x-csrf-token'), await bare.text()], [200, null, '']);
  const app = make().use(new SessionMiddleware()).use(new CSRFMiddleware());
  app.post('/books', { public: true }, () => 'made');
  await using client = new TestClient(app);
  const page = await client.get('/docs');
  assert.deepEqual(
    [page.headers.get('x-csrf-token'), page.headers.getSetCookie()],
    [null, []],
    'nobody has asked for one',
  );
  const head = await client.request('HEAD', '/docs');
  assert.equal(head.headers.get('cache-control'), 'no-store');
  assert.equal((await client.post('/books')).status, 403);
  assert.equal(
    (
      await client.post('/books', {
        headers: { 'X-CSRF-Token': head.headers.get('x-csrf-token')!, 'Sec-Fetch-Site': 'same-origin' },
      })
    ).status,
    200,
  );
});

test('HEAD /docs returns a CSRF token that is also valid for routes with their own CSRFMiddleware', async () => {
  const [session, csrf] = [new SessionMiddleware(), new CSRFMiddleware()];
  const app = make().post('/books', { public: true, use: [session, csrf] }, () => 'made');
  await using client = new TestClient(app);
  const post = (headers: Readonly<Record<string, string>>): Promise<Response> =>
    client.post('/books', { headers: { 'Sec-Fetch-Site': 'same-origin', ...headers } });
  assert.equal((await post({})).status, 403);
  const head = await client.request('HEAD', '/docs');
  assert.equal((await post({ 'X-CSRF-Token': head.headers.get('x-csrf-token')! })).status, 200);
  assert.equal((await client.get('/docs')).headers.get('x-csrf-token'), null, 'the page itself has none');
});

test('the page of GET /docs is rendered at the first GET request, and then only reused', async () => {
  let asked = 0;
  const page = new DocsPage(() => {
    asked++;
    return largeDocument(5);
  });
  const app = new Svc({ enableDocs: false }).get('/docs', { public: true }, ({ req }) => page.respond(req));
  await using client = new TestClient(app);
  await client.request('HEAD', '/docs');
  assert.equal(asked, 0);
  for (let round = 0; round < 3; round++) await client.get('/docs');
  assert.equal(asked, 1);
});

test('the option "ops.docs.auth" restricts access to GET /docs', async () => {
  await using client = new TestClient(make({ ops: { docs: { auth: 'a token of some length' } } }));
  assert.equal((await client.get('/docs')).status, 401);
  assert.equal(
    (await client.get('/docs', { headers: { Authorization: 'Bearer a token of some length' } })).status,
    200,
  );
});

test('pageParts() escapes text of an OpenAPI document that would end an enclosing HTML element', () => {
  const tagsOf = (page: string): string[] =>
    [...page.matchAll(/<(?!!doctype|!--)\/?([a-z][\w-]*)/gi)].map(([, name]) => name!.toLowerCase());
  const page = pageParts(readDocument(HOSTILE), 'openapi.json"><script>').join('N');
  const [tags, usual] = [tagsOf(page), tagsOf(pageParts(readDocument(largeDocument(5)), '').join('N'))];
  for (const fixed of [
    'img',
    'textarea',
    'iframe',
    'object',
    'base',
    'form',
    'input',
    'template',
    'dialog',
    'style',
  ])
    assert.equal(
      tags.filter((name) => name === fixed).length,
      usual.filter((name) => name === fixed).length,
      fixed,
    );
  for (const forbidden of ['img', 'textarea', 'iframe', 'object', 'base'])
    assert.ok(!tags.includes(forbidden), forbidden);
  assert.equal(tags.filter((name) => name === 'script').length, 2, 'one, and its end');
  assert.doesNotMatch(page, /<!--|\son\w+=(?![^<>]*&gt;)|(?:href|src)="\s*(?:javascript|data:text)/i);
  const [, , rest] = pageParts(readDocument(HOSTILE), 'openapi.json');
  assert.equal(
    rest!.indexOf('</script>'),
    rest!.lastIndexOf('</script>'),
    'the script is not ended before its end',
  );
});

test('the HTML that pageParts() returns refers to no other site', () => {
  const page = pageParts(readDocument(largeDocument(5)), 'openapi.json').join('N');
  assert.doesNotMatch(page, /https?:\/\/|(?:href|src|url\()=?["']?\/\//);
  assert.doesNotMatch(
    page,
    /innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\sstyle=/,
  );
});

test('pageParts() lets browsers skip the layout of off-screen operations only if the page has many operations', () => {
  const isLazy = (document: object): boolean =>
    pageParts(readDocument(document), '/openapi.json').join('N').includes('class="many"');
  assert.deepEqual([isLazy(largeDocument(20)), isLazy(largeDocument(500))], [false, true]);
});
