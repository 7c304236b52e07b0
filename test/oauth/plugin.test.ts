/**
 * The plugin in an application: options, findings, form of refusals, limits, audit trail, metrics, clean-up.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import {
  CORSMiddleware,
  HTTPException,
  JSONResponse,
  RateLimitMiddleware,
  Svc,
  SvcError,
  createLogger,
} from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthError, OAuthPlugin, OAuthProvider, githubProvider } from 'svc/oauth';
import { DevProvider, TestClient } from 'svc/testing';
import { readPluginOptions } from '../../src/oauth/plugin-options.ts';
import { ProviderClient } from '../../src/oauth/provider/client.ts';
import { MemoryTokenStore } from '../../src/oauth/tokens/store.ts';
import { FakeProvider } from './support/fake-provider.ts';
import { LoginSite, SECRET, fakeProvider, refusedAs } from './support/site.ts';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { Tokens } from './support/site.ts';

const github = githubProvider('id', 'secret');
const onUser = (): string => 'ada';

test('the constructor of OAuthPlugin refuses invalid options', () => {
  const make = (options: object) => () => new OAuthPlugin(options as OAuthPluginOptions);
  for (const options of [
    { onUser },
    { onUser, provider: github, providers: [github] },
    { onUser, providers: [] },
    { onUser, providers: [{}] },
    { onUser, providers: [github, github] },
  ])
    assert.throws(make(options), { code: 'E_OAUTH_PROVIDERS' });
  assert.throws(make({ provider: github, onUser, nope: 1 }), { code: 'E_OPTION_UNKNOWN' });
  for (const options of [
    {},
    { onUser: 5 },
    { accessTtlSeconds: 0 },
    { accessTtlSeconds: 86_401 },
    { refreshIdleTtlSeconds: 0 },
    { refreshAbsoluteTtlSeconds: 31_536_001 },
    { stateTtlSeconds: 29 },
    { refreshGraceSeconds: 61 },
    { mode: 'both' },
    { afterLogin: 'https://evil.example' },
    { afterLogin: '//evil' },
    { scopes: ['a b'] },
    { scopes: 'read' },
    { allowedRedirectUris: 'https://a' },
    { allowedRedirectUris: [5] },
    { limits: { login: 0 } },
    { limits: { token: true } },
    { concurrency: 'off' },
    { keepSession: 'cart' },
    { onRefresh: true },
  ])
    assert.throws(
      make({
        provider: github,
        ...('accessTtlSeconds' in options || Object.keys(options).length > 0 ? { onUser } : {}),
        ...options,
      }),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(options),
    );
  assert.throws(make({ provider: github, onUser, limits: { logins: 5 } }), { code: 'E_OPTION_UNKNOWN' });
});

test('the options of OAuthPlugin have the defaults of the manual, and cookie mode repeats a refresh for ten seconds', () => {
  const defaultsOf = (options: Partial<OAuthPluginOptions>): object => {
    const read = readPluginOptions({ provider: github, onUser, ...options });
    return Object.fromEntries(
      Object.entries(read).filter(([, value]) => !['undefined', 'function'].includes(typeof value)),
    );
  };
  const day = 86_400;
  const usual = {
    provider: github,
    allowedRedirectUris: [],
    nativeRedirects: [],
    scopes: [],
    keepSession: [],
    allowLoopbackRedirects: false,
    backchannelLogout: false,
    enforceValidAfter: false,
    storeProviderTokens: false,
    keepAddress: true,
    mode: 'json',
    afterLogin: '/',
    accessTtlSeconds: 900,
    refreshIdleTtlSeconds: 14 * day,
    refreshAbsoluteTtlSeconds: 90 * day,
    refreshGraceSeconds: 0,
    stateTtlSeconds: 600,
    freshSeconds: day,
    clockSkewMs: 0,
    concurrency: 'coalesce',
    dpop: 'off',
    dpopNonces: 'offered',
    limits: { login: 20, callback: 20, token: 60, forged: 600, store: undefined },
  };
  assert.deepEqual(defaultsOf({}), usual);
  assert.deepEqual(defaultsOf({ mode: 'cookie' }), { ...usual, mode: 'cookie', refreshGraceSeconds: 10 });
});

test('the methods of OAuthPlugin throw an error if the plugin is not registered with an application', async () => {
  const plugin = new OAuthPlugin({ provider: github, onUser });
  for (const act of [
    () => plugin.revokeAll('x'),
    () => plugin.listSessions('x'),
    () => plugin.revokeSession('x', 'y'),
    () => plugin.cleanUp(),
  ])
    await assert.rejects(act, { code: 'E_OAUTH_UNREGISTERED' });
});

test("an application does not start if OAuthPlugin has no secret, or has a secret that differs from the application's secret", () => {
  const messages = (app: Svc): string =>
    app
      .check()
      .findings.map(({ message }) => message)
      .join('\n');
  const log = createLogger({ level: 'silent' });
  const bare = new Svc({ logger: log, env: 'test' }).register(new OAuthPlugin({ provider: github, onUser }));
  assert.throws(() => bare.compileAll(), { code: 'E_COMPILE' });
  assert.match(messages(bare), /SVC_AUTH_SECRET/);
  const other = new Svc({ logger: log, env: 'test', authSecret: SECRET }).register(
    new OAuthPlugin({ provider: github, onUser, authSecret: `${SECRET}x` }),
  );
  assert.ok(
    other.check().findings.some(({ remedy }) => remedy === new SvcError('E_OAUTH_SECRET', []).remedy),
    messages(other),
  );
  assert.ok(!messages(other).includes(SECRET));
  const same = new Svc({ logger: log, env: 'test', authSecret: SECRET }).register(
    new OAuthPlugin({ provider: github, onUser, authSecret: [SECRET, `${SECRET}-before`] }),
  );
  assert.ok(same.check().ok, messages(same));
  const own = new Svc({ logger: log, env: 'test' }).register(
    new OAuthPlugin({ provider: github, onUser, authSecret: SECRET }),
  );
  assert.ok(own.check().ok, messages(own));
  const weak = new Svc({ logger: log, env: 'test' }).register(
    new OAuthPlugin({ provider: github, onUser, authSecret: 'short' }),
  );
  assert.match(messages(weak), /32/);
});

test('OAuthPlugin: svc check reports settings that are not allowed in production', async () => {
  const rules = (options: Partial<OAuthPluginOptions>, database?: DatabasePlugin): string[] => {
    const app = new Svc({
      logger: createLogger({ level: 'silent' }),
      env: 'production',
      authSecret: SECRET,
    }).register(
      new OAuthPlugin({
        provider: github,
        onUser,
        allowedRedirectUris: ['https://app.example/cb'],
        ...options,
      }),
    );
    if (database !== undefined) app.register(database);
    return app
      .check()
      .findings.filter(({ severity }) => severity === 'error')
      .map(({ rule, message }) => `${rule} ${message}`);
  };
  const memory = (): DatabasePlugin => new DatabasePlugin('sqlite::memory:');
  assert.deepEqual(rules({}, memory()), []);
  assert.deepEqual(rules({}), ['oauth/store no database is registered, so logins are only in memory']);
  assert.deepEqual(rules({}, new DatabasePlugin('sqlite:./x.db', { synchronous: 'normal' })), [
    'oauth/store the database may lose its last commits when the power fails (synchronous "normal"), so clients may hold newer tokens than the database',
  ]);
  assert.deepEqual(rules({}, new DatabasePlugin('sqlite:./x.db')), []);
  assert.deepEqual(rules({ allowedRedirectUris: [] }, memory()), [
    'SVC209 no redirect URI is allowed, so users cannot log in',
  ]);
  const parts = {
    name: 'dev',
    clientId: 'id',
    clientSecret: 'secret',
    allowInsecure: true,
    userinfoUrl: 'http://127.0.0.1:9/userinfo',
    tokenUrl: 'http://[::1]:9/token',
  };
  const dev = new DevProvider({
    env: 'test',
    redirectUris: ['https://app.example/cb'],
    issuer: 'https://login.example',
  }).provider({ allowInsecure: false });
  assert.deepEqual(rules({ provider: dev }, memory()), [
    'oauth/provider provider "dev" is DevProvider, which accepts any user without a password',
  ]);
  assert.deepEqual(
    rules(
      {
        provider: undefined,
        providers: [github, new OAuthProvider({ ...parts, authorizeUrl: 'https://login.example/authorize' })],
      },
      memory(),
    ),
    [
      'oauth/provider provider "dev" is on another machine, and has allowInsecure: the addresses that it names may lead to this machine without TLS',
    ],
  );
  assert.deepEqual(
    rules(
      { provider: new OAuthProvider({ ...parts, authorizeUrl: 'http://localhost:9/authorize' }) },
      memory(),
    ),
    [],
    'beside it, on the same machine',
  );
  assert.deepEqual(
    rules({ refreshIdleTtlSeconds: 100, refreshAbsoluteTtlSeconds: 99, accessTtlSeconds: 50 }, memory()),
    ['oauth/lifetimes refreshIdleTtlSeconds is greater than refreshAbsoluteTtlSeconds'],
  );
  assert.deepEqual(
    rules({ refreshIdleTtlSeconds: 10, refreshAbsoluteTtlSeconds: 99, accessTtlSeconds: 100 }, memory()),
    ['oauth/lifetimes accessTtlSeconds is greater than refreshAbsoluteTtlSeconds'],
  );
});

test('OAuthPlugin: outside production without a database, logins are kept in memory and a warning is logged', async () => {
  await using site = await LoginSite.open({ hasDatabase: false });
  await site.login();
  assert.equal(site.audited('logins_in_memory').length, 1);
  await using stored = await LoginSite.open({ hasDatabase: true }); // LoginSite registers the database after the plugin
  await stored.login();
  assert.equal(stored.audited('logins_in_memory').length, 0);
  assert.equal(await stored.app.state.db.scalar('SELECT COUNT(*) FROM svc_oauth_login'), 1);
});

test('two applications in one process, each with OAuthPlugin, share no state', async () => {
  await using one = await LoginSite.open();
  await using two = await LoginSite.open();
  const { refresh_token: token } = await one.login();
  await refusedAs(await two.refresh(token), 400, 'invalid_grant');
  assert.equal(await two.oauth.revokeAll('user-ada'), 0);
  await one.refreshed(token);
});

test('OAuthPlugin: an application that was shut down can start again, and its stored logins are still valid', async () => {
  await using fake = await FakeProvider.start();
  const app = new Svc({
    authSecret: SECRET,
    logger: createLogger({ level: 'silent' }),
    env: 'test',
  }).register(new OAuthPlugin({ provider: fakeProvider(fake), onUser }));
  for (let count = 0; count < 2; count++) {
    await using client = new TestClient(app, { raiseErrors: false });
    const page = new URL((await client.get('/oauth/login')).headers.get('location')!);
    assert.equal(
      (await client.get('/oauth/callback', { query: { code: 'c', state: page.searchParams.get('state')! } }))
        .status,
      200,
    );
  }
});

for (const handles of [false, true]) {
  test(`${handles ? 'with' : 'without'} exception handlers of the application, every refusal below /oauth/ is an OAuth error in JSON`, async () => {
    await using site = await LoginSite.open({
      plugin: {
        onUser: () => {
          throw new Error('boom: secret-word');
        },
      },
      more: (app) => {
        app.use(new CORSMiddleware({ origins: ['https://spa.example'] }));
        app.use(
          new RateLimitMiddleware({ perMinute: 3, key: (req) => req.headers['x-limited'] ?? `${req.id}` }),
        );
        app
          .get('/boom', () => {
            throw new HTTPException(418);
          })
          .get('/oauth/own', () => 'mine');
        if (handles)
          app
            .exceptionHandler(
              HTTPException,
              (error) =>
                new JSONResponse({ oops: error.status }, { status: error.status, headers: error.headers }),
            )
            .exceptionHandler(Error, () => {
              throw new Error('again');
            });
      },
    });
    const { client } = site;
    await refusedAs(await client.get('/oauth/nothing'), 404, 'invalid_request');
    const put = await client.put('/oauth/token');
    assert.match(put.headers.get('allow')!, /POST/);
    await refusedAs(put, 405, 'invalid_request');
    const limited = async (): Promise<Response> =>
      client.post('/oauth/token', {
        headers: { 'x-limited': 'me', origin: 'https://spa.example' },
        form: { refresh_token: 'x' },
      });
    for (let count = 0; count < 3; count++) await limited();
    const refused = await limited();
    assert.match(refused.headers.get('retry-after')!, /^\d+$/);
    assert.equal(refused.headers.get('access-control-allow-origin'), 'https://spa.example');
    await refusedAs(refused, 429, 'rate_limited');
    await refusedAs(await client.post('/oauth/token', { form: {} }), 400, 'invalid_request');
    await refusedAs(
      await client.post('/oauth/token', { body: 'x', headers: { 'content-type': 'text/plain' } }),
      415,
      'invalid_request',
    );
    await refusedAs(
      await client.post('/oauth/token', { form: { x: 'x'.repeat(20_000) } }),
      413,
      'invalid_request',
    );
    const { state } = await site.begin();
    const response = await site.back({ code: 'c', state });
    assert.ok(!(await response.clone().text()).includes('secret-word'));
    await refusedAs(response, 500, 'server_error');
    assert.equal(await (await client.get('/oauth/own')).text(), 'mine');
    assert.equal((await client.get('/boom')).headers.get('cache-control'), null, 'elsewhere nothing changes');
  });
}

const NATIVE = {
  grant_type: 'authorization_code',
  code: 'x',
  code_verifier: 'x',
  client_redirect_uri: 'a.example:/x',
};

for (const [request, limit, path, form] of [
  ['a forged token at /oauth/token', 'forged', '/oauth/token', { refresh_token: 'x' }],
  ['a forged token at /oauth/revoke', 'forged', '/oauth/revoke', { token: 'x' }],
  ['a forged token at /oauth/logout', 'forged', '/oauth/logout', { refresh_token: 'x' }],
  ['the code of a native client', 'callback', '/oauth/token', NATIVE],
  ['the token of a login at /oauth/revoke', 'token', '/oauth/revoke', { token: '' }],
  ['the token of a login at /oauth/logout', 'token', '/oauth/logout', { refresh_token: '' }],
] as const)
  test(`OAuthPlugin answers 429 to ${request} when the limit "${limit}" is exceeded`, async () => {
    await using site = await LoginSite.open({
      plugin: {
        limits: { [limit]: 2 },
        postLogoutRedirectUris: [],
        nativeRedirects: ['a.example:/done'],
      },
    });
    const { refresh_token: token } = limit === 'token' ? await site.login() : { refresh_token: '' };
    const fields = Object.fromEntries(Object.entries(form).map(([name, value]) => [name, value || token]));
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++)
      statuses.push((await site.client.post(path, { form: fields })).status);
    assert.equal(statuses[2], 429);
    assert.ok(!statuses.slice(0, 2).includes(429), String(statuses));
  });

test('OAuthPlugin does not count a logout without a token as a forged token', async () => {
  await using site = await LoginSite.open({
    plugin: { mode: 'cookie', limits: { forged: 1 }, postLogoutRedirectUris: [] },
  });
  for (let count = 0; count < 3; count++)
    assert.equal(
      (await site.client.post('/oauth/logout', { headers: { 'Sec-Fetch-Site': 'same-origin' } })).status,
      303,
    );
});

test('OAuthPlugin answers 429 with Retry-After to logins, callbacks, token requests and forged tokens that exceed their rate limits', async () => {
  await using site = await LoginSite.open({
    plugin: { limits: { login: 2, callback: 2, token: 2, forged: 2 } },
  });
  const { client } = site;
  const { refresh_token: token } = await site.login();
  await site.login();
  const refusals = [() => client.get('/oauth/login'), () => client.get('/oauth/callback')];
  for (const ask of refusals)
    for (let count = 0; count < 3; count++) {
      const response = await ask();
      assert.match(response.headers.get('retry-after')!, /^[1-9]\d*$/);
      await refusedAs(response, 429, 'rate_limited');
    }
  const next = await site.refreshed(token);
  await site.refresh('garbage');
  await site.refresh('garbage');
  await refusedAs(await site.refresh('garbage'), 429, 'rate_limited');
  const last = await site.refreshed(next.refresh_token);
  await refusedAs(await site.refresh(last.refresh_token), 429, 'rate_limited');
  assert.deepEqual(
    site.audited('rate_limited').map(({ limit }) => limit),
    ['login', 'callback', 'forged', 'token'],
  );
  await site.clock.advance(60_000);
  const later = await site.refreshed(last.refresh_token);
  for (let count = 0; count < 2; count++)
    assert.equal((await site.revoke({ token: later.refresh_token })).status, 200);
  await refusedAs(await site.revoke({ token: later.refresh_token }), 429, 'rate_limited');
});

test('OAuthPlugin by default allows one address 20 callbacks and 600 token requests per minute, and the value false disables a limit', async () => {
  await using site = await LoginSite.open({ plugin: { limits: { login: false } } });
  for (let count = 0; count < 25; count++) await site.begin();
  for (let count = 0; count < 20; count++)
    await refusedAs(await site.client.get('/oauth/callback'), 400, 'invalid_state');
  await refusedAs(await site.client.get('/oauth/callback'), 429, 'rate_limited');
  for (let count = 0; count < 600; count++)
    assert.equal((await site.client.post('/oauth/token', { form: { refresh_token: 'x' } })).status, 400);
  assert.equal((await site.client.post('/oauth/token', { form: { refresh_token: 'x' } })).status, 429);
});

test('OAuthPlugin: logs, errors and inspect() output contain no token, code, state, verifier, cookie or secret', async () => {
  for (const mode of ['json', 'cookie'] as const) {
    await using site = await LoginSite.open({ env: 'production', hasSession: true, plugin: { mode } });
    const secrets = new Set<string>([SECRET, 'client-secret-9f2c']);
    const { state } = await site.begin();
    secrets.add(state);
    for (const name of site.client.cookies.names()) secrets.add(site.client.cookies.get(name)!);
    const response = await site.back({ code: 'the-secret-code', state });
    secrets.add('the-secret-code');
    for (const name of site.client.cookies.names()) secrets.add(site.client.cookies.get(name)!);
    for (const { form } of site.fake.requests)
      if (form.has('code_verifier')) secrets.add(form.get('code_verifier')!);
    const tokens = mode === 'json' ? ((await response.json()) as Tokens) : undefined;
    const token = tokens?.refresh_token ?? site.client.cookies.get('__Host-svc_refresh')!;
    for (const each of [token, tokens?.access_token]) if (each !== undefined) secrets.add(each);
    await site.refresh(token);
    await site.refresh(token);
    await site.refresh(token, { scope: 'admin' });
    await site.revoke({ token });
    await site.back({ code: 'the-secret-code', state });
    await site.back({ error: 'server_error', state });
    await site.oauth.revokeAll('user-ada');
    const error = new OAuthError('invalid_grant', { reason: 'x' });
    const text = [
      JSON.stringify(site.events),
      inspect(site.oauth, { depth: 9, showHidden: true }),
      inspect(site.app, { depth: 4 }),
      inspect(error),
      JSON.stringify(await site.oauth.listSessions('user-ada')),
      await site.metrics(),
    ].join('\n');
    assert.ok(secrets.size >= 6);
    for (const secret of secrets)
      assert.ok(
        !text.includes(secret),
        `${mode}: ${text.slice(Math.max(0, text.indexOf(secret) - 200), text.indexOf(secret) + 20)}`,
      );
  }
});

test('OAuthPlugin: the audit log has an event for each step of a login, with time, request, address, provider and login id', async () => {
  await using site = await LoginSite.open({ plugin: { limits: { login: 3 } } });
  const tokens = await site.login();
  const next = await site.refreshed(tokens.refresh_token);
  await site.refresh(tokens.refresh_token);
  await site.refresh(next.refresh_token);
  await site.back({ code: 'c', state: 'x' });
  const other = await site.login();
  await site.revoke({ token: other.refresh_token });
  await site.oauth.revokeAll('user-ada');
  const { state } = await site.begin();
  site.fake.failNext('token', { status: 500 });
  await site.back({ code: 'c', state });
  await site.client.get('/oauth/login');
  const events = site
    .audited()
    .filter(({ level, event }) => level !== 'debug' && event !== 'logins_in_memory');
  assert.deepEqual(
    events.map(({ event }) => event),
    [
      'login_succeeded',
      'token_issued',
      'token_refreshed',
      'token_reuse_detected',
      'token_refused',
      'state_rejected',
      'login_succeeded',
      'token_issued',
      'token_revoked',
      'revoke_all',
      'provider_error',
      'rate_limited',
    ],
  );
  for (const line of events) {
    assert.match(String(line['time']), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/);
    if (line['event'] !== 'revoke_all')
      assert.ok(typeof line['request_id'] === 'string' && line['ip'] === '127.0.0.1', String(line['event']));
  }
  const found = (event: string): Record<string, unknown> => events.find((line) => line['event'] === event)!;
  for (const event of ['login_succeeded', 'token_issued', 'token_refreshed', 'token_reuse_detected'])
    assert.deepEqual(
      [found(event)['provider'], found(event)['sub'], typeof found(event)['login_id']],
      ['fake', 'user-ada', 'string'],
    );
  assert.equal(found('token_refreshed')['how'], 'rotated');
  assert.deepEqual(
    [
      'login_succeeded',
      'state_rejected',
      'token_issued',
      'token_revoked',
      'token_reuse_detected',
      'rate_limited',
    ].map((event) => found(event)['category']),
    [
      'authn_login_success',
      'authn_login_fail',
      'authn_token_created',
      'authn_token_revoked',
      'authn_token_reuse',
      'excess_rate_limit_exceeded',
    ],
  );
});

test('OAuthPlugin: the metrics count logins by provider and outcome, and refreshes by outcome, and no label contains user input', async () => {
  await using site = await LoginSite.open();
  const { refresh_token: token } = await site.login();
  await site.refreshed(token);
  await site.refresh(token);
  await site.refresh('x');
  await site.back({ code: 'c', state: 'x"} 5' });
  const { state } = await site.begin();
  await site.back({ error: 'strange"}', state });
  const metrics = await site.metrics();
  for (const line of [
    'svc_oauth_logins_total{provider="fake",outcome="succeeded"} 1',
    'svc_oauth_logins_total{provider="fake",outcome="state_rejected"} 1',
    'svc_oauth_logins_total{provider="fake",outcome="provider_failed"} 1',
    'svc_oauth_refresh_total{outcome="rotated"} 1',
    'svc_oauth_refresh_total{outcome="reuse"} 1',
    'svc_oauth_refresh_total{outcome="refused"} 1',
    'svc_oauth_reuse_total 1',
    'svc_oauth_provider_seconds_count{provider="fake",call="token"} 1',
  ])
    assert.ok(metrics.includes(line), line);
  assert.ok(!metrics.includes('strange'));
});

for (const [name, error, outcome] of [
  ['an HTTPException below 500', new HTTPException(403), 'refused'],
  ['an HTTPException from 500 on', new HTTPException(503), 'failed'],
  ['any other error', new TypeError('a defect'), 'failed'],
] as const)
  test(`OAuthPlugin: a login that ends with ${name} of onUser() counts with the outcome "${outcome}"`, async () => {
    await using site = await LoginSite.open({
      plugin: {
        onUser: () => {
          throw error;
        },
      },
    });
    const { state } = await site.begin();
    await site.back({ code: 'c', state });
    const line = `svc_oauth_logins_total{provider="fake",outcome="${outcome}"} 1`;
    assert.ok((await site.metrics()).includes(line), line);
  });

test('OAuthPlugin: expired logins are deleted periodically, even after one deletion failed, and revoked logins are kept until their absolute expiry', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { refreshAbsoluteTtlSeconds: 5_000, refreshIdleTtlSeconds: 5_000 },
  });
  const db = (): typeof site.app.state.db => site.app.state.db;
  const rows = async (table: string): Promise<unknown> => db().scalar(`SELECT COUNT(*) FROM ${table}`);
  const { refresh_token: token } = await site.login();
  await site.revoke({ token });
  await site.begin();
  assert.equal(await site.oauth.cleanUp(), 0);
  await site.clock.advance(600_000);
  assert.equal(await site.oauth.cleanUp(), 0);
  assert.equal(await rows('svc_oauth_login'), 1);
  await site.clock.advance(4_400_000);
  await site.clock.advance(900_000);
  for (
    let looks = 0;
    looks < 1_000 && LoginSite.databases !== undefined && (await rows('svc_oauth_login')) !== 0;
    looks++
  )
    await site.clock.advance(10_000); // the server works in real time, which is slower than this clock
  assert.equal(await rows('svc_oauth_login'), 0, 'by itself, within a quarter of an hour');
  await db().execute('DROP TABLE svc_oauth_login');
  await site.clock.advance(900_000);
  await new Promise<void>((resolve) => {
    const look = (): void => {
      if (site.audited('clean_up_failed').length > 0) resolve();
      else setImmediate(look);
    };
    look();
  });
  assert.ok(site.clock.pending >= 1, 'a failure does not end it');
});

test('OAuthPlugin: cleanUp() deletes expired logins in batches until none is left', async (t) => {
  let left = 2_500;
  t.mock.method(MemoryTokenStore.prototype, 'cleanUp', async (_now: number, batch: number) => {
    const count = Math.min(batch, left);
    left -= count;
    return count;
  });
  await using site = await LoginSite.open({ hasDatabase: false });
  await site.begin();
  assert.equal(await site.oauth.cleanUp(), 2_500);
});

test('OAuthPlugin: parameters named __proto__ and constructor do not pollute Object.prototype', async () => {
  await using site = await LoginSite.open();
  await site.client.get('/oauth/login?__proto__=x&constructor=y');
  await refusedAs(
    await site.client.get('/oauth/callback?__proto__=x&state=__proto__&code=constructor'),
    400,
    'invalid_state',
  );
  for (const body of ['{"__proto__":{"refresh_token":"x"}}', '{"constructor":{"prototype":{"polluted":1}}}'])
    await refusedAs(
      await site.client.post('/oauth/token', { body, headers: { 'content-type': 'application/json' } }),
      400,
      'invalid_request',
    );
  await refusedAs(
    await site.client.post('/oauth/token', { form: { __proto__: 'x', constructor: 'y' } as never }),
    400,
    'invalid_request',
  );
  assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
  assert.equal(({} as Record<string, unknown>)['refresh_token'], undefined);
});

test('OAuthPlugin: if the server shuts down during a token refresh, the refresh gets its response and the login stays valid', async () => {
  await using site = await LoginSite.open({ listen: true });
  await site.client.get('/healthz');
  const begun = await site.client.get('/oauth/login', { query: {} });
  const page = new URL(begun.headers.get('location')!);
  const tokens = (await (
    await site.back({ code: 'c', state: page.searchParams.get('state')! })
  ).json()) as Tokens;
  const before = site.clock.pending; // timers of the clean-up and of idle connections exist already
  const pending = site.client.post('/oauth/token', { form: { refresh_token: tokens.refresh_token } });
  while (site.clock.pending === before) await new Promise((resolve) => setImmediate(resolve)); // waits until the refresh has set its timer
  const closing = site.client.close();
  await site.clock.advance(25);
  assert.equal((await pending).status, 200);
  await closing;
});

test('OAuthPlugin closes the HTTP client of each provider when the application shuts down', async (t) => {
  const closed = t.mock.method(ProviderClient.prototype, 'close');
  const site = await LoginSite.open({ names: ['one', 'two'] });
  await site.client.get('/healthz'); // starts the application
  assert.equal(closed.mock.callCount(), 0);
  await site[Symbol.asyncDispose]();
  assert.equal(new Set(closed.mock.calls.map((call) => call.this)).size, 2);
});
