/**
 * How MySQL and MariaDB are convinced of who logs in: pure functions, by the names of their plugins.
 *
 *   mysql_native_password   SHA1(pw) ⊕ SHA1(nonce || SHA1(SHA1(pw)))
 *   caching_sha2_password   SHA256(pw) ⊕ SHA256(SHA256(SHA256(pw)) || nonce)        else the password itself, see encryptedPassword()
 *   parsec                  Ed25519 by a key that PBKDF2 makes of the password
 *
 * Nobody who listens learns the password from the first two, but whoever has the hashes of a server can log in by them.
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

/** An Ed25519 private key in PKCS #8 (RFC 8410 §7), up to the 32 bytes of its seed; and a public one in SPKI (§4). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');
const SPKI_BYTES = 12;
const SEED_BYTES = 32;
/** 1024 · 2^n rounds of PBKDF2: n 0 is what MariaDB uses; beyond this a server only wants our processor. */
const MAX_PARSEC_FACTOR = 10;
const PARSEC_ROUNDS = 1024;
/** What OAEP with SHA-1 takes of each block. */
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
  return Buffer.from(left.map((byte, index) => byte ^ right[index % right.length]!)); // right has a byte
}

/** What mysql_native_password is answered. Nothing for an empty password. */
export function nativePassword(password: string, nonce: Uint8Array): Buffer {
  if (password === '') return Buffer.alloc(0);
  const once = sha1(password);
  return xor(once, sha1(nonce, sha1(once)));
}

/** What the server keeps of a password for mysql_native_password: SHA1(SHA1(pw)). */
export function nativeHash(password: string): Buffer {
  return sha1(sha1(password));
}

/** What caching_sha2_password is answered first; it may ask for more. Nothing for an empty password. */
export function cachingSha2Password(password: string, nonce: Uint8Array): Buffer {
  if (password === '') return Buffer.alloc(0);
  const once = sha256(password);
  return xor(once, sha256(sha256(once), nonce));
}

/**
 * The password for whoever has the key that is public: RSA-OAEP with SHA-1, of the password and a NUL, ⊕ nonce.
 *
 * @throws ProtocolViolation for what is no RSA key; RangeError for a password that is longer than the key can take
 */
export function encryptedPassword(password: string, nonce: Uint8Array, publicKey: string | Buffer): Buffer {
  const text = xor(Buffer.from(`${password}\0`), nonce);
  let key;
  try {
    key = createPublicKey(publicKey);
  } catch {
    throw new ProtocolViolation('a public key that is none');
  }
  if (key.asymmetricKeyType !== 'rsa') throw new ProtocolViolation('a public key that is not of RSA');
  const most = Math.ceil(key.asymmetricKeyDetails!.modulusLength! / 8) - OAEP_BYTES; // it is of RSA
  if (text.length > most)
    throw new RangeError(
      `a password of ${text.length - 1} bytes, where a key of this length takes ${most - 1}`,
    );
  return publicEncrypt({ key, padding: constants.RSA_PKCS1_OAEP_PADDING, oaepHash: 'sha1' }, text);
}

/** What parsec asks for: the salt, and how often PBKDF2 is run. @throws ProtocolViolation for what it does not know, or is too much */
export function readParsecSalt(data: Uint8Array): { readonly salt: Uint8Array; readonly rounds: number } {
  const [kind, factor = MAX_PARSEC_FACTOR + 1] = data;
  if (kind !== 0x50 || data.length < 2 + 8) throw new ProtocolViolation('a salt of parsec that is none');
  if (factor > MAX_PARSEC_FACTOR)
    throw new ProtocolViolation(`parsec with a factor of ${factor}, where ${MAX_PARSEC_FACTOR} is the most`);
  return { salt: data.subarray(2), rounds: PARSEC_ROUNDS * 2 ** factor };
}

/** What parsec is answered: our nonce, and both signed. And the key by which the server checks it. */
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

/**
 * What MariaDB proves by that the certificate is its own, where no authority has signed that (zero-configuration TLS, 11.4): it knows
 * what it keeps of the password, and nobody in between does. Hexadecimal, as in the OK that ends the log-in.
 */
export function certificateProof(
  passwordHash: Uint8Array,
  nonce: Uint8Array,
  fingerprint: Uint8Array,
): string {
  return sha256(passwordHash, nonce, fingerprint).toString('hex');
}
