/**
 * Finds the first server of a list that is reachable and has the required role (libpq's
 * target_session_attrs).
 *
 * Each new connection tries the hosts in the order of the address, so after a failover it finds the new
 * primary. With `prefer-standby`, the search first tries all hosts for a standby, and then all hosts again
 * for any server. A server that refuses the login ends the search.
 */
import { ConnectionLost, QueryTimeout } from '../errors.ts';
import { limitIn } from '../limits.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';
import type { PooledConnection } from './pool-settings.ts';
import type { ServerHost, ServerUrl, TargetSession } from './server-url.ts';

export interface Search<C extends PooledConnection> extends Pick<
  ServerUrl,
  'hosts' | 'target' | 'connectTimeoutMs'
> {
  readonly connect: (host: ServerHost, limit: Limit) => Promise<C>;
  readonly kindOf: (connection: C, limit: Limit) => Promise<ServerKind>;
  readonly clock: Clock;
}

/** Replication role of a server, and whether its transactions are read-only by default (`on` or `off`). */
export type ServerKind = `${'primary' | 'standby'} ${'on' | 'off'}`;

/** For each value of target_session_attrs, a function that returns whether a server is suitable. */
const FITS: Readonly<
  Record<Exclude<TargetSession, 'any' | 'prefer-standby'>, (kind: ServerKind) => boolean>
> = {
  'read-write': (kind) => kind === 'primary off',
  'read-only': (kind) => kind !== 'primary off',
  primary: (kind) => kind.startsWith('primary'),
  standby: (kind) => kind.startsWith('standby'),
};

export function searchMs(search: Pick<Search<never>, 'hosts' | 'target' | 'connectTimeoutMs'>): number {
  const { hosts, target, connectTimeoutMs } = search;
  return hosts.length * connectTimeoutMs * (target === 'prefer-standby' ? 2 : 1);
}

/**
 * Returns a connection to the first suitable server.
 *
 * @throws the error of the last host; ConnectionLost when all hosts are reachable, but none has the required
 *   role
 */
export async function findServer<C extends PooledConnection>(search: Search<C>, limit: Limit): Promise<C> {
  if (search.target !== 'prefer-standby') return firstOf(search, search.target, limit);
  try {
    return await firstOf(search, 'standby', limit);
  } catch (error) {
    if (!isWorthGoingOn(error)) throw error;
    return firstOf(search, 'any', limit);
  }
}

function firstOf<C extends PooledConnection>(
  search: Search<C>,
  target: Exclude<TargetSession, 'prefer-standby'>,
  limit: Limit,
): Promise<C> {
  const { hosts, clock, connectTimeoutMs } = search;
  return firstReachable(hosts, (host) => {
    const own = limitIn(connectTimeoutMs, clock, limit.signal);
    return fitting(search, host, target, own.deadlineMs < limit.deadlineMs ? own : limit);
  });
}

/** Returns a connection to the first host that can be reached. @throws the error of the last host */
export async function firstReachable<C>(
  hosts: readonly ServerHost[],
  connect: (host: ServerHost) => Promise<C>,
  signal?: AbortSignal,
): Promise<C> {
  let failure: unknown;
  for (const host of hosts) {
    try {
      return await connect(host);
    } catch (error) {
      if (!isWorthGoingOn(error) || signal?.aborted === true) throw error;
      failure = error;
    }
  }
  throw failure;
}

async function fitting<C extends PooledConnection>(
  { connect, kindOf }: Search<C>,
  host: ServerHost,
  target: Exclude<TargetSession, 'prefer-standby'>,
  limit: Limit,
): Promise<C> {
  const session = await connect(host, limit);
  if (target === 'any') return session;
  let kind: ServerKind;
  try {
    kind = await kindOf(session, limit);
  } catch (error) {
    session.destroy();
    throw error;
  }
  if (FITS[target](kind)) return session;
  void session.close();
  const found = kind.endsWith(' on') && target === 'read-write' ? 'read-only' : `a ${kind.split(' ')[0]!}`;
  throw new ConnectionLost(
    `The server at ${host.host} port ${host.port} is ${found}, but target_session_attrs requires "${target}"`,
    { sqlstate: '08001' },
  );
}

function isWorthGoingOn(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof QueryTimeout;
}
