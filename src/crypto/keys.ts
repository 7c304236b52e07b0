/**
 * Converts secrets to keys. In a ring of secrets the first one signs, and all are accepted. So a secret can
 * be replaced without ending every session.
 *
 * Keys derived from a secret:
 *   secret, UTF-8 bytes -┬- unchanged                                    signs JWTs, so that any HS256 library can read them
 *                        +- HKDF-SHA-256 (RFC 5869), info = label ------> one key for each other purpose: derive('svc cookie')
 *                        \- HKDF-SHA-256, salt = "svc key id", 9 bytes -> the public name of the secret, `kid`
 *
 * So a signature for one purpose is never valid for another (RFC 8725 §3.11). A secret that looks like
 * hexadecimal or base64 is not decoded. Secrets are used in full length.
 */
import { createHmac, createSecretKey, hkdfSync, randomBytes } from 'node:crypto';
import { SvcError } from '../base/errors.ts';
import type { KeyObject } from 'node:crypto';
import type { Config } from '../base/config.ts';

/** One secret, or several: the first signs, all are accepted. Each has at least 32 bytes in UTF-8. */
export type Secrets = string | readonly string[];

/** One secret of a ring, as a key. */
export interface RingKey {
  /** Public id of the secret, derived by a one-way function. */
  readonly id: string;
  readonly key: KeyObject;
}

/** Minimum length by RFC 7518 §3.2: a key at least as long as the hash output. */
const LEAST_SECRET_BYTES = 32;
/** Maximum number of secrets: a token without a key id is tried with each. */
const MOST_SECRETS = 16;
/** Maximum number of cached rings. A program has one, or one for each tenant. The oldest is evicted. */
const MOST_RINGS = 256;
/**
 * Maximum number of cached derivations. A program uses few labels; computed labels must not fill the memory.
 */
const MOST_LABELS = 64;
const KEY_BYTES = 32;
const ID_BYTES = 9;
/** Cached rings by the JSON text of their secrets. */
const rings = new Map<string, Keyring>();

/** Keys made from secrets; equal secrets share a ring. Printing a ring shows neither keys nor secrets. */
export class Keyring {
  readonly #keys: readonly RingKey[];
  readonly #byId: ReadonlyMap<string, RingKey>;
  readonly #derived = new Map<string, Keyring>();

  private constructor(keys: readonly RingKey[]) {
    this.#keys = Object.freeze(keys.map((key) => Object.freeze(key)));
    this.#byId = new Map(keys.map((key) => [key.id, key]));
  }

  /**
   * Returns the ring of one secret, or of a list of 1 ... 16 secrets. Duplicates count once.
   *
   * @throws SvcError `E_SECRET_WEAK` below 32 bytes; `E_SECRET_FORM` for a public key, certificate or JWK
   * (RFC 8725 §2.1), for malformed text, and for an empty or too long list
   */
  static of(secrets: Secrets): Keyring {
    const list = typeof secrets === 'string' ? [secrets] : textsOf(secrets);
    const text = JSON.stringify(list);
    return rings.get(text) ?? remember(rings, MOST_RINGS, text, new Keyring(keysOf(list)));
  }

  /** The current key, then the previous keys, in the given order. */
  get keys(): readonly RingKey[] {
    return this.#keys;
  }

  /** The current key, which signs. */
  get current(): RingKey {
    return this.#keys[0]!; // keysOf() refuses an empty list
  }

  /** Returns the key with an id, or undefined. */
  find(id: string): RingKey | undefined {
    return this.#byId.get(id);
  }

  /** Whether the rings have a key in common. */
  sharesWith(other: Keyring | undefined): boolean {
    return other !== undefined && this.#keys.some(({ id }) => other.find(id) !== undefined);
  }

  /**
   * Derives keys of 32 bytes for one purpose, with the same ids. Labels are constants of the program, such as
   * `'svc cookie'`.
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
 * Returns the secrets of an application: the setting `authSecret` (a string, or a list in code), then
 * `authSecretPrevious`. An empty string counts as absent.
 *
 * @throws SvcError `E_SECRET_ABSENT` without a secret, `E_SECRET_FORM` for a setting that is neither a string
 * nor a list of strings
 */
export function authSecrets(config: Config): Secrets {
  const current = listOf(config.get('authSecret', null));
  if (current.length === 0) throw new SvcError('E_SECRET_ABSENT', ['SVC_AUTH_SECRET is not set']);
  const all = [...current, ...listOf(config.get('authSecretPrevious', null))];
  return all.length === 1 ? all[0]! : all;
}

/**
 * Returns the ring of the application's secrets. Without secrets it has a random one, so that only this
 * process can read its values.
 */
export function ringOf(config: Config | undefined): Keyring {
  const hasSecret = listOf(config?.get('authSecret', null)).length > 0;
  return Keyring.of(hasSecret ? authSecrets(config!) : randomBytes(32).toString('hex')); // config has a secret
}

/**
 * Returns why a secret is weak, or undefined, without repeating the secret. `svc check` (SVC205) and warnings
 * use it. Beyond the checks of {@link Keyring.of} it finds repeated blocks, counting characters, few
 * different characters, and placeholders. It cannot prove strength: only a random generator gives a strong
 * secret.
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
    return 'is a placeholder, or consists of words of placeholders';
  const period = periodOf(secret);
  if (period === 1) return 'repeats one character';
  if (period < secret.length) return `repeats the same ${period} characters`;
  if (risingPart(secret) > MOST_RISING)
    return 'consists mostly of characters in ascending or descending order';
  return entropyBits(secret) < LEAST_ENTROPY_BITS ? 'has too few different characters' : undefined;
}

// -- rings --

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

/** Adds an entry to a cache. Removes the oldest entry if there are `most` already. */
function remember<T>(kept: Map<string, T>, most: number, key: string, value: T): T {
  if (kept.size >= most) kept.delete(kept.keys().next().value!);
  kept.set(key, value);
  return value;
}

function listOf(setting: unknown): readonly string[] {
  if (setting === undefined || setting === null || setting === '') return [];
  return textsOf(typeof setting === 'string' ? [setting] : setting);
}

// -- texts that are not shared secrets --

/** Matches a public key in SSH's one-line format. */
const SSH = /^\s*(?:ssh-|ecdsa-sha2-|sk-ssh-)/;
const DER_SEQUENCE = 0x30;
/** Minimum length of a public key or certificate in base64. */
const LEAST_DER_BYTES = 64;

/** Returns the kind of a text that cannot be a secret, such as a public key, or undefined. */
function formOf(secret: string): string | undefined {
  if (!secret.isWellFormed()) return 'text with half a surrogate pair, which UTF-8 cannot write';
  if (/-----BEGIN [^-]*-----/.test(secret)) return 'a PEM key or certificate';
  if (SSH.test(secret)) return 'an SSH key';
  if (/^\s*\{/.test(secret) && /"(?:kty|keys)"\s*:/.test(secret)) return 'a JSON Web Key';
  return isDer(secret) ? 'a key or certificate (DER in base64)' : undefined;
}

/** Whether the whole text is one ASN.1 sequence in base64, by its encoded length. */
function isDer(secret: string): boolean {
  if (!/^M[A-Za-z0-9+/_\s-]+={0,2}\s*$/.test(secret)) return false;
  const bytes = Buffer.from(secret, 'base64');
  if (bytes.length < LEAST_DER_BYTES || bytes[0] !== DER_SEQUENCE) return false;
  // number of bytes that encode the length (X.690 §8.1.3)
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
/** Words of placeholders, longest first, because the first match is removed. */
const COMMON_WORDS =
  /placeholder|development|production|characters|character|session|default|example|replace|signing|testing|private|minimum|string|please|insert|random|secure|secret|cookie|should|change|longer|server|sample|admin|super|token|least|bytes|value|123456|0123456789|qwerty|pass|word|must|than|very|here|auth|long|bits|your|test|prod|demo|with|this|hs256|256|512|and|not|the|key|jwt|dev|for|bit|use|abc|foo|bar|baz|svc|app|my|me|at|in|is|be|of|to|do|32|64/g;
/** Minimum number of characters that remain after common words are removed. */
const LEAST_RANDOM_CHARACTERS = 12;
/**
 * Minimum entropy in bits. 32 random hexadecimal digits are far above it; five different characters are
 * below.
 */
const LEAST_ENTROPY_BITS = 80;
/**
 * Maximum share of counting characters. In 32 random hexadecimal digits about a fifth differ by one from
 * their neighbour.
 */
const MOST_RISING = 0.7;

function withoutCommonWords(secret: string): string {
  return secret
    .toLowerCase()
    .replace(/[^a-z0-9\u0080-\uffff]/g, '')
    .replace(COMMON_WORDS, '');
}

/**
 * Returns the length of the shortest block whose repetition gives the text, or the text's length. The last
 * block may be incomplete.
 */
function periodOf(secret: string): number {
  for (let period = 1; period <= secret.length / 2; period++) {
    if (secret.startsWith(secret.slice(period))) return period;
  }
  return secret.length;
}

/** Returns the share of characters that differ by one from the character before. */
function risingPart(secret: string): number {
  let rising = 0;
  for (let index = 1; index < secret.length; index++) {
    if (Math.abs(secret.charCodeAt(index) - secret.charCodeAt(index - 1)) <= 1) rising++;
  }
  return rising / (secret.length - 1);
}

/** Returns Shannon's entropy of the single characters, which is an upper limit of the text's entropy. */
function entropyBits(secret: string): number {
  const counts = new Map<string, number>();
  for (const character of secret) counts.set(character, (counts.get(character) ?? 0) + 1);
  let bits = 0;
  for (const count of counts.values()) bits -= count * Math.log2(count / secret.length);
  return bits;
}

/** Returns the HMAC-SHA-256 (RFC 2104) of a text's UTF-8 bytes in base64url: 43 characters. */
export function hmacSha256(key: KeyObject, text: string): string {
  return createHmac('sha256', key).update(text).digest('base64url');
}
