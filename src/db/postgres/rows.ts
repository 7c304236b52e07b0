/**
 * Decodes DataRow messages to objects or lists. A RowPlan has one decoder for each column of a statement,
 * and is reused for all rows.
 */
import { widthOf, type Decoder, type FoundType, type PostgresTypes } from './types.ts';
import { utf8 } from '../wire/bytes.ts';
import { ProtocolViolation } from '../errors.ts';
import { setOwn } from '../../base/options.ts';
import type { RowReader } from '../wire/conversation.ts';
import type { WireColumn } from './messages.ts';
import type { PreparedColumn, Row, SqlValue } from '../driver.ts';

const NO_FORMATS = new Uint8Array(0);
const NULL_LENGTH = -1;

/** Decodes the rows of a statement, with one decoder for each column. */
export class RowPlan implements RowReader {
  readonly columns: readonly WireColumn[];
  readonly names: readonly string[];
  /** Formats of the result columns for a Bind message, two bytes each. Empty when all columns are text. */
  readonly formats: Uint8Array;
  /**
   * Indexes of columns with unknown types. Their values are read as text, and decoded when the types are
   * known.
   */
  readonly unknown: readonly number[];
  readonly #decoders: readonly Decoder[];
  /** For each column: required length of a binary value in bytes, or 0 if every length is valid. */
  readonly #widths: readonly number[];
  /** Whether a column has the name `__proto__`. An assignment to this name would not create a property. */
  readonly #hasProto: boolean;

  /**
   * `isText` is true when all columns are read as text. Otherwise columns are read as binary if that is
   * faster.
   */
  constructor(columns: readonly WireColumn[], types: PostgresTypes, isText: boolean) {
    const found = columns.map(({ typeOid }) => types.get(typeOid));
    const isBinary = found.map((type) => !isText && type?.decodeBinary !== undefined);
    this.columns = columns;
    this.names = columns.map(({ name }) => name);
    this.formats = isBinary.includes(true)
      ? Uint8Array.from(isBinary.flatMap((is) => [0, is ? 1 : 0]))
      : NO_FORMATS;
    this.unknown = found.flatMap((type, index) => (type === undefined ? [index] : []));
    this.#decoders = found.map(
      (type, index) => (isBinary[index] ? type?.decodeBinary : type?.decodeText) ?? utf8,
    );
    this.#widths = found.map((type, index) => (isBinary[index] ? (widthOf(type!.oid) ?? 0) : 0));
    this.#hasProto = this.names.includes('__proto__');
  }

  object(bytes: Buffer, at: number, end: number): Row {
    const { names } = this;
    const row: Row = {};
    let from = this.#begin(bytes, at, end);
    for (let index = 0; index < names.length; index++) {
      const length = lengthAt(bytes, from, end);
      from += 4;
      const value = length === NULL_LENGTH ? null : this.#decode(index, bytes, from, length);
      if (length !== NULL_LENGTH) from += length;
      if (this.#hasProto) setOwn(row, names[index]!, value);
      else row[names[index]!] = value;
    }
    if (from !== end)
      throw new ProtocolViolation('the server sent extra bytes after the last value of a row');
    return row;
  }

  list(bytes: Buffer, at: number, end: number): unknown[] {
    const values = new Array<unknown>(this.names.length);
    let from = this.#begin(bytes, at, end);
    for (let index = 0; index < values.length; index++) {
      const length = lengthAt(bytes, from, end);
      from += 4;
      values[index] = length === NULL_LENGTH ? null : this.#decode(index, bytes, from, length);
      if (length !== NULL_LENGTH) from += length;
    }
    if (from !== end)
      throw new ProtocolViolation('the server sent extra bytes after the last value of a row');
    return values;
  }

  #begin(bytes: Buffer, at: number, end: number): number {
    if (end - at < 2 || bytes.readUInt16BE(at) !== this.names.length)
      throw new ProtocolViolation(
        'the server sent a row whose number of columns differs from the description of the result',
      );
    return at + 2;
  }

  #decode(index: number, bytes: Buffer, at: number, length: number): SqlValue {
    const width = this.#widths[index]!;
    if (width !== 0 && width !== length)
      throw new ProtocolViolation(`the server sent a value of ${length} bytes for a type of ${width} bytes`);
    // the decoder of a custom type may return any value
    return this.#decoders[index]!(bytes, at, at + length) as SqlValue;
  }
}

/** Decodes columns whose types were unknown when the rows arrived. Until now, their values are text. */
export function rereadRows(plan: RowPlan, types: PostgresTypes, rows: readonly (Row | unknown[])[]): void {
  for (const index of plan.unknown) {
    const read = types.get(plan.columns[index]!.typeOid)?.fromText;
    if (read === undefined) continue;
    const key = (name: string, row: Row | unknown[]): string => (Array.isArray(row) ? String(index) : name);
    for (const row of rows as Row[]) {
      const value = row[key(plan.names[index]!, row)];
      // a value that is not text is NULL or already decoded
      if (typeof value === 'string') row[key(plan.names[index]!, row)] = read(value) as SqlValue;
    }
  }
}

/**
 * Query for types that are not built in. It also returns the base types of domains, because parameters and
 * array elements may have a domain as their type.
 */
export const FIND_TYPES = `select t.oid::int8, t.typname, case when t.typsubscript = 'array_subscript_handler'::regproc then coalesce(nullif(e.typbasetype, 0), t.typelem) else 0 end::int8, coalesce(e.typdelim, t.typdelim), t.typbasetype::int8, coalesce(b.typname, e.typname)
  from pg_catalog.pg_type t left join pg_catalog.pg_type e on e.oid = t.typelem left join pg_catalog.pg_type b on b.oid = nullif(e.typbasetype, 0) where t.oid = any ($1::oid[])`;

export function foundType([
  oid,
  name,
  elementOid,
  delimiter,
  baseOid,
  elementName,
]: readonly unknown[]): FoundType {
  return {
    oid: Number(oid),
    name: String(name),
    elementOid: Number(elementOid),
    delimiter: String(delimiter),
    baseOid: Number(baseOid),
    elementName: elementName === null ? undefined : String(elementName),
  };
}

function lengthAt(bytes: Buffer, at: number, end: number): number {
  if (end - at < 4) throw new ProtocolViolation('the server sent a truncated row');
  const length = bytes.readInt32BE(at);
  if (length < NULL_LENGTH || length > end - at - 4)
    throw new ProtocolViolation('the server sent a value that exceeds its row');
  return length;
}

/**
 * Query for the tables and the types of columns. A column of a view is not known to be free of NULL, nor is one of
 * a table with child tables, which need not have the constraint of their parent.
 */
export const FIND_COLUMNS = `select r.relname, pg_catalog.format_type(c.type_oid, c.modifier), a.attname,
    case when not pg_catalog.pg_table_is_visible(r.oid) then n.nspname end,
    case when r.relkind = 'p' or r.relkind = 'r' and not r.relhassubclass then not (a.attnotnull or t.typnotnull) end
  from unnest($1::oid[], $2::int2[], $3::oid[], $4::int4[]) with ordinality as c (rel, attribute, type_oid, modifier, place)
  left join pg_catalog.pg_class r on r.oid = c.rel left join pg_catalog.pg_namespace n on n.oid = r.relnamespace
  left join pg_catalog.pg_attribute a on a.attrelid = c.rel and a.attnum = c.attribute
  left join pg_catalog.pg_type t on t.oid = a.atttypid order by c.place`;

/** Returns the parameters of {@link FIND_COLUMNS}. */
export function columnLists(columns: readonly WireColumn[]): string[] {
  const list = (of: (column: WireColumn) => number): string => `{${columns.map(of).join(',')}}`;
  return [
    list(({ tableOid }) => tableOid),
    list(({ attribute }) => attribute),
    list(({ typeOid }) => typeOid),
    list(({ typeModifier }) => typeModifier),
  ];
}

export function foundColumn(
  { name, typeOid, typeModifier }: WireColumn,
  row: readonly unknown[] = [],
): PreparedColumn {
  const [table, type, column, schema] = row.map((value) => (typeof value === 'string' ? value : undefined));
  return {
    name,
    type: type === undefined ? undefined : { name: type, oid: typeOid, modifier: typeModifier },
    table,
    schema,
    column,
    isNullable: typeof row[4] === 'boolean' ? row[4] : undefined,
  };
}
