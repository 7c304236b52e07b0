/**
 * Audit log of logins: the logger `svc_oauth` writes an event for each step. Counters show the results as
 * metrics.
 *
 * Audit events never contain tokens, codes, login states, PKCE verifiers, cookies or passwords. `sub` is the
 * application's id of the user, `login_id` the id of the login, `ip` the address of the client.
 */
import { HTTPException } from '../base/errors.ts';
import { OAuthError } from './errors.ts';
import { ProviderFault } from '../auth/provider/failure.ts';
import type { Counter, Metrics } from '../observability/metrics.ts';
import type { Logger } from '../observability/log.ts';
import type { HttpRequest } from '../http/contracts.ts';
import type { Identity } from './provider-tokens.ts';
import type { Identified } from './provider/client.ts';
import type { CheckedClaim } from './provider/user-info.ts';
import type { LoginRow } from './tokens/store.ts';

/** Result of a login: the label `outcome` of the metric `svc_oauth_logins_total`. */
type LoginOutcome = 'succeeded' | 'denied' | 'state_rejected' | 'provider_failed' | 'refused' | 'failed';

/** An identity; without a subject, all identities at the provider. */
type UnlinkedIdentity = Pick<Identity, 'provider'> & { readonly subject?: string | undefined };
type LoginFields = Pick<LoginRow, 'id' | 'provider' | 'sub'>;

export class Audit {
  readonly #log: Logger;
  readonly #logins: Counter;
  readonly #refreshes: Counter;
  readonly #reuses: Counter;

  constructor(log: Logger, metrics: Metrics) {
    this.#log = log;
    this.#logins = metrics.counter('svc_oauth_logins_total', 'Logins by provider and outcome', [
      'provider',
      'outcome',
    ]);
    this.#refreshes = metrics.counter('svc_oauth_refresh_total', 'Refreshes by outcome', ['outcome']);
    this.#reuses = metrics.counter(
      'svc_oauth_reuse_total',
      'Logins ended because a rotated refresh token was presented again',
    );
  }

  loginStarted(req: HttpRequest, provider: string): void {
    // only at level `debug`, because anonymous clients can start any number of logins
    this.#log.debug('login_started', { provider, ...fieldsOf(req) });
  }

  loginSucceeded(req: HttpRequest, login: LoginFields): void {
    this.#logins.add(1, login.provider, 'succeeded');
    const fields = fieldsOf(req, login);
    this.#log.info('login_succeeded', { ...fields, category: 'authn_login_success' });
    this.#log.info('token_issued', { ...fields, category: 'authn_token_created' });
  }

  info(event: string, req: HttpRequest, fields: UnlinkedIdentity & Pick<LoginRow, 'sub'>): void {
    this.#log.info(event, { ...fields, ...fieldsOf(req) });
  }

  /** Logs a refusal that no metric counts. `reason` may be a long text of the provider, so it is shortened. */
  warn(event: string, req: HttpRequest, reason: string, provider?: string): void {
    this.#log.warn(event, { provider, reason: cut(reason), ...fieldsOf(req) });
  }

  claimsRefused(req: HttpRequest, provider: string, claims: readonly CheckedClaim[]): void {
    this.#log.warn('user_claims_refused', {
      provider,
      claims: claims.join(' '),
      ...fieldsOf(req),
      category: 'input_validation_fail',
    });
  }

  /** Logs if a provider did not send the e-mail address for which a login asked by a scope. */
  emailAsked(req: HttpRequest, provider: string, identified: Identified): void {
    const { info, refused, emailsStatus } = identified;
    if (emailsStatus !== undefined)
      this.#log.warn('user_email_absent', {
        provider,
        reason: `emails_status_${emailsStatus}`,
        remedy:
          'Allow the application to read e-mail addresses: give a GitHub App the account permission "Email addresses" (read-only). If no code needs the address, leave its scope out of the option "scopes"',
        ...fieldsOf(req),
      });
    else if (info.email === null && !refused.includes('email'))
      // the user may have no address, or keep it from the application
      this.#log.info('user_email_absent', {
        provider,
        reason: 'not_sent',
        remedy:
          'If every user lacks an address, allow the application to read it in the settings of the provider. If no code needs the address, leave its scope out of the option "scopes"',
        ...fieldsOf(req),
      });
  }

  /** Logs a failed login. `reason` may be a long text of the provider, so it is shortened. */
  loginFailed(req: HttpRequest, provider: string, outcome: LoginOutcome, reason: string): void {
    this.#logins.add(1, provider, outcome);
    const fields = { provider, reason: cut(reason), ...fieldsOf(req), category: 'authn_login_fail' };
    if (outcome === 'denied') this.#log.info('login_failed', fields);
    else if (outcome === 'state_rejected') this.#log.warn('state_rejected', fields);
    else if (outcome === 'provider_failed') this.#log.warn('provider_error', fields);
    else this.#log.warn('login_failed', fields);
  }

  tokenRefreshed(req: HttpRequest | undefined, login: LoginFields, how: 'rotated' | 'replayed'): void {
    this.#refreshes.add(1, how);
    this.#log.info('token_refreshed', { how, ...fieldsOf(req, login) });
  }

  refreshRefused(req: HttpRequest | undefined, reason: string, loginId?: string): void {
    this.#refreshes.add(1, 'refused');
    this.#log.info('token_refused', { reason, login_id: loginId, ...fieldsOf(req) });
  }

  storeFailed(req: HttpRequest, error: unknown): void {
    if (req.path.endsWith('/token')) this.#refreshes.add(1, 'unavailable');
    this.#log.error('token_store_failed', error, fieldsOf(req));
  }

  /**
   * Logs that a client has exceeded a rate limit. Called at most once a minute for each client and limit.
   */
  rateLimited(req: HttpRequest, limit: string, loginId: string | undefined): void {
    this.#log.warn('rate_limited', {
      limit,
      login_id: loginId,
      ...fieldsOf(req),
      category: 'excess_rate_limit_exceeded',
    });
  }

  foreignPage(req: HttpRequest, reason: string): void {
    this.#refreshes.add(1, 'refused');
    this.#log.warn('token_refused', {
      reason: `foreign_page_${reason}`,
      ...fieldsOf(req),
      category: 'malicious_csrf',
    });
  }

  /** Logs the reuse of a refresh token. Called once for each login that ends because of a reuse. */
  reuseDetected(req: HttpRequest | undefined, login: LoginFields): void {
    this.#refreshes.add(1, 'reuse');
    this.#reuses.add(1);
    this.#log.warn('token_reuse_detected', { ...fieldsOf(req, login), category: 'authn_token_reuse' });
  }

  tokenRevoked(req: HttpRequest | undefined, loginId: string, reason: string, sub?: string): void {
    this.#log.info('token_revoked', {
      login_id: loginId,
      reason,
      sub,
      ...fieldsOf(req),
      category: 'authn_token_revoked',
    });
  }

  allRevoked(sub: string, count: number): void {
    this.#log.info('revoke_all', { sub, count, category: 'authn_token_revoked' });
  }
}

function fieldsOf(req: HttpRequest | undefined, login?: LoginFields): Readonly<Record<string, string>> {
  return {
    ...(login === undefined ? {} : { provider: login.provider, sub: login.sub, login_id: login.id }),
    ...(req === undefined ? {} : { request_id: req.id, ip: req.ip }),
  };
}

const MAX_REASON = 200;

function cut(text: string): string {
  return text.length <= MAX_REASON ? text : `${text.slice(0, MAX_REASON)}…`;
}

/** Returns the `outcome` of a failed login, a label of the metric `svc_oauth_logins_total`. */
export function outcomeOf(error: unknown): LoginOutcome {
  if (!(error instanceof OAuthError))
    return error instanceof HTTPException && error.status < 500 ? 'refused' : 'failed';
  if (error.cause instanceof ProviderFault || error.code === 'provider_error') return 'provider_failed';
  if (error.code === 'invalid_state' || error.code === 'state_browser_mismatch') return 'state_rejected';
  if (error.code === 'temporarily_unavailable') return 'failed';
  return isUsersAnswer(error.code) && error.reason === error.code ? 'denied' : 'refused';
}

/** Codes of a provider that report a decision of the user (OpenID Connect Core §3.1.2.6). */
const USER_DECISIONS = [
  'access_denied',
  'login_required',
  'interaction_required',
  'consent_required',
  'account_selection_required',
] as const;

/** Returns whether a code reports a decision of the user. Clients get it unchanged. */
export function isUsersAnswer(error: string): error is (typeof USER_DECISIONS)[number] {
  return (USER_DECISIONS as readonly string[]).includes(error);
}
