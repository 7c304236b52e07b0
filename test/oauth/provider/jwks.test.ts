import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { ManualClock } from '../../../src/base/manual-clock.ts';
import { KeySource, chooseKeys, readKeySet } from '../../../src/oauth/provider/jwks.ts';
import { ProviderFault } from '../../../src/oauth/provider/failure.ts';
import { Outbound } from '../../../src/oauth/provider/outbound.ts';
import { EC, EC384, EC521, ED, FakeProvider, RSA, jwk } from '../support/fake-provider.ts';
import type { Target } from '../../../src/oauth/provider/discovery.ts';

const OF_RSA = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'];
const rsa = jwk(RSA.publicKey);
const ec = jwk(EC.publicKey);
const ed = jwk(ED.publicKey);

function source(
  fake: FakeProvider,
  pinned?: readonly unknown[],
): { keys: KeySource; clock: ManualClock; target: Target } {
  const clock = new ManualClock();
  return {
    keys: new KeySource(new Outbound({ clock, timeoutMs: 10_000 }), clock, pinned),
    clock,
    target: { url: `${fake.url}/jwks`, isGuarded: false },
  };
}

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
      { keyId: undefined, algorithms: ['EdDSA'], issuer: undefined },
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

test('KeySource caches keys for ten minutes', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, target } = source(fake);
  const first = await keys.current(target);
  await clock.advance(599_999);
  assert.equal(await keys.current(target), first);
  assert.equal(fake.count(), 1);
  await clock.advance(1);
  assert.notEqual(await keys.current(target), first);
  assert.equal(fake.count('jwks'), 2);
});

test('if a fetch fails, KeySource uses its cached keys for up to a day, and tries again once a minute', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, target } = source(fake);
  const known = await keys.current(target);
  await clock.advance(600_000);
  for (let minute = 0; minute < 3; minute++) {
    fake.failNext('jwks', { status: 503 });
    for (let count = 0; count < 5; count++) assert.equal(await keys.current(target), known);
    assert.equal(fake.count('jwks'), 2 + minute);
    await clock.advance(60_000);
  }
  assert.notEqual(await keys.current(target), known, 'it answers again');
  await clock.advance(86_400_000);
  fake.failNext('jwks', { status: 503 });
  await assert.rejects(Promise.resolve(keys.current(target)), ProviderFault);
});

test('KeySource makes one request for the key set if several logins wait for it', async () => {
  await using fake = await FakeProvider.start();
  const { keys, target } = source(fake);
  const go = Promise.withResolvers<void>();
  fake.failNext('jwks', { until: go.promise });
  const waiting = Array.from({ length: 50 }, () => keys.current(target));
  await fake.arrived(1);
  const again = keys.again(target);
  go.resolve();
  fake.failNext('jwks', { status: 500 });
  await Promise.all([...waiting, again].map((each) => Promise.resolve(each).catch(() => undefined)));
  assert.equal(fake.count(), 1);
});

test('KeySource fetches at most once a minute for unknown key ids, however many such ids arrive', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, target } = source(fake);
  await keys.current(target);
  for (let minute = 1; minute <= 3; minute++) {
    for (let index = 0; index < 1_000; index++) await keys.again(target);
    assert.equal(fake.count(), 1 + minute);
    await clock.advance(59_999);
    assert.equal(keys.again(target), undefined);
    await clock.advance(1);
  }
});

test('after a wrong signature, KeySource fetches again if its keys are at least a minute old, and at most once a minute', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, target } = source(fake);
  await keys.current(target);
  await clock.advance(59_999);
  assert.equal(keys.renewed(target), undefined);
  await clock.advance(1);
  const [one, other] = [keys.renewed(target), keys.renewed(target)];
  assert.equal(await one, await other);
  for (let index = 0; index < 1_000; index++) assert.equal(keys.renewed(target), undefined);
  assert.equal(fake.count(), 2);
  await clock.advance(60_000);
  await keys.again(target); // this is the one fetch that a minute allows
  assert.equal(keys.renewed(target), undefined);
  assert.equal(fake.count(), 3);
});

test('KeySource fails if it cannot fetch a key set, and tries again at the next call', async () => {
  await using fake = await FakeProvider.start();
  const { keys, target } = source(fake);
  const reason =
    (expected: string) =>
    (error: unknown): boolean =>
      error instanceof ProviderFault && error.reason === expected;
  for (const [scripted, expected] of [
    [{ status: 500 }, 'jwks_status_500'],
    [{ body: '[]' }, 'jwks_not_object'],
    [{ body: '{"keys":{}}' }, 'jwks_without_keys'],
    [{ body: '{' }, 'jwks_not_json'],
    [{ headers: { 'content-type': 'text/html' } }, 'jwks_media_type'],
  ] as const) {
    fake.failNext('jwks', { body: {}, ...scripted });
    await assert.rejects(Promise.resolve(keys.current(target)), reason(expected));
  }
  fake.failNext('jwks', {
    headers: { 'content-type': 'application/jwk-set+json; charset=utf-8' },
    body: { keys: fake.keys },
  });
  assert.equal((await keys.current(target)).keys.length, 1);
  await assert.rejects(Promise.resolve(source(fake).keys.current(undefined)), reason('jwks_unknown'));
});

test('KeySource with configured keys never fetches', async () => {
  await using fake = await FakeProvider.start();
  const { keys, clock, target } = source(fake, fake.keys);
  assert.equal((await keys.current(target)).keys.length, 1);
  assert.equal(keys.again(target), undefined);
  await clock.advance(700_000);
  assert.equal((await keys.current(target)).keys.length, 1);
  assert.equal(fake.count(), 0);
});
