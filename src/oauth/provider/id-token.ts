/**
 * Verifies tokens that a provider signs: id_tokens with claims about a login (OpenID Connect Core §3.1.3.7, RFC 7515, RFC
 * 8725), and logout tokens (OpenID Connect Back-Channel Logout 1.0 §2.4 and §2.6).
 *
 * The signature is verified first, then the claims are checked. A token cannot choose its own key: the header
 * fields `jwk`, `jku`, `x5u` and `x5c` are ignored (RFC 8725 §3.10). `crit` and header fields that change the
 * encoding are refused.
 *
 * A failed check throws a ProviderFault `provider_error`. Its reason names the check, and is not sent to the
 * client.
 */
import { createHmac, hash, timingSafeEqual } from 'node:crypto';
import { findSigner } from '../../crypto/jwk.ts';
import { HASHES, openJws } from '../../crypto/jws.ts';
import { UNSUPPORTED_HEADERS } from '../../crypto/jwt-json.ts';
import { LATEST_SECONDS } from '../../crypto/jwt.ts';
import { isRecord } from '../../base/options.ts';
import { ProviderFault } from '../../auth/provider/failure.ts';
import { GUID, TENANT } from './option-types.ts';
import type { KeySet, SignedToken, SignerResult } from '../../crypto/jwk.ts';
import type { IdTokenAlgorithm } from './options.ts';
import type { JsonObject } from '../../crypto/jwt-json.ts';

export interface IdTokenRules {
  /** Issuer, compared byte for byte. `{tenantid}` in it stands for the GUID in the claim `tid`. */
  readonly issuer: string;
  readonly tenants: readonly string[] | undefined;
  readonly clientId: string;
  readonly algorithms: readonly IdTokenAlgorithm[];
  /** Nonce of the login; null if the provider sends none. With undefined, every token is refused. */
  readonly nonce: string | undefined | null;
  /** Client secret, the key for HS256. */
  readonly secret?: string | undefined;
  /** Access token of the same response. The claim `at_hash` must match it, if present. */
  readonly accessToken: string;
  /** Maximum age of the login in seconds; undefined if the login has requested none. */
  readonly maxAgeSeconds: number | undefined;
  readonly leewaySeconds: number;
  readonly nowSeconds: number;
}

/**
 * Keys of the provider. `current()` returns the known keys. If none of them fits a token, `again()` fetches
 * the keys again, or returns undefined if they were fetched shortly before.
 */
interface IdTokenKeys {
  current(): KeySet | Promise<KeySet>;
  again(): Promise<KeySet> | undefined;
  /** Fetches the keys again after a wrong signature, because a new key may have the id of an old one. */
  renewed?(): Promise<KeySet> | undefined;
}

export type IdTokenClaims = JsonObject & { readonly sub: string };

interface DecodedIdToken {
  readonly algorithm: IdTokenAlgorithm;
  readonly signed: Buffer;
  readonly signature: Buffer;
  readonly keyId: string | undefined;
  readonly claims: Record<string, unknown>;
}

const MAX_CHARACTERS = 32_768;
const MAX_ID_CHARACTERS = 255;

/**
 * Verifies an id_token, and returns its claims.
 * @throws ProviderFault `provider_error` for an invalid token, or another code when the keys cannot be
 * fetched
 */
export async function verifyIdToken(
  token: string,
  rules: IdTokenRules,
  keys: IdTokenKeys,
): Promise<IdTokenClaims> {
  return check(await verifiedToken(token, rules, keys, /^jwt$/i), rules);
}

/** Verifies format and signature. `types` matches `typ`, which may also be absent. */
async function verifiedToken(
  token: string,
  { algorithms, secret }: Pick<IdTokenRules, 'algorithms' | 'secret'>,
  keys: IdTokenKeys,
  types: RegExp,
): Promise<DecodedIdToken> {
  const decoded = open(token, algorithms, types);
  if (decoded.algorithm === 'HS256') {
    if (secret === undefined || !isSignedWith(secret, decoded)) throw refused('signature');
    return decoded;
  }
  if (!(await isSignedByProvider({ ...decoded, algorithm: decoded.algorithm }, decoded.claims, keys)))
    throw refused('signature');
  return decoded;
}

/** Returns whether the provider signed a token. Fetches the keys again if none of the known keys fits. */
async function isSignedByProvider(
  token: SignedToken,
  claims: JsonObject,
  keys: IdTokenKeys,
): Promise<boolean> {
  const signerIn = async (set: KeySet): Promise<SignerResult> => {
    // in a key set for many tenants, a key has the issuer of one tenant, or `{tenantid}` for every tenant
    const found = await findSigner(
      token,
      set,
      ({ issuer = TENANT }) => issuer === claims['iss'] || issuer.includes(TENANT),
    );
    if (found === 'ambiguous') throw refused('duplicate_kid');
    return found;
  };
  const found = await signerIn(await keys.current());
  if (found === 'signed') return true;
  const fresh = await (found === 'unknown' ? keys.again() : keys.renewed?.());
  return fresh !== undefined && (await signerIn(fresh)) === 'signed';
}

function isSignedWith(secret: string, { signed, signature }: DecodedIdToken): boolean {
  const expected = createHmac('sha256', secret).update(signed).digest();
  return signature.length === expected.length && timingSafeEqual(signature, expected);
}

function open(token: string, algorithms: readonly IdTokenAlgorithm[], types: RegExp): DecodedIdToken {
  const opened = openJws(token, MAX_CHARACTERS);
  if (typeof opened === 'string') throw refused(opened);
  const { header, claims, signed, signature } = opened;
  const { alg, kid, typ } = header;
  const algorithm = algorithms.find((each) => each === alg);
  if (algorithm === undefined) throw refused('alg');
  if (kid !== undefined && typeof kid !== 'string') throw refused('kid');
  if (typ !== undefined && !(typeof typ === 'string' && types.test(typ))) throw refused('typ');
  if (UNSUPPORTED_HEADERS.some((name) => Object.hasOwn(header, name))) throw refused('header');
  return { algorithm, keyId: kid, signed, signature, claims };
}

/** Checks the claims in the order of OpenID Connect Core §3.1.3.7. */
function check({ claims, algorithm }: DecodedIdToken, rules: IdTokenRules): IdTokenClaims {
  const { sub } = claims;
  if (!isExpectedIssuer(claims['iss'], claims['tid'], rules)) throw refused('iss');
  checkAudience(claims['aud'], claims['azp'], rules.clientId);
  if (!isIdentifier(sub)) throw refused('sub');
  if (rules.nonce !== null && (rules.nonce === undefined || claims['nonce'] !== rules.nonce))
    throw refused('nonce');
  checkTimes(claims, rules);
  if (claims['at_hash'] !== undefined && claims['at_hash'] !== atHashOf(rules.accessToken, algorithm))
    throw refused('at_hash');
  return claims as Record<string, unknown> & { sub: string };
}

/**
 * Returns whether `iss` is the issuer of the provider. If the issuer contains `{tenantid}`, `iss` must be the
 * issuer of an allowed tenant.
 */
export function isExpectedIssuer(
  iss: unknown,
  tenant: unknown,
  { issuer, tenants }: Pick<IdTokenRules, 'issuer' | 'tenants'>,
): boolean {
  if (!issuer.includes(TENANT)) return iss === issuer;
  if (typeof tenant !== 'string' || !GUID.test(tenant)) return false;
  return iss === issuer.replace(TENANT, tenant) && (tenants === undefined || tenants.includes(tenant));
}

function checkAudience(aud: unknown, azp: unknown, clientId: string): void {
  const audiences: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  if (!audiences.every((each) => typeof each === 'string') || !audiences.includes(clientId))
    throw refused('aud');
  if (audiences.length > 1 && azp === undefined) throw refused('azp');
  if (azp !== undefined && azp !== clientId) throw refused('azp');
}

function checkTimes(claims: JsonObject, { nowSeconds, leewaySeconds, maxAgeSeconds }: IdTokenRules): void {
  const { exp, iat, nbf, auth_time: authTime } = claims;
  if (!isTime(exp) || exp + leewaySeconds <= nowSeconds) throw refused('exp');
  if (!isTime(iat) || iat - leewaySeconds > nowSeconds) throw refused('iat');
  if (nbf !== undefined && (!isTime(nbf) || nbf - leewaySeconds > nowSeconds)) throw refused('nbf');
  if (maxAgeSeconds === undefined) return;
  if (
    !isTime(authTime) ||
    authTime - leewaySeconds > nowSeconds ||
    authTime + maxAgeSeconds + leewaySeconds < nowSeconds
  )
    throw refused('auth_time');
}

/** Whether a value is an id, such as a subject (OpenID Connect Core §2). */
function isIdentifier(value: unknown): value is string {
  return typeof value === 'string' && value !== '' && value.length <= MAX_ID_CHARACTERS;
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= LATEST_SECONDS;
}

/**
 * Returns the expected claim `at_hash`: the left half of the access token's hash (OpenID Connect Core
 * §3.1.3.6). The signature algorithm determines the hash function.
 */
export function atHashOf(accessToken: string, algorithm: IdTokenAlgorithm): string {
  const digest = hash(HASHES[algorithm], accessToken, 'buffer');
  return digest.subarray(0, digest.length / 2).toString('base64url');
}

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

/**
 * Verifies a logout token like an id_token, and returns its claims. A token with a nonce is refused, so that an id_token
 * cannot be used as a logout token.
 */
export async function verifyLogoutToken(
  token: string,
  rules: LogoutRules,
  keys: IdTokenKeys,
): Promise<LogoutClaims> {
  const { claims } = await verifiedToken(token, rules, keys, /^(?:application\/)?(?:logout\+)?jwt$/i);
  const { nowSeconds, leewaySeconds, clientId } = rules;
  if (!isExpectedIssuer(claims['iss'], claims['tid'], rules)) throw refused('iss', 'logout_token');
  checkAudience(claims['aud'], claims['azp'], clientId);
  const { iat, exp, jti, events, sub, sid } = claims;
  if (!isTime(iat) || iat - leewaySeconds > nowSeconds || iat + MAX_AGE_SECONDS < nowSeconds)
    throw refused('iat', 'logout_token');
  if (!isTime(exp) || exp + leewaySeconds <= nowSeconds || exp > iat + MAX_AGE_SECONDS)
    throw refused('exp', 'logout_token');
  if (!isIdentifier(jti)) throw refused('jti', 'logout_token');
  if (!isRecord(events) || !isRecord(events[EVENT])) throw refused('events', 'logout_token');
  if (Object.hasOwn(claims, 'nonce')) throw refused('nonce', 'logout_token');
  if ((sub !== undefined && !isIdentifier(sub)) || (sid !== undefined && !isIdentifier(sid)))
    throw refused('sub', 'logout_token');
  if (sub === undefined && sid === undefined) throw refused('sub', 'logout_token');
  return { subject: sub, providerSid: sid, jti, validMs: (exp + leewaySeconds - nowSeconds) * 1_000 };
}

function refused(check: string, token: 'id_token' | 'logout_token' = 'id_token'): ProviderFault {
  return new ProviderFault('provider_error', `${token}_${check}`);
}
