/**
 * Decides which URLs of a provider the server may call. A URL must be https, unless the option
 * `allowInsecure` allows http. A provider with a public address must name only public addresses (server-side
 * request forgery).
 *
 * Also decides through which proxy a URL is called.
 */
import { BlockList, isIP, isIPv4 } from 'node:net';

/** Networks that are not public: RFC 6890, RFC 4193, RFC 6598, RFC 2544, RFC 5737, RFC 3849, RFC 2765. */
const PRIVATE: readonly (readonly [network: string, prefix: number])[] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
  ['::', 96],
  ['::ffff:0:0:0', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
  ['5f00::', 16],
  ['fc00::', 7],
  ['fe80::', 10],
  ['fec0::', 10],
  ['ff00::', 8],
];

const privateNetworks = new BlockList();
for (const [network, prefix] of PRIVATE)
  if (isIPv4(network)) {
    privateNetworks.addSubnet(network, prefix); // also contains `::ffff:127.0.0.1`
    privateNetworks.addSubnet(`64:ff9b::${network}`, 96 + prefix, 'ipv6'); // NAT64 (RFC 6052)
  } else privateNetworks.addSubnet(network, prefix, 'ipv6');

/** Returns whether an IP address is not public. Text that is no IP address counts as not public. */
export function isPrivateAddress(address: string): boolean {
  const bare = address.replace(/^\[|\]$|%.*$/g, '');
  return isIP(bare) === 0 || privateNetworks.check(bare, isIPv4(bare) ? 'ipv4' : 'ipv6');
}

/** Returns why the server must not call a URL; undefined if the URL is allowed. The reason omits the URL. */
export function issueOfUrl(text: string, allowsInsecure: boolean | readonly string[]): string | undefined {
  if (typeof text !== 'string') return 'is not an absolute URL';
  if (hasUnusablePort(text)) return PORT_ISSUE;
  if (!URL.canParse(text)) return 'is not an absolute URL';
  const url = new URL(text);
  if (/[\s\\]|[^\x21-\x7e]/.test(text))
    return 'has spaces, backslashes or characters that a URL has to escape';
  if (/^https?:(?!\/\/)/i.test(text)) return 'has no "//" behind its scheme';
  if (url.username !== '' || url.password !== '') return 'has a user name or a password';
  if (text.includes('#')) return 'has a fragment';
  if (url.protocol === 'https:') return undefined;
  if (url.protocol !== 'http:') return 'is not https';
  if (typeof allowsInsecure === 'object' && allowsInsecure.includes(url.hostname)) return undefined;
  if (!isLoopback(url.hostname)) return 'is not https, and leads to another machine';
  return allowsInsecure !== false
    ? undefined
    : 'is not https: set allowInsecure to allow http to the loopback interface';
}

/**
 * Returns whether a URL has a port that no server can have: 0, or above 65,535. URL parsers accept the port 0,
 * and the other check of a URL may be a pattern.
 */
export function hasUnusablePort(text: string): boolean {
  const port = /^[a-z][a-z\d+.-]*:\/\/[^/?#\\]*:(\d+)(?:[/?#\\]|$)/i.exec(text)?.[1];
  return port !== undefined && (Number(port) < 1 || Number(port) > MAX_PORT);
}

const MAX_PORT = 65_535;
/** Text for a URL that {@link hasUnusablePort} refuses. */
export const PORT_ISSUE = 'has a port that is not between 1 and 65535';

/**
 * Returns whether a host is this machine: `localhost` or a loopback address. `hostname` comes from
 * `URL.hostname`.
 */
export function isLoopback(hostname: string): boolean {
  return (
    hostname === 'localhost' || hostname === '[::1]' || (isIP(hostname) === 4 && hostname.startsWith('127.'))
  );
}

/** Returns whether a host is `site` or a subdomain of it. */
export function isWithinSite(host: string, site: string): boolean {
  return host === site || host.endsWith(`.${site}`);
}

export interface Proxy {
  /** URL of the proxy, without user name and password. */
  readonly url: URL;
  /** Value of `Proxy-Authorization`; undefined without a user name and password. */
  readonly authorization: string | undefined;
}

/** Environment variables of proxies, as Node.js reads them. The names in lower case take precedence. */
type ProxyEnvironment = Readonly<Record<string, string | undefined>>;

/** Proxies for the calls to providers: one for all calls, or those of environment variables. */
export class Proxies {
  readonly #proxies: Readonly<Record<string, Proxy | undefined>>;
  readonly #direct: readonly string[];

  private constructor(https: string | undefined, http: string | undefined, direct: string = '') {
    this.#proxies = { 'https:': proxyOf(https), 'http:': proxyOf(http) };
    this.#direct = direct.split(/[\s,]+/).map((entry) => entry.toLowerCase());
  }

  /** `url` is a URL that {@link issueOfProxy} accepts. */
  static all(url: string): Proxies {
    return new Proxies(url, url);
  }

  /**
   * Reads `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. Returns the name of a variable and its problem if its
   * value is invalid.
   */
  static ofEnvironment(env: ProxyEnvironment): Proxies | string {
    const named = (name: string): string | undefined => env[name.toLowerCase()] || env[name] || undefined;
    for (const name of ['HTTPS_PROXY', 'HTTP_PROXY']) {
      const value = named(name);
      const problem = value === undefined ? undefined : issueOfProxy(value);
      if (problem !== undefined) return `${name} ${problem}`;
    }
    return new Proxies(named('HTTPS_PROXY'), named('HTTP_PROXY'), named('NO_PROXY'));
  }

  /**
   * Returns the proxies for the option `proxy`, a URL that {@link issueOfProxy} accepts. Without it, returns
   * those of the environment if Node.js uses them, too. Returns the problem of an invalid variable.
   */
  static chosen(proxy: string | undefined): Proxies | string | undefined {
    if (proxy !== undefined) return Proxies.all(proxy);
    const usesEnvironment =
      process.env['NODE_USE_ENV_PROXY'] === '1' || process.execArgv.includes('--use-env-proxy');
    return usesEnvironment ? Proxies.ofEnvironment(process.env) : undefined;
  }

  /** Returns the proxy for a URL; undefined if it is called directly, as the loopback interface always is. */
  proxyFor({ protocol, hostname, port }: URL): Proxy | undefined {
    const host = hostname.replace(/^\[|\]$|\.$/g, '');
    if (isLoopback(hostname) || host === 'localhost' || host.endsWith('.localhost')) return undefined;
    const withPort = `${host}:${port === '' ? (protocol === 'https:' ? 443 : 80) : port}`;
    return this.#direct.some((entry) => entry === withPort || isNamedBy(entry, host))
      ? undefined
      : this.#proxies[protocol];
  }
}

/** Returns whether an entry of `NO_PROXY` names a host, by the rules of Node.js. */
function isNamedBy(entry: string, host: string): boolean {
  if (entry === '*' || entry === host) return true;
  if (/^\*?\./.test(entry)) return host === entry.replace(/^\./, '') || host.endsWith(entry.replace('*', ''));
  const [first = '', last = ''] = entry.split('-');
  if (!isIPv4(first) || !isIPv4(last) || !isIPv4(host)) return false;
  const range = new BlockList();
  range.addRange(first, last);
  return range.check(host);
}

/** Returns why a URL is not the URL of a proxy; undefined if it is. The reason omits the URL. */
export function issueOfProxy(text: unknown): string | undefined {
  if (typeof text !== 'string' || !URL.canParse(text) || /[\s\\]|[^\x21-\x7e]/.test(text))
    return 'is not an absolute URL';
  if (hasUnusablePort(text)) return PORT_ISSUE;
  const { protocol, pathname, search, hash, username, password } = new URL(text);
  if (protocol !== 'http:' && protocol !== 'https:') return 'is neither http nor https';
  if (pathname !== '/' || search !== '' || hash !== '') return 'has a path, a query or a fragment';
  return credentialsOf(username, password) === undefined
    ? 'has a malformed user name or password'
    : undefined;
}

/** Decodes a user name and a password, joined by a colon; undefined if they cannot be decoded. */
function credentialsOf(username: string, password: string): string | undefined {
  try {
    const text = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
    return /\p{Cc}/u.test(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function proxyOf(text: string | undefined): Proxy | undefined {
  if (text === undefined) return undefined;
  const url = new URL(text);
  const { username, password } = url;
  const credentials = credentialsOf(username, password) ?? '';
  [url.username, url.password] = ['', ''];
  return {
    url,
    authorization:
      username === '' && password === '' ? undefined : `Basic ${Buffer.from(credentials).toString('base64')}`,
  };
}
