/**
 * CSRF protection, for browsers, other sites and handlers.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import {
  CSRFMiddleware,
  HttpResponse,
  JSONResponse,
  SessionMiddleware,
  StreamingResponse,
  Svc,
  csrfField,
  csrfToken,
} from 'svc';
import { ManualClock } from 'svc/testing';
import { SESSION } from '../../../src/http/state.ts';
import { NEXT_SECRET, SECRET, Site, cookieParts, stored } from '../../support/session-site.ts';
import { seeded } from '../../support/random.ts';
import type { CSRFOptions, HttpRequest, Middleware, Session } from 'svc';
import type { SiteOptions } from '../../support/session-site.ts';

/** Makes a site with CSRF protection. Returns also the requests that have reached its handlers. */
function site(options: CSRFOptions = {}, more: SiteOptions = {}): Site {
  return new Site({ ...more, use: [new CSRFMiddleware(options)] });
}

const login = (req: HttpRequest): void => {
  req.session.regenerate();
  req.session.set('user', 'ada');
};
const ok = (): string => 'reached';

/** Returns a CSRF token for the visitor of this client. */
async function tokenFrom(from: Site, act: (req: HttpRequest) => void = () => undefined): Promise<string> {
  return (await from.ask((req) => {
    act(req);
    return csrfToken(req);
  })) as string;
}

/**
 * Sends a POST with these fields, a minute after the previous one, so that each refusal has a line in the
 * log. Returns its status.
 */
async function post(
  to: Site,
  headers: Record<string, string> = {},
  request: Parameters<Site['visit']>[1] = {},
): Promise<number> {
  await to.wait(60);
  return (await to.visit(ok, { method: 'POST', ...request, headers })).status;
}

const reasons = (of: Site): unknown[] => of.audited('malicious_csrf').map((line) => line['reason']);

for (const env of ['production', 'test'] as const) {
  test(`CSRFMiddleware accepts GET, HEAD and OPTIONS without a token, and requires a token for POST, PUT, PATCH, DELETE and unknown methods (${env})`, async () => {
    await using protectedSite = site({}, { env });
    const statuses: Record<string, number> = {};
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'POST', 'PUT', 'PATCH', 'DELETE', 'PROPFIND', 'get'])
      statuses[method] = (await protectedSite.visit(ok, { method })).status;
    assert.deepEqual(statuses, {
      GET: 200,
      HEAD: 200,
      OPTIONS: 204,
      POST: 403,
      PUT: 403,
      PATCH: 403,
      DELETE: 403,
      PROPFIND: 403,
      get: 200,
    }); // Request writes "get" in capitals
    const token = await tokenFrom(protectedSite, login);
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
      assert.equal(
        (await protectedSite.visit(ok, { method, headers: { 'x-csrf-token': token } })).status,
        200,
      );
    assert.equal(
      (await protectedSite.visit(ok, { method: 'PROPFIND', headers: { 'x-csrf-token': token } })).status,
      405,
    );
  });

  test(`CSRFMiddleware accepts a token in X-CSRF-Token or in the form field _csrf_token, and the handler can still read the form (${env})`, async () => {
    await using protectedSite = site({}, { env });
    const token = await tokenFrom(protectedSite, login);
    assert.match(token, /^[\w-]{43}\.[\w-]{43}$/);
    assert.equal(await post(protectedSite, { 'X-CSRF-Token': token }), 200);
    const response = await protectedSite.visit(
      async (req) => ({ name: (await req.form()).get('name'), again: (await req.text()).length > 0 }),
      { method: 'POST', form: { name: 'Ada & Co', _csrf_token: token } },
    );
    assert.deepEqual(await response.json(), { name: 'Ada & Co', again: true });
    assert.equal(await post(protectedSite, {}, { json: { _csrf_token: token } }), 403);
    assert.equal(await post(protectedSite, {}, { form: { csrf_token: token } }), 403);
  });
}

test('CSRFMiddleware refuses tokens with a flipped bit, without their end, or with any of 2,000 mutations', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const below = seeded(11);
  const texts = new Set<string>();
  for (let index = 0; index < token.length; index++) {
    for (let bit = 0; bit < 7; bit++)
      texts.add(
        token.slice(0, index) +
          String.fromCharCode(token.charCodeAt(index) ^ (1 << bit)) +
          token.slice(index + 1),
      );
    texts.add(token.slice(0, index));
  }
  for (let round = 0; round < 2_000; round++)
    texts.add(token.slice(0, below(88)) + 'A-_.='[below(5)]! + token.slice(below(88)));
  texts.delete(token);
  for (const text of texts) {
    if (/[^\x20-\x7e]/.test(text) || text.trim() !== text || text === '') continue; // no field value
    assert.equal(await post(protectedSite, { 'x-csrf-token': text }), 403, text);
  }
  assert.equal(await post(protectedSite, { 'x-csrf-token': token }), 200);
});

test('CSRFMiddleware refuses a token of one session in a request with another session', async () => {
  await using protectedSite = site();
  const ofA = await tokenFrom(protectedSite, login);
  const sessionA = protectedSite.client.cookies.get('svc_session')!;
  protectedSite.client.cookies.clear();
  const ofB = await tokenFrom(protectedSite, login);
  assert.deepEqual(
    [await post(protectedSite, { 'x-csrf-token': ofA }), await post(protectedSite, { 'x-csrf-token': ofB })],
    [403, 200],
  );
  protectedSite.client.cookies.set('svc_session', sessionA);
  assert.deepEqual(
    [await post(protectedSite, { 'x-csrf-token': ofA }), await post(protectedSite, { 'x-csrf-token': ofB })],
    [200, 403],
  );
  assert.deepEqual(reasons(protectedSite), ['token_wrong', 'token_wrong']);
});

test('once a session exists, CSRFMiddleware refuses a token that was made for a visitor without a session', async () => {
  await using protectedSite = site();
  const attackers = await tokenFrom(protectedSite);
  const planted = protectedSite.client.cookies.get('svc_csrf')!;
  protectedSite.client.cookies.clear();
  await protectedSite.visit(login);
  protectedSite.client.cookies.set('svc_csrf', planted);
  assert.equal(await post(protectedSite, { 'x-csrf-token': attackers }), 403);
  // a session id in the visitor cookie is refused, too
  const id = (await protectedSite.ask((req) => req.session.id)) as string;
  protectedSite.client.cookies.clear();
  protectedSite.client.cookies.set('svc_csrf', id);
  const ofVisitor = await tokenFrom(protectedSite);
  assert.equal(await post(protectedSite, { 'x-csrf-token': ofVisitor }), 200);
  protectedSite.client.cookies.clear();
});

for (const how of ['cookie', 'store'] as const) {
  test(`CSRFMiddleware refuses a token from before the login once the visitor has logged in (session in the ${how})`, async () => {
    await using protectedSite = site({}, how === 'cookie' ? {} : stored(new ManualClock()));
    const anonymous = await tokenFrom(protectedSite);
    assert.equal(
      (await protectedSite.visit(login, { method: 'POST', headers: { 'x-csrf-token': anonymous } })).status,
      204,
    );
    const first = await tokenFrom(protectedSite);
    assert.deepEqual(
      [
        await post(protectedSite, { 'x-csrf-token': anonymous }),
        await post(protectedSite, { 'x-csrf-token': first }),
      ],
      [403, 200],
    );
    const second = await tokenFrom(protectedSite, login); // read after the change
    assert.deepEqual(
      [
        await post(protectedSite, { 'x-csrf-token': first }),
        await post(protectedSite, { 'x-csrf-token': second }),
      ],
      [403, 200],
    );
    await protectedSite.visit((req) => req.session.destroy());
    assert.deepEqual(
      [
        await post(protectedSite, { 'x-csrf-token': second }),
        await post(protectedSite, { 'x-csrf-token': anonymous }),
      ],
      [403, 200],
    );
  });
}

for (const [env, name] of [
  ['production', '__Host-svc_csrf'],
  ['test', 'svc_csrf'],
] as const) {
  test(`csrfToken() sets a host-only cookie for a visitor without a session, and its token is valid for the login (${env})`, async () => {
    await using protectedSite = site({}, { env });
    assert.deepEqual((await protectedSite.visit(ok)).headers.getSetCookie(), []);
    const page = await protectedSite.visit((req) => csrfField(req) + csrfField(req));
    const [field, ...others] = page.headers.getSetCookie();
    const { name: set, value, attributes } = cookieParts(field!);
    assert.deepEqual([set, others], [name, []]);
    assert.deepEqual(attributes, [
      'HttpOnly',
      'Path=/',
      'SameSite=Lax',
      ...(env === 'production' ? ['Secure'] : []),
    ]);
    assert.equal(Buffer.from(value, 'base64url').length, 32);
    const [, token] = /^<input type="hidden" name="_csrf_token" value="([\w.-]{87})">/.exec(
      await page.text(),
    )!;
    assert.deepEqual((await protectedSite.visit((req) => csrfToken(req))).headers.getSetCookie(), []);
    assert.equal(await post(protectedSite, {}, { form: { _csrf_token: token! } }), 200);
    protectedSite.client.cookies.clear();
    assert.equal(await post(protectedSite, {}, { form: { _csrf_token: token! } }), 403);
    for (const planted of ['x', '', 'a'.repeat(42), 'a'.repeat(44), 'a'.repeat(42) + '%20']) {
      assert.equal(await post(protectedSite, { cookie: `${name}=${planted}`, 'x-csrf-token': token! }), 403);
    }
    assert.deepEqual([...new Set(reasons(protectedSite))], ['visitor_unknown']);
  });
}

for (const env of ['production', 'test'] as const) {
  test(`CSRFMiddleware refuses Sec-Fetch-Site: cross-site, even with a valid token, unless the origin is trusted (${env})`, async () => {
    await using protectedSite = site({ trustedOrigins: ['https://admin.example'] }, { env });
    const token = await tokenFrom(protectedSite, login);
    const cross = { 'sec-fetch-site': 'cross-site', 'x-csrf-token': token };
    assert.equal(await post(protectedSite, cross), 403);
    assert.equal(await post(protectedSite, { ...cross, origin: 'https://evil.example' }), 403);
    assert.equal(await post(protectedSite, { ...cross, origin: 'https://admin.example.evil.example' }), 403);
    assert.equal(await post(protectedSite, { ...cross, origin: 'https://admin.example' }), 200);
    assert.equal(
      await post(protectedSite, { 'sec-fetch-site': 'cross-site', origin: 'https://admin.example' }),
      403,
    ); // still needs the token
    assert.deepEqual(reasons(protectedSite), ['site', 'site', 'site', 'token_absent']);
  });
}

test('CSRFMiddleware refuses Sec-Fetch-Site: same-site unless allowSameSite is true, and requires a token for same-origin and none', async () => {
  for (const [options, expected] of [
    [{}, [403, 200, 200, 403, 403, 403]],
    [{ allowSameSite: true }, [200, 200, 200, 403, 403, 403]],
  ] as const) {
    await using protectedSite = site(options);
    const token = await tokenFrom(protectedSite, login);
    const statuses: number[] = [];
    for (const value of [
      'same-site',
      'same-origin',
      'none',
      'cross-site',
      'Same-Origin',
      'same-origin, cross-site',
    ])
      statuses.push(await post(protectedSite, { 'sec-fetch-site': value, 'x-csrf-token': token }));
    assert.deepEqual(statuses, expected);
    for (const value of ['same-site', 'same-origin', 'none'])
      assert.equal(await post(protectedSite, { 'sec-fetch-site': value }), 403);
    assert.equal(
      await post(protectedSite, { 'sec-fetch-site': 'same-origin', origin: 'null', 'x-csrf-token': token }),
      200,
    ); // a form under Referrer-Policy: no-referrer
  }
});

for (const [baseUrl, config, origin, expected] of [
  ['http://localhost', {}, 'http://localhost', 200],
  ['http://localhost', {}, 'https://localhost', 200],
  ['http://localhost', {}, 'http://evil.example', 403],
  ['http://localhost', {}, 'null', 403],
  ['http://localhost', {}, 'http://localhost:81', 403],
  ['http://localhost', {}, 'http://localhost, http://localhost', 403],
  ['http://localhost', {}, '', 403],
  ['http://localhost', {}, 'ftp://localhost', 403],
  ['http://localhost', {}, 'localhost', 403],
  ['http://localhost', { trustProxy: 'loopback' }, 'https://localhost', 403],
  ['http://localhost', { trustProxy: 'loopback' }, 'http://localhost', 200],
  ['https://shop.example', {}, 'https://shop.example', 200],
  ['https://shop.example', {}, 'http://shop.example', 403],
  ['https://shop.example', {}, 'https://www.shop.example', 403],
] as const) {
  test(`if Sec-Fetch-Site is missing, CSRFMiddleware compares Origin with the origin of the site (Origin: ${origin}, site: ${baseUrl}, proxy: ${'trustProxy' in config}, status: ${expected})`, async () => {
    await using protectedSite = site({}, { baseUrl, config });
    const token = await tokenFrom(protectedSite, login);
    assert.equal(await post(protectedSite, { origin, 'x-csrf-token': token }), expected);
    assert.deepEqual(reasons(protectedSite), expected === 403 ? ['origin'] : []);
  });
}

test('CSRFMiddleware accepts the origin of its own site in capitals, or with the default port of the scheme', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  for (const [host, origin, expected] of [
    ['Localhost', 'http://localhost', 200],
    ['localhost:80', 'http://localhost', 200],
    ['localhost:443', 'https://localhost', 200],
    ['localhost:8000', 'http://localhost:8000', 200],
    ['localhost:80', 'https://localhost', 403],
    [':', 'http://localhost', 403],
  ] as const) {
    assert.equal(
      await post(protectedSite, { host, origin, 'x-csrf-token': token }),
      expected,
      `${host} ${origin}`,
    );
  }
});

test('CSRFMiddleware requires a token from requests without Sec-Fetch-Site and Origin, although browsers send one of the two', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  assert.deepEqual(
    [await post(protectedSite), await post(protectedSite, { 'x-csrf-token': token })],
    [403, 200],
  );
});

test('when CSRFMiddleware compares origins, it ignores X-Forwarded-Host and X-Forwarded-Proto of untrusted peers', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const forged = {
    origin: 'https://evil.example',
    'x-forwarded-host': 'evil.example',
    'x-forwarded-proto': 'https',
    forwarded: 'host=evil.example;proto=https',
    'x-csrf-token': token,
  };
  assert.equal(await post(protectedSite, forged), 403);
});

test('CSRFMiddleware refuses an empty token, a token of 10 kB and a token with invalid characters', async () => {
  await using protectedSite = site();
  await tokenFrom(protectedSite, login);
  for (const text of ['x'.repeat(10_000), '', '.', 'x'.repeat(87), `${'é'.repeat(43)}.${'a'.repeat(43)}`])
    assert.equal(await post(protectedSite, {}, { form: { _csrf_token: text } }), 403);
  assert.equal(await post(protectedSite, { 'x-csrf-token': 'x'.repeat(10_000) }), 403);
  assert.deepEqual([...new Set(reasons(protectedSite))], ['token_malformed']);
});

test('CSRFMiddleware does not accept a token in the query string', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  assert.equal(await post(protectedSite, {}, { query: { _csrf_token: token, 'X-CSRF-Token': token } }), 403);
});

test('CSRFMiddleware refuses a multipart body without a token, but leaves the body unread for the handler if the token is in the header', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const form = new FormData();
  form.set('file', new Blob(['x'.repeat(1_000)]), 'a.txt');
  assert.equal(await post(protectedSite, {}, { form }), 403);
  assert.deepEqual(reasons(protectedSite), ['token_absent']);
  const streamed = await protectedSite.visit(
    async (req) => {
      let bytes = 0;
      for await (const chunk of req.stream()) bytes += chunk.length;
      return { isWhole: bytes > 1_000 };
    },
    { method: 'POST', form, headers: { 'x-csrf-token': token } },
  );
  assert.deepEqual(await streamed.json(), { isWhole: true });
});

/** Builds a multipart form with these fields and files, in this order. */
function multipart(...entries: readonly (readonly [name: string, value: string | File])[]): FormData {
  const form = new FormData();
  for (const [name, value] of entries) form.append(name, value as File);
  return form;
}
const largeFile = (bytes: number): File => new File(['x'.repeat(bytes)], 'a.txt');

test('CSRFMiddleware finds a token in a multipart field before the first file, and the handler can read the whole form with every method', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const form = multipart(
    ['name', 'Ada'],
    ['_csrf_token', token],
    ['file', largeFile(300_000)],
    ['after', 'x'],
  );
  const ways: Readonly<Record<string, (req: HttpRequest) => Promise<unknown>>> = {
    form: async (req) => [
      (await req.form()).get('name'),
      (await req.form()).get('after'),
      (await req.form()).file('file')!.size,
    ],
    parts: async (req) => {
      const seen: unknown[] = [];
      for await (const part of req.parts()) {
        let bytes = 0;
        for await (const chunk of part) bytes += chunk.length;
        if (part.name !== '_csrf_token') seen.push(part.name === 'file' ? bytes : part.name);
      }
      return [seen[0] === 'name' ? 'Ada' : '', seen[2] === 'after' ? 'x' : '', seen[1]];
    },
    body: async (req) => ['Ada', 'x', (await req.body()).length > 300_000 ? 300_000 : 0],
    stream: async (req) => {
      let bytes = 0;
      for await (const chunk of req.stream()) bytes += chunk.length;
      return ['Ada', 'x', bytes > 300_000 ? 300_000 : 0];
    },
  };
  for (const [way, read] of Object.entries(ways)) {
    const response = await protectedSite.visit(read, { method: 'POST', form });
    assert.equal(response.status, 200, way);
    assert.deepEqual(await response.json(), ['Ada', 'x', 300_000], way);
  }
  const small = await protectedSite.visit(async (req) => (await req.form()).get('a'), {
    method: 'POST',
    form: multipart(['_csrf_token', token], ['a', 'b']),
  });
  assert.equal(await small.text(), 'b');
});

test('CSRFMiddleware refuses a token field that is wrong, repeated, sent as a file, after a file, or after 64 KiB', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  for (const [form, status] of [
    [multipart(['file', largeFile(10)], ['_csrf_token', token]), 403],
    [multipart(['a', 'x'.repeat(65_536)], ['_csrf_token', token]), 403],
    [multipart(['a', 'x'.repeat(60_000)], ['_csrf_token', token]), 200],
    [multipart(['_csrf_token', new File([token], 'a')]), 403],
    [multipart(['_csrf_token', token], ['_csrf_token', token]), 403],
    [multipart(['_csrf_token', `${token}x`]), 403],
    [multipart(), 403],
  ] as const)
    assert.equal(await post(protectedSite, {}, { form }), status);
  const type = { 'content-type': 'multipart/form-data; boundary=b' };
  assert.equal(await post(protectedSite, type, { body: '--b\r\nbad\r\n\r\n\r\n--b--' }), 400);
  assert.equal(await post(protectedSite, { 'content-type': 'multipart/form-data' }, { body: '--b--' }), 400);
  assert.deepEqual(reasons(protectedSite), [
    'token_absent',
    'token_absent',
    'token_absent',
    'token_twice',
    'token_malformed',
    'token_absent',
  ]);
});

test('CSRFMiddleware refuses an upload whose first 64 KiB have no token, without reading the rest, and the client receives the response', async () => {
  await using protectedSite = site();
  await tokenFrom(protectedSite, login);
  let pulled = 0;
  const endless = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (pulled++ === 0)
        controller.enqueue(
          Buffer.from('--b\r\nContent-Disposition: form-data; name="f"; filename="f"\r\n\r\n'),
        );
      else controller.enqueue(Buffer.alloc(16_384, 'x'));
    },
  });
  assert.equal(
    await post(protectedSite, { 'content-type': 'multipart/form-data; boundary=b' }, { body: endless }),
    403,
  );
  assert.ok(pulled < 20, `${pulled} pieces were taken`);
});

test('CSRFMiddleware answers a form that is too large with 413 and a form that is not text with 400, and logs no CSRF failure', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const type = { 'content-type': 'application/x-www-form-urlencoded' };
  assert.equal(
    await post(protectedSite, type, { body: `_csrf_token=${token}&x=${'x'.repeat(10_000_000)}` }),
    413,
  );
  assert.equal(
    await post(protectedSite, type, {
      body: Buffer.concat([Buffer.from(`_csrf_token=${token}&x=`), Buffer.from([0xff])]),
    }),
    400,
  );
  assert.deepEqual(reasons(protectedSite), []);
});

test('CSRFMiddleware refuses a request if the tokens in the header and the form field differ, or if there are two token fields', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, login);
  const other = await tokenFrom(protectedSite);
  assert.equal(await post(protectedSite, { 'x-csrf-token': token }, { form: { _csrf_token: token } }), 200);
  assert.equal(await post(protectedSite, { 'x-csrf-token': token }, { form: { _csrf_token: other } }), 403); // each valid alone
  assert.equal(await post(protectedSite, { 'x-csrf-token': token }, { form: { _csrf_token: '' } }), 403);
  assert.equal(await post(protectedSite, {}, { form: { _csrf_token: [token, other] } }), 403);
  assert.equal(await post(protectedSite, {}, { form: { _csrf_token: [token, token] } }), 403);
  assert.equal(await post(protectedSite, { 'x-csrf-token': `${token}, ${token}` }), 403);
  assert.deepEqual(reasons(protectedSite), [...Array<string>(4).fill('token_twice'), 'token_malformed']);
});

test('CSRFMiddleware accepts a request with a bearer token and no cookie only if its option allows this', async () => {
  for (const exemptBearer of [false, true]) {
    await using protectedSite = site({ exemptBearer });
    const expected = exemptBearer ? 200 : 403;
    assert.equal(await post(protectedSite, { authorization: 'Bearer abc' }), expected);
    assert.equal(
      await post(protectedSite, { authorization: 'bearer abc', 'sec-fetch-site': 'cross-site' }),
      expected,
    );
    assert.equal(await post(protectedSite, { authorization: 'Basic abc' }), 403);
    assert.equal(await post(protectedSite, { authorization: 'Bearer abc', cookie: 'a=1' }), 403);
    assert.equal(await post(protectedSite), 403);
  }
});

for (const env of ['production', 'test'] as const) {
  test(`CSRFMiddleware answers 403 with a problem, and logs the event malicious_csrf once, without the token (${env})`, async () => {
    const outer: Middleware = {
      async handle(_req, next) {
        const response = await next();
        response.headers.set('X-Outer', 'yes');
        return response;
      },
    };
    await using protectedSite = new Site({ env, before: [outer], use: [new CSRFMiddleware()] });
    const token = await tokenFrom(protectedSite, login);
    const response = await protectedSite.visit(ok, {
      method: 'POST',
      headers: { 'sec-fetch-site': 'cross-site', 'x-csrf-token': token },
    });
    assert.deepEqual(
      [response.status, response.headers.get('content-type'), response.headers.get('x-outer')],
      [403, 'application/problem+json', 'yes'],
    );
    const body = (await response.json()) as Record<string, unknown>;
    assert.deepEqual(
      [body['code'], body['status'], body['detail'], body['request_id']],
      [
        'csrf_failed',
        403,
        'The request was sent by a page of another origin',
        response.headers.get('x-request-id'),
      ],
    );
    const [line, ...others] = protectedSite.audited('malicious_csrf');
    assert.deepEqual(
      [line!['level'], line!['reason'], line!['method'], line!['route'], line!['request_id'], others],
      ['warn', 'site', 'POST', '/', body['request_id'], []],
    );
    assert.ok(!JSON.stringify([protectedSite.events, body]).includes(token));
  });
}

test('CSRFMiddleware adds Vary: Sec-Fetch-Site, Origin to the response to every request that it checks, and to no other response', async () => {
  await using protectedSite = site({ exempt: ['/hooks/{p:path}'] });
  const token = await tokenFrom(protectedSite, login);
  const varyOf = async (request: Parameters<Site['visit']>[1]): Promise<string | null> =>
    (await protectedSite.visit(ok, request)).headers.get('vary');
  assert.equal(
    await varyOf({ method: 'POST', headers: { 'x-csrf-token': token } }),
    'Sec-Fetch-Site, Origin, Cookie',
  );
  assert.equal(await varyOf({ method: 'POST' }), 'Sec-Fetch-Site, Origin, Cookie');
  assert.equal(await varyOf({}), null);
  assert.equal(await varyOf({ method: 'POST', path: '/hooks/a' }), null);
});

test('csrfToken() returns a different token each time, and shared caches do not store a response with a token', async () => {
  await using protectedSite = site();
  await protectedSite.visit(login);
  const seen = new Set<string>();
  for (let round = 0; round < 100; round++)
    for (const part of (await tokenFrom(protectedSite)).split('.')) seen.add(part);
  assert.equal(seen.size, 200);
  for (const [given, expected] of [
    [undefined, 'no-store'],
    ['private, max-age=60', 'private, max-age=60'],
    ['public', 'private'],
  ] as const) {
    const page = await protectedSite.visit(
      (req) =>
        new JSONResponse(csrfToken(req), { headers: given === undefined ? {} : { 'Cache-Control': given } }),
    );
    assert.deepEqual([page.headers.get('cache-control'), page.headers.get('vary')], [expected, 'Cookie']);
  }
});

test('CSRFMiddleware checks the real method of a request, whatever method a header or form field names', async () => {
  await using protectedSite = site();
  await tokenFrom(protectedSite, login);
  for (const name of ['x-http-method-override', 'x-http-method', 'x-method-override'])
    assert.equal(await post(protectedSite, { [name]: 'GET' }), 403);
  assert.equal(await post(protectedSite, {}, { form: { _method: 'GET' } }), 403);
  assert.equal(await post(protectedSite, {}, { query: { _method: 'GET' } }), 403);
  const overridden = await protectedSite.visit((req) => ({ method: req.method }), {
    headers: { 'x-http-method-override': 'POST' },
  });
  assert.deepEqual(await overridden.json(), { method: 'GET' });
});

// ── further cases ──

test('the templates in the option "exempt" of CSRFMiddleware match paths in the same way as routes', async () => {
  await using protectedSite = site({ exempt: ['/hooks/{p:path}', '/hooks/{p:path}', '/exact'] });
  assert.equal(await post(protectedSite, { 'sec-fetch-site': 'cross-site' }, { path: '/hooks/pay/1' }), 200);
  assert.equal(await post(protectedSite, {}, { path: '/hooks/%70ay' }), 200);
  assert.equal(await post(protectedSite, {}, { path: '/exact' }), 404);
  for (const path of [
    '/',
    '/hooks',
    '/hooks/',
    '/HOOKS/a',
    '/hooksx/a',
    '/exact/more',
    '/hooks%2Fa',
    '/hooks/%zz',
  ])
    assert.equal(await post(protectedSite, {}, { path }), 403, path);
});

test('CSRFMiddleware accepts tokens of the previous secret, and refuses tokens of a removed secret', async () => {
  const withSecrets = (secrets: readonly string[]): Site =>
    new Site({ session: { secrets }, use: [new CSRFMiddleware()] });
  await using old = withSecrets([SECRET]);
  const token = await tokenFrom(old);
  const headers = { cookie: `svc_csrf=${old.client.cookies.get('svc_csrf')}`, 'x-csrf-token': token };
  await using both = withSecrets([NEXT_SECRET, SECRET]);
  await using removed = withSecrets([NEXT_SECRET]);
  assert.deepEqual([await post(both, headers), await post(removed, headers)], [200, 403]);
});

test('if a request starts a session and calls csrfToken(), the token is valid for the new session', async () => {
  await using protectedSite = site();
  const token = await tokenFrom(protectedSite, (req) => req.session.set('cart', []));
  assert.deepEqual(protectedSite.client.cookies.names(), ['svc_session']);
  assert.equal(await post(protectedSite, { 'x-csrf-token': token }), 200);
});

test('csrfToken() throws if there is no CSRFMiddleware, or if the response has been sent', async () => {
  await using plain = new Site();
  assert.equal((await plain.visit((req) => csrfToken(req))).status, 500);
  assert.equal(
    (plain.events.find((line) => line['event'] === 'unhandled_error')!['error'] as { code: string }).code,
    'E_CSRF_ABSENT',
  );
  await using protectedSite = site();
  let code: string | undefined;
  const response = await protectedSite.visit(
    (req) =>
      new StreamingResponse(
        (async function* () {
          yield 'a';
          try {
            csrfToken(req);
          } catch (error) {
            code = (error as { code: string }).code;
          }
        })(),
      ),
  );
  await response.text();
  assert.equal(code, 'E_SESSION_SENT');
});

test('if CSRFMiddleware has no session middleware before it, svc check reports a finding with a remedy, and the application does not compile (SVC121)', async () => {
  for (const [layers, expected] of [
    [
      [new CSRFMiddleware()],
      /no session middleware is registered, but each CSRF token must belong to a session/,
    ],
    [[new CSRFMiddleware(), new SessionMiddleware()], /is registered after the CSRF middleware/],
    [[new SessionMiddleware(), new CSRFMiddleware()], undefined],
  ] as const) {
    const app = new Svc({ authSecret: SECRET });
    for (const layer of layers) app.use(layer);
    const found = app.check().findings.filter(({ rule }) => rule === 'SVC121');
    assert.equal(found.length, expected === undefined ? 0 : 1);
    if (expected === undefined) continue;
    assert.match(found[0]!.message, expected);
    assert.match(
      found[0]!.remedy,
      /app\.use\(new SessionMiddleware\(\)\), then app\.use\(new CSRFMiddleware\(\)\)/,
    );
    await assert.rejects(app.startup(), { code: 'E_COMPILE' });
  }
  const app = new Svc({ authSecret: SECRET, env: 'production' });
  app.use(new SessionMiddleware()).use(new CSRFMiddleware({ cookie: { secure: false } }));
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => rule === 'SVC207')
      .map(({ subject }) => subject),
    ['middleware csrf'],
  );
});

/** A session middleware other than SessionMiddleware, with one session for all clients. */
class OtherSessions implements Middleware {
  readonly kind = 'session';
  readonly isNew: boolean;

  constructor(isNew: boolean) {
    this.isNew = isNew;
  }

  handle(req: HttpRequest, next: () => unknown): HttpResponse | Promise<HttpResponse> {
    const { isNew } = this;
    const session = {
      id: 'theirs',
      isNew,
      get: () => undefined,
      set() {
        /* the session is not stored */
      },
      delete() {
        /* none */
      },
      regenerate() {
        /* none */
      },
      destroy() {
        /* none */
      },
      flash() {
        /* none */
      },
      takeFlashes: () => [],
    };
    req.state.set(SESSION, session as unknown as Session);
    return next() as HttpResponse;
  }
}

test('CSRFMiddleware works with a custom session middleware if the application has a secret', async () => {
  for (const isNew of [false, true]) {
    await using protectedSite = new Site({
      before: [new OtherSessions(isNew)],
      use: [new CSRFMiddleware()],
      session: undefined,
      isWithoutSession: true,
    });
    const token = await tokenFrom(protectedSite);
    assert.deepEqual(protectedSite.client.cookies.names(), isNew ? ['svc_csrf'] : []);
    assert.deepEqual(
      [await post(protectedSite, { 'x-csrf-token': token }), await post(protectedSite)],
      [200, 403],
    );
  }
  const app = new Svc();
  app.use(new OtherSessions(false)).use(new CSRFMiddleware());
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule }) => rule),
    ['SVC205'],
  );
  const both = new Svc();
  both.use(new SessionMiddleware({ secrets: SECRET })).use(new CSRFMiddleware()); // the session's secret is enough
  assert.deepEqual(
    both
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule)),
    [],
  );
});

for (const env of ['production', 'test'] as const) {
  test(`over a socket, a visitor logs in, sends a form with a CSRF token and logs out (${env})`, async () => {
    await using protectedSite = site({}, { env, listen: true, ...stored(new ManualClock()) });
    const form = async (act: (req: HttpRequest) => unknown, token: string): Promise<Response> =>
      protectedSite.visit(
        async (req) => ({ text: (await req.form()).get('text'), did: (await act(req)) ?? null }),
        { method: 'POST', form: { text: 'hello', _csrf_token: token } },
      );
    const anonymous = await tokenFrom(protectedSite);
    assert.equal((await form(login, anonymous)).status, 200);
    const token = await tokenFrom(protectedSite);
    assert.deepEqual(await (await form((req) => req.session.get('user'), token)).json(), {
      text: 'hello',
      did: 'ada',
    });
    assert.equal((await form((req) => req.session.destroy(), token)).status, 200);
    assert.equal((await form(ok, token)).status, 403);
    assert.equal(await protectedSite.ask((req) => req.session.isNew), true);
  });
}

test('util.inspect() of a CSRFMiddleware, SessionMiddleware, session or request shows neither secrets nor tokens', async () => {
  const session = new SessionMiddleware({ secrets: SECRET, encrypt: true });
  const csrf = new CSRFMiddleware();
  await using protectedSite = new Site({ before: [session], use: [csrf], isWithoutSession: true });
  const printed = (await protectedSite.ask((req) => {
    req.session.set('pin', 'hidden-value');
    const token = csrfToken(req);
    return [token, inspect([session, csrf, req.session, req.state], { depth: 10, showHidden: true })];
  })) as [string, string];
  for (const secret of [SECRET, 'hidden-value', printed[0]]) assert.ok(!printed[1].includes(secret));
});

for (const [what, options, code] of [
  ['an unknown option', { exclude: [] }, 'E_OPTION_UNKNOWN'],
  ['a path that is no list', { exempt: '/a' }, 'E_OPTION_RANGE'],
  ['a template that cannot be read', { exempt: ['hooks'] }, 'E_PATH_TEMPLATE'],
  ['an origin with a path', { trustedOrigins: ['https://a.example/'] }, 'E_OPTION_RANGE'],
  ['the origin null', { trustedOrigins: ['null'] }, 'E_OPTION_RANGE'],
  ['every origin', { trustedOrigins: ['*'] }, 'E_OPTION_RANGE'],
  ['an origin in capitals', { trustedOrigins: ['https://A.example'] }, 'E_OPTION_RANGE'],
  ['an origin that is a number', { trustedOrigins: [5] }, 'E_OPTION_RANGE'],
  ['origins that are no list', { trustedOrigins: 'https://a.example' }, 'E_OPTION_RANGE'],
  ['a cookie that breaks its prefix', { cookie: { name: '__Host-a', path: '/x' } }, 'E_COOKIE'],
  ['a cookie that is a name', { cookie: 'a' }, 'E_OPTION_RANGE'],
] as const) {
  test(`CSRFMiddleware refuses ${what}`, () => {
    assert.throws(() => new CSRFMiddleware(options as unknown as CSRFOptions), { code });
  });
}
