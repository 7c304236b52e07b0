/**
 * Opens a socket to PostgreSQL, with the requested encryption (55.2.10 of its manual).
 *
 *   TCP or unix socket - disable ---------------------------------------> plain
 *                      + SSLRequest -> S -> TLS 1.2 or newer             -> encrypted; N: refused, but with `prefer`
 *                      \ direct: TLS at once, ALPN "postgresql"        -> encrypted
 *
 * The reply to SSLRequest must be exactly one byte. Further bytes could have been injected by an attacker
 * before TLS (CVE-2021-23222), so they are refused.
 */
import { SvcError } from '../../base/errors.ts';
import { MessageWriter } from './writer.ts';
import { foreignServer, probeWhenSilent } from '../wire/server-probe.ts';
import { isUnixHost } from '../wire/server-url.ts';
import {
  Opening,
  shownEndpoint,
  tlsOptions,
  type Endpoint,
  type ServerSocket,
} from '../wire/server-socket.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';
import type { PostgresHost, PostgresTls } from './url.ts';

/** A socket that is ready for the start-up message. */
export type PostgresSocket = ServerSocket;

const ALPN = 'postgresql';
const YES = 0x53;
const NO = 0x4e;
const ERROR = 0x45;

/** Returns `host:port`, or the path of the unix socket. */
export function shownHost(at: PostgresHost): string {
  return shownEndpoint(endpointOf(at));
}

/**
 * Connects. `name` is the host name that the certificate must match when `at` is an IP address.
 *
 * @throws ConnectionLost when the server does not answer; SvcError `E_DB_CONNECT` for a permanent failure;
 * the limit's error
 */
export async function openSocket(
  at: PostgresHost,
  tls: PostgresTls,
  limit: Limit,
  clock: Clock,
  name: string = at.host,
): Promise<PostgresSocket> {
  const endpoint = endpointOf(at);
  const options =
    endpoint.path !== undefined || tls.mode === 'disable'
      ? undefined
      : await tlsOptions(tls, name, shownEndpoint(endpoint));
  const opening = new Opening(endpoint, limit, clock, options === undefined);
  try {
    await opening.until('connect');
    using _silence = probeWhenSilent(endpoint, 'PostgreSQL', clock, (kind) =>
      opening.fail(foreignRefusal(at, kind)),
    );
    if (options === undefined) return opening.finished();
    const isDirect = tls.negotiation === 'direct';
    if (!isDirect && !(await asksForTls(opening, at, tls.mode === 'prefer'))) return opening.finished();
    const secure = await opening.encrypt({ ...options, ...(isDirect && { ALPNProtocols: [ALPN] }) });
    if (isDirect && secure.alpnProtocol !== ALPN)
      throw opening.refusal(
        'the server did not negotiate the protocol "postgresql" (ALPN), which direct TLS needs: PostgreSQL 17 or newer is needed',
      );
    return opening.finished(secure);
  } catch (error) {
    opening.abandon();
    throw error;
  }
}

/** Returns whether the server agrees to TLS. @throws if TLS is required and the server refuses it */
async function asksForTls(opening: Opening, at: PostgresHost, mayBePlain: boolean): Promise<boolean> {
  const writer = new MessageWriter();
  writer.sslRequest();
  opening.socket.write(writer.take());
  const answer = await opening.bytes();
  const foreign = foreignServer(answer, 'PostgreSQL');
  if (foreign !== undefined) throw foreignRefusal(at, foreign);
  if (answer.length !== 1)
    throw opening.refusal(
      'the server sent data before encryption, which indicates an attacker between client and server',
    );
  if (answer[0] === YES) return true;
  if (answer[0] === ERROR)
    throw opening.refusal(
      'the server does not support TLS (its message is not shown, because the server is not authenticated)',
    );
  if (answer[0] !== NO) throw opening.refusal('the reply does not come from a PostgreSQL server');
  if (!mayBePlain)
    throw opening.refusal('the server does not offer TLS, which the address requires (sslmode)');
  opening.socket.resume();
  return false;
}

/** Returns the error for a server of another kind. */
export function foreignRefusal(at: PostgresHost, kind: string): SvcError<'E_DB_CONNECT'> {
  return new SvcError('E_DB_CONNECT', [shownHost(at), `the server is ${kind}, not a PostgreSQL server`]);
}

/** Returns the address of a server as text. */
export function endpointOf(at: PostgresHost): Endpoint {
  return { at, path: isUnixHost(at.host) ? `${at.host}/.s.PGSQL.${at.port}` : undefined };
}
