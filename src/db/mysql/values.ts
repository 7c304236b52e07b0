/**
 * Encodes JavaScript values as parameters of MySQL and MariaDB. Each value is sent with a type. An integer or
 * bigint is a LONGLONG, because LIMIT refuses a DOUBLE. Any other number is a DOUBLE, and a boolean is a
 * TINY. A string or a value of json() is a VAR_STRING, and a Uint8Array is a BLOB. A Date is a DATETIME in
 * UTC, to the millisecond.
 */
import { isFloat, type Kinds } from './types.ts';
import { TYPE } from './wire.ts';
import {
  parameterIssue,
  refuseParameter,
  type DataState,
  type ParameterPlace,
  type Refusal,
} from '../parameters.ts';
import { momentMs } from '../../schema/formats.ts';
import { Json, bytesOf, type Bytes, type Params } from '../values.ts';
import type { PacketWriter } from './writer.ts';

const UNSIGNED = 0x80;
const TWO_32 = 2 ** 32;
const MAX_DECIMAL_DIGITS = 65;
const MAX_YEAR = 9_999;
/** A value that is longer than this number of bytes is sent in chunks before the statement. */
export const LARGE_BYTES: number = 1024 * 1024;

/** MySQL's error number for each SQLSTATE of a refused value. */
const ERRNO: Readonly<Record<DataState, number>> = { '22021': 1366, '22003': 1264, '22007': 1292 };

/** Position of the values among many rows, for error messages. */
interface Place {
  /** Number of the first row of the request, counted from 1. */
  readonly row: number;
  /** Number of values in each row. */
  readonly perRow: number;
}

/** A code of {@link TYPE}, plus 0x100 for an unsigned value. */
type ParameterType = number;

/**
 * Writes values into the packet of a COM_STMT_EXECUTE. `withoutLarge` is true when large values (see
 * {@link isLarge}) have already been sent.
 *
 * @throws DataError for content that cannot be stored, SvcError `E_DB_PARAMETER` for a value of a wrong type;
 *   after such an error, the packet is incomplete
 */
export function writeParams(
  writer: PacketWriter,
  params: Params,
  kinds: Kinds | undefined,
  sql: string,
  place: Place | undefined,
  withoutLarge: boolean = false,
): void {
  const nulls = writer.reserve((params.length + 7) >> 3);
  writer.byte(1); // 1 announces that the types of the values follow
  const types = writer.reserve(2 * params.length);
  for (let index = 0; index < params.length; index++) {
    const value: unknown = params[index];
    if (value === null) {
      writer.setBits(nulls + (index >> 3), 1 << (index & 7));
      writer.set(types + 2 * index, TYPE.null);
      continue;
    }
    const type =
      withoutLarge && isLarge(value)
        ? typeof value === 'string' || value instanceof Json
          ? TYPE.varString
          : TYPE.blob
        : typeof value === 'number' && isFloat(kinds, index)
          ? writeFloat(writer, value)
          : writeValue(writer, value);
    if (typeof type === 'object') refuse(type, { sql, ...positionOf(index, place) });
    writer.set(types + 2 * index, type & 0xff);
    if (type > 0xff) writer.set(types + 2 * index + 1, UNSIGNED);
  }
}

function positionOf(index: number, place: Place | undefined): Pick<ParameterPlace, 'position' | 'row'> {
  if (place === undefined) return { position: index + 1 };
  return { position: (index % place.perRow) + 1, row: place.row + Math.floor(index / place.perRow) };
}

/** Throws the error for an invalid value, with the error number that the server would report. */
export function refuse(refusal: Refusal, place: ParameterPlace): never {
  const { sqlstate } = refusal;
  refuseParameter(refusal, { ...place, errno: sqlstate === undefined ? undefined : ERRNO[sqlstate] });
}

export function isLarge(value: unknown): value is string | Json | Bytes {
  if (typeof value === 'string') return value.length > LARGE_BYTES;
  if (value instanceof Json) return value.text.length > LARGE_BYTES;
  const bytes = bytesOf(value);
  return bytes !== undefined && bytes.length > LARGE_BYTES;
}

export function largeBytesOf(value: string | Json | Bytes): Uint8Array {
  if (typeof value === 'string') return Buffer.from(value);
  // bytesOf() does not return undefined, because only text and bytes are sent in chunks
  return value instanceof Json ? Buffer.from(value.text) : bytesOf(value)!;
}

/** Writes a value that is not null. Returns its type, or the reason to refuse it. */
function writeValue(writer: PacketWriter, value: unknown): ParameterType | Refusal {
  switch (typeof value) {
    case 'number':
      return writeNumber(writer, value);
    case 'string':
      return writeString(writer, value);
    case 'bigint':
      return writeBigInt(writer, value);
    case 'boolean':
      writer.byte(value ? 1 : 0);
      return TYPE.tiny;
    case 'object':
      return writeObject(writer, value!);
    default:
      return parameterIssue(value)!;
  }
}

function writeNumber(writer: PacketWriter, value: number): ParameterType | Refusal {
  if (Number.isSafeInteger(value) && !Object.is(value, -0)) {
    if ((value | 0) === value) writer.int64(value < 0 ? -1 : 0, value);
    else writer.int64(Math.floor(value / TWO_32), value >>> 0);
    return TYPE.longlong;
  }
  return writeFloat(writer, value);
}

function writeFloat(writer: PacketWriter, value: number): ParameterType | Refusal {
  const problem = parameterIssue(value);
  if (problem !== undefined) return problem;
  writer.float64(value);
  return TYPE.double;
}

function writeString(writer: PacketWriter, value: string): ParameterType | Refusal {
  if (!value.isWellFormed()) return parameterIssue(value)!;
  writer.textLength(writer.hasTextInstants ? withoutZone(value) : value);
  return TYPE.varString;
}

/** Matches a date and time with a zone, and captures the fraction of its second. */
const INSTANT = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * Converts a date and time with a zone to UTC, and removes the zone. Sessions are in UTC. Servers refuse to
 * store a `Z`, and MariaDB ignores an offset when it compares text with an instant.
 */
function withoutZone(text: string): string {
  if (!text.endsWith('Z') && text[text.length - 3] !== ':') return text;
  const found = INSTANT.exec(text);
  if (found === null) return text;
  if (text.endsWith('Z')) return text.slice(0, -1);
  const ms = momentMs(`${text.slice(0, 10)}T${text.slice(11)}`);
  // the server refuses a date that does not exist
  return Number.isNaN(ms) ? text : new Date(ms).toISOString().slice(0, 19) + (found[1] ?? '');
}

/**
 * Writes a bigint as a BIGINT, or as a DECIMAL if it is outside of the range of BIGINT and BIGINT UNSIGNED.
 */
function writeBigInt(writer: PacketWriter, value: bigint): ParameterType | Refusal {
  if (value >= 2n ** 64n || value < -(2n ** 63n)) return writeDecimal(writer, value);
  writer.int64(Number(value >> 32n), Number(value & 0xffff_ffffn));
  return value >= 2n ** 63n ? TYPE.longlong + 0x100 : TYPE.longlong;
}

function writeDecimal(writer: PacketWriter, value: bigint): ParameterType | Refusal {
  const digits = String(value);
  if (digits.length > MAX_DECIMAL_DIGITS + (value < 0n ? 1 : 0))
    return {
      problem: `an integer of more than ${MAX_DECIMAL_DIGITS} digits: store it as text`,
      sqlstate: '22003',
    };
  writer.textLength(digits);
  return TYPE.newDecimal;
}

function writeObject(writer: PacketWriter, value: object): ParameterType | Refusal {
  const bytes = bytesOf(value);
  if (bytes !== undefined) {
    writer.bytesLength(bytes);
    return TYPE.blob;
  }
  if (value instanceof Json) return writeString(writer, value.text);
  const problem = parameterIssue(value);
  return problem ?? writeDate(writer, value as Date);
}

function writeDate(writer: PacketWriter, date: Date): ParameterType | Refusal {
  const year = date.getUTCFullYear();
  if (year < 0 || year > MAX_YEAR)
    return {
      problem: `a date in the year ${year}, but the year must be from 0 to ${MAX_YEAR}`,
      sqlstate: '22007',
    };
  writer.byte(11);
  writer.uint16(year);
  writer.byte(date.getUTCMonth() + 1);
  writer.byte(date.getUTCDate());
  writer.byte(date.getUTCHours());
  writer.byte(date.getUTCMinutes());
  writer.byte(date.getUTCSeconds());
  writer.uint32(date.getUTCMilliseconds() * 1_000);
  return TYPE.datetime;
}
