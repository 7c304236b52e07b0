/**
 * Cookies of sessions: their name and attributes for each request.
 *
 *   over TLS, and in production   __Host-svc_session; Path=/; HttpOnly; SameSite=Lax; Secure
 *   elsewhere                     svc_session; Path=/; HttpOnly; SameSite=Lax
 */
import { bool, oneOf, readOptions, text } from '../../base/options.ts';
import { hostCookie, serializeCookie } from '../cookies.ts';
import type { HostCookie } from '../cookies.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { HttpRequest } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';
import type { SecurityLog } from '../security-log.ts';
import { elementsOf, type HeaderList } from '../headers.ts';

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
export class CookieDefinition {
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
