/**
 * Errors under `/oauth/*`, sent as the JSON objects of RFC 6749 §5.2. The description of an error does not
 * reveal why a token is invalid.
 */
import { HTTPException } from '../base/errors.ts';

/**
 * Error codes of responses under `/oauth/*`: codes of RFC 6749, RFC 9449 and OpenID Connect Core §3.1.2.6,
 * and codes of this plugin.
 */
export type OAuthErrorCode =
  | 'access_denied'
  | 'account_selection_required'
  | 'account_taken'
  | 'consent_required'
  | 'interaction_required'
  | 'invalid_dpop_proof'
  | 'invalid_grant'
  | 'invalid_redirect_uri'
  | 'invalid_request'
  | 'invalid_scope'
  | 'invalid_state'
  | 'issuer_mismatch'
  | 'last_login_method'
  | 'login_required'
  | 'provider_error'
  | 'provider_timeout'
  | 'rate_limited'
  | 'server_error'
  | 'state_browser_mismatch'
  | 'subject_required'
  | 'temporarily_unavailable'
  | 'unsupported_grant_type'
  | 'use_dpop_nonce';

const ASK = 'The provider has to ask the user: log in again, without prompt=none';

/** HTTP status and description of each error code. */
export const OAUTH_ERRORS: Readonly<
  Record<OAuthErrorCode, { readonly status: number; readonly description: string }>
> = {
  access_denied: { status: 400, description: 'The login was cancelled, or this account may not log in' },
  account_selection_required: { status: 400, description: ASK },
  account_taken: { status: 409, description: 'This account already belongs to another user' },
  consent_required: { status: 400, description: ASK },
  interaction_required: { status: 400, description: ASK },
  invalid_dpop_proof: { status: 400, description: 'The DPoP proof is missing or not valid for this request' },
  invalid_grant: { status: 400, description: 'The refresh token is no longer valid: log in again' },
  invalid_redirect_uri: { status: 400, description: 'The address is not one of the allowed addresses' },
  invalid_request: { status: 400, description: 'A parameter is missing, malformed, or repeated' },
  invalid_scope: { status: 400, description: 'The requested scope exceeds what was granted at login' },
  invalid_state: { status: 400, description: 'The login has expired or was already used: start again' },
  issuer_mismatch: {
    status: 400,
    description: 'The response does not come from the identity provider at which the login was started',
  },
  last_login_method: {
    status: 409,
    description: 'This account is the only way to log in: link another account first',
  },
  login_required: { status: 400, description: ASK },
  provider_error: {
    status: 502,
    description: 'The identity provider refused the request or sent an invalid response: try again',
  },
  provider_timeout: { status: 504, description: 'The identity provider did not respond in time: try again' },
  rate_limited: { status: 429, description: 'There are too many requests: wait, then try again' },
  server_error: { status: 500, description: 'The service failed: try again later' },
  state_browser_mismatch: {
    status: 400,
    description: 'The login was started in another browser: start again in this browser',
  },
  subject_required: {
    status: 400,
    description: 'The user has several accounts at this provider: name one of them by its subject',
  },
  temporarily_unavailable: {
    status: 503,
    description: 'The service is not available right now: try again in a moment',
  },
  unsupported_grant_type: { status: 400, description: 'The grant_type must be refresh_token, or be omitted' },
  use_dpop_nonce: {
    status: 400,
    description: 'The DPoP proof must contain the nonce from the header field DPoP-Nonce of this response',
  },
};

const ENDED = 'The login was ended before it was complete: log in again';

/** Reason of a refused login in the audit log. */
type Denial = 'access_denied' | 'on_user' | 'revoked_meanwhile' | 'code_login_ended' | 'link_logged_out';

/**
 * HTTP status and description of `access_denied` by its reason in the audit log. The token endpoint responds
 * with 400 (RFC 6749 §5.2).
 */
export const DENIALS: Readonly<Record<Denial, { readonly status: number; readonly description: string }>> = {
  access_denied: { status: 400, description: 'The login was cancelled, or the identity provider refused it' },
  on_user: { status: 403, description: 'This account may not log in' },
  revoked_meanwhile: { status: 403, description: ENDED },
  code_login_ended: { status: 400, description: ENDED },
  link_logged_out: {
    status: 403,
    description: 'The user who started to link the account is no longer logged in: log in and try again',
  },
};

/** Options of an {@link OAuthError}. */
export interface OAuthErrorOptions {
  /** Description for the client. Default: the description of the error code. */
  readonly description?: string | undefined;
  /** HTTP status. Default: the status of the error code. */
  readonly status?: number | undefined;
  /** Header fields of the response. Default: `Retry-After: 1` with `temporarily_unavailable`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Reason for the audit log. Clients never see it. */
  readonly reason?: string | undefined;
  /** The error that caused this one. */
  readonly cause?: unknown;
}

/** Error that ends a request under `/oauth/*` with an error response. */
export class OAuthError extends HTTPException {
  declare readonly code: OAuthErrorCode;
  readonly description: string;
  readonly reason: string | undefined;

  constructor(code: OAuthErrorCode, options: OAuthErrorOptions = {}) {
    const usual = OAUTH_ERRORS[code];
    const { status = usual.status, description = usual.description, reason, ...rest } = options;
    const headers = code === 'temporarily_unavailable' ? { 'Retry-After': '1' } : undefined;
    super(status, description, { code, headers, ...rest });
    this.description = description;
    this.reason = reason;
  }
}

/** Creates the error of a refused login. */
export function accessDenied(
  reason: Denial,
  options: Pick<OAuthErrorOptions, 'description' | 'cause'> = {},
): OAuthError {
  const { status, description: usual } = DENIALS[reason];
  const { description = usual, ...rest } = options;
  return new OAuthError('access_denied', { status, description, reason, ...rest });
}

export function invalidRequest(description: string, options?: OAuthErrorOptions): OAuthError {
  return new OAuthError('invalid_request', { ...options, description });
}

/** Creates the error of an address that is not allowed, is missing, or is given more than once. */
export function redirectRefused(parameter: string, ...given: readonly string[]): OAuthError {
  const problems = ['is missing', 'is not one of the allowed addresses', 'is repeated'];
  return new OAuthError('invalid_redirect_uri', {
    description: `The ${parameter} ${problems[Math.min(given.length, 2)]!}`,
    reason: `invalid_redirect_uri: ${parameter}=${given.join(' ')}`,
  });
}
