/** Cookie mode: tokens in cookies, which BearerAuth() reads. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BearerAuth,
  CSRFMiddleware,
  CompressionMiddleware,
  Depends,
  Forbidden,
  RedirectResponse,
  requireScopes,
} from 'svc';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { LoginSite, claimsOf, cookiesOf, fakeProvider, refusedAs } from './support/site.ts';
import type { LoginSiteOptions } from './support/site.ts';
import type { Svc } from 'svc';
import type { TestClient } from 'svc/testing';

const OWN = { origin: 'https://app.example', 'sec-fetch-site': 'same-origin' };
const ACCESS = '__Host-svc_access',
  REFRESH = '__Host-svc_refresh',
  SESSION = '__Host-svc_session';
/** Attributes of a `Set-Cookie` field that removes a cookie. */
const GONE = [
  [ACCESS, '', ['HttpOnly', 'Max-Age=0', 'Path=/', 'SameSite=Lax', 'Secure']],
  [REFRESH, '', ['HttpOnly', 'Max-Age=0', 'Path=/', 'SameSite=Strict', 'Secure']],
  [SESSION, '', ['HttpOnly', 'Max-Age=0', 'Path=/', 'SameSite=Lax', 'Secure']],
];

function open(options: LoginSiteOptions = {}): Promise<LoginSite> {
  return LoginSite.open({
    env: 'production',
    ...options,
    plugin: { mode: 'cookie', scopes: ['read'], ...options.plugin },
    more: (app) => {
      app.route('/me', ['GET', 'POST'], { me: Depends(requireScopes('read')) }, ({ me }) => me.sub);
      options.more?.(app);
    },
  });
}

/** Adds a route that returns the subject in the session. */
function look(app: Svc): void {
  app.get('/look', ({ req }) => ({ user: req.session.get(currentUser) ?? null }));
}

/** Adds a route that logs out by OAuthPlugin.logout(). */
function leave(app: Svc, site: () => LoginSite): void {
  app.post('/leave', async ({ req }) => {
    const response = new RedirectResponse('/bye', { status: 303 });
    response.headers.set('X-Ended', String(await site().oauth.logout(req, response)));
    return response;
  });
}

async function login(site: LoginSite, client: TestClient = site.client): Promise<Response> {
  const { state } = await site.begin({}, { client });
  const response = await site.back({ code: 'c', state }, { client });
  assert.equal(response.status, 303, await response.clone().text());
  return response;
}

const post = (
  site: LoginSite,
  path: string,
  headers: Record<string, string>,
  form: Record<string, string> = {},
): Promise<Response> => site.client.post(path, { form, headers });

test('OAuth cookie mode: a login sets HttpOnly cookies with the tokens, and redirects to a local path', async () => {
  await using site = await open({ plugin: { afterLogin: '/home?x=1' } });
  const response = await login(site);
  assert.deepEqual(
    [response.headers.get('location'), response.headers.get('cache-control')],
    ['/home?x=1', 'no-store'],
  );
  const cookies = cookiesOf(response);
  assert.deepEqual(cookies.get(ACCESS)!.attributes, [
    'HttpOnly',
    'Max-Age=900',
    'Path=/',
    'SameSite=Lax',
    'Secure',
  ]);
  assert.deepEqual(cookies.get(REFRESH)!.attributes, [
    'HttpOnly',
    'Max-Age=7776000',
    'Path=/',
    'SameSite=Strict',
    'Secure',
  ]);
  const body = await response.text();
  for (const { value } of cookies.values())
    assert.ok(value === '' || (!body.includes(value) && !response.headers.get('location')!.includes(value)));
  assert.match(cookies.get(REFRESH)!.value, /^svcrt_1/);
});

test('OAuth cookie mode: outside production and without TLS, the token cookies have no "__Host-" prefix', async () => {
  await using site = await open({ env: 'test' });
  assert.deepEqual(
    [...cookiesOf(await login(site)).keys()].filter((name) => !name.startsWith('svc_oauth')),
    ['svc_access', 'svc_refresh'],
  );
});

test('OAuth cookie mode: a login redirects to the path in the parameter return_to, which JSON mode ignores', async () => {
  await using site = await open();
  const { state } = await site.begin({ return_to: '/cart' });
  assert.equal((await site.back({ code: 'c', state })).headers.get('location'), '/cart');
  await using json = await LoginSite.open();
  const begun = await json.begin({ return_to: 'https://evil.example/' });
  assert.equal((await json.back({ code: 'c', state: begun.state })).status, 200);
});

test('OAuth cookie mode: if claims make a token larger than a cookie, the login fails with 500 before anything is stored', async () => {
  await using site = await open({
    plugin: { onUser: () => ({ sub: 'ada', claims: { list: 'x'.repeat(4_000) } }) },
  });
  const { state } = await site.begin();
  await refusedAs(await site.back({ code: 'c', state }), 500, 'server_error');
  assert.deepEqual(await site.oauth.listSessions('ada'), []);
  assert.ok(site.events.some(({ error }) => JSON.stringify(error)?.includes('E_OAUTH_USER')));
});

test('OAuth without cookie mode: claims that make an access token too long for BearerAuth() are logged once', async () => {
  await using site = await LoginSite.open({
    plugin: { onUser: () => ({ sub: 'ada', claims: { list: 'x'.repeat(7_000) } }) },
    more: (app) =>
      void app
        .get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub)
        .get('/long', { me: Depends(BearerAuth(undefined, { maxLength: 12_000 })) }, ({ me }) => me.sub),
  });
  for (let count = 0; count < 2; count++) {
    const { access_token: token } = await site.login();
    const ask = async (path: string): Promise<number> =>
      (await site.client.get(path, { headers: { authorization: `Bearer ${token}` } })).status;
    assert.deepEqual([await ask('/me'), await ask('/long')], [401, 200]);
  }
  assert.deepEqual(
    site.events
      .filter(({ event }) => event === 'access_token_long')
      .map(({ level, hook, characters }) => [level, hook, Number(characters) > 8_192]),
    [['warn', 'onUser', true]],
  );
});

test('OAuth cookie mode: the access cookie authenticates a request only if the request has no Authorization header', async () => {
  await using site = await open();
  assert.equal((await site.client.get('/me')).status, 401);
  await login(site);
  assert.equal(await (await site.client.get('/me')).text(), 'user-ada');
  assert.equal((await site.client.get('/me', { headers: { authorization: 'Bearer nonsense' } })).status, 401);
  await site.clock.advance(900_000);
  assert.equal((await site.client.get('/me')).status, 401, 'it is over');
  await using json = await LoginSite.open({
    more: (app) => app.get('/me', { me: Depends(requireScopes('read')) }, ({ me }) => me.sub),
  });
  const { access_token: token } = await json.login();
  assert.equal(
    (await json.client.get('/me', { headers: { cookie: `svc_access=${token}` } })).status,
    401,
    'in JSON mode there is no such cookie',
  );
});

test('OAuth cookie mode: the access cookie is ignored in unsafe methods and WebSocket handshakes that come from another origin', async () => {
  await using site = await open();
  await login(site);
  const status = async (method: string, headers: Record<string, string>): Promise<number> =>
    (await site.client.request(method, '/me', { headers })).status;
  const foreign: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    { origin: 'http://app.example:81' },
    { origin: 'https://sub.app.example' },
  ];
  for (const headers of foreign) assert.equal(await status('POST', headers), 401, JSON.stringify(headers));
  for (const headers of [OWN, { origin: 'https://app.example' }, { 'sec-fetch-site': 'none' }, {}])
    assert.equal(await status('POST', headers as Record<string, string>), 200);
  assert.equal(await status('GET', { 'sec-fetch-site': 'cross-site' }), 200, 'a link from elsewhere');
  assert.equal(await status('GET', { origin: 'https://evil.example', upgrade: 'websocket' }), 401);
});

test('OAuth cookie mode: a page of the same origin can refresh its tokens with the refresh cookie, and gets new cookies', async () => {
  await using site = await open();
  await login(site);
  const [access, refresh] = [site.client.cookies.get(ACCESS)!, site.client.cookies.get(REFRESH)!];
  await site.clock.advance(60_000);
  const response = await post(site, '/oauth/token', OWN);
  assert.equal(response.status, 200);
  assert.deepEqual(await response.json(), { token_type: 'Cookie', expires_in: 900, scope: 'read' });
  assert.equal(response.headers.get('cache-control'), 'no-store');
  assert.notEqual(site.client.cookies.get(ACCESS), access);
  assert.notEqual(site.client.cookies.get(REFRESH), refresh);
  assert.equal(claimsOf(site.client.cookies.get(ACCESS)!)['sid'], claimsOf(access)['sid']);
  assert.ok(
    cookiesOf(response)
      .get(REFRESH)!
      .attributes.some((each) => /^Max-Age=77759\d\d$/.test(each)),
    'not beyond the absolute end',
  );
  assert.equal((await post(site, '/oauth/token', { origin: 'https://app.example' })).status, 200);
});

test('OAuth cookie mode: a request that does not prove the same origin cannot refresh, revoke or set a cookie', async () => {
  await using site = await open();
  await login(site);
  const token = site.client.cookies.get(REFRESH)!;
  const attacker = site.browser();
  await login(site, attacker);
  const foreign: Record<string, string>[] = [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site', origin: 'https://sub.app.example' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
  ];
  for (const path of ['/oauth/token', '/oauth/revoke']) {
    for (const headers of [...foreign, {}]) {
      const response = await post(site, path, headers);
      assert.deepEqual(response.headers.getSetCookie(), []);
      await refusedAs(response, 403, 'invalid_request');
    }
    for (const headers of foreign) {
      const response = await post(site, path, headers, { refresh_token: attacker.cookies.get(REFRESH)! }); // login CSRF: a page makes the browser refresh with the attacker's token
      assert.deepEqual(response.headers.getSetCookie(), []);
      await refusedAs(response, 403, 'invalid_request');
    }
  }
  assert.equal(site.client.cookies.get(REFRESH), token);
  assert.equal((await site.client.get('/me')).status, 200);
  assert.deepEqual(
    [...new Set(site.audited('token_refused').map(({ category }) => category))],
    ['malicious_csrf'],
  );
  assert.equal((await post(site, '/oauth/token', OWN)).status, 200);
});

test('OAuth cookie mode: with concurrency "strict", the responses to refused concurrent refreshes do not clear the cookies', async () => {
  await using site = await open({ plugin: { concurrency: 'strict', limits: { token: false } } });
  await login(site);
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => site.client.post('/oauth/token', { headers: OWN })),
  );
  const losers = answers.filter(({ status }) => status === 400);
  assert.equal(losers.length, 4);
  for (const { headers } of losers) assert.deepEqual(headers.getSetCookie(), []);
  assert.equal((await post(site, '/oauth/token', OWN)).status, 200);
});

test('OAuth cookie mode: if the response to a refresh was lost, the browser can repeat the refresh for ten seconds', async () => {
  await using site = await open();
  await login(site);
  const lost = { ...OWN, cookie: `${REFRESH}=${site.client.cookies.get(REFRESH)!}` };
  const first = cookiesOf(await post(site, '/oauth/token', lost)).get(REFRESH)!.value;
  await site.clock.advance(5_000);
  assert.equal(cookiesOf(await post(site, '/oauth/token', lost)).get(REFRESH)!.value, first);
  await site.clock.advance(10_000);
  await refusedAs(await post(site, '/oauth/token', lost), 400, 'invalid_grant');
});

test('OAuth cookie mode: a logout by cookie clears the cookies and the session, but a revocation of a token in the body leaves them unchanged', async () => {
  await using site = await open({ hasSession: true, more: look });
  await login(site);
  const other = site.browser();
  await login(site, other);
  const byToken = await post(site, '/oauth/revoke', {}, { token: other.cookies.get(REFRESH)! });
  assert.deepEqual([byToken.status, byToken.headers.getSetCookie()], [200, []]);
  assert.deepEqual(await (await site.client.get('/look')).json(), { user: 'user-ada' });

  const response = await post(site, '/oauth/revoke', OWN);
  assert.equal(response.status, 200);
  for (const name of [ACCESS, REFRESH])
    assert.ok(cookiesOf(response).get(name)!.attributes.includes('Max-Age=0'));
  assert.deepEqual(
    site.client.cookies.names().filter((name) => /access|refresh/.test(name)),
    [],
  );
  assert.deepEqual(await (await site.client.get('/look')).json(), { user: null });
  assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
});

test('OAuth cookie mode: a logout from the same origin without the refresh cookie ends the login of the session, and clears the access and session cookies', async () => {
  await using site = await open({ hasSession: true, more: look });
  await login(site);
  const others: Record<string, string>[] = [
    {},
    { 'sec-fetch-site': 'cross-site' },
    { origin: 'https://evil.example' },
  ];
  const { [ACCESS]: access, [SESSION]: session } = Object.fromEntries(
    [ACCESS, SESSION].map((name) => [name, site.client.cookies.get(name)!]),
  );
  const left = site.browser();
  const headers = { cookie: `${ACCESS}=${access}; ${SESSION}=${session}` };
  for (const foreign of others) {
    const response = await left.post('/oauth/revoke', { headers: { ...headers, ...foreign } });
    assert.deepEqual(response.headers.getSetCookie(), []);
    await refusedAs(response, 400, 'invalid_request');
  }
  const response = await left.post('/oauth/revoke', { headers: { ...headers, ...OWN } });
  assert.deepEqual(
    [response.status, await response.text(), response.headers.get('cache-control')],
    [200, '', 'no-store'],
  );
  assert.deepEqual(
    [...cookiesOf(response)].map(([name, { value, attributes }]) => [name, value, attributes]).toSorted(),
    GONE,
  );
  assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
  assert.equal(site.audited('token_revoked').length, 1);
  assert.equal(
    (await site.browser().post('/oauth/revoke', { headers: { origin: 'https://app.example' } })).status,
    200,
    'nothing at all',
  );
  await using json = await LoginSite.open();
  await refusedAs(
    await json.client.post('/oauth/revoke', {
      headers: { origin: 'http://localhost', 'sec-fetch-site': 'same-origin' },
    }),
    400,
    'invalid_request',
  );
});

test('OAuth cookie mode: logout() in a handler ends the login and the session, clears the cookies, and returns whether there was a login', async () => {
  await using site: LoginSite = await open({
    hasSession: true,
    more: (app) => {
      look(app);
      leave(app, () => site);
    },
  });
  await login(site);
  const other = site.browser();
  await login(site, other);
  const before = site.client.cookies.get(REFRESH)!;
  const response = await post(site, '/leave', OWN);
  assert.deepEqual(
    [response.status, response.headers.get('x-ended'), response.headers.get('location')],
    [303, 'true', '/bye'],
  );
  assert.deepEqual(
    [...cookiesOf(response)].map(([name, { value, attributes }]) => [name, value, attributes]).toSorted(),
    GONE,
  );
  assert.deepEqual(
    site.client.cookies.names().filter((name) => [ACCESS, REFRESH, SESSION].includes(name)),
    [],
  );
  assert.deepEqual(await (await site.client.get('/look')).json(), { user: null });
  assert.deepEqual(
    site.audited('token_revoked').map(({ reason, request_id: id }) => [reason, id]),
    [['logout', response.headers.get('x-request-id')]],
  );
  assert.equal((await site.oauth.listSessions('user-ada')).length, 1, 'that of the other browser');
  assert.equal((await other.get('/me')).status, 200);
  await refusedAs(
    await post(site, '/oauth/token', { ...OWN, cookie: `${REFRESH}=${before}` }),
    400,
    'invalid_grant',
  );

  for (const cookie of [`${REFRESH}=${before}`, `${REFRESH}=nonsense`, '']) {
    const again = await post(site, '/leave', { ...OWN, cookie });
    assert.deepEqual(
      [
        again.status,
        again.headers.get('x-ended'),
        [...cookiesOf(again).keys()].filter((name) => name !== SESSION).toSorted(),
      ],
      [303, 'false', [ACCESS, REFRESH]],
      cookie,
    );
  }
  assert.equal((await site.oauth.listSessions('user-ada')).length, 1);
});

test('OAuth logout() clears the token cookies in cookie mode even without SessionMiddleware, and ends the login of the session in JSON mode', async () => {
  await using bare: LoginSite = await open({ more: (app) => leave(app, () => bare) });
  await login(bare);
  const response = await post(bare, '/leave', OWN);
  assert.deepEqual(
    [response.headers.get('x-ended'), [...cookiesOf(response).keys()].toSorted()],
    ['true', [ACCESS, REFRESH]],
  );
  await using json: LoginSite = await LoginSite.open({
    hasSession: true,
    more: (app) => {
      look(app);
      leave(app, () => json);
    },
  });
  await json.login();
  assert.deepEqual(await (await json.client.get('/look')).json(), { user: 'user-ada' });
  const left = await json.client.post('/leave');
  assert.deepEqual([left.headers.get('x-ended'), [...cookiesOf(left).keys()]], ['true', ['svc_session']]);
  assert.deepEqual(await (await json.client.get('/look')).json(), { user: null });
  assert.deepEqual(await json.oauth.listSessions('user-ada'), []);
});

test('OAuth cookie mode: if the database does not respond, logout() fails and clears nothing', async () => {
  await using site: LoginSite = await open({ more: (app) => leave(app, () => site) });
  await login(site);
  await site.app.state.db.execute('ALTER TABLE svc_oauth_login RENAME TO elsewhere');
  const response = await post(site, '/leave', OWN);
  assert.deepEqual(
    [response.status, response.headers.get('retry-after'), response.headers.getSetCookie()],
    [503, '1', []],
  );
  assert.equal(site.audited('token_store_failed').length, 1);
  await site.app.state.db.execute('ALTER TABLE elsewhere RENAME TO svc_oauth_login');
  assert.equal((await post(site, '/leave', OWN)).headers.get('x-ended'), 'true');
});

test('OAuth cookie mode: a refresh with an invalid cookie is refused, and a logout deletes the invalid cookie', async () => {
  await using site = await open();
  const headers = { ...OWN, cookie: `${REFRESH}=nonsense` };
  await refusedAs(await post(site, '/oauth/token', headers), 400, 'invalid_grant');
  const response = await post(site, '/oauth/revoke', headers);
  assert.deepEqual([response.status, response.headers.getSetCookie().length], [200, 2]);
});

test('OAuth cookie mode: a callback with response_mode=form_post that arrives with the login cookie redirects to a local path', async () => {
  await using site = await open();
  const { state } = await site.begin();
  const response = await site.client.post('/oauth/callback', { form: { code: 'c', state } });
  assert.deepEqual([response.status, response.headers.get('location')], [303, '/']);
});

test('OAuth cookie mode: CSRFMiddleware checks every route except those of OAuthPlugin, which check the origin themselves', async () => {
  await using site = await open({
    hasSession: true,
    more: (app) => app.use(new CSRFMiddleware()).post('/other', () => 'done'),
  });
  const { state } = await site.begin();
  assert.equal(
    (
      await site.client.post('/oauth/callback', {
        form: { code: 'c', state },
        headers: { origin: 'https://provider.example', 'sec-fetch-site': 'cross-site' },
      })
    ).status,
    303,
  );
  assert.equal((await post(site, '/oauth/token', OWN)).status, 200);
  await refusedAs(
    await post(site, '/oauth/token', { 'sec-fetch-site': 'cross-site' }),
    403,
    'invalid_request',
  );
  assert.equal((await post(site, '/other', OWN)).status, 403);
  assert.equal((await post(site, '/oauth/revoke', OWN)).status, 200);
});

const BROWSER = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' };

test('OAuth cookie mode: a browser sees why onUser() refuses a login, in the words of the exception', async () => {
  const words = 'Nur für Leute von <example.com>';
  const onUser = (): never => {
    throw new Forbidden(words);
  };
  await using site = await open({ plugin: { onUser } });
  const failed = async (headers: Record<string, string>): Promise<Response> => {
    const { state } = await site.begin();
    return site.client.get('/oauth/callback', { query: { code: 'c', state }, headers });
  };
  assert.match(await (await failed(BROWSER)).text(), /<p>Nur für Leute von &#60;example\.com&#62;\.<\/p>/);
  const { error_description: ascii } = (await (await failed({})).json()) as { error_description: string };
  assert.equal(ascii, 'Nur f?r Leute von <example.com>', 'RFC 6749 allows only ASCII');
});

test('OAuth cookie mode: after a failed login, a browser gets an HTML page with a link back, and a program gets JSON', async () => {
  await using site = await open({ hasSession: true });
  const { state } = await site.begin();
  const cancelled = { error: 'access_denied', state };
  const page = await site.client.get('/oauth/callback', { query: cancelled, headers: BROWSER });
  const text = await page.text();
  assert.deepEqual(
    [page.status, page.headers.get('content-type'), page.headers.get('cache-control')],
    [400, 'text/html; charset=utf-8', 'no-store'],
  );
  assert.match(
    text,
    /<p>The login was cancelled, or the identity provider refused it\.<\/p>[^]*href="\/oauth\/login"[^]*href="\/"[^]*access_denied, request [\w-]+</,
  );
  assert.match(
    page.headers.get('content-security-policy')!,
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'$/,
  );
  assert.ok(
    [...cookiesOf(page).values()].some(({ attributes }) => attributes.includes('Max-Age=0')),
    'the cookie of the login goes all the same',
  );
  for (const accept of [
    '*/*',
    'application/json',
    'text/html;q=0',
    'application/json, text/html;q=0.0, */*',
    'text/htmlx',
    'x-text/html',
  ]) {
    await refusedAs(
      await site.client.get('/oauth/callback', { query: { code: 'c', state }, headers: { accept } }),
      400,
      'invalid_state',
    );
  }
  for (const path of ['/oauth/token', '/oauth/nothing', '/oauth/nothing/login']) {
    const response = await site.client.get(path, { headers: BROWSER });
    assert.deepEqual(
      [response.status >= 400, response.headers.get('content-type')],
      [true, 'application/json'],
      path,
    );
  }
  const mistaken = await site.client.get('/oauth/login', {
    query: { redirect_uri: 'https://evil.example/<script>' },
    headers: BROWSER,
  });
  assert.deepEqual([mistaken.status, /<script|evil/.test(await mistaken.text())], [400, false]);
});

test('OAuth error page: the link on the page starts a login at the same provider, even if there are several redirect URIs', async () => {
  const uris = [
    'https://app.example/oauth/one/callback',
    'https://app.example/oauth/two/callback',
    'https://other.example/oauth/two/callback',
    'https://app.example/elsewhere',
  ];
  await using site = await open({ names: ['one', 'two'], plugin: { allowedRedirectUris: uris } });
  const linkOn = async (path: string, query: Record<string, string> = {}): Promise<string | undefined> =>
    /href="([^"]+)">Log in again/.exec(
      await (await site.client.get(path, { query, headers: BROWSER })).text(),
    )?.[1];
  for (const [name, uri] of [
    ['one', uris[0]],
    ['two', uris[1]],
  ] as const) {
    for (const path of [`/oauth/${name}/callback`, `/oauth/${name}/login`]) {
      const link = await linkOn(path, {
        error: 'access_denied',
        state: 'x',
        redirect_uri: 'https://evil.example/oauth/one/callback',
      });
      assert.equal(link, `/oauth/${name}/login?${new URLSearchParams({ redirect_uri: uri! })}`);
      assert.equal((await site.client.get(link)).status, 302);
    }
  }
  assert.equal(await linkOn('/oauth/callback', { error: 'access_denied', state: 'x' }), undefined);
});

test('OAuth cookie mode: a browser gets the error page even if CompressionMiddleware has compressed the error response', async () => {
  await using site = await open({
    more: (app) => void app.use(new CompressionMiddleware({ thresholdBytes: 0 })),
  });
  const ask = (accept: string): Promise<Response> =>
    site.client.get('/oauth/callback', {
      query: { error: 'access_denied', state: 'x' },
      headers: { accept, 'accept-encoding': 'gzip' },
    });
  const page = await ask(BROWSER.accept);
  assert.deepEqual(
    [page.status, page.headers.get('content-type'), page.headers.get('content-encoding')],
    [400, 'text/html; charset=utf-8', null],
  );
  assert.match(await page.text(), /<small>invalid_state, request /);
  const json = await ask('application/json');
  assert.deepEqual(
    [json.status, json.headers.get('content-type'), json.headers.get('content-encoding')],
    [400, 'application/json', 'gzip'],
  );
});

test('OAuth cookie mode: if errorPath is set, every failed login in a browser redirects to that path', async () => {
  await using site = await open({
    env: 'test',
    plugin: {
      errorPath: '/sorry?from=login#top',
      onUser: () => {
        throw new Error('a mistake');
      },
      limits: { login: 2 },
    },
  });
  const { state } = await site.begin();
  const { state: second } = await site.begin();
  const led = async (response: Response, code: string): Promise<void> => {
    assert.equal(response.status, 303);
    assert.match(
      response.headers.get('location')!,
      new RegExp(`^/sorry\\?from=login&error=${code}&request_id=[\\w-]+#top$`),
    );
    assert.deepEqual(
      [await response.text(), response.headers.get('content-type'), response.headers.get('cache-control')],
      ['', null, 'no-store'],
    );
  };
  const back = (query: Record<string, string>): Promise<Response> =>
    site.client.get('/oauth/callback', { query, headers: BROWSER });
  await led(await back({ error: 'access_denied', state }), 'access_denied');
  await led(await back({ code: 'c', state: second }), 'server_error');
  await led(await back({ code: 'c', state: second }), 'invalid_state');
  await led(await site.client.get('/oauth/login', { headers: BROWSER }), 'rate_limited');
  await refusedAs(
    await site.client.get('/oauth/callback', { query: { code: 'c', state } }),
    400,
    'invalid_state',
  );
});

test('OAuth without cookie mode: a failed login is answered by JSON, even to a browser', async () => {
  await using site = await LoginSite.open({ plugin: { errorPath: '/sorry' } });
  await refusedAs(
    await site.client.get('/oauth/callback', { query: { code: 'c', state: 'x' }, headers: BROWSER }),
    400,
    'invalid_state',
  );
});

test('OAuth cookie mode: the option "errorPath" must be a local path outside the routes of OAuthPlugin', async () => {
  await using site = await LoginSite.open();
  for (const errorPath of [
    'https://app.example/sorry',
    '//evil.example',
    'sorry',
    '/oauth',
    '/oauth/login',
    '/\\evil.example',
  ]) {
    assert.throws(
      () =>
        new OAuthPlugin({ provider: fakeProvider(site.fake), onUser: () => 'x', mode: 'cookie', errorPath }),
      { code: 'E_OPTION_RANGE' },
      errorPath,
    );
  }
});
