/**
 * Addresses of MySQL and MariaDB databases, read strictly; TLS and several hosts as for PostgreSQL, in libpq's words.
 *
 *   mysql://user:password@host:3306/database             mariadb:// for MariaDB
 *   ...@one,two:3307,[::1]/database?target_session_attrs=read-write     tried in this order
 *   mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock    a unix socket
 *   ...?sslmode=verify-full&sslrootcert=/etc/ca.pem        TLS; also sslcert, sslkey, sslpassword, ...
 *   ...?set.innodb_lock_wait_timeout=5                     variables of every session
 *
 * What is not listed below or in db/wire/server-url.ts is refused.
 */
import { isUnixHost, type ServerHost } from '../wire/server-options.ts';
import { parseServerUrl, type Refuse, type ServerUrl, type UrlRules } from '../wire/server-url.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Int8, Timestamps } from '../driver.ts';
import type { OwnTypes } from '../own-types.ts';
import type { ServerTls } from '../wire/server-options.ts';

/** What an address says. */
export interface MySqlUrl extends ServerUrl {
  readonly dialect: 'mysql' | 'mariadb';
  readonly plugins: readonly AuthPlugin[];
  readonly serverPublicKey: string | undefined;
  readonly allowsKeyRetrieval: boolean;
  readonly applicationName: string;
  readonly isStrict: boolean;
  readonly pipelines: boolean;
  readonly values: Omit<MySqlValueOptions, 'int8' | 'types'>;
}

const rules = (dialect: 'mysql' | 'mariadb'): UrlRules => ({
  example: `${dialect}://user@host/database`,
  defaultPort: 3306,
  parameter: 'innodb_lock_wait_timeout=5',
  tlsKeys: [],
  keys: {
    socket: undefined,
    auth_plugins: undefined,
    server_public_key: undefined,
    allow_public_key_retrieval: ['0', '1'],
    application_name: undefined,
    sql_mode: ['strict', 'server'],
    pipelining: ['0', '1'],
    zero_dates: ['null', 'string'],
    tinyint1_is_boolean: ['0', '1'],
    json: ['parse', 'text'],
    timestamps: ['date', 'string'],
  },
  ours: new Set([
    'time_zone',
    'character_set_client',
    'character_set_results',
    'character_set_connection',
    'names',
    'autocommit',
    'pseudo_thread_id',
  ]),
});

/** Reads what stands behind `mysql:` or `mariadb:`. */
export function parseMySqlUrl(dialect: 'mysql' | 'mariadb', rest: string, refuse: Refuse): MySqlUrl {
  const url = parseServerUrl(rest, rules(dialect), refuse);
  const { settings, parameters } = url;
  for (const [name, value] of Object.entries(parameters))
    if (/['"\\\0-\x1f]/.test(value)) refuse(`"set.${name}" has a quote, a backslash or a control character`);
  if (url.target === 'prefer-standby' || url.target === 'standby' || url.target === 'primary')
    refuse('"target_session_attrs" is "any", "read-write" or "read-only" here');
  const is = (key: string, fallback: boolean): boolean =>
    settings.has(key) ? settings.get(key) === '1' : fallback;
  return {
    ...url,
    dialect,
    hosts: hostsOf(url, refuse),
    plugins: pluginsOf(settings.get('auth_plugins'), refuse),
    serverPublicKey: settings.get('server_public_key'),
    allowsKeyRetrieval: is('allow_public_key_retrieval', false),
    applicationName: settings.get('application_name') ?? 'svc',
    isStrict: settings.get('sql_mode') !== 'server',
    pipelines: is('pipelining', true),
    values: {
      zeroDates: settings.get('zero_dates') === 'string' ? 'string' : 'null',
      hasBooleans: is('tinyint1_is_boolean', false),
      parsesJson: settings.get('json') !== 'text',
      timestamps: url.timestamps,
    },
  };
}

/** A unix socket stands in the place of the host, which can only be this machine then. */
function hostsOf({ hosts, settings, tls }: ServerUrl, refuse: Refuse): readonly ServerHost[] {
  const path = settings.get('socket');
  if (path === undefined) return hosts;
  if (!isUnixHost(path)) refuse('"socket" is an absolute path: socket=/run/mysqld/mysqld.sock');
  if (hosts.length !== 1 || hosts[0]!.host !== 'localhost')
    refuse('"socket" is on this machine: leave the host out, or write localhost');
  if (tls.mode !== 'disable') refuse('a unix socket has no TLS: leave "sslmode" and its kin out');
  return [{ host: path, port: hosts[0]!.port }];
}

function pluginsOf(text: string | undefined, refuse: Refuse): readonly AuthPlugin[] {
  if (text === undefined) return AUTH_PLUGINS.filter((plugin) => plugin !== 'mysql_clear_password');
  return text
    .split(',')
    .map(
      (name) =>
        AUTH_PLUGINS.find((plugin) => plugin === name) ??
        refuse(`"auth_plugins" is a list of ${AUTH_PLUGINS.join(', ')}`),
    );
}

/** Ways to log in that we speak, by the names of the server's plugins. The password in the clear is the last one, and left out unless it is asked for. */
const AUTH_PLUGINS = [
  'mysql_native_password',
  'caching_sha2_password',
  'sha256_password',
  'parsec',
  'mysql_clear_password',
] as const;
/** One of {@link AUTH_PLUGINS}. */
export type AuthPlugin = (typeof AUTH_PLUGINS)[number];

/** How values arrive, where that is a matter of taste. */
export interface MySqlValueOptions {
  readonly int8: Int8;
  /** What becomes of 0000-00-00. */
  readonly zeroDates: 'null' | 'string';
  /** Whether TINYINT(1) is a boolean; a number otherwise. */
  readonly hasBooleans: boolean;
  /** Whether JSON is parsed; text otherwise. */
  readonly parsesJson: boolean;
  readonly timestamps: Timestamps;
  /** Types of the program's own, by the names of {@link typeName}. */
  readonly types?: OwnTypes | undefined;
}

/** What a connection needs, whichever server it goes to. */
export interface MySqlConnectionOptions {
  readonly dialect: 'mysql' | 'mariadb';
  readonly user: string;
  readonly password: string | undefined;
  /** Undefined for none. */
  readonly database: string | undefined;
  readonly tls: ServerTls;
  readonly plugins: readonly AuthPlugin[];
  /** The path of a PEM file: the RSA key of the server, so that nobody else's is believed. */
  readonly serverPublicKey: string | undefined;
  /** Believes whatever RSA key the server sends, also over a network: whoever is in between gets the password. */
  readonly allowsKeyRetrieval: boolean;
  /** What the server shows as `program_name`. */
  readonly applicationName: string;
  /** Variables of the session, set after the log-in. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Adds what refuses values that do not fit to the server's `sql_mode`. */
  readonly isStrict: boolean;
  /** Transactions refuse writes unless they say otherwise. */
  readonly isReadOnly: boolean;
  /** Whether a command may be sent before the last one is answered: proxies mix that up. */
  readonly pipelines: boolean;
  /** The server must accept writes: one that says it only reads makes the connection stale. */
  readonly mustWrite: boolean;
  /** Prepared statements kept; 0 for none. */
  readonly statementCache: number;
  readonly values: MySqlValueOptions;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** Told in seconds how long each statement has run. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  /** A statement that takes longer is logged; 0 for none. */
  readonly slowStatementMs: number;
}
