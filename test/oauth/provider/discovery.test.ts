import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Discovery } from '../../../src/oauth/provider/discovery.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { Outbound } from '../../../src/auth/provider/outbound.ts';
import { readMetadata } from '../../../src/oauth/provider/discovery.ts';
import { OAuthProvider, settingsOf } from '../../../src/oauth/provider/options.ts';
import { FakeProvider } from '../support/fake-provider.ts';
import type { OutboundAnswer, OutboundCall } from '../../../src/auth/provider/outbound.ts';
import type { OAuthProviderOptions } from '../../../src/oauth/provider/options.ts';

const METADATA = {
  issuer: 'https://own.test',
  authorization_endpoint: 'https://own.test/authorize',
  token_endpoint: 'https://own.test/token',
  userinfo_endpoint: 'https://own.test/userinfo',
  jwks_uri: 'https://own.test/jwks',
};
const RULES = { issuer: 'https://own.test', allowInsecure: false, requireSameSite: false };

function provider(options: Partial<OAuthProviderOptions> = {}): OAuthProvider {
  return new OAuthProvider({
    name: 'own',
    clientId: 'client',
    clientSecret: 'secret',
    issuer: 'https://own.test',
    ...options,
  });
}

/** Returns a Discovery whose document comes from a public or a private address. */
function discovery(
  document: unknown,
  isPrivate: boolean,
  options: Partial<OAuthProviderOptions> = {},
): { found: Discovery; calls: OutboundCall[] } {
  const calls: OutboundCall[] = [];
  const call = (call: OutboundCall): Promise<OutboundAnswer> => {
    calls.push(call);
    return Promise.resolve({
      status: 200,
      mediaType: 'application/json',
      body: Buffer.from(JSON.stringify(document)),
      isPrivate,
    });
  };
  return { found: new Discovery(settingsOf(provider(options)), { call }, new ManualClock()), calls };
}

const reason =
  (expected: string | RegExp) =>
  (error: unknown): boolean => {
    assert.ok(error instanceof ProviderFault, String(error));
    assert.equal(error.code, 'provider_error');
    if (typeof expected === 'string') assert.equal(error.reason, expected);
    else assert.match(error.reason, expected);
    return true;
  };

test('readMetadata() reads the end_session_endpoint, and refuses one that is not an https URL', () => {
  const read = (url: unknown): unknown => readMetadata({ ...METADATA, end_session_endpoint: url }, RULES);
  const metadata = read('https://own.test/end');
  assert.equal(
    typeof metadata === 'object' ? (metadata as { endSessionUrl?: string }).endSessionUrl : metadata,
    'https://own.test/end',
  );
  for (const bad of ['http://own.test/end', 'javascript:alert(1)', 5])
    assert.equal(typeof read(bad), 'string');
});

test('readMetadata() reads the endpoints, the client authentication method, and authorization_response_iss_parameter_supported', () => {
  assert.deepEqual(readMetadata(METADATA, RULES), {
    authorizeUrl: 'https://own.test/authorize',
    tokenUrl: 'https://own.test/token',
    userinfoUrl: 'https://own.test/userinfo',
    jwksUrl: 'https://own.test/jwks',
    clientAuth: 'basic',
    sendsIssuer: false,
  });
  const auth = (methods: unknown): unknown =>
    (
      readMetadata({ ...METADATA, token_endpoint_auth_methods_supported: methods }, RULES) as {
        clientAuth: unknown;
      }
    ).clientAuth;
  assert.deepEqual(
    [
      auth(['client_secret_basic', 'client_secret_post']),
      auth(['client_secret_basic']),
      auth(['private_key_jwt']),
      auth('client_secret_basic'),
    ],
    ['post', 'basic', undefined, undefined],
  );
  for (const value of ['true', 1, null])
    assert.equal(
      (
        readMetadata({ ...METADATA, authorization_response_iss_parameter_supported: value }, RULES) as {
          sendsIssuer: boolean;
        }
      ).sendsIssuer,
      false,
    );
  assert.equal(
    (
      readMetadata({ ...METADATA, authorization_response_iss_parameter_supported: true }, RULES) as {
        sendsIssuer: boolean;
      }
    ).sendsIssuer,
    true,
  );
});

test("readMetadata() requires the configured issuer and https URLs, and with requireSameSite also URLs of the issuer's site", () => {
  for (const issuer of [
    'https://own.test/',
    'https://OWN.test',
    'http://own.test',
    undefined,
    null,
    ['https://own.test'],
    'https://own.test ',
  ])
    assert.match(readMetadata({ ...METADATA, issuer }, RULES) as string, /issuer/);
  for (const name of ['authorization_endpoint', 'token_endpoint', 'userinfo_endpoint', 'jwks_uri']) {
    for (const url of [
      'http://own.test/x',
      'file:///etc/passwd',
      '//own.test/x',
      5,
      null,
      'https://u:p@own.test',
      'http://127.0.0.1/',
    ])
      assert.match(readMetadata({ ...METADATA, [name]: url }, RULES) as string, new RegExp(`^${name} `));
    assert.match(
      readMetadata(
        { ...METADATA, [name]: 'https://other.test/x' },
        { ...RULES, requireSameSite: true },
      ) as string,
      /site/,
    );
    assert.equal(
      typeof readMetadata(
        { ...METADATA, [name]: 'https://api.own.test/x' },
        { ...RULES, requireSameSite: true },
      ),
      'object',
    );
  }
});

test('Discovery refuses a metadata document that names another issuer, has a URL without https, or lacks an endpoint', async () => {
  await assert.rejects(
    Promise.resolve(discovery({ ...METADATA, issuer: 'https://evil.test' }, false).found.endpoints()),
    reason(/^discovery_issuer/),
  );
  await assert.rejects(
    Promise.resolve(
      discovery({ ...METADATA, token_endpoint: 'http://own.test/token' }, false).found.endpoints(),
    ),
    reason(/^discovery_token_endpoint_is_not_https/),
  );
  await assert.rejects(
    Promise.resolve(discovery({ issuer: 'https://own.test' }, false).found.endpoints()),
    reason('discovery_without_endpoints'),
  );
  await assert.rejects(
    Promise.resolve(discovery({ ...METADATA, jwks_uri: undefined }, false).found.endpoints()),
    reason('discovery_without_endpoints'),
  );
  await assert.rejects(
    Promise.resolve(
      discovery({ ...METADATA, userinfo_endpoint: undefined }, false, { scopes: ['a'] }).found.endpoints(),
    ),
    reason('discovery_without_endpoints'),
  );
  await assert.rejects(
    Promise.resolve(discovery([], false).found.endpoints()),
    reason('discovery_not_object'),
  );
});

test("Discovery guards the endpoints from a public provider's metadata against private addresses, but not endpoints that are set as options", async () => {
  const open = await discovery(METADATA, false).found.endpoints();
  assert.deepEqual(
    [open.token, open.userinfo, open.keys].map((each) => each?.isGuarded),
    [true, true, true],
  );
  const inside = await discovery(METADATA, true).found.endpoints();
  assert.deepEqual(
    [inside.token, inside.userinfo, inside.keys].map((each) => each?.isGuarded),
    [false, false, false],
  );
  const mixed = await discovery(METADATA, false, { tokenUrl: 'https://10.0.0.1/token' }).found.endpoints();
  assert.deepEqual(mixed.token, { url: 'https://10.0.0.1/token', isGuarded: false });
  assert.equal(mixed.userinfo?.isGuarded, true);
});

test('Discovery refuses a private address as jwks_uri of a public provider, in whichever notation the address is written', async () => {
  await using fake = await FakeProvider.start({ isTls: true });
  for (const host of [
    '169.254.169.254',
    '127.0.0.1',
    '[::ffff:127.0.0.1]',
    '10.0.0.1',
    '0x7f.1',
    '[::1]',
    'localhost',
    '2130706433',
    '172.16.0.1',
    '192.168.0.1',
  ]) {
    const { keys } = await discovery(
      { ...METADATA, jwks_uri: `https://${host}:${fake.port}/jwks` },
      false,
    ).found.endpoints();
    await assert.rejects(
      new Outbound({ clock: new ManualClock(), timeoutMs: 10_000 }).call({ method: 'GET', ...keys! }),
      reason('private_address'),
      host,
    );
  }
  assert.equal(fake.sockets.size + fake.count(), 0);
});

test('Discovery makes one fetch for all waiting logins, caches the metadata, and fetches again after a failure', async () => {
  const answers: PromiseWithResolvers<OutboundAnswer>[] = [];
  const call = (): Promise<OutboundAnswer> => {
    const answer = Promise.withResolvers<OutboundAnswer>();
    answers.push(answer);
    return answer.promise;
  };
  const found = new Discovery(settingsOf(provider()), { call }, new ManualClock());
  const first = [found.endpoints(), found.endpoints()];
  assert.equal(answers.length, 1);
  answers[0]!.reject(new ProviderFault('provider_timeout', 'connect'));
  for (const each of first) await assert.rejects(Promise.resolve(each), ProviderFault);
  const second = found.endpoints();
  answers[1]!.resolve({
    status: 200,
    mediaType: 'application/json',
    body: Buffer.from(JSON.stringify(METADATA)),
    isPrivate: true,
  });
  assert.equal((await second).clientAuth, 'basic');
  assert.equal(found.endpoints(), found.endpoints());
  assert.equal(answers.length, 2);
});

test('after one hour, Discovery fetches the metadata again in the background, and uses the old metadata until a fetch succeeds', async () => {
  const clock = new ManualClock();
  const answers: { token: string | undefined }[] = [{ token: 'one' }, { token: undefined }, { token: 'two' }];
  let calls = 0;
  const call = async (): Promise<OutboundAnswer> => {
    const { token } = answers[calls++]!;
    if (token === undefined) throw new ProviderFault('provider_timeout', 'connect');
    return {
      status: 200,
      mediaType: 'application/json',
      body: Buffer.from(JSON.stringify({ ...METADATA, token_endpoint: `https://id.example/${token}` })),
      isPrivate: true,
    };
  };
  const found = new Discovery(settingsOf(provider({ issuer: METADATA.issuer })), { call }, clock);
  const tokenUrl = async (): Promise<string> => (await found.endpoints()).token.url;
  assert.equal(await tokenUrl(), 'https://id.example/one');
  await clock.advance(3_599_999);
  assert.deepEqual([await tokenUrl(), calls], ['https://id.example/one', 1]);
  await clock.advance(1);
  assert.deepEqual([await tokenUrl(), calls], ['https://id.example/one', 2], 'which fails');
  await clock.advance(59_999);
  assert.deepEqual([await tokenUrl(), calls], ['https://id.example/one', 2]);
  await clock.advance(1);
  await tokenUrl();
  await clock.advance(0);
  assert.deepEqual([await tokenUrl(), calls], ['https://id.example/two', 3]);
});

test('Discovery treats null members as absent, both in fetched metadata and in the option "metadata"', async () => {
  const document = {
    ...METADATA,
    userinfo_endpoint: null,
    token_endpoint_auth_methods_supported: null,
    authorization_response_iss_parameter_supported: null,
  };
  for (const { found } of [discovery(document, true), discovery(undefined, true, { metadata: document })]) {
    const { userinfo, clientAuth, sendsIssuer } = await found.endpoints();
    assert.deepEqual([userinfo, clientAuth, sendsIssuer], [undefined, 'basic', false]);
  }
  await assert.rejects(
    Promise.resolve(discovery({ ...METADATA, token_endpoint: null }, true).found.endpoints()),
    reason('discovery_without_endpoints'),
  );
  assert.throws(() => provider({ metadata: { ...METADATA, jwks_uri: null } }), {
    code: 'E_OAUTH_PROVIDER',
    message: /keys of the provider are missing/,
  });
});

test('Discovery fetches the metadata from discoveryUrl, but only if the options lack a required endpoint', async () => {
  const { found, calls } = discovery(METADATA, true, {
    discoveryUrl: 'https://own.test/meta',
    clientAuth: 'basic',
  });
  await found.endpoints();
  assert.deepEqual(calls, [{ method: 'GET', url: 'https://own.test/meta' }]);
  const urls = {
    authorizeUrl: 'https://own.test/a',
    tokenUrl: 'https://own.test/t',
    userinfoUrl: 'https://own.test/u',
  };
  const cases: readonly (readonly [options: Partial<OAuthProviderOptions>, asks: number])[] = [
    [{}, 1],
    [urls, 1],
    [{ ...urls, jwksUrl: 'https://own.test/k' }, 0],
    [{ ...urls, userinfoUrl: undefined, jwks: { keys: [] } }, 0],
    [{ ...urls, scopes: ['a'] }, 0],
    [{ ...urls, scopes: ['a'], userinfoUrl: undefined }, 1],
    [{ ...urls, jwksUrl: 'https://own.test/k', tokenUrl: undefined }, 1],
    [{ ...urls, jwksUrl: 'https://own.test/k', authorizeUrl: undefined }, 1],
  ];
  for (const [options, asks] of cases) {
    const { found: each, calls: made } = discovery(METADATA, true, options);
    await each.endpoints();
    assert.equal(made.length, asks, JSON.stringify(options));
  }
});

test('if the option "metadata" is set, Discovery fetches nothing, and uses the issuer in this option', async () => {
  const { found, calls } = discovery(undefined, true, {
    issuer: undefined,
    metadata: { ...METADATA, token_endpoint_auth_methods_supported: ['client_secret_post'] },
  });
  const { authorizeUrl, token, clientAuth } = await found.endpoints();
  assert.deepEqual(
    [authorizeUrl, token, clientAuth],
    ['https://own.test/authorize', { url: 'https://own.test/token', isGuarded: false }, 'post'],
  );
  assert.equal(calls.length, 0);
});
