/** Redirect URIs of logins, and the paths that a browser opens after a login. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { RedirectResponse, SessionMiddleware, Svc, localPath } from 'svc';
import { githubProvider, OAuthPlugin, OAuthProvider, oidcProvider } from 'svc/oauth';
import { DevProvider } from 'svc/testing';
import { URLS } from '../../src/oauth/provider/option-types.ts';
import { RedirectAllowlist, issuesOfRedirect } from '../../src/oauth/redirects.ts';
import { LoginSite, refusedAs } from './support/site.ts';

const ENTRY = 'https://app.example/oauth/callback?tenant=a';
const CALLBACK = 'https://app.example/oauth/callback';

test('OAuth login: return_to is accepted in cookie mode only, and only if it is a path of this site', async () => {
  await using site = await LoginSite.open({ plugin: { mode: 'cookie' } });
  for (const bad of [
    '//evil.example',
    '/\\evil.example',
    '\\\\evil.example',
    'https:evil.example',
    'https://evil.example/',
    '/%09/evil.example',
    '/a\tb',
    '/a\nb',
    'javascript:alert(1)',
    'data:text/html,x',
    'evil',
  ]) {
    await refusedAs(
      await site.client.get('/oauth/login', { query: { return_to: bad } }),
      400,
      'invalid_request',
    );
    assert.equal(localPath(bad), undefined);
  }
  const { state } = await site.begin({ return_to: '/path?x#y' });
  const response = await site.back({ code: 'c', state });
  assert.deepEqual([response.status, response.headers.get('location')], [303, '/path?x#y']);
});

test('OAuth redirect_uri: a value that does not equal an entry of allowedRedirectUris byte for byte is refused without a redirect', async () => {
  await using site = await LoginSite.open({
    env: 'production',
    plugin: { allowedRedirectUris: [ENTRY, CALLBACK], limits: { login: false } },
  });
  const bad = [
    'https://app.example/oauth/callback/',
    'https://app.example/OAuth/callback',
    'https://APP.example/oauth/callback',
    'https://app.example:443/oauth/callback',
    'https://app.example/oauth/callback?',
    `${ENTRY}&x=1`,
    'https://user@app.example/oauth/callback',
    `${CALLBACK}#f`,
    'https://app.example/oauth/%63allback',
    'https://app.example/oauth/../oauth/callback',
    'https://app.example/oauth/./callback',
    'http://app.example/oauth/callback',
    ' https://app.example/oauth/callback',
    'https://evil.example/oauth/callback',
    `${CALLBACK} ${ENTRY}`,
    'oauth/callback',
    '*',
  ];
  for (const uri of bad) {
    const response = await site.client.get('/oauth/login', { query: { redirect_uri: uri } });
    assert.equal(response.headers.get('location'), null);
    const { error_description: description } = await refusedAs(response, 400, 'invalid_redirect_uri');
    assert.equal(description, 'The redirect_uri is not one of the allowed addresses');
    const { reason } = site.audited('login_failed').at(-1)!;
    assert.equal(reason, `invalid_redirect_uri: redirect_uri=${uri}`);
  }
  assert.equal(site.fake.count(), 0);
  for (const uri of [ENTRY, CALLBACK])
    assert.equal((await site.begin({ redirect_uri: uri })).page.searchParams.get('redirect_uri'), uri);
});

test('OAuth redirect_uri: a repeated or empty parameter is refused, and a missing parameter means the only entry of allowedRedirectUris', async () => {
  await using site = await LoginSite.open({ env: 'production' });
  const wordsOf = async (at: LoginSite, query: string): Promise<string> =>
    (await refusedAs(await at.client.get(`/oauth/login${query}`), 400, 'invalid_redirect_uri'))
      .error_description;
  for (const [query, problem] of [
    [`?redirect_uri=${CALLBACK}&redirect_uri=${CALLBACK}`, 'is repeated'],
    [`?redirect_uri=&redirect_uri=${CALLBACK}`, 'is repeated'],
    ['?redirect_uri=', 'is not one of the allowed addresses'],
  ] as const)
    assert.equal(await wordsOf(site, query), `The redirect_uri ${problem}`);
  assert.equal((await site.begin()).page.searchParams.get('redirect_uri'), CALLBACK);
  assert.equal(
    (await site.client.get(`/oauth/login?redirect_uri[]=https://evil.example`)).headers
      .get('location')
      ?.includes('evil'),
    false,
    'another parameter, which nobody reads',
  );
  await using several = await LoginSite.open({
    env: 'production',
    plugin: { allowedRedirectUris: [ENTRY, CALLBACK] },
  });
  assert.equal(await wordsOf(several, ''), 'The redirect_uri is missing');
});

test('OAuth redirect_uri: with several providers, a login accepts only the entry of allowedRedirectUris with the callback path of its provider', async () => {
  const [github, google, page] = [
    'https://app.example/oauth/callback',
    'https://app.example/base/oauth/google/callback',
    'https://app.example/spa/done',
  ];
  await using site = await LoginSite.open({
    env: 'production',
    names: ['github', 'google'],
    plugin: { allowedRedirectUris: [github, google, page] },
  });
  const at = async (path: string, uri?: string): Promise<string | null> =>
    (
      await site.begin(uri === undefined ? {} : { redirect_uri: uri }, { path: `/oauth/${path}login` })
    ).page.searchParams.get('redirect_uri');
  assert.equal(await at(''), github);
  assert.equal(await at('github/'), github);
  assert.equal(await at('google/'), google);
  for (const path of ['', 'google/']) assert.equal(await at(path, page), page);
  for (const [path, uri] of [
    ['google/', github],
    ['', google],
    ['github/', google],
  ] as const)
    await refusedAs(
      await site.client.get(`/oauth/${path}login`, { query: { redirect_uri: uri } }),
      400,
      'invalid_redirect_uri',
    );
});

test('OAuth redirect_uri: the constructor refuses an entry of allowedRedirectUris that has no "//" after its scheme', async () => {
  for (const uri of ['https:app.example/cb', 'HTTPS:/app.example/cb', 'http:app.example'])
    await assert.rejects(LoginSite.open({ plugin: { allowedRedirectUris: [uri] } }), {
      code: 'E_OPTION_RANGE',
    });
  await assert.rejects(LoginSite.open({ provider: { authorizeUrl: 'https:id.example/authorize' } }), {
    code: 'E_OAUTH_PROVIDER',
  });
});

test('OAuth redirect_uri: without allowedRedirectUris, only the callback on the loopback interface is allowed, and in production no URI', async () => {
  const options = { callbackPaths: ['/oauth/callback', '/oauth/x/callback'] };
  const list = new RedirectAllowlist([], { env: 'development', ...options });
  assert.equal(list.choose(undefined, '127.0.0.1:8000'), 'http://127.0.0.1:8000/oauth/callback');
  assert.equal(
    list.choose('http://localhost/oauth/x/callback', 'localhost'),
    'http://localhost/oauth/x/callback',
  );
  for (const [uri, host] of [
    ['http://localhost:8001/oauth/callback', 'localhost'],
    ['http://evil.example/oauth/callback', 'evil.example'],
    [undefined, 'evil.example'],
    [undefined, 'localhost.evil.example'],
    [undefined, 'localhost:1@evil.example'],
    [undefined, ''],
  ] as const) {
    assert.equal(list.choose(uri, host), undefined, `${uri} at ${host}`);
  }
  assert.equal(
    new RedirectAllowlist([], { env: 'production', ...options }).choose(undefined, 'localhost'),
    undefined,
  );
});

test('OAuth redirect_uri: a missing parameter means the only entry for this provider, and no entry if several are possible', () => {
  const own = 'https://app.example/oauth/own/callback';
  const other = 'https://app.example/oauth/other/callback';
  const page = 'https://app.example/done';
  const options = { callbackPaths: ['/oauth/own/callback'], otherPaths: ['/oauth/other/callback'] };
  for (const [entries, expected] of [
    [[own], own],
    [[page], page], // an entry without a callback path counts if there is no other
    [[page, own], own],
    [[own, other], own],
    [[other, page], page],
    [[other], undefined],
    [[own, `${own}?tenant=a`], undefined],
    [[page, 'https://app.example/also'], undefined],
  ] as const) {
    const list = new RedirectAllowlist(entries, { env: 'production', ...options });
    assert.equal(list.choose(undefined, 'app.example'), expected, entries.join(' '));
  }
});

test('svc check warns of redirect URIs that end in no callback path of a provider, in cookie mode', async () => {
  const findings = async (
    mode: 'cookie' | 'json',
    path: string,
    names: readonly string[],
  ): Promise<string[]> => {
    const app = new Svc({ env: 'production', authSecret: randomBytes(32).toString('hex') });
    app.register(
      new OAuthPlugin({
        providers: names.map((name) =>
          oidcProvider('https://id.example', 'client', 'a-long-client-secret', { name }),
        ),
        mode,
        allowedRedirectUris: [`https://app.example${path}`],
        onUser: (_provider, { subject }) => subject,
      }),
    );
    app.use(new SessionMiddleware());
    app.get('/from/old', { public: true }, () => new RedirectResponse('/oauth/callback'));
    const { findings: found } = app.check();
    return found.filter(({ rule }) => rule === 'oauth/callback-path').map(({ message }) => message);
  };
  const one = 'entry 1 of allowedRedirectUris ends in no callback path: /oauth/callback';
  const two = `${one}, /oauth/a/callback, /oauth/b/callback`;
  for (const [mode, path, names, expected] of [
    ['cookie', '/oauth/callback', ['a'], []],
    ['cookie', '/shop/oauth/callback', ['a'], []],
    ['cookie', '/oauth/callback?tenant=x', ['a'], []],
    ['cookie', '/auth/done', ['a'], [one]],
    ['cookie', '/oauth/a/callback', ['a'], [one]],
    ['cookie', '/oauth/callback/', ['a'], [one]],
    ['cookie', '/from/old', ['a'], []], // a page of the application may redirect
    ['cookie', '/oauth/b/callback', ['a', 'b'], []],
    ['cookie', '/oauth/c/callback', ['a', 'b'], [two]],
    ['json', '/auth/done', ['a'], []],
  ] as const)
    assert.deepEqual(await findings(mode, path, names), expected, `${mode} ${path} ${names}`);
});

test('OAuth redirect_uri: in production, an http entry of allowedRedirectUris prevents the start unless allowLoopbackRedirects permits it', async () => {
  const findings = async (
    uris: readonly string[],
    allowLoopbackRedirects = false,
    env: 'production' | 'development' = 'production',
  ): Promise<string[]> => {
    await using site = await LoginSite.open({
      env,
      plugin: { allowedRedirectUris: uris, allowLoopbackRedirects },
    });
    const { findings: found } = site.app.check();
    if (found.some(({ rule }) => rule === 'SVC209'))
      assert.throws(() => site.app.compileAll(), { code: 'E_COMPILE' });
    return found.filter(({ rule }) => rule === 'SVC209').map(({ message }) => message);
  };
  assert.deepEqual(await findings(['https://app.example/cb', 'http://app.example/cb']), [
    'entry 2 of allowedRedirectUris is not https, which production needs',
  ]);
  assert.equal((await findings(['http://127.0.0.1:7777/cb'])).length, 1);
  assert.equal(
    (await findings(['http://localhost:7777/cb'], true)).length,
    1,
    'a name can be made to lead elsewhere',
  );
  assert.deepEqual(await findings(['http://127.0.0.1:7777/cb', 'http://[::1]/cb'], true), []);
  assert.deepEqual(await findings([]), ['no redirect URI is allowed, so users cannot log in']);
  assert.deepEqual(await findings(['http://localhost:8000/cb'], false, 'development'), []);
  assert.equal((await findings(['http://app.example/cb'], false, 'development')).length, 1);
});

test('OAuth redirect_uri: an entry of allowedRedirectUris must have a scheme, and no wildcard, fragment, user name or password', () => {
  const of = (entry: unknown): string =>
    issuesOfRedirect(entry as string, { env: 'production', allowsLoopback: false }).join('; ');
  assert.match(of('https://*.app.example/cb'), /wildcard/);
  assert.match(of('https://app.example/cb#x'), /fragment/);
  assert.match(of('https://app.example/cb#'), /fragment/);
  for (const user of ['u:p', 'u', ':p'])
    assert.match(of(`https://${user}@app.example/cb`), /a user name or a password/);
  for (const entry of ['/oauth/callback', 'app.example/cb', '', 5, null])
    assert.match(of(entry), /not an absolute URL/);
  assert.match(of('https://app.example/a b'), /spaces/);
  assert.match(of('https://app.example\\cb'), /backslashes/);
  for (const entry of ['javascript:alert(1)', 'data:text/html,x', 'myapp://cb'])
    assert.match(of(entry), /neither https nor http/);
  assert.equal(of('https://app.example/cb?tenant=a'), '');
});

test('OAuth redirect_uri: a failed login never redirects to the redirect_uri in the callback request, neither in JSON mode nor in cookie mode', async () => {
  for (const mode of ['json', 'cookie'] as const) {
    await using site = await LoginSite.open({ plugin: { mode } });
    const { state } = await site.begin();
    const response = await site.back({
      error: 'access_denied',
      state,
      redirect_uri: 'https://evil.example/',
    });
    assert.equal(response.headers.get('location'), null);
    await refusedAs(response, 400, 'access_denied');
  }
});

test('every option that is a URL is refused at construction if its port is 0 or above 65535', () => {
  const onUser = (): string => 'ada';
  const plugin = (option: string) => (url: string) =>
    new OAuthPlugin({
      provider: githubProvider('id', 'secret'),
      onUser,
      allowedRedirectUris: ['https://app.example/oauth/callback'],
      [option]: [url],
    });
  const provider = (option: string) => (url: string) =>
    new OAuthProvider({
      name: 'own',
      clientId: 'id',
      clientSecret: 'secret',
      allowInsecure: true,
      issuer: 'https://id.example',
      [option]: url,
    });
  const dev = (option: string) => (url: string) =>
    new DevProvider({ env: 'test', redirectUris: ['/oauth/callback'], [option]: [url] });
  const options: Readonly<Record<string, (url: string) => unknown>> = {
    ...Object.fromEntries(
      ['allowedRedirectUris', 'postLogoutRedirectUris', 'nativeRedirects'].map((name) => [
        name,
        plugin(name),
      ]),
    ),
    ...Object.fromEntries(['issuer', ...URLS].map((name) => [name, provider(name)])),
    'DevProvider redirectUris': dev('redirectUris'),
    'DevProvider postLogoutRedirectUris': dev('postLogoutRedirectUris'),
  };
  const end = '/.well-known/openid-configuration';
  for (const [name, make] of Object.entries(options)) {
    const path = name === 'discoveryUrl' ? end : '/x';
    for (const port of ['', ':1', ':65535']) make(`https://id.example${port}${path}`);
    for (const port of [':0', ':00', ':65536', ':99999', ':4294967739'])
      for (const host of ['https://id.example', 'http://127.0.0.1', 'http://[::1]'])
        assert.throws(
          () => make(`${host}${port}${path}`),
          { code: /^E_(?:OPTION_RANGE|OAUTH_PROVIDER)$/ },
          `${name} ${host}${port}`,
        );
  }
});
