/**
 * A logger whose lines a test can read.
 */
import { createLogger } from '../../src/observability/log.ts';
import type { Logger } from '../../src/observability/log.ts';

/** Returns a logger and its events so far, each parsed from its line. */
export function collectedLog(): { readonly logger: Logger; readonly events: Record<string, unknown>[] } {
  const events: Record<string, unknown>[] = [];
  const logger = createLogger({
    level: 'debug',
    format: 'json',
    sink: (line) => void events.push(JSON.parse(line) as Record<string, unknown>),
  });
  return { logger, events };
}
