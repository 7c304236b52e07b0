/**
 * The driver of a database server, for any protocol. It is a pool of connections. Each new connection uses
 * the first suitable server of the address.
 */
import { SvcError } from '../../base/errors.ts';
import { DatabaseError, PoolTimeout } from '../errors.ts';
import { Pool } from './pool.ts';
import { findServer, searchMs, type Search } from './server-hosts.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Dialect, Driver, Limit, RowBatches } from '../driver.ts';
import type { Connect, PoolEventKind, PooledConnection, ResolvedPoolOptions } from './pool-settings.ts';
import type { ServerUrl } from './server-url.ts';
import type { Params } from '../values.ts';

/** Options of a {@link ServerDriver}, validated by `openDatabase`, and the objects that it uses. */
export interface ServerDriverDeps<Session> {
  readonly address: Pick<ServerUrl, 'hosts' | 'target' | 'connectTimeoutMs'> & { readonly dialect: Dialect };
  /** Address without its password, for messages. */
  readonly shown: string;
  readonly pool: Omit<ResolvedPoolOptions, 'connectTimeoutMs'>;
  readonly session: Session;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onPoolEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
}

export class ServerDriver<C extends PooledConnection> extends Pool<C> implements Driver {
  readonly dialect: Dialect;
  /** Opens a connection that does not belong to the pool. */
  protected readonly connect: Connect<C>;
  /** Maximum duration in milliseconds of a search for a suitable server. */
  protected readonly connectTimeoutMs: number;
  readonly #shown: string;

  constructor(
    { address, shown, pool, clock, log, onPoolEvent }: ServerDriverDeps<unknown>,
    how: Pick<Search<C>, 'connect' | 'kindOf'>,
  ) {
    const { hosts, target, connectTimeoutMs, dialect } = address;
    const search = { hosts, target, connectTimeoutMs, clock, ...how };
    const connect: Connect<C> = (limit) => findServer(search, limit);
    const longestMs = searchMs(search);
    super({ ...pool, connect, connectTimeoutMs: longestMs, clock, log, onEvent: onPoolEvent });
    this.dialect = dialect;
    this.connect = connect;
    this.connectTimeoutMs = longestMs;
    this.#shown = shown;
  }

  /**
   * Opens the first connection. If the server is still starting, waits at most for the pool's
   * `acquireTimeoutMs`.
   */
  async open(): Promise<void> {
    try {
      this.release(await this.acquire(undefined));
    } catch (error) {
      await this.close();
      const reason = error instanceof PoolTimeout && error.cause !== undefined ? error.cause : error;
      if (!(reason instanceof DatabaseError)) throw reason;
      throw new SvcError('E_DB_OPEN', [this.#shown, reason.message], { cause: reason });
    }
    this.fill();
  }

  async *stream(sql: string, params: Params, limit: Limit | undefined): RowBatches {
    const connection = await this.acquire(limit);
    try {
      yield* connection.stream(sql, params, limit);
    } finally {
      this.release(connection);
    }
  }

  async ping(limit: Limit | undefined): Promise<void> {
    const connection = await this.acquire(limit);
    try {
      await connection.ping(limit);
    } finally {
      this.release(connection);
    }
  }
}
