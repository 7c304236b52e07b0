/**
 * Reads the option `deprecated` of routes and fields.
 */
import { SvcError } from '../base/errors.ts';
import { defined, given, isRecord, readOptions, shown } from '../base/options.ts';
import { checkedMs, isDate, momentMs } from './formats.ts';

import type { Deprecation } from './types.ts';

const date = (value: unknown): boolean =>
  (typeof value === 'string' || value instanceof Date) && !Number.isNaN(deprecationMs(value));

/** Returns the milliseconds since 1970 of a date, an RFC 3339 date-time or a Date; NaN for other values. */
export function deprecationMs(value: string | Date): number {
  if (value instanceof Date) return checkedMs(value.getTime());
  return isDate(value) ? Date.parse(value) : momentMs(value);
}

/**
 * @throws SvcError `E_OPTION_UNKNOWN` for an unknown member, `E_OPTION_RANGE` for an invalid date or address
 */
export function readDeprecation(subject: string, options: Deprecation): Deprecation {
  const owner = `deprecated of ${subject}`;
  const needs = 'a date such as "2026-01-31"';
  const read = readOptions(owner, options, {
    since: given<string | Date>(needs, date),
    sunset: given<string | Date>(needs, date),
    link: given<string>('a URI', (value) => typeof value === 'string' && /^[!#-;=?-~]+$/.test(value)),
  });
  if (read.since === undefined)
    throw new SvcError('E_OPTION_RANGE', [owner, 'since', `needs ${needs}`, 'undefined']);
  if (read.sunset !== undefined && deprecationMs(read.sunset) < deprecationMs(read.since))
    throw new SvcError('E_OPTION_RANGE', [
      owner,
      'sunset',
      'must not be earlier than the option "since"',
      shown(read.sunset),
    ]);
  return { since: read.since, sunset: read.sunset, link: read.link };
}

/**
 * Returns the options of a field that only describe it in API documents, such as `title` and `examples`.
 * @throws SvcError `E_OPTION_UNKNOWN` or `E_OPTION_RANGE` when `deprecated` is an object with an invalid
 * member
 */
export function aboutOf(read: Readonly<Record<string, unknown>>, owner: string): object {
  const { title, description, example, examples, deprecated: given } = read;
  const deprecated = isRecord(given) ? readDeprecation(owner, given as unknown as Deprecation) : given;
  return Object.freeze(defined({ title, description, example, examples, deprecated }));
}
