/**
 * Keys of authorization servers at IssuerAuth(): discovery, cache, rotation, and servers that fail.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { IssuerAuth } from '../../../src/auth/issuer/guard.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Depends } from '../../../src/routing/di.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { FakeProvider, RSA, jwk, jws } from '../../oauth/support/fake-provider.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { until } from '../../support/endings.ts';
import type { TrustedIssuer } from '../../../src/auth/issuer/options.ts';
import type { Scripted } from '../../oauth/support/fake-provider.ts';

const NEW = generateKeyPairSync('rsa', { modulusLength: 2_048 });

interface Site extends AsyncDisposable {
  readonly fake: FakeProvider;
  readonly clock: ManualClock;
  readonly events: Record<string, unknown>[];
  /** Returns the status of a request with a token: by default, a valid one of the provider. */
  ask(text?: string): Promise<number>;
  token(header?: Readonly<Record<string, unknown>>, claims?: Readonly<Record<string, unknown>>): string;
}

async function site(changes: Partial<TrustedIssuer> = {}): Promise<Site> {
  const fake = await FakeProvider.start();
  const clock = new ManualClock();
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, clock });
  const guard = IssuerAuth({ issuer: fake.url, audience: 'api', allowInsecure: true, ...changes });
  app.get('/', { me: Depends(guard) }, ({ me }) => ({ sub: me.sub }));
  const client = new TestClient(app);
  const token: Site['token'] = (header, claims) => {
    const iat = Math.floor(clock.nowMs() / 1_000);
    return jws(
      { alg: 'RS256', typ: 'at+jwt', kid: 'rsa', ...header },
      { iss: fake.url, aud: 'api', sub: 'ada', iat, exp: iat + 300, ...claims },
    );
  };
  return {
    fake,
    clock,
    events,
    token,
    ask: async (text = token()) =>
      (await client.get('/', { headers: { authorization: `Bearer ${text}` } })).status,
    async [Symbol.asyncDispose]() {
      await client.close();
      await fake[Symbol.asyncDispose]();
    },
  };
}

const reasons = (events: readonly Record<string, unknown>[]): unknown[] =>
  events.filter(({ event }) => event === 'issuer_keys_unavailable').map((event) => event['reason']);

test('IssuerAuth() discovers the keys with the first token, and fetches them once for many requests', async () => {
  await using at = await site();
  assert.equal(at.fake.count(), 0);
  assert.deepEqual(await Promise.all(Array.from({ length: 20 }, () => at.ask())), Array(20).fill(200));
  assert.deepEqual([at.fake.count('discovery'), at.fake.count('jwks')], [1, 1]);
});

for (const [envs, fetching] of [
  // the second application shows that the first one has had the time to fetch its keys
  [['test', 'development'], 1],
  [['development'], 1],
  [['production'], 1],
  [['production', 'development'], 2],
] as const)
  for (const isDown of [false, true])
    test(`an application with IssuerAuth() fetches the keys in the background when it starts, except in tests (env: ${envs.join(', ')}, issuer fails: ${isDown})`, async (t) => {
      await using fake = await FakeProvider.start();
      const { logger, events } = collectedLog();
      for (const env of envs) {
        if (isDown) fake.failNext('discovery', { status: 500, body: {} });
        const app = new Svc({ logger, env, clock: new ManualClock() });
        const guard = IssuerAuth({ issuer: fake.url, audience: 'api', allowInsecure: true });
        app.get('/', { me: Depends(guard) }, ({ me }) => ({ sub: me.sub }));
        await app.startup();
        t.after(() => app.shutdown());
        assert.equal((await app.fetch(new Request('http://localhost/'))).status, 401);
      }
      if (isDown) await until(() => reasons(events).length >= fetching);
      else await until(() => fake.count('jwks') >= fetching);
      assert.deepEqual(
        [fake.count('discovery'), fake.count('jwks'), reasons(events)],
        [fetching, isDown ? 0 : fetching, isDown ? Array(fetching).fill('discovery_status_500') : []],
      );
    });

test('IssuerAuth() with jwksUri fetches no discovery document, and with jwks fetches nothing', async () => {
  await using fake = await FakeProvider.start();
  await using at = await site({ jwksUri: `${fake.url}/jwks` });
  assert.equal(await at.ask(), 200);
  assert.deepEqual([at.fake.count(), fake.count()], [0, 1]);
  await using pinned = await site({ jwks: { keys: [jwk(RSA.publicKey, { kid: 'rsa' })] } });
  assert.equal(await pinned.ask(), 200);
  assert.equal(await pinned.ask(pinned.token({ kid: 'x' })), 401);
  assert.equal(pinned.fake.count(), 0);
});

test('IssuerAuth() reads the document of RFC 8414 if the issuer has none of OpenID Connect', async () => {
  await using at = await site();
  at.fake.failNext('discovery', { status: 404, headers: { 'content-type': 'text/html' }, body: '<p>' });
  at.fake.failNext('other', { body: { issuer: at.fake.url, jwks_uri: `${at.fake.url}/jwks` } });
  assert.equal(await at.ask(), 200);
  assert.deepEqual(
    at.fake.requests.map(({ url }) => url),
    ['/.well-known/openid-configuration', '/.well-known/oauth-authorization-server', '/jwks'],
  );
});

test('no token causes a fetch unless it is well formed and names the issuer, an algorithm and the type', async () => {
  await using at = await site();
  for (const [header, claims] of [
    [{}, { iss: `${at.fake.url}/` }],
    [{}, { iss: undefined }],
    [{ alg: 'RS512' }, {}],
    [{ typ: 'JWT' }, {}],
    [{ crit: ['x'] }, {}],
    [{ jku: `${at.fake.url}/jwks` }, { iss: 'https://evil.example' }],
  ])
    assert.equal(await at.ask(at.token(header, claims)), 401);
  assert.equal(at.fake.count(), 0);
});

const hundredMegabytes: Scripted['answer'] = (response) => {
  response.writeHead(200, { 'content-type': 'application/json' });
  const chunk = Buffer.alloc(1_000_000, 0x20);
  let sent = 0;
  const send = (): void => {
    while (sent++ < 100) if (!response.write(chunk)) return void response.once('drain', send);
    response.end('{}');
  };
  send();
};

for (const [what, endpoint, scripted, reason] of [
  ['discovery with status 500', 'discovery', { status: 500, body: {} }, 'discovery_status_500'],
  [
    'discovery of another issuer',
    'discovery',
    { body: { issuer: 'https://evil.example', jwks_uri: 'https://evil.example/jwks' } },
    'discovery_other_issuer',
  ],
  ['discovery without jwks_uri', 'discovery', { body: {} }, 'discovery_other_issuer'],
  [
    'an HTML page as discovery',
    'discovery',
    { headers: { 'content-type': 'text/html' }, body: '<p>' },
    'discovery_media_type',
  ],
  ['keys with status 500', 'jwks', { status: 500, body: {} }, 'jwks_status_500'],
  [
    'an HTML page as keys',
    'jwks',
    { headers: { 'content-type': 'text/html' }, body: '<p>' },
    'jwks_media_type',
  ],
  ['HTML that claims to be JSON', 'jwks', { body: '<!doctype html>' }, 'jwks_not_json'],
  ['keys of 100 MB', 'jwks', { answer: hundredMegabytes }, 'too_large'],
  [
    'a redirect',
    'jwks',
    { status: 302, headers: { location: 'https://evil.example' }, body: {} },
    'jwks_status_302',
  ],
  ['a compressed answer', 'jwks', { headers: { 'content-encoding': 'gzip' }, body: {} }, 'encoded'],
  ['a closed connection', 'jwks', { answer: (response) => void response.destroy() }, 'first_byte_ECONNRESET'],
] as const satisfies readonly (readonly [string, 'discovery' | 'jwks', Scripted, string])[]) {
  test(`while no key is known because of ${what}, the response is 503, and a retry follows after five seconds`, async () => {
    await using at = await site();
    at.fake.failNext(endpoint, scripted);
    assert.equal(await at.ask(), 503);
    assert.deepEqual(reasons(at.events), [reason]);
    const asked = at.fake.count();
    assert.equal(await at.ask(), 503, 'at once, without another fetch');
    assert.equal(at.fake.count(), asked);
    await at.clock.advance(5_000);
    assert.equal(await at.ask(), 200);
    await at.clock.advance(3_700_000); // the known keys and the known document are old
    at.fake.failNext(endpoint, scripted);
    assert.equal(await at.ask(), 200, 'the known keys stay in use');
  });
}

for (const jwksUri of [
  undefined,
  null,
  7,
  '',
  'jwks',
  '/jwks',
  'ftp://127.0.0.1/jwks',
  ['https://127.0.0.1'],
])
  test(`discovery with the jwks_uri ${JSON.stringify(jwksUri)} is a failure`, async () => {
    await using at = await site();
    at.fake.metadata = { jwks_uri: jwksUri };
    assert.equal(await at.ask(), 503);
    assert.deepEqual(reasons(at.events), ['discovery_jwks_uri']);
    assert.equal(at.fake.count('jwks'), 0);
  });

for (const [ageMs, expected] of [
  [3_599_999, 1],
  [3_600_000, 2],
] as const)
  test(`the discovery document is used for an hour (${expected} fetches within ${ageMs} ms)`, async () => {
    await using at = await site();
    assert.equal(await at.ask(), 200);
    await at.clock.advance(ageMs);
    await at.ask(at.token({ kid: 'waits for the fetch' }));
    assert.deepEqual([at.fake.count('discovery'), at.fake.count('jwks')], [expected, 2]);
  });

test('an answer without keys is a failure, too', async () => {
  await using at = await site();
  at.fake.failNext('jwks', { body: { keys: {} } });
  assert.equal(await at.ask(), 503);
  assert.deepEqual(reasons(at.events), ['jwks_without_keys']);
});

test('the log has one line for each change between known, kept and unknown keys, however many requests get 503', async () => {
  await using at = await site();
  const logged = (): unknown[] =>
    at.events.splice(0).map(({ level, event, reason, requests }) => [level, event, reason, requests]);
  const unavailable = (reason: string, requests: string): unknown[] => ['warn', 'issuer_keys_unavailable', reason, requests]; // prettier-ignore
  const available = ['info', 'issuer_keys_available', undefined, undefined];
  for (const status of [500, 502, 500]) {
    at.fake.failNext('jwks', { status, body: {} });
    assert.deepEqual([await at.ask(), await at.ask(), await at.ask()], [503, 503, 503]);
    await at.clock.advance(5_000);
  }
  assert.deepEqual(logged(), [unavailable('jwks_status_500', 'refused')]);
  assert.deepEqual([await at.ask(), await at.ask()], [200, 200]);
  assert.deepEqual(logged(), [available]);
  for (let minute = 0; minute < 3; minute++) {
    await at.clock.advance(minute === 0 ? 600_000 : 60_000);
    at.fake.failNext('jwks', { status: 500, body: {} });
    assert.equal(await at.ask(), 200);
    await at.ask(at.token({ kid: 'waits for the fetch' }));
  }
  assert.deepEqual(logged().slice(0, 1), [unavailable('jwks_status_500', 'verified by the known keys')]);
  await at.clock.advance(86_400_000);
  at.fake.failNext('discovery', { status: 500, body: {} });
  assert.deepEqual([await at.ask(), await at.ask()], [503, 503]);
  assert.deepEqual(logged(), [unavailable('discovery_status_500', 'refused')]);
  await at.clock.advance(5_000);
  assert.equal(await at.ask(), 200);
  assert.deepEqual(logged(), [available]);
});

test('if the issuer does not answer, the response is 503 after five seconds, or after ten for a slow issuer', async () => {
  await using at = await site();
  at.fake.failNext('discovery', { answer: () => undefined });
  const hanging = at.ask();
  await at.fake.arrived(1);
  await at.clock.advance(5_000);
  assert.equal(await hanging, 503);
  assert.deepEqual(reasons(at.events), ['first_byte']);
  await at.clock.advance(5_000);
  at.fake.failNext('jwks', {
    answer: (response) => void response.writeHead(200, { 'content-type': 'application/json' }).write('{'),
  });
  const slow = at.ask();
  await at.fake.arrived(3);
  for (let second = 0; second < 10; second++) await at.clock.advance(1_000);
  assert.equal(await slow, 503);
});

test('a new key is fetched for a token with an unknown kid, at most once in ten seconds', async () => {
  await using at = await site();
  assert.equal(await at.ask(), 200);
  at.fake.keys = [jwk(NEW.publicKey, { kid: 'new' })];
  const rotated = (): string => {
    const iat = Math.floor(at.clock.nowMs() / 1_000);
    return jws(
      { alg: 'RS256', typ: 'at+jwt', kid: 'new' },
      { iss: at.fake.url, aud: 'api', sub: 'ada', iat, exp: iat + 300 },
      NEW.privateKey,
    );
  };
  assert.deepEqual(await Promise.all([at.ask(rotated()), at.ask(rotated()), at.ask()]), [200, 200, 200]);
  assert.equal(at.fake.count('jwks'), 2);
  assert.equal(await at.ask(), 401, 'the old key has left');
  for (let n = 0; n < 100; n++) assert.equal(await at.ask(at.token({ kid: `forged-${n}` })), 401);
  assert.equal(at.fake.count('jwks'), 2);
  await at.clock.advance(10_000);
  await Promise.all(Array.from({ length: 100 }, (_, n) => at.ask(at.token({ kid: `forged-${n}` }))));
  assert.equal(at.fake.count('jwks'), 3);
});

test('a token with an unknown kid is refused, not 503, while the issuer fails and other keys are known', async () => {
  await using at = await site();
  assert.equal(await at.ask(), 200);
  at.fake.failNext('jwks', { status: 500, body: {} });
  assert.equal(await at.ask(at.token({ kid: 'x' })), 401);
  assert.equal(await at.ask(), 200);
});

test('old keys are used without a wait while newer ones are fetched, for up to a day', async () => {
  await using at = await site();
  assert.equal(await at.ask(), 200);
  await at.clock.advance(600_000);
  at.fake.failNext('jwks', { answer: () => undefined });
  assert.equal(await at.ask(), 200, 'although the issuer hangs');
  await at.fake.arrived(3);
  for (let second = 0; second < 10; second++) await at.clock.advance(1_000);
  for (let hour = 0; hour < 23; hour++) {
    at.fake.failNext('jwks', { status: 503, body: {} });
    assert.equal(await at.ask(), 200);
    await at.clock.advance(3_600_000);
  }
  at.fake.failNext('jwks', { status: 503, body: {} });
  await at.clock.advance(3_600_000);
  at.fake.failNext('discovery', { status: 503, body: {} });
  assert.equal(await at.ask(), 503, 'a day without keys');
});

test('after a failed fetch, the discovery document is read again, because the URL of the keys may have changed', async () => {
  await using moved = await FakeProvider.start();
  await using at = await site();
  assert.equal(await at.ask(), 200);
  at.fake.metadata = { jwks_uri: `${moved.url}/jwks` };
  await at.clock.advance(600_000);
  at.fake.failNext('jwks', { status: 404, body: {} });
  assert.equal(await at.ask(), 200);
  await at.ask(at.token({ kid: 'waits for the fetch' }));
  await at.clock.advance(60_000);
  await at.ask(at.token({ kid: 'waits for the fetch' }));
  assert.deepEqual([at.fake.count('discovery'), moved.count('jwks')], [2, 1]);
});

test('the end of the application during a fetch is not reported as a failure of the issuer', async () => {
  const at = await site();
  at.fake.failNext('discovery', { answer: () => undefined });
  const asking = at.ask();
  await at.fake.arrived(1);
  await at[Symbol.asyncDispose]();
  await asking.catch(() => undefined);
  assert.deepEqual(reasons(at.events), []);
});

test('two issuers have separate keys, and one that fails does not affect the other', async () => {
  await using other = await FakeProvider.start();
  const fake = await FakeProvider.start();
  await using _ = fake;
  other.keys = [jwk(NEW.publicKey, { kid: 'rsa' })];
  const clock = new ManualClock();
  const app = new Svc({ clock, logger: collectedLog().logger });
  const guard = IssuerAuth([
    { issuer: fake.url, audience: 'api', allowInsecure: true },
    { issuer: other.url, audience: 'api', allowInsecure: true },
  ]);
  app.get('/', { me: Depends(guard) }, ({ me }) => ({ principal: me.principal }));
  await using client = new TestClient(app);
  const ask = async (iss: string, key = RSA.privateKey): Promise<number> => {
    const iat = Math.floor(clock.nowMs() / 1_000);
    const text = jws(
      { alg: 'RS256', typ: 'at+jwt', kid: 'rsa' },
      { iss, aud: 'api', sub: 'ada', iat, exp: iat + 300 },
      key,
    );
    return (await client.get('/', { headers: { authorization: `Bearer ${text}` } })).status;
  };
  other.failNext('jwks', { status: 500, body: {} });
  assert.deepEqual([await ask(fake.url), await ask(other.url, NEW.privateKey)], [200, 503]);
  await clock.advance(5_000);
  assert.deepEqual(
    [await ask(other.url, NEW.privateKey), await ask(other.url), await ask(fake.url, NEW.privateKey)],
    [200, 401, 401],
  );
});

test('the addresses of an issuer must be public, unless allowPrivate or allowInsecure allows others', async () => {
  await using at = await site({ issuer: 'https://127.0.0.1:9', allowInsecure: false });
  assert.equal(await at.ask(at.token({}, { iss: 'https://127.0.0.1:9' })), 503);
  assert.deepEqual(reasons(at.events), ['private_address']);
  await using inside = await site({
    jwksUri: 'https://10.0.0.1/jwks',
    allowInsecure: false,
    issuer: 'https://login.example',
  });
  assert.equal(await inside.ask(inside.token({}, { iss: 'https://login.example' })), 503);
  assert.deepEqual(reasons(inside.events), ['private_address']);
  await using named = await site();
  named.fake.metadata = { jwks_uri: 'https://169.254.169.254/latest/meta-data' };
  assert.equal(await named.ask(), 503);
  assert.deepEqual(reasons(named.events), ['private_address']);
});
