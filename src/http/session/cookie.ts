/**
 * The cookie that a session, or a visitor without one, is known by: its name and attributes for each request.
 *
 *   over TLS, and in production   __Host-svc_session; Path=/; HttpOnly; SameSite=Lax; Secure
 *   elsewhere                     svc_session; Path=/; HttpOnly; SameSite=Lax
 */
import { bool, given, oneOf, readOptions, text } from '../../base/options.ts';
import { hostCookie, serializeCookie } from '../cookies.ts';
import type { Env } from '../../base/config.ts';
import type { Finding } from '../../base/findings.ts';
import type { HttpRequest } from '../contracts.ts';
import type { HostCookie } from '../cookies.ts';
import type { HttpResponse } from '../response.ts';
import type { SecurityLog } from '../security-log.ts';
import type { HeaderList } from '../headers.ts';

/** How the cookie is kept. `undefined` means not given. */
export interface SessionCookieOptions {
  /** A name that does not begin with `__` gets the prefix that the other options allow, `__Host-` or `__Secure-`; without TLS and outside production it is left out. Default: a name of our own. */
  readonly name?: string | undefined;
  /** Default: over TLS, and in production always. `false` is refused in production. */
  readonly secure?: boolean | undefined;
  /** Default `lax`. `none` means `secure`. */
  readonly sameSite?: 'strict' | 'lax' | 'none' | undefined;
  /** Default `/`. */
  readonly path?: string | undefined;
  /** Shares the cookie with every host below. Default: this host alone. */
  readonly domain?: string | undefined;
}

/** A cookie by its options. */
export class KeptCookie {
  readonly #name: string;
  /** Without the prefix that asks for `Secure`. */
  readonly #plainName: string;
  /** What decides over each request; undefined: where it runs and how the request came. */
  readonly #secure: boolean | undefined;
  readonly #attributes: {
    readonly sameSite: 'strict' | 'lax' | 'none';
    readonly path: string;
    readonly domain: string | undefined;
  };

  /** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`, `E_COOKIE` for attributes that do not go together */
  constructor(owner: string, base: string, options: SessionCookieOptions = {}) {
    const { name, secure, ...attributes } = readOptions(owner, options, {
      name: text(),
      secure: given<boolean>('true or false', bool(false).accepts),
      sameSite: oneOf(['strict', 'lax', 'none'], 'lax'),
      path: text('/'),
      domain: text(),
    });
    const isHostOnly = attributes.path === '/' && attributes.domain === undefined;
    const isPrefixed = secure !== false && name?.startsWith('__') !== true; // no other host, and no page without TLS, can then plant one (RFC 6265bis §4.1.3)
    this.#name = `${!isPrefixed ? '' : isHostOnly ? '__Host-' : '__Secure-'}${name ?? base}`;
    this.#plainName = this.#name.replace(/^__(?:Host|Secure)-/i, '');
    this.#attributes = attributes;
    serializeCookie(this.#name, '', { ...attributes, secure: secure ?? true });
    this.#secure = secure ?? (attributes.sameSite === 'none' ? true : undefined); // browsers drop the one without the other
    serializeCookie(this.#plainName, '', attributes);
  }

  /** The cookie of one request. */
  on(req: Pick<HttpRequest, 'scheme'>, env: Env): HostCookie {
    const secure = this.#secure ?? hostCookie(this.#plainName, req, env).secure;
    return { name: secure ? this.#name : this.#plainName, secure };
  }

  /** What it is called over TLS, or in production. */
  get secureName(): string {
    return this.#secure === false ? this.#plainName : this.#name;
  }

  /** What it is called elsewhere. */
  get plainName(): string {
    return this.#secure === true ? this.#name : this.#plainName;
  }

  /** What a value is bound to, so that it counts in this cookie alone: two of one name may have other paths. No name has a `;`. */
  boundName({ name }: HostCookie): string {
    const { path, domain } = this.#attributes;
    return `${name}${path === '/' ? '' : `; Path=${path}`}${domain === undefined ? '' : `; Domain=${domain}`}`;
  }

  /** Without `maxAgeSeconds` until the browser is closed. */
  set(response: HttpResponse, { name, secure }: HostCookie, value: string, maxAgeSeconds?: number): void {
    response.setCookie(name, value, { ...this.#attributes, secure, maxAgeSeconds });
  }

  /** What it lacks where the application runs. */
  *findings(subject: string, env: Env): Generator<Omit<Finding, 'place'>> {
    if (env !== 'production') return;
    if (this.#secure === false) {
      yield {
        rule: 'SVC207',
        severity: 'error',
        subject,
        message: `its cookie "${this.#name}" is not Secure, so that it goes over connections that anybody on the way can read`,
        remedy: 'Leave out cookie.secure: outside production the cookie does without TLS anyway',
      };
    }
    if (this.#attributes.domain !== undefined) {
      yield {
        rule: 'SVC207',
        severity: 'warning',
        subject,
        message: `its cookie "${this.#name}" is shared with every host below "${this.#attributes.domain}", each of which can read and replace it`,
        remedy: 'Leave out cookie.domain, unless you run all of these hosts',
      };
    }
  }
}

/** Says once that browsers may drop a cookie, with which nobody stays logged in and no form is accepted. */
export class MissingTls {
  readonly #log: SecurityLog;
  #isReported = false;

  constructor(log: SecurityLog) {
    this.#log = log;
  }

  /** A proxy that speaks TLS says so; without one, browsers drop what is `Secure`. */
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
        'The cookie is Secure, and this request came without TLS: browsers keep the cookie only behind a proxy that speaks TLS',
    });
  }
}

/**
 * Keeps a response out of shared caches: `fallback` where it says nothing of caching; `public` and `s-maxage` give way to
 * `private`; what says `private` or `no-store` stays as it is.
 */
export function keepPrivate(headers: HeaderList, fallback: 'private' | 'no-store'): void {
  const field = headers.get('cache-control');
  if (field === undefined) return headers.set('Cache-Control', fallback);
  const directives = field
    .split(',')
    .map((directive) => directive.trim())
    .filter((directive) => directive !== '');
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

/** `private="Set-Cookie"` keeps one field private, and the rest shared: it counts as neither. */
function isShared(directive: string): boolean {
  return /^(?:public|s-maxage\b.*)$/i.test(directive);
}
