/**
 * PostgreSQL: a pool of connections, each to the first server of the address that fits, and a connection that listens.
 */
import { SvcError } from '../errors.ts';
import { DatabaseError, PoolTimeout } from './db-errors.ts';
import { Pool } from './pool.ts';
import { connectPostgres } from './postgres-connect.ts';
import { findServer, searchMs } from './postgres-hosts.ts';
import { PostgresListener } from './postgres-listener.ts';
import { PostgresTypes } from './postgres-types.ts';
import type { Clock } from '../clock.ts';
import type { Logger } from '../log.ts';
import type { Awaitable } from '../stores.ts';
import type { Connection, Driver, DriverLoad, Limit, ListenOptions, Notified, Purpose, Row } from './driver.ts';
import type { PoolEventKind } from './pool-event.ts';
import type { PoolSettings } from './pool-settings.ts';
import type { ConnectPostgres, PostgresConnectionOptions, PostgresSession } from './postgres-options.ts';
import type { PostgresUrl } from './postgres-url.ts';
import type { Params } from './values.ts';

/** How a PostgreSQL database is opened; all of it checked by `openDatabase`. */
export interface PostgresOptions {
  readonly address: PostgresUrl;
  /** The address without its password, for messages. */
  readonly shown: string;
  readonly pool: Omit<PoolSettings, 'connectTimeoutMs'>;
  readonly session: PostgresConnectionOptions;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onPoolEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
}

/** See {@link Driver}. */
export class PostgresDriver implements Driver {
  readonly dialect = 'postgres';
  readonly #pool: Pool<PostgresSession>;
  readonly #listener: PostgresListener;
  readonly #shown: string;

  constructor({ address, shown, pool, session, clock, log, onPoolEvent }: PostgresOptions) {
    const { hosts, target, connectTimeoutMs } = address;
    const types = new PostgresTypes(session.int8); // the database is asked once for those that are not built in
    const connect: ConnectPostgres = (host, options, limit) => connectPostgres(host, options, limit, types);
    const search = { hosts, target, connectTimeoutMs, connect, options: session, clock };
    const find = (limit: Limit): Promise<PostgresSession> => findServer(search, limit);
    const longestMs = searchMs(search);
    this.#shown = shown;
    this.#pool = new Pool({ ...pool, connect: find, connectTimeoutMs: longestMs, clock, log, onEvent: onPoolEvent });
    this.#listener = new PostgresListener({ connect: find, connectTimeoutMs: longestMs, clock, log });
  }

  get load(): DriverLoad { return this.#pool.load; }

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

  acquire(_purpose: Purpose, limit: Limit | undefined): Awaitable<Connection> { return this.#pool.acquire(limit); }

  release(connection: Connection): void { this.#pool.release(connection as PostgresSession); } // it lends no others

  async *stream(sql: string, params: Params, limit: Limit | undefined): AsyncGenerator<readonly Row[], void, undefined> {
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

  listen(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable> {
    return this.#listener.listen(channel, notified, options);
  }

  async close(): Promise<void> {
    await Promise.all([this.#listener.close(), this.#pool.close()]);
  }
}
