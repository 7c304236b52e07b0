/**
 * Event-loop time for zlib: short work runs at once while the turn has budget, or in a later turn. Long work runs in threads.
 *
 *   budget   bytes that all sockets of the process may inflate and deflate within one turn; behind it work waits, in order
 *   threads  two jobs at a time, so that the file system, DNS and cryptography have the other threads of the pool
 *
 * Inflating 512 KiB takes one to two milliseconds, and so do the calls for 128 short messages.
 */

/** Bytes of one turn. */
const TURN_BYTES = 524_288;
/** Bytes that a call costs besides its own. */
const CALL_COST = 4_096;
/** Half of the threads that libuv has unless its user raises that. */
const MAX_JOBS = 2;

let left = TURN_BYTES;
let isScheduled = false;
const later: (() => void)[] = [];

/** Whether short work may run at once. */
export function hasBudget(): boolean {
  return left > 0 && later.length === 0;
}

/** Subtracts short work from the budget. */
export function spend(bytes: number): void {
  left -= bytes + CALL_COST;
  if (!isScheduled) setImmediate(beginTurn);
  isScheduled = true;
}

/** Calls `work` in the first turn that has budget for it. It must spend before it returns. */
export function whenBudget(work: () => void): void {
  later.push(work);
}

function beginTurn(): void {
  isScheduled = false;
  left = TURN_BYTES;
  while (left > 0) {
    const work = later.shift();
    if (work === undefined) return;
    work();
  }
}

let running = 0;
const waiting: (() => void)[] = [];

/** Runs long work when a thread is free for it. */
export async function inThread<T>(work: () => Promise<T>): Promise<T> {
  if (running < MAX_JOBS) running++;
  else await new Promise<void>((resolve) => void waiting.push(resolve));
  try {
    return await work();
  } finally {
    const next = waiting.shift();
    if (next === undefined) running--;
    else next();
  }
}
