/**
 * Runs checks on an application and returns their findings as short texts, for tests of single rules. Asserts
 * the severity in severities.ts.
 */
import { Svc } from '../../src/app/svc.ts';
import { collectedLog } from './collected-log.ts';
import { asSevere } from './severities.ts';
import type { SvcOptions } from '../../src/app/options.ts';

/** Returns an application without log output. */
export function quiet(options: SvcOptions = {}): Svc {
  return new Svc({ logger: collectedLog().logger, ...options });
}

/** Returns `subject: message` of each finding of these rules, in the order of the report. */
export function found(app: Svc, ...ids: readonly string[]): string[] {
  return asSevere(app.check().findings)
    .filter(({ rule }) => ids.includes(rule))
    .map(({ subject, message }) => `${subject}: ${message}`);
}

/** Returns only the subjects. */
export function subjects(app: Svc, ...ids: readonly string[]): string[] {
  return asSevere(app.check().findings)
    .filter(({ rule }) => ids.includes(rule))
    .map(({ subject }) => subject);
}
