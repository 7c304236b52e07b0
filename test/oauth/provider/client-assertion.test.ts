/**
 * Client authentication by private_key_jwt (RFC 7523), and parameters of one login.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { OAuthProvider } from 'svc/oauth';
import { LoginSite } from '../support/site.ts';
import type { KeyObject } from 'node:crypto';
import type { OAuthPluginOptions, OAuthProviderOptions } from 'svc/oauth';

const pemOf = (key: KeyObject): string => key.export({ type: 'pkcs8', format: 'pem' }) as string;
const read = (part: string): Record<string, unknown> =>
  JSON.parse(Buffer.from(part, 'base64url').toString()) as Record<string, unknown>;

for (const [alg, { privateKey, publicKey }] of [
  ['RS256', generateKeyPairSync('rsa', { modulusLength: 2_048 })],
  ['ES256', generateKeyPairSync('ec', { namedCurve: 'P-256' })],
  ['EdDSA', generateKeyPairSync('ed25519')],
] as const) {
  test(`private_key_jwt with ${alg}: each token request contains a signed assertion with a unique jti that is valid for one minute (RFC 7523)`, async () => {
    await using site = await LoginSite.open({
      provider: {
        clientSecret: undefined,
        clientAuth: 'private_key_jwt',
        clientKey: { privateKey: pemOf(privateKey), keyId: 'k1' },
      },
    });
    await site.login();
    await site.login();
    const [first, second] = site.fake.requests.filter(({ endpoint }) => endpoint === 'token');
    assert.deepEqual(
      [first!.form.get('client_id'), first!.form.has('client_secret'), first!.headers['authorization']],
      ['client', false, undefined],
    );
    assert.equal(
      first!.form.get('client_assertion_type'),
      'urn:ietf:params:oauth:client-assertion-type:jwt-bearer',
    );
    const [head, payload, signature] = first!.form.get('client_assertion')!.split('.') as [
      string,
      string,
      string,
    ];
    assert.deepEqual(read(head), { alg, typ: 'JWT', kid: 'k1' });
    const { jti, ...claims } = read(payload);
    const nowSeconds = Math.floor(site.clock.nowMs() / 1_000);
    assert.deepEqual(claims, {
      iss: 'client',
      sub: 'client',
      aud: `${site.fake.url}/token`,
      iat: nowSeconds,
      exp: nowSeconds + 60,
    });
    assert.notEqual(read(second!.form.get('client_assertion')!.split('.')[1]!)['jti'], jti);
    const isValid = verify(
      alg === 'EdDSA' ? null : 'sha256',
      Buffer.from(`${head}.${payload}`),
      { key: publicKey, dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    );
    assert.ok(isValid);
  });
}

test('OAuthProvider refuses a weak key for private_key_jwt, and a client secret in addition to the key', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = pemOf(privateKey);
  const make = (options: Partial<OAuthProviderOptions>) => (): OAuthProvider =>
    new OAuthProvider({
      name: 'own',
      clientId: 'client',
      authorizeUrl: 'https://id.example/a',
      tokenUrl: 'https://id.example/t',
      userinfoUrl: 'https://id.example/u',
      clientAuth: 'private_key_jwt',
      ...options,
    });
  const good = make({ clientKey: { privateKey: pem } })();
  assert.ok(!inspect(good, { depth: 9, showHidden: true }).includes('PRIVATE KEY'));
  for (const options of [
    {},
    { clientKey: { privateKey: pem }, clientSecret: 'secret' },
    { clientKey: { privateKey: 'nothing' } },
    { clientKey: { privateKey: pemOf(generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey) } },
    { clientKey: { privateKey: pemOf(generateKeyPairSync('rsa', { modulusLength: 1_024 }).privateKey) } },
    { clientKey: { privateKey: pem }, clientAuth: 'post', clientSecret: 'secret' },
  ] as const)
    assert.throws(make(options), (error: Error & { code?: string }) => {
      assert.equal(error.code, 'E_OAUTH_PROVIDER');
      assert.ok(!String(error.stack).includes('PRIVATE KEY'));
      return true;
    });
  assert.throws(make({ clientKey: 'pem' as never }), { code: 'E_OPTION_RANGE' });
});

test('the hook onLogin() can add parameters and scopes to one login, but cannot set protocol parameters such as state', async () => {
  let answer: unknown = { params: { kc_idp_hint: 'github', access_type: 'offline' }, scopes: ['repo'] };
  const onLogin = ((_provider, req) =>
    req.query.get('connect') === undefined ? undefined : answer) as OAuthPluginOptions['onLogin'];
  await using site = await LoginSite.open({
    plugin: { onLogin, storeProviderTokens: true, limits: { login: false } },
    provider: { scopes: ['read'], authorizeParams: { access_type: 'online', theme: 'dark' } },
  });
  const usual = (await site.begin()).page.searchParams;
  assert.deepEqual(
    ['scope', 'access_type', 'theme', 'kc_idp_hint'].map((name) => usual.get(name)),
    ['read', 'online', 'dark', null],
  );
  const { page, state } = await site.begin({ connect: '1', kc_idp_hint: 'evil' });
  assert.deepEqual(
    ['scope', 'access_type', 'theme', 'kc_idp_hint'].map((name) => page.searchParams.getAll(name)),
    [['repo'], ['offline'], ['dark'], ['github']],
  );
  assert.equal((await site.back({ code: 'c', state })).status, 200);
  const token = await site.oauth.providerToken('user-ada', 'fake');
  assert.deepEqual('scopes' in token ? token.scopes : token, ['repo']);
  for (const bad of [
    { params: { state: 'x' } },
    { params: { redirect_uri: 'https://evil.example' } },
    { params: { max_age: '1' } },
    { params: { a: 1 } },
    { scopes: ['a b'] },
    { scopes: 'read' },
  ]) {
    answer = bad;
    assert.equal((await site.client.get('/oauth/login?connect=1')).status, 500, JSON.stringify(bad));
  }
});
