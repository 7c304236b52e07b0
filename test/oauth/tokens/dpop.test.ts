/**
 * DPoP: the example of RFC 9449, the vector of RFC 7638, and bound tokens at BearerAuth.
 */
import assert from 'node:assert/strict';
import { createHash, createPublicKey, generateKeyPairSync, sign } from 'node:crypto';
import { join } from 'node:path';
import { test } from 'node:test';
import { BearerAuth, Depends, requireScopes } from 'svc';
import { DatabasePlugin } from 'svc/db';
import { OAuthPlugin } from 'svc/oauth';
import { ManualClock } from 'svc/testing';
import { AppState, RequestState } from '../../../src/http/state.ts';
import { createMetrics } from '../../../src/observability/metrics.ts';
import { Audit } from '../../../src/oauth/audit.ts';
import { Keyring } from '../../../src/crypto/keys.ts';
import { MemoryRecordStore } from '../../../src/cache/stores.ts';
import { SingleUse } from '../../../src/oauth/single-use.ts';
import { thumbprintOf } from '../../../src/crypto/jwk.ts';
import { DpopNonces, DPoP } from '../../../src/oauth/tokens/dpop.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import { folder } from '../../support/run.ts';
import { LoginSite, SECRET, claimsOf, fakeProvider, refusedAs } from '../support/site.ts';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import type { HttpRequest } from '../../../src/http/contracts.ts';
import type { LoginSiteOptions, SiteDatabase, Tokens } from '../support/site.ts';

/** A client's key pair. */
interface ClientKey {
  readonly alg: string;
  readonly privateKey: KeyObject;
  readonly jwk: JsonWebKey;
  readonly jkt: string;
}
type Changes = { readonly header?: Record<string, unknown>; readonly claims?: Record<string, unknown> };

const TOKEN_URL = 'http://localhost/oauth/token';
const segment = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString('base64url');
const athOf = (token: string): string => createHash('sha256').update(token).digest('base64url');

function keyOf(alg: 'ES256' | 'EdDSA' | 'RS256', bits = 2_048): ClientKey {
  const { publicKey, privateKey } =
    alg === 'ES256'
      ? generateKeyPairSync('ec', { namedCurve: 'P-256' })
      : alg === 'EdDSA'
        ? generateKeyPairSync('ed25519')
        : generateKeyPairSync('rsa', { modulusLength: bits });
  return { alg, privateKey, jwk: publicKey.export({ format: 'jwk' }), jkt: thumbprintOf(publicKey) };
}

const EC = keyOf('ES256'),
  OTHER = keyOf('ES256');
let counter = 0;

function proof(clock: ManualClock, key: ClientKey = EC, { header = {}, claims = {} }: Changes = {}): string {
  const signed = `${segment({ typ: 'dpop+jwt', alg: key.alg, jwk: key.jwk, ...header })}.${segment({ jti: `jti-${++counter}`, htm: 'POST', htu: TOKEN_URL, iat: Math.floor(clock.nowMs() / 1_000), ...claims })}`;
  const signature = sign(key.alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), {
    key: key.privateKey,
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}

function open(
  dpop: 'off' | 'optional' | 'required' = 'optional',
  options: LoginSiteOptions = {},
): Promise<LoginSite> {
  return LoginSite.open({
    ...options,
    plugin: { dpop, scopes: ['read'], limits: { token: false }, ...options.plugin },
    more: (app) => {
      app.route(
        '/me',
        ['GET', 'POST'],
        { me: Depends(requireScopes('read')), again: Depends(BearerAuth()) },
        ({ me, again }) => `${me.sub} ${again.sub}`,
      );
      app.get('/admin', { me: Depends(requireScopes('admin')) }, ({ me }) => me.sub);
      app.get(
        '/maybe',
        { me: Depends(BearerAuth(undefined, { optional: true })) },
        ({ me }) => me?.sub ?? 'nobody',
      );
    },
  });
}

const refresh = (site: LoginSite, token: string, dpop?: string): Promise<Response> =>
  site.client.post('/oauth/token', {
    form: { refresh_token: token },
    headers: dpop === undefined ? {} : { dpop },
  });

async function bound(site: LoginSite, key: ClientKey = EC): Promise<Tokens> {
  const response = await refresh(site, (await site.login()).refresh_token, proof(site.clock, key));
  assert.equal(response.status, 200, await response.clone().text());
  return (await response.json()) as Tokens;
}

/** Returns a request with the members that a proof covers. */
function requestOf(headers: Record<string, string>, parts: Partial<HttpRequest> = {}): HttpRequest {
  return {
    state: new RequestState(new AppState()),
    method: 'POST',
    scheme: 'https',
    host: 'server.example.com',
    path: '/token',
    headers,
    id: 'r',
    ip: '192.0.2.1',
    ...parts,
  } as unknown as HttpRequest;
}

function judge(clock: ManualClock): {
  readonly dpop: DPoP;
  readonly reasonOf: (text: string, parts?: Partial<HttpRequest>) => Promise<string>;
} {
  const { logger } = collectedLog();
  const records = new MemoryRecordStore({ clock });
  const dpop = new DPoP({
    isRequired: false,
    requiresNonce: false,
    nonces: new DpopNonces(Keyring.of(SECRET), clock),
    used: new SingleUse(records),
    clock,
    audit: new Audit(logger, createMetrics({ log: logger })),
  });
  const reasonOf = async (text: string, parts: Partial<HttpRequest> = {}): Promise<string> => {
    try {
      await dpop.keyOf(
        requestOf({ dpop: text }, { scheme: 'http', host: 'localhost', path: '/oauth/token', ...parts }),
        'login',
      );
      return 'accepted';
    } catch (error) {
      const { code } = error as { code?: string };
      assert.ok(code === 'invalid_dpop_proof' || code === 'use_dpop_nonce', code);
      return (error as { reason: string }).reason;
    }
  };
  return { dpop, reasonOf };
}

test('thumbprintOf() returns the JWK thumbprint of the example in RFC 7638 §3.1, and ignores all other members of a key', () => {
  const jwk = {
    kty: 'RSA',
    e: 'AQAB',
    alg: 'RS256',
    kid: '2011-04-29',
    n: '0vx7agoebGcQSuuPiLJXZptN9nndrQmbXEps2aiAFbWhM78LhWx4cbbfAAtVT86zwu1RK7aPFFxuhDR1L6tSoc_BJECPebWKRXjBZCiFV4n3oknjhMstn64tZ_2W-5JsGY4Hc5n9yBXArwl93lqt7_RN5w6Cf0h4QyQ5v-65YGjQR0_FDW2QvzqY368QQMicAtaSqzs8KJZgnYb9c7d0zgdAZHzu6qMQvRL5hajrn1n91CbOpbISD08qNLyrdkt-bFTWhAI4vMQFh6WeZu0fM4lFd2NcRwr3XPksINHaQ-G_xBniIqbw0Ls1jF44-csFCur-kEgU8awapJzKnqDKgw',
  };
  assert.equal(
    thumbprintOf(createPublicKey({ key: jwk, format: 'jwk' })),
    'NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs',
  );
});

test('DPoP: the example proof of RFC 9449 §4.1 is valid for its request, and has the thumbprint of §6.1', async () => {
  const example =
    'eyJ0eXAiOiJkcG9wK2p3dCIsImFsZyI6IkVTMjU2IiwiandrIjp7Imt0eSI6IkVDIiwieCI6Imw4dEZyaHgtMzR0VjNoUklDUkRZOXpDa0RscEJoRjQyVVFVZldWQVdCRnMiLCJ5IjoiOVZFNGpmX09rX282NHpiVFRsY3VOSmFqSG10NnY5VERWclUwQ2R2R1JEQSIsImNydiI6IlAtMjU2In19' +
    '.eyJqdGkiOiItQndDM0VTYzZhY2MybFRjIiwiaHRtIjoiUE9TVCIsImh0dSI6Imh0dHBzOi8vc2VydmVyLmV4YW1wbGUuY29tL3Rva2VuIiwiaWF0IjoxNTYyMjYyNjE2fQ.2-GxA6T8lP4vfrg8v-FdWP0A0zdrj8igiMLvqRMUvwnQg4PtFLbdLXiOSsX0x7NVY-FNyJK70nfbV37xRZT3Lg';
  const clock = new ManualClock(1_562_262_616_000);
  const { dpop } = judge(clock);
  assert.equal(
    await dpop.keyOf(requestOf({ dpop: example }), 'login'),
    '0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I',
  );
  await assert.rejects(dpop.keyOf(requestOf({ dpop: example }), 'login'), {
    code: 'invalid_dpop_proof',
    reason: 'replayed',
  });
});

test('DPoP: a proof is refused for each single mistake in its header, claims or signature', async () => {
  const clock = new ManualClock();
  const now = Math.floor(clock.nowMs() / 1_000);
  const { reasonOf } = judge(clock);
  const rsa = keyOf('RS256'),
    ed = keyOf('EdDSA'),
    weak = keyOf('RS256', 1_024);
  const good = proof(clock);
  const [head, body, tail] = good.split('.') as [string, string, string];
  const cases: readonly (readonly [string, string])[] = [
    ['', 'malformed'],
    ['x', 'malformed'],
    [`${head}.${body}`, 'malformed'],
    [`${good}, ${good}`, 'malformed'],
    [`${good}=`, 'malformed'],
    [`${good}.x`, 'malformed'],
    [`${head}.${body}.A`, 'malformed'],
    [`${'A'.repeat(9_000)}.${body}.${tail}`, 'malformed'],
    [`${segment([])}.${body}.${tail}`, 'malformed'],
    [`${head}.${segment('x')}.${tail}`, 'malformed'],
    [proof(clock, EC, { header: { typ: 'JWT' } }), 'typ'],
    [proof(clock, EC, { header: { typ: undefined } }), 'typ'],
    [proof(clock, EC, { header: { typ: 'DPOP+JWT' } }), 'typ'],
    ...['none', 'HS256', 'PS256', 'ES384', 'es256', undefined, 1].map(
      (alg) => [proof(clock, EC, { header: { alg } }), 'alg'] as const,
    ),
    ...['crit', 'jku', 'x5u', 'x5c', 'b64', 'zip', 'enc', 'cty'].map(
      (name) => [proof(clock, EC, { header: { [name]: 'x' } }), 'header'] as const,
    ),
    ...[
      undefined,
      null,
      'x',
      [],
      {},
      { kty: 'oct', k: 'AAAA' },
      { ...EC.jwk, d: 'AAAA' },
      { ...EC.jwk, k: '' },
      { ...EC.jwk, x: EC.jwk.y },
      { ...EC.jwk, crv: 'P-384' },
      { ...EC.jwk, use: 'enc' },
      { ...EC.jwk, alg: 'RS256' },
      rsa.jwk,
    ].map((jwk) => [proof(clock, EC, { header: { jwk } }), 'jwk'] as const),
    [proof(clock, weak), 'jwk'],
    [proof(clock, ed, { header: { alg: 'ES256' } }), 'jwk'],
    [proof(clock, EC, { header: { jwk: OTHER.jwk } }), 'signature'],
    [`${head}.${body}.${'A'.repeat(86)}`, 'signature'],
    [`${head}.${segment({ jti: 'x', htm: 'POST', htu: TOKEN_URL, iat: now })}.${tail}`, 'signature'],
    [`${head}.${body}.AAAA`, 'signature'],
    ...[undefined, '', 7, 'x'.repeat(257), null].map(
      (jti) => [proof(clock, EC, { claims: { jti } }), 'jti'] as const,
    ),
    ...[undefined, 'GET', 'post', ['POST']].map(
      (htm) => [proof(clock, EC, { claims: { htm } }), 'htm'] as const,
    ),
    ...[
      undefined,
      7,
      '',
      '/oauth/token',
      'https://localhost/oauth/token',
      'http://localhost:8080/oauth/token',
      'http://evil.example/oauth/token',
      'http://localhost/oauth/token/',
      'http://localhost/oauth/revoke',
      'http://user@localhost/oauth/token',
      'http://:p@localhost/oauth/token',
      'http://localhost.evil.example/oauth/token',
    ].map((htu) => [proof(clock, EC, { claims: { htu } }), 'htu'] as const),
    ...[undefined, String(now), now - 61, now + 62, 1e400, -1].map(
      (iat) => [proof(clock, EC, { claims: { iat } }), 'iat'] as const,
    ),
  ];
  for (const [text, reason] of cases) assert.equal(await reasonOf(text), reason, text);
  for (const key of [EC, rsa, ed]) assert.equal(await reasonOf(proof(clock, key)), 'accepted', key.alg);
  for (const claims of [
    { iat: now - 60 },
    { iat: now + 60 },
    { iat: now + 0.5 },
    { jti: 'x'.repeat(256) },
    { htu: 'HTTP://LOCALHOST:80/oauth/token?a=b#c' },
    { further: {} },
  ])
    assert.equal(await reasonOf(proof(clock, EC, { claims })), 'accepted', JSON.stringify(claims));
  assert.equal(await reasonOf(good), 'accepted', 'what was refused has used nothing up');
  assert.equal(await reasonOf(proof(clock), { host: '' }), 'htu', 'a request without a host');
});

test('DPoP: a proof can be used once during its lifetime, but proofs of two different keys may have equal jti values', async () => {
  const clock = new ManualClock();
  const { reasonOf } = judge(clock);
  const ahead = proof(clock, EC, { claims: { jti: 'one', iat: Math.floor(clock.nowMs() / 1_000) + 60 } });
  assert.equal(await reasonOf(ahead), 'accepted');
  assert.equal(await reasonOf(proof(clock, OTHER, { claims: { jti: 'one' } })), 'accepted');
  assert.equal(await reasonOf(proof(clock, EC, { claims: { jti: 'one' } })), 'replayed');
  await clock.advance(120_000);
  assert.equal(await reasonOf(ahead), 'replayed');
  await clock.advance(2_000);
  assert.equal(await reasonOf(ahead), 'iat');
  const same = proof(clock);
  const answers = await Promise.all(Array.from({ length: 5 }, () => reasonOf(same)));
  assert.equal(answers.filter((each) => each === 'accepted').length, 1);
});

test('DPoP: a proof that was used in one process is refused in every other process (RFC 9449 §11.1)', async (t) => {
  const url = `sqlite:${join(folder(t), 'data.db')}`;
  const database = (): Promise<SiteDatabase> =>
    Promise.resolve({ plugin: new DatabasePlugin(url, { migrations: 'apply' }) });
  await using one = await open('optional', { database });
  await using two = await open('optional', { database });
  const { refresh_token: first } = await one.login();
  const { refresh_token: other } = await one.login();
  await two.client.get('/healthz');
  const used = proof(one.clock);
  assert.equal((await refresh(one, first, used)).status, 200);
  await refusedAs(await refresh(two, other, used), 400, 'invalid_dpop_proof');
  assert.equal((await refresh(two, other, proof(two.clock))).status, 200);
});

test('DPoP: successful and refused token responses contain a DPoP-Nonce header, and an expired nonce is refused (RFC 9449 §8)', async () => {
  await using site = await open('optional');
  const { refresh_token: token } = await site.login();
  const refused = await refresh(site, token, 'x');
  const nonce = refused.headers.get('dpop-nonce')!;
  assert.match(nonce, /^[\w-]+\.[\w-]{22}$/);
  await refusedAs(refused, 400, 'invalid_dpop_proof');
  const next = await refresh(site, token, proof(site.clock, EC, { claims: { nonce } }));
  assert.equal(next.status, 200);
  assert.equal(next.headers.get('dpop-nonce'), nonce);
  const { access_token: access, refresh_token: again } = (await next.json()) as Tokens;
  await site.clock.advance(600_000);
  for (const bad of [nonce, 'x', 1, `${nonce.slice(0, -1)}${nonce.endsWith('A') ? 'B' : 'A'}`]) {
    const response = await refresh(site, again, proof(site.clock, EC, { claims: { nonce: bad } }));
    assert.notEqual(response.headers.get('dpop-nonce'), nonce);
    await refusedAs(response, 400, 'use_dpop_nonce');
  }
  const challenged = await site.client.get('/me', {
    headers: {
      authorization: `DPoP ${access}`,
      dpop: proof(site.clock, EC, {
        claims: { htm: 'GET', htu: 'http://localhost/me', ath: athOf(access), nonce },
      }),
    },
  });
  assert.equal(challenged.status, 401);
  assert.match(challenged.headers.get('www-authenticate')!, /DPoP error="use_dpop_nonce"/);
  assert.match(challenged.headers.get('dpop-nonce')!, /^[\w-]+\.[\w-]{22}$/);
});

test('DPoP: if dpopNonces is "required", a proof without a nonce is refused, and the response contains a nonce', async () => {
  await using site = await open('optional', { plugin: { dpopNonces: 'required' } });
  const { refresh_token: token } = await site.login();
  const refused = await refresh(site, token, proof(site.clock));
  const nonce = refused.headers.get('dpop-nonce')!;
  await refusedAs(refused, 400, 'use_dpop_nonce');
  assert.equal((await refresh(site, token, proof(site.clock, EC, { claims: { nonce } }))).status, 200);
});

test('DPoP: with the parameter dpop_jkt, the tokens from the login itself are bound to the key with this thumbprint (RFC 9449 §10)', async () => {
  await using site = await open('required');
  const { state } = await site.begin({ dpop_jkt: EC.jkt });
  const tokens = (await (await site.back({ code: 'c', state })).json()) as Tokens;
  assert.equal(tokens.token_type, 'DPoP');
  assert.deepEqual(claimsOf(tokens.access_token)['cnf'], { jkt: EC.jkt });
  const asBearer = await site.client.get('/me', {
    headers: { authorization: `Bearer ${tokens.access_token}` },
  });
  assert.equal(asBearer.status, 401);
  await refusedAs(await refresh(site, tokens.refresh_token, proof(site.clock, OTHER)), 400, 'invalid_grant');
  assert.equal((await refresh(site, tokens.refresh_token, proof(site.clock))).status, 200);
  for (const jkt of ['x', EC.jkt.slice(1), `${EC.jkt}x`])
    await refusedAs(
      await site.client.get('/oauth/login', { query: { dpop_jkt: jkt } }),
      400,
      'invalid_request',
    );
  await using off = await open('off');
  await refusedAs(
    await off.client.get('/oauth/login', { query: { dpop_jkt: EC.jkt } }),
    400,
    'invalid_request',
  );
});

test('DPoP: a proof with a changed or missing character is never accepted', async () => {
  const clock = new ManualClock();
  const { reasonOf } = judge(clock);
  const random = seeded(9_449);
  const good = proof(clock);
  for (let round = 0; round < 400; round++) {
    const at = random(good.length),
      code = 33 + random(94);
    const mutant = [
      good.slice(0, at) + String.fromCharCode(code) + good.slice(at + 1),
      good.slice(0, at) + good.slice(at + 1),
      good.slice(0, at),
    ][round % 3]!;
    if (mutant !== good) assert.notEqual(await reasonOf(mutant), 'accepted', mutant);
  }
  assert.equal(await reasonOf(good), 'accepted');
});

test('DPoP: the first refresh with a proof binds the login to the key of the proof, and later refreshes with a different key are refused', async () => {
  for (const env of ['test', 'production'] as const) {
    await using site = await open('optional', { hasDatabase: env === 'production' });
    const first = await site.login();
    assert.deepEqual([first.token_type, claimsOf(first.access_token)['cnf']], ['Bearer', undefined]);
    const unbound = await site.refreshed(first.refresh_token);
    assert.equal(unbound.token_type, 'Bearer');
    const answer = await refresh(site, unbound.refresh_token, proof(site.clock));
    const tokens = (await answer.json()) as Tokens;
    assert.deepEqual(
      [answer.status, tokens.token_type, claimsOf(tokens.access_token)['cnf']],
      [200, 'DPoP', { jkt: EC.jkt }],
    );
    await refusedAs(
      await refresh(site, tokens.refresh_token, proof(site.clock, OTHER)),
      400,
      'invalid_grant',
    );
    await refusedAs(await refresh(site, tokens.refresh_token), 400, 'invalid_grant');
    await refusedAs(await refresh(site, tokens.refresh_token, 'nonsense'), 400, 'invalid_dpop_proof');
    const same = proof(site.clock);
    const next = await refresh(site, tokens.refresh_token, same);
    assert.equal(next.status, 200, 'nothing of that has rotated it');
    const { refresh_token: token } = (await next.json()) as Tokens;
    await refusedAs(await refresh(site, token, same), 400, 'invalid_dpop_proof');
    assert.deepEqual(
      site.audited('token_refused').map(({ reason }) => reason),
      ['other_key', 'other_key', 'dpop_malformed', 'dpop_replayed'],
    );
    assert.equal((await refresh(site, token, proof(site.clock))).status, 200);
  }
});

test('DPoP: if several keys try to bind one login at the same time, only one of them succeeds', async () => {
  await using site = await open('optional', { hasDatabase: true });
  const { refresh_token: token } = await site.login();
  const keys = [EC, OTHER, EC, OTHER, keyOf('EdDSA')];
  const answers = await Promise.all(
    keys.map((key) =>
      site.client.post('/oauth/token', {
        form: { refresh_token: token },
        headers: { dpop: proof(site.clock, key) },
      }),
    ),
  );
  const won = new Set<unknown>(),
    successors = new Set<string>();
  for (const answer of answers.filter(({ status }) => status === 200)) {
    const tokens = (await answer.json()) as Tokens;
    won.add((claimsOf(tokens.access_token)['cnf'] as { jkt: string }).jkt);
    successors.add(tokens.refresh_token);
  }
  assert.deepEqual([won.size, successors.size], [1, 1]);
  for (const answer of answers.filter(({ status }) => status !== 200))
    await refusedAs(answer, 400, 'invalid_grant');
  assert.equal((await site.oauth.listSessions('user-ada')).length, 1);
});

test("DPoP: if a thief binds a stolen refresh token to a key, the owner's next refresh with the old token ends the login", async () => {
  await using site = await open();
  const { refresh_token: token } = await site.login();
  const thief = (await (await refresh(site, token, proof(site.clock, OTHER))).json()) as Tokens;
  await refusedAs(await refresh(site, token, proof(site.clock)), 400, 'invalid_grant');
  assert.equal(site.audited('token_reuse_detected').length, 1);
  await refusedAs(await refresh(site, thief.refresh_token, proof(site.clock, OTHER)), 400, 'invalid_grant');
});

test('DPoP: a refresh whose response was lost can be repeated only with a proof by the key of the login', async () => {
  await using site = await open('optional', { plugin: { refreshGraceSeconds: 10 } });
  const { refresh_token: token } = await bound(site);
  const lost = (await (await refresh(site, token, proof(site.clock))).json()) as Tokens;
  await refusedAs(await refresh(site, token, proof(site.clock, OTHER)), 400, 'invalid_grant');
  await refusedAs(await refresh(site, token), 400, 'invalid_grant');
  assert.equal(
    ((await (await refresh(site, token, proof(site.clock))).json()) as Tokens).refresh_token,
    lost.refresh_token,
  );
});

test('DPoP: /oauth/token refuses a refresh without a proof if dpop is "required", and ignores proofs if dpop is "off"', async () => {
  await using strict = await open('required');
  const { refresh_token: token } = await strict.login();
  await refusedAs(await refresh(strict, token), 400, 'invalid_dpop_proof');
  const { refresh_token: next } = (await (
    await refresh(strict, token, proof(strict.clock))
  ).json()) as Tokens;
  await refusedAs(await refresh(strict, next), 400, 'invalid_dpop_proof');
  assert.equal((await strict.revoke({ token: next })).status, 200);
  await using off = await open('off');
  const answer = await refresh(off, (await off.login()).refresh_token, 'nonsense');
  assert.deepEqual([answer.status, ((await answer.json()) as Tokens).token_type], [200, 'Bearer']);
});

test('DPoP: an access token that is bound to a key needs, for each request, a new proof by this key', async () => {
  await using site = await open('optional', { plugin: { enforceValidAfter: true } });
  const { access_token: token } = await bound(site);
  const claims = { htm: 'GET', htu: 'http://localhost/me', ath: athOf(token) };
  const statusOf = async (headers: Record<string, string>): Promise<number> =>
    (await site.client.get('/me', { headers })).status;
  const dpop = proof(site.clock, EC, { claims });
  const response = await site.client.get('/me', { headers: { authorization: `DPoP ${token}`, dpop } });
  assert.deepEqual(
    [response.status, await response.text()],
    [200, 'user-ada user-ada'],
    'two dependencies, one proof',
  );
  assert.equal(
    await statusOf({ authorization: `dpop ${token}`, dpop: proof(site.clock, EC, { claims }) }),
    200,
  );
  const refused: Record<string, string>[] = [
    { authorization: `DPoP ${token}`, dpop },
    { authorization: `DPoP ${token}` },
    { authorization: `Bearer ${token}` },
    { authorization: `Bearer ${token}`, dpop: proof(site.clock, EC, { claims }) },
    { authorization: `DPoP ${token}`, dpop: proof(site.clock, OTHER, { claims }) },
    {
      authorization: `DPoP ${token}`,
      dpop: proof(site.clock, EC, { claims: { ...claims, ath: undefined } }),
    },
    {
      authorization: `DPoP ${token}`,
      dpop: proof(site.clock, EC, { claims: { ...claims, ath: athOf('another') } }),
    },
    { authorization: `DPoP ${token}`, dpop: proof(site.clock, EC, { claims: { ...claims, htm: 'POST' } }) },
  ];
  for (const headers of refused) assert.equal(await statusOf(headers), 401);
  assert.deepEqual(
    site.audited('dpop_refused').map(({ reason }) => reason),
    ['replayed', 'absent', 'other_scheme', 'other_scheme', 'other_key', 'ath', 'ath', 'htm'],
  );
  await site.oauth.revokeAll('user-ada');
  assert.equal(
    await statusOf({ authorization: `DPoP ${token}`, dpop: proof(site.clock, EC, { claims }) }),
    401,
    'revoked',
  );
});

test('DPoP: a 401 has challenges for Bearer and DPoP, and the challenge of the scheme in the request contains the error (RFC 9449 §7.1)', async () => {
  await using site = await open();
  const { access_token: token } = await bound(site);
  const claims = { htm: 'GET', htu: 'http://localhost/me', ath: athOf(token) };
  const algs = 'algs="ES256 EdDSA RS256"';
  for (const [headers, expected] of [
    [{}, `Bearer, DPoP ${algs}`],
    [{ authorization: 'DPoP' }, `Bearer, DPoP ${algs}`],
    [{ authorization: `Bearer ${token}` }, `Bearer error="invalid_token", DPoP ${algs}`],
    [{ authorization: `DPoP ${token}` }, `Bearer, DPoP error="invalid_dpop_proof", ${algs}`],
    [
      { authorization: `DPoP ${token}`, dpop: proof(site.clock, EC, { claims: { ...claims, htm: 'PUT' } }) },
      `Bearer, DPoP error="invalid_dpop_proof", ${algs}`,
    ],
    [
      { authorization: `DPoP ${token}`, dpop: proof(site.clock, OTHER, { claims }) },
      `Bearer, DPoP error="invalid_token", ${algs}`,
    ],
    [
      { authorization: `DPoP ${token}x`, dpop: proof(site.clock, EC, { claims }) },
      `Bearer, DPoP error="invalid_token", ${algs}`,
    ],
  ] as [Record<string, string>, string][]) {
    const response = await site.client.get('/me', { headers });
    assert.deepEqual([response.status, response.headers.get('www-authenticate')], [401, expected]);
  }
  const narrow = await site.client.get('/admin', {
    headers: {
      authorization: `DPoP ${token}`,
      dpop: proof(site.clock, EC, { claims: { ...claims, htu: 'http://localhost/admin' } }),
    },
  });
  assert.deepEqual(
    [narrow.status, narrow.headers.get('www-authenticate')],
    [403, 'DPoP error="insufficient_scope", scope="admin"'],
  );
  await using without = await open('off');
  assert.equal((await without.client.get('/me')).headers.get('www-authenticate'), 'Bearer');
});

test('DPoP: an access token that is not bound to a key is accepted only with the scheme Bearer', async () => {
  await using site = await open();
  const { access_token: token } = await site.login();
  assert.equal((await site.client.get('/me', { headers: { authorization: `Bearer ${token}` } })).status, 200);
  const claims = { htm: 'GET', htu: 'http://localhost/me', ath: athOf(token) };
  const refused = await site.client.get('/me', {
    headers: { authorization: `DPoP ${token}`, dpop: proof(site.clock, EC, { claims }) },
  });
  assert.deepEqual(
    [refused.status, refused.headers.get('www-authenticate')],
    [401, 'Bearer, DPoP error="invalid_token", algs="ES256 EdDSA RS256"'],
  );
  assert.equal(await (await site.client.get('/maybe')).text(), 'nobody');
  assert.equal((await site.client.get('/me', { headers: { authorization: 'DPoP' } })).status, 401);
});

test('DPoP: an access token whose claim "cnf" contains no key thumbprint is refused', async () => {
  await using site = await open('optional', {
    plugin: { onUser: () => ({ sub: 'ada', scopes: ['read'], claims: { cnf: 'x' } }) },
  });
  const { access_token: token } = await site.login();
  for (const scheme of ['Bearer', 'DPoP'])
    assert.equal(
      (await site.client.get('/me', { headers: { authorization: `${scheme} ${token}` } })).status,
      401,
    );
});

test('OAuthPlugin refuses the option "dpop" in cookie mode', async () => {
  await using site = await LoginSite.open();
  const make = (dpop: string) => () =>
    new OAuthPlugin({
      provider: fakeProvider(site.fake),
      onUser: () => 'x',
      mode: 'cookie',
      dpop: dpop as 'off',
    });
  for (const dpop of ['optional', 'required', 'yes']) assert.throws(make(dpop), { code: 'E_OPTION_RANGE' });
  assert.ok(make('off')());
});

test('DPoP: an MCP tool call is authenticated by the proof of its HTTP request, and this proof counts as used once', async () => {
  await using site = await LoginSite.open({
    plugin: { dpop: 'optional', scopes: ['read'] },
    more: (app) =>
      void app
        .get('/me', { me: Depends(requireScopes('read')), mcp: { name: 'me' } }, ({ me }) => ({
          sub: me.sub,
        }))
        .mountMcp('/mcp', { deps: { me: Depends(BearerAuth()) } })
        .mountMcp('/open'),
  });
  const { access_token: token } = await bound(site);
  const message = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'me',
      arguments: {},
      _meta: {
        'io.modelcontextprotocol/protocolVersion': '2026-07-28',
        'io.modelcontextprotocol/clientCapabilities': {},
      },
    },
  };
  const ask = (path: string, dpop: string | undefined, scheme = 'DPoP'): Promise<Response> =>
    site.client.post(path, {
      json: message,
      headers: {
        authorization: `${scheme} ${token}`,
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'tools/call',
        'mcp-name': 'me',
        ...(dpop === undefined ? {} : { dpop }),
      },
    });
  const proofFor = (path: string): string =>
    proof(site.clock, EC, { claims: { htu: `http://localhost${path}`, ath: athOf(token) } });
  const resultOf = async (response: Response): Promise<unknown> => {
    const { result } = (await response.json()) as {
      result: { structuredContent?: unknown; _meta: Record<string, unknown> };
    };
    return result.structuredContent ?? result._meta['svc/status'];
  };
  for (const path of ['/mcp', '/open']) {
    const used = proofFor(path);
    assert.deepEqual(await resultOf(await ask(path, used)), { sub: 'user-ada' }, path);
    for (const [dpop, scheme] of [
      [used],
      [proofFor('/me')],
      [undefined],
      [undefined, 'Bearer'],
      [proof(site.clock, OTHER, { claims: { htu: `http://localhost${path}`, ath: athOf(token) } })],
    ] as const) {
      const response = await ask(path, dpop, scheme);
      assert.equal(
        path === '/mcp' ? response.status : await resultOf(response),
        401,
        `${path} ${String(dpop)}`,
      );
    }
  }
});
