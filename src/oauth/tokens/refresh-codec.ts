/**
 * The text of a refresh token, and what follows from it. Pure: no store, no time.
 *
 *   svcrt_1<kid>.<fid>.<gen>.<secret>.<tag>
 *
 *   kid     which key of the ring made the tag
 *   fid     the login, 16 random bytes; its row's id
 *   gen     how often it has been rotated
 *   secret  32 bytes: random at login, then HMAC(chain key, fid, gen + 1, secret), so that whoever races gets the same
 *   tag     16 bytes: HMAC(tag key, fid, gen, secret). Garbage costs no query, and nobody can end a login by inventing a token
 *
 * Opaque to clients; about 120 characters; the prefix is for scanners that look for leaked secrets.
 */
import { createHmac, hash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../../crypto/keys.ts';

/** A refresh token, taken apart. */
export interface RefreshToken {
  /** The id of the login. */
  readonly id: string;
  readonly generation: number;
  readonly secret: Buffer;
}

const PREFIX = 'svcrt_1';
const MAX_LENGTH = 200;
const SECRET_BYTES = 32;
const TAG_BYTES = 16;
const PATTERN = /^svcrt_1([\w-]{1,32})\.([\w-]{22})\.(0|[1-9]\d{0,15})\.([\w-]{43})\.([\w-]{22})$/;

/** Makes and reads refresh tokens with the keys of a ring. */
export class RefreshTokenCodec {
  readonly #tags: Keyring;
  readonly #chain: Keyring;

  constructor(ring: Keyring) {
    this.#tags = ring.derive('svc-oauth-refresh-tag');
    this.#chain = ring.derive('svc-oauth-refresh-chain');
  }

  /** The first token of a new login. */
  first(): RefreshToken {
    return { id: randomBytes(16).toString('base64url'), generation: 0, secret: randomBytes(SECRET_BYTES) };
  }

  /** The token after this one, as the current key makes it. */
  next(token: RefreshToken): RefreshToken {
    return this.#successor(token, this.#chain.current.key);
  }

  /** The token after this one whose hash is the one given, whichever key of the ring made it; undefined when none did. */
  nextThatHas(storedHash: string, token: RefreshToken): RefreshToken | undefined {
    return this.#chain.keys
      .map(({ key }) => this.#successor(token, key))
      .find((next) => hashOf(next) === storedHash);
  }

  /** The text for the client. */
  format(token: RefreshToken): string {
    const { id, key } = this.#tags.current;
    return `${PREFIX}${id}.${token.id}.${token.generation}.${token.secret.toString('base64url')}.${tagOf(token, key).toString('base64url')}`;
  }

  /** What a text holds; undefined when it is no token of ours: malformed, forged, or of a key that has left the ring. */
  parse(text: string): RefreshToken | undefined {
    if (text.length > MAX_LENGTH) return undefined;
    const parts = PATTERN.exec(text);
    if (parts === null) return undefined;
    const [, kid, id, digits, secretText, tagText] = parts as unknown as [
      string,
      string,
      string,
      string,
      string,
      string,
    ];
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
    // canonical text only: one token has one spelling
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

/** What is stored of a token: SHA-256 of its secret in hex. Unsalted is right for 256 random bits. */
export function hashOf(token: RefreshToken): string {
  return hash('sha256', token.secret, 'hex');
}

function tagOf(token: RefreshToken, key: KeyObject): Buffer {
  return mac(key, 'svc-rt-tag', token.id, token.generation, token.secret).subarray(0, TAG_BYTES);
}

/** Each field behind its length, so that no two lists of fields give the same bytes. */
function mac(key: KeyObject, purpose: string, id: string, generation: number, secret: Buffer): Buffer {
  const head = `${purpose.length}:${purpose}${id.length}:${id}${String(generation).length}:${generation}${secret.length}:`;
  return createHmac('sha256', key).update(head).update(secret).digest();
}
