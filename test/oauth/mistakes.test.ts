/** Errors of OAuthPlugin for mistakes of the application. */
import assert from 'node:assert/strict';
import test from 'node:test';
import { BearerAuth, Depends, Svc, SvcError } from 'svc';
import { OAuthPlugin, githubProvider } from 'svc/oauth';
import { TestClient } from 'svc/testing';
import { FakeProvider } from './support/fake-provider.ts';
import { OAuthProvider } from '../../src/oauth/provider/presets.ts';

const SECRET = 'kR7#vq2Lw9!xTz4mYb8@cN3$fHs6^jDg';
const provider = githubProvider('id', 'secret');
const onUser = (): string => 'ada';

function code(expected: string) {
  return (error: unknown): boolean => error instanceof SvcError && error.code === expected;
}

test('OAuthPlugin needs at least one provider, and all providers need different names (E_OAUTH_PROVIDERS)', () => {
  for (const options of [
    { onUser },
    { onUser, provider, providers: [provider] },
    { onUser, providers: [] },
    { onUser, providers: [provider, githubProvider('other', 'secret')] },
    { onUser, provider: {} as never },
  ]) {
    assert.throws(() => new OAuthPlugin(options), code('E_OAUTH_PROVIDERS'));
  }
});

test('the methods of OAuthPlugin throw an error until the plugin is registered with an application (E_OAUTH_UNREGISTERED)', async () => {
  await assert.rejects(
    async () => new OAuthPlugin({ onUser, provider }).revokeAll('ada'),
    code('E_OAUTH_UNREGISTERED'),
  );
});

test('if OAuthPlugin and the application have different secrets, the application does not start (E_OAUTH_SECRET)', () => {
  const app = new Svc({ authSecret: SECRET, env: 'test' }).register(
    new OAuthPlugin({ onUser, provider, authSecret: SECRET.toLowerCase() }),
  );
  const findings = app.check().findings.filter((finding) => finding.subject === 'plugin oauth');
  assert.match(findings[0]!.message, /different secrets/);
  assert.doesNotThrow(() =>
    new Svc({ authSecret: SECRET, env: 'test' })
      .register(new OAuthPlugin({ onUser, provider, authSecret: SECRET }))
      .compileAll(),
  );
});

test('if onUser() returns an invalid result, the callback of the login throws an error with the code E_OAUTH_USER', async () => {
  await using fake = await FakeProvider.start();
  const own = new OAuthProvider({
    name: 'fake',
    clientId: 'client',
    clientSecret: 'secret',
    authorizeUrl: `${fake.url}/authorize`,
    tokenUrl: `${fake.url}/token`,
    userinfoUrl: `${fake.url}/userinfo`,
    allowInsecure: true,
  });
  for (const answer of [
    '',
    7,
    { sub: 'x'.repeat(256) },
    { sub: 'ada', scopes: ['two words'] },
    { sub: 'ada', scopes: 'read' },
  ]) {
    const app = new Svc({ authSecret: SECRET }).register(
      new OAuthPlugin({ provider: own, onUser: () => answer as never }),
    );
    await using client = new TestClient(app);
    const state = new URL((await client.get('/oauth/login')).headers.get('location')!).searchParams.get(
      'state',
    )!;
    await assert.rejects(client.get(`/oauth/callback?code=c&state=${state}`), code('E_OAUTH_USER'));
  }
});

test('the error of a parameter from onLogin() that is refused names the parameter and the reason', async () => {
  for (const [params, reason] of [
    [{ state: 'x' }, /"state" is one that the login sets itself/],
    [{ nonce: 5 }, /"nonce" is one that the login sets itself/],
    [{ max_age: '300' }, /"max_age" is not verified for one login: set it in authorizeParams/],
    [{ acr_values: 5 }, /"acr_values" is not text/],
  ] as const) {
    const app = new Svc({ authSecret: SECRET }).register(
      new OAuthPlugin({ provider, onUser, onLogin: () => ({ params: params as never }) }),
    );
    await using client = new TestClient(app);
    const error = await client.get('/oauth/login').catch((cause: unknown) => cause);
    assert.ok(code('E_OAUTH_USER')(error));
    assert.match(String(error), reason);
  }
});

test('OAuth routes: wrong methods and percent-encoded paths below /oauth/ get OAuth errors as JSON with "Cache-Control: no-store"', async () => {
  const app = new Svc({ authSecret: SECRET }).register(new OAuthPlugin({ provider, onUser }));
  await using client = new TestClient(app);
  for (const [method, path] of [
    ['PUT', '/%6fauth/token'],
    ['GET', '/%6fauth/nothing'],
    ['GET', '/%6fauth/callback'],
    ['GET', '/oauth/%zz'],
  ] as const) {
    const response = await client.request(method, path);
    assert.deepEqual(
      [response.headers.get('content-type'), response.headers.get('cache-control')],
      ['application/json', 'no-store'],
      path,
    );
    assert.deepEqual(
      Object.keys((await response.json()) as object),
      ['error', 'error_description', 'request_id'],
      path,
    );
  }
});

test('BearerAuth() with the explicit secret of OAuthPlugin also refuses revoked tokens', async () => {
  await using fake = await FakeProvider.start();
  const own = new OAuthProvider({
    name: 'fake',
    clientId: 'client',
    clientSecret: 'secret',
    authorizeUrl: `${fake.url}/authorize`,
    tokenUrl: `${fake.url}/token`,
    userinfoUrl: `${fake.url}/userinfo`,
    allowInsecure: true,
  });
  const oauth = new OAuthPlugin({ provider: own, onUser, authSecret: SECRET, enforceValidAfter: true });
  const app = new Svc().register(oauth).get('/me', { me: Depends(BearerAuth(SECRET)) }, ({ me }) => me.sub);
  await using client = new TestClient(app);
  const state = new URL((await client.get('/oauth/login')).headers.get('location')!).searchParams.get(
    'state',
  )!;
  const { access_token: token } = (await (
    await client.get(`/oauth/callback?code=c&state=${state}`)
  ).json()) as { access_token: string };
  const me = async (): Promise<number> =>
    (await client.get('/me', { headers: { authorization: `Bearer ${token}` } })).status;
  assert.equal(await me(), 200);
  await oauth.revokeAll('ada');
  assert.equal(await me(), 401);
});
