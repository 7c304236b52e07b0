/**
 * Forged and unsuitable access tokens at IssuerAuth(): each is refused with the same response, and only the log
 * and the metric name the reason.
 */
import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, sign } from 'node:crypto';
import { test } from 'node:test';
import { Svc } from '../../../src/app/svc.ts';
import { IssuerAuth } from '../../../src/auth/issuer/guard.ts';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { Depends } from '../../../src/routing/di.ts';
import { TestClient } from '../../../src/testing/index.ts';
import { EC, EC384, EC521, ED, RSA, jwk, jws } from '../../oauth/support/fake-provider.ts';
import { collectedLog } from '../../support/collected-log.ts';
import { seeded } from '../../support/random.ts';
import type { KeyObject } from 'node:crypto';

const ISSUER = 'https://login.example/realms/shop';
const OTHER = 'https://other.example';
const AUDIENCE = 'https://api.example';
const OTHER_RSA = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const STRANGER = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const WEAK = generateKeyPairSync('rsa', { modulusLength: 1_024 });
const K256 = generateKeyPairSync('ec', { namedCurve: 'secp256k1' });

const KEYS = [
  jwk(RSA.publicKey, { kid: 'rsa', use: 'sig' }),
  jwk(RSA.publicKey, { kid: 'only-rs256', alg: 'RS256' }),
  jwk(EC.publicKey, { kid: 'ec' }),
  jwk(EC384.publicKey, { kid: 'ec384' }),
  jwk(EC521.publicKey, { kid: 'ec521' }),
  jwk(ED.publicKey, { kid: 'ed' }),
  jwk(ED.publicKey, { kid: 'ed25519', alg: 'Ed25519' }),
  jwk(RSA.publicKey, { kid: 'for-encryption', use: 'enc' }),
  jwk(WEAK.publicKey, { kid: 'weak' }),
  jwk(K256.publicKey, { kid: 'k256' }),
  { kty: 'oct', k: Buffer.alloc(32, 7).toString('base64url'), kid: 'secret', alg: 'HS256' },
  jwk(EC.publicKey, { kid: 'twice' }),
  jwk(RSA.publicKey, { kid: 'twice' }),
  jwk(RSA.publicKey, { kid: 'of-tenant', issuer: 'https://login.example/realms/other' }),
];
const token = IssuerAuth([
  { issuer: ISSUER, audience: AUDIENCE, jwks: { keys: KEYS }, requiredClaims: { tier: 'gold' } },
  { issuer: OTHER, audience: 'other-api', jwks: { keys: [jwk(OTHER_RSA.publicKey, { kid: 'rsa' })] } },
]);
const { logger, events } = collectedLog();
const clock = new ManualClock();
const app = new Svc({ logger, clock });
app.get('/', { me: Depends(token) }, ({ me }) => ({ sub: me.sub, principal: me.principal }));
const now = (): number => Math.floor(clock.nowMs() / 1_000);

type Changes = Readonly<Record<string, unknown>>;

function header(changes: Changes = {}): Changes {
  return { alg: 'RS256', typ: 'at+jwt', kid: 'rsa', ...changes };
}

function claims(changes: Changes = {}): Changes {
  const times = { iat: now(), exp: now() + 300, nbf: now() };
  return {
    iss: ISSUER,
    aud: AUDIENCE,
    sub: 'ada',
    client_id: 'web',
    jti: 'j',
    tier: 'gold',
    ...times,
    ...changes,
  };
}

const made = (head: Changes = {}, body: Changes = {}, key: KeyObject = RSA.privateKey): string =>
  jws(header(head), claims(body), key);
/** Signs a token whose header or claims are written by hand. */
const raw = (head: string, body: string): string => {
  const signed = [head, body].map((part) => Buffer.from(part).toString('base64url')).join('.');
  return `${signed}.${sign('sha256', Buffer.from(signed), RSA.privateKey).toString('base64url')}`;
};
const withMember = (object: Changes, member: string): string =>
  `${JSON.stringify(object).slice(0, -1)},${member}}`;
const mac = (head: Changes, key: string | Buffer): string => {
  const signed = [header({ alg: 'HS256', ...head }), claims()]
    .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
    .join('.');
  return `${signed}.${createHmac('sha256', key).update(signed).digest('base64url')}`;
};
const pem = (key: KeyObject): string => key.export({ format: 'pem', type: 'spki' }).toString();
const der = (key: KeyObject): Buffer => key.export({ format: 'der', type: 'spki' });
/** Replaces the segments of a token. */
const spliced = (text: string, change: (segments: string[]) => string[]): string =>
  change(text.split('.')).join('.');
const asDer = (): string => {
  const signed = jws(header({ alg: 'ES256', kid: 'ec' }), claims(), EC.privateKey)
    .split('.')
    .slice(0, 2)
    .join('.');
  return `${signed}.${sign('sha256', Buffer.from(signed), EC.privateKey).toString('base64url')}`;
};
const lastUnusedBits = (text: string): string => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  return `${text.slice(0, -1)}${alphabet[alphabet.indexOf(text.at(-1) ?? '') ^ 1] ?? ''}`;
};
const deep = (levels: number): string => `${'['.repeat(levels)}${']'.repeat(levels)}`;

const FORGED: readonly (readonly [what: string, reason: string, make: () => string])[] = [
  ['no segment', 'form', () => 'x'],
  ['two segments', 'form', () => spliced(made(), ([a, b]) => [a ?? '', b ?? ''])],
  ['four segments', 'form', () => `${made()}.x`],
  ['five segments, as an encrypted token has', 'form', () => `${made()}.x.y`],
  ['no signature', 'form', () => spliced(made(), ([a, b]) => [a ?? '', b ?? '', ''])],
  ['no claims', 'form', () => spliced(made(), ([a, , c]) => [a ?? '', '', c ?? ''])],
  ['a signature with padding', 'form', () => `${made()}==`],
  ['unused bits in the signature', 'form', () => lastUnusedBits(made())],
  ['17,000 characters', 'length', () => made({}, { filler: 'x'.repeat(13_000) })],
  [
    'alg none without a signature',
    'form',
    () =>
      spliced(made({ alg: 'RS256' }), ([, b]) => [
        Buffer.from(JSON.stringify(header({ alg: 'none' }))).toString('base64url'),
        b ?? '',
        '',
      ]),
  ],
  [
    'alg none with a signature',
    'algorithm',
    () => raw(JSON.stringify(header({ alg: 'none' })), JSON.stringify(claims())),
  ],
  ['alg None', 'algorithm', () => raw(JSON.stringify(header({ alg: 'None' })), JSON.stringify(claims()))],
  ['HS256 keyed by the public key in PEM', 'algorithm', () => mac({}, pem(RSA.publicKey))],
  [
    'HS256 keyed by the public key in PEM without its last line break',
    'algorithm',
    () => mac({}, pem(RSA.publicKey).trim()),
  ],
  ['HS256 keyed by the public key in DER', 'algorithm', () => mac({}, der(RSA.publicKey))],
  [
    'HS256 keyed by the modulus',
    'algorithm',
    () => mac({}, Buffer.from(String(jwk(RSA.publicKey)['n']), 'base64url')),
  ],
  ['HS256 with a symmetric key of the set', 'algorithm', () => mac({ kid: 'secret' }, Buffer.alloc(32, 7))],
  [
    'RS256 that is a MAC',
    'signature',
    () =>
      spliced(mac({}, pem(RSA.publicKey)), ([, b, c]) => [
        Buffer.from(JSON.stringify(header())).toString('base64url'),
        b ?? '',
        c ?? '',
      ]),
  ],
  [
    'alg in lower case',
    'algorithm',
    () => raw(JSON.stringify(header({ alg: 'rs256' })), JSON.stringify(claims())),
  ],
  [
    'alg that is a list',
    'algorithm',
    () => raw(JSON.stringify(header({ alg: ['RS256'] })), JSON.stringify(claims())),
  ],
  ['no alg', 'algorithm', () => raw(JSON.stringify(header({ alg: undefined })), JSON.stringify(claims()))],
  ['RS512, which is not in the list', 'algorithm', () => made({ alg: 'RS512' })],
  [
    'ES512, which is not in the list',
    'algorithm',
    () => made({ alg: 'ES512', kid: 'ec521' }, {}, EC521.privateKey),
  ],
  [
    'EdDSA with a key for Ed25519',
    'algorithm',
    () => made({ alg: 'EdDSA', kid: 'ed25519' }, {}, ED.privateKey),
  ],
  [
    'Ed25519 with the id of an EC key',
    'algorithm',
    () => made({ alg: 'Ed25519', kid: 'ec' }, {}, ED.privateKey),
  ],
  ['ES256 with the id of an RSA key', 'algorithm', () => made({ alg: 'ES256' }, {}, EC.privateKey)],
  ['RS256 with the id of an EC key', 'algorithm', () => made({ kid: 'ec' })],
  ['PS256 with a key for RS256', 'algorithm', () => made({ alg: 'PS256', kid: 'only-rs256' })],
  [
    'PS256 that is signed as RS256',
    'signature',
    () => raw(JSON.stringify(header({ alg: 'PS256' })), JSON.stringify(claims())),
  ],
  ['ES384 with a P-256 key', 'algorithm', () => made({ alg: 'ES384', kid: 'ec' }, {}, EC.privateKey)],
  [
    'ES256 with a secp256k1 key',
    'key_unknown',
    () => made({ alg: 'ES256', kid: 'k256' }, {}, K256.privateKey),
  ],
  ['a key of 1,024 bits', 'key_unknown', () => made({ kid: 'weak' }, {}, WEAK.privateKey)],
  ['a key for encryption', 'key_unknown', () => made({ kid: 'for-encryption' })],
  ['an ES256 signature in DER', 'signature', asDer],
  [
    'an ES256 signature of zeros',
    'signature',
    () =>
      spliced(made({ alg: 'ES256', kid: 'ec' }, {}, EC.privateKey), ([a, b]) => [
        a ?? '',
        b ?? '',
        Buffer.alloc(64).toString('base64url'),
      ]),
  ],
  [
    'an EdDSA signature of zeros',
    'signature',
    () =>
      spliced(made({ alg: 'EdDSA', kid: 'ed' }, {}, ED.privateKey), ([a, b]) => [
        a ?? '',
        b ?? '',
        Buffer.alloc(64).toString('base64url'),
      ]),
  ],
  ['a signature of one byte', 'signature', () => spliced(made(), ([a, b]) => [a ?? '', b ?? '', 'AA'])],
  ['a wrong key', 'signature', () => made({}, {}, STRANGER.privateKey)],
  ['a wrong key, without a kid', 'key_unknown', () => made({ kid: undefined }, {}, STRANGER.privateKey)],
  [
    'changed claims',
    'signature',
    () =>
      spliced(made(), ([a, , c]) => [
        a ?? '',
        Buffer.from(JSON.stringify(claims({ sub: 'eve' }))).toString('base64url'),
        c ?? '',
      ]),
  ],
  ['the key of another issuer with the same kid', 'signature', () => made({}, {}, OTHER_RSA.privateKey)],
  ['the other issuer, signed by this one', 'signature', () => made({}, { iss: OTHER, aud: 'other-api' })],
  ['a key of another tenant in the same set', 'signature', () => made({ kid: 'of-tenant' })],
  ['an unknown kid', 'key_unknown', () => made({ kid: 'x' })],
  ['the kid __proto__', 'key_unknown', () => made({ kid: '__proto__' })],
  ['the kid of a file', 'key_unknown', () => made({ kid: '../../dev/null' })],
  ['a kid of 9,000 characters', 'key_unknown', () => made({ kid: 'x'.repeat(9_000) })],
  ['a kid that is a number', 'key', () => made({ kid: 5 })],
  ['a kid that is null', 'key', () => made({ kid: null })],
  ['a kid that two keys have', 'key_ambiguous', () => made({ kid: 'twice' })],
  [
    'an embedded key',
    'signature',
    () => made({ jwk: jwk(STRANGER.publicKey, { kid: 'rsa' }) }, {}, STRANGER.privateKey),
  ],
  [
    'the address of a key',
    'key_unknown',
    () => made({ jku: 'http://127.0.0.1:9/keys', kid: 'mine' }, {}, STRANGER.privateKey),
  ],
  [
    'an embedded certificate',
    'signature',
    () => made({ x5c: ['MIIB'], x5u: 'http://127.0.0.1:9/' }, {}, STRANGER.privateKey),
  ],
  ['crit with an unknown name', 'header', () => made({ crit: ['exp'] })],
  ['crit that is empty', 'header', () => made({ crit: [] })],
  ['b64 false', 'header', () => made({ b64: false })],
  ['b64 false and crit', 'header', () => made({ b64: false, crit: ['b64'] })],
  ['a nested token', 'header', () => made({ cty: 'JWT' })],
  ['a compressed token', 'header', () => made({ zip: 'DEF' })],
  ['enc', 'header', () => made({ enc: 'A256GCM' })],
  ['typ JWT', 'type', () => made({ typ: 'JWT' })],
  ['no typ', 'type', () => made({ typ: undefined })],
  ['typ of a logout token', 'type', () => made({ typ: 'logout+jwt' })],
  ['typ of a DPoP proof', 'type', () => made({ typ: 'dpop+jwt' })],
  ['typ that is a number', 'type', () => made({ typ: 1 })],
  ['typ with a parameter', 'type', () => made({ typ: 'at+jwt;x=1' })],
  ['alg twice', 'payload', () => raw(withMember(header(), '"alg":"RS256"'), JSON.stringify(claims()))],
  [
    'alg twice, once escaped',
    'payload',
    () => raw(withMember(header(), '"\\u0061lg":"none"'), JSON.stringify(claims())),
  ],
  ['sub twice', 'payload', () => raw(JSON.stringify(header()), withMember(claims(), '"sub":"eve"'))],
  [
    'aud twice, once escaped',
    'payload',
    () => raw(JSON.stringify(header()), withMember(claims(), '"\\u0061ud":"https://api.example"')),
  ],
  [
    'a repeated member inside a claim',
    'payload',
    () => raw(JSON.stringify(header()), withMember(claims(), '"x":{"a":1,"a":2}')),
  ],
  [
    'a member __proto__',
    'payload',
    () => raw(JSON.stringify(header()), withMember(claims(), '"__proto__":{"sub":"eve"}')),
  ],
  ['claims that are a list', 'payload', () => raw(JSON.stringify(header()), '[]')],
  [
    'claims with text behind them',
    'payload',
    () => raw(JSON.stringify(header()), `${JSON.stringify(claims())}x`),
  ],
  [
    'claims with a byte order mark',
    'payload',
    () => raw(JSON.stringify(header()), `\ufeff${JSON.stringify(claims())}`),
  ],
  [
    '1,000 nested lists',
    'payload',
    () => raw(JSON.stringify(header()), withMember(claims(), `"x":${deep(1_000)}`)),
  ],
  ['no iss', 'issuer', () => made({}, { iss: undefined })],
  ['iss with a slash', 'issuer', () => made({}, { iss: `${ISSUER}/` })],
  ['iss in upper case', 'issuer', () => made({}, { iss: ISSUER.toUpperCase() })],
  ['iss that is a list', 'issuer', () => made({}, { iss: [ISSUER] })],
  ['iss of a stranger', 'issuer', () => made({}, { iss: 'https://evil.example' })],
  ['iss of the audience', 'issuer', () => made({}, { iss: AUDIENCE })],
  ['no aud', 'audience', () => made({}, { aud: undefined })],
  ['another aud', 'audience', () => made({}, { aud: 'https://api.example.evil' })],
  ['an empty list of aud', 'audience', () => made({}, { aud: [] })],
  ['the aud of another issuer', 'audience', () => made({}, { aud: 'other-api' })],
  ['aud that is a number', 'claim type', () => made({}, { aud: 1 })],
  ['2,000 other audiences', 'audience', () => made({}, { aud: Array(2_000).fill('x') })],
  ['aud that is an object', 'claim type', () => made({}, { aud: { 0: AUDIENCE, length: 1 } })],
  ['aud with a number in its list', 'claim type', () => made({}, { aud: [AUDIENCE, 1] })],
  ['no exp', 'no expiry', () => made({}, { exp: undefined })],
  ['an exp that has passed', 'expired', () => made({}, { exp: now() - 60 })],
  ['exp that is text', 'claim type', () => made({}, { exp: '9999999999' })],
  ['exp that is null', 'claim type', () => made({}, { exp: null })],
  [
    'exp 1e400',
    'claim type',
    () => raw(JSON.stringify(header()), JSON.stringify(claims({ exp: 7 })).replace('"exp":7', '"exp":1e400')),
  ],
  ['exp in milliseconds', 'claim type', () => made({}, { exp: clock.nowMs() + 300_000 })],
  ['exp below zero', 'claim type', () => made({}, { exp: -1 })],
  ['nbf in the future', 'not yet valid', () => made({}, { nbf: now() + 61 })],
  ['iat in the future', 'not yet valid', () => made({}, { iat: now() + 61 })],
  ['exp 1e308', 'claim type', () => made({}, { exp: 1e308 })],
  ['nbf that is text', 'claim type', () => made({}, { nbf: '1' })],
  ['nbf that is null', 'claim type', () => made({}, { nbf: null })],
  ['nbf that is a list', 'claim type', () => made({}, { nbf: [1] })],
  ['no sub', 'subject', () => made({}, { sub: undefined })],
  ['an empty sub', 'subject', () => made({}, { sub: '' })],
  ['sub that is a number', 'subject', () => made({}, { sub: 7 })],
  [
    'sub with half a surrogate pair',
    'subject',
    () => raw(JSON.stringify(header()), JSON.stringify(claims({ sub: 's' })).replace('"s"', '"\\ud800"')),
  ],
  ['without a required claim', 'required_claim', () => made({}, { tier: undefined })],
  ['with another value of a required claim', 'required_claim', () => made({}, { tier: 'silver' })],
  ['bound to a key, without its proof', 'proof', () => made({}, { cnf: { jkt: 'x' } })],
  ['bound to nothing', 'proof', () => made({}, { cnf: {} })],
  ['a binding that is null', 'proof', () => made({}, { cnf: null })],
  ['bound to a certificate', 'proof', () => made({}, { cnf: { 'x5t#S256': 'x' } })],
];

test(`IssuerAuth() refuses each of ${FORGED.length} forged tokens with the same response, and logs why`, async () => {
  assert.ok(FORGED.length >= 60);
  await using client = new TestClient(app);
  for (const [what, reason, make] of FORGED) {
    await clock.advance(60_000); // the log has one line a minute for a client and event
    events.length = 0;
    const response = await client.get('/', { headers: { authorization: `Bearer ${make()}` } });
    const { detail, ...body } = (await response.json()) as Record<string, unknown>;
    assert.deepEqual(
      [
        response.status,
        response.headers.get('www-authenticate')?.replace(/, DPoP .*/, ''),
        detail,
        body['code'],
      ],
      [401, 'Bearer error="invalid_token"', 'The access token is invalid or has expired', 'invalid_token'],
      what,
    );
    const logged = events.filter(({ event }) => event === 'token_rejected').map((event) => event['reason']);
    assert.deepEqual(logged, [reason], what);
  }
});

test('IssuerAuth() accepts a token of each algorithm and of each issuer, by the key of this issuer', async () => {
  await using client = new TestClient(app);
  for (const [what, text] of [
    ['RS256', made()],
    ['RS256 without a kid', made({ kid: undefined })],
    ['PS256', made({ alg: 'PS256' })],
    ['ES256', made({ alg: 'ES256', kid: 'ec' }, {}, EC.privateKey)],
    ['ES384', made({ alg: 'ES384', kid: 'ec384' }, {}, EC384.privateKey)],
    ['EdDSA', made({ alg: 'EdDSA', kid: 'ed' }, {}, ED.privateKey)],
    ['Ed25519', made({ alg: 'Ed25519', kid: 'ed' }, {}, ED.privateKey)],
    ['Ed25519 by a key that has this name', made({ alg: 'Ed25519', kid: 'ed25519' }, {}, ED.privateKey)],
    ['typ application/at+jwt', made({ typ: 'application/AT+JWT' })],
    ['several audiences', made({}, { aud: ['x', AUDIENCE] })],
    ['times within the leeway', made({}, { exp: now() - 59, nbf: now() + 60, iat: now() + 60 })],
    ['members about keys, which are ignored', made({ jku: 'http://127.0.0.1:9/', x5t: 'x' })],
  ] as const) {
    const response = await client.get('/', { headers: { authorization: `Bearer ${text}` } });
    assert.deepEqual(
      [response.status, await response.json()],
      [200, { sub: 'ada', principal: `${ISSUER} ada` }],
      what,
    );
  }
  const other = jws(
    header(),
    claims({ iss: OTHER, aud: 'other-api', tier: undefined }),
    OTHER_RSA.privateKey,
  );
  const response = await client.get('/', { headers: { authorization: `Bearer ${other}` } });
  assert.deepEqual(await response.json(), { sub: 'ada', principal: `${OTHER} ada` });
});

test('IssuerAuth() refuses each token that differs from a valid one in one character, and each random text', async () => {
  await using client = new TestClient(app);
  const random = seeded(7);
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~+/=';
  const statusOf = async (text: string): Promise<number> =>
    (await client.get('/', { headers: { authorization: `Bearer ${text}` } })).status;
  for (const valid of [
    made(),
    made({ alg: 'ES256', kid: 'ec' }, {}, EC.privateKey),
    made({ alg: 'EdDSA', kid: 'ed' }, {}, ED.privateKey),
  ]) {
    assert.equal(await statusOf(valid), 200);
    for (let at = 0; at < valid.length; at++) {
      const other = alphabet[random(alphabet.length)] ?? 'A';
      if (other !== valid[at])
        assert.equal(await statusOf(valid.slice(0, at) + other + valid.slice(at + 1)), 401, `${at} ${other}`);
    }
    for (const cut of [1, 2, 10, 86]) assert.equal(await statusOf(valid.slice(0, -cut)), 401);
  }
  for (let n = 0; n < 300; n++) {
    const text = Array.from({ length: random(200) + 1 }, () => alphabet[random(65)]).join('');
    assert.equal(await statusOf(text), 401, text);
  }
});

test('the metric svc_auth_tokens_refused_total counts refused tokens by their reason', async () => {
  await using client = new TestClient(app);
  await client.get('/', { headers: { authorization: `Bearer ${made({}, { aud: 'x' })}` } });
  const text = await (await client.get('/metrics')).text();
  assert.match(text, /svc_auth_tokens_refused_total\{reason="audience"\} \d/);
});
