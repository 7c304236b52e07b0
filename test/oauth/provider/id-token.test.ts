import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { test } from 'node:test';
import { atHashOf, isExpectedIssuer, verifyIdToken } from '../../../src/oauth/provider/id-token.ts';
import { readKeySet } from '../../../src/crypto/jwk.ts';
import { ProviderFault } from '../../../src/auth/provider/failure.ts';
import { seeded } from '../../support/random.ts';
import { EC, EC384, EC521, ED, RSA, halfHash, jwk, jws } from '../support/fake-provider.ts';
import type { IdTokenClaims, IdTokenRules } from '../../../src/oauth/provider/id-token.ts';

const NOW = 1_704_067_200;
const TENANT_ID = '9188040d-6c67-4c5b-b112-36a304b66dad';
const RULES: IdTokenRules = {
  issuer: 'https://provider.test',
  tenants: undefined,
  clientId: 'client',
  algorithms: ['RS256'],
  nonce: 'n-1',
  accessToken: 'access',
  maxAgeSeconds: undefined,
  leewaySeconds: 60,
  nowSeconds: NOW,
};
const CLAIMS = {
  iss: 'https://provider.test',
  aud: 'client',
  sub: 'ada',
  iat: NOW,
  exp: NOW + 300,
  nonce: 'n-1',
};
const HEADER = { alg: 'RS256', typ: 'JWT', kid: 'rsa' };
const RSA_KEY = jwk(RSA.publicKey, { kid: 'rsa', use: 'sig' });
const KEYS: readonly unknown[] = [
  RSA_KEY,
  jwk(EC.publicKey, { kid: 'ec' }),
  jwk(EC384.publicKey, { kid: 'ec384' }),
  jwk(EC521.publicKey, { kid: 'ec521' }),
  jwk(ED.publicKey, { kid: 'ed' }),
];

interface Given {
  readonly header?: Readonly<Record<string, unknown>>;
  readonly claims?: Readonly<Record<string, unknown>>;
  readonly rules?: Partial<IdTokenRules>;
  readonly keys?: readonly unknown[];
}

function verified(token: string, { rules = {}, keys = KEYS }: Given = {}): Promise<IdTokenClaims> {
  return verifyIdToken(
    token,
    { ...RULES, ...rules },
    { current: () => readKeySet(keys), again: () => undefined },
  );
}

/** Returns a signed token. Claims and headers that are undefined are left out. */
function made({ header = {}, claims = {} }: Given, key = RSA.privateKey): string {
  return jws({ ...HEADER, ...header }, { ...CLAIMS, ...claims }, key);
}

async function refused(check: string, given: Given | string, why = check, more: Given = {}): Promise<void> {
  const call = typeof given === 'string' ? verified(given, more) : verified(made(given), given);
  await assert.rejects(
    call,
    (error) => {
      assert.ok(error instanceof ProviderFault, `${why}: ${String(error)}`);
      assert.deepEqual([error.code, error.reason], ['provider_error', `id_token_${check}`], why);
      return true;
    },
    why,
  );
}

test('verifyIdToken() accepts only the listed signature algorithms', async () => {
  assert.deepEqual(await verified(made({})), CLAIMS);
  for (const [alg, kid, key, bits] of [
    ['RS384', 'rsa', RSA, 384],
    ['RS512', 'rsa', RSA, 512],
    ['PS256', 'rsa', RSA, 256],
    ['PS384', 'rsa', RSA, 384],
    ['PS512', 'rsa', RSA, 512],
    ['ES256', 'ec', EC, 256],
    ['ES384', 'ec384', EC384, 384],
    ['ES512', 'ec521', EC521, 512],
    ['EdDSA', 'ed', ED, 512],
  ] as const) {
    const token = made(
      { header: { alg, kid }, claims: { at_hash: halfHash('access', `sha${bits}`) } },
      key.privateKey,
    );
    assert.equal((await verified(token, { rules: { algorithms: ['RS256', alg] } })).sub, 'ada', alg);
    await refused('alg', token, alg);
    const other = made(
      { header: { alg, kid }, claims: { at_hash: halfHash('access', bits === 256 ? 'sha384' : 'sha256') } },
      key.privateKey,
    );
    await refused('at_hash', other, alg, { rules: { algorithms: [alg] } });
    const [head, ...rest] = token.split('.') as [string, string, string]; // signed by one algorithm, said to be by another of the same key
    for (const said of [
      'RS256',
      'RS384',
      'RS512',
      'PS256',
      'PS384',
      'PS512',
      'ES256',
      'ES384',
      'ES512',
      'EdDSA',
    ] as const) {
      if (said === alg) continue;
      const renamed = [
        Buffer.from(Buffer.from(head, 'base64url').toString().replace(alg, said)).toString('base64url'),
        ...rest,
      ].join('.');
      await refused('signature', renamed, `${alg} as ${said}`, { rules: { algorithms: [said] } });
    }
  }
});

test('verifyIdToken() accepts the example signature of RFC 7515 §A.3 (ES256)', async () => {
  const key = {
    kty: 'EC',
    crv: 'P-256',
    x: 'f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU',
    y: 'x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0',
  };
  const token =
    'eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ' +
    '.DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q';
  const given: Given = { rules: { algorithms: ['ES256'] }, keys: [key] };
  await refused('iss', token, 'its signature fits, its claims are not ours', given);
  await refused('signature', `${token.slice(0, -2)}AQ`, 'another signature', given);
});

test('verifyIdToken() refuses duplicate member names in header and claims, at any depth and with any escapes (RFC 7515 §4, RFC 7519 §4)', async () => {
  const signed = (header: string, claims: string): string => {
    const text = [header, claims].map((part) => Buffer.from(part).toString('base64url')).join('.');
    return `${text}.${sign('sha256', Buffer.from(text), RSA.privateKey).toString('base64url')}`;
  };
  const [header, claims] = [JSON.stringify(HEADER), JSON.stringify(CLAIMS)];
  const more = (object: string, members: string): string => `${object.slice(0, -1)},${members}}`;
  assert.equal((await verified(signed(header, more(claims, '"x":{"sub":1}')))).sub, 'ada');
  for (const [head, body] of [
    [more(header, '"alg":"RS256"'), claims],
    [more(header, '"\\u0061lg":"RS256"'), claims],
    [header, more(claims, '"sub":"eve"')],
    [header, more(claims, '"s\\u0075b":"ada"')],
    [header, more(claims, '"x":[{"a":1,"a":1}]')],
    [header, more(claims, '"__proto__":{}')],
  ] as const)
    await refused('json', signed(head, body), head + body);
});

test('verifyIdToken() refuses unlisted algorithms, "none", and HS256 that uses the client secret or the public key as key', async () => {
  const body = Buffer.from(JSON.stringify(CLAIMS)).toString('base64url');
  for (const alg of [
    'none',
    'None',
    'HS256',
    'RS384',
    'rs256',
    'RS256 ',
    '',
    null,
    undefined,
    5,
    ['RS256'],
    {},
  ]) {
    const head = Buffer.from(JSON.stringify({ ...HEADER, alg })).toString('base64url');
    for (const secret of ['client-secret', RSA.publicKey.export({ format: 'pem', type: 'spki' })]) {
      await refused(
        'alg',
        `${head}.${body}.${createHmac('sha256', secret).update(`${head}.${body}`).digest('base64url')}`,
        String(alg),
      );
    }
  }
  await refused('base64url', `${Buffer.from('{"alg":"none"}').toString('base64url')}.${body}.`);
});

test('verifyIdToken() refuses a wrong issuer, a wrong audience, several audiences without azp, and a wrong azp', async () => {
  for (const iss of [
    'https://provider.test/',
    'https://PROVIDER.test',
    'http://provider.test',
    ['https://provider.test'],
    null,
    undefined,
    '',
  ])
    await refused('iss', { claims: { iss } }, String(iss));
  for (const aud of [
    'other',
    'Client',
    'client ',
    [],
    ['other'],
    ['other', 'another'],
    5,
    null,
    undefined,
    {},
    ['client', 5],
  ])
    await refused('aud', { claims: { aud } }, String(aud));
  await refused('azp', { claims: { aud: ['client', 'other'] } });
  await refused('azp', { claims: { aud: ['client', 'other'], azp: 'other' } });
  await refused('azp', { claims: { azp: 'other' } });
  await refused('azp', { claims: { azp: null } });
  for (const claims of [{ aud: ['client'] }, { aud: ['other', 'client'], azp: 'client' }, { azp: 'client' }])
    await verified(made({ claims }));
});

test('verifyIdToken() refuses a missing or wrong nonce, and throws if the caller gives no expected nonce', async () => {
  for (const nonce of ['n-2', 'N-1', '', null, undefined, 5, ['n-1']])
    await refused('nonce', { claims: { nonce } }, String(nonce));
  await refused('nonce', { rules: { nonce: undefined } });
  await refused('nonce', { rules: { nonce: undefined }, claims: { nonce: undefined } });
});

test('verifyIdToken() checks exp, iat and nbf, and tolerates a clock difference of 60 s in both directions', async () => {
  for (const claims of [{ exp: NOW - 59 }, { iat: NOW + 60 }, { nbf: NOW + 60 }, { nbf: NOW }, { iat: 0 }])
    await verified(made({ claims }));
  for (const [check, claims] of [
    ['exp', { exp: NOW - 60 }],
    ['iat', { iat: NOW + 61 }],
    ['nbf', { nbf: NOW + 61 }],
  ] as const)
    await refused(check, { claims });
  for (const name of ['exp', 'iat', 'nbf'] as const) {
    for (const value of [`${NOW}`, null, true, [NOW], {}, -1])
      await refused(name, { claims: { [name]: value } }, `${name} ${String(value)}`);
  }
  await refused(
    'exp',
    jws(HEADER, JSON.stringify({ ...CLAIMS, exp: 0 }).replace('"exp":0', '"exp":1e400')),
    'exp 1e400',
  );
  for (const name of ['exp', 'iat']) await refused(name, { claims: { [name]: undefined } });
  await refused('exp', { claims: { exp: NOW }, rules: { leewaySeconds: 0 } });
});

test('verifyIdToken() refuses an at_hash that does not match the access token', async () => {
  assert.equal(atHashOf('access', 'RS256'), halfHash('access'));
  // example of OpenID Connect Core §A.4
  assert.equal(atHashOf('jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y', 'RS256'), '77QmUPtjPfzWtF2AnpK9RQ');
  await verified(made({ claims: { at_hash: halfHash('access') } }));
  for (const at_hash of [
    halfHash('other'),
    halfHash('access', 'sha512'),
    `${halfHash('access')}=`,
    '',
    null,
    5,
  ])
    await refused('at_hash', { claims: { at_hash } }, String(at_hash));
});

test('verifyIdToken() tries all suitable keys for a token without kid, but refuses a token whose kid belongs to several keys', async () => {
  const other = jwk(EC.publicKey);
  const noKid = { header: { kid: undefined } };
  await verified(made(noKid), { keys: [jwk(RSA.publicKey)] });
  await verified(made(noKid), {
    keys: [jwk(RSA.publicKey, { use: 'enc' }), other, jwk(RSA.publicKey, { e: 'AQ', kid: 'weak' }), RSA_KEY],
  });
  const es = made({ header: { alg: 'ES256', kid: undefined } }, EC.privateKey);
  await verified(es, { rules: { algorithms: ['ES256'] }, keys: KEYS });
  await refused('duplicate_kid', made({}), 'same kid', { keys: [RSA_KEY, RSA_KEY] });
  await refused('duplicate_kid', made({}), 'same kid, another type', {
    keys: [RSA_KEY, jwk(EC.publicKey, { kid: 'rsa' })],
  });
  await refused('signature', made({ header: { kid: 'other' } }));
  await refused('signature', made({}), 'no key', { keys: [] });
  for (const kid of [5, null, ['rsa'], {}]) await refused('kid', { header: { kid } }, String(kid));
  for (const kid of ['__proto__', '../../dev/null', 'x'.repeat(10_000), "' or 1=1"])
    await refused('signature', { header: { kid } });
});

test('verifyIdToken() fetches the key set again if the kid is unknown or no key is suitable, but not if the signature is wrong', async () => {
  let fetched = 0;
  const keys = (now: readonly unknown[], then: readonly unknown[]) => ({
    current: () => readKeySet(now),
    again: () => {
      fetched++;
      return Promise.resolve(readKeySet(then));
    },
  });
  const old = jwk(RSA.publicKey, { kid: 'old', n: Buffer.alloc(256, 0xef).toString('base64url') });
  assert.equal((await verifyIdToken(made({}), RULES, keys([old], KEYS))).sub, 'ada');
  assert.equal(
    (await verifyIdToken(made({ header: { kid: undefined } }), RULES, keys([old], KEYS))).sub,
    'ada',
  );
  assert.equal(fetched, 2);
  await assert.rejects(verifyIdToken(made({}), RULES, keys([], [])), ProviderFault);
  assert.equal(fetched, 3);
  await assert.rejects(verifyIdToken(`${made({}).slice(0, -4)}AAAA`, RULES, keys(KEYS, KEYS)), ProviderFault);
  assert.equal(fetched, 3);
});

test('verifyIdToken() ignores keys that are weak, for encryption, or for another algorithm, even if such a key matches the signature', async () => {
  for (const more of [
    { use: 'enc' },
    { key_ops: ['sign'] },
    { alg: 'PS256' },
    { alg: 'ES256' },
    { kty: 'EC' },
  ]) {
    await refused('signature', made({}), JSON.stringify(more), { keys: [{ ...RSA_KEY, ...more }] });
  }
});

test('verifyIdToken() refuses ECDSA signatures that have a wrong length, are in DER format, or have zero as r or s', async () => {
  for (const [alg, kid, key, half] of [
    ['ES256', 'ec', EC, 32],
    ['ES384', 'ec384', EC384, 48],
    ['ES512', 'ec521', EC521, 66],
  ] as const) {
    const given: Given = { rules: { algorithms: [alg] } };
    const token = made({ header: { alg, kid } }, key.privateKey);
    const signed = token.slice(0, token.lastIndexOf('.'));
    const signature = Buffer.from(token.slice(signed.length + 1), 'base64url');
    await verified(token, given);
    const der = sign(`sha${alg.slice(2)}`, Buffer.from(signed), key.privateKey);
    const zero = Buffer.alloc(half);
    const wrong = [
      der,
      signature.subarray(0, -1),
      Buffer.concat([signature, Buffer.alloc(1)]),
      Buffer.alloc(2 * half),
      Buffer.concat([zero, signature.subarray(half)]),
      Buffer.concat([signature.subarray(0, half), zero]),
      Buffer.alloc(1),
      Buffer.alloc(2 * half, 0xff),
    ];
    for (const bytes of wrong)
      await refused(
        'signature',
        `${signed}.${bytes.toString('base64url')}`,
        `${alg}, ${bytes.length} bytes`,
        given,
      );
  }
});

test('verifyIdToken() replaces {tenantid} in the issuer by the claim tid only if tid is a GUID of an allowed tenant', async () => {
  const issuer = 'https://login.test/{tenantid}/v2.0';
  const iss = `https://login.test/${TENANT_ID}/v2.0`;
  await verified(made({ claims: { iss, tid: TENANT_ID } }), { rules: { issuer } });
  await verified(made({ claims: { iss, tid: TENANT_ID } }), { rules: { issuer, tenants: [TENANT_ID] } });
  await refused(
    'iss',
    { claims: { iss, tid: TENANT_ID }, rules: { issuer, tenants: ['00000000-0000-0000-0000-000000000000'] } },
    'a tenant not listed',
  );
  for (const tid of ['common', TENANT_ID.toUpperCase(), undefined, 5, '.*', ''])
    await refused(
      'iss',
      { claims: { iss: `https://login.test/${String(tid)}/v2.0`, tid }, rules: { issuer } },
      String(tid),
    );
  await refused('iss', { claims: { iss: issuer, tid: TENANT_ID }, rules: { issuer } }, 'the template itself');
  await refused(
    'iss',
    { claims: { iss, tid: '00000000-0000-0000-0000-000000000000' }, rules: { issuer } },
    'tid of another tenant',
  );
  assert.equal(isExpectedIssuer('https://provider.test', undefined, RULES), true);
});

test('verifyIdToken() accepts a key whose issuer is one tenant only for tokens of that tenant', async () => {
  const issuer = 'https://login.test/{tenantid}/v2.0';
  const token = made({ claims: { iss: `https://login.test/${TENANT_ID}/v2.0`, tid: TENANT_ID } });
  for (const owner of [issuer, `https://login.test/${TENANT_ID}/v2.0`])
    await verified(token, { rules: { issuer }, keys: [{ ...RSA_KEY, issuer: owner }] });
  await refused('signature', token, "another tenant's key", {
    rules: { issuer },
    keys: [{ ...RSA_KEY, issuer: 'https://login.test/00000000-0000-0000-0000-000000000000/v2.0' }],
  });
});

test('with max_age, verifyIdToken() refuses an older login, and a token that has no auth_time', async () => {
  for (const auth_time of [NOW, NOW - 160, NOW - 100])
    await verified(made({ claims: { auth_time } }), { rules: { maxAgeSeconds: 100 } });
  for (const auth_time of [NOW - 161, NOW + 61, NOW * 1_000, undefined, `${NOW}`, null])
    await refused('auth_time', { claims: { auth_time }, rules: { maxAgeSeconds: 100 } }, String(auth_time));
  await verified(made({ claims: { auth_time: 1 } }));
});

test("verifyIdToken() ignores keys and key URLs in the token header, because only the provider's own keys may verify a token (RFC 8725 §3.10)", async () => {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2_048 });
  const own = jwk(publicKey, { kid: 'rsa' });
  for (const header of [
    { jwk: own },
    { jku: 'https://keys.evil/jwks' },
    { x5u: 'https://keys.evil/cert' },
    { x5c: ['MIIB'] },
  ]) {
    await verified(made({ header }));
    for (const kid of ['rsa', 'other', undefined])
      await refused('signature', made({ header: { ...header, kid } }, privateKey), JSON.stringify(header));
  }
});

test('verifyIdToken() refuses the header members crit, b64, cty, zip and enc, and every typ other than JWT', async () => {
  for (const name of ['crit', 'b64', 'cty', 'zip', 'enc'])
    await refused('header', { header: { [name]: null } }, name);
  for (const typ of ['at+jwt', 'logout+jwt', 5, null, ''])
    await refused('typ', { header: { typ } }, String(typ));
  for (const typ of ['jwt', undefined]) await verified(made({ header: { typ } }));
  await verified(made({ header: { x5t: 'thumb' } }));
});

test('verifyIdToken() refuses a sub that is empty, too long or not a string', async () => {
  for (const sub of ['', 5, null, undefined, ['ada'], 'x'.repeat(256)])
    await refused('sub', { claims: { sub } }, String(sub));
});

test('verifyIdToken() refuses every token that is not a compact JWS in canonical base64url with JSON objects as header and claims', async () => {
  const token = made({});
  const [head, body, signature] = token.split('.') as [string, string, string];
  for (const wrong of ['', 'a', 'a.b', 'a.b.c.d', `${token}.`]) await refused('segments', wrong, wrong);
  for (const wrong of [
    '..',
    `${head}..${signature}`,
    `${head}=.${body}.${signature}`,
    `${head}.${body}.${signature}==`,
    `${head}.${body}. ${signature}`,
    `${head}.${body}.a`,
    `${head}.${body}\n.${signature}`,
    `${head}+.${body}.${signature}`,
  ])
    await refused('base64url', wrong, wrong);
  await refused('too_long', 'x'.repeat(32_769));
  const last = signature.at(-1)!;
  await refused(
    'base64url',
    `${head}.${body}.${signature.slice(0, -1)}${String.fromCharCode(last.charCodeAt(0) + 1)}`,
    'bits left over',
  );
  const encode = (text: string | Buffer): string => Buffer.from(text).toString('base64url');
  for (const text of [
    '[]',
    'null',
    '"x"',
    '5',
    '{',
    '{}x',
    '\ufeff{"alg":"RS256"}',
    Buffer.from([0x7b, 0xff, 0x7d]),
  ]) {
    await refused('json', `${encode(text)}.${body}.${signature}`, `header ${String(text)}`);
    await refused('json', `${head}.${encode(text)}.${signature}`, `payload ${String(text)}`);
  }
  await refused('json', `${head}.${encode('['.repeat(12_000))}.${signature}`, 'deep');
});

test('verifyIdToken() fails with provider_error if any single character of a valid token is changed', async () => {
  const token = made({});
  const random = seeded(7);
  const alphabet = 'ABCabc019-_.=+ \u00e4';
  for (let round = 0; round < 2_000; round++) {
    const at = random(token.length);
    const mutated = token.slice(0, at) + alphabet[random(alphabet.length)]! + token.slice(at + 1);
    if (mutated === token) continue;
    await assert.rejects(verified(mutated), ProviderFault, `position ${at}`);
  }
});
