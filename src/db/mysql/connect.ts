/**
 * Connects to one MySQL or MariaDB server: socket, greeting, TLS and login. Cancels a statement over a second
 * connection.
 *
 * Over TCP, the client sends an SSLRequest after the greeting, and TLS begins. With sslmode=disable, there is
 * no TLS. With sslmode=prefer, the connection stays unencrypted if the server does not offer TLS.
 *
 * Before TLS begins, the server may send only its greeting. Further bytes may come from an attacker, so they
 * end the connection.
 *
 * MariaDB 11.4 and newer creates its own certificate if none is configured. The client accepts such a
 * certificate if the server proves in the login that it knows the password's hash.
 */
import { limitIn } from '../limits.ts';
import { converse } from '../wire/conversation.ts';
import { MySqlConnection } from './connection.ts';
import { MySqlConversation } from './conversation.ts';
import { MySqlLogin } from './login.ts';
import { CAPABILITY } from './wire.ts';
import { ServerDriver, type ServerDriverDeps } from '../wire/server-driver.ts';
import { probeWhenSilent } from '../wire/server-probe.ts';
import { isUnixHost, type ServerHost } from '../wire/server-url.ts';
import {
  CANCEL_MS,
  EARLY_DATA,
  NO_TLS,
  checksChain,
  opened,
  shownEndpoint,
  warnOfPlain,
  type Endpoint,
  type Opening,
  type ServerSocket,
} from '../wire/server-socket.ts';
import type { ConnectionOptions } from 'node:tls';
import type { Driver, Limit } from '../driver.ts';
import type { Greeting } from './messages.ts';
import type { MySqlConnectionOptions } from './url.ts';

const SELF_SIGNED = 'DEPTH_ZERO_SELF_SIGNED_CERT';
/** Matches the version of a proxy that cannot handle a second request before it has replied. */
const PROXY = /proxysql|maxscale|aurora|rds.?proxy|vitess|planetscale/i;

async function connectMySql(
  host: ServerHost,
  options: MySqlConnectionOptions,
  limit: Limit,
): Promise<MySqlConnection> {
  const { conversation, greeting } = await logIn(host, options, limit, host.host);
  const connection = new MySqlConnection(
    conversation,
    { ...options, pipelines: options.pipelines && !PROXY.test(greeting.version) },
    pinsTypes(greeting),
  );
  try {
    await connection.setUp(limit);
    return connection;
  } catch (error) {
    connection.destroy();
    throw error;
  }
}

const READS_ONLY = 'select @@global.read_only';

export function mySqlDriver(deps: ServerDriverDeps<MySqlConnectionOptions>): Driver {
  return new ServerDriver<MySqlConnection>(deps, {
    connect: (host, limit) => connectMySql(host, deps.session, limit),
    kindOf: async (connection, limit) =>
      Number(await connection.scalar(READS_ONLY, [], limit)) === 0 ? 'primary off' : 'standby on',
  });
}

interface LoggedIn {
  readonly conversation: MySqlConversation;
  readonly greeting: Greeting;
}

/** Logs in at the address `at`. The certificate must match `name`, as `at` may be an IP address. */
async function logIn(
  at: ServerHost,
  options: MySqlConnectionOptions,
  limit: Limit,
  name: string,
): Promise<LoggedIn> {
  const endpoint = { at, path: isUnixHost(at.host) ? at.host : undefined };
  const login = new MySqlLogin({ host: name, port: at.port }, shownEndpoint(endpoint), options);
  const { link, isUnproved } = await opened(endpoint, options, limit, name, (opening, tls) =>
    prepareLink(opening, tls, login, options, endpoint),
  );
  warnOfPlain(options, link, at);
  const { clock } = options;
  return converse(
    link,
    login,
    limit,
    clock,
    async () => {
      const { capabilities, extended, status, greeting } = await login.run(link, isUnproved);
      const conversation = new MySqlConversation({
        socket: link.socket,
        reader: login.reader,
        dialogue: { capabilities, extended, values: options.values },
        status,
        clock,
        cancel: () => cancel(link, name, options, greeting),
      });
      return { conversation, greeting };
    },
    ({ onPacket }) => login.handOver(onPacket),
  );
}

interface Link {
  readonly link: ServerSocket;
  /** Whether the server must prove in the login that its self-signed certificate is its own. */
  readonly isUnproved: boolean;
}

async function prepareLink(
  opening: Opening,
  options: ConnectionOptions | undefined,
  login: MySqlLogin,
  { tls, password, clock }: MySqlConnectionOptions,
  endpoint: Endpoint,
): Promise<Link> {
  using _silence = probeWhenSilent(endpoint, 'MySQL', clock, (error) => opening.fail(error));
  const { capabilities, isMariaDb } = await login.greet(() => opening.bytes());
  const { socket } = opening;
  const isOffered = (capabilities & CAPABILITY.ssl) !== 0;
  if (options !== undefined && !isOffered && tls.mode !== 'prefer') throw opening.refusal(NO_TLS);
  if (options === undefined || !isOffered) return { link: opening.finished(), isUnproved: false };
  if (socket.readableLength > 0) throw opening.refusal(EARLY_DATA);
  socket.write(login.sslRequest());
  const mayProve =
    isMariaDb && checksChain(tls) && tls.rootCertificate === undefined && (password ?? '') !== '';
  const secure = await opening.encrypt({ ...options, ...(mayProve && { rejectUnauthorized: false }) });
  // Node.js sets an error code in this property, although its types declare an Error
  const problem = secure.authorizationError as Error | string | undefined;
  if (mayProve && !secure.authorized && problem !== SELF_SIGNED)
    throw opening.refusal(`the TLS connection to the server failed (${String(problem)})`);
  return { link: opening.finished(secure), isUnproved: mayProve && !secure.authorized };
}

/** Sends KILL QUERY over a new connection to the same address and account. */
async function cancel(
  { address }: ServerSocket,
  name: string,
  options: MySqlConnectionOptions,
  { connectionId }: Greeting,
): Promise<void> {
  const { clock } = options;
  const limit = limitIn(CANCEL_MS, clock);
  const { conversation } = await logIn(address, { ...options, database: undefined }, limit, name);
  try {
    await conversation.finish(conversation.query(`kill query ${connectionId}`), limit);
  } finally {
    await conversation.leave();
  }
}

/**
 * Returns whether a statement must be prepared separately for each combination of value types, as in MySQL
 * 8.0.22 and newer. Earlier 8.0 versions do not need it, but are treated alike.
 */
function pinsTypes({ version, isMariaDb }: Greeting): boolean {
  return !isMariaDb && Number.parseInt(version, 10) >= 8;
}
