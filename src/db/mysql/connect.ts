/**
 * Connects to one server of MySQL or MariaDB: socket, greeting, TLS, log-in; and asks it, over a second connection, to give up what
 * the first one does.
 *
 *   TCP or unix socket -> greeting - disable ----------------------------------> plain
 *                                 \ SSLRequest -> TLS 1.2 or newer            -> encrypted; a server without it: refused, but with `prefer`
 *
 * Nothing but the greeting may be there when TLS begins: more was put in by somebody before. MariaDB from 11.4 on has a certificate of
 * its own making where it was given none: that is not refused, but has to be proved in the log-in, by what both know of the password.
 */
import { converse } from '../wire/conversation.ts';
import { MySqlConnection } from './connection.ts';
import { MySqlConversation } from './conversation.ts';
import { MySqlLogin } from './login.ts';
import { CAPABILITY, COMMAND } from './wire.ts';
import { ServerDriver, type ServerDriverDeps } from '../wire/server-driver.ts';
import { probeWhenSilent } from '../wire/server-probe.ts';
import { isUnixHost, type ServerHost } from '../wire/server-url.ts';
import {
  Opening,
  checksChain,
  shownEndpoint,
  tlsOptions,
  type Endpoint,
  type ServerSocket,
} from '../wire/server-socket.ts';
import type { Driver, Limit } from '../driver.ts';
import type { Greeting } from './messages.ts';
import type { MySqlConnectionOptions } from './url.ts';

/** How long it may take to reach the server in order to cancel. */
const CANCEL_MS = 4_000;
/** What Node says of a certificate that signs itself. */
const SELF_SIGNED = 'DEPTH_ZERO_SELF_SIGNED_CERT';
/** They answer for servers, and do not know which of them a second request is for before the first one is answered. */
const PROXY = /proxysql|maxscale|aurora|rds.?proxy|vitess|planetscale/i;

/**
 * A connection that is ready for statements.
 *
 * @throws ConnectionLost when the server cannot be reached, or not now; QueryTimeout, QueryCanceled; a DatabaseError with the
 * server's number when it refuses; SvcError `E_DB_CONNECT` for what no other attempt can change
 */
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

/** The driver of MySQL, and of MariaDB. */
export function mySqlDriver(deps: ServerDriverDeps<MySqlConnectionOptions>): Driver {
  return new ServerDriver<MySqlConnection>(deps, {
    connect: (host, limit) => connectMySql(host, deps.session, limit),
    kindOf: async (connection, limit) =>
      Number(await connection.scalar(READS_ONLY, [], limit)) === 0 ? 'primary off' : 'standby on',
  });
}

/** A conversation, and who has greeted. */
interface LoggedIn {
  readonly conversation: MySqlConversation;
  readonly greeting: Greeting;
}

/** `name`: the host that the certificate must be for, where `at` is its address already. */
async function logIn(
  at: ServerHost,
  options: MySqlConnectionOptions,
  limit: Limit,
  name: string,
): Promise<LoggedIn> {
  const endpoint = endpointOf(at);
  const login = new MySqlLogin({ host: name, port: at.port }, shownEndpoint(endpoint), options);
  const { link, isUnproved } = await openLink(endpoint, login, options, limit, name);
  if (options.tls.mode === 'prefer' && link.tls === undefined && endpoint.path === undefined)
    options.log?.warn('database_not_encrypted', {
      host: at.host,
      remedy: 'Ask for TLS by sslmode=verify-full, or say sslmode=disable',
    });
  const { clock } = options;
  let greeting: Greeting;
  const conversation = await converse(
    link,
    login,
    limit,
    clock,
    async () => {
      const loggedIn = await login.run(link, isUnproved);
      const { capabilities, extended, status } = loggedIn;
      greeting = loggedIn.greeting;
      return new MySqlConversation({
        socket: link.socket,
        reader: login.reader,
        dialogue: { capabilities, extended, values: options.values },
        status,
        clock,
        cancel: () => cancel(link, name, options, loggedIn.greeting),
      });
    },
    ({ onPacket }) => login.handOver(onPacket),
  );
  return { conversation, greeting: greeting! }; // the log-in has it
}

interface Link {
  readonly link: ServerSocket;
  /** Its certificate is signed by itself. */
  readonly isUnproved: boolean;
}

async function openLink(
  endpoint: Endpoint,
  login: MySqlLogin,
  { tls, password, clock }: MySqlConnectionOptions,
  limit: Limit,
  name: string,
): Promise<Link> {
  const options =
    endpoint.path !== undefined || tls.mode === 'disable'
      ? undefined
      : await tlsOptions(tls, name, shownEndpoint(endpoint));
  const opening = new Opening(endpoint, limit, clock, options === undefined);
  try {
    await opening.until('connect');
    using _silence = probeWhenSilent(endpoint, 'MySQL', clock, (kind) =>
      opening.fail(opening.refusal(`it is ${kind}, not a MySQL or MariaDB server`)),
    );
    const { capabilities, isMariaDb } = await login.greet(() => opening.bytes());
    const { socket, address } = opening;
    const isOffered = (capabilities & CAPABILITY.ssl) !== 0;
    if (options !== undefined && !isOffered && tls.mode !== 'prefer')
      throw opening.refusal('it does not offer TLS, and the address asks for it (sslmode)');
    if (options === undefined || !isOffered)
      return opening.finished({
        link: { socket, incoming: opening.streamed(), tls: undefined, address },
        isUnproved: false,
      });
    if (socket.readableLength > 0)
      throw opening.refusal(
        'it sent more than its greeting before encryption, as somebody does who is in between',
      );
    socket.write(login.sslRequest());
    const mayProve =
      isMariaDb && checksChain(tls) && tls.rootCertificate === undefined && (password ?? '') !== '';
    const secure = await opening.encrypt({ ...options, ...(mayProve && { rejectUnauthorized: false }) });
    const problem = secure.authorizationError as Error | string | undefined; // Node says the code, and its types an Error
    if (mayProve && !secure.authorized && problem !== SELF_SIGNED)
      throw opening.refusal(`its TLS is not accepted (${String(problem)})`);
    return opening.finished({
      link: { socket: secure, incoming: opening.streamed(), tls: secure, address },
      isUnproved: mayProve && !secure.authorized,
    });
  } catch (error) {
    opening.abandon();
    throw error;
  }
}

/** KILL QUERY: at the same address, logged in as the connection is. */
async function cancel(
  { address }: ServerSocket,
  name: string,
  options: MySqlConnectionOptions,
  { connectionId }: Greeting,
): Promise<void> {
  const { clock } = options;
  const limit: Limit = {
    signal: undefined,
    deadlineMs: clock.monotonicMs() + CANCEL_MS,
    timeoutMs: CANCEL_MS,
  };
  const { conversation } = await logIn(address, { ...options, database: undefined }, limit, name);
  try {
    conversation.writer.command(COMMAND.query);
    conversation.writer.text(`kill query ${connectionId}`);
    await conversation.finish(
      conversation.add(
        conversation.exchange({
          sql: 'kill query',
          kind: 'query',
          wanted: 'none',
          sequence: conversation.writer.end(),
        }),
      ),
      limit,
    );
  } finally {
    await conversation.leave();
  }
}

/** MySQL from 8.0.22 on; before, in the versions of 8.0, it costs statements that would not be needed. */
function pinsTypes({ version, isMariaDb }: Greeting): boolean {
  return !isMariaDb && Number.parseInt(version, 10) >= 8;
}

function endpointOf(at: ServerHost): Endpoint {
  return { at, path: isUnixHost(at.host) ? at.host : undefined };
}
