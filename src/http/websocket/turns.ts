/**
 * Limits the time that zlib takes in the event loop: each turn of the event loop has a budget. When it is
 * spent, further short messages are inflated in a later turn. Deflating uses the budget, too, but never
 * waits. Long messages are processed in threads. Handlers of messages have a budget of time.
 *
 * The budget of a turn is 512 KiB of messages of all sockets, which take one to two milliseconds to inflate.
 * Each call of zlib counts as 4 KiB more, because inflating 128 short messages takes as long as 512 KiB.
 *
 * At most two long messages are processed in threads at a time. The other threads of libuv stay free for the
 * file system, DNS and cryptography.
 */
import type { Clock } from '../../base/clock.ts';

/** Number of bytes that may be inflated and deflated in one turn of the event loop. */
const TURN_BYTES = 524_288;
/** Number of bytes that a call of zlib counts as, in addition to the bytes of its message. */
const CALL_COST = 4_096;
/** Time in milliseconds that the handlers of messages of all sockets may take in one turn of the event loop. */
const HANDLERS_MS = 10;
/** Maximum number of jobs in threads: half of the default number of threads in libuv. */
const MAX_JOBS = 2;

let left = TURN_BYTES;
let isScheduled = false;
const later: (() => void)[] = [];

/** Whether this turn of the event loop has budget for another message. */
export function hasBudget(): boolean {
  return left > 0 && later.length === 0;
}

/** Subtracts a call of zlib for this number of bytes from the budget of this turn. */
export function spend(bytes: number): void {
  left -= bytes + CALL_COST;
  if (!isScheduled) setImmediate(beginTurn);
  isScheduled = true;
}

/** Calls `work`, which must call {@link spend}, in the first later turn with budget for it. */
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

/** Time at which the first handler of this turn ended; undefined before. */
let handlersSinceMs: number | undefined;

/**
 * Called when a handler of a message has ended. Returns whether further messages must wait for the next turn:
 * a client may send thousands of short messages in one packet.
 */
export function areHandlersLate({ clock }: { readonly clock: Clock }): boolean {
  const nowMs = clock.monotonicMs();
  if (handlersSinceMs !== undefined) return nowMs - handlersSinceMs >= HANDLERS_MS;
  handlersSinceMs = nowMs;
  setImmediate(() => {
    handlersSinceMs = undefined;
  });
  return false;
}

let running = 0;
const waiting: (() => void)[] = [];

/** Calls `work`, which uses a thread, as soon as fewer than MAX_JOBS such calls are running. */
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
