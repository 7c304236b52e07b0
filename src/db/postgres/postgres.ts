/**
 * PostgreSQL: a pool of connections, each to the first server of the address that fits, and a connection that listens.
 */
import { SvcError } from '../../base/errors.ts';
import { PooledDriver } from '../wire/pooled-driver.ts';
import { connectPostgres } from './connect.ts';
import { PostgresListener } from './listener.ts';
import { PostgresTypes } from './types.ts';
import { findServer, searchMs, type ServerKind } from '../wire/server-hosts.ts';
import type { Clock } from '../../base/clock.ts';
import type { Logger } from '../../observability/log.ts';
import type { Limit, ListenOptions, Notified } from '../driver.ts';
import type { PoolEventKind, ResolvedPoolOptions } from '../wire/pool-settings.ts';
import type { PostgresConnectionOptions, PostgresHost, PostgresSession, PostgresUrl } from './url.ts';

/** How a PostgreSQL database is opened; all of it checked by `openDatabase`. */
export interface PostgresOptions {
  readonly address: PostgresUrl;
  /** The address without its password, for messages. */
  readonly shown: string;
  readonly pool: Omit<ResolvedPoolOptions, 'connectTimeoutMs'>;
  readonly session: PostgresConnectionOptions;
  readonly clock: Clock;
  readonly log: Logger | undefined;
  readonly onPoolEvent?: ((kind: PoolEventKind, error?: unknown) => void) | undefined;
}

const KIND =
  "select case when pg_catalog.pg_is_in_recovery() then 'standby' else 'primary' end || ' ' || pg_catalog.current_setting('transaction_read_only')";

/** See {@link Driver}. */
export class PostgresDriver extends PooledDriver<PostgresSession> {
  readonly #listener: PostgresListener;

  constructor({ address, shown, pool, session, clock, log, onPoolEvent }: PostgresOptions) {
    const { hosts, target, connectTimeoutMs } = address;
    const types = new PostgresTypes(session.int8); // the database is asked once for those that are not built in
    const search = {
      hosts,
      target,
      connectTimeoutMs,
      clock,
      connect: (host: PostgresHost, limit: Limit) => connectPostgres(host, session, limit, types),
      kindOf: async (connection: PostgresSession, limit: Limit) =>
        String(await connection.scalar(KIND, [], limit)) as ServerKind, // as KIND puts it together
    };
    const find = (limit: Limit): Promise<PostgresSession> => findServer<PostgresSession>(search, limit);
    const longestMs = searchMs(search);
    super('postgres', shown, {
      ...pool,
      connect: find,
      connectTimeoutMs: longestMs,
      clock,
      log,
      onEvent: onPoolEvent,
    });
    const findToListen = async (limit: Limit): Promise<PostgresSession> =>
      checkedToListen(await find(limit), limit);
    this.#listener = new PostgresListener({
      connect: session.statementCache > 0 ? find : findToListen,
      connectTimeoutMs: longestMs,
      clock,
      log,
    });
  }

  listen(channel: string, notified: Notified, options: ListenOptions): Promise<AsyncDisposable> {
    return this.#listener.listen(channel, notified, options);
  }

  override async close(): Promise<void> {
    await Promise.all([this.#listener.close(), super.close()]);
  }
}

/** A pooler lends whatever session is free for each transaction, so that LISTEN is heard by somebody else, or nobody: it is refused. */
async function checkedToListen(session: PostgresSession, limit: Limit): Promise<PostgresSession> {
  try {
    if ((await session.scalar('select pg_catalog.pg_backend_pid()', [], limit)) === session.processId)
      return session;
  } catch (error) {
    session.destroy();
    throw error;
  }
  void session.close();
  throw new SvcError('E_DB_OPTION', [
    'a pooler is between, which lends sessions for a transaction each, and LISTEN needs one of its own: open a second database at the address of the server itself',
  ]);
}
