/**
 * A socket to PostgreSQL, encrypted as was asked for (55.2.10 of its manual).
 *
 *   TCP or unix socket - disable ---------------------------------------> plain
 *                      + SSLRequest -> S -> TLS 1.2 or newer             -> encrypted; N: refused, but with `prefer`
 *                      \ direct: TLS at once, ALPN "postgresql"        -> encrypted
 *
 * After SSLRequest exactly one byte may be there: more was put in by somebody before TLS (CVE-2021-23222), and is not read.
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

/** `host:port`, or the path of the socket. */
export function shownHost(at: PostgresHost): string {
  return shownEndpoint(endpointOf(at));
}

/**
 * Connects. `name` is the host that a certificate must be for, where `at` is its address already.
 *
 * @throws ConnectionLost when nobody answers; SvcError `E_DB_CONNECT` for what no other attempt changes; what the limit says
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
    const { socket, address } = opening;
    if (options === undefined)
      return opening.finished({ socket, incoming: opening.streamed(), tls: undefined, address });
    const isDirect = tls.negotiation === 'direct';
    if (!isDirect && !(await asksForTls(opening, at, tls.mode === 'prefer')))
      return opening.finished({ socket, incoming: opening.streamed(), tls: undefined, address });
    const secure = await opening.encrypt({ ...options, ...(isDirect && { ALPNProtocols: [ALPN] }) });
    if (isDirect && secure.alpnProtocol !== ALPN)
      throw opening.refusal(
        'it did not negotiate the protocol "postgresql" (ALPN), which direct TLS needs: PostgreSQL 17 or newer is needed',
      );
    return opening.finished({ socket: secure, incoming: opening.streamed(), tls: secure, address });
  } catch (error) {
    opening.abandon();
    throw error;
  }
}

/** Whether the server agrees. @throws when it does not and must */
async function asksForTls(opening: Opening, at: PostgresHost, mayBePlain: boolean): Promise<boolean> {
  const writer = new MessageWriter();
  writer.sslRequest();
  opening.socket.write(writer.take());
  const answer = await opening.bytes();
  const foreign = foreignServer(answer, 'PostgreSQL');
  if (foreign !== undefined) throw foreignRefusal(at, foreign);
  if (answer.length !== 1)
    throw opening.refusal(
      'it sent more than its answer before encryption, as somebody does who is in between',
    );
  if (answer[0] === YES) return true;
  if (answer[0] === ERROR)
    throw opening.refusal('it does not know of TLS (its answer is not shown: nobody has proved whose it is)');
  if (answer[0] !== NO) throw opening.refusal('its answer is not that of a PostgreSQL server');
  if (!mayBePlain) throw opening.refusal('it does not offer TLS, and the address asks for it (sslmode)');
  opening.socket.resume();
  return false;
}

/** A server of another kind. */
export function foreignRefusal(at: PostgresHost, kind: string): SvcError<'E_DB_CONNECT'> {
  return new SvcError('E_DB_CONNECT', [shownHost(at), `it is ${kind}, not a PostgreSQL server`]);
}

/** Where a server is. */
export function endpointOf(at: PostgresHost): Endpoint {
  return { at, path: isUnixHost(at.host) ? `${at.host}/.s.PGSQL.${at.port}` : undefined };
}
