/**
 * JSON Web Tokens: HS256 only (RFC 7515, RFC 7519; RFC 8725 throughout).
 *
 *   token = base64url(header) "." base64url(claims) "." base64url(HMAC-SHA-256(secret, header "." claims))
 *
 *   length -> three segments -> header, nearly always one that is known -> HMAC -> claims: bytes, JSON, types, times, names
 *
 * Nothing of the claims is looked at before the MAC is right, and no key or address is ever taken from a token. Every segment
 * has one spelling: what another decoder might pass over is refused. Whoever presents a token learns that it is refused and
 * not why; `InvalidToken.reason` is for the audit log.
 */
import { randomBytes, timingSafeEqual } from 'node:crypto';
import { systemClock } from '../base/clock.ts';
import { SvcError, Unauthorized } from '../base/errors.ts';
import { Keyring, hmacSha256 } from './keys.ts';
import { bool, given, int, isObject, isRecord, number, readOptions } from '../base/options.ts';
import { objectOf, segmentOf } from './jwt-json.ts';
import type { Clock } from '../base/clock.ts';
import type { JsonObject } from './jwt-json.ts';
import type { RingKey, Secrets } from './keys.ts';

/** What a verified token says: the registered claims (RFC 7519 §4.1) with their types checked, and any others. Times are seconds since the epoch. */
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

/** How a token is made. */
export interface CreateTokenOptions {
  /** How long it is valid, an integer 1 ... 315_360_000. Default 900. */
  readonly expiresInSeconds?: number | undefined;
  /** Further claims, such as `{ scopes: ['read'] }`; none of those that have an option of their own. As JSON.stringify() writes them. */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
  /** Claim `iss`. */
  readonly issuer?: string | undefined;
  /** Claim `aud`. Only readers that are configured with it take the token. */
  readonly audience?: string | readonly string[] | undefined;
  /** Header `typ`. Default `JWT`; another keeps tokens of different kinds apart (RFC 8725 §3.11), for example `at+jwt`. */
  readonly type?: string | undefined;
  /** Claim `jti`: this text, or with `true` 128 random bits. Default: none. */
  readonly id?: boolean | string | undefined;
  readonly clock?: Clock | undefined;
}

/** What a token must be. */
export interface TokenRequirements {
  /** `iss` must be exactly this. Default: not looked at. */
  readonly issuer?: string | undefined;
  /** `aud` must be one of these, or hold one of them. Default: a token that has an `aud` is refused (RFC 7519 §4.1.3). */
  readonly audience?: string | readonly string[] | undefined;
  /** `typ` must be this, in any case, with or without `application/`. Default: `JWT`, `at+jwt` (an access token, RFC 9068) or absent. */
  readonly type?: string | undefined;
  /** By how much the clocks may differ, 0 ... 300: widens `exp`, `nbf` and `iat`. Default 0. */
  readonly leewaySeconds?: number | undefined;
  /** Whether a token without `exp` is refused. Default true: one without an end cannot be waited out. */
  readonly requireExp?: boolean | undefined;
  /** Longer tokens are refused unread, 64 ... 1_048_576 characters. Default 8192. */
  readonly maxLength?: number | undefined;
}

/** {@link TokenRequirements}, and the time to compare with. */
export interface VerifyTokenOptions extends TokenRequirements {
  readonly clock?: Clock | undefined;
}

// -- making --

const TEN_YEARS_SECONDS = 315_360_000;
const ID_BYTES = 16;
const MEDIA_TYPE = /^(?:[\w!#$&^.+-]+\/)?[\w!#$&^.+-]{1,127}$/;
/** Names or one name, none of them empty. */
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

/** Claims that createToken() writes itself, and names that would not arrive as they were given. */
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
 * A token for a subject, signed with the secret's own UTF-8 bytes, so that any HS256 library can read it. Claims: `sub`, `iat`,
 * `exp`, then those of the options. The header names the key (`kid`) when there is more than one secret.
 *
 * @throws SvcError `E_TOKEN_CLAIM` for a subject that is not text or is empty, and for claims that are taken or that JSON cannot
 * write; `E_OPTION_RANGE`, `E_OPTION_UNKNOWN`; `E_SECRET_WEAK`, `E_SECRET_FORM`
 */
export function createToken(sub: string, secret: Secrets, options: CreateTokenOptions = {}): string {
  const {
    expiresInSeconds = 900,
    claims,
    issuer,
    audience,
    type = 'JWT',
    id,
    clock = systemClock,
  } = readOptions('createToken()', options, MAKING);
  const keyring = Keyring.of(secret);
  if (typeof sub !== 'string' || sub === '' || !sub.isWellFormed())
    throw new SvcError('E_TOKEN_CLAIM', ['sub', 'must be well-formed text that is not empty']);
  if (claims !== undefined) refuseTaken(claims);
  const iat = Math.floor(clock.nowMs() / 1_000);
  const jti = id === true ? randomBytes(ID_BYTES).toString('base64url') : id === false ? undefined : id;
  const text = asJson({ sub, iat, exp: iat + expiresInSeconds, iss: issuer, aud: audience, jti, ...claims });
  const signed = `${headerFor(keyring, type)}.${segmentOf(text)}`;
  return `${signed}.${hmacSha256(keyring.current.key, signed)}`;
}

function refuseTaken(claims: Readonly<Record<string, unknown>>): void {
  for (const name of Object.keys(claims)) {
    if (TAKEN.has(name)) throw new SvcError('E_TOKEN_CLAIM', [name, 'cannot be given among the claims']);
  }
}

function asJson(claims: object): string {
  try {
    return JSON.stringify(claims);
  } catch (error) {
    throw new SvcError('E_TOKEN_CLAIM', ['claims', 'cannot be written as JSON'], { cause: error }); // a cycle, a bigint, a toJSON() that throws
  }
}

const PLAIN_HEADER = segmentOf('{"alg":"HS256","typ":"JWT"}');
/** Header segments by `typ` and `kid`. */
const headers = new Map<string, string>();
const MOST_HEADERS = 256;

function headerFor(keyring: Keyring, typ: string): string {
  const kid = keyring.keys.length > 1 ? keyring.current.id : undefined;
  if (kid === undefined && typ === 'JWT') return PLAIN_HEADER;
  const key = `${typ} ${kid}`;
  let header = headers.get(key);
  if (header === undefined)
    keep(headers, MOST_HEADERS, key, (header = segmentOf(JSON.stringify({ alg: 'HS256', typ, kid }))));
  return header;
}

/** Keeps a value, and gives up the oldest beyond `most`. */
function keep<T>(kept: Map<string, T>, most: number, key: string, value: T): void {
  if (kept.size >= most) kept.delete(kept.keys().next().value!);
  kept.set(key, value);
}

// -- reading --

const READING = {
  ...COMMON,
  leewaySeconds: number(0, 0, 300),
  requireExp: bool(true),
  maxLength: int(8_192, 64, 1_048_576),
};

/** {@link TokenRequirements}, read once. */
export interface TokenChecks {
  readonly issuer: string | undefined;
  readonly audiences: ReadonlySet<string> | undefined;
  /** In lower case, without `application/`. */
  readonly type: string | undefined;
  readonly leewaySeconds: number;
  readonly requireExp: boolean;
  readonly maxLength: number;
}

/** What a token must be, read once for many tokens. @throws SvcError `E_OPTION_RANGE`, `E_OPTION_UNKNOWN`, in the name of `owner` */
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
 * The claims of a token (RFC 7515 §7.1). HS256 only, whatever its header says (RFC 8725 §3.1); `sub` is required, and so is
 * `exp`, which RFC 7519 leaves open; an `aud` that nobody expects is refused. The claims are a fresh object each time.
 *
 * `C` is what the caller knows about further claims: it is believed, not checked.
 *
 * @throws InvalidToken for every token that is refused, and SvcError for options and secrets that are mistaken
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
  return found as Claims & C; // C is the caller's word
}

/** {@link verifyToken} as a value, with what does not change worked out before: the claims, or why there are none. Never throws. */
export function readToken(
  keyring: Keyring,
  token: unknown,
  checks: TokenChecks,
  nowSeconds: number,
): Claims | TokenRefusal {
  if (typeof token !== 'string') return 'form';
  if (token.length > checks.maxLength) return 'length';
  const first = token.indexOf('.');
  const second = token.length - MAC_CHARACTERS - 1;
  if (first < 1 || second < first + 2 || token.indexOf('.', first + 1) !== second) return 'form';
  const header =
    token.startsWith(PLAIN_HEADER) && first === PLAIN_HEADER.length ? PLAIN : headerOf(token.slice(0, first));
  if (typeof header === 'string') return header;
  if (header.type !== checks.type && !(checks.type === undefined && USUAL_TYPES.has(header.type!)))
    return 'type';
  const signer = header.kid === undefined ? undefined : keyring.find(header.kid);
  if (header.kid !== undefined && signer === undefined) return 'key';
  const keys = signer === undefined ? keyring.keys : [signer];
  if (!isSigned(token.slice(0, second), token.slice(second + 1), keys)) return 'signature';
  if (header !== PLAIN && first <= MAX_KEPT_CHARACTERS)
    keep(knownHeaders, MOST_HEADERS, token.slice(0, first), header);
  const claims = objectOf(token.slice(first + 1, second));
  return claims === undefined
    ? 'payload'
    : (issueOf(claims, checks, nowSeconds) ?? (claims as unknown as Claims)); // issueOf() checked the types
}

/** Types that count where none is required. */
const USUAL_TYPES: ReadonlySet<string> = new Set(['jwt', 'at+jwt']);

/** 32 bytes in base64url. */
const MAC_CHARACTERS = 43;
const expectedBytes = Buffer.alloc(MAC_CHARACTERS);
const presentedBytes = Buffer.alloc(MAC_CHARACTERS);

/** Whether one of the keys signed a text. Texts are compared, not bytes, so that a MAC has one spelling; both have 43 characters. */
function isSigned(signed: string, presented: string, keys: readonly RingKey[]): boolean {
  presentedBytes.write(presented, 'latin1');
  for (const { key } of keys) {
    const expected = hmacSha256(key, signed);
    expectedBytes.write(expected, 'latin1');
    // the second comparison tells apart what Latin-1 does not; it is reached by those who have the MAC already
    if (timingSafeEqual(expectedBytes, presentedBytes) && expected === presented) return true;
  }
  return false;
}

// -- headers --

interface Header {
  readonly type: string | undefined;
  readonly kid: string | undefined;
}

const PLAIN: Header = Object.freeze({ type: 'jwt', kid: undefined });
/** A `kid` of ours has 12 characters, and nothing else that is accepted is long. */
const MAX_HEADER_CHARACTERS = 1_024;
const MAX_KEPT_CHARACTERS = 256;
/** Headers of tokens whose MAC was right: others could be invented without end. */
const knownHeaders = new Map<string, Header>();
/** Members that would have to be understood (RFC 7515 §4.1.11), bring a key along, or say that more is wrapped inside. */
const UNSUPPORTED: ReadonlySet<string> = new Set([
  'crit',
  'b64',
  'jwk',
  'jku',
  'x5u',
  'x5c',
  'cty',
  'zip',
  'enc',
]);

function headerOf(segment: string): Header | TokenRefusal {
  const known = knownHeaders.get(segment);
  if (known !== undefined) return known;
  const header = segment.length > MAX_HEADER_CHARACTERS ? undefined : objectOf(segment);
  if (header === undefined || Object.keys(header).some((name) => UNSUPPORTED.has(name))) return 'header';
  if (own(header, 'alg') !== 'HS256') return 'algorithm';
  const [typ, kid] = [own(header, 'typ'), own(header, 'kid')];
  if (typ !== undefined && typeof typ !== 'string') return 'type';
  if (kid !== undefined && typeof kid !== 'string') return 'key';
  return { type: typ === undefined ? undefined : mediaType(typ), kid };
}

/** RFC 7515 §4.1.9: case does not count, and `application/` may be left out. */
function mediaType(typ: string): string {
  return typ.toLowerCase().replace(/^application\/(?=[^/]*$)/, '');
}

/** A member that the object itself has: a polluted prototype gives nobody an algorithm or a subject. */
function own(object: JsonObject, name: string): unknown {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

// -- claims --

function issueOf(
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
  if (
    audiences === undefined
      ? aud !== undefined
      : ![aud].flat().some((name) => name !== undefined && audiences.has(name))
  )
    return 'audience';
  return undefined;
}

/** The end of the year 9999 in seconds: what is later was written in milliseconds, and would never expire. */
export const LATEST_SECONDS = 253_402_300_799;

/** A NumericDate (RFC 7519 §2), or absent: null and text are neither. JSON's 1e400 is read as infinity. */
function isTime(value: unknown): value is number | undefined {
  return (
    value === undefined ||
    ((value as number) >= 0 && (value as number) <= LATEST_SECONDS && typeof value === 'number')
  );
}

function isTextOrAbsent(value: unknown): value is string | undefined {
  return value === undefined || typeof value === 'string';
}

function isNames(value: unknown): value is string | string[] {
  return (
    typeof value === 'string' || (Array.isArray(value) && value.every((name) => typeof name === 'string'))
  );
}

/** Why a token is refused. */
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
  | 'verify'; // by BearerAuth(), of tokens that are otherwise in order

/** 401: a token that is malformed, forged, expired or meant for somebody else. All look the same to the client (RFC 6750 §3.1). */
export class InvalidToken extends Unauthorized {
  /** For the audit log; never sent. */
  readonly reason: TokenRefusal;

  constructor(reason: TokenRefusal) {
    // no stack: it would say where tokens are verified, and taking it costs ten times the rest (topic `jwt` of test/bench/table.ts)
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
