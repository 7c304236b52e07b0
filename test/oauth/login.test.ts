/**
 * How a login begins: L01-L12 of the requirements.
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { Keyring } from '../../src/crypto/keys.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { LoginStates, challengeOf, verifierOf } from '../../src/oauth/login-state.ts';
import { MemoryTokenStore } from '../../src/oauth/tokens/store.ts';
import { LoginSite, SECRET, cookiesOf, fakeProvider, refusedAs } from './support/site.ts';
import type { StateRow } from '../../src/oauth/tokens/store.ts';

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

test('L01 A login leads to the authorization endpoint with everything that the code flow with PKCE S256 needs', async () => {
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
  assert.match(state!, /^[\w-]+\.[\w-]{43}$/);
});

test('L01 A nonce goes along when the scopes include openid', async () => {
  await using first = await LoginSite.open();
  assert.equal((await first.begin()).page.searchParams.get('nonce'), null);
  await using site = await LoginSite.open({ names: ['one'], provider: OPENID(first.fake) });
  assert.match((await site.begin()).page.searchParams.get('nonce')!, /^[\w-]{43}$/);
});

test('L02 The URL holds neither client secret, nor verifier, nor anything of the server', async () => {
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

test('L03 Parameters that the endpoint has already stay, and none is there twice', async () => {
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

test('L04 No two logins share a state, nonce or challenge, and a state has 256 random bits', async () => {
  await using site = await LoginSite.open();
  const [one, two] = [await site.begin(), await site.begin()];
  for (const name of ['state', 'code_challenge'])
    assert.notEqual(one.page.searchParams.get(name), two.page.searchParams.get(name));
  const states = new LoginStates({
    store: new MemoryTokenStore(),
    clock: new ManualClock(),
    env: 'test',
    keys: Keyring.of(SECRET),
    ttlSeconds: 600,
  });
  const seen = new Set<string>();
  for (let count = 0; count < 10_000; count++) {
    const { state, nonce, challenge } = await states.begin({ scheme: 'http', cookies: {} } as never, {
      provider: 'p',
      redirectUri: 'r',
      returnTo: null,
    });
    assert.equal(Buffer.from(state.slice(state.indexOf('.') + 1), 'base64url').length, 32);
    for (const value of [state, nonce, challenge]) seen.add(value);
  }
  assert.equal(seen.size, 30_000);
});

test('L05 The answer is not kept by any cache, and names nobody where it came from', async () => {
  await using site = await LoginSite.open();
  const { headers } = (await site.begin()).response;
  assert.deepEqual(
    [headers.get('cache-control'), headers.get('referrer-policy')],
    ['no-store', 'no-referrer'],
  );
});

test('L06 The cookie of a login belongs to this host alone, is out of reach for scripts, and lives as long as its row', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const [[name, { value, attributes }]] = [...cookiesOf((await site.begin()).response)] as [
    [string, { value: string; attributes: string[] }],
  ];
  assert.match(name, /^__Host-svc_oauth_[\da-f]{8}$/);
  assert.match(value, /^\d+\.[\w-]{43}$/);
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

test('L07 Nine logins in one browser leave eight cookies; the oldest has gone, and the eight can all finish', async () => {
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

test('L07 Cookies that only look like ours go first, and a planted one does not keep a login from beginning', async () => {
  await using site = await LoginSite.open();
  for (let count = 0; count < 20; count++)
    site.client.cookies.set(`svc_oauth_0000000${count.toString(36)}`, 'x');
  const { state } = await site.begin();
  assert.equal(site.client.cookies.names().length, 8);
  assert.equal((await site.back({ code: 'c', state })).status, 200);
});

test('L08 The table of states is bounded, and an address may begin twenty logins a minute', async () => {
  await using site = await LoginSite.open();
  for (let count = 0; count < 20; count++) await site.begin();
  const refused = await site.client.get('/oauth/login');
  assert.match(refused.headers.get('retry-after')!, /^[1-9]\d*$/);
  await refusedAs(refused, 429, 'rate_limited');
});

test('L08 When there are too many states, those that are over go, then the oldest: nobody is kept from a login', async () => {
  let rows = 99_999,
    counted = 0;
  const asked: string[] = [];
  const store = new (class extends MemoryTokenStore {
    override async countStates(): Promise<number> {
      counted++;
      return rows;
    }
    override async addState(row: StateRow): Promise<void> {
      rows++;
      return super.addState(row);
    }
    override async cleanUp(_now: number, batch: number): Promise<number> {
      asked.push(`over ${batch}`);
      return asked.length === 1 ? batch : 7;
    }
    override async dropOldestStates(count: number): Promise<number> {
      asked.push(`oldest ${count}`);
      rows -= count;
      return count;
    }
  })();
  const clock = new ManualClock();
  const states = new LoginStates({ store, clock, env: 'test', keys: Keyring.of(SECRET), ttlSeconds: 600 });
  const begin = (): Promise<unknown> =>
    states.begin({ scheme: 'http', cookies: {} } as never, {
      provider: 'p',
      redirectUri: 'r',
      returnTo: null,
    });
  await begin();
  assert.deepEqual([rows, asked], [100_000, []]);
  await Promise.all(Array.from({ length: 20 }, begin));
  assert.deepEqual(
    asked,
    ['over 1000', 'over 1000', 'oldest 1000'],
    'once, however many begin at the same time',
  );
  assert.deepEqual([rows, counted], [99_020, 1], 'counted once a second');
  rows = 100_000;
  await begin();
  assert.equal(asked.length, 3);
  await clock.advance(1_001);
  await begin();
  assert.deepEqual([counted, asked.at(-1), rows], [2, 'oldest 1000', 99_002]);
});

test("L09 Stored are hashes of the state and of the browser's secret; the verifier is stored nowhere", async () => {
  const rows: StateRow[] = [];
  const store = new (class extends MemoryTokenStore {
    override async addState(row: StateRow): Promise<void> {
      rows.push(row);
      return super.addState(row);
    }
  })();
  const keys = Keyring.of(SECRET).derive('svc-oauth-pkce');
  const states = new LoginStates({
    store,
    clock: new ManualClock(),
    env: 'production',
    keys,
    ttlSeconds: 600,
  });
  const { state } = await states.begin({ scheme: 'https', cookies: {} } as never, {
    provider: 'p',
    redirectUri: 'https://app.example/cb',
    returnTo: '/x',
  });
  const [{ stateHash, browserHash, nonce, createdAt, expiresAt, ...rest }] = rows as [StateRow];
  assert.deepEqual(rest, { provider: 'p', redirectUri: 'https://app.example/cb', returnTo: '/x' });
  assert.equal(stateHash, hash('sha256', state, 'hex'));
  assert.match(browserHash, /^[\da-f]{64}$/);
  assert.match(nonce, /^[\w-]{43}$/);
  assert.equal(expiresAt - createdAt, 600_000_000);
  const text = JSON.stringify(rows);
  for (const secret of [state, state.slice(state.indexOf('.') + 1), verifierOf(state, keys.current.key)])
    assert.ok(!text.includes(secret));
});

test('L10 HEAD, POST and prefetches begin nothing', async () => {
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

test('L11 login_hint, prompt and fewer scopes are passed on; nothing else is, and nothing that is not on the list', async () => {
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

test('L11 openid stays among the scopes, whatever is asked for', async () => {
  await using first = await LoginSite.open();
  await using site = await LoginSite.open({ names: ['one'], provider: OPENID(first.fake) });
  assert.equal((await site.begin({ scope: 'email' })).page.searchParams.get('scope'), 'openid email');
});

test('L12 With several providers each has its own paths; an unknown one is 404, and its name is not repeated', async () => {
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

test('A provider that cannot be discovered is 502 for whoever logs in, and nothing keeps the application from starting', async () => {
  await using site = await LoginSite.open();
  const { fake } = site;
  fake.failNext('discovery', { status: 500 }); // the login waits for the call that began with the application
  await using discovering = await LoginSite.open({
    hasDatabase: false,
    plugin: { provider: fakeProvider(fake, { issuer: fake.url }) },
  }); // starts at once
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
