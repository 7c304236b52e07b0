/**
 * Regression tests for the defects of the original system.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Depends, requireScopes, sessionKey } from 'svc';
import { OAUTH_TABLES } from '../../src/oauth/tokens/sql-store.ts';
import { LoginSite, claimsOf, refusedAs } from './support/site.ts';
import type { UserInfo } from 'svc/oauth';
import type { Tokens } from './support/site.ts';

test('OAuth callback: without redirect_uri in the callback, the token request contains the redirect URI of the login request', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { state } = await site.begin({ redirect_uri: 'https://app.example/oauth/callback' });
  assert.equal((await site.back({ code: 'c', state })).status, 200);
  assert.equal(site.fake.requests[0]!.form.get('redirect_uri'), 'https://app.example/oauth/callback');
});

test('OAuth login: a state works once and only in the browser that started the login, and the 21st login within a minute gets a 429', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { state } = await site.begin();
  const rows = JSON.stringify(await site.app.state.db.fetchAll('SELECT * FROM svc_oauth_used'));
  await refusedAs(
    await site.back({ code: 'c', state }, { client: site.browser() }),
    400,
    'state_browser_mismatch',
  );
  const answers = await Promise.all([site.back({ code: 'c', state }), site.back({ code: 'c', state })]);
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 400]);
  const verifier = site.fake.requests[0]!.form.get('code_verifier')!;
  for (const secret of [verifier, state]) assert.ok(!rows.includes(secret));
  for (let count = 0; count < 19; count++) await site.begin();
  await refusedAs(await site.client.get('/oauth/login'), 429, 'rate_limited');
});

test('OAuth refresh: simultaneous refreshes get one new token, and a repeated refresh gets this token again if it was not delivered', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { refresh_token: token } = await site.login();
  const answers = await Promise.all(
    Array.from({ length: 5 }, () => site.client.post('/oauth/token', { form: { refresh_token: token } })),
  );
  const successors = new Set(
    await Promise.all(answers.map(async (answer) => ((await answer.json()) as Tokens).refresh_token)),
  );
  assert.equal(successors.size, 1);
  await site.app.state.db.execute('UPDATE svc_oauth_login SET delivered_at = NULL'); // as a crash before the answer leaves it
  assert.equal((await site.refreshed(token)).refresh_token, [...successors][0]);
});

test('OAuth refresh: the replay of a token ends the login of that token, but no other login of the user', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { refreshIdleTtlSeconds: 3_600, refreshAbsoluteTtlSeconds: 7_200 },
  });
  const [one, other] = [await site.login(), await site.login(site.browser())];
  await site.refreshed(one.refresh_token);
  await refusedAs(await site.refresh(one.refresh_token), 400, 'invalid_grant');
  await site.refreshed(other.refresh_token);
  await site.login();
  await site.clock.advance(3_600_000);
  const before = site.audited('token_reuse_detected').length;
  await refusedAs(await site.refresh(other.refresh_token), 400, 'invalid_grant');
  assert.equal(
    site.audited('token_reuse_detected').length,
    before,
    'a login that is over cannot be stolen any more',
  );
  await site.clock.advance(3_600_000);
  await site.oauth.cleanUp();
  assert.equal(await site.app.state.db.scalar('SELECT COUNT(*) FROM svc_oauth_login'), 0);
});

test('OAuth: a slow provider causes a 504, an invalid provider response causes a 502, and meanwhile other requests are answered', async () => {
  await using site = await LoginSite.open({ plugin: { limits: { login: false, callback: false } } });
  const slow = await site.begin();
  site.fake.failNext('token', { until: new Promise(() => undefined) });
  const pending = site.back({ code: 'c', state: slow.state });
  await site.fake.arrived(1);
  assert.equal((await site.client.get('/healthz')).status, 200, 'others are served meanwhile');
  await site.clock.advance(10_000);
  await refusedAs(await pending, 504, 'provider_timeout');
  for (const script of [
    { body: 'x'.repeat(2_000_000) },
    { status: 302, headers: { location: `${site.fake.url}/elsewhere` } },
    { status: 500 },
    { answer: (response: { destroy(): void }) => response.destroy() },
  ]) {
    const { state } = await site.begin();
    site.fake.failNext('userinfo', script);
    await refusedAs(await site.back({ code: 'c', state }), 502, 'provider_error');
  }
  assert.equal(site.fake.count('other'), 0);
});

test('/oauth/token refuses the grant type "password" and tokens that are not strings, and /oauth/revoke answers known and unknown tokens alike', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  await refusedAs(
    await site.client.post('/oauth/token', { form: { grant_type: 'password' } }),
    400,
    'unsupported_grant_type',
  );
  for (const value of [5, {}, [], true])
    await refusedAs(
      await site.client.post('/oauth/token', { json: { refresh_token: value } }),
      400,
      'invalid_request',
    );
  assert.equal((await site.refresh(token)).status, 200);
  const [known, unknown] = [await site.revoke({ token }), await site.revoke({ token: 'unknown' })];
  const shown = async (response: Response): Promise<unknown> => [
    response.status,
    await response.text(),
    [...response.headers].filter(([name]) => name !== 'x-request-id'),
  ];
  assert.deepEqual(await shown(known), await shown(unknown));
});

test('requireScopes() accepts access tokens of OAuthPlugin that contain the required scope, and answers 403 if the scope is missing', async () => {
  await using site = await LoginSite.open({
    plugin: { scopes: ['notes:read'] },
    more: (app) =>
      app
        .get('/read', { me: Depends(requireScopes('notes:read')) }, () => 'yes')
        .get('/write', { me: Depends(requireScopes('notes:write')) }, () => 'yes'),
  });
  const { access_token: token } = await site.login();
  const status = async (path: string): Promise<number> =>
    (await site.client.get(path, { headers: { authorization: `Bearer ${token}` } })).status;
  assert.deepEqual([await status('/read'), await status('/write')], [200, 403]);
});

test('the tables of OAuthPlugin have no TEXT primary key in MySQL and MariaDB, and store times as integers', async () => {
  for (const engine of ['mysql', 'mariadb'] as const)
    for (const statement of OAUTH_TABLES[engine]) {
      for (const line of statement.split('\n')) assert.ok(!/\bTEXT\b.*PRIMARY KEY/i.test(line), line);
      assert.ok(!/\b(?:FLOAT|DOUBLE|REAL|TIMESTAMP|DATETIME)\b/i.test(statement), statement);
    }
  await using site = await LoginSite.open({ env: 'production' });
  await site.login();
  const row = await site.app.state.db.fetchOne(
    'SELECT created_at, idle_expires_at, abs_expires_at FROM svc_oauth_login',
  );
  for (const value of Object.values(row!)) assert.ok(Number.isSafeInteger(value), String(value));
});

test('OAuth login: an e-mail counts as verified only if email_verified is true, and a response with a wrong issuer or nonce is refused', async () => {
  const seen: UserInfo[] = [];
  await using site = await LoginSite.open({
    plugin: {
      onUser: (_provider, info) => {
        seen.push(info);
        return 'x';
      },
    },
  });
  for (const verified of [true, false, 'true', 1, undefined]) {
    site.fake.user = { sub: 'ada', email: 'ada@example.test', email_verified: verified };
    await site.login();
  }
  assert.deepEqual(
    seen.map(({ emailVerified }) => emailVerified),
    [true, false, false, false, false],
  );
  const { fake } = site;
  await using openid = await LoginSite.open({ provider: { issuer: fake.url } });
  const first = await openid.begin();
  await refusedAs(
    await openid.back({ code: 'c', state: first.state, iss: 'https://evil.example' }),
    400,
    'issuer_mismatch',
  );
  const second = await openid.begin();
  fake.nonce = 'another';
  await refusedAs(await openid.back({ code: 'c', state: second.state }), 502, 'provider_error');
  const third = await openid.begin();
  fake.nonce = openid.fake.nonce;
  fake.user = { sub: 'ada' };
  assert.equal((await openid.back({ code: 'c', state: third.state })).status, 200);
});

test('OAuth: by default, a login renews the session, and one address can start 20 logins per minute', async () => {
  const seen = sessionKey<string>('seen');
  await using site = await LoginSite.open({
    hasSession: true,
    more: (app) =>
      app.get('/look', ({ req }) => {
        req.session.set(seen, 'x');
        return req.session.id;
      }),
  });
  const before = await (await site.client.get('/look')).text();
  const { access_token: token } = await site.login();
  assert.notEqual(await (await site.client.get('/look')).text(), before);
  assert.equal(typeof claimsOf(token)['jti'], 'string');
  for (let count = 0; count < 19; count++) await site.begin();
  await refusedAs(await site.client.get('/oauth/login'), 429, 'rate_limited');
  assert.deepEqual(site.oauth.secrets, ['authSecret'], 'SVC_AUTH_SECRET; without it nothing starts (K06)');
});
