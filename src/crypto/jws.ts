/**
 * Compact JWS that are signed by asymmetric keys: reads, verifies and signs them (RFC 7515, RFC 7518, RFC
 * 8037).
 *
 *   token = base64url(header) "." base64url(payload) "." base64url(signature)
 *
 * Each segment must be canonical base64url, and header and payload must be JSON objects. An ECDSA signature
 * consists of two numbers of a fixed length, never of DER (RFC 7518 §3.4).
 */
import { constants, sign, verify } from 'node:crypto';
import { objectOf, segmentOf } from './jwt-json.ts';
import type { KeyObject, VerifyKeyObjectInput } from 'node:crypto';
import type { JsonObject } from './jwt-json.ts';

/** Signature algorithms of asymmetric keys (RFC 7518 §3.1, RFC 8037 §3.1). */
export type SignatureAlgorithm =
  'RS256' | 'RS384' | 'RS512' | 'PS256' | 'PS384' | 'PS512' | 'ES256' | 'ES384' | 'ES512' | 'EdDSA';

/** Input for the verification of a signature. */
export interface SignatureInput {
  readonly algorithm: SignatureAlgorithm;
  readonly signed: Buffer;
  readonly signature: Buffer;
}

/** A parsed JWS, whose signature is not verified. */
interface OpenedJws {
  /** The header in base64url. */
  readonly head: string;
  readonly header: JsonObject;
  readonly claims: JsonObject;
  readonly signed: Buffer;
  readonly signature: Buffer;
}

/**
 * Header members that change how a token must be read, such as critical extensions (RFC 7515 §4.1.11). None
 * of them is supported, so a token that has one is refused.
 */
export const UNSUPPORTED_HEADERS: readonly string[] = ['crit', 'b64', 'cty', 'zip', 'enc'];

/**
 * Hash function of each algorithm (RFC 7518 §3.3 to §3.5). The hash function of `EdDSA` is used only for
 * `at_hash` (RFC 8037 §3.1).
 */
export const HASHES: Readonly<Record<SignatureAlgorithm | 'HS256', string>> = {
  HS256: 'sha256',
  RS256: 'sha256',
  RS384: 'sha384',
  RS512: 'sha512',
  PS256: 'sha256',
  PS384: 'sha384',
  PS512: 'sha512',
  ES256: 'sha256',
  ES384: 'sha384',
  ES512: 'sha512',
  EdDSA: 'sha512',
};
const SIGNATURE_BYTES: Partial<Record<SignatureAlgorithm, number>> = {
  ES256: 64,
  ES384: 96,
  ES512: 132,
  EdDSA: 64,
};

/**
 * Parses a token, without verifying its signature. Returns the reason if it is malformed. `parsed` has headers
 * that are already parsed.
 */
export function openJws(
  token: string,
  maxCharacters: number,
  parsed?: ReadonlyMap<string, JsonObject>,
): OpenedJws | 'too_long' | 'segments' | 'base64url' | 'json' {
  if (token.length > maxCharacters) return 'too_long';
  const segments = token.split('.', 4);
  if (segments.length !== 3) return 'segments';
  // the cast is safe: there are three segments
  const [head, payload, tail] = segments as [string, string, string];
  const header = parsed?.get(head) ?? objectOf(head);
  const [claims, signature] = [objectOf(payload), Buffer.from(tail, 'base64url')];
  if (!isCanonical(tail, signature)) return 'base64url';
  if (header === undefined || claims === undefined)
    return [head, payload].every((part) => isCanonical(part, Buffer.from(part, 'base64url')))
      ? 'json'
      : 'base64url';
  // all segments are canonical base64url, so the text is ASCII
  return { head, header, claims, signed: Buffer.from(token.slice(0, -tail.length - 1), 'latin1'), signature };
}

function isCanonical(segment: string, bytes: Buffer): boolean {
  return segment !== '' && bytes.toString('base64url') === segment;
}

/**
 * Returns whether a key signed a text. A costly signature is verified in the thread pool. Any other takes less
 * time than a turn in the thread pool.
 */
export function isSignedBy(
  input: SignatureInput,
  { key, isCostly }: { readonly key: KeyObject; readonly isCostly: boolean },
): boolean | Promise<boolean> {
  const how = howToVerify(input, key);
  if (how === undefined) return false;
  const digest = digestOf(input);
  if (!isCostly) return verify(digest, input.signed, how, input.signature);
  return new Promise((resolve) => {
    verify(digest, input.signed, how, input.signature, (error, isValid) =>
      resolve(error === null && isValid),
    );
  });
}

/** Returns the digest of a signature. EdDSA has its own (RFC 8032 §5.1). */
function digestOf({ algorithm }: SignatureInput): string | null {
  return algorithm === 'EdDSA' ? null : HASHES[algorithm];
}

/**
 * Returns the arguments for verify(). Returns undefined for a signature of a wrong length, and for an ECDSA
 * signature with a zero: neither of its numbers may be zero (RFC 7518 §3.4).
 */
function howToVerify(
  { algorithm, signature }: SignatureInput,
  key: KeyObject,
): VerifyKeyObjectInput | undefined {
  const length = SIGNATURE_BYTES[algorithm] ?? signature.length;
  if (signature.length !== length) return undefined;
  if (algorithm.startsWith('PS'))
    return { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };
  if (!algorithm.startsWith('ES')) return { key };
  const numbers = [signature.subarray(0, length / 2), signature.subarray(length / 2)];
  return numbers.some((number) => number.every((byte) => byte === 0))
    ? undefined
    : { key, dsaEncoding: 'ieee-p1363' };
}

/** Signs claims as a compact JWS (RFC 7515 §7.1). */
export function signedToken(
  key: KeyObject,
  header: {
    readonly alg: 'RS256' | 'ES256' | 'EdDSA';
    readonly typ?: string;
    readonly kid: string | undefined;
  },
  claims: Readonly<Record<string, unknown>>,
): string {
  const signed = [header, claims].map((part) => segmentOf(JSON.stringify(part))).join('.');
  const signature = sign(header.alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), {
    key,
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}
