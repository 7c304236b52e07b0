/**
 * Creates and parses the text of refresh tokens: `svcrt_1<kid>.<fid>.<gen>.<secret>.<tag>`
 * - kid: id of the key that created the tag
 * - fid: id of the login, 16 random bytes
 * - gen: number of rotations
 * - secret: 32 bytes, random in the first token. Each later secret is an HMAC of the previous secret, so that
 *   overlapping requests derive the same token.
 * - tag: 16 bytes of an HMAC of fid, gen and secret. It proves without a database query that a token is not
 *   forged.
 *
 * Scanners for leaked secrets recognize the prefix `svcrt_1`.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../../crypto/keys.ts';

export interface RefreshToken {
  readonly id: string;
  readonly generation: number;
  readonly secret: Buffer;
}

const PREFIX = 'svcrt_1';
const MAX_LENGTH = 200;
const SECRET_BYTES = 32;
const TAG_BYTES = 16;
const PATTERN = /^svcrt_1([\w-]{1,32})\.([\w-]{22})\.(0|[1-9]\d{0,15})\.([\w-]{43})\.([\w-]{22})$/;

export class RefreshTokenCodec {
  readonly #tags: Keyring;
  readonly #chain: Keyring;

  constructor(ring: Keyring) {
    this.#tags = ring.derive('svc-oauth-refresh-tag');
    this.#chain = ring.derive('svc-oauth-refresh-chain');
  }

  first(): RefreshToken {
    return { id: randomBytes(16).toString('base64url'), generation: 0, secret: randomBytes(SECRET_BYTES) };
  }

  /** Derives the next refresh token of a login, with the current key. */
  next(token: RefreshToken): RefreshToken {
    return this.#successor(token, this.#chain.current.key);
  }

  /**
   * Derives the next refresh token of a login with each key of the keyring, because the key may have been
   * replaced since the rotation. Returns the token whose hash is `storedHash`, or undefined.
   */
  nextThatHas(storedHash: string, token: RefreshToken): RefreshToken | undefined {
    return this.#chain.keys
      .map(({ key }) => this.#successor(token, key))
      .find((next) => hashOf(next) === storedHash);
  }

  /** Returns the text of a token, for the client. */
  format(token: RefreshToken): string {
    const { id, key } = this.#tags.current;
    return `${PREFIX}${id}.${token.id}.${token.generation}.${token.secret.toString('base64url')}.${tagOf(token, key).toString('base64url')}`;
  }

  /**
   * Parses the text of a token. Returns undefined for a malformed or forged token, and if the keyring no
   * longer contains its key.
   */
  parse(text: string): RefreshToken | undefined {
    if (text.length > MAX_LENGTH) return undefined;
    const parts = PATTERN.exec(text);
    if (parts === null) return undefined;
    const [, kid = '', id = '', digits, secretText = '', tagText = ''] = parts;
    const key = this.#tags.find(kid)?.key;
    const generation = Number(digits);
    const secret = Buffer.from(secretText, 'base64url');
    const tag = Buffer.from(tagText, 'base64url');
    if (
      key === undefined ||
      !Number.isSafeInteger(generation) ||
      tag.length !== TAG_BYTES ||
      secret.length !== SECRET_BYTES
    )
      return undefined;
    const token = { id, generation, secret };
    // several base64url texts decode to the same bytes, and only the canonical one is valid
    return timingSafeEqual(tagOf(token, key), tag) &&
      secret.toString('base64url') === secretText &&
      tag.toString('base64url') === tagText
      ? token
      : undefined;
  }

  #successor(token: RefreshToken, key: KeyObject): RefreshToken {
    const generation = token.generation + 1;
    return { id: token.id, generation, secret: mac(key, 'svc-rt-next', token.id, generation, token.secret) };
  }
}

/** Returns the SHA-256 of a secret, whose 256 random bits need no salt. */
export function hashOf(token: RefreshToken): string {
  return hash('sha256', token.secret, 'hex');
}

function tagOf(token: RefreshToken, key: KeyObject): Buffer {
  return mac(key, 'svc-rt-tag', token.id, token.generation, token.secret).subarray(0, TAG_BYTES);
}

/** Returns the HMAC of several fields, each after its length. */
function mac(key: KeyObject, purpose: string, id: string, generation: number, secret: Buffer): Buffer {
  const head = `${purpose.length}:${purpose}${id.length}:${id}${String(generation).length}:${generation}${secret.length}:`;
  return createHmac('sha256', key).update(head).update(secret).digest();
}
