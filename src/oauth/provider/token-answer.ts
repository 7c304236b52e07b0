/**
 * Parses the response of the token endpoint (RFC 6749 §5.1), and checks each member.
 */
import { defined, isRecord, isTextList, jsonOf, withoutNulls } from '../../base/options.ts';
import { ProviderFault, word } from '../../auth/provider/failure.ts';
import { isJson, jsonObject } from '../../auth/provider/outbound.ts';
import { textOr } from './user-info.ts';
import type { ResolvedProviderOptions } from './options.ts';
import type { OutboundAnswer } from '../../auth/provider/outbound.ts';

/** Tokens of the provider. They are secret, so they must not be logged or passed on. */
export interface TokenAnswer {
  readonly accessToken: string;
  readonly refreshToken?: string | undefined;
  readonly expiresInSeconds?: number | undefined;
  readonly scope?: string | undefined;
  readonly idToken?: string | undefined;
}

const MAX_TOKEN_CHARACTERS = 16_384;

/** Parses a token response. GitHub sends errors with the status 200. */
export function readTokenAnswer(
  answer: OutboundAnswer,
  { tokenAnswer, tokenTypes }: Pick<ResolvedProviderOptions, 'tokenAnswer' | 'tokenTypes'>,
): TokenAnswer {
  const members =
    tokenAnswer === 'form' && answer.mediaType === 'application/x-www-form-urlencoded'
      ? formOf(answer)
      : withoutNulls(membersOf(answer));
  if (members['error'] !== undefined) {
    const providerCode = typeof members['error'] === 'string' ? members['error'] : undefined;
    throw new ProviderFault(
      'provider_error',
      `token_error_${providerCode === undefined ? 'odd' : word(providerCode)}`,
      { providerCode },
    );
  }
  const {
    access_token: accessToken,
    token_type: type,
    refresh_token: refreshToken,
    expires_in: expires,
    scope,
    id_token: idToken,
  } = members;
  // an access token must be visible ASCII (RFC 6750 §2.1), because it is sent in a header
  if (
    typeof accessToken !== 'string' ||
    accessToken.length > MAX_TOKEN_CHARACTERS ||
    !/^[\x21-\x7e]+$/.test(accessToken)
  )
    throw new ProviderFault('provider_error', 'token_access_token');
  if (typeof type !== 'string' || !tokenTypes.includes(type.toLowerCase()))
    throw new ProviderFault('provider_error', 'token_type');
  if (idToken !== undefined && typeof idToken !== 'string')
    throw new ProviderFault('provider_error', 'token_id_token');
  const expiresInSeconds =
    // RFC 6749 §5.1 requires a number, but some providers send text
    typeof expires === 'string' && /^\d{1,10}$/.test(expires) ? Number(expires) : expires;
  const isCount = Number.isSafeInteger(expiresInSeconds) && (expiresInSeconds as number) >= 0;
  return defined({
    accessToken,
    refreshToken: textOr(refreshToken, undefined),
    expiresInSeconds: isCount ? (expiresInSeconds as number) : undefined,
    scope: scopeOf(scope),
    idToken,
  });
}

/** Returns scopes as text, separated by spaces (RFC 6749 §3.3). Twitch sends a list. */
function scopeOf(scope: unknown): string | undefined {
  return textOr(isTextList(scope) ? scope.join(' ') : scope, undefined);
}

/**
 * Returns the JSON object of a successful response. For an error response (RFC 6749 §5.2), throws a
 * ProviderFault whose reason contains the error code.
 */
function membersOf(answer: OutboundAnswer): Record<string, unknown> {
  if (answer.status === 200 || !isJson(answer.mediaType)) return jsonObject('token', answer);
  const failure = jsonOf(answer.body.toString());
  const error = isRecord(failure) ? failure['error'] : undefined;
  const providerCode = typeof error === 'string' ? error : undefined;
  throw new ProviderFault(
    'provider_error',
    `token_status_${answer.status}${providerCode === undefined ? '' : `_${word(providerCode)}`}`,
    { providerCode },
  );
}

function formOf(answer: OutboundAnswer): Record<string, unknown> {
  if (answer.status !== 200) throw new ProviderFault('provider_error', `token_status_${answer.status}`);
  const members: Record<string, unknown> = Object.create(null);
  for (const [name, value] of new URLSearchParams(answer.body.toString())) {
    if (name in members) throw new ProviderFault('provider_error', 'token_repeated_member');
    members[name] = value;
  }
  return members;
}

/** Encodes text as a form value, as RFC 6749 §2.3.1 requires for HTTP Basic. */
export function formEncoded(text: string): string {
  return new URLSearchParams({ '': text }).toString().slice(1);
}
