/**
 * Limits and audit of every endpoint: counts requests against limits, and writes failures to the audit trail.
 */
import { TooManyRequests } from '../base/errors.ts';
import { MemoryRateLimitStore } from '../cache/stores.ts';
import { clientOf } from '../http/request/proxy.ts';
import { outcomeOf } from './audit.ts';
import { OAuthError } from './errors.ts';
import { SITE_BITS } from './limits.ts';
import type { Clock } from '../base/clock.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { HttpResponse } from '../http/response.ts';
import type { Audit } from './audit.ts';
import type { EndpointLimits } from './limits.ts';

const MINUTE_MS = 60_000;

/** Limits and audit trail of the endpoints. */
export class EndpointGuard {
  readonly #audit: Audit;
  readonly #limits: EndpointLimits;
  /** Refusals in the audit trail: one event a minute for each client and limit. */
  readonly #reported: MemoryRateLimitStore;

  constructor(deps: { readonly audit: Audit; readonly limits: EndpointLimits; readonly clock: Clock }) {
    this.#audit = deps.audit;
    this.#limits = deps.limits;
    this.#reported = new MemoryRateLimitStore({ clock: deps.clock });
  }

  /** A step of a login: if it fails, the trail has it. */
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
      this.#audit.loginFailed(
        req,
        provider,
        outcomeOf(error),
        error instanceof OAuthError ? (error.reason ?? error.code) : 'error',
      );
  }

  /** A step of another request. */
  async watched<T>(req: HttpRequest, run: () => Promise<T>): Promise<T> {
    try {
      return await run();
    } catch (error) {
      this.noteStore(req, error);
      throw error;
    }
  }

  /** A database that fails is the operator's business, whatever it was asked for. */
  noteStore(req: HttpRequest, error: unknown): void {
    if (error instanceof OAuthError && error.reason === 'store') this.#audit.storeFailed(req, error.cause);
  }

  /** Counts a request. @throws TooManyRequests */
  async take(limit: keyof EndpointLimits, req: HttpRequest, loginId?: string): Promise<void> {
    try {
      await this.#limits[limit]?.take(req, loginId);
    } catch (error) {
      const isFirst = this.#reported.take(`${limit} ${loginId ?? clientOf(req.ip, SITE_BITS)}`, {
        limit: 1,
        periodMs: MINUTE_MS,
      }).isAllowed;
      if (isFirst) this.#audit.rateLimited(req, limit, loginId);
      throw error;
    }
  }
}
