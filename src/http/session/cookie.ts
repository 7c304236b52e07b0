/**
 * Cookies of sessions: their name and attributes for each request. The values are signed, or sealed
 * (encrypted and signed).
 *
 * Name and attributes of the session cookie:
 *   over TLS, and in production   __Host-svc_session; Path=/; HttpOnly; SameSite=Lax; Secure
 *   elsewhere                     svc_session; Path=/; HttpOnly; SameSite=Lax
 *
 * Forms of a cookie value. `kid` is the id of the secret key, `name` is the name of the cookie or record, and
 * `length` is the length of this name:
 *   signed   s1.kid.issued.expires.payload.mac
 *            mac = HMAC-SHA-256 (RFC 2104) over length:name.s1.kid.issued.expires.payload
 *   sealed   e1.kid.issued.expires.box
 *            box = IV (12 bytes), ciphertext, tag (16 bytes) of AES-256-GCM
 *            with the additional data length:name.e1.kid.issued.expires
 *
 * Binary parts of a cookie value are base64url without padding (RFC 4648 §5). Times are whole seconds since
 * the epoch.
 *
 * Each purpose of values, such as sessions, has its own key. The MAC or tag also covers the name of the
 * cookie, or the key of the record in the store. So a value is invalid for another purpose, in another
 * cookie, and in another record.
 */
import { createCipheriv, createDecipheriv, randomBytes, timingSafeEqual } from 'node:crypto';
import { bool, oneOf, readOptions, text } from '../../base/options.ts';
import { hostCookie, serializeCookie } from '../cookies.ts';
import { hmacSha256 } from '../../crypto/keys.ts';
import type { HostCookie } from '../cookies.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { HttpRequest } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { SecurityLog } from '../security-log.ts';
import { elementsOf, type HeaderList } from '../headers.ts';
import type { KeyObject } from 'node:crypto';
import type { Keyring } from '../../crypto/keys.ts';

/** Name and attributes of the cookie. An option that is `undefined` has its default. */
export interface SessionCookieOptions {
  /**
   * Name of the cookie. Unless it begins with `__`, it gets the prefix `__Host-` if the other options allow
   * that, else `__Secure-`. Outside production, the prefix is omitted on connections without TLS. Default:
   * `svc_session` for sessions, `svc_csrf` for CSRF tokens of visitors without a session.
   */
  readonly name?: string | undefined;
  /**
   * Whether browsers send the cookie only over TLS. Default in production: true. Elsewhere, the default is
   * true only if the request came over TLS. In production, `svc check` reports an error if the option is
   * `false`.
   */
  readonly secure?: boolean | undefined;
  /**
   * Whether browsers send the cookie with requests from other sites. Default `lax`. `none` implies `secure`.
   */
  readonly sameSite?: 'strict' | 'lax' | 'none' | undefined;
  /** Path below which browsers send the cookie. Default `/`. */
  readonly path?: string | undefined;
  /**
   * Domain to which browsers send the cookie, and to all its subdomains. Default: only the host that sets the
   * cookie.
   */
  readonly domain?: string | undefined;
}

/** A cookie with checked attributes. Its name and `Secure` depend on the connection of the request. */
export class KeptCookie {
  readonly #name: string;
  /** Name without prefix, for connections without TLS: browsers accept the prefixes only with `Secure`. */
  readonly #plainName: string;
  /**
   * If true, the cookie is always `Secure`; if false, it never is. If undefined, this depends on the
   * environment, and on the connection of the request.
   */
  readonly #secure: boolean | undefined;
  readonly #attributes: {
    readonly sameSite: 'strict' | 'lax' | 'none';
    readonly path: string;
    readonly domain: string | undefined;
  };

  constructor(owner: string, base: string, options: SessionCookieOptions = {}) {
    const { name, secure, ...attributes } = readOptions(owner, options, {
      name: text(),
      secure: bool(),
      sameSite: oneOf(['strict', 'lax', 'none'], 'lax'),
      path: text('/'),
      domain: text(),
    });
    const isHostOnly = attributes.path === '/' && attributes.domain === undefined;
    // browsers accept a prefixed cookie only over TLS, and a `__Host-` cookie only for one host (RFC 6265bis
    // §4.1.3)
    const isPrefixed = secure !== false && name?.startsWith('__') !== true;
    this.#name = `${!isPrefixed ? '' : isHostOnly ? '__Host-' : '__Secure-'}${name ?? base}`;
    this.#plainName = this.#name.replace(/^__(?:Host|Secure)-/i, '');
    this.#attributes = attributes;
    serializeCookie(this.#name, '', { ...attributes, secure: secure ?? true });
    // browsers ignore a cookie with SameSite=None that lacks Secure
    this.#secure = secure ?? (attributes.sameSite === 'none' ? true : undefined);
    serializeCookie(this.#plainName, '', attributes);
  }

  on(req: Pick<HttpRequest, 'scheme'>, env: Env): HostCookie {
    const secure = this.#secure ?? hostCookie(this.#plainName, req, env).secure;
    return { name: secure ? this.#name : this.#plainName, secure };
  }

  /** Name of the cookie in production, and elsewhere for requests over TLS. */
  get secureName(): string {
    return this.#secure === false ? this.#plainName : this.#name;
  }

  /** Name of the cookie without TLS outside production. */
  get plainName(): string {
    return this.#secure === true ? this.#name : this.#plainName;
  }

  /**
   * Returns the text that identifies this cookie in the MAC or tag of a value, so that the value is valid
   * only in this cookie. The text contains name, path and domain, because two cookies may have equal names.
   */
  boundName({ name }: HostCookie): string {
    const { path, domain } = this.#attributes;
    return `${name}${path === '/' ? '' : `; Path=${path}`}${domain === undefined ? '' : `; Domain=${domain}`}`;
  }

  /** Sets the cookie. Without `maxAgeSeconds`, the browser deletes it when the user closes the browser. */
  set(response: HttpResponse, { name, secure }: HostCookie, value: string, maxAgeSeconds?: number): void {
    response.setCookie(name, value, { ...this.#attributes, secure, maxAgeSeconds });
  }

  /** Yields findings of `svc check` about options that switch a protection off. */
  *findings(subject: string, env: Env): Generator<Omit<Finding, 'place'>> {
    if (env !== 'production') return;
    if (this.#secure === false) {
      yield {
        rule: 'SVC207',
        severity: 'error',
        subject,
        message: `the session cookie "${this.#name}" lacks the attribute Secure, so browsers also send the cookie without TLS`,
        remedy:
          'Remove the option cookie.secure: by default, cookies are Secure in production, and also work without TLS during development',
      };
    }
    if (this.#attributes.domain !== undefined) {
      yield {
        rule: 'SVC207',
        severity: 'warning',
        subject,
        message: `every host below "${this.#attributes.domain}" can read and replace the session cookie "${this.#name}", because the option cookie.domain is set`,
        remedy: 'Remove the option cookie.domain, unless all of these hosts belong to you',
      };
    }
  }
}

/**
 * Logs once that browsers may ignore a `Secure` cookie, because a request came without TLS. Logins and forms
 * then fail.
 */
export class MissingTls {
  readonly #log: SecurityLog;
  #isReported = false;

  constructor(log: SecurityLog) {
    this.#log = log;
  }

  /**
   * Called when a cookie is set. Logs a warning if the cookie is `Secure` and the connection has no TLS. Logs
   * nothing if the request has header fields of a proxy: the browser may use TLS up to that proxy.
   */
  notice(req: HttpRequest, { name, secure }: HostCookie): void {
    if (
      this.#isReported ||
      !secure ||
      req.scheme !== 'http' ||
      req.headers['x-forwarded-proto'] !== undefined ||
      req.headers['forwarded'] !== undefined
    )
      return;
    this.#isReported = true;
    this.#log.warn('session_cookie_without_tls', {
      name,
      message:
        'The cookie has the attribute Secure, but the request came without TLS: browsers ignore the cookie unless a proxy in front of this server uses TLS',
    });
  }
}

/**
 * Prevents shared caches from storing a response. Sets a missing `Cache-Control` to `fallback`. From an
 * existing one, removes `public` and `s-maxage`, and adds `private` unless it has `private` or `no-store`.
 */
export function keepPrivate(headers: HeaderList, fallback: 'private' | 'no-store'): void {
  const field = headers.get('cache-control');
  if (field === undefined) return headers.set('Cache-Control', fallback);
  const directives = elementsOf(field);
  if (directives.some((directive) => /^(?:private|no-store)$/i.test(directive)) && !directives.some(isShared))
    return;
  headers.set(
    'Cache-Control',
    [
      'private',
      ...directives.filter((directive) => !isShared(directive) && !/^private\b/i.test(directive)),
    ].join(', '),
  );
}

/** Whether a directive allows shared caches to store the response. */
function isShared(directive: string): boolean {
  return /^(?:public|s-maxage\b.*)$/i.test(directive);
}

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
const SIGNED = new RegExp(String.raw`^s1${HEAD}([\w-]*)\.([\w-]{43})$`);
const SEALED = new RegExp(String.raw`^e1${HEAD}([\w-]{38,})$`);
/** Whole text, id of the key, times of issue and expiry, body; and the MAC of a signed value. */
type ValueParts = [string, string, string, string, string, string?];

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
    const head = `${this.#protection === 'signed' ? 's1' : 'e1'}.${id}.${issuedSeconds}.${expiresSeconds}`;
    if (this.#protection === 'sealed') return `${head}.${seal(key, bound(name, head), payload)}`;
    const text = `${head}.${Buffer.from(payload).toString('base64url')}`;
    return `${text}.${hmacSha256(key, bound(name, text))}`;
  }

  /** Verifies and decodes a protected value of the cookie or record `name`. Never throws. */
  read(name: string, text: string, nowSeconds: number): ReadValue {
    const parts =
      text.length > this.#maxCharacters ? null : (this.#protection === 'signed' ? SIGNED : SEALED).exec(text);
    if (parts === null) return refused('malformed');
    const [, id, issued, expires, body, given] = parts as unknown as ValueParts;
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
