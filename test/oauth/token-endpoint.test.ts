/**
 * `/oauth/token`, `/oauth/revoke`, and the plugin's methods for logins.
 * test/oauth/tokens/refresh.test.ts tests the state machine.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BearerAuth,
  Depends,
  HTTPException,
  IdempotencyMiddleware,
  MemoryRecordStore,
  createToken,
  requireScopes,
} from 'svc';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { ValidAfterGate } from '../../src/oauth/tokens/access.ts';
import { MemoryTokenStore } from '../../src/oauth/tokens/store.ts';
import { LoginSite, SECRET, claimsOf, refusedAs } from './support/site.ts';
import type { RefreshVerdict } from 'svc/oauth';
import type { Tokens } from './support/site.ts';

const THE_ONE = 'The refresh token is no longer valid: log in again';

for (const env of ['production', 'test'] as const) {
  test(`/oauth/token: in the environment "${env}", a refresh token is exchanged for a new pair of tokens, as JSON with "Cache-Control: no-store"`, async () => {
    await using site = await LoginSite.open({ env, plugin: { scopes: ['read', 'write'] } });
    const first = await site.login();
    await site.clock.advance(1_000);
    const response = await site.refresh(first.refresh_token);
    assert.deepEqual(
      [
        response.status,
        response.headers.get('content-type'),
        response.headers.get('cache-control'),
        response.headers.get('pragma'),
      ],
      [200, 'application/json', 'no-store', 'no-cache'],
    );
    const second = (await response.json()) as Tokens;
    assert.deepEqual(
      { ...second, access_token: '', refresh_token: '' },
      { access_token: '', token_type: 'Bearer', expires_in: 900, refresh_token: '', scope: 'read write' },
    );
    assert.notEqual(second.refresh_token, first.refresh_token);
    assert.notEqual(second.access_token, first.access_token);
    assert.equal(claimsOf(second.access_token)['sid'], claimsOf(first.access_token)['sid']);
    assert.deepEqual(response.headers.getSetCookie(), []);
    await site.refreshed(second.refresh_token);
  });
}

test('/oauth/token: the parameter grant_type is optional, and the body may be JSON', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  const response = await site.client.post('/oauth/token', { json: { refresh_token: token } });
  assert.equal(response.status, 200);
  const next = (await response.json()) as Tokens;
  assert.equal(
    (
      await site.client.post('/oauth/token', {
        headers: { 'content-type': 'application/json; charset=utf-8' },
        body: JSON.stringify({
          refresh_token: next.refresh_token,
          grant_type: 'refresh_token',
          scope: null,
        }),
      })
    ).status,
    200,
  );
});

test('/oauth/token: IdempotencyMiddleware requires no key for a refresh, and stores no response that contains tokens', async () => {
  const store = new MemoryRecordStore();
  await using site = await LoginSite.open({
    more: (app) => void app.use(new IdempotencyMiddleware({ required: true, store })),
  });
  const { refresh_token: first } = await site.login();
  const refreshed = await site.client.post('/oauth/token', { form: { refresh_token: first } });
  assert.equal(refreshed.status, 200);
  const { refresh_token: second } = (await refreshed.json()) as Tokens;
  const headers = { 'idempotency-key': '"one"' };
  for (const status of [200, 400])
    assert.equal(
      (await site.client.post('/oauth/token', { form: { refresh_token: second }, headers })).status,
      status,
    );
  assert.equal(store.size, 0);
});

test('/oauth/token: unknown, malformed, forged, expired, revoked and replayed tokens all get the same response', async () => {
  await using site = await LoginSite.open({ plugin: { refreshIdleTtlSeconds: 3_600 } });
  const replayed = await site.login();
  await site.refreshed(replayed.refresh_token);
  const revoked = await site.login();
  await site.revoke({ token: revoked.refresh_token });
  const expired = await site.login();
  const other = await LoginSite.open({ app: { authSecret: `${SECRET}-another` } });
  const foreign = await other.login();
  await other[Symbol.asyncDispose]();
  await site.clock.advance(3_600_000);
  const parts = expired.refresh_token.split('.');
  const swap = (index: number): string =>
    parts
      .map((part, at) => (at === index ? `${part.startsWith('A') ? 'B' : 'A'}${part.slice(1)}` : part))
      .join('.');
  const bodies: unknown[] = [];
  for (const token of [
    'x',
    'svcrt_1',
    'a'.repeat(4_000),
    `${expired.refresh_token} `,
    `${expired.refresh_token}.x`,
    swap(1),
    swap(3),
    swap(4),
    parts.with(2, '1').join('.'),
    foreign.refresh_token,
    expired.access_token,
    replayed.refresh_token,
    revoked.refresh_token,
    expired.refresh_token,
  ]) {
    const { request_id: _, ...body } = await refusedAs(await site.refresh(token), 400, 'invalid_grant');
    bodies.push(body);
  }
  for (const body of bodies) assert.deepEqual(body, { error: 'invalid_grant', error_description: THE_ONE });
});

test('/oauth/token: a request is refused if its refresh token is missing, empty, repeated or not a string, or if its grant_type is not refresh_token', async () => {
  await using site = await LoginSite.open();
  const post = (form: Record<string, string | readonly string[]>): Promise<Response> =>
    site.client.post('/oauth/token', { form });
  for (const form of [
    {},
    { refresh_token: '' },
    { refresh_token: ['a', 'b'] },
    { refresh_token: ['', ''] },
    { refresh_token: 'x', grant_type: ['refresh_token', 'refresh_token'] },
    { refresh_token: 'x', scope: ['a', 'b'] },
    { refresh_token: 'x'.repeat(5_000) },
  ]) {
    await refusedAs(await post(form), 400, 'invalid_request');
  }
  for (const json of [
    [],
    'text',
    null,
    5,
    { refresh_token: 5 },
    { refresh_token: ['a'] },
    { refresh_token: {} },
    { refresh_token: true },
  ])
    await refusedAs(await site.client.post('/oauth/token', { json }), 400, 'invalid_request');
  await refusedAs(await site.client.post('/oauth/token'), 400, 'invalid_request');
  for (const twice of [
    '{"refresh_token":"x","refresh_token":"x"}',
    '{"refresh_token":"x","scope":"a","\\u0073cope":"b"}',
  ]) {
    await refusedAs(
      await site.client.post('/oauth/token', {
        body: twice,
        headers: { 'content-type': 'application/json' },
      }),
      400,
      'invalid_request',
    );
  }
  await refusedAs(
    await site.client.post('/oauth/token', {
      body: '{"refresh_token":',
      headers: { 'content-type': 'application/json' },
    }),
    400,
    'invalid_request',
  );
  for (const grant of ['authorization_code', 'password', 'client_credentials', 'Refresh_Token'])
    await refusedAs(await post({ grant_type: grant, refresh_token: 'x' }), 400, 'unsupported_grant_type');
});

test('/oauth/token: refreshing and revoking are possible by POST only, and a token in the query is ignored', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  for (const path of ['/oauth/token', '/oauth/revoke']) {
    for (const method of ['GET', 'PUT', 'DELETE', 'PATCH']) {
      const response = await site.client.request(method, path, { query: { refresh_token: token, token } });
      assert.match(response.headers.get('allow')!, /POST/);
      await refusedAs(response, 405, 'invalid_request');
    }
    await refusedAs(
      await site.client.post(path, { query: { refresh_token: token, token } }),
      400,
      'invalid_request',
    );
    await refusedAs(
      await site.client.post(path, { form: {}, headers: { authorization: `Bearer ${token}` } }),
      400,
      'invalid_request',
    );
  }
  await site.refreshed(token);
});

test('/oauth/token: a body is refused if it is neither a form nor JSON, or is larger than 16 KiB', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  for (const path of ['/oauth/token', '/oauth/revoke']) {
    for (const type of ['text/plain', 'application/xml', 'application/octet-stream']) {
      await refusedAs(
        await site.client.post(path, { body: `refresh_token=${token}`, headers: { 'content-type': type } }),
        415,
        'invalid_request',
      );
    }
    await refusedAs(
      await site.client.post(path, { form: { refresh_token: token, more: 'x'.repeat(17_000) } }),
      413,
      'invalid_request',
    );
    await refusedAs(
      await site.client.post(path, { json: { refresh_token: token, more: 'x'.repeat(17_000) } }),
      413,
      'invalid_request',
    );
  }
  await site.refreshed(token);
});

test('/oauth/token: the replay of a refresh token ends the login of that token, but no other login of the user', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const [stolen, other] = [await site.login(), await site.login(site.browser())];
  const newest = await site.refreshed(stolen.refresh_token);
  for (let count = 0; count < 3; count++)
    await refusedAs(await site.refresh(stolen.refresh_token), 400, 'invalid_grant');
  await refusedAs(await site.refresh(newest.refresh_token), 400, 'invalid_grant');
  await site.refreshed(other.refresh_token);
  assert.equal(site.audited('token_reuse_detected').length, 1);
  assert.match(await site.metrics(), /svc_oauth_reuse_total 1/);
});

test('/oauth/token: simultaneous refreshes with one token all get the same new token', async () => {
  await using site = await LoginSite.open({ env: 'production', plugin: { limits: { token: false } } });
  let { refresh_token: token } = await site.login();
  for (const count of [2, 5, 20]) {
    const answers = await Promise.all(
      Array.from({ length: count }, () =>
        site.client.post('/oauth/token', { form: { refresh_token: token } }),
      ),
    );
    const tokens = await Promise.all(
      answers.map(async (answer) => ((await answer.json()) as Tokens).refresh_token),
    );
    assert.equal(new Set(tokens).size, 1);
    token = tokens[0]!;
  }
  await site.refreshed(token);
});

test('/oauth/token: with concurrency "strict", one of several simultaneous refreshes succeeds, and the login remains valid', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { concurrency: 'strict', limits: { token: false } },
  });
  const { refresh_token: token } = await site.login();
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => site.client.post('/oauth/token', { form: { refresh_token: token } })),
  );
  const winners = answers.filter(({ status }) => status === 200);
  assert.equal(winners.length, 1);
  await site.refreshed(((await winners[0]!.json()) as Tokens).refresh_token);
});

test('/oauth/token: a repeated refresh gets the lost response again within the grace period, but ends the login after this period', async () => {
  await using site = await LoginSite.open({ plugin: { refreshGraceSeconds: 10 } });
  const { refresh_token: lost } = await site.login();
  const answer = await site.refreshed(lost);
  await site.clock.advance(5_000);
  const again = await site.refreshed(lost);
  assert.equal(again.refresh_token, answer.refresh_token);
  assert.notEqual(again.access_token, answer.access_token);
  await site.clock.advance(10_000);
  await refusedAs(await site.refresh(lost), 400, 'invalid_grant');
  await refusedAs(await site.refresh(answer.refresh_token), 400, 'invalid_grant');
});

test('/oauth/token: the parameter "scope" can narrow the scopes of one access token, but not those of the login', async () => {
  await using site = await LoginSite.open({ plugin: { scopes: ['read', 'write'] } });
  const first = await site.login();
  await refusedAs(await site.refresh(first.refresh_token, { scope: 'read admin' }), 400, 'invalid_scope');
  const response = await site.refresh(first.refresh_token, { scope: ' read  ' });
  const narrow = (await response.json()) as Tokens;
  assert.deepEqual(
    [response.status, narrow.scope, claimsOf(narrow.access_token)['scopes']],
    [200, 'read', ['read']],
    'the refusal has not used the token up',
  );
  assert.equal((await site.refreshed(narrow.refresh_token)).scope, 'read write');
});

test('/oauth/token: if the database fails, the client gets a 503 with Retry-After, and can repeat the refresh', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { refresh_token: token } = await site.login();
  const db = site.app.state.db;
  const { state } = await site.begin();
  await db.execute('ALTER TABLE svc_oauth_login RENAME TO away');
  await db.execute('ALTER TABLE svc_oauth_used RENAME TO used_away');
  const responses = [
    await site.refresh(token),
    await site.revoke({ token }),
    await site.back({ code: 'c', state }),
  ];
  for (const response of responses) {
    assert.equal(response.headers.get('retry-after'), '1');
    const { error_description: description } = await refusedAs(response, 503, 'temporarily_unavailable');
    assert.ok(!/table|svc_oauth|sqlite/i.test(description));
  }
  assert.equal(site.audited('token_store_failed').length, 3, 'with what the database says');
  assert.match(await site.metrics(), /svc_oauth_refresh_total\{outcome="unavailable"\} 1/);
  await db.execute('ALTER TABLE away RENAME TO svc_oauth_login');
  await db.execute('ALTER TABLE used_away RENAME TO svc_oauth_used');
  await site.refreshed(token);
  const back = await site.back({ code: 'c', state });
  assert.equal(back.status, 200, 'the state was not consumed');
  await db.execute('ALTER TABLE svc_oauth_login RENAME TO away');
  const next = await site.begin();
  await refusedAs(await site.back({ code: 'c', state: next.state }), 503, 'temporarily_unavailable');
  assert.equal(site.audited('token_store_failed').length, 4, 'one event for each');
});

test('/oauth/token: each access token has a unique jti, the scopes of the login, and times from the clock of the application', async () => {
  await using site = await LoginSite.open({ plugin: { scopes: ['read'], accessTtlSeconds: 60 } });
  let sinceMs = site.clock.nowMs();
  let tokens = await site.login();
  const ids = new Set<unknown>();
  for (let count = 0; count < 20; count++) {
    const { jti, iat, exp, scopes } = claimsOf(tokens.access_token);
    assert.deepEqual([typeof jti, (exp as number) - (iat as number), scopes], ['string', 60, ['read']]);
    assert.ok(
      Math.floor(sinceMs / 1_000) <= (iat as number) && (iat as number) <= site.clock.nowMs() / 1_000,
      `${iat}`,
    );
    ids.add(jti);
    sinceMs = site.clock.nowMs();
    tokens = await site.refreshed(tokens.refresh_token);
  }
  assert.equal(ids.size, 20);
});

test('/oauth/token: the hook onRefresh() is called for each refresh, and can end the login or set scopes and claims of the new token', async () => {
  let verdict: unknown;
  const seen: unknown[] = [];
  await using site = await LoginSite.open({
    plugin: {
      scopes: ['read', 'write'],
      onRefresh: (login) => {
        seen.push(login);
        return verdict as RefreshVerdict;
      },
    },
  });
  let tokens = await site.login();
  for (const [answer, scopes, roles] of [
    [undefined, ['read', 'write'], undefined],
    [true, ['read', 'write'], undefined],
    [{ scopes: ['read'], claims: { roles: ['boss'] } }, ['read'], ['boss']],
    [{}, ['read', 'write'], undefined],
  ] as const) {
    verdict = answer;
    tokens = await site.refreshed(tokens.refresh_token);
    assert.deepEqual(
      [claimsOf(tokens.access_token)['scopes'], claimsOf(tokens.access_token)['roles']],
      [scopes, roles],
    );
  }
  assert.deepEqual(seen[0], {
    id: claimsOf(tokens.access_token)['sid'],
    sub: 'user-ada',
    provider: 'fake',
    subject: 'ada',
    scopes: ['read', 'write'],
    claims: {},
  });
  for (const answer of [
    null,
    'no',
    { scopes: 'read' },
    { scopes: ['a b'] },
    { claims: { exp: 1 } },
    { claims: 5 },
  ]) {
    verdict = answer;
    await refusedAs(await site.refresh(tokens.refresh_token), 500, 'server_error');
  }
  verdict = undefined;
  tokens = await site.refreshed(tokens.refresh_token); // the mistakes of the hook have not ended the login
  verdict = false;
  await refusedAs(await site.refresh(tokens.refresh_token), 400, 'invalid_grant');
  verdict = true;
  await refusedAs(await site.refresh(tokens.refresh_token), 400, 'invalid_grant');
  assert.deepEqual(
    site.audited('token_revoked').map(({ reason }) => reason),
    ['disabled'],
  );
});

test('/oauth/token: if a hook throws an HTTPException, the refresh is refused without the message of the exception, and the login remains valid', async () => {
  let status = 200;
  await using site = await LoginSite.open({
    plugin: {
      onRefresh: () => {
        if (status !== 200) throw new HTTPException(status, 'the "users" table…');
        return true;
      },
    },
  });
  const { refresh_token: token } = await site.login();
  for (const [thrown, expected, code] of [
    [400, 400, 'invalid_grant'],
    [403, 400, 'invalid_grant'],
    [499, 400, 'invalid_grant'],
    [500, 500, 'server_error'],
    [503, 503, 'temporarily_unavailable'],
  ] as const) {
    status = thrown;
    const { error_description: description } = await refusedAs(await site.refresh(token), expected, code);
    // the detail of a 5xx exception is public
    if (thrown < 500) assert.doesNotMatch(description!, /users/);
  }
  status = 200;
  await site.refreshed(token);
});

test('/oauth/token: a refresh with a replaced or revoked token gets invalid_grant even if its scope is also invalid', async () => {
  await using site = await LoginSite.open({ plugin: { scopes: ['read'] } });
  const { refresh_token: oldest } = await site.login();
  const second = await site.refreshed(oldest);
  const current = await site.refreshed(second.refresh_token);
  await refusedAs(
    await site.client.post('/oauth/token', { form: { refresh_token: current.refresh_token, scope: 'all' } }),
    400,
    'invalid_scope',
  );
  await refusedAs(
    await site.client.post('/oauth/token', { form: { refresh_token: oldest, scope: 'all' } }),
    400,
    'invalid_grant',
  );
  assert.equal(site.audited('token_reuse_detected').length, 1);
  await refusedAs(
    await site.client.post('/oauth/token', { form: { refresh_token: current.refresh_token, scope: 'all' } }),
    400,
    'invalid_grant',
  );
});

test('/oauth/token: if a login is revoked while a refresh waits, that refresh gets no tokens', async () => {
  let during: (() => Promise<unknown>) | undefined;
  await using site = await LoginSite.open({
    plugin: {
      enforceValidAfter: true,
      onRefresh: async () => {
        await during?.();
        return true;
      },
    },
  });
  const { refresh_token: token } = await site.login();
  during = () => site.oauth.revokeAll('user-ada');
  await refusedAs(await site.refresh(token), 400, 'invalid_grant');
});

test('/oauth/revoke: a revocation returns 200 with an empty body, and ends only the login of the revoked token', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const [one, other] = [await site.login(), await site.login(site.browser())];
  const response = await site.revoke({ token: one.refresh_token });
  assert.deepEqual(
    [response.status, await response.text(), response.headers.get('cache-control')],
    [200, '', 'no-store'],
  );
  await refusedAs(await site.refresh(one.refresh_token), 400, 'invalid_grant');
  await site.refreshed(other.refresh_token);
  assert.equal(site.audited('token_revoked').length, 1);
});

test('/oauth/revoke: the revocation of an invalid token also returns 200 with an empty body', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token, access_token: access } = await site.login();
  await site.revoke({ token });
  for (const text of [token, 'x', 'svcrt_1', access, '"; drop table', 'x'.repeat(4_000)]) {
    const response = await site.revoke({ token: text });
    assert.deepEqual([response.status, await response.text()], [200, '']);
  }
  assert.equal(site.audited('token_revoked').length, 1);
});

test('/oauth/revoke: revoking a refresh token that was already replaced by a newer one ends its login', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: stale } = await site.login();
  const { refresh_token: current } = await site.refreshed(stale);
  assert.equal((await site.revoke({ token: stale })).status, 200);
  await refusedAs(await site.refresh(current), 400, 'invalid_grant');
});

test('/oauth/revoke: the token is accepted in the parameter token or refresh_token, and a request without a token gets a 400', async () => {
  await using site = await LoginSite.open();
  for (const form of [{}, { token: '' }, { token_type_hint: 'refresh_token' }])
    await refusedAs(await site.revoke(form as Record<string, string>), 400, 'invalid_request');
  await refusedAs(
    await site.client.post('/oauth/revoke', { form: { token: ['a', 'b'] } }),
    400,
    'invalid_request',
  );
  const [one, two] = [await site.login(), await site.login()];
  assert.equal(
    (await site.revoke({ token: one.refresh_token, token_type_hint: 'access_token_or_so' })).status,
    200,
  );
  assert.equal(
    (await site.client.post('/oauth/revoke', { json: { refresh_token: two.refresh_token } })).status,
    200,
  );
  assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
});

test('OAuthPlugin: revokeAll() ends every login of exactly one subject, and returns the number of ended logins', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { onUser: (_provider, { raw }) => String(raw['sub']) },
  });
  const tokens: Record<string, Tokens[]> = {};
  for (const sub of ['Alice', 'alice', 'Alice', 'alice ']) {
    site.fake.user = { sub };
    (tokens[sub] ??= []).push(await site.login());
  }
  assert.equal(await site.oauth.revokeAll('Alice'), 2);
  assert.equal(await site.oauth.revokeAll('Alice'), 0);
  for (const { refresh_token: token } of tokens['Alice']!)
    await refusedAs(await site.refresh(token), 400, 'invalid_grant');
  await site.refreshed(tokens['alice']![0]!.refresh_token);
  await site.refreshed(tokens['alice ']![0]!.refresh_token);
  assert.deepEqual(
    site.audited('revoke_all').map(({ sub, count }) => [sub, count]),
    [
      ['Alice', 2],
      ['Alice', 0],
    ],
  );
});

test('OAuthPlugin: revokeAll() ends the logins of twenty clients, even while these clients refresh their tokens', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { limits: { login: false, callback: false, token: false } },
  });
  for (let round = 0; round < 5; round++) {
    const tokens = [];
    for (let client = 0; client < 20; client++) tokens.push((await site.login()).refresh_token);
    await site.clock.advance(1_000);
    const answers = Promise.all(
      tokens.map((token) => site.client.post('/oauth/token', { form: { refresh_token: token } })),
    );
    await site.oauth.revokeAll('user-ada');
    for (const answer of await answers)
      if (answer.status === 200)
        await refusedAs(
          await site.refresh(((await answer.json()) as Tokens).refresh_token),
          400,
          'invalid_grant',
        );
    assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
    await site.clock.advance(1_000);
  }
});

for (const env of ['production', 'test'] as const) {
  test(`in the environment "${env}" with enforceValidAfter, access tokens from before revokeAll() are refused at once, and later tokens are accepted`, async () => {
    await using site = await LoginSite.open({
      env,
      plugin: { enforceValidAfter: true, scopes: ['read'] },
      more: (app) => app.get('/me', { me: Depends(requireScopes('read')) }, ({ me }) => me.sub),
    });
    const me = async ({ access_token: token }: Tokens): Promise<number> =>
      (await site.client.get('/me', { headers: { authorization: `Bearer ${token}` } })).status;
    const before = await site.login();
    await site.clock.advance(1_000);
    assert.equal(await me(before), 200);
    await site.oauth.revokeAll('user-ada');
    const refused = await site.client.get('/me', {
      headers: { authorization: `Bearer ${before.access_token}` },
    });
    assert.deepEqual(
      [refused.status, refused.headers.get('www-authenticate')],
      [401, 'Bearer error="invalid_token"'],
    );
    await site.clock.advance(20);
    assert.equal(await me(await site.login()), 200, 'in the second of the revocation');
    assert.equal(await me(before), 401);
    await site.clock.advance(6_000);
    assert.equal(await me(before), 401, 'after the moment has been read again');
  });
}

test('OAuthPlugin: without enforceValidAfter, access tokens stay valid after revokeAll() until they expire', async () => {
  await using site = await LoginSite.open({
    plugin: { scopes: ['read'] },
    more: (app) => app.get('/me', { me: Depends(requireScopes('read')) }, ({ me }) => me.sub),
  });
  const { access_token: token } = await site.login();
  await site.oauth.revokeAll('user-ada');
  assert.equal((await site.client.get('/me', { headers: { authorization: `Bearer ${token}` } })).status, 200);
});

test('ValidAfterGate keeps a revocation when an earlier store query returns an outdated result, and queries the store for one subject once in five seconds', async () => {
  let release: (() => void) | undefined;
  const asked: string[] = [];
  const store = new (class extends MemoryTokenStore {
    override async validAfter(sub: string): Promise<number> {
      asked.push(sub);
      const moment = await super.validAfter(sub);
      if (release === undefined)
        await new Promise<void>((resolve) => {
          release = resolve;
        });
      return moment;
    }
  })(new ManualClock());
  const clock = new ManualClock();
  const gate = new ValidAfterGate(store, clock, 0);
  const iat = clock.nowMs() / 1_000;
  const slow = gate.allows({ sub: 'ada', iat } as never);
  await store.revokeAll('ada', clock.nowMicros());
  gate.remember('ada', clock.nowMicros());
  release!();
  assert.equal(await slow, false);
  assert.equal(await gate.allows({ sub: 'ada', iat } as never), false);
  assert.equal(await gate.allows({ sub: 'ada', iat: iat + 1 } as never), true);
  assert.equal(await gate.allows({ sub: 'ada' } as never), false);
  assert.deepEqual(asked, ['ada']);
  await clock.advance(5_000);
  assert.equal(await gate.allows({ sub: 'ada', iat } as never), false);
  assert.deepEqual(asked, ['ada', 'ada']);
  for (let count = 0; count < 10_000; count++) gate.remember(`user ${count}`, 5);
  assert.equal(await gate.allows({ sub: 'ada', iat } as never), false, 'forgotten, and asked for again');
  assert.equal(asked.length, 3);
});

test('ValidAfterGate compares times in microseconds, and refuses a token without iat_us that was issued in the second of the revocation', async () => {
  const clock = new ManualClock();
  const store = new MemoryTokenStore(new ManualClock());
  const now = clock.nowMicros();
  const iat = Math.floor(now / 1_000_000);
  await store.revokeAll('ada', now);
  for (const [clockSkew, after, expected] of [
    [0, -1, false],
    [0, 0, false],
    [0, 10_000, false],
    [0, 10_001, true],
    [50_000, 60_000, false],
    [50_000, 60_001, true],
  ] as const) {
    assert.equal(
      await new ValidAfterGate(store, clock, clockSkew).allows({
        sub: 'ada',
        iat,
        iat_us: now + after,
      } as never),
      expected,
      `${clockSkew} ${after}`,
    );
  }
  const gate = new ValidAfterGate(store, clock, 0);
  assert.deepEqual(
    [
      await gate.allows({ sub: 'ada', iat } as never),
      await gate.allows({ sub: 'ada', iat: iat + 1, iat_us: 'now' } as never),
    ],
    [false, true],
  );
});

test('OAuthPlugin: listSessions() returns the live logins of a subject, without hashes of tokens', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const first = await site.login();
  await site.clock.advance(60_000);
  const { state } = await site.begin();
  const response = await site.client.get('/oauth/callback', {
    query: { code: 'c', state },
    headers: { 'user-agent': `Mozilla ${'x'.repeat(300)}` },
  });
  const second = (await response.json()) as Tokens;
  const ended = await site.login();
  await site.revoke({ token: ended.refresh_token });
  await site.clock.advance(60_000);
  await site.refreshed(first.refresh_token);
  const currentId = claimsOf(second.access_token)['sid'] as string;
  const sessions = await site.oauth.listSessions('user-ada', { currentId });
  assert.deepEqual(
    sessions.map(({ isCurrent }) => isCurrent),
    [false, true],
    'the latest used first',
  );
  for (const session of sessions)
    assert.deepEqual(Object.keys(session), [
      'id',
      'provider',
      'subject',
      'createdAt',
      'lastUsedAt',
      'userAgent',
      'ip',
      'isCurrent',
    ]);
  const [{ createdAt, lastUsedAt }, { id, provider, subject, userAgent, ip }] = sessions as [
    (typeof sessions)[0],
    (typeof sessions)[0],
  ];
  assert.deepEqual(
    [id, provider, subject, userAgent?.length, userAgent?.slice(0, 7), ip],
    [currentId, 'fake', 'ada', 255, 'Mozilla', '127.0.0.1'],
  );
  assert.ok(lastUsedAt.getTime() - createdAt.getTime() >= 120_000);
  assert.ok(!/[\da-f]{64}/.test(JSON.stringify(sessions)));
  await using silent = await LoginSite.open({ plugin: { keepAddress: false } });
  await silent.login();
  assert.equal((await silent.oauth.listSessions('user-ada'))[0]?.ip, null);
});

test('OAuthPlugin: revokeSession() ends a login only if it belongs to the given subject', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const { refresh_token: token } = await site.login();
  const { id } = (await site.oauth.listSessions('user-ada'))[0]!;
  for (const [sub, which] of [
    ['user-eve', id],
    ['USER-ADA', id],
    ['user-ada', 'nobody'],
    ['user-ada', "' OR '1'='1"],
  ] as const)
    assert.equal(await site.oauth.revokeSession(sub, which), false);
  const { refresh_token: next } = await site.refreshed(token);
  assert.equal(await site.oauth.revokeSession('user-ada', id), true);
  assert.equal(await site.oauth.revokeSession('user-ada', id), false);
  await refusedAs(await site.refresh(next), 400, 'invalid_grant');
  assert.deepEqual(
    site.audited('token_revoked').map(({ reason, sub, login_id: login }) => [reason, sub, login]),
    [['user', 'user-ada', id]],
  );
});

test('OAuth access tokens: a JWT with another typ header is refused, even if signed with the same secret (RFC 8725 §3.11, RFC 9068 §4)', async () => {
  await using site = await LoginSite.open({
    more: (app) => {
      app.get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
      app.get('/scoped', { me: Depends(requireScopes('read')) }, ({ me }) => me.sub);
    },
    plugin: { scopes: ['read'] },
  });
  const { access_token: access } = await site.login();
  const header = JSON.parse(Buffer.from(access.split('.')[0]!, 'base64url').toString()) as { typ: string };
  assert.equal(header.typ, 'at+jwt');
  const ask = async (path: string, token: string): Promise<number> =>
    (await site.client.get(path, { headers: { authorization: `Bearer ${token}` } })).status;
  const { clock } = site;
  const reset = createToken('user-ada', SECRET, { claims: { scopes: ['read'] }, clock });
  const own = createToken('user-ada', SECRET, { claims: { scopes: ['read'] }, type: 'at+jwt', clock });
  for (const path of ['/me', '/scoped'])
    assert.deepEqual(
      [await ask(path, access), await ask(path, reset), await ask(path, own)],
      [200, 401, 200],
    );
});

test('/oauth/token: two concurrent refreshes with one token both succeed even if the clock of the application stands still', async () => {
  await using site = await LoginSite.open({ hasDatabase: false });
  const { refresh_token: first } = await site.login();
  const racing = await Promise.all(
    [1, 2].map(() => site.client.post('/oauth/token', { form: { refresh_token: first } })),
  );
  assert.deepEqual(
    racing.map(({ status }) => status),
    [200, 200],
  );
  await refusedAs(
    await site.client.post('/oauth/token', { form: { refresh_token: first } }),
    400,
    'invalid_grant',
  );
});

for (const [what, method, path, type, body, status, description] of [
  [
    'a body that is too long',
    'POST',
    '/oauth/token',
    'application/json',
    `"${'x'.repeat(20_000)}"`,
    413,
    'The request body is larger than 16384 bytes',
  ],
  [
    'a body of another media type',
    'POST',
    '/oauth/token',
    'text/plain',
    'x',
    415,
    'The request body must be application/x-www-form-urlencoded or multipart/form-data',
  ],
  [
    'invalid JSON',
    'POST',
    '/oauth/revoke',
    'application/json',
    '{',
    400,
    'The request body is not valid JSON',
  ],
  [
    'another method',
    'GET',
    '/oauth/token',
    undefined,
    undefined,
    405,
    'This path only allows the methods POST, OPTIONS',
  ],
  ['an unknown path', 'GET', '/oauth/nothing', undefined, undefined, 404, 'Not Found'],
] as const)
  test(`OAuthPlugin answers a request with ${what} as an error of RFC 6749 that keeps the status and the detail of the framework`, async () => {
    await using site = await LoginSite.open({});
    const response = await site.client.request(method, path, {
      headers: type === undefined ? {} : { 'content-type': type },
      ...(body === undefined ? {} : { body }),
    });
    const { error_description: found } = await refusedAs(response, status, 'invalid_request');
    assert.equal(found, description);
  });
