/**
 * DataRow -> objects or lists, by a plan that is made once for each statement and format.
 */
import { widthOf, utf8, type Decoder, type FoundType, type PostgresTypes } from './types.ts';
import { ProtocolViolation } from '../errors.ts';
import type { WireColumn } from './messages.ts';
import type { Row } from '../driver.ts';

/** How the rows of a statement are read. */
export interface RowPlan {
  readonly columns: readonly WireColumn[];
  readonly names: readonly string[];
  readonly decoders: readonly Decoder[];
  /** The bytes a binary value must have; 0 where they may be any. */
  readonly widths: readonly number[];
  /** What Bind must ask for, an Int16 for each column; empty for text in all. */
  readonly formats: Uint8Array;
  /** A column of this name must not become the prototype. */
  readonly hasProto: boolean;
  /** Columns of types that nobody knows yet, by their numbers: they are read as text, to be read again. */
  readonly unknown: readonly number[];
}

const NO_FORMATS = new Uint8Array(0);
const NULL_LENGTH = -1;

/** A plan for rows that come as text, or in binary where that is better. */
export function planRows(columns: readonly WireColumn[], types: PostgresTypes, isText: boolean): RowPlan {
  const found = columns.map(({ typeOid }) => types.get(typeOid));
  const isBinary = found.map((type) => !isText && type?.decodeBinary !== undefined);
  return {
    columns,
    names: columns.map(({ name }) => name),
    decoders: found.map((type, index) => (isBinary[index] ? type?.decodeBinary : type?.decodeText) ?? utf8),
    widths: found.map((type, index) => (isBinary[index] ? (widthOf(type!.oid) ?? 0) : 0)), // a binary one was found
    formats: isBinary.includes(true)
      ? Uint8Array.from(isBinary.flatMap((is) => [0, is ? 1 : 0]))
      : NO_FORMATS,
    hasProto: columns.some(({ name }) => name === '__proto__'),
    unknown: found.flatMap((type, index) => (type === undefined ? [index] : [])),
  };
}

/** A row as an object. Plain: one without prototype would be a slow dictionary, and no test would call it equal. */
export function readRow(plan: RowPlan, bytes: Buffer, at: number, end: number): Row {
  const { names, decoders, widths, hasProto } = plan;
  const row: Row = {};
  let from = firstValue(names.length, bytes, at, end);
  for (let index = 0; index < names.length; index++) {
    const length = lengthAt(bytes, from, end);
    from += 4;
    const value =
      length === NULL_LENGTH ? null : decode(decoders[index]!, widths[index]!, bytes, from, length); // both have one for each name
    if (length !== NULL_LENGTH) from += length;
    if (hasProto && names[index] === '__proto__')
      Object.defineProperty(row, '__proto__', {
        value,
        enumerable: true,
        configurable: true,
        writable: true,
      });
    else row[names[index]!] = value;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return row;
}

/** A row as a list. */
export function readValues(plan: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  const { decoders, widths } = plan;
  const values = new Array<unknown>(decoders.length);
  let from = firstValue(values.length, bytes, at, end);
  for (let index = 0; index < values.length; index++) {
    const length = lengthAt(bytes, from, end);
    from += 4;
    values[index] =
      length === NULL_LENGTH ? null : decode(decoders[index]!, widths[index]!, bytes, from, length); // as above
    if (length !== NULL_LENGTH) from += length;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return values;
}

/** Reads once more the values of columns whose types were unknown when the rows came. */
export function rereadRows(plan: RowPlan, types: PostgresTypes, rows: readonly (Row | unknown[])[]): void {
  for (const index of plan.unknown) {
    const read = types.get(plan.columns[index]!.typeOid)?.fromText;
    if (read === undefined) continue;
    const key = (name: string, row: Row | unknown[]): string => (Array.isArray(row) ? String(index) : name);
    for (const row of rows as Row[]) {
      const value = row[key(plan.names[index]!, row)];
      if (typeof value === 'string') row[key(plan.names[index]!, row)] = read(value); // of two columns of one name the last was kept, and is read last
    }
  }
}

/** Asks for types that are not built in. Of columns the server tells the base of a domain; of parameters, and of what is in an array, it does not. */
export const FIND_TYPES = `select t.oid::int8, t.typname, case when t.typsubscript = 'array_subscript_handler'::regproc then coalesce(nullif(e.typbasetype, 0), t.typelem) else 0 end::int8, coalesce(e.typdelim, t.typdelim), t.typbasetype::int8
  from pg_catalog.pg_type t left join pg_catalog.pg_type e on e.oid = t.typelem where t.oid = any ($1::oid[])`;

/** A row of {@link FIND_TYPES}. */
export function foundType([oid, name, elementOid, delimiter, baseOid]: readonly unknown[]): FoundType {
  return {
    oid: Number(oid),
    name: String(name),
    elementOid: Number(elementOid),
    delimiter: String(delimiter),
    baseOid: Number(baseOid),
  };
}

function firstValue(columns: number, bytes: Buffer, at: number, end: number): number {
  if (end - at < 2 || bytes.readUInt16BE(at) !== columns)
    throw new ProtocolViolation('a row of other columns than were described');
  return at + 2;
}

function lengthAt(bytes: Buffer, at: number, end: number): number {
  if (end - at < 4) throw new ProtocolViolation('a row that ends too early');
  const length = bytes.readInt32BE(at);
  if (length < NULL_LENGTH || length > end - at - 4)
    throw new ProtocolViolation('a value that is longer than its row');
  return length;
}

function decode(decoder: Decoder, width: number, bytes: Buffer, at: number, length: number): unknown {
  if (width !== 0 && width !== length)
    throw new ProtocolViolation(`a value of ${length} bytes, where its type has ${width}`);
  return decoder(bytes, at, at + length);
}

/** Asks which tables and types columns are of. */
export const FIND_COLUMNS = `select r.relname, pg_catalog.format_type(c.type_oid, c.modifier) from unnest($1::oid[], $2::oid[], $3::int4[]) with ordinality as c (rel, type_oid, modifier, n)
  left join pg_catalog.pg_class r on r.oid = c.rel order by c.n`;
