/** The PostgreSQL driver: a pool of connections, and a separate connection for LISTEN. */
import { SvcError } from '../../base/errors.ts';
import { ServerDriver, type ServerDriverDeps } from '../wire/server-driver.ts';
import { connectPostgres } from './connect.ts';
import { PostgresListener } from './listener.ts';
import { PostgresTypes } from './types.ts';
import type { Limit, ListenOptions, Notified } from '../driver.ts';
import type { ServerKind } from '../wire/server-hosts.ts';
import type { PostgresConnectionOptions, PostgresSession } from './url.ts';

const KIND =
  "select case when pg_catalog.pg_is_in_recovery() then 'standby' else 'primary' end || ' ' || pg_catalog.current_setting('transaction_read_only')";

/** Driver for PostgreSQL. */
export class PostgresDriver extends ServerDriver<PostgresSession> {
  readonly #listener: PostgresListener;

  constructor(deps: ServerDriverDeps<PostgresConnectionOptions>) {
    const { session, clock, log } = deps;
    // all connections share one instance, so that the database is asked only once for types that are not
    // built in
    const types = new PostgresTypes(session.int8, session.timestamps, session.types);
    super(deps, {
      connect: (host, limit) => connectPostgres(host, session, limit, types),
      kindOf: async (connection, limit) => String(await connection.scalar(KIND, [], limit)) as ServerKind,
    });
    const { connect } = this;
    this.#listener = new PostgresListener({
      connect:
        session.statementCache > 0 ? connect : async (limit) => checkedToListen(await connect(limit), limit),
      connectTimeoutMs: this.connectTimeoutMs,
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

/**
 * Checks that LISTEN works: the process id from the login must be the id of the server session. A pooler that
 * changes the session between two transactions reports an id of its own.
 */
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
    'LISTEN needs a permanent session, but the connection pooler changes the session after each transaction: call listen() on a second database with the address of the server',
  ]);
}
