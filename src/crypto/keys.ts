/**
 * Derives keys from secrets. A keyring has a key for each secret: the first key signs, and all of them
 * verify. So a secret can be replaced while existing sessions stay valid.
 *
 * Each secret gives:
 * - the key for JWTs: the UTF-8 text of the secret, so that any HS256 library can verify the tokens
 * - one key for each other purpose, such as cookies, derived by HKDF-SHA-256 (RFC 5869)
 * - its public id: 9 bytes, also derived by HKDF-SHA-256
 *
 * A signature for one purpose is never valid for another, because their keys differ (RFC 8725 §3.11). A
 * secret that looks like hexadecimal or base64 is not decoded.
 */
import { createHmac, createSecretKey, hash, hkdfSync, randomBytes, timingSafeEqual } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import { isTextList, remember } from '../base/options.ts';
import type { KeyObject } from 'node:crypto';
import type { Config } from '../base/config.ts';

/**
 * One secret, or a list of secrets: the first signs, and all of them verify. Each secret needs at least 32
 * bytes in UTF-8.
 */
export type Secrets = string | readonly string[];

/** A key of a keyring, made from one secret. */
export interface RingKey {
  /** Public id of the secret. The secret cannot be computed from it. */
  readonly id: string;
  readonly key: KeyObject;
}

/** A secret must be at least as long as the MAC (RFC 7518 §3.2). */
const LEAST_SECRET_BYTES = 32;
/** Maximum number of secrets in a keyring. A token without a key id is verified with each secret in turn. */
const MOST_SECRETS = 16;
/** Maximum number of cached keyrings. A program has one keyring, or one for each tenant. */
const MOST_RINGS = 256;
/**
 * Maximum number of keyrings that derive() caches. Labels that a program computes at run time must not fill
 * the memory.
 */
const MOST_LABELS = 64;
const KEY_BYTES = 32;
const ID_BYTES = 9;
const rings = new Map<string, Keyring>();

/** Keys for signatures, made from a list of secrets. A printed keyring shows no keys or secrets. */
export class Keyring {
  readonly #keys: readonly RingKey[];
  readonly #byId: ReadonlyMap<string, RingKey>;
  readonly #derived = new Map<string, Keyring>();

  private constructor(keys: readonly RingKey[]) {
    this.#keys = Object.freeze(keys.map((key) => Object.freeze(key)));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  /**
   * Returns the keyring for one secret, or for a list of 1 ... 16 secrets. A repeated secret counts once.
   *
   * @throws SvcError `E_SECRET_WEAK` for a secret of fewer than 32 bytes; `E_SECRET_FORM` for a public key,
   *   certificate or JWK (RFC 8725 §2.1), for malformed text, and for a list that is empty or too long
   */
  static of(secrets: Secrets): Keyring {
    const list = typeof secrets === 'string' ? [secrets] : textsOf(secrets);
    const text = JSON.stringify(list);
    return rings.get(text) ?? remember(rings, MOST_RINGS, text, new Keyring(keysOf(list)));
  }

  get keys(): readonly RingKey[] {
    return this.#keys;
  }

  /** The current key, which creates signatures. */
  get current(): RingKey {
    return this.#keys[0]!; // a keyring has at least one key, because keysOf() refuses an empty list
  }

  find(id: string): RingKey | undefined {
    return this.#byId.get(id);
  }

  /** Returns whether this keyring and `other` have a key in common. */
  sharesWith(other: Keyring | undefined): boolean {
    return other !== undefined && this.#keys.some(({ id }) => other.find(id) !== undefined);
  }

  /**
   * Derives a keyring for one purpose, which `label` names, such as `'svc cookie'`. Its keys have the same
   * ids as the keys of this keyring.
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
 * Returns the secrets in the settings `authSecret` and `authSecretPrevious`, in this order. Each setting is a
 * string or a list of strings. An empty string counts as absent.
 *
 * @throws SvcError `E_SECRET_ABSENT` if no secret is set, `E_SECRET_FORM` for a setting that is not a string
 *   or a list of strings
 */
export function authSecrets(config: Config): Secrets {
  const current = listOf(config.get('authSecret', null));
  if (current.length === 0) throw new SvcError('E_SECRET_ABSENT', ['SVC_AUTH_SECRET is not set']);
  const all = [...current, ...listOf(config.get('authSecretPrevious', null))];
  return all.length === 1 ? all[0]! : all;
}

/** Returns whether the setting `authSecret` has a value. */
export function hasSecret(config: Config | undefined): config is Config {
  return listOf(config?.get('authSecret', null)).length > 0;
}

/** Returns the keyring of the application; without secrets, a random one. */
export function ringOf(config: Config | undefined): Keyring {
  return Keyring.of(hasSecret(config) ? authSecrets(config) : randomBytes(32).toString('hex'));
}

/**
 * Returns why a secret is weak; undefined if no weakness is found. The text does not contain the secret, so
 * that it can be logged.
 *
 * Makes the checks of {@link Keyring.of}. Also finds placeholders, repetitions, sequences such as `abcd`, and
 * too few different characters. These checks cannot prove that a secret is strong.
 */
export function weaknessOf(secret: string): string | undefined {
  const form = formOf(secret);
  if (form !== undefined) return `is ${form}`;
  const bytes = Buffer.byteLength(secret);
  if (bytes < LEAST_SECRET_BYTES) return `has ${bytes} bytes, but needs ${LEAST_SECRET_BYTES} or more`;
  if (withoutCommonWords(secret).length < LEAST_RANDOM_CHARACTERS)
    return 'is a placeholder, or consists of words such as "secret" and "example"';
  const period = periodOf(secret);
  if (period === 1) return 'repeats one character';
  if (period < secret.length) return `repeats the same ${period} characters`;
  if (risingPart(secret) > MOST_RISING)
    return 'consists mostly of characters in ascending or descending order';
  return entropyBits(secret) < LEAST_ENTROPY_BITS ? 'has too few different characters' : undefined;
}

function textsOf(secrets: unknown): readonly string[] {
  if (isTextList(secrets)) return secrets;
  throw new SvcError('E_SECRET_FORM', ['the secret must be a text or a list of texts']);
}

function keysOf(list: readonly string[]): RingKey[] {
  if (list.length === 0 || list.length > MOST_SECRETS)
    throw new SvcError('E_SECRET_FORM', [
      `the list has ${list.length} secrets, but must have 1 to ${MOST_SECRETS}`,
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

/** Compares the digests of two secrets in constant time, which reveals neither length nor content. */
export function isSameSecret(given: string, expected: string): boolean {
  return timingSafeEqual(hash('sha256', given, 'buffer'), hash('sha256', expected, 'buffer'));
}

function listOf(setting: unknown): readonly string[] {
  if (setting === undefined || setting === null || setting === '') return [];
  return textsOf(typeof setting === 'string' ? [setting] : setting);
}

// -- keys and certificates in other forms than a secret --

/**
 * Returns a PEM text whose line breaks are real ones. In environment variables they are often a backslash and
 * the letter n. PEM itself contains no backslash (RFC 7468 §3).
 */
export function pemText(text: string): string {
  return text.replace(/(?:\\+r)?\\+n/g, '\n');
}

/** Start of an SSH public key that is on one line. */
const SSH = /^\s*(?:ssh-|ecdsa-sha2-|sk-ssh-)/;
const DER_SEQUENCE = 0x30;
const LEAST_DER_BYTES = 64;

/** Returns why a text cannot be a secret, for example `an SSH key`. Undefined if it may be one. */
function formOf(secret: string): string | undefined {
  if (!secret.isWellFormed()) return 'text with half a surrogate pair, which UTF-8 cannot write';
  if (/-----BEGIN [^-]*-----/.test(secret)) return 'a PEM key or certificate';
  if (SSH.test(secret)) return 'an SSH key';
  if (/^\s*\{/.test(secret) && /"(?:kty|keys)"\s*:/.test(secret)) return 'a JSON Web Key';
  return isDer(secret) ? 'a key or certificate (DER in base64)' : undefined;
}

/** Returns whether a text is one ASN.1 sequence in base64, of the length that its header states. */
function isDer(secret: string): boolean {
  if (!/^M[A-Za-z0-9+/_\s-]+={0,2}\s*$/.test(secret)) return false;
  const bytes = Buffer.from(secret, 'base64');
  if (bytes.length < LEAST_DER_BYTES || bytes[0] !== DER_SEQUENCE) return false;
  // number of further bytes of the length; 0 if the first byte contains the length (X.690 §8.1.3)
  const sizes = bytes[1]! & 0x80 ? bytes[1]! & 0x7f : 0;
  if (sizes > 4) return false;
  const stated = sizes === 0 ? bytes[1]! : bytes.readUIntBE(2, sizes);
  return stated === bytes.length - 2 - sizes;
}

// -- weak secrets --

/**
 * Words that occur in placeholder secrets such as `change-me`. Longer words come first: `testing` before
 * `test`.
 */
const COMMON_WORDS =
  /placeholder|development|production|characters|character|session|default|example|replace|signing|testing|private|minimum|string|please|insert|random|secure|secret|cookie|should|change|longer|server|sample|admin|super|token|least|bytes|value|123456|0123456789|qwerty|pass|word|must|than|very|here|auth|long|bits|your|test|prod|demo|with|this|hs256|256|512|and|not|the|key|jwt|dev|for|bit|use|abc|foo|bar|baz|svc|app|my|me|at|in|is|be|of|to|do|32|64/g;
/** A secret needs this many characters besides the common words. */
const LEAST_RANDOM_CHARACTERS = 12;
/** Minimum entropy of a secret in bits. A text of 32 random hexadecimal digits has about 120. */
const LEAST_ENTROPY_BITS = 80;
/**
 * Maximum share of neighboring characters with equal or successive codes, such as `ab`. In random hexadecimal
 * digits, the share is about a fifth.
 */
const MOST_RISING = 0.7;

function withoutCommonWords(secret: string): string {
  return secret
    .toLowerCase()
    .replace(/[^a-z0-9\u0080-\uffff]/g, '')
    .replace(COMMON_WORDS, '');
}

/**
 * Returns the length of the shortest repeated block: 3 for `abcabca`. Returns the length of the text if no
 * block repeats.
 */
function periodOf(secret: string): number {
  for (let period = 1; period <= secret.length / 2; period++) {
    if (secret.startsWith(secret.slice(period))) return period;
  }
  return secret.length;
}

/** Returns the share of neighboring characters with equal or successive codes, such as `ab`. */
function risingPart(secret: string): number {
  let rising = 0;
  for (let index = 1; index < secret.length; index++) {
    if (Math.abs(secret.charCodeAt(index) - secret.charCodeAt(index - 1)) <= 1) rising++;
  }
  return rising / (secret.length - 1);
}

/** Estimates the entropy in bits from the frequency of characters (Shannon). */
function entropyBits(secret: string): number {
  const counts = new Map<string, number>();
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= count * Math.log2(count / secret.length);
  return bits;
}

/*
 * For a short text, HMAC-SHA-256 (RFC 2104) is computed by two calls of hash():
 *   inner = SHA-256(key ⊕ 3636... || text)
 *   mac = SHA-256(key ⊕ 5c5c... || inner)
 *
 * Two calls of hash() take 0.64 of the time of createHmac() (test/bench/parts.mjs --only='HS256 tokens'). The
 * inner hash is a binary string, because a Buffer would take longer.
 */

const BLOCK_BYTES = 64;
const HASH_BYTES = 32;
const INNER_PAD = 0x36;
const OUTER_PAD = 0x5c;
/**
 * Maximum length of a text that two calls of hash() authenticate. For a longer text, createHmac() is called.
 */
const MOST_CHARACTERS = 2_048;
// a UTF-16 unit takes at most three bytes in UTF-8
const room = Buffer.allocUnsafeSlow(BLOCK_BYTES + 3 * MOST_CHARACTERS);

/**
 * The key with each byte XOR 0x36 (`inner`) and XOR 0x5c (`outer`), as HMAC needs it (RFC 2104 §2). At its
 * end, `outer` has room for the inner hash.
 */
interface Blocks {
  readonly inner: Buffer;
  readonly outer: Buffer;
}

/** Blocks of each key. They are not members of RingKey, so that a printed key does not show them. */
const blocksOfKeys = new WeakMap<KeyObject, Blocks>();

/** Returns the HMAC-SHA-256 of a text in base64url: 43 characters. */
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

/** Returns the key, padded with zeros to `size` bytes, with each byte XOR `pad`. */
function padded(key: Uint8Array, pad: number, size: number): Buffer {
  // not from the shared pool of Node.js, because the block contains the key
  const block = Buffer.allocUnsafeSlow(size).fill(pad);
  for (let index = 0; index < key.length; index++) block[index]! ^= key[index]!;
  return block;
}
