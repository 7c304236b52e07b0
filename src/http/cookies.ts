/**
 * Cookies (RFC 6265): parses the `Cookie` field, and builds `Set-Cookie`.
 */
import { SvcError } from '../base/errors.ts';
import { closest, shown, outOfRange } from '../base/options.ts';
import { bare, isToken, stripped } from './headers.ts';
import { decodeEscapes } from './path.ts';
import type { Env } from '../base/config.ts';

/** Attributes of a cookie. An attribute that is `undefined` has its default. */
export interface CookieOptions {
  /** Path prefix of the URLs for which browsers send the cookie. Default `/`. */
  path?: string | undefined;
  /** Domain whose hosts all get the cookie. Default: only the host of the request gets it. */
  domain?: string | undefined;
  /** Lifetime in seconds, an integer; 0 or less removes the cookie. Default: until the browser closes. */
  maxAgeSeconds?: number | undefined;
  /** Hides the cookie from scripts. Default true. */
  httpOnly?: boolean | undefined;
  /**
   * Whether browsers send the cookie over TLS only. Default in production: true. Elsewhere, the default is
   * true only if the request came over TLS.
   */
  secure?: boolean | undefined;
  /**
   * Whether browsers send the cookie with requests that other sites cause. Default `lax`. `none` needs
   * `secure`.
   */
  sameSite?: 'strict' | 'lax' | 'none' | undefined;
}

/**
 * Parses a `Cookie` field into an object without prototype. If a name occurs twice, the first cookie is
 * used, because browsers send the cookie with the longer path first (RFC 6265 §5.4). Values are
 * percent-decoded if possible.
 */
export function parseCookies(field: string | undefined): Readonly<Record<string, string>> {
  const cookies = bare<Record<string, string>>();
  if (field === undefined) return cookies;
  // index of the next "=", kept for the following cookies, so that a field without "=" is searched only once
  let equals = -1;
  for (let start = 0, end = 0; start < field.length; start = end + 1) {
    end = indexFrom(field, ';', start);
    if (equals < start) equals = indexFrom(field, '=', start);
    if (equals >= end) continue; // a cookie without a value is ignored
    const name = stripped(field, start, equals);
    if (name !== '') cookies[name] ??= decodeValue(stripped(field, equals + 1, end));
  }
  return cookies;
}

/** Like `text.indexOf(part, start)`, but returns the length of the text if `part` is absent. */
export function indexFrom(text: string, part: string, start: number): number {
  const at = text.indexOf(part, start);
  return at === -1 ? text.length : at;
}

function decodeValue(value: string): string {
  const isQuoted = value.length > 1 && value.startsWith('"') && value.endsWith('"');
  const text = isQuoted ? value.slice(1, -1) : value;
  return text.includes('%') ? (decodeEscapes(text) ?? text) : text;
}

/**
 * Builds a `Set-Cookie` value. Characters that are not allowed in a cookie are percent-encoded;
 * `parseCookies` decodes them.
 */
export function serializeCookie(name: string, value: string, options: CookieOptions = {}): string {
  assertOptions(options);
  const { path = '/', domain, maxAgeSeconds, httpOnly = true, secure, sameSite = 'lax' } = options;
  const issue = issueOfName(name, options) ?? issueOfAttributes(options);
  if (issue !== undefined) refuse(name, issue);
  let field = `${name}=${encodeValue(name, value)}`;
  if (field.length > MAX_PAIR_BYTES)
    refuse(
      name,
      `name and value together have ${field.length - 1} bytes, but browsers accept at most 4,096: store the data on the server, and only an identifier in the cookie`,
    );
  field += path === '/' ? '; Path=/' : `; Path=${path}`;
  if (domain !== undefined) field += `; Domain=${domain}`;
  if (maxAgeSeconds !== undefined) field += `; Max-Age=${Math.max(0, maxAgeSeconds)}`;
  if (httpOnly) field += '; HttpOnly';
  field += SAME_SITE[sameSite];
  return secure === true ? `${field}; Secure` : field;
}

/**
 * Returns the key of the cookie that a `Set-Cookie` value sets: its name, domain, path and partition, by which
 * browsers identify it (RFC 6265 §5.3). The last attribute of a name counts, and names of attributes match in any
 * case (§5.2).
 */
export function cookieKeyOf(field: string): string {
  const [pair = '', ...attributes] = field.split(';');
  const valueOf = (name: string): string | undefined => {
    const found = attributes.findLast((one) => one.trimStart().toLowerCase().startsWith(`${name}=`));
    return found?.slice(found.indexOf('=') + 1).trim();
  };
  const domain = valueOf('domain')?.replace(/^\./, '').toLowerCase();
  const isPartitioned = attributes.some((one) => one.trim().toLowerCase() === 'partitioned');
  return JSON.stringify([pair.split('=', 1)[0]!.trim(), domain, valueOf('path'), isPartitioned]);
}

/** Refuses options whose error would silently disable a protection. */
function assertOptions(options: CookieOptions): void {
  for (const option in options)
    if (!OPTIONS.has(option) && Object.hasOwn(options, option))
      throw new SvcError('E_OPTION_UNKNOWN', [OWNER, option, closest(option, OPTIONS), [...OPTIONS]]);
  const { httpOnly = true, secure = true } = options;
  if (typeof httpOnly !== 'boolean')
    throw outOfRange(OWNER, 'httpOnly', 'must be true or false', shown(httpOnly));
  if (typeof secure !== 'boolean') throw outOfRange(OWNER, 'secure', 'must be true or false', shown(secure));
}

/** Returns why browsers refuse a name with these options; undefined if they accept it. */
function issueOfName(name: string, { path = '/', domain, secure }: CookieOptions): string | undefined {
  if (typeof name !== 'string' || !isToken(name))
    return 'the name must be a token: letters, digits and signs such as "-", without spaces (RFC 9110 §5.6.2)';
  if (!name.startsWith('__')) return undefined;
  if (secure === false && PREFIX.test(name))
    return 'a cookie name with the prefix __Host- or __Secure- requires secure: true';
  return /^__host-/i.test(name) && (path !== '/' || domain !== undefined)
    ? 'a cookie name with the prefix __Host- requires path "/" and no domain'
    : undefined;
}

/** Returns why browsers refuse these attributes, or read others; undefined if they accept them. */
function issueOfAttributes(options: CookieOptions): string | undefined {
  const { path = '/', domain, maxAgeSeconds, secure, sameSite = 'lax' } = options;
  if (path !== '/' && !/^\/[\x20-\x3a\x3c-\x7e]*$/.test(path))
    return 'the path must begin with "/", and contain only printable ASCII characters other than ";"';
  if (domain !== undefined && !/^\.?[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/i.test(domain))
    return 'the domain must be a host name such as "example.com"';
  if (maxAgeSeconds !== undefined && !Number.isSafeInteger(maxAgeSeconds))
    return 'maxAgeSeconds must be an integer';
  // the type first, because a list of one name would be converted to the name of a property
  if (typeof sameSite !== 'string' || !Object.hasOwn(SAME_SITE, sameSite))
    return 'sameSite must be "strict", "lax" or "none"';
  return sameSite === 'none' && secure === false ? 'sameSite "none" requires secure: true' : undefined;
}

/** Percent-encodes a cookie value if necessary. */
function encodeValue(name: string, value: string): string {
  if (typeof value === 'string' && UNENCODED.test(value)) return value;
  if (typeof value !== 'string' || !value.isWellFormed())
    refuse(name, 'the value must be a string of valid Unicode');
  return encodeURIComponent(value);
}

function refuse(name: string, issue: string): never {
  throw new SvcError('E_COOKIE', [String(name), issue]);
}

const OWNER = 'setCookie()';
const OPTIONS: ReadonlySet<string> = new Set([
  'path',
  'domain',
  'maxAgeSeconds',
  'httpOnly',
  'secure',
  'sameSite',
] satisfies (keyof CookieOptions)[]);
const SAME_SITE = { strict: '; SameSite=Strict', lax: '; SameSite=Lax', none: '; SameSite=None' } as const;
/** Characters that need no encoding (RFC 6265 §4.1.1), except "%", which parseCookies() would decode. */
const UNENCODED = /^[\x21\x23\x24\x26-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*$/;
/** Names that browsers accept only with the attribute `Secure` (RFC 6265bis §4.1.3). */
const PREFIX = /^__(?:host|secure)-/i;
/** Maximum length of `name=value`. Browsers allow 4,096 bytes for name and value together; the "=" adds one. */
const MAX_PAIR_BYTES = 4_097;

/** Whether browsers accept this cookie only with the attribute `Secure`. */
export function needsSecure(name: string, options: CookieOptions): boolean {
  return options.sameSite === 'none' || PREFIX.test(name);
}

/** Name and `Secure` attribute of a cookie for one host. */
export interface HostCookie {
  readonly name: string;
  readonly secure: boolean;
}

/**
 * Returns name and `Secure` attribute of a cookie for one host. The prefix `__Host-` prevents other hosts
 * from setting the cookie (RFC 6265bis §4.1.3.2). Browsers refuse the prefix without TLS, so it is omitted
 * outside production if the request came without TLS.
 */
export function hostCookie(base: string, req: { readonly scheme: 'http' | 'https' }, env: Env): HostCookie {
  const secure = env === 'production' || req.scheme === 'https';
  return { name: secure ? `__Host-${base}` : base, secure };
}
