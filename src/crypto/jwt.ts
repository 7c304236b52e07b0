/**
 * JSON Web Tokens signed by HS256 (RFC 7515, RFC 7519, RFC 8725).
 *
 * Form of a token:
 *   token = base64url(header) "." base64url(claims) "." base64url(HMAC-SHA-256(secret, header "." claims))
 *
 * The length and the header of a token are checked first, then the signature, and only then the claims. A
 * token is refused if its header contains a key, or the address of a key.
 *
 * A token must be canonical base64url. A client learns only that its token is refused: the reason in
 * `InvalidToken.reason` is for the audit log.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { systemClock } from '../base/clock.ts';
import { SvcError, Unauthorized } from '../base/errors.ts';
import { Keyring, hmacSha256 } from './keys.ts';
import {
  bool,
  given,
  int,
  isObject,
  isRecord,
  isTextList,
  number,
  own,
  readOptions,
} from '../base/options.ts';
import { CERTIFICATE_HEADERS, UNSUPPORTED_HEADERS, objectOf, segmentOf } from './jwt-json.ts';
import type { Clock } from '../base/clock.ts';
import type { JsonObject } from './jwt-json.ts';
import type { RingKey, Secrets } from './keys.ts';

/**
 * Claims of a verified token. The types of the registered claims (RFC 7519 §4.1) are checked; other claims
 * may have any type. Times are in seconds since the epoch.
 */
export interface Claims {
  sub: string;
  iat?: number | undefined;
  exp?: number | undefined;
  nbf?: number | undefined;
  iss?: string | undefined;
  aud?: string | string[] | undefined;
  jti?: string | undefined;
  [name: string]: unknown;
}

/** Options of createToken(). */
export interface CreateTokenOptions {
  /** Lifetime in seconds, an integer 1 ... 315_360_000. Default 900. */
  readonly expiresInSeconds?: number | undefined;
  /**
   * Additional claims, such as `{ scopes: ['read'] }`. Registered claims, such as `exp` and `iss`, are
   * refused. The values are written as JSON.
   */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
  /** Claim `iss`, which names the issuer of the token. Default: no claim. */
  readonly issuer?: string | undefined;
  /** Claim `aud`: the recipients of the token. Other recipients refuse it. Default: no claim. */
  readonly audience?: string | readonly string[] | undefined;
  /**
   * Header field `typ`, for example `at+jwt` for an access token. A verifier can require a type, and so
   * refuse tokens for other purposes (RFC 8725 §3.11). Default `JWT`.
   */
  readonly type?: string | undefined;
  /** Claim `jti`, the id of the token: this text, or 128 random bits for `true`. Default: no claim. */
  readonly id?: boolean | string | undefined;
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

/** Requirements that a token must meet to be accepted. */
export interface TokenRequirements {
  /** Required value of the claim `iss`. Default: not checked. */
  readonly issuer?: string | undefined;
  /**
   * Accepted values of the claim `aud`. A token needs at least one of them. Default: a token with an `aud` is
   * refused (RFC 7519 §4.1.3).
   */
  readonly audience?: string | readonly string[] | undefined;
  /**
   * Required value of the header field `typ`. Case and the prefix `application/` do not matter. Without this
   * option, the field is missing, `JWT`, or `at+jwt` (an access token, RFC 9068).
   */
  readonly type?: string | undefined;
  /**
   * Accepted difference between the clocks of issuer and verifier, 0 ... 300 seconds. It applies to `exp`,
   * `nbf` and `iat`. Default 0.
   */
  readonly leewaySeconds?: number | undefined;
  /** Refuses a token without `exp`, because it would never expire. Default true. */
  readonly requireExp?: boolean | undefined;
  /**
   * Maximum length of a token, 64 ... 1_048_576 characters. Longer tokens are refused before they are parsed.
   * Default 8192.
   */
  readonly maxLength?: number | undefined;
}

/** Options of verifyToken(). */
export interface VerifyTokenOptions extends TokenRequirements {
  /** Source of the time; tests replace it. Default: the clock of the system. */
  readonly clock?: Clock | undefined;
}

// -- create tokens --

const TEN_YEARS_SECONDS = 315_360_000;
const ID_BYTES = 16;
const MEDIA_TYPE = /^(?:[\w!#$&^.+-]+\/)?[\w!#$&^.+-]{1,127}$/;
const isAudience = (value: unknown): boolean =>
  isNames(value) && value.length > 0 && [value].flat().every((name) => name !== '');
const isText = (value: unknown): boolean => typeof value === 'string' && value !== '';
const COMMON = {
  issuer: given<string>('text that is not empty', isText),
  audience: given<string | readonly string[]>('a name, or a list of names, none empty', isAudience),
  type: given<string>(
    'a media type, such as "at+jwt"',
    (value) => typeof value === 'string' && MEDIA_TYPE.test(value),
  ),
};
const MAKING = {
  ...COMMON,
  expiresInSeconds: int(900, 1, TEN_YEARS_SECONDS),
  claims: given<Readonly<Record<string, unknown>>>('an object', isRecord),
  id: given<boolean | string>(
    'true, false, or text that is not empty',
    (value) => typeof value === 'boolean' || isText(value),
  ),
  clock: given<Clock>('a clock', isObject),
};

/**
 * Names that the option `claims` must not contain. verifyToken() refuses `__proto__`, and a method `toJSON`
 * could replace all claims.
 */
const TAKEN: ReadonlySet<string> = new Set([
  'sub',
  'iat',
  'exp',
  'nbf',
  'iss',
  'aud',
  'jti',
  '__proto__',
  'toJSON',
]);

/**
 * Creates a token for the subject `sub`, signed by HS256. The key is the UTF-8 text of the secret, so any JWT
 * library can verify the token. If there are several secrets, the first one signs, and the header names it by
 * its id (`kid`).
 *
 * @throws SvcError `E_TOKEN_CLAIM` for an empty or non-string subject, and for claims that are reserved or
 *   cannot be written as JSON; `E_OPTION_RANGE`, `E_OPTION_UNKNOWN` for invalid options; `E_SECRET_WEAK`,
 *   `E_SECRET_FORM` for invalid secrets
 */
export function createToken(sub: string, secret: Secrets, options: CreateTokenOptions = {}): string {
  const read = readOptions('createToken()', options, MAKING);
  const { expiresInSeconds, claims, issuer, audience, type = 'JWT', id, clock = systemClock } = read;
  const keyring = Keyring.of(secret);
  if (typeof sub !== 'string' || sub === '' || !sub.isWellFormed())
    throw new SvcError('E_TOKEN_CLAIM', [
      'sub',
      'must be text that is not empty and contains no lone surrogate',
    ]);
  if (claims !== undefined) refuseTaken(claims);
  const iat = Math.floor(clock.nowMs() / 1_000);
  const jti = id === true ? randomBytes(ID_BYTES).toString('base64url') : id === false ? undefined : id;
  const text = asJson({ sub, iat, exp: iat + expiresInSeconds, iss: issuer, aud: audience, jti, ...claims });
  const signed = `${headerFor(keyring, type)}.${segmentOf(text)}`;
  return `${signed}.${hmacSha256(keyring.current.key, signed)}`;
}

function refuseTaken(claims: JsonObject): void {
  for (const name of Object.keys(claims)) {
    if (TAKEN.has(name))
      throw new SvcError('E_TOKEN_CLAIM', [
        name,
        'is reserved: set registered claims by the options of createToken(), such as expiresInSeconds',
      ]);
  }
}

function asJson(claims: object): string {
  try {
    return JSON.stringify(claims);
  } catch (error) {
    // JSON.stringify() throws for a cycle or a bigint, and toJSON() may throw
    throw new SvcError('E_TOKEN_CLAIM', ['claims', 'contains a value that cannot be written as JSON'], {
      cause: error,
    });
  }
}

function headerFor(keyring: Keyring, typ: string): string {
  const kid = keyring.keys.length > 1 ? keyring.current.id : undefined;
  return segmentOf(JSON.stringify({ alg: 'HS256', typ, kid }));
}

// -- verify tokens --

const READING = {
  ...COMMON,
  leewaySeconds: number(0, 0, 300),
  requireExp: bool(true),
  maxLength: int(8_192, 64, 1_048_576),
};

/** Validated {@link TokenRequirements}. */
export interface TokenChecks {
  readonly issuer: string | undefined;
  readonly audiences: ReadonlySet<string> | undefined;
  /**
   * Required `typ` in lower case, without `application/`. If undefined, `jwt`, `at+jwt` and a missing `typ`
   * are accepted.
   */
  readonly type: string | undefined;
  readonly leewaySeconds: number;
  readonly requireExp: boolean;
  readonly maxLength: number;
}

export function tokenChecks(owner: string, requirements: TokenRequirements): TokenChecks {
  const { audience, type, ...others } = readOptions(owner, requirements, READING);
  return Object.freeze({
    ...others,
    audiences: audience === undefined ? undefined : new Set([audience].flat()),
    type: type === undefined ? undefined : mediaType(type),
  });
}

const DEFAULT_CHECKS = tokenChecks('verifyToken()', {});

/**
 * Verifies a token and returns its claims (RFC 7515 §7.1). Accepts only the algorithm HS256 (RFC 8725 §3.1).
 * Requires the claims `sub` and, by default, `exp`. Refuses a token with `aud` if the option `audience` is
 * not set.
 *
 * `C` is the type of additional claims, which are not checked at run time.
 *
 * @throws InvalidToken for a refused token; SvcError for invalid options and secrets
 */
export function verifyToken<C = unknown>(
  token: string,
  secret: Secrets,
  options?: VerifyTokenOptions,
): Claims & C {
  let checks = DEFAULT_CHECKS;
  let time = systemClock;
  if (options !== undefined) {
    const { clock, ...requirements } = options;
    checks = tokenChecks('verifyToken()', requirements);
    time = clock ?? time;
  }
  const found = readToken(Keyring.of(secret), token, checks, Math.floor(time.nowMs() / 1_000));
  if (typeof found === 'string') throw new InvalidToken(found);
  return found as Claims & C; // not checked at run time: the caller has chosen the type C
}

/**
 * Verifies a token like {@link verifyToken}, with validated requirements. Returns the claims, or the reason
 * to refuse the token. Never throws.
 */
export function readToken(
  keyring: Keyring,
  token: unknown,
  checks: TokenChecks,
  nowSeconds: number,
): Claims | TokenRefusal {
  if (typeof token !== 'string') return 'form';
  if (token.length > checks.maxLength) return 'length';
  const first = token.indexOf('.');
  const second = token.indexOf('.', first + 1);
  if (first < 1 || second < first + 2 || token.length !== second + 1 + MAC_CHARACTERS) return 'form';
  const header = headerOf(token.slice(0, first));
  if (typeof header === 'string') return header;
  if (header.type !== checks.type && !(checks.type === undefined && USUAL_TYPES.has(header.type!)))
    return 'type';
  const signer = header.kid === undefined ? undefined : keyring.find(header.kid);
  if (header.kid !== undefined && signer === undefined) return 'key';
  const keys = signer === undefined ? keyring.keys : [signer];
  if (!isSigned(token.slice(0, second), token.slice(second + 1), keys)) return 'signature';
  const claims = objectOf(token.slice(first + 1, second));
  return claims === undefined
    ? 'payload'
    : (issueOfClaims(claims, checks, nowSeconds) ?? (claims as unknown as Claims));
}

/** Values of `typ` that are accepted if the option `type` is not set. */
const USUAL_TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt']);

/** A MAC of 32 bytes has 43 characters in base64url. */
const MAC_CHARACTERS = 43;
const expectedBytes = Buffer.alloc(MAC_CHARACTERS);
const presentedBytes = Buffer.alloc(MAC_CHARACTERS);

/**
 * Returns whether `presented` is the MAC of `signed` by one of the keys. Compares the base64url texts, not
 * the bytes, because several texts decode to the same bytes.
 */
function isSigned(signed: string, presented: string, keys: readonly RingKey[]): boolean {
  presentedBytes.write(presented, 'latin1');
  for (const { key } of keys) {
    const expected = hmacSha256(key, signed);
    expectedBytes.write(expected, 'latin1');
    // Latin-1 drops the high byte of each character, so different texts can have equal bytes. `===` refuses
    // such texts. The duration of `===` reveals nothing, because the bytes are already equal.
    if (timingSafeEqual(expectedBytes, presentedBytes) && expected === presented) return true;
  }
  return false;
}

// -- headers --

interface Header {
  readonly type: string | undefined;
  readonly kid: string | undefined;
}

const MAX_HEADER_CHARACTERS = 1_024;
/** The most common headers, already parsed. The keys of the map are the headers in base64url. */
const USUAL_HEADERS: ReadonlyMap<string, Header> = new Map(
  ['JWT', 'at+jwt'].map((typ) => [
    segmentOf(JSON.stringify({ alg: 'HS256', typ })),
    { type: typ.toLowerCase(), kid: undefined },
  ]),
);
const UNSUPPORTED: ReadonlySet<string> = new Set([...UNSUPPORTED_HEADERS, ...CERTIFICATE_HEADERS, 'jwk']);

function headerOf(segment: string): Header | TokenRefusal {
  const usual = USUAL_HEADERS.get(segment);
  if (usual !== undefined) return usual;
  const header = segment.length > MAX_HEADER_CHARACTERS ? undefined : objectOf(segment);
  if (header === undefined || Object.keys(header).some((name) => UNSUPPORTED.has(name))) return 'header';
  // own members, because a modified Object.prototype must not provide an algorithm
  if (own(header, 'alg') !== 'HS256') return 'algorithm';
  const [typ, kid] = [own(header, 'typ'), own(header, 'kid')];
  if (typ !== undefined && typeof typ !== 'string') return 'type';
  if (kid !== undefined && typeof kid !== 'string') return 'key';
  return { type: typ === undefined ? undefined : mediaType(typ), kid };
}

export function mediaType(typ: string): string {
  return typ.toLowerCase().replace(/^application\/(?=[^/]*$)/, '');
}

// -- claims --

export function issueOfClaims(
  claims: JsonObject,
  { issuer, audiences, leewaySeconds, requireExp }: TokenChecks,
  nowSeconds: number,
): TokenRefusal | undefined {
  const sub = own(claims, 'sub');
  if (typeof sub !== 'string' || sub === '' || !sub.isWellFormed()) return 'subject';
  const [exp, nbf, iat] = [own(claims, 'exp'), own(claims, 'nbf'), own(claims, 'iat')];
  const [iss, aud, jti] = [own(claims, 'iss'), own(claims, 'aud'), own(claims, 'jti')];
  if (
    !isTime(exp) ||
    !isTime(nbf) ||
    !isTime(iat) ||
    !isTextOrAbsent(iss) ||
    !isTextOrAbsent(jti) ||
    (aud !== undefined && !isNames(aud))
  )
    return 'claim type';
  if (exp === undefined ? requireExp : nowSeconds >= exp + leewaySeconds)
    return exp === undefined ? 'no expiry' : 'expired';
  if (
    (nbf !== undefined && nbf > nowSeconds + leewaySeconds) ||
    (iat !== undefined && iat > nowSeconds + leewaySeconds)
  )
    return 'not yet valid';
  if (issuer !== undefined && iss !== issuer) return 'issuer';
  if (audiences === undefined ? aud !== undefined : !isFor(aud, audiences)) return 'audience';
  return undefined;
}

function isFor(aud: string | readonly string[] | undefined, audiences: ReadonlySet<string>): boolean {
  if (typeof aud === 'string') return audiences.has(aud);
  return aud !== undefined && aud.some((name) => audiences.has(name));
}

/**
 * Latest accepted time in seconds since the epoch: the end of the year 9999. A greater number is probably a
 * time in milliseconds.
 */
export const LATEST_SECONDS = 253_402_300_799;

/** Returns whether a value is undefined or a NumericDate (RFC 7519 §2). */
function isTime(value: unknown): value is number | undefined {
  return (
    value === undefined ||
    ((value as number) >= 0 && (value as number) <= LATEST_SECONDS && typeof value === 'number')
  );
}

function isTextOrAbsent(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isNames(value: unknown): value is string | readonly string[] {
  return typeof value === 'string' || isTextList(value);
}

/** Reason to refuse a token, for the audit log. */
export type TokenRefusal =
  | 'length'
  | 'form'
  | 'header'
  | 'algorithm'
  | 'type'
  | 'key'
  | 'signature'
  | 'payload'
  | 'subject'
  | 'claim type'
  | 'expired'
  | 'no expiry'
  | 'not yet valid'
  | 'issuer'
  | 'audience'
  | 'revoked'
  | 'schema'
  | 'verify' // the option `verify` of BearerAuth() refused the token
  | 'key_unknown' // the issuer has no such key
  | 'key_ambiguous' // the issuer has several keys with this id
  | 'id_token'
  | 'required_claim'
  | 'proof'; // the DPoP proof is missing or wrong

/**
 * Error 401 for a token that is malformed, forged or expired, or that is for another audience. Clients get
 * the same response in each case (RFC 6750 §3.1).
 */
export class InvalidToken extends Unauthorized {
  /** Reason to refuse the token. It is only for the audit log, and never sent to a client. */
  readonly reason: TokenRefusal;

  constructor(reason: TokenRefusal) {
    // The error has no stack trace: capturing one would take ten times as long as all other work on a refused
    // token (test/bench/parts.mjs --only='HS256 tokens').
    const limit = Error.stackTraceLimit;
    Error.stackTraceLimit = 0;
    super('The access token is invalid or has expired', REFUSED);
    Error.stackTraceLimit = limit;
    this.reason = reason;
  }
}

const REFUSED = Object.freeze({
  code: 'invalid_token',
  headers: Object.freeze({ 'WWW-Authenticate': 'Bearer error="invalid_token"' }),
});
