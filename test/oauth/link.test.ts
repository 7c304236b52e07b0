/** Account linking: it needs a POST of a logged-in user from a page of this origin. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HTTPException } from 'svc';
import { currentUser } from 'svc/oauth';
import { LoginSite, leftFor, refusedAs } from './support/site.ts';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { TestClient } from 'svc/testing';
import type { LoginSiteOptions } from './support/site.ts';

const OWN = { 'sec-fetch-site': 'same-origin', accept: 'text/html' };
/** Headers of a client that does not accept HTML, so it gets JSON. */
const PROGRAM = { 'sec-fetch-site': 'same-origin' };
const NAMES = ['one', 'two'];

interface Linked {
  readonly site: LoginSite;
  /** Users by the subject of their identity. */
  readonly users: Map<string, string>;
}

async function open(
  plugin: Partial<OAuthPluginOptions> = {},
  options: LoginSiteOptions = {},
): Promise<Linked & AsyncDisposable> {
  const users = new Map<string, string>();
  const site = await LoginSite.open({
    names: NAMES,
    hasSession: true,
    ...options,
    plugin: {
      mode: 'cookie',
      onUser: (provider, { subject }) => {
        const key = `${provider} ${subject}`;
        if (!users.has(key)) users.set(key, `user-${subject}`);
        return users.get(key);
      },
      onLink: (sub, provider, { subject }) => {
        const key = `${provider} ${subject}`;
        if ((users.get(key) ?? sub) !== sub) return false;
        users.set(key, sub);
        return true;
      },
      onUnlink: (sub, provider) => {
        const own = [...users].filter(([, user]) => user === sub);
        if (own.every(([key]) => key.startsWith(`${provider} `))) return false;
        for (const [key] of own) if (key.startsWith(`${provider} `)) users.delete(key);
        return true;
      },
      ...plugin,
    },
  });
  return { site, users, [Symbol.asyncDispose]: () => site[Symbol.asyncDispose]() };
}

/** Logs in at a provider. */
async function login(site: LoginSite, subject: string, name = 'one', client = site.client): Promise<void> {
  const { state } = await site.begin({}, { client, path: `/oauth/${name}/login` });
  site.fake.user = { sub: subject };
  const response = await site.back({ code: 'c', state }, { client, path: `/oauth/${name}/callback` });
  assert.ok([200, 303].includes(response.status), await response.text());
}

const link = (
  site: LoginSite,
  headers: Record<string, string> = OWN,
  client: TestClient = site.client,
): Promise<Response> => client.post('/oauth/two/link', { headers, form: {} });

const stateOf = async (response: Response): Promise<string> =>
  (await leftFor(response)).searchParams.get('state')!;

test('OAuth account linking: a logged-in user links a second account, and can then log in with each of the two accounts', async () => {
  await using made = await open();
  const { site, users } = made;
  await login(site, 'ada');
  const begun = await site.client.post('/oauth/two/link', {
    headers: OWN,
    form: { return_to: '/settings' },
  });
  assert.equal(
    (await leftFor(begun.clone())).searchParams.get('redirect_uri'),
    'http://localhost/oauth/two/callback',
  );
  site.fake.user = { sub: 'lovelace' };
  const logins = await site.oauth.listSessions('user-ada');
  const back = await site.back({ code: 'c', state: await stateOf(begun) }, { path: '/oauth/two/callback' });
  assert.deepEqual([back.status, back.headers.get('location')], [303, '/settings']);
  assert.deepEqual(
    back.headers.getSetCookie().map((cookie) => cookie.split('=')[0]!.slice(0, 10)),
    ['svc_oauth_'],
    'no tokens, and no other session: its own cookie is removed',
  );
  assert.equal(users.get('two lovelace'), 'user-ada');
  assert.deepEqual(await site.oauth.listSessions('user-ada'), logins);
  await login(site, 'lovelace', 'two', site.browser());
  assert.equal((await site.oauth.listSessions('user-ada')).length, 2);
  assert.deepEqual(
    ['link_started', 'account_linked'].map((event) => site.audited(event).map(({ sub }) => sub)),
    [['user-ada'], ['user-ada']],
  );
});

test('OAuth account linking: a session that has a user, but does not name a login, links nothing', async () => {
  await using made = await open(
    {},
    {
      more: (app) =>
        app.get('/impersonate', ({ req }) => {
          req.session.set(currentUser, 'user-ada');
        }),
    },
  );
  await made.site.client.get('/impersonate');
  await refusedAs(await link(made.site, PROGRAM), 401, 'login_required');
});

test("OAuth account linking: a program that sends its access token can link an account, and gets the provider's address as JSON", async () => {
  await using made = await open({ mode: 'json' }, { hasSession: false });
  const { site, users } = made;
  site.fake.user = { sub: 'ada' };
  const { access_token: token } = await site.login();
  const headers = { authorization: `Bearer ${token}` };
  const begun = await site.client.post('/oauth/two/link', { headers, json: {} });
  assert.equal(begun.status, 200);
  const { authorization_url: url } = (await begun.json()) as { authorization_url: string };
  site.fake.user = { sub: 'lovelace' };
  const state = new URL(url).searchParams.get('state')!;
  const back = await site.back({ code: 'c', state }, { path: '/oauth/two/callback' });
  assert.deepEqual([back.status, await back.json()], [200, { linked: 'two' }]);
  assert.equal(users.get('two lovelace'), 'user-ada');
});

test('OAuth account linking: a browser can link an account only by a POST from the same origin, while the user is logged in', async () => {
  await using made = await open();
  const { site } = made;
  await refusedAs(await link(site, PROGRAM), 401, 'login_required');
  await login(site, 'ada');
  assert.equal((await site.client.get('/oauth/two/link', { headers: OWN })).status, 405);
  for (const headers of [
    { 'sec-fetch-site': 'cross-site' },
    { 'sec-fetch-site': 'same-site' },
    { origin: 'https://evil.example' },
    { origin: 'null' },
    {},
  ])
    await refusedAs(await link(site, { accept: 'application/json', ...headers }), 403, 'invalid_request');
  await refusedAs(
    await site.client.post('/oauth/none/link', { headers: PROGRAM, form: {} }),
    404,
    'invalid_request',
  );
  assert.equal((await link(site, { ...OWN, authorization: 'Bearer forged' })).status, 401);
  assert.equal(site.fake.count(), 2, 'of the login alone');
});

test('OAuth account linking: the linking routes exist only if the option "onLink" is set', async () => {
  await using site = await LoginSite.open({ names: NAMES });
  await refusedAs(await link(site), 404, 'invalid_request');
  await assert.rejects(LoginSite.open({ plugin: { onUnlink: () => true } }), { code: 'E_OPTION_RANGE' });
});

test('OAuth account linking: an account that already belongs to another user is refused', async () => {
  for (const refuse of [undefined, () => Promise.reject(new HTTPException(409, 'taken'))]) {
    await using made = await open(refuse === undefined ? {} : { onLink: refuse });
    const { site, users } = made;
    await login(site, 'eve', 'two', site.browser());
    await login(site, 'ada');
    const begun = await link(site);
    site.fake.user = { sub: 'eve' };
    await refusedAs(
      await site.back({ code: 'c', state: await stateOf(begun) }, { path: '/oauth/two/callback' }),
      409,
      'account_taken',
    );
    assert.equal(users.get('two eve'), 'user-eve');
  }
});

test('OAuth account linking: a failure of onLink() is no refusal of the account', async () => {
  await using made = await open({ onLink: () => Promise.reject(new HTTPException(503, 'later')) });
  const { site } = made;
  await login(site, 'ada');
  const begun = await link(site);
  site.fake.user = { sub: 'lovelace' };
  const response = await site.back(
    { code: 'c', state: await stateOf(begun) },
    { path: '/oauth/two/callback' },
  );
  assert.equal(response.status, 503);
});

test('OAuth account linking: the page of a refused account does not say that the user must log in', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, 'eve', 'two', site.browser());
  await login(site, 'ada');
  const query = { code: 'c', state: await stateOf(await link(site)) };
  site.fake.user = { sub: 'eve' };
  const page = await (await site.client.get('/oauth/two/callback', { query, headers: OWN })).text();
  assert.match(page, /<h1>The request failed<\/h1>[^]*account_taken/);
  assert.doesNotMatch(page, /logged in|Log in again/i);
});

test('OAuth account linking: the callback is refused if the user has logged out, was revoked, or logged in as another user in the meantime', async () => {
  const ends: readonly ((site: LoginSite) => Promise<unknown>)[] = [
    (site) => site.client.post('/oauth/revoke', { headers: OWN }),
    (site) => site.oauth.revokeAll('user-ada'),
    (site) => login(site, 'bob'),
  ];
  for (const end of ends) {
    await using made = await open();
    const { site, users } = made;
    await login(site, 'ada');
    const begun = await link(site);
    await site.clock.advance(1_000);
    await end(site);
    site.fake.user = { sub: 'lovelace' };
    await refusedAs(
      await site.back({ code: 'c', state: await stateOf(begun) }, { path: '/oauth/two/callback' }),
      403,
      'access_denied',
    );
    assert.equal(users.has('two lovelace'), false);
  }
});

test('OAuth account linking: the state of a link request works once, and only in the browser that made the request', async () => {
  await using made = await open();
  const { site } = made;
  await login(site, 'ada');
  const state = await stateOf(await link(site));
  const victim = site.browser();
  await login(site, 'bob', 'one', victim);
  await refusedAs(
    await site.back({ code: 'c', state }, { client: victim, path: '/oauth/two/callback' }),
    400,
    'state_browser_mismatch',
  );
  site.fake.user = { sub: 'lovelace' };
  assert.equal((await site.back({ code: 'c', state }, { path: '/oauth/two/callback' })).status, 303);
  await refusedAs(
    await site.back({ code: 'c', state }, { path: '/oauth/two/callback' }),
    400,
    'invalid_state',
  );
});

test('OAuth account linking: unlinking an account ends the logins made with this account, and the last login method cannot be unlinked', async () => {
  await using made = await open({ storeProviderTokens: true });
  const { site } = made;
  const unlink = (name: string): Promise<Response> =>
    site.client.post(`/oauth/${name}/unlink`, { headers: PROGRAM });
  await login(site, 'ada');
  await refusedAs(await unlink('one'), 409, 'last_login_method');
  const begun = await link(site);
  site.fake.user = { sub: 'lovelace' };
  await site.back({ code: 'c', state: await stateOf(begun) }, { path: '/oauth/two/callback' });
  assert.equal((await site.oauth.providerToken('user-ada', 'two')).kind, 'token');
  await login(site, 'lovelace', 'two', site.browser());
  assert.equal((await site.oauth.listSessions('user-ada')).length, 2);
  await refusedAs(
    await site.client.post('/oauth/two/unlink', { headers: { 'sec-fetch-site': 'cross-site' } }),
    403,
    'invalid_request',
  );
  assert.equal((await unlink('two')).status, 204);
  assert.deepEqual(await site.oauth.providerToken('user-ada', 'two'), { kind: 'absent' });
  assert.deepEqual(
    (await site.oauth.listSessions('user-ada')).map(({ provider }) => provider),
    ['one'],
  );
  await refusedAs(await unlink('one'), 409, 'last_login_method');
  assert.equal(site.audited('account_unlinked').length, 1);
});

test('OAuth account linking: in cookie mode, unlinking an account redirects the browser to return_to, and a refusal shows an error page', async () => {
  await using made = await open();
  const { site, users } = made;
  await login(site, 'ada');
  const unlink = (name: string, form: Record<string, string> = {}): Promise<Response> =>
    site.client.post(`/oauth/${name}/unlink`, { headers: OWN, form });
  const last = await unlink('one');
  assert.deepEqual([last.status, last.headers.get('content-type')], [409, 'text/html; charset=utf-8']);
  assert.match(await last.text(), /<h1>The request failed<\/h1>[^]*last_login_method/);
  users.set('two lovelace', 'user-ada');
  assert.equal((await unlink('two', { return_to: 'https://evil.example/' })).status, 400);
  const back = await unlink('two', { return_to: '/settings' });
  assert.deepEqual([back.status, back.headers.get('location')], [303, '/settings']);
  assert.equal(users.has('two lovelace'), false);
});

/** Opens a site on which Ada's native client links an account, and returns the client's request. */
async function nativeLink(
  plugin: Partial<OAuthPluginOptions> = {},
): Promise<Linked & AsyncDisposable & { readonly begin: (json: object) => Promise<Response> }> {
  const made = await open(
    { mode: 'json', nativeRedirects: ['com.example.app:/done'], issuer: 'https://app.example', ...plugin },
    { hasSession: false },
  );
  made.site.fake.user = { sub: 'ada' };
  const { access_token: token } = await made.site.login();
  const headers = { authorization: `Bearer ${token}` };
  return {
    ...made,
    begin: (json) => made.site.client.post('/oauth/two/link', { headers, json }),
  };
}

test('OAuth account linking: a native client gets the result of a link at its own redirect URI, with its state and without tokens', async () => {
  await using made = await nativeLink();
  const { site, users } = made;
  const finish = async (query: Record<string, string>): Promise<Record<string, string>> => {
    const begun = await made.begin({ client_redirect_uri: 'com.example.app:/done', client_state: 'xyz' });
    assert.equal(begun.status, 200, await begun.clone().text());
    const { authorization_url: url } = (await begun.json()) as { authorization_url: string };
    const state = new URL(url).searchParams.get('state')!;
    const back = await site.back({ ...query, state }, { path: '/oauth/two/callback' });
    assert.deepEqual([back.status, await back.text()], [303, '']);
    const to = new URL(back.headers.get('location')!);
    assert.equal(`${to.protocol}${to.pathname}`, 'com.example.app:/done');
    return Object.fromEntries(to.searchParams);
  };
  const own = { state: 'xyz', iss: 'https://app.example' };
  site.fake.user = { sub: 'lovelace' };
  assert.deepEqual(await finish({ code: 'c' }), { linked: 'two', ...own });
  assert.equal(users.get('two lovelace'), 'user-ada');
  assert.deepEqual(await finish({ error: 'access_denied' }), { error: 'access_denied', ...own });
  users.set('two eve', 'user-eve');
  site.fake.user = { sub: 'eve' };
  assert.deepEqual(await finish({ code: 'c' }), { error: 'account_taken', ...own });
  site.fake.failNext('token', { status: 500 });
  assert.deepEqual(await finish({ code: 'c' }), { error: 'provider_error', ...own });
  await site.clock.advance(1_000);
  const begun = await made.begin({ client_redirect_uri: 'com.example.app:/done' });
  const { authorization_url: url } = (await begun.json()) as { authorization_url: string };
  await site.clock.advance(1_000);
  await site.oauth.revokeAll('user-ada');
  const back = await site.back(
    { code: 'c', state: new URL(url).searchParams.get('state')! },
    { path: '/oauth/two/callback' },
  );
  assert.equal(new URL(back.headers.get('location')!).searchParams.get('error'), 'access_denied');
});

test('OAuth account linking: a link to a redirect URI that is not in nativeRedirects is refused, and so is a state without one', async () => {
  await using made = await nativeLink();
  for (const uri of ['com.evil.app:/done', 'https://evil.example/done', 'javascript:alert(1)'])
    await refusedAs(await made.begin({ client_redirect_uri: uri }), 400, 'invalid_redirect_uri');
  await refusedAs(await made.begin({ client_state: 'xyz' }), 400, 'invalid_request');
  await refusedAs(
    await made.begin({ client_redirect_uri: 'com.example.app:/done', client_state: 'ü' }),
    400,
    'invalid_request',
  );
});

/** Opens a site where Ada has two identities at the provider "two", with one login by each, and one at "one". */
async function twice(
  plugin: Partial<OAuthPluginOptions> = {},
): Promise<{ readonly site: LoginSite; readonly calls: unknown[] } & AsyncDisposable> {
  const calls: unknown[] = [];
  const made = await open({
    storeProviderTokens: true,
    onUser: (_provider, { subject }) => (subject === 'eve' ? 'user-eve' : 'user-ada'),
    onUnlink: (...parameters) => {
      calls.push(parameters);
    },
    ...plugin,
  });
  const { site } = made;
  await login(site, 'ada');
  for (const subject of ['ada', 'lovelace']) await login(site, subject, 'two', site.browser());
  return { ...made, calls };
}

const unlinkTwo = (site: LoginSite, form: Record<string, string> = {}): Promise<Response> =>
  site.client.post('/oauth/two/unlink', { headers: PROGRAM, form });

const left = async (site: LoginSite, sub = 'user-ada'): Promise<string[]> =>
  (await site.oauth.listSessions(sub)).map(({ provider, subject }) => `${provider} ${subject}`).toSorted();

test('OAuth account linking: unlinking names one of two identities at a provider, and ends only the logins and tokens of this one', async () => {
  for (const storeProviderTokens of [true, false]) {
    await using made = await twice({ storeProviderTokens });
    const { site, calls } = made;
    const body = await refusedAs(await unlinkTwo(site), 400, 'subject_required');
    assert.match(body.error_description, /subject/);
    assert.deepEqual(calls, []);
    assert.equal((await unlinkTwo(site, { subject: 'lovelace' })).status, 204);
    assert.deepEqual(await left(site), ['one ada', 'two ada']);
    if (storeProviderTokens) {
      assert.equal((await site.oauth.providerToken('user-ada', 'two')).kind, 'token');
      const gone = await site.oauth.providerToken('user-ada', 'two', { subject: 'lovelace' });
      assert.deepEqual(gone, { kind: 'absent' });
    }
    assert.equal((await unlinkTwo(site)).status, 204, 'the only one needs no subject');
    assert.deepEqual(await left(site), ['one ada']);
    assert.equal((await unlinkTwo(site)).status, 204);
    assert.deepEqual(calls, [
      ['user-ada', 'two', 'lovelace'],
      ['user-ada', 'two', 'ada'],
      ['user-ada', 'two', undefined],
    ]);
    assert.deepEqual(
      site.audited('account_unlinked').map(({ provider, subject }) => [provider, subject]),
      [
        ['two', 'lovelace'],
        ['two', 'ada'],
        ['two', undefined],
      ],
    );
  }
});

test('OAuth account linking: unlinking the identity of another user ends none of its logins and tokens', async () => {
  await using made = await twice();
  const { site, calls } = made;
  await login(site, 'eve', 'two', site.browser());
  assert.equal((await unlinkTwo(site, { subject: 'eve' })).status, 204);
  assert.deepEqual(
    calls,
    [['user-ada', 'two', 'eve']],
    'the application decides whether it belongs to the user',
  );
  assert.deepEqual(await left(site, 'user-eve'), ['two eve']);
  assert.equal((await site.oauth.providerToken('user-eve', 'two')).kind, 'token');
  assert.deepEqual(await left(site), ['one ada', 'two ada', 'two lovelace']);
  for (const subject of ['a\nb', 'a\u0085b', 'x'.repeat(256)])
    await refusedAs(await unlinkTwo(site, { subject }), 400, 'invalid_request');
});

test('OAuth account linking: two links at once, each of another identity at one provider, store the tokens of both', async () => {
  await using made = await open({ storeProviderTokens: true });
  const { site } = made;
  await login(site, 'ada');
  const states = [await stateOf(await link(site)), await stateOf(await link(site))];
  for (const sub of ['x', 'y']) site.fake.failNext('userinfo', { body: { sub } });
  await Promise.all(states.map((state) => site.back({ code: 'c', state }, { path: '/oauth/two/callback' })));
  assert.deepEqual(
    (await site.oauth.listIdentities('user-ada'))
      .map(({ provider, subject }) => `${provider} ${subject}`)
      .toSorted(),
    ['one ada', 'two x', 'two y'],
  );
});
