/**
 * Tokens of the provider: passed to onUser, stored encrypted, refreshed by one process at a time.
 */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { DatabasePlugin } from 'svc/db';
import { folder } from '../support/run.ts';
import { LoginSite, refusedAs } from './support/site.ts';
import type { OnUserContext, ProviderTokens } from 'svc/oauth';
import type { LoginSiteOptions, SiteDatabase } from './support/site.ts';

const ANSWER = { access_token: 'at-1', token_type: 'bearer', refresh_token: 'rt-1', expires_in: 3_600 };

/** Opens a site that stores the provider's tokens, and whose next login gets these tokens. */
async function open(
  options: LoginSiteOptions = {},
  answer: Record<string, unknown> = ANSWER,
): Promise<LoginSite> {
  const site = await LoginSite.open({
    ...options,
    plugin: { storeProviderTokens: true, ...options.plugin },
    provider: { scopes: ['read', 'write'], ...options.provider },
  });
  site.fake.failNext('token', { body: answer });
  return site;
}

const token = (site: LoginSite, minValiditySeconds?: number): ReturnType<typeof site.oauth.providerToken> =>
  site.oauth.providerToken('user-ada', 'fake', { minValiditySeconds });

test("provider tokens: onUser() gets the provider's tokens with their scopes and expiry, and the request", async () => {
  const seen: OnUserContext[] = [];
  const answer = { ...ANSWER, scope: 'read,write', id_token: 'a.b.c' };
  await using site = await open(
    {
      plugin: {
        onUser: (_provider, info, context) => {
          seen.push(context);
          return `user-${info.subject}`;
        },
      },
    },
    answer,
  );
  await site.login();
  site.fake.failNext('token', { body: { access_token: 'at-2', token_type: 'bearer' } });
  const { state } = await site.begin({ scope: 'read' });
  assert.equal((await site.back({ code: 'c', state })).status, 200);
  assert.deepEqual(
    seen.map(({ tokens }): ProviderTokens => tokens),
    [
      {
        accessToken: 'at-1',
        refreshToken: 'rt-1',
        idToken: 'a.b.c',
        scopes: ['read', 'write'],
        expiresAt: new Date(site.clock.nowMs() + 3_600_000),
      },
      {
        accessToken: 'at-2',
        refreshToken: undefined,
        idToken: undefined,
        scopes: ['read'],
        expiresAt: undefined,
      },
    ],
  );
  assert.equal(seen[0]!.req.path, '/oauth/callback');
});

test('provider tokens: providerToken() returns the token of the latest login, and refreshes this token shortly before it expires', async () => {
  await using site = await open({ env: 'production' });
  await site.client.get('/healthz');
  assert.deepEqual(await token(site), { kind: 'absent' });
  await site.login();
  const { nowMs } = { nowMs: site.clock.nowMs() };
  assert.deepEqual(await token(site), {
    kind: 'token',
    accessToken: 'at-1',
    idToken: undefined,
    scopes: ['read', 'write'],
    expiresAt: new Date(nowMs + 3_600_000),
  });
  await site.clock.advance(3_539_999);
  assert.equal(site.fake.count('token'), 1);
  site.fake.failNext('token', {
    body: { access_token: 'at-2', token_type: 'bearer', expires_in: 60, scope: 'read' },
  });
  await site.clock.advance(1);
  const refreshed = await token(site);
  assert.deepEqual(
    [refreshed.kind, 'accessToken' in refreshed ? [refreshed.accessToken, refreshed.scopes] : undefined],
    ['token', ['at-2', ['read']]],
  );
  const { form } = site.fake.requests.at(-1)!;
  assert.deepEqual(Object.fromEntries(form), {
    grant_type: 'refresh_token',
    refresh_token: 'rt-1',
    client_id: 'client',
    client_secret: 'client-secret-9f2c',
  });
  site.fake.failNext('token', { body: { ...ANSWER, access_token: 'at-3', refresh_token: 'rt-3' } });
  assert.equal((await token(site, 61)).kind, 'token');
  assert.equal(
    site.fake.requests.at(-1)!.form.get('refresh_token'),
    'rt-1',
    'an answer without one keeps it',
  );
  await site.clock.advance(3_600_000);
  site.fake.failNext('token', { body: ANSWER });
  await token(site);
  assert.equal(site.fake.requests.at(-1)!.form.get('refresh_token'), 'rt-3', 'a rotated one replaces it');
});

test('provider tokens: if two processes call providerToken() at once, one refresh request is sent to the provider', async (t) => {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  const database = (): Promise<SiteDatabase> =>
    Promise.resolve({ plugin: new DatabasePlugin(url, { migrations: 'apply' }) });
  await using one = await open({ database });
  await using two = await open({ database });
  await one.login();
  await two.client.get('/healthz');
  await one.clock.advance(3_600_000);
  await two.clock.advance(3_600_000);
  two.fake.failNext('token', { body: ANSWER }); // whichever is asked
  for (const { fake } of [one, two])
    fake.failNext('token', { body: { ...ANSWER, access_token: 'at-2', refresh_token: 'rt-2' } });
  const before = one.fake.count('token') + two.fake.count('token');
  const answers = await Promise.all([token(one), token(one), token(two), token(two), token(one)]);
  assert.equal(one.fake.count('token') + two.fake.count('token') - before, 1);
  assert.equal(new Set(answers.map((answer) => JSON.stringify(answer))).size, 1);
});

test('provider tokens: the result of providerToken() distinguishes a revoked grant, an expired token and an unreachable provider', async () => {
  for (const [scripted] of [
    [{ status: 400, body: { error: 'invalid_grant' } }],
    [{ status: 200, body: { error: 'bad_refresh_token' } }],
  ] as const) {
    await using site = await open();
    await site.login();
    await site.clock.advance(3_600_000);
    site.fake.failNext('token', { status: 500, body: {} });
    await assert.rejects(token(site), { code: 'provider_error' });
    site.fake.failNext('token', scripted);
    assert.deepEqual(await token(site), { kind: 'revoked' });
    const { length } = site.fake.requests;
    assert.deepEqual(await token(site), { kind: 'revoked' });
    assert.equal(site.fake.requests.length, length, 'the provider is not asked again');
    site.fake.failNext('token', { body: ANSWER });
    await site.login();
    assert.equal((await token(site)).kind, 'token', 'the next login mends it');
  }
  await using site = await open({}, { access_token: 'at-1', token_type: 'bearer', expires_in: 30 });
  await site.login();
  assert.equal((await token(site)).kind, 'token', 'for as long as it lasts');
  await site.clock.advance(30_000);
  assert.deepEqual(await token(site), { kind: 'expired' });
  assert.deepEqual(await site.oauth.providerToken('user-ada', 'other'), { kind: 'absent' });
  assert.deepEqual(await site.oauth.providerToken('user-eve', 'fake'), { kind: 'absent' });
  assert.equal(await site.oauth.forgetProviderToken('user-ada', 'fake'), true);
  assert.deepEqual(await token(site), { kind: 'absent' });
});

test('provider tokens: if the token response of a later login has no refresh token, the stored refresh token is kept', async () => {
  await using site = await open();
  await site.login();
  site.fake.failNext('token', { body: { access_token: 'at-2', token_type: 'bearer', expires_in: 100 } });
  await site.login();
  site.fake.failNext('token', { body: { ...ANSWER, access_token: 'at-3' } });
  assert.equal((await token(site, 200)).kind, 'token');
  assert.equal(site.fake.requests.at(-1)!.form.get('refresh_token'), 'rt-1');
});

test('provider tokens: stored tokens are encrypted, and cannot be decrypted in the record of another subject', async () => {
  await using site = await open({ env: 'production' });
  await site.login();
  const { db } = site.app.state;
  const rows = await db.fetchAll('SELECT * FROM svc_oauth_provider_token');
  const text = JSON.stringify(rows);
  for (const secret of ['at-1', 'rt-1', 'user-ada', Buffer.from('at-1').toString('base64url')])
    assert.ok(!text.includes(secret), secret);
  assert.equal(rows.length, 1);
  await site.oauth.forgetProviderToken('user-ada', 'fake');
  site.fake.failNext('token', { body: { ...ANSWER, access_token: 'at-eve' } });
  await site.login();
  await db.execute('UPDATE svc_oauth_provider_token SET record_value = ?', [
    String(rows[0]!['record_value']).replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')),
  ]);
  assert.deepEqual(await token(site), { kind: 'absent' }, 'a changed record');
});

test('provider tokens: a login fails with 503 if the tokens cannot be stored, and providerToken() throws without storeProviderTokens', async () => {
  await using site = await open({ env: 'production' });
  const { state } = await site.begin();
  await site.app.state.db.execute('ALTER TABLE svc_oauth_provider_token RENAME TO away');
  await refusedAs(await site.back({ code: 'c', state }), 503, 'temporarily_unavailable');
  assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
  await using without = await LoginSite.open();
  await without.login();
  await assert.rejects(without.oauth.providerToken('user-ada', 'fake'), { code: 'E_OPTION_RANGE' });
});
