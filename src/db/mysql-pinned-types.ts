/**
 * The types that MySQL from 8.0.22 on gives to a prepared statement's parameters when it is run for the first time: what is bound
 * later is made to fit them, so that `select ?` with 5 and then with 'abc' gives 5 and 0. So a statement is used for values of one
 * kind only, and prepared once more for those of another. NULL is of every kind, and a whole number may stand for any number. So it
 * is with values for columns, too: 0.1 for a TEXT becomes 0000-00-00 where a Date came first. MariaDB, and MySQL before, take each
 * value as it is.
 */
import { Json, type Params } from './values.ts';

const KIND = { any: 0, integer: 1, wide: 2, float: 3, text: 4, bytes: 5, instant: 6 } as const;
const MAX_INT64 = 2n ** 63n - 1n;

/** The kinds of a statement's parameters, as far as they are known. */
export type Kinds = Uint8Array;

/** Whether values may be bound to a statement of these kinds. */
export function fits(kinds: Kinds, params: Params): boolean {
  for (let index = 0; index < params.length; index++) {
    const kind = kindOf(params[index]);
    if (kind === KIND.any || kinds[index] === KIND.any || kinds[index] === kind) continue;
    if (kinds[index] !== KIND.float || kind !== KIND.integer || typeof params[index] === 'bigint') return false;
  }
  return true;
}

/** Writes down of which kinds they are. `perRow`: values of one row; where one row has a number that is not whole, all have. */
export function pin(kinds: Kinds, params: Params, perRow: number = params.length): void {
  for (let index = 0; index < params.length; index++) {
    const kind = kindOf(params[index]);
    if (kind !== KIND.any && kinds[index] !== KIND.float) kinds[index] = kind;
  }
  if (perRow < params.length) for (let column = 0; column < perRow; column++) widen(kinds, params, column, perRow);
}

/** Whether a number is sent as one that need not be whole. */
export function isFloat(kinds: Kinds | undefined, index: number): boolean { return kinds !== undefined && kinds[index] === KIND.float; }

function widen(kinds: Kinds, params: Params, column: number, perRow: number): void {
  let hasFloat = false;
  let isOfNumbers = true;
  for (let index = column; index < kinds.length; index += perRow) {
    hasFloat ||= kinds[index] === KIND.float;
    isOfNumbers &&= kinds[index] === KIND.any || kinds[index] === KIND.float || typeof params[index] === 'number';
  }
  if (hasFloat && isOfNumbers) for (let index = column; index < kinds.length; index += perRow) kinds[index] = KIND.float;
}

/** The kinds of values, for a key of a cache. */
export function kindsKey(params: Params): string {
  return params.map(kindOf).join('');
}

function kindOf(value: unknown): number {
  switch (typeof value) {
    case 'number': return Number.isSafeInteger(value) && !Object.is(value, -0) ? KIND.integer : KIND.float;
    case 'string': return KIND.text;
    case 'bigint': return value > MAX_INT64 ? KIND.wide : KIND.integer;
    case 'boolean': return KIND.integer;
    default: return value === null ? KIND.any : value instanceof Uint8Array ? KIND.bytes : value instanceof Json ? KIND.text : KIND.instant; // all else is refused
  }
}
