/**
 * Addresses of PostgreSQL databases, in libpq's words, read strictly.
 *
 *   postgres://user:password@host:5432/database          postgresql:// means the same
 *   ...@one,two:5433,[::1]/database?target_session_attrs=read-write     tried in this order
 *   postgres://user@/database?host=/run/postgresql       a unix socket: the directory of .s.PGSQL.5432
 *   ...?sslmode=verify-full&sslrootcert=/etc/ca.pem        TLS; also sslcert, sslkey, sslpassword, sslnegotiation, ...
 *   ...?set.search_path=app&set.statement_timeout=5s       run-time parameters of every session; also options=-c%20...
 *
 * What is not listed below or in db/wire/server-url.ts is refused. Nothing is read from PGHOST, PGPASSWORD and their kin, nor from
 * ~/.pgpass: an address says all there is, so that the same program does the same everywhere.
 */
import { parseServerUrl, type Refuse, type ServerUrl, type UrlRules } from '../wire/server-url.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Int8, Timestamps } from '../driver.ts';
import type { OwnTypes } from '../own-types.ts';
import type { PooledConnection } from '../wire/pool-settings.ts';
import type { ServerHost, ServerTls } from '../wire/server-options.ts';

/** What an address says. */
export interface PostgresUrl extends ServerUrl {
  readonly dialect: 'postgres';
  readonly database: string;
  readonly tls: PostgresTls;
  /** Run-time parameters, `application_name` and `options` among them. */
  readonly parameters: Readonly<Record<string, string>>;
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

/** Reads what stands behind `postgres:`. */
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
    (settings.get('sslnegotiation') as PostgresTls['negotiation'] | undefined) ?? 'postgres'; // parseServerUrl() has checked both
  const channelBinding =
    (settings.get('channel_binding') as PostgresTls['channelBinding'] | undefined) ?? 'prefer';
  if (negotiation === 'direct' && tls.mode === 'prefer')
    refuse('"sslnegotiation=direct" begins with TLS: write sslmode=require, or better verify-full');
  if (channelBinding === 'require' && tls.mode === 'disable')
    refuse('"channel_binding=require" binds to TLS, which "sslmode=disable" leaves out');
  return { ...tls, negotiation, channelBinding };
}

/** One server. The host may be the directory of a unix socket, as `/run/postgresql`; its file is named by the port: `.s.PGSQL.5432`. */
export type PostgresHost = ServerHost;

/** How connections are encrypted. */
export interface PostgresTls extends ServerTls {
  /** `direct`: TLS from the first byte (PostgreSQL 17 and newer). */
  readonly negotiation: 'postgres' | 'direct';
  /** `require`: only SCRAM-SHA-256-PLUS will do. `prefer`: with TLS, where the server has it. */
  readonly channelBinding: 'disable' | 'prefer' | 'require';
}

/** What a connection needs, whichever server it goes to. */
export interface PostgresConnectionOptions {
  readonly user: string;
  readonly password: string | undefined;
  readonly database: string;
  readonly tls: PostgresTls;
  /** Run-time parameters of the session beyond ours, as `application_name`, `search_path`, `statement_timeout`, `options`. */
  readonly parameters: Readonly<Record<string, string>>;
  /** For poolers, which refuse what they do not know: sends user, database, client_encoding and `parameters` only. */
  readonly hasPlainStartup: boolean;
  /** The newest version of the protocol that is asked for; a server that has an older one says so, and that is spoken. Default 3.0. */
  readonly protocol?: '3.0' | '3.2' | undefined;
  /** The server must accept writes: one that answers 25006 outside a read-only transaction makes the connection stale. */
  readonly mustWrite: boolean;
  /** The server must be a primary, whether it takes writes or not: one that becomes a standby makes the connection stale. */
  readonly mustBePrimary?: boolean | undefined;
  /** Prepared statements kept; 0 for poolers in transaction mode. */
  readonly statementCache: number;
  readonly int8: Int8;
  readonly timestamps?: Timestamps | undefined;
  readonly types?: OwnTypes | undefined;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** Told in seconds how long each statement has run. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
  /** A statement that takes longer is logged; 0 for none. */
  readonly slowStatementMs: number;
}

/** A connection to PostgreSQL, as connection.ts makes them and postgres.ts uses them. */
export interface PostgresSession extends PooledConnection {
  /** Of the server's process, as it was told at log-in: that of a pooler is none of the server's. */
  readonly processId: number;
  /** Told of each NOTIFY on a channel that was listened to on this connection, its own included. */
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
}
