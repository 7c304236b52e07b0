/**
 * Rate limits and audit log of the OAuth endpoints, and the check that a request with cookies comes from a
 * page of this origin.
 */
import { TooManyRequests } from '../base/errors.ts';
import { MemoryRateLimitStore } from '../cache/stores.ts';
import { clientOf } from '../http/request/proxy.ts';
import { outcomeOf } from './audit.ts';
import { OAuthError, invalidRequest } from './errors.ts';
import { SITE_BITS } from './limits.ts';
import { foreignPage } from '../http/origins.ts';
import type { Clock } from '../base/clock.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Audit } from './audit.ts';
import type { EndpointLimits } from './limits.ts';
import type { OwnPages } from '../http/origins.ts';

const MINUTE_MS = 60_000;

interface EndpointGuardDeps {
  readonly audit: Audit;
  readonly limits: EndpointLimits;
  readonly clock: Clock;
}

export class EndpointGuard {
  readonly #deps: EndpointGuardDeps;
  /** Allows one audit event a minute for each client and exceeded limit. */
  readonly #reported: MemoryRateLimitStore;

  constructor(deps: EndpointGuardDeps) {
    this.#deps = deps;
    this.#reported = new MemoryRateLimitStore({ clock: deps.clock });
  }

  /** Runs a step of a login. If it fails, logs the failure. */
  async audited(req: HttpRequest, provider: string, run: () => Promise<HttpResponse>): Promise<HttpResponse> {
    try {
      return await run();
    } catch (error) {
      this.failed(req, provider, error);
      throw error;
    }
  }

  failed(req: HttpRequest, provider: string, error: unknown): void {
    this.noteStore(req, error);
    if (!(error instanceof TooManyRequests))
      this.#deps.audit.loginFailed(req, provider, outcomeOf(error), reasonOf(error));
  }

  /** Runs a step of a request that is not a login. Logs failures of the record store and the database. */
  async watched<T>(req: HttpRequest, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.noteStore(req, error);
      throw error;
    }
  }

  noteStore(req: HttpRequest, error: unknown): void {
    if (error instanceof OAuthError && error.reason === 'store')
      this.#deps.audit.storeFailed(req, error.cause);
  }

  async take(limit: keyof EndpointLimits, req: HttpRequest, loginId?: string): Promise<void> {
    try {
      await this.#deps.limits[limit]?.take(req, loginId);
    } catch (error) {
      const isFirst = this.#reported.take(`${limit} ${loginId ?? clientOf(req.ip, SITE_BITS)}`, {
        limit: 1,
        periodMs: MINUTE_MS,
      }).isAllowed;
      if (isFirst) this.#deps.audit.rateLimited(req, limit, loginId);
      throw error;
    }
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof OAuthError) return error.reason ?? error.code;
  // an exception handler may answer this error, so that no other event names it
  return error instanceof Error ? `${error.name}: ${error.message}` : 'error';
}

/**
 * Returns why a request may come from a page of another origin; undefined for a page of this origin. If
 * cookies authenticate the request (`isByCookie`), and both `Origin` and `Sec-Fetch-Site` are absent, the
 * reason is `unknown`.
 */
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

export function assertOwnPage(req: HttpRequest, ownPages: OwnPages, isByCookie: boolean, audit: Audit): void {
  const problem = pageIssue(req, ownPages, isByCookie);
  if (problem === undefined) return;
  audit.foreignPage(req, problem);
  throw invalidRequest('The request was not sent by a page of this application', {
    status: 403,
    reason: problem,
  });
}
