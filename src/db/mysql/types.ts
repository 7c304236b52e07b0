/**
 * Converts column values of MySQL and MariaDB to JavaScript values:
 *   TINYINT ... INT, YEAR, FLOAT, DOUBLE   number
 *   BIGINT, signed or unsigned             number, or bigint beyond 2^53 - 1 (option int8)
 *   DECIMAL                                string with all digits
 *   TIMESTAMP                              Date, or text (option timestamps); the session is in UTC
 *   DATE, DATETIME, TIME                   ISO text, because they have no time zone
 *   BIT(1)                                 boolean; a wider BIT is a Uint8Array
 *   JSON                                   value parsed by JSON.parse()
 *   BINARY, BLOB, GEOMETRY                 Uint8Array
 *   other types                            text
 *
 * Rows of prepared statements are binary, and rows of other statements are text. Both formats give equal
 * values, except for FLOAT, which has only six digits in the text format.
 */
import { BINARY_CHARSET, type WireColumn } from './messages.ts';
import { TYPE } from './wire.ts';
import { ProtocolViolation } from '../errors.ts';
import { Json, type Params } from '../values.ts';
import { TWO, TWO_32, latin1, utf8, wideFromText } from '../wire/bytes.ts';
import type { Int8 } from '../driver.ts';
import type { CheckedType, OwnTypes } from '../own-types.ts';
import type { MySqlValueOptions } from './url.ts';

/** Decodes a value from the bytes of a row, from `at` up to `end`. */
export type Decoder = (bytes: Buffer, at: number, end: number) => unknown;

interface ColumnReader {
  readonly decode: Decoder;
  /** Length in bytes of a binary value. 0 means that the value has a length prefix. */
  readonly width: number;
}

const UNSIGNED = 0x20;
/** A FLOAT represents every integer up to 2^24 exactly. */
const EXACT_FLOAT = 2 ** 24;
const DAY_HOURS = 24;
const MAX_YEAR = 9_999;
/** Most decimals of a second. A larger number in a description means that it varies. */
const MAX_SCALE = 6;

/** Returns the decoder of a column. `isText`: the statement was not prepared. */
export function readerOf(column: WireColumn, options: MySqlValueOptions, isText: boolean): ColumnReader {
  const { binary, text, ...read } = decodersOf(column, options);
  const decode = isText ? text : binary;
  const width = isText ? 0 : read.width;
  const parse = options.types === undefined ? undefined : ownParse(column, options.types);
  if (parse === undefined) return { decode, width };
  const parsed: Decoder = (bytes, at, end) => {
    const value = decode(bytes, at, end);
    return value === null ? null : parse(value); // `value` is null for the date 0000-00-00
  };
  return { decode: parsed, width };
}

function ownParse(column: WireColumn, types: OwnTypes): CheckedType['parse'] {
  const name = typeName(column);
  return (types.get(name) ?? types.get(name.replace(' unsigned', '')))?.parse;
}

/** Decoders of a column's values in the binary and in the text format. */
interface Decoders {
  readonly width: number;
  readonly binary: Decoder;
  readonly text: Decoder;
}

function decodersOf(column: WireColumn, options: MySqlValueOptions): Decoders {
  const { type, flags, charset, length, decimals, extended } = column;
  const isUnsigned = (flags & UNSIGNED) !== 0;
  switch (type) {
    case TYPE.tiny:
      if (options.hasBooleans && length === 1)
        return decoders(
          1,
          (bytes, at) => bytes[at] !== 0,
          (text) => text !== '0',
        );
      return decoders(1, isUnsigned ? (bytes, at) => bytes[at] : (bytes, at) => bytes.readInt8(at), Number);
    case TYPE.short:
      return decoders(2, isUnsigned ? uint16 : (bytes, at) => bytes.readInt16LE(at), Number);
    case TYPE.year:
      return decoders(2, uint16, Number);
    case TYPE.long:
    case TYPE.int24:
      return decoders(
        4,
        isUnsigned ? (bytes, at) => bytes.readUInt32LE(at) : (bytes, at) => bytes.readInt32LE(at),
        Number,
      );
    case TYPE.longlong:
      return decoders(8, (isUnsigned ? WIDE_UNSIGNED : WIDE)[options.int8], WIDE_TEXT[options.int8]);
    case TYPE.float:
      return decoders(4, (bytes, at) => shortest(bytes.readFloatLE(at)), Number);
    case TYPE.double:
      return decoders(8, (bytes, at) => bytes.readDoubleLE(at), Number);
    case TYPE.decimal:
    case TYPE.newDecimal:
      return same(latin1);
    case TYPE.date:
    case TYPE.newDate:
      return decoders(
        0,
        (bytes, at, end) => dateOf(bytes, at, end, options),
        (text) => (text === ZERO_DATE && options.zeroDates === 'null' ? null : text),
      );
    case TYPE.datetime:
      return decoders(
        0,
        (bytes, at, end) => dateTimeOf(bytes, at, end, decimals, options),
        (text) => (isZero(text, options) ? null : text.replace(' ', 'T')),
      );
    case TYPE.timestamp:
      return decoders(
        0,
        (bytes, at, end) => instantOf(bytes, at, end, decimals, options),
        (text) => instantFromText(text, options),
      );
    case TYPE.time:
      return { width: 0, binary: (bytes, at, end) => timeOf(bytes, at, end, decimals), text: latin1 };
    case TYPE.bit:
      return same(length === 1 ? isSet : copied);
    case TYPE.geometry:
    case TYPE.vector:
      return same(copied);
    default:
      if (type === TYPE.json || extended === 'json') return same(options.parsesJson ? json : utf8);
      return same(
        charset === BINARY_CHARSET && !TEXTS_OF_MARIADB.has(extended) && type !== TYPE.null ? copied : utf8,
      );
  }
}

/** Returns the name of a column's type, such as `int unsigned` or `varchar`. */
export function typeName({ type, charset, length, extended, flags }: WireColumn): string {
  if (extended !== '') return extended;
  const number = NUMBERS[type];
  if (number !== undefined) return (flags & UNSIGNED) !== 0 ? `${number} unsigned` : number;
  const isBytes = charset === BINARY_CHARSET;
  switch (type) {
    case TYPE.varchar:
    case TYPE.varString:
      return isBytes ? 'varbinary' : 'varchar';
    case TYPE.string:
      return (flags & ENUM) !== 0 ? 'enum' : (flags & SET) !== 0 ? 'set' : isBytes ? 'binary' : 'char';
    case TYPE.tinyBlob:
    case TYPE.blob:
    case TYPE.mediumBlob:
    case TYPE.longBlob:
      return `${SIZES.find(([most]) => length <= most)?.[1] ?? 'long'}${isBytes ? 'blob' : 'text'}`;
    default:
      return NAMES[type] ?? 'unknown';
  }
}

const NUMBERS: Readonly<Record<number, string>> = {
  [TYPE.tiny]: 'tinyint',
  [TYPE.short]: 'smallint',
  [TYPE.int24]: 'mediumint',
  [TYPE.long]: 'int',
  [TYPE.longlong]: 'bigint',
  [TYPE.decimal]: 'decimal',
  [TYPE.newDecimal]: 'decimal',
};
const ENUM = 0x100;
const SET = 0x800;
const NAMES: Readonly<Record<number, string>> = {
  [TYPE.float]: 'float',
  [TYPE.double]: 'double',
  [TYPE.null]: 'null',
  [TYPE.timestamp]: 'timestamp',
  [TYPE.date]: 'date',
  [TYPE.newDate]: 'date',
  [TYPE.time]: 'time',
  [TYPE.datetime]: 'datetime',
  [TYPE.year]: 'year',
  [TYPE.bit]: 'bit',
  [TYPE.json]: 'json',
  [TYPE.enum]: 'enum',
  [TYPE.set]: 'set',
  [TYPE.geometry]: 'geometry',
  [TYPE.vector]: 'vector',
};
/** Lengths in bytes that the server reports for the TEXT types, with four bytes a character. */
const SIZES: readonly (readonly [most: number, name: string])[] = [
  [4 * 0xff, 'tiny'],
  [4 * 0xffff, ''],
  [4 * 0xff_ffff, 'medium'],
];
/** MariaDB types that the server describes as binary, although their values are text. */
const TEXTS_OF_MARIADB: ReadonlySet<string> = new Set(['uuid', 'inet4', 'inet6']);

function decoders(width: number, binary: Decoder, fromText: (text: string) => unknown): Decoders {
  return { width, binary, text: (bytes, at, end) => fromText(latin1(bytes, at, end)) };
}

/** Returns decoders for values that are the same in both formats. */
function same(decode: Decoder): Decoders {
  return { width: 0, binary: decode, text: decode };
}

function uint16(bytes: Buffer, at: number): number {
  return bytes.readUInt16LE(at);
}
function copied(bytes: Buffer, at: number, end: number): Uint8Array {
  return new Uint8Array(bytes.subarray(at, end));
}
function json(bytes: Buffer, at: number, end: number): unknown {
  return JSON.parse(utf8(bytes, at, end));
}
function isSet(bytes: Buffer, at: number, end: number): boolean {
  return end > at && bytes[end - 1] !== 0;
}
/** Decodes a BIGINT. Returns a number if it is exact, or else a bigint. */
function wide(bytes: Buffer, at: number): number | bigint {
  const value = bytes.readInt32LE(at + 4) * TWO_32 + bytes.readUInt32LE(at);
  return Number.isSafeInteger(value) ? value : bytes.readBigInt64LE(at);
}

const WIDE: Readonly<Record<Int8, Decoder>> = {
  auto: wide,
  bigint: (bytes, at) => bytes.readBigInt64LE(at),
  string: (bytes, at) => String(bytes.readBigInt64LE(at)),
};

const WIDE_UNSIGNED: Readonly<Record<Int8, Decoder>> = {
  auto: (bytes, at) => {
    const value = bytes.readUInt32LE(at + 4) * TWO_32 + bytes.readUInt32LE(at);
    return Number.isSafeInteger(value) ? value : bytes.readBigUInt64LE(at);
  },
  bigint: (bytes, at) => bytes.readBigUInt64LE(at),
  string: (bytes, at) => String(bytes.readBigUInt64LE(at)),
};

const WIDE_TEXT: Readonly<Record<Int8, (text: string) => unknown>> = {
  auto: wideFromText,
  bigint: BigInt,
  string: (text) => text.replace(/^0+(?=\d)/, ''), // removes the zeros that a ZEROFILL column adds
};

/** Returns the number with the fewest decimal digits that rounds to the same 32-bit floating-point number. */
function shortest(value: number): number {
  if (Number.isInteger(value) && Math.abs(value) <= EXACT_FLOAT) return value;
  for (let digits = 6; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits));
    if (Math.fround(short) === value) return short;
  }
  return Number(value.toPrecision(9));
}

// A binary date has up to 11 bytes: year (2 bytes), month, day, hour, minute, second, microsecond (4 bytes).
// Fields at the end may be missing if they are 0.

function dateOf(bytes: Buffer, at: number, end: number, { zeroDates }: MySqlValueOptions): string | null {
  const text = dateText(bytes, at, end);
  return text === ZERO_DATE && zeroDates === 'null' ? null : text;
}

function dateTimeOf(
  bytes: Buffer,
  at: number,
  end: number,
  decimals: number,
  options: MySqlValueOptions,
): string | null {
  const length = end - at;
  const time = length < 7 ? '00:00:00' : clockText(bytes, at + 4);
  const micros = length < 11 ? 0 : bytes.readUInt32LE(at + 7);
  const text = `${dateText(bytes, at, end)}T${time}${fraction(micros, decimals)}`;
  return isZero(text, options) ? null : text;
}

/** Decodes a date and time in UTC. Returns a Date, or text if the option `timestamps` is `string`. */
function instantOf(
  bytes: Buffer,
  at: number,
  end: number,
  decimals: number,
  options: MySqlValueOptions,
): Date | string | null {
  const length = end - at;
  if (length >= 4 && bytes[at + 2] !== 0 && bytes[at + 3] !== 0) {
    // dateTimeOf() does not return null here, because month and day are not 0
    if (options.timestamps === 'string') return `${dateTimeOf(bytes, at, end, decimals, options)!}Z`;
    checkTime(length);
    const [hour, minute, second] = length < 7 ? [0, 0, 0] : [bytes[at + 4]!, bytes[at + 5]!, bytes[at + 6]!];
    return new Date(
      utc(
        bytes[at]! | (bytes[at + 1]! << 8),
        bytes[at + 2]!,
        bytes[at + 3]!,
        hour,
        minute,
        second,
        length < 11 ? 0 : Math.floor(bytes.readUInt32LE(at + 7) / 1_000),
      ),
    );
  }
  return dateTimeOf(bytes, at, end, decimals, options);
}

/** Decodes a time: sign, days (4 bytes), hour, minute, second, microsecond (4 bytes; absent if 0). */
function timeOf(bytes: Buffer, at: number, end: number, decimals: number): string {
  const length = end - at;
  if (length === 0) return `00:00:00${fraction(0, decimals)}`;
  if (length !== 8 && length !== 12)
    throw new ProtocolViolation(`the server sent a time value with an invalid length of ${length} bytes`);
  const hours = bytes.readUInt32LE(at + 1) * DAY_HOURS + bytes[at + 5]!;
  return `${bytes[at] === 0 ? '' : '-'}${TWO[hours] ?? hours}:${TWO[bytes[at + 6]!]}:${TWO[bytes[at + 7]!]}${fraction(length < 12 ? 0 : bytes.readUInt32LE(at + 8), decimals)}`;
}

const ZERO_DATE = '0000-00-00';

function dateText(bytes: Buffer, at: number, end: number): string {
  checkTime(end - at);
  if (end === at) return ZERO_DATE;
  const year = bytes[at]! | (bytes[at + 1]! << 8);
  if (year > MAX_YEAR)
    throw new ProtocolViolation(
      `the server sent a date with the year ${year}; the last valid year is ${MAX_YEAR}`,
    );
  return `${TWO[Math.trunc(year / 100)]}${TWO[year % 100]}-${TWO[bytes[at + 2]!]}-${TWO[bytes[at + 3]!]}`;
}

function checkTime(length: number): void {
  if (length !== 0 && length !== 4 && length !== 7 && length !== 11)
    throw new ProtocolViolation(`the server sent a date value with an invalid length of ${length} bytes`);
}

function clockText(bytes: Buffer, at: number): string {
  return `${TWO[bytes[at]!]}:${TWO[bytes[at + 1]!]}:${TWO[bytes[at + 2]!]}`;
}

/** Formats the decimals of a second. If their number varies, trailing zeros are removed. */
function fraction(micros: number, decimals: number): string {
  if (decimals === 0 && micros === 0) return '';
  const digits = String(micros).padStart(6, '0');
  if (decimals > 0 && decimals <= MAX_SCALE) return `.${digits.slice(0, decimals)}`;
  return micros === 0 ? '' : `.${digits.replace(/0+$/, '')}`;
}

/** Returns the milliseconds of a date since 1970. Date.UTC() alone would read a year below 100 as 19xx. */
function utc(
  year: number,
  month: number,
  day: number,
  hour: number,
  minute: number,
  second: number,
  ms: number,
): number {
  if (year >= 100) return Date.UTC(year, month - 1, day, hour, minute, second, ms);
  const date = new Date(Date.UTC(2000, month - 1, day, hour, minute, second, ms));
  return date.setUTCFullYear(year, month - 1, day);
}

function isZero(text: string, { zeroDates }: MySqlValueOptions): boolean {
  return zeroDates === 'null' && /^0000-00-00[T ]00:00:00(?:\.0*)?$/.test(text);
}

function instantFromText(text: string, { zeroDates, timestamps }: MySqlValueOptions): Date | string | null {
  const match = /^(\d{4})-(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:\.(\d+))?$/.exec(text);
  if (match === null) return text;
  const [, year, month, day, hour, minute, second, digits = ''] = match;
  if (month === '00' || day === '00')
    return year === '0000' && month === '00' && day === '00' && zeroDates === 'null'
      ? null
      : text.replace(' ', 'T');
  if (timestamps === 'string') return `${text.replace(' ', 'T')}Z`;
  return new Date(
    utc(
      Number(year),
      Number(month),
      Number(day),
      Number(hour),
      Number(minute),
      Number(second),
      Number(digits.slice(0, 3).padEnd(3, '0')),
    ),
  );
}

/*
 * Since 8.0.22, MySQL fixes the parameter types of a prepared statement at its first execution, and converts
 * later values to them. For example, `select ?` with 5 and then 'abc' gives 5 and 0. MariaDB and older MySQL
 * versions do not convert values.
 *
 * The client uses a prepared statement only for values of the kinds of its first execution, and prepares the
 * text again for other kinds. NULL fits every kind, and an integer fits a floating-point parameter.
 */

const KIND = { any: 0, integer: 1, wide: 2, float: 3, text: 4, bytes: 5, instant: 6, decimal: 7 } as const;
const MAX_INT64 = 2n ** 63n - 1n;
const MIN_INT64 = -(2n ** 63n);
const MAX_UINT64 = 2n ** 64n - 1n;

/** Kind of value of each parameter. KIND.any means that the kind is not known yet. */
export type Kinds = Uint8Array;

/** Returns whether values may be bound to a statement whose parameters have these kinds. */
export function fits(kinds: Kinds, params: Params): boolean {
  for (let index = 0; index < params.length; index++) {
    const kind = kindOf(params[index]);
    if (kind === KIND.any || kinds[index] === KIND.any || kinds[index] === kind) continue;
    if (kinds[index] !== KIND.float || kind !== KIND.integer || typeof params[index] === 'bigint')
      return false;
  }
  return true;
}

/** Records the kinds of values. If a column has a fraction in any row, all its rows are floats. */
export function pin(kinds: Kinds, params: Params, perRow: number = params.length): void {
  for (let index = 0; index < params.length; index++) {
    const kind = kindOf(params[index]);
    if (kind !== KIND.any && kinds[index] !== KIND.float) kinds[index] = kind;
  }
  if (perRow < params.length)
    for (let column = 0; column < perRow; column++) widen(kinds, params, column, perRow);
}

/** Returns whether the number at `index` must be sent as a floating-point number. */
export function isFloat(kinds: Kinds | undefined, index: number): boolean {
  return kinds !== undefined && kinds[index] === KIND.float;
}

function widen(kinds: Kinds, params: Params, column: number, perRow: number): void {
  let hasFloat = false;
  let isOfNumbers = true;
  for (let index = column; index < kinds.length; index += perRow) {
    hasFloat ||= kinds[index] === KIND.float;
    isOfNumbers &&=
      kinds[index] === KIND.any || kinds[index] === KIND.float || typeof params[index] === 'number';
  }
  if (hasFloat && isOfNumbers)
    for (let index = column; index < kinds.length; index += perRow) kinds[index] = KIND.float;
}

/** Returns the kinds of the values as text, for a cache key. */
export function kindsKey(params: Params): string {
  return params.map(kindOf).join('');
}

function kindOf(value: unknown): number {
  switch (typeof value) {
    case 'number':
      return Number.isSafeInteger(value) && !Object.is(value, -0) ? KIND.integer : KIND.float;
    case 'string':
      return KIND.text;
    case 'bigint':
      if (value > MAX_UINT64 || value < MIN_INT64) return KIND.decimal;
      return value > MAX_INT64 ? KIND.wide : KIND.integer;
    case 'boolean':
      return KIND.integer;
    default:
      return value === null
        ? KIND.any
        : value instanceof Json
          ? KIND.text
          : value instanceof Date
            ? KIND.instant
            : KIND.bytes;
  }
}
