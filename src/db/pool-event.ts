/**
 * What befalls the connections of a pool, told on the channel `svc:db:pool` of node:diagnostics_channel and counted in
 * `svc_db_pool_events_total{database, event}`.
 */
import { channel, type Channel } from 'node:diagnostics_channel';

/** The words of `svc_db_pool_events_total`. */
export type PoolEventKind =
  /** A connection was made; was closed by us; ended by itself. */
  | 'opened' | 'closed' | 'lost'
  /** An attempt to make one has failed. */
  | 'connect_failed'
  /** A caller waited too long, or was refused because too many wait. */
  | 'timeout' | 'refused'
  /** One was given back with its transaction open, or with statements under way. */
  | 'left_open'
  /** One has been lent for longer than `leakAfterMs`. */
  | 'held_long';

/** One of them, as subscribers get it. */
export interface PoolEvent {
  readonly kind: PoolEventKind;
  /** The name of the database's plugin; `database` for one that has no other. */
  readonly database: string;
  /** Why, where there is a reason. */
  readonly error: unknown;
}

/** @internal */
export const poolEvents: Channel<unknown, PoolEvent> = channel('svc:db:pool') as Channel<unknown, PoolEvent>; // the types of Node know no names
