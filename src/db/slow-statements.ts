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
    const { clock, log, slowStatementMs, onStatement } = this.#options;
    const tookMs = clock.monotonicMs() - startedMs;
    onStatement?.(tookMs / 1_000);
    if (slowStatementMs > 0 && tookMs > slowStatementMs)
      log?.warn('slow_statement', { sql, took_ms: Math.round(tookMs) });
  }
}
