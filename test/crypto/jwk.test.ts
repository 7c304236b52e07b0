import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { chooseKeys, findSigner, readKeySet } from '../../src/crypto/jwk.ts';
import { openJws } from '../../src/crypto/jws.ts';
import { EC, EC384, EC521, ED, RSA, jwk, jws } from '../oauth/support/fake-provider.ts';

const OF_RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const rsa = jwk(RSA.publicKey);
const ec = jwk(EC.publicKey);
const ed = jwk(ED.publicKey);

test('readKeySet() returns RSA, P-256, P-384, P-521 and Ed25519 keys with their algorithms', () => {
  const { keys } = readKeySet([
    { ...rsa, kid: 'r', issuer: 'https://i.test' },
    ec,
    jwk(EC384.publicKey),
    jwk(EC521.publicKey),
    ed,
    { ...rsa, alg: 'PS256', key_ops: ['verify'], use: 'sig' },
  ]);
  assert.deepEqual(
    keys.map(({ keyId, algorithms, issuer }) => ({ keyId, algorithms, issuer })),
    [
      { keyId: 'r', algorithms: OF_RSA, issuer: 'https://i.test' },
      { keyId: undefined, algorithms: ['ES256'], issuer: undefined },
      { keyId: undefined, algorithms: ['ES384'], issuer: undefined },
      { keyId: undefined, algorithms: ['ES512'], issuer: undefined },
      { keyId: undefined, algorithms: ['EdDSA', 'Ed25519'], issuer: undefined },
      { keyId: undefined, algorithms: ['PS256'], issuer: undefined },
    ],
  );
});

test('readKeySet() skips keys that are not for signatures, are too weak or have an unsupported type, and entries that are not keys', () => {
  const weak = generateKeyPairSync('rsa', { modulusLength: 1_024 }).publicKey.export({ format: 'jwk' });
  const unusable: readonly (readonly [why: string, entry: unknown])[] = [
    ['use enc', { ...rsa, use: 'enc' }],
    ['use of another type', { ...rsa, use: 1 }],
    ['key_ops without verify', { ...rsa, key_ops: ['sign'] }],
    ['key_ops no list', { ...rsa, key_ops: 'verify' }],
    ['RSA of 1024 bits', weak],
    ['RSA of 8200 bits', { ...rsa, n: Buffer.alloc(1_025, 0xff).toString('base64url') }],
    ['exponent 1', { ...rsa, e: 'AQ' }],
    ['even exponent', { ...rsa, e: 'AQAC' }],
    ['huge exponent', { ...rsa, e: Buffer.alloc(16, 0xff).toString('base64url') }],
    ['RSA called ES256', { ...rsa, alg: 'ES256' }],
    ['EC called RS256', { ...ec, alg: 'RS256' }],
    ['RSA for encryption', { ...rsa, alg: 'RSA-OAEP' }],
    ['RSA called HS256', { ...rsa, alg: 'HS256' }],
    ['alg of another type', { ...rsa, alg: 5 }],
    ['secp256k1', jwk(generateKeyPairSync('ec', { namedCurve: 'secp256k1' }).publicKey)],
    ['P-384 called ES256', { ...jwk(EC384.publicKey), alg: 'ES256' }],
    ['X25519', jwk(generateKeyPairSync('x25519').publicKey)],
    ['off the curve', { ...ec, x: Buffer.alloc(32, 1).toString('base64url') }],
    ['symmetric', { kty: 'oct', k: 'AAAA' }],
    ['without n', { kty: 'RSA', e: 'AQAB' }],
    ['n of another type', { ...rsa, n: 5 }],
    ['no kty', { n: 'x' }],
    ['null', null],
    ['text', 'x'],
    ['list', []],
  ];
  for (const [why, entry] of unusable) assert.deepEqual(readKeySet([entry]).keys, [], why);
});

test('readKeySet() accepts RSA keys with an odd exponent from 3 to below 2^64', () => {
  for (const [exponent, isAccepted] of [
    ['01', false],
    ['02', false],
    ['03', true],
    ['010001', true],
    ['ffffffffffffffff', true],
    ['010000000000000001', false],
  ] as const) {
    const e = Buffer.from(exponent, 'hex').toString('base64url');
    assert.equal(readKeySet([{ ...rsa, e }]).keys.length, Number(isAccepted), exponent);
  }
});

test('readKeySet() marks the keys whose signatures are verified in the thread pool: RSA above 4096 bits, P-384 and P-521', () => {
  // any odd number is a modulus for createPublicKey()
  const rsaOf = (bytes: number): unknown => ({ ...rsa, n: Buffer.alloc(bytes, 0xff).toString('base64url') });
  const costs = [
    rsa,
    rsaOf(512),
    rsaOf(513),
    rsaOf(1_024),
    ec,
    ed,
    jwk(EC384.publicKey),
    jwk(EC521.publicKey),
  ];
  assert.deepEqual(
    readKeySet(costs).keys.map(({ isCostly }) => isCostly),
    [false, false, true, true, false, false, true, true],
  );
});

test('readKeySet() ignores the private members of a key, and reads at most 64 keys', () => {
  const [key] = readKeySet([jwk(RSA.privateKey)]).keys;
  assert.equal(key?.key.type, 'public');
  assert.equal(readKeySet(Array.from({ length: 100 }, () => ec)).keys.length, 64);
});

test('readKeySet() treats a null member as absent', () => {
  const { keys } = readKeySet([{ ...rsa, kid: null, alg: null, use: null, key_ops: null, x5c: null }]);
  assert.deepEqual(
    keys.map(({ keyId, algorithms }) => ({ keyId, algorithms })),
    [{ keyId: undefined, algorithms: OF_RSA }],
  );
});

test('chooseKeys() returns the key with the given id, all suitable keys if no id is given, and "ambiguous" for a repeated id', () => {
  const set = readKeySet([
    { ...rsa, kid: 'a' },
    { ...rsa, kid: 'b' },
    { ...ec, kid: 'c' },
    { ...ec, kid: 'd', use: 'enc' },
    { ...ed, kid: 'd' },
  ]);
  const ids = (keyId: string | undefined, algorithm: 'RS256' | 'ES256' | 'EdDSA'): unknown => {
    const keys = chooseKeys(set, keyId, algorithm);
    return keys === 'ambiguous' ? keys : keys.map((each) => each.keyId);
  };
  assert.deepEqual(ids('a', 'RS256'), ['a']);
  assert.deepEqual(ids(undefined, 'RS256'), ['a', 'b']);
  assert.deepEqual(ids(undefined, 'ES256'), ['c']);
  assert.deepEqual(ids('a', 'ES256'), []);
  assert.deepEqual(ids('__proto__', 'RS256'), []);
  assert.equal(ids('d', 'EdDSA'), 'ambiguous');
});

test('findSigner() tries the first eight keys that fit a token without a key id, and one key for a token with a key id', async () => {
  const pairs = Array.from({ length: 9 }, () => generateKeyPairSync('ec', { namedCurve: 'P-256' }));
  const set = readKeySet([
    rsa,
    ...pairs.map(({ publicKey }, index) => ({ ...jwk(publicKey), kid: `k${index}` })),
  ]);
  const search = (index: number, keyId: string | undefined, isUsable = true): unknown => {
    const opened = openJws(jws({ alg: 'ES256' }, { sub: 'ada' }, pairs[index]!.privateKey), 8_192);
    assert.ok(typeof opened === 'object');
    const { signed, signature } = opened;
    return findSigner({ algorithm: 'ES256', keyId, signed, signature }, set, () => isUsable);
  };
  for (let index = 0; index < 9; index++)
    assert.equal(await search(index, undefined), index < 8 ? 'signed' : 'unknown', String(index));
  assert.equal(await search(8, 'k8'), 'signed');
  assert.equal(await search(8, 'k7'), 'other');
  assert.equal(await search(8, 'k9'), 'unknown');
  assert.equal(await search(0, undefined, false), 'unknown');
  assert.equal(await search(0, 'k0', false), 'other');
});
