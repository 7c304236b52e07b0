/**
 * Converts PostgreSQL's days and microseconds since 2000-01-01 to ISO text and Date, and back. The time zone
 * of this process has no effect. Examples of the text: 2024-03-10, 2024-03-10T02:30:00.5, 0044-03-15 BC,
 * infinity
 *
 * A year BC, or a year with more than four digits, is written as the server writes it: 0044-03-15 BC.
 */
import { TWO, TWO_32 } from '../wire/bytes.ts';

const DAY_MS = 86_400_000;
const SECOND_MICROS = 1_000_000;
const DAY_SECONDS = 86_400;
const FIRST_YEAR = 2_000;
/** The Gregorian calendar repeats after this number of years. */
const ERA_YEARS = 400;
const ERA_DAYS = 146_097;
/** Number of days from 1970-01-01 to 2000-01-01. */
const EPOCH_DAYS = 10_957;
const EPOCH_MS = EPOCH_DAYS * DAY_MS;
const MAX_DATE_MS = 8.64e15;
const MAX_INT32 = 2 ** 31 - 1;
const MIN_INT32 = -(2 ** 31);
const TIMESTAMP =
  /^(\d{4,})-(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(?:([+-])(\d\d)(?::?(\d\d))?(?::?(\d\d))?)?( BC)?$/;

let lastDay = NaN;
let lastText = '';

/** Returns a day as `YYYY-MM-DD`. The text of a year before Christ ends with ` BC`. */
function dateText(days: number): string {
  // the text of the last day is cached, because neighboring rows often have the same day
  if (days === lastDay) return lastText;
  lastDay = days;
  const [year, month, day] = civil(days);
  return (lastText = `${String(year > 0 ? year : 1 - year).padStart(4, '0')}-${TWO[month]!}-${TWO[day]!}${year > 0 ? '' : ' BC'}`);
}

/** Returns the text of a binary date, which is a number of days since 2000-01-01. */
export function dateOf(days: number): string {
  if (days === MAX_INT32) return 'infinity';
  return days === MIN_INT32 ? '-infinity' : dateText(days);
}

/** Returns the text of a binary timestamp, which is passed as two 32-bit halves. */
export function timestampOf(high: number, low: number): string {
  return infinity(high, low) ?? timestampText(...splitMicros(high, low), '');
}

/** Returns a timestamptz as a Date, truncated to milliseconds; as text if no Date can hold it. */
export function instantOf(high: number, low: number): Date | string {
  // exact for 285 years before and after 2000, where the number is below 2^53
  const micros = high * TWO_32 + low;
  if (Number.isSafeInteger(micros)) return new Date(EPOCH_MS + Math.floor(micros / 1_000));
  const endless = infinity(high, low);
  if (endless !== undefined) return endless;
  const [days, inDay] = splitMicros(high, low);
  const ms = EPOCH_MS + days * DAY_MS + Math.floor(inDay / 1_000);
  return Math.abs(ms) <= MAX_DATE_MS ? new Date(ms) : timestampText(days, inDay, '+00');
}

/** Returns a timestamptz as text in UTC, with six decimals, so that texts sort by time. */
export function utcOf(high: number, low: number): string {
  return infinity(high, low) ?? timestampText(...splitMicros(high, low), 'Z', true);
}

/** Converts the server's text of a timestamp to ISO 8601. */
export function timestampFromText(text: string): string {
  return text.replace(' ', 'T');
}

/** Parses the server's text of a timestamptz in any time zone. */
export function instantFromText(text: string): Date | string {
  const read = splitText(text);
  if (read === undefined) return text;
  const ms = EPOCH_MS + read.seconds * 1_000 + Math.floor(read.micros / 1_000);
  return Math.abs(ms) <= MAX_DATE_MS ? new Date(ms) : timestampFromText(text);
}

/** Converts the server's text of a timestamptz to text in UTC with six fractional digits. */
export function utcFromText(text: string): string {
  const read = splitText(text);
  if (read === undefined) return text;
  const days = Math.floor(read.seconds / DAY_SECONDS);
  return timestampText(days, (read.seconds - days * DAY_SECONDS) * SECOND_MICROS + read.micros, 'Z', true);
}

/** Parses a timestamp into whole seconds since 2000-01-01 UTC and the remaining microseconds. */
function splitText(text: string): { readonly seconds: number; readonly micros: number } | undefined {
  const match = TIMESTAMP.exec(text);
  if (match === null) return undefined;
  const [
    ,
    year,
    month,
    day,
    hour,
    minute,
    second,
    fraction = '',
    sign,
    offsetHours = 0,
    offsetMinutes = 0,
    offsetSeconds = 0,
    bc,
  ] = match;
  const days = daysOf(bc === undefined ? Number(year) : 1 - Number(year), Number(month), Number(day));
  const offset = (Number(offsetHours) * 60 + Number(offsetMinutes)) * 60 + Number(offsetSeconds);
  return {
    seconds:
      days * DAY_SECONDS +
      (Number(hour) * 60 + Number(minute)) * 60 +
      Number(second) -
      (sign === '-' ? -offset : offset),
    micros: Number(fraction.padEnd(6, '0')),
  };
}

/** Returns a Date as a binary timestamp or timestamptz, in two 32-bit halves. */
export function microsOf(date: Date): readonly [high: number, low: number] {
  const ms = date.getTime() - EPOCH_MS;
  const micros = ms * 1_000;
  if (!Number.isSafeInteger(micros)) {
    const exact = BigInt(ms) * 1_000n;
    return [Number(exact >> 32n), Number(exact & 0xffff_ffffn)];
  }
  const high = Math.floor(micros / TWO_32);
  return [high, micros - high * TWO_32];
}

/** Returns the day of a Date in UTC as `YYYY-MM-DD`. */
export function dateTextOf(date: Date): string {
  return dateText(Math.floor(date.getTime() / DAY_MS) - EPOCH_DAYS);
}

/** Returns a Date in the server's text form, in UTC. */
export function instantText(date: Date): string {
  const days = Math.floor(date.getTime() / DAY_MS);
  return timestampText(days - EPOCH_DAYS, (date.getTime() - days * DAY_MS) * 1_000, 'Z');
}

function timestampText(days: number, inDay: number, zone: string, hasAllDigits: boolean = false): string {
  const seconds = Math.floor(inDay / SECOND_MICROS);
  const micros = inDay - seconds * SECOND_MICROS;
  const fraction = micros === 0 && !hasAllDigits ? '' : `.${fractionText(micros, hasAllDigits)}`;
  const time = `${TWO[Math.floor(seconds / 3_600)]!}:${TWO[Math.floor(seconds / 60) % 60]!}:${TWO[seconds % 60]!}${fraction}${zone}`;
  const date = dateText(days);
  return date.endsWith(' BC') ? `${date.slice(0, -3)}T${time} BC` : `${date}T${time}`;
}

function fractionText(micros: number, hasAllDigits: boolean): string {
  const digits = String(micros).padStart(6, '0');
  return hasAllDigits ? digits : digits.replace(/0+$/, '');
}

function infinity(high: number, low: number): string | undefined {
  if (high === MAX_INT32 && low === TWO_32 - 1) return 'infinity';
  return high === MIN_INT32 && low === 0 ? '-infinity' : undefined;
}

/** Splits a number of microseconds, without rounding, into whole days and the remaining microseconds. */
function splitMicros(high: number, low: number): readonly [days: number, inDay: number] {
  const micros = high * TWO_32 + low;
  const perDay = DAY_SECONDS * SECOND_MICROS;
  if (Number.isSafeInteger(micros)) {
    const days = Math.floor(micros / perDay);
    return [days, micros - days * perDay];
  }
  const exact = (BigInt(high) << 32n) + BigInt(low);
  const rest = ((exact % BigInt(perDay)) + BigInt(perDay)) % BigInt(perDay);
  return [Number((exact - rest) / BigInt(perDay)), Number(rest)];
}

/** Returns year (0 is 1 BC), month and day, even for a year that a Date cannot hold. */
function civil(days: number): readonly [year: number, month: number, day: number] {
  const era = Math.floor(days / ERA_DAYS);
  const date = new Date(EPOCH_MS + (days - era * ERA_DAYS) * DAY_MS);
  return [date.getUTCFullYear() + era * ERA_YEARS, date.getUTCMonth() + 1, date.getUTCDate()];
}

function daysOf(year: number, month: number, day: number): number {
  const era = Math.floor((year - FIRST_YEAR) / ERA_YEARS);
  return Date.UTC(year - era * ERA_YEARS, month - 1, day) / DAY_MS - EPOCH_DAYS + era * ERA_DAYS;
}
