import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CORSMiddleware, SessionMiddleware, Svc, TrustedHostMiddleware } from 'svc';
import { TestClient } from 'svc/testing';
import { hostnameOf } from '../../../src/http/middleware/trusted-host.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import type { Env } from 'svc';

const HOSTS = ['example.com', '.shop.example', '203.0.113.7', '[2001:DB8::7]'] as const;

function site(
  env: Env = 'production',
  hosts: readonly string[] = HOSTS,
): { app: Svc; client: TestClient; events: Record<string, unknown>[] } {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, env })
    .use(new TrustedHostMiddleware({ hosts }))
    .get('/', ({ req }) => req.host)
    .get('/any', { meta: { trustedHost: false } }, () => 'any');
  return { app, client: new TestClient(app), events };
}

async function statusFor(client: TestClient, host: string, path = '/'): Promise<number> {
  return (await client.get(path, { headers: { Host: host } })).status;
}

for (const [host, status] of [
  ['example.com', 200],
  ['EXAMPLE.com', 200],
  ['example.com.', 200],
  ['example.com:443', 200],
  ['example.com:', 200],
  ['example.com.:8443', 200],
  ['shop.example', 200],
  ['a.shop.example', 200],
  ['a.b.Shop.Example:80', 200],
  ['203.0.113.7', 200],
  ['203.0.113.7:8000', 200],
  ['[2001:db8::7]', 200],
  ['[2001:db8:0:0::0007]:443', 200],
  ['www.example.com', 421],
  ['example.com.evil.example', 421],
  ['notexample.com', 421],
  ['xshop.example', 421],
  ['203.0.113.8', 421],
  ['localhost', 421],
  ['127.0.0.1', 421],
  ['[2001:db8::8]', 421],
  ['xn--bcher-kva.example', 421],
  ['example.com:65536', 400],
  ['example.com:123456', 400],
  ['example.com:80:80', 400],
  ['example.com:x', 400],
  ['example.com..', 400],
  ['.example.com', 400],
  ['a..shop.example', 400],
  ['-a.shop.example', 400],
  ['user@example.com', 400],
  ['example.com/x', 400],
  ['example.com%2e', 400],
  ['exa mple.com', 400],
  ['[2001:db8::7', 400],
  ['2001:db8::7', 400],
  ['[fe80::1%25eth0]', 400],
  ['[203.0.113.7]', 400],
  ['example.com,example.com', 400],
  ['b\u00fccher.example', 400],
  [`${'a'.repeat(64)}.shop.example`, 400],
  [`${'a.'.repeat(130)}shop.example`, 400],
] as const) {
  test(`TrustedHostMiddleware accepts only requests for a listed host (host: ${JSON.stringify(host).slice(0, 50)}, status: ${status})`, async () => {
    const { client } = site();
    await using _ = client;
    assert.equal(await statusFor(client, host), status);
  });
}

test('TrustedHostMiddleware refuses a host with a problem that has a code and does not repeat the host, and logs repeated refusals once', async () => {
  const { client, events } = site();
  await using _ = client;
  const foreign = await client.get('/', { headers: { Host: 'evil.example' } });
  const malformed = await client.get('/', { headers: { Host: 'a b' } });
  const [body, other] = [await foreign.json(), await malformed.json()] as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  assert.deepEqual(
    [foreign.status, foreign.headers.get('content-type'), body['code'], malformed.status, other['code']],
    [421, 'application/problem+json', 'host_unknown', 400, 'host_malformed'],
  );
  assert.ok(!JSON.stringify([body, other]).includes('evil'));
  const lines = events.filter(({ event }) => event === 'host_refused');
  assert.deepEqual(
    lines.map(({ host }) => host),
    ['evil.example'],
  );
});

test('TrustedHostMiddleware accepts names of the local machine only outside production', async () => {
  for (const [env, expected] of [
    ['test', 200],
    ['development', 200],
    ['production', 421],
  ] as const) {
    const { client } = site(env);
    await using _ = client;
    for (const host of ['localhost:8000', '127.0.0.1:8000', '[::1]:8000'])
      assert.equal(await statusFor(client, host), expected, `${env} ${host}`);
    assert.equal(await statusFor(client, 'evil.example'), 421);
  }
});

test('TrustedHostMiddleware accepts any host for health probes and exempt routes, but not for metrics and unknown paths', async () => {
  const { client } = site();
  await using _ = client;
  for (const path of ['/healthz', '/readyz', '/any'])
    assert.equal(await statusFor(client, '10.1.2.3:8000', path), 200, path);
  for (const path of ['/metrics', '/nothing'])
    assert.equal(await statusFor(client, '10.1.2.3:8000', path), 421, path);
});

test('if trustForwardedHost is true, TrustedHostMiddleware checks the forwarded host, otherwise the field Host', async () => {
  for (const [trustForwardedHost, expected] of [
    [true, [200, 421]],
    [false, [421, 200]],
  ] as const) {
    const app = new Svc({ env: 'production', trustProxy: 'loopback', trustForwardedHost })
      .use(new TrustedHostMiddleware({ hosts: ['example.com'] }))
      .get('/', () => 'x');
    await using client = new TestClient(app);
    const statuses = [];
    for (const [host, forwarded] of [
      ['inner', 'example.com'],
      ['example.com', 'evil.example'],
    ] as const) {
      statuses.push(
        (
          await client.get('/', {
            headers: { Host: host, 'X-Forwarded-For': '192.0.2.1', 'X-Forwarded-Host': forwarded },
          })
        ).status,
      );
    }
    assert.deepEqual(statuses, expected);
  }
});

test('TrustedHostMiddleware refuses an invalid list of hosts, and suggests how to write it', () => {
  for (const [hosts, message] of [
    [[], /"hosts" is empty/],
    [['*'], /remove the middleware/],
    [['*.example.com'], /must be written as "\.example\.com"/],
    [['https://example.com'], /has a scheme/],
    [['example.com:80'], /has a port/],
    [['b\u00fccher.example'], /must be written as "xn--bcher-kva\.example"/],
    [['.b\u00fccher.example'], /must be written as "\.xn--bcher-kva\.example"/],
    [[''], /is not a host name/],
    [['a b'], /is not a host name/],
    [[5], /text/],
    [['..a'], /is not a host name/],
  ] as const)
    assert.throws(
      () => new TrustedHostMiddleware({ hosts: hosts as readonly string[] }),
      (error) =>
        (error as { code: string }).code === 'E_TRUSTED_HOST' && message.test((error as Error).message),
      String(hosts),
    );
  assert.throws(() => new TrustedHostMiddleware({} as never), { code: 'E_TRUSTED_HOST' });
  assert.throws(() => new TrustedHostMiddleware({ hosts: 'example.com' as never }), {
    code: 'E_OPTION_RANGE',
  });
  assert.throws(() => new TrustedHostMiddleware({ host: ['example.com'] } as never), {
    code: 'E_OPTION_UNKNOWN',
  });
});

test('svc check warns of middleware that does its work before TrustedHostMiddleware has checked the host (SVC121)', () => {
  const findingsOf = (app: Svc): unknown[] =>
    app
      .check()
      .findings.filter(({ subject }) => subject === 'middleware trusted-host')
      .map(({ rule, severity }) => [rule, severity]);
  const hosts = { hosts: ['example.com'] };
  const app = (): Svc => new Svc({ authSecret: 'an example secret that is long enough 1' });
  assert.deepEqual(findingsOf(app().use(new SessionMiddleware()).use(new TrustedHostMiddleware(hosts))), [
    ['SVC121', 'warning'],
  ]);
  assert.deepEqual(
    findingsOf(
      app()
        .use(new CORSMiddleware({ origins: ['https://a.example'] }))
        .use(new TrustedHostMiddleware(hosts))
        .use(new SessionMiddleware()),
    ),
    [],
  );
});

test('for generated bytes, hostnameOf() returns undefined, or a hostname that a second call returns unchanged', () => {
  const below = seeded(8);
  const alphabet = [
    'a',
    'Z',
    '9',
    '.',
    '.',
    '-',
    '_',
    ':',
    '[',
    ']',
    '@',
    '%',
    ' ',
    ',',
    '/',
    '\u00fc',
    '\0',
    'xn--',
    '::1',
    '127.0.0.1',
    '443',
  ];
  let names = 0;
  for (let round = 0; round < 50_000; round++) {
    const text = Array.from({ length: 1 + below(8) }, () => alphabet[below(alphabet.length)]).join('');
    const name = hostnameOf(text);
    if (name === undefined) continue;
    names++;
    assert.equal(hostnameOf(name), name, text);
    assert.match(name, /^[a-z0-9._-]+$|^\[[0-9a-f:]+\]$/, text);
  }
  assert.ok(names > 1_000, String(names));
});
