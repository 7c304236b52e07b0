/**
 * Parses addresses of PostgreSQL databases strictly, with libpq's parameter names. Examples:
 *   - postgres://user:password@host:5432/database; postgresql:// means the same
 *   - ...@one,two:5433,[::1]/database?target_session_attrs=read-write: the hosts are tried in this order
 *   - postgres://user@/database?host=/run/postgresql: a Unix socket in this directory
 *   - ...?sslmode=verify-full&sslrootcert=/etc/ca.pem: TLS
 *   - ...?set.search_path=app&set.statement_timeout=5s: run-time parameters of every session
 *
 * Unknown parameters are refused. Environment variables such as PGHOST and PGPASSWORD, and the file
 * ~/.pgpass, are ignored. So an address means the same on every machine.
 */
import { parseServerUrl, type Refuse, type ServerUrl, type UrlRules } from '../wire/server-url.ts';
import type { Int8, Timestamps } from '../driver.ts';
import type { OwnTypes } from '../own-types.ts';
import type { TimingOptions } from '../slow-statements.ts';
import type { PooledConnection } from '../wire/pool-settings.ts';
import type { ServerHost, ServerTls } from '../wire/server-url.ts';

export interface PostgresUrl extends ServerUrl {
  readonly dialect: 'postgres';
  readonly database: string;
  readonly tls: PostgresTls;
  /** Run-time parameters of each session, including `application_name` and `options`. */
  readonly parameters: Readonly<Record<string, string>>;
  /**
   * Whether the start-up message has only `parameters`, the user, the database and client_encoding. Some
   * poolers refuse other parameters.
   */
  readonly hasPlainStartup: boolean;
  readonly protocol: '3.0' | '3.2';
}

const RULES: UrlRules = {
  example: 'postgres://user@host/database',
  defaultPort: 5432,
  parameter: 'search_path=app',
  tlsKeys: ['sslnegotiation'],
  keys: {
    sslnegotiation: ['postgres', 'direct'],
    channel_binding: ['disable', 'prefer', 'require'],
    application_name: undefined,
    options: undefined,
    startup: ['full', 'plain'],
    timestamps: ['date', 'string'],
    max_protocol_version: ['3.0', '3.2', 'latest'],
  },
  ours: new Set([
    'client_encoding',
    'datestyle',
    'intervalstyle',
    'standard_conforming_strings',
    'user',
    'database',
    'replication',
  ]),
};

export function parsePostgresUrl(rest: string, refuse: Refuse): PostgresUrl {
  const url = parseServerUrl(rest, RULES, refuse);
  const { settings, user } = url;
  const named = Object.fromEntries(
    ['application_name', 'options'].flatMap((key) => (settings.has(key) ? [[key, settings.get(key)!]] : [])),
  );
  return {
    ...url,
    dialect: 'postgres',
    database: url.database ?? user,
    tls: tlsOf(url, refuse),
    parameters: { ...url.parameters, ...named },
    hasPlainStartup: settings.get('startup') === 'plain',
    protocol: ['3.2', 'latest'].includes(settings.get('max_protocol_version') ?? '') ? '3.2' : '3.0',
  };
}

function tlsOf({ tls, settings }: ServerUrl, refuse: Refuse): PostgresTls {
  const negotiation =
    (settings.get('sslnegotiation') as PostgresTls['negotiation'] | undefined) ?? 'postgres';
  const channelBinding =
    (settings.get('channel_binding') as PostgresTls['channelBinding'] | undefined) ?? 'prefer';
  if (negotiation === 'direct' && tls.mode === 'prefer')
    refuse('\"sslnegotiation=direct\" requires TLS: write sslmode=require, or better sslmode=verify-full');
  if (channelBinding === 'require' && tls.mode === 'disable')
    refuse(
      '\"channel_binding=require\" needs TLS, but \"sslmode=disable\" turns TLS off: remove one of them',
    );
  return { ...tls, negotiation, channelBinding };
}

/**
 * One server. The host may be the directory of a Unix socket, such as `/run/postgresql`. Then the port is
 * part of the socket's file name: `.s.PGSQL.5432`.
 */
export type PostgresHost = ServerHost;

export interface PostgresTls extends ServerTls {
  /** How TLS begins. With `direct`, it begins with the first byte (PostgreSQL 17 and newer). */
  readonly negotiation: 'postgres' | 'direct';
  /**
   * Use of channel binding. With `require`, only SCRAM-SHA-256-PLUS is accepted. With `prefer`, that method
   * is used if the connection has TLS and the server offers it.
   */
  readonly channelBinding: 'disable' | 'prefer' | 'require';
}

/** Options of a connection that are the same for each host. */
export interface PostgresConnectionOptions
  extends
    Pick<PostgresUrl, 'user' | 'password' | 'database' | 'tls' | 'parameters' | 'hasPlainStartup'>,
    TimingOptions {
  /**
   * Newest protocol version to request. If the server has only an older version, that version is used.
   * Default 3.0.
   */
  readonly protocol?: PostgresUrl['protocol'] | undefined;
  /**
   * Whether the server must accept writes. If so, the pool replaces a connection on which the server refuses
   * a write with SQLSTATE 25006 outside of a read-only transaction.
   */
  readonly mustWrite: boolean;
  /**
   * Whether the server must be a primary, which may refuse writes. If so, the pool replaces a connection
   * whose server becomes a standby.
   */
  readonly mustBePrimary?: boolean | undefined;
  /** Maximum number of prepared statements. Use 0 for a pooler in transaction mode. */
  readonly statementCache: number;
  readonly int8: Int8;
  readonly timestamps?: Timestamps | undefined;
  readonly types?: OwnTypes | undefined;
}

export interface PostgresSession extends PooledConnection {
  /** Process id of the server session, from the login. A pooler reports an id of its own. */
  readonly processId: number;
  /**
   * Called for each NOTIFY on a channel of this connection, including notifications that this connection
   * itself has sent.
   */
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
}
