/**
 * Derives keys from secrets. A keyring contains several secrets: the first signs, and all of them verify. So
 * a secret can be replaced while existing sessions stay valid.
 *
 * Keys that are made from one secret:
 * - Its UTF-8 bytes sign JWTs, so that any HS256 library can read them.
 * - HKDF-SHA-256 (RFC 5869) with a label derives one key for each other purpose: derive('svc cookie').
 * - HKDF-SHA-256 with the salt "svc key id" derives the public id of the secret, 9 bytes.
 *
 * Each purpose has its own key, so a signature for one purpose is never valid for another (RFC 8725 §3.11).
 * Secrets are used as they are: text that looks like hexadecimal or base64 is not decoded.
 */
import { createHmac, createSecretKey, hash, hkdfSync, randomBytes } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import type { KeyObject } from 'node:crypto';
import type { Config } from '../base/config.ts';

/**
 * One secret, or a list of secrets: the first signs, and all of them verify. Each secret has at least 32
 * bytes in UTF-8.
 */
export type Secrets = string | readonly string[];

/** A key of a keyring. Each key is made from one secret of the keyring. */
export interface RingKey {
  /** Public id of the secret. The secret cannot be computed from it. */
  readonly id: string;
  readonly key: KeyObject;
}

/** Minimum length of a secret in bytes: the length of the MAC (RFC 7518 §3.2). */
const LEAST_SECRET_BYTES = 32;
/**
 * Maximum number of secrets in a keyring. It is limited, because a token without a key id is verified with
 * one secret after another.
 */
const MOST_SECRETS = 16;
/**
 * Maximum number of cached keyrings. When there are more, the oldest is removed. A program has one keyring,
 * or one for each tenant.
 */
const MOST_RINGS = 256;
/**
 * Maximum number of cached derivations of a keyring. It is limited, because a program may compute labels at
 * run time.
 */
const MOST_LABELS = 64;
const KEY_BYTES = 32;
const ID_BYTES = 9;
/** Cached keyrings, by the JSON text of their secrets. */
const rings = new Map<string, Keyring>();

/** A keyring. Equal secrets share one keyring. If it is printed, the output contains no keys or secrets. */
export class Keyring {
  readonly #keys: readonly RingKey[];
  readonly #byId: ReadonlyMap<string, RingKey>;
  readonly #derived = new Map<string, Keyring>();

  private constructor(keys: readonly RingKey[]) {
    this.#keys = Object.freeze(keys.map((key) => Object.freeze(key)));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  /**
   * Returns the keyring of one secret, or of a list of 1 ... 16 secrets. A duplicate counts once.
   *
   * @throws SvcError `E_SECRET_WEAK` for fewer than 32 bytes; `E_SECRET_FORM` for a public key, certificate
   *   or JWK (RFC 8725 §2.1), for malformed text, and for a list that is empty or too long
   */
  static of(secrets: Secrets): Keyring {
    const list = typeof secrets === 'string' ? [secrets] : textsOf(secrets);
    const text = JSON.stringify(list);
    return rings.get(text) ?? remember(rings, MOST_RINGS, text, new Keyring(keysOf(list)));
  }

  /** The current key, then the previous keys in their original order. */
  get keys(): readonly RingKey[] {
    return this.#keys;
  }

  /** The current key, which signs. */
  get current(): RingKey {
    return this.#keys[0]!; // a keyring has at least one key, because keysOf() refuses an empty list
  }

  /** Returns the key with an id, or undefined. */
  find(id: string): RingKey | undefined {
    return this.#byId.get(id);
  }

  /** Returns whether the two keyrings have a key in common. */
  sharesWith(other: Keyring | undefined): boolean {
    return other !== undefined && this.#keys.some(({ id }) => other.find(id) !== undefined);
  }

  /**
   * Derives a keyring for one purpose. Its keys have 32 bytes, and the same ids as the keys of this keyring.
   * `label`: a constant of the program, such as `'svc cookie'`.
   */
  derive(label: string): Keyring {
    return (
      this.#derived.get(label) ??
      remember(
        this.#derived,
        MOST_LABELS,
        label,
        new Keyring(this.#keys.map(({ id, key }) => ({ id, key: hkdf(key, '', label, KEY_BYTES) }))),
      )
    );
  }
}

/**
 * Returns the secrets of an application: first those of the setting `authSecret`, then those of
 * `authSecretPrevious`. Each setting is a string; in code it may be a list. An empty string counts as absent.
 *
 * @throws SvcError `E_SECRET_ABSENT` without a secret, `E_SECRET_FORM` for a setting that is not a string or
 *   a list of strings
 */
export function authSecrets(config: Config): Secrets {
  const current = listOf(config.get('authSecret', null));
  if (current.length === 0) throw new SvcError('E_SECRET_ABSENT', ['SVC_AUTH_SECRET is not set']);
  const all = [...current, ...listOf(config.get('authSecretPrevious', null))];
  return all.length === 1 ? all[0]! : all;
}

/**
 * Returns the keyring of the application's secrets. An application without secrets gets a random keyring, so
 * no other process accepts values that it signs.
 */
export function ringOf(config: Config | undefined): Keyring {
  const hasSecret = listOf(config?.get('authSecret', null)).length > 0;
  // `config` is defined if `hasSecret` is true, because the secret was read from `config`
  return Keyring.of(hasSecret ? authSecrets(config!) : randomBytes(32).toString('hex'));
}

/**
 * Returns why a secret is weak. Undefined if no weakness is found. The text does not contain the secret. `svc
 * check` (SVC205) and warnings show it.
 *
 * In addition to the checks of {@link Keyring.of}, this function finds placeholders, repeated blocks,
 * ascending or descending characters, and too few different characters. No check can prove that a secret is
 * strong: only a random generator creates strong secrets.
 */
export function weaknessOf(secret: string): string | undefined {
  const form = formOf(secret);
  if (form !== undefined) return `is ${form}`;
  const bytes = Buffer.byteLength(secret);
  if (bytes < LEAST_SECRET_BYTES) return `has ${bytes} bytes, but needs ${LEAST_SECRET_BYTES} or more`;
  if (
    PLACEHOLDERS.some((word) => secret.toLowerCase().startsWith(word)) ||
    withoutCommonWords(secret).length < LEAST_RANDOM_CHARACTERS
  )
    return 'is a placeholder, or consists of words such as "secret" and "example"';
  const period = periodOf(secret);
  if (period === 1) return 'repeats one character';
  if (period < secret.length) return `repeats the same ${period} characters`;
  if (risingPart(secret) > MOST_RISING)
    return 'consists mostly of characters in ascending or descending order';
  return entropyBits(secret) < LEAST_ENTROPY_BITS ? 'has too few different characters' : undefined;
}

function textsOf(secrets: unknown): readonly string[] {
  if (Array.isArray(secrets) && secrets.every((secret) => typeof secret === 'string'))
    return secrets as string[];
  throw new SvcError('E_SECRET_FORM', ['the secret is neither text nor a list of texts']);
}

function keysOf(list: readonly string[]): RingKey[] {
  if (list.length === 0 || list.length > MOST_SECRETS)
    throw new SvcError('E_SECRET_FORM', [
      `the list has ${list.length} secrets, but 1 to ${MOST_SECRETS} are needed`,
    ]);
  return [...new Set(list)].map(keyOf);
}

function keyOf(secret: string): RingKey {
  const form = formOf(secret);
  if (form !== undefined) throw new SvcError('E_SECRET_FORM', [`it is ${form}`]);
  const bytes = Buffer.from(secret);
  if (bytes.length < LEAST_SECRET_BYTES)
    throw new SvcError('E_SECRET_WEAK', [bytes.length, LEAST_SECRET_BYTES]);
  const key = createSecretKey(bytes);
  return { id: hkdf(key, 'svc key id', '', ID_BYTES).export().toString('base64url'), key };
}

function hkdf(secret: KeyObject, salt: string, info: string, bytes: number): KeyObject {
  return createSecretKey(Buffer.from(hkdfSync('sha256', secret, salt, info, bytes)));
}

function remember<T>(kept: Map<string, T>, most: number, key: string, value: T): T {
  if (kept.size >= most) kept.delete(kept.keys().next().value!);
  kept.set(key, value);
  return value;
}

function listOf(setting: unknown): readonly string[] {
  if (setting === undefined || setting === null || setting === '') return [];
  return textsOf(typeof setting === 'string' ? [setting] : setting);
}

// -- public keys and certificates, which are not secrets --

/** Start of a public key in the one-line format of SSH. */
const SSH = /^\s*(?:ssh-|ecdsa-sha2-|sk-ssh-)/;
const DER_SEQUENCE = 0x30;
/** Minimum length of a public key or certificate in DER, in bytes. */
const LEAST_DER_BYTES = 64;

/** Returns which kind of key or certificate a text is. Undefined if the text may be a secret. */
function formOf(secret: string): string | undefined {
  if (!secret.isWellFormed()) return 'text with half a surrogate pair, which UTF-8 cannot write';
  if (/-----BEGIN [^-]*-----/.test(secret)) return 'a PEM key or certificate';
  if (SSH.test(secret)) return 'an SSH key';
  if (/^\s*\{/.test(secret) && /"(?:kty|keys)"\s*:/.test(secret)) return 'a JSON Web Key';
  return isDer(secret) ? 'a key or certificate (DER in base64)' : undefined;
}

/**
 * Returns whether a text is exactly one ASN.1 sequence in base64: the length in its header must be the number
 * of bytes after the header.
 */
function isDer(secret: string): boolean {
  if (!/^M[A-Za-z0-9+/_\s-]+={0,2}\s*$/.test(secret)) return false;
  const bytes = Buffer.from(secret, 'base64');
  if (bytes.length < LEAST_DER_BYTES || bytes[0] !== DER_SEQUENCE) return false;
  // number of bytes in a long length field; 0 if the length fits into the first byte (X.690 §8.1.3)
  const sizes = bytes[1]! & 0x80 ? bytes[1]! & 0x7f : 0;
  if (sizes > 4) return false;
  const stated = sizes === 0 ? bytes[1]! : bytes.readUIntBE(2, sizes);
  return stated === bytes.length - 2 - sizes;
}

// -- weak secrets --

const PLACEHOLDERS: readonly string[] = [
  'changeme',
  'change-me',
  'change_me',
  'change-this',
  'replace-me',
  'replaceme',
  'your-256-bit-secret',
  'your_secret',
  'yoursecret',
  'please-change',
  'secretsecret',
];
/**
 * Words that occur in placeholder secrets such as `change-me`. Longer words come first, because the first
 * match is removed from the text.
 */
const COMMON_WORDS =
  /placeholder|development|production|characters|character|session|default|example|replace|signing|testing|private|minimum|string|please|insert|random|secure|secret|cookie|should|change|longer|server|sample|admin|super|token|least|bytes|value|123456|0123456789|qwerty|pass|word|must|than|very|here|auth|long|bits|your|test|prod|demo|with|this|hs256|256|512|and|not|the|key|jwt|dev|for|bit|use|abc|foo|bar|baz|svc|app|my|me|at|in|is|be|of|to|do|32|64/g;
/** Minimum number of characters that must remain after the common words are removed. */
const LEAST_RANDOM_CHARACTERS = 12;
/**
 * Minimum entropy in bits. Text of 32 random hexadecimal digits has about 120; text of five different
 * characters has fewer than 80.
 */
const LEAST_ENTROPY_BITS = 80;
/**
 * Maximum share of characters whose code differs by at most one from the code of the previous character. In
 * 32 random hexadecimal digits, the share is about a fifth.
 */
const MOST_RISING = 0.7;

function withoutCommonWords(secret: string): string {
  return secret
    .toLowerCase()
    .replace(/[^a-z0-9\u0080-\uffff]/g, '')
    .replace(COMMON_WORDS, '');
}

/**
 * Returns the length of the shortest block whose repetition gives the whole text. The last repetition may be
 * incomplete. Returns the length of the text if no block repeats.
 */
function periodOf(secret: string): number {
  for (let period = 1; period <= secret.length / 2; period++) {
    if (secret.startsWith(secret.slice(period))) return period;
  }
  return secret.length;
}

/**
 * Returns the share of characters whose code differs by at most one from the code of the previous character.
 */
function risingPart(secret: string): number {
  let rising = 0;
  for (let index = 1; index < secret.length; index++) {
    if (Math.abs(secret.charCodeAt(index) - secret.charCodeAt(index - 1)) <= 1) rising++;
  }
  return rising / (secret.length - 1);
}

/**
 * Returns an upper limit for the entropy of a text in bits: Shannon's entropy of its single characters, added
 * up.
 */
function entropyBits(secret: string): number {
  const counts = new Map<string, number>();
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= count * Math.log2(count / secret.length);
  return bits;
}

/*
 * HMAC-SHA-256 of a short text (RFC 2104). It needs two calls of hash(), with prepared key blocks:
 *
 *   inner = SHA-256(key ⊕ 3636... || text)      mac = SHA-256(key ⊕ 5c5c... || inner)
 *
 * A block has 64 bytes. A longer key is hashed first. Two calls of hash() take 0.64 of the time of
 * createHmac(), which creates a stream and two native objects for each text
 * (test/bench/parts.mjs --only='HS256 tokens'). The inner hash is a string with one character for each byte,
 * because a Buffer would take longer.
 */

const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;
/**
 * Maximum length of the text in characters. Most tokens and cookies are shorter. For a longer text, the hash
 * itself takes most of the time.
 */
const MOST_CHARACTERS = 2_048;
// three bytes for each character, because a UTF-16 unit has at most three bytes in UTF-8
const room = Buffer.allocUnsafeSlow(BLOCK_BYTES + 3 * MOST_CHARACTERS);

/** Key XOR pad, for the inner and the outer hash of HMAC. The outer buffer has room for the inner hash. */
interface Blocks {
  readonly inner: Buffer;
  readonly outer: Buffer;
}

/**
 * Blocks of each key, computed once. They are in a map and not in the keyring, so that printing a keyring does
 * not reveal them.
 */
const blocksOfKeys = new WeakMap<KeyObject, Blocks>();

/** Returns the MAC of a text's UTF-8 bytes in base64url: 43 characters. */
export function hmacSha256(key: KeyObject, text: string): string {
  if (text.length > MOST_CHARACTERS) return createHmac('sha256', key).update(text).digest('base64url');
  const { inner, outer } = blocksOfKeys.get(key) ?? blocksOf(key);
  room.set(inner);
  const length = BLOCK_BYTES + room.write(text, BLOCK_BYTES);
  outer.write(hash('sha256', room.subarray(0, length), 'binary'), BLOCK_BYTES, 'binary');
  return hash('sha256', outer, 'base64url');
}

function blocksOf(key: KeyObject): Blocks {
  const given = key.export();
  const bytes = given.length > BLOCK_BYTES ? hash('sha256', given, 'buffer') : given;
  const blocks = {
    inner: padded(bytes, INNER_PAD, BLOCK_BYTES),
    outer: padded(bytes, OUTER_PAD, BLOCK_BYTES + HASH_BYTES),
  };
  given.fill(0); // overwrites the temporary copy of the key
  bytes.fill(0);
  blocksOfKeys.set(key, blocks);
  return blocks;
}

/** Returns a buffer that begins with the key XOR the pad. */
function padded(key: Uint8Array, pad: number, size: number): Buffer {
  // not from the pool of Node.js, whose memory other buffers share
  const block = Buffer.allocUnsafeSlow(size).fill(pad);
  for (let index = 0; index < key.length; index++) block[index]! ^= key[index]!;
  return block;
}
