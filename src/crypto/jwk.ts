/**
 * Public keys in JSON (JWK, RFC 7517): reads the keys of a set that may verify signatures, and selects those
 * that may have signed a token.
 *
 * A key states its own algorithms: by its type, its curve and its member `alg`. The header of a token only
 * chooses among them (RFC 8725 §3.1).
 */
import { createPublicKey, hash } from 'node:crypto';
import { isRecord, withoutNulls } from '../base/options.ts';
import { whenReady } from '../base/promises.ts';
import { isSignedBy } from './jws.ts';
import type { JsonWebKey, KeyObject } from 'node:crypto';
import type { SignatureAlgorithm, SignatureInput } from './jws.ts';
import type { JsonObject } from './jwt-json.ts';

/** Maximum number of keys that are read from a key set. */
const MAX_KEYS = 64;
const MIN_RSA_BITS = 2_048;
/** Maximum size of an RSA key in bits. Verification with a larger key takes milliseconds. */
const MAX_RSA_BITS = 8_192;

/** Maximum size of an RSA key whose signatures are verified outside the thread pool. */
const CHEAP_RSA_BITS = 4_096;
const COSTLY_CURVES: ReadonlySet<unknown> = new Set(['P-384', 'P-521']);
/** Maximum number of keys to try for a token without a key id, because a key set can be large. */
const MAX_TRIED = 8;

export interface VerificationKey {
  readonly key: KeyObject;
  readonly keyId: string | undefined;
  readonly algorithms: readonly SignatureAlgorithm[];
  /** True if the verification of a signature takes more than a quarter of a millisecond. */
  readonly isCostly: boolean;
  /**
   * Issuer whose tokens the key may sign. In a key set for many tenants, it is the member `issuer` of the
   * key.
   */
  readonly issuer: string | undefined;
}

export interface KeySet {
  readonly keys: readonly VerificationKey[];
  /** Key ids that occur more than once in the set. */
  readonly repeated: ReadonlySet<string>;
}

/** Parses the keys of a JWK set. Entries that cannot verify signatures are skipped (RFC 7517 §5). */
export function readKeySet(entries: readonly unknown[]): KeySet {
  const seen = new Set<string>();
  const repeated = new Set<string>();
  const keys: VerificationKey[] = [];
  for (const entry of entries.slice(0, MAX_KEYS)) {
    if (!isRecord(entry)) continue;
    const { kid } = entry;
    if (typeof kid === 'string') (seen.has(kid) ? repeated : seen).add(kid);
    const key = readKey(withoutNulls(entry));
    if (key !== undefined) keys.push(key);
  }
  return { keys, repeated };
}

/** A token whose signature is to be verified. */
export interface SignedToken extends SignatureInput {
  readonly keyId: string | undefined;
}

/**
 * Result of {@link findSigner}: a key signed the token, no key has its `kid`, the keys with its `kid` did not
 * sign it, or several keys have its `kid`.
 */
export type SignerResult = 'signed' | 'unknown' | 'other' | 'ambiguous';

/**
 * Searches for the key that signed a token. `isUsable` selects the keys that may sign tokens of its issuer.
 */
export function findSigner(
  token: SignedToken,
  set: KeySet,
  isUsable: (key: VerificationKey) => boolean,
): SignerResult | Promise<SignerResult> {
  const keys = chooseKeys(set, token.keyId, token.algorithm);
  if (keys === 'ambiguous') return keys;
  return whenReady(isSignedByAny(token, keys, isUsable, 0), (isSigned) =>
    isSigned ? 'signed' : token.keyId === undefined || keys.length === 0 ? 'unknown' : 'other',
  );
}

function isSignedByAny(
  token: SignedToken,
  keys: readonly VerificationKey[],
  isUsable: (key: VerificationKey) => boolean,
  from: number,
): boolean | Promise<boolean> {
  const key = from < MAX_TRIED ? keys[from] : undefined;
  if (key === undefined) return false;
  return whenReady(
    isUsable(key) && isSignedBy(token, key),
    (isSigned) => isSigned || isSignedByAny(token, keys, isUsable, from + 1),
  );
}

/**
 * Returns the keys that may have signed a token with this key id and algorithm. Without a key id, returns
 * all keys for the algorithm. Returns `ambiguous` if several keys have this id.
 */
export function chooseKeys(
  set: KeySet,
  keyId: string | undefined,
  algorithm: SignatureAlgorithm,
): readonly VerificationKey[] | 'ambiguous' {
  if (keyId !== undefined && set.repeated.has(keyId)) return 'ambiguous';
  return set.keys.filter(
    (each) => (keyId === undefined || each.keyId === keyId) && each.algorithms.includes(algorithm),
  );
}

/** Returns the thumbprint of a public key (RFC 7638): SHA-256 over its required members in a fixed order. */
export function thumbprintOf(key: KeyObject): string {
  const jwk: JsonWebKey = key.export({ format: 'jwk' });
  const { crv, e, kty, n, x, y } = jwk;
  // JSON.stringify() omits undefined members
  return hash('sha256', JSON.stringify({ crv, e, kty, n, x, y }), 'base64url');
}

/**
 * Converts a JWK to a key. Returns undefined if the JWK is invalid, too weak, of an unknown type, or not for
 * signatures.
 */
function readKey(jwk: JsonObject): VerificationKey | undefined {
  if (jwk['use'] !== undefined && jwk['use'] !== 'sig') return undefined;
  if (jwk['key_ops'] !== undefined && !(Array.isArray(jwk['key_ops']) && jwk['key_ops'].includes('verify')))
    return undefined;
  const kind = kindOf(jwk);
  if (kind === undefined) return undefined;
  const algorithms =
    jwk['alg'] === undefined ? kind.algorithms : kind.algorithms.filter((each) => each === jwk['alg']);
  const key = algorithms.length === 0 ? undefined : publicKey(jwk, kind.members);
  if (key === undefined || !isStrong(key)) return undefined;
  return {
    key,
    keyId: typeof jwk['kid'] === 'string' ? jwk['kid'] : undefined,
    algorithms,
    isCostly:
      COSTLY_CURVES.has(jwk['crv']) || (key.asymmetricKeyDetails?.modulusLength ?? 0) > CHEAP_RSA_BITS,
    issuer: typeof jwk['issuer'] === 'string' ? jwk['issuer'] : undefined,
  };
}

const CURVES: ReadonlyMap<unknown, SignatureAlgorithm> = new Map([
  ['P-256', 'ES256'],
  ['P-384', 'ES384'],
  ['P-521', 'ES512'],
]);

function kindOf(
  jwk: JsonObject,
): { readonly algorithms: readonly SignatureAlgorithm[]; readonly members: readonly string[] } | undefined {
  switch (jwk['kty']) {
    case 'RSA':
      return { algorithms: ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512'], members: ['n', 'e'] };
    case 'EC': {
      const algorithm = CURVES.get(jwk['crv']);
      return algorithm === undefined ? undefined : { algorithms: [algorithm], members: ['crv', 'x', 'y'] };
    }
    case 'OKP':
      return jwk['crv'] === 'Ed25519'
        ? { algorithms: ['EdDSA', 'Ed25519'], members: ['crv', 'x'] }
        : undefined;
    default:
      return undefined;
  }
}

/**
 * Returns the public key of a JWK, or undefined if the JWK is invalid. Ignores private members, which a key
 * set may contain by mistake.
 */
function publicKey(jwk: JsonObject, members: readonly string[]): KeyObject | undefined {
  const picked: Record<string, unknown> = { kty: jwk['kty'] };
  for (const name of members) picked[name] = jwk[name];
  try {
    return createPublicKey({ key: picked as JsonWebKey, format: 'jwk' });
  } catch {
    return undefined;
  }
}

function isStrong({ asymmetricKeyType, asymmetricKeyDetails: details }: KeyObject): boolean {
  if (asymmetricKeyType !== 'rsa') return true;
  const bits = details?.modulusLength ?? 0;
  const exponent = details?.publicExponent ?? 0n;
  return (
    bits >= MIN_RSA_BITS &&
    bits <= MAX_RSA_BITS &&
    exponent >= 3n &&
    exponent % 2n === 1n &&
    exponent < 2n ** 64n
  );
}
