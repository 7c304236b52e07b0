/**
 * How a database of MySQL or MariaDB is reached: read out of its address by mysql-url.ts, completed by open.ts.
 */
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Int8 } from './driver.ts';
import type { ServerTls } from './server-options.ts';

/** Ways to log in that we speak, by the names of the server's plugins. The password in the clear is the last one, and left out unless it is asked for. */
export const AUTH_PLUGINS = ['mysql_native_password', 'caching_sha2_password', 'sha256_password', 'client_ed25519', 'parsec', 'mysql_clear_password'] as const;
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
}
