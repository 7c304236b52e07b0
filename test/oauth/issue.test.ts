/** Logins that the application starts by oauth.issue(), with an identity provider and without one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  BearerAuth,
  Depends,
  RedirectResponse,
  SessionMiddleware,
  Svc,
  requireScopes,
  sessionKey,
} from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { ManualClock, TestClient } from 'svc/testing';
import { collectedLog } from '../support/collected-log.ts';
import { LoginSite, SECRET, claimsOf, cookiesOf, refusedAs } from './support/site.ts';
import type { IssueOptions, OAuthPluginOptions } from 'svc/oauth';
import type { Tokens } from './support/site.ts';

/** Opens an application that logs users in by password, without a provider. */
function open(
  plugin: Partial<OAuthPluginOptions> = {},
  issued: Partial<IssueOptions> = {},
): {
  readonly oauth: OAuthPlugin;
  readonly client: TestClient;
  readonly clock: ManualClock;
} & AsyncDisposable {
  const { logger } = collectedLog();
  const clock = new ManualClock();
  const oauth = new OAuthPlugin(plugin);
  const app = new Svc({ authSecret: SECRET, logger, env: 'test' });
  app.register(oauth).register(new DatabasePlugin('sqlite::memory:')).use(new SessionMiddleware());
  app.post('/login', async ({ req }) => {
    if (plugin.mode !== 'cookie') return (await oauth.issue('ada', { req, ...issued })).body;
    const response = new RedirectResponse('/', { status: 303 });
    await oauth.issue('ada', { req, response, ...issued });
    return response;
  });
  app.get('/me', { me: Depends(requireScopes('read')) }, ({ me }) => ({ sub: me.sub, roles: me['roles'] }));
  app.get('/any', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  app.get('/session', ({ req }) => req.session.get(currentUser) ?? 'none');
  const client = new TestClient(app, { clock, raiseErrors: false });
  return { oauth, client, clock, [Symbol.asyncDispose]: () => client.close() };
}

const post = (client: TestClient, token: string): Promise<Response> =>
  client.post('/oauth/token', { form: { refresh_token: token } });

test('OAuthPlugin: issue() logs a user in without a provider, and the replay of a refresh token ends this login', async () => {
  await using site = open({}, { scopes: ['read'], claims: { roles: ['admin'] }, method: 'password' });
  const { client, oauth, clock } = site;
  const response = await client.post('/login');
  const tokens = (await response.json()) as Tokens;
  assert.deepEqual(
    { ...tokens, access_token: '', refresh_token: '' },
    { access_token: '', token_type: 'Bearer', refresh_token: '', expires_in: 900, scope: 'read' },
  );
  const headers = { authorization: `Bearer ${tokens.access_token}` };
  assert.deepEqual(await (await client.get('/me', { headers })).json(), { sub: 'ada', roles: ['admin'] });
  const { sid } = claimsOf(tokens.access_token);
  assert.deepEqual(
    (await oauth.listSessions('ada', { currentId: String(sid) })).map(({ provider, isCurrent }) => ({
      provider,
      isCurrent,
    })),
    [{ provider: 'password', isCurrent: true }],
  );
  assert.equal(await (await client.get('/session')).text(), 'ada');
  await clock.advance(1_000);
  const next = (await (await post(client, tokens.refresh_token)).json()) as Tokens;
  assert.equal(next.scope, 'read');
  await clock.advance(1_000);
  await refusedAs(await post(client, tokens.refresh_token), 400, 'invalid_grant');
  await refusedAs(await post(client, next.refresh_token), 400, 'invalid_grant');
  assert.deepEqual(await oauth.listSessions('ada'), []);
});

test('OAuth: issue() without a method names the login "local"', async () => {
  await using site = open();
  assert.equal((await site.client.post('/login')).status, 200);
  assert.deepEqual(
    (await site.oauth.listSessions('ada')).map(({ provider }) => provider),
    ['local'],
  );
});

test('OAuthPlugin without a provider has only the routes /oauth/token and /oauth/revoke', async () => {
  await using site = open();
  for (const path of ['/oauth/login', '/oauth/callback'])
    await refusedAs(await site.client.get(path), 404, 'invalid_request');
  const { access_token: token } = (await (await site.client.post('/login')).json()) as Tokens;
  assert.equal((await site.client.post('/oauth/revoke', { form: { token: 'x' } })).status, 200);
  assert.equal(
    (await site.client.get('/any', { headers: { authorization: `Bearer ${token}` } })).status,
    200,
  );
});

test('OAuthPlugin without a provider starts in production, and needs no list of redirect URIs', async () => {
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env: 'production' });
  app.register(new OAuthPlugin({})).register(new DatabasePlugin('sqlite::memory:'));
  assert.deepEqual(
    app.check().findings.filter(({ subject }) => subject === 'plugin oauth'),
    [],
  );
});

test('OAuth cookie mode: issue() sets the tokens as cookies of the response', async () => {
  await using site = open({ mode: 'cookie', scopes: ['read'] });
  const response = await site.client.post('/login');
  assert.deepEqual([response.status, response.headers.get('location')], [303, '/']);
  assert.ok(['svc_access', 'svc_refresh'].every((name) => cookiesOf(response).has(name)));
  assert.equal((await site.client.get('/me')).status, 200);
  const headers = { 'sec-fetch-site': 'same-origin' };
  assert.equal((await site.client.post('/oauth/token', { headers })).status, 200);
});

test('OAuth: issue() renews the session, as a login at a provider does', async () => {
  await using site = open();
  await site.client.get('/session');
  const first = await site.client.post('/login');
  const second = await site.client.post('/login');
  const cookies = [first, second].map((response) => cookiesOf(response).get('svc_session')?.value);
  assert.ok(cookies.every((value) => value !== undefined));
  assert.notEqual(cookies[0], cookies[1]);
});

test('OAuth: issue() keeps session values of keepSession for the same user, and removes them for another user', async () => {
  const admin = sessionKey<string>('admin');
  const oauth = new OAuthPlugin({ keepSession: ['admin'] });
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env: 'test' });
  app.register(oauth).use(new SessionMiddleware());
  app.post('/login/{user}', async ({ req, params }) => {
    await oauth.issue(params.user, { req });
    return req.session.get(admin) ?? 'none';
  });
  app.post('/admin', ({ req }) => req.session.set(admin, 'root'));
  app.get('/admin', ({ req }) => req.session.get(admin) ?? 'none');
  await using client = new TestClient(app);
  await client.post('/admin');
  const login = async (user: string): Promise<string> => (await client.post(`/login/${user}`)).text();
  assert.deepEqual([await login('ada'), await login('ada'), await login('bob')], ['root', 'root', 'none']);
  await client.post('/admin'); // a value that is set after issue() is kept
  assert.equal(await (await client.get('/admin')).text(), 'root');
});

test('OAuth: issue() refuses an invalid subject, scope, claim or method', async () => {
  await using site = await LoginSite.open();
  await site.client.get('/healthz');
  const req = {} as never;
  for (const [sub, options, code] of [
    ['', { req }, 'E_OAUTH_USER'],
    ['ada', { req, scopes: ['a b'] }, 'E_OAUTH_USER'],
    ['ada', { req, method: 'fake' }, 'E_OPTION_RANGE'],
    ['ada', { req, method: 'A' }, 'E_OPTION_RANGE'],
    ['ada', { req, response: new RedirectResponse('/') }, 'E_OPTION_RANGE'],
    ['ada', {}, 'E_OPTION_RANGE'],
    ['ada', { req, other: 1 }, 'E_OPTION_UNKNOWN'],
  ] as const)
    await assert.rejects(site.oauth.issue(sub, options as never), { code });
  await using cookies = open({ mode: 'cookie' }, { response: undefined });
  assert.equal((await cookies.client.post('/login')).status, 500);
});
