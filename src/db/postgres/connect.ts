/**
 * The PostgreSQL driver: a pool of connections, and a separate connection for LISTEN. Connects to one server:
 * socket, TLS and login. Cancels a statement over a second socket.
 */
import { SvcError } from '../../base/errors.ts';
import { limitIn } from '../limits.ts';
import { converse } from '../wire/conversation.ts';
import { PostgresConnection } from './connection.ts';
import { PostgresConversation } from './conversation.ts';
import { hasParameter, PostgresLogin, type LoggedIn } from './login.ts';
import { PostgresListener } from './listener.ts';
import { endpointOf, openSocket } from './socket.ts';
import { PostgresTypes } from './types.ts';
import { MessageWriter } from './writer.ts';
import { ServerDriver, type ServerDriverDeps } from '../wire/server-driver.ts';
import { probeWhenSilent } from '../wire/server-probe.ts';
import { CANCEL_MS, warnOfPlain, type ServerSocket } from '../wire/server-socket.ts';
import type { Limit, ListenOptions, Notified } from '../driver.ts';
import type { ServerKind } from '../wire/server-hosts.ts';
import type { PostgresConnectionOptions, PostgresHost, PostgresSession } from './url.ts';

const KIND =
  "select case when pg_catalog.pg_is_in_recovery() then 'standby' else 'primary' end || ' ' || pg_catalog.current_setting('transaction_read_only')";

export class PostgresDriver extends ServerDriver<PostgresSession> {
  readonly #listener: PostgresListener;

  constructor(deps: ServerDriverDeps<PostgresConnectionOptions>) {
    const { session, clock, log } = deps;
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

/**
 * Returns a connection that is ready for statements. All connections to one database share `types`, so the
 * database is asked only once for types that are not built in.
 */
export async function connectPostgres(
  host: PostgresHost,
  options: PostgresConnectionOptions,
  limit: Limit,
  types: PostgresTypes = new PostgresTypes(options.int8, options.timestamps, options.types),
): Promise<PostgresConnection> {
  const link = await openSocket(host, options.tls, limit, options.clock);
  warnOfPlain(options, link, host);
  const login = new PostgresLogin(link, host, options);
  const { clock, log } = options;
  using _silence = probeWhenSilent(endpointOf(host), 'PostgreSQL', clock, (error) => login.end(error));
  const { connection } = await converse(
    link,
    login,
    limit,
    clock,
    async () => {
      const loggedIn = await login.run();
      const { parameters, processId } = loggedIn;
      const conversation = new PostgresConversation({
        socket: link.socket,
        reader: login.reader,
        writer: login.writer,
        parameters,
        processId,
        clock,
        log,
        cancel: () => cancel(link, host, options, loggedIn),
      });
      return { conversation, connection: new PostgresConnection(conversation, options, types) };
    },
    ({ onMessage }) => login.handOver(onMessage),
  );
  if (options.hasPlainStartup) await setUp(connection, options, limit);
  return connection;
}

/** Sets what a pooler has ignored of the start-up parameters. */
async function setUp(
  connection: PostgresConnection,
  { parameters }: PostgresConnectionOptions,
  limit: Limit,
): Promise<void> {
  const is = (name: string, value: RegExp): boolean => value.test(connection.parameters.get(name) ?? '');
  const missing = [
    is('DateStyle', /^ISO\b/) ? '' : 'set DateStyle = ISO;',
    is('TimeZone', /^UTC$/) || hasParameter(parameters, 'TimeZone') ? '' : "set TimeZone = 'UTC';",
  ].join('');
  if (missing === '') return;
  try {
    await connection.script(missing, limit);
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

/**
 * Sends a CancelRequest (PostgreSQL manual §55.2.8) over a second socket to the same address, with the same
 * TLS options. The server replies by closing this socket.
 */
async function cancel(
  { address }: ServerSocket,
  { host }: PostgresHost,
  { tls, clock }: PostgresConnectionOptions,
  { processId, key }: LoggedIn,
): Promise<void> {
  if (key.length === 0) return;
  const limit = limitIn(CANCEL_MS, clock);
  const { socket, incoming } = await openSocket(address, tls, limit, clock, host);
  incoming.listen(() => undefined); // ignore incoming data: the server only closes the socket
  const closed = Promise.withResolvers<void>();
  const late = clock.after(CANCEL_MS, () => socket.destroy());
  socket.on('error', () => socket.destroy());
  socket.once('close', () => closed.resolve());
  socket.resume();
  const writer = new MessageWriter();
  writer.cancelRequest(processId, key);
  // do not call end(): the server closes the socket after it has read the request
  socket.write(writer.take());
  await closed.promise;
  late[Symbol.dispose]();
}
