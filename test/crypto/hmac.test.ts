import assert from 'node:assert/strict';
import { createHmac, createSecretKey, randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { hmacSha256 } from '../../src/crypto/keys.ts';

const vector = (key: Buffer, text: string): string =>
  Buffer.from(hmacSha256(createSecretKey(key), text), 'base64url').toString('hex');

test('hmacSha256() returns the values that RFC 4231 gives for its test cases with text data', () => {
  assert.equal(
    vector(Buffer.alloc(20, 0x0b), 'Hi There'),
    'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
  );
  assert.equal(
    vector(Buffer.from('Jefe'), 'what do ya want for nothing?'),
    '5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843',
  );
  assert.equal(
    vector(Buffer.alloc(131, 0xaa), 'Test Using Larger Than Block-Size Key - Hash Key First'),
    '60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54',
  );
  assert.equal(
    vector(
      Buffer.alloc(131, 0xaa),
      'This is a test using a larger than block-size key and a larger than block-size data. The key needs to be hashed before being used by the HMAC algorithm.',
    ),
    '9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2',
  );
});

test('hmacSha256() returns the same value as createHmac() for texts of many lengths and scripts, and for keys of many lengths', () => {
  const keys = [1, 31, 32, 63, 64, 65, 100, 128, 129].map((length) => createSecretKey(randomBytes(length)));
  for (const unit of ['a', 'é', '€', '😀', '\ud800', '\0', 'Aa09-_.']) {
    for (const length of [0, 1, 55, 56, 63, 64, 65, 1_000, 2_047, 2_048, 2_049, 20_000]) {
      const text = unit.repeat(length).slice(0, length);
      for (const key of keys)
        assert.equal(
          hmacSha256(key, text),
          createHmac('sha256', key).update(text).digest('base64url'),
          `${unit} × ${length}`,
        );
    }
  }
});
