/**
 * Values that may stand for a `?`, and why others may not. What would arrive as something else, or as NULL, is refused.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';

/**
 * A value that any engine can bind, and a list, which PostgreSQL takes for an array or for JSON, as the statement wants, and the
 * others refuse. `undefined` is almost always a mistake: write `null`.
 */
export type Parameter =
  null | string | number | bigint | boolean | Date | Bytes | Json | Typed | readonly Parameter[];

/** Bytes: a buffer, or a view of one, of which the part that it shows is meant. */
export type Bytes = Uint8Array | ArrayBufferView | ArrayBuffer;

/** Values for the placeholders of one statement, in their order. */
export type Params = readonly Parameter[];

/** A value that is stored as JSON text. Made by {@link json}. */
export class Json {
  /** What is stored. */
  readonly text: string;

  /** @internal */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * A value to be stored as JSON: objects and lists are refused without it, since engines disagree on what they mean.
 *
 * @throws SvcError `E_DB_PARAMETER` for what JSON cannot say: undefined, a function, a bigint, a circle
 */
export function json(value: unknown): Json {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch {
    // said below: a TypeError would name the engine's reasons, and may quote the value
  }
  if (text === undefined)
    throw new SvcError('E_DB_PARAMETER', ['json()', `${shown(value)} has no JSON text`]);
  return new Json(text);
}

/** A value and the type of the database that it is written as. Made by {@link typed}. */
export class Typed {
  readonly type: string;
  readonly value: unknown;

  /** @internal */
  constructor(type: string, value: unknown) {
    this.type = type;
    this.value = value;
  }
}

/** A value that `encode` of a type writes, of the option `types` of the database: `typed('vector', [1, 2, 3])`. */
export function typed(type: string, value: unknown): Typed {
  return new Typed(type, value);
}

/** Why no engine binds it, or undefined when one may. Never shows the value. */
export function parameterIssue(value: unknown): string | undefined {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed()
        ? undefined
        : 'text with half a surrogate pair, which no encoding can store';
    case 'number':
      return Number.isFinite(value) ? undefined : `${value}, which is no number in SQL: write null`;
    case 'bigint':
      return BigInt.asIntN(64, value) === value
        ? undefined
        : 'an integer that needs more than 64 bits: store it as text';
    case 'boolean':
      return undefined;
    case 'undefined':
      return 'undefined: write null if that is meant';
    case 'object':
      return objectIssue(value);
    default:
      return `a ${typeof value}`;
  }
}

function objectIssue(value: object | null): string | undefined {
  if (value === null || value instanceof Json || bytesOf(value) !== undefined) return undefined;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'an invalid Date' : undefined;
  if (value instanceof Typed)
    return `a value of the type "${value.type}", and the database has no option "types"`;
  if (value instanceof Promise) return 'a promise: await it first';
  if (Array.isArray(value))
    return 'an array: wrap it in json() to store it, or use sql.join() for a list of placeholders';
  return `${value.constructor === Object ? 'a plain object' : 'an object'}: wrap it in json() to store it`;
}

/** The bytes of a buffer or a view of one; undefined for anything else. */
export function bytesOf(value: object): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}

/** Sets a column of a row; one of the name `__proto__` does not become the prototype. */
export function setColumn(row: Record<string, unknown>, name: string, value: unknown): void {
  if (name === '__proto__')
    Object.defineProperty(row, name, { value, enumerable: true, configurable: true, writable: true });
  else row[name] = value;
}

/** Refuses a value by its place, counted from 1. `row`, where there are many, counts from 1 too. */
export function refuseParameter(position: number, problem: string, row?: number): never {
  throw new SvcError('E_DB_PARAMETER', [
    `parameter ${position}${row === undefined ? '' : ` of row ${row}`}`,
    problem,
  ]);
}

/** Refuses a number of values other than that of the placeholders. */
export function refuseCount(needed: number, given: number, row?: number): never {
  throw new SvcError('E_DB_PARAMETER_COUNT', [needed, given, row]);
}

/*
 * The text that `Date.prototype.toISOString` gives, in a tenth of its time: most dates that are written together are of one
 * day, whose text is kept, and the rest is looked up. By shared/bench/db, executeMany.
 */

const DAY_MS = 86_400_000;
/** `00:00:00.000Z` */
const TIME_CHARACTERS = 13;
const TWO: readonly string[] = Array.from({ length: 60 }, (_, value) => String(value).padStart(2, '0'));
const THREE: readonly string[] = Array.from({ length: 1_000 }, (_, value) => String(value).padStart(3, '0'));

let lastDay = NaN;
let lastText = '';

/** ISO 8601 with milliseconds and Z, of a date that is valid. */
export function isoText(date: Date): string {
  const ms = date.getTime();
  const day = Math.floor(ms / DAY_MS);
  if (day !== lastDay) [lastDay, lastText] = [day, date.toISOString().slice(0, -TIME_CHARACTERS)];
  const inDay = ms - day * DAY_MS;
  const seconds = Math.floor(inDay / 1_000);
  const minutes = Math.floor(seconds / 60);
  return `${lastText}${TWO[Math.floor(minutes / 60)]!}:${TWO[minutes % 60]!}:${TWO[seconds % 60]!}.${THREE[inDay % 1_000]!}Z`; // each within its table
}
