/**
 * Opens a socket to PostgreSQL, with the requested encryption (PostgreSQL manual §55.2.10). There is no TLS
 * over a Unix socket, or with sslmode=disable.
 *
 * With sslnegotiation=postgres, the client sends an SSLRequest. After the reply S, TLS begins. After the
 * reply N, the connection stays unencrypted with sslmode=prefer, and fails with any other sslmode.
 *
 * With sslnegotiation=direct, TLS begins at once, with the ALPN protocol "postgresql".
 *
 * The reply to SSLRequest must be exactly one byte. If more bytes arrive, the connection is refused, because
 * an attacker could have injected them before TLS (CVE-2021-23222).
 */
import { MessageWriter } from './writer.ts';
import { foreignRefusal, foreignServer, probeWhenSilent } from '../wire/server-probe.ts';
import { isUnixHost } from '../wire/server-url.ts';
import {
  EARLY_DATA,
  NO_TLS,
  opened,
  shownEndpoint,
  type Endpoint,
  type Opening,
  type ServerSocket,
} from '../wire/server-socket.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';
import type { PostgresHost, PostgresTls } from './url.ts';

const ALPN = 'postgresql';
const YES = 0x53;
const NO = 0x4e;
const ERROR = 0x45;

export function shownHost(at: PostgresHost): string {
  return shownEndpoint(endpointOf(at));
}

/**
 * Opens a socket. The certificate must match the host name `name`, because `at` may be an IP address.
 *
 * @throws ConnectionLost when the server does not answer; SvcError `E_DB_CONNECT` for a permanent failure;
 *   QueryTimeout or QueryCanceled when `limit` is reached
 */
export async function openSocket(
  at: PostgresHost,
  tls: PostgresTls,
  limit: Limit,
  clock: Clock,
  name: string = at.host,
): Promise<ServerSocket> {
  const endpoint = endpointOf(at);
  return opened(endpoint, { tls, clock }, limit, name, async (opening, options) => {
    using _silence = probeWhenSilent(endpoint, 'PostgreSQL', clock, (error) => opening.fail(error));
    if (options === undefined) return opening.finished();
    const isDirect = tls.negotiation === 'direct';
    if (!isDirect && !(await asksForTls(opening, tls.mode === 'prefer'))) return opening.finished();
    const secure = await opening.encrypt({ ...options, ...(isDirect && { ALPNProtocols: [ALPN] }) });
    if (isDirect && secure.alpnProtocol !== ALPN)
      throw opening.refusal(
        'the server does not support sslnegotiation=direct (no ALPN protocol "postgresql"): use PostgreSQL 17 or newer, or remove sslnegotiation',
      );
    return opening.finished(secure);
  });
}

/**
 * Sends an SSLRequest. Returns whether the server agrees to TLS. @throws if TLS is required and the server
 * refuses it
 */
async function asksForTls(opening: Opening, mayBePlain: boolean): Promise<boolean> {
  const writer = new MessageWriter();
  writer.sslRequest();
  opening.socket.write(writer.take());
  const answer = await opening.bytes();
  const foreign = foreignServer(answer, 'PostgreSQL');
  if (foreign !== undefined) throw foreignRefusal(opening.shown, foreign, 'PostgreSQL');
  if (answer.length !== 1) throw opening.refusal(EARLY_DATA);
  if (answer[0] === YES) return true;
  if (answer[0] === ERROR)
    throw opening.refusal(
      'the server refused TLS with an error (the text is not shown, because an attacker may have sent it)',
    );
  if (answer[0] !== NO) throw opening.refusal('the reply does not come from a PostgreSQL server');
  if (!mayBePlain) throw opening.refusal(NO_TLS);
  opening.socket.resume();
  return false;
}

export function endpointOf(at: PostgresHost): Endpoint {
  return { at, path: isUnixHost(at.host) ? `${at.host}/.s.PGSQL.${at.port}` : undefined };
}
