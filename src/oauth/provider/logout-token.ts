/**
 * Verifies logout tokens of a provider (OpenID Connect Back-Channel Logout 1.0 §2.4 and §2.6).
 *
 * The format and the signature are verified as for an id_token. Then the claims are checked. A token with a
 * nonce is refused, so that an id_token cannot be used as a logout token.
 */
import { isRecord } from '../../base/options.ts';
import { ProviderFault } from '../../auth/provider/failure.ts';
import { checkAudience, isExpectedIssuer, isIdentifier, isTime, verifiedToken } from './id-token.ts';
import type { IdTokenKeys, IdTokenRules } from './id-token.ts';

export interface LogoutClaims {
  /** Id of the user at the provider. If undefined, the token applies to each user of the session. */
  readonly subject: string | undefined;
  /** Id of the session at the provider. If undefined, the token applies to each session of the user. */
  readonly providerSid: string | undefined;
  readonly jti: string;
  /** Remaining lifetime in milliseconds, for which `jti` is remembered: a token is valid once. */
  readonly validMs: number;
}

export type LogoutRules = Omit<IdTokenRules, 'nonce' | 'accessToken' | 'maxAgeSeconds'>;

const EVENT = 'http://schemas.openid.net/event/backchannel-logout';
/** Maximum age and maximum lifetime of a logout token, in seconds. */
const MAX_AGE_SECONDS = 86_400;

export async function verifyLogoutToken(
  token: string,
  rules: LogoutRules,
  keys: IdTokenKeys,
): Promise<LogoutClaims> {
  const { claims } = await verifiedToken(token, rules, keys, /^(?:application\/)?(?:logout\+)?jwt$/i);
  const { nowSeconds, leewaySeconds, clientId } = rules;
  if (!isExpectedIssuer(claims['iss'], claims['tid'], rules)) throw refused('iss');
  checkAudience(claims['aud'], claims['azp'], clientId);
  const { iat, exp, jti, events, sub, sid } = claims;
  if (!isTime(iat) || iat - leewaySeconds > nowSeconds || iat + MAX_AGE_SECONDS < nowSeconds)
    throw refused('iat');
  if (!isTime(exp) || exp + leewaySeconds <= nowSeconds || exp > iat + MAX_AGE_SECONDS) throw refused('exp');
  if (!isIdentifier(jti)) throw refused('jti');
  if (!isRecord(events) || !isRecord(events[EVENT])) throw refused('events');
  if (Object.hasOwn(claims, 'nonce')) throw refused('nonce');
  if ((sub !== undefined && !isIdentifier(sub)) || (sid !== undefined && !isIdentifier(sid)))
    throw refused('sub');
  if (sub === undefined && sid === undefined) throw refused('sub');
  return { subject: sub, providerSid: sid, jti, validMs: (exp + leewaySeconds - nowSeconds) * 1_000 };
}

function refused(check: string): ProviderFault {
  return new ProviderFault('provider_error', `logout_token_${check}`);
}
