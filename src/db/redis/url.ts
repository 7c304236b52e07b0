/**
 * Parses addresses of Redis and Valkey strictly. Examples:
 *   redis://user:password@host:6379/0        rediss:// uses TLS and verifies the certificate
 *   redis://:password@one,two:6380/0         uses the first host that is a primary
 *   redis+unix://user:password@/run/redis.sock?db=1
 *   ...?sslrootcert=/ca.pem&sslcert=...&sslkey=...&sslmode=verify-ca&connect_timeout=5&role=any
 *
 * Percent-encode `@ : / ? # % ,` in a name or a password. Unknown parameters are refused.
 */
import { SvcError } from '../../base/errors.ts';
import { shown } from '../../base/options.ts';
import {
  isLocalHost,
  type ServerUrl,
  type ServerTls,
  parseServerUrl,
  type Refuse,
  type UrlRules,
} from '../wire/server-url.ts';
import { shownUrl, textIssue } from '../url.ts';

export interface RedisUrl extends Pick<ServerUrl, 'hosts' | 'password' | 'tls' | 'connectTimeoutMs'> {
  /** User name. Empty for the server's default user. */
  readonly user: string;
  readonly database: number;
  /** Required role of the server. `primary`, the default, skips replicas in the list of hosts. */
  readonly role: 'primary' | 'any';
}

const RULES: UrlRules = {
  example: 'redis://host:6379/0',
  defaultPort: 6_379,
  parameter: 'none',
  ours: new Set(),
  tlsKeys: [],
  needsUser: false,
  keys: { db: undefined, role: ['primary', 'any'] },
};
const FOREIGN = ['target_session_attrs', 'statement_cache'];

export function parseRedisUrl(url: string): RedisUrl {
  const refuse: Refuse = (problem) => {
    throw new SvcError('E_REDIS_URL', [typeof url === 'string' ? shownUrl(url) : shown(url), problem]);
  };
  const problem = textIssue(url);
  if (problem !== undefined) refuse(problem);
  const [, scheme = '', rest = ''] =
    /^(redis|rediss|redis\+unix|unix):(.*)$/is.exec(url) ??
    refuse('the address does not begin with redis://, rediss:// or redis+unix://');
  const isUnix = scheme.toLowerCase().endsWith('unix');
  const read = parseServerUrl(isUnix ? atHost(rest, refuse) : rest, RULES, refuse);
  for (const key of read.settings.keys())
    if (FOREIGN.includes(key) || key.startsWith('set.')) refuse(`unknown parameter "${key}"`);
  return {
    hosts: read.hosts,
    user: read.user,
    password: read.password,
    database: databaseOf(read.database, read.settings.get('db'), refuse),
    connectTimeoutMs: read.connectTimeoutMs,
    tls: tlsOf(scheme.toLowerCase() === 'rediss', read.tls, read.settings, refuse),
    role: (read.settings.get('role') ?? 'primary') as RedisUrl['role'],
  };
}

/** Returns whether attackers on the network can read the traffic. */
export function isReadable({ hosts, tls }: RedisUrl): boolean {
  return tls.mode === 'disable' && hosts.some(({ host }) => !isLocalHost(host));
}

/**
 * Converts `//user@/run/redis.sock` to `//user@?host=/run/redis.sock`, the form that parseServerUrl()
 * expects.
 */
function atHost(rest: string, refuse: Refuse): string {
  const [, authority = '', path = '', query = ''] =
    /^\/\/([^/?]*)(\/[^?]+)(?:\?(.*))?$/s.exec(rest) ??
    refuse('the address has no socket path: write redis+unix:///run/redis.sock');
  return `//${authority === '' || authority.endsWith('@') ? authority : refuse('the address of a Unix socket must not contain a host: write redis+unix://user:password@/run/redis.sock')}?host=${path}&${query}`;
}

function databaseOf(path: string | undefined, db: string | undefined, refuse: Refuse): number {
  if (path !== undefined && db !== undefined)
    refuse('the number of the database occurs twice in the address: write it once');
  const text = path ?? db ?? '0';
  return /^\d{1,5}$/.test(text)
    ? Number(text)
    : refuse('the database must be a number: write redis://host/0');
}

/**
 * Returns the TLS settings. TLS is on for `rediss://`. The certificate and the host name are verified, unless
 * `sslmode` requires less.
 */
function tlsOf(
  isEncrypted: boolean,
  tls: ServerTls,
  settings: ReadonlyMap<string, string>,
  refuse: Refuse,
): ServerTls {
  const mode = settings.get('sslmode');
  if (!isEncrypted) {
    const given = [...settings.keys()].find((key) => key.startsWith('ssl'));
    if (given !== undefined) refuse(`"${given}" requires TLS: use rediss://`);
    return { ...tls, mode: 'disable' };
  }
  if (mode === 'disable' || mode === 'prefer')
    refuse(`"sslmode=${mode}" contradicts the scheme rediss://: remove the parameter`);
  return { ...tls, mode: mode === undefined ? 'verify-full' : tls.mode };
}
