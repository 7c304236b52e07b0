/** `/oauth/login`: redirect, state, cookie, limits. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Keyring } from '../../src/crypto/keys.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { LoginStates, challengeOf, verifierOf } from '../../src/oauth/login-state.ts';
import { MemoryRecordStore } from '../../src/cache/stores.ts';
import { SingleUse } from '../../src/oauth/single-use.ts';
import { LoginSite, SECRET, cookiesOf, fakeProvider, refusedAs } from './support/site.ts';

const NOTHING_USED = new SingleUse(new MemoryRecordStore());

const OPENID = (site: { readonly url: string }) => ({
  issuer: site.url,
  metadata: {
    issuer: site.url,
    authorization_endpoint: `${site.url}/authorize`,
    token_endpoint: `${site.url}/token`,
    jwks_uri: `${site.url}/jwks`,
    response_types_supported: ['code'],
  },
});

test('OAuth login: a login redirects to the authorization endpoint with all parameters of the authorization code flow and PKCE S256', async () => {
  await using site = await LoginSite.open({ provider: { scopes: ['read:user', 'user:email'] } });
  const { response, page } = await site.begin();
  assert.equal(response.status, 302);
  assert.equal(`${page.origin}${page.pathname}`, `${site.fake.url}/authorize`);
  const { state, code_challenge: challenge, ...rest } = Object.fromEntries(page.searchParams);
  assert.deepEqual(rest, {
    response_type: 'code',
    client_id: 'client',
    redirect_uri: 'http://localhost/oauth/callback',
    scope: 'read:user user:email',
    code_challenge_method: 'S256',
  });
  assert.match(challenge!, /^[\w-]{43}$/);
  assert.match(state!, /^[\w-]+\.\w+\.[\w-]{43}\.[\w-]{22}$/);
});

test('OAuth login: the authorization URL has a nonce if the scopes contain openid', async () => {
  await using first = await LoginSite.open();
  assert.equal((await first.begin()).page.searchParams.get('nonce'), null);
  await using site = await LoginSite.open({ names: ['one'], provider: OPENID(first.fake) });
  assert.match((await site.begin()).page.searchParams.get('nonce')!, /^[\w-]{43}$/);
});

test('OAuth login: the authorization URL contains no client secret, no code verifier and no internal data of the server', async () => {
  await using site = await LoginSite.open();
  const { page, state } = await site.begin();
  assert.deepEqual([...page.searchParams.keys()].toSorted(), [
    'client_id',
    'code_challenge',
    'code_challenge_method',
    'redirect_uri',
    'response_type',
    'state',
  ]);
  const { id, key } = Keyring.of(SECRET).derive('svc-oauth-pkce').current;
  assert.equal(state.slice(0, state.indexOf('.')), id);
  const verifier = verifierOf(state, key);
  assert.equal(challengeOf(verifier), page.searchParams.get('code_challenge'));
  for (const secret of ['client-secret-9f2c', SECRET, verifier]) assert.ok(!page.href.includes(secret));
});

test('OAuth login: parameters in the configured authorization URL are kept, and no parameter occurs twice', async () => {
  await using other = await LoginSite.open();
  await using site = await LoginSite.open({
    provider: { authorizeUrl: `${other.fake.url}/authorize?tenant=a%20b&state=fixed&prompt=login` },
  });
  const { page } = await site.begin({ prompt: 'none' });
  assert.equal(page.searchParams.get('tenant'), 'a b');
  assert.deepEqual(page.searchParams.getAll('prompt'), ['login']);
  assert.notEqual(page.searchParams.get('state'), 'fixed');
  for (const name of page.searchParams.keys()) assert.equal(page.searchParams.getAll(name).length, 1, name);
});

test('OAuth login: each login has a different state, nonce and PKCE challenge, and a state has 256 random bits', async () => {
  await using site = await LoginSite.open();
  const [one, two] = [await site.begin(), await site.begin()];
  for (const name of ['state', 'code_challenge'])
    assert.notEqual(one.page.searchParams.get(name), two.page.searchParams.get(name));
  const states = new LoginStates({
    used: NOTHING_USED,
    clock: new ManualClock(),
    env: 'test',
    keys: Keyring.of(SECRET),
    ttlSeconds: 600,
  });
  const seen = new Set<string>();
  for (let count = 0; count < 10_000; count++) {
    const { state, nonce, challenge } = states.begin({ scheme: 'http', cookies: {} } as never, {
      provider: 'p',
      redirectUri: 'r',
      returnTo: null,
      scopes: null,
      keyThumbprint: null,
      client: null,
      link: null,
    });
    assert.equal(Buffer.from(state.split('.')[2]!, 'base64url').length, 32);
    for (const value of [state, nonce, challenge]) seen.add(value);
  }
  assert.equal(seen.size, 30_000);
});

test('OAuth login: the redirect to the provider has "Cache-Control: no-store" and "Referrer-Policy: no-referrer"', async () => {
  await using site = await LoginSite.open();
  const { headers } = (await site.begin()).response;
  assert.deepEqual(
    [headers.get('cache-control'), headers.get('referrer-policy')],
    ['no-store', 'no-referrer'],
  );
});

test('OAuth login: the login cookie is host-only and HttpOnly, and expires together with its state', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const [[name, { value, attributes }]] = [...cookiesOf((await site.begin()).response)] as [
    [string, { value: string; attributes: string[] }],
  ];
  assert.match(name, /^__Host-svc_oauth_[\da-f]{8}$/);
  assert.match(value, /^e1\.[\w-]+\.\d+\.\d+\.[\w-]+$/);
  assert.deepEqual(attributes, ['HttpOnly', 'Max-Age=600', 'Path=/', 'SameSite=Lax', 'Secure']);
  await using short = await LoginSite.open({ plugin: { stateTtlSeconds: 60 } });
  const { response, state } = await short.begin();
  assert.deepEqual(
    [...cookiesOf(response).values()].map((cookie) => cookie.attributes),
    [['HttpOnly', 'Max-Age=60', 'Path=/', 'SameSite=Lax']],
    'without TLS, outside production',
  );
  await short.clock.advance(60_000);
  await refusedAs(await short.back({ code: 'c', state }), 400, 'invalid_state');
});

test('OAuth login: if one browser starts nine logins, the latest eight of them can be finished', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const begun = [];
  for (let count = 0; count < 9; count++) {
    await site.clock.advance(1_000);
    begun.push(await site.begin());
    assert.equal(site.client.cookies.names().length, Math.min(8, count + 1));
  }
  await refusedAs(await site.back({ code: 'c', state: begun[0]!.state }), 400, 'state_browser_mismatch');
  for (const { state } of begun.slice(1).toReversed())
    assert.equal((await site.back({ code: 'c', state })).status, 200);
  assert.deepEqual(site.client.cookies.names(), []);
});

test('OAuth login: if a browser has more than eight login cookies, forged ones are deleted first, so that they cannot prevent a login', async () => {
  await using site = await LoginSite.open();
  for (let count = 0; count < 20; count++)
    site.client.cookies.set(`svc_oauth_0000000${count.toString(36)}`, 'x');
  const { state } = await site.begin();
  assert.equal(site.client.cookies.names().length, 8);
  assert.equal((await site.back({ code: 'c', state })).status, 200);
});

test('OAuth login: one IP address may start twenty logins per minute', async () => {
  await using site = await LoginSite.open();
  for (let count = 0; count < 20; count++) await site.begin();
  const refused = await site.client.get('/oauth/login');
  assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/);
  await refusedAs(refused, 429, 'rate_limited');
});

test('OAuth login: all addresses of one IPv6 /48 network together may start ten times as many logins as one address', async () => {
  await using site = await LoginSite.open({ app: { config: { trustProxy: 'loopback' } } });
  const begin = async (ip: string): Promise<number> =>
    (await site.browser().get('/oauth/login', { headers: { 'x-forwarded-for': ip } })).status;
  const statuses: number[] = [];
  for (let count = 0; count < 210; count++) statuses.push(await begin(`2001:db8:1:${count.toString(16)}::1`));
  assert.deepEqual([statuses.filter((status) => status === 302).length, statuses.at(-1)], [200, 429]);
  assert.equal(site.audited('rate_limited').length, 1, 'one line for the site');
  assert.deepEqual([await begin('2001:db8:2::1'), await begin('192.0.2.1')], [302, 302]);
});

test('OAuth login: an X-Forwarded-For header from a proxy that is not trusted is logged once, even without RateLimitMiddleware', async () => {
  await using site = await LoginSite.open();
  await site.client.get('/oauth/login', { headers: { 'x-forwarded-for': '192.0.2.1' } });
  await site.client.get('/oauth/login', { headers: { 'x-forwarded-for': '192.0.2.2' } });
  assert.equal(site.events.filter(({ event }) => event === 'proxy_not_trusted').length, 1);
});

test('OAuth login: the start of a login writes no database row, and 500 unfinished logins do not prevent an earlier login from finishing', async () => {
  await using site = await LoginSite.open({ env: 'production', plugin: { limits: { login: false } } });
  const { state } = await site.begin();
  const tables = async (): Promise<unknown> =>
    Promise.all(
      ['login', 'state', 'used', 'subject'].map((name) =>
        site.app.state.db.scalar(`SELECT COUNT(*) FROM svc_oauth_${name}`),
      ),
    );
  const lines = site.audited().filter(({ level }) => level !== 'debug').length;
  for (let count = 0; count < 500; count++) await site.begin({}, { client: site.browser() });
  assert.deepEqual(await tables(), [0, 0, 0, 0]);
  assert.equal(site.audited().filter(({ level }) => level !== 'debug').length, lines);
  assert.equal((await site.back({ code: 'c', state })).status, 200);
  assert.deepEqual(await tables(), [1, 0, 1, 0], 'written at the callback');
});

test('OAuth login: the total size of login cookies is limited, however long return_to is', async () => {
  await using site = await LoginSite.open({ plugin: { mode: 'cookie' } });
  for (let count = 0; count < 12; count++) {
    await site.clock.advance(1_000);
    await site.begin({ return_to: `/${'a'.repeat(1_999)}` });
    const cookies = site.client.cookies.names().map((name) => site.client.cookies.get(name)!.length);
    assert.ok(cookies.reduce((sum, length) => sum + length, 0) <= 6_144, String(cookies));
  }
  await refusedAs(
    await site.client.get('/oauth/login', { query: { return_to: `/${'a'.repeat(2_000)}` } }),
    400,
    'invalid_request',
  );
});

test('OAuth login: the login cookie is encrypted and valid only with its state, and the code verifier is not stored on the server', async () => {
  const keys = Keyring.of(SECRET);
  const states = new LoginStates({
    used: NOTHING_USED,
    clock: new ManualClock(),
    env: 'production',
    keys,
    ttlSeconds: 600,
  });
  const cookies: Record<string, string> = {};
  const begin = (): string => {
    const begun = states.begin({ scheme: 'https', cookies: {} } as never, {
      provider: 'p',
      redirectUri: 'https://app.example/cb',
      returnTo: '/x',
      scopes: null,
      keyThumbprint: null,
      client: null,
      link: null,
    });
    begun.remember({
      setCookie: (name: string, value: string) => {
        cookies[name] = value;
      },
    } as never);
    return begun.state;
  };
  const [state, other] = [begin(), begin()];
  const [name, otherName] = Object.keys(cookies) as [string, string];
  const text = Buffer.from(cookies[name]!.split('.').at(-1)!, 'base64url').toString('latin1') + cookies[name];
  for (const secret of ['app.example', '/x', verifierOf(state, keys.derive('svc-oauth-pkce').current.key)])
    assert.ok(!text.includes(secret));
  const at = (given: Record<string, string>): never => ({ scheme: 'https', cookies: given }) as never;
  await assert.rejects(states.take(at({ [name]: cookies[otherName]! }), state, 'p'), {
    code: 'state_browser_mismatch',
    reason: 'other_browser',
  });
  await assert.rejects(states.take(at({ [name]: cookies[name]! }), other, 'p'), {
    code: 'state_browser_mismatch',
    reason: 'no_cookie',
  });
  assert.deepEqual((await states.take(at(cookies), state, 'p')).login, {
    provider: 'p',
    redirectUri: 'https://app.example/cb',
    returnTo: '/x',
    scopes: null,
    keyThumbprint: null,
    client: null,
    link: null,
  });
});

test('OAuth login: HEAD requests, POST requests and prefetches start no login', async () => {
  await using site = await LoginSite.open();
  const looks: Record<string, string>[] = [
    { 'sec-purpose': 'prefetch' },
    { 'sec-purpose': 'prefetch;prerender' },
    { purpose: 'prefetch' },
    { 'x-moz': 'prefetch' },
  ];
  const answers = [
    await site.client.head('/oauth/login'),
    ...(await Promise.all(looks.map((headers) => site.client.get('/oauth/login', { headers })))),
  ];
  for (const { status, headers } of answers)
    assert.deepEqual(
      [status, headers.getSetCookie(), headers.get('location'), headers.get('cache-control')],
      [204, [], null, 'no-store'],
    );
  const posted = await site.client.post('/oauth/login');
  assert.match(posted.headers.get('allow')!, /GET/);
  await refusedAs(posted, 405, 'invalid_request');
  assert.deepEqual(site.audited('login_started'), []);
});

for (const prompt of ['none', 'login', 'consent', 'select_account'])
  test(`OAuth login: prompt=${prompt} is sent to the provider`, async () => {
    await using site = await LoginSite.open();
    assert.equal((await site.begin({ prompt })).page.searchParams.get('prompt'), prompt);
  });

test('OAuth login: login_hint, prompt and a subset of the scopes are sent to the provider, and unknown parameters are ignored', async () => {
  await using site = await LoginSite.open({ provider: { scopes: ['read', 'mail'] } });
  const { page } = await site.begin({
    login_hint: 'ada@example.test',
    prompt: 'consent',
    scope: 'read',
    client_id: 'x',
    response_type: 'token',
    state: 'mine',
    acr_values: 'x',
    redirect: 'x',
    nonce: 'x',
    request_uri: 'https://evil.example',
  });
  assert.deepEqual(
    [page.searchParams.get('login_hint'), page.searchParams.get('prompt'), page.searchParams.get('scope')],
    ['ada@example.test', 'consent', 'read'],
  );
  assert.deepEqual(
    [page.searchParams.get('client_id'), page.searchParams.get('response_type')],
    ['client', 'code'],
  );
  for (const name of ['acr_values', 'redirect', 'request_uri']) assert.ok(!page.searchParams.has(name));
  assert.ok(!page.href.includes('mine') && !page.href.includes('evil'));
  for (const query of [
    { login_hint: 'a\u0001b' },
    { login_hint: 'x'.repeat(201) },
    { prompt: 'create' },
    { prompt: ['login', 'none'] },
    { login_hint: 'x'.repeat(5_000) },
  ]) {
    await refusedAs(await site.client.get('/oauth/login', { query }), 400, 'invalid_request');
  }
  await refusedAs(
    await site.client.get('/oauth/login', { query: { scope: 'read admin' } }),
    400,
    'invalid_scope',
  );
});

test('OAuth login: the scope openid is always requested once, whichever scopes the client or onLogin names', async () => {
  const got: unknown[] = [];
  await using first = await LoginSite.open();
  let scopes: readonly string[] | undefined;
  await using site = await LoginSite.open({
    names: ['one'],
    provider: OPENID(first.fake),
    plugin: {
      onLogin: () => ({ scopes }),
      onUser: (_provider, _info, { tokens }) => {
        got.push(tokens.scopes);
        return 'ada';
      },
    },
  });
  for (const [asked, wished, expected] of [
    [{ scope: 'email' }, undefined, 'openid email'],
    [{ scope: 'openid email' }, undefined, 'openid email'],
    [{ scope: 'email' }, ['profile'], 'openid profile'],
    [{}, ['openid', 'profile'], 'openid profile'],
    [{}, undefined, 'openid email profile'],
  ] as const) {
    scopes = wished;
    const { page, state } = await site.begin(asked);
    assert.equal(page.searchParams.get('scope'), expected);
    first.fake.nonce = page.searchParams.get('nonce')!;
    assert.equal((await site.back({ code: 'c-1', state })).status, 200);
    assert.deepEqual(got.at(-1), expected.split(' ')); // the token response of the provider names no scopes
  }
});

test('OAuth login: each of several providers has separate paths, and an unknown provider name gets a 404 that does not repeat the name', async () => {
  await using site = await LoginSite.open({ names: ['one', 'two'] });
  assert.equal(
    (await site.begin({}, { path: '/oauth/two/login' })).page.searchParams.get('redirect_uri'),
    'http://localhost/oauth/two/callback',
  );
  assert.equal(
    (await site.begin({}, { path: '/oauth/one/login' })).page.searchParams.get('redirect_uri'),
    'http://localhost/oauth/callback',
    'the first one is that of /oauth/login, too',
  );
  for (const name of ['nobody', '__proto__', 'constructor', 'a%00b', '%3Cscript%3E']) {
    for (const path of ['login', 'callback?code=c&state=s']) {
      const { error_description: description } = await refusedAs(
        await site.client.get(`/oauth/${name}/${path}`),
        404,
        'invalid_request',
      );
      assert.equal(description, 'Not Found');
    }
  }
  await using single = await LoginSite.open();
  await refusedAs(await single.client.get('/oauth/fake/login'), 404, 'invalid_request');
});

test('OAuth login: if discovery of the provider fails, the application starts, and a login gets a 502', async () => {
  await using site = await LoginSite.open();
  const { fake } = site;
  fake.failNext('discovery', { status: 500 }); // the login waits for the call that began with the application
  await using discovering = await LoginSite.open({
    hasDatabase: false,
    plugin: { provider: fakeProvider(fake, { issuer: fake.url }) },
  }); // the application starts although its provider is unreachable
  const refused = await discovering.client.get('/oauth/login');
  await refusedAs(refused, 502, 'provider_error');
  assert.equal(
    discovering.audited('provider_unreachable').length,
    1,
    'discovery begins with the application',
  );
  assert.equal(discovering.audited('provider_error').length, 1);
  assert.equal((await discovering.begin()).page.pathname, '/authorize', 'the next login asks again');
});
