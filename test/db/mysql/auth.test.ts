import assert from 'node:assert/strict';
import { constants, createPublicKey, generateKeyPairSync, privateDecrypt, verify } from 'node:crypto';
import { test } from 'node:test';
import {
  cachingSha2Password,
  certificateProof,
  encryptedPassword,
  nativeHash,
  nativePassword,
  parsecAnswer,
  readParsecSalt,
} from '../../../src/db/mysql/auth.ts';
import { ProtocolViolation } from '../../../src/db/errors.ts';

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
/** SPKI prefix of an Ed25519 public key (RFC 8410). */
const publicKeyOf = (bytes: Uint8Array) =>
  createPublicKey({
    key: Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), bytes]),
    format: 'der',
    type: 'spki',
  });

test('cachingSha2Password() returns the published results for the test vectors of other MySQL clients', () => {
  const nonce = Buffer.from([10, 47, 74, 111, 75, 73, 34, 48, 88, 76, 114, 74, 37, 13, 3, 80, 82, 2, 23, 21]);
  assert.equal(
    hex(cachingSha2Password('secret', nonce)),
    'f490e76f66d9d86665ce54d98c78d0acfe2fb0b08b423da807144873d30b312c',
  );
  assert.equal(
    hex(cachingSha2Password('secret2', nonce)),
    'abc3934a012cf342e876071c8ee202de51785b430258a7a0138bc79c4d800bc6',
  );
  assert.equal(cachingSha2Password('', nonce).length, 0);
});

test('nativePassword() returns a published test vector, and nativeHash() returns the hash that the SQL function PASSWORD() returns', () => {
  const nonce = Buffer.from('4e523348503a714959615f393d64623f53647b60', 'hex');
  assert.equal(hex(nativePassword('G!ider27', nonce)), '09cff8855e9e705340ff2270d8fb9fadba906b70');
  assert.equal(nativePassword('', nonce).length, 0);
  assert.equal(hex(nativeHash('secret')).toUpperCase(), '14E65567ABDB5135D0CFD9A70B3032C179A49EE7');
});

test('parsecAnswer() signs the nonces of server and client, and readParsecSalt() refuses a malformed salt and more than 2^20 rounds', async () => {
  const salt = Buffer.from('a salt of 18 bytes');
  const [server, ours] = [Buffer.alloc(32, 1), Buffer.alloc(32, 2)];
  const { answer, publicKey } = await parsecAnswer(
    'secret',
    readParsecSalt(Buffer.concat([Buffer.from([0x50, 0]), salt])),
    server,
    ours,
  );
  assert.deepEqual([answer.length, answer.subarray(0, 32)], [96, ours]);
  assert.ok(verify(null, Buffer.concat([server, ours]), publicKeyOf(publicKey), answer.subarray(32)));
  const other = await parsecAnswer(
    'secret',
    readParsecSalt(Buffer.concat([Buffer.from([0x50, 1]), salt])),
    server,
    ours,
  );
  assert.notDeepEqual(other.publicKey, publicKey);
  assert.deepEqual([readParsecSalt(Buffer.concat([Buffer.from([0x50, 10]), salt])).rounds], [1024 * 1024]);
  assert.deepEqual(readParsecSalt(Buffer.from([0x50, 1, ...salt.subarray(0, 8)])), {
    salt: salt.subarray(0, 8),
    rounds: 2048,
  });
  const short = [0x50, 1, ...salt.subarray(0, 7)];
  for (const wrong of [
    [],
    [0x50],
    [0x50, 0],
    short,
    [0x51, 0, ...salt],
    [0x50, 11, ...salt],
    [0x50, 255, ...salt],
  ])
    assert.throws(() => readParsecSalt(Buffer.from(wrong)), ProtocolViolation);
});

test('encryptedPassword() can be decrypted with the private RSA key, and refuses a password that is too long and an invalid key', () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', {
    modulusLength: 2048,
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  const nonce = Buffer.from('twenty bytes of them');
  for (const password of ['secret', 'grüße', 'x'.repeat(213)]) {
    const plain = privateDecrypt(
      { key: privateKey, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha1' },
      encryptedPassword(password, nonce, publicKey),
    );
    assert.equal(
      Buffer.from(plain.map((byte, index) => byte ^ nonce[index % nonce.length]!)).toString(),
      `${password}\0`,
    );
  }
  assert.throws(() => encryptedPassword('x'.repeat(214), nonce, publicKey), RangeError);
  const ec = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  });
  for (const wrong of ['', 'no key', ec.publicKey])
    assert.throws(() => encryptedPassword('secret', nonce, wrong), ProtocolViolation);
});

test('certificateProof() returns the value that MariaDB 11.8 sends as its proof of the password and the certificate', () => {
  const proof = certificateProof(Buffer.from('hash'), Buffer.from('nonce'), Buffer.alloc(32, 9));
  assert.match(proof, /^[\da-f]{64}$/);
  assert.notEqual(proof, certificateProof(Buffer.from('hash'), Buffer.from('nonce'), Buffer.alloc(32, 8)));
  // recorded from MariaDB 11.8
  assert.equal(
    certificateProof(
      Buffer.from('8e6fc3b9ecc6dece1fba19b0b61b30bf4864720f', 'hex'),
      Buffer.from('425979755f5e373a5b3c5b343342306b4a70767d', 'hex'),
      Buffer.from('e7943fa206689fa4940d30159cf8fec8ea7d5a86e6dc0f5dc2f6099befe03218', 'hex'),
    ).toUpperCase(),
    '02817C3D57FBC54F8248B6B818ED9B51651C96F8FC8A7C0577FA712F6B8872F8',
  );
});
