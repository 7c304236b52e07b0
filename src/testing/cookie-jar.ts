/**
 * The cookies of a test client, stored and sent as by a browser (RFC 6265 §5; name prefixes by RFC 6265bis).
 */

interface KeptCookie {
  readonly name: string;
  readonly value: string;
  readonly domain: string;
  readonly isHostOnly: boolean;
  readonly path: string;
  readonly isSecure: boolean;
  /** When the cookie expires, in milliseconds since 1970. */
  readonly expiresMs: number;
}

/** Stores cookies by name, domain and path, as a browser does. */
export class CookieJar {
  readonly #kept = new Map<string, KeptCookie>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** Returns the value of a cookie with any path, without decoding it; undefined if there is none. */
  get(name: string): string | undefined {
    return [...this.#alive()].find((cookie) => cookie.name === name)?.value;
  }

  /** Sets a cookie that is sent for every path of `domain`. */
  set(name: string, value: string, domain = 'localhost'): void {
    this.#keep({ name, value, domain, isHostOnly: true, path: '/', isSecure: false, expiresMs: Infinity });
  }

  /** Removes all cookies with this name, for every path. */
  delete(name: string): void {
    for (const [key, cookie] of this.#kept) if (cookie.name === name) this.#kept.delete(key);
  }

  /** Removes all cookies. */
  clear(): void {
    this.#kept.clear();
  }

  /** Returns the names of all cookies. */
  names(): string[] {
    return [...this.#alive()].map((cookie) => cookie.name);
  }

  /** Stores a `Set-Cookie` field of a response from `url`, as a browser would. */
  take(field: string, url: URL): void {
    const [pair, ...rest] = field.split(';');
    const equals = pair!.indexOf('=');
    const name = pair!.slice(0, Math.max(0, equals)).trim();
    if (name === '') return;
    const attributes = new Map(
      rest.map((part) => {
        const [attribute = '', ...text] = part.split('=');
        return [attribute.trim().toLowerCase(), text.join('=').trim()];
      }),
    );
    const domain = attributes.get('domain')?.replace(/^\./, '').toLowerCase() ?? '';
    if (domain !== '' && !domainMatches(url.hostname, domain)) return;
    const isSecure = attributes.has('secure');
    if (isSecure && !isTrustworthy(url)) return;
    const path = attributes.get('path');
    // the name prefixes `__Secure-` and `__Host-` require the attribute `Secure` (RFC 6265bis §4.1.3)
    if (/^__(?:Secure|Host)-/i.test(name) && !isSecure) return;
    if (/^__Host-/i.test(name) && (path !== '/' || domain !== '')) return;
    this.#keep({
      name,
      value: pair!.slice(equals + 1).trim(),
      isSecure,
      domain: domain === '' ? url.hostname : domain,
      isHostOnly: domain === '',
      path: path?.startsWith('/') === true ? path : defaultPath(url.pathname),
      expiresMs: this.#expiry(attributes),
    });
  }

  /** Returns the value of the `Cookie` field for a request to `url`; empty if no cookie matches. */
  headerFor(url: URL): string {
    return [...this.#alive()]
      .filter((cookie) => {
        const isForHost = cookie.isHostOnly
          ? url.hostname === cookie.domain || (isLocal(url) && cookie.domain === 'localhost')
          : domainMatches(url.hostname, cookie.domain);
        return (
          isForHost && pathMatches(url.pathname, cookie.path) && (!cookie.isSecure || isTrustworthy(url))
        );
      })
      .sort((left, right) => right.path.length - left.path.length)
      .map((cookie) => `${cookie.name}=${cookie.value}`)
      .join('; ');
  }

  #expiry(attributes: ReadonlyMap<string, string>): number {
    const maxAge = attributes.get('max-age');
    if (maxAge !== undefined && /^-?\d+$/.test(maxAge)) return this.#nowMs() + Number(maxAge) * 1_000;
    const expires = Date.parse(attributes.get('expires') ?? '');
    return Number.isNaN(expires) ? Infinity : expires;
  }

  #keep(cookie: KeptCookie): void {
    this.#kept.set(`${cookie.name};${cookie.domain};${cookie.path}`, cookie);
  }

  *#alive(): Generator<KeptCookie> {
    for (const [key, cookie] of this.#kept) {
      if (cookie.expiresMs > this.#nowMs()) yield cookie;
      else this.#kept.delete(key);
    }
  }
}

function domainMatches(host: string, domain: string): boolean {
  return host === domain || (host.endsWith(`.${domain}`) && !/^[\d.]+$/.test(host));
}

/** Returns whether a request path is at or below the path of a cookie (RFC 6265 §5.1.4). */
function pathMatches(path: string, prefix: string): boolean {
  return (
    path === prefix || (path.startsWith(prefix) && (prefix.endsWith('/') || path[prefix.length] === '/'))
  );
}

function defaultPath(path: string): string {
  const slash = path.lastIndexOf('/');
  return slash < 1 ? '/' : path.slice(0, slash);
}

function isLocal(url: URL): boolean {
  return url.hostname === 'localhost' || url.hostname === '127.0.0.1' || url.hostname === '[::1]';
}

/**
 * Returns whether browsers accept and send `Secure` cookies for a URL: over TLS, and for hosts on this
 * machine.
 */
function isTrustworthy(url: URL): boolean {
  return url.protocol === 'https:' || isLocal(url);
}
