/**
 * Addresses of PostgreSQL databases, in libpq's words, read strictly.
 *
 *   postgres://user:password@host:5432/database          postgresql:// means the same
 *   …@one,two:5433,[::1]/database?target_session_attrs=read-write     tried in this order
 *   postgres://user@/database?host=/run/postgresql       a unix socket: the directory of .s.PGSQL.5432
 *   …?sslmode=verify-full&sslrootcert=/etc/ca.pem        TLS; also sslcert, sslkey, sslpassword, sslnegotiation, …
 *   …?set.search_path=app&set.statement_timeout=5s       run-time parameters of every session; also options=-c%20…
 *
 * What is not listed below is refused. Nothing is read from PGHOST, PGPASSWORD and their kin, nor from ~/.pgpass: an address
 * says all there is, so that the same program does the same everywhere. `@ : / ? # % ,` in a name or a password are
 * percent-encoded; a `+` is a plus.
 */
import { isIP } from 'node:net';
import { closest } from '../options.ts';
import type { PostgresHost, PostgresTls, SslMode, TargetSession } from './postgres-options.ts';

/** What an address says. */
export interface PostgresUrl {
  readonly dialect: 'postgres';
  readonly hosts: readonly PostgresHost[];
  readonly target: TargetSession;
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly tls: PostgresTls;
  /** Run-time parameters, `application_name` and `options` among them. */
  readonly parameters: Readonly<Record<string, string>>;
  readonly hasPlainStartup: boolean;
  /** For each host. */
  readonly connectTimeoutMs: number;
  /** Undefined when it does not say. */
  readonly statementCache: number | undefined;
}

const DEFAULT_PORT = 5432;
const DEFAULT_CONNECT_SECONDS = 10;
const SSL_MODES: readonly SslMode[] = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'];

/** What may be said behind the `?`; a list is all that it may be. */
const KEYS: Readonly<Record<string, readonly string[] | undefined>> = {
  host: undefined, port: undefined, user: undefined, password: undefined, dbname: undefined,
  sslmode: SSL_MODES, sslnegotiation: ['postgres', 'direct'], sslrootcert: undefined, sslcert: undefined, sslkey: undefined, sslpassword: undefined, sslsni: ['0', '1'],
  ssl_min_protocol_version: ['TLSv1.2', 'TLSv1.3'], channel_binding: ['disable', 'prefer', 'require'],
  target_session_attrs: ['any', 'read-write', 'read-only', 'primary', 'standby', 'prefer-standby'],
  connect_timeout: undefined, application_name: undefined, options: undefined, statement_cache: undefined, startup: ['full', 'plain'],
};
/** What is decoded by depends on these. */
const OURS: ReadonlySet<string> = new Set(['client_encoding', 'datestyle', 'intervalstyle', 'standard_conforming_strings', 'user', 'database', 'replication']);

/** Says what is wrong with the address, and throws. */
export type Refuse = (problem: string) => never;

/** Reads what stands behind `postgres:`. */
export function parsePostgresUrl(rest: string, refuse: Refuse): PostgresUrl {
  const [, authority = '', path = '', query] = /^\/\/([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(rest) ?? refuse('two slashes come before the host: postgres://user@host/database');
  if (rest.includes('#')) refuse('write "#" as %23');
  const decode = (part: string): string => decoded(part, refuse);
  const { settings, parameters } = queryOf(query ?? '', decode, refuse);
  const at = authority.lastIndexOf('@');
  if (authority.indexOf('@') !== at) refuse('write "@" in a name or a password as %40');
  const [, name = '', secret] = /^([^:]*)(?::(.*))?$/s.exec(at === -1 ? '' : authority.slice(0, at))!; // matches any text
  const one = (key: string, inPlace: string | undefined): string | undefined => {
    const value = settings.get(key);
    if (value !== undefined && inPlace !== undefined && inPlace !== '') refuse(`"${key}" is there twice`);
    return value ?? (inPlace === undefined ? undefined : decode(inPlace));
  };
  const user = one('user', name) || refuse('it names no user: postgres://user@host/database');
  const hosts = hostsOf(authority.slice(at + 1), settings, decode, refuse);
  const tls = tlsOf(hosts, settings, refuse);
  return {
    dialect: 'postgres', hosts, target: (settings.get('target_session_attrs') ?? 'any') as TargetSession, // queryOf() has checked it
    user, password: one('password', secret) || undefined, database: one('dbname', path) || user, tls, parameters,
    hasPlainStartup: settings.get('startup') === 'plain',
    connectTimeoutMs: integer('connect_timeout', settings.get('connect_timeout'), 1, 3_600, refuse, DEFAULT_CONNECT_SECONDS) * 1_000,
    statementCache: settings.has('statement_cache') ? integer('statement_cache', settings.get('statement_cache'), 0, 10_000, refuse, 0) : undefined,
  };
}

/** Whether a host is this machine: no network is between, where somebody could listen. */
export function isLocalHost(host: string): boolean {
  return host.startsWith('/') || host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'));
}

interface Query {
  readonly settings: ReadonlyMap<string, string>;
  readonly parameters: Readonly<Record<string, string>>;
}

function queryOf(query: string, decode: (part: string) => string, refuse: Refuse): Query {
  const settings = new Map<string, string>();
  for (const part of query.split('&')) {
    if (part === '') continue;
    const mark = part.indexOf('=');
    if (mark === -1) refuse(`"${decode(part)}" has no value`);
    const [key, value] = [decode(part.slice(0, mark)), decode(part.slice(mark + 1))];
    if (settings.has(key)) refuse(`"${key}" is there twice`);
    if (key.startsWith('set.')) checkParameter(key.slice('set.'.length), refuse);
    else checkSetting(key, value, refuse);
    settings.set(key, value);
  }
  const parameters: Record<string, string> = {};
  for (const [key, value] of settings) {
    if (key.startsWith('set.')) parameters[key.slice('set.'.length)] = value;
    else if (key === 'application_name' || key === 'options') parameters[key] = value;
  }
  return { settings, parameters };
}

function checkSetting(key: string, value: string, refuse: Refuse): void {
  if (!Object.hasOwn(KEYS, key)) {
    const best = closest(key, Object.keys(KEYS));
    refuse(`there is no setting "${key}"${best === undefined ? `; a run-time parameter of the session is set by "set.${key}=…"` : `: did you mean "${best}"?`}`);
  }
  if (key === 'sslmode' && value === 'allow') refuse('"sslmode=allow" sends in the clear what it could encrypt: write "require", or better "verify-full"');
  const words = KEYS[key];
  if (words?.includes(value) === false) refuse(`"${key}" is one of ${words.map((word) => `"${word}"`).join(', ')}`);
}

function checkParameter(name: string, refuse: Refuse): void {
  if (!/^[A-Za-z_][A-Za-z0-9_$]*(?:\.[A-Za-z_][A-Za-z0-9_$]*)?$/.test(name)) refuse('"set." is followed by the name of a run-time parameter: set.search_path=app');
  if (OURS.has(name.toLowerCase())) refuse(`"${name}" is not to be changed: values are read by it`);
}

function hostsOf(text: string, settings: ReadonlyMap<string, string>, decode: (part: string) => string, refuse: Refuse): PostgresHost[] {
  const listed = settings.get('host')?.split(',');
  if (listed !== undefined && text !== '') refuse('"host" is there twice');
  const found = listed?.map((host) => ({ host, port: undefined })) ?? text.split(',').map((part) => hostOf(part, decode, refuse));
  const ports = settings.get('port')?.split(',') ?? [];
  if (ports.length > 1 && ports.length !== found.length) refuse(`there are ${found.length} hosts and ${ports.length} ports`);
  if (ports.length > 0 && found.some(({ port }) => port !== undefined)) refuse('"port" is there twice');
  return found.map(({ host, port }, index) => {
    if (host.includes('\0') || /[\s?#@]/.test(host)) refuse('the name of a host has a character that none has');
    return { host: host === '' ? 'localhost' : host, port: integer('port', port ?? ports[index] ?? ports[0], 1, 65_535, refuse, DEFAULT_PORT) };
  });
}

/** `name`, `name:5432`, `[::1]:5432`, `%2Frun%2Fpostgresql`. */
function hostOf(part: string, decode: (part: string) => string, refuse: Refuse): { readonly host: string; readonly port: string | undefined } {
  const [, address, name, port] = /^(?:\[([^\]]*)\]|([^:[\]]*))(?::(\d*))?$/.exec(part) ?? refuse(`"${part}" is no host: an address of IPv6 stands in brackets, and a port is a number`);
  if (address !== undefined && isIP(address) !== 6) refuse(`"[${address}]" is no address of IPv6`);
  return { host: address ?? decode(name ?? ''), port: port === '' ? undefined : port };
}

function tlsOf(hosts: readonly PostgresHost[], settings: ReadonlyMap<string, string>, refuse: Refuse): PostgresTls {
  const given = ['sslnegotiation', 'sslrootcert', 'sslcert', 'sslkey', 'sslpassword', 'sslsni', 'ssl_min_protocol_version'].filter((key) => settings.has(key));
  const isLocal = hosts.every(({ host }) => isLocalHost(host));
  const mode = (settings.get('sslmode') ?? (isLocal && given.length === 0 ? 'disable' : 'verify-full')) as SslMode; // queryOf() has checked it
  if (mode === 'disable' && given.length > 0) refuse(`"sslmode=disable" and "${given[0]}" contradict each other`);
  if (mode !== 'disable' && hosts.every(({ host }) => host.startsWith('/'))) refuse('a unix socket has no TLS: leave "sslmode" and its kin out');
  if (settings.has('sslcert') !== settings.has('sslkey')) refuse('"sslcert" and "sslkey" belong together');
  if (settings.get('sslnegotiation') === 'direct' && mode === 'prefer') refuse('"sslnegotiation=direct" begins with TLS: write sslmode=require, or better verify-full');
  const channelBinding = settings.get('channel_binding') ?? 'prefer';
  if (channelBinding === 'require' && mode === 'disable') refuse('"channel_binding=require" binds to TLS, which "sslmode=disable" leaves out');
  return {
    mode, negotiation: settings.get('sslnegotiation') as PostgresTls['negotiation'] | undefined ?? 'postgres', channelBinding: channelBinding as PostgresTls['channelBinding'],
    rootCertificate: settings.get('sslrootcert'), certificate: settings.get('sslcert'), key: settings.get('sslkey'), keyPassword: settings.get('sslpassword'),
    sendsServerName: settings.get('sslsni') !== '0', leastVersion: settings.get('ssl_min_protocol_version') as PostgresTls['leastVersion'] | undefined ?? 'TLSv1.2',
  };
}

function integer(key: string, text: string | undefined, least: number, greatest: number, refuse: Refuse, fallback: number): number {
  if (text === undefined) return fallback;
  const value = Number(text);
  return /^\d{1,5}$/.test(text) && value >= least && value <= greatest ? value : refuse(`"${key}" is an integer ${least} … ${greatest}`);
}

function decoded(part: string, refuse: Refuse): string {
  let text: string;
  try {
    text = decodeURIComponent(part);
  } catch {
    refuse('its percent-encoding is broken: write "%" as %25');
  }
  return text.includes('\0') ? refuse('it has a NUL') : text;
}
