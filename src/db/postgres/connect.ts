/**
 * Connects to one PostgreSQL server: socket, TLS and login. Cancels a statement over a second socket.
 */
import { limitIn } from '../limits.ts';
import { converse } from '../wire/conversation.ts';
import { PostgresConnection } from './connection.ts';
import { PostgresConversation } from './conversation.ts';
import { PostgresLogin, type LoggedIn } from './login.ts';
import { endpointOf, foreignRefusal, openSocket, type PostgresSocket } from './socket.ts';
import { PostgresTypes } from './types.ts';
import { MessageWriter } from './writer.ts';
import { probeWhenSilent } from '../wire/server-probe.ts';
import type { Limit } from '../driver.ts';
import type { PostgresConnectionOptions, PostgresHost } from './url.ts';

/** Maximum time for canceling a statement over a second connection, in milliseconds. */
const CANCEL_MS = 4_000;

/**
 * Returns a connection that is ready for statements. All connections to one database share `types`, so the
 * database is asked only once for types that are not built in.
 *
 * @throws ConnectionLost when the server is unreachable or unavailable; QueryTimeout or QueryCanceled when
 *   `limit` is reached; DatabaseError with the SQLSTATE of the server's refusal; SvcError `E_DB_CONNECT` for
 *   a permanent failure
 */
export async function connectPostgres(
  host: PostgresHost,
  options: PostgresConnectionOptions,
  limit: Limit,
  types: PostgresTypes = new PostgresTypes(options.int8, options.timestamps, options.types),
): Promise<PostgresConnection> {
  const link = await openSocket(host, options.tls, limit, options.clock);
  if (options.tls.mode === 'prefer' && link.tls === undefined && !host.host.startsWith('/'))
    options.log?.warn('database_not_encrypted', {
      host: host.host,
      remedy:
        'Encrypt the connection with sslmode=verify-full in the address, or accept it without encryption by sslmode=disable',
    });
  const login = new PostgresLogin(link, host, options);
  const { clock, log } = options;
  using _silence = probeWhenSilent(endpointOf(host), 'PostgreSQL', clock, (kind) =>
    login.end(foreignRefusal(host, kind)),
  );
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
  if (options.hasPlainStartup) await setUp(connection, limit);
  return connection;
}

/**
 * Sets the DateStyle to ISO, unless it already is.
 */
async function setUp(connection: PostgresConnection, limit: Limit): Promise<void> {
  if (/^ISO\b/.test(connection.parameters.get('DateStyle') ?? '')) return;
  try {
    await connection.script('set DateStyle = ISO', limit);
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
  { address }: PostgresSocket,
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
