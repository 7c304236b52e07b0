/**
 * How long statements take: for metrics, and for a log of those that take long. Never with their values.
 */
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';

/** How the statements of a connection are timed. */
export interface TimingOptions {
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** A statement that takes longer is logged; 0 for none. */
  readonly slowStatementMs: number;
  /** Called with the seconds that each statement has run. */
  readonly onStatement?: ((seconds: number) => void) | undefined;
}

/** Returns undefined when nothing asks for the times. */
export function timingOf(options: TimingOptions): StatementTiming | undefined {
  const { onStatement, log, slowStatementMs } = options;
  return onStatement === undefined && (log === undefined || slowStatementMs === 0)
    ? undefined
    : new StatementTiming(options);
}

/** Times batches of one statement. */
export interface BatchTiming {
  wait<T>(batch: () => Promise<T>): Promise<T>;
  /** The statement has ended. */
  end(): void;
}

/** For a connection whose statements are not timed. */
export const UNTIMED: BatchTiming = { wait: (batch) => batch(), end: () => undefined };

/** Times the statements of one connection. */
export class StatementTiming {
  readonly #options: TimingOptions;

  constructor(options: TimingOptions) {
    this.#options = options;
  }

  /** When a statement begins, for {@link end}. */
  begin(): number {
    return this.#options.clock.monotonicMs();
  }

  /** A statement that began then has ended. */
  end(startedMs: number, sql: string): void {
    this.#took(this.#options.clock.monotonicMs() - startedMs, sql);
  }

  /** Times work for a whole statement. */
  async around<T>(sql: string, work: () => Promise<T>): Promise<T> {
    const startedMs = this.begin();
    try {
      return await work();
    } finally {
      this.end(startedMs, sql);
    }
  }

  /** Times a statement whose rows are read in batches: as long as its reader waits for them. */
  batches(sql: string): BatchTiming {
    let waitedMs = 0;
    return {
      wait: async (batch) => {
        const startedMs = this.begin();
        try {
          return await batch();
        } finally {
          waitedMs += this.#options.clock.monotonicMs() - startedMs;
        }
      },
      end: () => this.#took(waitedMs, sql),
    };
  }

  #took(tookMs: number, sql: string): void {
    const { log, slowStatementMs, onStatement } = this.#options;
    onStatement?.(tookMs / 1_000);
    if (slowStatementMs > 0 && tookMs > slowStatementMs)
      log?.warn('slow_statement', { sql, took_ms: Math.round(tookMs) });
  }
}
