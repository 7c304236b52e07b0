/**
 * The string formats of JSON Schema. Each has a test that runs in linear time, and a maximum length. This
 * file also converts date-times and base64, and counts code points.
 *
 * The tests follow JSON Schema 2020-12 §7.3: RFC 3339 for dates, RFC 9562 for UUIDs, RFC 3986 for URIs, RFC
 * 1123 for host names. `email` is the dot-atom form of RFC 5321: at most 64 characters before the @
 * (§4.5.3.1.1), labels of at most 63 (RFC 1035 §2.3.4), and a domain of two labels or more. Quoted local
 * parts, address literals and characters beyond ASCII are refused.
 */
import { asBuffer } from '../base/bytes.ts';
import type { Constraints, FormatName } from './types.ts';

/**
 * Test of one format. `words` completes the sentence "must be ...". `maxLength` is in UTF-16 units, and is
 * checked before the format.
 */
interface Format {
  readonly words: string;
  readonly maxLength: number;
  /** Pattern that API documents show next to the format name, because many validators ignore format names. */
  readonly pattern: RegExp;
  /** True when the pattern alone decides whether a text has the format. */
  readonly isWhole?: true;
  /** Faster pattern with the same result, for texts of at most `maxLength` UTF-16 units. */
  readonly short?: { readonly pattern: RegExp; readonly maxLength: number };
  test(text: string): boolean;
}

const ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+";
// the character classes do not overlap, so a text matches in at most one way, in linear time
const LABEL = '[A-Za-z0-9]+(?:-+[A-Za-z0-9]+)*';
const EMAIL = emailPattern('(?![^@]{65})', `(?![A-Za-z0-9-]{64})${LABEL}`);
/** Faster pattern for e-mail addresses that are so short that no part can exceed its maximum length. */
const SHORT_EMAIL = emailPattern('', LABEL);
const SHORT_LENGTH = 64;
const UUID = /^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$/;
const DATE = /^([0-9]{4})-([0-9]{2})-([0-9]{2})$/;
const TIME = /^([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))$/;
/**
 * DATE_SHAPE and TIME_SHAPE give the syntax of a date-time (RFC 3339 §5.6), without the rules of the
 * calendar. They allow neither a space instead of `T` nor an offset without minutes.
 */
const DATE_SHAPE = '[0-9]{4}-[0-9]{2}-[0-9]{2}';
const TIME_SHAPE = '[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})';
/**
 * Matches date-times that may lie outside the years 0000 to 9999 in UTC. They are on the first or last day of
 * this range, and have an offset or a leap second.
 */
const EDGE = '0000-01-01.*[+](?!00:00$)|9999-12-31.*(?::60|-(?!00:00$))';
/** Pattern that API documents show for a `datetime`. */
export const MOMENT_PATTERN: string = `^(?!${EDGE})${DATE_SHAPE}[Tt]${TIME_SHAPE}$`;
const AT_EDGE = new RegExp(`^(?:${EDGE})`);
const HOSTNAME =
  /^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$/;
const OCTET = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])';
const IPV4 = new RegExp(`^${OCTET}(?:[.]${OCTET}){3}$`);
const IPV6_SHAPE = /^(?=.*:)[0-9A-Fa-f:.]{2,45}$/;
/**
 * Syntax of a URI (RFC 3986 §3): a scheme, then only characters that a URI may contain. Two hexadecimal
 * digits follow each percent sign. Brackets are only allowed around an IP address.
 */
const URI = uriPattern();
/**
 * Matches the IP address in brackets of a URI. The first group is `v` for an address of a future IP version
 * (RFC 3986 §3.2.2).
 */
const IP_LITERAL = /^[^:]*:\/\/[^/?#[]*\[(v?)([^\]]*)\]/i;

function emailPattern(before: string, label: string): RegExp {
  return new RegExp(`^${before}${ATOM}(?:\\.${ATOM})*@${label}(?:\\.${label})+$`, 'u');
}

function uriPattern(): RegExp {
  const chars = (more: string): string => `(?:[A-Za-z0-9._~!$&'()*+,;=${more}-]|%[0-9A-Fa-f]{2})*`;
  const literal = `\\[(?:[0-9A-Fa-f:.]+|[Vv][0-9A-Fa-f]+[.][A-Za-z0-9._~!$&'()*+,;=:-]+)\\]`;
  const authority = `//(?:${chars(':')}@)?(?:${literal}|${chars('')})(?::[0-9]*)?(?=[/?#]|$)`;
  return new RegExp(
    `^[A-Za-z][A-Za-z0-9+.-]*:(?:${authority})?${chars(':@/')}(?:\\?${chars(':@/?')})?(?:#${chars(':@/?')})?$`,
  );
}

/** Formats by their JSON Schema names. */
export const FORMATS: Readonly<Record<FormatName, Format>> = {
  email: {
    words: 'an e-mail address',
    // the limit is 254, because RFC 5321 §4.5.3.1.3 allows 256 characters, including < and >
    maxLength: 254,
    pattern: EMAIL,
    isWhole: true,
    short: { pattern: SHORT_EMAIL, maxLength: SHORT_LENGTH },
    test: (text) => (text.length <= SHORT_LENGTH ? SHORT_EMAIL : EMAIL).test(text),
  },
  uuid: { words: 'a UUID', maxLength: 36, pattern: UUID, isWhole: true, test: (text) => UUID.test(text) },
  date: {
    words: 'a date such as 2026-01-31',
    maxLength: 10,
    pattern: new RegExp(`^${DATE_SHAPE}$`),
    test: isDate,
  },
  'date-time': {
    words: 'a date and time with an offset such as 2026-01-31T09:30:00Z',
    maxLength: 64,
    pattern: new RegExp(`^${DATE_SHAPE}[Tt]${TIME_SHAPE}$`),
    test: (text) => epochMs(text) !== undefined,
  },
  time: {
    words: 'a time with an offset such as 09:30:00Z',
    maxLength: 64,
    pattern: new RegExp(`^${TIME_SHAPE}$`),
    test: (text) => timeMs(text) !== undefined,
  },
  uri: { words: 'a URI', maxLength: 8_192, pattern: URI, test: isUri },
  hostname: {
    words: 'a host name',
    maxLength: 253,
    pattern: HOSTNAME,
    isWhole: true,
    test: (text) => HOSTNAME.test(text),
  },
  ipv4: {
    words: 'an IPv4 address',
    maxLength: 15,
    pattern: IPV4,
    isWhole: true,
    test: (text) => IPV4.test(text),
  },
  ipv6: { words: 'an IPv6 address', maxLength: 45, pattern: IPV6_SHAPE, test: isIpv6 },
};

/** All patterns that API documents show next to a format name. */
export const FORMAT_PATTERNS: ReadonlySet<string> = new Set([
  MOMENT_PATTERN,
  ...Object.values(FORMATS).map(({ pattern }) => pattern.source),
]);

const DAYS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Whether `YYYY-MM-DD` is a day of the proleptic Gregorian calendar, years 0000 ... 9999. */
export function isDate(text: string): boolean {
  const parts = DATE.exec(text);
  if (parts === null) return false;
  const year = Number(parts[1]),
    month = Number(parts[2]),
    day = Number(parts[3]);
  if (month < 1 || month > 12 || day < 1) return false;
  const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  return day <= (month === 2 && isLeap ? 29 : DAYS[month - 1]!);
}

/**
 * Returns the milliseconds from midnight UTC to an RFC 3339 full-time; undefined for other text. With an
 * offset, the result may be negative, or longer than a day.
 */
function timeMs(text: string): number | undefined {
  const parts = TIME.exec(text);
  if (parts === null) return undefined;
  const hour = Number(parts[1]),
    minute = Number(parts[2]),
    second = Number(parts[3]);
  const offsetHour = Number(parts[6] ?? 0),
    offsetMinute = Number(parts[7] ?? 0);
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const minutes = hour * 60 + minute - (parts[5] === '-' ? -1 : 1) * (offsetHour * 60 + offsetMinute);
  // a leap second must be at the end of a day in UTC (RFC 3339 §5.6)
  if (second === 60 && (minutes + 1_440) % 1_440 !== 1_439) return undefined;
  return (minutes * 60 + second) * 1_000 + Number((parts[4] ?? '').slice(0, 3).padEnd(3, '0'));
}

const FIRST_MS = Date.parse('0000-01-01T00:00:00Z');
const LAST_MS = Date.parse('9999-12-31T23:59:59.999Z');

/** Whether a text has the syntax of a URI, and its brackets hold an IP address. */
function isUri(text: string): boolean {
  if (!URI.test(text)) return false;
  const literal = IP_LITERAL.exec(text);
  return literal === null || literal[1] !== '' || isIpv6(literal[2]!);
}

/**
 * Parses an RFC 3339 date-time to milliseconds since 1970. A leap second counts as the first moment of the
 * next day, as in POSIX time.
 */
function epochMs(text: string): number | undefined {
  if (text.length > 64 || (text[10] !== 'T' && text[10] !== 't')) return undefined;
  const day = text.slice(0, 10);
  const inDay = isDate(day) ? timeMs(text.slice(11)) : undefined;
  return inDay === undefined ? undefined : Date.parse(day) + inDay;
}

/**
 * Parses a `datetime` to milliseconds since 1970. Returns NaN for invalid text, and when the year in UTC may
 * be outside 0000 ... 9999.
 */
export function momentMs(text: string): number {
  return AT_EDGE.test(text) ? NaN : (epochMs(text) ?? NaN);
}

/** Returns the milliseconds, or NaN if their year in UTC is not 0000 to 9999. */
export function checkedMs(ms: number): number {
  return ms >= FIRST_MS && ms <= LAST_MS ? ms : NaN;
}

/**
 * Whether a text is an IPv6 address (RFC 4291 §2.2): eight groups, one `::` for zero groups, optional dotted
 * decimals at the end.
 */
function isIpv6(text: string): boolean {
  const halves = text.split('::');
  if (halves.length > 2) return false;
  const groups: string[] = [];
  for (const half of halves) if (half !== '') groups.push(...half.split(':'));
  let count = groups.length;
  for (let i = 0; i < groups.length; i++) {
    const group = groups[i]!;
    if (i === groups.length - 1 && !text.endsWith('::') && group.includes('.')) {
      if (!IPV4.test(group)) return false;
      count++;
    } else if (!/^[0-9a-fA-F]{1,4}$/.test(group)) return false;
  }
  return halves.length === 2 ? count <= 7 : count === 8;
}

/**
 * Pattern of base64 text for API documents. {@link fromBase64} does not use it, because the pattern needs too
 * much stack for long texts.
 */
export const BASE64_PATTERN = '^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$';
const OUTSIDE_BASE64 = /[^A-Za-z0-9+/]/;

/**
 * Returns the bytes of base64 text (RFC 4648 §4), or undefined. Checks the characters first, because Node's
 * decoder ignores invalid ones.
 */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  if (text.length % 4 !== 0) return undefined;
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  if (OUTSIDE_BASE64.test(padding === 0 ? text : text.slice(0, -padding))) return undefined;
  const decoded = Buffer.from(text, 'base64');
  // a copy, because `decoded` may share memory with Node's buffer pool
  return new Uint8Array(decoded.buffer.slice(decoded.byteOffset, decoded.byteOffset + decoded.length));
}

/** Returns base64 with padding (RFC 4648 §4). */
export function toBase64(bytes: Uint8Array): string {
  return asBuffer(bytes).toString('base64');
}

const HIGH_SURROGATE = /[\ud800-\udbff]/;

/**
 * Returns the number of Unicode code points. Text without surrogates, which is the usual case, is not read
 * character by character.
 */
function codePoints(text: string): number {
  if (!HIGH_SURROGATE.test(text)) return text.length;
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) {
      count--;
      i++;
    }
  }
  return count;
}

/**
 * Whether the text has at least `least` code points. Counts them only if `.length` does not decide the
 * result.
 */
export function hasAtLeast(text: string, least: number): boolean {
  return text.length >= least && (text.length >= least * 2 || codePoints(text) >= least);
}

export function hasAtMost(text: string, most: number): boolean {
  return text.length <= most || (text.length <= most * 2 && codePoints(text) <= most);
}

/**
 * Whether `value / factor` is an integer in decimal notation. For example, 0.3 is a multiple of 0.1, although
 * 0.3 / 0.1 is not 3 in binary.
 */
export function isMultiple(value: number, factor: number): boolean {
  // for integers, the operator % is exact
  if (Number.isInteger(value) && Number.isInteger(factor)) return value % factor === 0;
  const [digits, exponent] = decimal(value),
    [factorDigits, factorExponent] = decimal(factor);
  const shift = exponent - factorExponent; // at most 632, because exponents of numbers are -324 to 308
  return shift >= 0
    ? (digits * 10n ** BigInt(shift)) % factorDigits === 0n
    : digits % (factorDigits * 10n ** BigInt(-shift)) === 0n;
}

/** Splits a finite number into the digits and the exponent of its shortest decimal: digits × 10^exponent. */
function decimal(value: number): [digits: bigint, exponent: number] {
  const [mantissa, power] = value.toExponential().split('e') as [string, string];
  const point = mantissa.indexOf('.');
  const fraction = point < 0 ? 0 : mantissa.length - point - 1;
  return [BigInt(mantissa.replace('.', '')), Number(power) - fraction];
}

export function decimalPattern({ digits = 0, places = 0 }: Constraints): RegExp {
  const whole = digits - places;
  const before = whole > 1 ? `(?:0|[1-9][0-9]{0,${whole - 1}})` : whole === 1 ? '[0-9]' : '0';
  return new RegExp(`^-?${before}${places > 0 ? `(?:\\.[0-9]{1,${places}})?` : ''}$`);
}

/*
 * Conversions of values in columns of databases. A conversion returns a value that it cannot convert unchanged.
 */

export function textOf(value: unknown): unknown {
  return typeof value === 'bigint' || Number.isSafeInteger(value) ? String(value) : value;
}

const WHOLE = /^-?\d+(?:\.0*)?$/;
const DECIMAL = /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** A JavaScript number keeps every digit of a decimal with at most this number of digits. */
const EXACT_DIGITS = 15;

export function integerOf(value: unknown): unknown {
  // Number() rounds integers beyond ±2^53, but the validation refuses such integers
  return typeof value === 'bigint' || (typeof value === 'string' && WHOLE.test(value))
    ? Number(value)
    : value;
}

/**
 * Converts decimal text or a bigint to the nearest number. The validation refuses NaN, and a number that is
 * too large.
 */
export function floatOf(value: unknown): unknown {
  return typeof value === 'bigint' || (typeof value === 'string' && DECIMAL.test(value))
    ? Number(value)
    : value;
}

/**
 * Converts decimal text or a bigint to a number. If digits could be lost, the value stays unchanged, and the
 * validation refuses it.
 */
export function exactNumberOf(value: unknown): unknown {
  if (typeof value === 'bigint') return BigInt(Number(value)) === value ? Number(value) : value;
  if (typeof value !== 'string' || !DECIMAL.test(value)) return value;
  const digits = value
    .replace(/[eE].*/, '')
    .replace(/\D/g, '')
    .replace(/^0+/, '')
    .replace(/0+$/, '');
  return digits.length <= EXACT_DIGITS ? Number(value) : value;
}

export function flagOf(value: unknown): unknown {
  if (value === 1 || value === 1n || value === '1') return true;
  return value === 0 || value === 0n || value === '0' ? false : value;
}

const MIDNIGHT = /^(\d{4}-\d\d-\d\d)[T ]00:00:00(?:\.0+)?Z?$/;
const DAY_MS = 86_400_000;
const [ZERO, DOT, COLON, SPACE, LETTER_T, LETTER_Z] = [0x30, 0x2e, 0x3a, 0x20, 0x54, 0x5a];

/**
 * Parses `2024-02-29T12:30:15.250Z` to milliseconds since 1970. The T may be a space, and the Z may be
 * missing. Returns NaN for other text. It does not call `Date.parse()`, which would take 15 % of the time for
 * reading rows (test/bench/rows.ts).
 */
export function utcMs(text: string): number {
  const [hour, minute, second] = [twoDigits(text, 11), twoDigits(text, 14), twoDigits(text, 17)];
  const isTime =
    hour < 24 && minute < 60 && second < 60 && text.charCodeAt(13) === COLON && text.charCodeAt(16) === COLON;
  const separator = text.charCodeAt(10);
  if (!isTime || (separator !== LETTER_T && separator !== SPACE)) return NaN;
  let ms = utcDayMs(text) + ((hour * 60 + minute) * 60 + second) * 1_000;
  let at = 19;
  if (text.charCodeAt(at) === DOT) {
    if (!isDigit(text.charCodeAt(++at))) return NaN;
    for (let unit = 100; isDigit(text.charCodeAt(at)); at++, unit /= 10)
      if (unit >= 1) ms += (text.charCodeAt(at) - ZERO) * unit;
  }
  if (text.charCodeAt(at) === LETTER_Z) at++;
  return at === text.length ? ms : NaN;
}

let lastDate = '-'; // differs from every date
let lastDateMs = NaN;

/**
 * Returns the milliseconds since 1970 of the date at the start of a text. The last date is cached, because
 * consecutive rows often have the same date.
 */
function utcDayMs(text: string): number {
  if (text.startsWith(lastDate)) return lastDateMs;
  const date = text.slice(0, 10);
  if (!isDate(date)) return NaN; // checked first, because Date.parse() reads February 30 as a day in March
  lastDate = date;
  return (lastDateMs = Date.parse(date));
}

/** Returns the two digits at a position as a number, or NaN. */
function twoDigits(text: string, at: number): number {
  const [tens, ones] = [text.charCodeAt(at), text.charCodeAt(at + 1)];
  return isDigit(tens) && isDigit(ones) ? (tens - ZERO) * 10 + ones - ZERO : NaN;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code < ZERO + 10;
}

export function dayOf(value: unknown): unknown {
  if (typeof value === 'string') return MIDNIGHT.exec(value)?.[1] ?? value;
  return value instanceof Date && value.getTime() % DAY_MS === 0 ? value.toISOString().slice(0, 10) : value;
}

/** Converts a UUID (text or 16 bytes) to lower-case text, the form that engines with a UUID type return. */
export function uuidOf(value: unknown): unknown {
  if (typeof value === 'string') return value.toLowerCase();
  if (!(value instanceof Uint8Array) || value.length !== 16) return value;
  const hex = Buffer.from(value).toString('hex');
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}
