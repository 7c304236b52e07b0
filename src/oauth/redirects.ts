/**
 * Allowlists of redirect URIs. A redirect URI must equal an entry byte for byte (RFC 9700 §2.1).
 *
 * The option `nativeRedirects` lists addresses of native clients and single-page applications (RFC 8252 §7):
 * - http://127.0.0.1/done and http://[::1]/done: the loopback interface, with any port (RFC 8252 §7.3)
 * - com.example.app:/done: a private-use scheme, which is a reversed domain name (RFC 8252 §7.1)
 * - https://app.example/done: an https address (RFC 8252 §7.2)
 */
import { PORT_ISSUE, hasUnusablePort } from '../auth/provider/addresses.ts';
import type { Env } from '../base/config.ts';

interface RedirectOptions {
  readonly env: Env;
  /**
   * Allows `http://127.0.0.1:...` and `http://[::1]:...` in production, too (RFC 8252 §7.3). Default false.
   */
  readonly allowsLoopback: boolean;
}

/** Returns all problems of a redirect URI; an empty list if it is valid. The texts do not contain the URI. */
export function issuesOfRedirect(entry: string, { env, allowsLoopback }: RedirectOptions): string[] {
  if (typeof entry === 'string' && hasUnusablePort(entry)) return [PORT_ISSUE];
  if (typeof entry !== 'string' || !URL.canParse(entry)) return ['is not an absolute URL'];
  const url = new URL(entry);
  const problems: string[] = [];
  const isLoopback = url.hostname === '127.0.0.1' || url.hostname === '[::1]';
  if (entry.includes('*')) problems.push('has a wildcard: entries are compared byte for byte');
  if (entry.includes('#')) problems.push('has a fragment');
  if (url.username !== '' || url.password !== '') problems.push('has a user name or a password');
  if (/[\s\\]|[^\x21-\x7e]/.test(entry))
    problems.push('has spaces, backslashes or characters that a URL has to escape');
  if (url.protocol !== 'https:' && url.protocol !== 'http:') problems.push('is neither https nor http');
  if (url.protocol === 'http:') {
    if (env === 'production' && !(isLoopback && allowsLoopback))
      problems.push('is not https, which production needs');
    else if (!isLoopback && url.hostname !== 'localhost')
      problems.push('is not https, and leads to another machine');
  }
  return problems;
}

/**
 * Returns whether no provider can redirect to a URL: it has no slashes after its scheme, as in
 * `https:host/path`, or a port that no server has. URL parsers accept `https:host/path`, but providers compare
 * URLs byte for byte.
 */
export function isUnusable(entry: string): boolean {
  return /^https?:(?!\/\/)/i.test(entry) || hasUnusablePort(entry);
}

interface AllowlistOptions {
  readonly env: Env;
  /** Callback paths of this provider, the default path first. */
  readonly callbackPaths: readonly string[];
  /** Callback paths of other providers; entries with such a path are excluded. */
  readonly otherPaths?: readonly string[];
}

export class RedirectAllowlist {
  readonly #entries: ReadonlySet<string>;
  readonly #hasList: boolean;
  readonly #env: Env;
  readonly #callbackPaths: readonly string[];
  /** Redirect URI of a login request without `redirect_uri`. Undefined if several are possible. */
  readonly #usual: string | undefined;

  constructor(entries: readonly string[], { env, callbackPaths, otherPaths = [] }: AllowlistOptions) {
    const possible = entries.filter((entry) => !endsInOneOf(entry, otherPaths));
    const own = possible.filter((entry) => endsInOneOf(entry, callbackPaths));
    const [only, ...others] = own.length > 0 ? own : possible;
    this.#entries = new Set(possible);
    this.#hasList = entries.length > 0;
    this.#env = env;
    this.#callbackPaths = callbackPaths;
    this.#usual = others.length === 0 ? only : undefined;
  }

  /**
   * Returns the redirect URI of a login; undefined if it is not allowed. `given` is the redirect URI in the
   * request, and `host` is the host of the request.
   *
   * Without `given`, returns the only entry with a callback path of this provider, or else the only entry. If
   * the list is empty, the callbacks of this server on the loopback interface are allowed, but not in
   * production.
   */
  choose(given: string | undefined, host: string): string | undefined {
    if (this.#hasList)
      return given === undefined ? this.#usual : this.#entries.has(given) ? given : undefined;
    if (this.#env === 'production' || !isLoopbackHost(host)) return undefined;
    const own = this.#callbackPaths.map((path) => `http://${host}${path}`);
    return given === undefined ? own[0] : own.find((uri) => uri === given);
  }
}

export function isLoopbackHost(host: string): boolean {
  return /^(?:127\.0\.0\.1|localhost)(?::\d{1,5})?$/.test(host);
}

/** Returns whether the path of a URL ends in one of these paths. A proxy may serve them below a prefix. */
export function endsInOneOf(entry: string, paths: readonly string[]): boolean {
  const path = URL.parse(entry)?.pathname;
  return path !== undefined && paths.some((each) => path.endsWith(each));
}

export function issueOfClientRedirect(entry: string): string | undefined {
  if (/[\s\\#*"<>]|[^\x21-\x7e]/.test(entry))
    return 'has spaces, wildcards, a fragment or characters that a URL has to escape';
  if (hasUnusablePort(entry)) return PORT_ISSUE;
  if (LOOPBACK.test(entry)) return undefined;
  if (/^http:/i.test(entry))
    return 'is http: only http://127.0.0.1/… and http://[::1]/…, without a port, stay on the device';
  if (/^https:\/\/[^/@]+\//.test(entry)) return URL.canParse(entry) ? undefined : 'is no URL';
  return PRIVATE_USE.test(entry)
    ? undefined
    : 'is neither https://…, nor http://127.0.0.1/…, nor a private-use scheme such as com.example.app:/done';
}

const LOOPBACK = /^http:\/\/(?:127\.0\.0\.1|\[::1\])\/[^@]*$/;
/** Matches an address with a private-use scheme, such as `com.example.app:/done` (RFC 8252 §7.1). */
const PRIVATE_USE = /^[a-z][a-z0-9-]*(?:\.[a-z0-9-]+)+:\/(?!\/)/;
const LOOPBACK_PORT = /^(http:\/\/(?:127\.0\.0\.1|\[::1\])):[1-9]\d{0,4}(\/.*)$/;

/**
 * Returns whether a redirect URI of a native client is allowed. `entries` is the option `nativeRedirects`. An
 * entry on the loopback interface allows every port from 1 to 65,535 (RFC 8252 §7.3). The port 0 is excluded,
 * because no client can listen on it.
 */
export function allowsClientRedirect(entries: readonly string[], given: string): boolean {
  if (entries.includes(given)) return true;
  const [, host, path] = LOOPBACK_PORT.exec(given) ?? [];
  return host !== undefined && !hasUnusablePort(given) && entries.includes(`${host}${path}`);
}
