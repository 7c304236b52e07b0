/**
 * The allowlist of redirect URIs. A URI must equal an entry byte for byte (RFC 9700 §2.1); nothing is computed from the
 * request.
 */
import type { Env } from '../base/config.ts';

/** Context in which an allowlist is checked. */
interface RedirectOptions {
  readonly env: Env;
  /** Allows entries of native applications in production, too: `http://127.0.0.1:...` and `http://[::1]:...` (RFC 8252 §7.3). Default false. */
  readonly allowsLoopback: boolean;
}

/** Returns every reason why an entry is invalid; an empty list if it is valid. The texts do not repeat the entry. */
export function issuesOfRedirect(entry: string, { env, allowsLoopback }: RedirectOptions): string[] {
  if (typeof entry !== 'string' || !URL.canParse(entry)) return ['is not an absolute URL'];
  const url = new URL(entry);
  const problems: string[] = [];
  const isLoopback = url.hostname === '127.0.0.1' || url.hostname === '[::1]';
  if (entry.includes('*')) problems.push('has a wildcard: entries are compared byte for byte');
  if (entry.includes('#')) problems.push('has a fragment');
  if (url.username !== '' || url.password !== '') problems.push('has user information');
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

/** Returns whether a URL lacks its slashes, as `https:host/path`. URL parsers add them, but providers compare byte for byte. */
export function hasNoAuthority(entry: string): boolean {
  return /^https?:(?!\/\/)/i.test(entry);
}

/** Redirect URIs for logins at one provider. {@link problemsOfRedirect} has checked the entries at start-up. */
export class RedirectAllowlist {
  readonly #entries: ReadonlySet<string>;
  readonly #hasList: boolean;
  readonly #env: Env;
  readonly #callbackPaths: readonly string[];
  /** The entry for logins that name none; undefined if it is ambiguous. */
  readonly #usual: string | undefined;

  /**
   * `callbackPaths`: paths of this provider, the default first. `otherPaths`: paths of the other providers. Their entries are
   * excluded, because their callbacks refuse the state.
   */
  constructor(
    entries: readonly string[],
    {
      env,
      callbackPaths,
      otherPaths = [],
    }: {
      readonly env: Env;
      readonly callbackPaths: readonly string[];
      readonly otherPaths?: readonly string[];
    },
  ) {
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
   * Returns the redirect URI for a login that names `given`; undefined if it is not allowed. Without `given` it is the only entry
   * that ends in a callback path of this provider, else the only entry. Without a list, outside production, the callbacks of
   * this server on the loopback interface are allowed; `host` is the request's.
   */
  choose(given: string | undefined, host: string): string | undefined {
    if (this.#hasList)
      return given === undefined ? this.#usual : this.#entries.has(given) ? given : undefined;
    if (this.#env === 'production' || !isLoopbackHost(host)) return undefined;
    const own = this.#callbackPaths.map((path) => `http://${host}${path}`);
    return given === undefined ? own[0] : own.find((uri) => uri === given);
  }
}

/** Returns whether a `Host` names the loopback interface. */
export function isLoopbackHost(host: string): boolean {
  return /^(?:127\.0\.0\.1|localhost)(?::\d{1,5})?$/.test(host);
}

function endsInOneOf(entry: string, paths: readonly string[]): boolean {
  const path = URL.parse(entry)?.pathname;
  return path !== undefined && paths.some((each) => path.endsWith(each));
}
