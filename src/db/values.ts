/**
 * Types and functions for the values of placeholders and of rows.
 */
import { SvcError } from '../base/errors.ts';
import { shown } from '../base/options.ts';

/** A value for a placeholder. Only PostgreSQL accepts arrays. `undefined` is refused: write `null`. */
export type Parameter =
  null | string | number | bigint | boolean | Date | Bytes | Json | Typed | readonly Parameter[];

/** A buffer, or a view of a buffer. Only the bytes inside the view are used. */
export type Bytes = Uint8Array | ArrayBufferView | ArrayBuffer;

/** Values for the placeholders of one statement, in order. */
export type Params = readonly Parameter[];

/**
 * Base class of values that are made for a placeholder. Without a meaning as text or JSON of its own, the
 * conversion of a value throws `E_DB_PARAMETER`, because it would give `[object Object]` or the properties.
 */
export abstract class Bound {
  /** Function that makes the value, for error messages. */
  protected abstract readonly maker: string;

  /** @internal */
  toString(): string {
    throw this.#misplaced('text');
  }

  /** @internal */
  toJSON(): unknown {
    throw this.#misplaced('JSON');
  }

  #misplaced(target: string): SvcError {
    return new SvcError('E_DB_PARAMETER', [
      `a value of ${this.maker}`,
      `it cannot be converted to ${target}: pass it as the value of a placeholder`,
    ]);
  }
}

/** A value that is stored as JSON text. Made by {@link json}. */
export class Json extends Bound {
  readonly text: string;

  /** @internal */
  constructor(text: string) {
    super();
    this.text = text;
  }

  protected get maker(): string {
    return 'json()';
  }

  /** @internal */
  override toString(): string {
    return this.text;
  }

  /** Returns the value itself, so that a json() value may be part of another one. @internal */
  override toJSON(): unknown {
    return JSON.parse(this.text);
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
    throw new SvcError('E_DB_PARAMETER', ['json()', `JSON cannot express the value, found ${shown(value)}`]);
  return new Json(text);
}

/** A value that is written as a custom type of the database. Made by {@link typed}. */
export class Typed extends Bound {
  readonly type: string;
  readonly value: unknown;

  /** @internal */
  constructor(type: string, value: unknown) {
    super();
    this.type = type;
    this.value = value;
  }

  protected get maker(): string {
    return 'typed()';
  }
}

/**
 * Marks a value of a custom type: `typed('vector', [1, 2, 3])`. The function `encode` of this type, set by
 * the option `types`, converts the value.
 */
export function typed(type: string, value: unknown): Typed {
  return new Typed(type, value);
}

/** Returns the bytes of a buffer or view, or undefined for any other value. */
export function bytesOf(value: unknown): Uint8Array | undefined {
  if (value instanceof Uint8Array) return value;
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return value instanceof ArrayBuffer ? new Uint8Array(value) : undefined;
}
