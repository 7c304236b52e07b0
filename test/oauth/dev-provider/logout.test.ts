/**
 * Logout at DevProvider (OpenID Connect RP-Initiated Logout 1.0).
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SessionMiddleware, Svc } from 'svc';
import { OAuthPlugin } from 'svc/oauth';
import { DevProvider, TestClient } from 'svc/testing';
import { collectedLog } from '../../support/collected-log.ts';
import { SECRET } from '../support/site.ts';
import type { DevResponse } from '../../../src/oauth/dev-provider/protocol.ts';

const HOME = 'https://app.example/';
const ISSUER = 'https://dev.example';
const CALLBACK = 'https://app.example/oauth/callback';

function devProvider(): DevProvider {
  return new DevProvider({
    env: 'test',
    issuer: ISSUER,
    redirectUris: [CALLBACK],
    postLogoutRedirectUris: [HOME],
  });
}

function logout(
  dev: DevProvider,
  parameters: Record<string, string> | string,
  method: 'GET' | 'POST' = 'GET',
): Promise<DevResponse> {
  const text = new URLSearchParams(parameters).toString();
  return dev.handle({
    method,
    path: '/logout',
    query: method === 'GET' ? text : '',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: method === 'GET' ? '' : text,
  });
}

/** Logs in at the provider, and returns the id_token. */
async function idTokenOf(dev: DevProvider): Promise<string> {
  const verifier = 'v'.repeat(43);
  const page = new URL(`${ISSUER}/authorize`);
  page.search = new URLSearchParams({
    response_type: 'code',
    client_id: dev.clientId,
    redirect_uri: CALLBACK,
    scope: 'openid',
    code_challenge: Buffer.from(
      await crypto.subtle.digest('SHA-256', new TextEncoder().encode(verifier)),
    ).toString('base64url'),
    code_challenge_method: 'S256',
  }).toString();
  const code = new URL(await dev.pick(page.href, 'ada')).searchParams.get('code')!;
  const { body } = await dev.handle({
    method: 'POST',
    path: '/token',
    query: '',
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      code,
      redirect_uri: CALLBACK,
      code_verifier: verifier,
      client_id: dev.clientId,
      client_secret: dev.clientSecret,
    }).toString(),
  });
  return (JSON.parse(body) as { id_token: string }).id_token;
}

test('DevProvider asks for confirmation before a logout, then redirects to the application with state (RP-Initiated Logout 1.0 §2, §3)', async () => {
  const dev = devProvider();
  const asked = { client_id: dev.clientId, post_logout_redirect_uri: HOME, state: 'a b' };
  const page = await logout(dev, asked);
  assert.equal(page.status, 200);
  assert.match(page.body, /name="state" value="a b"[^]*<button name="confirmed"/);
  assert.match(page.headers['content-security-policy']!, /form-action 'self' https:\/\/app\.example;/);
  const { status, headers } = await logout(dev, { ...asked, confirmed: '1' }, 'POST');
  assert.deepEqual([status, headers['location']], [303, `${HOME}?state=a+b`]);
  const nowhere = await logout(dev, { confirmed: '1' }, 'POST');
  assert.deepEqual([nowhere.status, nowhere.headers['location']], [200, undefined]);
  assert.equal((await logout(dev, { ...asked, confirmed: '1' })).status, 200, 'a link confirms nothing');
});

test('DevProvider does not ask for confirmation if the logout request has an id_token_hint that this provider issued', async () => {
  const dev = devProvider();
  const hint = await idTokenOf(dev);
  const { status, headers } = await logout(dev, { id_token_hint: hint, post_logout_redirect_uri: HOME });
  assert.deepEqual([status, headers['location']], [303, HOME]);
});

test('DevProvider refuses a logout with an invalid id_token_hint, client or return address, and its page shows the reason', async () => {
  const dev = devProvider();
  const foreign = await idTokenOf(devProvider());
  const [header, , signature] = foreign.split('.');
  const requests: (Record<string, string> | string)[] = [
    { id_token_hint: foreign },
    { id_token_hint: `${header}.e30.${signature}` },
    { id_token_hint: 'x' },
    { client_id: 'other' },
    { post_logout_redirect_uri: HOME },
    { client_id: dev.clientId, post_logout_redirect_uri: 'https://evil.example/' },
    { client_id: dev.clientId, post_logout_redirect_uri: `${HOME}x` },
    'state=a&state=b',
  ];
  for (const parameters of requests)
    for (const method of ['GET', 'POST'] as const) {
      const { status, headers, body } = await logout(dev, parameters, method);
      assert.deepEqual([status, headers['location']], [400, undefined], JSON.stringify(parameters));
      assert.match(body, /This logout cannot go on/);
    }
});

test('with two mounted DevProviders, a logout goes to the provider of the login, and returns to the application', async () => {
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env: 'development' });
  const providers = ['one', 'two'].map((name) =>
    new DevProvider({
      env: 'test',
      name,
      redirectUris: ['/oauth/callback', '/oauth/two/callback'],
      postLogoutRedirectUris: ['/'],
    }).mount(app, `/_dev/${name}`),
  );
  app.register(
    new OAuthPlugin({
      providers,
      mode: 'cookie',
      onUser: (provider, { subject }) => `${provider}:${subject}`,
      postLogoutRedirectUris: [],
    }),
  );
  app.use(new SessionMiddleware());
  await using client = new TestClient(app, { baseUrl: 'http://127.0.0.1:8000' });
  const page = new URL((await client.get('/oauth/two/login')).headers.get('location')!);
  assert.equal(page.origin + page.pathname, 'http://127.0.0.1:8000/_dev/two/authorize');
  const picked = await client.post(page.pathname, {
    form: { ...Object.fromEntries(page.searchParams), user: 'ada' },
  });
  assert.equal((await client.get(picked.headers.get('location')!)).status, 303);
  const left = await client.post('/oauth/logout', { headers: { 'sec-fetch-site': 'same-origin' } });
  const end = new URL(left.headers.get('location')!);
  assert.equal(end.origin + end.pathname, 'http://127.0.0.1:8000/_dev/two/logout');
  const back = await client.post(end.pathname, {
    form: { ...Object.fromEntries(end.searchParams), confirmed: '1' },
  });
  assert.deepEqual([back.status, back.headers.get('location')], [303, 'http://127.0.0.1:8000/']);
});
