/** A session ends with its login, and linking needs a login that lives. */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import {
  BearerAuth,
  Depends,
  MemoryRecordStore,
  SessionMiddleware,
  Svc,
  createToken,
  requireSession,
} from 'svc';
import { OAuthPlugin, currentLogin, currentUser } from 'svc/oauth';
import { ManualClock, TestClient } from 'svc/testing';
import { OAuthError } from '../../src/oauth/errors.ts';
import { LiveLogins, ReportedEnds } from '../../src/oauth/tokens/live-logins.ts';
import { MemoryTokenStore } from '../../src/oauth/tokens/store.ts';
import { loginRow } from './tokens/store.contract.ts';
import { LoginSite, SECRET, claimsOf, refusedAs } from './support/site.ts';
import type { SessionOptions } from 'svc';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { LoginRow } from '../../src/oauth/tokens/store.ts';
import type { LoginSiteOptions, Tokens } from './support/site.ts';

const OWN = { 'sec-fetch-site': 'same-origin', accept: 'text/html' };
const NAMES = ['one', 'two'];

/** Adds routes that show and change the session. */
function addRoutes(app: Svc, session: SessionOptions = {}): void {
  app.use(new SessionMiddleware(session));
  app.get('/user', { user: Depends(requireSession(currentUser)) }, ({ user }) => user);
  app.get('/all', ({ req }) => ({
    user: req.session.get(currentUser) ?? null,
    login: req.session.get(currentLogin) ?? null,
    cart: req.session.get('cart') ?? null,
    isNew: req.session.isNew,
  }));
  app.get('/plain', () => 'no session is read');
  app.post('/set', async ({ req }) => {
    for (const [name, value] of Object.entries((await req.json()) as Record<string, unknown>))
      if (value === null) req.session.delete(name);
      else req.session.set(name, value);
    return 'set';
  });
}

function open(
  plugin: Partial<OAuthPluginOptions> = {},
  session: SessionOptions = {},
  more: LoginSiteOptions = {},
): Promise<LoginSite> {
  return LoginSite.open({
    names: NAMES,
    plugin: { onLink: () => true, onUnlink: () => true, ...plugin },
    more: (app) => addRoutes(app, session),
    ...more,
  });
}

async function login(site: LoginSite, subject = 'ada', client = site.client): Promise<Response> {
  site.fake.user = { sub: subject };
  const { state } = await site.begin({}, { client });
  const response = await site.back({ code: 'c', state }, { client });
  assert.ok([200, 303].includes(response.status), await response.clone().text());
  return response;
}

/** Returns the field `Cookie` with a copy of all cookies of the client. */
const copyOf = ({ client }: LoginSite, of = client): string =>
  of.cookies
    .names()
    .map((name) => `${name}=${of.cookies.get(name)!}`)
    .join('; ');

const statusOf = async (site: LoginSite, path: string, cookie: string): Promise<number> =>
  (await site.browser().get(path, { headers: { cookie } })).status;

const STORES: readonly (() => SessionOptions)[] = [() => ({}), () => ({ store: new MemoryRecordStore() })];
const ENDS: Readonly<Record<string, (site: LoginSite) => Promise<unknown>>> = {
  'revokeAll()': (site) => site.oauth.revokeAll('user-ada'),
  '/oauth/revoke': (site) => site.client.post('/oauth/revoke', { headers: OWN }),
  '/oauth/revoke without the refresh cookie': (site) => {
    site.client.cookies.delete('svc_refresh');
    return site.client.post('/oauth/revoke', { headers: OWN });
  },
  '/oauth/logout without the refresh cookie': (site) => {
    site.client.cookies.delete('svc_refresh');
    return site.client.post('/oauth/logout', { headers: OWN });
  },
};

for (const [name, end] of Object.entries(ENDS)) {
  test(`OAuth cookie mode: a copy of the cookies reads, links and unlinks nothing after ${name}`, async () => {
    for (const make of STORES) {
      await using site = await open({ mode: 'cookie', postLogoutRedirectUris: [] }, make());
      await login(site);
      const cookie = copyOf(site);
      assert.equal(await statusOf(site, '/user', cookie), 200);
      await end(site);
      assert.equal(await statusOf(site, '/user', cookie), 401);
      for (const path of ['/oauth/two/link', '/oauth/one/unlink']) {
        const headers = { 'sec-fetch-site': 'same-origin', cookie };
        await refusedAs(await site.browser().post(path, { headers, form: {} }), 401, 'login_required');
      }
      assert.deepEqual(await site.oauth.listSessions('user-ada'), []);
    }
  });
}

test('OAuth sessions: a session that was put together from two users, or lacks a part, has ended', async () => {
  await using site = await open();
  await login(site, 'bob');
  const bob = (await (await site.client.get('/all')).json()) as { login: { id: string; at: number } };
  const { id } = bob.login;
  for (const [values, isLive] of [
    [{ cart: 1 }, true],
    [{ svc_user: 'user-ada', svc_login: { id, at: 1 } }, false],
    [{ svc_user: 'user-bob', svc_login: { id: 'unknown', at: 1 } }, false],
    [{ svc_user: 'user-bob', svc_login: 'text' }, false],
    [{ svc_user: 'user-bob', svc_login: { id: 5 } }, false],
    [{ svc_user: 5, svc_login: { id, at: 1 } }, false],
    [{ svc_user: 'user-bob' }, false],
    [{ svc_login: { id, at: 1 } }, false],
    [{ svc_user: 'user-bob', svc_login: { id, at: 1 } }, true],
  ] as const) {
    const browser = site.browser();
    await browser.post('/set', { json: { cart: 'full', ...values } });
    const read = (await (await browser.get('/all')).json()) as { cart: unknown; isNew: boolean };
    assert.deepEqual([read.cart !== null, read.isNew], [isLive, !isLive], JSON.stringify(values));
  }
});

test('SessionMiddleware without a login plugin keeps a session that has the keys of the plugin', async () => {
  const app = new Svc({ authSecret: SECRET, env: 'test' });
  addRoutes(app);
  await using client = new TestClient(app);
  await client.post('/set', { json: { svc_user: 'ada' } });
  assert.equal((await client.get('/user')).status, 200);
});

test('OAuth sessions: the answer to a page deletes the cookie and the record of an ended session, a background request keeps the cookie', async () => {
  for (const make of STORES) {
    const options = make();
    await using site = await open({}, options);
    await login(site);
    await site.client.post('/set', { json: { cart: 'full' } });
    const cookie = copyOf(site);
    await site.oauth.revokeAll('user-ada');
    const background = await site.browser().get('/plain', { headers: { cookie, 'sec-fetch-mode': 'cors' } });
    assert.deepEqual([background.status, background.headers.getSetCookie()], [200, []]);
    const page = await site.browser().get('/plain', { headers: { cookie, 'sec-fetch-mode': 'navigate' } });
    assert.match(page.headers.getSetCookie().join(), options.store === undefined ? /^svc_session=;/ : /^$/);
    assert.deepEqual(await (await site.browser().get('/all', { headers: { cookie } })).json(), {
      user: null,
      login: null,
      cart: null,
      isNew: true,
    });
    const rejected = site.events.filter(({ event }) => event === 'session_rejected');
    assert.equal(rejected[0]?.['reason'], 'login_ended');
    await site.clock.advance(1_000);
    await login(site);
    assert.equal((await site.client.get('/user')).status, 200, 'after the next login');
  }
});

test('OAuth sessions: if the database fails, a handler that reads the session answers 503, and others answer as usual', async () => {
  await using site = await open({}, {}, { hasDatabase: true });
  await login(site);
  await site.clock.advance(6_000);
  const { db } = site.app.state;
  await db.execute('ALTER TABLE svc_oauth_login RENAME TO elsewhere');
  for (const path of ['/user', '/all']) {
    const response = await site.client.get(path);
    assert.deepEqual([response.status, response.headers.get('retry-after')], [503, '1'], path);
  }
  assert.equal((await site.client.get('/plain')).status, 200);
  await db.execute('ALTER TABLE elsewhere RENAME TO svc_oauth_login');
  assert.equal((await site.client.get('/user')).status, 200);
});

test('OAuth sessions: if the session store fails, callback, logout and revocation change nothing, and succeed when they are repeated', async () => {
  const records = new MemoryRecordStore();
  const get = records.get.bind(records);
  let isDown = false;
  mock.method(records, 'get', (key: string) => {
    if (isDown) throw new Error('connection refused');
    return get(key);
  });
  await using site = await open(
    { mode: 'cookie', postLogoutRedirectUris: [], keepSession: ['cart'] },
    { store: records },
  );
  await site.client.post('/set', { json: { cart: 'tea' }, headers: OWN });
  const logins = async (): Promise<number> => (await site.oauth.listSessions('user-ada')).length;
  const repeated = async (send: () => Promise<Response>, before: number, after: number): Promise<void> => {
    isDown = true;
    const refused = await send();
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [503, '1']);
    assert.equal(await logins(), before);
    isDown = false;
    const done = await send();
    assert.ok([200, 303].includes(done.status), await done.clone().text());
    assert.equal(await logins(), after);
  };
  site.fake.user = { sub: 'ada' };
  const { state } = await site.begin();
  await repeated(() => site.back({ code: 'c', state }), 0, 1);
  assert.equal(await (await site.client.get('/user')).text(), 'user-ada');
  await repeated(() => site.client.post('/oauth/revoke', { headers: OWN }), 1, 0);
  await site.clock.advance(1_000);
  await login(site);
  await repeated(() => site.client.post('/oauth/logout', { headers: OWN }), 1, 0);
});

test('OAuth sessions: a logout ends one of two logins of a user, and a refresh keeps the time of the authentication', async () => {
  await using site = await open();
  const { refresh_token: token } = (await (await login(site)).json()) as { refresh_token: string };
  const other = site.browser();
  await login(site, 'ada', other);
  const at = site.clock.nowMs();
  await site.clock.advance(60_000);
  await site.refreshed(token);
  const { login: kept } = (await (await site.client.get('/all')).json()) as { login: { at: number } };
  assert.equal(kept.at, at);
  await site.revoke({ token }, site.browser());
  // the first token was rotated, so its login ends, too
  assert.deepEqual([(await site.client.get('/user')).status, (await other.get('/user')).status], [401, 200]);
});

test('OAuth sessions: a WebSocket that an access token has opened is closed when the token expires', async () => {
  await using site = await LoginSite.open({
    more: (app) => {
      app.websocket('/live', { me: Depends(BearerAuth()), heartbeatMs: false }).onOpen(() => undefined);
    },
  });
  const make = (): string =>
    createToken('robot', SECRET, { type: 'at+jwt', expiresInSeconds: 900, clock: site.clock });
  for (const next of [async () => (await site.login()).access_token, make]) {
    const token = await next();
    const { closed } = await site.client.websocket('/live', {
      headers: { authorization: `Bearer ${token}` },
    });
    await site.clock.advance(905_000);
    assert.deepEqual(await closed, { code: 1008, reason: 'the access token has expired', wasClean: true });
  }
});

test('OAuth account linking: only a live login of the user that is younger than freshSeconds links and unlinks', async () => {
  for (const [freshSeconds, afterMs, status] of [
    [undefined, 86_399_000, 204],
    [undefined, 86_400_000, 401],
    [60, 59_999, 204],
    [60, 60_000, 401],
    [false, 86_400_000, 204],
  ] as const) {
    await using site = await open({ freshSeconds, accessTtlSeconds: 86_400, refreshIdleTtlSeconds: 200_000 });
    await login(site);
    await site.clock.advance(afterMs);
    const headers = { 'sec-fetch-site': 'same-origin' };
    const unlinked = await site.client.post('/oauth/two/unlink', { headers });
    assert.equal(unlinked.status, status, `${freshSeconds} ${afterMs}`);
    const linked = await site.client.post('/oauth/two/link', { headers, form: {} });
    assert.equal(linked.status, status === 204 ? 200 : 401);
    if (status === 401) assert.equal(site.audited('link_refused')[0]?.['reason'], 'login_not_fresh');
  }
  for (const freshSeconds of [59, 0, 1.5, true, 31_536_001])
    await assert.rejects(open({ freshSeconds: freshSeconds as number }), { code: 'E_OPTION_RANGE' });
});

test('OAuth account linking: an access token without a login, of an ended login, or of another user than the session is refused', async () => {
  await using site = await open();
  const tokens = (await (await login(site)).json()) as { access_token: string };
  const ended = (await (await login(site, 'ada', site.browser())).json()) as { access_token: string };
  await site.oauth.revokeSession('user-ada', claimsOf(ended.access_token)['sid'] as string);
  const bob = (await (await login(site, 'bob', site.browser())).json()) as { access_token: string };
  const make = (claims: Record<string, unknown>): string =>
    createToken('user-ada', SECRET, { type: 'at+jwt', claims, clock: site.clock });
  const unlink = (token: string, client = site.browser()): Promise<Response> =>
    client.post('/oauth/two/unlink', { headers: { authorization: `Bearer ${token}` } });
  for (const [token, reason] of [
    [make({}), 'no_login'],
    [make({ sid: 'unknown' }), 'login_ended'],
    [make({ sid: claimsOf(bob.access_token)['sid'] }), 'login_ended'],
    [ended.access_token, 'login_ended'],
  ] as const) {
    await refusedAs(await unlink(token), 401, 'login_required');
    assert.equal(site.audited('link_refused').at(-1)?.['reason'], reason);
  }
  await refusedAs(await unlink(bob.access_token, site.client), 401, 'login_required');
  assert.equal(site.audited('link_refused').at(-1)?.['reason'], 'other_user');
  assert.equal((await unlink(tokens.access_token)).status, 204);
});

test('OAuth account linking: a link whose login ends before the callback is refused', async () => {
  for (const mode of ['json', 'cookie'] as const) {
    const linked: string[] = [];
    await using site = await open({ mode, onLink: (sub) => void linked.push(sub) });
    await login(site);
    const begun = await site.client.post('/oauth/two/link', {
      headers: { 'sec-fetch-site': 'same-origin' },
      form: {},
    });
    const { authorization_url: url } = (await begun.json()) as { authorization_url: string };
    const [{ id } = assert.fail()] = await site.oauth.listSessions('user-ada');
    await site.oauth.revokeSession('user-ada', id);
    const state = new URL(url).searchParams.get('state')!;
    await refusedAs(
      await site.back({ code: 'c', state }, { path: '/oauth/two/callback' }),
      403,
      'access_denied',
    );
    assert.deepEqual(linked, []);
  }
});

test('svc check reports freshSeconds: false', async () => {
  const rules = (plugin: Partial<OAuthPluginOptions>): readonly string[] =>
    new Svc({ authSecret: SECRET, env: 'test' })
      .register(new OAuthPlugin(plugin))
      .check()
      .findings.map(({ rule }) => rule);
  assert.ok(rules({ freshSeconds: false }).includes('oauth/fresh-login'));
  assert.ok(!rules({}).includes('oauth/fresh-login'));
});

test('LiveLogins looks each login up once in five seconds, those of one moment together, and ignores a result that is out of date', async () => {
  const asked: (readonly string[])[] = [];
  let until: Promise<void> | undefined;
  const store = new (class extends MemoryTokenStore {
    override async liveLogins(ids: readonly string[], now: number): Promise<readonly LoginRow[]> {
      asked.push(ids);
      const rows = await super.liveLogins(ids, now);
      await until;
      return rows;
    }
  })(new ManualClock());
  const clock = new ManualClock();
  const now = clock.nowMicros();
  const expires = now + 10 ** 12;
  for (const id of ['a', 'b'])
    await store.addLogin(
      loginRow({ id, createdAt: now, idleExpiresAt: expires, absoluteExpiresAt: expires }),
    );
  const log = new Svc({ env: 'test' }).log;
  const live = new LiveLogins({ store, clock, log, gate: undefined });
  const ending = new ReportedEnds(store, live);
  const admits = (id: string): unknown =>
    live.admits(
      new Map<string, unknown>([
        ['svc_user', 'alice'],
        ['svc_login', { id, at: 0 }],
      ]),
      {} as never,
    );
  assert.deepEqual(await Promise.all([admits('a'), admits('b'), admits('a')]), [true, true, true]);
  assert.deepEqual(asked, [['a', 'b']]);
  assert.equal(admits('a'), true, 'without a promise');
  // a look-up that has begun before the end of a login is out of date, however the login ends
  for (const [id, end] of [
    ['a', () => ending.revoke('a', 'logout', now)],
    ['b', () => ending.revokeAll('alice', now)],
  ] as const) {
    await clock.advance(5_000);
    asked.length = 0;
    const gate = Promise.withResolvers<void>();
    until = gate.promise;
    const slow = admits(id) as Promise<boolean>;
    await Promise.resolve();
    await end();
    assert.equal(admits(id), false, 'at once');
    gate.resolve();
    await slow;
    assert.equal(admits(id), false, 'after the earlier look-up');
    assert.deepEqual(asked, [[id]]);
  }
});

test('OAuth cookie mode: a browser whose access cookie was revoked goes to errorPath, and programs get login_required', async () => {
  await using site = await open({ mode: 'cookie', enforceValidAfter: true, errorPath: '/login' });
  await login(site);
  await site.oauth.revokeAll('user-ada');
  for (const path of ['/oauth/two/link', '/oauth/one/unlink']) {
    const { status, headers } = await site.client.post(path, { headers: OWN });
    assert.equal(status, 303);
    assert.match(headers.get('location')!, /^\/login\?error=login_required&/);
    const program = site.browser();
    for (const token of ['unknown', site.client.cookies.get('svc_access')!])
      await refusedAs(
        await program.post(path, { headers: { authorization: `Bearer ${token}` } }),
        401,
        'login_required',
      );
  }
});

test('OAuth unlink: if the database fails after onUnlink, a repeated request ends the other logins by the identity', async () => {
  const identities = new Set(['ada', 'eve']);
  await using site = await open({
    onUser: () => 'user-ada',
    onUnlink: (_sub, _provider, subject) => identities.delete(subject ?? ''),
  });
  const { access_token } = (await (await login(site, 'ada')).json()) as Tokens;
  const { refresh_token } = (await (await login(site, 'eve', site.browser())).json()) as Tokens;
  const unlink = (): Promise<Response> =>
    site.browser().post('/oauth/one/unlink', {
      headers: { authorization: `Bearer ${access_token}` },
      form: { subject: 'eve' },
    });
  const failure = new OAuthError('temporarily_unavailable', { reason: 'store' });
  const failing = mock.method(MemoryTokenStore.prototype, 'revokeOf', () => Promise.reject(failure));
  await refusedAs(await unlink(), 503, 'temporarily_unavailable');
  failing.mock.restore();
  await refusedAs(await unlink(), 409, 'last_login_method');
  await refusedAs(await site.refresh(refresh_token, {}, site.browser()), 400, 'invalid_grant');
});
