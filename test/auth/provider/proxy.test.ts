/** Calls to a provider through a proxy: tunnels, checks of the target, and the settings of the environment. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { systemClock } from '../../../src/base/clock.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Proxies, issueOfProxy } from '../../../src/auth/provider/addresses.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { Outbound } from '../../../src/auth/provider/outbound.ts';
import { folder } from '../../support/run.ts';
import { ConnectProxy } from '../../oauth/support/connect-proxy.ts';
import { FakeProvider } from '../../oauth/support/fake-provider.ts';
import { LoginSite } from '../../oauth/support/site.ts';
import { AUTHORITY_PEM } from '../../oauth/support/tls.ts';

type OutboundDeps = ConstructorParameters<typeof Outbound>[0];

const PASSWORD = 'p%40ss-7f1e';

/** Calls through a proxy with a password. A name that is resolved here fails the test. */
function behind(proxy: ConnectProxy, deps: Partial<OutboundDeps> = {}): Outbound {
  return new Outbound({
    clock: systemClock,
    timeoutMs: 10_000,
    ca: AUTHORITY_PEM,
    proxies: Proxies.all(`http://user:${PASSWORD}@127.0.0.1:${proxy.port}`),
    resolve: (name, callback) => callback(new Error(`${name} was resolved`), []),
    ...deps,
  });
}

const failure =
  (code: string, reason: string) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof ProviderFault, String(error));
    assert.deepEqual([error.code, error.reason], [code, reason]);
    assert.doesNotMatch(inspect(error, { depth: 9, showHidden: true }), /p%40ss|p@ss|dXNlcj/);
    return true;
  };

test('Outbound.call() sends a request through the tunnel of a proxy, which resolves the name, and verifies TLS to the provider', async () => {
  await using fake = await FakeProvider.start({ isTls: true });
  await using proxy = await ConnectProxy.start();
  const calls = behind(proxy);
  const url = `https://provider.test:${fake.port}/token`;
  for (const isGuarded of [true, false]) {
    const answer = await calls.call({ method: 'POST', url, isGuarded, body: 'code=1' });
    assert.deepEqual([answer.status, answer.isPrivate], [200, false]);
  }
  assert.deepEqual(
    proxy.tunnels,
    Array(2).fill({
      target: `provider.test:${fake.port}`,
      authorization: `Basic ${Buffer.from('user:p@ss-7f1e').toString('base64')}`,
    }),
  );
  assert.deepEqual(
    fake.requests.map(({ url: path, headers, form, servername }) => [
      path,
      headers['host'],
      headers['proxy-authorization'],
      form.get('code'),
      servername,
    ]),
    Array(2).fill(['/token', `provider.test:${fake.port}`, undefined, '1', 'provider.test']),
  );
  await assert.rejects(
    calls.call({ method: 'GET', url: `https://other.test:${fake.port}/` }),
    failure('provider_error', 'tls_ERR_TLS_CERT_ALTNAME_INVALID'),
  );
  await assert.rejects(
    behind(proxy, { ca: undefined }).call({ method: 'GET', url }),
    failure('provider_error', 'tls_UNABLE_TO_VERIFY_LEAF_SIGNATURE'),
  );
  await proxy.left();
  assert.equal(proxy.others, 0);
});

test('Outbound.call() tunnels plain http as well, and never sends the loopback interface through a proxy', async () => {
  await using fake = await FakeProvider.start();
  await using proxy = await ConnectProxy.start();
  await behind(proxy).call({ method: 'GET', url: `http://keycloak:${fake.port}/userinfo` });
  assert.deepEqual([proxy.tunnels.length, proxy.others, fake.requests[0]!.url], [1, 0, '/userinfo']);
  assert.equal((await behind(proxy).call({ method: 'GET', url: `${fake.url}/userinfo` })).isPrivate, true);
  const proxies = Proxies.all('http://127.0.0.1:1');
  for (const host of [
    '127.0.0.1',
    '127.8.8.8',
    '[::1]',
    'localhost',
    'localhost.',
    'LOCALHOST',
    'a.localhost',
    '2130706433',
    '0x7f.1',
  ])
    assert.equal(proxies.proxyFor(new URL(`https://${host}/`)), undefined, host);
  for (const host of ['provider.test', '10.0.0.1', 'localhost.test', 'notlocalhost'])
    assert.notEqual(proxies.proxyFor(new URL(`https://${host}/`)), undefined, host);
});

test('Outbound.call() refuses a guarded private address before it asks the proxy', async () => {
  await using proxy = await ConnectProxy.start();
  const calls = behind(proxy);
  for (const host of [
    '10.0.0.1',
    '169.254.169.254',
    '0xa9fea9fe',
    '[fd00::1]',
    '[::ffff:10.0.0.1]',
    '127.0.0.1',
    '127.0.0.1.',
  ])
    await assert.rejects(
      calls.call({ method: 'GET', url: `https://${host}/`, isGuarded: true }),
      failure('provider_error', 'private_address'),
      host,
    );
  assert.deepEqual(proxy.tunnels, []);
});

test('Outbound.call() names the refusal of a proxy, and no error contains its password', async () => {
  await using proxy = await ConnectProxy.start();
  const calls = behind(proxy);
  const call = (): Promise<unknown> => calls.call({ method: 'GET', url: 'https://provider.test/' });
  for (const [answer, reason] of [
    ['HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n', 'proxy_status_407'],
    ['HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\nhtml', 'proxy_status_502'],
    ['HTTP/1.1 302 Found\r\nLocation: https://evil.example/\r\n\r\n', 'proxy_status_302'],
    ['SSH-2.0\r\n', 'proxy_HPE_INVALID_CONSTANT'],
    [`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}\r\n\r\n`, 'proxy_HPE_HEADER_OVERFLOW'],
    ['HTTP/1.1 200 OK\r\n\r\nnot TLS', 'tls_ERR_SSL_WRONG_VERSION_NUMBER'],
  ] as const) {
    proxy.answer = answer;
    await assert.rejects(call(), failure('provider_error', reason));
    await proxy.left();
  }
  assert.equal(proxy.tunnels[0]!.target, 'provider.test:443');
  const { port } = proxy;
  await proxy[Symbol.asyncDispose]();
  const gone = behind({ port } as ConnectProxy);
  await assert.rejects(
    gone.call({ method: 'GET', url: 'https://provider.test/' }),
    failure('provider_error', 'proxy_ECONNREFUSED'),
  );
});

test('Outbound.call() gives a proxy 10 s to open a tunnel, and closes the connection to it when the call ends', async () => {
  await using proxy = await ConnectProxy.start();
  proxy.answer = '';
  const clock = new ManualClock();
  const calls = behind(proxy, { clock });
  const url = 'https://provider.test/';
  const late = assert.rejects(calls.call({ method: 'GET', url }), failure('provider_timeout', 'proxy'));
  await proxy.asked(1);
  await clock.advance(9_999);
  assert.equal(clock.pending, 1);
  await clock.advance(1);
  await late;
  await proxy.left();
  const aborting = new AbortController();
  const aborted = assert.rejects(calls.call({ method: 'GET', url, signal: aborting.signal }), /gone/);
  await proxy.asked(2);
  aborting.abort(new Error('gone'));
  await aborted;
  await proxy.left();
  const closed = assert.rejects(
    calls.call({ method: 'GET', url }),
    failure('temporarily_unavailable', 'closed'),
  );
  await proxy.asked(3);
  calls.close();
  await closed;
  await proxy.left();
  assert.deepEqual([clock.pending, calls.load], [0, { running: 0, waiting: 0 }]);
});

test('Outbound.call() gives TLS and the response their own time behind a proxy, and closes the tunnel', async () => {
  await using fake = await FakeProvider.start({ isTls: true });
  await using proxy = await ConnectProxy.start();
  const clock = new ManualClock();
  const calls = behind(proxy, { clock });
  fake.failNext('token', { answer: () => undefined });
  const url = `https://provider.test:${fake.port}/token`;
  const late = assert.rejects(calls.call({ method: 'POST', url }), failure('provider_timeout', 'first_byte'));
  await fake.arrived(1);
  await clock.advance(10_000);
  await late;
  await proxy.left();
  proxy.answer = 'HTTP/1.1 200 OK\r\n\r\n';
  const silent = assert.rejects(calls.call({ method: 'POST', url }), failure('provider_timeout', 'tls'));
  await proxy.asked(2);
  while (![...proxy.sockets].some(({ bytesRead }) => bytesRead > 300))
    await new Promise((resolve) => setImmediate(resolve));
  await clock.advance(10_000);
  await silent;
  await proxy.left();
});

test('Proxies.ofEnvironment() reads HTTPS_PROXY, HTTP_PROXY and NO_PROXY by the rules of Node.js', () => {
  const env = { HTTPS_PROXY: 'http://secure:1', http_proxy: 'https://plain', HTTP_PROXY: 'http://other' };
  const hostOf = (url: string, more: Record<string, string> = {}): string | undefined => {
    const proxies = Proxies.ofEnvironment({ ...env, ...more });
    assert.ok(proxies instanceof Proxies);
    return proxies.proxyFor(new URL(url))?.url.host;
  };
  assert.equal(hostOf('https://provider.test/'), 'secure:1');
  assert.equal(hostOf('http://provider.test/'), 'plain');
  assert.equal(hostOf('https://provider.test/', { HTTPS_PROXY: '' }), undefined);
  const https = 'https://id.provider.test/';
  for (const [url, entries, isDirect] of [
    [https, '*', true],
    [https, 'other.test, ID.Provider.test', true],
    [https, 'id.provider.test:443', true],
    [https, 'id.provider.test:8443', false],
    [https, '.provider.test', true],
    [https, '*.provider.test', true],
    [https, '.id.provider.test', true],
    [https, 'provider.test', false],
    [https, '.rovider.test', false],
    ['https://id.provider.test.:8443/', 'id.provider.test:8443', true],
    ['https://10.0.0.7/', '10.0.0.1-10.0.0.9', true],
    ['https://10.0.0.17/', '10.0.0.1-10.0.0.9', false],
    ['https://[fd00::1]/', 'fd00::1', true],
    [https, '', false],
    [https, 'a-b', false],
  ] as const) {
    assert.equal(hostOf(url, { NO_PROXY: entries }), isDirect ? undefined : 'secure:1', `${url} ${entries}`);
    assert.equal(hostOf(url, { NO_PROXY: '*', no_proxy: entries || ',' }), isDirect ? undefined : 'secure:1');
  }
});

const INVALID = [
  'proxy.example:3128',
  `socks5://user:${PASSWORD}@proxy.example`,
  `http://user:${PASSWORD}@proxy.example:0`,
  `http://user:${PASSWORD}@proxy.example:99999`,
  `http://user:${PASSWORD}@proxy.example/path`,
  `http://user:${PASSWORD}@proxy.example/?x`,
  `http://user:${PASSWORD}@proxy.example/#x`,
  `http://us%0d%0aer:${PASSWORD}@proxy.example`,
  `http://user:${PASSWORD}%zz@proxy.example`,
  `http://user:${PASSWORD}@proxy .example`,
  `http://user:${PASSWORD}@proxy.example\r\nX: y`,
  'http://',
];

test('a proxy that is not an http or https URL is refused at start, and the error does not contain its password', async () => {
  for (const url of ['http://proxy', 'https://user:x%40@proxy:3128/', 'http://[::1]:1'])
    assert.equal(issueOfProxy(url), undefined);
  for (const proxy of [...INVALID, 5 as never]) {
    const refused = (error: unknown): boolean => {
      assert.equal((error as { code?: string }).code, 'E_OPTION_RANGE');
      assert.doesNotMatch(inspect(error, { depth: 9 }), /p%40ss/);
      return true;
    };
    await assert.rejects(LoginSite.open({ plugin: { proxy } }), refused, proxy);
    assert.equal(typeof Proxies.ofEnvironment({ HTTPS_PROXY: String(proxy) }), 'string', proxy);
  }
});

/** Sets environment variables while a function runs. */
async function withEnvironment(variables: Record<string, string>, run: () => Promise<void>): Promise<void> {
  const before = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name]]));
  Object.assign(process.env, variables);
  try {
    await run();
  } finally {
    for (const [name, value] of Object.entries(before))
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
  }
}

test('OAuthPlugin sends discovery, keys, token and user info through the proxy of the environment or of its option', async (t) => {
  const caFile = join(folder(t), 'ca.pem');
  writeFileSync(caFile, AUTHORITY_PEM);
  await using fake = await FakeProvider.start({ isTls: true });
  await using proxy = await ConnectProxy.start();
  const issuer = `https://provider.test:${fake.port}`;
  const url = `http://user:${PASSWORD}@127.0.0.1:${proxy.port}`;
  fake.metadata = Object.fromEntries(
    Object.entries({ authorization: 'authorize', token: 'token', userinfo: 'userinfo' })
      .map(([name, path]) => [`${name}_endpoint`, `${issuer}/${path}`])
      .concat([
        ['issuer', issuer],
        ['jwks_uri', `${issuer}/jwks`],
      ]),
  );
  fake.claims = { iss: issuer };
  const log = async (plugin: { readonly proxy?: string }, expected: number): Promise<void> => {
    await using site = await LoginSite.open({ plugin, provider: { issuer, caFile } });
    fake.nowSeconds = () => Math.floor(site.clock.nowMs() / 1_000);
    const seen = [proxy.tunnels.length, fake.requests.length] as const;
    const response = await site.client.get('/oauth/login');
    if (expected === 302) {
      const page = new URL(response.headers.get('location')!);
      fake.nonce = page.searchParams.get('nonce')!;
      const back = await site.back({ code: 'c', state: page.searchParams.get('state')! });
      assert.equal(back.status, 200, await back.text());
      const endpoints = fake.requests.slice(seen[1]).map(({ endpoint }) => endpoint);
      assert.deepEqual(endpoints.toSorted(), ['discovery', 'jwks', 'token', 'userinfo']);
      assert.equal(proxy.tunnels.length - seen[0], 4);
    } else assert.deepEqual([response.status, proxy.tunnels.length - seen[0]], [expected, 0]);
    assert.doesNotMatch(
      JSON.stringify(site.events) + inspect(site.oauth, { depth: 9, showHidden: true }),
      /p%40ss|p@ss/,
    );
  };
  await log({ proxy: url }, 302);
  await withEnvironment({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: url, NO_PROXY: '' }, () => log({}, 302));
  await withEnvironment({ HTTPS_PROXY: url }, () => log({}, 502));
  await withEnvironment({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: url, NO_PROXY: '.provider.test' }, () =>
    log({}, 502),
  );
  await withEnvironment({ NODE_USE_ENV_PROXY: '1', HTTPS_PROXY: `socks5://user:${PASSWORD}@x` }, () =>
    assert.rejects(
      log({}, 502),
      (error) => /HTTPS_PROXY is neither/.test(String(error)) && !inspect(error).includes('p%40ss'),
    ),
  );
});
