import assert from 'node:assert/strict';
import { createHmac, createSign, generateKeyPairSync, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import net from 'node:net';
import { after, test } from 'node:test';
import { inspect } from 'node:util';
import { SvcError, Unauthorized } from '../../src/base/errors.ts';
import { InvalidToken, createToken, readToken, tokenChecks, verifyToken } from '../../src/crypto/jwt.ts';
import { Keyring } from '../../src/crypto/keys.ts';
import { ManualClock } from '../../src/base/manual-clock.ts';
import { issueOf } from '../../src/http/response.ts';
import { seeded } from '../support/random.ts';
import type { TokenRefusal, VerifyTokenOptions } from '../../src/crypto/jwt.ts';
import type { Secrets } from '../../src/crypto/keys.ts';

const SECRET = 'a secret of these tests, with more than 32 bytes';
const OTHER = 'another secret of these tests, as long as the first';
const clock = new ManualClock();
const now = clock.nowMs() / 1_000;
const HEADER = '{"alg":"HS256","typ":"JWT"}';
const CLAIMS = `{"sub":"ada","exp":${now + 60}}`;

const encode = (text: string | Uint8Array): string => Buffer.from(text).toString('base64url');
const decode = (segment: string): unknown => JSON.parse(Buffer.from(segment, 'base64url').toString());
/** Returns a token of these segments, with a valid MAC. */
const signed = (header: string, claims: string, secret = SECRET, hash = 'sha256'): string =>
  `${header}.${claims}.${createHmac(hash, secret).update(`${header}.${claims}`).digest('base64url')}`;
/** Returns a token of these header and claims texts, with a valid MAC. */
const forge = (header: string, claims: string | Uint8Array = CLAIMS, secret = SECRET): string =>
  signed(encode(header), encode(claims), secret);
const verify = (
  token: string,
  options: VerifyTokenOptions = {},
  secret: Secrets = SECRET,
): Record<string, unknown> => verifyToken(token, secret, { clock, ...options });
/** Returns a token with these members after `sub` and `exp`. */
const withClaims = (more: string): string => forge(HEADER, `{"sub":"ada","exp":${now + 60},${more}}`);

/** Asserts that verifyToken() refuses a token for this reason. */
function refused(
  token: unknown,
  reason?: TokenRefusal,
  options: VerifyTokenOptions = {},
  secret: Secrets = SECRET,
): void {
  assert.throws(
    () => verify(token as string, options, secret),
    (error) => {
      assert.equal((error as object).constructor, InvalidToken, String(token).slice(0, 200));
      if (reason !== undefined)
        assert.equal((error as InvalidToken).reason, reason, String(token).slice(0, 200));
      return true;
    },
  );
}

test('verifyToken() accepts a valid HS256 token and returns its claims', () => {
  assert.deepEqual(verify(forge(HEADER)), { sub: 'ada', exp: now + 60 });
  assert.deepEqual(verify(forge('{"alg":"HS256"}')), { sub: 'ada', exp: now + 60 });
  assert.deepEqual(verify(withClaims('"n":[1,{"a":null}]')), {
    sub: 'ada',
    exp: now + 60,
    n: [1, { a: null }],
  });
});

test('verifyToken() accepts the example token in RFC 7515 §A.1, whose key is binary', () => {
  const token =
    'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk';
  const key = Buffer.from(
    'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow',
    'base64url',
  );
  const [header, claims, mac] = token.split('.') as [string, string, string];
  assert.equal(createHmac('sha256', key).update(`${header}.${claims}`).digest('base64url'), mac);
  // header and claims of the RFC with the white space in them, signed with a text secret; the token has no
  // subject, which is checked last
  refused(signed(header, claims), 'subject');
  const withSubject = encode(
    Buffer.from(claims, 'base64url').toString().replace('"joe"', '"joe",\r\n "sub":"joe"'),
  );
  assert.deepEqual(verify(signed(header, withSubject), { clock: new ManualClock(1_300_819_379_000) }), {
    iss: 'joe',
    sub: 'joe',
    exp: 1_300_819_380,
    'http://example.com/is_root': true,
  });
});

for (const [name, key, data, mac] of [
  [
    '2, a key that is shorter than the block',
    Buffer.from('Jefe'),
    Buffer.from('what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  ],
  [
    '4, another key',
    Buffer.from('0102030405060708090a0b0c0d0e0f10111213141516171819', 'hex'),
    Buffer.alloc(50, 0xcd),
    '82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b',
  ],
  [
    '6, a key that is longer than the block',
    Buffer.alloc(131, 0xaa),
    Buffer.from('Test Using Larger Than Block-Size Key - Hash Key First'),
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
  ],
  [
    '7, key and data that are longer',
    Buffer.alloc(131, 0xaa),
    Buffer.from(
      'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
    ),
    '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
  ],
] as const) {
  test(`createHmac() computes the HMAC-SHA-256 that RFC 4231 gives for test case ${name}`, () =>
    assert.equal(createHmac('sha256', key).update(data).digest('hex'), mac));
}

test('createToken() signs with the UTF-8 bytes of the secret', () => {
  const secret = 'é'.repeat(20);
  const [header, claims, mac] = createToken('ada', secret, { clock }).split('.');
  assert.equal(
    createHmac('sha256', Buffer.from(secret, 'utf8')).update(`${header}.${claims}`).digest('base64url'),
    mac,
  );
});

test('createToken() writes "alg", "typ", "sub", "iat" and "exp", and also "kid" if it is given several secrets', () => {
  const [header, claims] = createToken('ada', SECRET, { expiresInSeconds: 60, clock }).split('.') as [
    string,
    string,
  ];
  assert.equal(Buffer.from(header, 'base64url').toString(), '{"alg":"HS256","typ":"JWT"}');
  assert.equal(Buffer.from(claims, 'base64url').toString(), `{"sub":"ada","iat":${now},"exp":${now + 60}}`);
  const ring = Keyring.of([SECRET, OTHER]);
  assert.deepEqual(decode(createToken('ada', [SECRET, OTHER], { clock }).split('.')[0]!), {
    alg: 'HS256',
    typ: 'JWT',
    kid: ring.current.id,
  });
  assert.deepEqual(decode(createToken('ada', [SECRET], { clock }).split('.')[0]!), {
    alg: 'HS256',
    typ: 'JWT',
  });
  clock.advance(999);
  assert.deepEqual(decode(createToken('ada', SECRET, { clock }).split('.')[1]!), {
    sub: 'ada',
    iat: now,
    exp: now + 900,
  });
  clock.advance(-999);
});

test('createToken() writes issuer, audience, type, id and the claims of the caller, and verifyToken() returns them', () => {
  const token = createToken('ada', SECRET, {
    issuer: 'https://id.example',
    audience: ['a', 'b'],
    type: 'at+jwt',
    id: 'x1',
    claims: { scopes: ['read'], at: new Date(0), none: undefined },
    clock,
  });
  assert.deepEqual(decode(token.split('.')[0]!), { alg: 'HS256', typ: 'at+jwt' });
  const expected = {
    sub: 'ada',
    iat: now,
    exp: now + 900,
    iss: 'https://id.example',
    aud: ['a', 'b'],
    jti: 'x1',
    scopes: ['read'],
    at: '1970-01-01T00:00:00.000Z',
  };
  const claims = verifyToken<{ scopes: string[] }>(token, SECRET, {
    clock,
    issuer: 'https://id.example',
    audience: 'b',
    type: 'at+jwt',
  });
  assert.deepEqual(claims, expected);
  assert.equal(claims.scopes[0], 'read'); // the result has the type of the claims
});

test('createToken() writes a random "jti" of 128 bits only if the option "id" is set', () => {
  const ids = Array.from(
    { length: 50 },
    () => verifyToken(createToken('ada', SECRET, { id: true }), SECRET).jti!,
  );
  assert.equal(new Set(ids).size, 50);
  for (const id of ids) assert.equal(Buffer.from(id, 'base64url').length, 16);
  assert.equal(verifyToken(createToken('ada', SECRET, { id: false }), SECRET).jti, undefined);
  assert.equal(verifyToken(createToken('ada', SECRET), SECRET).jti, undefined);
});

test('createToken() refuses a subject that is missing, empty, null or not a string', () => {
  for (const sub of [undefined, '', null, 1, {}, ['ada'], 'half \ud800 of a pair']) {
    assert.throws(() => createToken(sub as string, SECRET), {
      name: 'SvcError',
      code: 'E_TOKEN_CLAIM',
      message: /^Cannot create a token: "sub" must be/,
    });
  }
});

test('createToken() refuses a lifetime that is not a positive number of seconds', () => {
  for (const expiresInSeconds of [0, -1, NaN, Infinity, 0.5, '60', null, 315_360_001]) {
    assert.throws(() => createToken('ada', SECRET, { expiresInSeconds: expiresInSeconds as number }), {
      code: 'E_OPTION_RANGE',
      message: /createToken\(\): option "expiresInSeconds"/,
    });
  }
});

test('createToken() refuses claims whose names are reserved, and the error shows the name', () => {
  for (const name of ['sub', 'iat', 'exp', 'nbf', 'iss', 'aud', 'jti', '__proto__', 'toJSON']) {
    const claims = JSON.parse(`{"${name}":"eve"}`) as Record<string, unknown>;
    assert.throws(
      () => createToken('ada', SECRET, { claims }),
      (error) =>
        error instanceof SvcError && error.code === 'E_TOKEN_CLAIM' && error.message.includes(`"${name}"`),
    );
  }
});

test('createToken() accepts claims of any length and script', () => {
  for (const text of [
    'é'.repeat(1_000),
    '日'.repeat(2_600),
    '😀'.repeat(1_400),
    'x'.repeat(2_600),
    'x'.repeat(2_700),
    'x'.repeat(9_000),
    '日'.repeat(5_000),
  ]) {
    assert.equal(
      verify(createToken('ada', SECRET, { claims: { text }, clock }), { maxLength: 100_000 })['text'],
      text,
    );
  }
});

test('createToken() refuses claims that JSON cannot represent, and does not call an inherited toJSON() of the claims object', () => {
  const cycle: Record<string, unknown> = {};
  cycle['self'] = cycle;
  for (const claims of [
    { n: 1n },
    { cycle },
    {
      bad: {
        toJSON: () => {
          throw new Error('no');
        },
      },
    },
  ]) {
    assert.throws(
      () => createToken('ada', SECRET, { claims }),
      (error) => error instanceof SvcError && error.code === 'E_TOKEN_CLAIM' && error.cause instanceof Error,
    );
  }
  class Sly {
    role = 'user';
    toJSON(): object {
      return { sub: 'admin' };
    }
  }
  assert.deepEqual(verify(createToken('ada', SECRET, { claims: { ...new Sly() }, clock })), {
    sub: 'ada',
    iat: now,
    exp: now + 900,
    role: 'user',
  });
  assert.deepEqual(
    verify(createToken('ada', SECRET, { claims: new Sly() as unknown as Record<string, unknown>, clock })),
    { sub: 'ada', iat: now, exp: now + 900, role: 'user' },
  );
});

test('createToken() and verifyToken() refuse unknown options and invalid values, and the error names the option', () => {
  assert.throws(() => createToken('ada', SECRET, { expiresIn: 60 } as object), {
    code: 'E_OPTION_UNKNOWN',
    message: /"expiresIn": did you mean "expiresInSeconds"\?/,
  });
  for (const bad of [
    { claims: [] },
    { claims: 'a' },
    { issuer: '' },
    { audience: [] },
    { audience: [''] },
    { audience: 5 },
    { type: 'a b' },
    { id: '' },
    { id: 5 },
    { clock: 5 },
  ]) {
    assert.throws(
      () => createToken('ada', SECRET, bad as object),
      { code: 'E_OPTION_RANGE' },
      JSON.stringify(bad),
    );
  }
  const usual = verify(createToken('ada', SECRET, { claims: undefined, issuer: undefined, clock }));
  assert.deepEqual(usual, { sub: 'ada', iat: now, exp: now + 900 });
  assert.throws(() => verify('', { audiance: 'a' } as object), {
    code: 'E_OPTION_UNKNOWN',
    message: /verifyToken\(\).*did you mean "audience"/,
  });
  for (const bad of [{ issuer: '' }, { audience: [''] }, { type: '' }, { requireExp: 1 }, { maxLength: 63 }])
    assert.throws(() => verify('', bad as object), { code: 'E_OPTION_RANGE' });
});

test('verifyToken() refuses tokens that do not have three segments, and values that are not strings', () => {
  const token = forge(HEADER);
  const [header, claims, mac] = token.split('.') as [string, string, string];
  for (const wrong of [
    '',
    '.',
    '..',
    '...',
    header,
    `${header}.${claims}`,
    `${header}.${claims}.`,
    `.${claims}.${mac}`,
    `${header}..${mac}`,
    `..${mac}`,
    `${token}.`,
    `.${token}`,
    `${token}.${mac}`,
    `${token}.${claims}.${mac}`,
    'x'.repeat(100),
  ])
    refused(wrong, 'form');
  refused(`h.c.${mac}`, 'header');
  refused(`${header}.c.${mac}`, 'signature');
  refused('x'.repeat(43), 'form');
  for (const wrong of [
    undefined,
    null,
    5,
    {},
    [token],
    Symbol('token'),
    Buffer.from(token),
    new String(token),
  ])
    assert.throws(() => verify(wrong as string), { name: 'InvalidToken', reason: 'form' });
});

test('verifyToken() refuses "alg": "none" in any letter case, with and without a MAC', () => {
  for (const alg of ['none', 'None', 'NONE', 'nOnE']) {
    const token = forge(`{"alg":"${alg}","typ":"JWT"}`);
    refused(token, 'algorithm');
    refused(`${token.slice(0, -43)}`);
    refused(token.slice(0, -44));
    refused(`${token.slice(0, -43)}${'A'.repeat(43)}`);
  }
});

test('verifyToken() refuses HS384 and HS512 even if the MAC is valid for the secret', () => {
  for (const [alg, hash] of [
    ['HS384', 'sha384'],
    ['HS512', 'sha512'],
  ] as const) {
    refused(signed(encode(`{"alg":"${alg}"}`), encode(CLAIMS), SECRET, hash));
    refused(forge(`{"alg":"${alg}"}`), 'algorithm');
    // the header says HS256, but the MAC is that of a longer hash
    refused(signed(encode(HEADER), encode(CLAIMS), SECRET, hash), 'form');
  }
});

test('verifyToken() refuses asymmetric algorithms, even if the signature is valid or is an HMAC with the public key as secret', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = publicKey.export({ type: 'spki', format: 'pem' }) as string;
  for (const alg of ['RS256', 'ES256', 'PS256', 'EdDSA']) {
    refused(forge(`{"alg":"${alg}"}`, CLAIMS, pem), 'algorithm');
    refused(forge(`{"alg":"${alg}"}`), 'algorithm');
    const text = `${encode(`{"alg":"${alg}"}`)}.${encode(CLAIMS)}`;
    refused(
      `${text}.${createSign('sha256').update(text).sign({ key: privateKey, dsaEncoding: 'ieee-p1363' }, 'base64url')}`,
    );
  }
});

test('verifyToken() refuses a header whose "alg" is missing or is not exactly "HS256"', () => {
  for (const header of [
    '{}',
    '{"typ":"JWT"}',
    ...['null', '["HS256"]', '256', '{"a":1}', '"hs256"', '"HS256 "', '""', 'true'].map(
      (alg) => `{"alg":${alg}}`,
    ),
    '{"ALG":"HS256"}',
    '{"__proto__":{"alg":"HS256"}}',
  ]) {
    refused(forge(header));
  }
  refused(forge('{}'), 'algorithm');
});

test('verifyToken() does not read "alg" or "sub" from a polluted Object.prototype', () => {
  Object.defineProperty(Object.prototype, 'alg', { value: 'HS256', enumerable: true, configurable: true });
  Object.defineProperty(Object.prototype, 'sub', { value: 'eve', enumerable: true, configurable: true });
  try {
    refused(forge('{"typ":"JWT"}'), 'algorithm');
    refused(forge(HEADER, `{"exp":${now + 60}}`), 'subject');
  } finally {
    delete (Object.prototype as Record<string, unknown>)['alg'];
    delete (Object.prototype as Record<string, unknown>)['sub'];
  }
});

test('createToken() and verifyToken() refuse a secret that is a public key, a certificate or a JWK', () => {
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const secrets = [
    publicKey.export({ type: 'spki', format: 'pem' }) as string,
    JSON.stringify(publicKey.export({ format: 'jwk' })),
    `-----BEGIN CERTIFICATE-----\n${'A'.repeat(64)}\n-----END CERTIFICATE-----`,
  ];
  for (const secret of secrets) {
    assert.throws(() => createToken('ada', secret), { code: 'E_SECRET_FORM' });
    assert.throws(() => verifyToken(forge(HEADER), secret), { code: 'E_SECRET_FORM' });
    assert.throws(() => verifyToken('nonsense', [SECRET, secret]), { code: 'E_SECRET_FORM' });
  }
});

test('verifyToken() refuses a header that has the member "crit", whatever its value', () => {
  for (const crit of [
    '["exp"]',
    '["b64"]',
    '[]',
    '""',
    'null',
    '"alg"',
    '["absent"]',
    '["exp","exp"]',
    '{}',
    'false',
  ])
    refused(forge(`{"alg":"HS256","crit":${crit}}`), 'header');
  refused(forge('{"alg":"HS256","crit":["exp"],"exp":1}'), 'header');
});

test('verifyToken() refuses "b64" in the header, with and without "crit", and a payload that is not base64url', () => {
  for (const more of ['"b64":false', '"b64":true', '"b64":false,"crit":["b64"]'])
    refused(forge(`{"alg":"HS256",${more}}`), 'header');
  refused(signed(encode('{"alg":"HS256","b64":false,"crit":["b64"]}'), CLAIMS));
});

test('verifyToken() refuses a header with keys or key URLs, and opens no connection', async () => {
  const connections: unknown[] = [];
  const server = createServer((_, response) => response.end('{"keys":[]}'));
  server.on('connection', (socket) => connections.push(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  after(() => server.close());
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const url = `http://127.0.0.1:${(server.address() as net.AddressInfo).port}/jwks.json`;
  const jwk = JSON.stringify(publicKey.export({ format: 'jwk' }));
  for (const member of [`"jwk":${jwk}`, `"jku":"${url}"`, `"x5u":"${url}"`, '"x5c":["MIIB"]']) {
    const text = `${encode(`{"alg":"RS256",${member}}`)}.${encode(CLAIMS)}`;
    // an RSA signature is longer than a MAC, so the form is refused
    refused(`${text}.${createSign('sha256').update(text).sign(privateKey, 'base64url')}`, 'form');
    refused(forge(`{"alg":"HS256","kid":"${url}",${member}}`));
  }
  await fetch(url);
  assert.equal(connections.length, 1); // the connection of the fetch above proves that connections are counted
  server.closeAllConnections();
});

test('verifyToken() refuses a header with keys or key URLs even if the MAC is valid', () => {
  for (const member of [
    '"jwk":{"kty":"oct","k":"AAAA"}',
    '"jku":"https://keys.example"',
    '"x5u":"https://keys.example"',
    '"x5c":["MIIB"]',
  ])
    refused(forge(`{"alg":"HS256",${member}}`), 'header');
});

test('verifyToken() refuses every unknown "kid", whatever its type and content', () => {
  for (const kid of [
    '"unknown"',
    '""',
    '5',
    'null',
    '["a"]',
    '{"a":1}',
    '"__proto__"',
    '"constructor"',
    '"../../dev/null"',
    '"x\' UNION SELECT \'key"',
    `"${Keyring.of(OTHER).current.id}"`,
  ])
    refused(forge(`{"alg":"HS256","kid":${kid}}`), 'key');
  refused(forge(`{"alg":"HS256","kid":"${'k'.repeat(700)}"}`), 'key');
  refused(forge(`{"alg":"HS256","kid":"${'k'.repeat(10_000)}"}`), 'length');
  // refused before its JSON is parsed
  refused(forge(`{"alg":"HS256","kid":"${'k'.repeat(10_000)}"}`), 'header', { maxLength: 100_000 });
});

test('verifyToken() tries each key of the key ring if the token has no "kid"', () => {
  for (const secret of [SECRET, OTHER])
    assert.equal(verify(forge(HEADER, CLAIMS, secret), {}, [SECRET, OTHER])['sub'], 'ada');
  refused(forge(HEADER, CLAIMS, 'a third secret that nobody has put into the ring'), 'signature', {}, [
    SECRET,
    OTHER,
  ]);
});

test('verifyToken() verifies a token that has a "kid" only with the key of this id', () => {
  const [first, second] = Keyring.of([SECRET, OTHER]).keys;
  refused(forge(`{"alg":"HS256","kid":"${first!.id}"}`, CLAIMS, OTHER), 'signature', {}, [SECRET, OTHER]);
  assert.equal(
    verify(forge(`{"alg":"HS256","kid":"${second!.id}"}`, CLAIMS, OTHER), {}, [SECRET, OTHER])['sub'],
    'ada',
  );
});

test('verifyToken() accepts a token signed with the previous key only while this key is in the key ring', () => {
  const ofRing = createToken('ada', [OTHER, 'the secret before that one, which is long enough'], { clock });
  const ofOne = createToken('ada', OTHER, { clock });
  for (const token of [ofRing, ofOne]) {
    assert.equal(verify(token, {}, [SECRET, OTHER])['sub'], 'ada');
    assert.equal(verify(token, {}, OTHER)['sub'], 'ada');
    refused(token, token === ofRing ? 'key' : 'signature', {}, [SECRET]);
    refused(token, token === ofRing ? 'key' : 'signature', {}, [
      SECRET,
      'yet another secret, and this one has never signed',
    ]);
  }
});

test('with the option "type", verifyToken() requires this type, in any letter case and with or without the prefix "application/"', () => {
  for (const typ of ['at+jwt', 'application/at+jwt', 'AT+JWT', 'Application/At+Jwt']) {
    for (const type of ['at+jwt', 'application/at+jwt', 'at+JWT'])
      assert.equal(verify(forge(`{"alg":"HS256","typ":"${typ}"}`), { type })['sub'], 'ada');
  }
  for (const header of [
    HEADER,
    '{"alg":"HS256"}',
    '{"alg":"HS256","typ":"x/at+jwt"}',
    '{"alg":"HS256","typ":"application/x/at+jwt"}',
    '{"alg":"HS256","typ":""}',
  ])
    refused(forge(header), 'type', { type: 'at+jwt' });
  assert.equal(verify(forge(HEADER), { type: 'JWT' })['sub'], 'ada');
  refused(forge('{"alg":"HS256"}'), 'type', { type: 'JWT' });
  refused(forge('{"alg":"HS256","typ":"at+jwt"}'), 'type', { type: 'JWT' });
  assert.equal(
    verify(forge('{"alg":"HS256","typ":"at+jwt"}'))['sub'],
    'ada',
    'an access token, where none is required',
  );
});

test('verifyToken() without the option "type" accepts "JWT" or no type, and refuses other types', () => {
  for (const typ of [
    '"dpop+jwt"',
    '"logout+jwt"',
    '"secevent+jwt"',
    '5',
    'null',
    '["JWT"]',
    '""',
    '"JWT "',
  ]) {
    refused(forge(`{"alg":"HS256","typ":${typ}}`), 'type');
  }
  for (const typ of ['"dpop+jwt"', '"logout+jwt"', '5'])
    refused(forge(`{"alg":"HS256","typ":${typ}}`), 'type', { type: 'at+jwt' });
  for (const typ of ['"jwt"', '"application/jwt"'])
    assert.equal(verify(forge(`{"alg":"HS256","typ":${typ}}`))['sub'], 'ada');
});

test('verifyToken() refuses nested, compressed and encrypted tokens', () => {
  for (const member of ['"cty":"JWT"', '"cty":"jwt"', '"cty":null', '"zip":"DEF"', '"enc":"A256GCM"'])
    refused(forge(`{"alg":"HS256",${member}}`), 'header');
});

test('verifyToken() ignores unknown members of the header (RFC 7515 §4)', () => {
  assert.equal(verify(forge('{"alg":"HS256","x":{"y":[1]},"iss":"a"}'))['sub'], 'ada');
});

test('verifyToken() refuses a member name that occurs twice in one object, at any depth and with any escapes', () => {
  for (const header of [
    '{"alg":"HS256","alg":"HS256"}',
    '{"alg":"none","alg":"HS256"}',
    '{"alg":"HS256","\\u0061lg":"HS256"}',
    '{"alg":"HS256","x":{"a":1,"a":1}}',
  ])
    refused(forge(header), 'header');
  for (const more of [
    '"sub":"eve"',
    '"s\\u0075b":"eve"',
    '"\\u0073\\u0075\\u0062":"eve"',
    '"a":1,"a":2',
    '"a":{"b":1,"b":1}',
    '"a":[1,[{"b":1,"c":2,"b":3}]]',
    '"a" :1,"a"\t:2',
    '"a"\r\n:1,"a":2',
    '"\\"":1,"\\u0022":2',
    '"a\\\\":1,"a\\u005c":2',
    '"":1,"":2',
    '"a":":","b":"x:\\":","a":1',
    '"\\/":1,"/":2',
    '"é":1,"\\u00e9":2',
    '"1":1,"1":2',
  ])
    refused(withClaims(more), 'payload');
});

test('verifyToken() accepts equal member names in different objects, and values that look like member names', () => {
  for (const more of [
    '"a":{"sub":1,"exp":{"sub":2}}',
    '"a":[{"b":1},{"b":2}]',
    '"a":"\\"sub\\":1"',
    '"a":": : :","b":":x"',
    '"a":["a","a"]',
    '"a":"{\\"a\\":1,\\"a\\":2}"',
    '"a\\\\":"\\\\","b" : "x" ',
    '"when":"2024-01-01T00:00:00Z","iss":"https://a.example:80/"',
    '"a":[[],{},[{}]],"b":{}',
  ])
    assert.equal(verify(withClaims(more))['sub'], 'ada', more);
});

test('verifyToken() refuses a header or payload that is not one JSON object', () => {
  const texts = [
    '[]',
    '"a"',
    'null',
    '5',
    'true',
    '',
    ' ',
    '{',
    '{}{}',
    '{"alg":"HS256"} x',
    '\ufeff{"alg":"HS256","sub":"a","exp":9999999999}',
    '{"alg":"HS256",/**/"sub":"a"}',
    '{"alg":"HS256",}',
    "{'alg':'HS256'}",
    '{alg:"HS256"}',
    '{"alg":"HS256"//\n}',
    '{"sub":"a","exp":NaN}',
    '{"sub":"a","exp":0x7fffffff}',
    '{"sub":"a\n","exp":9999999999}',
  ];
  for (const text of texts) {
    if (text !== '') refused(forge(text), 'header');
    if (text !== '') refused(forge(HEADER, text), 'payload');
  }
  // white space around the object is valid JSON
  assert.equal(verify(forge(' {"alg":"HS256"}\n', ` ${CLAIMS}\r\n`))['sub'], 'ada');
});

test('verifyToken() refuses bytes that are not UTF-8', () => {
  const parts = (bytes: number[]): Buffer =>
    Buffer.concat([
      Buffer.from('{"alg":"HS256","sub":"a'),
      Buffer.from(bytes),
      Buffer.from(`","exp":${now + 60}}`),
    ]);
  for (const bytes of [
    [0xff],
    [0xc0, 0xaf],
    [0xed, 0xa0, 0x80],
    [0xe2, 0x82],
    [0xf4, 0x90, 0x80, 0x80],
    [0x80],
  ]) {
    refused(forge(HEADER, parts(bytes)), 'payload');
    refused(signed(encode(parts(bytes)), encode(CLAIMS)), 'header');
  }
  refused(forge(HEADER, Buffer.from(CLAIMS, 'utf16le')), 'payload');
  // U+FFFD itself is a valid character
  assert.equal(verify(forge(HEADER, parts([0xef, 0xbf, 0xbd])))['sub'], 'a\ufffd');
  assert.equal(verify(forge(HEADER, parts([0xf0, 0x9f, 0x98, 0x80])))['sub'], 'a😀');
});

test('verifyToken() reads no claim from a prototype, and refuses the name __proto__', () => {
  for (const payload of [
    '{"__proto__":{"sub":"admin"}}',
    `{"__proto__":{"sub":"admin"},"exp":${now + 60}}`,
    `{"sub":"a","exp":${now + 60},"x":[{"__proto__":1}]}`,
    `{"sub":"a","exp":${now + 60},"\\u005f_proto__":1}`,
  ])
    refused(forge(HEADER, payload), 'payload');
  const claims = verify(withClaims('"constructor":1,"toString":2'));
  assert.deepEqual(Object.keys(claims), ['sub', 'exp', 'constructor', 'toString']);
  assert.equal((Object.prototype as Record<string, unknown>)['sub'], undefined);
});

test('verifyToken() refuses every spelling of a segment that is not canonical base64url, even with a valid MAC', () => {
  const claims = encode(`{"sub":"ada","exp":${now + 60},"x":"???>>>~~~"}`);
  assert.match(claims, /[-_]/);
  assert.equal(verify(signed(encode(HEADER), claims))['sub'], 'ada');
  const spellings = [
    claims.replaceAll('-', '+').replaceAll('_', '/'),
    `${claims}=`,
    `${claims}==`,
    ` ${claims}`,
    `${claims}\n`,
    `${claims.slice(0, 8)}\r\n${claims.slice(8)}`,
    `${claims.slice(0, 8)}!${claims.slice(8)}`,
    `${claims.slice(0, 8)}é${claims.slice(8)}`,
    `${claims}A`.slice(0, (claims.length & ~3) + 1),
    claims.replace(claims[4]!, String.fromCharCode(claims.charCodeAt(4) + 0x100)),
  ];
  for (const spelling of spellings) {
    assert.notEqual(spelling, claims);
    refused(signed(encode(HEADER), spelling), 'payload');
    refused(
      signed(encode('{"alg":"HS256"}').replace(/^/, spelling.startsWith(' ') ? ' ' : '='), claims),
      'header',
    );
  }
  const token = signed(encode(HEADER), claims);
  for (const end of ['=', ' ', '\n', 'A']) refused(`${token}${end}`);
  const swapped = Array.from(token.slice(-43), (character) =>
    character === '-' ? '+' : character === '_' ? '/' : character,
  ).join('');
  if (swapped !== token.slice(-43)) refused(token.slice(0, -43) + swapped, 'signature');
  // the low byte of this character equals that of the right one
  for (let at = 1; at <= 43; at++)
    refused(
      `${token.slice(0, -at)}${String.fromCharCode(token.charCodeAt(token.length - at) + 0x100)}${at === 1 ? '' : token.slice(1 - at)}`,
      'signature',
    );
});

test('verifyToken() refuses a segment whose unused last bits are not zero', () => {
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';
  const next = (segment: string): string =>
    segment.slice(0, -1) + alphabet[alphabet.indexOf(segment.at(-1)!) + 1]!;
  const header = encode('{"alg":"HS256" }'); // 16 bytes leave four unused bits
  const claims = encode(`{"sub":"a","exp":${now + 60}}`.padEnd(32)); // 32 bytes leave two unused bits
  assert.ok(header.length % 4 === 2 && claims.length % 4 === 3);
  const token = signed(header, claims);
  assert.equal(verify(token)['sub'], 'a');
  assert.deepEqual(decode(next(header)), decode(header));
  refused(signed(next(header), claims), 'header');
  refused(signed(header, next(claims)), 'payload');
  refused(next(token), 'signature');
});

test('verifyToken() refuses a MAC of wrong length or format', () => {
  const [text, mac] = [forge(HEADER).slice(0, -44), Buffer.from(forge(HEADER).slice(-43), 'base64url')];
  for (const wrong of [
    mac.subarray(0, 16),
    mac.subarray(0, 31),
    Buffer.concat([mac, Buffer.from([0])]),
    Buffer.from(mac.toString('hex')),
  ])
    refused(`${text}.${encode(wrong)}`, 'form');
  refused(`${text}.${mac.toString('hex')}`, 'form');
  refused(`${text}.${encode(Buffer.alloc(32))}`, 'signature');
  refused(`${text}.${encode(Buffer.from(mac).reverse())}`, 'signature');
});

test('verifyToken() refuses a token that is too long', () => {
  const long = (length: number): string => {
    const token = forge(
      HEADER,
      `{"sub":"ada","exp":${now + 60},"x":"${'x'.repeat(Math.floor(((length - 160) * 3) / 4))}"}`,
    );
    return token;
  };
  const fits = long(8_192);
  assert.ok(fits.length > 8_000 && fits.length <= 8_192);
  assert.equal(verify(fits)['sub'], 'ada');
  refused(long(8_400), 'length');
  assert.equal(verify(long(12_000), { maxLength: 12_000 })['sub'], 'ada');
  const megabyte = 'a'.repeat(1_000_000);
  const checks = tokenChecks('test', {});
  assert.equal(readToken(Keyring.of(SECRET), megabyte, checks, now), 'length');
});

test('verifyToken() refuses JSON that is nested more than 32 levels deep, and the stack does not overflow', () => {
  const deep = (open: string, close: string, levels: number): string =>
    withClaims(`"a":${open.repeat(levels)}1${close.repeat(levels)}`);
  for (const levels of [20_000, 300_000]) {
    for (const [open, close] of [
      ['[', ']'],
      ['{"a":', '}'],
      ['[{"a":', '}]'],
    ] as const) {
      const token = deep(open, close, levels / open.length);
      refused(token, 'payload', { maxLength: 1_048_576 });
      refused(signed(Buffer.from(token.split('.')[1]!).toString(), encode(CLAIMS)), undefined, {
        maxLength: 1_048_576,
      });
    }
  }
  assert.equal(verify(deep('[', ']', 31))['sub'], 'ada');
  refused(deep('[', ']', 32), 'payload');
  assert.equal(verify(deep('{"a":', '}', 31))['sub'], 'ada');
  refused(deep('{"a":', '}', 32), 'payload');
});

test('verifyToken() refuses a token at and after the time in "exp" plus the leeway (RFC 7519 §4.1.4)', () => {
  const at = (exp: number | string, leewaySeconds = 0): void => {
    verify(forge(HEADER, `{"sub":"ada","exp":${exp}}`), { leewaySeconds });
  };
  assert.throws(() => at(now), { reason: 'expired' });
  at(now + 1);
  at(now + 0.5);
  at(now - 59, 60);
  assert.throws(() => at(now - 60, 60), { reason: 'expired' });
  assert.throws(() => at(now - 1), { reason: 'expired' });
  assert.throws(() => at(0), { reason: 'expired' });
});

test('verifyToken() accepts a new token until its lifetime has passed on the given clock', () => {
  const time = new ManualClock();
  const token = createToken('ada', SECRET, { expiresInSeconds: 60, clock: time });
  time.advance(59_999);
  assert.equal(verify(token, { clock: time })['sub'], 'ada');
  time.advance(1);
  refused(token, 'expired', { clock: time });
});

test('verifyToken() refuses an "exp" that is not a number, is negative, or is after the year 9999, even with requireExp: false', () => {
  for (const exp of [
    '"9999999999"',
    'null',
    'true',
    'false',
    '[]',
    '[9999999999]',
    '{}',
    '1e400',
    '-1e400',
    '-1',
    '"NaN"',
    '""',
    '253402300800', // after the year 9999: probably milliseconds
    '1767225600000',
  ]) {
    const token = forge(HEADER, `{"sub":"ada","exp":${exp}}`);
    refused(token, 'claim type');
    refused(token, 'claim type', { requireExp: false });
  }
});

test('verifyToken() refuses a token that has no "exp" by default', () => {
  const token = forge(HEADER, '{"sub":"ada"}');
  refused(token, 'no expiry');
  assert.deepEqual(verify(token, { requireExp: false }), { sub: 'ada' });
  refused(forge(HEADER, `{"sub":"ada","exp":${now}}`), 'expired', { requireExp: false });
});

test('verifyToken() refuses a token before the time in "nbf" minus the leeway (RFC 7519 §4.1.5)', () => {
  const at = (nbf: number, leewaySeconds = 0): void => {
    verify(withClaims(`"nbf":${nbf}`), { leewaySeconds });
  };
  at(now);
  assert.throws(() => at(now + 1), { reason: 'not yet valid' });
  at(now + 60, 60);
  assert.throws(() => at(now + 61, 60), { reason: 'not yet valid' });
});

test('verifyToken() refuses "nbf" and "iat" that are not numbers, and an "iat" in the future', () => {
  for (const name of ['nbf', 'iat']) {
    for (const value of ['"1"', 'null', 'true', '[1]', '{}', '1e400', '-1'])
      refused(withClaims(`"${name}":${value}`), 'claim type');
  }
  assert.equal(verify(withClaims(`"iat":${now}`))['iat'], now);
  refused(withClaims(`"iat":${now + 1}`), 'not yet valid');
  assert.equal(verify(withClaims(`"iat":${now + 60}`), { leewaySeconds: 60 })['iat'], now + 60);
  refused(withClaims(`"iat":${now + 61}`), 'not yet valid', { leewaySeconds: 60 });
});

test('verifyToken() refuses a leeway below 0 or above 300 seconds', () => {
  for (const leewaySeconds of [301, -1, NaN, Infinity, '60', null])
    assert.throws(() => verify('', { leewaySeconds: leewaySeconds as number }), { code: 'E_OPTION_RANGE' });
  refused('', 'form', { leewaySeconds: 300 });
});

test('verifyToken() refuses a subject that is missing, empty or not a string', () => {
  for (const sub of [
    '',
    '"sub":"",',
    '"sub":1,',
    '"sub":null,',
    '"sub":["ada"],',
    '"sub":{},',
    '"sub":true,',
    '"Sub":"ada",',
    '"sub":"\\ud800",',
  ])
    refused(forge(HEADER, `{${sub}"exp":${now + 60}}`), 'subject');
});

test('verifyToken() with the option "issuer" requires exactly the given issuer', () => {
  const issuer = 'https://id.example';
  assert.equal(verify(withClaims(`"iss":"${issuer}"`), { issuer })['iss'], issuer);
  assert.equal(verify(withClaims(`"iss":"${issuer}"`))['iss'], issuer);
  for (const iss of [`"${issuer}/"`, '"https://ID.example"', '"http://id.example"', '""'])
    refused(withClaims(`"iss":${iss}`), 'issuer', { issuer });
  refused(forge(HEADER), 'issuer', { issuer });
  for (const iss of [`["${issuer}"]`, 'null', '5'])
    refused(withClaims(`"iss":${iss}`), 'claim type', { issuer });
});

test('verifyToken() refuses a "jti" that is not a string', () => {
  for (const jti of ['5', 'null', '[]']) refused(withClaims(`"jti":${jti}`), 'claim type');
});

test('verifyToken() with the option "audience" requires that the claim "aud" contains the given audience', () => {
  for (const aud of ['"api"', '["api"]', '["web","api"]'])
    assert.ok('aud' in verify(withClaims(`"aud":${aud}`), { audience: 'api' }));
  assert.ok('aud' in verify(withClaims('"aud":"web"'), { audience: ['api', 'web'] }));
  for (const aud of ['"ap"', '"apix"', '"API"', '"api/"', '[]', '["web"]', '""', '"api web"'])
    refused(withClaims(`"aud":${aud}`), 'audience', { audience: 'api' });
  for (const aud of ['5', 'null', '{"api":1}', '["api",5]', '[["api"]]'])
    refused(withClaims(`"aud":${aud}`), 'claim type', { audience: 'api' });
  refused(forge(HEADER), 'audience', { audience: 'api' });
});

test('verifyToken() without the option "audience" refuses a token that has an "aud"', () => {
  for (const aud of ['"api"', '["api"]', '[]', '""']) refused(withClaims(`"aud":${aud}`), 'audience');
});

test('verifyToken() compares MACs with timingSafeEqual(), whichever bytes differ', async () => {
  const { readFile } = await import('node:fs/promises');
  assert.match(
    await readFile(new URL('../../src/crypto/jwt.ts', import.meta.url), 'utf8'),
    /timingSafeEqual\(expectedBytes, presentedBytes\) &&/,
  );
  const token = forge(HEADER);
  for (let at = token.length - 43; at < token.length; at++)
    refused(`${token.slice(0, at)}${token[at] === 'A' ? 'B' : 'A'}${token.slice(at + 1)}`, 'signature');
});

test('verifyToken() reports a wrong MAC before any invalid claim', () => {
  const mac = encode(randomBytes(32));
  const problems = new Set<string>();
  for (const claims of [
    CLAIMS,
    `{"sub":"ada","exp":${now - 60}}`,
    '{}',
    '[',
    '{"sub":1}',
    `{"sub":"ada","exp":${now + 60},"aud":"x"}`,
    '{"a":1,"a":1}',
  ]) {
    const token = `${encode(HEADER)}.${encode(claims)}.${mac}`;
    refused(token, 'signature');
    try {
      verify(token);
    } catch (error) {
      const { status, code, detail, headers } = error as InvalidToken;
      problems.add(JSON.stringify({ status, code, detail, headers }));
    }
  }
  assert.equal(problems.size, 1);
});

test('InvalidToken has status 401 and the code invalid_token, and its response does not contain the reason', async () => {
  const bodies = new Set<string>();
  for (const token of [
    'nonsense',
    forge('{"alg":"none"}'),
    forge(HEADER, `{"sub":"ada","exp":${now}}`),
    forge(HEADER, CLAIMS, OTHER),
    withClaims('"aud":"x"'),
  ]) {
    const error = assertThrown(() => verify(token));
    assert.ok(error instanceof InvalidToken && error instanceof Unauthorized);
    assert.equal(error.name, 'InvalidToken');
    assert.equal(error.status, 401);
    const response = issueOf(error, 'id');
    assert.equal(response.headers.get('www-authenticate'), 'Bearer error="invalid_token"');
    bodies.add(await bodyOf(response));
    assert.doesNotMatch(inspect(error), /eyJ/);
  }
  assert.deepEqual(
    [...bodies],
    [
      '{"type":"about:blank","title":"Unauthorized","status":401,"detail":"The access token is invalid or has expired","code":"invalid_token","request_id":"id"}',
    ],
  );
});

function assertThrown(fn: () => unknown): unknown {
  try {
    fn();
  } catch (error) {
    return error;
  }
  return assert.fail('nothing was thrown');
}

async function bodyOf(response: { readonly body: unknown }): Promise<string> {
  return typeof response.body === 'string'
    ? response.body
    : Buffer.from(response.body as Uint8Array).toString();
}

test('creating an InvalidToken does not change Error.stackTraceLimit for other errors', () => {
  const before = Error.stackTraceLimit;
  new InvalidToken('form');
  assert.equal(Error.stackTraceLimit, before);
  assert.match(new Error('x').stack!, /jwt\.test/);
});

test('verifyToken() returns a new object for each call', () => {
  const token = withClaims('"roles":["user"]');
  const first = verify(token);
  (first['roles'] as string[]).push('admin');
  first['sub'] = 'eve';
  assert.deepEqual(verify(token), { sub: 'ada', exp: now + 60, roles: ['user'] });
});

test('verifyToken() throws InvalidToken for ten thousand random texts', () => {
  const random = seeded(44);
  const alphabet = `${'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'}....{}":\u0000é\ud800`;
  for (let round = 0; round < 10_000; round++) {
    const bytes = Buffer.from(
      Array.from({ length: random(round % 10 === 0 ? 1_000 : 120) }, () => random(256)),
    );
    const text = [
      bytes.toString('latin1'),
      bytes.toString('utf8'),
      `${encode(HEADER)}.${encode(bytes)}.${'A'.repeat(43)}`,
      `${encode(bytes)}.${encode(CLAIMS)}.${encode(Buffer.alloc(32, round))}`,
      Array.from(bytes, (byte) => alphabet[byte % alphabet.length]).join(''),
    ][round % 5]!;
    refused(text);
  }
});

test('verifyToken() throws InvalidToken for twenty thousand mutations of a valid token', () => {
  const random = seeded(4_400);
  const ring = [SECRET, OTHER];
  const tokens = [
    createToken('ada', SECRET, { claims: { scopes: ['read'] }, id: 'x', clock }),
    createToken('ada', ring, { issuer: 'a', clock }),
  ];
  for (const token of tokens) verify(token, {}, ring);
  for (let round = 0; round < 20_000; round++) {
    const token = tokens[round & 1]!;
    const at = random(token.length);
    const character = String.fromCharCode(round % 7 === 0 ? random(0x3000) : random(128));
    const mutated =
      round % 5 === 0
        ? token.slice(0, at) + token.slice(at + 1)
        : round % 5 === 1
          ? token.slice(0, at) + character + token.slice(at)
          : token.slice(0, at) + character + token.slice(at + 1);
    if (mutated !== token) refused(mutated, undefined, {}, ring);
  }
});

test('for ten thousand random headers and payloads with a valid MAC, verifyToken() returns claims or throws InvalidToken', () => {
  const random = seeded(444);
  const pieces = [
    '{',
    '}',
    '[',
    ']',
    ':',
    ',',
    '"',
    '"alg"',
    '"HS256"',
    '"sub"',
    '"exp"',
    '"ada"',
    '1',
    '1e400',
    'null',
    '\\',
    '\\u0061',
    ' ',
    '"alg":"HS256"',
    `"exp":${now + 60}`,
    '"sub":"a"',
    '\u0000',
    'é',
  ];
  let accepted = 0;
  for (let round = 0; round < 10_000; round++) {
    const text = (): string =>
      Array.from({ length: 1 + random(12) }, () => pieces[random(pieces.length)]!).join('');
    const token =
      round % 2 === 0
        ? forge(`{"alg":"HS256"${text()}}`)
        : forge(HEADER, `{"sub":"a","exp":${now + 60}${text()}}`);
    const found = readToken(Keyring.of(SECRET), token, tokenChecks('test', {}), now);
    if (typeof found === 'object') accepted++;
  }
  assert.ok(accepted < 2_000);
});

test('verifyToken() verifies the MAC of every token, even if a token with the same header was accepted before', () => {
  for (let round = 0; round < 600; round++)
    assert.equal(verify(forge(`{"alg":"HS256","n":${round % 300}}`))['sub'], 'ada');
  for (let round = 0; round < 600; round++)
    assert.equal(
      verify(
        createToken('ada', [SECRET, OTHER], { type: `t${round % 300}`, clock }),
        { type: `t${round % 300}` },
        [SECRET, OTHER],
      )['sub'],
      'ada',
    );
  // a header of a valid token does not make another token valid
  refused(forge('{"alg":"HS256","n":1}', CLAIMS, OTHER), 'signature');
});

test('verifyToken() uses the system clock if no clock is given', () => {
  assert.equal(verifyToken(createToken('ada', SECRET), SECRET).sub, 'ada');
  assert.throws(() => verifyToken(createToken('ada', SECRET, { clock }), SECRET), { reason: 'expired' });
});
