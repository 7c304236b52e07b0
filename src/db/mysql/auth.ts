/**
 * Authentication methods of MySQL and MariaDB. In the formulas, pw is the password, ⊕ is XOR, and || joins
 * bytes:
 *   mysql_native_password   SHA1(pw) ⊕ SHA1(nonce || SHA1(SHA1(pw)))
 *   caching_sha2_password   SHA256(pw) ⊕ SHA256(SHA256(SHA256(pw)) || nonce)
 *                           or the password itself, over TLS or encrypted with RSA
 *   parsec                  Ed25519 signature with a key that PBKDF2 derives from the password
 *
 * The replies of mysql_native_password and caching_sha2_password do not reveal the password. But an attacker
 * who has such a reply and the server's password hash can log in.
 */
import {
  constants,
  createHash,
  createPrivateKey,
  createPublicKey,
  pbkdf2,
  publicEncrypt,
  sign,
} from 'node:crypto';
import { promisify } from 'node:util';
import { ProtocolViolation } from '../errors.ts';

const derive = promisify(pbkdf2);

/** DER bytes before the 32-byte seed of an Ed25519 private key in PKCS #8 (RFC 8410 §7). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
/** Number of DER bytes before an Ed25519 public key (RFC 8410 §4). */
const SPKI_BYTES = 12;
const SEED_BYTES = 32;
/** Maximum factor for parsec, whose cost is 1024 · 2^factor rounds of PBKDF2. */
const MAX_PARSEC_FACTOR = 10;
const PARSEC_ROUNDS = 1024;
/** First byte of the salt for parsec: `P`, for PBKDF2. */
const PARSEC_KIND = 0x50;
const MIN_PARSEC_SALT_BYTES = 8;
/** Bytes of an RSA block that OAEP padding with SHA-1 takes. */
const OAEP_BYTES = 42;

function sha1(...parts: readonly (Uint8Array | string)[]): Buffer {
  return digest('sha1', parts);
}
function sha256(...parts: readonly (Uint8Array | string)[]): Buffer {
  return digest('sha256', parts);
}

function digest(algorithm: string, parts: readonly (Uint8Array | string)[]): Buffer {
  const hash = createHash(algorithm);
  for (const part of parts) hash.update(part);
  return hash.digest();
}

function xor(left: Uint8Array, right: Uint8Array): Buffer {
  // `right` is a hash or a nonce, so it is not empty
  return Buffer.from(left.map((byte, index) => byte ^ right[index % right.length]!));
}

/** Returns the client's reply for mysql_native_password. An empty password has an empty reply. */
export function nativePassword(password: string, nonce: Uint8Array): Buffer {
  if (password === '') return Buffer.alloc(0);
  const once = sha1(password);
  return xor(once, sha1(nonce, sha1(once)));
}

/** Returns the hash that the server stores for mysql_native_password: SHA1(SHA1(pw)). */
export function nativeHash(password: string): Buffer {
  return sha1(sha1(password));
}

/** Returns the client's first reply for caching_sha2_password. An empty password has an empty reply. */
export function cachingSha2Password(password: string, nonce: Uint8Array): Buffer {
  if (password === '') return Buffer.alloc(0);
  const once = sha256(password);
  return xor(once, sha256(sha256(once), nonce));
}

/** Encrypts the password and a NUL, XORed with the nonce, with the server's RSA key. */
export function encryptedPassword(password: string, nonce: Uint8Array, publicKey: string | Buffer): Buffer {
  const text = xor(Buffer.from(`${password}\0`), nonce);
  let key;
  try {
    key = createPublicKey(publicKey);
  } catch {
    throw new ProtocolViolation('the server sent an invalid public key');
  }
  if (key.asymmetricKeyType !== 'rsa')
    throw new ProtocolViolation('the server sent a public key that is not RSA');
  // an RSA key always has a modulus
  const most = Math.ceil(key.asymmetricKeyDetails!.modulusLength! / 8) - OAEP_BYTES;
  if (text.length > most)
    throw new RangeError(
      `the password has ${text.length - 1} bytes, but the RSA key of the server can encrypt only ${most - 1} bytes`,
    );
  return publicEncrypt({ key, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha1' }, text);
}

/** Parses the salt and the number of PBKDF2 rounds that the server sends for parsec. */
export function readParsecSalt(data: Uint8Array): { readonly salt: Uint8Array; readonly rounds: number } {
  if (data.length < 2 + MIN_PARSEC_SALT_BYTES || data[0] !== PARSEC_KIND)
    throw new ProtocolViolation('the server sent an invalid salt for the authentication method parsec');
  const factor = data[1]!; // exists: the length was checked
  if (factor > MAX_PARSEC_FACTOR)
    throw new ProtocolViolation(
      `the server requires too many PBKDF2 rounds for the authentication method parsec: the factor is ${factor}, and the limit is ${MAX_PARSEC_FACTOR}`,
    );
  return { salt: data.subarray(2), rounds: PARSEC_ROUNDS * 2 ** factor };
}

/**
 * Returns the client's reply for parsec: the client's nonce, and a signature of the nonces of server and
 * client. Also returns the public key that verifies the signature.
 */
export async function parsecAnswer(
  password: string,
  { salt, rounds }: ReturnType<typeof readParsecSalt>,
  serverNonce: Uint8Array,
  ourNonce: Uint8Array,
): Promise<{ readonly answer: Buffer; readonly publicKey: Buffer }> {
  const seed = await derive(password, salt, rounds, SEED_BYTES, 'sha512');
  const key = createPrivateKey({ key: Buffer.concat([PKCS8_PREFIX, seed]), format: 'der', type: 'pkcs8' });
  const answer = Buffer.concat([ourNonce, sign(null, Buffer.concat([serverNonce, ourNonce]), key)]);
  return {
    answer,
    publicKey: createPublicKey(key).export({ format: 'der', type: 'spki' }).subarray(SPKI_BYTES),
  };
}

/** Returns the proof for a self-signed certificate (MariaDB 11.4), which needs the password hash. */
export function certificateProof(
  passwordHash: Uint8Array,
  nonce: Uint8Array,
  fingerprint: Uint8Array,
): string {
  return sha256(passwordHash, nonce, fingerprint).toString('hex');
}
