/**
 * The first server of a list that can be reached and is of the wanted kind (libpq's target_session_attrs).
 *
 *   host after host, in the order of the address, until one does: tried anew for each connection, so that they move when the
 *   primary does. `prefer-standby` goes through the list twice. A server that refuses the log-in ends the search.
 */
import { ConnectionLost, QueryTimeout } from './db-errors.ts';
import type { Clock } from '../clock.ts';
import type { Limit } from './driver.ts';
import type { ConnectPostgres, PostgresConnectionOptions, PostgresHost, PostgresSession, TargetSession } from './postgres-options.ts';

/** What is looked for, and where. */
export interface Search {
  readonly hosts: readonly PostgresHost[];
  readonly target: TargetSession;
  /** For each host. */
  readonly connectTimeoutMs: number;
  readonly connect: ConnectPostgres;
  readonly options: PostgresConnectionOptions;
  readonly clock: Clock;
}

/** Two words: which part it has in replication, and whether transactions only read unless they say otherwise. */
const KIND = "select case when pg_catalog.pg_is_in_recovery() then 'standby' else 'primary' end || ' ' || pg_catalog.current_setting('transaction_read_only')";

/** Whether a server of that kind will do. */
const FITS: Readonly<Record<Exclude<TargetSession, 'any' | 'prefer-standby'>, (kind: string) => boolean>> = {
  'read-write': (kind) => kind === 'primary off',
  'read-only': (kind) => kind !== 'primary off',
  primary: (kind) => kind.startsWith('primary'),
  standby: (kind) => kind.startsWith('standby'),
};

/** How long the longest search takes. */
export function searchMs({ hosts, target, connectTimeoutMs }: Pick<Search, 'hosts' | 'target' | 'connectTimeoutMs'>): number {
  return hosts.length * connectTimeoutMs * (target === 'prefer-standby' ? 2 : 1);
}

/** @throws what the last host was left for; ConnectionLost when all could be reached and none is of that kind */
export async function findServer(search: Search, limit: Limit): Promise<PostgresSession> {
  if (search.target !== 'prefer-standby') return firstOf(search, search.target, limit);
  try {
    return await firstOf(search, 'standby', limit);
  } catch (error) {
    if (!isWorthGoingOn(error)) throw error;
    return firstOf(search, 'any', limit);
  }
}

async function firstOf(search: Search, target: Exclude<TargetSession, 'prefer-standby'>, limit: Limit): Promise<PostgresSession> {
  const { hosts, clock, connectTimeoutMs } = search;
  let failure: unknown;
  for (const host of hosts) {
    const ownMs = clock.monotonicMs() + connectTimeoutMs;
    const own: Limit = ownMs < limit.deadlineMs ? { signal: limit.signal, deadlineMs: ownMs, timeoutMs: connectTimeoutMs } : limit;
    try {
      return await fitting(search, host, target, own);
    } catch (error) {
      if (!isWorthGoingOn(error)) throw error;
      failure = error;
    }
  }
  throw failure;
}

async function fitting({ connect, options }: Search, host: PostgresHost, target: Exclude<TargetSession, 'prefer-standby'>, limit: Limit): Promise<PostgresSession> {
  const session = await connect(host, options, limit);
  if (target === 'any') return session;
  let kind: string;
  try {
    kind = String(await session.scalar(KIND, [], limit));
  } catch (error) {
    session.destroy();
    throw error;
  }
  if (FITS[target](kind)) return session;
  void session.close();
  const found = kind.endsWith(' on') && target === 'read-write' ? 'one that only reads' : `a ${kind.split(' ')[0]!}`;
  throw new ConnectionLost(`The server at ${host.host} port ${host.port} is ${found}, and target_session_attrs asks for "${target}"`, { sqlstate: '08001' });
}

function isWorthGoingOn(error: unknown): boolean {
  return error instanceof ConnectionLost || error instanceof QueryTimeout;
}
