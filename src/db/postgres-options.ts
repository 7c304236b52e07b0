/**
 * How a PostgreSQL database is reached: read out of its address by postgres-url.ts, completed by open.ts.
 */
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Int8, Limit } from './driver.ts';
import type { PooledConnection } from './pooled-connection.ts';

/** How far a connection is encrypted and its server proved (libpq's words). `allow` is left out: it is never worth having. */
export type SslMode = 'disable' | 'prefer' | 'require' | 'verify-ca' | 'verify-full';

/** What kind of server is wanted (libpq's words). */
export type TargetSession = 'any' | 'read-write' | 'read-only' | 'primary' | 'standby' | 'prefer-standby';

/** One server. */
export interface PostgresHost {
  /** A name or an address; or, beginning with a slash, the directory of a unix socket, as `/run/postgresql`. */
  readonly host: string;
  /** Default 5432; of a unix socket it is part of the file's name: `.s.PGSQL.5432`. */
  readonly port: number;
}

/** How connections are encrypted. */
export interface PostgresTls {
  readonly mode: SslMode;
  /** `direct`: TLS from the first byte (PostgreSQL 17 and newer). */
  readonly negotiation: 'postgres' | 'direct';
  /** `require`: only SCRAM-SHA-256-PLUS will do. `prefer`: with TLS, where the server has it. */
  readonly channelBinding: 'disable' | 'prefer' | 'require';
  /** Paths of PEM files: who may sign the server's certificate; ours, and its key. `system` for the authorities of Node. */
  readonly rootCertificate: string | undefined;
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  /** The passphrase of the key. */
  readonly keyPassword: string | undefined;
  /** Whether the name is sent in the clear for the server to choose a certificate by (SNI). */
  readonly sendsServerName: boolean;
  readonly leastVersion: 'TLSv1.2' | 'TLSv1.3';
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
  /** Told of each NOTIFY on a channel that was listened to on this connection, its own included. */
  onNotification: ((channel: string, payload: string, processId: number) => void) | undefined;
}

/**
 * Connects to one server: the socket, TLS and log-in, until it is ready. `connectPostgres` of postgres-connect.ts.
 *
 * @throws ConnectionLost when it cannot be reached, or not now; QueryTimeout, QueryCanceled; a DatabaseError with the server's
 * SQLSTATE when it refuses; SvcError for what no other attempt can change
 */
export type ConnectPostgres = (host: PostgresHost, options: PostgresConnectionOptions, limit: Limit) => Promise<PostgresSession>;
