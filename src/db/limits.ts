/**
 * How long a verb may take: a signal, a number of milliseconds, or both; and what is thrown when that is over.
 */
import { bool, given, int, readOptions } from '../base/options.ts';
import { QueryCanceled, QueryTimeout, type DatabaseError } from './errors.ts';
import type { Clock } from '../base/clock.ts';
import type { Limit } from './driver.ts';

/** The longest timer there is, some 24 days. */
export const MAX_TIMEOUT_MS = 2_147_483_647;

/** What every verb takes last. */
export interface QueryOptions {
  /** Ends the waiting, and the statement where the engine lets us: SQLite's only when one of its `readers` runs it. */
  readonly signal?: AbortSignal | undefined;
  /** The same after so many milliseconds, 0 ... 2_147_483_647; 0, the default, is no limit. */
  readonly timeoutMs?: number | undefined;
  /** A statement that reads much: SQLite runs it beside the writing connection, in a process of its own if it has `readers`. */
  readonly longRead?: boolean | undefined;
}

/**
 * The limit of a call, inside that of its transaction. Undefined when there is none.
 *
 * @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE`
 */
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

/** How long what ends a call may take that has no time left: cut off, nobody would know whether the call took place. */
const END_MS = 5_000;

/** The limit of the end of a transaction, of a mark in it, or of what comes behind a statement: that of a statement, or what is left, but for a signal. Undefined when there is none. */
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

/** How long after its limit a caller still waits for a server that was asked to give up: most answer at once, and then the outcome is known. */
const ANSWER_MS = 200;

/**
 * Settles as `work` does, or rejects with the limit's error when the limit was reached and {@link ANSWER_MS} later there is still no
 * answer. Calls `onLate` then: `work` goes on behind the caller.
 */
export function settledBy<T>(
  work: Promise<T>,
  limit: Limit | undefined,
  clock: Clock,
  onLate: (work: Promise<unknown>) => void,
): Promise<T> {
  if (limit === undefined) return work;
  return new Promise((resolve, reject) => {
    let answer: Disposable | undefined;
    const watched = watchLimit(limit, clock, (error) => {
      answer = clock.after(ANSWER_MS, () => {
        onLate(work);
        reject(error);
      });
    });
    const stop = (): void => {
      watched?.[Symbol.dispose]();
      answer?.[Symbol.dispose]();
    };
    work.then(
      (value) => {
        stop();
        resolve(value);
      },
      (error: unknown) => {
        stop();
        reject(error as Error); // of the work
      },
    );
  });
}

/** What to throw when the limit has been reached, else undefined. */
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

/** Calls `reached` once when the limit is reached, at once if it has been. Dispose of it when that no longer matters. */
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

/** Waits, but no longer than the limit. @throws QueryCanceled, QueryTimeout */
export async function sleepWithin(
  ms: number,
  limit: Limit | undefined,
  clock: Clock,
  sql?: string,
): Promise<void> {
  const abort = new AbortController();
  const watched = watchLimit(limit, clock, (error) => abort.abort(error), sql);
  try {
    await clock.sleep(ms, abort.signal); // not after(): a program may have nothing else to do than to wait for a lock
  } finally {
    watched?.[Symbol.dispose]();
  }
}

function canceled(limit: Limit, sql: string | undefined): QueryCanceled {
  return new QueryCanceled('The caller canceled the statement', {
    sqlstate: '57014',
    sql,
    cause: limit.signal!.reason,
  }); // it is aborted, so there is one
}

function timedOut(limit: Limit, sql: string | undefined): QueryTimeout {
  return new QueryTimeout(`The statement was not finished within ${limit.timeoutMs} ms`, {
    sqlstate: '57014',
    sql,
  });
}
