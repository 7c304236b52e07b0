/**
 * Logging out at the provider (OpenID Connect RP-Initiated Logout 1.0), and by the provider (Back-Channel Logout 1.0).
 */
import assert from 'node:assert/strict';
import { hash } from 'node:crypto';
import { test } from 'node:test';
import { OAuthProvider } from 'svc/oauth';
import { FakeProvider, jws } from './support/fake-provider.ts';
import { LoginSite, claimsOf, leftFor, refusedAs } from './support/site.ts';
import type { LoginSiteOptions, Tokens } from './support/site.ts';

const OWN = { 'sec-fetch-site': 'same-origin' };
const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
const DONE = 'https://app.example/goodbye';

/** Opens a site whose OpenID provider ends sessions. */
async function open(options: LoginSiteOptions = {}): Promise<{ readonly site: LoginSite } & AsyncDisposable> {
  const fake = await FakeProvider.start();
  const provider = new OAuthProvider({
    name: 'own',
    clientId: 'client',
    clientSecret: 'secret',
    issuer: fake.url,
    allowInsecure: true,
    authorizeUrl: `${fake.url}/authorize`,
    tokenUrl: `${fake.url}/token`,
    userinfoUrl: `${fake.url}/userinfo`,
    jwksUrl: `${fake.url}/jwks`,
    endSessionUrl: `${fake.url}/end?ui=1`,
  });
  const site = await LoginSite.open({
    ...options,
    plugin: {
      provider,
      mode: 'cookie',
      backchannelLogout: true,
      postLogoutRedirectUris: [DONE],
      storeProviderTokens: true,
      ...options.plugin,
    },
  });
  const unused = site.fake;
  Object.defineProperty(site, 'fake', { value: fake });
  return {
    site,
    [Symbol.asyncDispose]: async () => {
      await site[Symbol.asyncDispose]();
      await unused[Symbol.asyncDispose]();
    },
  };
}

async function login(site: LoginSite, claims: Record<string, unknown>, client = site.client): Promise<void> {
  const { state } = await site.begin({}, { client });
  site.fake.claims = { aud: 'client', ...claims };
  site.fake.user = { sub: claims['sub'] ?? 'ada' };
  const response = await site.back({ code: 'c', state }, { client });
  assert.ok([200, 303].includes(response.status), await response.text());
}

const sessions = async (site: LoginSite, sub = 'user-ada'): Promise<number> =>
  (await site.oauth.listSessions(sub)).length;

let counter = 0;

/** Returns a logout token. Members that are undefined are left out. */
function logoutToken(
  site: LoginSite,
  claims: Record<string, unknown> = {},
  header: Record<string, unknown> = {},
): string {
  const nowSeconds = Math.floor(site.clock.nowMs() / 1_000);
  return jws(
    { alg: 'RS256', kid: 'rsa', typ: 'logout+jwt', ...header },
    {
      iss: site.fake.url,
      aud: 'client',
      iat: nowSeconds,
      exp: nowSeconds + 120,
      jti: `jti-${++counter}`,
      events: { [EVENT]: {} },
      sub: 'ada',
      ...claims,
    },
  );
}

const send = (site: LoginSite, token: string, name = 'own'): Promise<Response> =>
  site.browser().post(`/oauth/${name}/backchannel-logout`, { form: { logout_token: token } });

test('OAuth logout: a logout ends the login, clears the cookies, and redirects to the provider with the id_token as hint', async () => {
  await using made = await open({ hasSession: true });
  const { site } = made;
  await login(site, {});
  const response = await site.client.post('/oauth/logout', { headers: OWN, form: { state: 's-1' } });
  assert.equal(response.status, 303);
  const url = new URL(response.headers.get('location')!);
  assert.deepEqual(
    [`${url.origin}${url.pathname}`, [...url.searchParams.keys()]],
    [`${site.fake.url}/end`, ['ui', 'client_id', 'id_token_hint', 'post_logout_redirect_uri', 'state']],
  );
  assert.equal(url.searchParams.get('client_id'), 'client');
  assert.equal(url.searchParams.get('post_logout_redirect_uri'), DONE);
  assert.match(url.searchParams.get('id_token_hint')!, /^[\w-]+\.[\w-]+\.[\w-]+$/);
  assert.deepEqual(site.client.cookies.names(), []);
  assert.equal(await sessions(site), 0);
});

test("OAuth logout: a browser's form gets a page that goes to the provider, so that form-action 'self' does not stop the form", async () => {
  await using made = await open({ hasSession: true });
  const { site } = made;
  await login(site, {});
  const headers = { ...OWN, accept: 'text/html' };
  const form = { state: '"><script>' };
  const url = await leftFor(await site.client.post('/oauth/logout', { headers, form }));
  assert.deepEqual(
    [`${url.origin}${url.pathname}`, url.searchParams.get('state')],
    [`${site.fake.url}/end`, form.state],
  );
  assert.deepEqual(site.client.cookies.names(), []);
  await login(site, {});
  assert.equal((await site.client.get('/oauth/logout', { headers })).status, 303, 'a link is redirected');
});

test('OAuth logout: the id_token hint is that of the identity of the login, if the user has several at the provider', async () => {
  await using made = await open({ plugin: { onUser: () => 'user-ada' } });
  const { site } = made;
  const clients = { ada: site.client, lovelace: site.browser() };
  for (const [sub, client] of Object.entries(clients)) await login(site, { sub }, client);
  for (const [sub, client] of Object.entries(clients)) {
    const response = await client.post('/oauth/logout', { headers: OWN, form: {} });
    const hint = new URL(response.headers.get('location')!).searchParams.get('id_token_hint')!;
    assert.equal(claimsOf(hint)['sub'], sub);
  }
});

test('OAuth logout: a GET request logs the user out only if it comes from the same origin and its return address, if any, is allowed', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, {});
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    {},
  ])
    await refusedAs(await site.client.get('/oauth/logout', { headers }), 403, 'invalid_request');
  for (const uri of ['https://evil.example', `${DONE}/`, `${DONE}?x=1`])
    await refusedAs(
      await site.client.get('/oauth/logout', { headers: OWN, query: { post_logout_redirect_uri: uri } }),
      400,
      'invalid_redirect_uri',
    );
  for (const looking of [
    await site.client.head('/oauth/logout', { headers: OWN }),
    await site.client.get('/oauth/logout', { headers: { ...OWN, 'sec-purpose': 'prefetch' } }),
  ])
    assert.equal(looking.status, 204, 'a browser that looks ahead');
  assert.equal(await sessions(site), 1);
  const response = await site.client.get('/oauth/logout', {
    headers: OWN,
    query: { post_logout_redirect_uri: DONE },
  });
  assert.deepEqual([response.status, await sessions(site)], [303, 0]);
  const again = await site.client.get('/oauth/logout', { headers: OWN });
  assert.deepEqual([again.status, again.headers.get('location')], [303, DONE], 'nobody is logged in');
});

test("OAuth logout: in JSON mode a program sends its refresh token and gets the address of the provider's logout page", async () => {
  await using made = await open({ plugin: { mode: 'json', storeProviderTokens: false } });
  const { site } = made;
  const { state } = await site.begin();
  site.fake.claims = { aud: 'client' };
  const { refresh_token: token } = (await (await site.back({ code: 'c', state })).json()) as {
    refresh_token: string;
  };
  assert.equal((await site.client.get('/oauth/logout')).status, 405);
  await refusedAs(await site.client.post('/oauth/logout'), 400, 'invalid_request');
  const response = await site.client.post('/oauth/logout', { form: { refresh_token: token } });
  const { logout_url: address } = (await response.json()) as { logout_url: string };
  assert.deepEqual(
    [...new URL(address).searchParams.keys()],
    ['ui', 'client_id', 'post_logout_redirect_uri'],
  );
  assert.equal(await sessions(site), 0);
  const unknown = await site.client.post('/oauth/logout', { form: { refresh_token: 'x' } });
  assert.deepEqual(await unknown.json(), { logout_url: null });
});

test('OAuth logout: the user is logged out of the application even if the provider has no logout page', async () => {
  await using site = await LoginSite.open({ plugin: { mode: 'cookie', postLogoutRedirectUris: [] } });
  const { state } = await site.begin();
  await site.back({ code: 'c', state });
  const response = await site.client.post('/oauth/logout', { headers: OWN });
  assert.deepEqual([response.status, response.headers.get('location')], [303, '/']);
  assert.equal(await sessions(site), 0);
  await using without = await LoginSite.open({ plugin: { mode: 'cookie' } });
  await refusedAs(await without.client.post('/oauth/logout', { headers: OWN }), 404, 'invalid_request');
  for (const uris of [['/goodbye'], ['javascript:alert(1)'], ['https:app.example'], ['https://a.example/#x']])
    await assert.rejects(LoginSite.open({ plugin: { postLogoutRedirectUris: uris } }), {
      code: 'E_OPTION_RANGE',
    });
});

test('OAuth logout: without postLogoutRedirectUris, a return address is sent to the provider only in development on a loopback address', async () => {
  const targets: (string | null)[] = [];
  for (const [env, baseUrl] of [
    ['development', 'http://127.0.0.1:8000'],
    ['development', 'http://app.example'],
    ['production', 'https://localhost'],
  ] as const) {
    await using made = await open({
      env,
      plugin: {
        postLogoutRedirectUris: [],
        afterLogin: '/home',
        allowedRedirectUris: ['https://app.example/oauth/callback'],
      },
    });
    const { site } = made;
    site.fake.claims = { aud: 'client' };
    const client = site.browser(baseUrl);
    const { state } = await site.begin({}, { client });
    await site.back({ code: 'c', state }, { client });
    const response = await client.post('/oauth/logout', { headers: OWN });
    targets.push(new URL(response.headers.get('location')!).searchParams.get('post_logout_redirect_uri'));
  }
  assert.deepEqual(targets, ['http://127.0.0.1:8000/home', null, null]);
});

test('OAuth back-channel logout: a logout token with a sid ends the logins of this session, and without a sid all logins of the subject', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, { sid: 's-1' });
  await login(site, { sid: 's-2' }, site.browser());
  await login(site, { sid: 's-3', sub: 'bob' }, site.browser());
  const first = await send(site, logoutToken(site, { sid: 's-1', sub: undefined }));
  assert.deepEqual(
    [first.status, await first.text(), first.headers.get('cache-control')],
    [200, '', 'no-store'],
  );
  assert.deepEqual([await sessions(site), await sessions(site, 'user-bob')], [1, 1]);
  await refusedAs(await site.client.post('/oauth/token', { headers: OWN }), 400, 'invalid_grant');
  assert.equal((await send(site, logoutToken(site, { sid: 's-2', sub: 'bob' }))).status, 200);
  assert.deepEqual([await sessions(site), await sessions(site, 'user-bob')], [1, 1], 'both have to fit');
  assert.equal((await send(site, logoutToken(site))).status, 200);
  assert.deepEqual([await sessions(site), await sessions(site, 'user-bob')], [0, 1]);
  assert.equal((await send(site, logoutToken(site, { sub: 'nobody' }))).status, 200);
  assert.deepEqual(
    site.audited('token_revoked').map(({ reason, sub }) => [reason, sub]),
    [
      ['provider', 'user-ada'],
      ['provider', 'user-ada'],
    ],
  );
});

test('OAuth back-channel logout: an invalid logout token gets a 400 and ends no login (Back-Channel Logout 1.0 §2.6)', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, { sid: 's-1' });
  const nowSeconds = Math.floor(site.clock.nowMs() / 1_000);
  const good = logoutToken(site, { sub: 'nobody' });
  const bad: readonly (readonly [token: string, reason: string])[] = [
    [logoutToken(site, { iss: 'https://evil.example' }), 'iss'],
    [logoutToken(site, { aud: 'other' }), 'aud'],
    [logoutToken(site, { aud: undefined }), 'aud'],
    [logoutToken(site, { iat: undefined }), 'iat'],
    [logoutToken(site, { iat: nowSeconds + 61 }), 'iat'],
    [logoutToken(site, { iat: nowSeconds - 86_401 }), 'iat'],
    [logoutToken(site, { exp: undefined }), 'exp'],
    [logoutToken(site, { exp: nowSeconds - 60 }), 'exp'],
    [logoutToken(site, { exp: nowSeconds * 1_000 }), 'exp'],
    [logoutToken(site, { jti: undefined }), 'jti'],
    [logoutToken(site, { jti: 5 }), 'jti'],
    [logoutToken(site, { events: undefined }), 'events'],
    [logoutToken(site, { events: { [EVENT]: true } }), 'events'],
    [logoutToken(site, { events: [EVENT] }), 'events'],
    [logoutToken(site, { events: { other: {} } }), 'events'],
    [logoutToken(site, { nonce: 'n' }), 'nonce'],
    [logoutToken(site, { nonce: null }), 'nonce'],
    [logoutToken(site, { sub: undefined }), 'sub'],
    [logoutToken(site, { sub: 5 }), 'sub'],
    [logoutToken(site, { sid: '' }), 'sub'],
    [logoutToken(site, {}, { typ: 'at+jwt' }), 'typ'],
    [logoutToken(site, {}, { alg: 'none' }), 'alg'],
    [logoutToken(site, {}, { crit: ['x'] }), 'header'],
    [`${logoutToken(site).slice(0, -8)}AAAAAAAA`, 'signature'],
    ['x', 'segments'],
  ];
  for (const [token, reason] of bad) {
    await refusedAs(await send(site, token), 400, 'invalid_request');
    assert.match(String(site.audited('logout_refused').at(-1)?.['reason']), new RegExp(`_${reason}$`));
  }
  await refusedAs(
    await site.browser().post('/oauth/own/backchannel-logout', { form: {} }),
    400,
    'invalid_request',
  );
  assert.equal((await send(site, good)).status, 200);
  await refusedAs(await send(site, good), 400, 'invalid_request');
  assert.equal(site.audited('logout_refused').at(-1)?.['reason'], 'logout_token_replayed');
  assert.equal(await sessions(site), 1);
  await refusedAs(await send(site, logoutToken(site), 'none'), 404, 'invalid_request');
});

test('OAuth back-channel logout: if the database fails before the logins have ended, or before the token is spent, the repeat of the provider ends them', async () => {
  for (const table of ['svc_oauth_login', 'svc_oauth_used']) {
    await using made = await open({ hasDatabase: true, hasSession: true });
    const { site } = made;
    await login(site, {});
    const token = logoutToken(site);
    const { db } = site.app.state;
    // reads work, and writes fail
    await db.execute(
      `CREATE TRIGGER broken BEFORE ${table === 'svc_oauth_login' ? 'UPDATE' : 'INSERT'} ON ${table} BEGIN SELECT RAISE(ABORT, 'disk'); END`,
    );
    await refusedAs(await send(site, token), 503, 'temporarily_unavailable');
    await db.execute('DROP TRIGGER broken');
    await login(site, {}, site.browser());
    assert.equal((await send(site, token)).status, 200);
    assert.equal(await sessions(site), 0);
    await login(site, {}, site.browser());
    await refusedAs(await send(site, token), 400, 'invalid_request');
    assert.equal(await sessions(site), 1, 'a token that was spent ends no login');
  }
});

test('OAuth back-channel logout: forged logout tokens count against the limit for forged tokens, and valid ones do not', async () => {
  await using made = await open({ plugin: { limits: { forged: 2 } } });
  const { site } = made;
  for (let count = 0; count < 3; count++) assert.equal((await send(site, logoutToken(site))).status, 200);
  const forged = logoutToken(site, { aud: 'other' });
  for (let count = 0; count < 2; count++) await refusedAs(await send(site, forged), 400, 'invalid_request');
  await refusedAs(await send(site, forged), 429, 'rate_limited');
});

test('OAuth back-channel logout: an id_token is refused as a logout token, and backchannelLogout: false removes the route', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, {});
  const idToken = await site.oauth.providerToken('user-ada', 'own');
  assert.ok('idToken' in idToken && idToken.idToken !== undefined);
  await refusedAs(await send(site, idToken.idToken), 400, 'invalid_request');
  assert.equal(await sessions(site), 1);
  await using without = await open({ plugin: { backchannelLogout: false } });
  await refusedAs(await send(without.site, logoutToken(without.site)), 404, 'invalid_request');
  await using plain = await LoginSite.open({ plugin: { backchannelLogout: true } });
  await refusedAs(await send(plain, 'x', 'fake'), 404, 'invalid_request');
});

test('OAuth logout: a refresh token of an ended login, or a rotated one, gets no id_token', async () => {
  await using made = await open({ plugin: { mode: 'json' } });
  const { site } = made;
  const hintFor = async (refresh_token: string): Promise<string | null> => {
    const response = await site.browser().post('/oauth/logout', { form: { refresh_token } });
    const { logout_url } = (await response.json()) as { logout_url: string };
    return new URL(logout_url).searchParams.get('id_token_hint');
  };
  const tokenOf = async (): Promise<string> => {
    const { state } = await site.begin();
    site.fake.claims = { aud: 'client' };
    return ((await (await site.back({ code: 'c', state })).json()) as Tokens).refresh_token;
  };
  const revoked = await tokenOf();
  await site.oauth.revokeAll('user-ada');
  await site.clock.advance(1_000);
  const rotated = await tokenOf();
  const { refresh_token: current } = await site.refreshed(rotated);
  assert.equal(await hintFor(revoked), null);
  assert.notEqual(await hintFor(current), null);
  assert.equal(await hintFor(current), null, 'the first logout has ended the login');
  const other = await tokenOf();
  await site.refreshed(other);
  assert.equal(await hintFor(other), null);
});

test('OAuth native client: each way to end a login also ends a login whose code was not exchanged yet', async () => {
  const verifier = 'v'.repeat(43);
  const ways: readonly ((site: LoginSite, accessToken: string) => Promise<unknown>)[] = [
    (site) => site.oauth.revokeAll('user-ada'),
    (site) => send(site, logoutToken(site)),
    (site) => send(site, logoutToken(site, { sub: undefined, sid: 'sid-ada' })),
    (site, accessToken) =>
      site.browser().post('/oauth/own/unlink', {
        headers: { authorization: `Bearer ${accessToken}` },
        form: { subject: 'ada' },
      }),
  ];
  for (const [index, end] of ways.entries()) {
    await using made = await open({
      plugin: {
        mode: 'json',
        nativeRedirects: ['com.example.app:/done'],
        onUser: () => 'user-ada',
        onLink: () => true,
        onUnlink: () => true,
      },
    });
    const { site } = made;
    const come = async (sub: string, query: Record<string, string> = {}): Promise<Response> => {
      const { state } = await site.begin(query);
      site.fake.claims = { aud: 'client', sub, sid: `sid-${sub}` };
      site.fake.user = { sub };
      return site.back({ code: 'c', state });
    };
    const { access_token } = (await (await come('other')).json()) as Tokens;
    const done = await come('ada', {
      client_redirect_uri: 'com.example.app:/done',
      code_challenge: hash('sha256', verifier, 'base64url'),
      code_challenge_method: 'S256',
    });
    const code = new URL(done.headers.get('location')!).searchParams.get('code')!;
    assert.equal(await sessions(site), 1, 'the login is not listed before the exchange');
    await site.clock.advance(1);
    await end(site, access_token);
    const form = {
      grant_type: 'authorization_code',
      code,
      code_verifier: verifier,
      client_redirect_uri: 'com.example.app:/done',
    };
    const response = await site.browser().post('/oauth/token', { form });
    await refusedAs(response, 400, 'access_denied');
    assert.equal(await sessions(site), index === 0 ? 0 : 1);
  }
});
