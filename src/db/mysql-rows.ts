/**
 * Rows of MySQL and MariaDB → objects or lists, by a plan that is made once for each statement and format.
 *
 *   binary  0  bitmap of NULLs, from its third bit on  values             text  values with their lengths; 0xfb is NULL
 */
import { readerOf, typeName, type Decoder } from './mysql-types.ts';
import { ProtocolViolation } from './protocol-violation.ts';
import type { Column, Row } from './driver.ts';
import type { WireColumn } from './mysql-messages.ts';
import type { MySqlValueOptions } from './mysql-options.ts';

/** How the rows of a statement are read. */
export interface RowPlan {
  readonly isText: boolean;
  readonly columns: readonly WireColumn[];
  readonly names: readonly string[];
  readonly decoders: readonly Decoder[];
  /** The bytes of a binary value; 0 where they have their length before them. */
  readonly widths: readonly number[];
  /** A column of this name must not become the prototype. */
  readonly hasProto: boolean;
  /** The packets that described the columns: the same ones are not read again. */
  readonly described: readonly Buffer[];
}

const NULL_LENGTH = -1;
const NULL_MARK = 0xfb;

/** A plan for rows of these columns. */
export function planRows(columns: readonly WireColumn[], described: readonly Buffer[], options: MySqlValueOptions, isText: boolean): RowPlan {
  const readers = columns.map((column) => readerOf(column, options, isText));
  return {
    isText, columns, described, names: columns.map(({ name }) => name), decoders: readers.map(({ decode }) => decode), widths: readers.map(({ width }) => width),
    hasProto: columns.some(({ name }) => name === '__proto__'),
  };
}

/** What a caller is told of the columns. */
export function shownColumns({ columns }: RowPlan): readonly Column[] {
  return columns.map((column) => ({ name: column.name, table: column.table === '' ? undefined : column.table, type: typeName(column) }));
}

/** A row as an object. Plain: one without prototype would be a slow dictionary, and no test would call it equal. */
export function readRow(plan: RowPlan, bytes: Buffer, at: number, end: number): Row {
  return plan.isText ? toObject(plan, readTextValues(plan, bytes, at, end)) : readBinaryRow(plan, bytes, at, end);
}

/** A row as a list. */
export function readValues(plan: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  return plan.isText ? readTextValues(plan, bytes, at, end) : readBinaryValues(plan, bytes, at, end);
}

function readBinaryRow(plan: RowPlan, bytes: Buffer, at: number, end: number): Row {
  const { names, decoders, widths, hasProto } = plan;
  if (hasProto) return toObject(plan, readBinaryValues(plan, bytes, at, end));
  const row: Row = {};
  let from = firstValue(names.length, bytes, at, end);
  for (let index = 0; index < names.length; index++) {
    if ((bytes[at + 1 + (index + 2 >> 3)]! & 1 << (index + 2 & 7)) !== 0) { // firstValue() has looked
      row[names[index]!] = null;
      continue;
    }
    const width = widths[index]!; // as many as names, like the decoders
    let to = from + width;
    if (width === 0) {
      const length = bytes[from]!;
      if (length < NULL_MARK) to = ++from + length;
      else [from, to] = longValue(bytes, from, end);
    }
    if (to > end) throw new ProtocolViolation('a value that is longer than its row');
    row[names[index]!] = decoders[index]!(bytes, from, to);
    from = to;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return row;
}

function readBinaryValues({ decoders, widths }: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  const values = new Array<unknown>(decoders.length);
  let from = firstValue(values.length, bytes, at, end);
  for (let index = 0; index < values.length; index++) {
    if ((bytes[at + 1 + (index + 2 >> 3)]! & 1 << (index + 2 & 7)) !== 0) {
      values[index] = null;
      continue;
    }
    const width = widths[index]!;
    let to = from + width;
    if (width === 0) {
      const length = bytes[from]!;
      if (length < NULL_MARK) to = ++from + length;
      else [from, to] = longValue(bytes, from, end);
    }
    if (to > end) throw new ProtocolViolation('a value that is longer than its row');
    values[index] = decoders[index]!(bytes, from, to);
    from = to;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return values;
}

function readTextValues({ decoders }: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  const values = new Array<unknown>(decoders.length);
  let from = at;
  for (let index = 0; index < values.length; index++) {
    if (from >= end) throw new ProtocolViolation('a row that ends too early');
    if (bytes[from] === NULL_MARK) {
      values[index] = null;
      from++;
      continue;
    }
    const [start, to] = longValue(bytes, from, end);
    if (to > end) throw new ProtocolViolation('a value that is longer than its row');
    values[index] = decoders[index]!(bytes, start, to);
    from = to;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return values;
}

function toObject({ names }: RowPlan, values: readonly unknown[]): Row {
  const row: Row = {};
  for (let index = 0; index < names.length; index++) {
    if (names[index] === '__proto__') Object.defineProperty(row, '__proto__', { value: values[index], enumerable: true, configurable: true, writable: true });
    else row[names[index]!] = values[index];
  }
  return row;
}

/** Where the values of a binary row begin: behind its bitmap. */
function firstValue(columns: number, bytes: Buffer, at: number, end: number): number {
  const from = at + 1 + (columns + 9 >> 3);
  if (from > end || bytes[at] !== 0) throw new ProtocolViolation('a row that is none');
  return from;
}

/** Where a value lies that has its length before it, as an integer of one to nine bytes. */
function longValue(bytes: Buffer, at: number, end: number): readonly [from: number, to: number] {
  const first = at < end ? bytes[at]! : NULL_LENGTH; // there is a byte
  if (first >= 0 && first < NULL_MARK) return [at + 1, at + 1 + first];
  const width = first === 0xfc ? 2 : first === 0xfd ? 3 : first === 0xfe ? 8 : 0;
  if (width === 0 || width >= end - at) throw new ProtocolViolation('a value without a length');
  const length = width === 8 ? Number(bytes.readBigUInt64LE(at + 1)) : bytes.readUIntLE(at + 1, width);
  return [at + 1 + width, at + 1 + width + length];
}
