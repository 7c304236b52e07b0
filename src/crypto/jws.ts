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
import type { KeyObject } from 'node:crypto';
import type { JsonObject } from './jwt-json.ts';

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
 * Hash function of each algorithm (RFC 7518 §3.3 to §3.5). The hash function of `EdDSA` and `Ed25519` is used only
 * for `at_hash` (RFC 8037 §3.1).
 */
export const HASHES = {
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
  Ed25519: 'sha512',
} as const;
export type SignatureAlgorithm = Exclude<keyof typeof HASHES, 'HS256'>;
const SIGNATURE_BYTES: Partial<Record<SignatureAlgorithm, number>> = {
  ES256: 64,
  ES384: 96,
  ES512: 132,
  EdDSA: 64,
  Ed25519: 64,
};

/** Parses a token without verifying it. `parsed` has headers that are already parsed. */
export function openJws(
  token: string,
  maxCharacters: number,
  parsed?: ReadonlyMap<string, JsonObject>,
): OpenedJws | 'too_long' | 'segments' | 'base64url' | 'json' {
  if (token.length > maxCharacters) return 'too_long';
  const segments = token.split('.', 4);
  if (segments.length !== 3) return 'segments';
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
  { algorithm, signed, signature }: SignatureInput,
  { key, isCostly }: { readonly key: KeyObject; readonly isCostly: boolean },
): boolean | Promise<boolean> {
  if (signature.length !== (SIGNATURE_BYTES[algorithm] ?? signature.length)) return false;
  const digest = algorithm.startsWith('Ed') ? null : HASHES[algorithm]; // EdDSA has its own (RFC 8032 §5.1)
  const how = algorithm.startsWith('PS') ? { key, ...PSS } : key;
  const given = algorithm.startsWith('ES') ? derOf(signature) : signature;
  if (!isCostly) return verify(digest, signed, how, given);
  return new Promise((resolve) => {
    verify(digest, signed, how, given, (error, isValid) => resolve(error === null && isValid));
  });
}

const PSS = { padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: constants.RSA_PSS_SALTLEN_DIGEST };

/**
 * Converts an ECDSA signature to DER (RFC 3279 §2.2.3). With the option `dsaEncoding`, verify() would take a
 * third longer (test/bench/tokens.ts).
 */
function derOf(signature: Buffer): Buffer {
  const half = signature.length / 2;
  const numbers = [signature.subarray(0, half), signature.subarray(half)].flatMap(derInteger);
  const length = numbers.reduce((sum, part) => sum + part.length, 0);
  return Buffer.concat([Buffer.from(length > 0x7f ? [0x30, 0x81, length] : [0x30, length]), ...numbers]);
}

/** Returns the tag and length of an integer, and its bytes. */
function derInteger(number: Buffer): [head: Buffer, bytes: Buffer] {
  let start = 0;
  while (start < number.length - 1 && number[start] === 0) start++;
  const bytes = number.subarray(start);
  // the highest bit is the sign, so a zero precedes a number that has it
  return [Buffer.from(bytes[0]! > 0x7f ? [0x02, bytes.length + 1, 0] : [0x02, bytes.length]), bytes];
}

/** Signs claims as a compact JWS (RFC 7515 §7.1). */
export function signedToken(
  key: KeyObject,
  header: {
    readonly alg: 'RS256' | 'ES256' | 'EdDSA';
    readonly typ?: string;
    readonly kid: string | undefined;
  },
  claims: JsonObject,
): string {
  const signed = [header, claims].map((part) => segmentOf(JSON.stringify(part))).join('.');
  const signature = sign(header.alg === 'EdDSA' ? null : 'sha256', Buffer.from(signed), {
    key,
    dsaEncoding: 'ieee-p1363',
  });
  return `${signed}.${signature.toString('base64url')}`;
}
