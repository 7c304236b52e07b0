/** API keys and sessions as sources of the client's identity. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Svc } from '../../src/app/svc.ts';
import { APIKeyAuth } from '../../src/auth/api-key.ts';
import { requireSession } from '../../src/auth/auth.ts';
import { requireRoles, requireScopes } from '../../src/auth/require.ts';
import { LoginRequired } from '../../src/base/errors.ts';
import { Depends } from '../../src/routing/di.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { TestClient } from '../../src/testing/index.ts';
import { RedirectResponse } from '../../src/http/response.ts';
import { SessionMiddleware, sessionKey } from '../../src/http/session/middleware.ts';
import { collectedLog } from '../support/collected-log.ts';
import type { DependencySource } from '../../src/routing/di.ts';
import type { Context } from '../../src/http/contracts.ts';

const BILLING = 'key-of-billing-00000001';
const REPORTS = ['key-of-reports-00000001', 'key-of-reports-00000002'] as const;
const serving = (
  source: DependencySource,
): { client: TestClient; app: Svc; events: Record<string, unknown>[]; clock: ManualClock } => {
  const { logger, events } = collectedLog();
  const clock = new ManualClock();
  const app = new Svc({ logger });
  app.get('/', { client: Depends(source) }, ({ client }) => ({ client }));
  return { app, client: new TestClient(app, { clock }), events, clock };
};
const brief = ({ status, headers }: Response): [number, string | null] => [
  status,
  headers.get('www-authenticate'),
];
const withKey = (key: string, header = 'X-API-Key'): { headers: Record<string, string> } => ({
  headers: { [header]: key },
});
const REFUSED = [401, 'ApiKey'];

test('APIKeyAuth({ keys }) returns the name of the client to whom the key belongs', async () => {
  const { client, app } = serving(APIKeyAuth({ keys: { billing: BILLING, reports: REPORTS } }));
  await using _ = client;
  assert.deepEqual(await (await client.get('/', withKey(BILLING))).json(), { client: 'billing' });
  for (const key of REPORTS)
    assert.deepEqual(await (await client.get('/', withKey(key, 'x-api-KEY'))).json(), { client: 'reports' });
  assert.deepEqual(app.routes.find(({ template }) => template === '/')!.security, [
    { scheme: 'apiKey', scopes: [], roles: [], credential: { in: 'header', name: 'X-API-Key' } },
  ]);
});

test('APIKeyAuth() answers a missing or wrong key with 401 and a challenge, and writes no key to the log', async () => {
  const { client, events, clock } = serving(APIKeyAuth({ keys: { billing: BILLING } }));
  await using _ = client;
  for (const request of [
    {},
    withKey(''),
    { query: { 'X-API-Key': BILLING, api_key: BILLING } },
    { headers: { authorization: `Bearer ${BILLING}` } },
    { headers: { cookie: `X-API-Key=${BILLING}` } },
  ])
    assert.deepEqual(brief(await client.get('/', request)), REFUSED);
  assert.deepEqual(
    events.filter(({ logger }) => logger === 'svc_security'),
    [],
  );
  const wrong = [
    BILLING.slice(0, -1),
    `${BILLING}x`,
    BILLING.toUpperCase(),
    'x',
    '__proto__',
    `${BILLING}, ${BILLING}`,
    'x'.repeat(8_000),
  ];
  for (const key of wrong) {
    await clock.advance(60_000); // the log has one line a minute for a client and event
    assert.deepEqual(brief(await client.get('/', withKey(key))), REFUSED, key);
  }
  const lines = events.filter(({ logger }) => logger === 'svc_security');
  assert.deepEqual(
    lines.map(({ event }) => event),
    wrong.map(() => 'key_rejected'),
  );
  assert.doesNotMatch(JSON.stringify(lines), /key-of-billing/i);
  assert.deepEqual(brief(await client.head('/')), REFUSED);
});

test('APIKeyAuth() applies its options "header", "realm" and "optional"', async () => {
  await using client = serving(
    APIKeyAuth({ header: 'X-Key', realm: 'shop', keys: { billing: BILLING }, optional: true }),
  ).client;
  assert.deepEqual(await (await client.get('/')).json(), {});
  assert.deepEqual(await (await client.get('/', withKey(BILLING))).json(), {});
  assert.deepEqual(await (await client.get('/', withKey(BILLING, 'X-Key'))).json(), { client: 'billing' });
  assert.deepEqual(brief(await client.get('/', withKey('wrong', 'X-Key'))), [401, 'ApiKey realm="shop"']);
});

test('APIKeyAuth({ cookie }) reads the key from the named cookie only', async () => {
  const { client, app } = serving(APIKeyAuth({ cookie: 'key', keys: { billing: BILLING } }));
  await using _ = client;
  assert.deepEqual(brief(await client.get('/', withKey(BILLING, 'key'))), REFUSED);
  client.cookies.set('key', BILLING);
  assert.deepEqual(await (await client.get('/')).json(), { client: 'billing' });
  assert.deepEqual(app.routes.find(({ template }) => template === '/')!.security[0]!.credential, {
    in: 'cookie',
    name: 'key',
  });
});

test('APIKeyAuth({ verify }) returns the result of a sync or async verify(), and requireRoles() reads the roles in this result', async () => {
  const clients: Record<string, { name: string; roles: string[] }> = {
    one: { name: 'ada', roles: ['admin'] },
    two: { name: 'bob', roles: [] },
  };
  const auth = APIKeyAuth({
    verify: (key: string, { req }: Context) =>
      req.headers['x-later'] === undefined ? clients[key] : Promise.resolve(clients[key] ?? null),
  });
  const { client, app } = serving(requireRoles({ roles: ['admin'], auth }));
  await using _ = client;
  for (const later of [{}, { 'x-later': '1' }]) {
    const ask = (key: string): Promise<Response> =>
      client.get('/', { headers: { 'x-api-key': key, ...later } });
    assert.deepEqual(await (await ask('one')).json(), { client: clients['one'] });
    assert.deepEqual([brief(await ask('two')), brief(await ask('three'))], [[403, null], REFUSED]);
  }
  assert.deepEqual(app.routes.find(({ template }) => template === '/')!.security, [
    { scheme: 'apiKey', scopes: [], roles: ['admin'], credential: { in: 'header', name: 'X-API-Key' } },
  ]);
});

test('requireScopes() with APIKeyAuth() answers 403 with the code insufficient_scope and without a challenge', async () => {
  const auth = APIKeyAuth({ verify: () => ({ scope: 'notes:read' }) });
  const { client } = serving(requireScopes({ scopes: ['notes:read', 'notes:write'], auth }));
  const response = await client.get('/', { headers: { 'x-api-key': 'one' } });
  assert.equal(response.headers.get('www-authenticate'), null);
  const { status, code } = (await response.json()) as { status: number; code: string };
  assert.deepEqual([status, code], [403, 'insufficient_scope']);
});

test('APIKeyAuth() refuses unusable lists of keys and contradictory options, and its errors show no key', () => {
  const many = Object.fromEntries(
    Array.from({ length: 101 }, (_value, index) => [`c${index}`, `a key of sixteen and more ${index}`]),
  );
  for (const [key, expected] of [
    [undefined, /is undefined/],
    [5, /is not text/],
    ['', /the key of "a" is empty text: set the setting or environment variable that contains it/],
    ['short-key', /has 9 characters, but needs at least 16/],
  ] as const)
    assert.throws(() => APIKeyAuth({ keys: { a: key as never } }), { message: expected });
  for (const options of [
    { keys: { a: 'short-key' } },
    { keys: { a: BILLING, b: [BILLING] } },
    { keys: {} },
    { keys: { a: undefined } },
    { keys: { a: 5 } },
    { keys: many },
    {},
    { keys: { a: BILLING }, verify: () => 1 },
    { header: 'a', cookie: 'b', keys: { a: BILLING } },
  ]) {
    assert.throws(
      () => APIKeyAuth(options as never),
      (error: Error & { code?: string }) =>
        error.code === 'E_AUTH' && !/short-key|key-of-billing/.test(inspect(error)),
      inspect(options).slice(0, 100),
    );
  }
  for (const options of [
    { header: 'a b' },
    { cookie: '' },
    { realm: '"' },
    { keys: 'x' },
    { verify: 'x' },
    { optional: 'x' },
  ])
    assert.throws(() => APIKeyAuth(options as never), { code: 'E_OPTION_RANGE' }, inspect(options));
});

test('APIKeyAuth() accepts 1 to 100 keys of at least 16 characters, and the error names any other mistake', () => {
  const keys = (count: number): Record<string, string> =>
    Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`c${index}`, `${index}`.padStart(16, 'k')]),
    );
  for (const options of [{ keys: keys(1) }, { keys: keys(100) }, { keys: { a: Object.values(keys(100)) } }])
    APIKeyAuth(options);
  for (const [options, message] of [
    [{ keys: {} }, /: 0 keys are given, but 1 … 100 are allowed: for more keys, use the option verify$/],
    [{ keys: keys(101) }, /: 101 keys are given/],
    [{ keys: { a: Object.values(keys(101)) } }, /: 101 keys are given/],
    [{ keys: { a: 'k'.repeat(15) } }, /: the key of "a" has 15 characters, but needs at least 16$/],
    [{ keys: { a: [BILLING, 'k'] } }, /: the key of "a" has 1 characters/],
    [{ keys: { a: BILLING, b: BILLING } }, /: a key is given twice$/],
    [{}, /: exactly one of keys and verify must be set$/],
    [{ keys: keys(1), verify: () => 1 }, /: exactly one of keys and verify must be set$/],
    [{ header: 'a', cookie: 'b', verify: () => 1 }, /: header and cookie are both set/],
  ] as const)
    assert.throws(() => APIKeyAuth(options as never), { code: 'E_AUTH', message });
});

for (const place of [{ header: 'X-Key' }, { cookie: 'key' }])
  test(`a 401 response of APIKeyAuth() says whether the key is missing or wrong, and the log where it was (${JSON.stringify(place)})`, async () => {
    const where = 'cookie' in place ? 'cookie' : 'header';
    const { client, events } = serving(APIKeyAuth({ ...place, keys: { billing: BILLING } }));
    await using _ = client;
    const detailOf = async (key: string | undefined): Promise<unknown> => {
      const headers: Record<string, string> =
        key === undefined ? {} : where === 'cookie' ? { cookie: `key=${key}` } : { 'X-Key': key };
      const response = await client.get('/', { headers });
      assert.deepEqual(brief(response), REFUSED);
      return ((await response.json()) as { detail: unknown }).detail;
    };
    assert.equal(await detailOf(undefined), 'An API key is needed');
    assert.equal(await detailOf('wrong'), 'The API key is not known');
    assert.deepEqual(
      events.filter(({ logger }) => logger === 'svc_security').map((event) => [event['event'], event['in']]),
      [['key_rejected', where]],
    );
  });

// ── sessions ──

const USER = sessionKey<{ id: number; roles: string[] }>('user');

function site(): Svc {
  const app = new Svc({ logger: collectedLog().logger, authSecret: '0f1d3b597826a4c4e6e8f9a1b3c5d7e2' }).use(
    new SessionMiddleware(),
  );
  app.post('/login', { public: 'it is the login' }, ({ req }) => {
    req.session.regenerate();
    req.session.set(USER, { id: 7, roles: [req.headers['x-role'] ?? ''] });
    return null;
  });
  app.get('/me', { user: Depends(requireSession(USER)) }, ({ user }) => user.id);
  app.get(
    '/admin',
    { user: Depends(requireRoles({ roles: ['admin'], auth: requireSession(USER) })) },
    ({ user }) => user.id,
  );
  return app;
}

test('requireSession() returns the value that the login handler stored in the session, or answers 401 if there is none', async () => {
  const app = site();
  await using client = new TestClient(app);
  for (const path of ['/me', '/admin']) {
    const response = await client.get(path);
    assert.deepEqual(brief(response), [401, 'Session']);
    assert.equal(((await response.json()) as { code: string }).code, 'login_required');
  }
  await client.post('/login');
  assert.equal(await (await client.get('/me')).json(), 7);
  assert.deepEqual(brief(await client.get('/admin')), [403, null]);
  await client.post('/login', { headers: { 'x-role': 'admin' } });
  assert.equal((await client.get('/admin')).status, 200);
  const securityOf = (path: string): unknown =>
    app.routes.find(({ template }) => template === path)!.security;
  assert.deepEqual(
    [securityOf('/me'), securityOf('/admin')],
    [[{ scheme: 'session', scopes: [], roles: [] }], [{ scheme: 'session', scopes: [], roles: ['admin'] }]],
  );
});

test('an exception handler for LoginRequired can redirect an unauthenticated request to the login page', async () => {
  await using client = new TestClient(
    site().exceptionHandler(LoginRequired, () => new RedirectResponse('/login', { status: 303 })),
  );
  const response = await client.get('/me');
  assert.deepEqual([response.status, response.headers.get('location')], [303, '/login']);
});

test('requireSession() throws for an invalid session key, and without SessionMiddleware the application does not start', async () => {
  for (const key of [undefined, null, {}])
    assert.throws(() => requireSession(key as never), { code: 'E_AUTH' });
  const app = new Svc({ logger: collectedLog().logger }).get(
    '/',
    { user: Depends(requireSession(USER)) },
    () => 'x',
  );
  assert.deepEqual(
    app
      .check()
      .findings.filter(({ rule }) => !['SVC404', 'SVC201', 'SVC211', 'SVC302', 'SVC305'].includes(rule))
      .map(({ rule, severity, subject }) => [rule, severity, subject]),
    [['SVC121', 'error', 'GET /']],
  );
  await using client = new TestClient(app);
  await assert.rejects(client.get('/'), { code: 'E_COMPILE' });
});
