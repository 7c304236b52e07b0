/**
 * The first server of a list that can be reached and is of the wanted kind (libpq's target_session_attrs).
 *
 *   host after host, in the order of the address, until one does: tried anew for each connection, so that they move when the
 *   primary does. `prefer-standby` goes through the list twice. A server that refuses the log-in ends the search.
 */
import { ConnectionLost, QueryTimeout } from '../errors.ts';
import type { Clock } from '../../base/clock.ts';
import type { Limit } from '../driver.ts';
import type { PooledConnection } from './pool-settings.ts';
import type { ServerHost, TargetSession } from './server-url.ts';

/** What is looked for, and where. */
export interface Search<C extends PooledConnection> {
  readonly hosts: readonly ServerHost[];
  readonly target: TargetSession;
  /** For each host. */
  readonly connectTimeoutMs: number;
  readonly connect: (host: ServerHost, limit: Limit) => Promise<C>;
  readonly kindOf: (connection: C, limit: Limit) => Promise<ServerKind>;
  readonly clock: Clock;
}

/** Which part a server has in replication, and whether its transactions only read unless they say otherwise. */
export type ServerKind = `${'primary' | 'standby'} ${'on' | 'off'}`;

/** Whether a server of that kind will do. */
const FITS: Readonly<
  Record<Exclude<TargetSession, 'any' | 'prefer-standby'>, (kind: ServerKind) => boolean>
> = {
  'read-write': (kind) => kind === 'primary off',
  'read-only': (kind) => kind !== 'primary off',
  primary: (kind) => kind.startsWith('primary'),
  standby: (kind) => kind.startsWith('standby'),
};

/** How long the longest search takes. */
export function searchMs({
  hosts,
  target,
  connectTimeoutMs,
}: {
  readonly hosts: readonly ServerHost[];
  readonly target: TargetSession;
  readonly connectTimeoutMs: number;
}): number {
  return hosts.length * connectTimeoutMs * (target === 'prefer-standby' ? 2 : 1);
}

/** @throws what the last host was left for; ConnectionLost when all could be reached and none is of that kind */
export async function findServer<C extends PooledConnection>(search: Search<C>, limit: Limit): Promise<C> {
  if (search.target !== 'prefer-standby') return firstOf(search, search.target, limit);
  try {
    return await firstOf(search, 'standby', limit);
  } catch (error) {
    if (!isWorthGoingOn(error)) throw error;
    return firstOf(search, 'any', limit);
  }
}

async function firstOf<C extends PooledConnection>(
  search: Search<C>,
  target: Exclude<TargetSession, 'prefer-standby'>,
  limit: Limit,
): Promise<C> {
  const { hosts, clock, connectTimeoutMs } = search;
  let failure: unknown;
  for (const host of hosts) {
    const ownMs = clock.monotonicMs() + connectTimeoutMs;
    const own: Limit =
      ownMs < limit.deadlineMs
        ? { signal: limit.signal, deadlineMs: ownMs, timeoutMs: connectTimeoutMs }
        : limit;
    try {
      return await fitting(search, host, target, own);
    } catch (error) {
      if (!isWorthGoingOn(error)) throw error;
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
  const found =
    kind.endsWith(' on') && target === 'read-write' ? 'one that only reads' : `a ${kind.split(' ')[0]!}`;
  throw new ConnectionLost(
    `The server at ${host.host} port ${host.port} is ${found}, and target_session_attrs asks for "${target}"`,
    { sqlstate: '08001' },
  );
}

function isWorthGoingOn(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof QueryTimeout;
}
