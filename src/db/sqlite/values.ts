/**
 * Converts between JavaScript values and SQLite's five types: NULL, integer, real, text and blob.
 *
 * As the value of a placeholder, a whole number becomes an integer, and a boolean becomes 1 or 0. A json()
 * value becomes text. A Date becomes ISO 8601 text with Z, which sorts by time.
 *
 * In rows, an integer becomes a number, or a bigint beyond 2^53 - 1. A real becomes a number, and a blob a
 * Uint8Array.
 */
import { parameterIssue, refuseParameter } from '../parameters.ts';
import { checkCount } from '../placeholders.ts';
import { Json, bytesOf, type Parameter, type Params } from '../values.ts';
import { setOwn } from '../../base/options.ts';
import type { Int8, Row } from '../driver.ts';
import type { ScannedStatement } from '../placeholders.ts';

export type SqliteInput = null | number | bigint | string | Uint8Array;

/**
 * Checks the values, and converts them to SQLite's types. Without the conversion, node:sqlite would read a
 * Date or an array as named parameters.
 */
export function encodeParams(
  params: Params,
  { text, placeholders }: ScannedStatement,
  row?: number,
): SqliteInput[] {
  checkCount(params, placeholders, row);
  const inputs = new Array<SqliteInput>(placeholders);
  for (let index = 0; index < placeholders; index++) {
    const value = params[index]!;
    inputs[index] =
      // convert to a bigint, because node:sqlite binds a number as real, which a text column would store as
      // '5.0'
      typeof value === 'number' && Number.isSafeInteger(value)
        ? BigInt(value)
        : encode(value, index, row, text);
  }
  return inputs;
}

function encode(value: Parameter, index: number, row: number | undefined, sql: string): SqliteInput {
  const refusal = parameterIssue(value);
  if (refusal !== undefined) refuseParameter(refusal, { position: index + 1, row, sql });
  if (typeof value === 'string' || (typeof value !== 'object' && typeof value !== 'boolean')) return value;
  if (typeof value === 'boolean') return value ? 1n : 0n;
  if (value instanceof Date) return value.toISOString();
  if (value === null) return null;
  return value instanceof Json ? value.text : bytesOf(value)!;
}

/**
 * Converts a bigint from node:sqlite to the type that the option `int8` selects. Returns any other value
 * unchanged.
 */
export function decodeValue(value: unknown, int8: Int8): unknown {
  if (typeof value !== 'bigint') return value;
  if (int8 === 'bigint') return value;
  if (int8 === 'string') return String(value);
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/**
 * Returns a row as a plain object. An object without a prototype would be slower, and would not be deepEqual
 * to an object literal.
 */
export function rowOf(names: readonly string[], values: readonly unknown[], int8: Int8): Row {
  const row: Row = {};
  for (let index = 0; index < names.length; index++) {
    const value = values[index];
    setOwn(row, names[index]!, typeof value === 'bigint' ? decodeValue(value, int8) : value);
  }
  return row;
}
