/**
 * A driver of a database server: what its pool lends, whichever protocol the connections speak.
 */
import { SvcError } from '../../base/errors.ts';
import { DatabaseError, PoolTimeout } from '../errors.ts';
import { Pool } from './pool.ts';
import type { Awaitable } from '../../cache/stores.ts';
import type { Connection, Dialect, Driver, DriverLoad, Limit, Purpose, Row } from '../driver.ts';
import type { PoolDeps, PooledConnection } from './pool-settings.ts';
import type { Params } from '../values.ts';

/** See {@link Driver}. */
export class PooledDriver<C extends PooledConnection> implements Driver {
  readonly dialect: Dialect;
  readonly #pool: Pool<C>;
  readonly #shown: string;

  /** `shown`: the address without its password, for messages. */
  constructor(dialect: Dialect, shown: string, deps: PoolDeps<C>) {
    this.dialect = dialect;
    this.#shown = shown;
    this.#pool = new Pool(deps);
  }

  get load(): DriverLoad {
    return this.#pool.load;
  }

  /** Waits as long for a server that is just starting as callers wait for a connection. */
  async open(): Promise<void> {
    try {
      this.#pool.release(await this.#pool.acquire(undefined));
    } catch (error) {
      await this.#pool.close();
      const reason = error instanceof PoolTimeout && error.cause !== undefined ? error.cause : error;
      if (!(reason instanceof DatabaseError)) throw reason;
      throw new SvcError('E_DB_OPEN', [this.#shown, reason.message], { cause: reason });
    }
    this.#pool.fill();
  }

  acquire(_purpose: Purpose, limit: Limit | undefined): Awaitable<Connection> {
    return this.#pool.acquire(limit);
  }

  release(connection: Connection): void {
    this.#pool.release(connection as C);
  } // it lends no others

  async *stream(
    sql: string,
    params: Params,
    limit: Limit | undefined,
  ): AsyncGenerator<readonly Row[], void, undefined> {
    const connection = await this.#pool.acquire(limit);
    try {
      yield* connection.stream(sql, params, limit);
    } finally {
      this.#pool.release(connection);
    }
  }

  async ping(limit: Limit | undefined): Promise<void> {
    const connection = await this.#pool.acquire(limit);
    try {
      await connection.ping(limit);
    } finally {
      this.#pool.release(connection);
    }
  }

  close(): Promise<void> {
    return this.#pool.close();
  }
}
