/**
 * Limits of a database call: an abort signal, a timeout, or both. Also creates the error of a call that has
 * reached its limit.
 */
import { SvcError } from '../base/errors.ts';
import { bool, given, int, readOptions } from '../base/options.ts';
import { QueryCanceled, QueryTimeout, type DatabaseError } from './errors.ts';
import type { Clock } from '../base/clock.ts';
import type { Limit } from './driver.ts';

/** Longest delay of a Node.js timer in milliseconds, about 24 days. */
export const MAX_TIMEOUT_MS = 2_147_483_647;

/** Options of every method that runs a statement. They are its last argument. */
export interface QueryOptions {
  /**
   * Aborting the signal ends the wait for the result. It also ends the statement, if the engine can cancel
   * statements. SQLite can cancel only statements that run in one of its `readers`.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Time limit in milliseconds, 0 ... 2_147_483_647. 0 means no limit. Default: `statementTimeoutMs` of the
   * database.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * Marks a statement that reads for a long time. SQLite does not run it on the connection that writes, and
   * runs it in another process if the database has `readers`.
   */
  readonly longRead?: boolean | undefined;
}

/** Returns the limit of a statement inside the limit `outer` of its transaction; undefined for none. */
export function limitOf(
  options: QueryOptions | undefined,
  defaultTimeoutMs: number,
  clock: Clock,
  outer?: Limit,
): Limit | undefined {
  const read =
    options === undefined
      ? undefined
      : readOptions('the statement', options, {
          signal: given<AbortSignal>('an AbortSignal', (value) => value instanceof AbortSignal),
          timeoutMs: int(defaultTimeoutMs, 0, MAX_TIMEOUT_MS),
          longRead: bool(false),
        });
  const timeoutMs = read === undefined ? defaultTimeoutMs : read.timeoutMs;
  if (read?.signal === undefined && timeoutMs === 0) return outer;
  const deadlineMs = timeoutMs === 0 ? Infinity : clock.monotonicMs() + timeoutMs;
  if (outer === undefined) return { signal: read?.signal, deadlineMs, timeoutMs };
  const signals = [read?.signal, outer.signal].filter((signal) => signal !== undefined);
  return {
    signal: signals.length === 2 ? AbortSignal.any(signals) : signals[0],
    ...(deadlineMs < outer.deadlineMs
      ? { deadlineMs, timeoutMs }
      : { deadlineMs: outer.deadlineMs, timeoutMs: outer.timeoutMs }),
  };
}

export function limitIn(timeoutMs: number, clock: Clock, signal?: AbortSignal): Limit {
  return { signal, deadlineMs: clock.monotonicMs() + timeoutMs, timeoutMs };
}

/** Least milliseconds for COMMIT or ROLLBACK, because their outcome should become known. */
const END_MS = 5_000;

/**
 * Returns the time limit of a commit, rollback or savepoint. It is the rest of the limit `outer` of the
 * transaction, but at least {@link END_MS}, and at most `statementTimeoutMs`. Returns undefined when there is
 * no limit.
 */
export function endingLimit(
  outer: Limit | undefined,
  statementTimeoutMs: number,
  clock: Clock,
): Limit | undefined {
  if (outer === undefined && statementTimeoutMs === 0) return undefined;
  const nowMs = clock.monotonicMs();
  const timeoutMs = Math.min(
    statementTimeoutMs === 0 ? Infinity : statementTimeoutMs,
    outer === undefined ? Infinity : Math.max(outer.deadlineMs - nowMs, END_MS),
  );
  return timeoutMs === Infinity
    ? undefined
    : { signal: undefined, deadlineMs: nowMs + timeoutMs, timeoutMs: Math.round(timeoutMs) };
}

/** Milliseconds that a caller waits after its limit for the answer to a cancellation. */
const ANSWER_MS = 200;

/** Work that a caller waits for until its limit. */
interface Wait {
  /** Name of the application's promise, for its error. Undefined for a statement. */
  readonly what?: string;
  /** Milliseconds that the caller still waits after its limit. */
  readonly graceMs: number;
}

const STATEMENT: Wait = { graceMs: ANSWER_MS };
/** A row source of the application. No reply of a server can still settle it. */
export const SOURCE: Wait = { what: 'the source of the rows', graceMs: 0 };
/**
 * A callback of the application. A statement of the callback may end {@link ANSWER_MS} after the limit, and
 * then the callback can still throw the error of that statement.
 */
export const CALLBACK: Wait = { what: 'the callback of the transaction', graceMs: 2 * ANSWER_MS };

/**
 * Returns the result of `work`. If `work` has not settled at the limit and its grace time, rejects with the
 * error of the limit, and passes `work` to `onLate`. During the grace time, a promise of the application can
 * still reject with its own error, but its value is refused.
 */
export function settledBy<T>(
  work: Promise<T>,
  limit: Limit | undefined,
  clock: Clock,
  onLate: (work: Promise<unknown>) => void,
  { what, graceMs }: Wait = STATEMENT,
): Promise<T> {
  if (limit === undefined) return work;
  const named = (error: DatabaseError): DatabaseError =>
    what === undefined || error instanceof QueryCanceled ? error : stalled(what, limit);
  return new Promise((resolve, reject) => {
    let answer: Disposable | undefined;
    const watched = watchLimit(limit, clock, (error) => {
      answer = clock.after(graceMs, () => {
        onLate(work);
        reject(named(error));
      });
    });
    const stop = (): void => {
      watched?.[Symbol.dispose]();
      answer?.[Symbol.dispose]();
    };
    work.then(
      (value) => {
        stop();
        const reached = what === undefined ? undefined : limitReached(limit, clock);
        if (reached === undefined) resolve(value);
        else reject(named(reached));
      },
      (error: unknown) => {
        stop();
        reject(error as Error);
      },
    );
  });
}

export function limitReached(
  limit: Limit | undefined,
  clock: Clock,
  sql?: string,
): DatabaseError | undefined {
  if (limit === undefined) return undefined;
  if (limit.signal?.aborted === true) return canceled(limit, sql);
  return limit.deadlineMs !== Infinity && clock.monotonicMs() >= limit.deadlineMs
    ? timedOut(limit, sql)
    : undefined;
}

export function checkLimit(limit: Limit | undefined, clock: Clock, sql?: string): void {
  const reached = limitReached(limit, clock, sql);
  if (reached !== undefined) throw reached;
}

/** Calls `reached` when the limit is reached, also if that is now. Dispose of the result to stop. */
export function watchLimit(
  limit: Limit | undefined,
  clock: Clock,
  reached: (error: DatabaseError) => void,
  sql?: string,
): Disposable | undefined {
  if (limit === undefined) return undefined;
  const { signal } = limit;
  const already = limitReached(limit, clock, sql);
  if (already !== undefined) {
    reached(already);
    return undefined;
  }
  const onAbort = (): void => {
    stop();
    reached(canceled(limit, sql));
  };
  const timer =
    limit.deadlineMs === Infinity
      ? undefined
      : clock.after(Math.ceil(limit.deadlineMs - clock.monotonicMs()), () => {
          stop();
          reached(timedOut(limit, sql));
        });
  const stop = (): void => {
    signal?.removeEventListener('abort', onAbort);
    timer?.[Symbol.dispose]();
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  return { [Symbol.dispose]: stop };
}

export async function sleepWithin(
  ms: number,
  limit: Limit | undefined,
  clock: Clock,
  sql?: string,
): Promise<void> {
  const abort = new AbortController();
  const watched = watchLimit(limit, clock, (error) => abort.abort(error), sql);
  try {
    // do not use clock.after(): its timer would not keep a process alive that only waits for a lock
    await clock.sleep(ms, abort.signal);
  } finally {
    watched?.[Symbol.dispose]();
  }
}

function canceled(limit: Limit, sql: string | undefined): QueryCanceled {
  return new QueryCanceled('The signal of the caller was aborted', { sql, cause: limit.signal!.reason });
}

/** Returns the error for a promise of the application that did not settle within its limit. */
function stalled(what: string, { timeoutMs }: Limit): QueryTimeout {
  const cause = new SvcError('E_DB_STALLED', [what, timeoutMs]);
  return new QueryTimeout(cause.message, { cause });
}

function timedOut(limit: Limit, sql: string | undefined): QueryTimeout {
  return new QueryTimeout(`The time limit of ${limit.timeoutMs} ms was reached`, { sql });
}
