/**
 * Parses addresses of MySQL and MariaDB databases strictly. The parameters for TLS and for several hosts have
 * the names of libpq, as for PostgreSQL. Examples:
 *   mysql://user:password@host:3306/database             mariadb:// for MariaDB
 *   ...@one,two:3307,[::1]/database?target_session_attrs=read-write     the hosts are tried in this order
 *   mysql://user@localhost/database?socket=/run/mysqld/mysqld.sock    a Unix socket
 *   ...?sslmode=verify-full&sslrootcert=/etc/ca.pem        TLS; also sslcert, sslkey, sslpassword, ...
 *   ...?set.innodb_lock_wait_timeout=5                     variables of every session
 *
 * An address with unknown parameters is refused.
 */
import {
  isUnixHost,
  type ServerHost,
  parseServerUrl,
  type Refuse,
  type ServerUrl,
  type UrlRules,
} from '../wire/server-url.ts';
import type { Int8, Timestamps } from '../driver.ts';
import type { OwnTypes } from '../own-types.ts';
import type { TimingOptions } from '../slow-statements.ts';

interface MySqlSettings {
  readonly plugins: readonly AuthPlugin[];
  /** Path of a PEM file with the server's RSA key, which encrypts the password. */
  readonly serverPublicKey: string | undefined;
  /** Whether the client accepts any RSA key of the server, with which an attacker could read the password. */
  readonly allowsKeyRetrieval: boolean;
  /** The `program_name` of the connection, which the server shows to operators. */
  readonly applicationName: string;
  /** Whether strict modes are added, so that the server refuses a value that does not fit. */
  readonly isStrict: boolean;
  /** Whether requests may be sent before earlier replies, which some proxies cannot handle. */
  readonly pipelines: boolean;
}

export interface MySqlUrl extends ServerUrl, MySqlSettings {
  readonly dialect: 'mysql' | 'mariadb';
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

export function parseMySqlUrl(dialect: 'mysql' | 'mariadb', rest: string, refuse: Refuse): MySqlUrl {
  const url = parseServerUrl(rest, rules(dialect), refuse);
  const { settings, parameters } = url;
  for (const [name, value] of Object.entries(parameters))
    if (/['"\\\0-\x1f]/.test(value))
      refuse(`"set.${name}" must not contain a quote, a backslash or a control character`);
  if (url.target === 'prefer-standby' || url.target === 'standby' || url.target === 'primary')
    refuse('\"target_session_attrs\" must be \"any\", \"read-write\" or \"read-only\" for MySQL');
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

/** Returns the Unix socket, whose host must be this machine, or else the hosts. */
function hostsOf({ hosts, settings, tls }: ServerUrl, refuse: Refuse): readonly ServerHost[] {
  const path = settings.get('socket');
  if (path === undefined) return hosts;
  if (!isUnixHost(path)) refuse('\"socket\" must be an absolute path: socket=/run/mysqld/mysqld.sock');
  if (hosts.length !== 1 || hosts[0]!.host !== 'localhost')
    refuse(
      '\"socket\" is a file on this machine: remove the host from the address, or write localhost as the host',
    );
  if (tls.mode !== 'disable')
    refuse('a connection over a Unix socket has no TLS: remove \"sslmode\" and the other TLS parameters');
  return [{ host: path, port: hosts[0]!.port }];
}

function pluginsOf(text: string | undefined, refuse: Refuse): readonly AuthPlugin[] {
  if (text === undefined) return AUTH_PLUGINS.filter((plugin) => plugin !== 'mysql_clear_password');
  return text
    .split(',')
    .map(
      (name) =>
        AUTH_PLUGINS.find((plugin) => plugin === name) ??
        refuse(
          `"auth_plugins" must contain only these names, separated by commas: ${AUTH_PLUGINS.join(', ')}`,
        ),
    );
}

/**
 * Supported authentication methods, by the names of the server's plugins. The last method sends the password
 * in clear text, so it is off by default.
 */
const AUTH_PLUGINS = [
  'mysql_native_password',
  'caching_sha2_password',
  'sha256_password',
  'parsec',
  'mysql_clear_password',
] as const;
export type AuthPlugin = (typeof AUTH_PLUGINS)[number];

export interface MySqlValueOptions {
  readonly int8: Int8;
  /** Form in which the date 0000-00-00 is returned. */
  readonly zeroDates: 'null' | 'string';
  /** Whether TINYINT(1) is returned as a boolean and not as a number. */
  readonly hasBooleans: boolean;
  /** Whether JSON is parsed, and not returned as text. */
  readonly parsesJson: boolean;
  readonly timestamps: Timestamps;
  /** Custom types by type name, such as `int unsigned`. */
  readonly types?: OwnTypes | undefined;
}

/** Options of a connection that are the same for each host. */
export interface MySqlConnectionOptions
  extends
    Pick<MySqlUrl, 'dialect' | 'user' | 'password' | 'database' | 'tls' | 'parameters'>,
    MySqlSettings,
    TimingOptions {
  /** Whether transactions refuse writes by default. */
  readonly isReadOnly: boolean;
  /** Whether the pool replaces a connection whose server reports that it is read-only. */
  readonly mustWrite: boolean;
  /** Maximum number of cached prepared statements. 0 disables the cache. */
  readonly statementCache: number;
  readonly values: MySqlValueOptions;
}
