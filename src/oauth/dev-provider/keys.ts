/**
 * The keys of DevProvider: one RSA and one EC pair, made when it starts, gone when it stops.
 */
import { generateKeyPair, randomBytes, sign } from 'node:crypto';
import { promisify } from 'node:util';
import type { JsonWebKey, KeyObject } from 'node:crypto';

const generate = promisify(generateKeyPair);

/** What DevProvider signs with. */
export type DevAlgorithm = 'RS256' | 'ES256';

interface SigningKey {
  readonly keyId: string;
  readonly privateKey: KeyObject;
  readonly publicJwk: JsonWebKey;
}

/** A JWK set and what signs for it. */
export class DevKeys {
  readonly #keys: Readonly<Record<DevAlgorithm, SigningKey>>;

  private constructor(keys: Readonly<Record<DevAlgorithm, SigningKey>>) {
    this.#keys = keys;
  }

  /** Makes both pairs, off the event loop. */
  static async make(): Promise<DevKeys> {
    const [rsa, ec] = await Promise.all([
      generate('rsa', { modulusLength: 2_048 }),
      generate('ec', { namedCurve: 'P-256' }),
    ]);
    return new DevKeys({ RS256: signingKey(rsa), ES256: signingKey(ec) });
  }

  /** The public halves (RFC 7517 §5). */
  get jwks(): { readonly keys: readonly Readonly<Record<string, unknown>>[] } {
    return {
      keys: Object.entries(this.#keys).map(([alg, { keyId, publicJwk }]) => ({
        ...publicJwk,
        kid: keyId,
        use: 'sig',
        alg,
      })),
    };
  }

  /** A compact JWS of these claims (RFC 7515 §7.1). */
  async sign(claims: Readonly<Record<string, unknown>>, algorithm: DevAlgorithm): Promise<string> {
    const { keyId, privateKey } = this.#keys[algorithm];
    const signed = [{ alg: algorithm, typ: 'JWT', kid: keyId }, claims]
      .map((part) => Buffer.from(JSON.stringify(part)).toString('base64url'))
      .join('.');
    const signature = await new Promise<Buffer>((resolve, reject) => {
      sign('sha256', Buffer.from(signed), { key: privateKey, dsaEncoding: 'ieee-p1363' }, (error, bytes) =>
        error === null ? resolve(bytes) : reject(error),
      );
    });
    return `${signed}.${signature.toString('base64url')}`;
  }
}

function signingKey({
  publicKey,
  privateKey,
}: {
  readonly publicKey: KeyObject;
  readonly privateKey: KeyObject;
}): SigningKey {
  return {
    keyId: randomBytes(8).toString('hex'),
    privateKey,
    publicJwk: publicKey.export({ format: 'jwk' }),
  };
}
