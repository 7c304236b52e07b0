import assert from 'node:assert/strict';
import { isIP } from 'node:net';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { SvcError } from '../../../src/base/errors.ts';
import { ProxyTrust, ProxyWatch, readTrustProxy } from '../../../src/http/request/proxy.ts';
import { RateLimitMiddleware } from '../../../src/http/middleware/rate-limit.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { HttpServer } from '../../../src/http/server/server.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { RawClient } from '../../support/raw-http.ts';
import { seeded } from '../../support/random.ts';
import type { HttpRequest } from '../../../src/http/contracts.ts';
import type { ForwardedFields, Forwarding } from '../../../src/http/request/proxy.ts';

type Fields = Readonly<Record<string, string>>;

/** Returns client, scheme and host of a request behind these trusted proxies. */
function resolve(
  trustProxy: unknown,
  peer: string,
  fields: Fields,
  how: Partial<ForwardedFields> = {},
): Forwarding {
  return readTrustProxy(trustProxy, {
    header: fields['forwarded'] === undefined ? 'x-forwarded' : 'forwarded',
    saysHost: true,
    ...how,
  })!.resolve(peer, (name) => fields[name]);
}

const ipOf = (trustProxy: unknown, peer: string, fields: Fields): string =>
  resolve(trustProxy, peer, fields).ip;

/** An application that returns its view of a request. */
function mirror(options: ConstructorParameters<typeof Svc>[0] = {}): Svc {
  return new Svc(options).get('/', ({ req }) => ({ ip: req.ip, scheme: req.scheme, host: req.host }));
}

test('if trustProxy is not set, no header field of a client changes its address, scheme or host', async () => {
  await using client = new TestClient(mirror());
  const headers = {
    'X-Forwarded-For': '203.0.113.9',
    'X-Forwarded-Proto': 'https',
    'X-Forwarded-Host': 'evil.example',
    Forwarded: 'for=203.0.113.9;proto=https;host=evil.example',
  };
  assert.deepEqual(await (await client.get('/', { headers })).json(), {
    ip: '127.0.0.1',
    scheme: 'http',
    host: 'localhost',
  });
});

test('if the peer is not trusted, the address of the client is that of the peer, whatever X-Forwarded-* contains', () => {
  assert.deepEqual(
    resolve(['10.0.0.0/8'], '203.0.113.1', {
      'x-forwarded-for': '198.51.100.1',
      'x-forwarded-proto': 'https',
      'x-forwarded-host': 'a.example',
    }),
    { ip: '203.0.113.1', scheme: undefined, host: undefined },
  );
});

test('the address of the client is the rightmost address in X-Forwarded-For that is not trusted', () => {
  const chain = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7, 10.0.0.2' };
  assert.equal(ipOf(['10.0.0.0/8'], '10.0.0.1', chain), '198.51.100.7');
  assert.equal(ipOf(['10.0.0.0/8', '198.51.100.7'], '10.0.0.1', chain), '203.0.113.9');
  assert.equal(ipOf('private', '::ffff:10.0.0.1', chain), '198.51.100.7');
  assert.equal(ipOf(['10.0.0.0/8'], '10.0.0.1', { 'x-forwarded-for': '10.0.0.3,10.0.0.2' }), '10.0.0.3'); // a client inside
  assert.equal(ipOf(['10.0.0.0/8'], '10.0.0.1', {}), '10.0.0.1');
});

test('if trustProxy is a number n, the address of the client is entry n of X-Forwarded-For, counted from the right', () => {
  const chain = { 'x-forwarded-for': '203.0.113.9, 198.51.100.7, 10.0.0.2' };
  assert.equal(ipOf(1, '10.0.0.1', chain), '10.0.0.2');
  assert.equal(ipOf(2, '10.0.0.1', chain), '198.51.100.7');
  assert.equal(ipOf(3, '10.0.0.1', chain), '203.0.113.9');
  assert.equal(ipOf(9, '10.0.0.1', chain), '203.0.113.9');
  assert.equal(ipOf('2', '10.0.0.1', chain), '198.51.100.7');
});

test('elements of Forwarded are read in the same way as X-Forwarded-For (RFC 7239 §4)', () => {
  const forwarded =
    'for=192.0.2.43, For="[2001:db8:cafe::17]:4711";proto=https;by=203.0.113.60;host="app.example:8443", for=10.0.0.2;proto=http';
  assert.deepEqual(resolve(['10.0.0.0/8'], '10.0.0.1', { forwarded }), {
    ip: '2001:db8:cafe::17',
    scheme: 'https',
    host: 'app.example:8443',
  });
  assert.deepEqual(resolve(1, '10.0.0.1', { forwarded }), {
    ip: '10.0.0.2',
    scheme: 'http',
    host: undefined,
  });
  assert.equal(ipOf(1, '10.0.0.1', { forwarded: 'for="192.0.2.43:47011"' }), '192.0.2.43');
  assert.equal(ipOf(1, '10.0.0.1', { forwarded: 'proto=https ; for="192.0.2.4\\3"' }), '192.0.2.43');
});

test('empty elements of X-Forwarded-* and Forwarded are ignored (RFC 9110 §5.6.1)', () => {
  for (const list of ['1.2.3.4,,', ',1.2.3.4', ' , 1.2.3.4 ,, ', '198.51.100.7,, 1.2.3.4,'])
    assert.equal(ipOf(1, '10.0.0.1', { 'x-forwarded-for': list }), '1.2.3.4', list);
  assert.equal(ipOf(['10.0.0.0/8'], '10.0.0.1', { 'x-forwarded-for': '1.2.3.4, 10.0.0.2,,' }), '1.2.3.4');
  assert.equal(ipOf(1, '10.0.0.1', { forwarded: 'for=1.2.3.4, ,' }), '1.2.3.4');
  assert.equal(ipOf(1, '10.0.0.1', { 'x-forwarded-for': ',,' }), '10.0.0.1');
  const { scheme, host } = resolve(1, '10.0.0.1', {
    'x-forwarded-for': '1.2.3.4',
    'x-forwarded-proto': 'https,,',
    'x-forwarded-host': 'a.example,',
  });
  assert.deepEqual([scheme, host], ['https', 'a.example']);
});

test('behind a trusted proxy, a client that changes the leftmost entries of X-Forwarded-For is still rate limited', async () => {
  const app = mirror({ trustProxy: 'loopback' }).use(new RateLimitMiddleware({ perMinute: 5 }));
  await using client = new TestClient(app);
  const statuses: number[] = [];
  for (let index = 0; index < 8; index++)
    statuses.push(
      (await client.get('/', { headers: { 'X-Forwarded-For': `192.0.2.${index}, 203.0.113.5` } })).status,
    );
  assert.deepEqual(statuses, [200, 200, 200, 200, 200, 429, 429, 429]);
});

test('if a client sends the address of another client in X-Forwarded-For, the rate limit of that other client does not change', async () => {
  const app = mirror({ trustProxy: 'loopback' }).use(new RateLimitMiddleware({ perMinute: 2 }));
  await using client = new TestClient(app);
  const from = async (chain: string): Promise<number> =>
    (await client.get('/', { headers: { 'X-Forwarded-For': chain } })).status;
  for (let index = 0; index < 6; index++) await from('198.51.100.1, 203.0.113.5');
  assert.equal(await from('198.51.100.1, 203.0.113.5'), 429);
  assert.equal(await from('198.51.100.1'), 200);
});

for (const [what, value, expected] of [
  ['an unparsable hop', '203.0.113.9, nonsense, 10.0.0.2', '10.0.0.2'],
  ['"unknown"', '203.0.113.9, unknown', '10.0.0.1'],
  ['an obfuscated name', '203.0.113.9, _hidden', '10.0.0.1'],
  ['an empty entry', '203.0.113.9,, 10.0.0.2', '203.0.113.9'],
  ['an empty list', '', '10.0.0.1'],
  ['a comma alone', ',', '10.0.0.1'],
  ['a comma at the front', ',10.0.0.2', '10.0.0.2'],
  ['a port suffix', '203.0.113.9:5678, 10.0.0.2:1', '203.0.113.9'],
  ['bracketed IPv6', '[2001:db8::1], 10.0.0.2', '2001:db8::1'],
  ['bracketed IPv6 with a port', '[2001:db8::1]:80', '2001:db8::1'],
  ['brackets around IPv4', '[203.0.113.9]', '10.0.0.1'],
  ['a bracket alone', '[2001:db8::1', '10.0.0.1'],
  ['a port without number', '203.0.113.9:x', '10.0.0.1'],
  ['an IPv4-mapped address', '::ffff:10.0.0.9, ::FFFF:10.0.0.2', '10.0.0.9'],
  ['an address with a zone', 'fe80::1%eth0', '10.0.0.1'],
  ['an octal octet', '010.0.0.2', '10.0.0.1'],
  ['an entry of 600 characters', `203.0.113.9,${' '.repeat(600)}10.0.0.2`, '10.0.0.1'],
] as const) {
  test(`the client has the last valid address that a trusted proxy has written to X-Forwarded-For: ${what}`, () =>
    assert.equal(ipOf(['10.0.0.0/8'], '10.0.0.1', { 'x-forwarded-for': value }), expected));
}

test('only the last 32 entries of X-Forwarded-For are read, even if there are 500', () => {
  const chain = [
    '203.0.113.9',
    ...Array.from({ length: 499 }, (_, index) => `10.0.${index >> 8}.${index & 255}`),
  ].join(', ');
  assert.equal(ipOf(['10.0.0.0/8'], '10.9.9.9', { 'x-forwarded-for': chain }), '10.0.1.211'); // the 32nd from the right
  assert.equal(ipOf(32, '10.9.9.9', { 'x-forwarded-for': chain }), '10.0.1.211');
});

test('several X-Forwarded-For fields received over a socket are read as one list', async () => {
  const app = mirror({ trustProxy: ['127.0.0.1'], trustForwardedHost: true });
  await app.startup();
  const server = new HttpServer(app.application());
  const { port } = await server.listen({ port: 0 });
  await using client = await RawClient.open(port);
  const ask = async (fields: string): Promise<unknown> => (await client.get('/', fields).answer()).json();
  assert.deepEqual(
    await ask(
      'X-Forwarded-For: 192.0.2.1\r\nX-Forwarded-For: 203.0.113.9\r\nx-forwarded-proto: https\r\nX-Forwarded-Host: app.example\r\n',
    ),
    { ip: '203.0.113.9', scheme: 'https', host: 'app.example' },
  );
  assert.deepEqual(await ask('X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-For: 127.0.0.1\r\n'), {
    ip: '203.0.113.9',
    scheme: 'http',
    host: 'a.example',
  });
  client.socket.destroy();
  await server.close(0);
  await app.shutdown();
});

for (const [what, forwarded] of [
  ['no parameter "for"', 'proto=https'],
  ['an unquoted IPv6', 'for=2001:db8::1'],
  ['quoted IPv6 without brackets', 'for="2001:db8::1"'],
  ['"unknown"', 'for=unknown'],
  ['the parameter "for" twice', 'for=192.0.2.1;for=192.0.2.2'],
  ['an open quote', 'for="192.0.2.1'],
  ['a stray character', 'for=192.0.2.1;;x'],
  ['an element that is not a pair', 'for'],
  ['an empty field', ''],
] as const) {
  test(`if Forwarded is malformed or has no usable address, the client has the address of the peer: ${what}`, () =>
    assert.equal(ipOf(1, '10.0.0.1', { forwarded }), '10.0.0.1'));
}

const HONEST = { 'x-forwarded-for': '203.0.113.9', 'x-forwarded-proto': 'https' };

for (const forged of [
  'junk',
  '',
  ',',
  'for=198.51.100.1',
  'for=203.0.113.9;proto=http;host=evil.test',
  'for="203.0.113.9',
  'for=203.0.113.9, for=10.0.0.1;proto=http',
]) {
  test(`behind a proxy that writes X-Forwarded-For, a client cannot change its address with Forwarded: ${JSON.stringify(forged)}`, () => {
    for (const saysHost of [false, true]) {
      assert.deepEqual(
        resolve(1, '10.0.0.1', { ...HONEST, forwarded: forged }, { header: 'x-forwarded', saysHost }),
        { ip: '203.0.113.9', scheme: 'https', host: undefined },
      );
      assert.deepEqual(resolve(1, '10.0.0.1', { forwarded: forged }, { header: 'x-forwarded', saysHost }), {
        ip: '10.0.0.1',
        scheme: undefined,
        host: undefined,
      });
    }
  });
}

test('behind a proxy that writes Forwarded, a client cannot change its address with X-Forwarded-*', () => {
  const forged = {
    'x-forwarded-for': '198.51.100.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'evil.test',
  };
  const how: ForwardedFields = { header: 'forwarded', saysHost: true };
  assert.deepEqual(resolve(1, '10.0.0.1', { ...forged, forwarded: 'for=203.0.113.9;proto=https' }, how), {
    ip: '203.0.113.9',
    scheme: 'https',
    host: undefined,
  });
  assert.deepEqual(resolve(1, '10.0.0.1', forged, how), {
    ip: '10.0.0.1',
    scheme: undefined,
    host: undefined,
  });
});

test('X-Forwarded-Host and the parameter "host" of Forwarded set the host only if trustForwardedHost is true', async () => {
  const says = { ...HONEST, 'x-forwarded-host': 'app.example' };
  assert.equal(resolve(1, '10.0.0.1', says, { saysHost: false }).host, undefined);
  assert.equal(resolve(1, '10.0.0.1', says, { saysHost: true }).host, 'app.example');
  assert.equal(
    resolve(1, '10.0.0.1', { forwarded: 'for=203.0.113.9;host=app.example' }, { saysHost: false }).host,
    undefined,
  );
  assert.equal(
    resolve(1, '10.0.0.1', { forwarded: 'for=203.0.113.9;host=app.example' }, { saysHost: true }).host,
    'app.example',
  );
});

test('a client behind a trusted proxy cannot change its address, or its rate limit, by additional header fields', async () => {
  const app = mirror({ trustProxy: 'loopback' }).use(new RateLimitMiddleware({ perMinute: 3 }));
  await using client = new TestClient(app);
  const statuses: number[] = [];
  for (const added of [
    {},
    { Forwarded: 'junk' },
    { Forwarded: 'for=10.1.1.1;host=evil.test;proto=http', 'X-Forwarded-Host': 'evil.test' },
    { Forwarded: 'x' },
  ]) {
    const response = await client.get('/', { headers: { ...HONEST, ...added } });
    statuses.push(response.status);
    if (response.status === 200)
      assert.deepEqual(await response.json(), { ip: '203.0.113.9', scheme: 'https', host: 'localhost' });
  }
  assert.deepEqual(statuses, [200, 200, 200, 429]);
});

test('"forwardedHeader" and "trustForwardedHost" can be set in the options of the application or, as text, in environment variables', async () => {
  const headers = { Forwarded: 'for=203.0.113.9;proto=https;host=app.example' };
  const expected = { ip: '203.0.113.9', scheme: 'https', host: 'app.example' };
  await using client = new TestClient(
    mirror({ trustProxy: 1, forwardedHeader: 'forwarded', trustForwardedHost: true }),
  );
  assert.deepEqual(await (await client.get('/', { headers })).json(), expected);
  const app = mirror();
  app.config.loadDict({ trustProxy: '1', forwarded_header: 'forwarded', trust_forwarded_host: 'true' });
  await using other = new TestClient(app);
  assert.deepEqual(await (await other.get('/', { headers })).json(), expected);
  assert.throws(() => new Svc({ forwardedHeader: 'x-real-ip' as never }), {
    code: 'E_OPTION_RANGE',
    message: /"x-forwarded" or "forwarded"/,
  });
  assert.throws(() => new Svc({ trustForwardedHost: 'yes' as never }), { code: 'E_OPTION_RANGE' });
  const spoilt = new Svc();
  spoilt.config.loadDict({ forwardedHeader: 'both' });
  assert.deepEqual(
    spoilt.check().findings.map(({ rule }) => rule),
    ['SVC401'],
  );
});

/** Sends requests with these header fields. Returns the log lines about an undeclared proxy. */
async function watched(
  options: ConstructorParameters<typeof Svc>[0],
  ...sent: readonly Readonly<Record<string, string>>[]
): Promise<Record<string, unknown>[]> {
  const { logger, events } = collectedLog();
  const app = mirror({ logger, ...options });
  await using client = new TestClient(app);
  for (const headers of sent) await client.get('/', { headers });
  return events.filter(({ event, logger: name }) => event === 'proxy_not_trusted' && name === 'svc_security');
}

for (const field of ['X-Forwarded-For', 'X-Forwarded-Proto', 'Forwarded']) {
  test(`if a peer with a private address sends a forwarding field and no proxy is declared, the undeclared proxy is logged once (${field})`, async () => {
    const lines = await watched({}, {}, { [field]: 'x' }, { [field]: 'x' });
    assert.deepEqual(
      lines.map(({ level, peer, field: by }) => ({ level, peer, by })),
      [{ level: 'warn', peer: '127.0.0.1', by: field.toLowerCase() }],
    );
  });
}

test('ProxyWatch looks for X-Forwarded-* and Forwarded only in the first thousand requests, and only if no proxy is declared', async () => {
  assert.deepEqual(await watched({ trustProxy: 'loopback' }, HONEST), []);
  assert.deepEqual(await watched({}, {}, { 'X-Real-Ip': '203.0.113.9' }), []);
  assert.deepEqual(await watched({}, ...Array<Fields>(1_000).fill({}), HONEST), []);
});

test('ProxyWatch reports only peers with loopback or private addresses', () => {
  for (const [ip, count] of [
    ['127.0.0.1', 1],
    ['10.0.0.7', 1],
    ['::1', 1],
    ['fd00::1', 1],
    ['203.0.113.9', 0],
    ['2001:db8::1', 0],
    ['', 0],
  ] as const) {
    const { logger, events } = collectedLog();
    const watch = new ProxyWatch(logger);
    const isOver = watch.look({ ip, id: 'r', headers: HONEST } as unknown as HttpRequest);
    assert.equal(events.length, count, ip);
    assert.equal(isOver, count === 1);
  }
});

test('scheme and host are read from the entry of the trusted proxy that received the request from the client', () => {
  const chain = { 'x-forwarded-for': '192.0.2.1, 203.0.113.9, 10.0.0.2' };
  const trust = ['10.0.0.0/8'];
  assert.equal(
    resolve(trust, '10.0.0.1', { ...chain, 'x-forwarded-proto': 'http, https, http' }).scheme,
    'https',
  );
  assert.equal(resolve(trust, '10.0.0.1', { ...chain, 'x-forwarded-proto': 'https' }).scheme, 'https');
  assert.equal(resolve(trust, '10.0.0.1', { 'x-forwarded-proto': 'http, https' }).scheme, 'https');
  assert.equal(resolve(trust, '10.0.0.1', { 'x-forwarded-proto': 'WSS' }).scheme, 'https');
  assert.equal(resolve(trust, '10.0.0.1', { 'x-forwarded-proto': 'ws' }).scheme, 'http');
  assert.equal(resolve(trust, '10.0.0.1', { 'x-forwarded-proto': 'gopher' }).scheme, undefined);
  assert.equal(
    resolve(trust, '10.0.0.1', { ...chain, 'x-forwarded-host': 'evil.example, app.example:443, inner' }).host,
    'app.example:443',
  );
  assert.equal(
    resolve(trust, '10.0.0.1', { 'x-forwarded-host': '[2001:db8::1]:80' }).host,
    '[2001:db8::1]:80',
  );
  for (const host of [
    'a b',
    'a.example/x',
    'a@b',
    '',
    `${'a'.repeat(300)}.example`,
    'a.example:port',
    '<script>',
  ])
    assert.equal(resolve(trust, '10.0.0.1', { 'x-forwarded-host': host }).host, undefined, host);
});

test('trustProxy accepts the names "loopback", "private" and "linklocal", also for addresses with a zone', () => {
  const chain = { 'x-forwarded-for': '203.0.113.9' };
  for (const [word, peer] of [
    ['loopback', '127.9.9.9'],
    ['loopback', '::1'],
    ['loopback', '::ffff:127.0.0.1'],
    ['private', '10.1.1.1'],
    ['private', '172.31.0.1'],
    ['private', '192.168.1.1'],
    ['private', 'fd12::1'],
    ['linklocal', '169.254.1.1'],
    ['linklocal', 'fe80::1%eth0'],
  ] as const)
    assert.equal(ipOf([word], peer, chain), '203.0.113.9', `${word} ${peer}`);
  for (const [word, peer] of [
    ['loopback', '128.0.0.1'],
    ['private', '172.32.0.1'],
    ['private', '127.0.0.1'],
    ['linklocal', 'fec0::1'],
    ['loopback', ''],
  ] as const)
    assert.equal(ipOf([word], peer, chain), peer, `${word} ${peer}`);
});

for (const [value, pattern] of [
  [true, /every client/],
  ['true', /every client/],
  [['all'], /every client/],
  ['*', /every client/],
  ['0.0.0.0/0', /every client/],
  ['::/0', /every client/],
  [['::ffff:0:0/96'], /every client/],
  [-1, /integer from 1 to 32/],
  [33, /integer/],
  [1.5, /integer/],
  ['33', /integer/],
  [['loopbck'], /did you mean "loopback"/],
  ['10.0.0.0/99', /neither an IP address nor a network/],
  ['proxy.example', /neither/],
  [[5], /each entry of the list of proxies must be text/],
  [{}, /a list of their addresses is needed/],
  [false, /found false/],
] as const) {
  test(`the setting trustProxy refuses a value that is invalid or trusts every client (E_TRUST_PROXY): ${JSON.stringify(value)}`, () => {
    assert.throws(
      () => readTrustProxy(value),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_TRUST_PROXY' &&
        pattern.test(error.message) &&
        error.remedy.includes('loopback'),
    );
  });
}

test('new Svc() refuses a trustProxy that trusts every proxy, and check() reports such a value from loadDict() (SVC210)', () => {
  assert.throws(() => new Svc({ trustProxy: true as never }), { code: 'E_TRUST_PROXY' });
  const app = new Svc();
  app.config.loadDict({ trust_proxy: 'true' });
  const { ok, findings } = app.check();
  assert.equal(ok, false);
  assert.deepEqual(
    findings.map(({ rule }) => rule),
    ['SVC210'],
  );
  assert.match(findings[0]!.remedy, /number \(1\) of the proxies/);
});

test('trustProxy may be a comma-separated text, as in an environment variable; an empty text and 0 trust no proxy', async () => {
  const app = mirror();
  app.config.loadDict({ trustProxy: ' 10.0.0.0/8, loopback ' });
  await using client = new TestClient(app);
  assert.equal(
    (
      (await (await client.get('/', { headers: { 'X-Forwarded-For': '203.0.113.9' } })).json()) as {
        ip: string;
      }
    ).ip,
    '203.0.113.9',
  );
  for (const nothing of [undefined, null, 0, '', ' ', [], '0'])
    assert.equal(readTrustProxy(nothing), undefined);
  assert.ok(readTrustProxy(['loopback']) instanceof ProxyTrust);
});

test('for 30,000 mutated X-Forwarded-* and Forwarded fields, ProxyTrust.resolve() never throws, and returns only addresses', () => {
  const random = seeded(23);
  const chunks = [
    '203.0.113.9',
    '10.0.0.2',
    '::1',
    '[::1]',
    ':80',
    ',',
    ', ',
    ';',
    '=',
    '"',
    '\\',
    'for=',
    'For="[2001:db8::1]"',
    'proto=https',
    'host=',
    'unknown',
    '_x',
    ' ',
    '\t',
    '%',
    '\0',
    'é',
    '::ffff:10.0.0.3',
    '1',
    '.',
  ];
  const how: readonly ForwardedFields[] = [
    { header: 'x-forwarded', saysHost: true },
    { header: 'forwarded', saysHost: true },
  ];
  const trust = how.flatMap((fields) => [
    readTrustProxy(['10.0.0.0/8', 'loopback'], fields)!,
    readTrustProxy(3, fields)!,
  ]);
  for (let round = 0; round < 30_000; round++) {
    const text = (): string =>
      Array.from({ length: random(9) }, () => chunks[random(chunks.length)]!).join('');
    const fields: Record<string, string> = {
      'x-forwarded-for': text(),
      forwarded: text(),
      'x-forwarded-proto': text(),
      'x-forwarded-host': text(),
    };
    if (random(3) === 0) delete fields['forwarded'];
    const { ip, scheme, host } = trust[random(4)]!.resolve('10.0.0.1', (name) => fields[name]);
    assert.notEqual(isIP(ip), 0, ip);
    assert.ok(scheme === undefined || scheme === 'http' || scheme === 'https');
    assert.ok(
      host === undefined ||
        URL.canParse(`http://${host.replace(/:\d+$/, '')}/`) ||
        /^[\w.-]+(?::\d+)?$/.test(host) ||
        host.startsWith('['),
      host,
    );
  }
  const long = {
    'x-forwarded-for': '10.0.0.2,'.repeat(1_700),
    forwarded: 'for="\\'.repeat(2_500),
    'x-forwarded-proto': ','.repeat(16_000),
    'x-forwarded-host': 'a'.repeat(16_000),
  };
  for (const [header, ip] of [
    ['x-forwarded', '10.0.0.2'],
    ['forwarded', '10.0.0.1'],
  ] as const)
    assert.equal(resolve(['10.0.0.0/8'], '10.0.0.1', long, { header }).ip, ip);
});
