/**
 * Connects to Redis: socket, TLS and login. If the address has several servers, the client uses the first
 * primary.
 *
 * The login sends `HELLO 3`, which selects the protocol RESP3. A server that does not know HELLO gets AUTH
 * and ROLE instead, and uses RESP2. Then SELECT chooses the database, unless it is database 0.
 */
import { ConnectionLost, DatabaseError, QueryTimeout } from '../errors.ts';
import { limitIn } from '../limits.ts';
import { RedisConnection, RedisError, type RedisConnectionDeps } from './connection.ts';
import { askServer, foreignRefusal } from '../wire/server-probe.ts';
import { firstReachable } from '../wire/server-hosts.ts';
import { isUnixHost, type ServerHost } from '../wire/server-url.ts';
import { Opening, shownEndpoint, tlsOptions, type Endpoint } from '../wire/server-socket.ts';
import type { Limit } from '../driver.ts';
import type { RedisUrl } from './url.ts';

export interface RedisConnectDeps extends Omit<RedisConnectionDeps, 'socket'> {
  readonly address: RedisUrl;
  /** Name of the connection in CLIENT LIST. */
  readonly clientName: string;
}

/** The server refused the login or the database, for example because of a wrong password. */
export class RedisFault extends DatabaseError {}

/** The only server of the address is a replica. */
export class OnlyReplica extends ConnectionLost {}

/**
 * Returns a connection that is ready for commands.
 *
 * @throws RedisFault when the server refuses the login or the database; ConnectionLost when no server is
 *   reachable, or no server is a primary (OnlyReplica if there is only one); QueryTimeout when a server does not respond in time; SvcError
 *   `E_DB_CONNECT` when TLS fails, or a server is not Redis
 */
export async function connectRedis(
  options: RedisConnectDeps,
  signal?: AbortSignal,
): Promise<RedisConnection> {
  const {
    address: { hosts, connectTimeoutMs },
    clock,
  } = options;
  const connect = (host: ServerHost): Promise<RedisConnection> =>
    connectHost(options, host, limitIn(connectTimeoutMs, clock, signal));
  return firstReachable(hosts, connect, signal);
}

async function connectHost(
  {
    address: { hosts, tls, user, password, database, role },
    maxReplyBytes,
    maxPending,
    clientName,
    clock,
  }: RedisConnectDeps,
  at: ServerHost,
  limit: Limit,
): Promise<RedisConnection> {
  const endpoint: Endpoint = { at, path: isUnixHost(at.host) ? at.host : undefined };
  const shown = shownEndpoint(endpoint);
  const encryption = tls.mode === 'disable' ? undefined : await tlsOptions(tls, at.host, shown);
  const opening = new Opening(endpoint, limit, clock);
  try {
    await opening.until('connect');
    if (encryption !== undefined) await opening.encrypt(encryption);
  } catch (error) {
    opening.abandon();
    throw error;
  }
  const connection = new RedisConnection({ socket: opening.socket, clock, maxReplyBytes, maxPending });
  opening.detach();
  try {
    const found = await logIn(connection, user, password, clientName, limit);
    if (role === 'primary' && found === 'replica')
      throw new (hosts.length === 1 ? OnlyReplica : ConnectionLost)(
        `The server at ${shown} is a replica, which refuses writes: use the address of the primary, or add the parameter role=any`,
        { sqlstate: '08001' },
      );
    if (database !== 0) await select(connection, database, shown, limit);
    // errors are ignored, because servers before Redis 7.2 do not know this command
    void connection.send(['CLIENT', 'SETINFO', 'LIB-NAME', 'svc'], limit).catch(() => undefined);
    return connection;
  } catch (error) {
    connection.destroy();
    const kind = isUnexplained(error) ? await askServer(endpoint, 'Redis', clock) : undefined;
    if (kind !== undefined) throw foreignRefusal(shown, kind, 'Redis', error);
    if (!(error instanceof RedisError)) throw error;
    throw /max number of clients/i.test(error.message)
      ? new ConnectionLost(`${shown} has reached its limit of connections (maxclients)`, {
          sqlstate: '53300',
          cause: error,
        })
      : new RedisFault(`${shown} refused the login of "${user || 'default'}" (${error.reply})`, {
          sqlstate: '28000',
          cause: error,
        });
  }
}

/**
 * Returns whether the server closed the connection or sent nothing. Such a server may be of another kind, for
 * example PostgreSQL.
 */
function isUnexplained(error: unknown): boolean {
  return error instanceof QueryTimeout || (error instanceof ConnectionLost && error.sqlstate === '08006');
}

async function select(
  connection: RedisConnection,
  database: number,
  shown: string,
  limit: Limit,
): Promise<void> {
  try {
    await connection.send(['SELECT', database], limit);
  } catch (cause) {
    if (!(cause instanceof RedisError) || cause.reply !== 'ERR') throw cause;
    throw new RedisFault(
      /cluster/i.test(cause.message)
        ? `${shown} is a node of a Redis cluster, which is not supported: use the address of a server that is not part of a cluster`
        : `${shown} has no database ${database}: use a number below the server's setting "databases" (16 by default)`,
      { sqlstate: '3D000', cause },
    );
  }
}

/** Logs in. Returns the role of the server, if the server reports it. */
async function logIn(
  connection: RedisConnection,
  user: string,
  password: string | undefined,
  clientName: string,
  limit: Limit,
): Promise<'primary' | 'replica' | undefined> {
  try {
    const hello = await connection.send(
      [
        'HELLO',
        3,
        ...(password === undefined ? [] : ['AUTH', user || 'default', password]),
        'SETNAME',
        clientName,
      ],
      limit,
    );
    return hello instanceof Map ? partOf(hello.get('role')) : undefined;
  } catch (error) {
    if (
      !(error instanceof RedisError) ||
      !(error.reply === 'NOPROTO' || (error.reply === 'ERR' && /unknown command/i.test(error.message)))
    )
      throw error;
  }
  if (password !== undefined)
    await connection.send(['AUTH', ...(user === '' ? [] : [user]), password], limit);
  const [, role] = await Promise.all([
    connection.send(['CLIENT', 'SETNAME', clientName], limit).catch(onlyRefused),
    connection.send(['ROLE'], limit).catch(onlyRefused),
  ]);
  return Array.isArray(role) ? partOf(role[0]) : undefined;
}

function partOf(role: unknown): 'primary' | 'replica' | undefined {
  return role === 'master' ? 'primary' : role === 'replica' || role === 'slave' ? 'replica' : undefined;
}

/** Ignores an error reply, for example if the user has no permission to run ROLE. Throws any other error. */
function onlyRefused(error: unknown): undefined {
  if (!(error instanceof RedisError)) throw error;
}
