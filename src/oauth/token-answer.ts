/**
 * The token endpoint's answer (RFC 6749 §5.1): checked member by member before anything is done with it.
 */
import { isJson, isObject, jsonObject, withoutNulls } from './json-answer.ts';
import { ProviderFailure, word } from './provider-failure.ts';
import { textOr } from './user-info.ts';
import type { OutboundAnswer } from './outbound.ts';
import type { ProviderSettings } from './provider-options.ts';

/** What the provider has handed out. Secrets: never logged, never sent on. */
export interface ProviderTokens {
  readonly accessToken: string;
  readonly refreshToken?: string;
  readonly expiresInSeconds?: number;
  readonly scope?: string;
  readonly idToken?: string;
}

const MAX_TOKEN_CHARACTERS = 16_384;

/** Reads the answer. An error is one whatever its status is: GitHub sends it with 200. @throws ProviderFailure `provider_error` */
export function readTokenAnswer(answer: OutboundAnswer, { tokenAnswer, tokenTypes }: Pick<ProviderSettings, 'tokenAnswer' | 'tokenTypes'>): ProviderTokens {
  const members = tokenAnswer === 'form' && answer.mediaType === 'application/x-www-form-urlencoded' ? formOf(answer) : withoutNulls(jsonOf(answer));
  if (members['error'] !== undefined) throw new ProviderFailure('provider_error', `token_error_${typeof members['error'] === 'string' ? word(members['error']) : 'odd'}`);
  const { access_token: accessToken, token_type: type, refresh_token: refreshToken, expires_in: expires, scope, id_token: idToken } = members;
  // Visible ASCII only (RFC 6750 §2.1): it is about to stand in a header.
  if (typeof accessToken !== 'string' || accessToken.length > MAX_TOKEN_CHARACTERS || !/^[\x21-\x7e]+$/.test(accessToken)) throw new ProviderFailure('provider_error', 'token_access_token');
  if (typeof type !== 'string' || !tokenTypes.includes(type.toLowerCase())) throw new ProviderFailure('provider_error', 'token_type');
  if (idToken !== undefined && typeof idToken !== 'string') throw new ProviderFailure('provider_error', 'token_id_token');
  const expiresInSeconds = typeof expires === 'string' && /^\d{1,10}$/.test(expires) ? Number(expires) : expires; // a number, by §5.1; some write text
  return {
    accessToken,
    ...(textOr(refreshToken, '') === '' ? {} : { refreshToken: refreshToken as string }),
    ...(Number.isSafeInteger(expiresInSeconds) && (expiresInSeconds as number) >= 0 ? { expiresInSeconds: expiresInSeconds as number } : {}),
    ...(textOr(scope, '') === '' ? {} : { scope: scope as string }),
    ...(idToken === undefined ? {} : { idToken }),
  };
}

/** A refusal (§5.2) is JSON with another status: its code goes to the log. */
function jsonOf(answer: OutboundAnswer): Record<string, unknown> {
  if (answer.status === 200 || !isJson(answer.mediaType)) return jsonObject('token', answer);
  let error: unknown;
  try {
    const value: unknown = JSON.parse(answer.body.toString());
    error = isObject(value) ? value['error'] : undefined;
  } catch { /* then its status is all there is to say */ }
  throw new ProviderFailure('provider_error', `token_status_${answer.status}${typeof error === 'string' ? `_${word(error)}` : ''}`);
}

function formOf(answer: OutboundAnswer): Record<string, unknown> {
  if (answer.status !== 200) throw new ProviderFailure('provider_error', `token_status_${answer.status}`);
  const members: Record<string, unknown> = Object.create(null);
  for (const [name, value] of new URLSearchParams(answer.body.toString())) {
    if (name in members) throw new ProviderFailure('provider_error', 'token_repeated_member');
    members[name] = value;
  }
  return members;
}
