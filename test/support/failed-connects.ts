/**
 * A clock for tests of databases that cannot be used. How long an attempt to connect takes depends on the load
 * of the machine, so the time of these tests passes only after an attempt has failed.
 */
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { ManualClock } from '../../src/base/manual-clock.ts';
import type { PoolEvent } from '../../src/db/index.ts';
import type { Scope } from './run.ts';

/** Longer than `acquireTimeoutMs` and than every pause between attempts. */
const STEP_MS = 60_000;

/** Returns a clock that every failed attempt to connect moves until the callers of the pool stop waiting. */
export function failedConnects(scope: Scope): ManualClock {
  const clock = new ManualClock();
  const note = (event: unknown): void => {
    if ((event as PoolEvent).kind === 'connect_failed') setImmediate(() => void clock.advance(STEP_MS));
  };
  subscribe('svc:db:pool', note);
  scope.after(() => void unsubscribe('svc:db:pool', note));
  return clock;
}
