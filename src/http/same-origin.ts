/**
 * Whether a page of this application has sent a request, as browsers tell it and scripts cannot change:
 * `Sec-Fetch-Site`, else `Origin`. A client that sends neither is no browser, or an old one: nothing is known of it.
 */
import type { HttpRequest } from './contracts.ts';

/** Whose pages count as our own. */
export interface OwnPages {
  /** Other origins, as browsers send them. */
  readonly trusted: ReadonlySet<string>;
  /** Whether hosts of the same site do. */
  readonly allowsSameSite: boolean;
  /** Whether trusted proxies say how a request came; else one without TLS may have had it in front of a proxy. */
  readonly knowsScheme: boolean;
}

/** What says that a page of another origin has sent the request; undefined when nothing does. */
export function foreignPage(
  req: HttpRequest,
  { trusted, allowsSameSite, knowsScheme }: OwnPages,
): 'site' | 'origin' | undefined {
  const { origin, 'sec-fetch-site': site } = req.headers;
  if (origin !== undefined && trusted.has(origin)) return undefined;
  if (site !== undefined)
    return site === 'same-origin' || site === 'none' || (site === 'same-site' && allowsSameSite)
      ? undefined
      : 'site';
  return origin === undefined || isOwnOrigin(origin, req, knowsScheme) ? undefined : 'origin';
}

/** Whether an origin is the application's own. A proxy may speak TLS for us: without word from a trusted one, a request without TLS may come from either page of its host. */
export function isOwnOrigin(origin: string, req: HttpRequest, knowsScheme: boolean): boolean {
  const scheme = origin.slice(0, origin.indexOf(':'));
  if (scheme !== req.scheme && (knowsScheme || scheme !== 'https')) return false;
  const own = `${scheme}://${req.host}`;
  return origin === own || URL.parse(own)?.origin === origin; // in capitals, or with the port that is the scheme's own
}
