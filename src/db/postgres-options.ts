/**
 * How a PostgreSQL database is reached: read out of its address by postgres-url.ts, completed by open.ts.
 */
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Int8 } from './driver.ts';
import type { PooledConnection } from './pooled-connection.ts';
import type { ServerHost, ServerTls } from './server-options.ts';

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
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** Told in seconds how long each statement has run. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
}

/** A connection to PostgreSQL, as postgres-connection.ts makes them and postgres.ts uses them. */
export interface PostgresSession extends PooledConnection {
  /** Of the server's process, as it was told at log-in: that of a pooler is none of the server's. */
  readonly processId: number;
  /** Told of each NOTIFY on a channel that was listened to on this connection, its own included. */
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
}
