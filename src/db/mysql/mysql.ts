/**
 * MySQL, and what it has in common with MariaDB: a pool of connections, each to the first server of the address that fits.
 */
import { connectMySql } from './connect.ts';
import { PooledDriver } from '../wire/pooled-driver.ts';
import { findServer, searchMs, type ServerKind } from '../wire/server-hosts.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit } from '../driver.ts';
import type { MySqlConnection } from './connection.ts';
import type { MySqlConnectionOptions, MySqlUrl } from './url.ts';
import type { PoolEventKind, ResolvedPoolOptions } from '../wire/pool-settings.ts';
import type { ServerHost } from '../wire/server-options.ts';

/** How a database is opened; all of it checked by `openDatabase`. */
export interface MySqlDriverOptions {
  readonly address: MySqlUrl;
  /** The address without its password, for messages. */
  readonly shown: string;
  readonly pool: Omit<ResolvedPoolOptions, 'connectTimeoutMs'>;
  readonly session: MySqlConnectionOptions;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onPoolEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
}

const READS_ONLY = 'select @@global.read_only';

/** See {@link Driver}. */
export class MySqlDriver extends PooledDriver<MySqlConnection> {
  constructor({ address, shown, pool, session, clock, log, onPoolEvent }: MySqlDriverOptions) {
    const { hosts, target, connectTimeoutMs, dialect } = address;
    const search = {
      hosts,
      target,
      connectTimeoutMs,
      clock,
      connect: (host: ServerHost, limit: Limit) => connectMySql(host, session, limit),
      kindOf: async (connection: MySqlConnection, limit: Limit): Promise<ServerKind> =>
        Number(await connection.scalar(READS_ONLY, [], limit)) === 0 ? 'primary off' : 'standby on',
    };
    super(dialect, shown, {
      ...pool,
      connect: (limit) => findServer<MySqlConnection>(search, limit),
      connectTimeoutMs: searchMs(search),
      clock,
      log,
      onEvent: onPoolEvent,
    });
  }
}
