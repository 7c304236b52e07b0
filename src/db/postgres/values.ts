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
import { SvcError } from '../../base/errors.ts';
import { arrayText } from './arrays.ts';
import { dateTextOf, instantText, microsOf } from './dates.ts';
import { OID, type PostgresType, type PostgresTypes } from './types.ts';
import {
  parameterIssue,
  refuseCount,
  refuseParameter,
  type ParameterPlace,
  type Refusal,
} from '../parameters.ts';
import { Bound, Json, bytesOf, type Params } from '../values.ts';
import type { MessageWriter } from './writer.ts';

const TWO_32 = 2 ** 32;
/** Stands for the oid of a parameter whose type is not known. */
const UNDESCRIBED = 0;
/** First oid of types that are not built in, including domains. */
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
 * are not known.
 *
 * @throws DataError for content that cannot be stored, SvcError `E_DB_PARAMETER` for a value of a wrong type;
 *   after such an error, the Bind message is incomplete
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
    const oid = oids === undefined ? UNDESCRIBED : oids[index]!;
    const refusal = writeParam(
      writer,
      params[index],
      index,
      oid < FIRST_OWN_OID ? oid : (types.get(oid)?.oid ?? oid),
      types,
    );
    if (refusal !== undefined) refuseParameter(refusal, { position: index + 1, row, sql });
  }
}

/**
 * Returns the text of a value for a column of the type `oid`, or null for NULL.
 * @throws DataError for content that cannot be stored, SvcError `E_DB_PARAMETER` for a value of a wrong type
 */
export function textOf(
  value: unknown,
  index: number,
  oid: number,
  types: PostgresTypes,
  place: RowPlace,
): string | null {
  const base = oid < FIRST_OWN_OID ? oid : (types.get(oid)?.oid ?? oid);
  const text =
    typeof value === 'object' && value !== null && !(value instanceof Date || value instanceof Json)
      ? objectText(value, base, types)
      : elementText(value, base);
  if (typeof text === 'string' || text === null) return text;
  const problem = `a value that a column of type ${types.get(oid)?.name ?? oid} cannot hold`;
  return refuseParameter(text ?? parameterIssue(value) ?? { problem }, { ...place, position: index + 1 });
}

function objectText(value: object, oid: number, types: PostgresTypes): ElementText {
  if (value instanceof Bound) return parameterIssue(value);
  const own = ownText(value, oid, types);
  if (own !== undefined) return typeof own === 'string' ? (textIssue(own) ?? own) : own;
  return bytesOf(value) === undefined ? structureText(value, oid, types) : elementText(value, oid);
}

/** Returns the reason why the server cannot store a text, or undefined. */
function textIssue(text: string): Refusal | undefined {
  if (text.includes('\0')) return NUL;
  return text.isWellFormed() ? undefined : parameterIssue(text);
}

/**
 * Checks the number of values. @throws SvcError `E_DB_PARAMETER_COUNT` when the number of values is not
 * `needed`
 */
export function checkCount(params: Params, needed: number, row?: number): void {
  if (params.length !== needed) refuseCount(needed, params.length, row);
}

function writeParam(
  writer: MessageWriter,
  value: unknown,
  index: number,
  oid: number,
  types: PostgresTypes,
): Refusal | undefined {
  switch (typeof value) {
    case 'string':
      return writeString(writer, value);
    case 'number':
      return writeNumber(writer, value, index, oid);
    case 'bigint':
      return writeBigInt(writer, value, index, oid);
    case 'boolean':
      return writeBoolean(writer, value, index, oid);
    case 'object':
      return value === null
        ? (writer.valueNull() as undefined)
        : writeObject(writer, value, index, oid, types);
    default:
      return parameterIssue(value);
  }
}

function writeString(writer: MessageWriter, value: string): Refusal | undefined {
  if (value.includes('\0') || !value.isWellFormed()) return textIssue(value);
  writer.valueText(value);
  return undefined;
}

function writeNumber(writer: MessageWriter, value: number, index: number, oid: number): Refusal | undefined {
  if (!Number.isFinite(value)) {
    if (oid !== OID.float8 && oid !== OID.float4 && oid !== OID.numeric) return parameterIssue(value);
    writer.valueText(String(value));
    return undefined;
  }
  if (oid === OID.float8) return isBinary(writer, index, writer.valueFloat64(value));
  if (Number.isInteger(value)) {
    if (oid === OID.int4 && (value | 0) === value) return isBinary(writer, index, writer.valueInt32(value));
    if (oid === OID.int8 && Number.isSafeInteger(value))
      return isBinary(
        writer,
        index,
        writer.valueInt64(Math.floor(value / TWO_32), value - Math.floor(value / TWO_32) * TWO_32),
      );
    if (oid === OID.int2 && value >= -32_768 && value <= 32_767)
      return isBinary(writer, index, writer.valueInt16(value));
  }
  writer.valueText(numberText(value));
  return undefined;
}

function writeBigInt(writer: MessageWriter, value: bigint, index: number, oid: number): Refusal | undefined {
  const refusal = oid === OID.numeric ? undefined : parameterIssue(value);
  if (refusal !== undefined) return refusal;
  if (oid === OID.int8)
    return isBinary(writer, index, writer.valueInt64(Number(value >> 32n), Number(value & 0xffff_ffffn)));
  writer.valueText(String(value));
  return undefined;
}

function writeBoolean(writer: MessageWriter, value: boolean, index: number, oid: number): undefined {
  if (oid === OID.bool) return isBinary(writer, index, writer.valueByte(value ? 1 : 0));
  writer.valueText(value ? 'true' : 'false');
  return undefined;
}

function writeObject(
  writer: MessageWriter,
  value: object,
  index: number,
  oid: number,
  types: PostgresTypes,
): Refusal | undefined {
  if (value instanceof Date) return writeDate(writer, value, index, oid);
  if (value instanceof Json) return writeString(writer, value.text);
  if (value instanceof Bound) return parameterIssue(value);
  const own = ownText(value, oid, types);
  if (own !== undefined) return typeof own === 'string' ? writeString(writer, own) : own;
  const bytes = bytesOf(value);
  if (bytes !== undefined) return writeBytes(writer, bytes, index, oid, types);
  const text = structureText(value, oid, types);
  if (typeof text !== 'string') return text ?? parameterIssue(value);
  writer.valueText(text);
  return undefined;
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

/**
 * Encodes a list or an object as JSON or as an array, depending on the type. Returns undefined for other
 * types.
 */
function structureText(value: object, oid: number, types: PostgresTypes): string | Refusal | undefined {
  if (oid === OID.json || oid === OID.jsonb) return jsonText(value);
  const type = types.get(oid);
  return Array.isArray(value) && (type?.element !== undefined || oid === UNDESCRIBED)
    ? listText(value, type)
    : undefined;
}

function writeDate(writer: MessageWriter, value: Date, index: number, oid: number): Refusal | undefined {
  if (Number.isNaN(value.getTime())) return parameterIssue(value);
  if (oid === OID.timestamptz || oid === OID.timestamp)
    return isBinary(writer, index, writer.valueInt64(...microsOf(value)));
  writer.valueText(oid === OID.date ? dateTextOf(value) : instantText(value));
  return undefined;
}

function writeBytes(
  writer: MessageWriter,
  value: Uint8Array,
  index: number,
  oid: number,
  types: PostgresTypes,
): Refusal | undefined {
  if (oid === OID.bytea) return isBinary(writer, index, writer.valueBytes(value));
  if (oid !== UNDESCRIBED)
    return { problem: `bytes for a parameter of type ${types.get(oid)?.name ?? oid}: write ?::bytea` };
  writer.valueText(hexText(value));
  return undefined;
}

function numberText(value: number): string {
  return Object.is(value, -0) ? '-0' : String(value);
}

/** Marks the value at `index`, which was just written, as binary. */
function isBinary(writer: MessageWriter, index: number, _written: void): undefined {
  writer.binary(index);
  return undefined;
}

function dateAsText(value: Date, oid: number): string {
  if (oid === OID.date) return dateTextOf(value);
  return oid === OID.json || oid === OID.jsonb ? JSON.stringify(value) : instantText(value);
}

function hexText(value: Uint8Array): string {
  return `\\x${Buffer.from(value.buffer, value.byteOffset, value.length).toString('hex')}`;
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
function listText(list: readonly unknown[], type: PostgresType | undefined): string | Refusal | undefined {
  let refused: Refusal | undefined;
  let isGood = true;
  if (isTooDeep(list)) return undefined;
  const element = type?.element;
  const text = arrayText(
    element?.encode === undefined ? list : list.map(encodedElement(element.encode)),
    (value) => {
      const written = elementText(value, element?.oid ?? UNDESCRIBED);
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
type ElementText = string | null | Refusal | undefined;

function elementText(value: unknown, oid: number): ElementText {
  switch (typeof value) {
    case 'string':
      return textIssue(value) ?? value;
    case 'number':
      return Number.isFinite(value) || oid === OID.float8 || oid === OID.float4 || oid === OID.numeric
        ? numberText(value)
        : parameterIssue(value);
    case 'bigint':
      return (oid === OID.numeric ? undefined : parameterIssue(value)) ?? String(value);
    case 'boolean':
      return String(value);
    case 'object':
      return value === null ? null : objectElementText(value, oid);
    default:
      return undefined;
  }
}

function objectElementText(value: object, oid: number): string | Refusal | undefined {
  if (value instanceof Date) return parameterIssue(value) ?? dateAsText(value, oid);
  if (value instanceof Json) return value.text;
  if (value instanceof Bound) return parameterIssue(value);
  const bytes = bytesOf(value);
  if (bytes !== undefined) return oid === OID.bytea || oid === UNDESCRIBED ? hexText(bytes) : undefined;
  return oid === OID.json || oid === OID.jsonb ? jsonText(value) : undefined;
}
