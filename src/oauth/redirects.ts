/**
 * Where a login may lead: redirect URIs that equal an entry of the allowlist byte for byte (RFC 9700 §2.1), and nothing
 * computed from the request.
 */
import type { Env } from '../base/config.ts';

/** How an allowlist is read. */
interface RedirectOptions {
  readonly env: Env;
  /** Entries of native applications, `http://127.0.0.1:...` and `http://[::1]:...`, in production too (RFC 8252 §7.3). Default false. */
  readonly allowsLoopback: boolean;
}

/** Every reason why an entry cannot be in an allowlist; empty when there is none. In words, the entry not repeated. */
export function issuesOfRedirect(entry: string, { env, allowsLoopback }: RedirectOptions): string[] {
  if (typeof entry !== 'string' || !URL.canParse(entry)) return ['is no absolute URL'];
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

/** Returns whether a text is `https:host/path`, which URL parsers mend and providers compare byte for byte. */
export function hasNoAuthority(entry: string): boolean {
  return /^https?:(?!\/\/)/i.test(entry);
}

/** The redirect URIs that logins at one provider may name. Whether entries can be in the list is asked by {@link issuesOfRedirect}, at start. */
export class RedirectAllowlist {
  readonly #entries: ReadonlySet<string>;
  readonly #hasList: boolean;
  readonly #env: Env;
  readonly #callbackPaths: readonly string[];
  /** The entry for logins that name none; undefined where several could be meant. */
  readonly #usual: string | undefined;

  /**
   * `callbackPaths`: of this provider, the first is the usual one. `otherPaths`: of the other providers, whose entries are not
   * for logins here, since their callbacks refuse the state.
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
   * The redirect URI of a login that names `given`, or undefined when it may not be. None given means the only entry that ends in
   * a callback path of this provider, else the only entry. Without a list, outside production, the callbacks of this very server
   * on the loopback interface are allowed: `host` is the request's.
   */
  choose(given: string | undefined, host: string): string | undefined {
    if (this.#hasList)
      return given === undefined ? this.#usual : this.#entries.has(given) ? given : undefined;
    if (this.#env === 'production' || !/^(?:127\.0\.0\.1|localhost)(?::\d{1,5})?$/.test(host))
      return undefined;
    const own = this.#callbackPaths.map((path) => `http://${host}${path}`);
    return given === undefined ? own[0] : own.find((uri) => uri === given);
  }
}

function endsInOneOf(entry: string, paths: readonly string[]): boolean {
  const path = URL.parse(entry)?.pathname;
  return path !== undefined && paths.some((each) => path.endsWith(each));
}
