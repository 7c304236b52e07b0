/** Keys of DevProvider: one RSA and one EC key pair, generated at the first use. */
import { generateKeyPair, randomBytes, verify } from 'node:crypto';
import { promisify } from 'node:util';
import { signedToken } from '../../crypto/jws.ts';
import type { KeyObject } from 'node:crypto';
import type { JsonObject } from '../../crypto/jwt-json.ts';

const generate = promisify(generateKeyPair);

export type DevAlgorithm = 'RS256' | 'ES256';

interface SigningKey {
  readonly keyId: string;
  readonly privateKey: KeyObject;
  readonly publicKey: KeyObject;
}

export class DevKeys {
  readonly #keys: Readonly<Record<DevAlgorithm, SigningKey>>;

  private constructor(keys: Readonly<Record<DevAlgorithm, SigningKey>>) {
    this.#keys = keys;
  }

  static async make(): Promise<DevKeys> {
    const [rsa, ec] = await Promise.all([
      generate('rsa', { modulusLength: 2_048 }),
      generate('ec', { namedCurve: 'P-256' }),
    ]);
    return new DevKeys({ RS256: signingKey(rsa), ES256: signingKey(ec) });
  }

  get jwks(): { readonly keys: readonly JsonObject[] } {
    return {
      keys: Object.entries(this.#keys).map(([alg, { keyId, publicKey }]) => ({
        ...publicKey.export({ format: 'jwk' }),
        kid: keyId,
        use: 'sig',
        alg,
      })),
    };
  }

  /** Signs claims as a compact JWS (RFC 7515 §7.1). */
  sign(claims: JsonObject, algorithm: DevAlgorithm): string {
    const { keyId, privateKey } = this.#keys[algorithm];
    return signedToken(privateKey, { alg: algorithm, typ: 'JWT', kid: keyId }, claims);
  }

  /**
   * Returns the claims of a compact JWS. Returns undefined unless one of these keys has signed it. Does not
   * check the expiry.
   */
  verify(token: string): JsonObject | undefined {
    const [header, claims, signature, ...rest] = token.split('.') as [string, string?, string?, ...string[]];
    if (claims === undefined || signature === undefined || rest.length > 0) return undefined;
    const signed = Buffer.from(`${header}.${claims}`);
    const isSigned = Object.values(this.#keys).some(({ publicKey: key }) =>
      verify('sha256', signed, { key, dsaEncoding: 'ieee-p1363' }, Buffer.from(signature, 'base64url')),
    );
    return isSigned ? (JSON.parse(Buffer.from(claims, 'base64url').toString()) as JsonObject) : undefined;
  }
}

function signingKey(pair: Omit<SigningKey, 'keyId'>): SigningKey {
  return { keyId: randomBytes(8).toString('hex'), ...pair };
}
