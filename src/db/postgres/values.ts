/**
 * Encodes JavaScript values as PostgreSQL parameters. If the type of a parameter is known, numbers, booleans,
 * dates and bytes that fit the type are sent in binary. Lists are sent as arrays or JSON, and objects as
 * JSON.
 *
 * If the type of a parameter is unknown, its value is sent as text, which the server converts. Some values,
 * such as objects, need a known type: see needsTypes().
 *
 * A value that does not fit the type of its parameter is sent as text, so that the server reports the error.
 */
import { asBuffer } from '../../base/bytes.ts';
import { SvcError } from '../../base/errors.ts';
import { arrayText } from './arrays.ts';
import { dateTextOf, instantText, microsOf } from './dates.ts';
import { OID, type PostgresType, type PostgresTypes } from './types.ts';
import { parameterIssue, refuseParameter, type ParameterPlace, type Refusal } from '../parameters.ts';
import { Bound, Json, bytesOf, type Params } from '../values.ts';
import type { MessageWriter } from './writer.ts';

const TWO_32 = 2 ** 32;
/** Stands for the oid of a parameter whose type is not known. */
const UNDESCRIBED = 0;
/** First oid of types that are not built in, including domains. A look-up for each built-in type would cost 8 %. */
const FIRST_OWN_OID = 16_384;
/** Maximum nesting of lists, which is PostgreSQL's limit for arrays. */
const MAX_LEVELS = 6;
const NUL: Refusal = { problem: 'text with a NUL, which PostgreSQL cannot store', sqlstate: '22021' };

/** SQL text of a statement, and the number of a row of values, counted from 1, for error messages. */
export type RowPlace = Pick<ParameterPlace, 'sql' | 'row'>;

/** Returns whether one of the values can be encoded only if the type of its parameter is known. */
export function needsTypes(params: Params): boolean {
  for (const value of params as readonly unknown[]) {
    if (
      typeof value === 'number'
        ? !Number.isFinite(value)
        : typeof value === 'bigint'
          ? BigInt.asIntN(64, value) !== value
          : typeof value === 'object' &&
            value !== null &&
            !(value instanceof Date) &&
            !(value instanceof Json)
    )
      return true;
  }
  return false;
}

/**
 * Writes the values of a Bind message. `oids` has the types of the parameters. It is undefined if the types
 * are not known. After an error, the message is incomplete.
 */
export function writeParams(
  writer: MessageWriter,
  params: Params,
  oids: readonly number[] | undefined,
  types: PostgresTypes,
  sql: string,
  row?: number,
): void {
  for (let index = 0; index < params.length; index++) {
    const value = params[index];
    const described = oids?.[index] ?? UNDESCRIBED;
    // a domain is encoded like its base type
    const oid = described < FIRST_OWN_OID ? described : (types.get(described)?.oid ?? described);
    if (writeBinary(writer, value, oid)) {
      writer.binary(index);
      continue;
    }
    // a Date inside a JSON document is quoted, but a Date for a JSON parameter is not
    const text = valueText(value, value instanceof Date && isJson(oid) ? UNDESCRIBED : oid, types);
    if (typeof text === 'string') writer.valueText(text);
    else if (text === null) writer.valueNull();
    else {
      const problem = `bytes for a parameter of type ${types.get(oid)?.name ?? oid}: write ?::bytea`;
      refuseParameter(text ?? parameterIssue(value) ?? { problem }, { position: index + 1, row, sql });
    }
  }
}

/** Writes a value in the binary form of its type. Returns false if the value must be sent as text. */
function writeBinary(writer: MessageWriter, value: unknown, oid: number): boolean {
  switch (oid) {
    case OID.int2:
      if (!isInteger(value, 16)) return false;
      writer.valueInt16(value);
      return true;
    case OID.int4:
      if (!isInteger(value, 32)) return false;
      writer.valueInt32(value);
      return true;
    case OID.int8:
      return writeInt8(writer, value);
    case OID.float8:
      if (typeof value !== 'number' || !Number.isFinite(value)) return false;
      writer.valueFloat64(value);
      return true;
    case OID.bool:
      if (typeof value !== 'boolean') return false;
      writer.valueByte(value ? 1 : 0);
      return true;
    case OID.timestamp:
    case OID.timestamptz:
      if (!(value instanceof Date) || Number.isNaN(value.getTime())) return false;
      writer.valueInt64(...microsOf(value));
      return true;
    case OID.bytea: {
      const bytes = bytesOf(value);
      if (bytes === undefined) return false;
      writer.valueBytes(bytes);
      return true;
    }
    default:
      return false;
  }
}

function isInteger(value: unknown, bits: 16 | 32): value is number {
  return typeof value === 'number' && (value << (32 - bits)) >> (32 - bits) === value;
}

function writeInt8(writer: MessageWriter, value: unknown): boolean {
  if (typeof value === 'number' && Number.isSafeInteger(value)) {
    const high = Math.floor(value / TWO_32);
    writer.valueInt64(high, value - high * TWO_32);
    return true;
  }
  if (typeof value !== 'bigint' || BigInt.asIntN(64, value) !== value) return false;
  writer.valueInt64(Number(value >> 32n), Number(value & 0xffff_ffffn));
  return true;
}

/** Returns the text of a value for a column of the type `oid`, or null for NULL. */
export function textOf(
  value: unknown,
  index: number,
  oid: number,
  types: PostgresTypes,
  place: RowPlace,
): string | null {
  const base = oid < FIRST_OWN_OID ? oid : (types.get(oid)?.oid ?? oid);
  const text = valueText(value, base, types);
  if (typeof text === 'string' || text === null) return text;
  const problem = `a value that a column of type ${types.get(oid)?.name ?? oid} cannot hold`;
  return refuseParameter(text ?? parameterIssue(value) ?? { problem }, { ...place, position: index + 1 });
}

/**
 * Returns the text that a custom type encodes for a list or an object. Returns undefined if the type has no
 * `encode`.
 */
function ownText(value: object, oid: number, types: PostgresTypes): string | Refusal | undefined {
  const type = types.get(oid);
  if (type?.encode === undefined) return undefined;
  const problem = `a value of the type "${type.name}", for which "encode" returns no text`;
  return encoded(value, type.encode) ?? { problem };
}

function encoded(value: unknown, encode: (value: unknown) => unknown): string | undefined {
  try {
    const text = encode(value);
    return typeof text === 'string' ? text : undefined;
  } catch {
    return undefined; // ignore the error, whose message may contain the value
  }
}

function isJson(oid: number): boolean {
  return oid === OID.json || oid === OID.jsonb;
}

function dateAsText(value: Date, oid: number): string {
  if (oid === OID.date) return dateTextOf(value);
  return isJson(oid) ? JSON.stringify(value) : instantText(value);
}

function hexText(value: Uint8Array): string {
  return `\\x${asBuffer(value).toString('hex')}`;
}

/** Returns JSON text. Returns a reason or undefined for a value that JSON cannot represent. */
function jsonText(value: object): string | Refusal | undefined {
  if (value instanceof Promise) return undefined;
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (error instanceof SvcError)
      return { problem: 'an object or list with a value of typed() or sql in it' };
    // the object has a cycle or a bigint; the error is ignored, because its message may quote the object
    return undefined;
  }
}

/**
 * Returns the text of an array. If an element cannot be stored, returns the reason. If an element has a wrong
 * type, or lists are nested too deep, returns undefined.
 */
function listText(
  list: readonly unknown[],
  type: PostgresType | undefined,
  types: PostgresTypes,
): string | Refusal | undefined {
  let refused: Refusal | undefined;
  let isGood = true;
  if (isTooDeep(list)) return undefined;
  const element = type?.element;
  const text = arrayText(
    element?.encode === undefined ? list : list.map(encodedElement(element.encode)),
    (value) => {
      const written = valueText(value, element?.oid ?? UNDESCRIBED, types);
      if (typeof written === 'string' || written === null) return written;
      isGood = false;
      refused ??= written;
      return null;
    },
    element?.delimiter ?? ',',
  );
  return isGood ? text : refused;
}

/**
 * Returns a function that encodes an array element as text. Without this function, an element that is a list
 * would become a further dimension of the array.
 */
function encodedElement(encode: (value: unknown) => unknown): (value: unknown) => unknown {
  return (value) =>
    typeof value === 'object' && value !== null && !(value instanceof Bound) ? encoded(value, encode) : value;
}

/** Returns whether lists are nested deeper than MAX_LEVELS, or contain themselves. */
function isTooDeep(list: readonly unknown[], level: number = 1): boolean {
  return level > MAX_LEVELS || list.some((value) => Array.isArray(value) && isTooDeep(value, level + 1));
}

/** Text of a value; null for NULL, a refusal for wrong content, undefined for a wrong type. */
type ValueText = string | null | Refusal | undefined;

function valueText(value: unknown, oid: number, types: PostgresTypes): ValueText {
  switch (typeof value) {
    case 'string':
      if (value.includes('\0')) return NUL;
      return value.isWellFormed() ? value : parameterIssue(value);
    case 'number':
      return Number.isFinite(value) || oid === OID.float8 || oid === OID.float4 || oid === OID.numeric
        ? Object.is(value, -0)
          ? '-0'
          : String(value)
        : parameterIssue(value);
    case 'bigint':
      return (oid === OID.numeric ? undefined : parameterIssue(value)) ?? String(value);
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? null : objectText(value, oid, types);
    default:
      return undefined;
  }
}

function objectText(value: object, oid: number, types: PostgresTypes): ValueText {
  if (value instanceof Date) return parameterIssue(value) ?? dateAsText(value, oid);
  if (value instanceof Json) return value.text;
  if (value instanceof Bound) return parameterIssue(value);
  const own = ownText(value, oid, types);
  if (own !== undefined) return typeof own === 'string' ? valueText(own, oid, types) : own;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return oid === OID.bytea || oid === UNDESCRIBED ? hexText(bytes) : undefined;
  if (isJson(oid)) return jsonText(value);
  const type = types.get(oid);
  return Array.isArray(value) && (type?.element !== undefined || oid === UNDESCRIBED)
    ? listText(value, type, types)
    : undefined;
}
