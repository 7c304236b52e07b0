/**
 * What checks find in an application, by rule, as short text: for tests of single rules. Each must be as severe as severities.ts says.
 */
import { Svc } from '../../src/app/svc.ts';
import { collectedLog } from './collected-log.ts';
import { asSevere } from './severities.ts';
import type { SvcOptions } from '../../src/app/options.ts';

/** An application that logs nowhere. */
export function quiet(options: SvcOptions = {}): Svc {
  return new Svc({ logger: collectedLog().logger, ...options });
}

/** `subject: message` of what the rules of these ids find, in the order of the report. */
export function found(app: Svc, ...ids: readonly string[]): string[] {
  return asSevere(app.check().findings)
    .filter(({ rule }) => ids.includes(rule))
    .map(({ subject, message }) => `${subject}: ${message}`);
}

/** The subjects alone. */
export function subjects(app: Svc, ...ids: readonly string[]): string[] {
  return asSevere(app.check().findings)
    .filter(({ rule }) => ids.includes(rule))
    .map(({ subject }) => subject);
}
