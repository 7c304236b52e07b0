/**
 * Redaction of objects: lists, records, maps, errors and instances → JSON text, as deep and as long as their budget goes.
 *
 * A line of the log has texts and numbers as a rule, which redact.ts writes: this file is loaded for the first object.
 */
import { types } from 'node:util';
import { MAX_KEY_CHARACTERS, MAX_MEMBERS, MAX_STRING_CHARACTERS, REDACTED, SECRET_HEADERS, THREW, members, quote, read, scalarJson, spend } from './redact-values.ts';
import type { Budget } from './redact-values.ts';

const MAX_DEPTH = 6;
const MAX_STACK_CHARACTERS = 8_192;

/** An object or a function; `ancestors` of the budget are what it is in. */
export function objectJson(value: object, depth: number, budget: Budget): string {
  try {
    if (typeof value === 'function') return quote(`[function ${(value as AnyFunction).name.slice(0, MAX_KEY_CHARACTERS)}]`);
    return shownJson(value, depth, budget);
  } catch {
    return '"[unreadable]"'; // a getter, proxy or toJSON() that throws
  }
}

type AnyFunction = (...args: never[]) => unknown;

function anyJson(value: unknown, depth: number, budget: Budget): string {
  return scalarJson(value, budget) ?? objectJson(value as object, depth, budget); // all that is no scalar
}

function shownJson(value: object, depth: number, budget: Budget): string {
  if (budget.ancestors.includes(value)) return '"[circular]"';
  if (depth >= MAX_DEPTH) return Array.isArray(value) ? '"[array]"' : '"[object]"';
  budget.ancestors.push(value);
  try {
    if (Array.isArray(value)) return listJson(value, value.length, depth, budget);
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype === Object.prototype || prototype === null) return recordJson(value, depth, budget);
    return opaque(value) ?? instanceJson(value as Instance, depth, budget);
  } finally {
    budget.ancestors.pop();
  }
}

/** Types of which only the size or the name is anybody's business. */
function opaque(value: object): string | undefined {
  if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return `"[${value.byteLength} bytes]"`;
  if (types.isKeyObject(value) || types.isCryptoKey(value)) return '"[key]"';
  if (types.isPromise(value)) return '"[promise]"';
  return undefined;
}

/** An object of some class; each member that is looked at may be missing, or of any type. */
type Instance = object & { readonly toJSON?: unknown };

function instanceJson(value: Instance, depth: number, budget: Budget): string {
  if (Error.isError(value) || value instanceof Error) return errorJson(value, depth, budget);
  if (types.isDate(value)) return Number.isNaN(value.getTime()) ? '"[invalid date]"' : quote(value.toISOString());
  if (types.isRegExp(value)) return spend(String(value), MAX_STRING_CHARACTERS, budget);
  if (value instanceof URL) return spend(value.href, MAX_STRING_CHARACTERS, budget);
  if (types.isSet(value)) return listJson([...firstOf(value)], value.size, depth, budget);
  if (types.isMap(value) || isPairs(value)) return mapJson(value, depth, budget);
  if (typeof value.toJSON === 'function') {
    const plain: unknown = value.toJSON();
    if (plain !== value) return anyJson(plain, depth + 1, budget);
  }
  return recordJson(value, depth, budget);
}

/** By tag, not by class: to name the class Headers would load all of fetch. */
function isPairs(value: object): value is Iterable<readonly [unknown, unknown]> {
  const tag = (value as { readonly [Symbol.toStringTag]?: unknown })[Symbol.toStringTag];
  return tag === 'Headers' || tag === 'URLSearchParams' || tag === 'FormData';
}

function* firstOf<T>(values: Iterable<T>): Generator<T> {
  let left = MAX_MEMBERS + 1;
  for (const value of values) {
    if (left-- === 0) return;
    yield value;
  }
}

function errorJson(error: Error, depth: number, budget: Budget): string {
  const parts: string[] = [];
  for (const name of ['name', 'code', 'message', 'remedy', 'stack', 'cause', 'errors'] as const) {
    const value = read(error, name);
    if (value === undefined || (value === THREW && name !== 'message')) continue;
    const limit = name === 'stack' ? MAX_STACK_CHARACTERS : MAX_STRING_CHARACTERS;
    parts.push(`"${name}":${value === THREW ? '"[threw]"' : typeof value === 'string' ? spend(value, limit, budget) : anyJson(value, depth + 1, budget)}`);
  }
  return `{${parts.join(',')}}`;
}

function listJson(list: readonly unknown[], length: number, depth: number, budget: Budget): string {
  const parts: string[] = [];
  for (let index = 0; index < list.length && index < MAX_MEMBERS && budget.values > 0; index++) {
    const before: unknown = list[index - 1];
    // rawHeaders is a flat list of names and values
    const isSecret = typeof before === 'string' && before.length < MAX_KEY_CHARACTERS && SECRET_HEADERS.has(before.toLowerCase());
    parts.push(isSecret ? REDACTED : anyJson(list[index], depth + 1, budget));
  }
  if (parts.length < length) parts.push(`"[${length - parts.length} more]"`);
  return `[${parts.join(',')}]`;
}

function mapJson(pairs: Iterable<readonly [unknown, unknown]>, depth: number, budget: Budget): string {
  const record: Record<string, unknown> = Object.create(null) as Record<string, unknown>;
  for (const [key, value] of firstOf(pairs)) record[typeof key === 'object' ? '[object]' : String(key)] = value;
  return recordJson(record, depth, budget);
}

function recordJson(record: object, depth: number, budget: Budget): string {
  return `{${members(record, Object.keys(record), depth, budget, anyJson).map(([key, json]) => `${quote(key)}:${json}`).join(',')}}`;
}
