/** Failures of an identity provider, with a code for the client and a reason for the log. */

type ProviderFailureCode =
  'provider_error' | 'provider_timeout' | 'temporarily_unavailable' | 'issuer_mismatch';

const MAX_REASON_CHARACTERS = 120;

/**
 * Error for a provider that refused a call, sent an invalid response, or did not respond in time.
 *
 * `reason` is for the log. It consists of words such as `token_status_500`, and has at most 120 visible ASCII
 * characters. It never contains a token, a code, a secret or a body.
 */
export class ProviderFault extends Error {
  readonly code: ProviderFailureCode;
  readonly reason: string;
  /** Error code that the provider's token endpoint sent (RFC 6749 §5.2). */
  readonly providerCode: string | undefined;

  constructor(
    code: ProviderFailureCode,
    reason: string,
    options: { readonly cause?: unknown; readonly providerCode?: string | undefined } = {},
  ) {
    const bounded = word(reason, MAX_REASON_CHARACTERS);
    super(`The identity provider failed: ${bounded}`, options);
    this.name = 'ProviderFault';
    this.code = code;
    this.reason = bounded;
    this.providerCode = options.providerCode;
  }
}

/**
 * Makes a text from the provider safe for the log. Replaces everything except visible ASCII by `?`, and cuts
 * the text to `most` characters.
 */
export function word(text: string, most: number = 40): string {
  return text.slice(0, most).replace(/[^\x21-\x7e]/g, '?');
}
