import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { BearerAuth, CSRFMiddleware, Depends, IdempotencyMiddleware, SessionMiddleware, Svc } from 'svc';
import { OAuthPlugin, currentUser } from 'svc/oauth';
import { TestClient } from 'svc/testing';
import { SvcError } from '../../../src/base/errors.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { DevProvider } from '../../../src/oauth/dev-provider/dev-provider.ts';
import { ProviderClient } from '../../../src/oauth/provider/client.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { challengeOf } from '../support/fake-provider.ts';
import { SECRET } from '../support/site.ts';
import type { Env } from 'svc';
import type { DevProviderOptions, DevResponse } from '../../../src/oauth/dev-provider/dev-provider.ts';

const CALLBACK = 'http://127.0.0.1:8000/oauth/callback';
const VERIFIER = 'v'.repeat(43);
const QUERY = {
  client_id: 'dev-client',
  redirect_uri: CALLBACK,
  response_type: 'code',
  scope: 'openid email profile',
  state: 's&1',
  nonce: 'n-1',
  code_challenge: challengeOf(VERIFIER),
  code_challenge_method: 'S256',
};

function provider(options: Partial<DevProviderOptions> = {}): DevProvider {
  return new DevProvider({
    env: 'test',
    redirectUris: [CALLBACK],
    issuer: 'http://127.0.0.1:8000/_dev/provider',
    ...options,
  });
}

type Parameters = Readonly<Record<string, string | undefined>> | string;

function encoded(parameters: Parameters): string {
  return typeof parameters === 'string'
    ? parameters
    : new URLSearchParams(
        Object.entries(parameters).filter((pair): pair is [string, string] => pair[1] !== undefined),
      ).toString();
}

function get(
  dev: DevProvider,
  path: string,
  query: Parameters = {},
  headers: Record<string, string> = {},
): Promise<DevResponse> {
  return dev.handle({ method: 'GET', path, query: encoded(query), headers, body: '' });
}

function post(
  dev: DevProvider,
  path: string,
  body: Parameters,
  headers: Record<string, string> = {},
): Promise<DevResponse> {
  return dev.handle({
    method: 'POST',
    path,
    query: '',
    headers: { 'content-type': 'application/x-www-form-urlencoded; charset=utf-8', ...headers },
    body: encoded(body),
  });
}

/** Returns the parameters of a redirect back to the application. */
function back({ status, headers: { location } }: DevResponse): Record<string, string> {
  assert.equal(status, 303);
  assert.ok(location?.startsWith(`${CALLBACK}?`), location);
  return Object.fromEntries(new URL(location!).searchParams);
}

async function codeOf(dev: DevProvider, more: Parameters = {}): Promise<string> {
  return back(await post(dev, '/authorize', { ...QUERY, user: 'ada', ...(more as object) }))['code']!;
}

const exchange = (code: string): Record<string, string> => ({
  grant_type: 'authorization_code',
  code,
  redirect_uri: CALLBACK,
  code_verifier: VERIFIER,
  client_id: 'dev-client',
  client_secret: 'dev-secret',
});

function body(response: DevResponse): Record<string, unknown> {
  assert.equal(response.headers['content-type'], 'application/json');
  return JSON.parse(response.body) as Record<string, unknown>;
}

function claimsIn(token: unknown): Record<string, unknown> {
  return JSON.parse(Buffer.from((token as string).split('.')[1]!, 'base64url').toString()) as Record<
    string,
    unknown
  >;
}

for (const idTokenAlgorithm of ['RS256', 'ES256'] as const) {
  test(`with ${idTokenAlgorithm}, ProviderClient completes an OpenID Connect login at DevProvider over HTTP, with PKCE, nonce, iss and user info`, async (t) => {
    const clock = new ManualClock();
    const dev = new DevProvider({ env: 'test', redirectUris: [CALLBACK], idTokenAlgorithm, clock });
    t.after(() => dev.stop());
    await dev.start();
    const client = new ProviderClient(dev.provider(), { clock, log: collectedLog().logger });
    t.after(() => client.close());
    const verifier = randomBytes(32).toString('base64url');
    const url = await client.authorizationUrl({
      redirectUri: CALLBACK,
      state: 'state',
      challenge: challengeOf(verifier),
      nonce: 'nonce',
      extra: { max_age: '60' },
    });
    const { code, state, iss } = Object.fromEntries(
      new URL(await dev.pick(url, 'ada')).searchParams,
    ) as Record<string, string>;
    assert.deepEqual([state, iss], ['state', dev.url]);
    await client.checkIssuer(iss);
    await assert.rejects(
      client.checkIssuer(undefined),
      (error) => error instanceof ProviderFault && error.code === 'issuer_mismatch',
    );
    const { info, tokens } = await client.identify({
      code: code!,
      redirectUri: CALLBACK,
      verifier,
      nonce: 'nonce',
      maxAgeSeconds: 60,
    });
    assert.deepEqual(
      { ...info, raw: undefined },
      {
        subject: 'ada',
        email: 'ada@example.test',
        emailVerified: true,
        name: 'Ada Lovelace',
        picture: null,
        raw: undefined,
      },
    );
    assert.deepEqual([tokens.expiresInSeconds, tokens.scope], [3600, 'openid email profile']);
    await assert.rejects(
      client.identify({ code: code!, redirectUri: CALLBACK, verifier, nonce: 'nonce' }),
      (error) => error instanceof ProviderFault && error.reason === 'token_status_400_invalid_grant',
    );
    client.close();
    await dev.stop();
    await dev.stop();
  });
}

test('DevProvider refuses the environment "production" and unknown options, and its property "url" throws before start()', async (t) => {
  const refused =
    (code: string, problem: RegExp) =>
    (error: unknown): boolean =>
      error instanceof SvcError && error.code === code && problem.test(error.message);
  assert.throws(() => provider({ env: 'production' }), refused('E_DEV_PROVIDER', /production/));
  const before = process.env['SVC_ENV'];
  process.env['SVC_ENV'] = 'production';
  try {
    assert.throws(() => provider({ env: undefined }), refused('E_DEV_PROVIDER', /production/));
    assert.ok(provider({ env: 'development' }));
    delete process.env['SVC_ENV'];
    assert.throws(
      () => provider({ env: undefined }),
      refused('E_DEV_PROVIDER', /neither the option "env" nor SVC_ENV/),
      'an application without SVC_ENV runs for production',
    );
    process.env['SVC_ENV'] = 'test';
    assert.ok(provider({ env: undefined }));
  } finally {
    if (before === undefined) delete process.env['SVC_ENV'];
    else process.env['SVC_ENV'] = before;
  }
  assert.throws(
    () => new DevProvider({ env: 'test' } as DevProviderOptions),
    refused('E_DEV_PROVIDER', /redirectUris/),
  );
  assert.throws(() => provider({ redirectUris: [] }), refused('E_OPTION_RANGE', /redirectUris/));
  assert.throws(() => provider({ redirectUris: ['callback'] }), refused('E_OPTION_RANGE', /redirectUris/));
  assert.throws(() => provider({ users: [{ sub: '' }] }), refused('E_OPTION_RANGE', /users/));
  assert.throws(() => provider({ user: [] } as never), refused('E_OPTION_UNKNOWN', /users/));
  assert.throws(() => provider({ issuer: undefined }).url, refused('E_DEV_PROVIDER', /no URL before start/));
  const taken = provider();
  t.after(() => taken.stop());
  await taken.start();
  assert.equal(taken.url, 'http://127.0.0.1:8000/_dev/provider');
  await taken.stop();
});

test('DevProvider publishes metadata in which every URL is below its issuer', async () => {
  const dev = provider();
  const metadata = body(await get(dev, '/.well-known/openid-configuration'));
  assert.equal(metadata['issuer'], dev.url);
  for (const name of ['authorization_endpoint', 'token_endpoint', 'userinfo_endpoint', 'jwks_uri'])
    assert.ok((metadata[name] as string).startsWith(`${dev.url}/`));
  assert.deepEqual(
    [
      metadata['code_challenge_methods_supported'],
      metadata['authorization_response_iss_parameter_supported'],
      metadata['id_token_signing_alg_values_supported'],
      metadata['scopes_supported'],
    ],
    [['S256'], true, ['RS256'], ['openid', 'email', 'profile']],
  );
  const { keys } = body(await get(dev, '/jwks')) as { keys: Record<string, unknown>[] };
  assert.deepEqual(
    keys.map(({ kty, alg, use }) => [kty, alg, use]),
    [
      ['RSA', 'RS256', 'sig'],
      ['EC', 'ES256', 'sig'],
    ],
  );
  assert.ok(keys.every((key) => !('d' in key)));
});

test('DevProvider answers 404 for unknown paths, and 405 with Allow for wrong methods', async () => {
  const dev = provider();
  assert.equal((await get(dev, '/')).status, 404);
  assert.equal((await get(dev, '/__proto__')).status, 404);
  for (const [method, path, allow] of [
    ['GET', '/token', 'POST'],
    ['PUT', '/authorize', 'GET, HEAD, POST'],
    ['POST', '/jwks', 'GET, HEAD'],
    ['DELETE', '/userinfo', 'GET, HEAD, POST'],
  ] as const) {
    const { status, headers } = await dev.handle({ method, path, query: '', headers: {}, body: '' });
    assert.deepEqual([status, headers['allow']], [405, allow]);
  }
  assert.equal(
    (await dev.handle({ method: 'HEAD', path: '/jwks', query: '', headers: {}, body: '' })).status,
    200,
  );
});

test('the login page of DevProvider lists the users with escaped names, has no scripts, and can be used with keyboard and screen reader', async () => {
  const dev = provider({
    users: [{ sub: '"><script>', name: '<b>Ada</b> & co', email: "o'x@example.test" }, { sub: 'plain' }],
  });
  const {
    status,
    headers,
    body: html,
  } = await get(dev, '/authorize', { ...QUERY, state: '"><img src=x onerror=alert(1)>' });
  assert.equal(status, 200);
  assert.match(
    headers['content-security-policy']!,
    /^default-src 'none'; style-src 'sha256-[\w+/=]+'; form-action 'self' http:\/\/127\.0\.0\.1:8000; base-uri 'none'; frame-ancestors 'none'$/,
  );
  assert.deepEqual(
    [
      headers['content-type'],
      headers['cache-control'],
      headers['referrer-policy'],
      headers['x-content-type-options'],
      headers['x-frame-options'],
    ],
    ['text/html; charset=utf-8', 'no-store', 'no-referrer', 'nosniff', 'DENY'],
  );
  for (const wrong of ['<script', '<b>', '<img', 'onerror=alert(1)>', ' style='])
    assert.ok(!html.includes(wrong), wrong);
  assert.match(html, /^<!doctype html>\n<html lang="en">/);
  for (const needed of [
    '<title>Choose who to be</title>',
    '<main>',
    '<h1>Choose who to be</h1>',
    '<form method="post" action="authorize">',
    '&#60;b&#62;Ada&#60;/b&#62; &#38; co',
    '<small>plain</small>',
    'name="deny"',
  ])
    assert.ok(html.includes(needed), needed);
});

test('DevProvider redirects with code, state and iss when the visitor chooses a user, and with access_denied when the visitor cancels the login', async () => {
  const dev = provider();
  const { code, ...others } = back(await post(dev, '/authorize', { ...QUERY, user: 'alan' }));
  assert.match(code!, /^[\w-]{43}$/);
  assert.deepEqual(others, { state: 's&1', iss: dev.url });
  assert.deepEqual(back(await post(dev, '/authorize', { ...QUERY, deny: '1' })), {
    error: 'access_denied',
    state: 's&1',
    iss: dev.url,
  });
  assert.equal((await post(dev, '/authorize', { ...QUERY, user: 'nobody' })).status, 200);
  const linked = await get(dev, '/authorize', { ...QUERY, user: 'ada', deny: '1' });
  assert.equal(linked.status, 200, 'a link logs nobody in, and cancels nothing');
  assert.equal(linked.body.match(/name="(?:user|deny)"/g)?.length, 3);
  assert.ok(!linked.body.includes('type="hidden" name="deny"'));
  assert.equal(
    new URL(await dev.pick(`${dev.url}/authorize?${encoded(QUERY)}`, undefined)).searchParams.get('error'),
    'access_denied',
  );
  await assert.rejects(dev.pick(`${dev.url}/authorize?client_id=x`, 'ada'), /with the status 400/);
});

test('DevProvider keeps the query of a redirect URI and appends its parameters to it', async () => {
  const dev = provider({ redirectUris: [`${CALLBACK}?via=dev`] });
  const { headers } = await post(dev, '/authorize', {
    ...QUERY,
    redirect_uri: `${CALLBACK}?via=dev`,
    state: undefined,
    user: 'ada',
  });
  assert.match(headers['location']!, /callback\?via=dev&code=[\w-]+&iss=/);
});

test('DevProvider shows an error page and does not redirect if the client is unknown or the redirect URI is not registered', async () => {
  const dev = provider();
  for (const wrong of [
    { client_id: 'other' },
    { client_id: undefined },
    { redirect_uri: `${CALLBACK}/` },
    { redirect_uri: undefined },
    { redirect_uri: 'javascript:alert(1)' },
  ]) {
    const { status, headers, body: html } = await get(dev, '/authorize', { ...QUERY, ...wrong });
    assert.deepEqual(
      [status, headers['location'], headers['content-type']],
      [400, undefined, 'text/html; charset=utf-8'],
    );
    assert.match(html, /This login cannot go on/);
    assert.match(headers['content-security-policy']!, /form-action 'none'/);
  }
  assert.equal(
    (await get(dev, '/authorize', `${encoded(QUERY)}&redirect_uri=${encodeURIComponent(CALLBACK)}`)).status,
    400,
  );
});

test('DevProvider redirects with an error if an authorization request from a valid client with a valid redirect URI is invalid (RFC 6749 §4.1.2.1)', async () => {
  const dev = provider();
  const cases: readonly (readonly [wrong: Readonly<Record<string, string | undefined>>, error: string])[] = [
    [{ response_type: undefined }, 'invalid_request'],
    [{ response_type: 'token' }, 'unsupported_response_type'],
    [{ response_mode: 'form_post' }, 'invalid_request'],
    [{ request: 'jwt' }, 'request_not_supported'],
    [{ request_uri: 'https://x.test' }, 'request_uri_not_supported'],
    [{ code_challenge: undefined }, 'invalid_request'],
    [{ code_challenge: 'short' }, 'invalid_request'],
    [{ code_challenge_method: 'plain' }, 'invalid_request'],
    [{ code_challenge_method: undefined }, 'invalid_request'],
    [{ prompt: 'none' }, 'login_required'],
  ];
  for (const [wrong, error] of cases)
    assert.deepEqual(
      back(await get(dev, '/authorize', { ...QUERY, ...wrong })),
      { error, state: 's&1', iss: dev.url },
      JSON.stringify(wrong),
    );
  assert.equal(back(await get(dev, '/authorize', `${encoded(QUERY)}&scope=a`))['error'], 'invalid_request');
  assert.equal((await get(dev, '/authorize', { ...QUERY, prompt: 'login' })).status, 200);
});

test('DevProvider accepts a code once and only with the right code verifier, and returns an id_token with the claims of the user', async () => {
  const clock = new ManualClock();
  const dev = provider({
    clock,
    users: [
      {
        sub: 'ada',
        name: 'Ada',
        email: 'a@x.test',
        emailVerified: false,
        picture: 'https://x.test/a',
        claims: { role: 'admin', sub: 'not this' },
      },
    ],
  });
  const code = await codeOf(dev);
  const answer = await post(dev, '/token', exchange(code));
  assert.deepEqual(
    [answer.status, answer.headers['cache-control'], answer.headers['pragma']],
    [200, 'no-store', 'no-cache'],
  );
  const { access_token: accessToken, token_type: type, id_token: idToken } = body(answer);
  assert.equal(type, 'Bearer');
  const iat = Math.floor(clock.nowMs() / 1000);
  const { at_hash: atHash, ...claims } = claimsIn(idToken);
  assert.equal((atHash as string).length, 22);
  assert.deepEqual(claims, {
    iss: dev.url,
    aud: 'dev-client',
    sub: 'ada',
    iat,
    exp: iat + 3600,
    auth_time: iat,
    nonce: 'n-1',
    name: 'Ada',
    email: 'a@x.test',
    email_verified: false,
    picture: 'https://x.test/a',
    role: 'admin',
  });
  const me = (token: unknown): Promise<DevResponse> =>
    get(dev, '/userinfo', {}, { authorization: `Bearer ${token as string}` });
  assert.deepEqual(body(await me(accessToken)), {
    sub: 'ada',
    name: 'Ada',
    email: 'a@x.test',
    email_verified: false,
    picture: 'https://x.test/a',
    role: 'admin',
  });
  assert.equal(body(await post(dev, '/token', exchange(code)))['error'], 'invalid_grant');
  assert.equal((await me(accessToken)).status, 401, 'a code that comes again takes its token with it');
});

test('authorization codes of DevProvider expire after a minute and tokens after an hour, and at most a thousand of each are stored', async () => {
  const clock = new ManualClock();
  const dev = provider({ clock });
  const [late, token] = [
    await codeOf(dev),
    body(await post(dev, '/token', exchange(await codeOf(dev))))['access_token'] as string,
  ];
  await clock.advance(60_000);
  assert.equal(body(await post(dev, '/token', exchange(late)))['error'], 'invalid_grant');
  const me = { authorization: `bearer ${token}` };
  await clock.advance(3_539_999);
  assert.equal((await get(dev, '/userinfo', {}, me)).status, 200);
  await clock.advance(1);
  assert.equal((await get(dev, '/userinfo', {}, me)).status, 401);
  const first = await codeOf(dev);
  const second = await codeOf(dev);
  for (let index = 0; index < 999; index++) await codeOf(dev);
  assert.equal((await post(dev, '/token', exchange(first))).status, 400);
  assert.equal((await post(dev, '/token', exchange(second))).status, 200);
});

test('DevProvider invalidates an authorization code when a client presents it with a wrong verifier or redirect URI', async () => {
  const dev = provider();
  for (const wrong of [
    { code_verifier: 'w'.repeat(43) },
    { code_verifier: '' },
    { code_verifier: 'short' },
    { redirect_uri: `${CALLBACK}/` },
    { redirect_uri: '' },
  ]) {
    const code = await codeOf(dev);
    assert.equal(body(await post(dev, '/token', { ...exchange(code), ...wrong }))['error'], 'invalid_grant');
    assert.equal(body(await post(dev, '/token', exchange(code)))['error'], 'invalid_grant');
  }
  assert.equal(body(await post(dev, '/token', exchange('unknown')))['error'], 'invalid_grant');
  const { code_verifier: _, ...without } = exchange(await codeOf(dev));
  assert.equal(body(await post(dev, '/token', without))['error'], 'invalid_grant');
});

test('DevProvider accepts client credentials in the Authorization header or in the form, but not in both', async () => {
  const dev = provider({ clientSecret: 's%:\u00e4' });
  const basic = (id: string, secret: string): Record<string, string> => ({
    authorization: `Basic ${Buffer.from([id, secret].map((part) => encodeURIComponent(part)).join(':')).toString('base64')}`,
  });
  const form = async (): Promise<Record<string, string>> => {
    const { client_id, client_secret, ...others } = exchange(await codeOf(dev));
    return others;
  };
  assert.equal((await post(dev, '/token', await form(), basic('dev-client', 's%:\u00e4'))).status, 200);
  assert.equal(
    (
      await post(
        dev,
        '/token',
        { ...(await form()), client_id: 'dev-client' },
        basic('dev-client', 's%:\u00e4'),
      )
    ).status,
    200,
  );
  assert.equal(
    (await post(dev, '/token', { ...(await form()), client_id: 'dev-client', client_secret: 's%:\u00e4' }))
      .status,
    200,
  );
  for (const [headers, more, status, error] of [
    [basic('dev-client', 'wrong'), {}, 401, 'invalid_client'],
    [basic('other', 's%:\u00e4'), {}, 401, 'invalid_client'],
    [{ authorization: 'Bearer x' }, {}, 401, 'invalid_client'],
    [basic('dev-client', 's%:\u00e4'), { client_id: 'other' }, 401, 'invalid_client'],
    [basic('dev-client', 's%:\u00e4'), { client_secret: 's%:\u00e4' }, 400, 'invalid_request'],
    [{}, { client_id: 'dev-client', client_secret: 'wrong' }, 401, 'invalid_client'],
    [{}, { client_id: 'dev-client' }, 401, 'invalid_client'],
    [{}, {}, 401, 'invalid_client'],
  ] as const) {
    const answer = await post(
      dev,
      '/token',
      { ...(await form()), ...more },
      headers as Record<string, string>,
    );
    assert.deepEqual(
      [answer.status, body(answer)['error'], answer.headers['www-authenticate']],
      [
        status,
        error,
        status === 401 && Object.keys(headers).length > 0 ? 'Basic realm="DevProvider"' : undefined,
      ],
    );
  }
});

test('DevProvider refuses malformed token requests with the error codes of RFC 6749 §5.2', async () => {
  const dev = provider();
  const { code, ...noCode } = exchange('x');
  const { grant_type, ...noGrant } = exchange('x');
  for (const [form, error] of [
    [noCode, 'invalid_request'],
    [noGrant, 'invalid_request'],
    [{ ...exchange('x'), grant_type: 'refresh_token' }, 'unsupported_grant_type'],
    [`${encoded(exchange('x'))}&code=y`, 'invalid_request'],
  ] as const) {
    assert.equal(body(await post(dev, '/token', form))['error'], error);
  }
  assert.equal(
    body(await post(dev, '/token', exchange('x'), { 'content-type': 'application/json' }))['error'],
    'invalid_client',
  );
  assert.deepEqual([code, grant_type], ['x', 'authorization_code']);
});

test('DevProvider issues an id_token only for the scope openid, with the claims of the granted scopes and the requested nonce', async () => {
  const dev = provider({ users: [{ sub: 'ada' }, { sub: 'alan', email: 'alan@x.test' }] });
  const token = body(
    await post(dev, '/token', exchange(await codeOf(dev, { scope: 'email', user: 'alan' }))),
  );
  assert.deepEqual([token['id_token'], token['scope']], [undefined, 'email']);
  assert.deepEqual(
    body(await get(dev, '/userinfo', {}, { authorization: `Bearer ${token['access_token'] as string}` })),
    { sub: 'alan', email: 'alan@x.test', email_verified: true },
  );
  const bare = body(
    await post(
      dev,
      '/token',
      exchange(await codeOf(dev, { scope: 'openid profile email', nonce: undefined })),
    ),
  );
  assert.deepEqual(Object.keys(claimsIn(bare['id_token'])).sort(), [
    'at_hash',
    'aud',
    'auth_time',
    'exp',
    'iat',
    'iss',
    'sub',
  ]);
  assert.equal(
    body(await post(dev, '/token', exchange(await codeOf(dev, { scope: undefined }))))['scope'],
    '',
  );
});

test('DevProvider answers 401 to a user-info request that has no valid token (RFC 6750 §3)', async () => {
  const dev = provider();
  assert.deepEqual(
    [
      (await get(dev, '/userinfo')).headers['www-authenticate'],
      (await post(dev, '/userinfo', {}, { authorization: 'Bearer wrong' })).headers['www-authenticate'],
    ],
    ['Bearer', 'Bearer error="invalid_token"'],
  );
  assert.deepEqual(body(await get(dev, '/userinfo')), { error: 'invalid_token' });
});

test('DevProvider listens only on 127.0.0.1, refuses large bodies, answers HEAD requests, and survives aborted requests', async (t) => {
  const dev = new DevProvider({ env: 'test', redirectUris: [CALLBACK] });
  t.after(() => dev.stop());
  await dev.start();
  assert.equal(new URL(dev.url).hostname, '127.0.0.1');
  assert.equal((await fetch(`${dev.url}/token`, { method: 'POST', body: 'x'.repeat(65_537) })).status, 413);
  const head = await fetch(`${dev.url}/jwks`, { method: 'HEAD' });
  assert.deepEqual([head.status, await head.text()], [200, '']);
  assert.equal(
    (await fetch(`${dev.url}/authorize?${encoded(QUERY)}`)).headers.get('content-type'),
    'text/html; charset=utf-8',
  );
  const socket = connect(Number(new URL(dev.url).port), '127.0.0.1');
  t.after(() => socket.destroy());
  await once(socket, 'connect');
  socket.end('POST /token HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nabc');
  socket.resume();
  await once(socket, 'close');
  assert.equal((await fetch(`${dev.url}/jwks`)).status, 200);
  const taken = new DevProvider({
    env: 'test',
    redirectUris: [CALLBACK],
    port: Number(new URL(dev.url).port),
  });
  t.after(() => taken.stop());
  await assert.rejects(taken.start(), (error: NodeJS.ErrnoException) => error.code === 'EADDRINUSE');
  await dev.stop();
});

/** Returns an application in cookie mode that serves its own provider. */
function mounted(
  redirectUris: readonly string[],
  path?: string,
  env: Env = 'test',
): { readonly app: Svc; readonly dev: DevProvider } {
  const app = new Svc({ authSecret: SECRET, logger: collectedLog().logger, env });
  const dev = new DevProvider({ env: 'test', redirectUris });
  const options = redirectUris.every((each) => each.startsWith('/'))
    ? {}
    : { allowedRedirectUris: redirectUris };
  app.register(
    new OAuthPlugin({
      provider: dev.mount(app, path),
      mode: 'cookie',
      onUser: (_provider, info) => info.subject,
      ...options,
    }),
  );
  app.use(new SessionMiddleware()).use(new CSRFMiddleware());
  app.get('/', ({ req }) => req.session.get(currentUser) ?? 'nobody');
  return { app, dev };
}

/** Starts a login, presses a button, and returns the response of the callback. */
async function presses(client: TestClient, user: string): Promise<Response> {
  const page = new URL((await client.get('/oauth/login')).headers.get('location')!);
  assert.equal((await client.get(page.href)).status, 200);
  const answer = await client.post(page.origin + page.pathname, {
    form: { ...Object.fromEntries(page.searchParams), user },
  });
  assert.equal(answer.status, 303, await answer.text());
  return client.get(answer.headers.get('location')!);
}

for (const path of [undefined, '/who/are/you']) {
  test(`if DevProvider is mounted at ${path ?? 'its default path'}, users can log in at every address of the application, without a second port`, async (t) => {
    const { app } = mounted(['/oauth/callback'], path);
    await using client = new TestClient(app);
    assert.equal((await presses(client, 'ada')).headers.get('location'), '/');
    assert.equal(await (await client.get('/')).text(), 'ada');
    const server = await mounted(['/oauth/callback'], path).app.run({ port: 0, handleSignals: false });
    t.after(() => server.close());
    for (const url of [server.url, server.url.replace('127.0.0.1', 'localhost')]) {
      const begun = await fetch(`${url}/oauth/login`, { redirect: 'manual' });
      const page = new URL(begun.headers.get('location')!);
      assert.equal(page.href.split('?')[0], `${url}${path ?? '/_dev/provider'}/authorize`);
      const picked = await fetch(page.origin + page.pathname, {
        method: 'POST',
        body: new URLSearchParams({ ...Object.fromEntries(page.searchParams), user: 'alan' }),
        redirect: 'manual',
      });
      const cookie = begun.headers
        .getSetCookie()
        .map((each) => each.split(';', 1)[0])
        .join('; ');
      const back = await fetch(picked.headers.get('location')!, {
        headers: { cookie },
        redirect: 'manual',
      });
      assert.deepEqual([back.status, back.headers.get('location')], [303, '/']);
      assert.ok(back.headers.getSetCookie().some((each) => each.startsWith('svc_access=ey')));
      const metadata = (await (
        await fetch(`${url}${path ?? '/_dev/provider'}/.well-known/openid-configuration`)
      ).json()) as Record<string, string>;
      assert.equal(metadata['token_endpoint'], `${url}${path ?? '/_dev/provider'}/token`);
    }
  });
}

test('the error pages of DevProvider name the URL that is not registered, and the registered ones', async () => {
  const dev = provider();
  const redirect = await get(dev, '/authorize', { ...QUERY, redirect_uri: `${CALLBACK}/other` });
  assert.ok(
    redirect.body.includes(
      `The redirect_uri is ${CALLBACK}/other. The option redirectUris of DevProvider has ${CALLBACK}`,
    ),
  );
  const logout = await get(dev, '/logout', { client_id: dev.clientId, post_logout_redirect_uri: CALLBACK });
  assert.match(
    logout.body,
    /The post_logout_redirect_uri is .*The option postLogoutRedirectUris of DevProvider has no entry\./,
  );
});

test('a mounted DevProvider accepts a redirect URI that equals a registered URL, or a registered path at the origin of the request', async () => {
  const { app, dev } = mounted(['/oauth/callback']);
  await using client = new TestClient(app);
  const ask = async (redirect_uri: string): Promise<number> =>
    (await client.get('/_dev/provider/authorize', { query: { ...QUERY, redirect_uri } })).status;
  assert.equal(await ask('http://localhost/oauth/callback'), 200);
  for (const other of [
    'http://evil.example/oauth/callback',
    'http://localhost.evil/oauth/callback',
    'https://localhost/oauth/callback',
    'http://localhost:81/oauth/callback',
    'http://localhost/other',
    '/oauth/callback',
    'http://localhost//oauth/callback',
  ]) {
    assert.equal(await ask(other), 400, other);
  }
  assert.equal(
    (await get(dev, '/authorize', { ...QUERY, redirect_uri: '/oauth/callback' })).status,
    400,
    'handle() without an origin',
  );
  const { app: elsewhere } = mounted(['http://127.0.0.1:8000/oauth/callback']);
  await using visitor = new TestClient(elsewhere, { baseUrl: 'http://127.0.0.1:8000' });
  assert.equal((await presses(visitor, 'ada')).status, 303);
  const page = (await visitor.get('/oauth/login')).headers.get('location')!;
  assert.ok(page.startsWith('http://127.0.0.1:8000/_dev/provider/authorize?'));
  for (const redirectUris of [['//evil.example/'], ['/\\evil'], ['callback']])
    assert.throws(() => new DevProvider({ env: 'test', redirectUris }), { code: 'E_OPTION_RANGE' });
});

test('provider() of a mounted DevProvider takes options, and the application calls the provider without a network', async () => {
  const nowSeconds = Math.floor(Date.now() / 1_000);
  const users = [
    { sub: 'ada', claims: { acr: 'mfa' } },
    { sub: 'alan', claims: { auth_time: nowSeconds - 1_000 } },
  ];
  const { logger, events } = collectedLog();
  const app = new Svc({ authSecret: SECRET, logger, env: 'test' });
  const dev = new DevProvider({ env: 'test', redirectUris: ['/oauth/callback'], users });
  dev.mount(app, '/who');
  const seen: unknown[] = [];
  app.register(
    new OAuthPlugin({
      provider: dev.provider({ name: 'own', authorizeParams: { max_age: '300' } }),
      mode: 'cookie',
      onUser: (provider, info) => {
        seen.push([provider, info.raw['acr'], typeof info.raw['auth_time']]);
        return info.subject;
      },
    }),
  );
  app.use(new SessionMiddleware());
  await using client = new TestClient(app);
  assert.equal((await presses(client, 'ada')).status, 303);
  assert.deepEqual(seen, [['own', 'mfa', 'number']]);
  const page = new URL((await client.get('/oauth/login')).headers.get('location')!);
  assert.equal(page.searchParams.get('max_age'), '300');
  assert.equal((await presses(client, 'alan')).status, 502);
  assert.equal(events.find(({ event }) => event === 'provider_error')?.['reason'], 'id_token_auth_time');
  assert.equal(seen.length, 1);
});

test('a mounted DevProvider uses the clock of the test client', async () => {
  const { app } = mounted(['/oauth/callback']);
  const clock = new ManualClock();
  await using client = new TestClient(app, { clock });
  assert.equal((await presses(client, 'ada')).status, 303);
  await clock.advance(86_400_000);
  client.cookies.clear();
  assert.equal((await presses(client, 'ada')).status, 303);
});

test('a mounted DevProvider needs no idempotency keys under IdempotencyMiddleware, and svc check reports it in production', async () => {
  const { app } = mounted(['/oauth/callback']);
  await using client = new TestClient(app);
  assert.equal((await client.post('/_dev/provider/token', { body: 'x'.repeat(65_537) })).status, 413);
  assert.equal((await client.get('/_dev/provider/nothing')).status, 404);
  const first = await presses(client, 'ada');
  assert.equal(first.status, 303);
  const { app: strict } = mounted(['/oauth/callback']);
  await using visitor = new TestClient(strict.use(new IdempotencyMiddleware({ required: true })));
  assert.equal((await presses(visitor, 'ada')).status, 303, 'a browser knows no idempotency keys');
  const findings = mounted(['https://app.example/oauth/callback'], undefined, 'production')
    .app.check()
    .findings.map(({ rule }) => rule);
  assert.ok(findings.includes('oauth/provider'), findings.join());
});

test('with enforceValidAfter, access tokens of a login right after revokeAll() are accepted, and so are those from refreshes of this login', async () => {
  const { logger } = collectedLog();
  const app = new Svc({ env: 'test', authSecret: SECRET, logger });
  const dev = new DevProvider({ env: 'test', redirectUris: ['/oauth/callback'] });
  const oauth = new OAuthPlugin({
    provider: dev.mount(app),
    enforceValidAfter: true,
    onUser: (_provider, { subject }) => subject,
  });
  app.register(oauth).get('/me', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  await using client = new TestClient(app, { baseUrl: 'http://localhost:8000' });
  const me = async (token: string): Promise<number> =>
    (await client.get('/me', { headers: { Authorization: `Bearer ${token}` } })).status;
  assert.equal(await me('none'), 401); // it has started
  for (let round = 0; round < 5; round++) {
    // the site uses the system clock, so the next login comes within the 10 ms by which clocks may differ
    await oauth.revokeAll('ada');
    const begun = await client.get('/oauth/login');
    const tokens = (await (
      await client.get(await dev.pick(begun.headers.get('location')!, 'ada'))
    ).json()) as { readonly access_token: string; readonly refresh_token: string };
    assert.equal(await me(tokens.access_token), 200);
    const refreshed = (await (
      await client.post('/oauth/token', { form: { refresh_token: tokens.refresh_token } })
    ).json()) as { readonly access_token: string };
    assert.equal(await me(refreshed.access_token), 200);
  }
});
