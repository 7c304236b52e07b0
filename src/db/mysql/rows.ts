/**
 * Decodes rows of MySQL and MariaDB to objects or lists. A RowPlan, the decoders of a statement's columns, is
 * created once per statement and format.
 *
 * A binary row consists of a byte 0, a bitmap of NULLs, and the values. The first two bits of the bitmap are
 * unused. In a text row, each value follows its length, and NULL is the byte 0xfb.
 */
import { readerOf, typeName, type Decoder } from './types.ts';
import { ProtocolViolation } from '../errors.ts';
import { setOwn } from '../../base/options.ts';
import type { RowReader } from '../wire/conversation.ts';
import type { Column, PreparedColumn, Row } from '../driver.ts';
import type { WireColumn } from './messages.ts';
import type { MySqlValueOptions } from './url.ts';

const NULL_LENGTH = -1;
const NULL_MARK = 0xfb;

/** Row that a plan fills: an object or a list. */
type Target = Record<string | number, unknown>;
/** Column names for an object, and indexes for a list. */
type Keys = readonly (string | number)[];

/** Decodes the rows of a statement, with one decoder for each column. */
export class RowPlan implements RowReader {
  /** Whether rows have the text format. Rows of prepared statements have the binary format. */
  readonly isText: boolean;
  readonly columns: readonly WireColumn[];
  /** Packets that described the columns. A packet that is equal to one of them is not parsed again. */
  readonly described: readonly Buffer[];
  readonly #names: readonly string[];
  readonly #numbers: readonly number[];
  readonly #decoders: readonly Decoder[];
  /** Length in bytes of each binary value. 0 means that the value has a length prefix. */
  readonly #widths: readonly number[];
  /** Whether a column has the name `__proto__`. An assignment to this name would not create a property. */
  readonly #hasProto: boolean;

  constructor(
    columns: readonly WireColumn[],
    described: readonly Buffer[],
    options: MySqlValueOptions,
    isText: boolean,
  ) {
    const readers = columns.map((column) => readerOf(column, options, isText));
    this.isText = isText;
    this.columns = columns;
    this.described = described;
    this.#names = columns.map(({ name }) => name);
    this.#numbers = [...columns.keys()];
    this.#decoders = readers.map(({ decode }) => decode);
    this.#widths = readers.map(({ width }) => width);
    this.#hasProto = this.#names.includes('__proto__');
  }

  shownColumns(): readonly Column[] {
    return this.columns.map((column) => ({
      name: column.name,
      table: column.table === '' ? undefined : column.table,
      type: typeName(column),
    }));
  }

  object(bytes: Buffer, at: number, end: number): Row {
    const names = this.#names;
    const row: Row = {};
    if (this.#hasProto)
      this.list(bytes, at, end).forEach((value, index) => setOwn(row, names[index]!, value));
    else this.#read(row, names, bytes, at, end);
    return row;
  }

  list(bytes: Buffer, at: number, end: number): unknown[] {
    const values = new Array<unknown>(this.#names.length);
    this.#read(values as unknown as Row, this.#numbers, bytes, at, end);
    return values;
  }

  /** Decodes values into `row`. */
  #read(row: Target, keys: Keys, bytes: Buffer, at: number, end: number): void {
    const last = this.isText
      ? this.#text(row, keys, bytes, at, end)
      : this.#binary(row, keys, bytes, at, end);
    if (last !== end)
      throw new ProtocolViolation('the server sent extra bytes after the last value of a row');
  }

  /** Reads the values of a binary row. Returns the offset after the last value. */
  #binary(row: Target, keys: Keys, bytes: Buffer, at: number, end: number): number {
    const decoders = this.#decoders;
    const widths = this.#widths;
    let from = firstValue(keys.length, bytes, at, end);
    for (let index = 0; index < keys.length; index++) {
      if (isNull(bytes, at, index)) {
        row[keys[index]!] = null;
        continue;
      }
      const width = widths[index]!;
      let to = from + width;
      if (width === 0) {
        const length = bytes[from]!;
        if (length < NULL_MARK) to = ++from + length;
        else [from, to] = longValue(bytes, from, end);
      }
      if (to > end) throw new ProtocolViolation('the server sent a value that exceeds its row');
      row[keys[index]!] = decoders[index]!(bytes, from, to);
      from = to;
    }
    return from;
  }

  #text(row: Target, keys: Keys, bytes: Buffer, at: number, end: number): number {
    let from = at;
    for (let index = 0; index < keys.length; index++) {
      if (from >= end) throw new ProtocolViolation('the server sent a truncated row');
      if (bytes[from] === NULL_MARK) {
        row[keys[index]!] = null;
        from++;
        continue;
      }
      const [start, to] = longValue(bytes, from, end);
      if (to > end) throw new ProtocolViolation('the server sent a value that exceeds its row');
      row[keys[index]!] = this.#decoders[index]!(bytes, start, to);
      from = to;
    }
    return from;
  }
}

/** Returns whether a value of a binary row is NULL. firstValue() has checked the length of the bitmap. */
function isNull(bytes: Buffer, at: number, index: number): boolean {
  return (bytes[at + 1 + ((index + 2) >> 3)]! & (1 << ((index + 2) & 7))) !== 0;
}

/** Returns the offset of the first value of a binary row, which follows the bitmap of NULLs. */
function firstValue(columns: number, bytes: Buffer, at: number, end: number): number {
  const from = at + 1 + ((columns + 9) >> 3);
  if (from > end || bytes[at] !== 0)
    throw new ProtocolViolation('the server sent a binary row with an invalid beginning');
  return from;
}

/** Returns the range of a value with a length prefix. The prefix is an integer of one to nine bytes. */
function longValue(bytes: Buffer, at: number, end: number): readonly [from: number, to: number] {
  const first = at < end ? bytes[at]! : NULL_LENGTH;
  if (first >= 0 && first < NULL_MARK) return [at + 1, at + 1 + first];
  const width = first === 0xfc ? 2 : first === 0xfd ? 3 : first === 0xfe ? 8 : 0;
  if (width === 0 || width >= end - at)
    throw new ProtocolViolation('the server sent a value without a length');
  const length = width === 8 ? Number(bytes.readBigUInt64LE(at + 1)) : bytes.readUIntLE(at + 1, width);
  return [at + 1 + width, at + 1 + width + length];
}

const NOT_NULL = 0x01;

/** Converts the description of a column. `database` is the current one, whose tables need no schema. */
export function preparedColumn(column: WireColumn, database: string | undefined): PreparedColumn {
  const { schema, flags } = column;
  const isOfTable = column.column !== '' && column.table !== '';
  return {
    name: column.name,
    type: { name: typeName(column) },
    table: isOfTable ? column.table : undefined,
    schema: isOfTable && schema !== database ? schema : undefined,
    column: isOfTable ? column.column : undefined,
    isNullable: isOfTable ? (flags & NOT_NULL) === 0 : undefined,
  };
}
