/**
 * Values that clients keep, such as sessions in cookies: signed, or sealed (encrypted and signed).
 *
 * Forms of a value. `kid` is the id of the secret key, `name` is the name of the cookie or record, and `length` is the
 * length of this name:
 *   signed   s1.kid.issued.expires.payload.mac
 *            mac = HMAC-SHA-256 (RFC 2104) over length:name.s1.kid.issued.expires.payload
 *   sealed   e1.kid.issued.expires.box
 *            box = IV (12 bytes), ciphertext, tag (16 bytes) of AES-256-GCM
 *            with the additional data length:name.e1.kid.issued.expires
 *
 * Binary parts are base64url without padding (RFC 4648 §5). Times are whole seconds since the epoch.
 *
 * Each purpose of values, such as sessions, has its own key. The MAC or tag also covers the name of the
 * cookie, or the key of the record in the store. So a value is invalid for another purpose, in another
 * cookie, and in another record.
 */
import { createCipheriv, createDecipheriv, randomBytes, timingSafeEqual } from 'node:crypto';
import { hmacSha256 } from './keys.ts';
import type { KeyObject } from 'node:crypto';
import type { Keyring } from './keys.ts';

/** `signed`: clients can read a value, but not change it. `sealed`: clients can do neither. */
type Protection = 'signed' | 'sealed';

/** Times of creation and expiry of a value, in seconds since the epoch. */
export interface ValueTimes {
  readonly issuedSeconds: number;
  readonly expiresSeconds: number;
}

/**
 * Reason for refusing a value. `forged`: its MAC or tag is wrong, because the value was changed, or made for
 * another cookie, purpose or application.
 */
export type ValueIssue = 'malformed' | 'unknown_key' | 'forged' | 'expired';

/** The content of a protected value, or the reason for refusing it. */
export type ReadValue =
  | {
      readonly kind: 'valid';
      readonly payload: string;
      readonly times: ValueTimes;
      /** Whether the value was protected with the current key, and not with an older one. */
      readonly isCurrentKey: boolean;
    }
  | { readonly kind: 'refused'; readonly reason: ValueIssue };

const HEAD = String.raw`\.([\w-]{1,64})\.(\d{1,12})\.(\d{1,12})\.`;
/** Prefix and pattern of each form. A pattern gives the id of the key, both times, the body, and the MAC of a signed value. */
const FORMS = {
  signed: { prefix: 's1', pattern: new RegExp(String.raw`^s1${HEAD}([\w-]*)\.([\w-]{43})$`) },
  sealed: { prefix: 'e1', pattern: new RegExp(String.raw`^e1${HEAD}([\w-]{38,})$`) },
} as const;

/**
 * Length in bytes of the initialization vector. With random vectors, one key may encrypt about 2^32 values
 * (NIST SP 800-38D §8.3). This is enough for 100 values a second for more than a year.
 */
const IV_BYTES = 12;
const TAG_BYTES = 16;
/** Maximum length of a value, in characters: browsers ignore longer cookies. */
const MAX_COOKIE_CHARACTERS = 4_096;

/** Protects values of one purpose, for example sessions, and verifies them. */
export class ProtectedValues {
  readonly #ring: Keyring;
  readonly #protection: Protection;
  readonly #maxCharacters: number;

  /**
   * `label`: purpose of the values. `maxCharacters`: maximum length of a protected value, default 4_096. A
   * longer value is refused as malformed.
   */
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

  /** Returns a protected value with this payload, for the cookie or record `name`. */
  write(name: string, payload: string, { issuedSeconds, expiresSeconds }: ValueTimes): string {
    const { id, key } = this.#ring.current;
    const head = `${FORMS[this.#protection].prefix}.${id}.${issuedSeconds}.${expiresSeconds}`;
    if (this.#protection === 'sealed') return `${head}.${seal(key, bound(name, head), payload)}`;
    const text = `${head}.${Buffer.from(payload).toString('base64url')}`;
    return `${text}.${hmacSha256(key, bound(name, text))}`;
  }

  /** Verifies and decodes a protected value of the cookie or record `name`. Never throws. */
  read(name: string, text: string, nowSeconds: number): ReadValue {
    const parts = text.length > this.#maxCharacters ? null : FORMS[this.#protection].pattern.exec(text);
    if (parts === null) return refused('malformed');
    const [, id = '', issued, expires, body = '', mac] = parts;
    const found = this.#ring.find(id);
    if (found === undefined) return refused('unknown_key');
    const payload =
      mac === undefined
        ? unseal(found.key, bound(name, text.slice(0, -body.length - 1)), body)
        : verified(found.key, bound(name, text.slice(0, -mac.length - 1)), body, mac);
    if (payload === undefined) return refused('forged');
    const times = { issuedSeconds: Number(issued), expiresSeconds: Number(expires) };
    if (nowSeconds >= times.expiresSeconds) return refused('expired');
    return { kind: 'valid', payload, times, isCurrentKey: id === this.#ring.current.id };
  }
}

function refused(reason: ValueIssue): ReadValue {
  return { kind: 'refused', reason };
}

/**
 * Returns the text that the MAC or tag covers. It starts with the length of `name`, so that two different
 * pairs of name and text never have equal results.
 */
function bound(name: string, text: string): string {
  return `${name.length}:${name}.${text}`;
}

function verified(key: KeyObject, text: string, body: string, given: string): string | undefined {
  // the MACs are compared as text, because base64url decoding ignores two bits of the last character
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
  // decoding ignores some bits of the last character, so several texts decode to the same bytes; only the
  // text that encoding produces is accepted
  if (box.toString('base64url') !== body) return undefined;
  const decipher = createDecipheriv('aes-256-gcm', key, box.subarray(0, IV_BYTES), {
    authTagLength: TAG_BYTES,
  });
  decipher.setAAD(Buffer.from(aad)).setAuthTag(box.subarray(-TAG_BYTES));
  try {
    return Buffer.concat([decipher.update(box.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()]).toString();
  } catch {
    return undefined; // final() throws if the value was changed, or was encrypted with another key
  }
}
