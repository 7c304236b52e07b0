/**
 * Limits the time that zlib takes in the event loop. Short work runs at once if this turn of the event loop
 * has budget left, otherwise in a later turn. Long work runs in threads.
 *
 * The budget is the number of bytes that all sockets of the process may inflate and deflate within one turn.
 * Inflating 512 KiB takes one to two milliseconds. Calling zlib for 128 short messages takes as long, so a
 * call counts as 4 KiB.
 *
 * At most two jobs run in threads at a time. The other threads of the pool stay free for the file system, DNS
 * and cryptography.
 */

/** Budget of one turn, in bytes. */
const TURN_BYTES = 524_288;
/** Cost of a call in addition to its bytes, in bytes. */
const CALL_COST = 4_096;
/** Maximum number of jobs in threads: half of libuv's default number of threads. */
const MAX_JOBS = 2;

let left = TURN_BYTES;
let isScheduled = false;
const later: (() => void)[] = [];

/** Whether short work may run in this turn. */
export function hasBudget(): boolean {
  return left > 0 && later.length === 0;
}

/** Subtracts work on this number of bytes from the budget of this turn. */
export function spend(bytes: number): void {
  left -= bytes + CALL_COST;
  if (!isScheduled) setImmediate(beginTurn);
  isScheduled = true;
}

/** Calls `work` in the first turn that has budget left. `work` must call {@link spend} before it returns. */
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

/** Runs long work as soon as a thread is free. */
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
