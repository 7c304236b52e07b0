import assert from 'node:assert/strict';
import { createHmac, generateKeyPairSync, hkdfSync, randomBytes } from 'node:crypto';
import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { format, inspect } from 'node:util';
import { Config } from '../../src/base/config.ts';
import { SvcError } from '../../src/base/errors.ts';
import { createToken, verifyToken } from '../../src/crypto/jwt.ts';
import { authSecrets, Keyring, weaknessOf } from '../../src/crypto/keys.ts';
import { ROOT } from '../support/build.ts';
import { seeded } from '../support/random.ts';
import type { Secrets } from '../../src/crypto/keys.ts';

const SECRET = 'Zu5kq2-vWm9_hPx7Lr3tYb8nCf1sGd6a';
const OTHER = 'oN4jR8-cXe2_kTw5Vy9uAi3mHz7pQb1l';
const configOf = (environment: Record<string, string>, values: Record<string, unknown> = {}): Config =>
  new Config({ environment, values });

test('every function that takes a secret refuses a secret of fewer than 32 bytes, and the error message does not show the secret', () => {
  const secret = SECRET.slice(0, 31);
  for (const use of [
    () => Keyring.of(secret),
    () => Keyring.of([SECRET, secret]),
    () => Keyring.of(''),
    () => createToken('ada', secret),
    () => verifyToken('a.b.c', secret),
  ]) {
    assert.throws(
      use,
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_SECRET_WEAK' &&
        /^Cannot use a secret of (?:31|0) bytes: .* needs 32 bytes or more$/.test(error.message) &&
        !inspect(error).includes(secret.slice(0, 8)) &&
        /SVC_AUTH_SECRET/.test(error.remedy),
    );
  }
  assert.match(weaknessOf(secret)!, /31 bytes, but needs 32 or more/);
  assert.equal(Keyring.of(SECRET).keys.length, 1);
});

test('Keyring.of() refuses an empty list, too many secrets, and values that are not strings', () => {
  for (const wrong of [
    [],
    Array.from({ length: 17 }, (_, index) => `${index} ${SECRET}`),
    undefined,
    null,
    5,
    {},
    [5],
    [SECRET, null],
    Buffer.from(SECRET),
    [[SECRET]],
  ]) {
    assert.throws(() => Keyring.of(wrong as Secrets), { code: 'E_SECRET_FORM' });
  }
  assert.equal(Keyring.of(Array.from({ length: 16 }, (_, index) => `${index} ${SECRET}`)).keys.length, 16);
});

test('weaknessOf() recognises repeated bytes, placeholders and sequences of characters, and its result does not show the secret', () => {
  for (const [secret, expected] of [
    ['a'.repeat(32), /repeats one character/],
    ['\0'.repeat(64), /placeholder|repeated/],
    ['xq7'.repeat(12), /repeats the same 3 characters/],
    [`${'P4h-Q9'.repeat(5)}P4h`, /same 6 characters/],
    ['vQ9-hR7xLw2pZk3!'.repeat(2), /same 16 characters/],
    ['changeme', /8 bytes/],
    ['changeme-changeme-changeme-changeme', /placeholder/],
    ['CHANGEME0123456789abcdefXYZ!?%&/()=', /placeholder/],
    ['secret', /6 bytes/],
    ['secretsecretsecretsecretsecretsecret', /placeholder/],
    ['your-256-bit-secret', /19 bytes/],
    ['your-256-bit-secret-your-256-bit-secret', /placeholder/],
    ['a-string-secret-at-least-256-bits-long', /placeholder/],
    ['your-super-secret-jwt-token-with-at-least-32-characters-long', /placeholder/],
    ['please-replace-this-with-a-random-value', /placeholder/],
    ['my_development_secret_key_for_testing', /placeholder/],
    ['0123456789abcdef0123456789abcdef', /placeholder|repeats/],
    ['abcdefghijklmnopqrstuvwxyzABCDEFGHIJ', /in ascending or descending order/],
    ['zyxwvutsrqponmlkjihgfedcba9876543210', /in ascending or descending order/],
    ['xzzxxxzxzzzxzxxzzxzzxxxzzzxxzxzxzxzzzx', /too few different characters/],
    ['\ud800'.repeat(32), /surrogate/],
    ['-----BEGIN PUBLIC KEY-----', /PEM/],
  ] as const) {
    const weakness = weaknessOf(secret);
    assert.match(weakness ?? 'none', expected, secret);
    assert.ok(!weakness!.includes(secret));
  }
});

test('weaknessOf() reports nothing for random secrets, and Keyring.of() accepts a weak secret that is long enough', () => {
  for (let round = 0; round < 300; round++) {
    for (const secret of [
      randomBytes(32).toString('hex'),
      randomBytes(32).toString('base64'),
      randomBytes(32).toString('base64url'),
      randomBytes(16).toString('hex'),
      randomBytes(24).toString('base64'),
      randomBytes(40).toString('latin1'),
    ]) {
      assert.equal(weaknessOf(secret), undefined, secret);
    }
  }
  assert.equal(weaknessOf('correct horse battery staple, nine violins'), undefined);
  assert.equal(weaknessOf('a'.repeat(1_000_000)), 'repeats one character');
  assert.equal(Keyring.of('a'.repeat(32)).keys.length, 1); // svc check reports this secret
});

test('Keyring.of() uses all UTF-8 bytes of a secret as they are, and does not decode hexadecimal or base64', () => {
  const mac = (secret: string): string =>
    createHmac('sha256', Keyring.of(secret).current.key).update('x').digest('hex');
  for (const secret of [
    SECRET,
    'é'.repeat(16),
    '😀'.repeat(8),
    `${SECRET}\0tail`,
    ` ${SECRET} `,
    '0123456789abcdef'.repeat(4),
    'QUJDRA=='.repeat(8),
    'x'.repeat(10_000),
  ]) {
    assert.equal(mac(secret), createHmac('sha256', Buffer.from(secret, 'utf8')).update('x').digest('hex'));
    assert.equal(Keyring.of(secret).current.key.symmetricKeySize, Buffer.byteLength(secret));
  }
  assert.notEqual(mac('x'.repeat(10_000)), mac('x'.repeat(9_999)));
  // UTF-8 would replace the lone surrogate by U+FFFD
  assert.throws(() => Keyring.of('\ud800'.repeat(32)), { code: 'E_SECRET_FORM', message: /surrogate/ });
});

test('Keyring.of() refuses public keys and certificates in every format', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).publicKey;
  const forms: [string, RegExp][] = [
    [publicKey.export({ type: 'spki', format: 'pem' }) as string, /PEM/],
    [privateKey.export({ type: 'pkcs8', format: 'pem' }) as string, /PEM/],
    ['-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----', /PEM/],
    [JSON.stringify(publicKey.export({ format: 'jwk' })), /JSON Web Key/],
    ['{ "keys" : [] , "padding": "xxxxxxxxxxxxxxxxxxx" }', /JSON Web Key/],
    ['ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbcdefghijklmnop me@example', /SSH/],
    ['ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAI', /SSH/],
    [publicKey.export({ type: 'spki', format: 'der' }).toString('base64'), /DER/],
    [rsa.export({ type: 'spki', format: 'der' }).toString('base64'), /DER/],
    [rsa.export({ type: 'pkcs1', format: 'der' }).toString('base64url'), /DER/],
  ];
  for (const [secret, expected] of forms) {
    assert.throws(
      () => Keyring.of(secret),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_SECRET_FORM' &&
        expected.test(error.message) &&
        !error.message.includes(secret.slice(0, 24)),
    );
    assert.match(weaknessOf(secret)!, expected);
  }
  for (const fine of [
    '{"no":"key in here, though it begins with a brace"}',
    `M${'A'.repeat(99)}`,
    `MIIB${SECRET}${SECRET}${SECRET}`,
    `MIX${'B'.repeat(97)}`,
    `MYX${'B'.repeat(97)}`,
  ])
    assert.equal(Keyring.of(fine).keys.length, 1);
  assert.equal(
    Keyring.of(Buffer.concat([Buffer.from([0x30, 0x88]), Buffer.alloc(94, 7)]).toString('base64')).keys
      .length,
    1,
  ); // a DER length field of eight bytes does not occur in keys
});

test('the key ring from Keyring.of() has the first secret as its current key, and finds each key by its id', () => {
  const ring = Keyring.of([SECRET, OTHER]);
  assert.equal(ring.keys.length, 2);
  assert.equal(ring.current, ring.keys[0]);
  assert.equal(ring.current.id, Keyring.of(SECRET).current.id);
  assert.equal(ring.find(Keyring.of(OTHER).current.id), ring.keys[1]);
  for (const id of ['', 'unknown', '__proto__', 'constructor']) assert.equal(ring.find(id), undefined);
  assert.notEqual(ring.keys[0]!.id, ring.keys[1]!.id);
  assert.match(ring.current.id, /^[\w-]{12}$/);
  assert.throws(() => {
    (ring.keys as unknown[]).push(1);
  }, TypeError);
  assert.throws(() => {
    (ring.current as { id: string }).id = 'x';
  }, TypeError);
});

test('verifyToken() refuses a token after the secret that signed it was removed from the key ring', () => {
  const token = createToken('ada', [OTHER, SECRET]);
  assert.equal(verifyToken(token, [SECRET, OTHER]).sub, 'ada');
  assert.throws(() => verifyToken(token, [SECRET]), { name: 'InvalidToken' });
});

test('Keyring.of() returns a cached key ring for equal secrets, and caches a limited number of key rings', () => {
  assert.equal(Keyring.of(SECRET), Keyring.of(`${SECRET.slice(0, 5)}${SECRET.slice(5)}`));
  assert.equal(Keyring.of([SECRET, OTHER]), Keyring.of([SECRET, OTHER]));
  assert.notEqual(Keyring.of([SECRET, OTHER]), Keyring.of([OTHER, SECRET]));
  assert.equal(Keyring.of([SECRET, SECRET]).keys.length, 1);
  assert.notEqual(Keyring.of(JSON.stringify([SECRET, OTHER])), Keyring.of([SECRET, OTHER]));
  const before = Keyring.of(SECRET);
  for (let index = 0; index < 300; index++) Keyring.of(`${SECRET} ${index}`);
  assert.notEqual(Keyring.of(SECRET), before);
  assert.equal(Keyring.of(SECRET).current.id, before.current.id);
});

test('HKDF-SHA-256 gives the result in RFC 5869 for test case 1', () => {
  const output = hkdfSync(
    'sha256',
    Buffer.alloc(22, 0x0b),
    Buffer.from('000102030405060708090a0b0c', 'hex'),
    Buffer.from('f0f1f2f3f4f5f6f7f8f9', 'hex'),
    42,
  );
  assert.equal(
    Buffer.from(output).toString('hex'),
    '3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865',
  );
});

test('Keyring.derive() derives a key from each secret and a label by HKDF-SHA-256, and keeps the id of the original key', () => {
  const ring = Keyring.of([SECRET, OTHER]);
  const [cookie, csrf] = [ring.derive('svc cookie'), ring.derive('svc csrf')];
  assert.deepEqual(
    cookie.keys.map(({ id }) => id),
    ring.keys.map(({ id }) => id),
  );
  assert.deepEqual(
    cookie.current.key.export(),
    Buffer.from(hkdfSync('sha256', SECRET, '', 'svc cookie', 32)),
  );
  const keys = [ring, cookie, csrf].flatMap(({ keys }) =>
    keys.map(({ key }) => key.export().toString('hex')),
  );
  assert.equal(new Set(keys).size, 6);
  assert.equal(ring.derive('svc cookie'), cookie);
  for (let index = 0; index < 100; index++) ring.derive(`label ${index}`);
  assert.notEqual(ring.derive('svc cookie'), cookie); // evicted from the cache, and derived again
  assert.deepEqual(ring.derive('svc cookie').current.key.export(), cookie.current.key.export());
});

test('verifyToken() refuses a token signed with a derived key, and the id of a key reveals no part of a derived key', () => {
  const ring = Keyring.of(SECRET);
  const [header, claims] = createToken('ada', SECRET).split('.') as [string, string];
  const mac = createHmac('sha256', ring.derive('svc cookie').current.key)
    .update(`${header}.${claims}`)
    .digest('base64url');
  assert.throws(() => verifyToken(`${header}.${claims}.${mac}`, SECRET), { reason: 'signature' });
  const id = Buffer.from(ring.current.id, 'base64url').toString('hex');
  for (const label of ['', 'svc key id'])
    assert.doesNotMatch(ring.derive(label).current.key.export().toString('hex'), new RegExp(`^${id}`));
  assert.ok(!ring.current.key.export().toString('hex').includes(id));
});

test('if no secret is configured, authSecrets() throws an error that names the environment variable and shows no secret', () => {
  for (const config of [
    configOf({}),
    configOf({ SVC_AUTH_SECRET: '' }),
    configOf({ SVC_AUTH_SECRET: '', SVC_AUTH_SECRET_PREVIOUS: OTHER }),
    configOf({}, { authSecret: [] }),
    configOf({}, { authSecret: null }),
  ]) {
    assert.throws(
      () => authSecrets(config),
      (error) =>
        error instanceof SvcError &&
        error.code === 'E_SECRET_ABSENT' &&
        error.message.includes('SVC_AUTH_SECRET') &&
        !inspect(error).includes(OTHER),
    );
  }
});

test('authSecrets() returns the current secret or secrets, followed by the previous secret', () => {
  assert.equal(authSecrets(configOf({ SVC_AUTH_SECRET: SECRET })), SECRET);
  assert.equal(authSecrets(configOf({}, { authSecret: SECRET })), SECRET);
  assert.equal(authSecrets(configOf({ SVC_AUTH_SECRET: SECRET, SVC_AUTH_SECRET_PREVIOUS: '' })), SECRET);
  assert.equal(authSecrets(configOf({}, { authSecret: [SECRET] })), SECRET);
  assert.deepEqual(authSecrets(configOf({ SVC_AUTH_SECRET: SECRET, SVC_AUTH_SECRET_PREVIOUS: OTHER })), [
    SECRET,
    OTHER,
  ]);
  assert.deepEqual(authSecrets(configOf({}, { authSecret: [SECRET, OTHER], authSecretPrevious: 'x' })), [
    SECRET,
    OTHER,
    'x',
  ]);
  for (const wrong of [5, {}, [5], [SECRET, undefined]])
    assert.throws(() => authSecrets(configOf({}, { authSecret: wrong })), { code: 'E_SECRET_FORM' });
});

test('the source code creates token ids and password salts with randomBytes(), and never calls pseudoRandomBytes()', () => {
  const found = sources().flatMap(([file, text]) =>
    [...text.matchAll(/\brandomBytes\((\w+)\)/g)].map((match) => `${file} ${match[1]}`),
  );
  assert.ok(found.includes('crypto/jwt.ts ID_BYTES') && found.includes('crypto/password.ts SALT_BYTES'));
  for (const [file, text] of sources())
    assert.doesNotMatch(text, /\bpseudoRandomBytes\b|\bcrypto\.rng\b/, file);
});

test('the source code makes no secret from Math.random(), the time or a UUID', () => {
  for (const [file, text] of sources()) {
    if (!SPREAD.has(file))
      assert.doesNotMatch(
        text,
        /\bMath\.random\b/,
        `${file}: pauses and lifetimes are spread by it, nothing else`,
      );
    if (!READS_TIME.has(file)) assert.doesNotMatch(text, /\bDate\.now\(/, file);
    if (!NAMES_BY_UUID.has(file)) assert.doesNotMatch(text, /\brandomUUID\b/, file);
  }
});

/** The clock, and the runtime of generated clients, which compares the date in Retry-After. */
const READS_TIME: ReadonlySet<string> = new Set(['base/clock.ts', 'openapi/client/runtime.ts']);
/** Random delays between restarts and connection attempts, and random lifetimes of connections. */
const SPREAD: ReadonlySet<string> = new Set([
  'db/wire/backoff.ts',
  'db/wire/pool-settings.ts',
  'db/wire/pool.ts',
  'db/postgres/listener.ts',
  'db/redis/link.ts',
  'operations/workers.ts',
]);
/**
 * Names that need not be secret: boundaries, request ids, traces, leases, prepared statements, and the key
 * that marks messages between processes.
 */
const NAMES_BY_UUID: ReadonlySet<string> = new Set([
  'cli/inspect.ts',
  'db/postgres/runner.ts',
  'http/middleware/idempotency.ts',
  'http/files/body.ts',
  'http/request-id.ts',
]);

/** Returns the sources without their comments. */
function sources(): [file: string, text: string][] {
  const folder = join(ROOT, 'src');
  return (
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      // the starter is another project, and the rules of check name these functions
      .filter((name) => name.endsWith('.ts') && !/^(?:cli\/starter\/template|check)\//.test(name))
      .map((name) => [
        name.replaceAll('\\', '/'),
        readFileSync(join(folder, name), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, ''),
      ])
  );
}

test('inspect(), JSON.stringify() and String() of a Keyring show neither secrets nor key material', () => {
  const ring = Keyring.of([SECRET, OTHER]);
  const bytes = [SECRET, OTHER].flatMap((secret) => [
    secret,
    Buffer.from(secret).toString('hex'),
    Buffer.from(secret).toString('base64').slice(0, 20),
  ]);
  const printed = [
    inspect(ring),
    inspect(ring, { showHidden: true, depth: 20, getters: true }),
    JSON.stringify(ring),
    format('%o %O %j', ring, ring, ring),
    String(ring),
    JSON.stringify(ring.keys),
    inspect(ring.keys, { showHidden: true, depth: 20, getters: true }),
    JSON.stringify(structuredCloneable(ring)),
  ];
  for (const text of printed) for (const secret of bytes) assert.ok(!text.includes(secret), text);
});

function structuredCloneable(value: object): object {
  return { ...value };
}

test('Keyring computes different key ids for different secrets', () => {
  const random = seeded(7);
  const ids = Array.from(
    { length: 2_000 },
    () =>
      Keyring.of(Array.from({ length: 40 }, () => String.fromCharCode(33 + random(90))).join('')).current.id,
  );
  assert.equal(new Set(ids).size, 2_000);
});
