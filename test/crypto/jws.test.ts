import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readKeySet } from '../../src/crypto/jwk.ts';
import { isSignedBy } from '../../src/crypto/jws.ts';

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
