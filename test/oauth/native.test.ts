/**
 * Native clients and single-page applications: a one-time code at their own address, exchanged with their own PKCE verifier (RFC 8252, RFC 7636).
 */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import { OAuthPlugin } from 'svc/oauth';
import { issueOfClientRedirect } from '../../src/oauth/redirects.ts';
import { LoginSite, claimsOf, fakeProvider, leftFor, refusedAs } from './support/site.ts';
import type { OAuthPluginOptions } from 'svc/oauth';
import type { LoginSiteOptions, Tokens } from './support/site.ts';

const VERIFIER = 'dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk'; // RFC 7636 appendix B
const CHALLENGE = 'E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM';
const APP = 'com.example.app:/done';
const REDIRECTS = [APP, 'http://127.0.0.1/done', 'http://[::1]/done?x=1', 'https://spa.example/done'];

const open = (plugin: Partial<OAuthPluginOptions> = {}, options: LoginSiteOptions = {}): Promise<LoginSite> =>
  LoginSite.open({ ...options, plugin: { nativeRedirects: REDIRECTS, scopes: ['read'], ...plugin } });

const asked = (more: Record<string, string> = {}): Record<string, string> => ({
  client_redirect_uri: APP,
  code_challenge: CHALLENGE,
  code_challenge_method: 'S256',
  client_state: 'xyz',
  ...more,
});

/** Returns the address to which the browser is redirected at the end of a login. */
async function returned(
  site: LoginSite,
  more: Record<string, string> = {},
  answer: Record<string, string> = { code: 'c' },
): Promise<URL> {
  const { state } = await site.begin(asked(more));
  const response = await site.back({ ...answer, state });
  assert.equal(response.status, 303, await response.clone().text());
  assert.equal(await response.text(), '', 'no tokens');
  return new URL(response.headers.get('location')!);
}

test("OAuth native client: a provider's form gets a page that goes to the client, because form-action 'self' forbids the redirect", async () => {
  await using site = await open();
  const { state } = await site.begin(asked());
  const headers = { accept: 'text/html' };
  const form = { code: 'c', state, reposted: '1' };
  const url = await leftFor(await site.client.post('/oauth/callback', { headers, form }));
  assert.deepEqual([`${url.protocol}${url.pathname}`, url.searchParams.get('state')], [APP, 'xyz']);
});

const exchange = (site: LoginSite, form: Record<string, string>): Promise<Response> =>
  site.browser().post('/oauth/token', {
    form: {
      grant_type: 'authorization_code',
      code_verifier: VERIFIER,
      client_redirect_uri: APP,
      ...form,
    },
  });

test('OAuth native client: the client gets a code at its own redirect URI, and exchanges the code and the code verifier for tokens', async () => {
  assert.equal(createHash('sha256').update(VERIFIER).digest('base64url'), CHALLENGE);
  await using site = await open({}, { env: 'production' });
  const url = await returned(site);
  assert.deepEqual(
    [`${url.protocol}${url.pathname}`, [...url.searchParams.keys()], url.searchParams.get('state')],
    [APP, ['code', 'state'], 'xyz'],
  );
  assert.deepEqual(await site.oauth.listSessions('user-ada'), [], 'there is no login before the exchange');
  const response = await exchange(site, { code: url.searchParams.get('code')! });
  assert.deepEqual(
    [response.status, response.headers.get('cache-control'), response.headers.getSetCookie()],
    [200, 'no-store', []],
  );
  const tokens = (await response.json()) as Tokens;
  assert.deepEqual([claimsOf(tokens.access_token)['sub'], tokens.scope], ['user-ada', 'read']);
  const next = await site.refreshed(tokens.refresh_token);
  await site.clock.advance(1_000);
  await refusedAs(await site.refresh(tokens.refresh_token), 400, 'invalid_grant');
  await refusedAs(await site.refresh(next.refresh_token), 400, 'invalid_grant');
  assert.deepEqual(
    ['code_issued', 'login_succeeded'].map((event) => site.audited(event).length),
    [1, 1],
  );
});

test('OAuth native client: the provider gets the callback URL of the server, never the redirect URI of the native client', async () => {
  await using site = await open({}, { env: 'production' });
  const { page } = await site.begin(asked());
  assert.equal(page.searchParams.get('redirect_uri'), 'https://app.example/oauth/callback');
  assert.notEqual(page.searchParams.get('code_challenge'), CHALLENGE);
  await refusedAs(
    await site.client.get('/oauth/login', { query: { redirect_uri: APP } }),
    400,
    'invalid_redirect_uri',
  );
});

test('OAuth native client: client_redirect_uri must equal an entry of nativeRedirects byte for byte, except for the port of a loopback address', async () => {
  await using site = await open({ limits: { login: false } });
  for (const uri of [
    ...REDIRECTS,
    'http://127.0.0.1:51004/done',
    'http://[::1]:1/done?x=1',
    'http://127.0.0.1:65535/done',
  ])
    await site.begin(asked({ client_redirect_uri: uri }));
  for (const uri of [
    'com.example.app:/done/',
    'com.example.app:/Done',
    'com.example.app://done',
    'com.evil.app:/done',
    'http://127.0.0.1:0/done',
    'http://127.0.0.1:51004/other',
    'http://127.0.0.1:51004/done?x=1',
    'http://127.0.0.1:51004@evil.example/done',
    'http://127.0.0.1:65536/done',
    'http://[::1]:99999/done?x=1',
    'http://127.0.0.1:080/done',
    'http://127.0.0.1:5100411/done',
    'http://127.0.0.2:51004/done',
    'http://localhost:51004/done',
    'http://0x7f.1:51004/done',
    'https://spa.example:8443/done',
    'https://spa.example.evil/done',
    'http://spa.example/done',
    'javascript:alert(1)',
  ])
    await refusedAs(
      await site.client.get('/oauth/login', { query: asked({ client_redirect_uri: uri }) }),
      400,
      'invalid_redirect_uri',
    );
  await using without = await LoginSite.open();
  await refusedAs(await without.client.get('/oauth/login', { query: asked() }), 400, 'invalid_redirect_uri');
  await refusedAs(
    await without.client.post('/oauth/token', { form: { grant_type: 'authorization_code', code: 'x' } }),
    400,
    'unsupported_grant_type',
  );
});

test('OAuth native client: the constructor refuses the option "nativeRedirects" if an entry is invalid or cookie mode is on', async () => {
  for (const bad of [
    'http://app.example/done',
    'http://localhost/done',
    'http://127.0.0.1:8080/done',
    'http://127.0.0.1',
    'myapp:/done',
    'com.example.app://done',
    'javascript:alert(1)',
    'https://app.example/*',
    'https://app.example/done#x',
    'https://user@app.example/done',
    'https:app.example/done',
    'https://app.example',
    'https://app.example:65536/done',
    'https://app.example:0/done',
    'http://127.0.0.1:99999/done',
    '',
  ]) {
    if (bad !== '') assert.notEqual(issueOfClientRedirect(bad), undefined, bad);
    await assert.rejects(open({ nativeRedirects: [bad] }), { code: 'E_OPTION_RANGE' });
  }
  assert.equal(issueOfClientRedirect('https://[app]/done'), 'is no URL');
  await using fake = await LoginSite.open();
  assert.throws(
    () =>
      new OAuthPlugin({
        provider: fakeProvider(fake.fake),
        onUser: () => 'ada',
        mode: 'cookie',
        nativeRedirects: [APP],
      }),
    { code: 'E_OPTION_RANGE' },
  );
  await using site = await open();
  const found = (one: LoginSite): unknown =>
    one.app.check().findings.filter(({ rule }) => rule === 'oauth/native-redirects').length;
  assert.deepEqual([found(site), found(fake)], [1, 0]);
});

test('OAuth native client: a login without a valid S256 challenge is refused (RFC 7636 §4.3)', async () => {
  await using site = await open();
  for (const change of [
    { code_challenge: '' },
    { code_challenge: 'short' },
    { code_challenge: `${CHALLENGE}x` },
    { code_challenge_method: 'plain' },
    { code_challenge_method: '' },
    { client_state: 'ü' },
    { client_redirect_uri: '' },
  ])
    await refusedAs(await site.client.get('/oauth/login', { query: asked(change) }), 400, 'invalid_request');
});

test('OAuth native client: a code is valid for one minute, and stays valid after a request with a wrong verifier or redirect URI', async () => {
  await using site = await open({ limits: { callback: false } });
  const code = (await returned(site)).searchParams.get('code')!;
  for (const change of [
    { code_verifier: `${VERIFIER}x` },
    { code_verifier: CHALLENGE },
    { code_verifier: 'short' },
    { client_redirect_uri: REDIRECTS[1]! },
    { code: `${code.slice(0, -1)}${code.endsWith('A') ? 'B' : 'A'}` },
    { code: 'x' },
  ])
    await refusedAs(await exchange(site, { code, ...change }), 400, 'invalid_grant');
  for (const missing of ['code', 'code_verifier', 'client_redirect_uri'])
    await refusedAs(await exchange(site, { code, [missing]: '' }), 400, 'invalid_request');
  assert.equal((await exchange(site, { code })).status, 200);
  const late = (await returned(site)).searchParams.get('code')!;
  await site.clock.advance(60_000);
  await refusedAs(await exchange(site, { code: late }), 400, 'invalid_grant');
});

const used = (site: LoginSite): Promise<number> =>
  site.oauth.listSessions('user-ada').then(({ length }) => length);

test('OAuth native client: a second use of a code within ten seconds is refused, and the login lives; a later use ends it (RFC 6749 §4.1.2)', async () => {
  await using site = await open({}, { env: 'production' });
  const code = (await returned(site)).searchParams.get('code')!;
  const tokens = (await (await exchange(site, { code })).json()) as Tokens;
  for (const waitMs of [0, 9_999]) {
    await site.clock.advance(waitMs);
    await refusedAs(await exchange(site, { code }), 400, 'invalid_grant');
    assert.equal(await used(site), 1);
  }
  const { refresh_token: next } = await site.refreshed(tokens.refresh_token);
  await site.clock.advance(1);
  await refusedAs(await exchange(site, { code }), 400, 'invalid_grant');
  assert.equal(await used(site), 0);
  await refusedAs(await site.refresh(next), 400, 'invalid_grant');
  assert.equal(site.audited('token_reuse_detected').length, 1);
  assert.deepEqual(
    site.audited('token_refused').map(({ reason }) => reason),
    ['code_sent_twice', 'code_sent_twice', 'code_used', 'revoked_reuse'],
  );
});

test('OAuth native client: a stolen code without its verifier neither gives tokens nor ends the login, at any time', async () => {
  await using site = await open({ limits: { callback: false } });
  const code = (await returned(site)).searchParams.get('code')!;
  const tries = [
    { code_verifier: `${VERIFIER}x` },
    { code_verifier: CHALLENGE },
    { client_redirect_uri: REDIRECTS[1]! },
  ];
  const steal = async (): Promise<void> => {
    for (const change of tries)
      await refusedAs(await exchange(site, { code, ...change }), 400, 'invalid_grant');
  };
  await steal();
  assert.equal((await exchange(site, { code })).status, 200);
  for (const waitMs of [0, 9_999, 1, 300_000]) {
    await site.clock.advance(waitMs);
    await steal();
    assert.equal(await used(site), 1);
  }
});

test('OAuth native client: if a code is exchanged several times at once, one exchange succeeds, and its login lives', async () => {
  for (const env of ['test', 'production'] as const) {
    await using site = await open({ limits: { callback: false } }, { env });
    for (let round = 0; round < 5; round++) {
      const code = (await returned(site)).searchParams.get('code')!;
      const answers = await Promise.all(Array.from({ length: 8 }, () => exchange(site, { code })));
      const [first, ...others] = answers.filter(({ status }) => status === 200);
      assert.deepEqual(others, []);
      const { refresh_token: token } = (await first!.json()) as Tokens;
      await refusedAs(await exchange(site, { code }), 400, 'invalid_grant');
      await site.refreshed(token);
    }
    assert.deepEqual(site.audited('token_reuse_detected'), []);
  }
});

test("OAuth native client: an error is redirected to the client's redirect URI only in the browser that started the login", async () => {
  await using site = await open({ issuer: 'https://app.example' });
  const cancelled = await returned(site, {}, { error: 'access_denied' });
  assert.deepEqual(Object.fromEntries(cancelled.searchParams), {
    error: 'access_denied',
    state: 'xyz',
    iss: 'https://app.example',
  });
  site.fake.failNext('token', { status: 500 });
  assert.equal((await returned(site)).searchParams.get('error'), 'provider_error');
  const { state } = await site.begin(asked());
  await refusedAs(
    await site.back({ code: 'c', state }, { client: site.browser() }),
    400,
    'state_browser_mismatch',
  );
});

test('OAuth native client: revokeAll() between login and code exchange invalidates the code, and the login sets no session cookie', async () => {
  await using site = await open({}, { hasSession: true });
  const code = (await returned(site)).searchParams.get('code')!;
  assert.equal(site.client.cookies.names().includes('svc_session'), false);
  await site.clock.advance(1_000);
  await site.oauth.revokeAll('user-ada');
  await refusedAs(await exchange(site, { code }), 400, 'access_denied');
});

test('OAuth native client: a single-page application gets its code at its own https redirect URI and exchanges the code for tokens', async () => {
  await using site = await open();
  const uri = REDIRECTS[3]!;
  const url = await returned(site, { client_redirect_uri: uri });
  assert.equal(`${url.origin}${url.pathname}`, uri);
  const response = await exchange(site, {
    code: url.searchParams.get('code')!,
    client_redirect_uri: '',
    redirect_uri: uri, // client libraries send redirect_uri instead of client_redirect_uri
  });
  assert.equal(response.status, 200);
});
