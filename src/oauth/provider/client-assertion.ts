/**
 * Client authentication by a signed assertion (RFC 7523 §2.2, OpenID Connect Core §9 `private_key_jwt`). The
 * provider knows only the public key.
 */
import { createPrivateKey, randomBytes } from 'node:crypto';
import { signedToken } from '../../crypto/jws.ts';
import { pemText } from '../../crypto/keys.ts';
import type { KeyObject } from 'node:crypto';

/** The private key by which a client authenticates. */
export interface ClientKey {
  /**
   * Private key in PEM (PKCS #8): RSA of 2,048 bits or more, P-256, or Ed25519. Read it from the environment
   * or a file. The text `\n` may stand for its line breaks.
   */
  readonly privateKey: string;
  /** Id of the public key, which the provider knows. */
  readonly keyId?: string | undefined;
}

type Algorithm = 'RS256' | 'ES256' | 'EdDSA';

const ASSERTION_TYPE = 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer';
const VALID_SECONDS = 60;
const MIN_RSA_BITS = 2_048;

/**
 * Returns the parameters that authenticate one token request, within a minute. A printed function does not
 * show the key.
 */
export type ClientAssertions = (
  clientId: string,
  audience: string,
  nowSeconds: number,
) => Readonly<Record<string, string>>;

/** Creates a signer of assertions. If the key cannot sign, returns the reason as text. */
export function clientAssertions({ privateKey, keyId }: ClientKey): ClientAssertions | string {
  let key: KeyObject;
  try {
    key = createPrivateKey(pemText(privateKey));
  } catch {
    // the error is not kept as `cause`, because its message may contain the key
    return 'the clientKey is not a private key in PEM';
  }
  const alg = algorithmOf(key);
  if (alg === undefined) return 'the clientKey is not RSA of 2,048 bits or more, P-256 or Ed25519';
  return (clientId, audience, nowSeconds) => {
    const claims = {
      iss: clientId,
      sub: clientId,
      aud: audience,
      jti: randomBytes(16).toString('base64url'),
      iat: nowSeconds,
      exp: nowSeconds + VALID_SECONDS,
    };
    return {
      client_assertion_type: ASSERTION_TYPE,
      client_assertion: signedToken(key, { alg, typ: 'JWT', kid: keyId }, claims),
    };
  };
}

function algorithmOf(key: KeyObject): Algorithm | undefined {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519') return 'EdDSA';
  if (type === 'ec') return details?.namedCurve === 'prime256v1' ? 'ES256' : undefined;
  return type === 'rsa' && (details?.modulusLength ?? 0) >= MIN_RSA_BITS ? 'RS256' : undefined;
}
