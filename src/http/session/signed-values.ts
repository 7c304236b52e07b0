/**
 * Values that others keep for us and hand back: signed, or sealed so that they cannot be read either.
 *
 *   signed   s1.kid.issued.expires.payload.mac   HMAC-SHA-256 (RFC 2104) over length:name.s1.kid.issued.expires.payload
 *   sealed   e1.kid.issued.expires.box           AES-256-GCM, box = IV:12 ciphertext tag:16; AAD = length:name.e1.kid.issued.expires
 *
 * Binary parts are base64url without padding (RFC 4648 §5), times whole seconds since the epoch: every character is a
 * cookie-octet. What a value is for decides the key (a label), where it is kept is authenticated with it (a name): a value
 * of one purpose, cookie or store key is worth nothing as another.
 */
import { createCipheriv, createDecipheriv, randomBytes, timingSafeEqual } from 'node:crypto';
import { hmacSha256 } from '../../crypto/keys.ts';
import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../../crypto/keys.ts';

/** `signed`: whoever holds it can read it, nobody can change it. `sealed`: nobody can read it either. */
export type Protection = 'signed' | 'sealed';

/** When a value was made and when it ends, in whole seconds since the epoch. */
export interface ValueTimes {
  readonly issuedSeconds: number;
  readonly expiresSeconds: number;
}

/** Why a value is refused. `forged`: changed, cut, of another name, purpose or application. */
export type ValueRefusal = 'malformed' | 'unknown_key' | 'forged' | 'expired';

/** What a value says, or why it says nothing. */
export type ReadValue =
  | {
      readonly kind: 'valid';
      readonly payload: string;
      readonly times: ValueTimes;
      /** Whether it would be written with the same key now. */ readonly isCurrentKey: boolean;
    }
  | { readonly kind: 'refused'; readonly reason: ValueRefusal };

const HEAD = String.raw`\.([\w-]{1,64})\.(\d{1,12})\.(\d{1,12})\.`;
const SIGNED = new RegExp(String.raw`^s1${HEAD}([\w-]*)\.([\w-]{43})$`);
const SEALED = new RegExp(String.raw`^e1${HEAD}([\w-]{38,})$`);

/** 96 bits (NIST SP 800-38D §8.2.2), random: one key may seal some 2^32 values, which at 100 a second is a year. */
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** A cookie has no room for more. */
const MAX_COOKIE_CHARACTERS = 4_096;

/** Writes and reads values of one purpose. */
export class ProtectedValues {
  readonly #ring: Keyring;
  readonly #protection: Protection;
  readonly #maxCharacters: number;

  /** `label` says what the values are for. Texts longer than `maxCharacters` (default 4_096) are malformed. */
  constructor(
    ring: Keyring,
    label: string,
    protection: Protection,
    maxCharacters: number = MAX_COOKIE_CHARACTERS,
  ) {
    this.#ring = ring.derive(`${label} ${protection}`);
    this.#protection = protection;
    this.#maxCharacters = maxCharacters;
  }

  /** The text of a payload, to be kept under `name`. */
  write(name: string, payload: string, { issuedSeconds, expiresSeconds }: ValueTimes): string {
    const { id, key } = this.#ring.current;
    const head = `${this.#protection === 'signed' ? 's1' : 'e1'}.${id}.${issuedSeconds}.${expiresSeconds}`;
    if (this.#protection === 'sealed') return `${head}.${seal(key, bound(name, head), payload)}`;
    const text = `${head}.${Buffer.from(payload).toString('base64url')}`;
    return `${text}.${hmacSha256(key, bound(name, text))}`;
  }

  /** What a text says that was kept under `name`. Never throws, whatever the text is. */
  read(name: string, text: string, nowSeconds: number): ReadValue {
    const parts =
      text.length > this.#maxCharacters ? null : (this.#protection === 'signed' ? SIGNED : SEALED).exec(text);
    if (parts === null) return refused('malformed');
    const [, id, issued, expires, body, given] = parts as unknown as [
      string,
      string,
      string,
      string,
      string,
      string | undefined,
    ]; // as the two patterns capture
    const found = this.#ring.find(id);
    if (found === undefined) return refused('unknown_key');
    const payload =
      given === undefined
        ? unseal(found.key, bound(name, text.slice(0, -body.length - 1)), body)
        : verified(found.key, bound(name, text.slice(0, -44)), body, given);
    if (payload === undefined) return refused('forged');
    const times = { issuedSeconds: Number(issued), expiresSeconds: Number(expires) };
    if (nowSeconds >= times.expiresSeconds) return refused('expired');
    return { kind: 'valid', payload, times, isCurrentKey: id === this.#ring.current.id };
  }
}

function refused(reason: ValueRefusal): ReadValue {
  return { kind: 'refused', reason };
}

/** The length tells where the name ends: no name and text make the same bytes as another pair. */
function bound(name: string, text: string): string {
  return `${name.length}:${name}.${text}`;
}

function verified(key: KeyObject, text: string, body: string, given: string): string | undefined {
  // as text, not as bytes: the last character has two bits that decoding would not look at
  return timingSafeEqual(Buffer.from(hmacSha256(key, text)), Buffer.from(given))
    ? Buffer.from(body, 'base64url').toString()
    : undefined;
}

function seal(key: KeyObject, aad: string, payload: string): string {
  const iv = randomBytes(IV_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, iv, { authTagLength: TAG_BYTES }).setAAD(
    Buffer.from(aad),
  );
  return Buffer.concat([iv, cipher.update(payload), cipher.final(), cipher.getAuthTag()]).toString(
    'base64url',
  );
}

function unseal(key: KeyObject, aad: string, body: string): string | undefined {
  const box = Buffer.from(body, 'base64url');
  if (box.toString('base64url') !== body) return undefined; // bits that decoding does not look at, or a length that none has
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(aad)).setAuthTag(box.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(box.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined; // the tag does not fit
  }
}
