/**
 * Tokens of the provider: passed to onUser, stored encrypted, refreshed by one process at a time.
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { MemoryRecordStore } from 'svc';
import { DatabasePlugin, DatabaseRecordStore, openDatabase } from 'svc/db';
import { ManualClock } from 'svc/testing';
import { Keyring } from '../../src/crypto/keys.ts';
import { ProtectedValues } from '../../src/crypto/protected-values.ts';
import { StoredProviderTokens } from '../../src/oauth/provider-tokens.ts';
import { folder } from '../support/run.ts';
import { jws } from './support/fake-provider.ts';
import { LoginSite, SECRET, refusedAs } from './support/site.ts';
import type { RecordStore } from 'svc';
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
  await assert.rejects(without.oauth.providerToken('user-ada', 'fake'), {
    code: 'E_OPTION_RANGE',
    message: /option "storeProviderTokens" must be true when providerToken\(\) is used, found false$/,
  });
});

/** Opens a site where every identity belongs to Ada. */
const openShared = (options: LoginSiteOptions = {}): Promise<LoginSite> =>
  LoginSite.open({
    ...options,
    plugin: { storeProviderTokens: true, onUser: () => 'user-ada', ...options.plugin },
  });

/** Returns the access token of an identity. */
const at = (subject: string): string => `at-${Buffer.from(subject).toString('hex')}`;

/** Logs in by an identity. */
async function loginBy(
  site: LoginSite,
  subject: string,
  answer: Record<string, unknown> = {},
  path = '/oauth',
): Promise<void> {
  const { state } = await site.begin({}, { path: `${path}/login` });
  site.fake.user = { sub: subject };
  site.fake.failNext('token', {
    body: { access_token: at(subject), token_type: 'bearer', expires_in: 3_600, ...answer },
  });
  const response = await site.back({ code: 'c', state }, { path: `${path}/callback` });
  assert.equal(response.status, 200, await response.text());
}

const accessTokenOf = async (site: LoginSite, subject?: string, name = 'fake'): Promise<string> => {
  const found = await site.oauth.providerToken('user-ada', name, { subject });
  return found.kind === 'token' ? found.accessToken : found.kind;
};

/** Ids that would be equal to others if a key joined its parts without their lengths. */
const SUBJECTS = [
  'ada',
  'ada ',
  'Ada',
  'a',
  '1:a',
  'fake',
  'a:b',
  'a b',
  'a/b',
  'a,b',
  '"',
  "'",
  '{}',
  '__proto__',
  'ä',
  'a\u0308',
];

test('provider tokens: each identity has its own tokens, in memory and in a database', async () => {
  for (const env of ['test', 'production'] as const) {
    await using site = await openShared({ env });
    await site.client.get('/healthz');
    await loginBy(site, 'ada');
    assert.equal(await accessTokenOf(site), at('ada'), 'the only identity needs no subject');
    for (const subject of SUBJECTS) await loginBy(site, subject);
    for (const subject of SUBJECTS) assert.equal(await accessTokenOf(site, subject), at(subject));
    assert.equal(await accessTokenOf(site, 'eve'), 'absent');
    await assert.rejects(accessTokenOf(site), { code: 'subject_required', status: 400 });
    await assert.rejects(site.oauth.forgetProviderToken('user-ada', 'fake'), { code: 'subject_required' });
    assert.deepEqual(
      new Set((await site.oauth.listIdentities('user-ada')).map(({ subject }) => subject)),
      new Set(SUBJECTS),
    );
    assert.deepEqual(await site.oauth.listIdentities('user-eve'), []);
    const [first, ...others] = SUBJECTS;
    for (const subject of others) {
      const options = { subject };
      assert.equal(await site.oauth.forgetProviderToken('user-ada', 'fake', options), true);
      assert.equal(await site.oauth.forgetProviderToken('user-ada', 'fake', options), false);
      assert.equal(await accessTokenOf(site, subject), 'absent');
    }
    assert.equal(await accessTokenOf(site), at(first!), 'the only one that is left');
    assert.equal(await site.oauth.forgetProviderToken('user-ada', 'fake'), true);
    assert.equal(await accessTokenOf(site), 'absent');
    for (const subject of ['', 'a\nb', 'x'.repeat(256), 5])
      await assert.rejects(site.oauth.providerToken('user-ada', 'fake', { subject: subject as string }), {
        code: 'E_OPTION_RANGE',
      });
  }
});

test('provider tokens: one id at two providers, and one id of two users, are different identities', async () => {
  await using site = await openShared({
    names: ['one', 'two'],
    plugin: { onUser: (_provider, { subject }) => (subject === 'eve' ? 'user-eve' : 'user-ada') },
  });
  await loginBy(site, 'ada', { access_token: 'at-one' }, '/oauth/one');
  await loginBy(site, 'ada', { access_token: 'at-two' }, '/oauth/two');
  await loginBy(site, 'eve', { access_token: 'at-eve' }, '/oauth/one');
  assert.equal(await accessTokenOf(site, 'ada', 'one'), 'at-one');
  assert.equal(await accessTokenOf(site, 'ada', 'two'), 'at-two');
  assert.equal(await accessTokenOf(site, 'eve', 'one'), 'absent');
  assert.equal(await accessTokenOf(site, undefined, 'two'), 'at-two');
  assert.deepEqual(await site.oauth.listIdentities('user-ada'), [
    { provider: 'one', subject: 'ada' },
    { provider: 'two', subject: 'ada' },
  ]);
  assert.equal(await site.oauth.forgetProviderToken('user-ada', 'one', { subject: 'eve' }), false);
  assert.equal((await site.oauth.providerToken('user-eve', 'one')).kind, 'token');
});

test('provider tokens: each identity is refreshed with its own refresh token, also while another one logs in', async () => {
  for (const env of ['test', 'production'] as const) {
    await using site = await openShared({ env });
    await loginBy(site, 'ada', { refresh_token: 'rt-ada' });
    await loginBy(site, 'bob', { refresh_token: 'rt-bob' });
    await site.clock.advance(3_600_000);
    const held = Promise.withResolvers<void>();
    const { length } = site.fake.requests;
    site.fake.failNext('token', {
      until: held.promise,
      body: { access_token: 'at-ada-2', token_type: 'bearer', expires_in: 3_600, refresh_token: 'rt-ada-2' },
    });
    const refreshed = accessTokenOf(site, 'ada');
    await site.fake.arrived(length + 1);
    assert.equal(site.fake.requests.at(-1)!.form.get('refresh_token'), 'rt-ada');
    await loginBy(site, 'eve');
    held.resolve();
    assert.equal(await refreshed, 'at-ada-2');
    assert.equal(await accessTokenOf(site, 'eve'), at('eve'));
    assert.equal(await accessTokenOf(site, 'ada'), 'at-ada-2', 'stored, so it is not refreshed again');
    site.fake.failNext('token', { status: 400, body: { error: 'invalid_grant' } });
    assert.equal(await accessTokenOf(site, 'bob'), 'revoked');
    assert.equal(site.fake.requests.at(-1)!.form.get('refresh_token'), 'rt-bob');
    assert.equal(await accessTokenOf(site, 'ada'), 'at-ada-2');
  }
});

test('provider tokens: two processes that store and delete identities at once lose none', async () => {
  const clock = new ManualClock();
  const memory = new MemoryRecordStore({ clock });
  await using database = await openDatabase('sqlite::memory:');
  const table = new DatabaseRecordStore(database, { clock });
  await table.createTable();
  const slow: RecordStore = {
    get: async (key) => memory.get(key),
    set: async (...record) => memory.set(...record),
    add: async (...record) => memory.add(...record),
    replace: async (...record) => memory.replace(...record),
    delete: async (key) => memory.delete(key),
  };
  for (const records of [slow, table]) {
    const keys = Keyring.of(SECRET);
    const deps = { records, keys, clock, connected: new Map() };
    const processes = [new StoredProviderTokens(deps), new StoredProviderTokens(deps)] as const;
    const subjects = Array.from({ length: 16 }, (_, index) => `s-${index}`);
    const each = (
      run: (one: StoredProviderTokens, subject: string) => Promise<unknown>,
    ): Promise<unknown[]> =>
      Promise.all(subjects.map((subject, index) => run(processes[index % 2 === 0 ? 0 : 1], subject)));
    await each((one, subject) => one.keep('ada', 'fake', subject, { accessToken: subject, scopes: [] }));
    assert.deepEqual((await processes[0].subjectsOf('ada', 'fake')).toSorted(), subjects.toSorted());
    await each((one, subject) =>
      subject.endsWith('5')
        ? one.keep('ada', 'fake', subject, { accessToken: 'again', scopes: [] })
        : one.forget('ada', 'fake', subject),
    );
    assert.deepEqual((await processes[1].subjectsOf('ada', 'fake')).toSorted(), ['s-15', 's-5']);
    for (let index = 0; index < 25; index++)
      await processes[0].keep('ada', 'fake', `t-${index}`, { accessToken: 'x', scopes: [] });
    const kept = await processes[0].subjectsOf('ada', 'fake');
    assert.deepEqual([kept.length, kept[0], kept.at(-1)], [20, 't-5', 't-24'], 'a record has a bound');
  }
});

const idToken = (sub: string): string => jws({ alg: 'RS256' }, { sub });

/** Writes a record of an earlier build, which does not contain the subject. */
async function writeOld(site: LoginSite, tokens: Record<string, unknown>): Promise<void> {
  const sealed = new ProtectedValues(Keyring.of(SECRET), 'svc-oauth-provider-token', 'sealed', 100_000);
  const key = createHash('sha256').update('8:user-adafake').digest('hex');
  const issuedSeconds = Math.floor(site.clock.nowMs() / 1_000);
  const value = sealed.write(key, JSON.stringify({ scopes: ['read'], ...tokens }), {
    issuedSeconds,
    expiresSeconds: issuedSeconds + 31_536_000,
  });
  await site.app.state.db.execute('INSERT INTO svc_oauth_provider_token VALUES (?, ?, ?)', [
    key,
    value,
    site.clock.nowMs() + 31_536_000_000,
  ]);
}

const OLD = { accessToken: 'at-old', refreshToken: 'rt-old' };

test('provider tokens: a record of an earlier build is the only identity of its provider, until an identity with a name arrives', async () => {
  for (const subject of [undefined, 'ada', 'bob']) {
    await using site = await openShared({ env: 'production' });
    await site.client.get('/healthz');
    await writeOld(site, { ...OLD, expiresAtMs: site.clock.nowMs() + 3_600_000 });
    assert.equal(await accessTokenOf(site, subject), 'at-old');
    await site.clock.advance(3_600_000);
    site.fake.failNext('token', { body: { access_token: 'at-next', token_type: 'bearer' } });
    assert.equal(await accessTokenOf(site, subject), 'at-next');
    assert.equal(site.fake.requests.at(-1)!.form.get('refresh_token'), 'rt-old');
    await loginBy(site, 'bob', { expires_in: 1 });
    await site.clock.advance(2_000);
    assert.equal(await accessTokenOf(site, 'ada'), 'absent');
    assert.equal(await accessTokenOf(site), 'expired', "bob does not get another account's refresh token");
    await loginBy(site, 'bob');
    assert.equal(await accessTokenOf(site), at('bob'));
  }
});

test('provider tokens: the id_token in a record of an earlier build decides to which identity it belongs', async () => {
  for (const [next, before, now, only, other] of [
    ['ada', 'ada', 'ada', 'at-refreshed', 'absent'], // the old identity logs in, and keeps its refresh token
    ['ada', 'x', 'x', 'at-refreshed', 'absent'], // mapUser() names another claim than `sub`
    ['bob', 'ada', 'bob', 'subject_required', 'at-old'], // a second identity, and both stay
    ['bob', 'x', 'y', 'expired', 'absent'], // another identity, whose subject is unknown
  ] as const) {
    await using site = await openShared({ env: 'production' });
    await site.client.get('/healthz');
    await writeOld(site, { ...OLD, idToken: idToken(before) });
    if (before === 'ada') {
      assert.equal(await accessTokenOf(site, 'ada'), 'at-old');
      assert.equal(await accessTokenOf(site, 'bob'), 'absent', 'the id_token names another identity');
    }
    await loginBy(site, next, { expires_in: 1, id_token: idToken(now) });
    await site.clock.advance(2_000);
    site.fake.failNext('token', { body: { access_token: 'at-refreshed', token_type: 'bearer' } });
    const answer = accessTokenOf(site);
    assert.equal(await answer.catch((error: unknown) => (error as { code: string }).code), only);
    assert.equal(await accessTokenOf(site, next === 'ada' ? 'bob' : 'ada'), other);
  }
});
