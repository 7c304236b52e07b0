/**
 * Failures of an identity provider: a code that decides the answer, and a reason for the log.
 */

/** The code that the client gets: 502, 504, 503 and 400. */
type ProviderFailureCode =
  'provider_error' | 'provider_timeout' | 'temporarily_unavailable' | 'issuer_mismatch';

const MAX_REASON_CHARACTERS = 120;

/**
 * An identity provider has refused, misanswered or not answered at all.
 *
 * `reason` is for the log only: words of ours such as `token_status_500`, at most 120 visible ASCII characters, never a
 * token, a code, a secret or a body.
 */
export class ProviderFault extends Error {
  readonly code: ProviderFailureCode;
  readonly reason: string;
  /** The error code in an answer of the token endpoint (RFC 6749 §5.2). */
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

/** Text from outside as a reason may carry it: visible ASCII, everything else `?`, cut to `most` characters. */
export function word(text: string, most: number = 40): string {
  return text.slice(0, most).replace(/[^\x21-\x7e]/g, '?');
}
