/** Presets read responses in the form that the providers document. The services themselves are not called. */
import assert from 'node:assert/strict';
import { createPublicKey, generateKeyPairSync, verify } from 'node:crypto';
import { test } from 'node:test';
import { Svc } from 'svc';
import {
  OAuthPlugin,
  appleProvider,
  auth0Provider,
  cognitoProvider,
  discordProvider,
  facebookProvider,
  gitlabProvider,
  keycloakProvider,
  linkedinProvider,
  microsoftProvider,
  oidcProvider,
  oktaProvider,
  slackProvider,
  spotifyProvider,
  twitchProvider,
  xProvider,
} from 'svc/oauth';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { ProviderClient } from '../../../src/oauth/provider/client.ts';
import { settingsOf } from '../../../src/oauth/provider/options.ts';
import { PRESETS } from '../../../src/oauth/provider/preset-table.ts';
import { readTokenAnswer } from '../../../src/oauth/provider/token-answer.ts';
import { userInfoOf } from '../../../src/oauth/provider/user-info.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeProvider, jws } from '../support/fake-provider.ts';
import { LoginSite, SECRET } from '../support/site.ts';
import type { OAuthProvider } from 'svc/oauth';

const TENANT = '72f988bf-86f1-41af-91ab-2d7cd011db47';
const credentials = ['client', 'client-secret'] as const;

const SHAPES: readonly (readonly [
  provider: OAuthProvider,
  raw: Record<string, unknown>,
  user: readonly [
    subject: string,
    email: string | null,
    isVerified: boolean,
    name: string | null,
    picture: string | null,
  ],
])[] = [
  [
    discordProvider(...credentials),
    {
      id: '80351110224678912',
      username: 'nelly',
      global_name: 'Nelly',
      avatar: '8342729096ea3675442027381ff50dfe',
      discriminator: '0',
      verified: true,
      email: 'nelly@example.test',
      locale: 'en-US',
    },
    [
      '80351110224678912',
      'nelly@example.test',
      true,
      'Nelly',
      'https://cdn.discordapp.com/avatars/80351110224678912/8342729096ea3675442027381ff50dfe.png',
    ],
  ],
  [
    discordProvider(...credentials),
    { id: '1', username: 'n', global_name: null, avatar: null, verified: false, email: 'n@example.test' },
    ['1', 'n@example.test', false, 'n', null],
  ],
  [
    facebookProvider(...credentials),
    {
      id: '10159999999999999',
      name: 'Ada Lovelace',
      email: 'ada@example.test',
      picture: {
        data: { height: 50, is_silhouette: false, url: 'https://platform.example/p.jpg', width: 50 },
      },
    },
    ['10159999999999999', 'ada@example.test', false, 'Ada Lovelace', 'https://platform.example/p.jpg'],
  ],
  [facebookProvider(...credentials), { id: '2', name: 'A' }, ['2', null, false, 'A', null]],
  [
    xProvider(...credentials),
    {
      data: {
        id: '2244994945',
        name: 'X Dev',
        username: 'XDevelopers',
        profile_image_url: 'https://pbs.example/x.jpg',
        confirmed_email: 'dev@example.test',
      },
    },
    ['2244994945', 'dev@example.test', true, 'X Dev', 'https://pbs.example/x.jpg'],
  ],
  [xProvider(...credentials), { data: { id: '5', name: 'N', username: 'n' } }, ['5', null, false, 'N', null]],
  [
    spotifyProvider(...credentials),
    {
      country: 'SE',
      display_name: 'JM Wizzler',
      email: 'jm@example.test',
      id: 'wizzler',
      images: [{ height: null, url: 'https://i.example/1', width: null }],
      product: 'premium',
      type: 'user',
    },
    ['wizzler', 'jm@example.test', false, 'JM Wizzler', 'https://i.example/1'],
  ],
  [
    spotifyProvider(...credentials),
    { id: 's', display_name: null, images: [] },
    ['s', null, false, null, null],
  ],
  [
    twitchProvider(...credentials),
    {
      aud: 'client',
      exp: 1,
      iat: 1,
      iss: 'https://id.twitch.tv/oauth2',
      sub: '713936733',
      preferred_username: 'Ada',
      email: 'ada@example.test',
      email_verified: true,
      picture: 'https://static.example/p.png',
    },
    ['713936733', 'ada@example.test', true, 'Ada', 'https://static.example/p.png'],
  ],
  [
    gitlabProvider(...credentials),
    {
      sub: '1234',
      name: 'Ada',
      nickname: 'ada',
      email: 'ada@example.test',
      email_verified: true,
      picture: 'https://g.example/a',
      groups: [],
    },
    ['1234', 'ada@example.test', true, 'Ada', 'https://g.example/a'],
  ],
  [
    linkedinProvider(...credentials),
    {
      sub: '782bbtaQ',
      name: 'John Doe',
      given_name: 'John',
      family_name: 'Doe',
      picture: 'https://media.example/j',
      locale: { country: 'US', language: 'en' },
      email: 'doe@example.test',
      email_verified: 'true',
    },
    ['782bbtaQ', 'doe@example.test', true, 'John Doe', 'https://media.example/j'],
  ],
  [
    slackProvider(...credentials),
    {
      ok: true,
      sub: 'U0R7JM',
      'https://slack.com/user_id': 'U0R7JM',
      'https://slack.com/team_id': 'T0R7GR',
      email: 'krane@example.test',
      email_verified: true,
      name: 'krane',
      picture: 'https://secure.example/s',
    },
    ['U0R7JM', 'krane@example.test', true, 'krane', 'https://secure.example/s'],
  ],
  [
    microsoftProvider('common', ...credentials),
    {
      sub: 'OLu859SGc2Sr9ZsqbkG-QbeLgJlb41KcdiPoLYNpSFA',
      name: 'Mikah',
      tid: TENANT,
      oid: '3e',
      email: 'mikah@example.test',
      picture: 'https://graph.microsoft.com/v1.0/me/photo/$value',
    },
    ['OLu859SGc2Sr9ZsqbkG-QbeLgJlb41KcdiPoLYNpSFA', 'mikah@example.test', false, 'Mikah', null],
  ],
  [
    microsoftProvider(TENANT, ...credentials),
    { sub: 's', email: 'm@example.test', xms_edov: true },
    ['s', 'm@example.test', true, null, null],
  ],
  [
    cognitoProvider('eu-central-1_AbCdEfGhI', ...credentials),
    { sub: '248289761001', email_verified: 'true', email: 'c@example.test', username: 'c' },
    ['248289761001', 'c@example.test', true, null, null],
  ],
];

for (const [provider, raw, [subject, email, emailVerified, name, picture]] of SHAPES) {
  test(`the provider preset "${provider.name}" maps its recorded user-info response to the user with the subject "${subject}"`, () => {
    const user = userInfoOf(settingsOf(provider).mapUser(raw), raw);
    assert.deepEqual({ ...user, raw }, { subject, email, emailVerified, name, picture, raw });
  });
}

test('provider presets with an address or tenant as argument compute the issuer from this argument, and refuse invalid values', () => {
  const issuers = [
    [auth0Provider('tenant.eu.auth0.com', ...credentials), 'https://tenant.eu.auth0.com/'],
    [keycloakProvider('https://id.example', 'staff', ...credentials), 'https://id.example/realms/staff'],
    [
      keycloakProvider('https://id.example/auth/', 'my staff', ...credentials),
      'https://id.example/auth/realms/my%20staff',
    ],
    [oktaProvider('dev-1.okta.com', ...credentials), 'https://dev-1.okta.com/oauth2/default'],
    [oktaProvider('dev-1.okta.com', ...credentials, { server: '' }), 'https://dev-1.okta.com'],
    [
      cognitoProvider('us-gov-west-1_AbC', ...credentials),
      'https://cognito-idp.us-gov-west-1.amazonaws.com/us-gov-west-1_AbC',
    ],
    [oidcProvider('https://login.example/x', ...credentials, { name: 'work' }), 'https://login.example/x'],
    [microsoftProvider('common', ...credentials), 'https://login.microsoftonline.com/{tenantid}/v2.0'],
    [microsoftProvider(TENANT, ...credentials), `https://login.microsoftonline.com/${TENANT}/v2.0`],
    [
      microsoftProvider('consumers', ...credentials),
      'https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0',
    ],
    [gitlabProvider(...credentials, { issuer: 'https://git.example' }), 'https://git.example'],
  ] as const;
  for (const [provider, issuer] of issuers) assert.equal(provider.issuer, issuer);
  for (const wrong of [
    () => auth0Provider('https://tenant.eu.auth0.com', ...credentials),
    () => oktaProvider('evil.example/x', ...credentials),
    () => cognitoProvider('AbC', ...credentials),
    () => microsoftProvider('contoso', ...credentials),
    () => microsoftProvider(TENANT.toUpperCase(), ...credentials),
    () => keycloakProvider('http://id.example', 'staff', ...credentials),
    () => discordProvider('', 'secret'),
  ])
    assert.throws(wrong, { code: 'E_OAUTH_PROVIDER' });
});

test('appleProvider() creates a client-secret function that signs a new JWT at each call, valid for five minutes', () => {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
  const key = { teamId: 'A1B2C3D4E5', keyId: 'F6G7H8I9J0', privateKey: pem };
  const provider = appleProvider('com.example.web', key);
  const { clientSecret, acceptsPostedName, authorizeParams } = settingsOf(provider);
  assert.ok(typeof clientSecret === 'function');
  const [head, payload, signature] = clientSecret(1_000).split('.') as [string, string, string];
  const read = (part: string): unknown => JSON.parse(Buffer.from(part, 'base64url').toString());
  assert.deepEqual(read(head), { alg: 'ES256', kid: 'F6G7H8I9J0' });
  assert.deepEqual(read(payload), {
    iss: 'A1B2C3D4E5',
    iat: 1_000,
    exp: 1_300,
    aud: 'https://appleid.apple.com',
    sub: 'com.example.web',
  });
  assert.ok(
    verify(
      'sha256',
      Buffer.from(`${head}.${payload}`),
      { key: createPublicKey(publicKey.export({ type: 'spki', format: 'pem' })), dsaEncoding: 'ieee-p1363' },
      Buffer.from(signature, 'base64url'),
    ),
  );
  assert.deepEqual([acceptsPostedName, authorizeParams], [true, { response_mode: 'form_post' }]);
  const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey;
  for (const bad of [
    { ...key, teamId: 'short' },
    { ...key, keyId: 'lower12345' },
    { ...key, privateKey: 'nothing' },
    { ...key, privateKey: p384.export({ type: 'pkcs8', format: 'pem' }) as string },
  ])
    assert.throws(
      () => appleProvider('com.example.web', bad),
      (error: Error & { code?: string }) => {
        assert.equal(error.code, 'E_OAUTH_PROVIDER');
        assert.ok(!String(error.stack).includes('PRIVATE KEY'));
        return true;
      },
    );
});

test('OAuthProvider calls the function clientSecret for each token request, and a login fails with provider_error if this function throws', async () => {
  let fails = false;
  const asked: number[] = [];
  await using site = await LoginSite.open({
    provider: {
      clientSecret: (nowSeconds) => {
        if (fails) throw new Error('no key');
        return `made-${asked.push(nowSeconds)}`;
      },
    },
  });
  await site.login();
  await site.login();
  assert.deepEqual(
    site.fake.requests
      .filter(({ endpoint }) => endpoint === 'token')
      .map(({ form }) => form.get('client_secret')),
    ['made-1', 'made-2'],
  );
  fails = true;
  const { state } = await site.begin();
  assert.equal((await site.back({ code: 'c', state })).status, 502);
  assert.equal(site.audited('provider_error').at(-1)?.['reason'], 'client_secret');
});

/** Returns options of an OpenID provider on the fake server. */
const openId = (fake: FakeProvider): Record<string, unknown> => ({
  issuer: fake.url,
  allowInsecure: true,
  authorizeUrl: `${fake.url}/authorize`,
  tokenUrl: `${fake.url}/token`,
  jwksUrl: `${fake.url}/jwks`,
  userinfoUrl: `${fake.url}/userinfo`,
});

test('OAuthProvider with usesNonce: false and usesPkce: false sends neither nonce nor PKCE challenge, and svc check reports both options', async () => {
  await using fake = await FakeProvider.start();
  const provider = linkedinProvider('client', 'secret', openId(fake));
  const clock = new ManualClock();
  const client = new ProviderClient(provider, { clock, log: collectedLog().logger });
  const url = new URL(
    await client.authorizationUrl({ redirectUri: 'r', state: 's', challenge: 'c', nonce: 'n' }),
  );
  for (const name of ['nonce', 'code_challenge', 'code_challenge_method'])
    assert.equal(url.searchParams.has(name), false, name);
  fake.claims = { nonce: undefined, aud: 'client' };
  const { info } = await client.identify({ code: 'c', redirectUri: 'r', verifier: 'v', nonce: 'n' });
  assert.equal(info.subject, 'ada');
  assert.equal(fake.requests.find(({ endpoint }) => endpoint === 'token')!.form.has('code_verifier'), false);
  client.close();
  const weak = (one: OAuthProvider): string[] => {
    const app = new Svc({ authSecret: SECRET, env: 'test', logger: collectedLog().logger });
    app.register(new OAuthPlugin({ provider: one, onUser: () => 'ada' }));
    return app
      .check()
      .findings.filter(({ rule }) => rule === 'oauth/weak-provider')
      .map(({ severity, message }) => `${severity} ${message.split(':')[0]}`);
  };
  assert.deepEqual(weak(provider), [
    'warning provider "linkedin" has no nonce',
    'warning provider "linkedin" has no PKCE',
  ]);
  assert.deepEqual(weak(slackProvider(...credentials)), []);
  assert.deepEqual(weak(discordProvider(...credentials, { clientIdName: 'client_key' })), [
    'warning provider "discord" calls client_id "client_key", which is not OAuth 2.0',
  ]);
  assert.deepEqual(
    weak(oidcProvider('https://id.example', 'client', 's'.repeat(32), { idTokenAlgorithms: ['HS256'] })),
    ['warning provider "oidc" signs id_tokens with the client secret'],
  );
});

test('with HS256, OAuthProvider verifies id_tokens with the client secret, allows no other algorithm, and needs a secret of 32 bytes', async () => {
  await using fake = await FakeProvider.start();
  const secret = 'a-client-secret-of-32-characters';
  const provider = oidcProvider(fake.url, 'client', secret, {
    ...openId(fake),
    idTokenAlgorithms: ['HS256'],
    jwksUrl: undefined, // without a URL for keys: the client secret is the key
  });
  const client = new ProviderClient(provider, { clock: new ManualClock(), log: collectedLog().logger });
  const { createHmac } = await import('node:crypto');
  const signed = (key: string, alg = 'HS256'): string => {
    const claims = {
      iss: fake.url,
      aud: 'client',
      sub: 'ada',
      nonce: 'n',
      iat: 1_704_067_200,
      exp: 1_704_067_300,
    };
    const text = [{ alg }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    return `${text}.${createHmac('sha256', key).update(text).digest('base64url')}`;
  };
  const login = (idToken: string): Promise<unknown> => {
    fake.failNext('token', { body: { access_token: 'a', token_type: 'bearer', id_token: idToken } });
    return client.identify({ code: 'c', redirectUri: 'r', verifier: 'v', nonce: 'n' });
  };
  await login(signed(secret));
  for (const [token, reason] of [
    [signed(`${secret}x`), 'id_token_signature'],
    [signed('client-secret'), 'id_token_signature'],
    [`${signed(secret).slice(0, -4)}AAAA`, 'id_token_signature'],
    [signed(secret, 'none'), 'id_token_alg'],
    [jws({ alg: 'RS256', kid: 'rsa' }, {}), 'id_token_alg'],
  ] as const)
    await assert.rejects(login(token), { reason });
  client.close();
  for (const [given, options] of [
    [secret, { idTokenAlgorithms: ['HS256', 'RS256'] }],
    ['short', { idTokenAlgorithms: ['HS256'] }],
    [secret, { clientIdName: 'state' }],
    [secret, { clientIdName: 'A b' }],
  ] as const)
    assert.throws(() => oidcProvider('https://id.example', 'client', given, options as never), {
      code: 'E_OAUTH_PROVIDER',
    });
});

test('OAuthProvider with clientIdName uses this parameter name instead of client_id in the authorization URL and the token request', async () => {
  await using site = await LoginSite.open({ provider: { clientIdName: 'client_key' } });
  const { page, state } = await site.begin();
  assert.deepEqual(
    [page.searchParams.get('client_key'), page.searchParams.has('client_id')],
    ['client', false],
  );
  await site.back({ code: 'c', state });
  const { form } = site.fake.requests[0]!;
  assert.deepEqual([form.get('client_key'), form.has('client_id')], ['client', false]);
});

test('OAuthProvider accepts a token response whose scope is a list, as Twitch sends it', () => {
  const answer = {
    status: 200,
    mediaType: 'application/json',
    isPrivate: false,
    body: Buffer.from(
      '{"access_token":"rf","expires_in":14124,"id_token":"eyJ","refresh_token":"5b","scope":["openid","user:read:email"],"token_type":"bearer"}',
    ),
  };
  const read = readTokenAnswer(answer, { tokenAnswer: 'json', tokenTypes: ['bearer'] });
  assert.equal(read.scope, 'openid user:read:email');
});

test('logoutUrl() names the return address as the provider of each preset does', async () => {
  const metadata = (issuer: string): object => ({
    metadata: {
      issuer,
      authorization_endpoint: 'https://id.example/authorize',
      token_endpoint: 'https://id.example/token',
      jwks_uri: 'https://id.example/jwks',
      end_session_endpoint: 'https://pool.auth.eu-central-1.amazoncognito.com/logout',
    },
  });
  const pool = 'https://cognito-idp.eu-central-1.amazonaws.com/eu-central-1_AbC';
  const known = {
    'https://pool.auth.eu-central-1.amazoncognito.com/logout?client_id=client&logout_uri=x%3A%2F%2Fy&state=s':
      cognitoProvider('eu-central-1_AbC', ...credentials, metadata(pool)),
    'https://tenant.eu.auth0.com/oidc/logout?client_id=client&post_logout_redirect_uri=x%3A%2F%2Fy&state=s':
      auth0Provider('tenant.eu.auth0.com', ...credentials, {
        authorizeUrl: 'https://tenant.eu.auth0.com/authorize',
        tokenUrl: 'https://tenant.eu.auth0.com/oauth/token',
        jwksUrl: 'https://tenant.eu.auth0.com/jwks',
      }),
    [`https://login.microsoftonline.com/${TENANT}/oauth2/v2.0/logout?client_id=client&post_logout_redirect_uri=x%3A%2F%2Fy&state=s`]:
      microsoftProvider(TENANT, ...credentials),
  };
  for (const [url, provider] of Object.entries(known)) {
    const client = new ProviderClient(provider, { clock: new ManualClock(), log: collectedLog().logger });
    const asked = { idToken: undefined, to: 'x://y', state: 's' };
    assert.equal(await client.logoutUrl('https://app.example', asked), url);
    client.close();
  }
  for (const postLogoutName of ['', 'state', 'client_id', 'id_token_hint', 'a b', 'a&b'])
    assert.throws(() => cognitoProvider('eu-central-1_AbC', ...credentials, { postLogoutName }), {
      code: 'E_OAUTH_PROVIDER',
    });
});

test('each preset asks for the scopes that its user needs, and sends its secret as the provider documents', () => {
  assert.deepEqual(
    Object.entries(PRESETS).map(
      ([name, { scopes, clientAuth }]) => `${name} ${clientAuth}: ${scopes?.join(' ')}`,
    ),
    [
      'github post: read:user user:email',
      'google post: openid email profile',
      'apple post: openid name email',
      'gitlab post: openid email profile',
      'discord post: identify email',
      'facebook post: email public_profile',
      'linkedin post: openid profile email',
      'x basic: tweet.read users.read',
      'slack post: openid profile email',
      'twitch post: openid user:read:email',
      'spotify basic: user-read-email',
    ],
  );
});
