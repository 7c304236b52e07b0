/**
 * Marks the replies of a deprecated route: since when clients should not call it (`Deprecation`, RFC 9745),
 * when it stops working (`Sunset`, RFC 8594), and where that is explained (`Link`).
 *
 * The fields that are added:
 *   Deprecation: @1767225600
 *   Sunset: Thu, 31 Dec 2026 00:00:00 GMT
 *   Link: <https://api.example/changes>; rel="deprecation"
 */
import { SvcError } from '../../base/errors.ts';
import { given, readOptions, shown } from '../../base/options.ts';
import { httpDate } from '../headers.ts';
import { isThenable } from '../../base/promises.ts';
import type { Awaitable, HttpRequest, Middleware, Next } from '../contracts.ts';
import type { HttpResponse } from '../response.ts';

/** When a route is deprecated. Dates are `2026-01-31`, an RFC 3339 date-time, or a Date. */
export interface Deprecation {
  /** Time from which on clients should not call the route; may be in the future. */
  readonly since: string | Date;
  /** Time at which the route stops working. Not before `since`. */
  readonly sunset?: string | Date | undefined;
  /** Address of a page that explains the deprecation. */
  readonly link?: string | undefined;
}

const date = (value: unknown): boolean =>
  (typeof value === 'string' || value instanceof Date) && !Number.isNaN(msOf(value));

function msOf(value: string | Date): number {
  return value instanceof Date
    ? value.getTime()
    : /^\d{4}-\d\d-\d\d(?:[Tt].*)?$/.test(value)
      ? Date.parse(value)
      : NaN;
}

/** @throws SvcError `E_OPTION_UNKNOWN`, `E_OPTION_RANGE` */
export function readDeprecation(subject: string, options: Deprecation): Deprecation {
  const owner = `deprecated of ${subject}`;
  const needs = 'a date such as "2026-01-31"';
  const read = readOptions(owner, options, {
    since: given<string | Date>(needs, date),
    sunset: given<string | Date>(needs, date),
    link: given<string>('a URI', (value) => typeof value === 'string' && /^[!#-;=?-~]+$/.test(value)),
  });
  if (read.since === undefined) throw new SvcError('E_OPTION_RANGE', [owner, 'since', needs, 'undefined']);
  if (read.sunset !== undefined && msOf(read.sunset) < msOf(read.since))
    throw new SvcError('E_OPTION_RANGE', [owner, 'sunset', 'a date not before "since"', shown(read.sunset)]);
  return { since: read.since, sunset: read.sunset, link: read.link };
}

/** Adds the fields of a deprecation to every reply of its route. @internal */
export class DeprecationMiddleware implements Middleware {
  readonly #since: string;
  readonly #sunset: string | undefined;
  readonly #link: string | undefined;

  constructor({ since, sunset, link }: Deprecation) {
    this.#since = `@${Math.floor(msOf(since) / 1_000)}`;
    this.#sunset = sunset === undefined ? undefined : httpDate(msOf(sunset));
    this.#link = link === undefined ? undefined : `<${link}>; rel="deprecation"`;
  }

  handle(_: HttpRequest, next: Next): Awaitable<HttpResponse> {
    const response = next();
    return isThenable(response) ? this.#later(response) : this.#marked(response);
  }

  async #later(response: PromiseLike<HttpResponse>): Promise<HttpResponse> {
    return this.#marked(await response);
  }

  #marked(response: HttpResponse): HttpResponse {
    response.headers.set('Deprecation', this.#since);
    if (this.#sunset !== undefined) response.headers.set('Sunset', this.#sunset);
    if (this.#link !== undefined) response.headers.append('Link', this.#link);
    return response;
  }
}
