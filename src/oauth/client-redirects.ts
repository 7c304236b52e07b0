/**
 * Where the code of a native client, or of a single-page application, may go (RFC 8252 §7): option `nativeRedirects`.
 *
 *   http://127.0.0.1/done, http://[::1]/done      loopback interface, any port                  §7.3
 *   com.example.app:/done                         private-use scheme, a domain name reversed    §7.1
 *   https://app.example/done                      claimed https, and single-page applications   §7.2
 *
 * All are compared byte for byte, but for the port of the loopback interface.
 */

/** Why an entry cannot be one; undefined when it can. */
export function issueOfClientRedirect(entry: string): string | undefined {
  if (/[\s\\#*"<>]|[^\x21-\x7e]/.test(entry))
    return 'has spaces, wildcards, a fragment or characters that a URL has to escape';
  if (LOOPBACK.test(entry)) return undefined;
  if (/^http:/i.test(entry))
    return 'is http: only http://127.0.0.1/… and http://[::1]/…, without a port, stay on the device';
  if (/^https:\/\/[^/@]+\//.test(entry)) return URL.canParse(entry) ? undefined : 'is no URL';
  return PRIVATE_USE.test(entry)
    ? undefined
    : 'is neither https://…, nor http://127.0.0.1/…, nor a private-use scheme such as com.example.app:/done';
}

const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|\[::1\])\/[^@]*$/;
/** The scheme is a domain name reversed, so it has a dot; behind it one slash (RFC 8252 §7.1). */
const PRIVATE_USE = /^[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+:\/(?!\/)/;
const LOOPBACK_PORT = /^(http:\/\/(?:127\.0\.0\.1|\[::1\])):(?:[1-9]\d{0,4})(\/.*)$/;

/** The client redirect URIs that logins may name. */
export class ClientRedirects {
  readonly #entries: ReadonlySet<string>;

  constructor(entries: readonly string[]) {
    this.#entries = new Set(entries);
  }

  /** Returns whether a login may name this URI. */
  allows(given: string): boolean {
    if (this.#entries.has(given)) return true;
    const [, host, path] = LOOPBACK_PORT.exec(given) ?? [];
    return host !== undefined && this.#entries.has(`${host}${path}`);
  }
}
