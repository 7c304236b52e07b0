/**
 * Values of placeholders and of rows.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';

/**
 * A value for a placeholder. Only PostgreSQL binds arrays, as an array or as JSON, whichever the statement
 * needs; other engines refuse them. `undefined` is refused, because it is almost always a mistake: write
 * `null`.
 */
export type Parameter =
  null | string | number | bigint | boolean | Date | Bytes | Json | Typed | readonly Parameter[];

/** Bytes: a buffer or a view. For a view, only the bytes that it covers are used. */
export type Bytes = Uint8Array | ArrayBufferView | ArrayBuffer;

/** Values for the placeholders of one statement, in order. */
export type Params = readonly Parameter[];

/** A value that is stored as JSON text. Made by {@link json}. */
export class Json {
  readonly text: string;

  /** @internal */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Marks a value to be stored as JSON. Without this mark, objects and arrays are refused, because engines
 * disagree on their meaning.
 *
 * @throws SvcError `E_DB_PARAMETER` for a value that JSON cannot express: undefined, a function, a bigint, a
 *   cycle
 */
export function json(value: unknown): Json {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // ignore the TypeError, whose message may quote the value: E_DB_PARAMETER is thrown below
  }
  if (text === undefined)
    throw new SvcError('E_DB_PARAMETER', ['json()', `a value without a JSON form: ${shown(value)}`]);
  return new Json(text);
}

/** A value that is written as a custom type of the database. Made by {@link typed}. */
export class Typed {
  readonly type: string;
  readonly value: unknown;

  /** @internal */
  constructor(type: string, value: unknown) {
    this.type = type;
    this.value = value;
  }
}

/**
 * Marks a value that the function `encode` of a custom type converts: `typed('vector', [1, 2, 3])`. The
 * option `types` defines that type.
 */
export function typed(type: string, value: unknown): Typed {
  return new Typed(type, value);
}

/** Returns the bytes of a buffer or view, or undefined for any other object. */
export function bytesOf(value: object): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/**
 * Sets a column of a row. A column named `__proto__` becomes an own property and does not change the
 * prototype.
 */
export function setColumn(row: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
  else row[name] = value;
}

/*
 * Formats dates like `Date.prototype.toISOString`, in a tenth of its time. Dates that are written together
 * usually share a day, so the text of the last day is kept. The time of day is put together from tables.
 */

const DAY_MS = 86_400_000;
const TIME_CHARACTERS = 13;
const TWO: readonly string[] = Array.from({ length: 60 }, (_, value) => String(value).padStart(2, '0'));
const THREE: readonly string[] = Array.from({ length: 1_000 }, (_, value) => String(value).padStart(3, '0'));

let lastDay = NaN;
let lastText = '';

/** Returns a valid date as ISO 8601 with milliseconds and Z. */
export function isoText(date: Date): string {
  const ms = date.getTime();
  const day = Math.floor(ms / DAY_MS);
  if (day !== lastDay) [lastDay, lastText] = [day, date.toISOString().slice(0, -TIME_CHARACTERS)];
  const inDay = ms - day * DAY_MS;
  const seconds = Math.floor(inDay / 1_000);
  const minutes = Math.floor(seconds / 60);
  return `${lastText}${TWO[Math.floor(minutes / 60)]!}:${TWO[minutes % 60]!}:${TWO[seconds % 60]!}.${THREE[inDay % 1_000]!}Z`;
}
