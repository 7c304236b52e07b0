/**
 * IssuerAuth() as a dependency: options, scopes, roles, DPoP, WebSockets, other guards, and the fake issuer of
 * the test client.
 */
import assert from 'node:assert/strict';
import { generateKeyPairSync, hash } from 'node:crypto';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { IssuerAuth } from '../../../src/auth/issuer/guard.ts';
import { BearerAuth } from '../../../src/auth/auth.ts';
import { requireIf, requireRoles, requireScopes } from '../../../src/auth/require.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { thumbprintOf } from '../../../src/crypto/jwk.ts';
import { Depends } from '../../../src/routing/di.ts';
import { Field, Schema, str } from '../../../src/schema/schema.ts';
import { FakeIssuer, TestClient } from '../../../src/testing/index.ts';
import { jwk, jws } from '../../oauth/support/fake-provider.ts';
import { collectedLog } from '../../support/collected-log.ts';
import type { AuthSource } from '../../../src/auth/auth.ts';
import type { IssuerAuthOptions, IssuerClaims, TrustedIssuer } from '../../../src/auth/issuer/options.ts';
import type { Claims } from '../../../src/crypto/jwt.ts';

const ISSUER = 'https://login.example';
const AUDIENCE = 'https://api.example';
const clock = new ManualClock();
const fake = new FakeIssuer(ISSUER, { audience: AUDIENCE, clock });
const guardOf = (
  issuer: Partial<TrustedIssuer> = {},
  options: Omit<IssuerAuthOptions, 'optional'> = {},
): AuthSource<IssuerClaims> =>
  IssuerAuth<unknown>({ issuer: ISSUER, audience: AUDIENCE, jwks: fake.jwks, ...issuer }, options);
const bearer = (token: string): { headers: Record<string, string> } => ({
  headers: { authorization: `Bearer ${token}` },
});

/** Returns an application whose route answers with the value of a guard. */
function serving(source: AuthSource<unknown>): { client: TestClient; events: Record<string, unknown>[] } {
  const { logger, events } = collectedLog();
  const app = new Svc({ logger, clock });
  app.get('/', { me: Depends(source) }, ({ me }) => ({ me }));
  return { client: new TestClient(app), events };
}

async function claimsOf(source: AuthSource<unknown>, token: string): Promise<Record<string, unknown>> {
  await using client = serving(source).client;
  const response = await client.get('/', bearer(token));
  assert.equal(response.status, 200);
  return ((await response.json()) as { me: Record<string, unknown> }).me;
}

test('the scopes of IssuerAuth() come from scope or scp, as a string or a list', async () => {
  for (const [claims, scopes] of [
    [{ scope: 'a b' }, ['a', 'b']],
    [{ scp: 'a b' }, ['a', 'b']],
    [{ scp: ['a', 'b'] }, ['a', 'b']],
    [{ scope: ['a'] }, ['a']],
    [{ scope: 'a', scp: 'b' }, ['a']],
    [{ scope: '' }, []],
    [{ scope: 5, scopes: ['admin'] }, []],
    [{ scopes: ['admin'] }, []],
    [{ scope: ['a', 5] }, []],
  ] as const) {
    const me = await claimsOf(guardOf(), fake.token(claims));
    assert.deepEqual(me['scopes'], scopes, JSON.stringify(claims));
  }
});

test('the roles of IssuerAuth() come from the claims that the option roles names', async () => {
  const claims = {
    roles: ['plain'],
    groups: ['staff'],
    permissions: ['read:x'],
    realm_access: { roles: ['boss'] },
    resource_access: { 'my.api': { roles: ['writer'] }, api: { roles: ['reader'] } },
    'https://shop.example/roles': ['named'],
    wrong: ['a', 1],
  };
  for (const [roles, expected] of [
    [undefined, ['plain']],
    ['groups', ['staff']],
    ['realm_access.roles', ['boss']],
    ['resource_access.api.roles', ['reader']],
    ['https://shop.example/roles', ['named']],
    [
      ['groups', 'permissions'],
      ['staff', 'read:x'],
    ],
    [[], []],
    ['wrong', []],
    ['constructor.name', []],
    ['__proto__.roles', []],
    ['realm_access.roles.length', []],
    [(all: Claims) => [String(all.sub)], ['ada']],
  ] as const) {
    const me = await claimsOf(guardOf({ roles }), fake.token({ sub: 'ada', ...claims }));
    assert.deepEqual(me['roles'], expected, String(roles));
  }
});

test('a token cannot set its principal, and the principals of two issuers differ', async () => {
  const other = new FakeIssuer('https://other.example', { audience: AUDIENCE, clock });
  const source = IssuerAuth([
    { issuer: ISSUER, audience: AUDIENCE },
    { issuer: 'https://other.example', audience: AUDIENCE },
  ]);
  const app = new Svc({ clock });
  app.get('/', { me: Depends(source) }, ({ me }) => ({ principal: me.principal }));
  await using client = new TestClient(app, { overrides: [fake.overrideOf(source, other)] });
  const principals = [];
  for (const each of [fake, other])
    principals.push(await (await client.get('/', bearer(each.token({ principal: 'x' })))).json());
  assert.deepEqual(principals, [{ principal: `${ISSUER} ada` }, { principal: 'https://other.example ada' }]);
});

test('requireScopes(), requireRoles() and requireIf() accept IssuerAuth() as option auth', async () => {
  const token = IssuerAuth({ issuer: ISSUER, audience: AUDIENCE, roles: 'groups' });
  const app = new Svc({ clock });
  app.get(
    '/scopes',
    { me: Depends(requireScopes({ scopes: ['orders:read'], auth: token })) },
    ({ me }) => me.sub,
  );
  app.get(
    '/roles',
    { me: Depends(requireRoles({ roles: ['boss'], auth: token })) },
    ({ me }) => me.principal,
  );
  app.get(
    '/if',
    { me: Depends(requireIf(({ iss }) => iss === ISSUER, { auth: token })) },
    ({ me }) => me.sub,
  );
  await using client = new TestClient(app, { overrides: [fake.overrideOf(token)] });
  const statuses = async (claims: Record<string, unknown>): Promise<number[]> =>
    Promise.all(
      ['/scopes', '/roles', '/if'].map(
        async (path) => (await client.get(path, bearer(fake.token(claims)))).status,
      ),
    );
  assert.deepEqual(await statuses({ scope: 'orders:read', groups: ['boss'] }), [200, 200, 200]);
  assert.deepEqual(await statuses({ scope: 'orders', roles: ['boss'] }), [403, 403, 200]);
  const refused = await client.get('/scopes', bearer(fake.token({})));
  assert.equal(
    refused.headers.get('www-authenticate'),
    'Bearer error="insufficient_scope", scope="orders:read"',
  );
});

test('IssuerAuth() answers 401 without a token, or with optional returns undefined; BearerAuth() tokens are refused', async () => {
  const { client } = serving(guardOf({}, { realm: 'shop' }));
  await using _ = client;
  for (const headers of [{}, { authorization: 'Basic eDp5' }] as Record<string, string>[]) {
    const response = await client.get('/', { headers });
    assert.deepEqual(
      [response.status, response.headers.get('www-authenticate')],
      [401, 'Bearer realm="shop"'],
    );
  }
  for (const authorization of ['Bearer', 'Bearer x y', 'bearer ', `Bearer ${fake.token({})}, Bearer x`])
    assert.equal((await client.get('/', { headers: { authorization } })).status, 401, authorization);
  await using optional = serving(
    IssuerAuth({ issuer: ISSUER, audience: AUDIENCE, jwks: fake.jwks }, { optional: true }),
  ).client;
  assert.deepEqual(await (await optional.get('/')).json(), {});
  assert.equal((await optional.get('/', bearer('x.y.z'))).status, 401);
  const own = serving(BearerAuth('f3ab8c61d20e94775b1c6a90e8d3f24b')).client;
  await using _own = own;
  assert.equal((await own.get('/', bearer(fake.token({})))).status, 401, 'BearerAuth() accepts no issuer');
});

test('schema and verify refuse tokens that have passed all other checks', async () => {
  class Tenant extends Schema {
    tenant = Field(str);
  }
  const { client, events } = serving(
    IssuerAuth(
      { issuer: ISSUER, audience: AUDIENCE, jwks: fake.jwks },
      { schema: Tenant, verify: async ({ sub }) => sub !== 'eve' },
    ),
  );
  await using _ = client;
  const statuses = [];
  for (const claims of [{ tenant: 'red' }, {}, { tenant: 5 }, { tenant: 'red', sub: 'eve' }]) {
    await clock.advance(60_000);
    statuses.push((await client.get('/', bearer(fake.token(claims)))).status);
  }
  assert.deepEqual(statuses, [200, 401, 401, 401]);
  assert.deepEqual(
    events.filter(({ event }) => event === 'token_rejected').map(({ reason }) => reason),
    ['schema', 'schema', 'verify'],
  );
});

test('with requireType: false, typ JWT and a missing typ are accepted, but no id_token or logout token', async () => {
  const { client } = serving(guardOf({ requireType: false }));
  await using _ = client;
  for (const [header, claims, status] of [
    [{ typ: 'JWT' }, {}, 200],
    [{ typ: undefined }, {}, 200],
    [{ typ: 'at+jwt' }, {}, 200],
    [{ typ: 'JWT' }, { at_hash: 'x' }, 401],
    [{ typ: undefined }, { c_hash: 'x' }, 401],
    [{ typ: 'JWT' }, { events: {} }, 401],
    [{ typ: 'logout+jwt' }, {}, 401],
    [{ typ: 'dpop+jwt' }, {}, 401],
    [{ typ: 'secevent+jwt' }, {}, 401],
  ] as const)
    assert.equal(
      (await client.get('/', bearer(fake.token(claims, header as { typ: string })))).status,
      status,
    );
});

test('audienceClaim: "client_id" and requiredClaims fit access tokens of Cognito, and refuse its id_tokens', async () => {
  const { client } = serving(
    guardOf({
      audience: 'web-client',
      audienceClaim: 'client_id',
      requireType: false,
      requiredClaims: { token_use: 'access' },
    }),
  );
  await using _ = client;
  const ask = async (claims: Record<string, unknown>): Promise<number> =>
    (await client.get('/', bearer(fake.token({ aud: undefined, ...claims }, { typ: 'JWT' })))).status;
  assert.deepEqual(
    [
      await ask({ client_id: 'web-client', token_use: 'access' }),
      await ask({ aud: 'web-client', token_use: 'id' }),
      await ask({ aud: 'web-client', token_use: 'access' }),
      await ask({ client_id: 'other', token_use: 'access' }),
      await ask({ client_id: 'web-client', token_use: 'id' }),
      await ask({ client_id: 'web-client' }),
    ],
    [200, 401, 401, 401, 401, 401],
  );
});

const CLIENT = generateKeyPairSync('ec', { namedCurve: 'P-256' });

function proofOf(token: string, claims: Record<string, unknown> = {}, pair = CLIENT): string {
  return jws(
    { typ: 'dpop+jwt', alg: 'ES256', jwk: jwk(pair.publicKey) },
    {
      jti: Math.floor(clock.nowMs()).toString(36) + String(proofs++),
      htm: 'GET',
      htu: 'http://localhost/',
      iat: Math.floor(clock.nowMs() / 1_000),
      ath: hash('sha256', token, 'base64url'),
      ...claims,
    },
    pair.privateKey,
  );
}
let proofs = 0;

test('a token that is bound to a key needs a fresh DPoP proof of this key (RFC 9449)', async () => {
  const { client, events } = serving(guardOf());
  await using _ = client;
  const times = { exp: Math.floor(clock.nowMs() / 1_000) + 3_600 };
  const token = fake.token({ ...times, cnf: { jkt: thumbprintOf(CLIENT.publicKey) } });
  const used = proofOf(token);
  const stranger = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  for (const [what, authorization, dpop, status, reason] of [
    ['valid', `DPoP ${token}`, () => used, 200, undefined],
    ['used', `DPoP ${token}`, () => used, 401, 'replayed'],
    ['without a proof', `DPoP ${token}`, undefined, 401, 'absent'],
    ['as Bearer', `Bearer ${token}`, () => proofOf(token), 401, 'other_scheme'],
    ['by another key', `DPoP ${token}`, () => proofOf(token, {}, stranger), 401, 'other_key'],
    ['for another token', `DPoP ${token}`, () => proofOf('other'), 401, 'ath'],
    ['for another method', `DPoP ${token}`, () => proofOf(token, { htm: 'POST' }), 401, 'htm'],
    ['for another URL', `DPoP ${token}`, () => proofOf(token, { htu: 'http://localhost/x' }), 401, 'htu'],
    ['old', `DPoP ${token}`, () => proofOf(token, { iat: clock.nowMs() / 1_000 - 61 }), 401, 'iat'],
    ['an unbound token as DPoP', `DPoP ${fake.token(times)}`, () => proofOf(token), 401, 'other_scheme'],
  ] as const) {
    if (what !== 'used') await clock.advance(60_000); // the log has one line a minute
    events.length = 0;
    const headers: Record<string, string> = {
      authorization,
      ...(dpop === undefined ? {} : { dpop: dpop() }),
    };
    const response = await client.get('/', { headers });
    assert.equal(response.status, status, what);
    const logged = events.filter(({ event }) => event === 'dpop_refused').map((event) => event['reason']);
    assert.deepEqual(logged, reason === undefined ? [] : [reason], what);
    if (status === 401)
      assert.match(
        response.headers.get('www-authenticate') ?? '',
        what === 'as Bearer'
          ? /^Bearer .*, DPoP algs="ES256 EdDSA RS256"$/
          : /^Bearer.*, DPoP error="invalid_dpop_proof", algs="ES256 EdDSA RS256"$/,
        what,
      );
  }
  const foreign = fake.token({ ...times, aud: 'other', cnf: { jkt: thumbprintOf(CLIENT.publicKey) } });
  const refused = await client.get('/', {
    headers: { authorization: `DPoP ${foreign}`, dpop: proofOf(foreign) },
  });
  assert.match(
    refused.headers.get('www-authenticate') ?? '',
    /^Bearer.*, DPoP error="invalid_token", algs="ES256 EdDSA RS256"$/,
  );
  const plain = await client.get('/', {
    headers: { authorization: `Bearer ${fake.token({ ...times, aud: 'other' })}` },
  });
  assert.doesNotMatch(plain.headers.get('www-authenticate') ?? '', /DPoP/);
});

test('a WebSocket handshake is accepted with a token, refused without, and the WebSocket ends with its token', async () => {
  const token = IssuerAuth({ issuer: ISSUER, audience: AUDIENCE });
  const app = new Svc({ clock });
  app.websocket('/live', { me: Depends(token) }).onOpen((socket, { me }) => socket.send(me.principal));
  await using client = new TestClient(app, { overrides: [fake.overrideOf(token)] });
  const socket = await client.websocket('/live', bearer(fake.token({})));
  assert.equal(await socket.receive(), `${ISSUER} ada`);
  await clock.advance(360_000); // five minutes, and the leeway of one
  const { code, reason } = await socket.closed;
  assert.deepEqual([code, reason], [1008, 'expired']);
  await assert.rejects(client.websocket('/live'), /status 401/);
  await assert.rejects(client.websocket('/live', bearer(fake.token({ aud: 'x' }))), /status 401/);
});

test('IssuerAuth() refuses options that are wrong, and never falls back to another secret', () => {
  const one = { issuer: ISSUER, audience: AUDIENCE };
  for (const [what, code, issuers, options] of [
    ['no issuer', 'E_AUTH', { audience: AUDIENCE }, {}],
    ['issuer undefined', 'E_AUTH', { ...one, issuer: undefined }, {}],
    ['audience undefined', 'E_AUTH', { ...one, audience: undefined }, {}],
    ['no audience', 'E_OPTION_RANGE', { ...one, audience: [] }, {}],
    ['an empty audience', 'E_OPTION_RANGE', { ...one, audience: '' }, {}],
    ['no issuers', 'E_AUTH', [], {}],
    ['an issuer twice', 'E_AUTH', [one, one], {}],
    ['http', 'E_AUTH', { ...one, issuer: 'http://login.example' }, {}],
    ['http to localhost', 'E_AUTH', { ...one, issuer: 'http://localhost:8080' }, {}],
    ['no URL', 'E_AUTH', { ...one, issuer: 'login' }, {}],
    ['an issuer with a query', 'E_AUTH', { ...one, issuer: `${ISSUER}/?tenant=1` }, {}],
    ['an issuer of all tenants', 'E_AUTH', { ...one, issuer: `${ISSUER}/{tenantid}/v2.0` }, {}],
    ['an issuer of all tenants in a list', 'E_AUTH', [one, { ...one, issuer: `${ISSUER}/{t}` }], {}],
    ['an issuer with one brace', 'E_AUTH', { ...one, issuer: `${ISSUER}/t}` }, {}],
    ['jwksUri of all tenants', 'E_AUTH', { ...one, jwksUri: `${ISSUER}/{tenantid}/keys` }, {}],
    ['an issuer with a password', 'E_AUTH', { ...one, issuer: 'https://a:b@login.example' }, {}],
    ['jwksUri by http', 'E_AUTH', { ...one, jwksUri: 'http://login.example/jwks' }, {}],
    ['HS256', 'E_OPTION_RANGE', { ...one, algorithms: ['HS256'] }, {}],
    ['none', 'E_OPTION_RANGE', { ...one, algorithms: ['RS256', 'none'] }, {}],
    ['no algorithms', 'E_OPTION_RANGE', { ...one, algorithms: [] }, {}],
    ['an unknown option', 'E_OPTION_UNKNOWN', { ...one, secret: 'x' }, {}],
    ['an object as a required claim', 'E_OPTION_RANGE', { ...one, requiredClaims: { a: {} } }, {}],
    ['a proxy that is no URL', 'E_AUTH', { ...one, proxy: 'proxy:3128' }, {}],
    ['a proxy that is a number', 'E_AUTH', { ...one, proxy: 5 }, {}],
    ['too much leeway', 'E_OPTION_RANGE', one, { leewaySeconds: 301 }],
    ['a realm with a quotation mark', 'E_OPTION_RANGE', one, { realm: '"' }],
  ] as const)
    // the casts are safe: the options are wrong on purpose
    assert.throws(() => IssuerAuth(issuers as TrustedIssuer, options as object), { code }, what);
  const tenants = Array.from({ length: 101 }, (_, tenant) => ({ ...one, issuer: `${ISSUER}/${tenant}` }));
  assert.throws(() => IssuerAuth(tenants), { code: 'E_AUTH' });
  IssuerAuth(tenants.slice(1));
  IssuerAuth({ ...one, requiredClaims: { text: 'x', number: 1, boolean: true } });
  IssuerAuth({ ...one, issuer: 'http://localhost:8080/realms/x', allowInsecure: true });
  IssuerAuth({ ...one, issuer: `${ISSUER}/?tenant=1`, jwksUri: `${ISSUER}/jwks` });
  IssuerAuth({ ...one, jwksUri: 'http://keycloak:8080/jwks', allowInsecure: ['keycloak'] });
});

test('FakeIssuer signs by each of its algorithms, and overrides only guards that trust it', async () => {
  for (const algorithm of ['RS256', 'ES256', 'EdDSA'] as const) {
    const issuer = new FakeIssuer(ISSUER, { audience: AUDIENCE, algorithm, clock });
    assert.equal(
      (await claimsOf(guardOf({ jwks: issuer.jwks }), issuer.token({ sub: 'bob' })))['sub'],
      'bob',
    );
  }
  const stranger = new FakeIssuer('https://other.example');
  assert.throws(() => stranger.overrideOf(guardOf()), { code: 'E_AUTH' });
  assert.throws(() => fake.overrideOf(BearerAuth()), { code: 'E_AUTH' });
});
