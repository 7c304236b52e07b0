/**
 * Whether a page of this origin has sent a request that a browser authenticates by itself, with cookies.
 */
import { foreignPage } from '../http/origins.ts';
import { OAuthError } from './errors.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { OwnPages } from '../http/origins.ts';
import type { Audit } from './audit.ts';

/** Why a request may come from a page of another origin: undefined when it does not. With `isByCookie` something has to say that the page is ours. */
export function pageIssue(
  req: HttpRequest,
  ownPages: OwnPages,
  isByCookie: boolean,
): 'site' | 'origin' | 'unknown' | undefined {
  const { origin, 'sec-fetch-site': site } = req.headers;
  return (
    foreignPage(req, ownPages) ??
    (isByCookie && origin === undefined && site === undefined ? 'unknown' : undefined)
  );
}

/** @throws OAuthError `invalid_request` 403 for a page of another origin */
export function assertOwnPage(req: HttpRequest, ownPages: OwnPages, isByCookie: boolean, audit: Audit): void {
  const problem = pageIssue(req, ownPages, isByCookie);
  if (problem === undefined) return;
  audit.foreignPage(req, problem);
  throw new OAuthError('invalid_request', {
    status: 403,
    description: 'The request does not come from a page of this origin',
    reason: problem,
  });
}
