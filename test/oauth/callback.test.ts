/**
 * Responses of the provider at the callback. test/oauth/provider/client.test.ts tests the calls to the provider.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Depends, Forbidden, HTTPException, SecurityHeadersMiddleware, requireScopes, sessionKey } from 'svc';
import { currentUser } from 'svc/oauth';
import { Keyring } from '../../src/crypto/keys.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { DENIALS } from '../../src/oauth/errors.ts';
import { LoginStates } from '../../src/oauth/login-state.ts';
import { SingleUse } from '../../src/oauth/single-use.ts';
import { MemoryRecordStore } from '../../src/cache/stores.ts';
import { challengeOf } from './support/fake-provider.ts';
import { LoginSite, SECRET, claimsOf, cookiesOf, refusedAs } from './support/site.ts';
import type { OAuthProviderOptions, UserInfo } from 'svc/oauth';

/** Returns the last event of a failed login. */
function failure(site: LoginSite): Record<string, unknown> | undefined {
  return site
    .audited()
    .findLast(
      ({ event }) => event === 'login_failed' || event === 'state_rejected' || event === 'provider_error',
    );
}

const logins = async (site: LoginSite): Promise<number> => (await site.oauth.listSessions('user-ada')).length;

test('OAuth callback: a missing, unknown, expired or used state is refused, and the provider is not called', async () => {
  await using site = await LoginSite.open();
  const expired = await site.begin();
  await site.clock.advance(600_000);
  const used = await site.begin();
  assert.equal((await site.back({ code: 'c', state: used.state })).status, 200);
  const calls = site.fake.count();
  for (const [query, reason] of [
    [{ code: 'c' }, 'missing'],
    [{ code: 'c', state: '' }, 'missing'],
    [{ code: 'c', state: 'nobody.knows' }, 'unknown'],
    [{ code: 'c', state: '__proto__' }, 'unknown'],
    [{ code: 'c', state: expired.state }, 'expired'],
    [{ code: 'c', state: used.state }, 'used'],
    [{ code: 'c', state: `${used.state}x` }, 'unknown'],
    [{ code: 'c', state: used.state.replace(/.$/, (last) => (last === 'A' ? 'Q' : 'A')) }, 'unknown'],
  ] as const) {
    await refusedAs(await site.back(query), 400, 'invalid_state');
    assert.deepEqual([failure(site)?.['event'], failure(site)?.['reason']], ['state_rejected', reason]);
  }
  assert.equal(site.fake.count(), calls);
});

test('OAuth callback: a state is refused in another browser, and still works in the browser that started the login', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { state } = await site.begin();
  const other = site.browser();
  await refusedAs(await site.back({ code: 'c', state }, { client: other }), 400, 'state_browser_mismatch');
  assert.equal(failure(site)?.['reason'], 'no_cookie');
  const name = site.client.cookies.names()[0]!;
  const forged = await other.get('/oauth/callback', {
    query: { code: 'c', state },
    headers: { cookie: `${name}=${site.client.cookies.get(name)!.replace(/....$/, 'AAAA')}` },
  });
  await refusedAs(forged, 400, 'state_browser_mismatch');
  assert.equal(failure(site)?.['reason'], 'other_browser');
  assert.equal(site.fake.count(), 0);
  assert.equal((await site.back({ code: 'c', state })).status, 200);
});

test('OAuth callback: if fifty callbacks with the same state arrive at once, one succeeds and the token endpoint is called once', async () => {
  await using site = await LoginSite.open({ env: 'production', plugin: { limits: { callback: false } } });
  const { state } = await site.begin();
  const statuses = (await Promise.all(Array.from({ length: 50 }, () => site.back({ code: 'c', state })))).map(
    ({ status }) => status,
  );
  assert.deepEqual(
    [statuses.filter((status) => status === 200).length, statuses.filter((status) => status === 400).length],
    [1, 49],
  );
  assert.equal(site.fake.count('token'), 1);
  assert.equal(await logins(site), 1);
});

test("OAuth callback: after a failure of the provider's token endpoint, the state cannot be used again, and the login cookie is removed", async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  site.fake.failNext('token', { status: 500 });
  await refusedAs(await site.back({ code: 'c', state }), 502, 'provider_error');
  assert.deepEqual(site.client.cookies.names(), []);
  await refusedAs(await site.back({ code: 'c', state }), 400, 'invalid_state');
  assert.equal(site.fake.count('token'), 1);
});

test('OAuth callback: a login that is cancelled at the provider returns access_denied, uses up its state, and is logged at level info', async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  await refusedAs(await site.back({ error: 'access_denied', state }), 400, 'access_denied');
  assert.deepEqual(
    [failure(site)?.['level'], failure(site)?.['event'], failure(site)?.['reason']],
    ['info', 'login_failed', 'access_denied'],
  );
  await refusedAs(await site.back({ error: 'access_denied', state }), 400, 'invalid_state');
  assert.match(await site.metrics(), /svc_oauth_logins_total\{provider="fake",outcome="denied"\} 1/);
});

test('OAuth callback: a login that the user cancelled at Apple or LinkedIn is denied, like one with access_denied', async () => {
  await using site = await LoginSite.open();
  for (const error of ['user_cancelled_authorize', 'user_cancelled_login']) {
    const { state } = await site.begin();
    await refusedAs(await site.back({ error, state }), 400, 'access_denied');
    assert.deepEqual([failure(site)?.['level'], failure(site)?.['reason']], ['info', 'access_denied']);
  }
});

test('OAuth callback: a login that onUser() refuses counts as refused, and not as denied by the user', async () => {
  await using site = await LoginSite.open({ plugin: { onUser: () => undefined } });
  const { state } = await site.begin();
  await refusedAs(await site.back({ code: 'c', state }), 403, 'access_denied');
  assert.match(await site.metrics(), /svc_oauth_logins_total\{provider="fake",outcome="refused"\} 1/);
});

test('OAuth callback: the error parameter of the provider is shortened in the log, and is never sent to the user', async () => {
  await using site = await LoginSite.open({ plugin: { limits: { callback: false } } });
  for (const error of [
    '<script>alert(1)</script>',
    'a\r\nSet-Cookie: x=1',
    '\u001b[31mred',
    'x'.repeat(10_000),
    'server_error',
    'Login_required',
  ]) {
    const { state } = await site.begin();
    const response = await site.back({ error, state, error_description: '<img src=x>'.repeat(50) });
    assert.equal(response.headers.get('set-cookie')?.includes('x=1'), false);
    const { error_description: description } = await refusedAs(response, 502, 'provider_error');
    assert.equal(
      description,
      'The identity provider refused the request or sent an invalid response: try again',
    );
    const reason = String(failure(site)!['reason']);
    assert.ok(reason.length <= 201, String(reason.length));
  }
});

test('OAuth callback: when prompt=none fails, the client gets the error code of OpenID Connect Core §3.1.2.6', async () => {
  await using site = await LoginSite.open();
  for (const error of [
    'login_required',
    'interaction_required',
    'consent_required',
    'account_selection_required',
  ]) {
    const { state } = await site.begin();
    const { error_description: description } = await refusedAs(await site.back({ error, state }), 400, error);
    assert.match(description!, /without prompt=none/);
    assert.deepEqual(
      [failure(site)?.['level'], failure(site)?.['event'], failure(site)?.['reason']],
      ['info', 'login_failed', error],
    );
  }
  assert.match(await site.metrics(), /svc_oauth_logins_total\{provider="fake",outcome="denied"\} 4/);
});

test('OAuth callback: a request with both code and error is treated as an error of the provider, and a request with neither gets a 400', async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  await refusedAs(await site.back({ state }), 400, 'invalid_request');
  await refusedAs(await site.back({ code: '', error: '', state }), 400, 'invalid_request');
  await refusedAs(await site.back({ code: 'c', error: 'access_denied', state }), 400, 'access_denied');
  assert.equal(site.fake.count(), 0);
});

test('OAuth callback: a request with a repeated code, state, iss or error is refused, and its state stays valid', async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  for (const query of [
    { code: ['a', 'b'], state },
    { code: 'c', state: [state, state] },
    { code: 'c', state, iss: ['a', 'b'] },
    { error: ['a', 'b'], state },
  ])
    await refusedAs(await site.back(query), 400, 'invalid_request');
  assert.equal((await site.back({ code: 'c', state })).status, 200);
});

test("OAuth callback: a wrong iss is refused before the token request, and so is a missing iss if the provider's metadata announce iss (RFC 9207)", async () => {
  await using base = await LoginSite.open();
  const metadata = {
    issuer: base.fake.url,
    authorization_endpoint: `${base.fake.url}/authorize`,
    token_endpoint: `${base.fake.url}/token`,
    jwks_uri: `${base.fake.url}/jwks`,
    response_types_supported: ['code'],
  };
  await using site = await LoginSite.open({
    names: ['one'],
    provider: {
      issuer: base.fake.url,
      metadata: { ...metadata, authorization_response_iss_parameter_supported: true },
    },
  });
  for (const [iss, reason] of [
    ['https://evil.example', 'iss_differs'],
    [`${base.fake.url}/`, 'iss_differs'],
    [undefined, 'iss_missing'],
  ] as const) {
    const { state } = await site.begin();
    await refusedAs(
      await site.back({ code: 'c', state, ...(iss === undefined ? {} : { iss }) }),
      400,
      'issuer_mismatch',
    );
    assert.equal(failure(site)?.['reason'], reason);
  }
  assert.equal(base.fake.count(), 0);
  const { state } = await site.begin();
  base.fake.nonce = site.fake.nonce;
  const response = await site.back({ code: 'c', state, iss: base.fake.url });
  assert.equal(response.status, 200, await response.clone().text());
});

test('OAuth callback: a state that was made for one provider is refused at the callback of another provider', async () => {
  await using site = await LoginSite.open({ names: ['one', 'two'] });
  const { state } = await site.begin({}, { path: '/oauth/two/login' });
  for (const path of ['/oauth/callback', '/oauth/one/callback']) {
    await refusedAs(await site.back({ code: 'c', state }, { path }), 400, 'invalid_state');
    assert.equal(failure(site)?.['reason'], 'other_provider');
  }
  assert.equal(site.fake.count(), 0);
  const response = await site.back({ code: 'c', state }, { path: '/oauth/two/callback' });
  assert.equal(response.status, 200);
  assert.equal((await site.oauth.listSessions('user-ada'))[0]?.provider, 'two');
});

test('OAuth callback: one token request with the code, redirect URI and code verifier of the login is sent to the provider', async () => {
  await using site = await LoginSite.open();
  const { page, state } = await site.begin();
  assert.equal(
    (await site.back({ code: 'the code', state, redirect_uri: 'https://evil.example' })).status,
    200,
  );
  const [{ method, form, headers }] = site.fake.requests as [(typeof site.fake.requests)[0]];
  assert.equal(method, 'POST');
  assert.deepEqual(
    [form.get('grant_type'), form.get('code'), form.get('redirect_uri')],
    ['authorization_code', 'the code', 'http://localhost/oauth/callback'],
  );
  assert.equal(challengeOf(form.get('code_verifier')!), page.searchParams.get('code_challenge'));
  assert.deepEqual([form.get('client_secret'), headers['authorization']], ['client-secret-9f2c', undefined]);
});

test('OAuth callback: for every invalid response of the provider, the client gets a documented error code, and no login is stored', async () => {
  let asked = 0;
  await using site = await LoginSite.open({
    plugin: {
      onUser: () => {
        asked++;
        return 'x';
      },
      limits: { callback: false, login: false },
    },
  });
  const { fake } = site;
  const wrongs: [string, () => void][] = [
    [
      'B12 error in a 200',
      () =>
        fake.failNext('token', {
          body: { error: 'bad_verification_code', error_description: '<b>secret</b>' },
        }),
    ],
    ['B13 no access_token', () => fake.failNext('token', { body: { token_type: 'Bearer' } })],
    [
      'B13 another token_type',
      () => fake.failNext('token', { body: { access_token: 'a', token_type: 'mac' } }),
    ],
    ['B14 no JSON', () => fake.failNext('token', { headers: { 'content-type': 'text/html' }, body: '<p>' })],
    [
      'B14 a form',
      () =>
        fake.failNext('token', {
          headers: { 'content-type': 'application/x-www-form-urlencoded' },
          body: 'access_token=a&token_type=bearer',
        }),
    ],
    ['B15 too much', () => fake.failNext('userinfo', { body: 'x'.repeat(1_100_000) })],
    [
      'B17 a redirect',
      () => fake.failNext('token', { status: 307, headers: { location: `${fake.url}/elsewhere` } }),
    ],
    ['B18 401', () => fake.failNext('userinfo', { status: 401, body: {} })],
    ['B18 500', () => fake.failNext('userinfo', { status: 500, body: {} })],
    ['B18 a list', () => fake.failNext('userinfo', { body: [] })],
    ['B18 no subject', () => fake.failNext('userinfo', { body: { name: 'Ada' } })],
    ['B18 a number', () => fake.failNext('userinfo', { body: { sub: 5 } })],
  ];
  for (const [what, script] of wrongs) {
    const { state } = await site.begin();
    script();
    const body = await refusedAs(await site.back({ code: 'c', state }), 502, 'provider_error');
    assert.ok(!JSON.stringify(body).includes('secret'), what);
    assert.equal(failure(site)?.['event'], 'provider_error', what);
    assert.match(String(failure(site)?.['reason']), /^[a-z_\d]+$/, what);
  }
  assert.deepEqual([asked, fake.count('other'), await logins(site)], [0, 0, 0]);
});

test('OAuth callback: if the provider does not respond within ten seconds, the client gets a 504', async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  site.fake.failNext('token', { until: new Promise(() => undefined) });
  const pending = site.back({ code: 'c', state });
  await site.fake.arrived(1);
  await site.clock.advance(10_000);
  await refusedAs(await pending, 504, 'provider_timeout');
  assert.equal(await logins(site), 0);
});

test('OAuth callback: no login is stored if the hook onUser() refuses the login, throws, or returns an invalid value', async () => {
  const usual = DENIALS.on_user.description;
  const answers: [() => unknown, number, string, string?][] = [
    [() => undefined, 403, 'access_denied', usual],
    [() => null, 403, 'access_denied'],
    [
      () => {
        throw new Forbidden('Only people of example.com may log in');
      },
      403,
      'access_denied',
      'Only people of example.com may log in',
    ],
    [
      async () => {
        throw new HTTPException(404);
      },
      403,
      'access_denied',
      usual,
    ],
    [
      () => {
        throw new Error('the user table is gone');
      },
      500,
      'server_error',
    ],
    [
      () => {
        throw new HTTPException(503);
      },
      503,
      'temporarily_unavailable',
    ],
    [() => '', 500, 'server_error'],
    [() => 5, 500, 'server_error'],
    [() => false, 500, 'server_error'],
    [() => 'x'.repeat(256), 500, 'server_error'],
    [() => 'a\u0000', 500, 'server_error'],
    [() => '\ud800', 500, 'server_error'],
    [() => ({ sub: 'a', scopes: 'read' }), 500, 'server_error'],
    [() => ({ sub: 'a', scopes: ['a b'] }), 500, 'server_error'],
    [() => ({ sub: 'a', claims: { exp: 5 } }), 500, 'server_error'],
    [() => ({ sub: 'a', claims: { big: 1n } }), 500, 'server_error'],
    [() => ({ sub: 'a', claims: [] }), 500, 'server_error'],
    [() => ({ sub: 'a', claims: null }), 500, 'server_error'],
  ];
  let answer: () => unknown = () => undefined;
  const store = { count: 0 };
  await using site = await LoginSite.open({
    hasSession: true,
    plugin: { onUser: () => answer() as never, limits: { callback: false, login: false } },
    more: (app) => app.get('/user', ({ req }) => ({ user: req.session.get(currentUser) ?? null })),
  });
  for (const [run, status, code, words] of answers) {
    answer = run;
    const { state } = await site.begin();
    const response = await site.back({ code: 'c', state });
    assert.deepEqual(cookiesOf(response).size, code === 'access_denied' ? 1 : 0, 'that of the login goes');
    const { error_description: description } = await refusedAs(response, status, code);
    assert.ok(!description.includes('ada') && !description.includes('table'));
    const reason = String(failure(site)?.['reason']);
    assert.match(
      reason,
      code === 'access_denied' ? /^on_user$/ : /^[A-Z]\w+: ./,
      'the audit trail names the cause',
    );
    if (words !== undefined) assert.equal(description, words);
    assert.equal(failure(site)?.['event'], 'login_failed');
    assert.deepEqual(await (await site.client.get('/user')).json(), { user: null });
    store.count++;
  }
  for (const sub of ['a', 'user-ada', '']) assert.deepEqual(await site.oauth.listSessions(sub), []);
  assert.ok(
    site.events.some(({ event }) => event === 'unhandled_error'),
    'a mistake is an error of the application',
  );
});

test('OAuth callback: subject, scopes and claims of the tokens come from the hook onUser(), never from the provider', async () => {
  await using site = await LoginSite.open({
    plugin: {
      scopes: ['read'],
      issuer: 'https://app.example',
      audience: 'api',
      onUser: (provider, { subject }) => ({
        sub: `${provider}:${subject}!`,
        scopes: ['write', 'admin'],
        claims: { roles: ['boss'], scopes: ['all'], sid: 'mine' },
      }),
    },
  });
  const { access_token: token, scope } = await site.login();
  const { sub, scopes, roles, sid, iss, aud } = claimsOf(token);
  assert.deepEqual(
    { sub, scopes, roles, iss, aud, scope },
    {
      sub: 'fake:ada!',
      scopes: ['write', 'admin'],
      roles: ['boss'],
      iss: 'https://app.example',
      aud: 'api',
      scope: 'write admin',
    },
  );
  assert.equal(sid, (await site.oauth.listSessions('fake:ada!'))[0]?.id);
});

test('OAuth callback: the hook onUser() gets the provider, subject, e-mail, emailVerified, name, picture and raw data of the user', async () => {
  const seen: [string, UserInfo][] = [];
  await using site = await LoginSite.open({
    plugin: {
      onUser: (provider, info) => {
        seen.push([provider, info]);
        return 'x';
      },
    },
  });
  await site.login();
  site.fake.user = { sub: 'bob', email_verified: 'true' };
  await site.login();
  assert.deepEqual(seen, [
    [
      'fake',
      {
        subject: 'ada',
        email: 'ada@example.test',
        emailVerified: true,
        name: 'Ada Lovelace',
        picture: 'https://example.test/ada.png',
        raw: {
          sub: 'ada',
          name: 'Ada Lovelace',
          email: 'ada@example.test',
          email_verified: true,
          picture: 'https://example.test/ada.png',
        },
      },
    ],
    [
      'fake',
      {
        subject: 'bob',
        email: null,
        emailVerified: false,
        name: null,
        picture: null,
        raw: { sub: 'bob', email_verified: 'true' },
      },
    ],
  ]);
});

for (const [name, second, kept] of [
  ['the same user logs in again', 'ada', 'tea'],
  ['another user logs in', 'bob', null],
] as const)
  test(`OAuth callback: if ${name} in one browser, a session value of keepSession is ${kept === null ? 'removed' : 'kept'}`, async () => {
    const cart = sessionKey<string>('cart');
    await using site = await LoginSite.open({
      hasSession: true,
      plugin: { keepSession: ['cart'] },
      more: (app) =>
        app
          .get('/fill', ({ req }) => req.session.set(cart, 'tea'))
          .get('/look', ({ req }) => ({ cart: req.session.get(cart) ?? null })),
    });
    site.fake.user = { sub: 'ada' };
    await site.login();
    await site.client.get('/fill');
    site.fake.user = { sub: second };
    await site.login();
    assert.deepEqual(await (await site.client.get('/look')).json(), { cart: kept });
  });

for (const env of ['production', 'test'] as const) {
  test(`OAuth callback: in the environment "${env}", the response with the tokens has "Cache-Control: no-store", and the login renews the session`, async () => {
    const cart = sessionKey<string>('cart');
    const planted = sessionKey<string>('planted');
    await using site = await LoginSite.open({
      env,
      hasSession: true,
      plugin: { scopes: ['read'], keepSession: ['cart'] },
      more: (app) => {
        app.get('/fill', ({ req }) => {
          req.session.set(cart, 'tea');
          req.session.set(planted, 'x');
          return req.session.id;
        });
        app.get('/look', ({ req }) => ({
          id: req.session.id,
          cart: req.session.get(cart) ?? null,
          planted: req.session.get(planted) ?? null,
          user: req.session.get(currentUser) ?? null,
        }));
        app.get('/me', { me: Depends(requireScopes('read')) }, ({ me }) => me.sub);
      },
    });
    const before = await (await site.client.get('/fill')).text();
    const { state } = await site.begin();
    const response = await site.back({ code: 'c', state });
    assert.deepEqual(
      [response.status, response.headers.get('cache-control'), response.headers.get('pragma')],
      [200, 'no-store', 'no-cache'],
    );
    const tokens = (await response.json()) as Record<string, unknown>;
    assert.deepEqual(Object.keys(tokens).toSorted(), [
      'access_token',
      'expires_in',
      'refresh_token',
      'scope',
      'token_type',
    ]);
    assert.deepEqual([tokens['token_type'], tokens['expires_in'], tokens['scope']], ['Bearer', 900, 'read']);
    const { id, ...rest } = (await (await site.client.get('/look')).json()) as Record<string, unknown>;
    assert.notEqual(id, before);
    assert.deepEqual(rest, { cart: 'tea', planted: null, user: 'user-ada' });
    assert.equal(
      await (
        await site.client.get('/me', {
          headers: { authorization: `Bearer ${String(tokens['access_token'])}` },
        })
      ).text(),
      'user-ada',
    );
  });
}

test('OAuth callback: the response to a login contains no token of the provider', async () => {
  await using site = await LoginSite.open();
  site.fake.failNext('token', {
    body: { access_token: 'provider-token-1', refresh_token: 'provider-token-2', token_type: 'bearer' },
  });
  assert.ok(!inspect(await site.login()).includes('provider-token'));
});

test('OAuth callback: a posted form that arrives without the login cookie is answered by a page that posts the form again with the cookie', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    more: (app) => app.use(new SecurityHeadersMiddleware()),
  });
  const { state } = await site.begin();
  const foreign = site.browser();
  const form = { code: '"><script>alert(1)</script>&\'', state, evil: 'x' };
  const page = await foreign.post('/oauth/callback', { form });
  assert.deepEqual(
    [page.status, page.headers.get('content-type'), page.headers.get('cache-control')],
    [200, 'text/html; charset=utf-8', 'no-store'],
  );
  const html = await page.text();
  const nonce = /<script nonce="([^"]+)">/.exec(html)![1]!;
  const policy = page.headers.get('content-security-policy')!;
  assert.ok(
    policy.includes(`script-src 'nonce-${nonce}'`) &&
      policy.includes("default-src 'none'") &&
      policy.includes("form-action 'self'") &&
      policy.includes("frame-ancestors 'none'"),
    policy,
  );
  assert.ok(html.includes('value="&#34;&#62;&#60;script&#62;alert(1)&#60;/script&#62;&#38;&#39;"'), html);
  assert.ok(!html.includes('evil') && !html.includes('<script>alert'));
  for (const part of [
    '<html lang="en">',
    '<meta name="color-scheme" content="light dark">',
    '<main>\n<h1>Logging in</h1>\n<form method="post">',
    '<p>If this page stays: <button>Continue</button></p>',
  ])
    assert.ok(html.includes(part), part);
  assert.notEqual(
    (await (await foreign.post('/oauth/callback', { form })).text()).includes(nonce),
    true,
    'a nonce is for one page',
  );

  await refusedAs(
    await foreign.post('/oauth/callback', { form: { ...form, reposted: '1' } }),
    400,
    'state_browser_mismatch',
  );
  assert.equal(
    (await site.client.post('/oauth/callback', { form: { code: 'c', state, reposted: '1' } })).status,
    200,
  );
});

test("OAuth callback: with acceptsPostedName, the user's name is read from the posted form if user info and id_token contain no name", async () => {
  const user = JSON.stringify({ name: { firstName: 'Ada', lastName: 'King' }, email: 'eve@example.test' });
  const reported = async (
    provider: Partial<OAuthProviderOptions>,
    saysName: boolean,
    isForm: boolean = true,
  ): Promise<readonly unknown[]> => {
    const infos: UserInfo[] = [];
    await using site = await LoginSite.open({
      provider,
      plugin: {
        onUser: (_provider, info) => {
          infos.push(info);
          return info.subject;
        },
      },
    });
    if (!saysName) site.fake.user = { sub: 'ada' };
    const { state } = await site.begin();
    const form = { code: 'c', state, user };
    if (isForm) {
      const page = await (await site.browser().post('/oauth/callback', { form })).text();
      assert.ok(page.includes(`name="user" value="${user.replaceAll('"', '&#34;')}"`), page);
    }
    assert.equal(
      (isForm
        ? await site.client.post('/oauth/callback', { form: { ...form, reposted: '1' } })
        : await site.back(form)
      ).status,
      200,
    );
    return infos.map(({ name, email, emailVerified }) => [name, email, emailVerified]).flat();
  };
  assert.deepEqual(await reported({ acceptsPostedName: true }, false), ['Ada King', null, false]);
  assert.deepEqual(await reported({ acceptsPostedName: true }, true), [
    'Ada Lovelace',
    'ada@example.test',
    true,
  ]);
  assert.deepEqual(await reported({}, false), [null, null, false]);
  assert.deepEqual(await reported({ acceptsPostedName: true }, false, false), [null, null, false]);
});

for (const name of ['code', 'state', 'iss', 'error', 'error_description', 'scope', 'session_state', 'user'])
  test(`OAuth callback: the page that posts a form again keeps the parameter ${name}`, async () => {
    await using site = await LoginSite.open();
    const page = await site.browser().post('/oauth/callback', { form: { state: 's', [name]: 'kept' } });
    assert.ok((await page.text()).includes(`<input type="hidden" name="${name}" value="kept">`));
  });

test('OAuth callback: a posted callback is refused if it exceeds 64 KiB, has no state, or repeats a name', async () => {
  await using site = await LoginSite.open();
  await refusedAs(
    await site.client.post('/oauth/callback', { form: { code: 'x'.repeat(65_600), state: 'y' } }),
    413,
    'invalid_request',
  );
  await refusedAs(await site.client.post('/oauth/callback', { form: { code: 'c' } }), 400, 'invalid_state');
  await refusedAs(
    await site.client.post('/oauth/callback', { form: { code: 'c', state: ['a', 'b'] } }),
    400,
    'invalid_request',
  );
  await refusedAs(await site.client.post('/oauth/callback', { json: { code: 'c' } }), 415, 'invalid_request');
});

test('OAuth callback: HEAD requests and prefetches do not use up the state', async () => {
  await using site = await LoginSite.open();
  const { state } = await site.begin();
  const query = { code: 'c', state };
  for (const response of [
    await site.client.head('/oauth/callback', { query }),
    await site.client.get('/oauth/callback', { query, headers: { 'sec-purpose': 'prefetch' } }),
    await site.client.get('/oauth/callback', { query, headers: { purpose: 'prefetch' } }),
  ]) {
    assert.deepEqual([response.status, response.headers.getSetCookie()], [204, []]);
  }
  assert.equal(site.fake.count(), 0);
  assert.equal((await site.back(query)).status, 200);
});

test('OAuth callback: if the token endpoint closes the connection, the state is used up, no login is stored, and the user can log in again', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { state } = await site.begin();
  const db = site.app.state.db;
  const count = async (table: string): Promise<unknown> => db.scalar(`SELECT COUNT(*) FROM ${table}`);
  site.fake.failNext('token', { answer: (response) => response.destroy() }); // as far as the rows go, the same
  await refusedAs(await site.back({ code: 'c', state }), 502, 'provider_error');
  assert.deepEqual([await count('svc_oauth_used'), await count('svc_oauth_login')], [1, 0]);
  await site.login();
  assert.deepEqual([await count('svc_oauth_used'), await count('svc_oauth_login')], [2, 1]);
});

test('OAuth callback: a state that was made with one secret is refused after the application has switched to a different secret', async () => {
  const clock = new ManualClock();
  const used = new SingleUse(new MemoryRecordStore({ clock }));
  const states = (secret: string): LoginStates =>
    new LoginStates({ used, clock, env: 'test', keys: Keyring.of(secret), ttlSeconds: 600 });
  let cookie: [string, string] = ['', ''];
  const begun = states(SECRET).begin({ scheme: 'http', cookies: {} } as never, {
    provider: 'p',
    redirectUri: 'r',
    returnTo: null,
    scopes: null,
    keyThumbprint: null,
    client: null,
    link: null,
  });
  begun.remember({
    setCookie: (name: string, value: string) => {
      cookie = [name, value];
    },
    deleteCookie: () => undefined,
  } as never);
  await assert.rejects(
    states(`${SECRET}-another`).take(
      { scheme: 'http', cookies: Object.fromEntries([cookie]) } as never,
      begun.state,
      'p',
    ),
    { code: 'invalid_state', reason: 'key_has_left' },
  );
});

test('OAuth callback: a login renews the session, so that a session id planted by an attacker gives no access to the login', async () => {
  await using site = await LoginSite.open({
    hasSession: true,
    more: (app) =>
      app.get('/look', ({ req }) => {
        const user = req.session.get(currentUser) ?? null;
        if (user === null) req.session.set('seen', 'yes');
        return { user };
      }),
  });
  const attacker = site.browser();
  await attacker.get('/look');
  const session = attacker.cookies.get('svc_session')!;
  site.client.cookies.set('svc_session', session);
  await site.login();
  assert.deepEqual(await (await site.client.get('/look')).json(), { user: 'user-ada' });
  assert.notEqual(site.client.cookies.get('svc_session'), session);
  assert.deepEqual(await (await attacker.get('/look')).json(), { user: null });
});

for (const mode of ['json', 'cookie'] as const) {
  test(`OAuth callback: a refused login in ${mode} mode has the status and description of its reason, and is not stored`, async () => {
    const refuse = (): never => {
      throw new HTTPException(404);
    };
    const revoke = async (site: LoginSite): Promise<string> => {
      await site.oauth.revokeAll('user-ada');
      return 'user-ada';
    };
    const refusals: readonly [keyof typeof DENIALS, (site: LoginSite) => unknown, string?][] = [
      ['access_denied', () => 'user-ada', 'access_denied'],
      ['on_user', () => undefined],
      ['on_user', refuse],
      ['revoked_meanwhile', revoke],
    ];
    let onUser: (site: LoginSite) => unknown = () => undefined;
    const site: LoginSite = await LoginSite.open({
      env: 'production',
      plugin: { mode, onUser: () => onUser(site) as never },
    });
    await using _closing = site;
    for (const [reason, hook, error] of refusals) {
      onUser = hook;
      const { state } = await site.begin();
      const response = await site.back(error === undefined ? { code: 'c', state } : { error, state });
      const { status, description } = DENIALS[reason];
      const { error_description: words } = await refusedAs(response, status, 'access_denied');
      assert.deepEqual(
        [words, failure(site)?.['event'], failure(site)?.['reason']],
        [description, 'login_failed', reason],
      );
      assert.equal(await logins(site), 0);
    }
  });
}

/** Logins by the provider's answer about the e-mail address: level and reason of the audit event, if there is one. */
const EMAILS: Readonly<
  Record<
    string,
    {
      readonly scopes: readonly string[];
      readonly email?: string;
      /** Status of the e-mail endpoint. Without it, the provider has no such endpoint. */
      readonly status?: number;
      readonly expected?: readonly [level: string, reason: string];
    }
  >
> = {
  'an e-mail endpoint that answers 404': {
    scopes: ['read:user', 'user:email'],
    status: 404,
    expected: ['warn', 'emails_status_404'],
  },
  'an e-mail endpoint that answers 403, and a public address': {
    scopes: ['user:email'],
    email: 'public@x.test',
    status: 403,
    expected: ['warn', 'emails_status_403'],
  },
  'an e-mail endpoint that answers 403, with the scope user': {
    scopes: ['user'],
    status: 403,
    expected: ['warn', 'emails_status_403'],
  },
  'an e-mail endpoint that answers 404, if no scope asks for the address': {
    scopes: ['read:user'],
    status: 404,
  },
  'an e-mail endpoint that answers with an address': { scopes: ['user:email'], status: 200 },
  'a user without an address': { scopes: ['email'], expected: ['info', 'not_sent'] },
  'a user without an address at X': { scopes: ['users.read', 'users.email'], expected: ['info', 'not_sent'] },
  'a user without an address, if no scope asks for it': { scopes: ['users.read'] },
  'an address that is refused because of its form': { scopes: ['email'], email: 'ada' },
};

for (const [what, { scopes, email, status, expected }] of Object.entries(EMAILS)) {
  test(`OAuth callback: ${what} leads to ${expected === undefined ? 'no event' : `the ${expected[0]} event`} user_email_absent, and the login succeeds`, async () => {
    await using site = await LoginSite.open({ provider: { scopes }, hasEmails: status !== undefined });
    site.fake.user = { sub: 'ada', ...(email !== undefined && { email }) };
    if (status !== undefined && status !== 200) site.fake.failNext('emails', { status, body: {} });
    await site.login();
    assert.deepEqual(
      site
        .audited('user_email_absent')
        .map(({ level, provider, reason, remedy }) => [
          level,
          provider,
          reason,
          /option "scopes"/.test(String(remedy)),
        ]),
      expected === undefined ? [] : [[expected[0], 'fake', expected[1], true]],
    );
    assert.equal(await logins(site), 1);
  });
}

test('OAuth callback: an e-mail with control characters, or of another form, reaches onUser() as absent, with an audit event', async () => {
  const seen: unknown[] = [];
  await using site = await LoginSite.open({
    plugin: {
      onUser: (_provider, { subject, email, emailVerified, name, picture }) => {
        seen.push({ email, emailVerified, name, picture });
        return `user-${subject}`;
      },
    },
  });
  const user = { sub: 'ada', email_verified: true, name: 'Ada', picture: 'https://x.test/a.png' };
  for (const email of ['ada@x.test\r\nBcc: eve@x.test', 'ada\0@x.test', 'ada@x.test, eve@x.test', 'ada']) {
    site.fake.user = { ...user, email };
    await site.login();
  }
  site.fake.user = { ...user, email: 'ada@x.test', name: 'Ada\nEve', picture: 'javascript:alert(1)' };
  await site.login();
  const absent = { email: null, emailVerified: false, name: 'Ada', picture: 'https://x.test/a.png' };
  const last = { email: 'ada@x.test', emailVerified: true, name: null, picture: null };
  assert.deepEqual(seen, [absent, absent, absent, absent, last]);
  const events = site.audited('user_claims_refused');
  assert.deepEqual(
    events.map(({ provider, claims, category }) => [provider, claims, category]),
    [
      ...Array(4).fill(['fake', 'email', 'input_validation_fail']),
      ['fake', 'name picture', 'input_validation_fail'],
    ],
  );
  assert.doesNotMatch(JSON.stringify(events), /Bcc|javascript/);
});
