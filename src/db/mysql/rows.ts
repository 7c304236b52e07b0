/**
 * Rows of MySQL and MariaDB -> objects or lists, by a plan that is made once for each statement and format.
 *
 *   binary  0  bitmap of NULLs, from its third bit on  values             text  values with their lengths; 0xfb is NULL
 */
import { double, latin1, readerOf, signed32, signed8, typeName, utf8, wide, type Decoder } from './types.ts';
import { ProtocolViolation } from '../errors.ts';
import type { Column, Row } from '../driver.ts';
import type { WireColumn } from './messages.ts';
import type { MySqlValueOptions } from './url.ts';

/** How the rows of a statement are read. */
export interface RowPlan {
  readonly isText: boolean;
  readonly columns: readonly WireColumn[];
  readonly names: readonly string[];
  readonly decoders: readonly Decoder[];
  /** The kinds of the decoders, by FORM. */
  readonly forms: readonly number[];
  /** The bytes of a binary value; 0 where they have their length before them. */
  readonly widths: readonly number[];
  /** A column of this name must not become the prototype. */
  readonly hasProto: boolean;
  /** The packets that described the columns: the same ones are not read again. */
  readonly described: readonly Buffer[];
}

const NULL_LENGTH = -1;
const NULL_MARK = 0xfb;

/** Decoders that most columns have. A call of what stands in the plan, another function each time, costs more than most of them do. */
const FORM = { other: 0, text: 1, ascii: 2, int32: 3, int8: 4, float64: 5, int64: 6 } as const;
const FORMS: ReadonlyMap<Decoder, number> = new Map<Decoder, number>([
  [utf8, FORM.text],
  [latin1, FORM.ascii],
  [signed32, FORM.int32],
  [signed8, FORM.int8],
  [double, FORM.float64],
  [wide, FORM.int64],
]);

/** A plan for rows of these columns. */
export function planRows(
  columns: readonly WireColumn[],
  described: readonly Buffer[],
  options: MySqlValueOptions,
  isText: boolean,
): RowPlan {
  const readers = columns.map((column) => readerOf(column, options, isText));
  return {
    isText,
    columns,
    described,
    names: columns.map(({ name }) => name),
    decoders: readers.map(({ decode }) => decode),
    forms: readers.map(({ decode }) => FORMS.get(decode) ?? FORM.other),
    widths: readers.map(({ width }) => width),
    hasProto: columns.some(({ name }) => name === '__proto__'),
  };
}

/** What a caller is told of the columns. */
export function shownColumns({ columns }: RowPlan): readonly Column[] {
  return columns.map((column) => ({
    name: column.name,
    table: column.table === '' ? undefined : column.table,
    type: typeName(column),
  }));
}

/** A row as an object. Plain: one without prototype would be a slow dictionary, and no test would call it equal. */
export function readRow(plan: RowPlan, bytes: Buffer, at: number, end: number): Row {
  return plan.isText
    ? toObject(plan, readTextValues(plan, bytes, at, end))
    : readBinaryRow(plan, bytes, at, end);
}

/** A row as a list. */
export function readValues(plan: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  return plan.isText ? readTextValues(plan, bytes, at, end) : readBinaryValues(plan, bytes, at, end);
}

/** Values lie behind one another, so that one look at the end shows whether all of them were there; before memory is taken for a long one there is another. */
function readBinaryRow(plan: RowPlan, bytes: Buffer, at: number, end: number): Row {
  if (plan.hasProto) return toObject(plan, readBinaryValues(plan, bytes, at, end));
  const { names, forms, widths, decoders } = plan;
  const row: Row = {};
  let from = firstValue(names.length, bytes, at, end);
  for (let index = 0; index < names.length; index++) {
    let value: unknown = null;
    if (!isNull(bytes, at, index)) {
      switch (forms[index]) {
        case FORM.int32:
          value = signed32(bytes, from);
          from += 4;
          break;
        case FORM.int8:
          value = signed8(bytes, from++);
          break;
        case FORM.float64:
          value = double(bytes, from);
          from += 8;
          break;
        case FORM.int64:
          if (end - from < 8) throw new ProtocolViolation('a value that is longer than its row');
          value = wide(bytes, from);
          from += 8;
          break;
        default: {
          const width = widths[index]!; // as many as names, like the decoders
          let to = from + width;
          if (width === 0) {
            const length = bytes[from]!;
            if (length < NULL_MARK) to = ++from + length;
            else [from, to] = longValue(bytes, from, end);
          }
          if (to > end) throw new ProtocolViolation('a value that is longer than its row');
          value =
            forms[index] === FORM.text
              ? utf8(bytes, from, to)
              : forms[index] === FORM.ascii
                ? latin1(bytes, from, to)
                : decoders[index]!(bytes, from, to);
          from = to;
        }
      }
    }
    row[names[index]!] = value;
  }
  if (from !== end) throw new ProtocolViolation('a row with bytes behind its last value');
  return row;
}

function readBinaryValues({ decoders, widths }: RowPlan, bytes: Buffer, at: number, end: number): unknown[] {
  const values = new Array<unknown>(decoders.length);
  let from = firstValue(values.length, bytes, at, end);
  for (let index = 0; index < values.length; index++) {
    if (isNull(bytes, at, index)) {
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

/** In the bitmap of a binary row, which firstValue() has looked at. */
function isNull(bytes: Buffer, at: number, index: number): boolean {
  return (bytes[at + 1 + ((index + 2) >> 3)]! & (1 << ((index + 2) & 7))) !== 0;
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
    if (names[index] === '__proto__')
      Object.defineProperty(row, '__proto__', {
        value: values[index],
        enumerable: true,
        configurable: true,
        writable: true,
      });
    else row[names[index]!] = values[index];
  }
  return row;
}

/** Where the values of a binary row begin: behind its bitmap. */
function firstValue(columns: number, bytes: Buffer, at: number, end: number): number {
  const from = at + 1 + ((columns + 9) >> 3);
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
