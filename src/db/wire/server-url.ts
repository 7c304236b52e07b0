/**
 * Parses the parts that addresses of PostgreSQL, MySQL and MariaDB have in common:
 *   scheme://user:password@one,two:5433,[::1]/database?sslmode=verify-full&set.<parameter>=...
 *
 * An address with an unknown parameter is refused. In a name or a password, percent-encode `@ : / ? # % ,`. A
 * `+` stands for itself and not for a space.
 */
import { isIP } from 'node:net';
import { closest } from '../../base/options.ts';
import { noteSecrets } from '../../base/used-secrets.ts';
import type { Timestamps } from '../driver.ts';

/** Throws an error for the address. The message contains `problem`. */
export type Refuse = (problem: string) => never;

/** Rules for the addresses of one protocol. */
export interface UrlRules {
  /** Example of an address for error messages: `postgres://user@host/database`. */
  readonly example: string;
  readonly defaultPort: number;
  /**
   * Allowed parameters after the `?`, in addition to {@link SHARED_KEYS}. If a parameter has a list, only the
   * values in the list are allowed.
   */
  readonly keys: Readonly<Record<string, readonly string[] | undefined>>;
  /** Example of a run-time parameter for error messages: `search_path=app`. */
  readonly parameter: string;
  /**
   * Names of run-time parameters, in lower case, that an address must not set, because the decoding of values
   * depends on them.
   */
  readonly ours: ReadonlySet<string>;
  /** Names of the TLS parameters of this protocol. */
  readonly tlsKeys: readonly string[];
  /**
   * Whether an address must have a user name. Default true. If false, a missing user name is an empty text.
   */
  readonly needsUser?: boolean;
}

/** Parts of an address that PostgreSQL, MySQL and MariaDB have in common. */
export interface ServerUrl {
  readonly hosts: readonly ServerHost[];
  readonly target: TargetSession;
  readonly user: string;
  readonly password: string | undefined;
  /** Name of the database. Undefined if the address has none. */
  readonly database: string | undefined;
  readonly tls: ServerTls;
  /** Run-time parameters that the address sets: `?set.search_path=app` gives `{ search_path: 'app' }`. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Time limit in milliseconds for a connection to each host. */
  readonly connectTimeoutMs: number;
  readonly timestamps: Timestamps;
  /** Maximum number of prepared statements per connection. Undefined if the address does not set it. */
  readonly statementCache: number | undefined;
  /** All parameters after the `?`, validated. */
  readonly settings: ReadonlyMap<string, string>;
}

const DEFAULT_CONNECT_SECONDS = 10;
const SSL_MODES: readonly SslMode[] = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];
const TLS_KEYS = [
  'sslrootcert',
  'sslcert',
  'sslkey',
  'sslpassword',
  'sslsni',
  'ssl_min_protocol_version',
] as const;

const SHARED_KEYS: Readonly<Record<string, readonly string[] | undefined>> = {
  host: undefined,
  port: undefined,
  user: undefined,
  password: undefined,
  dbname: undefined,
  sslmode: SSL_MODES,
  sslrootcert: undefined,
  sslcert: undefined,
  sslkey: undefined,
  sslpassword: undefined,
  sslsni: ['0', '1'],
  ssl_min_protocol_version: ['TLSv1.2', 'TLSv1.3'],
  target_session_attrs: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
  connect_timeout: undefined,
  statement_cache: undefined,
};

/**
 * Usual host names of database services on a developer's machine, for example in Docker Compose. `svc check`
 * does not report a password in an address with such a host.
 */
const OF_COMPOSE = /^(?:db|database|postgres|mysql|mariadb|redis|valkey)$/;

/** Parses an address without its scheme, such as `//user@host/database`. */
export function parseServerUrl(rest: string, rules: UrlRules, refuse: Refuse): ServerUrl {
  const [, authority = '', path = '', query] =
    /^\/\/([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(rest) ??
    refuse(`the host must follow two slashes, as in ${rules.example}`);
  if (rest.includes('#')) refuse('the address contains "#": write "#" as %23');
  const decode = (part: string): string => decoded(part, refuse);
  const settings = queryOf(query ?? '', rules, decode, refuse);
  const at = authority.lastIndexOf('@');
  if (authority.indexOf('@') !== at)
    refuse('"@" occurs twice before the host: write "@" in a name or a password as %40');
  // exec() does not return null, because the pattern matches every text
  const [, name = '', secret] = /^([^:]*)(?::(.*))?$/s.exec(at === -1 ? '' : authority.slice(0, at))!;
  const one = (key: string, inPlace: string | undefined): string | undefined => {
    const value = settings.get(key);
    if (value !== undefined && inPlace !== undefined && inPlace !== '')
      refuse(`"${key}" occurs twice in the address: write it once`);
    return value ?? (inPlace === undefined ? undefined : decode(inPlace));
  };
  const user =
    one('user', name) ||
    (rules.needsUser === false
      ? ''
      : refuse(`the user name is missing: write an address such as ${rules.example}`));
  const hosts = hostsOf(authority.slice(at + 1), settings, rules, decode, refuse);
  const password = one('password', secret) || undefined;
  if (hosts.some(({ host }) => !isLocalHost(host) && !OF_COMPOSE.test(host)))
    noteSecrets('the database', [password, secret]);
  return {
    hosts,
    user,
    settings,
    password,
    database: one('dbname', path) || undefined,
    target: (settings.get('target_session_attrs') ?? 'any') as TargetSession,
    tls: tlsOf(hosts, settings, rules, refuse),
    parameters: Object.fromEntries(
      [...settings].flatMap(([key, value]) =>
        key.startsWith('set.') ? [[key.slice('set.'.length), value]] : [],
      ),
    ),
    connectTimeoutMs:
      integer('connect_timeout', settings.get('connect_timeout'), 1, 3_600, refuse, DEFAULT_CONNECT_SECONDS) *
      1_000,
    timestamps: settings.get('timestamps') === 'string' ? 'string' : 'date',
    statementCache: settings.has('statement_cache')
      ? integer('statement_cache', settings.get('statement_cache'), 0, 10_000, refuse, 0)
      : undefined,
  };
}

function queryOf(
  query: string,
  rules: UrlRules,
  decode: (part: string) => string,
  refuse: Refuse,
): ReadonlyMap<string, string> {
  const settings = new Map<string, string>();
  for (const part of query.split('&')) {
    if (part === '') continue;
    const mark = part.indexOf('=');
    if (mark === -1) refuse(`the parameter "${decode(part)}" of the address needs a value`);
    const [key, value] = [decode(part.slice(0, mark)), decode(part.slice(mark + 1))];
    if (settings.has(key)) refuse(`"${key}" occurs twice in the address: write it once`);
    if (key.startsWith('set.')) checkParameter(key.slice('set.'.length), rules, refuse);
    else checkSetting(key, value, rules, refuse);
    settings.set(key, value);
  }
  return settings;
}

function checkSetting(key: string, value: string, { keys }: UrlRules, refuse: Refuse): void {
  const known = { ...SHARED_KEYS, ...keys };
  if (!Object.hasOwn(known, key)) {
    const best = closest(key, Object.keys(known));
    refuse(
      `unknown parameter "${key}"${best === undefined ? `; to set a run-time parameter of the session, write "set.${key}=…"` : `: did you mean "${best}"?`}`,
    );
  }
  if (key === 'sslmode' && value === 'allow')
    refuse(
      '"sslmode=allow" may send data in clear text although the server supports TLS: use "require", or better "verify-full"',
    );
  const words = known[key];
  if (words?.includes(value) === false)
    refuse(`"${key}" must be one of ${words.map((word) => `"${word}"`).join(', ')}`);
}

function checkParameter(name: string, { parameter, ours }: UrlRules, refuse: Refuse): void {
  if (!/^[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)?$/.test(name))
    refuse(`"set." needs the name of a run-time parameter, as in set.${parameter}`);
  if (ours.has(name.toLowerCase()))
    refuse(`"${name}" must not be changed, because svc sets the parameter itself: remove "set.${name}"`);
}

function hostsOf(
  text: string,
  settings: ReadonlyMap<string, string>,
  { defaultPort }: UrlRules,
  decode: (part: string) => string,
  refuse: Refuse,
): ServerHost[] {
  const listed = settings.get('host')?.split(',');
  if (listed !== undefined && text !== '') refuse('"host" occurs twice in the address: write it once');
  const found =
    listed?.map((host) => ({ host, port: undefined })) ??
    text.split(',').map((part) => hostOf(part, decode, refuse));
  const ports = settings.get('port')?.split(',') ?? [];
  if (ports.length > 1 && ports.length !== found.length)
    refuse(
      `the number of hosts (${found.length}) differs from the number of ports (${ports.length}): write one port for each host, or one port for all hosts`,
    );
  if (ports.length > 0 && found.some(({ port }) => port !== undefined))
    refuse('"port" occurs twice in the address: write it once');
  return found.map(({ host, port }, index) => {
    if (host.includes('\0') || /[\s?#@]/.test(host))
      refuse('a host name contains an invalid character: spaces, ?, #, @ and NUL are not allowed');
    return {
      host: host === '' ? 'localhost' : host,
      port: integer('port', port ?? ports[index] ?? ports[0], 1, 65_535, refuse, defaultPort),
    };
  });
}

/** Parses one host: `name`, `name:5432`, `[::1]:5432` or `%2Frun%2Fpostgresql`. */
function hostOf(
  part: string,
  decode: (part: string) => string,
  refuse: Refuse,
): { readonly host: string; readonly port: string | undefined } {
  const [, address, name, port] =
    /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d*))?$/.exec(part) ??
    refuse(`"${part}" is not a host: an IPv6 address needs brackets, and a port must be a number`);
  if (address !== undefined && isIP(address) !== 6) refuse(`"[${address}]" is not an IPv6 address`);
  return { host: address ?? decode(name ?? ''), port: port === '' ? undefined : port };
}

function tlsOf(
  hosts: readonly ServerHost[],
  settings: ReadonlyMap<string, string>,
  { tlsKeys }: UrlRules,
  refuse: Refuse,
): ServerTls {
  const given = [...tlsKeys, ...TLS_KEYS].filter((key) => settings.has(key));
  const isLocal = hosts.every(({ host }) => isLocalHost(host));
  const mode = (settings.get('sslmode') ??
    (isLocal && given.length === 0 ? 'disable' : 'verify-full')) as SslMode;
  if (mode === 'disable' && given.length > 0)
    refuse(`"sslmode=disable" and "${given[0]}" contradict each other: remove one of them`);
  if (mode !== 'disable' && hosts.every(({ host }) => isUnixHost(host)))
    refuse('a connection over a Unix socket has no TLS: remove "sslmode" and the other TLS parameters');
  if (settings.has('sslcert') !== settings.has('sslkey'))
    refuse('one of "sslcert" and "sslkey" is missing: a client certificate needs both parameters');
  return {
    mode,
    rootCertificate: settings.get('sslrootcert'),
    certificate: settings.get('sslcert'),
    key: settings.get('sslkey'),
    keyPassword: settings.get('sslpassword'),
    sendsServerName: settings.get('sslsni') !== '0',
    leastVersion:
      (settings.get('ssl_min_protocol_version') as ServerTls['leastVersion'] | undefined) ?? 'TLSv1.2',
  };
}

function integer(
  key: string,
  text: string | undefined,
  least: number,
  greatest: number,
  refuse: Refuse,
  fallback: number,
): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  return /^\d{1,5}$/.test(text) && value >= least && value <= greatest
    ? value
    : refuse(`"${key}" must be an integer from ${least} to ${greatest}`);
}

function decoded(part: string, refuse: Refuse): string {
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    refuse('the percent-encoding of the address is invalid: write "%" as %25');
  }
  return text.includes('\0') ? refuse('the address contains a NUL character') : text;
}

/**
 * Whether a connection is encrypted, and how its server is verified, as in libpq's parameter `sslmode`. The
 * mode `allow` is not supported, because it never protects a connection.
 */
export type SslMode = 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';

/** Required kind of server, as in libpq's parameter `target_session_attrs`. */
export type TargetSession = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby' | 'prefer-standby';

export interface ServerHost {
  /** Host name, IP address, or path of a Unix socket. A path begins with a slash. */
  readonly host: string;
  readonly port: number;
}

/** TLS options of a connection. */
export interface ServerTls {
  readonly mode: SslMode;
  /**
   * Path of a PEM file with the certificates of trusted authorities. `system` stands for the authorities of
   * Node.js.
   */
  readonly rootCertificate: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** Passphrase of the client's private key. */
  readonly keyPassword: string | undefined;
  /**
   * Whether the host name is sent in clear text (SNI), so that the server can choose its certificate by the
   * name.
   */
  readonly sendsServerName: boolean;
  readonly leastVersion: 'TLSv1.2' | 'TLSv1.3';
}

export function isLocalHost(host: string): boolean {
  return (
    isUnixHost(host) ||
    host === 'localhost' ||
    host === '::1' ||
    (isIP(host) === 4 && host.startsWith('127.'))
  );
}

export function isUnixHost(host: string): boolean {
  return host.startsWith('/');
}
