/**
 * What is refused under `/oauth/*`: an RFC 6749 §5.2 object with a code that is for ever, and a sentence that tells no
 * secret and no difference between tokens that are wrong in different ways.
 */
import { HTTPException } from '../base/errors.ts';

/** What an answer under `/oauth/*` may say is wrong: the codes of RFC 6749, RFC 9449, OpenID Connect Core §3.1.2.6, and our own. */
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
  | 'temporarily_unavailable'
  | 'unsupported_grant_type'
  | 'use_dpop_nonce';

const ASK = 'Nobody can be logged in without being asked: log in again, without prompt=none';

/** Every code, its status, and what a client or operator may do about it. */
export const OAUTH_ERRORS: Readonly<
  Record<OAuthErrorCode, { readonly status: number; readonly description: string }>
> = {
  access_denied: { status: 400, description: 'The login was cancelled, or this account may not log in' },
  account_selection_required: { status: 400, description: ASK },
  account_taken: { status: 409, description: 'This account belongs to another user already' },
  consent_required: { status: 400, description: ASK },
  interaction_required: { status: 400, description: ASK },
  invalid_dpop_proof: { status: 400, description: 'The DPoP proof is missing or not valid for this request' },
  invalid_grant: { status: 400, description: 'The refresh token is not valid any more: log in again' },
  invalid_redirect_uri: { status: 400, description: 'The redirect_uri is not one of those that are allowed' },
  invalid_request: { status: 400, description: 'A parameter is missing, malformed, or there more than once' },
  invalid_scope: { status: 400, description: 'The scope asked for exceeds what was granted at login' },
  invalid_state: { status: 400, description: 'The login has expired or was used already: start again' },
  issuer_mismatch: {
    status: 400,
    description: 'The answer comes from another identity provider than the login was begun with',
  },
  last_login_method: {
    status: 409,
    description: 'There would be no other way to log in: link another account first',
  },
  login_required: { status: 400, description: ASK },
  provider_error: { status: 502, description: 'The identity provider has refused or misanswered: try again' },
  provider_timeout: { status: 504, description: 'The identity provider has not answered in time: try again' },
  rate_limited: { status: 429, description: 'There are too many requests: wait, then try again' },
  server_error: { status: 500, description: 'The service has failed: try again later' },
  state_browser_mismatch: {
    status: 400,
    description: 'The login was begun in another browser: start again in this one',
  },
  temporarily_unavailable: {
    status: 503,
    description: 'The service cannot answer right now: try again in a moment',
  },
  unsupported_grant_type: { status: 400, description: 'The grant_type is refresh_token, or left out' },
  use_dpop_nonce: { status: 400, description: 'The DPoP proof needs the nonce of the field DPoP-Nonce' },
};

/** What may accompany an {@link OAuthError}. */
export interface OAuthErrorOptions {
  /** In place of the code's own sentence. Clients see it. */
  readonly description?: string | undefined;
  /** In place of the code's own. */
  readonly status?: number | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A word for the audit trail; clients never see it. */
  readonly reason?: string | undefined;
  readonly cause?: unknown;
}

/** Stops a request under `/oauth/*`. */
export class OAuthError extends HTTPException {
  declare readonly code: OAuthErrorCode;
  readonly description: string;
  readonly reason: string | undefined;

  constructor(code: OAuthErrorCode, options: OAuthErrorOptions = {}) {
    const { status, description: usual } = OAUTH_ERRORS[code];
    const { description = usual, headers, reason } = options;
    super(options.status ?? status, description, {
      code,
      headers,
      ...('cause' in options ? { cause: options.cause } : {}),
    });
    this.description = description;
    this.reason = reason;
  }
}
