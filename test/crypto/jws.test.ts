import assert from 'node:assert/strict';
import { sign } from 'node:crypto';
import { test } from 'node:test';
import { readKeySet } from '../../src/crypto/jwk.ts';
import { isSignedBy } from '../../src/crypto/jws.ts';
import { EC, EC384, EC521, jwk } from '../oauth/support/fake-provider.ts';

test('isSignedBy() accepts the example signature of RFC 7515 §A.4 (ES512)', async () => {
  const [key] = readKeySet([
    {
      kty: 'EC',
      crv: 'P-521',
      x: 'AekpBQ8ST8a8VcfVOTNl353vSrDCLLJXmPk06wTjxrrjcBpXp5EOnYG_NjFZ6OvLFV1jSfS9tsz4qUxcWceqwQGk',
      y: 'ADSmRA43Z1DSNx_RvcLI87cdL07l6jQyyBXMoxVg_l2Th-x3S1WDhjDly79ajL4Kkd0AZMaZmh9ubmf63e3kyMj2',
    },
  ]).keys;
  const signature = Buffer.from(
    'AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZqwqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8KpEHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn',
    'base64url',
  );
  const parts = {
    algorithm: 'ES512' as const,
    signed: Buffer.from('eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA'),
    signature,
  };
  assert.equal(await isSignedBy(parts, key!), true);
  for (const at of [0, 65, 66, 131])
    assert.equal(
      await isSignedBy(
        {
          ...parts,
          signature: Buffer.from(signature.map((byte, index) => (index === at ? byte ^ 1 : byte))),
        },
        key!,
      ),
      false,
    );
});

test('isSignedBy() accepts ECDSA signatures whose numbers begin with zeros or with a set bit', async () => {
  for (const [algorithm, digest, pair] of [
    ['ES256', 'sha256', EC],
    ['ES384', 'sha384', EC384],
    ['ES512', 'sha512', EC521],
  ] as const) {
    const [key] = readKeySet([jwk(pair.publicKey)]).keys;
    const seen = new Set<string>();
    for (let n = 0; !['zero 0', 'zero 1', 'high 0', 'high 1'].every((kind) => seen.has(kind)); n++) {
      const signed = Buffer.from(String(n));
      const signature = sign(digest, signed, { key: pair.privateKey, dsaEncoding: 'ieee-p1363' });
      assert.equal(await isSignedBy({ algorithm, signed, signature }, key!), true);
      const half = signature.length / 2;
      for (const number of [0, 1]) {
        const bytes = signature.subarray(number * half).subarray(0, half);
        const first = bytes.find((byte) => byte !== 0)!;
        if (bytes[0] === 0) seen.add(`zero ${number}`);
        if (first > 0x7f) seen.add(`high ${number}`);
      }
    }
    for (const zeros of [[0, 1], [0], [1]]) {
      const signature = sign(digest, Buffer.alloc(0), { key: pair.privateKey, dsaEncoding: 'ieee-p1363' });
      for (const number of zeros) signature.fill(0, (number * signature.length) / 2, ((number + 1) * signature.length) / 2); // prettier-ignore
      assert.equal(await isSignedBy({ algorithm, signed: Buffer.alloc(0), signature }, key!), false);
    }
  }
});
