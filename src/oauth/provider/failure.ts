/**
 * Failures of an identity provider: a code for the client, and a reason for the log.
 */

/** Error codes that clients get, with the status 502, 504, 503 or 400. */
type ProviderFailureCode =
  'provider_error' | 'provider_timeout' | 'temporarily_unavailable' | 'issuer_mismatch';

const MAX_REASON_CHARACTERS = 120;

/**
 * Error for a provider that refused a call, sent an invalid response, or did not respond.
 *
 * `reason` is for the log: fixed words such as `token_status_500`, at most 120 visible ASCII characters,
 * never a token, a code, a secret or a body.
 */
export class ProviderFault extends Error {
  readonly code: ProviderFailureCode;
  readonly reason: string;
  /** Error code of the token endpoint (RFC 6749 §5.2). */
  readonly providerCode: string | undefined;

  constructor(
    code: ProviderFailureCode,
    reason: string,
    options: { readonly cause?: unknown; readonly providerCode?: string | undefined } = {},
  ) {
    const bounded = word(reason, MAX_REASON_CHARACTERS);
    super(
      `The identity provider failed: ${bounded}`,
      'cause' in options ? { cause: options.cause } : undefined,
    );
    this.name = 'ProviderFault';
    this.code = code;
    this.reason = bounded;
    this.providerCode = options.providerCode;
  }
}

/**
 * Makes external text safe for a log reason: replaces all but visible ASCII by `?`, and shortens it to `most`
 * characters.
 */
export function word(text: string, most: number = 40): string {
  return text.slice(0, most).replace(/[^\x21-\x7e]/g, '?');
}
