/**
 * Measures the time of statements, for metrics and for the log of slow statements. Neither contains bound
 * values.
 */
import type { Clock } from '../base/clock.ts';
import type { Logger } from '../observability/log.ts';

export interface TimingOptions {
  readonly clock: Clock;
  readonly log: Logger | undefined;
  /** Milliseconds after which a statement is logged; 0 disables the log. */
  readonly slowStatementMs: number;
  readonly onStatement?: ((seconds: number) => void) | undefined;
}

/** Returns a timer, or undefined when neither the log nor a metric needs it. */
export function timingOf(options: TimingOptions): StatementTiming | undefined {
  const { onStatement, log, slowStatementMs } = options;
  return onStatement === undefined && (log === undefined || slowStatementMs === 0)
    ? undefined
    : new StatementTiming(options);
}

/** Measures the time of a statement whose rows are read in batches. */
export interface BatchTiming {
  wait<T>(batch: () => Promise<T>): Promise<T>;
  end(): void;
}

/** A {@link BatchTiming} that records nothing. */
export const UNTIMED: BatchTiming = { wait: (batch) => batch(), end: () => undefined };

export class StatementTiming {
  readonly #options: TimingOptions;

  constructor(options: TimingOptions) {
    this.#options = options;
  }

  begin(): number {
    return this.#options.clock.monotonicMs();
  }

  end(startedMs: number, sql: string): void {
    this.#took(this.#options.clock.monotonicMs() - startedMs, sql);
  }

  async around<T>(sql: string, work: () => Promise<T>): Promise<T> {
    const startedMs = this.begin();
    try {
      return await work();
    } finally {
      this.end(startedMs, sql);
    }
  }

  /**
   * Returns a timer for a statement whose rows are read in batches. It adds up only the waits for batches,
   * not the time in which the reader handles them.
   */
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
