/**
 * Clocks for tests of pools whose callers wait. How long an attempt to connect takes depends on the load
 * of the machine, so the time of these tests passes only after an attempt has failed.
 */
import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';

import { ManualClock } from '../../src/base/manual-clock.ts';
import { PoolTimeout, type Database, type PoolEvent } from '../../src/db/index.ts';
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

/**
 * Holds both connections of a pool with `max: 2` in transactions, and returns the error of a third caller whose
 * `acquireTimeoutMs` passes on the clock of the pool.
 */
export async function refusedBeside(db: Database, clock: ManualClock, waitMs: number): Promise<PoolTimeout> {
  const [held, both] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let begun = 0;
  const hold = (): Promise<void> => {
    if (++begun === 2) both.resolve();
    return held.promise;
  };
  const holding = [db.transaction(hold), db.transaction(hold)];
  await both.promise;
  const waiting = db.scalar('select 1').catch((error: unknown) => error);
  await clock.advance(waitMs);
  held.resolve();
  await Promise.all(holding);
  const refused = await waiting;
  assert.ok(refused instanceof PoolTimeout, String(refused));
  return refused;
}
