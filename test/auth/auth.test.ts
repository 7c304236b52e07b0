/**
 * Bearer tokens, roles, scopes and conditions as dependencies: accepted and refused requests, and their responses.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inspect } from 'node:util';
import { Svc } from '../../src/app/svc.ts';
import { BearerAuth } from '../../src/auth/auth.ts';
import { requireIf, requireRoles, requireScopes } from '../../src/auth/require.ts';
import { Depends, provide } from '../../src/routing/di.ts';
import { Forbidden } from '../../src/base/errors.ts';
import { createToken } from '../../src/crypto/jwt.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { Router } from '../../src/routing/route.ts';
import { Field, Schema, list, str } from '../../src/schema/schema.ts';
import { TestClient } from '../../src/testing/index.ts';
import { collectedLog } from '../support/collected-log.ts';
import { RawClient } from '../support/raw-http.ts';
import type { SvcOptions } from '../../src/app/options.ts';
import type { DependencySource } from '../../src/routing/di.ts';
import type { Claims } from '../../src/crypto/jwt.ts';
import type { Context } from '../../src/http/contracts.ts';

const SECRET = 'f3ab8c61d20e94775b1c6a90e8d3f24b';
const PREVIOUS = '91c0de5577a1b24e83f6d20c4a9e6b18';
const clock = new ManualClock();
const tokenOf = (claims: Record<string, unknown> = {}, secret = SECRET): string =>
  createToken('ada', secret, { claims, clock });
/** The log has one line a minute for a client and event. */
const nextMinute = (): Promise<void> => clock.advance(60_000);
const bearer = (token: string): { headers: Record<string, string> } => ({
  headers: { authorization: `Bearer ${token}` },
});
const make = (options: SvcOptions = {}): { app: Svc; events: Record<string, unknown>[] } => {
  const { logger, events } = collectedLog();
  return { app: new Svc({ logger, clock, authSecret: SECRET, ...options }), events };
};
/** Returns an application whose route answers with the value of a source. */
const serving = (
  source: DependencySource,
  options: SvcOptions = {},
): { client: TestClient; app: Svc; events: Record<string, unknown>[] } => {
  const { app, events } = make(options);
  app.get('/', { me: Depends(source) }, ({ me }) => ({ me }));
  return { client: new TestClient(app), app, events };
};
/** Returns status and challenge of a response. */
const brief = ({ status, headers }: Response): [number, string | null] => [
  status,
  headers.get('www-authenticate'),
];
const audited = (events: readonly Record<string, unknown>[]): unknown[] =>
  events
    .filter(({ logger }) => logger === 'svc_security')
    .map(({ event, reason, lacks }) => [event, reason ?? lacks]);

const MISSING = [401, 'Bearer'];
const INVALID = [401, 'Bearer error="invalid_token"'];

// ── BearerAuth ──

test("BearerAuth() returns the claims of a token that is signed with the application's secret", async () => {
  await using client = serving(BearerAuth()).client;
  const response = await client.get('/', bearer(tokenOf({ scopes: ['a'] })));
  const now = clock.nowMs() / 1_000;
  assert.deepEqual(await response.json(), { me: { sub: 'ada', iat: now, exp: now + 900, scopes: ['a'] } });
});

test('BearerAuth() verifies tokens with the secret in its argument if it has one, otherwise with the settings authSecret and authSecretPrevious', async () => {
  await using rotated = serving(BearerAuth(), { config: { authSecretPrevious: PREVIOUS } }).client;
  for (const secret of [SECRET, PREVIOUS])
    assert.equal((await rotated.get('/', bearer(tokenOf({}, secret)))).status, 200);
  const own = make({ authSecret: undefined }).app.get(
    '/',
    { me: Depends(BearerAuth([PREVIOUS])) },
    ({ me }) => me.sub,
  );
  await using client = new TestClient(own);
  assert.equal((await client.get('/', bearer(tokenOf({}, PREVIOUS)))).status, 200);
  assert.deepEqual(brief(await client.get('/', bearer(tokenOf()))), INVALID);
});

test('an application with BearerAuth() and no secret does not start, and the error names the environment variable for the secret', async () => {
  const { app } = make({ authSecret: undefined });
  app.get('/', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  await assert.rejects(app.startup(), {
    code: 'E_COMPILE',
    message:
      /SVC205 setting authSecret: the dependency BearerAuth needs the secret "authSecret" \(SVC_AUTH_SECRET\), which is not set/,
  });
});

test('with a secret that is too short, BearerAuth() or the application start throws an error that does not show the secret', async () => {
  assert.throws(() => BearerAuth('short-secret'), { code: 'E_SECRET_WEAK' });
  const { app } = make({ authSecret: 'short-secret' });
  app.get('/', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  await assert.rejects(
    app.startup(),
    (error: Error) =>
      /authSecret/.test(error.message) && !inspect(error, { depth: 10 }).includes('short-secret'),
  );
});

test('BearerAuth() logs a warning at start when its secret is a placeholder', async () => {
  const { client, events } = serving(BearerAuth('changeme-changeme-changeme-changeme'), {
    authSecret: undefined,
  });
  await using _ = client;
  await client.get('/');
  assert.deepEqual(
    events
      .filter(({ event }) => event === 'secret_weak')
      .map(({ level, owner, problem }) => [level, owner, /placeholder/.test(String(problem))]),
    [['warn', 'BearerAuth()', true]],
  );
});

test('BearerAuth() answers every invalid token with the same 401 response, and writes the reason only to the audit log', async () => {
  const { client, events } = serving(BearerAuth());
  await using _ = client;
  const bodies = new Set<string>();
  const tokens = {
    form: 'x',
    signature: tokenOf({}, PREVIOUS),
    expired: createToken('ada', SECRET, { clock: new ManualClock(clock.nowMs() - 3_600_000) }),
    audience: createToken('ada', SECRET, { clock, audience: 'other' }),
  };
  for (const token of Object.values(tokens)) {
    await nextMinute();
    const response = await client.get('/', bearer(token));
    assert.deepEqual(brief(response), INVALID);
    bodies.add(JSON.stringify({ ...((await response.json()) as object), request_id: '' }));
  }
  assert.equal(bodies.size, 1);
  assert.deepEqual(
    audited(events),
    Object.keys(tokens).map((reason) => ['token_rejected', reason]),
  );
  const [line] = events.filter(({ event }) => event === 'token_rejected');
  assert.deepEqual(
    [line!['level'], line!['method'], line!['route'], line!['address'], typeof line!['request_id']],
    ['warn', 'GET', '/', '127.0.0.1', 'string'],
  );
  for (const token of Object.values(tokens))
    if (token !== 'x') assert.ok(!JSON.stringify(events).includes(token));
});

test('BearerAuth() applies the options "issuer", "audience", "type", "leeway", "requireExp" and "maxLength" when it verifies a token', async () => {
  await using client = serving(
    BearerAuth(undefined, {
      issuer: 'https://id.example',
      audience: ['api', 'web'],
      type: 'at+jwt',
      leewaySeconds: 60,
      maxLength: 500,
    }),
  ).client;
  const good = { clock, issuer: 'https://id.example', audience: 'web', type: 'at+jwt' };
  assert.equal((await client.get('/', bearer(createToken('ada', SECRET, good)))).status, 200);
  assert.equal(
    (
      await client.get(
        '/',
        bearer(createToken('ada', SECRET, { ...good, clock: new ManualClock(clock.nowMs() + 50_000) })),
      )
    ).status,
    200,
  );
  for (const other of [
    { issuer: 'https://other.example' },
    { audience: 'cli' },
    { type: 'JWT' },
    { clock: new ManualClock(clock.nowMs() + 70_000) },
    { claims: { x: 'x'.repeat(500) } },
  ]) {
    assert.deepEqual(
      brief(await client.get('/', bearer(createToken('ada', SECRET, { ...good, ...other })))),
      INVALID,
    );
  }
});

test('BearerAuth({ realm }) sends the given realm in every WWW-Authenticate challenge', async () => {
  const auth = BearerAuth(undefined, { realm: 'notes' });
  const { app } = make();
  app
    .get('/', { me: Depends(auth) }, () => 'x')
    .get('/scope', { me: Depends(requireScopes({ scopes: ['a'], auth })) }, () => 'x')
    .get(
      '/nobody',
      {
        me: Depends(
          requireRoles({ roles: ['a'], auth: BearerAuth(undefined, { realm: 'n', optional: true }) }),
        ),
      },
      () => 'x',
    );
  await using client = new TestClient(app);
  assert.deepEqual(brief(await client.get('/')), [401, 'Bearer realm="notes"']);
  assert.deepEqual(brief(await client.get('/', bearer('x'))), [
    401,
    'Bearer realm="notes", error="invalid_token"',
  ]);
  assert.deepEqual(brief(await client.get('/scope', bearer(tokenOf()))), [
    403,
    'Bearer realm="notes", error="insufficient_scope", scope="a"',
  ]);
  assert.deepEqual(brief(await client.get('/nobody')), [401, 'Bearer realm="n"']);
});

test('BearerAuth({ optional: true }) returns undefined if a request has no token, and refuses an invalid token', async () => {
  await using client = serving(BearerAuth(undefined, { optional: true })).client;
  assert.deepEqual(await (await client.get('/')).json(), {});
  assert.deepEqual(await (await client.get('/', { headers: { authorization: 'Basic YTpi' } })).json(), {});
  assert.deepEqual(brief(await client.get('/', bearer('x'))), INVALID);
  assert.equal((await client.get('/', bearer(tokenOf()))).status, 200);
});

class Tenant extends Schema {
  tenant = Field(str, { minLength: 2 });
  tags = Field(list(str), { default: () => ['none'] });
}

test('BearerAuth({ schema }) returns the claims as parsed by the schema, and refuses claims that do not match the schema', async () => {
  const { client, events } = serving(BearerAuth(undefined, { schema: Tenant }));
  await using _ = client;
  const { me } = (await (await client.get('/', bearer(tokenOf({ tenant: 'acme', more: 1 })))).json()) as {
    me: Record<string, unknown>;
  };
  assert.deepEqual([me['sub'], me['tenant'], me['tags'], me['more']], ['ada', 'acme', ['none'], 1]);
  for (const claims of [{}, { tenant: 'x' }, { tenant: 5 }, { tenant: 'acme', tags: 'a' }]) {
    await nextMinute();
    assert.deepEqual(brief(await client.get('/', bearer(tokenOf(claims)))), INVALID);
  }
  assert.deepEqual(
    audited(events),
    Array.from({ length: 4 }, () => ['token_rejected', 'schema']),
  );
});

test('BearerAuth({ verify }) calls verify() for valid tokens only, and refuses the token unless verify() returns true', async () => {
  const asked: string[] = [];
  const answers: Record<string, unknown> = {
    yes: true,
    later: Promise.resolve(true),
    no: false,
    'no later': Promise.resolve(false),
    nothing: undefined,
    one: 1,
    'one later': Promise.resolve(1),
  };
  const { client, events } = serving(
    BearerAuth(undefined, {
      verify: (claims: Claims, { req }: Context) => {
        asked.push(`${claims.sub} ${req.method}`);
        if (req.headers['x-case'] === 'throws') throw new Forbidden('disabled');
        return answers[req.headers['x-case']!] as boolean;
      },
    }),
  );
  await using _ = client;
  const ask = async (name: string, secret?: string): Promise<Response> => {
    await nextMinute();
    return client.get('/', { headers: { ...bearer(tokenOf({}, secret)).headers, 'x-case': name } });
  };
  for (const name of ['yes', 'later']) assert.equal((await ask(name)).status, 200, name);
  for (const name of ['no', 'no later', 'nothing', 'one', 'one later'])
    assert.deepEqual(brief(await ask(name)), INVALID, name);
  assert.deepEqual(brief(await ask('throws')), [403, null]);
  assert.equal(asked.length, 8);
  await ask('yes', PREVIOUS);
  await client.get('/');
  assert.deepEqual([asked.length, asked[0]], [8, 'ada GET']);
  assert.deepEqual(audited(events), [
    ...Array.from({ length: 5 }, () => ['token_rejected', 'verify']),
    ['token_rejected', 'signature'],
  ]);
});

test('BearerAuth() verifies a token once per request, even when several dependencies need its claims', async () => {
  const { app } = make();
  const router = new Router({ deps: { who: Depends(BearerAuth()) } });
  router.get(
    '/',
    { me: Depends(requireScopes('a')), you: Depends(requireIf(() => true)), them: Depends(BearerAuth()) },
    ({ who, me, you, them }) => [who === me, me === you, you === them],
  );
  await using client = new TestClient(app.includeRouter(router));
  assert.deepEqual(await (await client.get('/', bearer(tokenOf({ scopes: ['a'] })))).json(), [
    true,
    true,
    true,
  ]);
});

test('BearerAuth() refuses options that are unknown or contradict each other', () => {
  assert.throws(() => BearerAuth(undefined, { isuer: 'x' } as object), {
    code: 'E_OPTION_UNKNOWN',
    message: /did you mean "issuer"/,
  });
  for (const options of [
    { realm: 'a"b' },
    { realm: '' },
    { realm: 5 },
    { optional: 1 },
    { verify: true },
    { schema: {} },
    { leewaySeconds: 301 },
    { issuer: '' },
  ])
    assert.throws(
      () => BearerAuth(undefined, options as object),
      { code: 'E_OPTION_RANGE' },
      inspect(options),
    );
});

test('if a token is invalid, BearerAuth() answers 401 before the body is read or validated', async () => {
  const { app } = make();
  app.post('/', { body: Tenant, me: Depends(BearerAuth()) }, () => 'x');
  await using client = new TestClient(app);
  assert.deepEqual(brief(await client.post('/', { json: {} })), MISSING);
  assert.equal((await client.post('/', { json: {}, ...bearer(tokenOf()) })).status, 400);
});

test('svc check reports nothing about BearerAuth() with a secret, neither before nor after the start of the application', async () => {
  const { app } = make();
  app.get('/', { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  const about = (): string[] =>
    app
      .check()
      .findings.map(({ rule }) => rule)
      .filter((rule) => !['SVC404', 'SVC201', 'SVC205', 'SVC211', 'SVC302', 'SVC305'].includes(rule)); // SVC205: the secret stands here
  assert.deepEqual(about(), []);
  await app.startup();
  assert.deepEqual(about(), []);
  await app.shutdown();
});

// ── tokens that are refused ──

test('requireScopes("a", "b") requires both scopes, and names both in a 403 response', async () => {
  const { client, events } = serving(requireScopes('a', 'b'));
  await using _ = client;
  assert.deepEqual(brief(await client.get('/')), MISSING);
  assert.deepEqual(brief(await client.get('/', bearer('x'))), INVALID);
  for (const scopes of [[], ['a'], ['b'], ['a', 'c'], ['A', 'B']]) {
    await nextMinute();
    assert.deepEqual(brief(await client.get('/', bearer(tokenOf({ scopes })))), [
      403,
      'Bearer error="insufficient_scope", scope="a b"',
    ]);
  }
  for (const claims of [{ scopes: ['b', 'c', 'a'] }, { scope: 'a b' }, { scope: 'b x a' }])
    assert.equal((await client.get('/', bearer(tokenOf(claims)))).status, 200);
  assert.deepEqual(audited(events), [
    ['token_rejected', 'form'],
    ...Array.from({ length: 5 }, () => ['access_denied', 'scope']),
  ]);
  assert.equal(events.find(({ event }) => event === 'access_denied')!['sub'], 'ada');
});

test('requireScopes() compares whole scopes in the claim "scopes", or in the claim "scope" if "scopes" is absent', async () => {
  await using client = serving(requireScopes('read')).client;
  const refusing: Record<string, unknown>[] = [
    { scopes: 'admin read' },
    { scopes: 'read' },
    { scopes: ['read', 5] },
    { scopes: { read: true } },
    { scopes: { 0: 'read', length: 1 } },
    { scopes: ['readonly', 'xread', 'read write', 'READ', ' read'] },
    { scopes: [['read']] },
    { scopes: null, scope: 'read' },
    { scopes: [], scope: 'read' },
    { scope: ['read'] },
    { scope: 'readonly unread' },
    { scope: 'READ' },
    { scope: { read: 1 } },
    { scp: ['read'] },
    { permissions: ['read'] },
    {},
  ];
  for (const claims of refusing)
    assert.equal((await client.get('/', bearer(tokenOf(claims)))).status, 403, JSON.stringify(claims));
  for (const claims of [{ scopes: ['read'] }, { scope: 'admin read' }, { scopes: ['read'], scope: 'x' }])
    assert.equal((await client.get('/', bearer(tokenOf(claims)))).status, 200, JSON.stringify(claims));
});

test('requireRoles("admin") requires a claim "roles" that is an array of strings and contains exactly "admin"', async (t) => {
  await using client = serving(requireRoles('admin')).client;
  for (const claims of [
    { roles: 'superadmin' },
    { roles: 'admin' },
    { roles: ['superadmin', 'Admin', 'admin '] },
    { roles: ['admin', 1] },
    { roles: { admin: true } },
    { roles: { __proto__: ['admin'] } },
    { role: 'admin' },
    { roles: [] },
    {},
  ]) {
    assert.equal((await client.get('/', bearer(tokenOf(claims)))).status, 403, JSON.stringify(claims));
  }
  await using odd = serving(requireRoles('__proto__', 'constructor', 'toString')).client;
  assert.equal((await odd.get('/', bearer(tokenOf({ roles: ['x'] })))).status, 403);
  assert.equal((await odd.get('/', bearer(tokenOf({ roles: ['__proto__'] })))).status, 200);
  Object.defineProperty(Object.prototype, 'roles', { value: ['admin'], configurable: true });
  t.after(() => {
    delete (Object.prototype as { roles?: unknown }).roles;
  });
  assert.equal((await client.get('/', bearer(tokenOf()))).status, 403);
});

test('requireRoles() accepts a client that has one of the listed roles, and answers 403 without a challenge to other clients', async () => {
  await using client = serving(requireRoles('admin', 'owner')).client;
  for (const roles of [['admin'], ['x', 'owner']])
    assert.equal((await client.get('/', bearer(tokenOf({ roles })))).status, 200);
  assert.deepEqual(brief(await client.get('/', bearer(tokenOf({ roles: ['x'] })))), [403, null]);
});

test('BearerAuth() reads the token only from a request with one Authorization header, and accepts "Bearer" in any letter case', async (t) => {
  const { app } = make();
  app.route('/', ['GET', 'POST'], { me: Depends(BearerAuth()) }, ({ me }) => me.sub);
  const server = await app.run({ port: 0, handleSignals: false });
  t.after(() => server.close());
  const token = tokenOf();
  const ask = async (
    head: string,
    method = 'GET',
    target = '/',
    body = '',
  ): Promise<[number, string | undefined]> => {
    await using client = await RawClient.open(server.port);
    client.send(
      `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${head}${body === '' ? '' : `Content-Type: application/x-www-form-urlencoded\r\nContent-Length: ${body.length}\r\n`}\r\n${body}`,
    );
    const answer = await client.answer();
    return [answer.status, answer.field('www-authenticate')];
  };
  for (const scheme of ['Bearer', 'bearer', 'BEARER', 'bEaReR', 'Bearer  '])
    assert.equal((await ask(`Authorization: ${scheme} ${token}\r\n`))[0], 200, scheme);
  assert.equal((await ask(`aUTHORIZATION:Bearer ${token} \r\n`))[0], 200);
  for (const head of [
    '',
    `X-Authorization: Bearer ${token}\r\n`,
    `Proxy-Authorization: Bearer ${token}\r\n`,
    `Cookie: access_token=${token}; Authorization=Bearer ${token}\r\n`,
    'Authorization: Basic YTpi\r\n',
    `Authorization: ${token}\r\n`,
    `Authorization: Bearer${token}\r\n`,
    `Authorization: Token ${token}\r\n`,
    'Authorization: \r\n',
  ]) {
    assert.deepEqual(await ask(head), MISSING, head);
  }
  for (const value of [
    'Bearer',
    'Bearer ',
    `Bearer ${token} more`,
    `Bearer more ${token}`,
    `Bearer "${token}"`,
    `Bearer ${token},`,
    `Bearer ${token}, Bearer ${token}`,
    `Bearer token=${token}`,
    `Bearer\t${token}`.replace('\t', ' \t'),
    `Bearer ${token}=`,
  ]) {
    assert.deepEqual(await ask(`Authorization: ${value}\r\n`), INVALID, value);
  }
  for (const [first, second] of [
    [`Bearer ${token}`, `Bearer ${token}`],
    [`Bearer ${token}`, 'Basic YTpi'],
    ['Basic YTpi', `Bearer ${token}`],
  ]) {
    assert.equal(
      (await ask(`Authorization: ${first}\r\nauthorization: ${second}\r\n`))[0],
      400,
      'twice: the head can be understood in two ways',
    );
  }
  assert.deepEqual(
    await ask('', 'GET', `/?access_token=${token}&token=${token}&authorization=Bearer%20${token}`),
    MISSING,
  );
  assert.deepEqual(await ask('', 'POST', '/', `access_token=${token}`), MISSING);
});

test('for GET and HEAD, guards such as requireRoles() answer 401 to an unauthenticated client, and 403 to a client without permission', async () => {
  const { app } = make();
  for (const [path, source] of [
    ['/token', BearerAuth()],
    ['/role', requireRoles('admin')],
    ['/scope', requireScopes('a')],
    ['/if', requireIf(() => false)],
  ] as const) {
    app.get(path, { me: Depends(source as DependencySource) }, () => 'x');
  }
  await using client = new TestClient(app);
  for (const method of ['GET', 'HEAD']) {
    for (const path of ['/token', '/role', '/scope', '/if']) {
      assert.deepEqual(brief(await client.request(method, path)), MISSING, `${method} ${path}`);
      assert.deepEqual(
        brief(await client.request(method, path, bearer(tokenOf({}, PREVIOUS)))),
        INVALID,
        `${method} ${path}`,
      );
    }
    const known = bearer(tokenOf());
    assert.deepEqual(brief(await client.request(method, '/token', known)), [200, null]);
    assert.deepEqual(brief(await client.request(method, '/role', known)), [403, null]);
    assert.deepEqual(brief(await client.request(method, '/scope', known)), [
      403,
      'Bearer error="insufficient_scope", scope="a"',
    ]);
    assert.deepEqual(brief(await client.request(method, '/if', known)), [403, null]);
  }
});

test('BearerAuth() sends identical responses for all refused tokens, whatever the reason of the refusal', async () => {
  await using client = serving(BearerAuth()).client;
  const response = await client.get(
    '/',
    bearer(createToken('ada', SECRET, { clock: new ManualClock(clock.nowMs() - 3_600_000) })),
  );
  const { request_id, ...body } = (await response.json()) as Record<string, unknown>;
  assert.equal(typeof request_id, 'string');
  assert.deepEqual(body, {
    type: 'about:blank',
    title: 'Unauthorized',
    status: 401,
    detail: 'The access token is invalid or has expired',
    code: 'invalid_token',
  });
});

// ── requireIf, and other sources of claims ──

test('requireIf() returns the claims if its predicate returns true, and answers 403 for any other result', async () => {
  const { app, events } = make();
  const own = requireIf((claims, { req }) => claims.sub === req.pathParams['id'], {
    detail: 'Only your own',
  });
  app.get('/users/{id}', { me: Depends(own) }, ({ me }) => me.sub);
  const answers: Record<string, unknown> = {
    later: Promise.resolve(true),
    no: Promise.resolve(false),
    one: 1,
    text: 'true',
    nothing: undefined,
  };
  app.get(
    '/answers/{name}',
    { me: Depends(requireIf((_claims, { req }) => answers[req.pathParams['name'] as string] as boolean)) },
    ({ me }) => me.sub,
  );
  await using client = new TestClient(app);
  assert.equal(await (await client.get('/users/ada', bearer(tokenOf()))).text(), 'ada');
  const refused = await client.get('/users/eve', bearer(tokenOf()));
  assert.deepEqual(
    [refused.status, ((await refused.json()) as { detail: string }).detail],
    [403, 'Only your own'],
  );
  assert.equal((await client.get('/answers/later', bearer(tokenOf()))).status, 200);
  for (const name of ['no', 'one', 'text', 'nothing']) {
    await nextMinute();
    assert.equal((await client.get(`/answers/${name}`, bearer(tokenOf()))).status, 403, name);
  }
  assert.deepEqual(
    audited(events),
    Array.from({ length: 5 }, () => ['access_denied', 'condition']),
  );
});

test('requireIf() rethrows errors of its predicate, and does not call the predicate if there are no claims', async () => {
  let asked = 0;
  await using client = serving(
    requireIf(() => {
      asked++;
      throw new Error('the database is down');
    }),
  ).client;
  assert.deepEqual(brief(await client.get('/')), MISSING);
  await assert.rejects(client.get('/', bearer(tokenOf())), /the database is down/);
  assert.equal(asked, 1);
});

test('requireRoles(), requireScopes() and requireIf() use the claims and the 401 response of the dependency in their option "auth"', async () => {
  class Account {
    readonly sub = 'eve';
    readonly roles: readonly string[];
    readonly scopes = ['a'];
    constructor(roles: readonly string[]) {
      this.roles = roles;
    }
  }
  const account = provide(
    { headers: { xRoles: Field('') }, security: { scheme: 'apiKey', scopes: [], roles: [] } },
    function account({ headers }) {
      return headers.xRoles === '' ? undefined : new Account(headers.xRoles.split(' '));
    },
  );
  const { app } = make({ authSecret: undefined });
  app.get('/role', { me: Depends(requireRoles({ roles: ['admin'], auth: account })) }, ({ me }) => me.roles);
  app.get('/scope', { me: Depends(requireScopes({ scopes: ['b'], auth: account })) }, ({ me }) => me.roles);
  app.get(
    '/if',
    { me: Depends(requireIf((me) => me.roles.length > 1, { auth: account })) },
    ({ me }) => me.roles,
  );
  await using client = new TestClient(app);
  assert.deepEqual(brief(await client.get('/role')), [401, 'ApiKey']);
  const roles = (text: string): { headers: Record<string, string> } => ({ headers: { 'x-roles': text } });
  assert.deepEqual(await (await client.get('/role', roles('x admin'))).json(), ['x', 'admin']);
  assert.deepEqual(brief(await client.get('/role', roles('x'))), [403, null]);
  assert.deepEqual(brief(await client.get('/scope', roles('x'))), [403, null]); // the challenge is Bearer's alone
  assert.deepEqual(
    [(await client.get('/if', roles('x'))).status, (await client.get('/if', roles('x y'))).status],
    [403, 200],
  );
  assert.deepEqual(app.routes.find(({ template }) => template === '/role')!.security, [
    { scheme: 'apiKey', scopes: [], roles: [] },
    { scheme: 'apiKey', scopes: [], roles: ['admin'] },
  ]);
});

test('requireRoles() sends a Bearer challenge if the dependency in its option "auth" declares no security scheme', async () => {
  const { app } = make({ authSecret: undefined });
  app.get(
    '/',
    { me: Depends(requireRoles({ roles: ['a'], auth: () => undefined as Claims | undefined })) },
    () => 'x',
  );
  await using client = new TestClient(app);
  assert.deepEqual(brief(await client.get('/')), MISSING);
  assert.deepEqual(app.routes[0]!.security, [{ scheme: 'bearer', scopes: [], roles: ['a'] }]);
});

test('app.routes lists each security requirement of a route once', () => {
  const { app } = make();
  app
    .get('/a', { me: Depends(BearerAuth()) }, () => 'x')
    .get('/b', { me: Depends(requireRoles('admin', 'owner')) }, () => 'x')
    .get('/c', { me: Depends(requireScopes('a', 'b')) }, () => 'x')
    .get('/d', { me: Depends(requireIf(() => true)) }, () => 'x');
  const bearerWith = (roles: string[], scopes: string[]): object => ({ scheme: 'bearer', roles, scopes });
  assert.deepEqual(
    app.routes.filter(({ template }) => template.length === 2).map(({ security }) => security),
    [
      [bearerWith([], [])],
      [bearerWith(['admin', 'owner'], [])],
      [bearerWith([], ['a', 'b'])],
      [bearerWith([], [])],
    ],
  );
});

test('requireRoles(), requireScopes() and requireIf() throw E_AUTH for arguments that no client could satisfy', () => {
  for (const declare of [
    () => (requireRoles as (...roles: unknown[]) => unknown)(),
    () => (requireRoles as (...roles: unknown[]) => unknown)('admin', 5),
    () => requireRoles(''),
    () => (requireRoles as (given: unknown) => unknown)({ auth: BearerAuth() }),
    () => (requireScopes as (...scopes: unknown[]) => unknown)(),
    () => (requireScopes as (scope: string) => unknown)('a b'),
    () => (requireScopes as (scope: string) => unknown)('a"b'),
    () => (requireScopes as (given: unknown) => unknown)({ scopes: [] }),
    () => (requireScopes as (given: unknown) => unknown)(null),
    () => (requireIf as (given: unknown) => unknown)('x'),
  ])
    assert.throws(declare, { code: 'E_AUTH' });
  for (const [declare, message] of [
    [requireRoles, /requireRoles\(\)/],
    [requireScopes, /requireScopes\(\)/],
    [requireIf, /requireIf\(\)/],
  ] as const)
    assert.throws(() => (declare as (given: unknown) => unknown)(null), { code: 'E_AUTH', message });
  assert.throws(() => (requireRoles as (given: unknown) => unknown)({ roles: ['a'], atuh: BearerAuth() }), {
    code: 'E_OPTION_UNKNOWN',
  });
  assert.throws(() => (requireScopes as (given: unknown) => unknown)({ scopes: 'a' }), {
    code: 'E_OPTION_RANGE',
  });
  assert.throws(() => (requireIf as (...given: unknown[]) => unknown)(() => true, { auth: {} }), {
    code: 'E_OPTION_RANGE',
  });
});
