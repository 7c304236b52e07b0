import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { BadRequest, SvcError } from '../../../src/base/errors.ts';
import { CORSMiddleware } from '../../../src/http/middleware/cors.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import {
  HTMLResponse,
  HttpResponse,
  RedirectResponse,
  StreamingResponse,
} from '../../../src/http/response.ts';
import { SecurityHeadersMiddleware, cspNonce } from '../../../src/http/middleware/security-headers.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { TrustedHostMiddleware } from '../../../src/http/middleware/trusted-host.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import type { RawAnswer } from '../../support/raw-http.ts';
import type { SecurityHeadersOptions } from '../../../src/http/middleware/security-headers.ts';

const POLICY =
  "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";
const EVERYWHERE = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'strict-origin-when-cross-origin',
  'cross-origin-resource-policy': 'same-origin',
};
const DOCUMENT = {
  ...EVERYWHERE,
  'x-frame-options': 'DENY',
  'cross-origin-opener-policy': 'same-origin',
  'permissions-policy': 'camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()',
};

function setting(options: SecurityHeadersOptions = {}, debug = false): { app: Svc; client: TestClient } {
  const app = new Svc({ debug, trustProxy: 'loopback', logger: collectedLog().logger }).use(
    new SecurityHeadersMiddleware(options),
  );
  app.get('/json', () => ({ ok: true })).get('/page', () => new HTMLResponse('<p>hello'));
  return { app, client: new TestClient(app, { raiseErrors: false }) };
}

/** Returns the header fields of a response, without those that every response has. */
function fieldsOf(response: Response): Record<string, string> {
  return Object.fromEntries(
    [...response.headers].filter(
      ([name]) =>
        ![
          'content-type',
          'content-length',
          'x-request-id',
          'allow',
          'retry-after',
          'ratelimit',
          'ratelimit-policy',
        ].includes(name),
    ),
  );
}

/** Sends one request over a socket. Returns the response. */
async function overSocket(app: Svc, target: string, fields = ''): Promise<RawAnswer> {
  await app.startup();
  const server = new HttpServer(app.application());
  const { port } = await server.listen({ port: 0 });
  await using client = await RawClient.open(port);
  const answer = await client.get(target, fields).answer();
  client.socket.destroy();
  await server.close(0);
  await app.shutdown();
  return answer;
}

test('a response never contains a header value with CR, LF or NUL, whether a handler returns the value or throws it in an exception', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ logger }).get('/', ({ req }) => ['x', 200, { 'X-Name': req.query.get('v')! }]);
  app.get('/thrown', ({ req }) => {
    throw new BadRequest('no', { headers: { 'X-Name': req.query.get('v')! } });
  });
  await using client = new TestClient(app, { raiseErrors: false });
  for (const value of ['a\r\nSet-Cookie: evil=1', 'a\nb', 'a\rb', 'a\0b', 'a\u{1f600}']) {
    const response = await client.get('/', { query: { v: value } });
    assert.equal(response.status, 500);
    assert.equal(response.headers.get('set-cookie'), null);
    assert.ok(!(await response.text()).includes(value.slice(0, 3)));
    const thrown = await client.get('/thrown', { query: { v: value } });
    assert.equal(thrown.status, 400);
    assert.equal(thrown.headers.get('x-name'), null);
  }
});

test('a redirect to a location with CR, LF, spaces or non-ASCII text has one Location field with the encoded location', async () => {
  const app = new Svc().get('/', ({ req }) => new RedirectResponse(req.query.get('to')!));
  for (const [to, location] of [
    ['/a\r\nSet-Cookie: evil=1', '/a%0D%0ASet-Cookie:%20evil=1'],
    ['/a b', '/a%20b'],
    ['/café', '/caf%C3%A9'],
    ['/x\0y', '/x%00y'],
    ['/%20?q=1#y', '/%20?q=1#y'],
    ['/"<>\\', '/%22%3C%3E%5C'],
  ] as const) {
    const answer = await overSocket(app, `/?to=${encodeURIComponent(to)}`);
    assert.equal(answer.status, 307);
    assert.deepEqual(answer.fields.get('location'), [location]);
    assert.equal(answer.fields.has('set-cookie'), false);
  }
});

test('SecurityHeadersMiddleware adds general header fields to every response, and header fields for documents only to documents', async () => {
  const { client } = setting();
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.get('/json')), EVERYWHERE);
  assert.deepEqual(fieldsOf(await client.get('/page')), DOCUMENT);
});

test('SecurityHeadersMiddleware adds its header fields to error responses, and no response names the server software', async () => {
  const { app, client } = setting();
  app
    .use(new CORSMiddleware({ origins: '*' }))
    .use(new RateLimitMiddleware({ rules: [{ path: '/once', perMinute: 1 }] }));
  app
    .get('/500', () => {
      throw new Error('boom');
    })
    .get('/once', () => '1')
    .get('/later', async () => {
      throw new BadRequest('no');
    });
  await using _ = client;
  await client.get('/once');
  for (const [status, method, path] of [
    [404, 'GET', '/nowhere'],
    [405, 'DELETE', '/json'],
    [500, 'GET', '/500'],
    [429, 'GET', '/once'],
    [400, 'GET', '/later'],
    [204, 'OPTIONS', '/json'],
  ] as const) {
    const response = await client.request(method, path);
    assert.equal(response.status, status);
    assert.deepEqual(fieldsOf(response), { ...EVERYWHERE, 'access-control-allow-origin': '*' }, path);
    for (const name of ['x-powered-by', 'server']) assert.equal(response.headers.get(name), null);
  }
});

test('in production SecurityHeadersMiddleware sends HSTS for any scheme, because a proxy may terminate TLS', async () => {
  for (const [env, expected] of [
    ['production', 'max-age=31536000; includeSubDomains'],
    ['development', null],
    ['test', null],
  ] as const) {
    const app = new Svc({ env, logger: collectedLog().logger })
      .use(new SecurityHeadersMiddleware())
      .get('/', () => 'x');
    await using client = new TestClient(app);
    assert.equal((await client.get('/')).headers.get('strict-transport-security'), expected, env);
  }
});

test('SecurityHeadersMiddleware sends HSTS for one year and all subdomains; outside of production it sends HSTS only over https', async () => {
  const { client } = setting();
  await using _ = client;
  const secure = { headers: { 'X-Forwarded-Proto': 'https' } };
  assert.deepEqual(fieldsOf(await client.get('/json', secure)), {
    ...EVERYWHERE,
    'strict-transport-security': 'max-age=31536000; includeSubDomains',
  });
  assert.deepEqual(fieldsOf(await client.get('/page', secure)), {
    ...DOCUMENT,
    'strict-transport-security': 'max-age=31536000; includeSubDomains',
  });
  for (const [strictTransportSecurity, expected] of [
    [{ maxAgeSeconds: 63_072_000, preload: true }, 'max-age=63072000; includeSubDomains; preload'],
    [{ includeSubDomains: false, maxAgeSeconds: 0 }, 'max-age=0'],
    [false, null],
  ] as const) {
    const { client: other } = setting({ strictTransportSecurity });
    await using _other = other;
    assert.equal((await other.get('/json', secure)).headers.get('strict-transport-security'), expected);
  }
});

test('each header field of SecurityHeadersMiddleware can be disabled by name', async () => {
  for (const [option, field] of [
    ['contentSecurityPolicy', 'content-security-policy'],
    ['contentTypeOptions', 'x-content-type-options'],
    ['referrerPolicy', 'referrer-policy'],
    ['crossOriginResourcePolicy', 'cross-origin-resource-policy'],
    ['frameOptions', 'x-frame-options'],
    ['crossOriginOpenerPolicy', 'cross-origin-opener-policy'],
    ['permissionsPolicy', 'permissions-policy'],
  ] as const) {
    const { client } = setting({ [option]: false });
    await using _ = client;
    const { [field]: _without, ...expected } = DOCUMENT;
    assert.deepEqual(fieldsOf(await client.get('/page')), expected, option);
  }
});

test('each header field of SecurityHeadersMiddleware has the value of its option', async () => {
  const { client } = setting({
    contentSecurityPolicy: "default-src 'none'",
    referrerPolicy: 'no-referrer',
    crossOriginResourcePolicy: 'cross-origin',
    frameOptions: 'SAMEORIGIN',
    crossOriginOpenerPolicy: 'same-origin-allow-popups',
    crossOriginEmbedderPolicy: 'require-corp',
    permissionsPolicy: 'camera=(self)',
    contentTypeOptions: true,
  });
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.get('/page')), {
    'content-security-policy': "default-src 'none'",
    'referrer-policy': 'no-referrer',
    'cross-origin-resource-policy': 'cross-origin',
    'x-frame-options': 'SAMEORIGIN',
    'cross-origin-opener-policy': 'same-origin-allow-popups',
    'cross-origin-embedder-policy': 'require-corp',
    'permissions-policy': 'camera=(self)',
    'x-content-type-options': 'nosniff',
  });
});

test('SecurityHeadersMiddleware preserves header fields of the handler, whatever their case, and removes X-Powered-By', async () => {
  const { app, client } = setting();
  app.get(
    '/own',
    () =>
      new HTMLResponse('x', {
        headers: {
          'content-security-policy': "default-src 'none'",
          'X-FRAME-OPTIONS': 'SAMEORIGIN',
          'x-powered-by': 'Express',
        },
      }),
  );
  app.get(
    '/upstream',
    () => new Response('x', { headers: { 'X-Powered-By': 'PHP/5.4', 'Content-Type': 'application/json' } }),
  );
  app.get(
    '/typed',
    () => new HttpResponse('x', { headers: { 'X-A': '1', 'content-type': 'Application/XHTML+XML' } }),
  );
  await using _ = client;
  assert.deepEqual(fieldsOf(await client.get('/own')), {
    ...DOCUMENT,
    'content-security-policy': "default-src 'none'",
    'x-frame-options': 'SAMEORIGIN',
  });
  assert.deepEqual(fieldsOf(await client.get('/upstream')), EVERYWHERE);
  assert.deepEqual(fieldsOf(await client.get('/typed')), { ...DOCUMENT, 'x-a': '1' });
});

test('a response object that is returned repeatedly does not collect security header fields', async () => {
  const { app, client } = setting();
  const kept = new HTMLResponse('kept');
  app.get('/kept', () => kept);
  await using _ = client;
  for (let index = 0; index < 3; index++) assert.deepEqual(fieldsOf(await client.get('/kept')), DOCUMENT);
  assert.deepEqual([...kept.headers].length, 1);
});

test('cspNonce() adds a nonce to the Content-Security-Policy of the page that calls it, and to no other page', async () => {
  const { app, client } = setting();
  app.get(
    '/help',
    ({ req }) =>
      new HTMLResponse(`<script nonce="${cspNonce(req)}">1</script><style nonce="${cspNonce(req)}"></style>`),
  );
  await using _ = client;
  const [first, second] = [await client.get('/help'), await client.get('/help')];
  const nonces = [...(await first.text()).matchAll(/nonce="([A-Za-z0-9+/]{22}==)"/g)].map(
    (match) => match[1]!,
  );
  assert.equal(nonces.length, 2);
  assert.equal(nonces[0], nonces[1]);
  assert.equal(
    first.headers.get('content-security-policy'),
    `${POLICY}; script-src 'self' 'nonce-${nonces[0]}'; style-src 'self' 'nonce-${nonces[0]}'`,
  );
  assert.ok(!first.headers.get('content-security-policy')!.includes('unsafe'));
  assert.ok(!(await second.text()).includes(nonces[0]!));
  assert.equal((await client.get('/page')).headers.get('content-security-policy'), POLICY);
});

test('cspNonce() adds no Content-Security-Policy if the middleware sends none, and leaves the policy of a handler unchanged', async () => {
  const { app, client } = setting({ contentSecurityPolicy: false });
  app.get('/help', ({ req }) => new HTMLResponse(cspNonce(req)));
  await using _ = client;
  assert.equal((await client.get('/help')).headers.get('content-security-policy'), null);
  const { app: other, client: client2 } = setting();
  other.get(
    '/help',
    ({ req }) =>
      new HTMLResponse(cspNonce(req), { headers: { 'Content-Security-Policy': "script-src 'none'" } }),
  );
  await using _2 = client2;
  assert.equal((await client2.get('/help')).headers.get('content-security-policy'), "script-src 'none'");
});

test('text responses declare their charset, and JSON errors are never sent as HTML', async () => {
  const { app, client } = setting();
  app.get('/text', () => '<script>alert(1)</script>');
  app.get('/stream', () => new StreamingResponse(['<script>']));
  app.get('/error', ({ req }) => {
    throw new BadRequest(`<img src=x> ${req.query.get('x')}`);
  });
  await using _ = client;
  assert.equal((await client.get('/text')).headers.get('content-type'), 'text/plain; charset=utf-8');
  assert.equal((await client.get('/page')).headers.get('content-type'), 'text/html; charset=utf-8');
  assert.equal((await client.get('/stream')).headers.get('content-type'), 'application/octet-stream');
  assert.equal((await client.get('/json')).headers.get('content-type'), 'application/json');
  for (const path of ['/error?x=<script>', '/<script>', '/%zz']) {
    const response = await client.get(path, { headers: { Accept: 'text/html' } });
    assert.equal(response.headers.get('content-type'), 'application/problem+json');
    assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  }
});

test('a 500 shows the error and its stack only if the option "debug" is set, and the log masks secrets', async () => {
  for (const debug of [false, true]) {
    const { logger, events } = collectedLog();
    const app = new Svc({ debug, logger, authSecret: 'a-secret-of-more-than-32-bytes-000' });
    app.get('/', () => {
      throw new Error('SELECT * FROM users WHERE password = 1', {
        cause: new SvcError('E_HEADER', ['X-A', 'it is bad']),
      });
    });
    await using client = new TestClient(app, { raiseErrors: false });
    const response = await client.get('/');
    const body = await response.text();
    assert.equal(response.status, 500);
    assert.equal(body.includes('SELECT'), debug);
    assert.equal(body.includes('security-headers.test'), debug);
    assert.ok(!body.includes('a-secret-of') && !JSON.stringify(events).includes('a-secret-of'));
    if (!debug)
      assert.deepEqual(Object.keys(JSON.parse(body) as object), ['type', 'title', 'status', 'request_id']);
  }
});

test('if an exception handler throws, the response is a plain 500 with security header fields, and the process continues', async () => {
  const { app, client } = setting();
  app.exceptionHandler(Error, () => {
    throw new TypeError('handler broke');
  });
  app.get('/boom', () => {
    throw new Error('boom');
  });
  await using _ = client;
  const response = await client.get('/boom');
  assert.equal(response.status, 500);
  assert.ok(!(await response.text()).includes('broke'));
  assert.deepEqual(fieldsOf(response), EVERYWHERE);
  assert.equal((await client.get('/json')).status, 200);
});

for (const options of [
  { contentSecurityPolcy: {} },
  { contentSecurityPolicy: true },
  { contentSecurityPolicy: [] },
  { referrerPolicy: 'none' },
  { frameOptions: 'deny' },
  { frameOptions: true },
  { permissionsPolicy: '' },
  { permissionsPolicy: 'a\r\nb' },
  { contentTypeOptions: 'nosniff' },
  { strictTransportSecurity: true },
  { strictTransportSecurity: { maxAge: 5 } },
  { strictTransportSecurity: { maxAgeSeconds: -1 } },
  { strictTransportSecurity: { preload: true, includeSubDomains: false } },
  { strictTransportSecurity: { preload: true, maxAgeSeconds: 86_400 } },
  { crossOriginOpenerPolicy: 'same-site' },
]) {
  test(`SecurityHeadersMiddleware refuses ${JSON.stringify(options)}`, () =>
    assert.throws(() => new SecurityHeadersMiddleware(options as never), {
      name: 'SvcError',
      code: /^E_OPTION_/,
    }));
}

test('svc check reports SecurityHeadersMiddleware inside middleware that answers requests itself (SVC121)', () => {
  const app = new Svc().use(new RateLimitMiddleware()).use(new SecurityHeadersMiddleware());
  const { ok, findings } = app.check();
  assert.equal(ok, false);
  assert.match(
    `${findings[0]!.rule} ${findings[0]!.message} ${findings[0]!.remedy}`,
    /^SVC121 the middleware "rate-limit" runs before SecurityHeadersMiddleware, so responses from "rate-limit" have no security headers Register SecurityHeadersMiddleware before RateLimitMiddleware$/,
  );
});

test('svc check warns if SecurityHeadersMiddleware is inside TrustedHostMiddleware, and reports an error if it is also inside RateLimitMiddleware (SVC121)', () => {
  const hosts = (): TrustedHostMiddleware => new TrustedHostMiddleware({ hosts: ['example.com'] });
  const found = (app: Svc): unknown[] =>
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC121')
      .map(({ severity, message }) => `${severity}: ${message}`);
  assert.deepEqual(found(new Svc().use(hosts()).use(new SecurityHeadersMiddleware())), [
    'warning: the middleware "trusted-host" runs before SecurityHeadersMiddleware, so responses from "trusted-host" have no security headers',
  ]);
  assert.deepEqual(
    found(new Svc().use(hosts()).use(new RateLimitMiddleware()).use(new SecurityHeadersMiddleware())),
    [
      'error: the middleware "rate-limit" runs before SecurityHeadersMiddleware, so responses from "rate-limit" have no security headers',
    ],
  );
});
