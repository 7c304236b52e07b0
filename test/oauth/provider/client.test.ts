import assert from 'node:assert/strict';
import { generateKeyPairSync, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { ProviderClient } from '../../../src/oauth/provider/client.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { OAuthProvider, githubProvider } from '../../../src/oauth/provider/presets.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { FakeTracer } from '../../support/fake-tracer.ts';
import { FakeProvider, RSA, challengeOf, jwk } from '../support/fake-provider.ts';
import type { OAuthProviderOptions } from '../../../src/oauth/provider/presets.ts';

type Identification = Parameters<ProviderClient['identify']>[0];
type Identified = Awaited<ReturnType<ProviderClient['identify']>>;

const CALLBACK = 'https://app.test/oauth/callback';
const ASKED = { redirectUri: CALLBACK, state: 'state-1', challenge: challengeOf('verifier'), nonce: 'n-1' };
const RETURNED: Identification = {
  code: 'code-1',
  redirectUri: CALLBACK,
  verifier: 'verifier-secret',
  nonce: 'n-1',
};

interface ClientFixture {
  readonly client: ProviderClient;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
}

/** Returns a client for the fake provider with OpenID Connect and discovery. */
function openId(
  fake: FakeProvider,
  options: Partial<OAuthProviderOptions> = {},
  tracer?: FakeTracer,
): ClientFixture {
  return client(
    new OAuthProvider({
      name: 'own',
      clientId: 'client',
      clientSecret: 'client-secret',
      issuer: fake.url,
      allowInsecure: true,
      ...options,
    }),
    tracer,
  );
}

/** Returns a client for the fake provider with plain OAuth 2.0. */
function plain(fake: FakeProvider, options: Partial<OAuthProviderOptions> = {}): ClientFixture {
  return client(
    new OAuthProvider({
      name: 'own',
      clientId: 'client',
      clientSecret: 'client-secret',
      authorizeUrl: `${fake.url}/authorize`,
      tokenUrl: `${fake.url}/token`,
      userinfoUrl: `${fake.url}/userinfo`,
      allowInsecure: true,
      ...options,
    }),
  );
}

function client(provider: OAuthProvider, tracer?: FakeTracer): ClientFixture {
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  return {
    client: new ProviderClient(provider, {
      clock,
      log: logger,
      metrics: createMetrics({ log: logger }),
      tracer,
    }),
    clock,
    events,
  };
}

const failure =
  (reason: string | RegExp, code = 'provider_error') =>
  (error: unknown): boolean => {
    assert.ok(error instanceof ProviderFault, String(error));
    assert.equal(error.code, code, error.reason);
    if (typeof reason === 'string') assert.equal(error.reason, reason);
    else assert.match(error.reason, reason);
    return true;
  };

async function refused(
  client: ProviderClient,
  reason: string | RegExp,
  input: Partial<Identification> = {},
): Promise<void> {
  await assert.rejects(client.identify({ ...RETURNED, ...input }), failure(reason));
}

// ── the authorization URL ──

test('authorizationUrl() contains every parameter once, and contains a nonce if the scopes contain openid', async () => {
  await using fake = await FakeProvider.start();
  const url = new URL(await openId(fake).client.authorizationUrl(ASKED));
  assert.equal(url.origin + url.pathname, `${fake.url}/authorize`);
  assert.deepEqual(Object.fromEntries(url.searchParams), {
    response_type: 'code',
    client_id: 'client',
    redirect_uri: CALLBACK,
    scope: 'openid email profile',
    state: 'state-1',
    code_challenge: ASKED.challenge,
    code_challenge_method: 'S256',
    nonce: 'n-1',
  });
  assert.equal(url.searchParams.size, 8);
  assert.match(url.searchParams.get('code_challenge')!, /^[\w-]{43}$/);
  assert.match(url.href, /scope=openid%20email%20profile/);
});

test('authorizationUrl() contains a nonce only with the scope openid, and a scope parameter only if scopes are configured', () => {
  const url = new URL(
    plain({ url: 'https://own.test' } as FakeProvider).client.authorizationUrl({
      ...ASKED,
      nonce: undefined,
    }) as string,
  );
  assert.deepEqual(
    [...url.searchParams.keys()],
    ['response_type', 'client_id', 'redirect_uri', 'state', 'code_challenge', 'code_challenge_method'],
  );
  const scoped = plain({ url: 'https://own.test' } as FakeProvider).client.authorizationUrl({
    ...ASKED,
    nonce: 'unused',
    scopes: ['a', 'openid', 'b'],
  }) as string;
  assert.deepEqual(
    [new URL(scoped).searchParams.get('scope'), new URL(scoped).searchParams.get('nonce')],
    ['a b', null],
  );
});

test('authorizationUrl() keeps the scope openid when a login asks for fewer scopes, and throws if the caller gives no nonce', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  assert.equal(
    new URL(await client.authorizationUrl({ ...ASKED, scopes: ['email'] })).searchParams.get('scope'),
    'openid email',
  );
  await assert.rejects(async () => client.authorizationUrl({ ...ASKED, nonce: undefined }), TypeError);
});

test('authorizationUrl() contains neither the client secret nor the code verifier, and ignores extra parameters outside its allowlist', () => {
  const extra = {
    login_hint: 'ada@example.test',
    prompt: 'login',
    max_age: '60',
    ui_locales: 'de',
    client_secret: 'x',
    code_verifier: 'y',
    state: 'evil',
    redirect_uri: 'https://evil.test',
    claims: '{}',
    request: 'jwt',
  };
  const text = plain({ url: 'https://own.test' } as FakeProvider).client.authorizationUrl({
    ...ASKED,
    extra,
  }) as string;
  for (const hidden of ['client-secret', 'client_secret', 'verifier', 'evil', 'request='])
    assert.ok(!text.includes(hidden), hidden);
  assert.deepEqual([...new URL(text).searchParams.keys()].slice(6), [
    'login_hint',
    'prompt',
    'max_age',
    'ui_locales',
  ]);
  assert.equal(new URL(text).searchParams.get('state'), 'state-1');
});

test('authorizationUrl() keeps the query of the configured endpoint, and contains no parameter twice', () => {
  const { client } = plain({ url: 'https://own.test' } as FakeProvider, {
    authorizeUrl:
      'https://own.test/authorize?tenant=a%20b&prompt=consent&response_type=token&flag&state=x&path=/a?b&audience=q',
    authorizeParams: { access_type: 'online', audience: 'own' },
  });
  const text = client.authorizationUrl({ ...ASKED, extra: { prompt: 'none', login_hint: 'ada' } }) as string;
  assert.ok(
    text.startsWith(
      'https://own.test/authorize?tenant=a%20b&prompt=consent&flag&path=/a?b&audience=q&response_type=code&',
    ),
    text,
  );
  const names = [...new URL(text).searchParams.keys()];
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(
    ['prompt', 'state', 'access_type', 'audience', 'login_hint'].map((name) =>
      new URL(text).searchParams.get(name),
    ),
    ['consent', 'state-1', 'online', 'q', 'ada'],
  );
});

test('authorizationUrl() contains the given state, nonce and PKCE challenge', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  const seen = new Set<string>();
  for (let login = 0; login < 100; login++) {
    const [state, nonce, verifier] = [
      randomBytes(32).toString('base64url'),
      randomBytes(16).toString('base64url'),
      randomBytes(32).toString('base64url'),
    ];
    const { searchParams } = new URL(
      await client.authorizationUrl({ ...ASKED, state, nonce, challenge: challengeOf(verifier) }),
    );
    assert.deepEqual([searchParams.get('state'), searchParams.get('nonce')], [state, nonce]);
    for (const name of ['state', 'nonce', 'code_challenge']) seen.add(searchParams.get(name)!);
  }
  assert.equal(seen.size, 300);
  assert.equal(fake.count('discovery'), 1);
});

// ── iss ──

test("checkIssuer() refuses a wrong iss without calling the provider, and refuses a missing iss if the provider's metadata announce iss", async () => {
  await using fake = await FakeProvider.start();
  fake.metadata = { authorization_response_iss_parameter_supported: true };
  const { client } = openId(fake);
  for (const iss of ['https://evil.test', `${fake.url}/`, fake.url.toUpperCase(), ''])
    await assert.rejects(client.checkIssuer(iss), failure('iss_differs', 'issuer_mismatch'));
  await client.checkIssuer(fake.url);
  assert.equal(fake.count(), 0);
  await assert.rejects(client.checkIssuer(undefined), failure('iss_missing', 'issuer_mismatch'));
  assert.equal(fake.count('token'), 0);
});

test('checkIssuer() accepts a missing iss if the metadata do not announce iss, and accepts any iss if no issuer is configured', async () => {
  await using fake = await FakeProvider.start();
  await openId(fake).client.checkIssuer(undefined);
  await plain(fake).client.checkIssuer(undefined);
  await plain(fake).client.checkIssuer('https://anything.test');
  const github = client(githubProvider('id', 'secret')).client;
  await github.checkIssuer(undefined);
  await github.checkIssuer('https://github.com/login/oauth');
  await assert.rejects(github.checkIssuer('https://github.com'), failure('iss_differs', 'issuer_mismatch'));
});

test('checkIssuer() accepts the iss of every allowed tenant if the configured issuer contains the placeholder {tenantid}', async () => {
  const id = '9188040d-6c67-4c5b-b112-36a304b66dad';
  const provider = (tenants?: readonly string[]): ProviderClient =>
    client(
      new OAuthProvider({
        name: 'own',
        clientId: 'c',
        clientSecret: 's',
        issuer: 'https://login.test/{tenantid}/v2.0',
        discoveryUrl: 'https://login.test/common/v2.0/.well-known/openid-configuration',
        tenants,
      }),
    ).client;
  await provider().checkIssuer(`https://login.test/${id}/v2.0`);
  await provider([id]).checkIssuer(`https://login.test/${id}/v2.0`);
  for (const iss of [
    'https://login.test/common/v2.0',
    'https://login.test//v2.0',
    'x',
    `https://evil.test/${id}/v2.0`,
  ])
    await assert.rejects(provider().checkIssuer(iss), failure('iss_differs', 'issuer_mismatch'), iss);
  await assert.rejects(
    provider(['00000000-0000-0000-0000-000000000000']).checkIssuer(`https://login.test/${id}/v2.0`),
    ProviderFault,
  );
});

// ── the code exchange ──

test('identify() posts the code, redirect_uri and code verifier as a form, with the client credentials in the form only', async () => {
  await using fake = await FakeProvider.start();
  await openId(fake).client.identify(RETURNED);
  const token = fake.requests.find(({ endpoint }) => endpoint === 'token')!;
  assert.deepEqual(
    [token.method, token.headers['content-type'], token.headers['authorization']],
    ['POST', 'application/x-www-form-urlencoded', undefined],
  );
  assert.deepEqual(Object.fromEntries(token.form), {
    grant_type: 'authorization_code',
    code: 'code-1',
    redirect_uri: CALLBACK,
    code_verifier: 'verifier-secret',
    client_id: 'client',
    client_secret: 'client-secret',
  });
  assert.deepEqual(
    fake.requests.map(({ endpoint }) => endpoint),
    ['discovery', 'token', 'jwks', 'userinfo'],
  );
  assert.equal(token.form.size, 6);
});

test('with clientAuth "basic", identify() sends the form-encoded client id and secret in the Authorization header only', async () => {
  await using fake = await FakeProvider.start();
  fake.user = { sub: 'ada' };
  await plain(fake, { clientAuth: 'basic', clientId: 'cli:ent', clientSecret: 's%+&\u00e4' }).client.identify(
    RETURNED,
  );
  const { headers, form } = fake.requests[0]!;
  assert.equal(
    headers['authorization'],
    `Basic ${Buffer.from('cli%3Aent:s%25%2B%26%C3%A4').toString('base64')}`,
  );
  assert.deepEqual([...form.keys()], ['grant_type', 'code', 'redirect_uri', 'code_verifier']);
});

test('identify() uses the client authentication method of the metadata unless clientAuth is set, and sends no secret for a public client', async () => {
  await using fake = await FakeProvider.start();
  fake.metadata = { token_endpoint_auth_methods_supported: ['client_secret_basic'] };
  await openId(fake).client.identify(RETURNED);
  await openId(fake, { clientAuth: 'post' }).client.identify(RETURNED);
  await openId(fake, { clientAuth: 'none', clientSecret: undefined }).client.identify(RETURNED);
  const tokens = fake.requests.filter(({ endpoint }) => endpoint === 'token');
  assert.deepEqual(
    tokens.map(({ headers, form }) => [
      headers['authorization'] !== undefined,
      form.has('client_id'),
      form.has('client_secret'),
    ]),
    [
      [true, false, false],
      [false, true, true],
      [false, true, false],
    ],
  );
});

test('identify() returns the user and the tokens, and neither the log nor inspect() of the client shows a secret', async () => {
  await using fake = await FakeProvider.start();
  const { client, events } = openId(fake);
  fake.failNext('token', {
    body: {
      access_token: 'secret-access',
      token_type: 'bearer',
      expires_in: '3600',
      refresh_token: 'secret-refresh',
      scope: 'openid',
      id_token: fake.idToken({ hd: 'example.test' }),
    },
  });
  const { info, tokens } = await client.identify(RETURNED);
  assert.deepEqual(
    { ...info, raw: undefined },
    {
      subject: 'ada',
      email: 'ada@example.test',
      emailVerified: true,
      name: 'Ada Lovelace',
      picture: 'https://example.test/ada.png',
      raw: undefined,
    },
  );
  assert.equal(info.raw['hd'], 'example.test');
  assert.deepEqual(
    [tokens.accessToken, tokens.refreshToken, tokens.expiresInSeconds, tokens.scope],
    ['secret-access', 'secret-refresh', 3600, 'openid'],
  );
  assert.equal(
    fake.requests.find(({ endpoint }) => endpoint === 'userinfo')?.headers['authorization'],
    'Bearer secret-access',
  );
  const text = JSON.stringify(events) + inspect(client, { depth: 9, showHidden: true });
  for (const secret of ['secret', 'code-1', 'verifier', 'eyJ', 'n-1'])
    assert.ok(!text.includes(secret), secret);
  assert.deepEqual(
    events.map(({ event, provider, call }) => [event, provider, call]),
    ['discovery', 'token', 'jwks', 'userinfo'].map((call) => ['provider_call', 'own', call]),
  );
});

test('identify() fails if the token endpoint answers 200 with an error', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  fake.failNext('token', {
    body: {
      error: 'bad_verification_code',
      error_description: 'The code is expired',
      access_token: 'at',
      token_type: 'bearer',
    },
  });
  await refused(client, 'token_error_bad_verification_code');
  fake.failNext('token', { body: { error: { a: 1 } } });
  await refused(client, 'token_error_odd');
  fake.failNext('token', { body: { error: `x\r\n\u001b[31m${'y'.repeat(500)}` } });
  await refused(client, /^token_error_x\?\?\?\[31my{32}$/);
  assert.equal(fake.count('userinfo'), 0);
});

test('identify() refuses a token response that has no usable access_token or has an unknown token_type', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  for (const access_token of [
    undefined,
    null,
    5,
    '',
    {},
    ['a'],
    'a b',
    'a\r\nx: y',
    '\u00e4',
    'x'.repeat(16_385),
  ]) {
    fake.failNext('token', { body: { access_token, token_type: 'bearer' } });
    await refused(client, 'token_access_token');
  }
  for (const token_type of [undefined, null, 'mac', 5, 'bearer ', '']) {
    fake.failNext('token', { body: { access_token: 'at', token_type } });
    await refused(client, 'token_type');
  }
  fake.failNext('token', { body: { access_token: 'at', token_type: 'bearer', id_token: 5 } });
  await refused(client, 'token_id_token');
  assert.equal(fake.count('userinfo'), 0);
  for (const token_type of ['bearer', 'Bearer', 'BEARER']) {
    fake.failNext('token', {
      body: { access_token: 'at', token_type, expires_in: 'soon', refresh_token: '', scope: 5 },
    });
    assert.deepEqual((await client.identify(RETURNED)).tokens, { accessToken: 'at' });
  }
  fake.failNext('token', { body: { access_token: 'at', token_type: 'N_A' } });
  assert.equal((await plain(fake, { tokenTypes: ['n_a'] }).client.identify(RETURNED)).info.subject, 'ada');
});

test('identify() treats a null member of a token response as absent', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  fake.failNext('token', {
    body: {
      access_token: 'at',
      token_type: 'bearer',
      error: null,
      error_description: null,
      id_token: null,
      refresh_token: null,
      expires_in: null,
      scope: null,
    },
  });
  assert.deepEqual((await client.identify(RETURNED)).tokens, { accessToken: 'at' });
});

test('identify() refuses a token response that is not JSON, unless it is form-encoded and the option tokenAnswer is "form"', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  const form = {
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    body: 'access_token=at&token_type=bearer&scope=a',
  };
  const wrong: readonly (readonly [scripted: Parameters<FakeProvider['failNext']>[1], reason: string])[] = [
    [form, 'token_media_type'],
    [{ headers: { 'content-type': 'text/html' }, body: '{}' }, 'token_media_type'],
    [{ headers: { 'content-type': '' }, body: '{}' }, 'token_media_type'],
    [{ body: 'access_token=at' }, 'token_not_json'],
    [{ body: '[]' }, 'token_not_object'],
    [{ body: 'null' }, 'token_not_object'],
    [{ body: Buffer.from([0x22, 0xff, 0x22]) }, 'token_not_json'],
    [{ body: '' }, 'token_not_json'],
    [{ body: '{"access_token":"a","access_token":"b","token_type":"bearer"}' }, 'token_ambiguous_json'],
    [{ status: 400, body: { error: 'invalid_grant' } }, 'token_status_400_invalid_grant'],
    [{ status: 401, body: '<' }, 'token_status_401'],
    [{ status: 500, body: '[]' }, 'token_status_500'],
    [{ status: 503, headers: { 'content-type': 'text/html' }, body: '<p>' }, 'token_status_503'],
    [{ status: 204, body: '' }, 'token_status_204'],
  ];
  for (const [scripted, reason] of wrong) {
    fake.failNext('token', scripted);
    await refused(client, reason);
  }
  const { client: old } = plain(fake, { tokenAnswer: 'form' });
  fake.failNext('token', form);
  assert.deepEqual((await old.identify(RETURNED)).tokens, { accessToken: 'at', scope: 'a' });
  await old.identify(RETURNED); // a provider with tokenAnswer "form" may also send JSON
  fake.failNext('token', { ...form, body: 'access_token=a&access_token=b&token_type=bearer' });
  await refused(old, 'token_repeated_member');
  fake.failNext('token', { ...form, status: 400 });
  await refused(old, 'token_status_400');
  fake.failNext('token', { ...form, body: 'error=bad' });
  await refused(old, 'token_error_bad');
});

test('identify() refuses responses that are too large or have a content encoding, for each endpoint', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  for (const endpoint of ['discovery', 'token', 'jwks', 'userinfo'] as const) {
    fake.failNext(endpoint, { body: `{"a":"${'x'.repeat(1_100_000)}"}` });
    await refused(client, `${endpoint}_too_large`);
  }
  fake.failNext('userinfo', { headers: { 'content-encoding': 'br' } });
  await refused(client, 'userinfo_encoded');
});

test('if an endpoint does not respond, identify() fails with provider_timeout and closes the connection', async () => {
  await using fake = await FakeProvider.start();
  const { client, clock } = plain(fake);
  for (const endpoint of ['token', 'userinfo'] as const) {
    fake.failNext(endpoint, { until: new Promise(() => undefined) });
    const before = fake.count();
    const call = assert.rejects(
      client.identify(RETURNED),
      failure(`${endpoint}_first_byte`, 'provider_timeout'),
    );
    await fake.arrived(before + (endpoint === 'token' ? 1 : 2));
    await clock.advance(10_000);
    await call;
    await fake.left();
  }
  assert.equal(clock.pending, 0);
});

test('identify() does not follow redirects of the token and user-info endpoints, so secrets and tokens reach no other host', async () => {
  await using fake = await FakeProvider.start();
  await using thief = await FakeProvider.start();
  const { client } = plain(fake);
  for (const status of [301, 302, 303, 307, 308]) {
    fake.failNext('token', { status, headers: { location: `${thief.url}/token` } });
    await refused(client, `token_status_${status}`);
    fake.failNext('userinfo', { status, headers: { location: `${thief.url}/userinfo` } });
    await refused(client, `userinfo_status_${status}`);
  }
  assert.equal(thief.count(), 0);
});

// ── the user ──

test('identify() refuses user info that contains an error, is not an object, or has a subject that is not a string', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  for (const [scripted, reason] of [
    [{ status: 401, body: {} }, 'userinfo_status_401'],
    [{ status: 500, body: {} }, 'userinfo_status_500'],
    [{ body: '[]' }, 'userinfo_not_object'],
    [{ body: '{"sub":"ada","sub":"eve"}' }, 'userinfo_ambiguous_json'],
    [{ body: '{"sub":"ada","a":[{"b":1,"\\u0062":2}]}' }, 'userinfo_ambiguous_json'],
    [{ body: '"ada"' }, 'userinfo_not_object'],
    [{ body: {} }, 'user_subject'],
    [{ body: { sub: 5 } }, 'user_subject'],
    [{ body: { sub: '' } }, 'user_subject'],
    [{ body: { sub: 'ada\ud800' } }, 'user_subject'],
    [{ body: { sub: null } }, 'user_subject'],
    [{ body: { id: 5 } }, 'user_subject'],
    [{ headers: { 'content-type': 'application/jwt' }, body: 'a.b.c' }, 'userinfo_media_type'],
  ] as const) {
    fake.failNext('userinfo', scripted);
    await refused(client, reason);
  }
});

test('identify() converts the numeric user id of GitHub to a string, and refuses ids of other types', async () => {
  await using fake = await FakeProvider.start();
  const github = githubOf(fake);
  fake.failNext('userinfo', { body: { id: 583231, login: 'octocat' } });
  assert.equal((await github.identify({ ...RETURNED, nonce: undefined })).info.subject, '583231');
  for (const id of ['583231', 1.5, null]) {
    fake.failNext('userinfo', { body: { id, login: 'octocat' } });
    await refused(github, 'user_subject');
  }
});

test('identify() refuses user info whose subject differs from that of the id_token', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  for (const sub of ['eve', 'Ada', undefined, 5, ['ada']]) {
    fake.user = { sub, email: 'eve@example.test' };
    await refused(client, 'userinfo_sub');
  }
});

test('identify() requires and verifies an id_token if the provider uses openid', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  fake.failNext('token', { body: { access_token: 'at', token_type: 'bearer' } });
  await refused(client, 'id_token_missing');
  await refused(client, 'id_token_nonce', { nonce: 'other' });
  await refused(client, 'id_token_nonce', { nonce: undefined });
  await refused(client, 'id_token_auth_time', { maxAgeSeconds: 60 });
  fake.claims = { at_hash: 'wrong' };
  await refused(client, 'id_token_at_hash');
  fake.claims = { iss: 'https://evil.test' };
  await refused(client, 'id_token_iss');
  assert.equal(fake.count('userinfo'), 0);
  fake.claims = { auth_time: fake.nowSeconds() };
  assert.equal((await client.identify({ ...RETURNED, maxAgeSeconds: 60 })).info.subject, 'ada');
});

test('identify() refuses a login that is older than the max_age in authorizeParams', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake, { authorizeParams: { max_age: '60' } });
  await refused(client, 'id_token_auth_time');
  fake.claims = { auth_time: fake.nowSeconds() - 86_400 };
  await refused(client, 'id_token_auth_time');
  await refused(client, 'id_token_auth_time', { maxAgeSeconds: 100_000 });
  fake.claims = { auth_time: fake.nowSeconds() - 30 };
  assert.equal((await client.identify(RETURNED)).info.subject, 'ada');
});

test('identify() reads the user from the id_token if the provider has no user-info endpoint', async () => {
  await using fake = await FakeProvider.start();
  fake.metadata = { userinfo_endpoint: undefined };
  fake.claims = { email: 'ada@example.test', email_verified: true };
  const { info } = await openId(fake).client.identify(RETURNED);
  assert.deepEqual([info.subject, info.email, info.emailVerified], ['ada', 'ada@example.test', true]);
  assert.equal(fake.count('userinfo'), 0);
});

test('identify() fetches the key set once for many logins, and fetches it again for an unknown key id', async () => {
  await using fake = await FakeProvider.start();
  const { client, clock } = openId(fake);
  await Promise.all(Array.from({ length: 10 }, () => client.identify(RETURNED)));
  assert.equal(fake.count('jwks'), 1);
  const signedWith = (kid: string): void =>
    fake.failNext('token', {
      body: { access_token: 'at', token_type: 'bearer', id_token: fake.idToken({}, kid) },
    });
  fake.keys = [jwk(RSA.publicKey, { kid: 'newer' })];
  signedWith('newer');
  await client.identify(RETURNED);
  assert.equal(fake.count('jwks'), 2);
  for (let index = 0; index < 20; index++) {
    signedWith(`unknown-${index}`);
    await refused(client, 'id_token_signature');
  }
  assert.equal(fake.count('jwks'), 2);
  await clock.advance(60_000);
  signedWith('unknown');
  await refused(client, 'id_token_signature');
  assert.equal(fake.count('jwks'), 3);
});

test('after a wrong signature, identify() fetches the key set again if it is a minute old, and then accepts a replaced key', async () => {
  await using fake = await FakeProvider.start();
  const { client, clock } = openId(fake);
  const before = jwk(generateKeyPairSync('rsa', { modulusLength: 2_048 }).publicKey, { kid: 'rsa' });
  const now = fake.keys;
  fake.keys = [before];
  await refused(client, 'id_token_signature');
  fake.keys = now;
  await refused(client, 'id_token_signature');
  assert.equal(fake.count('jwks'), 1);
  await clock.advance(60_000);
  assert.equal((await client.identify(RETURNED)).info.subject, 'ada');
  await client.identify(RETURNED);
  assert.equal(fake.count('jwks'), 2);
  fake.keys = [before];
  await clock.advance(59_999);
  for (let index = 0; index < 20; index++) {
    fake.failNext('token', {
      body: { access_token: 'at', token_type: 'bearer', id_token: `${fake.idToken().slice(0, -4)}AAAA` },
    });
    await refused(client, 'id_token_signature');
  }
  assert.equal(fake.count('jwks'), 2);
});

test('identify() returns the subject, e-mail (or null), emailVerified, name, picture and raw data', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  const got = async (user: unknown): Promise<unknown> => {
    fake.user = user;
    return { ...(await client.identify(RETURNED)).info };
  };
  assert.deepEqual(await got({ sub: 'a' }), {
    subject: 'a',
    email: null,
    emailVerified: false,
    name: null,
    picture: null,
    raw: { sub: 'a' },
  });
  const user = {
    sub: 'a',
    email: 'a@x.test',
    email_verified: 'true',
    name: 'A',
    picture: 'https://x.test/a.png',
    extra: [1],
  };
  assert.deepEqual(await got(user), {
    subject: 'a',
    email: 'a@x.test',
    emailVerified: false,
    name: 'A',
    picture: 'https://x.test/a.png',
    raw: user,
  });
});

test('identify() uses the option "mapUser", and fails if this function throws or returns no user', async () => {
  await using fake = await FakeProvider.start();
  fake.user = { login: 'ada', mail: 'a@x.test' };
  const mapped = plain(fake, {
    mapUser: (raw) => ({
      subject: raw['login'] as string,
      email: raw['mail'] as string,
      emailVerified: true,
    }),
  });
  assert.deepEqual(
    { ...(await mapped.client.identify(RETURNED)).info, raw: undefined },
    { subject: 'ada', email: 'a@x.test', emailVerified: true, name: null, picture: null, raw: undefined },
  );
  await refused(
    plain(fake, {
      mapUser: () => {
        throw new Error('bug');
      },
    }).client,
    'user_mapping',
  );
  await refused(plain(fake, { mapUser: () => undefined as never }).client, 'user_subject');
});

// ── GitHub's e-mail endpoint ──

function githubOf(fake: FakeProvider): ProviderClient {
  return client(
    githubProvider('client', 'client-secret', {
      issuer: undefined,
      authorizeUrl: `${fake.url}/authorize`,
      tokenUrl: `${fake.url}/token`,
      userinfoUrl: `${fake.url}/userinfo`,
      emailsUrl: `${fake.url}/emails`,
      allowInsecure: true,
    }),
  ).client;
}

async function githubUser(
  fake: FakeProvider,
  emails: Parameters<FakeProvider['failNext']>[1],
): Promise<Identified['info']> {
  fake.failNext('emails', emails);
  return (await githubOf(fake).identify({ ...RETURNED, nonce: undefined })).info;
}

test('identify() takes the primary verified address from the e-mail endpoint of GitHub, and reports the public address as unverified', async () => {
  await using fake = await FakeProvider.start();
  fake.user = { id: 1, login: 'octocat', email: 'public@x.test', avatar_url: 'https://x.test/a.png' };
  const list = (...entries: readonly unknown[]): Parameters<FakeProvider['failNext']>[1] => ({
    body: entries,
  });
  const address = { email: 'a@x.test', primary: true, verified: true };
  const of = async (emails: Parameters<FakeProvider['failNext']>[1]): Promise<unknown> => {
    const info = await githubUser(fake, emails);
    return [info.email, info.emailVerified];
  };
  assert.deepEqual(await of(list({ ...address, email: 'b@x.test', primary: false }, address)), [
    'a@x.test',
    true,
  ]);
  for (const wrong of [
    { ...address, verified: false },
    { ...address, primary: false },
    { ...address, verified: 'true' },
    { ...address, email: 5 },
    null,
    'a@x.test',
  ])
    assert.deepEqual(await of(list(wrong)), ['public@x.test', false]);
  for (const status of [403, 404] as const) {
    fake.failNext('emails', { status, body: {} });
    const { info, emailsStatus } = await githubOf(fake).identify({ ...RETURNED, nonce: undefined });
    assert.deepEqual([info.email, info.emailVerified, emailsStatus], ['public@x.test', false, status]);
  }
  assert.equal(
    fake.requests
      .findLast(({ endpoint }) => endpoint === 'emails')
      ?.headers['authorization']?.startsWith('Bearer at-'),
    true,
  );
});

test('identify() fails if the e-mail endpoint of GitHub fails', async () => {
  await using fake = await FakeProvider.start();
  fake.user = { id: 1, login: 'octocat' };
  await assert.rejects(githubUser(fake, { status: 500, body: [] }), failure('emails_status_500'));
  await assert.rejects(githubUser(fake, { body: {} }), failure('emails_not_list'));
});

// ── start, stop, limits ──

test('ProviderClient.start() runs discovery in the background, and if the provider was unreachable, the next login repeats discovery', async () => {
  await using fake = await FakeProvider.start();
  const { client, events } = openId(fake);
  fake.failNext('discovery', { status: 503, body: {} });
  await client.start(new AbortController().signal);
  await fake.arrived(1);
  while (!events.some(({ event }) => event === 'provider_unreachable'))
    await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    events.filter(({ level }) => level === 'warn').map(({ provider, reason }) => [provider, reason]),
    [['own', 'discovery_status_503']],
  );
  await client.authorizationUrl(ASKED);
  assert.equal(fake.count('discovery'), 2);
  await assert.rejects(client.start(AbortSignal.abort(new Error('stopping'))), /stopping/);
});

test('if discovery fails, identify() and authorizationUrl() fail with the reason of that failure', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake);
  fake.failNext('discovery', { body: { issuer: 'https://evil.test' } });
  await assert.rejects(Promise.resolve(client.authorizationUrl(ASKED)), failure(/^discovery_issuer/));
  fake.failNext('discovery', { status: 404, body: {} });
  await refused(client, 'discovery_status_404');
});

test('identify() fails with temporarily_unavailable when 16 calls are running and 64 calls are queued', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  const go = Promise.withResolvers<void>();
  for (let index = 0; index < 16; index++) fake.failNext('token', { until: go.promise });
  const logins = Array.from({ length: 80 }, () => client.identify(RETURNED));
  await assert.rejects(client.identify(RETURNED), failure('token_queue_full', 'temporarily_unavailable'));
  go.resolve();
  await Promise.allSettled(logins);
});

test('identify() rejects with the reason of its aborted signal, and with temporarily_unavailable if the client is closed', async () => {
  await using fake = await FakeProvider.start();
  const { client } = plain(fake);
  const leaving = new AbortController();
  fake.failNext('token', { until: new Promise(() => undefined) });
  const left = assert.rejects(
    client.identify({ ...RETURNED, signal: leaving.signal }),
    (reason) => reason === 'left',
  );
  await fake.arrived(1);
  leaving.abort('left');
  await left;
  fake.failNext('token', { until: new Promise(() => undefined) });
  const closed = assert.rejects(
    client.identify(RETURNED),
    failure('token_closed', 'temporarily_unavailable'),
  );
  await fake.arrived(2);
  client.close();
  await closed;
  await fake.left();
});

test('identify() and authorizationUrl() use only the configured hosts, whatever values the parameters have', async () => {
  await using fake = await FakeProvider.start();
  await using thief = await FakeProvider.start();
  const evil = `${thief.url}/#@?&\r\nhost: evil.test`;
  const { client } = plain(fake);
  const url = await client.authorizationUrl({
    redirectUri: evil,
    state: evil,
    challenge: evil,
    nonce: evil,
    scopes: [evil],
    extra: { login_hint: evil, prompt: evil },
  });
  assert.equal(new URL(url).origin, fake.url);
  await client.identify({ code: evil, redirectUri: evil, verifier: evil, nonce: evil });
  assert.deepEqual(
    fake.requests.map(({ url: path, headers }) => [path, headers['host']]),
    [
      ['/token', `127.0.0.1:${fake.port}`],
      ['/userinfo', `127.0.0.1:${fake.port}`],
    ],
  );
  assert.equal(fake.requests[0]?.form.get('code'), evil);
  assert.equal(thief.count(), 0);
});

test('if metadata and keys are configured, ProviderClient calls the provider only for logins, not at start-up', async () => {
  await using fake = await FakeProvider.start();
  const { client } = openId(fake, {
    metadata: {
      issuer: fake.url,
      authorization_endpoint: `${fake.url}/authorize`,
      token_endpoint: `${fake.url}/token`,
    },
    jwks: { keys: [jwk(RSA.publicKey, { kid: 'rsa' })] },
  });
  await client.start(new AbortController().signal);
  await client.authorizationUrl(ASKED);
  await client.checkIssuer(undefined);
  assert.equal(fake.count(), 0);
  assert.equal((await client.identify(RETURNED)).info.subject, 'ada');
  assert.deepEqual(
    fake.requests.map(({ endpoint }) => endpoint),
    ['token'],
  );
});

test('ProviderClient records the duration of each call to a provider in one histogram with the labels provider and call', async () => {
  await using fake = await FakeProvider.start();
  const { logger } = collectedLog();
  const metrics = createMetrics({ log: logger });
  const slow = new (class extends ManualClock {
    #reads = 0;
    override monotonicMs(): number {
      return 250 * this.#reads++;
    }
  })();
  const parts = { clock: slow, log: logger, metrics };
  for (const name of ['one', 'two']) {
    const provider = new OAuthProvider({
      name,
      clientId: 'c',
      clientSecret: 's',
      authorizeUrl: `${fake.url}/authorize`,
      tokenUrl: `${fake.url}/token`,
      userinfoUrl: `${fake.url}/userinfo`,
      allowInsecure: true,
    });
    await new ProviderClient(provider, parts).identify(RETURNED);
  }
  const [histogram] = metrics.snapshot().filter(({ name }) => name === 'svc_oauth_provider_seconds');
  assert.deepEqual(
    histogram?.series.map(([labels]) => labels),
    [
      ['one', 'token'],
      ['one', 'userinfo'],
      ['two', 'token'],
      ['two', 'userinfo'],
    ],
  );
  assert.deepEqual(
    [...metrics.render().matchAll(/provider_seconds_sum{.*} (.*)/g)].map(([, seconds]) => seconds),
    ['0.25', '0.25', '0.25', '0.25'],
  );
});

test('with a tracer, each call to the provider has a client span, whose id the provider gets in "traceparent"', async () => {
  await using fake = await FakeProvider.start();
  const tracer = new FakeTracer();
  const it = openId(fake, {}, tracer);
  await it.client.identify(RETURNED);
  fake.failNext('token', { status: 500, body: {} });
  await refused(it.client, /^token_/);
  tracer.assertEnded();
  const calls = fake.requests.map(({ endpoint }) => endpoint);
  assert.deepEqual(calls, ['discovery', 'token', 'jwks', 'userinfo', 'token']);
  assert.equal(tracer.spans.length, calls.length);
  for (const [at, { traceId, spanId }] of tracer.spans.entries())
    assert.equal(fake.requests[at]!.headers['traceparent'], `00-${traceId}-${spanId}-01`);
  const { hostname, port } = new URL(fake.url);
  const usual = { 'server.address': hostname, 'server.port': Number(port) };
  assert.deepEqual(
    tracer.spans.slice(3).map(({ name, kind, attributes }) => [name, kind, attributes]),
    [
      [
        'GET',
        'client',
        {
          'http.request.method': 'GET',
          'url.full': `${fake.url}/userinfo`,
          ...usual,
          'http.response.status_code': 200,
        },
      ],
      [
        'POST',
        'client',
        {
          'http.request.method': 'POST',
          'url.full': `${fake.url}/token`,
          ...usual,
          'http.response.status_code': 500,
          'error.type': '500',
        },
      ],
    ],
  );
  assert.doesNotMatch(JSON.stringify(tracer.spans), /secret|code-1/);
});
